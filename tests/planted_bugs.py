"""Bugs of a dot unit and a block converter, planted in small models, and the vectors that catch them.

    python -m tests.planted_bugs

prints, for each bug, how many of the default vectors it fails and the point of the plan that says best which;
with --diagnose the cause that `lowprec compare` names instead, and how many of the differences it explains.
The models share nothing with the package: integers, written from the descriptions of the units below.
"""

from __future__ import annotations

import sys

import numpy as np

import lowprec as lp
from lowprec.export.block_vectors import block_suite
from lowprec.export.unit_vectors import dot_suite

# -- a dot unit ----------------------------------------------------------------------------------------
#
# Sixteen products of e5m2 in two steps of eight. A step aligns its products and the running sum to the
# largest exponent, cuts them toward zero 27 bits behind its point, adds exactly, and rounds the sum to
# binary32, ties to even. NaNs are 0x7fffffff. A sum that is zero is +0.

UNIT = lp.Accumulation(
    name="sixteen",
    operands=("e5m2", "e5m2"),
    accumulator=lp.Window(
        step=8,
        fraction_bits=27,
        result=("binary32", lp.Projection(nan_code=0x7FFFFFFF, nan_sign="drop")),
    ),
    output=("binary32", lp.Projection(nan_code=0x7FFFFFFF, nan_sign="drop")),
)

DOT_BUGS = [
    "lane 0 dropped",
    "lane 7 dropped",
    "lane 15 dropped",
    "lane 3 reads y of lane 2",
    "y of lanes 5 and 6 swapped",
    "steps in reverse",
    "steps of even and odd lanes",
    "window one bit short",
    "window one bit long",
    "cut bits ORed into the last (sticky kept)",
    "terms rounded, not cut",
    "terms cut downwards",
    "sum cut, not its terms",
    "ties to zero",
    "ties away from zero",
    "ties to odd",
    "result truncated",
    "sticky lost: one bit below the guard bit",
    "carry of rounding lost",
    "addend aligned one place too low",
    "addend aligned one place too high",
    "addend never cut",
    "addend left out of the largest exponent",
    "lane 7 left out of the largest exponent",
    "zeros set the largest exponent",
    "subnormal addend taken as zero",
    "subnormal x with a leading one",
    "subnormal x one exponent too low",
    "subnormal x taken as zero",
    "subnormal y taken as zero",
    "carry out of 4 bits lost",
    "two negatives stay negative",
    "sign of a cancelled sum kept",
    "-0 of a zero sum",
    "NaN in y ignored",
    "NaN in upper lanes ignored",
    "NaN addend ignored",
    "NaN keeps its sign",
    "NaN is 0x7fc00000",
    "zero times infinity is zero",
    "infinities of unlike signs are infinite",
    "infinite addend loses against products",
    "running sum not rounded between steps",
    "subnormal result flushed",
    "signs of products lost",
    "sign of y ignored",
    "products normalized before alignment",
    "sum wraps around at 5 bits",
    "lane 4 aligned one place too low",
    "negative terms in one's complement",
    "negative sum in one's complement",
    "rounded to 27 bits first",
    "infinite product is zero",
]


def e5m2(code, bug, side):
    """Return sign, significand and exponent of its last bit; the class as "n", "i" or "x" for NaN."""
    sign, field, fraction = code >> 7, code >> 2 & 31, code & 3
    if field == 31:
        return ("x" if fraction else "i"), sign, 0, 0
    if field:
        return "n", sign, 4 + fraction, field - 17
    low = -16
    if side == "x" and bug == "subnormal x with a leading one" and fraction:
        fraction += 4
    if side == "x" and bug == "subnormal x one exponent too low":
        low = -17
    if bug == f"subnormal {side} taken as zero":
        fraction = 0
    return "n", sign, fraction, low


def binary32(code):
    """Return class, sign, significand and exponent of the last bit."""
    sign, field, fraction = code >> 31, code >> 23 & 255, code & 0x7FFFFF
    if field == 255:
        return ("x" if fraction else "i"), sign, 0, 0
    return "n", sign, fraction | (1 << 23 if field else 0), max(field, 1) - 150


