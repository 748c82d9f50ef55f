"""Activations and their gradients: microxcaling's bits, tanh against 200 digits, complex steps for slopes."""

import decimal
import math
import pathlib
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import lowprec as lp
from lowprec.methods.mx import Vector, vector
from lowprec.oracle.convert import project
from lowprec.spec import catalog
from lowprec.spec.rounding import MODES

INF, NAN = np.inf, np.nan
PLACE = pathlib.Path(__file__).parents[2] / "tables" / "published" / "microxcaling_activations.npz"
with np.load(PLACE) as _table:
    CODES = {name: _table[name] for name in _table.files}
X, GRAD = (lp.decode(CODES[name], "bfloat16", backend="oracle") for name in ("x", "grad"))
NAMES = ("sigmoid", "tanh", "silu", "gelu", "gelu.first_order")


def both(unit, name):
    """The activation and its gradient, as functions of x, and of x and the output's gradient."""
    function, *first = name.split(".")
    options = {"first_order": True} if first else {}
    return (
        lambda x: getattr(unit, function)(x, **options),
        lambda x, grad: getattr(unit, f"{function}_gradient")(x, grad, **options),
    )


@pytest.mark.parametrize("rounding", ["nearest", "even"])
@pytest.mark.parametrize(
    ("name", "switch"), [(name, switch) for name in NAMES for switch in ("", ".exp2")[: 1 + (name != "tanh")]]
)
def test_bits_are_those_of_microxcaling(name, switch, rounding):
    """Value by value: its zeros have lost their signs."""
    how = lp.Projection(rounding="nearest_away" if rounding == "nearest" else "nearest_even")
    value, gradient = both(Vector("bfloat16", how, exp_by_exp2=bool(switch)), name)
    for got, part in ((value(X), "y"), (gradient(X, GRAD), "grad_x")):
        want = CODES[f"{name}{switch}.{rounding}.{part}"]
        assert np.array_equal(got, lp.decode(want, "bfloat16"), equal_nan=True), (name, part)


# -- tanh ---------------------------------------------------------------------------------------------


def exact_tanh(value):
    """To 200 digits and more where it is as good as its operand, as a Fraction."""
    size = decimal.Decimal(value)
    with decimal.localcontext(prec=200 + 4 * max(0, -size.adjusted())):
        return 1 - 2 / (Fraction((2 * size).exp()) + 1)


def test_tanh_of_every_bfloat16_number_is_correctly_rounded():
    """Between the midpoints on both sides; beyond 2**-9 to 9, which are tried, it is x or 1."""
    x = lp.decode(np.arange(1 << 16, dtype=np.uint16), "bfloat16")
    y = Vector().tanh(x)
    assert np.array_equal(np.isnan(x), np.isnan(y))
    small, large = np.abs(x) <= 2.0**-9, np.abs(x) >= 9
    assert np.array_equal(y[small], x[small])
    assert np.array_equal(np.signbit(y[small]), np.signbit(x[small]))
    assert np.array_equal(y[large], np.sign(x[large]))
    between = ~small & ~large & ~np.isnan(x)
    codes = lp.encode(y[between], "bfloat16").astype(np.int64)
    one, other = (lp.decode(codes + step, "bfloat16", dtype=np.float64) for step in (-1, 1))
    assert between.sum() > 3000
    for value, result, *around in zip(x[between], y[between], one, other, strict=True):
        ties = sorted((Fraction(float(result)) + Fraction(float(each))) / 2 for each in around)
        assert ties[0] < exact_tanh(float(value)) < ties[1], value


@pytest.mark.parametrize("mode", MODES, ids=str)
@settings(max_examples=40)
@given(value=st.one_of(st.floats(-12, 12, width=32), st.floats(width=32, allow_nan=False)))
def test_tanh_is_rounded_in_every_mode(mode, value):
    """By the oracle: also where it is just below its operand, and just below 1."""
    unit = Vector("bfloat16", lp.Projection(rounding=mode))
    got = lp.encode(unit.tanh(value), "bfloat16")
    if value == 0 or math.isinf(value):
        assert got == lp.encode(math.copysign(min(abs(value), 1.0), value), "bfloat16")
        return
    exact = exact_tanh(max(-60.0, min(60.0, value)))
    assert got == project(exact, catalog.BFLOAT16, unit.projection)


