"""A linear layer for all recipes, on NumPy arrays and on torch tensors; models of torch turned to a recipe.

``linear(x, w, bias, recipe="nvfp4")`` is the same call for binary32, FP8, MX formats and NVFP4.
"""

from lowprec.methods.layers.optimizer import Optimizer
from lowprec.methods.layers.recipes import RECIPES, Gradients, Linear, linear
from lowprec.methods.layers.torch_layers import apply, load_recipe_state, recipe_state, use_recipe

__all__ = [
    "RECIPES",
    "Gradients",
    "Linear",
    "Optimizer",
    "apply",
    "linear",
    "load_recipe_state",
    "recipe_state",
    "use_recipe",
]
