"""The cases must hold every input that can tell a wrong conversion from a right one."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import lowprec as lp
from lowprec.oracle.convert import decode
from lowprec.oracle.exact import Special, to_float
from lowprec.spec import catalog
from lowprec.verify.inputs import conversions

SMALL = [fmt for fmt in catalog.FORMATS.values() if fmt.width <= 8] + list(catalog.P3109_UP_TO_8[::7])


def numbers(fmt):
    """Every finite number of a format, sorted, by the oracle."""
    values = (decode(code, fmt) for code in range(1 << fmt.width))
    return sorted({value for value in values if not isinstance(value, Special)})


def neighbours(value, dtype):
    """The floats of a type around an exact value: itself if it is one, and one on either side."""
    nearest = dtype(to_float(value)) if value.denominator.bit_length() < 1074 else dtype(0)
    return {np.nextafter(nearest, dtype(-math.inf)), nearest, np.nextafter(nearest, dtype(math.inf))}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("fmt", SMALL, ids=str)
def test_every_value_and_tie_is_a_case_with_its_neighbours(fmt, dtype):
    """Nearest, directed and odd rounding all change their answer there and nowhere else."""
    values = numbers(fmt)
    ties = [(low + high) / 2 for low, high in itertools.pairwise(values)]
    ulp = Fraction(2) ** (fmt.emax - fmt.trailing_bits) if fmt.exponent_bits else values[-1] - values[-2]
    beyond = values[-1] + ulp / 2
    have = set(conversions.inputs(fmt, dtype).tolist())
    lost = [
        (float(point), float(near))
        for point in [*values, *ties, beyond, -beyond]
        for near in neighbours(point, dtype)
        if float(near) not in have
    ]
    assert not lost


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_specials_and_subnormals_are_cases(dtype):
    """Whatever the format, an implementation must cope with its own type's ends."""
    values = conversions.inputs(catalog.E4M3FN, dtype)
    bits = values.view(f"u{values.dtype.itemsize}")
    assert np.unique(bits).size == bits.size
    assert np.isposinf(values).any()
    assert np.isneginf(values).any()
    assert np.isnan(values).sum() >= 8
    info = np.finfo(dtype)
    for value in (0.0, info.smallest_subnormal, info.smallest_normal, info.max):
        assert {value, -value} <= set(values.tolist())
    assert {0, 1 << (8 * values.dtype.itemsize - 1)} <= set(bits.tolist())


def test_sixteen_bit_types_are_exhaustive():
    """65,536 patterns are few enough to try them all."""
    for source in ("float16", "bfloat16"):
        assert np.unique(conversions.inputs(catalog.E5M2, source).view(np.uint16)).size == 1 << 16


@pytest.mark.parametrize("source", ["int32", "int64"])
def test_integers_next_to_ties_are_cases(source):
    """An integer just beside a tie of bfloat16 reaches it when it goes through binary32."""
    have = set(conversions.inputs(catalog.BFLOAT16, source).tolist())
    assert {16973823, 16973824, 16973825, -16973823, 0, np.iinfo(source).min, np.iinfo(source).max} <= have


def test_samples_depend_on_the_seed_alone():
    """A report can be repeated."""
    once, again = (conversions.sample("float32", 1000, seed).view(np.uint32) for seed in (1, 1))
    assert (once == again).all()
    assert (once != conversions.sample("float32", 1000, 2).view(np.uint32)).any()


@pytest.mark.parametrize("fmt", [catalog.BINARY32, catalog.TF32], ids=str)
def test_wide_formats_are_taken_at_the_ends_of_their_binades(fmt):
    """A carry or an exponent goes wrong at the first and last codes of a binade."""
    have = set(conversions.magnitudes(fmt).tolist())
    t = fmt.trailing_bits
    for field in range(1, (fmt.max_magnitude >> t) + 1):
        assert {(field << t) + offset for offset in (-2, -1, 0, 1, 2)} - have <= {fmt.max_magnitude + 1}
    assert fmt.max_magnitude in have


@pytest.mark.parametrize("fmt", [catalog.E4M3FN, catalog.E5M2, catalog.E2M1FN, catalog.INT8F6], ids=str)
def test_every_bit_of_the_tail_stands_alone_above_a_tie_with_an_even_code_below(fmt):
    """An encoder whose sticky bit leaves one out rounds exactly these to even, and wrongly."""
    bits = conversions.inputs(fmt, np.float32).view(np.uint32)
    one = int(np.float32(1.0 if fmt.max_finite > 1 else 0.5).view(np.uint32))
    width = 23 - (fmt.trailing_bits if fmt.exponent_bits else 6)
    tie = one | 1 << (width - 1)
    lost = [bit for bit in range(width - 1) if tie | 1 << bit not in set(bits.tolist())]
    assert not lost


@pytest.mark.parametrize("lost", range(17))
def test_an_encoder_that_drops_a_sticky_bit_is_caught(lost):
    """Planted: one bit of the operand is ignored below the tie."""

    def encode(values):
        bits = values.view(np.uint32)
        return lp.encode((bits & ~np.uint32(1 << lost)).view(np.float32), "e4m3fn")

    values = conversions.inputs(catalog.E4M3FN, np.float32)
    values = values[np.isfinite(values)]
    assert (encode(values) != lp.encode(values, "e4m3fn")).any()


@pytest.mark.parametrize("fmt", [catalog.BINARY16, catalog.TF32, catalog.format("binary16p16uf")], ids=str)
def test_sparse_cases_have_the_ends_of_a_format(fmt):
    """Of as few binades as there are."""
    have = set(conversions.magnitudes(fmt, sparse=True).tolist())
    assert {0, 1, fmt.max_magnitude} <= have
    assert len(have) < 200
