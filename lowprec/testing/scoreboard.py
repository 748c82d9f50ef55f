"""A scoreboard for hardware under simulation: it keeps a device's transactions, and judges them at the end.

Only `Scoreboard.follow` needs a simulator: `pip install "lowprec[cocotb]"`.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lowprec.arrays.blocks.block import asked as block_asked
from lowprec.arrays.checks import code_dtype, projection as projection_of
from lowprec.arrays.convert import decode
from lowprec.files import write
from lowprec.spec import catalog
from lowprec.spec.accumulation import Accumulation
from lowprec.spec.accumulations import accumulation as accumulation_of
from lowprec.spec.block import BlockFormat
from lowprec.spec.epilogue import LibraryCall
from lowprec.spec.format import Format
from lowprec.spec.library_calls import library_call
from lowprec.spec.profiles import Profile
from lowprec.spec.projection import Projection, Saturation
from lowprec.spec.rounding import Rounding
from lowprec.verify.compare.compare import compare
from lowprec.verify.compare.report import Comparison
from lowprec.verify.inputs.block_cases import source_values
from lowprec.verify.reference.operations import OPERATIONS, check_operands, operand_format


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
        "convert", "add", "fma" or any other operation; "dot", with an accumulation; or "block", a block
        converter.
    *formats : Format or str
        Of the operands, then of the result; a dot product has those of x and y, and its accumulation
        says the result's. A block converter has that of the values, and a block format.
    accumulation : Accumulation, LibraryCall or str
        Of a dot product; its operands, if it has any, are the formats of x and y by default.
    ulps, any_nan
        As for `lowprec.compare`.
    flags : bool
        Whether each transaction has exception flags too, as `lowprec.Flag` numbers them.
    rounding, saturation, projection, profile
        Of conversions, operations and blocks, as for `lowprec.encode`.

    Raises
    ------
    ValueError
        Formats that the operation does not take.
    """

    def __init__(
        self,
        operation: str,
        *formats: Format | BlockFormat | str,
        accumulation: Accumulation | LibraryCall | str | None = None,
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
        self.accumulation: Accumulation | LibraryCall | None = None
        self.blocks: BlockFormat | None = None
        #: Format and size of the blocks of an instruction with scales of its own.
        self._own: tuple[Format, int] | None = None
        self.target: Format = catalog.BINARY32
        if accumulation is not None and operation != "dot":
            raise ValueError(f"accumulation= is for 'dot', not for {operation!r}; leave it out")
        if operation == "block":
            self._formats = self._start_blocks(formats, how)
        elif operation == "dot":
            self._formats = self._start_sums(_known(formats), accumulation, how)
        elif operation in OPERATIONS:
            self._formats = self._start_operation(_known(formats), how)
        else:
            raise ValueError(
                f"unknown operation {operation!r}; use dot, block or one of {', '.join(OPERATIONS)}"
            )
        self._operands: list[tuple[Any, ...]] = []
        self._results: list[Any] = []
        self._flags: list[int] = []
        self._scaled = self._biased = False
        self._added: bool | None = None  #: whether transactions have addends, once there is one
        self.undefined: list[int] = []  #: numbers of the transactions whose results had x or z
        self.unanswered = 0  #: operands that `follow` saw without a result

    def _start_blocks(self, formats: Sequence[Any], how: dict[str, Any]) -> list[Any]:
        """Return the formats of the operands of a converter to blocks."""
        self.blocks = _block_format(formats, *how.values())
        values, self.target = _known((formats[0], self.blocks.element))
        if self.flags:
            raise ValueError("flags= says nothing about 'block'; leave it out")
        if not catalog.BINARY32.contains(values):
            raise ValueError(f"blocks are made of floats that binary32 has, not of {values.name!r}")
        return [values]

    def _start_sums(self, known: list[Any], accumulation: Any, how: dict[str, Any]) -> list[Any]:
        """Return the formats of the operands of a dot product."""
        if accumulation is None:
            raise ValueError("a scoreboard of 'dot' needs accumulation=, which says what is right")
        for name, value in {**how, "flags": self.flags or None}.items():
            if value is not None:
                raise ValueError(
                    f"{name}= says nothing about 'dot', which goes by accumulation=; leave it out"
                )
        call = library_call(accumulation) if isinstance(accumulation, str) else accumulation
        if isinstance(call, LibraryCall):
            self.accumulation, summed, self.target = call, call.accumulation, call.output[0]
        else:
            self.accumulation = summed = accumulation_of(accumulation)
            self.target = summed.output[0]
        self._own = summed.scale
        return self._counted(known or list(summed.operands or ()), 2)

    def _start_operation(self, known: list[Any], how: dict[str, Any]) -> list[Any]:
        """Return the formats of the operands of a conversion or an operation."""
        self.target = known[-1] if known else catalog.BINARY32
        self._counted(known, OPERATIONS[self.operation].operands + 1)
        check_operands(self.operation, tuple(known))
        self._options["projection"] = projection_of(self.target, *how.values())
        return known[:-1]

    def _counted(self, known: list[Any], wanted: int) -> list[Any]:
        if len(known) != wanted:
            raise ValueError(f"{self.operation} has {wanted} formats here, not {len(known)}")
        return known

    def __len__(self) -> int:
        return len(self._operands) + len(self.undefined)

    def add(
        self,
        *operands: Any,
        result: Any,
        flags: Any = None,
        addend: Any = None,
        scale: Any = None,
        bias: Any = None,
    ) -> None:
        """Keep one transaction.

        Parameters
        ----------
        *operands : int or value of a signal; of "dot" x and y, of "block" the values
            Codes. Those of a vector are a sequence, or a signal with lane 0 in its lowest bits.
        result : int or value of a signal; of "block" the elements
            A code, or those of a vector. With x or z in it, it fails the test.
        flags : int or value of a signal
            Where the scoreboard has flags.
        addend : float, or value of a signal, or int
            Of "dot", always or never: a float, or a code in the output's format.
        scale : int or value of a signal, or a pair
            Of "block": the code of the scale. Of "dot": those of x and y, floats or codes in binary32,
            by default 1; of an instruction that takes operands in blocks those of each block, floats or
            codes in its format, as the lanes of a vector.
        bias : float, or value of a signal, or int
            Of "dot": a float, or a code in binary32; by default there is none.

        Raises
        ------
        ValueError
            Another number of operands or lanes, x or z in an operand, flags that are missing.
        """
        number = len(self)
        self._check_arguments(operands, flags, {"addend": addend, "bias": bias}, scale)
        try:
            given = tuple(self._operand(each, fmt) for each, fmt in zip(operands, self._formats, strict=True))
            if self.operation == "dot":
                lanes = len(given[0])
                if len(given[1]) != lanes:
                    raise ValueError(f"x has {lanes} lanes, and y {len(given[1])}")
                given = (*given, self._number(addend, self.target, 0.0), *self._scales(scale, bias, lanes))
        except ValueError as error:
            raise ValueError(f"operands of transaction {number}: {error}") from None
        shapes = [[np.shape(each) for each in row] for row in (given, *self._operands[:1])]
        if shapes[0] != shapes[-1]:
            raise ValueError(f"transaction {number} has vectors of another length than those before it")
        if self.blocks is not None and isinstance(result, int):
            raise ValueError(f"result of transaction {number}: {_NO_LANES.format(result)}")
        several = _is_sequence(result) and self.blocks is not None
        if self.blocks is not None and not several and len(result) % self.target.width:
            raise ValueError(f"result of transaction {number}: {_no_lanes(result, self.target)}")
        for name, each in {"result": result, "flags": flags, "scale": scale if self.blocks else None}.items():
            every = each if name == "result" and several else [each]
            if any(isinstance(one, float | np.floating) for one in every):
                raise ValueError(f"{name} of transaction {number}: {each} is no code; give integers")
        try:
            answer: Any = int(result) if self.blocks is None else (int(scale), _lanes(result, self.target))
            raised = 0 if flags is None else int(flags)
        except ValueError:  # x or z
            self.undefined.append(number)
            return
        if not 0 <= raised < 1 << 63:
            raise ValueError(f"flags of transaction {number}: {raised} is not between 0 and 2**63 - 1")
        for code in [answer] if self.blocks is None else answer[1]:
            if not 0 <= code < 1 << 64:
                raise ValueError(
                    f"result of transaction {number}: {code} is not between 0 and 2**64 - 1; give bits as an "
                    "unsigned number"
                )
        if self.blocks is not None and {len(given[0]), len(answer[1])} != {self.blocks.size}:
            raise ValueError(
                f"transaction {number} has {len(given[0])} values and {len(answer[1])} elements; a block of "
                f"{self.blocks.name!r} has {self.blocks.size}"
            )
        if self.blocks is not None:
            _code(answer[0], self.blocks.scale)
        self._added = addend is not None
        self._operands.append(given)
        self._results.append(answer)
        self._flags.append(raised)

    def _check_arguments(
        self, operands: Sequence[Any], flags: Any, joins: dict[str, Any], scale: Any
    ) -> None:
        """Refuse what a transaction of this operation does not have, and what it lacks."""
        if len(operands) != len(self._formats):
            raise ValueError(f"{self.operation} takes {len(self._formats)} operands, not {len(operands)}")
        for name, given in joins.items():
            if given is not None and self.operation != "dot":
                raise ValueError(
                    f"{name}= is for 'dot'; the operands of {self.operation} come one after the other"
                )
        if self._added not in (None, joins["addend"] is not None):
            has = f"transaction {len(self)} has {'no' if self._added else 'an'} addend"
            raise ValueError(f"{has}; give one always, or never")
        if (scale is None) != (self.blocks is None) and self.operation != "dot":
            raise ValueError(
                "a transaction of 'block' needs scale=, the code of the scale"
                if self.blocks
                else f"scale= is for 'block', not for {self.operation!r}; leave it out"
            )
        if self.flags != (flags is not None):
            raise ValueError(
                f"transaction {len(self)} has {'no ' * self.flags}flags; give them always, or never"
            )

    def _operand(self, given: Any, fmt: Format) -> Any:
        if self.operation not in ("dot", "block"):
            return _code(given, fmt)
        return tuple(_code(code, fmt) for code in (given if _is_sequence(given) else _lanes(given, fmt)))

    def _number(self, given: Any, fmt: Format, default: float) -> float:
        """Return a float, or the value of a code."""
        if given is None or isinstance(given, float | np.floating):
            return default if given is None else float(given)
        code = np.array([_code(given, fmt)], code_dtype(fmt))
        return float(np.asarray(decode(code, fmt, dtype=np.float64))[0])

    def _scales(self, scale: Any, bias: Any, lanes: int) -> tuple[Any, Any, float]:
        """Return the scales of x and y, and the bias: -0 is none, as it changes no sum."""
        if scale is not None and (not isinstance(scale, Sequence) or len(scale) != 2):
            raise ValueError("scale= of 'dot' is a pair, for x and for y")
        self._scaled, self._biased = self._scaled or scale is not None, self._biased or bias is not None
        x, y = (None, None) if scale is None else scale
        joined = self._number(bias, catalog.BINARY32, -0.0)
        if self._own is not None:
            return self._of_blocks(x, "x", lanes), self._of_blocks(y, "y", lanes), joined
        x, y = (self._number(each, catalog.BINARY32, 1.0) for each in (x, y))
        for name, each in (("x", x), ("y", y)):
            if not 0 < each < math.inf:
                raise ValueError(f"the scale of {name} is {each!r}; scales are positive and finite")
        return x, y, joined

    def _of_blocks(self, given: Any, name: str, lanes: int) -> tuple[float, ...]:
        """Return the scales of an operand's blocks."""
        assert self._own is not None, "asked of instructions with scales of their own"
        fmt, size = self._own
        blocks = -(-lanes // size)
        if given is None:
            raise ValueError(f"{self.accumulation} needs scale=: those of the blocks of x, and of y")
        alone = isinstance(given, float | int | np.number)
        each = [given] if alone else given if _is_sequence(given) else _lanes(given, fmt)
        if len(each) != blocks:
            raise ValueError(
                f"{name} has {len(each)} scales, and {lanes} lanes make {blocks} blocks of {size}"
            )
        return tuple(self._number(one, fmt, 1.0) for one in each)

    def report(self, **options: Any) -> Comparison:
        """Hold all transactions against what is right; options are those of `lowprec.compare`.

        Positions in the report of blocks are the number of the transaction, and the lane.
        """
        columns = list(zip(*self._operands, strict=True)) or [() for _ in self._formats]
        if self.blocks is not None:
            return self._blocks_report(columns[0], self.blocks, self._options | options)
        results = np.array(self._results, np.uint64).astype(_wide(self.target, self._results))
        options = self._options | options
        if self.accumulation is not None:
            x, y = (
                np.array(side, code_dtype(fmt)).reshape(len(side), -1 if side else 1)
                for side, fmt in zip(columns, self._formats, strict=False)
            )
            joins: Sequence[Any] = columns[2:] if self._operands else [()] * 4
            addend, *scales, bias = (np.array(each, np.float64) for each in joins)
            options["accumulation"] = self.accumulation
            if self._added:
                options["addend"] = addend
            if self._scaled:
                options["scale"] = tuple(each.reshape(len(each), -1) for each in scales)
            if self._biased:
                options["bias"] = bias
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

    def _blocks_report(self, columns: Sequence[Any], fmt: BlockFormat, options: dict[str, Any]) -> Comparison:
        values = np.array(columns, code_dtype(self._formats[0])).reshape(-1, *fmt.sizes)
        scales = np.array([[scale] for scale, _ in self._results], code_dtype(fmt.scale)).reshape(-1, 1)
        codes = np.array([codes for _, codes in self._results], np.uint64).reshape(values.shape)
        codes = codes.astype(_wide(fmt.element, codes.reshape(-1).tolist()))
        return compare(source_values(values, self._formats[0]), codes, fmt, scales=scales, **options)

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
        scale: Any = None,
        bias: Any = None,
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
        flags, addend, bias, scale : signal, optional
            Beside the result, beside the operands, and beside the elements of a block. The scales of "dot"
            are a pair of signals beside the operands.

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
        waiting: collections.deque[tuple[list[Any], dict[str, Any]]] = collections.deque()
        dot = self.operation == "dot"
        while True:
            await RisingEdge(clock)
            if waiting if done is None else _is_one(done):
                if not waiting:
                    raise AssertionError("the device gave a result that no operands ask for")
                before, added = waiting.popleft()
                beside = {"flags": flags, "scale": None if dot else scale}
                said = {name: each.value for name, each in beside.items() if each is not None}
                self.add(*before, result=result.value, **added, **said)
            if given is None or _is_one(given):
                joins = {"addend": addend, "bias": bias}
                joined = {name: each.value for name, each in joins.items() if each is not None}
                if dot and scale is not None:
                    joined["scale"] = [each.value for each in scale]
                waiting.append(([each.value for each in operands], joined))
            self.unanswered = 0 if done is None else len(waiting)  # the last clock's have no next one


def _known(formats: Sequence[Any]) -> list[Any]:
    return [operand_format(fmt) if isinstance(fmt, str) else fmt for fmt in formats]


def _block_format(formats: Sequence[Any], *how: Any) -> BlockFormat:
    """Return the block format of a converter; raise ValueError for one that scoreboards do not take."""
    if len(formats) != 2:
        raise ValueError(
            f"block has 2 formats here, that of the values and a block format, not {len(formats)}"
        )
    fmt = block_asked(formats[1], None, *how)
    if fmt.tensor_scale != "none" or len(fmt.sizes) > 1:
        raise ValueError(
            f"{fmt.name!r} has a scale of the tensor, or blocks of two dimensions; scoreboards take neither"
        )
    return fmt


_NO_LANES = "{:#x} does not say how many lanes it has; give a sequence of codes, or a signal"


def _lanes(given: Any, fmt: Format) -> list[int]:
    """Return the codes of a vector; raise ValueError for x, z and a number without width."""
    if _is_sequence(given):
        return [int(code) for code in given]
    if isinstance(given, int):
        raise ValueError(_NO_LANES.format(given))
    whole = int(given)
    if len(given) % fmt.width:
        raise ValueError(_no_lanes(given, fmt))
    return [whole >> low & (1 << fmt.width) - 1 for low in range(0, len(given), fmt.width)]


def _no_lanes(given: Any, fmt: Format) -> str:
    return f"{len(given)} bits are no whole number of lanes of {fmt.name!r}, of {fmt.width} bits"


def _is_sequence(given: Any) -> bool:
    return isinstance(given, Sequence | np.ndarray) and not hasattr(given, "to_unsigned")


def _is_one(signal: Any) -> bool:
    return str(signal.value) == "1"


def _code(given: Any, fmt: Format) -> int:
    """Return a code, or the bits of a signal."""
    if isinstance(given, float | np.floating):
        raise ValueError(f"{given} is no code; give integers")
    if not 0 <= (code := int(given)) < 1 << fmt.width:
        raise ValueError(f"{code:#x} is no code of {fmt.name!r}")
    return code


def _wide(fmt: Format, results: list[int]) -> np.dtype[Any]:
    """Return the type of results: that of codes, or a wider one where a result is none."""
    most = max(results, default=0)
    own = code_dtype(fmt)
    return own if most >> 8 * own.itemsize == 0 else np.dtype(np.uint64)
