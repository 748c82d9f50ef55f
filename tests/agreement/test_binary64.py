"""Values in binary64: converted to binary32 and back, and decoded blocks, against the scalar engine."""

from __future__ import annotations

import dataclasses

import ml_dtypes
import numpy as np
import pytest

import lowprec as lp
from lowprec.kernels.request import CONVERT, BlockDecoding, Elementwise
from lowprec.kernels.vector import program
from lowprec.spec import catalog
from lowprec.spec.projection import Projection
from lowprec.spec.rounding import MODES

#: A minute of compilation: `.ci/run` has them in a step of its own.
pytestmark = pytest.mark.apart

BLOCKS = ("mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e2m3", "mxfp4_e2m1", "mxint8", "nvfp4")


@np.errstate(all="ignore")
def edges():
    """Numbers of binary32 in each binade, their midpoints, what lies next to both, and what is not finite."""
    fields = np.arange(0, 256, dtype=np.uint32) << 23
    words = np.concatenate(
        [fields, fields + 1, fields + 0x7FFFFF, fields + 0x400000, np.arange(40, dtype=np.uint32)]
    )
    single = words.view(np.float32)[np.isfinite(words.view(np.float32))].astype(np.float64)
    above = np.nextafter(single.astype(np.float32), np.float32(np.inf)).astype(np.float64)
    half = np.where(np.isfinite(above), (single + above) / 2, single + 2.0**103)
    near = [single, half, np.nextafter(half, 0), np.nextafter(half, np.inf), np.nextafter(single, np.inf)]
    others = [2.0**-149, 2.0**-150, 2.0**-151, 2.0**-1074, 1e300, 2.0**128, np.inf, np.nan, 0.0]
    x = np.concatenate([*near, others])
    return np.concatenate([x, -x])


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("verb", [lp.encode, lp.quantize])
def test_binary32_numbers_of_binary64_ones(verb, mode):
    """In every mode, at every tie."""
    x = edges()
    for flagged in (False, True):
        made = []
        for backend in (None, "scalar"):
            flags = np.zeros(x.size, np.uint8) if flagged else None
            result = verb(x, "binary32", rounding=mode, flags=flags, backend=backend)
            made.append((result.view(f"u{result.itemsize}"), flags))
        assert np.array_equal(made[0][0], made[1][0])
        assert not flagged or np.array_equal(made[0][1], made[1][1])


@np.errstate(over="ignore")
@pytest.mark.parametrize("name", ["bfloat16", "binary32", "binary16", "e8m0fnu", "e5m2"])
def test_decoding_to_binary64(name):
    """Subnormal numbers and every NaN."""
    fmt = lp.format(name)
    if fmt.width <= 16:
        codes = np.arange(1 << fmt.width)
    else:
        codes = np.concatenate(
            [edges().astype(np.float32).view(np.uint32), [0x7F800001, 0xFFC00001, 0x7FFFFFFF]]
        )
    got, want = (lp.decode(codes, fmt, dtype=np.float64, backend=backend) for backend in (None, "scalar"))
    assert np.array_equal(got.view(np.uint64), want.view(np.uint64))
    assert not np.isnan(got).all()


@pytest.mark.parametrize("name", ["bfloat16", "e8m0fnu", "binary16"])
def test_results_in_binary64(name):
    """Values of a format in the type that they came in."""
    x = np.concatenate([edges(), np.arange(1, 300) * 2.0**-140])
    for rounding in ("nearest_even", "toward_zero", "stochastic(7)"):
        options = {"rounding": rounding, "rng": 3 if "stoch" in rounding else None}
        got, want = (lp.quantize(x, name, backend=backend, **options) for backend in (None, "scalar"))
        assert np.array_equal(got.view(np.uint64), want.view(np.uint64))


@pytest.mark.parametrize("mode", ["toward_positive", "to_odd", "stochastic(8)"])
def test_what_is_held_needs_no_mode(mode):
    """A conversion to a format that holds all operands."""
    codes = np.arange(1 << 16)
    rng = 1 if "stoch" in mode else None
    for target in ("binary32", "bfloat16"):
        got, want = (
            lp.cast(codes, "bfloat16", target, rounding=mode, rng=rng, backend=backend)
            for backend in (None, "scalar")
        )
        assert np.array_equal(got, want)


