"""The digits of scikit-learn, learned in binary32, MXFP8, MXFP4 and NVFP4, and NVFP4 without each ingredient.

    python docs/examples/nvfp4_training.py [--steps 200] [--seeds 2] [--save curves.png]

A perceptron with two hidden layers; weights, their sums with gradients and the activation function are in
binary32. All products of its linear layers, forward and backward, take operands of the row's recipe.

    loss       of the last 20 steps, and of digits that were not seen: means of all seeds, and how far a seed
               lies from the mean at most
    accuracy   on these
    gradient   the error of the second layer's gradient of the weights, for exact inputs, relative to its
               norm, at the end: of one draw, and of the mean of 32. Where all is rounded to nearest they are
               equal; where the gradient of the output is rounded stochastically the input's error remains
    seconds    of one thread, for all steps of a seed

Needs scikit-learn: pip install "lowprec[examples]".
"""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import click
import numpy as np
import numpy.typing as npt

import lowprec as lp
from lowprec.methods import layers, nvfp4

Array = npt.NDArray[Any]
Recipes = tuple[Any, Any, Any]

WHOLE = nvfp4.Recipe()
NEAREST = nvfp4.Recipe(tiles=False, hadamard=0, stochastic=False)

#: Of each row the recipes of the three layers.
ROWS: Mapping[str, Recipes] = {
    "binary32": ("float32",) * 3,
    "mxfp8": ("mxfp8",) * 3,
    "mxfp4": ("mxfp4",) * 3,
    "nvfp4 blocks alone": (NEAREST,) * 3,
    "nvfp4 recipe": (WHOLE, WHOLE, "bfloat16"),
    "  last layer too": (WHOLE,) * 3,
    "  no tiles": (WHOLE.without("tiles"),) * 2 + ("bfloat16",),
    "  no hadamard": (WHOLE.without("hadamard"),) * 2 + ("bfloat16",),
    "  no stochastic": (WHOLE.without("stochastic"),) * 2 + ("bfloat16",),
    "  four over six": (dataclasses.replace(WHOLE, choice="mse"),) * 2 + ("bfloat16",),
}
SIZES, BATCH, RATE = (64, 64, 32, 10), 64, 0.1


class Run(NamedTuple):
    """What a row shows, of one seed."""

    losses: list[float]
    tested: float
    accuracy: float
    one: float
    mean: float
    seconds: float


def digits() -> tuple[Array, Array, Array, Array]:
    """Return images, shape (n, 64), and labels to train with, and others to test with."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    images, labels = (images[order] / 16).astype(np.float32), labels[order]
    return images[:1440], labels[:1440], images[1440:], labels[1440:]


def softmax_loss(logits: Array, labels: Array) -> tuple[float, Array]:
    """Return the mean cross entropy, and its gradient."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    shares = np.exp(shifted)
    shares /= shares.sum(axis=1, keepdims=True)
    rows = np.arange(len(labels))
    loss = -float(np.log(shares[rows, labels]).mean())
    shares[rows, labels] -= 1
    return loss, shares / len(labels)


class Network:
    """Weights, biases and the recipe of each layer."""

    def __init__(self, recipes: Recipes, seed: int) -> None:
        self.recipes, self.keys = recipes, np.random.default_rng([seed, 1])
        rng = np.random.default_rng(seed)
        pairs = list(itertools.pairwise(SIZES))
        self.weights = [
            (rng.standard_normal((out, into)) * np.sqrt(2 / into)).astype(np.float32) for into, out in pairs
        ]
        self.biases = [np.zeros(out, np.float32) for _, out in pairs]

    def forward(self, images: Array, recipes: Recipes | None = None) -> tuple[Array, list[Any]]:
        """Return logits, and of each layer its input's sign and its gradients."""
        signal, kept = images, []
        for number, recipe in enumerate(recipes or self.recipes):
            active = np.maximum(signal, 0) if number else signal
            y, gradients = layers.linear(
                active, self.weights[number], self.biases[number], recipe, rng=self.keys
            )
            kept.append((signal > 0, gradients))
            signal = y
        return signal, kept

    def backward(self, grad: Array, kept: list[Any]) -> list[tuple[Array, Array]]:
        """Return the gradients of weights and biases, layer by layer."""
        found = []
        for positive, gradients in reversed(kept):
            grad, of_weight, of_bias = gradients(grad)
            grad = grad * positive
            found.append((of_weight, of_bias))
        return found[::-1]

    def step(self, images: Array, labels: Array) -> float:
        """Take a step of gradient descent, and return the loss before it."""
        logits, kept = self.forward(images)
        loss, grad = softmax_loss(logits, labels)
        for number, (of_weight, of_bias) in enumerate(self.backward(grad, kept)):
            self.weights[number] -= np.float32(RATE) * of_weight
            self.biases[number] -= np.float32(RATE) * of_bias
        return loss


