"""A progress bar for commands that take a while."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def progress() -> Iterator[Callable[[int, int | None, str], None] | None]:
    """Show a bar on a terminal, nothing elsewhere.

    As a context it gives a function of what is done, how much there is, if that is known, and what is under
    way, or None.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from lowprec.arrays.progress import bar

    with bar() as watch:
        yield watch
