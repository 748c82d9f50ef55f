"""Hardware whose dot products are no set of parameters, each by a function of its own.

All take operands, their formats and a binary32 addend, and give a binary32 value. What is left of a
step's length is filled with zeros.

Floor 2a. Imports spec and the standard library.

Notation:

    c       the running sum, which begins as the addend
    dot     what the products of a step make, before c joins them
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

from lowprec.oracle.arith import exact
from lowprec.oracle.convert import decode, project
from lowprec.oracle.exact import Exact, Special, is_negative, scale
from lowprec.oracle.terms import Term, cut, exponent_of, is_finite, lead, product, total
from lowprec.spec.catalog import BINARY32, TF32
from lowprec.spec.format import Format

__all__ = ["RUN", "cdna2", "cdna2_pairs", "cdna3", "cdna3_fp8"]

Formats = tuple[Format, Format]
Pair = tuple[Exact, Exact]

_NANS = (Special.NAN, Special.NEGATIVE_NAN)


def _single(value: Exact) -> Exact:
    return decode(project(value, BINARY32), BINARY32)


def _padded_steps(x: Sequence[Exact], y: Sequence[Exact], size: int) -> Iterator[list[Pair]]:
    """Yield the factors of each step."""
    for first in range(0, len(x), size):
        pairs = list(zip(x[first : first + size], y[first : first + size], strict=True))
        zero: Exact = Fraction(0)
        yield pairs + [(zero, zero)] * (size - len(pairs))


# -- CDNA2 -----------------------------------------------------------------------------------------


def _is_small(value: Exact, fmt: Format) -> bool:
    """Return whether a number is a subnormal or a zero, of either sign."""
    return is_finite(value) and (isinstance(value, Special) or abs(value) < scale(Fraction(1), fmt.emin))


def _flushed(value: Exact, fmt: Format) -> Exact:
    """Return an operand, or +0 for a subnormal or a zero."""
    return Fraction(0) if _is_small(value, fmt) else value


def _single_or_zero(value: Exact) -> Exact:
    """Return the binary32 value of a result, or the zero of its sign for a subnormal or a zero."""
    rounded = _single(value)
    if not _is_small(rounded, BINARY32):
        return rounded
    return Special.NEGATIVE_ZERO if is_negative(rounded) else Fraction(0)


def _plus(x: Exact, y: Exact) -> Exact:
    return _single_or_zero(exact("add", (x, y)).value)


def _tree(x: Sequence[Exact], y: Sequence[Exact], formats: Formats, addend: Exact, size: int) -> Exact:
    """Binary32 products, neighbours added first, and then their sum to c; subnormals are zeros everywhere."""
    x, y = ([_flushed(value, fmt) for value in values] for values, fmt in zip((x, y), formats, strict=True))
    c = _flushed(addend, BINARY32)
    for pairs in _padded_steps(x, y, size):
        sums = [_single_or_zero(exact("multiply", pair).value) for pair in pairs]
        while len(sums) > 1:
            sums = [_plus(left, right) for left, right in zip(sums[::2], sums[1::2], strict=True)]
        c = _plus(c, sums[0])
    return c


def cdna2(x: Sequence[Exact], y: Sequence[Exact], formats: Formats, addend: Exact) -> Exact:
    """Four products at a time: c + ((p0 + p1) + (p2 + p3)), all in binary32 without subnormals.

    An operand, or addend, that is subnormal or -0 is +0; a subnormal result is the zero of its sign.

    Source
    ------
    [MMASIM].
    """
    return _tree(x, y, formats, addend, 4)


def cdna2_pairs(x: Sequence[Exact], y: Sequence[Exact], formats: Formats, addend: Exact) -> Exact:
    """As `cdna2`, two products at a time: c + (p0 + p1).

    Source
    ------
    [MMASIM].
    """
    return _tree(x, y, formats, addend, 2)


# -- CDNA3 -----------------------------------------------------------------------------------------


def _product(pair: Pair) -> Exact:
    """Exact; from 2**128 on it is infinite."""
    value = product(*pair).value
    if isinstance(value, Fraction) and abs(value) >= scale(Fraction(1), 128):
        return Special.NEGATIVE_INFINITY if value < 0 else Special.INFINITY
    return value


def _exponent(pair: Pair, formats: Formats) -> int | None:
    """Return the sum of the exponents of two factors, or None if one is zero."""
    ours, theirs = (exponent_of(value, fmt) for value, fmt in zip(pair, formats, strict=True))
    return None if ours is None or theirs is None else ours + theirs


def _aligned(pairs: Sequence[Pair], formats: Formats) -> tuple[Fraction, int | None]:
    """Sum products, each cut 24 bits below the point at their largest exponent; return this exponent too."""
    exponents = [_exponent(pair, formats) for pair in pairs]
    largest = max((exponent for exponent in exponents if exponent is not None), default=None)
    if largest is None:
        return Fraction(0), None
    products = [product(*pair).value for pair in pairs]
    return sum(
        (cut(value, largest - 24) for value in products if isinstance(value, Fraction)), Fraction(0)
    ), largest


def _joined(dot: Fraction, dot_exponent: int | None, c: Exact, *, drops: bool) -> Exact:
    """Add c to a step's dot product in binary32, both rounded down; c may be dropped if it is far smaller."""
    number = Fraction(0) if isinstance(c, Special) else c
    own = exponent_of(c, BINARY32)
    own = BINARY32.emin if own is None else own
    exponent = own if dot_exponent is None else max(dot_exponent, own)
    if drops and own < exponent - 25:
        number = Fraction(0)
    joined = cut(dot, exponent - 32, "floor") + cut(number, exponent - 24, "floor")
    if joined == 0:
        return joined
    return _single(cut(joined, max(lead(joined), BINARY32.emin) - 31, "floor"))


