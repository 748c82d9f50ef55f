"""Profiles: each says what its stack does, code by code.

Libraries are run; hardware is held against published codes and the documents' own examples. Where
a library does what no projection says, it is one of DIFFERENCES: a reason, where it is, and what
the library gives there instead. Anywhere else all codes are equal.
"""

import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lowprec as lp
from lowprec.spec import catalog
from lowprec.spec.format import Format, Sign
from lowprec.spec.profiles import PROFILES
from lowprec.spec.rounding import stochastic
from lowprec.verify.frameworks import FRAMEWORKS
from lowprec.verify.inputs import conversions
from tests.programs import need_framework
from tests.support import assert_same_codes

PUBLISHED = pathlib.Path(__file__).parents[2] / "tables" / "published"

#: The profile of each framework.
LIBRARIES = {name: name for name in FRAMEWORKS if name in PROFILES and PROFILES[name].formats} | {
    "torch": "torch>=2.13"
}

Array = np.ndarray[Any, Any]


# -- where libraries do what no projection says -------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Difference:
    """Operands for which a library gives something else than its profile, and what."""

    libraries: str
    targets: str
    sources: str
    why: str
    where: Callable[[Array], Array]
    accepts: Callable[[Array, Array, Format], Array]  #: of operands, the library's codes, and the format
    always: bool = True  #: seen on every processor

    def concerns(self, library: str, target: Format, source: str) -> bool:
        """Whether it is about such a cast."""
        return (
            library in self.libraries.split()
            and target.name in self.targets.split()
            and source in self.sources.split()
        )


def _numbers(values: Array) -> Array:
    with np.errstate(invalid="ignore"):
        return values.astype(np.float64)


def _nan(values: Array) -> Array:
    return np.isnan(_numbers(values))


def _negative_nan(values: Array) -> Array:
    return _nan(values) & np.signbit(values)


def _is_nan_of_the_same_sign(values: Array, codes: Array, fmt: Format) -> Array:
    numbers = lp.decode(codes, fmt)
    return np.isnan(numbers) & (np.signbit(numbers) == np.signbit(values))


def _in_binary32(values: Array) -> Array:
    """Magnitudes after a rounding to binary32."""
    return np.abs(lp.decode(lp.encode(values, "binary32"), "binary32", dtype="float64"))


def _tiny(values: Array) -> Array:
    """Below binary32's smallest normal after rounding to its precision: 2**-126 less half a last place."""
    return (values != 0) & (np.abs(values) < 2.0**-126 * (1 - 2.0**-25))


def _gives(*codes: int) -> Callable[[Array, Array, Format], Array]:
    return lambda values, got, fmt: np.isin(got, codes)


def _signed_zero(values: Array, codes: Array, fmt: Format) -> Array:
    return codes == np.where(np.signbit(values), fmt.sign_code, 0)


def _of_binary32(values: Array, codes: Array, fmt: Format) -> Array:
    narrow = lp.decode(lp.encode(values, "binary32"), "binary32")
    return codes == lp.encode(narrow, fmt, profile="jax")


def _twice_is_not_once(values: Array) -> Array:
    """Where rounding to binary32 first changes what is rounded to binary16."""
    return lp.encode(values, "binary16") != lp.encode(values, "binary16", profile="jax")


def _once_or_twice(values: Array, codes: Array, fmt: Format) -> Array:
    return (codes == lp.encode(values, fmt)) | (codes == lp.encode(values, fmt, profile="jax"))


