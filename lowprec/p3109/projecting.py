"""ωProject and ωBlockProject of the draft: closed extended reals to codes.

Floor 3b. Source: [P3109] 4.7.3, 5.1.2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.axes import broadcast_arrays
from lowprec.arrays.checks import Array, code_dtype, values_operand
from lowprec.arrays.operations import codes_of
from lowprec.kernels.request import CONVERT
from lowprec.p3109.parameters import Specified, bits_of, is_external, is_negative_invalid, name_of, projection
from lowprec.p3109.values import BITS, Numbers
from lowprec.spec.format import Format, Sign

__all__ = ["block_projected", "check_bits", "nan_code", "projected"]


def nan_code(fmt: Format) -> int:
    """Return the code of NaN; of external formats the quiet one with payload zero."""
    if not fmt.negative_zero:
        return fmt.sign_code
    assert fmt.nan_code is not None
    return fmt.nan_code


def check_bits(fmt: Format, how: Specified, scale: Format | None, operation: str) -> None:
    """Refuse what needs more bits than numbers have that stand for results."""
    bits = fmt.precision + (0 if scale is None else scale.precision) + bits_of(how.rounding) + 2
    if bits > BITS:
        divided = "" if scale is None else f" times the result's scale, of {scale.precision} bits,"
        raise ValueError(
            f"{operation} to {name_of(fmt)} by {how.rounding}{divided} needs results of {bits} bits, and "
            f"{BITS} is the most here; take fewer random bits, or narrower formats"
        )


def projected(x: Numbers, fmt: Format, how: Specified, random: npt.ArrayLike | None = None) -> Any:
    """Return the codes of closed extended reals, exact ones or those of `values`."""
    return _codes(CONVERT, (x,), fmt, how, random, np.isneginf(x))


def block_projected(
    x: Numbers, scale: Numbers, fmt: Format, how: Specified, random: npt.ArrayLike | None = None
) -> Any:
    """Return the codes of closed extended reals over the scale of their block, in the same shape.

    The quotient of a number to odd and a scale projects as the exact one does: a boundary of the format
    times the scale is a number of at most `BITS` bits.
    """
    x, scale = broadcast_arrays(x, scale)
    infinite = np.isinf(scale)
    x = np.where(infinite & ~np.isnan(x), np.sign(x) * np.sign(scale), x)
    x = np.where((scale == 0) & ~np.isnan(x), 0.0, x)
    x = np.where(np.isnan(scale), np.nan, x)
    by = np.where(np.isfinite(scale) & (scale != 0), scale, 1.0)
    minus = np.isinf(x) & ((x < 0) != (by < 0))
    return _codes("divide", (x, by), fmt, how, random, minus)


def _codes(
    operation: str,
    numbers: tuple[Numbers, ...],
    fmt: Format,
    how: Specified,
    random: npt.ArrayLike | None,
    minus_infinity: Array,
) -> Any:
    operands = [values_operand(each) for each in numbers]
    rule, given = projection(fmt, how), code_dtype(fmt)
    codes = np.asarray(codes_of(operation, operands, fmt, rule, given, random=random))
    if fmt.sign is Sign.UNSIGNED and how.saturation == "SatNone" and not is_negative_invalid(how):
        codes = np.where(minus_infinity, given.type(nan_code(fmt)), codes)
    if is_external(fmt):  # one zero and one NaN
        magnitude = codes & given.type(fmt.sign_code - 1)
        assert fmt.infinity_code is not None
        codes = np.where(magnitude == 0, given.type(0), codes)
        codes = np.where(magnitude > fmt.infinity_code, given.type(nan_code(fmt)), codes)
    return codes
