"""bitstring: one number at a time, by the names that it gives to formats."""

from __future__ import annotations

import functools

import numpy as np

from lowprec.arrays.checks import code_dtype
from lowprec.spec import catalog
from lowprec.spec.format import Format
from lowprec.spec.projection import Projection
from lowprec.verify.frameworks.base import Array, Framework

__all__ = ["FRAMEWORKS"]

_OTHERS = {
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
_OVERFLOW = {catalog.E4M3FN: "e4m3mxfp_overflow", catalog.E5M2: "e5m2mxfp_overflow", **_OTHERS}
_SATURATE = {catalog.E4M3FN: "e4m3mxfp_saturate", catalog.E5M2: "e5m2mxfp_saturate"}


def _cast(values: Array, fmt: Format, *, names: dict[Format, str]) -> Array:
    from bitstring import Bits

    name = names[fmt]
    if name.startswith("float"):
        made = [Bits(float=value, length=fmt.width).uint for value in values.tolist()]
    else:
        made = [Bits(**{name: value}).uint for value in values.tolist()]
    return np.array(made, code_dtype(fmt))


def _framework(name: str, saturation: str, names: dict[Format, str]) -> Framework:
    return Framework(
        name=name,
        package="bitstring",
        install="pip install bitstring",
        sources=("float64",),
        targets=lambda: tuple(names),
        cast=functools.partial(_cast, names=names),
        projection=Projection(saturation=saturation),
        few=True,
    )


FRAMEWORKS = (
    _framework("bitstring", "none", _OVERFLOW),
    _framework("bitstring_saturate", "finite", _SATURATE),
)
