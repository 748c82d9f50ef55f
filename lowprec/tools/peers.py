"""Peers: other libraries, and how each converts numbers, as a small adapter that gives calls to time.

Those that round without encoding (qtorch, CPFloat) take part where values are rounded to values,
and in stochastic rounding, which hardly any library does to codes. Nothing here is needed to run:
a peer that is not installed is left out. What peers do in operations is in `arithpeers`, in products
of matrices in `dotpeers`.

Floor 5.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import importlib.metadata
import logging
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.arrays.checks import code_dtype, dtype
from lowprec.arrays.threads import get_threads, set_threads
from lowprec.spec.catalog import E2M1FN, MXFP4, MXFP6_E2M3, MXFP6_E3M2, MXFP8_E4M3, MXFP8_E5M2, NVFP4
from lowprec.spec.format import Sign
from lowprec.tools import blas
from lowprec.verify.frameworks import FRAMEWORKS

__all__ = ["PEERS", "Peer", "Way", "Work", "find", "said", "switch"]

Array = npt.NDArray[Any]


class Work(NamedTuple):
    """What is to be done: "encode", "decode" or "quantize" an array, which for decoding holds codes.

    Or to encode it in "blocks" along its last axis.
    """

    verb: str
    source: Array
    fmt: Any  #: a Format, or for blocks a BlockFormat
    rounding: str = "nearest_even"  #: or "stochastic"
    threads: int = 1


class Way(NamedTuple):
    """One way of a peer to do it: into memory that it has (`out`) or new memory, and how to read what it gave."""

    out: bool
    call: Callable[[], Any]
    read: Callable[[Any], Array]


@dataclass(frozen=True)
class Peer:
    """A library that lowprec is timed against.

    Parameters
    ----------
    name : str
    modules : tuple of str
        What to import; empty for what is no Python package.
    ways : function
        What it can do of some conversion; nothing, if it cannot do it.
    limit : int
        Elements above which it would take too long.
    """

    name: str
    modules: tuple[str, ...]
    ways: Callable[[Work], Iterator[Way]]
    limit: int = 1 << 28

    @property
    def version(self) -> str | None:
        """The installed version, or None."""
        if not self.modules:
            return "from $CPFLOAT_LIBRARY" if os.environ.get("CPFLOAT_LIBRARY") else None
        try:
            return importlib.metadata.version(self.name)
        except importlib.metadata.PackageNotFoundError:
            return None


def find(threads: int = 1) -> tuple[dict[str, Peer], dict[str, str]]:
    """The peers that can be used, imported, and what keeps each of the others away.

    Parameters
    ----------
    threads : int
        How many JAX may start: it cannot be told later.

    Returns
    -------
    found : dict of Peer, by name
    missing : dict of str, by name
    """
    found, missing = {}, {}
    for peer in PEERS:
        if peer.version is None:
            missing[peer.name] = "not installed"
            continue
        try:
            if peer.name == "jax":
                _start_jax(threads)
            for module in peer.modules:
                importlib.import_module(module)
            found[peer.name] = peer
        except Exception as error:  # whatever a library does when it is imported
            missing[peer.name] = said(error)
    return found, missing


def said(error: Exception) -> str:
    """The kind of an exception and the beginning of its message, on one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:80]}"


def switch(threads: int) -> None:
    """Let lowprec, torch and the products of NumPy use so many threads."""
    if get_threads() != threads:
        set_threads(threads)
    blas.switch(threads)
    if "torch" in sys.modules and (torch := importlib.import_module("torch")).get_num_threads() != threads:
        torch.set_num_threads(threads)


def _start_jax(threads: int) -> None:
    """XLA looks for the number of its threads in $NPROC, once."""
    before = os.environ.get("NPROC")
    os.environ["NPROC"] = str(threads)
    try:
        importlib.import_module("jax").devices("cpu")
    finally:
        if before is None:
            del os.environ["NPROC"]
        else:
            os.environ["NPROC"] = before


# -- NumPy and ml_dtypes ----------------------------------------------------------------------------


def _numpy_ways(work: Work, *, builtin: bool) -> Iterator[Way]:
    """By `astype`, and by `copyto` for given memory. NumPy has no other mode than nearest_even."""
    verb, source, fmt = work.verb, work.source, work.fmt
    try:
        native = dtype(fmt)
    except ValueError:
        return
    if work.rounding != "nearest_even" or not fmt.exponent_bits or (native.isbuiltin == 1) != builtin:
        return
    codes = code_dtype(fmt)
    narrow, wide = np.empty(source.shape, native), np.empty(source.shape, np.float32)
    cast = functools.partial(np.copyto, casting="unsafe")
    if verb == "encode":
        yield Way(True, functools.partial(cast, narrow, source), lambda _: narrow.view(codes))
        yield Way(False, functools.partial(source.astype, native), lambda made: made.view(codes))
    elif verb == "decode":
        typed = source.view(native)
        yield Way(True, functools.partial(cast, wide, typed), lambda _: wide)
        yield Way(False, functools.partial(typed.astype, np.float32), lambda made: made)
    else:

        def there_and_back() -> None:
            cast(narrow, source)
            cast(wide, narrow)

        yield Way(True, there_and_back, lambda _: wide)
        yield Way(False, lambda: source.astype(native).astype(np.float32), lambda made: made)


