"""Blocks against the oracle: scales where a rule changes its mind, elements at their midpoints, every policy.

The oracle makes one block after the other, as for the fuzzer of blocks, which draws any others.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from fractions import Fraction
from typing import get_args

import ml_dtypes
import numpy as np
import pytest

import lowprec as lp
from lowprec.oracle import block as oracle
from lowprec.oracle.convert import project
from lowprec.oracle.exact import from_float, to_float
from lowprec.spec import catalog
from lowprec.spec.block import RULES, Arithmetic, BlockFormat, rule
from lowprec.spec.format import Format, Sign
from lowprec.spec.profiles import PROFILES
from lowprec.spec.projection import Projection
from lowprec.spec.rounding import MODES
from tests import sweep
from tests.fuzz import blocks
from tests.fuzz.runner import Call
from tests.support import assert_same_codes, engines_agree, most_apart, refusal_test, value_and_tie

CATALOG = tuple(dict.fromkeys(catalog.BLOCK_FORMATS.values()))
MX = tuple(catalog.block_format(name) for name in sweep.BLOCKS)
THIRDS = rule("nearest(4/3)")


# -- the oracle on arrays ---------------------------------------------------------------------------


def made(values, fmt, axes=None, tensor=None, **drawn):
    """A call, and the codes and scales that the oracle makes of each block by itself."""
    keywords = {name: value for name, value in drawn.items() if value is not None}
    if axes is not None:
        keywords["axis"] = axes if len(axes) > 1 else axes[0]
    if tensor is not None and fmt.tensor_scale != "none":
        keywords["tensor_scale"] = to_float(tensor.value)
    answer = blocks.encode(Call("lp.encode", (values,), (fmt,), keywords))
    assert answer.refused is False, "has no code"
    return keywords, answer.parts


def agrees(values, fmt, axes=None, tensor=None, **drawn):
    """The verb gives the oracle's scales, elements and scale of the tensor."""
    keywords, want = made(values, fmt, axes, tensor, **drawn)
    got = lp.encode(values, fmt, **keywords)
    if fmt.tensor_scale != "none":
        assert got.tensor_scale.view(np.uint32) == want["tensor scale"], fmt
    np.testing.assert_array_equal(got.scales, want["scales"], err_msg=f"{fmt!r}, {keywords}")
    assert_same_codes(got.codes, want["codes"], fmt.element, values.reshape(-1), fmt.elements)
    return got


def given(scale: float) -> oracle.TensorScale:
    """A scale of the tensor that the caller gives."""
    return oracle.TensorScale.given(Fraction(float(np.float32(scale))))


# -- inputs -----------------------------------------------------------------------------------------


def two_to(exponent: int) -> Fraction:
    return Fraction(2) ** exponent


def limits(fmt: BlockFormat, tensor: Fraction = Fraction(1)) -> list[Fraction]:
    """The amaxes at which the scale changes, in some binades: from reals, sqrt(2) by its first 60 bits."""
    largest = Fraction(fmt.element.max_finite)
    binade = rule("floor").divides_by(fmt.element)
    divisor = {"binade": binade, "maximum": largest, "one": Fraction(1)}[fmt.rule.divisor] * tensor
    if fmt.rule.powers == "none":
        magnitudes = [0, 1, 2, 3, 5, 6, fmt.scale.max_magnitude - 1, fmt.scale.max_magnitude]
        middle = fmt.scale.max_magnitude // 2
        magnitudes += range(middle, min(middle + 8, fmt.scale.max_magnitude))
        pairs = [value_and_tie(magnitude, fmt.scale) for magnitude in magnitudes]
        return [Fraction(point) * divisor for pair in pairs for point in pair]
    if fmt.rule.powers == "even":
        divisor = Fraction(1)
    within = {
        "down": Fraction(1),
        "up": Fraction(1),
        "even": 2 if fmt.rule.powers != "even" else 2 - two_to(-fmt.element.precision),
        "nearest": fmt.rule.threshold or Fraction(math.isqrt(2 << 120), 1 << 60),
    }[fmt.rule.powers]
    return [
        within * divisor * two_to(exponent)
        for exponent in (-140, -127, -126, -3, -2, -1, 0, 1, 2, 5, 100, 118)
    ]


def amaxes(fmt: BlockFormat, dtype: type, tensor: Fraction = Fraction(1)) -> np.ndarray:
    """Limits and powers of two with the floats on either side, subnormals, and both ends of what there is."""
    powers = [
        two_to(exponent)
        for exponent in (-149, -140, -127, -126, -125, -10, -1, 0, 1, 2, 7, 8, 9, 15, 120, 127)
    ]
    ends = [two_to(128) - two_to(104), two_to(-148), 3 * two_to(-149), two_to(-150)]
    if dtype is np.float64:
        ends += [two_to(128), two_to(200), two_to(1023), two_to(-160), two_to(-300), two_to(-1074)]
    points = np.array([nearest(point) for point in (*limits(fmt, tensor), *powers, *ends)])
    points = points[points < 2.0**128] if dtype is np.float32 else points
    with np.errstate(over="ignore"):
        bits = points.astype(dtype)
    bits = bits.view(np.int32 if dtype is np.float32 else np.int64)
    bits = np.unique(np.concatenate([bits - 1, bits, bits + 1]))
    found = bits[bits > 0].view(dtype)
    return found[np.isfinite(found)]


def nearest(value: Fraction) -> float:
    """As float64, which ends somewhere."""
    return float(min(value, two_to(1024) - two_to(971)))


