"""MX: microxcaling's own vectors, products and layers, and the numbers that follow from whole arrays.

Elsewhere: 1,472 blocks of microxcaling in seven element formats and three roundings, the golden block, and
the table of QSNR by format and rule (tests/agreement/test_published_blocks.py); gfloat's blocks of all six
formats (tests/agreement/test_block_profiles.py); shares of clamped blocks, as reports have them
(tests/arrays/test_statistics.py); single elements (tests/agreement/test_profiles.py); packing
(tests/arrays/test_packing.py). Vector operations are in test_mx_vector.py.
"""

import dataclasses
import pathlib
from fractions import Fraction

import numpy as np
import pytest

import lowprec as lp
from lowprec.methods import mx
from lowprec.methods.fp8 import sqnr
from lowprec.oracle.convert import project
from lowprec.spec import catalog
from lowprec.spec.catalog import BFLOAT16, BINARY32
from lowprec.spec.families import fixed, power_of_two
from lowprec.spec.profiles import PROFILES
from tests.support import assert_gradients_are_differences

INF, NAN = np.inf, np.nan
MX = ("mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp4", "mxint8")
STACK = PROFILES["microxcaling"]
AWAY = lp.Projection(rounding="nearest_away")

with np.load(
    pathlib.Path(__file__).parents[2] / "tables" / "published" / "microxcaling_layers.npz"
) as _table:
    PUBLISHED = {name: (_table[name].astype(np.uint32) << 16).view(np.float32) for name in _table.files}


def rounded(number, fmt):
    """A Fraction as a value of a format, by the oracle."""
    return float(lp.decode(project(number, fmt), fmt))


# -- blocks: the vectors of microxcaling's tests ------------------------------------------------------


def test_e4m3_saturates_and_rounds_ties_away_or_to_even():
    """[MICROXCALING] test_fp8_e4m3_fix: one block of eight."""
    block = np.float32([485, 475, 400, -485, -475, -450, 2.0**-6, -(2.0**-6)])
    want = [448, 448, 416, -448, -448, -448, 2.0**-6, -(2.0**-6)]
    assert lp.quantize(block, "mxfp8_e4m3", profile="microxcaling").tolist() == want
    assert lp.quantize(block, "mxfp8_e4m3").tolist() == [448, 448, 384, *want[3:]]


E4M3_BLOCK = """
-0.582733273506 -0.256973713636 0.506033003330 0.400039970875 -0.437093466520 1.275019764900 -2.123294353485
1.514909625053 -2.660086154938 -0.200791791081 -0.060985822231 -0.209203109145 2.385987281799 0.062245476991
0.217003762722 -0.857734560966 0.507945835590 0.896152675152 -0.751049160957 -0.488164335489 0.805381953716
-0.172028362751 0.271137863398 -0.503807783127 1.879478693008 -0.294227510691 0.968807995319 0.670037031174
-0.871595799923 0.304561793804 -0.567594051361 -1.265962004662"""
E4M3_RESULT = """
-0.5625 -0.25 0.5 0.40625 -0.4375 1.25 -2 1.5 -2.75 -0.203125 -0.0625 -0.203125 2.5 0.0625 0.21875 -0.875
0.5 0.875 -0.75 -0.5 0.8125 -0.171875 0.28125 -0.5 1.875 -0.28125 1 0.6875 -0.875 0.3125 -0.5625 -1.25"""


@pytest.mark.parametrize("profile", [None, "microxcaling"])
def test_a_block_of_e4m3_without_ties_is_the_same_in_both_roundings(profile):
    """[MICROXCALING] test_mxfp8_e4m3_round."""
    block, want = (np.float32(text.split()) for text in (E4M3_BLOCK, E4M3_RESULT))
    assert lp.quantize(block, "mxfp8_e4m3", profile=profile).tolist() == want.tolist()