DIFFERENCES = (
    Difference(
        "jax",
        "binary16",
        "float64",
        "processors with AVX512-FP16 have an instruction that rounds once, and XLA takes it",
        _twice_is_not_once,
        _once_or_twice,
        always=False,
    ),
    Difference(
        "numpy torch jax onnx onnx_nosat onnxruntime",
        "binary16 binary32",
        "float16 bfloat16 float32 float64",
        "a NaN keeps the upper bits of its payload",
        _nan,
        _is_nan_of_the_same_sign,
    ),
    Difference(
        "torch",
        "bfloat16",
        "float32 float64",
        "whole vectors (AVX2 and up) make ffff of every NaN; single elements, the last of an array among "
        "them, 7fc0",
        _nan,
        _gives(0x7FC0, 0xFFFF),
        always=False,
    ),
    Difference(
        "jax",
        "e5m2",
        "float16 bfloat16",
        "from types of 16 bits NaN becomes 7f whatever its sign, from wider ones 7e or fe",
        _nan,
        _gives(0x7F),
    ),
    Difference(
        "ml_dtypes onnx onnx_nosat",
        "e2m3fn e3m2fn e2m1fn",
        "float16 bfloat16 float32 float64",
        "NaN becomes zero of the other sign: a positive one -0, but a negative one +0",
        _negative_nan,
        _gives(0),
    ),
    Difference(
        "jax",
        "e8m0fnu",
        "float64",
        "below 2**-127 float64 counts as zero, which becomes NaN",
        lambda values: np.abs(values) < 2.0**-127,
        _gives(0xFF),
    ),
    Difference(
        "jax",
        "e8m0fnu",
        "int32 int64",
        "integers, unlike float64, are rounded to binary32 first",
        lambda values: _in_binary32(values) != np.abs(values.astype(np.longdouble)),
        _of_binary32,
    ),
    Difference(
        "jax",
        "binary32 bfloat16",
        "float64",
        "what is tiny in binary32 becomes zero: XLA computes with flush-to-zero",
        _tiny,
        _signed_zero,
    ),
)


# -- libraries ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_library_has_a_profile_of_each_of_its_formats(library):
    """No more and no fewer; ONNX's integers, true within their range, have a test of their own."""
    need_framework(library)
    floats = {fmt for fmt in PROFILES[LIBRARIES[library]].formats if fmt.exponent_bits}
    assert floats == set(FRAMEWORKS[library].targets())


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_profile_gives_the_library_codes(library):
    """All 16-bit floats; ties and specials of float32 and float64; integers around them: each to each format.

    A difference is as described, and every one that is described is seen.
    """
    need_framework(library)
    unseen = {entry for entry in DIFFERENCES if library in entry.libraries.split() and entry.always}
    for fmt in FRAMEWORKS[library].targets():
        for source in FRAMEWORKS[library].sources:
            if catalog.carrier(source) == fmt:
                continue
            values = conversions.inputs(fmt, source)
            theirs = FRAMEWORKS[library].cast(values, fmt).copy()
            ours = lp.encode(values, fmt, profile=LIBRARIES[library])
            for entry in DIFFERENCES:
                if entry.concerns(library, fmt, source):
                    here = np.flatnonzero(entry.where(values))
                    accepted = entry.accepts(values[here], theirs[here], fmt)
                    assert accepted.all(), (
                        fmt,
                        source,
                        entry.why,
                        values[here][~accepted],
                        theirs[here][~accepted],
                    )
                    if (theirs[here] != ours[here]).any():
                        unseen.discard(entry)
                    theirs[here] = ours[here]
            assert_same_codes(ours, theirs, fmt, values, PROFILES[LIBRARIES[library]].projection(fmt))
    assert unseen == set()


def test_single_elements_in_torch_have_the_nan_of_the_profile():
    """Where vectors do not apply, as in every other element of an array, NaN is 7fc0 without its sign."""
    need_framework("torch")
    import torch

    spaced = torch.tensor([float("nan"), 0.0, -float("nan"), 0.0, 1.0, 0.0], dtype=torch.float32)[::2]
    codes = torch.zeros(6, dtype=torch.bfloat16)[::2].copy_(spaced).contiguous().view(torch.int16)
    assert codes.tolist() == [0x7FC0, 0x7FC0, 0x3F80]
    assert lp.encode(spaced.numpy(), "bfloat16", profile="torch>=2.13").tolist() == [0x7FC0, 0x7FC0, 0x3F80]


# -- published codes ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hip():
    """10,736 operands, four formats, three conversions."""
    with np.load(PUBLISHED / "amd_hip_host_conversions.npz") as arrays:
        return dict(arrays)


HIP_FORMATS = {"e4m3": "e4m3fn", "e5m2": "e5m2", "e4m3fnuz": "e4m3fnuz", "e5m2fnuz": "e5m2fnuz"}


@pytest.mark.parametrize("name", HIP_FORMATS)
@pytest.mark.parametrize("mode", ["sat", "nosat"])
def test_hip_converts_as_published(name, mode, hip):
    """Overflow without saturation is judged on the operand: 240.00002 is too large for e4m3fnuz."""
    fmt = catalog.format(HIP_FORMATS[name])
    values = hip["x_f32_bits"].view(np.float32)
    codes = lp.encode(values, fmt, profile=f"hip_{mode}")
    assert_same_codes(codes, hip[f"{name}_{mode}"], fmt, values)


