"""Other accumulations that results may follow, as changes to try: windows, sums, and ways to split K.

How libraries split K is not documented: it is recovered from operands and results.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, get_args

from lowprec.spec import catalog
from lowprec.spec.accumulation import Accumulation, Cut, Rounded, Window
from lowprec.spec.accumulations import ACCUMULATIONS, E8M13
from lowprec.spec.format import Carrier, Format
from lowprec.spec.order import PAIRWISE, SEQUENTIAL, Deal, Order, Split, Tree, chunked, order
from lowprec.spec.projection import Projection, SignPolicy
from lowprec.spec.rounding import MODES, Rounding, rounding
from lowprec.verify.questions.causes import SATURATIONS, finer, in_words
from lowprec.verify.questions.question import Change

__all__ = [
    "How",
    "named",
    "orders",
    "part_of",
    "splits",
    "sums",
    "tried",
    "window_with",
    "windows",
    "with_fields",
]
__all__ += ["unless_refused", "with_part", "with_rule"]

_T = TypeVar("_T")
How = Callable[[Accumulation], Accumulation]

#: Bits that running sums may have more, or less, than the output.
_MORE_BITS = 8
_STEPS = (1, 2, 4, 8, 16, 32, 64, 128)
#: Longest K whose runs are tried.
_RUN = 64
_TERMS = (1, 2, 4, 8, 16, 32)
_LANES = (2, 4, 8, 16, 32, 64)
_CHUNKS = (4, 8, 16, 32, 64, 128, 256, 512)

#: Splits, and products of a tile, that are tried.
_COUNTS, _TILES = (2, 3, 4, 5, 6, 7, 8, 12, 16), (1, 32, 64, 128)
#: Products that libraries promote at a time, within a split as well.
_PROMOTED = 128
_DEALS: tuple[Deal, ...] = ("contiguous", "balanced", "interleaved")


def named(name: str) -> How:
    """Return another accumulation, by name."""
    return lambda how: ACCUMULATIONS[name]


def with_fields(**fields: Any) -> How:
    """Return the accumulation with these fields changed."""
    return lambda how: dataclasses.replace(how, **fields)


def window_with(**fields: Any) -> How:
    """Return the accumulation with these fields of its window changed; of one without ValueError."""

    def changed(how: Accumulation) -> Accumulation:
        if not isinstance(how.accumulator, Window):
            raise ValueError("no window")
        return dataclasses.replace(how, accumulator=dataclasses.replace(how.accumulator, **fields))

    return changed


def part_of(how: Accumulation, place: str) -> Rounded | None:
    """Return the format and rule of "product", "accumulator" (a window's result too), "total" or "output"."""
    if place == "accumulator" and isinstance(how.accumulator, Window):
        return how.accumulator.result
    found: Rounded | None = getattr(how, place)
    return found


def with_part(place: str, into: Rounded | None) -> How:
    """Return the accumulation with another format and rule of a rounding."""

    def changed(how: Accumulation) -> Accumulation:
        if place == "accumulator" and isinstance(how.accumulator, Window):
            assert into is not None, "a window has a result"
            return window_with(result=into)(how)
        return with_fields(**{place: into})(how)

    return changed


def with_rule(place: str, **fields: Any) -> How:
    """Return the accumulation with these fields of a rounding's rule changed; of no rounding ValueError."""

    def changed(how: Accumulation) -> Accumulation:
        now = part_of(how, place)
        if now is None:
            raise ValueError("nothing is rounded there")
        return with_part(place, (now[0], dataclasses.replace(now[1], **fields)))(how)

    return changed


def tried(change: How, how: Accumulation) -> Accumulation | None:
    """Return the changed accumulation; None where there is no such one, or none that differs."""
    made = unless_refused(lambda: change(how))
    return None if made == how else made


def unless_refused(make: Callable[[], _T]) -> _T | None:
    """Return what a function makes, or None where a specification or an operation refuses its values."""
    try:
        return make()
    except ValueError:
        return None


def _window_result(fmt: Format | None = None, **fields: Any) -> How:
    """Return the accumulation with another format, or fields of the rule, of its window's results."""

    def changed(how: Accumulation) -> Accumulation:
        now = part_of(window_with()(how), "accumulator")
        assert now is not None, "a window has a result"
        return with_part("accumulator", (fmt or now[0], dataclasses.replace(now[1], **fields)))(how)

    return changed


def windows(how: Accumulation, window: Window) -> Iterator[Change]:
    """Yield other windows, and orders of their steps."""
    for bits in range(1, 49):
        if bits != window.fraction_bits:
            words = f"F = {bits} instead of {window.fraction_bits}: fraction bits that alignment keeps"
            yield Change("fraction_bits", window_with(fraction_bits=bits), words)
    if window.fraction_bits is not None:
        yield Change(
            "fraction_bits", window_with(fraction_bits=None), "steps summed exactly: nothing cut by alignment"
        )
    for least in (-149, -140, -133, -126, *range(window.lowest_exponent - 2, window.lowest_exponent + 3)):
        if least != window.lowest_exponent:
            words = f"nothing aligned below the exponent {least}, not {window.lowest_exponent}"
            yield Change("lowest_exponent", window_with(lowest_exponent=least), words)
    for step in _STEPS:
        if step != window.step:
            words = f"L = {step} instead of {window.step}: products in a step"
            yield Change("step", window_with(step=step), words)
    for mode in MODES:
        if mode != window.result[1].rounding:
            yield Change("result_rounding", _window_result(rounding=mode), f"sums of steps: {in_words(mode)}")
    if window.result[1].subnormals == "keep":
        flushed = _window_result(subnormals="flush_results")
        yield Change("result_subnormals", flushed, "subnormal sums of steps become zeros")
    signed = not window.negative_zero
    words = f"negative sums that round to zero are {'-0' if signed else '+0'}"
    yield Change("negative_zero", window_with(negative_zero=signed), words)
    yield from _results(how)
    for fmt in (catalog.BINARY32, E8M13, catalog.BINARY16, catalog.BFLOAT16):
        if fmt != window.result[0]:
            words = f"sums of steps in {fmt.name}, not {window.result[0].name}"
            yield Change("result", _window_result(fmt), words)
    yield from _other_precision(window.result[0], functools.partial(_window_result, nan_code=None))
    for cut in get_args(Cut):
        if cut != window.cut:
            words = f"terms cut {cut.replace('_', ' ')}"
            if cut == "nearest_away":
                words = "terms rounded, not cut: ties away from zero"
            yield Change("cut", window_with(cut=cut), words)
    for groups, words in (("consecutive", "consecutive"), ("alternate_pairs", "alternate pairs of")):
        if groups != window.groups:
            yield Change("groups", window_with(groups=groups), f"steps of {words} products")
    for size in _CHUNKS:
        words = f"sums of {size} products added up in binary32"
        if size != how.order.size:
            yield Change("order", with_fields(order=chunked(size), total=None), words)
    if how.order.name == "chunked":
        yield Change("order", with_fields(order=SEQUENTIAL, total=None), "one running sum, without chunks")


def _other_precision(fmt: Format, made: Callable[[Format], How]) -> Iterator[Change]:
    """Yield running sums that have other bits than the output, of the same exponents."""
    for more in range(-_MORE_BITS, _MORE_BITS + 1):
        other = unless_refused(functools.partial(finer, fmt, more)) if more else None
        if other is not None:
            words = f"running sums of {other.precision} bits, not {fmt.precision}"
            yield Change("result", made(other), words, 2)


def _results(how: Accumulation) -> Iterator[Change]:
    """Yield another place of the addend, other overflow, and other codes of NaN."""
    for part in ("output", "accumulator") if how.addend == "first" else ():
        mode = (part_of(how, part) or how.output)[1].rounding
        late = functools.partial(_addend_last, mode=mode)
        if tried(late, how) is not None and (part == "output" or mode != how.output[1].rounding):
            words = "the addend added to the sum of products, after that is rounded"
            yield Change("addend_place", late, f"{words}: the second time {in_words(mode)}", 2)
    fmt, rule = how.output
    for policy, words in SATURATIONS.items():
        if policy != str(rule.saturation):
            yield Change("result_saturation", _output(saturation=policy), f"sums and output: {words}")
    for code in dict.fromkeys((fmt.nan_code, fmt.sign_code - 1)):
        now = fmt.nan_code if rule.nan_code is None else rule.nan_code
        if fmt.has_nan and code is not None and code > fmt.max_magnitude + fmt.infinity and code != now:
            yield Change("nan_code", _output(nan_code=code), f"NaN is {code:#x}")
    for sign in get_args(SignPolicy):
        if fmt.has_signed_nan and sign != rule.nan_sign:
            by_sign = {
                "keep": "NaNs keep their sign",
                "drop": "NaNs have no sign",
                "positive": "NaNs of overflow have no sign either",
            }
            yield Change("nan_sign", _output(nan_sign=sign), by_sign[sign])


def _addend_last(how: Accumulation, mode: Rounding) -> Accumulation:
    return with_rule("output", rounding=mode)(with_fields(addend="last")(how))


def _output(**fields: Any) -> How:
    """Return the accumulation whose sums and output have these fields of their rules changed."""

    def changed(how: Accumulation) -> Accumulation:
        sums = part_of(how, "accumulator")
        made = with_rule("output", **fields)(how)
        both = sums is not None and sums[0] == how.output[0]
        return with_rule("accumulator", **fields)(made) if both else made

    return changed


def orders(how: Accumulation) -> Iterator[Change]:
    """Yield other orders in which terms are added one by one."""
    lanes = (order(f"lanes({size}{inner})") for size in _LANES for inner in ("", ", pairwise"))
    for each in (SEQUENTIAL, PAIRWISE, *(chunked(size) for size in _CHUNKS), order("reversed"), *lanes):
        if each != how.order:
            other = with_fields(order=each, total=None)
            yield Change("order", other, f"order {each} instead of {how.order}")


def sums(how: Accumulation) -> Iterator[Change]:
    """Yield other orders, accumulators and products."""
    assert isinstance(how.accumulator, tuple)
    fmt, rule = how.accumulator
    yield from _results(how)
    if rule.subnormals == "keep":
        yield Change("result_subnormals", _output(subnormals="flush_results"), "subnormal sums become zeros")
    yield from orders(how)
    for other in (catalog.BINARY64, catalog.BINARY32, E8M13, catalog.BFLOAT16, catalog.BINARY16):
        if other != fmt:
            words = f"accumulated in {other.name}, not {fmt.name}"
            yield Change("accumulator", with_fields(accumulator=(other, Projection())), words)
    plain = dataclasses.replace(rule, nan_code=None)
    yield from _other_precision(fmt, lambda other: with_fields(accumulator=(other, plain)))
    for name in ("toward_zero", "nearest_even", "nearest_away"):
        if name != str(rule.rounding):
            changed = (fmt, dataclasses.replace(rule, rounding=rounding(name)))
            yield Change("accumulator", with_fields(accumulator=changed), f"sums: {in_words(name)}")
    if how.product is not None:
        yield Change(
            "product", with_fields(product=None), "products not rounded (fused multiplication and addition)"
        )
    for term in _TERMS if how.operands is not None else ():
        if term != max(how.term, 1):
            words = f"terms of {term} products, not of {max(how.term, 1)}: summed exactly, and added at once"
            yield Change("term", with_fields(term=term), words)
    for other in (catalog.BINARY32, catalog.BFLOAT16, catalog.BINARY16):
        if how.product is None or how.product[0] != other:
            yield Change(
                "product", with_fields(product=(other, Projection())), f"products rounded to {other.name}"
            )


def runs(how: Accumulation, length: int) -> Iterator[Change]:
    """Yield sums of K = `length` in equal runs, of which the first begins at the addend."""
    if not isinstance(how.accumulator, tuple) or how.order != SEQUENTIAL or length > _RUN:
        return
    for count in (2, 4, 8):
        size = length // count
        if size < 2 or length % count:
            continue
        each: list[Tree] = []
        for first in range(0, length, size):
            run: Tree = ()
            for term in range(first, first + size):
                run = run, term
            each.append(run)
        trees: dict[Tree, str] = {
            functools.reduce(lambda one, other: (one, other), each): "one after the other"
        }
        while len(each) > 1:
            each = [tuple(each[place : place + 2]) for place in range(0, len(each), 2)]
        trees.setdefault(each[0], "in pairs")
        for whole, words in trees.items():
            said = f"{count} sums of {size} consecutive products, the first from the addend, added {words}"
            yield Change("order", with_fields(order=Order.of_tree(whole), total=None), said, 2)


def splits(how: Accumulation, length: int) -> Iterator[Change]:
    """Yield the accumulation with K = `length` dealt to several sums in other ways, each once."""
    if how.split is not None:
        yield Change("split", with_fields(split=None), "K not split")
    if isinstance(how.summed[0], Carrier) or how.accumulator is None:
        return
    promoted_words = f"in each, sums of {_PROMOTED} products added up in binary32"
    seen = set()
    for count in _COUNTS:
        for deal in _DEALS:
            for tile in _TILES if deal != "interleaved" else _TILES[1:]:
                dealt = Split(count, tile, deal)
                runs = tuple(tuple(part) for part in dealt.runs(length))
                if runs in seen or () in runs:  # dealt so before, or to fewer
                    continue
                seen.add(runs)
                for combine in _combinations(count):
                    split = dataclasses.replace(dealt, combine=combine)
                    if how.split == split:
                        continue
                    yield Change("split", with_fields(split=split), _words(split, length), 2)
                    if how.order == SEQUENTIAL and isinstance(how.accumulator, Window):
                        also = f"; {promoted_words}"
                        both = with_fields(split=split, order=chunked(_PROMOTED), total=None)
                        yield Change("split", both, _words(split, length) + also, 3)


def _combinations(count: int) -> Iterator[str]:
    """Yield the ways to add that many sums: slots for two of three are halves."""
    yield "sequential"
    if count > 2:
        yield "halves"
    if count > 3:
        yield from ("pairwise", f"slots({count - 1})")


def _words(split: Split, length: int) -> str:
    tiles = -(-length // split.tile)
    if split.deal == "interleaved":
        dealt = f"tiles of {split.tile} products in turn"
    elif split.tile == 1 and length % split.count == 0:
        dealt = f"{length // split.count} consecutive products each"
    else:
        each = f"up to {-(-tiles // split.count)} consecutive "
        each += f"tiles of {split.tile}" if split.tile > 1 else "products"
        dealt = each if split.deal == "contiguous" else f"{each}, in equal shares"
    sums = "" if split.count == 2 else f", their sums added {_orders(split)}"
    return f"K split in {split.count}: {dealt}{sums}"


def _orders(split: Split) -> str:
    plain = {"sequential": "one after the other", "pairwise": "in pairs", "halves": "in halves"}
    return plain.get(split.combine, "to the last one, in order")
