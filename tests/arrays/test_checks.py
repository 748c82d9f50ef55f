"""Refusals, word for word: what was asked, what was given, why it cannot be, the way out."""

import dataclasses
import fractions
import re

import dask.array
import ml_dtypes
import numpy as np
import pytest
import scipy.sparse

import lowprec as lp
from lowprec.arrays.checks import narrowed, values_operand
from lowprec.methods import fp8
from lowprec.spec.format import Format
from tests.support import refusal_test

NANS = np.ones((2, 17), np.float32)
NANS[0, 16] = NANS[1, 3] = np.nan
READ_ONLY = np.zeros(3, np.uint8)
READ_ONLY.flags.writeable = False
NEGATIVE_ERROR = lp.Projection(negative="error")


def refused(error, message, call):
    """The call raises this very type with this very message."""
    with pytest.raises(error, match=f"^{re.escape(message)}$") as caught:
        call()
    assert type(caught.value) is error


# -- values -----------------------------------------------------------------------------------------


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize <= 8, reason="here a longdouble is a float64")
def test_longdouble_is_refused_since_it_would_be_rounded_twice():
    """It has more bits than a float64; the user decides."""
    name = np.dtype(np.longdouble).name
    refused(
        TypeError,
        f"values must be real numbers of at most 64 bits, not {name}: lowprec carries values in float64; "
        ".astype('float64') is right where it changes none of them",
        lambda: lp.encode(np.longdouble(1), "e4m3fn"),
    )


@pytest.mark.parametrize("name", [name for name in dir(ml_dtypes) if "complex" in name])
def test_complex_types_of_ml_dtypes_are_refused(name):
    """They are of NumPy's kind V, as its real types are."""
    refused(
        TypeError,
        f"values must be real numbers of at most 64 bits, not {name}: convert the real and the imaginary "
        "part by themselves",
        lambda: lp.encode(np.zeros(2, getattr(ml_dtypes, name)), "e4m3fn"),
    )


# -- rules ------------------------------------------------------------------------------------------


def test_a_profile_may_be_rounded_otherwise():
    """Its other rules stay: of single values the saturation, of blocks the rule of scales and the rest."""
    values = np.float32([1.06, 500.0, -1.2])
    found = lp.encode(values, "e4m3fn", profile="ocp_sat", rounding="toward_zero")
    assert (found == lp.encode(values, "e4m3fn", rounding="toward_zero", saturation="finite")).all()
    assert (found != lp.encode(values, "e4m3fn", profile="ocp_sat")).any()
    row = np.linspace(-7, 7, 64, dtype=np.float32)
    blocks = lp.encode(row, "mxfp4", profile="torchao_rceil", rounding="toward_zero")
    plain = lp.profiles["torchao_rceil"].block("mxfp4")
    elements = dataclasses.replace(plain.elements, rounding="toward_zero")
    wanted = lp.encode(row, dataclasses.replace(plain, elements=elements))
    assert (blocks.codes == wanted.codes).all()
    assert (blocks.scales == wanted.scales).all()
    assert (blocks.codes != lp.encode(row, "mxfp4", profile="torchao_rceil").codes).any()


# -- dtype ------------------------------------------------------------------------------------------


def test_a_format_without_a_type_in_numpy_or_ml_dtypes_is_refused():
    """What to keep its codes as is said instead."""
    version = ml_dtypes.__version__
    for name, code in (
        ("tf32", "uint32"),
        ("ue4m3", "uint8"),
        ("binary9p3se", "uint16"),
        ("e3m0fn", "uint8"),
    ):
        message = f"neither NumPy nor ml_dtypes {version} has a type for {name!r}; keep its codes as {code}"
        refused(ValueError, message, lambda name=name, message=message: lp.dtype(name))


