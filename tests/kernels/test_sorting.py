"""Rows of numbers are sorted as NumPy sorts them, whatever their length and type."""

import numpy as np
import pytest

from lowprec.kernels import sorting


@pytest.mark.parametrize("size", [0, 1, sorting._MANY - 1, sorting._MANY, 5000])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_rows_are_sorted(size, kind):
    """Of either sign and every exponent, subnormals, zeros and infinities; positive NaNs come last."""
    rng = np.random.default_rng(size)
    rows = rng.integers(0, 1 << 32, (3, size), np.uint32).view(np.float32)
    rows = np.where(np.isnan(rows), np.float32(np.nan), rows)
    rows[:, ::7], rows[:, 1::11], rows[:, 2::13] = 0.0, -0.0, -np.inf
    rows[1] = np.abs(rows[1])
    rows = rows.astype(kind)
    want = np.sort(rows, axis=1)
    sorting.sort_rows(rows)
    np.testing.assert_array_equal(rows, want)


def test_no_rows_are_sorted():
    """However long they would be."""
    rows = np.empty((0, 3000), np.float32)
    sorting.sort_rows(rows)
    assert rows.shape == (0, 3000)


def test_rows_that_do_not_lie_one_after_the_other():
    """A transposed array is sorted in place too."""
    rows = np.random.default_rng(0).standard_normal((3000, 2)).astype(np.float32).T
    want = np.sort(rows, axis=1)
    sorting.sort_rows(rows)
    np.testing.assert_array_equal(rows, want)
