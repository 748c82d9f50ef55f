"""Operations as array verbs: shapes, types, memory, randomness, refusals. Results are tested elsewhere."""

from types import SimpleNamespace

import dask.array
import numpy as np
import pytest

import lowprec as lp
from lowprec.arrays.checks import codes_operand
from lowprec.arrays.operations import codes_of
from lowprec.spec import catalog
from lowprec.spec.arith import OPERANDS
from lowprec.spec.projection import Flag, Projection
from tests.support import assert_same_bits, refusal_test

RNG = np.random.default_rng(0)
X = (RNG.standard_normal((6, 50)) * 8).astype(np.float32)
Y = (RNG.standard_normal((6, 50)) * 2.0 ** RNG.integers(-6, 6, (6, 50))).astype(np.float32)


def projected(exact, fmt="e4m3fn", **options):
    """Values that float64 holds, projected; as float32."""
    return np.asarray(lp.quantize(np.asarray(exact, np.float64), fmt, **options)).astype(np.float32)


def same(got, want):
    """Equal bits, in an array of that type and shape."""
    assert_same_bits(
        np.asarray(got).reshape(-1), np.asarray(want).reshape(-1), range(np.size(want)), "values"
    )
    assert np.shape(got) == np.shape(want)


@pytest.mark.apart
def test_every_operation_is_public():
    """One verb for each, of its number of operands."""
    for operation, count in OPERANDS.items():
        operands = [np.float32(1.5)] * count
        if operation == "scaleb":
            operands[1] = 3
        assert isinstance(getattr(lp, operation)(*operands, "binary16"), np.float32)


# -- shapes -----------------------------------------------------------------------------------------


def test_scalars_give_scalars():
    """NumPy's; Python numbers are float64 or int64, and exact."""
    assert lp.add(1, 2.0**-4, "e4m3fn") == 1
    assert type(lp.multiply(1.5, 1.5, "e4m3fn")) is np.float32
    assert lp.fma(3, 3, -8.5, "e4m3fn", backend="oracle") == 0.5


# -- memory -----------------------------------------------------------------------------------------


READ_ONLY = np.zeros(X.shape, np.float32)
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize("flags", [None, np.zeros(4, np.uint8)], ids=["fast", "general"])
def test_results_without_a_code_are_refused_and_nothing_is_written(flags):
    """NaN in a format that has none: the operands and the place are named."""
    out = np.full(4, 7, np.float32)
    message = (
        r"divide of 0\.0, 0\.0 at index \(2,\) has a result that 'e2m1fn' has no code for, which has no NaN "
        r"code\. Replace such operands, say what becomes of it with Projection\(nan=\.\.\.\), or use "
        r"another format"
    )
    with pytest.raises(ValueError, match=message):
        lp.divide(np.float32([1, 2, 0, 3]), np.float32([1, 0, 0, 4]), "e2m1fn", out=out, flags=flags)
    assert out.tolist() == [7] * 4
    zeros = Projection(nan="zero")
    assert lp.divide([1, 2, 0, 3], [1, 0, 0, 4], "e2m1fn", projection=zeros).tolist() == [1, 6, 0, 1]
    with pytest.raises(
        ValueError, match=r"subtract of 1, 2 at index \(\).*'uint4'.*is unsigned.*negative=\.\.\."
    ):
        lp.subtract(1, 2, "uint4", projection=Projection(negative="error"))


# -- randomness -------------------------------------------------------------------------------------


def test_a_generator_is_drawn_from_once():
    """As for conversions."""
    generator, other = np.random.default_rng(3), np.random.default_rng(3)
    lp.add(X, Y, "e4m3fn", rounding="stochastic(8)", rng=generator)
    other.integers(0, 1 << 64, dtype=np.uint64)
    assert generator.integers(0, 1 << 62) == other.integers(0, 1 << 62)


# -- flags and intermediate formats -----------------------------------------------------------------

TINY, BIG, INF, NAN = np.float16([2.0**-24, 65504, np.inf, np.nan])
SIGNALING = np.uint16([0x7C01]).view(np.float16)[0]

#: Operation, operands in binary16, result and flags where subnormal operands are flushed.
FLUSHED = [
    ("add", (1, TINY), 1, Flag.INEXACT),
    ("multiply", (1, -TINY), -0.0, Flag.INEXACT),
    ("multiply", (BIG, BIG), INF, Flag.INEXACT | Flag.OVERFLOW),
    ("fma", (BIG, BIG, TINY), INF, Flag.INEXACT | Flag.OVERFLOW),
    ("sqrt", (TINY,), 0, Flag.INEXACT),
    ("divide", (INF, TINY), INF, Flag.INEXACT),  # an infinity by a zero is no division by zero
    ("minimum_number", (TINY, NAN), 0, Flag.INEXACT),
    # alone:
    ("divide", (1, TINY), INF, Flag.DIVIDE_BY_ZERO),
    ("logb", (TINY,), -INF, Flag.DIVIDE_BY_ZERO),
    ("rsqrt", (TINY,), INF, Flag.DIVIDE_BY_ZERO),
    ("divide", (TINY, TINY), NAN, Flag.INVALID),
    ("multiply", (INF, TINY), NAN, Flag.INVALID),
    ("remainder", (1, TINY), NAN, Flag.INVALID),
    ("fma", (INF, TINY, NAN), NAN, Flag.INVALID),
    ("add", (SIGNALING, TINY), NAN, Flag.INVALID),
    # no flag: the NaN of an operand, and operations of the sign, which flush nothing
    ("add", (NAN, TINY), NAN, 0),
    ("absolute", (-TINY,), TINY, 0),
]


