"""Strategies: what they draw is valid, shrinks toward the simple, reaches borders, and keeps all laws."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, find, given, settings, strategies as st

import lowprec as lp
from lowprec.oracle.convert import value_of
from lowprec.testing import (
    accumulations,
    arrays,
    block_formats,
    blocks,
    check_block_format,
    check_format,
    codes,
    formats,
    near_ties,
    projections,
    values,
)

FEW = settings(max_examples=30, suppress_health_check=list(HealthCheck))


@FEW
@given(formats(max_width=6))
def test_thirty_formats_drawn_at_random_keep_all_laws(fmt):
    """Formats that nobody has thought of."""
    check_format(fmt, samples=0)


@settings(max_examples=5, suppress_health_check=list(HealthCheck))
@given(block_formats())
def test_block_formats_drawn_at_random_keep_all_laws(fmt):
    """Scales without NaN have no NaN blocks to be tried."""
    check_block_format(fmt, samples=0)


@given(formats(min_width=3, max_width=32, signs=(lp.Sign.UNSIGNED,)))
def test_formats_are_what_is_asked_for(fmt):
    """Width and sign."""
    assert 3 <= fmt.width <= 32
    assert fmt.sign is lp.Sign.UNSIGNED


@given(st.data())
def test_codes_and_values_are_those_of_the_format(data):
    """Every code decodes; finite ones to numbers that encode to themselves."""
    fmt = data.draw(formats(max_width=12))
    assert 0 <= data.draw(codes(fmt)) < 1 << fmt.width
    value = data.draw(values(fmt))
    assert math.isfinite(value)
    assert lp.quantize(value, fmt, saturation="finite") == value or (value == 0 and not fmt.has_negative_zero)


@given(st.data())
def test_near_ties_are_next_to_values_and_ties(data):
    """Half a gap, or nothing, and one float64 at most."""
    fmt = data.draw(st.sampled_from([lp.format("e4m3fn"), lp.format("int8"), lp.format("binary16")]))
    near = data.draw(near_ties(fmt))
    size = abs(near)
    around = {np.nextafter(size, 0), size, np.nextafter(size, math.inf)}
    place = min(int(np.searchsorted([float(value_of(m, fmt)) for m in range(fmt.max_magnitude + 2)], size)), 1 << 15)
    points = set()
    for magnitude in range(max(place - 2, 0), place + 1):
        low, high = value_of(magnitude, fmt), value_of(magnitude + 1, fmt)
        points |= {float(low), float((low + high) / 2), float(high)}
    assert around & points


def test_they_shrink_toward_the_simple():
    """The smallest example of anything is a small one."""
    assert find(codes("e4m3fn"), lambda code: True) == 0
    assert find(values("e4m3fn"), lambda value: value > 1) == 1.125
    assert find(projections(), lambda how: True) == lp.Projection()
    assert find(formats(), lambda fmt: True).width == 2
    fmt = find(formats(), lambda fmt: fmt.exponent_bits >= 2 and fmt.trailing_bits >= 1)
    assert fmt.width <= 4
    assert find(near_ties("e2m1fn"), lambda value: value > 2) in (2.5, 3.0)


def test_borders_are_reached():
    """The overflow threshold, and the smallest value, within the usual number of examples."""
    seen = set()

    @settings(max_examples=200, database=None, derandomize=True)
    @given(near_ties("e4m3fn"))
    def collect(value):
        seen.add(abs(value))

    collect()
    assert {464.0, 448.0} <= seen
    assert min(seen) <= 2.0**-10


@given(arrays("e5m2", (2, 3), dtype="float32"))
def test_arrays_compose_with_those_of_numpy(x):
    """Shape and type."""
    assert (x.shape, x.dtype) == ((2, 3), np.float32)


@given(st.data())
def test_blocks_decode_to_their_scale_times_their_elements(data):
    """Of any block format along one axis."""
    fmt = data.draw(block_formats(sizes=st.integers(1, 8)))
    array = data.draw(blocks(fmt))
    scale = lp.decode(array.scales, fmt.scale, dtype="float64").repeat(fmt.sizes[0])[: array.codes.size]
    want = lp.decode(array.codes, fmt.element, dtype="float64") * scale * float(array.tensor_scale or 1.0)
    np.testing.assert_array_equal(np.abs(lp.decode(array, dtype="float64")), np.abs(want))


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_a_dot_product_of_one_term_is_its_product(data):
    """In every accumulation that keeps that many bits."""
    how = data.draw(accumulations())
    x, y = (data.draw(values("e2m1fn")) for _ in range(2))
    exact = Fraction(x) * Fraction(y)
    assert Fraction(float(lp.dot([x], [y], how))) == exact


def test_bad_arguments_are_refused():
    """With what is wrong."""
    with pytest.raises(ValueError, match="min_width=9 and max_width=8 must be in order, from 2 to 32"):
        formats(min_width=9, max_width=8)
    with pytest.raises(ValueError, match="blocks of 'nvfp4_2d' lie along two axes"):
        find(blocks("nvfp4_2d"), lambda array: True)