@pytest.mark.parametrize("name", HIP_FORMATS)
def test_hip_rounds_stochastically_as_published(name, hip):
    """Its own random words, their lower bits, and what the shift of a subnormal result loses."""
    fmt = catalog.format(HIP_FORMATS[name])
    rounding = stochastic(23 - fmt.trailing_bits, "hip")
    projection = dataclasses.replace(PROFILES["hip_sat"].projection(fmt), rounding=rounding)
    values = hip["x_f32_bits"].view(np.float32)
    codes = lp.encode(values, fmt, projection=projection, random=hip["rng_u32"])
    assert_same_codes(codes, hip[f"{name}_sat_sr"], fmt, values, projection)


@pytest.mark.parametrize("saturation", ["sat", "nosat"])
@pytest.mark.parametrize("name", ["e4m3", "e5m2"])
@pytest.mark.parametrize("source", ["f32", "bf16"])
def test_zvfofp8min_converts_and_signals_as_spike(source, name, saturation):
    """In the five modes of frm. Infinities into E4M3 signal nothing there; see docs/decisions/0002."""
    fmt, of = catalog.format(HIP_FORMATS[name]), {"f32": "binary32", "bf16": "bfloat16"}[source]
    profile = PROFILES["riscv_zvfofp8min" + "_sat" * (saturation == "sat")]
    with np.load(PUBLISHED / "spike_fp8_conversions.npz") as arrays:
        spike = dict(arrays)
    operands = spike[f"{source}.in"]
    lone = np.isinf(lp.decode(operands, of)) & (name == "e4m3")
    for mode in ("nearest_even", "nearest_away", "toward_zero", "toward_positive", "toward_negative"):
        rule, flags = (
            dataclasses.replace(profile.projection(fmt), rounding=mode),
            np.zeros(operands.size, np.uint8),
        )
        codes = lp.cast(operands, of, fmt, projection=rule, flags=flags)
        published = {part: spike[f"{source}.{name}.{mode}.{saturation}.{part}"] for part in ("code", "flags")}
        assert_same_codes(codes, published["code"], fmt, operands, rule)
        assert np.array_equal(flags, np.where(lone, lp.Flag.INVALID, published["flags"]))
        assert not published["flags"][lone].any()


# -- simulations --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("fmt", "exponent_bits"), [("e4m3fnuz", 4), ("e5m2fnuz", 5)])
def test_unit_scaling_draws_the_bits_that_it_cuts_off(fmt, exponent_bits):
    """Scaled down in float32 until the format's subnormals are float32's, added and masked: its own steps."""
    trailing_bits = 7 - exponent_bits
    values = np.concatenate(
        [conversions.inputs(catalog.format(fmt), "float32"), conversions.sample("float32", 1 << 18)]
    )
    values = values[~np.isnan(values)]
    random = np.random.default_rng(5).integers(0, 1 << (23 - trailing_bits), values.size, dtype=np.uint32)
    largest, down = catalog.format(fmt).max_finite, np.float32(2.0 ** (127 - 2 ** (exponent_bits - 1)))
    bits = (np.clip(values, -largest, largest) / down).view(np.uint32) + random
    want = (bits & np.uint32(0xFFFFFFFF << (23 - trailing_bits) & 0xFFFFFFFF)).view(np.float32) * down
    got = lp.decode(lp.encode(values, fmt, profile="unit_scaling", random=random), fmt)
    assert np.array_equal(got, want)


def test_microxcaling_rounds_ties_away_and_clamps():
    """From its tests, without the block's scale; 400 is 384 to even. Infinities pass if there is a code."""
    values = [485.0, 475, 400, -485, -475, -450, 2.0**-6, np.inf, np.nan]
    assert lp.decode(lp.encode(values, "e4m3fn", profile="microxcaling"), "e4m3fn").tolist()[:-2] == (
        [448, 448, 416, -448, -448, -448, 2.0**-6]
    )
    assert lp.encode(values, "e4m3fn", profile="microxcaling").tolist()[-2:] == [0x7F, 0x7F]
    assert lp.encode([np.inf, 6e4, 0.25], "e5m2", profile="microxcaling").tolist() == [0x7C, 0x7B, 0x34]
    midpoints = np.array([0.25, 1.25, 2.5, 5, 7, -2.5])
    assert lp.decode(lp.encode(midpoints, "e2m1fn", profile="microxcaling"), "e2m1fn").tolist() == [
        0.5,
        1.5,
        3,
        6,
        6,
        -3,
    ]
    assert lp.encode([1.99, -2.0, 1 / 128], "int8f6", profile="microxcaling").tolist() == [127, 0x81, 1]