def test_dask_arrays_without_axes_are_tried_on_no_zeros():
    """Zero divided by zero has no code in a format without NaN; the values do."""
    one, two = (dask.array.asarray(np.float64(value)) for value in (1.0, 2.0))
    assert lp.divide(one, two, "e2m1fn").compute() == 0.5
    drawn = lp.divide(one, 2.0, "e2m1fn", rounding="stochastic(8)", random=3, backend="oracle")
    assert drawn.compute() == 0.5


@pytest.mark.parametrize("backend", [None, "scalar", "oracle"])
@pytest.mark.parametrize(("operation", "operands", "result", "signals"), FLUSHED, ids=str)
def test_flags_beside_flushed_operands_are_those_written_down(operation, operands, result, signals, backend):
    """By decision 2: inexact, but not beside invalid, a division by zero or the NaN of an operand."""
    if operation == "rsqrt" and backend == "oracle":
        backend = None
    flags, how = np.full((), 32, np.uint8), Projection(subnormals="flush_operands")
    got = getattr(lp, operation)(
        *map(np.float16, operands), "binary16", projection=how, flags=flags, backend=backend
    )
    same(np.float16(got), np.float16(result))
    assert Flag(int(flags)) == signals


def test_flags_say_what_happened():
    """One operation each; an invalid one and a division by zero are signaled alone."""
    inf, big = np.inf, 65504.0
    flags = np.zeros(7, np.uint8)
    lp.divide([1, 1, 0, 1, big, 2.0**-14, inf], [2, 3, 0, 0, 2.0**-14, 3, inf], "binary16", flags=flags)
    over, under = Flag.OVERFLOW | Flag.INEXACT, Flag.UNDERFLOW | Flag.INEXACT
    assert flags.tolist() == [0, Flag.INEXACT, Flag.INVALID, Flag.DIVIDE_BY_ZERO, over, under, Flag.INVALID]
    lp.logb([0.0], "e4m3fn", flags=flags[:1])
    assert flags[0] == Flag.DIVIDE_BY_ZERO
    lp.minimum_number(np.uint16([0x7C01]).view(np.float16), [1.0], "binary16", flags=flags[:1])
    assert flags[0] == Flag.INVALID


def test_results_may_pass_through_another_format():
    """As in a framework that adds in binary32: the second rounding goes astray."""
    twice = Projection(via=(catalog.BINARY32,))
    x, y = np.float64([1.0625, 1.0]), np.float64([2.0**-40, 2.0**-40])
    assert lp.add(x, y, "e4m3fn").tolist() == [1.125, 1.0]
    signals = np.zeros(2, np.uint8)
    assert lp.add(x, y, "e4m3fn", projection=twice, flags=signals).tolist() == [1.0, 1.0]
    assert signals.tolist() == [Flag.INEXACT, Flag.INEXACT]
    words = lp.random_bits(X.shape, 1, 8)
    drawn = Projection(rounding="stochastic(8)", via=(catalog.BINARY32,))
    with np.errstate(all="ignore"):
        want = lp.quantize(X + Y, "e4m3fn", rounding="stochastic(8)", random=words)
    same(lp.add(X, Y, "e4m3fn", projection=drawn, random=words), want)


def test_codes_are_taken_and_given_inside():
    """What tools use: operands by their codes, in any formats, the result as codes."""
    x = codes_operand(np.uint8([0x38, 0x7F]), catalog.E4M3FN)
    y = codes_operand(np.uint32([0x59A74, 1]), catalog.TF32)
    got = codes_of("add", [x, y], catalog.UE4M3, Projection(rounding="to_odd"), np.dtype(np.uint8))
    assert got.tolist() == [0x37, 0x7F]


# -- what a second reading found --------------------------------------------------------------------


def test_a_precision_that_binary64_s_upper_half_does_not_hold_is_left_to_integers():
    """19 trailing bits: where another number of the vector is zero, all of it goes through 20 bits."""
    fmt = lp.Format(name="p20", exponent_bits=5, trailing_bits=19, bias=15)
    x, y = np.float32([float.fromhex("0x1.333334p-2"), 0]), np.float32([1 + 2.0**-12, 1])
    how, flags = Projection(nan="max"), np.zeros(2, np.uint8)
    want = lp.multiply(x, y, fmt, dtype=np.uint32, projection=how, flags=flags)
    assert lp.multiply(x, y, fmt, dtype=np.uint32, projection=how).tolist() == want.tolist() == [6920755, 0]


