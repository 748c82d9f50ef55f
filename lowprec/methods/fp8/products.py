"""Products of scaled codes, and the linear layer with its gradients.

Floor 4. Source: [FP8].
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from lowprec.arrays import arith, convert
from lowprec.arrays.checks import Array, as_array
from lowprec.arrays.dots import dot
from lowprec.methods._layer import check_layer, check_names, in_rows, linear_layer
from lowprec.methods.fp8.codes import ScaledCodes, decode, encode
from lowprec.methods.fp8.scaling import Recipe, Role, Scaling
from lowprec.spec import catalog
from lowprec.spec.accumulation import Accumulation
from lowprec.spec.format import Format

Like = Format | str | npt.DTypeLike


def matmul(
    x: npt.ArrayLike | ScaledCodes,
    y: npt.ArrayLike | ScaledCodes,
    *,
    accumulation: Accumulation | str = "fp32_fma",
    output: Like = "binary32",
) -> Array:
    """Multiply matrices of codes, summing as an accumulation says, and multiply the sums by the scales once.

    >>> import numpy as np
    >>> x, y = encode([[1.0, 7.0]]), encode([[3.0], [3.5]])
    >>> x.scale, y.scale
    (array(0.015625, dtype=float32), array(0.0078125, dtype=float32))
    >>> matmul(x, y)
    array([[27.5]], dtype=float32)
    >>> matmul(x, y, accumulation="hopper_wgmma_e4m3fn_binary32", output="bfloat16")
    array([[27.5]], dtype=float32)

    Parameters
    ----------
    x : array_like or ScaledCodes, shape (..., M, K)
        Arrays are encoded as `encode` does it by default.
    y : array_like or ScaledCodes, shape (..., K, N)
    accumulation : Accumulation or str
        How products of codes' own values are summed; see `lowprec.matmul`.
    output : Format, str or dtype
        What the sum times both scales is rounded to, nearest even; the scales' product is exact.

    Returns
    -------
    values : array of float, shape (..., M, N)

    Raises ValueError: scales that differ along K, and what `lowprec.matmul` refuses.

    Source: [FP8] 2: wider sums, unscaled once for each dot product.
    """
    check_names(x, y)
    left, right = (each if isinstance(each, ScaledCodes) else encode(each) for each in (x, y))
    for name, side, along in (("x", left, -1), ("y", right, -2)):
        if side.codes.ndim < 2:
            raise ValueError(f"matmul takes matrices, and {name} has shape {side.shape}; use reshape")
        if side.scale.ndim >= -along and side.scale.shape[along] > 1:
            raise ValueError(
                f"{name} of shape {side.shape} has {side.scale.shape[along]} scales along K, and scales "
                f"leave a sum only if all its terms share them: encode {name} with "
                f"axis={side.codes.ndim - 3 - along} or None"
            )
    sums = dot.matmul(
        convert.decode(left.codes, left.format), convert.decode(right.codes, right.format), accumulation
    )
    scale = left.scale.astype(np.float64) * right.scale
    return np.asarray(arith.multiply(sums, scale, output))


#: From the gradient of the output, encoded or not, to those of x, w and the bias.
Gradients = Callable[[npt.ArrayLike | ScaledCodes], tuple[Array, Array, Array]]


def linear(
    x: npt.ArrayLike | ScaledCodes,
    w: npt.ArrayLike | ScaledCodes,
    bias: npt.ArrayLike | None = None,
    *,
    scaling: Scaling | None = None,
    accumulation: Accumulation | str = "fp32_fma",
    backward_accumulation: Accumulation | str | None = None,
    output: Like = "binary32",
) -> tuple[Array, Gradients]:
    """Apply a linear layer x @ w.T + bias in FP8: E4M3 forward, E5M2 for the gradient of its output.

    >>> y, gradients = linear([[1.0, 7.0]], [[3.0, 3.5], [0.5, 1.0]], bias=[1.0, 2.0])
    >>> y
    array([[28.5,  9.5]], dtype=float32)
    >>> grad_x, grad_w, grad_bias = gradients([[1.0, 7.0]])
    >>> grad_x
    array([[ 6.5, 10.5]], dtype=float32)

    Parameters
    ----------
    x : array_like or ScaledCodes, shape (..., in)
    w : array_like or ScaledCodes, shape (out, in)
        Arrays are encoded with one scale, as `scaling` says. For other scales give what `encode` returns. A
        weight with a scale for each output feature has no gradient of x: that sums over them.
    bias : array_like, shape (out,), optional
        Added in the output's format, with a rounding of its own.
    scaling : Scaling, optional
        Of this layer, from step to step: ``Recipe(...).start()``. By default that of ``Recipe()``.
    accumulation, backward_accumulation : Accumulation or str
        Of the product forward, and of both of the gradients, whose operands are the formats of the gradient
        and of w or x; by default the same.
    output : Format, str or dtype
        Of y and of the gradients.

    Returns
    -------
    y : array of float, shape (..., out)
    gradients : callable
        From the gradient of y, an array, which is encoded in E5M2, or ScaledCodes, to those of x, w and the
        bias. The last is the sum of the gradient as it was given, exact and rounded once. Delayed scaling
        remembers each array that is encoded: call it once a step.

    Raises ValueError: as for `matmul`.

    Source: [FP8] 2 and 3.
    """
    how = Recipe().start() if scaling is None else scaling
    check_layer(x, w, bias)
    left, weights = coded(x, "x", how), coded(w, "w", how)
    rows = _matrix(left)
    backward = accumulation if backward_accumulation is None else backward_accumulation
    y = matmul(rows, weights.T, accumulation=accumulation, output=output)

    def gradients_of(grad: npt.ArrayLike | ScaledCodes) -> tuple[Array, Array, Array]:
        across = _matrix(coded(grad, "grad", how))
        at_x = matmul(across, weights, accumulation=backward, output=output)
        at_w = matmul(across.T, rows, accumulation=backward, output=output)
        given = decode(across, np.float64) if isinstance(grad, ScaledCodes) else as_array(grad)
        return at_x, at_w, given.reshape(across.shape)

    return linear_layer(left.shape, y, bias, gradients_of, catalog.format(output))


def coded(values: npt.ArrayLike | ScaledCodes, role: Role, scaling: Scaling) -> ScaledCodes:
    """Encode an operand of a layer that is not encoded yet."""
    return values if isinstance(values, ScaledCodes) else scaling.encode(role, values)


def _matrix(codes: ScaledCodes) -> ScaledCodes:
    """Join all axes but the last."""
    if codes.codes.ndim == 2:
        return codes
    scale = codes.scale.reshape(()) if codes.scale.size == 1 else codes.scale
    if scale.ndim:
        scale = in_rows(np.broadcast_to(scale, (*codes.shape[:-1], scale.shape[-1])))
    return ScaledCodes(in_rows(codes.codes), scale, codes.format)
