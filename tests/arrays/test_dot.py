"""`dot` and `matmul` as array verbs: shapes, types, blocks, randomness, refusals. Not their sums."""

import dataclasses
import functools
import itertools
import tracemalloc
from fractions import Fraction
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

import lowprec as lp
from lowprec.arrays.blocks.block import BlockArray
from lowprec.oracle.convert import project
from lowprec.spec import catalog
from lowprec.spec.accumulation import Accumulation
from lowprec.spec.accumulations import accumulation
from lowprec.spec.block import BlockFormat
from lowprec.spec.order import EXACT
from lowprec.spec.projection import Projection
from tests.support import assert_same_bits, refusal_test

RNG = np.random.default_rng(0)
SINGLE = (catalog.BINARY32, Projection())
HOPPER = "hopper_wgmma_e4m3fn_binary32"
SCALED = "blackwell_tcgen05_e4m3fn_binary32_e8m0fnu_1"


def numbers(*shape):
    """Values of E4M3, whose sums no accumulator of 8 bits has."""
    return lp.quantize(RNG.standard_normal(shape) * 4, "e4m3fn", backend="oracle")


def same(got, want):
    """Equal bits, in an array of that type and shape."""
    assert_same_bits(
        np.asarray(got).reshape(-1), np.asarray(want).reshape(-1), range(np.size(want)), "values"
    )
    assert np.shape(got) == np.shape(want)


def expected(x, y, how):
    """The oracle's values of all pairs of rows, which broadcast; in float32."""
    how, shape = accumulation(how), np.broadcast_shapes(x.shape[:-1], y.shape[:-1])
    return lp.dot(*(np.broadcast_to(each, (*shape, x.shape[-1])) for each in (x, y)), how, backend="oracle")


# -- shapes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((5,), (5,)),
        ((3, 5), (5,)),
        ((5,), (2, 5)),
        ((3, 5), (3, 5)),
        ((2, 1, 5), (3, 5)),
        ((1, 5), (0, 5)),
        ((2, 0), (2, 0)),
        ((0,), (0,)),
        ((0, 5), (5,)),
    ],
    ids=str,
)
def test_dot_takes_shapes_as_vecdot_does(first, second):
    """The last axes are summed along, the others broadcast."""
    x, y = numbers(*first), numbers(*second)
    want = expected(x, y, "bf16_sequential")
    assert want.shape == (x[..., :1] * y[..., :1]).sum(-1).shape
    same(lp.dot(x, y, "bf16_sequential"), want)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((5,), (5,)),
        ((5,), (5, 2)),
        ((3, 5), (5,)),
        ((3, 5), (5, 2)),
        ((5,), (2, 5, 3)),
        ((2, 3, 5), (5,)),
        ((2, 3, 5), (5, 2)),
        ((2, 1, 3, 5), (4, 5, 2)),
        ((3, 0), (0, 2)),
        ((0, 5), (5, 2)),
        ((3, 5), (5, 0)),
        ((0, 3, 5), (5, 2)),
        ((0,), (0,)),
    ],
    ids=str,
)
def test_matmul_takes_shapes_as_numpy_does(first, second):
    """Rows of x, columns of y, each element where it belongs."""
    x, y = numbers(*first), numbers(*second)
    rows = x[..., None, :] if x.ndim > 1 else x
    columns = y if y.ndim == 1 else y.swapaxes(-1, -2) if x.ndim == 1 else y.swapaxes(-1, -2)[..., None, :, :]
    want = expected(rows if y.ndim > 1 else x, columns, "bf16_sequential")
    assert want.shape == np.matmul(x, y).shape
    same(lp.matmul(x, y, "bf16_sequential"), want)


def test_shapes_of_size_zero_may_be_huge():
    """Nothing is made for what is not there."""
    assert lp.dot(np.ones((0, 1 << 40)), np.ones((0, 1 << 40)), "fp32_fma").shape == (0,)
    assert lp.matmul(np.ones((0, 1 << 40)), np.ones((1 << 40, 0)), "fp32_fma").shape == (0, 0)


