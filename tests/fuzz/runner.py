"""Ask the verbs, compare with the oracle, count; shrink what fails to one element and print it as a program.

A case is a call, asked in several ways. Each topic makes calls out of random choices, and says what the
oracle answers. That is all that is needed to shrink: a smaller call is a call, too.
"""

from __future__ import annotations

import dataclasses
import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import numpy.typing as npt

import lowprec as lp
from lowprec.arrays import calls
from lowprec.spec.projection import Projection
from lowprec.spec.rounding import Rounding
from tests.fuzz import subjects
from tests.fuzz.drawing import ALIKE, Draw
from tests.fuzz.operands import bits_of

Array = npt.NDArray[Any]

#: Seconds after which a failure is small enough.
LONGEST_SHRINK = 10.0

#: What a printed program needs.
HEADER = """import ml_dtypes, numpy as np, lowprec as lp
from fractions import Fraction
from lowprec import Accumulation, BlockFormat, Epilogue, Format, Order, Projection, Rounding, \
ScaleRule, Sign, Split, Threshold, Window
from lowprec.spec.format import Carrier
from tests.fuzz import subjects
"""

#: Layouts of operands in memory, as programs have them.
LAYOUTS = (
    "x[::-1].copy()[::-1]",
    "np.asfortranarray(x)",
    "np.repeat(x, 2, axis=-1)[..., ::2]",
    "x.view(f'u{x.itemsize}').byteswap().view(x.dtype.newbyteorder('S'))",
    "np.frombuffer(b'?' + x.tobytes(), np.uint8)[1:].view(x.dtype).reshape(x.shape)",
    "np.frombuffer(x.tobytes(), x.dtype).reshape(x.shape)",
    "x.view(x.dtype.newbyteorder('S').newbyteorder('S'))",  # an equal type, but another object
)

#: Places for results, as programs make them: new ones, not one after the other, an operand's, one that
#: overlaps it.
OUTPUTS = {
    "new": "out = np.full({shape}, 3, {kind})",
    "strided": "out = np.full({shape} + (2,), 3, {kind})[..., 0]",
    "same": "out = x0 = x0.copy()",
    "shifted": "memory = np.concatenate([x0, x0[:1]]); x0, out = memory[:-1], memory[1:]",
}

#: Keywords that a simpler call leaves out.
_OPTIONAL = (
    "dtype", "axis", "tensor_scale", "rule", "addend", "bias", "output_scale", "scales", "backend",
)  # fmt: skip

#: Fields of a codebook behind its name and values.
_BOOK = ("thresholds", "ties", "overflow")

_NAMES: dict[str, Any] = {"np": np, "lp": lp, "ml_dtypes": ml_dtypes, "subjects": subjects}


@dataclass(frozen=True)
class Call:
    """A verb and its arguments. Operands, and arrays among the keywords, have an element for each result."""

    verb: str  #: as a program has it
    operands: tuple[Array, ...]
    given: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = field(default_factory=dict)
    counted: bool = False  #: whether an element's answer depends on how many are before it

    def at(self, axis: int, places: Any, length: int) -> Call:
        """The same call with some places of an axis, which has this length in what has all of them."""

        def cut(array: Any) -> Any:
            whole = isinstance(array, np.ndarray) and array.ndim > axis and array.shape[axis] == length
            return np.ascontiguousarray(np.take(array, places, axis)) if whole else array

        keywords = {name: cut(value) for name, value in self.keywords.items()}
        return dataclasses.replace(self, operands=tuple(map(cut, self.operands)), keywords=keywords)


class Way(NamedTuple):
    """How a call is asked, which may not change the answer."""

    layout: str = "x"  #: an expression of each operand
    flags: bool = False
    out: str = ""  #: a place of `OUTPUTS` for the results
    strict: bool = False  #: with floating-point errors raised, as `np.seterr` can have it
    tiled: int = 1  #: how often the operands come one after the other


