"""Weights quantised into a scheme, row by row, and whole checkpoints of them."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import lowprec
from lowprec.arrays.blocks.packing import swizzle
from lowprec.arrays.checks import dtype
from lowprec.arrays.convert import decode
from lowprec.arrays.random import random_bits
from lowprec.checkpoints import bitsandbytes_writing, configs, transformer_engine
from lowprec.checkpoints.configured import is_convolution
from lowprec.checkpoints.container import CheckpointError, tag_of
from lowprec.checkpoints.containers.gguf_writing import join_blocks
from lowprec.checkpoints.containers.onnx_reading import PRODUCTS, UNKNOWN
from lowprec.checkpoints.containers.writer import Planned
from lowprec.checkpoints.correcting import Inputs, Outputs, Statistics, corrected
from lowprec.checkpoints.decoding import given_values, ranges
from lowprec.checkpoints.errors import Errors
from lowprec.checkpoints.folder import Checkpoint
from lowprec.checkpoints.fusing import JOINING, fused
from lowprec.checkpoints.patterns import matching
from lowprec.checkpoints.scaling import RAISED, Given, Rounding, single_scales, tensor_scale
from lowprec.checkpoints.schemes import torchao
from lowprec.checkpoints.schemes.integer_schemes import WEIGHT_SHAPE
from lowprec.checkpoints.schemes.packings import GgufPacking
from lowprec.checkpoints.schemes.schemes import (
    COMFY_QUANT,
    FLOATS,
    PLAIN,
    SCALED_FP8,
    TRANSFORMER_ENGINE,
    Scheme,
)
from lowprec.checkpoints.schemes.sharing import for_elements, grid_of, in_tiles
from lowprec.checkpoints.schemes.words import RowWords
from lowprec.checkpoints.staying import with_staying
from lowprec.checkpoints.targets import EXCLUDED, FAMILIES, Target, target
from lowprec.checkpoints.weights import Weight, weights_of
from lowprec.checkpoints.writing import (
    SINGLE,
    Spread,
    Task,
    Watch,
    Write,
    source_of,
    with_copies,
    write_checkpoint,
)
from lowprec.kernels.modes import usual_arithmetic
from lowprec.spec.naming import plain
from lowprec.spec.rounding import NEAREST_EVEN

__all__ = ["EXCLUDED", "FAMILIES", "Target", "key_of", "quantize_checkpoint", "target"]

Array = npt.NDArray[Any]

#: Endings of files that schemes of one family are written to, and no other.
_ENDINGS = {".gguf": "gguf", ".onnx": "onnx", ".pt": TRANSFORMER_ENGINE}
#: Columns that are corrected together, where there are no blocks.
_COLUMNS = 128


#: Returns the scales for a weight, or None where the target's rule shall find them.
Scales = Callable[[Weight, Target], Given | None]


@usual_arithmetic()
def largest(weight: Weight, how: Target) -> Array:
    """Return the largest magnitude of each channel, or of each part along the first axis.

    Raises CheckpointError: NaNs or infinities, which no weight should have.
    """
    parts = []
    for start, stop in ranges(weight):
        values = given_values(weight, how.scheme, start, stop)
        high = np.abs(values).max(axis=-1 if how.channel else tuple(range(1, values.ndim)), initial=0)
        if not np.isfinite(high).all():
            wrong = int(np.count_nonzero(~np.isfinite(values)))
            raise CheckpointError(
                f"weight {weight.name!r} holds {wrong:,} values that are NaN or infinite in {values.dtype}, "
                f"in rows {start} to {stop}; leave it out with --exclude"
            )
        parts.append(np.atleast_1d(high))
    return np.concatenate(parts)


@dataclass(frozen=True)
class Joined:
    """Weights of layers that servers join: one scale of the tensor is for all.

    Parameters
    ----------
    weights : tuple of Weight
    known : dict of str to number
        Largest magnitudes by name, of the weights that were looked at.
    """

    weights: tuple[Weight, ...]
    known: dict[str, Any] = field(default_factory=dict)

    def largest(self, weight: Weight, amax: Any, how: Target) -> Any:
        """Return the largest magnitude of all; that of `weight` is `amax`."""
        self.known[weight.name] = amax
        for other in self.weights:
            if other.name not in self.known:
                self.known[other.name] = largest(other, how).max(initial=np.float32(0))
        return max(self.known.values())


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
    spread: Spread | None = None,
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Write a checkpoint with its weights quantised, and return reports and why others stayed as they were.

    Parameters
    ----------
    checkpoint : Checkpoint
    out : Path
        A .safetensors file or a new folder.
    how : Target
    include, exclude : sequence of str
        Patterns of names, as of files. Without `include`: floats of two axes and more, except vectors with
        axes of length 1, the names of `EXCLUDED`, and convolutions where the scheme's software has linear
        layers only; of ONNX not those that no product or convolution takes. `exclude` is always left out;
        tensors that are not read must be.
    watch : callable, optional
    scales : callable, optional
        Of conversions: gives scales for weights that have them already.
    statistics : Statistics, optional
        Inputs of layers, by which the error of their outputs is reported, and weights are corrected.
    spread : callable, optional
        Hands weights out to other processes, as for `write_checkpoint`; the bytes are the same.
    """
    if statistics is not None and statistics.correct and how.rounding.bits:
        raise CheckpointError(f"a correction is for roundings to nearest, not for {how.rounding}")
    if statistics is not None and (
        how.scheme.state or how.scheme.transposed or how.scheme.padded or how.scheme.family == "onnx"
    ):
        raise CheckpointError(f"statistics of inputs are not used for {how.scheme.name}; leave them out")
    for suffix, family in _ENDINGS.items():
        if how.scheme.family == family and out.suffix != suffix:
            raise CheckpointError(f"{how.scheme.name} is written to {suffix} files, not to {out.name!r}")
        if how.scheme.family != family and out.suffix == suffix:
            raise CheckpointError(
                f"{how.scheme.name} is not written to {suffix} files; use --scheme {family}"
            )
    checkpoint.check_output(out, exclude)
    if statistics is not None and statistics.checkpoint.has_file(out):
        raise CheckpointError(
            f"{str(out)!r} has the statistics of inputs, and would take its place; name another output"
        )
    kept, weights, chosen = {}, weights_of(checkpoint), []
    for weight in weights:
        why = _left_out(weight, checkpoint, include, exclude) or how.misfit(weight.value_shape, weight.summed)
        if not why and not include and _is_unread(weight, how):
            why = f"{how.scheme.family} has no quantised convolutions; --include takes it"
        chosen.append(not why)
        if why:
            kept[weight.name] = why
    joined = _joined([weight for weight, taken in zip(weights, chosen, strict=True) if taken], how)
    pairs = [
        (weight, _task(weight, how, scales, statistics, joined) if taken else None)
        for weight, taken in zip(weights, chosen, strict=True)
    ]
    done = [weight.name for weight, task in pairs if task is not None]
    if not done:
        some = "; ".join(f"{plain(name)}: {why}" for name, why in list(kept.items())[:3]) or "it has none"
        raise CheckpointError(f"no weight of {str(checkpoint.path)!r} would be quantised ({some})")
    tasks = with_copies(pairs, out)
    if how.scheme.swizzled:  # what a source's JSON said of weights that are another thing now
        marks = {name.removesuffix(".weight") + COMFY_QUANT for name in done}
        tasks = [task for task in tasks if task.name not in marks]
    if how.scheme.name == "comfyui scaled fp8" and not any(
        task.name == SCALED_FP8 and task.size <= 2 for task in tasks
    ):
        mark = (SCALED_FP8, "F8_E4M3", (2,))
        tasks.append(Task(SCALED_FP8, checkpoint.files[0].name, (mark,), 2, lambda write: None))
    fmt = how.blocks or how.element
    spelled: dict[str, Any] = {"scheme": how.scheme.name, "format": fmt.name, "channel": how.channel}
    spelled |= {"rule": how.blocks.rule.name} if how.blocks is not None else {}
    if how.rounding != NEAREST_EVEN:
        spelled |= {"rounding": str(how.rounding), **({"seed": how.seed} if how.rounding.bits else {})}
    spelled |= {"correct": "gptq"} if statistics is not None and statistics.correct else {}
    verb = "quantize" if scales is None else "convert"
    about = json.dumps({"version": lowprec.__version__, "made": verb, **spelled})
    made = {"format": "pt", "lowprec": about}
    if how.scheme.family == "torchao":
        made |= torchao.metadata_of(weights, done, how, checkpoint.metadata)
    made |= transformer_engine.metadata_of(weights, done, how, checkpoint.metadata)
    said = None
    if out.suffix not in SINGLE:
        same = {weight.name for weight, task in pairs if task is None and weight.scheme == how.scheme}
        said = configs.quantization_config(how, [name for name in kept if name not in same])
    made = with_staying(made, said or {}, out, checkpoint, pairs, tasks, how.scheme)
    others = configs.beside(checkpoint, said) if out.suffix not in SINGLE else None
    source = source_of(checkpoint, out)
    reports = write_checkpoint(
        out, tasks, made, repr(how), others=others, watch=watch, source=source, spread=spread
    )
    return reports, kept


