"""Products of Dask arrays and xarray: K whole, rows and columns in chunks, the bits of arrays in memory."""

import dataclasses
import re
import warnings

import dask
import dask.array as da
import numpy as np
import pytest
import xarray as xr

import lowprec as lp
from tests.support import assert_lazily, chunkings

pytestmark = [pytest.mark.apart, pytest.mark.filterwarnings("ignore::dask.array.PerformanceWarning")]

RNG = np.random.default_rng(8)
X = lp.quantize(RNG.standard_normal((2, 7, 70)).astype(np.float32), "e4m3fn", backend="oracle")
Y = lp.quantize(RNG.standard_normal((70, 9)).astype(np.float32), "e4m3fn", backend="oracle")
Y2 = np.stack([Y, Y[::-1]])
#: Every way in which the axes of two factors go together.
PAIRS = {
    "matrices and one": (X, Y),
    "matrices each": (X, Y2),
    "one matrix for all": (X[:1], Y2),
    "two matrices": (X[0], Y),
    "a row": (X[0, 0], Y),
    "a column": (X[0], Y[:, 0]),
    "matrices and a column": (X, Y[:, 0]),
    "a row and matrices": (X[0, 0], Y2),
    "a row and a column": (X[0, 0], Y[:, 0]),
}
BFLOAT16 = lp.accumulations["bf16_sequential"]
RANDOM = dataclasses.replace(
    BFLOAT16, accumulator=(BFLOAT16.accumulator[0], lp.Projection(rounding=lp.stochastic(8)))
)


def cut(array, number):
    """An array in one of several chunkings."""
    return da.from_array(array, chunks=chunkings(array.shape)[number])


@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("accumulation", ["fp32_fma", "hopper_wgmma_e4m3fn_binary32", "exact"])
def test_chunks_change_nothing(accumulation, pair, number):
    """Of either factor, or of both; with an addend too."""
    x, y = PAIRS[pair]
    want = lp.matmul(x, y, accumulation)
    for factors in ((cut(x, number), cut(y, number)), (cut(x, number), y), (x, cut(y, number))):
        assert_lazily(lp.matmul(*factors, accumulation), want)
    addend = RNG.standard_normal(np.shape(want)[-1:]).astype(np.float32)
    want = lp.matmul(x, y, accumulation, addend=addend)
    assert_lazily(lp.matmul(cut(x, number), y, accumulation, addend=addend), want)
    assert_lazily(lp.matmul(x, y, accumulation, addend=da.from_array(addend, chunks=2)), want)


@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("other", [X, X[:1], X[0], X[0, 0], X[:, :1]])
def test_chunks_change_no_dot(number, other):
    """All axes in front broadcast."""
    want = lp.dot(X, other, "fp32_fma")
    assert_lazily(lp.dot(cut(X, number), cut(other, number), "fp32_fma"), want)
    assert_lazily(
        lp.dot(other, cut(X, number), "fp32_fma", addend=1.0), lp.dot(other, X, "fp32_fma", addend=1.0)
    )


@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("pair", PAIRS)
def test_outputs_have_the_random_integers_of_their_places(pair, number):
    """Every rounding of every output, wherever its chunk lies."""
    x, y = PAIRS[pair]
    assert_lazily(lp.matmul(cut(x, number), cut(y, number), RANDOM, rng=5), lp.matmul(x, y, RANDOM, rng=5))
    assert_lazily(lp.dot(cut(X, number), X[0, :1], RANDOM, rng=5), lp.dot(X, X[0, :1], RANDOM, rng=5))


def test_chunks_without_outputs_need_no_random_integers():
    """Of an array without rows, and beside others."""
    none = da.from_array(X[:0], chunks=2)
    assert_lazily(lp.dot(none, X[0, :1], RANDOM, rng=5), lp.dot(X[:0], X[0, :1], RANDOM, rng=5))
    rows = da.concatenate([none, X[:1], none, X[1:]])
    assert_lazily(lp.dot(rows, X[0, :1], RANDOM, rng=5), lp.dot(X, X[0, :1], RANDOM, rng=5))


