"""Scales and error reports of Dask arrays and xarray: the numbers of arrays in memory, to the last bit."""

import dataclasses
import re
import warnings

import dask.array as da
import numpy as np
import pytest
import xarray as xr
from dask.delayed import Delayed

import lowprec as lp
from lowprec.arrays.measures import lazy_statistics, statistics
from tests.support import chunkings

pytestmark = [pytest.mark.apart, pytest.mark.filterwarnings("ignore::dask.array.PerformanceWarning")]

RNG = np.random.default_rng(2)
VALUES = (RNG.standard_normal((60, 130)) * np.exp(3 * RNG.standard_normal((60, 1)))).astype(np.float32)
ODD = VALUES.copy()
ODD[3, 4], ODD[5, 60], ODD[7], ODD[8] = np.nan, -np.inf, np.nan, 0
CHUNKS = chunkings(VALUES.shape)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """Several parts of an array, which sums are made of, in arrays of some thousand values."""
    monkeypatch.setattr(statistics, "_PART", 1000)


def same_report(got, want):
    """All numbers are the same, bit for bit, and of the same types."""
    assert isinstance(got, Delayed)
    made = got.compute(scheduler="threads")
    for field in dataclasses.fields(want):
        mine, other = getattr(made, field.name), getattr(want, field.name)
        assert type(mine) is type(other), field.name
        assert np.shape(mine) == np.shape(other), field.name
        if isinstance(other, float | np.ndarray):
            mine, other = np.asarray(mine).view(np.uint64), np.asarray(other).view(np.uint64)
        assert np.array_equal(mine, other), field.name


# -- error reports ----------------------------------------------------------------------------------


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"saturation": "finite", "scale": np.float32(0.125)},
        {"scale": lambda: lp.scale_for(VALUES, "e4m3fn", axis=0)},
        {"scale": lambda: lp.scale_for(VALUES, "e4m3fn", axis=1)[0]},
        {"rounding": lp.stochastic(8), "rng": 3},
        {"rounding": lp.stochastic(8), "random": lambda: lp.random_bits(VALUES.shape, 4, 8), "scale": 3.0},
        {"rounding": lp.stochastic(16, "ptx_rs"), "rng": 3},
        {"rounding": lp.stochastic(16, "ptx_rs"), "random": lambda: lp.random_bits((60, 33), 4, 32)},
    ],
    ids=lambda options: "-".join(options) or "plain",
)
def test_chunks_change_no_report_on_single_values(options, chunks):
    """With and without scales, NaN and random integers."""
    options = {name: given() if callable(given) else given for name, given in options.items()}
    want = lp.error_report(ODD, "e4m3fn", **options)
    same_report(lp.error_report(da.from_array(ODD, chunks=chunks), "e4m3fn", **options), want)


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize(("name", "axis"), [("mxfp4", 1), ("mxfp4", 0), ("nvfp4", 1), ("nvfp4_2d", (0, 1))])
def test_chunks_change_no_report_on_blocks(name, axis, chunks):
    """Of every block too."""
    lazy = da.from_array(ODD, chunks=chunks)
    same_report(lp.error_report(lazy, name, axis=axis), lp.error_report(ODD, name, axis=axis))
    options = {"rounding": lp.stochastic(8), "rng": 9, "axis": axis}
    same_report(lp.error_report(lazy, name, **options), lp.error_report(ODD, name, **options))


def test_scales_may_be_lazy():
    """Those of the same array, found in the same run."""
    lazy = da.from_array(VALUES, chunks=CHUNKS[4])
    scales = lp.scale_for(lazy, "int8", axis=0)
    want = lp.error_report(VALUES, "int8", scale=lp.scale_for(VALUES, "int8", axis=0), saturation="finite")
    same_report(lp.error_report(lazy, "int8", scale=scales, saturation="finite"), want)
    same_report(lp.error_report(VALUES, "int8", scale=scales, saturation="finite"), want)
    with pytest.raises(ValueError, match=re.escape("scale of shape (60, 1) does not broadcast to")):
        lp.error_report(lazy[:9], "int8", scale=scales)


@pytest.mark.parametrize("shape", [(), (0,), (5, 0), (1,), (2, 3, 40)])
def test_shapes_change_no_report(shape):
    """None at all, one, three axes."""
    values = RNG.standard_normal(shape).astype(np.float32)
    same_report(
        lp.error_report(da.from_array(values, chunks=-1), "e4m3fn"), lp.error_report(values, "e4m3fn")
    )
    if shape:
        same_report(
            lp.error_report(da.from_array(values, chunks=-1), "mxfp4"), lp.error_report(values, "mxfp4")
        )


