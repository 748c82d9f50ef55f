"""Arguments of the linear layers that methods share: gradients and biases of other shapes are refused."""

import re

import numpy as np
import pytest

from lowprec.methods import fp8, mx, nvfp4, scale_propagation as sp

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


@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_shapes_that_make_no_layer_are_refused_by_name(layer):
    for x, w in (((), (3, 4)), ((2, 4), (4,)), ((2, 4), (2, 3, 4)), ((2, 5), (3, 4))):
        said = f"linear takes x of shape (..., in) and w of shape (out, in), not {x} and {w}"
        with pytest.raises(ValueError, match=re.escape(said)):
            layer(np.ones(x, np.float32), np.ones(w, np.float32))


@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
@pytest.mark.parametrize("sizes", [(0, 16, 16), (16, 0, 16), (16, 16, 0)], ids=["rows", "in", "out"])
def test_layers_of_no_elements_have_sums_of_nothing(layer, sizes):
    rows, ins, outs = sizes
    x, w = np.ones((2, rows, ins), np.float32), np.ones((outs, ins), np.float32)
    y, gradients = layer(x, w)
    assert y.tolist() == np.full((2, rows, outs), ins).tolist()
    at_x, at_w, at_bias = gradients(np.ones(y.shape, np.float32))
    assert at_x.tolist() == np.full(x.shape, outs).tolist()
    assert at_w.shape == w.shape
    assert at_bias.tolist() == [2.0 * rows] * outs


def test_convolutions_of_no_images_have_no_results():
    y, gradients = fp8.conv2d(IMAGES[:0], KERNELS)
    at_x, at_w, at_bias = gradients(y)
    assert (y.shape, at_x.shape) == ((0, 3, 3, 4), IMAGES[:0].shape)
    assert not at_w.any()
    assert not at_bias.any()


def test_biases_of_a_codebook_are_not_swept():
    with pytest.raises(ValueError, match="bias_sweep takes binary formats, whose bias changes, and 'nf4'"):
        fp8.bias_sweep([X], "nf4")


def test_gradients_of_scaled_layers_may_be_lists():
    y, pull = sp.linear(X[0], W.T, BIAS)
    wanted, got = pull(np.ones(y.shape, np.float32)), pull(np.ones(y.shape).tolist())
    assert [each.tolist() for each in got] == [each.tolist() for each in wanted]


@pytest.mark.parametrize("kind", [">f2", ">f4", ">f8"])
def test_powers_of_two_have_the_bytes_of_this_machine(kind):
    values = np.array([1.5, -3.0, 0.0], kind)
    for made in (sp.pow2_round(values), *sp.pow2_decompose(values)):
        assert made.dtype.isnative
    assert sp.pow2_round(values).tolist() == [1.0, -2.0, 0.0]
