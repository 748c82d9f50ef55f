"""The four verbs on arrays: shapes, layouts, types in and out, and where results are put."""

import itertools

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st

import lowprec as lp
from lowprec.kernels.compiling import at_once
from lowprec.kernels.engine import MANY, lower
from lowprec.kernels.request import CONVERT, Elementwise
from lowprec.oracle import convert as oracle
from lowprec.spec import catalog
from tests.support import assert_same_bits, assert_same_codes

E4M3FN = catalog.E4M3FN
SAMPLE = np.linspace(-500, 500, 24, dtype=np.float32)

# -- shapes and strides -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "scalar", [3.3, 3, True, np.float32(3.3), np.int8(3), np.array(3.3), ml_dtypes.bfloat16(3.3)]
)
def test_a_scalar_gives_a_scalar(scalar):
    """Zero-dimensional in, NumPy scalar out, from all verbs."""
    code = lp.encode(scalar, E4M3FN)
    assert type(code) is np.uint8
    assert int(code) == oracle.encode(float(scalar), E4M3FN)
    assert type(lp.decode(code, E4M3FN)) is np.float32
    assert type(lp.cast(code, E4M3FN, "binary16")) is np.uint16
    assert type(lp.quantize(scalar, E4M3FN)).__module__ in ("numpy", "ml_dtypes")
    assert lp.quantize(scalar, E4M3FN).shape == ()


def test_lists_and_tuples_are_arrays():
    """Python numbers are float64 and int64, as NumPy has it."""
    assert lp.encode([[0.1, 448], (500.0, -1)], E4M3FN).tolist() == [[29, 126], [127, 184]]
    assert lp.decode([[0, 126], [127, 255]], E4M3FN).shape == (2, 2)
    assert lp.cast((126, 127), "e4m3fn", "e5m2").tolist() == [95, 126]
    assert lp.quantize([0.1], E4M3FN).dtype == np.float32
    for verb in (lp.encode, lp.decode, lp.quantize):
        assert verb([], E4M3FN).shape == (0,)
    assert lp.decode([], E4M3FN).dtype == np.float32
    assert lp.cast([[]], E4M3FN, "e5m2").shape == (1, 0)


def test_no_kernel_is_compiled_for_memory_that_is_read_only():
    """The same serve all: arrays so marked, and the pieces in which swapped and strided ones are read."""
    sample = np.resize(SAMPLE, 2 * MANY)
    locked = sample.copy()
    locked.flags.writeable = False
    with at_once():
        for values in (locked, sample[::2], sample.astype(">f4")):
            codes = lp.encode(values, E4M3FN)
            codes.flags.writeable = False
            lp.decode(codes, E4M3FN)
            lp.add(values, values, E4M3FN)
    locked.flags.writeable = True
    single, rule = catalog.BINARY32, lp.Projection()
    requests = [Elementwise(CONVERT, (single,), E4M3FN, rule), Elementwise(CONVERT, (E4M3FN,), single, rule)]
    requests += [Elementwise("add", (single,) * 2, E4M3FN, rule, single)]
    for request in requests:
        way = lower(request)
        types = [
            kind for signature in way.kernels[1].signatures for kind in signature if hasattr(kind, "layout")
        ]
        assert types
        assert all(kind.mutable for kind in types), types


# -- source types -----------------------------------------------------------------------------------

ML_DTYPES_FLOATS = [name for name in dir(ml_dtypes) if name.startswith(("float", "bfloat"))]


@pytest.mark.parametrize("name", ML_DTYPES_FLOATS)
def test_values_come_in_every_float_type_of_ml_dtypes(name):
    """All codes of at most 8 bits, every 61st of bfloat16; the oracle casts the same codes."""
    source = lp.format(name)
    codes = np.arange(0, 1 << source.width, 61 if source.width > 8 else 1, dtype=f"u{source.code_bits // 8}")
    values = codes.view(getattr(ml_dtypes, name))
    for target in (catalog.E5M2, catalog.BINARY16, catalog.E4M3FNUZ):
        want = [oracle.cast(int(code), source, target) for code in codes]
        assert_same_codes(lp.encode(values, target), want, target, codes)


