"""Subjects of laws of blocks: block formats by the verbs, by the oracle, or of someone's own."""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import Any

import numpy as np

from lowprec.arrays.checks import as_array
from lowprec.kernels.engine import Backend
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Sign
from lowprec.testing.answers import reals_of
from lowprec.testing.grid import Array, largest, values_of
from lowprec.testing.implementation import name_of
from lowprec.testing.subjects import Floats
from lowprec.verify.codes.display import shown_code
from lowprec.verify.reference import oracle_arrays
from lowprec.verify.reference.oracle_arrays import BlockCodes

#: Of one: amax is tried at these and next to them, beside the largest element, its half, and so on.
_MARKS = (1.0, 1.2, 4 / 3, 2**0.5, 1.5, 1.75, 1.99)
#: And at these times powers of two, the nearest to 1 first.
_POWERS = (0, 1, -1, 7, -20, 60, -60, 100, -110, 119, -126)
#: Values of a block from which on few blocks are tried.
_LARGE = 256


class BlockSubject:
    """An implementation of a block format, as laws see it: a block is a row of values.

    Parameters
    ----------
    fmt : BlockFormat
    samples, seed : int
        Random blocks beside the cases.
    """

    path = ""  #: whose answers these are
    slow = False
    encodes = decodes = True

    def __init__(self, fmt: BlockFormat, samples: int, seed: int) -> None:
        self.fmt, self.samples, self.seed = fmt, samples, seed

    def encode(self, rows: Floats) -> BlockCodes:
        """Return the codes of blocks."""
        raise NotImplementedError

    def decode(self, blocks: BlockCodes) -> Floats:
        """Return the values of blocks, in whatever type of floats."""
        raise NotImplementedError

    @property
    def size(self) -> int:
        """Values of a block."""
        return math.prod(self.fmt.sizes)

    @property
    def signed(self) -> bool:
        """True if elements can be negative."""
        return self.fmt.element.sign is not Sign.UNSIGNED

    @functools.cached_property
    def rows(self) -> Floats:
        """Blocks of finite float32 numbers: zeros, an amax at every border of the rules, and random ones."""
        random = np.random.default_rng(self.seed)
        top = float(largest(self.fmt.element))
        marks = np.array([*_MARKS, top, top / 2, top * 1.5, top * 1.25], np.float32)
        near = np.concatenate(
            [marks, np.nextafter(marks, np.float32(np.inf)), np.nextafter(marks, np.float32(0))]
        )
        powers = _POWERS[: 2 if self.size > _LARGE else 3 if self.slow else None]
        drawn = np.exp2(random.uniform(-140, 120, self.samples)).astype(np.float32)
        amax = np.concatenate(
            [*(near * np.float32(2.0) ** power for power in powers), drawn, self._borders(top)]
        )
        most = None if self.size <= _LARGE else 2 if self.slow else 12
        amax = amax[np.isfinite(amax) & (amax > 0)][:most]
        shares = random.uniform(-1, 1, (amax.size, self.size)) * np.exp2(
            random.integers(-6, 1, (amax.size, self.size))
        )
        rows = (shares * amax[:, None]).astype(np.float32)
        rows[np.arange(amax.size), random.integers(0, self.size, amax.size)] = amax * random.choice(
            [-1, 1], amax.size
        )
        zeros = np.zeros((2, self.size), np.float32) * np.array([[1], [-1]], np.float32)
        rows = np.concatenate([zeros, rows]).astype(np.float64)
        return rows if self.signed else np.abs(rows)

    def _borders(self, top: float) -> Array:
        """Return magnitudes at the thresholds of a codebook that scales are in, and next to them."""
        if not isinstance(self.fmt.scale, Codebook):
            return np.empty(0, np.float32)
        by = {"maximum": top, "one": 1.0, "binade": 2.0 ** (math.frexp(top)[1] - 1)}[self.fmt.rule.divisor]
        points = [by * float(each) for each in self.fmt.scale.thresholds if each > 0]
        some = np.array(points[:: 1 + len(points) // (16 if self.slow else 256)], np.float32)
        return np.concatenate(
            [some, np.nextafter(some, np.float32(0)), np.nextafter(some, np.float32(np.inf))]
        )

    @functools.cached_property
    def encoded(self) -> BlockCodes:
        """The codes of `rows`."""
        return self.encode(self.rows)

    @functools.cached_property
    def any_codes(self) -> BlockCodes:
        """Blocks of any codes: every scale of at most 8 bits, or as many random ones, and random elements."""
        random, scale, element = np.random.default_rng(self.seed), self.fmt.scale, self.fmt.element
        count = 4 if self.size > _LARGE else 24 if self.slow else 256
        scales = (
            np.arange(1 << scale.width) if scale.width <= 8 else random.integers(0, 1 << scale.width, count)
        )
        scales = scales[:: -(-scales.size // count)]
        codes = random.integers(0, 1 << element.width, (scales.size, self.size))
        return BlockCodes(scales, codes, Fraction(1) if self.fmt.tensor_scale == "none" else Fraction(3, 4))

    @functools.cached_property
    def scale_values(self) -> Floats:
        """The values of the scales of `rows`, by the parameters of their format."""
        return values_of(self.encoded.scales, self.fmt.scale)

    def scale(self, code: int) -> str:
        """Return a code of a scale, as reports show it."""
        return f"0x{shown_code(int(code), self.fmt.scale)}"

    def element(self, code: int) -> str:
        """Return a code of an element, as reports show it."""
        return f"0x{shown_code(int(code), self.fmt.element)}"


class ArrayBlocks(BlockSubject):
    """The verbs of lowprec on arrays, by an engine that is named, or by any."""

    path = "arrays"
    backend: Backend | None = None

    def encode(self, rows: Floats, kind: str = "float32") -> BlockCodes:
        """Encode by `lowprec.encode`, from numbers of a type."""
        from lowprec.arrays.convert import encode

        made = encode(self._laid(rows.astype(kind)), self.fmt, backend=self.backend)
        tensor = Fraction(1) if made.tensor_scale is None else Fraction(float(made.tensor_scale))
        return BlockCodes(
            made.scales.reshape(-1).astype(np.int64), self._rows(made.codes.astype(np.int64)), tensor
        )

    def decode(self, blocks: BlockCodes) -> Floats:
        """Decode by `lowprec.decode`."""
        from lowprec.arrays.blocks.block import BlockArray
        from lowprec.arrays.checks import code_dtype
        from lowprec.arrays.convert import decode

        codes = self._laid(blocks.codes.astype(code_dtype(self.fmt.element)))
        scales = blocks.scales.reshape((-1, 1) if codes.ndim == 2 else -1).astype(code_dtype(self.fmt.scale))
        tensor = None if self.fmt.tensor_scale == "none" else float(blocks.tensor)
        array = BlockArray(codes, scales, self.fmt, (), tensor)  # type: ignore[arg-type]
        return self._rows(np.asarray(decode(array, dtype="float64", backend=self.backend)))

    def _laid(self, rows: Array) -> Array:
        """Return blocks in an array: one after the other along an axis, or tiles below each other."""
        return rows.reshape(-1, self.fmt.sizes[-1]) if len(self.fmt.sizes) == 2 else rows.ravel()

    def _rows(self, laid: Array) -> Array:
        return laid.reshape(-1, self.size)


class OracleBlocks(BlockSubject):
    """The oracle, one block after the other."""

    path = "oracle"
    slow = True

    def encode(self, rows: Floats) -> BlockCodes:
        """Encode by `oracle.block.encode`."""
        return oracle_arrays.encode_blocks(rows, self.fmt)

    def decode(self, blocks: BlockCodes) -> Floats:
        """Decode by `oracle.block.decode`."""
        return oracle_arrays.decode_blocks(blocks, self.fmt)


class OwnBlocks(BlockSubject):
    """Someone's own: an object with the `format` that it is meant to be, and `encode`, `decode` or both."""

    def __init__(self, given: Any, samples: int, seed: int) -> None:
        super().__init__(catalog.block_format(given.format), samples, seed)
        self.given, self.path = given, name_of(given)
        self.encodes, self.decodes = (callable(getattr(given, verb, None)) for verb in ("encode", "decode"))

    def encode(self, rows: Floats) -> BlockCodes:
        """Encode by its own `encode`, from float32 values, a block in each row."""
        with np.errstate(all="ignore"):
            answer = self.given.encode(rows.astype(np.float32))
        if not isinstance(answer, tuple | list) or len(answer) not in (2, 3):
            raise TypeError(
                f"encode of {self.path} gave {type(answer).__name__}; it must give the codes of the scales "
                "and of the elements, and third the scale of the tensor where there is one"
            )
        scales, codes, *tensor = answer
        made = as_array(scales), as_array(codes)
        wanted = (rows.shape[0],), rows.shape
        formats = self.fmt.scale, self.fmt.element
        for verb, array, shape, fmt in zip(("scales", "codes"), made, wanted, formats, strict=True):
            if array.shape != shape or array.dtype.kind not in "iu":
                raise ValueError(
                    f"encode of {self.path} gave {verb} of {array.dtype} and shape {array.shape} for "
                    f"{rows.shape[0]} blocks of {self.size} values; give unsigned integers of shape {shape}"
                )
            wrong = (array < 0) | (array >= 1 << fmt.width)
            if wrong.any():
                raise ValueError(
                    f"encode of {self.path} gave {array[wrong][0]} among its {verb}, which is no code of "
                    f"{fmt.name}: codes have {fmt.width} bits; give unsigned codes"
                )
        whole = reals_of(tensor[0] if tensor else 1, f"encode of {self.path}, for the scale of the tensor,")
        if whole.ndim or not 0 < whole < np.inf:
            raise ValueError(
                f"encode of {self.path} gave {whole} as the scale of the tensor; give one positive number"
            )
        return BlockCodes(made[0].astype(np.int64), made[1].astype(np.int64), Fraction(float(whole)))

    def decode(self, blocks: BlockCodes) -> Floats:
        """Decode by its own `decode`, from codes of scales and of elements, a block in each row."""
        from lowprec.arrays.checks import code_dtype

        given: list[Any] = [blocks.scales.astype(code_dtype(self.fmt.scale))]
        given.append(blocks.codes.astype(code_dtype(self.fmt.element)))
        if self.fmt.tensor_scale != "none":
            given.append(float(blocks.tensor))
        with np.errstate(all="ignore"):
            made = reals_of(self.given.decode(*given), f"decode of {self.path}")
        if made.shape != blocks.codes.shape:
            raise ValueError(
                f"decode of {self.path} gave shape {made.shape} for codes of shape {blocks.codes.shape}; "
                "give one value for each code"
            )
        return made.astype(np.float64) if made.dtype.kind in "iu" else made
