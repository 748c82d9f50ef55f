"""Tensors as codes with a scale.

Floor 4. Source: [FP8], [OFP8].

Notation, beside the paper's:

    scale     what decoded elements are multiplied by; the paper's scaling factor is its inverse
    policy    what becomes of overflow: "sat" and "ovf" of OFP8, and "paper"
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays import arith, convert
from lowprec.arrays.axes import broadcast_shapes
from lowprec.arrays.checks import Array, as_array, asked_type, code_dtype, codes_operand, refuse_codes
from lowprec.arrays.doubles import reals
from lowprec.arrays.kinds import check_labels
from lowprec.arrays.measures import statistics
from lowprec.spec import catalog
from lowprec.spec.format import Format, Sign
from lowprec.spec.projection import Projection, Saturation
from lowprec.spec.rounding import Rounding

Like = Format | str | npt.DTypeLike

#: "sat": finite overflow and infinities become the largest value. "ovf": both become infinity, or NaN where
#: there is none. "paper": finite overflow becomes the largest value, infinities become infinity, or NaN.
POLICIES: Mapping[str, Saturation] = MappingProxyType(
    {"sat": Saturation.FINITE, "ovf": Saturation.NONE, "paper": Saturation.PROPAGATE}
)


@dataclass(frozen=True, eq=False, repr=False)
class ScaledCodes:
    """An array as codes of a format, and the scales that decoded codes are multiplied by.

    >>> import numpy as np
    >>> ScaledCodes(np.uint8([56, 126]), np.float32(0.5), "e4m3fn").values()
    array([  0.5, 224. ], dtype=float32)

    Parameters
    ----------
    codes : array of uint8, uint16 or uint32, shape (...)
    scale : array of float32 that broadcasts to (...)
        Above 0: one for everything, or one for each channel.
    format : Format, str or dtype

    Raises ValueError: scales that are not positive float32 numbers, or do not broadcast to the shape of
    the codes.
    """

    codes: Array
    scale: Array
    format: Format

    def __post_init__(self) -> None:
        fmt = catalog.format(self.format)
        codes, scale = codes_operand(self.codes, fmt).array, _scales(self.scale)
        try:
            fits = broadcast_shapes(codes.shape, scale.shape) == codes.shape
        except ValueError:
            fits = False
        if not fits:
            raise ValueError(
                f"scale of shape {scale.shape} does not broadcast to codes of shape {codes.shape}"
            )
        for name, value in (("codes", codes), ("scale", scale), ("format", fmt)):
            object.__setattr__(self, name, value)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the values."""
        return self.codes.shape

    @property
    def T(self) -> ScaledCodes:
        """With the last two axes exchanged; the codes are the same, as a scale knows no direction."""
        if self.codes.ndim < 2:
            raise ValueError(f"T exchanges two axes, and codes have shape {self.shape}; use reshape")
        scale = self.scale.swapaxes(-1, -2) if self.scale.ndim > 1 else self.scale
        if self.scale.ndim == 1 and self.scale.size > 1:
            scale = self.scale[:, None]
        return ScaledCodes(self.codes.swapaxes(-1, -2), scale, self.format)

    def values(self, dtype: npt.DTypeLike = np.float32) -> Array:
        """Decode to values, as `decode` does."""
        return decode(self, dtype)

    def __repr__(self) -> str:
        said = (
            f"scale {float(self.scale.reshape(-1)[0]):.9g}"
            if self.scale.size == 1
            else f"{self.scale.size} scales"
        )
        return f"ScaledCodes of {self.format.name}, shape {self.shape}, {said}"


