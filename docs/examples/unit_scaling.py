"""Unit Scaling in four tables: scales at initialisation, signal to noise against scale, and training in FP8.

    python docs/examples/unit_scaling.py [--quick] [--plot FILE]

The last one trains a denoising autoencoder on scikit-learn's digits (pip install "lowprec[examples]"), with
operands and gradients around every product in FP16, or in simulated E4M3 and E5M2. Its loss is the mean over
735,744 pixels: the gradients of the standard model begin below E5M2's smallest value, and those of the
unit-scaled one at 1.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import click
import numpy as np

from lowprec.methods import unit_scaling as us

# -- scales at initialisation ------------------------------------------------------------------------


def scales(constraint: str | None, width: int, batch: int, *, scaled: bool = True) -> us.ScaleTracker:
    """Track linear, gelu, linear for normal inputs and gradients; unscaled with PyTorch's default weights."""
    rng = np.random.default_rng(0)
    tracker = us.ScaleTracker()

    def layer(fan_in: int, fan_out: int) -> tuple[Any, Any]:
        if scaled:
            return rng.standard_normal((fan_in, fan_out), np.float32), np.zeros(fan_out, np.float32)
        bound = fan_in**-0.5
        weight, bias = (rng.uniform(-bound, bound, shape) for shape in ((fan_in, fan_out), fan_out))
        return weight.astype(np.float32), bias.astype(np.float32)

    def apply(name: str, operation: Callable[..., Any], *operands: Any) -> Any:
        used = functools.partial(operation, constraint=constraint) if scaled else us.unscaled(operation)
        return tracker.follow(name, used(*operands))

    x = tracker.forward("x", rng.standard_normal((batch, width), np.float32))
    w1, b1 = layer(width, 4 * width)
    w2, b2 = layer(4 * width, width)
    h, back_h = apply("linear 1", us.linear, x, w1, b1)
    a, back_a = apply("gelu", us.gelu, h)
    y, back_y = apply("linear 2", us.linear, a, w2, b2)
    da, dw2, db2 = back_y(rng.standard_normal(y.shape, np.float32))
    (dh,) = back_a(da)
    dx, dw1, db1 = back_h(dh)
    tracker.backward("x", dx)
    weights = {"weight 1": (w1, dw1), "bias 1": (b1, db1), "weight 2": (w2, dw2), "bias 2": (b2, db2)}
    for name, (values, grad) in weights.items():
        tracker.forward(name, values)
        tracker.backward(name, grad)
    return tracker


def all_scales(width: int, batch: int) -> dict[str, us.ScaleTracker]:
    """The three variants of the model."""
    return {
        "standard": scales(None, width, batch, scaled=False),
        "geometric mean": scales("gmean", width, batch),
        "no constraint": scales(None, width, batch),
    }


def scales_rows(trackers: dict[str, us.ScaleTracker]) -> Iterable[Sequence[str]]:
    """Return, name by name, the standard deviation forward and backward in each variant."""
    yield ["tensor", *(f"{name} {sign}" for name in trackers for sign in ("->", "<-"))]
    for name in trackers["standard"]:
        pairs = [tracker[name] for tracker in trackers.values()]
        found = [side.std for pair in pairs for side in (pair.forward, pair.backward) if side is not None]
        yield [name, *(f"{each:.3f}" for each in found)]


# -- a transformer block -------------------------------------------------------------------------------

Branch = Callable[[Any], tuple[Any, Any]]


