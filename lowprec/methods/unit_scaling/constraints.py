"""Constraints: how one factor is made of several, where gradients must stay true.

Factors of the two passes may differ only where an edge cuts the graph, as a weight does. Elsewhere they
must be equal, or the contributions of several paths to one gradient would be weighted wrongly. A constraint
is a function of the factors that would each be ideal, and gives the one that all of them become.

Floor 4.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from lowprec.arrays.doubles import real

Constraint = str | Callable[..., float] | None


def gmean(*scales: float) -> float:
    """Return the geometric mean: the paper's rule, and the default here.

    >>> gmean(8.0, 2.0)
    4.0

    Raises ValueError: no factors, or one that is not positive.

    Source: [UNIT_SCALING] section 4.
    """
    _need_factors("gmean", scales)
    return math.prod(scales) ** (1 / len(scales))


def hmean(*scales: float) -> float:
    """Return the harmonic mean; of squared factors it is the rule of Glorot's initialisation.

    >>> hmean(8.0, 2.0)
    3.2

    Raises ValueError: no factors, or one that is not positive.
    """
    _need_factors("hmean", scales)
    return 1 / amean(*(1 / scale for scale in scales))


def amean(*scales: float) -> float:
    """Return the arithmetic mean.

    >>> amean(8.0, 2.0)
    5.0

    Raises ValueError: no factors, or one that is not positive.
    """
    _need_factors("amean", scales)
    return math.fsum(scales) / len(scales)


def to_output_scale(output: float, *grads: float) -> float:
    """Return the output's factor: y has unit variance, gradients follow.

    >>> to_output_scale(2.0, 3.0, 4.0)
    2.0
    """
    return output


def to_grad_input_scale(output: float, grad_input: float) -> float:
    """Return the gradient's factor, of an operation with one: it has unit variance, y follows.

    >>> to_grad_input_scale(2.0, 3.0)
    3.0
    """
    return grad_input


def to_left_grad_scale(output: float, left: float, right: float) -> float:
    """Return the factor of the left operand's gradient.

    >>> to_left_grad_scale(2.0, 3.0, 4.0)
    3.0
    """
    return left


def to_right_grad_scale(output: float, left: float, right: float) -> float:
    """Return the factor of the right operand's gradient.

    >>> to_right_grad_scale(2.0, 3.0, 4.0)
    4.0
    """
    return right


#: What operations take by name, with the number of factors where it matters.
CONSTRAINTS: dict[str, tuple[Callable[..., float], int | None]] = {
    "gmean": (gmean, None),
    "hmean": (hmean, None),
    "amean": (amean, None),
    "to_output_scale": (to_output_scale, None),
    "to_grad_input_scale": (to_grad_input_scale, 2),
    "to_left_grad_scale": (to_left_grad_scale, 3),
    "to_right_grad_scale": (to_right_grad_scale, 3),
}


def constrain(constraint: Constraint, *scales: float) -> tuple[float, ...]:
    """Apply a constraint: all factors become the one that it gives.

    >>> constrain("gmean", 8.0, 2.0)
    (4.0, 4.0)
    >>> constrain(min, 8.0, 2.0)
    (2.0, 2.0)
    >>> constrain(None, 8.0, 2.0)
    (8.0, 2.0)

    Parameters
    ----------
    constraint : str, callable or None
        A name of this module, a function of the factors, or None, which leaves them as they are.
    scales : float, above 0
        The factor of the output first, then those of the gradients.

    Returns
    -------
    scales : tuple of float

    Raises ValueError: an unknown name, or one that is for another number of factors.
    """
    if constraint is None:
        return scales
    if callable(constraint):
        return (float(constraint(*scales)),) * len(scales)
    if constraint not in CONSTRAINTS:
        raise ValueError(
            f"unknown constraint {constraint!r}; use one of {', '.join(CONSTRAINTS)}, a function, or None"
        )
    function, count = CONSTRAINTS[constraint]
    if count not in (None, len(scales)):
        fitting = [name for name, (_, needed) in CONSTRAINTS.items() if needed in (None, len(scales))]
        raise ValueError(
            f"constraint {constraint!r} is for {count} factors, and here are {len(scales)}; use one of "
            f"{', '.join(fitting)}"
        )
    return (function(*scales),) * len(scales)


def _need_factors(name: str, scales: tuple[float, ...]) -> None:
    if not scales or not all(0 < real(scale, f"a factor of {name}") < math.inf for scale in scales):
        raise ValueError(f"{name} takes one or more factors, which are positive numbers, not {scales}")
