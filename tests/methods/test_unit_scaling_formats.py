"""Unit Scaling in 8 bits: simulated formats, quantizers, exact signal to noise, and reports on tensors."""

import functools
import math

import numpy as np
import pytest

import lowprec as lp
from lowprec.methods import unit_scaling as us
from lowprec.methods.unit_scaling import noise
from lowprec.spec import catalog


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


# -- simulated formats -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bits", "values"),
    [((2, 1), [0, 0.25, 0.5, 0.75, 1, 1.5, 2, 3]), ((3, 0), [0, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8])],
)
def test_the_values_of_a_simulated_format(bits, values):
    """Repo, all of them, of either sign; and they are what becomes of other values."""
    fmt = us.simulated(*bits)
    every = lp.decode(np.arange(1 << fmt.width), fmt)
    assert sorted(every.tolist()) == sorted([*values, *(-each for each in values)])
    found = lp.quantize(np.linspace(-10, 10, 1000), fmt, saturation="finite")
    assert set(np.abs(found).tolist()) == set(values)


def test_limits_of_the_simulated_formats():
    """Repo for E2M1; the paper for FP8: one binade below OCP's formats, nothing special."""
    found = {
        fmt.name: (fmt.max_finite, fmt.min_normal, fmt.min_subnormal)
        for fmt in (us.simulated(2, 1), us.E4M3, us.E5M2)
    }
    assert found == {
        "e2m1_simulated": (3, 0.5, 0.25),
        "e4m3_simulated": (240, 2**-7, 2**-10),
        "e5m2_simulated": (57344, 2**-15, 2**-17),
    }
    assert not any(fmt.has_nan or fmt.infinity for fmt in (us.E4M3, us.E5M2))


@pytest.mark.parametrize(
    ("ours", "fnuz"), [(us.E4M3, catalog.E4M3FNUZ), (us.E5M2, catalog.E5M2FNUZ)], ids=str
)
def test_their_values_are_those_of_fnuz(ours, fnuz):
    """All codes, but that of -0."""
    codes = np.array([code for code in range(256) if code != 0x80], np.uint8)
    assert np.array_equal(lp.decode(codes, ours), lp.decode(codes, fnuz))
    assert str(lp.decode(0x80, ours)) == "-0.0"


def test_nearest_of_the_library():
    """Repo: -1.35 becomes -1.5. A tie goes toward zero, for half of a step less one is added."""
    fmt = us.simulated(2, 1)
    rounding = us.simulated_rounding(fmt, "nearest")
    assert lp.quantize([-1.35, 1.25, 1.75, 0.125, -1.2500001], fmt, rounding=rounding).tolist() == [
        -1.5,
        1,
        1.5,
        0,
        -1.5,
    ]


@pytest.mark.parametrize("bits", [0, 13])
def test_stochastic_rounding_of_the_library(bits):
    """Repo: P(-1.5) = 0.7 within 3 sigma of 10,000 values, with all bits and with 13."""
    fmt = us.simulated(2, 1)
    found = lp.quantize(np.full(10_000, -1.35), fmt, rounding=us.simulated_rounding(fmt, bits=bits), rng=0)
    assert set(found.tolist()) == {-1.5, -1.0}
    assert np.mean(found == -1.5) == pytest.approx(0.7, abs=0.01375)


@pytest.mark.parametrize("mode", ["nearest", 0, 1, 13, 19])
def test_roundings_are_the_librarys_bit_for_bit(mode):
    """Its own steps in binary32, on normal results: add an offset to the bits, and mask."""
    fmt, cut = us.E4M3, 20
    values = np.concatenate([normal(20_000) * 10, np.arange(8, 17) / 8 + 1 / 16]).astype(np.float32)
    values = values[np.abs(values) > fmt.min_normal]
    bits = 0 if mode == "nearest" else mode
    drawn = np.random.default_rng(1).integers(0, 1 << (bits or cut), values.size, dtype=np.uint32)
    if mode == "nearest":
        offset, rounding, random = np.uint32((1 << cut) - 1 >> 1), us.simulated_rounding(fmt, "nearest"), None
    else:
        spare = cut - (bits or cut)
        offset = (drawn << np.uint32(spare)) + np.uint32(1 << spare >> 1)
        rounding, random = us.simulated_rounding(fmt, bits=bits), drawn
    limited = np.clip(values, -fmt.max_finite, fmt.max_finite).view(np.uint32)
    want = ((limited + offset) & np.uint32(0xFFFFFFFF << cut & 0xFFFFFFFF)).view(np.float32)
    got = lp.quantize(values, fmt, rounding=rounding, saturation="finite", random=random)
    assert np.array_equal(got, want)


