"""Functions: MPFR's opinion, special cases by clause 9 of IEEE 754, exact cases, and what lies at limits."""

import math
import pathlib
from fractions import Fraction

import gmpy2
import ml_dtypes
import numpy as np
import pytest

import lowprec as lp
from lowprec.arrays import functions
from lowprec.kernels.functions import enclosures, values
from lowprec.kernels.functions.enclosures import exact
from lowprec.kernels.functions.values import value_of
from lowprec.oracle.exact import to_float
from lowprec.spec.functions import FUNCTIONS
from tests.mpfr import PEERS, ROUNDINGS, differences
from tests.support import cases, meant, refusal_test

NAN, INFINITY = math.nan, math.inf
INVALID, DIVIDE, INEXACT = 16, 8, 1


def assert_same_bits(found: np.ndarray, expected: np.ndarray) -> None:
    """Compare floats by their bits."""
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found.view(np.uint8), expected.view(np.uint8))


@pytest.mark.parametrize("fmt", ["e5m2", pytest.param("float8_e4m3", marks=pytest.mark.apart)])
@pytest.mark.parametrize("name", PEERS)
def test_mpfr_agrees_on_every_operand_of_eight_bits(name, fmt):
    assert not differences(name, fmt, np.arange(256, dtype=np.uint8))


@pytest.mark.parametrize("fmt", ["binary16", pytest.param("bfloat16", marks=pytest.mark.apart)])
@pytest.mark.parametrize("name", PEERS)
def test_mpfr_agrees_on_drawn_operands(name, fmt):
    generator = np.random.default_rng(sum(map(ord, name)))
    assert not differences(name, fmt, generator.integers(0, 1 << 16, 500).astype(np.uint16))


def atan2pi(y, x):
    """Return the angle over pi: multiples of 1/4 as they are, all others in 300 bits, then rounded."""
    with gmpy2.context(precision=300, emax=1 << 20, emin=-(1 << 20)):
        turn = gmpy2.atan2(y, x) / gmpy2.const_pi()
        quarters = gmpy2.rint(4 * turn) / 4
        if abs(turn - quarters) < gmpy2.mpfr(2) ** -250:
            turn = gmpy2.copy_sign(quarters, turn)
    return +turn


@pytest.mark.parametrize("name", ["hypot", "atan2", "atan2pi", "pow"])
def test_mpfr_agrees_on_pairs(name):
    peer = {"hypot": gmpy2.hypot, "atan2": gmpy2.atan2, "atan2pi": atan2pi, "pow": lambda x, y: x**y}[name]
    codes = np.arange(256, dtype=np.uint8)
    codes[[0x7D, 0xFD]] = 0x7E  # MPFR has no signaling NaNs
    drawn = np.random.default_rng(1).integers(0, 1 << 16, 3000)
    x, y = codes[drawn >> 8], codes[drawn & 255]
    first, second = (each.view(ml_dtypes.float8_e5m2) for each in (x, y))
    numbers = [each.astype(np.float64).tolist() for each in (first, second)]
    for rounding, mode in ROUNDINGS.items():
        found = np.asarray(getattr(lp, name)(first, second, "e5m2", rounding=rounding), np.float64)
        with gmpy2.context(precision=3, emax=16, emin=-15, subnormalize=True, round=mode):
            expected = np.array(
                [float(peer(gmpy2.mpfr(a), gmpy2.mpfr(b))) for a, b in zip(*numbers, strict=True)]
            )
        same = (found == expected) & (np.signbit(found) == np.signbit(expected))
        same |= np.isnan(found) & np.isnan(expected)
        wrong = np.nonzero(~same)[0][:3]
        assert not wrong.size, (
            rounding,
            [(numbers[0][i], numbers[1][i], found[i], expected[i]) for i in wrong],
        )


# -- special cases ---------------------------------------------------------------------------------------

