"""What is wrong with a block converter is named, in results of models that share nothing with the package."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest

import lowprec as lp
from lowprec.export.block_vectors import block_suite
from lowprec.spec.projection import Projection
from lowprec.verify.inputs.block_cases import source_values
from lowprec.verify.questions.blocks.block_causes import with_nan
from tests.planted_bugs import BLOCK_BUGS, block

pytestmark = pytest.mark.apart

FMT = lp.block_formats["mxfp4"]

#: Of each bug of `tests.planted_bugs` the cause, which explains every mismatch and contradicts nothing.
CAUSES = {
    "scale one too high": "scales twice as large: emax taken as one less",
    "scale one too low": "scales half as large: emax taken as one more",
    "last lane left out of amax": "lane 31 of 32 left out of the largest magnitude",
    "lane 0 left out of amax": "lane 0 of 32 left out of the largest magnitude",
    "negative values left out of amax": "negative values left out of the largest magnitude",
    "amax of the lower half": "lanes 16 to 31 of 32 left out of the largest magnitude",
    "scale rounded up": "scale rule 'ceil' instead of 'floor'",
    "scale of amax rounded": "scale rule 'even' instead of 'floor'",
    "scale not clamped": "scales below the smallest wrap around, modulo 256",
    "elements truncated": "elements: truncation: rounded toward zero",
    "ties away from zero": "elements: ties away from zero",
    "ties to zero": "elements: ties toward zero",
    "overflow wraps": "elements past the largest wrap around as whole numbers of the smallest element",
    "overflow is zero": "results zero, with their sign, where the quotient is past the largest element",
    "subnormal elements flushed": "results zero, with their sign, where the result is subnormal",
    "subnormal values taken as zero": "subnormal values taken as zeros",
    "NaN ignored": "NaNs become elements, and the scale does not see them",
    "NaN in upper lanes ignored": (
        "NaNs in lanes 16 to 31 of 32 become elements, and the scale does not see them"
    ),
    "infinity is a number": (
        "an infinity counts for the scale as the next power of two after binary32's largest value"
    ),
    "sign of zero lost": "zeros lose their sign, where the scaled value needs no rounding",
    "sign of small elements lost": "zeros lose their sign, where the scaled value needs rounding",
    "zero block has scale 1": "blocks of zeros have the scale 1",
    "elements in reverse": "the elements of each block in reverse",
    "neighbours swapped": "swapped nibbles: the two codes of a byte",
    "carry of rounding lost": "results half as large, where rounding carries into the exponent",
    "elements of a NaN block kept": "elements under scales that are NaN are not cleared",
    "NaN scale is 0xfe": "NaN scales are 0xfe, the largest number",
    "sticky lost": "elements: sticky bit lost: rounded by the guard bit alone",
}


@pytest.fixture(scope="module")
def vectors():
    """Codes of the default vectors' values."""
    return block_suite(lp.format("bfloat16"), FMT).file.columns[0].codes


def reported(vectors, bug):
    made = [block(codes, bug) for codes in vectors.tolist()]
    scales, codes = np.uint8([[scale] for scale, _ in made]), np.uint8([codes for _, codes in made])
    return lp.compare(source_values(vectors, lp.format("bfloat16")), codes, FMT, scales=scales, limit=0)


@pytest.mark.parametrize("bug", BLOCK_BUGS)
def test_the_cause_of_a_planted_bug_is_named(bug, vectors):
    report = reported(vectors, bug)
    assert report.cause.words == CAUSES[bug]
    assert report.cause.explained == report.mismatches > 0
    assert report.cause.contradicted == 0


@pytest.mark.parametrize("share", [0.002, 0.05, 0.4])
@pytest.mark.parametrize("what", ["elements", "scales", "zeros"])
def test_random_corruption_of_blocks_is_unexplained(share, what, vectors):
    values, rng = source_values(vectors, lp.format("bfloat16")), np.random.default_rng(5)
    made = lp.encode(values, FMT, axis=-1)
    codes, scales = made.codes.copy(), made.scales.copy()
    part = scales.reshape(-1) if what == "scales" else codes.reshape(-1)
    hit = rng.choice(part.size, int(share * part.size), replace=False)
    part[hit] = (
        0 if what == "zeros" else part[hit] ^ rng.integers(1, 256 if what == "scales" else 16, hit.size)
    )
    report = lp.compare(values, codes, FMT, scales=scales, limit=0)
    assert report.mismatches > 0
    assert report.cause is None, report.cause.words


