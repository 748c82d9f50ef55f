"""Products with weights: matmul, linear, readout, conv1d, embedding.

Each output is a sum of n products of independent values, so that n**-1/2 gives it unit variance; each
gradient likewise. Weights begin with unit variance, and cut the graph: the factor of their gradient is free.

Floor 4. Sums are those of `product`, NumPy's by default.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.methods.unit_scaling.constraints import Constraint, constrain
from lowprec.methods.unit_scaling.vjp import Array, Vjp, array, scaled, sum_to

__all__ = ["Product", "conv1d", "embedding", "linear", "matmul", "readout"]

Product = Callable[[Any, Any], Any]


def matmul(
    left: npt.ArrayLike,
    right: npt.ArrayLike,
    constraint: Constraint = "gmean",
    *,
    product: Product = np.matmul,
) -> tuple[Array, Vjp]:
    """Multiply matrices, both of which are activations.

    >>> y, vjp = matmul(np.ones((2, 16)), np.ones((16, 4)), constraint=None)
    >>> vjp.alpha, vjp.beta
    (0.25, (0.5, 0.7071067811865476))

    Parameters
    ----------
    left, right : array_like of float, shapes (..., b, m) and (..., m, n)
        As for `numpy.matmul`; those in front broadcast.
    constraint : str, callable or None
        Of three factors: of the output, and of both gradients.
    product : callable
        Multiplies matrices in both passes, such as `functools.partial(lowprec.matmul,
        accumulation="fp32_fma")`.

    Returns
    -------
    y : array of float, shape (..., b, n)
    vjp : Vjp
        alpha m**-1/2, beta n**-1/2 and b**-1/2, before the constraint; an operand that was broadcast
        counts the products of all its copies.

    Raises ValueError: operands of fewer than two dimensions, or shapes that do not fit.

    Source: [UNIT_SCALING] appendix on factors.
    """
    x, w = array(left, "left of matmul"), array(right, "right of matmul")
    if min(x.ndim, w.ndim) < 2:
        raise ValueError(
            f"matmul takes matrices, not shapes {x.shape} and {w.shape}; give vectors an axis of length 1"
        )
    plain = _result(product(x, w), x, w)
    rows, inner, columns = x.shape[-2], x.shape[-1], w.shape[-1]
    batch = math.prod(plain.shape[:-2])
    copies = [batch / max(1, math.prod(side.shape[:-2])) for side in (x, w)]
    ideal = (_root(inner), _root(columns * copies[0]), _root(rows * copies[1]))
    alpha, *beta = constrain(constraint, *ideal)

    def pull(grad: Array) -> tuple[Array, Array]:
        return (
            sum_to(_result(product(grad, w.swapaxes(-1, -2)), x, w), x.shape),
            sum_to(_result(product(x.swapaxes(-1, -2), grad), x, w), w.shape),
        )

    return scaled("matmul", plain, alpha, beta, pull)


def linear(
    x: npt.ArrayLike,
    weight: npt.ArrayLike,
    bias: npt.ArrayLike | None = None,
    constraint: Constraint = "gmean",
    *,
    product: Product = np.matmul,
) -> tuple[Array, Vjp]:
    """Apply a linear layer: alpha * (x @ weight + bias).

    >>> rng = np.random.default_rng(0)
    >>> x, w = rng.standard_normal((64, 256)), rng.standard_normal((256, 256))
    >>> y, vjp = linear(x, w)
    >>> dx, dw = vjp(rng.standard_normal(y.shape))
    >>> round(float(y.std()), 1), round(float(dx.std()), 1), round(float(dw.std()), 1)
    (1.0, 1.0, 1.0)

    Parameters
    ----------
    x : array_like of float, shape (..., m)
    weight : array_like of float, shape (m, n)
        Begins with unit variance.
    bias : array_like of float, shape (n,), optional
        Begins as zero.
    constraint : str, callable or None
        Of two factors: of the output, and of the gradient of x.
    product : callable
        As for `matmul`.

    Returns
    -------
    y : array of float, shape (..., n)
    vjp : Vjp
        alpha m**-1/2, beta n**-1/2, before the constraint; for weight and bias b**-1/2, with the number
        b of rows of x.

    Raises ValueError: shapes that do not fit.

    Source: [UNIT_SCALING] appendix on factors.
    """
    return _linear("linear", 0.5, x, weight, bias, constraint, product)


def readout(
    x: npt.ArrayLike,
    weight: npt.ArrayLike,
    bias: npt.ArrayLike | None = None,
    constraint: Constraint = None,
    *,
    product: Product = np.matmul,
) -> tuple[Array, Vjp]:
    """Apply the linear layer that gives a network's output, which becomes smaller as the network is wider.

    >>> readout(np.ones((1, 64)), np.ones((64, 4)))[1].alpha
    0.015625

    Parameters
    ----------
    x, weight, bias, product
        As for `linear`.
    constraint : str, callable or None
        None by default: nothing but the loss comes behind.

    Returns
    -------
    y : array of float, shape (..., n)
    vjp : Vjp
        alpha 1 / m; the others as those of `linear`.

    Raises ValueError: shapes that do not fit.

    Source: [UMUP] table 2.
    """
    return _linear("readout", 1.0, x, weight, bias, constraint, product)


def conv1d(
    x: npt.ArrayLike,
    weight: npt.ArrayLike,
    bias: npt.ArrayLike | None = None,
    constraint: Constraint = "gmean",
    *,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
) -> tuple[Array, Vjp]:
    """Apply a convolution along the last axis (a correlation, as deep learning has it).

    >>> y, vjp = conv1d(np.ones((2, 8)), np.ones((4, 2, 3)), padding=1, constraint=None)
    >>> y.shape, round(vjp.alpha, 4)
    ((4, 8), 0.4082)

    Parameters
    ----------
    x : array_like of float, shape (..., channels, length)
    weight : array_like of float, shape (outputs, channels / groups, size)
        Begins with unit variance.
    bias : array_like of float, shape (outputs,), optional
    constraint : str, callable or None
        Of two factors: of the output, and of the gradient of x.
    stride, padding, dilation, groups : int
        Steps between outputs, zeros at either end, steps between taps, and independent convolutions.

    Returns
    -------
    y : array of float, shape (..., outputs, (length + 2 * padding - dilation * (size - 1) - 1) // stride + 1)
    vjp : Vjp
        alpha (channels / groups * size)**-1/2 and beta (outputs / groups * size / stride)**-1/2, before the
        constraint; for weight and bias (outputs along the axis, times those in front)**-1/2.

    Raises ValueError: shapes, or settings, that do not fit.

    Notes
    -----
    Next to the ends inputs reach fewer outputs, and zeros of the padding have no variance: gradients
    and outputs there are smaller.

    Source: [UNIT_SCALING] its library.
    """
    values, taps = array(x, "x of conv1d"), array(weight, "weight of conv1d")
    _check_convolution(values.shape, taps.shape, stride, padding, dilation, groups)
    outputs, fan_in, size = taps.shape
    length = values.shape[-1]
    count = (length + 2 * padding - dilation * (size - 1) - 1) // stride + 1
    front = values.shape[:-2]
    batch = math.prod(front)
    grouped = values.reshape(batch, groups, fan_in, length)
    padded = np.pad(grouped, ((0, 0), (0, 0), (0, 0), (padding, padding)))
    kernels = taps.reshape(groups, outputs // groups, fan_in, size)
    places = [slice(tap * dilation, tap * dilation + (count - 1) * stride + 1, stride) for tap in range(size)]
    result = np.zeros((batch, groups, outputs // groups, count), np.result_type(values, taps))
    for tap, place in enumerate(places):
        result += kernels[..., tap] @ padded[..., place]
    plain = result.reshape(*front, outputs, count)
    biases = [] if bias is None else [_bias(bias, outputs, "conv1d")]
    for each in biases:
        plain = plain + each[:, None]
    alpha, beta = constrain(constraint, _root(fan_in * size), _root(outputs * size / (stride * groups)))

    def pull(grad: Array) -> tuple[Array, ...]:
        given = grad.reshape(result.shape)
        dx, dw = np.zeros_like(padded), np.zeros_like(kernels)
        for tap, place in enumerate(places):
            dx[..., place] += kernels[..., tap].swapaxes(-1, -2) @ given
            dw[..., tap] = (given @ padded[..., place].swapaxes(-1, -2)).sum(axis=0)
        inner = dx[..., padding : padding + length].reshape(values.shape)
        return (inner, dw.reshape(taps.shape), *(given.sum(axis=(0, 3)).reshape(outputs) for _ in biases))

    free = (_root(batch * count),) * (1 + len(biases))
    return scaled("conv1d", plain, alpha, (beta, *free), pull)


def embedding(indices: npt.ArrayLike, weight: npt.ArrayLike) -> tuple[Array, Vjp]:
    """Look up rows of a table.

    >>> y, vjp = embedding([[2, 0]], np.eye(3))
    >>> y
    array([[[0., 0., 1.],
            [1., 0., 0.]]])
    >>> round(vjp.beta[0], 4)
    1.2247

    Parameters
    ----------
    indices : array_like of integer, shape (...)
        From 0 to vocabulary - 1.
    weight : array_like of float, shape (vocabulary, m)
        Begins with unit variance.

    Returns
    -------
    y : array of float, shape (..., m)
    vjp : Vjp
        alpha 1, and for the table sqrt(vocabulary / indices.size).

    Raises ValueError: a table that is no matrix, or an index that it does not have. TypeError: indices
    that are no integers.

    Source: [UNIT_SCALING] appendix on factors.
    """
    places, table = np.asarray(indices), array(weight, "weight of embedding")
    if places.dtype.kind not in "iu":
        raise TypeError(f"indices of embedding must be integers, not {places.dtype}")
    if table.ndim != 2:
        raise ValueError(f"weight of embedding must have shape (vocabulary, m), not {table.shape}")
    if places.size and not 0 <= int(places.min()) <= int(places.max()) < len(table):
        raise ValueError(
            f"indices of embedding go from {places.min()} to {places.max()}, and the table has rows 0 to "
            f"{len(table) - 1}"
        )

    def pull(grad: Array) -> tuple[Array]:
        rows = np.zeros_like(table)
        np.add.at(rows, places, grad)
        return (rows,)

    beta = math.sqrt(len(table) / max(1, places.size))
    return scaled("embedding", table[places], 1.0, (beta,), pull)


# -- shared helpers ----------------------------------------------------------------------------------


def _root(count: float) -> float:
    """Return the factor of a sum of so many independent products; of an empty one 1."""
    return count**-0.5 if count else 1.0


def _result(values: Any, *operands: Array) -> Array:
    """Return the result of a product in the type of its operands."""
    return np.asarray(values).astype(np.result_type(*operands), copy=False)


def _bias(bias: npt.ArrayLike, outputs: int, name: str) -> Array:
    values = array(bias, f"bias of {name}")
    if values.shape != (outputs,):
        raise ValueError(f"bias of {name} must have shape {(outputs,)}, not {values.shape}")
    return values


def _linear(
    name: str,
    power: float,
    x: npt.ArrayLike,
    weight: npt.ArrayLike,
    bias: npt.ArrayLike | None,
    constraint: Constraint,
    product: Product,
) -> tuple[Array, Vjp]:
    """Apply a linear layer whose alpha is fan_in**-power."""
    values, matrix = array(x, f"x of {name}"), array(weight, f"weight of {name}")
    if matrix.ndim != 2 or values.ndim < 1 or values.shape[-1] != matrix.shape[0]:
        raise ValueError(f"{name} takes x (..., m) and weight (m, n), not {values.shape} and {matrix.shape}")
    fan_in, fan_out = matrix.shape
    count = math.prod(values.shape[:-1])
    rows = values.reshape(count, fan_in)
    plain = _result(product(rows, matrix), values, matrix)
    biases = [] if bias is None else [_bias(bias, fan_out, name)]
    for each in biases:
        plain = plain + each
    alpha, beta = constrain(constraint, max(1, fan_in) ** -power, _root(fan_out))

    def pull(grad: Array) -> tuple[Array, ...]:
        given = grad.reshape(count, fan_out)
        dx = _result(product(given, matrix.T), values, matrix).reshape(values.shape)
        dw = _result(product(rows.T, given), values, matrix)
        return (dx, dw, *(given.sum(axis=0) for _ in biases))

    free = (_root(count),) * (1 + len(biases))
    return scaled(name, plain.reshape(*values.shape[:-1], fan_out), alpha, (beta, *free), pull)


def _check_convolution(
    shape: tuple[int, ...], taps: tuple[int, ...], stride: int, padding: int, dilation: int, groups: int
) -> None:
    """Refuse shapes and settings that do not fit."""
    for name, given, least in (("stride", stride, 1), ("padding", padding, 0), ("dilation", dilation, 1)):
        if given < least:
            raise ValueError(f"{name}={given!r} of conv1d must be {least} or more")
    if len(shape) < 2 or len(taps) != 3:
        raise ValueError(
            "conv1d takes x (..., channels, length) and weight (outputs, channels / groups, size), not "
            f"{shape} and {taps}"
        )
    if groups < 1 or taps[0] % groups or shape[-2] != taps[1] * groups:
        raise ValueError(
            f"groups={groups!r} of conv1d does not fit {shape[-2]} channels and weight {taps}: outputs must "
            f"be a multiple of it, and channels {taps[1]} times it"
        )
    reach = dilation * (taps[2] - 1) + 1
    if taps[2] < 1 or shape[-1] + 2 * padding < reach:
        raise ValueError(
            f"{reach} taps of conv1d do not fit in length {shape[-1]} with padding={padding}; use more "
            "padding"
        )
