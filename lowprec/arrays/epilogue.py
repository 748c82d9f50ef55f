"""Products of matrices as libraries return them: sums that are scaled, with a bias, in an output format.

Floor 3.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays import calls, lazy
from lowprec.arrays.block import BlockArray
from lowprec.arrays.checks import Array, Operand, code_dtype, output
from lowprec.arrays.operations import result_type
from lowprec.arrays.scaling import ScaledBlocks, operand_scales
from lowprec.arrays.sums import as_values, coded, computed, rounded_codes
from lowprec.kernels.engine import Backend
from lowprec.kernels.request import CONVERT
from lowprec.spec.accumulation import Accumulation
from lowprec.spec.epilogue import Epilogue

__all__ = ["scaled_product"]

Scales = tuple[npt.ArrayLike | None, npt.ArrayLike | None]


class _Steps:
    """The steps of an epilogue, on codes."""

    def __init__(self, epilogue: Epilogue, backend: Backend | None) -> None:
        self.epilogue, self.into, self.backend = epilogue, epilogue.compute, calls.thorough(backend)

    def __call__(self, operation: str, *operands: Operand) -> Operand:
        return coded(computed(operation, operands, self.into, self.backend), self.into[0])

    def given(self, values: npt.ArrayLike, name: str) -> Operand:
        """Numbers that join, rounded to nearest."""
        return coded(rounded_codes(values, self.into, self.backend, name), self.into[0])

    def scaled(self, sums: Operand, scales: list[Operand | None], addend: Operand | None) -> Operand:
        """Step 1, with the scales of x and of y."""
        factors = [scale for scale in scales if scale is not None]
        if self.epilogue.scales == "product":
            if len(factors) == 2:
                factors = [self("multiply", *factors)]
            factor = factors[0] if factors else self.given(1.0, "scale")
            return self("fma", sums, factor, self.given(0.0, "addend") if addend is None else addend)
        v = sums
        for scale in factors if self.epilogue.scales == "x_first" else reversed(factors):
            v = self("multiply", v, scale)
        return v if addend is None else self("add", v, addend)


def scaled_product(
    verb: Any,
    x: Any,
    y: Any,
    how: Accumulation,
    epilogue: Epilogue,
    *,
    scales: Scales | None,
    addend: npt.ArrayLike | None,
    bias: npt.ArrayLike | None,
    output_scale: npt.ArrayLike | None,
    rng: int | np.random.Generator | None,
    dtype: npt.DTypeLike | None,
    out: Array | None,
    backend: Backend | None,
    progress: Any,
) -> Any:
    """The results of `verb`, dot or matmul, with an epilogue."""
    if any(map(lazy.is_lazy, (x, y, addend, bias, output_scale, *(scales or ())))):
        raise ValueError(
            "scales and epilogues are for NumPy arrays: compute the lazy ones, or take them a block at a time"
        )
    if epilogue.fused_bias and bias is not None and addend is not None:
        raise ValueError("an epilogue with fused_bias adds the bias in the addend's place: give one of them")
    steps, target = _Steps(epilogue, backend), epilogue.output or how.output
    inner = dataclasses.replace(how, output=how.summed)
    options: dict[str, Any] = {"rng": rng, "backend": backend, "dtype": code_dtype(inner.output[0])}
    sides = _sides(verb.__name__, x, y, scales)
    fused = addend if bias is None or not epilogue.fused_bias else bias
    if any(blocks is not None for _, blocks in sides):
        shape, v = _in_blocks(verb, x, y, inner, steps, sides, fused, options)
    else:
        made = np.asarray(verb(x, y, inner, progress=progress, **options))
        shape, length = made.shape, np.shape(x)[-1]
        joins = None if fused is None else _joining(steps, fused, "addend", shape)
        factors = [None if rows is None or not length else steps.given(rows, "scale") for rows, _ in sides]
        v = steps.scaled(coded(made, inner.output[0]), factors, joins)
    if bias is not None and not epilogue.fused_bias:
        v = steps("add", v, _joining(steps, bias, "bias", shape))
    if output_scale is not None:
        v = steps("multiply", v, _joining(steps, output_scale, "output_scale", shape))
    codes = np.broadcast_to(computed(CONVERT, [v], target, steps.backend), shape)
    given, carrier = result_type(target[0], getattr(out, "dtype", None) if dtype is None else np.dtype(dtype))
    place = output(out, given, shape, f"values of {target[0].name!r}")
    result = as_values(codes, target, given, carrier, steps.backend)
    if place is None:
        return result if shape else result[()]
    place[...] = result
    return place


def _joining(steps: _Steps, values: npt.ArrayLike, name: str, shape: tuple[int, ...]) -> Operand:
    """Numbers for all results."""
    array = np.asarray(values)
    try:
        fits = np.broadcast_shapes(array.shape, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"{name} of shape {array.shape} does not broadcast to the result's shape {shape}; give one "
            f"number, or one for each column or result"
        )
    return steps.given(array, name)


def _sides(
    verb: str, x: Any, y: Any, scales: Scales | None
) -> list[tuple[Array | None, ScaledBlocks | None]]:
    """The scales of rows of x and of columns of y, ready to broadcast against results, or those of blocks."""
    if scales is None:
        return [(None, None)] * 2
    if not isinstance(scales, (tuple, list)) or len(scales) != 2:
        raise TypeError("scales must be a pair: those of x and those of y, or None")
    found: list[tuple[Array | None, ScaledBlocks | None]] = []
    for number, (given, operand) in enumerate(zip(scales, (x, y), strict=True)):
        if given is None:
            found.append((None, None))
            continue
        shape = operand.shape if isinstance(operand, BlockArray) else np.shape(operand)
        values = np.asarray(given)
        if values.dtype.kind != "f":
            values = values.astype(np.float64)
        k = -1 if verb == "dot" or number == 0 or len(shape) == 1 else -2
        rows, blocks = operand_scales("xy"[number], values, shape, k)
        if blocks is None and verb == "matmul" and rows.ndim and len(shape) > 1:
            rows = np.expand_dims(rows, -2 if number else -1)
        found.append((rows, blocks))
    return found


def _in_blocks(
    verb: Any,
    x: Any,
    y: Any,
    how: Accumulation,
    steps: _Steps,
    sides: list[tuple[Array | None, ScaledBlocks | None]],
    addend: npt.ArrayLike | None,
    options: dict[str, Any],
) -> tuple[tuple[int, ...], Operand]:
    """Step 1 of each block along K, in order."""
    sizes = {blocks.size for _, blocks in sides if blocks is not None}
    if len(sizes) > 1:
        raise ValueError(f"blocks of x and y along K have {sorted(sizes)} elements; give them one size")
    if how.split is not None:
        raise ValueError("scales of blocks along K join their sums one after the other: leave out split")
    if isinstance(x, BlockArray) or isinstance(y, BlockArray):
        raise ValueError("arrays in blocks have scales along K already; give scales of tensors or rows")
    left, right, (size,) = np.asarray(x), np.asarray(y), sizes
    columns = verb.__name__ == "matmul" and right.ndim > 1
    v: Operand | None = None
    for number, start in enumerate(range(0, left.shape[-1], size)):
        part = slice(start, start + size)
        theirs = right[..., part, :] if columns else right[..., part]
        made = np.asarray(verb(left[..., part], theirs, how, **options))
        if v is None and addend is not None:
            v = _joining(steps, addend, "addend", made.shape)
        factors = []
        for side, (rows, blocks) in enumerate(sides):
            if blocks is not None:
                axis = -2 if side and columns else -1
                rows = blocks.scales.take([number], axis)
                rows = rows if verb.__name__ == "matmul" and blocks.scales.ndim > 1 else rows[..., 0]
            factors.append(None if rows is None else steps.given(rows, "scale"))
        v = steps.scaled(coded(made, how.output[0]), factors, v)
        shape = made.shape
    assert v is not None, "there are several blocks"
    return shape, v
