"""Tables of Markdown, line by line."""

from __future__ import annotations

from collections.abc import Iterator

from lowprec.spec.naming import plain


def row(*cells: object) -> str:
    r"""Return a row of a table; cells cannot end it.

    >>> print(row("a|b", 1))
    | a\|b | 1 |
    """
    shown = (plain(str(cell)).replace("|", r"\|") for cell in cells)
    return f"| {' | '.join(shown)} |"


def head(*titles: str, right: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the head of a table; columns stand to the left unless they are named."""
    yield row(*titles)
    yield f"|{'|'.join('--:' if title in right else '---' for title in titles)}|"
