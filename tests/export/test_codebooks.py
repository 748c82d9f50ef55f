"""Codebooks as files: cards, TOML, tables, C and SystemVerilog, read back by what they are made for."""

import json
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import lowprec as lp
from lowprec.cli.main import main
from lowprec.export import cards
from lowprec.export.tables import Table
from lowprec.export.tabulate import thresholds
from lowprec.oracle.convert import position
from lowprec.spec.codebook import Codebook
from lowprec.spec.codebooks import CODEBOOKS, ENTRIES
from lowprec.spec.projection import Projection
from lowprec.spec.toml_reading import from_toml
from lowprec.spec.toml_writing import to_toml
from tests.programs import assert_c_header_is_right, need, succeed

SMALL = [name for name, entry in ENTRIES.items() if entry.width <= 8]

OWN = Codebook(
    "uneven", [1.5, -1.0, math.nan, 6.0, math.inf, -0.25, 20.0, math.nan],
    thresholds=[-0.5, 0.5, 4.0, 7.0], ties="away",
)  # fmt: skip


def operands(fmt, dtype=np.float32):
    """Every value and threshold with its neighbours, of both signs, and specials."""
    points = [0.0, 1e-300, 1e300, *fmt.values, *map(float, fmt.thresholds)]
    points += [float(each) for sign in (False, True) for each in [fmt.ray(sign).beyond] if each is not None]
    points += [float(fmt.ray(sign).thresholds[-1] or 0) for sign in (False, True)]
    with np.errstate(over="ignore", under="ignore"):
        near = np.abs(np.array([each for each in points if math.isfinite(each)])).astype(dtype)
    near = np.concatenate([near, np.nextafter(near, dtype(np.inf)), np.nextafter(near, dtype(0)), [np.inf]])
    near = np.unique(near)
    return np.concatenate([near, -near]).astype(dtype)


@pytest.mark.parametrize("name", SMALL)
def test_entries_say_what_the_codebooks_are(name):
    """They are listed without being made."""
    book = lp.codebooks[name]
    assert (book.name, book.width, book.source) == (name, ENTRIES[name].width, ENTRIES[name].source)


@pytest.mark.apart
@pytest.mark.parametrize("name", [name for name in CODEBOOKS if name not in SMALL])
def test_entries_of_wide_codebooks_too(name):
    """Those take seconds to make."""
    test_entries_say_what_the_codebooks_are(name)


@pytest.mark.parametrize("book", [*(lp.format(name) for name in SMALL), OWN], ids=str)
def test_toml_is_read_back_as_the_same_codebook(book):
    """Values, thresholds, ties and overflow, in any number of bits."""
    text = to_toml(book)
    (read,) = from_toml(text).values()
    assert read == book
    assert (read.name, read.source) == (book.name, book.source)
    assert len(text) < 1 << 15


def test_a_codebook_in_a_file_begins_with_another_or_is_an_element_of_blocks():
    """Thresholds of other values are not kept, those of the same are."""
    made = from_toml('base = "nf4"\nties = "up"', "mine")["mine"]
    assert (made.ties, made.thresholds) == ("up", lp.format("nf4").thresholds)
    made = from_toml('base = "nf4"\nvalues = [0, 1, 2, -3]', "mine")["mine"]
    assert (made.thresholds, made.ties) == ((-1.5, 0.5, 1.5), "down")
    made = from_toml('values = [0, 1, "1*2^-3", "3/4"]\noverflow = "never"', "mine")["mine"]
    assert (made.values, made.overflow) == ((0.0, 1.0, 0.125, 0.75), "never")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('values = [0, 1, 2, "x"]', "values: 'x' is no number; write it as"),
        ("values = [0, 1, 2]", "values of codebook 'mine' are 3; give one for each code"),
        ("values = 3", "values=3 of a codebook must be a list of numbers"),
        ('kind = "codebook"', "a codebook needs values"),
        ("values = [0, 1, 2, 3]\nvalue = 3", "unknown field 'value' of a codebook; did you mean values?"),
    ],
)
def test_files_of_what_is_no_codebook_are_refused(text, message):
    """With the field at fault."""
    with pytest.raises((ValueError, TypeError), match=message.replace("*", r"\*").replace("^", r"\^")):
        from_toml(text, "mine")


def test_a_codebook_of_many_values_is_not_written_to_toml():
    """A file holds 32 KiB."""
    with pytest.raises(ValueError, match="codebook 'posit9' has 512 values; files hold codebooks of at most"):
        to_toml(lp.format("posit9"))


def test_cards_say_what_a_codebook_is():
    """In a sentence and in plain data."""
    assert cards.sentence(lp.format("hif8")) == "signed codebook, 8 bits; infinities and 1 NaN"
    assert cards.sentence(lp.format("iq4_nl")) == "signed codebook, 4 bits; no specials; no zero"
    assert cards.sentence(lp.format("udynamic8")) == "unsigned codebook, 8 bits; no specials"
    said = cards.describe(lp.format("iq4_nl"))
    assert (said["zero"], said["thresholds"], said["ties"], said["min_positive"]) == (
        False, "midpoints", "up", 1.0,
    )  # fmt: skip
    assert cards.describe(lp.format("nf4"))["thresholds"] == "its own"