def test_the_first_signaling_nan_counts_where_only_its_sign_is_left():
    """E4M3's NaN has a sign and no payload."""
    quiet, signaling = (np.uint32([code]).view(np.float32) for code in (0xFFC00000, 0x7F800001))
    how = Projection(nan_payload="signaling_first")
    assert lp.add(quiet, signaling, "e4m3fn", projection=how, dtype=np.uint8) == 0x7F
    assert (
        lp.fma(np.float32([0]), np.float32([np.inf]), quiet, "e4m3fn", projection=how, dtype=np.uint8) == 0x7F
    )
    assert lp.add(quiet, signaling, "e4m3fn", dtype=np.uint8) == 0xFF


def test_a_signaling_addend_comes_before_signaling_factors():
    """Its payload and sign are those of the result; IEEE 754 leaves the choice open, Arm does not."""
    x, z = (np.uint32([code]).view(np.float32) for code in (0x7F800001, 0xFF800002))
    how = Projection(nan_payload="signaling_first")
    for backend in ("scalar", "oracle"):
        for factors in ((x, np.float32([1])), (np.float32([1]), x)):
            made = lp.fma(*factors, z, "binary32", projection=how, backend=backend)
            assert made.view(np.uint32) == 0xFFC00002


def test_results_are_of_native_byte_order():
    """Another is refused; operands may have any, single ones too."""
    with pytest.raises(TypeError, match="out is of >f2, whose bytes"):
        lp.add(X, Y, "binary16", out=np.zeros(X.shape, ">f2"))
    with pytest.raises(TypeError, match="not >f4"):
        lp.add(X, Y, "binary32", dtype=">f4")
    assert lp.sqrt(np.array([4.0], ">f4"), "e4m3fn").tolist() == [2.0]
    assert lp.add(np.ones(3, np.float32), np.array(4.0, ">f4"), "e4m3fn").tolist() == [5.0] * 3


def test_powers_of_two_are_integers_after_a_call_without_elements():
    """Which takes any type, and says nothing of the next call with arrays of its types."""
    for shape in ((0,), (0, 2)):
        assert lp.scaleb(np.zeros(shape, np.float32), np.zeros(shape), "e3m4").shape == shape
    with pytest.raises(TypeError, match="scaleb takes integers"):
        lp.scaleb(np.ones(3, np.float32), np.full(3, 2.5), "e3m4")


test_what_cannot_be_is_refused = refusal_test(
    {**globals(), "SimpleNamespace": SimpleNamespace},
    """
lp.add(X, Y, "e4m3fn", out=np.zeros(X.shape, np.int32))
    TypeError: values are given as float16, bfloat16, float32 or float64, not int32
lp.add(X, Y, "e4m3fn", out=np.zeros((6, 49), np.float32))
    ValueError: out has shape (6, 49), but the result has shape (6, 50)...
lp.add(X, Y, "e4m3fn", out=READ_ONLY)
    ValueError: out is read-only...
lp.add(X, Y, "e4m3fn", out=[1.0])
    TypeError: out must be a NumPy array of float32, not list
lp.add(X, Y, "e4m3fn", out=SimpleNamespace(dtype="torch.float32"))
    TypeError: out must be a NumPy array of float32, not SimpleNamespace
lp.add(X, Y, "bfloat16", dtype="float16")
    ValueError: float16 does not hold every value of 'bfloat16'...
lp.add(X, Y, "e4m3fn", flags=np.zeros(X.shape, np.int8))
    TypeError: flags must be an array of uint8...
lp.add(X, Y, "e4m3fn", rounding="nearest")
    ValueError: unknown rounding 'nearest'...
lp.add(X, Y, "e4m3fn", random=np.zeros(X.shape, np.uint32))
    ValueError: random= is for stochastic rounding...
lp.add(X, Y, "e4m3fn", rounding="stochastic(8)")
    ValueError: ...needs random= or rng=...
lp.add(X, Y, "e4m3fn", saturation="none", profile="ocp_sat")
    ValueError: ...both say how to convert...
lp.add(X, Y, "mxfp4")
    TypeError: add gives single values, and 'mxfp4' has blocks: operate into a format such as...
lp.add(X, Y, "e4m3")
    ValueError: ...e4m3fn...
lp.add(np.zeros(3), np.zeros(4), "e4m3fn")
    ValueError: add takes operands that broadcast together, not of shapes (3,) and (4,)
lp.scaleb(1.5, 3.0, "e4m3fn")
    TypeError: scaleb takes integers as powers of two, not float64; use .astype('int32')
lp.add(X, X.astype(np.complex128), "e4m3fn")
    TypeError: values must be real numbers of at most 64 bits, not complex128...
lp.add(X, dask.array.from_array(Y), "e4m3fn", out=np.empty(X.shape, np.float32))
    ValueError: out= is for NumPy arrays; a dask array is converted lazily: leave it out
lp.add(X, Y, "e4m3fn", round="to_odd")
    TypeError: add has no keyword 'round'; it has rounding, saturation, projection...
""",
)
