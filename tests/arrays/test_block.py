"""Arrays in blocks: what they are made of, their values and parts, and what the verbs take and refuse."""

import dataclasses
import itertools
import re

import ml_dtypes
import numpy as np
import pytest

import lowprec as lp
from lowprec.arrays.blocks import block_array
from lowprec.kernels.codes import code_dtype
from lowprec.spec import catalog
from lowprec.spec.rounding import stochastic
from tests.programs import need_framework
from tests.support import assert_same_bits, refusal_test

ZEROS = np.zeros(32, np.uint8)
SAMPLE = (np.random.default_rng(1).standard_normal((6, 100)) * 7).astype(np.float32)
FORMATS = tuple(catalog.BLOCK_FORMATS.values())
NAMES = ", ".join(catalog.BLOCK_FORMATS)
TILES = lp.BlockFormat(name="tiles", element="e4m3fn", scale="binary32", size=(2, 3))


def refused(error, message, call):
    """The call raises this very type with this very message."""
    with pytest.raises(error, match=f"^{re.escape(message)}$") as caught:
        call()
    assert type(caught.value) is error


def _same(first, second):
    """Two block arrays have the same parts."""
    assert first.format == second.format
    assert first.axes == second.axes
    assert first.tensor_scale == second.tensor_scale
    assert np.array_equal(first.codes, second.codes)
    assert np.array_equal(first.scales, second.scales)


# -- parts ----------------------------------------------------------------------------------------------


def test_a_block_array_takes_what_codes_may_be():
    """Lists, wide and signed integers, and ml_dtypes' own types, by their bits; the format by its name."""
    blocks = lp.BlockArray([[126, 1, 0]], np.array([[127]]), "mxfp8_e4m3")
    assert blocks.format is catalog.MXFP8_E4M3
    assert blocks.codes.dtype == blocks.scales.dtype == np.uint8
    assert blocks.values().tolist() == [[448, 2.0**-9, 0]]
    typed = lp.BlockArray(
        np.array([[448, 2.0**-9, 0]], ml_dtypes.float8_e4m3fn),
        np.array([[1]], ml_dtypes.float8_e8m0fnu),
        "mxfp8_e4m3",
    )
    _same(blocks, typed)


@pytest.mark.parametrize(
    ("axes", "want"), [((), (1,)), (-1, (1,)), (1, (1,)), ([-1], (1,)), (0, (0,)), ((-2,), (0,))]
)
def test_axes_are_counted_from_the_front(axes, want):
    """The last by default."""
    scales = np.full((2, 1) if want == (1,) else (1, 3), 127, np.uint8)
    blocks = lp.BlockArray(np.zeros((2, 3), np.uint8), scales, "mxfp4", axes)
    assert blocks.axes == want
    assert blocks.shape == (2, 3)


WRONG_PARTS = [
    (ValueError, (ZEROS, [127, 127], "mxfp4"),
     "scales of 'mxfp4' have shape (2,), but codes of shape (32,) in blocks of 32 along axis 0 need (1,)"),
    (ValueError, (ZEROS, 127, "mxfp4"),
     "scales of 'mxfp4' have shape (), but codes of shape (32,) in blocks of 32 along axis 0 need (1,)"),
    (ValueError, (ZEROS.reshape(2, 16), [[56, 56]], "nvfp4_2d", (), 1.0),
     "scales of 'nvfp4_2d' have shape (1, 2), but codes of shape (2, 16) in blocks of 16x16 along axes 0 and "
     "1 need (1, 1)"),
    (ValueError, (ZEROS + 16, [127], "mxfp4"),
     "codes of 'e2m1fn' are 0 to 15: 32 of 32 are not, the first at index (0,), which is 16. Mask the unused "
     "bits, or name the format that they are codes of"),
    (ValueError, (ZEROS, [300], "mxfp4"),
     "codes of 'e8m0fnu' are 0 to 255: 1 of 1 is not, the first at index (0,), which is 300. Mask the unused "
     "bits, or name the format that they are codes of"),
    (TypeError, (ZEROS.astype(float), [127], "mxfp4"),
     "codes of 'e2m1fn' must be integers, not float64: `encode` makes codes from values"),
    (TypeError, (ZEROS, [127.0], "mxfp4"),
     "codes of 'e8m0fnu' must be integers, not float64: `encode` makes codes from values"),
    (ValueError, (ZEROS, [127], "mxfp5"),
     f"unknown block format 'mxfp5'; did you mean 'mxfp4' or 'mxfp8_e5m2'? `lowprec formats` lists {NAMES}"),
    (ValueError, (ZEROS, [127], "mxfp8"),
     "block format 'mxfp8' is ambiguous: use 'mxfp8_e4m3' or 'mxfp8_e5m2'"),
    (TypeError, (ZEROS, [127], 3), "a block format must be a BlockFormat or a name, not 3"),
    (ValueError, (ZEROS, [127], "mxfp4", 1), "blocks of 'mxfp4' need one axis, and the array "
                                             "has 1: axis=1 is not there"),
    (ValueError, (ZEROS, [127], "mxfp4", (0, 1)),
     "blocks of 'mxfp4' lie along one axis, and axis=(0, 1) names 2"),
    (TypeError, (ZEROS, [127], "mxfp4", "0"), "axis must be an integer or a tuple of them, not '0'"),
    (ValueError, (np.uint8(1), [127], "mxfp4"),
     "blocks of 'mxfp4' need one axis, and the array has 0: the last of them is not there"),
    (ValueError, (ZEROS, [127], "mxfp4", 0, 2.0),
     "tensor_scale=2.0 is for formats that have one, and 'mxfp4' has none"),
    (ValueError, (ZEROS, [56, 56], "nvfp4"),
     "'nvfp4' has a scale of the whole tensor; give tensor_scale=, 1.0 if there is none"),
    *((ValueError, (ZEROS, [56, 56], "nvfp4", 0, given),
       f"tensor_scale={given!r} must be one positive number that float32 holds")
      for given in (0.0, -1, float("nan"), float("inf"), 1e-46)),
    *((TypeError, (ZEROS, [56, 56], "nvfp4", 0, given),
       f"tensor_scale must be a number of at most 64 bits, not {given!r}")
      for given in ("one", [1.0], 2**70)),
]  # fmt: skip


