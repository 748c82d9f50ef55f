"""Convolutions along one axis and along two: each is a product of matrices, of windows and of a kernel.

Floor 4. Sums are those of `product`, NumPy's by default; gradients of inputs that several windows share are
added by NumPy.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.methods.unit_scaling.constraints import Constraint, constrain
from lowprec.methods.unit_scaling.products import Product, bias_of, result_of, root
from lowprec.methods.unit_scaling.vjp import Array, Vjp, array, scaled

OneOrTwo = int | tuple[int, int]


def conv1d(
    x: npt.ArrayLike,
    weight: npt.ArrayLike,
    bias: npt.ArrayLike | None = None,
    constraint: Constraint = "gmean",
    *,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
    product: Product = np.matmul,
) -> tuple[Array, Vjp]:
    """Apply a convolution along the last axis (a correlation, as deep learning has it).

    >>> y, vjp = conv1d(np.ones((2, 8)), np.ones((4, 2, 3)), padding=1, constraint=None)
    >>> y.shape, round(vjp.alpha, 4)
    ((4, 8), 0.4082)

    Parameters
    ----------
    x : array_like of float, shape (..., channels, length)
    weight : array_like of float, shape (outputs, channels / groups, size)
        Begins with unit variance.
    bias : array_like of float, shape (outputs,), optional
    constraint : str, callable or None
        Of two factors: of the output, and of the gradient of x.
    stride, padding, dilation, groups : int
        OneOrTwo between outputs, zeros at either end, steps between taps, and independent convolutions.
    product : callable
        As for `matmul`.

    Returns
    -------
    y : array of float, shape (..., outputs, (length + 2 * padding - dilation * (size - 1) - 1) // stride + 1)
    vjp : Vjp
        alpha (channels / groups * size)**-1/2 and beta (outputs / groups * size / stride)**-1/2, before the
        constraint; for weight and bias (outputs along the axis, times those in front)**-1/2.

    Raises ValueError: shapes, or settings, that do not fit.

    Notes
    -----
    Next to the ends inputs reach fewer outputs, and zeros of the padding have no variance: gradients
    and outputs there are smaller.

    Source: [UNIT_SCALING] its library.
    """
    return _convolution(
        "conv1d", x, weight, bias, constraint, (stride,), (padding,), (dilation,), groups, product
    )


def conv2d(
    x: npt.ArrayLike,
    weight: npt.ArrayLike,
    bias: npt.ArrayLike | None = None,
    constraint: Constraint = "gmean",
    *,
    stride: OneOrTwo = 1,
    padding: OneOrTwo = 0,
    dilation: OneOrTwo = 1,
    groups: int = 1,
    product: Product = np.matmul,
) -> tuple[Array, Vjp]:
    """Apply a convolution along the last two axes (a correlation, as deep learning has it).

    >>> y, vjp = conv2d(np.ones((2, 8, 6)), np.ones((4, 2, 3, 3)), padding=1, constraint=None)
    >>> y.shape, round(vjp.alpha, 4)
    ((4, 8, 6), 0.2357)

    Parameters
    ----------
    x : array_like of float, shape (..., channels, height, width)
    weight : array_like of float, shape (outputs, channels / groups, rows, columns)
        Begins with unit variance.
    bias, constraint, product
        As for `conv1d`.
    stride, padding, dilation : int or pair of int
        As for `conv1d`: of both axes, or of each.
    groups : int

    Returns
    -------
    y : array of float, shape (..., outputs, height of the output, width of the output)
    vjp : Vjp
        As of `conv1d`, where the size is rows * columns, and the stride that of both axes, multiplied.

    Raises ValueError: shapes, or settings, that do not fit.

    Source: the rule of `conv1d`, for two axes; the published library has none.
    """
    strides, paddings, dilations = (
        each if isinstance(each, tuple) else (each, each) for each in (stride, padding, dilation)
    )
    return _convolution("conv2d", x, weight, bias, constraint, strides, paddings, dilations, groups, product)


def _convolution(
    name: str,
    x: npt.ArrayLike,
    weight: npt.ArrayLike,
    bias: npt.ArrayLike | None,
    constraint: Constraint,
    strides: tuple[int, ...],
    paddings: tuple[int, ...],
    dilations: tuple[int, ...],
    groups: int,
    product: Product,
) -> tuple[Array, Vjp]:
    """Convolve along as many axes as there are strides."""
    values, taps = array(x, f"x of {name}"), array(weight, f"weight of {name}")
    _check(name, values.shape, taps.shape, strides, paddings, dilations, groups)
    rank, (outputs, fan_in, *sizes) = len(strides), taps.shape
    front, lengths = values.shape[: -rank - 1], values.shape[-rank:]
    counts = [
        (length + 2 * padding - dilation * (size - 1) - 1) // stride + 1
        for length, padding, dilation, size, stride in zip(
            lengths, paddings, dilations, sizes, strides, strict=True
        )
    ]
    batch, count, size = math.prod(front), math.prod(counts), math.prod(sizes)
    grouped = values.reshape(batch, groups, fan_in, *lengths)
    padded = np.pad(grouped, [(0, 0)] * 3 + [(padding, padding) for padding in paddings])
    places: list[Any] = [
        (
            ...,
            *(
                slice(tap * dilation, tap * dilation + (number - 1) * stride + 1, stride)
                for tap, dilation, number, stride in zip(each, dilations, counts, strides, strict=True)
            ),
        )
        for each in itertools.product(*map(range, sizes))
    ]
    # Rows are outputs' places, columns are channels and taps: (groups, batch * count, fan_in * size).
    windows = np.stack([padded[place] for place in places], axis=3).reshape(
        batch, groups, fan_in * size, count
    )
    rows = windows.transpose(1, 0, 3, 2).reshape(groups, batch * count, fan_in * size)
    kernels = taps.reshape(groups, outputs // groups, fan_in * size)
    result = result_of(product(rows, kernels.swapaxes(1, 2)), values, taps)
    plain = result.reshape(groups, batch, count, outputs // groups).transpose(1, 0, 3, 2)
    plain = plain.reshape(*front, outputs, *counts)
    biases = [] if bias is None else [bias_of(bias, outputs, name)]
    for each in biases:
        plain = plain + each.reshape(-1, *[1] * rank)
    alpha, beta = constrain(
        constraint, root(fan_in * size), root(outputs * size / (math.prod(strides) * groups))
    )

    def pull(grad: Array) -> tuple[Array, ...]:
        parted = grad.reshape(batch, groups, outputs // groups, count).transpose(1, 0, 3, 2)
        given = parted.reshape(groups, batch * count, outputs // groups)
        of_taps = result_of(product(given.swapaxes(1, 2), rows), values, taps).reshape(taps.shape)
        of_windows = result_of(product(given, kernels), values, taps)
        parts = of_windows.reshape(groups, batch, *counts, fan_in, size)
        of_padded = np.zeros_like(padded, result.dtype)
        for number, place in enumerate(places):
            of_padded[place] += np.moveaxis(parts[..., number], (1, 0, -1), (0, 1, 2))
        inner: Any = [slice(at, at + length) for at, length in zip(paddings, lengths, strict=True)]
        of_x = of_padded[(..., *inner)].reshape(values.shape)
        return (of_x, of_taps, *(given.sum(axis=1).reshape(outputs) for _ in biases))

    free = (root(batch * count),) * (1 + len(biases))
    return scaled(name, plain, alpha, (beta, *free), pull)


def _check(
    name: str,
    shape: tuple[int, ...],
    taps: tuple[int, ...],
    strides: tuple[int, ...],
    paddings: tuple[int, ...],
    dilations: tuple[int, ...],
    groups: int,
) -> None:
    """Refuse shapes and settings that do not fit."""
    rank = 1 if name == "conv1d" else 2
    for setting, given, least in (
        ("stride", strides, 1),
        ("padding", paddings, 0),
        ("dilation", dilations, 1),
    ):
        if len(given) != rank or not least <= min(given) <= max(given) < 1 << 31:
            shown = given[0] if len(set(given)) == 1 else given
            raise ValueError(f"{setting}={shown!r} of {name} must be {least} or more, and below 2**31")
    if len(shape) < rank + 1 or len(taps) != rank + 2:
        lengths, sizes = ("length", "size") if rank == 1 else ("height, width", "rows, columns")
        raise ValueError(
            f"{name} takes x (..., channels, {lengths}) and weight (outputs, channels / groups, {sizes}), "
            f"not {shape} and {taps}"
        )
    channels = shape[-rank - 1]
    if groups < 1 or taps[0] % groups or channels != taps[1] * groups:
        raise ValueError(
            f"groups={groups!r} of {name} does not fit {channels} channels and weight {taps}: outputs must "
            f"be a multiple of it, and channels {taps[1]} times it"
        )
    for length, size, padding, dilation in zip(shape[-rank:], taps[2:], paddings, dilations, strict=True):
        reach = dilation * (size - 1) + 1
        if size < 1 or length + 2 * padding < reach:
            raise ValueError(
                f"{reach} taps of {name} do not fit in length {length} with padding={padding}; use more "
                "padding"
            )
