"""Kernels of many results, which have formats and rules of their own, against those of few: same bits."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import lowprec as lp
from lowprec.kernels import engine
from tests.support import border_points, both_signs

pytestmark = pytest.mark.apart

FORMATS = ("e4m3fn", "e5m2", "binary16", "bfloat16", "binary8p3se", "e2m1fn", "e4m3fnuz", "e8m0fnu")
ALL_16 = np.arange(1 << 16, dtype=np.uint16)
TYPES = (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)
OPERATIONS = ("add", "subtract", "multiply", "divide", "sqrt", "fma")
FLUSHING = lp.Projection(subnormals="flush_both", tininess="before")
BLOCKS = ("mxfp4", "mxfp6_e2m3", "mxfp8_e4m3", "mxfp8_e5m2", "mxint8", "nvfp4", "bnb_nf4")


def _values(count, seed=0):
    """Numbers of binary32: of all sizes, near 1, short ones, whose sums are often ties, and specials."""
    rng = np.random.default_rng(seed)
    anywhere = rng.integers(0, 1 << 32, count, dtype=np.uint32).view(np.float32)
    near = rng.standard_normal(count).astype(np.float32)
    short = rng.integers(-64, 64, count).astype(np.float32) / 16
    special = both_signs(np.array([0, 2.0**-149, 2.0**-126, 65504, 65520, 3e38, np.inf, np.nan], np.float32))
    given = np.concatenate([anywhere, near, short, rng.permutation(np.resize(special, count))])
    return rng.permutation(given).reshape(8, -1)  # of one axis, few results may come from a bound kernel


@pytest.fixture
def compared(monkeypatch):
    """What holds a call's results by kernels of few against those by kernels of many."""

    def compare(call, *arguments, **options):
        found = []
        for many in (1 << 62, 0):
            monkeypatch.setattr(engine, "MANY", many)
            monkeypatch.setattr(engine, "PAYS", 0)
            flags = np.zeros(arguments[0].shape, np.uint8)
            raised = {"flags": flags} if options.get("flags") else {}
            made = call(*arguments, **{**options, **raised})
            arrays = (made.codes, made.scales) if isinstance(made, lp.BlockArray) else (made,)
            found.append([each.tobytes() for each in (*arrays, flags)])
        assert found[0] == found[1], (call.__name__, arguments[1:], options)

    return compare


@pytest.mark.parametrize("fmt", FORMATS)
def test_conversions(compared, fmt):
    """From every type, in modes of all kinds, and back."""
    target = lp.format(fmt)
    with np.errstate(all="ignore"):
        last = target.max_magnitude + 1
        borders = border_points(target, {*range(min(last, 300)), *range(max(last - 300, 0), last)})
        sources = [_values(1 << 14), ALL_16.view(np.float16), ALL_16.view(ml_dtypes.bfloat16), borders]
        values = np.concatenate([each.astype(np.float32).reshape(-1) for each in sources])
        if not target.has_nan:
            values = values[~np.isnan(values)]
        if target.sign is lp.Sign.UNSIGNED:
            values = abs(values)
        given = [values[: values.size & ~7].reshape(8, -1).astype(kind) for kind in TYPES]
    for each in given:
        compared(lp.encode, each, fmt)
    modes = ("toward_zero", "toward_positive", "nearest_away") if fmt != "e8m0fnu" else ("toward_zero",)
    for mode in modes:
        compared(lp.encode, given[0], fmt, rounding=mode)
        compared(lp.encode, given[0], fmt, rounding=mode, flags=True)
    compared(lp.encode, given[0], fmt, rounding="stochastic(8)", rng=7)
    compared(lp.quantize, given[0], fmt)
    compared(lp.quantize, given[3], fmt)
    codes = np.arange(1 << target.width, dtype=f"u{target.code_bits // 8}").reshape(4, -1)
    compared(lp.decode, codes, fmt)
    if fmt != "e8m0fnu":
        compared(lp.cast, codes, fmt, "bfloat16")


@pytest.mark.parametrize("operation", OPERATIONS)
def test_operations(compared, operation):
    """Into formats of all routes, by all engines of elements, with flags and without."""
    count = {"sqrt": 1, "fma": 3}.get(operation, 2)
    operands = [_values(1 << 14, seed) for seed in range(count)]
    verb = getattr(lp, operation)
    for fmt in (*FORMATS[:5], "binary32"):
        compared(verb, *operands, fmt)
        compared(verb, *operands, fmt, rounding="toward_negative")
        compared(verb, *operands, fmt, rounding="stochastic(16)", rng=3)
        compared(verb, *operands, fmt, flags=True)
        compared(verb, *operands, fmt, projection=FLUSHING, flags=True)
    with np.errstate(all="ignore"):
        for kind in TYPES[1:]:
            compared(verb, *[each.astype(kind) for each in operands], "bfloat16")


@pytest.mark.parametrize("fmt", BLOCKS)
def test_blocks(compared, fmt):
    """Along both axes, from every type, and their values."""
    values = np.nan_to_num(_values(1 << 10)[:, :512], posinf=1, neginf=1)
    for kind in TYPES:
        for axis in (0, 1):
            given = np.clip(values, -60000, 60000).astype(kind)
            compared(lp.encode, given.T if axis == 0 else given, fmt, axis=axis)
    blocks = lp.encode(values, fmt)
    for kind in (np.float32, np.float64):
        compared(_values_of, values, blocks, kind)


def _values_of(_, blocks, kind):
    return blocks.values(dtype=kind)
