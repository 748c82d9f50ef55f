"""Activations and a normalisation with rules of their own for scales, and with their gradients.

Each gives (y, pull), where pull takes the gradient at y to that at x.

An activation is x times a gate that depends on the value: the data are the data times the gate, and the
scale stays, for the output is about as large as the input. To first order so is the gradient.

Gates, slopes and the normalisation are computed in float64, and their results rounded once.

Floor 4. Source: [SCALIFY] 3.2.1 and appendix C.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lowprec.arrays.axes import axes_within
from lowprec.arrays.checks import Array
from lowprec.arrays.doubles import real, reals
from lowprec.arrays.special import erf
from lowprec.methods.scale_propagation.registry import register_scaled_op
from lowprec.methods.scale_propagation.rounding import fitting, operate, project
from lowprec.methods.scale_propagation.rules.operands import one, own, settled, taking_zeros
from lowprec.methods.scale_propagation.scaled_array import ScaledArray, over, with_data
from lowprec.methods.scale_propagation.transform import custom_scale

Pair = tuple[Any, Callable[[Any], Any]]
Function = Callable[[Array], Array]


# -- activations ------------------------------------------------------------------------------------


def _normal_share(x: Array) -> Array:
    """Return the share of a standard normal variable below x."""
    share: Array = (1 + erf(x / math.sqrt(2))) / 2
    return share


def _gelu_slope(x: Array) -> Array:
    near = np.clip(x, -40, 40)  # beyond, the density is zero
    slope: Array = _normal_share(x) + near * np.exp(-near * near / 2) / math.sqrt(2 * math.pi)
    return slope


def _sigmoid(x: Array) -> Array:
    with np.errstate(over="ignore"):
        share: Array = 1 / (1 + np.exp(-x))
    return share


def _silu_slope(x: Array) -> Array:
    near = np.clip(x, -700, 700)
    slope: Array = _sigmoid(x) * (1 + near * _sigmoid(-x))
    return slope


def _plain(x: Any, gate: Function, slope: Function) -> Pair:
    x = _floats(x)
    wide = x.astype(np.float64)

    def pull(gradient: Any) -> Any:
        return _gradient(gradient) * slope(wide).astype(x.dtype)

    return (_open(wide, gate(wide)) * gate(wide)).astype(x.dtype), pull


def _scaled(x: ScaledArray, gate: Function, slope: Function) -> Pair:
    values = x.to_array()

    def pull(gradient: Any) -> ScaledArray:
        return _times(own(gradient), slope(values))

    return _times(x, gate(values)), pull


def _times(x: ScaledArray, factors: Array) -> ScaledArray:
    x = taking_zeros(x)
    return with_data(x, operate("multiply", _open(x.data, factors), factors, fmt=x.format))


def _floats(x: Any) -> Array:
    """Return a plain array of floats; integers become float64, as in NumPy's functions."""
    array = reals(x, "x")
    return array.astype(np.float64) if array.dtype.kind in "biu" else array


def _gradient(given: Any) -> Any:
    """Return a gradient at a plain result: an array, or a ScaledArray as it is."""
    return given if isinstance(given, ScaledArray) else reals(given, "the gradient")


def _open(x: Array, gate: Array) -> Array:
    """Return x, but 0 where the gate is 0, even for an infinite x."""
    return np.where(gate == 0, x.dtype.type(0), x)


@custom_scale
def relu(x: Any) -> Pair:
    """Return the operand where it is positive, else 0, and the gradient's pull.

    >>> from lowprec.methods.scale_propagation import as_scaled
    >>> y, pull = relu(as_scaled(np.float32([-3.0, 5.0]), 4.0))
    >>> y, pull(as_scaled(np.float32([2.0, 2.0]), 0.25))
    (ScaledArray([0.  , 1.25], scale=4.0, format='binary32'), ScaledArray([0., 8.], scale=0.25,
    format='binary32'))

    Parameters
    ----------
    x : ScaledArray or array of float, shape (...)

    Returns
    -------
    y : ScaledArray or array, shape (...)
        Of ScaledArrays with the scale of x.
    pull : function
        Takes the gradient at y to that at x, with its own scale. At 0 the slope is 0.

    Notes
    -----
    -inf becomes 0, which an infinite scale would turn into NaN: the data take the infinity and the scale
    becomes 1. A format without infinity cannot do so: the scale stays, and these results are NaN.

    Source: [SCALIFY] 3.2.1.
    """
    x = reals(x, "x")
    return np.maximum(x, x.dtype.type(0)), lambda gradient: np.where(x > 0, _gradient(gradient), 0)


