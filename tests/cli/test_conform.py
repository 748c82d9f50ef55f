"""What `lowprec conform` prints, accepts by a baseline, and reports to servers that run tests."""

import dataclasses
import json
import re
from pathlib import Path

import pytest
from junitparser import JUnitXml

from lowprec.export.conformance_report import as_junit, as_text, command_of
from lowprec.verify.conform import conformance
from lowprec.verify.conform.baseline import read_baseline
from lowprec.verify.conform.conformance import Finding, Row
from lowprec.verify.difference import Difference
from tests.command import lowprec

ROOT = Path(__file__).parents[2]
FEW = ("ml_dtypes", "--source", "float64", "--target", "e4m3fn", "--target", "e2m1fn", "--samples", "1000")


def conform(*arguments):
    return lowprec("conform", *arguments)


def finding(kind="tie", count=2, value="0x1.8000000000000p+0", known=None, got="0x01"):
    rows = (("operand", "0x3fc00000"), ("value", value), ("got", got), ("want", "0x00"))
    return Finding(kind, count, Difference(rows, kind), known)


NEW = Row("lib", "1.0", "float32", "e4m3fn", 1000, (finding(),), causes=("rounding away: 2 of 2", "no"))
KNOWN = Row("lib", "1.0", "float64", "e4m3fn", 500, (finding("NaN", 3, "nan", "payloads are kept"),))
ALIKE = dataclasses.replace(KNOWN, target="e5m2")
AGREES = Row("lib", "1.0", "float16", "e4m3fn", 65536)
ADDS = Row("lib", "1.0", "e5m2", "e5m2", 64, (finding("NaN", 1, "nan", "payloads are kept"),), "add")
BLOCKS = Row(
    "other", "2.0", "float32", "mxfp4", 10, (finding("scale", 1, " ".join(["0x1p+0"] * 32)),), "blocks"
)


def test_new_differences_come_first_then_known_ones_by_their_reason():
    """Of rows in any order."""
    assert as_text([AGREES, KNOWN, ALIKE, ADDS, NEW], next_steps=["  do this"]).splitlines() == [
        "New differences, which are in no reviewed list, in 1 task:",
        "",
        "lib 1.0, float32 to e4m3fn: 2 of 1,000 inputs differ",
        "    tie 2: 0x1.8p+0 gives 0x01, not 0x00",
        "    explained by rounding away: 2 of 2",
        "",
        "lib 1.0: 1 of 5 tasks agree, on 67,600 inputs",
        "  NaN* 7: payloads are kept",
        "      float64 to e4m3fn 3, e5m2 3; add e5m2 1",
        "      smallest in float64 to e4m3fn, nan gives 0x01, not 0x00",
        "",
        "* known: reviewed, for the reason given",
        "",
        "5 tasks, 67,600 inputs: 9 differ from the reference, 2 of them beyond the known divergences",
        "",
        "Next:",
        "  do this",
    ]


def test_every_task_is_listed_where_that_is_asked_for():
    """Those that agree with a dash."""
    lines = as_text([AGREES, KNOWN, BLOCKS], everything=True).splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith("every task"))
    assert [" ".join(line.split()) for line in lines[start : start + 4]] == [
        "every task inputs differ of what kind",
        "lib float16 to e4m3fn 65,536 -",
        "lib float64 to e4m3fn 500 3 NaN*",
        "other blocks of float32 to mxfp4 10 1 scale",
    ]
    assert "every task" not in as_text([AGREES, KNOWN, BLOCKS])


def test_no_line_is_longer_than_100_columns():
    """Long blocks, reasons, names and numbers of kinds too."""
    kinds = tuple(finding(kind, 10**9, "nan", "because " * 40) for kind in conformance.KINDS)
    long = Row("gfloat_scalar_ties_away", "0.5.2.post1", "float64", "e4m3b11fnuz", 10**10, kinds)
    text = as_text([BLOCKS, long, dataclasses.replace(BLOCKS, framework="x" * 40)], everything=True)
    assert max(map(len, text.splitlines())) <= 100
    assert all(kind in text for kind in conformance.KINDS)
    assert text.count("0x1p+0") == 64


def test_what_a_library_says_cannot_move_a_terminal():
    """Versions come from metadata, which anyone may write."""
    assert "\x1b" not in as_text([dataclasses.replace(NEW, version="1\x1b[2J")])


@pytest.mark.parametrize("row", [NEW, BLOCKS, ADDS])
def test_the_command_of_a_row_names_it_alone(row):
    """Operations have no source."""
    words = command_of(row).split()
    assert words[:5] == ["lowprec", "conform", row.framework, "--operation", row.operation]
    assert words[-2:] == ["--target", row.target]
    assert ("--source" in words) is (row.operation != "add")


def test_the_run_ends_with_what_to_do():
    """All is known; one framework is named, so that the missing ones are not told."""
    result = conform(*FEW)
    assert result.exit_code == 0
    assert "\n\nNext:\n  lowprec conform --all " in result.stdout
    assert "doctor" not in result.stdout


@pytest.mark.apart
def test_commands_that_are_advised_for_a_new_difference_work(monkeypatch, tmp_path):
    """Each of them, run as it is printed."""
    monkeypatch.setattr(conformance, "known_divergences", tuple)
    monkeypatch.chdir(tmp_path)
    result = conform(*FEW)
    assert result.exit_code == 1
    advised = [line.split()[1:] for line in result.stdout.splitlines() if line.startswith("    lowprec ")]
    assert len(advised) == 3
    alone = lowprec(*advised[0], "--samples", "1000")
    (row,) = json.loads(alone.stdout)["rows"]
    assert (alone.exit_code, row["source"], row["target"]) == (1, "float64", "e4m3fn")
    written = lowprec(*advised[1], *FEW)
    assert (written.exit_code, written.stdout) == (1, "")
    accepted = lowprec(*advised[2], *FEW)
    assert accepted.exit_code == 0
    assert "accepted by baseline.json" in accepted.stdout


