"""Random integers belong to places in the logical array: chunks, threads and memory order change nothing."""

import functools
import re

import dask.array as da
import numpy as np
import pytest
import xarray as xr

import lowprec as lp
from tests.support import refusal_test

VALUES = np.random.default_rng(3).standard_normal((37, 53)).astype(np.float32)
MODE = lp.stochastic(16)


@functools.cache
def want():
    return lp.encode(VALUES, "e4m3fn", rounding=MODE, rng=99, backend="oracle")


@pytest.mark.parametrize(
    ("origin", "box"),
    [((0, 0, 0), (7, 9, 11)), ((3, 2, 5), (2, 3, 4)), ((6, 8, 10), (1, 1, 1)), ((0, 0, 3), (7, 9, 0))],
)
def test_any_box_has_the_words_of_the_whole(origin, box):
    """Slices of the larger array's integers."""
    whole = lp.random_bits((7, 9, 11), 12345, 13)
    part = lp.random_bits(box, 12345, 13, origin=origin, within=(7, 9, 11))
    assert (part == whole[tuple(slice(low, low + size) for low, size in zip(origin, box, strict=True))]).all()
    assert part.shape == box


def test_a_scalar_has_the_first_word():
    """Of no dimension at all."""
    assert lp.random_bits((), 7, 32) == lp.random_bits(3, 7, 32)[0]
    assert lp.encode(1.03, "e4m3fn", rounding="stochastic(8)", rng=7) in (56, 57)


def test_rng_stands_for_random_bits():
    """A verb given one gives the same as one given the other; a Generator is drawn from once."""
    random = lp.random_bits(VALUES.shape, 99, 16)
    assert (lp.encode(VALUES, "e4m3fn", rounding=MODE, random=random) == want()).all()
    key = int(np.random.default_rng(1).integers(0, 1 << 64, dtype=np.uint64))
    from_generator = lp.encode(VALUES, "e4m3fn", rounding=MODE, rng=np.random.default_rng(1))
    assert (from_generator == lp.encode(VALUES, "e4m3fn", rounding=MODE, rng=key)).all()


@pytest.mark.parametrize("chunks", [(37, 53), (5, 7), (1, 53), (37, 1), (16, 16)])
def test_dask_chunks_change_nothing(chunks):
    """Lazily, with the place of each chunk; quantize and cast too."""
    array = da.from_array(VALUES, chunks=chunks)
    codes = lp.encode(array, "e4m3fn", rounding=MODE, rng=99)
    assert isinstance(codes, da.Array)
    assert codes.dtype == np.uint8
    assert (codes.compute(scheduler="threads") == want()).all()
    random = lp.random_bits(VALUES.shape, 99, 16)
    assert (lp.encode(array, "e4m3fn", rounding=MODE, random=random).compute() == want()).all()
    values = lp.quantize(array, "e4m3fn", rounding=MODE, rng=99)
    assert values.dtype == np.float32
    assert (values.compute() == lp.decode(want(), "e4m3fn")).all()
    assert (lp.decode(codes, "e4m3fn").compute() == lp.decode(want(), "e4m3fn")).all()
    down = lp.cast(codes, "e4m3fn", "e2m1fn", rounding=MODE, rng=4)
    assert (down.compute() == lp.cast(want(), "e4m3fn", "e2m1fn", rounding=MODE, rng=4)).all()


