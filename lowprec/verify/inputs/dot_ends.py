"""Cases of dot units with scales whose sums lie at the ends of the result's range."""

from __future__ import annotations

from typing import Any

import numpy as np

from lowprec.arrays.convert import encode
from lowprec.spec.projection import Projection
from lowprec.verify.inputs.dot_shape import DotCases

__all__ = ["CLOSEST", "at_the_ends"]

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
