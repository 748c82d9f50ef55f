"""The effect of an update on the parameter: effective descent quality, and the share that is lost.

Measures are taken in float64.

Floor 4. Source: [COLLAGE].
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lowprec.arrays.checks import Array
from lowprec.arrays.doubles import reals
from lowprec.arrays.kinds import check_labels
from lowprec.methods.expansion.sums import Expansion

Numbers = Expansion | npt.ArrayLike


def effective_update(old: Numbers, new: Numbers, *, residuals: bool = True) -> Array:
    """Return the change of a parameter: its value after a step, less that before it.

    >>> from lowprec.methods.expansion import Expansion, grow
    >>> old = Expansion(([1.0, 200.0], [0.0, 0.0]), "bfloat16")
    >>> new = grow(old, [0.0625, 0.125])
    >>> effective_update(old, new), effective_update(old, new, residuals=False)
    (array([0.0625, 0.125 ]), array([0.0625, 0.    ]))

    Parameters
    ----------
    old, new : Expansion or array_like, shape (...)
    residuals : bool
        Whether all parts of an expansion count, or the first one alone, as in the public code of Collage:
        that is what a model computes with.

    Returns
    -------
    update : array of float64, shape (...)
    """
    _check_names(old, new)
    return _values(new, residuals) - _values(old, residuals)


def edq(
    intended: npt.ArrayLike, old: Numbers, new: Numbers, *, residuals: bool = True, relative: bool = False
) -> float:
    """Return the effective descent quality: how far a step went in the direction of the update.

    The effective update projected on the intended one D, <D / `|D|`, effective>; relative to `|D|`, it is 1
    where nothing is lost and 0 where all is.

    >>> edq([3.0, 4.0], [1.0, 2000.0], [4.0, 2000.0])
    1.8
    >>> edq([3.0, 4.0], [1.0, 2000.0], [4.0, 2000.0], relative=True)
    0.36

    Parameters
    ----------
    intended : array_like, shape (...)
        Such as ``State.update``.
    old, new : Expansion or array_like, shape (...)
        The parameter before and after.
    residuals : bool
        As for `effective_update`. Of first parts alone the ratio may exceed 1: they recover earlier losses.
    relative : bool
        Whether to divide by the length of the intended update.

    Returns
    -------
    quality : float
        nan where the intended update is 0.

    Raises ValueError: unequal shapes.

    Source: [COLLAGE], effective descent quality.
    """
    meant, effective = (each.ravel() for each in _updates(intended, old, new, residuals))
    length = float(np.sqrt(meant @ meant))
    if not length:
        return float("nan")
    along = float(meant @ effective) / length
    return along / length if relative else along


def lost_fraction(intended: npt.ArrayLike, old: Numbers, new: Numbers, *, residuals: bool = True) -> float:
    """Return the share of non-zero updates that changed nothing: x + d = x although d is not 0.

    >>> lost_fraction([0.0625, 0.125, 0.0], [1.0, 200.0, 3.0], [1.0625, 200.0, 3.0])
    0.5

    Parameters
    ----------
    intended, old, new, residuals
        As for `edq`.

    Returns
    -------
    share : float
        From 0 to 1; 0 where no update was meant.

    Raises ValueError: unequal shapes.

    Source: [COLLAGE], lost arithmetic.
    """
    meant, effective = _updates(intended, old, new, residuals)
    lost = np.count_nonzero((meant != 0) & (effective == 0))
    return int(lost) / max(1, int(np.count_nonzero(meant)))


def _updates(intended: npt.ArrayLike, old: Numbers, new: Numbers, residuals: bool) -> tuple[Array, Array]:
    """Return the update, and the change that it made."""
    _check_names(intended, old, new)
    meant, before, after = (
        reals(intended, "intended").astype(np.float64),
        _values(old, residuals),
        _values(new, residuals),
    )
    if not meant.shape == before.shape == after.shape:
        raise ValueError(
            "the intended update and the parameter before and after it must have one shape, not "
            f"{meant.shape}, {before.shape} and {after.shape}"
        )
    return meant, after - before


def _check_names(*numbers: Numbers) -> None:
    check_labels(*(each for each in numbers if not isinstance(each, Expansion)))


def _values(numbers: Numbers, residuals: bool) -> Array:
    if isinstance(numbers, Expansion):
        return numbers.values() if residuals else numbers.parts[0].astype(np.float64)
    return reals(numbers, "old and new").astype(np.float64)
