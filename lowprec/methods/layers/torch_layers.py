"""Recipes in torch's autograd: forward and backward are the library's, bit for bit.

torch is imported when a function is called.

Floor 4.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from lowprec.arrays.random import key_of
from lowprec.methods._torch import MEMORIES, differentiable, outside_graphs, torch_module
from lowprec.methods.fp8 import Scaling
from lowprec.methods.layers.recipes import LinearRecipe, linear, started


def apply(
    x: Any,
    w: Any,
    bias: Any = None,
    recipe: LinearRecipe = "nvfp4",
    *,
    rng: int | np.random.Generator | None = None,
    accumulation: str = "fp32_fma",
) -> Any:
    """Apply a linear layer to torch tensors by a recipe, with a history: ``.backward()`` takes its gradients.

    Parameters
    ----------
    x, w, bias : torch.Tensor
        As of `torch.nn.functional.linear`; of float32, bfloat16 or float16, on any device. All is computed on
        the CPU. x may be nested, as `torch.nn.TransformerEncoder` makes it of padded rows in evaluation.
    recipe, rng, accumulation
        As for `linear`.

    Returns
    -------
    y : torch.Tensor

    Within `torch.compile` it stands between two graphs, and gives the same bits.

    Raises ImportError: without torch. ValueError: as `linear` does.
    """
    if getattr(x, "is_nested", False):
        torch, parts = torch_module(), x.unbind()
        y = apply(torch.cat(parts), w, bias, recipe, rng=rng, accumulation=accumulation)
        if x.layout is torch.jagged:
            return torch.nested.nested_tensor_from_jagged(y, x.offsets())
        return torch.nested.as_nested_tensor(list(y.split([len(part) for part in parts])))
    return differentiable(_linear)(x, w, bias, recipe, rng, accumulation)


def use_recipe(
    model: Any,
    recipe: LinearRecipe = "nvfp4",
    *,
    keep: str | Collection[str] = (),
    rng: int | np.random.Generator = 0,
    accumulation: str = "fp32_fma",
) -> list[str]:
    """Let all linear layers of a torch model compute by a recipe, in training and after.

    Parameters are the same objects as before, so optimizers, checkpoints and the rest of a program stay as
    they are. Called again it changes the recipe: "float32" gives back exact products in binary32. What
    delayed scaling and stochastic rounding remember is saved by `recipe_state`. In a model
    that `torch.compile` takes, these layers stand between graphs, with the same bits.

    Parameters
    ----------
    model : torch.nn.Module
        Its modules of class `torch.nn.Linear` are changed in place. `torch.nn.MultiheadAttention` has
        products that are no modules, its output's too: they stay as they are.
    recipe : str, Format, BlockFormat, mx.Roles, nvfp4.Recipe or fp8.Recipe
        With delayed scaling each layer remembers its own values.
    keep : str or collection of str
        Names of layers that are left as they are, in high precision: as of `named_modules`, or the names of
        modules that contain them.
    rng : int or Generator
        From which each call of each layer draws a key for its stochastic rounding.
    accumulation : str

    Returns
    -------
    changed : list of str
        The names of the layers that were changed.

    Raises
    ------
    ImportError
        Without torch.
    ValueError
        An unknown recipe, or a name to keep that no module has: then nothing is changed.
    """
    torch = torch_module()
    started(recipe)
    keep = (keep,) if isinstance(keep, str) else keep
    known = dict(model.named_modules())
    if missing := [name for name in keep if name not in known]:
        raise ValueError(
            f"keep={missing[0]!r} names no module of this model; it has "
            f"{', '.join(name for name in known if name)}"
        )
    # The output of torch's attention is a layer that is never called: its weights are used elsewhere.
    uncalled = torch.nn.modules.linear.NonDynamicallyQuantizableLinear
    keys = np.random.default_rng(rng) if not isinstance(rng, np.random.Generator) else rng
    changed = []
    for name, module in known.items():
        if not isinstance(module, torch.nn.Linear) or isinstance(module, uncalled):
            continue
        if any(name == kept or name.startswith(f"{kept}.") for kept in keep):
            continue
        if "forward" not in vars(module):
            module.register_forward_pre_hook(_nothing)
        begun = started(recipe)
        module.forward = functools.partial(outside_graphs(_forward), module, begun, keys, accumulation)
        changed.append(name)
    return changed


def recipe_state(model: Any) -> dict[str, Any]:
    """Return what the recipes of a model's layers remember, to be saved next to the model's state_dict.

        torch.save({"model": model.state_dict(), "recipe": layers.recipe_state(model)}, path)

    Parameters
    ----------
    model : torch.nn.Module
        Changed by `use_recipe`.

    Returns
    -------
    state : dict of str to dict
        By layer: the state of the generator that draws its keys, and of delayed scaling the scales and the
        largest magnitudes. Plain data, which ``torch.load(path)`` reads.
    """
    return {
        name: {
            "keys": keys.bit_generator.state,
            "scaling": recipe.state_dict() if isinstance(recipe, Scaling) else None,
        }
        for name, (recipe, keys) in _changed(model).items()
    }


def load_recipe_state(model: Any, state: Mapping[str, Any]) -> None:
    """Go on from a `recipe_state`: the next steps have the bits of a run that was not interrupted.

    Parameters
    ----------
    model : torch.nn.Module
        Changed by the same calls of `use_recipe` as the model that was saved.
    state : dict

    Raises ValueError: states of other layers, or of another kind of recipe. Then nothing has changed.
    """
    changed = _changed(model)
    if changed.keys() != state.keys():
        raise ValueError(
            f"the state is of layers {', '.join(state) or 'none'}, and layers by a recipe are here "
            f"{', '.join(changed) or 'none'}; call use_recipe as before the state was saved"
        )
    for name, (recipe, _) in changed.items():
        if isinstance(recipe, Scaling) != (state[name]["scaling"] is not None):
            kinds = ("with", "without") if state[name]["scaling"] else ("without", "with")
            raise ValueError(
                f"the state of layer {name!r} is of a recipe {kinds[0]} scales of tensors, and its recipe "
                f"here is one {kinds[1]} them; call use_recipe as before the state was saved"
            )
    for name, (recipe, keys) in changed.items():
        keys.bit_generator.state = state[name]["keys"]
        if isinstance(recipe, Scaling):
            recipe.load_state_dict(state[name]["scaling"])


MEMORIES.append((recipe_state, load_recipe_state))


def _changed(model: Any) -> dict[str, tuple[Any, np.random.Generator]]:
    """Return the recipe's object and the generator of keys of each layer that `use_recipe` has changed."""
    ours = outside_graphs(_forward)
    found = {name: vars(module).get("forward") for name, module in model.named_modules()}
    return {
        name: forward.args[1:3]
        for name, forward in found.items()
        if isinstance(forward, functools.partial) and forward.func is ours
    }


def _forward(module: Any, recipe: LinearRecipe, keys: Any, accumulation: str, x: Any) -> Any:
    return apply(x, module.weight, module.bias, recipe, rng=key_of(keys), accumulation=accumulation)


def __getattr__(name: str) -> Any:
    if name == "forward":  # of pickled models
        return outside_graphs(_forward)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _linear(x: Any, w: Any, bias: Any, recipe: LinearRecipe, rng: Any, accumulation: str) -> Any:
    """Apply `linear`, with a gradient of the bias only where there is one."""
    y, gradients = linear(x, w, bias, recipe, rng=rng, accumulation=accumulation)
    return y, lambda grad: gradients(grad)[: 2 if bias is None else 3]


def _nothing(module: Any, args: Any) -> None:
    """Do nothing, as a hook: a layer that has one is called in evaluation too, where torch might fuse it."""
