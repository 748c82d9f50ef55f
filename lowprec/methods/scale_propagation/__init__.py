"""Scale propagation: arrays that carry a scale through NumPy code, after Scalify.

An array is data in a low-precision format times one scale, a power of two. Every NumPy function has a rule
that says which scale its result has, from the scales and shapes of its operands alone; the data follow from
that, rounded once. So values go where the format cannot, and in exact arithmetic nothing changes.

>>> import numpy as np
>>> x = as_scaled(np.float32([[300.0, -1000.0]]), 256.0, "e4m3fn")
>>> x @ x.T
ScaledArray([[17.265625]], scale=65536.0, format='binary32')

`ScaledArray` is the array, `as_scaled` makes one; `set_scaling`, `rebalance`, `dynamic_rescale` and
`stop_scaling` change scales by hand; `scalify` and `config` say how rules round; `register_scaled_op` and
`custom_scale` add rules; `linear`, `embedding`, `relu`, `gelu`, `silu` and `layer_norm` come with their
gradients, which `differentiable` and `to_tensor` bring into torch's autograd; `SGD` and `Adam` keep weights
and states with scales.

Source: [SCALIFY].
"""

from lowprec.methods._torch import differentiable
from lowprec.methods.scale_propagation import rules
from lowprec.methods.scale_propagation.config import Config, config, current
from lowprec.methods.scale_propagation.gathers import embedding, scatter_add
from lowprec.methods.scale_propagation.linear import linear, matmul
from lowprec.methods.scale_propagation.nonlinear import gelu, layer_norm, relu, silu
from lowprec.methods.scale_propagation.optimizers import SGD, Adam, OptimizerState
from lowprec.methods.scale_propagation.pow2 import (
    best_pow2_scale,
    decode_e8m0,
    encode_e8m0,
    pow2_decompose,
    pow2_round,
)
from lowprec.methods.scale_propagation.registry import has_rule, register_scaled_op
from lowprec.methods.scale_propagation.scaled_array import ScaledArray, as_scaled, scaled_scalar
from lowprec.methods.scale_propagation.tensors import to_tensor
from lowprec.methods.scale_propagation.transform import (
    cast,
    custom_scale,
    dynamic_rescale,
    get_data_scale,
    on_backward,
    on_forward,
    rebalance,
    scalify,
    set_scaling,
    stop_scaling,
)

__all__ = [
    "SGD",
    "Adam",
    "Config",
    "OptimizerState",
    "ScaledArray",
    "as_scaled",
    "best_pow2_scale",
    "cast",
    "config",
    "current",
    "custom_scale",
    "decode_e8m0",
    "differentiable",
    "dynamic_rescale",
    "embedding",
    "encode_e8m0",
    "gelu",
    "get_data_scale",
    "has_rule",
    "layer_norm",
    "linear",
    "matmul",
    "on_backward",
    "on_forward",
    "pow2_decompose",
    "pow2_round",
    "rebalance",
    "register_scaled_op",
    "relu",
    "rules",
    "scaled_scalar",
    "scalify",
    "scatter_add",
    "set_scaling",
    "silu",
    "stop_scaling",
    "to_tensor",
]
