"""Rules that need headers and configurations alone: parts that are missing, or contradict each other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from lowprec.checkpoints.configured import (
    LINEAR_ONLY,
    STRATEGIES,
    Configured,
    is_convolution,
    kind_of,
    unknown_method,
)
from lowprec.checkpoints.container import CheckpointError, parse_json, quoted
from lowprec.checkpoints.decoding import zero_values
from lowprec.checkpoints.folder import Checkpoint
from lowprec.checkpoints.fusing import JOINING, fused
from lowprec.checkpoints.schemes import bitsandbytes
from lowprec.checkpoints.schemes.schemes import CACHE_SCALES, NESTED_MAP, is_mark
from lowprec.checkpoints.schemes.sharing import needed
from lowprec.checkpoints.schemes.words import ColumnWords
from lowprec.checkpoints.weights import Weight

__all__ = ["Finding", "structure"]


@dataclass(frozen=True)
class Finding:
    """Something that is wrong, or looks wrong.

    Parameters
    ----------
    rule : str
        A name for it, always the same.
    tensor, evidence, remedy : str
        Where, what was seen, and what to do.
    severity : {"error", "warning", "note"}
        Values are wrong; they may be; or readers may do with it what nobody expects. Notes do not change the
        exit code.
    """

    rule: str
    tensor: str
    evidence: str
    remedy: str
    severity: Literal["error", "warning", "note"] = "error"


_PROBLEMS = {
    "private-format": "lowprec.load reads it",
    "missing-scale": "export again with its scales, or name the shard that has them",
    "missing-codes": "export again with both copies whole",
    "orphan-scale": "its codes are missing, have another name or a type that no scheme has",
    "fp8-without-scale": "its scale is missing; read as it is, it is wrong by that factor",
    "missing-zero-point": "export again with the zero points that are subtracted from codes",
    "missing-tensor-scale": "block scales alone are wrong by a factor; export again with the tensor's scale",
    "not-read": "give DequantizeLinear an initializer as its scale, or one of few bits with a scale in FLOAT",
    "scale-type": "write scales in a type of the scheme; a byte of E8M0 is no number",
    "quant-state": "bitsandbytes needs its JSON, with lengths that fit; export again",
    "saved-type": "its type was changed, or what is said of it: save it again",
    "zero-point": "no scheme of floats that is read here has zero points; quantise symmetrically",
    "unknown-scheme": "use the software that made it; --exclude copies it as it is stored",
    "parts": "correct bits or group_size in the configuration; else a part is damaged, or of another weight",
    "shape": "quantise along the last axis, and store one scale for each block, row by row",
}
#: Problems of reading, which are none of the file.
_NOTES = ("not-read", "unknown-scheme")
_FILES = {
    "missing-file": "download the shard again",
    "missing-tensor": "the index is of another export; make it again",
    "index-disagrees": "the index is of another export; make it again",
    "not-indexed": "the index is of another export; make it again",
    "not-read": "it is left out here: let the software that made it write plain tensors",
    "pickle-calls": "load it with torch.load(weights_only=True), which refuses that, or not at all",
    "gaps": "the safetensors library refuses such files; write it again",
}
_LOST = re.compile(
    r"\.(absmax|nested_absmax|weight_scale(_inv|_2)?|weight_global_scale|scale_weight|_weight_scale|_rowwise_scale_inv|_columnwise_scale_inv)$|(_blocks|\.blocks|_scales|\.scales)$"
)


def structure(checkpoint: Checkpoint, weights: Sequence[Weight]) -> Iterator[Finding]:
    """Yield what headers and the configuration show. Only small tensors are read."""
    for rule, evidence in checkpoint.notes:
        level: Literal["error", "warning"] = "warning" if rule == "pickle-calls" else "error"
        yield Finding(rule, evidence.split(" ")[0], evidence, _FILES[rule], level)
    for name, why in checkpoint.unread.items():
        yield Finding("not-read", name, why, _FILES["not-read"], "note")
    for weight in weights:
        if weight.problem is not None:
            rule, evidence = weight.problem
            severity: Literal["error", "note"] = "note" if rule in _NOTES else "error"
            yield Finding(rule, weight.name, evidence, _PROBLEMS[rule], severity)
    yield from _maps(weights)
    yield from () if unknown_method(checkpoint.config) else _lost(checkpoint, weights)
    yield from _zero_points(weights)
    yield from _caches(checkpoint.config, weights)
    yield from _configured(checkpoint.config, weights)
    yield from _comfyui(checkpoint, weights)
    yield from _fused(weights)


def _maps(weights: Sequence[Weight]) -> Iterator[Finding]:
    """Yield tables of values that are others than those of the format: bitsandbytes does not look at them."""
    for weight in weights:
        for part in weight.extras if weight.scheme.state else ():
            nested = part.name.endswith(NESTED_MAP)
            if nested or part.name.endswith(".weight.quant_map"):
                table = "dynamic8" if nested else weight.element
                wanted = bitsandbytes.quant_map(table)
                if part.tag != "F32" or part.shape != wanted.shape or (part.read() != wanted).any():
                    evidence = f"{part.tag} of shape {list(part.shape)} is not the table of {table}"
                    how = "scales are read by it" if nested else "values are read by the type's name"
                    remedy = f"{how}; quantise again with the format's table"
                    yield Finding("quant-map", part.name, evidence, remedy, "warning")


def _lost(checkpoint: Checkpoint, weights: Sequence[Weight]) -> Iterator[Finding]:
    for weight in weights:
        plain = not weight.is_quantized and weight.problem is None
        if plain and weight.name not in checkpoint.graph.used and _LOST.search(weight.name):
            evidence = f"no weight uses it: {weight.codes.tag} of shape {list(weight.shape)}"
            yield Finding("orphan-scale", weight.name, evidence, _PROBLEMS["orphan-scale"], "warning")


def _configured(config: Mapping[str, Any], weights: Sequence[Weight]) -> Iterator[Finding]:
    if not config:
        return
    format_said = config.get("format")
    configured = Configured(config, len(weights))
    for weight in weights:
        module = weight.name.removesuffix(".weight")
        said = configured.said_of(module)
        if said is None:
            continue
        if not weight.is_quantized:
            if not said.ignored and said.targeted and _is_linear(weight):
                evidence = f"{weight.codes.tag} as it is, and the configuration quantises {module}"
                remedy = "add it to the ignore list, or quantise it"
                yield Finding("quantized-but-plain", weight.name, evidence, remedy)
            continue
        if said.ignored or said.targeted is False:
            who = "leaves" if said.ignored else "has no group or layer that matches, and so leaves"
            evidence = f"the configuration {who} {module} unquantised, and the file has {weight.scheme.name}"
            remedy = "take it off the ignore list, name it, or store the weight unquantised"
            yield Finding("ignored-but-quantized", weight.name, evidence, remedy)
        elif is_convolution(weight.name, weight.value_shape) and config.get("quant_method") in LINEAR_ONLY:
            evidence = (
                f"{len(weight.value_shape)} axes in {weight.scheme.name}, and {config['quant_method']} has "
                f"no quantised convolutions"
            )
            remedy = "its software takes codes for values: store the weight unquantised"
            yield Finding("ignored-but-quantized", weight.name, evidence, remedy)
        elif weight.problem is None and said.kind and said.kind != kind_of(weight):
            evidence = (
                f"the configuration says {said.kind} for {module}, and the file has {weight.scheme.name}"
            )
            yield Finding("format-disagrees", weight.name, evidence, "correct quantization_config")
        elif weight.problem is None and weight.scheme.family == "compressed-tensors":
            known = (weight.scheme.name, "mixed-precision", "naive-quantized")
            if isinstance(format_said, str) and format_said not in known:
                evidence = f"the configuration says {format_said}, and the file has {weight.scheme.name}"
                remedy = "correct format in quantization_config"
                yield Finding("format-disagrees", weight.name, evidence, remedy)
            yield from _strategy(weight, said.setting)
        elif weight.problem is None and isinstance(weight.scheme.packing, ColumnWords):
            yield from _columns(weight, said.setting)
    for pattern, why in configured.unread.items():
        evidence = f"the configuration has {quoted(pattern)}, which is not understood: {why}"
        remedy = "modules that may match it are not held against the configuration: name them"
        yield Finding("not-read", "config.json", evidence, remedy, "note")


def _strategy(weight: Weight, setting: Mapping[str, Any]) -> Iterator[Finding]:
    said, size = setting.get("strategy"), setting.get("group_size")
    if said is not None and said not in STRATEGIES:
        evidence = f"the configuration says strategy {quoted(said)}, which is none of {', '.join(STRATEGIES)}"
        yield Finding("scale-strategy", weight.name, evidence, "correct strategy in quantization_config")
    if said in ("tensor", "channel") and weight.blocks in ("tensor", "channel") and said != weight.blocks:
        scales = needed(weight.scales)
        evidence = f"one scale for a {said} is configured, and scales have shape {list(scales.shape)}"
        yield Finding("scale-strategy", scales.name, evidence, f"set strategy to {weight.blocks!r}")
    are_groups = said in ("group", "tensor_group") and isinstance(size, int) and weight.groups is None
    if are_groups and weight.sizes and (has := weight.sizes[-1]) != size:
        evidence = f"the configuration says groups of {size}, and scales belong to {has} elements"
        yield Finding("scale-strategy", needed(weight.scales).name, evidence, f"set group_size to {has}")


def _columns(weight: Weight, setting: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield what a configuration of GPTQ or AWQ says otherwise than the file."""
    layout = weight.scheme.packing
    assert isinstance(layout, ColumnWords)
    scales, points = needed(weight.scales), needed(weight.zeros)
    size, bits = setting.get("group_size"), weight.format.width
    rows = weight.shape[0]
    size = rows if size == -1 else size
    if type(size) is int and weight.groups is None and rows and weight.sizes[0] != min(size, rows):
        evidence = f"the configuration says groups of {size}, and scales belong to {weight.sizes[0]} elements"
        remedy = f"set group_size to {weight.sizes[0]}"
        yield Finding("scale-strategy", scales.name, evidence, remedy)
    if setting.get("desc_act") is False and weight.groups is not None:
        evidence = "the configuration says desc_act false, and groups of columns are no runs"
        remedy = "readers would take runs of columns for groups: set desc_act to true"
        yield Finding("group-index", weight.groups.name, evidence, remedy)
    if setting.get("sym") is True or setting.get("zero_point") is False:
        zeros, middle = zero_values(weight, dtype=np.int64), 1 << (bits - 1)
        if wrong := int(np.count_nonzero(zeros != middle)):
            evidence = f"weights are said to be symmetric, and {wrong:,} zero points are not {middle}"
            if (zeros == middle + 1).all() and weight.scheme.packing == ColumnWords(
                groups=".g_idx", down=True, plus=1
            ):
                evidence += ", but all one more, as in a file of version 2"
            remedy = "readers would take the middle: correct sym, or checkpoint_format"
            yield Finding("zero-point", points.name, evidence, remedy)


