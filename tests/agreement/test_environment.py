"""Answers depend on bits alone: not on flush-to-zero, denormals-are-zero or the process's rounding mode.

A library loaded into the same process may set any of them (compilers' fast-math start-up code
does). They live in MXCSR, at byte 28 of glibc's fenv_t on x86-64.
"""

import contextlib
import ctypes
import functools
import json
import pickle
import platform
import struct

import dask.array
import ml_dtypes
import numpy as np
import pandas
import pytest

import lowprec as lp
from lowprec import p3109
from lowprec.arrays.checks import code_dtype
from lowprec.checkpoints.converting import convert_checkpoint
from lowprec.checkpoints.folder import open_checkpoint
from lowprec.checkpoints.quantizing import quantize_checkpoint, target as scheme
from lowprec.kernels.functions import tables
from lowprec.methods.mx import vector
from lowprec.oracle import convert as oracle
from lowprec.oracle.exact import from_float, to_float
from lowprec.spec import catalog
from lowprec.spec.format import Format
from tests.support import python

pytestmark = [
    pytest.mark.apart,
    pytest.mark.skipif(
        platform.machine() not in ("x86_64", "AMD64") or platform.libc_ver()[0] != "glibc",
        reason="sets MXCSR through glibc's fenv_t, whose layout is that of x86-64",
    ),
]

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


TARGETS = (
    "binary32", "tf32", "binary16", "bfloat16", "e4m3fn", "e5m2fnuz", "e8m0fnu", "int8f6", "binary8p1se",
)  # fmt: skip


def _patterns(width):
    """Bit patterns of floats: smallest subnormals, both sides of the smallest normals, and a sweep of all."""
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


#: Numbers of all sizes, many of them subnormal, and numbers near 1: two matrices of each.
FACTORS = (
    np.random.default_rng(2).integers(0, 1 << 24, (2, 5, 40)).astype(np.uint32).view(np.float32),
    np.random.default_rng(2).normal(size=(2, 5, 40)).astype(np.float32),
)


def _products():
    """Products of matrices: by vectors if the process rounds to nearest and keeps subnormals."""
    found, (small, near) = {}, FACTORS
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
                    found["elements", *key], found["scales", *key] = (
                        blocks.codes.tobytes(),
                        blocks.scales.tobytes(),
                    )
                    found["values", *key] = lp.decode(blocks).tobytes()
                    found["values64", *key] = lp.decode(blocks, dtype="float64").tobytes()
    for kind in ("float32", "float64"):
        x = OPERANDS[kind][:6000]
        others = x[::-1].copy(), np.roll(x, 77)
        for operation, count in (("add", 2), ("divide", 2), ("fma", 3), ("remainder", 2)):
            for name in ("binary32", "bfloat16", "e4m3fn"):
                result = getattr(lp, operation)(x, *others[: count - 1], name)
                found[operation, kind, name] = result.tobytes()
        found["order", kind] = (
            lp.nextafter(x, others[0], "binary32").tobytes() + lp.ulp(x, "binary32").tobytes()
        )
    found["tensor scale"] = lp.encode(OPERANDS["float32"][:64], "nvfp4").tensor_scale.tobytes()
    return found


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


#: Numbers that need subnormal scales, and any others.
RNG = np.random.default_rng(3)
TABLES = {
    "subnormal": np.full(5, 3.67e-40 * 127, np.float32),
    "smallest": np.array([1, 2, 77], np.uint32).view(np.float32),
    "float64": RNG.normal(size=(7, 40)) * 2.0 ** RNG.integers(-160, -100, (7, 1)),
    "float32": RNG.normal(size=(7, 40)).astype(np.float32),
    "int64": RNG.integers(-(1 << 52), 1 << 52, 50),
}


