"""Weights quantised into a scheme, row by row, and whole checkpoints of them."""

from __future__ import annotations

import dataclasses
import fnmatch
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import lowprec
from lowprec.arrays.arith import divide
from lowprec.arrays.block_quotients import spread
from lowprec.arrays.checks import dtype
from lowprec.arrays.convert import decode, encode
from lowprec.arrays.packing import pack
from lowprec.arrays.statistics import scale_for
from lowprec.checkpoints import bitsandbytes_writing, configs
from lowprec.checkpoints.container import CheckpointError, tag_of
from lowprec.checkpoints.correcting import Inputs, Outputs, Round, Statistics, corrected
from lowprec.checkpoints.decoding import GGUF_BLOCKS, ranges, values_of
from lowprec.checkpoints.errors import Errors
from lowprec.checkpoints.folder import Checkpoint
from lowprec.checkpoints.gguf_writing import join_blocks
from lowprec.checkpoints.schemes import FLOATS, PLAIN, Scheme, find
from lowprec.checkpoints.weights import Weight, weights_of
from lowprec.checkpoints.writing import (
    SINGLE,
    Task,
    Watch,
    Write,
    copy_of,
    fingerprint,
    gguf_of,
    write_checkpoint,
)
from lowprec.kernels.modes import usual_arithmetic
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat, rule as rule_of
from lowprec.spec.format import Format

__all__ = ["EXCLUDED", "FAMILIES", "Target", "quantize_checkpoint", "target"]

Array = npt.NDArray[Any]

#: What `--scheme` and `--to` together mean: the scheme that is written.
FAMILIES: dict[str, dict[str, str]] = {
    "compressed-tensors": {
        "nvfp4": "nvfp4-pack-quantized",
        "mxfp4": "mxfp4-pack-quantized",
        "mxfp8_e4m3": "mxfp8-quantized",
        "e4m3fn": "float-quantized",
    },
    "modelopt": {"nvfp4": "modelopt nvfp4", "e4m3fn": "modelopt fp8"},
    "quark": {
        "mxfp4": "quark mxfp4",
        "mxfp6_e3m2": "quark mxfp6_e3m2",
        "mxfp6_e2m3": "quark mxfp6_e2m3",
        "e4m3fn": "quark fp8",
    },
    "bitsandbytes": {"nf4": "bitsandbytes nf4", "fp4": "bitsandbytes fp4"},
    "gpt-oss": {"mxfp4": "gpt-oss mxfp4"},
    "deepseek": {"e4m3fn": "deepseek fp8"},
    "deepseek-v4": {"e4m3fn": "deepseek-v4 fp8", "mxfp4": "deepseek-v4 fp4"},
    "torchao": {"nvfp4": "torchao nvfp4", "mxfp4": "torchao mxfp4", "mxfp8_e4m3": "torchao mxfp8"},
    "comfyui": {"e4m3fn": "comfyui scaled fp8"},
    "gguf": {name.lower(): f"gguf {name}" for name in ("MXFP4", "NVFP4", "Q8_0", "IQ4_NL")},
    "plain": {name: "plain" for name in ("e4m3fn", "e5m2", "bfloat16", "binary16")},
}

#: Columns that are corrected together, where there are no blocks.
_COLUMNS = 128

#: Weights that stay as they are unless `include` names them.
EXCLUDED = ("*embed*", "*lm_head*", "*norm*", "*router*", "*.gate.weight", "token_embd.*", "output.weight")


@dataclass(frozen=True)
class Target:
    """What weights become.

    Parameters
    ----------
    scheme : Scheme
    element : Format
    blocks : BlockFormat, optional
        Where scales belong to blocks.
    channel : bool
        Whether each row has a scale, where they do not.
    """

    scheme: Scheme
    element: Format
    blocks: BlockFormat | None = None
    channel: bool = False

    def misfit(self, shape: tuple[int, ...]) -> str:
        """Return why a weight of this shape cannot be written so; empty if it can."""
        if self.scheme is PLAIN:
            return ""
        needed = 3 if self.scheme.packing == "groups" else 2
        if len(shape) < needed or not math.prod(shape):
            return f"{len(shape)} axes, {needed} needed" if len(shape) < needed else "it has no elements"
        if self.scheme.block == (128, 128):
            return "" if len(shape) == 2 else "tiles need exactly two axes"
        along = shape[-2] if self.scheme.transposed else shape[-1]
        size = self.scheme.block[1] if self.scheme.block else 1
        size = 64 if self.scheme.packing == "gguf_nvfp4" else size
        return "" if along % size == 0 else f"{along} elements are no multiple of {size}"


