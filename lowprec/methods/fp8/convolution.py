"""The convolutional layer, whose products are those of matrices of windows.

Floor 4. Source: [FP8] 3.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays import arith, convert
from lowprec.arrays.checks import Array, as_array
from lowprec.methods._layer import check_shape, column_sums, in_rows
from lowprec.methods.fp8.codes import ScaledCodes, decode
from lowprec.methods.fp8.products import Gradients, Like, coded, matmul
from lowprec.methods.fp8.scaling import Recipe, Scaling
from lowprec.spec import catalog
from lowprec.spec.accumulation import Accumulation
from lowprec.spec.projection import Projection


def conv2d(
    x: npt.ArrayLike | ScaledCodes,
    w: npt.ArrayLike | ScaledCodes,
    bias: npt.ArrayLike | None = None,
    *,
    stride: int | tuple[int, int] = 1,
    padding: int | tuple[int, int] = 0,
    scaling: Scaling | None = None,
    accumulation: Accumulation | str = "fp32_fma",
    backward_accumulation: Accumulation | str | None = None,
    output: Like = "binary32",
) -> tuple[Array, Gradients]:
    """Apply a convolutional layer in FP8; each number of y and of the gradients is one sum of products.

    >>> import numpy as np
    >>> from lowprec.methods.fp8 import encode
    >>> x = encode(np.arange(16.0).reshape(1, 1, 4, 4), scale=1.0)
    >>> w = encode(np.ones((1, 1, 3, 3)), scale=1.0)
    >>> y, gradients = conv2d(x, w, [1.0], stride=2, padding=1)
    >>> y[0, 0]
    array([[11., 25.],
           [52., 91.]], dtype=float32)
    >>> grad_x, grad_w, grad_bias = gradients(encode(np.ones((1, 1, 2, 2)), "e5m2", scale=1.0))
    >>> grad_x[0, 0]
    array([[1., 2., 1., 1.],
           [2., 4., 2., 2.],
           [1., 2., 1., 1.],
           [1., 2., 1., 1.]], dtype=float32)

    Parameters
    ----------
    x : array_like or ScaledCodes, shape (batch, in, height, width)
        With one scale.
    w : array_like or ScaledCodes, shape (out, in, rows, columns)
        As for `linear`.
    bias : array_like, shape (out,), optional
    stride, padding : int or pair of int
        Of both axes, or of each, as `torch.nn.Conv2d` has them; zeros are added on both sides.
    scaling, accumulation, backward_accumulation, output
        As for `linear`. Terms are in the order of w's last three axes; in the gradient of x in that of out,
        rows and columns; in that of w in the order of batch, and of y's rows and columns.

    Returns
    -------
    y : array of float, shape (batch, out, (height + 2 * padding - rows) // stride + 1, ...)
    gradients : callable
        As for `linear`: from the gradient of y, an array or ScaledCodes, to those of x, w and the bias.

    Raises ValueError: shapes that do not belong together, a stride below 1, a padding below 0, a window that
    does not fit, several scales where all terms of a sum must share one; and what `matmul` refuses.

    Source: [FP8] 3, whose networks for images have convolutions in FP8.
    """
    how = Recipe().start() if scaling is None else scaling
    left, weights = coded(x, "x", how), coded(w, "w", how)
    strides, paddings = _check(left, weights, stride, padding)
    (batch, channels, *sizes), (out, _, *window) = left.shape, weights.shape
    backward = accumulation if backward_accumulation is None else backward_accumulation
    zeros = _zero(left) if any(paddings) else 0
    windows = _windows(left.codes, window, strides, [(each, each) for each in paddings], zeros)
    rows = ScaledCodes(in_rows(windows), left.scale.reshape(()), left.format)
    scale = weights.scale.reshape(-1, 1) if weights.scale.size > 1 else weights.scale.reshape(())
    flat = ScaledCodes(weights.codes.reshape(out, math.prod(weights.shape[1:])), scale, weights.format)
    y = matmul(rows, flat.T, accumulation=accumulation, output=output)
    if bias is not None:
        check_shape("bias", bias, y.shape[-1:])
        y = np.asarray(arith.add(y, bias, output))
    shape = (*windows.shape[:3], out)

    def gradients(grad: npt.ArrayLike | ScaledCodes) -> tuple[Array, Array, Array]:
        check_shape("the gradient of y", grad, (batch, out, *shape[1:3]))
        across = coded(grad, "grad", how)
        _check_one_scale("the gradient of y", across)
        if scale.size > 1:
            raise ValueError(
                f"w has {scale.size} scales, one for each output channel, and the gradient of x sums over "
                f"these: encode w with axis=None"
            )
        last = ScaledCodes(in_rows(np.moveaxis(across.codes, 1, -1)), across.scale.reshape(()), across.format)
        grad_w = matmul(last.T, rows, accumulation=backward, output=output)
        given = (
            decode(last, np.float64) if isinstance(grad, ScaledCodes) else np.moveaxis(as_array(grad), 1, -1)
        )
        # A pixel of x lies in windows that begin at most a window before it: its gradient is a convolution of
        # y's gradient, spread by the stride, with w turned around.
        zero = _zero(across)
        lengths = [step * (n - 1) + 1 for step, n in zip(strides, shape[1:3], strict=True)]
        spread = np.full((batch, out, *lengths), zero, across.codes.dtype)
        spread[:, :, :: strides[0], :: strides[1]] = across.codes
        edges = [
            (taps - 1, size + 2 * padding - length)
            for taps, size, padding, length in zip(window, sizes, paddings, lengths, strict=True)
        ]
        before = _windows(spread, window, (1, 1), edges, zero)
        top, side = paddings
        before = before[:, top : top + sizes[0], side : side + sizes[1]]
        turned = weights.codes[:, :, ::-1, ::-1].swapaxes(0, 1).reshape(channels, out * math.prod(window))
        grad_x = matmul(
            ScaledCodes(in_rows(before), last.scale, last.format),
            ScaledCodes(turned, scale, weights.format).T,
            accumulation=backward,
            output=output,
        )
        image = np.moveaxis(grad_x.reshape(batch, *sizes, channels), -1, 1)
        return (
            image,
            grad_w.reshape(weights.shape),
            column_sums(in_rows(given), catalog.format(output)),
        )

    return np.moveaxis(y.reshape(shape), -1, 1), gradients


def _zero(codes: ScaledCodes) -> int:
    """Return the code of zero; refuse formats without one."""
    code = convert.encode(0.0, codes.format, projection=Projection(zero="smallest"))
    if convert.decode(code, codes.format) != 0:
        raise ValueError(
            f"{codes.format.name!r} has no zero, which conv2d puts at the edges of images and between "
            "gradients"
        )
    return int(code)


def _windows(
    codes: Array, window: list[int], strides: tuple[int, int], edges: list[tuple[int, int]], zero: int
) -> Array:
    """Return all windows of images (batch, channels, ...), shape (batch, ..., channels * rows * columns).

    The code of zero is added at the edges.
    """
    padded = np.pad(codes, [(0, 0), (0, 0), *edges], constant_values=zero)
    found = np.lib.stride_tricks.sliding_window_view(padded, tuple(window), axis=(2, 3))
    found = np.moveaxis(found[:, :, :: strides[0], :: strides[1]], 1, 3)
    return np.asarray(found.reshape(*found.shape[:3], math.prod(found.shape[3:])))


def _check(x: ScaledCodes, w: ScaledCodes, stride: Any, padding: Any) -> tuple[tuple[int, int], ...]:
    """Return strides and paddings of both axes; refuse shapes and settings that do not fit."""
    if len(x.shape) != 4 or len(w.shape) != 4 or x.shape[1] != w.shape[1]:
        raise ValueError(
            f"conv2d takes x of shape (batch, in, height, width) and w of shape (out, in, rows, columns), "
            f"not {x.shape} and {w.shape}"
        )
    strides, paddings = (
        tuple(each) if isinstance(each, tuple | list) else (each, each) for each in (stride, padding)
    )
    for given, least in ((strides, 1), (paddings, 0)):
        whole = all(isinstance(each, int | np.integer) and least <= each < 1 << 31 for each in given)
        if len(given) != 2 or not whole:
            raise ValueError(
                f"stride={stride!r} of conv2d must be 1 or more, and padding={padding!r} 0 or more; both are "
                f"an integer below 2**31 or a pair of these"
            )
    reach = [size + 2 * each for size, each in zip(x.shape[2:], paddings, strict=True)]
    if any(length > size for size, length in zip(reach, w.shape[2:], strict=True)):
        raise ValueError(
            f"a window of {w.shape[2]} x {w.shape[3]} does not fit into {x.shape[2]} x {x.shape[3]} pixels "
            f"with padding={padding}"
        )
    _check_one_scale("x", x)
    if w.scale.size > 1 and w.scale.shape != (w.shape[0], 1, 1, 1):
        raise ValueError(f"w has scales of shape {w.scale.shape}: encode it with axis=0 or None")
    return strides, paddings


def _check_one_scale(name: str, codes: ScaledCodes) -> None:
    if codes.scale.size > 1:
        raise ValueError(
            f"{name} has {codes.scale.size} scales, and scales leave a sum only if all its terms share them: "
            f"encode it with axis=None"
        )
