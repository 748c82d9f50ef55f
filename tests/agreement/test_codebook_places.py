"""Codebooks as elements and scales of blocks, and where products and sums are kept, against the oracle."""

import math

import numpy as np
import pytest

import lowprec as lp
from lowprec.spec.codebook import Codebook
from lowprec.spec.order import Split
from lowprec.spec.toml_reading import from_toml
from tests.support import engines_agree, refusal_test

#: Each program has kernels of its own.
pytestmark = pytest.mark.apart

NAN = math.nan

#: For codebooks without NaN.
KEPT = lp.Projection(saturation="finite", nan="max")


@pytest.mark.parametrize("blocks", [False, True])
def test_one_term_of_a_sum_in_pairs_is_rounded_as_sums_are(blocks):
    whole = lp.Projection(saturation="finite", nan="max")
    how = lp.Accumulation(output="posit8", accumulator=("int8", whole), order="pairwise")
    x, y = np.float32([[0.3125]]), np.float32([[0.0625]])
    if blocks:
        x, y = lp.encode(x, "mxfp8_e4m3", axis=1), lp.encode(y, "mxfp8_e4m3", axis=0)
    for backend in (None, "scalar", "oracle"):
        assert lp.matmul(x, y, how, backend=backend) == 0
        assert lp.matmul(x, y, how, addend=0.0, backend=backend) == 0


def test_a_sum_is_not_flushed_after_it_saturated_to_a_subnormal_number():
    few = lp.Format(name="few", exponent_bits=2, trailing_bits=3, bias=1, nans=26)
    assert few.max_finite == 0.625
    assert few.min_normal is None
    kept = few, lp.Projection(saturation="propagate", subnormals="flush_results")
    output = Codebook("whole", (0.0, 0.25, 1.0, NAN)), lp.Projection()
    assert lp.dot([1.5], [4.0], lp.Accumulation(output=output, accumulator=kept)) == 1.0
    in_two = lp.Accumulation(output="binary32", accumulator=kept, split=Split(2))
    assert lp.dot([1.5, 1.5], [4.0, 4.0], in_two) == 1.25


test_places_that_a_codebook_cannot_take_are_refused = refusal_test(
    globals(),
    """
lp.Accumulation(output="binary32", accumulator=("iq4_nl", KEPT))
    ValueError: accumulator='iq4_nl' of an accumulation has no zero, which a sum begins with; use
    another
lp.Accumulation(output="binary32", accumulator="nf4")
    ValueError: accumulator in 'nf4', which has no NaN, needs Projection(nan=...)
lp.Accumulation(output="binary32", accumulator=("posit8", lp.Projection(overflow_test="exponent")))
    ValueError: accumulator in 'posit8': overflow_test='exponent' is for binary formats, and this is a
    codebook
lp.Accumulation(output="binary32", operands="e4m3fn", accumulator=lp.Window(step=4, fraction_bits=10,
        result="posit16"))
    ValueError: result='posit16' of an accumulation lacks exponents, by which a window aligns; use
    another
lp.Accumulation(output="binary32", operands="nf4", accumulator=lp.Window(step=4, fraction_bits=10,
        result="binary32"))
    ValueError: operands nf4 and nf4 lack exponents to align by
lp.BlockFormat(name="b", element="e4m3fn", scale="iq4_nl", size=16, rule="divide")
    ValueError: scale='iq4_nl' of block format 'b' has negative values and no zero, so small quotients
    would become negative scales; use a codebook with a zero, or without negative values
lp.BlockFormat(name="b", element="e4m3fn", scale="posit8", size=16, rule="rceil")
    ValueError: scale='posit8' of block format 'b' lacks 2**-23, and rule='rceil' makes quotients powers
    of two; use 'divide' or 'project', which round the quotient itself to the codebook's values
lp.BlockFormat(name="b", element="e2m1fn", scale="lns8_3", size=16, rule="divide", tensor_scale="divide")
    ValueError: scale='lns8_3' of block format 'b' has values of 53 significant bits, and the product
    with a tensor's scale is exact for 40 at most; use tensor_scale='none', or another format for scales
lp.BlockFormat(name="b", element="e2m1fn", scale="hif8", size=16, rule="divide",
        scales=lp.Projection(nan_code=0xC0))
    ValueError: scales of block format 'b' have nan_code=192, a negative number of 'hif8'...
lp.BlockFormat(name="b", element="nf4", scale="binary32", size=16, rule="even")
    ValueError: rule='even' of block format 'b' asks for the precision of 'nf4', which is a codebook...
lp.BlockFormat(name="b", element="lns8_3", scale="binary32", size=16, rule="divide")
    ValueError: rule='divide' of block format 'b' divides by 234.753...
""",
)