# -- torch ------------------------------------------------------------------------------------------


def _torch_ways(work: Work) -> Iterator[Way]:
    """By `to`, and by `copy_` for given memory."""
    torch = importlib.import_module("torch")
    verb, source, fmt = work.verb, work.source, work.fmt
    if work.rounding != "nearest_even" or fmt not in FRAMEWORKS["torch"].targets():
        return
    native, codes = getattr(torch, dtype(fmt).name), code_dtype(fmt)
    words = f"int{8 * codes.itemsize}"
    narrow, wide = torch.empty(source.shape, dtype=native), torch.empty(source.shape, dtype=torch.float32)

    def read(made: Any) -> Array:
        return np.asarray(made.view(getattr(torch, words)).numpy().view(codes))

    if verb == "encode":
        given = torch.from_numpy(source)
        yield Way(True, functools.partial(narrow.copy_, given), read)
        yield Way(False, functools.partial(given.to, native), read)
    elif verb == "decode":
        given = torch.from_numpy(source.view(words)).view(native)
        yield Way(True, functools.partial(wide.copy_, given), np.asarray)
        yield Way(False, functools.partial(given.to, torch.float32), np.asarray)
    else:
        given = torch.from_numpy(source)
        yield Way(True, lambda: wide.copy_(narrow.copy_(given)), np.asarray)
        yield Way(False, lambda: given.to(native).to(torch.float32), np.asarray)


def _torchao_ways(work: Work) -> Iterator[Way]:
    """By `to_mx` and `nvfp4_quantize`, of whole arrays in torch's operations."""
    if work.verb != "blocks":
        return
    torch = importlib.import_module("torch")
    logging.disable(logging.WARNING)  # it tells of extensions that it does without
    try:
        tensors = importlib.import_module("torchao.prototype.mx_formats.mx_tensor")
        nvfp4 = importlib.import_module("torchao.prototype.mx_formats.nvfp4_tensor")
    finally:
        logging.disable(logging.NOTSET)
    given, fmt = torch.from_numpy(work.source), work.fmt
    fp4 = fmt.element == E2M1FN

    def read(made: Any) -> Array:
        codes = np.asarray(made[1].view(torch.uint8))
        return np.stack([codes & 15, codes >> 4], axis=-1).reshape(work.source.shape) if fp4 else codes

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


def _jax_ways(work: Work) -> Iterator[Way]:
    """By `astype`, compiled. There is no given memory in JAX."""
    jax = importlib.import_module("jax")
    verb, source, fmt = work.verb, work.source, work.fmt
    if work.rounding != "nearest_even" or fmt not in FRAMEWORKS["jax"].targets():
        return
    native = dtype(fmt)

    def convert(values: Any) -> Any:
        if verb == "decode":
            return values.astype(np.float32)
        return values.astype(native) if verb == "encode" else values.astype(native).astype(np.float32)

    with jax.enable_x64(True), jax.default_device(jax.devices("cpu")[0]):  # else float64 would come in as float32
        given = jax.numpy.asarray(source.view(native) if verb == "decode" else source)
        compiled = jax.jit(convert)
        compiled(given)
    codes = code_dtype(fmt) if verb == "encode" else np.dtype(np.float32)
    yield Way(False, lambda: compiled(given).block_until_ready(), lambda made: np.asarray(made).view(codes))


# -- libraries for research -------------------------------------------------------------------------


def _gfloat_ways(work: Work) -> Iterator[Way]:
    """By whole-array NumPy code, for any format and five modes."""
    gfloat = importlib.import_module("gfloat")
    mode = getattr(gfloat.RoundMode, _GFLOAT_MODES.get(work.rounding, ""), None)
    if mode is None or not work.fmt.exponent_bits or work.fmt.sign is Sign.TWOS_COMPLEMENT:
        return
    verb, source, fmt = work.verb, work.source, work.fmt
    info = gfloat.FormatInfo(
        name=fmt.name,
        k=fmt.width,
        precision=fmt.precision,
        bias=fmt.bias,
        is_signed=fmt.sign is Sign.MAGNITUDE,
        domain=gfloat.Domain.Extended if fmt.infinity else gfloat.Domain.Finite,
        has_nz=fmt.negative_zero,
        num_high_nans=fmt.nans if fmt.negative_zero else 0,
        has_subnormals=fmt.subnormals,
        is_twos_complement=False,
    )
    given: dict[str, Any] = {"sat": not (fmt.infinity or fmt.has_nan)}
    codes, draw = code_dtype(fmt), np.random.default_rng(1)

    def rounded() -> Any:
        if work.rounding == "stochastic":
            given.update(srbits=draw.integers(0, 1 << 16, source.size), srnumbits=16)
        return gfloat.round_ndarray(info, source, mode, **given)

    if verb == "encode":
        yield Way(False, lambda: gfloat.encode_ndarray(info, rounded()), lambda made: made.astype(codes))
    elif verb == "decode":
        yield Way(False, lambda: gfloat.decode_ndarray(info, source), lambda made: made.astype(np.float32))
    else:
        yield Way(False, rounded, lambda made: made.astype(np.float32))


