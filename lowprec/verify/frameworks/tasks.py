"""Tasks that the reference and a framework both do: operands in, codes out.

There are three: a cast, an operation, and blocks with their scales. Each says which operands matter, which
`Question` asks for the right answers, and what a difference can be: its kinds are hypotheses about what a
framework did, tested on the very operands.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.arrays.checks import code_dtype
from lowprec.arrays.convert import encode
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format, Sign
from lowprec.spec.projection import Projection
from lowprec.verify.codes import codebooks
from lowprec.verify.codes.display import hex_code
from lowprec.verify.codes.values import as_doubles, carrier_of, doubles
from lowprec.verify.dumps.files import Held
from lowprec.verify.inputs import conversions
from lowprec.verify.inputs.block_cases import blocks as blocks_that_matter
from lowprec.verify.inputs.operands import operands as operands_that_matter
from lowprec.verify.questions.blocks.blocks import BlockQuestion
from lowprec.verify.questions.elements.elements import ElementQuestion
from lowprec.verify.questions.question import Changes

__all__ = ["KINDS", "Arithmetic", "Asked", "Blocks", "Cast", "Operands", "Task", "comparable", "is_zero"]
__all__ += ["shown"]

Array = npt.NDArray[Any]
Operands = tuple[Array, ...]

#: The kinds of difference, in the order in which they are tried, and what each means.
KINDS = {
    "place": "the code depends on the place of the operand in the array, or on the array's length",
    "strided view": "the framework gives another code when the array is a strided view, such as x[::2]",
    "flush": "the framework gives another code when the process flushes subnormals to zero",
    "NaN": "an operand is NaN: another code, or another sign",
    "invalid": "the operation is invalid: the NaN differs",
    "special block": "the block holds a NaN or an infinity: another scale or other codes",
    "zero block": "all of the block is zero: another scale or other codes",
    "scale": "another scale",
    "element": "the block has the reference's scale, but an element another code",
    "zero": "the operand, or the exact result, is a zero: another sign, or what stands for zero in a "
    "format without it",
    "sign of zero": "a nonzero number becomes a zero of the other sign",
    "negative": "the operand is negative and the format unsigned",
    "double rounding": "the framework gives what it gives for the operand, or the exact result, rounded to "
    "binary32 (64-bit integers: or to binary64) first, and that rounding reaches or crosses a tie",
    "tie": "the exact result lies half-way between two values: the framework took the other one",
    "subnormal operand": "an operand is a subnormal of its own type or of binary32",
    "overflow": "the exact result lies beyond the largest finite value, or is infinite",
    "subnormal result": "the exact result lies among the format's subnormals",
    "direction": "the exact result lies between two values: the framework took the one farther away",
    "top binade": "the result lies in the binade that IEEE 754 would spend on infinities and NaNs",
    "power of two": "the exact result is rounded up to a power of two, as the carry goes into the exponent",
    "other": "none of these",
}


class Asked(NamedTuple):
    """Cases that differ, and ways to ask again about them."""

    operands: Operands
    got: Array
    want: Array
    again: Callable[..., Array]  #: the right answers under other rules of a projection
    theirs: Callable[[Operands], Array]  #: the framework's answer to other operands
    zeros: Array  #: where both answers are zeros
    reads_float32: bool = False


class _OfNumbers:
    """Tasks of which a case is one number or two, and the answer a code or a value."""

    target: Format
    operation: str
    any_nan: bool = False

    def question(
        self, operands: Operands, projection: Projection, got: Array | None = None
    ) -> ElementQuestion:
        """Return the question about these operands."""
        results = np.zeros(operands[0].shape, code_dtype(self.target)) if got is None else got
        operation = "convert" if self.operation == "cast" else self.operation
        formats, dumps = (*self._formats(operands), self.target), [Held(column) for column in operands]
        return ElementQuestion(operation, dumps, formats, projection, Held(results), any_nan=self.any_nan)

    def _formats(self, operands: Operands) -> list[Format]:
        return [self.target] * len(operands)

    def _values(self, operands: Operands) -> list[Array]:
        return [as_doubles(codes, self.target) for codes in operands]

    def _results(self, operands: Operands) -> Array:
        """Return the exact results, or float64 near enough to see where these lie."""
        with np.errstate(all="ignore"):
            return np.asarray(getattr(np, self.operation)(*self._values(operands)))

    def size(self, operands: Operands) -> Array:
        """Return the sum of the operands' magnitudes."""
        first, *others = (np.abs(values) for values in self._values(operands))
        return np.asarray(sum(others, first))  # nothing is added to a signaling NaN

    def rank(self, operands: Operands) -> Array:
        """Return the number by which the smallest case is chosen; NaN counts as smallest of all."""
        return self.size(operands)

    def tiny(self, operands: Operands) -> Array:
        """Return what flushing could concern: subnormal operands and results, of binary32 among them."""
        least = max(_small(operands[0].dtype), float(self.target.min_normal or 0))
        sizes = [np.abs(values) for values in (*self._values(operands), self._results(operands))]
        return np.asarray(np.any([(size > 0) & (size < least) for size in sizes], axis=0))

    def kinds(self, asked: Asked) -> dict[str, Array]:
        """Return where each kind of difference may be."""
        values, size = self._values(asked.operands), self._results(asked.operands)
        return {
            "NaN": np.any([np.isnan(column) for column in values], axis=0),
            "invalid": np.isnan(size),
            "zero": size == 0,
            "sign of zero": asked.zeros,
            **_of_results(size, asked, self.target),
        }


