"""Error-free transforms: a sum or a product and its exact rounding error, in one format.

Each step is an operation of `lowprec` with one rounding, to nearest. That the error is a number of the
format is a theorem; it needs subnormals, results that do not overflow, and the conditions of each function.
``check=True`` checks them all, and a ValueError names the operands that break one.

Floor 4. Source: [KNUTH] 4.2.2 for `two_sum`; [DEKKER] for `fast_two_sum`; [COLLAGE] for their use.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays import arith
from lowprec.arrays.axes import broadcast_shapes
from lowprec.arrays.checks import Array, as_array, float_dtype
from lowprec.arrays.convert import quantize
from lowprec.spec import catalog
from lowprec.spec.format import Format
from lowprec.spec.projection import Flag

Like = Format | str | npt.DTypeLike


def two_sum(x: npt.ArrayLike, y: npt.ArrayLike, fmt: Like, *, check: bool = False) -> tuple[Any, Any]:
    """Return x + y and its rounding error, whichever of the two is larger: six operations.

    >>> two_sum(200.0, 0.1015625, "bfloat16")
    (np.float32(200.0), np.float32(0.1015625))
    >>> two_sum(0.1015625, 200.0, "bfloat16")
    (np.float32(200.0), np.float32(0.1015625))

    Parameters
    ----------
    x, y : array_like, shapes that broadcast to (...)
        Values of the format. Arrays of float32 and of one shape are fastest.
    fmt : Format, str or dtype
    check : bool
        Whether to refuse operands whose sum and error are not exact.

    Returns
    -------
    sum, error : array of float, shape (...)
        The sum rounded to nearest; sum + error is x + y.

    Raises ValueError: with `check`: numbers that the format does not have, or a sum on the way that
    overflows.

    Source: [KNUTH] 4.2.2, theorem B.
    """
    known = catalog.format(fmt)
    if check:
        x, y = _checked(x, y, known)
    step = _Steps(known, check)
    total = step(arith.add, x, y)
    other = step(arith.subtract, total, x)
    rest = step(arith.subtract, total, other)
    error = step(arith.add, step(arith.subtract, x, rest), step(arith.subtract, y, other))
    if check:
        step.need_finite("two_sum", x, y, total, error)
    return total, error


def fast_two_sum(x: npt.ArrayLike, y: npt.ArrayLike, fmt: Like, *, check: bool = False) -> tuple[Any, Any]:
    """Return x + y and its rounding error, where abs(x) >= abs(y): three operations.

    >>> fast_two_sum(200.0, 0.1015625, "bfloat16")
    (np.float32(200.0), np.float32(0.1015625))
    >>> fast_two_sum(1.0078125, 255.0, "bfloat16")  # the smaller one first: the error, 0.0078125, is lost
    (np.float32(256.0), np.float32(0.0))
    >>> two_sum(1.0078125, 255.0, "bfloat16")
    (np.float32(256.0), np.float32(0.0078125))

    Parameters
    ----------
    x, y : array_like, shapes that broadcast to (...)
        Values of the format. The theorem also holds where x is 0.
    fmt, check
        As for `two_sum`.

    Returns
    -------
    sum, error : array of float, shape (...)

    Raises ValueError: with `check`: as for `two_sum`, and an x that is smaller than its y.

    Source: [DEKKER]; [COLLAGE].
    """
    known = catalog.format(fmt)
    if check:
        x, y = _checked(x, y, known)
        _need(
            (np.abs(x) >= np.abs(y)) | (np.asarray(x) == 0), x, y,
            "fast_two_sum needs abs(x) >= abs(y), or what the sum was rounded by is lost",
            "Exchange them, or use two_sum",
        )  # fmt: skip
    step = _Steps(known, check)
    total = step(arith.add, x, y)
    error = step(arith.subtract, y, step(arith.subtract, total, x))
    if check:
        step.need_finite("fast_two_sum", x, y, total, error)
    return total, error


def halves(x: npt.ArrayLike, fmt: Like, *, check: bool = False) -> tuple[Any, Any]:
    """Split numbers in two of half the precision, whose products are exact: a product and three differences.

    >>> halves(1.0546875, "bfloat16")
    (np.float32(1.0), np.float32(0.0546875))

    Parameters
    ----------
    x : array_like
        Values of the format, whose product with 2**s + 1 does not overflow; s is half of the format's
        precision, rounded up.
    fmt, check
        As for `two_sum`.

    Returns
    -------
    high, low : array of float
        Of at most precision - s and s - 1 bits; their sum is x. Where the product overflows they are not
        finite.

    Raises ValueError: with `check`: as for `two_sum`, and a product that overflows.

    Source: [DEKKER], with Veltkamp's constant.
    """
    known = catalog.format(fmt)
    if check:
        x, _ = _checked(x, 0.0, known)
    step = _Steps(known, check)
    high, low, constant = _halves(step, x)
    if check:
        step.need_finite("halves", x, constant, high, low)
    return high, low


def two_prod(
    x: npt.ArrayLike, y: npt.ArrayLike, fmt: Like, *, check: bool = False, fma: bool = True
) -> tuple[Any, Any]:
    """Return x * y and its rounding error: a product and an `fma`.

    >>> two_prod(1.0078125, 1.0078125, "bfloat16")
    (np.float32(1.015625), np.float32(6.1035156e-05))
    >>> two_prod(1.0078125, 1.0078125, "bfloat16", fma=False)
    (np.float32(1.015625), np.float32(6.1035156e-05))

    The error is a number of the format where it is no smaller than the format's smallest: it is, if the
    exponents of x and y add up to ``fmt.emin + fmt.precision - 1`` or more.

    Parameters
    ----------
    x, y : array_like, shapes that broadcast to (...)
    fmt, check
        As for `two_sum`.
    fma : bool
        False: as machines without that operation do it, by Dekker, from the products of `halves`: 17
        operations. Then neither these nor halves may overflow, or the error is not finite.

    Returns
    -------
    product, error : array of float, shape (...)

    Raises ValueError: with `check`: numbers that the format does not have, a product that overflows, and
    exponents that are too small together.

    Source: [COLLAGE]; [DEKKER]; [BOLDO_ERRORS] for what the exponents must fulfil.
    """
    known = catalog.format(fmt)
    if check:
        x, y = _checked(x, y, known)
        least = known.emin + known.precision - 1
        exponents = np.frexp(x)[1] + np.frexp(y)[1] - 2
        _need(
            (exponents >= least) | (np.asarray(x) == 0) | (np.asarray(y) == 0), x, y,
            f"two_prod in {known.name!r} needs exponents that add up to {least} or more, or what the "
            "product was rounded by may be below the format's smallest number",
            "Multiply the factors by powers of two first",
        )  # fmt: skip
    step = _Steps(known, check)
    product = step(arith.multiply, x, y)
    error = step(arith.fma, x, y, np.negative(product)) if fma else _lost_by(step, product, x, y)
    if check:
        step.need_finite("two_prod", x, y, product, error)
    return product, error


class _Steps:
    """Operations in one format; `lost` says where one of them overflowed to a finite value, if that is asked.

    It is so in formats without infinity and NaN: in others a result that is not finite tells.
    """

    def __init__(self, fmt: Format, check: bool) -> None:
        self.fmt, self.lost = fmt, np.False_
        self.watched = check and not (fmt.infinity or fmt.has_nan)

    def __call__(self, operation: Any, *operands: npt.ArrayLike) -> Any:
        if not self.watched:
            return operation(*operands, self.fmt)
        flags = np.zeros(broadcast_shapes(*map(np.shape, operands)), np.uint8)
        result = operation(*operands, self.fmt, flags=flags)
        self.lost = self.lost | (flags & Flag.OVERFLOW != 0)
        return result

    def need_finite(self, function: str, x: npt.ArrayLike, y: npt.ArrayLike, result: Any, error: Any) -> None:
        """Refuse operands of which a result was not finite or overflowed."""
        what = "results that do not overflow" if self.watched else "finite operands and results"
        holds = np.isfinite(result) & np.isfinite(error) & ~self.lost
        _need(holds, x, y, f"{function} in {self.fmt.name!r} needs {what}", "Divide by a power of two first")


def _halves(step: _Steps, x: npt.ArrayLike) -> tuple[Any, Any, Any]:
    """Return the halves of numbers, and the factor; refuse formats that do not have it."""
    fmt = step.fmt
    constant = np.float32(2 ** -(-fmt.precision // 2) + 1)
    if fmt.precision < 2 or float(quantize(constant, fmt)) != constant:
        raise ValueError(
            f"{fmt.name!r} does not have {constant}, by which numbers are split in halves; use two_prod, "
            "which needs none"
        )
    large = step(arith.multiply, x, constant)
    high = step(arith.subtract, large, step(arith.subtract, large, x))
    return high, step(arith.subtract, x, high), constant


def _lost_by(step: _Steps, product: Any, x: npt.ArrayLike, y: npt.ArrayLike) -> Any:
    """Return the rounding error of a product, from the four exact products of halves, largest first."""
    (x_high, x_low, _), (y_high, y_low, _) = _halves(step, x), _halves(step, y)
    error = step(arith.subtract, step(arith.multiply, x_high, y_high), product)
    for left, right in ((x_high, y_low), (x_low, y_high), (x_low, y_low)):
        error = step(arith.add, error, step(arith.multiply, left, right))
    return error


def values_of(numbers: npt.ArrayLike, fmt: Format, name: str) -> Array:
    """Return numbers in the type that carries a format's values; refuse those that the format lacks."""
    given = as_array(numbers)
    flags = np.zeros(given.shape, np.uint8)
    values = np.asarray(quantize(given, fmt, flags=flags))
    wrong = (values != given) & ((values == values) | (given == given))
    wrong |= flags & Flag.INEXACT != 0  # of integers that NumPy compares as float64
    if wrong.any():
        first = tuple(int(place) for place in np.argwhere(wrong)[0])
        raise ValueError(
            f"{name} has numbers that {fmt.name!r} does not have: {int(wrong.sum()):,} of {wrong.size:,}, "
            f"the first at index {first}: {given[first]}. Quantize to {fmt.name!r} first, or use split for "
            "a sum of several parts"
        )
    return np.ascontiguousarray(values, float_dtype(fmt)[0]).reshape(given.shape)


def _checked(x: npt.ArrayLike, y: npt.ArrayLike, fmt: Format) -> tuple[Array, Array]:
    """Return operands as values of the format; refuse formats without error-free transforms."""
    if not fmt.subnormals:
        raise ValueError(
            f"{fmt.name!r} has no subnormals, so that what a result was rounded by may be no number of it; "
            "use another format, or check=False"
        )
    return values_of(x, fmt, "x"), values_of(y, fmt, "y")


def _need(holds: Array, x: npt.ArrayLike, y: npt.ArrayLike, rule: str, remedy: str) -> None:
    """Refuse operands for which a rule does not hold, and name the first."""
    wrong = ~np.asarray(holds)
    if not wrong.any():
        return
    first = tuple(int(place) for place in np.argwhere(wrong)[0])
    left, right = (np.broadcast_to(np.asarray(array), wrong.shape)[first] for array in (x, y))
    raise ValueError(
        f"{rule}: {int(wrong.sum()):,} of {wrong.size:,} pairs do not fulfil this, the first at index "
        f"{first}: x = {left}, y = {right}. {remedy}"
    )
