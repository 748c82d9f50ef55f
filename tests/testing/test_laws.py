"""The laws hold for every format of the catalog and for others, and what breaks them is told as text."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from click.testing import CliRunner

import lowprec as lp
from lowprec.spec import catalog
from lowprec.testing import check_block_format, check_format, check_operation
from lowprec.testing.formatcheck import laws, report_of
from lowprec.tools.cli import main
from tests.mutants import LAWS_PAGE, PAGE, ROOT, with_laws
from tests.mutations import MUTANTS

FORMATS = tuple(dict.fromkeys(catalog.FORMATS.values()))


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_every_format_of_the_catalog_keeps_all_laws(fmt):
    """On arrays, with flags and in the oracle."""
    report = check_format(fmt, samples=0)
    assert {verdict.path for verdict in report.verdicts} == {"arrays", "arrays with flags", "oracle"}
    assert report.tried > 10_000


@pytest.mark.parametrize("name", catalog.BLOCK_FORMATS)
def test_every_block_format_of_the_catalog_keeps_all_laws(name):
    """Scales and elements."""
    assert check_block_format(name, samples=8).tried > 100


@pytest.mark.parametrize("operation", ["add", "divide", "fma", "sqrt", "copysign", "remainder"])
def test_operations_keep_the_laws_of_arithmetic(operation):
    """Those of lowprec, as anyone's function."""

    def mine(*codes):
        return getattr(lp, operation)(*(lp.decode(column, "e4m3fn") for column in codes), "e4m3fn")

    report = check_operation(mine, operation, "e4m3fn", samples=500)
    assert "oracle" in {verdict.law.name for verdict in report.verdicts}


def test_laws_have_a_statement_and_a_domain():
    """A sentence each."""
    assert len(laws()) >= 35
    for law in laws().values():
        assert law.statement.endswith("."), law.name
        assert law.domain


# -- messages ----------------------------------------------------------------------------------------


class Own:
    """An implementation of four bits, sign and magnitude, by its table."""

    name, width = "mine", 4

    def __init__(self, values, **more):
        self.values = np.array(values, float)
        self.__dict__.update(more)

    def decode(self, codes):
        """Values, from the table."""
        table = np.concatenate([self.values, -self.values])
        return table[codes]


def told(own):
    """The message of a check that fails."""
    with pytest.raises(AssertionError) as caught:
        check_format(own)
    return str(caught.value)


def test_codes_out_of_order_are_named():
    """With both codes, their bits and values."""
    assert told(Own([0, 0.5, 1, 1.5, 3, 2, 4, 6])) == (
        "mine breaks the law 'increasing' (mine)\n"
        "  law     A larger magnitude stands for a larger value.\n"
        "  domain  finite codes with a clear sign bit; those next to each other\n"
        "  smallest counterexample\n"
        "    code  0x4  0 100  3.0 = 0x1.8000000000000p+1\n"
        "    next  0x5  0 101  2.0 = 0x1.0000000000000p+1\n"
        "    want  more than 3.0 = 0x1.8000000000000p+1"
    )


def test_a_nan_inside_the_finite_range_is_named():
    """With the finite code above it."""
    assert told(Own([0, 0.5, 1, np.nan, 2, 3, 4, 6])) == (
        "mine breaks the law 'specials on top' (mine)\n"
        "  law     Finite codes come first, then at most one infinity, then NaNs: none lies inside the finite range.\n"
        "  domain  codes with a clear sign bit\n"
        "  smallest counterexample\n"
        "    code          0x3  0 011  nan\n"
        "    finite above  0x7  0 111  6.0 = 0x1.8000000000000p+2\n"
        "    want          a finite value"
    )


def test_a_wrong_bias_is_named():
    """Held against the format that it is meant to be; its codes have the fields of that."""
    own = Own([0, 0.25, 0.5, 0.75, 1, 1.5, 2, 3], format="e2m1fn")
    message = told(own)
    assert "mine breaks the law 'values' (mine)\n" in message
    assert "    code  0x1  0 00 1  0.25 = 0x1.0000000000000p-2\n    want  0.5 = 0x1.0000000000000p-1\n" in message
    assert "other laws broken too: published type (mine)" in message or "one other law broken too" in message


class Rounds(Own):
    """One that encodes too."""

    def encode(self, values):
        """Codes, by the middles between values."""
        table = self.values
        size = np.minimum(np.abs(values), table[-1])
        middle = table[:-1] + np.diff(table) / 2
        codes = np.searchsorted(middle, size, side="right")  # ties away from zero
        return codes | np.where(np.signbit(values), 8, 0)


def test_a_broken_cast_is_named():
    """Its law, the number, where that lies, the code and its value; and the right mode passes."""
    table = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    assert told(Rounds(table)) == (
        "mine breaks the law 'nearest' (mine)\n"
        "  law     No value of the format is closer; ties go to the even code, away from zero or toward zero, as the "
        "mode says.\n"
        "  domain  in range; nearest modes\n"
        "  smallest counterexample\n"
        "    value     0.25 = 0x1.0000000000000p-2, the tie\n"
        "    rounding  nearest_even\n"
        "    got       0x1  0 001  0.5 = 0x1.0000000000000p-1\n"
        "    want      0x0  0 000  0.0 = 0x0.0p+0, the nearest"
    )
    assert not check_format(Rounds(table, rounding="nearest_away")).broken


