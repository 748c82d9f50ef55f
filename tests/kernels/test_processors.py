"""Kernels compiled for another processor than the one at hand give the same answers."""

import functools
import json
import platform

import numba
import numpy as np
import pytest

import lowprec as lp
from tests.kernels.other_processors import translated
from tests.support import python

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
    made = python("-c", program, NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES="")
    assert json.loads(made) == answers()


# -- aarch64 ----------------------------------------------------------------------------------------

#: How the names begin that a kernel may call: Python, numba's runtime, memory, and other kernels.
KNOWN = ("Py", "NRT_", "numba_", "memcpy", "memset", "_ZN")

needs_llvm_for_x86 = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64") or bool(numba.config.DISABLE_JIT),
    reason="translates what was compiled for x86-64",
)


@functools.cache
def on_aarch64():
    """Return what the kernels of `other_processors` become there, by their names."""
    environment = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "NUMBA_OPT": "0"}
    return json.loads(python("-m", "tests.kernels.other_processors", LOWPREC_CACHE_DIR="", **environment))


def strange(kernel):
    """The names that a kernel calls and that no process has to have."""
    return [name for name in kernel["calls"] if not name.startswith(KNOWN)]


@needs_llvm_for_x86
def test_kernels_assemble_for_aarch64_without_strange_calls():
    """Conversions, operations, blocks and dot products, in vectors of four numbers."""
    kernels = on_aarch64()
    assert {name: found for name, each in kernels.items() if (found := strange(each))} == {}
    for part in (
        "convert.convert",
        "arith.operate_multiply",
        "block.all_blocks",
        "dot.running",
        "dot.windows",
    ):
        found = [each for name, each in kernels.items() if f"kernels.vector.{part}" in name]
        assert found, part
        assert all(each["vectors"] for each in found), part


@needs_llvm_for_x86
def test_on_aarch64_only_requested_operations_are_fused():
    """An fma of 32 lanes is eight instructions; a product and a sum stay two."""
    kernels = on_aarch64()
    assert {name for name, each in kernels.items() if each["fused"] != 8 * each["requested"]} == set()
    assert any(each["fused"] for each in kernels.values())
    assert any("running_multiply_and_add" in name for name in kernels)


def test_a_fusion_and_a_strange_call_are_found():
    """A product and a sum that LLVM may fuse, and a remainder, which is a function of the C library."""
    fused = translated(
        "declare float @llvm.fmuladd.f32(float, float, float)\n"
        "define float @f(float %x) {\n"
        "%y = call float @llvm.fmuladd.f32(float %x, float %x, float %x)\nret float %y\n}"
    )
    assert (fused["requested"], fused["fused"]) == (0, 1)
    called = translated("define float @f(float %x, float %y) {\n%z = frem float %x, %y\nret float %z\n}")
    assert strange(called) == ["fmodf"]
