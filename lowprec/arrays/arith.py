"""Operations on values: the exact real operation, then one projection.

Floor 3. `operations` answers them.
"""

from __future__ import annotations

from typing import Any, Unpack

import numpy.typing as npt

from lowprec.arrays.operations import Like, Options, operate
from lowprec.arrays.result_signatures import OfOne, OfThree, OfTwo, ScaleB
from lowprec.arrays.signatures import Returns

__all__ = [
    "absolute",
    "add",
    "copysign",
    "divide",
    "fma",
    "logb",
    "maximum",
    "maximum_number",
    "minimum",
    "minimum_number",
    "multiply",
    "negative",
    "remainder",
    "round_to_integral",
    "scaleb",
    "sqrt",
    "subtract",
]


@Returns[OfTwo]()
def add(x: npt.ArrayLike, y: npt.ArrayLike, fmt: Like, **options: Unpack[Options]) -> Any:
    """Return the sum x + y of two real numbers, exact and then projected onto a format once.

    >>> add([1.0, 448.0], [0.0625, 32.0], "e4m3fn")
    array([ 1., nan], dtype=float32)
    >>> add([1.0, 448.0], [0.0625, 32.0], "e4m3fn", rounding="toward_positive", saturation="finite")
    array([  1.125, 448.   ], dtype=float32)
    >>> import numpy as np
    >>> signals = np.zeros(2, np.uint8)
    >>> add([1.0, np.inf], [0.0625, -np.inf], "binary16", flags=signals), signals
    (array([1.0625,    nan], dtype=float32), array([ 0, 16], dtype=uint8))

    Parameters
    ----------
    x, y : array_like of float or integer, shapes that broadcast to (...)
        As for `encode`: every value counts as it is, whatever type holds it.
    fmt : Format, str or dtype
        Of the results. It may be another than that of the operands.
    rounding, saturation, projection, profile, random, rng, flags, backend
        As for `encode`, `random` and `flags` in the shape of the result.
    dtype : dtype, optional
        As for `decode`; or the type of the format's codes, `lowprec.dtype(fmt)` or an unsigned
        integer, for codes instead of values.
    out : array of such a type, shape (...), optional
        Untouched if the call fails. It may be an operand.

    Returns
    -------
    values : array of float, shape (...)
        float32 where that holds every value of the format, else float64.

    Raises
    ------
    ValueError
        A result without a code: NaN where the format has none; shapes that do not broadcast.
    TypeError
        Values that are no real numbers.

    Notes
    -----
    A NaN operand is delivered as NaN, with the sign of the first such operand; NaNs that operations
    generate are positive. `Projection.nan_payload`, `nan_code` and `nan_sign` change that, and the
    profiles `x86`, `arm`, `arm_default_nan` and `riscv` have what these processors do. An exact sum of
    zero is +0, but -0 under `toward_negative`.

    Source
    ------
    [IEEE754] 5.4.1, 6.2, 6.3, 7.
    """
    return operate("add", (x, y), fmt, **options)


@Returns[OfTwo]()
def subtract(x: npt.ArrayLike, y: npt.ArrayLike, fmt: Like, **options: Unpack[Options]) -> Any:
    """Return the difference x - y, projected onto a format once; see `add`.

    >>> subtract(1.0, [0.5, 1.0, 2.0**-20], "bfloat16")
    array([0.5, 0. , 1. ], dtype=float32)
    """
    return operate("subtract", (x, y), fmt, **options)


@Returns[OfTwo]()
def multiply(x: npt.ArrayLike, y: npt.ArrayLike, fmt: Like, **options: Unpack[Options]) -> Any:
    """Return the product x * y, projected onto a format once; see `add`. Infinity times zero is NaN.

    >>> multiply([1.125, -0.0], [1.125, 3.0], "e4m3fn")
    array([ 1.25, -0.  ], dtype=float32)
    """
    return operate("multiply", (x, y), fmt, **options)


@Returns[OfTwo]()
def divide(x: npt.ArrayLike, y: npt.ArrayLike, fmt: Like, **options: Unpack[Options]) -> Any:
    """Return the quotient x / y, projected onto a format once; see `add`.

    A number over zero is infinite, as the projection says for infinities, and signals a division by
    zero alone; zero over zero, and infinity over infinity, is NaN.

    >>> divide([1.0, 1.0, 0.0], [3.0, 0.0, 0.0], "e5m2")
    array([0.3125,    inf,    nan], dtype=float32)
    """
    return operate("divide", (x, y), fmt, **options)


@Returns[OfOne]()
def sqrt(x: npt.ArrayLike, fmt: Like, **options: Unpack[Options]) -> Any:
    """Return the square root, projected onto a format once; see `add`. Below -0 NaN.

    >>> sqrt([2.0, -0.0, -1.0], "binary16")
    array([ 1.4140625, -0.       ,        nan], dtype=float32)
    """
    return operate("sqrt", (x,), fmt, **options)


@Returns[OfThree]()
def fma(x: npt.ArrayLike, y: npt.ArrayLike, z: npt.ArrayLike, fmt: Like, **options: Unpack[Options]) -> Any:
    """Return the product and sum x * y + z, projected onto a format once; see `add`.

    >>> fma(1.125, 1.125, -1.265625, "e4m3fn")  # the product is not rounded
    np.float32(0.0)
    """
    return operate("fma", (x, y, z), fmt, **options)


@Returns[OfTwo]()
def remainder(x: npt.ArrayLike, y: npt.ArrayLike, fmt: Like, **options: Unpack[Options]) -> Any:
    """Return the rest x - n * y with the whole number n nearest to x / y, the even one of two; see `add`.

    IEEE 754's remainder, as `math.remainder`; not Python's `%`. A remainder of zero has the sign of x.

    >>> remainder([5.0, 6.0, -4.0], [4.0, 4.0, 4.0], "e4m3fn")
    array([ 1., -2., -0.], dtype=float32)
    """
    return operate("remainder", (x, y), fmt, **options)