def test_a_nan_with_the_magnitude_of_zero_counts():
    """That of fnuz formats is the code of the sign alone."""
    values = np.array([0x40, 0x80], np.uint8).view(lp.dtype("e4m3fnuz"))
    assert np.isnan(lp.quantize(values, "bnb_nf4")).tolist() == [True, True]


# -- on the way to another format -------------------------------------------------------------------------


def test_codes_of_few_bits_go_on_by_tables_with_the_payloads_of_nans():
    few = Codebook("few", (0.25, 1.0, 2.0, NAN))
    codes = np.arange(5000) % 4
    given = {"projection": lp.Projection(nan_payload="first", via=("binary32",))}
    for backend in (None, "table", "scalar", "oracle"):
        some = codes[:64] if backend == "oracle" else codes
        found = lp.cast(some, few, "binary16", **given, backend=backend)
        assert set(zip(some.tolist(), found.tolist(), strict=True)) == {
            (0, 0x3400), (1, 0x3C00), (2, 0x4000), (3, 0x7E00),
        }  # fmt: skip


# -- scales ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["divide", "reciprocal"])
def test_the_scale_of_a_tensor_follows_from_values_of_53_bits(way):
    long = Codebook("long", [0.0, 1 + 2.0**-52, math.pi, NAN])
    fmt = lp.BlockFormat(name="b", element=long, scale="binary32", size=4, rule="floor", tensor_scale=way)
    for values in (np.array([0.1, -1e9, 3.0, 7.7]), np.array([(1 << 62) + 1, 3, 0, -5])):
        assert engines_agree(lp.encode, values, fmt, backends=(None, "oracle")).tensor_scale != 1


def test_what_every_stack_may_check_of_a_scale():
    """The nearest value to amax / max, by the codebook's own rounding; elements are divided by it."""
    fmt = lp.BlockFormat(name="b", element="int4", scale="hif8", size=4, rule="divide")
    blocks = lp.encode([[3.0, -1.0, 0.5, 2.9], [0.0, 0.0, 0.0, 0.0]], fmt)
    scales = lp.decode(blocks.scales, fmt.scale)
    assert scales.tolist() == [[lp.quantize(3 / 7, "hif8")], [0.0]]
    assert lp.decode(blocks)[0].tolist() == [
        7 * scales[0, 0],
        -2 * scales[0, 0],
        scales[0, 0],
        7 * scales[0, 0],
    ]


def test_the_smallest_scale_is_zero_whatever_its_code():
    fmt = lp.BlockFormat(name="b", element="int4", scale="nf4", size=2, rule="divide", scales=KEPT)
    assert lp.encode([[0.0, -0.0]], fmt).scales.tolist() == [[lp.format("nf4").values.index(0.0)]] == [[7]]


def test_scales_that_are_given_are_read_and_negative_ones_refused():
    fmt = lp.BlockFormat(name="b", element="int4", scale="posit8", size=4, rule="divide")
    values = np.float32([[3.0, -1.0, 0.5, 2.9]])
    assert lp.encode(values, fmt, scales=[[0.5]]).codes.tolist() == [[6, 14, 1, 6]]
    with pytest.raises(
        ValueError, match="scales of blocks are positive, and some of those given have a sign"
    ):
        lp.encode(values, fmt, scales=[[-0.5]])
    with pytest.raises(ValueError, match=r"scales has 0\.51 at index \(0, 0\), which 'posit8' does not have"):
        lp.encode(values, fmt, scales=[[0.51]])


@pytest.mark.apart
def test_dots_of_blocks_with_codebooks_are_the_oracles():
    values = np.random.default_rng(2).standard_normal((3, 128)).astype(np.float32)
    for element, scale, size in (("e4m3fn", "posit8", 8), ("nf4", "binary32", 64)):
        fmt = lp.BlockFormat(name="b", element=element, scale=scale, size=size, rule="divide")
        x, y = lp.encode(values, fmt), lp.encode(np.ascontiguousarray(values.T), fmt, axis=0)
        for how in ("exact", "fp32_sequential", "fp32_pairwise"):
            np.testing.assert_array_equal(lp.matmul(x, y, how), lp.matmul(x, y, how, backend="oracle"))
    wide = lp.encode(values, lp.BlockFormat(name="b", element="e4m3fn", scale="lns8_3", size=8))
    with pytest.raises(ValueError, match="whose scales 'lns8_3' has with more than the 24 significant bits"):
        lp.dot(wide, wide, "exact")


def test_such_blocks_and_sums_go_through_files():
    fmt = lp.BlockFormat(
        name="b", element="e2m1fn", scale=Codebook("mine", [0.0, 0.5, 1.0, 2.0]), size=16, rule="divide"
    )
    how = lp.Accumulation(name="how", output="binary32", accumulator="posit8", product=("hif8", "to_odd"))
    for spec in (fmt, how):
        assert from_toml(lp.to_toml(spec))[spec.name] == spec
