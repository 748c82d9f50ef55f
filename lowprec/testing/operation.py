"""Subjects of laws of arithmetic: operations on codes, by the verbs, the oracle, or a user's own."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from lowprec.arrays.checks import code_dtype
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format, Sign
from lowprec.spec.functions import FUNCTIONS
from lowprec.spec.projection import Projection
from lowprec.testing.book import zero_codes
from lowprec.testing.grid import EXACT, Array, grid_of, values_of
from lowprec.testing.subjects import Floats
from lowprec.verify.codes.display import shown_code
from lowprec.verify.inputs.operands import operands, special_codes
from lowprec.verify.reference import oracle_arrays
from lowprec.verify.reference.operations import OPERATIONS

#: An operation by its name, on an array of int64 codes for each operand, to such codes.
Call = Callable[[str, list[Array]], Array]


@dataclasses.dataclass(eq=False)
class OperationSubject:
    """An operation, as laws see it.

    Parameters
    ----------
    name : str
    formats : tuple of Format
        Of the operands.
    target : Format
        Of the result.
    projection : Projection
        As `answered` has it.
    path : str
        Whose it is.
    answer : function
        From the name of an operation and the codes of its operands to codes.
    samples, seed : int
        Cases, and the seed of the random ones.
    siblings : bool
        Whether `answer` knows other operations by name too.
    oracle : bool
        Whether it is the oracle.
    budget : int
        Codes by which a function's result may differ.
    """

    name: str
    formats: tuple[Format, ...]
    target: Format
    projection: Projection
    path: str
    answer: Call
    samples: int
    seed: int
    _: dataclasses.KW_ONLY
    siblings: bool = True
    oracle: bool = False
    budget: int = 0

    @functools.cached_property
    def operands(self) -> list[Array]:
        """The codes of the operands, a column for each."""
        return _chosen(self.name, self.formats, self.target, self.samples, self.seed)

    def call(self, *codes: Array, name: str | None = None) -> Array:
        """Return the codes that it gives for codes; or that a sibling gives."""
        return self.answer(name or self.name, list(codes))

    @functools.cached_property
    def results(self) -> Array:
        """Its answers to its operands."""
        return self.call(*self.operands)

    @functools.cached_property
    def values(self) -> list[Floats]:
        """The values of the operands."""
        return [values_of(codes, fmt) for codes, fmt in zip(self.operands, self.formats, strict=True)]

    @functools.cached_property
    def oracle_results(self) -> Array:
        """The oracle's answers to its operands."""
        return _by_oracle(self.formats, self.target, self.projection)(self.name, self.operands)

    @functools.cached_property
    def function_results(self) -> Array:
        """Right results of the operation, a function, for its operands, by the verbs."""
        given = [
            codes.astype(code_dtype(fmt)) for codes, fmt in zip(self.operands, self.formats, strict=True)
        ]
        made = OPERATIONS[self.name].compute(given, (*self.formats, self.target), self.projection)
        return np.asarray(made.astype(np.int64))

    def values_of(self, codes: Array) -> Floats:
        """Return the values of codes of the result."""
        return values_of(codes, self.target)

    def is_nan(self, codes: Array) -> Array:
        """Return whether codes of the result are NaNs."""
        found: Array = np.isnan(self.values_of(codes))
        return found

    @property
    def uniform(self) -> bool:
        """True if all operands and the result are of one format."""
        return len({*self.formats, self.target}) == 1

    @property
    def one(self) -> int | None:
        """The code of 1 in the result's format, if there is one."""
        if isinstance(self.target, Codebook):
            return self.target.values.index(1.0) if 1.0 in self.target.values else None
        place = grid_of(self.target).place(Fraction(1))
        return place.magnitude if place.kind == EXACT else None

    @property
    def zero(self) -> int | None:
        """The code of 0 in the result's format, if there is one."""
        if isinstance(self.target, Codebook):
            return max(zero_codes(self.target)[0], 0) if self.target.subnormals else None
        return 0 if self.target.subnormals else None

    @property
    def negative_zero(self) -> int | None:
        """The code of -0 in the result's format, if there is one."""
        fmt = self.target
        if isinstance(fmt, Codebook):
            return zero_codes(fmt)[1] if fmt.has_negative_zero else None
        signed = fmt.sign is Sign.MAGNITUDE and fmt.negative_zero and fmt.subnormals
        return 1 << (fmt.exponent_bits + fmt.trailing_bits) if signed else None

    def shown(self, code: int) -> str:
        """Return a code of the result."""
        return _shown(code, self.target)

    def columns(self, operands: list[Array]) -> list[tuple[Any, ...]]:
        """Return the columns of operands for `Outcome.of`, under the names x, y and z."""
        pairs = zip("xyz", operands, self.formats, strict=False)
        return [(label, functools.partial(_shown, fmt=fmt), codes) for label, codes, fmt in pairs]


