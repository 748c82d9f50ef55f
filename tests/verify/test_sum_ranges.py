"""No order of summation leaves the range that `sum_ranges` gives, and some nearly reach its ends."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from fractions import Fraction

import numpy as np
import pytest

import lowprec as lp
from lowprec.oracle.convert import decode, project
from lowprec.spec import catalog
from lowprec.spec.accumulations import accumulation
from lowprec.spec.families import ieee
from lowprec.spec.projection import Projection
from lowprec.verify.codes.values import distances
from lowprec.verify.reference.sum_ranges import check_bound, ranges, results

SMALL = ieee("small", 4, 3)
OUTPUT = (catalog.BINARY32, Projection())

PROJECTIONS = {
    "nearest": Projection(),
    "away": Projection(rounding="away_from_zero"),
    "zero": Projection(rounding="toward_zero"),
    "down": Projection(rounding="toward_negative"),
    "odd": Projection(rounding="to_odd"),
    "flushed": Projection(subnormals="flush_results"),
    "flushed before": Projection(subnormals="flush_results", tininess="before"),
    "exponent": Projection(rounding="toward_zero", overflow_test="exponent"),
    "saturated": Projection(saturation="finite"),
    "zero, saturated": Projection(rounding="toward_zero", saturation="finite"),
}


def terms(kind, rng, length):
    """Factors whose products are hard to add in a few bits."""
    if kind == "cancelling":
        x = rng.integers(8, 16, length) * 2.0 ** rng.integers(-3, 3, length)
        x[length // 2 :] = -x[: length - length // 2] * (1 + 2.0 ** -rng.integers(2, 6))
    elif kind == "subnormal":
        x = rng.integers(-15, 16, length) * 2.0 ** rng.integers(-13, -9, length)
    elif kind == "large":
        x = rng.integers(-15, 16, length) * 2.0 ** rng.integers(2, 5, length)
    else:
        x = rng.standard_normal(length) * np.exp2(rng.integers(-4, 4, length))
    x = np.asarray(lp.quantize(x, "bfloat16"), np.float64)
    return x, np.asarray(rng.choice([1.0, 1.5, -1.0, 0.375], length))


def any_tree(products, rounded):
    """Every finite number that some order and grouping of the products makes, each sum rounded."""

    @functools.cache
    def round_off(value):
        found = decode(project(value, *rounded), rounded[0])
        if isinstance(found, Fraction):
            return found
        return Fraction(0) if "zero" in found.name.lower() else None

    @functools.cache
    def made(chosen):
        if len(chosen) == 1:
            exact = products[chosen[0]]
            return {exact, round_off(exact)} - {None}
        found = set()
        first, rest = chosen[0], chosen[1:]
        for size in range(len(rest)):
            for beside in itertools.combinations(rest, size):
                left, right = (first, *beside), tuple(each for each in rest if each not in beside)
                found |= {round_off(a + b) for a in made(left) for b in made(right)}
        return found - {None}

    return made(tuple(range(len(products))))


@pytest.mark.parametrize("kind", ["random", "cancelling", "subnormal", "large"])
@pytest.mark.parametrize("projection", PROJECTIONS.values(), ids=PROJECTIONS)
def test_no_tree_of_sums_leaves_the_range(projection, kind):
    """All trees over five products, fused or not, in an accumulator of four bits."""
    rng = np.random.default_rng(len(kind))
    how = lp.Accumulation(accumulator=(SMALL, projection), output=OUTPUT)
    for _ in range(4):
        x, y = terms(kind, rng, 5)
        low, high = ranges(x[None], y[None], None, how)
        products = [Fraction(a) * Fraction(b) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
        found = any_tree(products, (SMALL, projection))
        assert found or kind == "large"
        assert all(low[0] <= value <= high[0] for value in found)  # Fractions compare exactly


def seen(x, y, how, orders, addend=None):
    """The results of these orders, as codes."""
    width = how.output[0].width
    dtype = np.uint8 if width <= 8 else np.uint16 if width <= 16 else np.uint32
    return np.asarray(lp.dot(x[orders], y[orders], how, addend=addend, dtype=dtype)).astype(np.int64)


def outside(found, x, y, how, addend=None):
    """How many finite results lie outside the range."""
    added = None if addend is None else np.array([addend])
    low, high = (results(end, how.output) for end in ranges(x[None], y[None], added, how))
    fmt = how.output[0]
    finite = (found & ~fmt.sign_code) <= fmt.max_magnitude
    far = [distances(found, np.broadcast_to(end, found.shape), fmt) for end in (low, high)]
    return int(np.count_nonzero(finite & ((far[0] < 0) | (far[1] > 0))))


WINDOWS = {
    "cut": {"fraction_bits": 3},
    "floor": {"fraction_bits": 3, "cut": "floor"},
    "odd": {"fraction_bits": 3, "cut": "to_odd"},
    "wide": {"fraction_bits": 8},
    "exact steps": {"fraction_bits": None},
    "truncated": {"fraction_bits": 4, "result": (SMALL, Projection(rounding="toward_zero"))},
    "above": {"fraction_bits": 4, "lowest_exponent": 2},
}


@pytest.mark.parametrize("addend", [None, 3.25, -40.0])
@pytest.mark.parametrize("step", [1, 2, 4])
@pytest.mark.parametrize("fields", WINDOWS.values(), ids=WINDOWS)
def test_no_permutation_in_a_window_leaves_the_range(fields, step, addend):
    """All 720 of six products, in steps with few bits."""
    rng = np.random.default_rng(step)
    orders = np.array(list(itertools.permutations(range(6))))
    e4m3 = lp.format("e4m3fn")
    fields = {"result": (SMALL, Projection())} | fields
    how = lp.Accumulation(operands=(e4m3, e4m3), accumulator=lp.Window(step=step, **fields), output=OUTPUT)
    for kind in ("random", "cancelling"):
        x, y = terms(kind, rng, 6)
        x, y = (np.asarray(lp.quantize(side, e4m3), np.float64) for side in (x, y))
        assert outside(seen(x, y, how, orders, addend), x, y, how, addend) == 0


@pytest.mark.parametrize("product", [None, (SMALL, Projection()), (SMALL, PROJECTIONS["flushed"])])
@pytest.mark.parametrize("term", [1, 2, 3, 4])
def test_no_permutation_in_terms_leaves_the_range(term, product):
    """All 720 of six products, so many of which are summed exactly; rounded with few bits, or not."""
    rng, fmt = np.random.default_rng(term), lp.format("bfloat16")
    orders = np.array(list(itertools.permutations(range(6))))
    how = lp.Accumulation(
        operands=(fmt, fmt), product=product, term=term, accumulator=(SMALL, Projection()), output=OUTPUT
    )
    for kind in ("random", "cancelling", "subnormal"):
        x, y = terms(kind, rng, 6)
        found = seen(x, y, how, orders)
        assert len(np.unique(found)) > 1 or kind == "subnormal"
        assert outside(found, x, y, how) == 0


def test_the_rounding_of_a_term_counts_where_its_products_are_exact():
    """9.5 and 17.5 are no numbers of four bits; 1.5, 8, 16 and their sums in binary32 are exact."""
    fmt, x = lp.format("bfloat16"), np.array([8.0, 1.5, 16.0, 1.5])
    how = lp.Accumulation(
        operands=(fmt, fmt), product=(SMALL, Projection()), term=2, accumulator=OUTPUT, output=OUTPUT
    )
    orders = np.array(list(itertools.permutations(range(4))))
    found = seen(x, np.ones(4), how, orders)
    assert len(np.unique(found)) > 1
    assert outside(found, x, np.ones(4), how) == 0


NAMED = (
    "fp32_fma", "fp32_sequential", "fp32_pairwise", "fp16_sequential", "bf16_sequential", "fp64_sequential",
    "volta_mma_binary16_binary16", "ampere_mma_bfloat16_binary32", "ampere_mma_tf32_binary32",
    "hopper_wgmma_e4m3fn_binary32", "deepseek_promote(32)", "hopper_mma_e5m2_binary16",
    "blackwell_tcgen05_e2m1fn_binary32", "cdna1_mfma_binary16_binary32", "ace_top4mx_e5m2_binary32",
    "arm_fmmla_e4m3fn_binary16",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMED)
def test_no_order_of_many_products_leaves_the_range(name):
    """Random ones, and those that sort by value and by magnitude, in each named kind of accumulation."""
    how, rng = accumulation(name), np.random.default_rng(5)
    operand = how.operands[0] if how.operands else lp.format("bfloat16")
    for length in (33, 200):
        x, y = (np.asarray(lp.quantize(rng.standard_normal(length), operand), np.float64) for _ in range(2))
        keys = (x * y, -x * y, np.abs(x * y), -np.abs(x * y))
        orders = [*(rng.permutation(length) for _ in range(60)), *(np.argsort(key) for key in keys)]
        assert outside(seen(x, y, how, np.array(orders)), x, y, how) == 0


def test_orders_with_another_grouping_stay_in_the_range():
    """Chunks and pairs of the same accumulator."""
    rng, single = np.random.default_rng(6), (catalog.BINARY32, Projection())
    x, y = rng.standard_normal((2, 300)).astype(np.float32).astype(np.float64)
    how = lp.Accumulation(accumulator=single, output=single)
    for order in ("pairwise", "chunked(7)", "chunked(64)", "chunked(64, pairwise)"):
        other = dataclasses.replace(how, order=order)
        found = seen(x, y, other, np.array([rng.permutation(300) for _ in range(50)]))
        assert outside(found, x, y, how) == 0


def test_the_bound_is_reached():
    """1 and many halves of its last place: added to 1 one by one they are lost, and first among them not."""
    how, small = accumulation("fp32_fma"), 2.0**-24
    x = np.array([1.0, *[small] * 200])
    low, high = ranges(x[None], np.ones((1, 201)), None, how)
    lost = lp.dot(x, np.ones(201), how)
    assert float(lost) == 1.0
    assert 1 - low[0] <= 0.01 * (high[0] - 1)  # the sum is 1 + 200 halves, and this order loses all of them
    assert low[0] <= 1.0


def test_exact_sums_have_no_range():
    """Products of e4m3fn are multiples of 2**-18: few of them are exact in binary32 in any order."""
    rng = np.random.default_rng(7)
    x, y = (np.asarray(lp.quantize(rng.random((50, 16)) * 4, "e4m3fn"), np.float64) for _ in range(2))
    low, high = ranges(x, y, None, accumulation("fp32_fma"))
    assert (low == high).all()
    assert (low == (x * y).sum(axis=1)).all()
    low, high = ranges(x, y, None, accumulation("bf16_sequential"))
    assert (low < high).all()


@pytest.mark.parametrize("length", [16, 64, 256, 1024])
def test_the_range_of_positive_products_is_not_wider_than_the_sorted_orders_need(length):
    """The classical bound is as wide as n halves of a last place; sorted sums need a tenth of it or more."""
    rng = np.random.default_rng(length)
    x, y = (rng.random((40, length)).astype(np.float32).astype(np.float64) for _ in range(2))
    how = accumulation("fp32_fma")
    low, high = ranges(x, y, None, how)
    codes = [results(end, how.output) for end in (low, high)]
    assert (distances(codes[1], codes[0], catalog.BINARY32) <= 2 * length + 2).all()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("cdna3_mfma_binary16_binary32", "it is the machine 'cdna3', which no parameters describe"),
        ("exact", "its sum is exact in any order"),
        ("blackwell_tcgen05_e2m1fn_binary32_ue4m3_4", "it takes the scales of blocks into its sums"),
    ],
)
def test_accumulations_without_a_bound_are_refused(name, why):
    with pytest.raises(ValueError, match="ulps='auto' knows no bound") as refused:
        check_bound(accumulation(name))
    assert str(refused.value).endswith(f"{why}; give a number of codes")


def test_factors_of_too_many_bits_are_refused():
    with pytest.raises(ValueError, match="at most 26 bits of precision"):
        ranges([[0.1]], [[1.0]], None, accumulation("fp64_sequential"))


FORMATS = (SMALL, ieee("tiny", 3, 2), ieee("mid", 5, 6), catalog.BINARY32, catalog.BINARY16, catalog.E4M3FN)


def drawn(rng):
    """An accumulation with any parameters, or None where these contradict each other."""

    def rounded():
        return FORMATS[rng.integers(len(FORMATS))], list(PROJECTIONS.values())[rng.integers(len(PROJECTIONS))]

    fields = {"output": rounded(), "addend": rng.choice(["first", "last"]).item()}
    order = rng.choice(["sequential", "pairwise", "chunked(2)", "chunked(3)", "chunked(2, pairwise)"]).item()
    operand = catalog.FORMATS[rng.choice(["e4m3fn", "e5m2", "bfloat16"]).item()]
    if rng.random() < 0.3:
        fields |= {"accumulator": rounded(), "product": rounded() if rng.random() < 0.3 else None}
    else:
        order = rng.choice(["sequential", "chunked(2)", "chunked(4)"]).item()
        fields["operands"] = (operand, operand)
        fields["accumulator"] = lp.Window(
            step=int(rng.choice([1, 2, 3, 4, 8])),
            fraction_bits=None if rng.random() < 0.15 else int(rng.integers(1, 12)),
            result=rounded(),
            cut=rng.choice(["toward_zero", "floor", "to_odd", "nearest_away"]).item(),
            lowest_exponent=int(rng.choice([-4096, -6, 0, 3])),
        )
    if order.startswith("chunked"):
        fields["total"] = rounded()
    try:
        return operand, lp.Accumulation(order=order, **fields)
    except ValueError:
        return operand, None


def test_no_order_leaves_the_range_of_any_accumulation():
    """Any formats, roundings, windows and chunks; all permutations of six products."""
    rng, orders, asked = np.random.default_rng(11), np.array(list(itertools.permutations(range(6)))), 0
    for _ in range(400):
        operand, how = drawn(rng)
        if how is None:
            continue
        kind = rng.choice(["random", "cancelling", "subnormal", "large"]).item()
        x, y = (
            np.asarray(lp.quantize(side, operand, saturation="finite"), np.float64)
            for side in terms(kind, rng, 6)
        )
        addend = None if rng.random() < 0.4 else float(rng.standard_normal() * 2.0 ** rng.integers(-4, 6))
        assert outside(seen(x, y, how, orders, addend), x, y, how, addend) == 0, (how, x, y, addend)
        asked += 1
    assert asked > 250


def test_errors_that_carry_sums_past_a_power_of_two_keep_the_range_narrow():
    """255.75 and the errors of four sums reach beyond 256, where each error may be twice as large."""
    x = np.array([[255.0, 0.5, -255.0, 0.25]])
    low, high = ranges(x, np.ones((1, 4)), None, accumulation("bf16_sequential"))
    assert low[0] <= 0 < 1 <= high[0]
    assert high[0] - low[0] < 8


@pytest.mark.parametrize(
    ("x", "step", "bits"),
    [
        ([8.0, -0.25, 64.0], 1, 5),  # 7.75 is cut to 6 beside 64, by more than the term that it has bits of
        ([4.0] * 14 + [-0.5, 4.0], 15, 3),  # 55.5 has more bits than a window keeps, and is cut to 52
    ],
)
def test_cuts_of_the_running_sum_count(x, step, bits):
    """Also where no product loses much."""
    single, e5m2 = (catalog.BINARY32, Projection()), lp.format("e5m2")
    window = lp.Window(step=step, fraction_bits=bits, result=single)
    how = lp.Accumulation(operands=(e5m2, e5m2), accumulator=window, output=single)
    x = np.array(x)
    result = float(lp.dot(x, np.ones(x.size), how))
    low, high = ranges(x[None], np.ones((1, x.size)), None, how)
    assert abs(result - x.sum()) > 1
    assert low[0] <= result <= high[0]