def rows(tops: np.ndarray, fmt: BlockFormat, length: int = 40) -> np.ndarray:
    """One row for each amax: a block that begins with it, a ragged tail that does not reach it."""
    parts = np.array([1, -0.6875, -0.0, 0.3125]) if fmt.sizes[-1] >= length else np.array([1, -0.6875, -0.0])
    count = math.prod(fmt.sizes[1:]) if len(fmt.sizes) > 1 else 1
    with np.errstate(under="ignore"):
        values = (tops[:, None] * parts[np.arange(length) % parts.size]).astype(tops.dtype)
    if count == 1:
        return values
    whole = np.zeros((values.shape[0] * fmt.sizes[0], length), tops.dtype)
    whole[:: fmt.sizes[0]] = values
    return whole


# -- scales -----------------------------------------------------------------------------------------


@pytest.mark.apart
@pytest.mark.parametrize("how", [*RULES, THIRDS], ids=str)
@pytest.mark.parametrize("fmt", CATALOG, ids=str)
def test_scales_agree_at_every_limit_of_every_rule(fmt, how):
    """Limits of the rule, powers of two, overflow and underflow of the scale, each with its two neighbours.

    As float32 for one rule and as float64 for the next, but for the rule that the format has.
    """
    if how.powers == "even" and isinstance(fmt.element, lp.Codebook):
        return  # refused
    turn = (CATALOG.index(fmt) + [*RULES, THIRDS].index(how)) % 2
    dtypes = (np.float32, np.float64) if fmt.rule == how else ((np.float32, np.float64)[turn],)
    fmt = dataclasses.replace(fmt, rule=how)
    # Blocks of 128 x 128 are as others are, and long.
    smaller = dataclasses.replace(fmt, size=(2, 16)) if len(fmt.sizes) > 1 else fmt
    for dtype in dtypes:
        if fmt.tensor_scale == "none":
            agrees(rows(amaxes(fmt, dtype), smaller), smaller)
            continue
        for scale in (1.0, 0.7, 2.0**-130, 3 * 2.0**-149, 3e38):
            tensor = given(scale)
            agrees(rows(amaxes(fmt, dtype, tensor.value), smaller), smaller, tensor=tensor)


@pytest.mark.apart
@pytest.mark.parametrize("how", ["nearest", THIRDS, rule("nearest(999999/700001)")], ids=str)
@pytest.mark.parametrize("fmt", MX, ids=str)
def test_the_nearest_scale_is_found_for_values_of_64_bits(fmt, how):
    """The two integers, and the two float64 values, on either side of where the rule changes its mind.

    Their quotients by the largest element lie closer to the limit than 64 bits tell.
    """
    fmt = dataclasses.replace(fmt, rule=how)
    largest = Fraction(fmt.element.max_finite)
    square = 2 * largest**2 if how == "nearest" else (largest * how.threshold) ** 2
    for dtype, bits in ((np.uint64, 64), (np.float64, 53)):
        found = []
        for bit in range(2):  # the limit, and twice it or half
            root = math.isqrt(math.floor(square * Fraction(4) ** (bits + 8)))
            root >>= max(root.bit_length() - bits + bit, 0)
            found += [root + beside for beside in (-1, 0, 1, 2)]
        values = np.array([value for value in found if value < 1 << bits], dtype)
        assert [int(value) for value in values] == [value for value in found if value < 1 << bits]
        agrees(values.reshape(-1, 1), fmt)


SCALE_PROJECTIONS = [
    *(Projection(rounding=mode, saturation="finite") for mode in MODES),
    *(Projection(saturation=saturation) for saturation in ("none", "propagate")),
    Projection(subnormals="flush_results", saturation="finite"),
    Projection(overflow_test="before"),
    Projection(zero="smallest", rounding="away_from_zero"),
]


NARROW_SCALES = ["e8m0fnu", "ue4m3", "binary6p3uf", "e5m2"]


@pytest.mark.apart
@pytest.mark.parametrize("scale", most_apart([*NARROW_SCALES, "binary32"], NARROW_SCALES))
def test_scales_are_projected_in_every_mode(scale):
    """Powers of two and others, around the limits; a format with infinities is one of them."""
    for how, projection in itertools.product(("rceil", "divide"), SCALE_PROJECTIONS):
        known = dataclasses.replace(
            catalog.MXFP8_E4M3, scale=catalog.format(scale), rule=how, scales=projection
        )
        inside = [two_to(exponent) for exponent in range(-9, 3)]
        tops = np.array([*map(float, limits(known)[:24]), *(448 * float(power) for power in inside), 1e38])
        agrees(rows(tops[tops < 2.0**127].astype(np.float32), known), known)


@pytest.mark.apart
@pytest.mark.parametrize("fmt", [MX[0], MX[4], MX[5], catalog.NVFP4, catalog.FP8_BLOCK_1X128], ids=str)
def test_the_scale_of_a_tensor_follows_from_its_largest_finite_value(fmt):
    """Whatever lies beside it; the amax itself at rounding limits of the scale, in every arithmetic."""
    most = Fraction(fmt.element.max_finite) * Fraction(fmt.scale.max_finite)
    ties = [(1 + Fraction(n, 2) / (1 << 23)) * most * two_to(k) for n in (1, 3) for k in (-100, 0, 90)]
    tops = [nearest(tie) for tie in ties if tie < two_to(1000)] + [1.0, 3e38, 1e-37, 2.0**-149, 2.0**-1074]
    for kind, arithmetic in itertools.product(
        ("divide", "reciprocal"), ("exact", "product", "reciprocal", "reciprocals")
    ):
        other = dataclasses.replace(
            fmt, size=16, tensor_scale=kind, arithmetic=arithmetic, infinity="largest"
        )
        for top in tops:
            for value in (np.nextafter(top, 1e-300), top, np.nextafter(top, np.inf)):
                values = value * np.array(
                    [[0.5, -1, 0.01, -np.inf, 0.3, 0.0], [0.2, 0.4, 0.001, 0.7, -0.0, 1e-5]]
                )
                agrees(values, other)
                with np.errstate(over="ignore"):
                    agrees(values.astype(np.float32), other)


