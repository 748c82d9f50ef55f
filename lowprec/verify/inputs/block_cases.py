"""The blocks that matter for a block converter, a case a block: borders of scales, and elements under them.

`blocks` has all of them in float32, for runs that can afford it; `block_cases` has fewer, of any operand
format, with everything special in every lane.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.blocks.block import BlockArray
from lowprec.arrays.checks import code_dtype
from lowprec.arrays.convert import decode, encode
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format
from lowprec.spec.rounding import NEAREST_EVEN
from lowprec.verify.codes.values import as_doubles
from lowprec.verify.inputs.operands import special_codes

__all__ = ["BlockCases", "block_answers", "block_cases", "source_values", "blocks"]

Array = npt.NDArray[Any]

#: Scales whose borders are taken of formats with many: so many at each end, and as many drawn.
_ENDS, _DRAWN = 6, 24
#: Blocks that a block of zeros follows.
_BEFORE_ZEROS = 12


@dataclass(frozen=True)
class BlockCases:
    """Blocks as codes of the operand's format, shape (n, lanes); tensors' scales and random words if any."""

    values: Array
    tensors: Array | None = None
    random: Array | None = None


def source_values(codes: Array, source: Format) -> npt.NDArray[np.float32]:
    """Return the float32 values of codes, NaNs by their bits."""
    if source == catalog.BINARY32:
        return codes.astype(np.uint32).view(np.float32)
    return np.asarray(decode(codes, source, dtype="float32"))


def block_answers(fmt: BlockFormat, source: Format, cases: BlockCases) -> tuple[Array, Array]:
    """Return the codes of elements, shape (n, lanes), and of scales, shape (n,)."""
    values = source_values(cases.values, source)
    count, lanes = values.shape
    rows = fmt.sizes[0] if len(fmt.sizes) == 2 else 1
    codes = np.empty((count, lanes), code_dtype(fmt.element))
    scales = np.empty(count, code_dtype(fmt.scale))
    groups = [(None, np.arange(count))]
    if cases.tensors is not None:
        groups = [(tensor, np.flatnonzero(cases.tensors == tensor)) for tensor in np.unique(cases.tensors)]
    for tensor, which in groups:
        given: dict[str, Any] = {"axis": -1 if rows == 1 else (0, 1), "backend": "scalar"}
        if tensor is not None:
            given["tensor_scale"] = float(tensor)
        if cases.random is not None:
            given["random"] = cases.random[which].reshape(len(which) * rows, -1)
        made = encode(values[which].reshape(len(which) * rows, -1), fmt, **given)
        assert isinstance(made, BlockArray)
        codes[which] = np.asarray(made.codes).reshape(len(which), lanes)
        scales[which] = np.asarray(made.scales).reshape(len(which))
    return codes, scales


def block_cases(fmt: BlockFormat, source: Format, samples: int = 1024, seed: int = 0) -> BlockCases:
    """Return blocks for a converter from a format to a block format.

    >>> from lowprec.spec.catalog import BFLOAT16, MXFP4
    >>> block_cases(MXFP4, BFLOAT16).values.shape[1]
    32

    Parameters
    ----------
    fmt : BlockFormat
    source : Format
        Of at most 32 bits, whose values binary32 has.
    samples, seed : int
        Blocks at borders of scales; special values in every lane and random codes come on top.

    Raises ValueError: a source that binary32 does not hold.
    """
    if isinstance(source, Codebook) or not catalog.BINARY32.contains(source):
        raise ValueError(
            f"blocks are made of floats that binary32 has, not of {source.name!r}; use 'binary32'"
        )
    made = _Maker(fmt, source, np.random.default_rng(seed))
    parts = [made.borders(samples), made.lanes(), made.zeros(), made.patterns(max(samples // 8, 8))]
    parts += [made.thresholds(), made.seconds(), made.between_zeros(), made.after_specials(), made.sticky()]
    values = np.concatenate([codes for codes, _ in parts])
    tensors = None if fmt.tensor_scale == "none" else np.concatenate([scales for _, scales in parts])
    random = None
    if fmt.elements.rounding.bits:
        most = (1 << fmt.elements.rounding.bits) - 1
        random = made.random.integers(0, most, values.shape, dtype=np.uint32, endpoint=True)
        random[::8], random[4::8] = 0, most
    return BlockCases(values, tensors, random)


def _codes_of_scales(fmt: Format) -> int:
    return len(fmt.values) if isinstance(fmt, Codebook) else fmt.max_magnitude + 1


def _between(scales: Array, fmt: Format) -> Array:
    """Return where scales become others: the middles, or a codebook's own thresholds."""
    if isinstance(fmt, Codebook):
        return np.array([float(each) for each in fmt.thresholds if each > 0])
    middles: Array = (scales[1:] + scales[:-1]) / 2
    return middles