#: [MICROXCALING] test_mx_hw_test: rows in 128ths of an INT8 block of ten, and the results in 64ths.
INT8_ROWS = {
    (128,) * 10: (64,) * 10,
    (128,) * 5 + (256,) * 5: (64,) * 5 + (128,) * 5,
    (-128,) * 5 + (-256,) * 5: (-64,) * 5 + (-128,) * 5,
    (128,) * 5 + (-256,) * 5: (64,) * 5 + (-128,) * 5,
    (130, 131, 132, 133, 160, 161, 248, 249, 254, 255): (65, 66, 66, 67, 80, 81, 124, 125, 127, 127),
    (-254, -253, -252, -251, -248, -247, -224, -223, -128, -255): (
        *(-127, -127, -126, -126, -124, -124, -112, -112, -64, -127),
    ),
    (255.5, 254.5, 0, 0.5, 1, 1.5, -2, -1.5, -1, -0.5): (127, 127, 0, 0, 1, 1, -1, -1, -1, 0),
}


def test_int8_rounds_ties_away_in_microxcaling_and_six_of_them_otherwise_here():
    """Ties away pass all seven rows; to even differs at the six ties whose neighbour away is odd."""
    rows, want = np.float32(list(INT8_ROWS)) / 128, np.float32(list(INT8_ROWS.values())) / 64
    away, even = (dataclasses.replace(fmt, size=10) for fmt in (STACK.block(catalog.MXINT8), catalog.MXINT8))
    assert lp.quantize(rows, away).tolist() == want.tolist()
    assert (lp.quantize(rows, even) != want).sum() == 6


def test_the_most_negative_code_is_not_used():
    """[MICROXCALING] test_mx_rounding, with elements of four bits."""
    mxint4 = dataclasses.replace(STACK.block(catalog.MXINT8), element=fixed("int4f2", 4, 2))
    rows = np.float32([[-1.0, -1.75, -1.99, 1.99], [1.0, -1.75, -1.99, 1.99]])
    assert lp.quantize(rows, mxint4).tolist() == [[-1.0, -1.75, -1.75, 1.75], [1.0, -1.75, -1.75, 1.75]]


@pytest.mark.parametrize("value", [NAN, INF, -INF])
@pytest.mark.parametrize("fmt", ["mxfp8_e4m3", "mxfp4", "mxint8"])
@pytest.mark.parametrize("profile", [None, "microxcaling"])
def test_a_nan_or_an_infinity_takes_its_whole_block(profile, fmt, value):
    """[MICROXCALING] test_mx_nans; the next block is its own."""
    blocks = lp.encode(np.float32([value, 0, 2.0**127, 0] + [0] * 28 + [1]), fmt, profile=profile)
    assert blocks.scales[0] == 255
    assert np.isnan(blocks.values()[:32]).all()
    assert blocks.values()[32] == 1


def test_scales_of_five_bits_overflow_to_nan_and_stop_below():
    """[MICROXCALING] test_e5m0_scale: -1, 0 and 1 over scales 2**-15 to 2**15; half a scale rounds away."""
    fmt = dataclasses.replace(
        STACK.block(catalog.MXINT8), element=fixed("int2", 2), scale=power_of_two("e5m0", 5), size=8
    )
    first = np.float32([2.0**16, 2.0**15, 2.0**-16, 2.0**-17, 2.0**-15, 2.0**-14, 1, 0])
    want = np.float32([NAN, 2.0**15, 2.0**-15, 0, 2.0**-15, 2.0**-14, 1, 0])
    for sign in (1, -1):
        rows = np.zeros((8, 8), np.float32)
        rows[:, 0] = sign * first
        got = lp.quantize(rows, fmt)
        assert np.array_equal(got[:, 0], sign * want, equal_nan=True)
        assert np.isnan(got[0]).all()
        assert (got[1:, 1:] == 0).all()


