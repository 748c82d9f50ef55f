"""`lowprec.equal_quantizers`: whether two quantisers give the same bits, and which of them is right."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.arrays.blocks.block import asked as block_asked
from lowprec.arrays.blocks.block_array import BlockArray, tensor_scale_of
from lowprec.arrays.blocks.block_products import spread
from lowprec.arrays.blocks.block_stream import axes_of, grid_of
from lowprec.arrays.blocks.packing import packed_bytes, packed_shape, unpack, unswizzle
from lowprec.arrays.checks import as_array, projection as projection_of
from lowprec.arrays.convert import encode
from lowprec.kernels.modes import in_modes_of_now, usual_modes
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat, ScaleRule
from lowprec.spec.format import Format
from lowprec.spec.profiles import Profile, profile as profile_of
from lowprec.spec.projection import Projection, Saturation
from lowprec.spec.rounding import Rounding
from lowprec.verify.codes.display import hex_code
from lowprec.verify.codes.values import unsigned
from lowprec.verify.compare.compare import compare
from lowprec.verify.compare.report import Comparison
from lowprec.verify.inputs.conversions import SOURCES
from lowprec.verify.inputs.matrices import matrices, specials_are_said
from lowprec.verify.questions.scales import float_grid

__all__ = ["SCHEMA", "Equality", "Part", "Quantizer", "equal_quantizers"]

SCHEMA = "lowprec.equal/1"

#: Fields of block formats that say what codes and scales lie where.
_LAYOUT = ("element", "scale", "sizes")

#: What one quantiser may give and the other not, and what follows.
_LACKING = {"tensor_scale": "scale of the tensor, so none was compared"}
_LACKING |= {"scales": "scales; elements alone are compared"}

Array = npt.NDArray[Any]
#: Something that quantises, a profile that says what does, or recorded results.
Quantizer = Callable[..., Any] | Profile | str | BlockArray | Sequence[Any]


class _Made(NamedTuple):
    """Results of a quantiser for one tensor."""

    codes: Array
    scales: Array | None
    tensor_scale: np.float32 | None


@dataclass
class Part:
    """Elements, scales or tensor scales of two quantisers, held against each other.

    Attributes
    ----------
    name : {"elements", "scales", "tensor scales"}
    compared, differ : int
    alone : int
        Of elements: those that differ in blocks whose scales agree.
    first : str or None
        The first that differs, in words.
    """

    name: str
    compared: int = 0
    differ: int = 0
    alone: int = 0
    first: str | None = None


@dataclass
class Equality:
    """Report of `equal_quantizers`.

    Attributes
    ----------
    names : tuple of str
        Of the two quantisers.
    target : str
        The format.
    parts : list of Part
    sides : tuple of Comparison or None
        Each quantiser against the definition, under its own scale of the tensor, on the first tensor that
        differs and in which one is wrong; None where all is equal, or the reason was not asked.
    read : list of str
        How results were read whose layout differs from that of the operands.
    """

    names: tuple[str, str]
    target: str
    parts: list[Part] = field(default_factory=list)
    sides: tuple[Comparison | None, Comparison | None] = (None, None)
    read: list[str] = field(default_factory=list)

    @property
    def differ(self) -> int:
        """Elements and scales that differ."""
        return sum(part.differ for part in self.parts)

    @property
    def equal(self) -> bool:
        """True if something was compared, and no bit differs."""
        return any(part.compared for part in self.parts) and not self.differ

    def count(self, name: str, apart: Array, told: Callable[[tuple[Any, ...]], str]) -> Part:
        """Count what differs of a part, and tell the first of it."""
        part = next((part for part in self.parts if part.name == name), None)
        if part is None:
            part = Part(name)
            self.parts.append(part)
        part.compared += apart.size
        part.differ += int(np.count_nonzero(apart))
        if part.first is None and apart.any():
            part.first = told(np.unravel_index(int(np.argmax(apart)), apart.shape))
        return part

    def __bool__(self) -> bool:
        return self.equal

    def __str__(self) -> str:
        return self.as_text()

    def __repr__(self) -> str:
        return f"<Equality: {self.as_text().splitlines()[-1 if self.equal else 0]}>"

    def as_text(self) -> str:
        """Return what differs, where, and how each quantiser stands to the definition."""
        one, other = self.names
        verdict = f"{one} and {other} {'give the same bits' if self.equal else 'differ'}"
        if not any(part.compared for part in self.parts):
            verdict = f"nothing of {one} and {other} was compared"
        lines = [f"{verdict} in {self.target}", *(f"read: {each}" for each in self.read)]
        for part in self.parts:
            words = (
                f"{part.differ:,} of {part.compared:,} differ" if part.differ else f"{part.compared:,} equal"
            )
            if part.differ and part.name == "elements" and len(self.parts) > 1:
                words += f", {part.alone:,} of them where the scales agree"
            lines.append(f"  {part.name}: {words}")
            lines += [f"    first: {part.first}"] if part.first else []
        for name, side in zip(self.names, self.sides, strict=True):
            if side is not None:
                lines.append(f"{name} against the definition, in one tensor: {side.sum()}")
                lines += [f"  {side.cause.words}"] if side.cause else []
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as what JSON can hold (schema lowprec.equal/1)."""
        against = [
            side
            and {
                "compared": side.compared,
                "mismatches": side.mismatches,
                "cause": side.cause.words if side.cause else None,
            }
            for side in self.sides
        ]
        return {
            "schema": SCHEMA,
            "equal": self.equal,
            "target": self.target,
            "names": list(self.names),
            "read": self.read,
            "parts": [dataclasses.asdict(part) for part in self.parts],
            "against_the_definition": against,
        }


