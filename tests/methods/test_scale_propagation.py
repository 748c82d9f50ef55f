"""ScaledArrays in ordinary NumPy code: what they are, what they refuse, and scales handled by hand."""

import copy
import functools
import itertools
import operator
import pickle
import threading
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import lowprec as lp
from lowprec.methods import scale_propagation as sp
from lowprec.methods.scale_propagation import ScaledArray
from lowprec.methods.scale_propagation.pow2 import pow2_norm, pow2_sqrt
from lowprec.spec.projection import Projection
from tests.support import most_apart, refusal_test

RNG = np.random.default_rng(0)


@functools.cache
def sample():
    return ScaledArray(np.float32([[1.5, -2.0], [0.25, 4.0]]), 4.0)


# -- the array --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "name", "dtype"),
    [
        (np.float16([1.5]), "binary16", np.float16),
        (np.float32([1.5]), "binary32", np.float32),
        (np.array([1.5], ml_dtypes.bfloat16), "bfloat16", ml_dtypes.bfloat16),
        (np.array([1.5], ml_dtypes.float8_e4m3fn), "e4m3fn", np.float32),
        (np.array([1.5], ml_dtypes.float4_e2m1fn), "e2m1fn", np.float32),
        ([1.5], "binary32", np.float32),
        (np.array([1.5]), "binary32", np.float32),
    ],
    ids=str,
)
def test_data_say_their_format_by_their_type(data, name, dtype):
    """Held in float32, or in the format's own type of 16 bits."""
    x = ScaledArray(data, 2.0)
    assert (x.format.name, x.dtype, x.scale_format.name) == (name, dtype, "binary32")
    assert x.data.tolist() == [1.5]
    assert x.to_array().tolist() == [3]
    assert x.codes.tolist() == [int(lp.encode(1.5, name))]


def test_values_are_exact_in_float64_and_rounded_once_elsewhere():
    """65504 * 4 is no float16."""
    x = ScaledArray(np.float16([65504, 1.001]), 4.0)
    assert x.to_array().tolist() == [262016, float(np.float16(1.001)) * 4]
    assert x.to_array(np.float16).tolist()[0] == np.inf
    assert x.to_array(np.float32).dtype == np.float32
    assert sp.stop_scaling(x).dtype == np.float16
    assert sp.stop_scaling(x, np.float64).tolist() == x.to_array().tolist()


@pytest.mark.parametrize(
    ("values", "want"),
    [(np.array([1 + 2**-8 + 2**-40]), 1.0078125), (np.array([16973823]), 16908288), (np.array([True]), 1)],
)
def test_plain_values_are_rounded_once_too(values, want):
    """Not by way of float32, nor in the way of NumPy's casts."""
    assert sp.stop_scaling(values, "bfloat16").tolist() == [want]
    assert sp.stop_scaling(values, "bfloat16").dtype == ml_dtypes.bfloat16
    assert sp.stop_scaling(values, float).tolist() == values.tolist()
    assert sp.stop_scaling(values).dtype == values.dtype


def test_astype_changes_data_alone():
    """The format, by the configuration or by options."""
    x = ScaledArray(np.float32([1.1, 500.0]), 4.0)
    assert x.astype("e4m3fn", saturation="finite").to_array().tolist() == [4.5, 1792]
    assert np.isnan(x.astype("e4m3fn").data[1])
    with sp.config(projection=Projection(saturation="finite", rounding="toward_zero")):
        assert x.astype("e4m3fn").data.tolist() == [1, 448]
    assert x.astype(np.float16).dtype == np.float16
    assert x.astype("e2m1fn", saturation="finite").scale == 4


def test_it_is_shown_with_scale_and_format():
    """In one line, or as many as the data have."""
    assert (
        repr(ScaledArray(np.float16([1.5, -2]), 4.0))
        == "ScaledArray([ 1.5, -2. ], scale=4.0, format='binary16')"
    )
    assert (
        repr(ScaledArray(np.array(3.0, ml_dtypes.bfloat16)))
        == "ScaledArray(3., scale=1.0, format='bfloat16')"
    )


def test_it_can_be_copied_and_pickled():
    """With all four parts."""
    x = ScaledArray(np.float32([1, 2]), np.float16(4.0), "e4m3fn")
    for other in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), x.copy()):
        assert (other.data.tolist(), other.scale, other.format, other.scale_format) == (
            [1, 2],
            4,
            x.format,
            x.scale_format,
        )
        assert other.data is not x.data


