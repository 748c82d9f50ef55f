"""An accumulation as a C99 header that replays it: integers alone, any K, addends, scales of blocks.

Formats and roundings are the words that the kernels read, so that no policy is written a second time.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from typing import Any

from lowprec.export.accumulation_cards import words
from lowprec.export.c_header import identifier, lowered
from lowprec.kernels.lower.records import OVERFLOW_TESTS, Source
from lowprec.kernels.lower.scalar import lower_source
from lowprec.spec.accumulation import Accumulation, Rounded, Window
from lowprec.spec.catalog import TF32
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format
from lowprec.spec.order import EXACT
from lowprec.spec.projection import Projection
from lowprec.spec.rounding import TOWARD_ZERO

__all__ = ["accumulation_header", "unsaid"]

#: Bits of a product, and of a number that sums are rounded to.
_PRODUCT, _SUM = 53, 53

_BY_EXPONENT = OVERFLOW_TESTS["exponent"]
_CUTS = {"toward_zero": 0, "floor": 1, "to_odd": 2}


def unsaid(how: Accumulation) -> str:
    """Return what a header cannot say of an accumulation, in words; nothing where it says all.

    >>> from lowprec.spec.accumulations import accumulation
    >>> unsaid(accumulation("exact")), unsaid(accumulation("hopper_wgmma_e4m3fn_binary32"))
    ('an exact sum of all products', '')
    """
    return next(_unsaid(how), "")


def _unsaid(how: Accumulation) -> Iterator[str]:
    window = how.accumulator if isinstance(how.accumulator, Window) else None
    if how.machine:
        yield f"the machine {how.machine!r}"
    if how.order == EXACT:
        yield "an exact sum of all products"
    if how.term:
        yield f"terms that are exact sums of {how.term} products"
    if how.split is not None:
        yield "sums that are split"
    if how.operands is None:
        yield "operands of any format; give it operands"
    if how.operand_rounding is not None and how.operand_rounding.rounding != TOWARD_ZERO:
        yield "operands that are rounded"
    elif how.operand_rounding is not None and how.operands is not None and how.operands[0] != TF32:
        yield "operands that are cut"
    if how.has_codebooks:
        yield "codebooks"
    if window is not None and window.fraction_bits is None:
        yield "steps that keep all bits"
    for fmt, rule in _places(how):
        if not _is_said(rule):
            yield f"the projection ({rule}) to {fmt.name}"
        elif fmt.precision > _SUM:
            yield f"sums of {fmt.precision} bits"
    if window is not None and window.scales == "groups" and how.operands is not None:
        assert how.scale is not None, "a window of groups has scales"
        spans = sum(fmt.emax - fmt.emin + fmt.precision for fmt in how.operands)
        above = sum(fmt.emax + 1 for fmt in how.operands) + (window.fraction_bits or 0)
        most = max(spans + window.group.bit_length(), above + window.step.bit_length())
        if most + 2 * how.scale[0].precision > 62:
            yield f"groups of products of {how.operands[0].name} and {how.operands[1].name}"
    if how.operands is not None and sum(fmt.precision for fmt in how.operands) > _PRODUCT:
        yield f"products of more than {_PRODUCT} bits"


def _is_said(rule: Projection) -> bool:
    """Return whether a header has all of a projection: a mode, saturation, NaNs, a test of overflow."""
    plain = Projection(
        rounding=rule.rounding, saturation=rule.saturation, nan=rule.nan, nan_code=rule.nan_code,
        nan_sign=rule.nan_sign, overflow_test=rule.overflow_test,
    )  # fmt: skip
    return rule == plain and not rule.rounding.bits and rule.overflow_test != "before"


def _places(how: Accumulation) -> list[Rounded]:
    inner = how.accumulator.result if isinstance(how.accumulator, Window) else how.accumulator
    return [place for place in (how.product, inner, how.total, how.output) if place is not None]


def accumulation_header(how: Accumulation, provenance: str) -> str:
    """Return the header's text.

    Raises
    ------
    ValueError
        An accumulation that `unsaid` names something of.
    """
    if why := unsaid(how):
        raise ValueError(f"accumulation {how.name!r} cannot be a C header: it has {why}")
    assert how.operands is not None, "checked by unsaid"
    assert how.accumulator is not None, "checked by unsaid"
    name = f"lowprec_{identifier(how.name)}"
    window = how.accumulator if isinstance(how.accumulator, Window) else None
    inner = how.accumulator.result if isinstance(how.accumulator, Window) else how.accumulator
    begin = how.total or (how.output if window is not None else inner)
    formats = dict(zip("xy", how.operands, strict=True))
    if how.scale is not None:
        formats["scale"] = how.scale[0]
    targets = {"product": how.product or inner, "sum": inner, "begin": begin, "output": how.output}
    said: dict[str, Any] = {
        "provenance": provenance,
        "said": "\n   ".join(words(how)),
        "guard": f"{name.upper()}_H",
        "name": name,
        **{place: f"uint{fmt.code_bits}_t" for place, fmt in formats.items()},
        "begin": f"uint{begin[0].code_bits}_t",
        "code": f"uint{how.output[0].code_bits}_t",
        "sources": "\n".join(
            f"static const lowprec_source {name}_{place} = {_source(fmt, operand=True)};"
            for place, fmt in formats.items()
        ),
        "targets": "\n".join(
            f"static const lowprec_target {name}_{place} = {_target(into)};"
            for place, into in targets.items()
        ),
        "how": ", ".join(str(int(field)) for field in _how(how, window)),
        "begin_name": begin[0].name,
        "block": how.scale[1] if how.scale else 0,
        "group": window.group if window is not None else 1,
        "lowest": sum(fmt.emin - fmt.trailing_bits for fmt in how.operands),
    }
    grouped = window is not None and window.scales == "groups"
    term = _GROUP_TERM if grouped else _PRODUCT_TERM if how.scale is None else _SCALED_TERM
    said["term"] = term.format(**said)
    if how.scale is not None:
        blocks = f"((count + {how.scale[1] - 1}) / {how.scale[1]})"
        said |= {
            "scales_said": f" in blocks of {how.scale[1]}, with the codes of their scales",
            "parameters": f"const {said['scale']} *x_scales, const {said['scale']} *y_scales, ",
            "given": ", x_scales, y_scales",
            "scales": f"    const {said['scale']} *x_scales, *y_scales;\n",
            "moved": f"x_scales + i * {blocks}, y_scales + j * {blocks}, ",
        }
    else:
        said |= {"scales_said": "", "parameters": "", "given": "", "moved": "", "scales": ""}
    return _shared() + _OWN.format(**said) + _ROWS.format(**said) + "\n#endif\n"


def _shared() -> str:
    """Return what all headers have alike, once in a program that includes several."""
    return (resources.files("lowprec") / "export" / "replay" / "sums.h").read_text()


def _how(how: Accumulation, window: Window | None) -> Iterator[int]:
    """Yield the fields of `lowprec_sum`."""
    yield window.step if window is not None else 0
    yield window.fraction_bits or 0 if window is not None else 0
    yield window.lowest_exponent if window is not None else 0
    yield _CUTS[window.cut] if window is not None else 0
    yield window is not None and window.groups == "alternate_pairs"
    yield window.group if window is not None else 1
    yield window is not None and window.negative_zero
    yield how.product is not None
    yield how.order.size if how.order.name == "chunked" else 0
    yield "pairwise" in (how.order.name, how.order.inner if how.order.name == "chunked" else "")
    yield how.addend == "last"


def _source(fmt: Format, operand: bool = False) -> str:
    """Return how codes are read; tf32 operands are registers of binary32, whose lower bits are not."""
    found = Source(*(int(word) for word in lower_source(fmt)))
    cut = 32 - fmt.width if operand and fmt == TF32 else 0
    fields = (
        found.mask, found.sign, found.complement, found.not_a_zero, found.max_magnitude, found.infinity,
        found.keeps_nan_sign, found.trailing_bits, found.field_mask, found.lowest,
    )  # fmt: skip
    numbers = ", ".join(f"UINT64_C({field:#x})" for field in fields)
    return f"{{{numbers}, {found.exponent - (1 << 64) if found.exponent >> 63 else found.exponent}, {cut}}}"


def _target(into: Rounded) -> str:
    fmt, rule = into
    assert not isinstance(fmt, Codebook), "checked by unsaid"
    grid, sides = lowered(fmt, rule)
    signed = [word - (1 << 64) if word >> 63 else word for word in (grid.emin, grid.top)]
    bits = ", ".join(f"UINT64_C({word:#x})" for word in (grid.mask, grid.trailing_bits, grid.hidden))
    first = ", ".join([bits, *map(str, (*signed, int(grid.before == _BY_EXPONENT)))])
    rows = []
    for side in sides:
        fields = (
            side.max_magnitude, side.limit_even, side.limit_odd, side.base, side.step, side.rounded_zero,
            side.zero, side.overflow, side.infinity, side.nan,
        )  # fmt: skip
        rows.append("{" + ", ".join(f"UINT64_C({field:#x})" for field in fields) + "}")
    last = int(rule.rounding.downward)
    return f"{{{first}, {{{', '.join(rows)}}}, {_source(fmt)}, {fmt.emax}, {last}}}"


_OWN = """
/* {provenance}

   {said} */