# -- elements ---------------------------------------------------------------------------------------


@pytest.mark.apart
@pytest.mark.parametrize("fmt", MX, ids=str)
def test_elements_agree_on_the_first_blocks_of_midpoints(fmt):
    """10,000 blocks of those that tests/sweep.py goes through; the first 50 by the oracle as a whole."""
    _, differences = sweep.batch_of_blocks((fmt.name, 0))
    assert differences == 0
    values = sweep.midpoint_blocks(fmt, 0, 50)
    codes, scales = (made(values, fmt)[1][name] for name in ("codes", "scales"))
    expected_scales, expected = sweep.block_codes(values, fmt)
    assert (scales[:, 0] == expected_scales).all()
    assert_same_codes(expected, codes, fmt.element, values.reshape(-1), fmt.elements)
    assert_same_codes(lp.encode(values, fmt).codes, codes, fmt.element, values.reshape(-1), fmt.elements)


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("fmt", most_apart(MX, MX[::2]), ids=str)
def test_elements_are_rounded_in_every_mode(fmt, mode):
    """300 blocks of midpoints, under two rules; scales keep their own mode."""
    for how in ("floor", "rceil"):
        values = sweep.midpoint_blocks(fmt, 1, 300)
        wanted = dataclasses.replace(fmt, rule=how, elements=dataclasses.replace(fmt.elements, rounding=mode))
        scales, codes = sweep.block_codes(values, wanted)
        for dtype in (np.float32, np.float64):
            got = lp.encode(values.astype(dtype), fmt, rule=how, rounding=mode)
            assert (got.scales[:, 0] == scales).all()
            assert_same_codes(got.codes, codes, fmt.element, values.reshape(-1), wanted.elements)


@pytest.mark.apart
@pytest.mark.parametrize("name", ["nvfp4", "nvfp4_2d", "fp8_block_1x128"])
def test_elements_over_scales_that_are_no_powers_of_two_are_rounded_once(name):
    """Values that are ties of elements times rounded scales, and the floats next to them."""
    fmt = dataclasses.replace(catalog.block_format(name), size=16)
    words = lp.random_bits((3, 70, 32), 5, 32).astype(np.int64)
    ties = np.array(
        [value_and_tie(magnitude, fmt.element)[1] for magnitude in range(fmt.element.max_magnitude)]
    )
    for dtype, scale in itertools.product((np.float32, np.float64), (1.0, 0.3, 1e-30)):
        tensor = given(scale) if fmt.tensor_scale != "none" else oracle.ONE
        tops = (1 + words[0, :, 0] % 1000 / 1000).astype(dtype) * dtype(
            fmt.element.max_finite * float(tensor.value)
        )
        scales = made(tops[:, None], fmt, tensor=tensor)[1]["scales"][:, 0]
        by = lp.decode(scales, fmt.scale, dtype="float64") * float(tensor.value)
        values = (ties[words[1] % ties.size] * by[:, None]).astype(dtype)
        bits = values.view(f"i{values.itemsize}") + (words[2] % 3 - 1).astype(f"i{values.itemsize}")
        values = bits.view(dtype) * np.where(words[0] & 1, -1, 1).astype(dtype)
        values[:, 0] = values[:, 16] = tops
        agrees(values, fmt, tensor=tensor)


# -- zeros, NaNs, infinities, tails -----------------------------------------------------------------

INF, NAN = math.inf, math.nan
SPECIAL_BLOCKS = [
    [0.0],
    [-0.0],
    [0.0, -0.0, 0.0],
    [0.0, 0.0, -3.0, -0.0],
    [NAN],
    [-NAN, 1.0, -1.0, 0.0, -0.0],
    [INF],
    [-INF, 1.0, -1.0, 0.0, -0.0, 1e-30],
    [INF, NAN, -1.0, -NAN, -INF, -0.0],
    [NAN, 0.0, -0.0],
    [INF, 0.0, -0.0],
    [2.0**-149, -(2.0**-149), 0.0, -0.0],
    [2.0**-126, -(2.0**-127), 2.0**-149],
    [2.0**-126 - 2.0**-149, -(2.0**-130)],
    [2.0**-127, -(2.0**-126) * 0.75],
    [3.4028234663852886e38, -1.0, -1e38],
    [1.7 * 2.0**120, 2.0**119],
    [1e-30, -1e-30, 1e-38],
    [-1.0, 2.0, -3.0, 4.0, -6.0, 7.0, -448.0],
]


def special_rows(length: int, period: int) -> np.ndarray:
    """A block each, in the last block of a row; the first one, if that is another, has one of the others."""
    values = np.zeros((len(SPECIAL_BLOCKS), length))
    start = (length - 1) // period * period
    for row, block, other in zip(
        values, SPECIAL_BLOCKS, SPECIAL_BLOCKS[7:] + SPECIAL_BLOCKS[:7], strict=True
    ):
        if start:
            row[: len(other)] = other
        row[start:][: len(block)] = block[: length - start]
    return values