def test_sums_of_nothing_are_the_addend_or_zero():
    """In every kind of accumulation."""
    empty = np.ones((2, 0))
    for how in ("fp32_fma", "fp32_pairwise", "exact", HOPPER, "cdna2_mfma_binary16_binary32"):
        same(lp.dot(empty, empty, how), np.zeros(2, np.float32))
        same(lp.matmul(empty, empty.T, how, addend=[[1], [2]]), np.float32([[1, 1], [2, 2]]))


def test_scalars_come_out_of_vectors():
    """NumPy's."""
    assert type(lp.dot([1, 2], [3, 4], "fp32_fma")) is np.float32
    assert lp.matmul([1, 2], [3, 4], "fp32_fma") == 11


def test_addends_broadcast():
    """To the result's shape, as one number, a row, a column or all."""
    x, y = np.ones((2, 3, 4)), np.ones((4, 5))
    for shape in ((), (5,), (3, 1), (2, 1, 1), (2, 3, 5)):
        addend = np.arange(np.prod(shape, dtype=int)).reshape(shape)
        same(lp.matmul(x, y, "fp32_fma", addend=addend), np.broadcast_to(np.float32(4 + addend), (2, 3, 5)))
    same(lp.dot(x, y[:, 0], "fp32_fma", addend=[[1], [2]]), np.float32([[5] * 3, [6] * 3]))


# -- operands ---------------------------------------------------------------------------------------

X, Y = numbers(6, 40), numbers(40, 5)


@functools.cache
def right():
    """Their product; made when a test wants it, as nothing is compiled while tests are collected."""
    return lp.matmul(X, Y, HOPPER)


def test_the_result_is_the_oracles():
    """So that what all others are held against is right."""
    same(right(), expected(X[:, None], Y.T, HOPPER))


SIGNALING = (np.uint16([0x7C01]), np.uint32([0xFF800001]), np.uint64([0x7FF << 52 | 1]))


@pytest.mark.parametrize(
    ("how", "words"),
    [
        # Those of binary64 have kernels of their own; test_wide_dots asks for their sums in binary32 always.
        pytest.param(
            how, words, marks=[pytest.mark.apart] * (how == "fp64_sequential" or words.itemsize == 8)
        )
        for how, words in itertools.product(("fp32_fma", "exact", HOPPER, "fp64_sequential"), SIGNALING)
    ],
    ids=str,
)
def test_signaling_nans_are_nans(how, words):
    """They are however wide, as operands and as addends; nothing is said about them."""
    nan = words.view(f"f{words.itemsize}")
    assert np.isnan(lp.dot(nan, [1.0], how))
    assert np.isnan(lp.dot([1.0], [1.0], how, addend=nan[0]))


def test_operands_are_rounded_where_the_accumulation_says_so():
    """tf32 operands are binary32 numbers whose last bits are not read."""
    assert lp.dot([1 + 2.0**-11], [1.0], "ampere_mma_tf32_binary32") == 1
    how = dataclasses.replace(accumulation(HOPPER), operand_rounding=Projection(saturation="finite"))
    assert lp.dot([500.0, 1.03], [1.0, 1.0], how) == 449


def test_the_addend_begins_where_the_sum_does():
    """Rounded to nearest into the accumulator; a float64 accumulator and an exact sum have all of it."""
    hair = 1 + 2.0**-30
    assert lp.dot([0.0], [0.0], "fp32_fma", addend=hair) == 1
    assert lp.dot([-1.0], [1.0], "fp64_sequential", addend=hair) == 2.0**-30
    assert lp.dot([-1.0], [1.0], "exact", addend=hair) == 2.0**-30
    assert lp.dot([-1.0], [1.0], "fp64_sequential", addend=(1 << 60) + 1) == 2.0**60
    assert lp.dot([-(2.0**60)], [1.0], "exact", addend=(1 << 60) + 1) == 1
    assert lp.dot([1.0], [1.0], "exact", addend=np.array(2.0, ">f8")) == 3


