"""Budgets of a comparison: what differs is exact, within the budget or outside it, and each is counted."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import lowprec as lp
from lowprec.cli.main import main

pytestmark = pytest.mark.apart

ROOT = Path(__file__).parents[2]


def shifted(codes, by, every=3):
    """Codes of which every third lies so many codes above."""
    codes = codes.copy()
    codes[::every] += np.uint8(by)
    return codes


def valid(report):
    """The report as data, which obeys the schema."""
    import jsonschema

    schema = json.loads((ROOT / "tables/schema/compare.schema.json").read_text())
    data = json.loads(report.as_json())
    jsonschema.validate(data, schema)
    return data


X = np.linspace(1, 100, 900, dtype=np.float32)
CODES = np.asarray(lp.encode(X, "e4m3fn", backend="oracle"))


@pytest.mark.parametrize("by", [1, 2, 3])
def test_results_are_exact_within_the_budget_or_outside(by):
    report = lp.compare(X, shifted(CODES, by), "e4m3fn", ulps=2)
    within = by <= 2
    assert report.agrees == within
    assert (report.exact, report.spent.within, report.mismatches) == (600, 300 * within, 300 * (not within))
    assert report.spent.farthest.distance == by
    assert report.spent.farthest.index == 0
    assert report.spent.farthest.within == within
    assert valid(report)["budget"] == {
        "ulps": 2,
        "exact": 600,
        "within": 300 * within,
        "outside": 300 * (not within),
        "widest": 2,
        "farthest": {"distance": by, "index": 0, "within": within},
    }


def test_the_sum_says_how_much_of_the_budget_is_spent():
    passed = "900 results pass: 600 exact, 300 within the budget of 2 codes; the largest distance is +1"
    assert lp.compare(X, shifted(CODES, 1), "e4m3fn", ulps=2).sum() == f"{passed}, at index 0"
    mixed = shifted(CODES, 1)
    mixed[5] += 9
    report = lp.compare(X, mixed, "e4m3fn", ulps=1)
    assert report.sum().startswith("1 of 900 results lie outside the budget of 1 code (0.111%): 1 "), (
        report.sum()
    )
    assert report.sum().endswith("; 300 within it, 599 exact; the largest distance is +9, at index 5")
    assert "    allowed -1 to +1 codes" in str(report)
    assert lp.compare(X, CODES, "e4m3fn", ulps=1).sum() == (
        "900 results pass: 900 exact, 0 within the budget of 1 code"
    )


def test_a_test_report_says_it_too():
    text = lp.compare(X, shifted(CODES, 1), "e4m3fn", ulps=2).as_junit()
    assert 'failures="0"' in text
    assert 'name="within" value="300"' in text
    assert "300 within the budget of 2 codes" in text
    assert 'failures="1"' in lp.compare(X, shifted(CODES, 3), "e4m3fn", ulps=2).as_junit()


def test_no_infinity_and_no_nan_is_within_a_budget():
    """Though their codes lie beside those of numbers."""
    largest = np.float32([57344.0, 57344.0, np.inf, np.nan])
    want = lp.encode(largest, "e5m2")
    got = np.uint8([0x7C, 0x7E, 0x7B, 0x7B])
    report = lp.compare(largest, got, "e5m2", ulps=200)
    assert report.mismatches == 4
    assert report.spent.farthest is None
    assert lp.compare(largest, want, "e5m2", ulps=1).exact == 4
    other = lp.compare(largest, np.uint8([0x7B, 0x7B, 0x7C, 0x7F]), "e5m2", ulps=1, any_nan=True)
    assert (other.exact, other.spent.within) == (4, 0)
    nan = lp.compare(
        (np.float32([np.nan, 1]), np.float32([1, 1])),
        np.float32(3),
        operation="dot",
        accumulation="fp32_fma",
        ulps="auto",
    )
    assert (nan.mismatches, nan.spent.widest) == (1, None)


def test_the_other_zero_is_within_any_budget():
    report = lp.compare(np.float32([0.0, 1.0]), np.uint8([0x80, 0x38]), "e4m3fn", ulps=1)
    assert (report.exact, report.spent.within, report.spent.farthest.distance) == (1, 1, 0)


def test_values_that_the_format_does_not_have_are_outside():
    report = lp.compare(np.float32([1.0, 2.0]), np.float32([1.0, 2.01]), "e4m3fn", ulps=100)
    assert (report.exact, report.mismatches) == (1, 1)


def test_a_cause_is_sought_for_what_lies_outside():
    """Ties away are at most one code off: saturation is what is left."""
    x = np.concatenate([X, np.linspace(500, 900, 300, dtype=np.float32)])
    got = lp.encode(x, "e4m3fn", rounding="nearest_away", saturation="finite")
    report = lp.compare(x, got, "e4m3fn", ulps=1)
    assert report.mismatches == 300
    assert report.cause.words == "saturation: overflow becomes the largest finite value"
    assert report.cause.explained == 300


def test_elements_of_another_scale_are_outside():
    x = np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)
    blocks = lp.encode(x, "mxfp8_e4m3")
    scales = blocks.scales.copy()
    scales[0, 0] += 1
    codes = blocks.codes.copy()
    codes[1, 0] ^= 1
    report = lp.compare(x, codes, "mxfp8_e4m3", scales=scales, ulps=1)
    assert (report.mismatches, report.spent.within) == (32, 1)


# -- any order of summation ------------------------------------------------------------------------------


def factors(seed=0, shape=(24, 16), length=128):
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((shape[0], length)), rng.standard_normal((length, shape[1]))
    return tuple(np.asarray(lp.quantize(side.astype(np.float32), "bfloat16")) for side in (x, y))


def compared(x, y, got, **options):
    options = {"accumulation": "fp32_fma", "ulps": "auto", "operation": "matmul"} | options
    return lp.compare((x, y), got, **options)


def test_another_order_of_summation_is_within_the_budget_and_says_so():
    x, y = factors()
    order = np.random.default_rng(1).permutation(128)
    report = compared(x, y, lp.matmul(x[:, order], y[order], "fp32_fma"))
    assert report.agrees
    assert report.spent.within > 200
    assert report.exact + report.spent.within == 384
    assert abs(report.spent.farthest.distance) <= report.spent.widest
    assert "within the budget of any order of summation, at most " in report.sum()
    assert valid(report)["budget"]["ulps"] == "auto"
    plain = compared(x, y, lp.matmul(x[:, order], y[order], "fp32_fma"), ulps=None)
    assert plain.mismatches == report.spent.within


@pytest.mark.parametrize("fault", ["lane", "narrow", "bit"])
def test_what_no_order_gives_is_outside(fault):
    """A product left out, sums in bfloat16, and a bit of the result flipped."""
    x, y = factors()
    right = lp.matmul(x, y, "fp32_fma")
    if fault == "lane":
        short = x.copy()
        short[:, 17] = 0
        got = lp.matmul(short, y, "fp32_fma")
    elif fault == "narrow":
        got = lp.matmul(x, y, "bf16_sequential").astype(np.float32)
    else:
        got = (right.view(np.uint32) ^ np.uint32(1 << 18)).view(np.float32)
    report = compared(x, y, got)
    assert not report.agrees
    assert report.mismatches > 0.9 * report.compared


@pytest.mark.parametrize("verb", ["dot", "matmul"])
def test_the_budget_of_each_output_is_its_own(verb):
    """One cancels, and may be far off; one is exact in any order."""
    x = np.float32([[1e8, 3.0, -1e8, 1.0], [1.0, 2.0, 3.0, 4.0]])
    ones = np.ones((4, 1), np.float32) if verb == "matmul" else np.ones((1, 4), np.float32)
    right = np.asarray(getattr(lp, verb)(x, ones, "fp32_fma"))
    order = [0, 2, 1, 3]
    turned = ones[order] if verb == "matmul" else ones[:, order]
    other = np.asarray(getattr(lp, verb)(x[:, order], turned, "fp32_fma"))
    report = compared(x, ones, other, operation=verb)
    assert report.agrees
    assert (report.exact, report.spent.within) == (1, 1)
    other.reshape(-1)[1] = np.nextafter(np.float32(10), np.float32(11))
    report = compared(x, ones, other, operation=verb)
    assert report.mismatches == 1
    assert "    allowed no difference" in str(report)
    assert right.reshape(-1)[1] == 10


def test_addends_and_windows_and_results_of_less_bits_have_budgets():
    x, y = factors()
    addend = np.random.default_rng(3).standard_normal((24, 16)).astype(np.float32)
    order = np.random.default_rng(1).permutation(128)
    for name in ("ampere_mma_bfloat16_binary32", "hopper_wgmma_bfloat16_binary32", "bf16_sequential"):
        got = lp.matmul(x[:, order], y[order], name, addend=addend)
        report = compared(x, y, got, accumulation=name, addend=addend)
        assert report.agrees, (name, str(report))
        assert report.spent.within, name
        assert not compared(x, y, got, accumulation=name, addend=addend + 200).agrees


def test_products_of_numpy_are_within_the_budget_of_fused_sums():
    """Whatever order and blocking its library has."""
    rng = np.random.default_rng(2)
    x, y = (rng.standard_normal(shape).astype(np.float32) for shape in ((40, 300), (300, 24)))
    report = compared(x, y, x @ y)
    assert report.agrees, str(report)
    assert not compared(x, y, ((x @ y).astype(np.float64) + 0.25).astype(np.float32)).agrees


REFUSED = {
    "no dot": ({"ulps": "auto"}, "ulps='auto' is for dot and matmul"),
    "none": ({"ulps": 0}, "ulps=0 must be 1 or more; leave it out to allow no difference"),
    "negative": ({"ulps": -3}, "ulps=-3 must be 1 or more"),
    "half": ({"ulps": 1.5}, "ulps=1.5 must be a number of codes, or 'auto'"),
    "word": ({"ulps": "many"}, "ulps='many' must be a number of codes, or 'auto'"),
}


@pytest.mark.parametrize("limit", [-1, 1.5, True, "3"])
def test_a_limit_that_is_no_number_of_mismatches_is_refused(limit):
    with pytest.raises(ValueError, match="must be a number of mismatches, 0 or more, or None for all"):
        lp.compare([1.0, 2.0], np.uint8([0, 0]), "e4m3fn", limit=limit)


@pytest.mark.parametrize(("options", "message"), REFUSED.values(), ids=REFUSED)
def test_budgets_that_are_none_are_refused(options, message):
    with pytest.raises(ValueError, match="ulps=") as refused:
        lp.compare(X, CODES, "e4m3fn", **options)
    assert str(refused.value).startswith(message)


def test_values_of_blocks_have_no_budget():
    x = np.ones((2, 32), np.float32)
    with pytest.raises(ValueError, match="ulps= counts codes of elements"):
        lp.compare(x, x, "mxfp4", ulps=1)


# -- the command -----------------------------------------------------------------------------------------


def run(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def test_the_command_passes_what_lies_within_the_budget(tmp_path):
    """Its exit code is 0 then, and 1 for what lies outside."""
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", shifted(CODES, 2))
    words = ("compare", tmp_path / "x.npy", tmp_path / "y.npy", "--to", "e4m3fn")
    passed = run(*words, "--ulps", 2)
    assert passed.exit_code == 0
    assert "600 exact, 300 within the budget of 2 codes" in passed.output
    assert run(*words, "--ulps", 1).exit_code == 1
    assert run(*words).exit_code == 1
    assert run(*words, "--ulps", "few").exit_code == 2
    refused = run(*words, "--ulps", "auto")
    assert refused.exit_code == 2
    assert "is for dot and matmul" in refused.output


def test_lines_have_budgets_too(tmp_path):
    (tmp_path / "lines.txt").write_text("3f800000 39\n3f800000 38\n")
    words = ("compare", tmp_path / "lines.txt", "convert", "binary32", "e4m3fn")
    assert run(*words).exit_code == 1
    passed = run(*words, "--ulps", 1)
    assert passed.exit_code == 0
    assert "2 lines pass: 1 exact, 1 within the budget of 1 code" in passed.output