def target(
    family: str,
    to: str,
    *,
    rule: str | None = None,
    channel: bool = False,
    powers: bool = False,
    nested: bool = False,
) -> Target:
    """Return what `--scheme`, `--to` and the other options ask for.

    >>> target("modelopt", "nvfp4").scheme.name
    'modelopt nvfp4'

    Parameters
    ----------
    family, to : str
        Keys of `FAMILIES`.
    rule : str, optional
        Scale rule of blocks, in place of the block format's own.
    channel : bool
        A scale for each row; of e4m3fn in compressed-tensors.
    powers : bool
        Scales of 128x128 that are powers of two (`scale_fmt` "ue8m0"); DeepSeek V4 has no others.
    nested : bool
        Scales that are quantised too, of bitsandbytes ("double quantisation").

    Raises
    ------
    CheckpointError
        A scheme, format or option that there is not.
    """
    if family not in FAMILIES:
        raise CheckpointError(f"unknown scheme {family!r}; use one of {', '.join(FAMILIES)}")
    if to not in FAMILIES[family]:
        raise CheckpointError(f"scheme {family!r} has no {to!r}; it has {', '.join(FAMILIES[family])}")
    scheme = find(FAMILIES[family][to])
    if channel and scheme.name != "float-quantized":
        raise CheckpointError(
            f"scales of channels are for e4m3fn of compressed-tensors, not for {scheme.name}"
        )
    if powers and scheme.family != "deepseek":
        raise CheckpointError(
            f"powers of two as scales can be chosen for deepseek only, not for {scheme.name}"
        )
    if nested and not scheme.state:
        raise CheckpointError(f"nested scales are for bitsandbytes only, not for {scheme.name}")
    if nested:
        scheme = find(f"{scheme.name} nested")
    if rule is not None and scheme.state:
        raise CheckpointError(f"rule={rule!r}: {scheme.name} has no scales but the largest magnitudes")
    if scheme is PLAIN or scheme.block is None:
        if rule is not None:
            raise CheckpointError(f"rule={rule!r} is for scales of blocks, which {scheme.name} has not")
        return Target(scheme, catalog.format(to), channel=channel)
    name = f"bnb_{to}" if scheme.state else "fp8_block_128x128" if scheme.block == (128, 128) else to
    blocks = GGUF_BLOCKS[to] if to in GGUF_BLOCKS else catalog.block_format(name)
    if scheme.block == (128, 128) and (powers or scheme.scale == "e8m0fnu"):
        tiles = catalog.format("e8m0fnu") if scheme.scale == "e8m0fnu" else blocks.scale
        blocks = dataclasses.replace(blocks, scale=tiles, rule=rule_of("rceil"))
    if rule is not None:
        blocks = dataclasses.replace(blocks, rule=rule_of(rule))
    return Target(scheme, blocks.element, blocks)


class Given(NamedTuple):
    """Scales that are known before: of the tensor, and codes of those of blocks in some rows."""

    tensor: np.float32 | None
    scales: Callable[[int, int], Array]


#: Returns the scales for a weight, or None where the target's rule shall find them.
Scales = Callable[[Weight, Target], Given | None]


@usual_arithmetic()
def largest(weight: Weight) -> npt.NDArray[np.float32]:
    """Return the largest magnitude of each row of a weight.

    Raises CheckpointError: NaNs or infinities, which no weight should have.
    """
    parts = []
    for start, stop in ranges(weight):
        values = values_of(weight, start, stop)
        high = np.abs(values).max(axis=tuple(range(1, values.ndim)), initial=0)
        if not np.isfinite(high).all():
            wrong = int(np.count_nonzero(~np.isfinite(values)))
            raise CheckpointError(
                f"weight {weight.name!r} holds {wrong:,} NaN or infinite values in rows {start} to "
                f"{stop}; leave it "
                "out with --exclude"
            )
        parts.append(high)
    return np.concatenate(parts)