def rounded(sign, total, last, bug):
    """Return the code of total * 2**last in binary32, ties to even."""
    if not total:
        return sign << 31
    top = total.bit_length() - 1 + last
    places = max(top, -126) - 23 - last
    if bug == "rounded to 27 bits first" and places > 3:
        kept, tail, half = total >> places - 3, total & (1 << places - 3) - 1, 1 << places - 4
        total = kept + (tail > half or (tail == half and kept & 1)) << places - 3
    if places > 0:
        kept, tail, half = total >> places, total & (1 << places) - 1, 1 << places - 1
        if bug == "sticky lost: one bit below the guard bit" and tail == half + 1:
            tail = half
        up = tail > half or (tail == half and kept & 1)
        if tail == half:
            up = {"ties to zero": 0, "ties away from zero": 1, "ties to odd": not kept & 1}.get(bug, up)
        if bug == "result truncated":
            up = 0
        if bug == "carry of rounding lost" and up and kept == (1 << 24) - 1:
            kept = (1 << 23) - 1
        total, last = kept + bool(up), last + places
    else:
        total, last = total << -places, last + places
    if total >> 24:
        total, last = total >> 1, last + 1
    field = last + 150 if total >> 23 else 0
    if field >= 255:
        return sign << 31 | 255 << 23
    if not field and bug == "subnormal result flushed":
        return sign << 31
    return sign << 31 | field << 23 | total & 0x7FFFFF


def step(lanes, c, bug, first):
    """Return the code of a step's sum: products as (class, class, sign, significand, exponent), and c."""
    kind, sign, whole, low = c
    nan, infinite = kind == "x" and bug != "NaN addend ignored", []
    if kind == "i":
        infinite.append(sign)
    terms = []
    for place, (left, right) in enumerate(lanes):
        kinds, product = left[0] + right[0], left[1] ^ right[1]
        product = {"signs of products lost": 0, "sign of y ignored": left[1]}.get(bug, product)
        if bug == "two negatives stay negative" and left[1] and right[1]:
            product = 1
        ignored = (bug == "NaN in y ignored" and kinds == "nx") or (
            bug == "NaN in upper lanes ignored" and place > 3
        )
        if "x" in kinds:
            nan |= not ignored
        elif "i" in kinds:
            if bug == "infinite product is zero":
                terms.append((place, product, 0, 0, 0))
            elif kinds == "ii" or (left[2] if kinds == "ni" else right[2]):
                infinite.append(product)
            elif bug != "zero times infinity is zero":
                nan = True
        else:
            top = left[3] + right[3] + 4
            if bug == "products normalized before alignment":
                top += max((left[2] * right[2]).bit_length() - 5, -40)
            terms.append((place, product, left[2] * right[2], left[3] + right[3], top))
    if len(set(infinite)) > 1 and bug == "infinities of unlike signs are infinite":
        return infinite[-1] << 31 | 255 << 23
    if nan or len(set(infinite)) > 1:
        negative = bug == "NaN keeps its sign" and kind == "x" and sign
        return (
            (0xFFFFFFFF if negative else 0x7FC00000) if negative or bug == "NaN is 0x7fc00000" else 0x7FFFFFFF
        )
    if infinite and not (
        bug == "infinite addend loses against products" and kind == "i" and len(infinite) == 1
    ):
        return infinite[0] << 31 | 255 << 23
    if kind == "n":
        if bug == "subnormal addend taken as zero" and whole < 1 << 23:
            whole = 0
        terms.append((-1, sign, whole, low, max(low + 23, -126)))
    counted = [
        term[4] for term in terms
        if (term[2] or bug == "zeros set the largest exponent")
        and not (term[0] == -1 and bug == "addend left out of the largest exponent")
        and not (term[0] == 7 and bug == "lane 7 left out of the largest exponent")
    ]  # fmt: skip
    largest = max(counted, default=0)
    places = 27 + {"window one bit short": -1, "window one bit long": 1}.get(bug, 0)
    total, extra = 0, 60 if bug == "sum cut, not its terms" else 0
    for place, negative, significand, exponent, _ in terms:
        if place == -1:
            exponent += {"addend aligned one place too low": -1, "addend aligned one place too high": 1}.get(
                bug, 0
            )
        exponent -= bug == "lane 4 aligned one place too low" and place == 4
        shift = exponent - (largest - places) + extra
        if shift >= 0:
            cut = significand << shift
        else:
            cut, lost = significand >> -shift, significand & (1 << -shift) - 1
            if bug == "cut bits ORed into the last (sticky kept)":
                cut |= bool(lost)
            if bug == "terms rounded, not cut":
                cut += lost >> -shift - 1
            if bug == "terms cut downwards" and negative:
                cut += bool(lost)
            if bug == "addend never cut" and place == -1:
                return never_cut(terms, largest, places, bug)
        total += -cut if negative else cut
        if bug == "negative terms in one's complement" and negative and significand:
            total -= 1
    if bug == "negative sum in one's complement" and total < 0:
        total += 1
    if bug == "sum wraps around at 5 bits":
        total = (total + (1 << places + 4) & (1 << places + 5) - 1) - (1 << places + 4)
    total = (abs(total) >> extra) * (-1 if total < 0 else 1)
    if bug == "carry out of 4 bits lost":
        total = (abs(total) & (1 << places + 4) - 1) * (-1 if total < 0 else 1)
    if not total:
        signs = {term[1] for term in terms}
        minus = bug == "-0 of a zero sum" and signs == {1}
        return (minus or (bug == "sign of a cancelled sum kept" and bool(terms) and terms[0][1])) << 31
    return rounded(int(total < 0), abs(total), largest - places, bug)


