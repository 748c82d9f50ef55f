"""Operations on binary16 against Berkeley SoftFloat: codes and flags, as TestFloat generated them."""

import pathlib

import numpy as np
import pytest

from lowprec.arrays.checks import codes_operand
from lowprec.arrays.operations import codes_of
from lowprec.oracle.arith import operate
from lowprec.spec.catalog import BINARY16
from lowprec.spec.projection import Flag, Projection
from tests.support import TESTFLOAT_MODES as MODES

VECTORS = pathlib.Path(__file__).parents[2] / "tables" / "published" / "testfloat_operations.npz"

FUNCTIONS = {
    "f16_add": "add",
    "f16_sub": "subtract",
    "f16_mul": "multiply",
    "f16_div": "divide",
    "f16_mulAdd": "fma",
    "f16_sqrt": "sqrt",
    "f16_rem": "remainder",
    "f16_roundToInt": "round_to_integral",
}

with np.load(VECTORS) as vectors:
    DATA = dict(vectors)

CASES = [(function, mode) for function in FUNCTIONS for mode in MODES if f"{function}.{mode}.out" in DATA]


def rows(function, mode):
    """Operands, results with every NaN as 7e00, and flags."""
    operands = [DATA[f"{function}.in{place}"] for place in range(3) if f"{function}.in{place}" in DATA]
    return operands, one_nan(DATA[f"{function}.{mode}.out"]), DATA[f"{function}.{mode}.flags"]


def one_nan(codes):
    """SoftFloat's own NaN has no sign, and those of its operands it does not keep."""
    return np.where(codes & 0x7FFF > 0x7C00, 0x7E00, codes)


def silent(function, flags):
    """Without inexact: TestFloat's roundToInt does not signal inexact; ours is roundToIntegralExact."""
    return flags & ~np.uint8(Flag.INEXACT) if function == "f16_roundToInt" else flags


@pytest.mark.parametrize(("function", "mode"), CASES)
def test_codes_and_flags_are_softfloats(function, mode):
    """Through the general kernel, which has flags, and through the fast one, which has not."""
    operands, want, signals = rows(function, mode)
    given = [codes_operand(codes, BINARY16) for codes in operands]
    projection, flags = Projection(rounding=MODES[mode], nan_sign="drop"), np.zeros(want.size, np.uint8)
    got = codes_of(FUNCTIONS[function], given, BINARY16, projection, np.dtype(np.uint16), flags=flags)
    assert (one_nan(got) == want).all()
    assert (silent(function, flags) == signals).all()
    again = codes_of(FUNCTIONS[function], given, BINARY16, projection, np.dtype(np.uint16))
    assert (again == got).all()


@pytest.mark.parametrize(("function", "mode"), CASES)
def test_the_oracle_has_softfloats_codes_and_flags(function, mode):
    """Every fifth case."""
    operands, want, signals = rows(function, mode)
    projection = Projection(rounding=MODES[mode], nan_sign="drop")
    wrong = []
    for place in range(0, want.size, 5):
        codes = [int(column[place]) for column in operands]
        code, flags = operate(FUNCTIONS[function], codes, [BINARY16] * len(codes), BINARY16, projection)
        code, flags = int(one_nan(np.uint16(code))), int(silent(function, np.uint8(flags)))
        if (code, flags) != (int(want[place]), int(signals[place])):
            wrong.append((codes, code, flags, int(want[place]), int(signals[place])))
    assert wrong == []


def test_the_selection_tells_modes_and_flags_apart():
    """So that a selection made anew cannot lose what it is for."""
    assert sum(DATA[f"{function}.in0"].size for function in FUNCTIONS) == 8016
    for function in ("f16_add", "f16_sub", "f16_mul", "f16_div", "f16_mulAdd"):
        seen = {flag for mode in MODES for flag in DATA[f"{function}.{mode}.flags"].tolist()}
        assert {0, Flag.INEXACT, Flag.INEXACT | Flag.OVERFLOW, Flag.INVALID} <= seen, function
        even, away = (DATA[f"{function}.{mode}.out"] for mode in ("near_even", "near_maxMag"))
        assert (even != away).sum() > 10, function
    seen = {flag for mode in MODES for flag in DATA[f"f16_div.{mode}.flags"].tolist()}
    assert {Flag.DIVIDE_BY_ZERO, Flag.INEXACT | Flag.UNDERFLOW} <= seen