@pytest.mark.parametrize("chunks", [((2, 4), (1000, 2500)), ((6,), (2000, 1500)), ((1, 3, 2), (3000, 500))])
def test_parts_keep_the_order_of_memory(chunks):
    """Where a chunk has parts that do not follow each other in it: their sums are not added in its order."""
    for seed in range(6):  # in another order some sums would be the same by chance
        rng = np.random.default_rng(seed)
        values = (rng.standard_normal((6, 3500)) * np.exp(rng.standard_normal((6, 3500)))).astype(np.float32)
        lazy = da.from_array(values, chunks=chunks)
        same_report(lp.error_report(lazy, "e4m3fn"), lp.error_report(values, "e4m3fn"))


# -- scales -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("axis", [None, 0, 1, (), (0, 1), -1])
@pytest.mark.parametrize(
    ("method", "options"),
    [("max", {}), ("max", {"power_of_two": True}), ("mse", {}), ("percentile", {})]
    + [("percentile", {"percentile": share}) for share in (100, 99, 90.5, 50, 33.3, 1e-9)],
)
def test_chunks_change_no_scale(method, options, axis, chunks):
    """Of everything and of channels; with NaN, an infinity, and channels of nothing else and of zeros."""
    want = np.asarray(lp.scale_for(ODD, "e4m3fn", method, axis, **options))
    got = lp.scale_for(da.from_array(ODD, chunks=chunks), "e4m3fn", method, axis, **options)
    assert isinstance(got, da.Array)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    assert np.array_equal(got.compute(scheduler="threads"), want)


@pytest.mark.parametrize("dtype", ["float64", "float16", "int64", "uint8"])
@pytest.mark.parametrize("method", ["max", "percentile"])
def test_types_change_no_scale(method, dtype):
    """Magnitudes are compared in the type that they are compared in in memory."""
    values = np.abs(VALUES * 3).clip(0, 250).astype(dtype)
    got = lp.scale_for(da.from_array(values, chunks=CHUNKS[3]), "uint8", method, 0)
    assert np.array_equal(got.compute(), lp.scale_for(values, "uint8", method, 0))


@pytest.mark.parametrize("share", [99.9, 75, 50, 10, 0.1])
@pytest.mark.parametrize("length", [1, 2, 3, 10, 101, 1000])
def test_percentiles_are_those_of_numpy(length, share):
    """To the bit, wherever they lie between two values: before they become scales, which have fewer bits."""
    for seed in range(5):
        values = np.abs(np.random.default_rng(seed).standard_normal(length))
        lazy = da.from_array(values, chunks=37)
        found = lazy_statistics.scale_for(
            lambda array, axis, method: array,
            lambda chunk: (chunk, chunk == chunk),
            lazy,
            "percentile",
            None,
            share,
        )
        assert found.compute() == np.percentile(values, share)


@pytest.mark.parametrize("method", ["max", "percentile", "mse"])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_chunks_without_elements_change_no_scale(method, axis):
    """Along any axis; of arrays without elements too."""
    few = VALUES[:7, :9]
    cut = da.from_array(few, chunks=((0, 3, 0, 4), (9, 0)))
    scales = lp.scale_for(cut, "int8", method, axis).compute()
    assert np.array_equal(scales, lp.scale_for(few, "int8", method, axis))
    none = da.from_array(few[:0], chunks=((0, 0), (4, 5)))
    scales = lp.scale_for(none, "int8", method, axis).compute()
    assert np.array_equal(scales, lp.scale_for(few[:0], "int8", method, axis))


# -- xarray -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("lazy", [False, True])
def test_names_are_kept(lazy):
    """A scale has the dimensions that it is for, so that it divides values by name."""
    array = xr.DataArray(VALUES, dims=("out", "in"), coords={"out": np.arange(60), "in": np.arange(130)})
    array = array.chunk({"in": 50}) if lazy else array
    scales = lp.scale_for(array, "int8", axis=0)
    want = lp.scale_for(VALUES, "int8", axis=0)
    assert (scales.dims, set(scales.coords)) == (("out",), {"out"})
    assert isinstance(scales.data, da.Array if lazy else np.ndarray)
    assert np.array_equal(scales.values, want[:, 0])
    assert (array / scales).dims == ("out", "in")
    assert lp.scale_for(array, "int8").dims == ()
    assert lp.scale_for(array, "int8", "mse").values == lp.scale_for(VALUES, "int8", "mse")
    report = lp.error_report(array, "int8", scale=scales, saturation="finite")
    report = report.compute() if lazy else report
    assert report == lp.error_report(VALUES, "int8", scale=want, saturation="finite")
    blocks = lp.error_report(array, "mxfp4", axis=0)
    assert (blocks.compute() if lazy else blocks) == lp.error_report(VALUES, "mxfp4", axis=0)


# -- what is said -----------------------------------------------------------------------------------


def test_parts_that_are_cut_are_told():
    """Once, with the line that would do without."""
    message = (
        "sums are added part by part as in memory: chunks (60,) along axis 0 become (21, 21, 18) and (50, "
        "50, 30) along axis 1 become (130,), which moves data between them; .rechunk({0: 21, 1: 130}) where "
        "the array is made saves that"
    )
    with pytest.warns(da.PerformanceWarning, match=f"^{re.escape(message)}$") as told:
        lp.error_report(da.from_array(VALUES, chunks=(60, 50)), "e4m3fn")
    assert [one.filename for one in told] == [__file__]


