"""Faults of wiring in dot units are named by comparison."""

from __future__ import annotations

import numpy as np
import pytest

import lowprec as lp
from lowprec.verify import diagnosis
from lowprec.verify.questions.dots import DotQuestion
from tests import planted_bugs

pytestmark = pytest.mark.apart

#: Bugs of `tests.planted_bugs`, and the cause that explains every difference.
CAUSES = {
    "lane 7 dropped": "x of product 7 of 16 read as zero",
    "lane 3 reads y of lane 2": "product 3 takes y of product 2",
    "y of lanes 5 and 6 swapped": "y of products 5 and 6 swapped",
    "steps of even and odd lanes": "first the products of even numbers, then the others",
    "ties to zero": "sums of steps: ties toward zero",
    "subnormal x taken as zero": "subnormal x taken as zero",
    "NaN in y ignored": "products with a NaN in y left out",
    "NaN is 0x7fc00000": "NaN is 0x7fc00000",
}


@pytest.mark.parametrize("bug", CAUSES)
def test_the_cause_of_a_planted_bug_is_named(bug):
    """In full, of the dot unit; of all bugs: python -m tests.planted_bugs --diagnose."""
    _, _, count, explained, words = next(planted_bugs.diagnoses([bug]))
    assert words == CAUSES[bug]
    assert explained == count > 0


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


def test_hypotheses_are_tried_on_a_few_results_first(monkeypatch):
    """Two faults at once, of which each alone explains little: named as without, for a third of the work."""
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
    assert answered[0] * 3 < answered[1]