def _is_unread(weight: Weight, how: Target) -> bool:
    """Return whether a weight is of a convolution, whose codes the scheme's software takes for values."""
    return how.is_linear_only and is_convolution(weight.name, weight.value_shape)


def _left_out(weight: Weight, checkpoint: Checkpoint, include: Sequence[str], exclude: Sequence[str]) -> str:
    if matching(weight.name, exclude) is not None:
        return "excluded"
    if weight.problem is not None:
        return weight.problem[1]
    if weight.codes.tag not in FLOATS and not weight.is_quantized:
        return f"{weight.codes.tag} is no format of floats"
    if include:
        return "" if matching(weight.name, include) is not None else "not included"
    if len(weight.shape) < 2:
        return "fewer than two axes"
    if len(weight.shape) > 2 and sum(length != 1 for length in weight.shape) < 2:
        return "a vector, whose other axes have length 1"
    used = checkpoint.graph.used.get(weight.name, set())
    if used and not used & {*PRODUCTS, UNKNOWN}:
        return f"taken by {' and '.join(sorted(used))}, and by no product or convolution"
    pattern = matching(weight.name, EXCLUDED)
    return "" if pattern is None else f"kept by default, by its name ({pattern}); --include takes it"


def _joined(weights: Sequence[Weight], how: Target) -> dict[str, Joined]:
    """Return of each weight that servers join with others all that share the scale of its tensor."""
    if how.scheme.family not in JOINING or how.blocks is None or how.blocks.tensor_scale == "none":
        return {}
    known = {weight.name: weight for weight in weights}
    groups = [Joined(tuple(known[name] for name in names)) for names in fused(known)]
    return {weight.name: group for group in groups for weight in group.weights}