#: Operand, result, flags: IEEE 754, 9.2.1; of what it does not have, limits.
SPECIAL = """
exp | 0: 1, NEG_ZERO: 1, INF: INF, NEG_INF: 0
expm1 | NEG_ZERO: NEG_ZERO, NEG_INF: -1, INF: INF
exp2 | 3: 8, -3: 1/8, NEG_INF: 0
exp2m1 | 3: 7, -1: -1/2, NEG_ZERO: NEG_ZERO
exp10 | 2: 100, 0: 1
exp10m1 | 1: 9, NEG_INF: -1
log | 1: 0, 0: NEG_INF divide, NEG_ZERO: NEG_INF divide, -1: NAN invalid, INF: INF, NEG_INF: NAN invalid
log2 | 8: 3, 1/8: -3, 0: NEG_INF divide
log10 | 100: 2, -2: NAN invalid
log1p | NEG_ZERO: NEG_ZERO, -1: NEG_INF divide, -2: NAN invalid
log2p1 | 7: 3, -1/2: -1, -1: NEG_INF divide
log10p1 | 9: 1, NEG_ZERO: NEG_ZERO
sin | NEG_ZERO: NEG_ZERO, INF: NAN invalid
cos | NEG_ZERO: 1, NEG_INF: NAN invalid
tan | 0: 0, NEG_INF: NAN invalid
sinpi | 2: 0, -2: NEG_ZERO, 1/2: 1, 3/2: -1, -1/2: -1, INF: NAN invalid
cospi | 1/2: 0, -3/2: 0, 1: -1, 2: 1, INF: NAN invalid
tanpi | 1: NEG_ZERO, 2: 0, -1: 0, -2: NEG_ZERO, 1/2: INF divide, 3/2: NEG_INF divide, -1/2: NEG_INF divide,
    1/4: 1, 3/4: -1, -1/4: -1
asin | NEG_ZERO: NEG_ZERO, 2: NAN invalid, INF: NAN invalid
acos | 1: 0, -2: NAN invalid
atan | NEG_ZERO: NEG_ZERO
asinpi | 1: 1/2, -1: -1/2
acospi | 1: 0, 0: 1/2, -1: 1
atanpi | 1: 1/4, INF: 1/2, NEG_INF: -1/2
sinh | NEG_INF: NEG_INF, NEG_ZERO: NEG_ZERO
cosh | NEG_INF: INF, NEG_ZERO: 1
tanh | NEG_INF: -1, INF: 1, NEG_ZERO: NEG_ZERO
asinh | NEG_INF: NEG_INF, NEG_ZERO: NEG_ZERO
acosh | 1: 0, 1/2: NAN invalid, 0: NAN invalid, NEG_INF: NAN invalid
atanh | 1: INF divide, -1: NEG_INF divide, 2: NAN invalid, NEG_ZERO: NEG_ZERO
rsqrt | 4: 1/2, 1/4: 2, 0: INF divide, NEG_ZERO: NEG_INF divide, INF: 0, -1: NAN invalid,
    NEG_INF: NAN invalid
reciprocal | 4: 1/4, NEG_ZERO: NEG_INF divide, NEG_INF: NEG_ZERO
cbrt | -8: -2, 1/8: 1/2, NEG_ZERO: NEG_ZERO, NEG_INF: NEG_INF
sigmoid | 0: 1/2, NEG_INF: 0, INF: 1
erf | NEG_INF: -1, NEG_ZERO: NEG_ZERO
erfc | NEG_INF: 2, 0: 1, INF: 0
gelu | NEG_INF: NEG_ZERO, NEG_ZERO: NEG_ZERO, INF: INF
gelu_tanh | NEG_INF: NEG_ZERO, 0: 0
silu | NEG_INF: NEG_ZERO, 0: 0, INF: INF
softplus | NEG_INF: 0, INF: INF
"""


def number(text):
    """Return the float that a text stands for."""
    return to_float(meant(text))


def told(said):
    """Return a result, None for any, and flags."""
    result, *signals = said.split()
    bits = {"divide": DIVIDE, "invalid": INVALID, "inexact": INEXACT}
    return None if result == "-" else number(result), sum(bits[each] for each in signals)


@pytest.mark.parametrize("name", [name for name, rule in FUNCTIONS.items() if rule.operands == 1])
def test_special_and_exact_cases(name):
    rows = [(number(x), *told(said)) for words, x, said in cases(SPECIAL) if words == [name]]
    operands, expected, signals = (np.array(column) for column in zip(*rows, strict=True))
    flags = np.empty(operands.shape, np.uint8)
    found = getattr(lp, name)(operands.astype(np.float32), "binary16", flags=flags)
    np.testing.assert_array_equal(found, expected.astype(np.float32))
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found)[known], np.signbit(expected)[known])
    assert flags.tolist() == signals.tolist()
    assert np.isnan(getattr(lp, name)(np.float32([NAN]), "binary16")).all()