class Block:
    """A transformer block: x + attention(norm(x)), then x + perceptron(norm(x)), its weights and its tracker.

    Unit-scaled, both sums are residual layers with tau 1. Ordinary, weights have standard deviation
    fan_in**-1/2, and nothing has a factor.
    """

    def __init__(self, unit: bool, width: int, length: int, batch: int, heads: int = 4) -> None:
        self.unit, self.heads = unit, heads
        self.rng, self.tracker = np.random.default_rng(0), us.ScaleTracker()
        self.shape = (batch, length, width)

    def use(self, name: str, operation: Callable[..., Any], *operands: Any, **settings: Any) -> Any:
        """Apply an operation, unit-scaled or ordinary, and follow it."""
        used = operation if self.unit else us.unscaled(operation)
        return self.tracker.follow(name, used(*operands, **settings))

    def weight(self, fan_in: int, fan_out: int) -> Any:
        """Return a matrix."""
        size = 1 if self.unit else fan_in**-0.5
        return np.float32(size) * self.rng.standard_normal((fan_in, fan_out), np.float32)

    def residual(self, branch: Branch, x: Any) -> tuple[Any, Any]:
        """Add a branch to x."""
        if self.unit:
            return us.residual_apply(branch, x, tau=1.0)
        y, pull = branch(x)

        def both(grad: Any) -> tuple[Any]:
            return (grad + pull(grad)[0],)

        return x + y, both

    def attention(self, x: Any) -> tuple[Any, Any]:
        """Apply attention to normalised x."""
        width, split = x.shape[-1], (*x.shape[:-1], self.heads, -1)
        normal, back_norm = self.use("norm 1", us.layer_norm, x)
        parts = [self.use(name, us.linear, normal, self.weight(width, width)) for name in "qkv"]
        heads = [np.moveaxis(y.reshape(split), -2, -3) for y, _ in parts]
        mixed, back_mixed = self.use("attention", us.attention, *heads, causal=True)
        joined = np.moveaxis(mixed, -3, -2).reshape(x.shape)
        y, back_out = self.use("out", us.linear, joined, self.weight(width, width))

        def pull(grad: Any) -> tuple[Any]:
            (at_joined, _) = back_out(grad)
            at_heads = back_mixed(np.moveaxis(at_joined.reshape(split), -2, -3))
            ends = [np.moveaxis(each, -3, -2).reshape(x.shape) for each in at_heads]
            at_normal = sum(back(end)[0] for (_, back), end in zip(parts, ends, strict=True))
            return (back_norm(at_normal)[0],)

        return y, pull

    def perceptron(self, x: Any) -> tuple[Any, Any]:
        """Apply two linear layers with gelu between to normalised x."""
        width = x.shape[-1]
        normal, back_norm = self.use("norm 2", us.layer_norm, x)
        hidden, back_up = self.use("up", us.linear, normal, self.weight(width, 4 * width))
        active, back_active = self.use("gelu", us.gelu, hidden)
        y, back_down = self.use("down", us.linear, active, self.weight(4 * width, width))

        def pull(grad: Any) -> tuple[Any]:
            at_hidden = back_active(back_down(grad)[0])[0]
            return (back_norm(back_up(at_hidden)[0])[0],)

        return y, pull

    def scales(self) -> us.ScaleTracker:
        """Track both passes, for normal inputs and gradients."""
        x = self.tracker.forward("x", self.rng.standard_normal(self.shape, np.float32))
        middle, back_attention = self.tracker.follow("sum 1", self.residual(self.attention, x))
        y, back_perceptron = self.tracker.follow("sum 2", self.residual(self.perceptron, middle))
        grad = self.rng.standard_normal(y.shape, np.float32)
        self.tracker.backward("x", back_attention(back_perceptron(grad)[0])[0])
        return self.tracker


# -- signal to noise against scale -------------------------------------------------------------------

FORMATS = ("binary16", "bfloat16", "e4m3fn", us.E4M3, "e5m2", us.E5M2, "e3m2fn", "e2m3fn", "e2m1fn")
EXPONENTS = (-16, -10, -6, 0, 8, 15)


def snr_rows() -> Iterable[Sequence[str]]:
    """Decibels at some standard deviations, and the binades within 3 dB of the best."""
    yield ["format", *(f"2^{exponent}" for exponent in EXPONENTS), "plateau"]
    for fmt in FORMATS:
        low, high = us.plateau(fmt)
        curve = us.snr_curve(fmt, np.exp2(EXPONENTS))
        yield [str(fmt), *(f"{abs(each):.2f}" for each in curve), f"{np.log2(high / low):.1f}"]


# -- training in FP8 ---------------------------------------------------------------------------------

SIZES = (64, 64, 32, 64, 64)
COPIES, NOISE = 8, 0.5


