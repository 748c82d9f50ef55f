"""Training in FP8 that survives a loss scale of 2**-6 by scale propagation; without scales it is at chance.

Ten Gaussian clusters in 64 dimensions, a perceptron 64-128-10, plain stochastic gradient descent. One
function computes the gradients of all runs: what differs is whether the arrays that go in carry scales.

    python docs/examples/scalify_training.py [--quick] [--plot FILE]
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import click
import numpy as np

import lowprec as lp
from lowprec.methods import scale_propagation as sp

CLASSES, INPUTS, HIDDEN, BATCH = 10, 64, 128, 2048
SPREAD = 0.43  # of the clusters' centres; within a cluster the standard deviation is 1
RATE = 0.5  # of learning
SMALL = 2.0**-6  # the loss scale that E5M2 does not survive


@dataclasses.dataclass
class Run:
    """How one training went."""

    name: str
    loss_scale: float
    losses: list[float] = dataclasses.field(default_factory=list)
    flushed: list[tuple[float | None, ...]] = dataclasses.field(default_factory=list)
    exponents: list[Any] = dataclasses.field(default_factory=list)
    accuracy: float = 0.0


def samples(rng: np.random.Generator, centres: Any, count: int) -> tuple[Any, Any]:
    """Points and the clusters that they are of."""
    labels = rng.integers(0, CLASSES, count)
    return (centres[labels] + rng.standard_normal((count, INPUTS))).astype(np.float32), labels


def plain_linear(x: Any, w: Any, bias: Any) -> Any:
    """A linear layer in float32, and its gradient."""
    return x @ w + bias, lambda g: (g @ w.T, x.T @ g, np.sum(g, axis=0))


def gradients(parameters: Any, x: Any, targets: Any, linear: Callable[..., Any], run: Run) -> list[Any]:
    """The gradient of loss times loss scale: ordinary NumPy code, for arrays with and without scales."""
    w1, b1, w2, b2 = parameters
    hidden, pull_hidden = linear(x, w1, b1)
    active, pull_active = sp.relu(hidden)
    logits, pull_logits = linear(active, w2, b2)

    exponentials = np.exp(logits - np.max(logits, axis=1, keepdims=True))
    shares = exponentials / np.sum(exponentials, axis=1, keepdims=True)
    at_logits = (shares - targets) * (run.loss_scale / len(x))
    at_logits = sp.dynamic_rescale(at_logits)  # nothing, where there is no scale

    at_active, at_w2, at_b2 = pull_logits(at_logits)
    at_hidden = pull_active(at_active)
    _, at_w1, at_b1 = pull_hidden(at_hidden)
    run.losses.append(
        -float(np.mean(np.log(np.sum(sp.stop_scaling(shares) * sp.stop_scaling(targets), axis=1) + 1e-30)))
    )
    if len(run.losses) % 10 == 0 and linear is sp.linear:
        count(run, at_logits, at_hidden)
    return [at_w1, at_b1, at_w2, at_b2]


def count(run: Run, *given: Any) -> None:
    """Note the exponents of what is cast to E5M2, and how much of it becomes zero."""
    data = [sp.get_data_scale(g)[0] for g in given]
    run.flushed.append(
        tuple(lp.error_report(d, "e5m2", saturation="finite").flushed if d.any() else None for d in data)
    )
    run.exponents += [np.frexp(d[d != 0])[1] - 1 for d in data]


def train(name: str, linear: Callable[..., Any], scaled: bool, loss_scale: float, steps: int) -> Run:
    """All runs see the same points and begin with the same weights."""
    rng, run = np.random.default_rng(0), Run(name, loss_scale)
    centres = SPREAD * rng.standard_normal((CLASSES, INPUTS))
    points, labels = samples(rng, centres, 4 * BATCH)
    shapes = ((INPUTS, HIDDEN), (HIDDEN,), (HIDDEN, CLASSES), (CLASSES,))
    parameters: Any = [
        (rng.standard_normal(shape) / shape[0] ** 0.5 if len(shape) == 2 else np.zeros(shape)).astype(
            np.float32
        )
        for shape in shapes
    ]
    if scaled:
        parameters = [sp.as_scaled(w, 2.0**-3) for w in parameters]
    with sp.config(sums="fp32_fma"):
        for _ in range(steps):
            x, classes = samples(rng, centres, BATCH)
            targets = np.eye(CLASSES, dtype=np.float32)[classes]
            found = gradients(parameters, sp.as_scaled(x, 1.0) if scaled else x, targets, linear, run)
            parameters = [w - g * (RATE / loss_scale) for w, g in zip(parameters, found, strict=True)]
    w1, b1, w2, b2 = (sp.stop_scaling(w) for w in parameters)
    scores = np.maximum(points @ w1 + b1, 0) @ w2 + b2
    run.accuracy = float(np.mean(np.argmax(scores, axis=1) == labels))
    return run


def experiment(steps: int) -> list[Run]:
    """Every row of the table."""
    ways = (
        ("float32", plain_linear, False),
        ("FP8 with scales", sp.linear, True),
        ("FP8 without", sp.linear, False),
    )
    return [
        train(name, linear, scaled, loss_scale, steps)
        for name, linear, scaled in ways
        for loss_scale in (1.0, SMALL)
    ]


def table(runs: list[Run]) -> str:
    """As text, a row for each run."""
    lines = [
        f"{'training':<16}  {'loss scale':>10}  {'accuracy':>8}  {'flushed at logits':>17}  {'at hidden':>9}"
    ]
    for run in runs:
        shares = run.flushed[-1] if run.flushed else (None, None)
        logits, hidden = ("-" if share is None else f"{share:.1%}" for share in shares)
        scale = "1" if run.loss_scale == 1 else f"2**{np.log2(run.loss_scale):.0f}"
        lines.append(f"{run.name:<16}  {scale:>10}  {run.accuracy:8.1%}  {logits:>17}  {hidden:>9}")
    return "\n".join(lines)


def plot(runs: list[Run], path: str) -> None:
    """Losses by step, and where the gradients lie beside what E5M2 has."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise click.ClickException('plots need matplotlib: pip install "lowprec[examples]"') from None
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4))
    for run in runs:
        label = f"{run.name}, loss scale {'1' if run.loss_scale == 1 else '2**-6'}"
        line = "-" if run.loss_scale == 1 else "--"
        left.plot(run.losses, line, label=label)
        if run.exponents:
            exponents = np.concatenate(run.exponents)
            bins = np.arange(-40, 6)
            share = np.full(exponents.size, 1 / exponents.size)
            right.hist(exponents, bins, weights=share, histtype="step", linestyle=line, label=label)
    left.set(xlabel="step", ylabel="loss", yscale="log")
    right.axvline(
        lp.format("e5m2").scaled(1)[1], color="black", linestyle=":", label="the smallest number of E5M2"
    )
    right.set(xlabel="exponent of the gradient that is cast", ylabel="share")
    left.legend(fontsize="small")
    right.legend(fontsize="small", loc="upper right")
    figure.tight_layout()
    figure.savefig(path, dpi=150)


@click.command()
@click.option("--steps", default=300, show_default=True, help="Steps of each run.")
@click.option("--quick", is_flag=True, help="12 steps: seconds, and less accuracy.")
@click.option(
    "--plot", "path", type=click.Path(dir_okay=False), help="Draw losses and gradients into this file."
)
def main(steps: int, quick: bool, path: str | None) -> None:
    """Train the same network in float32, and in FP8 with and without scales."""
    runs = experiment(12 if quick else steps)
    click.echo(table(runs))
    if path is not None:
        plot(runs, path)


if __name__ == "__main__":
    main()
