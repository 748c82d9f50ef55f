"""Text that is safe to show: names in files come from anywhere and may hold what a terminal obeys.

Floor 5.
"""

from __future__ import annotations

import click

__all__ = ["plain", "plain_lines", "quoted", "say"]

#: Characters of a word of a file that a message shows.
_MOST = 100


def plain(text: str) -> str:
    r"""Replace what is not printable by backslash escapes: controls, directions, line ends, lone surrogates.

    What is left is also what XML 1.0 and any UTF-8 stream can hold.

    >>> print(plain("layer\x1b[31m.weight\n"))
    layer\x1b[31m.weight\n
    """
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def plain_lines(text: str) -> str:
    """Apply `plain` to each line."""
    return "\n".join(map(plain, text.split("\n")))


def quoted(value: object) -> str:
    """Return the repr of something that a file says, cut short where it is long.

    >>> quoted("layer.weight"), len(quoted("x" * 1000))
    ("'layer.weight'", 103)
    """
    text = plain(repr(value))
    return text if len(text) <= _MOST else f"{text[:_MOST]}..."


def say(text: object, *, err: bool = False) -> None:
    """Print text for people, with `plain_lines`."""
    click.echo(plain_lines(str(text)), err=err)
