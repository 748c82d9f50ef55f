"""Flags of dot products are those of their steps: as the processor raises them, and as lines have them."""

from __future__ import annotations

import ctypes
import ctypes.util
import dataclasses
import platform

import numpy as np
import pytest
from click.testing import CliRunner

import lowprec as lp
from lowprec.cli.main import main
from lowprec.export.unit_vectors import dot_suite
from lowprec.verify.compare.lines import compare_dot_lines
from lowprec.verify.reference.dots import check_flags, sums_with_flags

pytestmark = pytest.mark.apart

SINGLE = (lp.format("binary32"),) * 2
HALF = (lp.format("binary16"),) * 2
HOWS = lp.accumulations

#: <fenv.h> of glibc on x86: invalid, division by zero, overflow, underflow, inexact.
X86 = {1: 16, 4: 8, 8: 4, 16: 2, 32: 1}


def vectors(how, formats, length):
    made = dot_suite(how, formats, length=length, samples=256, flags=True)
    return [column.codes for column in made.file.columns]


@pytest.mark.skipif(
    platform.machine() != "x86_64" or platform.system() != "Linux", reason="reads the flags of x86 from glibc"
)
def test_flags_of_fused_sums_are_those_of_the_processor():
    """Sums of fmaf, with fetestexcept after each; x86 judges tininess after rounding, as here."""
    libm = ctypes.CDLL(ctypes.util.find_library("m"))
    libm.fmaf.restype, libm.fmaf.argtypes = ctypes.c_float, [ctypes.c_float] * 3
    x, y, addend, results, flags = vectors(HOWS["fp32_fma"], SINGLE, 3)
    given = [part.astype(np.uint32).view(np.float32) for part in (x, y, addend)]
    quiet = ~(np.isnan(given[0]).any(1) | np.isnan(given[1]).any(1) | np.isnan(given[2]))
    found = set()
    for row in np.flatnonzero(quiet):
        running, raised = float(given[2][row]), 0
        for a, b in zip(given[0][row].tolist(), given[1][row].tolist(), strict=True):
            libm.feclearexcept(0x3D)
            running = libm.fmaf(a, b, running)
            raised |= libm.fetestexcept(0x3D)
        libm.feclearexcept(0x3D)
        assert np.float32(running).view(np.uint32) & 0x7FFFFFFF == results[row] & 0x7FFFFFFF or np.isnan(
            running
        )
        assert sum(ours for theirs, ours in X86.items() if raised & theirs) == flags[row], row
        found.add(int(flags[row]))
    assert {0, 1, 3, 5, 16} <= found


@pytest.mark.parametrize("order", ["sequential", "pairwise", "chunked(3)", "chunked(4, pairwise)"])
@pytest.mark.parametrize("addend", ["first", "last"])
def test_the_steps_give_the_results_of_the_dot_product(order, addend):
    """In every order that is made of operations, to another output; `dot_suite` holds codes against `dot`."""
    how = dataclasses.replace(
        HOWS["fp32_sequential"], order=order, addend=addend, output=("bfloat16", "toward_zero")
    )
    *_, flags = vectors(how, HALF, 7)
    assert set(np.unique(flags)) >= {0, 1, 16}


