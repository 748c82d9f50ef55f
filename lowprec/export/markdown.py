"""Tables of Markdown, line by line."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["head", "row"]


def row(*cells: object) -> str:
    """Return a row of a table.

    >>> row("a", 1)
    '| a | 1 |'
    """
    return f"| {' | '.join(map(str, cells))} |"


def head(*titles: str, right: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the head of a table; columns stand to the left unless they are named."""
    yield row(*titles)
    yield f"|{'|'.join('--:' if title in right else '---' for title in titles)}|"
