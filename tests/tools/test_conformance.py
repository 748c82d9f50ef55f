"""A conformance run must find what is planted, name its kind, and accept nothing it does not know."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

import lowprec as lp
from lowprec.spec import catalog
from lowprec.tools import conformance
from lowprec.tools.conformance import compare_casts, known_divergences, run
from lowprec.tools.frameworks import FRAMEWORKS, Framework
from tests.programs import need_framework

E4M3FN = catalog.E4M3FN


def subject(cast, sources=("float32", "float64")):
    """A framework made of one function."""
    return Framework("planted", "lowprec", "", sources, lambda: (E4M3FN,), cast)


def kinds(cast, source, target=E4M3FN):
    (row,) = run([dataclasses.replace(subject(cast), targets=lambda: (target,))], sources=[source], samples=1000)
    return {finding.kind: finding for finding in row.findings}


def test_a_right_cast_has_no_findings():
    """The reference agrees with itself on every case."""
    assert kinds(lp.encode, "float64") == {}


def test_ties_away_are_found_as_ties_and_nothing_else():
    """The classic wrong rounding; the smallest is half the smallest subnormal."""
    found = kinds(lambda x, fmt: lp.encode(x, fmt, rounding="nearest_away"), "float32")
    assert set(found) == {"tie"}
    assert found["tie"].value == (2.0**-10).hex()
    assert (found["tie"].got, found["tie"].want) == ("0x01", "0x00")


def test_saturation_is_found_as_overflow():
    """464 is a tie and goes to 448 either way; everything above differs."""
    found = kinds(lambda x, fmt: lp.encode(x, fmt, saturation="finite"), "float32")
    assert set(found) == {"overflow"}
    assert float.fromhex(found["overflow"].value) == np.nextafter(np.float32(464), np.float32(np.inf))


def test_rounding_to_binary32_first_is_found_as_double_rounding():
    """The bug of casts from float64 in several libraries."""

    def twice(x, fmt):
        return lp.encode(lp.quantize(x, "binary32"), fmt)

    found = kinds(twice, "float64")
    assert set(found) == {"double rounding"}
    assert found["double rounding"].operand == "0x3f50000000000001"


def test_flushed_subnormals_dropped_nan_signs_and_lost_signs_of_zero_are_told_apart():
    """Three bugs at once, three kinds."""

    def flush(x, fmt):
        codes = lp.encode(x, fmt)
        codes[(codes & 0x7F) < 8] &= 0x80  # subnormal results
        codes[x == 0] = 0
        codes[np.isnan(x)] = 0x7F
        return codes

    found = kinds(flush, "float32")
    assert {"NaN", "zero", "subnormal result"} <= set(found) <= {"NaN", "zero", "subnormal result", "tie"}
    assert found["zero"].operand == "0x80000000"
    assert float.fromhex(found["subnormal result"].value) < 2.0**-6


def test_a_wrong_code_in_the_middle_is_other():
    """No hypothesis explains it, so it can never be a known divergence."""

    def slip(x, fmt):
        codes = lp.encode(x, fmt)
        codes[codes == 0x40] = 0x41
        return codes

    assert "other" in kinds(slip, "float32")


def test_a_directed_rounding_is_found_as_a_direction():
    """ONNX's default for e8m0fnu is round up; a neighbour is one thing, a code further off another."""
    found = kinds(lambda x, fmt: lp.encode(x, fmt, rounding="away_from_zero", saturation="finite"), "float32")
    assert set(found) == {"direction", "overflow", "subnormal operand", "subnormal result", "tie"}
    assert float.fromhex(found["direction"].value) == np.nextafter(np.float32(2.0**-6), np.float32(1))


def test_negative_values_of_unsigned_formats_have_their_own_kind():
    """Some libraries drop the sign."""

    def drop(x, fmt):
        return lp.encode(x, fmt, projection=lp.Projection(negative="drop_sign"))

    assert "negative" in kinds(drop, "float32", catalog.UE4M3)


@pytest.fixture(scope="module")
def rows():
    """The standard run, with fewer random inputs."""
    installed = [framework for framework in FRAMEWORKS.values() if framework.version is not None]
    return list(run(installed, samples=1 << 14, known=known_divergences()))


