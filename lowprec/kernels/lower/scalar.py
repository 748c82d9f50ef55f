"""Lower formats and projections to the integers that kernels read.

All policy is decided here, once for a format and a projection, and becomes a code or a limit in a
small array. The kernels know no policy and no format.

Floor 2b. Imports spec and NumPy.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from lowprec.kernels.lower.codebook import lower_codebook
from lowprec.kernels.lower.records import (
    LIMITS,
    ONES,
    OVERFLOW_TESTS,
    REFUSED,
    VARIANTS_BY_NUMBER,
    Grid,
    Params,
    Side,
    Signed,
    Source,
    Word,
)
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format, Sign
from lowprec.spec.projection import Flag, Projection, Saturation

__all__ = [
    "REFUSED",
    "Grid",
    "Params",
    "Side",
    "Signed",
    "Source",
    "Word",
    "lower_source",
    "lower_target",
    "may_refuse",
    "parts",
]


@functools.lru_cache(maxsize=1024)
def lower_source(fmt: Format, flush: bool = False) -> Params:
    """Return a kernel's parameters to read codes of a format, subnormals as zeros if `flush`."""
    t = fmt.trailing_bits
    fields = fmt.exponent_bits > 0
    return _array(
        *Source(
            mask=(1 << fmt.width) - 1,
            sign=fmt.sign_code,
            complement=ONES if fmt.sign is Sign.TWOS_COMPLEMENT else 0,
            not_a_zero=0 if fmt.negative_zero else ONES,
            max_magnitude=fmt.max_magnitude + (fmt.sign is Sign.TWOS_COMPLEMENT),
            infinity=ONES if fmt.infinity_code is None else fmt.infinity_code,
            keeps_nan_sign=fmt.has_signed_nan,
            quiet=ONES if fmt.quiet_bit is None else fmt.quiet_bit,
            trailing_bits=t if fields else 0,
            trailing_mask=(1 << t) - 1 if fields else ONES,
            field_mask=ONES if fields else 0,
            lowest=1 if fmt.subnormals else 0,
            exponent=-fmt.bias - t,
            flush=flush and fields,
            payload=fmt.payload_bits or 0,
        )
    )


@functools.lru_cache(maxsize=4096)
def lower_target(fmt: Format, projection: Projection) -> Params:
    """Return a kernel's parameters to project onto a format.

    Raises
    ------
    ValueError
        The projection requests a code that the format does not have.
    """
    if isinstance(fmt, Codebook):
        return lower_codebook(fmt, projection)
    last = [fmt.max_magnitude, _last_negative(fmt, projection)]
    bases, steps = _signs(fmt, projection)
    mask = (1 << fmt.width) - 1
    extremes = [
        REFUSED if base == REFUSED else (base + step * magnitude) & mask
        for base, step, magnitude in zip(bases, steps, last, strict=True)
    ]
    beyond = _beyond(fmt, projection, extremes)
    zeros = _zeros(fmt, projection)
    rounded_zeros = zeros if fmt.subnormals else bases
    overflows = beyond if projection.saturation is Saturation.NONE else extremes
    infinities = extremes if projection.saturation is Saturation.FINITE else beyond
    nans = _nans(fmt, projection, extremes, zeros)
    kept = projection.nan_payload != "drop" and fmt.payload_bits is not None
    plain = dataclasses.replace(projection, nan_code=None)
    carried = _nans(fmt, plain, extremes, zeros) if kept else nans
    values = projection.grid_of(fmt)
    tiny = values.emin if fmt.exponent_bits and values.subnormals else -(1 << 30)
    grid = Grid(
        mask=mask,
        trailing_bits=fmt.trailing_bits,
        hidden=0 if values.subnormals else 1 << fmt.trailing_bits,
        emin=values.emin,
        top=fmt.emax + 1,
        tiny=tiny,
        surely=tiny - (projection.tininess == "after"),
        flush=fmt.subnormals and projection.flushes_results,
        before=OVERFLOW_TESTS[projection.overflow_test],
        bits=projection.rounding.bits,
        variant=VARIANTS_BY_NUMBER[projection.rounding.variant],
        payload=fmt.payload_bits or 0 if kept else 0,
        shared=values != fmt,
        rays=0,
    )
    unsigned = [False, fmt.sign is Sign.UNSIGNED]
    sides = [
        Side(
            max_magnitude=last[negative],
            limit_even=LIMITS[projection.rounding.threshold(negative=negative, odd=False)],
            limit_odd=LIMITS[projection.rounding.threshold(negative=negative, odd=True)],
            base=bases[negative],
            step=steps[negative],
            rounded_zero=rounded_zeros[negative],
            zero=zeros[negative],
            overflow=overflows[negative],
            infinity=infinities[negative],
            nan=nans[negative],
            carried=carried[negative],
            negative_invalid=Flag.INVALID if unsigned[negative] else 0,
            zero_invalid=0 if fmt.subnormals else Flag.INVALID,
            infinity_invalid=0 if fmt.infinity and not unsigned[negative] else Flag.INVALID,
            nan_invalid=0 if fmt.has_nan else Flag.INVALID,
            first=0,
        )
        for negative in (False, True)
    ]
    return _array(*grid, *sides[0], *sides[1])


