"""Damaged files of checkpoints, definitions and captures: each is read, or refused in one line.

`python -m tests.sweep files` runs it. A case is a function of its kind and number: a whole small file that is
changed in its bytes, or whose JSON is changed, and then goes through everything that reads files.
"""

import importlib.util
import io
import json
import random
import re
import resource
import shutil
import struct
import tempfile
import time
import zipfile
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors.numpy import save_file

import lowprec as lp
from lowprec.checkpoints import writing
from lowprec.checkpoints.container import CheckpointError
from lowprec.checkpoints.decoding import check, values_of
from lowprec.checkpoints.folder import INDEX, open_checkpoint
from lowprec.checkpoints.inspecting import inspect
from lowprec.checkpoints.linting import lint
from lowprec.checkpoints.quantizing import FAMILIES, quantize_checkpoint, target
from lowprec.checkpoints.weights import weights_of
from lowprec.verify.capture import script
from lowprec.verify.dumps.files import DumpError, open_dump
from tests.checkpoints.files import ENDINGS, SMALL
from tests.checkpoints.test_integers import columns, rows

#: Kinds of files, and how many cases of each the sweep has.
KINDS = {
    "header": 45_000, "bytes": 25_000, "folder": 12_000, "journal": 12_000, "gguf": 6_000, "onnx": 6_000,
    "torch": 8_000, "toml": 8_000, "capture": 2_000,
}  # fmt: skip
#: Containers of their own, by the families whose files they are.
CONTAINERS = {"gguf": "gguf", "onnx": "onnx", "transformer-engine": "torch"}
#: Cases of a task, and bytes and seconds of the processor that one of them may take.
PART, GROWTH, SECONDS = 1_000, 400 << 20, 20

CAPTURE = Path(__file__).parents[1] / "docs" / "examples" / "capture.npz"

_HOSTILE: tuple[Any, ...] = (
    None, True, -1, 0, 1, 3, 64, 127, 1 << 31, 1 << 53, 1 << 62, 1 << 63, 1 << 70, 0.5, -0.0, 1e308, "", "F4",
    "F6_E2M3", "F8_E8M0", "F32", "U8", "BOOL", "C64", "F3", "weight", "__metadata__", "\ud800", "../x", [],
    {}, [0], [-1, 4], [1 << 62, 1 << 62], [0] * 65, {"a": []}, 10**400, float("inf"), "n" * 300,
    ["re:(a+)+$", "re:(.*.*)*z", "*m*q*"], "a" + ".a" * 20_000 + " = 1", "a = " + "[" * 3_000,
)  # fmt: skip
#: Values in TOML that others are replaced by.
_VALUES = (
    b'"1e99999999"', b'"3*2^-9"', b"3", b"0.5", b"-1", b"9" * 400, b'"nearest_even"', b'"e4m3fn"', b"true",
    b'"x"',
)  # fmt: skip
#: Bytes that are put into others.
_PUT = (
    b"[" * 2000, b"\xff" * 8, b'"', b"}", b"\0", b"e99999999", b".a" * 20_000, b"\n[a.b]\n",
    b"\x09\0\0\0\0\0\0\0" + struct.pack("<Q", 1 << 40),
)  # fmt: skip


class Task(NamedTuple):
    """Cases first to first + PART of a kind."""

    kind: str
    first: int


