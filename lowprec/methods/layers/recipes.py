"""The linear layer by the name of a recipe, as a function and as an object that remembers.

Floor 4. Source: [FP8], [MX], [NVFP4].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.checks import Array, is_tensor
from lowprec.arrays.doubles import reals
from lowprec.arrays.kinds import tensor_of
from lowprec.arrays.random import key_of
from lowprec.methods import fp8, mx, nvfp4
from lowprec.methods._layer import check_layer
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format

LinearRecipe = nvfp4.Recipe | fp8.Recipe | fp8.Scaling | mx.Roles | BlockFormat | Format | str

#: Values that a format must hold, about, for a layer as it is: weights are far below 1, inputs above.
_LEAST, _MOST = 2.0**-7, 2.0
#: From the gradient of the output to those of x, w and the bias, arrays or tensors as x was.
Gradients = Callable[[Any], tuple[Any, Any, Any]]

#: Names of recipes, beside those of all formats, and what they stand for.
RECIPES: Mapping[str, str] = MappingProxyType(
    {
        "float32": "binary32",
        "fp8": "E4M3 and E5M2, each tensor scaled by its largest value: lowprec.methods.fp8.Recipe()",
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
    recipe : str, Format, BlockFormat, mx.Roles, nvfp4.Recipe, fp8.Recipe or fp8.Scaling
        A key of `RECIPES`, or a format, for all operands of `lowprec.methods.mx.linear`; one of single values
        must have values below 1/128 and above 2, as nothing scales. Delayed scaling
        remembers: give ``fp8.Recipe(scaling="delayed").start()``, one for each layer, or use `Linear`.
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
        A tensor, of x's type and device, where x is one; float32 of integers and of floats of 8 bits. It has
        no history: see `apply`.
    gradients : callable
        From the gradient of y to those of x, w and the bias, tensors where x is one.

    Raises ValueError: an unknown recipe, delayed scaling that was not started, and what the recipe's own
    layer refuses.
    """
    if isinstance(recipe, fp8.Recipe) and recipe.scaling == "delayed":
        raise ValueError(
            "a recipe with scaling='delayed' remembers each layer's values: give recipe.start(), one "
            "for each layer, or use layers.Linear, which does that"
        )
    wanted = started(recipe)
    to = output or _format_of(x)
    check_layer(x, w, bias)
    given = {"x": x, "w": w, "bias": bias}
    arrays = [None if each is None else _array(each, name) for name, each in given.items()]
    layer = _layer(wanted, rng, accumulation, to)
    y, back = layer(*arrays)

    def gradients(grad: Any) -> tuple[Any, Any, Any]:
        made = back(_array(grad, "the gradient"))
        return _like(x, made[0]), _like(x, made[1]), _like(x, made[2])

    return _like(x, y), gradients


class Linear:
    """A linear layer on NumPy arrays: weight and bias, a recipe, and what it remembers from step to step.

    >>> import numpy as np
    >>> layer = Linear(np.ones((16, 16), np.float32), recipe="nvfp4")
    >>> y, gradients = layer(np.full((2, 16), 1.1, np.float32))
    >>> y.shape, gradients(np.ones((2, 16)))[1].shape
    ((2, 16), (16, 16))

    Parameters
    ----------
    weight : array_like, shape (out, in)
    bias : array_like, shape (out,), optional
    recipe : str, Format, BlockFormat, mx.Roles, nvfp4.Recipe, fp8.Recipe or fp8.Scaling
        As for `linear`; may be changed at any time.
    rng : int or Generator
        From which each call draws the key of its random words.
    accumulation : str
        As for `linear`.

    Attributes
    ----------
    weight, bias : array of float32
        Copies: the master weights, which an optimizer changes in place. bias may be None.

    Raises ValueError: an unknown recipe.
    """

    def __init__(
        self,
        weight: npt.ArrayLike,
        bias: npt.ArrayLike | None = None,
        recipe: LinearRecipe = "float32",
        *,
        rng: int | np.random.Generator = 0,
        accumulation: str = "fp32_fma",
    ) -> None:
        self.weight = np.array(reals(weight, "weight"), np.float32)
        self.bias = None if bias is None else np.array(reals(bias, "bias"), np.float32)
        self.recipe = recipe
        self._keys = rng if isinstance(rng, np.random.Generator) else np.random.default_rng(rng)
        self._accumulation = accumulation

    @property
    def recipe(self) -> Any:
        """The recipe, begun."""
        return self._recipe

    @recipe.setter
    def recipe(self, recipe: LinearRecipe) -> None:
        self._recipe = started(recipe)

    @property
    def parameters(self) -> list[Array]:
        """The weight, and the bias where there is one."""
        return [self.weight] if self.bias is None else [self.weight, self.bias]

    def __call__(self, x: Any) -> tuple[Any, Gradients]:
        """Apply the layer, as `linear` does: y, and a function to the gradients of x, weight and bias."""
        return linear(
            x, self.weight, self.bias, self._recipe, rng=key_of(self._keys), accumulation=self._accumulation
        )


