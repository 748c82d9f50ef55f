"""The oracle as an engine: ``backend="oracle"`` of the verbs.

Programs as `lowprec.kernels.engine` describes them, which ask `lowprec.oracle` for one number after the
other. The engine is looked up by its name there, so that nothing below imports the oracle.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.random import random_bits
from lowprec.kernels import engine
from lowprec.kernels.dots import DotProgram
from lowprec.kernels.engine import DONE, REFUSED, BlockRefusal, Rows, Tensor
from lowprec.kernels.lower.block import tensor_scales
from lowprec.kernels.request import CONVERT, BlockDecoding, BlockEncoding, Dot, Elementwise, Request
from lowprec.oracle import block, convert
from lowprec.oracle.dot import dot
from lowprec.oracle.exact import Exact
from lowprec.spec.catalog import E8M0FNU
from lowprec.spec.format import Format
from lowprec.spec.functions import FUNCTIONS
from lowprec.spec.projection import Projection
from lowprec.verify.reference import oracle_arrays

__all__ = ["SERVES", "lower"]

Codes = npt.NDArray[Any]


#: For messages.
SERVES = "all but functions"


def lower(request: Request) -> Any:
    """Return the program of a request, or None for a function: of these it has no definition."""
    if isinstance(request, Elementwise) and request.operation in FUNCTIONS:
        return None
    kinds: dict[type[Request], Callable[[Any], Any]] = {
        Elementwise: _Elements,
        BlockEncoding: _BlockEncoder,
        BlockDecoding: _BlockDecoder,
        Dot: _Dots,
    }
    return kinds[type(request)](request)


def _words(random: Codes, size: int) -> list[int | None]:
    return [None] * size if not random.size else random.tolist()


class _Elements:
    """A conversion or an operation; see `engine.ElementwiseProgram`."""

    draws = in_place = widens = floats = False
    bound = None
    refuses = True

    def __init__(self, request: Elementwise) -> None:
        self._request = request
        self._onward = Projection(nan_payload=request.projection.nan_payload)

    def run(self, operands: list[Codes], out: Codes, flags: Codes, random: Codes, past: bool = False) -> int:
        """Write results and flags."""
        request, given = self._request, [np.broadcast_to(codes, out.shape) for codes in operands]
        target, rule = request.target, request.projection
        options: dict[str, Any] = {
            "random": random if random.size else None,
            "flags": flags if flags.size else None,
        }
        try:
            if request.operation == CONVERT:
                made = oracle_arrays.cast(given[0], request.sources[0], target, rule, **options)
            else:
                made = oracle_arrays.operate(
                    request.operation, given, request.sources, target, rule, **options
                )
        except ValueError:
            return REFUSED
        out[:] = (
            made
            if request.carrier is None
            else oracle_arrays.cast(made, target, request.carrier, self._onward)
        )
        return DONE


class _BlockEncoder:
    """Values in blocks."""

    partial = False

    def __init__(self, request: BlockEncoding) -> None:
        self._request, self._source, self._fmt = request, request.source, request.format

    def tensor_scale(self, codes: Codes, given: Fraction | None) -> tuple[Fraction, Fraction]:
        """Return the scale of a tensor with these values, or the one that is given, and its inverse."""
        if given is not None:
            made = block.TensorScale.given(given)
        else:
            made = block.tensor_scale(_exact(codes, self._source), self._fmt)
        return made.value, made.inverse

    def run(
        self, values: Codes, codes: Codes, scales: Codes, tensor: Tensor, random: Codes, scale_random: Codes
    ) -> BlockRefusal | None:
        """Write the codes and the scales of blocks that lie one after the other."""
        size, shared = values.size // scales.size, block.TensorScale(*tensor_scales(tensor.words))
        words, scale_words = _words(random, values.size), _words(scale_random, scales.size)
        for place in range(scales.size):
            part = slice(place * size, (place + 1) * size)
            given = values[part].tolist()
            small = [convert.is_subnormal(code, self._source) for code in given]
            exact = [convert.decode(code, self._source) for code in given]
            try:
                scale, made = block.encode(
                    exact, self._fmt, shared, random=words[part], scale_random=scale_words[place],
                    subnormal_operands=small, scale=int(scales[place]) if self._request.given else None,
                )  # fmt: skip
            except ValueError:  # the scalar engine says what has no code
                scalar = engine.lower(dataclasses.replace(self._request, backend="scalar"))
                refusal: BlockRefusal = scalar.run(values, codes, scales, tensor, random, scale_random)
                return refusal
            scales[place], codes[part] = scale, made
        return None


class _BlockDecoder:
    """The values of blocks."""

    partial = False

    def __init__(self, request: BlockDecoding) -> None:
        self._fmt, self._carrier = request.format, request.carrier

    def run(self, codes: Codes, scales: Codes, out: Codes, tensor: Tensor) -> None:
        """Write the values of blocks that lie one after the other."""
        rows, (whole, _) = codes.reshape(scales.size, -1).tolist(), tensor_scales(tensor.words)
        made = [
            convert.project(value, self._carrier)
            for scale, row in zip(scales.tolist(), rows, strict=True)
            for value in block.decode(scale, row, self._fmt, whole)
        ]
        out[:] = np.array(made, np.uint64)


class _Dots(DotProgram):
    """Dot products of rows."""

    def __init__(self, request: Dot) -> None:
        self._request = request

    def part(
        self, x: Rows, y: Rows, addends: Codes, out: Codes, key: int, first: int, paired: bool
    ) -> None:  # fmt: skip
        """Write the codes of all dot products, or of each row of x and its own of y."""
        request, drawn = self._request, self._request.accumulation.rounds_randomly
        left, right = (
            [(_exact(codes, fmt), _scales(rows, i)) for i, codes in enumerate(rows.codes)]
            for rows, fmt in ((x, request.x), (y, request.y))
        )
        for i in range(out.shape[0]):
            for column in range(out.shape[1]):
                j, place = i if paired else column, first + i * out.shape[1] + column
                (xs, x_scales), (ys, y_scales) = left[i], right[j]
                addend = convert.decode(int(addends[i, column]), request.addend) if addends.size else None
                out[i, column] = dot(
                    xs, ys, request.accumulation, addend,
                    scales=(x_scales, y_scales, request.block) if request.block else None,
                    tensor=request.tensor, random=self._drawn(key, place) if drawn else None,
                )  # fmt: skip

    def _drawn(self, key: int, place: int) -> Callable[[int, int], int]:
        """Return the function that gives the random integers of an output's roundings by step."""

        def of_step(step: int, bits: int) -> int:
            word = random_bits((1,), key, bits, origin=(place,), within=(place + 1,), stream=2 + step)
            return int(word[0])

        return of_step


def _exact(codes: Codes, fmt: Format) -> list[Exact]:
    return [convert.decode(code, fmt) for code in codes.reshape(-1).tolist()]


def _scales(rows: Rows, i: int) -> list[Exact]:
    return [] if rows.scales is None else _exact(rows.scales[i], rows.scale_fmt or E8M0FNU)