# -- results ----------------------------------------------------------------------------------------


def test_results_are_values_or_codes():
    """In a float type that holds them all, or as the format's codes."""
    for how, fmt, dtype in (
        (HOPPER, "binary32", np.float64),
        (HOPPER, "binary32", np.uint32),
        ("fp16_sequential", "binary16", np.float16),
        ("fp16_sequential", "binary16", np.uint16),
        ("bf16_sequential", "bfloat16", ml_dtypes.bfloat16),
        ("bf16_sequential", "bfloat16", np.float64),
    ):
        values = lp.matmul(X, Y, how)
        want = values.astype(dtype) if np.dtype(dtype).kind != "u" else lp.encode(values, fmt)
        out = np.zeros((6, 10), dtype)[:, ::2]
        for got in (lp.matmul(X, Y, how, dtype=dtype), lp.matmul(X, Y, how, out=out)):
            assert got.dtype == np.dtype(dtype)
            assert got.tobytes() == want.tobytes()
        assert got is out


def test_nan_codes_of_tensor_cores_come_out_whole():
    """All ones but for the sign: as codes, in a float32, and in a float64 that carries it."""
    assert lp.dot([np.nan], [1], HOPPER, dtype=np.uint32) == 0x7FFFFFFF
    assert lp.dot([-np.nan], [1], HOPPER).view(np.uint32) == 0x7FFFFFFF
    assert lp.dot([np.nan], [1], HOPPER, dtype="float64").view(np.uint64) == 0x7FFFFFFFE0000000
    assert lp.dot([np.nan], [1], "hopper_wgmma_e4m3fn_binary16", dtype=np.float16).view(np.uint16) == 0x7FFF
    assert lp.dot([np.nan], [1], "fp32_fma", dtype=np.uint32) == 0x7FC00000


def test_out_may_be_an_operand():
    """All is read before it is written."""
    x = np.float32([[1, 2], [3, 4]])
    assert lp.matmul(x, x, "fp32_fma", addend=x, out=x) is x
    assert x.tolist() == [[8, 12], [18, 26]]


def test_out_is_untouched_where_a_call_fails():
    """Whatever it fails for."""
    out = np.full(2, 7, np.float32)
    for x, options in (
        (np.ones((2, 3)), {"addend": np.ones(3)}),
        (np.full((2, 3), 500.0), {}),
        (np.ones((2, 3)), {"rng": 1}),
        (np.ones((3, 3)), {}),
    ):
        with pytest.raises(ValueError, match=r"."):
            lp.dot(x, np.ones(3), HOPPER, out=out, **options)
        assert out.tolist() == [7, 7]


# -- what must not matter ---------------------------------------------------------------------------


def test_tiles_change_nothing():
    """Whatever part of the result is asked for; `dot` and `matmul` give the same."""
    for how in (HOPPER, "fp32_pairwise"):
        whole = lp.matmul(X, Y, how)
        same(
            np.block([[lp.matmul(X[i : i + 4], Y[:, j : j + 2], how) for j in (0, 2, 4)] for i in (0, 4)]),
            whole,
        )
        same(lp.dot(X[:, None], Y.T, how), whole)
        same(lp.matmul(np.stack([X, -X]), Y, how)[0], whole)


# -- randomness -------------------------------------------------------------------------------------


def stochastic(fmt, bits=8):
    """Sums and results in a format, both rounded stochastically."""
    rounded = (fmt, Projection(rounding=lp.stochastic(bits)))
    return Accumulation(name="drawn", accumulator=rounded, output=rounded)


