"""Strategies: what they draw is valid, shrinks toward the simple, reaches borders, and keeps all laws."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings, strategies as st
from hypothesis.extra import numpy as hnp

import lowprec as lp
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
from lowprec.testing.grid import grid_of

#: Kinds that no catalog has, or few of its formats.
BESIDE = ("NaNs beside that of -0", "payloads")

#: A check takes a second: what fails is told as it is drawn, and not made smaller.
SLOW = {"suppress_health_check": list(HealthCheck), "phases": (Phase.explicit, Phase.reuse, Phase.generate)}


@pytest.mark.apart
@settings(max_examples=6, **SLOW)
@given(formats(max_width=6))
def test_formats_drawn_at_random_keep_all_laws(fmt):
    """Formats that nobody has thought of."""
    check_format(fmt, samples=0)


@pytest.mark.long
@settings(max_examples=30, **SLOW)
@given(formats())
def test_thirty_formats_drawn_at_random_keep_all_laws(fmt):
    """`pytest -m long`; thirty others each time with `--hypothesis-profile=lowprec-explore`."""
    check_format(fmt)


@settings(max_examples=5, **SLOW)
@given(block_formats(max_size=8))
def test_block_formats_drawn_at_random_keep_all_laws(fmt):
    """The catalog's small ones among them."""
    check_block_format(fmt, samples=0)


@pytest.mark.long
@settings(max_examples=30, **SLOW)
@given(block_formats())
def test_thirty_block_formats_drawn_at_random_keep_all_laws(fmt):
    """As above."""
    check_block_format(fmt)


@given(formats(min_width=3, max_width=32, signs=(lp.Sign.UNSIGNED,)))
def test_formats_are_what_is_asked_for(fmt):
    """Width and sign."""
    assert 3 <= fmt.width <= 32
    assert fmt.sign is lp.Sign.UNSIGNED


def test_formats_of_every_kind_are_drawn():
    """Each parameter takes each of its kinds of value."""
    seen = set()

    @settings(max_examples=300)
    @given(formats(max_width=8))
    def collect(fmt):
        seen.update(
            [fmt.sign, ("infinity", fmt.infinity), ("zero", fmt.subnormals), ("-0", fmt.negative_zero)]
        )
        seen.update([("nans", min(fmt.nans, 2)), ("fixed", fmt.exponent_bits == 0), ("width", fmt.width)])
        seen.add(("far", not -64 <= fmt.bias <= 64))
        seen.add(("NaNs beside that of -0", not fmt.negative_zero and fmt.nans > 0))
        seen.add(("payloads", fmt.payload_bits is not None))

    collect()
    wanted = {
        *lp.Sign,
        *(
            (name, kind)
            for name in ("infinity", "zero", "-0", "fixed", "far", *BESIDE)
            for kind in (True, False)
        ),
    }
    assert (
        wanted | {("nans", count) for count in range(3)} | {("width", width) for width in range(2, 9)} <= seen
    )


@given(st.data())
def test_codes_and_values_are_those_of_the_format(data):
    """Every code decodes; finite ones to numbers that encode to themselves."""
    fmt = data.draw(formats(max_width=12))
    assert 0 <= data.draw(codes(fmt)) < 1 << fmt.width
    value = data.draw(values(fmt))
    assert math.isfinite(value)
    assert lp.quantize(value, fmt, saturation="finite", flags=np.zeros((), np.uint8)) == value


@given(st.data())
def test_near_ties_are_next_to_values_and_ties(data):
    """One float64 away at most."""
    fmt = data.draw(st.sampled_from([lp.format("e4m3fn"), lp.format("int8"), lp.format("e8m0fnu")]))
    grid = grid_of(fmt)
    ends = [grid.value(magnitude) for magnitude in range(grid.last + 2)]
    points = [float(each) for pair in itertools.pairwise(ends) for each in (pair[0], sum(pair) / 2)]
    size = abs(data.draw(near_ties(fmt)))
    assert {np.nextafter(size, 0), size, np.nextafter(size, math.inf)} & {*points}


