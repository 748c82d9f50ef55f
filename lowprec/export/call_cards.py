"""Library calls as text: a card for one in words, and a list of all.

Needs neither numba nor NumPy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape

from lowprec.export.accumulation_cards import describe_accumulation, placed, words
from lowprec.export.cards import columns
from lowprec.spec.epilogue import Epilogue, LibraryCall
from lowprec.spec.library_calls import LIBRARY_CALLS

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
    table = columns("library call", "x", "y", "scales", "output")
    for call in items:
        assert call.accumulation.operands is not None, "every call has operands"
        x, y = (fmt.name for fmt in call.accumulation.operands)
        table.add_row(call.name, x, y, call.epilogue.scales, call.output[0].name)
    return table
