"""Operations on binary64 operands that binary32 holds in parts, against the scalar engine."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import lowprec as lp
from lowprec.kernels.vector import narrowed_program
from lowprec.spec.arith import OPERANDS, operands_of
from tests.support import most_apart

#: Each program has kernels of its own.
pytestmark = pytest.mark.apart

PART = 512
SIZE = 5 * PART + 37

#: What binary32 does not hold: a long number, one too small and one too large, and NaNs with a payload.
WIDE = [1 + 2.0**-24, 2.0**-150, 1e300, *np.array([0x7FF0000000000001, 0xFFF8000000000001], "u8").view("f8")]


@pytest.fixture(autouse=True)
def short_parts(monkeypatch):
    """Several chunks in few elements."""
    monkeypatch.setattr(narrowed_program, "_PART", PART)


def operands(count):
    """Binary32 numbers, zeros, NaNs and infinities; in the second and the last part one that is none."""
    rng = np.random.default_rng(count)
    made = (rng.standard_normal((3, SIZE)) * 2.0 ** rng.integers(-20, 20, (3, SIZE))).astype(np.float32)
    made[0, ::50], made[1, 1::50], made[2, 2::97], made[:, 3::98] = 0, -0.0, np.nan, np.inf
    wide = made.astype(np.float64)
    wide[0, PART + 3], wide[count - 1, -1] = WIDE[count], WIDE[-1]
    wide[0, 2 * PART : 2 * PART + len(WIDE)] = WIDE
    return list(wide[:count])


def agree(verb, *given, **options):
    """Results, and flags, are those of the scalar engine."""
    size = np.broadcast(*given).size
    for flagged in (False, True):
        made = []
        for backend in (None, "scalar"):
            flags = np.zeros(size, np.uint8)
            result = verb(*given, backend=backend, **({"flags": flags} if flagged else {}), **options)
            made.append((result.view(f"u{result.itemsize}"), flags))
        assert np.array_equal(made[0][0], made[1][0]), options
        assert np.array_equal(made[0][1], made[1][1]), options


@pytest.mark.parametrize("operation", most_apart(list(OPERANDS), ["add"]))
def test_parts_that_fit_and_parts_that_do_not(operation):
    """In the modes that different programs serve."""
    given = operands(operands_of(operation))
    if operation == "scaleb":
        given[1] = np.random.default_rng(1).integers(-9, 9, SIZE)
    for fmt in ("bfloat16", "binary32"):
        for how in ({}, {"rounding": "toward_zero"}, {"rounding": "stochastic(8)", "rng": 5}):
            agree(getattr(lp, operation), *given, fmt, **how)


@pytest.mark.parametrize("bits", [8, 32])
@pytest.mark.parametrize("fmt", most_apart(["bfloat16", "binary32", "int8"], ["binary32"]))
def test_conversions_that_draw(fmt, bits):
    """Random integers go by the place in the whole array, whatever part an element is in."""
    given = [np.nan_to_num(x, nan=1.0) for x in operands(1)] if fmt == "int8" else operands(1)
    agree(lp.encode, *given, fmt, rounding=f"stochastic({bits})", rng=7)
    drawn = lp.random_bits(SIZE, 3, bits)
    agree(lp.encode, *given, fmt, rounding=f"stochastic({bits})", random=drawn)


@pytest.mark.parametrize("fmt", ["binary16", "bfloat16"])
def test_conversions_that_the_processor_has_or_nearly(fmt):
    """Into codes and into values, and these in place."""
    (x,) = operands(1)
    x = np.concatenate([x, [2.0**-24, 2.0**-25, 2.0**-126, 2.0**-133, 2.0**-134, 65519.99999, 65520.0, 3e38]])
    agree(lp.encode, x, fmt)
    want = lp.quantize(x, fmt, backend="scalar")
    agree(lp.quantize, x, fmt)
    assert lp.quantize(x, fmt, out=x) is x
    np.testing.assert_array_equal(x.view(np.uint64), want.view(np.uint64))


def test_one_operand_for_all_and_one_of_another_type():
    """Numbers that are broadcast, and codes beside binary64."""
    x, y = operands(2)
    for other in (np.float64(0.75), np.float64(1 + 2.0**-30), y.astype(ml_dtypes.bfloat16)):
        agree(lp.multiply, x, other, "binary16")
        agree(lp.multiply, other, x, "binary16")


def test_a_result_without_a_code_is_refused():
    """Whatever part it is in, and `out` is untouched."""
    x, out = np.ones(SIZE), np.full(SIZE, 7, np.float32)
    for place in (3, SIZE - 1):
        for wide in (1.0, 1 + 2.0**-40):
            given = x * wide
            given[place] = np.nan
            with pytest.raises(ValueError, match="NaN"):
                lp.add(given, x, "int8", out=out)
            assert (out == 7).all()


#: A last operand beside ones that is just above a tie, which the next binary32 number is at or below.
ABOVE = {
    "encode binary16": 1 + 2.0**-11 + 2.0**-40,
    "quantize bfloat16": 1 + 2.0**-8 + 2.0**-40,
    "add": 2.0**-24 + 2.0**-60,
    "sqrt": 1 + 2.0**-23 + 2.0**-48 + 2.0**-52,
    "fma": 2.0**-24 + 2.0**-60,
}


@pytest.mark.parametrize("verb", ABOVE)
def test_calls_that_are_asked_again(verb):
    """The first call is remembered; the others go to its kernel, and where it gives up to the usual way."""
    name, fmt = verb.split() if " " in verb else (verb, "binary32")
    count = operands_of(name) if name in OPERANDS else 1
    call = getattr(lp, name)
    numbers = np.random.default_rng(count).uniform(0.5, 2, (count, SIZE)).astype(np.float32)
    for size in (SIZE, 3, SIZE):
        given = [np.array(row[:size], np.float64) for row in numbers]
        for place in (None, 0, size - 1, None):
            if place is not None:
                for each in given:
                    each[place] = 1.0
                given[-1][place] = ABOVE[verb]
            want = call(*given, fmt, backend="scalar")
            np.testing.assert_array_equal(call(*given, fmt), want)
            out = np.full_like(want, 3)
            assert call(*given, fmt, out=out) is out
            np.testing.assert_array_equal(out, want)
            if place is not None:
                given[-1][place] = 1.0
