"""A unit-scaled transformer in torch: how large its tensors begin, and 50 steps of training in FP8.

    python docs/examples/unit_scaling_torch.py [--all] [--steps 50] [--plot FILE]

Operations are those of `lowprec.methods.unit_scaling`, their gradients torch's autograd: no backward pass is
written by hand. The text is the licence of this repository, as bytes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import torch

from lowprec.methods import unit_scaling as us

WIDTH, HEADS, BLOCKS, LENGTH, BATCH, BYTES = 256, 4, 2, 64, 16, 256
#: The learning rate of Adam, before each parameter's scale.
RATE = 2.0**-3

# -- model -------------------------------------------------------------------------------------------


def weight(*shape: int) -> Any:
    """Return a parameter of unit variance."""
    return torch.nn.Parameter(torch.randn(*shape))


class Operations:
    """Unit Scaling's operations on tensors; with `narrow`, products have FP8 operands in both passes."""

    def __init__(self, narrow: bool = False) -> None:
        def product(operation: Any) -> Any:
            return us.differentiable(us.quantized(operation) if narrow else operation)

        self.linear, self.attention = product(us.linear), product(us.attention)
        self.embedding, self.norm = us.differentiable(us.embedding), us.differentiable(us.rms_norm)
        self.gelu, self.loss = us.differentiable(us.gelu), us.differentiable(us.cross_entropy)
        self.split, self.join = us.differentiable(us.residual_split), us.differentiable(us.residual_add)


class Block(torch.nn.Module):
    """Attention and perceptron, each a residual layer."""

    def __init__(self, ops: Operations, place: int) -> None:
        super().__init__()
        self.ops = ops
        self.query, self.key, self.value, self.out = (weight(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = weight(WIDTH, 4 * WIDTH), weight(4 * WIDTH, WIDTH)
        # Attention adds a quarter of what perceptrons add: its outputs at neighbouring positions are alike.
        self.taus = [
            us.transformer_tau(2 * place + each, 2 * BLOCKS, attention_ratio=0.25) for each in (0, 1)
        ]

    def forward(self, x: Any) -> Any:
        """Apply both."""
        for layer, tau in zip((self.attend, self.perceptron), self.taus, strict=True):
            branch, skip = self.ops.split(x, tau)
            x = self.ops.join(layer(self.ops.norm(branch)), skip, tau)
        return x

    def attend(self, x: Any) -> Any:
        """Apply causal attention of some heads."""
        heads = [
            self.ops.linear(x, each).unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for each in (self.query, self.key, self.value)
        ]
        return self.ops.linear(self.ops.attention(*heads, causal=True).transpose(1, 2).flatten(2), self.out)

    def perceptron(self, x: Any) -> Any:
        """Apply linear, gelu, linear."""
        return self.ops.linear(self.ops.gelu(self.ops.linear(x, self.up)), self.down)


class Model(torch.nn.Module):
    """From bytes to the loss of the bytes that follow."""

    def __init__(self, ops: Operations) -> None:
        super().__init__()
        self.ops, self.table, self.head = ops, weight(BYTES, WIDTH), weight(WIDTH, BYTES)
        self.blocks = torch.nn.Sequential(*(Block(ops, place) for place in range(BLOCKS)))

    def forward(self, pieces: Any) -> Any:
        """Return the loss; behind the last residual layer nothing ties the factors of both passes."""
        x = self.ops.norm(self.blocks(self.ops.embedding(pieces[:, :-1], self.table)))
        return self.ops.loss(self.ops.linear(x, self.head, None, None), pieces[:, 1:])


# -- text --------------------------------------------------------------------------------------------


def pieces(text: Any) -> Any:
    """Draw pieces of a text."""
    starts = torch.randint(len(text) - LENGTH, (BATCH, 1))
    return text[starts + torch.arange(LENGTH + 1)]


def licence() -> Any:
    """Return the bytes of the licence as integers."""
    return torch.tensor(list((Path(__file__).parents[2] / "LICENSE").read_bytes()))


# -- tables ------------------------------------------------------------------------------------------


def reports() -> dict[str, us.ScaleTracker]:
    """Measure the model at its start, for independent bytes and for text."""
    torch.manual_seed(0)
    batches = {"independent bytes": torch.randint(BYTES, (BATCH, LENGTH + 1)), "text": pieces(licence())}
    model = Model(Operations())
    return {name: us.report(model, batch) for name, batch in batches.items()}


def train(narrow: bool, steps: int) -> list[float]:
    """Train by Adam with the learning rates of u-muP, and return the losses."""
    torch.manual_seed(0)
    model, text = Model(Operations(narrow)), licence()
    groups = []
    for name, each in model.named_parameters():
        kind, fan_in = ("output", 1) if name in ("head", "table") else ("weight", each.shape[0])
        depth = 2 * BLOCKS if name.startswith("blocks") else None
        groups.append({"params": [each], "lr": RATE * us.learning_rate_scale(kind, fan_in, depth)})
    optimizer, losses = torch.optim.Adam(groups, betas=(0.9, 0.99)), []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(pieces(text))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def plot(found: dict[str, us.ScaleTracker], path: str) -> None:
    """Draw the standard deviations, with lines at 0.5 and 2."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise click.ClickException('plots need matplotlib: pip install "lowprec[examples]"') from None
    figure, axes = plt.subplots(1, len(found), figsize=(12, 10), sharey=True)
    for ax, (title, tracker) in zip(axes, found.items(), strict=True):
        for side, mark in (("forward", "o"), ("backward", "x")):
            given = {name: getattr(tracker[name], side) for name in tracker}
            names = [name for name, each in given.items() if each is not None]
            ax.plot([given[name].std for name in names], names, mark, label=side)
        ax.axvspan(0.5, 2, alpha=0.2)
        ax.set(title=title, xscale="log", xlabel="standard deviation")
    axes[0].invert_yaxis()
    axes[0].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=150)


@click.command()
@click.option("--all", "whole", is_flag=True, help="Print all tensors, not only those outside 0.5 to 2.")
@click.option("--steps", default=50, show_default=True, help="Steps of training; 0 for none.")
@click.option("--plot", "path", type=click.Path(dir_okay=False), help="Draw the standard deviations.")
def main(whole: bool, steps: int, path: str | None) -> None:
    """Measure a unit-scaled transformer at its start, and train it in binary32 and in FP8."""
    found = reports()
    for name, tracker in found.items():
        click.echo(f"{name}: {len(tracker.outside())} of {len(tracker)} tensors lie outside 0.5 to 2")
        click.echo((tracker if whole else tracker.outside()).annotated() + "\n")
    if path is not None:
        plot(found, path)
    for name, narrow in (("binary32", False), ("E4M3, E5M2", True)) if steps else ():
        losses = train(narrow, steps)
        click.echo(f"{name:10}  loss {losses[0]:.2f}, after {steps} steps {losses[-1]:.2f}")


if __name__ == "__main__":
    main()
