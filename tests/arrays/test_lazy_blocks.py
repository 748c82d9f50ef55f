"""Blocks of Dask arrays and xarray: lazily, and the same bits as in memory, however the array is cut."""

import dataclasses
import re
import warnings

import dask.array as da
import ml_dtypes
import numpy as np
import pytest
import xarray as xr

import lowprec as lp
from lowprec.spec import catalog
from tests.support import assert_lazily, chunkings

#: Chunks are repaired on purpose here; that this is told, and how, has a test of its own.
pytestmark = [pytest.mark.apart, pytest.mark.filterwarnings("ignore::dask.array.PerformanceWarning")]

VALUES = (np.random.default_rng(5).standard_normal((7, 150)) * np.float32(9)).astype(np.float32)
CHUNKS = chunkings(VALUES.shape)
ODD = VALUES.copy()
ODD[2, 40], ODD[3, 70], ODD[5, :32], ODD[6, 149] = np.nan, -np.inf, 0, 1e-42


def same_blocks(got, want):
    """A lazy BlockArray has the parts of one in memory, with their types, shapes and numbers."""
    assert got.is_lazy
    assert (got.codes.dtype, got.scales.dtype) == (want.codes.dtype, want.scales.dtype)
    assert (got.codes.shape, got.scales.shape) == (want.codes.shape, want.scales.shape)
    made = got.compute(scheduler="threads")
    assert not made.is_lazy
    assert (made.format, made.axes, made.tensor_scale) == (want.format, want.axes, want.tensor_scale)
    assert np.array_equal(made.codes, want.codes)
    assert np.array_equal(made.scales, want.scales)


# -- chunks change nothing --------------------------------------------------------------------------


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize(
    ("name", "axis"),
    [("mxfp4", 1), ("mxfp8_e4m3", 0), ("mxint8", -1), ("nvfp4", 1), ("nvfp4", 0), ("nvfp4_2d", (0, 1)),
     ("nvfp4_2d", (1, 0))],
)  # fmt: skip
def test_chunks_change_nothing(name, axis, chunks):
    """Codes, scales, the tensor's scale, values of them, and quantize; NaN and infinities among them."""
    lazy, want = da.from_array(ODD, chunks=chunks), lp.encode(ODD, name, axis=axis)
    blocks = lp.encode(lazy, name, axis=axis)
    same_blocks(blocks, want)
    assert_lazily(lp.decode(blocks), lp.decode(want))
    assert_lazily(blocks.values(np.float64), want.values(np.float64))
    assert_lazily(lp.quantize(lazy, name, axis=axis), lp.quantize(ODD, name, axis=axis))


@pytest.mark.parametrize(
    "dtype", ["float64", "float16", "int8", "int64", "uint32", "bool", "bfloat16", "float8_e4m3fn"]
)
@pytest.mark.parametrize("name", ["mxfp6_e3m2", "nvfp4"])
def test_types_change_nothing(name, dtype):
    """Integers and narrow floats, of which the tensor's scale is found without rounding them."""
    values = (VALUES * 3).astype(getattr(ml_dtypes, dtype, dtype))
    if dtype == "int64":
        values[3, 5] = -(1 << 63)
    lazy = da.from_array(values, chunks=CHUNKS[3])
    same_blocks(lp.encode(lazy, name), lp.encode(values, name))
    assert_lazily(lp.quantize(lazy, name), lp.quantize(values, name))


@pytest.mark.parametrize("shape", [(0,), (0, 64), (64, 0), (1,), (33,), (2, 3, 40)])
def test_shapes_change_nothing(shape):
    """None, one, a broken block at the end, three axes."""
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) - 7
    for name in ("mxfp4", "nvfp4"):
        same_blocks(lp.encode(da.from_array(values, chunks=-1), name), lp.encode(values, name))
    if values.size > 1:
        assert_lazily(lp.quantize(da.from_array(values, chunks=1), "mxfp4"), lp.quantize(values, "mxfp4"))


