"""Ctrl-C that waits where Python code cannot be stopped halfway and begun again.

Floor 1.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator

__all__ = ["held"]


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Let Ctrl-C wait until the body ends, as NumPy and numba cannot be imported again once stopped.

    Where it is ignored, ends the process or interrupts another thread, it does as before.
    """
    before = signal.getsignal(signal.SIGINT)
    if not callable(before) or threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            signal.raise_signal(signal.SIGINT)
