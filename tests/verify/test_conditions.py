"""Comparison tells where results differ and how, of bugs that no catalogue lists."""

from __future__ import annotations

import numpy as np
import pytest

import lowprec as lp
from lowprec.verify.compare.rules import learn
from lowprec.verify.questions.features import Feature
from tests.planted_unlisted import EQUIVALENT, UNITS, results_of, table, verdict

BUGS = [(unit, bug) for unit, (bugs, _) in UNITS.items() for bug in bugs]


def features(**columns):
    return [Feature(name, np.asarray(values)) for name, values in columns.items()]


def masks(wrong):
    wrong = np.asarray(wrong, bool)
    return wrong, ~wrong


def test_the_shortest_rule_without_exception_is_learnt():
    drawn = np.random.default_rng(0)
    size, tie, noise = drawn.integers(0, 50, 2000), drawn.random(2000) < 0.5, drawn.random(2000) < 0.5
    given = features(noise=noise, size=size, tie=tie)
    assert str(learn(given, *masks(size >= 30))) == "size is at least 30"
    assert str(learn(given, *masks(tie & (size == 7)))) == "size is 7 and tie"
    assert str(learn(given, *masks(tie & ~noise & (size < 9)))) == "not: noise and size is at most 8 and tie"
    assert str(learn(given, *masks((size == 3) | (size == 40)))) == "size is 3 or 40"
    three = str(learn(given, *masks(np.isin(size, (3, 20, 40)))))
    assert set(three.split(", or where ")) == {"size is 3", "size is 20", "size is 40"}


@pytest.mark.parametrize("count", [1, 3, 20, 500])
def test_results_drawn_at_random_have_no_rule(count):
    drawn = np.random.default_rng(count)
    wrong = np.isin(np.arange(2000), drawn.permutation(2000)[:count])
    given = features(**{f"number {n}": drawn.integers(0, 1 << n % 9 + 1, 2000) for n in range(200)})
    assert learn(given, *masks(wrong)) is None


def test_a_condition_is_told_with_its_counts_both_ways():
    x = np.linspace(-500, 500, 4001, dtype=np.float32)
    codes = np.asarray(lp.encode(x, "e4m3fn"))
    wrong = codes.copy()
    wrong[(x < 0) & (codes & 7 == 7)] -= 1
    text = lp.compare(x, wrong, "e4m3fn", limit=0).as_text()
    differ = int((wrong != codes).sum())
    assert (
        f"wrong in {differ} of {differ} results there, right in {4001 - differ:,} of {4001 - differ:,} others"
        in text
    )
    assert "wrong: index " in text


@pytest.mark.apart
@pytest.mark.parametrize(("unit", "bug"), BUGS)
def test_a_bug_that_no_catalogue_lists_is_explained(unit, bug):
    """In full, and by default vectors that see it unless it is an equivalent."""
    ((_, _, _, said, _, words),) = (row for row in table([bug]) if row[0] == unit)
    assert said == ("unseen" if (unit, bug) in EQUIVALENT else "in full"), words


@pytest.mark.apart
@pytest.mark.parametrize("unit", UNITS)
def test_the_models_without_a_bug_agree_and_corruption_stays_unexplained(unit):
    plain, rows, report = UNITS[unit][1]()
    out = results_of(plain, rows, {})
    assert report(out).agrees
    if unit == "block converter":
        return
    drawn = np.random.default_rng(0)
    for place in drawn.permutation(len(out))[:60].tolist():
        out[place] ^= 1 << int(drawn.integers(0, 4))
    assert verdict(report(out)) in ("not", "in part")


