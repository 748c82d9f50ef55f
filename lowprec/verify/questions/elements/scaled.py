"""Scaled values, element by element, as a question of comparison."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from lowprec.arrays.blocks.scaling import sizes_of
from lowprec.arrays.convert import encode, quantize
from lowprec.spec import catalog
from lowprec.spec.format import Format
from lowprec.spec.projection import Projection
from lowprec.verify.codes.values import as_doubles
from lowprec.verify.dumps.files import Dump
from lowprec.verify.questions import causes
from lowprec.verify.questions.elements.elements import ElementQuestion
from lowprec.verify.questions.question import Array, Change
from lowprec.verify.questions.scales import (
    SIZES,
    Spread,
    factor_between,
    scale_values,
    shown_factor,
    spread_places,
)

__all__ = ["ScaledQuestion", "Scaling"]

OnCodes = tuple[str, list[Array], tuple[Format, ...]]


class Scaling:
    """Scales of an operand of that shape; `block` as of `arrays.scaling.sizes_of`."""

    def __init__(
        self, scale: Dump, axis: int | tuple[int, ...] | None, shape: tuple[int, ...], block: int = 0
    ) -> None:
        if isinstance(axis, tuple):
            raise ValueError(f"axis={axis} of scale= must be one axis; for blocks give scales with all axes")
        self.given = scale_values(scale)
        spread, sizes = sizes_of("scale", self.given, shape, axis, block)
        counted = [size for size, count in zip(sizes, spread.shape, strict=True) if count > 1]
        if block and block not in counted:
            raise ValueError(
                f"block={block}, and scale of shape {self.given.shape} has as many numbers along no axis of "
                f"{shape}; give one scale for each block, or leave block out"
            )
        self.spread, self.sizes = Spread("scale", spread, sizes, shape), list(sizes)
        found = catalog.carrier(self.given.dtype)
        assert found is not None, "scales are float32 or float64"
        self.format: Format = found


class ScaledQuestion(ElementQuestion):
    """Values divided by scales, as codes or values of a format."""

    def __init__(
        self,
        values: Dump,
        scaling: Scaling,
        formats: tuple[Format, Format],
        projection: Projection,
        got: Dump,
        **options: Any,
    ) -> None:
        self.given, self.count, self.sizes = scaling.given, scaling.given.size, scaling.sizes
        both, operands = (formats[0], scaling.format, formats[1]), [values, scaling.spread]
        super().__init__("divide", operands, both, projection, got, **options)

    def words(self) -> str:
        """Return what was asked, in words."""
        source, _, target = self.formats
        scales = (
            f"the scale {float(self.given.reshape(-1)[0])!r}" if self.count == 1 else f"{self.count} scales"
        )
        return f"{source.name} divided by {scales}, to {target.name}, {self.projection}"

    def facts(self) -> dict[str, Any]:
        """Return what was asked, as data."""
        source, _, target = self.formats
        return super().facts() | {
            "operation": "convert",
            "formats": [source.name, target.name],
            "scales": self.count,
        }

    def asked(self) -> dict[str, Any]:
        """Return what a baseline must have been asked, with how many elements share a scale."""
        return {**super().asked(), "sizes": self.sizes}

    def changes(self) -> Iterator[Change]:
        """Yield scales that were used otherwise, and what changes any conversion."""
        inverse = "the inverse of the scale: values times the scale, not divided by it"
        yield Change("operation", lambda operands, sources, _: ("multiply", operands, sources), inverse)
        without = "the scale left out"
        yield Change(
            "operation", lambda operands, sources, _: ("convert", operands[:1], sources[:1]), without
        )
        reciprocal = _scaled("multiply", lambda scales, _: (1 / scales).astype(np.float32))
        yield Change("operation", reciprocal, "values times the reciprocal of the scale, rounded to binary32")
        for mode, words in (("toward_positive", "up"), ("toward_zero", "down")):
            rounded = functools.partial(_power_of_two, mode=mode)
            yield Change(
                "operation", _scaled("divide", rounded), f"the scale rounded {words} to a power of two"
            )
        for name in ("bfloat16", "binary16"):
            narrow = functools.partial(_rounded_to, fmt=name)
            yield Change("operation", _scaled("divide", narrow), f"the scale rounded to {name}")
        shape = self.operands[0].shape
        for axis in range(len(shape)) if self.given.ndim == 1 < self.given.size else ():
            try:
                other = Spread("scale", *sizes_of("scale", self.given, shape, axis), shape)
            except ValueError:
                continue
            along = functools.partial(_along, scale=other)
            yield Change("operation", _scaled("divide", along), f"scales along axis {axis}", 2)
        for block in SIZES if self.given.ndim > 1 else ():
            spread, sizes = sizes_of("scale", self.given, shape, None, block)
            if list(sizes) != self.sizes:
                along = functools.partial(_along, scale=Spread("scale", spread, sizes, shape))
                yield Change("operation", _scaled("divide", along), f"scales of blocks of {block}", 2)
        yield from self._factors()
        for change in super().changes():
            if not (change.field == "operand" and change.value is causes.swapped):
                yield change

    def _factors(self) -> Iterator[Change]:
        """Yield the constant by which all scales seem to be off."""
        places = spread_places(self.size)
        values, scales = self._at(places)
        with np.errstate(all="ignore"):
            numbers = as_doubles(values, self.formats[0]) / as_doubles(scales, self.formats[1])
        got = self.codes(self._got(self.received.take(places)))
        found = factor_between(numbers, got, self.target, self.projection.rounding)
        if found is not None:
            words = f"scales off by one factor: results are times {shown_factor(found)}"
            yield Change("operation", _scaled("divide", lambda scales, _: scales / found), words, 2)


def _scaled(operation: str, change: Callable[[Array, Array], Array]) -> Callable[..., OnCodes]:
    """Return an operation on the first operand, and on the scales of some places, changed, in float64."""

    def changed(operands: list[Array], sources: tuple[Format, ...], places: Array) -> OnCodes:
        with np.errstate(all="ignore"):
            by = change(as_doubles(operands[1], sources[1]), places).astype(np.float64)
        return operation, [operands[0], by.view(np.uint64)], (sources[0], catalog.BINARY64)

    return changed


def _power_of_two(scales: Array, places: Array, mode: str) -> Array:
    return np.exp2(np.asarray(encode(scales, "e8m0fnu", rounding=mode)).astype(np.float64) - 127)


def _rounded_to(scales: Array, places: Array, fmt: str) -> Array:
    return np.asarray(quantize(scales, fmt))


def _along(scales: Array, places: Array, scale: Spread) -> Array:
    return scale.take(places)