def _statistics():
    """Scales and reports, which are computed by NumPy, in the usual modes."""
    found = {}

    def note(report, *key):
        numbers = [number for number in report.as_dict().values() if isinstance(number, float)]
        found[key] = np.array(numbers).tobytes()

    for kind, values in TABLES.items():
        for name in ("int8", "e4m3fn", "bfloat16"):
            for method in ("max", "percentile", "mse"):
                scales = lp.scale_for(values, name, method)
                found[kind, name, method] = scales.tobytes()
                note(lp.error_report(values, name, scale=scales), kind, name, method, "error")
            found[kind, name, "power"] = lp.scale_for(values, name, axis=0, power_of_two=True).tobytes()
        note(lp.error_report(values, "mxfp8_e4m3"), kind, "mxfp8_e4m3")
    return found


def _of_the_draft():
    """Codes of operations of P3109, whose numbers between are small or rounded to odd."""
    how, shape = ("TowardPositive", "SatNone"), ("Binary8p1uf", "Binary8p4se")
    x, y = (each.reshape(-1) for each in np.meshgrid(np.arange(256), np.arange(256)))
    found = [
        p3109.OPERATIONS[name]["Binary8p1se", "Binary8p4se", how](x[:256])
        for name in ("Exp", "Recip", "Sinh")
    ]
    found += [
        p3109.OPERATIONS[name][(*shape, "Binary8p4se", how)](x, y) for name in ("Add", "Multiply", "Divide")
    ]
    blocks = (x[:4], y.reshape(-1, 8)[:4]), (y[::300][:4], x.reshape(-1, 8)[:4])
    found.append(p3109.BlockDotProduct[(8, *shape, *shape, "binary32", how)](*blocks))
    found += p3109.BlockAdd[(8, *shape, *shape, *shape, how)](*blocks, np.arange(4) * 60)
    found.append(p3109.BlockReduceMultiply[(8, *shape, "Binary8p4se", how)](blocks[0]))
    return dict(enumerate(np.asarray(each).tobytes() for each in found))


#: Numbers of binary32, subnormal ones too, the same with one further on that is none, and the reverse.
MANY = (RNG.standard_normal(40_000) * 2.0 ** RNG.integers(-145, 20, 40_000)).astype(np.float32).astype(float)
WIDE = np.where(np.arange(MANY.size) == 33_333, 1 + 2.0**-30, MANY)
PICKLED = pickle.loads(pickle.dumps(np.linspace(-3, 3, 100, dtype=np.float32)))
#: Float64 numbers that float32 holds are narrowed on the way; subnormal ones equal zero under DAZ.
TINY_64, LARGE_64 = np.array([5e-324, -1e-310, 0.0, 1.5]), np.array([2.0**1000, -(2.0**1000), 1.0, 2.0])


def _narrowed():
    """Operands that kernels narrow, and those of a type that equals float32, as of a pickled array."""
    x, y, z = TINY_64, LARGE_64, MANY[::-1].copy()
    found = []
    for given in (MANY, WIDE):
        found += [lp.encode(given, fmt) for fmt in ("binary16", "bfloat16")]
        found += [
            lp.quantize(given, "bfloat16"),
            lp.add(given, z, "binary32"),
            lp.fma(given, z, z, "binary16"),
        ]
    for _ in range(2):
        found += [lp.add(PICKLED, PICKLED, "e4m3fn"), lp.fma(PICKLED, PICKLED, PICKLED, "binary16")]
    found += [lp.divide(x, x[::-1], "binary32"), lp.multiply(x, y, "binary32"), lp.add(x, x, "e4m3fn")]
    found += [lp.sqrt(x, "e5m2"), *(lp.dot(x, y, how) for how in ("exact", "fp32_fma", "fp64_sequential"))]
    return dict(enumerate(np.asarray(each).tobytes() for each in found))


FUNCTIONS = ("log", "log2", "log10", "exp", "sin", "sinh", "rsqrt", "cbrt", "expm1", "gelu")
#: A list and a frame with elements of two types.
LISTED = [np.float32(1e-40), np.float64(1)]
FRAME = pandas.DataFrame({"a": np.array([1e-40], np.float32), "b": np.array([1e-310])})
BFLOAT16_SCALES = lp.BlockFormat(name="scaled", element="e2m1fn", scale="bfloat16", size=16)
SUBNORMALS = np.array([5e-324, -1e-310])
TINY_32 = np.array([1e-40, -3e-39, 1e-38], np.float32)


