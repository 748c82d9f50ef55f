"""What test files share: formats to go through, inputs at the borders, exact comparison with reports."""

import builtins
import functools
import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowprec as lp
from lowprec.oracle import convert as oracle
from lowprec.oracle.exact import Special, to_float
from lowprec.spec import catalog
from lowprec.spec.format import Format
from lowprec.spec.projection import Projection
from lowprec.spec.rounding import MODES

#: Every catalog format of at most 8 bits and the P3109 formats up to there, equal ones once: 142.
UP_TO_8 = tuple(
    dict.fromkeys([*(fmt for fmt in catalog.FORMATS.values() if fmt.width <= 8), *catalog.P3109_UP_TO_8])
)

#: The catalog's alone, aliases of the same codes once.
CATALOG_UP_TO_8 = tuple(dict.fromkeys(fmt for fmt in catalog.FORMATS.values() if fmt.width <= 8))


def kinds_of(fmt: Format) -> set[tuple[object, ...]]:
    """What a P3109 format is: signed or not, with each of its infinities, width and precision."""
    others = {"infinity": fmt.infinity, "width": fmt.width, "precision": fmt.precision}
    return {(fmt.sign, *other) for other in others.items()}


def usual_p3109() -> tuple[Format, ...]:
    """Return P3109 formats of every kind, width and precision: each has what none before it has."""
    seen: set[tuple[object, ...]] = set()
    usual = []
    for fmt in sorted(catalog.P3109_UP_TO_8, key=lambda fmt: (fmt.precision * 3 + fmt.width * 5) % 7):
        if not kinds_of(fmt) <= seen:
            usual.append(fmt)
            seen |= kinds_of(fmt)
    return tuple(usual)


#: UP_TO_8 as parameters of a test: the catalog's, and P3109's of every kind; every third of the others apart,
#: the rest by `-m long` only.
MOST_UP_TO_8 = tuple(
    fmt
    if fmt in CATALOG_UP_TO_8 or fmt in usual_p3109()
    else pytest.param(fmt, marks=pytest.mark.long if place % 3 else pytest.mark.apart)
    for place, fmt in enumerate(UP_TO_8)
)


def most_apart(values: Iterable[Any], usual: Iterable[Any]) -> list[Any]:
    """Parameters of a test: the usual ones run always, the others with what stands apart.

    A tuple has a value for each name.
    """
    values, usual = list(values), list(usual)
    assert all(each in values for each in usual), "a misspelled one would stand apart unseen"
    return [
        each
        if each in usual
        else pytest.param(*each if isinstance(each, tuple) else (each,), marks=pytest.mark.apart)
        for each in values
    ]


#: Every deterministic mode, without saturation.
MODE_PROJECTIONS = tuple(Projection(rounding=mode) for mode in MODES)

INFINITY_BITS = 0x7FF << 52

#: A number below all differences that are looked at.
TINY = Fraction(1, 2**200)


INF, NEG_INF, NAN, NEG_NAN, NEG_ZERO = (
    Special.INFINITY,
    Special.NEGATIVE_INFINITY,
    Special.NAN,
    Special.NEGATIVE_NAN,
    Special.NEGATIVE_ZERO,
)

#: TestFloat's names of rounding modes, and ours.
TESTFLOAT_MODES = {
    "near_even": "nearest_even",
    "minMag": "toward_zero",
    "min": "toward_negative",
    "max": "toward_positive",
    "near_maxMag": "nearest_away",
    "odd": "to_odd",
}


# -- refusals ---------------------------------------------------------------------------------------


def refusals(names: dict[str, Any], table: str) -> list[tuple[Callable[[], Any], type[Exception], str]]:
    """Return calls, and the type and the message of the error that each must raise, of a table as text.

    Below a call the error stands as an interpreter prints it, indented by four, in one line or more. What is
    refused alike stands in braces at the beginning of a call: `lp.{encode|quantize}(1j, "e4m3fn")`.
    """
    found, call = [], ""
    for line in table.strip("\n").splitlines():
        if call and (told := re.fullmatch(r"    (\w+): (.*)", line)):
            asked = [functools.partial(eval, each, names) for each in _alternatives(call)]
            found += [(each, getattr(builtins, told[1]), told[2]) for each in asked]
            alike, call = len(asked), ""
        elif line.startswith("    ") and not call:
            found[-alike:] = [(*each[:2], f"{each[2]} {line.strip()}") for each in found[-alike:]]
        else:
            call += line
    assert not call, f"no error below {call}"
    return found


