"""Lists and other sequences as arrays: in NumPy's common type of their elements, where that holds them all.

Floor 3.
"""

from __future__ import annotations

import functools
from array import array as typed_array
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.kernels.modes import usual_modes

__all__ = ["is_list", "listed"]

#: Sequences whose elements are of one type, or that are one value.
_OF_ONE_TYPE = (str, bytes, bytearray, memoryview, range, typed_array, np.dtype)
#: Attributes of arrays, and of mappings.
_NO_LIST = ("__array__", "__array_interface__", "__array_struct__", "__dlpack__", "keys")


def _is_list(kind: type) -> bool:
    """Return whether a class is a sequence by name, or by what it has."""
    listed = issubclass(kind, Sequence) or (hasattr(kind, "__len__") and hasattr(kind, "__getitem__"))
    return listed and not issubclass(kind, _OF_ONE_TYPE) and not any(hasattr(kind, name) for name in _NO_LIST)


#: Returns whether NumPy reads objects of a class element by element, and looks for a common type.
is_list: Callable[[type], bool] = functools.lru_cache(maxsize=512)(_is_list)


@usual_modes()
def listed(values: Any) -> npt.NDArray[Any]:
    """Return a list as an array; refuse numbers that NumPy's common type does not hold."""
    try:
        with np.errstate(invalid="raise"):
            array = np.asarray(values)
    except FloatingPointError:
        raise TypeError(
            "its types differ, and a signaling NaN would become quiet on the way to their common one"
        ) from None
    with np.errstate(invalid="ignore"):
        rounds = array.dtype.kind == "V" or (array.dtype == np.float64 and (np.abs(array) >= 2**53).any())
    if rounds:
        for given, made in zip(np.array(values, object).ravel(), array.ravel(), strict=True):
            exact = int(given) if isinstance(given, (int, np.integer)) else float(given)
            if exact != float(made) and exact == exact:
                raise TypeError(f"NumPy's common type of its elements, {array.dtype}, does not hold {given}")
    return array
