"""The stages of dot units: without faults they are `lowprec.dot`, and each fault that shows is named."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import lowprec as lp
from lowprec.arrays.checks import code_dtype
from lowprec.export.unit_vectors import dot_suite
from lowprec.spec.accumulations import ACCUMULATIONS
from lowprec.verify.questions.dots import step_cuts
from lowprec.verify.questions.dots.stages import stages_of
from lowprec.verify.questions.dots.step_faults import step_faults
from lowprec.verify.questions.dots.step_model import has_steps, stepped
from tests.planted_bugs import UNIT
from tests.support import most_apart

BFLOAT16 = lp.format("bfloat16")

#: Units of every kind: windows that cut, with scales and in pairs, exact sums of terms, fused sums.
KNOWN = [
    name
    for name, how in ACCUMULATIONS.items()
    if not how.rounds_randomly and has_steps(how, how.operands or (BFLOAT16, BFLOAT16))
]


def vectors(how, length=16):
    """Return operands, scales and the addend of the default vectors, by column, and the results."""
    suite = dot_suite(how, how.operands or (BFLOAT16, BFLOAT16), length=length)
    columns = {column.name: column.codes for column in suite.file.columns}
    formats = dict(zip("xy", how.operands or (BFLOAT16, BFLOAT16), strict=True))
    values = {
        name: lp.decode(columns[name].astype(code_dtype(fmt)), fmt, dtype=np.float64)
        for name, fmt in formats.items()
    }
    if how.scale is not None:
        fmt, size = how.scale
        for name, element in formats.items():
            scales = columns[f"{name}scale"].astype(code_dtype(fmt))
            codes = columns[name].astype(code_dtype(element))
            form = lp.BlockFormat(name="", element=element, scale=fmt, size=size)
            values[name] = lp.BlockArray(codes, scales, form, (1,))
    into = (how.total or how.output)[0]
    addend = None
    if "addend" in columns:
        addend = lp.decode(columns["addend"].astype(code_dtype(into)), into, dtype=np.float64)
    return values["x"], values["y"], addend


@pytest.mark.parametrize("name", most_apart(KNOWN, ["fp32_fma"]))
def test_without_faults_the_stages_are_the_dot_product(name):
    """Of aimed vectors, bit for bit: NaNs, infinities, ties, cancellation, subnormals."""
    how = ACCUMULATIONS[name]
    x, y, addend = vectors(how, 64 if how.scale else 16)
    want = lp.dot(x, y, how, addend=addend, dtype=code_dtype(how.output[0]))
    assert (stepped(x, y, addend, how, how.operands or (BFLOAT16, BFLOAT16), {}) == want).all()


@pytest.mark.apart
def test_a_chain_of_rounded_steps_has_faults_too():
    """Sums in binary16, whose guard bit alone rounds, and products that are rounded before they are added."""
    rng = np.random.default_rng(4)
    x, y = (rng.standard_normal((900, 6)).astype(np.float16) for _ in range(2))
    sticky = "sticky bit lost: sums are rounded by the guard bit and 1 bit behind it alone"
    carry = "the carry of rounding into the exponent lost: the exponent's field one too low"
    for name, words in (("fp16_sequential", sticky), ("fp16_sequential", carry), ("fp32_sequential", sticky)):
        how, formats = ACCUMULATIONS[name], (lp.format("binary16"),) * 2
        [fault] = [each for each in step_faults(how, formats, 6, addend=False) if each.words == words]
        got = stepped(x, y, None, how, formats, stages_of([fault]))
        found = lp.compare((x, y), got, operation="dot", accumulation=how, limit=0)
        assert found.mismatches > 0, (name, words)
        assert found.cause.words == words
        assert (found.cause.explained, found.cause.contradicted) == (found.mismatches, 0)


def variants():
    """Accumulations that no machine of the catalog has, by what they are."""
    single, hopper = ("binary32", lp.Projection()), ACCUMULATIONS["hopper_wgmma_e4m3fn_binary32"]
    for base in ("fp32_fma", "fp32_sequential", "fp16_sequential"):
        how = ACCUMULATIONS[base]
        yield f"{base}, addend last", dataclasses.replace(how, addend="last")
        for addend in ("first", "last"):
            chunked = dataclasses.replace(how, order="chunked(3)", total=single, output=single, addend=addend)
            yield f"{base}, chunked, addend {addend}", chunked
    for fields in (
        {"cut": "floor"},
        {"cut": "to_odd"},
        {"cut": "nearest_away"},
        {"fraction_bits": None},
        {"negative_zero": True},
    ):
        window = dataclasses.replace(hopper.accumulator, step=8, **fields)
        yield f"hopper, {fields}", dataclasses.replace(hopper, name="", accumulator=window)


VARIANTS = dict(variants())


@pytest.mark.parametrize(
    "words", most_apart(VARIANTS, ["fp32_fma, chunked, addend last", "hopper, {'cut': 'floor'}"])
)
def test_the_stages_are_the_oracles(words):
    """Beside the kernels: few rows of aimed vectors, every special among them."""
    how = VARIANTS[words]
    formats = how.operands or (BFLOAT16, BFLOAT16)
    x, y, addend = vectors(how)
    some = np.random.default_rng(3).permutation(len(x))[:400]
    special = np.flatnonzero(~np.isfinite(x).all(axis=1) | ~np.isfinite(y).all(axis=1) | ~np.isfinite(addend))
    some = np.concatenate([some, special[:: max(len(special) // 200, 1)]])
    x, y, addend = x[some], y[some], addend[some]
    want = lp.dot(x, y, how, addend=addend, dtype=code_dtype(how.output[0]), backend="oracle")
    assert (stepped(x, y, addend, how, formats, {}) == want).all()


#: Accumulations of the catalog whose stages are not known: machines, exact sums, sums in pairs.
UNKNOWN = {
    *("exact", "fp64_sequential", "arm_bfdot_bfloat16_binary32"),
    *(name for name in ACCUMULATIONS if name.startswith(("ace_top4mx_", "cdna2_", "cdna3_"))),
}


def test_all_kinds_of_units_have_stages():
    assert {name for name in ACCUMULATIONS if name not in KNOWN} == UNKNOWN
    windows = [ACCUMULATIONS[name].accumulator for name in KNOWN]
    assert {window.scales for window in windows if isinstance(window, lp.Window)} == {
        *("none", "products", "groups"),
    }


def _planted():
    """Every fault of the unit of planted bugs that its vectors show, with the results that it gives."""
    x, y, addend = vectors(UNIT)
    right = lp.dot(x, y, UNIT, addend=addend, dtype=np.uint32)
    for fault in step_faults(UNIT, UNIT.operands, 16, addend=True):
        got = stepped(x, y, addend, UNIT, UNIT.operands, stages_of([fault]))
        yield fault, got, int(np.count_nonzero(got != right))


@pytest.mark.apart
def test_every_fault_shows_in_the_default_vectors():
    """But for those that need more than this unit has: eight products stay below 32."""
    assert {fault.words for fault, _, count in _planted() if not count} == {
        "the carry out of 5 bits before the point lost from sums",
        "the carry out of 6 bits before the point lost from sums",
        "sums wrap around at 6 bits before the point, in two's complement",
        "sticky bit lost: sums are rounded by the guard bit and 4 bits behind it alone",
        *(f"sums rounded twice: first to {bits} bits more than the result has" for bits in range(5, 9)),
    }


@pytest.mark.apart
@pytest.mark.parametrize("part", range(8))
def test_every_fault_is_named(part):
    """By its own words or by those of one that gives the same results, of rows where it shows and others."""
    x, y, addend = vectors(UNIT)
    x, y = (side.astype(np.float32) for side in (x, y))
    with np.errstate(invalid="ignore"):
        addend = addend.astype(np.float32)
    right = lp.dot(x, y, UNIT, addend=addend, dtype=np.uint32)
    for fault, got, count in [*_planted()][part::8]:
        if not count:
            continue
        rows = np.sort(
            np.concatenate([np.flatnonzero(got != right)[:300], np.flatnonzero(got == right)[:300]])
        )
        given = {"operation": "dot", "accumulation": UNIT, "addend": addend[rows], "limit": 0}
        found = lp.compare((x[rows], y[rows]), got[rows], **given).cause
        assert found is not None, fault.words
        assert (found.explained, found.contradicted) == (min(count, 300), 0), fault.words
        assert fault.words in [found.words, *found.same], (fault.words, found.words, found.same)


@pytest.mark.apart
@pytest.mark.parametrize("share", [0.003, 0.05, 0.4])
@pytest.mark.parametrize("kind", ["any code", "last bit", "one bit", "NaN", "zero"])
def test_random_corruption_is_unexplained(share, kind):
    """Of results of a dot unit, whatever part is hit, and however."""
    x, y, addend = vectors(UNIT)
    got, rng = np.array(lp.dot(x, y, UNIT, addend=addend, dtype=np.uint32)), np.random.default_rng(7)
    hit = rng.choice(got.size, int(share * got.size), replace=False)
    flips = {
        "any code": rng.integers(1, 1 << 32, hit.size),
        "last bit": np.ones(hit.size, int),
        "one bit": 1 << rng.integers(0, 32, hit.size),
    }
    right = got[hit]
    got[hit] = (
        right ^ flips[kind].astype(np.uint32) if kind in flips else {"NaN": 0x7FC00000, "zero": 0}[kind]
    )
    report = lp.compare((x, y), got, operation="dot", accumulation=UNIT, addend=addend, limit=0)
    assert report.mismatches == np.count_nonzero(got[hit] != right)
    assert report.cause is None, report.cause.words


@pytest.mark.parametrize("name", ["e4m3fn", "e2m1fn", "e5m2", "e8m0fnu", "binary16", "bfloat16", "binary32"])
def test_numbers_are_taken_apart_alike_by_words_and_by_values(name, monkeypatch):
    fmt, drawn = lp.format(name), np.random.default_rng(1)
    codes = drawn.integers(0, 1 << fmt.width, 4000).astype(f"u{max(fmt.width, 8) // 8}")
    values = np.asarray(lp.decode(codes, fmt), np.float64)
    odd = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0])
    for given in (values, values / 2, np.concatenate([values, odd]), drawn.standard_normal(99)):
        for least in (None, -1000):
            found = step_cuts.numbers_of(given, fmt, least)
            with monkeypatch.context() as patched:
                patched.setattr(step_cuts, "_plain_numbers", lambda *_: None)
                other = step_cuts.numbers_of(given, fmt, least)
            for one, same in zip(found, other, strict=True):
                assert (one == same).all()
    assert step_cuts._plain_numbers(values, fmt, fmt.emin) is not None


@pytest.mark.parametrize("output", ["bfloat16", "binary16"])
def test_a_bit_that_the_conversion_of_a_sum_misses_is_named(output):
    drawn = np.random.default_rng(14)
    numbers = (np.ldexp(drawn.standard_normal((1500, 4)), drawn.integers(-3, 4, (1500, 4))) for _ in "xy")
    x, y = (lp.quantize(each, "e4m3fn") for each in numbers)
    how = dataclasses.replace(ACCUMULATIONS["fp32_fma"], name="narrow", output=output)
    bit = {"bfloat16": 14, "binary16": 11}[output]  # the first one behind the guard bit
    sums = lp.dot(x, y, "fp32_fma", dtype=np.uint32) & ~np.uint32(1 << bit)
    got = lp.cast(sums, "binary32", output)
    report = lp.compare((x, y), got, operation="dot", accumulation=how, source="e4m3fn", limit=0)
    assert (
        report.cause.words == f"bit {bit} of sums not seen by the sticky bit of their conversion to {output}"
    )
    assert (report.cause.explained, report.cause.contradicted) == (report.mismatches, 0)
