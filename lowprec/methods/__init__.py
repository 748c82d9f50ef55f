"""Published methods on bit-exact formats: one module for each.

``lowprec.methods.fp8``, or ``from lowprec.methods import fp8``: each is imported when it is first used. They
use the verbs of ``lowprec`` for every rounding, and NumPy for the rest.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType


def __getattr__(name: str) -> ModuleType:
    if name not in __dir__():
        raise AttributeError(f"module 'lowprec.methods' has no attribute {name!r}")
    return importlib.import_module(f"lowprec.methods.{name}")


def __dir__() -> list[str]:
    return sorted(each.name for each in pkgutil.iter_modules(__path__) if not each.name.startswith("_"))