@pytest.mark.parametrize("rounding", ["nearest_even", "toward_negative", "to_odd"])
@pytest.mark.parametrize("book", [*(lp.format(name) for name in SMALL), OWN], ids=str)
def test_thresholds_encode_as_the_library_does(book, rounding):
    """A table of first magnitudes is the whole projection."""
    values = operands(book, np.float64)
    table = list(thresholds(book, Projection(rounding=rounding)))
    want = lp.encode(values, book, rounding=rounding)
    for sign in "+-":
        firsts, codes = zip(*[(first, code) for each, first, code in table if each == sign], strict=True)
        here = np.signbit(values) == (sign == "-")
        places = np.searchsorted(firsts, np.abs(values[here]), side="right") - 1
        assert (np.array(codes)[places] == want[here]).all()


def test_a_position_between_values_is_by_the_threshold_and_the_sign():
    """As situations of a difference tell it."""
    posit, iq4 = lp.format("posit8"), lp.format("iq4_nl")
    assert position(Fraction(131072), posit) == (Fraction(1, 2), False)
    assert position(Fraction(1 << 30), posit) == (Fraction(1, 4), True)
    assert position(Fraction(9, 2), iq4, negative=True) == (Fraction(1, 2), False)
    assert position(Fraction(500), iq4) == (None, True)


@pytest.mark.apart
@pytest.mark.parametrize("book", [*(lp.format(name) for name in SMALL), OWN, lp.format("takum10")], ids=str)
def test_the_c_header_compiles_and_gives_every_code(book, tmp_path):
    """All modes and policies, from binary32 and from binary64, with every warning an error."""
    for dtype, function in ((np.float32, "encode"), (np.float64, "encode64")):
        values = operands(book, dtype)
        if book.has_nan:
            values = np.append(values, dtype(np.nan))
        assert_c_header_is_right(book, Table(book).render("c"), function, values, tmp_path)


BENCH = """
`timescale 1ns/1ps
module bench;
    import {package}::*;
    reg [63:0] encodes [0:{last}];
    integer i, wrong;
    initial begin
        $readmemh("{cases}", encodes);
        wrong = 0;
        for (i = 0; i <= {last}; i = i + 1)
            if (encode(encodes[i][63:32]) !== encodes[i][{top}:0]) wrong = wrong + 1;
        $display("%0d wrong", wrong);
        $finish;
    end
endmodule
"""


@pytest.mark.apart
@pytest.mark.parametrize("book", [*(lp.format(name) for name in SMALL), OWN], ids=str)
def test_the_systemverilog_package_simulates_to_the_same_codes(book, tmp_path):
    """Icarus Verilog: all binary32 cases encoded."""
    iverilog = need("iverilog")
    (tmp_path / "package.sv").write_bytes(Table(book).render("sv"))
    values = operands(book)
    pairs = zip(values.view(np.uint32).tolist(), lp.encode(values, book).tolist(), strict=True)
    (tmp_path / "cases.mem").write_text("".join(f"{operand:08x}{code:08x}\n" for operand, code in pairs))
    names = {"package": f"lowprec_{book.name}_pkg", "last": values.size - 1, "top": book.width - 1}
    (tmp_path / "bench.sv").write_text(BENCH.format(cases=tmp_path / "cases.mem", **names))
    files = tmp_path / "package.sv", tmp_path / "bench.sv"
    succeed(iverilog, "-g2012", "-Wall", "-o", tmp_path / "bench", *files)
    assert succeed("vvp", "-n", tmp_path / "bench").split(b"\n")[0] == b"0 wrong"


def test_the_page_lists_the_codebooks_that_there_are():
    """Names, widths, what they are, sources."""
    page = (Path(__file__).parents[2] / "docs" / "codebooks.md").read_text()
    rows = [f"| `{name}` | {each.width} | {each.what} | {each.source} |" for name, each in ENTRIES.items()]
    table = page.split("|---|---|---|---|\n")[1].split("\n\n")[0]
    assert table.splitlines() == rows


def test_lists_hold_codebooks_by_words():
    """All, or those of a family; names that are nearly right suggest one."""
    run = CliRunner().invoke
    listed = json.loads(run(main, ["list", "codebooks", "posit", "--json"]).output)
    assert [each["name"] for each in listed] == ["posit8", "posit16"]
    assert "posit16" in run(main, ["formats"]).output
    assert "takum8" not in run(main, ["list", "formats", "posit"]).output
    assert "did you mean 'posit8'" in run(main, ["show", "posti8"]).output
    assert "2^12 = 4096.0" in run(main, ["show", "posit8_es1"]).output
