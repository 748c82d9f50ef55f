"""For your own tests: laws that a format, a cast, an operation or blocks keep, and inputs at the borders.

`check_format`, `check_block_format`, `check_operation` and `check_cast` try everything at once and need
nothing else. The strategies are Hypothesis's: `pip install "lowprec[test]"`.

Names are imported when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lowprec.testing.castcheck import check_cast
    from lowprec.testing.checks import check_block_format, check_format, check_operation
    from lowprec.testing.law import Law, Report, Verdict
    from lowprec.testing.scoreboard import Scoreboard
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
    from lowprec.verify.difference import Difference as Counterexample

__all__ = [
    "Counterexample",
    "Law",
    "Report",
    "Scoreboard",
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
    "check_cast": "castcheck",
    **dict.fromkeys(("check_block_format", "check_format", "check_operation"), "checks"),
    **dict.fromkeys(("Law", "Report", "Verdict"), "law"),
    "Scoreboard": "scoreboard",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'lowprec.testing' has no attribute {name!r}")
    if name == "Counterexample":  # what breaks a law, as every other difference
        value = importlib.import_module("lowprec.verify.difference").Difference
    else:
        value = getattr(importlib.import_module(f"lowprec.testing.{_HOMES.get(name, 'strategies')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
