"""Lines of block converters that a program printed, held against what they must be."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from lowprec.arrays.blocks.block import BlockArray
from lowprec.arrays.checks import code_dtype
from lowprec.spec.block import BlockFormat
from lowprec.spec.catalog import BINARY32
from lowprec.spec.format import Format
from lowprec.spec.layouts import lanes
from lowprec.spec.projection import DEFAULT
from lowprec.verify.compare.compare import compare
from lowprec.verify.compare.judging import judge
from lowprec.verify.compare.line_rows import columns_of, numbered, some_rows, word_format
from lowprec.verify.compare.report import Comparison
from lowprec.verify.dumps.files import Held
from lowprec.verify.inputs.block_cases import source_values
from lowprec.verify.inputs.operands import random_width
from lowprec.verify.questions.blocks.decoded import DecodedQuestion
from lowprec.verify.questions.blocks.drawn_blocks import DrawnQuestion
from lowprec.verify.questions.blocks.tensor_scales import TensorsQuestion
from lowprec.verify.questions.question import budget

__all__ = ["compare_block_lines", "compare_decoder_lines"]


def compare_block_lines(lines: Iterable[str], source: Format, fmt: BlockFormat, **options: Any) -> Comparison:
    """Hold lines of values, scale and elements against the blocks that the values become.

    >>> from lowprec.spec.catalog import BFLOAT16, MXFP4
    >>> line = " ".join(["3f80"] * 32 + ["7d"] + ["6"] * 32)
    >>> compare_block_lines([line], BFLOAT16, MXFP4).mismatches
    0

    Parameters
    ----------
    lines : iterable of str
    source : Format
        Of the values.
    fmt : BlockFormat
        One-dimensional. A scale of the tensor stands behind the values of each line, then the random
        integers of elements that are rounded stochastically, one for each.
    options
        As for `compare_dot_lines`.

    Raises
    ------
    DumpError, ValueError
        As `compare_dot_lines`; a block format of two dimensions, one whose scales are rounded stochastically,
        or whose elements share random words.
    """
    size, tensor = math.prod(fmt.sizes), int(fmt.tensor_scale != "none")
    if len(fmt.sizes) > 1:
        raise ValueError(
            f"lines of {fmt.name!r} are not read: its blocks have two dimensions; compare files with --scales"
        )
    mode = fmt.elements.rounding
    if fmt.scales.rounding.bits or (mode.bits and lanes(mode, fmt.element) > 1):
        raise ValueError(
            f"{fmt.name!r} rounds scales stochastically, or several elements by one word; lines are of "
            f"blocks with a random integer for each element, or none"
        )
    rows, drawn = some_rows(lines), int(bool(mode.bits))
    packed = len(rows[0][1]) == 3 + tensor + drawn and size > 1
    parts = [(source, size), *[(BINARY32, 1)] * tensor]
    parts += [(word_format(random_width(mode)), size)] * drawn
    parts += [(fmt.scale, 1), (fmt.element, size)]
    layout = parts if packed else [(each, 1) for each, count in parts for _ in range(count)]
    rows, codes, unknown = columns_of(rows, layout, 2 if packed else 1 + size)
    values = source_values(codes[:, :size].astype(code_dtype(source)), source)
    found = codes[:, -size:].astype(code_dtype(fmt.element))
    scales = codes[:, -size - 1 : -size].astype(code_dtype(fmt.scale))
    if tensor or drawn:
        options |= {"budget": budget(options.pop("ulps", None), "blocks")}
        about: dict[str, Any] = {name: options.pop(name) for name in ("any_nan", "budget") if name in options}
        given = Held(values, "values"), fmt, Held(found, "elements")
        tensors = codes[:, size].astype(np.uint32).view(np.float32) if tensor else np.ones(len(rows))
        about["scales"] = Held(scales, "scales")
        if drawn:
            integers = codes[:, size + tensor : 2 * size + tensor].astype(np.uint32)
            report = judge(DrawnQuestion(*given, tensors, integers, **about), **options)
        else:
            report = judge(TensorsQuestion(*given, tensors, **about), **options)
    else:
        report = compare(values, found, fmt, scales=scales, **options)
    return unknown.told(numbered(report, rows, size))


def compare_decoder_lines(
    lines: Iterable[str], fmt: BlockFormat, target: Format, **options: Any
) -> Comparison:
    """Hold lines of scale, elements and values against what the blocks stand for.

    A scale of the tensor comes first, where there is one. A value is the product of the scales and an
    element, which binary64 holds, rounded once.

    >>> from lowprec.spec.catalog import BFLOAT16, MXFP4
    >>> line = " ".join(["7d"] + ["6"] * 32 + ["3f80"] * 32)
    >>> compare_decoder_lines([line], MXFP4, BFLOAT16).mismatches
    0

    Parameters
    ----------
    lines : iterable of str
    fmt : BlockFormat
    target : Format
        Of the values.
    options
        As for `compare_dot_lines`.

    Raises
    ------
    DumpError
        As `compare_dot_lines`.
    """
    size, tensor = math.prod(fmt.sizes), int(fmt.tensor_scale != "none")
    rows = some_rows(lines)
    packed = len(rows[0][1]) == 3 + tensor and size > 1
    one = [*[(BINARY32, 1)] * tensor, (fmt.scale, 1)]
    both = [(fmt.element, size), (target, size)]
    layout = one + (both if packed else [(each, 1) for each, _ in both for _ in range(size)])
    rows, codes, unknown = columns_of(rows, layout, 1 if packed else size)
    scales = codes[:, tensor].astype(code_dtype(fmt.scale))
    elements = codes[:, tensor + 1 : tensor + 1 + size].astype(code_dtype(fmt.element))
    tensors = codes[:, 0].astype(np.uint32).view(np.float32) if tensor else np.ones(len(rows), np.float32)
    grid = (size,) if len(fmt.sizes) == 1 else fmt.sizes
    values = np.empty((len(rows), size))
    for at, held in enumerate(tensors.tolist()):
        one_scale = scales[at].reshape((1,) * len(grid))
        given = {"tensor_scale": held} if tensor else {}
        values[at] = BlockArray(elements[at].reshape(grid), one_scale, fmt, **given).values("float64").ravel()
    results = codes[:, -size:].astype(code_dtype(target))
    if len(grid) > 1:
        return unknown.told(numbered(compare(values, results, target, **options), rows, size))
    options |= {"budget": budget(options.pop("ulps", None), "convert")}
    about = {name: options.pop(name) for name in ("any_nan", "budget") if name in options}
    question = DecodedQuestion(
        values.reshape(-1),
        (elements.reshape(-1), scales.reshape(-1), tensors.astype(np.float64)),
        fmt,
        target,
        Held(results.reshape(-1), "results"),
        projection=DEFAULT,
        **about,
    )
    return unknown.told(numbered(judge(question, **options), rows, size))
