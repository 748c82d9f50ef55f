"""The oracle's dot products: plain sums against NumPy and the oracle's own operations, hardware by hand."""

import dataclasses
import itertools
import math
import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

from lowprec.oracle import arith, convert
from lowprec.oracle.dot import dot
from lowprec.oracle.exact import from_float
from lowprec.oracle.terms import Term, total
from lowprec.spec.accumulation import Accumulation, Window
from lowprec.spec.accumulations import accumulation
from lowprec.spec.catalog import BINARY16, BINARY32, BINARY64, E2M1FN, E4M3FN, E4M3FNUZ
from lowprec.spec.projection import Projection
from lowprec.spec.rounding import MODES
from tests.support import INF, NAN, NEG_INF, NEG_NAN, NEG_ZERO

F = Fraction
ONE, ZERO = F(1), F(0)
SINGLE, HALF, DOUBLE = (BINARY32, Projection()), (BINARY16, Projection()), (BINARY64, Projection())

#: Binary32 values among which sums cancel, round, overflow and underflow.
FLOATS = st.one_of(
    st.floats(width=32, allow_nan=False),
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.0**-24, 2.0**-149, 2.0**127, math.inf, -math.inf]),
)
PAIRS = st.lists(st.tuples(FLOATS, FLOATS), max_size=9)


def two(power: int) -> Fraction:
    return F(2) ** power


def exact_values(floats) -> list:
    return [from_float(float(value)) for value in floats]


def codes(values) -> list[int]:
    """Of binary32 numbers, all NaNs as one."""
    return [0x7FC00000 if value != value else int(np.float32(value).view(np.uint32)) for value in values]


def run(pairs, how, addend=0.0) -> int:
    """The code of a binary32 dot product of floats, all NaNs as one."""
    x, y = exact_values(a for a, _ in pairs), exact_values(b for _, b in pairs)
    code = dot(x, y, how, from_float(addend))
    return 0x7FC00000 if code & 0x7FFFFFFF > 0x7F800000 else code


# -- plain sums -------------------------------------------------------------------------------------


@given(pairs=PAIRS, addend=FLOATS)
def test_binary32_in_sequence_is_what_numpy_computes(pairs, addend):
    """One multiplication and one addition after the other."""
    with np.errstate(all="ignore"):
        total_of = np.float32(addend)
        for x, y in pairs:
            total_of = total_of + np.float32(x) * np.float32(y)
    assert run(pairs, accumulation("fp32_sequential"), addend) == codes([total_of])[0]


@given(pairs=PAIRS, addend=FLOATS)
def test_a_binary64_accumulator_is_pythons_float(pairs, addend):
    """Products of binary32 are exact in it."""
    total_of = addend
    for x, y in pairs:
        total_of += x * y
    with np.errstate(all="ignore"):
        assert run(pairs, accumulation("fp64_sequential"), addend) == codes([np.float32(total_of)])[0]


@given(pairs=PAIRS, addend=FLOATS)
def test_exact_products_in_sequence_are_fused(pairs, addend):
    """Each step is the oracle's own fma."""
    running = convert.encode(addend, BINARY32)
    for x, y in pairs:
        factors = [convert.encode(x, BINARY32), convert.encode(y, BINARY32)]
        running, _ = arith.operate("fma", [*factors, running], [BINARY32] * 3, BINARY32)
    got = run(pairs, accumulation("fp32_fma"), addend)
    assert got == (0x7FC00000 if running & 0x7FFFFFFF > 0x7F800000 else running)


def tree(values: list[np.float32]) -> np.float32:
    while len(values) > 1:
        odd = values[len(values) & ~1 :]
        values = [left + right for left, right in zip(values[0:-1:2], values[1::2], strict=True)] + odd
    return values[0]


@given(pairs=st.lists(st.tuples(FLOATS, FLOATS), min_size=1, max_size=9))
def test_pairwise_adds_neighbours(pairs):
    """Then neighbours of the sums; an odd one goes up."""
    with np.errstate(all="ignore"):
        want = tree([np.float32(x) * np.float32(y) for x, y in pairs])
    x, y = exact_values(a for a, _ in pairs), exact_values(b for _, b in pairs)
    code = dot(x, y, accumulation("fp32_pairwise"))
    assert (0x7FC00000 if code & 0x7FFFFFFF > 0x7F800000 else code) == codes([want])[0]