def test_another_key_gives_other_outputs():
    """So that the test above can fail; a generator is drawn from once."""
    assert not np.array_equal(lp.matmul(X, Y, RANDOM, rng=5), lp.matmul(X, Y, RANDOM, rng=6))
    want = lp.matmul(X, Y, RANDOM, rng=np.random.default_rng(1))
    assert_lazily(lp.matmul(cut(X, 3), Y, RANDOM, rng=np.random.default_rng(1)), want)


@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("name", ["mxfp8_e4m3", "nvfp4", "nvfp4_2d"])
def test_blocks_are_multiplied(name, number):
    """Lazy ones with lazy ones, with such in memory, and with values."""
    two = name == "nvfp4_2d"
    axes = ((0, 1), (0, 1)) if two else (1, 0)
    held = [lp.encode(each, name, axis=axis) for each, axis in zip((X[0], Y), axes, strict=True)]
    lazy = [lp.encode(cut(each, number), name, axis=axis) for each, axis in zip((X[0], Y), axes, strict=True)]
    want = lp.matmul(*held, "fp32_fma")
    for pair in (lazy, (lazy[0], held[1]), (held[0], lazy[1])):
        assert_lazily(lp.matmul(*pair, "fp32_fma"), want)
    assert_lazily(lp.matmul(lazy[0], Y, "fp32_fma"), lp.matmul(held[0], Y, "fp32_fma"))
    assert_lazily(lp.matmul(X[0], lazy[1], "fp32_fma"), lp.matmul(X[0], held[1], "fp32_fma"))


def test_blocks_of_three_axes_are_multiplied():
    """With matrices in front."""
    for name in ("mxfp4", "nvfp4"):
        held = lp.encode(X, name), lp.encode(Y2, name, axis=1)
        lazy = lp.encode(cut(X, 4), name), lp.encode(cut(Y2, 4), name, axis=1)
        assert_lazily(lp.matmul(*lazy, "exact"), lp.matmul(*held, "exact"))
        assert_lazily(lp.dot(lazy[0], lp.encode(cut(X, 2), name), "exact"), lp.dot(held[0], held[0], "exact"))


def test_types_are_those_of_memory():
    """Codes where they are asked for; an engine by its name."""
    for options in ({"dtype": "float64"}, {"dtype": "uint32"}, {"backend": "scalar"}):
        assert_lazily(lp.matmul(cut(X, 3), Y, "fp32_fma", **options), lp.matmul(X, Y, "fp32_fma", **options))


def test_rows_and_columns_stay_in_chunks():
    """Only K is made whole."""
    made = lp.matmul(da.from_array(X[0], chunks=(3, 10)), da.from_array(Y, chunks=(10, 4)), "fp32_fma")
    assert made.chunks == ((3, 3, 1), (4, 4, 1))


def _scales(kind):
    """Scales of X[0] and of Y, and the size of blocks along K."""
    rng = np.random.default_rng(3)
    shapes = {
        "one": ((), ()), "rows": ((7, 1), (9,)), "of one side": ((7,), None), "blocks": ((7, 2), (2, 9)),
        "tiles": ((1, 2), (2, 1)),
    }[kind]  # fmt: skip
    made = tuple(None if shape is None else np.float32(rng.integers(1, 9, shape) / 4) for shape in shapes)
    return made, 40 if kind in ("blocks", "tiles") else 0


