"""gfloat: rounding and encoding of arrays and of single numbers, to nearest with ties to even or away."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from lowprec.arrays.checks import code_dtype
from lowprec.spec.format import Format, Sign
from lowprec.spec.projection import Projection
from lowprec.verify.frameworks.base import Array, Framework, formats

__all__ = ["FRAMEWORKS"]

_FORMATS = formats(
    "binary16 bfloat16 e5m2 e4m3fn float8_e4m3 e3m4 e4m3fnuz e5m2fnuz e4m3b11fnuz e2m3fn "
    "e3m2fn e2m1fn e8m0fnu binary8p3se binary8p4sf"
)


@functools.cache
def _info(fmt: Format) -> Any:
    import gfloat

    return gfloat.FormatInfo(
        name=fmt.name,
        k=fmt.width,
        precision=fmt.precision,
        bias=fmt.bias,
        is_signed=fmt.sign is Sign.MAGNITUDE,
        domain=gfloat.Domain.Extended if fmt.infinity else gfloat.Domain.Finite,
        has_nz=fmt.negative_zero and fmt.sign is Sign.MAGNITUDE,
        num_high_nans=fmt.nans if fmt.negative_zero else 0,
        has_subnormals=fmt.subnormals,
        is_twos_complement=False,
    )


def _given(fmt: Format, mode: str) -> tuple[Any, bool]:
    """Return the mode, and whether to saturate: formats with neither infinity nor NaN must."""
    import gfloat

    return getattr(gfloat.RoundMode, mode), not (fmt.infinity or fmt.has_nan)


def _arrays(values: Array, fmt: Format, *, mode: str) -> Array:
    import gfloat

    with np.errstate(all="ignore"):
        rounded = gfloat.round_ndarray(_info(fmt), values, *_given(fmt, mode))
        return np.asarray(gfloat.encode_ndarray(_info(fmt), rounded)).astype(code_dtype(fmt))


def _scalars(values: Array, fmt: Format, *, mode: str) -> Array:
    import gfloat

    info, given = _info(fmt), _given(fmt, mode)
    made = [gfloat.encode_float(info, gfloat.round_float(info, value, *given)) for value in values.tolist()]
    return np.array(made, code_dtype(fmt))


def _framework(name: str, mode: str, rounding: str, cast: Any, *, few: bool) -> Framework:
    return Framework(
        name=name,
        package="gfloat",
        install="pip install gfloat",
        sources=("float64",) if few else ("float32", "float64"),
        targets=lambda: _FORMATS,
        cast=functools.partial(cast, mode=mode),
        projection=Projection(rounding=rounding),
        few=few,
    )


FRAMEWORKS = (
    _framework("gfloat", "TiesToEven", "nearest_even", _arrays, few=False),
    _framework("gfloat_ties_away", "TiesToAway", "nearest_away", _arrays, few=False),
    _framework("gfloat_scalar", "TiesToEven", "nearest_even", _scalars, few=True),
    _framework("gfloat_scalar_ties_away", "TiesToAway", "nearest_away", _scalars, few=True),
)