def test_a_key_gives_the_same_every_time():
    """A generator is drawn from once, batches and outer axes count as places."""
    how = stochastic(catalog.E5M2)
    x, y = np.resize(X, (2, 6, 40)), np.resize(Y, (40, 5))
    want = lp.matmul(x, y, how, rng=3)
    same(lp.matmul(x, y, how, rng=3), want)
    same(lp.dot(x[:, :, None], y.T, how, rng=3), want)
    assert (want[0] != want[1]).any()
    generator, other = np.random.default_rng(3), np.random.default_rng(3)
    lp.dot(X, X, how, rng=generator)
    other.integers(0, 1 << 64, dtype=np.uint64)
    assert generator.integers(0, 1 << 62) == other.integers(0, 1 << 62)


# -- blocks -----------------------------------------------------------------------------------------


def blocks(shape, fmt, axis=-1, **options):
    """Blocks of other sizes each, and what they stand for."""
    sizes = 2.0 ** RNG.integers(-3, 4, shape)
    made = lp.encode((RNG.standard_normal(shape) * sizes).astype(np.float32), fmt, axis=axis, **options)
    return made, made.values("float64")


def test_blocks_are_taken_on_one_side():
    """The other is plain values, with scales of 1."""
    (x, x_values), (y, y_values) = blocks((3, 40), "mxfp4"), blocks((40, 4), "mxfp8_e4m3", axis=0)
    same(lp.matmul(x, Y[:, :4], "exact"), (x_values @ Y[:, :4]).astype(np.float32))
    same(lp.matmul(X, y, "exact"), (X @ y_values).astype(np.float32))
    same(lp.matmul(x[0], y[:, 0], "exact"), np.float32(x_values[0] @ y_values[:, 0]))
    same(
        lp.dot(x, np.ones(40), "exact", addend=np.arange(3)),
        (x_values.sum(1) + np.arange(3)).astype(np.float32),
    )


def test_terms_are_as_long_as_both_blocks_allow():
    """Of blocks of 32 and of 16, 16 elements make a term, as if both had been of 16."""
    (x, _), (y, _) = blocks((3, 72), "mxfp4"), blocks((4, 72), "nvfp4")
    short = BlockFormat(name="short", element=x.format.element, scale=x.format.scale, size=16)
    cut = BlockArray(x.codes, np.repeat(x.scales, 2, 1)[:, :5], short, 1)
    want = lp.matmul(cut, BlockArray(y.codes.T, y.scales.T, y.format, 0, y.tensor_scale), "bf16_sequential")
    same(lp.dot(x, y[:3], "bf16_sequential"), np.diagonal(want).copy())
    values = (x.values("float64")[0] * y.values("float64")[0]).reshape(-1)
    sums = [float(values[start : start + 16].sum()) / float(y.tensor_scale) for start in range(0, 72, 16)]
    running = 0.0
    for each in sums:
        running = float(lp.quantize(running + each, "bfloat16"))
    assert want[0, 0] == lp.quantize(running * float(y.tensor_scale), "bfloat16")


def test_tiles_are_taken_as_weights():
    """Each row of a tile has its scale; 200 rows fill a tile and a part."""
    (x, _), (y, _) = blocks((3, 200), "fp8_block_1x128"), blocks((200, 150), "fp8_block_128x128", (0, 1))
    of_rows = BlockArray(y.codes, np.repeat(y.scales, 128, 1)[:, :150], "fp8_block_1x128", 0)
    same(lp.matmul(x, y, "fp64_sequential"), lp.matmul(x, of_rows, "fp64_sequential"))


