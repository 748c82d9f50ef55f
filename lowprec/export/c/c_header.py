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

from lowprec.export.filling import filled
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
    said = common | {
        "mask": f"{grid.mask:#x}u",
        "trailing_bits": grid.trailing_bits,
        "hidden": filled("format_hidden.h", {"least": f"{grid.hidden:#x}u"}) if grid.hidden else "",
        "emin": signed(grid.emin),
        "top": signed(grid.top),
        "last": _pair(side.max_magnitude for side in plain),
        "base": _pair(side.base for side in plain),
        "step": _pair(side.step & 0xFFFFFFFF for side in plain),
        "rounded_zero": _pair(side.rounded_zero for side in plain),
    }
    return _joined(
        ("format_beginning", "format_round", "format_special", "format_encode", "format_end"), said
    )


def _joined(names: Iterable[str], said: dict[str, Any]) -> str:
    """Return the parts of a header with an empty line between them."""
    return "\n".join(filled(f"{name}.h", said) for name in names)


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


def signed(word: int) -> int:
    """Return the number that a word is in two's complement."""
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
    said = common | tables
    has_zero_between = fmt.ray(False).sizes[0] < 0
    said |= {
        "own_limits": _limits((fmt.mode(mode), mode.name) for mode in MODES),
        "mask": f"{(1 << fmt.width) - 1:#x}u",
        "counts": f"{{{len(rays[0])}, {len(rays[1])}}}",
        "zero": filled(f"codebook_{'between' if has_zero_between else 'zero'}.h", said),
    }
    parts = ("format_beginning", "codebook_tables", "format_special", "codebook_encode", "format_end")
    return _joined(parts, said)


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