@pytest.mark.parametrize(("error", "parts", "message"), WRONG_PARTS)
def test_parts_that_make_no_block_array_are_refused(error, parts, message):
    """Shapes that do not fit, numbers that are no codes, and axes, formats and scales that do not exist."""
    refused(error, message, lambda: lp.BlockArray(*parts))


def test_a_block_array_does_not_change():
    """Its fields cannot be set."""
    blocks = lp.encode(SAMPLE, "mxfp4")
    for name in ("codes", "scales", "format", "axes", "tensor_scale"):
        with pytest.raises(dataclasses.FrozenInstanceError, match=f"^cannot assign to field '{name}'$"):
            setattr(blocks, name, getattr(blocks, name))


SIZES = {
    "mxfp8_e4m3": 33, "mxfp8_e5m2": 33, "mxfp6_e2m3": 25, "mxfp6_e3m2": 25, "mxfp4": 17, "mxint8": 33,
    "nvfp4": 2 * 9 + 4, "nvfp4_2d": 2 * 9 + 4, "bfp8": 2 * 17, "bfp4": 2 * 9, "bfp2": 2 * 5,
    "msfp12": 2 * 9, "msfp16": 2 * 17, "fp8_block_1x128": 32 + 4, "fp8_block_128x128": 32 + 4,
    "bnb_nf4": 16 + 4, "bnb_fp4": 16 + 4,
}  # fmt: skip


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_its_bytes_are_those_of_packed_codes_and_scales(fmt):
    """32 values take blocks of 33, 25 and 17 bytes in MX; NVFP4 has two of 9, and four for the tensor."""
    blocks = lp.encode(np.ones((1, 32), np.float32), fmt, backend="oracle")  # which compiles nothing
    assert blocks.nbytes == SIZES[fmt.name]
    assert blocks.nbytes == blocks.packed().nbytes + blocks.scales.nbytes + 4 * (
        blocks.tensor_scale is not None
    )


def test_its_text_says_what_it_is():
    """Format, shape, blocks, and bytes; the tensor's scale where there is one."""
    assert (
        repr(lp.encode(SAMPLE, "mxfp4"))
        == "BlockArray of mxfp4, shape (6, 100), 24 blocks of 32 along axis 1, 324 bytes"
    )
    assert (
        repr(lp.encode([1.0], "mxint8"))
        == "BlockArray of mxint8, shape (1,), 1 block of 32 along axis 0, 2 bytes"
    )
    assert repr(lp.encode(np.full((32, 48), 2688.0), "nvfp4_2d")) == (
        "BlockArray of nvfp4_2d, shape (32, 48), 6 blocks of 16x16 along axes 0 and 1, tensor scale 1, 778 "
        "bytes"
    )
    assert repr(lp.encode(np.ones((4096, 64), np.float32), "mxfp4", axis=0)) == (
        "BlockArray of mxfp4, shape (4096, 64), 8,192 blocks of 32 along axis 0, 139,264 bytes"
    )


# -- values ---------------------------------------------------------------------------------------------


def _products(blocks):
    """Element times scale times tensor scale, in float64, which holds it."""
    sizes = dict(zip(blocks.axes, blocks.format.sizes, strict=True))
    scales = lp.decode(blocks.scales, blocks.format.scale, dtype="f8")
    for axis, size in sizes.items():
        scales = np.repeat(scales, size, axis=axis).take(range(blocks.shape[axis]), axis=axis)
    tensor = 1.0 if blocks.tensor_scale is None else float(blocks.tensor_scale)
    return lp.decode(blocks.codes, blocks.format.element, dtype="f8") * (scales * tensor)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize(
    "fmt", ["mxfp8_e5m2", "mxfp6_e2m3", "mxfp4", "mxint8", "nvfp4", "bfp4", "fp8_block_1x128"]
)
def test_values_are_elements_times_scales(fmt, axis):
    """Along each axis, with blocks that are not full."""
    values = np.random.default_rng(2).standard_normal((3, 37, 150)) * 1e-3
    blocks = lp.encode(values, fmt, axis=axis)
    want = _products(blocks)
    assert_same_bits(blocks.values("f8").ravel(), want.ravel(), values.ravel(), fmt)
    for dtype in (np.float16, np.float32, ml_dtypes.bfloat16):
        got = blocks.values(dtype)
        codes = lp.encode(want, np.dtype(dtype))
        assert np.array_equal(got.view(codes.dtype), codes)


@pytest.mark.parametrize("axis", [(0, 1), (1, 0), (-2, -1), (0, 2), (2, 1)])
def test_values_of_two_dimensional_blocks_are_elements_times_scales(axis):
    """Any two axes, in either order, with tiles that are not full."""
    values = np.random.default_rng(3).standard_normal((20, 37, 50))
    blocks = lp.encode(values, "nvfp4_2d", axis=axis)
    assert blocks.axes == tuple(place % 3 for place in axis)
    want = _products(blocks)
    assert_same_bits(blocks.values("f8").ravel(), want.ravel(), values.ravel(), str(axis))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("fmt", ["mxfp4", "nvfp4", "bnb_nf4"])