def test_a_chain_raises_what_its_steps_raise():
    """One overflow stays, whatever comes after; a signaling NaN is invalid, a quiet one is not."""
    x = np.uint16([[0x7BFF, 0x7BFF, 0], [0x7C01, 0, 0], [0x7E00, 0, 0], [0x3C00, 0, 0]])
    y = np.uint16([[0x7BFF, 0x7BFF, 0], [0x3C00, 0, 0], [0x3C00, 0, 0], [0x3C00, 0, 0]])
    how, addend = HOWS["fp16_sequential"], np.zeros(4, np.uint16)
    codes, flags = sums_with_flags(x, y, addend, (*HALF, HALF[0]), how)
    assert codes.tolist() == [0x7C00, 0x7E00, 0x7E00, 0x3C00]
    assert flags.tolist() == [5, 16, 0, 0]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("ada_mma_e4m3fn_binary32", "it adds several products at once"),
        ("exact", "it adds several products at once"),
        ("arm_fdot_e4m3fn_binary32", "its terms are exact sums of 4 products"),
        ("cdna3_mfma_binary16_binary32", "it adds several products at once"),
    ],
)
def test_sums_of_several_products_are_refused_with_the_reason(name, why):
    with pytest.raises(ValueError, match=f"no standard says which exceptions {name} raises: {why}"):
        check_flags(HOWS[name])
    pairs = dataclasses.replace(HOWS["fp32_fma"], order="pairwise", name="pairs")
    with pytest.raises(ValueError, match="it adds exact products in pairs"):
        dot_suite(pairs, HALF, flags=True)


def test_lines_with_flags_are_judged_and_explained():
    made = dot_suite(HOWS["fp16_sequential"], HALF, length=4, flags=True)
    lines = made.render("text").decode().splitlines()
    report = compare_dot_lines(lines, HOWS["fp16_sequential"], HALF, flags=True)
    assert report.agrees
    assert report.flags.agrees
    assert report.flags.compared == report.compared > 1000
    before = lp.Projection(tininess="before")
    how = dataclasses.replace(
        HOWS["fp16_sequential"], accumulator=("binary16", before), output=("binary16", before)
    )
    other = dot_suite(how, HALF, length=4, flags=True).render("text").decode().splitlines()
    report = compare_dot_lines(other, HOWS["fp16_sequential"], HALF, flags=True)
    assert report.mismatches == 0
    assert report.flags.mismatches > 0
    assert report.flags.cause.words == "tininess judged before rounding"
    lost = [line if line.startswith("#") else f"{line.rsplit(' ', 1)[0]} 00" for line in lines]
    report = compare_dot_lines(lost, HOWS["fp16_sequential"], HALF, flags=True)
    assert report.flags.cause.words == "no flags at all"
    assert report.flags.details[0].data["line"] > 4
    report = compare_dot_lines(lost, HOWS["fp16_sequential"], HALF, flags=True, why=False)
    assert report.flags.mismatches > 0
    assert report.flags.cause is None
    large = [line if line.startswith("#") else f"{line.rsplit(' ', 1)[0]} 4000000000000000" for line in lines]
    report = compare_dot_lines(large, HOWS["fp16_sequential"], HALF, flags=True, why=False)
    assert report.flags.mismatches == report.compared
    with pytest.raises(ValueError, match="flags are of dot products alone; leave out the size of matrices"):
        compare_dot_lines(lines, HOWS["fp16_sequential"], HALF, flags=True, size=(1, 1, 4))


def test_the_commands_write_and_read_them(tmp_path):
    run = CliRunner().invoke
    asked = ["dot", "fp32_fma", "binary16", "binary16"]
    made = run(main, ["vectors", *asked, "--length", "4", "--flags"])
    (tmp_path / "lines").write_text(made.output)
    found = run(main, ["compare", str(tmp_path / "lines"), *asked, "--flags"])
    assert found.exit_code == 0, found.output
    assert found.output.splitlines()[-1].endswith("lines agree")
    refused = run(main, ["vectors", "dot", "fp32_fma", "takum16", "takum16", "--flags"])
    assert "there are no vectors of dot products in 'takum16', which is a codebook" in refused.output
    short = run(main, ["compare", str(tmp_path / "lines"), *asked])
    assert "has 11 words" in short.output
    refused = run(main, ["vectors", "dot", "ada_mma_e4m3fn_binary32", "--flags"])
    assert "it adds several products at once" in refused.output
    refused = run(main, ["vectors", "block", "bfloat16", "mxfp4", "--flags"])
    assert "no standard says which exceptions a block converter raises" in refused.output
