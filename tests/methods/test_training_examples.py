"""Examples that train in FP8, MX and NVFP4: the pages show what they print, and NaNs are not slow."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import lowprec as lp
from tests.support import example_script, ratio_of_times

pytestmark = pytest.mark.apart
DOCS = Path(__file__).parents[2] / "docs"

#: Each with its page, arguments of a short run, and the width of the names of rows.
EXAMPLES = {
    "fp8_training": ("fp8-recipe", [], 19),
    "mx_training": ("mx", [], 11),
    "mx_characters": ("mx", [], 14),
    "nvfp4_training": ("nvfp4-recipe", ["--seeds", "1"], 20),
}


def shown(name):
    """The lines that the page shows below the command."""
    page = (DOCS / f"{EXAMPLES[name][0]}.md").read_text()
    return re.search(rf"\$ python docs/examples/{name}.py.*\n((?s:.*?))```", page)[1].splitlines()


@pytest.fixture(scope="module")
def example():
    example_script("characters")  # which mx_characters imports
    return {name: example_script(name) for name in EXAMPLES}


@pytest.mark.parametrize("name", EXAMPLES)
def test_it_prints_the_table_of_the_page(example, name, tmp_path):
    """A row for each format or recipe, under the same heads, and a picture."""
    before, picture, width = lp.get_threads(), tmp_path / "curves.png", EXAMPLES[name][2]
    try:
        arguments = ["--steps", "10", *EXAMPLES[name][1], "--save", str(picture)]
        result = CliRunner().invoke(example[name].main, arguments)
    finally:
        lp.set_threads(before)
    assert result.exit_code == 0, result.output
    lines, page = result.output.splitlines(), shown(name)
    assert [line[:width] for line in lines] == [line[:width] for line in page]
    rows = getattr(example[name], "ROWS", None) or example[name].FORMATS
    assert [line[:width].rstrip() for line in lines[1 : len(rows) + 1]] == list(rows)
    heads = (0, len(rows) + 2)[: 1 + (name == "mx_characters")]
    assert [lines[head] for head in heads] == [page[head] for head in heads]
    assert picture.stat().st_size > 10_000


@pytest.mark.parametrize("name", ["binary32", "mxfp4"])
def test_the_page_says_what_training_in_mx_gives(example, name):
    """Compare within thousandths: exponentials are the processor's own."""
    _, loss, tested, accuracy, _ = next(
        line for line in shown("mx_training") if line.startswith(name)
    ).split()
    got = example["mx_training"].train(name, 200)
    assert np.mean(got.losses[-20:]) == pytest.approx(float(loss), abs=0.003)
    assert got.tested == pytest.approx(float(tested), abs=0.003)
    assert f"{got.accuracy:.1%}" == accuracy


def test_the_page_says_what_training_a_transformer_gives(example):
    """Compare within some hundredths: exponentials and BLAS are the processor's own."""
    characters = example["mx_characters"].characters
    run = characters.train(characters.recipe("float32"), characters.adam(), 120)
    _, loss, tested = shown("mx_characters")[1].split()
    assert np.mean(run.losses[-20:]) == pytest.approx(float(loss), abs=0.03)
    assert run.tested == pytest.approx(float(tested), abs=0.03)


@pytest.mark.parametrize("name", ["binary32", "mxfp4", "nvfp4 recipe"])
def test_the_page_says_what_training_in_nvfp4_gives(example, name):
    """Compare within thousandths: exponentials are the processor's own."""
    module = example["nvfp4_training"]
    got = module.line(name, [module.train(module.ROWS[name], 200, seed) for seed in range(2)])
    line = next(line for line in shown("nvfp4_training") if line.startswith(name))
    one, other = (list(map(float, re.findall(r"\d+\.\d+", each)))[:-1] for each in (got, line))
    assert one == pytest.approx(other, abs=0.02, rel=0.02)


@pytest.mark.parametrize("name", ["E4M3, E5M2 current", "E4M3, E5M2 delayed", "E4M3, E4M3 none"])
def test_the_page_says_what_training_in_fp8_gives(example, name):
    """Compare within thousandths: exponentials are the processor's own."""
    run = example["fp8_training"].train(example["fp8_training"].ROWS[name], 200)
    line = next(line for line in shown("fp8_training") if line.startswith(name))
    loss, tested, accuracy, flushed, _ = line[19:].split()
    assert np.mean(run.losses[-20:]) == pytest.approx(float(loss), abs=0.02)
    assert run.tested == pytest.approx(float(tested), abs=0.02)
    assert 100 * run.accuracy == pytest.approx(float(accuracy[:-1]), abs=1.5)
    assert 100 * run.flushed == pytest.approx(float(flushed[:-1]), abs=1.5)


def test_diffused_weights_are_values_of_the_format_and_closer_in_what_they_do(example):
    """Diffuse an untrained network: embeddings stay, and the error of the logits is less than cast."""
    characters = example["mx_characters"].characters
    data, p = characters.text(), characters.initial(characters.text().size)
    tokens, _ = characters.windows(data.train, range(0, 1600, 50))
    made = example["mx_characters"].diffused(p, "mxfp4", tokens)
    for name, w in p.items():
        if name in ("embedding", "position"):
            assert made[name] is w
        else:
            assert np.array_equal(lp.quantize(made[name], "mxfp4", axis=1), made[name])
            assert not np.array_equal(lp.quantize(w, "mxfp4", axis=1), made[name])
    wanted = characters.forward(p, tokens, characters.Hooks())[0]
    hooks = example["mx_characters"].casting("mxfp4")
    cast, spread = (np.square(characters.forward(q, tokens, hooks)[0] - wanted).sum() for q in (p, made))
    assert spread < 0.8 * cast


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("fp8_training", "E4M3, E5M2 current"),
        ("fp8_training", "E4M3, E5M2 delayed"),
        ("nvfp4_training", "nvfp4 recipe"),
    ],
)
def test_a_diverged_step_takes_no_longer(example, name, row):
    """All weights NaN, against healthy ones, with room for a busy machine."""
    module, seed = example[name], (0,) * (name == "nvfp4_training")
    x, labels, *_ = module.digits()
    healthy, diverged = (module.Network(module.ROWS[row], *seed) for _ in range(2))
    for weight in diverged.weights:
        weight[...] = np.nan
    steps = (lambda network=network: network.step(x[:64], labels[:64]) for network in (diverged, healthy))
    assert ratio_of_times(*steps, rounds=16) < 2


def test_a_diverged_step_of_a_transformer_takes_no_longer(example):
    characters = example["mx_characters"].characters
    data = characters.text()
    tokens, targets = characters.windows(data.train, range(16))
    healthy = characters.initial(data.size)
    diverged = {name: np.full_like(w, np.nan) for name, w in healthy.items()}
    hooks = characters.recipe("mxfp4")
    steps = (lambda p=p: characters.gradients(p, tokens, targets, hooks) for p in (diverged, healthy))
    with np.errstate(invalid="ignore"):
        assert ratio_of_times(*steps) < 2