def encode(
    values: npt.ArrayLike,
    fmt: Like = "e4m3fn",
    *,
    scale: npt.ArrayLike | None = None,
    method: str = "max",
    axis: int | Iterable[int] | None = None,
    percentile: float = 99.9,
    power_of_two: bool = False,
    policy: str = "sat",
    rounding: Rounding | str = "nearest_even",
    rng: int | np.random.Generator | None = None,
) -> ScaledCodes:
    """Divide values by a scale and encode the quotients, each rounded once.

    >>> encode([1.0, -3.5, 0.01])
    ScaledCodes of e4m3fn, shape (3,), scale 0.0078125
    >>> encode([1.0, -3.5, 0.01]).values()
    array([ 1.        , -3.5       ,  0.00976562], dtype=float32)
    >>> encode([1.0, float("inf"), 1e9], scale=1.0, policy="paper").values()
    array([  1.,  nan, 448.], dtype=float32)

    Parameters
    ----------
    values : array_like of float or integer, shape (...)
    fmt : Format, str or dtype
        "e4m3fn" for weights and activations, "e5m2" for gradients. Integers too, without their most
        negative code: "int8" is -127 to 127.
    scale : array_like of float32, optional
        That broadcasts with values. By default `lowprec.scale_for` finds it.
    method, axis, percentile, power_of_two
        As for `lowprec.scale_for`: "max", "percentile" or "mse", one scale or one for each channel. mse is of
        the policy and rounding below.
    policy : {"sat", "ovf", "paper"}
        What becomes of overflow: `POLICIES`.
    rounding : Rounding or str
        The paper leaves it open.
    rng : int or Generator, optional
        For stochastic rounding.

    Returns
    -------
    codes : ScaledCodes

    Raises ValueError: an unknown policy, and what `lowprec.scale_for` and `lowprec.encode` refuse.

    Notes
    -----
    Quotients are exact real numbers: unlike ``lowprec.encode(values / scale)`` this rounds once.

    Source: [FP8] 2; [OFP8] for the policies "sat" and "ovf".
    """
    check_labels(values, scale=scale)
    values, target = as_array(values), catalog.format(fmt)
    how = projection_of(policy, rounding)
    refuse_codes("values", values, target, "fp8.encode")
    _refuse_values(values, target)
    if scale is None:
        scale = statistics.scale_for(
            values, target, method, axis, percentile=percentile, power_of_two=power_of_two, projection=how
        )
    elif axis is not None:
        raise ValueError(
            f"axis={axis!r} says which scales to look for, and scale= gives them; leave one of them out"
        )
    scales = _scales(scale)
    codes = arith.divide(values, scales, target, projection=how, rng=rng, dtype=code_dtype(target))
    return ScaledCodes(codes, scales, target)


def decode(codes: ScaledCodes, dtype: npt.DTypeLike = np.float32) -> Array:
    """Decode scaled codes: the code's value times the scale.

    >>> decode(encode([0.1, 448.0]))
    array([1.015625e-01, 4.480000e+02], dtype=float32)

    Parameters
    ----------
    codes : ScaledCodes, shape (...)
    dtype : dtype
        float32, where each product is rounded once, to nearest even, or float64, which holds every product.

    Returns
    -------
    values : array of float32 or float64, shape (...)

    Raises TypeError: another dtype.
    """
    wanted = asked_type(dtype)
    if wanted not in (np.float32, np.float64):
        raise TypeError(f"scaled codes are decoded to float32 or float64, not {wanted}")
    exact = convert.decode(codes.codes, codes.format, dtype=np.float64)
    if wanted == np.float64:
        return np.asarray(exact * codes.scale)  # at most 24 + 24 significant bits
    return np.asarray(arith.multiply(exact, codes.scale, catalog.BINARY32))


def quantize(values: npt.ArrayLike, fmt: Like = "e4m3fn", **options: Any) -> Array:
    """Round values to those that scaled codes have: decode of encode, in float32.

    >>> quantize([1.1, -127.0], "int8")
    array([   1., -127.], dtype=float32)

    Parameters
    ----------
    values, fmt, options
        As for `encode`.
    """
    return decode(encode(values, fmt, **options))


# -- arguments ---------------------------------------------------------------------------------------


def projection_of(policy: str = "sat", rounding: Rounding | str = "nearest_even") -> Projection:
    """Return what `encode` does with quotients."""
    return Projection(rounding=rounding, saturation=_policy(policy), symmetric=True)


def _policy(name: str) -> Saturation:
    if not isinstance(name, str) or name not in POLICIES:
        raise ValueError(f"unknown policy {name!r} of overflow; use one of {', '.join(POLICIES)}")
    return POLICIES[name]


def _refuse_values(values: Array, fmt: Format) -> None:
    """Refuse values that a format has no code for, whatever they are divided by."""
    wrong, what = np.zeros(values.shape, np.bool_), []
    if values.dtype.kind not in "fViu" or not values.size:
        return
    if fmt.nan_code is None and values.dtype.kind in "fV":
        wrong, what = np.isnan(values), ["NaN"]
    if fmt.sign is Sign.UNSIGNED:
        wrong, what = wrong | (values < 0), [*what, "negative"]
    if wrong.any():
        place = tuple(map(int, np.argwhere(wrong)[0]))
        raise ValueError(
            f"cannot encode {' or '.join(what)} values as {fmt.name!r}, which has no code for them: "
            f"{int(wrong.sum()):,} of {values.size:,}, the first at index {place}. Replace them, or use "
            f"another format such as 'e4m3fn'"
        )


def _scales(scale: npt.ArrayLike) -> Array:
    """Return scales as float32; refuse numbers that it lacks."""
    given = reals(scale, "scale")
    with np.errstate(all="ignore"):
        scales = given.astype(np.float32)
    if not (np.isfinite(scales) & (scales > 0)).all():
        raise ValueError("scales must be positive numbers that float32 holds; lowprec.scale_for gives such")
    wrong = np.asarray(scales.astype(object) != given.astype(object))
    if wrong.any():
        first = given[wrong][0]
        raise ValueError(f"scale {first} is no float32 number; give the nearest one, np.float32({first})")
    return scales
