"""Vector operations: powers against 60 digits of decimals, softmax and layer norm against microxcaling's."""

import decimal
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
AWAY = lp.Projection(rounding="nearest_away")

with np.load(
    pathlib.Path(__file__).parents[2] / "tables" / "published" / "microxcaling_layers.npz"
) as _table:
    PUBLISHED = {name: (_table[name].astype(np.uint32) << 16).view(np.float32) for name in _table.files}


def power(value, base):
    """The power of e or 2, to 100 digits, as a Fraction."""
    with decimal.localcontext(prec=100):
        exponent = decimal.Decimal(value) * (decimal.Decimal(2).ln() if base == 2 else 1)
        return Fraction(exponent.exp())


def assert_nearest(results, values, fmt, base):
    """The power lies between the midpoints on both sides of its result."""
    codes = lp.encode(results, fmt).astype(np.int64)
    below, above = (lp.decode(codes + step, fmt, dtype=np.float64) for step in (-1, 1))
    for value, result, low, high in zip(
        values.tolist(), results.tolist(), below.tolist(), above.tolist(), strict=True
    ):
        exact = 2 * power(value, base)
        assert Fraction(low) + Fraction(result) < exact < Fraction(result) + Fraction(high), (value, result)


# -- powers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", ["e", 2])
def test_powers_of_every_bfloat16_number_are_correctly_rounded(base):
    """Of those in between: powers are 1 for small magnitudes, and 0 or infinity for large ones."""
    values = lp.decode(np.arange(1 << 16, dtype=np.uint16), "bfloat16")
    got = Vector().exp(values) if base == "e" else Vector().exp2(values)
    top, bottom = (88.5, -92.8) if base == "e" else (127.9, -133.9)
    assert (got[values > top + 0.5] == INF).all()
    assert (got[values < bottom - 1] == 0).all()
    assert np.array_equal(np.isnan(got), np.isnan(values))
    small = np.abs(values) < 2.0**-9
    assert (got[small] == 1).all()
    between = (values < top) & (values > bottom) & ~small
    if base == 2:
        whole = between & (values == np.floor(values))
        assert np.array_equal(got[whole], np.ldexp(np.float32(1), values[whole].astype(int)))
        between &= ~whole
    assert between.sum() > 3500
    assert_nearest(got[between], values[between], "bfloat16", base)


#: Where float64's power lies on a tie of binary32 or one unit in its last place beside it; among all float32
#: numbers there are 2 such powers of e, and 6 of two.
HARD = {
    "e": ["-0x1.d2259ap+3", "-0x1.e1dbe2p-8", "0x1.fdff02p-17", "0x1.0364920p+1", "-0x1.0p-25"],
    2: [
        "-0x1.e7526ep-6",
        "-0x1.5a3f34p-21",
        "0x1.853a6ep-9",
        "-0x1.d85680p-10",
        "-0x1.a7a04cp-14",
        "0x1.0f0af8p-11",
    ],
}


@pytest.mark.parametrize("base", ["e", 2])
def test_powers_beside_a_tie_of_binary32_are_correctly_rounded(base, monkeypatch):
    """They are computed to 60 digits; nothing else is."""
    values = np.array([float.fromhex(text) for text in HARD[base]], np.float32)
    exact = vector._beside_power
    asked = []
    monkeypatch.setattr(
        vector, "_beside_power", lambda value, base: (asked.append(value), exact(value, base))[1]
    )
    got = Vector("binary32").exp(values) if base == "e" else Vector("binary32").exp2(values)
    assert asked == values.tolist()
    assert_nearest(got, values, "binary32", base)
    others = np.random.default_rng(0).uniform(-80, 80, 2000).astype(np.float32)
    asked.clear()
    got = Vector("binary32").exp(others) if base == "e" else Vector("binary32").exp2(others)
    assert asked == []
    assert_nearest(got, others, "binary32", base)


def test_a_tie_decided_by_float64_alone_would_be_wrong():
    """Of the three powers of two that float64 puts onto ties, at least one goes the other way."""
    values = np.array([float.fromhex(text) for text in HARD[2][:3]])
    twice = np.exp2(values).astype(np.float32)
    assert (twice != Vector("binary32").exp2(values)).any()


@pytest.mark.parametrize("mode", MODES, ids=str)
@settings(max_examples=40)
@given(value=st.floats(-90, 88, width=32))
def test_powers_are_rounded_in_every_mode(mode, value):
    """By the oracle, from 100 digits: above all where the power is just beside a number of the format."""
    unit = Vector("bfloat16", lp.Projection(rounding=mode))
    for base, got in (("e", unit.exp(value)), (2, unit.exp2(value))):
        exact = Fraction(2) ** int(value) if base == 2 and value == int(value) else power(value, base)
        assert lp.encode(got, "bfloat16") == project(exact, catalog.BFLOAT16, unit.projection)


@pytest.mark.parametrize("base", ["e", 2])
def test_limits_of_powers(base):
    """Finite powers overflow, or saturate where infinities do not; zeros are exact in every mode."""
    values = np.array([INF, 1e30, 0.0, -0.0, -INF, -1e30, NAN])

    def powers(unit):
        return unit.exp(values) if base == "e" else unit.exp2(values)

    assert np.array_equal(powers(Vector()), [INF, INF, 1, 1, 0, 0, NAN], equal_nan=True)
    largest, smallest = catalog.BFLOAT16.max_finite, catalog.BFLOAT16.min_subnormal
    propagate = Vector("bfloat16", lp.Projection(saturation="propagate", rounding="away_from_zero"))
    assert np.array_equal(powers(propagate), [INF, largest, 1, 1, 0, smallest, NAN], equal_nan=True)
    down = Vector("binary16", lp.Projection(rounding="toward_zero"))
    assert np.array_equal(powers(down), [INF, 65504, 1, 1, 0, 0, NAN], equal_nan=True)


