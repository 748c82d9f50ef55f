"""`compare` of results with drawn faults: it counts what differs, and no hypothesis fails."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import lowprec as lp
from lowprec.spec import catalog
from lowprec.spec.accumulations import ACCUMULATIONS, accumulation
from lowprec.spec.arith import OPERANDS
from lowprec.spec.block import BlockFormat
from lowprec.spec.projection import Projection
from tests.fuzz.drawing import Draw, accepted
from tests.fuzz.operands import bits_of, codes, values
from tests.fuzz.runner import Answer, Call, Topic, Way
from tests.fuzz.specifications import any_block_format, any_format, any_projection
from tests.planted_bugs import BLOCK_BUGS, block
from tests.planted_dot import DOT_BUGS, UNIT, dot

Array = npt.NDArray[Any]

CAPTURE = Path(__file__).parents[2] / "docs" / "examples" / "capture.npz"

# -- how many results differ ------------------------------------------------------------------------


def mismatches(call: Call) -> Answer:
    """How many results are not those of the verb."""
    *operands, got = call.operands
    keywords = dict(call.keywords)
    name, to = keywords.pop("operation", "convert"), keywords.pop("to", None)
    if name == "dot":
        how = keywords.pop("accumulation")
        right = lp.dot(*operands, how, **keywords)
        wrong = bits_of(got) != bits_of(right)
        codes = got.dtype.kind == "u" or catalog.carrier(got.dtype) == accumulation(how).output[0]
        return _count(wrong if codes else wrong & ~(np.isnan(got) & np.isnan(right)))
    if catalog.is_block(to):
        return _count(_blocks_differ(operands[0], got, catalog.block_format(to), keywords))
    verb = lp.encode if name == "convert" else functools.partial(getattr(lp, name), dtype=got.dtype)
    return _count(verb(*operands, to, **keywords) != got)


def _blocks_differ(x: Array, got: Array, fmt: BlockFormat, keywords: dict[str, Any]) -> Array:
    scales = keywords.pop("scales", None)
    right = lp.encode(x, fmt, **keywords)
    wrong = right.codes != got
    if scales is None:
        return wrong
    other = scales != right.scales
    for axis, size in zip(right.axes, fmt.sizes, strict=True):
        other = np.take(np.repeat(other, size, axis), np.arange(x.shape[axis]), axis)
    return wrong | other


def _count(wrong: Array) -> Answer:
    return Answer({"result": np.array([np.count_nonzero(wrong)], np.uint64)})


def ends(call: Call) -> Answer:
    """A zero whatever differs, or a refusal."""
    return Answer({"result": np.zeros(1, np.uint64)}, may_refuse="")


# -- faults -----------------------------------------------------------------------------------------


def _faulty(draw: Draw, right: Array, width: int) -> Array:
    """Codes with a fault: other lanes, other bits, one code for all, or none."""
    words = right.copy()
    if not words.size:
        return words
    how = draw.choice(("roll", "roll", "reverse", "flip", "flip", "high bit", "all", "step", "some", "none"))
    top = np.iinfo(words.dtype).max
    if how == "roll":
        return np.roll(words, draw.choice((-1, 1, 2)), draw.randrange(max(words.ndim, 1)))
    if how == "reverse":
        return words[..., ::-1].copy()
    if how == "all":
        return np.full_like(words, draw.choice((0, top, 1 << width - 1, (1 << width) - 1)))
    if how == "step":
        return (words.astype(np.int64) + draw.choice((-1, 1)) & (1 << width) - 1).astype(words.dtype)
    bit = draw.randrange(8 * words.itemsize) if how == "high bit" else draw.randrange(width)
    flat = words.reshape(-1)
    share = 1.0 if draw.chance(0.3) else 0.1
    hit = [draw.chance(share) for _ in range(flat.size)] if how in ("flip", "high bit") else []
    flat[np.flatnonzero(hit)] ^= words.dtype.type(1 << bit)
    if how == "some":
        flat[: draw.randrange(1, flat.size + 1)] = draw.randrange(1 << width)
    return words


def _values(draw: Draw, fmt: Any, shape: tuple[int, ...]) -> Array:
    """Values in rows of one size each, of one sign, zeros, or with specials."""
    kind = np.dtype(draw.alike.choice((np.float32, np.float32, np.float64, np.float16)))
    count = int(np.prod(shape))
    x = np.array([draw.gauss(0, 1) for _ in range(count)]).reshape(shape)
    x = np.ldexp(x, draw.choice((0, 0, 3, -14, draw.randint(-140, 120))))
    how = draw.choice(("any", "any", "any", "negative", "zero", "near", "special"))
    with np.errstate(all="ignore"):
        x = x.astype(kind)
    if how == "near" and count:
        x = np.resize(values(draw, kind, [fmt], max(count, 8)), shape)
    if how == "negative":
        x = -np.abs(x)
    if how == "zero":
        x = np.copysign(kind.type(0), x)
    if how == "special":
        for value in (np.nan, np.inf, -np.inf, -0.0)[: draw.randint(1, 4)]:
            x.reshape(-1)[: draw.randint(0, count)][-1:] = value
    return x


# -- cases ------------------------------------------------------------------------------------------


def _of_blocks(draw: Draw) -> Call:
    fmt = any_block_format(draw)
    if max(fmt.sizes) > 64:
        fmt = dataclasses.replace(fmt, size=(8, 16) if len(fmt.sizes) > 1 else 32, name="smaller")
    if fmt.elements.rounding.bits or fmt.scales.rounding.bits:
        rules = (dataclasses.replace(rule, rounding="nearest_even") for rule in (fmt.elements, fmt.scales))
        fmt = dataclasses.replace(fmt, **dict(zip(("elements", "scales"), rules, strict=True)))
    rows = draw.choice((2, 2, 4, 1, 0))
    shape = rows, draw.choice((fmt.sizes[-1], 2 * fmt.sizes[-1], fmt.sizes[-1] + 1, 33, 1))
    axes = tuple(draw.sample(range(2), len(fmt.sizes))) if draw.chance(0.3) else None
    keywords = {} if axes is None else {"axis": axes}
    if fmt.tensor_scale != "none" and draw.chance(0.5):
        keywords["tensor_scale"] = draw.choice((1.0, 0.5))
    x = _values(draw, fmt.element, shape)
    right = lp.encode(x, fmt, **keywords)
    both, scales = draw.chance(0.3), right.scales
    got = _faulty(draw, right.codes, fmt.element.width) if both or draw.chance(0.7) else right.codes
    if both or draw.chance(0.5):
        scales = _faulty(draw, right.scales, fmt.scale.width)
    if draw.chance(0.8):
        keywords["scales"] = scales
    named = fmt.name if catalog.BLOCK_FORMATS.get(fmt.name) == fmt else fmt
    return Call("subjects.compared", (x, got), (), {"to": named, **keywords})


def _planted_block(draw: Draw) -> Call:
    patterns = codes(draw, catalog.BFLOAT16, 64)[:64].reshape(2, 32)
    bug = draw.choice(BLOCK_BUGS)
    made = [block(row, bug) for row in patterns.tolist()]
    scales, got = np.uint8([[scale] for scale, _ in made]), np.uint8([row for _, row in made])
    x = lp.decode(patterns, "bfloat16")
    return Call("subjects.compared", (x, got), (), {"to": "mxfp4", "scales": scales})


def _of_values(draw: Draw) -> Call:
    name = draw.alike.choice(("convert", "convert", "convert", *OPERANDS))
    fmt = any_format(draw, books=0.15)
    count = draw.choice((60, 60, 1, 0))
    kind = np.dtype(draw.alike.choice((np.float32, np.float64)))
    operands = [values(draw, kind, [fmt], max(count, 8))[:count] for _ in range(OPERANDS.get(name, 1))]
    if name == "scaleb":
        operands[1] = np.arange(-3, operands[0].size - 3, dtype=np.int32)
    mode = draw.choice(("nearest_even", "toward_zero", "nearest_away"))
    rule = any_projection(draw, fmt, rounding=Projection(rounding=mode).rounding)
    code_type = np.dtype(f"u{fmt.code_bits // 8}")
    verb = lp.encode if name == "convert" else functools.partial(getattr(lp, name), dtype=code_type)
    got = _faulty(draw, verb(*operands, fmt, projection=rule), fmt.width)
    keywords = {"to": fmt, "operation": name, "projection": rule}
    return Call("subjects.compared", (*operands, got), (), keywords)


def _of_dots(draw: Draw) -> Call:
    named = sorted(name for name, how in ACCUMULATIONS.items() if how.scale is None and how.operands)
    how = ACCUMULATIONS[draw.alike.choice(named)]
    length, count = draw.choice((1, 4, 16, 16, 0)), draw.choice((4, 16, 0))
    x, y = (lp.decode(np.resize(codes(draw, fmt, 64), (count, length)), fmt) for fmt in how.operands or ())
    right = lp.dot(x, y, how)
    got = _faulty(draw, bits_of(right), 8 * right.itemsize).view(right.dtype)
    return Call("subjects.compared", (x, y, got), (), {"operation": "dot", "accumulation": how.name})


def _planted_dot(draw: Draw) -> Call:
    bug = draw.choice(DOT_BUGS)
    sides = [np.resize(codes(draw, catalog.E5M2, 64), (8, 16)) for _ in range(2)]
    addend = np.resize(codes(draw, catalog.BINARY32, 30), 8)
    rows = zip(*(side.tolist() for side in (*sides, addend)), strict=True)
    got = np.array([dot(*row, bug) for row in rows], np.uint32)
    x, y = (lp.decode(side, "e5m2") for side in sides)
    keywords = {"operation": "dot", "accumulation": UNIT, "addend": addend.view(np.float32)}
    return Call("subjects.compared", (x, y, got), (), keywords)


def _of_lines(draw: Draw) -> Call:
    fmt = any_format(draw)
    source = draw.choice((catalog.BINARY32, catalog.E4M3FN))
    x = codes(draw, source, 20)
    words = _faulty(draw, codes(draw, fmt, x.size), fmt.width)
    lines = [f"{a:x} {b:x}" for a, b in zip(x.tolist(), words.tolist(), strict=False)]
    for _ in range(draw.choice((0, 0, 1, 3))):
        place = draw.randrange(len(lines))
        word = draw.choice(("", "x", "0", "ffffffffff", "-1", "# 3 cases: x", "\x00", "0 0 0"))
        lines[place] = draw.choice((lines[place][: draw.randrange(4)], word, f"{lines[place]} {word}"))
    return Call("subjects.compared_lines", ("\n".join(lines),), ("convert", (source, fmt)))


def _of_captures(draw: Draw) -> Call:
    content = np.frombuffer(CAPTURE.read_bytes(), np.uint8).copy()
    for _ in range(draw.choice((1, 1, 4))):
        content[draw.randrange(content.size)] ^= 1 << draw.randrange(8)
    content = content[: draw.choice((content.size, content.size, draw.randrange(content.size)))]
    names = draw.sample(sorted(lp.read_capture(CAPTURE).questions), 2)
    return Call("subjects.compared_captures", (content,), (tuple(names),))


def cases(draw: Draw) -> Iterator[tuple[Call, Sequence[Way]]]:
    """One comparison; mostly of blocks, whose hypotheses are the most."""
    kinds = (_of_blocks,) * 5 + (_of_values,) * 2 + (_of_dots, _of_lines, _of_captures)
    make = draw.alike.choice(kinds)
    make = {_of_blocks: _planted_block, _of_dots: _planted_dot}.get(make, make) if draw.chance(0.1) else make
    yield accepted(lambda: make(draw)), [Way()]  # a format may not have what is drawn


SUBJECTS = ("subjects.compared_lines", "subjects.compared_captures")
TOPIC = Topic(cases, {"subjects.compared": mismatches} | dict.fromkeys(SUBJECTS, ends), alike=24)