class Answer(NamedTuple):
    """What the oracle says: arrays of codes or of bit patterns, by name."""

    parts: dict[str, Array]
    dtype: np.dtype[Any] | None = None  #: of the result
    refused: Array | bool = False  #: for which elements the verb raises a ValueError
    raises: tuple[type[Exception], ...] = (ValueError,)
    may_refuse: str | None = None  #: the beginning of an error's message that is right, too


class Refusal(NamedTuple):
    """An error that a verb raised."""

    kind: str
    message: str


Oracle = Callable[[Call], Answer]


class Topic(NamedTuple):
    """One of the fuzzers."""

    cases: Callable[[Draw], Iterator[tuple[Call, Sequence[Way]]]]
    oracles: Mapping[str, Oracle]
    others: Callable[[Call], Iterator[Call]] = lambda call: iter(())  #: calls that are nearly the same
    smaller: Callable[[Call], Iterator[Call]] | None = (
        None  #: calls with fewer elements, where they have no results each
    )
    alike: int = ALIKE  #: cases that share most of what kernels are compiled for


class Failure(NamedTuple):
    """A call that does not answer as it should, and how it was asked until then."""

    call: Call
    ways: tuple[Way, ...]
    what: str
    got: object
    want: object
    before: tuple[tuple[Call, Way], ...] = ()  #: what was answered before, where it depends on that
    out: str = ""  #: an array for results, as a program has it

    def program(self) -> str:
        """The failure as a program that raises an AssertionError."""
        lines = [HEADER]
        for call, ways in (*((call, [way]) for call, way in self.before), (self.call, self.ways)):
            lines += [f"x{number} = {spelled(x)}" for number, x in enumerate(call.operands)]
            for way in ways:
                lines += _asking(call, way, self.out)
        return "\n".join(
            [*lines, f"# {self.what}", f"# got  {_short(self.got)}", f"# want {_short(self.want)}"]
        )


class Count(NamedTuple):
    """What was done."""

    cases: int
    calls: int
    elements: int
    failures: tuple[tuple[int, Failure], ...]
    seconds: float


# -- asking -----------------------------------------------------------------------------------------


def forget() -> None:
    """Empty the verbs' memory of earlier calls."""
    calls._known.clear()


def asked(call: Call, way: Way, answer: Answer) -> dict[str, Array] | Refusal:
    """What a verb gives, or how it refuses."""
    function = eval(call.verb, _NAMES)
    layout = eval(f"lambda x: {way.layout}", _NAMES)
    operands = [layout(_tiled(x, way.tiled)) if isinstance(x, np.ndarray) else x for x in call.operands]
    keywords = {name: _tiled(value, way.tiled) for name, value in call.keywords.items()}
    shape = next(iter(answer.parts.values())).shape
    shape = (shape[0] * way.tiled, *shape[1:]) if way.tiled > 1 else shape
    if way.flags:
        keywords["flags"] = np.full(shape, 0xA5, np.uint8)
    if way.out:
        memory: dict[str, Any] = {"x0": operands[0]}
        exec(OUTPUTS[way.out].format(shape=shape, kind=spelled(answer.dtype)), _NAMES, memory)
        operands[0], keywords["out"] = memory["x0"], memory["out"]
    out = keywords.get("out")
    if isinstance(out, np.ndarray) and not way.out and out.flags.writeable:
        out = keywords["out"] = out.copy()
    before = out.tobytes() if isinstance(out, np.ndarray) else b""
    with warnings.catch_warnings(), np.errstate(all="raise" if way.strict else "warn"):
        warnings.simplefilter("error")
        try:
            given = function(*operands, *call.given, **keywords)
        except Exception as error:
            if isinstance(out, np.ndarray) and out.tobytes() != before:
                return Refusal("a refusal that writes to out", repr(error))
            kind = next((kind for kind in answer.raises if isinstance(error, kind)), type(error))
            return Refusal(kind.__name__, str(error))
    if way.out and given is not out:
        return Refusal("another array than out", type(given).__name__)
    return _parts(given, keywords.get("flags"))


def _tiled(value: Any, times: int) -> Any:
    """An array so many times one after the other."""
    return (
        np.concatenate([value] * times)
        if times > 1 and isinstance(value, np.ndarray) and value.ndim
        else value
    )


