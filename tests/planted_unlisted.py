"""Bugs that no catalogue lists, planted in five kinds of unit, and how `lowprec.compare` explains them.

    python -m tests.planted_unlisted [UNIT or BUG ...]

prints of each bug how many of the default vectors it fails, how it is explained, and the processor's seconds:

    in full     a cause, or a rule that tells wrong from right results, without an exception
    in part     a cause that explains a tenth of the differences or more
    not         nothing
    unseen      no default vector differs

The models share nothing with the package: integers, written from descriptions of the units. A bug replaces
some of a unit's functions, its hooks.
"""

from __future__ import annotations

import sys
import time
import traceback

import numpy as np

import lowprec as lp
from lowprec.export.block_vectors import block_suite
from lowprec.export.unit_vectors import dot_suite
from lowprec.export.vectors import suite


class Number:
    """A number: class ("n", "i", or "x" for NaN), sign, significand, exponents of last and first bit."""

    def __init__(self, kind, sign, whole=0, last=0, first=0):
        self.kind, self.sign, self.whole, self.last, self.first = kind, sign, whole, last, first


class Float:
    """A binary format: exponent bits, trailing bits, and the codes of infinity and of NaN."""

    def __init__(self, exponent_bits, trailing_bits, infinity, nan, bias=None):
        self.e, self.t, self.infinity, self.nan = exponent_bits, trailing_bits, infinity, nan
        self.bias = (1 << exponent_bits - 1) - 1 if bias is None else bias
        self.sign = 1 << exponent_bits + trailing_bits
        self.largest = (infinity or nan) - 1
        self.low = 1 - self.bias - trailing_bits  #: exponent of the smallest number

    def read(self, code, hidden=False):
        """Return the number of a code; `hidden`: subnormal numbers have a leading one too."""
        sign, magnitude = int(code >= self.sign), code & self.sign - 1
        if magnitude > self.largest:
            return Number("i" if magnitude == self.infinity else "x", sign)
        field, fraction = magnitude >> self.t, magnitude & (1 << self.t) - 1
        whole = fraction | (field > 0 or hidden) << self.t
        last = max(field, 1) + self.low - 1
        return Number("n", sign, whole, last, last + self.t)

    def write(self, sign, total, last, hooks, rest=0):
        """Return the code of a positive total * 2**last, rounded; `rest` is whether something is below it."""
        total, last = total << 2 | (rest > 0), last - 2
        top = total.bit_length() - 1 + last
        unit = max(top - self.t, self.low)
        places = unit - last
        if places <= 0:
            kept, tail, half = total << -places, 0, 1
        else:
            kept, tail, half = total >> places, total & (1 << places) - 1, 1 << places - 1
        up = tail > half or (tail == half and kept & 1)
        subnormal = top < self.low + self.t
        up = hooks.get("up", lambda up, **facts: up)(
            up, kept=kept, tail=tail, half=half, sign=sign, subnormal=subnormal, top=top)  # fmt: skip
        whole = kept + bool(up)
        carried = up and whole == 2 << self.t
        code = (unit - self.low << self.t) + whole
        if "carried" in hooks and carried:
            code = hooks["carried"](code, self)
        if code > self.largest:
            code = self.infinity if self.infinity is not None else self.largest
        limit = hooks.get("limit")
        return limit(code, sign, self) if limit else sign * self.sign | code


BINARY32 = Float(8, 23, 0x7F800000, 0x7FFFFFFF)
BINARY16 = Float(5, 10, 0x7C00, 0x7E00)
BFLOAT16 = Float(8, 7, 0x7F80, 0x7FC0)
E5M2 = Float(5, 2, 0x7C, 0x7D)
E4M3 = Float(4, 3, None, 0x7F)


# -- units ---------------------------------------------------------------------------------------------


class State:
    """What a unit keeps from one case to the next: its last result."""

    def __init__(self):
        self.before = 0


def finished(code, hooks, state, fmt, **facts):
    before, state.before = state.before, code
    return hooks["result"](code, before=before, fmt=fmt, **facts) if "result" in hooks else code


def highest(firsts):
    return max((first for first in firsts if first is not None), default=0)


