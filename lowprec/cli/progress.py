"""A progress bar for commands that take a while."""

from __future__ import annotations

import sys
from collections.abc import Callable

__all__ = ["progress"]


class progress:
    """A progress bar on a terminal, nothing elsewhere.

    As a context it gives a function of what is done, how much there is, if that is known, and what is under
    way, or None.
    """

    def __enter__(self) -> Callable[[int, int | None, str], None] | None:
        if not sys.stderr.isatty():
            return None
        from rich.console import Console
        from rich.markup import escape
        from rich.progress import Progress

        self.bar = Progress(console=Console(stderr=True), transient=True)
        self.bar.start()
        task = self.bar.add_task("", total=None)

        def watch(done: int, total: int | None, what: str) -> None:
            self.bar.update(task, completed=done, total=total, description=escape(what))

        return watch

    def __exit__(self, *_: object) -> None:
        if hasattr(self, "bar"):
            self.bar.stop()
