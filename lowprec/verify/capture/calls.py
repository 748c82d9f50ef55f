"""Captures: calls of torch, instructions of NVIDIA's GPUs, operands and expected results; scripts to ask."""

from __future__ import annotations

import base64
import fnmatch
import functools
import pprint
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec import __version__
from lowprec.arrays.checks import code_dtype
from lowprec.arrays.convert import encode
from lowprec.spec import catalog
from lowprec.spec.accumulation import Accumulation
from lowprec.spec.accumulations import ACCUMULATIONS
from lowprec.spec.naming import Catalog, by_name, close_names, plain
from lowprec.verify.capture import script
from lowprec.verify.capture.script import TYPES
from lowprec.verify.inputs.conversions import inputs, sample
from lowprec.verify.inputs.dot_shape import shape_of, values_of
from lowprec.verify.inputs.dots import dots

__all__ = ["CAPTURES", "CaptureQuestion", "chosen", "written"]

Array = npt.NDArray[Any]

#: The words of a script for each machine whose accumulations have names; of library calls, the names there.
_MACHINES = {
    "volta_mma": ("sm_70",),
    "turing_mma": ("sm_75",),
    "ampere_mma": ("sm_80", "sm_86", "sm_87"),
    "ada_mma": ("sm_89",),
    "hopper_mma": ("sm_90",),
    "blackwell_mma": ("sm_100", "sm_103"),
    "rtx_blackwell_mma": ("sm_120", "sm_121"),
    "cdna1_mfma": ("gfx908",),
    "cdna3_mfma": ("gfx942",),
}
_LIBRARY = {"hopper_mma": "hopper_wgmma", "blackwell_mma": "blackwell_tcgen05"}
_LIBRARY_CALLS = ("ada", "hopper", "blackwell")
#: Machines without the instructions of PTX that are asked for.
_WITHOUT = ("volta_mma", "turing_mma", "cdna1_mfma", "cdna3_mfma")

#: Names of formats in PTX.
_PTX = {
    "binary32": "f32",
    "binary16": "f16",
    "bfloat16": "bf16",
    "tf32": "tf32",
    "e4m3fn": "e4m3",
    "e5m2": "e5m2",
}

#: K of library calls, and of parts of them that are aimed at.
_LONG, _PART = 256, 64


@dataclass(frozen=True)
class CaptureQuestion:
    """A computation that a script can request of a machine."""

    name: str
    call: str  #: the function of the script that asks
    words: str
    sources: tuple[str, ...]
    target: str
    expects: list[dict[str, Any]]  #: each with the words in `when` of the machines that it is for
    draw: Callable[[int, int], dict[str, Array]]  #: operands, of a count and a seed
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def operation(self) -> str:
        """The operation, as `lowprec.compare` names it."""
        return "convert" if self.call in ("cast", "cvt") else "dot"

    @property
    def run_on(self) -> str:
        """Machines on which this project has run the computation, in words."""
        if self.call in ("cvt", "mma"):
            return "compiled, not yet run on a device"
        return "not yet run on a device" if "tf32" in self.settings else "CPUs"

    def record(self, operands: dict[str, str]) -> dict[str, Any]:
        """Return the question as a script has it, with the names of its arrays of operands."""
        said = {"name": self.name, "call": self.call, "operation": self.operation}
        return {
            **said, "from": list(self.sources), "to": self.target, "with": self.settings,
            "operands": operands, "expects": self.expects,
        }  # fmt: skip


# -- conversions ------------------------------------------------------------------------------------