def test_only_what_float64_cannot_decide_goes_to_digits(monkeypatch):
    """A number of binary32 itself, toward zero: the tangent lies below it."""
    asked, exact = [], vector._beside_tanh
    monkeypatch.setattr(vector, "_beside_tanh", lambda value: (asked.append(value), exact(value))[1])
    unit = Vector("binary32", lp.Projection(rounding="toward_zero"))
    tiny = np.float32(2.0**-30)
    assert unit.tanh([0.5, tiny, -tiny]).tolist() == [
        unit.tanh(0.5),
        np.nextafter(tiny, np.float32(0)),
        -np.nextafter(tiny, np.float32(0)),
    ]
    assert asked == [tiny, -tiny]


# -- gradients ----------------------------------------------------------------------------------------


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


DEFINED = {
    "sigmoid": sigmoid,
    "tanh": np.tanh,
    "silu": lambda z: z * sigmoid(z),
    "gelu": lambda z: z * sigmoid(2 * np.sqrt(2 / np.pi) * (z + 0.044715 * z**3)),
    "gelu.first_order": lambda z: z * sigmoid(1.702 * z),
}


@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_slopes_of_the_definitions(name):
    """By a complex step: the imaginary part of f(x + ih) over h is the slope, without a formula for it."""
    x = np.linspace(-6, 6, 241)
    grad = np.random.default_rng(1).standard_normal(x.shape)
    values, slopes = DEFINED[name](x), DEFINED[name](x + 1e-30j).imag / 1e-30
    for fmt, step in (("binary32", 2.0**-23), ("bfloat16", 2.0**-7)):
        value, gradient = both(Vector(fmt), name)
        given = lp.quantize(x, fmt), lp.quantize(grad, fmt)
        scale = 40 * step if fmt == "binary32" else 12 * step
        assert np.abs(value(given[0]) - values).max() < scale
        assert np.abs(gradient(*given) - slopes * grad).max() < scale * np.abs(grad).max()


def test_the_approximation_is_near_gelu_itself():
    """By the error function: within 0.0005, and its slope within 0.0012; the shorter one within 0.021."""
    x = np.linspace(-6, 6, 601)
    share = np.array([0.5 * math.erfc(-value / math.sqrt(2)) for value in x])
    slope = share + x * np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    unit = Vector("binary32")
    assert np.abs(unit.gelu(x) - x * share).max() < 5e-4
    assert np.abs(unit.gelu_gradient(x, np.ones_like(x)) - slope).max() < 1.2e-3
    assert 1e-3 < np.abs(unit.gelu(x, first_order=True) - x * share).max() < 0.021


def test_limits():
    """Steps overflow as they do in microxcaling; nothing warns."""
    unit = Vector()
    assert np.array_equal(unit.sigmoid([INF, -INF, NAN]), [1, 0, NAN], equal_nan=True)
    for kind in (np.uint8, np.int16, np.float16):  # unsigned integers have no negatives
        assert np.array_equal(unit.sigmoid(np.array([0, 4], kind)), unit.sigmoid([0.0, 4.0]))
    assert np.array_equal(unit.tanh([INF, -INF, NAN]), [1, -1, NAN], equal_nan=True)
    assert np.array_equal(
        unit.silu([INF, 1e30, -1e30, -INF]), [INF, unit.round(1e30), 0, NAN], equal_nan=True
    )
    assert unit.gelu(np.empty((0, 3))).shape == (0, 3)
    assert unit.gelu_gradient([[1.0]], [[1.0]]).shape == (1, 1)


def test_activations_take_types_without_negatives():
    unit = Vector("bfloat16")
    for name, numbers in (("float8_e8m0fnu", [0.5, 1, 4]), ("uint4", [0, 1, 15])):
        values = np.array(numbers).astype(name)
        for function in (unit.sigmoid, unit.silu, unit.gelu):
            assert np.array_equal(function(values), function(values.astype(np.float64)))