def test_values_in_16_bits_are_made_some_rows_at_a_time(fmt, axis, monkeypatch):
    """Whole blocks, along whichever axis is long, and into memory of the codes."""
    monkeypatch.setattr(block_array, "_PART", 100)
    for shape in ((0, 64), (64, 0), (1, 1000), (2, 3, 500), (150, 7)):
        blocks = lp.encode(np.random.default_rng(3).standard_normal(shape), fmt, axis=axis)
        want = lp.decode(blocks, dtype=np.float16, backend="scalar")
        assert np.array_equal(lp.decode(blocks, dtype=np.float16).view(np.uint16), want.view(np.uint16))
    memory = np.zeros((150, 14), np.uint8)
    memory[:, :7] = blocks.codes
    held = dataclasses.replace(blocks, codes=memory[:, :7])
    lp.decode(held, dtype=np.float16, out=memory.view(np.float16))
    assert np.array_equal(memory.view(np.uint16), want.view(np.uint16))


@pytest.mark.parametrize("backend", ["scalar", "oracle"])
@pytest.mark.parametrize("scale", ["e8m0fnu", "bfloat16", "tf32", "binary32"])
def test_values_in_16_bits_are_products_that_are_rounded_once(scale, backend):
    """Products next to the least numbers of bfloat16 and binary16, some of which binary32 rounds, too."""
    scale, drawn = lp.format(scale), np.random.default_rng(6)
    bits, counts = scale.trailing_bits, (128, 1024) if backend == "scalar" else (8, 16)
    low, other = (drawn.permutation(1 << each)[:count] for each, count in zip((7, bits), counts, strict=True))
    least = np.array([-135, -134, -133, -26, -25, -24])
    codes, trailing, sums = np.meshgrid(low, other, least)
    codes = (100 << 7 | codes).astype(np.uint16).reshape(-1, 1)  # of exponent -27
    scales = ((sums + 27 + scale.bias << bits) + trailing).astype(code_dtype(scale)).reshape(-1, 1)
    form = lp.BlockFormat(name="", element=lp.format("bfloat16"), scale=scale, size=1)
    blocks = lp.BlockArray(codes, scales, form, (1,))
    for dtype in ("float16", "bfloat16"):
        got, want = (lp.decode(blocks, dtype=dtype, backend=by).view(np.uint16) for by in (None, backend))
        assert np.array_equal(got, want)


def test_a_tile_has_the_scale_of_its_largest_value():
    """16 rows and 16 columns each; 20 by 37 values are two tiles by three."""
    values = np.ones((20, 37), np.float32)
    values[3, 20] = values[17, 36] = 8.0
    blocks = lp.encode(values, "nvfp4_2d", tensor_scale=1.0)
    small, large = lp.encode([1 / 6, 8 / 6], "ue4m3")
    assert blocks.scales.tolist() == [[small, large, small], [small, small, large]]


def test_a_block_array_is_an_array_of_its_values():
    """For NumPy's functions: float32, or what they ask for; never a view."""
    blocks = lp.encode(SAMPLE, "mxfp4")
    assert_same_bits(np.asarray(blocks).ravel(), blocks.values().ravel(), SAMPLE.ravel(), "asarray")
    assert np.asarray(blocks, np.float64).tolist() == blocks.values("f8").tolist()
    assert np.asarray(blocks, np.float16).dtype == np.float16
    assert np.abs(blocks).tolist() == np.abs(blocks.values()).tolist()
    refused(
        ValueError,
        "the values of a BlockArray are computed, never a view; leave out copy=False",
        lambda: np.asarray(blocks, copy=False),
    )


def test_decode_takes_a_block_array_without_its_format():
    """Or with the one that it has; like `values`."""
    blocks = lp.encode(SAMPLE, "mxfp4")
    want = blocks.values()
    for got in (lp.decode(blocks), lp.decode(blocks, "mxfp4"), lp.decode(blocks, catalog.MXFP4)):
        assert_same_bits(got.ravel(), want.ravel(), SAMPLE.ravel(), "decode")
    assert lp.decode(blocks, dtype="f8").tolist() == blocks.values("f8").tolist()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
def test_decode_puts_values_where_it_is_told(dtype):
    """In order or not; the result is that array."""
    blocks = lp.encode(SAMPLE, "nvfp4")
    want = blocks.values(dtype)
    for out in (
        np.empty(SAMPLE.shape, dtype),
        np.empty(SAMPLE.shape[::-1], dtype).T,
        np.empty((6, 200), dtype)[:, ::2],
    ):
        assert lp.decode(blocks, dtype=dtype, out=out) is out
        assert out.tobytes() == want.tobytes()


def test_decode_may_write_over_what_it_reads():
    """Codes, or scales, that lie where the values go: all are read first."""
    for fmt in ("mxfp8_e4m3", "mxfp4"):
        blocks = lp.encode(np.resize(SAMPLE, (64, 256)), fmt)
        want = blocks.values()
        for part in ("codes", "scales"):
            memory = np.empty(want.nbytes, np.uint8)
            own = memory[: getattr(blocks, part).size].reshape(getattr(blocks, part).shape)
            own[:] = getattr(blocks, part)
            out = memory.view(np.float32).reshape(want.shape)
            assert lp.decode(dataclasses.replace(blocks, **{part: own}), out=out) is out
            assert out.tobytes() == want.tobytes(), (fmt, part)


READ_ONLY = np.zeros((6, 100), np.float32)
READ_ONLY.flags.writeable = False
BLOCKS_ONLY = "these are blocks of 'mxfp4', not of 'mxfp8_e4m3'; leave the format out"
SINGLE = "is for formats of single values, and 'mxfp4' has blocks; leave it out"
DTYPES = "values are given as float16, bfloat16, float32 or float64, not"