@pytest.mark.parametrize("values", [np.zeros((3, 40), np.float32), np.full((3, 40), np.nan, np.float32)])
def test_a_tensor_without_magnitudes_has_scale_1(values):
    """As in memory: of zeros, and of nothing finite."""
    blocks = lp.encode(da.from_array(values, chunks=(1, 16)), "nvfp4")
    same_blocks(blocks, lp.encode(values, "nvfp4"))


def test_a_scale_of_the_tensor_is_as_lazy_as_the_rest():
    """Where it is computed; a given one is there at once."""
    lazy = da.from_array(VALUES, chunks=(2, 32))
    blocks = lp.encode(lazy, "nvfp4")
    assert isinstance(blocks.tensor_scale, da.Array)
    assert repr(blocks).endswith("along axis 1, tensor scale not computed, 599 bytes")
    given = lp.encode(lazy, "nvfp4", tensor_scale=0.5)
    assert given.tensor_scale == np.float32(0.5)
    same_blocks(given, lp.encode(VALUES, "nvfp4", tensor_scale=0.5))
    same_blocks(lp.encode(lazy, "nvfp4", backend="scalar"), lp.encode(VALUES, "nvfp4", backend="scalar"))


def test_the_oracle_may_be_asked():
    """Of each chunk, and of the tensor's scale."""
    lazy = da.from_array(VALUES[:2, :40], chunks=(1, 16))
    same_blocks(lp.encode(lazy, "nvfp4", backend="oracle"), lp.encode(VALUES[:2, :40], "nvfp4"))


# -- random integers belong to places ---------------------------------------------------------------

STOCHASTIC = dataclasses.replace(
    catalog.NVFP4, scales=lp.Projection(rounding="stochastic(9)", saturation="finite")
)


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("axis", [0, 1])
def test_elements_have_the_random_integers_of_their_places(axis, chunks):
    """By a key, and as they are given."""
    lazy, how = da.from_array(VALUES, chunks=chunks), {"rounding": lp.stochastic(8), "axis": axis}
    want = lp.encode(VALUES, "mxfp4", rng=11, **how)
    same_blocks(lp.encode(lazy, "mxfp4", rng=11, **how), want)
    random = lp.random_bits(VALUES.shape, 11, 8)
    same_blocks(lp.encode(lazy, "mxfp4", random=random, **how), want)
    same_blocks(lp.encode(lazy, "mxfp4", random=da.from_array(random, chunks=50), **how), want)
    assert_lazily(lp.quantize(lazy, "mxfp4", rng=11, **how), want.values())


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("axis", [0, 1])
def test_scales_have_the_random_integers_of_their_places(axis, chunks):
    """Those of stream 1; elements in the same call have theirs."""
    lazy = da.from_array(VALUES, chunks=chunks)
    for options in ({}, {"rounding": lp.stochastic(8)}):
        want = lp.encode(VALUES, STOCHASTIC, rng=4, axis=axis, **options)
        same_blocks(lp.encode(lazy, STOCHASTIC, rng=4, axis=axis, **options), want)
    other = lp.encode(VALUES, STOCHASTIC, rng=5, axis=axis)
    assert not np.array_equal(other.scales, lp.encode(VALUES, STOCHASTIC, rng=4, axis=axis).scales)


@pytest.mark.parametrize("chunks", CHUNKS)
def test_words_that_lanes_share_are_not_cut(chunks):
    """Of elements alone, and of those in blocks along the other axis."""
    lazy, how = da.from_array(VALUES, chunks=chunks), {"rounding": lp.stochastic(16, "ptx_rs")}
    words = lp.random_bits((7, 38), 3, 32)
    want = lp.encode(VALUES, "e4m3fn", rng=3, **how)
    assert_lazily(lp.encode(lazy, "e4m3fn", rng=3, **how), want)
    assert_lazily(lp.encode(lazy, "e4m3fn", random=words, **how), want)
    want = lp.encode(VALUES, "mxfp8_e4m3", axis=0, rng=3, **how)
    same_blocks(lp.encode(lazy, "mxfp8_e4m3", axis=0, rng=3, **how), want)
    same_blocks(lp.encode(lazy, "mxfp8_e4m3", axis=0, random=words, **how), want)


