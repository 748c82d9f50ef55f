"""Tensors that another checkpoint takes as they are, or as plain numbers: checks that it is read so."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lowprec.checkpoints.container import TYPES, CheckpointError, Entry, HeldEntry
from lowprec.checkpoints.containers.onnx_reading import Graph
from lowprec.checkpoints.containers.saved import blocks_in, joined
from lowprec.checkpoints.folder import Checkpoint
from lowprec.checkpoints.patterns import exactly
from lowprec.checkpoints.schemes.scheme import Scheme
from lowprec.checkpoints.schemes.schemes import PLAIN, SAVED
from lowprec.checkpoints.schemes.torchao import attributes
from lowprec.checkpoints.weights import Weight, weights_of
from lowprec.checkpoints.writing import SINGLE, Task

__all__ = ["with_staying"]


def with_staying(
    made: Mapping[str, str],
    config: Mapping[str, Any],
    out: Path,
    checkpoint: Checkpoint,
    weights: Sequence[tuple[Weight, Task | None]],
    tasks: Sequence[Task],
    scheme: Scheme = PLAIN,
) -> dict[str, str]:
    """Return metadata with what those of the source say of weights that stay as they are.

    Parameters
    ----------
    made : mapping of str to str
        The metadata of what is written.
    config : mapping
        Its quantisation config; empty where it has none.
    out : Path
        Where it is written: in ONNX models nodes alone say what is quantised.
    checkpoint : Checkpoint
        The source.
    weights : sequence of (Weight, Task or None)
        Its weights; those without a task stay as they are.
    tasks : sequence of Task
        All that is written, copies too.
    scheme : Scheme
        What the config of a folder says of its weights.

    Raises
    ------
    CheckpointError
        A weight that would be read otherwise, without the source's configuration or in another file, or by
        the names of tensors beside it, such as a plain tensor that would be read as a quantised weight.
    """
    staying = [weight for weight, task in weights if task is None]
    kept = [weight for weight in staying if weight.is_quantized and weight.problem is None]
    names, where = {weight.codes.name for weight in kept}, repr(str(checkpoint.path))
    told = {
        weight.name: checkpoint.metadata[weight.name]
        for weight in kept
        if weight.scheme.family == "torchao" and attributes(checkpoint.metadata, weight.name)
    }
    if any(weight.scheme.family == SAVED.family for weight in kept):
        blocks = blocks_in(checkpoint.metadata, where)
        told["lowprec"] = json.dumps({"blocks": {name: blocks[name] for name in blocks if name in names}})
    if (config or checkpoint.config) and out.suffix not in SINGLE:
        _check_others(kept, told, out, scheme if config else PLAIN)
    metadata = joined([told, made], where)
    written = replace(checkpoint, path=out, metadata=metadata, headers={}, config=config)
    if out.suffix != ".onnx":
        written = replace(written, entries=_entries(weights, tasks, out), graph=Graph())
    then = weights_of(written)
    read = {weight.codes.name: _read(weight) for weight in then}
    for weight in kept:
        if read.get(weight.codes.name) != _read(weight):
            raise CheckpointError(
                f"weight {weight.name!r} would stay as it is, in {weight.scheme.name}, and nothing would say "
                f"so in {out.name!r}; convert it too, or dequantise it first"
            )
    quantized = {weight.codes.name for weight in staying if weight.is_quantized}
    quantized.update(name for _, task in weights if task and task.plan[1:] for name, _, _ in task.plan)
    plain = written.entries.keys() - quantized
    for weight in then if out.suffix != ".onnx" else ():  # where nodes alone say what is quantised
        if weight.is_quantized and weight.codes.name in plain:
            name, beside = weight.codes.name, [part.name for part in weight.parts[1:]]
            is_copy = any(name == each.codes.name for each in staying)
            way = "" if is_copy else f", or leave the weight out with --exclude {exactly(name)!r}"
            raise CheckpointError(
                f"tensor {name!r} would be read as {weight.scheme.name} in {out.name!r}, with "
                f"{' and '.join(map(repr, beside)) or 'nothing'} beside it; rename one of these{way}"
            )
    if out.suffix not in (".gguf", ".onnx"):  # whose types and nodes say what belongs together
        _check_made(weights, then, out)
    return metadata


def _check_others(kept: Sequence[Weight], told: Mapping[str, str], out: Path, scheme: Scheme) -> None:
    """Refuse weights in another scheme than a folder's config says, unless metadata tell of them."""
    for weight in kept:
        if weight.scheme != scheme and weight.name not in told and weight.scheme.family != SAVED.family:
            says = "nothing" if scheme == PLAIN else f"{scheme.name} alone"
            raise CheckpointError(
                f"weight {weight.name!r} would stay as it is, in {weight.scheme.name}, and config.json of "
                f"{out.name!r} would say {says}: software that goes by it would read codes as values; "
                f"convert it too, dequantise it first, or write one file, such as '{out.name}.safetensors'"
            )


def _check_made(weights: Sequence[tuple[Weight, Task | None]], then: Sequence[Weight], out: Path) -> None:
    """Refuse a weight that would not be read as it is written, or not at all, by what is beside it."""
    of = {part.name: weight for weight in then for part in weight.parts}
    for weight, task in weights:
        names = [weight.codes.name] if task is None else [name for name, _, _ in task.plan]
        made = {of[name].codes.name: of[name] for name in names if name in of}
        found = next((made[name] for name in names if name in made), None)
        if task is None and (weight.problem is not None or found is None):  # as before, or part of another
            continue
        if found is not None and found.problem is None and len(made) == 1:
            if task is None or found.name == weight.name or of.get(found.name, found) is found:
                continue
            made[found.name] = of[found.name]
        others = sorted({part.name for each in made.values() for part in each.parts} - {*names})
        beside = " and ".join(map(repr, others))
        why = (
            found.problem[1]
            if found is not None and found.problem
            else f"{beside} would be a part of it or have its name"
        )
        way = f"rename {beside}" if beside else "quantise or dequantise it too"
        way += "" if task is None else f", or leave it out with --exclude {exactly(weight.name)!r}"
        raise CheckpointError(
            f"weight {weight.name!r} would not be read in {out.name!r} as it is written: {why}; {way}"
        )


def _entries(
    weights: Sequence[tuple[Weight, Task | None]], tasks: Sequence[Task], out: Path
) -> dict[str, Entry]:
    """Return the tensors that are copied, and those that are written, as far as headers tell of them."""
    found = {part.name: part for weight, task in weights if task is None for part in weight.parts}
    for task in (task for _, task in weights if task is not None):
        for name, tag, shape in task.plan if task.plan[0][1] in TYPES else ():  # not GGUF's blocks
            held = np.frombuffer(task.held.get(name, b""), np.uint8)
            found[name] = HeldEntry(name, tag, shape, out, 0, held.size, held)
    return {name: found[name] for task in tasks for name, _, _ in task.plan if name in found}


def _read(weight: Weight) -> tuple[object, ...]:
    """Return all that the values of a weight depend on, besides the bytes of its parts."""
    scheme = weight.scheme
    how = scheme.packing, scheme.divides, scheme.transposed, scheme.padded, weight.element, weight.scale
    parts = weight.scales, weight.tensor, weight.zeros
    return (*how, *parts, weight.sizes, weight.swizzled, weight.over, weight.problem)