@pytest.mark.parametrize(
    ("fmt", "name"),
    [
        ("binary16", "float16"), ("binary32", "float32"), ("bfloat16", "bfloat16"),
        ("e4m3fn", "float8_e4m3fn"), ("float8_e4m3", "float8_e4m3"), ("e8m0fnu", "float8_e8m0fnu"),
        ("e2m1fn", "float4_e2m1fn"), ("e3m2fn", "float6_e3m2fn"), ("int4", "int4"), ("uint2", "uint2"),
        ("int8", "int8"), ("uint8", "uint8"),
    ],
)  # fmt: skip
def test_dtype_is_the_type_whose_elements_are_the_codes(fmt, name):
    """By name; and the format of that type is the one that was asked for."""
    assert lp.dtype(fmt).name == name
    assert lp.format(lp.dtype(fmt)) is lp.format(fmt)


def test_a_format_equal_to_a_known_one_has_its_type():
    """Formats are their parameters, not their names."""
    mine = Format(name="mine", exponent_bits=4, trailing_bits=3, bias=7, nans=1)
    assert lp.dtype(mine).name == "float8_e4m3fn"
    assert lp.decode(np.zeros(1, lp.dtype(mine)), mine).tolist() == [0.0]


@pytest.mark.parametrize("kind", [np.matrix, np.memmap])
def test_subclasses_of_arrays_may_be_written(kind, tmp_path):
    """By every verb that writes; what comes back is the object itself. Masked arrays may not."""
    values, codes = np.ones((2, 32), np.float32), np.full((2, 32), 0x38, np.uint8)
    blocks, eye = lp.encode(values, "mxfp4"), np.eye(32, dtype=np.float32)

    def room(dtype):
        if kind is np.matrix:
            return np.zeros((2, 32), dtype).view(np.matrix)
        return np.memmap(tmp_path / "room", dtype, "w+", shape=(2, 32))

    calls = {
        "encode": (np.uint8, codes, lambda **given: lp.encode(values, "e4m3fn", **given)),
        "decode": (np.float32, values, lambda **given: lp.decode(codes, "e4m3fn", **given)),
        "blocks": (np.float32, values, lambda **given: lp.decode(blocks, **given)),
        "quantize": (np.float32, values, lambda **given: lp.quantize(values, "e4m3fn", **given)),
        "cast": (np.uint8, codes + 4, lambda **given: lp.cast(codes, "e4m3fn", "e5m2", **given)),
        "add": (np.float32, values, lambda **given: lp.add(values, 0.0, "e4m3fn", **given)),
        "exp": (np.float32, values, lambda **given: lp.exp(values * 0, "e4m3fn", **given)),
        "watched": (
            np.float32,
            values,
            lambda **given: lp.exp(values * 0, "e4m3fn", progress=print, **given),
        ),
        "matmul": (np.float32, values, lambda **given: lp.matmul(values, eye, "fp32_fma", **given)),
        "scaled": (np.float32, values, lambda **given: lp.matmul(values, eye, "fp32_fma", bias=0.0, **given)),
    }
    for name, (dtype, want, call) in calls.items():
        out = room(dtype)
        assert call(out=out) is out, name
        assert type(out) is kind
        assert np.array_equal(out, want), name
        with pytest.raises(
            TypeError, match=r"^out is a masked array, whose mask results do not have; give out\.data$"
        ):
            call(out=np.ma.zeros((2, 32), dtype))
    flags = room(np.uint8)
    for call in (
        lambda flags: lp.encode(values * 0.3, "e4m3fn", flags=flags),
        lambda flags: lp.equal(np.full((2, 32), 0x7D, np.uint8), codes, "e5m2", flags=flags),
    ):
        plain = np.zeros((2, 32), np.uint8)
        call(plain)
        call(flags)
        assert plain.all()
        assert np.array_equal(flags, plain)
        with pytest.raises(TypeError, match=r"^flags is a masked array"):
            call(np.ma.zeros((2, 32), np.uint8))


@pytest.mark.parametrize(
    "name", ["int8", "uint8", "binary16", "binary32", "bfloat16", "int4", "e4m3fn", "e2m1fn"]
)
def test_arrays_of_the_formats_own_type_are_codes(name):
    """What lp.dtype gives is understood again, negative numbers included."""
    codes = lp.encode([1.0, -1.0, 0.0] if name != "uint8" else [1.0, 2.0, 200.0], name)
    typed = codes.view(lp.dtype(name))
    assert (lp.decode(typed, name) == lp.decode(codes, name)).all()


