"""Change scales by hand, and run functions with scales (`scalify`).

Plain arrays pass unchanged, so that one function serves both kinds.

Floor 4.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from lowprec.arrays.arith import divide
from lowprec.arrays.checks import Array, values_operand
from lowprec.arrays.convert import quantize
from lowprec.arrays.dots.sums import computed
from lowprec.arrays.doubles import reals
from lowprec.methods.scale_propagation.checks import finite_scale, number
from lowprec.methods.scale_propagation.config import config, current, scales_everything, scaling_everything
from lowprec.methods.scale_propagation.pow2 import pow2_below, pow2_round, pow2_sqrt
from lowprec.methods.scale_propagation.registry import answer, mark
from lowprec.methods.scale_propagation.rounding import (
    SCALES,
    carrier,
    fitting,
    in_type,
    product,
    project,
    total,
)
from lowprec.methods.scale_propagation.scaled_array import (
    ScaledArray,
    as_scaled,
    holds_no_scale,
    over,
    with_data,
)
from lowprec.spec import catalog
from lowprec.spec.format import Format
from lowprec.spec.projection import Projection

Norm = Literal["max", "l1", "l2"]
Pair = tuple[Any, Callable[[Any], Any]]

#: The smallest factor of `dynamic_rescale`: 1e-4 rounded down.
EPSILON = 1 / 16384

# -- scales -----------------------------------------------------------------------------------------


def set_scaling(x: Any, scale: Any) -> Any:
    """Return the same values at another scale.

    >>> set_scaling(ScaledArray(np.float32([3.0, -1.0]), 2.0), 8.0)
    ScaledArray([ 0.75, -0.25], scale=8.0, format='binary32')

    Parameters
    ----------
    x : ScaledArray or array
        A plain array is returned as it is, except within functions that `scalify` runs: there it becomes a
        ScaledArray.
    scale : float or ScaledArray of a single number
        0 says that the array is zero: its data become so.

    Returns
    -------
    scaled : ScaledArray or array, shape of x

    Raises ValueError: a scale that is negative or not finite, or that the format of the scales of x does
    not have. TypeError: a scale that is no single number.

    Source: [SCALIFY] 3.1.
    """
    if not isinstance(x, ScaledArray):
        if not scales_everything():
            return x
        return as_scaled(x if number("scale", scale) else np.zeros_like(x), number("scale", scale))
    return _at(x, finite_scale(number("scale", scale), x.scale_format)[0])


def _at(x: ScaledArray, given: Any) -> ScaledArray:
    """Return x at a scale, a value of its format of scales."""
    if given == 0:
        return with_data(x, np.zeros(x.shape, x.dtype), given)
    return with_data(x, project(over(x, float(given)), x.format), given)


def rebalance(x: Any, factor: Any) -> Any:
    """Multiply the scale by a factor and divide the data by it; a plain array stays as it is.

    >>> rebalance(ScaledArray(np.float32([3.0, -1.0]), 2.0), 4.0).scale
    np.float32(8.0)

    Parameters
    ----------
    x : ScaledArray or array
    factor : float or ScaledArray of a single number, 0 or more
        The product with the scale is rounded to the scale's format. An infinite or NaN scale stays.

    Returns
    -------
    scaled : ScaledArray or array, shape of x

    Raises ValueError: a factor that is negative or not finite.

    Source: [SCALIFY] 3.1.
    """
    if not isinstance(x, ScaledArray):
        return x
    given = number("factor", factor)
    if not 0 <= given < math.inf:
        raise ValueError(
            f"factor={given!r} must be a finite number, 0 or more; set_scaling(x, scale) gives the scale "
            "itself"
        )
    if not np.isfinite(x.scale):
        return x
    return _at(x, fitting(_product(float(x.scale), float(given)), x.scale_format))


@functools.lru_cache(maxsize=SCALES)
def _product(x: float, y: float) -> float:
    """Multiply to odd: the result is finite, and rounds to fewer bits as the exact product does."""
    odd = catalog.BINARY64, Projection(rounding="to_odd")
    operands = [values_operand(np.float64(each)) for each in (x, y)]
    return float(computed("multiply", operands, odd, None).view(np.float64))


def get_data_scale(x: Any) -> tuple[Array, Any]:
    """Return the data and the scale; of a plain array itself and 1.

    >>> get_data_scale(ScaledArray(np.float32([3.0, -1.0]), 2.0))
    (array([ 3., -1.], dtype=float32), np.float32(2.0))

    Parameters
    ----------
    x : ScaledArray or array

    Returns
    -------
    data : array, shape of x
    scale : float
        In the type of its format.

    Source: [SCALIFY] 3.1.
    """
    if isinstance(x, ScaledArray):
        return x.data, x.scale
    return reals(x, "x"), carrier(current().scale_format).type(1)


def stop_scaling(x: Any, dtype: npt.DTypeLike | None = None) -> Array:
    """Return the values as a plain array, in the type of the data or another.

    >>> stop_scaling(ScaledArray(np.float16([1.5]), 2.0**17))
    array([inf], dtype=float16)
    >>> stop_scaling(ScaledArray(np.float16([1.5]), 8.0))
    array([12.], dtype=float16)

    Parameters
    ----------
    x : ScaledArray or array
    dtype : dtype, optional
        Of the result, to which values are rounded once: by default the type of a plain array, of ScaledArrays
        the type and format of the data; float32, float16, bfloat16, or float64, which is exact where the
        scale is a power of two.

    Returns
    -------
    values : array, shape of x

    Raises TypeError: another type.

    Source: [SCALIFY] 3.1.
    """
    if not isinstance(x, ScaledArray):
        values = reals(x, "x")
        return values if dtype is None else in_type(values, dtype)
    return x.to_array(dtype) if dtype is not None else project(over(x, 1.0), x.format)


def cast(x: Any, fmt: Format | str | npt.DTypeLike, **options: Any) -> Any:
    """Round the data to a format, or the values of a plain array: `lowprec.quantize`.

    >>> cast(ScaledArray(np.float32([300.0, 1.1]), 4.0), "e4m3fn"), cast(np.float32([300.0, 1.1]), "e4m3fn")
    (ScaledArray([288.   ,   1.125], scale=4.0, format='e4m3fn'), array([288.   ,   1.125], dtype=float32))

    Parameters
    ----------
    x : ScaledArray or array
    fmt : Format, str or dtype
    **options
        As for `lowprec.quantize`; of ScaledArrays the projection of `config` by default.

    Returns
    -------
    rounded : ScaledArray or array, shape of x

    Raises ValueError: what `lowprec.quantize` refuses.
    """
    return x.astype(fmt, **options) if isinstance(x, ScaledArray) else quantize(x, fmt, **options)


# -- rescaling by statistics ------------------------------------------------------------------------


def dynamic_rescale(x: Any, norm: Norm = "l2") -> Any:
    """Move a statistic of the data into the scale, as a power of two, so that it becomes about 1.

    >>> dynamic_rescale(ScaledArray(np.float16([4.0, -8.0]), 4.0))
    ScaledArray([ 1., -2.], scale=16.0, format='binary16')

    Parameters
    ----------
    x : ScaledArray or array
        Returned as it is: a plain array, one without values, one at scale 0 or infinity, and one whose data
        are NaN or infinite.
    norm : {"max", "l1", "l2"}
        Of the data: the largest magnitude, the mean of the magnitudes, the root of the mean of the squares.
        Sums are those of `config`; with "exact" sums the statistic is binary32 before it is rounded to a
        power of two.

    Returns
    -------
    rescaled : ScaledArray or array, shape of x

    Raises ValueError: an unknown norm.

    Notes
    -----
    The factor is no smaller than 2**-14, so that zeros keep a scale. For one direction alone see
    `on_forward` and `on_backward`.

    Source: [SCALIFY] 3.3 and its published code.
    """
    if norm not in get_args(Norm):
        raise ValueError(f"norm={norm!r} is unknown; use one of {', '.join(get_args(Norm))}")
    if not isinstance(x, ScaledArray) or not x.size or holds_no_scale(x):
        return x
    largest = np.float64(np.abs(x.data).max())
    if not np.isfinite(largest):
        return x
    return rebalance(x, max(_statistic(x.data, largest, norm) if largest else 0.0, EPSILON))


def _statistic(data: Array, largest: np.float64, norm: Norm) -> float:
    """Compute the statistic, rounded to a power of two."""
    if norm == "max":
        return float(pow2_round(largest))
    # Over a power of two of their own, so that no square overflows.
    unit, how = pow2_below(largest), current().sums
    row = (data.astype(np.float64) / unit).astype(np.float32).reshape(1, -1)
    sums = total(np.abs(row), (0, 1), how) if norm == "l1" else product(row, row.T, how)
    mean = np.float64(divide(sums.reshape(())[()], data.size, catalog.BINARY32))
    return unit * (float(pow2_round(mean)) if norm == "l1" else pow2_sqrt(float(mean)))


def on_forward(function: Callable[..., Any]) -> Callable[..., Pair]:
    """Apply a function in the forward pass alone; the gradient passes unchanged.

    >>> y, pull = on_forward(dynamic_rescale)(ScaledArray(np.float32([4.0, -8.0]), 4.0), "max")
    >>> float(y.scale), float(pull(ScaledArray(np.float32([4.0, -8.0]), 4.0)).scale)
    (32.0, 4.0)

    Parameters
    ----------
    function : function
        Of an array of values that changes how they are held, such as `dynamic_rescale` or `cast`.

    Returns
    -------
    pair : function
        Of the same arguments; gives (y, pull), and pull takes the gradient at y to that at x.

    Source: [SCALIFY] 3.3.
    """

    @functools.wraps(function)
    def pair(x: Any, *args: Any, **keywords: Any) -> Pair:
        return function(x, *args, **keywords), lambda gradient: gradient

    return pair


def on_backward(function: Callable[..., Any]) -> Callable[..., Pair]:
    """Apply a function to the gradient in the backward pass alone; see `on_forward`.

    >>> y, pull = on_backward(dynamic_rescale)(ScaledArray(np.float32([4.0, -8.0]), 4.0), "max")
    >>> float(y.scale), float(pull(ScaledArray(np.float32([4.0, -8.0]), 4.0)).scale)
    (4.0, 32.0)
    """

    @functools.wraps(function)
    def pair(x: Any, *args: Any, **keywords: Any) -> Pair:
        return x, lambda gradient: function(gradient, *args, **keywords)

    return pair


# -- functions --------------------------------------------------------------------------------------


def custom_scale(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function as one whose scale is chosen by a rule of its own.

    With plain arrays the function runs unchanged; with a ScaledArray among its arguments the rule that
    `register_scaled_op` has for it runs instead.

    >>> from lowprec.methods.scale_propagation import register_scaled_op
    >>> @custom_scale
    ... def softplus(x):
    ...     return np.log1p(np.exp(x))
    >>> @register_scaled_op(softplus)
    ... def scaled_softplus(x):
    ...     return as_scaled(softplus(x.to_array()), x.scale, x.format)
    >>> softplus(as_scaled(np.float32([0.0, 4.0]), 4.0))
    ScaledArray([0.1732868, 1.0045375], scale=4.0, format='binary32')

    Parameters
    ----------
    function : function
        Of plain arrays.

    Returns
    -------
    dispatch : function
        Of the same arguments; a ScaledArray is looked for among them, not in lists.

    Raises TypeError: when it is called with a ScaledArray, and has no rule.

    Source: [SCALIFY] 3.2.1.
    """

    @functools.wraps(function)
    def dispatch(*args: Any, **keywords: Any) -> Any:
        if any(isinstance(given, ScaledArray) for given in (*args, *keywords.values())):
            return answer(dispatch, args, keywords)
        return function(*args, **keywords)

    mark(dispatch)
    return dispatch


def scalify(function: Callable[..., Any] | None = None, **changes: Any) -> Callable[..., Any]:
    """Run a function of NumPy code with scales.

    ScaledArrays carry their scales through any NumPy code by themselves. This decorator adds a
    configuration, and `set_scaling` of plain arrays. With plain arguments and without `set_scaling`
    the function runs unchanged.

    >>> @scalify(scale_rounding="up")
    ... def loss(x, w):
    ...     return np.mean(np.square(x @ set_scaling(w, 0.5)))
    >>> loss(as_scaled(np.ones((2, 3), np.float32), 1.0), np.full((3, 2), 0.5, np.float32))
    ScaledArray(4.5, scale=0.5, format='binary32')

    Parameters
    ----------
    function : function
    **changes
        Fields of `Config`.

    Returns
    -------
    run : function
        Of the same arguments. It raises what `config` raises, for changes that are none.

    Source: [SCALIFY] 3.4.
    """
    if function is None:
        return functools.partial(scalify, **changes)
    wanted = function

    @functools.wraps(wanted)
    def run(*args: Any, **keywords: Any) -> Any:
        with config(**changes), scaling_everything():
            return wanted(*args, **keywords)

    return run
