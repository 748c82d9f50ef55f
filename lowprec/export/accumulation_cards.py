"""Accumulations and library calls as text: a card for one in words, and tables of all.

Needs neither numba nor NumPy.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterable, Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape

from lowprec.export.cards import columns, differences, facts, text_of
from lowprec.export.markdown import head, row
from lowprec.oracle import machines
from lowprec.spec.accumulation import Accumulation, Window, begins_in
from lowprec.spec.accumulations import ACCUMULATIONS
from lowprec.spec.epilogue import Epilogue, LibraryCall
from lowprec.spec.evidence.evidence import DOCUMENTS, evidence_for
from lowprec.spec.fields import by_field
from lowprec.spec.library_calls import LIBRARY_CALLS
from lowprec.spec.order import EXACT, Split
from lowprec.spec.projection import DEFAULT, Projection
from lowprec.spec.rounded import Rounded


def accumulation_listing(items: Iterable[Accumulation]) -> RenderableType:
    """Return accumulations, a row each."""
    table = columns("accumulation", "x", "y", "sum", "output", "evidence")
    for how in items:
        x, y = ("any", "any") if how.operands is None else (fmt.name for fmt in how.operands)
        output = "-" if how.output is None else how.output[0].name
        table.add_row(how.name, x, y, _sum(how), output, best_evidence(how))
    return table


def best_evidence(how: Accumulation) -> str:
    """Return the best kind of evidence for an accumulation, "documents", or none of plain loops.

    >>> [best_evidence(ACCUMULATIONS[name]) for name in ("turing_mma_binary16_binary32", "fp32_fma")]
    ['model', '-']
    """
    found = evidence_for(how.name)
    return found[0].kind if found else DOCUMENTS if how.source else "-"


def _sum(how: Accumulation) -> str:
    """Return how it sums, in a few words."""
    if how.machine:
        return how.machine
    if how.order == EXACT:
        return "exact"
    if isinstance(how.accumulator, Window):
        return f"steps of {how.accumulator.step}"
    return str(how.order) if how.accumulator is None else f"{how.order} in {how.accumulator[0].name}"


def accumulation_card(how: Accumulation) -> RenderableType:
    """Return what there is to say of one accumulation: in words, and every parameter."""
    return Group(f"[bold]{how.name}[/bold]", *words(how), "", facts(_facts(how)))


def _facts(how: Accumulation) -> Iterator[tuple[str, str]]:
    for name, value in describe_accumulation(how).items():
        if isinstance(value, dict):
            yield name, "window" if name == "accumulator" else ""
            yield from ((f"  {field}", _shown(part)) for field, part in value.items())
        elif name not in ("name", "words"):
            yield name, _shown(value)


def describe_accumulation(how: Accumulation) -> dict[str, Any]:
    """Return every field as plain data in a fixed order; what is said in words too."""
    fields = by_field(how)
    order = (
        "name words operands operand_rounding product term order accumulator total split addend scale output"
    )
    said = fields | {
        "words": list(words(how)),
        "operands": how.operands and [fmt.name for fmt in how.operands],
        "operand_rounding": how.operand_rounding and _projection(how.operand_rounding),
        "order": str(how.order),
        "scale": how.scale and [how.scale[0].name, how.scale[1]],
        "evidence": [str(each) for each in evidence_for(how.name)],
    }
    for part in ("accumulator", "split"):
        if isinstance(fields[part], Window | Split):
            said[part] = {name: _plain(value) for name, value in by_field(fields[part]).items()}
    return {name: _plain(said[name]) for name in (*order.split(), "machine", "evidence", "source")}


def _plain(value: Any) -> Any:
    """Return a format with its projection in words, and anything else as it is."""
    return placed(value) if isinstance(value, tuple) else value


def placed(place: Rounded | None) -> str | None:
    """Return where numbers are kept: 'binary32, toward_zero, NaN 0x7fffffff'."""
    if place is None:
        return None
    return f"{place[0].name}, {_projection(place[1])}"


def _projection(how: Projection) -> str:
    """Return the rounding, and what else is not the default; the NaN that all become as a code."""
    canonical = how.nan_code is not None and how.nan_sign == "drop"
    other = dataclasses.replace(how, rounding=DEFAULT.rounding)
    if canonical:
        other = dataclasses.replace(other, nan_code=None, nan_sign=DEFAULT.nan_sign)
    said = [str(how.rounding), f"NaN {how.nan_code:#x}" if canonical else "", differences(other)]
    return ", ".join(part for part in said if part)


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else text_of(value)


# -- words ------------------------------------------------------------------------------------------


def words(how: Accumulation) -> Iterator[str]:
    """Yield what an accumulation does, a sentence for each of its parts.

    >>> for sentence in words(ACCUMULATIONS["fp32_fma"]):
    ...     print(sentence)
    x and y have any values.
    Products are exact.
    They are added one after the other, each sum in binary32, nearest_even.
    The sum begins as the addend, or as +0.
    The result is binary32, nearest_even.
    """
    yield _operands(how)
    if how.machine:
        said = _of_machine(how.machine)
        yield "c is the running sum."
        yield " ".join(said.split())
        for other in machines.RUN:
            if f"`{other}`" in said:
                yield f"{other}: {' '.join(_of_machine(other).split())}"
    elif how.order == EXACT:
        yield "Products are exact, and so is their sum."
    elif isinstance(how.accumulator, Window):
        yield from _steps(how.accumulator)
        yield from _chunks(how)
    else:
        yield from _sums(how)
        yield from _chunks(how)
    yield from _splits(how)
    yield _addend(how)
    yield f"The result is {placed(how.output)}."
    if how.rounds_randomly:
        yield "Some of it is rounded stochastically: it needs rng."


def _operands(how: Accumulation) -> str:
    if how.operands is None:
        return "x and y have any values."
    x, y = (fmt.name for fmt in how.operands)
    which = f"x and y are {x}" if x == y else f"x is {x} and y is {y}"
    if how.scale is not None:
        which += f", in blocks of {how.scale[1]} with a scale in {how.scale[0].name}"
    if how.operand_rounding is not None:
        return f"{which}; other values are rounded to it, {_projection(how.operand_rounding)}."
    return f"{which}; other values are refused."


def _of_machine(name: str) -> str:
    """Return what the oracle's function says of itself."""
    return (inspect.getdoc(machines.RUN[name]) or "").partition("\nSource\n")[0]