def test_augmented_assignment_makes_a_new_one():
    """As of Python's numbers and JAX's arrays."""
    x = before = ScaledArray(np.float32([1, 2]), 4.0)
    x -= 4
    x *= 2
    assert x.to_array().tolist() == [0, 8]
    assert before.to_array().tolist() == [4, 8]


def test_single_numbers_become_pythons():
    """As `float` and truth ask for them; numbers of NumPy's types may stand on the left."""
    assert (
        (np.float64(2.0) * sample()[0, 0]).to_array() == (np.float32(2.0) * sample()[0, 0]).to_array() == 12
    )
    assert (np.float64(2.0) - sample()[0, 0]).format == sample().format
    assert np.float64(2.0) < sample()[0, 0]
    assert float(sample()[0, 0]) == 6
    assert bool(sample()[0, 0] > 5)
    assert not ScaledArray(np.float32(1.0), 0.0)


# -- ordinary NumPy code ----------------------------------------------------------------------------


def forward(x, weights, biases):
    """A perceptron, softmax and loss, as anyone would write it."""
    for w, b in zip(weights[:-1], biases[:-1], strict=True):
        x = np.maximum(x @ w + b, 0)
    logits = x @ weights[-1] + biases[-1]
    logits = logits - np.max(logits, axis=1, keepdims=True)
    exponentials = np.exp(logits)
    shares = exponentials / np.sum(exponentials, axis=1, keepdims=True)
    top = np.concatenate([shares[:, :1], 1 - shares[:, 1:2]], axis=1)
    features = np.where(top > 0.5, top, -top)[::2]
    return (
        shares,
        features,
        np.mean(-np.log(shares[np.arange(len(shares)), 0])),
        np.sqrt(np.var(x, axis=0) + 1e-5),
    )


@pytest.mark.parametrize(
    ("fmt", "tolerance"),
    most_apart([("binary32", 1e-6), ("binary16", 4e-3), ("bfloat16", 4e-2)], [("binary16", 4e-3)]),
)
@pytest.mark.parametrize("exponent", [0, -20, 30])
def test_a_perceptron_runs_unchanged_and_agrees_with_float64(fmt, tolerance, exponent):
    """Within 16 half ulps of 1 (2**-24, 2**-11, 2**-8), at scales that float16 does not have.

    The inputs are in the format, so what is seen is the error of the rules.
    """
    rng = np.random.default_rng(3)
    sizes, scale = (32, 48, 48, 4), 2.0**exponent
    values = (
        rng.standard_normal((64, 32)),
        [rng.standard_normal(s) / s[0] ** 0.5 for s in itertools.pairwise(sizes)],
    )
    biases = [0.1 * rng.standard_normal(n) for n in sizes[1:]]
    x = sp.as_scaled(values[0] * scale, scale, fmt)
    weights = [
        sp.as_scaled(w / scale if not i else w, 2.0**-exponent if not i else 0.25, fmt)
        for i, w in enumerate(values[1])
    ]
    biases = [sp.as_scaled(b, 0.125, fmt) for b in biases]
    want = forward(x.to_array(), [w.to_array() for w in weights], [b.to_array() for b in biases])
    for got, exact in zip(forward(x, weights, biases), want, strict=True):
        assert got.format.name == fmt
        assert got.shape == exact.shape
        assert np.abs(got.to_array() - exact).max() <= tolerance * np.abs(exact).max()
    if fmt == "binary16" and exponent:
        with np.errstate(all="ignore"):
            plain = forward(*(x.to_array().astype(np.float16),),
                            [w.to_array().astype(np.float16) for w in weights],
                            [b.to_array().astype(np.float16) for b in biases])  # fmt: skip
        assert not np.abs(plain[0] - want[0]).max() < 0.1  # what float16 makes of it by itself


def test_at_scale_1_operations_are_those_of_numpy():
    """Bit for bit, of float16 and float32, where the scale of the result is 1 too."""
    for dtype in (np.float16, np.float32):
        x, y = RNG.standard_normal((2, 200)).astype(dtype)
        a, b = ScaledArray(x), ScaledArray(y)
        for function in (operator.add, operator.sub, operator.mul, operator.truediv, np.maximum, np.minimum):
            got, want = function(a, b), function(x, y)
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got.to_array(dtype), want)
        np.testing.assert_array_equal(np.where(a > b, a, -b).data, np.where(x > y, x, -y))
        np.testing.assert_array_equal((a * 0.1).to_array(dtype), x * 0.1)
        np.testing.assert_array_equal(
            np.clip(a, -0.5, 0.5).to_array(dtype), np.clip(x, dtype(-0.5), dtype(0.5))
        )


