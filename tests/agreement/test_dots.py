"""Dot products against the oracle: every named accumulation, and others of every order, on rows that tell."""

import dataclasses
import itertools
import re
import tracemalloc
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import lowprec as lp
from lowprec.arrays.blocks.block import BlockArray
from lowprec.arrays.checks import code_dtype
from lowprec.kernels.jit import has_half
from lowprec.kernels.request import Dot
from lowprec.kernels.vector import program as vector
from lowprec.oracle.convert import decode
from lowprec.oracle.dot import dot as oracle
from lowprec.oracle.exact import from_float
from lowprec.spec import catalog
from lowprec.spec.accumulation import Accumulation, Window, begins_in
from lowprec.spec.accumulations import ACCUMULATIONS, accumulation
from lowprec.spec.block import BlockFormat
from lowprec.spec.families import ieee
from lowprec.spec.format import Format
from lowprec.spec.order import EXACT, PAIRWISE, SEQUENTIAL, chunked
from lowprec.spec.projection import Projection
from tests.support import engines_agree, most_apart

SINGLE, HALF = (catalog.BINARY32, Projection()), (catalog.BINARY16, Projection())
# -- rows -------------------------------------------------------------------------------------------


def rows(fmt, count, length, rng):
    """Codes: any numbers, and in part zeros, subnormals and extremes; in few rows infinities and NaNs."""
    codes = rng.integers(0, 1 << fmt.width, (count, length))
    magnitudes = codes & ~fmt.sign_code
    infinity = fmt.infinity_code if fmt.infinity else fmt.max_magnitude + 1
    special = (magnitudes >= infinity) & (rng.random((count, 1)) > 0.2)
    codes = np.where(special, codes & (fmt.sign_code | fmt.max_magnitude >> 1), codes)
    borders = [0, 1, (1 << fmt.trailing_bits) - 1, 1 << fmt.trailing_bits, fmt.max_magnitude]
    chosen = rng.choice(borders, codes.shape) | rng.integers(0, 2, codes.shape) * fmt.sign_code
    codes = np.where(rng.random(codes.shape) < rng.choice([0, 0.1, 0.5], (count, 1)), chosen, codes)
    if not fmt.negative_zero:
        codes = np.where(codes == fmt.sign_code, 0, codes)
    return codes.astype(np.int64)


def pairs_of_rows(formats, count, length, rng):
    """Both sides; in some rows the second half takes back what the first adds, but for a little."""
    x, y = (rows(fmt, count, length, rng) for fmt in formats)
    half = length // 2
    for row in range(0, count if half else 0, 3):
        x[row, half : 2 * half] = x[row, :half]
        y[row, half : 2 * half] = y[row, :half] ^ (formats[1].sign_code if formats[1].negative_zero else 0)
        if row % 2:
            y[row, 0] ^= 1
    return x, y


def addends(count, rng):
    """binary32 numbers of any size, zeros, infinities and NaN."""
    special = rng.choice(np.array([0.0, -0.0, np.inf, 1e-40, -3e38, np.nan]), count)
    numbers = rng.normal(size=count) * 2.0 ** rng.integers(-40, 40, count)
    return np.where(rng.random(count) < 0.3, special, numbers).astype(np.float32)


def agrees(how, formats, x, y, addend=None):
    """The kernel has the oracle's codes, for rows of codes."""
    sides = [lp.decode(codes, fmt, dtype="float64") for codes, fmt in zip((x, y), formats, strict=True)]
    held(how, *sides, addend)


def held(how, x, y, addend=None):
    """Hold dot products of rows against the oracle's."""
    options = {"rng": 99} if how.rounds_randomly else {}
    options |= {"addend": addend, "dtype": code_dtype(how.output[0]), "backends": (None, "oracle")}
    engines_agree(lp.dot, x, y, how, **options)


# -- tests ------------------------------------------------------------------------------------------


#: Accumulations without scales, and those whose operands may differ or are alike.
UNSCALED = [name for name, how in ACCUMULATIONS.items() if how.scale is None]
ALIKE = [name for name in UNSCALED if len(set(ACCUMULATIONS[name].operands or ())) < 2]


@pytest.mark.parametrize("name", most_apart(UNSCALED, ALIKE))
def test_named_accumulations_agree(name):
    """Lengths that fill no step, one and several; with and without an addend."""
    how, rng = accumulation(name), np.random.default_rng(sum(map(ord, name)))
    some = (catalog.E4M3FN, catalog.BINARY16, catalog.BFLOAT16, catalog.BINARY32)
    formats = how.operands or (some[rng.integers(4)], some[rng.integers(4)])
    for length in (0, 1, 7, 41):
        x, y = pairs_of_rows(formats, 5, length, rng)
        agrees(how, formats, x, y)
        agrees(how, formats, x, y, addends(5, rng))