def _shown(code: int, fmt: Format) -> str:
    return f"0x{shown_code(int(code), fmt)}"


def _chosen(name: str, formats: tuple[Format, ...], target: Format, samples: int, seed: int) -> list[Array]:
    """Return operands, simplest first: all combinations if they are few, else special and random ones.

    At least half of the samples are special ones, zeros and infinities and their like, if there are as many.
    """
    codes = [column.astype(np.int64) for column in operands(name, (*formats, target), max(samples, 4), seed)]
    if codes[0].size > (1 << 16 if name in FUNCTIONS else 2 * samples):
        drawn = np.random.default_rng(seed).permutation(codes[0].size)
        special = [
            np.isin(column, special_codes(fmt, few=len(formats) > 2))
            for column, fmt in zip(codes, formats, strict=True)
        ]
        first = drawn[np.logical_and.reduce(special)[drawn]][: samples - samples // 2]
        keep = np.concatenate([first, drawn[~np.isin(drawn, first)][: samples - first.size]])
        codes = [column[keep] for column in codes]
    sizes = [column % (1 << (fmt.width - 1)) for column, fmt in zip(codes, formats, strict=True)]
    simple = np.lexsort((*codes, np.sum(sizes, axis=0)))
    return [column[simple] for column in codes]


def answered(projection: Projection, target: Format) -> Projection:
    """Return the projection; where it would refuse NaNs without a code, they become the largest value."""
    refuses = not target.has_nan and projection.nan_code is None and projection.nan == "error"
    return dataclasses.replace(projection, nan="max") if refuses else projection


def of_arrays(
    name: str,
    formats: tuple[Format, ...],
    target: Format,
    projection: Projection,
    samples: int,
    seed: int,
    *,
    flagged: bool = False,
) -> OperationSubject:
    """Return an operation of lowprec on arrays; if `flagged`, by the scalar kernel, which sets flags."""
    how, path = answered(projection, target), "arrays with flags" if flagged else "arrays"

    def call(name: str, codes: list[Array]) -> Array:
        from lowprec.arrays import arith, functions
        from lowprec.arrays.convert import decode

        values = [np.asarray(decode(column, fmt)) for column, fmt in zip(codes, formats, strict=False)]
        signals = np.zeros(codes[0].shape, np.uint8) if flagged else None
        options: dict[str, Any] = {"projection": how, "flags": signals, "dtype": code_dtype(target)}
        return np.asarray(
            getattr(functions if name in FUNCTIONS else arith, name)(*values, target, **options)
        ).astype(np.int64)

    return OperationSubject(name, formats, target, how, path, call, samples, seed)


def of_oracle(
    name: str, formats: tuple[Format, ...], target: Format, projection: Projection, samples: int, seed: int
) -> OperationSubject:
    """Return an operation of the oracle."""
    how = answered(projection, target)
    call = _by_oracle(formats, target, how)
    return OperationSubject(name, formats, target, how, "oracle", call, samples, seed, oracle=True)


def _by_oracle(formats: tuple[Format, ...], target: Format, projection: Projection) -> Call:
    def call(name: str, codes: list[Array]) -> Array:
        return oracle_arrays.operate(name, codes, formats, target, projection)

    return call
