"""The linear layer that methods share: products rounded to an output, a bias, and the gradients.

Floor 4. Methods import no method; this is none, and only they import it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays import arith, convert
from lowprec.arrays.checks import Array, as_array
from lowprec.arrays.dots import dot
from lowprec.arrays.frames import is_frame
from lowprec.arrays.kinds import check_products
from lowprec.spec.accumulation import Accumulation
from lowprec.spec.accumulations import accumulation as accumulation_of
from lowprec.spec.format import Format
from lowprec.spec.projection import DEFAULT, Projection

#: From the gradient of the output to those of x and w, in rows, and to the rows whose sum is the bias's.
Backward = Callable[[Any], tuple[Array, Array, Array]]


def linear_layer(
    shape: tuple[int, ...],
    y: Array,
    bias: npt.ArrayLike | None,
    backward: Backward,
    fmt: Format,
    projection: Projection | None = None,
) -> tuple[Array, Callable[[Any], tuple[Array, Array, Array]]]:
    """Return the output of a layer for an x of a shape, and the function from its gradient to all others.

    Parameters
    ----------
    shape : tuple of int
        Of x: axes in front of the last are one batch.
    y : array, shape (rows, out)
        The product forward.
    bias : array_like, shape (out,), optional
        Added in the output's format, with a rounding of its own.
    backward : function
    fmt, projection : Format, Projection
        Of the output, and of the gradients.
    """
    out = (*shape[:-1], y.shape[-1])
    if bias is not None:
        check_shape("bias", bias, out[-1:])
        y = np.asarray(arith.add(y, bias, fmt, projection=projection or DEFAULT))

    def gradients(grad: Any) -> tuple[Array, Array, Array]:
        check_shape("the gradient of y", grad, out)
        at_x, at_w, rows = backward(grad)
        return at_x.reshape(shape), at_w, column_sums(rows, fmt, projection)

    return y.reshape(out), gradients


def check_names(x: Any, y: Any, **joined: Any) -> None:
    """Refuse frames in a product x @ y whose names differ, as nothing is aligned here."""
    if any(map(is_frame, (x, y, *joined.values()))):
        check_products(x, y, 0, None, joined)


def check_features(x: Any, w: Any, **joined: Any) -> None:
    """Refuse frames in a layer x @ w.T whose names differ, as nothing is aligned here."""
    check_names(x, w.T if is_frame(w) else w, **joined)


def check_layer(x: Any, w: Any, bias: Any = None) -> None:
    """Refuse operands that make no linear layer: by the names of frames, and by shapes."""
    check_features(x, w, bias=bias)
    of_x, of_w = shape_of(x), shape_of(w)
    if len(of_w) != 2 or of_x[-1:] != of_w[1:]:
        raise ValueError(f"linear takes x of shape (..., in) and w of shape (out, in), not {of_x} and {of_w}")


def in_rows(array: Any) -> Any:
    """Join all axes but the last, of any length."""
    return array.reshape(math.prod(array.shape[:-1]), array.shape[-1])


def check_shape(name: str, given: Any, wanted: tuple[int, ...]) -> None:
    """Refuse an argument of another shape, which would be broadcast, or reshaped to fit."""
    shape = shape_of(given)
    if shape != wanted:
        raise ValueError(f"{name} has shape {shape}, but needs {wanted}")


def shape_of(given: Any) -> tuple[int, ...]:
    """Return the shape of an argument, lazy ones without computing them."""
    return tuple(given.shape if hasattr(given, "shape") else as_array(given).shape)


def multiplied(
    x: Any, y: Any, accumulation: Accumulation | str, fmt: Format, projection: Projection | None = None
) -> Array:
    """Multiply, rounding to a format at the end of the accumulation, or after it where that is hardware.

    Without a projection an accumulation whose output has the format rounds as it always does.
    """
    how = accumulation_of(accumulation)
    if fmt == how.output[0] and projection is None:
        return np.asarray(dot.matmul(x, y, how))
    rule = projection or DEFAULT
    if how.machine:  # its results are binary32
        return np.asarray(convert.quantize(dot.matmul(x, y, how), fmt, projection=rule))
    return np.asarray(dot.matmul(x, y, dataclasses.replace(how, output=(fmt, rule))))


def column_sums(values: Array, fmt: Format, projection: Projection | None = None) -> Array:
    """Sum along the first axis, exactly and rounded once."""
    return multiplied(np.ones((1, len(values)), np.float32), values, "exact", fmt, projection)[0]  # type: ignore[no-any-return]