@pytest.mark.parametrize("length", [1, 3, 16, 32, 33, 64, 100])
@pytest.mark.parametrize("fmt", [item for item in CATALOG if len(item.sizes) == 1], ids=str)
def test_zeros_specials_and_tails_agree_in_rows_of_any_length(fmt, length):
    """The tail is a block of its own. Where elements have no NaN, the format says what becomes of one."""
    values = special_rows(length, fmt.size)
    if not fmt.scale.has_nan:
        values = values[np.isfinite(values).all(axis=1)]
    for dtype in (np.float32, np.float64):
        agrees(np.tile(values, (4, 1)).astype(dtype), fmt)


POLICIES = {
    "zero": ("smallest", "one", "rule"),
    "nan": ("block", "scale", "all", "elements"),
    "infinity": ("block", "power", "largest", "elements"),
    "flush_subnormals": (False, True),
}


@pytest.mark.parametrize(
    ("name", "arithmetic"),
    most_apart(
        [
            *((name, "exact") for name in ("mxfp8_e4m3", "mxfp8_e5m2", "mxint8", "nvfp4", "fp8_block_1x128")),
            ("mxfp8_e4m3", "product"),
            ("nvfp4", "reciprocal"),
            ("mxfp4", "reciprocals"),
        ],
        [("mxfp8_e4m3", "exact"), ("nvfp4", "exact"), ("mxfp8_e4m3", "product"), ("nvfp4", "reciprocal")],
    ),
)
def test_every_combination_of_policies_agrees(name, arithmetic):
    """96 of them, on zeros, NaNs, infinities, subnormals; NaNs of elements without one become the largest."""
    fmt = catalog.block_format(name)
    projection = Projection(saturation="finite", nan="max")
    values = special_rows(8, 16)[:-3].astype(np.float32)
    for policies in itertools.product(*POLICIES.values()):
        chosen = dict(zip(POLICIES, policies, strict=True))
        other = dataclasses.replace(fmt, size=16, elements=projection, arithmetic=arithmetic, **chosen)
        agrees(values, other)


#: A shared exponent of which every code is a number.
WITHOUT_NAN = dataclasses.replace(catalog.E8M0FNU, name="e8m0fu", nans=0)


def test_what_has_no_code_is_refused_with_its_place():
    """A NaN where elements alone decide and have none; negative values never are."""
    fmt = dataclasses.replace(catalog.MXFP4, nan="elements")
    values = np.ones((3, 70), np.float32)
    values[1, 65] = np.nan
    message = (
        r"cannot encode the value nan at index \(1, 65\) as an element of 'mxfp4': 'e2m1fn' has no "
        r"code for it"
    )
    with pytest.raises(ValueError, match=message):
        lp.encode(values, fmt)
    message = (
        r"cannot encode NaN or infinite values in blocks of 'msfp12', whose scales \('e8m0fu'\) have "
        r"no NaN code"
    )
    with pytest.raises(ValueError, match=message):
        lp.encode(values, dataclasses.replace(catalog.MSFP12, scale=WITHOUT_NAN))


# -- profiles ---------------------------------------------------------------------------------------


PROFILE_BLOCKS = [(profile, known) for profile in PROFILES.values() for known in profile.blocks]


@pytest.mark.parametrize(("profile", "known"), PROFILE_BLOCKS, ids=str)
def test_the_blocks_of_every_profile_agree(profile, known):
    """Limits of their rules with the floats next to them, and whatever a format can say of specials."""
    fmt = profile.block(known)
    smaller = dataclasses.replace(fmt, size=(2, 16)) if len(fmt.sizes) > 1 else fmt
    specials = special_rows(fmt.sizes[-1] + 5, fmt.sizes[-1])[:, : min(fmt.sizes[-1] + 5, 40)]
    if not fmt.scale.has_nan or (fmt.nan == "elements" and not fmt.element.has_nan):
        specials = specials[~np.isnan(specials).any(axis=1)]
    if not fmt.scale.has_nan and fmt.infinity == "block":
        specials = specials[np.isfinite(specials).all(axis=1)]
    for scale in (1.0, 0.3, 1e-40) if fmt.tensor_scale != "none" else (1.0,):
        tensor = given(scale)
        for dtype in (np.float32, np.float64):
            for values in (rows(amaxes(fmt, dtype, tensor.value)[::2], smaller), specials.astype(dtype)):
                agrees(values, smaller, tensor=tensor)
    agrees(specials.astype(np.float32), smaller)
    if smaller is fmt and known.name in lp.block_formats:
        values = rows(amaxes(fmt, np.float32)[::7], fmt)
        mine, named = lp.encode(values, fmt), lp.encode(values, known.name, profile=profile.name)
        assert (mine.codes == named.codes).all()
        assert (mine.scales == named.scales).all()
        assert named.format == fmt


# -- stochastic rounding ----------------------------------------------------------------------------


def test_a_generator_is_drawn_from_once():
    """Its key is then that of both streams."""
    projection = Projection(rounding="stochastic(8)", saturation="finite")
    fmt = dataclasses.replace(catalog.MXFP8_E4M3, rule="divide", elements=projection, scales=projection)
    values = np.random.default_rng(4).standard_normal((64, 40)).astype(np.float32)
    key = int(np.random.default_rng(5).integers(0, 1 << 64, dtype=np.uint64))
    got, want = lp.encode(values, fmt, rng=np.random.default_rng(5)), agrees(values, fmt, rng=key)
    assert (got.codes == want.codes).all()
    assert (got.scales == want.scales).all()


