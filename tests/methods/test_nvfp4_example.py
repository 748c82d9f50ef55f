"""The example of docs/nvfp4-recipe.md: it runs, the page shows what comes out, NaNs are not slow."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import lowprec as lp
from tests.support import example_script, ratio_of_times

pytestmark = pytest.mark.apart
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "nvfp4-recipe.md").read_text()
SHOWN = re.search(r"nvfp4_training.py\n(.*?)```", PAGE, re.S)[1].splitlines()


@pytest.fixture(scope="module")
def example():
    return example_script("nvfp4_training")


def test_it_prints_the_table_of_the_page(example, tmp_path):
    """A row for each recipe, under the same head, and a picture."""
    before, picture = lp.get_threads(), tmp_path / "curves.png"
    try:
        arguments = ["--steps", "10", "--seeds", "1", "--save", str(picture)]
        result = CliRunner().invoke(example.main, arguments)
    finally:
        lp.set_threads(before)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0] == SHOWN[0]
    assert [line[:20] for line in lines[1:]] == [line[:20] for line in SHOWN[1:]]
    assert [line[:20].rstrip() for line in lines[1:]] == list(example.ROWS)
    assert picture.stat().st_size > 10_000


@pytest.mark.parametrize("name", ["binary32", "mxfp4", "nvfp4 recipe"])
def test_the_page_says_what_comes_out(example, name):
    """Of the processor's own exponentials, so within a few thousandths."""
    got = example.line(name, [example.train(example.ROWS[name], 200, seed) for seed in range(2)])
    shown = next(line for line in SHOWN if line.startswith(name))
    one, other = (list(map(float, re.findall(r"\d+\.\d+", line)))[:-1] for line in (got, shown))
    assert one == pytest.approx(other, abs=0.02, rel=0.02)


def test_a_diverged_step_takes_no_longer(example):
    """All weights NaN, against healthy ones, with room for a busy machine."""
    x, labels, *_ = example.digits()
    healthy, diverged = (example.Network(example.ROWS["nvfp4 recipe"], 0) for _ in range(2))
    for weight in diverged.weights:
        weight[...] = np.nan
    steps = (lambda network=network: network.step(x[:64], labels[:64]) for network in (diverged, healthy))
    assert ratio_of_times(*steps, rounds=16) < 2