@np.errstate(all="ignore")
def blocks(fmt, shape, axis, spread=20):
    """Blocks of many sizes: with elements that are not finite and scales that are NaN, if they can be."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape) * 2.0 ** rng.integers(-spread, spread, shape)
    if lp.encode([[0.0] * 32], fmt).format.element.has_nan:
        x.reshape(-1)[[5, 77]] = np.nan, np.inf
    made = lp.encode(x.astype(np.float32), fmt, axis=axis)
    scales = made.scales.copy()
    scales.reshape(-1)[:3] = 0xFF, 0xFE, 0
    scales = scales & 0x7F if fmt == "nvfp4" else scales
    return lp.BlockArray(made.codes, scales, made.format, made.axes, made.tensor_scale)


@pytest.mark.parametrize("fmt", BLOCKS)
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((3, 64), 1), ((3, 70), 1), ((70, 5), 0), ((2, 40, 7), 1), ((3, 17000), 1), ((64, 600), 0)],
)
def test_blocks_in_binary64(fmt, shape, axis):
    """Beyond what binary32 holds, and with blocks cut at the end."""
    made = blocks(fmt, shape, axis)
    got, want = (made.values(np.float64), lp.decode(made, dtype=np.float64, backend="scalar"))
    assert np.array_equal(got.view(np.uint64), want.view(np.uint64))
    assert np.abs(got[np.isfinite(got)]).max() > np.finfo(np.float32).max or fmt in ("mxint8", "nvfp4")


def test_blocks_across_two_axes_in_binary64():
    """Tiles of rows and columns."""
    x = np.random.default_rng(0).standard_normal((2, 70, 90)).astype(np.float32)
    made = lp.encode(x, "nvfp4_2d", axis=(1, 2))
    got, want = made.values(np.float64), lp.decode(made, dtype=np.float64, backend="scalar")
    assert np.array_equal(got, want)


@pytest.mark.parametrize("rule", ["floor", "ceil", "even", "nearest"])
@pytest.mark.parametrize("fmt", ["mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e2m3", "mxfp4_e2m1", "mxint8"])
def test_blocks_of_tiny_numbers(fmt, rule):
    """Subnormal in binary32, and with scales below the smallest; some blocks are, some are not."""
    rng = np.random.default_rng(0)
    for kind in (np.float32, ml_dtypes.bfloat16):
        x = (rng.standard_normal((40, 70)) * 2.0 ** rng.integers(-150, -110, (40, 1))).astype(kind)
        x[3], x[4, 1], x[5, 2] = 0, np.nan, -np.inf
        for axis in (0, 1):
            for rounding in ("nearest_even", "toward_zero", "stochastic(8)"):
                elements = dataclasses.replace(
                    lp.encode(x, fmt, rule=rule).format.elements, rounding=rounding
                )
                whole = dataclasses.replace(lp.encode(x, fmt, rule=rule).format, elements=elements)
                options = {"axis": axis, "rng": 1 if "stoch" in rounding else None}
                got, want = (lp.encode(x, whole, backend=backend, **options) for backend in (None, "scalar"))
                assert np.array_equal(got.codes, want.codes), (kind, axis, rounding)
                assert np.array_equal(got.scales, want.scales), (kind, axis, rounding)


@pytest.mark.parametrize("rule", ["floor", "ceil", "even", "nearest"])
def test_scales_of_powers_below_a_scale_of_the_tensor(rule):
    """NVFP4 by the rules of MX."""
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((40, 70)) * 2.0 ** rng.integers(-20, 20, (40, 1))).astype(np.float32)
    x[3], x[4, 1], x[5, 2] = 0, np.nan, -np.inf
    for axis in (0, 1):
        got, want = (
            lp.encode(x, "nvfp4", rule=rule, axis=axis, backend=backend) for backend in (None, "scalar")
        )
        assert np.array_equal(got.codes, want.codes)
        assert np.array_equal(got.scales, want.scales)


def test_vectors_serve_them():
    """And leave products that binary64 does not hold."""
    double, single, brain = catalog.BINARY64, catalog.BINARY32, catalog.BFLOAT16
    for source, target, carrier in ((double, single, None), (double, brain, double), (single, double, None)):
        assert program.lower(Elementwise(CONVERT, (source,), target, Projection(), carrier)) is not None
    fmt = lp.encode([[0.0] * 32], "mxfp8_e4m3").format
    assert program.lower(BlockDecoding(fmt, None, double)) is not None