@Returns[OfTwo]()
def minimum(x: npt.ArrayLike, y: npt.ArrayLike, fmt: Like, **options: Unpack[Options]) -> Any:
    """Return the lesser of two numbers, -0 below +0, NaN if one is; projected onto a format as `add` does it.

    >>> minimum([1.0, 0.0, 1.0], [2.0, -0.0, float("nan")], "e4m3fn")
    array([ 1., -0., nan], dtype=float32)

    Source: [IEEE754] 9.6.
    """
    return operate("minimum", (x, y), fmt, **options)


@Returns[OfTwo]()
def maximum(x: npt.ArrayLike, y: npt.ArrayLike, fmt: Like, **options: Unpack[Options]) -> Any:
    """Return the greater of two numbers, -0 below +0, NaN if one is; see `minimum`.

    >>> maximum([1.0, 0.0, 1.0], [2.0, -0.0, float("nan")], "e4m3fn")
    array([ 2.,  0., nan], dtype=float32)
    """
    return operate("maximum", (x, y), fmt, **options)


@Returns[OfTwo]()
def minimum_number(x: npt.ArrayLike, y: npt.ArrayLike, fmt: Like, **options: Unpack[Options]) -> Any:
    """Return the lesser of two numbers; of a number and NaN the number. See `minimum`.

    >>> minimum_number([1.0, float("nan")], [2.0, 3.0], "e4m3fn")
    array([1., 3.], dtype=float32)
    """
    return operate("minimum_number", (x, y), fmt, **options)


@Returns[OfTwo]()
def maximum_number(x: npt.ArrayLike, y: npt.ArrayLike, fmt: Like, **options: Unpack[Options]) -> Any:
    """Return the greater of two numbers; of a number and NaN the number. See `minimum`.

    >>> maximum_number([1.0, float("nan")], [2.0, 3.0], "e4m3fn")
    array([2., 3.], dtype=float32)
    """
    return operate("maximum_number", (x, y), fmt, **options)


@Returns[OfOne]()
def negative(x: npt.ArrayLike, fmt: Like, **options: Unpack[Options]) -> Any:
    """-x, of zeros and NaNs too; signals nothing but what its projection does. See `add`.

    Of NaN it is what the projection makes of a NaN with the other sign. Instructions that change the
    sign bit of a code, whatever it is, are ``codes ^ fmt.sign_code``; `absolute` and `copysign` likewise.

    A format without the result's sign takes it as `encode` takes that number: an unsigned format has NaN for
    a negative number, or 0 if it has no NaN, and signals invalid; a format without -0 has 0; a format with a
    single NaN has that one for both signs.

    >>> negative([1.0, 0.0], "e4m3fn")
    array([-1., -0.], dtype=float32)
    >>> negative([1.0, 0.0], "ue4m3"), negative([1.0, 0.0], "uint8"), negative([1.0, 0.0], "e4m3fnuz")
    (array([nan,  0.], dtype=float32), array([0., 0.], dtype=float32), array([-1.,  0.], dtype=float32))
    """
    return operate("negative", (x,), fmt, **options)


@Returns[OfOne]()
def absolute(x: npt.ArrayLike, fmt: Like, **options: Unpack[Options]) -> Any:
    """Return the number x without its sign; see `negative`.

    >>> absolute([-1.0, -0.0], "e4m3fn")
    array([1., 0.], dtype=float32)
    """
    return operate("absolute", (x,), fmt, **options)


@Returns[OfTwo]()
def copysign(x: npt.ArrayLike, y: npt.ArrayLike, fmt: Like, **options: Unpack[Options]) -> Any:
    """Return the number x with the sign of y; see `negative`.

    >>> copysign([1.0, -2.0], [-0.0, 1.0], "e4m3fn")
    array([-1.,  2.], dtype=float32)
    """
    return operate("copysign", (x, y), fmt, **options)


@Returns[OfOne]()
def round_to_integral(x: npt.ArrayLike, fmt: Like, **options: Unpack[Options]) -> Any:
    """Return x rounded to a whole number by the rounding mode, then projected onto a format; see `add`.

    Ties to even are ties to even numbers. A number that is changed signals inexact.

    >>> round_to_integral([2.5, -0.25, 3.5], "e4m3fn")
    array([ 2., -0.,  4.], dtype=float32)
    >>> round_to_integral([2.5, -0.25, 3.5], "e4m3fn", rounding="toward_positive")
    array([ 3., -0.,  4.], dtype=float32)

    Source: [IEEE754] 5.9, roundToIntegralExact.
    """
    return operate("round_to_integral", (x,), fmt, **options)


@Returns[ScaleB]()
def scaleb(x: npt.ArrayLike, n: npt.ArrayLike, fmt: Like, **options: Unpack[Options]) -> Any:
    """Return the number x * 2**n with integers n, projected onto a format once; see `add`.

    >>> scaleb([1.5, 1.5], [3, -12], "e4m3fn")
    array([12.,  0.], dtype=float32)
    """
    return operate("scaleb", (x, n), fmt, **options)


@Returns[OfOne]()
def logb(x: npt.ArrayLike, fmt: Like, **options: Unpack[Options]) -> Any:
    """Return the exponent of x, floor(log2(abs(x))), projected onto a format; see `add`.

    The exponent of zero is minus infinity, which signals a division by zero; that of infinity is infinity.

    >>> logb([0.3, 8.0, 0.0], "e5m2")
    array([ -2.,   3., -inf], dtype=float32)
    """
    return operate("logb", (x,), fmt, **options)
