"""Programs of blocks: values into blocks of any format, and their values.

Floor 2b. Imports the general and the scalar kernels; never the oracle, which checks them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels.codes import unlocked, values_of
from lowprec.kernels.compiling import is_worth
from lowprec.kernels.engine import BlockRefusal, Tensor
from lowprec.kernels.general.blocks import POWERS, decoder, encoder, magnitudes
from lowprec.kernels.general.codebooks import answer_words
from lowprec.kernels.general.numbers import CHUNK
from lowprec.kernels.general.operations import bits_of
from lowprec.kernels.general.program import is_usual, read_as, readable, reader
from lowprec.kernels.general.scales import scaler
from lowprec.kernels.lower.block import ARITHMETICS, BlockRule, lower_block
from lowprec.kernels.lower.scalar import lower_target
from lowprec.kernels.request import BlockDecoding, BlockEncoding
from lowprec.spec.block import BlockFormat
from lowprec.spec.codebook import Codebook
from lowprec.spec.projection import DEFAULT

__all__ = ["BlockDecoder", "BlockEncoder", "scales_fit"]

Codes = npt.NDArray[Any]

_NO_VALUES = np.empty(0, np.uint64)

#: Elements that go together: what they take stays in the caches.
_PART = 1 << 16
_SMALLEST, _LIMITED, _DIVISOR = (
    BlockRule._fields.index(name) for name in ("smallest", "by_limit", "divisor")
)


def scales_fit(fmt: BlockFormat, tensor: bool) -> bool:
    """Return whether the scales of blocks are exact in lanes until they are rounded."""
    kept = 0 if isinstance(fmt.scale, Codebook) else fmt.scale.precision + fmt.scales.rounding.bits
    divisor = _bits_of(lower_block(fmt)[_DIVISOR]) + 24 * (tensor and fmt.arithmetic == "exact")
    return kept <= 58 and divisor <= 53


def _bits_of(word: np.uint64) -> int:
    """Return how many bits a number has from its first to its last one."""
    return (int(word) // (int(word) & -int(word) or 1)).bit_length()


class BlockEncoder:
    """Values in blocks of any format."""

    partial = False

    def __init__(self, request: BlockEncoding) -> None:
        fmt, self._given, self._from = request.format, request.given, request.source
        self._read = reader(request.source, fmt.elements.flushes_operands)
        self._element = lower_target(fmt.element, fmt.elements)
        self._scale, self._rule = lower_target(fmt.scale, fmt.scales), lower_block(fmt)
        self._scale_read = reader(fmt.scale)
        self._values = unlocked(values_of(fmt.scale)) if isinstance(fmt.scale, Codebook) else _NO_VALUES
        bits = [bits_of(read_as(each)) for each in (request.source, fmt.scale)]
        source, divisor = bits[0], max(bits[1], _bits_of(self._rule[_SMALLEST]))
        exact = fmt.arithmetic == "exact"
        divisor = divisor + 24 * request.tensor if exact else 24
        drawn = fmt.elements.rounding.bits
        lanes, powers = max(source, divisor) <= 53, divisor == 1
        usual, self._answers = is_usual([], fmt.element, self._element), None
        if isinstance(fmt.element, Codebook):
            self._answers = answer_words(fmt.element, fmt.elements, exact and not powers)
            lanes = lanes and self._answers is not None
        else:
            lanes = lanes and fmt.element.precision + drawn + 2 <= 50
        book = self._answers is not None
        arithmetic = ARITHMETICS.index(fmt.arithmetic)
        limited = bool(self._rule[_LIMITED])
        self._scaler = scaler(arithmetic, limited, fmt.scales.rounding.bits > 0, self._values.size > 0)
        self._how = POWERS if lanes and powers else arithmetic, lanes, drawn > 0, book
        self._one_by_one, self._usual = (arithmetic, False, drawn > 0, book, False), usual

    def run(
        self, values: Codes, codes: Codes, scales: Codes, tensor: Tensor, random: Codes, scale_random: Codes
    ) -> BlockRefusal | None:
        """Write the codes and the scales of whole blocks, or say what is refused."""
        size, element, scale = values.size // scales.size, -1, -1
        step = max(1, _PART // size)
        for start in range(0, scales.size, step):
            blocks, first = slice(start, start + step), start * size
            some = slice(first, first + step * size)
            refusal = self._part(
                values[some], codes[some], scales[blocks], tensor, random[some], scale_random[blocks]
            )
            if refusal is not None:
                element = first + refusal.element if element < 0 <= refusal.element else element
                scale = start + refusal.scale if scale < 0 <= refusal.scale else scale
        return BlockRefusal(element, scale) if max(element, scale) >= 0 else None

    def _part(
        self, values: Codes, codes: Codes, scales: Codes, tensor: Tensor, random: Codes, scale_random: Codes
    ) -> BlockRefusal | None:
        given = readable(values, self._from)
        read = given.view(np.uint8), given.itemsize, self._read, given.size // scales.size
        most, places = np.empty(scales.size, np.uint64), np.empty(scales.size, np.int64)
        kinds, words = np.empty(scales.size, np.uint64), np.empty(4 * CHUNK, np.uint64)
        magnitudes(*read, most, places, kinds, words)
        made = scales.astype(np.uint64)
        refused_scales, first_scale = self._scaler(
            most, places, kinds, made, self._scale, self._scale_read, self._values, self._rule, tensor.words,
            scale_random, self._given, words,
        )  # fmt: skip
        scales[:] = made
        out, blocks = (codes.view(np.uint8), codes.itemsize), (most, places, kinds, random, words)
        in_lanes = self._how[1] and self._answers is not None
        element = self._answers if in_lanes else self._element
        usual = self._usual and is_worth(encoder(*self._how, True), codes.size)
        refused, first = encoder(*self._how, usual)(*read, *out, element, *blocks)
        if refused and in_lanes:  # lanes may have left some
            refused, first = encoder(*self._one_by_one)(*read, *out, self._element, *blocks)
        return BlockRefusal(first if refused else -1, first_scale) if refused or refused_scales else None


class BlockDecoder:
    """The values of blocks of any format."""

    partial = False

    def __init__(self, request: BlockDecoding) -> None:
        fmt = request.format
        self._from = fmt.element, fmt.scale
        self._element, self._scale = reader(fmt.element), reader(fmt.scale)
        self._target = lower_target(request.carrier, DEFAULT)
        self._usual = is_usual([], request.carrier, self._target)

    def run(self, codes: Codes, scales: Codes, out: Codes, tensor: Tensor) -> None:
        """Write the values of whole blocks."""
        elements = readable(codes, self._from[0])
        decoder(self._usual and is_worth(decoder(True), out.size))(
            elements.view(np.uint8), elements.itemsize, self._element, codes.size // scales.size,
            readable(scales, self._from[1]).astype(np.uint64), self._scale, tensor.words, out.view(np.uint8),
            out.itemsize, self._target, np.empty(4 * CHUNK, np.uint64),
        )  # fmt: skip
