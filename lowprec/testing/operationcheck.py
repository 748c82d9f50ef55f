"""Checking an operation: anyone's function held against the laws of arithmetic.

Floor 5.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.spec import catalog
from lowprec.spec.arith import operands_of
from lowprec.spec.format import Format, Sign
from lowprec.spec.profiles import Profile
from lowprec.spec.projection import Projection, Saturation
from lowprec.spec.rounding import MODES, Rounding
from lowprec.testing.grid import grid_of
from lowprec.testing.law import LAWS, Report, Verdict, message
from lowprec.testing.subjects import Subject
from lowprec.tools.operands import operands

__all__ = ["Operation", "Shown", "check_operation", "decoded", "of_arrays", "of_flagged", "of_oracle"]

Array = npt.NDArray[Any]


class Operation:
    """A function on codes, as laws see it.

    Parameters
    ----------
    operation : str
    formats : tuple of Format
        Of the operands.
    target : Format
    projection : Projection
    path : str
        Whose it is.
    call : function
        Takes a list of int64 codes for each operand, gives int64 codes.
    samples, seed : int
    sibling : function, optional
        Another operation of the same kind by name.
    """

    def __init__(
        self,
        operation: str,
        formats: tuple[Format, ...],
        target: Format,
        projection: Projection,
        path: str,
        call: Callable[[list[Array]], Array],
        samples: int,
        seed: int,
        sibling: Callable[[str, list[Array]], Array] | None = None,
    ) -> None:
        self.operation, self.formats, self.target = operation, formats, target
        self.projection, self.path, self.call = projection, path, call
        self._sibling = sibling
        self.operands = _chosen(operation, formats, target, samples, seed)

    @functools.cached_property
    def results(self) -> Array:
        """Its answers."""
        return self.call(self.operands)

    @functools.cached_property
    def values(self) -> list[Array]:
        """The values of the operands."""
        return [self.decode_operand(place, codes) for place, codes in enumerate(self.operands)]

    @functools.cached_property
    def oracle_results(self) -> Array:
        """The oracle's answers."""
        return of_oracle(self.operation, self.formats, self.target, self.projection, 0, 0).call(self.operands)

    def decode_operand(self, place: int, codes: Array) -> Array:
        """Values of codes of an operand, by the table of its format."""
        return decoded(codes, self.formats[place])

    def decoded(self, codes: Array) -> Array:
        """Values of codes of the result."""
        return decoded(codes, self.target)

    def sibling(self, operation: str, codes: list[Array]) -> Array:
        """The answers of another operation."""
        assert self._sibling is not None
        return self._sibling(operation, codes)

    def projected(self, numbers: Sequence[Fraction]) -> Array:
        """The codes of real numbers, none of which is 0, by the kit's own reading of the projection."""
        from lowprec.testing.laws.rounding import projected

        return projected(numbers, self.target, self.projection)

    @property
    def commutes(self) -> bool:
        """Whether its first two operands may change places."""
        names = ("add", "multiply", "minimum", "maximum", "minimum_number", "maximum_number", "fma")
        return self.operation in names and self.formats[0] == self.formats[1]

    @property
    def signed_zero(self) -> bool:
        """Whether a result of zero is a code of its own with and without sign."""
        return self.target.sign is not Sign.UNSIGNED and self.target.subnormals

    @property
    def one(self) -> int:
        """The code of 1 in the second operand's format, -1 where there is none."""
        grid = grid_of(self.formats[1] if len(self.formats) > 1 else self.target)
        place = grid.place(Fraction(1))
        return -1 if place.kind or place.beyond else place.magnitude

    @property
    def neutral_code(self) -> int:
        """The code of the second operand that changes nothing, -1 where there is none."""
        if self.operation in ("multiply", "divide"):
            return self.one
        fmt = self.formats[1]
        if not fmt.subnormals:
            return -1
        if self.operation == "subtract":
            return 0
        return 1 << (fmt.width - 1) if fmt.sign is Sign.MAGNITUDE and fmt.negative_zero else 0

    @property
    def neutral(self) -> bool:
        """Whether there is such a code, and the result is in the first operand's format."""
        if self.operation not in ("add", "subtract", "multiply", "divide") or self.formats[0] != self.target:
            return False
        return self.neutral_code >= 0 and self.formats[0] == self.formats[1]

    @property
    def fma_like(self) -> bool:
        """Whether it is a fused multiplication and addition in one format that has 0 and 1, and has siblings."""
        same = len({*self.formats, self.target}) == 1
        return self.operation == "fma" and same and self.one >= 0 and self.target.subnormals and bool(self._sibling)

    def shown(self, code: int) -> str:
        """A code of the result."""
        return Shown(self.target).shown(code)

    def shown_operand(self, place: int, code: int) -> str:
        """A code of an operand."""
        return Shown(self.formats[place]).shown(code)