# -- quantizers --------------------------------------------------------------------------------------


def rounded(values, fmt, **settings):
    return lp.quantize(values, fmt, saturation="finite", **settings)


@pytest.mark.parametrize(
    ("operation", "shapes"),
    [
        (us.matmul, [(3, 4), (4, 5)]),
        (us.linear, [(3, 4), (4, 5), (5,)]),
        (us.readout, [(3, 4), (4, 5), (5,)]),
        (us.conv1d, [(2, 3, 8), (4, 3, 3), (4,)]),
        (us.conv2d, [(2, 3, 8, 5), (4, 3, 3, 2), (4,)]),
        (us.multiply, [(3, 4), (3, 4)]),
        (us.attention, [(2, 4, 3), (2, 4, 3), (2, 4, 3)]),
        (us.unscaled(us.linear), [(3, 4), (4, 5)]),
    ],
)
def test_quantizers_stand_before_both_passes(operation, shapes):
    """E4M3 on operands but biases, E5M2 on the gradient of y; the factors stay outside."""
    arrays = [normal(*shape, seed=index) * 40 for index, shape in enumerate(shapes)]
    count = 3 if operation is us.attention else 2
    y, vjp = us.quantized(operation)(*arrays)
    want, plain = operation(*(rounded(each, us.E4M3) for each in arrays[:count]), *arrays[count:])
    assert np.array_equal(y, want)
    grad = normal(*y.shape, seed=9) * 1e-4
    assert not np.array_equal(rounded(grad, us.E5M2), grad)
    for got, expected in zip(vjp(grad), plain(rounded(grad, us.E5M2)), strict=True):
        assert np.array_equal(got, expected)
    assert (vjp.alpha, vjp.beta) == (plain.alpha, plain.beta)


def test_quantizers_take_other_formats_modes_and_none():
    x, w = normal(3, 4), normal(4, 5)
    y, vjp = us.quantized(us.linear, forward="bfloat16", backward=None, rounding="toward_zero")(x, w)
    want, plain = us.linear(*(rounded(each, "bfloat16", rounding="toward_zero") for each in (x, w)))
    assert np.array_equal(y, want)
    assert np.array_equal(vjp(y)[0], plain(y)[0])


def test_settings_of_an_operation_may_be_bound_before_it_is_quantized():
    x, w = normal(3, 4), normal(4, 5)
    bound = us.quantized(us.unscaled(functools.partial(us.linear, constraint=None)))
    assert np.array_equal(bound(x, w)[0], us.quantized(us.unscaled(us.linear))(x, w)[0])


def test_stochastic_quantizers_draw_anew_at_each_call_and_alike_from_the_same_seed():
    x, w = normal(30, 40), normal(40, 50)
    make = lambda: us.quantized(us.linear, rounding=us.simulated_rounding("e4m3fn", bits=16), rng=5)  # noqa: E731
    first, second = make(), make()
    once, again = first(x, w), first(x, w)
    assert not np.array_equal(once[0], again[0])
    assert np.array_equal(once[0], second(x, w)[0])
    assert not np.array_equal(again[1](x @ w)[0], again[1](x @ w)[0])


def test_an_operation_of_ones_own_says_how_many_operands_are_quantized():
    y, _ = us.quantized(us.glu, operands=2)([1.03], [2.1])
    assert np.array_equal(y, us.glu([1.0], [2.0])[0])


# -- signal to noise, exactly ------------------------------------------------------------------------