def test_a_generator_is_drawn_from_once():
    """As in memory."""
    lazy = da.from_array(VALUES, chunks=(3, 32))
    want = lp.encode(VALUES, "mxfp4", rounding=lp.stochastic(8), rng=np.random.default_rng(1))
    same_blocks(lp.encode(lazy, "mxfp4", rounding=lp.stochastic(8), rng=np.random.default_rng(1)), want)


# -- blocks that are given --------------------------------------------------------------------------


def test_stored_parts_are_decoded_lazily():
    """In any chunks of either; parts of them too."""
    want = lp.encode(VALUES, "mxfp4")
    for chunks in CHUNKS:
        codes, scales = da.from_array(want.codes, chunks=chunks), da.from_array(want.scales, chunks=(3, 2))
        for parts in (
            (codes, scales),
            (codes, want.scales),
            (codes, want.scales.tolist()),
            (want.codes, scales),
        ):
            blocks = lp.BlockArray(*parts, "mxfp4")
            same_blocks(blocks, want)
            assert_lazily(lp.decode(blocks), lp.decode(want))
        same_blocks(blocks[2:5, 32:], want[2:5, 32:])
    typed = da.from_array(want.codes.view(ml_dtypes.float4_e2m1fn), chunks=32)
    same_blocks(lp.BlockArray(typed, want.scales, "mxfp4"), want)


def test_a_part_of_lazy_blocks_keeps_their_tensor_scale():
    """That of the whole, not computed by the way."""
    part = lp.encode(da.from_array(VALUES, chunks=(2, 32)), "nvfp4")[1:3]
    assert isinstance(part.tensor_scale, da.Array)
    same_blocks(part, lp.encode(VALUES, "nvfp4")[1:3])


def test_numpy_takes_their_values():
    """`np.asarray` computes."""
    blocks = lp.encode(da.from_array(VALUES, chunks=(2, 32)), "mxfp4")
    assert np.array_equal(np.asarray(blocks), lp.quantize(VALUES, "mxfp4"))
    assert np.array_equal(blocks.packed(), lp.encode(VALUES, "mxfp4").packed())


def test_operations_take_their_values_but_not_without_their_names():
    """Computed, and exact; names that results would lack are refused."""
    blocks = lp.encode(da.from_array(VALUES, chunks=(3, 40)), "nvfp4")
    assert np.array_equal(lp.add(blocks, 0.0, "bfloat16"), lp.add(blocks.compute(), 0.0, "bfloat16"))
    with pytest.raises(TypeError, match="DataArray goes by the names of its dimensions"):
        lp.add(lp.encode(xr.DataArray(VALUES), "nvfp4"), 0.0, "bfloat16")


def test_blocks_in_memory_compute_to_themselves():
    """Nothing is copied."""
    blocks = lp.encode(VALUES, "mxfp4")
    assert blocks.compute() is blocks