def test_powers_of_nothing_and_of_one_number_have_their_shapes():
    assert Vector().exp(np.empty((0, 3))).shape == (0, 3)
    assert Vector().exp(1.0).shape == ()
    assert Vector().exp2(np.int8([[3]])).tolist() == [[8.0]]


# -- one rounding -------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(x=st.floats(-1e6, 1e6, width=32), y=st.floats(2.0**-20, 1e6, width=32))
def test_every_operation_is_rounded_once(x, y):
    """From exact operands, whatever their type holds."""
    a, b = Fraction(x), Fraction(y)
    for fmt in ("bfloat16", "binary32"):
        unit = Vector(fmt)
        for got, want in (
            (unit.add(x, y), a + b),
            (unit.subtract(x, y), a - b),
            (unit.multiply(x, y), a * b),
            (unit.divide(x, y), a / b),
            (unit.inverse(y), 1 / b),
            (unit.round(x), a),
            (unit.sum([x, y, -x]), b),
        ):
            if want:
                assert lp.encode(got, fmt) == project(want, lp.format(fmt))
    root = np.sqrt(np.float64(y))
    assert Vector("bfloat16").sqrt(y) == lp.quantize(root, "bfloat16")


def test_sums_are_added_as_they_are_asked_to():
    """To bfloat16 once, or at each step, where small terms are lost."""
    values = np.full((2, 4096), 0.01, np.float32)
    assert Vector().sum(values).tolist() == [41.0, 41.0]
    assert Vector(sums="bf16_sequential").sum(values).tolist() == [4.0, 4.0]
    assert Vector().sum(values, axis=0, keepdims=True).shape == (1, 4096)
    assert Vector().mean(values).tolist() == lp.quantize([0.01, 0.01], "bfloat16").tolist()


def test_switches_round_in_between():
    """With log2(e) as 1.4453125, and the inverse of 3 as 0.333984375."""
    assert Vector().round(np.log2(np.e)) == 1.4453125
    plain, steps = Vector(), Vector(exp_by_exp2=True, divide_by_inverse=True)
    product = lp.multiply(10.0, 1.4453125, "bfloat16")
    assert steps.exp(10.0) == plain.exp2(product) != plain.exp(10.0)
    assert steps.divide(5.0, 3.0) == lp.multiply(5.0, 0.333984375, "bfloat16") != plain.divide(5.0, 3.0)


# -- softmax and layer norm ---------------------------------------------------------------------------


@pytest.mark.parametrize("rounding", ["nearest", "even"])
@pytest.mark.parametrize("switch", ["", ".exp2", ".inverse"])
def test_softmax_is_that_of_microxcaling(switch, rounding):
    """Bit for bit, in bfloat16."""
    how = AWAY if rounding == "nearest" else lp.Projection()
    unit = Vector("bfloat16", how, exp_by_exp2=switch == ".exp2", divide_by_inverse=switch == ".inverse")
    got = unit.softmax(PUBLISHED["vector.x"])
    assert np.array_equal(got, PUBLISHED[f"softmax{switch}.{rounding}"])
    assert np.array_equal(unit.softmax(PUBLISHED["vector.x"].T, axis=0), got.T)


@pytest.mark.parametrize("rounding", ["nearest", "even"])
def test_layer_norm_is_that_of_microxcaling(rounding):
    unit = Vector("bfloat16", AWAY if rounding == "nearest" else lp.Projection())
    x, weight, bias = (PUBLISHED[f"vector.{name}"] for name in ("x", "weight", "bias"))
    assert np.array_equal(unit.layer_norm(x, weight, bias), PUBLISHED[f"layer_norm.{rounding}"])


@pytest.mark.parametrize(("fmt", "step"), [("bfloat16", 2.0**-8), ("binary32", 2.0**-24)])
def test_both_are_near_their_definitions(fmt, step):
    """Softmax: at most 4 roundings, and 2 * 8 * step from x - max; layer norm: ten steps, values up to 4."""
    values = np.random.default_rng(2).uniform(-4, 4, (5, 64)).astype(np.float32)
    values = lp.quantize(values, fmt)
    powers = np.exp(values - values.max(axis=1, keepdims=True).astype(np.float64))
    exact = powers / powers.sum(axis=1, keepdims=True)
    assert (np.abs(Vector(fmt).softmax(values) / exact - 1) < 20 * step).all()
    centred = values - values.mean(axis=1, keepdims=True, dtype=np.float64)
    normal = centred / np.sqrt(np.square(centred).mean(axis=1, keepdims=True) + 1e-5)
    assert (np.abs(Vector(fmt).layer_norm(values) - normal) < 40 * step).all()
    assert np.array_equal(
        Vector(fmt).layer_norm(values, np.ones(64), np.zeros(64)), Vector(fmt).layer_norm(values)
    )


# -- what is refused ----------------------------------------------------------------------------------


def test_messages_say_what_is_refused():
    with pytest.raises(
        ValueError, match=r"^vectors are of formats whose values binary32 has, and 'wide' has others$"
    ):
        Vector(lp.Format(name="wide", exponent_bits=9, trailing_bits=4, bias=255))
    with pytest.raises(ValueError, match=r"^vectors are rounded deterministically, not stochastic\(8, A\)$"):
        Vector("bfloat16", lp.Projection(rounding="stochastic(8)"))
    with pytest.raises(ValueError, match=r"^unknown accumulation 'fp31_fma'"):
        Vector(sums="fp31_fma")
