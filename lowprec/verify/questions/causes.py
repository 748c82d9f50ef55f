"""Changes that a diagnosis tries: rules of which one may explain the results.

Each change is something that implementations are known to do. Hypotheses that explain as much as each other
at the same cost are told in the order of the changes here.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.checks import code_dtype
from lowprec.arrays.convert import decode, encode
from lowprec.spec import catalog
from lowprec.spec.codebook import Codebook
from lowprec.spec.codebooks import ENTRIES
from lowprec.spec.format import Carrier, Format, Sign
from lowprec.spec.profiles import PROFILES
from lowprec.spec.projection import Projection
from lowprec.spec.rounding import MODES, P3109_VARIANTS, Rounding, Threshold, stochastic
from lowprec.verify.codes.values import as_doubles, is_nan
from lowprec.verify.questions.features import exponents, has_fields
from lowprec.verify.questions.question import Change
from lowprec.verify.questions.scales import POWERS

__all__ = ["GUARDED", "Operands", "added_to_codes", "edited_code", "finer", "third"]
__all__ += [
    "SATURATIONS",
    "codes",
    "cut_behind_guard",
    "formats",
    "guard_words",
    "in_words",
    "leading_ones",
    "led_by",
    "other_modes",
]
__all__ += ["operands", "places", "profiles", "projections", "swapped", "valued"]

Array = npt.NDArray[Any]

#: Bits behind the guard bit that a rounder without sticky bit may see.
GUARDED = 8

#: What rounding modes are called where they were not asked for; others by their names.
_ROUNDINGS = {
    "nearest_even": "ties to even",
    "nearest_away": "ties away from zero",
    "nearest_zero": "ties toward zero",
    "toward_zero": "truncation: rounded toward zero",
    "toward_positive": "rounded up, toward +infinity",
    "toward_negative": "rounded down, toward -infinity",
    "away_from_zero": "rounded away from zero",
    "to_odd": "rounded to odd",
}
#: From where on numbers are rounded away from zero, in words.
_FROM = {
    Threshold.ANY: "if anything is cut",
    Threshold.HALF_OR_ABOVE: "from ties on",
    Threshold.ABOVE_HALF: "above ties",
    Threshold.NEVER: "never",
}
SATURATIONS = {
    "none": "overflow becomes infinity, or NaN where there is none",
    "finite": "saturation: overflow becomes the largest finite value",
    "propagate": "saturation of finite values; infinities stay infinite",
}
_SUBNORMALS = {
    "keep": "subnormals kept",
    "flush_results": "flush to zero: subnormal results become zeros",
    "flush_operands": "subnormal operands count as zeros",
    "flush_both": "subnormal operands and results become zeros",
}
_REST = {
    "overflow_test": {
        "before": "overflow judged before rounding",
        "after": "overflow judged after rounding",
        "exponent": "overflow judged by the exponent before rounding",
    },
    "tininess": {
        "before": "tininess judged before rounding",
        "after": "tininess judged after rounding",
    },
    "nan_sign": {
        "drop": "the signs of NaNs dropped",
        "keep": "the signs of NaNs kept",
        "positive": "every NaN positive, that of overflow too",
    },
    "nan_payload": {
        "first": "the payloads of NaNs kept",
        "signaling_first": "the payloads of NaNs kept, the first signaling one's",
        "drop": "the payloads of NaNs dropped",
    },
}
_NEGATIVE = {
    "nan": "negative values become NaN, or 0 where there is none",
    "zero": "negative values become zero",
    "drop_sign": "the signs of negative values dropped",
}
_ZERO = {"smallest": "zero becomes the smallest value", "nan": "zero becomes NaN"}
_SMALLEST = {"zero": "the smallest value counts as zero", "itself": "the smallest value is no zero"}


def in_words(mode: Rounding | str) -> str:
    """Return what a rounding mode does, in words."""
    return _ROUNDINGS.get(str(mode), str(mode).replace("_", " "))


def other_modes() -> Iterator[Rounding]:
    """Yield rounding modes without names of their own: ties by sign, and thresholds by the last bit."""
    ties = {
        "to even": (Threshold.ABOVE_HALF, Threshold.HALF_OR_ABOVE),
        "away from zero": (Threshold.HALF_OR_ABOVE,) * 2,
        "toward zero": (Threshold.ABOVE_HALF,) * 2,
        "to odd": (Threshold.HALF_OR_ABOVE, Threshold.ABOVE_HALF),
    }
    short = {("away from zero", "toward zero"): "ties up", ("toward zero", "away from zero"): "ties down"}
    made = {}
    for (plus, of_plus), (minus, of_minus) in itertools.product(ties.items(), repeat=2):
        by_sign = f"ties {plus} of positive results, {minus} of negative ones"
        words = f"ties {plus}" if plus == minus else short.get((plus, minus), by_sign)
        made[of_plus + of_minus] = words
    for even, odd in itertools.product(_FROM, repeat=2):
        words = f"rounded away from zero {_FROM[even]} where the last bit is 0, {_FROM[odd]} where it is 1"
        made.setdefault((even, odd) * 2, words)
    known = {(m.positive_even, m.positive_odd, m.negative_even, m.negative_odd) for m in MODES}
    yield from (Rounding(words, *of) for of, words in made.items() if of not in known)


def projections(target: Format, asked: Projection, sources: tuple[Format, ...]) -> Iterator[Change]:
    """Yield another rounding, saturation, treatment of subnormals and the like."""
    for mode in MODES:
        if mode != asked.rounding:
            yield Change("rounding", mode, f"{in_words(mode)} ({mode} instead of {asked.rounding})")
    for variant in P3109_VARIANTS if asked.rounding.variant in P3109_VARIANTS else ():
        if variant != asked.rounding.variant:
            mode = stochastic(asked.rounding.bits, variant)
            yield Change("rounding", mode, f"the same random integers by variant {variant} ({mode})")
    tables = {"saturation": SATURATIONS, "subnormals": _SUBNORMALS, **_REST}
    if target.sign is Sign.UNSIGNED:
        tables["negative"] = _NEGATIVE
    if isinstance(target, Codebook):
        yield from _of_codebooks(target, asked)
    elif target.exponent_bits and not target.subnormals:  # there is no zero
        tables["zero"], tables["smallest"] = _ZERO, _SMALLEST
    for field, words in tables.items():
        for value, said in words.items():
            if value != str(getattr(asked, field)):
                yield Change(field, value, said)
    if target.nans > 1 and not isinstance(target, Codebook):
        first = target.max_magnitude + target.infinity + 1
        last = first + target.nans - 1
        for code in dict.fromkeys((last, first, last - 1, first | 1 << max(target.trailing_bits - 1, 0))):
            if first <= code <= last and code not in (asked.nan_code, target.nan_code):
                yield Change("nan_code", code, f"NaN is {code:#x}")
    if target.sign is Sign.TWOS_COMPLEMENT:
        yield Change("symmetric", not asked.symmetric, "the most negative code is left out")
    for stop in (
        catalog.BINARY32,
        catalog.BINARY16,
        catalog.BFLOAT16,
        catalog.TF32,
        catalog.E4M3FN,
        catalog.E5M2,
    ):
        if stop == target or (stop,) == asked.via or (len(sources) == 1 and stop.contains(sources[0])):
            continue
        twice = f"double rounding: to {stop.name} first, then to {target.name}"
        yield Change("via", (stop,), twice, 1 if stop.width >= target.width else 3)
    if asked.via:
        yield Change("via", (), "rounded once")


_TIES = {
    "even": "ties to the even code",
    "away": "ties away from zero",
    "zero": "ties toward zero",
    "up": "ties to the higher value",
    "down": "ties to the lower value",
}


def _of_codebooks(target: Codebook, asked: Projection) -> Iterator[Change]:
    """Yield the same values with other thresholds, ties, overflow or NaN."""
    if not target.subnormals:
        for value, said in _ZERO.items():
            if value != asked.zero:
                yield Change("zero", value, said)
    name, values = target.name, target.values
    own: dict[str, Any] = {"thresholds": target.thresholds, "ties": target.ties, "overflow": target.overflow}
    midpoints = {**own, "thresholds": None}
    words = f"thresholds at the middles between values, not {name}'s own"
    others = [(midpoints, words)] if Codebook(name, values, **midpoints) != target else []
    others += [({**own, "ties": ties}, said) for ties, said in _TIES.items() if ties != target.ties]
    overflows = {"gap": "overflow half a gap past the largest value", "never": "nothing overflows"}
    others += [
        ({**own, "overflow": rule}, said) for rule, said in overflows.items() if rule != target.overflow
    ]
    for fields, said in others:
        with contextlib.suppress(ValueError):  # a gap of too many bits
            yield Change("format", Codebook(name, values, **fields), said)
    for code in [code for code, value in enumerate(values) if value != value][:8]:
        if code not in (asked.nan_code, target.nan_code):
            yield Change("nan_code", code, f"NaN is {code:#x}")


def formats(target: Format, received: np.dtype[Any] | None) -> Iterator[Change]:
    """Yield another format, of codes as wide; of values any."""
    known = {fmt: 1 for fmt in catalog.FORMATS.values()}
    if target.width <= 8:
        known |= {fmt: 2 for fmt in catalog.P3109_UP_TO_8 if fmt not in known}
    if isinstance(target, Codebook):
        # Those of 16 bits take seconds to make.
        wide = (name for name, entry in ENTRIES.items() if entry.width == target.width <= 8)
        known |= {catalog.format(name): 2 for name in wide}
    for fmt, cost in known.items():
        alike = fmt.width == target.width if received is not None else fmt.width <= 16
        if fmt != target and alike:
            yield Change("format", fmt, f"{fmt.name} instead of {target.name}", cost)


def profiles(target: Format, asked: Projection) -> Iterator[Change]:
    """Yield the profiles that treat the target otherwise."""
    for name, profile in PROFILES.items():
        if not isinstance(target, Codebook) and target in profile.formats:
            rule = profile.projection(target)
            if rule != asked and not rule.rounding.bits:
                yield Change("profile", profile, f"what profile {name!r} does", 2)


# -- operands ----------------------------------------------------------------------------------------

Operands = tuple[list[Array], tuple[Format, ...]]


def operands(operation: str, sources: tuple[Format, ...]) -> Iterator[Change]:
    """Yield operands that were changed, or taken in another order."""
    first, target = sources[0], sources[-1]
    if operation == "convert":
        floats = not isinstance(first, Carrier) or first.exponent_bits > 0
        if floats:
            for name, width in (("bfloat16", 16), ("binary32", 32)):
                if first.width > width and first.exponent_bits and catalog.format(name).contains(target):
                    cut = functools.partial(_cut, name=name)
                    yield Change("operand", cut, f"operands cut off to {name} first, not rounded", 1)
            if not isinstance(target, Codebook) and target.exponent_bits:
                for bits in range(GUARDED):
                    lost = functools.partial(cut_behind_guard, fmt=target, bits=bits)
                    yield Change("operand", functools.partial(valued, change=lost), guard_words(bits), 2)
            for power in POWERS:
                words = f"a bias or scale off by {-power}: operands times 2**{power}"
                times = functools.partial(np.multiply, 2.0**power)
                yield Change("operand", functools.partial(valued, change=times), words, 2)
        if first.sign is Sign.MAGNITUDE and not isinstance(first, Codebook):
            for change, code, words in (
                (np.bitwise_xor, first.sign_code, "signs inverted"),
                (np.bitwise_and, first.sign_code - 1, "signs dropped"),
            ):
                yield Change("operand", functools.partial(_coded, change=change, code=code), words, 2)
    if operation == "fma":
        for fmt in dict.fromkeys((target, catalog.BINARY32, catalog.BFLOAT16, catalog.BINARY16)):
            yield Change("unfused", fmt, f"not fused: the product is rounded to {fmt.name}, then the sum")
    if operation in ("subtract", "divide", "remainder", "copysign", "nextafter"):
        yield Change("operand", swapped, "operands in the other order")


def passed(
    given: list[Array], sources: tuple[Format, ...], places: Array, place: int
) -> tuple[str, list[Array], tuple[Format, ...]]:
    """Return the conversion of one operand, which is the result."""
    return "convert", [given[place]], (sources[place],)


def zero_of_both(
    given: list[Array], sources: tuple[Format, ...], places: Array
) -> tuple[str, list[Array], tuple[Format, ...]]:
    """Return the product of a zero with the sign of one operand, and a one with that of the other."""
    signs = [codes & codes.dtype.type(fmt.sign_code) for codes, fmt in zip(given, sources, strict=True)]
    return "multiply", [signs[0], signs[1] | signs[1].dtype.type(int(encode(1.0, sources[1])))], sources


def _cut(given: list[Array], sources: tuple[Format, ...], name: str) -> Operands:
    to = catalog.format(name)
    # Codes, not values: a cut NaN may be an infinity, as it is where bits are dropped.
    source = sources[0]
    if source.exponent_bits == to.exponent_bits:
        dropped = given[0].dtype.type(source.trailing_bits - to.trailing_bits)
        return [given[0] >> dropped << dropped], sources
    numbers = given[0].view(np.float64) if source.width == 64 else np.asarray(decode(given[0], source))
    return [np.asarray(encode(numbers, to, rounding="toward_zero"))], (to,)


@np.errstate(all="ignore")
def valued(
    given: list[Array], sources: tuple[Format, ...], change: Callable[[Array], Array], place: int = 0
) -> Operands:
    """Return an operand's values, changed, as binary64."""
    made = np.asarray(change(as_doubles(given[place], sources[place]))).view(np.uint64)
    formats = *sources[:place], catalog.BINARY64, *sources[place + 1 :]
    return [*given[:place], made, *given[place + 1 :]], formats


