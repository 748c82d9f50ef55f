"""Faults of wiring in dot units are named by comparison."""

from __future__ import annotations

import numpy as np
import pytest

import lowprec as lp
from lowprec.verify.compare import diagnosis
from lowprec.verify.questions.dots.dots import DotQuestion
from tests import planted_bugs

_ZERO, _LEAST = (
    f"left out of the largest exponent, which is {begin} where nothing else counts"
    for begin in ("0", "the least")
)

#: Bugs of `tests.planted_bugs`, and the cause that explains every difference.
CAUSES = {
    "lane 0 dropped": "x of product 0 of 16 read as zero",
    "lane 7 dropped": "x of product 7 of 16 read as zero",
    "lane 15 dropped": "x of product 15 of 16 read as zero",
    "lane 3 reads y of lane 2": "product 3 takes y of product 2",
    "y of lanes 5 and 6 swapped": "y of products 5 and 6 swapped",
    "steps in reverse": "the products in reverse order",
    "steps of even and odd lanes": "first the products of even numbers, then the others",
    "window one bit short": "F = 26 instead of 27: fraction bits that alignment keeps",
    "window one bit long": "F = 28 instead of 27: fraction bits that alignment keeps",
    "cut bits ORed into the last (sticky kept)": "terms cut to odd",
    "terms rounded, not cut": "terms rounded, not cut: ties away from zero",
    "terms cut downwards": "terms cut floor",
    "sum cut, not its terms": "the sum cut toward zero, not its terms",
    "ties to zero": "sums of steps: ties toward zero",
    "ties away from zero": "sums of steps: ties away from zero",
    "ties to odd": "sums of steps: ties to odd",
    "result truncated": "sums of steps: truncation: rounded toward zero",
    "sticky lost: one bit below the guard bit": "sticky bit without the last bit of the sum",
    "carry of rounding lost": (
        "the carry of rounding into the exponent lost: the exponent's field one too low"
    ),
    "addend aligned one place too low": "the addend and running sums aligned one place too low",
    "addend aligned one place too high": "the addend and running sums aligned one place too high",
    "addend never cut": "the addend and running sums never cut",
    "addend left out of the largest exponent": f"the addend and running sums {_ZERO}",
    "lane 7 left out of the largest exponent": f"terms {_ZERO}, in lane 7",
    "zeros set the largest exponent": "zeros count for the largest exponent",
    "subnormal addend taken as zero": "subnormal sums of steps become zeros",
    "subnormal x with a leading one": "subnormal x read with a leading one",
    "subnormal x one exponent too low": "subnormal x one exponent too low",
    "subnormal x taken as zero": "subnormal x taken as zero",
    "subnormal y taken as zero": "subnormal y taken as zero",
    "carry out of 4 bits lost": "the carry out of 4 bits before the point lost from sums",
    "two negatives stay negative": "the product of two negative numbers is negative",
    "sign of a cancelled sum kept": "sums that are zero have the sign of the first product",
    "-0 of a zero sum": "sums that are zero have a sign, where all of their terms have it",
    "NaN in y ignored": "products with a NaN in y left out",
    "NaN in upper lanes ignored": "NaNs in products 4 to 7 of each step of 8 left out",
    "NaN addend ignored": "NaNs of the addend and running sums left out",
    "NaN keeps its sign": "a NaN of the addend gives its sign to the result",
    "NaN is 0x7fc00000": "NaN is 0x7fc00000",
    "zero times infinity is zero": "zero times infinity is zero",
    "infinities of unlike signs are infinite": (
        "infinities of unlike signs give an infinity: the last of them"
    ),
    "infinite addend loses against products": (
        "infinities of the addend and running sums left out, unless a product is infinite"
    ),
    "running sum not rounded between steps": "L = 16 instead of 8: products in a step",
    "subnormal result flushed": "subnormal sums of steps become zeros",
    "signs of products lost": "signs of products lost",
    "sign of y ignored": "signs of y lost",
    "products normalized before alignment": "products normalized before they are aligned",
    "sum wraps around at 5 bits": "sums wrap around at 5 bits before the point, in two's complement",
    "lane 4 aligned one place too low": "terms aligned one place too low in lane 4",
    "negative terms in one's complement": "negative terms in one's complement: a last bit off",
    "negative sum in one's complement": "negative sums in one's complement: a last bit off",
    "rounded to 27 bits first": "sums rounded twice: first to 3 bits more than the result has",
    "infinite product is zero": "infinite products left out of sums",
    "terms rounded to nearest, ties to even": "terms rounded, not cut: ties to even",
    "terms cut away from zero": "terms cut away from zero",
    "sum cut downwards, not its terms": "the sum cut downwards, not its terms",
    "sticky lost: the guard bit alone": "sticky bit lost: sums are rounded by the guard bit alone",
    "sticky lost: the guard bit and one behind it": (
        "sticky bit lost: sums are rounded by the guard bit and 1 bit behind it alone"
    ),
    "subnormal sums halved": "subnormals among the addend and running sums one exponent too low",
    "subnormal sums doubled": "subnormals among the addend and running sums one exponent too high",
    "all x with a leading one": ("subnormal and zero x read with a leading one, beside infinities too"),
    "all x with a leading one, save beside infinities": ("subnormal and zero x read with a leading one"),
    "subnormals of x unknown": ("subnormal and zero x read as normal numbers are, beside infinities too"),
    "subnormal x one exponent too high": "subnormal x one exponent too high",
    "subnormal addend with a leading one": (
        "subnormals among the addend and running sums read with a leading one"
    ),
    "all addends with a leading one": (
        "subnormals and zeros among the addend and running sums read with a leading one"
    ),
    "subnormals of the addend unknown": (
        "subnormals and zeros among the addend and running sums read as normal numbers are"
    ),
    "subnormal addend one exponent too low": (
        "subnormals among the addend and running sums one exponent too low"
    ),
    "subnormal addend one exponent too high": (
        "subnormals among the addend and running sums one exponent too high"
    ),
    "sign of the addend lost": "the signs of the addend and running sums lost",
    "sign of the addend lost, of numbers alone": (
        "the signs of the addend and running sums lost, but for infinities"
    ),
    "addend left out of the largest exponent, or least": f"the addend and running sums {_LEAST}",
    "addend lost above the exponents of products": (
        f"the addend and running sums {_LEAST}, and lost where they exceed it"
    ),
    "addend lost above the exponents of products, or 0": (
        f"the addend and running sums {_ZERO}, and lost where they exceed it"
    ),
    "lane 7 lost above the exponents of the others": (
        f"terms {_LEAST}, and lost where they exceed it, in lane 7"
    ),
    "lane 7 lost above the exponents of the others, or 0": (
        f"terms {_ZERO}, and lost where they exceed it, in lane 7"
    ),
    "zero sums take the sign of the last product": "sums that are zero have the sign of the last product",
    "zero sums take the sign of the addend": (
        "sums that are zero have the sign of the addend or the running sum"
    ),
    "zero sums are negative with any term": "sums that are zero have a sign, where any of their terms has it",
    "infinite factors read as numbers": "infinite factors read as numbers",
    "infinities ignored": "infinities left out of sums",
    "infinite addend ignored": "infinities of the addend and running sums left out",
    "NaNs ignored": "NaNs left out of sums",
    "infinity wins against NaN": "an infinity wins against NaNs",
    "infinities of unlike signs: the first": "infinities of unlike signs give an infinity: the first of them",
    "infinities of unlike signs: positive": "infinities of unlike signs give an infinity: positive",
    "infinities of unlike signs: negative": "infinities of unlike signs give an infinity: negative",
    "infinities of unlike signs: positive, over NaN": (
        "infinities of unlike signs give an infinity: positive"
    ),
    "addend left out": "the addend left out",
    "first addend aligned one place too low": "the addend aligned one place too low",
    "first addend aligned one place too high": "the addend aligned one place too high",
    "steps of alternate pairs": "steps of alternate pairs of products",
    "signs of x lost": "signs of x lost",
}

