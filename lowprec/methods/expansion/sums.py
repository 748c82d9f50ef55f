"""Expansions: numbers as unevaluated sums of several numbers of one low-precision format, largest first.

The parts are values of the format; so are all results on the way, each rounded once by an operation of
`lowprec`. A sum of n parts is computed on n levels: the rounding error of a sum on one level is an addend on
the next, and that of the last one is lost. Then it is renormalised.

Of two parts, these are the operations of [COLLAGE]: Grow, Mul, and their components.

Floor 4. Source: [COLLAGE]; [SHEWCHUK] and [PRIEST] for expansions of any length.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays import arith
from lowprec.arrays.axes import broadcast_shapes
from lowprec.arrays.checks import Array, as_array, float_dtype
from lowprec.arrays.convert import quantize
from lowprec.arrays.doubles import reals
from lowprec.methods.expansion.transforms import Like, fast_two_sum, two_prod, two_sum, values_of
from lowprec.spec import catalog
from lowprec.spec.format import Format, Sign

Parts = tuple[Array, ...]

#: Passes over parts that were in no order, for each part: one or two are usual, and infinities may need all.
_PASSES = 4


@dataclass(frozen=True, eq=False, repr=False)
class Expansion:
    """An array of numbers, each an unevaluated sum of numbers of a format, largest first.

    >>> Expansion(([1.0, 0.8984375], [0.0, 0.00156402587890625]), "bfloat16")
    Expansion of 2 parts in bfloat16, shape (2,)
    >>> Expansion(([1.0, 0.8984375], [0.0, 0.00156402587890625]), "bfloat16").values()
    array([1.        , 0.90000153])

    Parameters
    ----------
    parts : sequence of array_like, each of shape (...)
        Values of the format. `split` makes them of any numbers, `renormalise` puts them in order.
    format : Format, str or dtype

    Raises ValueError: no parts, parts of different shapes, numbers that the format does not have, and
    formats without a sign. TypeError: parts that are no sequence, such as a single array: tuple(array)
    has its rows.

    Source: [COLLAGE].
    """

    parts: Parts
    format: Format

    def __post_init__(self) -> None:
        fmt = signed(self.format)
        if not isinstance(self.parts, Sequence) or isinstance(self.parts, str):
            raise TypeError(
                "parts of an Expansion must be a sequence of arrays, such as a tuple, not "
                f"{type(self.parts).__name__}"
            )
        if not self.parts:
            raise ValueError(
                "an Expansion needs at least one part; zeros are Expansion((numpy.zeros(shape),), format)"
            )
        parts = tuple(values_of(part, fmt, f"part {i}") for i, part in enumerate(self.parts))
        shapes = {part.shape for part in parts}
        if len(shapes) > 1:
            spelled = " and ".join(str(part.shape) for part in parts)
            raise ValueError(f"parts of an Expansion have one shape, not {spelled}")
        object.__setattr__(self, "parts", parts)
        object.__setattr__(self, "format", fmt)

    @classmethod
    def _made(cls, parts: Sequence[Any], fmt: Format) -> Expansion:
        """Construct without validation."""
        self = object.__new__(cls)
        self.__dict__.update(parts=tuple(np.asarray(part) for part in parts), format=fmt)
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the numbers."""
        return self.parts[0].shape

    @property
    def size(self) -> int:
        """The number of numbers."""
        return self.parts[0].size

    def values(self) -> Array:
        """Return the numbers as float64: the parts added up, the last ones first.

        Exact where a number has at most 53 bits from its first to its last.
        """
        total = self.parts[-1].astype(np.float64)
        for part in self.parts[-2::-1]:
            total = total + part
        return total

    def __repr__(self) -> str:
        count = len(self.parts)
        return f"Expansion of {count} part{'s' * (count != 1)} in {self.format.name}, shape {self.shape}"


def split(values: npt.ArrayLike, parts: int, fmt: Like) -> Expansion:
    """Expand real numbers: the nearest value of the format, the nearest to what is left, and so on.

    >>> split(0.999, 2, "bfloat16").parts
    (array(1., dtype=float32), array(-0.00099945, dtype=float32))

    Parameters
    ----------
    values : array_like of float or integer, shape (...)
        Taken as float64.
    parts : int
        How many, at least 1.
    fmt : Format, str or dtype

    Returns
    -------
    expansion : Expansion, shape (...)
        What is left in the end is at most half an ulp of the last part, or of the format's smallest numbers.

    Raises ValueError: no parts, a format without a sign, and a NaN that the format has no code for.

    Source: [COLLAGE], where constants such as beta2 are expanded so.
    """
    known = signed(fmt)
    if type(parts) is not int or parts < 1:
        raise ValueError(f"parts={parts!r} of an expansion must be an integer, 1 or more")
    left = reals(values, "values").astype(np.float64)
    carrier, found = float_dtype(known)[0], []
    for _ in range(parts):
        part = np.asarray(quantize(left, known), np.float64)
        found.append(np.asarray(part, carrier))
        # Exact: both are multiples of the last place of the rest, and the difference is not larger than the
        # rest.
        left = np.where(np.isfinite(part), left - np.where(np.isfinite(part), part, 0), 0)
    return Expansion._made(found, known)