@pytest.mark.parametrize("scale", [0.5, 1.0, 3.0, 2.0**100, 2.0**-149, float(np.float32(0.1))])
@pytest.mark.parametrize("how", ["fp32_fma", "exact", "blackwell_tcgen05_e2m1fn_binary32_ue4m3_4"])
def test_scales_of_tensors_multiply_the_sum(how, scale):
    """Powers of two and large ones too, on either side or on both."""
    x = BlockArray(np.full((2, 64), 2), np.full((2, 4), 0x38), "nvfp4", 1, scale)
    one = BlockArray(x.codes, x.scales, "nvfp4", 1, 1.0)
    rounding = accumulation(how).output[1].rounding
    same(lp.dot(x, one, how), np.repeat(lp.multiply(64, scale, "binary32", rounding=rounding), 2))
    same(lp.dot(one, x, how), lp.dot(x, one, how))
    exact = Fraction(scale) ** 2 * 64
    code = project(exact, *accumulation(how).output)
    same(lp.dot(x, x, how, dtype=np.uint32), np.full(2, code, np.uint32))


# -- refusals ---------------------------------------------------------------------------------------

# By the oracle, which compiles nothing.
ROWS = lp.encode(np.ones((4, 64), np.float32), "mxfp8_e4m3", backend="oracle")
COLUMNS = lp.encode(np.ones((64, 4), np.float32), "mxfp8_e4m3", axis=0, backend="oracle")
NVFP4 = lp.encode(np.ones((4, 64), np.float32), "nvfp4", backend="oracle")

