"""Code of research: APyTypes, microxcaling and unit scaling.

Floor 1. Imports the standard library only.
"""

from __future__ import annotations

from dataclasses import replace

from lowprec.spec import catalog
from lowprec.spec.format import Format
from lowprec.spec.profiles.profile import E4M3_E5M2, FINITE, MX, PROPAGATE, Profile, changed, each
from lowprec.spec.projection import Projection, Saturation
from lowprec.spec.rounding import NEAREST_AWAY, stochastic

# Every NaN is the first code above infinity; integers go through binary64.
_APYTYPES = {
    fmt: Projection(nan_code=fmt.max_magnitude + 2, via=(catalog.BINARY64,))
    for fmt in (
        catalog.BINARY32,
        catalog.BINARY16,
        catalog.BFLOAT16,
        catalog.TF32,
        catalog.E5M2,
        catalog.FLOAT8_E4M3,
        catalog.E3M4,
    )
}


def _unit_scaling(fmt: Format) -> Projection:
    """Return the projection of `FPFormat.quantise`: scale so that subnormals are binary32's, draw, cut.

    The values are the FNUZ formats': one binade more than OCP's, and nothing special. Binary32's
    subnormals round once on their own: `via` is binary32 with the format's bias.
    """
    scaled = Format(
        name=f"binary32 with the bias of {fmt.name}",
        exponent_bits=8,
        trailing_bits=23,
        bias=fmt.bias,
        nans=(1 << 23) - 1,
        infinity=True,
    )
    return Projection(
        rounding=stochastic(23 - fmt.trailing_bits),
        saturation=Saturation.FINITE,
        via=(catalog.BINARY32, scaled),
    )


_MICROXCALING = changed(
    MX,
    elements=replace(FINITE, rounding=NEAREST_AWAY, symmetric=True),
    scales=Projection(),
    source="MICROXCALING",
)


CASTS = (Profile("apytypes", "0.5.1, from arrays of NumPy", _APYTYPES, "APYTYPES"),)

BLOCKS = (
    Profile(
        "microxcaling",
        "1.1.0, elements of blocks with round=nearest, the default",
        {
            **each(
                (*E4M3_E5M2, catalog.E2M3FN, catalog.E3M2FN, catalog.E2M1FN),
                replace(PROPAGATE, rounding=NEAREST_AWAY),
            ),
            catalog.INT8F6: replace(PROPAGATE, rounding=NEAREST_AWAY, symmetric=True),
        },
        "MICROXCALING",
        _MICROXCALING,
    ),
    Profile(
        "unit_scaling",
        "FPFormat.quantise of its public code, the default; its E4M3 and E5M2 have the values of FNUZ",
        {fmt: _unit_scaling(fmt) for fmt in (catalog.E4M3FNUZ, catalog.E5M2FNUZ)},
        "UNIT_SCALING",
    ),
)
