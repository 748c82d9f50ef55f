"""A dot unit in integers, and bugs planted in it: see `tests.planted_bugs`.

Sixteen products of e5m2 in two steps of eight. A step aligns its products and the running sum to the
largest exponent, cuts them toward zero 27 bits behind its point, adds exactly, and rounds the sum to
binary32, ties to even. NaNs are 0x7fffffff. A sum that is zero is +0.
"""

from __future__ import annotations

import lowprec as lp

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
    "terms rounded to nearest, ties to even",
    "terms cut away from zero",
    "sum cut downwards, not its terms",
    "sticky lost: the guard bit alone",
    "sticky lost: the guard bit and one behind it",
    "subnormal sums halved",
    "subnormal sums doubled",
    "all x with a leading one",
    "all x with a leading one, save beside infinities",
    "subnormals of x unknown",
    "subnormal x one exponent too high",
    "subnormal addend with a leading one",
    "all addends with a leading one",
    "subnormals of the addend unknown",
    "subnormal addend one exponent too low",
    "subnormal addend one exponent too high",
    "sign of the addend lost",
    "sign of the addend lost, of numbers alone",
    "addend left out of the largest exponent, or least",
    "addend lost above the exponents of products",
    "addend lost above the exponents of products, or 0",
    "lane 7 lost above the exponents of the others",
    "lane 7 lost above the exponents of the others, or 0",
    "zero sums take the sign of the last product",
    "zero sums take the sign of the addend",
    "zero sums are negative with any term",
    "infinite factors read as numbers",
    "infinities ignored",
    "infinite addend ignored",
    "NaNs ignored",
    "infinity wins against NaN",
    "infinities of unlike signs: the first",
    "infinities of unlike signs: positive",
    "infinities of unlike signs: negative",
    "infinities of unlike signs: positive, over NaN",
    "addend left out",
    "first addend aligned one place too low",
    "first addend aligned one place too high",
    "steps of alternate pairs",
    "signs of x lost",
]

#: Of these the largest exponent is the least where nothing else counts, of others it is 0.
FROM_THE_LEAST = (
    "addend left out of the largest exponent, or least",
    "addend lost above the exponents of products",
    "lane 7 lost above the exponents of the others",
)


def e5m2(code, bug, side):
    """Return class, sign, significand, exponent of its last bit, and whether it is zero.

    The class is "n", "i" or "x" for NaN.
    """
    sign, field, fraction = code >> 7, code >> 2 & 31, code & 3
    if field == 31 and (fraction or bug != "infinite factors read as numbers"):
        return ("x" if fraction else "i"), sign, 0, 0, False
    if field:
        return "n", sign, 4 + fraction, field - 17, False
    said, low, zero = bug.replace(f" {side} ", " * "), -16, not fraction
    if said == "subnormal * with a leading one":
        fraction += 4 * (fraction > 0)
    if said.startswith("all * with a leading one") or bug == f"subnormals of {side} unknown":
        fraction += 4
        zero &= said.endswith(", save beside infinities")
    if said == "subnormal * one exponent too low" or bug == f"subnormals of {side} unknown":
        low = -17
    if said == "subnormal * one exponent too high":
        low = -15
    if said == "subnormal * taken as zero":
        fraction, zero = 0, True
    return "n", sign, fraction, low, zero


def binary32(code, bug):
    """Return class, sign, significand and exponent of the last bit."""
    sign, field, fraction = code >> 31, code >> 23 & 255, code & 0x7FFFFF
    if bug == "sign of the addend lost" or (
        bug == "sign of the addend lost, of numbers alone" and field < 255
    ):
        sign = 0
    if field == 255:
        return ("x" if fraction else "i"), sign, 0, 0
    if field:
        return "n", sign, fraction | 1 << 23, field - 150
    low, leading = -149, 0
    if bug in ("all addends with a leading one", "subnormals of the addend unknown"):
        leading = 1
    if bug == "subnormal addend with a leading one":
        leading = int(fraction > 0)
    if bug in ("subnormal addend one exponent too low", "subnormals of the addend unknown"):
        low = -150
    if bug == "subnormal addend one exponent too high":
        low = -148
    return "n", sign, fraction | leading << 23, low


