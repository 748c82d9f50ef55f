"""Unit Scaling: operations whose outputs and gradients begin with unit variance, so that 8 bits hold them.

    from lowprec.methods import unit_scaling as us

Each operation gives (y, vjp): its output, and the function from the gradient of y to the gradients of
its operands. `vjp.alpha` and `vjp.beta` are the factors, constants that follow from shapes alone.

Arithmetic is NumPy's, in float32 or float64; `lowprec.quantize` does all rounding to formats.

Floor 4. Source: [UNIT_SCALING], [UMUP].
"""

from __future__ import annotations

from lowprec.methods._torch import differentiable
from lowprec.methods.unit_scaling.activations import (
    elementwise,
    gelu,
    glu,
    hardtanh,
    relu,
    sigmoid,
    silu,
    tanh,
)
from lowprec.methods.unit_scaling.constraints import (
    CONSTRAINTS,
    amean,
    constrain,
    gmean,
    hmean,
    to_grad_input_scale,
    to_left_grad_scale,
    to_output_scale,
    to_right_grad_scale,
)
from lowprec.methods.unit_scaling.convolutions import conv1d, conv2d
from lowprec.methods.unit_scaling.factors import (
    Scales,
    attention_scale,
    derive_scale,
    empirical_scales,
    log_interpolate,
    softmax_scales,
)
from lowprec.methods.unit_scaling.formats import E4M3, E5M2, quantized, simulated, simulated_rounding
from lowprec.methods.unit_scaling.losses import cross_entropy, mse
from lowprec.methods.unit_scaling.mup import learning_rate_scale, transformer_tau, weight_decay
from lowprec.methods.unit_scaling.noise import FormatReport, format_report, plateau, snr, snr_curve
from lowprec.methods.unit_scaling.norms import dropout, layer_norm, rms_norm
from lowprec.methods.unit_scaling.products import embedding, linear, matmul, readout
from lowprec.methods.unit_scaling.softmaxes import attention, softmax
from lowprec.methods.unit_scaling.sums import (
    SplitVjp,
    add,
    multiply,
    residual_add,
    residual_apply,
    residual_split,
    sum,
    weighted_sum,
)
from lowprec.methods.unit_scaling.tracking import ScaleTracker, TensorScales, TensorStatistics, report
from lowprec.methods.unit_scaling.vjp import Vjp, unscaled

__all__ = [
    "Vjp",
    "differentiable",
    "unscaled",
    # products
    "matmul",
    "linear",
    "readout",
    "conv1d",
    "conv2d",
    "embedding",
    # elementwise
    "elementwise",
    "gelu",
    "glu",
    "hardtanh",
    "relu",
    "sigmoid",
    "silu",
    "tanh",
    # attention
    "attention",
    "softmax",
    # sums
    "SplitVjp",
    "add",
    "multiply",
    "residual_add",
    "residual_apply",
    "residual_split",
    "sum",
    "weighted_sum",
    # the rest of a network
    "dropout",
    "layer_norm",
    "rms_norm",
    "cross_entropy",
    "mse",
    # factors
    "CONSTRAINTS",
    "amean",
    "constrain",
    "gmean",
    "hmean",
    "to_grad_input_scale",
    "to_left_grad_scale",
    "to_output_scale",
    "to_right_grad_scale",
    "Scales",
    "attention_scale",
    "derive_scale",
    "empirical_scales",
    "log_interpolate",
    "softmax_scales",
    "learning_rate_scale",
    "transformer_tau",
    "weight_decay",
    # formats
    "E4M3",
    "E5M2",
    "quantized",
    "simulated",
    "simulated_rounding",
    "FormatReport",
    "format_report",
    "plateau",
    "snr",
    "snr_curve",
    # scales of tensors
    "ScaleTracker",
    "TensorScales",
    "TensorStatistics",
    "report",
]
