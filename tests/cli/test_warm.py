"""`lowprec warm`: what it calls, and what it says of kernels that are compiled."""

import logging
import os
import subprocess
import sys

import numba
import numpy as np
import pytest

import lowprec as lp
from lowprec.arrays import convert
from lowprec.cli import warming as warm
from lowprec.kernels import compiling, engine
from lowprec.kernels.jit import jit
from tests.command import lowprec

compiled = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")


def test_all_that_has_a_name_has_calls():
    """Three of each format, codebook and block format, two of each accumulation, by names of their own."""
    named = [*lp.formats.values(), *lp.block_formats.values()], list(lp.accumulations.values())
    named[0].extend(lp.format(name) for name in ("nf4", "posit8") if name not in lp.formats)
    words = [call.words for call in warm.calls([*named[0], *named[1]])]
    assert len(words) == len(set(words)) == 3 * len(named[0]) + 2 * len(named[1])


def test_the_calls_are_those_that_are_asked_for():
    """Verbs, types and modes multiply; a verb concerns what has it."""
    formats = [lp.format("e4m3fn"), lp.format("e5m2"), lp.accumulations["exact"]]
    words = [call.words for call in warm.calls(formats, ("cast", "dot"))]
    assert words == ["cast e4m3fn to e5m2", "cast e5m2 to e4m3fn", "dot exact"]
    asked = {"types": ("float32", "bfloat16"), "roundings": ("nearest_even", "stochastic(8)"), "flags": True}
    words = [call.words for call in warm.calls(formats[:1], ("encode",), **asked)]
    assert words[1:3] == [
        "encode bfloat16 to e4m3fn, with flags",
        "encode float32 to e4m3fn, stochastic(8), with flags",
    ]


@pytest.mark.parametrize(
    "how",
    [
        lp.Accumulation(accumulator=("binary32", "stochastic(8)"), output="binary32"),
        lp.Accumulation(
            operands=lp.Format(name="far", exponent_bits=3, trailing_bits=2, bias=-8),
            accumulator="binary32",
            output="binary32",
        ),
        lp.Accumulation(
            operands=lp.Format(name="near", exponent_bits=3, trailing_bits=2, bias=90),
            accumulator="binary32",
            output="binary32",
        ),
    ],
    ids=["random integers", "no operand as small as 1", "none as large"],
)
def test_sums_of_every_kind_are_warmed(how):
    for call in warm.calls([how]):
        call.run()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("e4m3fn", "--verb", "round"), "unknown verb 'round'"),
        (("e4m3fn", "--verb", "dot"), "'e4m3fn' has none of the verbs dot"),
        (("e4m3fn", "--type", "float33"), "unknown type 'float33'"),
        (("e4m3fn", "--rounding", "up"), "unknown rounding 'up'"),
        (("ocp_sat",), "'ocp_sat' is a profile"),
        ((), "say --all"),
        (("e4m3fn", "--all"), "say --all"),
        (("e8m0fnu", "--type", "complex64", "--verb", "encode"), "encode complex64 to e8m0fnu: "),
    ],
)
def test_what_cannot_be_warmed_is_refused(arguments, said):
    """Exit code 2, and the reason."""
    result = lowprec("warm", *arguments)
    assert result.exit_code == 2
    assert said in result.stderr


@pytest.mark.apart
@compiled
def test_the_second_process_compiles_nothing(tmp_path):
    """The first one lists its kernels with their time."""
    command = [sys.executable, "-m", "lowprec", "warm", "e4m3fn", "--verb", "decode", "--list"]
    printed = []
    for _ in range(2):
        ran = subprocess.run(
            command,
            env={**os.environ, "LOWPREC_CACHE_DIR": str(tmp_path / "kernels")},
            capture_output=True,
            text=True,
            check=True,
        )
        printed.append(ran.stdout.splitlines())
        assert ran.stderr == ""
    assert printed[0][0].split() == ["seconds", "kernel"]
    assert len(printed[0]) > 2
    assert f": {len(printed[0]) - 2} kernels compiled in " in printed[0][-1]
    assert len(printed[1]) == 2
    assert ": 0 kernels compiled in 0.0 s" in printed[1][-1]


@compiled
@pytest.mark.parametrize("folder", ["", "a file"])
def test_a_call_that_waits_says_so_once(tmp_path, monkeypatch, caplog, folder):
    """Kernels of lowprec alone are timed; other users' functions are not."""
    (tmp_path / "a file").touch()
    monkeypatch.setenv("LOWPREC_CACHE_DIR", folder and str(tmp_path / folder))
    monkeypatch.setattr(compiling, "_PATIENCE", 0.0)
    monkeypatch.setattr(compiling._Watch, "_told", False)
    before = len(compiling.COMPILED)
    with caplog.at_level(logging.INFO, "lowprec"):
        numba.njit(lambda x: x + 1)(1)
        assert not caplog.records
        for n in range(2):
            assert jit(eval(f"lambda x: x * {n}"), f"times_{n}")(np.int64(7)) == 7 * n
    assert [(record.levelname, "again in each process" in record.message) for record in caplog.records] == [
        ("INFO", True)
    ]
    new = compiling.COMPILED[before:]
    assert [(kernel.kernel, kernel.types) for kernel in new] == [("times_0", "int64"), ("times_1", "int64")]
    assert all(kernel.seconds > 0 for kernel in new)


def test_few_elements_and_many_are_warmed(monkeypatch):
    """Both with flags: conversions of many in unusual modes, and flags of many, have kernels of their own."""
    sizes = []

    def encode(x, *given, flags, **keywords):
        sizes.append((x.size, flags.size))

    monkeypatch.setattr(convert, "encode", encode)
    ran = lowprec("warm", "e4m3fn", "--verb", "encode", "--flags", "--rounding", "to_odd")
    assert ran.exit_code == 0, ran.output
    assert sizes == [(64, 64), (engine.MANY, engine.MANY)]