def window(pairs, c, hooks, places, scale=0):
    """Return the sum of products and c in binary32, cut toward zero behind the point of the largest exponent.

    Pairs are numbers; of products that are not finite the class decides.
    """
    terms, infinite, nan = [], [], c.kind == "x"
    for lane, (x, y) in enumerate(pairs):
        sign = x.sign ^ y.sign
        if "x" in x.kind + y.kind:
            nan = True
        elif "i" in x.kind + y.kind:
            zero = any(side.kind == "n" and not side.whole for side in (x, y))
            nan |= zero
            infinite += [] if zero else [sign]
        else:
            whole = hooks.get("factors", lambda whole, x, y, lane: whole)(x.whole * y.whole, x, y, lane)
            term = [sign, whole, x.last + y.last + scale, x.first + y.first + scale]
            terms.append(hooks.get("product", lambda term, lane: term)(term, lane))
    infinite += [c.sign] if c.kind == "i" else []
    if nan or len(set(infinite)) > 1:
        return BINARY32.nan
    if infinite:
        return infinite[0] << 31 | BINARY32.infinity
    terms.append([c.sign, c.whole, c.last, c.first])
    seen = hooks.get("seen", lambda first, lane: first)
    firsts = [seen(term[3], lane) if term[1] else None for lane, term in enumerate(terms)]
    largest = hooks.get("largest", highest)(firsts)
    parts = [0] * len(terms)
    for lane, (sign, whole, last, first) in enumerate(terms):
        if not whole:
            continue
        shift, place, lane = largest - first, lane, lane if lane < len(pairs) else -1
        shift = hooks.get("shift", lambda shift, lane: shift)(shift, lane)
        up = last - first - shift + places  # places of the last bit above the end of the window
        cut = whole << up if up >= 0 else whole >> -up
        cut = hooks.get("cut", lambda cut, whole, up, lane: cut)(cut, whole, up, lane)
        parts[place] = -cut if sign else cut
    total = sum(hooks.get("parts", lambda parts: parts)(parts))
    total = hooks.get("total", lambda total: total)(total)
    if not total:
        return hooks.get("zero", lambda terms: 0)(terms)
    code = BINARY32.write(int(total < 0), abs(total), largest - places, hooks)
    return 0 if code == BINARY32.sign else code  # what rounds to zero is +0


DOT = lp.Accumulation(
    name="unit",
    operands=("e5m2", "e5m2"),
    accumulator=lp.Window(
        step=8, fraction_bits=35, result=("binary32", lp.Projection(nan_code=0x7FFFFFFF, nan_sign="drop"))
    ),
    output=("binary32", lp.Projection(nan_code=0x7FFFFFFF, nan_sign="drop")),
)


def dot(x, y, c, hooks, state):
    x, y, c = hooks.get("operands", lambda x, y, c: (x, y, c))(list(x), list(y), c)
    pairs = [(E5M2.read(a), E5M2.read(b)) for a, b in zip(x, y, strict=True)]
    code = window(pairs, BINARY32.read(c), hooks, 35)
    return finished(code, hooks, state, BINARY32, x=x, y=y, c=c)


def fma(a, b, c, hooks, state):
    """Return a * b + c in binary16, ties to even; NaNs are 0x7e00."""
    given = a, b, c
    a, b, c = hooks.get("operands", lambda a, b, c: (a, b, c))(a, b, c)
    x, y, z = (BINARY16.read(code) for code in (a, b, c))
    sign, fmt = x.sign ^ y.sign, BINARY16
    infinite = "i" in x.kind + y.kind
    nan = "x" in x.kind + y.kind + z.kind
    nan |= infinite and any(side.kind == "n" and not side.whole for side in (x, y))
    if nan or (infinite and z.kind == "i" and sign != z.sign):
        code = fmt.nan
    elif infinite or z.kind == "i":
        code = (sign if infinite else z.sign) * fmt.sign | fmt.infinity
    else:
        term = [sign, x.whole * y.whole, x.last + y.last, 0]
        sign, whole, last, _ = hooks.get("product", lambda term, lane: term)(term, 0)
        low = min(last, z.last)
        first, second = whole << last - low, z.whole << z.last - low
        if "align" in hooks:
            first, second = hooks["align"](first, second, x, y, z)
        total = (-first if sign else first) + (-second if z.sign else second)
        if not total:
            code = hooks.get("zero", lambda sign, c: sign & c)(sign, z.sign) * fmt.sign
        else:
            code = fmt.write(int(total < 0), abs(total), low, hooks)
    return finished(code, hooks, state, fmt, operands=given)


def convert(a, hooks, state):
    """Return a binary32 number in e4m3fn: ties to even, the largest for what is past it, NaN for NaN."""
    x = BINARY32.read(hooks.get("operand", lambda a: a)(a), hooks.get("hidden", False))
    x = hooks.get("number", lambda x: x)(x)
    fmt = E4M3
    if x.kind == "x":
        code = fmt.nan
    elif x.kind == "i":
        code = fmt.largest
    else:
        code = fmt.write(0, x.whole, x.last, hooks) if x.whole else 0
    code |= x.sign * fmt.sign if x.kind != "x" else 0
    return finished(code, hooks, state, fmt, operand=a)