def test_a_baseline_accepts_what_it_has_and_no_more(tmp_path):
    """Another count, another smallest input, kind or task is new; another version of the library is not."""
    path = tmp_path / "then.json"
    path.write_text(conformance.report([NEW, KNOWN]))
    baseline = read_baseline(path, "conform")
    later = dataclasses.replace(NEW, version="1.1")
    (row,), gone = baseline.excuse([later])
    assert (row.unexplained, row.causes, gone) == (0, (), [])
    assert row.findings[0].known == f"accepted by {path}"
    for changed in (
        dataclasses.replace(NEW, findings=(finding(count=3),)),
        dataclasses.replace(NEW, findings=(finding(count=1),)),
        dataclasses.replace(NEW, findings=(finding(got="0x02"),)),
        dataclasses.replace(NEW, target="e5m2"),
        dataclasses.replace(NEW, framework="other"),
    ):
        (row,), gone = baseline.excuse([changed])
        assert (row, gone) == (changed, [])
    (row,), gone = baseline.excuse([dataclasses.replace(NEW, findings=())])
    assert gone == ["lib cast float32 e4m3fn tie"]
    (row,), gone = baseline.excuse([KNOWN])
    assert (row, gone) == (KNOWN, [])


def test_what_a_baseline_has_and_is_gone_is_told(tmp_path):
    """It does not fail the run: someone mended it."""
    path = tmp_path / "then.json"
    assert conform(*FEW, "--json", "-o", path).exit_code == 0
    data = json.loads(path.read_text())
    data["rows"][0]["findings"][0]["kind"] = "tie"
    path.write_text(json.dumps(data))
    result = conform(*FEW, "--baseline", path)
    assert result.exit_code == 0
    assert "gone, so write the baseline again: ml_dtypes cast float64 e4m3fn tie" in result.stderr


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="a device without an end")
@pytest.mark.parametrize("option", ["--baseline", "--against"])
def test_a_device_without_an_end_is_not_read_to_its_end(option):
    result = conform(*FEW, option, "/dev/zero")
    assert result.exit_code == 2
    assert "'/dev/zero' has more than 100,000,000 bytes, which no report has" in result.stderr


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("no", "is no baseline, as it is no JSON"),
        ("[" * 100_000, "is no baseline, as it is no JSON"),
        ("[]", "it has no schema; write one with `lowprec conform ... --json`"),
        ('{"schema": ["a"]}', "it has schema ['a']"),
        ('{"schema": "lowprec.compare/3"}', "it has schema 'lowprec.compare/3'"),
        ('{"schema": "lowprec.conform/2"}', "is no whole report of conform (rows)"),
        ('{"schema": "lowprec.conform/2", "rows": [{"findings": []}]}', "is no whole report of conform"),
        ('{"schema": "lowprec.conform/2", "rows": 3}', "is no whole report of conform"),
    ],
)
def test_other_files_are_no_baselines(content, message, tmp_path):
    """Bad input, code 2."""
    path = tmp_path / "other.json"
    path.write_text(content)
    result = conform(*FEW, "--baseline", path)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--all", "--json"], "--all is for text"),
        (["--baseline", __file__, "--markdown"], "--baseline does not go with --markdown"),
        (["--exhaustive", "--junit", "a.xml"], "--junit does not go with --exhaustive"),
    ],
)
def test_options_that_exclude_each_other(arguments, message):
    """Refused before anything is run."""
    result = conform(*arguments)
    assert result.exit_code == 2
    assert message in result.output


def test_the_test_report_fails_for_what_is_new():
    """A case for each task; known differences are in its output."""
    suites = [*JUnitXml.fromstring(as_junit([NEW, KNOWN, AGREES, BLOCKS]).encode())]
    assert [suite.name for suite in suites] == ["lowprec conform lib 1.0", "lowprec conform other 2.0"]
    assert [(suite.tests, suite.failures) for suite in suites] == [(3, 1), (1, 1)]
    new, known, agrees = suites[0]
    (failure,) = new.result
    assert (new.name, failure.type) == ("float32 to e4m3fn", "mismatch")
    assert failure.message == "2 of 1,000 inputs differ in ways that are not known"
    assert "explained by rounding away: 2 of 2" in failure.text
    assert known.system_out == "NaN 3: nan gives 0x01, not 0x00\n    known: payloads are kept"
    assert not known.result
    assert not agrees.result


def test_the_test_report_is_written_beside_the_text(tmp_path):
    """And the text is printed."""
    path = tmp_path / "report.xml"
    result = conform(*FEW, "--junit", path)
    assert result.exit_code == 0
    assert "beyond the known divergences" in result.stdout
    assert [case.name for suite in JUnitXml.fromfile(str(path)) for case in suite] == [
        "float64 to e4m3fn",
        "float64 to e2m1fn",
    ]


def test_what_the_readme_says_of_the_output_is_true():
    """New ones first, known ones marked, their reason, and what to do at the end."""
    readme = " ".join((ROOT / "README.md").read_text().split())
    assert "New differences come first; those marked `*` are known." in readme
    assert "The last lines say what to do next." in readme
    lines = conform(*FEW).stdout.splitlines()
    assert any(re.fullmatch(r"  double rounding\* [\d,]+: float64 is rounded .*", line) for line in lines)
    assert "Next:" in lines[-4:]
    assert max(map(len, lines)) <= 100
