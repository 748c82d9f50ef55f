"""An accumulation as a C99 header that replays it: integers alone, any K, addends, scales of blocks.

Formats and roundings are the words that the kernels read, so that no policy is written a second time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lowprec.export.accumulation_cards import words
from lowprec.export.c.c_header import identifier, lowered, signed
from lowprec.export.filling import filled
from lowprec.kernels.lower.kinds import Cut
from lowprec.kernels.lower.records import OVERFLOW_TESTS, Source
from lowprec.kernels.lower.scalar import lower_source
from lowprec.spec.accumulation import Accumulation, Rounded, Window
from lowprec.spec.catalog import BINARY32, TF32
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format
from lowprec.spec.order import EXACT, TREES
from lowprec.spec.projection import DEFAULT, Projection
from lowprec.spec.rounded import to_nearest
from lowprec.spec.rounding import TOWARD_ZERO

__all__ = ["accumulation_header", "unsaid"]

#: Bits of a number that sums are rounded to, and of products and of exact sums.
_SUM, _PRODUCT, _EXACT = 53, 64, 64 * 72

_BY_EXPONENT = OVERFLOW_TESTS["exponent"]

#: A format of scales, and how many elements share one.
Scale = tuple[Format, int]


def unsaid(how: Accumulation, scale: Scale | None = None) -> str:
    """Return what a header cannot say of an accumulation, in words; nothing where it says all.

    >>> from lowprec.spec.accumulations import accumulation
    >>> unsaid(accumulation("fp32_fma")), unsaid(accumulation("hopper_wgmma_e4m3fn_binary32"))
    ('operands of any format; give it operands', '')
    """
    return next(_Header(how, scale).unsaid(), "")


def accumulation_header(how: Accumulation, provenance: str, scale: Scale | None = None) -> str:
    """Return the header's text; with a `scale`, of operands in blocks for an accumulation that says none.

    Raises
    ------
    ValueError
        An accumulation that `unsaid` names something of.
    """
    if why := unsaid(how, scale):
        raise ValueError(f"accumulation {how.name!r} cannot be a C header: it has {why}")
    return _Header(how, scale).text(provenance)


class _Header:
    """An accumulation, and what of it the header is made of."""

    def __init__(self, how: Accumulation, scale: Scale | None) -> None:
        self.how, self.scale = how, how.scale or scale
        self.asked = scale is not None
        self.window = how.accumulator if isinstance(how.accumulator, Window) else None
        self.inner = how.accumulator.result if isinstance(how.accumulator, Window) else how.accumulator
        self.exact = how.order == EXACT
        #: Products in a term that is an exact sum; 0 where products are terms.
        self.term = how.term
        if self.scale is not None and self.window is None and not self.exact:
            self.term = how.term or self.scale[1]
        self.places = [
            place for place in (how.product, self.inner, how.total, how.output) if place is not None
        ]

    # -- what is said --------------------------------------------------------------------------------

    def unsaid(self) -> Iterator[str]:
        """Yield what a header cannot say."""
        how = self.how
        if how.split is not None:
            yield "sums that are split"
        if how.order.name in TREES:
            yield f"the order {how.order}"
        if how.operands is None:
            yield "operands of any format; give it operands"
            return
        scales = [] if self.scale is None else [self.scale[0]] * 2
        if any(isinstance(fmt, Codebook) for fmt in (*how.operands, *scales, *self.formats())):
            yield "codebooks"
            return
        if self.asked and (how.machine or self.window is not None):
            yield "no operands in blocks" if how.scale is None else "scales of its own"
        if self.asked and self.scale is not None and self.term and self.scale[1] % self.term:
            yield f"terms of {self.term} products, of which blocks of {self.scale[1]} hold no whole number"
        if self.term and "pairwise" in (how.order.name, how.order.inner):
            yield f"terms that are exact sums of {self.term} products, in pairs"
        for fmt, rule in self.places:
            if not _is_said(rule):
                yield f"the projection ({rule}) to {fmt.name}"
            elif fmt.precision > _SUM:
                yield f"sums of {fmt.precision} bits"
        if self.window is not None and self.window.scales == "groups":
            spans = sum(fmt.emax - fmt.emin + fmt.precision for fmt in how.operands)
            above = sum(fmt.emax + 1 for fmt in how.operands) + (self.window.fraction_bits or 0)
            most = max(spans + self.window.group.bit_length(), above + self.window.step.bit_length())
            if most + sum(fmt.precision for fmt in scales) > 62:
                yield f"groups of products of {how.operands[0].name} and {how.operands[1].name}"
        most = _PRODUCT if self.sums_exactly() else _SUM
        factors = how.operands if self.window is not None else (*how.operands, *scales)
        if sum(fmt.precision for fmt in factors) > most:
            yield f"products of more than {most} bits"
        low, high = self.span()
        if self.sums_exactly() and high - low > _EXACT:
            yield f"exact sums of {high - low} bits"

    def formats(self) -> list[Format]:
        """Return the formats that sums are rounded to."""
        return [fmt for fmt, _ in self.places]

    def sums_exactly(self) -> bool:
        """Return whether sums of several products are exact, in as many words as they need."""
        return self.exact or self.term > 0 or (self.window is not None and self.window.fraction_bits is None)

    def span(self) -> tuple[int, int]:
        """Return the exponents of the last bit and of the sign of exact sums, of any length."""
        assert self.how.operands is not None, "a header has operands"
        factors = [*self.how.operands, *([] if self.scale is None else [self.scale[0]] * 2)]
        low = min(sum(map(_last, factors)), *map(_last, self.formats()))
        high = max(sum(fmt.emax + 1 for fmt in factors), *(fmt.emax + 1 for fmt in self.formats()))
        return low, high + 66

    # -- the text ------------------------------------------------------------------------------------

    def text(self, provenance: str) -> str:
        """Return the header."""
        how, name = self.how, f"lowprec_{identifier(self.how.name)}"
        assert how.operands is not None, "checked by unsaid"
        formats = dict(zip("xy", how.operands, strict=True))
        if self.scale is not None:
            formats["scale"] = self.scale[0]
        targets = self.targets(formats)
        begin = targets.get("begin", how.output)
        said: dict[str, Any] = {
            "provenance": provenance,
            "said": "\n   ".join(words(how)),
            "guard": f"{name.upper()}_H",
            "name": name,
            **{place: f"uint{fmt.code_bits}_t" for place, fmt in formats.items()},
            "begin": f"uint{begin[0].code_bits}_t",
            "begin_name": begin[0].name,
            "code": f"uint{how.output[0].code_bits}_t",
            "tables": "\n".join(self.tables(name, formats, targets)),
            "rows": ", ".join(
                f"{{{side}, {formats[side].code_bits // 8}, &{name}_{side}, "
                f"{f'&{name}_{side}_rounded' if f'{side}_rounded' in targets else 'NULL'}}}"
                for side in "xy"
            ),
            "block": self.scale[1] if self.scale else 0,
            "call": _CALLS.get(how.machine or how.order.name, _SUM_CALL).format(
                name=name, step=4 if how.operands[0] == TF32 else 8
            ),
        }
        nothing = "{NULL, 0, NULL, NULL}"
        said |= {"scales_said": "", "parameters": "", "moved": "", "scales": f"{nothing}, {nothing}"}
        if self.scale is not None:
            fmt, block = self.scale
            blocks = f"((count + {block - 1}) / {block})"
            said |= {
                "scales_said": f" in blocks of {block}, with the codes of their scales",
                "parameters": f"const {said['scale']} *x_scales, const {said['scale']} *y_scales, ",
                "scales": ", ".join(
                    f"{{{side}_scales, {fmt.code_bits // 8}, &{name}_scale, NULL}}" for side in "xy"
                ),
                "moved": f"x_scales + i * {blocks}, y_scales + j * {blocks}, ",
            }
        shared = ["sums.h", *["machines.h"] * bool(how.machine)]
        return "\n".join([*map(filled, shared), "", filled("dot.h", said)])

    def targets(self, formats: dict[str, Format]) -> dict[str, Rounded]:
        """Return what numbers are rounded to, by its name in the header."""
        how = self.how
        rounding = how.operand_rounding
        own = {}
        if rounding is not None and (rounding.rounding != TOWARD_ZERO or formats["x"] != TF32):
            own = {f"{side}_rounded": (formats[side], rounding) for side in "xy"}
        if self.exact:
            return {"output": how.output, **own}
        inner = self.inner or (BINARY32, DEFAULT)
        begin = how.total or (inner if self.inner is not None and self.window is None else how.output)
        return {
            "product": how.product or inner,
            "sum": inner,
            "addend": to_nearest(begin),
            "begin": begin,
            "output": how.output,
            **own,
        }

    def tables(self, name: str, formats: dict[str, Format], targets: dict[str, Rounded]) -> Iterator[str]:
        """Yield the definitions of how codes are read, numbers rounded and products summed."""
        for place, fmt in formats.items():
            yield f"static const lowprec_source {name}_{place} = {_source(fmt, operand=True)};"
        for place, into in targets.items():
            yield f"static const lowprec_target {name}_{place} = {_target(into)};"
        if not self.how.machine:
            fields = ", ".join(str(int(each)) for each in self.fields())
            yield f"static const lowprec_sum {name}_how = {{{fields}}};"
        if not self.exact:
            stages = ", ".join(
                f"&{name}_{stage}" for stage in ("product", "sum", "addend", "begin", "output")
            )
            yield f"static const lowprec_stages {name}_stages = {{{stages}}};"

    def fields(self) -> Iterator[int]:
        """Yield the fields of `lowprec_sum`."""
        how, window = self.how, self.window
        assert how.operands is not None, "a header has operands"
        low, high = self.span()
        yield window.step if window is not None else 0
        yield 0 if window is None else -1 if window.fraction_bits is None else window.fraction_bits
        yield window.lowest_exponent if window is not None else 0
        yield Cut[window.cut.upper()] if window is not None else 0
        yield window is not None and window.groups == "alternate_pairs"
        yield window.group if window is not None and window.scales == "groups" else 1
        yield sum(_last(fmt) for fmt in how.operands)
        yield window is not None and window.negative_zero
        yield how.product is not None
        yield how.order.size if how.order.name == "chunked" else 0
        yield "pairwise" in (how.order.name, how.order.inner if how.order.name == "chunked" else "")
        yield how.addend == "last"
        yield self.term
        yield -(-(high - low) // 64) if self.sums_exactly() else 0
        yield low


#: What gives the code: of sums in an order, of exact sums, and of machines.
_SUM_CALL = "lowprec_dot(&rows, count, given, &{name}_how, &{name}_stages)"
_CALLS = {
    "exact": "lowprec_dot_exactly(&rows, count, given, &{name}_how, &{name}_output)",
    "cdna2": "lowprec_cdna2(&rows, count, given, 4, &{name}_stages)",
    "cdna2_pairs": "lowprec_cdna2(&rows, count, given, 2, &{name}_stages)",
    "cdna3": "lowprec_cdna3(&rows, count, given, {step}, 0, &{name}_stages)",
    "cdna3_fp8": "lowprec_cdna3(&rows, count, given, 16, 1, &{name}_stages)",
}


def _last(fmt: Format) -> int:
    """Return the exponent of the last bit of a format's smallest numbers."""
    return fmt.emin - fmt.trailing_bits