# -- decode -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fmt", "dtypes"),
    most_apart(
        itertools.product(CATALOG, ((np.float64, np.float32), (np.float16, ml_dtypes.bfloat16))),
        [(fmt, (np.float64, np.float32)) for fmt in CATALOG if fmt.scale.name != "e8m0fnu"]
        + [(fmt, (np.float64, np.float32)) for fmt in (catalog.MXFP8_E4M3, catalog.MXINT8)]
        + [(fmt, (np.float16, ml_dtypes.bfloat16)) for fmt in (catalog.MXFP4, catalog.NVFP4)],
    ),
    ids=str,
)
def test_decode_agrees_on_every_element_under_many_scales(fmt, dtypes):
    """All codes under each of 8 scales at least, NaN among them, in float64; and rounded once in others.

    Usually to 16 bits under scales of both kinds alone, powers of two and numbers.
    """
    codes = np.arange(1 << fmt.element.width)
    last = (1 << fmt.scale.width) - 1
    shared = sorted({0, 1, 2, last // 3, last // 2, last // 2 + 1, last - 2, last - 1, last})
    smaller = dataclasses.replace(fmt, size=(1, codes.size) if len(fmt.sizes) > 1 else codes.size)
    for scale in (1.0, 0.3, 2.0**-149, 3e38) if fmt.tensor_scale != "none" else (None,):
        tensor = Fraction(1) if scale is None else Fraction(float(np.float32(scale)))
        blocks = lp.BlockArray(
            np.tile(codes, (len(shared), 1)).astype(np.uint8),
            np.array(shared)[:, None],
            smaller,
            tensor_scale=scale,
        )
        want = [
            [to_float(value) for value in oracle.decode(code, codes.tolist(), fmt, tensor)] for code in shared
        ]
        for dtype in dtypes:
            got = lp.decode(blocks, dtype=dtype)
            with np.errstate(all="ignore"):
                expected = np.array(want).astype(dtype)
            nan = np.isnan(expected.astype(np.float64))
            assert (np.isnan(got.astype(np.float64)) == nan).all()
            assert (got.view(f"u{got.itemsize}")[~nan] == expected.view(f"u{got.itemsize}")[~nan]).all(), (
                fmt,
                dtype,
            )


# -- sizes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", ["e8m0fnu", "ue4m3"])
def test_blocks_of_any_size_are_decoded_by_their_own_scale(scale):
    """Multiples of a vector's 32 lanes, one more and one less among them, along either axis.

    With one element more than lanes the last one of a block had the scale that happened to be in memory.
    """
    element, scales_of, rng = catalog.E4M3FN, catalog.format(scale), np.random.default_rng(4)
    for size in (*range(1, 70), 95, 96, 97, 127, 128, 129, 257):
        fmt = BlockFormat(name="m", element=element, scale=scales_of, size=size)
        for length in {7, size, size + 1, 3 * size - 1}:
            codes = rng.integers(0, element.max_magnitude, (3, length)).astype(np.uint8)
            near = scales_of.max_magnitude // 2 + rng.integers(-4, 5, (3, -(-length // size)))
            scales = near.astype(np.uint8)
            # Both factors are numbers of few bits, so that float64 and float32 hold their products.
            factors = np.repeat(lp.decode(scales, scales_of, dtype="float64"), size, 1)[:, :length]
            want = lp.decode(codes, element, dtype="float64") * factors
            for axis in (1, 0):
                turned = (codes, scales) if axis else (codes.T.copy(), scales.T.copy())
                blocks = lp.BlockArray(*turned, fmt, axes=(axis,))
                got = lp.decode(blocks) if axis else lp.decode(blocks).T
                assert got.tolist() == want.tolist(), (size, length, axis)


# -- wide formats -----------------------------------------------------------------------------------

#: Of at most 32 bits; with the range of binary64, and near its smallest numbers.
WIDE = (
    catalog.BINARY32,
    Format(name="wide", exponent_bits=2, trailing_bits=29, bias=1),
    Format(name="far", exponent_bits=10, trailing_bits=20, bias=511, nans=1),
    Format(name="tiny", exponent_bits=10, trailing_bits=20, bias=1030, nans=1),
)
WIDE_SCALES = (*WIDE, Format(name="u32", exponent_bits=0, trailing_bits=32, bias=-31, sign=Sign.UNSIGNED))


@pytest.mark.parametrize("element", WIDE, ids=str)
@pytest.mark.parametrize("scale", WIDE_SCALES, ids=str)
@pytest.mark.parametrize("tensor", [None, 0.7], ids=str)
def test_products_of_many_bits_are_rounded_once(element, scale, tensor):
    """Up to 88 bits: those of more than 64 were refused. Overflow and subnormals of the product too."""
    fmt = BlockFormat(
        name="wide", element=element, scale=scale, size=4, tensor_scale="none" if tensor is None else "divide"
    )
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 1 << element.width, (40, 4)).astype(np.uint32)
    scales = rng.integers(0, 1 << scale.width, (40, 1)).astype(np.uint32)
    blocks = lp.BlockArray(codes, scales, fmt, tensor_scale=tensor)
    factor = Fraction(1 if tensor is None else float(np.float32(tensor)))
    want = [
        oracle.decode(int(one[0]), row.tolist(), fmt, factor) for one, row in zip(scales, codes, strict=True)
    ]
    for dtype, carrier in ((np.float64, catalog.BINARY64), (np.float32, catalog.BINARY32)):
        got = lp.decode(blocks, dtype=dtype)
        expected = [[project(value, carrier) for value in row] for row in want]
        assert got.view(f"u{got.itemsize}").tolist() == expected


@pytest.mark.parametrize("how", ["floor", "ceil", "even", "rceil", "nearest", "nearest(4/3)", "divide"])
@pytest.mark.parametrize(
    "element", [WIDE[1], Format(name="wider", exponent_bits=1, trailing_bits=30, bias=3)], ids=str
)
def test_scales_of_elements_of_more_than_24_bits_agree(element, how):
    """Their largest value is what amax is divided by. At every threshold and next to it, and below."""
    top, rng = element.max_finite, np.random.default_rng(2)
    amax = np.array([top, top / 2, top * 1.5, top * 4 / 3, top * np.sqrt(2), top / 3, 1.0, 2.0])
    amax = np.concatenate([amax, np.nextafter(amax, np.inf), np.nextafter(amax, 0)])
    values = np.stack([amax, amax * rng.random(amax.size)], axis=1)
    for scale, arithmetic in itertools.product(
        ("e8m0fnu", "ue4m3", "binary32"), ("exact", "product", "reciprocal")
    ):
        fmt = BlockFormat(
            name="m", element=element, scale=catalog.format(scale), size=2, rule=how, arithmetic=arithmetic
        )
        blocks = lp.encode(values, fmt)
        for row, scales, codes in zip(values.tolist(), blocks.scales, blocks.codes, strict=True):
            assert oracle.encode(list(map(from_float, row)), fmt) == (int(scales[0]), codes.tolist()), (
                fmt,
                row,
            )


def test_quotients_by_scales_of_more_than_48_bits_are_exact():
    """Three times the scale, of 28 and 23 bits, is a tie of powers of two: it went away from the even one."""
    element = catalog.format("e3m0fn")
    fmt = BlockFormat(
        name="wide", element=element, scale=WIDE_SCALES[-1], size=2, tensor_scale="divide", rule="divide"
    )
    for scale, tensor in ((0xC3B0565, 0x5F1D33), ((1 << 28) - 1, (1 << 23) - 1)):
        got = agrees(np.array([16.0, 3.0]) * scale * tensor, fmt, tensor=given(tensor))
        assert (int(got.scales[0]), got.codes.tolist()) == (scale, [7, 4])


def test_nothing_over_nothing_is_nothing():
    """An amax that is 0 in binary32, over a divisor that is 0 there: the scale was the largest."""
    element = Format(name="tiny", exponent_bits=2, trailing_bits=1, bias=140)
    fmt = BlockFormat(
        name="tiny", element=element, scale=catalog.BINARY32, size=2, rule="divide", tensor_scale="divide",
        arithmetic="product", zero="rule",
    )  # fmt: skip
    got = agrees(np.array([2.0**-200, -(2.0**-201)]), fmt, tensor=given(2.0**-60))
    assert (got.scales.tolist(), got.codes.tolist()) == ([0], [0, 8])


# -- what fields say of each other -------------------------------------------------------------------


@pytest.mark.parametrize("arithmetic", ["exact", "product", "reciprocal", "reciprocals"])
def test_the_rule_even_rounds_the_amax_itself(arithmetic):
    """1.75 becomes 2, so the scale is the next power of two, though amax / (4 * 1.5) is 1.1666 * 2**-2."""
    fmt = dataclasses.replace(catalog.MXFP4, rule="even", tensor_scale="divide", arithmetic=arithmetic)
    for amax, code in ((1.75, 126), (math.nextafter(1.75, 0), 125)):
        got = agrees(np.array([amax, 0.25]), fmt, tensor=given(1.5))
        assert got.scales.tolist() == [code]


LONG = Format(name="long", exponent_bits=1, trailing_bits=30, sign="unsigned", nans=1)


@pytest.mark.parametrize(
    ("element", "scale", "rounding"),
    [(catalog.E2M1FN, LONG, "stochastic(30, A)"), (LONG, catalog.UE4M3, "nearest_even")],
    ids=["random bits", "divisor"],
)
def test_scales_of_more_bits_than_lanes_have_are_left_to_the_oracle(element, scale, rounding):
    """More than 58 with the random ones, or quotients by more than 53, a tensor's scale included."""
    fmt = BlockFormat(
        name="wide", element=element, size=4, rule="divide", tensor_scale="divide", scale=scale,
        scales=Projection(rounding=rounding),
    )  # fmt: skip
    x = np.random.default_rng(1).uniform(0.1, 1, (3, 8)).astype(np.float32)
    rng = {"rng": 3} if "stochastic" in rounding else {}
    engines_agree(lp.encode, x, fmt, backends=(None, "oracle"), **rng)
    why = "blocks whose scales have as many or are quotients by more than 53; use 'oracle'"
    with pytest.raises(ValueError, match=re.escape(why)):
        lp.encode(x, fmt, backend="scalar", **rng)


@pytest.mark.parametrize(
    ("nan", "codes"), [("block", [0, 0]), ("scale", [0, 0x80]), ("all", [0x7F, 0x7F]), ("elements", [0, 0])]
)
def test_zeros_under_a_nan_scale_are_what_nan_says(nan, codes):
    """Where the rule makes 0 of them, which the scale's format does not have."""
    fmt = dataclasses.replace(catalog.MXFP8_E4M3, zero="rule", nan=nan)
    got = agrees(np.float32([0.0, -0.0]), fmt)
    assert (got.scales.tolist(), got.codes.tolist()) == ([0xFF], codes)


@pytest.mark.parametrize("arithmetic", ["exact", "product", "reciprocal", "reciprocals"])
def test_a_scale_of_negative_zero_divides_as_zero(arithmetic):
    """A `nan_code` may make one of scales that are too large, in a format with a sign."""
    fmt = BlockFormat(
        name="m", element=catalog.E2M1FN, scale=catalog.E4M3FN, size=2, rule="divide", arithmetic=arithmetic,
        scales=Projection(nan_code=0x80),
    )  # fmt: skip
    got = agrees(np.float32([1e6, -3.0]), fmt)
    assert got.scales.tolist() == [0x80]
    assert got.codes.tolist() == ([0, 8] if arithmetic == "exact" else [7, 15])


# -- quotients --------------------------------------------------------------------------------------


@pytest.mark.parametrize("arithmetic", ["reciprocal", "product"])
def test_quotients_that_become_zero_in_steps_are_zero_for_formats_without_it(arithmetic):
    """Binary32 has no number as small as the quotient; an element without zero is then what zeros become."""
    element = Format(name="m", exponent_bits=3, trailing_bits=2, bias=3, nans=1, subnormals=False)
    fmt = BlockFormat(name="m", element=element, scale=catalog.E8M0FNU, size=4, arithmetic=arithmetic)
    values = np.array([2.0**54, 2.0**-107, -(2.0**-107), 1.0], np.float32)
    engines_agree(lp.encode, values, fmt, backends=(None, "scalar", "oracle"))


@pytest.mark.apart
@pytest.mark.parametrize("bias", [-200, -260, -600, -1010])
@pytest.mark.parametrize("trailing_bits", [0, 2], ids=["powers", "numbers"])
@pytest.mark.parametrize("element", ["e2m1fn", "int4"])
def test_quotients_by_scales_above_all_values_are_not_lost(bias, trailing_bits, element):
    """They lie below the numbers of binary64, and some modes round what is not zero to something else.

    Rounded to odd, 2**-75 over a scale of 2**1015 became 0, and 3e38 over 2**600 became 6.
    """
    scale = Format(
        name="huge", exponent_bits=3, trailing_bits=trailing_bits, bias=bias, sign=Sign.UNSIGNED,
        subnormals=trailing_bits > 0, nans=1,
    )  # fmt: skip
    values = np.array([[1e-20, -1e-38, 3e38, 0, -1, 2e10, 3e-3, 1e-30], [0, 0, -3e-3, 1e-38, 0, 0, 0, 5e-45]])
    for mode, how in itertools.product(
        ("to_odd", "nearest_even", "toward_positive", "toward_zero", "away_from_zero"),
        ("floor", "rceil", "divide", "project"),
    ):
        fmt = BlockFormat(
            name="b", element=catalog.format(element), scale=scale, size=8, rule=how, zero="rule",
            elements=Projection(rounding=mode), scales=Projection(rounding=mode),
        )  # fmt: skip
        for dtype in (np.float32, np.float64):
            agrees(values.astype(dtype), fmt)


@pytest.mark.parametrize("place", range(12))
def test_blocks_of_small_numbers_under_a_scale_of_their_tensor(place):
    """Subnormal and small numbers side by side, as those that are larger, and a NaN among them."""
    rng = np.random.default_rng(place)
    powers = rng.integers(-149, (-110, -60, -20)[place % 3], (64, 4)).repeat(16, 1)
    values = (rng.standard_normal((64, 64)) * 2.0**powers).astype(np.float32)
    values[rng.random(values.shape) < 0.1] = 0
    values[5:9, 7] = 2.0**90
    if place % 5 == 0:
        values[3, 3] = np.nan
    options = {} if place % 2 else {"tensor_scale": float(np.float32(1.3 * 2.0 ** (-90 - 4 * place)))}
    if place % 4 == 1:
        options |= {"rounding": "stochastic(8)", "rng": 3}
    engines_agree(lp.encode, values, "nvfp4", **options)


# -- given scales -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["mxfp4", "mxfp8_e4m3", "mxint8", "nvfp4", "fp8_block_1x128", "fp8_block_128x128"]
)
def test_elements_under_given_scales_agree(name):
    """Those that follow from the values give the same codes; any others, NaN and zero among them, agree."""
    fmt, rng = catalog.block_format(name), np.random.default_rng(7)
    values = (rng.standard_normal((130, 200)) * 2.0 ** rng.integers(-9, 9, (130, 1))).astype(np.float32)
    own = lp.encode(values, fmt)
    again = lp.encode(values, fmt, scales=own.scales, tensor_scale=own.tensor_scale)
    assert (again.codes == own.codes).all()
    assert (again.scales == own.scales).all()
    as_values = lp.decode(own.scales, fmt.scale, dtype=np.float64)
    same = lp.encode(values, fmt, scales=as_values, tensor_scale=own.tensor_scale)
    assert (same.codes == own.codes).all()
    some = values[:3]
    grid = lp.encode(some, fmt).scales.shape
    near = rng.integers(-4, 5, grid) + int(np.median(own.scales))
    scales = np.where(rng.random(grid) < 0.1, 0, np.clip(near, 0, fmt.scale.max_magnitude))
    if fmt.scale.nan_code is not None:
        scales[0, -1] = fmt.scale.nan_code
    if fmt.element.exponent_bits:
        some[1, 5] = np.inf
    given = {"scales": scales.astype(own.scales.dtype), "tensor_scale": own.tensor_scale}
    got = engines_agree(lp.encode, some, fmt, backends=(None, "oracle"), **given)
    assert (got.scales == given["scales"]).all()


