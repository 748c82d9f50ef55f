"""FP8: tensors as codes with a scale, products that are unscaled once, and how scales and biases are found.

Values are divided by a scale and encoded, E4M3 for weights and activations, E5M2 for gradients. Products
are summed as an accumulation says, and the sum is multiplied by both scales, once. 8-bit integers go the
same way, for comparison.

Source: [FP8], [OFP8].
"""

from lowprec.methods.fp8.codes import POLICIES, ScaledCodes, decode, encode, quantize
from lowprec.methods.fp8.convolution import conv2d
from lowprec.methods.fp8.products import Gradients, linear, matmul
from lowprec.methods.fp8.scaling import Recipe, Scaling
from lowprec.methods.fp8.search import BiasSweep, Calibration, bias_sweep, calibrate, sqnr

__all__ = [
    "POLICIES",
    "BiasSweep",
    "Calibration",
    "Gradients",
    "Recipe",
    "ScaledCodes",
    "Scaling",
    "bias_sweep",
    "calibrate",
    "conv2d",
    "decode",
    "encode",
    "linear",
    "matmul",
    "quantize",
    "sqnr",
]
