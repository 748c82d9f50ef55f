"""Accumulations to try: where a search starts, and the moves from one to its neighbours.

A move changes one parameter, or two that only make sense together. The options of a parameter are read
from the specification's own types, so that what is added there is tried here.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, get_args

from lowprec.spec.accumulation import MACHINES, Accumulation, AddendPlace, Cut, Groups, Rounded, Window
from lowprec.spec.accumulations import ACCUMULATIONS, E8M13, deepseek_promote
from lowprec.spec.catalog import BFLOAT16, BINARY16, BINARY32, BINARY64, FORMATS, TF32
from lowprec.spec.families import ieee
from lowprec.spec.format import Carrier, Format
from lowprec.spec.order import EXACT, PAIRWISE, SEQUENTIAL, Order, chunked
from lowprec.spec.projection import OverflowTest, Projection, Saturation, SignPolicy, SubnormalPolicy
from lowprec.spec.riscv_ime import FRM, Rnd, riscv_ime
from lowprec.spec.rounding import MODES, NEAREST_EVEN, TOWARD_ZERO, Rounding
from lowprec.verify.identify.ports import Ports, fitted
from lowprec.verify.questions.dots.dot_changes import (
    How,
    part_of,
    tried,
    unless_refused,
    window_with,
    with_fields,
    with_part,
    with_rule,
)

__all__ = ["Move", "Stage", "described", "known", "kind_of", "moves", "starts"]


#: What is moved: all parameters; not those of overflow, tiny numbers and NaNs; nor the order. "deep" adds
#: formats of any fields to all, which are many; "near" has few of the lowest exponents, which are alike.
Stage = Literal["deep", "all", "near", "core", "simple"]

#: Formats that sums are often kept in.
_USUAL = (BINARY64, BINARY32, TF32, E8M13, BFLOAT16, BINARY16)
_KNOWN: dict[Format, Format] = {fmt: fmt for fmt in (E8M13, *reversed(list(FORMATS.values())))}

_PLACES = ("product", "accumulator", "total", "output")


class Move(NamedTuple):
    """A change of an accumulation."""

    field: str  #: what it changes, such as "fraction_bits" or "accumulator"
    value: str  #: what to, in words
    change: How

    def __call__(self, how: Accumulation) -> Accumulation | None:
        """Return the changed accumulation; None where there is no such one, or none that differs."""
        return tried(self.change, how)


def kind_of(how: Accumulation) -> str:
    """Return the family of an accumulation; moves do not lead from one to another."""
    if how.machine:
        return how.machine
    window = "window" if isinstance(how.accumulator, Window) else "sum"
    chunks = f"chunked {how.order.inner}" if how.order.name == "chunked" else how.order.name
    return f"{window}, {chunks}"


# -- starts ------------------------------------------------------------------------------------------


def known(ports: Ports) -> Iterator[Accumulation]:
    """Yield the accumulations of the catalog that a unit with these formats may be."""
    for how in (*ACCUMULATIONS.values(), deepseek_promote()):
        if (
            how.output[0] == ports.output
            and (how.operands is None or how.operands == ports.operands)
            and (how.scale is None or how.scale == ports.scale)
            and (ports.scale is None or not (how.machine or isinstance(how.accumulator, Window)) or how.scale)
        ):
            yield how


def described(ports: Ports) -> Iterator[Accumulation]:
    """Yield the sums of RISC-V's matrix extension that a unit with these formats may be, without names."""
    if ports.scale is not None:
        return
    for bits, psm, rnd, frm in itertools.product(range(7), (0, 1), get_args(Rnd), FRM):
        make = functools.partial(riscv_ime, ports.operands, ports.output, 1 << bits, rnd, psm=psm, frm=frm)
        how = unless_refused(make)
        if how is not None and 1 << bits <= ports.length:
            yield dataclasses.replace(how, name="", source="")


def starts(ports: Ports, precision: int, orders: Sequence[Order]) -> Iterator[Accumulation]:
    """Yield accumulations all over the space, in one of these orders if there are any.

    Sums are kept in the usual formats, and in one of this many trailing bits.
    """
    output = (ports.output, _projection(ports.output))
    if not orders:
        yield Accumulation(order=EXACT, output=output)
    sizes = [size for size in (4, 8, 16, 32, 64) if size < ports.length]
    usual = [SEQUENTIAL, PAIRWISE, *map(chunked, sizes)] + [chunked(size, "pairwise") for size in sizes]
    seen = _ieee(8, precision) or BINARY32
    for fmt in dict.fromkeys((seen, *_USUAL)):
        for mode in (NEAREST_EVEN,) if isinstance(fmt, Carrier) else (NEAREST_EVEN, TOWARD_ZERO):
            into = (fmt, _projection(fmt, mode))
            for product in (None,) if isinstance(fmt, Carrier) else (None, into):
                for order in orders or usual:
                    yield Accumulation(product=product, order=order, accumulator=into, output=output)
    if not orders or SEQUENTIAL in orders:
        yield from _windows(ports, output, (seen, _projection(seen)), _steps_of(ports, orders))
    for machine in MACHINES if not orders else ():
        yield from _made(ports, None, {}, machine=machine, output=output)