def _zero_points(weights: Sequence[Weight]) -> Iterator[Finding]:
    """Yield zero points of GPTQ that its readers do not agree on."""
    for weight in weights:
        layout = weight.scheme.packing
        if weight.problem is None and isinstance(layout, ColumnWords) and layout.plus and weight.zeros:
            top = (1 << weight.format.width) - 1
            if wrong := int(np.count_nonzero(layout.zeros(weight) > top)):
                evidence = f"{wrong:,} zero points are stored as {top}, which readers take for {top + 1} or 0"
                remedy = "0 cannot be stored in version 1 of the layout: export again as gptq_v2"
                yield Finding("zero-point", weight.zeros.name, evidence, remedy, "warning")


def _caches(config: Mapping[str, Any], weights: Sequence[Weight]) -> Iterator[Finding]:
    """Yield what is wrong with scales of the cache of keys and values."""
    scales = [weight for weight in weights if weight.name.endswith(CACHE_SCALES) and not weight.is_quantized]
    for weight in scales:
        if weight.codes.tag in ("F32", "F16", "BF16"):
            numbers = weight.codes.read().astype(np.float64).reshape(-1)
            if wrong := [number for number in numbers if not (np.isfinite(number) and number > 0)]:
                evidence, remedy = f"a scale of the cache is {wrong[0]:g}", "calibrate again"
                yield Finding("cache-scale-invalid", weight.name, evidence, remedy)
    said = config.get("kv_cache_scheme")
    if isinstance(said, dict) and said.get("dynamic") is not True and not scales:
        evidence = "kv_cache_scheme says that keys and values have scales, and the file has none"
        remedy = "readers take 1: export with k_scale and v_scale, or leave kv_cache_scheme out"
        yield Finding("cache-scale-missing", "config.json", evidence, remedy, "note")