def renormalise(x: Expansion) -> Expansion:
    """Return the same sum with parts in order: each is the rounded sum of itself and the next one.

    >>> renormalise(Expansion((0.00390625, 1.0, 2.0), "bfloat16")).parts
    (array(3., dtype=float32), array(0.00390625, dtype=float32), array(0., dtype=float32))

    Parameters
    ----------
    x : Expansion, shape (...)
        Its parts may be in any order, and may overlap.

    Returns
    -------
    expansion : Expansion, shape (...)
        Of as many parts and of the same value, unless a sum overflows, or an error is no number of a format
        without zero or subnormals.

    Source: [SHEWCHUK]; [PRIEST].
    """
    return Expansion._made(_in_order(x.parts, x.format), x.format)


def grow(x: Expansion, a: npt.ArrayLike, *, any_order: bool = False, check: bool = False) -> Expansion:
    """Add one number to an expansion of its format: Grow.

    >>> one = Expansion((1.0, 0.0), "bfloat16")
    >>> grow(one, 0.00099945068359375).parts
    (array(1., dtype=float32), array(0.00099945, dtype=float32))

    Parameters
    ----------
    x : Expansion, shape (...)
        In order, as all functions here give it.
    a : array_like, shape (...) or one that broadcasts to it
        Values of the format; others are rounded on their way.
    any_order : bool
        The published operation takes the first part of x to be no smaller than a; if it is, what their sum
        was rounded by is not exact. With `any_order` it is, for three more operations.
    check : bool
        Whether to refuse values that the format does not have, and an `a` that is larger than the first part.

    Returns
    -------
    expansion : Expansion, shape (...)
        Of as many parts: what does not fit the last one is lost.

    Raises ValueError: a shape that does not broadcast to that of x; with `check`, what `fast_two_sum` or
    `two_sum` refuses.

    Source: [COLLAGE] Grow.
    """
    fmt, a = x.format, _spread(as_array(a), x.shape)
    if len(x.parts) == 1:
        a = values_of(a, fmt, "a") if check else a
        return Expansion._made((arith.add(x.parts[0], a, fmt),), fmt)
    transform = two_sum if any_order else fast_two_sum
    first, carried = transform(x.parts[0], a, fmt, check=check)
    second = [x.parts[1], carried]
    return _collected([[first], second, *([part] for part in x.parts[2:])], fmt)


def add(x: Expansion, y: Expansion) -> Expansion:
    """Add two expansions.

    >>> add(split(0.9, 2, "bfloat16"), split(0.1, 2, "bfloat16")).values()
    np.float64(1.0)

    Parameters
    ----------
    x, y : Expansion, shapes that broadcast to (...)
        In one format.

    Returns
    -------
    expansion : Expansion, shape (...)
        Of as many parts as the longer one.

    Raises ValueError: two formats, or shapes that do not broadcast.

    Source: [COLLAGE]; [PRIEST].
    """
    fmt, (left, right) = _alike(x, y)
    levels: list[list[Any]] = [[] for _ in range(max(len(left), len(right)))]
    for side in (left, right):
        for level, part in zip(levels, side, strict=False):
            level.append(part)
    return _collected(levels, fmt)


def multiply(x: Expansion, y: Expansion) -> Expansion:
    """Multiply two expansions: Mul.

    >>> decayed = multiply(Expansion((1.0, 0.0), "bfloat16"), split(0.999, 2, "bfloat16"))
    >>> decayed.values()
    np.float64(0.9990005493164062)

    Operands and results are those of `add`.

    Notes
    -----
    Products of parts are exact, by `two_prod`, but for the smallest that still count, which are rounded. Of
    two parts each: p = x1 y1, and its error plus (x2 y1 + x1 y2).

    Source: [COLLAGE] Mul.
    """
    fmt, (left, right) = _alike(x, y)
    count = max(len(left), len(right))
    levels: list[list[Any]] = [[] for _ in range(count)]
    errors: list[list[Any]] = [[] for _ in range(count)]
    for j, other in enumerate(right):
        for i, part in enumerate(left[: count - j]):
            if i + j == count - 1:
                levels[i + j].append(arith.multiply(part, other, fmt))
            else:
                product, error = two_prod(part, other, fmt)
                levels[i + j].append(product)
                errors[i + j + 1].append(error)
    return _collected([level + lost for level, lost in zip(levels, errors, strict=True)], fmt)