def parts(target: Params) -> tuple[Grid, tuple[Side, Side]]:
    """Split the words of a target into its grid and its sides, for + and for -. Exponents stay words."""
    first, second = len(Grid._fields), len(Grid._fields) + len(Side._fields)
    words = [int(word) for word in target[: 2 * second - first]]
    return Grid(*words[:first]), (Side(*words[first:second]), Side(*words[second:]))


def may_refuse(target: Params) -> bool:
    """Return whether any operand is refused, so that results must be looked through for it."""
    return any(REFUSED in (side.base, side.overflow, side.infinity, side.nan) for side in parts(target)[1])


def _array(*words: int | np.integer[Any]) -> Params:
    array = np.array([int(word) & ONES for word in words], dtype=np.uint64)
    array.flags.writeable = False
    return array


def _last_negative(fmt: Format, projection: Projection) -> int:
    one_more = fmt.sign is Sign.TWOS_COMPLEMENT and not projection.symmetric
    return fmt.max_magnitude + one_more


def _signs(fmt: Format, projection: Projection) -> tuple[list[int], list[int]]:
    """Base and step of finite magnitudes, for + and for -."""
    if fmt.sign is Sign.MAGNITUDE:
        return [0, fmt.sign_code], [1, 1]
    if fmt.sign is Sign.TWOS_COMPLEMENT:
        return [0, 0], [1, -1]
    if projection.negative == "drop_sign":
        return [0, 0], [1, 1]
    return [0, _negative_result(fmt, projection)], [1, 0]


def _nan_results(fmt: Format, projection: Projection) -> list[int] | None:
    """Return the NaNs that results become, for + and for -; None where there are none."""
    code, signed = projection.nan_code, fmt.has_signed_nan
    if code is not None:
        if code >= 1 << fmt.width:
            raise ValueError(
                f"nan_code={code:#x} of a projection is no code of {fmt.name!r}; use 0 to "
                f"{(1 << fmt.width) - 1:#x}"
            )
        signed = fmt.sign is Sign.MAGNITUDE and (code != 0 or fmt.negative_zero)
    elif fmt.nan_code is None:
        return None
    else:
        code = fmt.nan_code
    return [code, code | fmt.sign_code if signed and projection.nan_sign != "positive" else code]


def _result_nans(fmt: Format, projection: Projection) -> list[int] | None:
    """Return the NaNs of results without a counterpart that become NaN; None in formats without NaN."""
    return _nan_results(fmt, projection) if fmt.has_nan else None


def _negative_result(fmt: Format, projection: Projection) -> int:
    """Return the code of every non-zero negative result in an unsigned format."""
    if projection.negative == "error":
        return REFUSED
    nans = _result_nans(fmt, projection)
    if projection.negative == "nan" and nans is not None:
        return nans[1]
    return _zeros(fmt, projection)[0]


def _beyond(fmt: Format, projection: Projection, extremes: list[int]) -> list[int]:
    """Infinities; NaNs where there are none; the extremes where there are no NaNs either."""
    if fmt.infinity_code is not None:
        codes = [fmt.infinity_code, fmt.infinity_code | fmt.sign_code]
    else:
        codes = list(_result_nans(fmt, projection) or extremes)
    if fmt.sign is Sign.UNSIGNED and projection.negative != "drop_sign":
        codes[1] = _negative_result(fmt, projection)
    return codes


def _zeros(fmt: Format, projection: Projection) -> list[int]:
    if fmt.subnormals:
        return [0, fmt.sign_code if fmt.has_negative_zero else 0]
    nans = _result_nans(fmt, projection)
    if projection.zero == "smallest" or nans is None:
        return [0, fmt.sign_code]
    return nans


def _nans(fmt: Format, projection: Projection, extremes: list[int], zeros: list[int]) -> list[int]:
    codes = _nan_results(fmt, projection)
    if codes is not None:
        pass
    elif projection.nan == "error":
        return [REFUSED, REFUSED]
    elif projection.nan == "max":
        codes = [extremes[0], extremes[0] if fmt.sign is Sign.UNSIGNED else extremes[1]]
    elif projection.nan == "zero" and fmt.subnormals:
        codes = list(zeros)
    elif projection.nan == "negative_zero" and fmt.has_negative_zero:
        return [fmt.sign_code, fmt.sign_code]
    else:
        raise ValueError(
            f"nan={projection.nan!r} of a projection asks for a code that {fmt.name!r} does not have; "
            f"use 'error' or 'max'"
        )
    return codes if projection.nan_sign == "keep" else [codes[0], codes[0]]
