"""Sums of products, split-K and epilogues in fractions: a reading of their docstrings that shares no code.

Of formats only the parameters are taken from the package. A value is a Fraction, or one of the floats -0.0,
inf, -inf and nan. Operands are numbers, so a NaN comes from operations alone, and is positive.
"""

import functools
import itertools
import math
import re
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

from lowprec.spec.accumulation import Accumulation, Rounded
from lowprec.spec.epilogue import Epilogue
from lowprec.spec.format import Format
from lowprec.spec.formats import BINARY32
from lowprec.spec.order import Split
from lowprec.spec.projection import Projection, Saturation

__all__ = ["MODES", "code_of", "dot", "library_dot", "rounded", "value_of"]

Value = Fraction | float

#: Whether a magnitude goes up to the next one, by mode: from its sign, whether the one below is odd, and the
#: rest in units of their distance, which is above 0 and below 1.
MODES = {
    "nearest_even": lambda negative, odd, rest: 2 * rest > 1 or (2 * rest == 1 and odd),
    "nearest_away": lambda negative, odd, rest: 2 * rest >= 1,
    "nearest_zero": lambda negative, odd, rest: 2 * rest > 1,
    "toward_zero": lambda negative, odd, rest: False,
    "toward_positive": lambda negative, odd, rest: not negative,
    "toward_negative": lambda negative, odd, rest: negative,
    "away_from_zero": lambda negative, odd, rest: True,
    "to_odd": lambda negative, odd, rest: not odd,
}

_NEAREST = Projection()


def _lead(size: Fraction) -> int:
    """Return the exponent of the leading bit."""
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    return exponent if size >= Fraction(2) ** exponent else exponent - 1


def rounded(value: Value, place: Rounded) -> Value:
    """Round to a format with subnormals; it overflows as IEEE 754 says, or saturates."""
    fmt, rule = place
    if isinstance(value, float):
        return _beyond(value, fmt, rule) if math.isinf(value) else value
    if not value:
        return value
    size, negative = abs(value), value < 0
    unit = Fraction(2) ** (max(_lead(size), fmt.emin) - fmt.precision + 1)
    count, rest = divmod(size, unit)
    rest /= unit
    mode = str(rule.rounding)
    size = (count + bool(rest and MODES[mode](negative, count % 2 == 1, rest))) * unit
    most = Fraction(fmt.max_finite)
    if size > most:
        # The largest number is odd: the mode to odd stays there, as modes do that cut.
        if not (mode.startswith("nearest") or MODES[mode](negative, True, Fraction(1, 2))):
            return -most if negative else most
        return _beyond(-math.inf if negative else math.inf, fmt, rule)
    return (-size if negative else size) if size else (-0.0 if negative else Fraction(0))


def _beyond(value: float, fmt: Format, rule: Projection) -> Value:
    if rule.saturation is Saturation.FINITE:
        return Fraction(fmt.max_finite) * (1 if value > 0 else -1)
    return value if fmt.infinity else math.nan


def _negative(value: Value) -> bool:
    return math.copysign(1, value) < 0 if isinstance(value, float) else value < 0


def product(x: Value, y: Value) -> Value:
    """Multiply exactly."""
    minus = _negative(x) != _negative(y)
    if isinstance(x, float) or isinstance(y, float) or not x or not y:
        made = math.nan if any(map(math.isnan, (x, y))) else _sign(x) * _sign(y)
        if math.isnan(made) or math.isinf(made):
            return made
        return -0.0 if minus else Fraction(0)
    return x * y


def _sign(value: Value) -> float:
    """Return what multiplies in the value's place where an infinity or a zero decides."""
    return value if isinstance(value, float) else float((value > 0) - (value < 0))


def total(values: Iterable[Value], mode: str) -> Value:
    """Add exactly; the mode says which sign a zero sum of unlike terms has."""
    terms = list(values)
    large = [term for term in terms if isinstance(term, float) and term]
    if large:
        return large[0] if len(set(large)) == 1 and not math.isnan(large[0]) else math.nan
    exact = sum((term for term in terms if isinstance(term, Fraction)), Fraction(0))
    signs = {_negative(term) for term in terms}
    if exact or not signs:
        return exact
    minus = mode == "toward_negative" if len(signs) == 2 else True in signs
    return -0.0 if minus else Fraction(0)