def divide(x: Expansion, y: Expansion) -> Expansion:
    """Divide two expansions, by long division: each part is a quotient of first parts, of what is left.

    >>> third = divide(split(1.0, 2, "bfloat16"), split(3.0, 2, "bfloat16"))
    >>> third.parts, third.values() * 3
    ((array(0.33398438, dtype=float32), array(-0.00065231, dtype=float32)), np.float64(0.9999961853027344))

    Operands and results are those of `add`. Where the first part of the quotient or of y is not finite, the
    quotient's others are zeros.

    Notes
    -----
    What is left is x minus the quotient so far times y, in expansions of one part more, with one quotient
    more than the result has parts; then it is renormalised, and the last part is lost. Away from the ends
    of the format's range errors are below 2**-precision for each part, relative to the quotient; that is
    measured, not proven.

    Source: [PRIEST], division.
    """
    fmt, (left, right) = _alike(x, y)
    count = max(len(left), len(right))
    zero = np.zeros_like(left[0])
    rest, by = (Expansion._made((*parts, *[zero] * (count + 1 - len(parts))), fmt) for parts in (left, right))
    first = np.asarray(arith.divide(left[0], right[0], fmt))
    plain = np.isfinite(first) & np.isfinite(right[0])
    quotients = [np.where(plain, first, zero)]
    for _ in range(count):
        rest = add(rest, scale(by, np.negative(quotients[-1])))
        part = np.asarray(arith.divide(rest.parts[0], right[0], fmt))
        quotients.append(np.where(plain, part, zero))
    whole = renormalise(Expansion._made(quotients, fmt)).parts[:count]
    alone = (first, *[zero] * (count - 1))
    return Expansion._made(
        [np.where(plain, part, other) for part, other in zip(whole, alone, strict=True)], fmt
    )


def scale(x: Expansion, c: npt.ArrayLike) -> Expansion:
    """Multiply an expansion by one number of its format.

    >>> scale(split(0.9, 2, "bfloat16"), 3.0).values()
    np.float64(2.70001220703125)

    Parameters
    ----------
    x : Expansion, shape (...)
    c : array_like, shape (...) or one that broadcasts with it
        Values of the format. By a power of two every part is multiplied exactly, unless one becomes
        subnormal.

    Returns
    -------
    expansion : Expansion, shape (...)
        Of as many parts as x.

    Raises ValueError: numbers that the format does not have, or shapes that do not broadcast.

    Source: [COLLAGE]; [SHEWCHUK].
    """
    return multiply(x, Expansion((as_array(c),), x.format))


def signed(fmt: Like) -> Format:
    """Return a format; refuse unsigned ones, as parts have both signs."""
    known = catalog.format(fmt)
    if known.sign is Sign.UNSIGNED:
        raise ValueError(
            f"{known.name!r} is unsigned, and parts of an expansion have both signs; use a signed format"
        )
    return known


# -- sums on levels ----------------------------------------------------------------------------------


def _collected(levels: list[list[Any]], fmt: Format) -> Expansion:
    """Add up all terms to as many parts as there are levels.

    Of two levels, the second sum has no larger exponent than the first, though first parts may cancel: their
    sum is then a multiple of the last place of the smaller one. So `fast_two_sum` is exact.
    """
    parts: list[Any] = []
    carried: list[Any] = []
    for terms in levels:
        total, *others = [*terms, *carried]
        carried = []
        for term in others:
            if len(parts) == len(levels) - 1:
                total = arith.add(total, term, fmt)
            else:
                total, error = two_sum(total, term, fmt)
                carried.append(error)
        parts.append(total)
    if len(parts) == 2:
        return Expansion._made(fast_two_sum(parts[0], parts[1], fmt), fmt)
    return Expansion._made(_in_order(parts, fmt), fmt)


def _in_order(parts: Sequence[Any], fmt: Format) -> list[Any]:
    """Return the same sum, largest part first."""
    found = list(parts)
    for _ in range(_PASSES * len(found)):
        for i in reversed(range(len(found) - 1)):
            found[i], found[i + 1] = two_sum(found[i], found[i + 1], fmt)
        if len(found) <= 2 or all(_holds(*pair, fmt) for pair in itertools.pairwise(found)):
            break
    return found


def _holds(part: Any, after: Any, fmt: Format) -> bool:
    """Return whether a part is the sum of itself and the next one, rounded; NaN is."""
    total = arith.add(part, after, fmt)
    return bool(((total == part) | (total != total)).all())


def _alike(x: Expansion, y: Expansion) -> tuple[Format, tuple[Parts, Parts]]:
    """Return the format of two expansions, and their parts in one shape."""
    if x.format != y.format:
        raise ValueError(
            f"expansions in {x.format.name!r} and {y.format.name!r} have no common format; "
            f"split(y.values(), {len(y.parts)}, {x.format.name!r}) has y in the first"
        )
    shape = broadcast_shapes(x.shape, y.shape)
    left, right = (tuple(_spread(part, shape) for part in side.parts) for side in (x, y))
    return x.format, (left, right)


def _spread(values: Array, shape: tuple[int, ...]) -> Array:
    """Broadcast values to a shape, contiguous, which is fastest."""
    if values.shape == shape:
        return values
    return np.ascontiguousarray(np.broadcast_to(values, shape)).reshape(shape)