@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("kind", ["one", "rows", "of one side", "blocks", "tiles"])
def test_chunks_change_no_epilogue(kind, number):
    """Its scales, addend, bias and output scale in memory, or lazy as well."""
    scales, block = _scales(kind)
    x, y = X[0], Y
    joins = {"addend": np.float32(np.arange(9)), "bias": np.float32(np.ones((7, 1))), "output_scale": 0.5}
    how = {"epilogue": lp.Epilogue(block=block)}
    want = lp.matmul(x, y, "fp32_fma", scales=scales, **joins, **how)
    assert_lazily(lp.matmul(cut(x, number), cut(y, number), "fp32_fma", scales=scales, **joins, **how), want)
    lazily = {name: da.asarray(each) for name, each in joins.items()}
    others = tuple(each if each is None else da.from_array(each, chunks=3) for each in scales)
    assert_lazily(lp.matmul(x, cut(y, number), "fp32_fma", scales=others, **lazily, **how), want)
    assert_lazily(
        lp.matmul(x, y, "fp32_fma", scales=scales, **(joins | {"bias": lazily["bias"]}), **how), want
    )


def test_chunks_without_elements_change_no_product():
    """Along an axis of one element, along K, along rows and columns."""
    for x, y in ((X[0, :1], Y), (X[0], Y[:, :1]), (X[0], Y), (X[:1], Y2)):
        empty = [da.from_array(each, chunks=tuple((0, n) for n in each.shape)) for each in (x, y)]
        want = lp.matmul(x, y, "fp32_fma")
        for left, right in ((empty[0], y), (x, empty[1]), empty):
            assert_lazily(lp.matmul(left, right, "fp32_fma"), want)
    assert_lazily(
        lp.dot(da.from_array(X, chunks=((0, 2), (7,), (0, 70))), Y[:, 0], "fp32_fma"),
        lp.dot(X, Y[:, 0], "fp32_fma"),
    )


# -- xarray -----------------------------------------------------------------------------------------

LEFT = xr.DataArray(X, dims=("head", "token", "k"), coords={"token": np.arange(7) * 2})
RIGHT = xr.DataArray(Y, dims=("k", "out"), coords={"out": list("abcdefghi")})


@pytest.mark.parametrize("lazy", [False, True])
def test_names_are_kept(lazy):
    """Of the axes in front, of x's rows and y's columns, with their coordinates; of blocks too."""
    left, right = (LEFT.chunk(token=3, k=20), RIGHT.chunk(out=4)) if lazy else (LEFT, RIGHT)
    for made, want in (
        (lp.matmul(left, right, "fp32_fma"), lp.matmul(X, Y, "fp32_fma")),
        (
            lp.matmul(lp.encode(left, "mxfp4"), lp.encode(right, "mxfp4", axis=0), "fp32_fma"),
            lp.matmul(lp.encode(X, "mxfp4"), lp.encode(Y, "mxfp4", axis=0), "fp32_fma"),
        ),
    ):
        assert isinstance(made.data, da.Array if lazy else np.ndarray)
        assert (made.dims, made.name) == (("head", "token", "out"), None)
        assert made.coords["token"].values.tolist() == list(range(0, 14, 2))
        assert made.coords["out"].values.tolist() == list("abcdefghi")
        assert np.array_equal(made.values, want)
    sums = lp.dot(left, left, "fp32_fma", addend=1.0)
    assert sums.dims == ("head", "token")
    assert np.array_equal(sums.values, lp.dot(X, X, "fp32_fma", addend=1.0))
    assert lp.matmul(left[0, 0], right, "fp32_fma").dims == ("out",)
    assert lp.matmul(left, right[:, 0].drop_vars("out"), "fp32_fma").dims == ("head", "token")