DECODES = [
    (ValueError, {"fmt": "mxfp8_e4m3"}, BLOCKS_ONLY),
    (ValueError, {"fmt": "e4m3fn"}, "these are blocks of 'mxfp4', not of 'e4m3fn'; leave the format out"),
    (ValueError, {"flags": np.zeros((6, 100), np.uint8)}, f"flags= {SINGLE}"),
    (TypeError, {"dtype": "i4"}, f"{DTYPES} int32"),
    (TypeError, {"dtype": "c8"}, f"{DTYPES} complex64"),
    (TypeError, {"out": np.zeros((6, 100))}, "out must be an array of float32 for values of 'mxfp4', "
                                             "not of float64"),
    (ValueError, {"out": np.zeros((6, 99), np.float32)},
     "out has shape (6, 99), but the result has shape (6, 100); they must be equal"),
    (ValueError, {"out": READ_ONLY}, "out is read-only; give an array that can be written"),
    (TypeError, {"out": []}, "out must be a NumPy array of float32, not list"),
]  # fmt: skip


@pytest.mark.parametrize(("error", "given", "message"), DECODES)
def test_what_decode_cannot_do_with_a_block_array_is_refused(error, given, message):
    """Other formats, other types, and arrays that do not fit."""
    blocks = lp.encode(SAMPLE, "mxfp4")
    refused(error, message, lambda: lp.decode(blocks, **given))


@pytest.mark.parametrize("formats", [("e4m3fn", "mxfp4"), ("mxfp4", "e4m3fn")])
def test_cast_knows_no_blocks(formats):
    """Neither from nor to them."""
    message = "'mxfp4' is a block format, whose elements share scales: see lowprec.block_formats"
    refused(ValueError, message, lambda: lp.cast(ZEROS, *formats))


# -- parts of an array ------------------------------------------------------------------------------------

PARTS = [
    ("mxfp4", 2, (4, 3, 100), np.s_[1], (1,)),
    ("mxfp4", 2, (4, 3, 100), np.s_[-1, 0], (0,)),
    ("mxfp4", 2, (4, 3, 100), np.s_[..., 32:64], (2,)),
    ("mxfp4", 2, (4, 3, 100), np.s_[..., -68:-4], (2,)),
    ("mxfp4", 2, (4, 3, 100), np.s_[:, 1:, 64:], (2,)),
    ("mxfp4", 2, (4, 3, 100), np.s_[::2, ::-1], (2,)),
    ("mxfp4", 2, (4, 3, 100), np.s_[2, ..., :96], (1,)),
    ("mxfp4", 2, (4, 3, 100), np.s_[..., 0:1000], (2,)),
    ("mxfp4", 2, (4, 3, 100), np.s_[..., 96:], (2,)),
    ("mxfp4", 2, (4, 3, 100), np.s_[..., 64:32], (2,)),
    ("mxfp4", 2, (4, 3, 100), np.s_[2:2], (2,)),
    ("mxfp4", 2, (4, 3, 100), np.s_[...], (2,)),
    ("mxfp4", 2, (4, 3, 100), np.s_[()], (2,)),
    ("mxfp4", 0, (70, 6), np.s_[32:, 3], (0,)),
    ("mxfp4", 0, (70, 6), np.s_[-6:], (0,)),
    ("mxfp4", 0, (70, 6), np.s_[:64, np.int64(-2)], (0,)),
    ("nvfp4", 1, (2, 48, 2), np.s_[0, 16:32, 1], (0,)),
    ("nvfp4_2d", (0, 1), (40, 50), np.s_[16:, :32], (0, 1)),
    ("nvfp4_2d", (0, 1), (40, 50), np.s_[-8:, -2:], (0, 1)),
    ("nvfp4_2d", (1, 0), (40, 50), np.s_[:32], (1, 0)),
    ("nvfp4_2d", (0, 2), (40, 3, 50), np.s_[:, 1, 48:], (0, 1)),
    ("nvfp4_2d", (2, 1), (3, 40, 50), np.s_[-1, 16:32], (1, 0)),
]  # fmt: skip


@pytest.mark.parametrize(("fmt", "axis", "shape", "key", "axes"), PARTS, ids=str)
def test_a_part_has_the_values_of_that_part(fmt, axis, shape, key, axes):
    """Slices begin and end where blocks do; other axes are indexed as in NumPy; the tensor's scale stays."""
    values = np.random.default_rng(4).standard_normal(shape)
    blocks = lp.encode(values, fmt, axis=axis)
    part, want = blocks[key], blocks.values("f8")[key]
    assert part.axes == axes
    assert part.shape == want.shape
    assert part.tensor_scale == blocks.tensor_scale
    assert np.array_equal(part.values("f8"), want)


THROUGH = "begin and end at multiples of 32, in steps of 1, or use .values()[...]"
ONE = "would take one element out of a block of"
NEITHER = "a BlockArray is indexed by integers and slices, not by"
CUTS = [
    (IndexError, np.s_[:, 1:], f"1: along axis 1 cuts through blocks of 32: {THROUGH}"),
    (IndexError, np.s_[:, :33], f":33 along axis 1 cuts through blocks of 32: {THROUGH}"),
    (IndexError, np.s_[:, 64:99], f"64:99 along axis 1 cuts through blocks of 32: {THROUGH}"),
    (IndexError, np.s_[:, -32:], f"-32: along axis 1 cuts through blocks of 32: {THROUGH}"),
    (IndexError, np.s_[:, 0:64:2], f"0:64:2 along axis 1 cuts through blocks of 32: {THROUGH}"),
    (IndexError, np.s_[:, ::-1], f"::-1 along axis 1 cuts through blocks of 32: {THROUGH}"),
    (IndexError, np.s_[:, 0], f"index 0 along axis 1 {ONE} 32; use .values()[...]"),
    (IndexError, np.s_[..., -1], f"index -1 along axis 1 {ONE} 32; use .values()[...]"),
    (IndexError, np.s_[0, 0, 0], "too many indices: a BlockArray of shape (6, 100) has 2 axes"),
    (TypeError, np.s_[None, :, :], f"{NEITHER} None; use .values()[...]"),
    (IndexError, np.s_[..., ...], "an index can only have a single ellipsis ('...')"),
    (IndexError, np.s_[6], "index 6 is out of bounds for axis 0 with size 6"),
    (TypeError, None, f"{NEITHER} None; use .values()[...]"),
    (TypeError, [0, 1], f"{NEITHER} [0, 1]; use .values()[...]"),
    (TypeError, "codes", f"{NEITHER} 'codes'; use .values()[...]"),
    (TypeError, 1.0, f"{NEITHER} 1.0; use .values()[...]"),
    (TypeError, True, f"{NEITHER} True; use .values()[...]"),
]