def test_xarray_objects_keep_their_coordinates():
    """Around NumPy and around Dask arrays."""
    for data in (VALUES, da.from_array(VALUES, chunks=(10, 10))):
        array = xr.DataArray(data, dims=("row", "column"), coords={"row": np.arange(37) * 2})
        codes = lp.encode(array, "e4m3fn", rounding=MODE, rng=99)
        assert isinstance(codes, xr.DataArray)
        assert isinstance(codes.data, type(data))
        assert codes.coords["row"].values.tolist() == list(range(0, 74, 2))
        assert (codes.values == want()).all()


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rng": 1}, "rng= is for stochastic rounding, and rounding nearest_even is not; leave it out"),
        (
            {"random": np.zeros((37, 53), np.uint32)},
            "random= is for stochastic rounding, and rounding nearest_even is",
        ),
        ({"rounding": "stochastic(4)"}, "needs random= or rng=, and was given neither; give one of them"),
        (
            {"rounding": "stochastic(4)", "rng": 1, "random": np.zeros((37, 53), np.uint32)},
            "needs random= or rng=, and was given both; give one of them",
        ),
    ],
)
def test_random_integers_go_with_stochastic_modes_alone(options, message, lazy):
    """Neither too few nor too many, for lazy arrays before they are computed."""
    values = VALUES
    if lazy:
        values = da.from_array(VALUES)
    with pytest.raises(ValueError, match=re.escape(message)):
        lp.encode(values, "e4m3fn", **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"random": np.full(3, 16)}, "random must lie in 0 to 2**4 - 1, not 16 to 16"),
        ({"random": np.array([0, -1, 0])}, "random must lie in 0 to 2**4 - 1, not -1 to 0"),
        ({"random": np.zeros(2, np.uint32)}, "random has shape (2,), but needs (3,)"),
        (
            {"random": np.zeros(3)},
            "random must be an array of integers, not of float64; lowprec.random_bits",
        ),
        ({"rng": -1}, "rng=-1 is out of range; use 0 to 2**64 - 1"),
        ({"rng": 1 << 64}, "rng=18446744073709551616 is out of range"),
        ({"rng": 1.5}, "rng must be an integer, the key, or a numpy.random.Generator, not 1.5"),
        ({"rng": True}, "rng must be an integer, the key, or a numpy.random.Generator, not True"),
    ],
)
def test_bad_random_integers_are_refused(options, message):
    """With the range and what was given."""
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        lp.encode([1.0, 2.0, 3.0], "e4m3fn", rounding="stochastic(4)", **options)


def test_words_of_a_group_have_the_shape_of_groups():
    """Four lanes to a word, the last group broken."""
    mode = lp.stochastic(16, "ptx_rs")
    with pytest.raises(
        ValueError, match=re.escape("random has shape (3, 10), but needs (3, 3): 4 elements along")
    ):
        lp.encode(np.ones((3, 10)), "e4m3fn", rounding=mode, random=np.zeros((3, 10), np.uint32))
    assert lp.encode(np.ones((3, 10)), "e4m3fn", rounding=mode, random=np.zeros((3, 3), np.uint32)).shape == (
        3,
        10,
    )


def test_named_words_go_to_the_places_of_their_names():
    """Lazily too; dimensions that values do not have, and values without names, are refused."""
    words = lp.random_bits(VALUES.shape, 99, 16)
    array, random = xr.DataArray(VALUES, dims=("a", "b")), xr.DataArray(words.T, dims=("b", "a"))
    for values, integers in ((array, random), (array.chunk(a=5), random), (array, random.chunk(b=7))):
        codes = lp.encode(values, "e4m3fn", rounding=MODE, random=integers)
        assert codes.dims == ("a", "b")
        assert (codes.values == want()).all()
        doubled = lp.add(values, values, "e4m3fn", rounding=MODE, random=integers)
        assert (doubled.values == lp.add(VALUES, VALUES, "e4m3fn", rounding=MODE, random=words)).all()
    with pytest.raises(
        TypeError, match=r"^random has dimensions \('b', 'a'\), and the arrays that it goes with"
    ):
        lp.encode(VALUES, "e4m3fn", rounding=MODE, random=random)
    with pytest.raises(
        ValueError, match=r"^random has dimensions \('c', 'a'\), and the result has \('a', 'b'\)"
    ):
        lp.encode(array, "e4m3fn", rounding=MODE, random=random.rename(b="c"))
    with pytest.raises(ValueError, match="align"):
        lp.encode(
            array.assign_coords(a=np.arange(37)), "e4m3fn", rounding=MODE,
            random=random.assign_coords(a=np.arange(37)[::-1]),
        )  # fmt: skip


def test_lazy_words_give_lazy_codes():
    """Of values in memory."""
    words = lp.random_bits(VALUES.shape, 99, 16)
    codes = lp.encode(VALUES, "e4m3fn", rounding=MODE, random=da.from_array(words, chunks=(37, 20)))
    assert isinstance(codes, da.Array)
    assert (codes.compute() == want()).all()


