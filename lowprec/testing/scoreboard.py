"""A scoreboard for hardware under simulation: it keeps a device's transactions, and judges them at the end.

Only `Scoreboard.follow` needs a simulator: `pip install "lowprec[cocotb]"`.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lowprec.arrays.checks import code_dtype, projection as projection_of
from lowprec.arrays.convert import decode
from lowprec.spec import catalog
from lowprec.spec.accumulation import Accumulation
from lowprec.spec.accumulations import accumulation as accumulation_of
from lowprec.spec.format import Format
from lowprec.spec.profiles import Profile
from lowprec.spec.projection import Projection, Saturation
from lowprec.spec.rounding import Rounding
from lowprec.verify.compare import compare
from lowprec.verify.comparison import Comparison
from lowprec.verify.files import write
from lowprec.verify.operations import OPERATIONS, check_operands, operand_format

__all__ = ["Scoreboard"]


class Scoreboard:
    """Collects operands and results of a device, and ends a test with what differs, and why.

    >>> board = Scoreboard("add", "e4m3fn", "e4m3fn", "e4m3fn", rounding="toward_zero")
    >>> board.add(0x38, 0x38, result=0x40)                               # 1 + 1 = 2
    >>> board.add(0x38, 0x18, result=0x39)                               # 1 + 1/16, rounded up
    >>> print(board.report().sum())
    1 of 2 results differ (50%): 1 at a tie

    `check()` then fails with the whole report, where an index counts the transactions that have a result.

    Parameters
    ----------
    operation : str
        "convert", "add", "fma" or any other operation; or "dot", with an accumulation.
    *formats : Format or str
        Of the operands, then of the result; a dot product has those of x and y, and its accumulation
        says the result's.
    accumulation : Accumulation or str
        Of a dot product; its operands, if it has any, are the formats of x and y by default.
    ulps, any_nan
        As for `lowprec.compare`.
    flags : bool
        Whether each transaction has exception flags too, as `lowprec.Flag` numbers them.
    rounding, saturation, projection, profile
        Of conversions and operations, as for `lowprec.encode`.

    Raises
    ------
    ValueError
        Formats that the operation does not take.
    """

    def __init__(
        self,
        operation: str,
        *formats: Format | str,
        accumulation: Accumulation | str | None = None,
        ulps: int | str | None = None,
        any_nan: bool = False,
        flags: bool = False,
        rounding: Rounding | str | None = None,
        saturation: Saturation | str | None = None,
        projection: Projection | None = None,
        profile: Profile | str | None = None,
    ) -> None:
        self.operation, self.flags = operation, flags
        self._options: dict[str, Any] = {"ulps": ulps, "any_nan": any_nan}
        how = {"rounding": rounding, "saturation": saturation, "projection": projection, "profile": profile}
        self.accumulation: Accumulation | None = None
        known = [operand_format(fmt) if isinstance(fmt, str) else fmt for fmt in formats]
        if operation == "dot":
            if accumulation is None:
                raise ValueError("a scoreboard of 'dot' needs accumulation=, which says what is right")
            for name, value in {**how, "flags": flags or None}.items():
                if value is not None:
                    raise ValueError(
                        f"{name}= says nothing about 'dot', which goes by accumulation=; leave it out"
                    )
            self.accumulation = accumulation_of(accumulation)
            known = known or list(self.accumulation.operands or ())
            wanted, self.target = 2, self.accumulation.output[0]
            self._formats = known
        elif accumulation is not None:
            raise ValueError(f"accumulation= is for 'dot', not for {operation!r}; leave it out")
        elif operation in OPERATIONS:
            wanted, self.target = OPERATIONS[operation].operands + 1, known[-1] if known else catalog.BINARY32
            self._formats = known[:-1]
        else:
            raise ValueError(f"unknown operation {operation!r}; use dot or one of {', '.join(OPERATIONS)}")
        if len(known) != wanted:
            raise ValueError(f"{operation} has {wanted} formats here, not {len(known)}")
        if operation != "dot":
            check_operands(operation, tuple(known))
            rule = projection_of(self.target, rounding, saturation, projection, profile)
            self._options["projection"] = rule
        self._operands: list[tuple[Any, ...]] = []
        self._results: list[int] = []
        self._flags: list[int] = []
        self.undefined: list[int] = []  #: numbers of the transactions whose results had x or z
        self.unanswered = 0  #: operands that `follow` saw without a result

    def __len__(self) -> int:
        return len(self._operands) + len(self.undefined)

    def add(self, *operands: Any, result: Any, flags: Any = None, addend: Any = None) -> None:
        """Keep one transaction.

        Parameters
        ----------
        *operands : int or value of a signal; of "dot" x and y
            Codes. Those of a vector are a sequence, or a signal with lane 0 in its lowest bits.
        result : int or value of a signal
            A code. With x or z in it, it fails the test.
        flags : int or value of a signal
            Where the scoreboard has flags.
        addend : float, or value of a signal, or int
            Of "dot": a float, or a code in the output's format.

        Raises
        ------
        ValueError
            Another number of operands or lanes, x or z in an operand, flags that are missing.
        """
        number = len(self)
        if len(operands) != len(self._formats):
            raise ValueError(f"{self.operation} takes {len(self._formats)} operands, not {len(operands)}")
        if addend is not None and self.operation != "dot":
            raise ValueError(
                f"addend= is for 'dot'; the operands of {self.operation} come one after the other"
            )
        if self.flags != (flags is not None):
            raise ValueError(
                f"transaction {number} has {'no ' * self.flags}flags; give them always, or never"
            )
        try:
            given = tuple(self._operand(each, fmt) for each, fmt in zip(operands, self._formats, strict=True))
            if self.operation == "dot":
                given = (*given, self._addend(addend))
        except ValueError as error:
            raise ValueError(f"operands of transaction {number}: {error}") from None
        if self._operands and [np.shape(each) for each in given] != [
            np.shape(each) for each in self._operands[0]
        ]:
            raise ValueError(f"transaction {number} has vectors of another length than those before it")
        try:
            answer, raised = int(result), 0 if flags is None else int(flags)
        except ValueError:  # x or z
            self.undefined.append(number)
            return
        self._operands.append(given)
        self._results.append(answer)
        self._flags.append(raised)

    def _operand(self, given: Any, fmt: Format) -> Any:
        if self.operation != "dot":
            return _code(int(given), fmt)
        if isinstance(given, Sequence | np.ndarray) and not hasattr(given, "to_unsigned"):
            return tuple(_code(int(code), fmt) for code in given)
        if isinstance(given, int):
            raise ValueError(
                f"{given:#x} does not say how many lanes it has; give a sequence of codes, or a signal"
            )
        whole, lanes = int(given), len(given) // fmt.width
        return tuple(whole >> lane * fmt.width & (1 << fmt.width) - 1 for lane in range(lanes))

    def _addend(self, given: Any) -> float:
        if given is None or isinstance(given, float):
            return given or 0.0
        code = np.array([_code(int(given), self.target)], code_dtype(self.target))
        return float(np.asarray(decode(code, self.target, dtype=np.float64))[0])

    def report(self, **options: Any) -> Comparison:
        """Hold all transactions against what is right; options are those of `lowprec.compare`."""
        columns = list(zip(*self._operands, strict=True)) or [() for _ in self._formats]
        results = np.array(self._results, np.uint64).astype(_wide(self.target, self._results))
        options = self._options | options
        if self.accumulation is not None:
            x, y = (
                np.array(side, code_dtype(fmt)) for side, fmt in zip(columns, self._formats, strict=False)
            )
            addend = np.array(columns[2] if self._operands else [], np.float64)
            options |= {"accumulation": self.accumulation, "addend": addend}
            return compare((x, y), results, operation="dot", source=self._formats, **options)
        operands = tuple(
            np.array(side, code_dtype(fmt)) for side, fmt in zip(columns, self._formats, strict=True)
        )
        if self.flags:
            options["flags"] = np.array(self._flags, np.int64)
        return compare(
            operands[0] if self.operation == "convert" else operands,
            results,
            self.target,
            operation=self.operation,
            source=self._formats,
            **options,
        )

    def check(self, junit: str | Path | None = None, **options: Any) -> Comparison:
        """Return the report if everything agrees or is within the budget; fail with it otherwise.

        Parameters
        ----------
        junit : str or Path, optional
            Where to write a test report, whatever was found; needs `pip install "lowprec[report]"`.
        **options
            Of `lowprec.compare`, such as `limit`.

        Raises
        ------
        AssertionError
            Results that differ, are undefined or did not come; or no transaction at all.
        """
        report = self.report(**options)
        if junit is not None:
            write(Path(junit), report.as_junit().encode())
        wrong = []
        if not report.agrees:
            wrong.append(report.as_text())
        if self.undefined:
            wrong.append(
                f"{len(self.undefined)} results have x or z, the first in transaction {self.undefined[0]}"
            )
        if self.unanswered:
            wrong.append(f"{self.unanswered} operands have no result")
        if wrong:
            raise AssertionError("\n".join(wrong))
        return report

    async def follow(
        self,
        clock: Any,
        operands: Sequence[Any],
        result: Any,
        *,
        given: Any = None,
        done: Any = None,
        flags: Any = None,
        addend: Any = None,
    ) -> None:
        """Keep the transactions of a pipeline, clock by clock, for as long as the simulation runs.

        At each rising edge operands are taken where `given` is 1, and a result where `done` is; results come
        in the order of operands. To be started with `cocotb.start_soon`.

        Parameters
        ----------
        clock, result : signal
        operands : sequence of signals
        given, done : signal, optional
            Whether operands, and whether a result, are valid. Without `done` the result is that of the
            operands of the clock before.
        flags, addend : signal, optional
            Beside the result, and beside the operands.

        Raises
        ------
        ModuleNotFoundError
            Without cocotb.
        """
        try:
            from cocotb.triggers import RisingEdge
        except ImportError:
            raise ModuleNotFoundError(
                'following signals needs cocotb: pip install "lowprec[cocotb]"'
            ) from None
        waiting: collections.deque[tuple[list[Any], Any]] = collections.deque()
        while True:
            await RisingEdge(clock)
            if waiting if done is None else _is_one(done):
                if not waiting:
                    raise AssertionError("the device gave a result that no operands ask for")
                before, added = waiting.popleft()
                raised = None if flags is None else flags.value
                self.add(*before, result=result.value, flags=raised, addend=added)
            if given is None or _is_one(given):
                waiting.append(([each.value for each in operands], None if addend is None else addend.value))
            self.unanswered = len(waiting)


def _is_one(signal: Any) -> bool:
    return str(signal.value) == "1"


def _code(code: int, fmt: Format) -> int:
    if not 0 <= code < 1 << fmt.width:
        raise ValueError(f"{code:#x} is no code of {fmt.name!r}")
    return code


def _wide(fmt: Format, results: list[int]) -> np.dtype[Any]:
    """Return the type of results: that of codes, or a wider one where a result is none."""
    most = max(results, default=0)
    own = code_dtype(fmt)
    return own if most >> 8 * own.itemsize == 0 else np.dtype(np.uint64)
