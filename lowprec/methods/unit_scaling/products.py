"""Products with weights: matmul, linear, readout, embedding.

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

from lowprec.arrays.axes import broadcast_shapes
from lowprec.arrays.checks import as_array
from lowprec.methods._layer import check_names
from lowprec.methods.unit_scaling.constraints import Constraint, constrain
from lowprec.methods.unit_scaling.vjp import Array, Vjp, array, scaled, sum_to

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
    check_names(left, right)
    x, w = array(left, "left of matmul"), array(right, "right of matmul")
    if min(x.ndim, w.ndim) < 2:
        raise ValueError(
            f"matmul takes matrices, not shapes {x.shape} and {w.shape}; give vectors an axis of length 1"
        )
    try:
        broadcast_shapes(x.shape[:-2], w.shape[:-2])
        fits = x.shape[-1] == w.shape[-2]
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"matmul takes left (..., b, m) and right (..., m, n), not {x.shape} and {w.shape}")
    plain = result_of(product(x, w), x, w)
    rows, inner, columns = x.shape[-2], x.shape[-1], w.shape[-1]
    batch = math.prod(plain.shape[:-2])
    copies = [batch / max(1, math.prod(side.shape[:-2])) for side in (x, w)]
    ideal = (root(inner), root(columns * copies[0]), root(rows * copies[1]))
    alpha, *beta = constrain(constraint, *ideal)

    def pull(grad: Array) -> tuple[Array, Array]:
        return (
            sum_to(result_of(product(grad, w.swapaxes(-1, -2)), x, w), x.shape),
            sum_to(result_of(product(x.swapaxes(-1, -2), grad), x, w), w.shape),
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
    places, table = as_array(indices), array(weight, "weight of embedding")
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


def root(count: float) -> float:
    """Return the factor of a sum of so many independent products; of an empty one 1."""
    return count**-0.5 if count else 1.0


def result_of(values: Any, *operands: Array) -> Array:
    """Return the result of a product in the type of its operands."""
    return np.asarray(values).astype(np.result_type(*operands), copy=False)


def bias_of(bias: npt.ArrayLike, outputs: int, name: str) -> Array:
    """Return a bias, one for each output."""
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
    check_names(x, weight, bias=bias)
    values, matrix = array(x, f"x of {name}"), array(weight, f"weight of {name}")
    if matrix.ndim != 2 or values.ndim < 1 or values.shape[-1] != matrix.shape[0]:
        raise ValueError(f"{name} takes x (..., m) and weight (m, n), not {values.shape} and {matrix.shape}")
    fan_in, fan_out = matrix.shape
    count = math.prod(values.shape[:-1])
    rows = values.reshape(count, fan_in)
    plain = result_of(product(rows, matrix), values, matrix)
    biases = [] if bias is None else [bias_of(bias, fan_out, name)]
    for each in biases:
        plain = plain + each
    alpha, beta = constrain(constraint, max(1, fan_in) ** -power, root(fan_out))

    def pull(grad: Array) -> tuple[Array, ...]:
        given = grad.reshape(count, fan_out)
        dx = result_of(product(given, matrix.T), values, matrix).reshape(values.shape)
        dw = result_of(product(rows.T, given), values, matrix)
        return (dx, dw, *(given.sum(axis=0) for _ in biases))

    free = (root(count),) * (1 + len(biases))
    return scaled(name, plain.reshape(*values.shape[:-1], fan_out), alpha, (beta, *free), pull)
