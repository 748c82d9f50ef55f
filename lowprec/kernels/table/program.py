"""Programs of the table engine: one operand of at most 16 bits, or two of at most 8.

A table holds the result and the flags of every pattern of the operands, as the scalar program makes them.
It is made when the first array comes that is long enough to pay for it.

Floor 2b. Imports numba through `jit`; never the oracle, which checks it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels.codes import code_dtype
from lowprec.kernels.engine import DONE, REFUSED
from lowprec.kernels.jit import jit
from lowprec.kernels.request import CONVERT, Elementwise, Request
from lowprec.kernels.scalar import program as scalar
from lowprec.kernels.table.steps import Steps, serves

__all__ = ["SERVES", "Table", "is_narrow", "lower", "overtaking"]

Codes = npt.NDArray[Any]

#: For messages.
SERVES = (
    "one operand of at most 16 bits or two of at most 8, or values into codebooks without flags, "
    "and no random integers"
)

#: Bits of all operands together.
_MOST = 16

#: A table is made for arrays of at least so many of its entries; where vectors answer meanwhile, once they
#: have answered for so many times its entries.
_SHARE, _TIMES = 4, 16

#: Elements whose flags are looked up together with results: they stay in the caches meanwhile.
_PART = 1 << 14


def lower(request: Request) -> Table | Steps | None:
    """Return a program that looks results up, or None where the operands have too many patterns."""
    if not isinstance(request, Elementwise):
        return None
    if is_narrow(request):
        return Table(request, _bits(request))
    return Steps(request) if serves(request) else None


def overtaking(request: Request, vectors: Any) -> Any:
    """Return a program that looks operations up as soon as that pays, and lets vectors answer before.

    A table of pairs is twice as fast as vectors that add, one of 16 bits four times as fast as their roots.
    """
    if not isinstance(request, Elementwise) or request.operation == CONVERT or not is_narrow(request):
        return vectors
    return Table(request, _bits(request), vectors)


def is_narrow(request: Elementwise) -> bool:
    """Return whether a table may hold all results: operands have few bits together, and nothing is random."""
    return _bits(request) <= _MOST and not request.projection.rounding.bits


def _bits(request: Elementwise) -> int:
    return sum(source.code_bits for source in request.sources)


class Table:
    """A program that looks results up; see `engine.ElementwiseProgram`."""

    draws = in_place = widens = floats = False
    bound = None

    def __init__(self, request: Elementwise, bits: int, vectors: Any = None) -> None:
        self._scalar, self._vectors, self._seen = scalar.lower(request), vectors, 0
        self._types = [code_dtype(source) for source in request.sources]
        self._size, self._asked = 1 << bits, request.backend == "table"
        self._result = code_dtype(request.carrier or request.target)
        self._joins = request.flags and self._result.itemsize < 8
        self._tables: tuple[Codes, Codes, Codes, Codes] | None = None
        self.refuses: bool = self._scalar.refuses

    def run(self, operands: list[Codes], out: Codes, flags: Codes, random: Codes, past: bool = False) -> int:
        """Look up a result for each element, and its flags."""
        if not self._pays(out.size):
            status: int = (self._vectors or self._scalar).run(operands, out, flags, random, past)
            return status
        tables = self._made()
        x, y = (operands * 2)[:2]
        steps = tuple(0 if operand.size == 1 != out.size else 1 for operand in (x, y))
        single = len(operands) == 1
        if tables[3].size:
            self._look_up_both(tables[3], x, y, steps, single, out, flags)
        else:
            for table, results in zip(tables[:2], (out, flags), strict=True):
                if results.size and single and steps[0]:
                    look_up(table, x, results)
                elif results.size:
                    look_up_pairs(table, x, y, steps, single, results)
        if tables[2].any():
            refused = np.empty(out.size, np.uint8)
            look_up_pairs(tables[2], x, y, steps, len(operands) == 1, refused)
            return REFUSED if refused.any() else DONE
        return DONE

    def _look_up_both(
        self, both: Codes, x: Codes, y: Codes, steps: tuple[int, ...], single: bool, out: Codes, flags: Codes
    ) -> None:
        """Look up results and flags at once, and part them: twice as fast as to look up each."""
        table = both.view(f"u{both.itemsize}")
        found = np.empty(min(_PART, out.size), table.dtype)
        for start in range(0, out.size, _PART):
            place = slice(start, min(start + _PART, out.size))
            some = found[: place.stop - start]
            left, right = x[place] if steps[0] else x, y[place] if steps[1] else y
            look_up_pairs(table, left, right, steps, single, some)
            part_both(some.view(both.dtype), out[place], flags[place])

    def _pays(self, size: int) -> bool:
        """Return whether to look up so many more results."""
        if self._vectors is None:
            return self._asked or size * _SHARE >= self._size
        self._seen += size
        return self._tables is not None or self._seen >= _TIMES * self._size

    def _made(self) -> tuple[Codes, Codes, Codes, Codes]:
        """Return results and flags of all patterns, 1 for those that are refused, and results with flags.

        The last is empty unless flags are asked for.

        Two threads may both make them, which are the same: a lock would outlive a fork.
        """
        if self._tables is None:
            patterns = np.arange(self._size, dtype=np.uint32)
            operands = [patterns.astype(self._types[-1])]
            if len(self._types) == 2:
                operands = [(patterns >> np.uint32(8)).astype(self._types[0]), *operands]
            results, flags = np.empty(self._size, self._result), np.empty(self._size, np.uint8)
            refused = attempt_all(self._scalar, operands, results, flags)
            kind = np.dtype([("result", self._result), ("flags", np.uint8)], align=True)
            both = np.empty(self._size if self._joins else 0, kind)
            if self._joins:
                both["result"], both["flags"] = results, flags
            self._tables = results, flags, refused, both
        return self._tables


def attempt_all(program: Any, operands: list[Codes], results: Codes, flags: Codes) -> Codes:
    """Write the result and the flags of each pattern that a program takes; return 1 for each other.

    Patterns are halved until a half is taken, or refused, whole: those that are refused lie together.
    """
    refused = np.zeros(results.size, np.uint8)
    pending = [slice(0, results.size)]
    while pending:
        part = pending.pop()
        size = part.stop - part.start
        given = [operand[part] for operand in operands]
        refusal = program.attempt(given, results[part], flags[part], np.empty(0, np.uint32))
        if refusal is None:
            continue
        if refusal.refused == size:
            refused[part] = 1
            results[part] = 0
        else:
            middle = part.start + size // 2
            pending += [slice(part.start, middle), slice(middle, part.stop)]
    return refused


@jit
def look_up(table: Codes, codes: Codes, out: Codes) -> None:
    """Write the entry of each code."""
    for i in range(out.size):
        out[i] = table[np.int64(codes[i])]


@jit
def look_up_pairs(table: Codes, x: Codes, y: Codes, steps: tuple[int, ...], single: bool, out: Codes) -> None:
    """Write the entry of each pair of codes of 8 bits; a step of 0 takes the same code for all.

    A loop for each case: with steps multiplied in, one loop would take three times as long.
    """
    if single:
        for i in range(out.size):
            out[i] = table[np.int64(y[i * steps[1]])]
    elif steps[0] and steps[1]:
        for i in range(out.size):
            out[i] = table[np.int64(x[i]) << np.int64(8) | np.int64(y[i])]
    elif steps[0]:
        second = np.int64(y[0])
        for i in range(out.size):
            out[i] = table[np.int64(x[i]) << np.int64(8) | second]
    else:
        first = np.int64(x[0]) << np.int64(8)
        for i in range(out.size):
            out[i] = table[first | np.int64(y[i * steps[1]])]


@jit
def part_both(both: Codes, out: Codes, flags: Codes) -> None:
    """Write the results and the flags of entries that hold both."""
    for i in range(out.size):
        out[i], flags[i] = both[i]["result"], both[i]["flags"]
