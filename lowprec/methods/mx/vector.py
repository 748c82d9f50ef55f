"""Operations between products: each one real operation, rounded once into the vector format.

Addition to square root are the verbs of `lowprec`. Powers and tanh are correctly rounded too: float64's
result and its error make an interval, and only where its ends round differently it is computed to 60 digits.

Floor 4. Source: [MX] compute flow; [MICROXCALING] for the steps of softmax, layer norm and activations.
"""

from __future__ import annotations

import dataclasses
import decimal
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lowprec.arrays import arith, convert
from lowprec.arrays.axes import axis_within
from lowprec.arrays.checks import Array
from lowprec.arrays.dots import dot
from lowprec.arrays.doubles import reals
from lowprec.arrays.kinds import check_labels
from lowprec.kernels.modes import usual_modes
from lowprec.spec import catalog
from lowprec.spec.accumulation import Accumulation
from lowprec.spec.accumulations import accumulation as accumulation_of
from lowprec.spec.format import Format
from lowprec.spec.projection import DEFAULT, Projection

#: Far above the error of float64's own powers and tanh, which is below 2**-51 of the result.
_ERROR = math.ldexp(1.0, -50)

#: Of gelu's approximations x * sigmoid(_SLOPE * (x + _CUBIC * x**3)) and x * sigmoid(_FIRST * x).
_SLOPE, _CUBIC, _FIRST = 2 * math.sqrt(2 / math.pi), 0.044715, 1.702