#: Types of operands: of few bits, of each float type, of integers that binary64 does not hold.
TYPES = tuple(
    np.dtype(kind)
    for kind in (
        ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2fnuz, ml_dtypes.bfloat16,
        np.float16, np.float32, np.float64, np.int8, np.int64, np.uint64,
    )
)  # fmt: skip

#: Those whose accumulators are of every kind, and where products of binary64 have more bits than lanes.
OF_TYPES = ("fp32_fma", "fp32_pairwise", "fp16_sequential", "bf16_sequential", "fp64_sequential", "exact")


@pytest.mark.parametrize("name", most_apart(OF_TYPES, OF_TYPES[:1]))
def test_operands_of_any_two_types_agree(name):
    """Numbers that use all bits of their types, of which some are beyond binary32."""
    rng, how = np.random.default_rng(5), accumulation(name)
    for first, second in itertools.product(TYPES, repeat=2):
        x, y = (full_numbers(dtype, (2, 6), rng) for dtype in (first, second))
        kind = code_dtype(how.output[0])
        engines_agree(lp.matmul, x, y.T, how, dtype=kind, backends=(None, "oracle"))


def full_numbers(dtype, shape, rng):
    """Numbers of a type; of binary64 the last is beyond binary32."""
    if dtype.kind in "iu" and dtype.itemsize > 1:
        return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)
    numbers = rng.normal(size=shape) * (1 if dtype.kind != "i" else 40)
    if dtype == np.float64:
        numbers[0, -1] = 1.109375 * 2.0**128
    return numbers.astype(dtype)


def test_operands_in_the_operands_own_format_are_projected_too():
    """If a rounding of operands is named: infinities saturate and subnormals are flushed, in blocks too."""
    rule = Projection(saturation="finite", subnormals="flush_results")
    half, numbers = catalog.BINARY16, np.array([[np.inf, 1.0, -0.0, 5.96e-8], [np.nan, -np.inf, 2.0, 1e-7]])
    codes = lp.encode(numbers, half)
    for order, accumulator in ((EXACT, None), (SEQUENTIAL, SINGLE), (PAIRWISE, SINGLE)):
        how = Accumulation(
            name="m",
            operands=(half, half),
            operand_rounding=rule,
            order=order,
            accumulator=accumulator,
            output=SINGLE,
        )
        agrees(how, (half, half), codes, codes[::-1].copy())
        for values in (numbers, numbers.astype(np.float16)):
            assert lp.dot(values, np.float16([1, 0.5, 1, 1]), how)[0] == np.float32(65504.5)
    fmt = BlockFormat(name="b", element=half, scale=catalog.E8M0FNU, size=4)
    blocks = BlockArray(codes, np.full((2, 1), 127, np.uint8), fmt)
    how = Accumulation(name="m", operands=(half, half), operand_rounding=rule, order=EXACT, output=SINGLE)
    ones = BlockArray(lp.encode(np.float32([[1, 0.5, 1, 1]] * 2), half), np.full((2, 1), 127, np.uint8), fmt)
    assert lp.dot(blocks, ones, how)[0] == np.float32(65504.5)


@pytest.mark.parametrize("name", ["cdna2_mfma_bfloat16_binary32", "cdna3_mfma_e4m3fnuz_binary32"])
def test_a_nan_addend_of_no_products_is_positive(name):
    """As the NaN of any other sum."""
    for nan in (np.nan, -np.nan):
        made = lp.dot(np.zeros((1, 0)), np.zeros((1, 0)), name, addend=np.float32([nan]), dtype=np.uint32)
        assert made.tolist() == [accumulation(name).output[1].nan_code or 0x7FC00000]


@pytest.mark.parametrize("scale", [0x7C00, 0x7E00, 0x0000])
def test_scales_multiply_the_sums_of_blocks_in_exact_sums_too(scale):
    """An infinite scale makes no NaN of terms of both signs; an element's NaN comes before the scale's."""
    fmt = BlockFormat(name="m", element=catalog.E5M2, scale=catalog.BINARY16, size=2)
    for codes in ([0x3C, 0xC0], [0x3C, 0xFE], [0x3C, 0xBC]):
        x = BlockArray(np.array([codes], np.uint8), np.array([[scale]], np.uint16), fmt, (1,))
        ones = BlockArray(np.array([[0x3C, 0x3C]], np.uint8), np.array([[0x3C00]], np.uint16), fmt, (1,))
        made = [
            lp.dot(x, ones, "exact", backend=backend).view(np.uint32).tolist() for backend in (None, "oracle")
        ]
        assert made[0] == made[1], codes


