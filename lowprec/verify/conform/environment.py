"""The state of the process that conversions should not depend on, and how it is changed."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator

import numpy as np

__all__ = ["flushing"]


@contextlib.contextmanager
def flushing() -> Iterator[bool]:
    """Let this thread flush subnormals to zero, operands and results, as torch.set_flush_denormal does.

    Gives whether it does: not without torch, nor on processors where torch cannot. Afterwards all is as
    before.

    >>> with flushing() as set_:
    ...     halved = np.float32(1e-38) / np.float32(2)
    >>> bool(halved == 0) == set_
    True
    """
    if importlib.util.find_spec("torch") is None:
        yield False
        return
    import torch

    before = _flushes()
    try:
        yield bool(torch.set_flush_denormal(True))
    finally:
        torch.set_flush_denormal(before)


def _flushes() -> bool:
    smallest = np.array([1], np.uint32).view(np.float32)
    return not (smallest * np.float32(1))[0]