def _steps(window: Window) -> Iterator[str]:
    """Say what the steps of a window do."""
    if window.groups == "alternate_pairs":
        yield (
            f"Of each {2 * window.step} products, those whose index has bit 1 clear make a step with the "
            f"running sum, and then the others."
        )
    else:
        yield f"Each {window.step} products make a step with the running sum."
    if window.scales == "products":
        yield "The exponents of both scales join each product's."
    elif window.scales == "groups":
        yield (
            f"Each {window.group} products are summed exactly and multiplied by both scales, whose exponents "
            f"count as that of the sum."
        )
    if window.fraction_bits is not None:
        least = f", which is at least {window.lowest_exponent}" if window.lowest_exponent > -4096 else ""
        yield (
            f"All are {_CUTS[window.cut]} {window.fraction_bits} bits behind the point of the largest "
            f"exponent{least}."
        )
    yield f"Their sum is exact, and then rounded to {placed(window.result)}."
    yield f"Sums of 2^{window.result[0].emax + 1} and more count as infinite in every mode."
    if window.negative_zero:
        yield "A negative sum that rounds to zero is -0."


#: What alignment does to terms.
_CUTS = {
    "toward_zero": "cut toward zero",
    "floor": "cut downwards",
    "to_odd": "rounded to odd",
    "nearest_away": "rounded to nearest, halves away from zero,",
}


