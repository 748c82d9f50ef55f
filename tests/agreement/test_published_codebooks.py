"""Codebooks in blocks, as libraries have quantised them: see tables/published/README.md."""

import pathlib

import numpy as np
import pytest

import lowprec as lp

TABLE = pathlib.Path(__file__).parents[2] / "tables" / "published" / "bitsandbytes_blocks.npz"
PUBLISHED = np.load(TABLE)


@pytest.mark.parametrize("backend", [None, "oracle"])
def test_nf4_is_that_of_bitsandbytes(backend):
    some = slice(None) if backend is None else slice(640)
    made = lp.encode(PUBLISHED["x"][some], "bnb_nf4", backend=backend)
    np.testing.assert_array_equal(made.codes, PUBLISHED["nf4_codes"][some])
    scales = lp.decode(made.scales, "binary32")
    np.testing.assert_array_equal(scales, PUBLISHED["nf4_absmax"][: scales.size])
    values = lp.decode(made, backend=backend)
    np.testing.assert_array_equal(values.view(np.uint32), PUBLISHED["nf4_values"][some].view(np.uint32))


def test_fp4_is_that_of_bitsandbytes_but_for_the_signs_of_zeros():
    """On a CPU it gives -0's code to small positive numbers, and 0's to small negative ones."""
    made = lp.encode(PUBLISHED["x"], "bnb_fp4")
    np.testing.assert_array_equal(made.codes % 8, PUBLISHED["fp4_codes"] % 8)
    differ = made.codes != PUBLISHED["fp4_codes"]
    assert differ.sum() == 100
    assert set(made.codes[differ].tolist()) == {0, 8}
    np.testing.assert_array_equal(lp.decode(made.scales, "binary32"), PUBLISHED["fp4_absmax"])
    np.testing.assert_array_equal(lp.decode(made), PUBLISHED["fp4_values"])


def test_double_quantised_scales_are_those_of_bitsandbytes():
    """Scales less their mean are blocks of 256 in the dynamic map of 8 bits."""
    nested = lp.BlockFormat(
        name="nested", element="dynamic8", scale="binary32", size=256, rule="divide", arithmetic="reciprocal"
    )
    made = lp.encode(PUBLISHED["nf4_absmax"] - PUBLISHED["nested_offset"], nested)
    np.testing.assert_array_equal(made.codes, PUBLISHED["nested_codes"])
    np.testing.assert_array_equal(lp.decode(made.scales, "binary32"), PUBLISHED["nested_absmax"])
    np.testing.assert_array_equal(lp.decode(made), PUBLISHED["nested_scales"])
    scales = lp.encode(lp.decode(made) + PUBLISHED["nested_offset"], "binary32")
    blocks = lp.BlockArray(PUBLISHED["nf4_codes"], scales, "bnb_nf4")
    np.testing.assert_array_equal(lp.decode(blocks), PUBLISHED["nested_values"])