#ifndef {guard}
#define {guard}

{sources}
{targets}
static const lowprec_sum {name}_how = {{{how}}};

typedef struct {{
    const {x} *x;
    const {y} *y;
{scales}}} {name}_rows;

static inline lowprec_number {name}_product_of(const {name}_rows *rows, size_t place)
{{
    return lowprec_product(lowprec_read(rows->x[place], &{name}_x), lowprec_read(rows->y[place], &{name}_y));
}}

static inline lowprec_number {name}_term(const void *given, size_t place, size_t end, int *counts, int *where)
{{
    const {name}_rows *rows = (const {name}_rows *)given;
{term}}}
"""

#: A term is a product;
_PRODUCT_TERM = """\
    lowprec_number made = {name}_product_of(rows, place);

    (void)end;
    *counts = made.significand != 0;
    *where = made.place;
    return made;
"""

#: a product times the scales of its blocks, whose exponents join its own;
_SCALED_TERM = """\
    lowprec_number made = {name}_product_of(rows, place);
    lowprec_number first = lowprec_read(rows->x_scales[place / {block}], &{name}_scale);
    lowprec_number second = lowprec_read(rows->y_scales[place / {block}], &{name}_scale);

    (void)end;
    *counts = made.significand != 0 && first.significand != 0 && second.significand != 0;
    *where = made.place + first.place + second.place;
    return lowprec_product(lowprec_product(made, first), second);