EXPONENTS = [-16, -10, -6, 0, 8, 15]
FIGURE = {  # dB at these powers of two: the design's, to 0.01 dB
    "binary16": [58.96, 73.65, 73.65, 73.651, 73.65, 19.37],
    "bfloat16": [55.589] * 6,
    "e4m3fn": [0, 4.81, 28.30, 31.521, 16.21, 0.10],
    us.E4M3: [0, 10.79, 30.91, 31.521, 7.62, 0.05],
    "e5m2": [10.79, 25.54, 25.54, 25.543, 25.54, 15.99],
    us.E5M2: [16.81, 25.54, 25.54, 25.543, 25.54, 15.99],
}


@pytest.mark.parametrize("fmt", FIGURE, ids=str)
def test_the_signal_to_noise_of_normal_values_is_that_of_the_figure(fmt):
    assert us.snr_curve(fmt, np.exp2(EXPONENTS)).tolist() == pytest.approx(FIGURE[fmt], abs=0.0075)
    assert us.snr_curve(fmt, 1.0) == pytest.approx(FIGURE[fmt][3], abs=0.0005)


@pytest.mark.parametrize(("fmt", "want"), [("e3m2fn", 25.458), ("e2m3fn", 28.301), ("e2m1fn", 16.344)])
def test_the_signal_to_noise_of_mx_elements_at_1(fmt, want):
    assert us.snr_curve(fmt, 1.0) == pytest.approx(want, abs=0.0005)


@pytest.mark.parametrize(
    ("fmt", "exponent"), [("binary16", -24), ("e5m2", -16), (us.E4M3, -10), ("e3m2fn", -4)], ids=str
)
def test_where_sigma_is_the_subnormal_step_the_noise_is_that_of_a_uniform_error(fmt, exponent):
    """10 log10(12) in every format, but for what normal tails take from it (below 1e-5 dB)."""
    assert lp.format(fmt).min_subnormal == 2.0**exponent
    assert us.snr_curve(fmt, 2.0**exponent) == pytest.approx(10 * math.log10(12), abs=1e-5)


def test_a_bias_that_is_one_more_moves_the_low_end_by_an_octave():
    """E5M2 of OCP and of the simulation; at the high end they differ by infinity's binade alone."""
    low = np.exp2(np.arange(-24.0, 0.0, 0.5))
    assert us.snr_curve(us.E5M2, low / 2) == pytest.approx(us.snr_curve("e5m2", low), abs=1e-9)


@pytest.mark.parametrize(
    ("fmt", "exact", "design"),
    [
        ("binary16", 27.62, 27.5),
        ("e4m3fn", 13.24, 13.2),
        (us.E4M3, 13.34, 13.2),
        ("e5m2", 28.46, 28.4),
        (us.E5M2, 29.46, 29.4),
    ],
    ids=str,
)
def test_the_width_of_the_plateau(fmt, exact, design):
    """Binades within 3 dB of the best: 27.5, 13.1 to 13.3, 28.4 and 29.4 in the design, to 0.15."""
    low, high = us.plateau(fmt)
    curve = us.snr_curve(fmt, np.exp2(np.arange(np.log2(high) - 6, np.log2(high), 1 / 16)))
    assert us.snr_curve(fmt, [low, high]) == pytest.approx([curve.max() - 3] * 2, abs=0.005)
    assert np.log2(high / low) == pytest.approx(exact, abs=0.005)
    assert np.log2(high / low) == pytest.approx(design, abs=0.15)
    wider = us.plateau(fmt, drop=6)
    assert wider[0] < low < high < wider[1]


def closed_form(fmt, sigma):
    """The noise by distribution functions: for formats with intervals so wide that little cancels."""
    codes = lp.decode(np.arange(1 << fmt.width), fmt, dtype=np.float64)
    values = np.unique(codes[np.isfinite(codes)])
    borders = [-math.inf, *((values[:-1] + values[1:]) / 2), math.inf]
    noise = 0.0
    for value, low, high in zip(values / sigma, borders[:-1], borders[1:], strict=True):
        a, b = low / sigma, high / sigma
        density = [
            0.0 if math.isinf(each) else math.exp(-each * each / 2) / math.sqrt(2 * math.pi)
            for each in (a, b)
        ]
        moment = [
            0.0 if math.isinf(each) else each * weight for each, weight in zip((a, b), density, strict=True)
        ]
        share = (math.erfc(a / math.sqrt(2)) - math.erfc(b / math.sqrt(2))) / 2
        if b <= 0:  # the lower tail, where both of those are near 2
            share = (math.erfc(-b / math.sqrt(2)) - math.erfc(-a / math.sqrt(2))) / 2
        noise += (1 + value**2) * share - (moment[1] - moment[0]) + 2 * value * (density[1] - density[0])
    return -10 * math.log10(noise)