def _steps_of_cdna3(
    x: Sequence[Exact],
    y: Sequence[Exact],
    addend: Exact,
    size: int,
    step: Callable[[Sequence[Pair], Exact], Exact],
) -> Exact:
    """Run one step after the other; IEEE 754's rules decide what is not finite in a step."""
    c = addend
    for pairs in _padded_steps(x, y, size):
        plain = total([*(Term(_product(pair)) for pair in pairs), Term(c)]).value
        if is_finite(plain):
            c = step(pairs, c)
        else:
            c = Special.NAN if plain in _NANS else plain
    return c


def cdna3(x: Sequence[Exact], y: Sequence[Exact], formats: Formats, addend: Exact) -> Exact:
    """Eight products at a time, four of tf32: aligned among themselves first, and then with c.

    Products are cut toward zero 24 bits behind the point of their largest exponent e and summed. With
    E the larger of e and the exponent of c, that sum is cut downwards 32 bits behind the point of E,
    c 24 bits, and what both make 31 bits behind its own leading bit; then it is rounded to nearest.

    Source
    ------
    [MMASIM].
    """

    def step(pairs: Sequence[Pair], c: Exact) -> Exact:
        dot, exponent = _aligned(pairs, formats)
        return _joined(dot, exponent, c, drops=False)

    return _steps_of_cdna3(x, y, addend, 4 if formats[0] == TF32 else 8, step)


def cdna3_fp8(x: Sequence[Exact], y: Sequence[Exact], formats: Formats, addend: Exact) -> Exact:
    """Sixteen products at a time, those of even and of odd places aligned apart.

    The two sums are cut downwards 24 bits behind the point of the larger exponent of both, added, and
    then joined with c as in `cdna3`; but a c whose exponent is more than 25 below E counts as zero.

    Source
    ------
    [MMASIM].
    """

    def step(pairs: Sequence[Pair], c: Exact) -> Exact:
        (even, of_even), (odd, of_odd) = _aligned(pairs[::2], formats), _aligned(pairs[1::2], formats)
        exponent = max((each for each in (of_even, of_odd) if each is not None), default=None)
        if exponent is None:
            return _joined(Fraction(0), None, c, drops=True)
        dot = cut(even, exponent - 24, "floor") + cut(odd, exponent - 24, "floor")
        return _joined(dot, exponent, c, drops=True)

    return _steps_of_cdna3(x, y, addend, 16, step)


#: By their names in `lowprec.spec.accumulation.MACHINES`.
RUN = {"cdna2": cdna2, "cdna2_pairs": cdna2_pairs, "cdna3": cdna3, "cdna3_fp8": cdna3_fp8}
