"""Headers of accumulations, compiled as C99, against the kernels: any K, addends, scales and specials."""

import ctypes
import dataclasses
import itertools
import re
import subprocess
import zlib

import numpy as np
import pytest
from click.testing import CliRunner

import lowprec as lp
from lowprec.arrays.checks import code_dtype
from lowprec.cli.main import main
from lowprec.export.c.c_accumulation import accumulation_header, unsaid
from lowprec.export.c.c_header import identifier
from lowprec.spec import catalog
from lowprec.spec.accumulation import Accumulation, Window
from lowprec.spec.accumulations import ACCUMULATIONS, accumulation
from lowprec.spec.block import BlockFormat
from lowprec.spec.formats import find
from lowprec.spec.order import Split, chunked
from lowprec.spec.projection import Projection
from lowprec.spec.rounding import stochastic
from tests.agreement.test_dots import pairs_of_rows
from tests.fuzz.drawing import Draw
from tests.fuzz.specifications import any_accumulation, any_format
from tests.programs import need

FLAGS = ("-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic", "-shared", "-fPIC")


def compiled(how, folder, compiler="gcc", scale=None):
    """Return the header's matmul as a function of arrays."""
    name, source = f"lowprec_{identifier(how.name)}", folder / f"{identifier(how.name)}.c"
    given = [
        "const void *x",
        "const void *y",
        *(["const void *a", "const void *b"] if how.scale or scale else []),
    ]
    given += ["size_t m", "size_t n", "size_t k", "const void *c", "void *out"]
    head, names = f"void run({', '.join(given)})", ", ".join(each.split()[-1].strip("*") for each in given)
    source.with_suffix(".h").write_text(accumulation_header(how, "a test", scale))
    source.write_text(f'#include "{source.stem}.h"\n{head};\n{head}\n{{ {name}_matmul({names}); }}\n')
    library = folder / f"{identifier(how.name)}.{compiler}.so"
    subprocess.run([compiler, *FLAGS, "-o", library, source], check=True)
    return ctypes.CDLL(str(library)).run


def in_blocks(codes, scales, elements, fmt, size):
    """Return rows of codes and of their scales, of x and of columns of y, as blocks along K."""
    return [
        lp.BlockArray(each if axis else each.T, words if axis else words.T,
                      BlockFormat(name="m", element=element, scale=fmt, size=size), (axis,))
        for axis, each, words, element in zip((1, 0), codes, scales, elements, strict=True)
    ]  # fmt: skip


