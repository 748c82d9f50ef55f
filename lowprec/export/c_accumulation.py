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
from lowprec.spec.accumulation import Accumulation, Rounded, Window, to_nearest
from lowprec.spec.catalog import BINARY32, TF32
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format
from lowprec.spec.order import EXACT
from lowprec.spec.projection import DEFAULT, Projection
from lowprec.spec.rounding import TOWARD_ZERO

__all__ = ["accumulation_header", "unsaid"]

#: Bits of a number that sums are rounded to, and of products and of exact sums.
_SUM, _PRODUCT, _EXACT = 53, 64, 64 * 72

_BY_EXPONENT = OVERFLOW_TESTS["exponent"]
_CUTS = {"toward_zero": 0, "floor": 1, "to_odd": 2}


def unsaid(how: Accumulation) -> str:
    """Return what a header cannot say of an accumulation, in words; nothing where it says all.

    >>> from lowprec.spec.accumulations import accumulation
    >>> unsaid(accumulation("fp32_fma")), unsaid(accumulation("hopper_wgmma_e4m3fn_binary32"))
    ('operands of any format; give it operands', '')
    """
    return next(_unsaid(how), "")


def _unsaid(how: Accumulation) -> Iterator[str]:
    window = how.accumulator if isinstance(how.accumulator, Window) else None
    if how.split is not None:
        yield "sums that are split"
    if how.operands is None:
        yield "operands of any format; give it operands"
        return
    if any(isinstance(fmt, Codebook) for fmt in (*how.operands, *(fmt for fmt, _ in _places(how)))):
        yield "codebooks"
        return
    if how.term and "pairwise" in (how.order.name, how.order.inner):
        yield f"terms that are exact sums of {how.term} products, in pairs"
    for fmt, rule in _places(how):
        if not _is_said(rule):
            yield f"the projection ({rule}) to {fmt.name}"
        elif fmt.precision > _SUM:
            yield f"sums of {fmt.precision} bits"
    if window is not None and window.scales == "groups":
        assert how.scale is not None, "a window of groups has scales"
        spans = sum(fmt.emax - fmt.emin + fmt.precision for fmt in how.operands)
        above = sum(fmt.emax + 1 for fmt in how.operands) + (window.fraction_bits or 0)
        most = max(spans + window.group.bit_length(), above + window.step.bit_length())
        if most + 2 * how.scale[0].precision > 62:
            yield f"groups of products of {how.operands[0].name} and {how.operands[1].name}"
    most = _PRODUCT if _sums_exactly(how) else _SUM
    if sum(fmt.precision for fmt in how.operands) > most:
        yield f"products of more than {most} bits"
    low, high = _span(how)
    if _sums_exactly(how) and high - low > _EXACT:
        yield f"exact sums of {high - low} bits"


def _sums_exactly(how: Accumulation) -> bool:
    """Return whether sums of several products are exact, in as many words as they need."""
    window = how.accumulator if isinstance(how.accumulator, Window) else None
    return how.order == EXACT or how.term > 0 or (window is not None and window.fraction_bits is None)


def _span(how: Accumulation) -> tuple[int, int]:
    """Return the exponents of the last bit and of the sign of exact sums, which hold sums of any length."""
    assert how.operands is not None, "a header has operands"
    scales = [] if how.scale is None else [how.scale[0]] * 2
    formats = [fmt for fmt, _ in _places(how)]
    low = min(sum(_last(fmt) for fmt in (*how.operands, *scales)), *map(_last, formats))
    high = max(sum(fmt.emax + 1 for fmt in (*how.operands, *scales)), *(fmt.emax + 1 for fmt in formats))
    return low, high + 66


def _last(fmt: Format) -> int:
    return fmt.emin - fmt.trailing_bits