def code_of(value: Value, fmt: Format) -> int:
    """Return the code of a value that a format has."""
    if isinstance(value, float) and math.isnan(value):
        assert fmt.nan_code is not None
        return fmt.nan_code
    sign = _negative(value) << (fmt.width - 1)
    if isinstance(value, float):
        return sign | (((1 << fmt.exponent_bits) - 1) << fmt.trailing_bits if value else 0)
    if not value:
        return sign
    exponent = max(_lead(abs(value)), fmt.emin)
    count = abs(value) / Fraction(2) ** (exponent - fmt.trailing_bits)
    assert count.denominator == 1, f"{value} is no value of {fmt.name}"
    hidden = 1 << fmt.trailing_bits
    field = exponent + fmt.bias if count >= hidden else 0
    return int(sign | field << fmt.trailing_bits | int(count) % hidden)


def value_of(number: float) -> Value:
    """Return the value of a finite float, zeros with their sign."""
    return Fraction(number) if number or math.copysign(1, number) > 0 else -0.0


# -- sums -------------------------------------------------------------------------------------------


def _add(values: Iterable[Value], into: Rounded) -> Value:
    return rounded(total(values, str(into[1].rounding)), into)


def _in_pairs(terms: Sequence[Value], into: Rounded) -> Value:
    """Add neighbours; the sum of one term is that term, rounded as sums are."""
    if len(terms) < 2:
        return rounded(terms[0], into) if terms else Fraction(0)
    level = list(terms)
    while len(level) > 1:
        pairs = [level[i : i + 2] for i in range(0, len(level), 2)]
        level = [_add(pair, into) if len(pair) == 2 else pair[0] for pair in pairs]
    return level[0]


def _in_order(terms: Sequence[Value], order: str, into: Rounded) -> Value:
    if order == "pairwise":
        return _in_pairs(terms, into)
    return functools.reduce(lambda running, term: _add([term, running], into), terms, Fraction(0))


def _in_brackets(terms: Sequence[Value], text: str, into: Rounded) -> Value:
    """Replace the innermost brackets by their sum until one number is left; () is +0."""
    known = list(terms)
    while "(" in text:
        found = re.search(r"\(([^()]*)\)", text)
        assert found
        members = [known[int(word)] for word in found[1].split(",") if word.strip()]
        known.append(_add(members, into) if members else Fraction(0))
        text = f"{text[: found.start()]}{len(known) - 1}{text[found.end() :]}"
    return known[int(text)]


def _in_lanes(terms: Sequence[Value], size: int, inner: str, into: Rounded) -> Value:
    """Deal terms to sums in turn, and add these."""
    sums: list[Value] = [Fraction(0)] * min(size, len(terms))
    for i, term in enumerate(terms):
        sums[i % size] = _add([term, sums[i % size]], into)
    if len(sums) < 2:
        return sums[0] if sums else Fraction(0)
    if inner == "pairwise":
        return _in_pairs(sums, into)
    return functools.reduce(lambda running, lane: _add([running, lane], into), sums)


def _kept(x: Sequence[Value], y: Sequence[Value], how: Accumulation, exact: Rounded) -> Value:
    """Return the sum as it is kept; an exact one, and one in binary64, rounded to `exact`."""
    terms = [product(a, b) for a, b in zip(x, y, strict=True)]
    if how.product is not None:
        terms = [rounded(term, how.product) for term in terms]
    if how.order.name == "exact":
        return _add(terms, exact)
    assert isinstance(how.accumulator, tuple)
    into = how.total or how.accumulator
    if how.order.name == "chunked":
        size = how.order.size
        chunks = [terms[i : i + size] for i in range(0, len(terms), size)]
        sums = [_in_order(chunk, how.order.inner, how.accumulator) for chunk in chunks]
        made = functools.reduce(lambda running, chunk: _add([running, chunk], into), sums, Fraction(0))
    elif how.order.name == "lanes":
        made = _in_lanes(terms, how.order.size, how.order.inner, how.accumulator)
    elif how.order.name == "tree":
        made = _in_brackets(terms, how.order.groups, how.accumulator)
    else:
        backwards = how.order.name == "reversed"
        name = "sequential" if backwards else how.order.name
        made = _in_order(terms[::-1] if backwards else terms, name, how.accumulator)
    return rounded(made, exact) if into[0].width == 64 else made