@pytest.mark.parametrize("dtype", [">f2", ">f4", ">f8", "<f2"])
def test_quantize_keeps_the_type_of_byte_swapped_values(dtype):
    """In the machine's own order."""
    assert lp.quantize(np.array([1.0, 1.03], dtype), "e4m3fn").dtype == np.dtype(dtype).newbyteorder("=")


@pytest.mark.parametrize("name", ["binary16", "binary32"])
def test_typed_arrays_in_the_other_byte_order_are_codes_too(name):
    """As they are values to `encode`: to every verb that takes codes."""
    x = np.array([1, 2, -0.5, np.nan], lp.dtype(name))
    swapped = x.astype(x.dtype.newbyteorder())
    for _ in range(2):
        assert lp.decode(swapped, name).tobytes() == lp.decode(x, name).tobytes()
        assert lp.cast(swapped, name, "e4m3fn").tolist() == lp.cast(x, name, "e4m3fn").tolist()
    assert lp.equal(swapped, x, name).tolist() == [True, True, True, False]


NARROW = ("float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn", "int4", "uint4", "int2", "uint2")


@pytest.mark.parametrize("name", NARROW)
def test_unused_bits_of_narrow_types_are_no_part_of_codes(name):
    """They packed into their neighbour and made NaNs of numbers. Every verb, comparison and layout."""
    fmt, kind = lp.format(name), np.dtype(getattr(ml_dtypes, name))
    codes = np.arange(64, dtype=np.uint8) & np.uint8((1 << fmt.width) - 1)
    clean, dirty = codes.view(kind), (codes | np.uint8(0xFF << fmt.width & 0xFF)).view(kind)
    back = slice(None, None, -1)
    calls = {
        "decode": lambda x: lp.decode(x, fmt),
        "cast": lambda x: lp.cast(x, fmt, "binary16"),
        "encode": lambda x: lp.encode(x, "e4m3fn"),
        "quantize": lambda x: lp.quantize(x, "e4m3fn"),
        "add": lambda x: lp.add(x, x[back], "binary16"),
        "negative": lambda x: lp.negative(x, "binary16"),
        "classify": lambda x: lp.classify(x, fmt),
        "equal": lambda x: lp.equal(x, x[back], fmt),
        "less": lambda x: lp.less(x, x[back], fmt),
        "unordered": lambda x: lp.unordered(x, x[back], fmt),
        "total_order": lambda x: lp.total_order(x, x[back], fmt),
        "nextafter": lambda x: lp.nextafter(x, x[back], "e4m3fn"),
        "dot": lambda x: lp.dot(x, x, "fp32_fma"),
        "blocks": lambda x: lp.encode(x, "mxfp8_e4m3").codes,
        "error_report": lambda x: np.float64(lp.error_report(x, "e5m2").mse),
        "scale_for": lambda x: lp.scale_for(x, "e4m3fn"),
    }
    if fmt.width > 2:
        block = dataclasses.replace(lp.block_formats["mxfp4"], element=fmt)
        scales = np.full(2, 127, np.uint8)
        calls["packed"] = lambda x: lp.BlockArray(x, scales, block).packed()
        calls["codes"] = lambda x: lp.BlockArray(x, scales, block).codes
    for verb, call in calls.items():
        for _ in range(2):
            assert np.asarray(call(dirty)).tobytes() == np.asarray(call(clean)).tobytes(), verb


def test_every_byte_of_a_boolean_but_zero_is_true():
    """As NumPy has it, for views of other bytes too."""
    truths = np.array([0, 1, 2, 255], np.uint8).view(bool)
    for _ in range(2):
        assert lp.quantize(truths, "e4m3fn").tolist() == [0.0, 1.0, 1.0, 1.0]
        assert lp.add(truths, truths, "e4m3fn").tolist() == [0.0, 2.0, 2.0, 2.0]


