"""Vectors of codebooks aim at their values and thresholds; comparisons name what went wrong with them."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner

import lowprec as lp
from lowprec.cli.main import main
from lowprec.export.vectors import suite
from lowprec.spec.codebook import Codebook
from lowprec.spec.codebooks import ENTRIES
from lowprec.spec.projection import DEFAULT, Projection
from lowprec.verify.codes import codebooks
from lowprec.verify.codes.values import distances, is_nan
from lowprec.verify.inputs import conversions
from lowprec.verify.inputs.operands import operands, special_codes
from lowprec.verify.questions.situations import names_of, situation, situations

SMALL = [name for name, entry in ENTRIES.items() if entry.width <= 8]
BINARY32 = lp.format("binary32")


def run(*words, fed=None):
    """The output of a command and its exit code."""
    made = CliRunner().invoke(main, [*map(str, words)], input=fed)
    return made.output, made.exit_code


@pytest.mark.parametrize("name", SMALL)
def test_inputs_hold_every_value_and_threshold_with_neighbours(name):
    """Of both signs, with what bounds overflow."""
    book = lp.format(name)
    chosen = conversions.inputs(book, np.float64)
    for ray in (book.ray(False), book.ray(True)):
        points = [abs(float(each)) for each in (*ray.sizes, *ray.thresholds) if each is not None]
        for point in points:
            for near in (point, np.nextafter(point, np.inf), np.nextafter(point, 0)):
                assert near in chosen
                assert -near in chosen


@pytest.mark.parametrize("name", SMALL)
def test_tables_by_code_are_those_of_the_library(name):
    """Values, order, classes and negatives; distances count codes in the order of values."""
    book = lp.format(name)
    every = np.arange(1 << book.width).astype(np.uint8)
    numbers = lp.decode(every, book, dtype=np.float64)
    assert (codebooks.values(book).view(np.uint64) == numbers.view(np.uint64)).all()
    assert (is_nan(every, book) == np.isnan(numbers)).all()
    assert (codebooks.classes(book) == np.asarray(lp.classify(every, book))).all()
    finite = every[np.isfinite(numbers)]
    order = finite[np.argsort(numbers[finite], kind="stable")]
    steps = distances(order[1:], order[:-1], book)
    assert (steps == (np.diff(numbers[order]) > 0)).all()
    other = codebooks.negated(book)
    held = other >= 0
    assert (numbers[other[held]] == -numbers[held]).all()
    assert not np.isin(-numbers[~held], numbers[np.isfinite(numbers)]).any()


def test_special_codes_are_at_borders():
    """Zero, NaR, both ends, the smallest and what is next to 1, of each sign."""
    found = set(special_codes(lp.format("posit16")).tolist())
    assert {0, 0x8000, 0x7FFF, 0x8001, 1, 0xFFFF, 0x4000, 0x4001, 0x3FFF, 0xC000, 0x7FFE} <= found
    few = special_codes(lp.format("posit16"), few=True)
    assert 0 < few.size < len(found)
    assert {0x6F, 0xEF, 0x80, 0x6E, 0xEE} <= set(special_codes(lp.format("hif8")).tolist())


@pytest.mark.parametrize("operation", ["add", "multiply", "divide", "fma"])
def test_operands_of_wide_codebooks_reach_ties(operation):
    """A twentieth of those that are drawn lies at a threshold or at a value, where any would be rare."""
    book = lp.format("posit12")
    count = 3 if operation == "fma" else 2
    formats = (book,) * (count + 1)
    given = operands(operation, formats, 1024, 0)
    again = operands(operation, formats, 1024, 0)
    assert all((x == y).all() for x, y in zip(given, again, strict=True))
    drawn = [codes[-1024:] for codes in given]
    found = situations(operation, drawn, formats, DEFAULT)
    counts = {words: int((found == number).sum()) for number, words in enumerate(names_of(operation))}
    assert counts["at a tie"] > 5
    assert counts["below a tie"] > 50
    assert counts["above a tie"] > 50


@pytest.mark.parametrize("name", SMALL)
def test_situations_of_arrays_are_those_of_one_case(name):
    """The kernels' by modes and ties, and the oracle's by fractions."""
    book = lp.format(name)
    random = np.random.default_rng(0)
    values = conversions.inputs(book, np.float32)
    cases = [("convert", [values[random.integers(0, values.size, 400)].view(np.uint32)], (BINARY32, book))]
    codes = [random.integers(0, 1 << book.width, 200).astype(np.uint8) for _ in range(2)]
    cases += [(operation, codes, (book, book, book)) for operation in ("add", "divide")]
    for operation, columns, formats in cases:
        found = situations(operation, columns, formats, DEFAULT)
        for place, number in enumerate(found.tolist()):
            given = [int(column[place]) for column in columns]
            assert names_of(operation)[number] == situation(given, operation, formats, DEFAULT)


@pytest.mark.parametrize("words", [
    ("convert", "binary32", "posit8"), ("convert", "binary32", "nf4"), ("convert", "binary64", "takum8"),
    pytest.param(("add", "posit8", "posit8", "posit8"), marks=pytest.mark.apart),
    pytest.param(("multiply", "hif8", "hif8", "binary16"), marks=pytest.mark.apart),
    ("convert", "posit8", "hif8"), pytest.param(("fma", *["fp4_bnb"] * 4), marks=pytest.mark.apart),
])  # fmt: skip
@pytest.mark.parametrize("flags", [False, True], ids=["codes", "flags"])
def test_vectors_are_read_back_and_agree_and_a_wrong_one_is_found(words, flags):
    """Through the command line, as text."""
    more = ["--flags"] if flags else []
    text, code = run("vectors", *words, "--samples", 64, *more)
    assert code == 0
    output, code = run("compare", "-", *words, *more, fed=text)
    assert code == 0, output
    lines = text.splitlines()
    place = next(i for i, line in enumerate(lines) if not line.startswith("#") and i > len(lines) // 2)
    parts = lines[place].split()
    result = -2 if flags else -1
    parts[result] = f"{int(parts[result], 16) ^ 1:0{len(parts[result])}x}"
    lines[place] = " ".join(parts)
    output, code = run("compare", "-", *words, *more, fed="\n".join(lines) + "\n")
    assert code == 1, output
    assert "1 of " in output


def test_every_kind_of_file_holds_the_same_results():
    """Text, CSV, JSON lines, memory images and NumPy's."""
    import io
    import json

    made = suite("convert", (lp.format("posit8"), lp.format("hif8")))
    text = [line.split() for line in made.render("text").decode().splitlines() if line[0] != "#"]
    csv = [line.split(",") for line in made.render("csv").decode().splitlines() if line[0] not in "#o"]
    lines = [json.loads(line) for line in made.render("jsonl").decode().splitlines()]
    assert text == csv
    assert [[each["operand"], each["result"]] for each in lines if "result" in each] == text
    table = np.load(io.BytesIO(made.render("npy")))
    assert table["result"].tolist() == [int(row[1], 16) for row in text]