def equal_quantizers(
    first: Quantizer,
    second: Quantizer,
    to: Format | BlockFormat | str,
    operands: npt.ArrayLike | None = None,
    *,
    source: str = "float32",
    axis: int | tuple[int, ...] | None = None,
    rule: ScaleRule | str | None = None,
    rounding: Rounding | str | None = None,
    saturation: Saturation | str | None = None,
    projection: Projection | None = None,
    profile: Profile | str | None = None,
    samples: int = 1 << 16,
    seed: int = 0,
    why: bool = True,
) -> Equality:
    """Return whether two quantisers give the same bits for the same tensors, and if not, what differs.

    Both are given matrices of values at all thresholds of scales and elements, specials, and random ones.
    Elements, scales and scales of tensors that differ are counted, and each quantiser is held against the
    definition.

    >>> import lowprec as lp
    >>> print(equal_quantizers("torchao_floor", "ocp", "mxfp4").equal)
    False
    >>> lp.equal_quantizers(lambda x: lp.encode(x, "mxfp4"), "ocp", "mxfp4").equal
    True

    Parameters
    ----------
    first, second : function, Profile, str, BlockArray or sequence of array_like
        A function is given a matrix and returns a `BlockArray`; or codes; or codes and scales, or codes,
        scales and the scale of the tensor, in this order. A profile, or its name, quantises as it says.
        Recorded results need `operands`. Codes are integers or of the format's own type, those of 4 bits
        also two to a byte, the first in the low bits. Scales of blocks are codes, also in tiles of 128 rows
        and 4 columns; those of a format without blocks are the numbers by which values were divided, for
        a tensor, for its rows, or for its blocks of equal sizes.
    to : Format, BlockFormat or str
        What they quantise to.
    operands : array_like, optional
        A tensor to quantise, in place of the chosen ones. Recorded results are of this one.
    source : {"float32", "bfloat16", "float16"}
        The type of the chosen matrices.
    axis, rule, rounding, saturation, projection, profile
        The definition, as for `lowprec.encode`.
    samples : int
        Random values beside the chosen ones, at least.
    seed : int
        What these are drawn with.
    why : bool
        Whether each is held against the definition.

    Returns
    -------
    report : Equality
        It is true if no bit differs.

    Raises
    ------
    ValueError
        Results of a shape that cannot be those of the tensor; recorded results without operands.
    """
    if source not in SOURCES:
        raise ValueError(f"unknown source {source!r}; use one of {', '.join(SOURCES)}")
    fmt: Format | BlockFormat
    how = None
    if catalog.is_block(to):
        fmt = block_asked(to, rule, rounding, saturation, projection, profile)
    elif rule is not None or axis is not None:
        name = "axis" if rule is None else "rule"
        raise ValueError(f"{name}= is for block formats, and {str(to)!r} is none; leave it out")
    else:
        fmt = catalog.format(to)
        how = projection_of(fmt, rounding, saturation, projection, profile)
    pair = [_Quantizer(each, fmt, axis, nth) for each, nth in ((first, "first"), (second, "second"))]
    names = [each.name for each in pair]
    if names[0] == names[1]:
        names = [f"{names[0]} (first)", f"{names[1]} (second)"]
    if operands is None and (recorded := [each.name for each in pair if each.recorded]):
        raise ValueError(f"{recorded[0]} holds recorded results; give the operands that they are of")
    work = _Work(fmt, axis, Equality((names[0], names[1]), fmt.name))
    if operands is not None:
        tensors: Iterable[Array] = [as_array(operands)]
    else:
        profiles = [each.profile for each in pair if each.profile is not None]
        tensors = matrices(fmt, source, samples, seed, specials_are_said(fmt, profiles))
    with usual_modes():
        for tensor in tensors:
            work.add(tensor, pair[0](tensor, work.report.read), pair[1](tensor, work.report.read), how, why)
    return work.report