def _steps_of(ports: Ports, orders: Sequence[Order]) -> list[int]:
    """Return the steps of windows that may be: where sums are known to be of two, a product each."""
    return [1] if orders else _sizes(ports.length)


def _windows(ports: Ports, output: Rounded, seen: Rounded, steps: list[int]) -> Iterator[Accumulation]:
    """Yield windows of every step, with few of all the other parameters."""
    scales = [("none", 1)] if ports.scale is None else [("products", 1), ("groups", min(16, ports.scale[1]))]
    wide, nearest = (BINARY32, _projection(BINARY32, TOWARD_ZERO)), (BINARY32, _projection(BINARY32))
    for step in steps:
        for bits, result in ((None, nearest), (24, wide), (13, wide), (None, seen), (30, seen)):
            for rule, group in scales:
                window = {"step": step, "fraction_bits": bits, "result": result}
                yield from _made(ports, Window, window | {"scales": rule, "group": group}, output=output)
        for size in (2 * step, 4 * step):
            if size < ports.length and ports.scale is None:
                window = {"step": step, "fraction_bits": 24, "result": wide}
                yield from _made(ports, Window, window, output=output, order=chunked(size), total=nearest)


def _made(
    ports: Ports, kind: type[Window] | None, window: dict[str, Any], **fields: Any
) -> Iterator[Accumulation]:
    """Yield the accumulation of such fields, if there is one."""

    def make() -> Accumulation:
        of: dict[str, Any] = {} if kind is None else {"accumulator": kind(**window), "scale": ports.scale}
        return Accumulation(operands=ports.operands, **fields, **of)

    made = unless_refused(make)
    yield from () if made is None else (made,)


# -- moves -------------------------------------------------------------------------------------------


def moves(
    how: Accumulation, ports: Ports, nans: Iterable[int], stage: Stage, orders: Sequence[Order] = ()
) -> Iterator[list[Move]]:
    """Yield the moves from an accumulation, a list for each parameter.

    Parameters
    ----------
    how : Accumulation
    ports : Ports
    nans : iterable of int
        NaN codes that were seen, without their signs.
    stage : Stage
        "core" leaves out what has no part where exponents are moderate, "simple" orders too.
    orders : sequence of Order
        The only ones that may be, if masks have told; sums are then of two numbers.
    """
    if stage != "simple":
        yield _orders(how, ports, orders)
        if stage != "near" and not orders:
            yield _families(how, ports)
    if isinstance(how.accumulator, Window):
        yield _steps(how.accumulator, _steps_of(ports, orders))
        yield _cuts(how.accumulator)
        yield [
            Move("window", f"negative_zero={value}", window_with(negative_zero=value))
            for value in (False, True)
        ]
        if ports.scale is not None:
            yield _groups(ports)
    places = _PLACES if not how.machine else ("output",)
    for place in places:
        if place == "total" and how.order.name != "chunked":
            continue
        if place == "product" and (how.order == EXACT or isinstance(how.accumulator, Window)):
            continue
        if place == "accumulator" and how.order == EXACT:
            continue
        if place != "output":
            yield _formats(how, place, ports)
        yield [Move(f"{place} rounding", mode.name, with_rule(place, rounding=mode)) for mode in MODES]
        if stage not in ("core", "simple"):
            yield _rules(place)
    if isinstance(how.accumulator, tuple):
        yield _both_roundings()
        if stage not in ("core", "simple"):
            yield _terms(how, ports)
    yield _flushes(ports)
    if stage == "deep":
        for place in places[:-1]:
            yield _fields(how, place)
    if stage not in ("core", "simple"):
        yield from _edges(how, ports, nans, stage)


def _orders(how: Accumulation, ports: Ports, orders: Sequence[Order]) -> list[Move]:
    if how.machine or how.order == EXACT:
        return []
    sizes = _sizes(ports.length)
    usual = [SEQUENTIAL, *map(chunked, sizes)]
    if not isinstance(how.accumulator, Window):
        usual += [PAIRWISE, *(chunked(size, "pairwise") for size in sizes)]
    return [
        Move("order", f"{order}, addend {addend}", _order(order, addend))
        for order in orders or usual
        for addend in get_args(AddendPlace)
    ]