@pytest.mark.parametrize("lazy", [False, True])
def test_what_joins_goes_by_names(lazy):
    """An addend, scales, a bias and an output scale, in any order of dimensions."""
    rng = np.random.default_rng(6)
    left, right = LEFT[0], RIGHT
    addend = xr.DataArray(np.float32(rng.integers(0, 9, (9, 7))), dims=("out", "token"))
    addend = addend.assign_coords(left.coords | right.coords)
    bias, factor = xr.DataArray(np.float32(rng.integers(0, 9, 9)), dims="out"), addend[0] + 1
    rows = xr.DataArray(np.float32(rng.integers(1, 9, 7)), dims="token")
    if lazy:
        left, addend, bias, rows = (
            left.chunk(token=3, k=20),
            addend.chunk(out=4),
            bias.chunk(),
            rows.chunk(token=2),
        )
    made = lp.matmul(left, right, "fp32_fma", addend=addend)
    assert np.array_equal(made, lp.matmul(X[0], Y, "fp32_fma", addend=addend.values.T))
    assert isinstance(made.data, da.Array if lazy else np.ndarray)
    made = lp.matmul(
        left, right, "fp32_fma", scales=(rows, None), addend=addend, bias=bias, output_scale=factor
    )
    want = lp.matmul(
        X[0], Y, "fp32_fma", scales=(rows.values, None), addend=addend.values.T, bias=bias.values,
        output_scale=factor.values[:, None],
    )  # fmt: skip
    assert made.dims == ("token", "out")
    assert np.array_equal(made, want)
    assert isinstance(made.data, da.Array if lazy else np.ndarray)


# -- what is said -----------------------------------------------------------------------------------


def test_a_cut_k_is_told():
    """Of which factor."""
    message = (
        "sums along axis 1 of x take all of it: chunks (50, 20) along axis 1 become (70,), which moves data "
        "between them; .rechunk({1: 70}) where the array is made saves that"
    )
    with pytest.warns(da.PerformanceWarning, match=f"^{re.escape(message)}$") as told:
        lp.matmul(da.from_array(X[0], chunks=50), Y, "fp32_fma")
    assert [one.filename for one in told] == [__file__]


