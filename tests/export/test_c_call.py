"""Headers of library calls, compiled as C99, against the kernels: scales, bias and addends, any K."""

import ctypes
import dataclasses
import itertools
import subprocess
import zlib

import numpy as np
import pytest
from click.testing import CliRunner

import lowprec as lp
from lowprec.arrays.checks import code_dtype
from lowprec.cli.main import main
from lowprec.export.c.c_call import call_header
from lowprec.export.c.c_header import identifier
from lowprec.spec.accumulations import accumulation
from lowprec.spec.epilogue import Epilogue, LibraryCall
from lowprec.spec.library_calls import library_call
from lowprec.spec.projection import Projection
from tests.agreement.test_dots import pairs_of_rows
from tests.command import lowprec
from tests.export.test_c_accumulation import FLAGS, drawn, in_blocks
from tests.fuzz.drawing import Draw
from tests.fuzz.specifications import any_format, any_projection
from tests.programs import need
from tests.support import refusal_test

#: Rows of x and of y, elements that share a scale along K, and rows of y that do.
ROWS, COLUMNS, BLOCK, TILE = 6, 9, 16, 4


class Scales(ctypes.Structure):
    """As the header has them."""

    _fields_ = (("codes", ctypes.c_void_p), ("rows", ctypes.c_size_t), ("blocks", ctypes.c_size_t))


class Numbers(ctypes.Structure):
    """Numbers that join, as the header has them."""

    _fields_ = (("codes", ctypes.c_void_p), ("row", ctypes.c_size_t), ("column", ctypes.c_size_t))


class Joins(ctypes.Structure):
    """All that joins the sums."""

    _fields_ = (
        *(("x", Scales), ("y", Scales), ("block", ctypes.c_size_t)),
        *((name, Numbers) for name in ("addend", "bias", "output_scale")),
    )


def compiled(call, folder, compiler="gcc"):
    """Return the header's matmul."""
    name, source = f"lowprec_{identifier(str(call))}", folder / "call.c"
    given = ["const void *x", "const void *y"] + ["const void *a", "const void *b"] * bool(
        call.accumulation.scale
    )
    given += ["size_t m", "size_t n", "size_t k", "const void *joins", "void *out"]
    head, names = f"void run({', '.join(given)})", ", ".join(each.split()[-1].strip("*") for each in given)
    source.with_suffix(".h").write_text(call_header(call, "a test"))
    source.write_text(f'#include "call.h"\n{head};\n{head}\n{{ {name}_matmul({names}); }}\n')
    subprocess.run([compiler, *FLAGS, "-o", folder / f"{compiler}.so", source], check=True)
    return ctypes.CDLL(str(folder / f"{compiler}.so")).run


def numbers(shape, fmt, rng):
    """Return codes of numbers of ordinary size, with a few of any kind, and their values."""
    codes = np.asarray(lp.encode(rng.normal(size=shape) * 2.0 ** rng.integers(-3, 4), fmt))
    any_size = rng.integers(0, 1 << fmt.width, shape, np.uint64) >> rng.integers(
        0, fmt.width, shape, np.uint64
    )
    codes = np.where(rng.random(shape) < 0.1, any_size, codes).astype(code_dtype(fmt))
    return codes, lp.decode(codes, fmt)


