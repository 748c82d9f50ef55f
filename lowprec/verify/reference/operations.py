"""The operations that implementations are asked for: conversions, arithmetic and functions on codes.

Each says which operands matter, what the results are, and which of them are NaN.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.checks import UNSIGNED, code_dtype, codes_operand, dtype, values_operand
from lowprec.arrays.convert import cast, decode, encode
from lowprec.arrays.operations import codes_of
from lowprec.kernels.engine import Backend
from lowprec.spec import catalog
from lowprec.spec.arith import OPERANDS
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Carrier, Format, Sign
from lowprec.spec.functions import FUNCTIONS
from lowprec.spec.projection import Projection
from lowprec.verify.codes import codebooks
from lowprec.verify.inputs import conversions
from lowprec.verify.inputs.operands import operands as operands_that_matter

__all__ = ["OPERATIONS", "Operation", "as_doubles", "carried", "carrier_of", "check_operands", "distances"]
__all__ += ["doubles", "flags_of", "is_nan", "is_values", "on_grid", "operand_format", "operand_names"]
__all__ += ["own_dtype"]

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Operation:
    """An operation of a program under test: `operands` codes in, one code out.

    `compute` takes operands, formats and a projection; `flags` to fill, and `random` integers, if requested.
    """

    name: str
    operands: int
    choose: Callable[[tuple[Format, ...], int, int], list[Array]]
    compute: Callable[..., Array]
    gives_nan: Callable[[list[Array], tuple[Format, ...], Projection], Array]


def operand_format(name: str) -> Format:
    """Return a format or carrier by name: operands may be binary64 or 64-bit integers, results may not."""
    return catalog.carrier(name) or catalog.format(name)


def _choose(formats: tuple[Format, ...], samples: int, seed: int) -> list[Array]:
    source, target = formats
    if source.width <= 16:
        return [np.arange(1 << source.width, dtype=code_dtype(source))]
    if isinstance(source, Carrier) or source == catalog.BINARY32:
        chosen = _codes(conversions.inputs(target, _dtype(source)))
        return [np.concatenate([chosen, _codes(conversions.sample(_dtype(source), samples, seed))])]
    # Any other wide format: the codes on either side of what matters in float64, and its own borders.
    points = conversions.inputs(target, "float64")
    points = points[~np.isnan(points)]
    sides = [encode(points, source, rounding=mode) for mode in ("toward_zero", "away_from_zero")]
    borders = conversions.magnitudes(source).astype(code_dtype(source))
    random = np.random.default_rng(seed).integers(0, 1 << source.width, samples, dtype=code_dtype(source))
    signed = borders | borders.dtype.type(source.sign_code)
    return [np.concatenate([np.unique(np.concatenate([*sides, borders, signed])), random])]


def _convert(
    operands: list[Array],
    formats: tuple[Format, ...],
    projection: Projection,
    flags: Array | None = None,
    random: Array | None = None,
) -> Array:
    source, target = formats
    more: Any = {"projection": projection, "flags": flags, "random": random, "backend": _engine(operands)}
    if isinstance(source, Carrier):
        return np.asarray(encode(operands[0].view(_dtype(source)), target, **more))
    return np.asarray(cast(operands[0], source, target, **more))


def flags_of(
    operation: str, operands: list[Array], formats: tuple[Format, ...], projection: Projection
) -> npt.NDArray[np.uint8]:
    """Return the exception flags of conversions or operations on codes.

    >>> found = flags_of("divide", [np.uint8([0x38]), np.uint8([0])], (catalog.E5M2,) * 3, Projection())
    >>> found.tolist()
    [8]
    """
    flags = np.zeros(operands[0].shape, np.uint8)
    OPERATIONS[operation].compute(operands, formats, projection, flags)
    return flags


#: Operands up to which the scalar engine answers. It has one kernel for all rules, of which checks ask many:
#: the kernels that vectors have for each take longer to compile than all its answers.
_FEW = 1 << 18


def _engine(operands: list[Array]) -> Backend | None:
    return "scalar" if operands[0].size <= _FEW else None


def _nan_operands(operands: list[Array], formats: tuple[Format, ...], projection: Projection) -> Array:
    return is_nan(operands[0], formats[0])


def _operate(
    name: str,
    operands: list[Array],
    formats: tuple[Format, ...],
    projection: Projection,
    flags: Array | None = None,
    random: Array | None = None,
) -> Array:
    *sources, target = formats
    given = [codes_operand(codes, source) for codes, source in zip(operands, sources, strict=True)]
    more: Any = {"flags": flags, "random": random, "backend": _engine(operands)}
    return np.asarray(codes_of(name, given, target, projection, code_dtype(target), **more))


def _nan_results(
    name: str, operands: list[Array], formats: tuple[Format, ...], projection: Projection
) -> Array:
    """Return which results are NaN before the last rounding: binary32 has NaN and gives it only there."""
    widest = Projection(subnormals=projection.subnormals, via=projection.via)
    codes = _operate(name, operands, (*formats[:-1], catalog.BINARY32), widest)
    return is_nan(codes, catalog.BINARY32)


def _operation(name: str, count: int) -> Operation:
    choose = functools.partial(operands_that_matter, name)
    return Operation(
        name, count, choose, functools.partial(_operate, name), functools.partial(_nan_results, name)
    )


#: What there are vectors of, by name.
OPERATIONS = {
    "convert": Operation("convert", 1, _choose, _convert, _nan_operands),
    **{name: _operation(name, count) for name, count in OPERANDS.items()},
    **{name: _operation(name, rule.operands) for name, rule in FUNCTIONS.items()},
}


def check_operands(operation: str, formats: tuple[Format, ...]) -> None:
    """Refuse operands that an operation does not take: `scaleb` has an integer as its second.

    >>> from lowprec.spec.catalog import BINARY16, INT8
    >>> check_operands("scaleb", (BINARY16, INT8, BINARY16))
    """
    if operation == "scaleb" and not _is_integer(formats[1]):
        raise ValueError(
            f"scaleb takes an integer as its second operand, the power of two, not {formats[1].name!r}; "
            f"use a format such as 'int8' or 'int32'"
        )


def _is_integer(fmt: Format) -> bool:
    return not (isinstance(fmt, Codebook) or fmt.exponent_bits or fmt.scaled(0)[1])


def is_nan(codes: Array, fmt: Format) -> Array:
    """Return which codes of a format are NaNs."""
    if isinstance(fmt, Codebook):
        return np.isnan(codebooks.values(fmt))[codes]
    wide = codes.astype(np.uint64)
    magnitude = wide & np.uint64(~fmt.sign_code & (1 << fmt.width) - 1)
    above = np.uint64(min(fmt.max_magnitude + fmt.infinity, (1 << 64) - 1))
    nan = (magnitude > above) & (fmt.nans > 0)
    return np.asarray(nan if fmt.negative_zero else nan | (wide == np.uint64(fmt.sign_code)))


def operand_names(count: int) -> list[str]:
    """Return what the columns of operands are called.

    >>> operand_names(2)
    ['operand1', 'operand2']
    """
    return ["operand"] if count == 1 else [f"operand{number}" for number in range(1, count + 1)]


def _dtype(fmt: Format) -> np.dtype[Any]:
    """Return the NumPy type of a source wider than 16 bits."""
    names = {"binary32": "float32", "binary64": "float64"}
    return np.dtype(names.get(fmt.name, fmt.name))


def _codes(values: Array) -> Array:
    return values.view(f"u{values.dtype.itemsize}")


def own_dtype(fmt: Format) -> np.dtype[Any] | None:
    """Return the type of NumPy or ml_dtypes for a format, or None."""
    try:
        return dtype(fmt)
    except ValueError:
        return None


def is_values(kind: np.dtype[Any], target: Format) -> bool:
    """Return whether results of a type are values, not codes: floats, but for the format's own type."""
    return kind.kind not in "iub" and kind != own_dtype(target)