PAIRS = """
hypot | 3 4: 5, NEG_INF NAN: INF, NAN INF: INF, 0 NEG_ZERO: 0, NAN 1: NAN
atan2 | 0 1: 0, NEG_ZERO 0: NEG_ZERO, NEG_ZERO INF: NEG_ZERO, 1 INF: 0, NAN 1: NAN
atan2pi | 0 1: 0, NEG_ZERO -1: -1, NEG_ZERO 0: NEG_ZERO, 0 NEG_ZERO: 1, 3 0: 1/2, -3 NEG_ZERO: -1/2,
    -2 -2: -3/4, 2 -2: 3/4, -2 2: -1/4, INF NEG_INF: 3/4, NEG_INF INF: -1/4, NEG_INF 1: -1/2,
    -1 INF: NEG_ZERO, -1 NEG_INF: -1, 1 2: - inexact, NAN 1: NAN
pow | 2 3: 8, -2 3: -8, 4 1/2: 2, 4 -1/2: 1/2, 8 3/2: - inexact, -8 1/2: NAN invalid, NAN 0: 1, 1 NAN: 1,
    -1 INF: 1, 0 -1: INF divide, NEG_ZERO -1: NEG_INF divide, NEG_ZERO -2: INF divide, 0 NEG_INF: INF,
    NEG_ZERO 3: NEG_ZERO, NEG_ZERO 1/2: 0, 1/2 INF: 0, 1/2 NEG_INF: INF, 2 INF: INF, INF -1: 0,
    NEG_INF 3: NEG_INF, NEG_INF -3: NEG_ZERO, NEG_INF 2: INF, 2 NAN: NAN
"""


@pytest.mark.parametrize(("words", "operands", "said"), cases(PAIRS))
def test_special_and_exact_cases_of_two_operands(words, operands, said):
    expected, signaled = told(said)
    flags = np.empty(1, np.uint8)
    x, y = (np.float32([number(each)]) for each in operands.split())
    found = getattr(lp, words[0])(x, y, "binary16", flags=flags)
    assert flags.tolist() == [signaled]
    if expected is not None:
        np.testing.assert_array_equal(found, np.float32([expected]))
        assert math.isnan(expected) or math.copysign(1, found[0]) == math.copysign(1, expected)


def test_an_atan2pi_of_swapped_operands_would_be_seen(monkeypatch):
    """By its special cases, and by MPFR."""
    right = values._atan2pi
    monkeypatch.setitem(values._TWO, "atan2pi", lambda y, x: right(x, y))
    for said in [("0 1", "0"), ("NEG_ZERO -1", "-1"), ("3 0", "1/2"), ("-2 2", "-1/4")]:
        with pytest.raises(AssertionError):
            test_special_and_exact_cases_of_two_operands(["atan2pi"], *said)
    with pytest.raises(AssertionError):
        test_mpfr_agrees_on_pairs("atan2pi")


def test_a_signaling_nan_is_invalid():
    flags = np.empty(3, np.uint8)
    operands = np.array([0x7C01, 0x7E00, 0xFC01], np.uint16).view(np.float16)
    assert np.isnan(lp.exp(operands, "binary16", flags=flags)).all()
    assert flags.tolist() == [INVALID, 0, INVALID]
    lp.pow(operands[:2], np.float16([0.0, 0.0]), "binary16", flags=(one := np.empty(2, np.uint8)))
    assert one.tolist() == [INVALID, 0]


@pytest.mark.parametrize(
    ("name", "operand", "below", "above"),
    [
        ("tanh", 60000.0, "toward_zero", "nearest_even"),
        ("sigmoid", 60000.0, "toward_negative", "nearest_even"),
        ("erf", 3e38, "toward_zero", "nearest_even"),
        ("cos", 2.0**-100, "toward_zero", "nearest_even"),
    ],
)
def test_values_next_to_one_are_not_one(name, operand, below, above):
    """Only what is proven to lie below 1 is rounded away from it."""
    flags = np.empty(1, np.uint8)
    operand = np.float32([operand])
    assert getattr(lp, name)(operand, "binary16", rounding=below, flags=flags) == [1 - 2.0**-11]
    assert flags == [INEXACT]
    assert getattr(lp, name)(operand, "binary16", rounding=above) == [1]


