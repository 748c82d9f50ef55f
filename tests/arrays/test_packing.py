"""Packed codes and swizzled scales, against bytes written by hand and loops over the definition."""

import re

import numpy as np
import pytest

import lowprec as lp
from lowprec.arrays.blocks.packing import pack, swizzle, unpack, unswizzle
from lowprec.spec import catalog
from tests import programs

FORMATS = {
    2: catalog.INT2,
    4: catalog.E2M1FN,
    6: catalog.E3M2FN,
    8: catalog.E4M3FN,
}


def _codes(count, width, seed=0):
    return np.random.default_rng(seed).integers(0, 1 << width, count).astype(np.uint8)


def _bytes(text):
    return np.frombuffer(bytes.fromhex(text), np.uint8)


# -- packing --------------------------------------------------------------------------------------------

KNOWN = [
    (2, [0, 1, 2, 3], "e4"),
    (2, [3, 0, 0, 1, 2], "43 02"),
    (2, [1], "01"),
    (4, [0x1, 0x2, 0x3, 0xF], "21 f3"),
    (4, [0xA, 0xB, 0xC], "ba 0c"),
    (4, [0x8], "08"),
    (6, [0x3F, 0, 0, 0], "3f 00 00"),
    (6, [0, 0x3F, 0, 0], "c0 0f 00"),
    (6, [0, 0, 0x3F, 0], "00 f0 03"),
    (6, [0, 0, 0, 0x3F], "00 00 fc"),
    (6, [0x01, 0x02, 0x03, 0x04], "81 30 10"),
    (6, [0x21, 0x12], "a1 04 00"),
    (6, [0, 0, 0, 0, 0x15], "00 00 00 15 00 00"),
    (8, [0x12, 0x34, 0xFF], "12 34 ff"),
]


@pytest.mark.parametrize(("width", "codes", "text"), KNOWN)
def test_codes_are_packed_from_the_lowest_bits_up(width, codes, text):
    """By hand: the first 4-bit code is in the low half; four 6-bit codes are one 24-bit word, low first."""
    packed = pack(np.array(codes, np.uint8), FORMATS[width])
    assert packed.dtype == np.uint8
    assert packed.tobytes() == _bytes(text).tobytes()
    assert unpack(_bytes(text), FORMATS[width], size=len(codes)).tolist() == codes


