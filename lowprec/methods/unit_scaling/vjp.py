"""Results of operations: y, and a vector-Jacobian product with the factors of both passes.

An operation of Unit Scaling is an ordinary function f with a factor in each direction:

    y = alpha * f(x_0, x_1, ...)            forward
    dx_i = beta_i * (df/dx_i)^T dy          backward

Where alpha and beta_i are equal, dx_i is the true gradient of y. Where they are not, it is a multiple of it.

Floor 4.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.doubles import doubles, real, reals

Array = npt.NDArray[Any]
Result = tuple[Array, "Vjp"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Vjp:
    """The backward pass of an operation: from the gradient of y to those of the operands.

    >>> from lowprec.methods import unit_scaling as us
    >>> y, vjp = us.matmul(np.ones((2, 4)), np.ones((4, 16)), constraint=None)
    >>> vjp.alpha, vjp.beta
    (0.5, (0.25, 0.7071067811865476))
    >>> dx, dw = vjp(np.ones_like(y))
    >>> dx
    array([[4., 4., 4., 4.],
           [4., 4., 4., 4.]])

    Parameters
    ----------
    name : str
        Of the operation, for messages.
    alpha : float
        What f was multiplied by.
    beta : tuple of float
        What the gradients of f are multiplied by, one for each operand that has a gradient, in the
        order of the operation's parameters.
    pull : callable
        The vector-Jacobian product of f without any factor: from the gradient of y to a tuple of gradients.
    plain : array
        f without any factor: what y is alpha times. Gradients must have its shape, and are taken in its type.
    """

    name: str
    alpha: float
    beta: tuple[float, ...]
    pull: Callable[[Array], tuple[Array, ...]] = dataclasses.field(repr=False)
    plain: Array = dataclasses.field(repr=False)

    def __call__(self, grad: npt.ArrayLike = 1.0) -> tuple[Array, ...]:
        """Return the gradients of the operands.

        Parameters
        ----------
        grad : array_like of float, shape of y
            The gradient of y. 1 by default, which is what a loss begins with.

        Returns
        -------
        grads : tuple of array
            One for each operand that has a gradient, of its shape.

        Raises ValueError: a gradient of another shape.
        """
        given = array(grad, f"the gradient of {self.name}")
        if given.shape != self.plain.shape:
            raise ValueError(
                f"the gradient of {self.name} has shape {given.shape}, and its output has shape "
                f"{self.plain.shape}; give one number for each output"
            )
        pulled = self.pull(given.astype(self.plain.dtype, copy=False))
        return tuple(factor * each for factor, each in zip(self.beta, pulled, strict=True))


def unscaled(operation: Callable[..., Result]) -> Callable[..., Result]:
    """Return an operation without Unit Scaling: all factors are 1.

    >>> from lowprec.methods import unit_scaling as us
    >>> y, vjp = us.unscaled(us.matmul)(np.ones((2, 4)), np.ones((4, 16)))
    >>> float(y[0, 0]), vjp.alpha, vjp.beta
    (4.0, 1.0, (1.0, 1.0))

    Parameters
    ----------
    operation : callable
        Any of this module that gives (y, vjp).

    Returns
    -------
    ordinary : callable
        With the same parameters.

    Raises TypeError: when it is called: an operation that gives something else, such as `residual_split`
    and `residual_apply`.
    """

    @functools.wraps(operation)
    def ordinary(*operands: Any, **settings: Any) -> Result:
        _, vjp = operation(*operands, **settings)
        if not isinstance(vjp, Vjp):
            name = getattr(operation, "__name__", repr(operation))
            raise TypeError(
                f"{name} has no factors to leave out; make the operations unscaled that it is made of"
            )
        return vjp.plain, dataclasses.replace(vjp, alpha=1.0, beta=(1.0,) * len(vjp.beta))

    return ordinary


def scaled(
    name: str, plain: Any, alpha: float, beta: Sequence[float], pull: Callable[[Array], tuple[Array, ...]]
) -> Result:
    """Return (y, vjp) of an operation from f and its factors."""
    values = np.asarray(plain)
    y = values if alpha == 1 else np.asarray(alpha * values)
    return y, Vjp(name=name, alpha=alpha, beta=tuple(beta), pull=pull, plain=values)


def array(values: npt.ArrayLike, name: str) -> Array:
    """Return an operand as float32 or float64: narrower floats and integers are widened exactly.

    Raises TypeError: values that are no real numbers. ValueError: an integer that float64 does not have.
    """
    given = reals(values, name)
    kind: np.dtype[Any] = np.result_type(given.dtype, np.float32)
    return given.astype(kind, copy=False) if given.dtype.kind == "f" else doubles(given, name).astype(kind)


def need_positive(of: str, **given: float) -> None:
    """Refuse settings that are no positive numbers."""
    for name, value in given.items():
        if not 0 < real(value, f"{name} of {of}") < math.inf:
            raise ValueError(f"{name}={value!r} of {of} must be a positive number")


def sum_to(grad: Array, shape: tuple[int, ...]) -> Array:
    """Sum a gradient over the axes along which an operand of this shape was broadcast."""
    extra = grad.ndim - len(shape)
    axes = tuple(axis for axis in range(grad.ndim) if axis < extra or shape[axis - extra] != grad.shape[axis])
    total: Array = grad.sum(axes).reshape(shape)
    return total