def _sums(how: Accumulation) -> Iterator[str]:
    """Say what sums in a plain accumulator do."""
    terms = "Products are"
    if how.term > 1:
        terms = (
            f"Each {how.term} products, times the scales of their blocks if they have any, are summed exactly"
        )
    if how.product is not None:
        yield (
            f"{terms} rounded to {placed(how.product)}."
            if how.term <= 1
            else (f"{terms}; that is rounded to {placed(how.product)}.")
        )
    else:
        yield f"{terms}{' exact' * (how.term <= 1)}."
    inner = how.order.inner if how.order.name == "chunked" else how.order.name
    assert not isinstance(how.accumulator, Window), "a window has steps"
    into = f"each sum in {placed(how.accumulator)}"
    if inner == "tree":
        yield f"Brackets are sums of what is in them, () is where a sum begins: {how.order}; {into}."
    elif inner == "reversed":
        yield f"They are added one after the other, from the last to the first, {into}."
    elif inner == "lanes":
        then = "in pairs" if how.order.inner == "pairwise" else "one after the other"
        yield f"They are added to {how.order.size} sums in turn; then these are added {then}, {into}."
    elif inner == "pairwise":
        yield f"Neighbours are added, then neighbours of their sums, and so on, {into}."
    else:
        yield f"They are added one after the other, {into}."


def _chunks(how: Accumulation) -> Iterator[str]:
    if how.order.name == "chunked":
        into = how.total or how.accumulator
        assert not isinstance(into, Window), "chunks of a window have a total"
        yield (
            f"Each {how.order.size} products are so summed from zero; these sums are added in {placed(into)}."
        )


def _splits(how: Accumulation) -> Iterator[str]:
    if how.split is None:
        return
    split, tiles = how.split, "products" if how.split.tile == 1 else f"tiles of {how.split.tile} products"
    ways = {
        "contiguous": f"consecutive {tiles}, as many to each as to the first",
        "balanced": f"consecutive {tiles}, as many to each, and one more to the first ones",
        "interleaved": f"{tiles} in turn",
    }
    yield f"So are {split.count} splits of K summed, each by itself, which get {ways[split.deal]}."
    if split.stored is not None:
        yield f"Each of their sums is rounded to {placed(split.stored)}."
    orders = {"sequential": "one after the other", "pairwise": "in pairs"}
    slots = min(split.slots, split.count - 1)
    order = orders.get(
        split.combine,
        f"in {slots} slots: those before the last in turn, and the slots to the last one in order",
    )
    yield f"They are added {order}, each sum in {placed(split.total)}."


def _addend(how: Accumulation) -> str:
    if how.split is not None:
        return "The addend is added to their total."
    if how.addend == "last":
        return "The addend is added at the end."
    if how.order == EXACT:
        return "The addend is one more term."
    if how.order.name == "pairwise":
        return "The addend is the first term, if there is one."
    if how.order.name in ("lanes", "tree"):
        if "()" in how.order.groups or how.order.name == "lanes":
            return "The first sum that begins does so as the addend, or as +0."
        return "The addend is added to the whole sum, if there is one."
    of_what = "sum of those sums" if how.order.name == "chunked" else "sum"
    fmt, rule = begins_in(how)
    rule = Projection(saturation=rule.saturation, subnormals=rule.subnormals)
    joins = f", rounded to {fmt.name} by {differences(rule)}" if rule != DEFAULT else ""
    return f"The {of_what} begins as the addend{joins}, or as +0."


# -- tables -----------------------------------------------------------------------------------------


def accumulation_tables() -> Iterator[str]:
    """Yield every named accumulation, as lines of Markdown."""
    items = ACCUMULATIONS.values()
    plain = [how for how in items if not how.machine and not isinstance(how.accumulator, Window)]
    yield from (
        "# Accumulations",
        "",
        "`lowprec show NAME` says in words what one is; docs/dot-products.md explains.",
    )
    yield from ("", "## Sums in a plain accumulator", "")
    yield from head("accumulation", "products", "order", "accumulator", "output")
    for how in plain:
        accumulator = None if isinstance(how.accumulator, Window) else how.accumulator
        yield row(
            f"`{how.name}`",
            f"{f'terms of {how.term}, ' if how.term else ''}{placed(how.product) or 'exact'}",
            how.order,
            placed(accumulator) or "-",
            placed(how.output),
        )
    yield from ("", "## Steps of hardware", "")
    yield (
        "*Bits*: what alignment keeps behind the point of the largest exponent, which counts as *lowest* at "
        "least. *Evidence*: the best there is; [silicon.md](silicon.md) has all."
    )
    yield ""
    sizes = ("scales", "step", "bits", "lowest")
    places = ("result of a step", "chunks", "output")
    yield from head("accumulation", "x", "y", *sizes, *places, "evidence", "source")
    for how in items:
        if isinstance(how.accumulator, Window):
            yield row(*_of_steps(how, how.accumulator))
    yield from ("", "## Machines", "")
    yield from head("accumulation", "x", "y", "machine", "output", "source")
    for how in items:
        if how.machine and how.operands is not None:
            x, y = (fmt.name for fmt in how.operands)
            yield row(f"`{how.name}`", x, y, how.machine, placed(how.output), how.source)
    for name in sorted({how.machine for how in items if how.machine}):
        yield from ("", f"### {name}", "", *_of_machine(name).rstrip().splitlines())


