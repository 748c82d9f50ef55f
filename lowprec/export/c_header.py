"""A format as a C99 header: decode table and integer-only encode in every mode.

The header has no dependency but stdint.h, allocates nothing and uses no floating point. Its codes
and limits are those that the kernels read, so that no policy is written a second time. A codebook's header
compares magnitudes as the bits of binary64, which are in the order of their values.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

from lowprec.export.tabulate import value_words
from lowprec.kernels.lower.records import LIMITS, Side
from lowprec.kernels.lower.scalar import Grid, lower_target
from lowprec.spec.codebook import Codebook, Number
from lowprec.spec.format import Format
from lowprec.spec.projection import Projection, Saturation
from lowprec.spec.rounding import MODES, Rounding


def c_header(fmt: Format, provenance: str) -> str:
    """Return the header's text, for a format of at most 16 bits."""
    grid, _ = lowered(fmt, Projection(nan="max"))
    common, plain = _fields(fmt, provenance)
    return _TEMPLATE.format(
        **common,
        mask=f"{grid.mask:#x}u",
        trailing_bits=grid.trailing_bits,
        hidden=_HIDDEN.format(hidden=f"{grid.hidden:#x}u") if grid.hidden else "",
        emin=_signed(grid.emin),
        top=_signed(grid.top),
        last=_pair(side.max_magnitude for side in plain),
        base=_pair(side.base for side in plain),
        step=_pair(side.step & 0xFFFFFFFF for side in plain),
        rounded_zero=_pair(side.rounded_zero for side in plain),
    )


