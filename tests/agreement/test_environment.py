"""Answers depend on bits alone: not on flush-to-zero, denormals-are-zero, or the rounding mode of the process.

A library loaded into the same process may set any of them (compilers' fast-math start-up code
does). They live in MXCSR, at byte 28 of glibc's fenv_t on x86-64.
"""

from __future__ import annotations

import contextlib
import ctypes
import platform
import struct

import ml_dtypes
import numpy as np
import pytest

import lowprec as lp
from lowprec.arrays.checks import code_dtype
from lowprec.oracle import convert as oracle
from lowprec.oracle.exact import from_float, to_float
from lowprec.spec import catalog
from lowprec.spec.format import Format

pytestmark = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64") or platform.libc_ver()[0] != "glibc",
    reason="sets MXCSR through glibc's fenv_t, whose layout is that of x86-64",
)

DENORMALS_ARE_ZERO, FLUSH_TO_ZERO, DOWN, UP, CHOP = 0x0040, 0x8000, 0x2000, 0x4000, 0x6000
ENVIRONMENTS = {
    "flush_to_zero": FLUSH_TO_ZERO,
    "denormals_are_zero": DENORMALS_ARE_ZERO,
    "flush_to_zero_and_denormals_are_zero": FLUSH_TO_ZERO | DENORMALS_ARE_ZERO,
    "round_down": DOWN,
    "round_up": UP,
    "round_toward_zero": CHOP,
    "everything": FLUSH_TO_ZERO | DENORMALS_ARE_ZERO | UP,
}


@contextlib.contextmanager
def environment(flags):
    """MXCSR with these flags, for this thread; what it was afterwards."""
    libm = ctypes.CDLL("libm.so.6")
    before = ctypes.create_string_buffer(32)
    assert libm.fegetenv(before) == 0
    changed = ctypes.create_string_buffer(before.raw, 32)
    (mxcsr,) = struct.unpack_from("<I", changed, 28)
    struct.pack_into("<I", changed, 28, mxcsr & ~(DENORMALS_ARE_ZERO | FLUSH_TO_ZERO | CHOP) | flags)
    try:
        assert libm.fesetenv(changed) == 0
        yield
    finally:
        libm.fesetenv(before)


TARGETS = ("binary32", "tf32", "binary16", "bfloat16", "e4m3fn", "e5m2fnuz", "e8m0fnu", "int8f6", "binary8p1se")


def _patterns(width):
    """Bit patterns of floats: the smallest subnormals, both sides of the smallest normals, and a sweep of all."""
    step = (1 << width) // 65521 | 1
    sweep = np.arange(0, 1 << 16, dtype=np.uint64) * np.uint64(step)
    sweep &= np.uint64((1 << width) - 1)
    small = np.arange(4096, dtype=np.uint64)
    fraction = 23 if width == 32 else 52
    normals = np.uint64(1 << fraction) + small - np.uint64(2048)
    magnitudes = np.concatenate([small, normals, sweep])
    return np.concatenate([magnitudes, magnitudes | np.uint64(1 << (width - 1))]).astype(f"u{width // 8}")


with np.errstate(invalid="ignore"):
    OPERANDS = {
        "float32": _patterns(32).view(np.float32),
        "float64": _patterns(64).view(np.float64),
        "float16": np.arange(1 << 16, dtype=np.uint16).view(np.float16),
        "bfloat16": np.arange(1 << 16, dtype=np.uint16).view(ml_dtypes.bfloat16),
        "int64": np.concatenate([np.arange(-2048, 2048), (np.arange(1 << 14) << 49) - (1 << 62) + 1]),
    }


def _factors():
    """Numbers of all sizes, many of them subnormal, and numbers near 1: two matrices of each."""
    rng = np.random.default_rng(2)
    return (
        rng.integers(0, 1 << 24, (2, 5, 40)).astype(np.uint32).view(np.float32),
        rng.normal(size=(2, 5, 40)).astype(np.float32),
    )


