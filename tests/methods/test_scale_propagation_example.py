"""The example of training in FP8: its quick version, and what the page shows of the long one."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.support import example_script

pytestmark = pytest.mark.apart

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "scale-propagation.md").read_text()


@pytest.fixture(scope="module")
def example():
    """The script, as a module."""
    return example_script("scalify_training")


def cells(table):
    """Rows of a table as it is printed."""
    return [re.split(r"\s{2,}", line.strip()) for line in table.strip().splitlines()]


def shown():
    """The table of the page."""
    return cells(
        re.search(r"^\$ python docs/examples/scalify_training.py.*?\n(.*?)^```", PAGE, re.M | re.S)[1]
    )


def test_only_fp8_with_scales_survives_a_small_loss_scale(example, tmp_path, monkeypatch):
    """As float32, within 2 %, in 12 steps; without scales all gradients are flushed, nothing is learnt."""
    kept, experiment = [], example.experiment
    monkeypatch.setattr(example, "experiment", lambda steps: kept.extend(experiment(steps)) or kept)
    done = CliRunner().invoke(
        example.main, ["--quick", "--plot", str(tmp_path / "plot.png")], catch_exceptions=False
    )
    assert done.exit_code == 0
    rows = cells(done.output)
    assert [row[:2] for row in rows] == [row[:2] for row in shown()]
    assert rows[0] == shown()[0]
    accuracy = {(run.name, run.loss_scale == 1): run.accuracy for run in kept}
    assert accuracy["float32", True] > 0.8
    for name in ("float32", "FP8 with scales"):
        assert accuracy[name, True] == pytest.approx(accuracy["float32", True], abs=0.02)
        assert accuracy[name, False] == pytest.approx(accuracy["float32", True], abs=0.02)
    assert accuracy["FP8 without", False] < 0.2
    flushed = {(run.name, run.loss_scale == 1): run.flushed for run in kept}
    assert max(flushed["FP8 with scales", False][-1]) < 0.01
    assert flushed["FP8 without", False] == [(1.0, None)]
    scaled = [run.losses for run in kept if run.name == "FP8 with scales"]
    assert scaled[0] == scaled[1]  # to the last bit: the loss scale is in the scales alone
    assert (tmp_path / "plot.png").stat().st_size > 10_000


def test_the_page_shows_the_headline():
    """The design's numbers, 300 steps: float32 and FP8 with scales within half a percent; chance without."""
    rows = {(row[0], row[1]): (float(row[2].rstrip("%")), row[3:]) for row in shown()[1:]}
    best = rows["float32", "1"][0]
    assert best == pytest.approx(94.4, abs=1)
    for key in (
        ("float32", "2**-6"),
        ("FP8 with scales", "1"),
        ("FP8 with scales", "2**-6"),
        ("FP8 without", "1"),
    ):
        assert rows[key][0] == pytest.approx(best, abs=0.5), key
    assert rows["FP8 with scales", "2**-6"][1] == rows["FP8 with scales", "1"][1]
    assert rows["FP8 without", "2**-6"][0] == pytest.approx(10, abs=2)
    assert float(rows["FP8 without", "1"][1][0].rstrip("%")) == pytest.approx(92, abs=1)
    assert rows["FP8 without", "2**-6"][1] == ["100.0%", "-"]


def test_a_plot_without_matplotlib_says_how_to_get_it(example, monkeypatch):
    """In one line."""
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(Exception, match=re.escape('plots need matplotlib: pip install "lowprec[examples]"')):
        example.plot([], "plot.png")