def _task(
    weight: Weight,
    how: Target,
    scales: Scales | None,
    statistics: Statistics | None,
    joined: Mapping[str, Joined],
) -> Task:
    plan, group = _plan(weight, how), joined.get(weight.name)

    def work(write: Write) -> dict[str, Any] | None:
        names = {role: entry[0] for role, entry in plan.items()}
        known = None if scales is None else scales(weight, how)
        inputs = None if statistics is None else statistics.of(weight)
        correct = statistics is not None and statistics.correct
        report = _written(weight, how, names, write, known, inputs, correct, group)
        named = how.scheme != PLAIN and how.scheme.family != "gguf"
        said = [report["note"]] if "note" in report else []
        if named and not weight.name.endswith(how.scheme.weight):
            said.append(f"it is read as {weight.name + how.scheme.weight}, by the names of its parts")
        if _is_unread(weight, how):
            said.append(
                f"{how.scheme.family} has no quantised convolutions: its software takes codes for values"
            )
        return report | ({"note": "; ".join(said)} if said else {})

    inputs = None if statistics is None else statistics.entry(weight)
    others = () if group is None else tuple(other for other in group.weights if other is not weight)
    parts = (part for other in others for part in other.parts)
    return Task(
        weight.name,
        weight.codes.path.name,
        tuple(plan.values()),
        math.prod(weight.shape),
        work,
        (*weight.parts, *(() if inputs is None else (inputs,)), *parts),
        repr((weight, inputs, others)),
        _held(weight, how, plan),
    )


