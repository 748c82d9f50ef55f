"""Checks of a specification's fields: each value becomes the one type that hashes equal, or is refused.

Specifications are keys of caches. A list, a NumPy integer or a member of an enumeration in a field could
make two equal ones hash differently.

Floor 1. Imports the standard library only.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

#: Letters that a name lacks, as they end a comment or a cell of a table, or begin markup.
_MARKUP = "*[]\\|`"

#: The most elements of a block, and terms of a chunk or a step: kernels count in 64 bits.
LARGEST_SIZE = 1 << 32

K = TypeVar("K")
V = TypeVar("V", covariant=True)


@dataclasses.dataclass(frozen=True, eq=False)
class Hashed:
    """A specification that computes its hash once; kinds name `__hash__` again, or `dataclass` makes one."""

    __slots__ = ("_known_hash",)

    def __hash__(self) -> int:
        """Return the hash of all fields that are compared."""
        try:
            known: int = self._known_hash  # type: ignore[attr-defined]
        except AttributeError:
            compared = [getattr(self, field.name) for field in dataclasses.fields(self) if field.compare]
            known = hash((type(self), *compared))
            object.__setattr__(self, "_known_hash", known)
        return known


def described(spec: Any, is_named: Callable[[Any], bool] = lambda value: False) -> str:
    """Return the call that constructs a specification, without defaults; named values by their names."""
    fields = [
        f"{field.name}={(str(value) if is_named(value) else value)!r}"
        for field in dataclasses.fields(spec)
        if (value := getattr(spec, field.name)) != field.default
    ]
    return f"{type(spec).__name__}({', '.join(fields)})"


def by_field(spec: Any) -> dict[str, Any]:
    """Return the values of a specification's fields, by name."""
    return {field.name: getattr(spec, field.name) for field in dataclasses.fields(spec)}


def choose(spec: object, owner: str, **fields: tuple[str, ...]) -> None:
    """Refuse fields whose value is not a choice; `owner` is the specification's name in messages."""
    for name, choices in fields.items():
        value = getattr(spec, name)
        if not isinstance(value, str) or value not in choices:
            raise ValueError(f"{name}={value!r} of {owner} is unknown; use one of {', '.join(choices)}")
        _set(spec, name, choices[choices.index(value)])


def integer(spec: object, owner: str, name: str, least: int, most: int, note: str = "") -> None:
    """Convert a field to an int from `least` to `most`; `note` ends the message."""
    value = getattr(spec, name)
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} of {owner} must be an integer, not {value!r}")
    number = int(operator.index(value))
    if not least <= number <= most:
        raise ValueError(f"{name}={number} of {owner} is out of range; use {least:,} to {most:,}{note}")
    _set(spec, name, number)


def truth(spec: object, owner: str, *names: str) -> None:
    """Refuse fields that are neither True nor False."""
    for name in names:
        if type(getattr(spec, name)) is not bool:
            raise TypeError(f"{name} of {owner} must be True or False, not {getattr(spec, name)!r}")


def text(spec: object, owner: str, *names: str) -> None:
    """Convert fields to plain strings of one line."""
    for name in names:
        value = getattr(spec, name)
        if not isinstance(value, str):
            raise TypeError(f"{name} of {owner} must be a string, not {value!r}")
        check_line(owner, name, value)
        _set(spec, name, str.__str__(value))


def check_line(owner: str, name: str, value: str) -> None:
    r"""Refuse text that is more than one line of printable letters, and names with markup.

    Names go into vectors, headers, packages, tables and terminals.

    >>> check_line("a format", "name", "mine\n00 : 3f")
    Traceback (most recent call last):
        ...
    ValueError: name='mine\n00 : 3f' of a format must be printable and without * [ ] \ | `; choose another

    Raises ValueError: other text.
    """
    is_name = name == "name"
    if not value.isprintable() or (is_name and any(letter in _MARKUP for letter in value)):
        rule = f"printable and without {' '.join(_MARKUP)}" if is_name else "printable"
        raise ValueError(f"{name}={value!r} of {owner} must be {rule}; choose another")


def _set(spec: object, name: str, value: Any) -> None:
    if getattr(spec, name) is not value:
        object.__setattr__(spec, name, value)


class Table(Mapping[K, V]):
    """A mapping that nobody can change: what was remembered of it stays true."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Mapping[K, V]) -> None:
        self._entries = dict(entries)

    def __getitem__(self, fmt: K) -> V:
        return self._entries[fmt]

    def __iter__(self) -> Iterator[K]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __reduce__(self) -> tuple[type, tuple[dict[K, V]]]:
        return type(self), (self._entries,)

    def __repr__(self) -> str:
        return repr(self._entries)