@pytest.mark.parametrize(
    ("order", "negative"),
    [(SEQUENTIAL, "ffc00000"), (chunked(2), "ffc00000"), (PAIRWISE, "7fc00000")],  # a lone term is rounded
)
@pytest.mark.parametrize("backend", [None, "oracle"])
def test_an_addend_is_projected_once(order, negative, backend):
    """One that overflows to a negative NaN stays one; in pairs it is a lone term, which sums' rule rounds."""
    fmt = Format(name="m", exponent_bits=4, trailing_bits=3, bias=7, nans=1)
    how = Accumulation(name="m", order=order, accumulator=(fmt, Projection(nan_sign="drop")), output=SINGLE)
    made = lp.dot(
        np.zeros((2, 0)), np.zeros((2, 0)), how, addend=[-1e9, -np.nan], dtype=np.uint32, backend=backend
    )
    assert [f"{code:08x}" for code in made] == [negative, "7fc00000"]


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint64, np.float16, np.float64])
def test_an_exact_sum_takes_an_addend_as_it_is(dtype):
    """The output's rules, which its format may not even have, are for the output."""
    for into in (
        (catalog.BFLOAT16, Projection(nan_code=0xFFFF)),
        (catalog.TF32, Projection(nan="negative_zero")),
    ):
        how = Accumulation(name="m", order=EXACT, output=into)
        agrees(how, (catalog.E4M3FN,) * 2, *np.full((2, 3, 2), 0x38), np.array([1, 2, 77], dtype))


def test_steps_and_chunks_of_any_length_take_no_more_than_is_there():
    """A step of 2**30 took gigabytes, one of 2**62 of alternate pairs gave 0 for a sum of 3."""
    halves, long = (catalog.BINARY16,) * 2, 1 << 30
    x = np.float16([1, 2, 3, 4, 5, 6, 7])
    whole = Window(step=long, fraction_bits=24, result=SINGLE)
    pairs = dataclasses.replace(whole, groups="alternate_pairs")
    plain = {"accumulator": SINGLE, "output": SINGLE}
    lp.dot(x, x, Accumulation(operands=halves, accumulator=pairs, output=SINGLE))
    tracemalloc.start()
    try:
        for window in (whole, pairs, dataclasses.replace(pairs, fraction_bits=None, step=1 << 32)):
            assert lp.dot(x, x, Accumulation(operands=halves, accumulator=window, output=SINGLE)) == 140
        for order in (chunked(long), chunked(1 << 32, "pairwise")):
            assert lp.dot(x, x, Accumulation(order=order, **plain)) == 140
        large = dataclasses.replace(catalog.MXFP4, size=long)
        blocks = lp.encode([1.0, 2.0, 3.0], large)
        assert lp.dot(blocks, blocks, "fp32_fma") == 14
        assert lp.dot(blocks, lp.encode([1.0, 2.0, 3.0], "mxfp4"), "fp32_fma") == 14
        assert tracemalloc.get_traced_memory()[1] < 1 << 28
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("length", range(1, 30))
def test_alternate_pairs_agree_at_every_length(length):
    """Steps that are full, in part, or not there."""
    halves, rng = (catalog.BINARY16,) * 2, np.random.default_rng(length)
    for step in (2, 4, 6, 10, 1 << 20):
        window = Window(step=step, fraction_bits=10, result=SINGLE, groups="alternate_pairs")
        how = Accumulation(operands=halves, accumulator=window, output=SINGLE)
        agrees(how, halves, *pairs_of_rows(halves, 4, length, rng))


def test_the_sum_of_a_long_step_does_not_overflow():
    """65,536 ones with 48 fraction bits gave 0: such a step is refused. The longest that there is holds."""
    for bits in (48, 44):
        step = 1 << (60 - bits)
        window = Window(step=step, fraction_bits=bits, result=SINGLE)
        how = Accumulation(operands=(catalog.E4M3FN,) * 2, accumulator=window, output=SINGLE)
        x = np.full(step, 1.875, np.float32)
        assert lp.dot(x, x, how) == step * 1.875**2
        assert lp.dot(x, -x, how) == -step * 1.875**2