def _held(weight: Weight, how: Target, plan: Mapping[str, Planned]) -> dict[str, bytes]:
    """Return what tensors have that say how others are read, but for numbers."""
    if how.scheme.state:
        return {plan["state"][0]: bitsandbytes_writing.state(weight, how.scheme)}
    if "lengths" in plan:
        return {plan["lengths"][0]: _lengths(weight).tobytes()}
    return {plan["mark"][0]: _mark(how.scheme).tobytes()} if how.scheme.swizzled else {}


def _plan(weight: Weight, how: Target) -> dict[str, Planned]:
    """Return name, type and shape of each part by its role."""
    scheme, shape = how.scheme, weight.value_shape
    if scheme == PLAIN:
        return {"codes": (weight.name, tag_of(dtype(how.element)), shape)}
    stem = weight.name.removesuffix(".weight") if scheme.weight else weight.name
    if scheme.state:
        return bitsandbytes_writing.parts(weight, scheme, stem)
    if scheme.padded:
        return transformer_engine.parts(weight, how)
    rows = (*shape[:-2], shape[-1], shape[-2]) if scheme.transposed else shape
    sizes = _sizes(how, rows, weight.summed) if scheme.block else (*[1] * (len(rows) - 1), rows[-1])
    grid = grid_of(rows, sizes)
    if scheme.family == "gguf":
        gguf_plan = {"codes": (weight.name, scheme.code_tags[0], shape)}
        return gguf_plan | ({"tensor": (stem + scheme.tensor, "F32", (1,))} if scheme.tensor else {})
    tag = scheme.scale_tags[0]
    if scheme.block is None:
        grid = (*rows[:-1], 1) if how.channel else _one(scheme, len(rows))
    codes = scheme.packing.stored(rows, how.element)
    code_tag = {"e4m3fn": "F8_E4M3", "e5m2": "F8_E5M2"}.get(how.element.name, scheme.code_tags[0])
    plan = {"codes": (stem + scheme.codes, code_tag, codes), "scales": (stem + scheme.scales, tag, grid)}
    if scheme.swizzled:
        plan["scales"] = (stem + scheme.scales, tag, in_tiles(grid))
        plan["mark"] = (stem + COMFY_QUANT, "U8", (len(_mark(scheme)),))
    if scheme.tensor:
        plan["tensor"] = (stem + scheme.tensor, "F32", _one(scheme, len(rows)))
    if isinstance(scheme.packing, RowWords):
        plan["lengths"] = (stem + WEIGHT_SHAPE, "I64", (len(shape),))
    return plan


def _sizes(how: Target, shape: tuple[int, ...], summed: int) -> tuple[int, ...]:
    """Return what shares a scale: blocks of one axis lie along that which products sum over."""
    assert how.scheme.block is not None
    block = how.scheme.block if summed == -1 or how.scheme.block[0] > 1 else how.scheme.block[::-1]
    return (*[1] * (len(shape) - 2), *block)


def _mark(scheme: Scheme) -> Array:
    """Return the bytes of ComfyUI's JSON beside a weight."""
    text = json.dumps({"format": scheme.marks[COMFY_QUANT]})
    return np.frombuffer(text.encode(), np.uint8)


def _lengths(weight: Weight) -> Array:
    """Return what is beside packed integers: the shape of the weight."""
    return np.array(weight.value_shape, np.int64)


def _one(scheme: Scheme, axes: int) -> tuple[int, ...]:
    """Return the shape of a single scale, of the tensor or of all its blocks."""
    if scheme.name == "torchao float8":
        return (1,) * axes
    return (1,) if scheme.family == "compressed-tensors" else ()


