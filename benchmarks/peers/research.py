"""Adapters of research libraries: gfloat, APyTypes, qtorch, CPFloat, VeriFloat and MMA-Sim; and the oracle.

Who multiplies matrices is far slower than lowprec, so each makes a corner of the product only, with all of K:
its rate counts.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.peers.work import CONVERSIONS, OPERATIONS, Way, Work
from lowprec.arrays.checks import code_dtype
from lowprec.oracle import dot as oracle
from lowprec.oracle.convert import decode as decode_exactly
from lowprec.oracle.exact import to_float
from lowprec.spec.format import Format, Sign
from lowprec.verify.frameworks.arrays import gfloat_info

__all__ = ["apytypes", "cpfloat", "fractions", "gfloat", "mmasim", "qtorch", "verifloat"]

Array = npt.NDArray[Any]

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
}


def gfloat(work: Work) -> Iterator[Way]:
    """Convert by NumPy code on arrays, for any format and five modes."""
    gfloat = importlib.import_module("gfloat")
    mode = getattr(gfloat.RoundMode, _GFLOAT_MODES.get(work.rounding, ""), None)
    verb, fmt = work.verb, work.fmt
    if verb not in CONVERSIONS or mode is None or not fmt.exponent_bits or fmt.sign is Sign.TWOS_COMPLEMENT:
        return
    source = work.operands[0]
    info = gfloat_info(fmt)
    keywords: dict[str, Any] = {"sat": not (fmt.infinity or fmt.has_nan)}
    codes, draw = code_dtype(fmt), np.random.default_rng(1)

    def rounded() -> Any:
        if work.rounding == "stochastic":
            keywords.update(srbits=draw.integers(0, 1 << 16, source.size), srnumbits=16)
        return gfloat.round_ndarray(info, source, mode, **keywords)

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


def apytypes(work: Work) -> Iterator[Way]:
    """Encode by `from_array`, operate by operators; formats must have IEEE 754's infinities and NaNs."""
    verb, fmt = work.verb, work.fmt
    able = verb == "encode" or verb in _OPERATORS
    if not able or work.rounding != "nearest_even" or not _is_like_ieee(fmt) or fmt.sign is Sign.UNSIGNED:
        return
    if not (fmt.subnormals and fmt.exponent_bits):
        return
    kind = importlib.import_module("apytypes").APyFloatArray
    codes, fields = code_dtype(fmt), (fmt.exponent_bits, fmt.trailing_bits, fmt.bias)
    if verb == "encode":
        call = functools.partial(kind.from_array, work.operands[0], *fields)
    else:
        call = functools.partial(
            _OPERATORS[verb], *(kind.from_bits(operand, *fields) for operand in work.operands)
        )
    yield Way(False, call, lambda made: np.asarray(made.to_bits()).astype(codes))


# -- libraries that round values to values ------------------------------------------------------------


def _rounds(work: Work) -> bool:
    """Return whether a library that has no codes, and takes float32, takes part."""
    rounding = work.verb == "quantize" or (work.verb == "encode" and work.rounding == "stochastic")
    return rounding and work.operands[0].dtype == np.float32 and work.fmt.sign is Sign.MAGNITUDE


def qtorch(work: Work) -> Iterator[Way]:
    """Round by `float_quantize`, without infinities."""
    fmt = work.fmt
    mode = {"nearest_even": "nearest", "stochastic": "stochastic"}.get(work.rounding)
    if (
        mode is None
        or not _rounds(work)
        or not (1 < fmt.exponent_bits and fmt.bias == 2 ** (fmt.exponent_bits - 1) - 1)
    ):
        return
    quantize = importlib.import_module("qtorch.quant").float_quantize
    given = importlib.import_module("torch").from_numpy(work.operands[0])
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


def cpfloat(work: Work) -> Iterator[Way]:
    """Round by `cpfloatf`, into kept memory."""
    fmt = work.fmt
    mode = {"nearest_even": 1, "stochastic": 5}.get(work.rounding)
    if mode is None or not _rounds(work) or not fmt.exponent_bits or fmt.emax is None:
        return
    source = work.operands[0]
    library = ctypes.CDLL(os.environ["CPFLOAT_LIBRARY"])
    function = library.cpfloatf_sequential if work.threads == 1 else library.cpfloatf_parallel
    made = np.empty_like(source)
    options = _Options(
        b"", fmt.precision, fmt.emin, fmt.emax, 1, int(fmt.infinity), mode, 0, int(fmt.subnormals)
    )
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (made, source)]
    call = functools.partial(function, *pointers, ctypes.c_size_t(source.size), ctypes.byref(options))
    yield Way(True, call, lambda _: made)