def test_padding_with_zeros_matters_where_a_window_keeps_fewer_bits_than_its_result():
    """A step of zeros cuts the running sum again; with all bits of the result kept that changes nothing."""
    halves, ones, pad = (catalog.BINARY16,) * 2, np.ones(2, np.float16), np.zeros(2, np.float16)
    x = np.float16([1 + 255 / 256, 1])
    for bits, padded in ((8, 3 - 2**-7), (9, 3 - 2**-8), (10, 3 - 2**-8)):
        how = Accumulation(
            operands=halves,
            accumulator=Window(step=2, fraction_bits=bits, result=HALF),
            output=HALF,
            name=f"{bits} bits",
        )
        assert lp.dot(x, ones, how) == 3 - 2**-8
        assert lp.dot(np.concatenate([x, pad]), np.concatenate([ones, pad]), how) == padded
        agrees(
            how,
            halves,
            *(np.concatenate([side, pad]).view(np.uint16)[None].astype(np.int64) for side in (x, ones)),
        )
    rng = np.random.default_rng(9)
    x, y = (rng.standard_normal((200, 6)).astype(np.float16) for _ in range(2))
    longer = [np.pad(side, ((0, 0), (0, 5))) for side in (x, y)]
    assert (lp.dot(x, y, how) == lp.dot(*longer, how)).all()


def test_an_infinite_group_times_a_scale_of_zero_is_nan():
    """Infinity times zero; with another scale it is infinite."""
    window = Window(step=4, fraction_bits=10, result=SINGLE, scales="groups", group=2)
    small = ieee("small", 3, 2)
    how = Accumulation(
        name="m", operands=(small, small), accumulator=window, scale=(catalog.UE4M3, 2), output=SINGLE
    )
    fmt = BlockFormat(name="b", element=small, scale=catalog.UE4M3, size=2)
    elements = lp.encode(np.array([[1.0, -np.inf, 1.0, 1.0]]), small)
    ones = BlockArray(lp.encode(np.ones((1, 4)), small), np.full((1, 2), 0x38, np.uint8), fmt)
    for scales, want in (([[0, 0x38]], 0x7FC00000), ([[0x38, 0]], 0xFF800000)):
        blocks = BlockArray(elements, np.array(scales, np.uint8), fmt)
        assert lp.dot(blocks, ones, how, dtype=np.uint32).tolist() == [want]
        x, y = ([decode(int(code), small) for code in side.codes[0]] for side in (blocks, ones))
        of_blocks = [[decode(int(code), catalog.UE4M3) for code in side.scales[0]] for side in (blocks, ones)]
        assert oracle(x, y, how, scales=(*of_blocks, 2)) == want


def test_a_block_times_a_scale_of_zero_is_a_zero_with_the_sign_of_its_sum():
    """Products of both signs in it: the sum is one term."""
    fmt = BlockFormat(name="b", element=catalog.E4M3FN, scale=catalog.UE4M3, size=2)
    ones = BlockArray(np.full((1, 4), 0x38, np.uint8), np.full((1, 2), 0x38, np.uint8), fmt)
    for values, want in (
        ([1.0, -2.0, 1.0, -2.0], 0x80000000),
        ([1.0, -2.0, 2.0, -1.0], 0),
        ([2.0, -1.0] * 2, 0),
    ):
        blocks = BlockArray(lp.encode(np.float32([values]), "e4m3fn"), np.zeros((1, 2), np.uint8), fmt)
        x, y = ([decode(int(code), catalog.E4M3FN) for code in side.codes[0]] for side in (blocks, ones))
        scales = [[decode(int(code), catalog.UE4M3) for code in side.scales[0]] for side in (blocks, ones)]
        how = accumulation("exact")
        assert oracle(x, y, how, scales=(*scales, 2)) == want
        assert lp.dot(blocks, ones, how, dtype=np.uint32).tolist() == [want]