MX = lp.Accumulation(
    name="mx",
    operands=("e4m3fn", "e4m3fn"),
    accumulator=lp.Window(
        step=8, fraction_bits=35, scales="products",
        result=("binary32", lp.Projection(nan_code=0x7FFFFFFF, nan_sign="drop")),
    ),
    output=("binary32", lp.Projection(nan_code=0x7FFFFFFF, nan_sign="drop")),
    scale=("e8m0fnu", 8),
)  # fmt: skip


def mx(x, sx, y, sy, c, hooks, state):
    x, sx, y, sy, c = hooks.get("operands", lambda *given: given)(list(x), list(sx), list(y), list(sy), c)
    if 255 in [*sx, *sy]:
        return finished(BINARY32.nan, hooks, state, BINARY32, x=x, y=y, c=c)
    pairs = [(E4M3.read(a), E4M3.read(b)) for a, b in zip(x, y, strict=True)]
    scales = [a + b - 254 for a, b in zip(sx, sy, strict=True)]
    code = c
    for step, scale in enumerate(scales):
        code = window(pairs[8 * step : 8 * step + 8], BINARY32.read(code), hooks, 35, scale)
    return finished(code, hooks, state, BINARY32, x=x, y=y, c=c)


GRID = (0, 1, 2, 3, 4, 6, 8, 12)  # magnitudes of E2M1, in halves


def block(values, hooks, state):
    """Return scale and elements of MXFP4 of 32 bfloat16 values: floor scales, ties to even, saturation."""
    values = hooks.get("values", lambda values: values)(list(values))
    numbers = [BFLOAT16.read(code) for code in values]
    if any(number.kind != "n" for number in numbers):
        made = 255, [0] * len(values)
    else:
        top = max((n.whole.bit_length() - 1 + n.last for n in numbers if n.whole), default=-500)
        scale = hooks.get("scale", lambda scale, numbers: scale)(max(top - 2 + 127, 0), numbers)
        made = scale, [element(n, scale - 127, lane, hooks) for lane, n in enumerate(numbers)]
    return finished(made, hooks, state, None, values=values)


def element(number, scale, lane, hooks):
    up = number.last - scale + 1 + 300  # halves of the scale, 300 places below the point
    size, one = number.whole << up, 1 << 300
    code = 7
    if size <= 12 * one:
        code = max(place for place, value in enumerate(GRID) if value * one <= size)
        if GRID[code] * one != size:
            middle = (GRID[code] + GRID[code + 1]) * one // 2
            up = size > middle or (size == middle and code & 1)
            up = hooks.get("up", lambda up, **facts: up)(
                up, kept=code, tail=size - GRID[code] * one, half=middle - GRID[code] * one,
                sign=number.sign, subnormal=code < 2, top=0)  # fmt: skip
            code += bool(up)
    code = hooks.get("element", lambda code, number, lane: code)(code, number, lane)
    return number.sign << 3 | code


# -- bugs ----------------------------------------------------------------------------------------------


def at_tie(change):
    """Return a rounder that decides ties otherwise."""
    return lambda up, tail, half, **facts: change(**facts) if tail == half else up


def where(test, code):
    """Return results with a code where a test of the right one holds."""
    return lambda right, **facts: (code(right, **facts) if callable(code) else code) if test(right) else right


def lanes(change, at, side="x"):
    """Return operands changed in some lanes of a side."""

    def changed(x, y, c):
        held = x if side == "x" else y
        for lane in at:
            held[lane] = change(held[lane])
        return x, y, c

    return changed


def led(code, leads, fmt=E5M2):
    """Return the code of a number with a leading one or without."""
    magnitude, one = code & fmt.sign - 1, 1 << fmt.t
    field, fraction = magnitude >> fmt.t, magnitude & one - 1
    if magnitude > fmt.largest or not magnitude or leads == (field > 0):
        return code
    if leads:
        return code | one
    while field > 1 and fraction < one:
        field, fraction = field - 1, fraction << 1
    return code & fmt.sign | (field - 1 << fmt.t) + fraction


