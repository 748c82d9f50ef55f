"""Patterns of modules' names in configurations that need not be trusted: matching always ends.

Python's `re` tries one way after another, in exponential time. Here all positions that a pattern can have
reached are followed together, as bits of an integer, so time grows with the pattern and the name alone; and
the work for all names is counted. Shell patterns of the user's own need none of this: `matching`.
"""

from __future__ import annotations

import fnmatch
import functools
import operator
import re
import warnings
from collections.abc import Callable, Iterable

__all__ = ["Names", "Patterns", "UnknownError", "exactly", "matching"]

#: Steps, which take less than a microsecond each: for each name, and for all together.
_FOR_EACH, _FOR_ALL = 4_000, 100_000
#: Steps that as much time is spent in as compiling a pattern of a shell takes.
_COMPILED = 100
#: Characters of a regular expression and groups in groups, at most.
_LONGEST, _DEEPEST = 1_000, 20

_CHARACTER = re.compile(r"\\[dDwWsSbBAZ]|\\[^\w]|\[\^?\]?(?:\\[dDwWsS]|\\[^\w]|[^\]\\\[])*\]|[^\\()\[{|*+?]")
_EMPTY = ("^", "$", r"\b", r"\B", r"\A", r"\Z")
_GROUP = re.compile(r"\?:|\?=|\?!|\?<=|\?<!|\?P<\w+>|")
_REPEAT = re.compile(r"(?:([*+?])|\{(\d{1,5})(?:(,)(\d{1,5})?)?\})\??(?![*+?{])")
_COUNTS = {"*": (0, None), "+": (1, None), "?": (0, 1)}


class UnknownError(Exception):
    """A pattern that is not understood, or takes too much work: whether it matches is not known."""


class _Text:
    """A name that patterns are matched against, and the steps that are left for it."""

    def __init__(self, text: str, spend: Callable[[int], None]) -> None:
        self.text, self.spend = text, spend
        self._places: dict[re.Pattern[str], int] = {}

    def places(self, character: re.Pattern[str]) -> int:
        """Return the positions, as bits, at which one character of a pattern matches."""
        if character not in self._places:
            self.spend(len(self.text))
            bits = ["01"[character.match(self.text, at) is not None] for at in range(len(self.text) + 1)]
            self._places[character] = int("".join(reversed(bits)), 2)
        return self._places[character]


#: Returns the positions behind a part of a pattern, of those before it.
_Node = Callable[[_Text, int], int]


class _Parser:
    """A regular expression, in the part of Python's syntax that is understood."""

    def __init__(self, pattern: str) -> None:
        self.rest, self.depth = pattern, 0

    def take(self, expected: re.Pattern[str]) -> re.Match[str] | None:
        """Take what matches from the rest of the pattern."""
        match = expected.match(self.rest)
        self.rest = self.rest[match.end() :] if match else self.rest
        return match

    def either(self) -> _Node:
        """Parse alternatives."""
        branches = [self.sequence()]
        while self.rest.startswith("|"):
            self.rest = self.rest[1:]
            branches.append(self.sequence())
        if len(branches) == 1:
            return branches[0]
        return lambda text, at: functools.reduce(operator.or_, (branch(text, at) for branch in branches))

    def sequence(self) -> _Node:
        """Parse parts that follow each other."""
        parts: list[_Node] = []
        while self.rest and self.rest[0] not in "|)":
            parts.append(self.repeated(self.part()))

        def behind(text: _Text, at: int) -> int:
            text.spend(len(parts))
            for part in parts:
                at = at and part(text, at)
            return at

        return behind

    def part(self) -> _Node:
        """Parse a group, or what matches one character or a place between two."""
        if not self.rest.startswith("("):
            found = self.take(_CHARACTER)
            if found is None:
                raise UnknownError("it has syntax that is not read here")
            character, width = re.compile(found[0]), int(found[0] not in _EMPTY)
            return lambda text, at: (at & text.places(character)) << width
        self.rest, self.depth = self.rest[1:], self.depth + 1
        kind = self.take(_GROUP)
        inner = self.either()
        if kind is None or not self.rest.startswith(")") or self.depth > _DEEPEST:
            raise UnknownError("its groups are nested too deeply or lack an end")
        self.rest, self.depth = self.rest[1:], self.depth - 1
        if kind[0] in ("?=", "?!"):
            return lambda text, at: _ahead(inner, text, at, kind[0] == "?!")
        if kind[0] in ("?<=", "?<!"):
            return lambda text, at: _behind(inner, text, at, kind[0] == "?<!")
        return inner

    def repeated(self, part: _Node) -> _Node:
        """Parse how often a part is repeated; more and fewer repetitions first make no difference."""
        found = self.take(_REPEAT)
        if found is None:
            return part
        sign, least, comma, most = found.groups()
        low, high = (
            _COUNTS[sign] if sign else (int(least), int(most) if most else None if comma else int(least))
        )

        def behind(text: _Text, at: int) -> int:
            for _ in range(low):
                before, at = at, part(text, at)
                if at == before:
                    break
            every = new = at
            for _ in range(len(text.text) + 1 if high is None else high - low):
                text.spend(1)
                new = part(text, new) & ~every
                if not new:
                    break
                every |= new
            return every

        return behind