@pytest.mark.parametrize(("error", "key", "message"), CUTS, ids=str)
def test_a_part_that_cuts_through_blocks_is_refused(error, key, message):
    """Advanced indices of NumPy are refused too."""
    blocks = lp.encode(SAMPLE, "mxfp4")
    refused(error, message, lambda: blocks[key])


# -- what is encoded --------------------------------------------------------------------------------------


def test_arrays_without_elements_have_no_blocks():
    """Lists, and either axis; the scale of such a tensor is 1."""
    for values, axis, scales in [
        ([], 0, (0,)),
        (np.empty((0, 64)), 1, (0, 2)),
        (np.empty((3, 0)), 1, (3, 0)),
        (np.empty((2, 0, 33)), 2, (2, 0, 2)),
    ]:
        blocks = lp.encode(values, "mxfp4", axis=axis)
        assert blocks.scales.shape == scales
        assert blocks.values().shape == np.shape(values)
        assert blocks.nbytes == 0
        assert lp.encode(values, "nvfp4", axis=axis).tensor_scale == 1
    assert lp.encode(np.empty((0, 17)), "nvfp4_2d").scales.shape == (0, 2)


RULE_VALUES = [(1.2, [125, 126, 125, 125]), (1.6, [125, 126, 125, 126]), (6.1, [127, 128, 127, 128])]


@pytest.mark.parametrize(("largest", "scales"), RULE_VALUES)
def test_a_rule_is_named_beside_the_format(largest, scales):
    """Four rules, by name and as themselves, and blocks of which each has its own scale."""
    for name, want in zip(("floor", "ceil", "even", "rceil"), scales, strict=True):
        assert lp.encode([largest], "mxfp4", rule=name).scales.tolist() == [want]
        given = lp.block_formats["mxfp4"]
        blocks = lp.encode([largest], given, rule=lp.encode([largest], "mxfp4", rule=name).format.rule)
        assert blocks.scales.tolist() == [want]
        assert blocks.format == dataclasses.replace(given, rule=name)
        assert lp.quantize([largest], "mxfp4", rule=name).tolist() == blocks.values().tolist()


def test_a_threshold_is_part_of_a_rule_s_name():
    """7.8 is 1.3 times 6: above the threshold 5/4 and below 4/3 and the square root of 2."""
    scales = [
        lp.encode([7.8], "mxfp4", rule=name).scales[0] for name in ("nearest", "nearest(5/4)", "nearest(4/3)")
    ]
    assert scales == [127, 128, 127]


def test_a_profile_says_what_a_block_format_is():
    """Its name, or itself."""
    values = np.array([5e-45, 449.0] + [0.0] * 30, np.float32)
    blocks = lp.encode(values, "mxfp8_e4m3", profile="torchao_ceil")
    assert blocks.format == lp.profiles["torchao_ceil"].block("mxfp8_e4m3")
    _same(blocks, lp.encode(values, "mxfp8_e4m3", profile=lp.profiles["torchao_ceil"]))
    assert blocks.scales.tolist() == [128]


def test_the_tensor_s_scale_may_be_given():
    """Then it is that of the result, and what blocks are divided by."""
    blocks = lp.encode([6.0, 12.0], "nvfp4", tensor_scale=2)
    assert blocks.tensor_scale == 2
    assert isinstance(blocks.tensor_scale, np.float32)
    assert blocks.scales.tolist() == [0x38]
    assert blocks.values().tolist() == [6, 12]
    assert lp.quantize([5.9, 12.0], "nvfp4", tensor_scale=2).tolist() == [6, 12]
    assert lp.encode([1344.0], "nvfp4").tensor_scale == 0.5


def test_the_shorthands_are_for_the_elements():
    """Either shorthand leaves the other as the format has it; a projection replaces both."""
    values = [4.5, 7.9, 0.3]
    assert lp.encode(values, "mxfp4").codes.tolist() == [6, 7, 1]
    assert lp.encode(values, "mxfp4", rounding="toward_zero").codes.tolist() == [6, 7, 0]
    assert lp.encode(values, "mxfp4", rounding="away_from_zero").codes.tolist() == [7, 7, 1]
    assert lp.encode(values, "mxfp4", saturation="finite").format == catalog.MXFP4
    up = lp.Projection(rounding="toward_positive", saturation="finite")
    assert lp.encode(values, "mxfp4", projection=up).codes.tolist() == [7, 7, 1]
    assert lp.encode(values, "mxfp4", projection=up).format == dataclasses.replace(catalog.MXFP4, elements=up)
    open_top = lp.encode([57344.0, 65000.0], "mxfp8_e5m2", saturation="none")
    assert open_top.codes.tolist() == [0x7B, 0x7C]


# -- what quantize gives ----------------------------------------------------------------------------------