def test_a_whole_k_is_not():
    """There is nothing to say."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lp.matmul(da.from_array(X[0], chunks=(2, 70)), da.from_array(Y, chunks=(70, 2)), "fp32_fma")


LAZY = da.from_array(X[0], chunks=(3, 70))


def _tiles():
    return lp.encode(da.from_array(X, chunks=-1), "nvfp4_2d", axis=(0, 2))


REFUSED = [
    (ValueError, lambda: lp.matmul(LAZY, Y[1:], "fp32_fma"),
     "matmul of shapes (7, 70) and (69, 9): x has 70 elements along K, y has 69; they must be equal"),
    (ValueError, lambda: lp.dot(LAZY, da.ones(()), "fp32_fma"),
     "dot of shapes (7, 70) and (): a single number has no K; use multiply or fma"),
    (ValueError, lambda: lp.matmul(da.ones((2, 7, 70)), np.ones((3, 70, 2)), "fp32_fma"),
     "matmul of shapes (2, 7, 70) and (3, 70, 2): the axes in front, (2,) and (3,), do not broadcast; make "
     "them equal, or 1"),
    (ValueError, lambda: lp.matmul(LAZY, Y, "fp32_fma", addend=np.ones(8)),
     "addend of shape (8,) does not broadcast to the result's shape (7, 9); give one number, or one for each "
     "result"),
    (ValueError, lambda: lp.matmul(LAZY, Y, "fp32_fma", out=np.ones((7, 9), np.float32)),
     "out= is for NumPy arrays; a dask array is converted lazily: leave it out"),
    (ValueError, lambda: lp.matmul(LAZY, Y, "fp32_fma", rng=1),
     "rng= is of no use: nothing of fp32_fma is rounded stochastically; leave it out"),
    (ValueError, lambda: lp.matmul(lp.encode(LAZY, "mxfp4", axis=0), Y, "fp32_fma"),
     "blocks of x lie along axis 0, but K is axis 1: encode with axis=1"),
    (ValueError, lambda: lp.matmul(_tiles(), Y, "fp32_fma"),
     "blocks of x lie along axes (0, 2), but lazy products take blocks along the last two: compute x first"),
    (ValueError, lambda: lp.matmul(LAZY[LAZY[:, 0] > 0], Y, "fp32_fma", bias=np.ones((7, 9))),
     "matmul needs the shapes of what it takes, and the sizes of some chunks are unknown; call "
     ".compute_chunk_sizes()"),
    (ValueError, lambda: lp.dot(LAZY[LAZY[:, 0] > 0], np.ones(70), "fp32_fma"),
     "dot needs the shapes of what it takes, and the sizes of some chunks are unknown; call "
     ".compute_chunk_sizes()"),
    (ValueError, lambda: lp.encode(LAZY[LAZY[:, 0] > 0], "e5m2", rounding=lp.stochastic(6),
                                   random=np.zeros((7, 70), np.uint8)),
     "random= goes with values by their places, and the sizes of some chunks are unknown; call "
     ".compute_chunk_sizes()"),
    (TypeError, lambda: lp.matmul(LEFT, Y, "fp32_fma"),
     "y has no names of dimensions, and the other factor has: make it a DataArray, or give the other's "
     ".data"),
    (ValueError, lambda: lp.matmul(LEFT[0], LEFT[0].T, "fp32_fma"),
     "the result would have dimensions ('token', 'token'), one name twice: rename that of x or y"),
    (ValueError, lambda: lp.matmul(LEFT[0], RIGHT.rename(k="c"), "fp32_fma"),
     "K is dimension 'k' of x, and 'c' of y: transpose one of them, or rename it"),
    (ValueError, lambda: lp.matmul(LEFT[0], RIGHT, "fp32_fma", bias=xr.DataArray(np.ones(9), dims="c")),
     "bias has dimensions ('c',), and the result has ('token', 'out'): rename or drop the others"),
    (TypeError, lambda: lp.matmul(LAZY, Y, "fp32_fma", scales=(xr.DataArray(np.ones(7), dims="c"), None)),
     "scale of x has dimensions ('c',), and the arrays that it goes with have no names: make them "
     "DataArrays, or give its .data"),
    (ValueError, lambda: lp.matmul(LAZY, Y, "fp32_fma", scales=(np.ones((7, 2)), None)),
     "scale of x has 2 numbers along K of 70: say how many elements share one, such as "
     "epilogue=Epilogue(block=128); those of rows or columns have 1 in the place of K"),
    (ValueError, lambda: lp.matmul(LAZY, Y, "fp32_fma", bias=np.ones(8)),
     "bias of shape (8,) does not broadcast to the result's shape (7, 9); give one number, or one for each "
     "result"),
    (TypeError, lambda: lp.dot(LEFT.to_dataset(name="a"), [1.0, 2.0], "fp32_fma"),
     "Dataset of xarray is no array; use .map for the arrays of a Dataset, and dask.array for delayed "
     "values"),
    (TypeError, lambda: lp.matmul([[1.0, 2.0]], dask.delayed(np.ones)(2), "fp32_fma"),
     "Delayed of dask is no array; use .map for the arrays of a Dataset, and dask.array for delayed "
     "values"),
    (ValueError, lambda: lp.dot(LEFT, LEFT.rename(head="b"), "fp32_fma"),
     "the dimensions in front, ('head', 'token') of x and ('b', 'token') of y, are of other names: transpose "
     "or rename them"),
]  # fmt: skip


@pytest.mark.parametrize(("error", "call", "message"), REFUSED, ids=map(str, range(len(REFUSED))))
def test_what_cannot_be_is_refused(error, call, message):
    """At once."""
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        call()


def test_coordinates_must_be_equal():
    """Tokens of other places are not multiplied with each other."""
    with pytest.raises(ValueError, match="cannot align"):
        lp.dot(LEFT, LEFT.assign_coords(token=np.arange(7)), "fp32_fma")


def test_scales_go_with_lazy_factors_without_products():
    """And scales in chunks without elements."""
    for length in (0, 2):
        x, y, scales = np.ones((3, length)), np.ones((length, 2)), (np.arange(3.0), np.arange(2.0)[None])
        want = lp.matmul(x, y, "exact", scales=scales, bias=1.0)
        lazy = da.from_array(scales[0], chunks=((0, 3),)), da.from_array(scales[1], chunks=((0, 1), (2, 0)))
        for given in (scales, lazy):
            got = lp.matmul(da.from_array(x), y, "exact", scales=given, bias=1.0).compute()
            assert got.tobytes() == want.tobytes()
