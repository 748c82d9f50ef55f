"""Families of formats: what people write instead of `Format(...)`.

Floor 1. Imports the standard library only.
"""

from __future__ import annotations

from typing import Any

from lowprec.spec.format import Format, Sign

__all__ = ["fixed", "finite", "fn", "fnuz", "ieee", "p3109", "power_of_two"]


def ieee(name: str, exponent_bits: int, trailing_bits: int, *, source: str = "IEEE754") -> Format:
    """Return an IEEE 754 interchange format: infinities, and NaNs in the rest of the top binade.

    >>> ieee("binary16", 5, 10).max_finite
    65504.0
    """
    nans = (1 << trailing_bits) - 1
    return _float(name, exponent_bits, trailing_bits, source, nans=nans, infinity=True)


def fn(name: str, exponent_bits: int, trailing_bits: int, *, source: str = "OFP8") -> Format:
    """Return a finite format with one NaN at the top of each sign: "fn" of e4m3fn.

    >>> fn("e4m3fn", 4, 3).max_finite
    448.0
    """
    return _float(name, exponent_bits, trailing_bits, source, nans=1)


def fnuz(
    name: str, exponent_bits: int, trailing_bits: int, *, bias: int | None = None, source: str = "FNUZ"
) -> Format:
    """Return a finite format whose one NaN has the code of -0; its bias is one more than IEEE's.

    >>> fnuz("e4m3fnuz", 4, 3).max_finite
    240.0
    """
    own = _half_range(exponent_bits) + 1 if bias is None else bias
    return _float(name, exponent_bits, trailing_bits, source, bias=own, negative_zero=False)


def finite(name: str, exponent_bits: int, trailing_bits: int, *, source: str = "OCPMX") -> Format:
    """Return a format where every code is a number.

    >>> finite("e2m1fn", 2, 1).max_finite
    6.0
    """
    return _float(name, exponent_bits, trailing_bits, source)


def p3109(width: int, precision: int, *, signed: bool = True, extended: bool = True) -> Format:
    """Return a format of the IEEE P3109 draft, named as it names them.

    Parameters
    ----------
    width : int
        3 to 16 (K in the draft).
    precision : int
        1 to width - 1 if signed, else to width (P in the draft).
    signed, extended : bool
        Extended formats have infinities.

    Raises ValueError: outside those ranges, or values that float64 does not hold.

    Source: [P3109] draft 4.0, section 4.

    >>> p3109(8, 3).name, p3109(8, 3).max_finite
    ('binary8p3se', 49152.0)
    """
    name = f"binary{width}p{precision}{'s' if signed else 'u'}{'e' if extended else 'f'}"
    if not 3 <= width <= 16:
        raise ValueError(f"width={width} of P3109 format {name!r} is out of range; use 3 to 16")
    if not 1 <= precision <= width - signed:
        raise ValueError(
            f"precision={precision} of P3109 format {name!r} is out of range; use 1 to {width - signed}"
        )
    return Format(
        name=name,
        exponent_bits=width - precision + (not signed),
        trailing_bits=precision - 1,
        bias=1 << (width - precision - signed),
        sign=Sign.MAGNITUDE if signed else Sign.UNSIGNED,
        nans=0 if signed else 1,
        infinity=extended,
        negative_zero=not signed,
        source="P3109",
    )


def power_of_two(name: str, exponent_bits: int, *, source: str = "OCPMX") -> Format:
    """Return an unsigned format of powers of two and one NaN, without zero: a block's scale.

    >>> power_of_two("e8m0fnu", 8).max_finite == 2.0**127
    True
    """
    return _float(name, exponent_bits, 0, source, sign=Sign.UNSIGNED, nans=1, subnormals=False)


def fixed(
    name: str, width: int, fraction_bits: int = 0, *, signed: bool = True, source: str = "OCPMX"
) -> Format:
    """Return an integer format, or fixed point: two's complement (or unsigned) times 2**-fraction_bits.

    >>> fixed("int8f6", 8, 6).max_finite
    1.984375
    """
    trailing_bits = width - signed
    return Format(
        name=name,
        exponent_bits=0,
        trailing_bits=trailing_bits,
        bias=1 - trailing_bits + fraction_bits,
        sign=Sign.TWOS_COMPLEMENT if signed else Sign.UNSIGNED,
        source=source,
    )


def _float(name: str, exponent_bits: int, trailing_bits: int, source: str, **fields: Any) -> Format:
    """Return a format with IEEE's bias, unless the fields have another."""
    fields = {"bias": _half_range(exponent_bits)} | fields
    return Format(
        name=name, exponent_bits=exponent_bits, trailing_bits=trailing_bits, source=source, **fields
    )


def _half_range(exponent_bits: int) -> int:
    """Return IEEE's bias, 2**(w - 1) - 1."""
    return (1 << exponent_bits >> 1) - 1