def _dealt(length: int, split: Split) -> list[list[int]]:
    """Return the products of each split."""
    tiles = [[*range(i, min(i + split.tile, length))] for i in range(0, length, split.tile)]
    if split.deal == "interleaved":
        found = [tiles[number :: split.count] for number in range(split.count)]
    else:
        whole, more = divmod(len(tiles), split.count)
        many = [whole + (number < more) for number in range(split.count)]
        if split.deal == "contiguous":
            many = [whole + bool(more)] * split.count
        ends = [sum(many[:number]) for number in range(split.count + 1)]
        found = [tiles[first:end] for first, end in itertools.pairwise(ends)]
    return [[i for tile in some for i in tile] for some in found]


def _combined(sums: list[Value], split: Split, into: Rounded) -> Value:
    """Add the sums of splits."""
    if split.combine == "sequential":
        return functools.reduce(lambda first, second: _add([first, second], into), sums)
    if split.combine == "pairwise":
        return _in_pairs(sums, into)
    count = -(-len(sums) // 2) if split.combine == "halves" else int(split.combine[6:-1])
    slots = sums[:-1][:count]
    for number, one in enumerate(sums[:-1][count:]):
        slots[number % count] = _add([slots[number % count], one], into)
    return functools.reduce(lambda running, slot: _add([running, slot], into), slots, sums[-1])


def _summed(x: Sequence[Value], y: Sequence[Value], how: Accumulation, exact: Rounded) -> Value:
    """Return the sum that an output, or an epilogue, finds."""
    split = how.split
    if split is None:
        return _kept(x, y, how, exact)
    into = split.total or (BINARY32, _NEAREST)
    sums = []
    for places in _dealt(len(x), split):
        made = _kept([x[i] for i in places], [y[i] for i in places], how, split.stored or into)
        sums.append(made if split.stored is None else rounded(made, split.stored))
    return _combined(sums, split, into)


def dot(x: Sequence[Value], y: Sequence[Value], how: Accumulation) -> Value:
    """Return a dot product without an addend."""
    return rounded(_summed(x, y, how, how.output), how.output)


# -- epilogues --------------------------------------------------------------------------------------

Scale = Value | Sequence[Value] | None


def library_dot(
    x: Sequence[Value],
    y: Sequence[Value],
    how: Accumulation,
    epilogue: Epilogue,
    scales: tuple[Scale, Scale] = (None, None),
    *,
    bias: Value | None = None,
    addend: Value | None = None,
    output_scale: Value | None = None,
) -> Value:
    """Return a dot product with an epilogue; scales that are sequences are those of blocks along K."""
    into, size = epilogue.compute, epilogue.block
    joined = into[0], Projection(saturation=into[1].saturation)
    mode = str(into[1].rounding)

    def given(value: Any) -> Value:
        return rounded(value, joined)

    def fma(a: Value, b: Value, c: Value) -> Value:
        return rounded(total([product(a, b), c], mode), into)

    def times(a: Value, b: Value) -> Value:
        return rounded(product(a, b), into)

    in_blocks = any(isinstance(scale, (list, tuple)) for scale in scales) and len(x) > 0
    blocks = [slice(i, i + size) for i in range(0, len(x), size)] if in_blocks else [slice(None)]
    joins, by_fma = (bias, True) if epilogue.fused_bias and bias is not None else (addend, False)
    running = None if joins is None else given(joins)
    for number, block in enumerate(blocks):
        v = _summed(x[block], y[block], how, joined)
        pair = [scale[number] if isinstance(scale, (list, tuple)) else scale for scale in scales]
        factors = [given(scale) for scale in pair if scale is not None and len(x)]
        if epilogue.scales == "product":
            alpha = times(*factors) if len(factors) == 2 else (factors or [Fraction(1)])[0]
            running = fma(v, alpha, Fraction(0) if running is None else running)
            continue
        ordered = factors if epilogue.scales == "x_first" else factors[::-1]
        if by_fma and number == 0 and running is not None:
            ordered = ordered or [Fraction(1)]
            for factor in ordered[:-1]:
                v = times(v, factor)
            running = fma(v, ordered[-1], running)
            continue
        for factor in ordered:
            v = times(v, factor)
        running = v if running is None else _add([v, running], into)
    assert running is not None
    v = running
    if bias is not None and not epilogue.fused_bias:
        v = _add([v, given(bias)], into)
    if output_scale is not None:
        v = times(v, given(output_scale))
    return rounded(v, epilogue.output or how.output)