MOSTLY_SUBNORMAL = [
    *itertools.product(("mxfp8_e4m3", "nvfp4", "mxint8"), ((300, 512), (70, 1001)), (0, 1)),
    ("nvfp4_2d", (304, 512), (0, 1)),
    ("fp8_block_128x128", (3, 140, 256), (1, 2)),
]


@pytest.mark.parametrize(
    ("name", "shape", "axis", "kind"),
    most_apart(
        [(*each, kind) for each in MOSTLY_SUBNORMAL for kind in (np.float32, ml_dtypes.bfloat16)],
        # Each kind and format has a kernel. Usually every format is read from one kind, and one from both.
        [(*each, np.float32) for each in MOSTLY_SUBNORMAL[:-1]]
        + [(*each, ml_dtypes.bfloat16) for each in MOSTLY_SUBNORMAL if each[0] == "nvfp4"],
    ),
)
def test_arrays_of_mostly_subnormal_numbers_agree(name, shape, axis, kind):
    """They are encoded again, in wider numbers, a piece at a time; other kinds of blocks are beside them."""
    rng = np.random.default_rng(9)
    values = rng.standard_normal(shape) * 2.0**-130
    for count, value in ((40, 2.0**-60), (30, 1.0), (20, np.inf), (20, np.nan), (10, 2.0**100)):
        values[tuple(rng.integers(0, size, count) for size in shape)] = value
    values[..., :40] = 0
    for options in ({}, {"rounding": "stochastic(8)", "random": rng.integers(0, 256, shape, np.uint32)}):
        engines_agree(lp.encode, values.astype(kind), name, axis=axis, **options)


