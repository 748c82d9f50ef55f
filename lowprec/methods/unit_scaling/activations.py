"""Elementwise functions: relu, hardtanh, tanh, sigmoid, gelu, silu, glu, and any other.

The factors are integrals over the normal distribution (`factors`). Floor 4.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from lowprec.arrays.kinds import check_labels
from lowprec.arrays.special import erfc
from lowprec.methods.unit_scaling.constraints import Constraint, constrain
from lowprec.methods.unit_scaling.factors import Function, Scales, derive_scale, mean_square
from lowprec.methods.unit_scaling.vjp import Array, Vjp, array, need_positive, scaled


def elementwise(
    function: Function,
    derivative: Function,
    *,
    scales: tuple[float, float] | None = None,
    name: str | None = None,
) -> Callable[..., tuple[Array, Vjp]]:
    """Make a unit-scaled operation of an elementwise function.

    >>> softsign = elementwise(lambda x: x / (1 + abs(x)), lambda x: (1 + abs(x)) ** -2.0)
    >>> y, vjp = softsign(np.random.default_rng(0).standard_normal(100_000), constraint=None)
    >>> round(float(y.std()), 2)
    1.0

    Parameters
    ----------
    function, derivative : callable
        From an array of float to one of the same shape and type.
    scales : pair of float, optional
        alpha and beta, where they are known. By default those of `derive_scale`.
    name : str, optional
        For messages; the function's by default.

    Returns
    -------
    operation : callable
        Of x and `constraint`, as `tanh` is.

    Raises ValueError: what `derive_scale` refuses.
    """
    known = derive_scale(function, derivative) if scales is None else Scales(*scales)
    called = name if name is not None else str(getattr(function, "__name__", "the function"))

    def operation(x: npt.ArrayLike, constraint: Constraint = "gmean") -> tuple[Array, Vjp]:
        return _apply(called, x, function, derivative, known, constraint)

    return operation


def relu(x: npt.ArrayLike, constraint: Constraint = "gmean") -> tuple[Array, Vjp]:
    """Apply max(x, 0).

    >>> y, vjp = relu([-1.0, 2.0], constraint=None)
    >>> y.round(4), round(vjp.alpha, 4)
    (array([0.    , 3.4257]), 1.7129)

    Parameters
    ----------
    x : array_like of float, shape (...)
    constraint : str, callable or None
        How alpha and beta become one factor; None leaves each its own. See `constrain`.

    Returns
    -------
    y : array of float, shape (...)
    vjp : Vjp
        alpha sqrt(2 / (1 - 1/pi)), beta sqrt(2), before the constraint.

    Source: [UNIT_SCALING] appendix on factors.
    """
    return _named("relu", x, constraint)


def hardtanh(x: npt.ArrayLike, constraint: Constraint = "gmean") -> tuple[Array, Vjp]:
    """Apply x, clipped to [-1, 1].

    >>> hardtanh([-2.0, 0.5], constraint="to_grad_input_scale")[0].round(4)
    array([-1.2103,  0.6051])

    Parameters and results are those of `relu`; alpha 1.3920, beta 1.2103, before the constraint.

    Source: [UNIT_SCALING] appendix on factors.
    """
    return _named("hardtanh", x, constraint)


def tanh(x: npt.ArrayLike, constraint: Constraint = "gmean") -> tuple[Array, Vjp]:
    """Apply the hyperbolic tangent.

    >>> y, vjp = tanh([0.0, 1.0])
    >>> vjp.alpha == vjp.beta[0], round(vjp.alpha, 4)
    (True, 1.5287)

    Parameters and results are those of `relu`; alpha 1.5925, beta 1.4674, before the constraint.

    Source: [UNIT_SCALING] appendix on factors.
    """
    return _named("tanh", x, constraint)


def sigmoid(x: npt.ArrayLike, constraint: Constraint = "gmean") -> tuple[Array, Vjp]:
    """Apply the logistic function. Its mean is not zero: the factors are for the variance.

    >>> sigmoid([0.0], constraint=None)[0].round(4)
    array([2.4007])

    Parameters and results are those of `relu`; alpha 4.8013, beta 4.7226, before the constraint.

    Source: [UNIT_SCALING] appendix on factors.
    """
    return _named("sigmoid", x, constraint)


def gelu(x: npt.ArrayLike, mult: float = 1.0, constraint: Constraint = "gmean") -> tuple[Array, Vjp]:
    """Apply x * Phi(mult * x), with the distribution function Phi of normal values.

    >>> round(gelu([1.0])[1].alpha, 4)
    1.5872

    Parameters and results are those of `relu`. A small mult makes it x / 2, a large one relu.
    For mult=1: alpha 1.7009, beta 1.4811, before the constraint.

    Raises ValueError: a mult that is no positive number.

    Source: [UNIT_SCALING] appendix on factors; mult as in its library, whose factors are `empirical_scales`.
    """
    return _named("gelu", x, constraint, mult)


def silu(x: npt.ArrayLike, mult: float = 1.0, constraint: Constraint = "gmean") -> tuple[Array, Vjp]:
    """Apply x * sigmoid(mult * x).

    >>> round(silu([1.0])[1].alpha, 4)
    1.7033

    Parameters and results are those of `relu`. A small mult makes it x / 2, a large one relu.
    For mult=1: alpha 1.7872, beta 1.6233, before the constraint.

    Raises ValueError: a mult that is no positive number.

    Source: [UNIT_SCALING] appendix on factors; mult as in its library, whose factors are `empirical_scales`.
    """
    return _named("silu", x, constraint, mult)


def glu(
    x: npt.ArrayLike,
    gate: npt.ArrayLike,
    activation: str = "silu",
    mult: float = 1.0,
    constraint: Constraint = "gmean",
) -> tuple[Array, Vjp]:
    """Apply a gated linear unit: x times an activation of the gate.

    >>> y, vjp = glu([1.0], [2.0], constraint=None)
    >>> round(vjp.alpha, 4), [round(beta, 4) for beta in vjp.beta]
    (1.6765, [1.6765, 1.6233])

    Parameters
    ----------
    x, gate : array_like of float, shape (...)
    activation : {"silu", "gelu", "sigmoid", "tanh", "relu", "hardtanh"}
    mult : float, above 0
        Of silu and gelu.
    constraint : str, callable or None
        Of three factors: of the output, and of the gradients of x and of the gate.

    Returns
    -------
    y : array of float, shape (...)
    vjp : Vjp
        alpha and the beta of x are 1 / rms of the activation, that of the gate 1 / rms of its slope.

    Raises ValueError: unequal shapes, an unknown activation, or a mult that does not fit it.

    Source: [UNIT_SCALING] its library has silu; the factors are integrals, as for other functions.
    """
    if activation not in _FUNCTIONS:
        raise ValueError(f"unknown activation {activation!r} of glu; use one of {', '.join(_FUNCTIONS)}")
    check_labels(x, gate)
    left, right = array(x, "x of glu"), array(gate, "gate of glu")
    if left.shape != right.shape:
        raise ValueError(f"x and gate of glu must have the same shape, not {left.shape} and {right.shape}")
    function, derivative = _functions(activation, mult)
    output, slope = _gate_scales(activation, mult)
    alpha, *beta = constrain(constraint, output, output, slope)

    def pull(grad: Array) -> tuple[Array, Array]:
        return grad * function(right), grad * left * derivative(right)

    return scaled("glu", left * function(right), alpha, beta, pull)


# -- functions ---------------------------------------------------------------------------------------


def _sigmoid(x: Array) -> Array:
    with np.errstate(invalid="ignore"):  # logaddexp warns of NaN
        found: Array = np.exp(-np.logaddexp(0, -x))
    return found


def _cdf(x: Array) -> Array:
    """Return the normal distribution function, by the C library's erfc, precise for small results too."""
    found: Array = erfc(-x.astype(np.float64) / math.sqrt(2)) / 2
    return found.astype(x.dtype)


