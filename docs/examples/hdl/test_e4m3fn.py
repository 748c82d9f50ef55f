"""A cocotb 2 test of the decoder and the encoder, held against lowprec, and a script that runs it.

    python test_e4m3fn.py BUILD_DIRECTORY [--ties-away]

Exit codes: 0 the devices agree with the reference, 1 they differ.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import cocotb
import numpy as np
from cocotb.triggers import Timer
from cocotb_tools.check_results import get_results
from cocotb_tools.runner import get_runner

import lowprec as lp
from lowprec.verify.inputs.conversions import inputs

HERE = Path(__file__).resolve().parent

# -- the tests, which run inside the simulator -------------------------------------------------------
#
# What is expected is computed for all cases at once, before the loop over them: lowprec is made for
# arrays, and its first call compiles a kernel.


@cocotb.test()
async def every_code_decodes(dut):
    """All 256 codes, to the last bit: -0 and the sign of NaN count."""
    codes = np.arange(256, dtype=np.uint8)
    wanted = lp.decode(codes, "e4m3fn").view(np.uint32)
    wrong = []
    for code, want in zip(codes.tolist(), wanted.tolist(), strict=True):
        dut.code.value = code
        await Timer(1, "ns")
        got = int(dut.binary32.value)  # an x or z in it is a ValueError and fails the test
        if got != want:
            wrong.append(f"code {code:02x}: got {got:08x}, want {want:08x}")
    report(dut, wrong, len(codes))


@cocotb.test()
async def every_border_encodes(dut):
    """Every value, tie and threshold with its neighbours, subnormals, infinities and NaNs."""
    values = inputs(lp.format("e4m3fn"), np.float32)
    operands = values.view(np.uint32)
    wanted = lp.encode(values, "e4m3fn")
    wrong = []
    for operand, want in zip(operands.tolist(), wanted.tolist(), strict=True):
        dut.binary32.value = operand
        await Timer(1, "ns")
        got = int(dut.code.value)
        if got != want:
            wrong.append(f"operand {operand:08x}: got {got:02x}, want {want:02x}")
    report(dut, wrong, len(operands))


def report(dut, wrong: list[str], cases: int) -> None:
    """Log what differs, and fail if anything does."""
    for line in wrong:
        dut._log.error(line)
    assert not wrong, f"{len(wrong)} of {cases} cases differ, first {wrong[0]}"


# -- the runner, which builds and starts the simulator -----------------------------------------------


def simulate(toplevel: str, test: str, build_dir: Path, parameters: dict[str, object]) -> int:
    """Build one device under Icarus Verilog, run one test on it and return how many tests failed."""
    runner = get_runner("icarus")
    runner.build(
        sources=[HERE / f"{toplevel}.v"],
        hdl_toplevel=toplevel,
        parameters=parameters,
        build_dir=build_dir / toplevel,
        timescale=("1ns", "1ps"),  # without it Icarus takes 1 s, and a timer of 1 ns is an error
        always=True,  # parameters are no file, so that a changed one alone would not build anew
    )
    results = runner.test(
        test_module=Path(__file__).stem,
        hdl_toplevel=toplevel,
        testcase=test,
        build_dir=build_dir / toplevel,
        # cocotb has pytest rewrite the assertions of every module imported in the simulator, without a
        # cache; for numba, which lowprec imports, that takes longer than the test.
        extra_env={"COCOTB_REWRITE_ASSERTION_FILES": ""},
        results_xml=str((build_dir / toplevel / "results.xml").resolve()),
    )
    tests, failed = get_results(results)
    # A name that selects no test would otherwise look like a success.
    return failed if tests else 1


def main() -> int:
    """Test the devices; 1 if a test failed."""
    parser = argparse.ArgumentParser(description="Hold the E4M3FN decoder and encoder against lowprec.")
    parser.add_argument("build_dir", type=Path)
    parser.add_argument(
        "--ties-away",
        action="store_true",
        help="test the encoder alone, with the bug that e4m3fn_encode.v describes",
    )
    given = parser.parse_args()
    failed = 0
    if not given.ties_away:
        failed += simulate("e4m3fn_decode", "every_code_decodes", given.build_dir, {})
    failed += simulate(
        "e4m3fn_encode", "every_border_encodes", given.build_dir, {"TIES_AWAY": int(given.ties_away)}
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