def _products(small, near):
    """Products of matrices by vectors, as bytes."""
    found = {}
    for name in ("fp32_fma", "fp32_sequential", "bf16_sequential", "exact", "hopper_mma_bfloat16_binary32"):
        fmt = "bfloat16" if "bfloat16" in name else "e4m3fn" if name == "bf16_sequential" else "binary32"
        for x, y in ((small[0], near[1]), near, small):
            factors = [lp.quantize(side, fmt) for side in (x, y)]
            for addend in (None, small[0, :, :5]):
                found[name, len(found)] = lp.matmul(factors[0], factors[1].T, name, addend=addend).tobytes()
    for name in ("hopper_wgmma_e4m3fn_binary32", "hopper_wgmma_e4m3fn_binary16"):
        factors = [lp.quantize(side, "e4m3fn") for side in near]
        found[name] = lp.matmul(factors[0], factors[1].T, name, addend=small[0, :, :5]).tobytes()
    return found


@pytest.mark.parametrize("flags", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_products_of_matrices_are_the_same_in_every_environment(flags):
    """Vectors answer where the process rounds to nearest and keeps subnormals; elsewhere the general kernel does."""
    factors = _factors()  # made here: NumPy narrows float64 as the process rounds
    expected = _products(*factors)
    with environment(flags):
        found = _products(*factors)
    assert [key for key in expected if found[key] != expected[key]] == []


def _answers():
    """Every verb on every operand, as bytes: nothing that is compared later is a float."""
    found = {}
    for kind, values in OPERANDS.items():
        for name in TARGETS:
            projection = lp.Projection(nan="zero") if not lp.format(name).has_nan else lp.Projection()
            found["encode", kind, name] = lp.encode(values, name, projection=projection).tobytes()
            found["quantize", kind, name] = lp.quantize(values, name, projection=projection).tobytes()
    for name in TARGETS:
        fmt = lp.format(name)
        codes = np.arange(1 << min(fmt.width, 16), dtype=np.uint32).astype(code_dtype(fmt))
        found["decode", name] = lp.decode(codes, fmt).tobytes()
        found["decode64", name] = lp.decode(codes, fmt, dtype="float64").tobytes()
        for target in ("binary32", "bfloat16", "e4m3fn", "e8m0fnu"):
            found["cast", name, target] = lp.cast(codes, fmt, target).tobytes()
    for kind in ("float32", "float64"):
        table = np.where(np.isfinite(OPERANDS[kind]), OPERANDS[kind], 1)[: 2176 * 64].reshape(-1, 64)
        for name in ("mxfp8_e4m3", "mxint8", "nvfp4", "fp8_block_1x128", "bfp4"):
            for rule in ("floor", "divide"):
                tensor_scale = 2.0**-140 if name == "nvfp4" else None
                if name == "nvfp4" and rule == "floor":
                    continue
                for axis in (0, 1):
                    blocks = lp.encode(table, name, axis=axis, rule=rule, tensor_scale=tensor_scale)
                    key = (name, rule, kind, axis)
                    found["elements", *key], found["scales", *key] = blocks.codes.tobytes(), blocks.scales.tobytes()
                    found["values", *key] = lp.decode(blocks).tobytes()
                    found["values64", *key] = lp.decode(blocks, dtype="float64").tobytes()
    for kind in ("float32", "float64"):
        x = OPERANDS[kind][:6000]
        others = x[::-1].copy(), np.roll(x, 77)
        for operation, count in (("add", 2), ("divide", 2), ("fma", 3), ("remainder", 2)):
            for name in ("binary32", "bfloat16", "e4m3fn"):
                result = getattr(lp, operation)(x, *others[: count - 1], name)
                found[operation, kind, name] = result.tobytes()
        found["order", kind] = lp.nextafter(x, others[0], "binary32").tobytes() + lp.ulp(x, "binary32").tobytes()
    found["tensor scale"] = lp.encode(OPERANDS["float32"][:64], "nvfp4").tensor_scale.tobytes()
    return found


@pytest.fixture(scope="module")
def usual():
    """The answers of the default environment; the kernels are compiled by this too."""
    with environment(0):
        return _answers()


@pytest.mark.parametrize("flags", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_the_setting_takes_effect(flags):
    """Otherwise the tests below would prove nothing: NumPy's own arithmetic changes as it must."""
    tiny = np.full(64, 1, np.uint32).view(np.float32)  # 2**-149
    smallest = np.full(64, 0x00800000, np.uint32).view(np.float32)  # 2**-126
    one, half, third = np.ones(64, np.float32), np.full(64, 0.5, np.float32), np.full(64, 3, np.float32)
    with environment(flags):
        doubled = (tiny * (one + one)).view(np.uint32)
        halved = (smallest * half).view(np.uint32)
        quotient = (one / third).view(np.uint32)
        negative = (-one / third).view(np.uint32)
    assert set(doubled.tolist()) == ({0} if flags & (DENORMALS_ARE_ZERO | FLUSH_TO_ZERO) else {2})
    assert set(halved.tolist()) == ({0} if flags & FLUSH_TO_ZERO else {0x00400000})
    below, above = 0x3EAAAAAA, 0x3EAAAAAB  # of 1/3; the nearer is the one above
    assert set(quotient.tolist()) == {below if flags & CHOP in (DOWN, CHOP) else above}
    assert set(negative.tolist()) == {(below if flags & CHOP in (UP, CHOP) else above) | 1 << 31}


@pytest.mark.parametrize("flags", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_no_verb_changes_its_answer(flags, usual):
    """Subnormals of every source type are among the operands, where DAZ and FTZ act; a sweep shows rounding."""
    with environment(flags):
        found = _answers()
    assert [key for key in usual if found[key] != usual[key]] == []


TINY = Format(name="tiny", exponent_bits=4, trailing_bits=2, bias=1060)  # its values are subnormal float64s


def _oracle_answers():
    bits = [1, 2, 3, (1 << 52) - 1, 1 << 52, (1 << 52) + 1, 0x3FF0000000000001, 0x7FEFFFFFFFFFFFFF]
    values = [struct.unpack("<d", struct.pack("<Q", word))[0] for word in bits]
    exact = [from_float(value) for value in values]
    return (
        exact,
        [struct.pack("<d", to_float(value)) for value in exact],
        [oracle.encode(value, fmt) for value in values for fmt in (TINY, catalog.E4M3FN, catalog.BINARY32)],
        [[struct.pack("<d", first) for first in firsts] for firsts, _ in oracle.steps(TINY)],
        [codes for _, codes in oracle.steps(TINY)],
        [struct.pack("<d", value) for value in (TINY.max_finite, TINY.min_normal, TINY.min_subnormal)],
    )


@pytest.mark.parametrize("flags", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_the_oracle_does_not_change_its_answer(flags):
    """`Fraction(5e-324)` is 0 under DAZ; the oracle reads bits. Its caches are emptied, so that it works anew."""
    with environment(0):
        oracle._pivots.cache_clear()
        expected = _oracle_answers()
    with environment(flags):
        oracle._pivots.cache_clear()
        oracle._grid.cache_clear()
        found = _oracle_answers()
    assert found == expected
    assert expected[0][0].denominator == 1 << 1074


@pytest.mark.parametrize("flags", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_formats_of_subnormal_float64s_work_in_every_environment(flags):
    """All codes decode and encode back; the kernels agree with the oracle."""
    codes = np.arange(1 << TINY.width, dtype=np.uint8)
    with environment(flags):
        values = lp.decode(codes, TINY)
        back = lp.encode(values, TINY)
    assert values.dtype == np.float64
    assert back.tolist() == codes.tolist()
    assert values.tobytes() == b"".join(struct.pack("<d", to_float(oracle.decode(int(code), TINY))) for code in codes)
