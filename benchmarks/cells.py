"""A cell of `benchmarks.cliffs`: a call and its work."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

__all__ = ["Cell"]


class Cell(NamedTuple):
    """A call, and how many elements, or multiplications and additions, it does."""

    group: str  #: "elements" or "dots": its yardstick
    name: str
    work: int
    call: Callable[[], object]
