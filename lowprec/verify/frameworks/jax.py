"""JAX, on CPUs: `astype`."""

from __future__ import annotations

import numpy as np

from lowprec.arrays.checks import code_dtype, dtype
from lowprec.spec.format import Format
from lowprec.verify.frameworks.base import Array, Framework, formats
from lowprec.verify.inputs.conversions import SOURCES

__all__ = ["FRAMEWORKS"]

#: jax.numpy also names 6-bit types, but XLA has them on no CPU: "Invalid XLA PrimitiveType".
_FORMATS = formats(
    "binary32 binary16 bfloat16 e5m2 e4m3fn float8_e4m3 e3m4 e4m3fnuz e5m2fnuz e4m3b11fnuz e8m0fnu e2m1fn"
)


def _targets() -> tuple[Format, ...]:
    import jax.numpy as jnp

    return tuple(fmt for fmt in _FORMATS if hasattr(jnp, dtype(fmt).name))


def _cast(values: Array, fmt: Format) -> Array:
    import jax

    # 64-bit operands are narrowed to 32 bits without this; as a context it leaves the process as it was.
    with jax.enable_x64(True), jax.default_device(jax.devices("cpu")[0]):
        made = jax.numpy.asarray(values).astype(dtype(fmt))
    return np.asarray(made).view(code_dtype(fmt))


FRAMEWORKS = (
    Framework(
        name="jax",
        package="jax",
        install='pip install "lowprec[jax]"',
        sources=tuple(SOURCES),
        targets=_targets,
        cast=_cast,
    ),
)
