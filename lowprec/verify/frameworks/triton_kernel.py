"""A kernel of Triton, in a file of its own as Triton reads its source."""

from __future__ import annotations

import contextlib
from typing import Any

with contextlib.suppress(ImportError):  # tools that import every module find it without Triton too
    import triton.language as tl

__all__ = ["cast"]


def cast(
    values: Any, made: Any, count: Any, target: tl.constexpr, bits: tl.constexpr, block: tl.constexpr
) -> None:
    """Cast values to a type, and store the bits of the results."""
    places = tl.program_id(0) * block + tl.arange(0, block)
    inside = places < count
    result = tl.load(values + places, mask=inside).to(target)
    tl.store(made + places, result.to(bits, bitcast=True), mask=inside)
