"""HiFloat4: what the authors' code gives, its steps once more in fractions, and what users may hand in."""

import pathlib
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import lowprec as lp
from lowprec.methods import hif4
from lowprec.oracle import convert
from lowprec.spec.formats import BFLOAT16
from lowprec.spec.projection import DEFAULT, Projection, Saturation

PUBLISHED = np.load(pathlib.Path(__file__).parents[2] / "tables" / "published" / "hifloat4_blocks.npz")
FINITE = Projection(saturation=Saturation.FINITE)


def rounded(number: Fraction, fmt: lp.Format, how: Projection = DEFAULT) -> Fraction:
    return Fraction(convert.decode(convert.project(number, fmt, how), fmt))


def by_definition(block: list[Fraction]) -> tuple[Fraction, list[int], list[int], list[Fraction]]:
    """Scale, doublings of eighths and of sixteenths, magnitudes of elements, each of one block of 64."""
    most = max(abs(x) for x in block)
    wanted = rounded(most * rounded(Fraction(1, 7), BFLOAT16), BFLOAT16, FINITE)
    scale = rounded(min(max(wanted, Fraction(1, 2**48)), Fraction(49152)), hif4.SCALE)
    inverse = rounded(1 / scale, BFLOAT16)
    eighths = [int(max(map(abs, block[i : i + 8])) * inverse >= 4) for i in range(0, 64, 8)]
    sixteenths = [
        int(max(map(abs, block[i : i + 4])) * inverse / 2 ** eighths[i // 8] >= 2) for i in range(0, 64, 4)
    ]
    elements = []
    for i, x in enumerate(block):
        quarters = abs(x) * inverse / 2 ** (eighths[i // 8] + sixteenths[i // 4]) * 4
        elements.append(Fraction(min((quarters + Fraction(1, 2)) // 1, 7), 4))
    return scale, eighths, sixteenths, elements


def hard_blocks() -> np.ndarray:
    """Blocks of float64 at ties and thresholds of each step, and one ulp to either side."""
    random = np.random.default_rng(7)
    rows = []
    for scale, inverse in ((1.0, 1.0), (1.25, 0.80078125), (1.5, 0.66796875), (1.75, 0.5703125)):
        for _ in range(8):
            row = random.integers(0, 57, 64) / 8 / inverse
            row = np.nextafter(row, random.choice([-1.0, 9.0, 0.0], 64) * row)
            row[random.integers(64)] = 7 * scale
            rows.append(row * random.choice([-1.0, 1.0], 64) * 2.0 ** int(random.integers(-30, 10)))
    for top in (7 * 1.125, 7 * 1.375, 7 * 1.625, 7 * 1.875, 2.0**-47, 7 * 2.0**-48, 343_000.0, 3.4e38):
        for amax in (np.nextafter(top, 0), top, np.nextafter(top, np.inf)):
            rows.append(amax * random.integers(-8, 9, 64) / 8)
            rows[-1][0] = amax
    return np.array(rows)


def test_values_are_those_of_the_authors():
    np.testing.assert_array_equal(hif4.quantize(PUBLISHED["x"]), PUBLISHED["values"])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_every_step_is_that_of_the_definition(dtype):
    values = hard_blocks().astype(dtype)
    made = hif4.encode(values)
    expected = [by_definition([Fraction(float(x)) for x in row]) for row in values]
    assert [Fraction(float(s)) for s in lp.decode(made.scales[:, 0], hif4.SCALE)] == [e[0] for e in expected]
    assert made.eighths[:, 0].astype(int).tolist() == [e[1] for e in expected]
    assert made.sixteenths[:, 0].astype(int).tolist() == [e[2] for e in expected]
    magnitudes = [[Fraction(int(code) % 8, 4) for code in row] for row in made.codes[:, 0]]
    assert magnitudes == [e[3] for e in expected]
    np.testing.assert_array_equal(made.codes[:, 0] >= 8, np.signbit(values))
    assert {bit for e in expected for bit in (*e[1], *e[2])} == {0, 1}


def test_ties_to_even_would_be_seen():
    """An element halfway between two quarters goes away from zero."""
    block = np.zeros(12, np.float32)
    block[0], block[8:] = 7.0, [0.125, 0.375, -0.625, 1.125]
    assert hif4.quantize(block)[8:].tolist() == [0.25, 0.5, -0.75, 1.25]


def test_scales_have_their_values():
    assert (hif4.SCALE.min_normal, hif4.SCALE.max_finite) == (2.0**-48, 49152.0)
    assert hif4.SCALE.nan_code == 255
    assert lp.decode(np.arange(8, dtype=np.uint8), hif4.ELEMENT).tolist() == [i / 4 for i in range(8)]


@pytest.mark.parametrize("length", [1, 3, 4, 63, 64, 65, 128, 200])
def test_tails_are_blocks_filled_up_with_zeros(length):
    values = np.random.default_rng(length).standard_normal((2, 3, length)).astype(np.float32)
    padded = np.zeros((2, 3, -(-length // 64) * 64), np.float32)
    padded[..., :length] = values
    made = hif4.encode(values)
    assert (made.shape, made.scales.shape) == (values.shape, (2, 3, padded.shape[-1] // 64))
    np.testing.assert_array_equal(hif4.decode(made), hif4.quantize(padded)[..., :length])


def test_types_make_no_difference():
    values = np.random.default_rng(3).integers(-100, 100, (4, 64))
    expected = hif4.quantize(values.astype(np.float64))
    for dtype in (np.int8, np.int64, np.float16, np.float32, ml_dtypes.bfloat16):
        np.testing.assert_array_equal(hif4.quantize(values.astype(dtype)), expected)
    assert hif4.quantize(np.zeros((0, 64))).shape == (0, 64)
    assert hif4.quantize(np.zeros((2, 0))).shape == (2, 0)


def test_zeros_and_specials():
    made = hif4.encode([[0.0, -0.0], [1.0, np.nan], [-np.inf, 1.0], [1.0, 0.0]])
    assert made.scales.ravel().tolist()[:3] == [0, 255, 255]
    values = hif4.decode(made)
    assert values[0].tolist() == [0.0, 0.0]
    assert np.signbit(values[0]).tolist() == [False, True]
    assert np.isnan(values[1:3]).all()
    assert not made.codes[1:3].any()
    assert np.isfinite(values[3]).all()


@pytest.mark.parametrize(
    ("x", "error", "words"),
    [
        (1.0, ValueError, "x is one number; give an array"),
        (np.array([2**53 + 1]), ValueError, "an integer that float64 does not have, 9007199254740993"),
        ([1j], TypeError, "x must be real numbers of at most 64 bits, not complex128"),
        (["a"], TypeError, "x must be real numbers of at most 64 bits"),
    ],
)
def test_bad_input_is_refused(x, error, words):
    with pytest.raises(error, match=words):
        hif4.encode(x)
