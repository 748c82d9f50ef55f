"""Kernels and the oracle against Berkeley SoftFloat: codes and flags, as TestFloat generated them.

SoftFloat's own NaN has no sign, and those of its operands it does not keep: a NaN stands for any.
"""

import pathlib

import numpy as np
import pytest

import lowprec as lp
from lowprec.spec.projection import Flag, Projection
from tests.support import TESTFLOAT_MODES as MODES

PUBLISHED = pathlib.Path(__file__).parents[2] / "tables" / "published"

CONVERSIONS = {
    "f32_to_f16": (np.float32, "binary16"),
    "f32_to_bf16": (np.float32, "bfloat16"),
    "f64_to_f16": (np.float64, "binary16"),
    "i32_to_f16": (np.int32, "binary16"),
}

OPERATIONS = {
    "f16_add": "add",
    "f16_sub": "subtract",
    "f16_mul": "multiply",
    "f16_div": "divide",
    "f16_mulAdd": "fma",
    "f16_sqrt": "sqrt",
    "f16_rem": "remainder",
    "f16_roundToInt": "round_to_integral",
}

DATA = {}
for name in ("conversions", "operations"):
    with np.load(PUBLISHED / f"testfloat_{name}.npz") as vectors:
        DATA |= vectors

CASES = [(function, mode) for function in OPERATIONS for mode in MODES if f"{function}.{mode}.out" in DATA]
BACKENDS = (None, "scalar", "oracle")


def assert_is_softfloats(verb, operands, name, backend, want, signals, silent=0, **options):
    """Hold codes against SoftFloat's, and flags but for those that it does not raise."""
    flags = np.zeros(want.size, np.uint8)
    got = verb(*operands, name, flags=flags, backend=backend, **options)
    nan = np.isnan(lp.decode(want, name))
    assert (np.isnan(lp.decode(got, name)) == nan).all()
    assert (got[~nan] == want[~nan]).all()
    assert (flags & ~np.uint8(silent) == signals).all()
    assert (verb(*operands, name, backend=backend, **options) == got).all()  # by kernels without flags


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("function", CONVERSIONS)
def test_conversions_are_softfloats(function, mode, backend):
    dtype, target = CONVERSIONS[function]
    values, want, signals = (DATA[f"{function}.{part}"] for part in ("in0", f"{mode}.out", f"{mode}.flags"))
    operands = [values.view(dtype)]
    assert_is_softfloats(lp.encode, operands, target, backend, want, signals, rounding=MODES[mode])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("function", "mode"), CASES)
def test_operations_on_binary16_are_softfloats(function, mode, backend):
    """The oracle does every fifth; TestFloat's roundToInt is not inexact, ours is roundToIntegralExact."""
    some = slice(None, None, 5 if backend == "oracle" else 1)
    columns = [DATA[f"{function}.in{place}"] for place in range(3) if f"{function}.in{place}" in DATA]
    operands = [column[some].view(np.float16) for column in columns]
    want, signals = (DATA[f"{function}.{mode}.{part}"][some] for part in ("out", "flags"))
    verb, silent = getattr(lp, OPERATIONS[function]), Flag.INEXACT if function == "f16_roundToInt" else 0
    rule = Projection(rounding=MODES[mode], nan_sign="drop")
    options = {"projection": rule, "dtype": np.uint16, "silent": silent}
    assert_is_softfloats(verb, operands, "binary16", backend, want, signals, **options)


@pytest.mark.parametrize(
    ("functions", "size", "seen"),
    [
        (["f32_to_f16", "f32_to_bf16", "f64_to_f16"], 1372, {0, 1, 5, 3, 16}),
        (["i32_to_f16"], 1372, {0, 1, 5}),
        (["f16_add", "f16_sub", "f16_mul", "f16_mulAdd"], 8016, {0, 1, 5, 16}),
        (["f16_div"], 8016, {0, 1, 3, 5, 8, 16}),
    ],
)
def test_the_selection_tells_modes_and_flags_apart(functions, size, seen):
    """So that a selection made anew cannot lose what it is for: ties, and flags of every kind."""
    of = CONVERSIONS if functions[0] in CONVERSIONS else OPERATIONS
    assert sum(DATA[f"{function}.in0"].size for function in of) == size
    for function in functions:
        flags = {flag for mode in MODES for flag in DATA[f"{function}.{mode}.flags"].tolist()}
        assert seen == flags if of is CONVERSIONS else seen <= flags, function
        even, away = (DATA[f"{function}.{mode}.out"] for mode in ("near_even", "near_maxMag"))
        assert (even != away).sum() > 10, function


def test_flags_are_written_and_the_codes_stay_what_they_are():
    """Decode and cast have `flags=` too, and via adds up what each step signals."""
    values = np.array([1.0, 1.03, 1e9, 1e-9, np.nan, np.inf])
    flags = np.full(6, 0xFF, np.uint8)
    assert (lp.encode(values, "e4m3fn", flags=flags) == lp.encode(values, "e4m3fn")).all()
    inexact, over, under = Flag.INEXACT, Flag.OVERFLOW | Flag.INEXACT, Flag.UNDERFLOW | Flag.INEXACT
    assert flags.tolist() == [0, inexact, over, under, 0, Flag.INVALID]
    lp.decode([0x7C01, 0x7E00, 0x3C00], "binary16", flags=flags[:3])
    assert flags[:3].tolist() == [Flag.INVALID, 0, 0]
    twice = lp.Projection(via=(lp.format("binary32"),))
    lp.encode(np.array([1 + 2.0**-40]), "e4m3fn", projection=twice, flags=flags[:1])
    assert flags[0] == inexact
    lp.encode(np.array([0.5 + 2.0**-40]), "binary32", flags=flags[:1])
    assert flags[0] == inexact