@pytest.mark.parametrize("fmt", ["e2m1fn", "e3m2fn", "e2m3fn", "e4m3fn", "e5m2", "int4", "int8", "int8f6"])
def test_integrals_by_nodes_are_those_by_distribution_functions(fmt):
    """The closed form cancels: what it loses is the tolerance. Two's complement is not symmetric."""
    fmt = lp.format(fmt)
    for sigma in np.exp2(np.arange(-3.0, 9.0)):
        assert us.snr_curve(fmt, sigma) == pytest.approx(closed_form(fmt, float(sigma)), abs=1e-7)


@pytest.mark.parametrize("sigma", [2.0**-9, 1.0, 100.0])
def test_a_million_samples_have_that_signal_to_noise(sigma):
    """Through `quantize`: what is rounded to nearest and saturates is what was integrated."""
    values = normal(1_000_000) * sigma
    found = us.snr(values, rounded(values, us.E4M3))
    assert found == pytest.approx(us.snr_curve(us.E4M3, sigma), abs=0.05)


def test_the_authors_script_clips_significands_where_they_must_carry():
    """Its 30.99 and 24.49 dB: what lies beyond the largest significand of a binade stays there."""
    for fmt, want in ((us.E4M3, 30.99), (us.E5M2, 24.49)):
        values, borders = noise._intervals(fmt)
        last = np.frexp(np.abs(values))[0] == 1 - 2.0 ** -(fmt.trailing_bits + 1)
        upper, lower = last & (values > 0), last & (values < 0)
        clipped = borders.copy()
        clipped[1:][upper] = np.append(values[1:], np.inf)[upper]
        clipped[:-1][lower] = np.append(-np.inf, values[:-1])[lower]
        assert noise._ratio(values, clipped, 1.0) == pytest.approx(want, abs=0.005)


def test_extreme_sigmas_lose_everything():
    assert us.snr_curve("e4m3fn", [1e-300, 2.0**-14]) == pytest.approx([0, 0], abs=1e-9)
    assert us.snr_curve("e4m3fn", 1e300) == pytest.approx(0, abs=1e-9)
    assert us.snr_curve("e4m3fn", np.ones((2, 3))).shape == (2, 3)
    assert isinstance(us.snr_curve("e4m3fn", 1), float)


# -- reports -----------------------------------------------------------------------------------------


def test_a_report_counts_what_a_format_does():
    """Of 9 finite values one overflows; of the 8 that are not zero, 2 are flushed and 3 become subnormal."""
    values = np.array([0.0, np.nan, 2.0**-10, -(2.0**-11), 2.0**-8, 3 * 2.0**-9, -(2.0**-7), 1.0, 500.0, 2.0])
    report = us.format_report(values, "e4m3fn")
    assert (report.overflowed, report.flushed, report.subnormal) == (1 / 9, 2 / 8, 3 / 8)
    assert str(us.format_report([1.0, 1000.0], us.E4M3)) == (
        "e4m3_simulated: 2.38 dB, 50.0% overflowed, 0.0% flushed, 0.0% subnormal"
    )
    assert us.format_report([1.0], "e4m3fn").snr == math.inf


def test_a_report_is_the_error_reports():
    values = normal(1000) / 100
    errors = lp.error_report(values, "e4m3fn", saturation="finite")
    report = us.format_report(values, "e4m3fn")
    assert (report.snr, report.overflowed, report.flushed) == (errors.sqnr, errors.clipped, errors.flushed)


def test_a_report_of_stochastic_rounding_is_of_one_conversion():
    """Values half a subnormal step wide: half become 0, others subnormal; a Generator is drawn from once."""
    values = np.full(1000, 2.0**-11)
    for rng in (3, np.random.default_rng(3)):
        report = us.format_report(values, us.E4M3, rounding="stochastic(8)", rng=rng)
        assert report.flushed + report.subnormal == 1
        assert report.flushed == pytest.approx(0.5, abs=0.05)


