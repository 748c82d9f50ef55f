"""Every field of Projection, and flags: kernels against the oracle, on cases that touch each rule."""

import dataclasses
import re

import numpy as np
import pytest

import lowprec as lp
from lowprec.oracle import convert as oracle
from lowprec.oracle.arith import operate
from lowprec.oracle.flags import flags as oracle_flags, is_signaling
from lowprec.spec import catalog
from lowprec.spec.format import Format, Sign
from lowprec.spec.projection import Projection
from tests.fuzz.conversions import words_for
from tests.fuzz.drawing import Draw
from tests.fuzz.operands import values
from tests.fuzz.specifications import any_projection
from tests.support import assert_same_codes, engines_agree

NAMES = (
    *("e4m3fn", "e5m2", "e4m3fnuz", "e3m4", "e2m1fn", "e3m0fn", "e8m0fnu", "ue4m3", "int8f6", "uint4"),
    *("binary8p1uf", "binary8p3se", "binary8p3ue"),
)
#: Without zero, of which a policy says what becomes; powers without NaN.
SIGNED = {"exponent_bits": 4, "trailing_bits": 0, "bias": 7, "subnormals": False}
WITHOUT_ZERO = (
    Format(name="signed without zero or NaN", **SIGNED),
    Format(name="unsigned powers without NaN", **SIGNED, sign=Sign.UNSIGNED),
)

#: Shapes that no catalog has: finite values that are all subnormal, one value, NaNs beside an infinity and in
#: the place of -0, no zero but a sign.
ODD = (
    Format(name="subnormal, far from normal", exponent_bits=3, trailing_bits=3, bias=0, nans=60),
    Format(name="all subnormal", exponent_bits=1, trailing_bits=3, bias=1, nans=9),
    Format(name="just normal", exponent_bits=1, trailing_bits=3, bias=1, nans=7),
    Format(name="one value", exponent_bits=2, trailing_bits=1, bias=1, nans=6),
    Format(
        name="three kinds of NaN",
        exponent_bits=2,
        trailing_bits=1,
        bias=1,
        nans=1,
        infinity=True,
        negative_zero=False,
    ),
    Format(name="signed without zero", exponent_bits=3, trailing_bits=2, bias=3, nans=1, subnormals=False),
    Format(name="sign and magnitude", exponent_bits=0, trailing_bits=5, bias=-4),
    Format(
        name="one value alone", exponent_bits=1, trailing_bits=0, bias=-4, infinity=True, subnormals=False
    ),
)


def test_the_one_value_of_a_format_may_be_its_zero():
    """Then only the value that would follow decides: half of it is the tie, which is zero."""
    fmt, rule = ODD[-1], Projection(smallest="zero", zero="smallest")
    values = np.float64([0.0, 1.0, 16.0, 16.5, 31.0, 32.0, -16.0, -17.0])
    want = lp.encode(values, fmt, projection=rule, backend="oracle")
    assert lp.encode(values, fmt, projection=rule).tolist() == want.tolist() == [0, 0, 0, 1, 1, 1, 2, 3]


@pytest.mark.parametrize("backend", [None, "scalar", "oracle"])
def test_a_smallest_value_between_others_is_no_zero(backend):
    """The values after it would lie elsewhere: the gap up to the second would be no power of two."""
    fmt = Format(name="fine", exponent_bits=3, trailing_bits=2, bias=3, subnormals=False)
    message = (
        "smallest='zero' of a projection is for formats of powers of two; 'fine' has trailing_bits=2, leave"
    )
    with pytest.raises(ValueError, match=message):
        lp.encode([0.2], fmt, projection=Projection(smallest="zero"), backend=backend)


@pytest.mark.apart
@pytest.mark.parametrize("name", [*NAMES, *ODD, *WITHOUT_ZERO], ids=str)
def test_kernels_agree_with_the_oracle_in_every_field_and_flag(name):
    """Codes, values and flags for 60 projections of any fields, of values near all that they decide."""
    fmt = lp.format(name)
    for number in range(60):
        draw = Draw(0, str(name), number, alike=1)
        rule = any_projection(draw, fmt)
        if not fmt.has_nan and rule.nan == "error":
            rule = dataclasses.replace(rule, nan="max")
        if {rule.nan, rule.smallest} & {"negative_zero", "zero"} and number % 2:  # may not be served
            rule = dataclasses.replace(rule, nan="max", smallest="itself")
        x = values(draw, np.dtype(draw.choice((np.float64, np.float64, np.float32))), [fmt, *rule.via], 150)
        options = {"projection": rule, "flags": True}
        if rule.rounding.bits:
            options["random"] = words_for(draw, rule.rounding, fmt, x.shape)
        for verb in (lp.encode, lp.quantize):
            try:
                engines_agree(verb, x, fmt, backends=(None, "scalar", "oracle"), **options)
            except ValueError as refusal:
                with pytest.raises(ValueError, match=re.escape(str(refusal))):
                    engines_agree(verb, x, fmt, backends=("oracle",), **options)


