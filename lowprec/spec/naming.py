"""Names: catalogs that print as tables, the names close to an unknown one, and names of files made harmless.

Floor 1. Imports the standard library only.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

_Item = TypeVar("_Item")

#: Rows of a table that are shown where there are more than `_MOST`: so many, and the last.
_MOST, _FIRST = 44, 12
#: Letters of a cell, at most.
_LONGEST = 28
#: Letters that a part of a name must have to count as close to it.
_LEAST = 3


class UnknownName(KeyError):
    """A name that a catalog does not have; its message says which are close."""

    def __init__(self, name: object, kind: str, names: tuple[str, ...]) -> None:
        super().__init__(name, kind, names)

    def __str__(self) -> str:
        name, kind, names = self.args
        near = close_names(name, names) if isinstance(name, str) else []
        hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
        return f"{name!r} is none of the {len(names)} {kind}; {hint}list() of these has all names"


class Catalog(Mapping[str, _Item]):
    """Items by name, which nobody can change, printed as a table.

    >>> from lowprec.spec.families import ieee
    >>> Catalog("formats", {each.name: each for each in (ieee("half", 5, 10), ieee("single", 8, 23))},
    ...         bits=lambda fmt: fmt.width)
    2 formats; wherever one is taken, its name will do
      name   bits
      half   16
      single 32

    Parameters
    ----------
    kind : str
        What the items are, in the plural.
    items : mapping of str to item
    known : mapping of str to object, optional
        What columns say something of, instead of the items; for items that take long to make.
    **columns : callable
        What the table says of an item.
    """

    def __init__(
        self,
        kind: str,
        items: Mapping[str, _Item],
        known: Mapping[str, object] | None = None,
        **columns: Callable[[Any], object],
    ) -> None:
        self.kind = kind
        self._items = items
        self._known = items if known is None else known
        self._columns = columns

    def __getitem__(self, name: str) -> _Item:
        try:
            return self._items[name]
        except KeyError:
            raise UnknownName(name, self.kind, tuple(self)) from None

    def __contains__(self, name: object) -> bool:
        return name in self._items

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle and copy the package's own by their names."""
        name = self.kind.replace(" ", "_")
        return (_named, (name,)) if _named(name) is self else super().__reduce_ex__(protocol)

    def __repr__(self) -> str:
        names = list(self)
        cut = len(names) > _MOST
        shown = [*names[:_FIRST], names[-1]] if cut else names
        rows = [("name", *self._columns)]
        rows += [(name, *(_short(of(self._known[name])) for of in self._columns.values())) for name in shown]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  " + " ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        if cut:
            lines.insert(-1, f"  ... {len(names) - len(shown)} more; list() of this has all names")
        return "\n".join([f"{len(names)} {self.kind}; wherever one is taken, its name will do", *lines])


def _named(name: str) -> object:
    """Return the catalog that the package has under a name, None if there is none."""
    return getattr(importlib.import_module("lowprec"), name, None)


def _short(cell: object) -> str:
    """Return the text of a cell: names for a sequence of named items, '-' for nothing."""
    if isinstance(cell, bool) or cell is None or cell == "":
        text = "yes" if cell else "-"
    elif isinstance(cell, float):
        text = f"{cell:.4g}"
    elif isinstance(cell, str) or not isinstance(cell, Iterable):
        text = str(cell)
    else:
        text = " ".join(map(str, cell)) or "-"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def by_name(items: Iterable[_Item]) -> dict[str, _Item]:
    """Return items by their names."""
    return {item.name: item for item in items}  # type: ignore[attr-defined]


def close_names(name: str, names: Iterable[str], most: int = 3) -> list[str]:
    """Return the names that differ little from one; if none does, those that begin with it or contain it.

    >>> close_names("e4m3fm", ["e4m3fn", "hopper_mma"]), close_names("hopper", ["e4m3fn", "hopper_mma"])
    (['e4m3fn'], ['hopper_mma'])
    """
    names, name = list(dict.fromkeys(names)), name.strip().lower()
    near = difflib.get_close_matches(name, names, n=most)
    if near or len(name) < _LEAST:
        return near
    return sorted((each for each in names if name in each), key=lambda each: not each.startswith(name))[:most]


def plain(text: str) -> str:
    r"""Replace what is not printable by backslash escapes: controls, directions, line ends, lone surrogates.

    What is left is also what XML 1.0 and any UTF-8 stream can hold.

    >>> print(plain("layer\x1b[31m.weight\n"))
    layer\x1b[31m.weight\n
    """
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text
    )


def plain_lines(text: str) -> str:
    """Apply `plain` to each line."""
    return "\n".join(map(plain, text.split("\n")))
