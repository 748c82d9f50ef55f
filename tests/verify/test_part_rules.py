"""Faults of single products, steps and nodes are named with the rule that tells these from others."""

import ml_dtypes
import numpy as np
import pytest

import lowprec as lp

pytestmark = pytest.mark.apart


def factors(seed, count=2000, lanes=8):
    """Draw codes of e4m3fn: numbers of many exponents, some of them subnormal."""
    drawn = np.random.default_rng(seed)
    return drawn.integers(0, 0x78, (2, count, lanes), np.uint8) | drawn.integers(0, 2, (2, count, lanes)) << 7


def values(codes):
    return np.asarray(lp.decode(codes.astype(np.uint8), "e4m3fn")).astype(np.float64)


def in_sequence(products, after=lambda total, lane: total):
    """Return the sums of products in binary32, one after the other; `after` changes running sums."""
    held = np.zeros(len(products))
    for lane in range(products.shape[1]):
        held = after((held + products[:, lane]).astype(np.float32).astype(np.float64), lane)
    return held.astype(np.float32)


def judged(x, y, got, order="sequential"):
    given = tuple(side.astype(np.uint8).view(ml_dtypes.float8_e4m3fn) for side in (x, y))
    how = lp.Accumulation(accumulator="binary32", output="binary32", order=order)
    return lp.compare(given, got, operation="dot", accumulation=how, limit=0)


def exponent(sums):
    return np.where(sums == 0, 0, np.frexp(sums)[1] - 1)


#: How some products are wrong, of which, and the words of both.
OF_PRODUCTS = {
    "subnormal x taken as zero": (
        lambda p: 0 * p,
        lambda x, y, lane: (x & 0x78 == 0) & (y > 0x7F),
        ("y is negative",),
    ),
    "x negated": (
        np.negative,
        lambda x, y, lane: (x >> 3 & 15) + (y >> 3 & 15) >= 26,
        ("the sum of the factors' exponents is at least 12",),
    ),
    "products left out": (
        lambda p: 0 * p,
        lambda x, y, lane: np.isin(lane, (1, 6)) & ((x >> 3 & 15) + (y >> 3 & 15) >= 26),
        ("the lane is 1 or 6", "the sum of the factors' exponents is at least 12"),
    ),
    "products 1 last place too large": (
        None,
        lambda x, y, lane: (x & 7 == 7) & (y & 7 == 7) & (lane > 3),
        (*(f"the trailing bits of {side} are all ones" for side in "xy"), "the lane is at least 4"),
    ),
}


@pytest.mark.parametrize("words", OF_PRODUCTS)
def test_products_that_are_wrong_under_a_condition_of_their_own_are_named(words):
    change, which, rule = OF_PRODUCTS[words]
    x, y = factors(1)
    wide = values(x), values(y)
    products, lane = wide[0] * wide[1], np.arange(8)
    if change is None:  # of significands of four bits each
        unit = np.prod([np.ldexp(1.0, np.maximum(exponent(side), -6) - 3) for side in wide], axis=0)
        wrong = products + np.copysign(unit, products)
    else:
        wrong = change(products)
    got = in_sequence(np.where(which(x, y, lane), wrong, products))
    report = judged(x, y, got)
    assert (report.cause.explained, report.cause.contradicted) == (report.mismatches, 0)
    edit, _, found = report.cause.words.partition(", of products where ")
    assert edit == words
    assert sorted(found.split(" and ")) == sorted(rule)


def test_steps_that_are_wrong_under_a_condition_of_their_own_are_named():
    """Name steps wherever they stand, and though several steps of a line may be wrong."""
    x, y = factors(2)

    def after(total, lane):
        wrong = (exponent(total) >= 9) & (total < 0)
        return np.where(wrong, total * 2, total)

    report = judged(x, y, in_sequence(values(x) * values(y), after))
    assert (report.cause.explained, report.cause.contradicted) == (report.mismatches, 0)
    where = "the sum is negative and the exponent of the sum is at least 9"
    assert report.cause.words == f"sums twice as large, in steps where {where}"


def test_nodes_of_a_tree_that_are_wrong_under_a_condition_of_their_own_are_named():
    x, y = factors(3)
    sums = values(x) * values(y)
    while sums.shape[1] > 1:
        left, right = sums[:, ::2], sums[:, 1::2]
        total = (left + right).astype(np.float32).astype(np.float64)
        sums = np.where((exponent(total) >= 12) & (total > 0), -total, total)
    report = judged(x, y, sums[:, 0].astype(np.float32), "pairwise")
    assert (report.cause.explained, report.cause.contradicted) == (report.mismatches, 0)
    where = "the sum is not negative and the exponent of the sum is at least 12"
    assert report.cause.words == f"sums negated, in sums where {where}"
