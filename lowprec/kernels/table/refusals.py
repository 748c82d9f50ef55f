"""Patterns of operands that a program refuses, for tables of its results.

Floor 2b.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["attempt_all"]

Codes = npt.NDArray[Any]

_NO_RANDOM = np.empty(0, np.uint32)


def attempt_all(program: Any, operands: list[Codes], results: Codes, flags: Codes) -> Codes:
    """Write the result and the flags of each pattern that a program takes; return 1 for each other.

    Patterns are halved until a half is taken, or refused, whole: those that are refused lie together.
    """
    refused = np.zeros(results.size, np.uint8)
    pending = [slice(0, results.size)]
    while pending:
        part = pending.pop()
        size = part.stop - part.start
        given = [operand[part] for operand in operands]
        refusal = program.attempt(given, results[part], flags[part], _NO_RANDOM)
        if refusal is None:
            continue
        if refusal.refused == size:
            refused[part] = 1
            results[part] = 0
        else:
            middle = part.start + size // 2
            pending += [slice(part.start, middle), slice(middle, part.stop)]
    return refused