class Kept:
    """Registers of an addend, and of a sticky bit, that are read a line too late."""

    def __init__(self):
        self.last = self.sticky = 0

    def addend(self, x, y, c):
        """Return operands with the last addend whose exponent field is not 0."""
        self.last = c if c >> 23 & 255 else self.last
        return x, y, self.last

    def number(self, x):
        """Return an operand; a zero clears the sticky bit."""
        self.sticky = self.sticky and (x.kind != "n" or x.whole > 0)
        return x

    def up(self, up, kept, tail, half, **facts):
        """Return whether a result is rounded up, by the sticky bit before."""
        sticky, self.sticky = self.sticky, tail & half - 1 > 0
        return tail >= half and (sticky or kept & 1)


KEPT = Kept()


class Carry:
    """A carry of rounding that raises the exponent of the next result, if it is normal and stays finite."""

    def __init__(self):
        self.old = self.new = False

    def carried(self, code, fmt):
        """Return a result, and keep that its rounding carried."""
        self.new = True
        return code

    def result(self, code, operand, **facts):
        """Return a result, twice as large behind one whose rounding carried."""
        now, self.old, self.new = self.old, self.new, False
        finite = operand & 0x7FFFFFFF < 0x7F800000
        return code + 8 if now and finite and 8 <= code & 0x7F < 0x76 else code


CARRY = Carry()


def tree_of(numbers, node, halves=False):
    """Return the scale of MXFP4 of the largest exponent field, by a node of pairs or of the two halves."""
    fields = [n.last + 134 if n.whole > 127 else 0 for n in numbers]
    found = [max(fields[:16]), max(fields[16:])] if halves else fields
    return max(max(map(node, found[::2], found[1::2])) - 2, 0)


def twice(kept, tail, half):
    """Return whether what is rounded to three bits more first, then rounds up: both times ties to even."""
    more, left = divmod(tail, half >> 2)
    more += 2 * left > half >> 2 or (2 * left == half >> 2 and more & 1)
    return more > 4 or (more == 4 and kept & 1)


def flushed(code, fmt=E5M2):
    return code & fmt.sign if code & fmt.sign - 1 < 1 << fmt.t else code


def numbers_only(change, fmt=E5M2):
    return lambda code: change(code) if code & fmt.sign - 1 <= fmt.largest else code


def rounded_to(code, bits):
    """Return a binary32 code without its last bits, ties to even."""
    if code & 0x7FFFFFFF > 0x7F7FFFFF:
        return code
    half = (1 << bits - 1) - 1 + (code >> bits & 1)
    return code + half >> bits << bits


def cleared(bits):
    def changed(term, lane):
        return [term[0], term[1] & ~bits, *term[2:]]

    return changed


def segmented(first, second, bit):
    """Return two numbers to add, less what their lowest bits carry."""
    carry = (first & (1 << bit) - 1) + (second & (1 << bit) - 1) >> bit
    return [first, second, -(carry << bit)]


def with_c(change):
    return {"operands": lambda x, y, c: (x, y, change(c))}


def scales_by(change):
    return {"operands": lambda x, sx, y, sy, c: (x, *change(sx, y, sy), c)}


#: Of sums in binary32, in either dot unit.
ROUNDING_BUGS = {
    "half rounded up": {"up": at_tie(lambda sign, **facts: not sign)},
    "the largest sum saturates": {"limit": lambda code, sign, fmt: sign << 31 | min(code, fmt.largest)},
    "negative sums saturate": {
        "limit": lambda code, sign, fmt: sign << 31 | (min(code, fmt.largest) if sign else code)
    },
    "subnormal sums rounded away from zero": {
        "up": lambda up, tail, subnormal, **facts: tail > 0 if subnormal else up
    },
    "subnormal sums truncated": {"up": lambda up, subnormal, **facts: up and not subnormal},
}

