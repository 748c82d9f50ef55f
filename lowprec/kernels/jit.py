"""How kernels are compiled: the one place that names numba.

`nogil`, so that threads run side by side. Never `fastmath`: it lets the compiler change results.
No disk cache: numba's does not notice an edited helper in another file and would go on giving the
old answer (docs/decisions/0004).

Floor 2b.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba
import numpy as np
from numba.cpython.unsafe.numbers import leading_zeros
from numba.extending import overload

__all__ = ["bit_length", "inlined", "jit"]

F = TypeVar("F", bound=Callable[..., object])


def jit(function: F) -> F:
    """Compile a kernel, at its first call for each combination of argument types."""
    return cast(F, numba.njit(nogil=True)(function))


def inlined(function: F) -> F:
    """Compile a helper of kernels; LLVM puts it in their place."""
    return cast(F, numba.njit(nogil=True)(function))


def bit_length(word: np.uint64) -> np.int64:
    """Bits of a word up to its leading one, 0 for 0."""
    return np.int64(int(word).bit_length())


@overload(bit_length, inline="always")
def _bit_length(word: np.uint64) -> Callable[[np.uint64], np.int64]:
    """In compiled code, from one instruction."""

    def count(word: np.uint64) -> np.int64:
        return np.int64(64) - np.int64(leading_zeros(word))  # type: ignore[call-arg]

    return count