@pytest.mark.apart
def test_a_scale_of_the_block_behind_is_named_with_its_block():
    drawn, name = np.random.default_rng(3), "blackwell_tcgen05_e2m1fn_binary32_ue4m3_4"
    elements, scales = (lp.format(each) for each in ("e2m1fn", "ue4m3"))
    form = lp.BlockFormat(name="", element=elements, scale=scales, size=16)
    codes, (of_x, of_y) = drawn.integers(0, 16, (2, 300, 64), np.uint8), drawn.integers(40, 70, (2, 300, 4))
    wrong = of_x[:, [0, 1, 3, 3]]
    blocks = [
        lp.BlockArray(side, scale.astype(np.uint8), form, (1,))
        for side, scale in zip(codes, (wrong, of_y), strict=True)
    ]
    given = tuple(lp.decode(side, elements) for side in codes)
    scale = tuple(lp.decode(side.astype(np.uint8), scales) for side in (of_x, of_y))
    report = lp.compare(
        given, lp.dot(*blocks, name), operation="dot", accumulation=name, scale=scale, limit=0
    )
    assert report.cause.words == "the scales of x of the block behind in block 2"
    assert (report.cause.explained, report.cause.contradicted) == (report.mismatches, 0)


@pytest.mark.apart
def test_operands_whose_last_bit_makes_a_nan_do_not_end_the_search():
    drawn = np.random.default_rng(5)
    x, y = lp.quantize(drawn.choice([448.0, 1.5, -3.0, 0.25], (2, 500, 16)), "e4m3fn")
    addend = drawn.standard_normal(500).astype(np.float32) * 1000
    how = "ada_mma_e4m3fn_binary32"
    got = lp.dot(x, y, how, addend=lp.quantize(addend, "bfloat16"))
    report = lp.compare((x, y), got, operation="dot", accumulation=how, addend=addend, limit=0)
    assert not report.failed
    assert report.cause.words == "the addend rounded to bfloat16"


def test_what_a_rule_on_the_right_result_before_leaves_is_counted():
    x = np.random.default_rng(6).choice([0.0, 1.25, 2.5, -3.0, 480.0], 3000).astype(np.float32)
    want = np.asarray(lp.encode(x, "e4m3fn"))
    nan = np.roll(want, 1) == 0x7F
    got = np.where(nan & (want != 0x7F), want ^ 0x11, want)
    got[want == 0x7F] = np.arange(np.count_nonzero(want == 0x7F)) % 100 + 2
    got[np.flatnonzero(~nan & (want == 0x3A))[:3]] = 0x05
    report = lp.compare(x, got, "e4m3fn", limit=0)
    assert "the right result before is NaN" in report.cause.words
    assert report.cause.explained == report.mismatches - 3


@pytest.mark.apart
@pytest.mark.parametrize(
    ("bit", "here", "words"),
    [
        (5, lambda x: np.arange(16) == 7, "bit 5 of y read as 0 in lane 7"),
        (0, lambda x: x & 0x80 != 0, "the last bit of y read as 0, of products where x is negative"),
    ],
)
def test_a_bit_is_stuck_in_a_lane_or_beside_factors_of_one_sign(bit, here, words):
    drawn, how = np.random.default_rng(7), "ada_mma_e4m3fn_binary32"
    x, y = (drawn.integers(0x20, 0x70, (2, 400, 16)) | drawn.integers(0, 2, (2, 400, 16)) << 7).astype(
        np.uint8
    )
    stuck = np.where(here(x), y & (0xFF ^ 1 << bit), y).astype(np.uint8)
    given, wrong = (tuple(lp.decode(side, "e4m3fn") for side in (x, other)) for other in (y, stuck))
    report = lp.compare(given, lp.dot(*wrong, how), operation="dot", accumulation=how, limit=0)
    assert report.cause.words == words
    assert (report.cause.explained, report.cause.contradicted) == (report.mismatches, 0)


@pytest.mark.parametrize(
    ("statement", "opposite"),
    [("the result is finite", "the result is not finite"), ("some x is zero", "no x is zero")],
)
def test_a_rule_says_the_opposite_of_a_statement_as_a_sentence(statement, opposite):
    where = np.random.default_rng(8).random(500) < 0.5
    assert str(learn([Feature(statement, where)], *masks(~where))) == opposite