@usual_arithmetic()
def _written(
    weight: Weight,
    how: Target,
    names: dict[str, str],
    write: Write,
    given: Given | None,
    inputs: Inputs | None,
    correct: bool,
    joined: Joined | None,
) -> dict[str, Any]:
    """Write one weight, and return its report."""
    rows, errors = largest(weight, how), Errors(-how.element.max_finite, how.element.max_finite)
    outputs = None if inputs is None else Outputs(inputs)
    factor = inputs.factor() if inputs is not None and correct else None
    if how.scheme.state:
        assert how.blocks is not None
        known = None if given is None else given.scales
        return bitsandbytes_writing.write_blocks(weight, how.scheme, how.blocks, names, write, known)
    if how.scheme.padded:
        known = None if given is None or how.scheme.tensor else given.scales
        return transformer_engine.write_copies(weight, how, names, write, rows, known)
    amax = rows.max(initial=np.float32(0))
    amax = amax if joined is None or given is not None else joined.largest(weight, amax, how)
    tensor = tensor_scale(weight, how, given, amax)
    single, raised = single_scales(how, rows)
    if tensor is not None:
        write(names["tensor"], np.array(tensor.stored, np.float32), 0)
        raised = tensor.raised
    if single is not None:
        write(names["scales"], single if how.channel else single.reshape(-1), 0)
    if how.scheme.swizzled:
        write(names["mark"], _mark(how.scheme), 0)
    if "lengths" in names:
        write(names["lengths"], _lengths(weight), 0)
    sizes = _sizes(how, weight.shape, weight.summed) if how.scheme.block else ()
    unit = 128 if how.scheme.swizzled else sizes[0] if sizes else 1
    for start, stop in ranges(weight, unit=unit):
        values = given_values(weight, how.scheme, start, stop)
        values = np.ascontiguousarray(values.swapaxes(-1, -2)) if how.scheme.transposed else values
        part = single if single is None or not how.channel else single[start:stop]
        random = _random(weight.name, how, values.shape, start, len(rows))
        rounded = Rounding(how, None if tensor is None else tensor.factor, part, random, weight.summed)
        moments: Array = values
        scales: Any = None if given is None else given.scales(start, stop)
        if factor is not None:
            width = how.blocks.sizes[-1] if how.blocks is not None else _COLUMNS
            moments, scales = corrected(values, factor, width, rounded)
        results, scales, codes = rounded(moments, scales)
        if outputs is not None:
            outputs.add(values, results, rounded(values, None)[0] if factor is not None else results)
        raised = raised or rounded.raised
        _write_rows(how, names, write, codes, scales, start, unit)
        elements = decode(codes, how.element)
        if how.blocks is None:
            errors.add(values, elements, (), 1.0 if part is None else part)
            continue
        units = decode(scales, how.blocks.scale, dtype=np.float64)
        units = units if tensor is None else units * np.float64(tensor.factor)
        if given is not None:
            exact = elements * for_elements(units, codes.shape, sizes)
            read: Array = exact.astype(np.float32)
            if how.scheme.family != "gguf" and tensor is not None:  # of GGUF products are rounded once
                number = decode(scales, how.blocks.scale)
                number = number / tensor.stored if how.scheme.divides else number * tensor.stored
                read = elements * for_elements(number, codes.shape, sizes)
            values = np.where(read == values, exact, values)  # what readers find again is no error
        errors.add(values, elements, sizes, units)
    return errors.report(RAISED if raised else "") | ({} if outputs is None else outputs.report())


def _write_rows(
    how: Target, names: dict[str, str], write: Write, codes: Array, scales: Any, start: int, unit: int
) -> None:
    """Write the codes of some rows, and the scales of their blocks, `unit` rows of which share one."""
    packing = how.scheme.packing
    if isinstance(packing, GgufPacking) and how.blocks is not None:
        write(names["codes"], join_blocks(codes, scales, packing.type), start)
        return
    write(names["codes"], packing.packed(codes, how.element), start)
    if how.scheme.swizzled:
        write(names["scales"], swizzle(scales).reshape(-1, -(-scales.shape[1] // 4) * 4), start)
    elif how.blocks is not None:
        write(names["scales"], scales, start // unit)


def key_of(name: str, seed: int) -> int:
    """Return the key of a weight's random integers, which are those of `lowprec.random_bits`."""
    return int.from_bytes(hashlib.sha256(f"{seed} {name}".encode()).digest()[:8], "big")


def _random(name: str, how: Target, shape: tuple[int, ...], start: int, rows: int) -> Array | None:
    """Return the random integers of some rows: whoever asks, and however many at a time."""
    if not how.rounding.bits:
        return None
    key = key_of(name, how.seed)
    origin, within = (start, *[0] * len(shape))[: len(shape)], (rows, *shape[1:])[: len(shape)]
    return random_bits(shape, key, how.rounding.bits, origin=origin, within=within)
