"""Draw cells for `benchmarks.cliffs` from the whole product of what callers may combine.

A list of cells finds what it lists. A drawn cell is a case of the fuzzer (its verb, formats, projection,
types, values and layout), with as many elements as a benchmark needs.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

import lowprec as lp
from benchmarks.cells import Cell
from lowprec.spec.accumulation import Window
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format
from lowprec.spec.rounding import Rounding
from tests.fuzz import arithmetic, conversions, order
from tests.fuzz.drawing import ALIKE, Draw
from tests.fuzz.operands import any_dtype, values
from tests.fuzz.runner import LAYOUTS, Call, Way
from tests.fuzz.specifications import any_accumulation, any_block_format, any_format

__all__ = ["drawn"]

Array = npt.NDArray[Any]

SIZES = (1 << 14, 1 << 17, 1 << 20)
ROWS = (64, 128, 256)
#: Draws until one is a call that no verb refuses.
_TRIES = 200
#: Columns of matrices in blocks.
_COLUMNS = 256
_SHOWN = 200
_NAMES = {"np": np, "lp": lp}


def drawn(count: int, seed: int) -> Iterator[Cell]:
    """Yield cells: of elements, of blocks, and one in eight of dot products."""
    kinds = (_elements, _elements, _elements, _elements, _elements, _blocks, _blocks, _dots)
    for number in range(count):
        draw = Draw(seed, "cliffs", number * ALIKE)  # no two cells share choices
        kind = draw.choice(kinds)
        cell = next(filter(None, (_accepted(kind, draw) for _ in range(_TRIES))), None)
        if cell is None:
            raise RuntimeError(f"{_TRIES} draws of cell {number} of seed {seed} are refused")
        yield cell._replace(name=f"#{number} {cell.name}")


def _accepted(kind: Callable[[Draw], Cell | None], draw: Draw) -> Cell | None:
    """Return a cell whose call is carried out, or None."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            cell = kind(draw)
            if cell is not None:
                cell.call()
        except (ValueError, TypeError):  # a refusal: a NaN without a code, say
            return None
    return cell


def _resized(x: Any, size: int) -> Any:
    """Repeat the elements of an array; one element stays one."""
    return np.resize(x.reshape(-1), size) if isinstance(x, np.ndarray) and x.size > 1 else x


def _elements(draw: Draw) -> Cell | None:
    """Draw a conversion, an operation or a comparison."""
    topic = draw.choice((conversions, arithmetic, arithmetic, order))
    listed = [found for found in topic.cases(draw) if found[0].verb.startswith("lp.")]
    call, ways = draw.choice(listed)
    way, size = (
        draw.choice([way for way in ways if "tolist" not in way.layout] or [Way()]),
        draw.choice(SIZES),
    )
    operands = [_resized(_finite(draw, x), size) for x in call.operands]
    if not any(np.size(x) == size for x in operands):
        return None
    layout = eval(f"lambda x: {way.layout}", _NAMES)
    operands = [layout(x) if np.size(x) == size else x for x in operands]
    keywords = {key: _resized(value, size) for key, value in call.keywords.items()}
    if way.flags:
        keywords["flags"] = np.empty(size, np.uint8)
    given = partial(eval(call.verb, _NAMES), *operands, *call.given, **keywords)
    return Cell("elements", _named(call, way.layout, way.flags, size), size, given)


def _finite(draw: Draw, x: Array) -> Array:
    """Leave out NaNs and infinities in two thirds of the cases: formats without their codes refuse them."""
    if not isinstance(x, np.ndarray) or x.dtype.kind not in "fV" or draw.chance(0.33):
        return x
    kept = x[np.isfinite(x.astype(np.float64))]
    return kept if kept.size else x


def _named(call: Call, layout: str, flags: bool, size: int) -> str:
    """Describe a call: verb, types, specifications, keywords."""
    kinds = ", ".join(f"{np.asarray(x).dtype}" for x in call.operands)
    given = [_described(value) for value in call.given]
    keywords = [f"{key}={_described(value)}" for key, value in call.keywords.items()]
    text = f"{call.verb} of {size} {kinds}: {', '.join([*given, *keywords])}"
    more = [layout] * (layout != "x") + ["flags"] * flags
    return ", ".join([text[:_SHOWN], *more])


def _described(value: Any) -> str:
    """Describe an argument: of specifications their names, or the fields that are not the usual ones."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype}"
    if isinstance(value, Format | Rounding) and value.name not in ("drawn", "near"):
        return value.name
    if isinstance(value, Codebook):
        return f"{len(value.values)} values"
    if dataclasses.is_dataclass(value):
        fields = [(each, getattr(value, each.name)) for each in dataclasses.fields(value)]
        usual = [f"{each.name} {_described(it)}" for each, it in fields if it != each.default]
        return f"({', '.join(usual)})"
    if isinstance(value, tuple):
        return " and ".join(map(_described, value))
    return str(value)


def _matrix(draw: Draw, fmt: Format, shape: tuple[int, ...]) -> Array:
    """Draw values of any type, at ties of a format and elsewhere."""
    kind = any_dtype(draw)
    return np.resize(_finite(draw, values(draw, kind, [fmt], 300)), shape)


def _blocks(draw: Draw) -> Cell:
    """Draw the encoding, quantising or decoding of blocks."""
    fmt, size = any_block_format(draw), draw.choice(SIZES)
    x = _matrix(draw, fmt.element, (size // _COLUMNS, _COLUMNS))
    axis: Any = draw.choice((0, 1)) if len(fmt.sizes) == 1 else (0, 1)
    keywords: dict[str, Any] = {"axis": axis}
    if fmt.elements.rounding.bits or fmt.scales.rounding.bits:
        keywords["rng"] = 1
    verb = draw.choice(("encode", "encode", "quantize", "decode"))
    name = f"{verb} of {size} {x.dtype}, axis {axis}: {_described(fmt)[:_SHOWN]}"
    if verb == "decode":
        return Cell("elements", name, size, partial(lp.decode, lp.encode(x, fmt, **keywords)))
    layout = draw.choice([each for each in LAYOUTS if x.dtype.isbuiltin == 1 or "newbyteorder" not in each])
    x = eval(f"lambda x: {layout}", _NAMES)(x)
    return Cell("elements", f"{name}, {layout}", size, partial(getattr(lp, verb), x, fmt, **keywords))


def _dots(draw: Draw) -> Cell | None:
    """Draw a product of square matrices of values or of blocks."""
    how, rows = any_accumulation(draw), draw.choice(ROWS)
    if isinstance(how.accumulator, Window) and how.accumulator.step > rows:
        return None
    formats = how.operands or (any_format(draw, widest=16), any_format(draw, widest=16))
    sides: list[Any] = [
        lp.quantize(_matrix(draw, fmt, (rows, rows)), fmt, saturation="finite") for fmt in formats
    ]
    kind = "values"
    if how.scale is not None or draw.chance(0.3):
        scale, size = how.scale or ("e8m0fnu", 32)
        blocks = [
            lp.BlockFormat(name="drawn", element=fmt, scale=lp.format(scale), size=size) for fmt in formats
        ]
        sides = [
            lp.encode(x, fmt, axis=1 - place)
            for place, (x, fmt) in enumerate(zip(sides, blocks, strict=True))
        ]
        kind = "blocks"
    keywords = {"rng": 1} if how.rounds_randomly else {}
    name = f"matmul of {rows} x {rows} {kind} of {', '.join(map(_described, formats))}: {_described(how)}"
    return Cell("dots", name[:_SHOWN], rows**3, partial(lp.matmul, *sides, how, **keywords))