def test_values_between_products_are_rounded_as_published():
    """[MICROXCALING] test_corners_elemwise: ties away; and ties of subnormals to even."""
    for fmt, value, want in (
        ("bfloat16", 65535.0, 65536.0),
        ("bfloat16", -1.9985847, -2.0),
        ("bfloat16", 2.0**127 * (2**10 - 3) / 2**9, 2.0**127 * 255 / 128),
        ("bfloat16", 2.0**127 * (2**10 - 1) / 2**9, INF),
        ("bfloat16", 2.0**-126 * 2.0**-8, 2.0**-133),
        ("binary16", 65519.0, 65504.0),
        ("binary16", 65520.0, INF),
        ("binary16", 2.0**-14 * 2047 / 2048, 2.0**-14),
    ):
        assert mx.Vector(fmt, AWAY).round([value, -value]).tolist() == [want, -want]
    ties = 2.0**-126 * np.array([253, 251]) / 256
    assert (mx.Vector().round(ties) * 2.0**126 * 128).tolist() == [126, 126]
    assert (mx.Vector("bfloat16", AWAY).round(ties) * 2.0**126 * 128).tolist() == [127, 126]


# -- blocks: limits and rules -------------------------------------------------------------------------

#: emax, the largest value, the smallest normal and the smallest of all: [OCPMX] 5.3.
ELEMENTS = {
    "e4m3fn": (8, 448, 2.0**-6, 2.0**-9),
    "e5m2": (15, 57344, 2.0**-14, 2.0**-16),
    "e2m3fn": (2, 7.5, 1, 1 / 8),
    "e3m2fn": (4, 28, 1 / 4, 1 / 16),
    "e2m1fn": (2, 6, 1, 1 / 2),
    "int8f6": (0, 127 / 64, None, 1 / 64),
}


def test_elements_and_blocks_have_the_published_limits():
    for name, limits in ELEMENTS.items():
        fmt = lp.format(name)
        smallest = float(lp.decode(1, fmt))
        assert (fmt.emax, fmt.max_finite, fmt.min_normal, smallest) == limits
    widths = [catalog.block_format(name).bits_per_value for name in MX]
    assert widths == [8.25, 8.25, 6.25, 6.25, 4.25, 8.25]
    assert [lp.encode(np.ones(32), name).nbytes for name in MX] == [33, 33, 25, 25, 17, 33]
    assert lp.decode(range(8), "e2m1fn").tolist() == [0, 0.5, 1, 1.5, 2, 3, 4, 6]


def test_midpoints_of_e2m1_tell_roundings_apart():
    """Under a scale of 1: a 6 beside them."""
    block = np.float32([6, 0.25, 1.25, 2.5, 5])
    assert lp.quantize(block, "mxfp4").tolist() == [6, 0, 1, 2, 4]
    assert lp.quantize(block, "mxfp4", profile="microxcaling").tolist() == [6, 0.5, 1.5, 3, 6]


@pytest.mark.parametrize(
    ("fmt", "largest", "rule", "scale", "result"),
    [
        ("mxfp4", 3.0, "floor", 0.5, 3.0),
        ("mxfp4", 3.0, "even", 0.5, 3.0),
        ("mxfp4", 3.0, "rceil", 0.5, 3.0),
        ("mxfp4", 3.0, "ceil", 1.0, 3.0),
        ("mxfp4", 3.0001, "floor", 0.5, 3.0),
        ("mxfp4", 3.0001, "rceil", 1.0, 3.0),
        ("mxfp4", 7.0, "floor", 1.0, 6.0),
        ("mxfp4", 7.0, "rceil", 2.0, 8.0),
        ("mxint8", 1.99, "floor", 1.0, 1.984375),
    ],
)
def test_rules_give_the_probed_scales(fmt, largest, rule, scale, result):
    blocks = lp.encode(np.float32([largest, 0.1]), fmt, rule=rule)
    assert lp.decode(blocks.scales, "e8m0fnu").tolist() == [scale]
    assert blocks.values()[0] == result