@pytest.mark.parametrize("arithmetic", most_apart(get_args(Arithmetic), ["reciprocal"]))
def test_drawn_elements_under_drawn_scales_agree(arithmetic):
    """Scales that are NaN, infinite, zero and subnormal, of any format, over numbers that are anything."""
    rng = np.random.default_rng(get_args(Arithmetic).index(arithmetic))
    cut = 0
    for place in range(40):
        scale = catalog.format(("e8m0fnu", "e4m3fn", "e5m2", "binary16", "bfloat16", "binary32")[place % 6])
        element = catalog.format(("e4m3fn", "e5m2", "e2m1fn", "int8f6", "e4m3fnuz")[place % 5])
        tensor = "none" if place % 4 else "divide"
        mode = ("nearest_even", "toward_negative", "stochastic(7)", "nearest_away")[place % 7 % 4]
        fmt = BlockFormat(
            name="drawn", element=element, scale=scale, size=4, arithmetic=arithmetic, tensor_scale=tensor,
            elements=Projection(rounding=mode, nan="error" if element.has_nan else "max"), nan="block",
            smallest_divides_as=None if place % 3 or arithmetic != "exact" else 0.5,
            scales=Projection(nan="error" if scale.has_nan else "max"),
        )  # fmt: skip
        values = rng.standard_normal((3, 10)) * 2.0 ** rng.integers(-12, 12, (3, 10))
        values.reshape(-1)[rng.integers(30, size=4)] = 0.0, -0.0, np.inf, np.nan
        values = values.astype((np.float32, np.float64, np.float16)[place % 3])
        scales = rng.integers(0, scale.max_magnitude + scale.infinity + 1, (3, 3))
        scales[rng.integers(3), :] = 0, 1, scale.max_magnitude
        if scale.has_nan:
            scales[rng.integers(3), 0] = scale.nan_code
        options = {"scales": scales.astype(np.uint32), "tensor_scale": None}
        if tensor != "none":
            options["tensor_scale"] = 0.75 if place % 8 else 2.0**-100
        if fmt.elements.rounding.bits:
            options["random"] = rng.integers(0, 128, values.shape, dtype=np.uint32)
        want = engines_agree(lp.encode, values, fmt, backends=("oracle", None), **options)
        cut += int((want.codes != 0).sum())
    assert cut > 400


