"""Parameters of an optimizer in memory, and its states as they are saved.

Floor 4.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from lowprec.arrays.checks import as_array, is_tensor
from lowprec.arrays.doubles import reals
from lowprec.arrays.kinds import tensor_of
from lowprec.methods.expansion import Expansion
from lowprec.methods.scale_propagation import ScaledArray, as_scaled, to_tensor
from lowprec.methods.scale_propagation.pow2 import pow2_below
from lowprec.spec import catalog


def with_scale(values: Any) -> Any:
    """Return values at the power of two of their largest magnitude; those with a scale as they are."""
    given = getattr(values, "array", values)
    if isinstance(given, ScaledArray):
        return given
    array = reals(wide(given), "a gradient")
    largest = float(np.max(np.abs(array), initial=0))
    scale = float(largest != 0)
    if 0 < largest < np.inf:
        scale = min(max(pow2_below(largest), 2.0**-126), 2.0**127)
    return as_scaled(array, scale, catalog.BINARY32)


def fields(state: Any) -> list[tuple[str, Any]]:
    """Return the names of a state's parts, with the parts."""
    return [(field.name, getattr(state, field.name)) for field in dataclasses.fields(state)]


def kept_part(value: Any, parameter: Any) -> Any:
    """Return part of a state as arrays, or tensors if its parameter is one, or a number."""
    if isinstance(value, Expansion):
        return [kept_part(part, parameter) for part in value.parts]
    if isinstance(value, ScaledArray):
        return [kept_part(value.data, parameter), float(value.scale)]
    if not isinstance(value, np.ndarray):
        return value
    if not is_tensor(parameter):
        return value.copy()
    return tensor_of(np.array(value))


def restored_part(value: Any, kept: Any) -> Any:
    """Return what `kept_part` kept, in the kind that the state has now."""
    if isinstance(value, Expansion):
        return Expansion(tuple(np.array(as_array(part)) for part in kept), value.format)
    if isinstance(value, ScaledArray):
        data, scale = kept
        return ScaledArray(np.array(reals(data, "a state")), scale, value.format, value.scale_format)
    return np.array(reals(kept, "a state")).astype(value.dtype) if isinstance(value, np.ndarray) else kept


def refuse_shared(parameters: list[Any]) -> None:
    """Refuse parameters that lie in the same memory, where each would overwrite the other."""
    near = [
        as_array(each)
        for each in parameters
        if not is_tensor(each) or (each.device.type == "cpu" and not hasattr(each, "array"))
    ]
    bounds = sorted(((*byte_bounds(each), place) for place, each in enumerate(near)))
    for rank, (_, end, place) in enumerate(bounds):
        for begin, _, other in bounds[rank + 1 :]:
            if begin >= end:
                break
            if np.shares_memory(near[place], near[other]):
                raise ValueError(
                    f"parameters of shapes {near[place].shape} and {near[other].shape} share memory, and "
                    f"each has a state of its own; give a copy of one, or one of them alone"
                )


def wide(gradient: Any) -> Any:
    """Return a gradient as an array; of few bits in float32, exactly."""
    if is_tensor(gradient) and gradient.is_sparse:
        raise TypeError(
            "a gradient is sparse, and a step changes every element: use torch.nn.Embedding(sparse=False), "
            "or give the gradient's to_dense()"
        )
    array = as_array(gradient)
    return array.astype(np.float32) if array.dtype.itemsize < 4 else array


def write(parameter: Any, values: Any) -> None:
    """Put values into an array or a tensor, whose type holds them."""
    if hasattr(parameter, "array"):
        with sys.modules["torch"].no_grad():
            parameter.copy_(to_tensor(values))
        return
    values = values.to_array(np.float32) if isinstance(values, ScaledArray) else values
    if is_tensor(parameter):
        parameter.detach().copy_(tensor_of(np.asarray(values, order="C")))
    else:
        parameter[...] = values


def differing(parameter: Any, weights: Any) -> Any:
    """Return where a parameter differs from the weights that were written into it; None if nowhere."""
    held = getattr(parameter, "array", parameter)
    if held is weights:
        return None
    if isinstance(weights, ScaledArray):  # as `write` rounds them
        weights = weights.to_array(np.float32)
    held = held.to_array(np.float32) if isinstance(held, ScaledArray) else as_array(held)
    if held.shape != weights.shape or np.array_equal(held, weights):
        return None
    moved = (held != weights) & ~((held != held) & (weights != weights))  # NaNs are equal here
    return moved if moved.any() else None