@pytest.mark.parametrize("fmt", MX)
def test_the_number_below_a_power_of_two_has_its_own_exponent(fmt):
    """In all binades: by a logarithm in binary32 it would have the next one's."""
    powers = np.float32(2.0) ** np.arange(-100, 128, dtype=np.float32)
    below = np.nextafter(powers, np.float32(0))
    emax = catalog.block_format(fmt).element.emax
    scales = lp.encode(below[:, None], fmt).scales[:, 0].astype(int)
    assert np.array_equal(scales - 127, np.maximum(np.arange(-101, 127) - emax, -127))


NORMAL = np.random.default_rng(0).standard_normal((4096, 1024)).astype(np.float32)

#: Shares of blocks whose largest value lies beyond scale * max_finite.
CLAMPED = {
    "mxfp8_e5m2": 0.169,
    "mxfp8_e4m3": 0.169,
    "mxfp6_e3m2": 0.169,
    "mxfp6_e2m3": 0.094,
    "mxfp4": 0.295,
    "mxint8": 0.013,
}


@pytest.mark.parametrize("fmt", MX)
def test_random_data_shows_clamps_but_no_ties(fmt):
    """Shares to the digit, and no more than 0.0005 dB between ties away and to even."""
    blocks = lp.encode(NORMAL, fmt)
    largest = np.abs(NORMAL).reshape(4096, 32, 32).max(axis=2)
    limit = lp.decode(blocks.scales, "e8m0fnu").astype(np.float64) * blocks.format.element.max_finite
    assert round(float((largest > limit).mean()), 3) == CLAMPED[fmt]
    away = lp.quantize(NORMAL, fmt, rounding="nearest_away")
    assert abs(sqnr(NORMAL, away) - sqnr(NORMAL, blocks.values())) < 0.0005


@pytest.mark.parametrize(
    ("element", "bits"), [(("e2m1fn",) * 2, 4608), (("e2m3fn",) * 2, 115_200), (("e3m2fn",) * 2, 6_422_528)]
)
def test_sums_of_a_block_of_narrow_products_fit_in_binary32(element, bits):
    """In units of the smallest product; below 2**24 float32 holds every one."""
    x, y = map(lp.format, element)
    units = 32 * Fraction(x.max_finite) * Fraction(y.max_finite)
    units /= Fraction(x.min_subnormal) * Fraction(y.min_subnormal)
    assert units == bits < 2**24
    assert 32 * 127**2 == 516_128 < 2**24


@pytest.mark.parametrize(
    ("x", "y", "bits"), [("e4m3fn", "e4m3fn", 41), ("e4m3fn", "e5m2", 55), ("e5m2", "e5m2", 69)]
)
def test_sums_of_a_block_of_fp8_products_are_exact_however_wide(x, y, bits):
    """The largest products cancel, and the smallest is left: one bit of so many."""
    a, b = lp.format(x), lp.format(y)
    units = (
        32
        * Fraction(a.max_finite)
        * Fraction(b.max_finite)
        / Fraction(a.min_subnormal)
        / Fraction(b.min_subnormal)
    )
    assert int(units).bit_length() == bits
    left = np.array([a.max_finite, a.min_subnormal, -a.max_finite])
    right = np.array([b.max_finite, b.min_subnormal, b.max_finite])
    names = {"e4m3fn": "mxfp8_e4m3", "e5m2": "mxfp8_e5m2"}
    got = lp.dot(lp.encode(left, names[x]), lp.encode(right, names[y]), "fp32_fma")
    assert got == a.min_subnormal * b.min_subnormal


# -- products -----------------------------------------------------------------------------------------

X = np.random.default_rng(10).standard_normal((64, 512)).astype(np.float32)
Y = np.random.default_rng(11).standard_normal((512, 64)).astype(np.float32)


