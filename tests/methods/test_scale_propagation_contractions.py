"""Rules of einsum, tensordot, cumsum and norms: their scales, and values against fractions and NumPy."""

import functools
import math
from fractions import Fraction

import numpy as np
import pytest

import lowprec as lp
from lowprec.methods import scale_propagation as sp
from lowprec.methods.scale_propagation import ScaledArray, rounding
from lowprec.oracle.convert import decode, project
from lowprec.oracle.exact import to_float
from lowprec.spec.accumulations import accumulation

RNG = np.random.default_rng(0)


@functools.cache
def whole():
    """Small integers at a scale, by name: all sums of their products are exact."""
    rng, shapes = np.random.default_rng(0), {"A": ((3, 4, 5), 4.0), "B": ((3, 5, 6), 0.25), "C": ((6,), 2.0)}
    arrays = {
        name: ScaledArray(rng.integers(-3, 4, shape).astype(np.float32), scale, "binary16")
        for name, (shape, scale) in shapes.items()
    }
    return arrays | {"A0": arrays["A"][0], "A1": arrays["A"][1]}


@pytest.mark.parametrize(
    ("subscripts", "operands", "scale"),
    [
        ("bij,bjk->bik", ("A", "B"), 2.0),  # root(5) is 2
        ("bij,bjk,k->ib", ("A", "B", "C"), 2 * 2 * 2.0),  # root(5), then root(6)
        ("bij,bjk->", ("A", "B"), 2 * 2 * 2.0),  # i and k alone first, 4 and 6; then b and j, 15
        ("bij->ji", ("A",), 4.0),
        ("bij,k->ikbj", ("A", "C"), 8.0),
        ("ij,ij->ij", ("A0", "A1"), 16.0),
        ("k->k", ("C",), 2.0),
    ],
)
def test_einsum_is_sums_and_products_of_matrices(subscripts, operands, scale):
    """Exact here, so NumPy's in float64; the root of each number of terms is in the scale."""
    operands = [whole()[name] for name in operands]
    got = np.einsum(subscripts, *operands)
    want = np.einsum(subscripts, *(x.to_array() for x in operands))
    assert got.shape == want.shape
    assert got.to_array().tolist() == want.tolist()
    assert float(got.scale) == scale


@pytest.mark.parametrize("axes", [([0, 2], [0, 1]), ([-1], [1]), (2, 1), 0])
def test_tensordot_is_einsum(axes):
    """Over pairs of axes, by number or by place."""
    x, y = whole()["A"], whole()["B"]
    got = np.tensordot(x, y, axes)
    want = np.tensordot(x.to_array(), y.to_array(), axes)
    assert got.shape == want.shape
    assert got.to_array().tolist() == want.tolist()


@pytest.mark.parametrize("subscripts", ["ij,ij->", "i,ij->j", "ij,jk->ik", "ij,ij->k"])
def test_einsum_refuses_axes_that_do_not_fit_their_letters(subscripts):
    """As NumPy does; nothing is reshaped to fit."""
    x, y = ScaledArray(np.ones((2, 3), np.float32)), ScaledArray(np.ones((3, 2), np.float32))
    operands = (x, y) if subscripts != "ij,jk->ik" else (x, x)
    with pytest.raises(ValueError, match=r"each letter is one axis|a letter for each axis"):
        np.einsum(subscripts, *operands)
    with pytest.raises(ValueError, match="each letter is one axis, of one length in all operands"):
        np.tensordot(x, y)


def test_rows_of_a_matrix_have_the_norms_of_vectors():
    """And no norm of a matrix."""
    x = ScaledArray(np.float32([[3, -4], [0, 2]]), 2.0)
    for ord in (None, 1, 2, np.inf):
        got = np.linalg.norm(x, ord, axis=1)
        assert got.to_array().tolist() == np.linalg.norm(x.to_array(), ord, axis=1).tolist()
    with pytest.raises(ValueError, match="not ord='fro' of 1 axes"):
        np.linalg.norm(x, "fro", axis=1)