def test_quantize_gives_native_float64_for_every_float64():
    """In the other byte order, and of torch."""
    assert lp.quantize(SAMPLE.astype(">f8"), "mxfp4").dtype == np.dtype("f8")
    need_framework("torch")
    import torch

    assert lp.quantize(torch.ones(32, dtype=torch.float64), "mxfp4").dtype == torch.float64


def test_quantize_may_write_over_its_values():
    """And into any other array of the result's type."""
    want = lp.quantize(SAMPLE, "mxfp4")
    values = SAMPLE.copy()
    assert lp.quantize(values, "mxfp4", out=values) is values
    assert np.array_equal(values, want)
    spaced = np.zeros((6, 200), np.float32)[:, ::2]
    assert lp.quantize(SAMPLE, "mxfp4", out=spaced) is spaced
    assert np.array_equal(spaced, want)
    wide = np.zeros(SAMPLE.shape)
    lp.quantize(SAMPLE.astype(np.float64), "mxfp4", out=wide)
    assert np.array_equal(wide, want)


def test_what_quantize_cannot_write_to_is_refused_before_it_is_written():
    """Other types and shapes, and values that blocks refuse."""
    refused(
        TypeError,
        "out must be an array of float32 for values of 'mxfp4', not of float64",
        lambda: lp.quantize(SAMPLE, "mxfp4", out=np.zeros(SAMPLE.shape)),
    )
    refused(
        ValueError,
        "out has shape (6, 99), but the result has shape (6, 100); they must be equal",
        lambda: lp.quantize(SAMPLE, "mxfp4", out=np.zeros((6, 99), np.float32)),
    )
    values, out = np.array([1, np.nan], np.float32), np.zeros(2, np.float32)
    with pytest.raises(ValueError, match=r"^cannot encode "):
        lp.quantize(values, dataclasses.replace(catalog.MXFP4, nan="elements"), out=out)
    assert out.tolist() == [0, 0]


# -- refusals ---------------------------------------------------------------------------------------------

BOTH = (
    "both say what 'mxfp4' is; give one of them, for instance "
    "dataclasses.replace(lowprec.profiles['ocp'].block('mxfp4'), ...)"
)
UNSIZED = np.zeros((6, 100), np.uint32)

REFUSED = [
    (ValueError, (1.0, "mxfp4"), {}, "blocks of 'mxfp4' need one axis, and the array has "
                                     "0: the last of them is not there"),
    (ValueError, (np.float32(1), "mxfp4"), {"axis": 0},
     "blocks of 'mxfp4' need one axis, and the array has 0: axis=0 is not there"),
    (ValueError, (SAMPLE[0], "nvfp4_2d"), {},
     "blocks of 'nvfp4_2d' need two axes, and the array has 1: the last of them is not there"),
    (ValueError, (SAMPLE, "mxfp4"), {"axis": 2}, "blocks of 'mxfp4' need one axis, and the array "
                                                 "has 2: axis=2 is not there"),
    (ValueError, (SAMPLE, "mxfp4"), {"axis": -3}, "blocks of 'mxfp4' need one axis, and the array "
                                                  "has 2: axis=-3 is not there"),
    (ValueError, (SAMPLE, "mxfp4"), {"axis": (0, 1)}, "blocks of 'mxfp4' lie along one axis, and "
                                                      "axis=(0, 1) names 2"),
    (ValueError, (SAMPLE, "nvfp4_2d"), {"axis": 0}, "blocks of 'nvfp4_2d' lie along two axes, and "
                                                    "axis=0 names 1"),
    (ValueError, (SAMPLE, "nvfp4_2d"), {"axis": (0, -2)},
     "axis=(0, -2) names an axis twice; blocks of 'nvfp4_2d' lie along two"),
    (ValueError, (SAMPLE, "nvfp4_2d"), {"axis": (0, 2)},
     "blocks of 'nvfp4_2d' need two axes, and the array has 2: axis=(0, 2) is not there"),
    (TypeError, (SAMPLE, "mxfp4"), {"axis": 1.0}, "axis must be an integer or a tuple of them, not 1.0"),
    (TypeError, (SAMPLE, "mxfp4"), {"axis": True}, "axis must be an integer or a tuple of them, not True"),
    *((TypeError, (SAMPLE, "mxfp4"), {"axis": axis},
       f"axis must be an integer or a tuple of them, not {axis!r}")
      for axis in (np.array(1.0), np.array([1.0]), {1: 2}, b"a", [[1]])),
    (ValueError, (SAMPLE, "mxfp4"), {"tensor_scale": 1.0},
     "tensor_scale=1.0 is for formats that have one, and 'mxfp4' has none"),
    (ValueError, (SAMPLE, "nvfp4"), {"tensor_scale": 0.0},
     "tensor_scale=0.0 must be one positive number that float32 holds"),
    (ValueError, (SAMPLE, "nvfp4"), {"tensor_scale": 1e39},
     "tensor_scale=1e+39 must be one positive number that float32 holds"),
    (TypeError, (SAMPLE, "nvfp4"), {"tensor_scale": "one"},
     "tensor_scale must be a number of at most 64 bits, not 'one'"),
    (ValueError, (SAMPLE, "mxfp4"), {"rule": "floors"},
     "unknown scale rule 'floors'; use one of floor, ceil, even, rceil, nearest, project, divide or "
     "nearest(<fraction>)"),
    (ValueError, (SAMPLE, "mxfp4"), {"rule": "nearest(5/2)"},
     "threshold=5/2 of a scale rule must lie above 1 and below 2"),
    (TypeError, (SAMPLE, "mxfp4"), {"rule": 3}, "rule must be a ScaleRule or a name, not 3"),
    (ValueError, (SAMPLE, "mxfp4"), {"profile": "ocp", "rule": "ceil"}, f"profile='ocp' and rule= {BOTH}"),
    (ValueError, (SAMPLE, "mxfp4"), {"profile": "ocp", "rounding": "to_odd", "saturation": "finite"},
     f"profile='ocp' and saturation= {BOTH}"),
    (ValueError, (SAMPLE, "mxfp4"), {"rounding": "to_odd", "projection": lp.Projection()},
     "projection= and rounding='to_odd' both say how to convert; give one of them, for instance "
     "projection=dataclasses.replace(projection, rounding='to_odd')"),
    (TypeError, (SAMPLE, "mxfp4"), {"projection": "finite"},
     "projection must be a Projection, not 'finite'; for a mode alone use rounding="),
    (ValueError, (SAMPLE, "mxfp4"), {"profile": "jax"},
     "profile 'jax' does not say what 'mxfp4' is; it has no block formats"),
    (ValueError, (SAMPLE, "nvfp4_2d"), {"profile": "torchao_nvfp4"},
     "profile 'torchao_nvfp4' does not say what 'nvfp4_2d' is; it has nvfp4"),
    (ValueError, (SAMPLE, "mxfp4"), {"rounding": "stochastic(16)"},
     "rounding stochastic(16, A) needs random= or rng=, and was given neither; give one of them"),
    (ValueError, (SAMPLE, "mxfp4"), {"rounding": "stochastic(16)", "random": UNSIZED, "rng": 1},
     "rounding stochastic(16, A) needs random= or rng=, and was given both; give one of them"),
    (ValueError, (SAMPLE, "mxfp4"), {"rounding": "stochastic(16)", "random": UNSIZED[:, 1:]},
     "random has shape (6, 99), but needs (6, 100)"),
    (ValueError, (SAMPLE, "mxfp4"), {"rng": 1},
     "rng= is for stochastic rounding, and rounding nearest_even is not; leave it out"),
    (ValueError, (SAMPLE, "mxfp4"), {"flags": np.zeros((6, 100), np.uint8)}, f"flags= {SINGLE}"),
    (TypeError, (np.ma.masked_array(SAMPLE), "mxfp4"), {},
     "a masked array would lose its mask; give .filled(...), or .data and put the mask back afterwards"),
    (TypeError, (SAMPLE.astype(complex), "mxfp4"), {},
     "values must be real numbers of at most 64 bits, not complex128: convert the real and the imaginary "
     "part by themselves"),
    (ValueError, (SAMPLE, "mxfp8"), {}, "block format 'mxfp8' is ambiguous: use 'mxfp8_e4m3' or "
                                        "'mxfp8_e5m2'"),
    *((ValueError, (SAMPLE, "e4m3fn"), {name: given},
       f"{name}= is for block formats, and 'e4m3fn' is none; those are {NAMES}")
      for name, given in (("axis", 0), ("rule", "floor"), ("tensor_scale", 1.0))),
]  # fmt: skip


