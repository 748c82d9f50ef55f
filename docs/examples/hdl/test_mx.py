"""A cocotb 2 test of the MX converter, which ends with a diagnosis, and a script that runs it.

    python test_mx.py BUILD_DIRECTORY [PARAMETER=VALUE ...]

PARAMETER=VALUE chooses the formats or plants a bug: see mx_convert.v.

Exit codes: 0 the unit agrees with the reference, 1 it differs.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge
from cocotb_tools.check_results import get_results
from cocotb_tools.runner import get_runner

import lowprec as lp
from lowprec.testing import Scoreboard
from lowprec.verify.inputs.block_cases import block_cases

HERE = Path(__file__).resolve().parent

# -- the test, which runs inside the simulator ---------------------------------------------------------


@cocotb.test()
async def every_block_is_right(dut):
    """The blocks of `lowprec vectors block`, one a clock."""
    source = lp.format("bfloat16" if int(dut.FRACTION.value) == 7 else "binary32")
    fmt = lp.block_formats["mxfp4" if int(dut.EXPONENT.value) == 2 else "mxfp8_e4m3"]
    blocks = block_cases(fmt, source).values
    board = Scoreboard("block", source, fmt)
    dut.in_valid.value = 0
    Clock(dut.clock, 2, "ns").start()
    pipeline = board.follow(
        dut.clock, [dut.x], dut.elements, given=dut.in_valid, done=dut.out_valid, scale=dut.scale
    )
    cocotb.start_soon(pipeline)
    for values in blocks:
        await FallingEdge(dut.clock)
        dut.x.value = int.from_bytes(values.tobytes(), "little")
        dut.in_valid.value = 1
    for _ in range(3):
        await FallingEdge(dut.clock)
        dut.in_valid.value = 0
    report = board.check(limit=2)
    assert report.compared == blocks.size
    dut._log.info(report.sum())


# -- the runner, which builds and starts the simulator -----------------------------------------------


def main() -> int:
    """Test the unit; 1 if a test failed."""
    parser = argparse.ArgumentParser(description="Hold the MX converter against lowprec.")
    parser.add_argument("build_dir", type=Path)
    parser.add_argument("parameters", nargs="*", metavar="PARAMETER=VALUE")
    given = parser.parse_args()
    build = given.build_dir / "mx_convert"
    runner = get_runner("icarus")
    runner.build(
        sources=[HERE / "mx_convert.v"],
        hdl_toplevel="mx_convert",
        parameters=dict(each.split("=") for each in given.parameters),
        build_dir=build,
        timescale=("1ns", "1ps"),
        always=True,
    )
    results = runner.test(
        test_module=Path(__file__).stem,
        hdl_toplevel="mx_convert",
        build_dir=build,
        extra_env={"COCOTB_REWRITE_ASSERTION_FILES": ""},  # as in test_e4m3fn.py
        results_xml=str((build / "results.xml").resolve()),
    )
    tests, failed = get_results(results)
    return 1 if failed or not tests else 0


if __name__ == "__main__":
    sys.exit(main())
