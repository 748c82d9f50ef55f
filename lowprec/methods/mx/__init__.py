"""MX: products of blocks, the linear layer in training, vector operations between, weights after training.

Blocks themselves are formats of `lowprec`: ``lowprec.encode(values, "mxfp4", axis=...)``.

Source: [MX], [OCPMX].
"""

from lowprec.methods.mx.diffusion import diffuse
from lowprec.methods.mx.expected import expected_sqnr
from lowprec.methods.mx.products import Gradients, Roles, linear, matmul
from lowprec.methods.mx.vector import Vector

__all__ = ["Gradients", "Roles", "Vector", "diffuse", "expected_sqnr", "linear", "matmul"]
