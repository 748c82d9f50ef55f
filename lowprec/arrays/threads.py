"""Threads that share a large array.

Kernels hold no lock of the interpreter, so Python's own threads will do: they may be used from any
thread, and after a fork. What an element becomes does not depend on who converts it.

Floor 3.
"""

from __future__ import annotations

import contextlib
import operator
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

from lowprec.spec.number_text import read_count

__all__ = ["ALIGNED", "SHARED_FROM", "get_threads", "set_threads", "share", "share_rows"]

#: Elements from which a second thread saves more than it costs to wake it (docs/decisions/0001).
SHARED_FROM = 1 << 19

#: Parts begin at multiples of so many elements.
ALIGNED = 1 << 12

_threads: int | None = None
_pool: ThreadPoolExecutor | None = None


def get_threads() -> int:
    """Return the most threads that one call uses.

    It is the number given to `set_threads`, or $LOWPREC_NUM_THREADS, or the processors open to this process.

    >>> get_threads() >= 1
    True
    """
    global _threads
    if _threads is None:
        asked = os.environ.get("LOWPREC_NUM_THREADS", "")
        if asked and not read_count(asked):
            raise ValueError(
                f"LOWPREC_NUM_THREADS={asked[:60]!r} is no number of threads; "
                "set it to 1 or more, or unset it"
            )
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


def share(part: Callable[[int, int], int], size: int, aligned: int = ALIGNED) -> int:
    """Call part(start, stop) for ranges that make up range(size), and return the largest result.

    They begin at multiples of `aligned`.
    """
    if size < SHARED_FROM or get_threads() == 1:
        return part(0, size)
    return _share(part, size, aligned)


def _share(part: Callable[[int, int], int], size: int, aligned: int) -> int:
    each = -(-size // get_threads() // aligned) * aligned
    parts = [_Part(part, start, min(start + each, size)) for start in range(0, size, each)]
    with contextlib.suppress(RuntimeError):  # the interpreter is about to end, or there are no more threads
        workers = _workers()
        for other in parts[1:]:
            workers.submit(other)
    for one in parts:  # all that nobody has begun
        one()
    wait([one.done for one in parts])
    return max(one.done.result() for one in parts)


def share_rows(part: Callable[[int, int], int], rows: int, cost: int, aligned: int = 1) -> int:
    """Share rows between threads as `share` does elements, where a row costs as much as `cost` elements."""
    if rows * cost < SHARED_FROM or get_threads() == 1 or rows < 2 * aligned:
        return part(0, rows)
    return _share(part, rows, aligned)


class _Part:
    """A part that whoever comes first does: a pool may keep, and do, what it said that it could not take."""

    def __init__(self, part: Callable[[int, int], int], start: int, stop: int) -> None:
        self.done: Future[int] = Future()
        self._work = part, start, stop
        self._taken = threading.Lock()

    def __call__(self) -> None:
        if not self._taken.acquire(blocking=False):
            return
        part, start, stop = self._work
        try:
            self.done.set_result(part(start, stop))
        except BaseException as error:
            self.done.set_exception(error)


def _workers() -> ThreadPoolExecutor:
    global _pool
    pool = _pool
    if pool is None:
        pool = _pool = ThreadPoolExecutor(get_threads() - 1 or 1, thread_name_prefix="lowprec")
    return pool


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _forget() -> None:
    """Forget the parent's threads in a forked child, which has none of them."""
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