def test_booleans_are_zero_and_one():
    """Of NumPy's type, and Python's."""
    assert lp.encode(np.array([False, True, True]), "binary32").tolist() == [0, 0x3F800000, 0x3F800000]
    assert lp.encode([True, False], "int4").tolist() == [1, 0]
    assert lp.quantize(np.array([True]), "e4m3fn").dtype == np.float32


# -- one rounding -----------------------------------------------------------------------------------

ROUNDED_ONCE = [
    # (operand, format, right answer): each goes wrong by way of a narrower float
    (1.0625 + 2.0**-40, "e4m3fn", 1.125),
    (-431.99999999999994, "e4m3fn", -416.0),
    (61440 - 1e-9, "e5m2", 57344.0),
    (1 + 2.0**-8 + 2.0**-40, "bfloat16", 1.0078125),
    (np.int64(16973823), "bfloat16", 16908288.0),
    (np.int64((1 << 53) + (1 << 29) + 1), "binary32", 2.0**53 + 2.0**30),
    (np.uint64((1 << 63) + (1 << 39) + 1), "binary32", 2.0**63 + 2.0**40),
    (np.int64(-(1 << 62) - (1 << 54) - 1), "bfloat16", -(2.0**62) - 2.0**55),
]


@pytest.mark.parametrize(("operand", "fmt", "right"), ROUNDED_ONCE)
def test_wide_operands_are_rounded_once(operand, fmt, right):
    """Each operand lies so close to a tie that a float32 (or float64) of it is the tie."""
    assert float(lp.quantize(operand, fmt)) == right
    assert float(lp.decode(lp.encode(operand, fmt), fmt)) == right


# -- types of results -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fmt", "dtype"),
    [
        ("e2m1fn", "u1"),
        ("ue4m3", "u1"),
        ("e4m3fn", "u1"),
        ("binary9p3se", "u2"),
        ("bfloat16", "u2"),
        ("tf32", "u4"),
    ],
)
def test_codes_come_in_the_narrowest_unsigned_integer(fmt, dtype):
    """8, 16 or 32 bits; bits beyond the width are zero."""
    codes = lp.encode(SAMPLE, fmt)
    assert codes.dtype == dtype
    assert int(codes.max()) < 1 << lp.format(fmt).width


def test_decode_gives_float32_wherever_it_holds_the_format_and_else_float64():
    """binary11p1se has 2**-511 to 2**510, beyond float32; "wide" has one exponent bit more than float32."""
    assert lp.decode([0], "binary32").dtype == np.float32
    assert lp.decode([0], "tf32").dtype == np.float32
    assert lp.decode([0], "e8m0fnu").dtype == np.float32
    assert lp.decode([0], "int8").dtype == np.float32
    assert lp.decode([0], "binary11p1se").dtype == np.float64
    assert (
        lp.decode([0], lp.Format(name="wide", exponent_bits=9, trailing_bits=2, bias=255)).dtype == np.float64
    )


@pytest.mark.parametrize(
    "dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64, "float64", "bfloat16"]
)
def test_decode_gives_the_type_that_is_asked_for(dtype):
    """By type object, dtype or name (bfloat16's is known to NumPy once ml_dtypes is imported)."""
    values = lp.decode(np.arange(256), "e4m3fn", dtype=dtype)
    assert values.dtype == np.dtype(dtype)
    with np.errstate(invalid="ignore"):
        assert_same_bits(
            values.astype(np.float32)[:127], lp.decode(np.arange(127), "e4m3fn"), range(127), str(dtype)
        )


KEPT = {
    ("float16", "e4m3fn"): "float16",
    ("float16", "e5m2"): "float16",
    ("float16", "bfloat16"): "float32",  # float16 does not hold it
    ("float16", "e8m0fnu"): "float32",
    ("bfloat16", "e4m3fn"): "bfloat16",
    ("bfloat16", "e8m0fnu"): "bfloat16",
    ("bfloat16", "binary16"): "float32",
    ("float32", "binary16"): "float32",
    ("float32", "binary32"): "float32",
    ("float64", "e2m1fn"): "float64",
    ("float64", "binary32"): "float64",
    ("float32", "binary11p1se"): "float64",
    ("int32", "e4m3fn"): "float32",
    ("uint64", "binary11p1se"): "float64",
    ("float8_e4m3fn", "e2m1fn"): "float32",
    ("bool", "int4"): "float32",
}


