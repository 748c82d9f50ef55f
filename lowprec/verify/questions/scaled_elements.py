"""Conversions of scaled values, as a question of comparison: divided by their scales, and rounded once."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.convert import encode
from lowprec.arrays.scaling import sizes_of
from lowprec.spec import catalog
from lowprec.spec.format import Format
from lowprec.spec.projection import Projection
from lowprec.verify.codes.values import as_doubles
from lowprec.verify.dumps.files import Dump
from lowprec.verify.questions import causes
from lowprec.verify.questions.elements import ElementQuestion
from lowprec.verify.questions.question import Budget, Change
from lowprec.verify.questions.scales import Spread, factor_between, scale_values, shown_factor, spread_places

__all__ = ["ScaledQuestion", "Scaling"]

Array = npt.NDArray[Any]
Operation = tuple[str, list[Array], tuple[Format, ...]]


class Scaling:
    """Scales of an operand of that shape."""

    def __init__(self, scale: Dump, axis: int | tuple[int, ...] | None, shape: tuple[int, ...]) -> None:
        if isinstance(axis, tuple):
            raise ValueError(f"axis={axis} of scale= must be one axis; for blocks give scales with all axes")
        self.given = scale_values(scale)
        self.spread = Spread("scale", *sizes_of("scale", self.given, shape, axis), shape)
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
        *,
        any_nan: bool = False,
        budget: Budget | None = None,
    ) -> None:
        source, target = formats
        self.given, self.count = scaling.given, scaling.given.size
        super().__init__(
            "divide",
            [values, scaling.spread],
            (source, scaling.format, target),
            projection,
            got,
            any_nan=any_nan,
            budget=budget,
        )

    def words(self) -> str:
        """Return what was asked, in words."""
        source, _, target = self.formats
        scales = (
            f"{self.count} scales" if self.count > 1 else f"the scale {float(self.given.reshape(-1)[0])!r}"
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

    def changes(self) -> Iterator[Change]:
        """Yield scales that were used otherwise, and what changes any conversion."""
        yield Change(
            "operation", _inverse, "the inverse of the scale: values times the scale, not divided by it"
        )
        yield Change("operation", _without, "the scale left out")
        yield Change(
            "operation", _reciprocal, "values times the reciprocal of the scale, rounded to binary32"
        )
        for mode, words in (("toward_positive", "up"), ("toward_zero", "down")):
            rounded = functools.partial(_power_of_two, mode=mode)
            yield Change("operation", rounded, f"the scale rounded {words} to a power of two")
        shape = self.operands[0].shape
        for axis in range(len(shape)) if self.given.ndim == 1 < self.given.size else ():
            try:
                other = Spread("scale", *sizes_of("scale", self.given, shape, axis), shape)
            except ValueError:
                continue
            along = functools.partial(_along, scale=other)
            yield Change("operation", along, f"scales along axis {axis}", 2)
        yield from self._factors()
        for change in super().changes():
            if not (change.field == "operand" and change.value is causes.swapped):
                yield change

    def _factors(self) -> Iterator[Change]:
        """Yield the constant by which all scales seem to be off."""
        places = spread_places(self.size)
        values, scales = self._at(places)
        numbers = as_doubles(values, self.formats[0]) / as_doubles(scales, self.formats[1])
        got = self.codes(self._got(self.received.take(places)))
        found = factor_between(numbers, got, self.target, self.projection.rounding)
        if found is not None:
            words = f"scales off by one factor: results are times {shown_factor(found)}"
            yield Change("operation", functools.partial(_off, factor=found), words, 2)


def _inverse(operands: list[Array], sources: tuple[Format, ...], places: Array) -> Operation:
    return "multiply", operands, sources


def _without(operands: list[Array], sources: tuple[Format, ...], places: Array) -> Operation:
    return "convert", operands[:1], sources[:1]


def _scaled(operands: list[Array], sources: tuple[Format, ...], name: str, by: Array) -> Operation:
    return name, [operands[0], by.astype(np.float64).view(np.uint64)], (sources[0], catalog.BINARY64)


def _reciprocal(operands: list[Array], sources: tuple[Format, ...], places: Array) -> Operation:
    with np.errstate(all="ignore"):
        by = (1 / as_doubles(operands[1], sources[1])).astype(np.float32)
    return _scaled(operands, sources, "multiply", by)


def _power_of_two(operands: list[Array], sources: tuple[Format, ...], places: Array, mode: str) -> Operation:
    scales = as_doubles(operands[1], sources[1])
    by = np.exp2(np.asarray(encode(scales, "e8m0fnu", rounding=mode)).astype(np.float64) - 127)
    return _scaled(operands, sources, "divide", by)


def _along(operands: list[Array], sources: tuple[Format, ...], places: Array, scale: Spread) -> Operation:
    return _scaled(operands, sources, "divide", scale.take(places))


def _off(operands: list[Array], sources: tuple[Format, ...], places: Array, factor: float) -> Operation:
    return _scaled(operands, sources, "divide", as_doubles(operands[1], sources[1]) / factor)
