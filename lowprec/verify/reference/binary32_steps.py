"""Thresholds of a conversion from binary32, as bit patterns; from the oracle alone, without NumPy."""

from __future__ import annotations

import struct

from lowprec.oracle.convert import steps
from lowprec.spec.format import Format
from lowprec.spec.projection import Projection

__all__ = ["binary32_steps"]


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


def _ceil32(value: float) -> int:
    """Return the bits of the smallest binary32 that is not below a float64 that is not negative."""
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
