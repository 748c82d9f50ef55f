"""Text that is safe to show: names in files come from anywhere and may hold what a terminal obeys."""

from __future__ import annotations

import click

from lowprec.spec.naming import plain_lines


def say(text: object, *, err: bool = False) -> None:
    """Print text for people, with `plain_lines`."""
    click.echo(plain_lines(str(text)), err=err)
