"""Weights and optimizer states in binary16 or FP8, with scales and without, at three loss scales.

    python docs/examples/scalify_states.py [--quick] [--plot FILE] [--cost]

Two networks: the perceptron of `scalify_training.py` on ten clusters, and the transformer of `characters.py`
with one layer. Every row but "float32" multiplies matrices in FP8, E4M3 forward and E5M2 backward, and keeps
their results in binary16; weights and both moments of Adam are kept in the row's format. The optimizer gets
the gradient divided by the loss scale, as is usual.

    loss    mean of the last tenth of the steps
    test    accuracy of clusters that were not seen; loss of text that was not
    ms      processor time of a step

`--cost` times steps of a transformer of four layers of width 128, in batches of 32 pieces of 64 characters.

    times   as long as the first row's steps, in float32
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import characters
import click
import numpy as np
import scalify_training as clusters

import lowprec as lp
from lowprec.methods import scale_propagation as sp

LOSS_SCALES = (2.0**-12, 1.0, 2.0**12)
WIDE = {"weights": "binary32", "first": "binary32", "second": "binary32"}
NARROW = {"weights": "e4m3fn", "first": "e5m2", "second": "e5m2", "rounding": "stochastic(16)"}


@dataclass(frozen=True)
class Way:
    """How a row trains: products in FP8 or float32, arrays with scales or without, formats that are kept."""

    name: str
    fp8: bool
    scaled: bool
    kept: dict[str, str] = field(default_factory=dict)

    def adam(self, rate: float) -> sp.Adam:
        """Return the optimizer; formats are binary16 where the row has no others."""
        options: dict[str, Any] = dict(self.kept)
        return sp.Adam(learning_rate=rate, betas=(0.9, 0.99), rng=0, **options)

    def array(self, values: Any, scale: float = 1.0) -> Any:
        """Return an array with a scale, or as it is."""
        return sp.as_scaled(values, scale) if self.scaled else values


WAYS = (
    Way("float32", fp8=False, scaled=False, kept=WIDE),
    Way("FP16 with scales", fp8=True, scaled=True),
    Way("FP16 without", fp8=True, scaled=False),
    Way("FP8 with scales", fp8=True, scaled=True, kept=NARROW),
)


@dataclass
class Result:
    """How one training went."""

    network: str
    way: Way
    loss_scale: float
    losses: list[float]
    test: str
    milliseconds: float

    @property
    def loss(self) -> float:
        """The mean of the last tenth."""
        return float(np.mean(self.losses[-max(1, len(self.losses) // 10) :]))


def half(x: Any) -> Any:
    """Round to binary16: the data of an array with a scale, or values."""
    return sp.cast(x, "binary16", saturation="finite")


def linear(x: Any, w: Any, bias: Any = None) -> tuple[Any, Callable[[Any], Any]]:
    """Apply `sp.linear` to x (..., in) and w (in, out); its results are kept in binary16."""
    y, pull = sp.linear(x, w, bias)
    return half(y), lambda g: tuple(None if each is None else half(each) for each in pull(g))


def transposed(x: Any, w: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Apply `linear` to x (..., in) and w (out, in)."""
    y, pull = linear(x, w.T)

    def back(g: Any) -> tuple[Any, Any]:
        at_x, at_w, _ = pull(g)
        return at_x, at_w.T

    return y, back


class Stepper:
    """Adam for a dict of parameters; it divides gradients by the loss scale."""

    def __init__(self, way: Way, parameters: dict[str, Any], rate: float, loss_scale: float) -> None:
        self.adam, self.factor = way.adam(rate), 1 / loss_scale
        self.states = {name: self.adam.start(way.array(w, 2.0**-3)) for name, w in parameters.items()}

    @property
    def weights(self) -> dict[str, Any]:
        """The parameters."""
        return {name: state.weights for name, state in self.states.items()}

    def __call__(self, parameters: dict[str, Any], gradients: Any) -> dict[str, Any]:
        """Take a step from the parameters of the last one."""
        for name, state in self.states.items():
            self.states[name] = self.adam.step(state, gradients[name] * self.factor)
        return self.weights


def train_clusters(way: Way, loss_scale: float, steps: int) -> tuple[list[float], str]:
    """Train the perceptron; return its losses and its accuracy."""
    rng, run = np.random.default_rng(0), clusters.Run(way.name, loss_scale)
    centres = clusters.SPREAD * rng.standard_normal((clusters.CLASSES, clusters.INPUTS))
    points, labels = clusters.samples(rng, centres, 4096)
    shapes = {"w1": (64, 128), "b1": (128,), "w2": (128, 10), "b2": (10,)}
    initial = {
        name: np.float32(rng.standard_normal(shape) / shape[0] ** 0.5 if len(shape) == 2 else np.zeros(shape))
        for name, shape in shapes.items()
    }
    optimizer = Stepper(way, initial, 2.0**-7, loss_scale)
    layer = linear if way.fp8 else clusters.plain_linear
    for _ in range(steps):
        x, classes = clusters.samples(rng, centres, 256)
        targets = np.eye(clusters.CLASSES, dtype=np.float32)[classes]
        p = list(optimizer.weights.values())
        found = clusters.gradients(p, way.array(x), targets, layer, run)
        optimizer({}, dict(zip(shapes, found, strict=True)))
    w1, b1, w2, b2 = (np.float64(sp.stop_scaling(w)) for w in optimizer.weights.values())
    scores = np.maximum(points @ w1 + b1, 0) @ w2 + b2
    return run.losses, f"{np.mean(np.argmax(scores, axis=1) == labels):.1%}"