POSIT, NF4, HIF8 = lp.format("posit8"), lp.format("nf4"), lp.format("hif8")
PLANTED = {
    "midpoints": (POSIT, Codebook("m", POSIT.values, overflow="never"), Projection(),
                  "thresholds at the middles between values, not posit8's own"),
    "ties": (NF4, Codebook("t", NF4.values, thresholds=NF4.thresholds, ties="up"), Projection(),
             "ties to the higher value"),
    "truncation": (POSIT, POSIT, Projection(rounding="toward_zero"), "truncation: rounded toward zero"),
    "saturation": (HIF8, HIF8, Projection(saturation="finite"),
                   "saturation: overflow becomes the largest finite value"),
    "overflow": (HIF8, Codebook("o", HIF8.values, ties="away", overflow="never"), Projection(),
                 "nothing overflows"),
    "other": (lp.format("takum8"), lp.format("takum_linear8"), Projection(),
              "takum_linear8 instead of takum8"),
    "flushed": (POSIT, POSIT, Projection(subnormals="flush_operands"), "subnormal operands count as zeros"),
}  # fmt: skip


@pytest.mark.parametrize(("asked", "done", "how", "words"), PLANTED.values(), ids=PLANTED)
def test_a_planted_cause_is_the_first_hypothesis(asked, done, how, words):
    """Of an implementation of another codebook or mode."""
    values = conversions.inputs(asked, np.float32)
    values = values[~np.isnan(values)]
    report = lp.compare(values, lp.encode(values, done, projection=how), asked)
    assert report.mismatches > 0
    assert report.cause.words.startswith(words), report.cause.words


def test_another_code_of_nan_is_named():
    """Where a codebook has several."""
    nan = float("nan")
    book = Codebook("several", [0, 1, 2, nan, -1, -2, nan, nan])
    values = np.float32([0, 1, nan, nan, 2, nan])
    report = lp.compare(values, lp.encode(values, book, projection=Projection(nan_code=6)), book)
    assert report.cause.words == "NaN is 0x6"


def test_vectors_without_a_nan_leave_nans_out_and_say_so():
    """A codebook such as IQ4_NL has neither NaN nor zero."""
    made = suite("convert", (lp.format("binary16"), lp.format("iq4_nl")))
    assert made.left_out == 2046
    report = lp.compare(
        np.arange(1 << 16, dtype=np.uint16).view(np.float16), np.zeros(1 << 16, np.uint8), lp.format("iq4_nl")
    )
    assert report.mismatches == int((made.results != 0).sum())


def test_coverage_names_what_no_codebook_can_reach_no_more():
    """No result is tiny; a flushed operand is told from the smallest posit."""
    output, code = run("vectors", "convert", "binary32", "posit8", "--coverage")
    assert code == 0
    assert "flush_results" not in output
    (line,) = [line for line in output.splitlines() if "flush_operands" in line]
    assert int(line.split()[-1].replace(",", "")) > 0
    assert "not looked at" not in output


def test_comparisons_of_codebooks_are_vectors_too():
    """All pairs of posits."""
    output, code = run("vectors", "compare", "posit8", "--coverage")
    assert code == 0, output
    (line,) = [line for line in output.splitlines() if "differ in the sign alone" in line]
    assert int(line.split()[-1].replace(",", "")) == 254
