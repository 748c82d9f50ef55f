"""No hypothesis ends a comparison: one that fails is left out and noted, and fails the tests."""

from __future__ import annotations

import json
import pathlib
from types import SimpleNamespace

import jsonschema
import numpy as np
import pytest

import lowprec as lp
from lowprec.verify.compare import compare, diagnosis
from lowprec.verify.identify.hypotheses import Move
from lowprec.verify.identify.identify import ports_of
from lowprec.verify.identify.search import Answers, Search
from lowprec.verify.questions.blocks.blocks import BlockQuestion
from lowprec.verify.questions.elements import elements
from lowprec.verify.questions.elements.elements import ElementQuestion
from lowprec.verify.questions.question import Change

SCHEMA = pathlib.Path(__file__).parents[2] / "tables" / "schema" / "compare.schema.json"
X = np.linspace(-2.0, 2.0, 4096, dtype=np.float32)
TRUNCATED = lp.encode(X, "e4m3fn", rounding="toward_zero", backend="oracle")  # compiles nothing
CAUSE = "truncation: rounded toward zero (toward_zero instead of nearest_even)"


@pytest.fixture
def users(monkeypatch):
    """What users have: errors of hypotheses are noted, not raised."""
    monkeypatch.delenv("LOWPREC_RAISE")
    return monkeypatch


def fails(*_):
    raise OverflowError("Python integer -1 out of bounds for uint8")


def planted(patch, *, above):
    """Plant a hypothesis that gives the results, and fails where there are more of them."""
    right, changes = ElementQuestion.answer, ElementQuestion.changes

    def answer(self, batch, made=()):
        if any(change.field == "planted" for change in made):
            return batch.got.astype(np.int64) if batch.got.size <= above else fails()
        return right(self, batch, made)

    def first(self):
        yield Change("planted", 0, "the planted one", cost=0)
        yield from changes(self)

    patch.setattr(ElementQuestion, "answer", answer)
    patch.setattr(ElementQuestion, "changes", first)


def test_rolled_lanes_of_a_block_are_compared():
    """Elements of another format are not changed by the bits of this one."""
    x = np.random.default_rng(2).standard_normal((2, 32)).astype("f4")
    blocks = lp.encode(x, "mxfp4")
    report = lp.compare(x, np.roll(blocks.codes, -1, 1), "mxfp4", scales=blocks.scales)
    assert report.mismatches > 0
    assert report.failed == {}


@pytest.mark.parametrize("above", [0, 4000])
def test_a_failing_hypothesis_is_left_out_and_noted(users, above):
    """Whether it fails on the sample, or on all of the results alone."""
    planted(users, above=above)
    whole = np.concatenate([X] * 20)
    report = lp.compare(whole, np.concatenate([TRUNCATED] * 20), "e4m3fn")
    assert report.cause.words == CAUSE
    error = "OverflowError: Python integer -1 out of bounds for uint8"
    assert report.failed == {"the planted one": error}
    found = json.loads(report.as_json())
    jsonschema.validate(found, json.loads(SCHEMA.read_text()))
    assert found["failed"] == [{"hypothesis": "the planted one", "error": error}]
    assert f"left out, please report it: the planted one ({error})" in str(report)


def test_a_report_without_failures_says_nothing_of_them():
    assert "failed" not in json.loads(lp.compare(X, TRUNCATED, "e4m3fn").as_json())


def test_hypotheses_before_a_failing_list_are_tried(users):
    changes = ElementQuestion.changes

    def broken(self):
        yield from changes(self)
        fails()

    users.setattr(ElementQuestion, "changes", broken)
    report = lp.compare(X, TRUNCATED, "e4m3fn")
    assert report.cause.words == CAUSE
    assert [*report.failed] == ["the list of hypotheses"]


def test_stochastic_rounding_that_fails_is_left_out(users):
    users.setattr(ElementQuestion, "random", fails)
    report = lp.compare(X, TRUNCATED, "e4m3fn")
    assert report.cause.words == CAUSE
    assert [*report.failed] == ["stochastic rounding"]


@pytest.mark.parametrize("question", [ElementQuestion, BlockQuestion])
def test_a_format_that_fails_is_not_ranked(users, question):
    right = question.answer

    def answer(self, batch, made=()):
        return fails() if self.target.name == "e2m1fn" else right(self, batch, made)

    users.setattr(question, "answer", answer)
    report = lp.compare(X, lp.quantize(X, "e4m3fn"))
    assert report.agrees
    assert report.ranking[0].name == "e4m3fn"
    assert report.failed


def test_an_accumulation_that_fails_is_not_ranked(users):
    right = compare.DotQuestion.answer

    def answer(self, batch, made=()):
        return fails() if self.how.name == "exact" else right(self, batch, made)

    users.setattr(compare.DotQuestion, "answer", answer)
    x = np.ones((4, 3), np.float32)
    report = lp.compare((x, x), np.full(4, 3, np.float32), operation="dot")
    assert report.agrees
    assert [*report.failed] == ["exact"]


def test_a_cause_may_refuse_some_results(monkeypatch):
    """It explains nothing there, and what it leaves over is collected there too."""
    right = ElementQuestion.answer

    def answer(self, batch, made=()):
        if made and isinstance(batch.index, slice) and batch.index.start == 0:
            raise ValueError("refused")
        return right(self, batch, made)

    monkeypatch.setattr(ElementQuestion, "answer", answer)
    monkeypatch.setattr(elements, "_PIECE", 1 << 10)
    monkeypatch.setattr(diagnosis, "conditional", lambda *given: [])  # a rule would explain all of it
    report = lp.compare(np.abs(X), lp.encode(np.abs(X), "e4m3fn", rounding="toward_zero"), "e4m3fn")
    assert report.cause.words == CAUSE
    assert 0 < report.cause.explained < report.mismatches


def test_every_test_finds_hypotheses_that_fail(monkeypatch):
    planted(monkeypatch, above=0)
    with pytest.raises(OverflowError):
        lp.compare(X, TRUNCATED, "e4m3fn")


@pytest.mark.parametrize(("exponents", "bias"), [(0, -1022), (5, -980)])
def test_formats_up_to_the_range_of_float64_are_compared(exponents, bias):
    """Twice as many values would pass it."""
    fmt = lp.Format(exponent_bits=exponents, trailing_bits=2, bias=bias)
    x = np.float64([1.0, 2.0**1000, -(2.0**1010), 3e301])
    right = lp.encode(x, fmt)
    assert lp.compare(x, right ^ right.dtype.type(1), fmt).mismatches == x.size


@pytest.mark.parametrize("error", [TypeError, OverflowError])
def test_identify_passes_over_refused_values_and_hides_no_other_error(error):
    """In moves and in sums alike."""
    how, codes = lp.accumulations["fp32_fma"], np.zeros(1, np.int64)

    def raising(kind):
        def of(*_):
            raise kind("planted")

        return of

    search = Search(Answers(ports_of(("binary32",) * 2, "binary32", 2, None, None)), np.random.default_rng(0))
    search.answers.codes = codes
    for kind in (ValueError, error):
        search._asked = lambda _, kind=kind: SimpleNamespace(codes=raising(kind))
        attempts = [lambda kind=kind: Move("order", "x", raising(kind))(how), lambda: search.far(how, codes)]
        for attempt, passed in zip(attempts, (None, np.full(1, 12.0)), strict=True):
            if kind is ValueError:
                assert attempt() == passed
            else:
                with pytest.raises(error, match="planted"):
                    attempt()