def _ahead(inner: _Node, text: _Text, at: int, negative: bool) -> int:
    """Return the positions that a part follows, or does not follow."""
    bits = [1 << place for place in range(len(text.text) + 1) if at >> place & 1]
    text.spend(len(bits))
    return sum(bit for bit in bits if (inner(text, bit) == 0) == negative)


def _behind(inner: _Node, text: _Text, at: int, negative: bool) -> int:
    """Return the positions that a part ends at, or does not end at, wherever it begins."""
    ends = inner(text, (2 << len(text.text)) - 1)
    return at & ~ends if negative else at & ends


@functools.lru_cache(maxsize=1024)
def _parsed(pattern: str) -> _Node | None:
    """Return a regular expression in parts; None if it is none."""
    if len(pattern) > _LONGEST:
        raise UnknownError(f"it has {len(pattern):,} characters, and at most {_LONGEST:,} are read")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            re.compile(pattern)
    except (re.error, Warning, OverflowError, RecursionError):
        return None
    parser = _Parser(pattern)
    node = parser.either()
    if parser.rest:
        raise UnknownError("it has syntax that is not read here")
    return node


class Patterns:
    """Patterns of a configuration, matched against its modules.

    >>> patterns = Patterns(1)
    >>> patterns.matches("re:.*lm_head", "lm_head"), patterns.matches("*.gate", "m.gate"), patterns.unread
    (True, True, {})

    Parameters
    ----------
    count : int
        Of the names that there are; the work for all of them is limited by it.

    Attributes
    ----------
    unread : dict of str to str
        Why patterns are not understood.
    """

    def __init__(self, count: int) -> None:
        self._left = _FOR_ALL + _FOR_EACH * count
        self._text = _Text("", self.spend)
        self._globs: dict[str, re.Pattern[str]] = {}
        self.unread: dict[str, str] = {}

    def spend(self, steps: int) -> None:
        """Count steps. Raises UnknownError: there are none left."""
        self._left -= steps
        if self._left < 0:
            raise UnknownError("the configuration's patterns take too much work")

    def matches(self, pattern: str, module: str) -> bool:
        """Return whether a pattern of a shell, or behind "re:" a regular expression, matches a module's name.

        Raises UnknownError: that is not known; `unread` says why.
        """
        try:
            if pattern in self.unread:
                raise UnknownError(self.unread[pattern])
            return self._matches(pattern, module)
        except UnknownError as error:
            self.unread.setdefault(pattern, str(error))
            raise

    def _matches(self, pattern: str, module: str) -> bool:
        if not pattern.startswith("re:"):
            self.spend(1 + pattern.count("*") * len(module) // 64)
            if pattern not in self._globs:
                self.spend(_COMPILED + len(pattern))
                self._globs[pattern] = re.compile(fnmatch.translate(pattern))
            return self._globs[pattern].match(module) is not None
        if self._text.text != module:
            self._text = _Text(module, self.spend)
        node = _parsed(pattern[3:])
        return node is not None and node(self._text, 1) != 0


class Names:
    """Names of modules in a list of a configuration, and patterns for them."""

    def __init__(self, listed: object, patterns: Patterns) -> None:
        names = [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []
        self._plain, self._patterns = set(names), patterns
        self._wild = [name for name in names if name.startswith("re:") or set("*?[") & set(name)]

    def __contains__(self, module: str) -> bool:
        """Return whether the list has a module. Raises UnknownError: that is not known."""
        return module in self._plain or any(self._patterns.matches(each, module) for each in self._wild)


def matching(name: str, patterns: Iterable[str]) -> str | None:
    """Return the first of some shell patterns that a name matches."""
    return next((pattern for pattern in patterns if fnmatch.fnmatchcase(name, pattern)), None)


def exactly(name: str) -> str:
    """Return the shell pattern that matches a name and no other.

    >>> matching("a[0]", ["a[0]"]), matching("a[0]", [exactly("a[0]")])
    (None, 'a[[]0]')
    """
    return name.replace("[", "[[]")
