"""Cases of dot units with scales: sums at the ends of the result's range, and blocks whose sums are zero."""

from __future__ import annotations

from typing import Any

import numpy as np

from lowprec.arrays.convert import encode
from lowprec.spec.projection import Projection
from lowprec.verify.inputs.dot_shape import DotCases

__all__ = ["CLOSEST", "at_the_ends", "of_blocks"]

#: Cases that are added.
_ENDS = 128
#: How values become codes where a format lacks them: the largest, the smallest, without the sign.
CLOSEST = Projection(saturation="finite", nan="max", negative="drop_sign", zero="smallest")


def at_the_ends(aim: Any, cases: DotCases) -> DotCases:
    """Return the cases and `_ENDS` more, of finite products, whose scales bring sums to the result's ends.

    Half of the new sums lie about the smallest normal number and below, half about the largest.
    """
    assert aim.shape.how.scale is not None, "the unit has no scales"
    assert cases.scales is not None, "the cases have no scales"
    fmt, out, n = aim.shape.how.scale[0], aim.shape.how.output[0], _ENDS
    factors = aim.factors(aim.top_high - aim.less(n, 3, 0))
    low = np.arange(n) % 2 == 0
    last = out.emin - np.where(np.arange(n) % 8, out.trailing_bits - 3, 0)
    reach = aim.random.integers(-4, 5, n) + np.where(low, last, out.emax - 1) - aim.top_high
    half = reach // 2
    least, most = (fmt.emin, fmt.emax) if fmt.exponent_bits else (0, 0)
    powers = [np.clip(each, least, most) for each in (half, reach - half)]
    blocks = cases.scales[0].shape[1]
    scales = [
        np.repeat(np.asarray(encode(np.ldexp(1.0, each), fmt, projection=CLOSEST))[:, None], blocks, 1)
        for each in powers
    ]
    near = np.where(low, out.emin - 1, out.emax)
    addends = aim.sometimes(aim.addends(near))
    x, y, addend = aim.codes((*factors, addends))
    first, second = (np.concatenate(pair) for pair in zip(cases.scales, scales, strict=True))
    return DotCases(
        np.concatenate([cases.x, x]),
        np.concatenate([cases.y, y]),
        np.concatenate([cases.addend, addend]),
        (first, second),
    )


def of_blocks(aim: Any, cases: DotCases) -> DotCases:
    """Return the cases, and for each block some in which it is zero, or cancels, under a scale of its own.

    The scale is NaN, if the format has it, or the largest, beside blocks of small scales that alignment to it
    cuts; of x, or of y. Of units that add groups of products before they are scaled, one cancels, and the
    others of its block are zero.
    """
    assert aim.shape.how.scale is not None, "the unit has no scales"
    assert cases.scales is not None, "the cases have no scales"
    fmt, size = aim.shape.how.scale
    blocks, window = cases.scales[0].shape[1], aim.shape.how.accumulator
    part = window.group if getattr(window, "scales", "") == "groups" else size
    parts = -(-aim.lanes // part)
    rows = np.arange(8 * parts)
    number, (nan, side, other) = rows % parts, (rows // parts >> bit & 1 == 0 for bit in range(3))
    block = number * part // size
    x, y = aim.factors(aim.top_high - aim.less(rows.size, 3, 0))
    here = np.arange(aim.lanes) // size == block[:, None]
    x[nan[:, None] & here & other[:, None]], y[nan[:, None] & here & ~other[:, None]] = 0.0, 0.0
    one = np.arange(aim.lanes) % 2 == 0
    least = [fmt.min_subnormal or 2.0**fmt.emin for fmt in aim.shape.formats]
    begins = (np.arange(aim.lanes) % size == 0) & ~here
    alone = np.arange(aim.lanes) // part == number[:, None]
    cancelled = (
        np.where(alone, np.where(one, 1.0, -1.0), least[0] * begins),
        np.where(alone, 1.0, least[1]),
    )
    x, y = (np.where(nan[:, None], *sides) for sides in zip((x, y), cancelled, strict=True))
    scales, whole = [], int(encode(1.0, fmt))
    small = whole // 8 | 1 if fmt.trailing_bits else whole - 8
    for operand in range(2):
        codes = np.where(nan[:, None], whole, np.full((rows.size, blocks), small))
        special = np.where(
            nan, fmt.max_magnitude if fmt.nan_code is None else fmt.nan_code, fmt.max_magnitude
        )
        own = ~nan | (side == (operand == 0))
        codes[rows[own], block[own]] = special[own]
        scales.append(codes.astype(cases.scales[0].dtype))
    made = aim.codes((x, y, np.zeros(rows.size)))
    joined = [np.concatenate(pair) for pair in zip((cases.x, cases.y, cases.addend), made, strict=True)]
    first, second = (np.concatenate(pair) for pair in zip(cases.scales, scales, strict=True))
    return DotCases(joined[0], joined[1], joined[2], (first, second))
