"""Kernels compiled for another processor than the one at hand give the same answers."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys

import numba
import numpy as np
import pytest

import lowprec as lp

pytestmark = pytest.mark.apart


def answers():
    """Codes of binary16 by its own kernel, and of targets whose kernel has every route in it."""
    x = np.ldexp(np.arange(1, 2081, dtype=np.float32), np.arange(2080) % 45 - 30)
    x[:6] = [np.inf, -np.inf, np.nan, -0.0, 65519.99, 65520.0]
    return {
        "nearest": lp.encode(x, "binary16").tolist(),
        "to odd": lp.encode(x, "binary16", rounding="to_odd").tolist(),
        "fixed point": lp.encode(x[3:], "int8f6").tolist(),
    }


@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64") or bool(numba.config.DISABLE_JIT),
    reason="names a processor",
)
def test_a_processor_without_conversions_to_binary16_gives_the_same_answers():
    """On it LLVM would call a function that no process has to have: no kernel may hold that call."""
    program = "import json; from tests.kernels.test_processors import answers; print(json.dumps(answers()))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""},
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == answers()