def leading_ones(names: Sequence[str], formats: Sequence[Format]) -> Iterator[Change]:
    """Yield operands whose leading one, which subnormal numbers lack, is by the exponent of another."""
    with_one = [
        place for place in range(len(names)) if has_fields(formats[place]) and formats[place].subnormals
    ]
    for place, other in itertools.permutations(with_one, 2):
        made = functools.partial(_led, place=place, other=other)
        yield Change(
            "operand", made, f"the leading one of {names[place]} by the exponent of {names[other]}", 2
        )


def _led(given: list[Array], sources: tuple[Format, ...], place: int, other: int) -> Operands:
    normal = ~(np.abs(as_doubles(given[other], sources[other])) < 2.0 ** sources[other].emin)
    least = 2.0 ** sources[place].emin
    own = as_doubles(given[place], sources[place])
    made = led_by(own, normal, least)
    found = np.asarray(encode(np.where((made == own) | np.isnan(own), 0, made), sources[place]))
    codes = np.where((made == own) | np.isnan(own), given[place], found)
    return [*given[:place], codes, *given[place + 1 :]], sources


@np.errstate(all="ignore")
def led_by(values: Array, normal: Array, least: float) -> Array:
    """Return values, of which zeros stay, with a leading one at some places alone."""
    size, plain = np.abs(values), np.isfinite(values) & (values != 0)
    added = np.where(plain & normal & (size < least), least, 0)
    lost = np.where(plain & ~normal & (size >= least), np.ldexp(1.0, exponents(values)), 0)
    return np.asarray(np.copysign(size + added - lost, values), values.dtype)


