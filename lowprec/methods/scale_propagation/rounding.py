"""The data of a result: the exact result over its scale, rounded once by the library.

Operands of the library's operations are values over a scale. Where scales are powers of two these are
exact, so that the only rounding is that to the format of the result.

Floor 4.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from lowprec.arrays import arith
from lowprec.arrays.axes import broadcast_shapes
from lowprec.arrays.checks import Array, as_array, float_dtype, values_type
from lowprec.arrays.convert import quantize
from lowprec.arrays.dots.dot import matmul
from lowprec.methods.scale_propagation.config import current
from lowprec.spec import catalog
from lowprec.spec.accumulation import Accumulation
from lowprec.spec.format import Format

#: Formats that results of operands of unlike formats may have, narrowest first.
_WIDER = (catalog.BINARY16, catalog.BFLOAT16, catalog.BINARY32)

_SINGLE = catalog.BINARY32

#: Scales, and what rules make of them, that are kept of each kind: a network has a few hundred.
SCALES = 4096


# -- data -------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=256)
def carrier(fmt: Format) -> np.dtype[Any]:
    """Return the type that data of a format come in."""
    if fmt == catalog.BINARY16:
        return np.dtype(np.float16)
    return np.dtype(ml_dtypes.bfloat16) if fmt == catalog.BFLOAT16 else float_dtype(fmt)[0]


def project(values: npt.ArrayLike, fmt: Format, **options: Any) -> Array:
    """Round values once to a format, as `config` or the options say."""
    array = as_array(values)
    made: Array = np.empty(array.shape, carrier(fmt))
    quantize(array, fmt, out=made, **(options or _options()))
    return made


def in_type(values: Array, asked: object) -> Array:
    """Round values once to a type that values are given in."""
    _, fmt = values_type(asked)
    return values.astype(np.float64) if fmt == catalog.BINARY64 else project(values, fmt)


def operate(operation: str, *operands: npt.ArrayLike, fmt: Format) -> Array:
    """Apply an operation of the library, rounded once."""
    made = getattr(arith, operation)(*operands, fmt, dtype=carrier(fmt), **_options())
    return np.asarray(made)


def quotient(values: Array, divisor: float, fmt: Format) -> Array:
    """Divide values of 24 bits by a number, rounded once."""
    if math.frexp(divisor)[0] != 0.5:
        return operate("divide", values, divisor, fmt=fmt)
    with np.errstate(over="ignore", invalid="ignore"):
        return project(values.astype(np.float64) / divisor, fmt)


def product(x: Array, y: Array, how: Accumulation) -> Array:
    """Multiply matrices; random roundings take the generator of `config`.

    Where each row of x has a NaN, as in a run that has diverged, all results are that of the first row and
    column, NaN: kernels are slower for NaNs than for numbers.
    """
    rng = current().rng if how.rounds_randomly else None
    if min(x.ndim, y.ndim) > 1 and min(x.size, y.size) and x.shape[-1] == y.shape[-2] and _diverged(x):
        shape = (*broadcast_shapes(x.shape[:-2], y.shape[:-2]), x.shape[-2], y.shape[-1])
        row, column = x.reshape(-1, x.shape[-1])[:1], y[(0,) * (y.ndim - 2)][:, :1]
        return np.full(shape, np.asarray(matmul(row, column, how, rng=rng)))
    return np.asarray(matmul(x, y, how, rng=rng))


def _diverged(x: Array) -> bool:
    """Return whether each row has a NaN."""
    return bool(np.isnan(x[(0,) * (x.ndim - 1)]).any() and np.isnan(x).any(axis=-1).all())


def total(data: Array, axes: tuple[int, ...], how: Accumulation) -> Array:
    """Sum along axes, as an accumulation sums products with 1."""
    kept = [axis for axis in range(data.ndim) if axis not in axes]
    shape = [data.shape[axis] for axis in kept]
    rows = data.transpose([*kept, *axes]).reshape(
        math.prod(shape), -1 if data.size else math.prod(data.shape[axis] for axis in axes)
    )
    return product(rows, np.ones((rows.shape[1], 1), carrier(_SINGLE)), how).reshape(shape)


def _options() -> dict[str, Any]:
    """Return the keywords of the library's verbs."""
    how = current()
    return {"projection": how.projection, "rng": how.rng if how.projection.rounding.bits else None}


# -- scales -----------------------------------------------------------------------------------------


def ratio(x: float, y: float) -> float:
    """Return x / y: exact for powers of two, else rounded to 24 bits, so that 24 bits times it are exact.

    0 where y is 0.
    """
    if y == 0:
        return 0.0
    (x_fraction, x_exponent), (y_fraction, y_exponent) = math.frexp(x), math.frexp(y)
    fraction = 1.0 if x_fraction == y_fraction else _quotient(x_fraction, y_fraction)
    return math.ldexp(fraction, max(-1000, min(1000, x_exponent - y_exponent)))


@functools.lru_cache(maxsize=SCALES)
def _quotient(x: float, y: float) -> float:
    return float(arith.divide(x, y, _SINGLE))


def fitting(scale: float, fmt: Format) -> Any:
    """Round a scale to its format, between the format's smallest and largest powers of two.

    0, infinity and NaN stay. As a scalar of the type that the format's values come in.
    """
    if scale == 0 or not math.isfinite(scale):
        return carrier(fmt).type(scale)
    return _fitting(float(scale), fmt)


@functools.lru_cache(maxsize=SCALES)
def _fitting(scale: float, fmt: Format) -> Any:
    near = quantize(np.float64(min(scale, 2.0**fmt.emax)), fmt)
    return carrier(fmt).type(near if near else fmt.min_subnormal or fmt.min_normal)


def promoted(*formats: Format) -> Format:
    """Return a format that contains all the others: one of them, else one of 16 bits or binary32.

    >>> promoted(catalog.E4M3FN, catalog.E5M2).name, promoted(catalog.BINARY16, catalog.BFLOAT16).name
    ('binary16', 'binary32')
    """
    for candidate in (*formats, *_WIDER):
        if all(candidate.contains(fmt) for fmt in formats):
            return candidate
    names = " and ".join(repr(fmt.name) for fmt in formats)
    raise ValueError(
        f"no format up to 'binary32' has all values of {names}; convert one first, with x.astype(...)"
    )
