"""Hold accumulations against models and published results: python -m tests.silicon COMMAND.

`mmasim` compares drawn rows with the instructions of the package mmasim; `khattak FILE` compares all dot
products of a file with the arrays of tables/published/khattak_dot_products.npz; `hawkeye FOLDER` compares
products of drawn matrices with the simulators of a checkout of Hawkeye, which its setup.py has built. A line
for each accumulation: its name, the results compared, and how many differ. tables/silicon.toml says what was
found. `ime` draws sums of RISC-V's integrated matrix extension, and tells which `identify` finds.

`rlibm LIBRARY` compares functions with those of The RLIBM Project, compiled in the folder libm of a
checkout by cc -O2 -shared -fPIC -o rlibm.so *.c -lm; `cuda FOLDER...` compares conversions to UE5M3 with
the headers of CUDA 13.5 in these folders, as the packages nvidia-cuda-runtime, nvidia-cuda-crt and
nvidia-cuda-cccl have them.
"""

import argparse
import dataclasses
import pathlib
import re
import sys
import zlib

import numpy as np

import lowprec as lp
from lowprec.arrays.checks import code_dtype
from lowprec.spec.accumulations import ACCUMULATIONS
from lowprec.spec.block import BlockFormat
from lowprec.spec.riscv_ime import FRM, disclosed, riscv_ime
from lowprec.verify.identify.ports import Prepared
from lowprec.verify.identify.probes import TOPICS, draw
from tests.agreement.test_dots import pairs_of_rows
from tests.identify_table import TYPES, as_tensor

#: Machines of accumulations, and whose instructions they are.
MACHINES = {
    "volta_mma": "MMA Volta",
    "turing_mma": "MMA Turing",
    "ampere_mma": "MMA Ampere",
    "ada_mma": "MMA Ada Lovelace",
    "hopper_mma": "MMA Hopper",
    "hopper_wgmma": "WGMMA Hopper",
    "blackwell_mma": "MMA Blackwell",
    "blackwell_tcgen05": "TCGen05MMA Blackwell",
    "rtx_blackwell_mma": "MMA RTX Blackwell",
    "cdna1_mfma": "MFMA CDNA1",
    "cdna2_mfma": "MFMA CDNA2",
    "cdna2_mfma1k": "MFMA CDNA2",
    "cdna3_mfma": "MFMA CDNA3",
}


# -- mmasim -----------------------------------------------------------------------------------------


def instructions():
    """The instructions of mmasim by the accumulation that they are, one of each."""
    from mmasim import amd, nv_ptx
    from mmasim.amd import isa_mfma
    from mmasim.nv_ptx import isa_mma, isa_tcgen05mma, isa_wgmma

    kinds = (
        ("MMA", "MMA", isa_mma.mma_shape_and_type),
        ("MMA", "MMABlockScale", isa_mma.mma_block_scale_shape_and_type),
        ("WGMMA", "WGMMA", isa_wgmma.wgmma_shape_and_type),
        ("TCGen05MMA", "TCGen05MMA", isa_tcgen05mma.tcgen05mma_shape_and_type),
        ("TCGen05MMA", "TCGen05MMABlockScale", isa_tcgen05mma.tcgen05mma_block_scale_shape_and_type),
    )
    made = {}
    for kind, name, shapes in kinds:
        for arch in shapes:
            (machine,) = (ours for ours, theirs in MACHINES.items() if theirs == f"{kind} {arch}")
            for shape in shapes[arch]:
                named = of_nvidia(machine, shape)
                if named in ACCUMULATIONS and named not in made:
                    made[named] = getattr(nv_ptx, name)(arch, shape)
    for arch, suffixes in isa_mfma.arch_mfma_suffix.items():
        for suffix in suffixes:
            named = of_amd(arch, suffix)
            if named in ACCUMULATIONS and named not in made:
                made[named] = amd.MFMA(arch, suffix)
    return made


def of_nvidia(machine, shape):
    """The accumulation of an instruction such as m16n8k32.kind::mxf8f6f4.block32.f32.e4m3.e5m2.f32.ue8m0."""
    size, *words = shape.split(".")
    block = next((int(word[5:]) for word in words if word.startswith("block")), 0)
    output, x, y = [word for word in words if word in TYPES][:3] if "f64" not in words else ("", "", "")
    tail = (
        f"_{'ue4m3' if words[-1] == 'ue4m3' else 'e8m0fnu'}_{int(size.rpartition('k')[2]) // block}"
        if block
        else ""
    )
    return named(machine, x, y, output) + tail


