"""Random Hadamard transform: groups of neighbours along an axis, times an orthogonal matrix.

Floor 4. Source: [NVFP4] 4.2.

Notation of the source, and names here:

    H       entries +1 and -1, H H^T = size * I
    S       `signs`: a diagonal of random signs, the same for both operands of a product
    H S x   transformed: each output is a sum of `size` terms, divided by sqrt(size)
"""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

from lowprec.arrays.axes import axis_within
from lowprec.arrays.checks import Array
from lowprec.arrays.dots import dot
from lowprec.arrays.doubles import reals
from lowprec.arrays.random import random_bits
from lowprec.spec import catalog
from lowprec.spec.accumulations import accumulation as accumulation_of
from lowprec.spec.format import Format
from lowprec.spec.projection import Projection

SIZES = (4, 16, 64)


def signs(size: int = 16, rng: int | np.random.Generator = 0) -> Array:
    """Draw the signs of a random Hadamard transform.

    >>> signs(4, 0)
    array([ 1., -1., -1., -1.], dtype=float32)

    Parameters
    ----------
    size : int
    rng : int or Generator
        The key of `lowprec.random_bits`, whose single bits are 1 where a sign is minus.

    Returns
    -------
    signs : array of float32, shape (size,)
    """
    return (1 - 2 * random_bits(size, rng, 1).astype(np.float32)).astype(np.float32)


def hadamard(
    values: npt.ArrayLike,
    size: int = 16,
    *,
    axis: int = -1,
    signs: npt.ArrayLike | None = None,
    output: Format | str | npt.DTypeLike = "binary32",
) -> Array:
    """Multiply groups of neighbours along an axis by a Hadamard matrix, scaled to be orthogonal.

    Each result is the exact sum, rounded once. An inner product of two arrays stays the same, except for
    these roundings, if both are transformed with the same signs along the axis that it sums over.

    >>> hadamard([4.0, 0, 0, 0], 4)
    array([2., 2., 2., 2.], dtype=float32)
    >>> hadamard([1.0, 2, 3, 4, 5], 4, signs=[1, -1, 1, -1])
    array([-1. ,  5. ,  0. , -2. ,  2.5,  2.5,  2.5,  2.5], dtype=float32)

    Parameters
    ----------
    values : array_like
    size : {4, 16, 64}
        Values per group: a power of 4, so that the scale 1/sqrt(size) is a power of two. Zeros fill the last
        group; its results are all returned.
    axis : int
    signs : array_like of +1 and -1, shape (size,), optional
        Factors of the values before the transform; ones by default.
    output : Format, str or dtype
        Format that sums are rounded to, to nearest even. Too large ones overflow as in `lowprec.encode`.

    Returns
    -------
    values : array of float, shape of the values with the axis padded to a multiple of `size`

    Raises ValueError: another size, or signs that are not `size` numbers +1 and -1.

    Source: [NVFP4] 4.2.
    """
    if size not in SIZES:
        raise ValueError(
            f"size={size!r} of a Hadamard transform must be one of {SIZES}: powers of 4, whose square roots "
            f"are powers of two"
        )
    flips = np.ones(size) if signs is None else reals(signs, "signs")
    if flips.shape != (size,) or not np.isin(flips, (-1, 1)).all():
        raise ValueError(f"signs of a Hadamard transform of {size} must be {size} numbers +1 and -1")
    array = reals(values, "values")
    axis = axis_within(axis, array.ndim)
    if lacking := -array.shape[axis] % size:
        array = np.pad(array, [(0, lacking * (place == axis)) for place in range(array.ndim)])
    # The index within a group becomes the first axis; the other axes keep their order: copies are faster.
    shape = (*array.shape[:axis], array.shape[axis] // size, size, *array.shape[axis + 1 :])
    groups = np.moveaxis(array.reshape(shape), axis + 1, 0)
    exact = dataclasses.replace(accumulation_of("exact"), output=(catalog.format(output), Projection()))
    mixed = dot.matmul((_matrix(size) * flips).astype(np.float32), groups.reshape(size, -1), exact)
    return np.moveaxis(np.asarray(mixed).reshape(groups.shape), 0, axis + 1).reshape(array.shape)


def _matrix(size: int) -> Array:
    """Return Sylvester's matrix over the root of its size: negative where an odd number of ones coincides."""
    places = np.arange(size)
    common = np.bitwise_count(places[:, None] & places)
    root = 1 << (size.bit_length() - 1) // 2
    return np.where(common % 2, -1, 1) / root