@pytest.mark.parametrize("name", ["gelu", "silu", "gelu_tanh"])
def test_activations_at_their_ends(name):
    """X times almost one, and x times almost nothing."""
    verb = getattr(lp, name)
    large = np.float32([60000.0, 3e38])
    np.testing.assert_array_equal(verb(large, "binary32", rounding="toward_positive"), large)
    np.testing.assert_array_equal(
        verb(large, "binary32", rounding="toward_zero"), np.nextafter(large, np.float32(0))
    )
    smallest = verb(-large, "binary32", rounding="toward_negative")
    np.testing.assert_array_equal(smallest, np.float32([-(2.0**-149)] * 2))
    np.testing.assert_array_equal(np.signbit(verb(-large, "binary32")), [True, True])


def test_float32_is_rounded_once():
    """Against MPFR in binary32, subnormal results too."""
    generator = np.random.default_rng(0)
    operands = generator.uniform(-104, 89, 300).astype(np.float32)
    with gmpy2.context(precision=24, emax=128, emin=-148, subnormalize=True):
        expected = np.array([float(gmpy2.exp(gmpy2.mpfr(float(each)))) for each in operands], np.float32)
    assert_same_bits(lp.exp(operands, "binary32"), expected)


def test_results_become_codes_of_codebooks_and_integers():
    operands = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn)
    exactly = np.exp(operands.astype(np.float64)[:0x7F])
    np.testing.assert_array_equal(
        lp.exp(operands, "posit8", dtype=np.uint8)[:0x7F], lp.encode(exactly, "posit8")
    )
    assert lp.exp([1.0, 3.0], "int8").tolist() == [3, 20]


def test_stochastic_rounding_takes_the_share_of_the_gap():
    operand = np.full(256, 1.0, np.float16)
    found = lp.exp(operand, "e4m3fn", rounding="stochastic(8)", random=np.arange(256, dtype=np.uint32))
    assert set(found.tolist()) == {2.5, 2.75}
    assert (found == 2.75).sum() == int((math.e - 2.5) / 0.25 * 256)


def test_flushed_operands_are_zeros():
    flags = np.empty(1, np.uint8)
    projection = lp.Projection(subnormals="flush_operands")
    found = lp.sin(np.float16([2.0**-20]), "binary16", projection=projection, flags=flags)
    assert (found.tolist(), flags.tolist()) == ([0.0], [INEXACT])


def test_progress_is_told_and_changes_nothing():
    operands = np.linspace(-3, 3, 5000).astype(np.float32).reshape(50, 100)
    told = []
    flags, plain = np.empty(operands.shape, np.uint8), np.empty(operands.shape, np.uint8)
    found = lp.tanh(operands, "bfloat16", progress=lambda *done: told.append(done), flags=flags)
    assert_same_bits(found, lp.tanh(operands, "bfloat16", flags=plain))
    np.testing.assert_array_equal(flags, plain)
    assert told == [(0, 5000), (4096, 5000), (5000, 5000)]
    drawn = lp.exp(operands, "e4m3fn", rounding="stochastic(8)", rng=3, progress=lambda *done: None)
    assert_same_bits(drawn, lp.exp(operands, "e4m3fn", rounding="stochastic(8)", rng=3))


def test_progress_refuses_as_calls_without_do():
    """With the index in the whole array, and nothing written."""
    operands = np.ones(9000, np.float32)
    operands[8500] = -1
    out, flags = np.full(9000, 7, np.int8), np.full(9000, 7, np.uint8)
    for progress in (None, lambda *done: None):
        with pytest.raises(ValueError, match=r"log of -1.0 at index \(8500,\) has a result that"):
            lp.log(operands, "int8", out=out, flags=flags, dtype=np.int8, progress=progress)
        assert np.all(out == 7)
        assert np.all(flags == 7)
        with pytest.raises(TypeError, match="out must be an array of float32 for values of 'bfloat16'"):
            lp.log(operands, "bfloat16", out=out, dtype=np.float32, progress=progress)
        with pytest.raises(ValueError, match="flags has shape"):
            lp.exp(operands, "bfloat16", flags=flags[:5], progress=progress)
        with pytest.raises(TypeError, match="a masked array would lose its mask"):
            lp.exp(np.ma.masked_array([1.0], [True]), "bfloat16", progress=progress)
        with pytest.raises(TypeError, match="exp gives single values, and 'mxfp4' has blocks"):
            lp.exp(operands, "mxfp4", progress=progress)