DOT_BUGS = {
    "the addend rounded half up when it is aligned": {
        "cut": lambda cut, whole, up, lane: cut + (lane < 0 and up < 0 and whole >> -up - 1 & 1)
    },
    "products shifted by 24 places or more lost": {
        "shift": lambda shift, lane: 99 if lane >= 0 and shift >= 24 else shift
    },
    "the largest exponent searched without the last bit in lanes 6 and 7": {
        "seen": lambda first, lane: first & ~1 if lane in (6, 7) else first
    },
    "the addend's exponent counted one too high": {"seen": lambda first, lane: first + (lane == 8)},
    "increment lost when rounding carries": {"carried": lambda code, fmt: code - 1},
    "carry sets the exponent twice": {"carried": lambda code, fmt: code + (1 << fmt.t)},
    "low bit of product 5 cut": {"product": lambda term, lane: cleared(1)(term, lane) if lane == 5 else term},
    "low bit of products cut in odd lanes": {
        "product": lambda term, lane: cleared(1)(term, lane) if lane & 1 else term
    },
    "the sum of lanes 4 to 7 without its last bit": {
        "parts": lambda parts: [*parts[:4], sum(parts[4:8]) >> 1 << 1, parts[8]]
    },
    "the sum of lanes 0 to 3 in one's complement": {
        "parts": lambda parts: [sum(parts[:4]) - (sum(parts[:4]) < 0), *parts[4:]]
    },
    "carry into bit 30 lost when c is added": {
        "parts": lambda parts: segmented(sum(parts[:8]), parts[8], 30)
    },
    "low bit of product 2 stuck at one": {
        "product": lambda t, lane: [t[0], t[1] | 1, *t[2:]] if lane == 2 and t[1] else t
    },
    "low bit of x stuck at one in lane 6": {"operands": lanes(numbers_only(lambda code: code | 1), [6])},
    "low bit of y cut in lane 1": {"operands": lanes(numbers_only(lambda code: code & ~1), [1], "y")},
    "y swapped in pairs": {"operands": lambda x, y, c: (x, [y[i ^ 1] for i in range(8)], c)},
    "x rotated": {"operands": lambda x, y, c: (x[1:] + x[:1], y, c)},
    "y halves swapped": {"operands": lambda x, y, c: (x, y[4:] + y[:4], c)},
    "c subtracted": with_c(lambda c: c ^ 1 << 31),
    "c rounded to bfloat16": with_c(lambda c: rounded_to(c, 16)),
    "c rounded to tf32": with_c(lambda c: rounded_to(c, 13)),
    "x flushed in lanes 2 and 5": {"operands": lanes(flushed, [2, 5])},
    "y flushed in lane 7": {"operands": lanes(flushed, [7], "y")},
    "products below 2**-14 flushed in lanes 0 and 3": {
        "product": lambda t, lane: [t[0], 0, *t[2:]] if lane in (0, 3) and t[3] < -14 else t
    },
    "sign of a zero sum taken from c": {"zero": lambda terms: terms[-1][0] << 31},
    "shift modulo 32": {"shift": lambda shift, lane: shift & 31},
    "barrel shifter stops at 24": {"shift": lambda shift, lane: min(shift, 24)},
    "alignment clamped at 31": {"shift": lambda shift, lane: min(shift, 31)},
    "shift of lane 4 modulo 16": {"shift": lambda shift, lane: shift & 15 if lane == 4 else shift},
    "the result before after an infinity": {
        "result": lambda code, before, **facts: before if before & 0x7FFFFFFF == 0x7F800000 else code
    },
    "half rounded away in negative sums": {
        "up": lambda up, tail, half, sign, **facts: tail >= half if sign else up
    },
    "NaN is the largest number": {"result": where(lambda code: code == 0x7FFFFFFF, 0x7F7FFFFF)},
    "-infinity is +0": {"result": where(lambda code: code == 0xFF800000, 0)},
    **ROUNDING_BUGS,
}

FMA_BUGS = {
    "increment lost when rounding carries": {"carried": lambda code, fmt: code - 1},
    "c subtracted": {"operands": lambda a, b, c: (a, b, c ^ 0x8000)},
    "sign of zero taken from c": {"zero": lambda sign, c: c},
    "sign of zero taken from the product": {"zero": lambda sign, c: sign},
    "subnormal results rounded away from zero": {
        "up": lambda up, tail, subnormal, **facts: tail > 0 if subnormal else up
    },
    "half rounded up": {"up": at_tie(lambda sign, **facts: not sign)},
    "low bit of the product cut": {"product": cleared(1)},
    "a's low bit stuck at one": {"operands": lambda a, b, c: (a | (a & 0x7FFF < 0x7C00), b, c)},
    "NaN is the largest number": {"result": where(lambda code: code == 0x7E00, 0x7BFF)},
    "-infinity is +0": {"result": where(lambda code: code == 0xFC00, 0)},
    "subnormal c taken as zero": {"operands": lambda a, b, c: (a, b, flushed(c, BINARY16))},
    "products below the normal range flushed": {
        "product": lambda t, lane: [t[0], 0 if t[1].bit_length() - 1 + t[2] < -14 else t[1], *t[2:]]
    },
    "negative results saturate": {
        "limit": lambda code, sign, fmt: sign << 15 | (min(code, fmt.largest) if sign else code)
    },
    "c without its last two bits": {"operands": lambda a, b, c: (a, b, c & ~3 if c & 0x7FFF < 0x7C00 else c)},
    "the result before where c is infinite": {
        "result": lambda code, before, operands, **facts: before if operands[2] & 0x7FFF == 0x7C00 else code
    },
}

