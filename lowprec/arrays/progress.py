"""Progress of a call: told to a function, or shown as a bar.

Floor 3.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

__all__ = ["Progress", "Step", "bar", "reporting"]

#: What calls that may take long accept as `progress=`.
Progress = Callable[[int, int], object] | bool | None

#: What such calls tell: how much more is done. None where nobody asked.
Step = Callable[[int], None] | None


@contextlib.contextmanager
def reporting(progress: Progress, total: int, what: str) -> Iterator[Step]:
    """Give a function that is told how much more is done; None where nobody asked.

    >>> with reporting(lambda done, total: print(done, total), 3, "doubling") as step:
    ...     step(1), step(2)
    0 3
    1 3
    3 3
    (None, None)

    Parameters
    ----------
    progress : callable, bool or None
        Called with (done, total), done ascending from 0 to total; True for a bar on the terminal's stderr.
    total : int
    what : str
        What the bar says is under way.

    Raises
    ------
    TypeError
        Anything else as progress. What `progress` raises ends the call.
    """
    if progress is None or progress is False:
        yield None
        return
    if progress is not True and not callable(progress):
        raise TypeError(f"progress must be a function of (done, total), or True for a bar, not {progress!r}")
    with contextlib.ExitStack() as stack:
        watch = stack.enter_context(bar()) if progress is True else None
        done = 0

        def tell() -> None:
            if watch is not None:
                watch(done, total, what)
            else:
                progress(done, total)  # type: ignore[operator]

        tell()

        def step(more: int) -> None:
            nonlocal done
            done += more
            tell()

        yield step


@contextlib.contextmanager
def bar() -> Iterator[Callable[[int, int | None, str], None]]:
    """Show a bar on stderr, and give a function of what is done, how much there is, and what is under way."""
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress as Bar

    from lowprec.spec.naming import plain

    with Bar(console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("", total=None)

        def watch(done: int, total: int | None, what: str) -> None:
            shown.update(task, completed=done, total=total, description=escape(plain(what)))

        yield watch