def _families(how: Accumulation, ports: Ports) -> list[Move]:
    """Return moves from steps to sums of one product at a time, and back to exact steps of every size."""
    if how.machine or how.order == EXACT or ports.scale is not None:
        return []
    if isinstance(how.accumulator, Window):
        into = how.accumulator.result
        return [Move("accumulator", "sums", with_fields(accumulator=into))]
    return [Move("accumulator", f"steps of {step}", _in_steps(step, ports)) for step in _sizes(ports.length)]


def _in_steps(step: int, ports: Ports) -> How:
    def changed(how: Accumulation) -> Accumulation:
        into = part_of(how, "accumulator")
        assert into is not None, "a sum that is not exact has an accumulator"
        window = Window(step=step, fraction_bits=None, result=into)
        order = chunked(how.order.size) if how.order.name == "chunked" else SEQUENTIAL
        plain: dict[str, Any] = {"product": None, "term": 0, "order": SEQUENTIAL, "total": None}
        made = dataclasses.replace(how, **plain, accumulator=window, operands=ports.operands)
        if how.total is None:
            return _order(order, how.addend)(made)
        return dataclasses.replace(made, order=order, total=how.total)

    return changed


def _sizes(length: int) -> list[int]:
    """Return sizes of steps and chunks: all up to 64, then multiples of 16, and one too long to be seen."""
    return [*(size for size in range(1, length + 1) if size <= 64 or size % 16 == 0), 2 * length]


def _terms(how: Accumulation, ports: Ports) -> list[Move]:
    """Return moves to terms of several products, which need the formats of these."""
    sizes = [size for size in (2, 3, 4, 6, 8, 16, 32, 64) if size <= ports.length]
    found = [Move("term", "0", with_fields(term=0))]
    return found + [
        Move("term", str(size), with_fields(term=size, operands=ports.operands)) for size in sizes
    ]


def _order(order: Any, addend: AddendPlace) -> How:
    def changed(how: Accumulation) -> Accumulation:
        total = how.total
        if order.name != "chunked":
            total = None
        elif isinstance(how.accumulator, Window) and total is None:
            total = (BINARY32, _projection(BINARY32))
        return dataclasses.replace(how, order=order, total=total, addend=addend)

    return changed


def _steps(window: Window, steps: list[int]) -> list[Move]:
    return [
        Move("step", f"{step}, {groups}", window_with(step=step, groups=groups))
        for step in steps
        for groups in get_args(Groups)
        if step % window.group == 0
    ]


def _cuts(window: Window) -> list[Move]:
    return [
        Move("fraction_bits", f"{bits}, cut {cut}", window_with(fraction_bits=bits, cut=cut))
        for bits in (*range(1, 49), None)
        for cut in get_args(Cut)
        if bits is not None or cut == window.cut
    ]


def _groups(ports: Ports) -> list[Move]:
    assert ports.scale is not None, "asked by the caller"
    size = ports.scale[1]
    found = [Move("scales", "products", window_with(scales="products", group=1))]
    found += [
        Move("scales", f"groups of {group}", window_with(scales="groups", group=group))
        for group in range(2, size + 1)
        if size % group == 0
    ]
    return found


def _formats(how: Accumulation, place: str, ports: Ports) -> list[Move]:
    """Return moves to formats of every precision, rounded as now and in the usual modes."""
    now = part_of(how, place)
    exponents = 8 if now is None or isinstance(now[0], Carrier) else now[0].exponent_bits or 8
    formats: list[Format] = list(dict.fromkeys((*_USUAL, ports.output)))
    for bits in range(1, 24):
        fmt = _ieee(exponents, bits)
        if fmt is not None and fmt not in formats:
            formats.append(fmt)
    modes = dict.fromkeys((NEAREST_EVEN, TOWARD_ZERO, *([] if now is None else [now[1].rounding])))
    found = []
    if place in ("product", "total"):
        found.append(Move(place, "none", with_part(place, None)))
    for fmt in formats:
        for mode in modes:
            rule = _projection(fmt, mode) if now is None else dataclasses.replace(now[1], rounding=mode)
            into = (fmt, Projection()) if isinstance(fmt, Carrier) else (fmt, _legal(rule, fmt))
            found.append(Move(place, f"{fmt.name}, {into[1].rounding}", with_part(place, into)))
    return found


def _both_roundings() -> list[Move]:
    """Return moves to each pair of modes of the accumulator and the output, which act one after the other."""

    def both(inner: Rounding, outer: Rounding) -> How:
        return lambda how: with_rule("output", rounding=outer)(with_rule("accumulator", rounding=inner)(how))

    return [
        Move("roundings", f"{inner} and {outer}", both(inner, outer)) for inner in MODES for outer in MODES
    ]


