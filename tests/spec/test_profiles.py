"""Profiles: what the documents and releases that they were taken from say, one operand after the other.

The codes are literals; the oracle converts. What libraries do on many operands is in tests/agreement.
"""

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest

import lowprec as lp
from lowprec.oracle.convert import encode, project
from lowprec.spec import catalog
from lowprec.spec.families import p3109
from lowprec.spec.profiles import PROFILES, Profile, profile
from lowprec.spec.projection import Projection
from tests.support import cases, refusal_test

INF, NAN = math.inf, math.nan

#: Formats and profiles, operands and the code by each profile. Reproduced with ml_dtypes 0.6.0, torch
#: 2.13.0, JAX 0.10.2 and onnx 1.23.2.
LIBRARIES = """
e4m3fn ml_dtypes jax torch>=2.13 onnx onnx_nosat | 464.0: 7e 7e 7e 7e 7e, 464.00003: 7f 7f 7e 7e 7f
e4m3fn ml_dtypes torch<2.13 torch>=2.13 onnx onnx_nosat | 1e6: 7f 7f 7e 7e 7f, -INF: ff ff fe fe ff
e5m2 ml_dtypes jax torch>=2.13 onnx onnx_nosat | 61440.0: 7c 7c 7c 7b 7c, INF: 7c 7c 7c 7b 7c,
    NAN: 7e 7e 7f 7e 7e, -NAN: fe fe ff fe fe, 61440 - 1e-09: 7c 7b 7c 7b 7c
e4m3fnuz ml_dtypes jax torch>=2.13 onnx onnx_nosat | 1e6: 80 80 80 7f 80
e5m2fnuz ml_dtypes jax torch>=2.13 onnx onnx_nosat | -INF: 80 80 80 ff 80
e8m0fnu ml_dtypes jax torch>=2.13 onnx onnx_nosat | 0.0: ff ff 0 0 0, -1.0: ff ff 7f 7f 7f,
    3.0: 81 81 81 81 81, 12.0: 83 83 83 83 83, 2.1: 80 80 80 81 81
e8m0fnu ml_dtypes torch>=2.13 onnx onnx_nosat | 1.1 * 2.0**127: fe fe fe ff, INF: ff ff ff ff
e2m1fn ml_dtypes jax onnx onnx_nosat | NAN: 8 8 8 8
e4m3fn ml_dtypes jax torch>=2.13 onnx | 1.0625 + 2.0**-40: 38 39 38 38, -431.99999999999994: fe fd fe fe
bfloat16 ml_dtypes jax torch>=2.13 onnx | 1 + 2.0**-8 + 2.0**-40: 3f80 3f80 3f80 3f80
binary16 numpy onnx torch>=2.13 jax | 1 + 2.0**-11 + 2.0**-40: 3c01 3c01 3c00 3c00
"""

