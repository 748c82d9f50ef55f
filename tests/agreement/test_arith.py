"""Operations against the oracle: all pairs of small formats, and chosen and random ones of wide formats.

The oracle is asked once for each exact result. Everything goes through the fast kernels, where they
serve it, and through the general one, which has flags too.
"""

import itertools
import platform
from fractions import Fraction

import numpy as np
import pytest

import lowprec as lp
from lowprec.arrays.checks import code_dtype
from lowprec.arrays.operations import codes_of
from lowprec.oracle import arith as oracle
from lowprec.spec import catalog
from lowprec.spec.arith import OPERANDS
from lowprec.spec.projection import Projection
from lowprec.spec.rounding import MODES
from tests.operations import Expected, agrees, all_tuples, chosen, operand, policy
from tests.support import assert_same_codes, engines_agree, most_apart, value_of

USUAL = ("add", "subtract", "multiply", "divide", "sqrt", "fma")


# -- small formats ----------------------------------------------------------------------------------

PAIRS = [catalog.format(name) for name in ("e4m3fn", "e5m2", "e4m3fnuz", "e3m2fn", "e2m3fn", "e2m1fn")]


@pytest.mark.parametrize("fmt", most_apart(PAIRS, PAIRS[:1]), ids=str)
@pytest.mark.parametrize("operation", [name for name in OPERANDS if name not in ("fma", "scaleb")])
def test_all_operands_agree(operation, fmt):
    """Formats up to 6 bits: all operands or pairs; others: every ninth; to nearest, and some in all modes.

    All of them, in all modes and under all policies, are in `python -m tests.sweep arith`.
    """
    columns = all_tuples(fmt, OPERANDS[operation])
    if fmt.width == 8 and len(columns) > 1:
        columns = [column[PAIRS.index(fmt) :: 9] for column in columns]
    expected = Expected(operation, columns, [fmt] * len(columns))
    agrees(expected, columns, fmt, policy(fmt))
    if fmt == catalog.E2M1FN or (fmt.width < 8 and operation in USUAL):
        saturations = itertools.cycle(("none", "finite", "propagate"))
        for mode, saturation in zip(MODES, saturations, strict=False):
            agrees(expected, columns, fmt, policy(fmt, rounding=mode, saturation=saturation))


TRIPLES = [catalog.format(name) for name in ("e2m1fn", "e4m3fnuz", "int4", "uint4", "e8m0fnu", "bfloat16")]
TRIPLES.append(catalog.BINARY32)


@pytest.mark.apart
@pytest.mark.parametrize("target", most_apart(TRIPLES, [TRIPLES[0], TRIPLES[1], TRIPLES[4]]), ids=str)
def test_all_triples_agree(target):
    """Fma of the 4-bit format, into itself in every mode and under every policy.

    Usually into one without -0 and infinities, and one of powers of two alone.
    """
    columns = all_tuples(catalog.E2M1FN, 3)
    expected, itself = Expected("fma", columns, [catalog.E2M1FN] * 3), target == catalog.E2M1FN
    modes = MODES if itself else ("nearest_even", "toward_negative", "to_odd")
    for mode, saturation in itertools.product(modes, ("none", "finite", "propagate")[: 3 if itself else 1]):
        agrees(expected, columns, target, policy(target, rounding=mode, saturation=saturation))


# -- wide formats -----------------------------------------------------------------------------------


@pytest.mark.apart
@pytest.mark.parametrize("name", ["binary16", "bfloat16", "binary32"])
@pytest.mark.parametrize("operation", [*USUAL, "remainder", "round_to_integral", "logb", "minimum_number"])
def test_chosen_and_random_operands_of_wide_formats_agree(operation, name):
    """To nearest, and fewer in all modes; into the format itself and into narrow ones.

    A kernel reads, operates and writes in three steps that know nothing of each other: each operation reads
    all three formats and writes all targets, but does not go from each to each.
    """
    fmt = catalog.format(name)
    columns = chosen(operation, fmt, 1200, 0)
    expected = Expected(operation, columns, [fmt] * len(columns))
    narrow = (catalog.E4M3FN, catalog.BFLOAT16) if fmt == catalog.BINARY32 or operation not in USUAL else ()
    for target in dict.fromkeys((fmt, *narrow)):
        agrees(expected, columns, target, Projection())
    columns = chosen(operation, fmt, 150, 1)
    expected = Expected(operation, columns, [fmt] * len(columns))
    for mode in MODES[1:]:
        agrees(expected, columns, fmt, Projection(rounding=mode))
        agrees(expected, columns, catalog.E5M2, Projection(rounding=mode))


