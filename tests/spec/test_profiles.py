"""Profiles: what the documents and releases that they were taken from say, one operand after the other.

The codes are literals; the oracle converts. What libraries do on many operands is in tests/agreement.
"""

from __future__ import annotations

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
from tests.support import refusal_test

INF, NAN = math.inf, math.nan

#: Operand, format, and the code by profile. Reproduced with ml_dtypes 0.6.0, torch 2.13.0, JAX 0.10.2 and
#: onnx 1.23.2.
LIBRARIES = [
    (
        464.0,
        "e4m3fn",
        {"ml_dtypes": 0x7E, "jax": 0x7E, "torch>=2.13": 0x7E, "onnx": 0x7E, "onnx_nosat": 0x7E},
    ),
    (
        464.00003,
        "e4m3fn",
        {"ml_dtypes": 0x7F, "jax": 0x7F, "torch>=2.13": 0x7E, "onnx": 0x7E, "onnx_nosat": 0x7F},
    ),
    (
        1e6,
        "e4m3fn",
        {"ml_dtypes": 0x7F, "torch<2.13": 0x7F, "torch>=2.13": 0x7E, "onnx": 0x7E, "onnx_nosat": 0x7F},
    ),
    (
        -INF,
        "e4m3fn",
        {"ml_dtypes": 0xFF, "torch<2.13": 0xFF, "torch>=2.13": 0xFE, "onnx": 0xFE, "onnx_nosat": 0xFF},
    ),
    (
        61440.0,
        "e5m2",
        {"ml_dtypes": 0x7C, "jax": 0x7C, "torch>=2.13": 0x7C, "onnx": 0x7B, "onnx_nosat": 0x7C},
    ),
    (INF, "e5m2", {"ml_dtypes": 0x7C, "jax": 0x7C, "torch>=2.13": 0x7C, "onnx": 0x7B, "onnx_nosat": 0x7C}),
    (NAN, "e5m2", {"ml_dtypes": 0x7E, "jax": 0x7E, "torch>=2.13": 0x7F, "onnx": 0x7E, "onnx_nosat": 0x7E}),
    (-NAN, "e5m2", {"ml_dtypes": 0xFE, "jax": 0xFE, "torch>=2.13": 0xFF, "onnx": 0xFE, "onnx_nosat": 0xFE}),
    (
        1e6,
        "e4m3fnuz",
        {"ml_dtypes": 0x80, "jax": 0x80, "torch>=2.13": 0x80, "onnx": 0x7F, "onnx_nosat": 0x80},
    ),
    (
        -INF,
        "e5m2fnuz",
        {"ml_dtypes": 0x80, "jax": 0x80, "torch>=2.13": 0x80, "onnx": 0xFF, "onnx_nosat": 0x80},
    ),
    (0.0, "e8m0fnu", {"ml_dtypes": 0xFF, "jax": 0xFF, "torch>=2.13": 0x00, "onnx": 0x00, "onnx_nosat": 0x00}),
    (
        -1.0,
        "e8m0fnu",
        {"ml_dtypes": 0xFF, "jax": 0xFF, "torch>=2.13": 0x7F, "onnx": 0x7F, "onnx_nosat": 0x7F},
    ),
    (3.0, "e8m0fnu", {"ml_dtypes": 0x81, "jax": 0x81, "torch>=2.13": 0x81, "onnx": 0x81, "onnx_nosat": 0x81}),
    (
        12.0,
        "e8m0fnu",
        {"ml_dtypes": 0x83, "jax": 0x83, "torch>=2.13": 0x83, "onnx": 0x83, "onnx_nosat": 0x83},
    ),
    (2.1, "e8m0fnu", {"ml_dtypes": 0x80, "jax": 0x80, "torch>=2.13": 0x80, "onnx": 0x81, "onnx_nosat": 0x81}),
    (1.1 * 2.0**127, "e8m0fnu", {"ml_dtypes": 0xFE, "torch>=2.13": 0xFE, "onnx": 0xFE, "onnx_nosat": 0xFF}),
    (INF, "e8m0fnu", {"ml_dtypes": 0xFF, "torch>=2.13": 0xFF, "onnx": 0xFF, "onnx_nosat": 0xFF}),
    (NAN, "e2m1fn", {"ml_dtypes": 0x8, "jax": 0x8, "onnx": 0x8, "onnx_nosat": 0x8}),
    (1.0625 + 2.0**-40, "e4m3fn", {"ml_dtypes": 0x38, "jax": 0x39, "torch>=2.13": 0x38, "onnx": 0x38}),
    (-431.99999999999994, "e4m3fn", {"ml_dtypes": 0xFE, "jax": 0xFD, "torch>=2.13": 0xFE, "onnx": 0xFE}),
    (
        61440 - 1e-9,
        "e5m2",
        {"ml_dtypes": 0x7C, "jax": 0x7B, "torch>=2.13": 0x7C, "onnx": 0x7B, "onnx_nosat": 0x7C},
    ),
    (
        1 + 2.0**-8 + 2.0**-40,
        "bfloat16",
        {"ml_dtypes": 0x3F80, "jax": 0x3F80, "torch>=2.13": 0x3F80, "onnx": 0x3F80},
    ),
    (
        1 + 2.0**-11 + 2.0**-40,
        "binary16",
        {"numpy": 0x3C01, "onnx": 0x3C01, "torch>=2.13": 0x3C00, "jax": 0x3C00},
    ),
]

