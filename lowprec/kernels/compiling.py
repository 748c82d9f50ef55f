"""Compilations of this process, and their time; and the log record where a call had to wait for one.

Floor 2b.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

from numba.core import event
from numba.core.dispatcher import Dispatcher
from numba.core.types.functions import Function

from lowprec.kernels import engine
from lowprec.kernels.cache import DiskCache, directory, private

__all__ = ["COMPILED", "Compiled", "at_once", "is_worth"]

#: Seconds of compiling from which on a call says why it takes so long.
_PATIENCE = 1.0

_WAIT = "a call waits for kernels to be compiled, which lowprec does %s; `lowprec warm` does it in advance"


class Compiled(NamedTuple):
    """A kernel that was compiled."""

    kernel: str
    types: str  #: of its arguments
    seconds: float  #: with the helpers that were compiled on the way


#: Kernels that were compiled, not loaded from disk, in order of completion.
COMPILED: list[Compiled] = []

#: Results that were left to other kernels, by the name of the kernel that would be a request's own.
_left: dict[str, int] = {}


def is_worth(kernel: Any, results: int) -> bool:
    """Return whether a kernel of a request's own is to write results, or one that serves many requests.

    Its own is, from `MANY` on, if it is at hand, or if compiling it pays after all that was left to others.
    """
    if results < engine.MANY:
        return False
    if not isinstance(kernel, Dispatcher) or kernel.overloads:
        return True
    name, kept = kernel.py_func.__qualname__, cast(Any, kernel)._cache.is_kept
    _left[name] = _left.get(name, 0) + results
    return _left[name] > engine.PAYS or bool(kept())


@contextlib.contextmanager
def at_once() -> Iterator[None]:
    """Compile kernels of a request's own for the first `MANY` results, until the block ends."""
    before, engine.PAYS = engine.PAYS, 0
    try:
        yield
    finally:
        engine.PAYS = before


#: What numba asks for the type of each call, of the same function and arguments again and again.
_CALL_TYPE = Function.get_call_type


def _once(call_type: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that answers from its memory what it was asked before."""
    known: dict[Any, Any] = {}

    def get_call_type(function: Function, context: Any, args: Any, kws: Any) -> Any:
        key = function, context, tuple(args), tuple(kws.items()) if kws else ()
        if key not in known:
            known[key] = call_type(function, context, args, kws)
        return known[key]

    return get_call_type


class _Watch(event.Listener):  # type: ignore[misc]
    """Time kernels while numba compiles; only one thread does at any time.

    The helpers of a kernel are compiled within it. Each of them is an occasion to say that it takes a while.
    Nobody looks for garbage meanwhile: what is made stays, and looking takes an eighth of the time.
    """

    _began: tuple[Any, float] | None = None
    _collects = _told = False

    def on_start(self, event: Any) -> None:
        """Note the time, if this is a kernel of ours."""
        dispatcher = event.data["dispatcher"]
        if self._began is not None:
            self._tell()
        elif isinstance(dispatcher._cache, DiskCache):
            self._began = dispatcher, time.perf_counter()
            self._collects = gc.isenabled()
            gc.disable()
            cast(Any, Function).get_call_type = _once(_CALL_TYPE)

    def on_end(self, event: Any) -> None:
        """Keep a record of a kernel."""
        if self._began is None:
            return
        self._tell()
        dispatcher, began = self._began
        if event.data["dispatcher"] is dispatcher:
            self._began = None
            cast(Any, Function).get_call_type = _CALL_TYPE
            if self._collects:
                gc.enable()
            types = ", ".join(map(str, event.data["args"]))
            COMPILED.append(Compiled(dispatcher.py_func.__qualname__, types, time.perf_counter() - began))

    def _tell(self) -> None:
        if self._told or self._began is None or time.perf_counter() - self._began[1] < _PATIENCE:
            return
        _Watch._told = True
        chosen, folder = directory(), None
        with contextlib.suppress(OSError):  # nothing is kept where the folder cannot be made
            folder = chosen and private(chosen, make=True)
        where = "again in each process" if folder is None else f"once, and keeps them in {str(folder)!r}"
        logging.getLogger("lowprec").info(_WAIT, where)


event.register("numba:compile", _Watch())
