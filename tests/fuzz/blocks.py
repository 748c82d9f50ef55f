"""Block formats: any element, scale, rule and policies; values of any type along any axes; and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

import lowprec as lp
from lowprec.oracle import block as oracle
from lowprec.oracle.convert import check, decode as oracle_decode, is_subnormal, project
from lowprec.oracle.exact import to_float
from lowprec.spec import catalog
from lowprec.spec.block import RULES, BlockFormat, ScaleRule
from lowprec.spec.format import Format
from tests.fuzz.conversions import FLOATS, integers_of, unserved, words_for
from tests.fuzz.drawing import Draw
from tests.fuzz.operands import any_dtype, bits_of, codes, values
from tests.fuzz.runner import LAYOUTS, OUTPUTS, Answer, Call, Topic, Way
from tests.fuzz.specifications import any_block_format

Array = npt.NDArray[Any]

# -- the oracle -------------------------------------------------------------------------------------


def _source(x: Array) -> Format:
    known = catalog.carrier(x.dtype)
    assert known is not None
    return known


def _format(call: Call) -> BlockFormat:
    """The block format that a call asks for."""
    fmt: BlockFormat = catalog.block_format(call.given[0])
    if "rule" in call.keywords:
        fmt = dataclasses.replace(fmt, rule=call.keywords["rule"])
    return fmt


def _boxes(
    shape: tuple[int, ...], axes: tuple[int, ...], sizes: tuple[int, ...]
) -> tuple[tuple[int, ...], list[int]]:
    """How many blocks there are along each axis, and how long they are."""
    along = dict(zip((axis % len(shape) for axis in axes), sizes, strict=True))
    lengths = [along.get(axis, 1) for axis in range(len(shape))]
    return tuple(-(-length // size) for length, size in zip(shape, lengths, strict=True)), lengths


def _axes(call: Call, fmt: BlockFormat) -> tuple[int, ...]:
    axis = call.keywords.get("axis")
    if axis is None:
        return tuple(range(-len(fmt.sizes), 0))
    return axis if isinstance(axis, tuple) else (axis,)


def encode(call: Call) -> Answer:
    """Codes of elements and of scales, and the scale of the tensor."""
    x, fmt, keywords = call.operands[0], _format(call), dict(call.keywords)
    axes, known = _axes(call, fmt), _source(x)
    patterns = bits_of(x)
    exact = {code: oracle_decode(code, known) for code in set(patterns.reshape(-1).tolist())}
    given = keywords.get("tensor_scale")
    if given is not None:
        tensor = oracle.TensorScale.given(Fraction(float(given)))
    else:
        tensor = oracle.tensor_scale(list(exact.values()), fmt)
    grid, lengths = _boxes(x.shape, axes, fmt.sizes)
    made, scales = (
        np.zeros(x.shape, f"u{fmt.element.code_bits // 8}"),
        np.zeros(grid, f"u{fmt.scale.code_bits // 8}"),
    )
    parts = {"codes": made, "scales": scales}
    if fmt.tensor_scale != "none":
        parts["tensor scale"] = np.float32(to_float(tensor.value)).view(np.uint32).reshape(())
    elements = np.array(integers_of(keywords, fmt.elements.rounding, fmt.element, x.shape), object).reshape(
        x.shape
    )
    of_scales = [None] * int(np.prod(grid))
    if fmt.scales.rounding.bits:
        of_scales = (
            lp.random_bits(grid, keywords["rng"], fmt.scales.rounding.bits, stream=1).reshape(-1).tolist()
        )
    try:
        check(fmt.element, fmt.elements, 0 if fmt.elements.rounding.bits else None)
        check(fmt.scale, fmt.scales, 0 if fmt.scales.rounding.bits else None)
        for number, place in enumerate(np.ndindex(grid)):
            box = tuple(slice(i * size, (i + 1) * size) for i, size in zip(place, lengths, strict=True))
            block = patterns[box].reshape(-1).tolist()
            words = elements[box].reshape(-1).tolist() if fmt.elements.rounding.bits else None
            scales[place], found = oracle.encode(
                [exact[code] for code in block], fmt, tensor, random=words, scale_random=of_scales[number],
                subnormal_operands=[is_subnormal(code, known) for code in block],
            )  # fmt: skip
            made[box] = np.array(found, np.uint64).reshape(patterns[box].shape)
    except ValueError:
        return Answer(parts, None, True)
    return Answer(parts, may_refuse=unserved(fmt.element, fmt.elements) or unserved(fmt.scale, fmt.scales))


def decode(call: Call) -> Answer:
    """Values of blocks: products that are rounded once, to nearest even."""
    array = call.operands[0]
    kind = np.dtype(call.keywords.get("dtype", np.float32))
    carrier = next(known for name, known in FLOATS if name == kind)
    fmt = array.format
    tensor = Fraction(1) if array.tensor_scale is None else Fraction(float(array.tensor_scale))
    grid, lengths = _boxes(array.shape, array.axes, fmt.sizes)
    result = np.zeros(array.shape, f"u{kind.itemsize}")
    assert grid == array.scales.shape
    for place in np.ndindex(grid):
        box = tuple(slice(i * size, (i + 1) * size) for i, size in zip(place, lengths, strict=True))
        block = array.codes[box].reshape(-1).tolist()
        found = oracle.decode(int(array.scales[place]), block, fmt, tensor)
        rounded = [project(value, carrier) for value in found]
        result[box] = np.array(rounded, np.uint64).reshape(result[box].shape)
    return Answer({"result": result}, kind)


def quantize(call: Call) -> Answer:
    """Values of the blocks of values: float64 for float64, float32 for all others."""
    made, x = encode(call), call.operands[0]
    kind = np.dtype(np.float64 if x.dtype == np.float64 else np.float32)
    if made.refused is True:
        return Answer({"result": np.zeros(x.shape, f"u{kind.itemsize}")}, kind, True)
    fmt, tensor = _format(call), made.parts.get("tensor scale")
    axes = tuple(axis % x.ndim for axis in _axes(call, fmt))
    scale = None if tensor is None else tensor.view(np.float32)[()]
    array = lp.BlockArray(made.parts["codes"], made.parts["scales"], fmt, axes, scale)
    answer = decode(Call("lp.decode", (array,), (), {"dtype": kind}))
    return answer._replace(may_refuse=made.may_refuse)


# -- cases ------------------------------------------------------------------------------------------


def _takes(fmt: BlockFormat, rule: ScaleRule) -> bool:
    """Whether a rule means something for the formats of elements and scales."""
    try:
        dataclasses.replace(fmt, rule=rule)
    except ValueError:
        return False
    return True


def _values(draw: Draw, fmt: BlockFormat, kind: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    """Values about a power of two for each row: at ties of elements, and of any size."""
    count = int(np.prod(shape))
    x = values(draw, kind, [fmt.element], max(count, 8))
    x = np.resize(x, shape)
    if kind.kind != "f":
        return x
    known = _source(x)
    words = bits_of(x).reshape(-1, shape[-1] if shape and shape[-1] else 1).copy()
    low = -min(known.bias, 120)
    shift = np.array([draw.choice((0, 0, draw.randint(low, -low))) for _ in range(len(words))], np.int64)[
        :, None
    ]
    calm = (words & words.dtype.type((1 << known.width) - 1 ^ known.sign_code)) <= known.max_magnitude
    share = draw.choice((0.0, 0.0, 0.02, 0.3))
    rough = np.array([draw.chance(share) for _ in range(words.size)], bool).reshape(words.shape)
    with np.errstate(all="ignore"):
        scaled = np.ldexp(words.view(kind).astype(np.float64), shift).astype(kind)
        kept = np.where(calm | rough, scaled, kind.type(draw.choice((0.0, -0.0, 1.0))))
    finite = np.where(np.isfinite(kept) | rough, kept, kind.type(1.5))
    return finite.reshape(shape)


def _encoding(draw: Draw, fmt: BlockFormat) -> tuple[Call, list[Way]]:
    kind = any_dtype(draw)
    length = draw.choice((1, 5, fmt.sizes[-1], fmt.sizes[-1] + 1, 3 * fmt.sizes[-1] - 1, 33))
    shape: tuple[int, ...] = draw.choice(
        [(4, length), (length, 5), (2, 3, length), (1, length), (3, length, 2)]
    )
    if len(fmt.sizes) == 1 and draw.chance(0.2):
        shape = (length,)
    if draw.chance(0.03):
        shape = (*shape[:-1], 0)
    x = _values(draw, fmt, kind, shape)
    keywords: dict[str, Any] = {}
    if draw.chance(0.6):
        axes = draw.sample(range(x.ndim), len(fmt.sizes))
        axes = [axis - draw.choice((0, x.ndim)) for axis in axes]
        keywords["axis"] = tuple(axes) if len(axes) > 1 else draw.choice((axes[0], tuple(axes)))
    if draw.chance(0.2):
        rules = [each for each in RULES if _takes(fmt, each)]
        keywords["rule"] = draw.choice(rules)
    if fmt.tensor_scale != "none" and draw.chance(0.4):
        keywords["tensor_scale"] = float(
            np.float32(draw.choice((1.0, 0.3, 2.0**-126, 1e30, draw.random() + 1e-9)))
        )
    if fmt.scales.rounding.bits or (fmt.elements.rounding.bits and draw.chance(0.5)):
        keywords["rng"] = draw.getrandbits(64)
    elif fmt.elements.rounding.bits:
        keywords["random"] = words_for(draw, fmt.elements.rounding, fmt.element, x.shape)
    layouts = [each for each in LAYOUTS if x.dtype.isbuiltin == 1 or "newbyteorder" not in each]
    named = fmt.name if catalog.BLOCK_FORMATS.get(fmt.name) == fmt else fmt
    verb = draw.alike.choice(("lp.encode", "lp.encode", "lp.quantize"))
    call = Call(verb, (x,), (named,), keywords, counted="rng" in keywords)
    found = [Way(), Way(), Way(layout=draw.choice(layouts)), *[Way(strict=True)] * draw.chance(0.2)]
    return call, [*found, *[Way(out=draw.choice(tuple(OUTPUTS)))] * (verb == "lp.quantize")]


def _decoding(draw: Draw, fmt: BlockFormat) -> tuple[Call, list[Way]]:
    length = draw.choice((1, 5, fmt.sizes[-1] + 1, 33))
    shape = (draw.choice((1, 3)), length) if len(fmt.sizes) > 1 or draw.chance(0.5) else (length,)
    axes = tuple(draw.sample(range(len(shape)), len(fmt.sizes)))
    grid, _ = _boxes(shape, axes, fmt.sizes)

    def some(known: Format, wanted: tuple[int, ...]) -> Array:
        return np.resize(codes(draw, known, max(8, min(60, int(np.prod(wanted))))), wanted)

    tensor = None
    if fmt.tensor_scale != "none":
        tensor = np.float32(draw.choice((1.0, 0.3, 2.0**-149, 2.0**-126, 3e38, draw.random() + 1e-9)))
    array = lp.BlockArray(some(fmt.element, shape), some(fmt.scale, grid), fmt, axes, tensor)
    kind = draw.alike.choice(FLOATS)[0]
    call = Call("lp.decode", (array,), (), {"dtype": kind})  # type: ignore[arg-type]
    return call, [Way(), Way(), Way(out="new")]


def cases(draw: Draw) -> Iterator[tuple[Call, Sequence[Way]]]:
    """Blocks to encode, and blocks of any codes to decode."""
    fmt = any_block_format(draw)
    if max(fmt.sizes) > 64:
        fmt = dataclasses.replace(fmt, size=(8, 16) if len(fmt.sizes) > 1 else 32, name="smaller")
    yield _encoding(draw, fmt)
    yield _decoding(draw, fmt)


TOPIC = Topic(cases, {"lp.encode": encode, "lp.decode": decode, "lp.quantize": quantize}, alike=48)