@given(pairs=st.lists(st.tuples(FLOATS, FLOATS), max_size=9), size=st.integers(1, 5), addend=FLOATS)
def test_chunks_are_summed_from_zero_and_then_added(pairs, size, addend):
    """Those of the inner order pairwise as well."""
    in_sequence, in_pairs = (
        Accumulation(product=SINGLE, order=spelled, accumulator=SINGLE, output=SINGLE)
        for spelled in (f"chunked({size})", f"chunked({size}, pairwise)")
    )
    with np.errstate(all="ignore"):
        products = [np.float32(x) * np.float32(y) for x, y in pairs]
        straight = paired = np.float32(addend)
        for first in range(0, len(products), size):
            chunk = products[first : first + size]
            part = np.float32(0)
            for term in chunk:
                part = part + term
            straight, paired = straight + part, paired + tree(chunk)
    assert [run(pairs, in_sequence, addend), run(pairs, in_pairs, addend)] == codes([straight, paired])


@given(pairs=st.lists(st.tuples(FLOATS, FLOATS), min_size=1, max_size=6), data=st.data())
def test_the_exact_sum_does_not_depend_on_the_order(pairs, data):
    """It is the projection of the real number."""
    shuffled = data.draw(st.permutations(pairs))
    exact = accumulation("exact")
    got = run(pairs, exact)
    assert got == run(shuffled, exact)
    if all(math.isfinite(value) for pair in pairs for value in pair):
        real = sum((F(x) * F(y) for x, y in pairs), ZERO)
        assert got & 0x7FFFFFFF == convert.project(real, BINARY32) & 0x7FFFFFFF


def test_the_total_of_chunks_may_be_wider_than_their_sums():
    """2048 + 1 is 2048 in binary16; two such chunks are 4096, and 4097 if the total adds a single one."""
    how = Accumulation(order="chunked(2)", accumulator=HALF, total=SINGLE, output=SINGLE)
    x = [F(2048), ONE, F(2048), ONE, ONE]
    assert dot(x, [ONE] * 5, how) == convert.project(F(4097), BINARY32)


def test_leaves_of_a_tree_are_not_projected():
    """Only sums are, and that of a single leaf: 1 + 2**-11 and its opposite cancel."""
    how = Accumulation(order="pairwise", accumulator=HALF, output=SINGLE)
    value = 1 + two(-11)
    assert dot([value], [ONE], how) == convert.project(ONE, BINARY32)
    assert dot([value, ONE], [ONE, -ONE], how) == convert.project(two(-11), BINARY32)


@pytest.mark.parametrize(
    ("order", "code"),
    [("sequential", 0x3C00), ("pairwise", 0x3C01), ("chunked(2)", 0x3C01), ("chunked(3)", 0x3C00)],
)
def test_orders_differ(order, code):
    """1 + 2**-11 + 2**-11 in binary16, whose ulp is 2**-10: added to 1, a half goes to the even number."""
    how = Accumulation(order=order, accumulator=HALF, output=HALF)
    assert dot([ONE, ZERO, two(-11), two(-11)], [ONE] * 4, how) == code


# -- the addend -------------------------------------------------------------------------------------


def test_the_addend_is_rounded_to_nearest_where_it_is_added():
    """1 + 2**-11 is 1 in binary16, in an accumulator that rounds up too."""
    up = (BINARY16, Projection(rounding="toward_positive"))
    for place in ("first", "last"):
        how = Accumulation(accumulator=up, addend=place, output=SINGLE)
        assert dot([ONE], [ONE], how, 1 + two(-11)) == convert.project(F(2), BINARY32)


def test_the_addend_comes_last_where_it_is_said():
    """2048 + (1 + 1) and (2048 + 1) + 1 in binary16."""
    codes_of = {
        place: dot([ONE, ONE], [ONE, ONE], Accumulation(accumulator=HALF, addend=place, output=HALF), F(2048))
        for place in ("first", "last")
    }
    assert codes_of == {"first": 0x6800, "last": 0x6801}


def test_in_pairwise_order_the_addend_is_the_first_leaf():
    """(2048 + 1) + (1 + 1), or at the end of ((1 + 1) + 1)."""
    first = Accumulation(order="pairwise", accumulator=HALF, output=HALF)
    last = dataclasses.replace(first, addend="last")
    assert dot([ONE] * 3, [ONE] * 3, first, F(2048)) == convert.project(F(2050), BINARY16)
    assert dot([ONE] * 3, [ONE] * 3, last, F(2048)) == convert.project(F(2052), BINARY16)


