"""A BlockArray as an array: its shapes, equality, copies, and what NumPy gets of it."""

import collections
import copy
import itertools
import math
import pickle
import re
from fractions import Fraction

import numpy as np
import pytest

import lowprec as lp
from tests.support import refusal_test

VALUES = np.random.default_rng(0).standard_normal((4, 96)).astype(np.float32)
# By the oracle, which compiles nothing while tests are collected.
BLOCKS = lp.encode(VALUES, "mxfp4", backend="oracle")
SCALED = lp.encode(VALUES, "nvfp4", backend="oracle")
TILES = lp.encode(np.random.default_rng(1).standard_normal((3, 32, 48)), "nvfp4_2d", backend="oracle")
PAIRS = lp.BlockFormat(element="e2m1fn", scale="e8m0fnu", size=2, name="pairs")
BOTH = lp.BlockFormat(element="e2m1fn", scale="e8m0fnu", size=(2, 3), name="both")


# -- shapes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("blocks", [BLOCKS, SCALED, TILES], ids=["mxfp4", "nvfp4", "tiles"])
def test_transposed_blocks_are_those_of_transposed_values(blocks):
    """Codes and scales are views; blocks lie along the same elements."""
    assert (blocks.T.values() == blocks.values().T).all()
    assert blocks.T.T == blocks
    assert np.shares_memory(blocks.T.codes, blocks.codes)
    assert blocks.T.axes == tuple(blocks.ndim - 1 - axis for axis in blocks.axes)
    again = lp.encode(blocks.values().T, blocks.format, axis=blocks.T.axes, tensor_scale=blocks.tensor_scale)
    assert (again.values() == blocks.T.values()).all()


def test_a_length_and_rows():
    """Rows are blocks too, where no block is cut; else it is said."""
    assert (len(BLOCKS), BLOCKS.ndim, BLOCKS.size) == (4, 2, 384)
    assert [row == BLOCKS[place] for place, row in enumerate(BLOCKS)] == [True] * 4
    with pytest.raises(IndexError, match="would take one element out of a block of 32"):
        list(BLOCKS.T)
    with pytest.raises(TypeError, match=r"^len\(\) of a BlockArray without axes$"):
        len(lp.BlockArray._made(np.zeros((), np.uint8), np.zeros((), np.uint8), PAIRS, (), None))


def _groups(shape, axes, sizes):
    """The sets of places, in the order of C, that share a scale."""
    places = np.arange(int(np.prod(shape))).reshape(shape)
    groups = {}
    for index in np.ndindex(*shape):
        block = list(index)
        for axis, size in zip(axes, sizes, strict=True):
            block[axis] //= size
        groups.setdefault(tuple(block), set()).add(int(places[index]))
    return {frozenset(each) for each in groups.values()}


def _shapes(count, most=3):
    """All shapes of so many elements, of up to so many axes."""
    lengths = [n for n in range(1, count + 1) if count % n == 0]
    for ndim in range(1, most + 1):
        yield from (each for each in itertools.product(lengths, repeat=ndim) if np.prod(each) == count)


@pytest.mark.parametrize("count", [6, 8, 12])
def test_blocks_are_reshaped_where_the_same_elements_share_scales(count):
    """Reshape all shapes to all shapes: allowed where any axis has the same blocks, and then with these."""
    done = 0
    for shape in _shapes(count):
        values = np.arange(1, count + 1, dtype=np.float32).reshape(shape)
        for axis in [place for place, length in enumerate(shape) if length > 1]:  # else there are no blocks
            blocks, groups = lp.encode(values, PAIRS, axis=axis), _groups(shape, (axis,), (2,))
            for new in _shapes(count):
                if any(_groups(new, (each,), (2,)) == groups for each in range(len(new))):
                    made = blocks.reshape(*new)
                    assert _groups(new, made.axes, (2,)) == groups
                    assert (made.values() == blocks.values().reshape(new)).all()
                    assert made.reshape(shape).values().tolist() == blocks.values().tolist()
                    done += 1
                else:
                    with pytest.raises(ValueError, match=r"would cut blocks of 2 of an array of shape"):
                        blocks.reshape(new)
    assert done > 50