def _is_linear(weight: Weight) -> bool:
    name = weight.name.lower()
    plain = len(weight.shape) == 2 and name.endswith(".weight") and weight.codes.tag in ("F32", "F16", "BF16")
    return plain and not any(word in name for word in ("embed", "norm", "lm_head", "router", ".gate."))


def _comfyui(checkpoint: Checkpoint, weights: Sequence[Weight]) -> Iterator[Finding]:
    is_marked = any(map(is_mark, checkpoint.entries.values()))
    scaled = [weight for weight in weights if weight.scheme.name == "comfyui scaled fp8"]
    if scaled and not is_marked and not any(name.endswith(".comfy_quant") for name in checkpoint.entries):
        what = f"{len(scaled)} weights have scale_weight"
        evidence = f"{what}, and there is no tensor scaled_fp8 or .comfy_quant"
        remedy = "without the mark scales are ignored; add it"
        yield Finding("comfyui-unmarked", scaled[0].name, evidence, remedy, "warning")
    for name, entry in checkpoint.entries.items():
        if name.endswith(".comfy_quant"):
            try:
                said = parse_json(entry.read().tobytes(), name).get("format")
            except CheckpointError as error:
                remedy = 'write JSON such as {"format": "float8_e4m3fn"}'
                yield Finding("comfyui-quant", name, str(error), remedy)
                continue
            of = checkpoint.entries.get(f"{name.removesuffix('.comfy_quant')}.weight")
            wanted = {
                "F8_E4M3": ("float8_e4m3fn", "mxfp8"),
                "F8_E5M2": ("float8_e5m2", "mxfp8"),
                "U8": ("nvfp4",),
            }
            if of is None or said not in wanted.get(of.tag, (said,)):
                has = "nothing" if of is None else of.tag
                evidence = f"it says {said!r}, and the weight beside it is {has}"
                yield Finding("comfyui-quant", name, evidence, "correct its format")


def _fused(weights: Sequence[Weight]) -> Iterator[Finding]:
    """Yield layers that servers join, whose tensor scales differ."""
    known = {each.name: each for each in weights if each.tensor and each.scheme.family in JOINING}
    for names in fused(known):
        numbers = {tuple(needed(known[name].tensor).read().reshape(-1).tolist()) for name in names}
        if len(numbers) > 1:
            evidence = f"the tensor scales of {', '.join(name.split('.')[-2] for name in names)} differ"
            remedy = (
                "servers that join them take one scale for all: give all the same when quantising, as "
                "`lowprec checkpoint quantize` does"
            )
            yield Finding("fused-scales-differ", names[0], evidence, remedy, "note")