def started(recipe: LinearRecipe) -> fp8.Scaling | nvfp4.Recipe | mx.Roles:
    """Return what one layer computes by: a recipe's object, with a memory of its own where it needs one.

    Raises ValueError: a name that is neither a recipe's nor a format's, or a format that needs scales.
    """
    if isinstance(recipe, str) and recipe in ("fp8", "nvfp4"):
        recipe = fp8.Recipe() if recipe == "fp8" else nvfp4.Recipe()
    if isinstance(recipe, fp8.Recipe):
        return recipe.start()
    if isinstance(recipe, (nvfp4.Recipe, mx.Roles, fp8.Scaling)):
        return recipe
    name = RECIPES.get(recipe, recipe) if isinstance(recipe, str) else recipe
    try:
        roles = mx.Roles(x=name)
    except ValueError as error:
        raise ValueError(
            f"recipe={recipe!r} is unknown: use one of {', '.join(RECIPES)}, or a format ({error})"
        ) from None
    if isinstance(roles.x, Format):
        _check_range(roles.x)
    return roles


def _check_range(fmt: Format) -> None:
    """Refuse a format that holds no layer's weights or inputs as they are, as no recipe scales them."""
    positive = (value for value in fmt.values if value > 0) if isinstance(fmt, Codebook) else ()
    least = min(positive, default=fmt.min_subnormal or fmt.min_normal or 1.0)
    if fmt.min_finite < 0 and least <= _LEAST and fmt.max_finite >= _MOST:
        return
    raise ValueError(
        f"recipe={fmt.name!r}: nothing scales the values of a layer before they are rounded, and this format "
        f"has no value between 0 and {least:g}, none above {fmt.max_finite:g}, and none below "
        f"{fmt.min_finite:g}; use a block format such as 'mxint8', 'mxfp4' or 'nvfp4', or 'fp8', which "
        f"scales tensors. For values that are scaled already give lowprec.methods.mx.Roles(x={fmt.name!r})"
    )


def _layer(wanted: Any, rng: Any, accumulation: str, output: str) -> Callable[..., Any]:
    options: Any = {"accumulation": accumulation, "output": output}
    if isinstance(wanted, nvfp4.Recipe):
        return lambda x, w, bias: nvfp4.linear(x, w, bias, wanted, rng=rng, **options)
    if isinstance(wanted, mx.Roles):
        return lambda x, w, bias: mx.linear(x, w, bias, wanted, **options)
    return lambda x, w, bias: fp8.linear(x, w, bias, scaling=wanted, **options)


def _array(values: Any, name: str) -> Array:
    """Return values as an array; floats of fewer bits become float32, exactly."""
    array = reals(values, name)
    return array.astype(np.float32) if array.dtype.kind in "fV" and array.dtype.itemsize < 4 else array


def _like(given: Any, made: Array) -> Any:
    """Return a tensor, where one was given: on its device, of its type if that holds results."""
    if not is_tensor(given):
        return made
    found = tensor_of(np.ascontiguousarray(made, np.float32), given.device)
    return found.to(given.dtype) if given.is_floating_point() and given.itemsize > 1 else found


def _format_of(x: Any) -> str:
    """Return the format of a tensor of 16 bits, and "binary32" for all else."""
    name = str(x.dtype).removeprefix("torch.") if is_tensor(x) else ""
    return catalog.format(name).name if name in ("bfloat16", "float16") else "binary32"
