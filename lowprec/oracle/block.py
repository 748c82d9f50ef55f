"""Block formats by definition: a scale from the largest magnitude, and elements divided by it.

Everything is a Fraction; binary32, where a stack computes in it, is a projection like any other.

Floor 2a. Imports spec and the standard library.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from lowprec.oracle import convert
from lowprec.oracle.exact import Exact, Special, is_negative, scale as times_power
from lowprec.spec.block import BlockFormat, ScaleRule
from lowprec.spec.catalog import BINARY32
from lowprec.spec.format import Format
from lowprec.spec.projection import Projection, Saturation

__all__ = ["TensorScale", "decode", "encode", "tensor_scale"]

_SINGLE = Projection(saturation=Saturation.FINITE)
_NANS = (Special.NAN, Special.NEGATIVE_NAN)
_INFINITIES = (Special.INFINITY, Special.NEGATIVE_INFINITY)


class TensorScale(NamedTuple):
    """The binary32 scale of a whole tensor, and the inverse that some stacks compute with."""

    value: Fraction
    inverse: Fraction

    @classmethod
    def given(cls, value: Fraction) -> TensorScale:
        """Return a scale that does not follow from the tensor."""
        return cls(value, _single(1 / value))


ONE = TensorScale(Fraction(1), Fraction(1))


def tensor_scale(values: Sequence[Exact], fmt: BlockFormat) -> TensorScale:
    """Return the scale of a tensor with these values.

    >>> from dataclasses import replace
    >>> from lowprec.spec.block import BlockFormat
    >>> from lowprec.spec.catalog import E2M1FN, UE4M3
    >>> nvfp4 = BlockFormat(
    ...     name="nvfp4", element=E2M1FN, scale=UE4M3, size=16, rule="divide", tensor_scale="divide"
    ... )
    >>> tensor_scale([Fraction(2688), Fraction(-1)], nvfp4).value
    Fraction(1, 1)
    """
    if fmt.tensor_scale == "none":
        return ONE
    amax = _amax(values)
    if amax == 0:
        return ONE
    most = _largest(fmt.element) * _largest(fmt.scale)
    smallest = times_power(Fraction(1), -149)
    if fmt.tensor_scale == "divide":
        return TensorScale.given(max(_single(amax / most), smallest))
    inverse = max(_single(most / max(_single(amax), smallest)), smallest)
    return TensorScale(max(_single(1 / inverse), smallest), inverse)


def encode(
    values: Sequence[Exact],
    fmt: BlockFormat,
    tensor: TensorScale = ONE,
    *,
    random: Sequence[int | None] | None = None,
    scale_random: int | None = None,
    subnormal_operands: Sequence[bool] | None = None,
    scale: int | None = None,
) -> tuple[int, list[int]]:
    """Return the code of a block's scale, and those of its elements.

    >>> from lowprec.spec.block import BlockFormat
    >>> from lowprec.spec.catalog import E2M1FN, E8M0FNU
    >>> mxfp4 = BlockFormat(name="mxfp4", element=E2M1FN, scale=E8M0FNU, size=32)
    >>> encode([Fraction(7), Fraction(-1), Special.NEGATIVE_ZERO], mxfp4)
    (127, [7, 10, 8])

    Parameters
    ----------
    values : sequence of Exact
    fmt : BlockFormat
    tensor : TensorScale
    random, scale_random : integers, optional
        For stochastic projections of the elements and of the scale.
    subnormal_operands : sequence of bool, optional
        Which values are subnormals of the type that they come in.
    scale : int, optional
        The code of a scale that is given. NaNs and infinities in the block are then elements like others.

    Raises ValueError: a NaN where the format has none, or what `convert.project` refuses.
    """
    words = random or [None] * len(values)
    flushes = fmt.elements.flushes_operands
    if flushes and subnormal_operands is not None:
        values = [
            _zero_like(value) if small else value
            for value, small in zip(values, subnormal_operands, strict=True)
        ]
    amax = _amax(values)
    if fmt.flush_subnormals and amax < times_power(Fraction(1), -126):
        values = [value if isinstance(value, Special) else _zero_like(value) for value in values]
        amax = Fraction(0)
    blocking = [value in _NANS and fmt.nan != "elements" for value in values]
    infinite = any(value in _INFINITIES for value in values)
    policy = fmt.nan if any(blocking) else fmt.infinity if infinite else "elements"
    if scale is not None:
        policy = "elements"
    if policy in ("block", "scale", "all"):
        return _nan_scale(fmt, scale_random), _under_nan(
            values, fmt, words, policy if any(blocking) else "block"
        )
    if scale is not None:
        code = scale
    elif policy == "largest":
        code = convert.project(Special.INFINITY, fmt.scale, Projection(saturation=Saturation.FINITE))
    elif policy == "power":
        code = _scale(times_power(Fraction(1), 128), fmt, tensor, scale_random)
    else:
        code = _scale(amax, fmt, tensor, scale_random)
    divisor = convert.decode(code, fmt.scale)
    if divisor is Special.NEGATIVE_ZERO:  # what `nan_code` may be, in a format with a sign
        divisor = Fraction(0)
    if isinstance(divisor, Special):
        return code, _under_nan(values, fmt, words, "block" if fmt.nan == "elements" else fmt.nan)
    smallest = convert.decode(fmt.smallest_scale, fmt.scale)
    if fmt.smallest_divides_as is not None and divisor == smallest:
        divisor = Fraction(fmt.smallest_divides_as)
    return code, [
        convert.project(_divided(value, divisor, tensor, fmt), fmt.element, fmt.elements, random=word)
        for value, word in zip(values, words, strict=True)
    ]


def decode(scale: int, codes: Sequence[int], fmt: BlockFormat, tensor: Fraction = Fraction(1)) -> list[Exact]:
    """Return the values of a block.

    >>> from lowprec.spec.block import BlockFormat
    >>> from lowprec.spec.catalog import E2M1FN, E8M0FNU
    >>> mxfp4 = BlockFormat(name="mxfp4", element=E2M1FN, scale=E8M0FNU, size=32)
    >>> decode(128, [7, 10, 8], mxfp4)
    [Fraction(12, 1), Fraction(-2, 1), Special.NEGATIVE_ZERO]
    """
    shared = convert.decode(scale, fmt.scale)
    factor = shared * tensor if isinstance(shared, Fraction) else shared
    return [_product(convert.decode(code, fmt.element), factor) for code in codes]


# -- the scale ---------------------------------------------------------------------------------------


def _scale(amax: Fraction, fmt: BlockFormat, tensor: TensorScale, random: int | None) -> int:
    """Return the code of a block's scale."""
    if amax == 0 and fmt.zero == "smallest":
        return fmt.smallest_scale
    if amax == 0 and fmt.zero == "one":
        return convert.project(Fraction(1), fmt.scale, fmt.scales, random=random)
    wanted = _quotient(amax, fmt, tensor)
    if fmt.rule.powers != "none" and wanted:
        wanted = _power(wanted, amax, fmt.rule, fmt.element)
    return convert.project(max(wanted, Fraction(fmt.min_scale)), fmt.scale, fmt.scales, random=random)