def test_scales_do_not_hang_on_data():
    """Of the forward pass above, with other data of the same scales: the same scales."""
    found = set()
    for _ in range(3):
        x, w = (
            ScaledArray(RNG.standard_normal((4, 5)).astype(np.float32), 8.0),
            ScaledArray(np.ones((5, 3), np.float32), 0.5),
        )
        results = forward(
            x,
            [w, ScaledArray(RNG.random((3, 2)).astype(np.float32), 4.0)],
            [0.5, ScaledArray(np.float32([1, 2]))],
        )
        found.add(tuple(float(result.scale) for result in results))
    assert len(found) == 1


# -- what it refuses --------------------------------------------------------------------------------

test_what_cannot_be_is_refused_with_the_way_out = refusal_test(
    globals(),
    """
np.median(sample())
    TypeError: numpy.median has no rule for ScaledArrays: register_scaled_op gives it one;
    stop_scaling(x) gives a plain array; x.data and x.scale are the parts of x
np.linalg.det(sample())
    TypeError: numpy.linalg.det has no rule for ScaledArr...
np.einsum("ii->i", sample())
    ValueError: numpy.einsum of ScaledArrays takes subscripts with '->', a letter for each axis and none
    twice in one operand, such as 'bij,bjk->bik', not 'ii->i' for 1 operands; use numpy.diagonal and
    numpy.expand_dims for others
np.linalg.norm(sample().reshape(1, -1), 2)
    ValueError: numpy.linalg.norm of ScaledArrays takes ord=None or 'fro', and 1, 2 or inf of vectors,
    not ord=2 of 2 axes; use x.to_array() for norms of singular values
np.hypot(sample(), sample())
    TypeError: numpy.hypot has no rule for ScaledArrays: register_scaled_op...
np.add.reduce(sample())
    TypeError: numpy.add.reduce has no rule for ScaledArrays: use functions such as numpy.sum;
    stop_scaling(x)...
np.sum(sample(), dtype=np.float64)
    TypeError: numpy.sum of ScaledArrays takes x, axis, keepdims: got an unexpected keyword argument
    'dtype'
np.exp(sample(), out=np.ones((2, 2)))
    TypeError: numpy.exp of ScaledArrays takes given: got an unexpected keyword argument 'out';
    ScaledArrays do not change: write x = x + y
operator.iadd(np.ones((2, 2)), sample())
    TypeError: ...write x = x + y
sample() // 2
    TypeError: numpy.floor_divide has no rule for ScaledArrays: register_scaled_op gives it one;
    stop_scaling(x) gives a plain array; x.data and x.scale are the parts of x
2 // sample()
    TypeError: numpy.floor_divide has no rule for ScaledArrays...
sample() % 2
    TypeError: numpy.remainder has no rule for ScaledArrays...
2 % sample()
    TypeError: numpy.remainder has no rule for ScaledArrays...
divmod(sample(), 2)
    TypeError: numpy.divmod has no rule for ScaledArrays...
divmod(2, sample())
    TypeError: numpy.divmod has no rule for ScaledArrays...
np.clip(sample(), 0, max=1)
    ValueError: numpy.clip takes a_min and a_max, or min and max, not some of each
np.where(sample(), 1, sample())
    TypeError: ...compare it: numpy.where(x != 0, ...)
operator.setitem(sample(), 0, 1)
    TypeError: ScaledArrays do not change: put a new one together with numpy.where or numpy.concatenate
np.asarray(sample())
    TypeError: a ScaledArray does not become a plain array by itself, for that would drop its scale
    unseen: use x.to_array() for its values, stop_scaling(x), or x.data and x.scale
np.array([sample(), sample()])
    TypeError: ...does not become a plain array by itself...
lp.encode(sample(), "e4m3fn")
    TypeError: ...a ScaledArray does not become a plain array...
sample().cumsum()
    AttributeError: a ScaledArray has no 'cumsum': use a function such as numpy.sum, x.data.cumsum, or
    x.to_array().cumsum
sample().nonsense
    AttributeError: a ScaledArray has no 'nonsense'
np.pad(sample(), 1, constant_values=1)
    ValueError: numpy.pad of ScaledArrays takes mode 'constant' with zeros, 'edge', 'reflect',
    'symmetric', 'wrap', not mode='constant' with {'constant_values': 1}...
np.dot(sample()[None], sample())
    ValueError: numpy.dot of ScaledArrays takes at most two axes, not 3 and 2; use x @ y
np.convolve(sample(), sample())
    ValueError: ...two arrays of one axis, not of shapes (2, 2) and (2, 2)...
ScaledArray(np.float32([1.0, 1.1]), 1.0, "e4m3fn")
    ValueError: data have values that 'e4m3fn' does not have: 1 of 2, the first at index (1,):
    1.100000023841858. as_scaled(values, scale, 'e4m3fn') rounds them
ScaledArray(np.array([0.1]))
    ValueError: data have values that 'binary32' does not have...
ScaledArray("abc")
    TypeError: data must be real numbers of at most 64 bits, not...
ScaledArray(np.float32([1]), -2.0)
    ValueError: scale=-2.0 is negative; scales are 0 or more, and the sign is the data's
ScaledArray(np.float32([1]), 3.0, scale_format="e8m0fnu")
    ValueError: scale=3.0 is no value of 'e8m0fnu'; round it first, for instance with pow2_round, or
    give scale_format=
sp.as_scaled(np.float32([1, 2]), 0.1)
    ValueError: scale=0.1 is no value of 'binary32'; round it first, for instance with pow2_round, or
    give scale_format=
ScaledArray(np.float32([1]), 1e-300)
    ValueError: scale=1e-300 is no value of 'binary32'...
sp.set_scaling(sample(), 1e300)
    ValueError: scale=1e+300 is no value of 'binary32'...
sp.set_scaling(sample(), np.inf)
    ValueError: scale=inf is not finite: values over it, times it again, would be NaN. Give a finite
    scale; ScaledArray(data, scale) takes data that are meant at such a one
sp.set_scaling(sample(), np.nan)
    ValueError: scale=nan is not finite: values...
sp.as_scaled(np.float32([1, 2]), np.float32(np.inf))
    ValueError: scale=inf is not finite: values over it...
sp.as_scaled(1.0, np.nan)
    ValueError: scale=nan is not finite...
sp.rebalance(sample(), np.inf)
    ValueError: factor=inf must be a finite number, 0 or more; set_scaling(x, scale) gives the scale
    itself
sp.rebalance(sample(), np.nan)
    ValueError: factor=nan must be a finite number...
sp.rebalance(sample(), -2.0)
    ValueError: factor=-2.0 must be a finite number, 0 or more...
ScaledArray(np.float32([1, 2]), np.float32([1, 2]))
    TypeError: scale must be a single number, not array([1., 2.], dtype=float32); for scales of channels
    or blocks see lowprec.scale_for and block formats
sample().astype("tf32") + ScaledArray(np.ones(2), 1.0, lp.Format(name="big", exponent_bits=9,
        trailing_bits=3, bias=255))
    ValueError: no format up to 'binary32' has all values of 'tf32' and 'big'; convert one first, with
    x.astype(...)
sample().to_array("int8")
    TypeError: values are given as float16, bfloat16, float32 or float64, not int8
sample().to_array("float8_e4m3fn")
    TypeError: values are given as float16, bfloat16, float32 or float64, not float8_e4m3fn
sp.stop_scaling(sample(), "int8")
    TypeError: values are given as float16, bfloat16, float32 or float64, not int8
sp.stop_scaling([1.5], np.complex64)
    TypeError: values are given as float16, bfloat16, float32 or float64, not complex64
sp.stop_scaling([1.5], "foo")
    TypeError: dtype='foo' is no type of NumPy; values are given as float16, bfloat16, float32 or float64
sp.dynamic_rescale(sample(), "l3")
    ValueError: norm='l3' is unknown; use one of max, l1, l2
sp.pow2_round(1.5, "away")
    ValueError: mode='away' of rounding to powers of two is unknown; use one of down, up, nearest,
    stochastic, none
sp.pow2_round(1.5, "stochastic")
    ValueError: scales are rounded stochastically, which needs random integers: give rng=, or
    config(rng=...)
sp.config(pow2="up").__enter__()
    TypeError: a configuration has no 'pow2'; it has scale_rounding, scale_format, projection, dots,
    sums, rng
sp.Config(scale_rounding="away")
    ValueError: scale_rounding='away' is unknown; use one of down, up, nearest, stochastic, none
sp.Config(scale_format="int8")
    ValueError: scale_format='int8' has no exponents, and scales are powers of two; use 'binary32',
    'e8m0fnu' or another float format
sp.Config(projection="finite")
    TypeError: projection must be a Projection, not 'finite'
sp.Config(dots="fp32")
    ValueError: unknown accumulation 'fp32'...
""",
)


