"""One linear layer for all recipes: it is each recipe's own, and says what it does not know."""

import sys

import numpy as np
import pytest

import lowprec as lp
from lowprec.methods import fp8, layers, mx, nvfp4
from lowprec.spec import catalog
from lowprec.spec.codebooks import CODEBOOKS

RNG = np.random.default_rng(7)
X, W, B, G = (
    RNG.standard_normal(shape).astype(np.float32) for shape in ((2, 9, 20), (12, 20), (12,), (2, 9, 12))
)
OWN = {
    "float32": lambda: mx.linear(X, W, B, "binary32"),
    "fp8": lambda: fp8.linear(X, W, B),
    "mxfp8": lambda: mx.linear(X, W, B, "mxfp8_e4m3"),
    "mxfp6": lambda: mx.linear(X, W, B, "mxfp6_e2m3"),
    "mxfp4": lambda: mx.linear(X, W, B, "mxfp4"),
    "nvfp4": lambda: nvfp4.linear(X, W, B, rng=5),
    "bfloat16": lambda: mx.linear(X, W, B, "bfloat16"),
}


@pytest.mark.parametrize("recipe", OWN)
def test_a_name_is_the_recipes_own_layer(recipe):
    """Forward and all gradients, bit for bit."""
    y, gradients = layers.linear(X, W, B, recipe, rng=5)
    want, own = OWN[recipe]()
    assert np.array_equal(y, want)
    assert all(map(np.array_equal, gradients(G), own(G)))
    assert [each.shape for each in gradients(G)] == [X.shape, W.shape, B.shape]


def test_every_named_recipe_is_tried():
    assert set(layers.RECIPES) <= set(OWN)


def test_recipes_as_objects():
    roles = mx.Roles(x="mxfp6_e3m2", w="mxfp4")
    assert np.array_equal(layers.linear(X, W, recipe=roles)[0], mx.linear(X, W, roles=roles)[0])
    recipe = nvfp4.Recipe(stochastic=False)
    assert np.array_equal(layers.linear(X, W, recipe=recipe)[0], nvfp4.linear(X, W, recipe=recipe)[0])
    fmt = lp.block_formats["mxint8"]
    assert np.array_equal(layers.linear(X, W, recipe=fmt)[0], mx.linear(X, W, roles="mxint8")[0])


def test_an_unknown_recipe_is_named():
    with pytest.raises(ValueError, match="recipe='mxfp5' is unknown: use one of float32, fp8, mxfp8, mxfp6"):
        layers.linear(X, W, recipe="mxfp5")


def test_torch_is_asked_for_by_name(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr("lowprec.methods._torch._OUTSIDE", {})
    with pytest.raises(ImportError, match=r'pip install "lowprec\[torch\]"'):
        layers.apply(X, W)
    with pytest.raises(ImportError, match=r'pip install "lowprec\[torch\]"'):
        layers.use_recipe(None)


REFUSED = [
    "int8", "int8f6", "int4", "uint8", "e2m1fn", "e3m2fn", "e3m4", "nf4", "iq4_nl", "dynamic8", "ue4m3",
]  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_format_that_needs_scales_is_no_recipe(name):
    """Nothing scales single values, so that weights would all be 0, or inputs be clipped to 1."""
    for start in (lambda: layers.linear(np.ones((2, 16)), np.ones((16, 16)), recipe=name),
                  lambda: layers.Linear(np.ones((16, 16)), recipe=lp.format(name))):  # fmt: skip
        with pytest.raises(ValueError, match=f"recipe='{name}': nothing scales .* use a block format"):
            start()


def test_every_format_that_is_a_recipe_keeps_a_layer():
    """10 dB and more, of inputs about 1 and weights about 1/32."""
    rng = np.random.default_rng(5)
    x, w = rng.standard_normal((8, 1024)), rng.uniform(-1 / 32, 1 / 32, (8, 1024))
    exact, taken = x @ w.T, 0
    for name in (*catalog.FORMATS, *CODEBOOKS):
        try:
            y, _ = layers.linear(x.astype(np.float32), w.astype(np.float32), recipe=name)
        except ValueError:
            continue
        taken += 1
        assert np.square(y - exact).sum() < 0.1 * np.square(exact).sum(), name
    assert taken == 19


def test_a_format_for_values_that_are_scaled_already_is_taken_as_roles():
    y, _ = layers.linear(np.full((2, 16), 3.0), np.full((4, 16), 2.0), recipe=mx.Roles(x="int8"))
    assert (y == 96).all()