def _fields(how: Accumulation, place: str) -> list[Move]:
    """Return moves to formats of any exponent and trailing bits, rounded as now, to nearest or cut."""
    now = part_of(how, place)
    if now is None:
        return []
    return [
        Move(
            place, f"{fmt.name}, {mode}", with_part(place, (fmt, dataclasses.replace(now[1], rounding=mode)))
        )
        for exponents in range(2, 9)
        for bits in range(1, 24)
        if (fmt := _ieee(exponents, bits)) is not None
        for mode in dict.fromkeys((now[1].rounding, NEAREST_EVEN, TOWARD_ZERO))
    ]


def _rules(place: str) -> list[Move]:
    options: list[tuple[str, Any]] = [("saturation", policy) for policy in Saturation]
    for field, type_ in (("subnormals", SubnormalPolicy), ("overflow_test", OverflowTest)):
        options += [(field, value) for value in get_args(type_)]
    if place == "output":
        options += [("nan_sign", value) for value in get_args(SignPolicy)]
    return [
        Move(f"{place} {field}", str(value), with_rule(place, **{field: value})) for field, value in options
    ]


def _edges(how: Accumulation, ports: Ports, nans: Iterable[int], stage: Stage) -> Iterator[list[Move]]:
    for place in _PLACES[:3]:
        now = part_of(how, place)
        if now is not None and not isinstance(now[0], Carrier) and now[0].exponent_bits:
            yield [
                Move(place, fmt.name, with_part(place, (fmt, now[1])))
                for bits in range(2, 9)
                if (fmt := _ieee(bits, now[0].trailing_bits)) is not None
            ]
    if isinstance(how.accumulator, Window):
        low = sum(fmt.emin - fmt.trailing_bits for fmt in ports.operands)
        top = sum(fmt.emax for fmt in ports.operands)
        lowest = [-4096, *range(max(min(low, -200), -700), min(top + 2, 60))]
        if stage == "near":
            here = how.accumulator.lowest_exponent
            lowest = [value for value in lowest if value % 16 == 0 or abs(value - here) == 1]
        found = [Move("lowest_exponent", str(value), window_with(lowest_exponent=value)) for value in lowest]
        if how.accumulator.fraction_bits is None and stage != "near":  # so many that nothing else is cut
            bits = min(48, 60 - (how.accumulator.step - 1).bit_length())
            found += [
                Move("lowest_exponent", f"{value}, {bits} fraction bits, cut {cut}",
                     window_with(lowest_exponent=value, fraction_bits=bits, cut=cut))
                for value in lowest[1:] for cut in get_args(Cut)
            ]  # fmt: skip
        yield found
    yield [
        Move("output nan_code", f"{code:#x}", with_rule("output", nan_code=code))
        for code in sorted({*nans, *([ports.output.nan_code] if ports.output.nan_code is not None else [])})
    ]


def _flushes(ports: Ports) -> list[Move]:
    """Return moves to subnormal operands as they are and as zeros."""
    nan: Any = "error" if all(fmt.has_nan for fmt in ports.operands) else "max"
    flushed = Projection(subnormals="flush_results", nan=nan)
    return [
        Move("operands", words, _operands(rule, ports))
        for words, rule in (("as they are", None), ("subnormals flushed", flushed))
    ]


def _operands(rule: Projection | None, ports: Ports) -> How:
    def changed(how: Accumulation) -> Accumulation:
        made = dataclasses.replace(how, operand_rounding=rule, operands=ports.operands)
        return made if rule else fitted(dataclasses.replace(made, operands=how.operands), ports)

    return changed


# -- formats and their rules -------------------------------------------------------------------------


def _projection(fmt: Format, mode: Rounding = NEAREST_EVEN) -> Projection:
    if isinstance(fmt, Carrier):
        return Projection()
    return _legal(Projection(rounding=mode), fmt)


def _legal(rule: Projection, fmt: Format) -> Projection:
    """Return a rule that the format takes: one without NaN needs another code for it."""
    if fmt.nan_code is None and rule.nan == "error":
        rule = dataclasses.replace(rule, nan="max")
    if rule.nan_code is not None and rule.nan_code >> fmt.width:
        rule = dataclasses.replace(rule, nan_code=None)
    return rule


def _ieee(exponent_bits: int, trailing_bits: int) -> Format | None:
    """Return the format of such fields, by its known name if it has one; None if there is none."""
    fmt = unless_refused(lambda: ieee(f"e{exponent_bits}m{trailing_bits}", exponent_bits, trailing_bits))
    return None if fmt is None else _KNOWN.get(fmt, fmt)
