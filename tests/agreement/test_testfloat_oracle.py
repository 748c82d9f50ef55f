"""The oracle against Berkeley SoftFloat: codes and flags of conversions, as TestFloat generated them."""

import pathlib

import numpy as np
import pytest

from lowprec.oracle.convert import decode, is_subnormal, project
from lowprec.oracle.exact import Special
from lowprec.oracle.flags import flags, is_signaling
from lowprec.spec import catalog
from lowprec.spec.projection import Flag, Projection
from tests.support import TESTFLOAT_MODES as MODES

VECTORS = pathlib.Path(__file__).parents[2] / "tables" / "published" / "testfloat_conversions.npz"

FUNCTIONS = {
    "f32_to_f16": (catalog.BINARY32, catalog.BINARY16),
    "f32_to_bf16": (catalog.BINARY32, catalog.BFLOAT16),
    "f64_to_f16": (catalog.BINARY64, catalog.BINARY16),
    "i32_to_f16": (catalog.CARRIERS["int32"], catalog.BINARY16),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_codes_and_flags_are_softfloats(function, mode):
    """Every selected row; a NaN stands for any NaN, as SoftFloat's default NaN has no sign."""
    source, target = FUNCTIONS[function]
    projection = Projection(rounding=MODES[mode])
    with np.load(VECTORS) as vectors:
        rows = [vectors[f"{function}.{name}"].tolist() for name in ("in0", f"{mode}.out", f"{mode}.flags")]
    wrong = []
    for operand, code, flag in zip(*rows, strict=True):
        value = decode(operand, source)
        subnormal, signaling = is_subnormal(operand, source), is_signaling(operand, source)
        got = project(value, target, projection, subnormal_operand=subnormal)
        signals = flags(value, target, projection, subnormal_operand=subnormal, signaling=signaling)
        if (_kind(got, target), signals) != (_kind(code, target), flag):
            wrong.append(f"{operand:#x}: got {got:#x} {Flag(signals)!r}, want {code:#x} {Flag(flag)!r}")
    assert wrong == []


def _kind(code, fmt):
    return "NaN" if decode(code, fmt) in (Special.NAN, Special.NEGATIVE_NAN) else code


def test_the_selection_has_every_flag_and_every_kind_of_operand():
    """So that a selection made anew cannot lose what it is for."""
    with np.load(VECTORS) as vectors:
        assert sum(vectors[f"{function}.in0"].size for function in FUNCTIONS) == 1372
        for function, (source, target) in FUNCTIONS.items():
            seen = {flag for mode in MODES for flag in vectors[f"{function}.{mode}.flags"].tolist()}
            inexact, overflow = Flag.INEXACT, Flag.INEXACT | Flag.OVERFLOW
            if source.exponent_bits:
                assert seen == {0, inexact, overflow, Flag.INEXACT | Flag.UNDERFLOW, Flag.INVALID}, function
            else:
                assert seen == {0, inexact, overflow}, function
            even, away = (vectors[f"{function}.{mode}.out"] for mode in ("near_even", "near_maxMag"))
            assert (even != away).sum() > 10, f"{function} to {target}: ties that the two modes tell apart"
