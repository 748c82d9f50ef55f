"""Adapters of NumPy and ml_dtypes, torch, torchao and JAX."""

from __future__ import annotations

import functools
import importlib
import logging
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.peers.work import COMPARISONS, CONVERSIONS, OPERATIONS, Way, Work, native
from lowprec.arrays.checks import code_dtype, dtype
from lowprec.spec.catalog import E2M1FN, MXFP4, MXFP6_E2M3, MXFP6_E3M2, MXFP8_E4M3, MXFP8_E5M2, NVFP4
from lowprec.verify.frameworks import FRAMEWORKS

__all__ = ["jax", "numpy", "start_jax", "torch", "torchao"]

Array = npt.NDArray[Any]


def numpy(work: Work, *, builtin: bool) -> Iterator[Way]:
    """Cast by `astype`, or `copyto` into kept memory; operate by NumPy's functions, which ml_dtypes extends.

    NumPy has no other mode than nearest_even.
    """
    verb, fmt = work.verb, work.fmt
    known = verb in (*CONVERSIONS, *OPERATIONS, *COMPARISONS)
    if not known or work.rounding != "nearest_even" or not fmt.exponent_bits:
        return
    kind, codes, source = native(fmt), code_dtype(fmt), work.operands[0]
    if kind is None or (kind.isbuiltin == 1) != builtin:
        return
    narrow, wide = np.empty(source.shape, kind), np.empty(source.shape, np.float32)
    cast = functools.partial(np.copyto, casting="unsafe")

    def read(made: Array) -> Array:
        return made.view(codes)

    if verb in (*OPERATIONS, *COMPARISONS):
        function = getattr(np, verb, None)
        if function is not None:
            truth = verb in COMPARISONS and verb != "minimum"
            call = functools.partial(function, *(operand.view(kind) for operand in work.operands))
            out = np.empty(source.shape, bool) if truth else narrow
            yield Way(True, functools.partial(call, out=out), np.asarray if truth else read)
            yield Way(False, call, np.asarray if truth else read)
    elif verb == "encode":
        yield Way(True, functools.partial(cast, narrow, source), lambda _: narrow.view(codes))
        yield Way(False, functools.partial(source.astype, kind), read)
    elif verb == "decode":
        typed = source.view(kind)
        yield Way(True, functools.partial(cast, wide, typed), lambda _: wide)
        yield Way(False, functools.partial(typed.astype, np.float32), np.asarray)
    else:

        def there_and_back() -> None:
            cast(narrow, source)
            cast(wide, narrow)

        yield Way(True, there_and_back, lambda _: wide)
        yield Way(False, lambda: source.astype(kind).astype(np.float32), np.asarray)


# -- torch ------------------------------------------------------------------------------------------


def torch(work: Work) -> Iterator[Way]:
    """Cast by `to`, or by `copy_` into kept memory. There are no operations on 8-bit floats."""
    torch = importlib.import_module("torch")
    verb, fmt = work.verb, work.fmt
    if verb not in CONVERSIONS or work.rounding != "nearest_even" or fmt not in FRAMEWORKS["torch"].targets():
        return
    source, kind, codes = work.operands[0], getattr(torch, dtype(fmt).name), code_dtype(fmt)
    words = f"int{8 * codes.itemsize}"
    narrow, wide = torch.empty(source.shape, dtype=kind), torch.empty(source.shape, dtype=torch.float32)

    def read(made: Any) -> Array:
        return np.asarray(made.view(getattr(torch, words)).numpy().view(codes))

    if verb == "encode":
        given = torch.from_numpy(source)
        yield Way(True, functools.partial(narrow.copy_, given), read)
        yield Way(False, functools.partial(given.to, kind), read)
    elif verb == "decode":
        given = torch.from_numpy(source.view(words)).view(kind)
        yield Way(True, functools.partial(wide.copy_, given), np.asarray)
        yield Way(False, functools.partial(given.to, torch.float32), np.asarray)
    else:
        given = torch.from_numpy(source)
        yield Way(True, lambda: wide.copy_(narrow.copy_(given)), np.asarray)
        yield Way(False, lambda: given.to(kind).to(torch.float32), np.asarray)


def torchao(work: Work) -> Iterator[Way]:
    """Encode blocks by `to_mx` and `nvfp4_quantize`, in torch's operations on arrays."""
    if work.verb != "blocks":
        return
    torch = importlib.import_module("torch")
    logging.disable(logging.WARNING)  # it tells of extensions that it does without
    try:
        tensors = importlib.import_module("torchao.prototype.mx_formats.mx_tensor")
        nvfp4 = importlib.import_module("torchao.prototype.mx_formats.nvfp4_tensor")
    finally:
        logging.disable(logging.NOTSET)
    source, fmt = work.operands[0], work.fmt
    given, fp4 = torch.from_numpy(source), fmt.element == E2M1FN

    def read(made: Any) -> Array:
        codes = np.asarray(made[1].view(torch.uint8))
        return np.stack([codes & 15, codes >> 4], axis=-1).reshape(source.shape) if fp4 else codes

    if fmt in _TORCHAO_TYPES:
        kind = getattr(torch, _TORCHAO_TYPES[fmt], _TORCHAO_TYPES[fmt])
        yield Way(False, lambda: tensors.to_mx(given, kind, 32), read)
    elif fmt == NVFP4:

        def quantize() -> Any:
            return nvfp4.nvfp4_quantize(given, 16, nvfp4.per_tensor_amax_to_scale(given.abs().max()))

        yield Way(False, quantize, read)


_TORCHAO_TYPES = {
    MXFP8_E4M3: "float8_e4m3fn",
    MXFP8_E5M2: "float8_e5m2",
    MXFP6_E2M3: "fp6_e2m3",
    MXFP6_E3M2: "fp6_e3m2",
    MXFP4: "float4_e2m1fn_x2",
}


# -- JAX --------------------------------------------------------------------------------------------


def start_jax(threads: int) -> None:
    """Import JAX. XLA looks for the number of its threads in $NPROC, once."""
    before = os.environ.get("NPROC")
    os.environ["NPROC"] = str(threads)
    try:
        importlib.import_module("jax").devices("cpu")
    finally:
        if before is None:
            del os.environ["NPROC"]
        else:
            os.environ["NPROC"] = before


def jax(work: Work) -> Iterator[Way]:
    """Cast by `astype`, operate by the compiled functions of `jax.numpy`. Results are in new memory."""
    jax = importlib.import_module("jax")
    verb, fmt = work.verb, work.fmt
    if verb not in (*CONVERSIONS, *OPERATIONS) or work.rounding != "nearest_even":
        return
    kind, function = native(fmt), getattr(jax.numpy, verb, None) if verb in OPERATIONS else None
    if kind is None or fmt not in FRAMEWORKS["jax"].targets() or (verb in OPERATIONS and function is None):
        return

    def convert(values: Any) -> Any:
        if verb == "decode":
            return values.astype(np.float32)
        return values.astype(kind) if verb == "encode" else values.astype(kind).astype(np.float32)

    with (
        jax.enable_x64(True),
        jax.default_device(jax.devices("cpu")[0]),
    ):  # else float64 would come in as float32
        arrays = (
            work.operands if verb in ("encode", "quantize") else [codes.view(kind) for codes in work.operands]
        )
        given = [jax.numpy.asarray(array) for array in arrays]
        compiled = jax.jit(function or convert)
        compiled(*given)
    read = np.dtype(np.float32) if verb in ("decode", "quantize") else code_dtype(fmt)
    yield Way(False, lambda: compiled(*given).block_until_ready(), lambda made: np.asarray(made).view(read))
