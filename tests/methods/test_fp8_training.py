"""Scales of FP8 training, and the convolution: against definitions, fractions and finite differences."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

import lowprec as lp
from lowprec.methods import fp8
from lowprec.oracle.convert import project
from lowprec.spec import catalog

RNG = np.random.default_rng(5)


def fractions(codes):
    """The exact values of scaled codes."""
    values = codes.values(np.float64)
    return np.vectorize(lambda value: Fraction(float(value)), otypes=[object])(values)


def rounded(exact):
    """To binary32, by the oracle."""
    code = [project(value, catalog.BINARY32) if value else 0 for value in exact.ravel()]
    return np.array(code, np.uint32).view(np.float32).reshape(exact.shape)


# -- scales -------------------------------------------------------------------------------------------


def test_current_scaling_is_encode():
    """By default and with formats of one's own; a margin keeps binades free."""
    x = RNG.standard_normal((3, 40)).astype(np.float32)
    for role, fmt in (("x", "e4m3fn"), ("w", "e4m3fn"), ("grad", "e5m2")):
        got, want = fp8.Recipe().start().encode(role, x), fp8.encode(x, fmt)
        assert got.scale == want.scale
        assert np.array_equal(got.codes, want.codes)
    free = fp8.Recipe(x="e5m2", margin=3).start().encode("x", x)
    assert free.format == lp.format("e5m2")
    assert free.scale == 8 * fp8.encode(x, "e5m2").scale


def test_delayed_scaling_by_its_definition():
    """1 at first; then of the largest magnitude among the last ones, this tensor left out."""
    history, margin = 3, 1
    sizes = [0.0, 2.0, 1.0, 64.0, 0.5, 0.25, 0.125, 0.0, 0.0, 0.0, 0.0, 7.0, 1.0]
    scaling = fp8.Recipe(scaling="delayed", history=history, margin=margin).start()
    before = Fraction(1)
    for step, size in enumerate(sizes):
        codes = scaling.encode("grad", [size, -size / 3])
        assert Fraction(float(codes.scale)) == before
        largest = max(sizes[max(0, step + 1 - history) : step + 1])
        if largest:  # the smallest float32 with which it is not clipped, doubled
            exact = Fraction(largest) / 57344
            least = np.float32(largest / 57344)
            least = least if Fraction(float(least)) >= exact else np.nextafter(least, np.float32(1))
            before = 2 * Fraction(float(least))
    assert scaling.scales["grad"] == before
    assert scaling.scales["x"] == scaling.scales["w"] == 1


def test_delayed_scaling_saturates_what_is_larger_than_before():
    scaling = fp8.Recipe(scaling="delayed", history=4).start()
    scaling.encode("x", [1.0])
    assert scaling.encode("x", [3.0, -0.5]).values().tolist() == [1.0, -0.5]
    assert scaling.encode("x", [3.0, -0.5]).values()[0] == 3.0


def test_no_scaling_is_a_scale_that_stays():
    """1, or a power of two."""
    scaling = fp8.Recipe(scaling="none", margin=-2).start()
    for values in ([1.0, 500.0], [1e-9, np.nan]):
        codes = scaling.encode("x", values)
        assert codes.scale == 0.25
        assert np.array_equal(codes.codes, lp.encode(np.float64(values) * 4, "e4m3fn", saturation="finite"))


def test_values_that_are_not_finite_take_no_part():
    """A tensor of NaNs alone counts as zeros, and leaves the scale as it was."""
    scaling = fp8.Recipe(scaling="delayed", history=1).start()
    scaling.encode("x", [np.nan, np.inf, 2.0])
    assert scaling.scales["x"] == fp8.encode([2.0]).scale
    scaling.encode("x", [np.nan, -np.inf])
    assert scaling.scales["x"] == fp8.encode([2.0]).scale


def test_layers_take_the_scaling_that_they_are_given():
    """Each role its own history; the second step uses the first one's."""
    x, w, grad = (RNG.standard_normal(shape) for shape in ((8, 16), (4, 16), (8, 4)))
    scaling = fp8.Recipe(scaling="delayed", history=16).start()
    for factor in (1.0, 4.0):
        scales = dict(scaling.scales)
        y, gradients = fp8.linear(factor * x, w, scaling=scaling)
        got = gradients(grad)
        own = [fp8.encode(a, scale=scales[role]) for role, a in (("x", factor * x), ("w", w))]
        want, by_hand = fp8.linear(*own)
        assert np.array_equal(y, want)
        coded = fp8.encode(grad, "e5m2", scale=scales["grad"])
        assert all(map(np.array_equal, got[:2], by_hand(coded)[:2]))
    assert scaling.scales["x"] == fp8.encode(4.0 * x).scale


