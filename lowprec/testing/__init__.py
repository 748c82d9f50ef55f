"""For your own tests: laws that a format, a cast, an operation or blocks keep, and inputs that reach the borders.

`check_format`, `check_block_format`, `check_operation` and `check_cast` try everything at once and need
nothing else. The strategies are Hypothesis's: `pip install "lowprec[test]"`.

Floor 5. Names are imported when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lowprec.testing.blockcheck import check_block_format
    from lowprec.testing.castcheck import check_cast
    from lowprec.testing.formatcheck import check_format
    from lowprec.testing.law import Counterexample, Law, Report, Verdict
    from lowprec.testing.operationcheck import check_operation
    from lowprec.testing.strategies import (
        accumulations,
        arrays,
        block_formats,
        blocks,
        codes,
        formats,
        near_ties,
        projections,
        values,
    )

__all__ = [
    "Counterexample",
    "Law",
    "Report",
    "Verdict",
    "accumulations",
    "arrays",
    "block_formats",
    "blocks",
    "check_block_format",
    "check_cast",
    "check_format",
    "check_operation",
    "codes",
    "formats",
    "near_ties",
    "projections",
    "values",
]

_HOMES = {
    "check_block_format": "blockcheck",
    "check_cast": "castcheck",
    "check_format": "formatcheck",
    "check_operation": "operationcheck",
    **dict.fromkeys(("Counterexample", "Law", "Report", "Verdict"), "law"),
    **dict.fromkeys(
        (
            "accumulations",
            "arrays",
            "block_formats",
            "blocks",
            "codes",
            "formats",
            "near_ties",
            "projections",
            "values",
        ),
        "strategies",
    ),
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'lowprec.testing' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"lowprec.testing.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
