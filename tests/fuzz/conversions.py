"""encode, decode, quantize and cast: any format, any projection, values of any type."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import lowprec as lp
from lowprec.oracle import convert as oracle
from lowprec.oracle.flags import flags as oracle_flags, is_signaling
from lowprec.oracle.rounding import random_integer
from lowprec.spec import catalog
from lowprec.spec.arith import OPERANDS
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format
from lowprec.spec.layouts import lanes
from lowprec.spec.profiles import PROFILES
from lowprec.spec.projection import DEFAULT, Projection
from lowprec.spec.rounding import Rounding
from tests.fuzz.drawing import Draw
from tests.fuzz.operands import any_dtype, bits_of, codes, codes_in, random_words, typed, values
from tests.fuzz.runner import LAYOUTS, OUTPUTS, Answer, Call, Topic, Way
from tests.fuzz.specifications import any_format, any_projection

Array = npt.NDArray[Any]

FLOATS = tuple((lp.dtype(fmt), fmt) for fmt in (catalog.BINARY16, catalog.BFLOAT16, catalog.BINARY32))
FLOATS += ((np.dtype(np.float64), catalog.BINARY64),)

# -- the oracle -------------------------------------------------------------------------------------


def rule_of(keywords: dict[str, Any], fmt: Format) -> Projection:
    """The projection that a call's keywords name."""
    if "profile" in keywords:
        return PROFILES[str(keywords["profile"])].projection(fmt)
    if "projection" in keywords:
        return keywords["projection"]  # type: ignore[no-any-return]
    return Projection(**{name: keywords[name] for name in ("rounding", "saturation") if name in keywords})


