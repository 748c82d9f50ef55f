"""Factors of elementwise functions, by integrals over the normal distribution, and the empirical models.

For z of the standard normal distribution and a gradient independent of it, f(z) / std(f(z)) has unit
variance, and so has f'(z) * grad / rms(f'(z)). These two are computed, not measured: to 12 digits, also where
f has kinks.

Floor 4. Notation: [UNIT_SCALING] appendix on factors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from lowprec.arrays.doubles import doubles
from lowprec.methods.unit_scaling.vjp import Array, need_positive

Function = Callable[[Array], Array]

#: Beyond this many standard deviations the density is below 1e-42 of its peak.
_FAR = 14.0
#: Panels begin as wide as this. None begins at a round number, where a jump between two would not be seen.
_PANEL = 0.49
#: A panel is halved until its integral stays the same to this share of the whole, at most so often.
_TOLERANCE, _HALVINGS = 1e-13, 44
#: More panels than this at a time means that the function is rough everywhere.
_MOST = 1 << 14
#: What a slope on a panel is in doubt by times the panel's width, for a function of size 1 that is rounded to
#: float64.
_DOUBT = math.ldexp(1.0, -44)
#: A standard deviation or slope below this, for a function of size 1, is only its rounding.
_NONE = 1e-11

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)


def _derivative_on_nodes() -> Array:
    """Return the matrix from a polynomial's values at the nodes to its derivative's."""
    apart = _NODES[:, None] - _NODES + np.eye(_NODES.size)
    weights = 1 / apart.prod(axis=1)
    matrix: Array = weights / weights[:, None] / apart
    np.fill_diagonal(matrix, 0.0)
    np.fill_diagonal(matrix, -matrix.sum(axis=1))
    return matrix


_SLOPES = _derivative_on_nodes()


class Scales(NamedTuple):
    """The two factors of an elementwise function."""

    alpha: float  #: of the output
    beta: float  #: of the gradient


def derive_scale(function: Function, derivative: Function | None = None) -> Scales:
    """Find the factors that give an elementwise function unit variance in both passes.

    >>> alpha, beta = derive_scale(np.tanh)
    >>> round(alpha, 4), round(beta, 4)
    (1.5925, 1.4674)
    >>> round(derive_scale(lambda x: np.maximum(x, 0)).beta ** 2, 10)
    2.0

    Parameters
    ----------
    function : callable
        From an array of float64 to one of the same shape. Continuous, with a derivative almost
        everywhere; it may have kinks.
    derivative : callable, optional
        Likewise. Without it the derivative is that of the polynomials that agree with the function
        on panels as small as it takes.

    Returns
    -------
    alpha, beta : float
        1 / std(f(z)) and 1 / sqrt(mean(f'(z)**2)) of standard normal z, to about 12 digits.

    Raises ValueError: a function without variance or slope, with values that are not finite within 14
    standard deviations, or with jumps.

    Source: [UNIT_SCALING] appendix on factors; Gauss-Legendre quadrature on panels that are halved as needed.
    """

    def values(x: Array, width: Array) -> Array:
        return doubles(function(x), "the results of the function")

    def slopes(x: Array, width: Array) -> Array:
        if derivative is not None:
            return doubles(derivative(x), "the results of the derivative")
        found: Array = values(x, width) @ _SLOPES.T * (2 / width)
        return found

    mean = _expectation(values)
    size = math.sqrt(_expectation(lambda x, width: np.square(values(x, width))))
    variance = _expectation(lambda x, width: np.square(values(x, width) - mean), size)
    square = _expectation(lambda x, width: np.square(slopes(x, width)), size)
    for what, found in (("variance", variance), ("slope", square)):
        if found <= (_NONE * size) ** 2:
            raise ValueError(f"the function has no {what} on normal values, so that no factor gives it one")
    return Scales(1 / math.sqrt(variance), 1 / math.sqrt(square))


def mean_square(function: Function) -> float:
    """Return the mean square of an elementwise function of standard normal values."""
    return _expectation(lambda x, width: np.square(doubles(function(x), "the results of the function")))


def log_interpolate(weight: float, lower: float, upper: float) -> float:
    """Interpolate between two numbers with constant ratio: lower where the weight is 0, upper where it is 1.

    >>> round(log_interpolate(0.5, 1.0, 100.0), 10)
    10.0

    Parameters
    ----------
    weight : float, from 0 to 1
    lower, upper : float, above 0

    Raises ValueError: numbers that are not positive, or a weight out of range.
    """
    need_positive("log_interpolate", lower=lower, upper=upper)
    if not 0 <= weight <= 1:
        raise ValueError(f"weight={weight!r} of log_interpolate must be a number from 0 to 1")
    return math.exp(weight * math.log(upper) + (1 - weight) * math.log(lower))


#: The factors of relu: to these an activation comes where its input is multiplied by much.
_RELU = Scales(math.sqrt(2 / (1 - 1 / math.pi)), math.sqrt(2))


def empirical_scales(name: str, mult: float = 1.0) -> Scales:
    """Return the factors that the authors' library has for gelu, silu and glu: models in closed form.

    They interpolate between x / 2 and relu. `gelu`, `silu` and `glu` here take integrals instead,
    and these factors are within 4 % of theirs for every multiplier.

    >>> round(empirical_scales("gelu").alpha, 4)
    1.7668

    Parameters
    ----------
    name : {"gelu", "silu", "glu"}
    mult : float, above 0
        What the input is multiplied by, within the function.

    Raises ValueError: another name, or a mult that is no positive number.

    Source: [UNIT_SCALING] its library, version 0.3.
    """
    need_positive("empirical_scales", mult=mult)
    near, far = _weight(0.25, mult), _weight(1, mult)
    if name == "gelu":
        return Scales(log_interpolate(near, 2.0, _RELU.alpha), log_interpolate(near, 2.0, _RELU.beta))
    if name == "silu":
        return Scales(log_interpolate(near, 2.0, _RELU.alpha), log_interpolate(far, 2.0, _RELU.beta))
    if name == "glu":
        return Scales(log_interpolate(far, 2.0, _RELU.beta), log_interpolate(far, 2.0, _RELU.beta))
    raise ValueError(
        f"no empirical factors are known of {name!r}; use 'gelu', 'silu' or 'glu', or derive_scale"
    )


def softmax_scales(size: int, mult: float | None = None) -> Scales:
    """Return the factors of softmax over so many values.

    >>> softmax_scales(64)
    Scales(alpha=64.0, beta=64.0)

    Parameters
    ----------
    size : int, 1 or more
    mult : float, above 0, optional
        None is the paper's rule. A multiplier of the input asks for the library's: a model
        between flat results, of which the paper's is the limit, and one-hot ones.

    Raises ValueError: numbers that are not positive.

    Source: [UNIT_SCALING] appendix on factors, and its library.
    """
    need_positive("softmax_scales", size=size, mult=1.0 if mult is None else mult)
    if mult is None:
        return Scales(float(size), float(size))
    weight = _weight(4, mult)
    return Scales(
        log_interpolate(weight, size, math.sqrt(size)),
        log_interpolate(weight, size / mult, math.sqrt(size / mult)),
    )


def attention_scale(length: int, width: int, *, causal: bool = False, mult: float = 1.0) -> float:
    """Return the one factor of attention in both passes.

    >>> round(attention_scale(64, 64), 3)
    7.936

    Parameters
    ----------
    length : int
        Keys that each query sees; of causal attention, that the last one sees.
    width : int
        Of a head: of queries and keys.
    causal : bool
    mult : float, above 0
        Logits are products of queries and keys times mult / width.

    Raises ValueError: numbers that are not positive.

    Source: [UNIT_SCALING] its library: a model between the mean of all values, and one of them.
    """
    need_positive("attention_scale", length=length, width=width, mult=mult)
    # Of a single key the logarithm is 0; its value is the result for all logits.
    seen = math.log(length) if causal and length > 1 else 1.0
    return 1 / log_interpolate(_weight(4 * width, mult), math.sqrt(seen / length), 1.0)


def _weight(number: float, mult: float) -> float:
    """Return 1 / (1 + number / mult**2), also where the square is out of the range of float64."""
    square = float(mult) * float(mult)
    return 1 / (1 + number / square) if square else 0.0


def _expectation(integrand: Callable[[Array, Array], Array], size: float = 0.0) -> float:
    """Return the mean over standard normal values of a function of nodes (panels, 12) and widths (panels, 1).

    Of squares, `size` is the size of the float64 numbers whose rounding errors they contain.
    """

    def integrate(low: Array, width: Array) -> Array:
        x = low[:, None] + width[:, None] * ((_NODES + 1) / 2)
        with np.errstate(all="ignore"):
            found = integrand(x, width[:, None])
        if found.shape != x.shape:
            raise ValueError(
                f"the function gives shape {found.shape} for values of shape {x.shape}; make it elementwise"
            )
        if not np.isfinite(found).all():
            worst = float(x[~np.isfinite(found)][0])
            raise ValueError(
                f"the function or its derivative is not finite at {worst:.6g}, so that no factor follows"
            )
        density = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
        sums: Array = (found * density) @ _WEIGHTS * width / 2
        return sums

    low = np.arange(-_FAR, _FAR, _PANEL)
    width = np.full(low.size, _PANEL)
    whole = integrate(low, width)
    total = float(np.abs(whole).sum())
    tolerance = max(_TOLERANCE * total, _DOUBT * size * math.sqrt(total), (_NONE * size) ** 2)
    total = 0.0
    for _ in range(_HALVINGS):
        width = np.repeat(width / 2, 2)
        low = np.repeat(low, 2)
        low[1::2] += width[1::2]
        parts = integrate(low, width)
        both = parts.reshape(-1, 2).sum(axis=1)
        unsettled = np.abs(both - whole) > tolerance
        total += float(both[~unsettled].sum())
        again = np.repeat(unsettled, 2)
        low, width, whole = low[again], width[again], parts[again]
        if not low.size:
            return total
        if low.size > _MOST:
            break
    raise ValueError(
        f"the integral does not settle at {float(low[0]):.6g}: the function jumps or is rough there, and its "
        f"slope has no finite mean square; make it smoother, or give the derivative that is meant"
    )
