"""The page of conformance: written from rows, and read back."""

import dataclasses
import pathlib
import re

import pytest

from lowprec.export import conformance_page
from lowprec.verify.conform.conformance import Finding, Row, known_divergences, run
from lowprec.verify.difference import Difference
from lowprec.verify.frameworks import FRAMEWORKS
from lowprec.verify.frameworks.tasks import KINDS
from tests.command import lowprec

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "conformance.md"

SMALLEST = Difference((("operand", "0x1"), ("value", "0x1.0p+0"), ("got", "0x02"), ("want", "0x01")))
TIE = Finding("tie", 3, SMALLEST, "ties go up")
ROWS = [
    Row("numpy", "9.9", "float32", "binary16", 1000),
    Row("numpy", "9.9", "float64", "binary16", 2000, (TIE,), profile="jax", reproduced=1999),
    Row(
        "numpy",
        "9.9",
        "binary16",
        "binary16",
        300,
        (dataclasses.replace(TIE, known=None),),
        "add",
        "x86",
        300,
    ),
]


def test_no_row_of_the_page_gives_what_is_wanted():
    """Each case that the page shows as a difference is one: `got` says more than `want`."""
    rows = [line[2:-2].split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    shown = [(got, want) for *_, got, want, _, _ in (row for row in rows if len(row) == 13)]
    assert len(shown) > 500
    assert [(got, want) for got, want in shown if got == want] == []


def test_a_page_says_what_differs_why_and_what_reproduces_it():
    """One line for each kind; the reasons below; tasks that agree in a sentence."""
    page = conformance_page.page(ROWS)
    assert "cast: as the reference on all of 1,000 inputs: float32 to binary16." in page
    assert (
        "| cast | float64 | binary16 | 2,000 | 3 | tie | 3 | `0x1` | `0x1.0p+0` | `0x02` | `0x01` | 1 | jax "
        "(99.95 %) |"
    ) in page
    assert "| not known | x86 (all) |" in page
    assert "\n1. ties go up\n" in page
    assert "| [numpy](#numpy) | 9.9 | nearest_even, saturation none | 3 | 3,300 | 6 | 1 | tie |" in page
    assert all(f"- **{kind}**: " in page for kind in KINDS)
    assert conformance_page.page(ROWS) == page


def test_almost_all_is_not_all():
    """Shares are rounded down."""
    row = dataclasses.replace(ROWS[1], tried=10**6, reproduced=10**6 - 1)
    assert "| jax (99.99 %) |" in conformance_page.page([row])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda rows: rows, []),
        (lambda rows: rows[1:], ["numpy cast float32 to binary16: only the page has it"]),
        (
            lambda rows: [*rows, Row("numpy", "9.9", "int32", "binary16", 7)],
            ["numpy cast int32 to binary16: the page lacks it"],
        ),
        (
            lambda rows: [
                rows[0],
                dataclasses.replace(rows[1], findings=(dataclasses.replace(TIE, count=4),)),
                rows[2],
            ],
            [
                "numpy cast float64 to binary16 tie: the page has 3 `0x1` `0x1.0p+0` `0x02` `0x01` (ties go "
                "up); now it is 4 `0x1` `0x1.0p+0` `0x02` `0x01` (ties go up)"
            ],
        ),
        (
            lambda rows: [rows[0], dataclasses.replace(rows[1], reproduced=2000), rows[2]],
            [
                "numpy cast float64 to binary16 : the page has 2,000 inputs, profile jax (99.95 %); "
                "now it is 2,000 inputs, profile jax (all)"
            ],
        ),
    ],
)
def test_what_a_page_says_is_compared_with_a_run(change, said):
    """Everything that is not the same is told."""
    assert conformance_page.changes(conformance_page.page(ROWS), change(ROWS)) == (said, ["numpy 9.9"])


def test_versions_of_which_the_page_does_not_speak_are_left_out(tmp_path):
    """And if no others are installed, nothing was compared: exit 3."""
    assert conformance_page.changes(
        conformance_page.page(ROWS), [dataclasses.replace(row, version="9.8") for row in ROWS]
    ) == ([], [])
    (tmp_path / "page.md").write_bytes(conformance_page.page(ROWS).encode() + b"\xff")  # no UTF-8
    result = conform("--against", tmp_path / "page.md")
    assert result.exit_code == 3
    assert "page.md is about other versions" in result.output


