"""`lowprec check-format`: what it takes, what it prints, and how it ends."""

import json
import re

import pytest

from lowprec.testing import checks
from lowprec.testing.laws import LAWS
from tests.command import lowprec
from tests.testing.test_laws import Own


def run(*arguments):
    """Its exit code and what it prints, errors too."""
    made = lowprec("check-format", *arguments)
    return made.exit_code, made.output


def written(folder, text):
    """A file with parameters."""
    path = folder / "mine.toml"
    path.write_text(text)
    return path


def test_it_checks_a_file(tmp_path):
    """Exit 0, a row for each law."""
    code, output = run(written(tmp_path, "exponent_bits = 2\ntrailing_bits = 1\nnans = 1\n"), "--samples", 0)
    assert code == 0, output
    assert re.search(r"^increasing +arrays +6 +yes", output, re.M)
    assert re.search(r"\nmine keeps all \d+ laws in [\d,]+ cases\n", output)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("exponent_bits = 4\ntrailing_bits = 3\nbias = 1100\n", "below float64's 2**-1074"),
        ("exponent_bits = 4\ntrailing_bits = 3\nbias = -1100\n", "above float64's range"),
        (
            "exponent_bits = 4\ntrailing_bits = 3\nnans = 128\n",
            "nans=128 of format 'mine' with infinity=False leaves no",
        ),
        ("exponent_bits = 4\ntrailing_bits = 3\nmantissa = 1\n", "mantissa"),
        ("exponent_bits = 4\ntrailing_bits 3\n", "mine.toml"),
    ],
)
def test_a_file_that_is_no_format_is_refused(tmp_path, text, said):
    """Exit 2, and the format's own words: an impossible bias, codes that are none, a wrong field, no TOML."""
    code, output = run(written(tmp_path, text))
    assert code == 2
    assert said in " ".join(output.split())


def test_it_checks_blocks_and_prints_json():
    """Plain data."""
    code, output = run("mxfp4", "--json", "--samples", 0)
    found = json.loads(output)
    assert (code, found["schema"], found["holds"], found["subject"]) == (0, "lowprec.check/1", True, "mxfp4")
    assert found["laws"][0].keys() == {
        "law",
        "statement",
        "domain",
        "path",
        "tried",
        "holds",
        "counterexample",
    }


def test_it_lists_the_laws():
    """All, with where they hold."""
    code, output = run("--laws")
    assert code == 0
    assert "round trip  [format: every code that is not a NaN" in output
    assert all(law.statement in output for law in LAWS.values())


def test_it_tells_what_is_broken(monkeypatch):
    """Exit 1."""
    broken = checks.report_of(Own([0, 0.5, 1, 1.5, 3, 2, 4, 6]))
    monkeypatch.setattr(checks, "report_of", lambda *given, **more: broken)
    code, output = run("e2m1fn")
    assert code == 1
    assert re.search(r"^increasing +mine +7 +NO", output, re.M)
    assert "\nmine breaks the law 'increasing'\n" in output
    code, output = run("e2m1fn", "--json")
    assert (code, json.loads(output)["holds"]) == (1, False)


def test_questions_without_a_format_are_refused():
    """Exit 2."""
    assert run()[0] == run("mxfp8")[0] == run("e4m3")[0] == run("no_such_format")[0] == 2
