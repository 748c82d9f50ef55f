"""Exact numbers from text, which need not be trusted.

Floor 1. Imports the standard library only.
"""

from __future__ import annotations

import re
from fractions import Fraction

#: Characters of a number and digits of an exponent, at most: larger numbers would fill the memory.
_LONGEST, _DIGITS = 2000, 4
_WAY = "write it as 464, 1.5e-3, 1/3, 0x1.8p+3 or 3*2^-140"
_HEXADECIMAL = re.compile(r"([+-]?)0x([0-9a-f]*)\.?([0-9a-f]*)")


def read_number(text: str) -> Fraction:
    """Return a number exactly: decimal, a fraction, hexadecimal, or one of these times a power of two.

    >>> read_number("0.1"), read_number("1/3"), read_number("0x1.8p+3"), read_number("3*2^-2")
    (Fraction(1, 10), Fraction(1, 3), Fraction(12, 1), Fraction(3, 4))

    Raises
    ------
    ValueError
        No number, one of more than 2000 characters, or with an exponent of more than four digits.
    """
    word, *powers = text.strip().lower().split("*2^")
    base, mark = (2, "p") if "0x" in word else (10, "e")
    digits, *exponents = word.split(mark)
    sizes = [len(each.lstrip("+-").lstrip("0")) for each in (*powers, *exponents)]
    if len(text) > _LONGEST or any(size > _DIGITS for size in sizes):
        raise ValueError(f"{text[:60]!r} is too long a number; {_WAY}")
    try:
        if len(powers) > 1 or len(exponents) > 1 or ("/" in digits and exponents):
            raise ValueError
        value = _hexadecimal(digits) if base == 2 else Fraction(digits)
        for each, exponent in ((base, exponents), (2, powers)):
            value *= Fraction(each) ** sum(map(int, exponent))
        return value
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"{text[:60]!r} is no number; {_WAY}") from None


def read_count(text: str) -> int | None:
    """Return a count of at most 18 ASCII digits; None of any other text.

    >>> read_count("16"), read_count("-1"), read_count("²"), read_count("1" * 5000)
    (16, None, None, None)
    """
    return int(text) if re.fullmatch("[0-9]{1,18}", text) else None


def read_integer(text: str) -> int:
    """Return an integer of a JSON text, for `json.loads(parse_int=read_integer)`.

    Raises ValueError: more than 2000 characters, which take time that grows with their square.
    """
    if len(text) > _LONGEST:
        raise ValueError(f"it has an integer of {len(text):,} characters, {_LONGEST:,} at most")
    return int(text)


def _hexadecimal(digits: str) -> Fraction:
    match = _HEXADECIMAL.fullmatch(digits)
    if match is None:
        raise ValueError
    sign, whole, rest = match.groups()
    return Fraction(int(f"{sign}{whole}{rest}", 16), 16 ** len(rest))
