"""Codes and values as reports show them."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from fractions import Fraction

from lowprec.oracle.convert import decode
from lowprec.oracle.exact import Exact, Special, to_float
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format
from lowprec.spec.naming import plain

__all__ = ["decimal", "fields", "hex_code", "hex_digits", "hex_float", "hex_of", "quoted", "shown_code"]
__all__ += ["shown_float", "shown_value", "split", "widths", "number"]


def split(code: int, widths: Iterable[int]) -> str:
    """Return a code's bits, split into fields of these widths from the top.

    >>> split(0x7E, (1, 4, 3))
    '0 1111 110'
    """
    wide = tuple(widths)
    text, parts = f"{code:0{sum(wide)}b}", []
    for width in wide:
        parts.append(text[:width])
        text = text[width:]
    return " ".join(part for part in parts if part)


def widths(fmt: Format) -> tuple[int, int, int]:
    """Return the widths of a code's sign, exponent field and trailing bits; a codebook has no fields."""
    if isinstance(fmt, Codebook):
        return 0, 0, fmt.width
    return fmt.width - fmt.exponent_bits - fmt.trailing_bits, fmt.exponent_bits, fmt.trailing_bits


def fields(code: int, fmt: Format) -> str:
    """Return a code's bits, split into sign, exponent field and trailing bits.

    >>> from lowprec.spec.catalog import E4M3FN
    >>> fields(0x7E, E4M3FN)
    '0 1111 110'
    """
    return split(code, widths(fmt))


def hex_of(code: int, fmt: Format) -> str:
    """Return a code in hexadecimal, with all its digits."""
    return f"{code:0{hex_digits(fmt)}x}"


def shown_float(value: float) -> str:
    """Return a float64 in decimal, and in hexadecimal where that says more.

    >>> shown_float(0.1015625), shown_float(-0.0), shown_float(float("nan"))
    ('0.1015625 = 0x1.ap-4', '-0.0', 'nan')
    """
    if value == 0 or value - value != 0:
        return decimal(value)
    return f"{value!r} = {hex_float(value)}"


def shown_value(value: Exact) -> str:
    """Return a number as `shown_float` does; integers of many digits, and what is no float64, as a fraction.

    >>> shown_value(Fraction(17, 16)), shown_value(Fraction(1, 3))
    ('1.0625 = 0x1.1p+0', '1/3, about 0.3333333333333333')
    """
    if isinstance(value, Special):
        return decimal(to_float(value))
    if value.denominator == 1 and abs(value) > 1 << 53:
        return str(value)  # with all its digits
    try:
        near = value.numerator / value.denominator
    except OverflowError:
        return str(value)
    if Fraction(near) != value:
        return f"{value}, about {near!r}" if len(str(value)) < 60 else f"about {near!r}"
    return shown_float(near)


def shown_code(code: int, fmt: Format) -> str:
    """Return a code with its bits and its value; a number that is no code as what it is.

    >>> from lowprec.spec.catalog import E4M3FN
    >>> shown_code(0x39, E4M3FN)
    '39  0 0111 001  1.125 = 0x1.2p+0'
    >>> shown_code(0x139, E4M3FN)
    '139  no code of e4m3fn'
    """
    if not 0 <= code < 1 << fmt.width:
        return f"{code:x}  no code of {fmt.name}"
    return f"{hex_of(code, fmt)}  {fields(code, fmt)}  {shown_value(decode(code, fmt))}"


#: Characters of a word of a file that a message shows.
_MOST = 100


def quoted(value: object) -> str:
    """Return the repr of something that a file says, cut short where it is long.

    >>> quoted("layer.weight"), len(quoted("x" * 1000))
    ("'layer.weight'", 103)
    """
    text = plain(repr(value))
    return text if len(text) <= _MOST else f"{text[:_MOST]}..."


def decimal(value: float) -> str:
    """Return the shortest decimal that is this float; NaNs with their sign."""
    return hex_float(value) if value != value else repr(value)


def hex_float(value: float) -> str:
    """Return a float without loss, in C's notation; NaNs with their sign.

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


def hex_digits(fmt: Format) -> int:
    """Return the number of hexadecimal digits of a code."""
    return -(-fmt.width // 4)


def hex_code(code: int, fmt: Format) -> str:
    """Return a code as 0x and all its digits."""
    return f"{code:#0{2 + hex_digits(fmt)}x}"


def number(value: float | None) -> str:
    """Return a value as people write it: a power of two as such, others in decimal.

    >>> number(2.0**-9), number(448.0), number(None)
    ('2^-9', '448', '-')
    """
    if value is None:
        return "-"
    fraction, exponent = math.frexp(value)
    if abs(fraction) == 0.5 and not 1 <= abs(value) <= 256:
        return f"{'-' if value < 0 else ''}2^{exponent - 1}"
    return repr(value).removesuffix(".0")