def suits(call: Call, way: Way, answer: Answer) -> bool:
    """Whether a call can be asked in a way."""
    if way.tiled > 1 and (call.counted or answer.refused is not False and np.any(answer.refused)):
        return False
    x = call.operands[0]
    if way.tiled > 1 and not all(
        isinstance(each, np.ndarray) and each.shape == x.shape for each in call.operands
    ):
        return False
    if way.tiled > 1 and not x.shape:
        return False
    if way.out not in ("same", "shifted"):
        return not way.out or answer.dtype is not None
    alike = isinstance(x, np.ndarray) and x.dtype == answer.dtype and way.layout == "x"
    return alike and x.shape == next(iter(answer.parts.values())).shape and (way.out == "same" or x.ndim == 1)


def _parts(given: Any, flags: Array | None) -> dict[str, Array]:
    if isinstance(given, lp.BlockArray):
        parts = {"codes": bits_of(given.codes), "scales": bits_of(given.scales)}
        if given.tensor_scale is not None:
            parts["tensor scale"] = bits_of(np.asarray(given.tensor_scale))
    else:
        parts = {"result": bits_of(given)}
    if flags is not None:
        parts["flags"] = flags
    return parts


def _difference(
    call: Call, way: Way, answer: Answer
) -> tuple[str, object, object, tuple[int, ...] | None] | None:
    """What is wrong with what a verb gives: what, got, want, and the index of the first wrong element."""
    got = asked(call, way, answer)
    if answer.refused is True or (answer.refused is not False and np.any(answer.refused)):
        names = " or ".join(kind.__name__ for kind in answer.raises)
        if not isinstance(got, Refusal):
            return "is not refused", got, f"a {names}", None
        if got.kind not in {kind.__name__ for kind in answer.raises} or not got.message:
            return "is refused in the wrong way", tuple(got), f"a {names} with a message", None
        return None
    if isinstance(got, Refusal):
        allowed = got.kind in {kind.__name__ for kind in answer.raises} and answer.may_refuse is not None
        if allowed and got.message and got.message.startswith(answer.may_refuse or ""):
            return None
        return "is refused", tuple(got), answer.parts, None
    for name, want in answer.parts.items():
        if name == "flags" and not way.flags:
            continue
        want = _tiled(want, way.tiled)
        mine = got.get(name)
        if mine is None or mine.shape != want.shape:
            return f"{name}: has another shape", None if mine is None else mine.shape, want.shape, None
        if name == "result" and answer.dtype is not None and mine.itemsize != answer.dtype.itemsize:
            return f"{name}: is of another type", f"{mine.itemsize} bytes", f"{answer.dtype}", None
        wrong = mine.astype(np.uint64) != want.astype(np.uint64)
        if np.any(wrong):
            place = tuple(int(i) for i in np.argwhere(wrong)[0])
            return name, int(mine[place]), int(want[place]), place
    return None


# -- one case ---------------------------------------------------------------------------------------


def _run(topic: Topic, call: Call, ways: Sequence[Way]) -> Failure | None:
    """Ask in every way, one after the other; the first answer that is not the oracle's."""
    try:
        answer = topic.oracles[call.verb](call)
    except Exception as error:
        return Failure(
            call, tuple(ways[:1]), "the oracle fails", f"{type(error).__name__}: {error}", "an answer"
        )
    refusals: dict[Way, object] = {}
    ways = [way for way in ways if suits(call, way, answer)]
    for number, way in enumerate(ways):
        wrong = _difference(call, way, answer)
        if wrong is not None:
            shape = next(iter(answer.parts.values())).shape
            out = OUTPUTS[way.out].format(shape=shape, kind=spelled(answer.dtype)) if way.out else ""
            return Failure(call, tuple(ways[: number + 1]), wrong[0], *wrong[1:3], out=out)
        if answer.refused is True or np.any(answer.refused):  # the same way each time
            told = refusals.setdefault(way, asked(call, way, answer))
            again = asked(call, way, answer)
            if again != told:
                return Failure(
                    call, tuple(ways[: number + 1]), "is refused otherwise the second time", again, told
                )
    return None