def as_doubles(codes: Array, fmt: Format) -> npt.NDArray[np.float64]:
    """Return the values of codes; of integers of 64 bits the nearest float64."""
    if isinstance(fmt, Carrier):
        return np.asarray(codes.view(_dtype(fmt)).astype(np.float64))
    return np.asarray(decode(codes, fmt, dtype=np.float64))


def doubles(values: Array) -> npt.NDArray[np.float64]:
    """Return values as float64, read by their codes: a cast by NumPy warns of signaling NaNs."""
    given = values_operand(values)
    return as_doubles(given.codes.astype(code_dtype(given.fmt)), given.fmt)  # of this machine's byte order


def carrier_of(kind: np.dtype[Any]) -> Format:
    """Return the format of a type of numbers."""
    found = catalog.carrier(kind)
    assert found is not None
    return found


def carried(codes: Array, fmt: Format, kind: np.dtype[Any]) -> Array:
    """Return the bit patterns of values of a type that codes stand for."""
    return np.asarray(decode(codes, fmt, dtype=kind)).view(UNSIGNED[kind.itemsize])


def on_grid(patterns: Array, kind: np.dtype[Any], target: Format) -> Array:
    """Return codes of values that a format has, -1 for others."""
    source = carrier_of(kind)
    rule = Projection(nan="max" if target.nan_code is None else "error")
    codes = np.asarray(encode(patterns.view(kind), target, projection=rule))
    nan = is_nan(patterns, source)
    same = np.where(nan, target.nan_code is not None, carried(codes, target, kind) == patterns)
    return np.where(same, codes.astype(np.int64), -1)


def distances(got: Array, want: Array, fmt: Format) -> Array:
    """Return by how many codes, in the order of values, results exceed the right ones; both zeros are one.

    >>> from lowprec.spec.catalog import E4M3FN
    >>> distances(np.array([0x39, 0x80, 0xB8]), np.array([0x38, 0x00, 0x38]), E4M3FN)
    array([   1,    0, -112])
    """
    return _place(got, fmt) - _place(want, fmt)


def _place(codes: Array, fmt: Format) -> Array:
    wide = codes.astype(np.int64)
    if isinstance(fmt, Codebook):
        return codebooks.ranks(fmt)[wide]
    negative = (wide & fmt.sign_code) != 0
    if fmt.sign is Sign.TWOS_COMPLEMENT:
        return np.where(negative, wide - (1 << fmt.width), wide)
    return np.where(negative, -(wide & ~fmt.sign_code), wide)
