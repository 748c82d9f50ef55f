"""Peers that operate on arrays of a format's codes, each as a small adapter that gives calls to time.

Only what works on the codes themselves takes part: torch has no operations on 8-bit floats, and
gfloat, qtorch and CPFloat have none at all. Whether a peer is installed is for `peers` to say.

Floor 5.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.arrays.checks import dtype
from lowprec.spec.format import Format, Sign
from lowprec.tools.peers import Way
from lowprec.verify.frameworks import FRAMEWORKS

__all__ = ["Task", "verifloat_format", "ways"]

Array = npt.NDArray[Any]


class Task(NamedTuple):
    """What is to be done: an operation on codes of a format, rounded to nearest even, to codes of the same."""

    operation: str
    operands: tuple[Array, ...]  #: unsigned integers
    fmt: Format


def ways(name: str, task: Task) -> Iterator[Way]:
    """What a peer can do of a task; nothing, if it cannot do it.

    >>> from lowprec.spec.catalog import E4M3FN
    >>> one = np.array([0x38], np.uint8)
    >>> way = next(ways("ml_dtypes", Task("add", (one, one), E4M3FN)))
    >>> way.read(way.call())
    array([64], dtype=uint8)
    """
    return _WAYS[name](task) if name in _WAYS and task.fmt.exponent_bits else iter(())


def _numpy_ways(task: Task, *, builtin: bool) -> Iterator[Way]:
    """By NumPy's functions, which ml_dtypes extends to its types: in float32, and rounded then."""
    function = getattr(np, task.operation, None)
    native = _native(task.fmt)
    if function is None or native is None or (native.isbuiltin == 1) != builtin:
        return
    codes = task.operands[0].dtype
    given = [operand.view(native) for operand in task.operands]
    made = np.empty(given[0].shape, native)
    yield Way(True, functools.partial(function, *given, out=made), lambda made: made.view(codes))
    yield Way(False, functools.partial(function, *given), lambda made: made.view(codes))


def _jax_ways(task: Task) -> Iterator[Way]:
    """By the functions of `jax.numpy`, compiled. There is no given memory in JAX."""
    jax = importlib.import_module("jax")
    function = getattr(jax.numpy, task.operation, None)
    native = _native(task.fmt)
    if function is None or native is None or task.fmt not in FRAMEWORKS["jax"].targets():
        return
    codes = task.operands[0].dtype
    with jax.enable_x64(True), jax.default_device(jax.devices("cpu")[0]):  # else float64 would come in as float32
        given = [jax.numpy.asarray(operand.view(native)) for operand in task.operands]
        compiled = jax.jit(function)
        compiled(*given)
    yield Way(False, lambda: compiled(*given).block_until_ready(), lambda made: np.asarray(made).view(codes))


def _apytypes_ways(task: Task) -> Iterator[Way]:
    """By the operators of `APyFloatArray`, for formats with infinities and NaNs as IEEE 754 has them."""
    fmt = task.fmt
    call = _OPERATORS.get(task.operation)
    if call is None or not _is_like_ieee(fmt) or fmt.sign is Sign.UNSIGNED or not fmt.subnormals:
        return
    make = importlib.import_module("apytypes").APyFloatArray.from_bits
    given = [make(operand, fmt.exponent_bits, fmt.trailing_bits, fmt.bias) for operand in task.operands]
    codes = task.operands[0].dtype
    yield Way(False, functools.partial(call, *given), lambda made: np.asarray(made.to_bits()).astype(codes))


#: Elements above which VeriFloat takes too long for operations that it has no fast way for.
_VERIFLOAT_SLOW = {"sqrt": 1 << 20, "fma": 1 << 20}


def _verifloat_ways(task: Task) -> Iterator[Way]:
    """By the operators and methods of `FPArray`, which gives flags with every element."""
    operation, fmt = task.operation, task.fmt
    if task.operands[0].size > _VERIFLOAT_SLOW.get(operation, 1 << 28):
        return
    kind = verifloat_format(fmt)
    if kind is None:
        return
    verifloat = importlib.import_module("verifloat")
    first, *others = (verifloat.FPArray.from_raw(operand, kind) for operand in task.operands)
    call = functools.partial(_OPERATORS[operation], first) if operation in _OPERATORS else getattr(first, operation)
    codes = task.operands[0].dtype
    yield Way(False, functools.partial(call, *others), lambda made: made.to_numpy("raw").astype(codes))


def verifloat_format(fmt: Format) -> Any:
    """The format as VeriFloat, which is installed, has it; or None."""
    if not fmt.negative_zero or fmt.width > 64:
        return None
    if _is_like_ieee(fmt):
        specials: Any = True
    elif not fmt.infinity and fmt.nans < 2:
        specials = "fn" if fmt.nans else False
    else:
        return None
    return importlib.import_module("verifloat").FPFormat(
        fmt.exponent_bits,
        fmt.trailing_bits,
        fmt.bias,
        fmt.sign is Sign.MAGNITUDE,
        inf_nan=specials,
        has_zero=fmt.subnormals,
    )


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
}


def _native(fmt: Format) -> np.dtype[Any] | None:
    try:
        return dtype(fmt)
    except ValueError:
        return None


def _is_like_ieee(fmt: Format) -> bool:
    """Whether all codes of the highest exponent are infinities and NaNs."""
    return fmt.infinity and fmt.negative_zero and fmt.nans == (1 << fmt.trailing_bits) - 1


_WAYS: dict[str, Callable[[Task], Iterator[Way]]] = {
    "ml_dtypes": functools.partial(_numpy_ways, builtin=False),
    "numpy": functools.partial(_numpy_ways, builtin=True),
    "jax": _jax_ways,
    "apytypes": _apytypes_ways,
    "VeriFloat": _verifloat_ways,
}