def test_tiles_are_reshaped_in_front_of_them():
    """Keep what lies behind the first axis of a tile; blocks along one axis let that be split too."""
    values = np.arange(72, dtype=np.float32).reshape(3, 4, 6)
    blocks = lp.encode(values, BOTH)
    for new in ((12, 6), (3, 2, 2, 6), (6, 2, 6), (1, 3, 4, 6)):
        made = blocks.reshape(new)
        assert (made.values() == blocks.values().reshape(new)).all()
        assert _groups(new, made.axes, (2, 3)) == _groups((3, 4, 6), (1, 2), (2, 3))
    assert BLOCKS.reshape(-1).scales.tolist() == BLOCKS.scales.reshape(-1).tolist()
    assert BLOCKS.reshape((2, -1, 32)).axes == (2,)
    assert BLOCKS.reshape(np.array([2, -1, 32])).shape == BLOCKS.reshape((2, -1, 32)).shape


# -- equality and copies ----------------------------------------------------------------------------


def test_blocks_are_equal_if_their_bits_are():
    """And their formats, axes and scales; of an array of values NumPy compares the values."""
    assert lp.encode(VALUES, "mxfp4") == BLOCKS
    changed = BLOCKS.copy()
    changed.codes[0, 0] ^= 1
    assert changed != BLOCKS
    scaled = BLOCKS.copy()
    scaled.scales[0, 0] += 1
    assert scaled != BLOCKS
    assert lp.encode(VALUES, "mxfp4", rule="rceil") != BLOCKS
    assert (SCALED == SCALED.copy()) is True
    assert lp.encode(VALUES, "nvfp4", tensor_scale=1.0) != lp.encode(VALUES, "nvfp4", tensor_scale=2.0)
    square = lp.encode(VALUES[:, :4], "mxfp4")
    assert square.T != square
    assert BLOCKS != "mxfp4"
    nan = lp.encode(np.full(32, np.nan, np.float32), "mxfp8_e4m3")
    assert nan == nan.copy()
    assert (np.asarray(BLOCKS) == BLOCKS).all()
    with pytest.raises(TypeError, match="unhashable"):
        hash(BLOCKS)


@pytest.mark.parametrize(
    "again", [lp.BlockArray.copy, copy.copy, copy.deepcopy, lambda blocks: pickle.loads(pickle.dumps(blocks))]
)
@pytest.mark.parametrize("blocks", [BLOCKS, SCALED, TILES.T], ids=["mxfp4", "nvfp4", "tiles"])
def test_copies_and_pickles_are_equal(again, blocks):
    """With the format, and the tensor's scale; memory of their own, but for `copy.copy`."""
    made = again(blocks)
    assert made == blocks
    assert made.axes == blocks.axes
    assert np.shares_memory(made.codes, blocks.codes) is (again is copy.copy)


# -- NumPy ------------------------------------------------------------------------------------------


def test_values_are_not_looked_for_among_blocks():
    blocks = lp.encode([[1.0, 2.0]], "mxfp4")
    with pytest.raises(TypeError, match=re.escape("ask np.any(lp.decode(blocks) == value)")):
        _ = 1.0 in blocks
    assert np.any(lp.decode(blocks) == 1.0)


@pytest.mark.parametrize("save", [np.save, np.savez, np.savez_compressed, np.savetxt])
def test_numpy_does_not_save_values_in_place_of_blocks(save, tmp_path):
    """The way out is named; nothing is written."""
    message = (
        f"numpy.{save.__name__} would save the decoded values, without codes and scales: lowprec.save(path, "
        "{name: blocks}) saves the blocks; give .values() to save values"
    )
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        save(tmp_path / "blocks", BLOCKS)
    assert not list(tmp_path.iterdir())
    save(tmp_path / "values", BLOCKS.values())