@pytest.mark.parametrize("sums", ["exact", "fp32_fma"])
@pytest.mark.parametrize("name", ["e4m3fn", "binary16", "binary32"])
def test_running_sums_are_the_sums_of_their_terms_over_one_scale(name, sums):
    """Each as numpy.sum has it, by the oracle; root(12) is 2."""
    x = ScaledArray(lp.quantize(RNG.standard_normal((3, 12)), name), 8.0, name)
    with sp.config(sums=sums):
        got = np.cumsum(x, axis=1)
        assert got.scale == 16.0
        for place in range(12):
            total = np.sum(x[:, : place + 1].astype("binary32"), axis=1)
            for row in range(3):
                exact = Fraction(float(total.data[row])) * Fraction(float(total.scale)) / 16
                assert float(got.data[row, place]) == to_float(decode(project(exact, x.format), x.format))
        assert np.cumsum(x.T, axis=0).data.tobytes() == got.T.data.copy().tobytes()
        assert np.cumsum(x).shape == (36,)


def test_running_sums_before_an_infinity_are_finite_and_long_ones_go_on():
    """Beyond 256 terms too; zeros of scale 0 stay so."""
    x = ScaledArray(np.float32([1.0, np.inf, 1.0]), 2.0)
    assert np.cumsum(x).to_array().tolist() == [2.0, np.inf, np.inf]
    ones = ScaledArray(np.ones(600, np.float32), 1.0)
    assert np.cumsum(ones).to_array().tolist() == list(range(1, 601))
    assert np.cumsum(sp.as_scaled(np.zeros(3))).scale == 0


@pytest.mark.parametrize(
    "keywords",
    [
        {},
        {"axis": 1},
        {"axis": (0, 1)},
        {"axis": (0, 1), "ord": "fro"},
        {"axis": 1, "ord": 2, "keepdims": True},
    ],
)
def test_norms_are_roots_of_exact_sums_of_squares_rounded_once(keywords):
    """In binary16 the root of an integer is what float64's root rounds to."""
    x = whole()["A"]
    got, want = np.linalg.norm(x, **keywords), np.linalg.norm(x.to_array(), **keywords)
    count = x.size // max(1, want.size)
    assert float(got.scale) == 4.0 * 2 ** (math.isqrt(count).bit_length() - 1)
    assert got.shape == np.shape(want)
    assert got.data.tolist() == (want / float(got.scale)).astype(np.float16).tolist()


def test_other_norms_and_large_numbers():
    """Sums of magnitudes, the largest one; squares over binary32's range."""
    x = whole()["A"]
    for kind in (1, np.inf):
        got = np.linalg.norm(x, kind, axis=-1)
        assert got.to_array().tolist() == np.linalg.norm(x.to_array(), kind, axis=-1).tolist()
    large = ScaledArray(np.float32([3e30, 4e30]), 1.0)
    np.testing.assert_allclose(np.linalg.norm(large).to_array(), 5e30, rtol=1e-6)
    assert np.linalg.norm(ScaledArray(np.float32([np.inf, 1.0]), 1.0)).to_array() == np.inf
    assert np.linalg.norm(sp.as_scaled(np.zeros(3))).to_array() == 0


@pytest.mark.parametrize("output", ["fp32_fma", "exact", "hopper_wgmma_e4m3fn_binary32"])
def test_products_of_rows_that_all_have_nans_are_those_of_the_library(output, monkeypatch):
    """Without the kernels' way for NaNs; one row without NaN, and nothing is left out."""
    rng, sizes = np.random.default_rng(5), []
    x = np.float32(lp.quantize(rng.standard_normal((2, 3, 8)), "e4m3fn"))
    y = np.float32(lp.quantize(rng.standard_normal((8, 4)), "e4m3fn"))
    x[:, np.arange(3), np.arange(3)] = np.nan
    matmul = rounding.matmul

    def counted(a, b, how, rng=None):
        sizes.append(a.shape)
        return matmul(a, b, how, rng=rng)

    monkeypatch.setattr(rounding, "matmul", counted)
    for rows in (x, np.where(np.arange(3)[:, None] == 1, np.float32(1), x)):
        made, want = rounding.product(rows, y, accumulation(output)), lp.matmul(rows, y, output)
        assert made.shape == want.shape
        assert made.dtype == want.dtype
        assert np.array_equal(made, want, equal_nan=True)
    assert sizes == [(1, 8), (2, 3, 8)]
