"""Base class of dumps: arrays that are read in pieces, in C order, or element by element."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.checks import as_array
from lowprec.spec.naming import plain

__all__ = ["Dump", "DumpError", "Held"]

Array = npt.NDArray[Any]


class DumpError(ValueError):
    """A file that cannot be read as it is asked to be; the command line exits with 2."""


class Dump(ABC):
    """An array: `dtype`, `shape`, and its elements in the order of C."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    unnamed: bool = False  #: whether elements are codes of a format that the file does not name
    read_as: str = ""  #: how it was read, where its elements are not those of a tensor of the file

    def __str__(self) -> str:
        return plain(self.name)

    @property
    def size(self) -> int:
        """Elements."""
        return math.prod(self.shape)

    @abstractmethod
    def read(self, start: int, stop: int) -> Array:
        """Return elements start to stop, in one dimension."""

    @abstractmethod
    def take(self, index: Array) -> Array:
        """Return the elements at these places."""

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        """Return all of it in memory, in its shape, for functions that take arrays."""
        if copy is False:
            raise ValueError(f"{self} is read from a file, which copy=False forbids")
        if dtype is None:
            self.check_named()
        return self.read(0, self.size).reshape(self.shape).astype(dtype or self.dtype, copy=False)

    def check_named(self) -> None:
        """Refuse elements of a type that the file does not name, which are no whole numbers."""
        if self.unnamed:
            raise DumpError(
                f"{self} holds elements of {self.dtype.itemsize} bytes, whose type NumPy did not save; say "
                f"of which format they are codes: --from, source=, or fmt= of open_dump; or save float32"
            )

    def reshaped(self, shape: tuple[int, ...]) -> Dump:
        """Return the same elements in another shape."""
        other = copy.copy(self)
        other.shape = shape
        return other

    def rows(self, start: int, stop: int) -> Array:
        """Return parts start to stop along the first axis, in their shape."""
        width = math.prod(self.shape[1:])
        return self.read(start * width, stop * width).reshape(-1 if width else stop - start, *self.shape[1:])


class Held(Dump):
    """An array in memory."""

    def __init__(self, values: object, name: str = "array") -> None:
        array = as_array(values)
        self.name, self.shape, self.dtype = name, array.shape, array.dtype.newbyteorder("=")
        self._flat = array.reshape(-1)

    def read(self, start: int, stop: int) -> Array:
        """Return elements start to stop, in one dimension."""
        return self._flat[start:stop].astype(self.dtype, copy=False)

    def take(self, index: Array) -> Array:
        """Return the elements at these places."""
        return self._flat[index].astype(self.dtype, copy=False)