def _is_said(rule: Projection) -> bool:
    """Return whether a header has all of a projection: all but random integers and some policies."""
    plain = Projection(
        rounding=rule.rounding, saturation=rule.saturation, nan=rule.nan, nan_code=rule.nan_code,
        nan_sign=rule.nan_sign, overflow_test=rule.overflow_test, subnormals=rule.subnormals,
        tininess=rule.tininess,
    )  # fmt: skip
    return rule == plain and not rule.rounding.bits and rule.overflow_test != "before"


def _source(fmt: Format, operand: bool = False) -> str:
    """Return how codes are read; tf32 operands are registers of binary32, whose lower bits are not."""
    found = Source(*(int(word) for word in lower_source(fmt)))
    cut = 32 - fmt.width if operand and fmt == TF32 else 0
    fields = (
        found.mask, found.sign, found.complement, found.not_a_zero, found.max_magnitude, found.infinity,
        found.keeps_nan_sign, found.trailing_bits, found.field_mask, found.lowest,
    )  # fmt: skip
    numbers = ", ".join(f"UINT64_C({field:#x})" for field in fields)
    return f"{{{numbers}, {signed(found.exponent)}, {cut}}}"


def _target(into: Rounded) -> str:
    fmt, rule = into
    assert not isinstance(fmt, Codebook), "checked by unsaid"
    grid, sides = lowered(fmt, rule)
    bits = ", ".join(f"UINT64_C({word:#x})" for word in (grid.mask, grid.trailing_bits, grid.hidden))
    ends = signed(grid.emin), signed(grid.top)
    flags = (int(grid.before == _BY_EXPONENT), int(grid.flush))
    tiny = (max(signed(word), -(1 << 30)) for word in (grid.tiny, grid.surely))
    first = ", ".join([bits, *map(str, (*ends, *flags, *tiny))])
    rows = []
    for side in sides:
        fields = (
            side.max_magnitude, side.limit_even, side.limit_odd, side.base, side.step, side.rounded_zero,
            side.zero, side.overflow, side.infinity, side.nan,
        )  # fmt: skip
        rows.append("{" + ", ".join(f"UINT64_C({field:#x})" for field in fields) + "}")
    last = int(rule.rounding.downward)
    return f"{{{first}, {{{', '.join(rows)}}}, {_source(fmt)}, {fmt.emax}, {last}}}"
