"""Peers that multiply matrices as an accumulation says, each as a small adapter that gives calls to time.

All are far slower than lowprec, so each makes a corner of the product only, with the whole of K: its
rate counts. Whether a peer is installed is for `peers` to say.

Floor 5.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.oracle import dot as oracle
from lowprec.oracle.convert import decode as decode_exactly
from lowprec.oracle.exact import to_float
from lowprec.spec.accumulation import Accumulation
from lowprec.spec.format import Format
from lowprec.tools.arithpeers import verifloat_format

__all__ = ["Corner", "Product", "fractions", "ways"]

Array = npt.NDArray[Any]


class Product(NamedTuple):
    """What is to be done: a product of matrices of codes of one format."""

    variant: str  #: of `dotcontests`, without how operands are passed
    how: Accumulation
    x: Array  #: unsigned integers, rows along K
    y: Array  #: columns along K
    fmt: Format

    def corner(self, widest: int, most: int) -> tuple[Array, Array]:
        """The first rows and columns, of which there are so few that they take at most so many products.

        >>> x, y = np.zeros((384, 768), np.uint8), np.zeros((768, 384), np.uint8)
        >>> [part.shape for part in Product("", Accumulation, x, y, None).corner(192, 192**3)]
        [(48, 768), (768, 192)]
        """
        columns = min(widest, self.y.shape[1])
        rows = min(widest, len(self.x), max(1, most // (columns * len(self.y))))
        return np.ascontiguousarray(self.x[:rows]), np.ascontiguousarray(self.y[:, :columns])


class Corner(NamedTuple):
    """How a peer makes the first rows and columns of a product, and how to read what it gave as float32."""

    rows: int
    columns: int
    call: Callable[[], Any]
    read: Callable[[Any], Array]


def ways(name: str, product: Product) -> Iterator[Corner]:
    """What a peer can do of a product; nothing, if it cannot make it."""
    return _WAYS[name](product) if name in _WAYS else iter(())


# -- VeriFloat --------------------------------------------------------------------------------------

#: Its accumulators, by variant: into binary32 or bfloat16, to nearest.
_VERIFLOAT: dict[str, dict[str, Any]] = {
    "fp32_fma": {"order": "sequential"},
    "fp32_sequential": {"order": "sequential", "product": True},
    "bf16_sequential": {"order": "sequential"},
    "groups_of_16": {"order": "sequential", "group": 16, "align_bits": 25},
    "exact": {"order": "exact"},
}


def _verifloat_ways(product: Product) -> Iterator[Corner]:
    """By `matmul` of two `FPArray`, whose flags it keeps too."""
    kind = verifloat_format(product.fmt)
    if kind is None or product.variant not in _VERIFLOAT:
        return
    verifloat = importlib.import_module("verifloat")
    given = dict(_VERIFLOAT[product.variant])
    into = verifloat.FPFormat(8, 7) if product.variant == "bf16_sequential" else verifloat.FPFormat(8, 23)
    if given.pop("product", False):
        given["product"] = into
    parts = product.corner(192, 192**3)
    operands = [verifloat.FPArray.from_raw(part, kind) for part in parts]
    call = functools.partial(verifloat.matmul, *operands, acc=verifloat.Accumulator(into, **given))
    yield Corner(len(parts[0]), parts[1].shape[1], call, lambda made: made.to_numpy("value").astype(np.float32))


# -- MMA-Sim ----------------------------------------------------------------------------------------


def _mmasim_ways(product: Product) -> Iterator[Corner]:
    """By the operation that its WGMMA of Hopper is, in products of 64 rows and columns and any K.

    `mmasim.nv_ptx` has it by name, but compiles an extension that this operation does not use when it is imported.
    """
    names = {"e4m3fn": ("e4m3", "float8_e4m3fn"), "e5m2": ("e5m2", "float8_e5m2")}
    if product.variant != "hopper_wgmma" or product.fmt.name not in names:
        return
    torch, fdpa = importlib.import_module("torch"), importlib.import_module("mmasim.arithmetic.fdpa")
    ptx, native = names[product.fmt.name]
    multiply = fdpa.MMA_T_FDPA(13, "RZ-E8M13", 32, -133, ptx, ptx)
    parts = product.corner(64, 64 * 64 * 384)
    x, y = (torch.from_numpy(part).view(getattr(torch, native)) for part in parts)
    zero = torch.zeros((len(x), y.shape[1]))
    yield Corner(len(x), y.shape[1], functools.partial(multiply, x, y, zero), lambda made: np.asarray(made.numpy()))


# -- fractions --------------------------------------------------------------------------------------


def fractions(product: Product) -> Corner:
    """By the oracle: exact terms as Python's fractions."""
    x, y = product.corner(8, 8 * 384)
    output = product.how.output[0]

    def call() -> Array:
        rows = [[decode_exactly(code, product.fmt) for code in row] for row in x.tolist()]
        columns = [[decode_exactly(code, product.fmt) for code in column] for column in y.T.tolist()]
        codes = [[oracle.dot(row, column, product.how) for column in columns] for row in rows]
        return np.array([[to_float(decode_exactly(code, output)) for code in row] for row in codes], np.float32)

    return Corner(len(x), y.shape[1], call, np.asarray)


_WAYS: dict[str, Callable[[Product], Iterator[Corner]]] = {"VeriFloat": _verifloat_ways, "mmasim": _mmasim_ways}