def check(topic: Topic, call: Call, ways: Sequence[Way]) -> tuple[int, int, Failure | None]:
    """Calls and elements that were compared, and what failed."""
    try:
        answer = topic.oracles[call.verb](call)
    except Exception:
        return 0, 0, _run(topic, call, ways)
    calls, failure = 0, None
    elements = sum(part.size for part in answer.parts.values())
    if isinstance(answer.refused, np.ndarray) and answer.refused.any():
        failure = _run(topic, call, ways[:1])
        accepted = np.flatnonzero(~answer.refused.reshape(-1))
        shape = answer.refused.shape
        if call.counted:
            return 1, 0, failure
        keywords = {
            name: value.reshape(-1) if isinstance(value, np.ndarray) else value
            for name, value in call.keywords.items()
        }
        operands = tuple(np.broadcast_to(x, shape).reshape(-1) for x in call.operands)
        flat = dataclasses.replace(call, operands=operands, keywords=keywords)
        calls, call = 1, flat.at(0, accepted, answer.refused.size)
        elements = accepted.size
    elif answer.refused is True:
        ways, elements = ways[:2], 0
    if failure is None:
        failure = _run(topic, call, ways)
    if failure is None:
        for other in topic.others(call):
            failure = failure or _run(topic, other, ways[:1])
        failure = failure or _run(topic, call, ways[:1])
    asked_in = sum(way.tiled for way in ways if suits(call, way, answer)) + 1
    return calls + len(ways) + 1, elements * asked_in, failure


# -- shrinking --------------------------------------------------------------------------------------


def shrunk(topic: Topic, failure: Failure) -> Failure:
    """The same failure, of fewer elements, fewer ways and fewer fields, where it remains."""
    before: tuple[tuple[Call, Way], ...] = ()

    began = time.monotonic()

    def fails(call: Call, ways: Sequence[Way]) -> Failure | None:
        if time.monotonic() - began > LONGEST_SHRINK:
            return None
        forget()
        for earlier, way in before:
            _run(topic, earlier, [way])
        found = _run(topic, call, ways)
        same = found is not None and _kind(found) == _kind(failure)
        return found._replace(before=before) if same else None  # type: ignore[union-attr]

    last = failure.ways[-1]
    wanted, found = failure.before, None
    for some in ((), *((one,) for one in wanted[:4]), wanted[-1:], wanted):
        before = some  # for `fails`
        for ways in ((last,), (last, last), failure.ways):
            found = found or fails(failure.call, ways)
        if found is not None:
            failure = found
            break
    if failure.call.verb.endswith(" "):  # with less it may be no mistake
        return failure
    for _ in range(2):  # what is simpler may have fewer elements
        if topic.smaller is not None:
            failure = _lessened(failure, topic.smaller, fails)
            failure = _lessened(failure, _with_simpler, fails)
            continue
        for axis in range(
            max((x.ndim for x in failure.call.operands if isinstance(x, np.ndarray)), default=0)
        ):
            failure = _fewer(failure, axis, fails)
        failure = _lessened(failure, _with_simpler, fails)
    return failure


def _kind(failure: Failure) -> tuple[str, str]:
    """What is wrong; for a refusal its first words too: a smaller call may be refused for another reason."""
    got = failure.got
    if isinstance(got, tuple) and got:
        message = str(got[1]) if len(got) > 1 and failure.what == "is refused" else ""
        return failure.what, " ".join([str(got[0]), *message.split()[:3]])
    return failure.what, got if isinstance(got, str) else ""


