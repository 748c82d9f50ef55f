"""Training in bfloat16 and in FP8 alone, and what sums of two or three parts restore.

Collage (arXiv 2405.03637) on two tasks that take seconds: independent quadratics, and the digits of
scikit-learn.

    python docs/examples/collage_training.py [--quick] [--plot figure.png]

Weights, gradients and everything that AdamW keeps are in the low format; a model computes in binary32 with
the first parts of the weights. A row names the format and the parts of parameter + first moment + second
moment, or a strategy:

    bytes   for each parameter: its parts, a gradient, both moments
    EDQ     how far steps go in the direction meant, 1 where nothing is lost; all parts counted
    lost    the share of non-zero updates that change nothing; and that do not change the first part
    zero    the share of updates that are 0 in the format before they are added

In FP8 parameters are kept divided by a scale, 1/64 unless the row says another, and gradients multiplied by a
power of two, so that both lie in the range of the format.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from lowprec.methods.expansion import AdamW, Strategy, bytes_per_parameter, edq, lost_fraction

Array = npt.NDArray[Any]

HIDDEN, CLASSES = 32, 10


@dataclasses.dataclass(frozen=True)
class Task:
    """What is trained: parameters at the start, a gradient for a step, and what is told of the result."""

    start: Array
    gradient: Callable[[Array, int], Array]
    loss: Callable[[Array], float]
    accuracy: Callable[[Array], float] | None
    learning_rate: float
    steps: int


@dataclasses.dataclass(frozen=True)
class Run:
    """An optimizer on a task: what it is called, and how numbers are brought into its range."""

    task: str
    name: str
    beta2: float
    strategy: str | Strategy
    fmt: str = "bfloat16"
    scale: float = 1.0  #: of parameters: they are kept divided by it
    gradients: float = 1.0  #: what gradients are multiplied by
    eps: float = 1e-8


# -- tasks -------------------------------------------------------------------------------------------


def quadratics(size: int, steps: int) -> Task:
    """As many parameters, each with a loss of its own: 0.5 h (x - t)^2."""
    rng = np.random.default_rng(0)
    x, t = rng.standard_normal((2, size)).astype(np.float32)
    h = (2.0 ** rng.uniform(-4, 0, size)).astype(np.float32)
    return Task(
        start=x,
        gradient=lambda w, step: h * (w - t),
        loss=lambda w: float(np.mean(0.5 * h * (w - t) ** 2)),
        accuracy=None,
        learning_rate=1e-3,
        steps=steps,
    )


def digits(steps: int) -> Task:
    """1,437 pictures of 8 x 8 for training and 360 to test with; 64-32-10 neurons, batches of 128."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise click.ClickException(
            'the digits are scikit-learn\'s: pip install "lowprec[examples]"'
        ) from None
    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    pictures, labels = (data.data[order] / 16).astype(np.float32), data.target[order]
    train, test = slice(0, 1437), slice(1437, None)
    batches = np.random.default_rng(1).integers(0, 1437, (steps, 128))

    def layers(w: Array) -> list[Array]:
        ends = np.cumsum([64 * HIDDEN, HIDDEN, HIDDEN * CLASSES])
        first, bias, second, other = np.split(w, ends)
        return [first.reshape(64, HIDDEN), bias, second.reshape(HIDDEN, CLASSES), other]

    def outputs(w: Array, x: Array) -> tuple[Array, Array]:
        first, bias, second, other = layers(w)
        hidden = np.maximum(x @ first + bias, 0)
        return hidden, hidden @ second + other

    def log_shares(outputs: Array) -> Array:
        above = outputs - outputs.max(axis=1, keepdims=True)
        return above - np.log(np.exp(above).sum(axis=1, keepdims=True))

    def gradient(w: Array, step: int) -> Array:
        x, y = pictures[batches[step]], labels[batches[step]]
        hidden, out = outputs(w, x)
        error = (np.exp(log_shares(out)) - np.eye(CLASSES, dtype=np.float32)[y]) / len(y)
        back = (error @ layers(w)[2].T) * (hidden > 0)
        return np.concatenate([(x.T @ back).ravel(), back.sum(0), (hidden.T @ error).ravel(), error.sum(0)])

    def loss(w: Array) -> float:
        shares = log_shares(outputs(w, pictures[train])[1])
        return -float(shares[np.arange(1437), labels[train]].mean())

    def accuracy(w: Array) -> float:
        return float((outputs(w, pictures[test])[1].argmax(axis=1) == labels[test]).mean())

    rng = np.random.default_rng(2)
    first, second = (
        rng.standard_normal(rows * columns) * np.sqrt(2 / rows)
        for rows, columns in ((64, HIDDEN), (HIDDEN, CLASSES))
    )
    start = np.concatenate([first, np.zeros(HIDDEN), second, np.zeros(CLASSES)]).astype(np.float32)
    return Task(start, gradient, loss, accuracy, learning_rate=2e-4, steps=steps)


# -- what is run -------------------------------------------------------------------------------------


def parts(parameter: int, first: int = 1, second: int = 1) -> Strategy:
    """As many parts of the parameter and of the moments."""
    update: Any = "grow" if parameter > 1 else "add"
    return Strategy(name="", parameter=parameter, first=first, second=second, update=update)


