"""The cliffs: every cell runs, and the report says what is slow and what changed."""

import json

import pytest
from click.testing import CliRunner

from benchmarks import timing
from benchmarks.cliffs import cells, main
from benchmarks.drawn import drawn

pytestmark = pytest.mark.apart


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    monkeypatch.setattr(timing, "_SAMPLE", 1e-5)


def test_cells_have_names_of_their_own_and_cross_all_operations():
    """Few elements: names are what matters here."""
    names = [cell.name for cell in cells(256, 32)]
    assert len(set(names)) == len(names) > 800
    for words in ("fma to binary16, flags", "exact of mxfp8_e5m2", "encode int8 to e2m1fn", "rule ceil"):
        assert any(words in name for name in names)


def test_a_report_can_be_compared_with_an_earlier_one(tmp_path):
    """Ratios are of the yardstick in the same run."""
    file = tmp_path / "cells.json"
    options = ["--size", "256", "--rows", "16", "--budget", "0", "--only", "e4m3fn, flags"]
    first = CliRunner().invoke(main, [*options, "--json", str(file)])
    assert first.exit_code == 0, first.output
    assert "the slowest of elements" in first.output
    assert "below 0.05" in first.output
    report = json.loads(file.read_text())
    assert report["schema"] == "lowprec.cliffs/1"
    assert all(cell["ratio"] > 0 and cell["group"] == "elements" for cell in report["cells"].values())
    second = CliRunner().invoke(main, [*options, "--against", str(file)])
    assert second.exit_code == 0, second.output
    assert "what changed most" in second.output


def test_drawn_cells_are_those_of_their_seed_and_are_timed(tmp_path):
    """Another seed draws others; the report says which seed drew them."""
    file = tmp_path / "cells.json"
    first, again, others = ([cell.name for cell in drawn(4, seed)] for seed in (5, 5, 6))
    assert first == again != others
    options = ["--drawn", "2", "--seed", "5", "--budget", "0", "--json", str(file)]
    result = CliRunner().invoke(main, options)
    assert result.exit_code == 0, result.output
    report = json.loads(file.read_text())
    assert (report["drawn"], report["seed"], list(report["cells"])) == (2, 5, first[:2])


def test_drawn_cells_cross_verbs_formats_modes_layouts_and_blocks():
    """What a list would leave out is drawn: by words that some names hold."""
    names = " ".join(cell.name for cell in drawn(24, 1))
    for words in ("lp.", "encode", "matmul", "projection=", "flags", "axis", "float64", "stochastic"):
        assert words in names