def _quotient(amax: Fraction, fmt: BlockFormat, tensor: TensorScale) -> Fraction:
    """Apply the rule to an amax, before rounding to a power of two."""
    largest = _largest(fmt.element)
    by = {"one": Fraction(1), "maximum": largest, "binade": _two_to(_floor_log2(largest))}[fmt.rule.divisor]
    if fmt.arithmetic == "exact":
        return amax / (by * tensor.value)
    amax, by = _single(amax), _single(by)
    if fmt.arithmetic == "product":
        return _over(amax, _single(by * tensor.value))
    if fmt.arithmetic == "reciprocal":
        return _single(amax * _single(tensor.inverse * _over(Fraction(1), by)))
    return _single(_over(amax, by) / tensor.value)


def _power(wanted: Fraction, amax: Fraction, rule: ScaleRule, element: Format) -> Fraction:
    """Round a quotient to a power of two as the rule says."""
    below = _two_to(_floor_log2(wanted))
    if rule.powers == "up":
        return below if wanted == below else 2 * below
    if rule.powers == "nearest":
        position = wanted / below
        up = position**2 >= 2 if rule.threshold is None else position >= rule.threshold
        return 2 * below if up else below
    if rule.powers == "even":
        # amax itself is rounded, to as many bits as the element has; ties go away from zero.
        place = _two_to(_floor_log2(amax) - element.precision + 1)
        rounded = (amax / place + Fraction(1, 2)) // 1 * place
        if _floor_log2(rounded) > _floor_log2(amax):
            return 2 * below
    return below


