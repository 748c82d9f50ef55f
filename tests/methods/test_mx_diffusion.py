"""Error diffusion: each element is the best one there is, by trying all; nothing else is changed."""

import numpy as np
import pytest

import lowprec as lp
from lowprec.methods import mx

RNG = np.random.default_rng(3)


@pytest.mark.parametrize("fmt", ["mxfp4", "mxfp6_e2m3", "mxfp6_e3m2", "mxint8"])
def test_each_element_leaves_the_least_error_of_all(fmt):
    """Every code of the elements is tried, in float64, for inputs that change in the quantised network."""
    w, x = RNG.standard_normal((5, 70)), RNG.standard_normal((40, 70))
    after = x + 0.1 * RNG.standard_normal(x.shape)
    blocks = mx.diffuse(w, x, fmt, after)
    assert blocks.format == lp.block_formats[fmt]
    assert np.array_equal(blocks.scales, lp.encode(w, fmt, axis=1).scales)
    got, scales = blocks.values(np.float64), lp.decode(blocks.scales, "e8m0fnu", dtype=np.float64)
    every = lp.decode(np.arange(1 << blocks.format.element.width), blocks.format.element, dtype=np.float64)
    every = np.unique(np.clip(every, -np.abs(every).max(initial=0), every.max()))
    for row in range(5):
        lacks = np.zeros(40)
        for column in range(70):
            lacks += w[row, column] * x[:, column]
            tried = every * scales[row, column // 32]
            left = np.linalg.norm(lacks[:, None] - after[:, [column]] * tried, axis=0)
            chosen = np.linalg.norm(lacks - after[:, column] * got[row, column])
            assert chosen <= left.min() * (1 + 1e-12)
            lacks -= after[:, column] * got[row, column]


def test_products_are_closer_than_of_the_cast_alone():
    """Of inputs that are alike: the error falls to a third at least; that of new samples too."""
    mixing = RNG.standard_normal((8, 96))
    x, other = (RNG.standard_normal((512, 8)) @ mixing for _ in range(2))
    w = RNG.standard_normal((16, 96))
    for seen in (x, other):
        plain, spread = (
            np.square(seen @ (blocks.values(np.float64) - w).T).sum()
            for blocks in (lp.encode(w, "mxfp4", axis=1), mx.diffuse(w, x, "mxfp4"))
        )
        assert spread < plain / 3


def test_inputs_that_are_never_there_leave_their_column():
    """Zeros: rounded as they are; and one sample, whose axes may be many."""
    w, x = RNG.standard_normal((3, 33)), RNG.standard_normal((2, 5, 33))
    x[..., 7] = 0
    assert np.array_equal(mx.diffuse(w, x).values()[:, 7], lp.quantize(w, "mxfp4", axis=1)[:, 7])
    assert np.array_equal(mx.diffuse(w, x).values(), mx.diffuse(w, x.reshape(10, 33)).values())


def test_values_are_those_of_the_format_again():
    """Encoded once more they stay."""
    values = mx.diffuse(RNG.standard_normal((9, 64)), RNG.standard_normal((50, 64))).values()
    assert np.array_equal(lp.quantize(values, "mxfp4", axis=1), values)


def test_messages():
    w, x = np.ones((2, 32)), np.ones((4, 32))
    with pytest.raises(ValueError, match=r"not \(2, 32\), \(4, 31\) and \(4, 31\)"):
        mx.diffuse(w, x[:, :31])
    with pytest.raises(ValueError, match="'nvfp4' has a scale of the tensor or tiles"):
        mx.diffuse(w, x, "nvfp4")
    with pytest.raises(ValueError, match="inputs that are not finite say nothing of a weight"):
        mx.diffuse(w, x * np.inf)