@functools.cache
def _made_before():
    """Blocks with scales of the tensor that differ, and a report, made in the default environment."""
    with environment(0):
        scales = 2.0**-149, 2.0**-148
        codes = np.zeros(16, np.uint8), np.zeros(1, np.uint8), "nvfp4"
        blocks = [lp.BlockArray(*codes, tensor_scale=scale) for scale in scales]
        return *blocks, lp.compare(TINY_64, lp.encode(TINY_64, "bfloat16") ^ 1, "bfloat16")


def _of_functions():
    """Values and flags of functions of subnormals; none is kept from another environment."""
    tables._kept.cache_clear()
    found, tiny = [], np.array([3e-310, 1e-40, 5e-324, 2.0**-1030])
    for name in FUNCTIONS:
        flags = np.zeros(tiny.shape, np.uint8)
        found += [getattr(lp, name)(tiny, "binary32", flags=flags), flags]
    found += [
        lp.atan2(tiny, tiny, "binary32"),
        lp.hypot(tiny, tiny, "binary32"),
        lp.pow(tiny, 0.5, "binary32"),
    ]
    return dict(enumerate(np.asarray(each).tobytes() for each in found))


def _of_many_kinds():
    """Lists, frames, lazy arrays, blocks and reports, which NumPy or Python reads before a kernel does."""
    first, second, different = _made_before()
    lazy = lp.encode(dask.array.from_array(np.full(16, 3e-310)), "nvfp4")
    unit = vector.Vector("binary32")
    found = [
        lp.encode(LISTED, "binary32"),
        lp.quantize(FRAME, "binary32").to_numpy(),
        lp.add(FRAME, FRAME, "binary32").to_numpy(),
        first == second,
        lazy.compute(scheduler="synchronous").tensor_scale,
        unit.tanh(TINY_32),
        unit.exp(TINY_32),
        str(lp.compare(TINY_64, lp.encode(TINY_64, "binary32") ^ 1, "binary32")),
        str(different),
        str(lp.error_report(SUBNORMALS, "bfloat16")),
        repr(second),
        repr(different.as_dict()),
    ]
    with pytest.raises(
        ValueError, match=r"scales has 1e-310 at index \(0,\), which 'bfloat16' does not have"
    ):
        lp.encode(TINY_32, BFLOAT16_SCALES, scales=[1e-310])
    return dict(enumerate(each if isinstance(each, str) else np.asarray(each).tobytes() for each in found))


ANSWERS = {
    "verbs": _answers, "products": _products, "statistics": _statistics, "draft": _of_the_draft,
    "narrowed": _narrowed, "functions": _of_functions, "kinds": _of_many_kinds,
}  # fmt: skip


@functools.cache
def usual(name):
    """Return the answers of the default environment; the kernels are compiled by this too."""
    with environment(0):
        return ANSWERS[name]()


#: All verbs take long: in two environments they stand apart, in the others they are `long`.
FEW = ("flush_to_zero", "round_down")
CASES = [
    pytest.param(
        name, flags, id=f"{name}-{way}", marks=[pytest.mark.long] * (name == "verbs" and way not in FEW)
    )
    for name in ANSWERS
    for way, flags in ENVIRONMENTS.items()
]


@pytest.mark.parametrize(("name", "flags"), CASES)
def test_no_answer_changes(name, flags):
    """Operands include subnormals of every source type, where DAZ and FTZ act; a sweep shows rounding.

    Afterwards the process has its own modes again.
    """
    want, tiny = usual(name), np.full(64, 1, np.uint32).view(np.float32)
    with environment(flags):
        found = ANSWERS[name]()
        doubled = set((tiny + tiny).view(np.uint32).tolist())
    assert [key for key in want if found[key] != want[key]] == []
    assert doubled == ({0} if flags & (DENORMALS_ARE_ZERO | FLUSH_TO_ZERO) else {2})


