"""The linear layer of the NVFP4 recipe, with its gradients; each ingredient can be left out.

Floor 4. Source: [NVFP4] 4 and appendix; [TRANSFORMER_ENGINE] for which operand has which.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from lowprec.arrays import convert
from lowprec.arrays.blocks.block import BlockArray
from lowprec.arrays.checks import Array, as_array
from lowprec.arrays.random import key_of, random_bits
from lowprec.methods._layer import check_layer, in_rows, linear_layer, multiplied
from lowprec.methods.nvfp4.choice import Choice, encode
from lowprec.methods.nvfp4.hadamard import SIZES, hadamard, signs
from lowprec.spec import catalog
from lowprec.spec.accumulation import Accumulation
from lowprec.spec.accumulations import accumulation as accumulation_of
from lowprec.spec.format import Format
from lowprec.spec.rounding import stochastic

#: Streams of one key: random words of the gradient in the product for x, and in that for w.
_FOR_X, _FOR_W = 0, 2


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The ingredients of NVFP4 training.

    >>> Recipe().without("hadamard")
    Recipe(tiles=True, hadamard=0, stochastic=True, choice='six', sign_key=0, bits=32)

    Parameters
    ----------
    tiles : bool
        Weights in tiles of 16 x 16, the same codes in the product forward and in the gradient of x; or in
        blocks of 16 along the axis of each product.
    hadamard : {16, 4, 64, 0}
        The size of the random Hadamard transform of both operands of the gradient of w; 0: none.
    stochastic : bool
        The gradient of the output is rounded stochastically; or to nearest even, as all else is.
    choice : {"six", "mse", "mae", "max"}
        How scales of x and w are chosen: see `encode`. Those of gradients have amax at 6.
    sign_key : int
        The key of the transform's signs, one vector for all layers and steps.
    bits : int
        Random bits of a stochastic rounding, 1 to 32.

    Raises ValueError: an ingredient that there is not.

    Source: [NVFP4] 4; [FOUROVERSIX] for `choice`.
    """

    tiles: bool = True
    hadamard: int = 16
    stochastic: bool = True
    choice: Choice = "six"
    sign_key: int = 0
    bits: int = 32

    def __post_init__(self) -> None:
        if self.hadamard not in (0, *SIZES):
            raise ValueError(f"hadamard={self.hadamard!r} of a recipe must be 0, for none, or one of {SIZES}")
        if self.choice not in get_args(Choice):
            raise ValueError(
                f"choice={self.choice!r} of a recipe is unknown; use one of {', '.join(get_args(Choice))}"
            )
        stochastic(self.bits)  # refuses other numbers
        key_of(self.sign_key)

    def without(self, ingredient: str) -> Recipe:
        """Return the recipe without "tiles", "hadamard" or "stochastic".

        Raises ValueError: another name.
        """
        if ingredient not in ("tiles", "hadamard", "stochastic"):
            raise ValueError(
                f"ingredient={ingredient!r} cannot be left out; use 'tiles', 'hadamard' or 'stochastic'"
            )
        none: Any = 0 if ingredient == "hadamard" else False
        return dataclasses.replace(self, **{ingredient: none})


#: From the gradient of the output to those of x, w and the bias.
Gradients = Callable[[npt.ArrayLike], tuple[Array, Array, Array]]


