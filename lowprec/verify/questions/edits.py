"""Small edits of the exact model, which change its results everywhere: a condition says where they hold.

A change of the catalogue is an edit too. Those here are of codes of results, of lanes and of scales.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from lowprec.arrays.convert import encode, quantize
from lowprec.spec.format import Format
from lowprec.verify.codes.values import doubles
from lowprec.verify.questions.dot_faults import Fault, flushed, of_sides
from lowprec.verify.questions.dot_operands import Given, OutputScales
from lowprec.verify.questions.features import has_fields
from lowprec.verify.questions.question import Array, Change

__all__ = [
    "code_edits",
    "lane_edits",
    "moves",
    "of_addends",
    "of_results",
    "of_rounding",
    "of_scale_codes",
    "of_scales",
]
__all__ += ["of_shifts", "orders"]
__all__ += ["product_edits", "runs_of", "value_edits"]

OnCodes = Callable[[Array, Format], Array]

#: Last bits of results that may be stuck.
_STUCK = 2


def of_results(fmt: Format) -> Iterator[Change]:
    """Yield edits of codes of results: functions of the codes and their format."""
    if not has_fields(fmt):
        return
    for words, change in _ON_CODES.items():
        if ("infinit" in words and not fmt.infinity) or ("NaN" in words and fmt.nan_code is None):
            continue
        yield Change("result_code", change, words)
    for bit in range(min(_STUCK, fmt.trailing_bits)):
        for value in (0, 1):
            stuck = functools.partial(_stuck, bit=bit, value=value)
            yield Change("result_code", stuck, f"bit {bit} of results is {value}", 2)


def _magnitude(change: Callable[[Array, Format], Array]) -> OnCodes:
    """Return codes whose magnitudes are changed, and whose signs are not."""

    def changed(codes: Array, fmt: Format) -> Array:
        return np.where(codes >= 0, codes & fmt.sign_code | change(codes & fmt.sign_code - 1, fmt), codes)

    return changed


def _scaled(codes: Array, fmt: Format, by: int) -> Array:
    made = np.maximum(codes + (by << fmt.trailing_bits), 0)
    return np.where(codes <= fmt.max_magnitude, made, codes)


def _stuck(codes: Array, fmt: Format, bit: int, value: int) -> Array:
    return np.where(codes >= 0, codes & ~(1 << bit) | value << bit, codes)


_ON_CODES: dict[str, OnCodes] = {
    "the next code toward zero": _magnitude(lambda m, fmt: np.maximum(m - 1, 0)),
    "the next code away from zero": _magnitude(lambda m, fmt: m + 1),
    "of the other sign": lambda codes, fmt: np.where(codes >= 0, codes ^ fmt.sign_code, codes),
    "half as large": _magnitude(functools.partial(_scaled, by=-1)),
    "twice as large": _magnitude(functools.partial(_scaled, by=1)),
    "zero, with their sign": _magnitude(lambda m, fmt: 0 * m),
    "+0": lambda codes, fmt: np.where(codes >= 0, 0, codes),
    "-0": lambda codes, fmt: np.where(codes >= 0, fmt.sign_code, codes),
    "the largest finite value, with their sign": _magnitude(lambda m, fmt: 0 * m + fmt.max_magnitude),
    "the largest finite value, positive": lambda codes, fmt: np.where(codes >= 0, fmt.max_magnitude, codes),
    "infinite, with their sign": _magnitude(lambda m, fmt: 0 * m + (fmt.infinity_code or 0)),
    "+infinity": lambda codes, fmt: np.where(codes >= 0, fmt.infinity_code or 0, codes),
    "NaN": lambda codes, fmt: np.where(codes >= 0, fmt.nan_code or 0, codes),
    "the smallest normal value, with their sign": _magnitude(lambda m, fmt: 0 * m + (1 << fmt.trailing_bits)),
    "the smallest value, with their sign": _magnitude(lambda m, fmt: 0 * m + 1),
    "without their trailing bits": _magnitude(lambda m, fmt: m >> fmt.trailing_bits << fmt.trailing_bits),
    "two codes nearer to zero": _magnitude(lambda m, fmt: np.maximum(m - 2, 0)),
    "two codes farther from zero": _magnitude(lambda m, fmt: m + 2),
}


def of_scale_codes(fmt: Format) -> Iterator[Change]:
    """Yield edits of the codes of blocks' scales, whose elements stay."""
    ends = {"0": 0, "that of the largest scale": fmt.max_magnitude, "that of 1": int(encode(1.0, fmt))}
    if fmt.nan_code is not None:
        ends["NaN"] = fmt.nan_code
    for words, code in ends.items():
        change = functools.partial(np.full_like, fill_value=code)
        yield Change("scale_code", change, f"the codes of scales {words}", 2)
    for by, words in ((1, "high"), (-1, "low")):
        yield Change("scale_code", functools.partial(np.add, by), f"the codes of scales one too {words}", 2)