def test_an_array_of_one_part_is_put_together_without_a_word():
    """It is small."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lazy = da.from_array(VALUES[:5], chunks=(2, 50))
        same_report(lp.error_report(lazy, "e4m3fn"), lp.error_report(VALUES[:5], "e4m3fn"))


def test_a_search_that_needs_all_values_says_so():
    """Of a channel."""
    message = (
        "method='mse' needs all values of a scale: chunks (50, 50, 30) along axis 1 become (130,), which "
        "moves data between them; .rechunk({1: 130}) where the array is made saves that"
    )
    with pytest.warns(da.PerformanceWarning, match=f"^{re.escape(message)}$"):
        lp.scale_for(da.from_array(VALUES, chunks=(60, 50)), "e4m3fn", "mse", 0)


LAZY = da.from_array(VALUES, chunks=(20, 130))

REFUSED = [
    (ValueError, lambda: lp.scale_for(LAZY, "mxfp4"), "'mxfp4' is a block format, whose scales follow from"),
    (ValueError, lambda: lp.scale_for(LAZY, "int8", "best"), "unknown method 'best' of a scale; use one"),
    (ValueError, lambda: lp.scale_for(LAZY, "uint8").compute(), "'uint8' is unsigned, and "),
    (ValueError, lambda: lp.scale_for(LAZY, "uint8", "percentile").compute(), "'uint8' is unsigned, and "),
    (ValueError, lambda: lp.scale_for(LAZY[LAZY > 0], "int8"),
     "scales need the sizes of chunks, and the sizes of some chunks are unknown; call "),
    (ValueError, lambda: lp.error_report(LAZY, "mxfp4", scale=2.0),
     "scale= is for formats of single values, and 'mxfp4' has scales of its blocks"),
    (ValueError, lambda: lp.error_report(LAZY, "e4m3fn", scale=-2.0).compute(),
     "scales must be positive numbers that float32 holds; lowprec.scale_for gives such"),
    (ValueError, lambda: lp.error_report(LAZY, "e4m3fn", scale=np.ones(3)),
     "scale of shape (3,) does not broadcast to values of shape (60, 130)"),
    (ValueError, lambda: lp.error_report(LAZY, "e4m3fn", rng=1),
     "rng= is for stochastic rounding, and rounding nearest_even is not; leave it out"),
    (ValueError, lambda: lp.error_report(LAZY, "e4m3fn", rounding=lp.stochastic(8)),
     "rounding stochastic(8, A) needs random= or rng=, and was given neither; give one of them"),
    (TypeError, lambda: lp.error_report(xr.Dataset({"a": ("x", VALUES[0])}), "e4m3fn"),
     "Dataset of xarray is no array; use .map for the arrays of a Dataset"),
]  # fmt: skip


@pytest.mark.parametrize(("error", "call", "message"), REFUSED, ids=map(str, range(len(REFUSED))))
def test_what_cannot_be_is_refused(error, call, message):
    """At once, but for what only numbers can tell."""
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        call()


@pytest.mark.parametrize("method", ["max", "percentile", "mse"])
@pytest.mark.parametrize(("shape", "axis"), [((0,), None), ((2, 0), 0), ((0, 2), 0), ((0, 2), (0, 1))])
def test_lazy_scales_of_no_values_are_those_in_memory(method, shape, axis):
    values = np.zeros(shape, np.float32)
    want = np.asarray(lp.scale_for(values, "int8", method, axis=axis))
    assert np.array_equal(want, lp.scale_for(da.from_array(values), "int8", method, axis=axis).compute())
    named = xr.DataArray(values, dims=("p", "q")[: values.ndim])
    for each in (named, named.chunk()):
        got = lp.scale_for(each, "int8", method, axis=axis)
        kept = () if axis is None else np.atleast_1d(axis).tolist()
        assert got.dims == tuple(named.dims[place] for place in kept)
        assert got.values.reshape(-1).tolist() == want.reshape(-1).tolist()


@pytest.mark.parametrize("method", ["max", "percentile"])
@pytest.mark.parametrize("power_of_two", [True, False])
@pytest.mark.parametrize("fmt", ["posit8", "takum8", "hif8"])
def test_scales_of_codebooks_follow_the_method_that_is_named(fmt, method, power_of_two):
    """Not the usual one of the codebook, which is mse."""
    for axis in (None, 0):
        asked = (fmt, method, axis)
        want = lp.scale_for(VALUES, *asked, power_of_two=power_of_two)
        lazily = lp.scale_for(da.from_array(VALUES, chunks=(20, 50)), *asked, power_of_two=power_of_two)
        assert np.array_equal(lazily.compute(), want)