def test_small_numbers_are_not_taken_for_zeros():
    """See that the mode is on: comparisons under it say something."""
    assert usual("statistics")["subnormal", "int8", "max"] == np.float32(3.67e-40).tobytes()
    assert lp.multiply(TINY_64, LARGE_64, "binary32")[0] == 2.0**-74


IMPORT = """
import ctypes, importlib, json, pkgutil, sys
import numpy as np
ctypes.CDLL("libm.so.6").fesetround(int(sys.argv[1], 16))
import lowprec as lp
constants, others = {}, ("methods", "verify", "export", "cli")
for module in pkgutil.walk_packages(lp.__path__, "lowprec."):
    if ".frameworks." not in module.name:
        found = vars(importlib.import_module(module.name))
        for name, value in found.items() if module.name.split(".")[1] not in others else ():
            if isinstance(value, float):
                constants[f"{module.name}.{name}"] = value.hex()
            elif isinstance(value, np.ndarray):
                constants[f"{module.name}.{name}"] = value.tobytes().hex()
blocks = {f"{stack} {name}": repr(profile.block(lp.block_formats[name]))
          for stack, profile in lp.profiles.items() for name in lp.block_formats
          if lp.block_formats[name] in profile.blocks}
print(json.dumps([constants, blocks, {name: repr(fmt) for name, fmt in lp.formats.items()}]))
"""


def test_modules_are_compiled_and_imported_in_any_rounding_mode(tmp_path):
    """All can be, and those that answers depend on hold the same constants.

    Without bytecode from before: 2.0**-6 comes from libm's pow, which is wrong in a directed mode.
    """

    def imported(mode):
        return json.loads(python("-c", IMPORT, mode, PYTHONPYCACHEPREFIX=str(tmp_path / mode)))

    usual = imported("0")
    for mode in ("400", "800", "c00"):
        assert imported(mode) == usual, mode


TINY = Format(name="tiny", exponent_bits=4, trailing_bits=2, bias=1060)  # its values are subnormal float64s


@pytest.mark.parametrize("flags", [FLUSH_TO_ZERO | DENORMALS_ARE_ZERO, UP], ids=["flushing", "up"])
def test_units_and_quantisers_are_asked_the_same(flags):
    """Subnormal addends stay what they are, and matrices are the same; a unit keeps the caller's modes."""
    seen, modes = [], set()

    def unit(a, b, c):
        seen.append(c.tobytes())
        modes.add(float(np.full(64, 0x00800000, np.uint32).view(np.float32)[0] * np.float32(0.5)) == 0)
        return lp.dot(a, b, "fp32_fma", addend=c)

    def found():
        seen.clear()
        identified = lp.identify(unit, ("bfloat16", "bfloat16"), "binary32", k=4)
        equal = lp.equal_quantizers("ocp", "transformer_engine", "nvfp4", samples=64, why=False)
        return identified.names, identified.asked, str(equal), [*seen]

    expected = found()
    assert (expected[0], modes) == (("fp32_fma",), {False})
    modes.clear()
    with environment(flags):
        assert found() == expected
    assert modes == {flags != UP}  # whether it flushes


def test_a_converted_checkpoint_has_the_same_bytes(tmp_path):
    weight = np.random.default_rng(0).standard_normal((32, 64)).astype(np.float32)
    lp.save(tmp_path / "m.safetensors", {"a.weight": weight})
    made = tmp_path / "q.safetensors"
    quantize_checkpoint(
        open_checkpoint(tmp_path / "m.safetensors"), made, scheme("compressed-tensors", "nvfp4")
    )
    bytes_of = []
    for number, flags in enumerate((0, UP, DOWN)):
        out = tmp_path / f"{number}.safetensors"
        with environment(flags):
            convert_checkpoint(open_checkpoint(made), out, scheme("modelopt", "nvfp4"))
        bytes_of.append(out.read_bytes())
    assert bytes_of[0] == bytes_of[1] == bytes_of[2]


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
    """`Fraction(5e-324)` is 0 under DAZ; the oracle reads bits. Its caches are emptied beforehand."""
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
    assert values.tobytes() == b"".join(
        struct.pack("<d", to_float(oracle.decode(int(code), TINY))) for code in codes
    )