@pytest.mark.parametrize(("given", "fmt"), KEPT, ids=str)
def test_quantize_keeps_float_types_that_hold_the_format(given, fmt):
    """Other operands give what decode gives; zero-dimensional operands too."""
    dtype = getattr(ml_dtypes, given, None) or np.dtype(given)
    assert lp.quantize(np.ones(3).astype(dtype), fmt).dtype.name == KEPT[given, fmt]
    assert lp.quantize(np.ones(()).astype(dtype), fmt).dtype.name == KEPT[given, fmt]


# -- out --------------------------------------------------------------------------------------------


def test_a_scalar_can_be_put_in_a_zero_dimensional_out():
    """`out` is returned, not a scalar."""
    out = np.zeros((), np.uint8)
    assert lp.encode(448.0, "e4m3fn", out=out) is out
    assert int(out) == 126


def test_out_decides_the_type_of_decoded_and_quantized_values():
    """Where it holds the format; `dtype=` need not be repeated."""
    for dtype in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64):
        out = np.zeros(3, dtype)
        assert lp.decode([0, 56, 126], "e4m3fn", out=out) is out
        assert out.astype(np.float64).tolist() == [0.0, 1.0, 448.0]
        out = np.zeros(3, dtype)
        assert lp.quantize([0.0, 1.01, 460.0], "e4m3fn", out=out) is out
        assert out.astype(np.float64).tolist() == [0.0, 1.0, 448.0]


@pytest.mark.parametrize(
    "call",
    [
        lambda values, out: lp.quantize(
            -values[::-1], "ue4m3", projection=lp.Projection(negative="error"), out=out
        ),
        lambda values, out: lp.decode([1, 2, 3, 256], "e4m3fn", out=out),
    ],
    ids=["quantize_negative", "decode"],
)
def test_out_is_untouched_by_a_call_that_fails(call):
    """The operand that is refused comes last, after others that would have been written."""
    values = np.array([1.0, 2.0, 3.0, np.nan], np.float32)
    out = np.full(4, 77.0, np.float32)
    with pytest.raises(ValueError, match=r"cannot encode|are 0 to 255"):
        call(values, out)
    assert out.tolist() == [77.0] * 4


def test_codes_given_as_the_formats_own_type_may_be_put_over_themselves():
    """A view of an ml_dtypes array is codes; casting in place is allowed."""
    typed = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn)
    codes = typed.view(np.uint8)
    want = lp.cast(codes.copy(), "e4m3fn", "e5m2")
    lp.cast(typed, "e4m3fn", "e5m2", out=codes)
    assert codes.tolist() == want.tolist()


# -- spelling ---------------------------------------------------------------------------------------


def test_shorthands_and_projections_say_the_same():
    """rounding= and saturation= alone or together, as names or values; projection= with both in it."""
    values = np.array([0.3, 1.45, 464.1, -1e9, np.inf])
    for rounding, saturation in itertools.product(
        [None, "to_odd", "toward_positive"], [None, "finite", "propagate"]
    ):
        fields = {k: v for k, v in (("rounding", rounding), ("saturation", saturation)) if v is not None}
        projection = lp.Projection(**fields)
        want = [oracle.encode(float(value), E4M3FN, projection) for value in values]
        assert lp.encode(values, E4M3FN, **fields).tolist() == want
        assert lp.encode(values, E4M3FN, projection=projection).tolist() == want
        codes = lp.encode(values, "bfloat16")
        again = lp.cast(codes, "bfloat16", E4M3FN, projection=projection)
        assert lp.cast(codes, "bfloat16", E4M3FN, **fields).tolist() == again.tolist()
        same = lp.Projection(rounding=projection.rounding, saturation=projection.saturation)
        assert lp.encode(values, E4M3FN, rounding=same.rounding, saturation=same.saturation).tolist() == want


@given(values=st.lists(st.floats(width=32, allow_nan=False), max_size=20))
def test_quantize_changes_nothing_twice(values):
    """A law: what a format holds is not rounded. Saturating, so that overflow stays in the format."""
    once = lp.quantize(np.array(values, np.float32), "e3m2fn", saturation="finite")
    assert lp.quantize(once, "e3m2fn", saturation="finite").tobytes() == once.tobytes()