# -- xarray -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunks", [None, (3, 40)])
@pytest.mark.parametrize("name", ["mxfp4", "nvfp4"])
def test_names_are_kept(name, chunks):
    """Of dimensions, and coordinates where there are still as many; around NumPy and around Dask arrays."""
    data = VALUES if chunks is None else da.from_array(VALUES, chunks=chunks)
    coords = {"row": np.arange(7) * 2, "column": np.arange(150)}
    array = xr.DataArray(data, dims=("row", "column"), coords=coords, name="w", attrs={"layer": 3})
    want = lp.encode(VALUES, name)
    blocks = lp.encode(array, name)
    assert blocks.codes.dims == blocks.scales.dims == ("row", "column")
    assert (blocks.codes.name, blocks.scales.attrs) == ("w", {"layer": 3})
    assert set(blocks.codes.coords) == {"row", "column"}
    assert set(blocks.scales.coords) == {"row"}
    assert isinstance(blocks.codes.data, type(data))
    made = blocks.compute()
    assert np.array_equal(made.codes.values, want.codes)
    assert np.array_equal(made.scales.values, want.scales)
    assert made.tensor_scale == want.tensor_scale
    for values in (lp.decode(blocks), lp.quantize(array, name)):
        assert isinstance(values.data, type(data))
        assert values.coords["row"].values.tolist() == list(range(0, 14, 2))
        assert np.array_equal(values.values, want.values())
    given = lp.BlockArray(blocks.codes, blocks.scales, name, tensor_scale=want.tensor_scale)
    assert np.array_equal(lp.decode(given).values, want.values())


@pytest.mark.parametrize("chunks", [None, 2])
def test_the_encoding_of_a_file_is_not_that_of_results(chunks):
    """Drop what would pack results as the operand was packed; attributes, coordinates and indexes stay."""
    array = xr.DataArray(
        np.ones((4, 32)), dims=("row", "k"), coords={"row": range(4)}, attrs={"unit": "m"}, name="packed"
    )
    array.encoding = {"dtype": "int16", "scale_factor": 0.5, "_FillValue": -1}
    array.coords["row"].encoding = {"dtype": "int8"}
    array = array if chunks is None else array.chunk({"row": chunks})
    blocks = lp.encode(array, "mxfp4")
    codes = blocks.codes.copy()
    codes.encoding = {"_FillValue": 4}
    given = lp.BlockArray(codes, blocks.scales, "mxfp4", axes=1)
    results = [lp.quantize(array, "mxfp4"), blocks.codes, blocks.scales, blocks.values(), given.codes]
    for result in results:
        assert result.encoding == {}
        assert (result.attrs, result.name) == (array.attrs, "packed")
        assert result.coords["row"].encoding == {"dtype": "int8"}
    assert array.encoding["scale_factor"] == 0.5
    assert list(lp.scale_for(array.drop_indexes("row"), "int8", axis=1).indexes) == []


def test_random_words_may_have_names():
    """Their order is that of the values."""
    array = xr.DataArray(da.from_array(VALUES, chunks=(3, 32)), dims=("a", "b"))
    random = xr.DataArray(lp.random_bits(VALUES.shape, 1, 8), dims=("a", "b"))
    how = {"rounding": lp.stochastic(8)}
    got = lp.quantize(array, "mxfp4", random=random, **how)
    assert np.array_equal(got.values, lp.quantize(VALUES, "mxfp4", rng=1, **how))


# -- what is said -----------------------------------------------------------------------------------