def test_the_addend_joins_the_total_of_chunks():
    """And not their sums, which are of another format."""
    how = Accumulation(order="chunked(2)", accumulator=HALF, total=SINGLE, output=SINGLE)
    for place in ("first", "last"):
        got = dot([ONE] * 2, [ONE] * 2, dataclasses.replace(how, addend=place), F(1 << 20) + F(1, 8))
        assert got == convert.project(F(1 << 20) + F(17, 8), BINARY32)


def test_the_addend_after_a_window_is_added_by_the_output():
    """To nearest in binary32, while the window cuts."""
    window = Window(step=4, fraction_bits=24, result=(BINARY32, Projection(rounding="toward_zero")))
    how = Accumulation(operands=(BINARY16, BINARY16), accumulator=window, addend="last", output=SINGLE)
    three = [ONE, two(-12), two(-12)]
    assert dot(three, three, how, two(-23)) == 0x3F800002
    assert dot(three, three, dataclasses.replace(how, addend="first"), two(-23) + two(-24)) == 0x3F800002
    assert dot([ONE], [ONE], how, two(-23) * F(3, 2)) == 0x3F800002


@pytest.mark.parametrize(
    "name", ["fp32_fma", "fp32_pairwise", "exact", "volta_mma_binary16_binary32", "chunks"]
)
def test_without_products_there_is_the_addend_or_zero(name):
    """No step is made."""
    chunks = Accumulation(order="chunked(4)", accumulator=SINGLE, output=SINGLE)
    how = chunks if name == "chunks" else accumulation(name)
    assert dot([], [], how) == 0
    assert dot([], [], how, F(3)) == 0x40400000


# -- zeros and what is no number --------------------------------------------------------------------

EDGES = (ZERO, NEG_ZERO, ONE, -ONE, INF, NEG_INF, NAN, NEG_NAN)


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_sums_of_two_terms_are_those_of_the_operations(mode):
    """`add` of two values, and `fma` of a product and a value: zeros, infinities and the signs of NaNs."""
    for x, y in itertools.product(EDGES, EDGES):
        want = arith.exact("add", (x, y), mode).value
        assert total([Term(x), Term(y)], mode).value == want
        for z in EDGES:
            how = Accumulation(accumulator=(BINARY32, Projection(rounding=mode)), output=SINGLE)
            want = arith.exact("fma", (x, y, z), mode).value
            assert dot([x], [y], how, z) == convert.project(want, BINARY32)
            assert dot([x], [y], Accumulation(order="exact", output=how.accumulator), z) == dot(
                [x], [y], how, z
            )


@pytest.mark.parametrize(
    ("terms", "downward", "nearest"),
    [
        ([], ZERO, ZERO),
        ([NEG_ZERO] * 3, NEG_ZERO, NEG_ZERO),
        ([ZERO] * 3, ZERO, ZERO),
        ([NEG_ZERO, ZERO, NEG_ZERO], NEG_ZERO, ZERO),
        ([ONE, -ONE, ZERO], NEG_ZERO, ZERO),
        ([ONE, ONE, F(-2)], NEG_ZERO, ZERO),
    ],
)
def test_the_sign_of_an_exact_zero(terms, downward, nearest):
    """That of all terms if it is one; else the mode's."""
    for mode, want in (("toward_negative", downward), ("nearest_even", nearest)):
        how = Accumulation(order="exact", output=(BINARY32, Projection(rounding=mode)))
        got = convert.decode(dot(terms, [ONE] * len(terms), how), BINARY32)
        assert got == want


def test_which_nan_a_sum_is():
    """A fused product precedes the sum, a rounded one follows it; an invalid product yields to an operand."""
    fused, rounded = accumulation("fp32_fma"), accumulation("fp32_sequential")
    assert dot([NEG_NAN], [ONE], fused, NAN) == 0xFFC00000
    assert dot([NEG_NAN], [ONE], rounded, NAN) == 0x7FC00000
    assert dot([INF], [ZERO], fused, NEG_NAN) == dot([INF], [ZERO], rounded, NEG_NAN) == 0xFFC00000
    assert dot([INF, NEG_NAN], [ZERO, ONE], accumulation("exact")) == 0xFFC00000
    assert dot([INF, ONE, NAN], [ONE, NEG_INF, ONE], accumulation("exact"), NEG_NAN) == 0x7FC00000


# -- operands ---------------------------------------------------------------------------------------


