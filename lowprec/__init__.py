"""lowprec: the golden reference for low-precision number formats.

Names are imported when they are first used, so that `import lowprec` needs neither NumPy nor numba.
"""

from __future__ import annotations

import importlib

__version__ = "0.1.0"

_HOMES = {
    "Format": "lowprec.spec.format",
    "Projection": "lowprec.spec.projection",
    "Rounding": "lowprec.spec.rounding",
    "Saturation": "lowprec.spec.projection",
    "format": "lowprec.spec.catalog",
    "formats": "lowprec.spec.catalog",
    "cast": "lowprec.arrays.convert",
    "decode": "lowprec.arrays.convert",
    "encode": "lowprec.arrays.convert",
    "quantize": "lowprec.arrays.convert",
    "dtype": "lowprec.arrays.checks",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'lowprec' has no attribute {name!r}")
    attribute = "FORMATS" if name == "formats" else name
    value = getattr(importlib.import_module(_HOMES[name]), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