NARROW = (catalog.E4M3FN, catalog.E5M2, catalog.BINARY16, catalog.BFLOAT16)


@pytest.mark.apart
@pytest.mark.parametrize(
    ("operation", "target"),
    most_apart(itertools.product(USUAL, NARROW), [("add", catalog.E4M3FN), ("add", catalog.BFLOAT16)]),
    ids=str,
)
def test_results_near_ties_of_narrow_formats_agree(operation, target):
    """float32 operands whose results lie on a tie of the target, or closer to it than binary32 tells."""
    columns = near_ties(operation, target)
    expected = Expected(operation, columns, [catalog.BINARY32] * len(columns))
    for mode in ("nearest_even", "toward_positive", "to_odd", "nearest_zero"):
        agrees(expected, columns, target, Projection(rounding=mode))


@pytest.mark.apart
@pytest.mark.parametrize(
    ("mode", "name"),
    most_apart(itertools.product(MODES, ("bfloat16", "tf32")), [(MODES[0], "bfloat16")]),
    ids=str,
)
def test_sums_beside_the_largest_binary32_number_agree(mode, name):
    """There binary32 no longer finds what a sum was rounded by; and small sums stand beside large ones."""
    rng, largest = np.random.default_rng(5), np.float32(np.finfo(np.float32).max)
    near = rng.integers(0x7D00, 0x7F80, 4096).astype(np.uint32) << 16 | rng.choice([0, 0x8000], 4096)
    x = (np.float64(largest) - near.astype(np.uint32).view(np.float32)).astype(np.float32)
    x = (x.view(np.uint32) + rng.integers(0, 3, x.size).astype(np.uint32) - np.uint32(1)).view(np.float32)
    x[::4] = np.ldexp(rng.uniform(1, 2, 1024), rng.integers(-149, 128, 1024)).astype(np.float32)
    x *= rng.choice([1, -1], x.size).astype(np.float32)
    y = np.where(rng.random(x.size) < 0.8, np.copysign(largest, -x), np.roll(x, 1))
    for saturation, operation in itertools.product(("none", "finite"), (lp.add, lp.subtract)):
        rule = {"rounding": mode, "saturation": saturation, "dtype": np.float32}
        found, plain = (
            engines_agree(operation, x, y, name, backends=("vector", "scalar"), flags=flags, **rule)
            for flags in (True, False)
        )
        assert found.tobytes() == plain.tobytes()


@pytest.mark.apart
@pytest.mark.parametrize("name", ["e4m3fn", "binary16"])
def test_what_is_left_of_a_product_and_a_sum_is_not_lost(name):
    """A product just beside a value or a tie, plus what takes it there but for a last place, which decides.

    Among them those where the processor's product is a value, its sum another, and only the
    smallest of all parts tells where the exact result lies.
    """
    target = catalog.format(name)
    columns = nearly_cancelled(target)
    expected = Expected("fma", columns, [catalog.BINARY32] * 3)
    operands = [operand(column, catalog.BINARY32) for column in columns]
    for mode in ("nearest_even", "toward_positive", "toward_negative", "to_odd"):
        how = Projection(rounding=mode)
        got = codes_of("fma", operands, target, how, code_dtype(target))
        assert_same_codes(got, expected.codes(target, how), target, expected.rows, how)


def nearly_cancelled(target):
    """Three columns of binary32 codes; x * y and z cancel but for at most a few thousand last places."""
    rng = np.random.default_rng(11)
    rows = []
    for d in range(1, 120):  # products of 2**47 + 2**23 - (2 d - 1) d, just below half a last place
        rows += [((1 << 24) - (2 * d - 1), (1 << 23) + d, Fraction(1 << 47))]
    rows = [(Fraction(x, 1 << 23), Fraction(y, 1 << 23), goal / (1 << 46)) for x, y, goal in rows]
    for magnitude in rng.integers(1 << target.trailing_bits, target.max_magnitude, 60).tolist():
        below, above = value_of(magnitude, target), value_of(magnitude + 1, target)
        for goal in (below, (below + above) / 2):
            x = np.float32(rng.uniform(1, 2))
            y = np.float32(float(goal) / x)
            rows += [
                (Fraction(float(x)), Fraction(float(beside)), goal)
                for beside in (y, np.nextafter(y, np.float32(0)), np.float32(y * 1.25))
            ]
    columns = []
    for x, y, goal in rows:
        z = np.float32(float(goal - x * y))
        for steps, up in itertools.product((-3, -2, -1, 0, 1, 2, 3), (1, -1)):
            addend = (z.view(np.int32) + steps).view(np.float32)
            columns.append((np.float32(up * float(x)), np.float32(y), np.float32(up * addend)))
    return [
        np.array(column, np.float32).view(np.uint32).astype(np.int64) for column in zip(*columns, strict=True)
    ]


