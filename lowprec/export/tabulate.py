"""Contents of a format's tables, before anyone writes them down: rows, thresholds, bit patterns.

Computed by the oracle alone; needs neither numba nor NumPy.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from lowprec import __version__
from lowprec.oracle.convert import decode, project, steps
from lowprec.oracle.exact import Special, to_float
from lowprec.spec import catalog
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format
from lowprec.spec.naming import plain
from lowprec.spec.projection import Projection
from lowprec.verify.codes.display import hex_float

#: What `lowprec table --as` and `lowprec vectors --as` take.
TABLE_KINDS = ("csv", "json", "md", "npy", "mem", "c", "sv", "vhdl")
VECTOR_KINDS = ("text", "csv", "jsonl", "mem", "npy")


def provenance(command: str) -> str:
    """Return where a generated file comes from, as one line that does not end a comment.

    >>> provenance("table my*/e4m3.toml").split(": ")[1]
    'table my* /e4m3.toml'
    """
    said = plain(command).replace("*/", "* /")
    return f"lowprec {__version__}: {said}" if command else f"lowprec {__version__}"


def classify(code: int, fmt: Format) -> str:
    """Return the class of a code: zero, subnormal, normal, infinity or nan.

    Numbers of fixed point and of codebooks are normal.
    """
    value = decode(code, fmt)
    if value in (Special.NAN, Special.NEGATIVE_NAN):
        return "nan"
    if value in (Special.INFINITY, Special.NEGATIVE_INFINITY):
        return "infinity"
    if value == 0 or value is Special.NEGATIVE_ZERO:
        return "zero"
    if isinstance(fmt, Codebook) or not fmt.exponent_bits or not fmt.subnormals:
        return "normal"
    return "subnormal" if (code & ~fmt.sign_code) >> fmt.trailing_bits == 0 else "normal"


def rows(fmt: Format) -> Iterator[tuple[int, str, float]]:
    """Yield every code of a format in order, with its class and value."""
    for code in range(1 << fmt.width):
        yield code, classify(code, fmt), to_float(decode(code, fmt))


def thresholds(fmt: Format, projection: Projection) -> Iterator[tuple[str, float, int]]:
    """Yield the sign, first magnitude and code of every step of a projection."""
    for sign, (magnitudes, codes) in zip("+-", steps(fmt, projection), strict=True):
        for magnitude, code in zip(magnitudes, codes, strict=True):
            yield sign, magnitude, code


def value_words(fmt: Format) -> tuple[str, list[int]]:
    """Return the value of every code as binary32 bits where that holds them all, else as binary64 bits."""
    values = [value for _, _, value in rows(fmt)]
    if catalog.BINARY32.contains(fmt):
        # NaNs by hand: packing one as binary32 may set or lose payload bits.
        return "binary32", [_nan32(value) if value != value else _bits("f", "I", value) for value in values]
    return "binary64", [_bits("d", "Q", value) for value in values]


def nan_codes(fmt: Format) -> list[int]:
    """Return what +NaN and -NaN become in files of formats: the NaN, else the extreme finite value."""
    return [project(nan, fmt, Projection(nan="max")) for nan in (Special.NAN, Special.NEGATIVE_NAN)]


def _bits(kind: str, word: str, value: float) -> int:
    return int(struct.unpack(f"<{word}", struct.pack(f"<{kind}", value))[0])


def _nan32(value: float) -> int:
    return 0xFFC00000 if hex_float(value) == "-nan" else 0x7FC00000