def _inputs(target: str, count: int, seed: int) -> dict[str, Array]:
    """Return what matters for a format in binary32, and random numbers; as many as make whole groups of 4."""
    fmt = catalog.format(target)
    chosen = [inputs(fmt, "float32", sparse=fmt.width > 8), sample("float32", count, seed)]
    codes = np.concatenate(chosen).view(np.uint32)
    return {"x": np.resize(codes, -(-codes.size // 4) * 4)}


def _all(source: str, count: int, seed: int) -> dict[str, Array]:
    fmt = catalog.format(source)
    return {"x": np.arange(1 << fmt.width, dtype=code_dtype(fmt))}


def _with_random(target: str, inputs: int, count: int, seed: int) -> dict[str, Array]:
    """Return operands, and a random word for each group of them: any, and sometimes all zeros or ones."""
    given = _inputs(target, count, seed)
    size = given["x"].size // inputs
    words = np.random.default_rng(seed).integers(0, 1 << 32, size, dtype=np.uint32)
    words[::16], words[8::16] = 0, 0xFFFFFFFF
    return {**given, "random": words}


def _casts() -> Iterator[CaptureQuestion]:
    wide = ("binary32", "binary16", "bfloat16")
    for source in TYPES:
        for target in TYPES if source in wide else ("binary32",):
            if source == target:
                continue
            # NaNs of the wide types keep payloads, or depend on the place in the array.
            nan = {"nan": "any"} if target in wide else {}
            drawn, of = (_inputs, target) if source == "binary32" else (_all, source)
            yield CaptureQuestion(
                f"cast_{source}_{target}", "cast", f"Tensor.to, {TYPES[source]} to {TYPES[target]}",
                (source,), target,
                [{"when": [version], "profile": version, **nan} for version in ("torch>=2.13", "torch<2.13")],
                functools.partial(drawn, of),
            )  # fmt: skip


def _conversions() -> Iterator[CaptureQuestion]:
    """Yield PTX's cvt. Source: [PTX] cvt."""
    finite = {"profile": "ptx_cvt"}
    cut = {"rounding": "toward_zero", "saturation": "finite", "negative": "drop_sign", "zero": "smallest"}

    def tf32(mode: str) -> dict[str, Any]:
        return {"projection": {"rounding": mode}, "results": "binary32", "nan": "any"}

    def stochastic(bits: int, **more: str) -> dict[str, Any]:
        return {"projection": {"rounding": f"stochastic({bits}, ptx_rs)", **more}, "nan": "any"}

    # Inputs of an instruction, bits of the register of its result, the least compute capability.
    table: list[tuple[str, str, int, int, list[int], dict[str, Any] | None]] = [
        ("rn.satfinite.e4m3x2.f32", "e4m3fn", 2, 16, [8, 9], finite),
        ("rn.satfinite.e5m2x2.f32", "e5m2", 2, 16, [8, 9], finite),
        ("rn.satfinite.e2m3x2.f32", "e2m3fn", 2, 16, [10, 0], finite),
        ("rn.satfinite.e3m2x2.f32", "e3m2fn", 2, 16, [10, 0], finite),
        ("rn.satfinite.e2m1x2.f32", "e2m1fn", 2, 8, [10, 0], finite),
        ("rp.satfinite.ue8m0x2.f32", "e8m0fnu", 2, 16, [10, 0], finite),
        ("rz.satfinite.ue8m0x2.f32", "e8m0fnu", 2, 16, [10, 0], {"projection": cut}),
        ("rna.tf32.f32", "tf32", 1, 32, [8, 0], tf32("nearest_away")),
        ("rn.tf32.f32", "tf32", 1, 32, [9, 0], tf32("nearest_even")),
        ("rz.tf32.f32", "tf32", 1, 32, [9, 0], tf32("toward_zero")),
        ("rs.satfinite.e4m3x4.f32", "e4m3fn", 4, 32, [10, 0], stochastic(16, saturation="finite")),
        ("rs.satfinite.e5m2x4.f32", "e5m2", 4, 32, [10, 0], stochastic(16, saturation="finite")),
        ("rs.satfinite.e2m3x4.f32", "e2m3fn", 4, 32, [10, 0], stochastic(16, saturation="finite", nan="max")),
        ("rs.satfinite.e3m2x4.f32", "e3m2fn", 4, 32, [10, 0], stochastic(16, saturation="finite", nan="max")),
        ("rs.f16x2.f32", "binary16", 2, 32, [10, 0], stochastic(13)),
        ("rs.bf16x2.f32", "bfloat16", 2, 32, [10, 0], stochastic(16)),
        ("rs.satfinite.e2m1x4.f32", "e2m1fn", 4, 16, [10, 0], None),  # its lanes' bits are not published
    ]
    for text, target, count, register, least, expected in table:
        random, kind = text.startswith("rs."), f"u{max(register // count // 8, 1)}"
        settings = {"instruction": f"cvt.{text}", "inputs": count, "register": register, "kind": kind}
        yield CaptureQuestion(
            f"cvt_{text.replace('.', '_')}", "cvt", f"PTX cvt.{text}", ("binary32",), target,
            [] if expected is None else [{"when": ["any"], **expected}],
            functools.partial(_with_random, target, count) if random else functools.partial(_inputs, target),
            {**settings, "capability": least},
        )  # fmt: skip


# -- sums of products -------------------------------------------------------------------------------


def _machines(x: str, y: str, output: str, *, library: bool = False) -> list[tuple[str, tuple[str, ...]]]:
    """Return the accumulations of such products that have names, and the words of their machines."""
    found = []
    for machine, words in _MACHINES.items():
        first = _LIBRARY.get(machine, machine) if library else machine
        name = _name(first, x, y, output)
        if name in ACCUMULATIONS and (library or machine not in _WITHOUT):
            found.append((name, words))
    return found


def _name(first: str, x: str, y: str, *more: str) -> str:
    return "_".join([first, x, *([y] if y != x else []), *more])


def _rows(
    hows: tuple[Accumulation, ...], pair: tuple[str, str], k: int, count: int, seed: int
) -> list[Array]:
    """Return x, y and the addends as values: rows that are aimed at each of these units, evenly."""
    formats, random = (catalog.format(pair[0]), catalog.format(pair[1])), np.random.default_rng([seed, k])
    parts: list[list[Array]] = [[], [], []]
    for place, how in enumerate(hows):
        shape = shape_of(how, None if how.operands else formats, k)
        cases = dots(shape, count, seed)
        size = len(range(place, count, len(hows)))
        rows = np.sort(random.permutation(len(cases.x))[:size])
        for part, codes, fmt in zip(
            parts, (cases.x, cases.y, cases.addend), (*shape.formats, shape.addend), strict=True
        ):
            part.append(values_of(codes[rows], fmt))
    return [np.concatenate(part) for part in parts]


def _codes(values: Array, name: str) -> Array:
    return np.asarray(encode(values, name))


def _unit(
    hows: tuple[Accumulation, ...], pair: tuple[str, str], output: str, k: int, count: int, seed: int
) -> dict[str, Array]:
    x, y, addend = _rows(hows, pair, k, count, seed)
    return {"x": _codes(x, pair[0]), "y": _codes(y, pair[1]), "addend": _codes(addend, output)}


def _long(
    hows: tuple[Accumulation, ...], pair: tuple[str, str], k: int, finite: bool, count: int, seed: int
) -> dict[str, Array]:
    """Return operands of a library call: rows of aimed parts, some of them zeros, and of normal numbers."""
    parts, size = k // _PART, max(16, count * 32 // k // 16 * 16)
    x, y, _ = _rows(hows, pair, _PART, 2 * size * parts, seed)
    if finite:  # where the order of a sum is open, so is whether it overflows on the way
        with np.errstate(all="ignore"):
            within = np.sum(np.abs(x * y), axis=1) < 2.0**120
        x, y = x[within], y[within]
    x, y = (np.resize(side, (size, parts, _PART)) for side in (x, y))
    random = np.random.default_rng(seed)
    x = np.where(random.random((size, parts, 1)) < (1 if parts == 1 else 0.5), x, 0.0)
    for side in (x, y):  # every other row is of numbers as there are many, which tell orders apart
        side[::2] = random.standard_normal((-(-size // 2), parts, _PART))
    return {"x": _codes(x.reshape(size, k), pair[0]), "y": _codes(y.reshape(size, k), pair[1])}


def _matrix_instructions() -> Iterator[CaptureQuestion]:
    """Yield PTX's mma.sync. Source: [PTX] mma."""
    eights = [("e4m3fn", "e4m3fn"), ("e5m2", "e5m2"), ("e4m3fn", "e5m2")]
    table = [(8, "tf32", "tf32", "binary32"), (16, "bfloat16", "bfloat16", "binary32")]
    table += [(16, "binary16", "binary16", output) for output in ("binary32", "binary16")]
    table += [(32, *pair, output) for pair in eights for output in ("binary32", "binary16")]
    for k, x, y, output in table:
        known, to = _machines(x, y, output), _PTX[output]
        text = f"mma.sync.aligned.m16n8k{k}.row.col.{to}.{_PTX[x]}.{_PTX[y]}.{to}"
        yield CaptureQuestion(
            _name(f"mma_m16n8k{k}", x, y, output), "mma", f"PTX {text}", (x, y), output,
            [{"when": list(words), "accumulation": name} for name, words in known],
            functools.partial(_unit, tuple(ACCUMULATIONS[name] for name, _ in known), (x, y), output, k),
            {"instruction": text, "capability": [8, 9] if k == 32 else [8, 0]},
        )  # fmt: skip


def _products() -> Iterator[CaptureQuestion]:
    """Yield products of matrices by torch."""
    plain = ACCUMULATIONS["fp32_fma"]
    for name in ("binary16", "bfloat16"):
        known = _machines(name, name, "binary32", library=True)
        expects: list[dict[str, Any]] = [
            {"when": list(words), "accumulation": how, "output": name, "nan": "any"}
            for how, words in known
            if not ACCUMULATIONS[how].machine  # whose results are of binary32 alone
        ]
        hows = (plain, ACCUMULATIONS[f"hopper_wgmma_{name}_binary32"])
        yield CaptureQuestion(
            f"matmul_{name}", "matmul", f"torch.matmul, {TYPES[name]}", (name, name), name, expects,
            functools.partial(_long, hows, (name, name), _PART, False),
        )  # fmt: skip
    pair = ("binary32", "binary32")
    any_order = [{"when": ["any"], "accumulation": "fp32_fma", "ulps": "auto", "nan": "any"}]
    draw = functools.partial(_long, (plain,), pair, _PART, True)
    yield CaptureQuestion(
        "matmul_binary32", "matmul", "torch.matmul, float32", pair, "binary32", any_order, draw
    )
    known = _machines("tf32", "tf32", "binary32", library=True)
    expects = [{"when": list(words), "accumulation": how} for how, words in known]
    words, settings = "torch.matmul, float32, with allow_tf32", {"tf32": True}
    yield CaptureQuestion("matmul_binary32_tf32", "matmul", words, pair, "binary32", expects, draw, settings)
    for x, y, fast in (
        ("e4m3fn", "e4m3fn", True),
        ("e4m3fn", "e4m3fn", False),
        ("e5m2", "e4m3fn", True),
        ("e4m3fnuz", "e4m3fnuz", False),
    ):
        known = _machines(x, y, "binary32", library=True)
        hows = (ACCUMULATIONS[known[-1][0]], plain)
        call = f"_cublaslt_fp8(formats={x}:{y}, output=binary32, fast={str(fast).lower()})"
        known = [  # where a name says which kernel the library takes, that
            (name.split("_")[0] + call if name.startswith(_LIBRARY_CALLS) else name, words)
            for name, words in known
        ]
        expects = [{"when": list(words), "accumulation": how} for how, words in known]
        yield CaptureQuestion(
            _name("scaled_mm", x, y, *["fast"] * fast), "scaled_mm",
            f"torch._scaled_mm, {TYPES[x]} and {TYPES[y]}, use_fast_accum={fast}", (x, y), "binary32",
            expects, functools.partial(_long, hows, (x, y), _LONG, False), {"fast": fast},
        )  # fmt: skip


#: What can be captured, by name.
CAPTURES: Mapping[str, CaptureQuestion] = Catalog(
    "captures", by_name([*_casts(), *_products(), *_conversions(), *_matrix_instructions()])
)


# -- scripts: script.py and asking.py of this folder, with questions and operands in them ----------


def chosen(names: Sequence[str]) -> list[CaptureQuestion]:
    """Return the questions of these names, or of patterns such as cast_*; without names all.

    >>> [question.name for question in chosen(["matmul_b*16"])]
    ['matmul_binary16', 'matmul_bfloat16']

    Raises ValueError: a name or pattern of none.
    """
    for name in names:
        if not fnmatch.filter(CAPTURES, name):
            near = close_names(name, CAPTURES)
            hint = f"did you mean {' or '.join(near)}?" if near else "`lowprec capture --list` lists all"
            raise ValueError(f"nothing to capture is called {name!r}; {hint}")
    return [
        question
        for name, question in CAPTURES.items()
        if not names or any(fnmatch.fnmatchcase(name, pattern) for pattern in names)
    ]


def written(questions: Sequence[CaptureQuestion], count: int, seed: int, command: str) -> str:
    """Return a script that asks these questions.

    >>> text = written(chosen(["cast_e4m3fn_binary32"]), 16, 0, "lowprec capture")
    >>> "torch.from_numpy" in text, "import lowprec" in text
    (True, False)

    Parameters
    ----------
    questions : sequence of CaptureQuestion
    count : int
        Random operands of each conversion, and rows of each dot product up to K = 32; fewer of longer ones.
    seed : int
        Of the operands that are drawn.
    command : str
        How the script was asked for, in words.
    """
    arrays: dict[str, npt.NDArray[Any]] = {
        f"all_{bits}_bits": np.arange(1 << bits, dtype=f"u{bits // 8}") for bits in (8, 16)
    }
    generated = list(arrays)
    names = {script.digest(array): name for name, array in arrays.items()}
    records, used = [], {}
    for question in questions:
        given = {}
        for operand, array in question.draw(count, seed).items():
            given[operand] = names.setdefault(script.digest(array), f"{question.name}_{operand}")
            arrays[given[operand]] = array
            used[given[operand]] = script.digest(array)
        records.append(question.record(given))
    held = {f"{name}.npy": script.npy(arrays[name]) for name in used if name not in generated}
    coded = base64.b64encode(script.archive(held)).decode()
    said = {"lowprec": __version__, "command": command}
    values = {
        "SCRIPT: dict[str, str] = {}": f"SCRIPT: dict[str, str] = {said}",
        "QUESTIONS: list[dict[str, Any]] = []": f"QUESTIONS: list[dict[str, Any]] = {_literal(records)}",
        "ARRAYS: dict[str, str] = {}": f"ARRAYS: dict[str, str] = {_literal(used)}",
        'OPERANDS = ""': f'OPERANDS = """\n{textwrap.fill(coded, 100)}\n"""',
    }
    text = _whole()
    for line, value in values.items():
        before, after = text.split(f"\n{line}\n")
        text = f"{before}\n{value}\n{after}"
    return f"# Written by lowprec {__version__}: {plain(command)}\n{text}"


def _whole() -> str:
    """Return script.py with asking.py behind it, as one program."""
    first, second = (
        Path(__file__).with_name(name).read_text(encoding="utf-8") for name in ("script.py", "asking.py")
    )
    imports = "\n".join(sorted(set(re.findall(r"^import \w+$", first + second, re.M))))
    first = re.sub(r"^import \w+\n(?:import \w+\n)*", f"{imports}\n", first, count=1, flags=re.M)
    return (
        f'{first}\n\n# -- asking{second.split("# -- asking")[1]}\n\nif __name__ == "__main__":\n    main()\n'
    )


def _literal(value: Any) -> str:
    return pprint.pformat(value, width=108, sort_dicts=False)