def tasks(share: int = 1) -> list[Task]:
    """All of them, or one of so many."""
    return [Task(kind, first) for kind, count in KINDS.items() for first in range(0, count // share, PART)]


def seeds() -> dict[str, list[bytes]]:
    """Whole files: every scheme, blocks of `lp.save`, an index, journals, TOML, a capture and the others.

    Without the onnx package there are none of ONNX.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rng = np.random.default_rng(0)
        for shape in ((32, 64), (2, 64, 32)):
            save_file(
                {
                    "m.q.weight": rng.standard_normal(shape).astype(np.float32),
                    "m.k.comfy_quant": np.frombuffer(b'{"format": "nvfp4"}', np.uint8).copy(),
                },
                folder / f"{len(shape)}.safetensors",
            )
        headers = [(folder / "2.safetensors").read_bytes()]
        others: dict[str, list[bytes]] = {kind: [] for kind in CONTAINERS.values()}
        for family, formats in FAMILIES.items():
            if family == "onnx" and importlib.util.find_spec("onnx") is None:
                continue
            made = open_checkpoint(folder / f"{3 if family == 'gpt-oss' else 2}.safetensors")
            kind = CONTAINERS.get(family, "")
            if kind:  # not all have U8
                made = open_checkpoint(_without(folder))
            out = folder / f"out{ENDINGS.get(family, '.safetensors')}"
            for to in formats:
                for nested in (False, True) if family == "bitsandbytes" else (False,):
                    options = SMALL.get((family, to), {})
                    quantize_checkpoint(made, out, target(family, to, nested=nested, **options))
                    (others[kind] if kind else headers).append(out.read_bytes())
        blocks = lp.encode(rng.standard_normal((4, 64)).astype(np.float32), "mxfp4")
        lp.save(folder / "saved.safetensors", {"w": blocks, "b": np.float32([0.5])})
        headers.append((folder / "saved.safetensors").read_bytes())
        integers = [columns("gptq", 3, plus=1, order="act"), columns("awq", 4)]
        for tensors, *_ in (*integers, rows(4, 32, signed=False, order=True), rows(8, -1, packed=False)):
            save_file(tensors, folder / "integers.safetensors")
            headers.append((folder / "integers.safetensors").read_bytes())
    config = {
        "model_type": "x",
        "quantization_config": {
            "quant_method": "compressed-tensors",
            "format": "nvfp4-pack-quantized",
            "ignore": ["re:.*head", "m.k"],
            "config_groups": {"group_0": {"weights": {"strategy": "group", "group_size": 16}}},
            "global_quant_config": {"weight": {"dtype": "fp6_e2m3"}},
            "weight_block_size": [128, 128],
            "scale_fmt": "ue8m0",
        },
    }
    index = {
        "metadata": {"total_size": 3},
        "weight_map": {"m.q.weight": "a.safetensors", "x": "b.safetensors"},
    }
    book = lp.Codebook("mine", [0, 1, 2, 3.5], thresholds=[Fraction(3, 2**1080), 1.25, 2.5])
    specs = (book, lp.BlockFormat(name="b", element=book, scale="e8m0fnu", size=32))
    specs += (
        lp.block_formats["nvfp4"],
        lp.accumulations["ada_mma_binary16_binary16"],
        lp.profiles["torch<2.13"],
    )
    lines = [{"digest": "x"}, *({"done": name, "report": {"sqnr": 3.0}} for name in "abc")]
    return {
        "header": headers,
        "bytes": headers,
        "folder": [json.dumps(part).encode() for part in (config, index)],
        "toml": [lp.to_toml(spec).encode() for spec in specs],
        "capture": [CAPTURE.read_bytes()],
        "journal": ["".join(json.dumps(line) + "\n" for line in lines).encode()],
        **others,
    }


def _without(folder: Path) -> Path:
    out = folder / "plain.safetensors"
    save_file({"m.q.weight": np.linspace(-1, 1, 2048, dtype=np.float32).reshape(32, 64)}, out)
    return out


# -- damage -----------------------------------------------------------------------------------------


def damaged(kind: str, case: int, whole: list[bytes]) -> tuple[bytes, int]:
    """The bytes of a case, and which whole file they were."""
    rng = random.Random(f"{kind} {case}")
    place = rng.randrange(len(whole))
    data = whole[place]
    if kind == "header":
        (length,) = struct.unpack("<Q", data[:8])
        text = json.dumps(_changed(json.loads(data[8 : 8 + length]), rng)).encode("utf-8", "surrogatepass")
        if rng.random() < 0.2:
            text = _flipped(text, rng)
        told = (
            len(text)
            if rng.random() < 0.9
            else rng.choice([0, max(len(text) - 1, 0), len(text) + 9, 1 << 40])
        )
        return struct.pack("<Q", told) + text + data[8 + length :][: rng.choice([None, None, 5])], place
    if kind == "folder" or (kind == "journal" and rng.random() < 0.5):
        lines = data.splitlines() if kind == "journal" else [data]
        chosen = rng.randrange(len(lines))
        lines[chosen] = json.dumps(_changed(json.loads(lines[chosen]), rng)).encode("utf-8", "surrogatepass")
        return b"\n".join(lines), place
    if kind == "toml" and rng.random() < 0.7:
        values = [*re.finditer(rb'[-\d][\w.+-]*|"[^"]*"', data)]
        start, stop = rng.choice(values).span()
        return data[:start] + rng.choice([*_VALUES, data[start:stop]]) + data[stop:], place
    if kind == "capture" and rng.random() < 0.7:
        with zipfile.ZipFile(io.BytesIO(data)) as held:
            members = {name: held.read(name) for name in held.namelist()}
        said = _changed(json.loads(members[script.MANIFEST]), rng)
        members[script.MANIFEST] = json.dumps(said).encode("utf-8", "surrogatepass")
        return script.archive(members), place
    return _flipped(data, rng), place


def _flipped(data: bytes, rng: random.Random) -> bytes:
    """Bytes that are changed, cut, doubled or left out."""
    found = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 8])):
        at = rng.randrange(min(len(found), 4096) or 1)
        match rng.randrange(5):
            case 0:
                found[at : at + 1] = bytes([rng.randrange(256)])
            case 1:
                found[at : at + 1] = bytes([found[at] ^ 1 << rng.randrange(8)]) if found else b""
            case 2:
                del found[at : at + rng.choice([1, 8, 100])]
            case 3:
                found[at:at] = rng.choice([*_PUT, found[at : at + 40]])
            case _:
                del found[rng.randrange(len(found) + 1) :]
    return bytes(found)


def _changed(value: Any, rng: random.Random) -> Any:
    """JSON in which some places hold something else."""
    for _ in range(rng.choice([1, 1, 2, 3])):
        value = _one_changed(value, rng)
    return value


def _one_changed(value: Any, rng: random.Random) -> Any:
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice([*value])
        match rng.randrange(6):
            case 0:
                return {name: part for name, part in value.items() if name != key}
            case 1:
                return {(str(rng.choice(_HOSTILE)) if name == key else name): v for name, v in value.items()}
            case _:
                return {**value, key: _one_changed(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.7:
        at = rng.randrange(len(value))
        return [*value[:at], _one_changed(value[at], rng), *value[at + 1 :]]
    if isinstance(value, str) and value[:1] == "{" and rng.random() < 0.8:  # JSON in metadata
        return json.dumps(_one_changed(json.loads(value), rng))
    if type(value) is int and rng.random() < 0.5:
        return value + rng.choice([-1, 1, 2, 1 << 20])
    return rng.choice(_HOSTILE)


# -- what reads files -------------------------------------------------------------------------------


def outcome(kind: str, case: int, whole: list[bytes], beside: list[bytes], room: Path) -> str:
    """Return "read" or "refused"; anything else is raised."""
    data, place = damaged(kind, case, whole)
    try:
        if kind == "journal":
            (room / ".x.partial").mkdir(exist_ok=True)
            (room / ".x.partial" / ".lowprec-journal").write_bytes(data)
            writing._begun(room / ".x.partial", "x")[0].close()
            shutil.rmtree(room / ".x.partial")
            return "read"
        if kind in ("toml", "capture"):
            path = room / f"x.{'toml' if kind == 'toml' else 'npz'}"
            path.write_bytes(data)
            (lp.load_toml if kind == "toml" else lp.read_capture)(path)
            return "read"
        if kind == "folder":
            (room / "a.safetensors").write_bytes(beside[case % len(beside)])
            (room / ("config.json" if place == 0 else INDEX)).write_bytes(data)
            path = room
        else:
            endings = {kind: ENDINGS[family] for family, kind in CONTAINERS.items()}
            path = room / f"x{endings.get(kind, '.safetensors')}"
            path.write_bytes(data)
        _read(path, load=kind in ("header", "bytes"))
        return "read"
    except (CheckpointError, DumpError):
        return "refused"
    except ValueError:
        if kind != "toml":
            raise
        return "refused"
    finally:
        for left in ("config.json", INDEX, "a.safetensors", "x.safetensors"):
            (room / left).unlink(missing_ok=True)


def _read(path: Path, load: bool) -> None:
    checkpoint = open_checkpoint(path)
    inspect(checkpoint).as_json()
    with np.errstate(all="ignore"):
        lint(checkpoint)
        for weight in weights_of(checkpoint):
            try:
                check(weight)
            except CheckpointError:
                continue
            assert values_of(weight).shape == weight.value_shape
            if ":" not in weight.name and "/" not in weight.name and weight.name:
                open_dump(f"{path}:{weight.name}").read(0, 3)
    if load:
        lp.load(path)


def run(task: Task) -> tuple[Task, dict[str, int], list[str]]:
    """Counts of what became of the task's cases, and those that crashed or took too much memory."""
    whole = seeds()
    counts, wrong = {"read": 0, "refused": 0}, []
    with tempfile.TemporaryDirectory() as name:
        for case in range(task.first, task.first + PART):
            before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
            try:
                counts[outcome(task.kind, case, whole[task.kind], whole["header"], Path(name))] += 1
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                wrong.append(f"{task.kind} {case}: {type(error).__name__}: {str(error)[:200]}")
            if (grown := resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10 > GROWTH:
                wrong.append(f"{task.kind} {case}: {grown >> 10} MiB")
            if (took := time.process_time() - began) > SECONDS:
                wrong.append(f"{task.kind} {case}: {took:.0f} s")
    return task, counts, wrong
