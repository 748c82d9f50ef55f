"""Test vectors are right, complete, and the same bytes every time."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest

import lowprec as lp
from lowprec.oracle import convert as oracle
from lowprec.spec import catalog
from lowprec.spec.format import Format
from lowprec.spec.projection import Projection
from lowprec.tools import cases
from lowprec.tools.vectors import operand_format, suite

PAIRS = [("binary32", "e4m3fn"), ("binary64", "e5m2"), ("int64", "bfloat16"), ("tf32", "e2m1fn"), ("e4m3fn", "e5m2")]


def made(source, target, **options):
    return suite("convert", (operand_format(source), catalog.format(target)), **options)


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_results_are_the_oracles(source, target):
    """Recomputed from the operands' codes alone."""
    vectors = made(source, target, projection=Projection(rounding="to_odd", nan="max"), samples=200)
    want = [oracle.cast(code, *vectors.formats, vectors.projection) for code in vectors.operands[0].tolist()]
    assert vectors.results.tolist() == want


def test_operands_are_the_cases_and_then_random_ones():
    """So that ties are there whatever the seed."""
    chosen = cases.inputs(catalog.E4M3FN, np.float32).view(np.uint32)
    operands = made("binary32", "e4m3fn", samples=10, seed=5).operands[0]
    assert (operands[: chosen.size] == chosen).all()
    assert operands.size == chosen.size + 10
    assert (made("binary32", "e4m3fn", samples=10, seed=6).operands[0] != operands).any()


def test_operands_of_sixteen_bits_are_all_of_them():
    """Few enough."""
    assert (made("bfloat16", "e4m3fn").operands[0] == np.arange(1 << 16)).all()
    assert (made("e3m2fn", "e2m3fn").operands[0] == np.arange(64)).all()


def test_a_private_wide_source_is_taken_on_both_sides_of_every_tie():
    """No NumPy type stands behind it."""
    source = Format(name="wide", exponent_bits=8, trailing_bits=15, bias=127, nans=(1 << 15) - 1, infinity=True)
    vectors = suite("convert", (source, catalog.E2M1FN), Projection(nan="max"))
    values = lp.decode(vectors.operands[0], source)
    for tie in (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0):
        for value in (tie, tie * (1 + 2**-15), tie * (1 - 2**-15) if tie != 0.25 else tie):
            assert {value, -value} <= set(values.tolist()) or lp.quantize(value, source) != value


def test_nan_operands_are_left_out_where_nothing_is_right_for_them():
    """And the header says how many."""
    vectors = made("e4m3fn", "e2m1fn")
    assert vectors.left_out == 2
    assert not {0x7F, 0xFF} & set(vectors.operands[0].tolist())
    assert "2 NaN operands are left out: e2m1fn has no NaN" in vectors.render("text").decode()


def test_every_kind_of_file_holds_the_same_cases():
    """Read back by what each is for."""
    vectors = made("binary32", "e5m2", samples=50, command="lowprec vectors convert binary32 e5m2")
    want = list(zip(vectors.operands[0].tolist(), vectors.results.tolist(), strict=True))

    lines = [line.split() for line in vectors.render("text").decode().splitlines() if line[0] != "#"]
    assert [(int(x, 16), int(y, 16)) for x, y in lines] == want
    assert {(len(x), len(y)) for x, y in lines} == {(8, 2)}

    rows = csv.DictReader(line for line in vectors.render("csv").decode().splitlines() if line[0] != "#")
    assert [(int(row["operand"], 16), int(row["result"], 16)) for row in rows] == want

    header, *entries = map(json.loads, vectors.render("jsonl").decode().splitlines())
    assert (header["schema"], header["formats"]) == ("lowprec.vectors/1", ["binary32", "e5m2"])
    assert header["cases"] == len(entries)
    assert [(int(entry["operand"], 16), int(entry["result"], 16)) for entry in entries] == want

    words = [line for line in vectors.render("mem").decode().splitlines() if line[:2] != "//"]
    assert [(int(word[:8], 16), int(word[8:], 16)) for word in words] == want

    table = np.load(io.BytesIO(vectors.render("npy")))
    assert list(zip(table["operand"].tolist(), table["result"].tolist(), strict=True)) == want

    assert vectors.operand_lines().split() == [f"{operand:08x}" for operand, _ in want]


def test_the_same_command_gives_the_same_bytes():
    """Files can be compared byte for byte."""
    once, again = (made("binary32", "e4m3fn", seed=3).render("text") for _ in range(2))
    assert once == again


def test_a_result_must_be_a_format():
    """Binary64 is where values come from."""
    with pytest.raises(ValueError, match="'binary64' is a type that values come in, not a format to encode to"):
        made("binary32", "e4m3fn") and suite("convert", (catalog.BINARY32, catalog.BINARY64))