def never_cut(terms, largest, places, bug):
    """Return a sum in which the addend keeps all of its bits."""
    total, last = 0, min([largest - places, *(term[3] for term in terms if term[0] == -1)])
    for place, negative, significand, exponent, _ in terms:
        shift = exponent - (largest - places)
        if place != -1:
            significand = significand << shift if shift >= 0 else significand >> -shift
            exponent = largest - places
        total += (-1 if negative else 1) * (significand << exponent - last)
    return rounded(int(total < 0), abs(total), last, bug)


def dot(x, y, c, bug=""):
    """Return the code of the unit's sum."""
    if bug.startswith("lane ") and bug.endswith(" dropped"):
        x = [0 if place == int(bug.split()[1]) else code for place, code in enumerate(x)]
    y = list(y)
    if bug == "lane 3 reads y of lane 2":
        y[3] = y[2]
    if bug == "y of lanes 5 and 6 swapped":
        y[5], y[6] = y[6], y[5]
    pairs = [(e5m2(left, bug, "x"), e5m2(right, bug, "y")) for left, right in zip(x, y, strict=True)]
    steps = [pairs[:8], pairs[8:]]
    if bug == "steps in reverse":
        steps.reverse()
    if bug == "steps of even and odd lanes":
        steps = [pairs[::2], pairs[1::2]]
    if bug == "running sum not rounded between steps" and not any(
        "n" != side[0] for pair in pairs for side in pair
    ):
        steps = [pairs]
    for number, lanes in enumerate(steps):
        c = step(lanes, binary32(c), bug, number == 0)
    return c


# -- a block converter -----------------------------------------------------------------------------------
#
# Thirty-two bfloat16 values to MXFP4: the scale is 2**(floor(log2(amax)) - 2), at least 2**-127; elements are
# rounded to nearest, ties to even, and saturate at 6. A NaN or an infinity makes the scale NaN and the
# elements zero; a block of zeros has the scale 2**-127.

