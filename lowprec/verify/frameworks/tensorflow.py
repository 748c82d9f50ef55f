"""TensorFlow, on CPUs: `tf.cast`."""

from __future__ import annotations

import contextlib
import os

import numpy as np

from lowprec.arrays.checks import code_dtype, dtype
from lowprec.spec.format import Format
from lowprec.verify.frameworks.base import Array, Framework, formats

__all__ = ["FRAMEWORKS"]

#: It names three more 8-bit types and casts nothing to them.
_FORMATS = formats("binary32 binary16 bfloat16 e5m2 e4m3fn")


def _cast(values: Array, fmt: Format) -> Array:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with contextlib.suppress(ImportError):
        import triton  # noqa: F401  # torch imports it too; after TensorFlow its LLVM aborts the process
    import tensorflow

    with tensorflow.device("CPU"):
        made = tensorflow.cast(tensorflow.constant(values), tensorflow.as_dtype(dtype(fmt)))
    return np.asarray(made.numpy()).view(code_dtype(fmt))


FRAMEWORKS = (
    Framework(
        name="tensorflow",
        package="tensorflow-cpu",
        install="pip install tensorflow-cpu",
        sources=("float16", "bfloat16", "float32", "float64"),  # integers to 8-bit floats are not implemented
        targets=lambda: _FORMATS,
        cast=_cast,
    ),
)