@pytest.mark.parametrize("verb", [lp.encode, lp.quantize])
@pytest.mark.parametrize(("error", "values", "given", "message"), REFUSED)
def test_what_blocks_do_not_take_is_refused(error, values, given, message, verb):
    """Both verbs say these words; twice, as a call that was answered is remembered."""
    lp.encode(SAMPLE, "e4m3fn")
    lp.quantize(SAMPLE, "e4m3fn")
    for _ in range(2):
        refused(error, message, lambda: verb(*values, **given))


def test_a_value_that_blocks_have_no_code_for_is_refused_with_its_place():
    """NaN among elements without NaN; NaN and infinities under scales without it."""
    values = np.ones((2, 70))
    values[1, 66] = np.nan
    refused(
        ValueError,
        "cannot encode the value nan at index (1, 66) as an element of 'mxint8': 'int8f6' has no code for "
        "it. Replace it, or say what becomes of it with the block format's nan= or elements=",
        lambda: lp.encode(values, "mxint8", profile="p3109"),
    )
    every = dataclasses.replace(catalog.E8M0FNU, name="e8m0fu", nans=0)  # every code is a number
    for special in (np.nan, -np.inf):
        values[1, 66] = special
        refused(
            ValueError,
            "cannot encode NaN or infinite values in blocks of 'msfp12', whose scales ('e8m0fu') have no NaN "
            "code; the first such block is (1, 4). Replace them, or say what becomes of them with the block "
            "format's nan= and infinity=",
            lambda: lp.encode(values, dataclasses.replace(catalog.MSFP12, scale=every)),
        )


@pytest.mark.parametrize("order", [*itertools.permutations(range(3))])
@pytest.mark.parametrize("fmt", ["mxfp4", "nvfp4", "bnb_nf4", "fp8_block_128x128", TILES])
def test_blocks_lie_in_memory_as_their_values_do(fmt, order):
    """A transposed array is not copied, its codes lie as it does, and their values, too."""
    values = (np.random.default_rng(2).standard_normal((3, 40, 70)) * 7).astype(np.float32).transpose(order)
    axes = [(0, 1), (2, 1)] if fmt in ("fp8_block_128x128", TILES) else range(3)
    for axis in axes:
        want, got = lp.encode(values.copy("C"), fmt, axis=axis), lp.encode(values, fmt, axis=axis)
        _same(want, got)
        made, out = lp.quantize(values, fmt, axis=axis), np.empty_like(values)
        assert lp.decode(got, out=out) is out
        for each in (made, out):
            assert np.array_equal(each.view(np.uint32), want.values().view(np.uint32))
        assert got.codes.transpose(np.argsort(order)).flags.c_contiguous
        assert made.strides == values.strides


def test_a_value_without_a_code_in_a_transposed_array_is_refused_with_its_place():
    values = np.ones((70, 2))
    values[66, 1] = np.nan
    with pytest.raises(ValueError, match=r"^cannot encode the value nan at index \(1, 66\) as an element"):
        lp.encode(values.T, "mxint8", profile="p3109")