class _Maker:
    """Draws blocks as codes, each with the scale of its tensor."""

    def __init__(self, fmt: BlockFormat, source: Format, random: np.random.Generator) -> None:
        self.fmt, self.source, self.random = fmt, source, random
        self.size = math.prod(fmt.sizes)
        most = fmt.element.max_finite * fmt.scale.max_finite
        largest = min(float(np.finfo(np.float32).max), source.max_finite)
        tensors = [1.0] if fmt.tensor_scale == "none" else [1.0, 3.0 / most, 2.0**-40, largest / most / 4]
        self.tensors: Array = np.array(tensors, np.float32)

    def _codes(self, values: Array, steps: Array | int = 0) -> Array:
        """Return the codes of magnitudes, some steps further, none past the largest."""
        near = np.asarray(encode(np.abs(values), self.source, saturation="finite", rounding="toward_zero"))
        moved: Array = np.clip(near.astype(np.int64) + steps, 0, self.source.max_magnitude)
        return moved.astype(code_dtype(self.source))

    def _signed(self, codes: Array) -> Array:
        signs = np.where(self.random.random(codes.shape) < 0.5, self.source.sign_code, 0)
        return np.asarray(codes | signs.astype(codes.dtype))

    def _amaxes(self, tensor: float) -> Array:
        """Return magnitudes at and beside those where the scale becomes another."""
        fmt = self.fmt
        codes = np.arange(_codes_of_scales(fmt.scale)) if fmt.scale.width <= 16 else special_codes(fmt.scale)
        if len(codes) > 2 * _ENDS + _DRAWN and fmt.scale.width <= 8:
            drawn = self.random.choice(codes[_ENDS:-_ENDS], _DRAWN, replace=False)
            codes = np.concatenate([codes[:_ENDS], drawn, codes[-_ENDS:]])
        scales = as_doubles(codes.astype(code_dtype(fmt.scale)), fmt.scale)
        scales = np.unique(np.abs(scales[np.isfinite(scales)]))
        divisor = float(fmt.rule.divides_by(fmt.element))
        if fmt.rule.powers == "none":
            borders = divisor * tensor * np.concatenate([scales, _between(scales, fmt.scale)])
        else:
            square, _ = fmt.rule.next_power_from(fmt.element)
            borders = divisor * tensor * np.concatenate([scales, scales * math.sqrt(square) / 2])
        ends = np.array([self.source.max_finite, self.source.max_finite * 0.75, 2.0**self.source.emin])
        borders = np.concatenate([borders[borders <= self.source.max_finite], ends])
        beside = self._codes(borders[:, None], np.array([-2, -1, 0, 1, 2]))
        return np.unique(beside[beside > 0])

    def borders(self, samples: int) -> tuple[Array, Array]:
        """Return blocks whose largest magnitude is at a border of scales: alone, with one, and among many."""
        parts, scales = [], []
        for tensor in self.tensors:
            amaxes = self._amaxes(float(tensor))
            most = max(8, samples // len(self.tensors) // 3)
            if len(amaxes) > most:
                ends = np.concatenate([amaxes[: most // 4], amaxes[-(most // 4) :]])
                amaxes = np.unique(
                    np.concatenate([ends, self.random.choice(amaxes, most // 2, replace=False)])
                )
            for kept in (1, min(2, self.size), self.size):
                parts.append(self._filled(amaxes, tensor, kept))
            scales.append(np.full(3 * len(amaxes), tensor, np.float32))
        return np.concatenate(parts), np.concatenate(scales)

    def _filled(self, amaxes: Array, tensor: Any, kept: int) -> Array:
        """Return blocks with these largest magnitudes, and elements at values and ties under their scales."""
        n = len(amaxes)
        alone = np.zeros((n, self.size), code_dtype(self.source))
        alone[:, 0] = amaxes
        plain = dataclasses.replace(
            self.fmt, elements=dataclasses.replace(self.fmt.elements, rounding=NEAREST_EVEN)
        )
        tensors = None if self.fmt.tensor_scale == "none" else np.full(n, tensor, np.float32)
        _, scales = block_answers(plain, self.source, BlockCases(alone, tensors))
        units = np.abs(as_doubles(scales, self.fmt.scale)) * float(tensor)
        units = np.where(np.isfinite(units) & (units > 0), units, 1.0)
        grid = _points(self.fmt.element)
        chosen = self.random.choice(grid, (n, self.size)) * units[:, None]
        others = self._codes(chosen, self.random.choice(np.array([-1, 0, 0, 1]), chosen.shape))
        others = np.minimum(others, amaxes[:, None])
        order = self.random.permuted(np.broadcast_to(np.arange(self.size), others.shape), axis=1)
        filled = np.where(order < kept, others, 0).astype(others.dtype)
        filled[np.arange(n), np.arange(n) % self.size] = amaxes
        return self._signed(filled)

    def lanes(self) -> tuple[Array, Array]:
        """Return NaNs, infinities and the largest magnitude in every lane by turns, among numbers."""
        special = [code for code in special_codes(self.source).tolist() if not np.isfinite(self._value(code))]
        kinds = len(special) + 2
        n = self.size * max(2, min(kinds, 512 // self.size))
        exponents = self.random.integers(-3, 4, (n, 1)) + self.random.random((n, self.size)) * 4
        codes = self._signed(self._codes(np.ldexp(1.0, 0) * 2.0**exponents))
        rows, lane = np.arange(n), np.arange(n) % self.size
        which = (rows // self.size + lane) % kinds
        largest = self._codes(np.full(n, 2.0**9))
        one_more = np.array([*special, 0, 0], np.uint64)[which].astype(codes.dtype)
        codes[rows, lane] = np.where(which >= len(special), largest, one_more)
        only = which == len(special) + 1
        codes[only] = 0
        codes[rows[only], lane[only]] = largest[only]
        return codes, np.full(n, 1.0, np.float32)

    def _value(self, code: int) -> float:
        return float(source_values(np.array([code], code_dtype(self.source)), self.source)[0])

    def zeros(self) -> tuple[Array, Array]:
        """Return blocks of zeros of either sign, and of subnormals alone."""
        sign, kind = self.source.sign_code, code_dtype(self.source)
        held = sign if self.source.has_negative_zero else 0
        rows = [
            [0],
            [held],
            [0, held],
            [1],
            [0, 1],
            [1 << self.source.trailing_bits],
            [(1 << self.source.trailing_bits) - 1, 0],
        ]
        codes = np.array([np.resize(row, self.size) for row in rows], np.uint64).astype(kind)
        return codes, np.full(len(codes), 1.0, np.float32)

    def thresholds(self) -> tuple[Array, Array]:
        """Return blocks whose largest significand is where a scale rule takes the next power of two."""
        low, high = self._exponents()
        element = self.fmt.element
        borders = [1.0, math.frexp(float(element.max_finite))[0] * 2, 1.5, 1.75, math.sqrt(2)]
        precision = _precision(element)
        borders += [2 - 2.0**-places for places in (precision, precision + 1)]
        exponents = self.random.integers(low, high, (4, 1), endpoint=True)
        amaxes = self._codes(np.ldexp(np.unique(borders), exponents)[..., None], np.array([-1, 0, 1]))
        amaxes = np.unique(amaxes[amaxes > 0])
        return self._filled(amaxes, 1.0, self.size), np.ones(len(amaxes), np.float32)

    def seconds(self) -> tuple[Array, Array]:
        """Return blocks whose second magnitude has the exponent of the largest, which it meets in a tree."""
        steps = [1 << bit for bit in range(max(self.size - 1, 0).bit_length())]
        pairs = [
            (lane, lane ^ step) for lane in range(self.size) for step in steps if lane ^ step < self.size
        ]
        if not pairs:
            return self.patterns(1)
        first, second = np.array(pairs).T
        rows, (low, high) = np.arange(len(pairs)), self._exponents()
        exponents = self.random.integers(low, high, (len(pairs), 1), endpoint=True)
        codes = self._codes(np.ldexp(self.random.random((len(pairs), self.size)) / 4, exponents))
        codes[rows, first] = self._codes(np.ldexp(1.75, exponents[:, 0]), 1)
        codes[rows, second] = self._codes(np.ldexp(1.0, exponents[:, 0]))
        return self._signed(codes), np.ones(len(pairs), np.float32)

    def _exponents(self) -> tuple[int, int]:
        """Return the ends of the exponents of largest magnitudes that the source has and scales reach."""
        middle = math.frexp(float(self.fmt.element.max_finite))[1] - 1
        high = min(middle + 4, self.source.emax - 1)
        return min(max(middle - 4, self.source.emin), high), high

    def between_zeros(self) -> tuple[Array, Array]:
        """Return blocks of numbers with blocks of zeros between them."""
        numbers, scales = self.patterns(_BEFORE_ZEROS)
        both = np.zeros((2 * len(numbers), self.size), numbers.dtype)
        both[::2] = numbers
        return both, np.repeat(scales, 2)

    def after_specials(self) -> tuple[Array, Array]:
        """Return blocks with a NaN or an infinity beside large numbers, and a smaller block behind each."""
        special = [code for code in special_codes(self.source).tolist() if not np.isfinite(self._value(code))]
        rows = np.arange(2 * max(_BEFORE_ZEROS // 4, len(special)))
        exponents = np.where(rows % 2, -4, 4)[:, None] + self.random.random((rows.size, self.size)) * 3
        codes = self._signed(self._codes(2.0**exponents))
        for row in rows[::2] if special else ():
            codes[row, row // 2 % self.size] = special[row // 2 % len(special)]
        return codes, np.ones(rows.size, np.float32)

    def sticky(self) -> tuple[Array, Array]:
        """Return blocks of elements that lie a single bit above a tie: at each place that the source has."""
        element = self.fmt.element
        points = _points(element)
        middles = np.setdiff1d(points, _values(element))
        first = np.searchsorted(middles, 1.0)
        ties = middles[first : first + 2] if len(middles) > first else middles[-1:]
        last = 2.0 ** -np.arange(_precision(element) + 1, self.source.precision)
        above = (ties[:, None] + np.exp2(np.floor(np.log2(ties)))[:, None] * last).reshape(-1)
        each = max(self.size - 1, 1)
        rows = -(-len(above) // each)
        codes = np.zeros((rows, self.size), np.float64)
        codes[:, 0] = element.max_finite
        codes[:, self.size - each :] = np.resize(above, (rows, each))
        return self._signed(self._codes(codes)), np.ones(rows, np.float32)

    def patterns(self, n: int) -> tuple[Array, Array]:
        """Return random finite codes."""
        codes = self.random.integers(0, self.source.max_magnitude, (n, self.size), endpoint=True)
        return self._signed(codes.astype(code_dtype(self.source))), self.random.choice(self.tensors, n)


def _points(element: Format) -> Array:
    """Return the magnitudes of an element's values, and of what lies between them: middles or thresholds."""
    if isinstance(element, Codebook):
        rays = (element.ray(False), element.ray(True))
        return np.unique(
            [abs(float(each)) for ray in rays for each in (*ray.sizes, *ray.thresholds) if each is not None]
        )
    grid = _values(element)
    return np.concatenate([grid, (grid[1:] + grid[:-1]) / 2])


def _precision(element: Format) -> int:
    """Return how many bits significands have, at most; of codebooks as many as codes."""
    return element.width if isinstance(element, Codebook) else element.precision


def _values(element: Format) -> Array:
    """Return the magnitudes of an element's values."""
    if isinstance(element, Codebook):
        values = np.array([float(each) for each in element.values if each is not None])
        return np.unique(np.abs(values[np.isfinite(values)]))
    codes = np.arange(element.max_magnitude + 1).astype(code_dtype(element))
    return np.unique(np.abs(as_doubles(codes, element)))


# -- blocks of frameworks' quantisers --------------------------------------------------------------


_LARGEST = np.finfo(np.float32).max

#: Largest magnitudes of tensors whose scale is their 2688th part: near a tie of block scales, and far out.
_TENSORS = (950.51324, 1e-3, math.ldexp(1.0, -100), float(_LARGEST))


@functools.lru_cache(maxsize=8)
def blocks(fmt: BlockFormat, seed: int = 0) -> tuple[Array, ...]:
    """Return blocks of float32, and for a format with a scale of the tensor that scale for each block.

    Every amax comes alone, with one element, and in a full block. An element is a value or a tie of its
    format times a scale that the block may have, or a number next to it. Last come blocks of zeros and
    blocks with infinities and NaNs.

    >>> from lowprec.spec.catalog import MXFP4, NVFP4
    >>> [part.ndim for part in blocks(MXFP4)], [part.ndim for part in blocks(NVFP4)]
    ([2], [2, 1])
    """
    if fmt.tensor_scale == "none":
        amaxes, units = _powers_of_two(fmt)
        return (np.concatenate([_filled(fmt, amaxes, units, seed), _specials(fmt)]),)
    parts, scales = [], []
    for scale in (1.0, *(most / 2688 for most in _TENSORS)):
        amaxes, units = _small_floats(fmt, np.float32(scale))
        parts += [_filled(fmt, amaxes, units, seed), _specials(fmt)]
        scales += [np.full(sum(map(len, parts[-2:])), scale, np.float32)]
    return np.concatenate(parts), np.concatenate(scales)


def _powers_of_two(fmt: BlockFormat) -> tuple[Array, Array]:
    """Return amaxes around each border of a scale rule in each binade of binary32, with scales near it."""
    largest, precision = fmt.element.max_finite, fmt.element.precision
    binade = np.floor(np.log2(largest))
    borders = np.array([1.0, largest / 2.0**binade, 2 - 2.0**-precision, np.sqrt(2), 1.2])
    points = np.ldexp(borders[:, None], np.arange(-150, 128)).reshape(-1)
    points = points[points <= _LARGEST].astype(np.float32)
    beside = np.array([-2, -1, 0, 1, 2, 5, 40])
    amaxes = np.unique(_stepped(points[:, None], beside))
    exponents = np.maximum(np.frexp(amaxes)[1] - 1, -126) - int(binade)
    lower = np.random.default_rng(1).integers(-1, 2, amaxes.size)
    return amaxes, np.ldexp(1.0, np.maximum(exponents + lower, -127))


def _small_floats(fmt: BlockFormat, scale: np.float32) -> tuple[Array, Array]:
    """Return amaxes around each value and tie of the scales' format and beyond, with the scales there."""
    grid = _ties(np.arange(1 << fmt.scale.width, dtype=np.uint8), fmt.scale)
    points = np.concatenate([grid, [464.0, 480.0, 1000.0, 2.0**-12, 2.0**-30]]) * fmt.element.max_finite
    points = np.minimum(points * float(scale), float(_LARGEST)).astype(np.float32)
    amaxes = np.unique(_stepped(points[:, None], np.array([-2, -1, 0, 1, 2])))
    quotients = amaxes / (fmt.element.max_finite * np.float64(scale))
    units = decode(encode(quotients, fmt.scale, saturation="finite"), fmt.scale, dtype="float64")
    return amaxes, units * np.float64(scale)


def _ties(codes: Array, fmt: Any) -> Array:
    """Return the finite magnitudes of codes, and the midpoints between them."""
    values = as_doubles(codes[codes < 1 << fmt.width], fmt)
    grid = np.unique(np.abs(values[np.isfinite(values)]))
    return np.concatenate([grid, (grid[:-1] + grid[1:]) / 2])


def _stepped(values: Array, steps: Array) -> Array:
    """Return the float32 magnitudes some steps further; none below 0, none infinite."""
    bits = values.view(np.int32) + steps.astype(np.int32)
    return np.clip(bits, 0, _LARGEST.view(np.int32)).astype(np.int32).view(np.float32)


def _filled(fmt: BlockFormat, amaxes: Array, units: Array, seed: int) -> Array:
    generator = np.random.default_rng(seed)
    size = fmt.sizes[-1]
    grid = _ties(np.arange(1 << fmt.element.width, dtype=np.uint8), fmt.element)
    points = np.minimum(generator.choice(grid, (amaxes.size, size)) * units[:, None], float(_LARGEST))
    points = _stepped(points.astype(np.float32), generator.integers(-1, 2, points.shape))
    points = np.minimum(points, amaxes[:, None])
    points[generator.random(points.shape) < 1 / 16] = 0
    points[:, 0] = amaxes
    whole = np.where(generator.random(points.shape) < 0.5, points, -points)
    alone, pair = np.zeros_like(whole), np.zeros_like(whole)
    alone[:, 0], pair[:, :2] = points[:, 0], points[:, :2]
    last = generator.integers(0, size, amaxes.size)
    rows = np.arange(amaxes.size)
    whole[rows, 0], whole[rows, last] = whole[rows, last], whole[rows, 0]
    return np.concatenate([alone, pair, whole])


def _specials(fmt: BlockFormat) -> Array:
    """Return blocks of zeros of either sign, and blocks of infinities or plain NaNs beside other numbers."""
    nan, infinity = float("nan"), float("inf")
    ends = [[], [nan], [-nan], [infinity], [-infinity, infinity]]
    made = np.zeros((1 + len(ends), fmt.sizes[-1]), np.float32)
    made[0, 1::2] = -0.0
    for row, end in enumerate(ends[1:], 2):
        made[row, : len(end)] = end
        made[row, len(end) : len(end) + 5] = 1, -1, 3.3, -1e-30, -0.0
    return made
