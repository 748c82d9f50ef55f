"""Sums by trees, node by node: as kernels add them, and with a fault in a node, a level or all of them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import lowprec as lp
from lowprec.spec.rounding import rounding
from lowprec.verify.questions.dots.step_model import has_steps, stepped
from lowprec.verify.questions.dots.step_trees import is_tree, nodes_of, places_of_nodes

TREES = ("pairwise", "reversed", "lanes(2)", "lanes(3)", "lanes(4, pairwise)", "((0, 2), (1, 3), 4, 5, 6)")
HALF = ("binary16", lp.Projection(nan_sign="drop"))
PAIRS = lp.Accumulation(
    name="pairs", operands=("e4m3fn", "e4m3fn"), product=HALF, accumulator=HALF, output=HALF, order="pairwise"
)


def operands(seed, fmt, count, addend):
    """Return x, y and addends of seven products, with special values and near magnitudes."""
    drawn, width = np.random.default_rng(seed), lp.format(fmt).width
    codes = drawn.integers(0, 1 << width, (2, count, 7)).astype(f"u{width // 8}")
    codes = np.where(
        drawn.random((2, count, 1)) < 0.8, codes & (1 << width - 2) - 1 + (1 << width - 1), codes
    )
    x, y = (np.array(lp.decode(side.astype(f"u{width // 8}"), fmt)) for side in codes)
    x[drawn.random(x.shape) < 0.1] = 0
    c = np.ldexp(drawn.standard_normal(count), drawn.integers(-20, 10, count)).astype(np.float32)
    c[::9], c[::10], c[::7], c[::21] = np.nan, -np.inf, -0.0, np.copysign(np.nan, -1)
    return x, y, c if addend else None


@pytest.mark.parametrize("order", TREES)
@pytest.mark.parametrize(
    ("fmt", "into"), [("e4m3fn", "binary16"), ("e5m2", "bfloat16"), ("binary16", "e5m2")]
)
def test_nodes_add_as_kernels_do(order, fmt, into):
    cases = itertools.product(
        (None, "binary16", "binary32"), (None, "first", "last"), ("nearest_even", "toward_negative")
    )
    for seed, (product, addend, mode) in enumerate(cases):
        rule = lp.Projection(rounding=mode)
        how = lp.Accumulation(
            operands=(fmt, fmt),
            product=None if product is None else (product, rule),
            accumulator=(into, rule),
            output=(into, rule),
            order=order,
            addend=addend or "first",
        )
        assert is_tree(how)
        assert has_steps(how, how.operands)
        x, y, c = operands(seed, fmt, 120, addend)
        width = 8 if into == "e5m2" else 16
        want = np.asarray(lp.dot(x, y, how, addend=c, dtype=f"u{width // 8}"))
        wide = x.astype(float), y.astype(float), c, how, how.operands
        assert (stepped(*wide, {}) == want).all()
        nodes, known = nodes_of(how, 7, addend == "first"), {}
        for place in (*(place for place, _ in places_of_nodes(nodes)), None):
            fault = {"mode": rounding("toward_zero")} | ({} if place is None else {"step": place})
            assert (stepped(*wide, fault, known) == stepped(*wide, fault)).all()


def flushed(values):
    return np.where(np.abs(values) < 2.0**-14, np.copysign(np.float16(0), values), values).astype(np.float16)


def summed(x, y, c, node):
    """Return the sums of `PAIRS`, of which each node is made by a function of its level, place and terms."""
    with np.errstate(all="ignore"):
        terms, level = [c, *(x * y).astype(np.float16).T], 0
        while len(terms) > 1:
            pairs = zip(terms[::2], terms[1::2], strict=False)
            made = [node(level, place, *pair) for place, pair in enumerate(pairs)]
            terms, level = made + terms[2 * len(made) :], level + 1
    return np.where(np.isnan(terms[0]), np.uint16(0x7E00), terms[0].view(np.uint16))


def plain(level, place, a, b):
    return a + b


def flushes(level, place, a, b):
    return flushed(a) + flushed(b) if (level, place) == (1, 0) else a + b


def saturates(level, place, a, b):
    made = a + b
    return np.where(np.isinf(made) & (level == 0), np.copysign(np.float16(65504), made), made)


def cancels_to_minus(level, place, a, b):
    made = a + b
    return np.where((made == 0) & (a != 0), np.float16(-0.0), made)


def ties_away(level, place, a, b):
    exact = a.astype(np.float64) + b
    other = np.asarray(lp.quantize(exact, "binary16", rounding="nearest_away"), np.float16)
    return other if level == 1 else a + b


FLUSHED = "subnormals among the addend and running sums taken as zero, in the sum of the addend and products"
MINUS = (
    "sums that are zero have a sign, where terms cancel that are not zero, or where all of their terms have "
)


@pytest.mark.parametrize(
    ("node", "words"),
    [
        (flushes, f"{FLUSHED} 0 to 2 alone"),
        (saturates, "sums that are infinite are the largest number, in all sums of level 1 of the tree"),
        (cancels_to_minus, f"{MINUS}it"),
        (ties_away, "sums of steps: ties away from zero, in all sums of level 2 of the tree"),
    ],
)
def test_a_faulty_node_is_named(node, words):
    drawn = np.random.default_rng(4)
    sizes = np.ldexp(drawn.standard_normal((2, 3000, 8)), drawn.integers(-5, 6, (2, 3000, 1)))
    sizes[0, ::3] /= 64
    sizes[0, 2::6, 1:7], sizes[0, 2::6, 7], sizes[1, 2::6, 7] = 0, -sizes[0, 2::6, 0], sizes[1, 2::6, 0]
    x, y = (np.asarray(lp.quantize(side, "e4m3fn", saturation="finite"), np.float32) for side in sizes)
    x[1::5], y[1::5] = np.copysign(448, x[1::5]), np.copysign(128, y[1::5])
    c = (drawn.standard_normal(3000) * (np.arange(3000) % 6 != 2)).astype(np.float16)
    right = np.asarray(lp.dot(x, y, PAIRS, addend=c, dtype=np.uint16))
    assert (summed(x, y, c, plain) == right).all()
    asked = {"operation": "dot", "accumulation": PAIRS, "addend": c, "limit": 0}
    report = lp.compare((x, y), summed(x, y, c, node), **asked)
    assert words in (report.cause.words, *report.cause.same)
    assert (report.cause.explained, report.cause.contradicted) == (report.mismatches, 0)