def _alternatives(call: str) -> list[str]:
    """Return a call with each of the names that stand in braces at its beginning."""
    if not (names := re.match(r"(lp\.)?\{([\w|]+)\}", call)):
        return [call]
    return [f"{names[1] or ''}{name}{call[names.end() :]}" for name in names[2].split("|")]


def refusal_test(names: dict[str, Any], table: str) -> Callable[..., None]:
    """Return a test of a table of `refusals`: each raises this very type with this very message.

    Where a message begins or ends with three dots, more stands there.
    """

    @pytest.mark.parametrize(("call", "error", "message"), refusals(names, table))
    def test(call: Callable[[], Any], error: type[Exception], message: str) -> None:
        start, end = "" if message.startswith("...") else "^", "" if message.endswith("...") else "$"
        words = message.removeprefix("...").removesuffix("...")
        with pytest.raises(error, match=f"{start}{re.escape(words)}{end}") as caught:
            call()
        assert type(caught.value) is error

    return test


# -- tables as text ---------------------------------------------------------------------------------


def cases(table: str) -> list[tuple[list[str], str, str]]:
    """Return the cases of a table as text: the words of a line, a value, and what is said of it.

    A line is `words | value: said, value: said`; indented lines go on, and what follows # is a comment.
    """
    rows = [
        (words.split(), each.partition(": ")) for words, rest in pairs(table) for each in rest.split(", ")
    ]
    return [(words, value, said) for words, (value, _, said) in rows]


def pairs(table: str) -> list[tuple[str, str]]:
    """Return what stands before and behind the bar of each line of a table as text, as in `cases`."""
    lines = re.sub(r"\n +", " ", re.sub(r"(^| +)#.*", "", table, flags=re.M)).splitlines()
    return [(before, behind) for before, _, behind in (line.partition(" | ") for line in lines if line)]


def meant(text: str) -> Any:
    """Return the number that a text stands for: a fraction, such as 1/3, or a special value by its name."""
    names = {"F": Fraction, "TINY": TINY, "BEYOND": Fraction(10**6)}
    names |= {"INF": INF, "NEG_INF": NEG_INF, "NAN": NAN, "NEG_NAN": NEG_NAN, "NEG_ZERO": NEG_ZERO}
    return eval(re.sub(r"\b\d+\b", r"F(\g<0>)", text), names)


def projected_to(words: Sequence[str]) -> tuple[Format, Projection]:
    """Return a format by its name, and the projection of words such as `nan=max` after it."""
    fields: dict[str, Any] = dict(word.split("=") for word in words[1:])
    if "via" in fields:
        fields["via"] = tuple(map(catalog.format, fields["via"].split("+")))
    if "nan_code" in fields:
        fields["nan_code"] = int(fields["nan_code"], 16)
    if "symmetric" in fields:
        fields["symmetric"] = fields["symmetric"] == "True"
    return catalog.format(words[0]), Projection(**fields)


# -- processes --------------------------------------------------------------------------------------