_LOW, _HIGH = (f"subnormal sums {words} as large: shifted one place off" for words in ("half", "twice"))
_FLUSHED = [
    "a subnormal addend of binary32 taken as zero",
    "subnormals among the addend and running sums taken as zero",
]

#: Other causes that give the same results. Sums of this unit are subnormal only where the addend is: products
#: are multiples of 2**-32. No vector has infinities of unlike signs beside a NaN.
ALSO = {
    "sticky lost: the guard bit alone": [
        f"sticky bit without the last {bits} bits of the sum" for bits in (7, 8)
    ],
    "lane 7 left out of the largest exponent": [f"terms {_LEAST}, in lane 7"],
    "subnormal addend taken as zero": _FLUSHED,
    "subnormal result flushed": _FLUSHED,
    "running sum not rounded between steps": [
        f"L = {step} instead of 8: products in a step" for step in (32, 64, 128)
    ],
    "subnormal sums halved": [_LOW],
    "subnormal sums doubled": [_HIGH],
    "subnormal addend one exponent too low": [_LOW],
    "subnormal addend one exponent too high": [_HIGH],
    **{bug: [f"{words}, beside a NaN too"] for bug, words in CAUSES.items() if "unlike signs" in bug},
}


#: Bugs that are another's in another lane, direction, factor or mode: `-m long` has them.
TWINS = (
    "lane 7 dropped", "lane 15 dropped", "window one bit long", "ties away from zero", "ties to odd",
    "terms cut away from zero", "terms rounded to nearest, ties to even", "sum cut downwards, not its terms",
    "addend aligned one place too high", "first addend aligned one place too high", "signs of x lost",
    "subnormal y taken as zero", "subnormal x one exponent too high",
    "subnormal addend one exponent too high", "subnormal sums doubled",
    "addend lost above the exponents of products, or 0",
    "lane 7 lost above the exponents of the others, or 0", "negative sum in one's complement",
    "infinities of unlike signs: positive", "infinities of unlike signs: negative",
)  # fmt: skip
assert set(TWINS) < set(CAUSES)


