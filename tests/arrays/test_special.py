"""erf and erfc against the C library's, value by value."""

import math

import numpy as np
import pytest

from lowprec.arrays import special

RNG = np.random.default_rng(0)
VALUES = np.append(
    RNG.standard_normal(20_000) * 10.0 ** RNG.integers(-300, 3, 20_000),
    [math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, 30.0, -30.0, 27.2, 26.5, 1e308],
)


@pytest.mark.parametrize("name", ["erf", "erfc"])
def test_every_value_has_the_bits_of_the_c_library(name):
    want = np.array([getattr(math, name)(value) for value in VALUES])
    assert getattr(special, name)(VALUES).tobytes() == want.tobytes()


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (2, 3, 4)])
def test_shapes_are_kept(shape):
    values = RNG.standard_normal(shape)
    assert special.erf(values).shape == special.erfc(values).shape == shape
    assert np.array_equal(special.erf(values.T), special.erf(values).T)
