"""Codes for other libraries by DLPack, under the type that they are of.

NumPy exports integers alone; the type of an export is written here.

Floor 3.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

from lowprec.arrays.checks import Array
from lowprec.spec import catalog
from lowprec.spec.format import Format

__all__ = ["exported"]

#: Formats that DLPack 1.1 has types for: their code there, bits, and elements of a byte.
_TYPES: Mapping[Format, tuple[int, int, int]] = {
    catalog.BINARY16: (2, 16, 1),
    catalog.BINARY32: (2, 32, 1),
    catalog.BFLOAT16: (4, 16, 1),
    catalog.E3M4: (7, 8, 1),
    catalog.FLOAT8_E4M3: (8, 8, 1),
    catalog.E4M3B11FNUZ: (9, 8, 1),
    catalog.E4M3FN: (10, 8, 1),
    catalog.E4M3FNUZ: (11, 8, 1),
    catalog.E5M2: (12, 8, 1),
    catalog.E5M2FNUZ: (13, 8, 1),
    catalog.E8M0FNU: (14, 8, 1),
    catalog.E2M1FN: (17, 4, 2),
    catalog.INT8: (0, 8, 1),
    catalog.UINT8: (1, 8, 1),
}

#: Where a tensor has its type, by the name of its capsule: behind a pointer, a device and a count; in newer
#: versions behind a version, two pointers and flags too.
_POINTER = ctypes.sizeof(ctypes.c_void_p)
_PLACES = {b"dltensor": _POINTER + 12, b"dltensor_versioned": 8 + 2 * _POINTER + 8 + _POINTER + 12}


def exported(packed: Array, fmt: Format, options: Mapping[str, Any]) -> Any:
    """Return the capsule of packed codes; of their own type, if DLPack has it, else of integers."""
    capsule = packed.__dlpack__(**options)
    if fmt in _TYPES:
        code, bits, lanes = _TYPES[fmt]
        name_of, pointer_of = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
        name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
        pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        name = name_of(capsule)
        place = pointer_of(capsule, name) + _PLACES[name]
        ctypes.memmove(place, bytes([code, bits, lanes & 0xFF, lanes >> 8]), 4)
    return capsule
