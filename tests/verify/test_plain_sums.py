"""Faults of steps on top of sums that are kept are those of all steps computed again."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import lowprec as lp
from lowprec.spec.accumulations import accumulation
from lowprec.spec.order import chunked
from lowprec.verify.questions.dots import step_model, sum_edits
from lowprec.verify.questions.dots.stages import fault, stages_of
from lowprec.verify.questions.dots.step_faults import step_faults

FMA = dataclasses.replace(accumulation("fp32_fma"), operands=("e4m3fn", "e4m3fn"))
UNITS = {
    "chain": FMA,
    "narrow chain": dataclasses.replace(
        FMA, accumulator=("bfloat16", lp.Projection()), output=("bfloat16", lp.Projection())
    ),
    "window": accumulation("ada_mma_e4m3fn_binary32"),
    "chunks": dataclasses.replace(FMA, order=chunked(8)),
    "last addend": dataclasses.replace(FMA, addend="last"),
}


def operands(how, length, rng):
    """Rows of any codes, a tenth with specials; half of the addends near the sums, some special."""
    x, y = (rng.integers(0, 256, (24, length)).astype(np.uint8) for _ in "xy")
    usual = np.arange(24) % 10 > 0
    x[usual], y[usual] = x[usual] & 0xBF, y[usual] & 0xBF
    addend = rng.normal(size=24).astype(np.float32)
    addend[:4] = np.inf, np.nan, -0.0, 2.0**-140
    return *(lp.decode(side, "e4m3fn", dtype=np.float64) for side in (x, y)), addend


@pytest.mark.parametrize("unit", UNITS)
def test_kept_sums_change_no_answer(unit):
    how, rng, changed = UNITS[unit], np.random.default_rng(11), 0
    formats = (lp.format("e4m3fn"),) * 2
    x, y, addend = operands(how, 64, rng)
    plain: step_model.PlainSums = {}
    tried = list(step_faults(how, formats, 64, addend=True))[::2]
    tried += [narrow for change in tried[::5] for narrow in sum_edits.narrowed(change, 4)]
    right = step_model.stepped(x, y, addend, how, formats, {})
    for change in tried:
        stages = stages_of((change,))
        want = step_model.stepped(x, y, addend, how, formats, stages)
        got = step_model.stepped(x, y, addend, how, formats, stages, plain)
        assert got.tolist() == want.tolist(), change.words
        changed += (want != right).any()
    assert plain
    assert changed > 10


def test_a_fault_of_operands_is_told_of_no_step_alone():
    """Its stage makes the products of all steps; that of sums is of each."""
    of_scales = fault("scales", scales=lambda x, y: (y, x))
    of_sums = fault("sums", before=lambda sums: sums)
    assert [change.words for change in sum_edits.narrowed(of_scales, 3)] == []
    assert "sums, in step 1 of 3 alone" in [change.words for change in sum_edits.narrowed(of_sums, 3)]
