"""The floating-point modes of a thread: rounding and flushing, which another library may have changed.

Kernels answer the same in any of them. What NumPy computes does not, so it is done in the usual ones.

Floor 2b.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np

from lowprec.kernels.jit import MODES, exchange_modes, jit

__all__ = ["usual_arithmetic"]


@jit
def exchange(modes: np.uint64) -> np.uint64:
    """Set the modes of this thread and return those that it had."""
    return exchange_modes(modes)


@contextlib.contextmanager
def usual_arithmetic() -> Iterator[None]:
    """Round to nearest, keep subnormals and signal nothing, until the block ends.

    Also a decorator. Threads that the block starts have the same modes. On processors whose modes are
    unknown here they stay what they are.
    """
    with np.errstate(all="ignore"):
        if MODES is None:
            yield
            return
        before = exchange(np.uint64(MODES))
        try:
            yield
        finally:
            exchange(np.uint64(before))
