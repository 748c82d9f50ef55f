"""Comparisons, the order of all codes, classes and neighbours, of any format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import lowprec as lp
from lowprec.oracle import order as oracle
from lowprec.oracle.convert import decode
from lowprec.oracle.exact import Exact, to_float
from lowprec.oracle.flags import is_signaling
from lowprec.spec import catalog
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format
from lowprec.spec.projection import Flag
from tests.fuzz.conversions import FLOATS, asked_for, carried, laid
from tests.fuzz.drawing import Draw
from tests.fuzz.operands import FLOATS as KINDS, NUMBERS, bits_of, codes, codes_in, typed, values
from tests.fuzz.runner import LAYOUTS, Answer, Call, Topic, Way
from tests.fuzz.specifications import any_format

Array = npt.NDArray[Any]

RELATIONS = {
    "equal": (False, True, False, False),  # less, equal, greater, unordered
    "not_equal": (True, False, True, True),
    "less": (True, False, False, False),
    "less_equal": (True, True, False, False),
    "greater": (False, False, True, False),
    "greater_equal": (False, True, True, False),
    "unordered": (False, False, False, True),
}

#: Whether of two codes exactly one is before the other, or both are the same code.
ORDERED = "(lambda x, y, fmt: lp.total_order(x, y, fmt) != (lp.total_order(y, x, fmt) & (x != y)))"

# -- the oracle -------------------------------------------------------------------------------------


def _pairs(call: Call) -> tuple[list[tuple[int, int]], tuple[int, ...], Format]:
    fmt = lp.format(call.given[0])
    x, y = (codes_in(each, fmt) for each in call.operands)
    return list(zip(x.reshape(-1).tolist(), y.reshape(-1).tolist(), strict=True)), x.shape, fmt


def relation(call: Call) -> Answer:
    """A comparison, and what it signals."""
    name = call.verb.removeprefix("lp.")
    pairs, shape, fmt = _pairs(call)
    held, signals = [], []
    for x, y in pairs:
        found = oracle.compare(decode(x, fmt), decode(y, fmt))
        held.append(RELATIONS[name][3 if found is None else found + 1])
        quiet = name in ("equal", "not_equal", "unordered")
        invalid = is_signaling(x, fmt) or is_signaling(y, fmt) if quiet else found is None
        signals.append(int(Flag.INVALID) if invalid else 0)
    parts = {
        "result": np.array(held, np.uint8).reshape(shape),
        "flags": np.array(signals, np.uint8).reshape(shape),
    }
    return Answer(parts)


def total_order(call: Call) -> Answer:
    """Whether a code is another, or before it."""
    pairs, shape, fmt = _pairs(call)
    return Answer(
        {"result": np.array([oracle.total_order(x, y, fmt) for x, y in pairs], np.uint8).reshape(shape)}
    )


def ordered(call: Call) -> Answer:
    """Always true: codes that are not the same are one before the other."""
    return Answer({"result": np.ones(call.operands[0].shape, np.uint8)})


def classify(call: Call) -> Answer:
    """Kinds of numbers."""
    fmt = lp.format(call.given[0])
    x = codes_in(call.operands[0], fmt)
    found = [oracle.classify(code, fmt) for code in x.reshape(-1).tolist()]
    return Answer({"result": np.array(found, np.uint8).reshape(x.shape)})


def _exact(x: Array) -> list[Exact]:
    known = catalog.carrier(x.dtype)
    assert known is not None
    return [decode(code, known) for code in bits_of(x).reshape(-1).tolist()]


def nextafter(call: Call) -> Answer:
    """Neighbours, as bit patterns of the type that `decode` gives; NaN where there is none."""
    (x, y), fmt = call.operands, lp.format(call.given[0])
    kind, carrier = FLOATS[2] if catalog.BINARY32.contains(fmt) else FLOATS[3]
    nan = carrier.nan_code
    found = [oracle.nextafter(*pair, fmt) for pair in zip(_exact(x), _exact(y), strict=True)]
    known = carried([code for code in found if code is not None], fmt, kind, carrier).tolist()
    result = [nan if code is None else known.pop(0) for code in found]
    return Answer({"result": np.array(result, f"u{kind.itemsize}").reshape(x.shape)}, kind)


def ulp(call: Call) -> Answer:
    """Gaps."""
    x, fmt = call.operands[0], lp.format(call.given[0])
    kind = FLOATS[2 if catalog.BINARY32.contains(fmt) else 3][0]
    gaps = [oracle.ulp(value, fmt) for value in _exact(x)]
    result = np.array([np.nan if gap is None else to_float(gap) for gap in gaps], np.float64)
    with np.errstate(all="ignore"):
        return Answer({"result": bits_of(result.astype(kind)).reshape(x.shape)}, kind)


# -- cases ------------------------------------------------------------------------------------------


def _few(draw: Draw, fmt: Format, count: int) -> tuple[Array, Array]:
    """Two columns of codes, in part equal, of numbers next to each other, and of one magnitude."""
    x, y = codes(draw, fmt, count), codes(draw, fmt, count)
    count = min(x.size, y.size)
    x, y = x[:count], y[:count]
    for place in range(count):
        how = draw.random()
        if how < 0.2:
            y[place] = x[place]
        elif how < 0.35:
            y[place] = x[place] ^ x.dtype.type(1 << fmt.width - 1)
        elif how < 0.5:
            y[place] = (int(x[place]) + draw.choice((-1, 1))) % (1 << fmt.width)
    return x, y


def cases(draw: Draw) -> Iterator[tuple[Call, Sequence[Way]]]:
    """All comparisons of the same codes, and neighbours of a few numbers."""
    fmt = any_format(draw, books=0.15)
    named = asked_for(draw, fmt)
    x, y = _few(draw, fmt, 40)
    yield Call(ORDERED, (x, y), (named,)), [Way()]
    x, y = typed(draw, x, fmt), typed(draw, y, fmt)
    layout = draw.choice(LAYOUTS)
    for name in RELATIONS:
        call = Call(f"lp.{name}", (x, y), (named,))
        yield call, [*laid(call, [Way(flags=True), Way(layout=layout)]), Way(strict=True)]
    yield Call("lp.total_order", (x, y), (named,)), [Way()]
    yield Call("lp.classify", (x,), (named,)), [Way()]
    kind = draw.choice((*KINDS, *(kind for kind in NUMBERS if kind.itemsize < 8)))
    numbers = values(draw, kind, [fmt], 40)
    if not isinstance(fmt, Codebook):  # whose gaps may be no float64
        yield Call("lp.ulp", (numbers,), (named,)), [Way(), Way(strict=draw.chance(0.3))]
    if fmt.width <= 8:
        toward = values(draw, kind, [fmt], numbers.size)
        toward[:5] = numbers[:5]
        call = Call("lp.nextafter", (numbers[:20], toward[:20]), (named,))
        yield call, [Way(), Way(strict=draw.chance(0.3))]


TOPIC = Topic(
    cases,
    {f"lp.{name}": relation for name in RELATIONS}
    | {"lp.total_order": total_order, ORDERED: ordered, "lp.classify": classify}
    | {"lp.nextafter": nextafter, "lp.ulp": ulp},
)
