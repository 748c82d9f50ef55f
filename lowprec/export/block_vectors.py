"""Test vectors of block converters: values to a scale and elements, and back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lowprec.arrays.blocks.block import BlockArray
from lowprec.arrays.checks import code_dtype
from lowprec.export.unit_vectors import UnitSuite, unit_file
from lowprec.export.vector_files import Column
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat
from lowprec.spec.format import Format
from lowprec.spec.layouts import lanes
from lowprec.verify.coverage.blocks import plan_of_blocks
from lowprec.verify.coverage.points import Plan
from lowprec.verify.inputs.block_cases import block_answers, block_cases
from lowprec.verify.inputs.operands import special_codes

#: What blocks are decoded to.
_DECODED = {catalog.BINARY32: "float32", catalog.BINARY16: "float16", catalog.BFLOAT16: "bfloat16"}


def block_suite(
    source: Format, fmt: BlockFormat, *, samples: int = 1024, seed: int = 0, command: str = ""
) -> UnitSuite:
    """Return vectors of a converter to blocks: values, and the scale and elements that they become.

    Of two-dimensional blocks the values are row by row. Formats with a scale of the tensor have it as an
    operand; elements that are rounded stochastically have their random integers.

    >>> made = block_suite(catalog.BFLOAT16, catalog.NVFP4, samples=64)
    >>> [(column.name, column.lanes, column.bits) for column in made.file.columns]
    [('x', 16, 16), ('tensorscale', 1, 32), ('scale', 1, 7), ('element', 16, 4)]

    Parameters
    ----------
    source : Format
    fmt : BlockFormat
    samples, seed : int
        Blocks at borders of scales; special values in every lane and random codes come on top.
    command : str

    Raises
    ------
    ValueError
        A source whose values binary32 does not have; blocks of more than 4,096 values; scales that are
        rounded stochastically, or elements whose lanes share random words.
    """
    size = _checked(fmt)
    mode = fmt.elements.rounding
    if fmt.scales.rounding.bits or (mode.bits and lanes(mode, fmt.element) > 1):
        raise ValueError(
            f"{fmt.name!r} rounds scales stochastically, or several elements by one word; vectors are of "
            f"blocks with a random integer for each element, or none"
        )
    cases = block_cases(fmt, source, samples, seed)
    codes, scales = block_answers(fmt, source, cases)
    columns = [Column("x", cases.values, source.width)]
    if cases.tensors is not None:
        columns.append(Column("tensorscale", cases.tensors.view(np.uint32), 32))
    if cases.random is not None:
        columns.append(Column("random", cases.random, mode.bits if mode.variant in ("A", "B", "C") else 32))
    columns.append(Column("scale", scales, fmt.scale.width, result=True))
    columns.append(Column("element", codes, fmt.element.width, result=True))
    words = [
        f"block {source.name} to {fmt.name}: {fmt.element.name} in blocks of {size}, scale by {fmt.rule}",
        f"elements: {fmt.elements}",
    ]
    facts = {"operation": "block", "formats": [source.name, fmt.name]}
    file = unit_file(tuple(columns), words, command, facts)
    return UnitSuite(file, lambda: plan_of_blocks(fmt, source, cases, codes, scales))


def _checked(fmt: BlockFormat) -> int:
    size = math.prod(fmt.sizes)
    if size > 4096:
        sizes = " x ".join(map(str, fmt.sizes))
        raise ValueError(
            f"blocks of {sizes} are too large for vectors; use a block format of at most 4,096 values"
        )
    return size


def decoder_suite(
    fmt: BlockFormat, target: Format, *, samples: int = 1024, seed: int = 0, command: str = ""
) -> UnitSuite:
    """Return vectors of a converter from blocks: a scale and elements, and the values that they stand for.

    Every element code comes in every lane, under special and random scales.

    >>> made = decoder_suite(catalog.MXFP4, catalog.BFLOAT16)
    >>> [(column.name, column.lanes, column.bits) for column in made.file.columns]
    [('scale', 1, 8), ('element', 32, 4), ('result', 32, 16)]

    Parameters
    ----------
    fmt : BlockFormat
    target : Format
        binary32, bfloat16 or binary16.
    samples, seed, command
        As for `block_suite`.
    """
    size = _checked(fmt)
    if target not in _DECODED:
        names = ", ".join(each.name for each in _DECODED)
        raise ValueError(f"blocks are decoded to {names}, not to {target.name!r}")
    random = np.random.default_rng(seed)
    width, special = fmt.element.width, special_codes(fmt.scale)
    count = max(samples, (1 << width) * 2)
    rows = np.arange(count)[:, None]
    codes = (rows + np.arange(size)) & (1 << width) - 1
    codes = np.where(rows < (1 << width) * 2, codes, random.integers(0, 1 << width, (count, size)))
    scales = random.integers(0, 1 << fmt.scale.width, count, dtype=np.uint64)
    by_turns = special[np.arange(count) // 2 % special.size]
    scales = np.where(np.arange(count) % 2 == 0, by_turns, scales).astype(code_dtype(fmt.scale))
    held = codes.astype(code_dtype(fmt.element))
    tensors = None
    if fmt.tensor_scale != "none":
        tensors = random.choice(np.array([1.0, 2.0**-10, 0.3, 2.0**-140, 2.0**60], np.float32), count)
    values = np.empty((count, size), np.dtype(f"u{target.width // 8}"))
    grid = (size,) if len(fmt.sizes) == 1 else fmt.sizes
    for number in range(count):
        tensor: dict[str, Any] = {} if tensors is None else {"tensor_scale": float(tensors[number])}
        block = BlockArray(
            held[number].reshape(grid), scales[number].reshape((1,) * len(grid)), fmt, **tensor
        )
        values[number] = np.asarray(block.values(_DECODED[target])).reshape(-1).view(values.dtype)
    columns = [Column("scale", scales, fmt.scale.width), Column("element", held, width)]
    if tensors is not None:
        columns.insert(0, Column("tensorscale", tensors.view(np.uint32), 32))
    columns.append(Column("result", values, target.width, result=True))
    words = [
        f"block {fmt.name} to {target.name}: {fmt.element.name} in blocks of {size}, scale {fmt.scale.name}"
    ]

    def plan() -> Plan:
        made = Plan(count)
        for code in special.tolist():
            made.add("scale", f"code {code:x}", scales == code)
        for lane in range(size):
            seen = np.array([(held[:, lane] == code).sum() for code in range(1 << width)])
            made.add("elements", "every code" if seen.all() else "some codes", held[:, lane] >= 0, lane)
        magnitude = values & values.dtype.type(target.sign_code - 1)
        made.add("result", "zero", (magnitude == 0).any(1))
        made.add("result", "subnormal", ((magnitude > 0) & (magnitude < 1 << target.trailing_bits)).any(1))
        made.add("result", "infinity", (magnitude == target.max_magnitude + 1).any(1))
        made.add("result", "NaN", (magnitude > target.max_magnitude + 1).any(1))
        return made

    facts = {"operation": "block", "formats": [fmt.name, target.name]}
    return UnitSuite(unit_file(tuple(columns), words, command, facts), plan)
