"""Run general kernels over arrays of any unsigned integers, a chunk at a time.

Kernels read and write 64-bit words, so that one compilation serves all formats: a chunk of codes is widened
before, and results are narrowed after, while both lie in the nearest cache.

Floor 2b. Imports the general kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels.general.arith import operator
from lowprec.kernels.general.convert import converter
from lowprec.kernels.lower.records import REFUSED, Grid, Params
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format
from lowprec.spec.projection import Projection

__all__ = ["convert", "operate", "serves"]

Codes = npt.NDArray[Any]

#: Elements per chunk; the words of four operands fit the nearest cache.
_CHUNK = 1 << 10
_REFUSED = np.uint64(REFUSED)
_FLUSH = Grid._fields.index("flush")


#: Operations that change or choose an operand, which may have 64 bits.
_OF_ANY = ("negative", "absolute", "copysign", "round_to_integral", "scaleb", "logb")


def serves(operation: str, sources: list[Format], target: Format, rule: Projection) -> tuple[bool, bool]:
    """Return whether kernels are exact for an operation, and whether its products have more than 64 bits."""
    if isinstance(target, Codebook):
        return False, False
    bits = [fmt.precision if fmt.exponent_bits else fmt.width for fmt in sources]
    kept = target.precision + rule.rounding.bits + 2  # places that decide, the sticky one included
    if operation in _OF_ANY:
        return True, False
    if operation in ("add", "subtract"):
        return max(bits) <= 57 and kept <= 60, False
    if operation == "multiply":
        return max(bits) <= 62 and (sum(bits) <= 64 or kept <= 61), sum(bits) > 64
    if operation == "fma":
        return max(bits[0] + bits[1], bits[2]) <= 57 and kept <= 60, False
    if operation in ("divide", "sqrt"):
        return max(bits) <= 53 and kept <= 50, False
    if operation.startswith(("minimum", "maximum")):
        return max(bits) <= 62, False
    return False, False


class _Chunks:
    """The chunks of a call, with arrays for results and flags; counts refused results."""

    def __init__(self, out: Codes, flags: Codes, target_words: Params) -> None:
        self.signals = bool(flags.size or target_words[_FLUSH])
        self._out, self._flags = out, flags
        size = min(out.size, _CHUNK)
        self._words = np.empty(size, np.uint64)
        self._raised = np.empty(size if self.signals else 0, np.uint8)
        self.refused, self.first = 0, -1

    def __iter__(self) -> Any:
        """Yield the place of each chunk, and arrays for its results and flags."""
        for start in range(0, self._out.size, _CHUNK):
            part = slice(start, min(start + _CHUNK, self._out.size))
            made = self._out[part] if self._out.dtype == np.uint64 else self._words[: part.stop - start]
            raised = self._flags[part] if self._flags.size else self._raised[: part.stop - start]
            yield part, made, raised

    def done(self, part: slice, made: Codes, refuses: bool) -> None:
        """Store the results of a chunk, and count those refused."""
        if refuses:
            (places,) = np.nonzero(made == _REFUSED)
            self.first = self.first if self.refused else part.start + int(places[0])
            self.refused += places.size
        if self._out.dtype != np.uint64:
            np.copyto(self._out[part], made, casting="unsafe")


def _widened(codes: Codes, part: slice, size: int) -> Codes:
    """Return a chunk of an operand as 64-bit words; one element for all is repeated."""
    if codes.size != size:
        return np.full(part.stop - part.start, codes[0], np.uint64)
    return codes[part].astype(np.uint64, copy=False)


def convert(
    codes: Codes, source_words: Params, out: Codes, target_words: Params, random: Codes, flags: Codes
) -> tuple[int, int]:
    """Write to `out` what codes become; return how many are refused, and the place of the first."""
    chunks = _Chunks(out, flags, target_words)
    kernel = converter(random.size > 0, chunks.signals)
    for part, made, raised in chunks:
        words = _widened(codes, part, out.size)
        chunks.done(part, made, kernel(words, source_words, made, target_words, random[part], raised))
    return chunks.refused, chunks.first


def operate(
    operation: str,
    operands: list[tuple[Codes, Params]],
    out: Codes,
    target_words: Params,
    downward: bool,
    signaling_first: bool,
    wide: bool,
    random: Codes,
    flags: Codes,
) -> tuple[int, int]:
    """Write to `out` the results of an operation; return how many are refused, and the place of the first."""
    chunks = _Chunks(out, flags, target_words)
    kernel = operator(operation, wide, random.size > 0, chunks.signals)
    for part, made, raised in chunks:
        read = [(_widened(codes, part, out.size), words) for codes, words in operands]
        x, y, z = (*read, *read[:1] * (3 - len(read)))
        refuses = kernel(*x, *y, *z, made, target_words, downward, signaling_first, random[part], raised)
        chunks.done(part, made, refuses)
    return chunks.refused, chunks.first
