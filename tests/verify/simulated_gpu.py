"""A GPU of NVIDIA, simulated: the instructions that capture scripts ask for, as [PTX] describes them.

Where elements lie in registers is written once more here, thread by thread as the tables of [PTX] mma and cvt
have it; the arithmetic is lowprec's own.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import re
import sys
import types

import numpy as np

import lowprec as lp

MODES = {"rn": "nearest_even", "rna": "nearest_away", "rz": "toward_zero", "rp": "away_from_zero"}
#: Accumulations by compute capability, as names of the catalog begin.
CORES = {
    (8, 0): "ampere_mma",
    (8, 9): "ada_mma",
    (9, 0): "hopper_mma",
    (10, 0): "blackwell_mma",
    (12, 0): "rtx_blackwell_mma",
}
FORMATS = {
    "f16": "binary16",
    "bf16": "bfloat16",
    "tf32": "tf32",
    "e4m3": "e4m3fn",
    "e5m2": "e5m2",
    "f32": "binary32",
}
CVT = {
    "e4m3": "e4m3fn",
    "e5m2": "e5m2",
    "e2m3": "e2m3fn",
    "e3m2": "e3m2fn",
    "e2m1": "e2m1fn",
    "ue8m0": "e8m0fnu",
}
CVT |= {"f16": "binary16", "bf16": "bfloat16", "tf32": "tf32"}


def a_place(thread, i, wide):
    """Row and column of element i of matrix a, which has `wide` bits: mma.m16n8k16, k32 and k8 of [PTX]."""
    group, inside = thread >> 2, thread % 4
    if wide == 16:
        row = group if 0 <= i < 2 or 4 <= i < 6 else group + 8
        return row, inside * 2 + (i & 1) + (8 if i >= 4 else 0)
    if wide == 8:
        row = group if 0 <= i < 4 or 8 <= i < 12 else group + 8
        return row, inside * 4 + (i & 3) + (16 if i >= 8 else 0)
    return (group if i in (0, 2) else group + 8), (inside if i in (0, 1) else inside + 4)


def b_place(thread, i, wide):
    """Row and column of element i of matrix b."""
    group, inside = thread >> 2, thread % 4
    if wide == 16:
        return inside * 2 + (i & 1) + (8 if i >= 2 else 0), group
    if wide == 8:
        return inside * 4 + (i & 3) + (16 if i >= 4 else 0), group
    return (inside if i == 0 else inside + 4), group


def c_place(thread, i):
    """Row and column of element i of matrices c and d."""
    return (thread >> 2) + (0 if i < 2 else 8), (thread % 4) * 2 + (i & 1)


def matrices(words, wide, place, shape, count):
    """Matrices (n, rows, columns) of codes, from the registers of 32 threads."""
    held = np.ascontiguousarray(words).view(f"u{wide // 8}").reshape(-1, 32, count)
    made = np.zeros((len(held), *shape), held.dtype)
    for thread in range(32):
        for i in range(count):
            row, column = place(thread, i)
            made[:, row, column] = held[:, thread, i]
    return made


class Device:
    """A simulated GPU, with what goes wrong in it."""

    def __init__(self, capability, *, how=lambda how: how, packs=lambda codes: codes):
        self.capability, self.how, self.packs = capability, how, packs

    def launched(self, script):
        """The function of a script that runs kernels."""

        def run(device, source, least, grid, given, size):
            if list(self.capability) < least:
                raise script.Missing(f"it needs compute capability {least[0]}.{least[1]}")
            text = re.search(r'asm(?: volatile)?\("(.*?)"', source)[1]
            given = [np.ascontiguousarray(part).reshape(-1).view(np.uint32) for part in given]
            assert grid[1] == 32
            words = (self.mma(text, *given) if text.startswith("mma") else self.cvt(text, *given)).view(
                np.uint32
            )
            assert words.size == size
            return words

        return run

    def cvt(self, text, x, random):
        """Each thread's d: the first operand in the highest bits."""
        mode, finite, kind, inputs = re.search(
            r"cvt\.(\w+)(\.satfinite)?\.(\w+?)(?:x(\d))?\.f32", text
        ).groups()
        count, fmt = int(inputs or 1), lp.format(CVT[kind])
        values, more = x.view(np.float32), {}
        if mode == "rs":
            nan = {} if fmt.has_nan else {"nan": "max"}
            bits = 13 if fmt.width == 16 and kind == "f16" else 16
            # How e2m1x4 shares its word is not published: each lane has the upper half of the first words.
            plain = kind == "e2m1"
            more["random"] = np.resize(random >> np.uint32(16), x.size) if plain else random
            projection = lp.Projection(rounding=lp.stochastic(bits, "A" if plain else "ptx_rs"), **nan)
        else:
            projection = lp.profiles["ptx_cvt"].projection(fmt) if finite else lp.Projection()
            projection = dataclasses.replace(projection, rounding=MODES[mode])
        if finite:
            projection = dataclasses.replace(projection, saturation="finite")
        codes = np.asarray(lp.encode(values, fmt, projection=projection, **more)).astype(np.uint32)
        if kind == "tf32":  # the upper bits of a number of binary32
            return codes << np.uint32(13)
        groups = self.packs(codes.reshape(-1, count))
        wide = 8 if fmt.width == 6 else fmt.width
        d = np.zeros(len(groups), np.uint32)
        for place in range(count):
            d |= groups[:, place] << np.uint32(wide * (count - 1 - place))
        return d

    def mma(self, text, a, b, c):
        """Each thread's registers of d."""
        k, to, x, y = re.match(
            r"mma\.sync\.aligned\.m16n8k(\d+)\.row\.col\.(\w+)\.(\w+)\.(\w+)\.", text
        ).groups()
        length, (x, y, to) = int(k), (FORMATS[each] for each in (x, y, to))
        wide = {8: 32, 16: 16, 32: 8}[length]
        left = matrices(a, wide, lambda thread, i: a_place(thread, i, wide), (16, length), 4 * 32 // wide)
        right = matrices(b, wide, lambda thread, i: b_place(thread, i, wide), (length, 8), 2 * 32 // wide)
        out = 16 if to == "binary16" else 32
        addend = matrices(c, out, c_place, (16, 8), 4)
        if x == "tf32":
            left, right = left >> np.uint32(13), right >> np.uint32(13)
        name = "_".join([CORES[self.capability], x, *([y] if y != x else []), to])
        if name not in lp.accumulations:  # mma.sync of FP8 on Hopper, which no name describes
            name = name.replace("mma", "wgmma")
        values = [
            lp.decode(part, fmt, dtype=np.float64) for part, fmt in ((left, x), (right, y), (addend, to))
        ]
        how = self.how(lp.accumulations[name])
        d = np.asarray(lp.matmul(values[0], values[1], how, addend=values[2], dtype=addend.dtype))
        held = np.zeros((len(d), 32, 4), d.dtype)
        for thread in range(32):
            for i in range(4):
                held[:, thread, i] = d[(slice(None), *c_place(thread, i))]
        return held.reshape(-1)


def run(text, folder, device, monkeypatch, *, out=None):
    """Run a written script with a simulated GPU in place of torch; return the file that it wrote."""
    torch = types.ModuleType("torch")
    torch.__version__ = "2.13.0"
    torch.version = types.SimpleNamespace(cuda="13.0", hip=None)
    major, minor = device.capability
    properties = types.SimpleNamespace(name="Simulated GPU", major=major, minor=minor)
    torch.cuda = types.SimpleNamespace(
        is_available=lambda: True, current_device=lambda: 0, get_device_properties=lambda number: properties
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    path = folder / "capture.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("captured_script", path)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    script.launched = device.launched(script)
    out = folder / "capture.npz" if out is None else out
    arrays, (facts, words) = script.operands(), script.machine("cuda")

    def ask(number):
        return script.answered("cuda", script.QUESTIONS[number], arrays)[:2]

    script.capture(str(out), facts, words, arrays, ask)
    return out
