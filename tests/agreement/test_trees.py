"""Sums as trees: kernels against the oracle, and both against a reading in fractions."""

from fractions import Fraction

import numpy as np
import pytest

import lowprec as lp
from lowprec.export.c.c_accumulation import accumulation_header
from lowprec.oracle.dot import dot as oracle
from lowprec.spec import catalog
from lowprec.spec.order import Order, order
from lowprec.verify.identify.ports import Ports, Prepared, Rows
from lowprec.verify.reference.dots import check_flags
from tests import fraction_sums
from tests.agreement.test_dots import addends, agrees, pairs_of_rows

FORMATS = (
    (catalog.E4M3FN, catalog.E4M3FN),
    (catalog.BFLOAT16, catalog.BFLOAT16),
    (catalog.BINARY16, catalog.E5M2),
)
SUMS = (
    "binary32",
    ("bfloat16", "toward_zero"),
    ("binary16", "to_odd"),
    ("tf32", "toward_negative"),
    ("bfloat16", "stochastic(5)"),
    "binary64",
)


def drawn_tree(terms, rng, widest):
    """Return a random tree of these terms, whose groups have at most so many members."""
    if len(terms) == 1:
        kind = rng.random()
        return terms[0] if kind < 0.6 else (terms[0],) if kind < 0.8 else ((), terms[0])
    count = min(len(terms), int(rng.integers(2, widest + 1)))
    cuts = sorted(rng.choice(np.arange(1, len(terms)), count - 1, replace=False))
    parts = [terms[a:b] for a, b in zip([0, *cuts], [*cuts, len(terms)], strict=True)]
    return tuple(drawn_tree(part, rng, widest) for part in parts)


def drawn(seed):
    """Return a random accumulation with such an order, its operands' formats, and its number of terms."""
    rng = np.random.default_rng(seed)
    length = int(rng.integers(2, 14))
    names = ("reversed", "lanes(3)", "lanes(4, pairwise)", "lanes(20)")
    tree = drawn_tree(rng.permutation(length).tolist(), rng, 2 if seed % 2 else 4)
    how = order(names[seed // 4 % 4]) if seed % 4 == 0 else Order.of_tree(tree)
    return lp.Accumulation(
        product=None if seed % 7 < 4 else "bfloat16",
        order=how,
        accumulator=SUMS[seed % len(SUMS)],
        output=("binary32", "bfloat16")[seed % 2],
        addend="first" if seed % 5 else "last",
    ), FORMATS[seed % 3], length, rng  # fmt: skip


@pytest.mark.parametrize(
    "seed", [*range(8), *(pytest.param(n, marks=pytest.mark.apart) for n in range(8, 80))]
)
def test_trees_agree(seed):
    """In lanes, one output after the other, and by the oracle; with NaNs, and with an addend."""
    how, formats, length, rng = drawn(seed)
    x, y = pairs_of_rows(formats, 5, length, rng)
    agrees(how, formats, x, y)
    agrees(how, formats, x, y, addends(5, rng))
    if not how.rounds_randomly:
        sides = [lp.decode(codes, fmt, dtype="float64") for codes, fmt in zip((x, y), formats, strict=True)]
        none = np.zeros((5, 0), np.uint8)
        alone = Prepared(Rows(*sides, np.zeros(5), none, none), Ports(formats, how.output[0], length, None))
        wanted = lp.dot(*sides, how, dtype=f"u{how.output[0].code_bits // 8}")
        assert (alone.codes(how) == wanted).all()


@pytest.mark.parametrize("seed", range(12))
def test_trees_are_what_their_brackets_say(seed):
    """And lanes and reversed sums what their docstring says."""
    how, _, length, rng = drawn(seed)
    if how.rounds_randomly or how.accumulator[0].width == 64:
        how = lp.Accumulation(order=how.order, accumulator="bfloat16", output="binary32", addend=how.addend)
    for _ in range(4):
        sides = [rng.integers(-255, 256, length) * 2.0 ** rng.integers(-6, 7, length) for _ in range(2)]
        exact = [[Fraction(float(value)) for value in side] for side in sides]
        want = fraction_sums.code_of(fraction_sums.dot(*exact, how), how.output[0])
        assert oracle(*exact, how) == want


def test_trees_are_served_or_refused_by_name():
    """Blocks and splits have as many sums of as many terms as the tree; C and flags have none."""
    how = lp.Accumulation(
        name="mine", operands="e4m3fn", order="((0, 2), (1, 3))", accumulator="binary32", output="binary32",
        addend="last",
    )  # fmt: skip
    x = lp.encode(np.random.default_rng(0).normal(size=(3, 128)), "mxfp8_e4m3")
    for backend in (None, "scalar"):
        want = lp.dot(x, x, how, dtype="uint32", backend="oracle")
        assert (lp.dot(x, x, how, dtype="uint32", backend=backend) == want).all()
    split = lp.Accumulation(
        order=how.order, accumulator="binary32", output="binary32", addend="last", split=lp.Split(2)
    )
    ones = np.ones((2, 8), np.float32)
    assert lp.dot(ones, ones, split).tolist() == [8, 8]
    for length, verb in ((4, split), (8, how)):
        with pytest.raises(
            ValueError, match=r"order '\(\(0, 2\), \(1, 3\)\)' is for 4 terms, and this sum has"
        ):
            lp.dot(ones[:, :length], ones[:, :length], verb)
    with pytest.raises(ValueError, match="cannot be a C header: it has the order"):
        accumulation_header(how, "")
    with pytest.raises(ValueError, match="not of the order"):
        check_flags(how)