#: The same for documents: OFP8, the FP8 paper, CUDA's and HIP's headers, Arm's and Intel's manuals, the P3109
#: draft.
DOCUMENTS = """
e4m3fn ocp_sat ocp_ovf fp8_paper | 449.0: 7e 7e 7e, 465.0: 7e 7f 7e, -INF: fe ff ff, NAN: 7f 7f 7f
e5m2 ocp_sat ocp_ovf fp8_paper | 61440.0: 7b 7c 7b, 61440 - 2.0**-37: 7b 7b 7b, -INF: fb fc fc
# CUDA: saturated or not; the sign of a NaN from float is dropped, that of an overflow is not.
e4m3fn cuda_satfinite cuda_nosat | -INF: fe ff, -1e6: fe ff, 464.0: 7e 7e, -NAN: 7f 7f
e5m2 cuda_satfinite cuda_nosat | -INF: fb fc, -NAN: 7f 7f
e2m1fn cuda_satfinite ptx_cvt | -NAN: 7 7
binary16 ptx_cvt | -NAN: 7fff, 1e6: 7c00
bfloat16 ptx_cvt | -NAN: 7fff
e2m3fn cuda_satfinite | -NAN: 1f
e3m2fn cuda_satfinite | -INF: 3f
e8m0fnu cuda_satfinite cuda_nosat | -0.0: 0 0, -3.0: 81 81, 2.0**-140: 0 0, 2.0**-127: 0 0,
    1.25 * 2.0**-127: 1 1, 1.25 * 2.0**127: fe ff, -INF: fe ff, NAN: ff ff
# HIP: overflow is judged on the operand.
e4m3fnuz hip_sat hip_nosat | 240.00002: 7f 80
e4m3fn hip_sat hip_nosat | 448.00003: 7e 7f
e5m2 hip_sat hip_nosat | -57344.004: fb fc, -NAN: ff ff
e5m2fnuz hip_sat hip_nosat | -NAN: ff 80
# Arm: the default NaN of an operand is positive, but what overflows keeps its sign.
e5m2 arm_fp8 arm_fp8_sat | -NAN: 7e 7e, -INF: fc fb
e4m3fn arm_fp8 arm_fp8_sat | -NAN: 7f 7f, -465.0: ff fe
# Intel: HF8 and BF8 with and without saturation; BF16 with flush to zero whatever MXCSR says.
e4m3fn avx10_2 avx10_2_sat | -1e6: ff fe, INF: 7f 7e, -NAN: ff ff
e5m2 avx10_2 avx10_2_sat | 1e6: 7c 7b, -INF: fc fb
# RISC-V: one NaN, 7f, in both formats, of overflow too; the saturating forms saturate infinities too.
e5m2 riscv_zvfofp8min riscv_zvfofp8min_sat | -NAN: 7f 7f, -INF: fc fb
e4m3fn riscv_zvfofp8min riscv_zvfofp8min_sat | -NAN: 7f 7f, 465.0: 7f 7e, -465.0: 7f fe, -INF: 7f fe
e4m3fn riscv_zvfofp4min | -6.0: cc
# RDNA4: one code for all NaNs; FP16_OVFL saturates what is finite alone.
e4m3fn rdna4 rdna4_ovfl | NAN: ff ff
e5m2 rdna4 rdna4_ovfl | NAN: fe fe, -NAN: fe fe, -1e6: fc fb, -INF: fc fc
e4m3fn rdna4_ovfl | -1e6: fe
# ONNX: integers cut.
int4 onnx onnx_nosat | 6.75: 6 6, -6.75: a a
uint4 onnx onnx_nosat | 14.99: e e
bfloat16 avx10_2 | 2.0**-127: 0, -2.0**-126: 8080
# P3109: finite domains clamp, unsigned formats have 0 for what is negative.
binary8p4sf p3109 | INF: 7f
binary8p3se p3109 | INF: 7f
binary8p1uf p3109 | -INF: 0, 3.0: 82
binary8p4ue p3109 | -3.0: 0
"""


@pytest.mark.parametrize(("words", "operand", "codes"), cases(LIBRARIES + DOCUMENTS))
def test_a_profile_converts_as_its_source_says(words, operand, codes):
    """Each operand tells two stacks apart, or a stack from the defaults."""
    fmt, *names = words
    fmt, value = catalog.format(fmt), float(eval(operand, {"INF": INF, "NAN": NAN}))
    made = [encode(value, fmt, PROFILES[name].projection(fmt)) for name in names]
    assert made == [int(code, 16) for code in codes.split()]


def test_payloads_of_nans_are_cut_where_bf8_has_their_upper_bits():
    """Made quiet; HF8 has one NaN."""
    nans = np.array([0x7E00, 0x7D00, 0xFF00], np.uint16).view(np.float16)
    assert lp.encode(nans, "e5m2", profile="avx10_2").tolist() == [0x7E, 0x7F, 0xFF]
    assert lp.encode(nans, "e4m3fn", profile="avx10_2_sat").tolist() == [0x7F, 0x7F, 0xFF]


@pytest.mark.parametrize("scale", [-128, -3, 0, 5, 127])
def test_a_scale_of_arm_is_a_bias(scale):
    """2**NSCALE times the value is rounded; what is no FP8 format of any bias is refused."""
    fmt = dataclasses.replace(catalog.E4M3FN, bias=7 + scale)
    for value in (1.3, 3.0e-4, 448.0, -466.0):
        want = encode(value * 2.0**scale, catalog.E4M3FN, PROFILES["arm_fp8_sat"].projection(catalog.E4M3FN))
        assert lp.encode(value, fmt, profile="arm_fp8_sat") == want
    for other in (dataclasses.replace(catalog.E4M3FN, bias=7 + 128), catalog.E4M3FNUZ):
        with pytest.raises(ValueError, match="profile 'arm_fp8' does not say how to convert to"):
            PROFILES["arm_fp8"].projection(other)


@pytest.mark.parametrize("name", ["cdna4", "gfx950_sat", "gfx1250", "ptx_cvt_pzo"])
def test_what_no_document_settles_is_refused_with_that(name):
    """Not as a name that nobody knows."""
    with pytest.raises(
        ValueError, match=f"^profile '{name}' is not here: no public document or measurement settles"
    ):
        profile(name)


@pytest.mark.parametrize("name", ["ml_dtypes", "jax", "torch>=2.13", "onnx"])
def test_integers_are_rounded_to_binary32_first(name):
    """To bfloat16 16973823 is nearest to 16908288; through 16973824, a tie, it becomes 17039360."""
    assert project(Fraction(16973823), catalog.BFLOAT16) == 0x4B81
    assert (
        project(Fraction(16973823), catalog.BFLOAT16, PROFILES[name].projection(catalog.BFLOAT16)) == 0x4B82
    )