@pytest.mark.parametrize("backend", [None, "scalar"])
@pytest.mark.parametrize("mode", ["nearest_even", "toward_negative"])
@pytest.mark.parametrize("addend", [None, 0.0, -0.0])
def test_a_zero_sum_of_blocks_under_negative_scales_has_the_sign_of_its_terms(backend, mode, addend):
    """A block's products may be zeros of both signs, or cancel: the sum is +0, and -0 under such a scale."""
    fmt = BlockFormat(name="b", element=catalog.E4M3FN, scale=catalog.E4M3FN, size=2)
    how = Accumulation(name="m", order=EXACT, output=(catalog.BINARY32, Projection(rounding=mode)))
    rows = np.float32([[-0.0, 0.0], [2.0, -2.0], [-0.0, -0.0], [0.0, 0.0]])
    signs = ([0x38, 0x38], [0x38, 0xB8], [0xB8, 0xB8])
    for first, second, scales in itertools.product(rows, rows, signs):
        blocks = BlockArray(lp.encode(np.append(first, second)[None], "e4m3fn"), np.uint8([scales]), fmt)
        ones = BlockArray(np.full((1, 4), 0x38, np.uint8), np.uint8([[0x38, 0x38]]), fmt)
        given = {} if addend is None else {"addend": np.float32(addend)}
        made, want = (
            lp.dot(blocks, ones, how, dtype=np.uint32, backend=engine, **given)
            for engine in (backend, "oracle")
        )
        assert made.tolist() == want.tolist(), (first, second, scales)


@pytest.mark.parametrize("fmt", [catalog.BINARY32, catalog.BINARY16])
def test_products_that_cancel_leave_minus_zero_toward_negative(fmt):
    """Also where operands are cut in slices, and no slice's products cancel by themselves."""
    how = Accumulation(name="m", order=EXACT, output=(fmt, Projection(rounding="toward_negative")))
    rng = np.random.default_rng(1)
    powers = [np.float32(2) ** rng.integers(-40, 40, (50, 6)).astype(np.float32) for _ in range(2)]
    shift = np.float32(2) ** rng.integers(-30, 30, (50, 6)).astype(np.float32)
    x = np.concatenate([powers[0], powers[0] * shift, powers[0] * shift], axis=1)
    y = np.concatenate([powers[1], powers[1] / -shift / 2, powers[1] / -shift / 2], axis=1)
    made = np.diagonal(lp.matmul(x, np.ascontiguousarray(y.T), how))
    assert (made == 0).all()
    assert np.signbit(made).all()


@pytest.mark.parametrize("bias", [-1020, -500, 700])
def test_a_running_sum_may_lie_far_beyond_all_products(bias):
    """Of a window that cuts nothing: it is in the window's format, whatever the addend's is."""
    far = Format(name="far", exponent_bits=2, trailing_bits=16, bias=bias, nans=1)
    for mode in ("toward_negative", "toward_positive", "away_from_zero"):
        result = (far, Projection(rounding=mode))
        window = Window(step=2, fraction_bits=None, result=result, lowest_exponent=-4096)
        how = Accumulation(
            name="m", operands=(catalog.E4M3FN,) * 2, order=chunked(4), accumulator=window, total=SINGLE,
            addend="last", output=SINGLE,
        )  # fmt: skip
        codes = [np.resize([0xB8, 0x38, 0x01, 0xFE], (6, 5)), np.resize([0x38, 0x07, 0xB0], (6, 5))]
        agrees(how, (catalog.E4M3FN,) * 2, *codes)


def test_of_two_nans_the_first_counts_also_where_a_block_has_a_scale_of_zero():
    """Terms are joined in order: a block of zero scale, whose sum is made separately, is not the first."""
    fmt = BlockFormat(name="b", element=catalog.E5M2, scale=catalog.UE4M3, size=1)
    elements = np.array([[0xFF, 0x3C, 0x7F]], np.uint8)
    ones = BlockArray(np.full((1, 3), 0x3C, np.uint8), np.full((1, 3), 0x38, np.uint8), fmt)
    for codes in (elements, elements[:, ::-1]):
        for scales in ([0x38, 0x38, 0], [0, 0x38, 0x38], [0, 0, 0], [0x38, 0, 0x38]):
            blocks = BlockArray(codes, np.array([scales], np.uint8), fmt)
            x, y = ([decode(int(code), catalog.E5M2) for code in side.codes[0]] for side in (blocks, ones))
            of_blocks = [
                [decode(int(code), catalog.UE4M3) for code in side.scales[0]] for side in (blocks, ones)
            ]
            want = oracle(x, y, accumulation("exact"), scales=(*of_blocks, 1))
            assert want == (0xFFC00000 if codes is elements else 0x7FC00000)
            assert lp.dot(blocks, ones, "exact", dtype=np.uint32).tolist() == [want]