#: The same for documents: OFP8, the FP8 paper, CUDA's and HIP's headers, Arm's and Intel's manuals, the P3109
#: draft.
DOCUMENTS = [
    (449.0, "e4m3fn", {"ocp_sat": 0x7E, "ocp_ovf": 0x7E, "fp8_paper": 0x7E}),
    (465.0, "e4m3fn", {"ocp_sat": 0x7E, "ocp_ovf": 0x7F, "fp8_paper": 0x7E}),
    (-INF, "e4m3fn", {"ocp_sat": 0xFE, "ocp_ovf": 0xFF, "fp8_paper": 0xFF}),
    (NAN, "e4m3fn", {"ocp_sat": 0x7F, "ocp_ovf": 0x7F, "fp8_paper": 0x7F}),
    (61440.0, "e5m2", {"ocp_sat": 0x7B, "ocp_ovf": 0x7C, "fp8_paper": 0x7B}),
    (math.nextafter(61440.0, 0), "e5m2", {"ocp_sat": 0x7B, "ocp_ovf": 0x7B, "fp8_paper": 0x7B}),
    (-INF, "e5m2", {"ocp_sat": 0xFB, "ocp_ovf": 0xFC, "fp8_paper": 0xFC}),
    # CUDA: saturated or not; the sign of a NaN from float is dropped, that of an overflow is not.
    (-INF, "e4m3fn", {"cuda_satfinite": 0xFE, "cuda_nosat": 0xFF}),
    (-1e6, "e4m3fn", {"cuda_satfinite": 0xFE, "cuda_nosat": 0xFF}),
    (-INF, "e5m2", {"cuda_satfinite": 0xFB, "cuda_nosat": 0xFC}),
    (464.0, "e4m3fn", {"cuda_satfinite": 0x7E, "cuda_nosat": 0x7E}),
    (-NAN, "e4m3fn", {"cuda_satfinite": 0x7F, "cuda_nosat": 0x7F}),
    (-NAN, "e5m2", {"cuda_satfinite": 0x7F, "cuda_nosat": 0x7F}),
    (-NAN, "e2m1fn", {"cuda_satfinite": 0x7, "ptx_cvt": 0x7}),
    (-NAN, "binary16", {"ptx_cvt": 0x7FFF}),
    (1e6, "binary16", {"ptx_cvt": 0x7C00}),
    (-NAN, "bfloat16", {"ptx_cvt": 0x7FFF}),
    (-NAN, "e2m3fn", {"cuda_satfinite": 0x1F}),
    (-INF, "e3m2fn", {"cuda_satfinite": 0x3F}),
    (-0.0, "e8m0fnu", {"cuda_satfinite": 0x00, "cuda_nosat": 0x00}),
    (-3.0, "e8m0fnu", {"cuda_satfinite": 0x81, "cuda_nosat": 0x81}),
    (2.0**-140, "e8m0fnu", {"cuda_satfinite": 0x00, "cuda_nosat": 0x00}),
    (2.0**-127, "e8m0fnu", {"cuda_satfinite": 0x00, "cuda_nosat": 0x00}),
    (1.25 * 2.0**-127, "e8m0fnu", {"cuda_satfinite": 0x01, "cuda_nosat": 0x01}),
    (1.25 * 2.0**127, "e8m0fnu", {"cuda_satfinite": 0xFE, "cuda_nosat": 0xFF}),
    (-INF, "e8m0fnu", {"cuda_satfinite": 0xFE, "cuda_nosat": 0xFF}),
    (NAN, "e8m0fnu", {"cuda_satfinite": 0xFF, "cuda_nosat": 0xFF}),
    # HIP: overflow is judged on the operand.
    (240.00002, "e4m3fnuz", {"hip_sat": 0x7F, "hip_nosat": 0x80}),
    (448.00003, "e4m3fn", {"hip_sat": 0x7E, "hip_nosat": 0x7F}),
    (-57344.004, "e5m2", {"hip_sat": 0xFB, "hip_nosat": 0xFC}),
    (-NAN, "e5m2fnuz", {"hip_sat": 0xFF, "hip_nosat": 0x80}),
    (-NAN, "e5m2", {"hip_sat": 0xFF, "hip_nosat": 0xFF}),
    # Arm: the default NaN of an operand is positive, but what overflows keeps its sign.
    (-NAN, "e5m2", {"arm_fp8": 0x7E, "arm_fp8_sat": 0x7E}),
    (-NAN, "e4m3fn", {"arm_fp8": 0x7F, "arm_fp8_sat": 0x7F}),
    (-465.0, "e4m3fn", {"arm_fp8": 0xFF, "arm_fp8_sat": 0xFE}),
    (-INF, "e5m2", {"arm_fp8": 0xFC, "arm_fp8_sat": 0xFB}),
    # Intel: HF8 and BF8 with and without saturation; BF16 with flush to zero whatever MXCSR says.
    (-1e6, "e4m3fn", {"avx10_2": 0xFF, "avx10_2_sat": 0xFE}),
    (1e6, "e5m2", {"avx10_2": 0x7C, "avx10_2_sat": 0x7B}),
    (-INF, "e5m2", {"avx10_2": 0xFC, "avx10_2_sat": 0xFB}),
    (INF, "e4m3fn", {"avx10_2": 0x7F, "avx10_2_sat": 0x7E}),
    (-NAN, "e4m3fn", {"avx10_2": 0xFF, "avx10_2_sat": 0xFF}),
    # RISC-V: one NaN, 7f, in both formats, of overflow too; the saturating forms saturate infinities too.
    (-NAN, "e5m2", {"riscv_zvfofp8min": 0x7F, "riscv_zvfofp8min_sat": 0x7F}),
    (-NAN, "e4m3fn", {"riscv_zvfofp8min": 0x7F, "riscv_zvfofp8min_sat": 0x7F}),
    (-INF, "e5m2", {"riscv_zvfofp8min": 0xFC, "riscv_zvfofp8min_sat": 0xFB}),
    (465.0, "e4m3fn", {"riscv_zvfofp8min": 0x7F, "riscv_zvfofp8min_sat": 0x7E}),
    (-465.0, "e4m3fn", {"riscv_zvfofp8min": 0x7F, "riscv_zvfofp8min_sat": 0xFE}),
    (-INF, "e4m3fn", {"riscv_zvfofp8min": 0x7F, "riscv_zvfofp8min_sat": 0xFE}),
    (-6.0, "e4m3fn", {"riscv_zvfofp4min": 0xCC}),
    # RDNA4: one code for all NaNs; FP16_OVFL saturates what is finite alone.
    (NAN, "e4m3fn", {"rdna4": 0xFF, "rdna4_ovfl": 0xFF}),
    (NAN, "e5m2", {"rdna4": 0xFE, "rdna4_ovfl": 0xFE}),
    (-NAN, "e5m2", {"rdna4": 0xFE, "rdna4_ovfl": 0xFE}),
    (-1e6, "e5m2", {"rdna4": 0xFC, "rdna4_ovfl": 0xFB}),
    (-INF, "e5m2", {"rdna4": 0xFC, "rdna4_ovfl": 0xFC}),
    (-1e6, "e4m3fn", {"rdna4_ovfl": 0xFE}),
    # ONNX: integers cut.
    (6.75, "int4", {"onnx": 0x6, "onnx_nosat": 0x6}),
    (-6.75, "int4", {"onnx": 0xA, "onnx_nosat": 0xA}),
    (14.99, "uint4", {"onnx": 0xE, "onnx_nosat": 0xE}),
    (2.0**-127, "bfloat16", {"avx10_2": 0x0000}),
    (-(2.0**-126), "bfloat16", {"avx10_2": 0x8080}),
    # P3109: finite domains clamp, unsigned formats have 0 for what is negative.
    (INF, "binary8p4sf", {"p3109": 0x7F}),
    (INF, "binary8p3se", {"p3109": 0x7F}),
    (-INF, "binary8p1uf", {"p3109": 0x00}),
    (-3.0, "binary8p4ue", {"p3109": 0x00}),
    (3.0, "binary8p1uf", {"p3109": 0x82}),
]


@pytest.mark.parametrize(("operand", "fmt", "codes"), [*LIBRARIES, *DOCUMENTS], ids=str)
def test_a_profile_converts_as_its_source_says(operand, fmt, codes):
    """Each operand tells two stacks apart, or a stack from the defaults."""
    fmt = catalog.format(fmt)
    assert {name: encode(operand, fmt, PROFILES[name].projection(fmt)) for name in codes} == codes


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