def test_lanes_are_found_along_any_axis_and_of_values_beside_tails():
    """Of blocks along columns, the last of which is not full."""
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((72, 40)) * np.exp2(rng.integers(-9, 9, (72, 40)))).astype(np.float32)
    fmt = dataclasses.replace(FMT, size=16)
    seen = x.copy()
    seen[[3, 19, 35, 51, 67]] = 0
    made = lp.encode(seen, fmt, axis=0)
    report = lp.compare(x, made.codes, fmt, scales=made.scales, axis=0)
    assert report.cause.words == "lane 3 of 16 left out"
    units = np.repeat(lp.decode(made.scales, "e8m0fnu"), 16, axis=0)[:72]
    codes = lp.encode(x / units, "e2m1fn", saturation="finite")
    report = lp.compare(x, codes, fmt, scales=made.scales, axis=0)
    assert report.cause.words == "lane 3 of 16 left out of the largest magnitude"
    assert report.cause.explained == report.mismatches


def test_lanes_left_out_under_the_scale_of_a_tensor():
    """Which is that of all values; signaling NaNs give no warnings."""
    x = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    short = x.copy()
    short[:, 5::16] = 0
    for axis in (0, 1):
        sides = (x, short) if axis else (x.T, short.T)
        made = lp.encode(sides[1], "nvfp4", axis=axis, tensor_scale=1.0)
        report = lp.compare(sides[0], made.codes, "nvfp4", scales=made.scales, axis=axis, tensor_scale=1.0)
        assert report.cause.words == "lane 5 of 16 left out"
    x[0].view(np.uint32)[3] = 0x7F800001
    made = lp.encode(x, "mxfp4", rule="ceil")
    report = lp.compare(x, made.codes, "mxfp4", scales=made.scales)
    assert report.cause.words == "scale rule 'ceil' instead of 'floor'"


def test_scales_of_other_formats_are_named_too():
    """Binary32 scales that a rule divides; of tensors' scales and rounded quotients nothing is said."""
    x = np.random.default_rng(0).standard_normal((8, 256)).astype(np.float32)
    twice = lp.encode(x * 2, "fp8_block_1x128").scales
    codes = lp.divide(x, np.repeat(twice.view(np.float32), 128, axis=1), "e4m3fn", dtype=np.uint8)
    report = lp.compare(x, codes, "fp8_block_1x128", scales=twice)
    assert report.cause.words == "scales twice as large"


def test_nan_elements_need_a_code():
    """What has none becomes the largest value, unless the format says otherwise, or is the question's own."""
    assert with_nan(FMT) is FMT
    kept = dataclasses.replace(FMT, nan="elements")
    assert with_nan(kept).elements == dataclasses.replace(kept.elements, nan="max")
    zero = dataclasses.replace(kept, elements=Projection(nan="zero", saturation="finite"))
    assert with_nan(zero) is zero
    x = np.full((1, 32), np.nan, np.float32)
    with pytest.raises(ValueError, match="'e2m1fn' has no code for it"):
        lp.compare(x, np.zeros((1, 32), np.uint8), kept)


@pytest.mark.parametrize("name", [name for name, fmt in lp.block_formats.items() if len(fmt.sizes) == 1])
def test_no_hypothesis_of_a_block_format_fails(name):
    """Blocks of codebooks too have conditions; a hypothesis that fails would be noted."""
    fmt = lp.block_formats[name]
    x = np.random.default_rng(1).standard_normal((64, 2 * fmt.sizes[0])).astype(np.float32)
    blocks = lp.encode(x, name)
    bad = (x < 0) & (blocks.codes & 3 == 2)
    given = {} if blocks.tensor_scale is None else {"tensor_scale": blocks.tensor_scale}
    codes = (blocks.codes ^ bad).astype(blocks.codes.dtype)
    assert lp.compare(x, codes, name, scales=blocks.scales, limit=0, **given).failed == {}


def test_reports_are_pickled():
    """Leave out the functions that causes are made of, which no other process finds by name."""
    x = np.random.default_rng(2).standard_normal((64, 32)).astype(np.float32)
    blocks = lp.encode(x, "mxfp4")
    codes = np.where(np.abs(x) > 1.5, blocks.codes & 8, blocks.codes)
    report = lp.compare(x, codes, "mxfp4", scales=blocks.scales)
    assert report.cause.changes
    again = pickle.loads(pickle.dumps(report))
    assert (str(again), again.as_json()) == (str(report), report.as_json())