class _Quantizer:
    """A quantiser of any kind, called alike."""

    def __init__(self, given: Any, fmt: Format | BlockFormat, axis: Any, nth: str) -> None:
        self.fmt, self.axis = fmt, axis
        self.recorded = isinstance(given, BlockArray | tuple | list | np.ndarray)
        self.profile = profile_of(given) if isinstance(given, str | Profile) else None
        self.name = f"the {nth}"
        if self.profile is not None:
            self.name = self.profile.name
            options = {"axis": axis} if isinstance(fmt, BlockFormat) else {}
            self.call: Callable[[Array], Any] = lambda x: encode(x, fmt, profile=self.profile, **options)
        elif callable(given):
            self.name, self.call = getattr(given, "__name__", type(given).__name__), in_modes_of_now(given)
        elif self.recorded:
            self.call = lambda x: given
        else:
            raise TypeError(
                f"a quantiser is a function, a profile, or results; {type(given).__name__} is none of them"
            )
        if self.name == "<lambda>":
            self.name = f"the {nth}"

    def __call__(self, tensor: Array, read: list[str]) -> _Made:
        """Return what the quantiser gives for a tensor."""
        with np.errstate(all="ignore"):
            made = self.call(tensor.copy())
        if isinstance(made, BlockArray):
            self._check_blocks(made, tensor.ndim)
            made = (made.codes, made.scales, made.tensor_scale)
        parts = list(made) if isinstance(made, tuple | list) else [made]
        if not 1 <= len(parts) <= 3:
            raise ValueError(
                f"{self.name} gave {len(parts)} results; it must give codes, or codes and scales, or codes, "
                f"scales and the scale of the tensor"
            )
        parts += [None] * (3 - len(parts))
        codes = self._codes(as_array(parts[0]), _element(self.fmt), tensor.shape, read)
        return _Made(codes, None if parts[1] is None else as_array(parts[1]), self._tensor_scale(parts[2]))

    def _check_blocks(self, made: BlockArray, ndim: int) -> None:
        """Refuse blocks of another format, or along other axes, counted from the last one."""
        fmt = self.fmt
        wanted = axes_of(fmt, self.axis, ndim) if isinstance(fmt, BlockFormat) else ()
        asked, given = (
            (each, *(getattr(each, name, None) for name in _LAYOUT)) for each in (fmt, made.format)
        )
        along = [[axis - count for axis in axes] for axes, count in ((made.axes, made.ndim), (wanted, ndim))]
        if asked[1:] != given[1:] or along[0] != along[1]:
            raise ValueError(
                f"{self.name} gave blocks of {made.format.name!r} along {made.axes}, not of {fmt.name!r}"
                f"{f' along {wanted}' if wanted else ''}"
            )

    def _tensor_scale(self, given: Any) -> np.float32 | None:
        """Return the scale of the tensor as a binary32 number; arrays of one number are such."""
        if given is None:
            return None
        if not isinstance(self.fmt, BlockFormat):
            raise ValueError(
                f"{self.name} gave a scale of the tensor beside scales, and {self.fmt.name!r} has no blocks; "
                f"give codes and scales"
            )
        array = as_array(given)
        return tensor_scale_of(self.fmt, array.item() if array.size == 1 else given, computed=True)

    def _codes(self, codes: Array, element: Format, shape: tuple[int, ...], read: list[str]) -> Array:
        """Return codes as unsigned integers in the tensor's shape."""
        codes = unsigned(codes, element, f"{self.name} gave elements")
        size = math.prod(shape)
        axis = axes_of(self.fmt, self.axis, len(shape))[-1] if isinstance(self.fmt, BlockFormat) else -1
        along, length = (packed_shape(shape, element, axis), shape[axis]) if shape else ((), 1)
        packed = codes.shape == along or codes.size == packed_bytes(size, element)
        if codes.dtype == np.uint8 and packed and codes.size < size:
            _note(read, f"codes of {self.name} lie without gaps, the first in the lowest bits")
            if codes.shape != along:
                codes, axis, length = codes.reshape(-1), 0, size
            codes = unpack(codes, element, axis, length)
        if codes.shape != shape:
            if codes.size != size:
                raise ValueError(
                    f"{self.name} gave codes of shape {codes.shape} for a tensor of shape {shape}; give one "
                    f"for each value"
                )
            if codes.ndim > 1:
                _note(read, f"codes of {self.name} have shape {codes.shape}, read in order as {shape}")
            codes = codes.reshape(shape)
        return codes


