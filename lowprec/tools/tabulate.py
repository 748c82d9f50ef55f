"""What tables of a format say, before anyone writes it down: rows, thresholds, bit patterns.

From the oracle alone; needs neither numba nor NumPy.

Floor 5.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from lowprec import __version__
from lowprec.oracle.convert import decode, project, steps
from lowprec.oracle.exact import Special, to_float
from lowprec.spec import catalog
from lowprec.spec.format import Format
from lowprec.spec.projection import Projection

__all__ = [
    "TABLE_KINDS",
    "VECTOR_KINDS",
    "binary32_steps",
    "classify",
    "decimal",
    "hex_code",
    "hex_digits",
    "hex_float",
    "nan_codes",
    "provenance",
    "rows",
    "thresholds",
    "value_words",
]

#: What `lowprec table --as` and `lowprec vectors --as` take.
TABLE_KINDS = ("csv", "json", "md", "npy", "mem", "c", "sv", "vhdl")
VECTOR_KINDS = ("text", "csv", "jsonl", "mem", "npy")


def provenance(command: str) -> str:
    """Where a generated file comes from."""
    return f"lowprec {__version__}: {command}" if command else f"lowprec {__version__}"


def classify(code: int, fmt: Format) -> str:
    """The class of a code: zero, subnormal, normal, infinity or nan; fixed point is normal."""
    value = decode(code, fmt)
    if value in (Special.NAN, Special.NEGATIVE_NAN):
        return "nan"
    if value in (Special.INFINITY, Special.NEGATIVE_INFINITY):
        return "infinity"
    if value == 0 or value is Special.NEGATIVE_ZERO:
        return "zero"
    if not fmt.exponent_bits or not fmt.subnormals:
        return "normal"
    return "subnormal" if (code & ~fmt.sign_code) >> fmt.trailing_bits == 0 else "normal"


def rows(fmt: Format) -> Iterator[tuple[int, str, float]]:
    """Every code of a format in order, with its class and value."""
    for code in range(1 << fmt.width):
        yield code, classify(code, fmt), to_float(decode(code, fmt))


def hex_float(value: float) -> str:
    """A float without loss, in C's notation; NaNs with their sign.

    >>> hex_float(0.1015625), hex_float(float("-inf"))
    ('0x1.ap-4', '-inf')
    """
    if value != value:
        return "-nan" if struct.pack(">d", value)[0] & 0x80 else "nan"
    text = value.hex()
    if "." not in text:
        return text
    digits, exponent = text.split("p")
    return f"{digits.rstrip('0').removesuffix('.')}p{exponent}"


def decimal(value: float) -> str:
    """The shortest decimal that is this float; NaNs with their sign."""
    return hex_float(value) if value != value else repr(value)


def thresholds(fmt: Format, projection: Projection) -> Iterator[tuple[str, float, int]]:
    """Sign, first magnitude and code of every step of a projection."""
    for sign, (magnitudes, codes) in zip("+-", steps(fmt, projection), strict=True):
        for magnitude, code in zip(magnitudes, codes, strict=True):
            yield sign, magnitude, code


def value_words(fmt: Format) -> tuple[str, list[int]]:
    """The value of every code as binary32 bits where that holds them all, else as binary64 bits."""
    values = [value for _, _, value in rows(fmt)]
    if catalog.BINARY32.contains(fmt):
        # NaNs by hand: packing one as binary32 may set or lose payload bits.
        return "binary32", [_nan32(value) if value != value else _bits("f", "I", value) for value in values]
    return "binary64", [_bits("d", "Q", value) for value in values]


def binary32_steps(fmt: Format, projection: Projection) -> list[tuple[list[int], list[int]]]:
    """Encode thresholds for binary32 operands: ascending bit patterns without sign, and codes."""
    result = []
    for magnitudes, codes in steps(fmt, projection):
        firsts: list[int] = []
        kept: list[int] = []
        for magnitude, code in zip(magnitudes, codes, strict=True):
            bits = _ceil32(magnitude)
            if firsts and firsts[-1] == bits:
                kept[-1] = code  # no binary32 lies between the two thresholds
            elif not kept or kept[-1] != code:
                firsts.append(bits)
                kept.append(code)
        result.append((firsts, kept))
    return result


def nan_codes(fmt: Format) -> list[int]:
    """What +NaN and -NaN become in files of formats: the NaN, else the extreme finite value."""
    return [project(nan, fmt, Projection(nan="max")) for nan in (Special.NAN, Special.NEGATIVE_NAN)]


def _ceil32(value: float) -> int:
    """Bits of the smallest binary32 that is not below a float64 that is not negative."""
    (bits,) = struct.unpack("<Q", struct.pack("<d", value))
    if bits >= 0x7FF0000000000000:
        return 0x7F800000
    exponent = (bits >> 52) - 1023
    if exponent > 127:
        return 0x7F800000
    significand = (bits & (1 << 52) - 1) | ((1 << 52) if bits >> 52 else 0)
    drop = 29 + max(0, -126 - max(exponent, -1022))
    kept = -(-significand >> drop) if drop < 64 else int(significand > 0)
    binade: int = max(exponent, -126)
    return kept + (binade + 126 << 23)


def _bits(kind: str, word: str, value: float) -> int:
    return int(struct.unpack(f"<{word}", struct.pack(f"<{kind}", value))[0])


def _nan32(value: float) -> int:
    return 0xFFC00000 if hex_float(value) == "-nan" else 0x7FC00000


def hex_digits(fmt: Format) -> int:
    """Hexadecimal digits of a code."""
    return -(-fmt.width // 4)


def hex_code(code: int, fmt: Format) -> str:
    """A code as 0x and all its digits."""
    return f"{code:#0{2 + hex_digits(fmt)}x}"
