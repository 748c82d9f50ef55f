"""Names in catalogs: mappings with a short repr, and the names close to one that there is none of.

Floor 1. Imports the standard library only.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TypeVar

__all__ = ["close_names", "read_only"]

_Item = TypeVar("_Item")

#: Names that the repr of a catalog begins with.
_SHOWN = 3
#: Letters that a part of a name must have to count as close to it.
_LEAST = 3


class _Named(dict[str, _Item]):
    """Items by name, whose repr counts them instead of showing all."""

    def __init__(self, kind: str, items: Iterable[_Item]):
        super().__init__({item.name: item for item in items})  # type: ignore[attr-defined]
        self.kind = kind

    def __repr__(self) -> str:
        names = [repr(name) for name in self]
        if len(names) > _SHOWN + 1:
            names[_SHOWN:-1] = ["..."]
        return f"<{len(self)} {self.kind}: {', '.join(names)}>"


def read_only(kind: str, items: Iterable[_Item]) -> Mapping[str, _Item]:
    """Return a read-only mapping of items by their names, with a short repr.

    >>> from lowprec.spec.families import ieee
    >>> read_only("formats", [ieee("binary16", 5, 10), ieee("binary32", 8, 23)])
    mappingproxy(<2 formats: 'binary16', 'binary32'>)
    """
    return MappingProxyType(_Named(kind, items))


def close_names(name: str, names: Iterable[str], most: int = 3) -> list[str]:
    """Return the names that differ little from one; if none does, those that begin with it or contain it.

    >>> close_names("e4m3fm", ["e4m3fn", "hopper_mma"]), close_names("hopper", ["e4m3fn", "hopper_mma"])
    (['e4m3fn'], ['hopper_mma'])
    """
    names, name = list(names), name.strip().lower()
    near = difflib.get_close_matches(name, names, n=most)
    if near or len(name) < _LEAST:
        return near
    return sorted((each for each in names if name in each), key=lambda each: not each.startswith(name))[:most]