def test_a_three_way_nan_signals_as_the_oracle_says():
    """The NaN in the place of -0 is quiet; via a format whose NaN has no sign, the sign is lost."""
    three = ODD[3]
    flags = np.zeros(16, np.uint8)
    lp.cast(np.arange(16), three, "e5m2", flags=flags)
    want = [
        oracle_flags(oracle.decode(c, three), catalog.E5M2, signaling=is_signaling(c, three))
        for c in range(16)
    ]
    assert flags.tolist() == want
    signed = ODD[4]
    stop = Format(name="stop", exponent_bits=8, trailing_bits=10, bias=127, negative_zero=False)
    codes = np.arange(1 << signed.width)
    projection = Projection(via=(stop,))
    want = [oracle.cast(code, signed, catalog.E5M2, projection) for code in codes.tolist()]
    assert lp.cast(codes, signed, "e5m2", projection=projection).tolist() == want


# -- codes for NaN ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["e4m3fnuz", "e5m2fnuz", "binary8p3se"])
def test_a_nan_code_of_zero_takes_no_sign_where_there_is_no_negative_zero(name):
    """The sign bit alone is NaN there. The same code with or without flags, from values and by arithmetic."""
    rule, values = Projection(nan_code=0), np.array([np.nan, -np.nan])
    assert lp.encode(values, name, projection=rule).tolist() == [0, 0]
    assert lp.encode(values, name, projection=rule, flags=np.zeros(2, np.uint8)).tolist() == [0, 0]
    assert lp.add(values, values, name, projection=rule, dtype=np.uint8).tolist() == [0, 0]
    signs = Projection(nan_code=0x7F)
    assert lp.encode(values, name, projection=signs).tolist() == [0x7F, 0xFF]


def test_a_nan_whose_payload_is_all_ones_is_not_refused():
    """On its way through binary64, where 64 ones are its code."""
    rule = Projection(nan_payload="first", via=(catalog.BINARY64,))
    nan = np.array([(1 << 64) - 1], np.uint64).view(np.float64)
    assert lp.sqrt(nan, "binary16", projection=rule, dtype=np.uint16).tolist() == [0xFFFF]
    assert lp.add(nan, nan, "binary32", projection=rule, dtype=np.uint32).tolist() == [0xFFFFFFFF]
    assert lp.encode(nan, "bfloat16", projection=rule).tolist() == [0xFFFF]


VIA = {
    "to a narrower one with payloads": ("binary16", (catalog.BINARY32,)),
    "to a wider one with payloads": ("binary32", (catalog.BFLOAT16,)),
    "through a format without payloads": ("binary16", (catalog.E4M3FN,)),
    "through two": ("bfloat16", (catalog.BINARY32, catalog.BINARY16)),
    "through one that contains the operands but not their payloads": (
        "bfloat16",
        (Format(name="one nan", exponent_bits=9, trailing_bits=20, bias=255, nans=1, infinity=True),),
    ),
}


@pytest.mark.parametrize("policy", ["first", "signaling_first"])
@pytest.mark.parametrize("way", VIA)
def test_nans_that_arise_on_the_way_have_the_nan_code(way, policy):
    """Payloads are kept of NaN operands alone: overflow to NaN, 0/0 and infinity times zero bring none."""
    name, via = VIA[way]
    fmt = catalog.format(name)
    rule = Projection(nan_code=fmt.max_magnitude + 2 | fmt.sign_code, nan_payload=policy, via=via)
    words = np.array(
        [0, 1, 0x3F80, 0x7F7F, 0xFF7F, 0x7F80, 0xFF80, 0x7F81, 0x7FC3, 0xFFC1, 0xFF85], np.uint16
    )
    values = words.view(lp.dtype("bfloat16"))
    wanted = [oracle.cast(int(code), catalog.BFLOAT16, fmt, rule) for code in words]
    assert lp.encode(values, fmt, projection=rule).tolist() == wanted
    operands = [side.reshape(-1) for side in np.meshgrid(words, words)]
    formats = (catalog.BFLOAT16,) * 3
    for operation, count in (
        ("divide", 2),
        ("multiply", 2),
        ("fma", 3),
        ("minimum_number", 2),
        ("copysign", 2),
    ):
        codes = [*operands, operands[0][::-1].copy()][:count]
        rows = list(zip(*map(np.ndarray.tolist, codes), strict=True))
        result = getattr(lp, operation)(
            *(side.view(lp.dtype("bfloat16")) for side in codes), fmt, projection=rule, dtype=lp.dtype(fmt)
        )
        wanted = [operate(operation, row, formats[:count], fmt, rule)[0] for row in rows]
        assert_same_codes(result.view(f"u{result.itemsize}"), wanted, fmt, rows, rule)


def test_a_flushed_operand_goes_through_the_formats_on_the_way():
    """Of a negative subnormal number it is -0, which a format on the way may lack, even the operand's own."""
    fnuz = catalog.E5M2FNUZ
    rule = Projection(subnormals="flush_operands", via=(fnuz,))
    for backend in (None, "scalar", "oracle"):
        assert lp.cast(
            np.array([0x81], np.uint8), fnuz, "e5m2", projection=rule, backend=backend
        ).tolist() == [0]
    assert lp.cast(np.array([0x81], np.uint8), "e5m2", "e4m3fn", projection=rule).tolist() == [0]
