"""Errors of Unit Scaling name what was asked, the value given, why it cannot be, and the way out."""

import re

import numpy as np
import pytest

from lowprec.methods import unit_scaling as us
from tests.support import refusals

ONE, TWO, THREE = np.ones(2), np.ones((2, 3)), np.ones((4, 2, 3))

REFUSED = refusals(
    {**globals(), "us": us},
    """
us.matmul(np.ones((2, 3)), np.ones((2, 3)))
    ValueError: matmul takes left (..., b, m) and right (..., m, n), not (2, 3) and (2, 3)
us.matmul(np.ones((2, 2, 3)), np.ones((5, 3, 3)))
    ValueError: matmul takes left (..., b, m) and right (..., m, n), not (2, 2, 3) and (5, 3, 3)
us.simulated("a", 1)
    TypeError: exponent_bits='a' of a simulated format must be an integer
us.simulated(4, 1.5)
    TypeError: trailing_bits=1.5 of a simulated format must be an integer
us.relu(["a"])
    TypeError: x of relu must be real numbers of at most 64 bits, not <U1
us.relu([1j])
    TypeError: x of relu must be real numbers of at most 64 bits, not complex128
us.relu([2**53 + 1])
    ValueError: x of relu has an integer that float64 does not have
us.relu(ONE)[1](np.ones(3))
    ValueError: the gradient of relu has shape (3,), and its output has shape (2,); give one number for
    each output
us.relu(ONE)[1]()
    ValueError: the gradient of relu has shape (), and its output has shape (2,)
us.relu(ONE, "mean")
    ValueError: unknown constraint 'mean'; use one of gmean, hmean, amean, to_output_scale,
    to_grad_input_scale, to_left_grad_scale, to_right_grad_scale, a function, or None
us.relu(ONE, "to_left_grad_scale")
    ValueError: constraint 'to_left_grad_scale' is for 3 factors, and here are 2; use one of gmean,
    hmean, amean, to_output_scale, to_grad_input_scale
us.gelu(ONE, mult=0)
    ValueError: mult=0 of gelu must be a positive number
us.glu(ONE, ONE, "tanh", mult=2)
    ValueError: mult=2 is for silu and gelu, and tanh takes none; multiply its input
us.glu(ONE, ONE, "swish")
    ValueError: unknown activation 'swish' of glu; use one of silu, gelu, sigmoid, tanh, relu, hardtanh
us.glu(ONE, TWO)
    ValueError: x and gate of glu must have the same shape, not (2,) and (2, 3)
us.matmul(ONE, TWO)
    ValueError: matmul takes matrices, not shapes (2,) and (2, 3); give vectors an axis of length 1
us.linear(TWO, TWO)
    ValueError: linear takes x (..., m) and weight (m, n), not (2, 3) and (2, 3)
us.readout(TWO, TWO.T, ONE[:1])
    ValueError: bias of readout must have shape (2,), not (1,)
us.conv2d(THREE[None], THREE[None], stride=(1, 0))
    ValueError: stride=(1, 0) of conv2d must be 1 or more
us.conv2d(THREE, THREE)
    ValueError: conv2d takes x (..., channels, height, width) and weight (outputs, channels / groups,
    rows, columns), not (4, 2, 3) and (4, 2, 3)
us.conv2d(np.zeros((2, 3, 2)), np.zeros((1, 2, 2, 3)))
    ValueError: 3 taps of conv2d do not fit in length 2 with padding=0; use more padding
us.conv1d(THREE, THREE, stride=0)
    ValueError: stride=0 of conv1d must be 1 or more
us.conv1d(THREE, THREE, padding=-1)
    ValueError: padding=-1 of conv1d must be 0 or more
us.conv1d(THREE, TWO)
    ValueError: conv1d takes x (..., channels, length) and weight (outputs, channels / groups, size),
    not (4, 2, 3) and (2, 3)
us.conv1d(THREE, THREE, groups=3)
    ValueError: groups=3 of conv1d does not fit 2 channels and weight (4, 2, 3): outputs must be a
    multiple of it, and channels 2 times it
us.conv1d(THREE, THREE, dilation=2)
    ValueError: 5 taps of conv1d do not fit in length 3 with padding=0; use more padding
us.embedding([0.5], TWO)
    TypeError: indices of embedding must be integers, not float64
us.embedding([0], ONE)
    ValueError: weight of embedding must have shape (vocabulary, m), not (2,)
us.embedding([-1, 1], TWO)
    ValueError: indices of embedding go from -1 to 1, and the table has rows 0 to 1
us.softmax(ONE, mult=-1)
    ValueError: mult=-1 of softmax must be a positive number
us.softmax(TWO, axis=2)
    ValueError: axis 2 is out of bounds for array of dimension 2
us.softmax(TWO[:, :0])
    ValueError: softmax needs values along axis=-1, and x has shape (2, 0)
us.attention(TWO, TWO.T, TWO)
    ValueError: attention takes query (..., queries, d), key (..., keys, d) and value (..., keys, m),
    not (2, 3), (3, 2) and (2, 3)
us.attention(TWO, TWO, TWO, mask=np.ones((2, 2)))
    TypeError: mask of attention must be bool, True where a query sees a key, not float64
us.attention(TWO, TWO, TWO, mask=np.ones((3, 2), bool))
    ValueError: mask of attention has shape (3, 2), which does not broadcast to (2, 2)
us.attention(TWO, TWO, TWO, mask=np.array([[True, False], [False, False]]))
    ValueError: mask of attention leaves a query without any key; leave that query out, or show it
    itself
us.weighted_sum([], [])
    ValueError: weighted_sum takes one or more arrays of one shape, not []
us.weighted_sum([ONE, ONE], [1.0, 0.0])
    ValueError: weighted_sum of 2 arrays takes as many finite weights other than 0, not [1.0, 0.0]
us.weighted_sum([ONE, ONE], [1.0, np.nan])
    ValueError: weighted_sum of 2 arrays takes as many finite weights other than 0, not [1.0, nan]
us.residual_split(ONE, tau=0)
    ValueError: tau=0 of a residual layer must be a positive number; without a branch leave it out
us.residual_split(ONE)[1](ONE, TWO)
    ValueError: gradients of branch and skip must have one shape, not (2,) and (2, 3)
us.dropout(ONE, 1.0, rng=0)
    ValueError: p=1.0 of dropout must lie between 0 and 1, and below 1
us.layer_norm(TWO, axis=0)
    ValueError: axis=0 of layer_norm must be the last axes of x, which has shape (2, 3)
us.layer_norm(TWO, eps=-1)
    ValueError: eps=-1 of layer_norm must be 0 or more; it is added to a variance
us.rms_norm(TWO, ONE)
    ValueError: weight of rms_norm must have shape (3,), not (2,)
us.cross_entropy(TWO, [0.0, 1.0])
    TypeError: labels of cross_entropy must be integers, not float64
us.cross_entropy(TWO, [0])
    ValueError: cross_entropy takes logits (..., s) and labels (...), one or more, not (2, 3) and (1,)
us.cross_entropy(TWO, [0, 3])
    ValueError: labels of cross_entropy go from 0 to 3, and logits have classes 0 to 2
us.cross_entropy(TWO[:, :1], [0, 0])
    ValueError: cross_entropy needs two classes or more, and logits have 1
us.cross_entropy(TWO, [0, 1], mult=0)
    ValueError: mult=0 of cross_entropy must be a positive number
us.cross_entropy(TWO, [0, 1], "none")
    ValueError: unknown reduction 'none' of cross_entropy; use 'mean' or 'sum'
us.mse(ONE, TWO)
    ValueError: mse takes two arrays of one shape, with values, not (2,) and (2, 3)
us.derive_scale(lambda x: 0.1 + 0 * x)
    ValueError: the function has no variance on normal values, so that no factor gives it one
us.derive_scale(np.sign, lambda x: 0 * x)
    ValueError: the function has no slope on normal values, so that no factor gives it one
us.derive_scale(np.log)
    ValueError: the function or its derivative is not finite at -13.9955, so that no factor follows
us.derive_scale(lambda x: (x > 0.3) * 1.0)
    ValueError: the integral does not settle at 0.3: the function jumps or is rough there, and its slope
    has no finite mean square; make it smoother, or give the derivative that is meant
us.derive_scale(np.sum)
    ValueError: the function gives shape () for values of shape (58, 12); make it elementwise
us.empirical_scales("tanh")
    ValueError: no empirical factors are known of 'tanh'; use 'gelu', 'silu' or 'glu', or derive_scale
us.empirical_scales("gelu", 0)
    ValueError: mult=0 of empirical_scales must be a positive number
us.softmax_scales(0)
    ValueError: size=0 of softmax_scales must be a positive number
us.attention_scale(8, 0)
    ValueError: width=0 of attention_scale must be a positive number
us.log_interpolate(0.5, 0, 1)
    ValueError: lower=0 of log_interpolate must be a positive number
us.gmean(-8.0, 2.0)
    ValueError: gmean takes one or more factors, which are positive numbers, not (-8.0, 2.0)
us.hmean(0.0, 1.0)
    ValueError: hmean takes one or more factors, which are positive numbers
us.amean()
    ValueError: amean takes one or more factors, which are positive numbers, not ()
us.unscaled(us.residual_split)(ONE)
    TypeError: residual_split has no factors to leave out; make the operations unscaled that it is made
    of
us.learning_rate_scale("gain", 4)
    ValueError: unknown kind 'gain' of parameter; use one of weight, bias, norm, output
us.learning_rate_scale("weight", 0)
    ValueError: fan_in=0 of a parameter must be 1 or more
us.learning_rate_scale("weight", 4, depth=0)
    ValueError: depth=0 of a parameter must be 1 or more
us.learning_rate_scale("weight", 4, readout_constraint="gmean")
    ValueError: readout_constraint='gmean' has no rule; use None or 'to_output_scale'
us.weight_decay(0.1, 0.0)
    ValueError: learning_rate=0.0 must be a positive number to have decay independent of it
us.transformer_tau(4, 4)
    ValueError: index=4 of a residual layer must lie from 0 to layers - 1, which is 3
us.transformer_tau(0, 4, mult=0)
    ValueError: mult=0 and attention_ratio=1.0 must be positive numbers
us.simulated(0, 7)
    ValueError: exponent_bits=0 of a simulated format must be 1 or more
us.simulated_rounding(us.E4M3, "even")
    ValueError: mode='even' with bits=0 is no rounding of the simulation; use 'nearest', or
    'stochastic', which alone takes bits
us.simulated_rounding(us.E4M3, "nearest", 3)
    ValueError: mode='nearest' with bits=3 is no rounding of the simulation; use 'nearest', or
    'stochastic'
us.simulated_rounding(us.E4M3, bits=21)
    ValueError: bits=21 for 'e4m3_simulated' is out of range; binary32 has 20 behind its last bit
us.quantized(us.gelu)
    ValueError: it is not known how many operands of gelu are to be quantized; give operands=
us.quantized(us.linear)(TWO, weight=TWO.T)
    TypeError: the first 2 operands are quantized: give them by position, not 1 of them
us.quantized(us.linear, rounding="stochastic(8)")(TWO, TWO.T)
    ValueError: stochastic
us.snr(ONE, TWO)
    ValueError: values and results must have one shape, not (2,) and (2, 3)
us.snr([0.0], [1.0])
    ValueError: values without any signal have no signal-to-noise ratio; leave them out
us.snr_curve("binary32", 1.0)
    ValueError: 'binary32' has codes of 32 bits, and all are gone through; use a format of at most 20
us.snr_curve("e8m0fnu", 1.0)
    ValueError: 'e8m0fnu' is unsigned, and half of all normal values are negative; use a signed format
us.snr_curve("e4m3fn", [1.0, 0.0])
    ValueError: sigmas must be positive numbers: they are standard deviations
us.plateau("e4m3fn", drop=0)
    ValueError: drop=0 must be a positive number of decibels
us.ScaleTracker()["x"]
    KeyError: no tensor 'x' was recorded; there are none
""",
)


@pytest.mark.parametrize(("call", "error", "text"), REFUSED)
def test_refusals_say_why_and_what_to_do(call, error, text):
    with pytest.raises(error, match=re.escape(text)):
        call()