def near_ties(operation, target):
    """Operands of binary32, as columns of codes."""
    rng = np.random.default_rng(7)
    magnitudes = rng.integers(0, target.max_magnitude, 40)
    ties = np.array(
        [float(sum(map(value_of, (m, m + 1), (target, target))) / 2) for m in magnitudes.tolist()]
    )
    ties *= rng.choice([-1, 1], ties.size)
    # At the tie, and a hair above and below it, of very different sizes.
    hair = np.concatenate(
        [[0.0], *([s * 2.0**-e] for s in (1, -1) for e in (1, 10, 23, 24, 25, 40, 60, 90, 140))]
    )
    base, off = (grid.reshape(-1) for grid in np.meshgrid(ties, hair))
    with np.errstate(all="ignore"):
        return [
            values.astype(np.float32).view(np.uint32).astype(np.int64)
            for values in tied(operation, base, off * np.abs(base), rng)
        ]


def tied(operation, base, off, rng):
    """Operands of an operation whose result is base + off, or close to it."""
    if operation == "add":
        return base, off
    if operation == "subtract":
        return off, -base
    if operation == "fma":
        factor = rng.choice([0.5, 3.0, -1.25, 2.0**-30, 2.0**40], base.size)
        return (base / factor).astype(np.float32).astype(np.float64), factor, off
    # With 24 bits, operands are rounded beside the tie: the last place of the result is then all that tells.
    other = rng.choice(
        [1.0, -3.0, 1 + 2.0**-23, -1 - 2.0**-23, 2.0**-20 * 0xABCDEF, -float(0xFEDCBB), 2.0**60], base.size
    )
    exact = (
        base * other if operation == "divide" else base / other if operation == "multiply" else base * base
    )
    beside = (exact * (1 + np.sign(off) * 2.0**-23)).astype(np.float32).astype(np.float64)
    return (beside,) if operation == "sqrt" else (beside, other)


# -- limits -----------------------------------------------------------------------------------------


@pytest.mark.apart
def test_float64_operands_at_their_limits_are_exact():
    """The largest and the smallest, gaps of 2000 binades, and what only shows in the 107th bit."""
    one, hair = 1.0, 2.0**-1074
    cases = [
        ("add", (one + 2.0**-4, hair), "e4m3fn", {}),
        ("add", (one + 2.0**-4, -hair), "e4m3fn", {}),
        ("add", (1.7976931348623157e308, -1.7976931348623155e308), "binary32", {}),
        ("multiply", (hair, hair), "e4m3fn", {"rounding": "toward_positive"}),
        ("multiply", (1.7976931348623157e308, 1.7976931348623157e308), "e5m2", {"rounding": "toward_zero"}),
        ("multiply", (1 + 2.0**-52, 1 + 2.0**-52), "binary32", {"rounding": "away_from_zero"}),
        ("divide", (hair, 1.7976931348623157e308), "binary32", {"rounding": "away_from_zero"}),
        ("divide", (1.7976931348623157e308, hair), "binary32", {"rounding": "toward_zero"}),
        ("divide", (1.0, 3.0), "binary32", {}),
        ("sqrt", (hair,), "binary32", {}),
        ("sqrt", (1 + 2.0**-52,), "bfloat16", {"rounding": "toward_positive"}),
        ("fma", (1 + 2.0**-30, 1 - 2.0**-30, -1.0), "binary32", {}),
        ("fma", (1 + 2.0**-52, 1 + 2.0**-52, -(1 + 2.0**-51)), "binary32", {}),
        (
            "fma",
            (1.7976931348623157e308, 2.0, -1.7976931348623157e308),
            "binary32",
            {"rounding": "toward_zero"},
        ),
        ("remainder", (1.7976931348623157e308, hair * 3), "binary32", {}),
    ]
    for operation, values, name, options in cases:
        target = catalog.format(name)
        got = getattr(lp, operation)(*values, target, dtype=code_dtype(target), **options)
        codes = [int(np.float64(value).view(np.uint64)) for value in values]
        want, _ = oracle.operate(
            operation, codes, [catalog.BINARY64] * len(codes), target, Projection(**options)
        )
        assert int(got) == want, (operation, values, name, options)