def python(*words: object, **environment: str) -> str:
    """Return what Python prints in a process of its own, at the root of the checkout, which must succeed."""
    root = str(Path(__file__).parents[1])
    run = subprocess.run(
        [sys.executable, *map(str, words)], cwd=root, env={**os.environ, "PYTHONPATH": root, **environment},
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return run.stdout


# -- chunks -----------------------------------------------------------------------------------------


def chunkings(shape: tuple[int, ...], count: int = 4) -> list[tuple[tuple[int, ...], ...]]:
    """Ways to cut an array: whole, one element each along the last axis, and irregular ones at random."""
    rng = np.random.default_rng(0)
    whole = tuple((n,) for n in shape)
    found = [whole, (*whole[:-1], (1,) * shape[-1])]
    for _ in range(count):
        cut = [sorted({0, n, *rng.integers(1, n, rng.integers(1, 5)).tolist()}) for n in shape if n > 1]
        places = iter(cut)
        found.append(tuple(tuple(np.diff(next(places)).tolist()) if n > 1 else (n,) for n in shape))
    return found


# -- comparison -------------------------------------------------------------------------------------


def assert_same_codes(
    got: Any, want: Any, fmt: Format, inputs: Sequence[Any] | np.ndarray, projection: Projection | None = None
) -> None:
    """All codes are equal, or an AssertionError says how many are not and what the first one is."""
    got, want = np.asarray(got).reshape(-1), np.asarray(want).reshape(-1)
    assert got.size == want.size == len(inputs), f"{got.size} codes, {want.size} wanted, {len(inputs)} inputs"
    wrong = np.flatnonzero(got.astype(np.int64) != want.astype(np.int64))
    if wrong.size == 0:
        return
    first = int(wrong[0])
    raise AssertionError(
        f"{wrong.size:,} of {got.size:,} codes differ, first at input {spelled(inputs[first])}\n"
        f"    got  {described(int(got[first]), fmt)}\n"
        f"    want {described(int(want[first]), fmt)}\n"
        f"    {fmt}{'' if projection is None else f', {projection}'}"
    )


def assert_same_bits(
    got: np.ndarray, want: np.ndarray, inputs: Sequence[Any] | np.ndarray, what: str
) -> None:
    """All floats have equal bits, so that -0 and the sign of NaN count."""
    assert got.dtype == want.dtype, f"{what}: {got.dtype}, not {want.dtype}"
    assert got.shape == want.shape, f"{what}: {got.shape}, not {want.shape}"
    unsigned = f"u{got.dtype.itemsize}"
    wrong = np.flatnonzero(got.view(unsigned) != want.view(unsigned))
    if wrong.size:
        first = int(wrong[0])
        raise AssertionError(
            f"{what}: {wrong.size:,} of {got.size:,} values differ, first at {spelled(inputs[first])}: "
            f"got {float(got[first])!r}, want {float(want[first])!r}"
        )


def engines_agree(
    verb: Callable[..., Any], *given: Any, backends: Sequence[str | None] = (None, "scalar"), **options: Any
) -> Any:
    """Hold what engines give against each other: results, parts of blocks, and flags where `flags=True`.

    Return what the first one gives.
    """
    arrays = [each.shape for each in given if isinstance(each, np.ndarray | np.generic)]
    flagged, found = options.pop("flags", False), []
    for backend in backends:
        flags = np.full(np.broadcast_shapes(*arrays) if flagged else 0, 0x55, np.uint8)
        made = verb(*given, backend=backend, **options, **({"flags": flags} if flagged else {}))
        parts = (made.codes, made.scales, made.tensor_scale) if isinstance(made, lp.BlockArray) else (made,)
        found.append((made, [np.asarray(part) for part in (*parts, flags)]))
    for backend, (_, parts) in zip(backends, found, strict=True):
        for got, want in zip(found[0][1], parts, strict=True):
            what = f"{verb.__name__}, {backends[0]} and {backend}, {given[len(arrays) :]}, {options}"
            assert (got.shape, got.dtype) == (want.shape, want.dtype), what
            words = (part.view(f"u{part.itemsize}") if part.dtype != object else part for part in (got, want))
            np.testing.assert_array_equal(*words, err_msg=what)
    return found[0][0]


def assert_lazily(got: Any, want: np.ndarray) -> None:
    """Hold a Dask array against one in memory: its type, its shape and its bits, computed."""
    assert hasattr(got, "__dask_graph__")
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    made = got.compute(scheduler="threads")
    assert (made.dtype, made.shape) == (want.dtype, want.shape)
    assert np.array_equal(made.view(f"u{made.itemsize}"), want.view(f"u{want.itemsize}"))


def spelled(value: object) -> str:
    """An input, exactly: a float in hexadecimal, anything else as it is."""
    if isinstance(value, float | np.floating):
        return f"{float(value).hex()} ({float(value)!r})"
    return hex(value) if isinstance(value, int | np.integer) and value >= 0 else str(value)


def described(code: int, fmt: Format) -> str:
    """A code, its fields and its value."""
    if not 0 <= code < 1 << fmt.width:
        return f"{code:#x} is no code of {fmt}"
    bits = f"{code:0{fmt.width}b}"
    sign = fmt.width - fmt.exponent_bits - fmt.trailing_bits
    fields = [bits[:sign], bits[sign : sign + fmt.exponent_bits], bits[sign + fmt.exponent_bits :]]
    value = oracle.decode(code, fmt)
    number = value.value if isinstance(value, Special) else to_float(value)
    return f"0x{code:0{(fmt.width + 3) // 4}x}  {' '.join(field for field in fields if field)}  {number}"


# -- expected codes ---------------------------------------------------------------------------------


@functools.lru_cache(maxsize=2048)
def step_arrays(fmt: Format, projection: Projection) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """`oracle.steps` as arrays."""
    return tuple((np.array(firsts), np.array(codes)) for firsts, codes in oracle.steps(fmt, projection))


def stepped(values: np.ndarray, fmt: Format, projection: Projection) -> np.ndarray:
    """The codes of float64 values that are no NaNs, looked up in the oracle's step functions."""
    assert values.dtype == np.float64
    positive, negative = (
        codes[np.searchsorted(firsts, np.abs(values), side="right") - 1]
        for firsts, codes in step_arrays(fmt, projection)
    )
    return np.where(np.signbit(values), negative, positive)


def projected(values: Iterable[float], fmt: Format, projection: Projection) -> list[int]:
    """The oracle's codes of floats, one by one."""
    return [oracle.encode(float(value), fmt, projection) for value in values]


# -- inputs -----------------------------------------------------------------------------------------


def with_neighbours(points: Iterable[float]) -> np.ndarray:
    """Finite or infinite magnitudes, ascending, each with the float64 just below and above it."""
    bits = np.array([float(point) for point in points], np.float64).view(np.int64)
    around = np.unique(np.concatenate([bits - 1, bits, bits + 1]))
    return around[(around >= 0) & (around <= INFINITY_BITS)].view(np.float64)


def both_signs(magnitudes: np.ndarray) -> np.ndarray:
    """Magnitudes with either sign: 0 gives -0 too."""
    return np.concatenate([magnitudes, -magnitudes])


def value_of(magnitude: int, fmt: Format) -> Fraction:
    """Return the value of a magnitude; past the largest, on the continued grid."""
    significand, exponent = fmt.scaled(magnitude)
    return significand * Fraction(2) ** exponent


def value_and_tie(magnitude: int, fmt: Format) -> tuple[float, float]:
    """Return the value of a magnitude and the midpoint to the next; both are float64s."""
    low, high = value_of(magnitude, fmt), value_of(magnitude + 1, fmt)
    return to_float(low), to_float((low + high) / 2)


def border_points(fmt: Format, magnitudes: Iterable[int]) -> np.ndarray:
    """Values and ties of magnitudes, with their float64 neighbours, of both signs."""
    points = [point for magnitude in magnitudes for point in value_and_tie(magnitude, fmt)]
    return both_signs(with_neighbours(points))


def overflow_points(fmt: Format) -> np.ndarray:
    """Around the largest value, its tie, the next code, far above, and infinity; both signs."""
    last = fmt.max_magnitude
    points = [point for magnitude in (last - 1, last, last + 1) for point in value_and_tie(magnitude, fmt)]
    highest = max(points)
    far = [highest * 1.5, highest * 2, highest * 4, 2.0**1000, math.inf]
    return both_signs(with_neighbours([*points, *(value for value in far if value >= highest)]))


def ratio_of_times(call: Callable[[], object], usual: Callable[[], object], rounds: int = 4) -> float:
    """Return the ratio of two calls' times of the processor: the least of some rounds, by turns."""
    least = [math.inf, math.inf]
    for _ in range(rounds):
        for place, each in enumerate((call, usual)):
            begun = time.process_time()
            each()
            least[place] = min(least[place], time.process_time() - begun)
    return least[0] / least[1]


def assert_gradients_are_differences(layer: Callable[..., Any], upstream: Any, back: Any) -> None:
    """Hold a linear layer in numbers that its formats have against its loss with each operand one further.

    `layer` maps x, w and the bias to y and the gradients' function, which takes `back`; `upstream` is the
    gradient of y that `back` stands for. Small integers are exact, and the loss is linear in each operand.
    """
    rng = np.random.default_rng(3)
    operands = [rng.integers(-6, 7, shape).astype(np.float64) for shape in ((2, 3, 4), (5, 4), (5,))]
    x, w, b = operands
    y, gradients = layer(x, w, b)
    assert np.array_equal(y, x @ w.T + b)
    loss = float((upstream * y).sum())
    for place, got in enumerate(gradients(back)):
        assert got.shape == operands[place].shape
        for index in np.ndindex(got.shape):
            moved = operands[place].copy()
            moved[index] += 1
            further = layer(*operands[:place], moved, *operands[place + 1 :])[0]
            assert got[index] == float((upstream * further).sum()) - loss


def torch_code(page: str) -> str:
    """Return the code for torch on a page: all blocks without prompts, from the one that imports torch on."""
    blocks = re.findall(r"```python\n(?!>>>)(.*?)```", page, re.S)
    first = next(place for place, block in enumerate(blocks) if block.startswith("import torch\n"))
    return "\n".join(blocks[first:])