@pytest.mark.parametrize("width", [2, 4, 6])
def test_packed_codes_are_one_little_endian_number(width):
    """All lengths from 0 to 17: bit `width * i` on is code i, and what is missing in the last group is 0."""
    group = {2: 4, 4: 2, 6: 4}[width]
    for length in range(18):
        codes = _codes(length, width, seed=length)
        size = -(-length // group) * group * width // 8
        number = sum(int(code) << width * place for place, code in enumerate(codes))
        assert pack(codes, FORMATS[width]).tobytes() == number.to_bytes(size, "little")


@pytest.mark.parametrize("width", FORMATS)
@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_codes_come_back_along_every_axis(axis, width):
    """All lengths from 0 to 17; the other axes stay where they are."""
    for length in range(18):
        shape = [2, 3, 5]
        shape[axis] = length
        codes = _codes(shape, width, seed=length)
        packed = pack(codes, FORMATS[width], axis=axis)
        one = packed[tuple(0 if place != axis % 3 else slice(None) for place in range(3))]
        first = codes[tuple(0 if place != axis % 3 else slice(None) for place in range(3))]
        assert one.tolist() == pack(first, FORMATS[width]).tolist()
        assert np.array_equal(unpack(packed, FORMATS[width], axis=axis, size=length), codes)


def test_without_a_size_as_many_codes_as_fit_are_unpacked():
    """Zeros at the end among them."""
    assert unpack(_bytes("ba 0c"), catalog.E2M1FN).tolist() == [0xA, 0xB, 0xC, 0]
    assert unpack(_bytes("a1 04 00"), catalog.E2M3FN).tolist() == [0x21, 0x12, 0, 0]
    assert unpack(_bytes("43 02"), catalog.UINT2).tolist() == [3, 0, 0, 1, 2, 0, 0, 0]
    assert unpack(_bytes("12 34"), catalog.E5M2).tolist() == [0x12, 0x34]


def test_signed_bytes_are_unpacked_as_their_bits():
    """Checkpoints keep packed codes as int8 too."""
    assert unpack(_bytes("ba 8c").view(np.int8), catalog.E2M1FN).tolist() == [0xA, 0xB, 0xC, 0x8]


REFUSED = [
    (ValueError, lambda: unpack(_bytes("00 00"), catalog.E2M1FN, size=5),
     "2 bytes along axis -1 hold 4 codes of 'e2m1fn', not size=5"),
    (ValueError, lambda: unpack(_bytes("00 00"), catalog.E2M1FN, size=2),
     "2 bytes along axis -1 hold 4 codes of 'e2m1fn', not size=2"),
    (ValueError, lambda: unpack(_bytes("00 00 00"), catalog.E3M2FN, size=0),
     "3 bytes along axis -1 hold 4 codes of 'e3m2fn', not size=0"),
    (ValueError, lambda: unpack(_bytes("00 00 00 00"), catalog.E3M2FN),
     "4 bytes along axis -1 are no multiple of 3, as those of 'e3m2fn'"),
    (ValueError, lambda: unpack(np.zeros((4, 2), np.uint8), catalog.E3M2FN, axis=0),
     "4 bytes along axis 0 are no multiple of 3, as those of 'e3m2fn'"),
    *((TypeError, lambda size=size: unpack(_bytes("00 00"), catalog.E2M1FN, size=size),
       f"size={size!r} must be an integer, the codes along axis -1") for size in ("a", 3.5)),
    (ValueError, lambda: unpack(_bytes("00 00"), catalog.E5M2, size=1),
     "there are 2 codes of 'e5m2' along axis -1, not size=1"),
    (TypeError, lambda: unpack(np.zeros(2, np.uint16), catalog.E2M1FN),
     "packed codes of 'e2m1fn' must be an array of uint8, not of uint16"),
    (TypeError, lambda: unpack([1.0], catalog.E2M1FN),
     "packed codes of 'e2m1fn' must be an array of uint8, not of float64"),
]  # fmt: skip


@pytest.mark.parametrize(("error", "call", "message"), REFUSED)
def test_bytes_that_are_no_packed_codes_are_refused(error, call, message):
    """Sizes that do not fit the bytes, bytes that fit no group, and other types."""
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        call()


# -- swizzling ------------------------------------------------------------------------------------------

TABLES = [(1, 1), (32, 4), (128, 4), (129, 5), (200, 10), (256, 8), (3, 1), (0, 4), (4, 0)]


def _swizzled(table):
    """Tile after tile, element by element."""
    rows, columns = table.shape
    down, across = -(-rows // 128), -(-columns // 4)
    flat = np.zeros(down * across * 512, table.dtype)
    for row in range(rows):
        for column in range(columns):
            r, c = row % 128, column % 4
            tile = row // 128 * across + column // 4
            flat[tile * 512 + (r % 32) * 16 + (r // 32) * 4 + c] = table[row, column]
    return flat


def _table(shape, dtype=np.uint8):
    return np.random.default_rng(1).integers(1, 256, shape).astype(dtype)


@pytest.mark.parametrize("shape", TABLES, ids=str)
def test_scales_lie_where_the_formula_puts_them(shape):
    """Whole tiles and ragged ones, zeros where there is no scale; and back."""
    table = _table(shape)
    assert swizzle(table).tolist() == _swizzled(table).tolist()
    assert np.array_equal(unswizzle(swizzle(table), shape), table)


def test_rows_of_a_tile_are_taken_in_four_quarters():
    """Of the first column: rows 0, 32, 64, 96, 1, 33 and so on, each four bytes after the other."""
    table = np.repeat(np.arange(128, dtype=np.uint8)[:, None], 4, axis=1)
    assert swizzle(table)[::4].tolist() == [row + 32 * quarter for row in range(32) for quarter in range(4)]


@pytest.mark.parametrize("shape", [(2, 100, 7), (3, 4, 5, 6), (1, 128, 4), (9,)], ids=str)
def test_leading_axes_are_rows(shape):
    """However many; without any there is one row."""
    table = _table(shape)
    assert np.array_equal(swizzle(table), _swizzled(table.reshape(-1, shape[-1])))
    assert np.array_equal(unswizzle(swizzle(table), shape), table)


def test_scales_of_four_bytes_are_swizzled_as_they_are():
    """Places count scales, not bytes."""
    table = _table((130, 5), np.uint32) << np.uint32(20)
    assert swizzle(table).dtype == np.uint32
    assert np.array_equal(swizzle(table), _swizzled(table))


def test_scales_in_any_order_of_memory_are_swizzled_by_their_indices():
    """A transposed table, and every other column of one."""
    table = _table((40, 60))
    assert np.array_equal(swizzle(table.T), _swizzled(np.ascontiguousarray(table.T)))
    assert np.array_equal(swizzle(table[:, ::2]), _swizzled(np.ascontiguousarray(table[:, ::2])))


@pytest.mark.parametrize("shape", [(200, 10), (128, 4), (1, 1), (256, 12), (131, 3)], ids=str)
def test_torchao_swizzles_alike(shape):
    """Both ways; its tables have two axes."""
    programs.need_package("torchao")
    import torch
    from torchao.prototype.mx_formats.utils import from_blocked, to_blocked

    table = _table(shape)
    assert swizzle(table).tolist() == to_blocked(torch.from_numpy(table)).tolist()
    theirs = from_blocked(torch.from_numpy(swizzle(table)), *shape)
    assert np.array_equal(theirs.numpy(), table)


def test_swizzled_scales_of_another_length_are_refused():
    """A shape takes whole tiles; and nothing is swizzled without an axis."""
    message = "scales of shape (200, 10) take 3072 places in tiles of 128x4, not 2000"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        unswizzle(np.zeros(2000, np.uint8), (200, 10))
    for shape in ("a", 3, (1.5, 2)):
        message = f"shape must be a tuple of integers, that of the scales, not {shape!r}"
        with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
            unswizzle(np.zeros(512, np.uint8), shape)
    with pytest.raises(ValueError, match=r"scales in tiles have an axis at least, and shape=\(\) has none"):
        unswizzle(np.zeros(512, np.uint8), ())
    message = "scales to swizzle need an axis; those of an array without axes have none"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        swizzle(np.array(1, np.uint8))


# -- of block arrays --------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("fmt", ["mxfp4", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp8_e4m3", "mxint8", "bfp2"])
def test_a_block_array_is_packed_along_its_blocks(fmt, axis):
    """And is the same again from its packed codes, its scales and its length: whole blocks, and 37 values."""
    for shape in [(64, 96), (37, 37)]:
        blocks = lp.encode(np.random.default_rng(2).standard_normal(shape).astype(np.float32), fmt, axis=axis)
        packed = blocks.packed()
        assert np.array_equal(packed, pack(blocks.codes, blocks.format.element, axis=axis))
        again = lp.BlockArray.unpack(packed, blocks.scales, fmt, axes=axis, size=shape[axis])
        assert again.axes == (axis,)
        assert np.array_equal(again.codes, blocks.codes)
        assert np.array_equal(again.scales, blocks.scales)


@pytest.mark.parametrize("shape", [(0, 32), (3, 0), (2, 0, 8), (0,)])
@pytest.mark.parametrize("fmt", ["bfp2", "mxfp4", "mxfp6_e2m3", "mxfp8_e4m3"])
def test_arrays_without_elements_are_packed_and_unpacked(fmt, shape):
    blocks = lp.encode(np.zeros(shape, np.float32), fmt)
    packed = blocks.packed()
    assert packed.shape == (*shape[:-1], shape[-1] * blocks.format.element.width // 8)
    again = lp.BlockArray.unpack(packed, blocks.scales, fmt, size=shape[-1])
    assert again.codes.shape == shape
    assert np.array_equal(lp.BlockArray.unswizzle(blocks.swizzled(), blocks.scales.shape), blocks.scales)


def test_blocks_of_two_axes_are_packed_along_the_last_of_them():
    """With the scale of the tensor, which unpacking needs too."""
    values = np.random.default_rng(3).standard_normal((20, 34)).astype(np.float32)
    blocks = lp.encode(values, "nvfp4_2d")
    assert blocks.packed().shape == (20, 17)
    again = lp.BlockArray.unpack(blocks.packed(), blocks.scales, "nvfp4_2d", tensor_scale=blocks.tensor_scale)
    assert again.axes == (0, 1)
    assert np.array_equal(again.values(), blocks.values())
    upright = lp.encode(values, "nvfp4_2d", axis=(1, 0))
    assert upright.packed().shape == (10, 34)
    again = lp.BlockArray.unpack(
        upright.packed(), upright.scales, "nvfp4_2d", axes=(1, 0), tensor_scale=upright.tensor_scale
    )
    assert np.array_equal(again.values(), upright.values())


def test_the_swizzled_scales_of_a_block_array_are_its_scales_swizzled():
    """The ragged case: 200 rows of 320 values have 200 times 10 scales."""
    values = np.random.default_rng(4).standard_normal((200, 320)).astype(np.float32)
    blocks = lp.encode(values * np.exp2(np.arange(200, dtype=np.float32) / 4 - 25)[:, None], "mxfp8_e4m3")
    assert blocks.scales.shape == (200, 10)
    assert np.array_equal(blocks.swizzled(), _swizzled(blocks.scales))
    assert np.array_equal(lp.BlockArray.unswizzle(blocks.swizzled(), (200, 10)), blocks.scales)


def test_packed_codes_that_do_not_fit_their_scales_are_refused():
    """As by the constructor."""
    message = (
        "scales of 'mxfp4' have shape (2,), but codes of shape (32,) in blocks of 32 along axis 0 need (1,)"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        lp.BlockArray.unpack(np.zeros(16, np.uint8), np.array([127, 127]), "mxfp4")
    message = "16 bytes along axis 0 hold 32 codes of 'e2m1fn', not size=33"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        lp.BlockArray.unpack(np.zeros(16, np.uint8), np.array([127]), "mxfp4", size=33)