def differing(how, run, count, length, rng, scale=None):
    """Count results of products of matrices that are not the kernels', with and without addends."""
    x, y = pairs_of_rows(how.operands, count, length, rng)
    codes = [
        (each & (1 << fmt.width) - 1).astype(code_dtype(fmt))
        for each, fmt in zip((x, y), how.operands, strict=True)
    ]
    kind, begin = code_dtype(how.output[0]), beginning(how)
    scales, sides = [], [lp.decode(each, fmt) for each, fmt in zip(codes, how.operands, strict=True)]
    if how.operands[0].name == "tf32":
        codes = [each.view(np.uint32) for each in sides]
        codes[0][:] |= rng.integers(0, 1 << 13, codes[0].shape, np.uint32) * (codes[0] << 1 < 0xFF000000)
        codes[0].flat[:1] = 0x7F800001  # NaN by a bit that is not read
    if how.scale is not None or scale is not None:
        fmt, size = how.scale or scale
        ends = (0, fmt.max_magnitude + 2) if fmt.name == "ue4m3" else (117, 137)
        scales = [rng.integers(*ends, (count, -(-length // size))).astype(np.uint8) for _ in codes]
        scales[0][:1, :1] = fmt.max_magnitude + 1  # NaN
        sides = in_blocks(codes, scales, how.operands, fmt, size)
    else:
        sides[1] = sides[1].T
    added = rng.integers(0, (1 << begin.width) - 1, (count, count), np.uint64, endpoint=True)
    added = added.astype(code_dtype(begin))
    ordinary = rng.normal(size=added.flat[::3].size)
    added.flat[::3] = ordinary.view(np.uint64) if begin.width == 64 else lp.encode(ordinary, begin)
    starts = added.view(np.float64) if begin.width == 64 else lp.decode(added, begin)
    wrong = 0
    for addend in (None, added):
        want = lp.matmul(*sides, how, addend=None if addend is None else starts, dtype=kind)
        out = np.zeros((count, count), kind)
        pointers = [each.ctypes.data_as(ctypes.c_void_p) for each in (*codes, *scales)]
        sizes = [ctypes.c_size_t(each) for each in (count, count, length)]
        given = ctypes.c_void_p() if addend is None else addend.ctypes.data_as(ctypes.c_void_p)
        run(*pointers, *sizes, given, out.ctypes.data_as(ctypes.c_void_p))
        wrong += int(np.count_nonzero(out != want))
    return wrong


def beginning(how):
    """Return the format of addends."""
    if how.total is not None:
        return how.total[0]
    if how.accumulator is None:
        return how.output[0]
    return how.output[0] if isinstance(how.accumulator, Window) else how.accumulator[0]


SAID = [name for name, how in ACCUMULATIONS.items() if not unsaid(how)]
PLAIN = {
    name: dataclasses.replace(accumulation(name), operands=catalog.E4M3FN, name=f"{name} of FP8")
    for name in (
        "fp32_sequential",
        "fp32_fma",
        "fp32_pairwise",
        "fp16_sequential",
        "bf16_sequential",
        "fp64_sequential",
    )
}
OTHERS = {
    "chunks": Accumulation(
        name="chunks",
        operands=("e5m2", "bfloat16"),
        product=("binary16", "toward_positive"),
        accumulator=("bfloat16", "to_odd"),
        order=chunked(5, "pairwise"),
        total=("binary32", "toward_negative"),
        addend="last",
        output="binary16",
    ),
    "pairs": dataclasses.replace(
        accumulation("hopper_mma_e4m3fn_binary16"),
        name="pairs",
        accumulator=dataclasses.replace(
            accumulation("hopper_mma_e4m3fn_binary16").accumulator, cut="to_odd", negative_zero=True
        ),
    ),
    "tf32": Accumulation(  # whose codes are no registers where sums are kept in it
        name="tf32", operands=("e5m2", "e4m3fn"), accumulator=("tf32", "toward_positive"), output="binary32"
    ),
    "flushed": dataclasses.replace(
        PLAIN["fp32_fma"],
        name="flushed",
        accumulator=("bfloat16", Projection(subnormals="flush_results", tininess="before")),
    ),
    "exact": dataclasses.replace(accumulation("exact"), operands=("e5m2", "bfloat16"), name="exact"),
    "exact, down": Accumulation(
        name="exact, down",
        operands=("binary32", "binary32"),
        order="exact",
        output=("binary16", "toward_negative"),
    ),
    "terms": Accumulation(  # of 66 bits, into a sum that cancels
        name="terms",
        operands=("e5m2", "e5m2"),
        term=5,
        accumulator=("binary32", "toward_negative"),
        output="binary32",
    ),
    "rounded terms": Accumulation(
        name="rounded terms",
        operands=("e4m3fn", "e5m2"),
        term=3,
        product=("bfloat16", "toward_zero"),
        accumulator="binary32",
        order=chunked(2),
        output="binary32",
    ),
    "floor": Accumulation(
        name="floor",
        operands=("e5m2fnuz", "e3m2fn"),
        accumulator=Window(step=6, fraction_bits=9, result="e5m2", lowest_exponent=-9, cut="floor"),
        output="e5m2",
        addend="last",
    ),
}


#: Of the catalog some run each time, and all with `-m long`.
USUAL = (
    *("hopper_wgmma_e4m3fn_binary32", "rtx_blackwell_mma_e2m1fn_binary32_ue4m3_4"),
    *("cdna3_mfma_e4m3fnuz_binary32", "arm_bfdot_bfloat16_binary32"),
    *("chunks", "tf32", "exact", "terms", "rounded terms"),
)
APART = [*PLAIN, *OTHERS, *SAID[::5]]


def marked(name):
    marks = [] if name in USUAL else [pytest.mark.apart] if name in APART else [pytest.mark.long]
    return pytest.param(name, marks=marks)


@pytest.mark.parametrize("name", [marked(name) for name in dict.fromkeys([*SAID, *PLAIN, *OTHERS])])
def test_headers_give_what_the_kernels_give(name, tmp_path):
    """Compare each named accumulation that C can say, and others."""
    need("gcc")
    how = {**PLAIN, **OTHERS}.get(name) or accumulation(name)
    run, rng = compiled(how, tmp_path), np.random.default_rng(zlib.crc32(name.encode()))
    for length in (0, 1, 7, 65, 200):
        assert differing(how, run, 24, length, rng) == 0, length


#: Operands in blocks for accumulations that say no scales of their own.
BLOCKED = {
    "ace_top4mx_e4m3fn_e5m2_binary32": ("e8m0fnu", 32),
    "arm_fmmla_e5m2_binary32": ("e8m0fnu", 32),
    "exact": ("ue4m3", 16),
    "fp32_fma": ("ue4m3", 8),
    "rounded terms": ("e8m0fnu", 12),
}


@pytest.mark.parametrize(
    "name", ["exact", *(pytest.param(name, marks=pytest.mark.apart) for name in BLOCKED if name != "exact")]
)
def test_headers_of_blocks_give_what_the_kernels_give(name, tmp_path):
    """Compare sums of terms, each the exact sum of products times the scales of their block."""
    need("gcc")
    how, (fmt, size) = {**PLAIN, **OTHERS}.get(name) or accumulation(name), BLOCKED[name]
    scale = (find(fmt), size)
    run, rng = compiled(how, tmp_path, scale=scale), np.random.default_rng(zlib.crc32(name.encode()))
    for length in (0, 1, 7, 65, 200):
        assert differing(how, run, 24, length, rng, scale) == 0, length


def drawn(number):
    """Draw an accumulation that C can say, of any formats, modes, saturations, orders and windows."""
    for place in itertools.count():
        draw = Draw(7, "headers", 1000 * number + place)
        how = any_accumulation(draw)
        if how.operands is None and how.scale is None:
            how = dataclasses.replace(
                how, operands=(any_format(draw, widest=16), any_format(draw, widest=16))
            )
        if how.scale is None and not unsaid(how):
            return dataclasses.replace(how, name=f"drawn {number}")
    raise AssertionError


@pytest.mark.apart
@pytest.mark.parametrize("number", [*range(12), 98])  # 98: no products, and a negative NaN as addend
def test_headers_of_drawn_accumulations_give_what_the_kernels_give(number, tmp_path):
    """Compare whatever `unsaid` lets through, compiled by gcc and by clang in turn."""
    compiler = ("gcc", "clang")[number % 2]
    need(compiler)
    how, rng = drawn(number), np.random.default_rng(number)
    run = compiled(how, tmp_path, compiler)
    for length in (0, 1, 7, 65):
        assert differing(how, run, 16, length, rng) == 0, (how, length)


def test_a_bit_of_alignment_more_is_seen(tmp_path):
    """Plant a header of another window: agreement means something."""
    need("gcc")
    how = accumulation("hopper_wgmma_e4m3fn_binary32")
    wider = dataclasses.replace(how, accumulator=dataclasses.replace(how.accumulator, fraction_bits=14))
    assert differing(how, compiled(wider, tmp_path), 24, 65, np.random.default_rng(0)) > 0


def test_several_headers_go_into_one_program(tmp_path):
    """Include two headers, which have what all have alike behind one guard."""
    need("gcc")
    names = ("volta_mma_binary16_binary16", "rtx_blackwell_mma_e4m3fn_binary32_e8m0fnu_1")
    text = "\n".join(accumulation_header(accumulation(name), "a test") for name in names)
    (tmp_path / "both.c").write_text(f"{text}\nint main(void) {{ return 0; }}\n")
    flags = [flag for flag in FLAGS if flag not in ("-shared", "-fPIC")]
    subprocess.run(["gcc", *flags, "-o", tmp_path / "both", tmp_path / "both.c"], check=True)
    assert text.count("lowprec_number lowprec_read(uint64_t code") == 2
    assert text.count("#ifndef LOWPREC_SUMS") == 2


REFUSED = {
    "fp32_fma": (accumulation("fp32_fma"), "operands of any format; give it operands"),
    "split": (
        dataclasses.replace(PLAIN["fp32_fma"], name="split", split=Split(2)),
        "sums that are split",
    ),
    "books": (
        Accumulation(name="books", operands=("nf4", "e4m3fn"), accumulator="binary32", output="binary32"),
        "codebooks",
    ),
    "random": (
        Accumulation(
            name="random", operands="e5m2", accumulator=("binary16", stochastic(8)), output="binary16"
        ),
        "the projection (stochastic(8, A), saturation none) to binary16",
    ),
    "pairs": (
        Accumulation(
            name="pairs", operands="e5m2", term=4, order="pairwise", accumulator="binary32", output="binary32"
        ),
        "terms that are exact sums of 4 products, in pairs",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_c_does_not_say_is_refused_by_name(name):
    """Name the accumulation and what it has."""
    how, why = REFUSED[name]
    with pytest.raises(
        ValueError, match=f"^accumulation {name!r} cannot be a C header: it has {re.escape(why)}$"
    ):
        accumulation_header(how, "")


def test_the_command_writes_a_header(tmp_path):
    """Take a name, and operands where the accumulation has none."""
    run = CliRunner().invoke
    path = tmp_path / "fma.h"
    result = run(
        main, ["export", "c", "--accumulation", "fp32_fma", "--operands", "e4m3fn", "e5m2", "-o", str(path)]
    )
    assert (result.exit_code, result.output) == (0, "")
    assert path.read_text().startswith("#ifndef LOWPREC_SUMS\n")
    assert "lowprec export c --accumulation fp32_fma --operands e4m3fn e5m2" in path.read_text()
    result = run(main, ["export", "c", "--accumulation", "exact"])
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (
        2,
        "Error: accumulation 'exact' cannot be a C header: it has operands of any format; give it operands",
    )
