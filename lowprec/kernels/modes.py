"""The floating-point modes of a thread: rounding and flushing, which another library may have changed.

Kernels answer the same in any of them. What NumPy and Python compute does not: it is done in the usual ones.

Floor 2b.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

import numpy as np

from lowprec.graphs import leave_graphs, trace_again, trace_nothing
from lowprec.kernels.jit import MODES, bound, exchange_modes, jit

__all__ = ["in_modes_of_now", "usual_arithmetic", "usual_modes"]

F = TypeVar("F", bound=Callable[..., Any])


@jit
def exchange(modes: Any) -> Any:
    """Set the modes of this thread and return those that it had."""
    return exchange_modes(modes)


@functools.cache
def _exchange() -> Callable[..., int]:
    """Return `exchange` without a look at the type of its argument, which takes longer than the exchange."""
    return bound(exchange, (), (np.uint64(0),))


class usual_modes:
    """A context, or a decorator, within which a thread rounds to nearest and keeps subnormals.

    Threads that the block starts have the same modes. On processors whose modes are unknown here they stay
    what they are.
    """

    def __enter__(self) -> None:
        leave_graphs()
        self._traced = trace_nothing()
        self._before = 0 if MODES is None else _exchange()(MODES)

    def __exit__(self, *_: object) -> None:
        if MODES is not None:
            _exchange()(self._before)
        trace_again(self._traced)

    def __call__(self, function: F) -> F:
        """Return a function that runs in these modes, with less on the way than a `with` block has."""
        if MODES is None:
            return function

        @functools.wraps(function)
        def usual(*given: Any, **options: Any) -> Any:
            leave_graphs()
            traced, change = trace_nothing(), _exchange()
            before = change(MODES)
            try:
                return function(*given, **options)
            finally:
                change(before)
                trace_again(traced)

        return cast(F, usual)


def in_modes_of_now(function: F) -> F:
    """Return a function that runs in the modes that this thread has now, whatever its callers have."""
    if MODES is None:
        return function
    change = _exchange()
    now = change(MODES)
    change(now)

    @functools.wraps(function)
    def called(*given: Any, **options: Any) -> Any:
        before = change(now)
        try:
            return function(*given, **options)
        finally:
            change(before)

    return cast(F, called)


@contextlib.contextmanager
def usual_arithmetic() -> Iterator[None]:
    """Keep the usual modes, and signal nothing, until the block ends. Also a decorator."""
    with np.errstate(all="ignore"), usual_modes():
        yield
