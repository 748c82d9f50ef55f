"""Quantised weights that another checkpoint takes as they are: what the source says of them goes along."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from lowprec.checkpoints.container import CheckpointError
from lowprec.checkpoints.folder import Checkpoint
from lowprec.checkpoints.saved import blocks_in, joined
from lowprec.checkpoints.schemes import SAVED
from lowprec.checkpoints.torchao import attributes
from lowprec.checkpoints.weights import Weight, weights_of

__all__ = ["with_staying"]


def with_staying(
    made: Mapping[str, str],
    config: Mapping[str, Any],
    out: Path,
    checkpoint: Checkpoint,
    staying: Iterable[Weight],
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
    staying : iterable of Weight

    Raises
    ------
    CheckpointError
        A weight that would be read otherwise, without the source's configuration or in another file.
    """
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
    then = weights_of(written) if kept else ()
    read = {weight.codes.name: _read(weight) for weight in then}
    for weight in kept:
        if read.get(weight.codes.name) != _read(weight):
            raise CheckpointError(
                f"weight {weight.name!r} would stay as it is, in {weight.scheme.name}, and nothing would say "
                f"so in {out.name!r}; convert it too, or dequantise it first"
            )
    return metadata


def _read(weight: Weight) -> tuple[object, ...]:
    """Return all that the values of a weight depend on, besides the bytes of its parts."""
    scheme = weight.scheme
    how = scheme.packing, scheme.divides, scheme.transposed, scheme.padded, weight.element, weight.scale
    parts = weight.scales, weight.tensor, weight.zeros
    return (*how, *parts, weight.sizes, weight.swizzled, weight.over, weight.problem)
