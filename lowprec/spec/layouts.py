"""Layouts: how hardware shares random words between lanes, and for which formats.

What is said here is which conversions there are; cutting integers out of words is done twice, by the
oracle and on the array floor.

Floor 1. Imports the standard library only. Source: [PTX] cvt; [RDNA4]; [HIP]; [AVX10].
"""

from __future__ import annotations

from collections.abc import Mapping

from lowprec.spec import catalog
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format, Sign
from lowprec.spec.rounding import Rounding

_PTX_RS = {
    catalog.E4M3FN: 16,
    catalog.E5M2: 16,
    catalog.E2M3FN: 16,
    catalog.E3M2FN: 16,
    catalog.BFLOAT16: 16,
    catalog.BINARY16: 13,
}
_AVX10_2 = {catalog.E5M2: 8, catalog.E4M3FN: 7}

#: Random bits of each format that a layout has, where they do not follow from the format.
_BITS: Mapping[str, Mapping[Format, int]] = {"ptx_rs": _PTX_RS, "avx10_2": _AVX10_2}


def lanes(rounding: Rounding, fmt: Format) -> int:
    """Return the number of neighbouring elements along the last axis that share a random word.

    >>> from lowprec.spec.rounding import stochastic
    >>> lanes(stochastic(16, "ptx_rs"), catalog.E4M3FN), lanes(stochastic(8), catalog.E4M3FN)
    (4, 1)

    Raises ValueError: a layout or a number of bits that the format does not have.
    """
    check_layout(rounding, fmt)
    if rounding.variant != "ptx_rs":
        return 1
    return 2 if fmt.width == 16 else 4


def check_layout(rounding: Rounding, fmt: Format) -> None:
    """Refuse a hardware layout that has no conversion to a format, or one of other random bits."""
    variant = rounding.variant
    if variant in ("", "A", "B", "C"):
        return
    wanted: int | None
    if variant in _BITS:
        wanted, has = _BITS[variant].get(fmt), ", ".join(item.name for item in _BITS[variant])
    else:
        signed = fmt.width == 8 and fmt.sign is Sign.MAGNITUDE and not isinstance(fmt, Codebook)
        wanted, has = 23 - fmt.trailing_bits if signed else None, "binary formats of 8 bits with a sign bit"
    if wanted is None:
        raise ValueError(
            f"variant={variant!r} with bits={rounding.bits} has no conversion to {fmt.name!r}; it has {has}"
        )
    if rounding.bits != wanted:
        raise ValueError(
            f"variant={variant!r} with bits={rounding.bits} does not fit {fmt.name!r}; use bits={wanted}"
        )