def test_operands_are_values_of_their_formats():
    """Each name and place, and the way out."""
    how = Accumulation(operands=(E4M3FN, E2M1FN), accumulator=SINGLE, output=SINGLE)
    assert dot([F(448), NAN], [F(6), ONE], how) == 0x7FC00000
    for x, y, value, name, fmt in (
        ([ONE, F(1, 3)], [ONE, ONE], "x[1]=1/3", "x", "e4m3fn"),
        ([INF], [ONE], "x[0]=+Inf", "x", "e4m3fn"),
        ([ONE], [F(8)], "y[0]=8", "y", "e2m1fn"),
        ([ONE], [NAN], "y[0]=NaN", "y", "e2m1fn"),
    ):
        message = (
            f"{value} is no value of '{fmt}'; quantize {name} first, or set operand_rounding of the "
            "accumulation"
        )
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            dot(x, y, how)


def test_a_negative_zero_is_no_value_of_a_format_without():
    """It would give products a sign that codes cannot."""
    how = Accumulation(operands=(E4M3FNUZ, E4M3FN), accumulator=SINGLE, output=SINGLE)
    assert dot([ONE], [NEG_ZERO], how, NEG_ZERO) == 0x80000000
    with pytest.raises(ValueError, match=r"^x\[0\]=-0 is no value of 'e4m3fnuz'; quantize x first, or set "):
        dot([NEG_ZERO], [ONE], how)


def test_operands_may_be_rounded():
    """By the projection that is given; tf32 operands are cut."""
    cut_to_tf32 = accumulation("ampere_mma_tf32_binary32")
    assert dot([2 - two(-20)], [ONE], cut_to_tf32) == convert.project(2 - two(-10), BINARY32)
    how = Accumulation(
        operands=(E4M3FN, E4M3FN),
        operand_rounding=Projection(saturation="finite"),
        accumulator=SINGLE,
        output=SINGLE,
    )
    assert dot([F(1000)], [F(17, 16)], how) == convert.project(F(448), BINARY32)


def test_products_may_be_rounded():
    """(1 + 2**-10)**2 loses 2**-20 in binary16."""
    value = 1 + two(-10)
    how = Accumulation(product=HALF, accumulator=SINGLE, output=SINGLE)
    assert dot([value], [value], how) == convert.project(1 + two(-9), BINARY32)
    assert dot([value], [value], dataclasses.replace(how, product=None)) == convert.project(
        value**2, BINARY32
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([ONE], [], "fp32_fma"), "x has 1 elements and y has 0; a dot product needs as many of both"),
        (
            ([ONE], [ONE], "rtx_blackwell_mma_e2m1fn_binary32_ue4m3_4"),
            "scales are missing; rtx_blackwell_mma_e2m1fn_binary32_ue4m3_4 takes operands in blocks",
        ),
        *(
            (
                ([ONE], [ONE], name, None, ([ONE], [ONE], 16)),
                f"{name} takes no scales; multiply the elements by them, or take another accumulation",
            )
            for name in ("hopper_mma_binary16_binary32", "cdna3_mfma_binary16_binary32")
        ),
        (
            ([ONE], [ONE], "rtx_blackwell_mma_e2m1fn_binary32_ue4m3_4", None, ([ONE], [ONE], 32)),
            "rtx_blackwell_mma_e2m1fn_binary32_ue4m3_4 has one scale for 16 elements, not for 32; use such "
            "blocks",
        ),
        (
            ([ONE], [ONE], "fp32_fma", None, ([ONE], [ONE], 0)),
            "a block of 0 elements has no scale; use 1 or more",
        ),
        (
            ([ONE] * 5, [ONE] * 5, "fp32_fma", None, ([ONE] * 2, [ONE] * 3, 2)),
            "x has 2 scales; 5 elements in blocks of 2 need 3",
        ),
        (
            ([ONE] * 5, [ONE] * 5, "fp32_fma", None, ([ONE] * 3, [ONE] * 4, 2)),
            "y has 4 scales; 5 elements in blocks of 2 need 3",
        ),
    ],
)
def test_what_does_not_fit_is_refused(arguments, message):
    """With names, and what fits."""
    x, y, name, addend, scales = (*arguments, None, None)[:5]
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        dot(x, y, accumulation(name), addend, scales=scales)


# -- random integers --------------------------------------------------------------------------------

RANDOM = (BINARY16, Projection(rounding="stochastic(8)"))