def _coded(given: list[Array], sources: tuple[Format, ...], change: Any, code: int) -> Operands:
    return [change(given[0], given[0].dtype.type(code))], sources


def swapped(given: list[Array], sources: tuple[Format, ...]) -> Operands:
    """Return two operands in the other order."""
    return [given[1], given[0], *given[2:]], (sources[1], sources[0], *sources[2:])


# -- places ------------------------------------------------------------------------------------------


def places(size: int, shape: tuple[int, ...], target: Format) -> Iterator[Change]:
    """Yield results at other places than their operands: where the operand of each lies, if it is inside."""
    names = {
        1: "swapped nibbles: the two codes of a byte" if target.width == 4 else "neighbours swapped in pairs",
        3: "the order of four reversed (bytes of 32-bit words)",
        7: "the order of eight reversed",
    }
    for bits, words in names.items():
        if size > bits:
            yield Change("place", functools.partial(np.bitwise_xor, bits), words)
    if len(shape) > 1 and min(shape[-2:]) > 1:
        transposed = functools.partial(_transposed, shape=shape[-2:])
        yield Change("place", transposed, "transposed: rows and columns exchanged")
    for step in (1, 2, 4, 8, 16, 32, 64, 128):
        for by in (step, -step):
            if size > step:
                words = f"shifted by {step} to the {'right' if by > 0 else 'left'}"
                yield Change("place", functools.partial(np.add, -by), words)
    if size > 1:
        yield Change("place", functools.partial(np.subtract, size - 1), "in reverse order")