def train_characters(
    way: Way,
    loss_scale: float,
    steps: int,
    *,
    depth: int = 1,
    batch: int = 8,
    ends: list[float] | None = None,
) -> tuple[list[float], str]:
    """Train the transformer; return its losses and that of unseen text, and note when steps end."""
    initial = characters.initial(characters.text().size, depth=depth)
    optimizer, times = Stepper(way, initial, 2.0**-7, loss_scale), [] if ends is None else ends
    hooks = characters.Hooks(linear=transposed, arrive=sp.dynamic_rescale) if way.fp8 else characters.Hooks()

    def step(parameters: dict[str, Any], gradients: Any) -> dict[str, Any]:
        parameters = optimizer(parameters, gradients)
        times.append(time.process_time())
        return parameters

    run = characters.train(
        hooks, step, steps, parameters=optimizer.weights, loss_scale=loss_scale, batch=batch
    )
    return run.losses, f"{run.tested:.3f}"


NETWORKS = {"clusters": (train_clusters, 100), "characters": (train_characters, 100)}


def result(network: str, way: Way, loss_scale: float, steps: int) -> Result:
    """Train once; what overflows or is NaN stays so without a warning."""
    start = time.process_time()
    with sp.config(sums="fp32_fma"), np.errstate(all="ignore"):
        losses, test = NETWORKS[network][0](way, loss_scale, steps)
    return Result(network, way, loss_scale, losses, test, 1e3 * (time.process_time() - start) / steps)


def costs(steps: int, depth: int = 4, batch: int = 32) -> list[tuple[str, float]]:
    """Return the median processor time of a step of a larger transformer, in milliseconds, of each way."""
    found = []
    for way in WAYS:
        if way.scaled or not way.fp8:
            ends: list[float] = []
            with sp.config(sums="fp32_fma"), np.errstate(all="ignore"):
                train_characters(way, 1.0, steps, depth=depth, batch=batch, ends=ends)
            found.append((way.name, 1e3 * float(np.median(np.diff(ends)))))
    return found


def line(row: Result) -> str:
    """Return a row of the table."""
    scale = f"2**{np.log2(row.loss_scale):.0f}" if row.loss_scale != 1 else "1"
    return f"{row.network:12}{row.way.name:18}{scale:>10}{row.loss:9.3f}{row.test:>9}{row.milliseconds:6.0f}"


def plot(rows: list[Result], path: str) -> None:
    """Draw the losses of both networks."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise click.ClickException('plots need matplotlib: pip install "lowprec[examples]"') from None
    figure, axes = plt.subplots(1, len(NETWORKS), figsize=(12, 4.5), layout="constrained")
    colors = {way.name: f"C{number}" for number, way in enumerate(WAYS)}
    lines = dict(zip(LOSS_SCALES, (":", "-", "--"), strict=True))
    for panel, network in zip(axes, NETWORKS, strict=True):
        for row in rows:
            if row.network == network:
                label = f"{row.way.name}, 2**{np.log2(row.loss_scale):.0f}"
                panel.plot(row.losses, lines[row.loss_scale], color=colors[row.way.name], label=label)
        panel.set(xlabel="step", ylabel="loss", title=network, ylim=(0, 6))
    axes[1].legend(fontsize="small", ncols=2)
    figure.savefig(path, dpi=150)


@click.command()
@click.option("--quick", is_flag=True, help="A tenth of the steps.")
@click.option("--plot", "path", type=click.Path(dir_okay=False), help="Draw the losses into this file.")
@click.option("--cost", is_flag=True, help="Time a few steps of a larger transformer instead.")
def main(quick: bool, path: str | None, cost: bool) -> None:
    """Train both networks in all ways, at all loss scales."""
    lp.set_threads(1)
    if cost:
        characters.LENGTH, characters.WIDTH = 64, 128
        found = costs(4 if quick else 12)
        click.echo("weights, m, v         ms   times")
        click.echo("\n".join(f"{name:18}{ms:6.0f}{ms / found[0][1]:8.1f}" for name, ms in found))
        return
    click.echo("network     weights, m, v     loss scale     loss     test    ms")
    rows = []
    for network, (_, steps) in NETWORKS.items():
        for way in WAYS:
            for loss_scale in LOSS_SCALES:
                rows.append(result(network, way, loss_scale, steps // 10 if quick else steps))
                click.echo(line(rows[-1]))
    if path is not None:
        plot(rows, path)


if __name__ == "__main__":
    main()