# -- rules of one's own -----------------------------------------------------------------------------


def test_a_rule_may_be_registered_once():
    """And then answers; a second one is an error that names both."""
    assert not sp.has_rule(np.heaviside)

    @sp.register_scaled_op(np.heaviside)
    def heaviside(x, y):
        return np.where(x > 0, np.ones_like(x), np.where(x < 0, np.zeros_like(x), y))

    assert np.heaviside(sample(), 0.5).to_array().tolist() == [[1, 0], [1, 1]]
    with pytest.raises(
        ValueError, match=r"numpy\.heaviside has a rule for ScaledArrays: .*heaviside\. Register rules"
    ):
        sp.register_scaled_op(np.heaviside)(heaviside)
    with pytest.raises(ValueError, match=r"numpy\.add has a rule for ScaledArrays"):
        sp.register_scaled_op(np.nextafter, np.add)(heaviside)
    assert not sp.has_rule(np.nextafter)


def test_a_rule_that_is_not_told_its_function_is_refused():
    """Without its argument the decorator would take the rule for the function."""

    def rule(x):
        return x

    wanted = (
        r"register_scaled_op takes the functions that a rule is for, of NumPy or made by custom_scale, "
        r"not {}: write @register_scaled_op\(numpy\.median\) above the rule"
    )
    for call, given in (
        (lambda: sp.register_scaled_op(rule), r".*\.rule"),
        (lambda: sp.register_scaled_op(np.median, rule), r".*\.rule"),
        (lambda: sp.register_scaled_op(), "none"),
        (lambda: sp.register_scaled_op("cumsum"), "'cumsum'"),
    ):
        with pytest.raises(TypeError, match=wanted.format(given)):
            call()
    assert not sp.has_rule(rule)
    assert not sp.has_rule(np.median)