@dataclass(frozen=True)
class Cast(_OfNumbers):
    """Values of a type, to codes of a format."""

    source: str
    target: Format
    any_nan: bool = False
    operation = "cast"

    def operands(self, samples: int, seed: int, few: bool = False) -> Operands:
        """Return all that matter; unless `few`, random float32 and float64 as well."""
        chosen = conversions.inputs(self.target, self.source, sparse=few)
        if self.source in ("float32", "float64") and not few:
            chosen = np.concatenate([chosen, conversions.sample(self.source, samples, seed)])
        return (chosen,)

    def _formats(self, operands: Operands) -> list[Format]:
        return [carrier_of(operands[0].dtype)]

    def _values(self, operands: Operands) -> list[Array]:
        return [doubles(operands[0])]

    def _results(self, operands: Operands) -> Array:
        return doubles(operands[0])

    def special(self, operands: Operands) -> Array:
        """Return where NaNs, infinities, zeros, subnormals and numbers that overflow are."""
        size = self.size(operands)
        return ~(size < self.target.max_finite) | (size < _small(operands[0].dtype))

    def rounds_twice(self, asked: Asked) -> bool:
        """Return whether most operands get the result of rounding twice, of those for which that matters."""
        for codes in self.narrowed(asked):
            matters = codes != asked.want
            if 2 * (asked.got == codes)[matters].sum() > matters.sum():
                return True
        return False

    def kinds(self, asked: Asked) -> dict[str, Array]:
        """Return where each kind of difference may be."""
        size, narrowed = self._results(asked.operands), self.narrowed(asked)
        return super().kinds(asked) | {
            "negative": (size < 0) & (self.target.sign is Sign.UNSIGNED),
            "double rounding": ~np.isnan(size) & np.any([asked.got == codes for codes in narrowed], axis=0),
            "subnormal operand": np.abs(size) < _small(asked.operands[0].dtype),
        }

    def narrowed(self, asked: Asked) -> list[Array]:
        """Return the framework's results for operands rounded to binary32, and integers to binary64, first.

        Where that changes nothing, or does no harm, it is what the reference gives for the operands
        themselves.
        """
        (values,) = asked.operands
        values = np.where(np.isnan(doubles(values)), np.zeros(1, values.dtype), values)
        single = np.asarray(encode(values, "binary32")).view(np.float32)
        exact = np.asarray(encode(values, "binary32", rounding="toward_zero")).view(np.float32) == np.asarray(
            encode(values, "binary32", rounding="away_from_zero")
        ).view(np.float32)
        with np.errstate(all="ignore"):
            made: list[Operands] = [
                (single, single if asked.reads_float32 else single.astype(values.dtype), exact)
            ]
            if values.dtype == np.int64:
                double = values.astype(np.float64)
                made.append((double, double, np.abs(double) <= 2.0**53))
        return [
            np.where(exact | ~self._harmed(asked, narrow), asked.want, asked.theirs((given,)))
            for narrow, given, exact in made
        ]

    def _harmed(self, asked: Asked, narrow: Array) -> Array:
        """Return where the codes of values rounded before differ from those of the operands, or are ties."""
        return np.asarray(
            (asked.again(operands=(narrow,)) != asked.want) | _is_tie(asked, operands=(narrow,))
        )

    def show(self, operands: Operands) -> tuple[str, str]:
        """Return one case: bits and value."""
        return _shown_value(operands[0].reshape(-1)[0])


