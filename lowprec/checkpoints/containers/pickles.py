"""Pickles read as what they say, without doing it: no class is imported and no function called.

What a pickle would call is kept as a `Call` with its arguments. And pickles written of such calls.
"""

from __future__ import annotations

import pickletools
import struct
import warnings
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lowprec.checkpoints.container import CheckpointError

__all__ = ["Call", "Global", "Stored", "Unnamed", "read_pickle", "write_pickle"]


class Global(NamedTuple):
    """A name of a module."""

    module: str
    name: str


class Stored(NamedTuple):
    """Object outside of the pickle, by its key there."""

    key: Any


@dataclass(eq=False, slots=True)
class Call:
    """A function or class called with arguments, what is put into the result, and the state that it gets."""

    function: Any
    arguments: Any
    items: list[tuple[Any, Any]] = field(default_factory=list)
    state: Any = None


class Unnamed:
    """In place of a key that is neither a text nor an integer of 64 bits."""


_MARK = object()
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY = {"EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_SET": list}
_TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_NUMBERS = "INT LONG BININT BININT1 BININT2 LONG1 LONG4 FLOAT BINFLOAT".split()
_TEXTS = "STRING BINSTRING SHORT_BINSTRING UNICODE BINUNICODE SHORT_BINUNICODE BINUNICODE8".split()
_BYTES = "BINBYTES SHORT_BINBYTES BINBYTES8 BYTEARRAY8".split()
_IGNORED = ("PROTO", "FRAME")
#: Bits of an integer that is a key, at most.
_BITS = 64
#: Opcodes that are carried out at most: what one makes takes more memory than its bytes in the pickle.
_MOST = 6_000_000