def test_a_pole_of_a_flushed_operand_signals_that_alone():
    """As a division by such an operand does; and too wide integers are refused, flushed or not."""
    flags, projection = np.empty(1, np.uint8), lp.Projection(subnormals="flush_operands")
    assert lp.log(np.float16([2.0**-20]), "binary16", projection=projection, flags=flags) == [-INFINITY]
    assert flags == [DIVIDE]
    assert lp.divide(np.float16([1]), np.float16([2.0**-20]), "binary16", projection=projection, flags=flags)
    assert flags == [DIVIDE]
    for given in (None, projection):
        with pytest.raises(ValueError, match="log2 takes integers of at most 53 bits"):
            lp.log2(np.array([2**60 + 1]), "binary32", projection=given)


def test_every_function_has_a_value_a_verb_and_a_row_in_the_docs():
    """The lists that must match."""
    assert {**values._ONE, **values._TWO}.keys() == FUNCTIONS.keys()
    assert set(functions.__all__) == set(FUNCTIONS)
    page = (pathlib.Path(__file__).parents[2] / "docs" / "functions.md").read_text()
    for name, rule in FUNCTIONS.items():
        assert f"| `{name}` | {rule.what} | {rule.special} |" in page
        assert callable(getattr(lp, name))
    assert f"and {len(FUNCTIONS)} in all" in page
    assert f"after {enclosures._MOST:,} bits" in page


def test_values_far_below_every_format_are_not_zero():
    """The enclosure of erfc is a ball around almost zero there."""
    operands = np.array([-1e15, -1e20, -1e26, -1e30, -3e38]).astype(ml_dtypes.bfloat16)
    flags = np.empty(5, np.uint8)
    down = lp.gelu(operands, "binary16", rounding="toward_negative", flags=flags, dtype=np.uint16)
    assert down.tolist() == [0x8001] * 5
    assert flags.tolist() == [INEXACT | 2] * 5
    assert lp.gelu(operands, "binary16", dtype=np.uint16).tolist() == [0x8000] * 5


def test_tables_and_elements_are_the_same():
    operands = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(np.float16)
    whole = lp.log1p(operands, "bfloat16")
    some = slice(12000, 12300)
    assert_same_bits(whole[some], lp.log1p(operands[some].astype(np.float32), "bfloat16"))


def test_rational_numbers_are_rounded_to_odd():
    for number in (Fraction(1, 3), Fraction(2) ** -1074 / 7, Fraction(5, 3), Fraction(10) ** 300 / 7):
        kind, negative, high, low, exponent, raised = exact(number)
        whole = (high << 64 | low) * Fraction(2) ** (exponent - 64)
        assert (kind, negative, raised) == (0, False, 0)
        assert high >> 63 == 1
        assert abs(whole - number) * 2**127 <= whole
        assert low & 1 == 1
    assert value_of("hypot", 3.0, 4.0)[2:5] == (5 << 61, 0, -61)


test_what_cannot_be_is_refused = refusal_test(
    globals(),
    """
lp.exp([2 ** 60 + 1], "binary32")
    ValueError: exp takes integers of at most 53 bits, which float64 holds; convert others
lp.log([-1.0], "int8")
    ValueError: log of -1.0 at index (0,) has a result that 'int8' has no code...
lp.exp([1.0], "mxfp4")
    TypeError: exp gives single values, and 'mxfp4' has blocks...
lp.exp([1.0], "binary32", fast=True)
    TypeError: exp has no keyword 'fast'...
lp.exp([1.0], "binary16", backend="oracle")
    ValueError: backend='oracle' does not serve this request: it takes all but functions; use 'scalar',
    which serves it, or leave backend out
lp.exp(["a"], "binary16")
    TypeError: values must be real numbers of at most 64 bits, not <U1: convert to a float type first
""",
)


@pytest.mark.parametrize("name", ["atan2", "atan2pi"])
def test_coordinates_have_their_names(name):
    function = getattr(lp, name)
    assert function(y=1.0, x=0.0, fmt="binary32") == function(1.0, 0.0, "binary32") > 0
