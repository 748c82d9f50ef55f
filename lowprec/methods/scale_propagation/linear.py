"""Products of matrices with any accumulation, and a linear layer in FP8 with its gradient.

Floor 4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.checks import as_array
from lowprec.arrays.dots import dot
from lowprec.methods._layer import in_rows
from lowprec.methods.scale_propagation.config import current
from lowprec.methods.scale_propagation.rules.products import scaled_matmul
from lowprec.methods.scale_propagation.scaled_array import ScaledArray
from lowprec.methods.scale_propagation.transform import cast
from lowprec.spec.accumulation import Accumulation
from lowprec.spec.format import Format
from lowprec.spec.projection import Saturation

Like = Format | str | npt.DTypeLike
How = Accumulation | str


def matmul(x: Any, y: Any, accumulation: How | None = None) -> Any:
    """Multiply matrices, x @ y, summing as an accumulation says.

    >>> a = ScaledArray(np.float32([[1.5, 2.0]]), 2.0, "e4m3fn")
    >>> b = ScaledArray(np.float32([[0.5], [1.0]]), 0.25, "e5m2")
    >>> matmul(a, b, "hopper_wgmma_e4m3fn_e5m2_binary32")
    ScaledArray([[2.75]], scale=0.5, format='binary32')

    Parameters
    ----------
    x : ScaledArray or array, shape (..., M, K)
    y : ScaledArray or array, shape (..., K, N)
        Plain arrays alone go to `lowprec.matmul`.
    accumulation : Accumulation or str, optional
        Of the data; by default the `dots` of `config`.

    Returns
    -------
    product : ScaledArray or array, shape (..., M, N)
        The scale is the product of the scales and of the root of K, rounded to a power of two. Where the
        formats of x and y are narrower than 16 bits, the format is that of the accumulation's output.

    Raises ValueError: shapes that do not fit, or an unknown accumulation.

    Source: [SCALIFY] algorithm 3.
    """
    if isinstance(x, ScaledArray) or isinstance(y, ScaledArray):
        return scaled_matmul(x, y, accumulation)
    return dot.matmul(x, y, current().dots if accumulation is None else accumulation)


def linear(
    x: Any,
    w: Any,
    bias: Any = None,
    *,
    forward: Like = "e4m3fn",
    backward: Like = "e5m2",
    saturation: Saturation | str = "finite",
    accumulation: How | tuple[How, How, How] | None = None,
) -> tuple[Any, Callable[[Any], tuple[Any, Any, Any]]]:
    """Apply a linear layer in FP8, x @ w + bias, and return its output and its gradient.

    Forward, x and w are cast to one format, multiplied into a wide result, and the bias is added to that.
    Backward, the gradient of the product is cast to the other format and multiplied with what x and w were
    cast to. The casts change nothing of what passes the other way.

    >>> x, w = ScaledArray(np.float32([[1.03, 2.0]]), 64.0), ScaledArray(np.float32([[1.0], [-0.5]]), 0.125)
    >>> y, pull = linear(x, w)
    >>> y
    ScaledArray([[0.]], scale=8.0, format='binary32')
    >>> for gradient in pull(ScaledArray(np.float32([[1.1]]), 2.0**-12))[:2]:
    ...     print(gradient)
    ScaledArray([[ 1. , -0.5]], scale=3.0517578125e-05, format='binary32')
    ScaledArray([[1.],
                 [2.]], scale=0.015625, format='binary32')

    Parameters
    ----------
    x : ScaledArray or array, shape (..., K)
    w : ScaledArray or array, shape (K, N)
    bias : ScaledArray or array, shape (N,), optional
    forward, backward : Format, str or dtype
        Of x and w, and of the gradient.
    saturation : Saturation or str
        Of all casts.
    accumulation : Accumulation or str, or three of them, optional
        Of y, of the gradient at x (backward @ forward) and of that at w (forward @ backward); by default the
        `dots` of `config`.

    Returns
    -------
    y : ScaledArray or array, shape (..., N)
    pull : function
        Takes the gradient at y to those at x, w and bias; None for no bias.

    Raises ValueError: shapes that do not fit, and what `lowprec.quantize` refuses.

    Notes
    -----
    With plain arrays this is FP8 at a scale of 1. With ScaledArrays the casts are of the data; to bring
    these into the range of the format is the business of `dynamic_rescale`.

    Source: [SCALIFY] appendix A; [FP8].
    """
    sums = accumulation if isinstance(accumulation, tuple) else (accumulation,) * 3  # y, at x, at w
    narrow_x, narrow_w = (cast(given, forward, saturation=saturation) for given in (x, w))
    y = matmul(narrow_x, narrow_w, sums[0])

    def pull(gradient: Any) -> tuple[Any, Any, Any]:
        gradient = gradient if isinstance(gradient, ScaledArray) else as_array(gradient)
        narrow = cast(gradient, backward, saturation=saturation)
        at_x = matmul(narrow, narrow_w.T, sums[1])
        at_w = matmul(in_rows(narrow_x).T, in_rows(narrow), sums[2])
        at_bias = None if bias is None else np.sum(in_rows(gradient), axis=0)
        return at_x, at_w, at_bias

    return y if bias is None else y + bias, pull
