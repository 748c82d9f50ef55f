"""A small transformer that learns characters in MX formats, and one that is cast to them after training.

    python docs/examples/mx_characters.py [--steps 120] [--save curves.png]

First, training: all products with weights, forward and backward, take operands in blocks of the row's format;
attention's own products, weights and their sums with gradients are in binary32. The last row has weights in
MXFP4 and all else in MXFP6, as a model of the paper.

    loss       nats a character, of the last 20 steps, and of text that was not seen

Then a network that was trained in binary32, four times as long, is brought into a format in three ways:

    cast       weights and inputs of all layers are put in blocks, and nothing else
    diffused   weights by error diffusion, layer by layer, with 32 pieces of the training text
    tuned      cast, and trained further for a quarter of the steps: forward in the format, backward in
               binary32. The row binary32 is trained further too

The transformer is that of characters.py.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import characters
import click
import numpy as np

import lowprec as lp
from lowprec.methods import mx

Array = Any
Parameters = characters.Parameters

MIXED = mx.Roles(x="mxfp6_e3m2", w="mxfp4", grad_for_x="mxfp6_e3m2")
ROWS: Mapping[str, Any] = {
    "binary32": "float32",
    "mxfp8_e4m3": "mxfp8_e4m3",
    "mxfp6_e2m3": "mxfp6_e2m3",
    "mxfp6_e3m2": "mxfp6_e3m2",
    "mxfp4": "mxfp4",
    "mxfp4, mxfp6": MIXED,
}
CAST = ("mxfp8_e4m3", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp4")


def casting(fmt: str) -> characters.Hooks:
    """Return hooks that put operands in blocks forward, and leave the backward products in binary32."""
    roles = mx.Roles(x=fmt, x_for_grad="binary32", w_for_grad="binary32", grad_for_x="binary32")
    return characters.recipe(roles)


def diffused(p: Parameters, fmt: str, tokens: Array) -> Parameters:
    """Return parameters whose weights have been quantised by error diffusion, each after those before it."""
    names = {id(w): name for name, w in p.items()}
    inputs, made = {}, dict(p)

    def watch(x: Array, w: Array) -> Any:
        inputs[names[id(w)]] = x
        return characters.plain_linear(x, w)

    def replace(x: Array, w: Array) -> Any:
        name = names[id(w)]
        made[name] = mx.diffuse(w, inputs[name], fmt, lp.quantize(x, fmt)).values()
        return mx.linear(x, made[name], roles=fmt)

    for linear in (watch, replace):
        characters.forward(p, tokens, characters.Hooks(linear=linear))
    return made


def cast(steps: int) -> tuple[float, float, dict[str, tuple[float, float, float]]]:
    """Return the test losses of a network, of it trained further, and of each format by each way."""
    data, plain = characters.text(), characters.Hooks()
    trained = characters.train(plain, characters.adam(), 4 * steps)
    starts = np.random.default_rng(2).integers(0, len(data.train) - characters.LENGTH, 32)
    tokens, _ = characters.windows(data.train, starts)
    further = functools.partial(
        characters.train,
        optimizer=characters.adam(2.0**-10),
        steps=steps // 4,
        parameters=trained.parameters,
        seed=3,
    )
    rows = {}
    for fmt in CAST:
        hooks = casting(fmt)
        tuned = characters.train(
            hooks, characters.adam(2.0**-10), steps // 4, parameters=trained.parameters, seed=3
        )
        rows[fmt] = (
            characters.tested(trained.parameters, data, hooks),
            characters.tested(diffused(trained.parameters, fmt, tokens), data, hooks),
            tuned.tested,
        )
    return trained.tested, further(plain).tested, rows


def draw(curves: Mapping[str, list[float]], path: str) -> None:
    """Draw losses against steps."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 5))
    for name, curve in curves.items():
        axes.plot(np.convolve(curve, np.ones(10) / 10, "valid"), label=name)
    axes.set(xlabel="step", ylabel="nats a character, mean of 10 steps")
    axes.legend()
    figure.savefig(path)
    plt.close(figure)


@click.command()
@click.option("--steps", default=120, show_default=True, metavar="N")
@click.option("--save", default=None, metavar="FILE", help="Draw the losses of all rows.")
def main(steps: int, save: str | None) -> None:
    """Train in every format, cast to every format, and print two tables."""
    click.echo("trained in       loss  test loss")
    curves = {}
    for name, recipe in ROWS.items():
        run = characters.train(characters.recipe(recipe), characters.adam(), steps)
        curves[name] = run.losses
        click.echo(f"{name:14}{np.mean(run.losses[-20:]):7.3f}{run.tested:11.3f}")
    click.echo("\nbrought to       cast   diffused      tuned")
    trained, further, rows = cast(steps)
    click.echo(f"{'binary32':14}{trained:7.3f}{'':11}{further:11.3f}")
    for name, losses in rows.items():
        click.echo(f"{name:14}{losses[0]:7.3f}{losses[1]:11.3f}{losses[2]:11.3f}")
    if save:
        draw(curves, save)


if __name__ == "__main__":
    main()