BLOCK_BUGS = [
    "scale one too high",
    "scale one too low",
    "last lane left out of amax",
    "lane 0 left out of amax",
    "negative values left out of amax",
    "amax of the lower half",
    "scale rounded up",
    "scale of amax rounded",
    "scale not clamped",
    "elements truncated",
    "ties away from zero",
    "ties to zero",
    "overflow wraps",
    "overflow is zero",
    "subnormal elements flushed",
    "subnormal values taken as zero",
    "NaN ignored",
    "NaN in upper lanes ignored",
    "infinity is a number",
    "sign of zero lost",
    "sign of small elements lost",
    "zero block has scale 1",
    "elements in reverse",
    "neighbours swapped",
    "carry of rounding lost",
    "elements of a NaN block kept",
    "NaN scale is 0xfe",
    "sticky lost",
]

GRID = (0, 1, 2, 3, 4, 6, 8, 12)  # of elements, in halves


def element(magnitude, bug):
    """Return the code of a magnitude in units of 2**-200 halves of the scale."""
    one = 1 << 200
    if magnitude > 12 * one:
        code = {"overflow wraps": (magnitude // one) & 7, "overflow is zero": 0}.get(bug, 7)
        return code
    below = max(place for place, value in enumerate(GRID) if value * one <= magnitude)
    if GRID[below] * one == magnitude:
        code = below
    else:
        middle = (GRID[below] + GRID[below + 1]) * one // 2
        up = magnitude > middle or (magnitude == middle and below & 1)
        if magnitude == middle:
            up = {"ties away from zero": 1, "ties to zero": 0}.get(bug, up)
        if bug == "elements truncated":
            up = 0
        if bug == "sticky lost" and magnitude > middle:
            up = below & 1
        code = below + bool(up)
        if bug == "carry of rounding lost" and up and below & 1 and below > 1:
            code = below - 1
    return 0 if bug == "subnormal elements flushed" and code == 1 else code


def block(values, bug=""):
    """Return the scale's code and the elements'."""
    size = len(values)
    magnitudes = [code & 0x7FFF for code in values]
    special = [place for place, code in enumerate(magnitudes) if code >= 0x7F80]
    nans = [place for place in special if magnitudes[place] > 0x7F80]
    if bug == "NaN ignored":
        special = [place for place in special if place not in nans]
    if bug == "NaN in upper lanes ignored":
        special = [place for place in special if place not in nans or place < size // 2]
    if bug == "infinity is a number":
        special = nans
    scale_of_nan = 0xFE if bug == "NaN scale is 0xfe" else 0xFF
    if special and bug != "elements of a NaN block kept":
        return scale_of_nan, [0] * size
    looked = list(range(size))
    looked = {"last lane left out of amax": looked[:-1], "lane 0 left out of amax": looked[1:],
              "amax of the lower half": looked[: size // 2]}.get(bug, looked)  # fmt: skip
    if bug == "negative values left out of amax":
        looked = [place for place in looked if not values[place] >> 15]
    if bug == "subnormal values taken as zero":
        magnitudes = [code if code >= 0x80 else 0 for code in magnitudes]
    held = [
        magnitudes[place]
        for place in looked
        if magnitudes[place] <= (0x7F80 if bug == "infinity is a number" else 0x7F7F)
    ]
    amax = max(held, default=0)
    if not amax:
        scale = 127 if bug == "zero block has scale 1" else 0
    else:
        field, fraction = amax >> 7, amax & 0x7F
        top = field - 127 if field else fraction.bit_length() - 1 - 133
        if bug == "scale rounded up" and (fraction if field else fraction & fraction - 1):
            top += 1
        if bug == "scale of amax rounded" and field and fraction >= 0x60:
            top += 1
        top += {"scale one too high": 1, "scale one too low": -1}.get(bug, 0)
        scale = top - 2 + 127
        scale = scale & 0xFF if bug == "scale not clamped" else max(scale, 0)
    codes = []
    for code, magnitude in zip(values, magnitudes, strict=True):
        field, fraction = magnitude >> 7, magnitude & 0x7F
        significand, last = (fraction | 0x80, field - 134) if field else (fraction, -133)
        small = (
            element((significand << 201 + 260) >> (260 - last + scale - 127), bug)
            if magnitude < 0x7F80
            else 7
        )
        sign = code >> 15
        if (bug == "sign of zero lost" and not magnitude) or (
            bug == "sign of small elements lost" and not small and magnitude
        ):
            sign = 0
        codes.append(sign << 3 | small)
    if bug == "elements in reverse":
        codes.reverse()
    if bug == "neighbours swapped":
        codes = [code for pair in zip(codes[1::2], codes[::2], strict=True) for code in pair]
    return (scale_of_nan if special else scale), codes


# -- what catches them ---------------------------------------------------------------------------------


def dot_vectors():
    """Return the plan of the default vectors, and a function that says which of them a bug fails."""
    made = dot_suite(UNIT, length=16)
    x, y, addend, results = (column.codes.tolist() for column in made.file.columns)

    def failed(bug=""):
        cases = zip(x, y, addend, strict=True)
        return np.array([dot(*case, bug) for case in cases]) != np.array(results)

    return made.plan(), failed


def block_vectors():
    """Return the same of the block converter."""
    made = block_suite(lp.format("bfloat16"), lp.block_formats["mxfp4"])
    values, scales, codes = (column.codes.tolist() for column in made.file.columns)
    wanted = list(zip(scales, codes, strict=True))

    def failed(bug=""):
        return np.array([block(case, bug) != want for case, want in zip(values, wanted, strict=True)])

    return made.plan(), failed


def table():
    """Yield of each bug the unit, its name, the vectors that it fails, and the point that they share."""
    for name, bugs, (plan, failed) in (
        ("dot unit", DOT_BUGS, dot_vectors()),
        ("block converter", BLOCK_BUGS, block_vectors()),
    ):
        assert not failed().any(), f"the model of the {name} is wrong"
        for bug in bugs:
            caught = failed(bug)
            yield name, bug, int(caught.sum()), plan.best(caught)


def dot_report(bug):
    """Return what `compare` says of a dot unit with this bug."""
    held = [column.codes for column in dot_suite(UNIT, length=16).file.columns[:3]]
    out = np.array(
        [dot(*case, bug) for case in zip(*(part.tolist() for part in held), strict=True)], np.uint32
    )
    x, y = (lp.decode(part.astype(np.uint8), "e5m2") for part in held[:2])
    addend = held[2].astype(np.uint32).view(np.float32)
    return lp.compare((x, y), out, operation="dot", accumulation=UNIT, addend=addend, limit=0)


def block_report(bug):
    """Return what `compare` says of a block converter with this bug."""
    fmt = lp.block_formats["mxfp4"]
    vectors = block_suite(lp.format("bfloat16"), fmt).file.columns[0].codes
    made = [block(codes, bug) for codes in vectors.tolist()]
    scales, codes = np.uint8([[scale] for scale, _ in made]), np.uint8([codes for _, codes in made])
    values = lp.decode(vectors.astype(np.uint16), "bfloat16")
    return lp.compare(values, codes, fmt, scales=scales, limit=0)


def diagnoses(only=()):
    """Yield of each bug the unit, its name, how many results differ and are explained, and the cause."""
    for name, bugs, report in (
        ("dot unit", DOT_BUGS, dot_report),
        ("block converter", BLOCK_BUGS, block_report),
    ):
        for bug in bugs:
            if not only or bug in only:
                found = report(bug)
                cause = found.cause
                explained, words = (0, "") if cause is None else (cause.explained, cause.words)
                yield name, bug, found.mismatches, explained, words


if __name__ == "__main__":
    if "--diagnose" in sys.argv:
        number = whole = 0
        print(f"{'unit':<16} {'bug':<42} {'differ':>7} {'explained':>9}  cause")
        for unit, said, count, explained, words in diagnoses():
            number, whole = number + 1, whole + (explained == count)
            print(f"{unit:<16} {said:<42} {count:>7,} {explained:>9,}  {words or '-'}", flush=True)
        print(f"{whole} of {number} bugs are explained by one cause in full")
        sys.exit()
    print(f"{'unit':<16} {'bug':<42} {'vectors':>7}  point of the plan")
    for unit, said, count, point in table():
        where = "NOT CAUGHT" if point is None else f"{point.group}: {point}"
        print(f"{unit:<16} {said:<42} {count:>7,}  {where}")