test_what_cannot_be_is_refused = refusal_test(
    {**globals(), "EXACT": EXACT, "SimpleNamespace": SimpleNamespace},
    """
lp.dot(1.0, 2.0, "fp32_fma")
    ValueError: dot of shapes () and (): a single number has no K; use multiply or fma
lp.matmul(np.ones((2, 2)), np.array(2.0), "fp32_fma")
    ValueError: matmul of shapes (2, 2) and (): a single number has no K; use multiply or fma
lp.dot(np.ones((2, 3)), np.ones(4), "fp32_fma")
    ValueError: dot of shapes (2, 3) and (4,): x has 3 elements along K, y has 4; they must be equal
lp.dot(np.ones((2, 3)), np.ones((2, 1)), "fp32_fma")
    ValueError: dot of shapes (2, 3) and (2, 1): x has 3 elements along K, y has 1; they must be equal
lp.matmul(np.ones((2, 3)), np.ones((2, 3)), "fp32_fma")
    ValueError: matmul of shapes (2, 3) and (2, 3): x has 3 elements along K, y has 2; they must be
    equal
lp.matmul(np.ones(3), np.ones((5, 2, 3)), "fp32_fma")
    ValueError: matmul of shapes (3,) and (5, 2, 3): x has 3 elements along K, y has 2; they must be
    equal
lp.matmul(np.ones((2, 5, 3)), np.ones((4, 3, 1)), "fp32_fma")
    ValueError: matmul of shapes (2, 5, 3) and (4, 3, 1): the axes in front, (2,) and (4,), do not
    broadcast; make them equal, or 1
lp.dot(np.ones((2, 3)), np.ones((4, 3)), "fp32_fma")
    ValueError: dot of shapes (2, 3) and (4, 3): the axes in front, (2,) and (4,), do not broadcast;
    make them equal, or 1
lp.dot([1], [1], "hopper_wgmma_e4m3_binary32")
    ValueError: unknown accumulation 'hopper_wgmma_e4m3_binary32'; did you mean
    'hopper_wgmma_e4m3fn_binary32' or 'hopper_wgmma_e5m2_binary32'...
lp.dot([1], [1], "none")
    ValueError: unknown accumulation 'none'; `lowprec.accumulations` lists all
lp.matmul([1], [1], 32)
    TypeError: accumulation must be an Accumulation or a name, not 32
lp.dot([[1, 2], [3, 500]], [1, 1], HOPPER)
    ValueError: x has values that 'e4m3fn' does not have: 1 of 4, the first at index (1, 1): 500.
    Quantize x to 'e4m3fn' first...
lp.matmul([1, 1], [[0.3, 1], [-np.inf, 2]], HOPPER)
    ValueError: y has values that 'e4m3fn' does not have: 2 of 4, the first at index (0, 0): 0.3.
    Quantize y to 'e4m3fn' first
lp.dot([np.nan], [1], "blackwell_tcgen05_e2m1fn_binary32")
    ValueError: x has values that 'e2m1fn' does not have: 1 of 1, the first at index (0,): nan. Quantize
    x to 'e2m1fn' first
lp.dot([1.0, -0.0], [1, 1], "cdna3_mfma_e4m3fnuz_binary32")
    ValueError: x has values that 'e4m3fnuz' does not have: 1 of 2, the first at index (1,): -0.0.
    Quantize x to 'e4m3fnuz' first
lp.dot([1.0, -0.0], [1, 1], Accumulation(operands=(lp.format("nf4"),) * 2, order=EXACT, output=SINGLE))
    ValueError: x has values that 'nf4' does not have: 1 of 2, the first at index (1,): -0.0. Quantize x
    to 'nf4' first
lp.dot([1, (1 << 53) + 1], [1, 1], Accumulation(operands=(catalog.BINARY32,) * 2, order=EXACT,
        output=SINGLE))
    ValueError: x has values that 'binary32' does not have: 1 of 2, the first at index (1,):
    9007199254740993. Quantize x to 'binary32' first...
lp.dot([1], np.ones(1, complex), "fp32_fma")
    TypeError: y must be real numbers of at most 64 bits, not complex128: convert the real and the
    imaginary part by themselves
lp.dot([1 << 70], [1], "fp32_fma")
    TypeError: x must be real numbers of at most 64 bits, not object: give floats or integers of at most
    64 bits; lowprec.oracle.convert.project...
lp.dot(None, [1], "fp32_fma")
    TypeError: x must be real numbers of at most 64 bits, not object: give floats...
lp.dot(["1"], [1], "fp32_fma")
    TypeError: x must be real numbers of at most 64 bits, not <U1: convert to...
lp.dot([[1], [1, 2]], [1], "fp32_fma")
    TypeError: cannot make an array of list: setting...
lp.dot(np.ma.array([1.0], mask=[True]), [1], "fp32_fma")
    TypeError: a masked array would lose its mask; give .filled(...), or .data and put the mask back
    afterwards
lp.dot(np.ones(3), np.ones(3), "fp32_fma", addend=1j)
    TypeError: addend must be real numbers of at most 64 bits, not complex128: convert...
lp.dot(np.ones((2, 3)), np.ones(3), "fp32_fma", addend=np.ones(3))
    ValueError: addend of shape (3,) does not broadcast to the result's shape (2,); give one number, or
    one for each result
lp.dot(np.ones(3), np.ones(3), "fp32_fma", addend=[1.0])
    ValueError: addend of shape (1,) does not broadcast to the result's shape (); give one number, or
    one for each result
lp.dot(NVFP4, NVFP4, "fp32_fma", addend=1)
    ValueError: an addend cannot join a product with tensor scales, which multiply the sum; add it to
    the result
lp.dot([1], [1], stochastic(catalog.BFLOAT16))
    ValueError: drawn rounds stochastically: give rng=, an integer or a numpy.random.Generator
lp.dot([1], [1], "fp32_fma", rng=1)
    ValueError: rng= is of no use: nothing of fp32_fma is rounded stochastically; leave it out
lp.dot([1], [1], stochastic(catalog.BFLOAT16), rng=-1)
    ValueError: rng=-1 is...
lp.dot([1], [1], "fp32_fma", dtype="int8")
    TypeError: values are given as float16, bfloat16, float32 or float64, not int8
lp.dot([1], [1], "fp32_fma", dtype="float16")
    ValueError: float16 does not hold every value of 'binary32'; use float32, float64
lp.dot([1], [1], "fp32_fma", out=np.zeros(1, np.float32))
    ValueError: out has shape (1,), but the result has shape (); they must be equal
lp.dot([1], [1], "fp32_fma", out=[0.0])
    TypeError: out must be a NumPy array of float32, not list
lp.dot([1], [1], "fp32_fma", out=SimpleNamespace(dtype="torch.float32"))
    TypeError: out must be a NumPy array of float32, not SimpleNamespace
lp.matmul([[1, 2], [3]], ROWS, "fp32_fma", scales=(1, 1))
    TypeError: cannot make an array of list...
lp.matmul(ROWS, ROWS, "fp32_fma")
    ValueError: blocks of y lie along axis 1, but K is axis 0: encode with axis=0
lp.dot(COLUMNS, np.ones(4), "fp32_fma")
    ValueError: blocks of x lie along axis 0, but K is axis 1: encode with axis=1
lp.matmul(ROWS, np.ones((64, 2)), HOPPER)
    ValueError: hopper_wgmma_e4m3fn_binary32 takes no operands in blocks, but x is in 'mxfp8_e4m3': use
    an accumulation that does, such as 'fp32_fma', or give x as values of 'e4m3fn'
lp.matmul(ROWS, COLUMNS, "hopper_wgmma_e4m3fn_e5m2_binary32")
    ValueError: hopper_wgmma_e4m3fn_e5m2_binary32 takes no operands in blocks, but x is in
    'mxfp8_e4m3'...
lp.matmul(ROWS, COLUMNS, "cdna2_mfma_binary16_binary32")
    ValueError: cdna2_mfma_binary16_binary32 takes x of 'binary16', not of 'e4m3fn' in blocks of
    'mxfp8_e4m3'
lp.dot(np.ones(64), np.ones(64), "blackwell_tcgen05_e2m1fn_binary32_e8m0fnu_4")
    ValueError: ...takes operands in blocks, but x is float64: `encode` it in blocks of 16 of 'e2m1fn'
    with scales of 'e8m0fnu'
lp.matmul(ROWS, COLUMNS, "blackwell_tcgen05_e4m3fn_e5m2_binary32_e8m0fnu_1")
    ValueError: blackwell_tcgen05_e4m3fn_e5m2_binary32_e8m0fnu_1 takes y of 'e5m2', not of 'e4m3fn' in
    blocks of 'mxfp8_e4m3'
lp.dot(NVFP4, NVFP4, "blackwell_tcgen05_e2m1fn_binary32_e8m0fnu_2")
    ValueError: ...takes one scale of 'e8m0fnu' for 32 elements, but x in 'nvfp4' has one of 'ue4m3' for
    16: `encode` it in blocks of 32 of 'e2m1fn' with scales of 'e8m0fnu', such as 'mxfp4'
lp.matmul(ROWS, np.ones((64, 2)), SCALED)
    ValueError: blackwell_tcgen05_e4m3fn_binary32_e8m0fnu_1 takes operands in blocks, but y is float64:
    `encode` it in blocks of 32 of 'e4m3fn' with scales of 'e8m0fnu', such as 'mxfp8_e4m3'
""",
)