def _of_steps(how: Accumulation, window: Window) -> Iterator[object]:
    """Yield the cells of a row."""
    assert how.operands is not None, "a window has operands"
    yield f"`{how.name}`"
    yield from (fmt.name for fmt in how.operands)
    scales = "" if how.scale is None else f"{how.scale[0].name} for {how.scale[1]}"
    yield f"{scales}, groups of {window.group}" if window.scales == "groups" else scales
    yield f"{window.step}, alternate pairs" if window.groups == "alternate_pairs" else window.step
    yield "all" if window.fraction_bits is None else window.fraction_bits
    yield window.lowest_exponent if window.lowest_exponent > -4096 else ""
    yield f"{placed(window.result)}{', -0' * window.negative_zero}"
    yield f"{how.order.size}, in {placed(how.total)}" if how.order.name == "chunked" else ""
    yield from (placed(how.output), best_evidence(how), how.source)


_SCALED = {
    "product": "α is the product of both scales. The sum times α, plus c or +0, is rounded once (an fma).",
    "x_first": "The sum is multiplied by the scale of x, then by that of y; c is added where there is one.",
    "y_first": "The sum is multiplied by the scale of y, then by that of x; c is added where there is one.",
}


def epilogue_words(epilogue: Epilogue) -> Iterator[str]:
    """Yield what an epilogue does with the sums, a sentence for each of its steps.

    >>> for sentence in epilogue_words(Epilogue()):
    ...     print(sentence)
    α is the product of both scales. The sum times α, plus c or +0, is rounded once (an fma).
    A bias is added, and the result is multiplied by the scale of the output, where there are such.
    Each of these is rounded to binary32, nearest_even.
    """
    yield _SCALED[epilogue.scales]
    bias = "A bias is added"
    if epilogue.fused_bias:
        bias = "A bias joins the last multiplication, which is an fma"
    yield f"{bias}, and the result is multiplied by the scale of the output, where there are such."
    yield f"Each of these is rounded to {epilogue.compute[0].name}, {epilogue.compute[1].rounding}."


def calls() -> list[LibraryCall]:
    """Return every named call, as it is by default."""
    return [call() for call in LIBRARY_CALLS.values()]


def describe_call(call: LibraryCall) -> dict[str, Any]:
    """Return all of a call as plain data; what is said in words too."""
    return {
        "name": call.name,
        "words": [*epilogue_words(call.epilogue)],
        "scales": call.epilogue.scales,
        "output": call.output[0].name,
        "accumulation": describe_accumulation(call.accumulation),
        "evidence": call.evidence,
    }


def call_card(call: LibraryCall) -> RenderableType:
    """Return what there is to say of one call, and where it is from."""
    *sums, _, _ = words(call.accumulation)  # but for the addend and the output, which are the call's
    result = f"The result is {placed(call.output)}."
    said = [*sums, *epilogue_words(call.epilogue), result, "", f"Evidence: {call.evidence}."]
    return Group(f"[bold]{call.name}[/bold]", *map(escape, said))


def call_listing(items: Iterable[LibraryCall]) -> RenderableType:
    """Return calls, a row each."""
    table = columns("library call", "x", "y", "scales", "output", "evidence")
    for call in items:
        assert call.accumulation.operands is not None, "every call has operands"
        x, y = (fmt.name for fmt in call.accumulation.operands)
        found = evidence_for(call.name)
        kind = found[0].kind if found else DOCUMENTS
        table.add_row(call.name, x, y, call.epilogue.scales, call.output[0].name, kind)
    return table