@dataclass
class Run:
    """A model to train: its parametrization, its formats, and what Adam needs."""

    model: str
    formats: tuple[Any, Any] | None = None
    loss_scale: float = 1.0

    @property
    def learning_rate(self) -> float:
        """The best power of two of each parametrization in binary32."""
        return 2.0**-1 if self.model == "unit-scaled" else 2.0**-6


FP16, FP8 = ("binary16", "binary16"), (us.E4M3, us.E5M2)
RUNS = (
    Run("standard"),
    Run("standard", FP16),
    Run("standard", FP8),
    Run("standard", FP8, loss_scale=4096.0),
    Run("unit-scaled"),
    Run("unit-scaled", FP16),
    Run("unit-scaled", FP8),
)


def digits() -> tuple[Any, Any]:
    """Images for training and for testing, shuffled, standardized."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise click.ClickException(
            'the digits are scikit-learn\'s: pip install "lowprec[examples]"'
        ) from None
    images = load_digits().data.astype(np.float32)
    images = images[np.random.default_rng(0).permutation(len(images))]
    images = (images - images[:1437].mean()) / images[:1437].std()
    return images[:1437], images[1437:]


class Autoencoder:
    """Linear layers with relu between them; the operations are unit-scaled or ordinary, in formats or not."""

    def __init__(self, run: Run, rng: np.random.Generator) -> None:
        unit = run.model == "unit-scaled"
        kind = (lambda operation: operation) if unit else us.unscaled

        def product(operation: Callable[..., Any]) -> Callable[..., Any]:
            if run.formats is None:
                return kind(operation)
            forward, backward = run.formats
            return us.quantized(kind(operation), forward=forward, backward=backward)

        last = len(SIZES) - 2
        self.layers = [
            product(us.readout if unit and place == last else us.linear) for place in range(last + 1)
        ]
        self.relu, self.loss = kind(us.relu), kind(us.mse)
        pairs = list(itertools.pairwise(SIZES))
        self.weights = [
            rng.standard_normal(pair, np.float32) * np.float32(1 if unit else (2 / pair[0]) ** 0.5)
            for pair in pairs
        ]
        self.rates = [1.0] * len(pairs)
        if unit:
            kinds = ["weight"] * last + ["output"]
            self.rates = [
                us.learning_rate_scale(each, pair[0]) for each, pair in zip(kinds, pairs, strict=True)
            ]

    def forward(self, x: Any) -> tuple[Any, list[Any]]:
        """The output, and the backward passes in order."""
        backward = []
        for place, (layer, weight) in enumerate(zip(self.layers, self.weights, strict=True)):
            x, vjp = layer(x, weight)
            backward.append(vjp)
            if place < len(self.layers) - 1:
                x, vjp = self.relu(x)
                backward.append(vjp)
        return x, backward


def train(run: Run, steps: int) -> tuple[float, float]:
    """Test error, and the share of gradients that E5M2 makes zero; Adam in binary32."""
    rng = np.random.default_rng(1)
    images, tests = digits()
    noisy_tests = tests + np.float32(NOISE) * rng.standard_normal(tests.shape, np.float32)
    target = np.tile(images, (COPIES, 1))
    model = Autoencoder(run, rng)
    means, squares = ([np.zeros_like(weight) for weight in model.weights] for _ in range(2))
    flushed = []
    for step in range(1, steps + 1):
        noisy = target + np.float32(NOISE) * rng.standard_normal(target.shape, np.float32)
        y, backward = model.forward(noisy)
        grad = model.loss(y, target)[1](run.loss_scale)[0]
        grads = []
        for vjp in reversed(backward):
            if vjp.name != "relu" and step % 5 == 0:
                flushed.append(us.format_report(grad, run.formats[1]).flushed if run.formats else 0.0)
            grad, *others = vjp(grad)
            grads += others
        for weight, rate, found, mean, square in zip(
            model.weights, model.rates, reversed(grads), means, squares, strict=True
        ):
            found = found / np.float32(run.loss_scale)
            mean += np.float32(0.1) * (found - mean)
            square += np.float32(0.01) * (found * found - square)
            size = np.sqrt(square / np.float32(1 - 0.99**step)) + np.float32(1e-30)
            weight -= np.float32(run.learning_rate * rate / (1 - 0.9**step)) * mean / size
    y, _ = model.forward(noisy_tests)
    return float(np.square(y - tests).mean() / np.square(tests - images.mean(axis=0)).mean()), float(
        np.mean(flushed)
    )


def training_rows(steps: int) -> Iterable[Sequence[str]]:
    """Each run."""
    try:
        from threadpoolctl import threadpool_limits  # comes with scikit-learn
    except ImportError:
        raise click.ClickException('training needs scikit-learn: pip install "lowprec[examples]"') from None
    yield ["model", "formats", "loss scale", "test error", "flushed"]
    for run in RUNS:
        with threadpool_limits(1):  # products are small: a second thread mostly waits
            error, flushed = train(run, steps)
        formats = {None: "binary32", FP16: "binary16", FP8: "E4M3, E5M2"}[run.formats]
        share = f"{flushed:.1%}" if run.formats else "-"
        yield [run.model, formats, f"{run.loss_scale:g}", f"{error:.3f}", share]


# -- output ------------------------------------------------------------------------------------------


def show(title: str, rows: Iterable[Sequence[str]]) -> None:
    """Print a table: the first column to the left, the others to the right."""
    cells = list(rows)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    click.echo(f"{title}\n")
    for first, *others in cells:
        line = [
            f"{first:{widths[0]}}",
            *(f"{each:>{size}}" for each, size in zip(others, widths[1:], strict=True)),
        ]
        click.echo("  ".join(line).rstrip())
    click.echo()


def plot(path: str, trackers: dict[str, us.ScaleTracker]) -> None:
    """Draw the curves, and the scales beside the limits of formats."""
    try:
        import matplotlib
    except ImportError:
        raise click.ClickException('plots need matplotlib: pip install "lowprec[examples]"') from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(13, 5), layout="constrained")
    exponents = np.arange(-28, 22, 0.25)
    for fmt in FORMATS[:6]:
        left.plot(exponents, us.snr_curve(fmt, np.exp2(exponents)), label=str(fmt))
    left.set(xlabel="log2 of the standard deviation", ylabel="signal to noise, dB", title="Normal values")
    left.legend()
    names = list(trackers["standard"])
    for (variant, tracker), marker in zip(trackers.items(), "osd", strict=True):
        for side, filled in (("forward", "full"), ("backward", "none")):
            found = [getattr(tracker[name], side).std or np.nan for name in names]
            right.plot(found, names, marker, fillstyle=filled, label=f"{variant}, {side}")
    for limit, name in (
        (2.0**-14, "FP16 normal"),
        (2.0**-7, "E4M3 normal"),
        (240.0, "E4M3 max"),
        (2.0**16, "FP16 max"),
    ):
        right.axvline(limit, color="grey", linewidth=0.8)
        right.text(limit, len(names) - 0.4, name, ha="center", fontsize=7)
    right.set(xscale="log", xlabel="standard deviation", title="At initialisation", ylim=(-0.6, len(names)))
    right.legend(fontsize=7, loc="center right")
    figure.savefig(path)


@click.command(help=__doc__.splitlines()[0])
@click.option("--quick", is_flag=True, help="Smaller layers and few steps: seconds.")
@click.option("--plot", "figure", metavar="FILE", help="Draw signal to noise and scales into this file too.")
def main(quick: bool, figure: str | None) -> None:
    """Print the tables."""
    width, batch, steps = (256, 64, 15) if quick else (1024, 256, 100)
    trackers = all_scales(width, batch)
    title = f"Standard deviations forward (->) and backward (<-), width {width}, batch {batch}"
    show(title, scales_rows(trackers))
    length, few = (32, 4) if quick else (128, 8)
    blocks = {
        name: Block(unit, width, length, few).scales()
        for name, unit in (("standard", False), ("unit-scaled", True))
    }
    show(
        f"The same in a transformer block, width {width}, {few} times {length} positions", scales_rows(blocks)
    )
    show(
        "Signal to noise of normal values in dB, by their standard deviation; plateau in binades", snr_rows()
    )
    show(f"A denoising autoencoder after {steps} steps of Adam", training_rows(steps))
    if figure is not None:
        plot(figure, trackers)


if __name__ == "__main__":
    main()
