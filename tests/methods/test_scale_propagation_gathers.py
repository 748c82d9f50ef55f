"""Lookups and sums by index: values against fractions, scales by the rule, what is refused."""

import re
from fractions import Fraction

import numpy as np
import pytest

from lowprec.methods import scale_propagation as sp

RNG = np.random.default_rng(3)
INDICES = RNG.integers(0, 5, (4, 6))


def scaled(*shape, scale=2.0**-40, fmt="e5m2"):
    return sp.as_scaled(RNG.standard_normal(shape) * scale, scale, fmt)


@pytest.mark.parametrize("row", [(), (3,), (2, 3)])
def test_sums_by_index_are_exact_and_rounded_once(row):
    x = scaled(*INDICES.shape, *row).astype("binary32")
    found = sp.scatter_add(x, INDICES, 7)
    assert found.shape == (7, *row)
    for place in np.ndindex(found.shape):
        terms = x.to_array()[INDICES == place[0]].reshape(-1, *row)[(slice(None), *place[1:])]
        exact = sum(map(Fraction, terms.tolist()), Fraction(0))
        assert found.to_array()[place] == float(exact)  # a few terms of three bits: binary32 holds the sum


@pytest.mark.parametrize(
    ("count", "length", "root"),
    [(1, 4, 1.0), (4, 4, 1.0), (15, 4, 1.0), (16, 4, 2.0), (64, 4, 4.0), (5, 1, 2.0)],
)
def test_the_scale_grows_by_the_root_of_the_mean_number_of_terms(count, length, root):
    x = sp.as_scaled(np.full(count, 3.0), 0.5)
    assert sp.scatter_add(x, np.zeros(count, int), length).scale == 0.5 * root


def test_sums_by_index_are_rounded_to_the_format_of_the_rows():
    x = sp.as_scaled(np.float32([1.0, 1.125, 1.125]), 1.0, "e4m3fn")
    found = sp.scatter_add(x, [0, 0, 0], 2)
    assert (found.format.name, float(found.scale)) == ("e4m3fn", 1.0)
    assert found.data.tolist() == [3.25, 0.0]


def test_sums_run_in_the_order_of_indices_where_config_says_so():
    x = sp.as_scaled(np.float32([2.0**24, 1.0, 1.0, -(2.0**24)]), 1.0)
    with sp.config(sums="fp32_fma"):
        assert sp.scatter_add(x, [0, 0, 0, 0], 1).to_array().tolist() == [0.0]
    assert sp.scatter_add(x, [0, 0, 0, 0], 1).to_array().tolist() == [2.0]


def test_zeros_stay_zeros_of_scale_zero_and_infinities_stay_in_their_row():
    zeros = sp.scatter_add(sp.as_scaled(np.zeros(3)), [0, 1, 1], 2)
    assert (float(zeros.scale), zeros.to_array().tolist()) == (0.0, [0.0, 0.0])
    x = sp.as_scaled(np.float32([np.inf, 1.0, 2.0]), 1.0)
    assert sp.scatter_add(x, [0, 1, 1], 3).to_array().tolist() == [np.inf, 3.0, 0.0]


def test_plain_arrays_are_summed_as_numpy_does():
    x, want = RNG.standard_normal((4, 6, 3)), np.zeros((7, 3))
    np.add.at(want, INDICES, x)
    assert np.array_equal(sp.scatter_add(x, INDICES, 7), want)


@pytest.mark.parametrize("convert", [lambda x: x, sp.stop_scaling], ids=["scaled", "plain"])
def test_a_lookup_takes_rows_and_its_gradient_sums_them(convert):
    table = convert(scaled(5, 3))
    y, pull = sp.embedding(INDICES, table)
    gradient = convert(scaled(4, 6, 3, scale=2.0**-60).astype("binary32"))
    assert np.array_equal(sp.stop_scaling(y), sp.stop_scaling(table)[INDICES])
    found, want = pull(gradient), sp.scatter_add(gradient, INDICES, 5)
    assert np.array_equal(sp.stop_scaling(found), sp.stop_scaling(want))
    assert not isinstance(found, sp.ScaledArray) or (y.scale, found.scale) == (table.scale, want.scale)


@pytest.mark.parametrize(
    ("indices", "error", "message"),
    [
        ([0, 5], ValueError, "indices go from 0 to 5, and there are rows 0 to 4"),
        ([-1, 0], ValueError, "indices go from -1 to 0, and there are rows 0 to 4"),
        ([0.0, 1.0], TypeError, "indices must be integers, not float64"),
        ([0, 1, 2], ValueError, "indices of shape (3,) name no rows of an array of shape (2,)"),
    ],
)
@pytest.mark.parametrize("make", [np.ones, scaled], ids=["plain", "scaled"])
def test_indices_that_name_no_rows_are_refused(indices, error, message, make):
    x = make(2)
    with pytest.raises(error, match=re.escape(message)):
        sp.scatter_add(x, indices, 5)


def test_numpy_add_at_names_the_way_out():
    with pytest.raises(
        TypeError, match=r"numpy.add.at has no rule for ScaledArrays: scatter_add gives a new"
    ):
        np.add.at(scaled(3), [0], 1.0)
