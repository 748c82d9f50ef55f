"""Order in integers: codes compared and chosen, their classes, neighbours of values and the gaps between.

A code becomes an integer that is ordered as the values are, its *place*: the magnitude, negated where the
code is negative. Plain loops without branches, which the compiler makes vectors of; nothing is rounded,
so the modes of the processor change nothing.

Floor 2b. Imports numba through `jit`; never the oracle, which checks it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.kernels.jit import inlined, jit, load_record
from lowprec.kernels.lower.scalar import Signed
from lowprec.spec.arith import Class
from lowprec.spec.format import Format, Sign

__all__ = [
    "Order",
    "Relation",
    "chosen",
    "classified",
    "compared",
    "gaps",
    "kind_of",
    "neighbours",
    "order_of",
    "signaling_order_of",
]

Codes = npt.NDArray[Any]
Words = npt.NDArray[np.uint64]

#: Integers with a sign that hold every place, by the bytes of codes; the wide ones where codes have no sign,
#: or NaNs places of their own.
_NARROW: dict[int, Any] = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}
_WIDE: dict[int, Any] = {1: np.int16, 2: np.int32, 4: np.int64}

_NORMAL, _SUBNORMAL, _ZERO = (
    np.uint8(kind) for kind in (Class.POSITIVE_NORMAL, Class.POSITIVE_SUBNORMAL, Class.POSITIVE_ZERO)
)
_INFINITY, _QUIET, _SIGNALING = (
    np.uint8(kind) for kind in (Class.POSITIVE_INFINITY, Class.QUIET_NAN, Class.SIGNALING_NAN)
)
_MIRROR = np.uint8(Class.POSITIVE_INFINITY)  #: the class of x less this is that of -x


class Order(NamedTuple):
    """Parameters by which codes of a format become places."""

    kept: Any  #: the bits of magnitudes
    sign: Any  #: the bit of the sign; 0 if there is none
    flip: Signed  #: what magnitudes of negative codes are changed by, bit for bit,
    offset: Signed  #: and what is added then
    first: Any  #: magnitudes from here
    last: Any  #: to here are NaNs
    lone: Any  #: whether the code of -0 is a NaN
    beyond: Any  #: what is added to the codes of NaNs, which makes their places; 0 where they have none


@functools.lru_cache(maxsize=256)
def order_of(fmt: Format, zeros: bool = True, nans: bool = False) -> Words:
    """Return the record of a format, lowered.

    Parameters
    ----------
    fmt : Format
    zeros : bool
        Whether both zeros have one place; else -0 comes before +0.
    nans : bool
        Whether NaNs have places: those with a sign beyond the infinity of that sign, others after everything.
    """
    kept = (1 << fmt.width) - 1 - fmt.sign_code
    joined = (
        zeros and fmt.subnormals
    )  # where there is no zero, the smallest magnitudes are next to each other
    flip, offset = (0, -fmt.sign_code) if fmt.sign is Sign.TWOS_COMPLEMENT else (-1, int(joined))
    first, last = fmt.max_magnitude + fmt.infinity + 1, kept
    if fmt.sign is Sign.TWOS_COMPLEMENT or first > last:
        first = last = kept + 1  # no magnitude is that
    beyond = 1 << fmt.width if nans and not fmt.has_signed_nan else 0
    return _lowered(Order(kept, fmt.sign_code, flip, offset, first, last, not fmt.negative_zero, beyond))


def kind_of(fmt: Format, nans: bool = False) -> tuple[int, bool]:
    """Return what kernels are asked for by: the bytes of codes, and whether places need wider integers."""
    apart = nans and not fmt.has_signed_nan
    return fmt.code_bits // 8, apart or (not fmt.sign_code and fmt.width == fmt.code_bits)


@functools.lru_cache(maxsize=256)
def signaling_order_of(fmt: Format) -> Words | None:
    """Return the record in which NaNs are the signaling ones alone; None where there are none."""
    if fmt.quiet_bit is None or fmt.quiet_bit == 1:  # the only NaN of one trailing bit is quiet
        return None
    record = Order(*order_of(fmt).view(np.int64).tolist())
    return _lowered(record._replace(last=fmt.max_magnitude + fmt.quiet_bit, lone=0))


def _lowered(record: Order) -> Words:
    return np.array([int(field) % (1 << 64) for field in record], np.uint64)


def _kinds(size: int, wide: bool) -> tuple[Any, Any]:
    """Return the integers of places, and unsigned ones as wide."""
    kind = (_WIDE if wide else _NARROW)[size]
    return kind, getattr(np, f"u{kind.__name__}")


@inlined
def place(code: Any, kind: Any, f: Order) -> Any:
    """Return the place of a code."""
    code = kind(code)
    magnitude = kind(code & kind(f.kept))
    negative = kind(code & kind(f.sign)) != 0
    return kind(kind(magnitude ^ kind(f.flip)) + kind(f.offset)) if negative else magnitude


@inlined
def is_nan(code: Any, kind: Any, unsigned: Any, f: Order) -> Any:
    """Return whether a code is a NaN; `unsigned` are integers as wide as those of places."""
    code = kind(code)
    beyond = unsigned(kind(kind(code & kind(f.kept)) - kind(f.first)))
    nan = beyond <= unsigned(kind(kind(f.last) - kind(f.first)))
    return nan | (code == kind(f.sign)) if f.lone != 0 else nan


@inlined
def place_of_number(word: Any, kind: Any) -> Any:
    """Return the place of a binary32 or binary64 number; that of both zeros is 0."""
    number = kind(word)
    magnitude = kind(number & kind(np.iinfo(kind).max))
    return kind(-magnitude) if number < 0 else magnitude


@inlined
def code_at(found: Any, kind: Any, f: Order) -> Any:
    """Return the code of a place."""
    magnitude = kind(kind(found - kind(f.offset)) ^ kind(f.flip))
    return kind(magnitude | kind(f.sign)) if found < 0 else found


# -- codes -------------------------------------------------------------------------------------------


class Relation(NamedTuple):
    """Results that `compared` writes."""

    below: int  #: where x comes before y,
    same: int  #: where both have one place,
    unordered: int  #: and where either is NaN,
    hides: bool = True  #: if so; else NaNs have places


@functools.cache
def compared(size: int, wide: bool) -> Callable[..., None]:
    """Return the kernel that compares codes of a kind.

    Called as kernel(x, y, out, order, *relation): out, of uint8, is what the relation says, and 0 otherwise.
    """
    kind, unsigned = _kinds(size, wide)

    def compare(
        x: Codes, y: Codes, out: Codes, order: Words, below: int, same: int, unordered: int, hides: bool
    ) -> None:
        f = load_record(Order, order, 0)
        before, equal, apart, none = np.uint8(below), np.uint8(same), np.uint8(unordered), np.uint8(0)
        placed = f.beyond != 0
        # NaNs are the largest magnitudes and nothing else, and places are magnitudes with signs.
        usual = (f.last == f.kept) & (f.lone == 0) & (not placed) & (f.flip == -1) & (f.offset == 1)
        for i in range(out.size):
            if usual:
                left, right = kind(kind(x[i]) & kind(f.kept)), kind(kind(y[i]) & kind(f.kept))
                nan = max(left, right) >= kind(f.first)
                left = kind(-left) if kind(kind(x[i]) & kind(f.sign)) != 0 else left
                right = kind(-right) if kind(kind(y[i]) & kind(f.sign)) != 0 else right
            else:
                first, second = is_nan(x[i], kind, unsigned, f), is_nan(y[i], kind, unsigned, f)
                left, right = place(x[i], kind, f), place(y[i], kind, f)
                left = kind(kind(x[i]) + kind(f.beyond)) if first & placed else left
                right = kind(kind(y[i]) + kind(f.beyond)) if second & placed else right
                nan = first | second
            held = before if left < right else (equal if left == right else none)
            out[i] = apart if nan & hides else held

    return jit(compare, f"compared_{size}{'_wide' if wide else ''}")


@functools.cache
def chosen(size: int, wide: bool) -> Callable[..., None]:
    """Return the kernel that takes the lesser or the larger of two codes of a kind.

    Called as kernel(x, y, out, order, larger, numbers, kept, nan): of a number and a NaN the NaN, or the
    number if `numbers` says so; of two NaNs the first. `kept` is the AND mask and `nan` the OR mask of
    results that are NaNs.
    """
    kind, unsigned = _kinds(size, wide)
    code: Any = getattr(np, f"uint{8 * size}")

    def choice(
        x: Codes, y: Codes, out: Codes, order: Words, larger: bool, numbers: bool, kept: int, nan: int
    ) -> None:
        f, bits, more = load_record(Order, order, 0), code(np.int64(kept)), code(nan)
        for i in range(out.size):
            left, right = place(x[i], kind, f), place(y[i], kind, f)
            first, second = is_nan(x[i], kind, unsigned, f), is_nan(y[i], kind, unsigned, f)
            other = (left < right) if larger else (right < left)
            both, either = first & second, first | second
            away = (first if numbers else second) & (not both)  # the NaN that makes y the result
            found = y[i] if away | (other & (not either)) else x[i]
            out[i] = code(code(found & bits) | more) if (both if numbers else either) else found

    return jit(choice, f"chosen_{size}{'_wide' if wide else ''}")


def classified(codes: Codes, out: Codes, fmt: Format) -> None:
    """Write the class of each code, as `lowprec.Class`."""
    first_normal = 1 << fmt.trailing_bits if fmt.exponent_bits and fmt.subnormals else 0
    signaling = signaling_order_of(fmt)
    borders = first_normal, fmt.infinity_code if fmt.infinity else -1, fmt.subnormals
    _classes(*kind_of(fmt))(codes, out, order_of(fmt), *borders, 0 if signaling is None else signaling[5])


@functools.cache
def _classes(size: int, wide: bool) -> Callable[..., None]:
    """Return the kernel of `classified`; `signaling` is the last magnitude of a signaling NaN, or 0."""
    kind, unsigned = _kinds(size, wide)

    def classes(
        codes: Codes, out: Codes, order: Words, normal: int, infinity: int, zero: bool, signaling: np.uint64
    ) -> None:
        f = load_record(Order, order, 0)
        for i in range(out.size):
            at, nan = place(codes[i], kind, f), is_nan(codes[i], kind, unsigned, f)
            magnitude = kind(kind(codes[i]) & kind(f.kept))
            found = _SUBNORMAL if magnitude < kind(normal) else _NORMAL
            found = _ZERO if (at == 0) & zero else found
            found = _INFINITY if magnitude == kind(infinity) else found
            found = np.uint8(_MIRROR - found) if kind(kind(codes[i]) & kind(f.sign)) != 0 else found
            loud = (magnitude <= kind(signaling)) & (magnitude != 0)
            out[i] = (_SIGNALING if loud else _QUIET) if nan else found

    return jit(classes, f"classes_{size}{'_wide' if wide else ''}")


# -- values ------------------------------------------------------------------------------------------


@functools.cache
def neighbours(size: int) -> Callable[..., None]:
    """Return the kernel that takes the codes nearest to numbers to the next ones in a direction.

    Called as kernel(start, toward, found, codes, out, order, least, most, signed, zero): numbers of so many
    bytes, by their bits; those that the codes stand for; the order of the codes; the extreme places; whether
    there is a code of -0, for a zero from a negative number; and whether there is one of zero.
    """
    kind: Any = {4: np.int32, 8: np.int64}[size]

    def moved(
        start: Codes, toward: Codes, found: Codes, codes: Codes, out: Codes, order: Words, least: int,
        most: int, signed: bool, zero: bool,
    ) -> None:  # fmt: skip
        f = load_record(Order, order, 0)
        for i in range(out.size):
            here, goal = place_of_number(start[i], kind), place_of_number(toward[i], kind)
            near, at = place_of_number(found[i], kind), place(codes[i], kind, f)
            # The nearest value, or its neighbour if that lies between it and the goal.
            up, down = (here < goal) & (near <= here), (here > goal) & (near >= here)
            at = kind(at + kind(up)) if up else kind(at - kind(down))
            at = kind(most) if at > kind(most) else (kind(least) if at < kind(least) else at)
            negative = kind(toward[i] if here == goal else start[i]) < 0
            smallest = kind(-kind(negative)) if least < 0 else kind(0)
            at = smallest if (not zero) & (here == 0) & (goal == 0) else at
            out[i] = kind(f.sign) if (at == 0) & signed & negative else code_at(at, kind, f)

    return jit(moved, f"neighbours_{size}")


@functools.cache
def gaps(size: int) -> Callable[..., None]:
    """Return the kernel that writes the gaps of a format at numbers of `size` bytes, both by their bits.

    Called as kernel(numbers, out, lowest, highest, trailing, deep): the exponents of the least and the
    largest binade, and the bits of a significand behind the first; `deep` says that subnormal numbers lie
    above the least binade. NaN of infinities and NaN.
    """
    kind: Any = {4: np.int32, 8: np.int64}[size]
    bits = {4: 23, 8: 52}[size]
    bias = (1 << (8 * size - bits - 2)) - 1
    nan = kind(((2 * bias + 1) << bits) + (1 << (bits - 1)))

    def gap(numbers: Codes, out: Codes, lowest: int, highest: int, trailing: int, deep: bool) -> None:
        for i in range(out.size):
            number = kind(numbers[i])
            field = kind(kind(number >> kind(bits)) & kind(2 * bias + 1))
            exponent = kind(field - kind(bias))
            if deep:
                fraction = kind(number & kind((1 << bits) - 1))
                lead = kind(np.float64(fraction).view(np.int64) >> np.int64(52))
                tiny = kind(lead - kind(1023 + bias + bits - 1)) if fraction != 0 else kind(lowest)
                exponent = tiny if field == 0 else exponent
            last = kind(highest) if exponent > kind(highest) else exponent
            last = kind(lowest) if last < kind(lowest) else last
            raised = kind(last - kind(trailing) + kind(bias))
            small = kind(raised + kind(bits - 1))
            small = kind(0) if small < 0 else (kind(bits - 1) if small > kind(bits - 1) else small)
            made = kind(raised << kind(bits)) if raised > 0 else kind(kind(1) << small)
            out[i] = nan if field == kind(2 * bias + 1) else made

    return jit(gap, f"gaps_{size}")