def test_integers_are_exact_operands():
    """Of 64 bits, whose product has 128 and whose sum with another has one more."""
    values = np.array([(1 << 64) - 1, 1 << 63, (1 << 63) + 1, 3, 1], np.uint64)
    x, y, z = (column.reshape(-1) for column in np.meshgrid(values, values, values))
    kind = catalog.CARRIERS["uint64"]
    for mode in MODES:
        got = lp.fma(x, y, z, "binary32", rounding=mode, dtype="uint32")
        rows = list(zip(x.tolist(), y.tolist(), z.tolist(), strict=True))
        want = [
            oracle.operate("fma", row, [kind] * 3, catalog.BINARY32, Projection(rounding=mode))[0]
            for row in rows
        ]
        assert got.tolist() == want


# -- others -----------------------------------------------------------------------------------------


@pytest.mark.apart
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="compares with an x86 processor")
def test_nans_are_those_of_an_x86_processor():
    """NumPy's float32 operations are the processor's: payloads, signs, and the NaN that it generates."""
    words = [
        0x7FC00001, 0xFFC12345, 0x7F800001, 0xFF8ABCDE, 0x7F800000, 0xFF800000, 0, 0x80000000, 0x3F800000,
        0xBF800000,
    ]  # fmt: skip
    x, y = (grid.astype(np.uint32).reshape(-1).view(np.float32) for grid in np.meshgrid(words, words))
    with np.errstate(all="ignore"):
        for operation in ("add", "subtract", "multiply", "divide"):
            want = getattr(np, operation)(x, y).view(np.uint32)
            got = getattr(lp, operation)(x, y, "binary32", profile="x86").view(np.uint32)
            assert (got == want).all(), operation
        assert (lp.sqrt(x, "binary32", profile="x86").view(np.uint32) == np.sqrt(x).view(np.uint32)).all()


@pytest.mark.apart
def test_nans_are_those_of_arm_and_risc_v():
    """Whose NaN, and its payload: Arm takes signaling ones first, and fma's addend; RISC-V has one NaN."""
    quiet, signaling, other, one = 0x7E01, 0xFC02, 0xFE03, 0x3C00
    f16 = [catalog.BINARY16] * 3

    def of(operation, *codes, profile):
        values = [np.uint16(code).view(np.float16) for code in codes]
        return int(getattr(lp, operation)(*values, "binary16", profile=profile, dtype="uint16"))

    assert of("add", quiet, signaling, profile="arm") == 0xFE02
    assert of("add", quiet, signaling, profile="x86") == 0x7E01
    assert of("add", other, quiet, profile="arm") == 0xFE03
    assert of("fma", quiet, one, other, profile="arm") == 0xFE03
    assert of("fma", quiet, one, other, profile="x86") == 0x7E01
    assert of("fma", 0, 0x7C00, other, profile="arm") == 0x7E00
    assert of("divide", 0, 0, profile="x86") == 0xFE00
    for profile in ("arm_default_nan", "riscv"):
        assert of("add", other, one, profile=profile) == of("divide", 0, 0, profile=profile) == 0x7E00
    for profile in ("arm", "x86", "riscv"):
        projection = lp.profiles[profile].projection(catalog.BINARY16)
        for operation, codes in (
            ("add", (quiet, signaling)),
            ("fma", (0, 0x7C00, other)),
            ("fma", (quiet, one, other)),
        ):
            want, _ = oracle.operate(operation, codes, f16[: len(codes)], catalog.BINARY16, projection)
            assert of(operation, *codes, profile=profile) == want


def test_integers_are_those_of_arm_and_risc_v():
    """NaN is 0 on Arm and the largest integer on RISC-V; what does not fit saturates."""
    values = [np.nan, -np.nan, np.inf, -np.inf, 1e9, -3.0, 2.5]
    assert lp.encode(values, "uint8", profile="arm").tolist() == [0, 0, 255, 0, 255, 0, 2]
    assert lp.encode(values, "uint8", profile="riscv").tolist() == [255, 255, 255, 0, 255, 0, 2]
    assert lp.encode(values, "int8", profile="riscv").view(np.int8).tolist() == [
        127,
        127,
        127,
        -128,
        127,
        -3,
        2,
    ]
