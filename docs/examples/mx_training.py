"""A small network trained in MX formats, on the digits of scikit-learn.

    python docs/examples/mx_training.py [--steps 200] [--save curves.png]

A perceptron with one hidden layer; weights, their sums with gradients and the activation function are in
binary32. Both linear layers take their operands, forward and backward, in blocks of the format of the row.
In the row "binary32" nothing is in blocks.

    loss      of the last steps, and of digits that were not seen
    accuracy  on these
    seconds   of the processor, for all steps

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
from lowprec.methods import mx

Array = npt.NDArray[Any]

FORMATS = ("binary32", "mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp4")
HIDDEN, CLASSES, BATCH, RATE = 128, 10, 128, 0.1


class Run(NamedTuple):
    """What a row shows."""

    losses: list[float]
    tested: float
    accuracy: float
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


def train(fmt: str, steps: int) -> Run:
    """Train a network, and measure."""
    x, labels, x_test, labels_test = digits()
    rng = np.random.default_rng(1)
    w1 = (rng.standard_normal((HIDDEN, 64)) * np.sqrt(2 / 64)).astype(np.float32)
    w2 = (rng.standard_normal((CLASSES, HIDDEN)) * np.sqrt(1 / HIDDEN)).astype(np.float32)
    b1, b2 = np.zeros(HIDDEN, np.float32), np.zeros(CLASSES, np.float32)

    def forward(images: Array) -> tuple[Array, Array, mx.Gradients, mx.Gradients]:
        before, first = mx.linear(images, w1, b1, fmt)
        logits, second = mx.linear(np.maximum(before, 0), w2, b2, fmt)
        return before, logits, first, second

    losses, start = [], time.process_time()
    for _ in range(steps):
        batch = rng.choice(len(labels), BATCH, replace=False)
        before, logits, first, second = forward(x[batch])
        loss, gradient = softmax_loss(logits, labels[batch])
        losses.append(loss)
        into_hidden, of_w2, of_b2 = second(gradient)
        _, of_w1, of_b1 = first(into_hidden * (before > 0))
        for weights, step in ((w1, of_w1), (b1, of_b1), (w2, of_w2), (b2, of_b2)):
            weights -= np.float32(RATE) * step
    seconds = time.process_time() - start
    logits = forward(x_test)[1]
    accuracy = float((logits.argmax(axis=1) == labels_test).mean())
    return Run(losses, softmax_loss(logits, labels_test)[0], accuracy, seconds)


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
    """Train in every format, and print a table."""
    lp.set_threads(1)
    click.echo("format         loss    test loss  accuracy  seconds")
    curves = {}
    for fmt in FORMATS:
        train(fmt, 1)  # compiles
        run = train(fmt, steps)
        curves[fmt] = run.losses
        loss = np.mean(run.losses[-20:])
        click.echo(f"{fmt:12}{loss:8.3f}{run.tested:11.3f}{run.accuracy:10.1%}{run.seconds:9.1f}")
    if save:
        draw(curves, save)


if __name__ == "__main__":
    main()
