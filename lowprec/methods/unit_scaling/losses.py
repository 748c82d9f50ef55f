"""Losses: cross_entropy and mse.

Nothing comes behind them, so the value stays what it is, and the gradient that they begin with has unit
variance.

Floor 4.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from lowprec.arrays.checks import as_array
from lowprec.arrays.kinds import check_labels
from lowprec.methods.unit_scaling.vjp import Array, Vjp, array, need_positive, scaled


def cross_entropy(
    logits: npt.ArrayLike, labels: npt.ArrayLike, reduction: str = "mean", mult: float = 1.0
) -> tuple[Array, Vjp]:
    """Return the cross-entropy of softmax(mult * logits) and labels.

    >>> loss, vjp = cross_entropy(np.zeros((3, 5)), [0, 1, 2])
    >>> round(float(loss), 4), vjp.alpha, vjp.beta
    (1.6094, 1.0, (7.5,))
    >>> vjp()[0][0]
    array([-2. , 0.5, 0.5, 0.5, 0.5])

    Parameters
    ----------
    logits : array_like of float, shape (..., s)
    labels : array_like of integer, shape (...)
        From 0 to s - 1.
    reduction : {"mean", "sum"}
    mult : float, above 0

    Returns
    -------
    loss : array of float, shape ()
    vjp : Vjp
        alpha 1. The gradient is s / sqrt(s - 1) times that of the sum for mult=1, whatever the reduction
        and mult: beta is that, over mult, and times the number of labels for the mean.

    Raises ValueError: shapes that do not fit, fewer than two classes, a label that is none, an unknown
    reduction, or a mult that is no positive number. TypeError: labels that are no integers.

    Source: [UNIT_SCALING] appendix on factors, and its library.
    """
    values, wanted = array(logits, "logits of cross_entropy"), as_array(labels)
    if wanted.dtype.kind not in "iu":
        raise TypeError(f"labels of cross_entropy must be integers, not {wanted.dtype}")
    if values.ndim < 1 or wanted.shape != values.shape[:-1] or not wanted.size:
        raise ValueError(
            f"cross_entropy takes logits (..., s) and labels (...), one or more, not {values.shape} and "
            f"{wanted.shape}"
        )
    classes = values.shape[-1]
    if classes < 2:
        raise ValueError(f"cross_entropy needs two classes or more, and logits have {classes}")
    if not 0 <= int(wanted.min()) <= int(wanted.max()) < classes:
        raise ValueError(
            f"labels of cross_entropy go from {wanted.min()} to {wanted.max()}, and logits have classes 0 to "
            f"{classes - 1}"
        )
    need_positive("cross_entropy", mult=mult)
    share = _share(reduction, wanted.size, "cross_entropy")
    below = mult * (values - values.max(axis=-1, keepdims=True))
    logs = below - np.log(np.exp(below).sum(axis=-1, keepdims=True))
    places = wanted[..., None].astype(np.int64)
    loss = np.asarray(-np.take_along_axis(logs, places, -1).sum() * share)

    def pull(grad: Array) -> tuple[Array]:
        found = np.exp(logs)
        np.put_along_axis(found, places, np.take_along_axis(found, places, -1) - 1, -1)
        return (mult * share * grad * found,)

    beta = classes / math.sqrt(classes - 1) / mult / share
    return scaled("cross_entropy", loss, 1.0, (beta,), pull)


def mse(x: npt.ArrayLike, target: npt.ArrayLike, reduction: str = "mean") -> tuple[Array, Vjp]:
    """Return the squared error.

    >>> loss, vjp = mse([1.0, 2.0], [1.0, 4.0], reduction="sum")
    >>> loss, [round(beta, 4) for beta in vjp.beta]
    (array(4.), [0.3536, 0.3536])

    Parameters
    ----------
    x, target : array_like of float, shape (...)
    reduction : {"mean", "sum"}

    Returns
    -------
    loss : array of float, shape ()
    vjp : Vjp
        alpha 1. Both gradients are 8**-1/2 times those of the sum: beta is that, and for the mean times
        x.size.

    Raises ValueError: unequal shapes, no values, or an unknown reduction.

    Source: [UNIT_SCALING] appendix on factors, and its library.
    """
    check_labels(x, target)
    values, wanted = array(x, "x of mse"), array(target, "target of mse")
    if values.shape != wanted.shape or not values.size:
        raise ValueError(
            f"mse takes two arrays of one shape, with values, not {values.shape} and {wanted.shape}"
        )
    share = _share(reduction, values.size, "mse")
    error = values - wanted
    loss = np.asarray(np.square(error).sum() * share)

    def pull(grad: Array) -> tuple[Array, Array]:
        found = 2 * share * grad * error
        return found, -found

    return scaled("mse", loss, 1.0, (8**-0.5 / share,) * 2, pull)


def _share(reduction: str, count: int, name: str) -> float:
    """Return the factor of the sum."""
    if reduction not in ("mean", "sum"):
        raise ValueError(f"unknown reduction {reduction!r} of {name}; use 'mean' or 'sum'")
    return 1 / count if reduction == "mean" else 1.0
