"""Words without a value: what is done to them is kept, and what is known beforehand is computed at once.

`formula` runs functions of the kernels on them.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

__all__ = ["Word", "cast", "in_order", "known", "least", "length", "most", "negated", "select", "word_of"]

_ONES = (1 << 64) - 1


class Word:
    """A result of an operation on words: unsigned or signed of 64 bits, or a truth."""

    __slots__ = ("args", "kind", "most", "name", "operation", "value")

    def __init__(
        self, operation: str, args: tuple[Word, ...], kind: str, value: int | None = None, name: str = ""
    ) -> None:
        self.operation, self.args, self.kind, self.value, self.name = operation, args, kind, value, name
        self.most = self._most()  #: no larger as an unsigned number

    def _most(self) -> int:
        if self.value is not None:
            return self.value
        if self.operation == "and":
            return min(each.most for each in self.args)
        if self.operation == "select":
            return max(each.most for each in self.args[1:])
        if self.operation == "down" and self.kind == "word" and self.args[1].value is not None:
            return self.args[0].most >> self.args[1].value
        return 1 if self.operation == "of_truth" or self.kind == "truth" else _ONES

    def __bool__(self) -> bool:
        if self.value is None:
            raise TypeError("the kernels take one of two ways by a word that is not known beforehand")
        return self.value != 0

    __hash__ = None  # type: ignore[assignment]

    def __add__(self, other: Any) -> Any:
        return _made("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return _made("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return _made("subtract", self, other)

    def __rsub__(self, other: Any) -> Any:
        return _made("subtract", other, self)

    def __mul__(self, other: Any) -> Any:
        return _made("multiply", self, other)

    def __and__(self, other: Any) -> Any:
        return _made("and", self, other)

    def __or__(self, other: Any) -> Any:
        return _made("or", self, other)

    def __xor__(self, other: Any) -> Any:
        return _made("xor", self, other)

    __rmul__, __rand__, __ror__, __rxor__ = __mul__, __and__, __or__, __xor__

    def __lshift__(self, other: Any) -> Any:
        return _made("up", self, other)

    def __rlshift__(self, other: Any) -> Any:
        return _made("up", other, self)

    def __rshift__(self, other: Any) -> Any:
        return _made("down", self, other)

    def __rrshift__(self, other: Any) -> Any:
        return _made("down", other, self)

    def __invert__(self) -> Any:
        return negated(self) if self.kind == "truth" else _made("xor", self, known(_ONES, self.kind))

    def __neg__(self) -> Any:
        return _made("subtract", known(0, self.kind), self)

    def __eq__(self, other: Any) -> Any:
        return _made("equal", self, other)

    def __ne__(self, other: Any) -> Any:
        return negated(_made("equal", self, other))

    def __lt__(self, other: Any) -> Any:
        return _made("less", self, other)

    def __gt__(self, other: Any) -> Any:
        return _made("less", other, self)

    def __le__(self, other: Any) -> Any:
        return negated(self > other)

    def __ge__(self, other: Any) -> Any:
        return negated(self < other)


# -- making words ------------------------------------------------------------------------------------


def known(value: Any, kind: str) -> Word:
    """Return a word of a value."""
    return Word("known", (), kind, int(value) & (1 if kind == "truth" else _ONES))


def word_of(given: Any, kind: str = "word") -> Word:
    """Return what stands for a number of Python or NumPy; a word as it is."""
    if isinstance(given, Word):
        return given
    if isinstance(given, bool | np.bool_):
        return known(given, "truth")
    if isinstance(given, np.signedinteger):
        return known(int(given), "signed")
    return known(int(given), kind)


def _number(word: Word) -> int:
    """Return the value of a known word."""
    assert word.value is not None
    return word.value - (1 << 64) if word.kind == "signed" and word.value >> 63 else word.value


_COMPUTED: dict[str, Callable[[int, int], int]] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
    "up": lambda x, y: x << y if 0 <= y < 64 else 0,
    "down": lambda x, y: x >> min(y & _ONES, 64),
    "equal": lambda x, y: x == y,
    "less": lambda x, y: x < y,
}
_SHIFTS, _COMPARISONS = ("up", "down"), ("equal", "less")


def _made(operation: str, first: Any, second: Any) -> Word:
    """Return the result of an operation on two words of one kind; shifts take any number of bits."""
    kind = next(each.kind for each in (first, second) if isinstance(each, Word))
    x, y = word_of(first, kind), word_of(second, kind)
    if x.kind != y.kind and operation not in _SHIFTS:
        raise TypeError(f"{operation} of a {x.kind} and a {y.kind}")
    kind = "truth" if operation in _COMPARISONS else x.kind
    if x.value is not None and y.value is not None:
        return known(_COMPUTED[operation](_number(x), _number(y)), kind)
    shorter = _shorter(operation, x, y, kind)
    return Word(operation, (x, y), kind) if shorter is None else shorter


def _shorter(operation: str, x: Word, y: Word, kind: str) -> Word | None:
    """Return a word that is the same without the operation, if there is one."""
    if x.value is not None and operation in ("add", "multiply", "and", "or", "xor", "equal"):
        x, y = y, x
    every = 1 if x.kind == "truth" else _ONES
    if y.value == 0 and operation in ("add", "subtract", "or", "xor", *_SHIFTS):
        return x
    if (y.value == 1 and operation == "multiply") or (y.value == every and operation == "and"):
        return x
    if y.value == 0 and operation in ("multiply", "and"):
        return known(0, kind)
    if y.value == every and operation == "or":
        return y
    if x.value == 0 and operation in _SHIFTS:
        return x
    if x.kind == "truth" and y.value is not None and operation in ("xor", "equal"):
        other: Word = negated(x)
        return other if y.value == (operation == "xor") else x
    if operation == "multiply" and x.operation == "of_truth" and y.value is not None:
        chosen: Word = select(x.args[0], y, known(0, kind))
        return chosen
    if operation == "equal" and y.value is not None and y.value > x.most:
        return known(0, kind)
    if operation == "less" and x.kind == "word" and x.value is not None and x.value >= y.most:
        return known(0, kind)
    if operation == "less" and x.kind == "word" and y.value is not None:
        return known(x.most < y.value, kind) if x.most < y.value or not y.value else None
    return None


def negated(given: Any) -> Any:
    """Return the other truth."""
    if not isinstance(given, Word):
        return not given
    if given.value is not None:
        return known(1 - given.value, "truth")
    return given.args[0] if given.operation == "not" else Word("not", (given,), "truth")


def select(condition: Any, first: Any, second: Any) -> Any:
    """Return one of two values by a truth."""
    if not isinstance(condition, Word):
        return first if condition else second
    if not isinstance(first, Word) and not isinstance(second, Word) and first is second:
        return first
    kind = next((each.kind for each in (first, second) if isinstance(each, Word)), "word")
    x, y = word_of(first, kind), word_of(second, kind)
    if condition.value is not None:
        return x if condition.value else y
    if _same(x, y):
        return x
    if x.kind == "truth":
        if x.value is not None:
            return condition | y if x.value else negated(condition) & y
        if y.value is not None:
            return negated(condition) | x if y.value else condition & x
    return Word("select", (condition, x, y), x.kind)


def _same(x: Word, y: Word) -> bool:
    """Return whether two words are seen to be the same."""
    if x is y or (x.value is not None and x.value == y.value):
        return True
    alike = x.operation == y.operation and x.value is y.value and bool(x.args)
    return alike and all(_same(*pair) for pair in zip(x.args, y.args, strict=True))


def cast(kind: str) -> Callable[[Any], Word]:
    """Return what reads a number, a word or a truth as a word of a kind."""

    def cast(given: Any) -> Word:
        word = word_of(given, kind)
        if word.value is not None:
            return known(word.value, kind)
        if word.kind == "truth":
            return Word("of_truth", (word,), kind)
        return word if word.kind == kind else Word("same", (word,), kind)

    return cast


def length(word: Word) -> Word:
    """Return how many bits a word has up to its leading one; 0 for 0."""
    if word.value is not None:
        return known(word.value.bit_length(), "signed")
    return Word("length", (word,), "signed")


def least(*given: Any) -> Any:
    """Return the smaller of two values."""
    return _extreme(builtins.min, given, lambda x, y: x < y)


def most(*given: Any) -> Any:
    """Return the larger of two values."""
    return _extreme(builtins.max, given, lambda x, y: x > y)


def _extreme(plain: Callable[..., Any], given: tuple[Any, ...], better: Callable[[Any, Any], Any]) -> Any:
    if not any(isinstance(each, Word) for each in given):
        return plain(*given)
    x, y = given
    return select(better(x, y), x, y)


# -- reading them -------------------------------------------------------------------------------------


def in_order(words: Sequence[Word]) -> tuple[list[tuple[Word, tuple[int, ...]]], list[int]]:
    """Return the different words that some are made of, each after its arguments, whose places are beside it.

    And the places of the words themselves.
    """
    found: list[tuple[Word, tuple[int, ...]]] = []
    places: dict[object, int] = {}
    at: dict[int, int] = {}
    waiting = [*reversed(words)]
    while waiting:
        word = waiting[-1]
        left = [each for each in reversed(word.args) if id(each) not in at]
        if left:
            waiting += left
            continue
        waiting.pop()
        args = tuple(at[id(each)] for each in word.args)
        key = (word.operation, args, word.kind, word.value, word.name if word.operation == "given" else "")
        if key not in places:
            places[key] = len(found)
            found.append((word, args))
        at[id(word)] = places[key]
    return found, [at[id(word)] for word in words]