@register_scaled_op(relu)
def _scaled_relu(x: ScaledArray) -> Pair:
    def pull(gradient: Any) -> ScaledArray:
        gradient = taking_zeros(own(gradient))
        return with_data(gradient, np.where(x.data > 0, gradient.data, gradient.dtype.type(0)))

    x = taking_zeros(x)
    return with_data(x, np.maximum(x.data, x.dtype.type(0))), pull


@custom_scale
def gelu(x: Any) -> Pair:
    """Multiply the operand by the share of a standard normal variable below it; see `relu`.

    >>> from lowprec.methods.scale_propagation import as_scaled
    >>> gelu(as_scaled(np.float32([-1.0, 2.0]), 2.0, "binary16"))[0]
    ScaledArray([-0.07935,  0.977  ], scale=2.0, format='binary16')

    Integers become float64; parameters and results are those of `relu`.

    Source: [SCALIFY] 3.2.1.
    """
    return _plain(x, _normal_share, _gelu_slope)


@custom_scale
def silu(x: Any) -> Pair:
    """Multiply the operand by the logistic function of it; see `relu`.

    >>> from lowprec.methods.scale_propagation import as_scaled
    >>> silu(as_scaled(np.float32([-1.0, 2.0]), 2.0, "binary16"))[0]
    ScaledArray([-0.1345,  0.881 ], scale=2.0, format='binary16')

    Integers become float64; parameters and results are those of `relu`.

    Source: [SCALIFY] 3.2.1.
    """
    return _plain(x, _sigmoid, _silu_slope)


@register_scaled_op(gelu)
def _scaled_gelu(x: ScaledArray) -> Pair:
    return _scaled(x, _normal_share, _gelu_slope)


@register_scaled_op(silu)
def _scaled_silu(x: ScaledArray) -> Pair:
    return _scaled(x, _sigmoid, _silu_slope)


# -- normalisation ----------------------------------------------------------------------------------


@custom_scale
def layer_norm(x: Any, axis: int = -1, eps: float = 1e-5) -> Pair:
    """Subtract the mean along an axis, and divide by the root of the variance plus eps.

    Of ScaledArrays the data are normalised: the scale has no influence, and that of the result is 1. So eps
    is added to the variance of the data, and does not swamp that of small values.

    >>> from lowprec.methods.scale_propagation import as_scaled
    >>> y, pull = layer_norm(as_scaled(np.float32([[1e-6, 3e-6]]), 2.0**-20), eps=0.0)
    >>> y
    ScaledArray([[-1.,  1.]], scale=1.0, format='binary32')

    Parameters
    ----------
    x : ScaledArray or array of float, shape (...)
    axis : int
    eps : float
        Of the variance: of data squared, or of values squared where x is a plain array.

    Returns
    -------
    y : ScaledArray or array, shape (...)
    pull : function
        Takes the gradient at y to that at x, whose scale is that at y over the scale of x.

    Source: [SCALIFY] 3.2.1 and appendix C.
    """
    x = _floats(x)
    y, back = _normalised(x.astype(np.float64), axis, eps)

    def pull(gradient: Any) -> Any:
        return back(reals(gradient, "the gradient").astype(np.float64)).astype(x.dtype)

    return y.astype(x.dtype), pull


@register_scaled_op(layer_norm)
def _scaled_layer_norm(x: ScaledArray, axis: int = -1, eps: float = 1e-5) -> Pair:
    x = settled(x)
    y, back = _normalised(x.data.astype(np.float64), axis, eps)

    def pull(gradient: Any) -> ScaledArray:
        gradient = settled(own(gradient))
        scale = fitting(float(gradient.scale) / float(x.scale), gradient.scale_format)
        wide = over(gradient, float(scale) * float(x.scale)).astype(np.float64)
        return with_data(gradient, project(back(wide), gradient.format), scale)

    return with_data(x, project(y, x.format), one(x.scale_format)), pull


def _normalised(x: Array, axis: int, eps: float) -> tuple[Array, Function]:
    """Return the normalised array, and the function from its gradient to that of x."""
    axes_within(axis, x.ndim)
    eps = real(eps, "eps of layer_norm")
    with np.errstate(invalid="ignore", divide="ignore"):
        centred = x - x.mean(axis, keepdims=True)
        inverse = 1 / np.sqrt(np.square(centred).mean(axis, keepdims=True) + eps)
        y = centred * inverse

    def back(gradient: Array) -> Array:
        along = (gradient * y).mean(axis, keepdims=True)
        made: Array = (gradient - gradient.mean(axis, keepdims=True) - y * along) * inverse
        return made

    return y, back