def test_functions_of_ones_own_get_scales_by_rules():
    """Plain arrays go to the function, ScaledArrays to the rule, and without one to an error."""

    @sp.custom_scale
    def cube(x, factor=1):
        """Three times x."""
        return x * x * x * factor

    assert cube(np.float32([2])).tolist() == [8]
    with pytest.raises(
        TypeError, match=r"cube has no rule for ScaledArrays: register_scaled_op gives it one"
    ):
        cube(sample())

    @sp.register_scaled_op(cube)
    def scaled_cube(x, factor=1):
        return ScaledArray(x.data**3 * factor, x.scale**3)

    assert cube(ScaledArray(np.float32([2]), 4.0), factor=2) == 1024
    assert cube.__doc__ == "Three times x."
    with pytest.raises(
        TypeError, match=r"cube of ScaledArrays takes x, factor: got an unexpected keyword argument 'z'"
    ):
        cube(sample(), z=1)


# -- configuration ----------------------------------------------------------------------------------


def test_the_configuration_holds_within_and_in_this_thread():
    """Nested, and restored by an exception too."""
    seen = []
    with sp.config(scale_rounding="up"), sp.config(sums="fp32_fma"):
        assert (sp.current().scale_rounding, str(sp.current().sums)) == ("up", "fp32_fma")
        thread = threading.Thread(target=lambda: seen.append(sp.current().scale_rounding))
        thread.start()
        thread.join()
    assert (sp.current().scale_rounding, seen) == ("down", ["down"])

    @sp.scalify(scale_rounding="up")
    def fails():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert sp.current().scale_rounding == "down"


@pytest.mark.parametrize(
    ("mode", "scales"),
    [("down", [4, 4, 8]), ("up", [8, 4, 16]), ("nearest", [4, 4, 8])],
    ids=["down", "up", "nearest"],
)
def test_scales_are_rounded_as_the_configuration_says(mode, scales):
    """root(4**2 + 4**2) = 5.66; root(16) * 1; root(64 + 16) = 8.94."""
    x, y, z = (ScaledArray(np.ones(16, np.float32), scale) for scale in (4.0, 1.0, 8.0))
    with sp.config(scale_rounding=mode):
        assert [float(r.scale) for r in (x + x, np.sum(y), x + z)] == scales