def _nan_scale(fmt: BlockFormat, random: int | None) -> int:
    return convert.project(Special.NAN, fmt.scale, fmt.scales, random=random)


# -- elements ----------------------------------------------------------------------------------------


def _divided(value: Exact, scale: Fraction, tensor: TensorScale, fmt: BlockFormat) -> Exact:
    """Divide a value by the scales."""
    if isinstance(value, Special):
        return value
    if fmt.arithmetic == "exact":
        by = scale * tensor.value
        return _zero_like(value) if by == 0 else value / by
    single = _single(value)
    if fmt.arithmetic == "product":
        result = _over(single, _single(scale * tensor.value))
    elif fmt.arithmetic == "reciprocal":
        result = _single(single * _over(Fraction(1), _single(scale * tensor.value)))
    else:
        result = _single(single * _over(_over(Fraction(1), tensor.value), scale))
    return result or _zero_like(value)


def _under_nan(
    values: Sequence[Exact], fmt: BlockFormat, random: Sequence[int | None], policy: str
) -> list[int]:
    """Return the elements of a block whose scale is NaN."""
    if policy == "block":
        return [0] * len(values)
    left: list[Exact] = [Special.NAN] * len(values)
    if policy == "scale":
        left = [value if value in _NANS else _zero_like(value) for value in values]
    return [
        convert.project(value, fmt.element, fmt.elements, random=word)
        for value, word in zip(left, random, strict=True)
    ]


# -- numbers -----------------------------------------------------------------------------------------


def _amax(values: Sequence[Exact]) -> Fraction:
    """Return the largest magnitude among finite values."""
    return max((abs(value) for value in values if not isinstance(value, Special)), default=Fraction(0))


def _largest(fmt: Format) -> Fraction:
    return Fraction(fmt.max_finite)


def _single(value: Fraction) -> Fraction:
    """Round to binary32, nearest even, and saturate at the largest finite number."""
    result = convert.decode(convert.project(value, BINARY32, _SINGLE), BINARY32)
    return Fraction(0) if isinstance(result, Special) else result


def _over(value: Fraction, by: Fraction) -> Fraction:
    """Divide in binary32; a number over zero is the largest."""
    if by:
        return _single(value / by)
    return Fraction((value > 0) - (value < 0)) * _largest(BINARY32)


def _zero_like(value: Exact) -> Exact:
    return Special.NEGATIVE_ZERO if is_negative(value) else Fraction(0)


def _product(element: Exact, scale: Exact) -> Exact:
    """Multiply element and scale; infinities and NaNs as in IEEE 754."""
    negative = is_negative(element) != is_negative(scale)
    if element in _NANS or scale in _NANS:
        return Special.NAN
    if element in _INFINITIES or scale in _INFINITIES:
        other = scale if element in _INFINITIES else element
        if other == 0 or other is Special.NEGATIVE_ZERO:
            return Special.NAN
        return Special.NEGATIVE_INFINITY if negative else Special.INFINITY
    if isinstance(element, Special) or isinstance(scale, Special) or element * scale == 0:
        return Special.NEGATIVE_ZERO if negative else Fraction(0)
    return element * scale


def _floor_log2(value: Fraction) -> int:
    """Return the integer k with 2**k <= value < 2**(k + 1)."""
    k = value.numerator.bit_length() - value.denominator.bit_length()
    return k if _two_to(k) <= value else k - 1


def _two_to(exponent: int) -> Fraction:
    return times_power(Fraction(1), exponent)
