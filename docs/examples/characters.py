"""A small transformer that predicts characters, in NumPy, with hooks for the products of any recipe.

    python docs/examples/characters.py [--recipe NAME] [--steps 200]

The text is the licence of this repository. Parameters are a dict of arrays; `gradients` is forward and
backward pass. All arithmetic is operators and functions of NumPy, so arrays with scales
(`lowprec.methods.scale_propagation`) pass too. What a recipe changes is in `Hooks`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np

from lowprec.methods import layers, scale_propagation as sp

Parameters = dict[str, Any]
Pull = Callable[[Any], Any]

LENGTH, WIDTH, HEADS, LAYERS, BATCH = 32, 64, 4, 2, 16

# -- text --------------------------------------------------------------------------------------------


class Text(NamedTuple):
    """Characters as numbers: those to train with, those to test with, and the alphabet."""

    train: Any
    test: Any
    alphabet: str

    @property
    def size(self) -> int:
        """Classes: the alphabet, filled up to a multiple of 32 for formats with blocks."""
        return -(-len(self.alphabet) // 32) * 32


def text() -> Text:
    """Return the licence in small letters, without indents; each eighth piece of 256 is for testing."""
    given = " ".join((Path(__file__).parents[2] / "LICENSE").read_text().lower().split())
    alphabet = "".join(sorted(set(given)))
    numbers = np.array([alphabet.index(each) for each in given])
    testing = np.arange(len(numbers)) // 256 % 8 == 7
    return Text(numbers[~testing], numbers[testing], alphabet)


def windows(numbers: Any, starts: Any) -> tuple[Any, Any]:
    """Return pieces of the text, shape (batch, length), and the characters that follow each of theirs."""
    places = np.asarray(starts)[:, None] + np.arange(LENGTH)
    return numbers[places], numbers[places + 1]


# -- network -----------------------------------------------------------------------------------------


def plain_matmul(x: Any, y: Any) -> tuple[Any, Pull]:
    """Multiply matrices, shapes (..., m, k) and (..., k, n); return the product and its pull."""
    return x @ y, lambda g: (g @ np.swapaxes(y, -1, -2), np.swapaxes(x, -1, -2) @ g)


def plain_linear(x: Any, w: Any) -> tuple[Any, Pull]:
    """Return x @ w.T, shapes (..., in) and (out, in), and its pull."""
    rows = x.reshape(-1, x.shape[-1])
    return x @ w.T, lambda g: (g @ w, g.reshape(-1, g.shape[-1]).T @ rows)


def as_it_is(gradient: Any) -> Any:
    """Return the gradient."""
    return gradient


@dataclass(frozen=True)
class Hooks:
    """What a recipe changes. Each takes arrays and gives (y, pull); pull takes y's gradient to the operands'.

    linear   of x (..., in) and w (out, in): products with weights; pull gives x's and w's gradients first
    matmul   of (..., m, k) and (..., k, n): the two products of attention
    norm     of x: along the last axis, without weights
    active   of x: the activation function
    arrive   of a gradient that arrives at the end of a branch: another form of it
    """

    linear: Callable[..., Any] = plain_linear
    matmul: Callable[..., Any] = plain_matmul
    norm: Callable[..., Any] = sp.layer_norm
    active: Callable[..., Any] = sp.gelu
    arrive: Callable[[Any], Any] = as_it_is


def recipe(name: Any, rng: Any = None) -> Hooks:
    """Return hooks whose products with weights are those of `lowprec.methods.layers.linear`."""
    return Hooks(linear=functools.partial(layers.linear, recipe=name, rng=rng))


def initial(size: int, seed: int = 0, depth: int = LAYERS) -> Parameters:
    """Return parameters in float32."""
    rng, w = np.random.default_rng(seed), WIDTH
    shapes = {"embedding": (size, w), "position": (LENGTH, w)}
    for layer in range(depth):
        shapes |= {f"{layer}.qkv": (3 * w, w), f"{layer}.out": (w, w)}
        shapes |= {f"{layer}.up": (4 * w, w), f"{layer}.down": (w, 4 * w)}
    shapes["head"] = (size, w)
    found = {name: rng.standard_normal(shape, np.float32) for name, shape in shapes.items()}
    for name in found:
        found[name] *= np.float32(0.5 if name in ("embedding", "position") else shapes[name][1] ** -0.5)
    return found


def attention(p: Parameters, name: str, x: Any, hooks: Hooks) -> tuple[Any, Pull]:
    """Apply causal attention to x (batch, length, width); pull gives x's gradient and those of weights."""
    batch, length, width = x.shape
    split = (batch, length, 3, HEADS, width // HEADS)
    joined, pull_qkv = hooks.linear(x, p[f"{name}.qkv"])
    qkv = np.transpose(joined.reshape(split), (2, 0, 3, 1, 4))
    q, k, v = qkv[0], qkv[1], qkv[2]
    raw, pull_raw = hooks.matmul(q, np.swapaxes(k, -1, -2))
    share = (width // HEADS) ** -0.5
    logits = np.where(np.tri(length, dtype=bool), raw * share, -np.inf)
    exponentials = np.exp(logits - np.max(logits, axis=-1, keepdims=True))
    weights = exponentials / np.sum(exponentials, axis=-1, keepdims=True)
    mixed, pull_mixed = hooks.matmul(weights, v)
    y, pull_out = hooks.linear(np.transpose(mixed, (0, 2, 1, 3)).reshape(x.shape), p[f"{name}.out"])

    def pull(g: Any) -> tuple[Any, Parameters]:
        at_mixed, at_out = pull_out(g)[:2]
        heads = np.transpose(at_mixed.reshape((batch, length, HEADS, -1)), (0, 2, 1, 3))
        at_weights, at_v = pull_mixed(heads)
        along = np.sum(at_weights * weights, axis=-1, keepdims=True)
        at_q, at_k = pull_raw((at_weights - along) * weights * share)
        three = np.stack([at_q, np.swapaxes(at_k, -1, -2), at_v])
        at_x, at_qkv = pull_qkv(np.transpose(three, (1, 3, 0, 2, 4)).reshape((batch, length, 3 * width)))[:2]
        return at_x, {f"{name}.qkv": at_qkv, f"{name}.out": at_out}

    return y, pull


def perceptron(p: Parameters, name: str, x: Any, hooks: Hooks) -> tuple[Any, Pull]:
    """Apply two linear layers with an activation between; as `attention`."""
    hidden, pull_up = hooks.linear(x, p[f"{name}.up"])
    active, pull_active = hooks.active(hidden)
    y, pull_down = hooks.linear(active, p[f"{name}.down"])

    def pull(g: Any) -> tuple[Any, Parameters]:
        at_active, at_down = pull_down(g)[:2]
        at_x, at_up = pull_up(pull_active(at_active))[:2]
        return at_x, {f"{name}.up": at_up, f"{name}.down": at_down}

    return y, pull


def forward(p: Parameters, tokens: Any, hooks: Hooks) -> tuple[Any, Pull]:
    """Return logits, shape (batch, length, classes), and a pull to the gradients of all parameters."""
    x, branches = p["embedding"][tokens] + p["position"], []
    for layer in range(sum(name.endswith(".qkv") for name in p)):
        for branch in (attention, perceptron):
            normal, pull_norm = hooks.norm(x)
            y, pull_branch = branch(p, str(layer), normal, hooks)
            x = x + y
            branches.append((pull_norm, pull_branch))
    normal, pull_last = hooks.norm(x)
    logits, pull_head = hooks.linear(normal, p["head"])

    def pull(g: Any) -> Parameters:
        at_normal, at_head = pull_head(g)[:2]
        g, found = pull_last(at_normal), {"head": at_head}
        for pull_norm, pull_branch in reversed(branches):
            at_branch, of_weights = pull_branch(hooks.arrive(g))
            g, found = g + pull_norm(at_branch), found | of_weights
        chosen = np.eye(p["embedding"].shape[0], dtype=g.dtype)[tokens.ravel()]
        found["embedding"] = chosen.T @ g.reshape((tokens.size, -1))
        return found | {"position": np.sum(g, axis=0)}

    return logits, pull


def gradients(
    p: Parameters, tokens: Any, targets: Any, hooks: Hooks, loss_scale: float = 1.0
) -> tuple[float, Parameters]:
    """Return the mean cross entropy in nats a character, and the gradients of it times the loss scale."""
    logits, pull = forward(p, tokens, hooks)
    exponentials = np.exp(logits - np.max(logits, axis=-1, keepdims=True))
    shares = exponentials / np.sum(exponentials, axis=-1, keepdims=True)
    wanted = np.eye(logits.shape[-1], dtype=np.float32)[targets]
    at_logits = hooks.arrive((shares - wanted.astype(shares.dtype)) * (loss_scale / targets.size))
    return nats(shares, targets), pull(at_logits)


def nats(shares: Any, targets: Any) -> float:
    """Return the mean cross entropy of probabilities, in float64."""
    values = np.float64(sp.stop_scaling(shares))
    return -float(np.mean(np.log(np.take_along_axis(values, targets[..., None], -1) + 1e-30)))


# -- training ----------------------------------------------------------------------------------------

Optimizer = Callable[[Parameters, Mapping[str, Any]], Parameters]


def adam(rate: float = 2.0**-8, beta1: float = 0.9, beta2: float = 0.99, eps: float = 1e-8) -> Optimizer:
    """Return Adam in float32: a function of parameters and gradients that returns the new parameters."""
    means: Parameters = {}
    squares: Parameters = {}
    steps = [0]

    def step(p: Parameters, found: Mapping[str, Any]) -> Parameters:
        steps[0] += 1
        new = {}
        for name, w in p.items():
            g = np.float32(found[name])
            m = means[name] = np.float32(beta1) * means.get(name, 0) + np.float32(1 - beta1) * g
            v = squares[name] = np.float32(beta2) * squares.get(name, 0) + np.float32(1 - beta2) * g * g
            size = np.sqrt(v / np.float32(1 - beta2 ** steps[0])) + np.float32(eps)
            new[name] = w - np.float32(rate / (1 - beta1 ** steps[0])) * m / size
        return new

    return step


class Run(NamedTuple):
    """Losses by step, the loss of text that was not seen, and the parameters at the end."""

    losses: list[float]
    tested: float
    parameters: Parameters


def tested(p: Parameters, data: Text, hooks: Hooks) -> float:
    """Return the mean cross entropy of the text that is for testing."""
    tokens, targets = windows(data.test, np.arange(0, len(data.test) - LENGTH, LENGTH))
    logits = np.float64(sp.stop_scaling(forward(p, tokens, hooks)[0]))
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return nats(exponentials / exponentials.sum(axis=-1, keepdims=True), targets)


def train(
    hooks: Hooks,
    optimizer: Optimizer,
    steps: int,
    *,
    parameters: Parameters | None = None,
    loss_scale: float = 1.0,
    seed: int = 0,
    batch: int = BATCH,
) -> Run:
    """Train from `initial` or given parameters; the optimizer gets the gradients of loss times loss scale."""
    data, rng, losses = text(), np.random.default_rng([seed, 1]), []
    p = initial(data.size, seed) if parameters is None else parameters
    for _ in range(steps):
        tokens, targets = windows(data.train, rng.integers(0, len(data.train) - LENGTH, batch))
        loss, found = gradients(p, tokens, targets, hooks, loss_scale)
        p = optimizer(p, found)
        losses.append(loss)
    return Run(losses, tested(p, data, hooks), p)


@click.command()
@click.option("--recipe", "name", default="float32", show_default=True, help="As of layers.linear.")
@click.option("--steps", default=200, show_default=True)
def main(name: str, steps: int) -> None:
    """Train once, and print the losses; a uniform guess has that of the first line."""
    click.echo(f"guess  {math.log(text().size):.3f} nats a character")
    run = train(recipe(name, np.random.default_rng(0)), adam(), steps)
    click.echo(f"train  {np.mean(run.losses[-20:]):.3f}\ntest   {run.tested:.3f}")


if __name__ == "__main__":
    main()