def quantize_checkpoint(
    checkpoint: Checkpoint,
    out: Path,
    how: Target,
    *,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    watch: Watch = None,
    scales: Scales | None = None,
    statistics: Statistics | None = None,
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Write a checkpoint with its weights quantised, and return reports and why others stayed as they were.

    Parameters
    ----------
    checkpoint : Checkpoint
    out : Path
        A .safetensors file or a new folder.
    how : Target
    include, exclude : sequence of str
        Patterns of names, as of files. Without `include`: weights of two axes and more whose names end with
        `weight`, but not those of `EXCLUDED`. `exclude` is always left out.
    watch : callable, optional
    scales : callable, optional
        Of conversions: gives scales for weights that have them already.
    statistics : Statistics, optional
        Inputs of layers, by which the error of their outputs is reported, and weights are corrected.
    """
    if statistics is not None and (how.scheme.state or how.scheme.transposed):
        raise CheckpointError(f"statistics of inputs are not used for {how.scheme.name}; leave them out")
    if (out.suffix == ".gguf") != (how.scheme.family == "gguf"):
        raise CheckpointError(
            f"{how.scheme.name} is written to .gguf files, not to {out.name!r}"
            if out.suffix != ".gguf"
            else f"{how.scheme.name} is not written to .gguf files; use --scheme gguf"
        )
    tasks, kept, done = [], {}, []
    for weight in weights_of(checkpoint):
        why = _left_out(weight, include, exclude) or how.misfit(weight.value_shape)
        if why:
            kept[weight.name] = why
            tasks += [copy_of(part, out) for part in weight.parts]
        else:
            tasks.append(_task(weight, how, scales, statistics))
            done.append(weight.name)
    if how.scheme.family == "comfyui":
        mark = ("scaled_fp8", "F8_E4M3", (2,))
        tasks.append(Task("scaled_fp8", checkpoint.files[0].name, (mark,), 2, lambda write: None))
    if not done:
        some = "; ".join(f"{name}: {why}" for name, why in list(kept.items())[:3])
        raise CheckpointError(f"no weight of {str(checkpoint.path)!r} would be quantised ({some})")
    spelled: dict[str, Any] = {
        "scheme": how.scheme.name,
        "format": (how.blocks or how.element).name,
        "channel": how.channel,
    }
    spelled |= {"rule": how.blocks.rule.name} if how.blocks is not None else {}
    spelled |= {"correct": "gptq"} if statistics is not None and statistics.correct else {}
    made = {
        "format": "pt",
        "lowprec": json.dumps(
            {"version": lowprec.__version__, "made": "quantize" if scales is None else "convert", **spelled}
        ),
    }
    used = None if statistics is None else fingerprint(statistics.checkpoint, {})
    digest = fingerprint(
        checkpoint,
        {**made, "inputs": used, "include": include, "exclude": exclude, "done": done, "to": out.name},
    )
    others = configs.beside(checkpoint, kept, how) if out.suffix not in SINGLE else None
    reports = write_checkpoint(
        out, tasks, made, digest, others=others, watch=watch, source=gguf_of(checkpoint)
    )
    return reports, kept


def _left_out(weight: Weight, include: Sequence[str], exclude: Sequence[str]) -> str:
    if any(fnmatch.fnmatchcase(weight.name, pattern) for pattern in exclude):
        return "excluded"
    if weight.problem is not None:
        return weight.problem[1]
    if weight.codes.tag not in FLOATS and not weight.is_quantized:
        return f"{weight.codes.tag} is no format of floats"
    if include:
        return "" if any(fnmatch.fnmatchcase(weight.name, pattern) for pattern in include) else "not included"
    if len(weight.shape) < 2 or not weight.name.endswith(("weight", "proj")):
        return "no weight of two axes"
    if any(fnmatch.fnmatchcase(weight.name, pattern) for pattern in EXCLUDED):
        return "kept by default"
    return ""


def _task(weight: Weight, how: Target, scales: Scales | None, statistics: Statistics | None) -> Task:
    plan = _plan(weight, how)

    def work(write: Write) -> dict[str, Any] | None:
        names = {role: entry[0] for role, entry in plan.items()}
        known = None if scales is None else scales(weight, how)
        inputs = None if statistics is None else statistics.of(weight)
        correct = statistics is not None and statistics.correct
        return _written(weight, how, names, write, known, inputs, correct)

    return Task(weight.name, weight.codes.path.name, tuple(plan.values()), math.prod(weight.shape), work)


def _plan(weight: Weight, how: Target) -> dict[str, tuple[str, str, tuple[int, ...]]]:
    """Return name, type and shape of each part by its role."""
    scheme, shape = how.scheme, weight.value_shape
    if scheme is PLAIN:
        return {"codes": (weight.name, tag_of(dtype(how.element)), shape)}
    stem = weight.name.removesuffix(".weight") if scheme.weight else weight.name
    if scheme.state:
        return bitsandbytes_writing.parts(weight, scheme, stem)
    rows = (*shape[:-2], shape[-1], shape[-2]) if scheme.transposed else shape
    sizes = (*[1] * (len(rows) - 2), *(scheme.block or (1, rows[-1])))
    grid = tuple(-(-length // size) for length, size in zip(rows, sizes, strict=True))
    codes = rows
    if scheme.packing == "low_first":
        codes = (*rows[:-1], rows[-1] * how.element.width // 8)
    elif scheme.packing == "groups":
        codes = (*rows[:-1], rows[-1] // 32, 16)
    if scheme.family == "gguf":
        gguf_plan = {"codes": (weight.name, scheme.code_tags[0], shape)}
        return gguf_plan | ({"tensor": (stem + scheme.tensor, "F32", (1,))} if scheme.tensor else {})
    tag = scheme.scale_tags[0]
    if scheme.block is None:
        grid = (*rows[:-1], 1) if how.channel else _one(scheme)
    code_tag = {"e4m3fn": "F8_E4M3", "e5m2": "F8_E5M2"}.get(how.element.name, scheme.code_tags[0])
    plan = {"codes": (stem + scheme.codes, code_tag, codes), "scales": (stem + scheme.scales, tag, grid)}
    if scheme.tensor:
        plan["tensor"] = (stem + scheme.tensor, "F32", _one(scheme))
    return plan


def _one(scheme: Scheme) -> tuple[int, ...]:
    return (1,) if scheme.family == "compressed-tensors" else ()


@usual_arithmetic()
def _written(
    weight: Weight,
    how: Target,
    names: dict[str, str],
    write: Write,
    given: Given | None = None,
    inputs: Inputs | None = None,
    correct: bool = False,
) -> dict[str, Any]:
    """Write one weight, and return its report."""
    rows, errors = largest(weight), Errors()
    outputs = None if inputs is None else Outputs(inputs)
    factor = inputs.factor() if inputs is not None and correct else None
    if how.scheme.state:
        assert how.blocks is not None
        known = None if given is None else given.scales
        return bitsandbytes_writing.write_blocks(weight, how.scheme, how.blocks, names, write, known)
    amax = rows.max(initial=np.float32(0))
    tensor: Any = None
    if how.blocks is not None and how.blocks.tensor_scale != "none":
        tensor = encode(np.array([amax]), how.blocks).tensor_scale if given is None else given.tensor
        stored = np.float32(1) / tensor if how.scheme.divides else tensor
        write(names["tensor"], np.array(stored, np.float32), 0)
        tensor = np.float32(1) / stored if how.scheme.divides else stored
    unit = how.scheme.block[0] if how.scheme.block else 1
    aligned = (
        dataclasses.replace(weight, sizes=(unit, *[1] * (len(weight.shape) - 1))) if unit > 1 else weight
    )
    single = None
    if how.blocks is None and how.scheme is not PLAIN:
        # Of zeros any scale will do; 1 is none that a reader stumbles over.
        single = scale_for(
            np.maximum(rows, np.where(rows, 0, np.float32(448)))
            if how.channel
            else np.array([amax or np.float32(448)]),
            how.element,
            axis=0,
        )
        single = np.asarray(single, np.float32).reshape(-1)
        shape = (len(single), *[1] * (len(weight.shape) - 1))
        write(names["scales"], single.reshape(shape) if how.channel else single, 0)
        single = single.reshape(shape)
    for start, stop in ranges(aligned):
        values = values_of(weight, start, stop)
        values = np.ascontiguousarray(values.swapaxes(-1, -2)) if how.scheme.transposed else values
        part = single if single is None or not how.channel else single[start:stop]
        rounded = _rounding(how, tensor, part)
        moments: Array = values
        scales: Any = None if given is None else given.scales(start, stop)
        if factor is not None:
            width = how.blocks.sizes[-1] if how.blocks is not None else _COLUMNS
            moments, scales = corrected(values, factor, width, rounded)
        results, scales, codes = rounded(moments, scales)
        if outputs is not None:
            outputs.add(values, results, rounded(values, None)[0] if factor is not None else results)
        if how.blocks is None:
            write(names["codes"], codes, start)
            limits = None if part is None else part * np.float32(how.element.max_finite)
            errors.add(values, results, (), limits)
            continue
        if how.scheme.family == "gguf":
            write(names["codes"], join_blocks(codes, scales, how.scheme.packing), start)
        else:
            packed = pack(codes, how.element)
            if how.scheme.packing == "groups":
                packed = packed.reshape(*packed.shape[:-1], -1, 16)
            write(names["codes"], packed, start)
            write(names["scales"], scales, start // unit)
        sizes = (*[1] * (values.ndim - len(how.blocks.sizes)), *how.blocks.sizes)
        limits = decode(scales, how.blocks.scale, dtype=np.float64) * how.blocks.element.max_finite
        limits = limits * (1.0 if tensor is None else np.float64(tensor))
        errors.add(values, results, sizes, spread(limits, values.shape, tuple(range(values.ndim)), sizes))
    return errors.report() | ({} if outputs is None else outputs.report())


def _rounding(how: Target, tensor: Any, single: Array | None) -> Round:
    """Return what rounds values, by scales of blocks if there are some: to values, scales and codes."""

    def rounded(values: Array, scales: Any) -> tuple[Array, Any, Array]:
        if how.blocks is not None:
            blocks = encode(np.ascontiguousarray(values), how.blocks, tensor_scale=tensor, scales=scales)
            return blocks.values(), blocks.scales, blocks.codes
        if single is None:
            codes = encode(values, how.element, saturation="finite")
            return decode(codes, how.element), None, codes
        found = divide(values, np.broadcast_to(single, values.shape), how.element, saturation="finite")
        return found * single, None, encode(found, how.element)

    return rounded