@dataclass(frozen=True)
class Vector:
    """A vector unit: operations on values, each rounded once into one format.

    >>> unit = Vector("bfloat16")
    >>> unit.add([1.0, 256.0], [2.0**-8, 1.0])
    array([  1., 256.], dtype=float32)
    >>> unit.softmax([0.0, 1.0, 2.0])
    array([0.09033203, 0.24511719, 0.66796875], dtype=float32)

    Parameters
    ----------
    format : Format or str
        "bfloat16", "binary32", or another one of at most binary32's range and precision.
    projection : Projection
        To nearest even by default. ``lowprec.profiles["microxcaling"].projection("bfloat16")`` rounds ties
        away. Not stochastic.
    sums : Accumulation or str
        How `sum` adds; what it says of the output is replaced by the format. "exact" rounds once.
    exp_by_exp2 : bool
        e**x as 2**(x * log2(e)), with the constant and the product rounded.
    divide_by_inverse : bool
        x / y as x * (1 / y), with the inverse rounded.

    Raises ValueError: a format with values that binary32 does not have, or stochastic rounding.

    Notes
    -----
    Operands are used as they are, in any type: `round` brings them into the format.

    Source: [MX] compute flow; the switches are [MICROXCALING]'s vec_use_exp2 and vec_use_recip.
    """

    format: Format = catalog.BFLOAT16
    projection: Projection = DEFAULT
    sums: Accumulation | str = "exact"
    exp_by_exp2: bool = False
    divide_by_inverse: bool = False

    def __post_init__(self) -> None:
        fmt = catalog.format(self.format)
        if not catalog.BINARY32.contains(fmt):
            raise ValueError(f"vectors are of formats whose values binary32 has, and {fmt.name!r} has others")
        if not isinstance(self.projection, Projection):
            raise TypeError(f"projection must be a Projection, not {self.projection!r}")
        if self.projection.rounding.bits:
            raise ValueError(f"vectors are rounded deterministically, not {self.projection.rounding}")
        how = dataclasses.replace(accumulation_of(self.sums), output=(fmt, self.projection))
        object.__setattr__(self, "format", fmt)
        object.__setattr__(self, "sums", how)

    # -- one rounding -----------------------------------------------------------------------------

    def round(self, x: npt.ArrayLike) -> Array:
        """Round to values of the format."""
        return np.asarray(
            convert.decode(convert.encode(x, self.format, projection=self.projection), self.format)
        )

    def add(self, x: npt.ArrayLike, y: npt.ArrayLike) -> Array:
        """Return x + y."""
        return np.asarray(arith.add(x, y, self.format, projection=self.projection))

    def subtract(self, x: npt.ArrayLike, y: npt.ArrayLike) -> Array:
        """Return x - y."""
        return np.asarray(arith.subtract(x, y, self.format, projection=self.projection))

    def multiply(self, x: npt.ArrayLike, y: npt.ArrayLike) -> Array:
        """Return x * y."""
        return np.asarray(arith.multiply(x, y, self.format, projection=self.projection))

    def divide(self, x: npt.ArrayLike, y: npt.ArrayLike) -> Array:
        """Return x / y; with `divide_by_inverse` two roundings."""
        if self.divide_by_inverse:
            return self.multiply(x, self.inverse(y))
        return np.asarray(arith.divide(x, y, self.format, projection=self.projection))

    def inverse(self, x: npt.ArrayLike) -> Array:
        """Return 1 / x."""
        return np.asarray(arith.divide(1.0, x, self.format, projection=self.projection))

    def sqrt(self, x: npt.ArrayLike) -> Array:
        """Return the square root."""
        return np.asarray(arith.sqrt(x, self.format, projection=self.projection))

    def exp(self, x: npt.ArrayLike) -> Array:
        """Return e**x, correctly rounded; with `exp_by_exp2` three roundings, one of them of a constant.

        >>> Vector("binary32").exp([0.0, 1.0, -float("inf"), 100.0])
        array([1.       , 2.7182817, 0.       ,       inf], dtype=float32)
        """
        if self.exp_by_exp2:
            return self.exp2(self.multiply(x, self.round(math.log2(math.e))))
        return self._power(x, 0)

    def exp2(self, x: npt.ArrayLike) -> Array:
        """Return 2**x, correctly rounded."""
        return self._power(x, 2)

    @usual_modes()
    def tanh(self, x: npt.ArrayLike) -> Array:
        """Return the hyperbolic tangent, correctly rounded.

        >>> Vector("bfloat16").tanh([-1.0, 0.0, 0.01, 20.0])
        array([-0.76171875,  0.        ,  0.01000977,  1.        ], dtype=float32)
        """
        values = reals(x, "x").astype(np.float64)
        known = (values == 0) | ~np.isfinite(values)
        return self._projected(np.asarray(np.tanh(values)), known, values, _beside_tanh)

    def sum(self, x: npt.ArrayLike, axis: int = -1, keepdims: bool = False) -> Array:
        """Sum along an axis, as `sums` says."""
        values = reals(x, "x")
        axis = axis_within(axis, values.ndim)
        moved = np.moveaxis(values, axis, -1)
        total = np.asarray(dot.dot(moved, np.ones(moved.shape[-1], np.float32), self.sums))
        return np.expand_dims(total, axis) if keepdims else total

    # -- several roundings ------------------------------------------------------------------------

    def mean(self, x: npt.ArrayLike, axis: int = -1, keepdims: bool = False) -> Array:
        """Divide the sum by the number of values: two roundings."""
        values = reals(x, "x")
        total = self.sum(values, axis, keepdims)
        return self.divide(total, values.shape[axis_within(axis, values.ndim)])

    def softmax(self, x: npt.ArrayLike, axis: int = -1) -> Array:
        """Return e**(x - max(x)) over the sum of these: four roundings.

        Raises ValueError: no values along the axis.

        Source: [MICROXCALING] mx/softmax.py.
        """
        values = reals(x, "x")
        axis = axis_within(axis, values.ndim)
        if not values.shape[axis]:
            raise ValueError(f"softmax needs values along {axis=}, and x has shape {values.shape}")
        powers = self.exp(self.subtract(values, values.max(axis=axis, keepdims=True)))
        return self.divide(powers, self.sum(powers, axis, keepdims=True))

    def layer_norm(
        self,
        x: npt.ArrayLike,
        weight: npt.ArrayLike | None = None,
        bias: npt.ArrayLike | None = None,
        eps: float = 1e-5,
    ) -> Array:
        """Return (x - mean) / sqrt(variance + eps) * weight + bias along the last axis, each step rounded.

        The mean is a sum and a division; so is the variance, of rounded squares. The square root is
        inverted, and the inverse multiplied.

        >>> Vector("bfloat16").layer_norm([1.0, 2.0, 3.0, 6.0])
        array([-1.0703125 , -0.53515625,  0.        ,  1.609375  ], dtype=float32)

        Source: [MICROXCALING] mx/norm_utils.py.
        """
        check_labels(x, weight=weight, bias=bias)
        centred = self.subtract(x, self.mean(x, keepdims=True))
        variance = self.mean(self.multiply(centred, centred), keepdims=True)
        normal = self.multiply(centred, self.inverse(self.sqrt(self.add(variance, eps))))
        scaled = normal if weight is None else self.multiply(reals(weight, "weight"), normal)
        return scaled if bias is None else self.add(scaled, reals(bias, "bias"))

    # -- activations, and from the gradients of their outputs to those of their inputs --------------

    @usual_modes()
    def sigmoid(self, x: npt.ArrayLike) -> Array:
        """Return 1 / (1 + e**-x): three roundings.

        >>> Vector("bfloat16").sigmoid([-1.0, 0.0, 4.0])
        array([0.26953125, 0.5       , 0.984375  ], dtype=float32)

        Source: [MICROXCALING] mx/activations.py, as of all activations.
        """
        opposite = -reals(x, "x").astype(np.float64)  # unsigned types have no negatives
        return self.inverse(self.add(self.exp(opposite), 1.0))

    def sigmoid_gradient(self, x: npt.ArrayLike, grad: npt.ArrayLike) -> Array:
        """Return y * (1 - y) * grad, of y = `sigmoid` of x: three more roundings."""
        check_labels(x, grad)
        y = self.sigmoid(x)
        return self.multiply(self.multiply(y, self.subtract(1.0, y)), grad)

    def tanh_gradient(self, x: npt.ArrayLike, grad: npt.ArrayLike) -> Array:
        """Return (1 - y * y) * grad, of y = `tanh` of x: three more roundings."""
        check_labels(x, grad)
        y = self.tanh(x)
        return self.multiply(self.subtract(1.0, self.multiply(y, y)), grad)

    def silu(self, x: npt.ArrayLike) -> Array:
        """Return x * `sigmoid` of x: four roundings. NaN at -inf, where 0 is multiplied by it."""
        return self.multiply(x, self.sigmoid(x))

    def silu_gradient(self, x: npt.ArrayLike, grad: npt.ArrayLike) -> Array:
        """Return (s + y * (1 - s)) * grad, of s = `sigmoid` and y = `silu` of x: four more roundings."""
        share = self.sigmoid(x)
        rest = self.multiply(self.multiply(x, share), self.subtract(1.0, share))
        return self.multiply(self.add(share, rest), grad)

    def gelu(self, x: npt.ArrayLike, first_order: bool = False) -> Array:
        """Return x * sigmoid(1.5958 * (x + 0.044715 * x**3)), or x * sigmoid(1.702 * x): each step rounded.

        Constants are rounded to the format. NaN at -inf, where 0 is multiplied by it.

        >>> Vector("bfloat16").gelu([-1.0, 0.5, 3.0])
        array([-0.15820312,  0.34570312,  3.        ], dtype=float32)
        """
        return self.multiply(x, self.sigmoid(self._gelu_argument(x, first_order)))

    def gelu_gradient(self, x: npt.ArrayLike, grad: npt.ArrayLike, first_order: bool = False) -> Array:
        """Return (s + x * s * (1 - s) * a) * grad, each step rounded.

        s is the sigmoid of `gelu`, and a its argument's slope: 1.5958 + 0.21407 * x**2, or 1.702. NaN where
        x**2 overflows, as 0 is multiplied by it.
        """
        share = self.sigmoid(self._gelu_argument(x, first_order))
        if first_order:
            slope = self.round(_FIRST)
        else:
            curve = self.multiply(self.round(3 * _CUBIC * _SLOPE), self.multiply(x, x))
            slope = self.add(self.round(_SLOPE), curve)
        of_share = self.multiply(slope, self.multiply(share, self.subtract(1.0, share)))
        return self.multiply(self.add(share, self.multiply(x, of_share)), grad)

    def _gelu_argument(self, x: npt.ArrayLike, first_order: bool) -> Array:
        if first_order:
            return self.multiply(self.round(_FIRST), x)
        cube = self.multiply(self.multiply(x, x), x)
        return self.multiply(self.round(_SLOPE), self.add(self.multiply(self.round(_CUBIC), cube), x))

    # -- correct rounding -------------------------------------------------------------------------

    @usual_modes()
    def _power(self, x: npt.ArrayLike, base: int) -> Array:
        """Return base**x, of e for base 0."""
        values = reals(x, "x").astype(np.float64)
        powers, known = _powers(values, base)
        return self._projected(powers, known, values, lambda value: _beside_power(value, base))

    def _projected(self, near: Array, known: Array, values: Array, beside: Callable[[float], float]) -> Array:
        """Round float64's results; where their error decides, what `beside` makes of the operand."""
        margin = np.where(known, 0.0, _ERROR)
        low, high = (
            np.asarray(convert.encode(near * (1 + sign * margin), self.format, projection=self.projection))
            for sign in (-1, 1)
        )
        if places := np.argwhere(low != high).tolist():
            near = near.copy()
            for place in places:
                near[tuple(place)] = beside(float(values[tuple(place)]))
        return self.round(near)


