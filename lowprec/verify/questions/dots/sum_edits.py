"""Edits of the sums of a step: how terms are shifted and cut, and how their sum is rounded."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lowprec.spec.accumulation import Window
from lowprec.spec.format import Format
from lowprec.spec.rounding import MODES
from lowprec.verify.questions.causes import in_words, other_modes
from lowprec.verify.questions.conversion_edits import shifts, wrapped_at
from lowprec.verify.questions.dots.stages import OF_A_STEP, fault
from lowprec.verify.questions.dots.step_cuts import (
    OF_PRODUCTS,
    Numbers,
    Parts,
    chosen,
    limited,
    terms_in,
    which_terms,
)
from lowprec.verify.questions.dots.step_sums import Sum, carry_lost
from lowprec.verify.questions.dots.step_trees import Nodes, places_of_nodes
from lowprec.verify.questions.question import Array, Change
from lowprec.verify.questions.result_edits import of_wrapped

__all__ = [
    "lane_shifts",
    "narrowed",
    "node_edits",
    "of_behind",
    "of_left_shifts",
    "of_rounding",
    "of_shifts",
    "of_steps",
    "of_unseen",
]

#: Last steps of which each may have a fault of its own.
_STEPS = 16
#: Places behind the last bit of another term in which a term may be cut.
_BEHIND = 4
#: Places below the largest exponent at which terms may be cut.
_BELOW = 8, 49
#: Last bits of rounded sums that may be lost.
_LOST = 8
#: Terms of a step by words: whether they may be products, and running sums.
_SOME_TERMS = {"terms": (True, True), "products": (True, False), "running sums": (False, True)}
#: Places of shifts from which on terms may be lost.
_DROPPED = range(7, 33)


def of_steps(fmt: Format, window: Window | None) -> Iterator[Change]:
    """Yield edits of the sums of steps that are rounded to a format."""
    yield from (*of_shifts(), *of_behind(), *of_rounding(fmt), *of_product_bits())
    if window is not None:
        yield from of_groups(window.group) if window.scales == "groups" else ()


def of_shifts() -> Iterator[Change]:
    """Yield terms that are shifted by other amounts when they are aligned."""
    for what, some in _SOME_TERMS.items():
        of = "" if what == "terms" else f" of {what}"
        for words, change in shifts(f"shifts of alignment{of}"):
            which = functools.partial(_are, some=some)
            yield fault(words, 2, above=functools.partial(_shifted, change=change, which=which))


def of_left_shifts(most: int) -> Iterator[Change]:
    """Yield addends that are shifted to the left by other amounts; products have `most` places below them."""
    for below in range(most + 1):
        places = f", with {below} places below it" * (below > 0)
        for words, change in shifts(f"shifts of the addend to the left, to the product{places},"):
            if "modulo" in words or not below:
                shifted = functools.partial(_left_shifted, change=change, below=below)
                yield fault(words, 2, above=shifted)


def _left_shifted(terms: Numbers, largest: Array, change: Callable[[Array], Array], below: int) -> Numbers:
    """Return terms whose addend is shifted otherwise, from the last place of the largest product on."""
    products = (terms.marks & OF_PRODUCTS > 0) & (terms.significand != 0)
    first = np.where(products, terms.last, -4096).max(1)[:, None]
    meets = products.any(1)[:, None] & (terms.marks & OF_PRODUCTS == 0)
    shift = np.where(meets, terms.last - first + below, 0).clip(0)
    return terms._replace(last=terms.last - shift + change(shift))


def of_behind(dropped: Sequence[int] = _DROPPED) -> Iterator[Change]:
    """Yield terms whose bits are cut some places behind the last bit of another, as without a sticky bit."""
    for bits in range(_BEHIND + 1):
        for words, of_larger in {"the larger term": True, "the running sum": False}.items():
            cut = functools.partial(_cut_behind, bits=bits, of_larger=of_larger)
            places = f"{bits} place{'s' * (bits != 1)}"
            yield fault(f"terms cut {places} behind the last bit of {words}", 2, above=cut)

        added = functools.partial(_sticky_added, bits=bits)
        words = "bits of other terms behind it added to the larger term as a sticky bit, also in subtractions"
        yield fault(f"{words}: after {places}", 2, above=added)
    for bits, (down, said) in itertools.product(range(*_BELOW), {False: "", True: ", downwards"}.items()):
        cut = functools.partial(_cut_below, bits=bits, downwards=down)
        yield fault(f"terms cut {bits} places below the largest exponent{said}", 2, above=cut)
        first = functools.partial(_cut_below_first, bits=bits, downwards=down)
        yield fault(f"terms cut {bits} places below the first bit of the largest{said}", 2, above=first)
    for least, (what, some) in itertools.product(dropped, _SOME_TERMS.items()):
        lost = functools.partial(_dropped, least=least, some=some)
        yield fault(f"{what} that are shifted by {least} places or more lost", 2, above=lost)
    for least in dropped:
        far = functools.partial(_far_dropped, least=least)
        yield fault(f"terms that begin {least} places or more behind the largest lost", 2, above=far)


def of_unseen(fmt: Format) -> Iterator[Change]:
    """Yield single bits of terms that are lost behind the guard bit of a format, or some places below."""
    for bit, more in itertools.product(range(_BEHIND), range(3)):
        lost = functools.partial(_bit_unseen, bit=bit, places=fmt.precision + more)
        behind = f"{more} place{'s' * (more != 1)} behind the guard bit" if more else "the guard bit"
        yield fault(f"bit {bit} of terms lost where it is shifted below {behind}", 2, above=lost)


def _bit_unseen(terms: Numbers, largest: Array, bit: int, places: int) -> Numbers:
    """Return terms without a bit that lies more than so many places below the largest exponent."""
    here = terms.last + bit < largest[:, None] - places
    return terms._replace(significand=np.where(here, terms.significand & ~(1 << bit), terms.significand))


def _are(terms: Numbers, some: tuple[bool, bool]) -> Array:
    """Return which terms are meant: of products and of running sums those that `some` has."""
    return np.where(terms.marks & OF_PRODUCTS > 0, *some)


def _dropped(terms: Numbers, largest: Array, least: int, some: tuple[bool, bool]) -> Numbers:
    far = _are(terms, some) & (largest[:, None] - terms.exponent >= least)
    return terms._replace(significand=np.where(far, 0, terms.significand))


def _first_bits(terms: Numbers) -> tuple[Array, Array]:
    """Return the exponents of the first bits of terms, and the largest of those that are not zero."""
    tops = np.frexp(terms.significand.astype(np.float64))[1] - 1 + terms.last
    return tops, np.where(terms.significand > 0, tops, -4096).max(1)


def _cut_below_first(terms: Numbers, largest: Array, bits: int, downwards: bool) -> Numbers:
    return _cut_below(terms, _first_bits(terms)[1], bits, downwards)


def _far_dropped(terms: Numbers, largest: Array, least: int) -> Numbers:
    tops, first = _first_bits(terms)
    return _dropped(terms._replace(exponent=tops), first, least, (True, True))._replace(
        exponent=terms.exponent
    )


def _cut_below(terms: Numbers, largest: Array, bits: int, downwards: bool) -> Numbers:
    down = limited(largest[:, None] - bits - terms.last, 0, 62)
    up = np.where(terms.negative & downwards, (np.int64(1) << down) - 1, 0)
    return terms._replace(significand=terms.significand + up >> down << down)


def _sticky_added(terms: Numbers, largest: Array, bits: int) -> Numbers:
    """Return terms cut behind the larger one, which has a bit more at its end where that loses something."""
    cut = _cut_behind(terms, largest, bits, True)
    first = (terms.exponent == largest[:, None]) & (terms.significand != 0)
    here = np.arange(first.shape[1]) == np.argmax(first, 1)[:, None]
    lost = (cut.significand != terms.significand).any(1)[:, None]
    longer = (cut.significand << bits + 1) + lost
    return cut._replace(
        significand=np.where(here, longer, cut.significand), last=cut.last - np.where(here, bits + 1, 0)
    )


def _cut_behind(terms: Numbers, largest: Array, bits: int, of_larger: bool) -> Numbers:
    """Return terms without what lies behind the last bit of the larger one, or of the last one."""
    first = (terms.exponent == largest[:, None]) & (terms.significand != 0)
    last = np.where(first, terms.last, -4096).max(1) if of_larger else terms.last[:, -1]
    counts = np.asarray(first.any(1) if of_larger else terms.significand[:, -1] != 0)
    down = np.where(counts[:, None], limited(last[:, None] - bits - terms.last, 0, 62), 0)
    return terms._replace(significand=terms.significand >> down << down)


def _shifted(terms: Numbers, largest: Array, change: Callable[[Array], Array], which: Any) -> Numbers:
    shift = np.maximum(largest[:, None] - terms.exponent, 0)
    return terms._replace(last=terms.last + np.where(which(terms), shift - change(shift), 0))


def lane_shifts() -> Iterator[tuple[str, Callable[[Array], dict[str, Any]]]]:
    """Yield shifts of some lanes by other amounts, each as words and what makes the stage."""
    for words, change in shifts("shifts of alignment"):
        yield words, functools.partial(_lanes_shifted, change=change)


def _lanes_shifted(where: Array, change: Callable[[Array], Array]) -> dict[str, Any]:
    which = functools.partial(which_terms, where=where)
    return {"above": functools.partial(_shifted, change=change, which=which)}


def of_groups(group: int) -> Iterator[Change]:
    """Yield sums of groups of so many products, and of parts of these, that are wrong."""
    for size in partial_sum_sizes(group):
        for words, change in partial_sum_edits(size, group):
            yield fault(words, 2, group_parts=(size, change))


def partial_sum_sizes(group: int) -> list[int]:
    """Return how many products may be added before all of a group are."""
    return [size for size in (2, 4, 8, 16) if size < group] + [group]


def partial_sum_edits(size: int, group: int) -> Iterator[tuple[str, Callable[[Array], Array]]]:
    """Yield edits of sums of products, in units of the smallest product, in words."""
    of = "groups" if size == group else f"{size} products"
    for bits in range(6, 14):
        top = 1 << bits - 1
        yield f"sums of {of}, of {bits} bits, wrap around", functools.partial(wrapped_at, top=top)
        for least in (1 - top, -top):
            most = functools.partial(np.clip, a_min=least, a_max=top - 1)
            ends = f"saturate at {least} and {top - 1} times the smallest product"
            yield f"sums of {of}, of {bits} bits, {ends}", most
        plus = functools.partial(_not_extended, top=top)
        yield f"sums of {of}, of {bits} bits, {2 * top} too large if they are negative", plus
    for bits in range(1, _BEHIND + 1):
        lost = "last bit" if bits == 1 else f"last {bits} bits"
        for sign, signs in _SIGNS.items():
            yield (
                f"the {lost} of {sign}sums of {of} lost",
                functools.partial(_group_cut, bits=bits, signs=signs),
            )
    yield f"sums of {of} left out", np.zeros_like
    yield f"sums of {of} subtracted", np.negative


_SIGNS = {"": (-1, 1), "negative ": (-1,), "positive ": (1,)}


def _not_extended(sums: Array, top: int) -> Array:
    return np.where(sums < 0, sums + 2 * top, sums)


def _group_cut(sums: Array, bits: int, signs: Sequence[int]) -> Array:
    cut = np.sign(sums) * (np.abs(sums) >> bits << bits)
    return np.where(np.isin(np.sign(sums), signs), cut, sums)


def of_product_bits() -> Iterator[Change]:
    """Yield products, or sums of groups times their scales, whose significands have too few bits."""
    for bits in range(4, 25):
        change = functools.partial(_last_kept, bits=bits)
        yield fault(f"products without the bits above their last {bits}", 2, running=change)


def _last_kept(terms: Numbers, bits: int) -> Numbers:
    made = np.where(terms.marks & OF_PRODUCTS > 0, terms.significand & (1 << bits) - 1, terms.significand)
    return terms._replace(significand=made)


def node_edits(total: Callable[[Any], Any], step: int) -> Iterator[tuple[str, Callable[[Array], Any]]]:
    """Yield how the sum of some lanes, one adder of a tree, may lose bits or its sign; `total` sums terms."""
    changes: dict[str, Callable[[Array, int], Array]] = {
        "negative sums of products in one's complement": lambda sums, bits: sums - (sums < 0),
        "negative sums of products lost": lambda sums, bits: np.maximum(sums, 0),
        "the signs of sums of products lost": lambda sums, bits: np.abs(sums),
        "sums of products subtracted": lambda sums, bits: -sums,
    }
    for bits in range(1, _BEHIND + 1):
        lost = "the last bit" if bits == 1 else f"the last {bits} bits"
        floor = functools.partial(_node_floor, lost=bits)
        changes[f"{lost} of sums of products lost, downwards"] = floor
        changes[f"{lost} of sums of products lost"] = functools.partial(_node_cut, lost=bits)
    for bits in range(step.bit_length() + 2):
        point = f"{bits} bit{'s' * (bits != 1)} before the point"
        changes[f"sums of products wrap around at {point}, in two's complement"] = functools.partial(
            _node_wrapped, before=bits
        )
        changes[f"the carry out of {point} lost from sums of products"] = functools.partial(
            _node_carry, before=bits
        )
    for words, change in changes.items():
        yield words, functools.partial(_of_node, change=change, total=total)


def _node_floor(sums: Array, bits: int, lost: int) -> Array:
    return sums >> lost << lost


def _node_cut(sums: Array, bits: int, lost: int) -> Array:
    return np.asarray(np.sign(sums) * (np.abs(sums) >> lost << lost))


def _node_wrapped(sums: Array, bits: int, before: int) -> Array:
    return wrapped_at(sums, 1 << bits + before)


def _node_carry(sums: Array, bits: int, before: int) -> Array:
    return np.asarray(np.sign(sums) * (np.abs(sums) & (1 << bits + before) - 1))


def _of_node(
    lanes: Array, change: Callable[[Array, int], Array], total: Callable[[Any], Any]
) -> Callable[[Parts], tuple[Array, Array]]:
    """Return sums of which the part of some lanes, added before the others, is another."""

    def changed(parts: Parts) -> tuple[Array, Array]:
        hi, lo = total(parts)
        here = terms_in(lanes, *parts.kept.shape)
        own, _ = total(parts._replace(kept=np.where(here, parts.kept, 0), lost=np.where(here, parts.lost, 0)))
        return hi + change(own, parts.bits) - own, lo

    return changed


# -- rounding of sums ----------------------------------------------------------------------------------


def of_rounding(fmt: Format) -> Iterator[Change]:
    """Yield sums that are rounded otherwise at ties, where they are subnormal, or where they carry."""
    for words, how in _ROUNDED.items():
        changed = functools.partial(_rounded_sums, fmt=fmt, how=how)
        yield fault(f"subnormal sums of steps {words}", 2, before=changed)
    for mode in (*MODES, *other_modes()):
        yield fault(f"sums of steps: {in_words(mode)}", 2, mode=mode)
    for change in of_wrapped(fmt):
        yield fault(change.words, 2, wrapped=change.value)
    for words, by in {"half": -1, "twice": 1}.items():
        yield fault(f"sums {words} as large", 2, before=functools.partial(_moved, by=by))
    yield fault("sums negated", 2, before=lambda sums: sums._replace(negative=~sums.negative))
    for bits in range(1, min(_LOST, fmt.trailing_bits) + 1):
        words = "last bit" if bits == 1 else f"last {bits} bits"
        for value in (0, 1) if bits == 1 else (0,):
            last = functools.partial(_last_bits, bits=bits, value=value)
            yield fault(f"the {words} of rounded sums read as {value}", 2, after=last)
    if fmt.infinity:
        yield fault("sums that overflow are the largest number", 2, after=_saturated)
    if fmt.infinity:
        yield fault("sums that are infinite are the largest number", 2, codes=_finite)
    for infinite in (True, False) if fmt.infinity else (True,):
        lost = functools.partial(carry_lost, increment=True, infinite=infinite)
        beyond = "" if infinite else ", not to infinity"
        words = f"the increment of rounding lost where it carries into the exponent{beyond}"
        yield fault(words, 2, after=lost)


def _moved(sums: Sum, by: int) -> Sum:
    return sums._replace(last=sums.last + by)


def _last_bits(codes: Array, sums: Sum, fmt: Format, bits: int, value: int) -> Array:
    wide = codes.astype(np.int64)
    return np.where(wide & fmt.sign_code - 1 <= fmt.max_magnitude, wide >> bits << bits | value, wide)


def _saturated(codes: Array, sums: Any, fmt: Format) -> Array:
    wide = codes.astype(np.int64)
    return np.where(
        wide & fmt.sign_code - 1 == fmt.infinity_code, wide & fmt.sign_code | fmt.max_magnitude, wide
    )


def _finite(codes: Array, fmt: Format) -> Array:
    return _saturated(codes, None, fmt)


def narrowed(change: Change, steps: int, nodes: Nodes = ()) -> Iterator[Change]:
    """Yield a fault of steps, or of nodes, that holds for some of them alone, or for sums of one sign."""
    if not change.field.startswith("stage."):
        return
    stages = dict(change.value)
    places: list[tuple[Any, str]] = [*places_of_nodes(nodes)]
    for step in {0, *range(-min(steps, _STEPS), 0)} if steps > 1 and not nodes else ():
        places.append((step, f"in step {step if step >= 0 else steps + step} of {steps} alone"))
    for place, where in places if stages.keys() <= OF_A_STEP else ():
        words = f"{change.words}, {where}"
        yield replace(change, value=(*stages.items(), ("step", place)), words=words, cost=change.cost + 1)
    if change.field in ("stage.before", "stage.after"):
        (name, stage), of_sign = change.value[0], _codes_of_sign if "after" in stages else _of_sign
        for negative, sign in ((True, "negative"), (False, "positive")):
            signed = functools.partial(of_sign, change=stage, negative=negative)
            said = f"{change.words}, if they are {sign}"
            yield replace(change, value=((name, signed),), words=said, cost=change.cost + 1)


def _of_sign(sums: Any, change: Callable[[Any], Any], negative: bool) -> Any:
    return chosen(sums.negative == negative, change(sums), sums)


def _codes_of_sign(codes: Array, sums: Sum, fmt: Format, change: Callable[..., Array], negative: bool) -> Any:
    return np.where(sums.negative == negative, change(codes, sums, fmt), codes)


#: How sums are rounded: cut, raised, cut to 0, or rounded first as if their exponent had no least.
_ROUNDED = {"cut toward zero": 0, "rounded away from zero": 1, "taken as zero": 2, "rounded twice": 3}


def _rounded_sums(sums: Sum, fmt: Format, how: int) -> Sum:
    """Return sums of which the subnormal ones are rounded otherwise before they are rounded."""
    top = np.frexp(sums.significand.astype(np.float64))[1] - 1 + sums.last
    places = sums.discarded if how < 3 else top - fmt.trailing_bits - sums.last
    low = (top < fmt.emin) & (sums.significand > 0) & (places > 0)
    down = limited(places, 0, 62)
    kept, rest = sums.significand >> down, sums.significand & (np.int64(1) << down) - 1
    half = (np.int64(1) << down) >> 1
    # Two bits more, for what is below: a sum that is cut to zero keeps its sign.
    whole = (kept << 2) + (rest > 0)
    if how == 1:
        whole = kept + (rest > 0) << 2
    elif how == 2:
        low, whole = (top < fmt.emin) & (sums.significand > 0), np.ones_like(kept)
    elif how == 3:
        whole = kept + ((rest > half) | ((rest == half) & (kept & 1 == 1))) << 2
    return sums._replace(
        significand=np.where(low, whole, sums.significand),
        last=sums.last + np.where(low, places - 2, 0),
    )