# -- operands of dot products --------------------------------------------------------------------------

OnLanes = Callable[[Array], Fault]


def value_edits() -> dict[str, Callable[[Array], Array]]:
    """Return edits of values, in words: negated, rounded, cut, or left out."""
    changes: dict[str, Callable[[Array], Array]] = {"negated": np.negative}
    for name in ("bfloat16", "tf32", "binary16"):
        changes[f"rounded to {name}"] = functools.partial(_rounded, name=name)
        if name != "binary16":
            changes[f"cut off to {name}"] = functools.partial(_rounded, name=name, rounding="toward_zero")
    return changes | {"without its sign": np.abs, "taken as zero": np.zeros_like}


def of_addends() -> Iterator[Change]:
    """Yield addends whose values are edited."""
    for words, change in value_edits().items():
        yield Change("addend", functools.partial(_addend, change=change), f"the addend {words}")


def _rounded(values: Array, name: str, rounding: str = "nearest_even") -> Array:
    return np.asarray(quantize(doubles(values), name, rounding=rounding))


def _addend(given: Given, change: Callable[[Array], Array]) -> Given:
    assert given.addend is not None, "asked of units with one"
    with np.errstate(all="ignore"):
        return given._replace(addend=change(given.addend).astype(given.addend.dtype))


def moves(size: int) -> dict[str, Array]:
    """Return orders of so many lanes: which lane comes to the place of each."""
    lane = np.arange(size)
    found = {
        "rotated by one lane up": (lane - 1) % size,
        "rotated by one lane down": (lane + 1) % size,
        "in reverse": size - 1 - lane,
        "in halves exchanged": (lane + size // 2) % size,
    }
    return found | ({"exchanged in pairs": lane ^ 1} if size % 2 == 0 else {})


def orders(length: int, period: int) -> Iterator[Change]:
    """Yield lanes of x or y that are exchanged in pairs, rotated or in reverse, in all steps or in K."""
    for size, where in dict.fromkeys([(period, f" in each step of {period}"), (length, "")]):
        if not 1 < size <= length or length % size:
            continue
        first = np.arange(length) // size * size
        for words, to in moves(size).items():
            for side in (0, 1):
                taken = functools.partial(np.take, indices=first + np.resize(to, length), axis=-1)
                yield Change("fault", of_sides((side,), taken), f"{'xy'[side]} {words}{where}", 2)


def lane_edits(formats: tuple[Format | None, Format | None]) -> Iterator[tuple[str, OnLanes]]:
    """Yield edits of lanes of x and y, each as words and what makes the edit of some lanes."""
    for side, fmt in enumerate(formats):
        name = "xy"[side]
        if fmt is None or not has_fields(fmt) or fmt.width > 32:
            continue
        changes: dict[str, Callable[[Array], Array]] = {
            f"the last bit of {name} read as 0": functools.partial(_last_bit, fmt=fmt, value=0),
            f"the last bit of {name} read as 1": functools.partial(_last_bit, fmt=fmt, value=1),
            f"the sign of {name} lost": np.abs,
            f"{name} negated": np.negative,
            f"{name} read as zero": np.zeros_like,
        }
        if fmt.subnormals:
            changes[f"subnormal {name} taken as zero"] = functools.partial(flushed, least=2.0**fmt.emin)
        for words, change in changes.items():
            yield words, functools.partial(_in_lanes, side=side, change=change)


def code_edits(fmt: Format) -> dict[str, Callable[[Array], Array]]:
    """Return edits of codes of operands, in words: of signs, of last bits, and of subnormal numbers."""
    if not has_fields(fmt) or fmt.width > 32:
        return {}

    def of_numbers(change: Callable[[Array], Array]) -> Callable[[Array], Array]:
        return lambda codes: np.where(codes & fmt.sign_code - 1 <= fmt.max_magnitude, change(codes), codes)

    found = {
        "negated": lambda codes: codes ^ fmt.sign_code,
        "without its sign": lambda codes: codes & fmt.sign_code - 1,
        "with its last bit 0": of_numbers(lambda codes: codes & ~1),
        "with its last bit 1": of_numbers(lambda codes: codes | 1),
        "without its last two bits": of_numbers(lambda codes: codes & ~3),
    }
    if fmt.subnormals:
        low = (1 << fmt.trailing_bits) - 1
        found["taken as zero if it is subnormal"] = lambda codes: np.where(
            codes & fmt.sign_code - 1 <= low, codes & fmt.sign_code, codes
        )
    return found


def product_edits(formats: Sequence[Format | None]) -> Iterator[tuple[str, OnLanes]]:
    """Yield edits of the products of some lanes of a step, each as words and what makes the edit."""
    changes: dict[str, Callable[[Array], Array]] = {
        "the last bit of products lost": lambda whole: whole & ~1,
        "the last bit of products set": lambda whole: whole | (whole > 0),
        "the last two bits of products lost": lambda whole: whole & ~3,
    }
    for words, change in changes.items():
        yield words, functools.partial(_of_products, change=change)
    for fmt in dict.fromkeys(formats):
        if fmt is not None and has_fields(fmt):
            for by, said in ((True, ""), (False, ", by the exponents of their factors")):
                small = functools.partial(_small_lost, least=fmt.emin, exact=by)
                yield f"products below the normal numbers of {fmt.name} taken as zero{said}", small


def _small_lost(lanes: Array, least: int, exact: bool) -> Fault:
    """Return the stage of terms in which products of some lanes are zero if their exponent is too small."""

    def changed(terms: Any) -> Any:
        made = terms.significand.copy()
        held = lanes[lanes < made.shape[1] - 1]
        exponent = terms.exponent[:, held]
        if exact:
            exponent = np.frexp(made[:, held].astype(np.float64))[1] - 1 + terms.last[:, held]
        made[:, held] = np.where(exponent < least, 0, made[:, held])
        return terms._replace(significand=made)

    return changed


def _of_products(lanes: Array, change: Callable[[Array], Array]) -> Fault:
    """Return the stage of terms in which the significands of some products are changed."""

    def changed(terms: Any) -> Any:
        made = terms.significand.copy()
        held = lanes[lanes < made.shape[1] - 1]
        made[:, held] = change(made[:, held])
        return terms._replace(significand=made)

    return changed


def _in_lanes(lanes: Array, side: int, change: Callable[[Array], Array]) -> Fault:
    def changed(values: Array) -> Array:
        made = np.array(values)
        with np.errstate(all="ignore"):
            made[..., lanes] = change(made[..., lanes])
        return made

    return of_sides((side,), changed)


def _last_bit(values: Array, fmt: Format, value: int) -> Array:
    """Return values of a format with the last bit 0 or 1, past the largest NaN; infinities and NaNs stay."""
    size = np.abs(np.where(np.isfinite(values), values, 0)).astype(np.float64)
    exponent = np.maximum(np.where(size > 0, np.frexp(size)[1] - 1, fmt.emin), fmt.emin)
    unit = np.ldexp(1.0, exponent - fmt.trailing_bits)
    whole = size / unit
    whole += value - np.mod(whole, 2)
    made = np.copysign(np.where(whole * unit > fmt.max_finite, np.nan, whole * unit), values)
    return np.where(np.isfinite(values), made, values).astype(values.dtype)


def runs_of(lanes: Array) -> str:
    """Return ascending lanes in words: "lanes 0, 2 and 9"."""
    said = [str(lane) for lane in lanes.tolist()]
    return f"lane {said[0]}" if len(said) == 1 else f"lanes {', '.join(said[:-1])} and {said[-1]}"


# -- scales of blocks ----------------------------------------------------------------------------------


def of_scales(count: int, least: float = 0.0) -> Iterator[Change]:
    """Yield scales of blocks that are taken from other blocks, or clamped; there are `count` along K."""
    changes: dict[str, Callable[[Array], Array]] = {
        "clamped at 1 from above": lambda scales: np.minimum(scales, 1.0),
        "clamped at 1 from above, NaN too": lambda scales: np.fmin(scales, 1.0),
        "NaN taken as 1": lambda scales: np.where(np.isnan(scales), 1.0, scales),
        "clamped at 1 from below": lambda scales: np.maximum(scales, 1.0),
        "left out: 1": np.ones_like,
        "one exponent too low": lambda scales: scales / 2,
        "one exponent too high": lambda scales: scales * 2,
    }
    if count > 1:
        changes |= {
            "in reverse order of blocks": lambda scales: scales[..., ::-1],
            "of the block before": lambda scales: np.roll(scales, 1, -1),
            "of the block behind": lambda scales: np.roll(scales, -1, -1),
            "of the first block for all": lambda scales: np.repeat(scales[..., :1], count, -1),
            "of the last block for all": lambda scales: np.repeat(scales[..., -1:], count, -1),
        }
    for words, change in changes.items():
        for sides, name in (((0,), "x"), ((1,), "y"), ((0, 1), "x and y")):
            edit = functools.partial(_with_scales, sides=sides, change=change)
            yield Change("fault", edit, f"the scales of {name} {words}", 2)
    yield Change("fault", _exchanged_scales, "the scales of x and y exchanged", 2)


def _with_scales(given: Given, sides: tuple[int, ...], change: Callable[[Array], Array]) -> Given:
    assert given.scales is not None, "asked of units with scales"
    made = given.scales
    for side, name in enumerate(("x_blocks", "y_blocks")):
        blocks = getattr(made, name)
        if side in sides and blocks is not None:
            made = made._replace(**{name: blocks._replace(scales=change(blocks.scales))})
    return given._replace(scales=made)


def _exchanged_scales(given: Given) -> Given:
    assert given.scales is not None, "asked of units with scales"
    scales: OutputScales = given.scales
    return given._replace(
        scales=scales._replace(x_blocks=scales.y_blocks, y_blocks=scales.x_blocks, x=scales.y, y=scales.x)
    )


# -- alignment -----------------------------------------------------------------------------------------


def _shifts() -> Iterator[tuple[str, Callable[[Array], Array]]]:
    for bits in (3, 4, 5, 6):
        yield f"shifts of alignment modulo {1 << bits}", functools.partial(np.bitwise_and, (1 << bits) - 1)
    for most in (7, 8, 15, 16, 23, 24, 25, 26, 31, 32, 48, 63):
        yield f"shifts of alignment at most {most}", functools.partial(np.minimum, most)


def of_shifts(fault: Callable[..., Change]) -> Iterator[Change]:
    """Yield terms that are shifted by other amounts when they are aligned."""
    for words, change in _shifts():
        yield fault(words, 2, above=functools.partial(_shifted, change=change))


def _shifted(terms: object, largest: Array, change: Callable[[Array], Array]) -> object:
    shift = np.maximum(largest[:, None] - terms.exponent, 0)  # type: ignore[attr-defined]
    return terms._replace(last=terms.last + shift - change(shift))  # type: ignore[attr-defined]


# -- rounding of sums ----------------------------------------------------------------------------------


def of_rounding(fault: Callable[..., Change], fmt: Format) -> Iterator[Change]:
    """Yield sums that are rounded otherwise at ties, where they are subnormal, or where they carry."""
    for words, away in {"cut toward zero": False, "rounded away from zero": True}.items():
        cut = functools.partial(_subnormal, least=fmt.emin, away=away)
        yield fault(f"subnormal sums of steps {words}", 2, before=cut)
    for words, up in {"ties up": False, "ties down": True}.items():
        yield fault(f"sums of steps: {words}", 2, before=functools.partial(_ties, negative=up))
    lost = "the increment of rounding lost where it carries into the exponent"
    yield fault(lost, 2, after=_increment_lost)


def _subnormal(sums: Any, least: int, away: bool) -> Any:
    """Return sums of which subnormal ones are cut to the result's last place, or raised to the next."""
    places = np.clip(sums.discarded, 0, 62)
    top = np.frexp(sums.significand.astype(np.float64))[1] - 1 + sums.last
    kept, rest = sums.significand >> places, sums.significand & (np.int64(1) << places) - 1
    low = (top < least) & (sums.significand > 0) & (sums.discarded > 0)
    # Two bits more, for what is below: a sum that is cut to zero keeps its sign.
    whole = (kept + ((rest > 0) & away) << 2) + ((rest > 0) & (not away))
    return sums._replace(
        significand=np.where(low, whole, sums.significand),
        last=sums.last + np.where(low, sums.discarded - 2, 0),
    )


def _ties(sums: Any, negative: bool) -> Any:
    """Return sums of which ties lie a little farther from zero if they are of a sign, else nearer."""
    places = np.clip(sums.discarded, 1, 60)
    tie = (sums.discarded > 0) & (sums.significand & ((1 << places) - 1) == 1 << places - 1)
    moved = (sums.significand << 1) + np.where(sums.negative == negative, 1, -1)
    return sums._replace(significand=np.where(tie, moved, sums.significand), last=sums.last - tie)


def _increment_lost(codes: Array, sums: Any, fmt: Format) -> Array:
    places, one = np.clip(sums.discarded, 0, 62), 1 << fmt.trailing_bits
    below = (sums.discarded > 0) & (sums.significand >> places == 2 * one - 1)
    return np.where(below & (codes & one - 1 == 0), codes - 1, codes)