CONVERT_BUGS = {
    "sticky without bits 16 to 18 of the operand": {
        "number": lambda x: Number(x.kind, x.sign, x.whole & ~(7 << 16), x.last, x.first)
    },
    "ties by the last bit of the exponent": {
        "up": lambda up, tail, half, subnormal, top, **facts: (
            tail > half or (tail == half and not subnormal and top + 7 & 1)
        )
    },
    "exponents of 7 bits wrap": {
        "number": lambda x: (
            Number("n", x.sign, x.whole, x.last + (x.first + 64) % 128 - 64 - x.first)
            if x.kind == "n" and x.whole >> 23
            else x
        )
    },
    "increment lost when rounding carries": {"carried": lambda code, fmt: code - 1},
    "subnormal results rounded away from zero": {
        "up": lambda up, tail, subnormal, **facts: tail > 0 if subnormal else up
    },
    "double rounding of subnormals": {
        "up": lambda up, kept, tail, half, subnormal, **facts: (
            twice(kept, tail, half) if subnormal and half > 4 else up
        )
    },
    "threshold of saturation at 480": {
        "number": lambda x: (
            Number("n", x.sign, 0, x.last, 0)
            if x.kind == "n"
            and x.whole
            and x.last + x.whole.bit_length() - 1 >= 8
            and x.whole << x.last + 300 >= 480 << 300
            else x
        )
    },
    "subnormals with a hidden bit": {"hidden": True},
    "NaN is the largest number": {"result": where(lambda code: code & 0x7F == 0x7F, 0x7E)},
    "-infinity is +0": {"result": lambda code, operand, **facts: 0 if operand == 0xFF800000 else code},
    "half rounded up": {"up": at_tie(lambda sign, **facts: True)},
    "smallest subnormal flushed": {"result": where(lambda code: code & 0x7F == 1, lambda c, **f: c & 0x80)},
    "last bit lost above 256": {
        "result": where(lambda code: 0x78 <= code & 0x7F < 0x7F, lambda c, **f: c & ~1)
    },
    "the exponent one too low from 2**-6 to 2**-5": {
        "result": where(lambda code: 8 <= code & 0x7F < 16, lambda c, **f: c - 8 if c & 7 else c)
    },
}

MX_BUGS = {
    "scales of x clamped at 1": scales_by(lambda sx, y, sy: ([min(s, 127) for s in sx], y, sy)),
    "scales of y clamped at 1 from below": scales_by(lambda sx, y, sy: (sx, y, [max(s, 127) for s in sy])),
    "scales of x reversed": scales_by(lambda sx, y, sy: (sx[::-1], y, sy)),
    "one scale of y for all": scales_by(lambda sx, y, sy: (sx, y, sy[:1] * len(sy))),
    "scales of x and y exchanged in block 0": scales_by(
        lambda sx, y, sy: ([sy[0], *sx[1:]], y, [sx[0], *sy[1:]])
    ),
    "scales of x and y exchanged": scales_by(lambda sx, y, sy: (sy, y, sx)),
    "scale of the other block for y": scales_by(lambda sx, y, sy: (sx, y, sy[1:] + sy[:1])),
    "c subtracted": {"operands": lambda x, sx, y, sy, c: (x, sx, y, sy, c ^ 1 << 31)},
    "c rounded to bfloat16": {"operands": lambda x, sx, y, sy, c: (x, sx, y, sy, rounded_to(c, 16))},
    "increment lost when rounding carries": {"carried": lambda code, fmt: code - 1},
    "shift modulo 32": {"shift": lambda shift, lane: shift & 31},
    "barrel shifter stops at 24": {"shift": lambda shift, lane: min(shift, 24)},
    "y swapped in pairs": {"operands": lambda x, sx, y, sy, c: (x, sx, [y[i ^ 1] for i in range(16)], sy, c)},
    "NaN scale of y ignored": scales_by(lambda sx, y, sy: (sx, y, [127 if s == 255 else s for s in sy])),
    **ROUNDING_BUGS,
}

