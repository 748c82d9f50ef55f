"""NVFP4: the pre-training recipe, four-over-six scales, and MXFP4 blocks carried over without loss.

Blocks themselves are formats of `lowprec`: ``lowprec.encode(values, "nvfp4")``, and "nvfp4_2d" with tiles.

Source: [NVFP4], [FOUROVERSIX].
"""

from lowprec.arrays.blocks.mxfp4 import Conversion, from_mxfp4
from lowprec.methods.nvfp4.choice import Choice, encode
from lowprec.methods.nvfp4.hadamard import hadamard, signs
from lowprec.methods.nvfp4.layer import Gradients, Recipe, linear

__all__ = [
    "Choice",
    "Conversion",
    "Gradients",
    "Recipe",
    "encode",
    "from_mxfp4",
    "hadamard",
    "linear",
    "signs",
]
