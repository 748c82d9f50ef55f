"""Rules of products of matrices and of convolutions.

Floor 4. Source: [SCALIFY] 3.2, 3.4 and its published code.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from lowprec.arrays.checks import Array
from lowprec.methods.scale_propagation.config import current
from lowprec.methods.scale_propagation.pow2 import pow2_sqrt
from lowprec.methods.scale_propagation.registry import register_scaled_op
from lowprec.methods.scale_propagation.rounding import fitting, product, quotient
from lowprec.methods.scale_propagation.rules.operands import Operands, operands, settled
from lowprec.methods.scale_propagation.scaled_array import ScaledArray
from lowprec.spec.accumulation import Accumulation
from lowprec.spec.accumulations import accumulation as accumulation_of

__all__ = ["scaled_matmul"]


def scaled_matmul(x: Any, y: Any, accumulation: Accumulation | str | None = None) -> ScaledArray:
    """Multiply matrices; the scale is the product of the scales and of the root of K, as a power of two.

    See `lowprec.methods.scale_propagation.matmul`.
    """
    given = operands(x, y)
    how = current().dots if accumulation is None else accumulation_of(accumulation)
    length = given.arrays[0].shape[-1] if given.arrays[0].ndim else 1
    return _divided(
        given, how, pow2_sqrt(length) if length else 1.0, lambda first, second: product(first, second, how)
    )


@register_scaled_op(np.matmul)
def matmul(x: Any, y: Any) -> ScaledArray:
    """Return x @ y."""
    return scaled_matmul(x, y)


@register_scaled_op(np.dot)
def dot(x: Any, y: Any) -> Any:
    """Return x @ y, of at most two axes; of single numbers x * y."""
    if np.ndim(x) == 0 or np.ndim(y) == 0:
        return np.multiply(x, y)
    if np.ndim(x) > 2 or np.ndim(y) > 2:
        raise ValueError(
            f"numpy.dot of ScaledArrays takes at most two axes, not {np.ndim(x)} and {np.ndim(y)}; use x @ y"
        )
    return scaled_matmul(x, y)


@register_scaled_op(np.outer)
def outer(x: Any, y: Any) -> Any:
    """Return the products of all pairs."""
    return np.multiply(np.ravel(x)[:, None], np.ravel(y)[None, :])


@register_scaled_op(np.convolve)
def convolve(a: Any, v: Any, mode: str = "full") -> ScaledArray:
    """Convolve; the scale is the product of the scales, for the published rules have none for sums here."""
    given = operands(a, v)
    if any(array.ndim != 1 or not array.size for array in given.arrays) or mode not in (
        "full",
        "same",
        "valid",
    ):
        raise ValueError(
            f"numpy.convolve of ScaledArrays takes two arrays of one axis, not of shapes {np.shape(a)} and "
            f"{np.shape(v)}, and mode 'full', 'same' or 'valid', not {mode!r}; use sliding_window_view and @ "
            "for others"
        )
    how = current().dots

    def summed(first: Array, second: Array) -> Array:
        long, short = (first, second) if len(first) >= len(second) else (second, first)
        side = {"full": len(short) - 1, "valid": 0}
        before = side.get(mode, (len(short) - 1) // 2 if len(short) % 2 else len(short) // 2)
        after = side.get(mode, len(short) - 1 - before)
        windows = sliding_window_view(np.pad(long, (before, after)), len(short))
        return product(np.ascontiguousarray(windows), np.ascontiguousarray(short[::-1]), how)

    return _divided(given, how, 1.0, summed)


def _divided(given: Operands, how: Accumulation, root: float, sums: Any) -> ScaledArray:
    """Divide sums of products of the data by the root, in the format of the result."""
    first, second = (settled(x) for x in given.arrays)
    exact = float(first.scale) * float(second.scale)
    scale = fitting(exact * root, given.scale_format)
    # As tensor cores do it: products of narrow numbers give wide sums.
    fmt = how.output[0] if max(x.format.width for x in given.arrays) < 16 else given.fmt
    return given.result(quotient(sums(first.data, second.data), float(scale) / exact, fmt), scale, fmt)
