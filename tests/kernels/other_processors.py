"""Prints what kernels become on aarch64, as JSON: for `test_processors`. They are never run there.

LLVM is given the code of kernels before it was optimised for the processor at hand: run this with
NUMBA_OPT=0, NUMBA_CPU_NAME=generic and no cache.
"""

import gc
import json
import re

import llvmlite.binding as llvm
import numpy as np
from numba.core.dispatcher import Dispatcher

import lowprec as lp

TRIPLE = "aarch64-unknown-linux-gnu"

llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()


def run_kernels() -> None:
    """Compile kernels of conversions, operations, blocks and dot products, by using them."""
    x = np.linspace(-3, 3, 8 * 64, dtype=np.float32).reshape(8, 64)
    for target in ("e4m3fn", "binary16", "bfloat16"):
        lp.decode(lp.encode(x, target), target)
    lp.encode(x, "e4m3fn", rounding="stochastic(8)", rng=0)
    lp.multiply(x, x, "bfloat16")
    lp.fma(x, x, x, "binary32")
    lp.encode(x, "mxfp4").values()
    for sums in ("fp32_fma", "fp32_sequential", "hopper_wgmma_e4m3fn_binary32"):
        lp.matmul(lp.quantize(x, "e4m3fn"), lp.quantize(x.T, "e4m3fn"), sums)


def translated(code: str) -> dict[str, object]:
    """Return what LLVM makes of a kernel: names that are called, instructions that fuse, use of vectors."""
    target = llvm.Target.from_triple(TRIPLE)
    machine = target.create_target_machine(cpu="generic", opt=3)
    requested = len(re.findall(r"call [^\n]*@llvm\.fma", code))
    code = re.sub(r"^target (triple|datalayout) = .*$", "", code, flags=re.M)
    code = re.sub(r'"target-(cpu|features)"="[^"]*"', "", code)
    # The register of modes has other instructions there: MODES of kernels/jit.py.
    code = re.sub(r"^.*call [^\n]*@llvm\.x86\.sse\.(ld|st)mxcsr.*$", "", code, flags=re.M)
    module = llvm.parse_assembly(code)
    module.triple, module.data_layout = TRIPLE, str(machine.target_data)
    module.verify()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    builder.getModulePassManager().run(module, builder)
    text = machine.emit_assembly(module)
    return {
        "calls": sorted(set(re.findall(r"^\s+bl?\s+([A-Za-z_][\w.]*)$", text, re.M))),
        "defined": sorted(set(re.findall(r"^([A-Za-z_][\w.]*):", text, re.M))),
        "requested": requested,
        "fused": len(re.findall(r"^\s+fn?m(?:add|sub|la|ls)\s", text, re.M)),
        "vectors": "v0.4s" in text,
    }


if __name__ == "__main__":
    run_kernels()
    found = {}
    for kernel in [each for each in gc.get_objects() if isinstance(each, Dispatcher)]:
        name = f"{kernel.py_func.__module__}.{kernel.__name__}"
        if name.startswith("lowprec.kernels."):
            for signature, code in kernel.inspect_llvm().items():
                found[f"{name}{signature}"] = translated(code)
    print(json.dumps(found))
