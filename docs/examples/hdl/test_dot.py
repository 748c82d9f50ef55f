"""A cocotb 2 test of the dot product unit, which ends with a diagnosis, and a script that runs it.

    python test_dot.py BUILD_DIRECTORY [PARAMETER=VALUE ...]

PARAMETER=VALUE plants a bug: see e4m3fn_dot.v.

Exit codes: 0 the unit agrees with the reference, 1 it differs.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge
from cocotb_tools.check_results import get_results
from cocotb_tools.runner import get_runner

import lowprec as lp
from lowprec.testing import Scoreboard

HERE = Path(__file__).resolve().parent
LANES, CASES = 4, 3000

E4M3FN, BINARY32 = lp.format("e4m3fn"), lp.format("binary32")
CUT = lp.Projection(rounding="toward_zero", nan_code=0x7FFFFFFF, nan_sign="drop")
#: What the unit is meant to be.
UNIT = lp.Accumulation(
    name="unit",
    operands=(E4M3FN, E4M3FN),
    accumulator=lp.Window(step=LANES, fraction_bits=24, result=(BINARY32, CUT)),
    output=(BINARY32, CUT),
)

# -- the test, which runs inside the simulator ---------------------------------------------------------


def operands(generator):
    """Codes of x, y and c: any at all, and addends whose exponents lie around those of the products."""
    x, y = generator.integers(0, 256, (2, CASES, LANES), dtype=np.uint8)
    x[::2] &= 0xF7  # fewer NaNs
    y[::2] &= 0xF7
    x[::7, 1:], y[1::11] = 0, 0
    c = generator.standard_normal(CASES) * np.exp2(generator.integers(-30, 46, CASES))
    c = c.astype(np.float32).view(np.uint32)
    c[::5] = generator.integers(0, 1 << 32, len(c[::5]), dtype=np.uint32)
    return x, y, c


@cocotb.test()
async def every_sum_is_right(dut):
    """Thousands of steps, one a clock."""
    board = Scoreboard("dot", accumulation=UNIT)
    dut.in_valid.value = 0
    Clock(dut.clock, 2, "ns").start()
    pipeline = board.follow(
        dut.clock, [dut.x, dut.y], dut.result, given=dut.in_valid, done=dut.out_valid, addend=dut.c
    )
    cocotb.start_soon(pipeline)
    for x, y, c in zip(*operands(np.random.default_rng(0)), strict=True):
        await FallingEdge(dut.clock)
        dut.x.value = int.from_bytes(x.tobytes(), "little")
        dut.y.value = int.from_bytes(y.tobytes(), "little")
        dut.c.value = int(c)
        dut.in_valid.value = 1
    for _ in range(3):
        await FallingEdge(dut.clock)
        dut.in_valid.value = 0
    report = board.check(limit=2)
    assert report.compared == CASES
    dut._log.info(report.sum())


# -- the runner, which builds and starts the simulator -----------------------------------------------


def main() -> int:
    """Test the unit; 1 if a test failed."""
    parser = argparse.ArgumentParser(description="Hold the dot product unit against lowprec.")
    parser.add_argument("build_dir", type=Path)
    parser.add_argument("parameters", nargs="*", metavar="PARAMETER=VALUE")
    given = parser.parse_args()
    build = given.build_dir / "e4m3fn_dot"
    runner = get_runner("icarus")
    runner.build(
        sources=[HERE / "e4m3fn_dot.v"],
        hdl_toplevel="e4m3fn_dot",
        parameters={"LANES": LANES} | dict(each.split("=") for each in given.parameters),
        build_dir=build,
        timescale=("1ns", "1ps"),
        always=True,
    )
    results = runner.test(
        test_module=Path(__file__).stem,
        hdl_toplevel="e4m3fn_dot",
        build_dir=build,
        extra_env={"COCOTB_REWRITE_ASSERTION_FILES": ""},  # as in test_e4m3fn.py
        results_xml=str((build / "results.xml").resolve()),
    )
    tests, failed = get_results(results)
    return 1 if failed or not tests else 0


if __name__ == "__main__":
    sys.exit(main())
