"""The block formats of torchao.

Floor 1. Imports the standard library only.
"""

from __future__ import annotations

from dataclasses import replace

from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat
from lowprec.spec.format import exact_float
from lowprec.spec.profiles.profile import FINITE, MXFP, NO_ZERO, Profile, changed

#: The NaN, and what one without payload becomes when torchao rounds it like a number, in formats without NaN.
_TORCHAO_NANS = {catalog.E5M2: 0x7F, catalog.E2M3FN: 0x0C, catalog.E3M2FN: 0x0E, catalog.E2M1FN: 0x03}


def _torchao(rule: str, **fields: object) -> dict[BlockFormat, BlockFormat]:
    """Return block formats whose elements are divided by the scale as a normal binary32 number."""
    return {
        fmt: replace(
            fmt,
            rule=rule,  # type: ignore[arg-type]
            elements=replace(FINITE, nan_code=_TORCHAO_NANS.get(fmt.element)),
            source="TORCHAO",
            **({"smallest_divides_as": exact_float(1, -126), "nan": "scale", "infinity": "power"} | fields),  # type: ignore[arg-type]
        )
        for fmt in MXFP
    }


_TORCHAO_NVFP4 = changed(
    [catalog.NVFP4],
    arithmetic="reciprocals",
    min_scale=exact_float(1, -6),
    zero="rule",
    nan="all",
    infinity="largest",
    # The NaN of the scale carries a payload, which rounds up.
    elements=replace(FINITE, nan_code=4),
    source="TORCHAO",
)


BLOCKS = (
    Profile("torchao_floor", "0.18.0, eager, on CPUs", {}, "TORCHAO", _torchao("floor")),
    Profile("torchao_ceil", "0.18.0, eager, on CPUs", {}, "TORCHAO", _torchao("ceil")),
    Profile("torchao_even", "0.18.0, eager, on CPUs", {}, "TORCHAO", _torchao("even")),
    Profile(
        "torchao_rceil",
        "0.18.0, eager, on CPUs, but for the binary32 logarithm that it takes",
        {},
        "TORCHAO",
        _torchao(
            "rceil",
            arithmetic="product",
            scales=NO_ZERO,
            smallest_divides_as=1.0,
            nan="all",
            infinity="largest",
        ),
    ),
    Profile("torchao_nvfp4", "0.18.0, eager, on CPUs", {}, "TORCHAO", _TORCHAO_NVFP4),
)
