"""The seam between verbs and kernels: lower a request to a program of the fastest engine that is exact.

    vector  32-bit words in SIMD lanes; what fits them, at memory speed
    table   results of the scalar engine, looked up: one operand of at most 16 bits, or two of at most 8
    scalar  in integers, in 64-bit lanes where these are exact, else one element at a time; everything
    oracle  exact fractions in pure Python, slow; everything

A program runs on flat arrays of unsigned integers and answers what the request asks, bit for bit the same
whichever engine it is of. It can refuse only what the data alone can tell, such as a NaN without a code.

An engine is a module with a function ``lower(request)`` that returns a program, or None where the engine
does not serve the request; then its `SERVES` says in words what it takes. Modules are imported when they are
first asked, by their name in `ENGINES`.

Floor 2b. Imports spec and NumPy; engines bring the rest.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from lowprec.kernels.request import Request
from lowprec.spec.format import Format
from lowprec.spec.projection import Projection

__all__ = [
    "DONE",
    "ENGINES",
    "MANY",
    "PAYS",
    "REFUSED",
    "Backend",
    "ElementwiseProgram",
    "Refusal",
    "check_backend",
    "lower",
    "lower_by",
]

Codes = npt.NDArray[Any]

#: The names of `ENGINES`, for type checkers.
Backend = Literal["vector", "table", "scalar", "oracle"]

#: Engines by name, in the order in which they are asked; each the name of a module.
ENGINES = {
    "vector": "lowprec.kernels.vector.program",
    "table": "lowprec.kernels.table.program",
    "scalar": "lowprec.kernels.scalar.program",
    "oracle": "lowprec.verify.reference.oracle_backend",
}

#: What `run` returns: every result is written; or some operand has a result without a code, and what is
#: written is of no use. 2 is for kernels that a processor's mode stops.
DONE, REFUSED = 0, 1

#: Results from which on a kernel for a request's own formats and rules is taken, if it is at hand. Fewer are
#: left to kernels that serve many requests. Large arrays are gone through in parts of more, but for what is
#: left at their ends.
MANY = 1 << 13

#: Results of such sizes that a kernel which serves many requests writes before one of a request's own is
#: compiled: that takes longer than what is lost on ten times as many.
PAYS = 1 << 24


class Refusal(NamedTuple):
    """Results that have no code."""

    refused: int  #: how many
    first: int  #: the place of the first
    fmt: Format  #: that has none for them
    projection: Projection


class ElementwiseProgram(Protocol):
    """Program that an engine lowers an `Elementwise` request to."""

    refuses: bool  #: whether some operands may be refused
    draws: bool  #: whether it has `draw`
    in_place: bool  #: whether results may be written over operands
    widens: bool  #: whether it writes binary32 numbers as binary64 ones where `out` has such
    floats: bool  #: whether arrays of float32 and float64 may stand for such of uint32 and uint64

    #: Given operands and `out`, returns what does `run` faster for other arrays of the very types of these,
    #: writeable and of one size below `MANY`. None where nothing does. What returns another status than DONE
    #: may have written anything: `run` is to be asked.
    bound: Callable[[list[Codes], Codes], Callable[..., int]] | None

    def run(self, operands: list[Codes], out: Codes, flags: Codes, random: Codes, past: bool = False) -> int:
        """Write a result for each element, and its flags; return DONE or REFUSED.

        Arrays are one-dimensional, contiguous and of unsigned integers: of the size of `out`, but operands of
        one element are for all. `flags` and `random` are empty where they are not asked for. `past` says that
        `out` shall be written past the caches: it is large, and begins at a multiple of 16 bytes.
        """
        ...

    def draw(self, operands: list[Codes], out: Codes, key: int, first: int, past: bool = False) -> int:
        """Write results, with random integers of `random_bits` from number `first` on, a multiple of 4."""
        ...


class BlockRefusal(NamedTuple):
    """The first element, and the first block whose scale, has no code; -1 where there is none."""

    element: int
    scale: int


class Tensor(NamedTuple):
    """The scale of a whole tensor in blocks, if there is one, and the inverse that some rules use."""

    value: np.float32 | None
    words: Codes  #: both, lowered; 1 if there is none

    @property
    def number(self) -> tuple[int, int]:
        """The significand of the scale, with bit 63 set, and the exponent of its last bit."""
        return int(self.words[0]), int(self.words[1].view(np.int64))


class Rows(NamedTuple):
    """A side of dot products: rows of codes, K along the last axis, and of scales of blocks along K."""

    codes: Codes
    fmt: Format
    scales: Codes | None = None
    scale_fmt: Format | None = None
    block: int = 0  #: elements that share a scale
    tensor: float = 1.0

    def at(self, rows: Any) -> Rows:
        """Return some of the rows."""
        return self._replace(
            codes=self.codes[rows], scales=None if self.scales is None else self.scales[rows]
        )


def lower(request: Request, last: str | None = None) -> Any:
    """Return the program of the engine that the request names, or of the first that serves it.

    Engines after `last` are not asked; None where none of the others serves the request.

    Raises
    ------
    ValueError
        An engine that does not serve the request.
    """
    for name in ENGINES if request.backend is None else [request.backend]:
        program = lower_by(name, request)
        if program is not None and name == "vector" and request.backend is None:
            return _with_table(request)
        if program is not None or name == last:
            return program
    serves = importlib.import_module(ENGINES[str(request.backend)]).SERVES
    others = [repr(name) for name in ("scalar", "oracle") if lower_by(name, request) is not None]
    raise ValueError(
        f"backend={request.backend!r} does not serve this request: it takes {serves}; use "
        f"{' or '.join(others)}, which serves it, or leave backend out"
    )


@functools.lru_cache(maxsize=1024)
def _with_table(request: Request) -> Any:
    """Return the program of vectors, which a table overtakes where there is one."""
    table = importlib.import_module(ENGINES["table"])
    return table.overtaking(request, lower_by("vector", request))


@functools.lru_cache(maxsize=1024)
def lower_by(name: str, request: Request) -> Any:
    """Return the program of the engine of that name, or None where it does not serve the request."""
    return importlib.import_module(ENGINES[name]).lower(request)


def check_backend(backend: object) -> None:
    """Refuse what names no engine."""
    if backend is not None and (not isinstance(backend, str) or backend not in ENGINES):
        names = ", ".join(map(repr, ENGINES))
        raise ValueError(
            f"unknown backend {backend!r}; use one of {names}, or None for the fastest that is exact"
        )