def gradient_errors(network: Network, images: Array, labels: Array) -> tuple[float, float]:
    """Return the error of one gradient of the second layer's weights, and of the mean of 32 draws of it."""
    logits, kept = network.forward(images, ("float32",) * 3)
    hidden = np.maximum(images @ network.weights[0].T + network.biases[0], 0)
    grad = kept[2][1](softmax_loss(logits, labels)[1])[0] * kept[2][0]
    exact = np.float64(grad).T @ np.float64(hidden)
    gradients = [
        layers.linear(hidden, network.weights[1], recipe=network.recipes[1], rng=draw)[1](grad)[1]
        for draw in range(32)
    ]
    errors = (gradients[0] - exact, np.mean(gradients, axis=0, dtype=np.float64) - exact)
    one, mean = (float(np.linalg.norm(error) / np.linalg.norm(exact)) for error in errors)
    return one, mean


def train(recipes: Recipes, steps: int, seed: int = 0) -> Run:
    """Train a network, and measure."""
    x, labels, x_test, labels_test = digits()
    network, rng = Network(recipes, seed), np.random.default_rng([seed, 2])
    losses, start = [], time.perf_counter()
    for _ in range(steps):
        batch = rng.choice(len(labels), BATCH, replace=False)
        losses.append(network.step(x[batch], labels[batch]))
    seconds = time.perf_counter() - start
    logits = network.forward(x_test)[0]
    accuracy = float((logits.argmax(axis=1) == labels_test).mean())
    errors = gradient_errors(network, x[:BATCH], labels[:BATCH])
    return Run(losses, softmax_loss(logits, labels_test)[0], accuracy, *errors, seconds)


def line(name: str, runs: list[Run]) -> str:
    """Return a row of the table."""
    cells = []
    for values in ([np.mean(run.losses[-20:]) for run in runs], [run.tested for run in runs]):
        mean = np.mean(values)
        cells.append(f"{mean:8.3f} ±{np.abs(values - mean).max():.3f}")
    accuracy, one, mean_error, seconds = np.mean([run[2:] for run in runs], axis=0)
    return f"{name:20}{''.join(cells)}{accuracy:9.1%}{one:9.1%}{mean_error:8.1%}{seconds:9.1f}"


def draw(curves: Mapping[str, Array], path: str) -> None:
    """Draw losses against steps."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 5))
    for name, curve in curves.items():
        axes.plot(np.convolve(curve, np.ones(10) / 10, "valid"), label=name.strip())
    axes.set(xlabel="step", ylabel="loss, mean of 10 steps", yscale="log")
    axes.legend()
    figure.savefig(path)


@click.command()
@click.option("--steps", default=200, show_default=True, metavar="N")
@click.option("--seeds", default=2, show_default=True, metavar="N")
@click.option("--save", default=None, metavar="FILE", help="Draw the losses of all rows.")
def main(steps: int, seeds: int, save: str | None) -> None:
    """Train by every recipe, and print a table."""
    lp.set_threads(1)
    click.echo("recipe                 loss          test loss   accuracy  gradient: 1, 32  seconds")
    curves = {}
    for name, recipes in ROWS.items():
        train(recipes, 1)  # compiles
        runs = [train(recipes, steps, seed) for seed in range(seeds)]
        curves[name] = np.mean([run.losses for run in runs], axis=0)
        click.echo(line(name, runs))
    if save:
        draw(curves, save)


if __name__ == "__main__":
    main()