def test_groups_whose_sums_do_not_fit_are_refused():
    """Sums of products of e5m2 have 68 bits: they were cut."""
    element, scale = catalog.E5M2, catalog.E8M0FNU
    window = Window(step=8, fraction_bits=35, result=SINGLE, scales="groups", group=4)
    how = Accumulation(operands=(element,) * 2, accumulator=window, scale=(scale, 8), output=SINGLE)
    blocks = lp.encode(np.ones(8), BlockFormat(name="mine", element=element, scale=scale, size=8))
    message = (
        "sums of 4 products of 'e5m2' and 'e5m2' times scales of 'e8m0fnu' and 'e8m0fnu' have up to 68 bits, "
        "and 73 once they are aligned; lowprec computes with 63. Use narrower formats, a smaller group or "
        "step, or fewer fraction_bits"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        lp.dot(blocks, blocks, how)


# -- by vectors -------------------------------------------------------------------------------------

E6M25 = ieee("e6m25", 6, 25)


def groups_of_16(fmt):
    """Groups of products that are aligned, summed into a format, and added up in binary32."""
    group = Window(step=16, fraction_bits=25, result=(fmt, Projection()))
    return Accumulation(
        name=f"groups in {fmt}",
        operands=(catalog.E4M3FN,) * 2,
        order=chunked(16),
        accumulator=group,
        total=SINGLE,
        output=SINGLE,
    )


#: Each kernel of vectors, with and without chunks, and formats of operands: their width and their range.
BY_VECTORS = (
    ("fp32_fma", "binary32"),
    ("fp32_fma", "e5m2"),
    ("fp32_sequential", "binary32"),
    ("bf16_sequential", "e4m3fn"),
    ("fp16_sequential", "e4m3fn"),
    ("hopper_wgmma_e4m3fn_binary32", "e4m3fn"),
    ("hopper_wgmma_e5m2_binary16", "e5m2"),
    ("blackwell_tcgen05_e5m2_binary32", "e5m2"),
    ("volta_mma_binary16_binary16", "binary16"),
    ("hopper_mma_bfloat16_binary32", "bfloat16"),
    ("ampere_mma_tf32_binary32", "tf32"),
    ("hopper_mma_e4m3fn_binary16", "e4m3fn"),
    ("blackwell_mma_e4m3fn_binary32", "e4m3fn"),
    ("deepseek_promote(32)", "e4m3fn"),
    (groups_of_16(E6M25), "e4m3fn"),
    (groups_of_16(E6M25), "e5m2"),
    ("exact", "e4m3fn"),
    ("exact", "bfloat16"),
)


@pytest.mark.parametrize(("name", "fmt"), BY_VECTORS)
def test_vectors_agree(name, fmt):
    """Rows and columns fill no vector: any numbers, sums that cancel, small numbers, NaN in a few rows."""
    how, fmt, rng = accumulation(name), catalog.format(fmt), np.random.default_rng(12)
    if how.operands is not None:
        how = dataclasses.replace(how, operands=(fmt, fmt))
    # Sums in binary16 need a processor with its conversions: elsewhere the general kernel makes them.
    served = vector.lower(Dot(how, fmt, fmt, begins_in(how)[0])) is not None
    assert served or (how.output[0] == catalog.BINARY16 and not has_half())
    for length, count, moderate in ((33, 5, True), (64, 34, True), (40, 4, False)):
        x, y = pairs_of_rows((fmt, fmt), count, length, rng)
        if moderate:  # numbers near 1, so that windows do not give up
            x, y = (near_one(codes, fmt, rng) for codes in (x, y))
        values = [lp.decode(codes, fmt, dtype="float32") for codes in (x, y)]
        for addend in (None, rng.normal(size=(count, count)).astype(np.float32), addends(count * count, rng)):
            start = None if addend is None else addend.reshape(count, count)
            kind = code_dtype(how.output[0])
            got = lp.matmul(values[0], values[1].T, how, addend=start, dtype=kind)
            pairs = [
                array.reshape(-1, length)
                for array in np.broadcast_arrays(values[0][:, None], values[1][None])
            ]
            general = lp.dot(*pairs, how, addend=None if start is None else start.reshape(-1), dtype=kind)
            assert got.reshape(-1).tolist() == general.tolist()


@pytest.mark.parametrize(
    ("name", "x", "y", "addend", "want"),
    [
        # The tie of a binary16 result, and above it what only the 26th bit of the sum tells.
        ("hopper_mma_binary16_binary16", [1, 2.0**-11, 2.0**-12], [1, 1, 2.0**-13], 0, 1 + 2.0**-10),
        # Zero times a large number is no term: it must not decide where others are cut.
        ("hopper_wgmma_e4m3fn_binary32", [0, 2.0**-6], [448, 2.0**-6], 0, 2.0**-12),
        # A subnormal addend has the exponent of the smallest normal number: what lies far below it is cut,
        # and leaves a tie.
        ("hopper_mma_binary16_binary16", [2.0**-12, 2.0**-20], [2.0**-13, 2.0**-22], 2.0**-23, 2.0**-23),
    ],
)
def test_windows_by_vectors_keep_what_decides(name, x, y, addend, want):
    """By vectors, by the general kernel and by the oracle."""
    start, how = np.float32([[addend]]), accumulation(name)
    got = lp.matmul(np.float32([x]), np.float32([y]).T, how, addend=start)
    general = lp.dot(np.float32(x), np.float32(y), how, addend=addend)
    exact = oracle(
        [from_float(float(a)) for a in x], [from_float(float(b)) for b in y], how, from_float(float(addend))
    )
    assert got.item() == general == want
    assert decode(exact, how.output[0]) == want


def test_an_addend_has_the_exponents_of_the_output():
    """Where that is not the format that steps are rounded to, too, with which 32-bit lanes do not reckon."""
    for name, output in (("hopper_mma_binary16_binary16", SINGLE), ("hopper_mma_binary16_binary32", HALF)):
        how = dataclasses.replace(accumulation(name), output=output)
        assert vector.lower(Dot(how, catalog.BINARY16, catalog.BINARY16, begins_in(how)[0])) is None
        x, y = np.float32([[2.0**-12, 2.0**-20]]), np.float32([[2.0**-13], [2.0**-22]])
        for addend in (2.0**-23, 3 * 2.0**-24, 2.0**-20):
            got = lp.matmul(x, y, how, addend=addend).item()
            sides = [[from_float(float(value)) for value in side.reshape(-1)] for side in (x, y)]
            assert got == decode(oracle(*sides, how, from_float(addend)), output[0])


def near_one(codes, fmt, rng):
    """Codes with exponents around that of 1, a tenth of them zero."""
    fields = rng.integers(-3, 3, codes.shape) + (fmt.bias if fmt.exponent_bits else 0)
    near = codes & (fmt.sign_code | (1 << fmt.trailing_bits) - 1) | fields << fmt.trailing_bits
    return np.where(rng.random(codes.shape) < 0.1, 0, near)


def test_a_tie_of_a_wide_product_is_broken_by_what_is_small():
    """A 10-bit product may be a tie of bfloat16's 8: rounded to binary32 first, the sum would be lost."""
    x, y = np.float32([2.0**-30, 1.0625]), np.float32([1.0, 1.0625])  # 1.0625**2 = 1.12890625 = 289 / 256
    assert lp.matmul(x[None], y[:, None], "bf16_sequential").item() == 1.1328125
    assert (
        lp.matmul(np.float32([[2.0**-60, 1.0]]), np.float32([[1.0], [1 + 2.0**-8]]), "bf16_sequential").item()
        == 1 + 2.0**-7
    )


# -- exact sums -------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [("e5m2", "e5m2"), ("bfloat16", "bfloat16"), ("binary32", "e8m0fnu")])
def test_exact_sums_are_those_of_fractions(names):
    """4096 products of all sizes, whose sum takes hundreds of bits; and of what is left when most cancels."""
    rng = np.random.default_rng(8)
    formats = [catalog.format(name) for name in names]
    codes = [rng.integers(0, fmt.max_magnitude + 1, (3, 4096)) for fmt in formats]
    x, y = (lp.decode(each, fmt, dtype="float64") for each, fmt in zip(codes, formats, strict=True))
    x *= rng.choice([-1, 1], x.shape)
    x[1, 2048:], y[1, 2048:] = -x[1, :2048], y[1, :2048]
    x[1, 5] *= 2
    x[2, 2048:4095], y[2, 2048:4095] = -x[2, :2047], y[2, :2047]
    got = lp.dot(x, y, dataclasses.replace(accumulation("exact"), output=(catalog.TF32, Projection())))
    for row in range(3):
        total = sum(
            (Fraction(a) * Fraction(b) for a, b in zip(x[row].tolist(), y[row].tolist(), strict=True)),
            Fraction(0),
        )
        want = oracle(
            [from_float(a) for a in x[row].tolist()],
            [from_float(b) for b in y[row].tolist()],
            accumulation("exact"),
        )
        assert lp.dot(x[row], y[row], "exact").view(np.uint32) == want
        assert got[row] == lp.quantize(float(total), "tf32") or abs(total) < Fraction(1, 1 << 1000)


# -- blocks -----------------------------------------------------------------------------------------


def blocks_of(fmt, count, length, rng, *, scales=None):
    """Elements and scales of any size."""
    codes = rows(fmt.element, count, length, rng)
    size = -(-length // fmt.sizes[0])
    drawn = (
        rng.integers(0, 1 << fmt.scale.width, (count, size))
        if scales is None
        else rng.choice(scales, (count, size))
    )
    return BlockArray(codes, drawn, fmt, 1, 1.5 if fmt.tensor_scale != "none" else None)


SCALED = [name for name, how in ACCUMULATIONS.items() if how.scale is not None]


@pytest.mark.parametrize("name", most_apart(SCALED, SCALED[::3]))
def test_accumulations_with_scales_agree(name):
    """Elements in blocks; scales of all codes, NaN too, and of such that results are not all infinite."""
    how, rng = accumulation(name), np.random.default_rng(4)
    scale, size = how.scale
    formats = [BlockFormat(name=fmt.name, element=fmt, scale=scale, size=size) for fmt in how.operands]
    near = [scale.max_magnitude // 2 + step for step in range(-3, 4)]
    for length, scales in ((size, None), (2 * size + 5, near), (3 * size, near)):
        x, y = (blocks_of(fmt, 4, length, rng, scales=scales) for fmt in formats)
        for addend in (None, addends(4, rng)):
            held(how, x, y, addend)


@pytest.mark.parametrize(
    "how", ["fp32_fma", "fp32_sequential", "fp32_pairwise", "bf16_sequential", "exact", "fp64_sequential"]
)
@pytest.mark.parametrize("fmt", ["mxfp8_e4m3", "mxfp8_e5m2", "mxint8", "nvfp4", "fp8_block_1x128"])
def test_blocks_are_terms_of_plain_accumulations(how, fmt):
    """Each block's exact sum times both scales is one; a tensor's scale multiplies the sum."""
    fmt, rng = catalog.block_format(fmt), np.random.default_rng(6)
    near = [lp.encode(2.0**power, fmt.scale) for power in range(-3, 4)]
    for length in (5, 3 * fmt.sizes[0] + 1):
        x, y = (blocks_of(fmt, 3, length, rng, scales=near) for _ in range(2))
        held(accumulation(how), x, y)


def test_sums_of_blocks_that_cancel_beyond_128_bits():
    """2**120 + 2**-40 in one block, -2**120 in the other: the scalar kernel does not hold the first sum."""
    wide = lp.BlockFormat(name="wide", element="bfloat16", scale="e8m0fnu", size=2, rule="floor")
    how = Accumulation(name="pairs", order=PAIRWISE, accumulator=SINGLE, output=SINGLE)
    x = lp.encode(np.array([[2.0**100, 2.0**-20, 2.0**100, 0]]), wide, axis=1)
    y = lp.encode(np.array([[2.0**20, 2.0**-20, -(2.0**20), 0]]).T, wide, axis=0)
    assert lp.matmul(x, y, how) == lp.matmul(x, y, how, backend="oracle") == 2.0**-40
    assert_left_to_the_oracle(x, y, how)


def test_sums_in_windows_with_more_random_bits_than_lanes_keep():
    """Leave to the oracle a total of 30 bits that is rounded by 32 random ones."""
    total = lp.Format(name="fixed", exponent_bits=0, trailing_bits=30, bias=-3, sign="twos_complement")
    rule = lp.Projection(rounding=lp.stochastic(32), nan="zero", saturation="finite")
    how = Accumulation(
        name="random", operands=("e4m3fn", "e4m3fn"), output="binary32", order="chunked(4)",
        accumulator=Window(step=2, fraction_bits=10, result="binary32"), total=(total, rule),
    )  # fmt: skip
    x = lp.quantize(np.arange(16, dtype=np.float32).reshape(2, 8) / 3, "e4m3fn")
    given = lp.matmul(x, x.T, how, rng=5)
    assert given.tolist() == lp.matmul(x, x.T, how, rng=5, backend="oracle").tolist()
    assert_left_to_the_oracle(x, x.T, how, rng=5)


def assert_left_to_the_oracle(x, y, how, **keywords):
    """Ask the scalar engine by name, which refuses."""
    message = (
        "backend='scalar' does not serve this request: it takes all but sums in pairs of exact sums of "
        "blocks that have more than 128 bits, sums in windows whose results have more than 58 bits, random "
        "ones included, and blocks whose scales have as many or are quotients by more than 53; use "
        "'oracle', which serves it, or leave backend out"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        lp.matmul(x, y, how, backend="scalar", **keywords)