@pytest.mark.parametrize("sizes", [(3,), (2, 3), (9, 4)])
@pytest.mark.parametrize("backend", ["scalar", "oracle"])
def test_a_block_that_lacks_elements_is_what_it_is_alone(sizes, backend):
    """Held against slices: what fills blocks up is shared by all engines, so none can tell."""
    fmt = lp.BlockFormat(
        name="own", element=catalog.E2M1FN, scale=catalog.UE4M3, size=sizes if len(sizes) > 1 else sizes[0],
        rule="divide", elements=lp.Projection(rounding=stochastic(8), saturation="finite"),
    )  # fmt: skip
    values, axes = SAMPLE[:5, :24].reshape(2, 5, 12)[..., :10], range(3 - len(sizes), 3)
    random = np.random.default_rng(3).integers(0, 256, values.shape, np.uint32)
    whole = lp.encode(values, fmt, axis=tuple(axes), random=random, backend=backend)
    read = lp.decode(whole, dtype=np.float64, backend=backend)
    steps = (1,) * (3 - len(sizes)) + sizes
    grid = [range(0, length, step) for length, step in zip(values.shape, steps, strict=True)]
    assert whole.scales.shape == tuple(map(len, grid))
    for number, corner in enumerate(itertools.product(*grid)):
        part = tuple(slice(at, at + step) for at, step in zip(corner, steps, strict=True))
        alone = lp.encode(values[part], fmt, axis=tuple(axes), random=random[part], backend=backend)
        assert np.array_equal(alone.codes, whole.codes[part])
        assert alone.scales.reshape(-1) == whole.scales.reshape(-1)[number]
        values_alone = lp.decode(alone, dtype=np.float64, backend=backend)
        assert np.array_equal(values_alone.view(np.int64), read[part].view(np.int64))
    values = np.array(values)
    values[-1, -1, -1] = np.nan
    fmt = dataclasses.replace(fmt, scale=lp.Format(exponent_bits=4, trailing_bits=3, sign="unsigned"))
    last = tuple(length - 1 for length in whole.scales.shape)
    with pytest.raises(ValueError, match=rf"the first such block is {re.escape(str(last))}\."):
        lp.encode(values, fmt, axis=tuple(axes), random=random, backend=backend)


test_what_cannot_be_is_refused = refusal_test(
    globals(),
    """
lp.decode(ZEROS, "mxfp4")
    TypeError: codes of 'mxfp4' need their scales: decode(BlockArray(codes, scales, 'mxfp4', axes=...))
lp.decode(ZEROS)
    TypeError: decode needs the format of codes: decode(codes, format); only a BlockArray brings its own
lp.encode(np.ones((40, 50), np.float32), "nvfp4_2d")[3]
    IndexError: index 3 along axis 0 would take one element out of a block of 16; use .values()[...]
lp.encode(np.ones((40, 50), np.float32), "nvfp4_2d")[:, 8:]
    IndexError: 8: along axis 1 cuts through blocks of 16: begin and end at multiples of 16, in steps of
    1, or use .values()[...]
lp.encode(SAMPLE, "mxfp4", out=np.zeros((6, 100), np.uint8))
    ValueError: out= is for formats of single values, and 'mxfp4' has blocks; leave it out
""",
)


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        (
            "mxfp4",
            {"nan": "elements", "elements": lp.Projection()},
            r"cannot encode the value nan at index \(150001,\) as an element of ",
        ),
        (
            "nvfp4",
            {"scale": lp.format("e2m1fn"), "tensor_scale": "none", "nan": "scale"},
            r"the first such block is \(9375,\)\.",
        ),
    ],
)
def test_refusals_name_the_first_place_of_many(name, changes, message):
    """Blocks are encoded some at a time."""
    values = np.ones(200_000, np.float32)
    values[150_001:150_003] = values[190_000] = np.nan
    fmt = dataclasses.replace(lp.block_formats[name], **changes)
    with pytest.raises(ValueError, match=message):
        lp.encode(values, fmt, backend="scalar")


def test_each_tensor_has_a_scale_of_its_own():
    """Programs are shared by the tensors of a format: each time the scale of this one counts."""
    values = [np.float32(2.0**power) * SAMPLE for power in (-100, -3, 0, 3, 100, -3)]
    made = [lp.encode(each, "nvfp4") for each in values]
    assert len({blocks.tensor_scale for blocks in made}) == 5
    for backend, dtype in itertools.product((None, "scalar"), (np.float32, np.float64)):
        plain = lp.decode(made[2], dtype=dtype, backend=backend)
        for blocks, power in zip(made, (-100, -3, 0, 3, 100, -3), strict=True):
            wanted = plain * dtype(2.0**power)
            assert np.array_equal(lp.decode(blocks, dtype=dtype, backend=backend), wanted)


@pytest.mark.parametrize("backend", [None, "scalar", "oracle"])
def test_operands_that_are_flushed_are_subnormals_of_the_type_they_come_in(backend):
    """2**-130 is one of float32 and none of float64, which others of the array do not change."""
    elements = lp.Projection(saturation="finite", subnormals="flush_operands")
    fmt = dataclasses.replace(catalog.MXFP8_E4M3, elements=elements)
    values = np.array([2.0**-130, -(2.0**-131), 2.0**-1030, 0])  # by the smallest scale, 2**-127
    assert lp.encode(values, fmt, backend=backend).codes.tolist() == [0x20, 0x98, 0, 0]
    assert lp.encode(values[[0, 1, 3]], fmt, backend=backend).codes.tolist() == [0x20, 0x98, 0]
    singles = values.astype(np.float32)
    assert lp.encode(singles, fmt, backend=backend).codes.tolist() == [0, 0x80, 0, 0]
