"""A library's product of matrices as a C99 header: the sums of its accumulation, and its epilogue.

The steps of an epilogue are operations that headers say already, in the formats of its numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lowprec.export.accumulation_cards import epilogue_words, placed
from lowprec.export.c_accumulation import accumulation_header, unsaid
from lowprec.export.c_header import identifier
from lowprec.export.c_operation import WORDS, operation_function
from lowprec.kernels.request import CONVERT
from lowprec.oracle.convert import encode
from lowprec.spec.accumulation import Accumulation, to_nearest
from lowprec.spec.epilogue import LibraryCall
from lowprec.spec.format import Format
from lowprec.spec.rounded import Rounded

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
    return "\n".join([accumulation_header(sums, provenance), WORDS, *steps])


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
            said["first"] = _PRODUCT.format(**said)
        else:
            before, after = "xy" if call.epilogue.scales == "x_first" else "yx"
            said["first"] = _IN_TURN.format(**said, before=before, after=after)
        return _OWN.format(**said)


_PRODUCT = """\
    {number} factor = x && y ? {alpha}(*x, *y, NULL) : x ? *x : y ? *y : {one};

    (void)fused;
    return {name}_fma(v, factor, addend ? *addend : {zero});"""

_IN_TURN = """\
    const {number} one = {one}, *first = {before}, *last = {after};

    if (!last) {{
        last = first;
        first = NULL;
    }}
    if (first)
        v = {name}_multiply(v, *first);
    if (fused)
        return {name}_fma(v, last ? *last : one, *addend);
    if (last)
        v = {name}_multiply(v, *last);
    return addend ? {name}_add(v, *addend) : v;"""

_OWN = """
/* {provenance}

   {said} */

#ifndef {guard}
#define {guard}

/* Scales of rows of x or of y, codes of {numbers}: one for all, or for so many rows, or for each block along
   K of them. */
typedef struct {{
    const {number} *codes; /* NULL where there are none */
    size_t rows;   /* that share one; 0 where all do */
    size_t blocks; /* along K, each with one of its own; 0 or 1 where all of K shares it */
}} {name}_scales;

/* Numbers that join the result of row i of x and row j of y: codes[i * row + j * column], of {numbers}. */
typedef struct {{
    const {number} *codes; /* NULL where there are none */
    size_t row, column;
}} {name}_numbers;

/* `block` is how many elements along K share a scale, where there are blocks. */
typedef struct {{
    {name}_scales x, y;
    size_t block;
    {name}_numbers addend, bias, output_scale;
}} {name}_joins;

typedef struct {{
    uint64_t code;
    int is_sum; /* 1 until a step has rounded it */
}} {name}_value;

static inline {name}_value {name}_multiply({name}_value v, {number} factor)
{{
    {name}_value made = {{0, 0}};

    made.code = {multiply};
    return made;
}}

static inline {name}_value {name}_add({name}_value v, {number} addend)
{{
    {name}_value made = {{0, 0}};

    made.code = {add};
    return made;
}}

static inline {name}_value {name}_fma({name}_value v, {number} factor, {number} addend)
{{
    {name}_value made = {{0, 0}};

    made.code = {fma};
    return made;
}}

/* A number that joins, rounded to nearest; NULL where there is none. */
static inline const {number} *{name}_joining(const {name}_numbers *from, size_t i, size_t j, {number} *into)
{{
    if (!from->codes)
        return NULL;
    *into = {given}(from->codes[i * from->row + j * from->column], NULL);
    return into;
}}

/* Whether each block along K has a scale of its own. */
static inline int {name}_blocked(const {name}_scales *from)
{{
    return from->codes && from->blocks > 1;
}}

static inline const {number} *{name}_scale(const {name}_scales *from, size_t row, size_t part, {number} *into)
{{
    size_t place = from->rows ? row / from->rows : 0;

    if (!from->codes)
        return NULL;
    *into = {given}(from->codes[{name}_blocked(from) ? place * from->blocks + part : place], NULL);
    return into;
}}

/* A sum with its scales, and what is added to it. */
static inline {name}_value {name}_scaled(
    {name}_value v, const {number} *x, const {number} *y, const {number} *addend, int fused)
{{
{first}
}}

/* The result of row i of x and row j of y, which begin at x and y; `joins` may be NULL. */
static inline {code} {name}_dot(
    const {x} *x, const {y} *y, {parameters}size_t count, const {name}_joins *joins, size_t i, size_t j)
{{
    static const {name}_joins nothing = {{
        {{NULL, 0, 0}}, {{NULL, 0, 0}}, 0, {{NULL, 0, 0}}, {{NULL, 0, 0}}, {{NULL, 0, 0}}}};
    {number} of_x, of_y, added, bias;
    const {number} *addend, *biased;
    {name}_value v;
    size_t start = 0, part = 0, step;
    int fused;

    joins = joins ? joins : &nothing;
    step = {step};
    addend = {name}_joining(&joins->addend, i, j, &added);
    biased = {name}_joining(&joins->bias, i, j, &bias);
    fused = {fused} && biased;
    if (fused)
        addend = biased;
    do {{ /* the sum of each block along K joins those before */
        v.code = {sums}(x + start, y + start, {passed}count - start < step ? count - start : step, NULL);
        v.is_sum = 1;
        v = {name}_scaled(
            v, count ? {name}_scale(&joins->x, i, part, &of_x) : NULL,
            count ? {name}_scale(&joins->y, j, part, &of_y) : NULL, addend, fused && part == 0);
        added = ({number})v.code;
        addend = &added;
        start += step;
        part++;
    }} while (start < count);
    if (biased && !fused)
        v = {name}_add(v, *biased);
    biased = {name}_joining(&joins->output_scale, i, j, &bias);
    if (biased)
        v = {name}_multiply(v, *biased);
    return {output};
}}

/* out[i][j], of row i of x, shape (m, count), and row j of y, shape (n, count); `joins` may be NULL. */
static inline void {name}_matmul(
    const {x} *x, const {y} *y, {parameters}size_t m, size_t n, size_t count, const {name}_joins *joins,
    {code} *out)
{{
    size_t i, j;

    for (i = 0; i < m; i++)
        for (j = 0; j < n; j++)
            out[i * n + j] = {name}_dot(x + i * count, y + j * count, {moved}count, joins, i, j);
}}

#endif
"""