def test_a_broken_operation_is_named():
    """With its operands, bit by bit."""

    def careless(x, y):
        return lp.add(lp.decode(x, "e4m3fn"), lp.decode(y, "e4m3fn"), "e4m3fn", rounding="toward_zero")

    with pytest.raises(AssertionError) as caught:
        check_operation(careless, "add", "e4m3fn", samples=2000)
    message = str(caught.value)
    assert message.startswith("careless breaks the law 'real result' (careless)\n")
    assert re.search(r"\n    x +0x.. ", message)
    assert re.search(r"\n    want +0x.. ", message)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (Own([0] * 8, width=40), ValueError, r"width=40 of mine must be the bits of a code, 2 to 16; of more bits"),
        (Own([0] * 8, sign="plus"), ValueError, "sign='plus' of mine is unknown; use one of magnitude, unsigned, tw"),
        (Own([0] * 8, rounding="stochastic(4)"), ValueError, "rounding of mine is stochastic; a check of `encode` nee"),
        (3, TypeError, r"check_format takes a Format, a name, or an object with decode\(codes\) and width, not 3"),
        ("e4m3", ValueError, "format 'e4m3' is ambiguous"),
    ],
)
def test_what_is_no_format_is_refused(given, error, message):
    """With the way out."""
    with pytest.raises(error, match=message):
        check_format(given)


def test_bad_questions_to_check_operation_are_refused():
    """The number of formats, and stochastic modes."""
    with pytest.raises(ValueError, match="add takes 2 operands, and 1 formats are given; give one for each"):
        check_operation(lambda x, y: x, "add", ["e4m3fn"])
    with pytest.raises(ValueError, match="is not among the deterministic modes"):
        check_operation(lambda x, y: x, "add", "e4m3fn", rounding=lp.stochastic(4))
    with pytest.raises(ValueError, match="unknown operation 'plus'"):
        check_operation(lambda x, y: x, "plus", "e4m3fn")


# -- the command line --------------------------------------------------------------------------------


def test_the_command_checks_a_file(tmp_path):
    """Exit 0, a row for each law."""
    path = tmp_path / "mine.toml"
    path.write_text("exponent_bits = 2\ntrailing_bits = 1\nnans = 1\n")
    run = CliRunner().invoke(main, ["check-format", str(path), "--samples", "0"])
    assert run.exit_code == 0, run.output
    assert re.search(r"^increasing +arrays +6 +yes", run.output, re.M)
    assert re.search(r"\nmine keeps all \d+ laws in [\d,]+ cases\n", run.output)


def test_the_command_shows_an_impossible_bias(tmp_path):
    """Exit 2, and the format's own words."""
    path = tmp_path / "mine.toml"
    path.write_text("exponent_bits = 4\ntrailing_bits = 3\nbias = 1100\n")
    run = CliRunner().invoke(main, ["check-format", str(path)])
    assert run.exit_code == 2
    assert "below float64's 2**-1074" in run.output
    assert "bias=1100" in run.output.replace("\n", " ")


def test_the_command_prints_json_and_lists_laws(monkeypatch):
    """Plain data; exit 1 where a law is broken."""
    run = CliRunner().invoke(main, ["check-format", "mxfp4", "--json", "--samples", "0"])
    found = json.loads(run.output)
    assert (run.exit_code, found["holds"], found["subject"]) == (0, True, "mxfp4")
    run = CliRunner().invoke(main, ["check-format", "--laws"])
    assert "round trip  [format: every code that is not a NaN]\n    Encoding the value of a code" in run.output
    from lowprec.testing import formatcheck

    broken = report_of(Own([0, 0.5, 1, 1.5, 3, 2, 4, 6]))
    monkeypatch.setattr(formatcheck, "report_of", lambda *given, **more: broken)
    run = CliRunner().invoke(main, ["check-format", "e2m1fn"])
    assert run.exit_code == 1
    assert "mine breaks the law 'increasing' (mine)" in run.output


# -- documents ---------------------------------------------------------------------------------------


def test_the_list_of_laws_in_the_docs_is_that_of_the_code():
    """`python -m tests.mutants --laws` writes it."""
    text = LAWS_PAGE.read_text()
    assert with_laws(text) == text


def test_every_mutant_changes_one_place_and_has_its_row_in_the_docs():
    """`python -m tests.mutants --write` runs them and writes the page."""
    page = PAGE.read_text()
    assert len(MUTANTS) >= 40
    assert f"{len(MUTANTS)} of {len(MUTANTS)} mutants are found." in page
    for mutant in MUTANTS:
        assert (ROOT / "lowprec" / mutant.file).read_text().count(mutant.old) == 1, mutant.name
        assert f"| {mutant.name} |" in page