def _fewer(failure: Failure, axis: int, fails: Callable[..., Failure | None]) -> Failure:
    """Fewer elements along an axis: one of them, else a half of them, again and again."""
    while True:
        call = failure.call
        length = max(
            (x.shape[axis] for x in call.operands if isinstance(x, np.ndarray) and x.ndim > axis), default=0
        )
        if length <= 1:
            return failure
        parts = [range(length)[: -(-length // 2)], range(length)[length // 2 :]]
        if call.counted:
            parts = [range(length)[: length * share // 8] for share in (1, 2, 4, 6, 7)] + [range(length - 1)]
        elif length <= 64 or failure.what != "is refused":
            parts = (
                [range(place, place + 1) for place in range(length)][:400] + parts if length <= 400 else parts
            )
        for part in parts:
            found = fails(call.at(axis, list(part), length), failure.ways) if len(part) else None
            if found:
                failure = found
                break
        else:
            return failure


def _lessened(
    failure: Failure, smaller: Callable[[Call], Iterator[Call]], fails: Callable[..., Failure | None]
) -> Failure:
    """The first smaller call that fails, again and again."""
    found: Failure | None = failure
    while found is not None:
        failure = found
        found = next(filter(None, (fails(call, failure.ways) for call in smaller(failure.call))), None)
    return failure


def _with_simpler(call: Call) -> Iterator[Call]:
    """Calls with one field of one specification less."""
    for name in call.keywords:
        if name in _OPTIONAL:
            yield dataclasses.replace(
                call, keywords={key: value for key, value in call.keywords.items() if key != name}
            )
    for place, value in enumerate(call.given):
        for simpler in _simpler_values(value):
            yield dataclasses.replace(call, given=(*call.given[:place], simpler, *call.given[place + 1 :]))
    for name, value in call.keywords.items():
        for simpler in _simpler_values(value):
            keywords = {**call.keywords, name: simpler}
            yield dataclasses.replace(call, keywords=keywords)
            without = {key: value for key, value in keywords.items() if key not in ("rng", "random")}
            yield dataclasses.replace(call, keywords=without, counted=False)


def _simpler_values(value: Any) -> Iterator[Any]:
    """Specifications with the default of one field; of a pair, of one of them."""
    if isinstance(value, tuple) and all(isinstance(part, lp.Format | Projection) for part in value):
        for place, part in enumerate(value):
            for simpler in _simpler_values(part):
                yield (*value[:place], simpler, *value[place + 1 :])
    if not dataclasses.is_dataclass(value) or isinstance(value, type | lp.BlockArray | lp.Format | Rounding):
        return
    for each in dataclasses.fields(value):
        now = getattr(value, each.name)
        defaults = [] if each.default is dataclasses.MISSING else [each.default]
        for simpler in (*(other for other in defaults if other != now), *_simpler_values(now)):
            try:
                yield dataclasses.replace(value, **{each.name: simpler})
            except (ValueError, TypeError):
                continue


# -- programs ---------------------------------------------------------------------------------------


def spelled(value: object) -> str:
    """An argument as a program has it."""
    if isinstance(value, np.dtype):
        return f"np.dtype({value.name!r})" if value.isbuiltin == 1 else f"np.dtype(ml_dtypes.{value.name})"
    if isinstance(value, np.ndarray):
        if value.dtype == np.bool_ or value.dtype.kind == "O":
            return f"np.array({value.tolist()!r}, {value.dtype.name!r})"
        words = bits_of(value)
        listed = np.array2string(
            words, separator=", ", threshold=1 << 30, formatter={"int": hex}, max_line_width=110
        )
        text = f"np.array({listed if value.size else []}, 'u{value.itemsize}').reshape({value.shape})"
        if not value.dtype.isnative:
            return f"{text}.byteswap().view({value.dtype.str!r})"
        return text if value.dtype == words.dtype else f"{text}.view({spelled(value.dtype)})"
    if isinstance(value, np.generic):
        return f"{spelled(np.asarray(value))}[()]"
    if isinstance(value, lp.BlockArray):
        parts = ", ".join(spelled(part) for part in (value.codes, value.scales, value.format, value.axes))
        return (
            f"lp.BlockArray({parts}, {None if value.tensor_scale is None else spelled(value.tensor_scale)})"
        )
    if isinstance(value, lp.Profile):
        return f"lp.profiles[{value.name!r}]"
    if isinstance(value, lp.Codebook):
        fields = ", ".join(spelled(getattr(value, name)) for name in ("name", "values"))
        others = ", ".join(f"{name}={spelled(getattr(value, name))}" for name in _BOOK)
        return f"lp.Codebook({fields}, {others})"
    if isinstance(value, lp.BlockFormat) and any(
        isinstance(fmt, lp.Codebook) for fmt in (value.element, value.scale)
    ):
        names = [each.name for each in dataclasses.fields(value)]
        return f"BlockFormat({', '.join(f'{name}={spelled(getattr(value, name))}' for name in names)})"
    if isinstance(value, float) and not math.isfinite(value):
        return f"float({str(value)!r})"
    if isinstance(value, Fraction | lp.Format | Projection | lp.BlockFormat):
        return repr(value)
    if isinstance(value, tuple):
        return f"({', '.join(map(spelled, value))}{',' * (len(value) == 1)})"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        named = ", ".join(
            f"{each.name}={spelled(getattr(value, each.name))}" for each in dataclasses.fields(value)
        )
        return f"{type(value).__name__}({named})"
    return repr(value)


def _asking(call: Call, way: Way, out: str) -> list[str]:
    """Lines that ask; `out` is one that makes an array for results."""
    operands = []
    for number, x in enumerate(call.operands):
        plain = not isinstance(x, np.ndarray) or way.layout == "x"
        operands.append(f"x{number}" if plain else f"(lambda x: {way.layout})(x{number})")
    keywords = [f"{name}={spelled(value)}" for name, value in call.keywords.items()]
    keywords += ["flags=flags"] * way.flags + ["out=out"] * bool(way.out)
    lines = [f"x{n} = np.concatenate([x{n}] * {way.tiled})" for n in range(len(operands)) if way.tiled > 1]
    shapes = f"np.broadcast_shapes(*map(np.shape, [{', '.join(operands)}]))"
    lines += [f"flags = np.full({shapes}, 0xA5, np.uint8)"] * way.flags
    lines += [out] * bool(way.out)
    lines += ["np.seterr(all='raise')"] * way.strict
    text = f"{call.verb}({', '.join([*operands, *map(spelled, call.given), *keywords])})"
    return [*lines, f"print({text}{', flags' * way.flags})"]


def _short(value: object) -> str:
    if isinstance(value, int):
        return f"{value:#x} ({value})"
    text = repr(value)
    return text if len(text) < 600 else f"{text[:600]} ..."


# -- many cases -------------------------------------------------------------------------------------


def run_case(name: str, topic: Topic, seed: int, number: int) -> tuple[int, int, Failure | None]:
    """Calls and elements of one case, and what failed first, as it was found."""
    calls = elements = 0
    before: list[tuple[Call, Way]] = []
    for call, ways in topic.cases(Draw(seed, name, number, topic.alike)):
        more, compared, failure = check(topic, call, ways)
        calls, elements = calls + more, elements + compared
        if failure is not None:
            return calls, elements, failure._replace(before=tuple(before))
        before += [(call, way) for way in dict.fromkeys(ways)]
    return calls, elements, None


def fuzz(
    name: str,
    topic: Topic,
    seed: int,
    seconds: float,
    *,
    known: Sequence[Callable[[Failure], bool]] = (),
    first: int = 0,
    most: int | None = None,
    stop_at: int = 1,
    told: Callable[[str], None] = print,
) -> Count:
    """Cases until the time is over, `most` are done, or `stop_at` failed."""
    began = time.monotonic()
    cases = calls = elements = 0
    failures: list[tuple[int, Failure]] = []
    number = first
    while time.monotonic() - began < seconds and (most is None or cases < most):
        more, compared, failure = run_case(name, topic, seed, number)
        cases, calls, elements = cases + 1, calls + more, elements + compared
        if failure is not None and not any(is_known(failure) for is_known in known):
            failure = shrunk(topic, failure)
            if not any(is_known(failure) for is_known in known):
                failures.append((number, failure))
                after = time.monotonic() - began
                told(
                    f"{name}: case {number} of seed {seed} fails, after {after:.1f} "
                    f"s\n\n{failure.program()}\n"
                )
                told(f"again: python -m tests.fuzz --topic {name} --seed {seed} --case {number}\n")
                if len(failures) >= stop_at:
                    break
        number += 1
    return Count(cases, calls, elements, tuple(failures), time.monotonic() - began)