_GFLOAT_MODES = {
    "nearest_even": "TiesToEven",
    "nearest_away": "TiesToAway",
    "toward_zero": "TowardZero",
    "toward_positive": "TowardPositive",
    "toward_negative": "TowardNegative",
    "stochastic": "Stochastic",
}


def _apytypes_ways(work: Work) -> Iterator[Way]:
    """By `from_array`, for formats with infinities and NaNs as IEEE 754 has them."""
    fmt, source = work.fmt, work.source
    like_ieee = fmt.infinity and fmt.sign is Sign.MAGNITUDE and fmt.negative_zero and fmt.subnormals
    if work.verb != "encode" or work.rounding != "nearest_even" or not like_ieee:
        return
    make = importlib.import_module("apytypes").APyFloatArray.from_array
    codes = code_dtype(fmt)
    call = functools.partial(make, source, fmt.exponent_bits, fmt.trailing_bits, fmt.bias)
    yield Way(False, call, lambda made: np.asarray(made.to_bits()).astype(codes))


def _qtorch_ways(work: Work) -> Iterator[Way]:
    """By `float_quantize`: of float32, without infinities."""
    fmt, source = work.fmt, work.source
    mode = {"nearest_even": "nearest", "stochastic": "stochastic"}.get(work.rounding)
    usual = fmt.exponent_bits > 1 and fmt.bias == (1 << (fmt.exponent_bits - 1)) - 1 and fmt.sign is Sign.MAGNITUDE
    if mode is None or not usual or source.dtype != np.float32 or not _is_rounding(work):
        return
    quantize = importlib.import_module("qtorch.quant").float_quantize
    given = importlib.import_module("torch").from_numpy(source)
    yield Way(False, lambda: quantize(given, fmt.exponent_bits, fmt.trailing_bits, mode), np.asarray)


class _Options(ctypes.Structure):
    """What the functions of CPFloat 0.6 are told: `optstruct` of its cpfloat_definitions.h."""

    _fields_ = [
        ("format", ctypes.c_char * 15),
        ("precision", ctypes.c_uint),
        ("emin", ctypes.c_int),
        ("emax", ctypes.c_int),
        ("own_exponent_range", ctypes.c_int),
        ("infinity", ctypes.c_int),
        ("rounding", ctypes.c_int),
        ("saturation", ctypes.c_int),
        ("subnormals", ctypes.c_int),
        ("soft_errors", ctypes.c_int),
        ("soft_error_probability", ctypes.c_double),
        ("seeds", ctypes.c_void_p * 3),
    ]


_CPFLOAT_MODES = {"nearest_even": 1, "stochastic": 5}


def _cpfloat_ways(work: Work) -> Iterator[Way]:
    """By `cpfloatf`: of float32 in given memory."""
    fmt, source = work.fmt, work.source
    mode = _CPFLOAT_MODES.get(work.rounding)
    usual = fmt.exponent_bits and fmt.emax is not None and fmt.sign is Sign.MAGNITUDE
    if mode is None or not usual or source.dtype != np.float32 or not _is_rounding(work):
        return
    library = ctypes.CDLL(os.environ["CPFLOAT_LIBRARY"])
    function = library.cpfloatf_sequential if work.threads == 1 else library.cpfloatf_parallel
    made = np.empty_like(source)
    options = _Options(b"", fmt.precision, fmt.emin, fmt.emax, 1, int(fmt.infinity), mode, 0, int(fmt.subnormals))
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (made, source)]
    call = functools.partial(function, *pointers, ctypes.c_size_t(source.size), ctypes.byref(options))
    yield Way(True, call, lambda _: made)


def _is_rounding(work: Work) -> bool:
    """Whether a library that has no codes takes part."""
    return work.verb == "quantize" or (work.verb == "encode" and work.rounding == "stochastic")


#: Every peer that there is an adapter for.
PEERS = (
    Peer("ml_dtypes", ("ml_dtypes",), functools.partial(_numpy_ways, builtin=False)),
    Peer("numpy", ("numpy",), functools.partial(_numpy_ways, builtin=True)),
    Peer("torch", ("torch",), _torch_ways),
    Peer("torchao", ("torch",), _torchao_ways),
    Peer("jax", ("jax",), _jax_ways),
    Peer("gfloat", ("gfloat",), _gfloat_ways, limit=1 << 16),
    Peer("apytypes", ("apytypes",), _apytypes_ways, limit=1 << 20),
    Peer("qtorch", ("torch", "qtorch.quant"), _qtorch_ways, limit=1 << 20),
    Peer("CPFloat", (), _cpfloat_ways),
    Peer("VeriFloat", ("verifloat",), lambda work: iter(())),  # takes part in operations and products
    Peer("mmasim", ("torch", "mmasim.arithmetic.fdpa"), lambda work: iter(())),  # takes part in products
)