def test_recipes_say_what_is_wrong():
    with pytest.raises(ValueError, match=r"history=0 of a recipe must be 1 or more"):
        fp8.Recipe(history=0)
    with pytest.raises(
        ValueError, match=r"scaling='late' of a recipe is unknown; use 'current', 'delayed' or"
    ):
        fp8.Recipe(scaling="late")
    with pytest.raises(ValueError, match=r"policy='clip' of a recipe is unknown; use one of sat, ovf, paper"):
        fp8.Recipe(policy="clip")
    with pytest.raises(TypeError):
        fp8.Recipe(history=1.5)
    with pytest.raises(ValueError, match="e4m4"):
        fp8.Recipe(grad="e4m4")


# -- convolution --------------------------------------------------------------------------------------

SHAPES = [
    # batch, in, height, width, out, rows, columns, stride, padding
    (2, 3, 5, 6, 4, 3, 3, 1, 1),
    (1, 2, 7, 4, 3, 3, 2, 2, 0),
    (2, 1, 6, 6, 2, 2, 2, 3, 2),
    (1, 2, 4, 5, 3, 1, 1, 1, 0),
    (1, 2, 5, 5, 2, 5, 5, 1, 0),
    (2, 2, 6, 5, 2, 3, 4, 2, 3),
    (2, 2, 6, 5, 2, 3, 2, (2, 1), (1, 0)),
    (1, 2, 5, 7, 3, 2, 3, (1, 3), (0, 2)),
]


def by_hand(x, w, grad, stride, padding):
    """The sums of the definition, product by product: y, and how each product's gradient is shared out."""
    (batch, channels, height, width), (out, _, rows, columns) = x.shape, w.shape
    down, right = stride if isinstance(stride, tuple) else (stride, stride)
    above, left = padding if isinstance(padding, tuple) else (padding, padding)
    high, wide = (height + 2 * above - rows) // down + 1, (width + 2 * left - columns) // right + 1
    y = np.full((batch, out, high, wide), Fraction(0), object)
    grad_x, grad_w = np.full(x.shape, Fraction(0), object), np.full(w.shape, Fraction(0), object)
    ranges = map(range, (batch, out, high, wide, channels, rows, columns))
    for b, o, i, j, c, r, s in itertools.product(*ranges):
        at, across = i * down + r - above, j * right + s - left
        if 0 <= at < height and 0 <= across < width:
            y[b, o, i, j] += x[b, c, at, across] * w[o, c, r, s]
            grad_x[b, c, at, across] += grad[b, o, i, j] * w[o, c, r, s]
            grad_w[o, c, r, s] += grad[b, o, i, j] * x[b, c, at, across]
    return y, grad_x, grad_w


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_convolution_is_its_definition_in_fractions(shape):
    """Exact sums rounded once, forward and backward: every number, from codes and from arrays."""
    batch, channels, height, width, out, rows, columns, stride, padding = shape
    x, w = (
        RNG.standard_normal((batch, channels, height, width)),
        RNG.standard_normal((out, channels, rows, columns)),
    )
    y, gradients = fp8.conv2d(x, w, stride=stride, padding=padding, accumulation="exact")
    grad = RNG.standard_normal(y.shape)
    coded = [fp8.encode(x), fp8.encode(w), fp8.encode(grad, "e5m2")]
    wants = by_hand(*map(fractions, coded), stride, padding)
    grad_x, grad_w, grad_bias = gradients(grad)
    scales = [float(each.scale) for each in coded]
    for got, want, pair in zip((y, grad_x, grad_w), wants, ((0, 1), (2, 1), (2, 0)), strict=True):
        scale = Fraction(scales[pair[0]]) * Fraction(scales[pair[1]])
        sums = rounded(np.vectorize(lambda value, s=scale: value / s, otypes=[object])(want))
        scaled = np.vectorize(lambda value, s=scale: Fraction(float(value)) * s, otypes=[object])(sums)
        assert np.array_equal(got, rounded(scaled))
    exact = np.vectorize(lambda value: Fraction(float(value)), otypes=[object])(grad)
    assert np.array_equal(grad_bias, rounded(exact.sum(axis=(0, 2, 3))))
    again, from_codes = fp8.conv2d(*coded[:2], stride=stride, padding=padding, accumulation="exact")
    assert np.array_equal(again, y)
    assert all(map(np.array_equal, from_codes(coded[2])[:2], (grad_x, grad_w)))


