"""Results with unknown bits, as simulators print them, are mismatches of their own kind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from lowprec.cli.main import main

pytestmark = pytest.mark.apart

SCHEMA = Path(__file__).parents[2] / "tables" / "schema" / "compare.schema.json"


def run(words, text=None):
    return CliRunner().invoke(main, words.split(), input=text)


def vectors(words):
    """The header of vectors, and their cases."""
    lines = run(f"vectors {words} --samples 16").output.splitlines()
    head = [line for line in lines if line.startswith("#")]
    return head, lines[len(head) :]


def judged(words, head, cases, more=""):
    return run(f"compare - {words}{more}", "\n".join([*head, *cases]) + "\n")


@pytest.mark.parametrize("word", ["xx", "3x", "zz", "XX", "Z3", "uu", "0xzz", "x"])
def test_an_unknown_result_is_a_mismatch_of_its_own_kind(word):
    """One such word refused the whole file; the other lines are judged."""
    words = "convert binary16 e4m3fn"
    head, cases = vectors(words)
    cases[2] = f"{cases[2].split()[0]} {word}"
    found = judged(words, head, cases)
    place = len(head) + 3
    assert found.output.startswith(f"1 of {len(cases):,} lines differ (")
    assert found.output.endswith(f"): 1 unknown; unknown bits: line {place}\n")
    assert found.exit_code == 1


@pytest.mark.parametrize(
    "words",
    [
        "dot ada_mma_e4m3fn_binary32",
        "dot ada_mma_e4m3fn_binary32 --packed",
        "dot rtx_blackwell_mma_e4m3fn_binary32_e8m0fnu_1",
        "dot fp32_fma binary16 binary16 --length 4 --flags",
        "block bfloat16 mxfp4",
        "block bfloat16 mxfp4 --packed",
        "block binary32 nvfp4",
        "block mxfp4 bfloat16",
        "block mxfp4 bfloat16 --packed",
        "matmul ada_mma_e4m3fn_binary32 --size 2,3,16",
    ],
)
def test_unknown_results_of_units_are_counted_and_all_other_lines_judged(words):
    """The last result of two lines, and a wrong one beside."""
    head, cases = vectors(words)
    words = words.replace(" --packed", "")
    for place in (1, 4):
        row = cases[place].split()
        cases[place] = " ".join([*row[:-1], "x" * len(row[-1])])
    row = cases[2].split()
    flags = "--flags" in words
    at = -2 if flags else -1
    row[at] = f"{int(row[at], 16) ^ 1:0{len(row[at])}x}"
    cases[2] = " ".join(row)
    found = judged(words, head, cases, " --no-why --json")
    assert found.exit_code == 1, found.output
    said = json.loads(found.output)
    first = len(head)
    lanes = said["unknown"]["count"] // 2
    assert said["unknown"] == {"count": 2 * lanes, "lines": [first + 2, first + 5]}
    assert said["mismatches"] == 2 * lanes + 1
    assert said["situations"]["unknown"] == 2 * lanes
    assert said["first"][0]["line"] == first + 3
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(said, json.loads(SCHEMA.read_text()))


def test_the_cause_is_sought_among_known_results():
    """Its share is of them."""
    words = "convert binary16 e4m3fn"
    head, cases = vectors(words + " --rounding toward_zero")
    for place in range(0, 400, 50):
        cases[place] = f"{cases[place].split()[0]} xx"
    found = judged(words, head, cases)
    lines = found.output.splitlines()
    assert ", 8 unknown" in lines[0]
    first = len(head) + 1
    assert f"; unknown bits: lines {', '.join(str(first + 50 * n) for n in range(5))} ..." in lines[0]
    assert lines[1].startswith("explained by truncation: rounded toward zero")
    assert lines[1].endswith("mismatches, 100%")
    total, unknown = (int(text.replace(",", "")) for text in (lines[0].split()[0], "8"))
    assert f": {total - unknown:,} of {total - unknown:,} mismatches" in lines[1]


def test_all_results_can_be_unknown():
    """A unit that is never reset."""
    for words in ("convert binary16 e4m3fn", "dot ada_mma_e4m3fn_binary32", "block bfloat16 mxfp4"):
        head, cases = vectors(words)
        cases = [" ".join([*case.split()[:-1], "xx"]) for case in cases]
        found = judged(words, head, cases)
        assert found.exit_code == 1, found.output
        assert found.output.startswith(f"{len(cases):,} of {len(cases):,} ")


def test_unknown_operands_are_refused_by_their_line():
    """Nothing can be judged of them."""
    for words in ("convert binary16 e4m3fn", "dot ada_mma_e4m3fn_binary32"):
        head, cases = vectors(words)
        for result in (cases[1].split()[-1], "xx"):
            wrong = [*cases]
            wrong[1] = " ".join(["xx", *cases[1].split()[1:-1], result])
            found = judged(words, head, wrong)
            assert found.exit_code == 2, found.output
            assert f"line {len(head) + 2} holds 'xx', which is no hexadecimal number" in found.output


def test_unknown_flags_are_counted_as_unknown_results():
    """Of operations and of sums."""
    for words in ("add e4m3fn e4m3fn e4m3fn --flags", "dot fp32_fma binary16 binary16 --length 2 --flags"):
        head, cases = vectors(words)
        cases[3] = " ".join([*cases[3].split()[:-1], "xx"])
        found = judged(words, head, cases)
        assert found.exit_code == 1, found.output
        assert "1 unknown; unknown bits: line " in found.output
