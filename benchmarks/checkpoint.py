"""Quantising a checkpoint file, beside torchao's eager functions and beside what the file system allows.

python -m benchmarks.checkpoint [--megabytes 512] [--to nvfp4 ...] [--rounds 3] [--folder PLACE]

A file of bfloat16 weights is read, quantised and written whole, to the disk. The file system's limit is to
read the same bytes and to write as many as the output has, synced. All take turns; medians are reported. The
last column counts bytes of the output that torchao has otherwise.
"""

from __future__ import annotations

import importlib
import logging
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import ml_dtypes
import numpy as np
from rich.table import Table

from lowprec.checkpoints.containers.safetensors_writing import SafetensorsWriter
from lowprec.checkpoints.folder import open_checkpoint
from lowprec.checkpoints.quantizing import quantize_checkpoint
from lowprec.checkpoints.targets import target
from lowprec.export import cards

__all__ = ["main", "measure"]

#: Rows and columns of a weight: 32 MiB in bfloat16.
_SHAPE = (4096, 4096)
_PIECE = 1 << 24
_TYPES = {"mxfp4": "float4_e2m1fn_x2", "mxfp8_e4m3": "float8_e4m3fn"}


def measure(to: str, megabytes: int, rounds: int, folder: Path) -> dict[str, float]:
    """Return the median seconds of each contender, and as `differ` the bytes that torchao has otherwise."""
    source, out = folder / "source.safetensors", folder / "out.safetensors"
    _write_source(source, max(megabytes >> 5, 1))
    how = target("torchao", to)

    def ours() -> None:
        quantize_checkpoint(open_checkpoint(source), out, how)

    contenders: dict[str, Callable[[], None]] = {"lowprec": ours}
    ours()  # compiled, and there is a size to write
    size = out.stat().st_size
    contenders["file system"] = lambda: _moved(source, folder / "moved", size)
    theirs = _torchao(source, folder / "theirs.safetensors", to)
    if theirs is not None:
        theirs()
        contenders["torchao"] = theirs
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, work in contenders.items():
            began = time.perf_counter()
            work()
            seconds[name].append(time.perf_counter() - began)
    found = {name: statistics.median(each) for name, each in seconds.items()}
    return found | ({"differ": _differing(out, folder / "theirs.safetensors")} if theirs is not None else {})


def _write_source(path: Path, weights: int) -> None:
    values = np.random.default_rng(0).standard_normal(_SHAPE, np.float32) * np.float32(0.02)
    plan = [(f"model.layers.{place}.weight", "BF16", _SHAPE) for place in range(weights)]
    with SafetensorsWriter(path.open("w+b"), plan, {}) as writer:
        for place, (name, _, _) in enumerate(plan):
            writer.write(name, np.roll(values, place).astype(ml_dtypes.bfloat16))
        writer.sync()


def _moved(source: Path, out: Path, size: int) -> None:
    with source.open("rb", buffering=0) as file:
        buffer = bytearray(_PIECE)
        while file.readinto(buffer):
            pass
    with out.open("wb") as file:
        for start in range(0, size, _PIECE):
            file.write(memoryview(buffer)[: min(_PIECE, size - start)])
        file.flush()
        os.fsync(file.fileno())


def _torchao(source: Path, out: Path, to: str) -> Callable[[], None] | None:
    """Return the same by torchao's functions and the safetensors library, if both are there."""
    logging.disable(logging.WARNING)  # it tells of extensions that it does without
    try:
        torch = importlib.import_module("torch")
        load = importlib.import_module("safetensors").safe_open
        save = importlib.import_module("safetensors.torch").save_file
        tensors = importlib.import_module("torchao.prototype.mx_formats.mx_tensor")
        nvfp4 = importlib.import_module("torchao.prototype.mx_formats.nvfp4_tensor")
    except ImportError:
        return None
    finally:
        logging.disable(logging.NOTSET)

    def parts(weight: Any) -> dict[str, Any]:
        if to == "nvfp4":
            number = nvfp4.per_tensor_amax_to_scale(weight.abs().max())
            scales, codes = nvfp4.nvfp4_quantize(weight, 16, number)
            return {"qdata": codes, "scale": scales, "per_tensor_scale": number}
        scales, codes = tensors.to_mx(weight, getattr(torch, _TYPES[to]), 32)
        return {"qdata": codes, "scale": scales}

    def quantize() -> None:
        made: dict[str, Any] = {}
        with load(source, "pt") as file:
            for name in file.keys():
                stem = name.removesuffix("weight")
                for part, tensor in parts(file.get_tensor(name).float()).items():
                    made[f"{stem}_weight_{part}"] = (
                        tensor.view(torch.uint8) if part != "per_tensor_scale" else tensor
                    )
        save(made, out)
        with out.open("rb") as written:
            os.fsync(written.fileno())

    return quantize


def _differing(ours: Path, theirs: Path) -> int:
    """Return how many bytes of tensors differ."""
    both, count = [open_checkpoint(path).entries for path in (ours, theirs)], 0
    for name, entry in both[1].items():
        mine, other = (np.asarray(each.read()).reshape(-1).view(np.uint8) for each in (both[0][name], entry))
        count += int(np.count_nonzero(mine != other))
    return count


@click.command(help=(__doc__ or "").split("\n\n")[0])
@click.option("--megabytes", default=512, show_default=True, type=click.IntRange(32))
@click.option(
    "--to", multiple=True, default=("nvfp4", "mxfp4", "mxfp8_e4m3"), type=click.Choice([*_TYPES, "nvfp4"])
)
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(1))
@click.option(
    "--folder", type=click.Path(path_type=Path, file_okay=False, exists=True), help="Default: temporary."
)
def main(megabytes: int, to: tuple[str, ...], rounds: int, folder: Path | None) -> None:
    """Print a row for each format."""
    table = Table(title=f"{megabytes} MiB of bfloat16 to a file of another format")
    names = ("lowprec", "torchao", "file system")
    for column in (
        "to",
        *(f"{name} MB/s" for name in names),
        "torchao / lowprec",
        "lowprec / file system",
        "differ",
    ):
        table.add_column(column, justify="left" if column == "to" else "right")
    for name in to:
        with tempfile.TemporaryDirectory(dir=folder) as place:
            found = measure(name, megabytes, rounds, Path(place))
        speeds = [f"{megabytes * 1.048576 / found[each]:,.0f}" if each in found else "-" for each in names]
        beside = f"{found['torchao'] / found['lowprec']:.2f}" if "torchao" in found else "-"
        differ = f"{found['differ']:,.0f}" if "differ" in found else "-"
        table.add_row(name, *speeds, beside, f"{found['lowprec'] / found['file system']:.2f}", differ)
    cards.show(table)


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.checkpoint")