def _note(read: list[str], words: str) -> None:
    if words not in read:
        read.append(words)


# -- one against the other ---------------------------------------------------------------------------


class _Work:
    """Two quantisers' results of one tensor after the other, counted in a report."""

    def __init__(self, fmt: Format | BlockFormat, axis: Any, report: Equality) -> None:
        self.fmt, self.axis, self.report = fmt, axis, report

    def add(self, tensor: Array, one: _Made, other: _Made, how: Projection | None, why: bool) -> None:
        """Count what differs for one tensor; of the first that does, hold both against the definition."""
        names, element = self.report.names, _element(self.fmt)
        before = self.report.differ
        scales: tuple[Array | None, Array | None] = (None, None)
        unequal = one.codes != other.codes
        alone = unequal
        if one.tensor_scale is not None and other.tensor_scale is not None:
            both = np.array([one.tensor_scale, other.tensor_scale])
            apart = _bits(both[:1]) != _bits(both[1:])
            alone = alone & ~apart
            amax = float(np.nanmax(np.abs(tensor.astype(np.float64)), initial=0.0))
            told = f"amax {amax!r}: {_pair(names, [*map(repr, both.tolist())])}"
            self.report.count("tensor scales", apart, lambda at: told)
        if one.scales is not None and other.scales is not None:
            scales = grids = self._grids(tensor, one.scales, other.scales)
            apart = _bits(grids[0]) != _bits(grids[1])
            alone = alone & ~self._spread(apart, tensor.shape)
            self.report.count("scales", apart, lambda at: self._scale_at(at, grids))
        each = tuple(zip(names, (one, other), strict=True))
        for part, words in _LACKING.items():
            lacking = [name for name, made in each if getattr(made, part) is None]
            if len(lacking) == 1:
                _note(self.report.read, f"{lacking[0]} gave no {words}")
        elements = self.report.count(
            "elements",
            unequal,
            lambda at: (
                f"{float(tensor[at])!r} at {tuple(map(int, at))}: "
                + _pair(names, [hex_code(int(made.codes[at]), element) for made in (one, other)])
            ),
        )
        elements.alone += int(np.count_nonzero(alone))
        settled = any(side is not None and not side.agrees for side in self.report.sides)
        if why and not settled and self.report.differ > before:
            sides = [self._side(tensor, *each, how) for each in zip((one, other), scales, strict=True)]
            self.report.sides = (sides[0], sides[1])

    def _spread(self, apart: Array, shape: tuple[int, ...]) -> Array:
        """Return what is said of scales for each element."""
        if isinstance(self.fmt, BlockFormat):
            return spread(apart, shape, axes_of(self.fmt, self.axis, len(shape)), self.fmt.sizes)
        sizes = (size // max(count, 1) for size, count in zip(shape, apart.shape, strict=True))
        return spread(apart, shape, tuple(range(len(shape))), tuple(sizes))

    def _scale_at(self, at: tuple[Any, ...], grids: tuple[Array, Array]) -> str:
        of = self.fmt.scale if isinstance(self.fmt, BlockFormat) else None
        words = [repr(float(grid[at])) if of is None else hex_code(int(grid[at]), of) for grid in grids]
        return f"of block {tuple(map(int, at))}: {_pair(self.report.names, words)}"

    def _grids(self, tensor: Array, one: Array, other: Array) -> tuple[Array, Array]:
        """Return the scales of both in one shape; where several readings fit, those that agree."""
        names = self.report.names
        first, second = (
            self._readings(tensor, scales, name) for scales, name in zip((one, other), names, strict=True)
        )
        shapes = [next(iter(each.values())).shape for each in (first, second)]
        if shapes[0] != shapes[1]:
            raise ValueError(
                f"scales of {names[0]} have shape {shapes[0]} and those of {names[1]} {shapes[1]}: their "
                f"blocks differ, so values were not compared"
            )
        ways = [(a, b) for a in first for b in second]
        way = next((each for each in ways if (first[each[0]] == second[each[1]]).all()), ways[0])
        for name, words in zip(names, way, strict=True):
            if words:
                _note(self.report.read, f"scales of {name} {words}")
        one, other = first[way[0]], second[way[1]]
        if one.dtype != other.dtype:  # floats of two widths, or codes, are equal where their numbers are
            kind = np.result_type(one, other)
            one, other = one.astype(kind), other.astype(kind)
        return one, other

    def _readings(self, tensor: Array, scales: Array, name: str) -> dict[str, Array]:
        """Return scales in the shape of the blocks' grid, by each way to read them; the usual one first."""
        if not isinstance(self.fmt, BlockFormat):
            return {"": float_grid(scales, name, tensor.shape)}
        codes = unsigned(scales, self.fmt.scale, f"{name} gave scales")
        grid = grid_of(tensor.shape, axes_of(self.fmt, self.axis, tensor.ndim), self.fmt.sizes)
        found = {}
        if codes.shape == grid or (codes.ndim == 1 and codes.size == math.prod(grid)):
            found[""] = codes.reshape(grid)
        if codes.shape == grid[::-1]:
            found["are transposed"] = codes.T
        with contextlib.suppress(ValueError):
            found["lie in tiles of 128 rows and 4 columns"] = unswizzle(codes.reshape(-1), grid)
        if not found:
            raise ValueError(
                f"{name} gave scales of shape {codes.shape} for a tensor of shape {tensor.shape}, whose "
                f"blocks are {grid}; give one for each block, or tiles of 128 rows and 4 columns"
            )
        return found

    def _side(self, tensor: Array, made: _Made, scales: Array | None, how: Projection | None) -> Comparison:
        """Hold what a quantiser gave against the definition, under its own scale of the tensor."""
        if isinstance(self.fmt, BlockFormat):
            scale = None if made.tensor_scale is None else float(made.tensor_scale)
            options: dict[str, Any] = {"scales": scales, "axis": self.axis, "tensor_scale": scale}
        else:
            scale = float(scales.item()) if scales is not None and scales.size == 1 else None
            options = {"scale": scales if scale is None else scale, "projection": how}
        return compare(tensor, made.codes, self.fmt, limit=0, **options)


def _element(fmt: Format | BlockFormat) -> Format:
    return fmt.element if isinstance(fmt, BlockFormat) else fmt


def _pair(names: tuple[str, str], words: list[str]) -> str:
    return ", ".join(f"{name} {word}" for name, word in zip(names, words, strict=True))


def _bits(scales: Array) -> Array:
    """Return scales as integers, so that equal NaNs are equal, and zeros of two signs are not."""
    return np.ascontiguousarray(scales).view(f"u{scales.dtype.itemsize}")