BLOCK_BUGS = {
    "half rounded up": {"up": at_tie(lambda sign, **facts: not sign)},
    "scale clamped at 1": {"scale": lambda scale, numbers: min(scale, 127)},
    "subnormal elements rounded away from zero": {
        "up": lambda up, tail, subnormal, **facts: tail > 0 if subnormal else up
    },
    "increment lost when rounding carries": {
        "up": lambda up, kept, **facts: up and not (kept & 1 and kept > 1)
    },
    "low bit of elements in lane 9 stuck at one": {
        "element": lambda code, number, lane: code | 1 if lane == 9 else code
    },
    "elements swapped in lanes 4 and 5": {
        "result": lambda made, **facts: (made[0], [made[1][{4: 5, 5: 4}.get(i, i)] for i in range(32)])
    },
    "elements rotated": {"result": lambda made, **facts: (made[0], made[1][1:] + made[1][:1])},
    "scale of the block before": {
        "result": lambda made, before, **facts: (before[0] if before else made[0], made[1])
    },
    "negative elements saturate at 4": {
        "element": lambda code, number, lane: min(code, 6) if number.sign else code
    },
    "NaN scale is the largest": {
        "result": lambda made, **facts: (254 if made[0] == 255 else made[0], made[1])
    },
    "lanes 16 to 31 zero beside a large value": {
        "scale": lambda scale, numbers: scale if scale < 200 else scale - 1
    },
    "scale of blocks with a negative largest value one too high": {
        "scale": lambda scale, numbers: (
            scale + (bool(max(numbers, key=lambda n: n.whole << n.last + 133).sign) and scale > 0)
        )
    },
}

DOT_BUGS |= {
    "leading one of x by the exponent of y": {
        "operands": lambda x, y, c: ([led(a, b & 0x7F > 3) for a, b in zip(x, y, strict=True)], y, c)
    },
    "leading one of y by the lane before": {
        "operands": lambda x, y, c: (
            x,
            [led(a, b & 0x7F > 3) for a, b in zip(y, y[-1:] + y, strict=False)],
            c,
        )
    },
    "addends with exponent field 0 keep the last addend": {"operands": Kept().addend},
}

DOT_BUGS |= {
    "products shifted by 14 places or more lost": {
        "shift": lambda shift, lane: 99 if lane >= 0 and shift >= 14 else shift
    },
    "code 3d of x read as 3c in lanes 4 to 7": {
        "operands": lanes(lambda code: 0x3C if code == 0x3D else code, range(4, 8))
    },
}

CONVERT_BUGS |= {
    "sticky bit of the line before": {"number": KEPT.number, "up": KEPT.up},
    "carry of the line before": {"carried": CARRY.carried, "result": CARRY.result},
    "shifts of subnormal results have 5 bits": {
        "number": lambda x: (
            Number("n", x.sign, x.whole, x.last + 20 - (14 - x.first & 31) - 6 - x.first, 0)
            if x.kind == "n" and x.first < -6
            else x
        )
    },
}

MX_BUGS |= {
    "signs of products by OR in lanes 4 to 7": {
        "operands": lambda x, sx, y, sy, c: (
            [a & 127 if i & 4 and a & b & 128 else a for i, (a, b) in enumerate(zip(x, y, strict=True))],
            sx, y, sy, c,
        )
    },
    "shift of lanes 2 and 3 modulo 32": {
        "shift": lambda shift, lane: shift & 31 if lane in (2, 3) else shift
    },
    "significands 9 and 11 multiplied to 98": {
        "factors": lambda whole, x, y, lane: 98 if {x.whole, y.whole} == {9, 11} else whole
    },
    "significands 9 and 15 multiplied to 7 in lanes 0 to 3": {
        "factors": lambda whole, x, y, lane: 7 if (x.whole, y.whole) == (9, 15) and lane < 4 else whole
    },
}  # fmt: skip

BLOCK_BUGS |= {
    "pairs of exponents by OR": {"scale": lambda scale, n: tree_of(n, lambda a, b: a | b)},
    "halves compared without the first bit of exponents": {
        "scale": lambda scale, n: tree_of(n, lambda a, b: b if b & 127 > a & 127 else a, halves=True)
    },
    "halves compared without the last bit of exponents": {
        "scale": lambda scale, n: tree_of(n, lambda a, b: b if b >> 1 > a >> 1 else a, halves=True)
    },
}

#: Bugs that make no difference to any result that the unit can be asked for, and why.
EQUIVALENT = {
    (
        "converter",
        "subnormals with a hidden bit",
    ): "subnormal numbers of binary32 are zero in e4m3fn either way",
    ("MX dot", "scales of x and y exchanged in block 0"): "the unit adds their exponents, in either order",
    ("MX dot", "scales of x and y exchanged"): "the unit adds their exponents, in either order",
    ("dot unit", "the largest sum saturates"): "products are below half a last place of the largest c",
    ("dot unit", "negative sums saturate"): "products are below half a last place of the largest c",
    ("dot unit", "subnormal sums rounded away from zero"): "products are above the subnormals, or zero",
    ("dot unit", "subnormal sums truncated"): "products are above the subnormals, or zero",
}