def test_the_installed_frameworks_differ_only_as_the_reviewed_file_says(rows):
    """`lowprec conform` exits 0 for it."""
    assert [row for row in rows if row.unexplained] == []
    installed = {name for name, framework in FRAMEWORKS.items() if framework.version is not None}
    assert {row.framework for row in rows} == installed >= {"ml_dtypes", "numpy"}
    assert sum(row.tried for row in rows) > 4 * 10**6


@pytest.mark.parametrize(
    "entry", known_divergences(), ids=lambda entry: f"{entry.framework}, {entry.kind}, {entry.targets[0]}"
)
def test_every_known_divergence_is_still_seen_with_its_smallest_input(entry, rows):
    """An entry that nothing shows any more would hide the next bug."""
    version = need_framework(entry.framework)
    if not any(f"{version}.".startswith(f"{prefix}.") for prefix in entry.versions):
        pytest.skip(f"{entry.framework} {version} is not a version of this entry")
    seen = {
        (row.source, row.target): finding for row in rows for finding in row.findings if entry.covers(row, finding.kind)
    }
    assert {source for source, _ in seen} == set(entry.sources)
    assert {target for _, target in seen} == set(entry.targets)
    finding = seen[entry.smallest["source"], entry.smallest["target"]]
    assert (finding.operand, finding.got, finding.want) == tuple(
        entry.smallest[key] for key in ("operand", "got", "want")
    )
    if finding.kind != "NaN":
        sizes = [abs(number(other.value)) for other in seen.values()]
        assert abs(number(finding.value)) == min(sizes) or finding.kind in ("tie", "subnormal operand")


def number(text):
    return float.fromhex(text) if "x" in text else float(text)


def test_the_divergences_that_people_should_know_are_reported(rows):
    """The three that the README promises."""
    found = {
        (row.source, row.target, finding.kind)
        for row in rows
        for finding in row.findings
        if row.framework == "ml_dtypes"
    }
    assert ("float64", "e4m3fn", "double rounding") in found
    assert ("float32", "e8m0fnu", "tie") in found
    assert ("float32", "e8m0fnu", "subnormal operand") in found
    between = np.linspace(2.0**-127, 2.0**-126, 1001, dtype=np.float64)[1:-1].astype(np.float32)
    row = compare_casts(FRAMEWORKS["ml_dtypes"], "float32", catalog.E8M0FNU, between)
    wrong = lp.encode(between, "e8m0fnu") != 1
    assert wrong.any()
    assert row.mismatches == wrong.sum()


def test_an_unlisted_difference_is_unexplained(rows):
    """Without the file everything that differs is unexplained."""
    (row,) = run([FRAMEWORKS["ml_dtypes"]], sources=["float64"], targets=[E4M3FN], samples=0)
    assert row.unexplained == row.mismatches > 0


@pytest.mark.parametrize("name", ["torch", "jax", "onnx"])
def test_a_framework_that_is_not_installed_is_left_out(name, monkeypatch):
    """It has no version, and `lowprec conform` names the command that installs it."""
    framework = dataclasses.replace(FRAMEWORKS[name], package="no-such-package")
    assert framework.version is None
    assert framework.install == f'pip install "lowprec[{name}]"'


def test_a_cast_in_jax_leaves_the_process_as_it_was():
    """64-bit types are enabled for the cast alone."""
    need_framework("jax")
    import jax

    before = jax.config.jax_enable_x64
    codes = FRAMEWORKS["jax"].cast(np.array([1.0625 + 2.0**-40]), E4M3FN)
    assert codes.tolist() == [0x39]
    assert jax.config.jax_enable_x64 == before


def test_the_report_is_json_with_sums(rows):
    """Machines read it."""
    report = json.loads(conformance.report(rows))
    assert report["schema"] == "lowprec.conform/1"
    assert report["lowprec"] == lp.__version__
    assert report["mismatches"] == sum(row["mismatches"] for row in report["rows"])
    assert report["unexplained"] == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[divergence]]\nframework = 'numpy'", "divergence 1 has missing or unknown fields: kind"),
        (
            "[[divergence]]\nframework='x'\nversions=[]\nsources=[]\ntargets=[]\nkind='other'\nwhy=''\n"
            "smallest={source='',target='',operand='',got='',want=''}",
            "divergence 1 has kind 'other', which explains nothing",
        ),
    ],
)
def test_a_malformed_file_of_divergences_is_refused(text, message, tmp_path):
    """A typing error must not turn into silence."""
    path = tmp_path / "divergences.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        known_divergences(path)
