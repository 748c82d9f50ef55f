"""Arguments that no verb takes: refused by a ValueError or TypeError with a message, every time alike.

A call that is answered, and answered again from memory, is spoiled in one place. It must be refused, whatever
was answered before, must leave `out` alone, and must not change what the good call gives afterwards. What may
be refused or not, as people find it, must not end in any other error.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import lowprec as lp
from lowprec.spec import catalog
from lowprec.spec.arith import OPERANDS
from lowprec.spec.format import Format
from tests.fuzz import arithmetic, conversions
from tests.fuzz.drawing import Draw
from tests.fuzz.operands import codes, values
from tests.fuzz.runner import Answer, Call, Topic, Way
from tests.fuzz.specifications import any_format

Array = npt.NDArray[Any]

#: Things that are no array of numbers.
NO_NUMBERS: tuple[Any, ...] = (
    np.zeros(4, np.complex64), np.array(["1", "2"]), np.array([None, 1.5], object), np.zeros(4, "M8[s]"),
    "text", {"a": 1}, [[1.0], [1.0, 2.0]], np.ma.masked_array([1.0], [True]),
)  # fmt: skip

#: Things that are no format, no projection, no key of random integers.
NO_FORMATS: tuple[Any, ...] = (
    None,
    3,
    "e4m3",
    "no such format",
    [],
    {},
    np.dtype("complex64"),
    object(),
    "binary64",
    "",
)
NO_RULES: tuple[Any, ...] = ("nearest_even", 3, {}, [], lp.Projection, object())
NO_MODES: tuple[Any, ...] = (
    "nearest",
    1,
    [],
    {},
    "stochastic(33)",
    "stochastic(0)",
    object(),
    "stochastic(8, Z)",
)
NO_KEYS: tuple[Any, ...] = (-1, 1 << 64, 1.5, "key", [1], True, None)


def _change(**keywords: Any) -> Callable[[Call], Call]:
    return lambda call: dataclasses.replace(call, keywords={**call.keywords, **keywords})


def _outputs(draw: Draw, call: Call, answer: Answer) -> Iterator[Callable[[Call], Call]]:
    """Arrays that results cannot be written to."""
    shape = answer.parts["result"].shape
    kind = answer.dtype
    assert kind is not None
    for name, right in (("out", kind), ("flags", np.dtype(np.uint8))):
        locked = np.zeros(shape, right)
        locked.flags.writeable = False
        wrong = [
            np.zeros(shape, np.int16),
            np.zeros((*shape, 2), right),
            np.zeros((7, *shape), right),
            [0],
            locked,
            3,
        ]
        yield _change(**{name: draw.choice(wrong)})


def _keywords(draw: Draw, call: Call) -> Iterator[Callable[[Call], Call]]:
    """Keywords of wrong values, and two that say the same."""
    if call.verb == "lp.decode":
        yield _change(dtype=draw.choice(("int8", "complex64", np.uint8, "no such type", 7)))
        return
    yield _change(projection=draw.choice(NO_RULES))
    yield _change(projection=lp.Projection(), rounding="to_odd")
    yield _change(rounding=draw.choice(NO_MODES))
    yield _change(saturation=draw.choice(("maximum", 1, [], {})))
    yield _change(profile=draw.choice(("no such stack", 3, [], {})))
    yield _change(profile="ocp", projection=lp.Projection())
    yield _change(rounding="stochastic(8)", rng=draw.choice(NO_KEYS))
    yield _change(rounding="stochastic(8)", rng=1, random=np.zeros(3, np.uint32))
    yield _change(
        rounding="stochastic(2)", random=draw.choice((np.full(4, 4, np.uint32), np.zeros(4), [1, 2], "x"))
    )
    yield _change(rng=1)
    yield _change(random=np.zeros(np.shape(call.operands[0]), np.uint32))
    if call.verb in ("lp.encode", "lp.quantize"):
        yield _change(axis=draw.choice((-1, 0, (0, 1))))
        yield _change(rule=draw.choice(("floor", "no such rule")))
        yield _change(tensor_scale=draw.choice((1.0, "1", -1.0)))
    if call.verb.removeprefix("lp.") in OPERANDS:
        yield _change(dtype=draw.choice(("int64", "complex64", "no such type", 7)))
        yield _change(unknown=1)


def _arguments(draw: Draw, call: Call) -> Iterator[Callable[[Call], Call]]:
    """Wrong operands and formats."""
    place = draw.randrange(len(call.operands))

    def operand(other: Any) -> Callable[[Call], Call]:
        operands = (*call.operands[:place], other, *call.operands[place + 1 :])
        return lambda call: dataclasses.replace(call, operands=operands)

    yield operand(draw.choice(NO_NUMBERS))
    if len(call.operands) > 1:
        yield operand(np.zeros(call.operands[place].shape[0] + 3, call.operands[place].dtype))
    if call.verb in ("lp.decode", "lp.cast"):
        fmt = lp.format(call.given[0])
        over = np.array([(1 << fmt.width) + draw.choice((0, 1, 1000))], np.int64)
        yield operand(draw.choice((over, np.array([-1]), np.zeros(3), np.array([True]))))
    number = draw.randrange(len(call.given))
    given = (*call.given[:number], draw.choice(NO_FORMATS), *call.given[number + 1 :])
    yield lambda call: dataclasses.replace(call, given=given)


def _good(draw: Draw) -> tuple[Call, Answer]:
    """A call that is answered, of arrays of one type and one axis."""
    verb = draw.choice(("encode", "encode", "quantize", "decode", "cast", *draw.sample(sorted(OPERANDS), 3)))
    fmt: Format = any_format(draw)
    kind = np.dtype(draw.choice((np.float32, np.float64)))
    given: tuple[Any, ...] = (draw.choice((fmt, catalog.E4M3FN, "bfloat16")),)
    keywords: dict[str, Any] = {}
    if verb in ("decode", "cast"):
        operands: tuple[Array, ...] = (codes(draw, lp.format(given[0]), 8),)
        given = given if verb == "decode" else (*given, "binary16")
    else:
        operands = tuple(values(draw, kind, [fmt], 8) for _ in range(OPERANDS.get(verb, 1)))
        if verb == "scaleb":
            operands = operands[0], np.arange(8, dtype=np.int32)[: operands[0].size]
    if verb != "decode" and draw.chance(0.5):
        target = lp.format(given[-1])
        nan = "error" if target.has_nan else "max"
        keywords["projection"] = lp.Projection(saturation="finite", nan=nan)  # type: ignore[arg-type]
    call = Call(f"lp.{verb}", operands, given, keywords)
    answer = (arithmetic if verb in OPERANDS else conversions).TOPIC.oracles[call.verb](call)
    return call, answer


def cases(draw: Draw) -> Iterator[tuple[Call, Sequence[Way]]]:
    """A good call twice, each spoiled one twice after it, and the good one again."""
    call, answer = _good(draw)
    while np.any(answer.refused):
        call, answer = _good(draw)
    yield call, [Way(), Way(), Way(out="new"), Way(out="new")]
    assert answer.dtype is not None
    spoilers = [*_outputs(draw, call, answer), *_keywords(draw, call), *_arguments(draw, call)]
    for spoil in spoilers:
        spoiled = dataclasses.replace(spoil(call), verb=f"{call.verb} ")
        yield spoiled, [Way(), Way()]
        if "out" not in spoiled.keywords:
            out = np.full_like(answer.parts["result"], 0xA5, f"u{answer.dtype.itemsize}").view(answer.dtype)
            yield _change(out=out)(spoiled), [Way(), Way()]
    yield call, [Way(), Way(out="new")]


def refused(call: Call) -> Answer:
    """What every spoiled call comes to."""
    return Answer({"result": np.zeros(3, np.uint8)}, np.dtype(np.uint8), True, (ValueError, TypeError))


GOOD = {**conversions.TOPIC.oracles, **arithmetic.TOPIC.oracles}
TOPIC = Topic(cases, GOOD | {f"{verb} ": refused for verb in GOOD})
