"""Results of the kind that was given: torch tensors for torch tensors, frames for frames of pandas.

A tensor is read by its bits, without its gradient; its result lies on the same device. Frames keep their
index.

Floor 3.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from lowprec.arrays.checks import Array, as_array, is_tensor

__all__ = ["brings_dtype", "is_outside", "keeps_kind", "like", "tensor_of"]


def _is_frame(values: object) -> bool:
    """Whether values are a Series or a DataFrame of pandas."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(values, (pandas.Series, pandas.DataFrame))


def is_outside(values: object) -> bool:
    """Whether values are of a kind that results keep: a tensor or a frame."""
    return type(values) is not np.ndarray and (is_tensor(values) or _is_frame(values))


def brings_dtype(values: object) -> bool:
    """Whether values had a type before they became an array: no list, and no Python number."""
    return hasattr(values, "dtype") or _is_frame(values)


def tensor_of(array: Array, device: Any = "cpu") -> Any:
    """Return an array as a torch tensor that shares its memory; ml_dtypes' types become torch's."""
    torch: Any = sys.modules["torch"]
    name = array.dtype.name
    if array.dtype.kind == "V":  # of ml_dtypes
        bits = array.view(np.uint8 if array.itemsize == 1 else np.int16)
        return torch.from_numpy(bits).view(getattr(torch, name)).to(device)
    return torch.from_numpy(array).to(device)


def like(made: Any, *given: Any, out: object = None) -> Any:
    """Return results in the kind of the first operand that is a tensor or a frame; `out` stays what it is.

    Raises
    ------
    ValueError
        Frames whose rows or columns have other names, or another order.
    """
    if out is not None or not any(map(is_outside, given)):
        return made
    for each in given:
        if is_tensor(each):
            return tensor_of(np.asarray(made), each.device)
    frames = [each for each in given if _is_frame(each)]
    for other in frames[1:]:
        if not all(first.equals(second) for first, second in zip(frames[0].axes, other.axes, strict=False)):
            raise ValueError(
                "operands are frames with different rows or columns, which are not aligned here; give "
                "first.align(second), or .to_numpy() of one"
            )
    frame = next((each for each in frames if each.shape == np.shape(made)), None)
    if frame is None:
        return made
    if frame.ndim == 1:
        return type(frame)(made, index=frame.index, name=frame.name)
    return type(frame)(made, index=frame.index, columns=frame.columns)


def keeps_kind(count: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a function whose results have the kind of its first operands, so many of them."""

    def decorate(verb: Callable[..., Any]) -> Callable[..., Any]:
        names = [*inspect.signature(verb).parameters][:count]

        @functools.wraps(verb)
        def kept(*values: Any, **options: Any) -> Any:
            if len(values) >= count and all([type(each) is np.ndarray for each in values[:count]]):
                return verb(*values, **options)
            given = [*values[:count], *(options[name] for name in names if name in options)]
            if not any(map(is_outside, given)):
                return verb(*values, **options)
            plain = [as_array(each) if is_outside(each) else each for each in values]
            named = {key: as_array(each) if is_outside(each) else each for key, each in options.items()}
            return like(verb(*plain, **named), *given, out=options.get("out"))

        return kept

    return decorate
