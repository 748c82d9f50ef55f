"""The transformer of the examples: its gradients against differences, with plain arrays and with scales."""

import functools
from pathlib import Path

import numpy as np
import pytest

from lowprec.methods import scale_propagation as sp
from tests.examples import example_script

pytestmark = pytest.mark.apart

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def characters():
    """The script, as a module."""
    return example_script("characters")


@pytest.fixture(scope="module")
def batch(characters):
    data = characters.text()
    tokens, targets = characters.windows(data.train, [5, 777])
    parameters = {name: np.float64(w) for name, w in characters.initial(data.size, seed=3).items()}
    return parameters, tokens, targets


def loss_of(characters, parameters, tokens, targets):
    """The loss by the formulas of the paper, in float64 and one sequence at a time: no pulls, no batches."""
    total = 0.0
    for row, wanted in zip(tokens, targets, strict=True):
        x = parameters["embedding"][row] + parameters["position"]
        for layer in range(characters.LAYERS):
            qkv = normal(x) @ parameters[f"{layer}.qkv"].T
            pieces = []
            for head in range(characters.HEADS):
                size = characters.WIDTH // characters.HEADS
                start = head * size
                q, k, v = (qkv[:, part * characters.WIDTH + start :][:, :size] for part in range(3))
                shares = np.zeros((len(row), len(row)))
                for place in range(len(row)):
                    seen = np.exp(k[: place + 1] @ q[place] / np.sqrt(size))
                    shares[place, : place + 1] = seen / seen.sum()
                pieces.append(shares @ v)
            x = x + np.hstack(pieces) @ parameters[f"{layer}.out"].T
            hidden = sp.gelu(normal(x) @ parameters[f"{layer}.up"].T)[0]
            x = x + hidden @ parameters[f"{layer}.down"].T
        logits = normal(x) @ parameters["head"].T
        total += sum(
            np.log(np.exp(line).sum()) - line[label] for line, label in zip(logits, wanted, strict=True)
        )
    return total / targets.size


def normal(x):
    centred = x - x.mean(axis=1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5)


def test_gradients_are_the_slopes_of_the_loss(characters, batch):
    """Of every parameter, along a random direction, to 7 digits."""
    parameters, tokens, targets = batch
    loss, found = characters.gradients(parameters, tokens, targets, characters.Hooks())
    assert loss == pytest.approx(loss_of(characters, *batch), rel=1e-7)
    assert found.keys() == parameters.keys()
    rng, step = np.random.default_rng(0), 1e-4
    for name, w in parameters.items():
        way = rng.standard_normal(w.shape)
        ends = [
            loss_of(characters, parameters | {name: w + sign * step * way}, tokens, targets)
            for sign in (1, -1)
        ]
        slope = (ends[0] - ends[1]) / (2 * step)
        assert float(np.sum(found[name] * way)) == pytest.approx(slope, rel=1e-5), name


def test_arrays_with_scales_have_the_same_gradients(characters, batch):
    """In binary32 data, to 5 digits, at scales far from 1; without eps, which is of data there."""
    parameters, tokens, targets = batch
    hooks = characters.Hooks(norm=functools.partial(sp.layer_norm, eps=0.0))
    scaled = {name: sp.as_scaled(np.float32(w), 2.0**-3) for name, w in parameters.items()}
    want = characters.gradients(parameters, tokens, targets, hooks)[1]
    found = characters.gradients(scaled, tokens, targets, hooks, 2.0**-80)[1]
    for name, gradient in found.items():
        error = gradient.to_array() * 2.0**80 - want[name]
        assert np.linalg.norm(error) < 1e-5 * np.linalg.norm(want[name]), name


def test_pieces_for_testing_are_none_of_those_for_training(characters):
    data = characters.text()
    assert len(data.train) + len(data.test) == len(" ".join((ROOT / "LICENSE").read_text().split()))
    assert 0.1 < len(data.test) / len(data.train) < 0.2
    tokens, targets = characters.windows(data.train, [3])
    assert (tokens[0, 1:] == targets[0, :-1]).all()
