"""The example of weights and states in narrow formats: few steps of it, and what the page shows of all."""

import time

import numpy as np
import pytest

from lowprec.methods import scale_propagation as sp
from tests.examples import cells, example_script, shown

pytestmark = pytest.mark.apart


@pytest.fixture(scope="module")
def example():
    return example_script("scalify_states")


@pytest.fixture(scope="module")
def ways(example):
    return {way.name: way for way in example.WAYS}


def rows_shown():
    """Return the rows of the page: network, way, loss scale, loss, test."""
    return cells(shown("scale-propagation", "scalify_states"))[1:]


@pytest.mark.parametrize(("network", "steps"), [("clusters", 8), ("characters", 5)])
@pytest.mark.parametrize("name", ["FP16 with scales", "FP8 with scales"])
def test_with_scales_the_loss_scale_changes_no_bit(network, steps, name, example, ways):
    """Losses are those of float32, within a twentieth."""
    runs = [example.result(network, ways[name], scale, steps) for scale in example.LOSS_SCALES]
    assert runs[0].losses == runs[1].losses == runs[2].losses
    assert len({run.test for run in runs}) == 1
    wide = example.result(network, ways["float32"], 1.0, steps)
    assert runs[0].losses == pytest.approx(wide.losses, rel=0.05)
    assert runs[0].loss < 0.95 * runs[0].losses[0]


def test_without_scales_a_small_loss_scale_leaves_nothing(example, ways):
    small, one = (example.result("clusters", ways["FP16 without"], scale, 8) for scale in (2.0**-12, 1.0))
    assert small.losses[-1] > 0.95 * small.losses[0]
    assert one.losses[-1] < 0.8 * one.losses[0]


@pytest.mark.parametrize("name", ["FP16 with scales", "FP8 with scales"])
def test_a_diverged_run_takes_no_longer(name, example, ways):
    """The quickest of ten steps from weights of NaN, and from others: about 0.7 times as long."""
    times = {}
    for bad in (False, True):
        start = example.characters.initial(example.characters.text().size, depth=1)
        if bad:
            start = {name: np.full_like(w, np.nan) for name, w in start.items()}
        optimizer, ends = example.Stepper(ways[name], start, 2.0**-7, 1.0), [time.process_time()]

        def step(parameters, found, optimizer=optimizer, ends=ends):
            parameters = optimizer(parameters, found)
            ends.append(time.process_time())
            return parameters

        hooks = example.characters.Hooks(linear=example.transposed, arrive=sp.dynamic_rescale)
        with sp.config(sums="fp32_fma"), np.errstate(all="ignore"):
            run = example.characters.train(hooks, step, 10, parameters=optimizer.weights, batch=8)
        assert np.isnan(run.losses).all() == bad
        times[bad] = np.diff(ends)[2:].min()
    assert times[True] < 1.5 * times[False]


def test_the_page_shows_the_headline(example):
    """Rows are the example's, alike with scales; without, worse at every loss scale for characters."""
    rows = {(row[0], row[1], row[2]): (float(row[3]), row[4]) for row in rows_shown()}
    scales = {"2**-12", "1", "2**12"}
    assert set(rows) == {
        (net, way.name, scale) for net in example.NETWORKS for way in example.WAYS for scale in scales
    }
    for network in example.NETWORKS:
        best = rows[network, "float32", "1"][0]
        for name in ("FP16 with scales", "FP8 with scales"):
            assert len({rows[network, name, scale] for scale in scales}) == 1
            assert rows[network, name, "1"][0] == pytest.approx(best, rel=0.01)
        assert rows[network, "FP16 without", "2**-12"][0] > 2 * best
    for scale in scales:
        assert rows["characters", "FP16 without", scale][0] > 1.05 * rows["characters", "float32", scale][0]


def test_the_table_and_the_plot(example, ways, tmp_path):
    rows = [
        example.Result(network, way, scale, [3.0, 2.0], "90.0%", 1.0)
        for network in example.NETWORKS for way in example.WAYS for scale in example.LOSS_SCALES
    ]  # fmt: skip
    made = cells("\n".join(map(example.line, rows)))
    assert [row[:3] for row in made] == [row[:3] for row in rows_shown()]
    example.plot(rows, str(tmp_path / "plot.png"))
    assert (tmp_path / "plot.png").stat().st_size > 10_000


def test_costs_are_of_steps_of_each_way(example, monkeypatch):
    """Steps take no more than four times as long as in float32 on the page."""
    for name, value in (("LENGTH", 8), ("WIDTH", 16)):
        monkeypatch.setattr(example.characters, name, value)
    found = dict(example.costs(3, depth=1, batch=2))
    assert min(found.values()) > 0
    _, *lines = shown("scale-propagation", "scalify_states.py --cost").splitlines()
    rows = {line[:18].strip(): float(line[24:]) for line in lines}
    assert list(rows) == list(found)
    assert max(rows.values()) <= 4