@dataclass(frozen=True)
class Arithmetic(_OfNumbers):
    """An operation on codes of a format, to codes of the same format."""

    operation: str
    target: Format

    @property
    def source(self) -> str:
        """The operands' format."""
        return self.target.name

    def operands(self, samples: int, seed: int, few: bool = False) -> Operands:
        """Return all pairs of 8-bit codes, all 16-bit codes; of others those that matter and random ones."""
        formats = (self.target,) * (1 if self.operation == "sqrt" else 2)
        return tuple(
            operands_that_matter(self.operation, (*formats, self.target), min(samples, 1 << 14), seed)
        )

    def special(self, operands: Operands) -> Array:
        """Return where results are NaN, infinite or zero."""
        size = np.abs(self._results(operands))
        return np.asarray(~(size < self.target.max_finite) | (size == 0))

    def kinds(self, asked: Asked) -> dict[str, Array]:
        """Return where each kind of difference may be."""
        values, least = self._values(asked.operands), float(self.target.min_normal or 0)
        small = np.any([(column != 0) & (np.abs(column) < least) for column in values], axis=0)
        twice = asked.again(via=(catalog.BINARY32,))
        return super().kinds(asked) | {
            "double rounding": (twice == asked.got) & (twice != asked.want),
            "subnormal operand": small & (asked.again(subnormals="flush_operands") == asked.got),
        }

    def show(self, operands: Operands) -> tuple[str, str]:
        """Return one case: codes and values."""
        codes = [column.reshape(-1) for column in operands]
        values = [float(column[0]) for column in self._values(tuple(codes))]
        bits = " ".join(hex_code(int(code[0]), self.target) for code in codes)
        return bits, " ".join(value.hex() for value in values)


@dataclass(frozen=True)
class Blocks:
    """Blocks of values, to the code of each one's scale and then those of its elements.

    Operands are blocks, and where the format has a scale of the tensor that scale for each of them.
    """

    source: str
    target: BlockFormat
    operation = "blocks"

    def operands(self, samples: int, seed: int, few: bool = False) -> Operands:
        """Return blocks at all borders of scales and elements."""
        blocks, *scales = blocks_that_matter(self.target, seed)
        return (blocks.astype(conversions.SOURCES[self.source]), *scales)

    def question(self, operands: Operands, got: Array | None = None) -> BlockQuestion:
        """Return the question about these blocks, which share the scale of the tensor."""
        blocks, *scales = operands
        rows = np.zeros((len(blocks), 1 + blocks.shape[1]), np.uint8) if got is None else got
        return BlockQuestion(
            Held(blocks),
            self.target,
            Held(np.ascontiguousarray(rows[:, 1:])),
            scales=Held(np.ascontiguousarray(rows[:, :1])),
            axis=-1,
            tensor_scale=scales[0][0] if scales else None,
        )

    def answers(self, operands: Operands, changes: Changes = ()) -> Array:
        """Return the right codes, or those under changes: of each block's scale and elements, in a row."""
        blocks, *scales = operands
        made = np.empty((len(blocks), 1 + blocks.shape[1]), np.uint8)
        for scale in np.unique(scales[0]) if scales else [None]:
            here = np.ones(len(blocks), bool) if scale is None else scales[0] == scale
            question = self.question(tuple(column[here] for column in operands))
            made[here] = question.rows_of(question.answer(question.piece(0, question.shape[0]), changes))
        return made

    def size(self, operands: Operands) -> Array:
        """Return the largest magnitude."""
        return np.asarray(np.abs(doubles(operands[0])).max(axis=-1))

    def rank(self, operands: Operands) -> Array:
        """Return the order of blocks: those of fewer numbers first, then those of smaller ones."""
        count = (operands[0] != 0).sum(axis=-1)
        ranks = np.empty(len(count), np.int64)
        ranks[np.lexsort([self.size(operands), count])] = np.arange(len(count))
        return ranks

    def special(self, operands: Operands) -> Array:
        """Return where blocks are zero, or have NaNs or infinities."""
        return np.asarray(~np.isfinite(self.size(operands)) | (self.size(operands) == 0))

    def tiny(self, operands: Operands) -> Array:
        """Return where blocks have subnormals of binary32 only."""
        return (self.size(operands) > 0) & (self.size(operands) < 2.0**-126)

    def kinds(self, asked: Asked) -> dict[str, Array]:
        """Return where each kind of difference may be."""
        size = self.size(asked.operands)
        scale = asked.got[:, 0] != asked.want[:, 0]
        return {
            "special block": ~np.isfinite(size),
            "zero block": size == 0,
            "scale": scale,
            "element": ~scale,
        }

    def show(self, operands: Operands) -> tuple[str, str]:
        """Return one case: the block, and the tensor's scale, with which the block's scale is multiplied."""
        block, *scales = operands
        bits, values = zip(*(_shown_value(value) for value in block.reshape(-1)), strict=True)
        ends = [_shown_value(scale.reshape(-1)[0]) for scale in scales]
        operand, value = (
            [_runs(list(words)), *(end[i] for end in ends)] for i, words in enumerate((bits, values))
        )
        return " times ".join(operand), " times ".join(value)


