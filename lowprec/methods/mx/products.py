"""Products of matrices in blocks, and the linear layer with its gradients.

Every product has its operands in blocks along K, the axis that it sums over. So a matrix and its
transpose are two different arrays in blocks: a weight is encoded along its in-features for the product
forward, and along its out-features for the gradient of the input.

Floor 4. Source: [MX] compute flow, figure 2; [OCPMX] 6.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays import convert
from lowprec.arrays.blocks.block import BlockArray
from lowprec.arrays.checks import Array, as_array
from lowprec.methods._layer import check_layer, check_names, in_rows, linear_layer, multiplied, shape_of
from lowprec.spec import catalog
from lowprec.spec.accumulation import Accumulation
from lowprec.spec.block import BlockFormat
from lowprec.spec.format import Format
from lowprec.spec.profiles import Profile
from lowprec.spec.projection import Projection
from lowprec.spec.rounded import Rounded

Like = BlockFormat | Format | str
Output = Format | str | Rounded


def matmul(
    x: npt.ArrayLike | BlockArray,
    y: npt.ArrayLike | BlockArray,
    x_format: Like = "mxfp8_e4m3",
    y_format: Like | None = None,
    *,
    accumulation: Accumulation | str = "fp32_fma",
    output: Output = "binary32",
    profile: Profile | str | None = None,
) -> Array:
    """Multiply two matrices, both encoded in blocks along K.

    >>> import numpy as np
    >>> x, y = np.full((2, 64), 1.1, np.float32), np.eye(64, 3, dtype=np.float32)
    >>> matmul(x, y, "mxfp6_e3m2", "mxfp4")
    array([[1., 1., 1.],
           [1., 1., 1.]], dtype=float32)
    >>> matmul(x, y, "mxfp4", accumulation="blackwell_tcgen05_e2m1fn_binary32_e8m0fnu_2")[0]
    array([1., 1., 1.], dtype=float32)

    Parameters
    ----------
    x : array_like or BlockArray, shape (..., M, K)
    y : array_like or BlockArray, shape (..., K, N)
        What is in blocks already is taken as it is; its blocks must lie along K.
    x_format, y_format : BlockFormat, Format or str
        Block formats, which may differ; y's is x's by default. A format of single values, such as
        "bfloat16", rounds each value alone.
    accumulation : Accumulation or str
        The exact sum of a block's products times both scales is a term, unless the accumulation is
        hardware that takes scales; see `lowprec.matmul`.
    output : Format, str or (Format, Projection)
        What the sum is rounded to at last, to nearest even by default: "binary32" or "bfloat16".
    profile : str or Profile, optional
        What block formats are in a named stack, such as "microxcaling", which rounds ties away. It does
        not say what the output is.

    Returns
    -------
    values : array of float, shape (..., M, N)

    Raises ValueError: what `lowprec.encode` and `lowprec.matmul` refuse.

    Source: [OCPMX] 6.1, 6.2; [MX] compute flow.
    """
    check_names(x, y)
    for name, operand in (("x", x), ("y", y)):
        shape = shape_of(operand)
        if len(shape) < 2:
            raise ValueError(f"matmul takes matrices, and {name} has shape {shape}; use reshape")
    left = _along(x, x_format, -1, profile)
    right = _along(y, x_format if y_format is None else y_format, -2, profile)
    return multiplied(left, right, accumulation, *_rounded(output))


@dataclass(frozen=True, kw_only=True)
class Roles:
    """The formats of all operands of a linear layer's three products.

    >>> roles = Roles(x="mxfp6_e3m2", w="mxfp4")
    >>> str(roles.grad_for_x), str(roles.w_for_grad)
    ('mxfp6_e3m2', 'mxfp4')

    Parameters
    ----------
    x, w : BlockFormat, Format or str
        Of the input and the weight in the product forward. w is as x by default.
    x_for_grad : BlockFormat, Format or str, optional
        Of the input in the gradient of the weight; as x by default.
    w_for_grad : BlockFormat, Format or str, optional
        Of the weight in the gradient of the input; as w by default.
    grad_for_x, grad_for_w : BlockFormat, Format or str, optional
        Of the output's gradient in those of the input and the weight; as x by default, and as the other.

    Raises ValueError: a name that stands for no format.
    """

    x: Like = "mxfp8_e4m3"
    w: Like | None = None
    x_for_grad: Like | None = None
    w_for_grad: Like | None = None
    grad_for_x: Like | None = None
    grad_for_w: Like | None = None

    def __post_init__(self) -> None:
        followed = {"x": "x", "w": "x", "x_for_grad": "x", "w_for_grad": "w", "grad_for_x": "x"}
        for name, other in (followed | {"grad_for_w": "grad_for_x"}).items():
            asked = getattr(self, name)
            found = getattr(self, other) if asked is None else asked
            found = catalog.block_format(found) if catalog.is_block(found) else catalog.format(found)
            object.__setattr__(self, name, found)


#: From the gradient of the output to those of x, w and the bias.
Gradients = Callable[[npt.ArrayLike], tuple[Array, Array, Array]]


def linear(
    x: npt.ArrayLike,
    w: npt.ArrayLike,
    bias: npt.ArrayLike | None = None,
    roles: Roles | Like = "mxfp8_e4m3",
    *,
    accumulation: Accumulation | str = "fp32_fma",
    backward_accumulation: Accumulation | str | None = None,
    output: Output = "binary32",
    profile: Profile | str | None = None,
) -> tuple[Array, Gradients]:
    """Apply a linear layer x @ w.T + bias whose three products, forward and backward, are of blocks.

    >>> import numpy as np
    >>> x, w = np.ones((2, 4), np.float32), np.full((3, 4), 0.5, np.float32)
    >>> y, gradients = linear(x, w, [1.0, 0.0, -1.0], "mxfp4", output="bfloat16")
    >>> y[0]
    array([3., 2., 1.], dtype=float32)
    >>> grad_x, grad_w, grad_bias = gradients(np.float32([[1, 0, 0], [0, 2, 0]]))
    >>> grad_x[:, 0], grad_w[:, 0], grad_bias
    (array([0.5, 1. ], dtype=float32), array([1., 2., 0.], dtype=float32), array([1., 2., 0.], dtype=float32))

    Parameters
    ----------
    x : array_like, shape (..., in)
    w : array_like, shape (out, in)
        Values, the master weights: they are encoded twice, along different axes.
    bias : array_like, shape (out,), optional
        Added in the output's format, with a rounding of its own.
    roles : Roles, or a format for all of them
    accumulation, backward_accumulation : Accumulation or str
        Of the product forward, and of those of the gradients; by default the same.
    output : Format, str or (Format, Projection)
        Of y and of the gradients.
    profile : str or Profile, optional
        As for `matmul`.

    Returns
    -------
    y : array of float, shape (..., out)
    gradients : callable
        From the gradient of y, shape (..., out), to those of x, w and the bias. They are those of the
        layer without its roundings. The bias's is the sum of the gradient, exact and rounded once.

    Raises ValueError: as for `matmul`.

    Notes
    -----
    ==========  ================  =====================  ============
    product     operands          blocks lie along       axis of each
    ==========  ================  =====================  ============
    y           x and w.T         in-features            1 and 1
    grad_w      grad.T and x      the batch              0 and 0
    grad_x      grad and w        out-features           1 and 0
    ==========  ================  =====================  ============

    Axes in front of the last of x are one batch. Tensors are taken as arrays, without their history, which
    `lowprec.methods.layers.apply` keeps.

    Source: [MX] compute flow, figure 2.
    """
    known: Any = roles if isinstance(roles, Roles) else Roles(x=roles)
    check_layer(x, w, bias)
    values, weights = as_array(x), as_array(w)
    rows = in_rows(values)
    options: Any = {"output": output, "profile": profile}
    y = matmul(rows, weights.T, known.x, known.w, accumulation=accumulation, **options)
    options["accumulation"] = accumulation if backward_accumulation is None else backward_accumulation

    def backward(grad: npt.ArrayLike) -> tuple[Array, Array, Array]:
        across = in_rows(as_array(grad))
        at_x = matmul(across, weights, known.grad_for_x, known.w_for_grad, **options)
        return at_x, matmul(across.T, rows, known.grad_for_w, known.x_for_grad, **options), across

    return linear_layer(values.shape, y, bias, backward, *_rounded(output))


def _along(
    values: npt.ArrayLike | BlockArray, fmt: Like, axis: int, profile: Profile | str | None
) -> Array | BlockArray:
    """Encode values in blocks along an axis, or round them one by one."""
    if isinstance(values, BlockArray):
        return values
    if catalog.is_block(fmt):
        return convert.encode(values, catalog.block_format(fmt), axis=axis, profile=profile)
    return np.asarray(convert.quantize(values, fmt))


def _rounded(output: Output) -> tuple[Format, Projection | None]:
    """Return the format of an output, and the projection where it has one."""
    fmt, projection = output if isinstance(output, tuple) else (output, None)
    return catalog.format(fmt), projection
