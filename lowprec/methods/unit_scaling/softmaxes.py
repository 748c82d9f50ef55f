"""softmax and attention.

Floor 4.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lowprec.arrays.axes import axis_within
from lowprec.arrays.checks import as_array
from lowprec.methods.unit_scaling.constraints import Constraint, constrain
from lowprec.methods.unit_scaling.factors import attention_scale, softmax_scales
from lowprec.methods.unit_scaling.products import Product, result_of
from lowprec.methods.unit_scaling.vjp import Array, Vjp, array, need_positive, scaled


def softmax(
    x: npt.ArrayLike, axis: int = -1, mult: float | None = None, constraint: Constraint = "gmean"
) -> tuple[Array, Vjp]:
    """Apply softmax along an axis. Its results are not zero-mean: the factors make their mean 1.

    >>> y, vjp = softmax([0.0, 0.0, 0.0, 0.0])
    >>> y, vjp.alpha
    (array([1., 1., 1., 1.]), 4.0)

    Parameters
    ----------
    x : array_like of float, shape (...)
    axis : int
    mult : float, above 0, optional
        What x is multiplied by first. None is the paper's operation, without one; a number asks for
        the factors of its library.
    constraint : str, callable or None
        Of two factors: of the output, and of the gradient.

    Returns
    -------
    y : array of float, shape (...)
    vjp : Vjp
        alpha and beta both the number of values along the axis; with mult those of `softmax_scales`.

    Raises ValueError: a mult that is no positive number, an axis that x does not have, or nothing along
    it.

    Source: [UNIT_SCALING] appendix on factors, and its library.
    """
    values = array(x, "x of softmax")
    need_positive("softmax", mult=1.0 if mult is None else mult)
    if values.ndim < 1 or not values.shape[axis_within(axis, values.ndim)]:
        raise ValueError(f"softmax needs values along axis={axis}, and x has shape {values.shape}")
    alpha, beta = constrain(constraint, *softmax_scales(values.shape[axis], mult))
    factor = 1.0 if mult is None else float(mult)
    shares = _shares(factor * values, axis)

    def pull(grad: Array) -> tuple[Array]:
        return (factor * _shares_pull(shares, grad, axis),)

    return scaled("softmax", shares, alpha, (beta,), pull)


def attention(
    query: npt.ArrayLike,
    key: npt.ArrayLike,
    value: npt.ArrayLike,
    *,
    causal: bool = False,
    mask: npt.ArrayLike | None = None,
    mult: float = 1.0,
    product: Product = np.matmul,
) -> tuple[Array, Vjp]:
    """Apply dot-product attention: softmax(query @ key.T * mult / d) @ value.

    >>> rng = np.random.default_rng(0)
    >>> q, k, v = rng.standard_normal((3, 8, 64, 16))
    >>> y, vjp = attention(q, k, v, causal=True)
    >>> dq, dk, dv = vjp(rng.standard_normal(y.shape))
    >>> round(vjp.alpha, 2), round(float(y.std()), 1)
    (3.84, 1.0)

    Parameters
    ----------
    query : array_like of float, shape (..., queries, d)
    key : array_like of float, shape (..., keys, d)
    value : array_like of float, shape (..., keys, m)
        Those in front are the same in all three: batch, heads.
    causal : bool
        Query i sees the keys up to i.
    mask : array_like of bool, shape that broadcasts to (..., queries, keys), optional
        True where a query sees a key. The factor does not depend on it.
    mult : float, above 0
        Of the logits.
    product : callable
        As for `matmul`.

    Returns
    -------
    y : array of float, shape (..., queries, m)
    vjp : Vjp
        alpha and all three beta are `attention_scale`. Gradients of value have about unit variance; those
        of query and key are smaller, about d**-1/2.

    Raises ValueError: shapes that do not fit, a query that sees no key, or a mult that is no positive
    number.

    Source: [UNIT_SCALING] its library; logits over d as in [UMUP].
    """
    q, k, v = (
        array(each, f"{name} of attention")
        for each, name in ((query, "query"), (key, "key"), (value, "value"))
    )
    need_positive("attention", mult=mult)
    fits = min(q.ndim, k.ndim, v.ndim) >= 2 and q.shape[:-2] == k.shape[:-2] == v.shape[:-2]
    if not (
        fits and q.shape[-1] == k.shape[-1] and k.shape[-2] == v.shape[-2] and k.shape[-2] and k.shape[-1]
    ):
        raise ValueError(
            "attention takes query (..., queries, d), key (..., keys, d) and value (..., keys, m), not "
            f"{q.shape}, {k.shape} and {v.shape}"
        )
    keys, width = k.shape[-2:]
    scale = attention_scale(keys, width, causal=causal, mult=mult)
    factor = mult / width
    logits = factor * result_of(product(q, k.swapaxes(-1, -2)), q, k, v)
    if (seen := _seen(causal, mask, logits.shape)) is not None:
        logits = np.where(seen, logits, -np.inf)
    shares = _shares(logits, -1)
    plain = result_of(product(shares, v), q, k, v)

    def pull(grad: Array) -> tuple[Array, Array, Array]:
        dshares = result_of(product(grad, v.swapaxes(-1, -2)), q, k, v)
        dlogits = factor * _shares_pull(shares, dshares, -1)
        dq, dk = product(dlogits, k), product(dlogits.swapaxes(-1, -2), q)
        dv = product(shares.swapaxes(-1, -2), grad)
        return result_of(dq, q, k, v), result_of(dk, q, k, v), result_of(dv, q, k, v)

    return scaled("attention", plain, scale, (scale,) * 3, pull)


def _shares(logits: Array, axis: int) -> Array:
    """Compute softmax, unscaled."""
    raised = np.exp(logits - logits.max(axis=axis, keepdims=True))
    shares: Array = raised / raised.sum(axis=axis, keepdims=True)
    return shares


def _shares_pull(shares: Array, grad: Array, axis: int) -> Array:
    """Compute the vector-Jacobian product of softmax."""
    weighted: Array = shares * (grad - (shares * grad).sum(axis=axis, keepdims=True))
    return weighted


def _seen(causal: bool, mask: npt.ArrayLike | None, shape: tuple[int, ...]) -> Array | None:
    """Return which keys each query sees; None if all."""
    if mask is None and not causal:
        return None
    seen = np.tri(shape[-2], shape[-1]).astype(bool) if causal else np.ones(shape[-2:], bool)
    if mask is not None:
        given = as_array(mask)
        if given.dtype != bool:
            raise TypeError(
                f"mask of attention must be bool, True where a query sees a key, not {given.dtype}"
            )
        try:
            seen = np.broadcast_to(seen & given, shape)
        except ValueError:
            raise ValueError(
                f"mask of attention has shape {given.shape}, which does not broadcast to {shape}"
            ) from None
    if not seen.any(axis=-1).all():
        raise ValueError(
            "mask of attention leaves a query without any key; leave that query out, or show it itself"
        )
    return seen