@pytest.mark.parametrize(
    ("fmt", "decibels"),
    [
        ("mxfp8_e5m2", 22.26),
        ("mxfp8_e4m3", 27.69),
        ("mxfp6_e3m2", 22.26),
        ("mxfp6_e2m3", 27.97),
        ("mxfp4", 15.64),
        ("mxint8", 38.61),
    ],
)
def test_products_lose_three_decibels_more_than_their_operands(fmt, decibels):
    """To the digit, 0.0055 dB; errors of both operands are independent and add."""
    exact = X.astype(np.float64) @ Y.astype(np.float64)
    assert abs(sqnr(exact, mx.matmul(X, Y, fmt)) - decibels) < 0.0055
    assert 2.6 < sqnr(X, lp.quantize(X, fmt)) - decibels < 3.4


@pytest.mark.parametrize(
    "formats",
    [
        ("mxfp8_e4m3", "mxfp4"),
        ("mxint8", "mxfp8_e5m2"),
        ("mxfp6_e3m2", "bfloat16"),
        ("binary32", "mxfp6_e2m3"),
    ],
)
@pytest.mark.parametrize("output", [BINARY32, BFLOAT16], ids=str)
def test_mixed_formats_multiply_exactly_and_are_rounded_once(formats, output):
    """In Fractions, with a tail of 8 after two blocks."""
    x, y = X[:3, :72], Y[:72, :4]
    left = lp.quantize(x, formats[0], axis=1) if "mx" in formats[0] else lp.quantize(x, formats[0])
    right = lp.quantize(y, formats[1], axis=0) if "mx" in formats[1] else lp.quantize(y, formats[1])
    got = mx.matmul(x, y, *formats, accumulation="exact", output=output.name)
    for i, j in np.ndindex(got.shape):
        total = sum(
            Fraction(float(a)) * Fraction(float(b)) for a, b in zip(left[i], right[:, j], strict=True)
        )
        assert got[i, j] == rounded(total, output)


def test_accumulations_are_a_choice():
    """Blocks' sums one after the other, in a tree, in binary64, all at once, and in a tensor core."""
    few, others = X[:16], Y[:, :16]
    x, y = lp.encode(few, "mxfp8_e4m3"), lp.encode(others, "mxfp8_e4m3", axis=0)
    names = [
        "fp32_fma",
        "fp32_pairwise",
        "fp64_sequential",
        "exact",
        "blackwell_tcgen05_e4m3fn_binary32_e8m0fnu_1",
    ]
    results = [mx.matmul(few, others, accumulation=name) for name in names]
    for name, result in zip(names, results, strict=True):
        assert np.array_equal(result, lp.matmul(x, y, name))
        assert np.array_equal(result, mx.matmul(x, y, accumulation=name))
    assert sqnr(results[3], results[0]) > 120
    assert len({result.tobytes() for result in results}) == 4  # 16 terms of binary64 are exact
    assert np.array_equal(results[2], results[3])


def test_the_output_is_a_choice():
    sums = mx.matmul(X, Y, "mxfp4", accumulation="fp32_fma")
    for output, want in (
        ("bfloat16", lp.quantize(sums, "bfloat16")),
        (("bfloat16", AWAY), lp.quantize(sums, "bfloat16", rounding="nearest_away")),
        (("binary32", lp.Projection(rounding="toward_zero")), sums),
    ):
        assert np.array_equal(mx.matmul(X, Y, "mxfp4", accumulation="fp32_fma", output=output), want)
    few, down = X[:8], lp.Projection(rounding="toward_zero")
    cut = mx.matmul(few, Y, accumulation="exact", output=("bfloat16", down))
    assert np.array_equal(
        cut, lp.quantize(mx.matmul(few, Y, accumulation="exact"), "bfloat16", projection=down)
    )


def test_machines_have_outputs_of_other_formats_too():
    """CDNA3 multiplies single values; its binary32 is rounded on."""
    values = lp.quantize(X[:, :64], "bfloat16"), lp.quantize(Y[:64], "bfloat16")
    name = "cdna3_mfma_bfloat16_binary32"
    got = mx.matmul(*values, "bfloat16", accumulation=name, output="bfloat16")
    assert np.array_equal(got, lp.quantize(lp.matmul(*values, name), "bfloat16"))


