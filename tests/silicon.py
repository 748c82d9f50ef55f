"""Hold accumulations against models and published results: python -m tests.silicon {mmasim,khattak FILE}.

`mmasim` compares drawn rows with the instructions of the package mmasim; `khattak` compares all dot
products of a file with the arrays of tables/published/khattak_dot_products.npz. A line for each accumulation:
its name, the results compared, and how many differ. tables/silicon.toml says what was found.
"""

from __future__ import annotations

import argparse
import re
import sys
import zlib

import numpy as np

import lowprec as lp
from lowprec.arrays.checks import code_dtype
from lowprec.spec.accumulations import ACCUMULATIONS
from lowprec.spec.block import BlockFormat
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


def main(arguments=None):
    """Print a line for each accumulation; 1 where any differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.silicon")
    commands = parser.add_subparsers(dest="command", required=True)
    model = commands.add_parser("mmasim")
    model.add_argument("--rows", type=int, default=10_000)
    model.add_argument("--only", default="", help="the beginning of a name")
    commands.add_parser("khattak").add_argument("file")
    options, wrong = parser.parse_args(arguments), 0
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
