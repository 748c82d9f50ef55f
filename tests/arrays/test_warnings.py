"""No verb warns or raises what NumPy signals on the way, whatever the operands are."""

import contextlib
import itertools

import ml_dtypes
import numpy as np
import pytest

import lowprec as lp
from lowprec.arrays import special


def patterns(dtype, *words):
    """Elements with these bits."""
    return np.array(words, f"u{np.dtype(dtype).itemsize}").view(dtype)


#: Signaling and quiet NaNs, infinities, the smallest and the largest number, zero and 1.
OPERANDS = {
    "float32": patterns(
        np.float32, 0x7F800001, 0xFF800001, 0x7FC00000, 1, 0x7F7FFFFF, 0x7F800000, 0, 0x3F800000
    ),
    "float64": patterns(
        np.float64, (0x7FF << 52) + 1, (0xFFF << 52) + 1, 1, (0x7FF << 52) - 1, 0x7FF << 52, 0, 0x3FF << 52
    ),
    "float16": patterns(np.float16, 0x7C01, 0xFC01, 0x7E00, 1, 0x7BFF, 0x7C00, 0, 0x3C00),
    "bfloat16": patterns(ml_dtypes.bfloat16, 0x7F81, 0xFF81, 0x7FC0, 1, 0x7F7F, 0x7F80, 0, 0x3F80),
    "int64": np.array([0, 1, -1, (1 << 63) - 1, -(1 << 63)]),
    "bool": np.array([True, False]),
    "e5m2": np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e5m2),
    "e8m0fnu": np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e8m0fnu),
    "all NaN": np.full(5, np.nan),
    "empty": np.zeros(0, np.float32),
}
TARGETS = ("e4m3fn", "e2m1fn", "e8m0fnu", "int8", "bfloat16", "binary32")
BLOCKS = ("mxfp4", "mxint8", "nvfp4", "bfp4", "fp8_block_1x128")
RESULTS = ("e4m3fn", "e2m1fn", "bfloat16", "binary32")
ACCUMULATIONS = ("exact", "fp32_fma", "bf16_sequential", "fp64_sequential", "hopper_mma_bfloat16_binary32")
#: What NumPy signals, it signals around the kernels, of which each pair of types has its own. So float32 goes
#: to every format, other operands to two in turn and each format has some of them; all to all: `-m long`.
TO_ALL = pytest.mark.parametrize(
    "to_all", [pytest.param(False, marks=pytest.mark.apart), pytest.param(True, marks=pytest.mark.long)]
)


def in_turn(kind, names, to_all):
    """All names, or two."""
    place, half = list(OPERANDS).index(kind), len(names) // 2
    both = (names[place % len(names)], names[(place + half) % len(names)])
    return names if to_all or kind == "float32" else both


@pytest.fixture(autouse=True)
def _everything_raises():
    """As a careful user has it; warnings are errors in all tests."""
    with np.errstate(all="raise"):
        yield


def quiet(verb, *given, **options):
    """Call a verb, which may refuse NaNs and negative numbers that a format lacks; read a report whole."""
    with contextlib.suppress(ValueError):
        made = verb(*given, **options)
        if isinstance(made, lp.ErrorReport):
            assert str(made)
            assert made.as_dict()
        elif isinstance(made, lp.BlockArray):
            lp.decode(made)


@TO_ALL
@pytest.mark.parametrize("kind", OPERANDS)
def test_conversions_and_statistics_signal_nothing(kind, to_all):
    """With each projection, with flags and in either order of memory."""
    x, targets = OPERANDS[kind], in_turn(kind, TARGETS, to_all)
    for name, how in itertools.product(
        targets, ({}, {"saturation": "finite"}, {"projection": lp.Projection(nan="max")})
    ):
        for given in (x, x[::-1]):
            quiet(lp.encode, given, name, **how)
            quiet(lp.quantize, given, name, **how)
            quiet(lp.encode, given, name, flags=np.zeros(x.shape, np.uint8), **how)
        quiet(lp.error_report, x, name, **how)
        quiet(lp.error_report, x, name, scale=0.5, **how)
    for name, method in itertools.product(targets, ("max", "mse", "percentile")):
        quiet(lp.scale_for, x, name, method)
    for name in in_turn(kind, BLOCKS, to_all):
        quiet(lp.encode, x, name)
        quiet(lp.error_report, x, name)


@TO_ALL
@pytest.mark.parametrize("kind", OPERANDS)
def test_operations_and_products_signal_nothing(kind, to_all):
    """Invalid ones too: `flags=` is where they are told."""
    x = OPERANDS[kind]
    for name in in_turn(kind, RESULTS, to_all):
        for operation in ("add", "divide", "minimum", "remainder"):
            quiet(getattr(lp, operation), x, x[::-1], name)
        quiet(lp.fma, x, x[::-1], x, name)
        quiet(lp.sqrt, x, name)
        quiet(lp.nextafter, x, x[::-1], name)
        quiet(lp.ulp, x, name)
    for how in in_turn(kind, ACCUMULATIONS, to_all):
        quiet(lp.dot, x, x, how)
        quiet(lp.matmul, np.ones((x.size, 40)), np.ones((40, 3)), how, addend=x[:, None])


@pytest.mark.parametrize("kind", ["float32", "float64", "float16", "bfloat16"])
def test_comparisons_signal_nothing(kind):
    """Of signaling NaNs among operands, results, scales and terms: in blocks, by operation, and of sums."""
    x = OPERANDS[kind]
    unlike = {"why": False, "limit": None}
    for name in ("nvfp4", "mxfp4"):
        assert lp.compare(x, lp.encode(x, name).codes ^ 1, name, **unlike).mismatches == x.size
        assert not lp.compare(x, lp.decode(lp.encode(x, name)), name, **unlike).mismatches
        assert lp.compare(x, x[::-1], name, **unlike).mismatches
    assert lp.compare(x, x[::-1], "e4m3fn", operation="sqrt", **unlike).mismatches
    with pytest.raises(ValueError, match="holds nan at index"):
        lp.compare(x, np.zeros(x.size, np.uint8), "e4m3fn", scale=x, **unlike)
    for how in ("exact", None):
        results, sides = np.full(x.size, 2, np.float32), (x[:, None], x[:, None])
        assert lp.compare(sides, results, operation="dot", accumulation=how, **unlike).mismatches


def test_error_functions_signal_nothing():
    """Of any type, which becomes float64."""
    for kind in ("float32", "float16", "bfloat16"):
        assert np.isnan(special.erf(OPERANDS[kind])).sum() == 3