@pytest.mark.parametrize("write", [
    lambda: np.copyto(BLOCKS, 1),
    lambda: np.put(BLOCKS, [0], 1),
    lambda: np.place(BLOCKS, VALUES > 0, 1),
    lambda: np.fill_diagonal(BLOCKS, 1),
    lambda: np.nan_to_num(BLOCKS, copy=False),
    lambda: np.clip(VALUES, 0, 1, out=BLOCKS),
    lambda: np.sum([VALUES, VALUES], 0, None, BLOCKS),
])  # fmt: skip
def test_numpy_functions_do_not_write_to_values_that_are_lost(write):
    """They wrote to an array that nobody has, and the blocks stayed as they were without a word."""
    with pytest.raises(ValueError, match="read-only") as caught:
        write()
    (note,) = caught.value.__notes__
    assert "the values of a BlockArray are computed, so nothing can be written to them" in note


def test_numpy_functions_take_the_values():
    """Take values alone, in lists, by keyword; nothing is rounded twice, and no integer is made of them."""
    values = BLOCKS.values()
    assert np.asarray(BLOCKS).dtype == np.float32
    assert (np.asarray(BLOCKS) == values).all()
    assert np.sum(BLOCKS) == np.sum(values)
    assert (np.concatenate([BLOCKS, VALUES]) == np.concatenate([values, VALUES])).all()
    assert (np.add(BLOCKS, 1) == values + 1).all()
    assert np.mean(a=BLOCKS) == np.mean(values)
    assert (np.asarray(SCALED, np.float64) == SCALED.values(np.float64)).all()
    assert (np.asarray(SCALED, np.float16) == SCALED.values(np.float16)).all()
    with pytest.raises(TypeError, match=r"not in uint8; its codes are \.codes, without gaps \.packed\(\)$"):
        np.asarray(BLOCKS, np.uint8)
    with pytest.raises(ValueError, match="are computed, never a view"):
        np.asarray(BLOCKS, copy=False)


Two = collections.namedtuple("Two", "first second")


@pytest.mark.parametrize(
    "kind", [Two._make, collections.deque, collections.UserList, lambda each: dict(enumerate(each)).values()]
)
def test_numpy_takes_blocks_in_sequences_of_any_kind(kind):
    values = BLOCKS.values()
    assert np.array_equal(np.concatenate(kind([BLOCKS, VALUES]), axis=1), np.concatenate([values, VALUES], 1))


def test_numbers_between_two_halves_are_rounded_once():
    """A product just above the middle of two float16 numbers; float32 has the middle itself."""
    blocks = lp.BlockArray([1], [0x38], "nvfp4", 0, 2.0 * np.float32(1 + 2**-11 + 2**-23))
    assert np.asarray(blocks, np.float16) == np.float16(1 + 2**-10)
    halves = np.asarray(blocks, np.float64)
    assert halves[0] == 1 + 2**-11 + 2**-23


def test_operations_on_blocks_round_the_exact_products_once():
    """1.25 times a binary32 number, just above the middle of two float16 numbers; float32 has the middle."""
    blocks = lp.BlockArray([2], [0x3A], "nvfp4", 0, np.nextafter(np.float32(2049 / 2560), np.float32(1)))
    assert blocks.values().tolist() == [1 + 2**-11]
    for made in (lp.quantize(blocks, "binary16"), lp.add(-0.0, blocks, "binary16")):
        assert made.tolist() == [1 + 2**-10]


def test_blocks_beyond_the_range_of_float32_are_operands():
    """448 * 2**127, over 2**127."""
    blocks = lp.BlockArray([0x7E], [254], "mxfp8_e4m3")
    assert lp.divide(blocks, 2.0**127, "binary32") == 448
    assert np.isinf(blocks.values()).all()


def test_codes_in_a_ragged_list_are_refused_as_those_of_other_verbs():
    for codes in ([[1, 2], [3]], ([1], 2)):
        with pytest.raises(TypeError, match=r"^cannot make an array of (list|tuple): "):
            lp.BlockArray(codes, [127], "mxfp4")


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e8m0fnu", "float4_e2m1fn", "int4"])
def test_scales_of_tensors_may_be_of_types_of_ml_dtypes(name):
    scale = np.array(2).astype(name)[()]
    blocks = lp.encode([1.0, 2.0], "nvfp4", tensor_scale=scale)
    assert blocks == lp.encode([1.0, 2.0], "nvfp4", tensor_scale=2.0)
    assert lp.BlockArray(blocks.codes, blocks.scales, "nvfp4", 0, scale) == blocks
    with pytest.raises(TypeError, match=r"tensor_scale must be a number of at most 64 bits, not np\.True_"):
        lp.encode([1.0, 2.0], "nvfp4", tensor_scale=np.True_)


