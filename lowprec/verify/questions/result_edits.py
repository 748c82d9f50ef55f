"""Small edits of the codes of results and of scales: a condition says where they hold."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator

import numpy as np

from lowprec.arrays.convert import encode
from lowprec.spec.format import Format
from lowprec.verify.codes.display import hex_of
from lowprec.verify.questions.features import has_fields
from lowprec.verify.questions.question import Array, Change
from lowprec.verify.questions.situations import continued

__all__ = ["exponents_wrapped", "moves", "of_results", "of_scale_codes", "of_wrapped", "parts_moved"]

#: Last bits of results that may be stuck, and bits below which a carry may be lost.
_STUCK, _CARRIES = 2, 12
#: Bits of formats whose results may come from a table, and codes of them that may be wrong.
_TABLE, _ENTRIES = 8, 4
#: Bits more of exponents, modulo powers of two of which results may be.
_WRAPPED = 3

OnCodes = Callable[[Array, Format], Array]


def of_results(fmt: Format, wrong: Array, right: Array) -> Iterator[Change]:
    """Yield edits of codes of results: functions of the codes and their format.

    `wrong`: codes that came, and `right`: those in whose place they did.
    """
    if not has_fields(fmt) or not wrong.size:
        return
    if fmt.width <= _TABLE:
        yield from _exchanged(fmt, wrong & fmt.sign_code - 1, right & fmt.sign_code - 1)
    found, counts = np.unique(wrong & fmt.sign_code - 1, return_counts=True)
    code = int(found[np.argmax(counts)])
    constant = _magnitude(lambda m, fmt: np.full_like(m, code))
    yield Change("result_code", constant, f"results with code {hex_of(code, fmt)}, and their sign", 3)
    for words, change in _ON_CODES.items():
        if ("infinit" in words and not fmt.infinity) or ("NaN" in words and fmt.nan_code is None):
            continue
        yield Change("result_code", change, f"results {words}")
    for bits in range(2, min(_CARRIES, fmt.trailing_bits)):
        lost = _magnitude(functools.partial(_carry_lost, bits=bits))
        yield Change("result_code", lost, f"results without a carry out of their last {bits} bits", 2)
    for bit in range(min(_STUCK, fmt.trailing_bits)):
        for value in (0, 1):
            stuck = functools.partial(_stuck, bit=bit, value=value)
            yield Change("result_code", stuck, f"bit {bit} of results is {value}", 2)


def _exchanged(fmt: Format, wrong: Array, right: Array) -> Iterator[Change]:
    """Yield magnitudes of results, of a few codes, that are others: of each code always the same."""
    found = {int(code): np.unique(wrong[right == code]) for code in np.unique(right)[: _ENTRIES + 1]}
    if len(found) <= _ENTRIES and all(
        others.size == 1 and others[0] != code for code, others in found.items()
    ):
        table = np.arange(fmt.sign_code)
        table[[*found]] = [int(others[0]) for others in found.values()]
        each = (f"{hex_of(code, fmt)} is {hex_of(int(table[code]), fmt)}" for code in found)
        words = f"codes of results, without signs, are others: {', '.join(each)}"
        yield Change("result_code", _magnitude(lambda m, fmt: table[m]), words, 2, learnt=True)


def of_wrapped(fmt: Format) -> Iterator[Change]:
    """Yield exponents of results that have too few bits before overflow is judged."""
    if not has_fields(fmt) or not fmt.subnormals:
        return
    more = next((bits for bits in range(_WRAPPED, 0, -1) if continued(fmt, bits) is not None), 0)
    wide = continued(fmt, more) if more else None
    for bits in range(fmt.exponent_bits, fmt.exponent_bits + more):
        words = f"exponents of results modulo {1 << bits}, before overflow is judged"
        yield Change("wrapped", (wide, bits, True), words, 2)
        if fmt.infinity:
            yield Change("wrapped", (wide, bits, False), f"{words}, also as codes of NaN", 2)


def exponents_wrapped(
    codes: Array, beyond: Array, fmt: Format, wide: Format, bits: int, capped: bool
) -> Array:
    """Return codes of results of which exponents are modulo 2**bits; `beyond`: their codes in `wide`.

    If `capped`, those with the exponent of infinity are infinite.
    """
    size = beyond.astype(np.int64) & wide.sign_code - 1
    trailing = (1 << fmt.trailing_bits) - 1
    made = size & (1 << bits + fmt.trailing_bits) - 1
    fits = (made <= fmt.max_magnitude) | (fmt.infinity and fmt.nan_code is not None) & (
        made & ~trailing == fmt.infinity_code
    )
    past = (size > fmt.max_magnitude) & (size <= wide.max_magnitude) & fits
    signs = np.where(beyond & wide.sign_code != 0, fmt.sign_code, 0)
    return np.where(past, signs | np.minimum(made, (capped and fmt.infinity_code) or made), codes).astype(
        codes.dtype
    )


def _magnitude(change: Callable[[Array, Format], Array]) -> OnCodes:
    """Return codes whose magnitudes are changed, and whose signs are not."""

    def changed(codes: Array, fmt: Format) -> Array:
        return np.where(codes >= 0, codes & fmt.sign_code | change(codes & fmt.sign_code - 1, fmt), codes)

    return changed


def _scaled(codes: Array, fmt: Format, by: int) -> Array:
    """Return codes of magnitudes times 2**by, cut; of the lowest ones as whole multiples of the smallest."""
    field, one = codes >> fmt.trailing_bits, 1 << fmt.trailing_bits
    low = field <= max(-by, 0)
    whole = np.where(field > 0, codes % one + one, codes) << np.where(low, np.maximum(field - 1, 0), 0)
    made = np.where(low, whole >> min(-by, 62) if by < 0 else whole << min(by, 30), codes + by * one)
    return np.where(codes <= fmt.max_magnitude + fmt.infinity * (by < 0), made, codes)


def _carry_lost(codes: Array, fmt: Format, bits: int) -> Array:
    """Return codes of which those whose last bits are zero, as behind a carry, lack what was carried."""
    return np.where((codes & (1 << bits) - 1 == 0) & (codes >> bits > 0), codes - (1 << bits), codes)


def _field_moved(codes: Array, fmt: Format, by: int) -> Array:
    return np.where(codes + (by << fmt.trailing_bits) >= 0, codes + (by << fmt.trailing_bits), codes)


def _stuck(codes: Array, fmt: Format, bit: int, value: int) -> Array:
    return np.where(codes >= 0, codes & ~(1 << bit) | value << bit, codes)


_ON_CODES: dict[str, OnCodes] = {
    "zero, with their sign": _magnitude(lambda m, fmt: 0 * m),
    "the next code toward zero": _magnitude(lambda m, fmt: np.maximum(m - 1, 0)),
    "the next code away from zero": _magnitude(lambda m, fmt: m + 1),
    "of the other sign": lambda codes, fmt: np.where(codes >= 0, codes ^ fmt.sign_code, codes),
    "half as large": _magnitude(functools.partial(_scaled, by=-1)),
    "twice as large": _magnitude(functools.partial(_scaled, by=1)),
    "with an exponent's field one too low": _magnitude(functools.partial(_field_moved, by=-1)),
    "with an exponent's field one too high": _magnitude(functools.partial(_field_moved, by=1)),
    **{
        f"2**{by} times as large": _magnitude(functools.partial(_scaled, by=by))
        for bits in range(1, 5)
        for by in (-(1 << bits), 1 << bits)
    },
    "+0": lambda codes, fmt: np.where(codes >= 0, 0, codes),
    "-0": lambda codes, fmt: np.where(codes >= 0, fmt.sign_code, codes),
    "the largest finite value, with their sign": _magnitude(lambda m, fmt: 0 * m + fmt.max_magnitude),
    "the largest finite value, positive": lambda codes, fmt: np.where(codes >= 0, fmt.max_magnitude, codes),
    "infinite, with their sign": _magnitude(lambda m, fmt: 0 * m + (fmt.infinity_code or 0)),
    "+infinity": lambda codes, fmt: np.where(codes >= 0, fmt.infinity_code or 0, codes),
    "NaN": lambda codes, fmt: np.where(codes >= 0, fmt.nan_code or 0, codes),
    "the smallest normal value, with their sign": _magnitude(lambda m, fmt: 0 * m + (1 << fmt.trailing_bits)),
    "the smallest value, with their sign": _magnitude(lambda m, fmt: 0 * m + 1),
    "without their trailing bits": _magnitude(lambda m, fmt: m >> fmt.trailing_bits << fmt.trailing_bits),
    "two codes nearer to zero": _magnitude(lambda m, fmt: np.maximum(m - 2, 0)),
    "two codes farther from zero": _magnitude(lambda m, fmt: m + 2),
}


def of_scale_codes(fmt: Format) -> Iterator[Change]:
    """Yield edits of the codes of blocks' scales, whose elements stay."""
    for code in dict.fromkeys((fmt.max_magnitude, 0, fmt.nan_code, int(encode(1.0, fmt)))):
        if code is not None:
            change = functools.partial(np.full_like, fill_value=code)
            yield Change("scale_code", change, f"the codes of scales are {hex_of(code, fmt)}", 2)
    for by, words in ((1, "high"), (-1, "low")):
        yield Change("scale_code", functools.partial(np.add, by), f"the codes of scales one too {words}", 2)


def moves(size: int) -> dict[str, Array]:
    """Return orders of so many lanes: which lane comes to the place of each."""
    lane = np.arange(size)
    found = {
        "rotated by one lane up": (lane - 1) % size,
        "rotated by one lane down": (lane + 1) % size,
        "in reverse": size - 1 - lane,
        "in halves exchanged": (lane + size // 2) % size,
    }
    if size & size - 1 == 0:
        for bit, value in itertools.product(range(size.bit_length() - 1), (0, 1)):
            words = f"with bit {bit} of the lane's number read as {value}"
            found[words] = lane & ~(1 << bit) | value << bit
    return found | ({"exchanged in pairs": lane ^ 1} if size % 2 == 0 else {})


def parts_moved(size: int) -> Iterator[tuple[str, Array]]:
    """Yield orders of all lanes, of each of their halves and of each of their quarters, in words."""
    yield from moves(size).items()
    every = np.arange(size)
    for count in (size // 2, size // 4):
        for first in range(0, size, count) if count > 1 else ():
            for words, to in moves(count).items():
                part = every.copy()
                part[first : first + count] = first + to
                yield f"{words} in lanes {first} to {first + count - 1}", part
