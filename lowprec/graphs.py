"""Verbs within torch.compile: it is to run them as they are, as what it traces it gives arrays of its own.

Floor 1. Imports the standard library only.
"""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["leave_graphs", "trace_again", "trace_nothing"]

_told: list[bool] = []


def leave_graphs() -> None:
    """Tell torch.compile, if it is there, to trace nothing in this package; once a process."""
    rules = sys.modules.get("torch._dynamo.trace_rules")
    add = None if rules is None or _told else getattr(rules, "add", None)
    if add is not None:
        _told.append(True)
        add("lowprec")


#: By this mark it calls the function and does not trace it, whichever of both was imported first.
leave_graphs._torchdynamo_disable = True  # type: ignore[attr-defined]


def trace_nothing() -> tuple[Any, ...]:
    """Let torch.compile trace nothing that this thread calls; return what `trace_again` takes."""
    frames = sys.modules.get("torch._dynamo.eval_frame") if _told else None
    change = getattr(frames, "set_eval_frame", None)
    return () if change is None else (change, change(None))


def trace_again(before: tuple[Any, ...]) -> None:
    """Let torch.compile do what it did before."""
    if before:
        before[0](before[1])
