"""Kernels of `kernels.vector.order` over arrays that broadcast, and codes as they take them.

Floor 3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays import calls
from lowprec.arrays.checks import Array, broadcast_shape, code_dtype, codes_operand, share_memory
from lowprec.arrays.orders import codebook_order
from lowprec.arrays.traverse import BUFFER, bits_of, run
from lowprec.kernels.engine import DONE
from lowprec.spec import catalog
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format

__all__ = ["codes_in", "ordered", "run_in_parts", "shape_of"]

Like = Format | str | npt.DTypeLike


class _Parts:
    """A program, as `traverse.run` takes it, that runs kernels on parts of arrays that stay in the caches.

    All at once where one kernel writes the results and no flags are asked for. It is not asked to draw.
    """

    draws = in_place = widens = floats = refuses = False
    bound = None

    def __init__(self, write: Callable[..., None], single: bool) -> None:
        self._write, self._single = write, single

    def run(self, operands: list[Array], out: Array, flags: Array, random: Array, past: bool = False) -> int:
        """Write the results and flags of each part."""
        if self._single and not flags.size and operands[0].size == out.size == operands[-1].size:
            self._write(*operands, out, flags)
            return DONE
        most = min(BUFFER, out.size)
        operands = [np.repeat(array, most) if array.size == 1 else array for array in operands]
        for start in range(0, out.size, BUFFER):
            part = slice(start, start + BUFFER)
            length = out[part].size
            given = [array[part] if array.size == out.size else array[:length] for array in operands]
            self._write(*given, out[part], flags[part])
        return DONE


def run_in_parts(
    write: Callable[..., None],
    operands: list[Array],
    dtype: Any,
    flags: Array | None = None,
    key: tuple[object, ...] | None = None,
    single: bool = False,
) -> Any:
    """Return what is written for arrays that broadcast, as patterns: of this type, or a single one.

    `key`, of `calls.again`, remembers the call; `single` says that one kernel writes the results.
    """
    result = calls.empty_like(operands, shape_of(operands), np.dtype(dtype))
    program: Any = _Parts(write, single)
    codes, raised = [bits_of(array) for array in operands], flags
    if flags is not None and share_memory(flags, codes):
        raised = np.empty(flags.shape, flags.dtype)
    run(program, codes, bits_of(result), raised)
    if flags is not None and raised is not flags:
        flags[...] = raised
    calls.remember(key, program, codes, result)
    return result if result.shape else result[()]


def shape_of(arrays: list[Array]) -> tuple[int, ...]:
    """Return the shape that arrays broadcast to."""
    return (
        arrays[0].shape if arrays[0].shape == arrays[-1].shape else broadcast_shape("a comparison", *arrays)
    )


def codes_in(codes: npt.ArrayLike, fmt: Format) -> Array:
    """Return codes, checked, in the type that `encode` returns."""
    return codes_operand(codes, fmt).codes.astype(code_dtype(fmt), copy=False)


def ordered(arrays: tuple[npt.ArrayLike, ...], fmt: Like) -> tuple[list[Array], Format, bool]:
    """Return codes that compare as integers, and their format: those of codebooks become places, in binary32.

    And whether all arrays of these types are read alike.
    """
    known = catalog.format(fmt)
    operands = [codes_operand(each, known) for each in arrays]
    codes = [each.codes.astype(code_dtype(known), copy=False) for each in operands]
    if isinstance(known, Codebook):
        places = codebook_order.places_of(known)
        return [np.asarray(places[each]) for each in codes], catalog.BINARY32, False
    return codes, known, all(each.whole and each.codes.dtype.isnative for each in operands)