@pytest.mark.apart
def test_they_shrink_toward_the_simple():
    """The smallest example of anything is a small one."""
    assert find(codes("e4m3fn"), lambda code: True) == 0
    assert find(values("e4m3fn"), lambda value: value > 1) == 1.125
    assert find(near_ties("e2m1fn"), lambda value: value > 2) in (2.5, np.nextafter(2, 3))
    assert find(projections(), lambda how: True) == lp.Projection()
    assert find(formats(), lambda fmt: True).width == 2
    assert find(formats(), lambda fmt: fmt.exponent_bits >= 2 and fmt.trailing_bits >= 1).width <= 4
    assert find(block_formats(), lambda fmt: fmt.name == "drawn").size == 1
    assert find(blocks("mxfp4"), lambda array: True).codes.tolist() == [0]
    assert find(arrays("e4m3fn"), lambda x: (x > 1).any()).size == 1


def test_borders_are_reached():
    """The overflow threshold and the ends of the subnormals, within a hundred examples."""
    seen = set()

    @settings(max_examples=100)
    @given(near_ties("binary16"))
    def collect(value):
        seen.add(abs(value))

    collect()
    assert {65504.0, 65520.0} & seen
    assert {2.0**-14, 2.0**-14 * (1 + 2**-11)} & seen
    assert min(seen) <= 2.0**-25


@given(arrays("e5m2", (2, 3), dtype="float32"), hnp.arrays(np.uint8, 5, elements=codes("e5m2")))
def test_they_compose_with_those_of_numpy(x, given):
    """Shapes and types."""
    assert (x.shape, x.dtype) == ((2, 3), np.float32)
    assert lp.decode(given, "e5m2").shape == (5,)


@given(st.data())
def test_every_format_takes_every_projection(data):
    """Numbers, infinities, and NaN where it is not refused."""
    fmt, how = data.draw(formats(max_width=8)), data.draw(projections())
    x = data.draw(arrays(fmt, 4, elements=st.one_of(near_ties(fmt), st.sampled_from([math.inf, -math.inf]))))
    given = np.append(x, math.nan if fmt.has_nan or how.nan != "error" else 0.0)
    made = lp.encode(given, fmt, projection=how, flags=np.zeros(5, np.uint8))
    assert made.max() < 1 << fmt.width


@given(projections(random=True))
def test_stochastic_projections_are_drawn_where_they_are_asked_for(how):
    """With any number of bits."""
    given = {} if not how.rounding.bits else {"random": np.zeros(1, np.uint32)}
    assert lp.encode([1.0], "e4m3fn", projection=how, flags=np.zeros(1, np.uint8), **given) == 0x38


@given(st.data())
def test_blocks_decode_to_their_scale_times_their_elements(data):
    """Of any block format along one axis."""
    array = data.draw(blocks(data.draw(block_formats(max_size=8))))
    fmt = array.format
    scale = lp.decode(array.scales, fmt.scale, dtype="float64").repeat(fmt.sizes[0])[: array.codes.size]
    with np.errstate(all="ignore"):
        want = lp.decode(array.codes, fmt.element, dtype="float64") * scale * float(array.tensor_scale or 1.0)
    np.testing.assert_array_equal(lp.decode(array, dtype="float64"), want)


@settings(max_examples=50)
@given(st.data())
def test_a_dot_product_of_one_term_is_its_product(data):
    """In every accumulation: products of 4-bit numbers have few bits. A window may cut them."""
    how = data.draw(accumulations())
    x, y = (data.draw(values("e2m1fn")) for _ in range(2))
    got, exact = Fraction(float(lp.dot([x], [y], how))), Fraction(x) * Fraction(y)
    bits = getattr(how.accumulator, "fraction_bits", None)
    assert got == exact or (bits is not None and abs(got - exact) < abs(exact) * Fraction(4, 1 << bits))


def test_bad_arguments_are_refused():
    """With what is wrong."""
    with pytest.raises(ValueError, match="min_width=9 and max_width=8 must be in order, from 2 to 32"):
        formats(min_width=9, max_width=8)
    with pytest.raises(ValueError, match="max_size=0 must be 1 or more"):
        block_formats(max_size=0)
    with pytest.raises(ValueError, match="blocks of 'nvfp4_2d' lie along two axes"):
        find(blocks("nvfp4_2d"), lambda array: True)