def test_scales_may_stay_unrounded():
    """root(4**2 + 4**2), root(8), the root mean square: as binary32; the data are over them."""
    x, y = (ScaledArray(np.full(8, 1.5, np.float32), scale) for scale in (4.0, 1.0))
    with sp.config(scale_rounding="none"):
        for result, scale, value in (
            (x + x, np.sqrt(32.0), 12.0),
            (np.sum(y), np.sqrt(8.0), 12.0),
            (y @ y, np.sqrt(8.0), 18.0),
            (np.linalg.norm(y), np.sqrt(8.0), np.sqrt(18.0)),
            (sp.dynamic_rescale(x), 6.0, 6.0),
        ):
            assert result.scale == np.float32(scale)
            np.testing.assert_allclose(result.to_array(), value, rtol=2.0**-22)
        assert sp.pow2_round(np.float32([3.0, -0.3])).tolist() == np.float32([3.0, -0.3]).tolist()


def test_scales_may_be_rounded_stochastically():
    """root(2) goes up to 2 with probability 0.414, by the generator of the configuration."""
    x = ScaledArray(np.float32([1.5]), 1.0)

    def drawn(seed):
        with sp.config(scale_rounding="stochastic", rng=seed):
            return [float((x + x).scale) for _ in range(300)]

    scales = drawn(5)
    assert set(scales) == {1, 2}
    assert np.mean(scales) == pytest.approx(2**0.5, abs=0.1)  # three standard deviations
    assert drawn(5) == scales != drawn(6)
    rounded = sp.pow2_round(np.full(1 << 12, 1.25), "stochastic", rng=1)
    assert np.mean(rounded == 2) == pytest.approx(0.25, abs=0.03)


def test_data_may_be_rounded_stochastically():
    """Each operation draws anew."""
    x, y = (
        ScaledArray(np.ones(1000, np.float32), 1.0, "e4m3fn"),
        ScaledArray(np.float32([0.03125]), 1.0, "e4m3fn"),
    )
    with sp.config(projection=Projection(rounding=lp.stochastic(8)), rng=0):
        first, second = x + y, x + y
    assert (first.data != second.data).any()
    assert np.mean(first.data) == pytest.approx(1.03125, abs=0.006)


def test_sums_and_products_are_accumulated_as_the_configuration_says():
    """2**-12 is lost one by one in float16."""
    x = ScaledArray(np.float32([1] + [2.0**-12] * 4095), 1.0)
    sums = {}
    for how in ("exact", "fp16_sequential", "fp32_fma"):
        with sp.config(sums=how, dots=how):
            sums[how] = float(np.sum(x)), float(x @ np.ones(4096, np.float32))
    assert sums["exact"] == sums["fp32_fma"] == (1 + 4095 * 2.0**-12,) * 2
    assert sums["fp16_sequential"] == (1, 1)


def test_scalify_scales_plain_arrays_where_it_is_told_to():
    """set_scaling alone; with plain arrays and without it, a function is what it was."""

    def loss(x, w):
        return np.mean(np.square(x @ sp.set_scaling(w, 0.5)))

    x, w = RNG.standard_normal((3, 4)).astype(np.float32), RNG.standard_normal((4, 2)).astype(np.float32)
    assert loss(x, w) == np.mean(np.square(x @ w))
    assert isinstance(sp.scalify(loss)(x, w), ScaledArray)
    assert sp.scalify(scale_rounding="up")(lambda: sp.current().scale_rounding)() == "up"
    assert sp.current().scale_rounding == "down"
    plain = sp.scalify(forward)(x, [w], [0.5])
    for got, want in zip(plain, forward(x, [w], [0.5]), strict=True):
        np.testing.assert_array_equal(got, want)
    assert sp.scalify(forward).__name__ == "forward"


# -- scales by hand ---------------------------------------------------------------------------------


