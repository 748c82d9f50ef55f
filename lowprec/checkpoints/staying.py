"""Tensors that another checkpoint takes as they are, or as plain numbers: checks that it is read so."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lowprec.checkpoints.container import TAGS, CheckpointError, Entry
from lowprec.checkpoints.folder import Checkpoint
from lowprec.checkpoints.onnx_reading import Graph
from lowprec.checkpoints.saved import blocks_in, joined
from lowprec.checkpoints.schemes import SAVED
from lowprec.checkpoints.torchao import attributes
from lowprec.checkpoints.weights import Weight, weights_of
from lowprec.checkpoints.writing import Task

__all__ = ["with_staying"]


def with_staying(
    made: Mapping[str, str],
    config: Mapping[str, Any],
    out: Path,
    checkpoint: Checkpoint,
    weights: Sequence[tuple[Weight, Task | None]],
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

    Raises
    ------
    CheckpointError
        A weight that would be read otherwise, without the source's configuration or in another file, or a
        plain tensor that would be read as a quantised weight, by the names of those beside it.
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
    metadata = joined([told, made], where)
    written = replace(checkpoint, path=out, metadata=metadata, headers={}, config=config)
    if out.suffix != ".onnx":
        written = replace(written, entries=_entries(weights, out), graph=Graph())
    then = weights_of(written)
    read = {weight.codes.name: _read(weight) for weight in then}
    for weight in kept:
        if read.get(weight.codes.name) != _read(weight):
            raise CheckpointError(
                f"weight {weight.name!r} would stay as it is, in {weight.scheme.name}, and nothing would say "
                f"so in {out.name!r}; convert it too, or dequantise it first"
            )
    plain = written.entries.keys() - {weight.codes.name for weight in staying if weight.is_quantized}
    for weight in then if out.suffix != ".onnx" else ():  # where nodes alone say what is quantised
        if weight.is_quantized and weight.codes.name in plain:
            name, beside = weight.codes.name, [part.name for part in weight.parts[1:]]
            is_copy = any(name == each.codes.name for each in staying)
            way = "" if is_copy else f", or leave the weight out with --exclude {name.replace('[', '[[]')!r}"
            raise CheckpointError(
                f"tensor {name!r} would be read as {weight.scheme.name} in {out.name!r}, with "
                f"{' and '.join(map(repr, beside)) or 'nothing'} beside it; rename one of these{way}"
            )
    return metadata


def _entries(weights: Sequence[tuple[Weight, Task | None]], out: Path) -> dict[str, Entry]:
    """Return the tensors that are copied, and those that are written as plain numbers."""
    found: dict[str, Entry] = {}
    for weight, task in weights:
        if task is None:
            found |= {part.name: part for part in weight.parts}
        elif len(task.plan) == 1 and task.plan[0][1] in TAGS:
            name, tag, shape = task.plan[0]
            found[name] = Entry(name, tag, shape, out, 0, 0)
    return found


def _read(weight: Weight) -> tuple[object, ...]:
    """Return all that the values of a weight depend on, besides the bytes of its parts."""
    scheme = weight.scheme
    how = scheme.packing, scheme.divides, scheme.transposed, scheme.padded, weight.element, weight.scale
    parts = weight.scales, weight.tensor, weight.zeros
    return (*how, *parts, weight.sizes, weight.swizzled, weight.over, weight.problem)
