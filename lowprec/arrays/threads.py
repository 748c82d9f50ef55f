"""How many threads a large array is shared between.

Kernels hold no lock of the interpreter, so Python's own threads will do: they may be used from any
thread, and after a fork. What an element becomes does not depend on who converts it.

Floor 3.
"""

from __future__ import annotations

import operator
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

__all__ = ["SHARED_FROM", "get_threads", "set_threads", "share"]

#: Elements from which a second thread saves more than it costs to wake it (docs/decisions/0008).
SHARED_FROM = 1 << 19

_ALIGNED = 1 << 12

_threads: int | None = None
_pool: ThreadPoolExecutor | None = None


def get_threads() -> int:
    """The most threads that one call uses.

    What `set_threads` said, or $LOWPREC_NUM_THREADS, or the processors that this process may use.

    >>> get_threads() >= 1
    True
    """
    global _threads
    if _threads is None:
        asked = os.environ.get("LOWPREC_NUM_THREADS", "")
        if asked and not (asked.isdecimal() and int(asked) >= 1):
            raise ValueError(f"LOWPREC_NUM_THREADS={asked!r} is no number of threads; set it to 1 or more, or unset it")
        _threads = int(asked) if asked else _processors()
    return _threads


def set_threads(count: int) -> None:
    """Use at most so many threads in one call, the caller's own among them.

    >>> set_threads(2)
    >>> get_threads()
    2

    Parameters
    ----------
    count : int
        1 or more.

    Raises
    ------
    ValueError
        Less than 1.
    """
    global _threads, _pool
    if isinstance(count, bool) or not hasattr(count, "__index__"):
        raise TypeError(f"the number of threads must be an integer, not {count!r}")
    if operator.index(count) < 1:
        raise ValueError(f"the number of threads must be 1 or more, not {count}")
    _threads, old, _pool = operator.index(count), _pool, None
    if old is not None:
        old.shutdown(wait=False)


def share(part: Callable[[int, int], int], size: int) -> int:
    """Call part(start, stop) for ranges that make up range(size), and return the largest result."""
    if size < SHARED_FROM or get_threads() == 1:
        return part(0, size)
    each = -(-size // get_threads() // _ALIGNED) * _ALIGNED
    parts = [_once(part, start, min(start + each, size)) for start in range(0, size, each)]
    mine, waiting = parts[:1], []
    for other in parts[1:]:
        try:
            waiting.append(_workers().submit(other))
        except RuntimeError:  # the interpreter is about to end, or there are no more threads to be had
            mine.append(other)
    results = [own() for own in mine]
    return max(results + [future.result() for future in waiting])


def _once(part: Callable[[int, int], int], start: int, stop: int) -> Callable[[], int]:
    """A part that is done by whoever comes first: a pool may keep what it said that it could not take."""
    taken = threading.Lock()
    return lambda: part(start, stop) if taken.acquire(blocking=False) else 0


def _workers() -> ThreadPoolExecutor:
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(get_threads() - 1 or 1, thread_name_prefix="lowprec")
    return _pool


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _forget() -> None:
    """A forked child has none of its parent's threads."""
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