def _transposed(index: Array, shape: tuple[int, ...]) -> Array:
    rows, columns = shape
    matrix, inside = np.divmod(index, rows * columns)
    row, column = np.divmod(inside, rows)  # of the transposed matrix, which has `columns` rows
    return np.asarray(matrix * (rows * columns) + column * columns + row)


# -- codes -------------------------------------------------------------------------------------------


def codes(target: Format) -> Iterator[Change]:
    """Yield right results that were written otherwise: functions of their codes and format."""
    yield Change(
        "received", lambda made, _: np.zeros_like(made), "zeros everywhere, as if nothing had been written", 0
    )
    if target.width == 8:
        halves = "swapped nibbles: the halves of each byte"
        yield Change("received", lambda made, _: (made << 4 | made >> 4).astype(made.dtype), halves)
    if target.width in (16, 32):
        yield Change("received", lambda made, _: made.byteswap(), "swapped bytes: the other byte order")
    if code_dtype(target).itemsize * 8 != target.width:
        yield Change("received", _left, "codes at the upper end of their bytes")
    yield Change("received", _bits_reversed, "bits in reverse order")
    if target.sign is Sign.MAGNITUDE and not isinstance(target, Codebook):
        yield Change("received", lambda made, fmt: _wide(made) ^ fmt.sign_code, "signs inverted")
        yield Change("received", lambda made, fmt: _wide(made) & ~fmt.sign_code, "signs dropped")
        yield Change(
            "received",
            lambda made, fmt: np.where(_wide(made) & fmt.sign_code, 0, _wide(made)),
            "negative results become zero, as a ReLU makes them",
        )


