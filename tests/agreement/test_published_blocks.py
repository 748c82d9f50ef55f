"""Published: blocks as microxcaling makes them, and figures of the literature for whole arrays."""

import dataclasses
import pathlib

import numpy as np
import pytest

import lowprec as lp
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat
from lowprec.spec.families import fixed
from lowprec.spec.profiles import PROFILES
from lowprec.spec.projection import Projection
from tests.support import assert_same_bits

TABLE = pathlib.Path(__file__).parents[2] / "tables" / "published" / "microxcaling_blocks.npz"

with np.load(TABLE) as _table:
    PUBLISHED = {name: _table[name] for name in _table.files}

INPUTS = PUBLISHED["x_f32_bits"].view(np.float32)
QUIRK = PUBLISHED["row_log2_quirk"].astype(bool)

#: With -1.75 to 1.75, as microxcaling has it.
MXINT4 = dataclasses.replace(
    catalog.MXINT8,
    name="mxint4",
    element=fixed("int4f2", 4, 2),
    elements=Projection(saturation="finite", symmetric=True),
)
STACK = PROFILES["microxcaling"]
FORMATS = {
    "int8": STACK.block(catalog.MXINT8),
    "int4": dataclasses.replace(STACK.block(catalog.MXINT8), name="mxint4", element=MXINT4.element),
    "fp8_e5m2": STACK.block(catalog.MXFP8_E5M2),
    "fp8_e4m3": STACK.block(catalog.MXFP8_E4M3),
    "fp6_e3m2": STACK.block(catalog.MXFP6_E3M2),
    "fp6_e2m3": STACK.block(catalog.MXFP6_E2M3),
    "fp4_e2m1": STACK.block(catalog.MXFP4),
}
ROUNDINGS = {"nearest": "nearest_away", "even": "nearest_even", "floor": "toward_zero"}


def log_is_rounded_up(values: np.ndarray) -> np.ndarray:
    """Where the logarithm to base 2, in binary32, is an integer that the number does not reach."""
    with np.errstate(divide="ignore"):
        logarithms = np.log2(np.abs(values.astype(np.float64))).astype(np.float32)
    return np.isfinite(logarithms) & (np.floor(logarithms) > np.frexp(values)[1] - 1)


def test_rows_are_marked_whose_logarithm_is_rounded_up():
    """The selection has all 21; there are no other blocks whose scale it changes."""
    amax = np.abs(INPUTS).max(axis=1)
    assert np.array_equal(QUIRK, log_is_rounded_up(amax))
    assert QUIRK.sum() == 21


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("name", FORMATS)
def test_blocks_are_those_of_microxcaling(name, rounding):
    """Bit for bit, but for zeros: -0 becomes +0 there, and integers have a -0 there.

    Where the logarithm of amax is rounded up, the scale is the next power of two, which is the rule
    `ceil`. Elements are cut off in the binade that their logarithm says: one rounded up loses a bit.
    """
    fmt: BlockFormat = FORMATS[name]
    published = PUBLISHED[f"{name}.{rounding}.y_f32_bits"].view(np.float32)
    for rows, how in ((~QUIRK, "floor"), (QUIRK, "ceil")):
        projection = dataclasses.replace(fmt.elements, rounding=ROUNDINGS[rounding])
        blocks = lp.encode(INPUTS[rows], dataclasses.replace(fmt, rule=how, elements=projection))
        got, want = blocks.values(), published[rows]
        compared = np.ones(got.shape, bool)
        if rounding == "floor" and fmt.element.exponent_bits:
            scales = lp.decode(blocks.scales, fmt.scale, dtype="float64")
            compared = ~log_is_rounded_up(INPUTS[rows] / scales)
        zeros = compared & (want == 0) & ((INPUTS[rows] == 0) | (fmt.element.exponent_bits == 0))
        assert (got[zeros] == 0).all()
        compared &= ~zeros
        nan = np.isnan(want)
        assert (np.isnan(got) == nan)[compared].all()
        compared &= ~nan
        assert compared.sum() > 0.6 * compared.size
        assert_same_bits(got[compared], want[compared], INPUTS[rows][compared], f"{name}, {rounding}, {how}")


# -- whole arrays -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "scale", "total"),
    [
        ("mxfp8_e4m3", 120, 50.953125),
        ("mxfp8_e5m2", 113, 51.0625),
        ("mxfp6_e3m2", 124, 51.0625),
        ("mxfp6_e2m3", 126, 51.0),
        ("mxfp4", 126, 50.0),
        ("mxint8", 128, 51.1875),
    ],
)
def test_a_block_of_evenly_spaced_values(name, scale, total):
    """From -3.1 to 3.1: the code of the scale, and the sum of the magnitudes, which is exact."""
    blocks = lp.encode(np.linspace(-3.1, 3.1, 32).astype(np.float32), name)
    assert blocks.scales.tolist() == [scale]
    assert np.abs(blocks.values(np.float64)).sum() == total


#: dB by the rules floor, rceil and even.
RATIOS = {
    "mxfp8_e5m2": (25.357, 25.539, 25.539),
    "mxfp8_e4m3": (30.651, 31.522, 31.180),
    "mxfp6_e3m2": (25.357, 25.539, 25.539),
    "mxfp6_e2m3": (30.942, 30.959, 30.989),
    "mxfp4": (18.789, 18.757, 19.027),
    "mxint8": (41.662, 41.611, 41.639),
    "mxint4": (17.557, 16.842, 17.204),
}


@pytest.mark.parametrize("name", RATIOS)
def test_signal_to_noise_ratios_of_normal_data(name):
    """4,096 rows of 1,024 numbers; to 0.002 dB, twice as far as their last digit could be rounded."""
    fmt = MXINT4 if name == "mxint4" else catalog.block_format(name)
    values = np.random.default_rng(0).standard_normal((4096, 1024)).astype(np.float32)
    for how, ratio in zip(("floor", "rceil", "even"), RATIOS[name], strict=True):
        error = lp.quantize(values, fmt, rule=how).astype(np.float64) - values
        signal = np.square(values, dtype=np.float64).sum()
        assert abs(10 * np.log10(signal / np.square(error).sum()) - ratio) < 0.002