def test_set_scaling_keeps_values():
    """Of ScaledArrays, with numbers and with ScaledArrays of one number; 0 says that all is zero."""
    for scale in (16.0, np.float16(0.25), ScaledArray(np.float32(1.0), 8.0), 3.0, 1):
        result = sp.set_scaling(sample(), scale)
        assert float(result.scale) == float(scale)
        np.testing.assert_allclose(result.to_array(), sample().to_array(), rtol=1e-7)
    for x in (sample(), ScaledArray(np.float32([[1, 2]]), 0.0)):
        nothing = sp.set_scaling(x, 0)
        assert nothing.scale == 0
        assert not nothing.data.any()
    assert sp.set_scaling(ScaledArray(np.float32([1, 2]), 0.0), 4.0).to_array().tolist() == [0, 0]
    assert sp.set_scaling(sample(), 16.0).scale_format == sample().scale_format


def test_the_quotient_of_scales_that_are_no_powers_of_two_is_rounded_to_24_bits():
    """So that data times it are exact in float64, and rounded once."""
    data = RNG.standard_normal(1000).astype(np.float32)
    result = sp.set_scaling(ScaledArray(data), 3.0)
    np.testing.assert_array_equal(
        result.data, (data * np.float64(np.float32(1) / np.float32(3))).astype(np.float32)
    )


def test_on_plain_arrays_nothing_happens():
    """The same object, or the same values and a scale of 1."""
    x = np.float16([1, 2])
    assert sp.set_scaling(x, 4.0) is sp.rebalance(x, 4.0) is sp.dynamic_rescale(x) is x
    data, scale = sp.get_data_scale(x)
    assert data is x
    assert scale == 1
    assert sp.stop_scaling(x) is x
    assert sp.stop_scaling(x, np.float32).dtype == np.float32
    with sp.config(scale_format="binary16"):
        assert sp.get_data_scale(x)[1].dtype == np.float16


def test_rebalance_multiplies_the_scale():
    """And divides the data."""
    result = sp.rebalance(sample(), 0.5)
    assert result.scale == 2
    np.testing.assert_array_equal(result.data, 2 * sample().data)
    data, scale = sp.get_data_scale(result)
    assert data is result.data
    assert scale is result.scale
    assert sp.rebalance(sample(), 1e308).scale == 2.0**127
    x, factor = ScaledArray(np.float32([1]), 1 + 2.0**-23), 1.067182115652309
    above = Fraction(float(sp.rebalance(x, factor).scale)) - Fraction(factor) * Fraction(float(x.scale))
    assert abs(above) < Fraction(1, 2**24)  # float64 has a tie here
    for end in (np.inf, np.nan):  # no factor changes these
        x = ScaledArray(np.float32([1, -2]), end)
        np.testing.assert_array_equal(sp.rebalance(x, 4.0).to_array(), x.to_array())


@pytest.mark.parametrize("norm", ["max", "l1", "l2"])
def test_dynamic_rescale_brings_its_statistic_to_1(norm):
    """To between 1 and 2, rounded down; also larger than the data hold; empty or not finite ones stay."""
    statistic = {
        "max": lambda d: abs(d).max(),
        "l1": lambda d: abs(d).mean(),
        "l2": lambda d: np.sqrt(np.square(d).mean()),
    }[norm]
    for exponent in (-10, -3, 0, 5, 10):
        x = ScaledArray((RNG.standard_normal(1000) * 2.0**exponent).astype(np.float16), 0.25)
        result = sp.dynamic_rescale(x, norm)
        assert 1 <= statistic(result.data.astype(float)) < 2
        np.testing.assert_allclose(result.to_array(), x.to_array(), atol=2.0**-25 * float(result.scale))
    large = ScaledArray(np.full(3, 60000, np.float16), 1.0)  # whose squares float16 does not hold
    assert sp.dynamic_rescale(large, norm).scale == 32768
    assert sp.dynamic_rescale(ScaledArray(np.float32([2.0**120, -(2.0**120)]), 1.0), norm).scale == 2.0**120
    for x in (large[:0], ScaledArray(np.float32([1, np.inf]), 2.0), ScaledArray(np.float32([1, 2]), 0.0)):
        assert sp.dynamic_rescale(x, norm) is x


def test_rescaling_and_casts_may_be_for_one_direction():
    """Forward-only and gradient-only forms."""
    x, g = ScaledArray(np.float32([4.0, -8.2]), 4.0), ScaledArray(np.float32([0.1, 0.2]), 0.5)
    for function, args in ((sp.dynamic_rescale, ("max",)), (sp.cast, ("e4m3fn",))):
        y, pull = sp.on_forward(function)(x, *args)
        assert y.data.tolist() == function(x, *args).data.tolist() != x.data.tolist()
        assert pull(g) is g
        y, pull = sp.on_backward(function)(x, *args)
        assert y is x
        assert pull(g).data.tolist() == function(g, *args).data.tolist() != g.data.tolist()


