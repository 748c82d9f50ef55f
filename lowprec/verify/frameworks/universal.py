"""universal-dtypes: NumPy types of the Universal library, posits and linear takums.

Its `lns16` is not asked: logarithms in float64 miss a fifth of what lies next to a threshold.
"""

from __future__ import annotations

import numpy as np

from lowprec.arrays.checks import code_dtype
from lowprec.spec.format import Format
from lowprec.verify.frameworks.base import Array, Framework, arithmetic, formats

__all__ = ["FRAMEWORKS"]

_NAMES = {
    "posit8": "posit8",
    "posit16": "posit16",
    "posit8_es0": "posit8e0",
    "posit8_es1": "posit8e1",
    "takum_linear8": "takum8",
    "takum_linear16": "takum16",
}


def _targets() -> tuple[Format, ...]:
    return formats(" ".join(_NAMES))


def _cast(values: Array, fmt: Format) -> Array:
    import universal_dtypes

    with np.errstate(all="ignore"):
        made = values.astype(np.dtype(getattr(universal_dtypes, _NAMES[fmt.name])))
    return made.view(code_dtype(fmt))


def _compute(operation: str, fmt: Format, *operands: Array) -> Array:
    import universal_dtypes

    kind = np.dtype(getattr(universal_dtypes, _NAMES[fmt.name]))
    with np.errstate(all="ignore"):
        made = getattr(np, operation)(*(codes.view(kind) for codes in operands))
    return np.asarray(made).view(code_dtype(fmt))


FRAMEWORKS = (
    Framework(
        name="universal",
        package="universal-dtypes",
        install="pip install universal-dtypes",
        sources=("float32", "float64", "float16"),
        targets=_targets,
        cast=_cast,
        others=lambda: arithmetic(
            ("add", "subtract", "multiply", "divide"), formats("posit8 takum_linear8"), _compute
        ),
    ),
)