def _wide(made: Array) -> Array:
    return made.astype(np.int64)


def _left(made: Array, target: Format) -> Array:
    return np.asarray(_wide(made) << (8 * code_dtype(target).itemsize - target.width))


def _bits_reversed(made: Array, target: Format) -> Array:
    bits = ((_wide(made) >> bit & 1) << (target.width - 1 - bit) for bit in range(target.width))
    return np.asarray(sum(bits))


# -- a rounder without sticky bit --------------------------------------------------------------------


def cut_behind_guard(values: npt.ArrayLike, fmt: Format, bits: int) -> npt.NDArray[np.float64]:
    """Return values cut toward zero so many bits behind the guard bit, which follows a format's last place.

    >>> from lowprec.spec.catalog import E4M3FN
    >>> [cut_behind_guard([1.0625 + 2.0**-9], E4M3FN, bits).tolist() for bits in (0, 4, 5)]
    [[1.0625], [1.0625], [1.064453125]]
    """
    numbers = np.asarray(values, np.float64)
    finite = np.isfinite(numbers)
    held: npt.NDArray[Any] = np.where(finite, numbers, 0)
    exponent = np.maximum(np.frexp(held)[1] - 1, fmt.emin)
    last = exponent - fmt.trailing_bits - 1 - bits
    with np.errstate(all="ignore"):  # numbers may lie far below the format's
        return np.where(finite, np.ldexp(np.trunc(np.ldexp(held, -last)), last), numbers)


def guard_words(bits: int) -> str:
    """Return in words what such a rounder sees."""
    behind = f" and {bits} bit{'s' * (bits > 1)} behind it" if bits else ""
    return f"sticky bit lost: rounded by the guard bit{behind} alone"


# -- edits of operands ---------------------------------------------------------------------------------


def finer(fmt: Format, bits: int) -> Format:
    """Return a format with so many trailing bits more."""
    return Format(
        name=f"{fmt.name} and {bits} bits", exponent_bits=fmt.exponent_bits, bias=fmt.bias,
        trailing_bits=fmt.trailing_bits + bits, nans=1, infinity=True,
    )  # fmt: skip


def edited_code(
    given: list[Array], sources: tuple[Format, ...], place: int, change: Callable[[Array], Array]
) -> tuple[list[Array], tuple[Format, ...]]:
    """Return the operands with the codes of one changed."""
    made = list(given)
    made[place] = change(given[place].astype(np.int64)).astype(given[place].dtype)
    return made, sources


def payloads_kept(operands: Array, codes: Array, source: Format, target: Format, quiet: bool) -> Array:
    """Return codes of which NaNs have the signs, and the first trailing bits, of the operands' codes."""
    more, trailing = target.trailing_bits - source.trailing_bits, (1 << target.trailing_bits) - 1
    payload = operands << more if more > 0 else operands >> -more
    made = payload & trailing | quiet << target.trailing_bits >> 1 | target.sign_code - 1 & ~trailing
    made |= np.where(operands & source.sign_code != 0, target.sign_code, 0)
    return np.where(is_nan(operands.astype(np.uint32), source), made, codes).astype(codes.dtype)


def added_to_codes(operands: Array, codes: Array, by: int) -> Array:
    """Return upper halves of codes, rounded to nearest, ties to even: a carry may go into the sign."""
    if by < 1:
        return codes
    made = operands + (1 << by - 1) - 1 + (operands >> by & 1) >> by
    return np.asarray(made & 2 ** (8 * codes.dtype.itemsize) - 1).astype(codes.dtype)


def third(
    given: list[Array], sources: tuple[Format, ...], change: Callable[[Array], Array]
) -> tuple[list[Array], tuple[Format, ...]]:
    """Return the operands with the addend's value changed."""
    with np.errstate(all="ignore"):
        values = np.asarray(change(as_doubles(given[2], sources[2])), np.float64)
    how = Projection(nan="max") if sources[2].nan_code is None else Projection()
    made = np.asarray(encode(values, sources[2], projection=how))
    return [*given[:2], made], sources
