"""The example of docs/mx.md that trains a network: it runs, and the page shows what it prints."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import lowprec as lp
from tests.support import example_script

ROOT = Path(__file__).parents[2]
SHOWN = re.search(r"mx_training.py\n(.*?)```", (ROOT / "docs" / "mx.md").read_text(), re.S)[1].splitlines()


@pytest.fixture(scope="module")
def example():
    return example_script("mx_training")


@pytest.mark.apart
def test_it_prints_the_table_of_the_page(example, tmp_path):
    """A row for each format, under the same head, and a picture."""
    before, picture = lp.get_threads(), tmp_path / "curves.png"
    try:
        result = CliRunner().invoke(example.main, ["--steps", "10", "--save", str(picture)])
    finally:
        lp.set_threads(before)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0] == SHOWN[0]
    assert [line.split()[0] for line in lines[1:]] == [line.split()[0] for line in SHOWN[1:]]
    assert [line.split()[0] for line in lines[1:]] == list(example.FORMATS)
    assert picture.stat().st_size > 10_000


@pytest.mark.apart
@pytest.mark.parametrize("row", [1, -1])
def test_the_page_says_what_comes_out(example, row):
    """Of the processor's own exponentials, so within a thousandth or two."""
    name, loss, tested, accuracy, _ = SHOWN[row].split()
    got = example.train(name, 200)
    assert np.mean(got.losses[-20:]) == pytest.approx(float(loss), abs=0.003)
    assert got.tested == pytest.approx(float(tested), abs=0.003)
    assert f"{got.accuracy:.1%}" == accuracy
