"""The kernels against Berkeley SoftFloat: codes and flags of conversions, as TestFloat generated them."""

import pathlib

import numpy as np
import pytest

import lowprec as lp
from lowprec.spec.projection import Flag
from tests.support import TESTFLOAT_MODES as MODES

VECTORS = pathlib.Path(__file__).parents[2] / "tables" / "published" / "testfloat_conversions.npz"

FUNCTIONS = {
    "f32_to_f16": (np.float32, "binary16"),
    "f32_to_bf16": (np.float32, "bfloat16"),
    "f64_to_f16": (np.float64, "binary16"),
    "i32_to_f16": (np.int32, "binary16"),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_codes_and_flags_are_softfloats(function, mode):
    """Every selected row; SoftFloat's NaN has no sign, so a NaN stands for any."""
    dtype, target = FUNCTIONS[function]
    with np.load(VECTORS) as vectors:
        values = vectors[f"{function}.in0"].view(dtype)
        want, signals = vectors[f"{function}.{mode}.out"], vectors[f"{function}.{mode}.flags"]
    flags = np.zeros(values.shape, np.uint8)
    got = lp.encode(values, target, rounding=MODES[mode], flags=flags)
    nan = np.isnan(lp.decode(want, target))
    assert (np.isnan(lp.decode(got, target)) == nan).all()
    assert (got[~nan] == want[~nan]).all()
    assert (flags == signals).all()


def test_flags_are_written_and_the_codes_stay_what_they_are():
    """`flags=` is beside the result; decode and cast have it too, and via adds up what each step signals."""
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