@pytest.mark.parametrize("arguments", [(4, 7, 8.5), (4, 7, True), (4.5, 7, 8), ((2, 1.5), 7, 8)])
def test_only_integers_are_integers(arguments):
    """Nothing is rounded to one."""
    with pytest.raises(TypeError, match="of random integers must be an integer, not"):
        lp.random_bits(*arguments)


test_what_cannot_be_is_refused = refusal_test(
    globals(),
    """
lp.encode([1.0], "e4m3fn", rounding=lp.stochastic(8, "ptx_rs"), rng=1)
    ValueError: variant='ptx_rs' with bits=8 does not fit 'e4m3fn'; use bits=16
lp.encode([1.0], "e2m1fn", rounding=lp.stochastic(16, "ptx_rs"), rng=1)
    ValueError: variant='ptx_rs' with bits=16 has no conversion to 'e2m1fn'...
lp.encode([1.0], "bfloat16", rounding=lp.stochastic(16, "rdna4"), rng=1)
    ValueError: variant='rdna4' with bits=16 has no conversion to 'bfloat16'; it has binary formats of 8
    bits with a sign bit
lp.encode([1.0], "e5m2", rounding=lp.stochastic(7, "avx10_2"), rng=1)
    ValueError: variant='avx10_2' with bits=7 does not fit 'e5m2'; use bits=8
lp.encode(da.from_array(VALUES), "e4m3fn", out=np.zeros(VALUES.shape, np.uint8))
    ValueError: out= is for NumPy arrays; a dask array is converted lazily: leave it out
lp.encode(da.from_array(VALUES), "e4m3fn", flags=np.zeros(VALUES.shape, np.uint8))
    ValueError: flags= is for NumPy arrays; a dask array is converted lazily: leave it out
lp.random_bits((4,), 1, 0)
    ValueError: bits=0 of random integers is out of range; use 1 to 32
lp.random_bits((4,), 1, 33)
    ValueError: bits=33 of random integers is out of range; use 1 to 32
lp.{encode|quantize}(np.ones(3, np.float32), "e4m3fn", random=da.zeros(3, np.uint32))
    ValueError: random= is for stochastic rounding, and rounding nearest_even is not; leave it out
lp.add(np.ones(3, np.float32), np.ones(3, np.float32), "e4m3fn",
        random=da.zeros(3, np.uint32))
    ValueError: random= is for stochastic rounding, and rounding nearest_even is not; leave it out
lp.{encode|quantize}(np.ones(3, np.float32), "e4m3fn", random=da.zeros(3, np.uint32),
        rounding="stochastic(8)", rng=1)
    ValueError: rounding stochastic(8, A) needs random= or rng=, and was given both; give one of them
lp.add(np.ones(3, np.float32), np.ones(3, np.float32), "e4m3fn",
        random=da.zeros(3, np.uint32), rounding="stochastic(8)", rng=1)
    ValueError: rounding stochastic(8, A) needs random= or rng=, and was given both; give one of them
lp.random_bits(4, 1, 8, origin=(2,), within=(5,))
    ValueError: a box of shape=(4,) at origin=(2,) does not lie within=(5,)
lp.random_bits(4, 1, 8, origin=(2, 0), within=(5,))
    ValueError: shape=(4,), origin=(2, 0) and within=(5,) must have as many dimensions
lp.random_bits(1, 7, 8, origin=(1 << 65,), within=(1 << 66,))
    ValueError: ...has 2**64 elements or more...
lp.encode(xr.Dataset({"a": ("x", VALUES[0])}), "e4m3fn")
    TypeError: Dataset of xarray is no array...
lp.encode(da.from_array(VALUES.reshape(-1), chunks=100)[da.from_array(VALUES.reshape(-1), chunks=100) > 0],
        "e4m3fn", rounding=MODE, rng=1)
    ValueError: ...and the sizes of some chunks are unknown; call .compute_chunk_sizes...
lp.encode(da.from_array(VALUES.reshape(-1), chunks=100), "e4m3fn", rounding=MODE, random=np.zeros(3,
        np.uint32))
    ValueError: random has shape (3,), but needs (1961,)
""",
)