# -- what compare says ---------------------------------------------------------------------------------


def columns(made):
    file = made.file() if callable(made.file) else made.file
    return [column.codes.tolist() for column in file.columns]


def results_of(unit, rows, hooks):
    state = State()
    return [unit(*row, hooks, state) for row in rows]


def dot_cases():
    x, y, c, _ = columns(dot_suite(DOT, length=8))

    def report(out):
        left, right = (lp.decode(np.array(side, np.uint8), "e5m2") for side in (x, y))
        addend = np.array(c, np.uint32).view(np.float32)
        return lp.compare(
            (left, right), np.uint32(out), operation="dot", accumulation=DOT, addend=addend, limit=0
        )

    return dot, list(zip(x, y, c, strict=True)), report


def mx_cases():
    x, sx, y, sy, c, _ = columns(dot_suite(MX, length=16))

    def report(out):
        left, right = (lp.decode(np.array(side, np.uint8), "e4m3fn") for side in (x, y))
        scale = tuple(lp.decode(np.array(side, np.uint8), "e8m0fnu") for side in (sx, sy))
        addend = np.array(c, np.uint32).view(np.float32)
        given = {"accumulation": MX, "addend": addend, "scale": scale}
        return lp.compare((left, right), np.uint32(out), operation="dot", limit=0, **given)

    return mx, list(zip(x, sx, y, sy, c, strict=True)), report


def fma_cases():
    *operands, _ = columns(suite("fma", (lp.format("binary16"),) * 4))

    def report(out):
        given = tuple(np.array(each, np.uint16) for each in operands)
        how = {"source": "binary16", "projection": lp.Projection(nan_sign="drop")}
        return lp.compare(given, np.uint16(out), "binary16", operation="fma", limit=0, **how)

    return fma, list(zip(*operands, strict=True)), report


def convert_cases():
    values, _ = columns(suite("convert", (lp.format("binary32"), lp.format("e4m3fn"))))

    def report(out):
        given = np.array(values, np.uint32)
        how = lp.Projection(saturation="finite", nan_sign="drop")
        return lp.compare(given, np.uint8(out), "e4m3fn", source="binary32", projection=how, limit=0)

    return convert, [(value,) for value in values], report


def block_cases():
    fmt = lp.block_formats["mxfp4"]
    values, _, _ = columns(block_suite(lp.format("bfloat16"), fmt))

    def report(out):
        scales, codes = np.uint8([[scale] for scale, _ in out]), np.uint8([made for _, made in out])
        given = lp.decode(np.array(values, np.uint16), "bfloat16")
        return lp.compare(given, codes, fmt, scales=scales, limit=0)

    return block, [(each,) for each in values], report


UNITS = {
    "dot unit": (DOT_BUGS, dot_cases),
    "fma": (FMA_BUGS, fma_cases),
    "converter": (CONVERT_BUGS, convert_cases),
    "MX dot": (MX_BUGS, mx_cases),
    "block converter": (BLOCK_BUGS, block_cases),
}


def verdict(report):
    """Return how a report explains what differs: in full, in part or not; "unseen" where nothing differs."""
    if not report.mismatches:
        return "unseen"
    cause = report.cause
    if cause is None:
        return "not"
    return "in full" if (cause.explained, cause.contradicted) == (report.mismatches, 0) else "in part"


def table(only=()):
    """Yield of each bug its unit, name, differences, verdict, seconds, and the cause."""
    for name, (bugs, cases) in UNITS.items():
        if only and not ({name, *bugs} & set(only)):
            continue
        unit, rows, report = cases()
        plain = report(results_of(unit, rows, {}))
        assert plain.agrees, f"the model of the {name} is wrong: {plain.sum()}"
        for bug, hooks in bugs.items():
            if only and name not in only and bug not in only:
                continue
            out, start = results_of(unit, rows, hooks), time.process_time()
            try:
                found = report(out)
                words = "" if found.cause is None else found.cause.words
                yield name, bug, found.mismatches, verdict(found), time.process_time() - start, words
            except Exception:  # it is counted, and shown
                traceback.print_exc()
                yield name, bug, 0, "crashed", time.process_time() - start, ""


if __name__ == "__main__":
    counts: dict[str, int] = {}
    for name, bug, differ, said, seconds, words in table(sys.argv[1:]):
        counts[said] = counts.get(said, 0) + 1
        print(f"{name:<16}{bug:<48}{differ:>7,} {said:<8}{seconds:6.1f} s  {words}", flush=True)
    print(", ".join(f"{count} {said}" for said, count in sorted(counts.items())))