def scales(side, kind, length, fmt, rng):
    """Return scales of one side as the header and as `matmul` has them."""
    rows = ROWS if side == "x" else COLUMNS
    shared = 1 if side == "x" else TILE
    shapes = {
        "none": None,
        "tensor": (1, 1),
        "rows": (rows, 1),
        "blocks": (-(-rows // shared), -(-length // BLOCK)),
    }
    if shapes[kind] is None:
        return None, Scales(), None
    codes, values = numbers(shapes[kind], fmt, rng)
    counts = {"tensor": (0, 0), "rows": (1, 0), "blocks": (shared, codes.shape[1])}[kind]
    if kind == "blocks" and shared > 1:
        values = np.repeat(values, shared, 0)[:rows]
    return codes, Scales(codes.ctypes.data, *counts), values if side == "x" else values.T


def differing(call, run, length, rng):
    """Count results that are not the kernels', with what joins drawn."""
    how, compute = call.accumulation, call.epilogue.compute[0]
    x, y = pairs_of_rows(how.operands, max(ROWS, COLUMNS), length, rng)
    codes = [
        np.ascontiguousarray((each[:count] & (1 << fmt.width) - 1).astype(code_dtype(fmt)))
        for each, fmt, count in zip((x, y), how.operands, (ROWS, COLUMNS), strict=True)
    ]
    sides, words = [lp.decode(each, fmt) for each, fmt in zip(codes, how.operands, strict=True)], []
    if how.operands[0].name == "tf32":
        codes = [each.view(np.uint32) for each in sides]
    if how.scale is not None:
        fmt, size = how.scale
        words = [rng.integers(117, 137, (len(each), -(-length // size))).astype(np.uint8) for each in codes]
        sides = in_blocks(codes, words, how.operands, fmt, size)
    else:
        sides[1] = sides[1].T
    kinds = ["none", "tensor", "rows"] + ["blocks"] * (
        how.scale is None and how.split is None and length > BLOCK
    )
    kept = [scales(side, rng.choice(kinds), length, compute, rng) for side in "xy"]
    joins, given = Joins(kept[0][1], kept[1][1], BLOCK), {}
    if kept[0][2] is not None or kept[1][2] is not None:
        given["scales"] = (kept[0][2], kept[1][2])
    for name, shape, steps in (
        ("addend", (ROWS, COLUMNS), (COLUMNS, 1)),
        ("bias", (COLUMNS,), (0, 1)),
        ("output_scale", (), (0, 0)),
    ):
        if rng.random() < 0.5 and not (name == "bias" and call.epilogue.fused_bias and "addend" in given):
            own, given[name] = numbers(shape, compute, rng)
            kept.append(own)
            setattr(joins, name, Numbers(own.ctypes.data, *steps))
    epilogue = dataclasses.replace(call.epilogue, block=BLOCK)
    want = lp.matmul(
        *sides, dataclasses.replace(call, epilogue=epilogue), dtype=code_dtype(call.output[0]), **given
    )
    out = np.zeros((ROWS, COLUMNS), code_dtype(call.output[0]))
    pointers = [each.ctypes.data_as(ctypes.c_void_p) for each in (*codes, *words)]
    sizes = [ctypes.c_size_t(each) for each in (ROWS, COLUMNS, length)]
    run(*pointers, *sizes, ctypes.byref(joins), out.ctypes.data_as(ctypes.c_void_p))
    return int(np.count_nonzero(out != want))


def counted(call, run, rng, times):
    """Count differing results of several lengths, and of what joins."""
    return sum(differing(call, run, length, rng) for length in (0, 1, 7, 65, 200) for _ in range(times))


OTHERS = {
    "blocks": LibraryCall(
        name="blocks",
        accumulation=accumulation("rtx_blackwell_mma_e4m3fn_binary32_e8m0fnu_1"),
        epilogue=Epilogue(output="bfloat16"),
    ),
    "narrow sums": LibraryCall(
        name="narrow sums",
        accumulation=accumulation("hopper_mma_binary16_binary16"),
        epilogue=Epilogue(output=("e5m2", "toward_zero"), scales="y_first"),
    ),
    "fused": LibraryCall(
        name="fused",
        accumulation=accumulation("hopper_wgmma_e4m3fn_binary32"),
        epilogue=Epilogue(output="binary32", scales="y_first", fused_bias=True),
    ),
    "exact": LibraryCall(
        name="exact",
        accumulation=dataclasses.replace(accumulation("exact"), operands=("e5m2", "bfloat16")),
        epilogue=Epilogue(compute=("bfloat16", "away_from_zero"), output="binary32", scales="x_first"),
    ),
    "cdna": LibraryCall(
        name="cdna",
        accumulation=accumulation("cdna3_mfma_e4m3fnuz_binary32"),
        epilogue=Epilogue(compute=("binary32", Projection(subnormals="flush_results")), output="binary32"),
    ),
}
NAMED = (
    "ada_cublaslt_fp8(output=e4m3fn)",
    "hopper_cublaslt_fp8(output=bfloat16, fast=false)",
    "blackwell_cublaslt_fp8(output=binary32, formats=e5m2:e4m3fn)",
    "hopper_torch_rowwise_fp8",
    "blackwell_torch_rowwise_fp8(output=binary16)",
)


@pytest.mark.parametrize(
    "name",
    [
        "hopper_torch_rowwise_fp8",
        "fused",
        *(pytest.param(name, marks=pytest.mark.apart) for name in (*NAMED, *OTHERS)),
    ],
)
def test_headers_give_what_the_kernels_give(name, tmp_path):
    """Compare named calls, and others of other sums, steps and outputs."""
    need("gcc")
    call = OTHERS.get(name) or library_call(name)
    run, rng = compiled(call, tmp_path), np.random.default_rng(zlib.crc32(name.encode()))
    assert counted(call, run, rng, 12) == 0


def drawn_call(number):
    """Draw a call that C can say, of any accumulation, steps and output."""
    for place in itertools.count():
        draw = Draw(11, "calls", 1000 * number + place)
        compute, output = any_format(draw), any_format(draw)
        try:
            call = LibraryCall(
                name=f"drawn {number}",
                accumulation=drawn(1000 * number + place),
                epilogue=Epilogue(
                    compute=(compute, any_projection(draw, compute)),
                    output=(output, any_projection(draw, output)),
                    scales=draw.choice(["product", "x_first", "y_first"]),
                    fused_bias=draw.choice([False, True]),
                ),
            )
            call_header(call, "a test")
        except ValueError:
            continue
        return call
    raise AssertionError


@pytest.mark.apart
@pytest.mark.parametrize("number", range(10))
def test_headers_of_drawn_calls_give_what_the_kernels_give(number, tmp_path):
    """Compare whatever can be said, compiled by gcc and by clang in turn."""
    compiler = ("gcc", "clang")[number % 2]
    need(compiler)
    call = drawn_call(number)
    assert counted(call, compiled(call, tmp_path, compiler), np.random.default_rng(number), 6) == 0, call


def test_the_command_writes_a_header(tmp_path):
    """Take what a call takes, and compile what is written as C++ too, with another call beside it."""
    need("g++")
    run = CliRunner().invoke
    spelled = ("ada_cublaslt_fp8(output=e4m3fn)", "hopper_torch_rowwise_fp8")
    for number, name in enumerate(spelled):
        result = run(main, ["export", "c", "--accumulation", name, "-o", str(tmp_path / f"{number}.h")])
        assert (result.exit_code, result.output) == (0, "")
    assert f"lowprec export c --accumulation '{spelled[0]}'" in (tmp_path / "0.h").read_text()
    (tmp_path / "both.cpp").write_text(
        '#include "0.h"\n#include "1.h"\n'
        "int main(void) { return (int)lowprec_ada_cublaslt_fp8_output_e4m3fn_dot(0, 0, 0, 0, 0, 0)\n"
        "    + (int)lowprec_hopper_torch_rowwise_fp8_dot(0, 0, 0, 0, 0, 0); }\n"
    )
    flags = ("-std=c++11", "-Wall", "-Wextra", "-Werror", "-pedantic")
    subprocess.run(["g++", *flags, "-o", tmp_path / "both", tmp_path / "both.cpp"], check=True)
    assert subprocess.run([tmp_path / "both"], check=False).returncode == 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            ["ada_cublaslt_fp8(split=3)"],
            "library call 'ada_cublaslt_fp8(split=3)' cannot be a C header: it has sums that are split",
        ),
        (
            ["ada_cublaslt_fp8", "--scale", "e8m0fnu", "32"],
            "the library call 'ada_cublaslt_fp8' says its operands: leave out --operands and --scale",
        ),
    ],
)
def test_what_c_does_not_say_is_refused_by_name(given, said):
    """Name the call and what it has."""
    result = lowprec("export", "c", "--accumulation", *given)
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (2, f"Error: {said}")


test_what_cannot_be_is_refused = refusal_test(
    globals(),
    """
call_header(LibraryCall(name="mine", accumulation=accumulation("hopper_wgmma_e4m3fn_binary32"),
        epilogue=Epilogue(output=("nf4", Projection(nan="zero")))), "")
    ValueError: library call 'mine' cannot be a C header: convert into 'nf4' has no formula...
""",
)