def test_a_number_without_a_code_is_named_under_given_scales():
    """By its place in the whole array, wherever it lies."""
    values = np.ones((300, 320), np.float32)
    values[299, 317] = np.nan
    scales = np.full((300, 10), 127, np.uint8)
    with pytest.raises(ValueError, match=re.escape("cannot encode the value nan at index (299, 317) as an")):
        lp.encode(values, "mxfp4", scales=scales)


test_what_cannot_be_is_refused = refusal_test(
    globals(),
    """
lp.encode(np.ones((2, 96), np.float32), "mxfp4", scales=np.ones((2, 2)))
    ValueError: scales of shape (2, 2) do not fit: 'mxfp4' has (2, 3) for these values
lp.encode(np.ones((2, 96), np.float32), "mxfp4", scales=np.full((2, 3), 3.0))
    ValueError: scales has 3.0 at index (0, 0), which 'e8m0fnu' does not have
lp.encode(np.ones((2, 96), np.float32), "mxfp4", scales=np.full((2, 3), 300))
    ValueError: codes of 'e8m0fnu' are 0 to 255: 6 of 6 are not...
lp.encode(np.ones((2, 96), np.float32), "mxfp4", scales=np.ones((2, 3)), rule="ceil")
    ValueError: rule= says how scales follow from values, scales= gives them; leave one out
lp.encode(np.ones((2, 96), np.float32), "nvfp4", scales=np.ones((2, 6)))
    ValueError: scales of 'nvfp4' are parts of the tensor's scale: give tensor_scale= too
lp.encode(np.ones((2, 96), np.float32), "fp8_block_1x128", scales=np.full((2, 1), -1.0))
    ValueError: scales of blocks are positive, and some of those given have a sign
lp.encode(np.ones((2, 96), np.float32), "fp8_block_1x128", scales=np.full((2, 1), 3212836864))
    ValueError: scales of blocks are positive, and some of those given have a sign
lp.encode(np.ones((2, 96), np.float32), "e4m3fn", scales=np.ones((2, 3)))
    ValueError: scales= is for block formats, not for 'e4m3fn'; divide the values
""",
)