def test_scales_of_tensors_are_no_rounding_of_their_own_before_a_codebook():
    """What binary16 holds no more of a sum that a tensor's scale makes small, a codebook has a value for."""
    x, y = (
        lp.encode(np.full((2, 16), 2.0**-20, np.float32), "nvfp4", axis=1, tensor_scale=2.0**-14)
        for _ in "xy"
    )
    book = lp.Codebook("least", (2.0**-40, 2.0**-36, 1.0, float("nan")))
    how = lp.Accumulation(accumulator="binary16", output=book)
    got = lp.matmul(x, y.T, how)
    same(got, lp.matmul(x, y.T, how, backend="oracle"))
    assert (got == 2.0**-36).all()


@pytest.mark.parametrize(("verb", "y"), [("matmul", (0, 8, 3)), ("dot", (0, 4, 8))])
def test_scales_are_shared_along_an_axis_that_is_empty(verb, y):
    x, scales = np.ones((0, 4, 8), np.float32), (np.ones((1, 4, 1), np.float32), None)
    made = getattr(lp, verb)(x, np.ones(y, np.float32), "fp32_fma", scales=scales)
    assert made.shape == ((0, 4, 3) if verb == "matmul" else (0, 4))


def test_products_without_results_take_no_time_however_many_they_are():
    x, y = np.empty((1 << 40, 0, 4)), np.empty((1 << 40, 4, 0))
    assert lp.matmul(x, np.ones((4, 3)), "fp32_fma").shape == (1 << 40, 0, 3)
    assert lp.matmul(np.ones((3, 4)), y, "fp32_fma").shape == (1 << 40, 3, 0)
    assert lp.matmul(x, y, "fp32_fma", addend=1.0).shape == (1 << 40, 0, 0)