# -- scales -----------------------------------------------------------------------------------------


def test_borders_of_powers_of_two_are_decided_exactly():
    """Next to a power of two a float64 root is that power: rounding up would be too low by factor two."""
    tiny = 2.0**-120
    with sp.config(scale_rounding="up"):
        assert pow2_norm(4.0, tiny) == pow2_norm(tiny, 4.0) == 8
        assert pow2_norm(4.0, 0.0) == 4
        assert pow2_norm(3.0, 4.0) == 8
        assert pow2_sqrt(16) == 4
        assert pow2_sqrt(17) == 8
        assert (ScaledArray(np.float32(1.0), 4.0) + ScaledArray(np.float32(1.0), tiny)).scale == 8
    with sp.config(scale_rounding="down"):
        assert pow2_norm(4.0, tiny) == 4
        assert pow2_sqrt(16) == 4
        assert pow2_sqrt(15) == 2
        below = float(np.nextafter(np.float32(4.0), np.float32(0)))
        assert pow2_norm(below, 2.0**-30) == 2  # 4 - 2**-22 and 2**-30: the sum of squares is below 16
        assert pow2_norm(below, 2.0**-9) == 4


def test_exponents_are_not_taken_with_a_logarithm():
    """Just below each power of two, where log2 of float32 rounds up."""
    powers = 2.0 ** np.arange(-125, 128)
    below = np.nextafter(powers.astype(np.float32), np.float32(0))
    np.testing.assert_array_equal(sp.pow2_round(below), powers / 2)
    np.testing.assert_array_equal(sp.pow2_round(below, "up"), powers)
    np.testing.assert_array_equal(sp.pow2_round(powers.astype(np.float32), "up"), powers)
    np.testing.assert_array_equal(sp.pow2_round(below, "nearest"), powers)
    np.testing.assert_array_equal(sp.pow2_round(-below), -powers / 2)
    halves = (1.5 * powers[1:]).astype(np.float32)
    even = sp.encode_e8m0(powers[1:]) % 2 == 0  # a tie goes to the exponent whose code is even
    np.testing.assert_array_equal(
        sp.pow2_round(halves[:-1], "nearest"), np.where(even, powers[1:], 2 * powers[1:])[:-1]
    )


@pytest.mark.parametrize("fmt", ["e4m3fn", "e5m2", "e2m1fn", "int8", "int4"])
def test_the_best_scale_is_that_of_all_e8m0_scales(fmt):
    """Every one of them is tried: normal numbers, outliers, few values, tiny and huge ones."""
    samples = [
        RNG.standard_normal(64),
        RNG.standard_normal(5) * 1e-30,
        np.r_[RNG.standard_normal(300), 50.0],
        [1e30, 3.0],
    ]
    for values in samples:
        values = np.asarray(values, np.float32)
        found = {
            k: lp.error_report(values, fmt, scale=2.0**k, saturation="finite").mse for k in range(-126, 128)
        }
        best = float(sp.best_pow2_scale(values, fmt))
        assert found[round(np.log2(best))] == min(found.values())
    # At 1 the 8 is clipped to 6, at 2 sixteen halves are lost: the same error, and the larger scale.
    assert fmt != "e2m1fn" or sp.best_pow2_scale([8.0] + [0.5] * 16, fmt) == 2
    assert sp.best_pow2_scale(np.zeros(3), fmt) == sp.best_pow2_scale([], fmt) == 1
    assert sp.best_pow2_scale([np.nan, np.inf, 1.0], fmt) == sp.best_pow2_scale([1.0], fmt)


def test_a_scale_of_zero_is_for_zeros_alone():
    with pytest.raises(ValueError, match=r"scale=0.0 would make zeros of 2 values.*Give a positive scale"):
        sp.as_scaled([1.0, 2.0, 0.0], 0.0)
    zeros = sp.as_scaled([0.0, 0.0], 0.0)
    assert zeros.scale == 0
    assert not zeros.data.any()


def test_the_best_power_of_two_of_a_posit_is_near_the_best_scale():
    values = np.random.default_rng(4).standard_normal(1000)
    scale = sp.best_pow2_scale(values, "posit8")
    assert lp.error_report(values, "posit8", scale=scale).sqnr > 31