def _fields(fmt: Format, provenance: str) -> tuple[dict[str, Any], Sequence[Side]]:
    """Return what the headers of all formats say, by place in the template, and the two signs' records."""
    name = f"lowprec_{identifier(fmt.name)}"
    value_name, values = value_words(fmt)
    value_bits = 32 if value_name == "binary32" else 64
    sides = {policy: lowered(fmt, Projection(nan="max", saturation=policy))[1] for policy in Saturation}
    plain = sides[Saturation.NONE]
    nan_note = f" {fmt.name} has no NaN: a NaN becomes the extreme finite value of its sign."
    said = {
        "provenance": provenance,
        "fmt": fmt.name,
        "nan_note": "" if fmt.has_nan else nan_note,
        "guard": f"{name.upper()}_H",
        "name": name,
        "code": f"uint{fmt.code_bits}_t",
        "value": f"uint{value_bits}_t",
        "value_name": value_name,
        "count": 1 << fmt.width,
        "values": _words(values, value_bits // 4),
        "rounding": ",\n    ".join(f"LOWPREC_{mode.name.upper()}" for mode in MODES),
        "saturation": ",\n    ".join(f"LOWPREC_SATURATE_{policy.name}" for policy in Saturation),
        "modes": len(MODES),
        "limits": _limits((mode, mode.name) for mode in MODES),
        "zeros": _pair(side.zero for side in plain),
        "nan": _pair(side.nan for side in plain),
    }
    for field in ("overflow", "infinity"):
        said[field] = f"{{{', '.join(_pair(getattr(s, field) for s in both) for both in sides.values())}}}"
    return said, plain


def lowered(fmt: Format, projection: Projection) -> tuple[Grid, Sequence[Side]]:
    """Return what the kernels need of a format, and of its two signs."""
    found = [int(word) for word in lower_target(fmt, projection)]
    grid, size = Grid(*found[: len(Grid._fields)]), len(Side._fields)
    first = len(Grid._fields)
    return grid, [Side(*found[start : start + size]) for start in (first, first + size)]


def _limits(modes: Iterable[tuple[Rounding, str]]) -> str:
    """Return the limits of modes by sign and parity as an initializer, each with a name."""
    lines = []
    for mode, name in modes:
        rows = []
        for sign in (False, True):
            both = (LIMITS[mode.threshold(negative=sign, odd=odd)] for odd in (False, True))
            rows.append(f"{{{', '.join(f'UINT64_C({limit:#x})' for limit in both)}}}")
        lines.append(f"{{{', '.join(rows)}}} /* {name} */")
    return ",\n    ".join(lines)


def _pair(codes: Iterable[int]) -> str:
    """Return codes by sign as an initializer."""
    return "{" + ", ".join(f"{code:#x}u" for code in codes) + "}"


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


def _words(numbers: Sequence[int], digits: int) -> str:
    """Return words as an initializer, eight a line."""
    suffix = "u" if digits <= 8 else "ull"
    texts = [f"0x{word:0{digits}x}{suffix}" for word in numbers]
    return ",\n    ".join(", ".join(texts[i : i + 8]) for i in range(0, len(texts), 8))


def identifier(name: str) -> str:
    """Return a format's name as C, SystemVerilog and VHDL take it, and C++ and VHDL take no `__`.

    >>> identifier("my format-2"), identifier("8-bit (mine)")
    ('my_format_2', 'f8_bit_mine')
    """
    text = re.sub("[^0-9A-Za-z]+", "_", name).strip("_")
    return text if text and not text[0].isdigit() else f"f{text}"


_HIDDEN = """\
        if (kept < {hidden}) {{
            /* Below the smallest value of a format without zero. */
            magnitude = {hidden};
            tail = 0;
        }}
        magnitude -= {hidden};
"""

#: The beginning of a header: what all headers have alike, and the values.
_BEGINNING = """\
/* {provenance}

   Decode and encode {fmt}, bit for bit as lowprec does: no heap, no floating point.{nan_note} */

#ifndef {guard}
#define {guard}

#include <stdint.h>

#ifndef LOWPREC_MODES
#define LOWPREC_MODES

typedef enum {{
    {rounding}
}} lowprec_rounding;

typedef enum {{
    {saturation}
}} lowprec_saturation;

/* By mode, sign and parity of the nearer code: the farther code is taken where the tail, in units
   of 2^-64 of the gap between the two, is above the limit. */
static const uint64_t lowprec_limits[{modes}][2][2] = {{
    {limits}
}};

#endif

/* The value of every code, as {value_name} bits. */
static const {value} {name}_values[{count}] = {{
    {values}
}};

static inline {value} {name}_decode({code} code)
{{
    return {name}_values[code & {mask}];
}}
"""

#: The end of a header: what SystemVerilog calls.
_END = """
#ifdef LOWPREC_DPI
/* What the SystemVerilog package imports: to be compiled once, as C or as C++. */
#ifdef __cplusplus
extern "C"
#endif
uint32_t {name}_dpi(uint32_t binary32, int32_t rounding, int32_t saturation);
uint32_t {name}_dpi(uint32_t binary32, int32_t rounding, int32_t saturation)
{{
    return {name}_encode(binary32, (lowprec_rounding)rounding, (lowprec_saturation)saturation);
}}
#endif

#endif
"""

#: The code of a zero, an infinity or a NaN, by its kind: 0, 1, 2.
_SPECIAL = """\
static inline {code} {name}_special(int negative, int kind, lowprec_saturation saturation)
{{
    static const uint32_t zero[2] = {zeros};
    static const uint32_t nan[2] = {nan};
    static const uint32_t infinity[3][2] = {infinity};

    return ({code})(kind == 0 ? zero[negative] : kind == 1 ? infinity[saturation][negative] : nan[negative]);
}}
"""

_TEMPLATE = (
    _BEGINNING
    + """
/* The code of (-1)^negative * significand * 2^exponent; significand is not zero. */
static inline {code} {name}_round(
    int negative, uint64_t significand, int exponent, lowprec_rounding rounding, \
lowprec_saturation saturation)
{{
    static const uint32_t last[2] = {last};
    static const uint32_t base[2] = {base};
    static const uint32_t step[2] = {step};
    static const uint32_t rounded_zero[2] = {rounded_zero};
    static const uint32_t overflow[3][2] = {overflow};
    uint64_t magnitude = last[negative];
    uint64_t tail = UINT64_MAX;
    int lead = exponent - 1;
    uint64_t rest;

    for (rest = significand; rest != 0; rest >>= 1)
        lead++;
    if (lead <= {top}) {{
        /* The nearest code not farther from zero, on the grid continued past the largest value. */
        int binade = lead > {emin} ? lead : {emin};
        int shift;
        uint64_t kept;
        shift = binade - {trailing_bits} - exponent;
        if (shift <= 0) {{
            kept = significand << -shift;
            tail = 0;
        }} else if (shift < 64) {{
            kept = significand >> shift;
            tail = significand << (64 - shift);
        }} else {{
            int below = shift - 64 < 63 ? shift - 64 : 63;
            kept = 0;
            tail = significand >> below;
            if (tail << below != significand)
                tail |= 1;
        }}
        magnitude = kept + ((uint64_t)(binade - ({emin})) << {trailing_bits});
{hidden}        if (magnitude > last[negative]) {{
            magnitude = last[negative];
            tail = UINT64_MAX;
        }}
    }}
    if (tail > lowprec_limits[rounding][negative][magnitude & 1])
        magnitude++;
    if (magnitude > last[negative])
        return ({code})overflow[saturation][negative];
    if (magnitude == 0)
        return ({code})rounded_zero[negative];
    return ({code})((base[negative] + step[negative] * (uint32_t)magnitude) & {mask});
}}

"""
    + _SPECIAL
    + """
/* The code of a binary32, given as its bits. */
static inline {code} {name}_encode(
    uint32_t binary32, lowprec_rounding rounding, lowprec_saturation saturation)
{{
    int negative = (int)(binary32 >> 31);
    int field = (int)(binary32 >> 23 & 0xff);
    uint32_t trailing = binary32 & 0x7fffff;

    if (field == 0xff)
        return {name}_special(negative, trailing ? 2 : 1, saturation);
    if (field == 0 && trailing == 0)
        return {name}_special(negative, 0, saturation);
    if (field == 0)
        return {name}_round(negative, trailing, -149, rounding, saturation);
    return {name}_round(negative, trailing | 0x800000, field - 150, rounding, saturation);
}}

/* The code of a binary64, given as its bits: rounded once. */
static inline {code} {name}_encode64(
    uint64_t binary64, lowprec_rounding rounding, lowprec_saturation saturation)
{{
    int negative = (int)(binary64 >> 63);
    int field = (int)(binary64 >> 52 & 0x7ff);
    uint64_t trailing = binary64 & UINT64_C(0xfffffffffffff);

    if (field == 0x7ff)
        return {name}_special(negative, trailing ? 2 : 1, saturation);
    if (field == 0 && trailing == 0)
        return {name}_special(negative, 0, saturation);
    if (field == 0)
        return {name}_round(negative, trailing, -1074, rounding, saturation);
    return {name}_round(negative, trailing | UINT64_C(0x10000000000000), field - 1075, rounding, saturation);
}}
"""
    + _END
)


#: Beside a code: that it is odd, that the threshold above is a binary64, that numbers above do not overflow.
_ODD, _EXACT, _STAYS = 1 << 16, 1 << 17, 1 << 18


def codebook_header(fmt: Codebook, provenance: str) -> str:
    """Return the header's text."""
    common, plain = _fields(fmt, provenance)
    rays = [_places(fmt, bool(sign), side) for sign, side in enumerate(plain)]
    tables = {}
    for sign, ray in enumerate(rays):
        for column, (field, digits) in enumerate((("sizes", 16), ("steps", 16), ("codes", 8))):
            tables[f"{field}{sign}"] = _words([row[column] & (1 << 64) - 1 for row in ray], digits)
    return (_BEGINNING + _BOOK_TEMPLATE + _END).format(
        **common,
        own_limits=_limits((fmt.mode(mode), mode.name) for mode in MODES),
        mask=f"{(1 << fmt.width) - 1:#x}u",
        counts=f"{{{len(rays[0])}, {len(rays[1])}}}",
        zero=_BETWEEN if fmt.ray(False).sizes[0] < 0 else _ZERO.format(name=common["name"]),
        **tables,
    )


def _places(fmt: Codebook, negative: bool, side: Side) -> Sequence[tuple[int, int, int]]:
    """Return for each place of a ray its size, its threshold and its code with what is said beside it."""
    ray, places = fmt.ray(negative), []
    for place, (size, code, threshold) in enumerate(zip(ray.sizes, ray.codes, ray.thresholds, strict=True)):
        made = code if side.step else side.rounded_zero if size == 0 else side.base
        step, exact = (0, False) if threshold is None else _first(threshold)
        made |= _ODD * (code & 1) | _EXACT * exact
        made |= _STAYS * (place == len(ray.sizes) - 1 and ray.beyond is None)
        places.append((-1 if size < 0 else _bits(size), step, made))
    return places


def _first(number: Number) -> tuple[int, bool]:
    """Return the bits of the first binary64 magnitude that is not below a number, and whether it is that."""
    if number < 0:
        return 0, False
    try:
        near = float(number)
    except OverflowError:
        return _bits(math.inf), False
    if Fraction(near) < number:
        return _bits(math.nextafter(near, math.inf)), False
    return _bits(near), Fraction(near) == number


def _bits(value: float) -> int:
    return int(struct.unpack("<Q", struct.pack("<d", abs(value)))[0])


_ZERO = """\
    if (magnitude == 0)
        return {name}_special(negative, 0, saturation);
"""

_BETWEEN = """\
    if (magnitude == 0)
        negative = 0;
"""

_BOOK_TEMPLATE = (
    """
/* By mode, sign and parity as above, with the ties of {fmt} itself. */
static const uint64_t {name}_limits[{modes}][2][2] = {{
    {own_limits}
}};

/* By sign, from zero outward: the magnitudes of values as binary64 bits (-1: a value of the other
   sign), the first magnitude at or above the threshold that follows, and codes. Above a code: bit 16
   its own parity, bit 17 the threshold is that magnitude, bit 18 nothing overflows. */
static const uint64_t {name}_sizes0[] = {{
    {sizes0}
}};
static const uint64_t {name}_steps0[] = {{
    {steps0}
}};
static const uint32_t {name}_codes0[] = {{
    {codes0}
}};
static const uint64_t {name}_sizes1[] = {{
    {sizes1}
}};
static const uint64_t {name}_steps1[] = {{
    {steps1}
}};
static const uint32_t {name}_codes1[] = {{
    {codes1}
}};

"""
    + _SPECIAL
    + """
/* The code of a finite magnitude, given as binary64 bits, and its sign. */
static inline {code} {name}_round(
    int negative, uint64_t magnitude, lowprec_rounding rounding, lowprec_saturation saturation)
{{
    static const int counts[2] = {counts};
    static const uint32_t overflow[3][2] = {overflow};
    const uint64_t *sizes, *steps;
    const uint32_t *codes;
    uint64_t tail, size;
    int low = 0, high;

{zero}    sizes = negative ? {name}_sizes1 : {name}_sizes0;
    steps = negative ? {name}_steps1 : {name}_steps0;
    codes = negative ? {name}_codes1 : {name}_codes0;
    high = counts[negative];
    while (high - low > 1) {{
        int middle = low + (high - low) / 2;
        if (sizes[middle] <= magnitude)
            low = middle;
        else
            high = middle;
    }}
    size = sizes[low];
    if (size == magnitude || (codes[low] >> 18 & 1) || (size > magnitude && !(size >> 63)))
        return ({code})(codes[low] & {mask});
    /* In units of 2^-64, with the threshold in the middle. */
    tail = magnitude < steps[low] ? UINT64_C(1) << 62 : UINT64_C(3) << 62;
    if (magnitude == steps[low] && (codes[low] >> 17 & 1))
        tail = UINT64_C(1) << 63;
    if (tail > {name}_limits[rounding][negative][codes[low] >> 16 & 1])
        low++;
    if (low == counts[negative])
        return ({code})overflow[saturation][negative];
    return ({code})(codes[low] & {mask});
}}

/* The code of a binary64, given as its bits. */
static inline {code} {name}_encode64(
    uint64_t binary64, lowprec_rounding rounding, lowprec_saturation saturation)
{{
    int negative = (int)(binary64 >> 63);
    uint64_t magnitude = binary64 & UINT64_C(0x7fffffffffffffff);

    if (magnitude >= UINT64_C(0x7ff0000000000000))
        return {name}_special(negative, magnitude > UINT64_C(0x7ff0000000000000) ? 2 : 1, saturation);
    return {name}_round(negative, magnitude, rounding, saturation);
}}

/* The code of a binary32, given as its bits. */
static inline {code} {name}_encode(
    uint32_t binary32, lowprec_rounding rounding, lowprec_saturation saturation)
{{
    int negative = (int)(binary32 >> 31);
    int field = (int)(binary32 >> 23 & 0xff);
    uint64_t trailing = binary32 & 0x7fffff;

    if (field == 0xff)
        return {name}_special(negative, trailing ? 2 : 1, saturation);
    if (field == 0 && trailing != 0) {{
        for (field = 1; !(trailing >> 23); field--)
            trailing <<= 1;
        trailing &= 0x7fffff;
    }} else if (field == 0)
        field = -896;
    return {name}_round(negative, (uint64_t)(field + 896) << 52 | trailing << 29, rounding, saturation);
}}
"""
)