def test_a_section_that_is_cut_or_damaged_is_named(tmp_path):
    """Wherever a page ends, and whatever stands in a line."""
    whole = conformance_page.page(ROWS)
    wanted = (
        "section '[a-z_]+' is cut or damaged; write the page again with `lowprec conform --markdown -o FILE`"
    )
    said = []
    for text in (whole[:end] for end in range(len(whole))):
        try:
            conformance_page.changes(text, ROWS)
        except ValueError as error:
            said.append(str(error))
    assert len(said) > 3
    assert all(re.search(wanted, each) for each in said)
    for mark in ("1", "| ", "op: as the reference on all of "):
        with pytest.raises(ValueError, match=wanted):
            conformance_page.changes(f"{whole}{mark}\n", ROWS)
    (tmp_path / "page.md").write_text("## numpy\n")
    result = conform("--against", tmp_path / "page.md")
    assert result.exit_code == 2
    assert re.search(wanted, result.output.replace("\n", " "))


def test_the_page_in_docs_says_what_numpy_and_ml_dtypes_compute():
    """Of the versions of the page; `lowprec conform --against` does so for everything."""
    chosen = [FRAMEWORKS["numpy"], FRAMEWORKS["ml_dtypes"]]
    rows = list(run(chosen, operations=["multiply", "sqrt"], known=known_divergences(), profiles=True))
    changes, _ = conformance_page.changes(PAGE.read_text(), rows)
    assert [line for line in changes if " multiply " in line or " sqrt " in line] == []


def test_every_framework_of_the_page_has_an_adapter():
    """And the page has every adapter that its machine could install."""
    sections = [line.removeprefix("## ") for line in PAGE.read_text().splitlines() if line.startswith("## ")]
    assert sections[0] == "Kinds of difference"
    assert set(sections[1:]) <= set(FRAMEWORKS)
    assert "not known" not in PAGE.read_text()


def conform(*arguments):
    return lowprec("conform", "numpy", "--operation", "sqrt", *arguments)


def test_the_command_writes_and_checks_a_page(tmp_path):
    """Exit 0 where the page holds, 1 where it does not."""
    page = tmp_path / "page.md"
    assert conform("--markdown", "-o", page).exit_code == 0
    assert page.read_text().startswith("# What frameworks do, held against the reference\n")
    checked = conform("--against", page)
    assert checked.exit_code == 0
    assert checked.output.endswith(f"says what these do: numpy {FRAMEWORKS['numpy'].version}\n")
    page.write_text(page.read_text().replace("| NaN | 2,044 |", "| NaN | 2,045 |"))
    wrong = conform("--against", page)
    assert wrong.exit_code == 1
    assert "numpy sqrt binary16 NaN: the page has 2,045 " in wrong.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--json", "--markdown"], "--json, --markdown and --against exclude each other"),
        (["-o", "page.md"], "-o FILE needs --json or --markdown"),
        (["--against", "nowhere.md"], "'nowhere.md' does not exist"),
        (["--operation", "cbrt"], "unknown operation 'cbrt'; use one of cast, blocks, add, subtract"),
    ],
)
def test_bad_usage_is_told(arguments, message):
    """Exit 2."""
    result = conform(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_a_framework_that_does_not_run_is_left_out_and_said_so(monkeypatch):
    """QPyTorch, for instance, wants a compiler."""

    def broken():
        raise RuntimeError("Ninja is required\nto load C++ extensions")

    monkeypatch.setitem(FRAMEWORKS, "numpy", dataclasses.replace(FRAMEWORKS["numpy"], targets=broken))
    result = conform()
    assert result.exit_code == 3
    assert "left out: numpy" in result.output
    assert "does not run: Ninja is required\n" in result.output


def test_block_formats_are_targets():
    """By name."""
    result = lowprec("conform", "numpy", "--target", "mxfp4")
    assert result.exit_code == 3
    assert "nothing was compared" in result.output