def _is_said(rule: Projection) -> bool:
    """Return whether a header has all of a projection: all but random integers and some policies."""
    plain = Projection(
        rounding=rule.rounding, saturation=rule.saturation, nan=rule.nan, nan_code=rule.nan_code,
        nan_sign=rule.nan_sign, overflow_test=rule.overflow_test, subnormals=rule.subnormals,
        tininess=rule.tininess,
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
    name = f"lowprec_{identifier(how.name)}"
    window = how.accumulator if isinstance(how.accumulator, Window) else None
    inner = how.accumulator.result if isinstance(how.accumulator, Window) else how.accumulator
    begin = how.total or (how.output if inner is None or window is not None else inner)
    inner = inner or (how.output if how.order == EXACT else (BINARY32, DEFAULT))
    formats = dict(zip("xy", how.operands, strict=True))
    if how.scale is not None:
        formats["scale"] = how.scale[0]
    targets = {
        "product": how.product or inner,
        "sum": inner,
        "addend": to_nearest(begin),
        "begin": begin,
        "output": how.output,
    }
    if how.order == EXACT:
        targets = {"output": how.output}
    rounding = how.operand_rounding
    if rounding is not None and (rounding.rounding != TOWARD_ZERO or how.operands[0] != TF32):
        targets |= {f"{side}_rounded": (formats[side], rounding) for side in "xy"}
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
        "tables": "\n".join(_tables(how, window, name)),
        "begin_name": begin[0].name,
        "rows": ", ".join(
            f"{{{side}, {formats[side].code_bits // 8}, &{name}_{side}, "
            f"{f'&{name}_{side}_rounded' if f'{side}_rounded' in targets else 'NULL'}}}"
            for side in "xy"
        ),
        "block": how.scale[1] if how.scale else 0,
        "call": _CALLS.get(how.machine or how.order.name, _SUM_CALL).format(
            name=name, step=4 if how.operands[0] == TF32 else 8
        ),
    }
    if how.scale is not None:
        blocks = f"((count + {how.scale[1] - 1}) / {how.scale[1]})"
        size = how.scale[0].code_bits // 8
        said |= {
            "scales_said": f" in blocks of {how.scale[1]}, with the codes of their scales",
            "parameters": f"const {said['scale']} *x_scales, const {said['scale']} *y_scales, ",
            "scales": ", ".join(f"{{{side}_scales, {size}, &{name}_scale, NULL}}" for side in "xy"),
            "moved": f"x_scales + i * {blocks}, y_scales + j * {blocks}, ",
        }
    else:
        nothing = "{NULL, 0, NULL, NULL}"
        said |= {"scales_said": "", "parameters": "", "moved": "", "scales": f"{nothing}, {nothing}"}
    shared = [_part("sums.h")] + [_part("machines.h")] * bool(how.machine)
    return "\n".join([*shared, _OWN.format(**said)])


#: What gives the code: of sums in an order, of exact sums, and of machines.
_SUM_CALL = "lowprec_dot(&rows, count, given, &{name}_how, &{name}_stages)"
_CALLS = {
    "exact": "lowprec_dot_exactly(&rows, count, given, &{name}_how, &{name}_output)",
    "cdna2": "lowprec_cdna2(&rows, count, given, 4, &{name}_stages)",
    "cdna2_pairs": "lowprec_cdna2(&rows, count, given, 2, &{name}_stages)",
    "cdna3": "lowprec_cdna3(&rows, count, given, {step}, 0, &{name}_stages)",
    "cdna3_fp8": "lowprec_cdna3(&rows, count, given, 16, 1, &{name}_stages)",
}


def _part(name: str) -> str:
    """Return what headers have alike, once in a program that includes several."""
    return (resources.files("lowprec") / "export" / "replay" / name).read_text()


def _tables(how: Accumulation, window: Window | None, name: str) -> Iterator[str]:
    """Yield the definitions of how products are summed, and of what sums are rounded to, where used."""
    if not how.machine:
        fields = ", ".join(str(int(each)) for each in _how(how, window))
        yield f"static const lowprec_sum {name}_how = {{{fields}}};"
    if how.order != EXACT:
        stages = ", ".join(f"&{name}_{stage}" for stage in ("product", "sum", "addend", "begin", "output"))
        yield f"static const lowprec_stages {name}_stages = {{{stages}}};"


def _how(how: Accumulation, window: Window | None) -> Iterator[int]:
    """Yield the fields of `lowprec_sum`."""
    assert how.operands is not None, "a header has operands"
    low, high = _span(how)
    yield window.step if window is not None else 0
    yield 0 if window is None else -1 if window.fraction_bits is None else window.fraction_bits
    yield window.lowest_exponent if window is not None else 0
    yield _CUTS[window.cut] if window is not None else 0
    yield window is not None and window.groups == "alternate_pairs"
    yield window.group if window is not None and window.scales == "groups" else 1
    yield sum(_last(fmt) for fmt in how.operands)
    yield window is not None and window.negative_zero
    yield how.product is not None
    yield how.order.size if how.order.name == "chunked" else 0
    yield "pairwise" in (how.order.name, how.order.inner if how.order.name == "chunked" else "")
    yield how.addend == "last"
    yield how.term
    yield -(-(high - low) // 64) if _sums_exactly(how) else 0
    yield low


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
    tiny = [word - (1 << 64) if word >> 63 else word for word in (grid.tiny, grid.surely)]
    tiny = [max(word, -(1 << 30)) for word in tiny]
    flags = (int(grid.before == _BY_EXPONENT), int(grid.flush))
    first = ", ".join([bits, *map(str, (*signed, *flags, *tiny))])
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
{tables}

/* The dot product of two rows of codes{scales_said}. `addend` is a code of {begin_name}, or NULL. */
static inline {code} {name}_dot(
    const {x} *x, const {y} *y, {parameters}size_t count, const {begin} *addend)
{{
    lowprec_rows rows = {{{rows}, {scales}, {block}}};
    uint64_t added = addend ? *addend : 0, *given = addend ? &added : NULL;

    return ({code}){call};
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

#endif
"""