def test_a_matrix_and_its_transpose_are_two_arrays_in_blocks():
    """Blocks along columns are not those along rows."""
    weights = X[:, :64] * np.float32(4.0) ** np.arange(-32, 32, dtype=np.float32)[:, None]
    along, across = (lp.quantize(weights, "mxfp4", axis=axis) for axis in (1, 0))
    assert not np.array_equal(along, across)
    ones = np.eye(64, dtype=np.float32)
    assert np.array_equal(mx.matmul(ones, weights, "binary32", "mxfp4"), across)
    assert np.array_equal(mx.matmul(weights, ones, "mxfp4", "binary32"), along)


# -- the linear layer ---------------------------------------------------------------------------------

ELEMENT_NAMES = {
    "roles": mx.Roles(
        x="mxfp8_e4m3",
        w="mxfp6_e2m3",
        x_for_grad="mxfp4",
        w_for_grad="mxint8",
        grad_for_x="mxfp8_e5m2",
        grad_for_w="mxfp6_e3m2",
    ),
    "fp4fp6": mx.Roles(x="mxfp6_e3m2", w="mxfp4"),
}


@pytest.mark.parametrize("rounding", ["nearest", "even"])
@pytest.mark.parametrize("name", ELEMENT_NAMES)
def test_the_layer_and_its_gradients_are_those_of_microxcaling(name, rounding):
    """Bit for bit, with blocks of six formats along three axes, and everything between in bfloat16."""
    profile, how = ("microxcaling", AWAY) if rounding == "nearest" else (None, lp.Projection())
    x, w, bias, grad = (PUBLISHED[f"linear.{each}"] for each in ("x", "w", "bias", "grad"))
    y, gradients = mx.linear(
        x, w, bias, ELEMENT_NAMES[name], accumulation="exact", output=("bfloat16", how), profile=profile
    )
    for each, got in zip(("y", "grad_x", "grad_w", "grad_bias"), (y, *gradients(grad)), strict=True):
        want = PUBLISHED[f"{name}.{rounding}.{each}"]
        assert got.shape == want.shape
        assert (got != want).sum() == 0, each


def test_roles_follow_each_other():
    roles = mx.Roles(x="mxint8")
    assert {getattr(roles, field.name) for field in dataclasses.fields(roles)} == {catalog.MXINT8}
    roles = mx.Roles(x="mxfp6_e3m2", w="mxfp4", grad_for_x="bfloat16")
    assert [str(getattr(roles, field.name)) for field in dataclasses.fields(roles)] == [
        "mxfp6_e3m2",
        "mxfp4",
        "mxfp6_e3m2",
        "mxfp4",
        "bfloat16",
        "bfloat16",
    ]
    with pytest.raises(ValueError, match="unknown format 'mxfp5'"):
        mx.Roles(x="mxfp5")


def test_gradients_are_finite_differences_where_nothing_is_rounded():
    """Small integers are exact in E2M3 with any near power of two; the loss is linear in each operand."""
    grad = np.random.default_rng(4).integers(-3, 4, (2, 3, 5)).astype(np.float64)
    assert_gradients_are_differences(lambda *operands: mx.linear(*operands, "mxint8"), grad, grad)


def test_every_product_has_its_blocks_along_its_sum():
    """Three products, each by hand: with axes of three lengths, none a multiple of another."""
    rng = np.random.default_rng(5)
    x, w, grad = (rng.standard_normal(shape).astype(np.float32) for shape in ((70, 96), (40, 96), (70, 40)))
    y, gradients = mx.linear(x, w, roles="mxfp4", accumulation="exact")
    grad_x, grad_w, _ = gradients(grad)

    def blocks(values, axis):
        return lp.encode(values, "mxfp4", axis=axis)

    assert np.array_equal(y, lp.matmul(blocks(x, 1), blocks(w.T, 0), "exact"))
    assert np.array_equal(grad_x, lp.matmul(blocks(grad, 1), blocks(w, 0), "exact"))
    assert np.array_equal(grad_w, lp.matmul(blocks(grad.T, 1), blocks(x, 0), "exact"))