def rounded(sign, total, last, bug):
    """Return the code of total * 2**last in binary32, ties to even."""
    if not total:
        return sign << 31
    top = total.bit_length() - 1 + last
    places = max(top, -126) - 23 - last
    if bug == "rounded to 27 bits first" and places > 3:
        kept, tail, half = total >> places - 3, total & (1 << places - 3) - 1, 1 << places - 4
        total = kept + (tail > half or (tail == half and kept & 1)) << places - 3
    off = {"subnormal sums halved": 1, "subnormal sums doubled": -1}.get(bug, 0)
    if top < -126 and off:  # shifted too far, and written as if not
        places, last = places + off, last - off
    if places > 0:
        kept, tail, half = total >> places, total & (1 << places) - 1, 1 << places - 1
        if bug == "sticky lost: one bit below the guard bit" and tail == half + 1:
            tail = half
        if bug == "sticky lost: the guard bit alone":
            tail &= half
        if bug == "sticky lost: the guard bit and one behind it":
            tail &= half | half >> 1
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
    nan, infinite = kind == "x" and bug not in ("NaN addend ignored", "NaNs ignored"), []
    if kind == "i" and bug != "infinite addend ignored":
        infinite.append(sign)
    terms = []
    for place, (left, right) in enumerate(lanes):
        kinds, product = left[0] + right[0], left[1] ^ right[1]
        product = {
            "signs of products lost": 0,
            "sign of y ignored": left[1],
            "signs of x lost": right[1],
        }.get(bug, product)
        if bug == "two negatives stay negative" and left[1] and right[1]:
            product = 1
        ignored = (bug == "NaN in y ignored" and kinds == "nx") or (
            bug == "NaN in upper lanes ignored" and place > 3
        )
        ignored |= bug == "NaNs ignored"
        if "x" in kinds:
            nan |= not ignored
        elif "i" in kinds:
            if bug == "infinite product is zero":
                terms.append((place, product, 0, 0, 0))
            elif not left[4] and not right[4]:
                infinite.append(product)
            elif bug != "zero times infinity is zero":
                nan = True
        else:
            top = left[3] + right[3] + 4
            if bug == "products normalized before alignment":
                top += max((left[2] * right[2]).bit_length() - 5, -40)
            terms.append((place, product, left[2] * right[2], left[3] + right[3], top))
    if bug == "infinities ignored":
        infinite = []
    if len(set(infinite)) > 1:
        if bug == "infinities of unlike signs are infinite":
            return infinite[-1] << 31 | 255 << 23
        if bug == "infinities of unlike signs: positive, over NaN":
            return 0x7F800000
        if not nan and bug.startswith("infinities of unlike signs: "):
            return {"first": infinite[0], "positive": 0, "negative": 1}[bug.split()[-1]] << 31 | 255 << 23
    elif infinite and bug == "infinity wins against NaN":
        nan = False
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
    left_out = {
        "addend left out of the largest exponent": -1,
        "addend lost above the exponents of products": -1,
        "lane 7 left out of the largest exponent": 7,
        "lane 7 lost above the exponents of the others": 7,
    }.get(bug.removesuffix(", or 0").removesuffix(", or least"))
    counted = [
        term[4] for term in terms
        if (term[2] or bug == "zeros set the largest exponent")
        and term[0] != left_out
    ]  # fmt: skip
    largest = max(counted, default=-5000 if bug in FROM_THE_LEAST else 0)
    if " lost above " in bug:
        terms = [term for term in terms if term[0] != left_out or term[4] <= largest]
    places = 27 + {"window one bit short": -1, "window one bit long": 1}.get(bug, 0)
    total, extra = 0, 400 if bug in ("sum cut, not its terms", "sum cut downwards, not its terms") else 0
    for place, negative, significand, exponent, _ in terms:
        if place == -1:
            exponent += {"addend aligned one place too low": -1, "addend aligned one place too high": 1}.get(
                bug, 0
            )
        if place == -1 and first:
            exponent += {
                "first addend aligned one place too low": -1,
                "first addend aligned one place too high": 1,
            }.get(bug, 0)
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
            if bug == "terms rounded to nearest, ties to even":
                cut += 2 * lost + (cut & 1) > 1 << -shift
            if bug == "terms cut away from zero":
                cut += lost > 0
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
    total = (
        total >> extra
        if bug == "sum cut downwards, not its terms"
        else (abs(total) >> extra) * (-1 if total < 0 else 1)
    )
    if bug == "carry out of 4 bits lost":
        total = (abs(total) & (1 << places + 4) - 1) * (-1 if total < 0 else 1)
    if not total:
        signs = {term[1] for term in terms}
        of_lane = {term[0]: term[1] for term in terms}
        minus = {
            "-0 of a zero sum": signs == {1},
            "sign of a cancelled sum kept": bool(terms) and terms[0][1],
            "zero sums take the sign of the last product": of_lane.get(7, 0),
            "zero sums take the sign of the addend": of_lane.get(-1, 0),
            "zero sums are negative with any term": 1 in signs,
        }
        return minus.get(bug, 0) << 31
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
    if bug == "steps of alternate pairs":
        steps = [[pairs[place] for place in range(16) if place & 2 == half] for half in (0, 2)]
    if bug == "addend left out":
        c = 0
    if bug == "running sum not rounded between steps" and not any(
        "n" != side[0] for pair in pairs for side in pair
    ):
        steps = [pairs]
    for number, lanes in enumerate(steps):
        c = step(lanes, binary32(c, bug), bug, number == 0)
    return c