@pytest.mark.parametrize("shape", [(), (0,), (70_000,), (300, 300)], ids=str)
def test_float64_values_are_narrowed_only_if_all_are_binary32_numbers(shape):
    """In whichever part one lies that is not; a signaling NaN is not, and a payload of few bits is."""
    values = np.random.default_rng(0).standard_normal(shape).astype(np.float32).astype(np.float64)
    values = np.array(values, order="F")
    narrow = narrowed(values_operand(values))
    assert narrow.array.dtype == np.float32
    assert narrow.array.shape == shape
    np.testing.assert_array_equal(narrow.array, values)
    signaling = np.array(0x7FF0000000000001, np.uint64).view(np.float64)
    payload = np.array(0xFFF8000020000000, np.uint64).view(np.float64)
    for place in {0, values.size // 2, values.size - 1} if values.size else ():
        for odd in (1 + 2.0**-40, 1e300, 2.0**-1060, signaling):
            wide = values.copy()
            wide.flat[place] = odd
            assert narrowed(values_operand(wide)).array.dtype == np.float64
        values.flat[place] = payload
        assert narrowed(values_operand(values)).array.dtype == np.float32


PROFILES = ", ".join(lp.profiles)
BUFFER, MASKED = np.zeros(3, np.uint8), np.ma.masked_array([1.0, 2.0], [True, False])
WIDE, EYE = np.ma.masked_array(np.ones((2, 2)), np.eye(2)), np.eye(2)
LAZY, LAZY_EYE = (dask.array.from_array(each) for each in (MASKED, EYE))
BLOCKS = {"scales": (np.ones((2, 2)), None), "epilogue": lp.Epilogue(block=1)}

#: Verbs that refuse alike: a format's name, what is no code, rules, a place for results and a type of them.
ALIKE = {
    "named_encode": lambda name: lp.encode(1.0, name),
    "named_decode": lambda name: lp.decode(1, name),
    "named_quantize": lambda name: lp.quantize(1.0, name),
    "named_from": lambda name: lp.cast(1, name, "e5m2"),
    "named_to": lambda name: lp.cast(1, "e5m2", name),
    "cast_codes": lambda codes, fmt: lp.cast(codes, fmt, "binary32"),
    "ruled_encode": lambda **rule: lp.encode(1.0, "e4m3fn", **rule),
    "ruled_quantize": lambda **rule: lp.quantize(1.0, "e4m3fn", **rule),
    "ruled_cast": lambda **rule: lp.cast(1, "e5m2", "e4m3fn", **rule),
    "into_encode": lambda out: lp.encode([1.0, 2.0, 3.0], "e4m3fn", out=out),
    "into_cast": lambda out: lp.cast([1, 2, 3], "e5m2", "e4m3fn", out=out),
    "typed_add": lambda asked: lp.add(1.0, 1.0, "e4m3fn", dtype=asked),
    "typed_dot": lambda asked: lp.dot([1.0], [1.0], "exact", dtype=asked),
    "typed_matmul": lambda asked: lp.matmul([[1.0]], [[1.0]], "exact", dtype=asked),
    "typed_decode": lambda asked: lp.decode([1], "e4m3fn", dtype=asked),
    "typed_values": lambda asked: lp.encode([1.0], "mxfp4").values(asked),
    "typed_fp8": lambda asked: fp8.decode(fp8.encode([1.0]), asked),
}
NAMED = "{named_encode|named_decode|named_quantize|named_from|named_to}"
RULED = "{ruled_encode|ruled_quantize|ruled_cast}"
TYPED = "{typed_add|typed_dot|typed_matmul|typed_decode|typed_values|typed_fp8}"
CODES = "{decode|cast_codes}"
OTHER_ORDER = "whose bytes are in the other order than this machine's; give a native array"
LOST = "a masked array would lose its mask; give .filled(...), or .data and put the mask back afterwards"


@pytest.mark.parametrize("kind", ["csr_matrix", "coo_matrix", "bsr_array", "csr_array", "lil_array"])
def test_sparse_arrays_of_scipy_are_refused_alone_and_in_lists(kind):
    sparse = getattr(scipy.sparse, kind)(np.eye(3))
    for given in (sparse, [sparse]):
        refused(
            TypeError,
            f"{kind} is sparse, which results are not; give .toarray()",
            lambda given=given: lp.encode(given, "e4m3fn"),
        )


test_what_cannot_be_is_refused = refusal_test(
    {**globals(), **ALIKE, "decode": lp.decode, "fractions": fractions},
    f"""
{CODES}(np.array(["a"], np.dtypes.StringDType()), "e4m3fn")
    TypeError: an array of StringDType() holds text; convert it to numbers first, by .astype(float)
lp.encode([1.0], "e4m3fn", flags=np.array(["a"], np.dtypes.StringDType()))
    TypeError: flags must be an array of uint8 for what is signaled, not of StringDType()
{NAMED}("e4m3")
    ValueError: format 'e4m3' is ambiguous: use 'e4m3fn' (OCP, no infinities, max 448), 'float8_e4m3'
    (with infinities, max 240) or 'e4m3fnuz' (one NaN, max 240)
{NAMED}("e4m3fm")
    ValueError: unknown format 'e4m3fm'; did you mean 'e4m3fn' or 'ue4m3' or 'e4m3fnuz'? `lowprec
    formats` lists all names
{NAMED}(np.float64)
    ValueError: 'float64' is a type that values come in, not a format to encode to: lowprec carries
    values in float64 and codes in at most 32 bits. Use 'binary32' or narrower; for integers,
    `lowprec.spec.families.fixed`
{NAMED}(3)
    TypeError: a format must be a Format, a name or a dtype, not 3
{CODES}([[1, 16], [3, 20]], "e2m1fn")
    ValueError: codes of 'e2m1fn' are 0 to 15: 2 of 4 are not, the first at index (0, 1), which is 16.
    Mask the unused bits, or name the format that they are codes of
{CODES}(300, "e4m3fn")
    ValueError: codes of 'e4m3fn' are 0 to 255: 1 of 1 is not, which is 300. Mask the unused bits, or
    name the format that they are codes of
{CODES}([1, -1], "e4m3fn")
    ValueError: codes of 'e4m3fn' are 0 to 255: 1 of 2 is not, the first at index (1,), which is -1....
{CODES}(np.array([-1], np.int16), "int8")
    ValueError: codes of 'int8' are 0 to 255: 1 of 1 is not, the first at index (0,), which is -1....
{CODES}(np.uint64((1 << 64) - 1), "tf32")
    ValueError: codes of 'tf32' are 0 to 524287: 1 of 1 is not, which is 18446744073709551615....
{CODES}([1.0], "e4m3fn")
    TypeError: codes of 'e4m3fn' must be integers, not float64: `encode` makes codes from values
{CODES}(np.zeros(2, np.float16), "e4m3fn")
    TypeError: codes of 'e4m3fn' must be integers, not float16: `encode` makes codes from values
{CODES}(np.zeros(2, ml_dtypes.float8_e5m2), "e4m3fn")
    TypeError: codes of 'e4m3fn' must be integers, not float8_e5m2: `encode` makes codes from values
{CODES}(np.zeros(2, ml_dtypes.int4), "e4m3fn")
    TypeError: codes of 'e4m3fn' must be integers, not int4: `encode` makes codes from values
{CODES}([True], "e4m3fn")
    TypeError: codes of 'e4m3fn' must be integers, not bool: `encode` makes codes from values
{CODES}("abc", "e4m3fn")
    TypeError: codes of 'e4m3fn' must be integers, not <U3: `encode` makes codes from values
{CODES}([10**30], "e4m3fn")
    TypeError: codes of 'e4m3fn' must be integers, not object: `encode` makes codes from values
{CODES}(1j, "e4m3fn")
    TypeError: codes of 'e4m3fn' must be integers, not complex128: `encode` makes codes from values
{CODES}(np.zeros(0, np.float32), "e4m3fn")
    TypeError: codes of 'e4m3fn' must be integers, not float32: `encode` makes codes from values
{RULED}(rounding="to_odd", projection=lp.Projection())
    ValueError: projection= and rounding='to_odd' both say how to convert; give one of them, for
    instance projection=dataclasses.replace(projection, rounding='to_odd')
{RULED}(saturation=lp.Saturation.FINITE, projection=lp.Projection())
    ValueError: projection= and saturation='finite' both say how to convert; give one of them, for
    instance projection=dataclasses.replace(projection, saturation='finite')
{RULED}(profile="ocp_sat", projection=lp.Projection())
    ValueError: projection= and profile='ocp_sat' both say how to convert; give one of them, for
    instance projection=dataclasses.replace(lowprec.profiles['ocp_sat'].projection(format), rounding=...)
{RULED}(profile="ocp_sat", rounding="to_odd", saturation="none")
    ValueError: profile= and saturation='none' both say how to convert; give one of them, for instance
    projection=dataclasses.replace(lowprec.profiles['ocp_sat'].projection(format), saturation='none')
{RULED}(profile="onnxruntime", rounding="to_odd")
    ValueError: profile='onnxruntime' rounds to binary32 first, then to 'e4m3fn', and rounding='to_odd'
    does not say which of them it means; give
    projection=dataclasses.replace(lowprec.profiles['onnxruntime'].projection(format), rounding=...) for
    the last of them
{RULED}(profile="gpu")
    ValueError: unknown profile 'gpu'; use one of {PROFILES}
{RULED}(projection="to_odd")
    TypeError: projection must be a Projection, not 'to_odd'; for a mode alone use rounding=
{RULED}(projection="ocp_sat")
    TypeError: projection must be a Projection, not 'ocp_sat'; give profile='ocp_sat'
{RULED}(profile="ocpsat")
    ValueError: unknown profile 'ocpsat'; did you mean 'ocp_sat' or 'ocp' or 'hip_sat'? There are
    {PROFILES}
{RULED}(rounding="up")
    ValueError: unknown rounding 'up'; use one of nearest_even, nearest_away, nearest_zero, toward_zero,
    toward_positive, toward_negative, away_from_zero, to_odd or stochastic(<bits>)
{RULED}(saturation="sat")
    ValueError: unknown saturation 'sat'; use one of none, finite, propagate
{RULED}(rounding=3)
    TypeError: rounding must be a Rounding or a name, not 3
{RULED}(saturation=True)
    TypeError: saturation must be a Saturation or a name, not True
lp.{{encode|quantize}}(1j, "e4m3fn")
    TypeError: values must be real numbers of at most 64 bits, not complex128: convert the real and the
    imaginary part by themselves
lp.{{encode|quantize}}(np.zeros(2, np.complex64), "e4m3fn")
    TypeError: values must be real numbers of at most 64 bits, not complex64: convert the real and the
    imaginary part by themselves
lp.{{encode|quantize}}("1.0", "e4m3fn")
    TypeError: values must be real numbers of at most 64 bits, not <U3: convert to a float type first
lp.{{encode|quantize}}(b"ab", "e4m3fn")
    TypeError: values must be real numbers of at most 64 bits, not |S2: convert to a float type first
lp.{{encode|quantize}}(10**30, "e4m3fn")
    TypeError: values must be real numbers of at most 64 bits, not object: give floats or integers of at
    most 64 bits; lowprec.oracle.convert.project takes any Fraction
lp.{{encode|quantize}}(fractions.Fraction(1, 3), "e4m3fn")
    TypeError: values must be real numbers of at most 64 bits, not object: give floats or integers...
lp.{{encode|quantize}}(None, "e4m3fn")
    TypeError: values must be real numbers of at most 64 bits, not object: give floats or integers...
lp.{{encode|quantize}}(np.zeros(2, [("a", "f4")]), "e4m3fn")
    TypeError: ...not [('a', '<f4')]: convert to a float type first
lp.{{encode|quantize}}(np.zeros(2, "V4"), "e4m3fn")
    TypeError: ...not |V4: convert to a float type first
lp.{{encode|quantize}}(np.zeros(2, "M8[s]"), "e4m3fn")
    TypeError: ...not datetime64[s]: convert to a float type first
lp.{{encode|quantize}}(np.zeros(2, "m8[s]"), "e4m3fn")
    TypeError: ...not timedelta64[s]: convert to a float type first
lp.{{encode|quantize|decode}}([[1], [1, 2]], "e4m3fn")
    TypeError: cannot make an array of list: setting an array element with a sequence. ...
{TYPED}("foo")
    TypeError: dtype='foo' is no type of NumPy; values are given as float16, bfloat16, float32 or float64
{TYPED}({{"a": 1}})
    TypeError: dtype={{'a': 1}} is no type of NumPy; values are given as float16, bfloat16, float32 or
    float64
{TYPED}("f4,(")
    TypeError: dtype='f4,(' is no type of NumPy; values are given as float16, bfloat16, float32 or
    float64
{TYPED}(3)
    TypeError: dtype=3 is no type of NumPy; values are given as float16, bfloat16, float32 or float64
lp.encode([1.0, 500.0, 1.03], "e4m3fn", out=BUFFER, flags=BUFFER)
    ValueError: out and flags share memory; give each an array of its own
lp.encode([1.0, 2.0], "e4m3fn", out=BUFFER[:2], flags=BUFFER[1:])
    ValueError: out and flags share memory; give each an array of its own
lp.encode([1.0], "bfloat16", out=np.zeros(1, ">u2"))
    TypeError: out must be an array of uint16 for 'bfloat16', not of >u2, {OTHER_ORDER}, of which
    .astype('>u2') makes one in that order
lp.quantize([1.0], "bfloat16", out=np.zeros(1, ">f4"))
    TypeError: out is of >f4, {OTHER_ORDER}, of which .astype('>f4') makes one in that order
lp.decode([1], "e4m3fn", out=np.zeros(1, ">f4"))
    TypeError: out is of >f4, {OTHER_ORDER}, of which .astype('>f4') makes one in that order
lp.dot([[1.0]], [[1.0]], "fp32_fma", out=np.zeros(1, ">f4"))
    TypeError: out is of >f4, {OTHER_ORDER}, of which .astype('>f4') makes one in that order
lp.encode([1.0], "e4m3fn", out=np.zeros(1, ">i8"))
    TypeError: out must be an array of uint8 for 'e4m3fn', not of >i8
lp.decode([1], "e4m3fn", out=np.zeros(1, np.dtype(ml_dtypes.bfloat16).newbyteorder(">")))
    TypeError: out is of >V2, {OTHER_ORDER}
lp.encode(MASKED, "e4m3fn")
    TypeError: {LOST}
lp.encode([MASKED, MASKED], "e4m3fn")
    TypeError: {LOST}
lp.encode([1.0, np.ma.masked], "e4m3fn")
    TypeError: {LOST}
lp.{{encode|scale_for}}(LAZY, "e4m3fn")
    TypeError: {LOST}
lp.encode(dask.array.ones(2), "e4m3fn", rounding=lp.stochastic(1), random=np.ma.masked_array([1, 2], [1, 0]))
    TypeError: {LOST}
lp.matmul(WIDE, EYE, "fp32_fma", **BLOCKS)
    TypeError: {LOST}
lp.matmul(EYE, dask.array.from_array(WIDE), "fp32_fma")
    TypeError: {LOST}
lp.matmul(EYE, LAZY_EYE, "fp32_fma", bias=MASKED)
    TypeError: {LOST}
lp.add(dask.array.ones(2), MASKED, "e4m3fn")
    TypeError: {LOST}
lp.{{encode|quantize}}("e4m3fn", np.ones((2, 2)))
    TypeError: a format must be a Format, a name or a dtype, not an array: values come first, the format
    second
lp.{{encode|quantize}}("e4m3fn", [1.0, 2.0])
    TypeError: a format must be a Format, a name or a dtype, not an array: values come first, the format
    second
lp.{{encode|quantize}}(NANS, "e2m1fn")
    ValueError: cannot encode NaN values as 'e2m1fn', which has no NaN code: 2 of 34 are NaN, the first
    at index (0, 16). Replace them, say what becomes of them with Projection(nan=...), or use another
    format such as 'e4m3fn'
lp.{{encode|quantize}}(np.concatenate([np.zeros(4095), [np.nan]]), "int8")
    ValueError: cannot encode NaN values as 'int8', which has no NaN code: 1 of 4,096 is NaN, the first
    at index (4095,). Replace them, say what becomes of them with Projection(nan=...), or use another
    format such as 'e4m3fn'
lp.encode(NANS.T, "e2m1fn")
    ValueError: ...the first at index (3, 1)...
lp.encode(NANS[::-1, ::-1], "e2m1fn")
    ValueError: ...the first at index (0, 13)...
lp.cast([1, 127], "e4m3fn", "e2m1fn")
    ValueError: cannot encode NaN values as 'e2m1fn', which has no NaN code: 1 of 2 is NaN, the first at
    index (1,). Replace them, say what becomes of them with Projection(nan=...), or use another format
    such as 'e4m3fn'
lp.encode([np.nan, -1], "ue4m3", projection=NEGATIVE_ERROR)
    ValueError: cannot encode negative values as 'ue4m3', which is unsigned: 1 of 2 is negative, the
    first at index (1,). Replace them, say what becomes of them with Projection(negative=...), or use
    another format such as 'e4m3fn'
lp.encode([1.0, -1.0, -np.inf], "uint8", projection=NEGATIVE_ERROR)
    ValueError: cannot encode NaN or negative values as 'uint8', which has no NaN code and is unsigned:
    2 of 3 are NaN or negative, the first at index (1,). Replace them, say what becomes of them with
    Projection(nan=..., negative=...), or use another format such as 'e4m3fn'
lp.encode(1.0, "int8", projection=lp.Projection(nan="negative_zero"))
    ValueError: nan='negative_zero' of a projection asks for a code that 'int8' does not have; use
    'error' or 'max'
{{into_encode|into_cast}}([0, 0, 0])
    TypeError: out must be a NumPy array of uint8, not list
{{into_encode|into_cast}}(np.zeros(3, np.uint16))
    TypeError: out must be an array of uint8 for 'e4m3fn', not of uint16
{{into_encode|into_cast}}(np.zeros(3, np.int8))
    TypeError: out must be an array of uint8 for 'e4m3fn', not of int8; give out.view('uint8')
{{into_encode|into_cast}}(np.zeros(3, ml_dtypes.float8_e4m3fn))
    TypeError: out must be an array of uint8 for 'e4m3fn', not of float8_e4m3fn; give out.view('uint8')
{{into_encode|into_cast}}(np.zeros(4, np.uint8))
    ValueError: out has shape (4,), but the result has shape (3,); they must be equal
{{into_encode|into_cast}}(np.zeros((1, 3), np.uint8))
    ValueError: out has shape (1, 3), but the result has shape (3,); they must be equal
{{into_encode|into_cast}}(READ_ONLY)
    ValueError: out is read-only; give an array that can be written
lp.quantize([1.0], "bfloat16", out=np.zeros(1, np.float16))
    ValueError: float16 does not hold every value of 'bfloat16'; use bfloat16, float32, float64
lp.decode([1], "bfloat16", out=np.zeros(1, np.float16))
    ValueError: float16 does not hold every value of 'bfloat16'; use bfloat16, float32, float64
lp.decode([1], "bfloat16", dtype="float16")
    ValueError: float16 does not hold every value of 'bfloat16'; use bfloat16, float32, float64
lp.quantize([1.0], "bfloat16", out=np.zeros(1, np.uint8))
    TypeError: values are given as float16, bfloat16, float32 or float64, not uint8
lp.decode([1], "bfloat16", dtype=np.uint8)
    TypeError: values are given as float16, bfloat16, float32 or float64, not uint8
lp.decode([1], "binary11p1se", dtype=np.float32)
    ValueError: float32 does not hold every value of 'binary11p1se'; use float64
lp.decode([1], "e4m3fn", dtype="float32", out=np.zeros(1, np.float64))
    TypeError: out must be an array of float32 for 'binary32', not of float64
lp.add([1.0], [1.0], "e4m3fn", dtype="float64", out=np.zeros(1, object))
    TypeError: out must be an array of float64 for values of 'e4m3fn', not of object
""",
)