def of_amd(arch, suffix):
    """The accumulation of an instruction: f32_32x32x8bf16_1k, for one."""
    words = re.findall(r"(xf32|bf16|f16|bf8|fp8)(?:_1k)?(?=_|$)", suffix)
    return (
        named(f"{arch.lower()}_mfma{'1k' * suffix.endswith('_1k')}", *(words * 2)[:2], "f32") if words else ""
    )


def named(machine, x, y, output):
    """The name of an accumulation, of mmasim's names of types."""
    types = [TYPES.get(word, word) for word in (x, y, output)]
    return "_".join([machine, *dict.fromkeys(types[:2]), types[2]])


def of_mmasim(name, operation, count):
    """How many of drawn rows differ. AMD's NaNs are left out: they are the host's, and some are lost."""
    import torch

    how, rng = ACCUMULATIONS[name], np.random.default_rng(zlib.crc32(name.encode()))
    codes = [
        each.astype(code_dtype(fmt))
        for each, fmt in zip(pairs_of_rows(how.operands, count, operation.k, rng), how.operands, strict=True)
    ]
    kind = code_dtype(how.output[0])
    c = np.where(rng.random(count) < 0.2, 0, rng.normal(size=count) * 2.0 ** rng.integers(-12, 12, count))
    added = torch.from_numpy(c.astype(np.float32 if kind == np.uint32 else np.float16)).to(operation.c_type)
    values = [lp.decode(each, fmt) for each, fmt in zip(codes, how.operands, strict=True)]
    sides, scales = values, []
    if how.scale is not None:
        scale, size = how.scale
        ends = (0, scale.max_magnitude + 1) if scale.name == "ue4m3" else (117, 137)
        scales = [rng.integers(*ends, (count, operation.k // size)).astype(np.uint8) for _ in codes]
        sides = [
            lp.BlockArray(each, words, BlockFormat(name="m", element=fmt, scale=scale, size=size), (1,))
            for each, words, fmt in zip(codes, scales, how.operands, strict=True)
        ]
    theirs = operation.dpa(
        *(
            as_bytes(each) if getattr(operation, "packing", 1) == 2 else as_tensor(value, fmt.name, dtype)
            for each, value, fmt, dtype in zip(
                codes, values, how.operands, (operation.a_type, operation.b_type), strict=True
            )
        ),
        added,
        *(torch.from_numpy(each).view(operation.s_type) for each in scales),
    ).numpy()
    ours = lp.dot(*sides, how, addend=added.float().numpy(), dtype=kind)
    differ = (theirs.view(kind) != ours) & ~(np.isnan(ours.view(theirs.dtype)) & ("mfma" in name))
    return int(np.count_nonzero(differ))


def as_bytes(codes):
    """Pairs of four-bit codes, the first in the upper half of a byte."""
    import torch

    return torch.from_numpy(codes[:, ::2] << 4 | codes[:, 1::2])


# -- all published dot products ------------------------------------------------------------------------


def of_khattak(path):
    """Yield the machine, the accumulation, and how many results there are and differ."""
    from tests.agreement.test_published_dots import FORMATS, measured

    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    for name in sorted(each for each in arrays if ".d_" in each):
        machine, operands, output = name.split(".")
        x, y, c = (arrays[f"{machine}.{operands}.{part}"] for part in "abc")
        how = measured(name)
        values = [
            each.view("f4") if operands == "tf32" else lp.decode(each, FORMATS[operands]) for each in (x, y)
        ]
        addend = np.zeros(len(c), "f4") if "wgmma" in how.name else c.view("f4")
        got = lp.dot(*values, how, addend=addend, dtype="u4" if output == "d_fp32" else "u2")
        yield machine, how.name, got.size, int(np.count_nonzero(got != arrays[name]))


# -- Hawkeye ---------------------------------------------------------------------------------------------

#: Simulators, and torch's names of what they multiply. K is 32: one step of FP8, two or four of others.
SIMULATORS = {
    "ampere_mma_binary16_binary32": ("Ampere_simulator", "float16"),
    "ampere_mma_bfloat16_binary32": ("Ampere_simulator", "bfloat16"),
    "hopper_mma_binary16_binary32": ("Hopper_simulator", "float16"),
    "hopper_mma_bfloat16_binary32": ("Hopper_simulator", "bfloat16"),
    "hopper_wgmma_e4m3fn_binary32": ("Hopper_fp8_simulator", "float8_e4m3fn"),
}


def of_hawkeye(folder, count):
    """Yield each accumulation, and how many results of rows by columns there are and differ.

    Operands are numbers, of any code but for infinities and NaNs, half of them of few exponents, so that sums
    cancel; those of bfloat16 are between 2**-60 and 2**60, for the simulators know no overflow.
    """
    sys.path.insert(0, folder)
    import torch
    from gpu_simulator_py import Ampere_simulator, Hopper_fp8_simulator, Hopper_simulator

    made = {each.__name__: each() for each in (Ampere_simulator, Hopper_fp8_simulator, Hopper_simulator)}
    side = int(count**0.5)
    for name, (simulator, dtype) in SIMULATORS.items():
        how, rng = ACCUMULATIONS[name], np.random.default_rng(zlib.crc32(name.encode()))
        fmt = how.operands[0]
        low, high = (67 << 7, 187 << 7) if fmt.name == "bfloat16" else (0, fmt.max_magnitude + 1)
        near = int(np.asarray(lp.encode(1.0, fmt)))
        sides = []
        for _ in range(2):
            codes = rng.integers(low, high, (side, 32))
            few = near + rng.integers(-(3 << fmt.trailing_bits), 3 << fmt.trailing_bits, codes.shape)
            codes = np.where(rng.random((side, 1)) < 0.5, few, codes)
            codes |= rng.integers(0, 2, codes.shape) * fmt.sign_code
            codes[rng.random(codes.shape) < 0.05] = 0
            sides.append(np.asarray(lp.decode(codes.astype(code_dtype(fmt)), fmt)))
        x, y = (as_tensor(values, fmt.name, getattr(torch, dtype)) for values in sides)
        theirs = made[simulator].matmul(x, y if "fp8" in simulator else y.T).numpy()
        ours = lp.matmul(sides[0], sides[1].T, how, dtype=np.uint32)
        yield name, theirs.size, int(np.count_nonzero(theirs.view(np.uint32) != ours))


# -- RLIBM --------------------------------------------------------------------------------------------

#: Functions of RLIBM. A result is a double, which rounds rightly to binary32 and narrower in five modes.
RLIBM = (
    *("exp", "exp2", "exp10", "log", "log2", "log10", "sinh", "cosh", "sinpi", "cospi"),
    *("sin", "cos", "tan", "asin", "acos", "atan"),
)
FIVE = ("nearest_even", "nearest_away", "toward_zero", "toward_positive", "toward_negative")


def of_rlibm(library, count):
    """Yield each function, and how many results in three formats and five modes there are and differ.

    Operands are drawn: any numbers of binary32, and as many between 2**-24 and 2**8.
    """
    import ctypes

    loaded = ctypes.CDLL(library)
    for name in RLIBM:
        theirs = getattr(loaded, f"rlibm_{name}f")
        theirs.restype, theirs.argtypes = ctypes.c_double, [ctypes.c_float]
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        usual = np.ldexp(rng.uniform(1, 2, count // 2), rng.integers(-24, 8, count // 2))
        any_number = rng.integers(0, 0x7F800000, count - count // 2).astype(np.uint32).view(np.float32)
        x = np.concatenate([any_number, usual]).astype(np.float32) * rng.choice([-1, 1], count).astype("f4")
        y = np.array([theirs(each) for each in x.tolist()])
        yield name, *rounded_alike(name, x, y)


def rounded_alike(name, x, y):
    """Return how many roundings of y there are, and how many are not the function's of x; any NaN will do."""
    differ = 0
    for fmt in ("binary32", "tf32", "bfloat16"):
        for mode in FIVE:
            ours = getattr(lp, name)(x, fmt, rounding=mode, dtype=np.float64)
            want = lp.quantize(y, fmt, rounding=mode)
            same = (ours == want) & (np.signbit(ours) == np.signbit(want)) | np.isnan(ours) & np.isnan(want)
            differ += int(np.count_nonzero(~same))
    return 15 * x.size, differ


# -- CUDA's headers -----------------------------------------------------------------------------------

_UE5M3 = """
#include <cuda_fp8.h>
extern "C" void ue5m3(const float *x, unsigned char *codes, size_t count, int saturates, int mode) {
    for (size_t i = 0; i < count; ++i)
        codes[i] = __nv_cvt_float_to_ue5m3(
            x[i], saturates ? __NV_SATFINITE : __NV_NOSAT, (cudaRoundMode)mode);
}
"""


def of_cuda(folders):
    """Yield each profile and mode, and how many conversions to UE5M3 there are and differ."""
    import ctypes
    import subprocess
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        (source := pathlib.Path(folder, "ue5m3.cpp")).write_text(_UE5M3)
        library = source.with_suffix(".so")
        paths = [word for each in folders for word in ("-I", each)]
        subprocess.run(["g++", "-O2", "-shared", "-fPIC", *paths, source, "-o", library], check=True)
        convert = ctypes.CDLL(str(library)).ue5m3
    rng, upper = np.random.default_rng(0), np.arange(1 << 16, dtype=np.uint32) << 16
    near = rng.integers(0x36800000, 0x48000000, 2_000_000).astype(np.uint32)
    x = np.concatenate([np.arange(0, 1 << 32, 1009).astype(np.uint32), near, upper, upper + 1, upper - 1])
    x, codes = x.view(np.float32), np.empty(x.size, np.uint8)
    for profile, saturates in (("cuda_nosat", 0), ("cuda_satfinite", 1)):
        rule = lp.profiles[profile].projection(lp.format("ue5m3"))
        for mode, rounding in enumerate(("nearest_even", "toward_zero", "away_from_zero")):
            convert(
                *(ctypes.c_void_p(each.ctypes.data) for each in (x, codes)),
                ctypes.c_size_t(x.size),
                saturates,
                mode,
            )
            ours = lp.encode(x, "ue5m3", projection=dataclasses.replace(rule, rounding=rounding))
            yield f"{profile} ue5m3, {rounding}", x.size, int(np.count_nonzero(codes != ours))


# -- RISC-V's integrated matrix extension ---------------------------------------------------------------


def of_ime(seed, machines):
    """Yield the name of each drawn sum, the rows asked, what is found, and how many new rows differ."""
    rng = np.random.default_rng(seed)
    kinds = [(*pair, "binary32") for pair in (("e4m3fn", "e4m3fn"), ("e5m2", "e4m3fn"), ("binary16",) * 2)]
    kinds += [("e5m2", "e5m2", "binary16"), ("e4m3fn", "e4m3fn", "bfloat16")]
    for _ in range(machines):
        x, y, output = kinds[rng.integers(len(kinds))]
        psm = int(rng.integers(2)) if output == "binary32" else 0
        rnd = ("frm", "rto", "xct")[rng.integers(3 - psm)]
        products, frm = 1 << int(rng.integers(1, 5)), list(FRM)[rng.integers(len(FRM))]
        how = riscv_ime((lp.format(x), lp.format(y)), lp.format(output), products, rnd, psm=psm, frm=frm)
        found = lp.identify(lambda a, b, c, how=how: lp.dot(a, b, how, addend=c), (x, y), output, k=32)
        ports = found.answers.ports
        fresh = [Prepared(draw(ports, topic, 200, rng), ports) for topic in TOPICS]
        differ = sum(np.count_nonzero(rows.codes(how) != rows.codes(found.accumulation)) for rows in fresh)
        yield how.name, found.asked, disclosed(found.accumulation), int(differ)


def main(arguments=None):
    """Print a line for each accumulation; 1 where any differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.silicon")
    commands = parser.add_subparsers(dest="command", required=True)
    model = commands.add_parser("mmasim")
    model.add_argument("--rows", type=int, default=10_000)
    model.add_argument("--only", default="", help="the beginning of a name")
    commands.add_parser("khattak").add_argument("file")
    simulators = commands.add_parser("hawkeye")
    simulators.add_argument("folder")
    simulators.add_argument("--results", type=int, default=1_000_000)
    functions = commands.add_parser("rlibm")
    functions.add_argument("library")
    functions.add_argument("--operands", type=int, default=10_000)
    commands.add_parser("cuda").add_argument("folders", nargs="+")
    extension = commands.add_parser("ime")
    extension.add_argument("--seed", type=int, default=0)
    extension.add_argument("--machines", type=int, default=20)
    options, wrong = parser.parse_args(arguments), 0
    if options.command == "ime":
        for name, asked, found, differ in of_ime(options.seed, options.machines):
            print(f"{name}: {asked:,} asked; {found}; {differ:,} of new rows differ", flush=True)
            wrong += differ + (found is None)
        return int(wrong > 0)
    if options.command in ("hawkeye", "rlibm", "cuda"):
        if options.command == "cuda":
            compared = of_cuda(options.folders)
        elif options.command == "hawkeye":
            compared = of_hawkeye(options.folder, options.results)
        else:
            compared = of_rlibm(options.library, options.operands)
        for name, count, differ in compared:
            print(f"{name}: {count:,} compared, {differ:,} differ", flush=True)
            wrong += differ
        return int(wrong > 0)
    if options.command == "khattak":
        for machine, name, count, differ in of_khattak(options.file):
            print(f"{machine} {name}: {count:,} compared, {differ:,} differ")
            wrong += differ
        return int(wrong > 0)
    for name, operation in instructions().items():
        if name.startswith(options.only):
            differ = of_mmasim(name, operation, options.rows)
            print(f"{name}: {options.rows:,} compared, {differ:,} differ", flush=True)
            wrong += differ
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
