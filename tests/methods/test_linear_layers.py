"""Arguments of the linear layers that methods share: gradients and biases of other shapes are refused."""

from __future__ import annotations

import re

import numpy as np
import pytest

from lowprec.methods import fp8, mx, nvfp4

X, W, BIAS = np.ones((2, 3, 16), np.float32), np.ones((32, 16), np.float32), np.ones(32, np.float32)
LAYERS = {"fp8": fp8.linear, "mx": mx.linear, "nvfp4": lambda *given: nvfp4.linear(*given, rng=1)}
IMAGES, KERNELS = np.ones((2, 1, 4, 5), np.float32), np.ones((3, 1, 2, 2), np.float32)


@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_gradients_have_the_shape_of_the_output(layer):
    """A gradient that was transposed had its elements dealt to other rows."""
    y, gradients = layer(X, W, BIAS)
    assert y.shape == (2, 3, 32)
    for shape in ((2, 32, 3), (3, 2, 32), (6, 32), (1, 2, 3, 32), (32,), ()):
        said = f"the gradient of y has shape {shape}, but needs (2, 3, 32)"
        with pytest.raises(ValueError, match=re.escape(said)):
            gradients(np.ones(shape, np.float32))
    assert [each.shape for each in gradients(np.ones(y.shape, np.float32).tolist())] == [
        X.shape, W.shape, BIAS.shape,
    ]  # fmt: skip


@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_biases_have_a_number_for_each_output_feature(layer):
    for bias in (1.0, BIAS[:1], BIAS[None], np.ones((6, 1), np.float32)):
        with pytest.raises(ValueError, match=re.escape(f"bias has shape {np.shape(bias)}, but needs (32,)")):
            layer(X, W, bias)


def test_gradients_and_biases_of_convolutions_are_not_broadcast():
    _, gradients = fp8.conv2d(IMAGES, KERNELS, np.ones(3, np.float32))
    for shape in ((1, 3, 3, 4), (2, 3, 4, 3), (2, 3, 1, 4)):
        with pytest.raises(ValueError, match=re.escape(f"has shape {shape}, but needs (2, 3, 3, 4)")):
            gradients(np.ones(shape, np.float32))
    with pytest.raises(ValueError, match=re.escape("bias has shape (4,), but needs (3,)")):
        fp8.conv2d(IMAGES, KERNELS, np.ones(4, np.float32))