# -- VeriFloat ----------------------------------------------------------------------------------------

#: Elements above which it takes too long for operations that it has no fast way for.
_VERIFLOAT_SLOW = {"sqrt": 1 << 20, "fma": 1 << 20}

#: Its accumulators, by variant: into binary32 or bfloat16, to nearest.
_VERIFLOAT_SUMS: dict[str, dict[str, Any]] = {
    "fp32_fma": {"order": "sequential"},
    "fp32_sequential": {"order": "sequential", "product": True},
    "bf16_sequential": {"order": "sequential"},
    "groups_of_16": {"order": "sequential", "group": 16, "align_bits": 25},
    "exact": {"order": "exact"},
}


def verifloat(work: Work) -> Iterator[Way]:
    """Operate by operators and methods of `FPArray`, which keeps flags per element; multiply by `matmul`."""
    verb, fmt = work.verb, work.fmt
    product = work.how is not None and verb in _VERIFLOAT_SUMS
    if not product and (verb not in OPERATIONS or work.operands[0].size > _VERIFLOAT_SLOW.get(verb, 1 << 28)):
        return
    kind = _verifloat_format(fmt)
    if kind is None:
        return
    library, codes = importlib.import_module("verifloat"), work.operands[0].dtype
    if product:
        keywords = dict(_VERIFLOAT_SUMS[verb])
        into = library.FPFormat(8, 7 if verb == "bf16_sequential" else 23)
        if keywords.pop("product", False):
            keywords["product"] = into
        parts, share = work.corner(192, 192**3)
        operands = [library.FPArray.from_raw(part, kind) for part in parts]
        call = functools.partial(library.matmul, *operands, acc=library.Accumulator(into, **keywords))
        yield Way(False, call, lambda made: made.to_numpy("value").astype(np.float32), share)
        return
    operands = [library.FPArray.from_raw(operand, kind) for operand in work.operands]
    function = _OPERATORS.get(verb) or getattr(library.FPArray, verb)
    yield Way(False, functools.partial(function, *operands), lambda made: made.to_numpy("raw").astype(codes))


def _verifloat_format(fmt: Format) -> Any:
    """Return VeriFloat's form of a format, or None."""
    if not fmt.negative_zero or fmt.width > 64 or not fmt.exponent_bits:
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


def _is_like_ieee(fmt: Format) -> bool:
    """Return whether all codes of the highest exponent are infinities and NaNs."""
    return fmt.infinity and fmt.negative_zero and fmt.nans == (1 << fmt.trailing_bits) - 1


# -- MMA-Sim, and the oracle --------------------------------------------------------------------------


def mmasim(work: Work) -> Iterator[Way]:
    """Multiply by the operation that is WGMMA of Hopper, 64 rows and columns and any K.

    `mmasim.nv_ptx` has it by name, but compiles an extension that this operation does not use when it is
    imported.
    """
    names = {"e4m3fn": ("e4m3", "float8_e4m3fn"), "e5m2": ("e5m2", "float8_e5m2")}
    if work.verb != "hopper_wgmma" or work.fmt.name not in names:
        return
    torch, fdpa = importlib.import_module("torch"), importlib.import_module("mmasim.arithmetic.fdpa")
    ptx, kind = names[work.fmt.name]
    multiply = fdpa.MMA_T_FDPA(13, "RZ-E8M13", 32, -133, ptx, ptx)
    parts, share = work.corner(64, 64 * 64 * 384)
    x, y = (torch.from_numpy(part).view(getattr(torch, kind)) for part in parts)
    zero = torch.zeros((len(x), y.shape[1]))
    yield Way(False, functools.partial(multiply, x, y, zero), lambda made: np.asarray(made.numpy()), share)


def fractions(work: Work) -> Way:
    """Multiply by the oracle: exact terms as Python's fractions."""
    assert work.how is not None
    how, output = work.how, work.how.output[0]
    (x, y), share = work.corner(8, 8 * 384)

    def call() -> Array:
        rows = [[decode_exactly(code, work.fmt) for code in row] for row in x.tolist()]
        columns = [[decode_exactly(code, work.fmt) for code in column] for column in y.T.tolist()]
        codes = [[oracle.dot(row, column, how) for column in columns] for row in rows]
        return np.array(
            [[to_float(decode_exactly(code, output)) for code in row] for row in codes], np.float32
        )

    return Way(False, call, np.asarray, share)