def runs() -> Iterable[Run]:
    """Everything that the tables tell."""
    every = ("fp32", "fp32_master", "fp32_states", "low", "stochastic", "kahan", "light", "plus")
    four = ("fp32", "low", "light", "plus")
    for task, beta2, names in (
        ("quadratics", 0.95, every),
        ("quadratics", 0.999, four),
        ("digits", 0.95, four),
        ("digits", 0.999, four),
    ):
        for name in names:
            yield Run(task, name if name.startswith("fp32") else f"bfloat16 {name}", beta2, name)
    for task, gradients, eps in (("quadratics", 4.0, 2.0**-6), ("digits", 64.0, 2.0**-7)):
        for count in ((1,), (2,), (3,), (3, 2, 2)):
            name = "e4m3fn " + "+".join(map(str, (*count, 1, 1)[:3]))
            yield Run(task, name, 0.95, parts(*count), "e4m3fn", 2.0**-6, gradients, eps)
    yield Run("quadratics", "e4m3fn 3+1+1, scale 1", 0.95, parts(3), "e4m3fn", 1.0, 4.0, 2.0**-6)
    for count in ((2,), (3,), (4, 2, 2)):
        name = "e5m2 " + "+".join(map(str, (*count, 1, 1)[:3]))
        yield Run("quadratics", name, 0.95, parts(*count), "e5m2", 2.0**-6, 4.0, 2.0**-6)


@dataclasses.dataclass(frozen=True)
class Result:
    """What a run gave: means over its steps, and what is left at the end."""

    run: Run
    edq: list[float]
    losses: list[float]
    lost: float
    lost_first: float
    zero: float
    accuracy: float | None


def train(task: Task, run: Run, every: int = 20) -> Result:
    """Train, and measure every so many steps."""
    optimizer = AdamW(
        strategy=run.strategy,
        format=run.fmt,
        betas=(0.9, run.beta2),
        eps=run.eps,
        learning_rate=task.learning_rate / run.scale,
    )
    scale, factor = np.float32(run.scale), np.float32(run.gradients)
    state = optimizer.start(task.start / scale)
    quality, lost, losses = [], [], []
    for step in range(task.steps):
        old, state = state, optimizer.step(state, task.gradient(state.weights * scale, step) * factor)
        if step % every == 0:
            pair = state.update, old.parameter, state.parameter
            quality.append(edq(*pair, relative=True))
            share = float(np.mean(state.update == 0))
            lost.append([lost_fraction(*pair), lost_fraction(*pair, residuals=False), share])
            losses.append(task.loss(old.weights * scale))
    weights = state.weights * scale
    losses.append(task.loss(weights))
    accuracy = task.accuracy(weights) if task.accuracy else None
    return Result(run, quality, losses, *(float(share) for share in np.mean(lost, axis=0)), accuracy)


def row(result: Result) -> str:
    """A line of a table."""
    run = result.run
    cells = [
        f"{run.name:22}",
        f"{run.beta2:5}",
        f"{bytes_per_parameter(run.strategy, run.fmt):5.0f}",
        f"{np.nanmean(result.edq):5.2f}",
        f"{result.lost:5.2f}",
        f"{result.lost_first:10.2f}",
        f"{result.zero:5.2f}",
        f"{result.losses[-1]:7.4f}",
        "" if result.accuracy is None else f"{result.accuracy:8.1%}",
    ]
    return "  ".join(cells).rstrip()


def head(task: str) -> str:
    """The line above them."""
    accuracy = "  accuracy" if task == "digits" else ""
    return f"{task:22}  beta2  bytes    EDQ   lost  first part   zero     loss{accuracy}"


def plot(results: list[Result], path: Path) -> None:
    """EDQ and loss of the runs with beta2 0.95, of both tasks."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise click.ClickException('plots need matplotlib: pip install "lowprec[examples]"') from None
    figure = Figure(figsize=(12, 8), layout="constrained")
    grid = figure.subplots(2, 2)
    names = {"fp32", "bfloat16 low", "bfloat16 plus", "e4m3fn 2+1+1", "e4m3fn 3+2+2"}
    for axes, task in zip(grid, ("quadratics", "digits"), strict=True):
        for result in results:
            if result.run.task == task and result.run.beta2 == 0.95 and result.run.name in names:
                at = 20 * np.arange(len(result.losses))
                style: dict[str, Any] = {"label": result.run.name}
                if result.run.name == "fp32":  # the others lie upon it
                    style |= {"color": "black", "linewidth": 4, "alpha": 0.3}
                axes[0].plot(at[:-1], result.edq, **style)
                axes[1].plot(at, result.losses, **style)
        axes[0].set(title=f"{task}: EDQ", ylim=(-0.1, 1.3), xlabel="step")
        axes[1].set(title=f"{task}: loss", yscale="log", xlabel="step")
        axes[1].legend()
    figure.savefig(path)


@click.command()
@click.option("--quick", is_flag=True, help="Fewer parameters and steps: seconds instead of minutes.")
@click.option("--plot", "figure", type=click.Path(path_type=Path), help="Where to write a figure.")
def main(quick: bool, figure: Path | None) -> None:
    """Train in bfloat16 and FP8 alone, and in several parts."""
    tasks = {
        "quadratics": quadratics(256, 100) if quick else quadratics(4096, 2000),
        "digits": digits(100 if quick else 3000),
    }
    results = []
    for task in tasks:
        click.echo(head(task))
        for run in runs():
            if run.task == task:
                results.append(train(tasks[task], run))
                click.echo(row(results[-1]))
        click.echo()
    if figure:
        plot(results, figure)


if __name__ == "__main__":
    main()
