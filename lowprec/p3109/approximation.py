"""κ: by how many values an implementation of an operation is wrong at most.

Floor 3b. Source: [P3109] 4.4.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.axes import broadcast_arrays
from lowprec.arrays.checks import Array
from lowprec.arrays.orders.order_parts import codes_in
from lowprec.p3109.operations import Specialization, specialization
from lowprec.p3109.parameters import name_of
from lowprec.p3109.queries import places
from lowprec.p3109.values import Numbers, decoded
from lowprec.spec.format import Format

__all__ = ["Approximation", "kappa"]

#: Operands are all tried if together they have at most so many bits.
_ALL = 20

Implementation = Callable[..., Any]
Sets = Mapping[str, Callable[..., npt.ArrayLike]]


@dataclasses.dataclass(frozen=True)
class Approximation:
    """Distance of an implementation from the defined results.

    Parameters
    ----------
    kappa : int or float
        The most values between a result and the defined one; NaN where NaNs do not match, infinity where
        infinities do not.
    sets : mapping of str to int
        κ of each subset of the operands whose defined results are finite.
    operands : tuple of int, or None
        Operands of the first result with this κ; None where all results are the defined ones.
    result, defined : int, or None
        That result and the defined one.
    tried : int
        Tuples of operands.
    differ : int
        Tuples of operands whose results are other values than the defined ones.

    Source: [P3109] 4.4.
    """

    kappa: float
    sets: Mapping[str, int]
    operands: tuple[int, ...] | None
    result: int | None
    defined: int | None
    tried: int
    differ: int

    def __str__(self) -> str:
        said = f"κ = {self.kappa}"
        if self.sets:
            said = f"κ ∈ {{{', '.join(f'{name}: {each}' for name, each in self.sets.items())}}}"
        said += f", {self.differ:,} of {self.tried:,} results differ"
        if self.operands is None:
            return said
        given = ", ".join(f"{code:#x}" for code in self.operands)
        return f"{said}, first ({given}) with {self.result:#x} for {self.defined:#x}"


def kappa(
    operation: Specialization | str,
    implementation: Implementation,
    operands: tuple[npt.ArrayLike, ...] | None = None,
    *,
    sets: Sets | None = None,
) -> Approximation:
    """Return the draft's measure of an implementation, over all operands or those given.

    >>> square_root = specialization("Sqrt<Binary8p3se, Binary8p3se, (NearestTiesToEven, SatNone)>")
    >>> def halved(x):  # the exponent and the rest of the code, as one integer
    ...     close = (x.astype(int) + 0x40) >> 1
    ...     return np.where(x >= 0x7F, square_root(x), np.where(x == 0, 0, close)).astype(np.uint8)
    >>> print(kappa(square_root, halved))
    κ = 2, 2 of 256 results differ, first (0x1) with 0x20 for 0x1e

    Parameters
    ----------
    operation : Specialization or str
        One with a single result that is a floating-point value, of operands that are no blocks.
    implementation : callable
        Takes arrays of codes, one for each operand and all of one shape; returns codes of the result.
    operands : tuple of array_like of integer, optional
        Codes that broadcast. By default all there are, if they have at most 20 bits together.
    sets : mapping of str to callable, optional
        Subsets of the operands to report κ of. Each takes the operands' values as float64 and says which are
        in it; those whose defined results are finite must be in one of them each.

    Returns
    -------
    measured : Approximation

    Raises
    ------
    ValueError
        Too many operands to try all; operands or results that are no codes; subsets that overlap or leave
        operands out.
    TypeError
        An operation without such a result; results of another shape or type.

    Source
    ------
    [P3109] 4.4, annex D.
    """
    spec = specialization(operation) if isinstance(operation, str) else operation
    given = _operands(spec, operands)
    (fmt,) = spec.results
    defined = np.asarray(spec(*given))
    made = _results(implementation(*given), defined, fmt)
    (to, nan), (at, other_nan) = places(defined, fmt), places(made, fmt)
    infinite, other = (np.isinf(decoded(codes, fmt)) for codes in (defined, made))
    steps = np.where(nan, 0, np.abs(to - at))
    found = _of_sets(sets, steps, ~nan & ~infinite, given, spec.formats)
    measure: float = int(steps.max(initial=0))
    wrong = steps == measure if measure else np.zeros(steps.shape, bool)
    if (mismatch := infinite != other).any() or (mismatch := infinite & (to != at)).any():
        measure, wrong = float("inf"), mismatch
    if (mismatch := nan != other_nan).any():
        measure, wrong = float("nan"), mismatch
    first = int(np.argmax(wrong)) if wrong.any() else None
    return Approximation(
        measure,
        found,
        None if first is None else tuple(int(each[first]) for each in given),
        None if first is None else int(made[first]),
        None if first is None else int(defined[first]),
        defined.size,
        int(np.count_nonzero((steps != 0) | (nan != other_nan))),
    )


def _operands(spec: Specialization, operands: tuple[npt.ArrayLike, ...] | None) -> list[Array]:
    """Return codes of each operand, in one dimension."""
    name = spec.operation.name
    if len(spec.results) != 1 or "B" in spec.operation.parameters:
        raise TypeError(
            f"kappa measures operations with one floating-point result of operands that are no blocks, and "
            f"{name} is none; take the scaled operation for a block"
        )
    if operands is None:
        widths = [fmt.width for fmt in spec.formats]
        if sum(widths) > _ALL:
            raise ValueError(
                f"the operands of {spec} have {sum(widths)} bits, too many to try all, up to {_ALL}; "
                f"give operands=, a tuple of arrays of codes"
            )
        operands = tuple(np.meshgrid(*(np.arange(1 << width) for width in widths), indexing="ij"))
    if not isinstance(operands, tuple) or len(operands) != len(spec.formats):
        raise TypeError(f"operands= for {name} must be a tuple of {len(spec.formats)} arrays of codes")
    codes = [codes_in(each, fmt) for each, fmt in zip(operands, spec.formats, strict=True)]
    return [each.reshape(-1) for each in broadcast_arrays(*codes)]


def _results(made: Any, defined: Array, fmt: Format) -> Array:
    codes = np.asarray(made)
    if codes.shape != defined.shape or codes.dtype.kind not in "iu":
        raise TypeError(
            f"the implementation must return codes of {name_of(fmt)!r}, integers of shape {defined.shape}, "
            f"not {codes.dtype} of shape {codes.shape}"
        )
    return codes


def _of_sets(
    sets: Sets | None, steps: Array, finite: Array, given: list[Array], formats: tuple[Format, ...]
) -> dict[str, int]:
    """Return κ of each subset of the operands with finite results."""
    if sets is None:
        return {}
    values: list[Numbers] = [decoded(codes, fmt) for codes, fmt in zip(given, formats, strict=True)]
    inside = {name: np.asarray(holds(*values), bool) & finite for name, holds in sets.items()}
    count = np.sum(list(inside.values()), axis=0) if inside else np.zeros(steps.shape, int)
    wrong = finite & (count != 1)
    if wrong.any():
        first = int(np.argmax(wrong))
        where = ", ".join(f"{each[first]:#x}" for each in given)
        raise ValueError(
            f"sets= must have each operand with a finite result in exactly one of them, and ({where}) is in "
            f"{int(np.ravel(count)[first])}: {int(np.count_nonzero(wrong)):,} are not in one"
        )
    return {name: int(steps[where].max(initial=0)) for name, where in inside.items()}
