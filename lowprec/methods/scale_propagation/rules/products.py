"""Rules of products of matrices and of convolutions.

Floor 4. Source: [SCALIFY] 3.2, 3.4 and its published code.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from lowprec.arrays.axes import axes_within
from lowprec.arrays.checks import Array
from lowprec.methods.scale_propagation.config import current
from lowprec.methods.scale_propagation.pow2 import pow2_sqrt
from lowprec.methods.scale_propagation.registry import register_scaled_op
from lowprec.methods.scale_propagation.rounding import fitting, product, quotient
from lowprec.methods.scale_propagation.rules.operands import Operands, operands, settled
from lowprec.methods.scale_propagation.scaled_array import ScaledArray
from lowprec.spec.accumulation import Accumulation
from lowprec.spec.accumulations import accumulation as accumulation_of


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


@register_scaled_op(np.tensordot)
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """Sum products over pairs of axes, as one product of matrices."""
    first, second = np.ndim(a), np.ndim(b)
    if isinstance(axes, int):
        pairs = list(range(first - axes, first)), list(range(axes))
    else:
        pairs = tuple([each] if isinstance(each, int) else list(each) for each in axes)  # type: ignore[assignment]
    left, right = axes_within(pairs[0], first), axes_within(pairs[1], second)
    letters = [chr(ord("a") + place) for place in range(first + second)]
    names = letters[first:]
    for one, other in zip(left, right, strict=True):
        names[other] = letters[one]
    kept = [letters[each] for each in range(first) if each not in left]
    kept += [names[each] for each in range(second) if each not in right]
    return einsum(f"{''.join(letters[:first])},{''.join(names)}->{''.join(kept)}", a, b)


@register_scaled_op(np.einsum)
def einsum(subscripts: str, *operands: Any) -> Any:
    """Sum products over axes by their letters: sums of one operand first, then products of matrices.

    More than two operands are taken from the left. Each sum multiplies the scale by the root of its number
    of terms, as a power of two.
    """
    given, _, wanted = subscripts.replace(" ", "").partition("->")
    names = given.split(",")
    refused = "..." in subscripts or any(len(set(each)) < len(each) for each in (*names, wanted))
    if refused or "->" not in subscripts or len(names) != len(operands) or not set(wanted) <= set(given):
        raise ValueError(
            f"numpy.einsum of ScaledArrays takes subscripts with '->', a letter for each axis and none twice "
            f"in one operand, such as 'bij,bjk->bik', not {subscripts!r} for {len(operands)} operands; use "
            "numpy.diagonal and numpy.expand_dims for others"
        )
    sizes: dict[str, int] = {}
    shapes = [np.shape(each) for each in operands]
    for name, shape in zip(names, shapes, strict=True):
        if len(name) != len(shape) or any(
            sizes.setdefault(*each) != each[1] for each in zip(name, shape, strict=True)
        ):
            raise ValueError(
                f"{subscripts!r} of shapes {' and '.join(map(str, shapes))}: each letter is one axis, of one "
                f"length in all operands"
            )
    result, letters = operands[0], names[0]
    for place, (operand, name) in enumerate(zip(operands[1:], names[1:], strict=True)):
        later = set(wanted).union(*names[place + 2 :])
        result, letters = _pair(result, letters, operand, name, later)
    result, letters = _summed(result, letters, set(wanted))
    return np.transpose(result, [letters.index(each) for each in wanted]) if wanted else result


def _summed(x: Any, letters: str, kept: set[str]) -> tuple[Any, str]:
    """Sum over the axes of one operand that nothing else has."""
    gone = tuple(place for place, each in enumerate(letters) if each not in kept)
    return (np.sum(x, axis=gone), "".join(each for each in letters if each in kept)) if gone else (x, letters)


def _pair(x: Any, left: str, y: Any, right: str, later: set[str]) -> tuple[Any, str]:
    """Multiply two operands, and sum over the letters that both have and nothing later does."""
    x, left = _summed(x, left, later | set(right))
    y, right = _summed(y, right, later | set(left))
    both = [each for each in left if each in right and each in later]
    along = [each for each in left if each in right and each not in later]
    rows, columns = (
        [each for each in one if each not in other] for one, other in ((left, right), (right, left))
    )
    sizes = dict(zip(left + right, (*np.shape(x), *np.shape(y)), strict=False))

    def ordered(z: Any, letters: str, *parts: list[str]) -> Any:
        whole = np.transpose(z, [letters.index(each) for part in parts for each in part]) if letters else z
        return np.reshape(whole, [math.prod(sizes[each] for each in part) for part in parts])

    product = ordered(x, left, both, rows, along) @ ordered(y, right, both, along, columns)
    names = [*both, *rows, *columns]
    return np.reshape(product, [sizes[each] for each in names]), "".join(names)


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
