"""Sums, and products of elements: sum, weighted_sum, add, multiply, and residual layers.

Floor 4.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lowprec.arrays.axes import axes_within
from lowprec.arrays.doubles import real
from lowprec.arrays.kinds import check_labels
from lowprec.methods.unit_scaling.constraints import Constraint, constrain
from lowprec.methods.unit_scaling.vjp import Array, Vjp, array, scaled, sum_to


def sum(
    x: npt.ArrayLike, axis: int | tuple[int, ...] | None = None, constraint: Constraint = "gmean"
) -> tuple[Array, Vjp]:
    """Sum over axes.

    >>> y, vjp = sum(np.ones((3, 16)), axis=1, constraint=None)
    >>> y, vjp.alpha, vjp.beta
    (array([4., 4., 4.]), 0.25, (1.0,))

    Parameters
    ----------
    x : array_like of float, shape (...)
    axis : int or tuple of int, optional
        All of them by default.
    constraint : str, callable or None
        Of two factors: of the output, and of the gradient.

    Returns
    -------
    y : array of float, without these axes
    vjp : Vjp
        alpha n**-1/2 of a sum of n, beta 1, before the constraint.

    Source: [UNIT_SCALING] appendix on factors.
    """
    values = array(x, "x of sum")
    axes = tuple(range(values.ndim)) if axis is None else axes_within(axis, values.ndim)
    count = math.prod(values.shape[place] for place in axes)
    alpha, beta = constrain(constraint, count**-0.5 if count else 1.0, 1.0)

    def pull(grad: Array) -> tuple[Array]:
        return (np.broadcast_to(np.expand_dims(grad, axes), values.shape),)

    return scaled("sum", values.sum(axes), alpha, (beta,), pull)


def weighted_sum(arrays: Sequence[npt.ArrayLike], weights: Sequence[float]) -> tuple[Array, Vjp]:
    """Add arrays, each times a weight that is a constant.

    >>> y, vjp = weighted_sum([np.ones(2), np.ones(2)], [3.0, 4.0])
    >>> y, vjp.alpha, [round(beta, 4) for beta in vjp.beta]
    (array([1.4, 1.4]), 0.2, [0.3333, 0.25])

    Parameters
    ----------
    arrays : sequence of array_like of float, all of shape (...)
    weights : sequence of float
        One for each array: finite, and not 0.

    Returns
    -------
    y : array of float, shape (...)
    vjp : Vjp
        alpha (sum of squared weights)**-1/2; beta 1 / abs(weight), so that each gradient is that of y, or its
        opposite where the weight is negative. Nothing ties them: where the arrays meet again, the magnitudes
        of the weights must be applied there, as `residual_split` does.

    Raises ValueError: no arrays, unequal shapes, another number of weights, or one that is 0 or not
    finite.

    Source: [UNIT_SCALING] appendix on factors.
    """
    check_labels(*arrays)
    operands = [array(each, "arrays of weighted_sum") for each in arrays]
    shapes = {each.shape for each in operands}
    if len(shapes) != 1:
        raise ValueError(f"weighted_sum takes one or more arrays of one shape, not {sorted(shapes)}")
    factors = tuple(real(weight, "a weight of weighted_sum") for weight in weights)
    if len(factors) != len(operands) or not all(0 < abs(weight) < math.inf for weight in factors):
        raise ValueError(
            f"weighted_sum of {len(operands)} arrays takes as many finite weights other than 0, not "
            f"{weights!r}"
        )
    alpha = 1 / math.hypot(*factors)
    total = factors[0] * operands[0]
    for weight, operand in zip(factors[1:], operands[1:], strict=True):
        total = total + weight * operand

    def pull(grad: Array) -> tuple[Array, ...]:
        return tuple(weight * grad for weight in factors)

    return scaled("weighted_sum", total, alpha, [1 / abs(weight) for weight in factors], pull)


def add(left: npt.ArrayLike, right: npt.ArrayLike, constraint: Constraint = "gmean") -> tuple[Array, Vjp]:
    """Add two activations.

    >>> y, vjp = add(np.ones((4, 2)), np.ones(2), constraint=None)
    >>> vjp.alpha, vjp.beta
    (0.7071067811865476, (1.0, 0.5))

    Parameters
    ----------
    left, right : array_like of float
        Broadcast. An operand of one element changes no variance: alpha is 1 then, and that operand's
        gradient takes no part in the constraint.
    constraint : str, callable or None
        Of three factors: of the output, and of both gradients.

    Returns
    -------
    y : array of float
    vjp : Vjp
        alpha 2**-1/2, beta n**-1/2 for an operand of which each element is used n times, before the
        constraint.

    Raises ValueError: shapes that do not broadcast.

    Source: [UNIT_SCALING] appendix on factors, and its library.
    """
    check_labels(left, right)
    x, other = array(left, "left of add"), array(right, "right of add")
    total = x + other
    alpha, betas = _of_two(constraint, 2**-0.5, total.size, x.size, other.size)

    def pull(grad: Array) -> tuple[Array, Array]:
        return sum_to(grad, x.shape), sum_to(grad, other.shape)

    return scaled("add", total, alpha, betas, pull)


def multiply(
    left: npt.ArrayLike, right: npt.ArrayLike, constraint: Constraint = "gmean"
) -> tuple[Array, Vjp]:
    """Multiply two activations element by element.

    >>> y, vjp = multiply(np.ones((4, 2)), np.ones(2), constraint=None)
    >>> vjp.alpha, vjp.beta
    (1.0, (1.0, 0.5))

    Parameters
    ----------
    left, right : array_like of float
        Broadcast. The gradient of an operand of one element takes no part in the constraint.
    constraint : str, callable or None
        Of three factors: of the output, and of both gradients.

    Returns
    -------
    y : array of float
    vjp : Vjp
        alpha 1: the product of independent values of unit variance and mean 0 has unit variance. beta
        n**-1/2 for an operand of which each element is used n times, before the constraint.

    Raises ValueError: shapes that do not broadcast.

    Notes
    -----
    A value times itself is no product of independent ones: its variance is 2, and its mean 1. For gates see
    `glu`.

    Source: the definition of [UNIT_SCALING] section 4; the paper's table has no product of elements.
    """
    check_labels(left, right)
    x, other = array(left, "left of multiply"), array(right, "right of multiply")
    plain = x * other
    alpha, betas = _of_two(constraint, 1.0, plain.size, x.size, other.size)

    def pull(grad: Array) -> tuple[Array, Array]:
        return sum_to(grad * other, x.shape), sum_to(grad * x, other.shape)

    return scaled("multiply", plain, alpha, betas, pull)


def _of_two(constraint: Constraint, alpha: float, whole: int, *sizes: int) -> tuple[float, list[float]]:
    """Return the factors of two operands of some sizes that are broadcast to a whole."""
    betas = [(whole / size) ** -0.5 if whole else 1.0 for size in sizes]
    if 1 not in sizes:
        alpha, *betas = constrain(constraint, alpha, *betas)
        return alpha, betas
    alpha, *tied = constrain(constraint, 1.0, 1.0, 1.0)
    return alpha, [beta if size == 1 else each for beta, each, size in zip(betas, tied, sizes, strict=True)]


# -- residual layers ---------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class SplitVjp:
    """The backward pass of `residual_split`: from the gradients of branch and skip to that of x.

    Parameters
    ----------
    alpha : float
        1: both outputs are x.
    beta : pair of float
        What the gradients of branch and skip are multiplied by before they are added.
    """

    alpha: float
    beta: tuple[float, float]

    def __call__(self, branch: npt.ArrayLike, skip: npt.ArrayLike) -> tuple[Array]:
        """Return the gradient of x.

        Parameters
        ----------
        branch, skip : array_like of float, shape of x
            Gradients.
        """
        left, right = array(branch, "gradient of the branch"), array(skip, "gradient of the skip connection")
        if left.shape != right.shape:
            raise ValueError(
                f"gradients of branch and skip must have one shape, not {left.shape} and {right.shape}"
            )
        return (self.beta[0] * left + self.beta[1] * right,)


def residual_split(x: npt.ArrayLike, tau: float = 1.0) -> tuple[tuple[Array, Array], SplitVjp]:
    """Split x into branch and skip connection, before a residual layer.

    The layer is y = (tau * f(x) + x) / sqrt(1 + tau**2). In the forward pass the factor of the branch
    is applied to its end, by `residual_add`; in the backward pass to its beginning, here. So the gradients
    within the branch have unit variance, and that of x is true.

    >>> (branch, skip), vjp = residual_split([1.0, 2.0], tau=0.75)
    >>> vjp.beta
    (0.6, 0.8)

    Parameters
    ----------
    x : array_like of float, shape (...)
    tau : float, above 0
        The standard deviation of what the branch adds, in units of that of the skip connection.

    Returns
    -------
    branch, skip : array of float, shape (...)
        Both are x.
    vjp : SplitVjp

    Raises ValueError: a tau that is no positive number.

    Source: [UNIT_SCALING] section 4, with weights sqrt(1 - t) and sqrt(t): tau is sqrt(t / (1 - t)).
    """
    values = array(x, "x of residual_split")
    return (values, values), SplitVjp(alpha=1.0, beta=_shares(tau))


def residual_add(branch: npt.ArrayLike, skip: npt.ArrayLike, tau: float = 1.0) -> tuple[Array, Vjp]:
    """Add the end of a branch to the skip connection: `weighted_sum` with the weights of the layer.

    >>> y, vjp = residual_add([1.0, 1.0], [2.0, 2.0], tau=0.75)
    >>> y
    array([2.2, 2.2])

    Parameters
    ----------
    branch, skip : array_like of float, shape (...)
    tau : float, above 0
        As for `residual_split`.

    Returns
    -------
    y : array of float, shape (...)
    vjp : Vjp
        alpha 1. Both gradients are that of y: the weights come later, in `residual_split`.

    Raises ValueError: unequal shapes, or a tau that is no positive number.

    Source: [UNIT_SCALING] section 4.
    """
    return weighted_sum([branch, skip], _shares(tau))


def residual_apply(
    function: Callable[[Array], tuple[Array, Callable[..., tuple[Array, ...]]]],
    x: npt.ArrayLike,
    tau: float = 1.0,
) -> tuple[Array, Callable[[npt.ArrayLike], tuple[Array, ...]]]:
    """Apply a residual layer: y = (tau * f(x) + x) / sqrt(1 + tau**2).

    >>> from lowprec.methods import unit_scaling as us
    >>> y, vjp = residual_apply(lambda branch: us.linear(branch, np.eye(2)), [1.0, 2.0])
    >>> dx, dw = vjp([1.0, 1.0])
    >>> dx
    array([1.20710678, 1.20710678])

    Parameters
    ----------
    function : callable
        The branch: from an array to (y, vjp), whose vjp gives the gradient of its input first.
    x, tau
        As for `residual_split`.

    Returns
    -------
    y : array of float, shape of x
    vjp : callable
        From the gradient of y to those of x and of the branch's other operands. The gradient of x is true
        where the branch's is; those of the branch's weights lack the factor of the branch.

    Raises TypeError: a branch that gives no pair.

    Source: [UNIT_SCALING] section 4.
    """
    (branch, skip), split = residual_split(x, tau)
    made = function(branch)
    if not isinstance(made, tuple) or len(made) != 2:
        raise TypeError(
            f"the branch of residual_apply gives {type(made).__name__}, and must give (y, vjp), as "
            f"operations do; of torch tensors use differentiable(residual_split) before a branch and "
            f"differentiable(residual_add) behind it"
        )
    end, inner = made
    y, outer = residual_add(end, skip, tau)

    def vjp(grad: npt.ArrayLike) -> tuple[Array, ...]:
        of_end, of_skip = outer(grad)
        of_branch, *others = inner(of_end)
        return (*split(of_branch, of_skip), *others)

    return y, vjp


def _shares(tau: float) -> tuple[float, float]:
    """Return the weights of branch and skip connection."""
    if not 0 < real(tau, "tau of a residual layer") < math.inf:
        raise ValueError(
            f"tau={tau!r} of a residual layer must be a positive number; without a branch leave it out"
        )
    whole = math.hypot(1.0, tau)
    return tau / whole, 1 / whole
