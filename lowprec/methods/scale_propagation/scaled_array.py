"""ScaledArray: data in a format, times one scale; what NumPy functions do with it is in `rules`.

Floor 4.

Notation, beside the paper:

    data     X_d, values of a format; an array of float32, or of float16 or bfloat16 where that is the format
    scale    X_s, one number, a power of two as far as the rules choose it
    value    data * scale, the number meant; float64 holds it exactly where the scale is a power of two
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.mixins import NDArrayOperatorsMixin

from lowprec.arrays.checks import Array, as_array, values_operand
from lowprec.arrays.convert import encode
from lowprec.methods.scale_propagation import rounding
from lowprec.methods.scale_propagation.checks import (
    check_zero,
    checked_data,
    checked_scale,
    finite_scale,
    format_of,
    number,
)
from lowprec.methods.scale_propagation.config import current
from lowprec.methods.scale_propagation.pow2 import pow2_round
from lowprec.methods.scale_propagation.registry import answer
from lowprec.spec import catalog
from lowprec.spec.format import Format
from lowprec.spec.projection import Projection

Like = Format | str | npt.DTypeLike


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class ScaledArray(NDArrayOperatorsMixin):
    """An array of numbers, each of them data times a scale that all of them share.

    NumPy functions and operators take it as they take arrays. What scale a result has is fixed by a rule
    for each function, from the scales and shapes of the operands alone; what data it has follows: the exact
    result over the scale, rounded once to the format.

    >>> x = ScaledArray(np.float32([1.5, -2.0]), 4.0)
    >>> x @ x
    ScaledArray(6.25, scale=16.0, format='binary32')
    >>> ScaledArray(np.float32([1.5, -2.0]), 4.0, "e4m3fn") + 1
    ScaledArray([ 1.75, -1.75], scale=4.0, format='e4m3fn')

    Parameters
    ----------
    data : array_like of float, shape (...)
        Values of the format. Those of the ml_dtypes types come with theirs.
    scale : float
        0 or more, dimensionless; infinity and NaN too. A power of two keeps everything exact. 0 means that
        all is zero.
    format : Format, str or dtype, optional
        By default that of the type of data; "binary32" for lists.
    scale_format : Format, str or dtype, optional
        What the scale is a value of: by default that of its type, or what `config` says. 0, infinity and
        NaN stand beside the values of any format: where they are stored, they need codes of their own.

    Raises ValueError: data that the format does not have, a negative scale or one that its format does
    not have. TypeError: a scale that is no single number, or data of a type that is no format.

    Source: [SCALIFY] 2 and 3.1.
    """

    data: Array
    scale: Any = 1.0
    format: Format = None  # type: ignore[assignment]
    scale_format: Format = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        for name, value in zip(("data", "format"), checked_data(self.data, self.format), strict=True):
            object.__setattr__(self, name, value)
        for name, value in zip(
            ("scale", "scale_format"), checked_scale(self.scale, self.scale_format), strict=True
        ):
            object.__setattr__(self, name, value)

    # -- what it is -----------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the data."""
        return self.data.shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.data.ndim

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.data.size

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the data, which may hold more than the format."""
        return self.data.dtype

    @property
    def codes(self) -> Array:
        """The codes of the data."""
        return np.asarray(encode(self.data, self.format))

    def to_array(self, dtype: npt.DTypeLike = np.float64) -> Array:
        """Return the values as an array, each rounded once to a type.

        >>> ScaledArray(np.float16([1.5, 2.0]), 2.0**17).to_array()
        array([196608., 262144.])

        Parameters
        ----------
        dtype : dtype
            float64 is exact where the scale is a power of two; or float32, float16, bfloat16.

        Raises TypeError: another type.
        """
        return rounding.in_type(over(self, 1.0).astype(np.float64), dtype)

    def astype(self, fmt: Like, **options: Any) -> ScaledArray:
        """Round the data to another format, at the same scale.

        >>> ScaledArray(np.float32([1.1, 500.0]), 4.0).astype("e4m3fn", saturation="finite")
        ScaledArray([  1.125, 448.   ], scale=4.0, format='e4m3fn')

        Parameters
        ----------
        fmt : Format, str or dtype
        **options
            As for `lowprec.quantize`; by default the projection of `config`.
        """
        target = catalog.format(fmt)
        return unchecked(
            rounding.project(self.data, target, **options), self.scale, target, self.scale_format
        )

    def __repr__(self) -> str:
        data = np.array2string(
            self.data.astype(np.float64 if self.data.dtype.kind == "V" else self.dtype),
            separator=", ",
            prefix="ScaledArray(",
        )
        return f"ScaledArray({data}, scale={float(self.scale)}, format={self.format.name!r})"

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Iterator[ScaledArray]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: Any) -> ScaledArray:
        refuse_masks(*(index if isinstance(index, tuple) else (index,)))
        return with_data(self, self.data[index])

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError(
            "ScaledArrays do not change: put a new one together with numpy.where or numpy.concatenate"
        )

    def __float__(self) -> float:
        return float(self.to_array())

    def __bool__(self) -> bool:
        return bool(self.to_array())

    # -- what NumPy does with it ----------------------------------------------------------------

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
        return answer(ufunc, inputs, keywords, method)

    def __array_function__(self, function: Any, types: Any, args: Any, keywords: Any) -> Any:
        return answer(function, args, keywords)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        raise TypeError(
            "a ScaledArray does not become a plain array by itself, for that would drop its scale unseen: "
            "use x.to_array() for its values, stop_scaling(x), or x.data and x.scale"
        )

    def __getattr__(self, name: str) -> Any:
        if hasattr(np.ndarray, name):
            raise AttributeError(
                f"a ScaledArray has no {name!r}: use a function such as numpy.sum, x.data.{name}, or "
                f"x.to_array().{name}"
            )
        raise AttributeError(f"a ScaledArray has no {name!r}")

    # The operators are those of NDArrayOperatorsMixin; in place they bind the name to a new array.

    __iadd__ = NDArrayOperatorsMixin.__add__
    __isub__ = NDArrayOperatorsMixin.__sub__
    __imul__ = NDArrayOperatorsMixin.__mul__
    __itruediv__ = NDArrayOperatorsMixin.__truediv__
    __ifloordiv__ = NDArrayOperatorsMixin.__floordiv__
    __imod__ = NDArrayOperatorsMixin.__mod__
    __imatmul__ = NDArrayOperatorsMixin.__matmul__
    __ipow__ = NDArrayOperatorsMixin.__pow__

    # -- methods that arrays have ---------------------------------------------------------------

    @property
    def T(self) -> ScaledArray:
        """The transpose."""
        return self.transpose()

    def transpose(self, *axes: Any) -> ScaledArray:
        """Return the transpose, as of arrays."""
        return with_data(self, self.data.transpose(*axes))

    def reshape(self, *shape: Any) -> ScaledArray:
        """Reshape, as arrays do."""
        return with_data(self, self.data.reshape(*shape))

    def ravel(self) -> ScaledArray:
        """Flatten, as arrays do."""
        return with_data(self, self.data.ravel())

    def squeeze(self, axis: Any = None) -> ScaledArray:
        """Remove axes of length 1, as arrays do."""
        return with_data(self, self.data.squeeze(axis))

    def copy(self) -> ScaledArray:
        """Return a copy of the data at the same scale."""
        return with_data(self, self.data.copy())

    def sum(self, axis: Any = None, *, keepdims: bool = False) -> Any:
        """Apply `numpy.sum`."""
        return np.sum(self, axis=axis, keepdims=keepdims)

    def mean(self, axis: Any = None, *, keepdims: bool = False) -> Any:
        """Apply `numpy.mean`."""
        return np.mean(self, axis=axis, keepdims=keepdims)

    def max(self, axis: Any = None, *, keepdims: bool = False) -> Any:
        """Apply `numpy.max`."""
        return np.max(self, axis=axis, keepdims=keepdims)

    def min(self, axis: Any = None, *, keepdims: bool = False) -> Any:
        """Apply `numpy.min`."""
        return np.min(self, axis=axis, keepdims=keepdims)

    def argmax(self, axis: Any = None) -> Any:
        """Apply `numpy.argmax`."""
        return np.argmax(self, axis=axis)

    def argmin(self, axis: Any = None) -> Any:
        """Apply `numpy.argmin`."""
        return np.argmin(self, axis=axis)


def unchecked(data: Array, scale: Any, fmt: Format, scale_format: Format) -> ScaledArray:
    """Construct a ScaledArray without validation."""
    result = object.__new__(ScaledArray)
    parts = {"data": np.asarray(data), "scale": scale, "format": fmt, "scale_format": scale_format}
    for name, value in parts.items():
        object.__setattr__(result, name, value)
    return result


def with_data(x: ScaledArray, data: Any, scale: Any = None) -> ScaledArray:
    """Return other data in the formats of x, at its scale or another."""
    return unchecked(data, x.scale if scale is None else scale, x.format, x.scale_format)


def refuse_masks(*given: Any) -> None:
    """Refuse masked arrays among indices and conditions, of which NumPy takes no notice."""
    for each in given:
        if isinstance(each, np.ma.MaskedArray):
            as_array(each)


def holds_no_scale(x: ScaledArray) -> bool:
    """Return whether the scale is 0, infinite or NaN, so that all values are: the same at any scale."""
    return not math.isfinite(x.scale) or x.scale == 0


def over(x: ScaledArray, scale: float) -> Array:
    """Divide the values of x by a scale: exactly where both scales are powers of two.

    float64, or float32 where that holds all that the format can give.
    """
    if holds_no_scale(x):
        with np.errstate(invalid="ignore"):  # zero times infinity is NaN
            return x.data.astype(np.float64) * float(x.scale)
    if float(x.scale) == scale:
        return x.data
    factor, fmt, single = rounding.ratio(float(x.scale), scale), x.format, catalog.BINARY32
    least = fmt.min_subnormal or fmt.min_normal or 1.0
    narrow = (
        least * factor >= 2.0**-149 and max(fmt.max_finite, -fmt.min_finite) * factor <= single.max_finite
    )
    wide = np.dtype(
        np.float32 if narrow and math.frexp(factor)[0] == 0.5 and single.contains(fmt) else np.float64
    )
    with np.errstate(over="ignore", invalid="ignore"):
        return x.data.astype(wide) * wide.type(factor)


def comparable(data: Array) -> Array:
    """Return data in a type that NumPy orders: it sorts NaNs of bfloat16 among the numbers."""
    return data.astype(np.float32) if data.dtype.kind == "V" else data


def as_scaled(
    values: Any,
    scale: Any = None,
    fmt: Like | None = None,
    *,
    scale_format: Like | None = None,
) -> Any:
    """Divide plain values by a scale and round them to a format.

    >>> as_scaled(np.float32([300.0, -1000.0]), 256.0, "e4m3fn")
    ScaledArray([ 1.125, -4.   ], scale=256.0, format='e4m3fn')
    >>> as_scaled(3.0), as_scaled(np.zeros(2, np.float32))
    (ScaledArray(1.5, scale=2.0, format='binary32'), ScaledArray([0., 0.], scale=0.0, format='binary32'))

    Parameters
    ----------
    values : array_like of float or integer, shape (...)
        ScaledArrays come back as they are. So do integers and bools, if neither scale nor fmt is given:
        labels and masks have no scale.
    scale : float, optional
        By default 1; of a single number, and of an array that has one number everywhere, the power of two
        below that number, so that the data lie in [1, 2). Of zeros 0.
    fmt : Format, str or dtype, optional
        Of the data; by default that of the type of the values, and "binary32" for float64, which is none.
    scale_format : Format, str or dtype, optional
        By default what `config` says.

    Returns
    -------
    scaled : ScaledArray, shape (...)

    Raises ValueError: a scale that is negative or not finite, or that its format does not have; 0 for values
    that are not.

    Source: [SCALIFY] 3.4.
    """
    if isinstance(values, ScaledArray):
        return values
    operand = values_operand(values)
    array, target = operand.array, format_of(operand.fmt) if fmt is None else catalog.format(fmt)
    if scale is None and fmt is None and array.dtype.kind in "biu":
        return values
    of_scales = current().scale_format if scale_format is None else catalog.format(scale_format)
    first = array[(0,) * array.ndim] if array.size else None
    if scale is None and array.size and (array == first).all():
        one = scaled_scalar(first, target, scale_format=of_scales)
        same = np.full(array.shape, one.data) if one.scale else rounding.project(array, target)
        return unchecked(same, one.scale, target, of_scales)  # zeros keep their signs
    given, of_scales = finite_scale(1.0 if scale is None else scale, scale_format)
    check_zero(given, array)
    divided = rounding.project(array, target) if given == 1 else None
    if given == 0:
        divided = np.zeros(array.shape, rounding.carrier(target))
    if divided is None:
        divided = rounding.operate("divide", array, np.float64(given), fmt=target)
    return unchecked(divided, given, target, of_scales)


def scaled_scalar(value: Any, fmt: Like = "binary32", *, scale_format: Like | None = None) -> ScaledArray:
    """Split a number into a power of two and a significand from 1 to 2, rounded to a format.

    >>> scaled_scalar(-10.0), scaled_scalar(1000.0, "e4m3fn")
    (ScaledArray(-1.25, scale=8.0, format='binary32'), ScaledArray(1., scale=1024.0, format='e4m3fn'))

    Parameters
    ----------
    value : float
        Infinities have an infinite scale and, where the format has none of them, data of 1 or -1.
    fmt : Format, str or dtype
    scale_format : Format, str or dtype, optional
        By default what `config` says. A power of two that it does not have is that next to it, and the
        data have the rest.

    Source: [SCALIFY] 3.4.
    """
    target = catalog.format(fmt)
    of_scales = current().scale_format if scale_format is None else catalog.format(scale_format)
    given, how = number("value", value), current()
    if how.projection.rounding.bits or isinstance(given, int):
        data, fit = _split(given, target, of_scales)
    else:  # 0.0 and -0.0 are equal, and have their signs as parts of the key
        data, fit = _split_as(how.projection, math.copysign(1, given), given, target, of_scales)
    return unchecked(data.copy(), fit, target, of_scales)


@functools.lru_cache(maxsize=rounding.SCALES)
def _split_as(how: Projection, sign: float, given: float, fmt: Format, of_scales: Format) -> tuple[Any, Any]:
    return _split(given, fmt, of_scales)


def _split(given: float, target: Format, of_scales: Format) -> tuple[Any, Any]:
    """Return the data, as `config` rounds them, and the scale of a number."""
    finite = given != 0 and math.isfinite(given)
    scale = abs(float(pow2_round(given, "down"))) if finite else math.inf if given else 0.0
    ends = math.isinf(given) and not target.infinity
    data = rounding.operate(
        "divide", math.copysign(1, given) if ends else given, scale if finite else 1.0, fmt=target
    )
    if abs(float(data)) == 2:
        scale, data = 2 * scale, data / data.dtype.type(2)
    fit = rounding.fitting(scale, of_scales)
    if np.isfinite(scale) and float(fit) != scale:
        data = rounding.operate("divide", given, float(fit), fmt=target)
    return data, fit
