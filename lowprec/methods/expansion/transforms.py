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
    total = arith.add(x, y, known)
    other = arith.subtract(total, x, known)
    rest = arith.subtract(total, other, known)
    error = arith.add(arith.subtract(x, rest, known), arith.subtract(y, other, known), known)
    if check:
        _need_finite("two_sum", x, y, total, error, known)
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
    total = arith.add(x, y, known)
    error = arith.subtract(y, arith.subtract(total, x, known), known)
    if check:
        _need_finite("fast_two_sum", x, y, total, error, known)
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
    constant = np.float32(2 ** -(-known.precision // 2) + 1)
    if known.precision < 2 or float(quantize(constant, known)) != constant:
        raise ValueError(
            f"{known.name!r} does not have {constant}, by which numbers are split in halves; use two_prod, "
            "which needs none"
        )
    large = arith.multiply(x, constant, known)
    high = arith.subtract(large, arith.subtract(large, x, known), known)
    low = arith.subtract(x, high, known)
    if check:
        _need_finite("halves", x, constant, large, low, known)
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
    product = arith.multiply(x, y, known)
    error = arith.fma(x, y, np.negative(product), known) if fma else _lost_by(product, x, y, known)
    if check:
        _need_finite("two_prod", x, y, product, error, known)
    return product, error


def _lost_by(product: Any, x: npt.ArrayLike, y: npt.ArrayLike, fmt: Format) -> Any:
    """Return the rounding error of a product, from the four exact products of halves, largest first."""
    (x_high, x_low), (y_high, y_low) = halves(x, fmt), halves(y, fmt)
    error = arith.subtract(arith.multiply(x_high, y_high, fmt), product, fmt)
    for left, right in ((x_high, y_low), (x_low, y_high), (x_low, y_low)):
        error = arith.add(error, arith.multiply(left, right, fmt), fmt)
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


def _need_finite(
    function: str, x: npt.ArrayLike, y: npt.ArrayLike, result: Any, error: Any, fmt: Format
) -> None:
    rule = f"{function} in {fmt.name!r} needs finite operands and results"
    _need(np.isfinite(result) & np.isfinite(error), x, y, rule, "Divide by a power of two first")
