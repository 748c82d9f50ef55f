"""A torch transformer on characters by each recipe: its loss, and what a step of training costs.

    python docs/examples/transformer_torch.py [--steps 200] [--seeds 2] [--threads 1] [--recipe NAME ...]

The model is torch's own modules, four layers of width 128, with attention from `scaled_dot_product_attention`;
`use_recipe` makes its linear layers compute by the recipe, forward and backward. The text is the licence of this
repository, in batches of 32 pieces of 64 characters. Needs `lowprec[torch]`.

    loss      nats a character, of text that was not seen, for each seed
    ms        a step: forward, backward and AdamW; the median
    times     as long as torch's own step in float32, in the same run
"""

from __future__ import annotations

import time
from typing import Any

import characters
import click
import numpy as np
import torch

import lowprec as lp
from lowprec.methods import layers

LENGTH, WIDTH, HEADS, DEPTH, BATCH = 64, 128, 4, 4, 32
RECIPES = ("torch", "float32", "bfloat16", "fp8", "mxfp8", "mxfp6", "mxfp4", "nvfp4")


class Block(torch.nn.Module):
    """Attention and a perceptron, each after a norm and around a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.qkv, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Any) -> Any:
        """Apply the block to x (batch, length, width)."""
        q, k, v = (
            part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, -1)
        )
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(-2))
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm2(x))))


class Transformer(torch.nn.Module):
    """Logits of the next character."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.embedding, self.position = torch.nn.Embedding(size, WIDTH), torch.nn.Embedding(LENGTH, WIDTH)
        self.blocks = torch.nn.Sequential(*[Block() for _ in range(DEPTH)])
        self.norm, self.head = torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, size)

    def forward(self, tokens: Any) -> Any:
        """Return logits of tokens (batch, length)."""
        x = self.embedding(tokens) + self.position(torch.arange(tokens.shape[1]))
        return self.head(self.norm(self.blocks(x)))


def loss_of(model: Transformer, numbers: Any, starts: Any) -> Any:
    """Return the cross entropy of pieces of the text."""
    places = np.asarray(starts)[:, None] + np.arange(LENGTH)
    tokens, targets = torch.from_numpy(numbers[places]), torch.from_numpy(numbers[places + 1])
    return torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())


def train(recipe: str, seed: int, steps: int) -> tuple[float, list[float]]:
    """Return the loss of text that was not seen, and the seconds of each step."""
    torch.manual_seed(seed)
    data, rng, seconds = characters.text(), np.random.default_rng(seed), []
    model = Transformer(data.size)
    if recipe != "torch":
        layers.use_recipe(model, recipe, rng=seed)
    optimizer = torch.optim.AdamW(model.parameters(), 2.0**-9)
    for _ in range(steps):
        start = time.perf_counter()
        loss = loss_of(model, data.train, rng.integers(0, len(data.train) - LENGTH, BATCH))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seconds.append(time.perf_counter() - start)
    with torch.no_grad():
        tested = loss_of(model, data.test, np.arange(0, len(data.test) - LENGTH, LENGTH))
    return float(tested), seconds


@click.command()
@click.option("--steps", default=200, show_default=True, metavar="N")
@click.option("--seeds", default=2, show_default=True, metavar="N")
@click.option("--threads", default=1, show_default=True, metavar="N", help="Of torch and of lowprec.")
@click.option("--recipe", "recipes", multiple=True, default=RECIPES, metavar="NAME")
def main(steps: int, seeds: int, threads: int, recipes: tuple[str, ...]) -> None:
    """Train with each recipe and seed, and print a table."""
    torch.set_num_threads(threads)
    lp.set_threads(threads)
    click.echo(f"{'recipe':10}{'loss':>{8 * seeds}}{'ms':>8}{'times':>8}")
    first = None
    for recipe in recipes:
        runs = [train(recipe, seed, steps) for seed in range(seeds)]
        ms = 1e3 * float(np.median([each for _, seconds in runs for each in seconds[1:]]))
        first = first or ms
        losses = "".join(f"{loss:8.3f}" for loss, _ in runs)
        click.echo(f"{recipe:10}{losses}{ms:8.0f}{ms / first:8.1f}")


if __name__ == "__main__":
    main()