@pytest.mark.parametrize(
    ("length", "parameters", "asked"),
    [
        (3, {"accumulator": RANDOM}, [0, 1, 2]),
        (3, {"accumulator": RANDOM, "addend": "last"}, [0, 1, 2, 3]),
        (3, {"accumulator": RANDOM, "output": RANDOM}, [0, 1, 2, 3]),
        (3, {"accumulator": SINGLE, "output": RANDOM}, [3]),
        (5, {"accumulator": RANDOM, "order": "pairwise"}, [0, 1, 2, 3]),
        (3, {"accumulator": RANDOM, "order": "chunked(2)"}, [0, 1, 2, 3, 4]),
        (3, {"accumulator": RANDOM, "order": "chunked(2, pairwise)"}, [0, 1, 2, 3]),
        (3, {"accumulator": RANDOM, "order": "chunked(2)", "total": SINGLE}, [0, 1, 3]),
        (3, {"accumulator": SINGLE, "order": "chunked(2)", "total": RANDOM}, [2, 4]),
        (3, {"order": "exact", "output": RANDOM}, [0]),
        (
            5,
            {
                "accumulator": Window(step=2, fraction_bits=24, result=RANDOM),
                "operands": (BINARY16, BINARY16),
                "output": RANDOM,
            },
            [0, 1, 2, 3],
        ),
        (3, {"machine": "cdna3", "operands": (BINARY16, BINARY16), "output": (BINARY32, RANDOM[1])}, [0]),
    ],
)
def test_roundings_are_counted_in_the_order_of_sums(length, parameters, asked):
    """Those that are not stochastic too; the output's is the last."""
    seen = []

    def random(place: int, bits: int) -> int:
        seen.append(place)
        return 0

    dot([ONE] * length, [ONE] * length, Accumulation(**{"output": SINGLE, **parameters}), random=random)
    assert seen == asked


def test_each_sum_has_its_own_random_integer():
    """1 + 2**-18, 2**-8 of an ulp above 1, goes up with 255 only; the next sum from wherever that is."""
    how = Accumulation(accumulator=RANDOM, output=HALF)
    for integers in itertools.product((0, 255), repeat=2):
        want = 0x3C00
        for integer in integers:
            want += integer == 255
        got = dot(
            [two(-9)] * 2, [two(-9)] * 2, how, ONE, random=lambda place, _, given=integers: given[place]
        )
        assert got == want


def test_each_rounding_draws_its_own_bits():
    """The stages of an accumulation may differ in them."""
    how = Accumulation(accumulator=RANDOM, output=(BINARY16, Projection(rounding="stochastic(5)")))
    asked = []
    dot([ONE], [ONE], how, random=lambda place, bits: asked.append((place, bits)) or 0)
    assert asked == [(0, 8), (1, 5)]


def test_random_integers_are_asked_for():
    """Where any rounding needs them."""
    how = Accumulation(accumulator=RANDOM, output=HALF, name="mine")
    with pytest.raises(ValueError, match=r"^random is missing; mine rounds stochastically$"):
        dot([], [], how)


# -- blocks -----------------------------------------------------------------------------------------


def test_a_block_is_one_term():
    """Its products are summed exactly, and both scales multiply the sum: 2049 and 1 are 2050 in binary16."""
    how = Accumulation(accumulator=HALF, output=SINGLE)
    x, y = [F(2048), ONE, ONE, ONE], [ONE] * 4
    assert dot(x, y, how) == convert.project(F(2048), BINARY32)
    assert dot(x, y, how, scales=([ONE], [ONE], 4)) == convert.project(F(2052), BINARY32)
    assert dot(x, y, how, scales=([ONE, F(4)], [ONE, F(1, 2)], 2)) == convert.project(F(2052), BINARY32)
    rounded = dataclasses.replace(
        how, product=(BINARY16, Projection(rounding="toward_zero")), accumulator=SINGLE
    )
    assert dot(x, y, rounded, scales=([ONE, F(4)], [ONE, F(1, 2)], 2)) == convert.project(F(2052), BINARY32)
    assert dot(x, y, rounded, scales=([ONE], [ONE], 4)) == convert.project(F(2050), BINARY32)


def test_scales_that_are_no_numbers():
    """As in any product: NaN is NaN, and an infinity times a sum of zero is invalid."""
    exact = accumulation("exact")
    assert dot([ONE], [ONE], exact, scales=([NEG_NAN], [ONE], 1)) == 0xFFC00000
    assert dot([ONE, -ONE], [ONE, ONE], exact, scales=([ONE], [INF], 2)) == 0x7FC00000
    assert dot([-ONE], [ONE], exact, scales=([ONE], [INF], 1)) == 0xFF800000
    assert dot([INF], [ZERO], exact, scales=([NEG_NAN], [ONE], 1)) == 0xFFC00000