@pytest.mark.parametrize(
    "bug",
    [pytest.param(bug, marks=pytest.mark.long if bug in TWINS else pytest.mark.apart) for bug in CAUSES],
)
def test_the_cause_of_a_planted_bug_is_named(bug):
    """In full, and what else gives the same beside it: python -m tests.planted_bugs --diagnose."""
    report = planted_bugs.dot_report(bug)
    assert (report.cause.words, report.cause.same) == (CAUSES[bug], ALSO.get(bug, []))
    assert report.cause.explained == report.mismatches > 0
    assert report.cause.contradicted == 0


@pytest.mark.apart
def test_every_planted_bug_has_a_cause():
    assert [*CAUSES] == planted_bugs.DOT_BUGS


@pytest.mark.apart
@pytest.mark.parametrize("shapes", [((24, 12), (12, 20)), ((12, 12), (12, 12))], ids=str)
def test_a_fault_of_matrices_is_named_too(shapes):
    """K is the first axis of the second matrix, of square ones too."""
    rng = np.random.default_rng(1)
    x, y = (lp.quantize(rng.standard_normal(shape), "e4m3fn") for shape in shapes)
    wired = y.copy()
    wired[4] = y[5]
    got = lp.matmul(x, wired, "ada_mma_e4m3fn_binary32")
    report = lp.compare((x, y), got, operation="matmul", accumulation="ada_mma_e4m3fn_binary32")
    assert report.cause.words == "product 4 takes y of product 5"
    assert report.cause.explained == report.mismatches > 0


@pytest.mark.apart
def test_a_fault_of_the_addend_is_named():
    """A lost NaN: of vectors where nothing else differs."""
    rng = np.random.default_rng(1)
    x, y = (lp.quantize(rng.standard_normal((200, 8)), "e4m3fn") for _ in range(2))
    addend = rng.standard_normal(200).astype(np.float32)
    addend[::5] = np.nan
    got = lp.dot(x, y, "ada_mma_e4m3fn_binary32", addend=np.where(np.isnan(addend), np.float32(0), addend))
    report = lp.compare(
        (x, y), got, operation="dot", accumulation="ada_mma_e4m3fn_binary32", addend=addend, limit=0
    )
    assert (report.mismatches, report.cause.words) == (40, "a NaN as addend left out")


@pytest.mark.apart
def test_hypotheses_are_tried_on_a_few_results_first(monkeypatch):
    """Name two faults at once, of which each explains little, as without and in two fifths of the work."""
    rng, unit = np.random.default_rng(2), "ada_mma_e4m3fn_binary32"
    x, y = (np.asarray(lp.quantize(rng.standard_normal((1200, 6)), "e4m3fn")) for _ in range(2))
    wired, lost = y.copy(), x.copy()
    wired[:, 4], lost[:, 1] = y[:, 5], 0
    got, answered, answer = lp.dot(lost, wired, unit), [], DotQuestion.answer

    def counted(self, batch, changes=()):
        answered[-1] += batch.got.size
        return answer(self, batch, changes)

    monkeypatch.setattr(DotQuestion, "answer", counted)
    for few in (diagnosis._FEW, 1 << 20):
        monkeypatch.setattr(diagnosis, "_FEW", few)
        answered.append(0)
        report = lp.compare((x, y), got, operation="dot", accumulation=unit, limit=0)
        words = {change.words for change in report.cause.changes}
        assert words == {"lane 1 of 16 left out", "product 4 takes y of product 5"}
        assert report.cause.explained == report.mismatches > 1000
    assert answered[0] * 5 < answered[1] * 2
