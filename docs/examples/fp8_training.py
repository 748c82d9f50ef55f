"""A convolutional network trained in FP8, on the digits of scikit-learn, by current and by delayed scaling.

    python docs/examples/fp8_training.py [--steps 200] [--save curves.png]

Two convolutions and a linear layer; all of their products, forward and backward, are of FP8 operands.
Weights, their sums with gradients and the activation function are in binary32.

    recipe      formats of inputs and weights, and of gradients; how they are scaled
    loss        of the last 20 steps, and of digits that were not seen
    accuracy    on these
    flushed     of the gradients of the first convolution's output that are not 0, those that become 0
    seconds     of the processor, for all steps

Needs scikit-learn: pip install "lowprec[examples]".
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import click
import numpy as np
import numpy.typing as npt

import lowprec as lp
from lowprec.methods import fp8

Array = npt.NDArray[Any]

ROWS: Mapping[str, fp8.Recipe] = {
    "binary32": fp8.Recipe(x="binary32", w="binary32", grad="binary32", scaling="none"),
    "E4M3, E5M2 current": fp8.Recipe(),
    "E4M3, E5M2 delayed": fp8.Recipe(scaling="delayed", history=16),
    "E4M3, E4M3 current": fp8.Recipe(grad="e4m3fn"),
    "E5M2, E5M2 current": fp8.Recipe(x="e5m2", w="e5m2"),
    "E4M3, E5M2 none": fp8.Recipe(scaling="none"),
    "E4M3, E4M3 none": fp8.Recipe(scaling="none", grad="e4m3fn"),
}
CHANNELS, CLASSES, BATCH, RATE = 16, 10, 64, 0.1


class Run(NamedTuple):
    """What a row shows."""

    losses: list[float]
    tested: float
    accuracy: float
    flushed: float
    seconds: float


def digits() -> tuple[Array, Array, Array, Array]:
    """Return images, shape (n, 1, 8, 8), and labels to train with, and others to test with."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    images, labels = (images[order] / 16).astype(np.float32).reshape(-1, 1, 8, 8), labels[order]
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
    """Parameters of three layers, and the scaling of each."""

    def __init__(self, recipe: fp8.Recipe) -> None:
        rng = np.random.default_rng(1)
        shapes = [(CHANNELS // 2, 1, 3, 3), (CHANNELS, CHANNELS // 2, 3, 3), (CLASSES, CHANNELS * 16)]
        self.weights = [
            (rng.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))).astype(np.float32)
            for shape in shapes
        ]
        self.biases = [np.zeros(shape[0], np.float32) for shape in shapes]
        self.scalings = [recipe.start() for _ in shapes]
        self.flushed = 0.0

    def forward(self, images: Array, scalings: list[fp8.Scaling] | None = None) -> tuple[Array, list[Any]]:
        """Return logits, and what the gradients need."""
        (w1, w2, w3), (b1, b2, b3), how = self.weights, self.biases, scalings or self.scalings
        first, back_first = fp8.conv2d(images, w1, b1, padding=1, scaling=how[0])
        second, back_second = fp8.conv2d(np.maximum(first, 0), w2, b2, stride=2, padding=1, scaling=how[1])
        features = np.maximum(second, 0).reshape(len(images), -1)
        logits, back_last = fp8.linear(features, w3, b3, scaling=how[2])
        return logits, [first, back_first, second, back_second, back_last]

    def step(self, images: Array, labels: Array) -> float:
        """Take a step of gradient descent, and return the loss before it."""
        logits, (first, back_first, second, back_second, back_last) = self.forward(images)
        loss, grad = softmax_loss(logits, labels)
        into_second, *of_last = back_last(grad)
        into_first, *of_second = back_second(into_second.reshape(second.shape) * (second > 0))
        at_first = into_first * (first > 0)
        how = self.scalings[0]
        scale = (
            fp8.encode(at_first, how.recipe.grad).scale
            if how.recipe.scaling == "current"
            else how.scales["grad"]
        )
        coded = fp8.encode(at_first, how.recipe.grad, scale=scale).values()
        self.flushed = float((coded[at_first != 0] == 0).mean())
        _, *of_first = back_first(at_first)
        for number, (of_weight, of_bias) in enumerate((of_first, of_second, of_last)):
            self.weights[number] -= np.float32(RATE) * of_weight
            self.biases[number] -= np.float32(RATE) * of_bias
        return loss


def train(recipe: fp8.Recipe, steps: int) -> Run:
    """Train a network, and measure; it is tested by current scaling where training was delayed."""
    x, labels, x_test, labels_test = digits()
    network, rng = Network(recipe), np.random.default_rng(2)
    losses, flushed, start = [], [], time.process_time()
    for _ in range(steps):
        batch = rng.choice(len(labels), BATCH, replace=False)
        losses.append(network.step(x[batch], labels[batch]))
        flushed.append(network.flushed)
    seconds = time.process_time() - start
    tested = (
        network.scalings if recipe.scaling == "none" else [fp8.Recipe(x=recipe.x, w=recipe.w).start()] * 3
    )
    logits = network.forward(x_test, tested)[0]
    accuracy = float((logits.argmax(axis=1) == labels_test).mean())
    loss = softmax_loss(logits, labels_test)[0]
    return Run(losses, loss, accuracy, float(np.mean(flushed[-20:])), seconds)


def draw(curves: Mapping[str, list[float]], path: str) -> None:
    """Draw losses against steps."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 5))
    for name, curve in curves.items():
        axes.plot(np.convolve(curve, np.ones(10) / 10, "valid"), label=name)
    axes.set(xlabel="step", ylabel="loss, mean of 10 steps", yscale="log")
    axes.legend()
    figure.savefig(path)
    plt.close(figure)


@click.command()
@click.option("--steps", default=200, show_default=True, metavar="N")
@click.option("--save", default=None, metavar="FILE", help="Draw the losses of all rows.")
def main(steps: int, save: str | None) -> None:
    """Train by every recipe, and print a table."""
    lp.set_threads(1)
    click.echo("recipe                loss    test loss  accuracy  flushed  seconds")
    curves = {}
    for name, recipe in ROWS.items():
        train(recipe, 1)  # compiles
        run = train(recipe, steps)
        curves[name] = run.losses
        cells = f"{np.mean(run.losses[-20:]):8.3f}{run.tested:11.3f}{run.accuracy:10.1%}{run.flushed:9.1%}"
        click.echo(f"{name:19}{cells}{run.seconds:9.1f}")
    if save:
        draw(curves, save)


if __name__ == "__main__":
    main()
