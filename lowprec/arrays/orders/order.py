"""Classes of codes, neighbours of values and gaps between them: what integers alone decide.

Floor 3.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays import calls
from lowprec.arrays.checks import (
    FLOATS,
    Array,
    Operand,
    broadcast_shape,
    code_dtype,
    float_dtype,
    narrowed,
    refuse_codes,
    values_depend,
    values_operand,
)
from lowprec.arrays.convert import quantize
from lowprec.arrays.kinds import keeps_kind
from lowprec.arrays.orders import codebook_order
from lowprec.arrays.orders.order_parts import codes_in, run_in_parts
from lowprec.arrays.result_signatures import NextAfter, Ulp
from lowprec.arrays.signatures import Classify, Returns
from lowprec.arrays.traverse import bits_of
from lowprec.kernels import engine
from lowprec.kernels.modes import usual_arithmetic
from lowprec.kernels.request import CONVERT, Elementwise
from lowprec.kernels.vector import order as kernels
from lowprec.spec import catalog
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format, Sign
from lowprec.spec.projection import DEFAULT, Projection

__all__ = [
    "classify",
    "nextafter",
    "ulp",
]

Like = Format | str | npt.DTypeLike


@Returns[Classify]()
@keeps_kind(1, elementwise=True)
def classify(codes: npt.ArrayLike, fmt: Like) -> Any:
    """Return the class of each code, one of `lowprec.Class`.

    >>> classify([0x00, 0x01, 0x80, 0xFE, 0x7F], "e4m3fn")
    array([4, 5, 3, 1, 9], dtype=uint8)

    Parameters
    ----------
    codes : array_like of integer, shape (...)
        As for `decode`.
    fmt : Format, str or dtype

    Returns
    -------
    classes : array of uint8, shape (...)
        0 to 9, in the order of RISC-V's fclass.

    Source
    ------
    [IEEE754] 5.7.2.
    """
    known = catalog.format(fmt)
    if isinstance(known, Codebook):
        return codebook_order.classes_of(known)[codes_in(codes, known)]

    def part(part: Array, out: Array, _: Array) -> None:
        kernels.classified(part, out, known)

    return run_in_parts(part, [codes_in(codes, known)], np.uint8)


# -- neighbours ----------------------------------------------------------------------------------------


@Returns[NextAfter]()
@keeps_kind(2, elementwise=True)
def nextafter(x: npt.ArrayLike, y: npt.ArrayLike, fmt: Like) -> Any:
    """Return the value of a format next to x in the direction of y.

    For a number between two values it is the one on that side; for y itself, what y is rounded to. Beyond the
    extreme value lies infinity, or nothing: then it is the extreme value. Zero has the sign of x.

    >>> nextafter([1.0, 448.0, 0.0], [2.0, 1000.0, -1.0], "e4m3fn")
    array([ 1.125000e+00,  4.480000e+02, -1.953125e-03], dtype=float32)

    Parameters
    ----------
    x, y : array_like of float or integer, shapes that broadcast to (...)
        Integers of at most 53 bits.
    fmt : Format, str or dtype

    Returns
    -------
    values : array of float, shape (...)
        As from `decode`. NaN where x or y is NaN.

    Raises
    ------
    ValueError
        An integer that float64 does not hold.

    Source
    ------
    [IEEE754] 5.3.1, nextUp and nextDown.
    """
    known = catalog.format(fmt)
    if isinstance(known, Codebook):
        return _of_codebook(known, x, y)
    (given, carrier), (kind, operands, readers) = float_dtype(known), _numbers(known, x, y)
    numbers = catalog.BINARY32 if kind.itemsize == 4 else catalog.BINARY64
    read_start, read_toward = readers
    held = operands[0].fmt == known != numbers  # then they are their own nearest codes
    move, places = kernels.neighbours(kind.itemsize), kernels.order_of(known)
    others = places, *_extremes(known), known.has_negative_zero, known.subnormals
    to_nearest = _converter(numbers, known, _nearest(known))
    read, write = _reader(known, numbers), _reader(known, carrier)

    def part(codes: Array, toward: Array, out: Array, _: Array) -> None:
        start, toward = read_start(codes), read_toward(toward)
        first, second, made = start.view(kind), toward.view(kind), out.view(given)
        near = codes if held else to_nearest(start)
        moved = np.empty_like(near)
        move(start, toward, start if held else read(near), near, moved, *others)
        made[...] = write(moved).view(given)
        nan = np.isnan(first) | np.isnan(second)
        if nan.any():
            made[nan] = np.nan

    codes = [each.codes for each in operands]
    broadcast_shape("nextafter", *codes)
    return run_in_parts(part, codes, given)


@usual_arithmetic()
def _of_codebook(fmt: Codebook, *values: npt.ArrayLike) -> Any:
    """`nextafter` of two arrays, or `ulp` of one."""
    kind, operands, readers = _numbers(fmt, *values)
    numbers = [
        read(each.codes.astype(each.codes.dtype.newbyteorder("=")).reshape(-1))
        .view(kind)
        .reshape(each.codes.shape)
        .astype(np.float64)
        for each, read in zip(operands, readers, strict=True)
    ]
    given = float_dtype(fmt)[0]
    if len(numbers) == 1:
        gaps = codebook_order.gaps(numbers[0], fmt).astype(given)
        return gaps if gaps.shape else gaps[()]
    shape = broadcast_shape("nextafter", *numbers)
    x, y = (np.broadcast_to(each, shape) for each in numbers)
    moved = codebook_order.next_values(x, y, fmt)
    same = x == y
    if np.any(same):
        nearest = quantize(y, fmt, projection=_nearest(fmt))
        moved = np.where(same, nearest, moved)
    return moved.astype(given) if moved.shape else moved.astype(given)[()]


@functools.lru_cache(maxsize=64)
def _nearest(fmt: Format) -> Projection:
    """Return the projection to the nearest value; past the extreme one to infinity if the format has one."""
    if fmt.infinity and fmt.sign is Sign.MAGNITUDE and fmt.subnormals and fmt.has_nan:
        return DEFAULT
    return Projection(
        saturation="none" if fmt.infinity else "finite",
        negative="zero", zero="smallest", nan="max",
    )  # fmt: skip


def _extremes(fmt: Format) -> tuple[int, int]:
    """Return the places of the most negative and of the largest value."""
    last = fmt.max_magnitude + fmt.infinity
    if fmt.sign is Sign.UNSIGNED:
        return 0, last
    return -last - (fmt.sign is Sign.TWOS_COMPLEMENT or not fmt.subnormals), last


@Returns[Ulp]()
@keeps_kind(1, elementwise=True)
def ulp(x: npt.ArrayLike, fmt: Like) -> Any:
    """Return the gap between values of a format at x: from the magnitude at or below it to the next.

    Below the smallest value it is the gap above that, past the largest the one above the largest.

    >>> ulp([0.0, 1.0, 1.9, 448.0], "e4m3fn")
    array([1.953125e-03, 1.250000e-01, 1.250000e-01, 3.200000e+01],
          dtype=float32)

    Parameters
    ----------
    x : array_like of float or integer, shape (...)
        As for `nextafter`.
    fmt : Format, str or dtype

    Returns
    -------
    gaps : array of float, shape (...)
        float32 where the format's own values are, to which gaps of codebooks are rounded, else float64. NaN
        of infinities and NaN.
    """
    known = catalog.format(fmt)
    if isinstance(known, Codebook):
        return _of_codebook(known, x)
    given, carrier = float_dtype(known)
    kind, operands, (read,) = _numbers(known, x)
    single = kind.itemsize == 4
    write = kernels.gaps(kind.itemsize)
    lowest, highest, trailing = known.emin, known.emax, known.trailing_bits
    if not known.exponent_bits:
        lowest = highest = known.scaled(1)[1]
        trailing = 0

    def part(numbers: Array, out: Array, _: Array) -> None:
        write(read(numbers), out, lowest, highest, trailing, lowest < (-126 if single else -1022))

    made = np.asarray(run_in_parts(part, [each.codes for each in operands], kind))
    if kind == given:
        return made if made.shape else made[()]
    return calls.convert(Operand(bits_of(made), catalog.BINARY64, made, True), carrier, DEFAULT, given)


def _numbers(
    fmt: Format, *values: npt.ArrayLike
) -> tuple[np.dtype[Any], list[Operand], list[Callable[[Array], Array]]]:
    """Return the type that values are compared in, the values, and what reads their codes as such numbers.

    That is float32 if it holds the values and the format, else float64, which must hold them.
    """
    operands = [values_operand(each) for each in values]
    for name, operand in zip("xy", operands, strict=False):
        refuse_codes(name, operand.array, fmt, "nextafter" if len(values) > 1 else "ulp")
    operands = [narrowed(each, True) if values_depend(each) else each for each in operands]
    if any(each.array.dtype.kind in "iu" and each.array.dtype.itemsize > 4 for each in operands):
        raise ValueError(
            "integers of more than 53 bits are not compared with values: float64 does not hold them"
        )
    single = all(catalog.BINARY32.contains(each) for each in (fmt, *(operand.fmt for operand in operands)))
    kind, carrier = FLOATS[2] if single else FLOATS[3]
    return kind, operands, [_reader(each.fmt, carrier) for each in operands]


def _reader(fmt: Format, carrier: Format) -> Callable[[Array], Array]:
    """Return what reads codes as binary32 or binary64 numbers, by their bits."""
    if fmt == carrier:
        return np.asarray
    return _converter(fmt, carrier, DEFAULT)


def _converter(fmt: Format, target: Format, rule: Projection) -> Callable[[Array], Array]:
    """Return what converts codes, none of which the rule refuses."""
    program, kind = engine.lower(Elementwise(CONVERT, (fmt,), target, rule)), code_dtype(target)
    nothing, no_random = np.empty(0, np.uint8), np.empty(0, np.uint32)

    def converted(codes: Array) -> Array:
        words = np.empty(codes.size, kind)
        program.run([codes], words, nothing, no_random)
        return words

    return converted