def test_gradients_of_the_convolution_by_finite_differences():
    """With small integers, whose differences are exact."""

    def codes(shape, fmt="e4m3fn"):
        return fp8.encode(RNG.integers(-4, 5, shape), fmt, scale=1.0)

    x, w = codes((2, 2, 5, 4)), codes((3, 2, 3, 2))
    bias = np.array([1.0, -2.0, 3.0])
    y, gradients = fp8.conv2d(x, w, bias, stride=2, padding=1)
    grad = codes(y.shape, "e5m2")
    found = gradients(grad)
    for which, made in enumerate(found):
        operand = (x.values(), w.values(), bias)[which]
        for place in np.ndindex(operand.shape):
            ends = []
            for step in (-1, 1):
                moved = operand.copy()
                moved[place] += step
                parts = [x, w, bias]
                parts[which] = moved if which == 2 else fp8.encode(moved, scale=1.0)
                ends.append((fp8.conv2d(*parts, stride=2, padding=1)[0] * grad.values()).sum())
            assert (ends[1] - ends[0]) / 2 == made[place]


def test_a_convolution_of_one_pixel_is_the_linear_layer():
    """Bit for bit, in a tensor core's sums too; with a scale for each output channel forward."""
    x, w = RNG.standard_normal((6, 64)), RNG.standard_normal((8, 64))
    for how in ("fp32_fma", "hopper_wgmma_e4m3fn_binary32"):
        y, gradients = fp8.conv2d(x[:, :, None, None], w[:, :, None, None], accumulation=how)
        want, own = fp8.linear(x, w, accumulation=how)
        assert np.array_equal(y[:, :, 0, 0], want)
        if how == "fp32_fma":
            grad = RNG.standard_normal((6, 8))
            for one, other in zip(gradients(grad[:, :, None, None]), own(grad), strict=True):
                assert np.array_equal(one.reshape(other.shape), other)
    rows = fp8.encode(w, axis=0)
    channels = fp8.encode(w[:, :, None, None], axis=0)
    y, gradients = fp8.conv2d(x[:, :, None, None], channels)
    assert np.array_equal(y[:, :, 0, 0], fp8.linear(x, rows)[0])
    with pytest.raises(ValueError, match="w has 8 scales, one for each output channel"):
        gradients(np.ones((6, 8, 1, 1)))


def test_edges_are_zeros_in_formats_whose_first_code_is_another():
    """Of nf4 it is -1: y and the gradients are sums of whole numbers."""
    shapes = (1, 1, 3, 4), (1, 1, 2, 2), (1, 1, 2, 3)
    x, w, grad = (fp8.encode(RNG.integers(-1, 2, shape), "nf4", scale=1.0) for shape in shapes)
    y, gradients = fp8.conv2d(x, w, stride=2, padding=1)
    for got, want in zip(
        (y, *gradients(grad)[:2]), by_hand(*map(fractions, (x, w, grad)), 2, 1), strict=True
    ):
        assert got.tolist() == want.tolist()


def test_convolutions_say_what_is_wrong():
    x, w = np.ones((1, 2, 4, 4)), np.ones((3, 2, 3, 3))
    cases = {
        r"not \(1, 2, 4, 4\) and \(3, 1, 3, 3\)": lambda: fp8.conv2d(x, w[:, :1]),
        r"not \(2, 4, 4\) and": lambda: fp8.conv2d(x[0], w),
        "stride=0 of conv2d must be 1 or more": lambda: fp8.conv2d(x, w, stride=0),
        "and padding=-1 0 or more": lambda: fp8.conv2d(x, w, padding=-1),
        r"stride=\(1, 0\) of conv2d must be 1 or more": lambda: fp8.conv2d(x, w, stride=(1, 0)),
        r"padding='same' 0 or more": lambda: fp8.conv2d(x, w, padding="same"),
        r"padding=\(1, 1, 1\) 0 or more": lambda: fp8.conv2d(x, w, padding=(1, 1, 1)),
        "a window of 3 x 3 does not fit into 4 x 2 pixels with padding=0": lambda: fp8.conv2d(x[..., :2], w),
        "x has 2 scales": lambda: fp8.conv2d(fp8.encode(x * [[[[1]], [[2]]]], axis=1), w),
        r"w has scales of shape \(1, 2, 1, 1\)": lambda: fp8.conv2d(x, fp8.encode(w, axis=1)),
        "'e8m0fnu' has no zero": lambda: fp8.conv2d(fp8.encode(x, "e8m0fnu"), w, padding=1),
    }
    for message, call in cases.items():
        with pytest.raises(ValueError, match=message):
            call()