def linear(
    x: npt.ArrayLike,
    w: npt.ArrayLike,
    bias: npt.ArrayLike | None = None,
    recipe: Recipe | None = None,
    *,
    rng: int | np.random.Generator | None = None,
    accumulation: Accumulation | str = "fp32_fma",
    output: Format | str | npt.DTypeLike = "binary32",
) -> tuple[Array, Gradients]:
    """Apply a linear layer x @ w.T + bias whose three products are of NVFP4 operands.

    >>> import numpy as np
    >>> x, w = np.ones((16, 32), np.float32), np.full((16, 32), 0.5, np.float32)
    >>> y, gradients = linear(x, w, rng=7)
    >>> grad_x, grad_w, grad_bias = gradients(np.ones((16, 16), np.float32))
    >>> y[0, 0], grad_x[0, 0], grad_bias[0]
    (np.float32(16.0), np.float32(8.0), np.float32(16.0))
    >>> grad_w[0, 0]                                           # 16, of which 4-bit operands make
    np.float32(17.1875)

    Parameters
    ----------
    x : array_like, shape (..., in)
    w : array_like, shape (out, in)
        Values, the master weights.
    bias : array_like, shape (out,), optional
        Added in the output's format, with a rounding of its own.
    recipe : Recipe, optional
        All ingredients by default.
    rng : int or Generator
        The key of the gradient's random words, for one step of one layer: give each its own, such as a
        Generator's next. Needed where the recipe is stochastic. In the gradient of x they are
        ``random_bits(shape, key, bits)``, in that of w the same with ``stream=2``, both of the gradient's
        shape as it is encoded.
    accumulation : Accumulation or str
        Of all three products. The exact sum of a block's products times both scales is a term; see
        `lowprec.matmul`.
    output : Format, str or dtype
        Of y, the gradients and the transformed operands.

    Returns
    -------
    y : array of float, shape (..., out)
    gradients : callable
        From the gradient of y, shape (..., out), to those of x, w and the bias: those of the layer without
        its roundings. Called again it gives the same. The bias's is the sum of the gradient, exact and
        rounded once.

    Raises ValueError: a stochastic recipe without `rng`, and what `lowprec.encode` and `lowprec.matmul`
    refuse.

    Notes
    -----
    ==========  =====================  =======================================================
    product     blocks lie along       operands
    ==========  =====================  =======================================================
    y           in-features            x in blocks of 16, w in tiles
    grad_x      out-features           grad in blocks of 16, stochastic; w in the same tiles
    grad_w      the batch              H S grad in blocks of 16, stochastic; H S x
    ==========  =====================  =======================================================

    Source: [NVFP4] 4; [TRANSFORMER_ENGINE].
    """
    how = Recipe() if recipe is None else recipe
    if how.stochastic and rng is None:
        raise ValueError(
            "the gradients of this recipe are rounded stochastically and need rng=: an int for one step of "
            "one layer, or a Generator; recipe.without('stochastic') needs none"
        )
    key = key_of(rng) if how.stochastic else 0
    check_layer(x, w, bias)
    values, weights = as_array(x), as_array(w)
    rows = in_rows(values)
    how_summed, to = accumulation_of(accumulation), catalog.format(output)
    tiles = encode(weights, how.choice, tiles=True) if how.tiles else None
    forward = encode(weights, how.choice, axis=1) if tiles is None else tiles
    y = multiplied(encode(rows, how.choice, axis=1), _transposed(forward), how_summed, to)

    def mixed(operand: Array) -> Array:
        if not how.hadamard:
            return operand
        flips = signs(how.hadamard, how.sign_key)
        return hadamard(operand, how.hadamard, axis=0, signs=flips, output=output)

    def rounded(operand: Array, axis: int, stream: int) -> BlockArray:
        if not how.stochastic:
            return encode(operand, "six", axis=axis)
        words = random_bits(operand.shape, key, how.bits, stream=stream)
        blocks: BlockArray = convert.encode(
            operand, "nvfp4", axis=axis, rounding=stochastic(how.bits), random=words
        )
        return blocks

    def backward(grad: npt.ArrayLike) -> tuple[Array, Array, Array]:
        across = in_rows(as_array(grad))
        kept = encode(weights, how.choice, axis=0) if tiles is None else tiles
        at_x = multiplied(rounded(across, 1, _FOR_X), kept, how_summed, to)
        turned = rounded(mixed(across), 0, _FOR_W)
        at_w = multiplied(_transposed(turned), encode(mixed(rows), how.choice, axis=0), how_summed, to)
        return at_x, at_w, across

    return linear_layer(values.shape, y, bias, backward, to)


def _transposed(blocks: BlockArray) -> BlockArray:
    """Return the transpose of a matrix in blocks, with the same codes and scales."""
    axes = tuple(sorted(1 - axis for axis in blocks.axes))
    return BlockArray(blocks.codes.T, blocks.scales.T, blocks.format, axes, blocks.tensor_scale)
