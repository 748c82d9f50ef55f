"""The example of Unit Scaling: its reduced version, held against the page that shows it."""

import re
import sys

import numpy as np
import pytest

from tests.examples import DOCS, cells, example_script, printed

pytestmark = pytest.mark.apart


@pytest.fixture(scope="module")
def example():
    return example_script("unit_scaling")


def tables(text):
    """Return the rows of each table; titles, which end where a blank line does, are left out."""
    blocks = (cells(block) for block in text.strip("\n").split("\n\n"))
    return [rows for rows in blocks if len(rows) > 1]


@pytest.fixture(scope="module")
def made(example, tmp_path_factory):
    """Return the tables that the quick run prints, and those of the page after what `us.report` gives."""
    quick = printed(example, "--quick", "--plot", tmp_path_factory.mktemp("plot") / "figure.png")
    texts = re.findall(r"```text\n(.*?)```", (DOCS / "unit-scaling.md").read_text(), re.S)
    return {"quick": tables(quick), "page": tables("\n\n".join(texts[1:]))}


def test_the_page_shows_these_tables(made):
    """Rows and columns are alike, and settings where they are no results."""
    ours, shown = made["quick"], made["page"]
    assert len(ours) == len(shown) == 4
    for got, want in zip(ours, shown, strict=True):
        assert got[0] == want[0]
        assert [row[0] for row in got] == [row[0] for row in want]
        assert {len(row) for row in got} == {len(got[0])} == {len(row) for row in want}
    assert [row[:3] for row in ours[3]] == [row[:3] for row in shown[3]]


def test_signal_to_noise_on_the_page_is_what_is_printed(made):
    """Nothing is sampled there, so every digit is the same."""
    assert made["quick"][2] == made["page"][2]


def numbers(table):
    """Return the numbers of each row of a table by its name."""
    return {name: list(map(float, row)) for name, *row in table[1:]}


@pytest.mark.parametrize("source", ["quick", "page"])
def test_scales_are_1_where_they_are_said_to_be(source, made):
    """Widths differ between the two; ratios of widths do not."""
    rows = numbers(made[source][0])
    for name, (standard, _, mean, mean_back, free, free_back) in rows.items():
        assert free == pytest.approx(0 if "bias" in name else 1.11 if name == "linear 2" else 1, abs=0.03)
        assert free_back == pytest.approx(1.11 if name == "weight 2" else 1, abs=0.05)
        assert mean == 0 if "bias" in name else 0.6 < mean < 1.05
        assert 0.6 < mean_back < 1.1
        assert 0 < standard < 1.01
    assert rows["linear 2"][0] == pytest.approx(0.198, abs=0.01)
    assert rows["x"][1] == pytest.approx(0.204, abs=0.01)
    assert rows["bias 2"][1] > 7


@pytest.mark.parametrize("source", ["quick", "page"])
def test_in_a_transformer_block_unit_scaled_tensors_stay_near_1(source, made):
    """Gradients of queries and keys do not; ordinary tensors fall to a fifth and below in the long run."""
    rows = numbers(made[source][1])
    for name, (forward, back, unit, unit_back) in rows.items():
        assert 0.6 < unit < 1.1, name
        assert 0.6 < unit_back < 1.1 or name in "qk"
        assert 0.15 < forward < 1.3
        assert back < 1.3
    assert rows["q"][1] < 0.5 * rows["q"][3]
    assert rows["norm 1"][1] < 0.5
    assert rows["attention"][0] < 0.4


@pytest.mark.parametrize("unit", [False, True], ids=["standard", "unit-scaled"])
@pytest.mark.parametrize("branch", ["attention", "perceptron"])
def test_the_gradient_of_a_block_is_its_slope(unit, branch, example):
    """Take differences in float64 along a random direction: its factors are constrained."""
    rng = np.random.default_rng(1)
    x, way, grad = (rng.standard_normal((2, 5, 8)) for _ in range(3))

    def apply(values):
        block = example.Block(unit, width=8, length=5, batch=2)  # the same weights each time
        return block.residual(getattr(block, branch), values)

    found = float(np.sum(apply(x)[1](grad)[0] * way))
    ends = [float(np.sum(apply(x + sign * 1e-5 * way)[0] * grad)) for sign in (1, -1)]
    assert found == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-6)


@pytest.mark.parametrize("source", ["quick", "page"])
def test_training_in_fp8_needs_a_loss_scale_or_unit_scaling(source, made):
    """With neither, errors are 1.36 times those in binary32 after 15 steps, and over 3 times after 100."""
    rows = made[source][3][1:]
    standard, half, flushing, scaled, unit, unit_half, unit_fp8 = (float(row[3]) for row in rows)
    shares = [float(rows[place][4].rstrip("%")) / 100 for place in (2, 3, 6)]
    assert flushing > (1.15 if source == "quick" else 3) * standard
    assert half == pytest.approx(standard, rel=0.02)
    assert unit_half == pytest.approx(unit, rel=0.02)
    assert scaled < 1.1 * standard
    assert unit_fp8 < 1.12 * unit
    assert unit < standard
    assert shares[0] > 0.5
    assert max(shares[1:]) < 0.01
    assert float(rows[1][4].rstrip("%")) > float(rows[5][4].rstrip("%")) == 0


def test_training_without_scikit_learn_says_how_to_get_it(example, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(Exception, match=re.escape('scikit-learn\'s: pip install "lowprec[examples]"')):
        example.digits()
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    with pytest.raises(
        Exception, match=re.escape('training needs scikit-learn: pip install "lowprec[examples]"')
    ):
        next(iter(example.training_rows(1)))