Task = Cast | Arithmetic | Blocks


def comparable(answers: Array) -> Array:
    """Return codes as they are; of values the bits as float64, with one NaN."""
    if answers.dtype.kind in "iu":
        return answers
    wide = doubles(answers)
    return np.where(np.isnan(wide), np.nan, wide).view(np.uint64)


def is_zero(answer: Array, target: Format | BlockFormat, values: bool) -> Array:
    """Return where answers, as codes or bits of values, are zeros of either sign."""
    if values:
        return np.asarray(answer << answer.dtype.type(1) == 0)
    if isinstance(target, Codebook):
        known = answer < len(target.values)
        return np.asarray(known & (codebooks.values(target)[np.where(known, answer, 0)] == 0))
    if isinstance(target, BlockFormat) or not target.subnormals or not target.negative_zero:
        return np.zeros(len(answer), bool)
    return np.asarray(answer & ~answer.dtype.type(target.sign_code) == 0)


def shown(answer: Array, target: Format | BlockFormat, dtype: np.dtype[Any]) -> str:
    """Return an answer as text: the code in hexadecimal, the value, or the scale's code and the elements'."""
    if isinstance(target, BlockFormat):
        scale, *elements = answer.tolist()
        return (
            f"{hex_code(scale, target.scale)}: {_runs([hex_code(code, target.element) for code in elements])}"
        )
    if dtype.kind == "f":
        number = float(np.asarray(answer).view(dtype)[()])
        return "nan" if np.isnan(number) else number.hex()
    return hex_code(int(answer), target)


def _runs(words: list[str]) -> str:
    """Join words; a word that repeats is said once, with its count."""
    runs = [(word, len(list(same))) for word, same in itertools.groupby(words)]
    return " ".join(word if count == 1 else f"{word}*{count}" for word, count in runs)


def _shown_value(value: Any) -> tuple[str, str]:
    """Return the bits of a number, and its value; integers are decimal."""
    if value.dtype.kind in "iu":
        return str(int(value)), str(int(value))
    bits = f"{int(value.view(f'u{value.dtype.itemsize}')):#0{2 + 2 * value.dtype.itemsize}x}"
    return bits, bits if np.isnan(doubles(value)) else float(value).hex()


def _small(dtype: np.dtype[Any]) -> float:
    """Return the number below which values are subnormal in their own type or in binary32."""
    carrier = catalog.carrier(dtype)
    return max((carrier and carrier.min_normal) or 0.0, 2.0**-126)


def _is_tie(asked: Asked, **changes: Any) -> Array:
    """Return where exact results are ties: only there the nearest modes differ."""
    away, toward = (asked.again(rounding=mode, **changes) for mode in ("nearest_away", "nearest_zero"))
    return np.asarray(away != toward)


def _of_results(size: Array, asked: Asked, target: Format) -> dict[str, Array]:
    """Return where kinds hold that follow from the place of the exact result among the format's values."""
    near = [asked.again(rounding=mode) for mode in ("toward_zero", "away_from_zero")]
    beside = ~np.isnan(size) & np.any([asked.got == codes for codes in near], axis=0)
    top = np.zeros(size.shape, bool)
    if not target.infinity and not isinstance(target, Codebook) and target.exponent_bits:
        below = ((1 << target.exponent_bits) - 1 << target.trailing_bits) - 1
        significand, exponent = target.scaled(max(below, 0))
        top = np.abs(size) > np.ldexp(float(significand), exponent)
    power = np.zeros(size.shape, bool)
    if asked.want.dtype.kind == "u" and not isinstance(target, Codebook):
        power = (near[0] != asked.want) & (asked.want & ((1 << target.trailing_bits) - 1) == 0)
    return {
        "tie": beside & _is_tie(asked),
        "overflow": np.abs(size) > target.max_finite,
        "subnormal result": np.abs(size) < (target.min_normal or 0),
        "direction": beside,
        "top binade": top,
        "power of two": power,
    }
