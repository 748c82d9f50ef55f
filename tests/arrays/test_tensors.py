"""Tensors of torch and JAX come in with their own bits, the types that NumPy lacks included."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import lowprec as lp
from tests.programs import need_framework

VALUES = np.array([[1.0625, -0.3, 448.0], [464.0, 1e-3, -500.0]], np.float32)


@pytest.mark.parametrize(
    "name", ["float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"]
)
def test_torch_tensors_are_their_values(name):
    """Of every type, also transposed, and with a gradient to lose."""
    need_framework("torch")
    torch = importlib.import_module("torch")
    tensor = torch.from_numpy(VALUES).to(getattr(torch, name))
    values = tensor.to(torch.float64).numpy()
    assert (lp.encode(tensor, "e4m3fn") == lp.encode(values, "e4m3fn")).all()
    assert (lp.encode(tensor.T, "e4m3fn") == lp.encode(values.T, "e4m3fn")).all()
    if tensor.itemsize > 1:
        grown = tensor.clone().requires_grad_()
        assert (lp.encode(grown, "e5m2") == lp.encode(values, "e5m2")).all()


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float8_e5m2"])
def test_jax_arrays_are_their_values(name):
    """JAX gives ml_dtypes arrays itself."""
    need_framework("jax")
    jnp = importlib.import_module("jax.numpy")
    array = jnp.asarray(VALUES).astype(name)
    assert (lp.encode(array, "e4m3fn") == lp.encode(np.asarray(array, np.float64), "e4m3fn")).all()
