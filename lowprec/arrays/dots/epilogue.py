"""Products of matrices as libraries return them: sums that are scaled, with a bias, in an output format.

Floor 3.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays import calls
from lowprec.arrays.blocks.block import BlockArray
from lowprec.arrays.blocks.scaling import ScaledBlocks, operand_scales
from lowprec.arrays.checks import Array, Operand, as_array, code_dtype, values_operand
from lowprec.arrays.dots.dot_shapes import Plain, check_joins, check_shapes
from lowprec.arrays.dots.sums import as_values, coded, computed, rounded_codes
from lowprec.arrays.operations import result_type, wanted_type
from lowprec.arrays.outputs import output
from lowprec.arrays.progress import reporting
from lowprec.kernels.engine import Backend
from lowprec.kernels.request import CONVERT
from lowprec.spec.accumulation import Accumulation
from lowprec.spec.epilogue import Epilogue
from lowprec.spec.rounded import to_nearest

__all__ = ["check_blocks", "scaled_product"]

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

    def scaled(
        self, sums: Operand, scales: list[Operand | None], addend: Operand | None, fused: bool
    ) -> Operand:
        """Step 1, with the scales of x and of y; the addend joins the last multiplication if it is fused."""
        factors = [scale for scale in scales if scale is not None]
        if self.epilogue.scales == "product":
            if len(factors) == 2:
                factors = [self("multiply", *factors)]
            fused, addend = True, self.given(0.0, "addend") if addend is None else addend
        if self.epilogue.scales == "y_first":
            factors = factors[::-1]
        v = sums
        last = factors.pop() if fused and factors else None
        for scale in factors:
            v = self("multiply", v, scale)
        if addend is None:
            return v
        return self("add", v, addend) if last is None else self("fma", v, last, addend)


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
    """Return the results of `verb`, dot or matmul, with an epilogue."""
    x, y = (side if isinstance(side, BlockArray) else as_array(side) for side in (x, y))
    steps, target = _Steps(epilogue, backend), epilogue.output or how.output
    if target[1].rounding.bits:
        raise ValueError("an epilogue's output is not rounded stochastically: use another output")
    if epilogue.fused_bias and bias is not None and addend is not None:
        raise ValueError("an epilogue with fused_bias adds the bias in the addend's place: give one of them")
    length = _length(verb.__name__, x, y)
    exact = to_nearest(epilogue.compute)
    tensors = any(isinstance(side, BlockArray) and side.tensor_scale is not None for side in (x, y))
    inner = dataclasses.replace(how, output=exact, addend="first") if tensors else how.partial(exact)
    options: dict[str, Any] = {"rng": rng, "backend": backend, "dtype": code_dtype(inner.output[0])}
    sides = _sides(verb.__name__, x, y, scales if length else None, epilogue.block)
    fused = epilogue.fused_bias and bias is not None
    joins = bias if fused else addend
    if any(blocks is not None for _, blocks in sides):
        if how.rounds_randomly:
            raise ValueError(f"{how} rounds stochastically, and scales of blocks along K are for others only")
        shape, v = _in_blocks(verb, x, y, inner, steps, sides, joins, fused, options, progress)
    else:
        made = np.asarray(verb(x, y, inner, progress=progress, **options))
        shape = made.shape
        added = None if joins is None else _joining(steps, joins, "addend", shape)
        factors = [None if rows is None else steps.given(rows, "scale") for rows, _ in sides]
        v = steps.scaled(coded(made, inner.output[0]), factors, added, fused)
    if bias is not None and not fused:
        v = steps("add", v, _joining(steps, bias, "bias", shape))
    if output_scale is not None:
        v = steps("multiply", v, _joining(steps, output_scale, "output_scale", shape))
    codes = np.broadcast_to(computed(CONVERT, [v], target, steps.backend), shape)
    given, carrier = result_type(target[0], wanted_type(dtype, out))
    place = output(out, given, shape, f"values of {target[0].name!r}")
    result = as_values(codes, target, given, carrier, steps.backend)
    if place is None:
        return result if shape else result[()]
    place[...] = result
    return out


def _joining(steps: _Steps, values: npt.ArrayLike, name: str, shape: tuple[int, ...]) -> Operand:
    """Numbers for all results."""
    array = as_array(values)
    check_joins(name, array.shape, shape)
    return steps.given(array, name)


def _length(verb: str, x: Any, y: Any) -> int:
    """K, of operands that fit."""
    left, right = Plain(x.shape), Plain(y.shape)
    check_shapes(verb, left, right, -1 if verb == "dot" else max(-2, -len(right.shape)))
    return left.shape[-1]


def _sides(
    verb: str, x: Any, y: Any, scales: Scales | None, block: int
) -> list[tuple[Array | None, ScaledBlocks | None]]:
    """Return scales of rows of x and columns of y, ready to broadcast against results, or those of blocks."""
    shapes = [x.shape, y.shape]
    found: list[tuple[Array | None, ScaledBlocks | None]] = []
    for number, given in enumerate(scales or (None, None)):
        if given is None:
            found.append((None, None))
            continue
        shape, name = shapes[number], "xy"[number]
        values = values_operand(given, f"scale of {name}").array
        k = -1 if verb == "dot" or number == 0 or len(shape) == 1 else -2
        if values.ndim == len(shape) and values.size > 1:
            check_blocks(name, values.shape, shape, k % len(shape), block)
        rows, blocks = operand_scales(name, values, shape, k, block)
        if blocks is None and verb == "matmul" and len(shape) > 1 and len(shapes[1 - number]) > 1:
            rows = np.expand_dims(rows, -2 if number else -1)
        found.append((rows, blocks))
    return found


def check_blocks(name: str, counts: tuple[int, ...], shape: tuple[int, ...], k: int, block: int) -> None:
    """Refuse scales of blocks whose size is not said, or is another: shapes alone do not tell it."""
    for axis, (count, size) in enumerate(zip(counts, shape, strict=True)):
        if count == 1 or (count == size and axis != k):
            continue
        if not block:
            along = "K" if axis == k else f"axis {axis}"
            raise ValueError(
                f"scale of {name} has {count} numbers along {along} of {size}: say how many elements share "
                f"one, such as epilogue=Epilogue(block=128); those of rows or columns have 1 in the place of "
                f"K"
            )
        if count != -(-size // block):
            raise ValueError(
                f"scale of {name} has {count} numbers along an axis of {size}, and blocks of {block} make "
                f"{-(-size // block)}"
            )


def _in_blocks(
    verb: Any,
    x: Any,
    y: Any,
    how: Accumulation,
    steps: _Steps,
    sides: list[tuple[Array | None, ScaledBlocks | None]],
    addend: npt.ArrayLike | None,
    fused: bool,
    options: dict[str, Any],
    progress: Any,
) -> tuple[tuple[int, ...], Operand]:
    """Step 1 of each block along K, in order."""
    sizes = {blocks.size for _, blocks in sides if blocks is not None}
    if len(sizes) > 1:
        raise ValueError(f"blocks of x and y along K have {sorted(sizes)} elements; give them one size")
    if how.split is not None:
        raise ValueError("scales of blocks along K join their sums one after the other: leave out split")
    if isinstance(x, BlockArray) or isinstance(y, BlockArray):
        raise ValueError("arrays in blocks have scales along K already; give scales of tensors or rows")
    (size,) = sizes
    columns = verb.__name__ == "matmul" and y.ndim > 1
    outer = columns and x.ndim > 1  # results have an axis for the rows of each side
    v: Operand | None = None
    starts = range(0, x.shape[-1], size)
    with reporting(progress, len(starts), f"blocks along K, {how}") as step:
        for number, start in enumerate(starts):
            part = slice(start, start + size)
            theirs = y[..., part, :] if columns else y[..., part]
            made = np.asarray(verb(x[..., part], theirs, how, **options))
            if v is None and addend is not None:
                v = _joining(steps, addend, "addend", made.shape)
            factors = []
            for side, (rows, blocks) in enumerate(sides):
                if blocks is not None:
                    axis = -2 if side and columns else -1
                    rows = blocks.scales.take([number] if outer else number, axis)
                factors.append(None if rows is None else steps.given(rows, "scale"))
            v = steps.scaled(coded(made, how.output[0]), factors, v, fused and number == 0)
            shape = made.shape
            if step:
                step(1)
    assert v is not None, "there are several blocks"
    return shape, v