# -- the P3109 draft ----------------------------------------------------------------------------------


def test_p3109_clamps_in_the_finite_domain_and_has_no_negative_unsigned_values():
    """The two rules that differ from the defaults; infinities and NaN elsewhere as ever."""
    specials = [1e9, np.inf, -1e9, -np.inf, np.nan, -0.0, -1.0]
    assert lp.encode(specials, "binary8p4sf", profile="p3109").tolist() == [
        0x7F,
        0x7F,
        0xFF,
        0xFF,
        0x80,
        0,
        0xC0,
    ]
    assert lp.encode(specials, "binary8p3se", profile="p3109").tolist() == [
        0x7F,
        0x7F,
        0xFF,
        0xFF,
        0x80,
        0,
        0xC0,
    ]
    assert lp.encode(specials, "binary8p4uf", profile="p3109").tolist() == [0xFE, 0xFE, 0, 0, 0xFF, 0, 0]
    assert lp.encode(specials, "binary8p4ue", profile="p3109").tolist() == [0xFE, 0xFE, 0, 0, 0xFF, 0, 0]
    assert lp.encode(specials, "binary8p4ue").tolist() == [0xFE, 0xFE, 0xFF, 0xFF, 0xFF, 0, 0xFF]


@pytest.mark.parametrize("fmt", PROFILES["p3109"].formats, ids=str)
def test_p3109_differs_from_the_defaults_in_nothing_else(fmt):
    """All 65,536 bfloat16 numbers, infinities and NaNs among them."""
    values = conversions.inputs(fmt, "bfloat16")
    want = lp.encode(values, fmt, saturation="none" if fmt.infinity else "finite")
    if fmt.sign is Sign.UNSIGNED:
        want[_numbers(values) < 0] = 0
    got = lp.encode(values, fmt, profile="p3109")
    assert_same_codes(got, want, fmt, values)


def onnx_integers(x, name):
    """Return what ONNX's evaluator casts to integers."""
    import onnx
    from onnx import TensorProto, helper
    from onnx.reference import ReferenceEvaluator

    goal, kind = getattr(TensorProto, name.upper()), helper.np_dtype_to_tensor_dtype(x.dtype)
    node = helper.make_node("Cast", ["x"], ["y"], to=goal)
    values = [helper.make_tensor_value_info(*each, [None]) for each in (("x", kind), ("y", goal))]
    model = helper.make_model(
        helper.make_graph([node], "cast", values[:1], values[1:]),
        opset_imports=[helper.make_opsetid("", onnx.defs.onnx_opset_version())],
    )
    (made,) = ReferenceEvaluator(model).run(None, {"x": x})
    return np.asarray(made).astype(np.int64)


@pytest.mark.parametrize("name", ["int2", "int4", "uint2", "uint4"])
def test_onnx_wraps_integers_beyond_their_range(name):
    """As docs/conformance.md says; the profiles, true within the range alone, saturate there."""
    need_framework("onnx")
    fmt = catalog.format(name)
    x = np.arange(-100, 100.25, 0.25, np.float32)
    low, codes = int(fmt.min_finite), 1 << fmt.width
    assert (onnx_integers(x, name) == (np.trunc(x).astype(np.int64) - low) % codes + low).all()
    ours = np.asarray(lp.decode(lp.encode(x, fmt, profile="onnx"), fmt))
    assert (ours == np.clip(np.trunc(x), fmt.min_finite, fmt.max_finite)).all()


@pytest.mark.parametrize("source", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", ["int2", "int4", "int8", "uint2", "uint4", "uint8"])
def test_onnx_cuts_to_integers_within_their_range(name, source):
    """Ties and what is next to them too; beyond the range the standard says nothing."""
    need_framework("onnx")
    fmt = catalog.format(name)
    grid = np.arange(fmt.min_finite, fmt.max_finite + 0.25, 0.25)
    x = np.unique(np.concatenate([grid, np.nextafter(grid, -1e9), np.nextafter(grid, 1e9)]).astype(source))
    x = x[(x > fmt.min_finite - 1) & (x < fmt.max_finite + 1)]
    got = onnx_integers(x, name)
    for profile in ("onnx", "onnx_nosat"):
        codes = np.asarray(lp.encode(x, fmt, profile=profile))
        assert (np.asarray(lp.decode(codes, fmt)).astype(np.int64) == got).all()
