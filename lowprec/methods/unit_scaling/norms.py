"""layer_norm, rms_norm and dropout.

Floor 4.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from lowprec.arrays.axes import axes_within
from lowprec.arrays.doubles import real
from lowprec.arrays.kinds import check_labels
from lowprec.methods.unit_scaling.vjp import Array, Vjp, array, scaled, sum_to


def layer_norm(
    x: npt.ArrayLike,
    weight: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    axis: int | tuple[int, ...] = -1,
    eps: float = 1e-5,
) -> tuple[Array, Vjp]:
    """Normalize to mean 0 and variance 1 along axes, then apply weight and bias.

    >>> y, vjp = layer_norm([[1.0, 3.0], [5.0, 5.5]], np.ones(2), np.zeros(2))
    >>> y.round(3)
    array([[-1., 1.],
           [-1., 1.]])
    >>> [round(beta, 4) for beta in vjp.beta]
    [1.0, 0.7071, 0.7071]

    Parameters
    ----------
    x : array_like of float, shape (...)
    weight, bias : array_like of float, shape of x along the axes, optional
        Begin as ones and zeros.
    axis : int or tuple of int
        Along which to normalize; the last ones.
    eps : float, 0 or more
        Added to the variance.

    Returns
    -------
    y : array of float, shape (...)
    vjp : Vjp
        alpha 1; beta 1 for x, and for weight and bias n**-1/2, with n normalized rows.

    Raises ValueError: axes that are not the last ones, shapes that do not fit, or an eps below 0.

    Source: [UNIT_SCALING] appendix on factors.
    """
    return _norm("layer_norm", x, weight, bias, axis, eps, centered=True)


def rms_norm(
    x: npt.ArrayLike, weight: npt.ArrayLike | None = None, axis: int | tuple[int, ...] = -1, eps: float = 1e-5
) -> tuple[Array, Vjp]:
    """Normalize to mean square 1 along axes, then apply a weight.

    >>> rms_norm([[3.0, 4.0]])[0].round(4)
    array([[0.8485, 1.1314]])

    Parameters and results are those of `layer_norm`, without a bias.

    Source: [UNIT_SCALING] its library.
    """
    return _norm("rms_norm", x, weight, None, axis, eps, centered=False)


def dropout(x: npt.ArrayLike, p: float = 0.5, *, rng: int | np.random.Generator) -> tuple[Array, Vjp]:
    """Set values to zero with probability p, and keep the variance of the others and the zeros together.

    >>> y, vjp = dropout(np.ones(6), 0.75, rng=1)
    >>> y
    array([0., 2., 0., 2., 0., 0.])
    >>> vjp.alpha, vjp.beta
    (0.5, (0.5,))

    Parameters
    ----------
    x : array_like of float, shape (...)
    p : float, from 0 to below 1
    rng : int or Generator
        As for `numpy.random.default_rng`.

    Returns
    -------
    y : array of float, shape (...)
    vjp : Vjp
        alpha and beta sqrt(1 - p), of ordinary dropout, which divides by 1 - p.

    Raises ValueError: another p.

    Source: [UNIT_SCALING] appendix on factors.
    """
    values = array(x, "x of dropout")
    if not 0 <= p < 1:
        raise ValueError(f"p={p!r} of dropout must lie between 0 and 1, and below 1")
    kept = (np.random.default_rng(rng).random(values.shape) >= p) / values.dtype.type(1 - p)
    scale = math.sqrt(1 - p)
    return scaled("dropout", values * kept, scale, (scale,), lambda grad: (grad * kept,))


def _norm(
    name: str,
    x: npt.ArrayLike,
    weight: npt.ArrayLike | None,
    bias: npt.ArrayLike | None,
    axis: int | tuple[int, ...],
    eps: float,
    *,
    centered: bool,
) -> tuple[Array, Vjp]:
    """Apply either normalization."""
    check_labels(x, weight=weight, bias=bias)
    values = array(x, f"x of {name}")
    axes = tuple(sorted(axes_within(axis, values.ndim)))
    if not axes or axes != tuple(range(values.ndim - len(axes), values.ndim)):
        raise ValueError(
            f"axis={axis!r} of {name} must be the last axes of x, which has shape {values.shape}"
        )
    if not 0 <= real(eps, f"eps of {name}") < math.inf:
        raise ValueError(f"eps={eps!r} of {name} must be 0 or more; it is added to a variance")
    shape = values.shape[axes[0] :]
    parts = {"weight": weight, "bias": bias}
    given = {part: array(each, f"{part} of {name}") for part, each in parts.items() if each is not None}
    for part, each in given.items():
        if each.shape != shape:
            raise ValueError(f"{part} of {name} must have shape {shape}, not {each.shape}")
    middle = values - values.mean(axes, keepdims=True) if centered else values
    size = np.sqrt(np.square(middle).mean(axes, keepdims=True) + eps)
    unit = middle / size
    y = unit
    if "weight" in given:
        y = y * given["weight"]
    if "bias" in given:
        y = y + given["bias"]

    def pull(grad: Array) -> tuple[Array, ...]:
        inner = grad * given["weight"] if "weight" in given else grad
        dx = inner - unit * (inner * unit).mean(axes, keepdims=True)
        if centered:
            dx = dx - inner.mean(axes, keepdims=True)
        of = {"weight": grad * unit, "bias": grad}
        return (dx / size, *(sum_to(of[part], shape) for part in given))

    rows = values.size / max(1, math.prod(shape))
    free = (rows**-0.5 if rows else 1.0,) * len(given)
    return scaled(name, y, 1.0, (1.0, *free), pull)