def _powers(values: Array, base: int) -> tuple[Array, Array]:
    """Return float64's powers, positive and finite for finite values, and which are exact."""
    whole = values == np.floor(values) if base else values == 0
    known = whole | ~np.isfinite(values)
    # Beyond these limits powers are out of binary32's range, either way.
    bounded = np.clip(values, -700.0, 700.0)
    powers = np.asarray(np.exp2(bounded) if base else np.exp(bounded))
    powers = np.where(np.isinf(values), np.where(values > 0, np.inf, 0.0), powers)
    if base:
        integers = np.where(known & np.isfinite(values), bounded, 0.0).astype(np.int32)
        powers = np.where(known & np.isfinite(values), np.ldexp(1.0, integers), powers)
    return powers, known


def _beside_power(value: float, base: int) -> float:
    """Return base**value in float64, rounded to odd: it rounds to fewer bits as the power does.

    Such powers are never rational, so a number of 60 digits is beside the same numbers as the power itself.
    """
    with decimal.localcontext() as context:
        context.prec = 60 + max(0, -decimal.Decimal(value).adjusted())
        exponent = decimal.Decimal(value) * (decimal.Decimal(2).ln() if base else 1)
        return _to_odd(exponent.exp())


def _beside_tanh(value: float) -> float:
    """Return tanh(value) in float64, rounded to odd. It is irrational too, but for 0.

    Beyond 40 it is as close to 1 as can be; tiny values differ from it by their cube.
    """
    size = decimal.Decimal(min(abs(value), 40.0))
    with decimal.localcontext() as context:
        context.prec = 60 + 3 * max(0, -size.adjusted())
        square = (2 * size).exp()
        return math.copysign(_to_odd((square - 1) / (square + 1)), value)


def _to_odd(exact: decimal.Decimal) -> float:
    """Return a positive number that is no float64, rounded to the neighbour with an odd code."""
    near = float(exact)
    below = near if decimal.Decimal(near) < exact else math.nextafter(near, 0.0)
    return float((np.float64(below).view(np.uint64) | np.uint64(1)).view(np.float64))
