"""The linear layer by the name of a recipe.

Floor 4. Source: [FP8], [MX], [NVFP4].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.checks import as_array, is_tensor
from lowprec.methods import fp8, mx, nvfp4
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat
from lowprec.spec.format import Format

__all__ = ["RECIPES", "Gradients", "LinearRecipe", "check_recipe", "linear"]

Array = npt.NDArray[Any]
LinearRecipe = nvfp4.Recipe | mx.Roles | BlockFormat | Format | str

#: From the gradient of the output to those of x, w and the bias, arrays or tensors as x was.
Gradients = Callable[[Any], tuple[Any, Any, Any]]

#: Names of recipes, beside those of all formats, and what they stand for.
RECIPES: Mapping[str, str] = MappingProxyType(
    {
        "float32": "binary32",
        "fp8": "E4M3 and E5M2 with a scale of each tensor: lowprec.methods.fp8.linear",
        "mxfp8": "mxfp8_e4m3",
        "mxfp6": "mxfp6_e2m3",
        "mxfp4": "mxfp4",
        "nvfp4": "all ingredients of lowprec.methods.nvfp4.Recipe",
    }
)


def linear(
    x: Any,
    w: Any,
    bias: Any = None,
    recipe: LinearRecipe = "float32",
    *,
    rng: int | np.random.Generator | None = None,
    accumulation: str = "fp32_fma",
    output: str | None = None,
) -> tuple[Any, Gradients]:
    """Apply a linear layer x @ w.T + bias by a recipe, which names the formats of all three products.

    >>> import numpy as np
    >>> x, w = np.full((2, 16), 1.1, np.float32), np.ones((16, 16), np.float32)
    >>> for recipe in ("float32", "fp8", "mxfp8", "mxfp4", "nvfp4"):
    ...     y, gradients = linear(x, w, recipe=recipe, rng=0)
    ...     print(recipe, round(float(y[0, 0]), 4), gradients(np.ones((2, 16)))[0].shape)
    float32 17.6 (2, 16)
    fp8 17.6 (2, 16)
    mxfp8 18.0 (2, 16)
    mxfp4 16.0 (2, 16)
    nvfp4 17.6 (2, 16)

    Parameters
    ----------
    x : array_like or torch.Tensor, shape (..., in)
    w : array_like or torch.Tensor, shape (out, in)
    bias : array_like or torch.Tensor, shape (out,), optional
    recipe : str, Format, BlockFormat, mx.Roles or nvfp4.Recipe
        A key of `RECIPES`, or any format, for all operands of `lowprec.methods.mx.linear`.
    rng : int or Generator
        As for `lowprec.methods.nvfp4.linear`; other recipes draw nothing.
    accumulation : str
        Of all three products.
    output : str, optional
        Of y and the gradients: by default the format of x where that is a bfloat16 or float16 tensor,
        else "binary32".

    Returns
    -------
    y : array or torch.Tensor, shape (..., out)
        A tensor, of x's type and device, where x is one. It has no history: see `apply`.
    gradients : callable
        From the gradient of y to those of x, w and the bias, tensors where x is one.

    Raises ValueError: an unknown recipe, and what the recipe's own layer refuses.
    """
    wanted = check_recipe(recipe)
    to = output or _format_of(x)
    arrays = [_array(each) for each in (x, w)] + [None if bias is None else _array(bias)]
    layer = _layer(wanted, rng, accumulation, to)
    y, back = layer(*arrays)

    def gradients(grad: Any) -> tuple[Any, Any, Any]:
        made = back(_array(grad))
        return _like(x, made[0]), _like(x, made[1]), _like(x, made[2])

    return _like(x, y), gradients


def check_recipe(recipe: LinearRecipe) -> Any:
    """Return what a recipe stands for: "fp8", an `nvfp4.Recipe`, or `mx.Roles`.

    Raises ValueError: a name that is neither a recipe's nor a format's.
    """
    if isinstance(recipe, (nvfp4.Recipe, mx.Roles)) or (isinstance(recipe, str) and recipe == "fp8"):
        return recipe
    if isinstance(recipe, str) and recipe == "nvfp4":
        return nvfp4.Recipe()
    name = RECIPES.get(recipe, recipe) if isinstance(recipe, str) else recipe
    try:
        return mx.Roles(x=name)
    except ValueError as error:
        raise ValueError(
            f"recipe={recipe!r} is unknown: use one of {', '.join(RECIPES)}, or a format ({error})"
        ) from None


def _layer(wanted: Any, rng: Any, accumulation: str, output: str) -> Callable[..., Any]:
    options: Any = {"accumulation": accumulation, "output": output}
    if isinstance(wanted, nvfp4.Recipe):
        return lambda x, w, bias: nvfp4.linear(x, w, bias, wanted, rng=rng, **options)
    if isinstance(wanted, mx.Roles):
        return lambda x, w, bias: mx.linear(x, w, bias, wanted, **options)
    return lambda x, w, bias: fp8.linear(x, w, bias, **options)


def _array(values: Any) -> Array:
    """Return values as an array; floats of fewer bits become float32, exactly."""
    array = as_array(values)
    return array.astype(np.float32) if array.dtype.kind in "fV" and array.dtype.itemsize < 4 else array


def _like(given: Any, made: Array) -> Any:
    """Return a tensor of the type and on the device of what was given, where that is one."""
    if not is_tensor(given):
        return made
    import torch

    return torch.from_numpy(np.ascontiguousarray(made)).to(device=given.device, dtype=given.dtype)


def _format_of(x: Any) -> str:
    """Return the format of a tensor of 16 bits, and "binary32" for all else."""
    name = str(x.dtype).removeprefix("torch.") if is_tensor(x) else ""
    return catalog.format(name).name if name in ("bfloat16", "float16") else "binary32"