BATCHES = np.random.default_rng(7).integers(-8, 8, (64, 1, 256)).astype(np.float32)
MATRIX, ROW = BATCHES[:40, 0].T, BATCHES[0, 0]


@pytest.mark.parametrize(
    ("verb", "x", "y", "want"),
    [
        ("matmul", BATCHES, MATRIX, BATCHES @ MATRIX),
        ("matmul", BATCHES, MATRIX[None], BATCHES @ MATRIX),
        ("matmul", BATCHES, ROW, BATCHES @ ROW),
        ("matmul", MATRIX.T, BATCHES.swapaxes(1, 2), MATRIX.T @ BATCHES.swapaxes(1, 2)),
        ("matmul", BATCHES[:, None], BATCHES[:3, :1].swapaxes(1, 2)[None], None),
        ("dot", BATCHES[:, 0], ROW, BATCHES[:, 0] @ ROW),
        ("dot", BATCHES, ROW[None, None], BATCHES @ ROW),
    ],
)
def test_factors_that_others_share_are_not_copied(verb, x, y, want):
    """Share matrices and rows that meet many of the other side, in blocks as in single values."""
    multiply = getattr(lp, verb)
    want = np.matmul(x, y) if want is None else want
    multiply(x, y, "fp32_fma")
    tracemalloc.start()
    found = multiply(x, y, "fp32_fma")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert np.array_equal(found, want)
    assert most < 4 * (x.nbytes + y.nbytes + 8 * found.size) + 100_000
    axes = (-1, -1 if verb == "dot" or y.ndim == 1 else -2)
    blocks = [lp.encode(side, "mxint8", axis=axis) for side, axis in zip((x, y), axes, strict=True)]
    assert np.array_equal(multiply(*blocks, "exact"), want)


@pytest.mark.parametrize(
    ("verb", "y", "copied"),
    [
        ("dot", ROW, np.broadcast_to(ROW, BATCHES.shape)),
        ("matmul", ROW, None),
        ("matmul", MATRIX, np.broadcast_to(MATRIX, (64, *MATRIX.shape))),
    ],
)
def test_shared_factors_have_the_random_integers_of_their_places(verb, y, copied):
    """Draw the same in lazy arrays, where outputs of a chunk do not follow each other in the whole."""
    multiply, output = getattr(lp, verb), lp.Projection(rounding="stochastic(8)", saturation="finite")
    how = dataclasses.replace(accumulation("fp32_fma"), output=(catalog.E4M3FN, output))
    array = pytest.importorskip("dask.array")
    whole = multiply(BATCHES / 3, y, how, rng=5)
    lazy = multiply(array.from_array((BATCHES / 3).reshape(8, 8, 256), chunks=(3, 5, 256)), y, how, rng=5)
    assert np.array_equal(lazy.compute().reshape(whole.shape), whole)
    assert copied is None or np.array_equal(multiply(BATCHES / 3, copied.copy(), how, rng=5), whole)