def _density(x: Array) -> Array:
    near = np.clip(x, -40, 40)  # beyond, it is zero
    found: Array = np.exp(-near * near / 2) / math.sqrt(2 * math.pi)
    return found


def _gated(x: Array, gate: Array) -> Array:
    """Return x * gate; 0 where the gate is 0, for infinite x too, as the limit is."""
    found: Array = np.where(gate == 0, np.copysign(x.dtype.type(0), x), x) * gate
    return found


def _gelu(x: Array, mult: float) -> Array:
    return _gated(x, _cdf(mult * x))


def _gelu_slope(x: Array, mult: float) -> Array:
    return _cdf(mult * x) + _gated(mult * x, _density(mult * x))


def _silu(x: Array, mult: float) -> Array:
    return _gated(x, _sigmoid(mult * x))


def _silu_slope(x: Array, mult: float) -> Array:
    return _gated(1 + _gated(mult * x, _sigmoid(-mult * x)), _sigmoid(mult * x))


def _relu(x: Array) -> Array:
    return np.maximum(x, 0)


def _relu_slope(x: Array) -> Array:
    return (x > 0).astype(x.dtype)


def _hardtanh(x: Array) -> Array:
    return np.clip(x, -1, 1)


def _hardtanh_slope(x: Array) -> Array:
    return (np.abs(x) < 1).astype(x.dtype)