class Shown(Subject):
    """A format's codes, in words."""

    def decode(self, codes: Array) -> npt.NDArray[np.float64]:
        """By the parameters of the format."""
        return decoded(codes, self.format)


def decoded(codes: Array, fmt: Format) -> npt.NDArray[np.float64]:
    """The values of codes, by the parameters of the format."""
    codes = np.asarray(codes, np.int64)
    if fmt.width <= 16:
        return _table(fmt)[codes]
    from lowprec.arrays.convert import decode

    return np.asarray(decode(codes, fmt, dtype="float64"))


@functools.lru_cache(maxsize=64)
def _table(fmt: Format) -> npt.NDArray[np.float64]:
    from lowprec.testing.laws.decoding import defined_values

    return defined_values(Subject(fmt))[1]


def _chosen(operation: str, formats: tuple[Format, ...], target: Format, samples: int, seed: int) -> list[Array]:
    """Operands: all combinations where they are few, else special ones and random ones."""
    codes = [column.astype(np.int64) for column in operands(operation, (*formats, target), max(samples, 4), seed)]
    if codes[0].size > 2 * samples:
        # Every combination is more than was asked for: the first of each operand, and random ones of the others.
        keep = np.random.default_rng(seed).permutation(codes[0].size)[:samples]
        keep = np.sort(keep)
        codes = [column[keep] for column in codes]
    return codes


def _rule(projection: Projection, target: Format) -> Projection:
    """The projection; a NaN result of a format without NaN is its largest value, where it would be refused."""
    import dataclasses

    if target.nan_code is None and projection.nan_code is None and projection.nan == "error":
        return dataclasses.replace(projection, nan="max")
    return projection


def of_arrays(
    operation: str,
    formats: tuple[Format, ...],
    target: Format,
    projection: Projection,
    samples: int,
    seed: int,
    flagged: bool = False,
) -> Operation:
    """The operation of lowprec on arrays; or as another kernel does it, which is asked for flags too."""
    how = _rule(projection, target)

    def named(name: str, codes: list[Array]) -> Array:
        import lowprec
        from lowprec.arrays.convert import decode, encode

        values = [np.asarray(decode(column, fmt)) for column, fmt in zip(codes, formats, strict=False)]
        signals = np.zeros(codes[0].shape, np.uint8) if flagged else None
        made = getattr(lowprec, name)(*values, target, projection=how, flags=signals)
        zero = Projection(zero="smallest", nan="max")
        return np.asarray(encode(made, target, projection=zero)).astype(np.int64)

    path = "arrays with flags" if flagged else "arrays"
    return Operation(operation, formats, target, how, path, lambda codes: named(operation, codes), samples, seed, named)


of_flagged = functools.partial(of_arrays, flagged=True)


def of_oracle(
    operation: str, formats: tuple[Format, ...], target: Format, projection: Projection, samples: int, seed: int
) -> Operation:
    """The operation of the oracle."""
    from lowprec.oracle.arith import operate

    how = _rule(projection, target)

    def named(name: str, codes: list[Array]) -> Array:
        rows = zip(*(column.tolist() for column in codes), strict=True)
        made = [operate(name, row, formats[: len(row)], target, how)[0] for row in rows]
        return np.array(made, np.int64)

    return Operation(
        operation, formats, target, how, "oracle", lambda codes: named(operation, codes), samples, seed, named
    )


