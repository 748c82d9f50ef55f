"""A codebook as a C99 header: decode table, and encode in every mode by comparing integers.

The header has no dependency but stdint.h, allocates nothing and uses no floating point: magnitudes are
compared as the bits of binary64, which are in the order of their values.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from fractions import Fraction

from lowprec.export.c_header import BEGINNING, END, SPECIAL, fields, limits, words
from lowprec.kernels.lower.records import Side
from lowprec.spec.codebook import Codebook, Number
from lowprec.spec.rounding import MODES

#: Beside a code: that it is odd, that the threshold above is a binary64, that numbers above do not overflow.
_ODD, _EXACT, _STAYS = 1 << 16, 1 << 17, 1 << 18


def codebook_header(fmt: Codebook, provenance: str) -> str:
    """Return the header's text."""
    common, plain = fields(fmt, provenance)
    rays = [_places(fmt, bool(sign), side) for sign, side in enumerate(plain)]
    tables = {}
    for sign, ray in enumerate(rays):
        for column, (field, digits) in enumerate((("sizes", 16), ("steps", 16), ("codes", 8))):
            tables[f"{field}{sign}"] = words([row[column] & (1 << 64) - 1 for row in ray], digits)
    return (BEGINNING + _TEMPLATE + END).format(
        **common,
        own_limits=limits((fmt.mode(mode), mode.name) for mode in MODES),
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

_TEMPLATE = (
    """
/* By mode, sign and parity as above, with the ties of {fmt} itself. */
static const uint64_t {name}_limits[8][2][2] = {{
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
    + SPECIAL
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
