"""Rules of operations on elements: sums and products of two, functions of one, choices, comparisons.

Floor 4. Source: [SCALIFY] 3.2, 3.4 and its published code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from lowprec.arrays.checks import Array
from lowprec.arrays.doubles import doubles
from lowprec.methods.scale_propagation.pow2 import pow2_norm
from lowprec.methods.scale_propagation.registry import register_each, register_scaled_op
from lowprec.methods.scale_propagation.rounding import fitting, operate, project, ratio
from lowprec.methods.scale_propagation.rules.operands import factor, largest_scale, one, operands, settled
from lowprec.methods.scale_propagation.scaled_array import (
    ScaledArray,
    holds_no_scale,
    over,
    refuse_masks,
    with_data,
)
from lowprec.spec.format import Format

# -- sums -------------------------------------------------------------------------------------------


def _summed(operation: str, x: Any, y: Any) -> ScaledArray:
    """Add or subtract; the scale is the root of the sum of the squared scales, as a power of two."""
    given = operands(x, y)
    scales = [0.0 if holds_no_scale(array) else float(array.scale) for array in given.arrays]
    if not any(scales):
        scales = [float(array.scale != 0) for array in given.arrays]  # infinities and NaNs are so at 1 too
    scale = fitting(pow2_norm(*scales), given.scale_format)
    first, second = (over(array, float(scale)) for array in given.arrays)
    return given.result(operate(operation, first, second, fmt=given.fmt), scale)


@register_scaled_op(np.add)
def add(x: Any, y: Any) -> ScaledArray:
    """Return x + y."""
    return _summed("add", x, y)


@register_scaled_op(np.subtract)
def subtract(x: Any, y: Any) -> ScaledArray:
    """Return x - y."""
    return _summed("subtract", x, y)


# -- products ---------------------------------------------------------------------------------------


@register_scaled_op(np.multiply)
def multiply(x: Any, y: Any) -> ScaledArray:
    """Return x * y; the scale is the product of the scales, and zeros of scale 0 stay so."""
    given = operands(x, y)
    scale = 0.0
    if all(array.scale for array in given.arrays):
        first, second = (factor(array) for array in given.arrays)
        scale = fitting(float(first.scale) * float(second.scale), given.scale_format)
        left, right = over(first, ratio(float(scale), float(second.scale))), second.data
    else:
        left, right = (over(array, 1.0) for array in given.arrays)
    data = operate("multiply", left, right, fmt=given.fmt)
    return given.result(data, fitting(scale, given.scale_format))


@register_scaled_op(np.divide)
def divide(x: Any, y: Any) -> ScaledArray:
    """Return x / y; the scale is the quotient of the scales, and zeros of scale 0 stay so."""
    given = operands(x, y)
    first, second = given.arrays[0], factor(given.arrays[1])
    exact = float(first.scale != 0) if holds_no_scale(first) else float(first.scale) / float(second.scale)
    scale = fitting(exact, given.scale_format)
    left = over(first, float(scale) * float(second.scale))
    return given.result(operate("divide", left, second.data, fmt=given.fmt), scale)


@register_scaled_op(np.square)
def square(x: ScaledArray) -> ScaledArray:
    """Return x * x."""
    return multiply(x, x)


@register_scaled_op(np.reciprocal)
def reciprocal(x: ScaledArray) -> ScaledArray:
    """Return 1 / x."""
    return divide(1, x)


@register_scaled_op(np.power)
def power(x: Any, y: Any) -> ScaledArray:
    """Return x**y; the scale is scale**y for an integer y, else 1 as for `exp`."""
    exponent = (
        None if isinstance(y, ScaledArray) or np.ndim(y) else float(doubles(y, "the exponent of numpy.power"))
    )
    if exponent is None or not isinstance(x, ScaledArray) or not exponent.is_integer():
        return _by_values(np.power, x, y)
    if exponent == 2:
        return multiply(x, x)
    x = settled(x)
    scale, rest, more = scale_power(float(x.scale), int(exponent), x.scale_format)
    with np.errstate(all="ignore"):
        # The power of the data is float64's, as in `exp`, exponents apart; with what the scale could not
        # take.
        numbers, exponents = _near_one(x.data.astype(np.float64))
        exponents = np.clip(exponents * exponent + float(more), -3000, 3000).astype(int)
        data = np.ldexp(np.power(numbers, exponent) * rest, exponents)
    return with_data(x, project(data, x.format), scale)


def scale_power(scale: float, exponent: int, fmt: Format) -> tuple[Any, float, int]:
    """Round scale**exponent to a format; return that, and the rest as a number near 1 and a power of two.

    The power of two is given by its exponent, which may be far beyond float64.
    """
    fraction, power = _near_one(np.float64(scale))
    with np.errstate(over="ignore"):
        number, more = math.frexp(np.power(fraction, float(exponent)))
    if not 0 < number < 1:
        raise ValueError(
            f"{scale}**{exponent}, the power of the scale, is out of the range of float64 even without its "
            "power of two; scales that are powers of two have no such end: set_scaling(x, "
            "pow2_round(x.scale))"
        )
    more += int(power) * exponent
    scale = fitting(math.ldexp(number, max(-1000, min(1000, more))), fmt)
    taken, of_scale = math.frexp(float(scale))
    return scale, ratio(number, taken), more - of_scale


def _near_one(values: Any) -> tuple[Any, Any]:
    """Split into numbers of 0.75 to 1.5, whose powers stay in range the longest, and exponents of two."""
    fractions, exponents = np.frexp(values)
    low = np.abs(fractions) < 0.75
    return np.where(low, 2 * fractions, fractions), exponents - low


@register_scaled_op(np.sqrt)
def sqrt(x: ScaledArray) -> ScaledArray:
    """Return the square root; so is the scale, no power of two where its exponent is odd."""
    if holds_no_scale(x):
        return with_data(x, operate("sqrt", over(x, 1.0), fmt=x.format))
    scale = fitting(math.sqrt(float(x.scale)), x.scale_format)
    return with_data(x, operate("sqrt", over(x, float(scale) ** 2), fmt=x.format), scale)


# -- signs ------------------------------------------------------------------------------------------


@register_scaled_op(np.negative)
def negative(x: ScaledArray) -> ScaledArray:
    """Negate; the scale stays."""
    return with_data(x, operate("negative", x.data, fmt=x.format))


@register_scaled_op(np.absolute, np.fabs)
def absolute(x: ScaledArray) -> ScaledArray:
    """Return magnitudes; the scale stays."""
    return with_data(x, operate("absolute", x.data, fmt=x.format))


@register_scaled_op(np.positive)
def positive(x: ScaledArray) -> ScaledArray:
    """Return the operand as it is."""
    return x


@register_scaled_op(np.sign)
def sign(x: ScaledArray) -> ScaledArray:
    """Return the sign; the scale is 1."""
    return with_data(x, project(np.sign(over(x, 1.0)), x.format), one(x.scale_format))


# -- choices ----------------------------------------------------------------------------------------


def _of_one_type(arrays: Iterable[Array]) -> list[Array]:
    """Return arrays in a type that NumPy chooses among: it has none for float16 and bfloat16 together."""
    made = list(arrays)
    alike = len({each.dtype for each in made}) == 1
    return made if alike else [each.astype(np.result_type(each.dtype, np.float32)) for each in made]


def _chosen(choose: Callable[..., Any], *given: Any) -> ScaledArray:
    """Choose among elements, at the largest scale that is not 0, infinite or NaN."""
    taken = operands(*given)
    scale = fitting(largest_scale(taken.arrays), taken.scale_format)
    data = choose(*_of_one_type(over(array, float(scale)) for array in taken.arrays))
    return taken.result(project(data, taken.fmt), scale)


@register_scaled_op(np.maximum)
def maximum(x: Any, y: Any) -> ScaledArray:
    """Return the larger of two, NaN if one is."""
    return _chosen(np.maximum, x, y)


@register_scaled_op(np.minimum)
def minimum(x: Any, y: Any) -> ScaledArray:
    """Return the lesser of two, NaN if one is."""
    return _chosen(np.minimum, x, y)


@register_scaled_op(np.clip)
def clip(x: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> ScaledArray:
    """Return minimum(maximum(x, a_min), a_max); min and max are other names of the bounds."""
    if not (a_min is None and a_max is None) and not (min is None and max is None):
        raise ValueError("numpy.clip takes a_min and a_max, or min and max, not some of each")
    least, most = (a_min, a_max) if min is None and max is None else (min, max)
    x = x if least is None else maximum(x, least)
    return x if most is None else minimum(x, most)


@register_scaled_op(np.where)
def where(condition: Any, x: Any, y: Any) -> ScaledArray:
    """Return elements of x where the condition holds, else of y."""
    if isinstance(condition, ScaledArray):
        raise TypeError(
            "numpy.where takes a condition that is no ScaledArray; compare it: numpy.where(x != 0, ...)"
        )
    refuse_masks(condition)
    return _chosen(lambda first, second: np.where(condition, first, second), x, y)


# -- values -----------------------------------------------------------------------------------------


def _by_values(function: Callable[..., Array], *given: Any) -> ScaledArray:
    """Apply a function to the values in float64 and round its results once; the scale is 1."""
    taken = operands(*given)
    with np.errstate(all="ignore"):
        results = function(*(over(array, 1.0).astype(np.float64) for array in taken.arrays))
    return taken.result(project(results, taken.fmt), one(taken.scale_format))


@register_each(
    *(np.exp, np.exp2, np.expm1, np.log, np.log2, np.log10, np.log1p, np.logaddexp, np.logaddexp2),
    *(np.sin, np.cos, np.tan, np.arcsin, np.arccos, np.arctan, np.arctan2),
    *(np.sinh, np.cosh, np.tanh, np.arcsinh, np.arccosh, np.arctanh, np.cbrt),
    *(np.rint, np.floor, np.ceil, np.trunc),
)
def _of_values(function: Callable[..., Any], *given: Any) -> ScaledArray:
    return _by_values(function, *given)


# -- comparisons ------------------------------------------------------------------------------------


@register_each(np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)
def _comparison(function: Callable[..., Any], x: Any, y: Any) -> Any:
    values = [given.to_array() if isinstance(given, ScaledArray) else given for given in (x, y)]
    if any(map(_beyond_doubles, values)):
        values = [np.asanyarray(each).astype(object) for each in values]
    return function(*values)


def _beyond_doubles(given: Any) -> bool:
    """Return whether an operand has integers that NumPy would round to compare them with float64."""
    array = np.asarray(given)
    return array.dtype == object or (array.dtype.kind in "iu" and bool((np.abs(array) >= 2**53).any()))


@register_scaled_op(np.isfinite)
def isfinite(x: ScaledArray) -> Any:
    """Return where data and scale are finite."""
    return np.isfinite(x.data) & np.isfinite(x.scale)


@register_each(np.isnan, np.isinf)
def _of_kind(function: Callable[..., Any], x: ScaledArray) -> Any:
    return function(over(x, 1.0))


@register_scaled_op(np.signbit)
def signbit(x: ScaledArray) -> Any:
    """Apply `numpy.signbit` to the data."""
    return np.signbit(x.data)
