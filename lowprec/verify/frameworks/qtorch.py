"""QPyTorch, on CPUs: `float_quantize` of float32 with rounding "nearest", to values.

Its formats are an exponent and trailing bits, nothing else. It compiles itself when it is first imported.
"""

from __future__ import annotations

import numpy as np

from lowprec.spec.format import Format
from lowprec.verify.frameworks.base import Array, Framework, formats
from lowprec.verify.frameworks.torch import tensor

__all__ = ["FRAMEWORKS"]

_FORMATS = formats("binary16 bfloat16 e5m2 e4m3fn e3m4 e2m3fn e3m2fn e2m1fn")


def _targets() -> tuple[Format, ...]:
    import qtorch.quant  # noqa: F401  # needs a C++ compiler

    return _FORMATS


def _cast(values: Array, fmt: Format) -> Array:
    from qtorch.quant import float_quantize

    return np.asarray(
        float_quantize(tensor(values), fmt.exponent_bits, fmt.trailing_bits, rounding="nearest")
    )


FRAMEWORKS = (
    Framework(
        name="qtorch",
        package="qtorch",
        install="pip install qtorch torch ninja",
        sources=("float32",),
        targets=_targets,
        cast=_cast,
        needs=("torch",),
    ),
)
