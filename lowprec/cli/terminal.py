"""Text that is safe to show, and progress: names in files may hold what a terminal obeys."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

import click

from lowprec.spec.naming import plain_lines


def say(text: object, *, err: bool = False) -> None:
    """Print text for people, with `plain_lines`."""
    click.echo(plain_lines(str(text)), err=err)


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
