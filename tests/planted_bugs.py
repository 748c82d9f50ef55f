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
from tests.planted_dot import DOT_BUGS, UNIT, dot

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
        print(f"{'unit':<16} {'bug':<51} {'differ':>7} {'explained':>9}  cause")
        for unit, said, count, explained, words in diagnoses():
            number, whole = number + 1, whole + (explained == count)
            print(f"{unit:<16} {said:<51} {count:>7,} {explained:>9,}  {words or '-'}", flush=True)
        print(f"{whole} of {number} bugs are explained by one cause in full")
        sys.exit()
    print(f"{'unit':<16} {'bug':<51} {'vectors':>7}  point of the plan")
    for unit, said, count, point in table():
        where = "NOT CAUGHT" if point is None else f"{point.group}: {point}"
        print(f"{unit:<16} {said:<51} {count:>7,}  {where}")