def test_signal_to_noise_of_results():
    assert us.snr([3.0, 4.0], [3.0, 4.5]) == pytest.approx(20)
    assert us.snr([3.0], [3.0]) == math.inf


# -- scales of tensors -------------------------------------------------------------------------------


def tracked():
    tracker = us.ScaleTracker()
    tracker.forward("x", [3.0, -1.0])
    _, vjp = tracker.follow("y", us.unscaled(us.linear)(np.array([[3.0, -1.0]]), np.array([[2.0], [0.0]])))
    dx, dw = vjp([[0.5]])
    tracker.backward("x", dx)
    tracker.backward("weight", dw)
    return tracker


def test_a_tracker_has_the_scales_of_both_passes():
    tracker = tracked()
    assert list(tracker) == ["x", "y", "weight"]
    assert len(tracker) == 3
    assert tracker["x"].forward == us.TensorStatistics(2.0, 1.0, 2.0, 3.0, 1.0, 2)
    assert tracker["x"].backward == us.TensorStatistics(0.5, 0.5, 0.5, 1.0, 0.0, 2)
    assert tracker["y"].forward.max_abs == 6.0
    assert tracker["y"].backward.max_abs == 0.5
    assert tracker["weight"].forward is None


def test_a_tracker_prints_a_table_and_annotated_names():
    assert str(tracked()) == (
        "tensor  pass  mean_abs  abs_mean  std  max_abs  min_abs  count\n"
        "x       ->           2         1    2        3        1      2\n"
        "x       <-         0.5       0.5  0.5        1        0      2\n"
        "y       ->           6         6    0        6        6      1\n"
        "y       <-         0.5       0.5    0      0.5      0.5      1\n"
        "weight  <-           1       0.5    1      1.5      0.5      2"
    )
    assert tracked().annotated() == "x       (-> 2, <- 0.5)\ny       (-> 0, <- 0)\nweight  (-> n/a, <- 1)"
    assert us.ScaleTracker().annotated() == ""


def test_a_tracker_leaves_out_what_has_the_scale_of_the_one_before():
    """Both passes must agree: to 2**-16 of the mean magnitude."""
    tracker = us.ScaleTracker()
    x = normal(4, 6)
    for name, forward, backward in (
        ("x", x, x), ("reshaped", x.reshape(24), -x), ("near", x * (1 + 2.0**-17), x),
        ("far", x * (1 + 2.0**-15), x), ("other gradient", x * (1 + 2.0**-15), 2 * x),
    ):  # fmt: skip
        tracker.forward(name, forward)
        tracker.backward(name, backward)
    tracker.forward("no gradient", x)
    assert list(tracker.pruned()) == ["x", "far", "other gradient", "no gradient"]
    assert list(tracker.pruned(rtol=2.0**-14)) == ["x", "other gradient", "no gradient"]
    assert len(tracker) == 6


def test_a_tensor_is_compared_with_the_one_before_though_that_was_left_out():
    """As along a chain of operations, each of which changes little."""
    tracker = us.ScaleTracker()
    for step in range(4):
        tracker.forward(f"step {step}", [1 + step * 2.0**-17])
    assert list(tracker.pruned()) == ["step 0"]


def test_the_mean_of_a_tensor_has_no_sign():
    assert us.TensorStatistics.of([-3.0, 1.0]) == us.TensorStatistics(2.0, 1.0, 2.0, 3.0, 1.0, 2)


def test_a_tracker_follows_a_residual_layer():
    x = normal(8, 4)
    tracker = us.ScaleTracker()
    y, vjp = tracker.follow("y", us.residual_apply(us.tanh, x))
    assert np.array_equal(vjp(x)[0], us.residual_apply(us.tanh, x)[1](x)[0])
    assert tracker["y"] == us.TensorScales(us.TensorStatistics.of(y), us.TensorStatistics.of(x))


def test_a_tensor_without_values_has_no_scale():
    assert us.TensorStatistics.of([]).count == 0
    assert math.isnan(us.TensorStatistics.of([]).std)


def test_infinite_noise_leaves_no_signal():
    assert us.snr([1.0, 2.0], [1.0, np.inf]) == -np.inf