def test_chunks_that_end_where_blocks_do_are_left_alone():
    """No warning, and the same chunks."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lazy = da.from_array(VALUES, chunks=((3, 4), (32, 96, 22)))
        assert lp.encode(lazy, "mxfp4").codes.chunks == lazy.chunks
        assert lp.encode(lazy, "mxfp4").scales.chunks == ((3, 4), (1, 3, 1))


def test_chunks_of_whole_rows_are_left_alone_as_the_page_says():
    """128 rows: for blocks along rows, tiles, and scales of rows."""
    rows = da.from_array(np.random.default_rng(0).standard_normal((384, 300)).astype("f4"), chunks=(128, 300))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for fmt in ("mxfp4", "fp8_block_128x128"):
            assert lp.encode(rows, fmt).codes.chunks == rows.chunks
        lp.scale_for(rows, "int8", "mse", axis=0)
    with pytest.warns(da.PerformanceWarning, match="^method='mse' needs all values of a scale"):
        lp.scale_for(rows, "int8", "mse")


@pytest.mark.parametrize(
    ("chunks", "axis", "message"),
    [
        (
            (7, 50), 1,
            "blocks of 'mxfp4' must not be cut: chunks (50, 50, 50) along axis 1 become (32, 64, 54), which "
            "moves data between them; .rechunk({1: 64}) where the array is made saves that",
        ),
        (
            (7, 20), 1,
            "blocks of 'mxfp4' must not be cut: chunks (20, 20, 20, ... 8 in all) along axis 1 become (32, "
            "32, 32, ... 5 in all), which moves data between them; .rechunk({1: 32}) where the array is made "
            "saves that",
        ),
        (
            ((7,), (70, 80)), 1,
            "blocks of 'mxfp4' must not be cut: chunks (70, 80) along axis 1 become (64, 86), which moves "
            "data between them; .rechunk({1: 96}) where the array is made saves that",
        ),
        (
            (2, 150), 0,
            "blocks of 'mxfp4' must not be cut: chunks (2, 2, 2, 1) along axis 0 become (7,), which moves "
            "data between them; .rechunk({0: 7}) where the array is made saves that",
        ),
    ],
)  # fmt: skip
def test_a_repair_is_told_where_it_is_asked_for(chunks, axis, message):
    """With the chunks before and after, and the line that would do without."""
    with pytest.warns(da.PerformanceWarning, match=f"^{re.escape(message)}$") as told:
        lp.encode(da.from_array(VALUES, chunks=chunks), "mxfp4", axis=axis)
    assert [one.filename for one in told] == [__file__]


def test_lanes_that_are_cut_are_told():
    """As blocks are."""
    message = (
        "4 elements share a random word of stochastic(16, ptx_rs): chunks (75, 75) along axis 1 become (72, "
        "78), which moves data between them; .rechunk({1: 80}) where the array is made saves that"
    )
    with pytest.warns(da.PerformanceWarning, match=f"^{re.escape(message)}$"):
        lp.encode(da.from_array(VALUES, chunks=75), "e4m3fn", rounding=lp.stochastic(16, "ptx_rs"), rng=1)


LAZY = da.from_array(VALUES, chunks=(7, 32))
CODES = lp.encode(VALUES, "mxfp4", backend="oracle")

REFUSED = [
    (ValueError, lambda: lp.encode(LAZY, "mxfp4", out=VALUES),
     "out= is for formats of single values, and 'mxfp4' has blocks; leave it out"),
    (ValueError, lambda: lp.quantize(LAZY, "mxfp4", out=VALUES.copy()),
     "out= is for NumPy arrays; a dask array is converted lazily: leave it out"),
    (ValueError, lambda: lp.decode(lp.encode(LAZY, "mxfp4"), out=VALUES.copy()),
     "out= is for NumPy arrays; a dask array is converted lazily: leave it out"),
    (TypeError, lambda: lp.encode(VALUES, "mxfp4", axis=da.ones(1)),
     f"axis must be an integer or a tuple of them, not {da.ones(1)!r}"),
    (ValueError, lambda: lp.encode(LAZY, "mxfp4", axis=2),
     "blocks of 'mxfp4' need one axis, and the array has 2: axis=2 is not there"),
    (TypeError, lambda: lp.encode(LAZY.astype(complex), "mxfp4"),
     "values must be real numbers of at most 64 bits, not complex128: convert the real and the imaginary "
     "part by themselves"),
    (ValueError, lambda: lp.encode(LAZY, "mxfp4", rounding=lp.stochastic(8)),
     "rounding stochastic(8, A) needs random= or rng=, and was given neither; give one of them"),
    (ValueError, lambda: lp.encode(LAZY, "mxfp4", rounding=lp.stochastic(8), random=np.zeros(3, np.uint32)),
     "random has shape (3,), but needs (7, 150)"),
    (ValueError, lambda: lp.encode(LAZY, "mxfp4", tensor_scale=1.0),
     "tensor_scale=1.0 is for formats that have one, and 'mxfp4' has none"),
    (ValueError, lambda: lp.encode(LAZY[LAZY > 0], "mxfp4"),
     "blocks of 'mxfp4' must not be cut, and the sizes of some chunks are unknown; call "
     ".compute_chunk_sizes()"),
    (TypeError, lambda: lp.encode(xr.Dataset({"a": ("x", VALUES[0])}), "mxfp4"),
     "Dataset of xarray is no array; use .map for the arrays of a Dataset, and dask.array for delayed "
     "values"),
    (TypeError, lambda: lp.decode(lp.encode(LAZY, "mxfp4"), dtype="int8"),
     "values are given as float16, bfloat16, float32 or float64, not int8"),
    (ValueError, lambda: lp.BlockArray(da.from_array(CODES.codes), CODES.scales[:, 1:], "mxfp4"),
     "scales of 'mxfp4' have shape (7, 4), but codes of shape (7, 150) in blocks of 32 along axis 1 need "
     "(7, 5)"),
    (TypeError, lambda: lp.BlockArray(LAZY, CODES.scales, "mxfp4"),
     "codes of 'e2m1fn' must be integers, not float32: `encode` makes codes from values"),
    (ValueError, lambda: lp.BlockArray(da.from_array(CODES.codes | 16), CODES.scales, "mxfp4").compute(),
     "codes of 'e2m1fn' are 0 to 15: 1,050 of 1,050 are not, the first at index (0, 0), which is 30. Mask "
     "the unused bits, or name the format that they are codes of"),
]  # fmt: skip


@pytest.mark.parametrize(("error", "call", "message"), REFUSED, ids=map(str, range(len(REFUSED))))
def test_what_cannot_be_is_refused(error, call, message):
    """At once, but for what only numbers can tell."""
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        call()


@pytest.mark.parametrize("fmt", ["mxfp4", "mxfp8_e4m3"])
def test_blocks_with_names_have_the_layouts_of_their_codes(fmt):
    plain, named = lp.encode(VALUES, fmt), lp.encode(xr.DataArray(VALUES, dims=("row", "column")), fmt)
    assert np.array_equal(named.packed(), plain.packed())
    assert np.array_equal(named.swizzled(), plain.swizzled())
    assert np.array_equal(named.T.packed(), plain.T.packed())


def test_lazy_blocks_are_not_reshaped_or_compared_and_the_way_out_helps():
    plain = lp.encode(VALUES, "nvfp4")
    for array in (da.from_array(VALUES, chunks=(7, 48)), xr.DataArray(VALUES, dims=("row", "column"))):
        lazily = lp.encode(array, "nvfp4")
        for done, call in (("reshaped", lambda each: each.reshape(7, 1, 150)), ("compared", plain.__eq__)):
            message = (
                f"lazy blocks, and those of xarray, are not {done}: compute() them first, and give BlockArray"
                " .to_numpy() of codes and scales that have names"
            )
            with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
                call(lazily)
        made = lazily.compute()
        if made.is_lazy:
            parts = made.codes.to_numpy(), made.scales.to_numpy()
            made = lp.BlockArray(*parts, made.format, made.axes, made.tensor_scale)
        assert made == plain
        assert made.reshape(7, 1, 150) == plain.reshape(7, 1, 150)


def test_results_of_xarray_in_memory_are_not_called_lazy():
    named, out = xr.DataArray(VALUES, dims=("row", "column")), np.zeros(VALUES.shape, np.float32)
    message = "out= is for NumPy arrays; results of xarray objects are xarray objects: leave it out"
    for fmt in ("mxfp4", "e4m3fn"):
        with pytest.raises(ValueError, match=f"^{message}$"):
            lp.quantize(named, fmt, out=out)
