"""Kernels compiled for another processor than the one at hand give the same answers."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys

import numba
import pytest

pytestmark = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")

#: Conversions through every route, operations, blocks and products; their bytes, digested.
PROGRAM = """
import hashlib, json
import numpy as np
import lowprec as lp

rng = np.random.default_rng(1)
x = (rng.normal(size=(40, 96)) * 2.0 ** rng.integers(-30, 20, (40, 96))).astype(np.float32)
x[0, :6] = [np.inf, -np.inf, np.nan, -0.0, 65519.99, 65520.0]
found = {}
for name in ("binary16", "bfloat16", "e4m3fn", "e5m2fnuz", "tf32"):
    for mode in ("nearest_even", "toward_positive", "to_odd"):
        found[name, mode] = lp.encode(x, name, rounding=mode)
        found[name, mode, "values"] = lp.quantize(x, name, rounding=mode)
    found[name, "drawn"] = lp.encode(x, name, rounding="stochastic(8)", rng=3)
    found[name, "fma"] = lp.fma(x, x[::-1], x[:, ::-1], name)
halves = np.empty(x.shape, np.float16)
found["halves"] = lp.quantize(x, "e4m3fn", out=halves)
found["of halves"] = lp.encode(halves, "bfloat16")
for name in ("mxfp4", "nvfp4", "mxfp8_e4m3"):
    blocks = lp.encode(np.nan_to_num(x), name)
    found[name], found[name, "scales"] = blocks.codes, blocks.scales
left, right = lp.quantize(np.nan_to_num(x), "e4m3fn", saturation="finite"), lp.quantize(x[:, ::-1].T, "e4m3fn")
for how in ("fp32_fma", "fp16_sequential", "hopper_wgmma_e4m3fn_binary16", "exact"):
    found[how] = lp.matmul(left, right, how)
print(json.dumps({str(key): hashlib.sha256(np.ascontiguousarray(made).tobytes()).hexdigest()
                  for key, made in found.items()}))
"""


def digests(**environment):
    """What a process of its own prints."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="names x86-64 processors")
def test_a_processor_without_conversions_to_binary16_gives_the_same_answers():
    """On it LLVM would call a function that no process has to have: no kernel may hold that call."""
    assert digests(NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES="") == digests()