def integers_of(
    keywords: dict[str, Any], rounding: Rounding, fmt: Format, shape: tuple[int, ...]
) -> list[int | None]:
    """The random integer of each element, cut out of its word by the oracle."""
    count = int(np.prod(shape, dtype=np.int64))
    if not rounding.bits:
        return [None] * count
    group = lanes(rounding, fmt)
    plain = rounding.variant in "ABC"
    grouped = _words_shape(rounding, fmt, shape)
    words = keywords.get("random")
    if words is not None and words.shape != grouped:
        raise ValueError("random integers of another shape")
    if words is None:
        words = lp.random_bits(grouped, keywords["rng"], rounding.bits if plain else 32)
    if plain:
        return [int(word) for word in words.reshape(-1)]
    found: list[int | None] = []
    for place in np.ndindex(shape):
        word = words[(*place[:-1], place[-1] // group)] if place else words[()]
        found.append(random_integer(int(word), place[-1] % group if place else 0, rounding, fmt))
    return found


def converted(
    patterns: Array, source: Format, target: Format, rule: Projection, keywords: dict[str, Any]
) -> tuple[list[int], list[int], Array | bool]:
    """Codes, flags, and which elements are refused; all are, if the projection does not fit the format."""
    try:
        oracle.check(target, rule, 0 if rule.rounding.bits else None)
    except ValueError:
        return [0] * patterns.size, [0] * patterns.size, True
    integers = integers_of(keywords, rule.rounding, target, patterns.shape)
    made, signals, refused = [], [], []
    for code, integer in zip(patterns.reshape(-1).tolist(), integers, strict=True):
        try:
            made.append(oracle.cast(code, source, target, rule, random=integer))
            value = oracle.decode(code, source)
            tiny = rule.subnormals != "keep" and oracle.is_subnormal(code, source)
            signaling = is_signaling(code, source)
            raised = oracle_flags(
                value, target, rule, random=integer, subnormal_operand=tiny, signaling=signaling
            )
            signals.append(raised)
            refused.append(False)
        except ValueError:
            made.append(0)
            signals.append(0)
            refused.append(True)
    return made, signals, np.array(refused, bool).reshape(patterns.shape)


def carried(
    made: Sequence[int], fmt: Format, kind: np.dtype[Any], carrier: Format, rule: Projection = DEFAULT
) -> Array:
    """Codes as bit patterns of a type of floats; NaNs have payloads where the projection keeps those."""
    keeps = Projection(nan_payload="drop" if rule.nan_payload == "drop" else "first")
    known = {code: oracle.cast(code, fmt, carrier, keeps) for code in set(made)}
    return np.array([known[code] for code in made], f"u{kind.itemsize}")


def kept_type(kind: np.dtype[Any] | None, fmt: Format) -> tuple[np.dtype[Any], Format]:
    """The type that values are given in: their own if it holds the format, else float32, else float64."""
    for known, carrier in FLOATS:
        if kind is not None and known == kind.newbyteorder("=") and carrier.contains(fmt):
            return known, carrier
    return FLOATS[2] if catalog.BINARY32.contains(fmt) else FLOATS[3]


def _answer(
    call: Call, source: Format, target: Format, values_in: np.dtype[Any] | None, *, codes_out: bool
) -> Answer:
    keywords = dict(call.keywords)
    rule = rule_of(keywords, target)
    shape = call.operands[0].shape
    made, signals, refused = converted(bits_of(call.operands[0]), source, target, rule, keywords)
    if codes_out:
        kind = np.dtype(f"u{target.code_bits // 8}")
        result = np.array(made, kind)
    else:
        kind, carrier = kept_type(values_in, target)
        result = carried(made, target, kind, carrier, rule)
    parts = {"result": result.reshape(shape), "flags": np.array(signals, np.uint8).reshape(shape)}
    return Answer(parts, kind, refused, may_refuse=unserved(target, rule))


def unserved(fmt: Format, rule: Projection) -> str | None:
    """How the message begins that refuses tails of a codebook's widest gaps."""
    return "stochastic rounding to " if isinstance(fmt, Codebook) and rule.rounding.bits else None


def _source(x: Array) -> Format:
    known = catalog.carrier(x.dtype)
    assert known is not None
    return known


def encode(call: Call) -> Answer:
    """Codes of values."""
    return _answer(call, _source(call.operands[0]), lp.format(call.given[0]), None, codes_out=True)


def quantize(call: Call) -> Answer:
    """Values of the codes of values."""
    x = call.operands[0]
    return _answer(call, _source(x), lp.format(call.given[0]), x.dtype, codes_out=False)


def cast(call: Call) -> Answer:
    """Codes of what codes stand for."""
    source, target = map(lp.format, call.given)
    call = dataclasses.replace(call, operands=(codes_in(call.operands[0], source),))
    return _answer(call, source, target, None, codes_out=True)


def decode(call: Call) -> Answer:
    """Values of codes."""
    fmt = lp.format(call.given[0])
    asked = call.keywords.get("dtype")
    kind, carrier = kept_type(None if asked is None else np.dtype(asked), fmt)
    x = codes_in(call.operands[0], fmt)
    made = x.reshape(-1).tolist()
    signals = [oracle_flags(oracle.decode(c, fmt), carrier, signaling=is_signaling(c, fmt)) for c in made]
    result = carried(made, fmt, kind, carrier).reshape(x.shape)
    return Answer({"result": result, "flags": np.array(signals, np.uint8).reshape(x.shape)}, kind)


# -- cases ------------------------------------------------------------------------------------------


def shaped(draw: Draw, array: Array) -> Array:
    """The elements in one to three dimensions."""
    size = array.size
    shape = draw.choice(
        [(size,), (size,), (2, size // 2), (size // 3, 3), (2, 1, size // 2), (0,), (3, 0), ()]
    )
    count = int(np.prod(shape, dtype=np.int64))
    return array[:count].reshape(shape)


def ways(draw: Draw) -> list[Way]:
    """Plainly twice, in which the second call may be answered from memory; and otherwise."""
    if draw.alike.random() < 0.3:  # all by the kernel that is never compiled for some formats alone
        return [Way(flags=True), Way(flags=True, out="new"), Way(flags=True, layout=draw.choice(LAYOUTS))]
    found = [Way(), Way(), Way(flags=True)]
    place = draw.choice(tuple(OUTPUTS))
    found += [Way(out=place), Way(out=place)]
    found.append(Way(draw.choice(LAYOUTS), draw.chance(0.3), draw.choice(("", "", "new"))))
    if draw.chance(0.2):
        found.append(Way(strict=True))
    if draw.chance(0.3):  # so many that vectors make them in parts
        found.append(Way(flags=draw.chance(0.5), tiled=11))
    if draw.chance(0.02):
        found.append(Way(tiled=5000))
    return found


def laid(call: Call, found: list[Way]) -> list[Way]:
    """The ways open to a call's operands: some types have one byte order, some arrays one element."""
    of_codes = call.verb not in ("lp.encode", "lp.quantize") and call.verb.removeprefix("lp.") not in OPERANDS
    swappable = all(x.dtype.isbuiltin == 1 and not (of_codes and x.dtype.kind == "f") for x in call.operands)
    many = all(x.ndim for x in call.operands)
    lists = call.verb != "lp.quantize" and all(
        x.size and x.dtype in (np.float64, np.int64) for x in call.operands
    )
    found = [
        way
        for way in found
        if way.layout == "x" or (many and (swappable or "newbyteorder" not in way.layout))
    ]
    return [*found, *[Way("x.tolist()")] * lists]


def asked_for(draw: Draw, fmt: Format) -> Any:
    """A format as people name it: itself, its name, or a type."""
    spellings: list[Any] = [fmt]
    if catalog.FORMATS.get(fmt.name) == fmt:
        spellings.append(fmt.name)
    try:
        spellings.append(lp.dtype(fmt))
    except ValueError:
        pass
    return draw.choice(spellings)


def projected(draw: Draw, fmt: Format, shape: tuple[int, ...]) -> dict[str, Any]:
    """Keywords that say how to project, and random integers where the mode is stochastic."""
    keywords: dict[str, Any] = {}
    profiles = [name for name, each in PROFILES.items() if fmt in each.formats]
    if profiles and draw.chance(0.15):
        keywords["profile"] = draw.choice(profiles)
    else:
        rule = any_projection(draw, fmt)
        short = {"rounding": rule.rounding, "saturation": str(rule.saturation)}
        keywords = short if draw.chance(0.15) else {"projection": rule}
    mode = rule_of(keywords, fmt).rounding
    if mode.bits:
        if draw.chance(0.5):
            keywords["rng"] = draw.choice((0, 1, (1 << 64) - 1, draw.getrandbits(64)))
        else:
            keywords["random"] = words_for(draw, mode, fmt, shape)
    return keywords


def words_for(draw: Draw, mode: Rounding, fmt: Format, shape: tuple[int, ...]) -> Array:
    """Random integers for elements of this shape: one for each, or a word for each group of lanes."""
    return random_words(draw, _words_shape(mode, fmt, shape), mode.bits if mode.variant in "ABC" else 32)


def _words_shape(mode: Rounding, fmt: Format, shape: tuple[int, ...]) -> tuple[int, ...]:
    group = lanes(mode, fmt)
    return (*shape[:-1], -(-shape[-1] // group)) if shape and group > 1 else shape


def cases(draw: Draw) -> Iterator[tuple[Call, Sequence[Way]]]:
    """Calls of one verb."""
    verb = draw.alike.choice(("encode", "encode", "encode", "quantize", "quantize", "cast", "cast", "decode"))
    kind = any_dtype(draw)
    fmt = any_format(draw, books=0.15)
    count = draw.choice((60, 200, 300))
    if verb == "decode":
        x = shaped(draw, typed(draw, codes(draw, fmt, count), fmt))
        keywords = {}
        holds = [known for known, carrier in FLOATS if carrier.contains(fmt)]
        if draw.chance(0.7):
            keywords["dtype"] = draw.choice(holds)
        call = Call("lp.decode", (x,), (asked_for(draw, fmt),), keywords)
        yield call, laid(call, ways(draw))
        return
    if verb == "cast":
        source = any_format(draw, books=0.15)
        x = shaped(draw, typed(draw, codes(draw, source, count), source))
        keywords = projected(draw, fmt, x.shape)
        given = asked_for(draw, source), asked_for(draw, fmt)
    else:
        stops = rule_stops(keywords := projected(draw, fmt, (0,)), fmt)
        x = shaped(draw, values(draw, kind, [fmt, *stops], count))
        keywords = resized(draw, keywords, fmt, x.shape)
        given = (asked_for(draw, fmt),)
    counted = "rng" in keywords or ("random" in keywords and keywords["random"].shape != x.shape)
    call = Call(f"lp.{verb}", (x,), given, keywords, counted)
    yield call, laid(call, ways(draw))


def rule_stops(keywords: dict[str, Any], fmt: Format) -> tuple[Format, ...]:
    """The formats that values go through."""
    return rule_of(keywords, fmt).via


def resized(draw: Draw, keywords: dict[str, Any], fmt: Format, shape: tuple[int, ...]) -> dict[str, Any]:
    """With random integers for as many elements as there are."""
    if "random" not in keywords:
        return keywords
    return {**keywords, "random": words_for(draw, rule_of(keywords, fmt).rounding, fmt, shape)}


def others(call: Call) -> Iterator[Call]:
    """The same but for the policy of saturation or, without a projection, with one."""
    if (
        not call.verb.endswith("decode")
        and "profile" not in call.keywords
        and "rounding" not in call.keywords
    ):
        rule = rule_of(dict(call.keywords), lp.format(call.given[-1]))
        policy = "finite" if str(rule.saturation) != "finite" else "none"
        other = dataclasses.replace(rule, saturation=policy)
        answer = TOPIC.oracles[call.verb](
            changed := dataclasses.replace(call, keywords={**call.keywords, "projection": other})
        )
        if not np.any(answer.refused):
            yield changed


TOPIC = Topic(
    cases, {"lp.encode": encode, "lp.decode": decode, "lp.quantize": quantize, "lp.cast": cast}, others
)
