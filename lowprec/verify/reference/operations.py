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

from lowprec.arrays.checks import code_dtype, codes_operand
from lowprec.arrays.convert import cast, encode
from lowprec.arrays.operations import codes_of
from lowprec.kernels.engine import Backend
from lowprec.spec import catalog
from lowprec.spec.arith import OPERANDS
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Carrier, Format
from lowprec.spec.functions import FUNCTIONS
from lowprec.spec.projection import Projection
from lowprec.verify.codes.values import carrier_dtype, is_nan, words_of
from lowprec.verify.inputs import conversions
from lowprec.verify.inputs.borders import beside_borders
from lowprec.verify.inputs.operands import operands as operands_that_matter

__all__ = ["OPERATIONS", "Operation", "check_operands", "flags_of", "operand_format", "operand_names"]

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
        chosen = words_of(conversions.inputs(target, carrier_dtype(source)))
        if not isinstance(source, Carrier) or source.exponent_bits:
            # Negative numbers fall: a unit that keeps the operand before may be wrong in one order alone.
            chosen = np.concatenate([chosen[: chosen.size // 2], chosen[chosen.size // 2 :][::-1]])
        return [np.concatenate([chosen, words_of(conversions.sample(carrier_dtype(source), samples, seed))])]
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
        return np.asarray(encode(operands[0].view(carrier_dtype(source)), target, **more))
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


def _operands(name: str, formats: tuple[Format, ...], samples: int, seed: int) -> list[Array]:
    chosen = (choose(name, formats, samples, seed) for choose in (operands_that_matter, beside_borders))
    return [np.concatenate(columns).astype(columns[0].dtype) for columns in zip(*chosen, strict=True)]


def _operation(name: str, count: int) -> Operation:
    return Operation(
        name,
        count,
        functools.partial(_operands, name),
        functools.partial(_operate, name),
        functools.partial(_nan_results, name),
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


def operand_names(count: int) -> list[str]:
    """Return what the columns of operands are called.

    >>> operand_names(2)
    ['operand1', 'operand2']
    """
    return ["operand"] if count == 1 else [f"operand{number}" for number in range(1, count + 1)]
