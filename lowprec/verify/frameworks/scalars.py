"""Casts of libraries that take one number at a time: gfloat, of arrays too, and bitstring."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from lowprec.arrays.checks import code_dtype
from lowprec.spec import catalog
from lowprec.spec.format import Format, Sign
from lowprec.verify.frameworks.base import Array

__all__ = ["BITSTRING", "BITSTRING_SATURATED", "bitstring", "gfloat", "gfloat_scalars"]


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


def gfloat(values: Array, fmt: Format, *, mode: str) -> Array:
    """Round and encode arrays by gfloat."""
    import gfloat

    rounded = gfloat.round_ndarray(_info(fmt), values, *_given(fmt, mode))
    return np.asarray(gfloat.encode_ndarray(_info(fmt), rounded)).astype(code_dtype(fmt))


def gfloat_scalars(values: Array, fmt: Format, *, mode: str) -> Array:
    """Round and encode single numbers by gfloat."""
    import gfloat

    info, given = _info(fmt), _given(fmt, mode)
    made = [gfloat.encode_float(info, gfloat.round_float(info, value, *given)) for value in values.tolist()]
    return np.array(made, code_dtype(fmt))


#: Names that bitstring gives to formats, of which two saturate where they are asked to.
BITSTRING = {
    catalog.E4M3FN: "e4m3mxfp_overflow",
    catalog.E5M2: "e5m2mxfp_overflow",
    catalog.BINARY32: "float32",
    catalog.BINARY16: "float16",
    catalog.BFLOAT16: "bfloat",
    catalog.E2M3FN: "e2m3mxfp",
    catalog.E3M2FN: "e3m2mxfp",
    catalog.E2M1FN: "e2m1mxfp",
    catalog.INT8F6: "mxint",
    catalog.format("binary8p3se"): "p3binary",
    catalog.format("binary8p4se"): "p4binary",
}
BITSTRING_SATURATED = {catalog.E4M3FN: "e4m3mxfp_saturate", catalog.E5M2: "e5m2mxfp_saturate"}


def bitstring(values: Array, fmt: Format, *, names: Mapping[Format, str]) -> Array:
    """Encode single numbers by bitstring."""
    from bitstring import Bits

    name = names[fmt]
    if name.startswith("float"):
        made = [Bits(float=value, length=fmt.width).uint for value in values.tolist()]
    else:
        made = [Bits(**{name: value}).uint for value in values.tolist()]
    return np.array(made, code_dtype(fmt))
