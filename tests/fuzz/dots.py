"""dot and matmul: any accumulation, operands of any format, addends of every type, and operands in blocks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

import lowprec as lp
from lowprec.oracle.convert import cast, check, decode
from lowprec.oracle.dot import dot as oracle
from lowprec.oracle.exact import Exact
from lowprec.spec import catalog
from lowprec.spec.accumulation import Accumulation, Rounded, Window
from lowprec.spec.accumulations import accumulation
from lowprec.spec.block import BlockFormat
from lowprec.spec.format import Format
from lowprec.spec.projection import Projection
from tests.agreement.test_dots import pairs_of_rows
from tests.fuzz.arithmetic import result_type
from tests.fuzz.conversions import carried, unserved
from tests.fuzz.drawing import Draw
from tests.fuzz.operands import FLOATS, INTEGERS, SMALL, bits_of, codes, values
from tests.fuzz.runner import LAYOUTS, Answer, Call, Topic, Way
from tests.fuzz.specifications import any_accumulation, any_format

Array = npt.NDArray[Any]

# -- the oracle -------------------------------------------------------------------------------------


def _exact(x: Array) -> npt.NDArray[Any]:
    """What the elements of an array stand for."""
    known = catalog.carrier(x.dtype)
    assert known is not None
    return _decoded(bits_of(x), known)


def _decoded(patterns: Array, fmt: Format) -> npt.NDArray[Any]:
    made = {code: decode(code, fmt) for code in set(patterns.reshape(-1).tolist())}
    found = np.empty(patterns.shape, object)
    found.reshape(-1)[:] = [made[code] for code in patterns.reshape(-1).tolist()]
    return found


class _Side:
    """Operands, with K last: numbers, and of those in blocks the scales."""

    def __init__(self, given: Any, axis: int) -> None:
        self.scales, self.size, self.tensor = None, 0, Fraction(1)
        if isinstance(given, lp.BlockArray):
            fmt = given.format
            self.numbers, self.size = _decoded(given.codes, fmt.element), fmt.sizes[0]
            self.scales = np.moveaxis(_decoded(given.scales, fmt.scale), axis, -1)
            if given.tensor_scale is not None:
                self.tensor = Fraction(float(given.tensor_scale))
        else:
            self.numbers = _exact(given)
        self.numbers = np.moveaxis(self.numbers, axis, -1)

    def cut(self, size: int) -> None:
        """In blocks of this size; those of what is in none have scales of 1."""
        length = -(-self.numbers.shape[-1] // size)
        if self.scales is None:
            self.scales = np.full((*self.numbers.shape[:-1], length), Fraction(1), object)
        else:
            self.scales = np.repeat(self.scales, self.size // size, -1)[..., :length]


def _places(how: Accumulation) -> list[Rounded]:
    """Where an accumulation rounds."""
    sums = how.accumulator.result if isinstance(how.accumulator, Window) else how.accumulator
    return [place for place in (how.product, sums, how.total, how.output) if place is not None]


def _suited(how: Accumulation) -> bool:
    """Whether every projection fits its format."""
    try:
        for fmt, rule in _places(how):
            check(fmt, rule, 0 if rule.rounding.bits else None)
    except ValueError:
        return False
    return True


def _integers(how: Accumulation, count: int, row: int, rng: int) -> Callable[[int, int], int] | None:
    """The random integer of each step of one result."""
    if not how.rounds_randomly:
        return None
    return lambda step, bits: int(lp.random_bits(count, rng, bits, stream=2 + step)[row])


def products(call: Call) -> Answer:
    """Dot products of rows, or of rows and columns."""
    how = accumulation(call.given[0])
    paired = call.verb == "lp.dot"
    x, y = _Side(call.operands[0], -1), _Side(call.operands[1], -1 if paired else -2)
    if x.size or y.size:
        size = int(np.gcd(x.size, y.size))
        x.cut(size)
        y.cut(size)
    if not paired:  # each row with each column
        for side, axis in ((x, 1), (y, 0)):
            side.numbers = np.expand_dims(side.numbers, axis)
            side.scales = None if side.scales is None else np.expand_dims(side.scales, axis)
    shape = np.broadcast_shapes(x.numbers.shape[:-1], y.numbers.shape[:-1])
    count = int(np.prod(shape, dtype=np.int64))
    fmt = how.output[0]
    kind, carrier = result_type(call.keywords.get("dtype"), fmt)
    addend = call.keywords.get("addend")
    starts = None if addend is None else np.broadcast_to(_exact(np.asarray(addend)), shape)
    made = []
    tensor = x.tensor * y.tensor
    refused = (tensor != 1 and addend is not None) or not _suited(how)
    for row, place in enumerate(np.ndindex(shape)):
        sides = [_row(side.numbers, shape, place) for side in (x, y)]
        scales = None
        if x.scales is not None and y.scales is not None:
            scales = (*(_row(side.scales, shape, place) for side in (x, y)), size)
        start = None if starts is None else starts[place]
        random = _integers(how, count, row, call.keywords.get("rng", 0))
        try:
            made.append(oracle(*sides, how, start, scales=scales, tensor=tensor, random=random))
        except ValueError:
            refused = True
            break
    if refused:
        return Answer({"result": np.zeros(shape, f"u{kind.itemsize}")}, kind, True)
    if carrier is None:
        result = np.array(made, f"u{fmt.code_bits // 8}")
    else:
        keeps = Projection() if how.output[1].nan_code is None else Projection(nan_payload="first")
        result = carried(made, fmt, kind, carrier, keeps)
    tails = next((words for place in _places(how) if (words := unserved(*place))), None)
    grouped = isinstance(how.accumulator, Window) and how.accumulator.scales == "groups"
    return Answer({"result": result.reshape(shape)}, kind, may_refuse="sums of " if grouped else tails)


def _row(array: npt.NDArray[Any], shape: tuple[int, ...], place: tuple[int, ...]) -> list[Exact]:
    return list(np.broadcast_to(array, (*shape, array.shape[-1]))[place])


# -- cases ------------------------------------------------------------------------------------------


def _rows(draw: Draw, formats: Sequence[Format], count: int, length: int) -> list[Array]:
    """Codes of rows: sums that cancel and few specials, or any."""
    if all(fmt.exponent_bits and fmt.max_magnitude >= 8 and fmt.subnormals for fmt in formats):
        if draw.chance(0.6):
            rng = np.random.default_rng(draw.getrandbits(32))
            made = pairs_of_rows(formats, count, length, rng)
            return [side & ((1 << fmt.width) - 1) for side, fmt in zip(made, formats, strict=True)]
    made = []
    for fmt in formats:
        some = codes(draw, fmt, max(8, count * length)).astype(np.int64)
        magnitudes = some & ~fmt.sign_code
        special = (magnitudes > fmt.max_magnitude) & (np.arange(some.size) % draw.choice((1, 3, 17)) > 0)
        near = (1 << fmt.trailing_bits) * min(max(fmt.bias, 0), 3) if draw.chance(0.5) else 0
        tame = some % (max(fmt.max_magnitude, 1)) & ~fmt.sign_code
        tame = (tame % (near or fmt.max_magnitude + 1)) | (some & fmt.sign_code)
        made.append(np.resize(np.where(special, tame, some), (count, length)))
    return made


def _numbers(patterns: Array, fmt: Format) -> Array:
    """Values of codes, in the type that has them."""
    words = patterns.astype(f"u{fmt.code_bits // 8}")
    try:
        return words.view(lp.dtype(fmt))
    except ValueError:
        known = {code: cast(code, fmt, catalog.BINARY64) for code in set(words.reshape(-1).tolist())}
        wide = np.array([known[code] for code in words.reshape(-1).tolist()], np.uint64).view(np.float64)
        return wide.reshape(words.shape)


#: Of blocks: powers of two, without sign, with a sign, and with infinities too.
_SCALES = (catalog.E8M0FNU, catalog.E8M0FNU, catalog.UE4M3, catalog.E4M3FN, catalog.E5M2, catalog.BFLOAT16)

#: Accumulations that kernels of their own make of blocks.
_OF_BLOCKS = ("fp32_sequential", "fp32_fma", "fp32_pairwise", "fp64_sequential", "bf16_sequential", "exact")


def _addend(draw: Draw, fmt: Format, shape: tuple[int, ...]) -> Any:
    kind = draw.choice((*FLOATS, *FLOATS, *INTEGERS, *SMALL))
    found = np.resize(values(draw, kind, [fmt], 20), draw.choice((shape, shape, (), shape[-1:])))
    if kind == fmt and draw.chance(0.2):
        return found.tolist()
    return found


def _begin(how: Accumulation) -> Format:
    """The format that the addend is projected into."""
    if how.total is not None:
        return how.total[0]
    return how.accumulator[0] if isinstance(how.accumulator, tuple) else how.output[0]


def cases(draw: Draw) -> Iterator[tuple[Call, Sequence[Way]]]:
    """Products by one accumulation: rows with rows, and of matrices."""
    usual = draw.chance(0.15)  # of blocks, by kernels of their own
    how = accumulation(draw.choice(_OF_BLOCKS)) if usual else any_accumulation(draw)
    lengths = [0, 1, 2, 3, 7, 16, 33]
    if isinstance(how.accumulator, Window):
        lengths += [how.accumulator.step, how.accumulator.step + 1, 2 * how.accumulator.step]
    length = draw.choice([each for each in lengths if each <= 70])
    verb = draw.choice(("dot", "dot", "matmul"))
    formats = how.operands or (any_format(draw, widest=16), any_format(draw, widest=16))
    shapes = ((4, length), (4, length)) if verb == "dot" else ((3, length), (4, length))
    x, y = _rows(draw, formats, max(shapes[0][0], shapes[1][0]), length)
    x, y = x[: shapes[0][0]], y[: shapes[1][0]]
    in_blocks = (
        usual
        or how.scale is not None
        or (not how.machine and not isinstance(how.accumulator, Window) and draw.chance(0.3))
    )
    keywords: dict[str, Any] = {}
    shape = (4,) if verb == "dot" else (3, 4)
    if draw.chance(0.6):
        keywords["addend"] = _addend(draw, _begin(how), shape)
    if in_blocks:
        scale, size = how.scale or (draw.choice(_SCALES), draw.choice((1, 2, 4)))
        tensors = draw.chance(0.2) and "addend" not in keywords
        operands: list[Any] = []
        for patterns, fmt, axis in ((x, formats[0], 1), (y, formats[1], 1 if verb == "dot" else 0)):
            known = BlockFormat(
                name="drawn",
                element=fmt,
                scale=scale,
                size=size,
                tensor_scale="divide" if tensors else "none",
            )
            tensor = np.float32(draw.choice((1.0, 0.3, 2.0**-40))) if tensors else None
            grid = np.resize(codes(draw, scale, 16), (len(patterns), -(-length // size)))
            special = (grid & ~grid.dtype.type(scale.sign_code)) > scale.max_magnitude
            calm = np.where(special, scale.bias << scale.trailing_bits, grid).astype(grid.dtype)
            grid = grid if draw.chance(0.3) else calm
            if draw.chance(0.3):  # zeros in blocks, whatever their scales are
                empty = np.array([draw.chance(0.4) for _ in range(grid.size)]).reshape(grid.shape)
                patterns = np.where(np.repeat(empty, size, 1)[:, :length], 0, patterns)
            if axis == 0:
                patterns, grid = patterns.T, grid.T
            operands.append(
                lp.BlockArray(patterns.astype(f"u{fmt.code_bits // 8}"), grid, known, (axis,), tensor)
            )
    else:
        operands = [_numbers(x, formats[0]), _numbers(y, formats[1])]
        if verb == "matmul":
            operands[1] = operands[1].T
    if how.rounds_randomly:
        keywords["rng"] = draw.getrandbits(64)
    if draw.chance(0.7):
        keywords["dtype"] = np.dtype(f"u{how.output[0].code_bits // 8}")
    call = Call(
        f"lp.{verb}", tuple(operands), (how,), keywords, counted="rng" in keywords or verb == "matmul"
    )
    found = [Way(), Way(out="new")]
    if not in_blocks:
        swappable = all(x.dtype.isbuiltin == 1 for x in operands)
        found.append(
            Way(layout=draw.choice([each for each in LAYOUTS if swappable or "newbyteorder" not in each]))
        )
    yield call, found


# -- shrinking --------------------------------------------------------------------------------------


def _part(given: Any, axis: int, places: slice) -> Any:
    """Some places of an axis; of blocks they begin where a block does."""
    if not isinstance(given, lp.BlockArray):
        return np.ascontiguousarray(given[(slice(None),) * (axis % given.ndim) + (places,)])
    axis %= given.codes.ndim
    size = given.format.sizes[0] if axis in given.axes else 1
    start, stop, _ = places.indices(given.codes.shape[axis])
    before = (slice(None),) * axis
    scales = given.scales[(*before, slice(start // size, -(-stop // size) if start < stop else 0))]
    parts = (given.codes[(*before, places)], scales, given.format, given.axes, given.tensor_scale)
    return lp.BlockArray(
        *(np.ascontiguousarray(part) if isinstance(part, np.ndarray) else part for part in parts)
    )


def smaller(call: Call) -> Iterator[Call]:
    """One row, one column, and shorter sums."""
    x, y = call.operands
    paired, along = call.verb == "lp.dot", -1 if call.verb == "lp.dot" else -2
    rows, columns, length = x.shape[0], y.shape[0 if paired else 1], x.shape[-1]
    addend = call.keywords.get("addend")

    def with_addend(axis: int, place: int, count: int) -> dict[str, Any]:
        whole = isinstance(addend, np.ndarray) and addend.ndim > max(axis, 0) and addend.shape[axis] == count
        return {**call.keywords, "addend": np.take(addend, [place], axis)} if whole else dict(call.keywords)

    for place in range(rows if rows > 1 and not ("rng" in call.keywords and rows == 1) else 0):
        one = slice(place, place + 1)
        operands = (_part(x, 0, one), _part(y, 0, one) if paired else y)
        yield dataclasses.replace(call, operands=operands, keywords=with_addend(0, place, rows))
    for place in range(columns if columns > 1 and not paired else 0):
        operands = (x, _part(y, 1, slice(place, place + 1)))
        yield dataclasses.replace(call, operands=operands, keywords=with_addend(-1, place, columns))
    blocks = [side.format.sizes[0] for side in (x, y) if isinstance(side, lp.BlockArray)]
    step = int(np.lcm.reduce(blocks)) if blocks else 1
    for start in range(0, length, step):
        for part in (slice(start, start + step), slice(start + step, None), slice(None, start)):
            if len(range(length)[part]) < length:
                yield dataclasses.replace(call, operands=(_part(x, -1, part), _part(y, along, part)))
    for part in (slice(None, length - 1),) if length > 1 else ():
        yield dataclasses.replace(call, operands=(_part(x, -1, part), _part(y, along, part)))


TOPIC = Topic(cases, {"lp.dot": products, "lp.matmul": products}, smaller=smaller)
