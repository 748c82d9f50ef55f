"""The transformer of docs/mx.md: its tables, and what error diffusion makes of its weights."""

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
SHOWN = re.search(
    r"\$ python docs/examples/mx_characters.py.*\n((?s:.*?))```", (ROOT / "docs" / "mx.md").read_text()
)[1].splitlines()


@pytest.fixture(scope="module")
def example():
    example_script("characters")
    return example_script("mx_characters")


def test_it_prints_the_tables_of_the_page(example, tmp_path):
    """A row for each format, under the same heads, and a picture."""
    picture = tmp_path / "curves.png"
    result = CliRunner().invoke(example.main, ["--steps", "10", "--save", str(picture)])
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert [line[:14] for line in lines] == [line[:14] for line in SHOWN]
    assert lines[0] == SHOWN[0]
    assert lines[8] == SHOWN[8]
    assert [line[:14].rstrip() for line in lines[1:7]] == list(example.ROWS)
    assert picture.stat().st_size > 10_000


def test_the_page_says_what_comes_out(example):
    """Of the processor's own exponentials and of BLAS, so within some hundredths."""
    run = example.characters.train(example.characters.recipe("float32"), example.characters.adam(), 120)
    _, loss, tested = SHOWN[1].split()
    assert np.mean(run.losses[-20:]) == pytest.approx(float(loss), abs=0.03)
    assert run.tested == pytest.approx(float(tested), abs=0.03)


def test_diffused_weights_are_values_of_the_format_and_closer_in_what_they_do(example):
    """Of a network that is not trained: embeddings stay, and the error of the logits is less than cast."""
    characters = example.characters
    data, p = characters.text(), characters.initial(characters.text().size)
    tokens, _ = characters.windows(data.train, range(0, 1600, 50))
    made = example.diffused(p, "mxfp4", tokens)
    for name, w in p.items():
        if name in ("embedding", "position"):
            assert made[name] is w
        else:
            assert np.array_equal(lp.quantize(made[name], "mxfp4", axis=1), made[name])
            assert not np.array_equal(lp.quantize(w, "mxfp4", axis=1), made[name])
    wanted = characters.forward(p, tokens, characters.Hooks())[0]
    hooks = example.casting("mxfp4")
    cast, spread = (np.square(characters.forward(q, tokens, hooks)[0] - wanted).sum() for q in (p, made))
    assert spread < 0.8 * cast


def test_a_diverged_step_takes_no_longer(example):
    """All weights NaN, against healthy ones, with room for a busy machine."""
    characters = example.characters
    data = characters.text()
    tokens, targets = characters.windows(data.train, range(16))
    healthy = characters.initial(data.size)
    diverged = {name: np.full_like(w, np.nan) for name, w in healthy.items()}

    hooks = characters.recipe("mxfp4")
    steps = (lambda p=p: characters.gradients(p, tokens, targets, hooks) for p in (diverged, healthy))
    with np.errstate(invalid="ignore"):
        assert ratio_of_times(*steps) < 2