def test_the_p3109_profile_has_every_format_that_fits_and_no_other():
    """K from 3 to 16; the widest exponents may not fit float64. Equal formats of other names belong to it."""
    formats = PROFILES["p3109"].formats
    assert len(formats) == len(set(formats)) == 454
    assert {fmt.width for fmt in formats} == set(range(3, 17))
    assert set(catalog.P3109_UP_TO_8) < set(formats)
    assert catalog.E4M3FNUZ in formats
    assert p3109(16, 8, signed=False) in formats
    for other in (catalog.E4M3FN, catalog.E8M0FNU, catalog.INT8, catalog.BINARY32, catalog.UE4M3):
        assert other not in formats


@pytest.mark.parametrize("item", PROFILES.values(), ids=str)
def test_a_profile_says_what_it_is_of(item):
    """A name that is its key, versions, a source, and projections."""
    assert PROFILES[item.name] is item
    assert profile(item.name) is profile(item) is item
    assert item.versions
    assert item.source
    assert all(isinstance(rule, Projection) for rule in item.formats.values())


@pytest.mark.parametrize("item", PROFILES.values(), ids=str)
def test_no_profile_has_posits(item):
    """Profiles whose formats are found by parameters too, which codebooks lack."""
    with pytest.raises(ValueError, match=r"does not say how to convert to 'posit8'"):
        item.projection("posit8")


def test_a_profile_is_shown_by_its_name_and_versions():
    """All its projections are thousands of characters: `lowprec show` prints them."""
    assert repr(lp.profiles["jax"]) == "<profile 'jax': 0.10.2, on CPUs>"
    assert str(lp.profiles["jax"]) == "jax"
    assert all(len(repr(item)) < 160 for item in lp.profiles.values())


def test_a_profile_of_ones_own_is_one_statement():
    """A name, versions, and a projection for each format."""
    mine = Profile("mine", "1", {catalog.E4M3FN: Projection(rounding="toward_zero")})
    assert encode(447.0, catalog.E4M3FN, profile(mine).projection(catalog.E4M3FN)) == 0x7D
    assert hash(mine) == hash(Profile("mine", "1", {}))


def test_a_profile_does_not_change_with_the_mapping_that_it_came_in():
    """The verbs remember profiles: they answered by the old mapping after a change, and not always."""
    mapping = {catalog.E4M3FN: Projection(rounding="toward_zero")}
    mine = Profile("mine", "1", mapping)
    values = np.full(3, 447.0, np.float32)
    assert lp.encode(values, "e4m3fn", profile=mine).tolist() == [0x7D] * 3
    mapping[catalog.E4M3FN] = Projection(rounding="toward_positive")
    assert lp.encode(values, "e4m3fn", profile=mine).tolist() == [0x7D] * 3
    assert lp.encode(values.reshape(3, 1), "e4m3fn", profile=mine).tolist() == [[0x7D]] * 3
    assert lp.encode(447.0, "e4m3fn", profile=mine) == 0x7D
    with pytest.raises(TypeError, match="does not support item assignment"):
        mine.formats[catalog.E4M3FN] = Projection()
    assert not hasattr(mine.formats, "clear")


test_what_cannot_be_is_refused = refusal_test(
    globals(),
    """
profile("tensorflow")
    ValueError: unknown profile 'tensorflow'; use one of ml_dtypes, numpy, torch<2.13...
profile(3)
    TypeError: profile must be a Profile or a name, not 3
PROFILES["ocp_sat"].projection(catalog.BFLOAT16)
    ValueError: profile 'ocp_sat' does not say how to convert to 'bfloat16'; it has e4m3fn, e5m2
PROFILES["p3109"].projection(catalog.E4M3FN)
    ValueError: profile 'p3109' does not say how to convert to 'e4m3fn'; it has binary3p1se...
Profile("mine", "1", [catalog.E4M3FN])
    TypeError: formats of a profile must be a mapping, not [Format(name='e4m3fn', exponent_bits=4,
    trailing_bits=3, bias=7, nans=1, source='OFP8')]
Profile("mine", "1", {4: Projection()})
    TypeError: formats of a profile must map Format to Projection, not 4 to Projection()
Profile("mine", "1", {catalog.E4M3FN: "finite"})
    TypeError: formats of a profile must map Format to Projection, not Format(name='e4m3fn',
    exponent_bits=4, trailing_bits=3, bias=7, nans=1, source='OFP8') to 'finite'
""",
)