def _tanh_slope(x: Array) -> Array:
    return 1 - np.tanh(x) ** 2


def _sigmoid_slope(x: Array) -> Array:
    return _sigmoid(x) * _sigmoid(-x)


_FUNCTIONS: dict[str, tuple[Callable[..., Array], Callable[..., Array]]] = {
    "silu": (_silu, _silu_slope),
    "gelu": (_gelu, _gelu_slope),
    "sigmoid": (_sigmoid, _sigmoid_slope),
    "tanh": (np.tanh, _tanh_slope),
    "relu": (_relu, _relu_slope),
    "hardtanh": (_hardtanh, _hardtanh_slope),
}

#: Those that take a multiplier.
_WITH_MULT = ("silu", "gelu")


def _functions(name: str, mult: float) -> tuple[Function, Function]:
    """Return a function and its derivative, of x alone."""
    need_positive(name, mult=mult)
    function, derivative = _FUNCTIONS[name]
    if name in _WITH_MULT:
        return functools.partial(function, mult=mult), functools.partial(derivative, mult=mult)
    if mult != 1:
        raise ValueError(
            f"mult={mult!r} is for {' and '.join(_WITH_MULT)}, and {name} takes none; multiply its input"
        )
    return function, derivative


@functools.lru_cache(maxsize=256)
def _scales(name: str, mult: float) -> Scales:
    return derive_scale(*_functions(name, mult))


@functools.lru_cache(maxsize=256)
def _gate_scales(name: str, mult: float) -> tuple[float, float]:
    function, derivative = _functions(name, mult)
    return mean_square(function) ** -0.5, mean_square(derivative) ** -0.5


def _named(name: str, x: npt.ArrayLike, constraint: Constraint, mult: float = 1.0) -> tuple[Array, Vjp]:
    return _apply(name, x, *_functions(name, mult), _scales(name, mult), constraint)


def _apply(
    name: str,
    x: npt.ArrayLike,
    function: Function,
    derivative: Function,
    scales: Scales,
    constraint: Constraint,
) -> tuple[Array, Vjp]:
    """Apply an elementwise function with its factors."""
    values = array(x, f"x of {name}")
    alpha, beta = constrain(constraint, *scales)
    return scaled(name, function(values), alpha, (beta,), lambda grad: (grad * derivative(values),))