def test_backward_may_accumulate_differently():
    x, w, grad = X[:8, :64], Y[:64, :8].T, X[8:16, :8]
    names = "blackwell_tcgen05_e4m3fn_binary32_e8m0fnu_1", "exact"
    _, mixed = mx.linear(x, w, accumulation=names[0], backward_accumulation=names[1])
    _, exact = mx.linear(x, w, accumulation="exact")
    assert all(np.array_equal(a, b) for a, b in zip(mixed(grad), exact(grad), strict=True))


# -- theory: [INTFP] ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("integer", "fmt", "crest"),
    [("int8", "e4m3fn", 7.55), (fixed("int6", 6), "e2m3fn", 1.96), ("int4", "e2m1fn", 2.04)],
)
def test_integers_and_floats_cross_at_the_published_crest_factors(integer, fmt, crest):
    """To the digit, and 0.01: the source rounds its constants (4.78 is 4.771)."""
    low, high = 1.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        ahead = mx.expected_sqnr(integer, middle) > mx.expected_sqnr(fmt, middle)
        low, high = (middle, high) if ahead else (low, middle)
    assert abs(low - crest) < 0.01


def test_floats_of_ample_range_have_the_published_ratios():
    assert abs(mx.expected_sqnr("e4m3fn", 4) - 31.86) < 0.01
    assert abs(mx.expected_sqnr("e5m2", 4) - 25.84) < 0.01
    assert abs(mx.expected_sqnr("int8", 4) - (4.78 + 6.02 * 8 - 20 * np.log10(1.5 * 4))) < 0.02


@pytest.mark.parametrize(
    ("fmt", "element"), [("mxint8", "int8f6"), ("mxfp8_e4m3", "e4m3fn"), ("mxfp8_e5m2", "e5m2")]
)
def test_theory_is_near_what_is_measured_on_normal_data(fmt, element):
    """Blocks of 32 normal values have a crest factor of 2.3 or so; within 1 dB of rules that clip nothing."""
    crest = float(np.mean(np.abs(NORMAL[:64]).reshape(-1, 32).max(axis=1)))
    measured = lp.error_report(NORMAL[:64], fmt, rule="rceil").sqnr
    assert abs(mx.expected_sqnr(element, crest) - measured) < 1


# -- what is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mx.matmul(X[0], Y), "matmul takes matrices, and x has shape (512,); use reshape"),
        (
            lambda: mx.matmul(X, lp.encode(Y[:, 0], "mxfp4")),
            "matmul takes matrices, and y has shape (512,); use reshape",
        ),
        (
            lambda: mx.matmul(X, lp.encode(Y, "mxfp4", axis=1)),
            "blocks of y lie along axis 1, but K is axis 0: encode with axis=0",
        ),
        (
            lambda: mx.expected_sqnr("int8", 0.5),
            "crest=0.5 must be 1 or more, and overshoot=1.5 between 1 and 2",
        ),
        *(
            (
                lambda name=name: mx.expected_sqnr(name, 4.0),
                f"the SQNR is predicted for integers, fixed point and floats with subnormals, and {name!r} "
                f"is none of them; measure it with lowprec.error_report",
            )
            for name in ("nf4", "e8m0fnu")
        ),
        (
            lambda: mx.Vector().softmax(np.zeros((2, 0))),
            "softmax needs values along axis=1, and x has shape (2, 0)",
        ),
    ],
)
def test_messages_say_the_way_out(call, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole text is compared
        call()
    assert str(caught.value) == message


def test_an_overshoot_that_is_no_number_is_refused():
    with pytest.raises(TypeError, match="overshoot must be one real number, not 'a'"):
        mx.expected_sqnr("int8", 4.0, "a")