def read_pickle(data: bytes, what: str, called: set[str] | None = None) -> Any:
    """Return what a pickle holds: numbers, texts, lists, dicts and tuples of these, and calls.

    The names of all functions and classes that loading it would call are added to `called`.

    A key of a dict that is neither a text nor an integer of 64 bits becomes an `Unnamed`.

    >>> import pickle, fractions
    >>> read_pickle(pickle.dumps(fractions.Fraction(1, 2)), "this").function
    Global(module='fractions', name='Fraction')

    Raises CheckpointError: a pickle that is cut or damaged.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes in texts
            return _Machine(set() if called is None else called).run(data)
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError, MemoryError) as error:
        raise CheckpointError(f"{what} is no pickle that can be read: {error}") from None


class _Machine:
    """A stack and a memo, as pickles are made for."""

    def __init__(self, called: set[str]) -> None:
        self.called = called
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self, data: bytes) -> Any:
        for place, (opcode, argument, _) in enumerate(pickletools.genops(data)):
            if place >= _MOST:
                raise ValueError(f"it has more than {_MOST:,} opcodes")
            if opcode.name == "STOP":
                return self.stack.pop()
            self._step(opcode.name, argument)
        raise ValueError("it has no end")

    def _marked(self) -> list[Any]:
        """Take and return what lies above the last mark."""
        place = len(self.stack) - 1
        while self.stack[place] is not _MARK:
            place -= 1
            if place < 0:
                raise ValueError("there is no mark")
        found = self.stack[place + 1 :]
        del self.stack[place:]
        return found

    def _step(self, name: str, argument: Any) -> None:
        stack = self.stack
        if name in _IGNORED:
            return
        if name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _NUMBERS or name in _TEXTS or name in _BYTES:
            stack.append(argument)
        elif name in _EMPTY:
            stack.append(_EMPTY[name]())
        elif name in _TUPLES:
            count = _TUPLES[name]
            if count > len(stack):
                raise ValueError("a tuple takes more than there is")
            parts = stack[len(stack) - count :]
            del stack[len(stack) - count :]
            stack.append(tuple(parts))
        elif name == "MARK":
            stack.append(_MARK)
        elif name in ("TUPLE", "LIST", "FROZENSET"):
            found = self._marked()
            stack.append(tuple(found) if name == "TUPLE" else found)
        elif name == "DICT":
            found = self._marked()
            stack.append({})
            self._put(found)
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(self.memo[int(argument)])
        elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
            self.memo[int(argument)] = stack[-1]
        elif name == "MEMOIZE":
            self.memo[len(self.memo)] = stack[-1]
        elif name == "GLOBAL":
            module, _, attribute = argument.partition(" ")
            stack.append(Global(module, attribute))
        elif name == "STACK_GLOBAL":
            attribute, module = stack.pop(), stack.pop()
            if not isinstance(attribute, str) or not isinstance(module, str):
                raise ValueError("a name is no text")
            stack.append(Global(module, attribute))
        else:
            self._compound(name, argument)

    def _compound(self, name: str, argument: Any) -> None:
        stack = self.stack
        if name in ("APPEND", "APPENDS"):
            found = [stack.pop()] if name == "APPEND" else self._marked()
            into = stack[-1]
            if isinstance(into, Call):
                into.items += [(None, item) for item in found]
            else:
                into.extend(found)
        elif name in ("SETITEM", "SETITEMS"):
            if name == "SETITEM":
                value, key = stack.pop(), stack.pop()
                self._put([key, value])
            else:
                self._put(self._marked())
        elif name == "ADDITEMS":
            found = self._marked()
            stack[-1].extend(found)
        elif name in ("REDUCE", "NEWOBJ"):
            arguments, function = stack.pop(), stack.pop()
            stack.append(self._call(function, arguments))
        elif name == "NEWOBJ_EX":
            named, arguments, function = stack.pop(), stack.pop(), stack.pop()
            stack.append(self._call(function, (arguments, named)))
        elif name == "BUILD":
            state, built = stack.pop(), stack[-1]
            if isinstance(built, Call):
                built.state = state
        elif name == "POP":
            stack.pop()
        elif name == "POP_MARK":
            self._marked()
        elif name == "DUP":
            stack.append(stack[-1])
        elif name in ("PERSID", "BINPERSID"):
            stack.append(Stored(argument if name == "PERSID" else stack.pop()))
        else:
            raise ValueError(f"{name} is not read")

    def _call(self, function: Any, arguments: Any) -> Call:
        """Return a call, whose function is named by module or, where a call gives it, by that call's."""
        if isinstance(function, Global):
            first = arguments[0] if isinstance(arguments, tuple) and arguments else None
            of = f" of {'.'.join(first)}" if function.name == "getattr" and isinstance(first, Global) else ""
            self.called.add(".".join(function) + of)
        elif not isinstance(function, Call):
            self.called.add("what is no function")
        return Call(function, arguments)

    def _put(self, found: list[Any]) -> None:
        into = self.stack[-1]
        pairs = list(zip(found[::2], found[1::2], strict=True))
        if isinstance(into, Call):
            into.items += pairs
        else:  # tuples of tuples would take for ever to be hashed, and long integers have no text
            into.update((key if _is_name(key) else Unnamed(), value) for key, value in pairs)


def _is_name(key: Any) -> bool:
    return isinstance(key, str) or (isinstance(key, int) and key.bit_length() <= _BITS)


def write_pickle(value: Any) -> bytes:
    """Return a pickle of protocol 2 that makes what calls say.

    >>> import pickle
    >>> pickle.loads(write_pickle(Call(Global("fractions", "Fraction"), (1, 2))))
    Fraction(1, 2)
    """
    return b"\x80\x02" + _written(value) + b"."


def _written(value: Any) -> bytes:
    if value is None or isinstance(value, bool):
        return {None: b"N", True: b"\x88", False: b"\x89"}[value]
    if isinstance(value, int):
        size = max((value.bit_length() + 8) // 8, 1)
        return b"\x8a" + bytes([size]) + value.to_bytes(size, "little", signed=True)
    if isinstance(value, str):
        text = value.encode()
        return b"X" + struct.pack("<I", len(text)) + text
    if isinstance(value, Global):
        return f"c{value.module}\n{value.name}\n".encode()
    if isinstance(value, Stored):
        return _written(value.key) + b"Q"
    if isinstance(value, tuple):
        return b"(" + b"".join(map(_written, value)) + b"t"
    if isinstance(value, Call):
        items = b"".join(_written(key) + _written(item) for key, item in value.items)
        made = _written(value.function) + _written(value.arguments) + b"R"
        return made + (b"(" + items + b"u" if value.items else b"")
    raise TypeError(f"{type(value).__name__} is not pickled")