def test_slices_that_begin_behind_the_last_block_are_empty():
    blocks = lp.encode(np.ones((2, 80), np.float32), "mxfp4")
    for key in (np.s_[:, 80:], np.s_[:, 96:128], np.s_[:, 64:64], np.s_[:, 80:10]):
        part = blocks[key]
        assert (part.shape, part.scales.shape) == (blocks.codes[key].shape, (2, 0))
        assert part.values().shape == (2, 0)


test_what_cannot_be_is_refused = refusal_test(
    globals(),
    """
BLOCKS.reshape(None)
    TypeError: a shape is integers, or one tuple of them, and not (None,); -1 stands for the rest
BLOCKS.reshape(64.0)
    TypeError: a shape is integers, or one tuple of them, and not (64.0,); -1 stands for the rest
BLOCKS[np.array(True)]
    TypeError: a BlockArray is indexed by integers and slices, not by array(True); use .values()[...]
BLOCKS[np.array(1.0)]
    TypeError: a BlockArray is indexed by integers and slices, not by array(1.); use .values()[...]
BLOCKS.reshape((8, 48))
    ValueError: shape (8, 48) would cut blocks of 32 of an array of shape (4, 96): an axis must have
    length 96 or a multiple of 32 and be the last; or use .values().reshape(...)
lp.encode(VALUES[:, :40], "mxfp4", backend="oracle").reshape((-1,))
    ValueError: shape (160,) would cut blocks of 32 of an array of shape (4, 40): an axis must have
    length 40 and be the last; or use .values().reshape(...)
BLOCKS.T.reshape((96, 2, 2, 2))
    ValueError: cannot reshape 384 elements of shape (96, 4) into shape (96, 2, 2, 2)
TILES.reshape((96, 3, 16))
    ValueError: shape (96, 3, 16) would cut blocks of 16x16 of an array of shape (3, 32, 48): an axis
    must have length 32 or a multiple of 16, and then come 48; or use .values().reshape(...)
BLOCKS.reshape((-1, -1))
    ValueError: cannot reshape 384 elements of shape (4, 96) into shape (-1, -1)
lp.add(lp.BlockArray([1], [0], lp.BlockFormat(element=lp.Format(name="wide", exponent_bits=2,
        trailing_bits=29), scale="binary32", size=1, name="long")), 1, "binary32")
    TypeError: ...'long', so operations do not take these blocks: give .values()...
lp.quantize([[BLOCKS]], "e4m3fn")
    TypeError: a list would round values of blocks to float32; give .values(dtype) of each
""",
)


@pytest.mark.parametrize("element", ["takum8", "takum_linear8", "lns8_3", "posit8"])
def test_products_of_codebooks_and_powers_of_two_are_operands(element):
    """Hold every value times every scale, and sums of blocks, against fractions."""
    fmt = lp.BlockFormat(name="b", element=element, scale="e8m0fnu", size=16)
    values = [float(value) for value in lp.format(element).values if math.isfinite(float(value))]
    assert all(
        Fraction(value * 2.0**k) == Fraction(value) * Fraction(2) ** k
        for value in values
        for k in range(-127, 128)
    )
    blocks = lp.encode(np.random.default_rng(0).standard_normal((4, 32)), fmt)
    elements, units = lp.decode(blocks.codes, element), lp.decode(blocks.scales, "e8m0fnu")
    pairs = zip(elements.reshape(-1).tolist(), np.repeat(units, 16, 1).reshape(-1).tolist(), strict=True)
    exact = [float(Fraction(value) * Fraction(unit)) for value, unit in pairs]
    assert lp.add(blocks, 0.0, "binary32").reshape(-1).tolist() == np.float32(exact).tolist()


def test_products_that_float64_rounds_are_no_operands():
    fmt = lp.BlockFormat(name="b", element="takum8", scale="e4m3fn", size=16)
    with pytest.raises(TypeError, match="float64 rounds products of elements and scales of 'b'"):
        lp.add(lp.encode(np.ones((1, 16)), fmt), 0.0, "binary32")