"""

#: or the exact sum of a group of products, times those scales, with the exponents of these alone.
_GROUP_TERM = """\
    lowprec_number made = {{LOWPREC_NUMBER, 0, 0, 0, 0, 0}}, next;
    lowprec_number first = lowprec_read(rows->x_scales[place / {block}], &{name}_scale);
    lowprec_number second = lowprec_read(rows->y_scales[place / {block}], &{name}_scale);
    size_t i, stop = end - place < {group} ? end : place + {group};
    int64_t sum = 0;

    *counts = 0;
    for (i = place; i < stop; i++) {{
        next = {name}_product_of(rows, i);
        *counts |= next.significand != 0 && first.significand != 0 && second.significand != 0;
        if (!lowprec_special(&made, next))
            sum += lowprec_cut(next, {lowest}, 0);
    }}
    *where = first.place + second.place;
    if (made.kind == LOWPREC_NUMBER) {{
        made.negative = sum < 0;
        made.significand = sum < 0 ? (uint64_t)-sum : (uint64_t)sum;
        made.exponent = {lowest};
    }}
    return lowprec_product(lowprec_product(made, first), second);
"""

_ROWS = """
/* The dot product of two rows of codes{scales_said}. `addend` is a code of {begin_name}, or NULL. */
static inline {code} {name}_dot(
    const {x} *x, const {y} *y, {parameters}size_t count, const {begin} *addend)
{{
    {name}_rows rows = {{x, y{given}}};
    uint64_t added = addend ? *addend : 0;

    return ({code})lowprec_dot(
        {name}_term, &rows, count, addend ? &added : NULL, &{name}_how,
        &{name}_product, &{name}_sum, &{name}_begin, &{name}_output);
}}

/* out[i][j], of row i of x, shape (m, count), and row j of y, shape (n, count); addends have its shape. */
static inline void {name}_matmul(
    const {x} *x, const {y} *y, {parameters}size_t m, size_t n, size_t count,
    const {begin} *addend, {code} *out)
{{
    size_t i, j;

    for (i = 0; i < m; i++)
        for (j = 0; j < n; j++)
            out[i * n + j] = {name}_dot(
                x + i * count, y + j * count, {moved}count, addend ? addend + i * n + j : NULL);
}}
"""
