"""A library's product of matrices as a C99 header: the sums of its accumulation, and its epilogue.

The steps of an epilogue are operations that headers say already, in the formats of its numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lowprec.export.accumulation_cards import epilogue_words, placed
from lowprec.export.c.c_accumulation import accumulation_header, unsaid
from lowprec.export.c.c_header import identifier
from lowprec.export.c.c_operation import operation_function
from lowprec.export.filling import filled
from lowprec.kernels.request import CONVERT
from lowprec.oracle.convert import encode
from lowprec.spec.accumulation import Accumulation
from lowprec.spec.epilogue import LibraryCall
from lowprec.spec.format import Format
from lowprec.spec.rounded import Rounded, to_nearest

__all__ = ["call_header"]


def call_header(call: LibraryCall, provenance: str) -> str:
    """Return the header's text.

    Raises
    ------
    ValueError
        A call of which a header cannot say the accumulation, or a step.
    """
    sums = replace(call.accumulation.partial(to_nearest(call.epilogue.compute)), name=f"{call} sums")
    if why := unsaid(sums):
        raise ValueError(f"library call {call.name!r} cannot be a C header: it has {why}")
    try:
        steps = list(_Call(call, sums).text(provenance))
    except ValueError as error:
        raise ValueError(f"library call {call.name!r} cannot be a C header: {error}") from None
    return "\n".join([accumulation_header(sums, provenance), filled("words.h"), *steps])


class _Call:
    """A call, and the accumulation of its sums."""

    def __init__(self, call: LibraryCall, sums: Accumulation) -> None:
        self.call, self.sums, self.name = call, sums, f"lowprec_{identifier(str(call))}"
        self.compute = call.epilogue.compute[0]
        #: Formats of v: the sum itself, until a step has rounded it, and `compute`.
        self.formats = list(dict.fromkeys((sums.output[0], self.compute)))

    def text(self, provenance: str) -> Iterator[str]:
        """Yield operations, and what does them in order."""
        into, one, v = self.call.epilogue.compute, [self.compute], self.formats
        yield self.operation("given", CONVERT, one, to_nearest(into), provenance)
        yield self.operation("alpha", "multiply", one * 2, into, provenance)
        for fmt in v:
            yield self.operation("multiply", "multiply", [fmt, *one], into, provenance)
            yield self.operation("add", "add", [fmt, *one], into, provenance)
            yield self.operation("fma", "fma", [fmt, *one * 2], into, provenance)
            yield self.operation("output", CONVERT, [fmt], self.call.output, provenance)
        yield self.own(provenance)

    def operation(
        self, step: str, operation: str, sources: list[Format], into: Rounded, provenance: str
    ) -> str:
        """Return the function of a step."""
        made = operation_function(
            operation, sources, *into, provenance, self.named(step, sources[0]), dpi=False
        )
        return f"{made}\n#endif\n"

    def named(self, step: str, fmt: Format) -> str:
        """Return the function of a step, whose first operand has that format."""
        return f"{self.name}_{step}_{identifier(fmt.name)}"

    def done(self, step: str, *others: str) -> str:
        """Return a step of v in C."""
        calls = [
            f"{self.named(step, fmt)}({', '.join([f'(uint{fmt.code_bits}_t)v.code', *others, 'NULL'])})"
            for fmt in self.formats
        ]
        return calls[0] if len(calls) == 1 else f"v.is_sum ? {calls[0]} : {calls[1]}"

    def own(self, provenance: str) -> str:
        """Return what does the steps in order."""
        call, sums, (output, _) = self.call, self.sums, self.call.output
        assert sums.operands is not None, "checked by unsaid"
        x, y = (f"uint{fmt.code_bits}_t" for fmt in sums.operands)
        number, scale = f"uint{self.compute.code_bits}_t", sums.scale
        blocked = " || ".join(f"{self.name}_blocked(&joins->{side})" for side in "xy")
        said = {
            "provenance": provenance,
            "said": "\n   ".join([*epilogue_words(call.epilogue), f"The result is {placed(call.output)}."]),
            "guard": f"{self.name.upper()}_H",
            "name": self.name,
            "x": x,
            "y": y,
            "number": number,
            "numbers": self.compute.name,
            "code": f"uint{output.code_bits}_t",
            "given": self.named("given", self.compute),
            "alpha": self.named("alpha", self.compute),
            "one": f"{encode(1.0, *to_nearest(call.epilogue.compute)):#x}",
            "zero": f"{encode(0.0, *to_nearest(call.epilogue.compute)):#x}",
            "multiply": self.done("multiply", "factor"),
            "add": self.done("add", "addend"),
            "fma": self.done("fma", "factor", "addend"),
            "output": self.done("output"),
            "sums": f"lowprec_{identifier(sums.name)}_dot",
            "fused": int(call.epilogue.fused_bias),
            "parameters": "",
            "passed": "",
            "moved": "",
            "step": f"{blocked} ? joins->block : count",
        }
        if scale is not None:
            kind, blocks = f"const uint{scale[0].code_bits}_t", f"((count + {scale[1] - 1}) / {scale[1]})"
            said |= {
                "parameters": f"{kind} *x_scales, {kind} *y_scales, ",
                "passed": "x_scales, y_scales, ",
                "moved": f"x_scales + i * {blocks}, y_scales + j * {blocks}, ",
                "step": "count",
            }
        if call.epilogue.scales == "product":
            first = filled("call_product.h", said)
        else:
            before, after = "xy" if call.epilogue.scales == "x_first" else "yx"
            first = filled("call_in_turn.h", {**said, "before": before, "after": after})
        return "\n" + filled("call.h", {**said, "first": first.rstrip()})