def verdicts_of(subject: Operation) -> list[Verdict]:
    """Every law of operations that says anything about a function."""
    import lowprec.testing.laws  # noqa: F401 - enters them

    verdicts = []
    for law in LAWS.values():
        if law.topic == "operation" and law.applies(subject):
            with np.errstate(all="ignore"):
                outcome = law.check(subject)
            verdicts.append(Verdict(law, subject.path, outcome.tried, outcome.found))
    return verdicts


def check_operation(
    function: Callable[..., Any],
    operation: str,
    formats: Format | str | Sequence[Format | str],
    *,
    target: Format | str | None = None,
    rounding: Rounding | str | None = None,
    saturation: Saturation | str | None = None,
    projection: Projection | None = None,
    profile: Profile | str | None = None,
    samples: int = 1 << 14,
    seed: int = 0,
) -> Report:
    """Try every law of arithmetic on a function of codes, and refuse it where one does not hold.

    >>> import lowprec as lp
    >>> def mine(x, y):
    ...     return lp.encode(lp.add(lp.decode(x, "e2m1fn"), lp.decode(y, "e2m1fn"), "e2m1fn"), "e2m1fn")
    >>> check_operation(mine, "add", "e2m1fn")  # doctest: +ELLIPSIS
    <Report of mine: 4 checks, ... cases, all hold>

    Parameters
    ----------
    function : function
        Takes an array of unsigned codes for each operand, and gives codes of the target, or values as floats.
    operation : str
        What it should be: add, subtract, multiply, divide, sqrt, fma, ... (`lowprec.spec.arith.OPERANDS`).
    formats : Format, str, or one of them for each operand
    target : Format or str, optional
        Of the result; by default the first operand's.
    rounding, saturation, projection, profile
        What it should do, as for `lowprec.add`; deterministic.
    samples : int
        Cases, where not all combinations of operands are fewer.
    seed : int
        Of the random ones.

    Returns
    -------
    report : Report

    Raises
    ------
    AssertionError
        A law that does not hold: its name, the smallest counterexample found and its bits.
    ValueError
        An unknown operation, formats or a projection that do not fit.
    """
    from lowprec.arrays.checks import projection as rules_of

    count = operands_of(operation)
    alike = isinstance(formats, Format | str)
    named = [formats] * count if alike else list(formats)  # type: ignore[arg-type]
    chosen = tuple(catalog.format(fmt) for fmt in named)
    if len(chosen) != count:
        raise ValueError(f"{operation} takes {count} operands, and {len(chosen)} formats are given; give one for each")
    into = chosen[0] if target is None else catalog.format(target)
    if samples < 1:
        raise ValueError(f"samples must be 1 or more, not {samples}")
    how = rules_of(into, rounding, saturation, projection, profile)
    if how.rounding not in MODES:
        raise ValueError(f"rounding {how.rounding} is not among the deterministic modes that laws are about")
    name = getattr(function, "__name__", type(function).__name__)

    def call(codes: list[Array]) -> Array:
        typed = [column.astype(f"u{fmt.code_bits // 8}") for column, fmt in zip(codes, chosen, strict=True)]
        with np.errstate(all="ignore"):
            return _codes(function(*typed), codes[0].shape, into, name)

    subject = Operation(operation, chosen, into, _rule(how, into), name, call, samples, seed)
    report = Report(name, tuple(verdicts_of(subject)))
    if report.broken:
        raise AssertionError(message(report))
    return report


def _codes(made: Any, shape: tuple[int, ...], fmt: Format, name: str) -> Array:
    """An answer as codes."""
    from lowprec.arrays.convert import encode

    given = np.asarray(made)
    if given.shape != shape:
        raise ValueError(f"{name} was given shape {shape} and gave shape {given.shape}; it must give one code for each")
    if given.dtype.kind in "iu":
        return given.astype(np.int64)
    if given.dtype.kind == "f":
        return np.asarray(encode(given, fmt, projection=Projection(nan="max", zero="smallest"))).astype(np.int64)
    raise TypeError(f"{name} gave {given.dtype}; give unsigned codes of {fmt.name}, or values as floats")
