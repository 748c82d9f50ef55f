"""The weights of a checkpoint: which tensors belong together, found by names, types and the configuration."""

from __future__ import annotations

import functools
import math
import re
from collections import ChainMap
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lowprec.checkpoints.configured import Configured, unknown_method
from lowprec.checkpoints.container import CheckpointError, Entry, parse_json
from lowprec.checkpoints.containers.onnx_reading import Decoded
from lowprec.checkpoints.containers.saved import holds, in_catalog, said_by_lowprec, saved_in
from lowprec.checkpoints.containers.torch_reading import checked
from lowprec.checkpoints.folder import Checkpoint
from lowprec.checkpoints.incomplete import incomplete
from lowprec.checkpoints.patterns import UnknownError
from lowprec.checkpoints.schemes import bitsandbytes
from lowprec.checkpoints.schemes.packings import GROUPS
from lowprec.checkpoints.schemes.schemes import (
    COMFY_QUANT,
    FLOATS,
    INTEGERS,
    ONNX,
    PLAIN,
    SAVED,
    SCHEMES,
    TRANSFORMER_ENGINE,
    WEIGHT_SHAPE,
    ZERO_POINT,
    Scheme,
)
from lowprec.checkpoints.schemes.sharing import grid_of, is_six, misfit, needed, of_node, sizes_of
from lowprec.checkpoints.schemes.torchao import attributes
from lowprec.checkpoints.schemes.words import Words
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat
from lowprec.spec.families import fixed
from lowprec.spec.format import Format

__all__ = ["OVER", "Weight", "by_name", "sources_of", "weights_of"]

#: Names of integers that the catalog has not.
_ODD = re.compile("(u?)int([3567])")
#: Types of what DequantizeLinear makes.
_RESULTS = ("F32", "F16", "BF16")
#: What no JSON beside a weight has reason to exceed, in bytes.
_LONGEST_MARK = 1 << 12
#: What the largest magnitude is divided by for the scale of a tensor in NVFP4: the largest element and scale.
OVER = 6.0 * 448


@dataclass(frozen=True)
class Weight:
    """A weight of a checkpoint: its parts, or a tensor as it is.

    Parameters
    ----------
    name : str
        As the weight would be called without quantisation.
    scheme : Scheme
    codes : Entry
    scales, tensor : Entry, optional
    extras : tuple of Entry
    shape : tuple of int
        Of the codes; the weight's own unless it is `transposed`.
    sizes : tuple of int
        Elements that share a scale, along each axis; empty without scales.
    problem : (str, str), optional
        Why it cannot be decoded, as rule and evidence.
    swizzled : bool
        Whether the scales are said to lie in tiles of 128x4.
    zeros : Entry, optional
        What is subtracted from elements, with one for each scale.
    groups : Entry, optional
        Which scale each column has, where columns that share one are no run.
    rounded : str
        What values are rounded to at the end, if that is narrower than float32: the type's name in headers.
    over : float
        What the tensor's scale is divided by: of Transformer Engine, which stores the largest magnitude.
    summed : int
        The axis that products sum over, along which blocks lie: -1 or -2.
    saved : BlockFormat, optional
        Block format that the file defines, as those of `lowprec.save` do.
    axes : tuple of int
        Axes of the blocks of `saved`.
    """

    name: str
    scheme: Scheme
    codes: Entry
    scales: Entry | None = None
    tensor: Entry | None = None
    extras: tuple[Entry, ...] = ()
    shape: tuple[int, ...] = ()
    sizes: tuple[int, ...] = ()
    problem: tuple[str, str] | None = None
    swizzled: bool = False
    zeros: Entry | None = None
    groups: Entry | None = None
    rounded: str = ""
    over: float = 1.0
    summed: int = -1
    saved: BlockFormat | None = None
    axes: tuple[int, ...] = ()

    @property
    def is_quantized(self) -> bool:
        """True if the weight is more than a tensor of numbers as they are."""
        return self.scheme != PLAIN

    @property
    def element(self) -> str:
        """The name of the elements' format."""
        return self.scheme.element or FLOATS.get(self.codes.tag, self.codes.tag)

    @property
    def format(self) -> Format:
        """The elements' format; integers of 3, 5, 6 and 7 bits are not in the catalog."""
        odd = _ODD.fullmatch(self.element)
        if odd is None:
            return catalog.format(self.element)
        return fixed(self.element, int(odd[2]), signed=not odd[1])

    @property
    def scale(self) -> str:
        """The name of the scales' format, if there are any."""
        if self.scales is None:
            return self.scheme.scale
        return self.scheme.scale or FLOATS.get(self.scales.tag, self.scales.tag)

    @property
    def parts(self) -> tuple[Entry, ...]:
        """All tensors that it is made of."""
        others = (self.scales, self.tensor, self.zeros)
        return (self.codes, *(part for part in others if part is not None), *self.extras)

    def extra(self, end: str) -> Entry | None:
        """Return the first of `extras` whose name ends so."""
        return next((part for part in self.extras if part.name.endswith(end)), None)

    @property
    def grid(self) -> tuple[int, ...]:
        """Scales along each axis."""
        return grid_of(self.shape, self.sizes)

    @property
    def value_shape(self) -> tuple[int, ...]:
        """The shape of the weight."""
        return (*self.shape[:-2], *self.shape[-2:][::-1]) if self.scheme.transposed else self.shape

    @property
    def is_turned(self) -> bool:
        """True if rows of its codes are columns of its values."""
        return self.scheme.transposed and len(self.shape) == 2

    @property
    def blocks(self) -> str:
        """Elements that share a scale, in words."""
        if not self.sizes:
            return "-"
        if self.sizes == self.shape or all(
            size >= length for size, length in zip(self.sizes, self.shape, strict=True)
        ):
            return "tensor"
        if self.groups is not None:
            return "group"
        turned = self.scheme.block is None and self.is_turned
        sizes, shape = (part[::-1] if turned else part for part in (self.sizes, self.shape))
        if self.scheme.block is None and sizes[:-1] == (1,) * (len(sizes) - 1) and sizes[-1] >= shape[-1]:
            return "channel"
        first = next((place for place, size in enumerate(sizes) if size > 1), -1)
        return "x".join(map(str, sizes[first:]))


def weights_of(checkpoint: Checkpoint) -> tuple[Weight, ...]:
    """Return all weights of a checkpoint, quantised or not, in the order of their files.

    In an ONNX model nodes alone say what is quantised: what they decode comes first, in their order, and
    parts may be shared. Else each tensor belongs to exactly one, and what belongs together is found by names
    and types, and by the configuration where these leave a choice. Nothing but headers
    is read, and small tensors that say how others are read.
    """
    entries, is_onnx = checkpoint.entries, checkpoint.path.suffix == ".onnx"
    found: dict[str, Weight] = {}
    for name, (fmt, axes) in saved_in(checkpoint.metadata, repr(str(checkpoint.path))).blocks.items():
        if name in entries:
            found[name] = _saved(name, fmt, axes, entries)
    nodes = [_decoded(name, said, checkpoint) for name, said in checkpoint.graph.decoded.items()]
    taken = {part.name for weight in (*found.values(), *nodes) for part in weight.parts}
    six_bits, configured = _six_bits(checkpoint), Configured(checkpoint.config, len(entries))
    for name, entry in entries.items():
        weight = (
            None if name in taken or is_onnx else _quantized(name, entry, checkpoint, six_bits, configured)
        )
        if weight is not None:
            found[name] = weight
            taken |= {part.name for part in weight.parts}
    left = {name: entry for name, entry in entries.items() if name not in taken}
    if not is_onnx and checkpoint.path.suffix != ".gguf":  # where nodes and types say what is quantised
        for entry, beside, problem in incomplete(left, checkpoint, bool(found)):
            found[entry.name] = Weight(
                entry.name, PLAIN, entry, extras=beside, shape=entry.shape, problem=problem
            )
            taken |= {part.name for part in found[entry.name].parts}
    for name, entry in entries.items():
        if name not in taken:
            summed, why = checkpoint.graph.summed.get(name, -1), checkpoint.graph.undecoded.get(name)
            unread = None if why is None else ("not-read", why)
            found[name] = Weight(name, PLAIN, entry, shape=entry.shape, summed=summed, problem=unread)
    whole = (*nodes, *(found[name] for name in entries if name in found))
    strange = unknown_method(checkpoint.config)
    return tuple(map(functools.partial(_of_unknown, strange), whole)) if strange else whole


def _of_unknown(strange: str, weight: Weight) -> Weight:
    """Return a weight of a method that is not known: what does not fit the known schemes is not broken."""
    if weight.problem is None:
        return weight
    of = f"{weight.codes.name} is {weight.codes.tag} of shape {list(weight.codes.shape)}"
    return replace(weight, problem=("unknown-scheme", f"{strange}; {of}"))


def by_name(checkpoint: Checkpoint, names: Collection[str]) -> dict[str, Weight]:
    """Return the weights that have some names.

    Raises CheckpointError: two weights have one of these, so that either may be meant.
    """
    found: dict[str, Weight] = {}
    for weight in weights_of(checkpoint):
        if weight.name in names:
            other = found.setdefault(weight.name, weight)
            if other is not weight:
                raise CheckpointError(
                    f"{str(checkpoint.path)!r} has two weights {weight.name!r}, of tensors "
                    f"{other.codes.name!r} and {weight.codes.name!r}; remove or rename one"
                )
    return found


def sources_of(weights: Collection[Weight], source: Checkpoint) -> dict[str, Weight]:
    """Return the weights that some were made of, by the names of these.

    Most schemes call the parts of `w` as those of `w.weight`, which is looked for first.

    Raises CheckpointError: two weights of the source have the name.
    """
    short = {weight.name: weight.name.removesuffix(".weight") for weight in weights if weight.is_quantized}
    found = by_name(source, {*(weight.name for weight in weights), *short.values()})
    for weight in weights:
        other = found.get(short.get(weight.name, ""))
        if weight.name not in found and other is not None and other.value_shape == weight.value_shape:
            found[weight.name] = other
    return found


def _saved(name: str, fmt: BlockFormat, axes: tuple[int, ...], entries: Mapping[str, Entry]) -> Weight:
    """Return a `BlockArray` of `lowprec.save` as a weight."""
    codes, scales = entries[name], entries.get(name + SAVED.scales)
    sizes = dict(zip(axes, fmt.sizes, strict=False))
    blocks = tuple(sizes.get(axis, 1) for axis in range(len(codes.shape)))
    scheme = replace(
        SAVED,
        element=fmt.element.name,
        scale=fmt.scale.name,
        block=(1, *blocks)[-2:],  # type: ignore[arg-type]
    )
    grid = grid_of(codes.shape, blocks)
    tensor, problem = entries.get(name + SAVED.tensor), None
    if len(sizes) != len(fmt.sizes) or len(axes) != len(sizes) or max(axes) >= len(codes.shape):
        what = f"lie along {len(fmt.sizes)} of the {len(codes.shape)} axes, and not along {list(axes)}"
        problem = "shape", f"{name} is in {fmt.name}, whose blocks {what}"
    elif scales is None or scales.shape != grid:
        has = "none" if scales is None else str(list(scales.shape))
        problem = "shape", f"scales of {name} must have shape {list(grid)}, and the file has {has}"
    elif not (in_catalog(fmt.element) and in_catalog(fmt.scale)):
        problem = "private-format", f"{name} is in {fmt.name}, whose formats the catalog has not"
    elif not (holds(codes.tag, fmt.element) and holds(scales.tag, fmt.scale)):
        problem = "saved-type", f"{name} is in {fmt.name}, and its tensors are {codes.tag} and {scales.tag}"
    elif tensor is None and fmt.tensor_scale != "none":
        problem = "missing-tensor-scale", f"{name} has no tensor_scale beside it"
    elif tensor is not None and fmt.tensor_scale == "none":
        problem = "saved-type", f"{name} is in {fmt.name}, which has no tensor scale: {tensor.name}"
    return Weight(name, scheme, codes, scales, tensor, (), codes.shape, blocks, problem, saved=fmt, axes=axes)


def _decoded(name: str, said: Decoded, checkpoint: Checkpoint) -> Weight:
    """Return what a DequantizeLinear node of an ONNX model makes as a weight."""
    entries = checkpoint.entries
    codes, scales = entries[said.codes], entries[said.scales]
    zeros, tensor = entries.get(said.zeros), entries.get(said.tensor)
    weight = Weight(name, ONNX, codes, scales, tensor, shape=codes.shape, zeros=zeros)
    sizes = of_node(codes.shape, scales.shape, said.axis, said.size)
    known = INTEGERS.get(codes.tag, "") or (FLOATS.get(codes.tag, "") if codes.bits <= 8 else "")
    wrong = ""
    numbers = [] if zeros is None else [math.prod(part.shape) for part in (zeros, scales)]
    fits = zeros is None or zeros.shape == scales.shape or numbers == [1, 1]
    if sizes is None or not fits:
        what = "" if zeros is None else f", and zero points of shape {list(zeros.shape)}"
        wrong = (
            f"scales {scales.name} of shape {list(scales.shape)}{what} do not fit {list(codes.shape)} codes "
            f"by axis {said.axis} and block_size {said.size}"
        )
    elif not known or zeros is not None and zeros.tag != codes.tag:
        wrong = f"{codes.name} is {codes.tag}{'' if zeros is None else f' and {zeros.name} {zeros.tag}'}"
    if scales.tag not in FLOATS or scales.tag == "F64" or said.tag not in _RESULTS:
        what = (
            f"scales {scales.name} are {scales.tag}, and the result of DequantizeLinear would be {said.tag}"
        )
        return replace(weight, problem=("scale-type", what))
    if wrong or sizes is None:
        return replace(weight, problem=("shape", wrong))
    summed = checkpoint.graph.summed.get(name, -1)
    along = tuple(sizes[-2:]) if summed == -1 else tuple(sizes[-2:])[::-1]
    # ONNX Runtime's symmetric INT4 gives a scale the sign of the largest value, as ggml does.
    scheme = replace(ONNX, element=known, signed=codes.tag in INTEGERS)
    for each in SCHEMES:
        parts = (codes.tag,) == each.code_tags and (scales.tag,) == each.scale_tags
        if each.family == ONNX.family and parts and bool(each.tensor) == bool(tensor):
            if zeros is None and each.block in (None, along) and (each.block is None) == (not said.size):
                scheme = each
    rounded = "" if said.tag == "F32" else said.tag
    return replace(weight, scheme=scheme, sizes=sizes, rounded=rounded, summed=summed)


def _quantized(
    name: str,
    entry: Entry,
    checkpoint: Checkpoint,
    six_bits: Callable[[str, Entry], object],
    configured: Configured,
) -> Weight | None:
    entries, config = checkpoint.entries, checkpoint.config
    module = name.removesuffix(".weight")
    said = ChainMap(_of_comfyui(module, entries), config)  # type: ignore[arg-type]  # it is only read
    if name != module and is_six(entry, entries.get(f"{name}_scale")):
        said = said.new_child({"weight_dtype": six_bits(module, entry)})
    fitting = [scheme for scheme in _candidates(name, entry) if _is_marked(scheme, said)]
    for exact in (True, False):
        for scheme in fitting:
            stem = name.removesuffix(scheme.codes)
            if scheme.unless and stem + scheme.unless in entries:
                continue
            scales = entries.get(stem + scheme.scales) if scheme.scales else None
            if isinstance(scheme.packing, Words) and not scheme.packing.fits(entry, scales):
                continue
            if scheme.scales and scales is None:
                if exact or not (scheme.is_distinctive and len(entry.shape) >= 2):
                    continue
            elif scales is not None and (scales.tag in scheme.scale_tags) != exact:
                continue
            tensor = entries.get(stem + scheme.tensor) if scheme.tensor else None
            if exact and scheme.tensor and tensor is None and any(map(scheme.is_but_for_tensor, fitting)):
                continue
            if scheme.state and (stem + scheme.state not in entries or not exact):
                continue
            if scheme.element in ("e2m3fn", "e3m2fn") and not is_six(entry, scales):
                continue
            ends = dict.fromkeys((*scheme.extras, ZERO_POINT, *([scheme.state] if scheme.state else [])))
            extras = tuple(
                entries[stem + end] for end in ends if stem + end in entries and end != scheme.zeros
            )
            zeros = entries.get(stem + scheme.zeros) if scheme.zeros else None
            found = Weight(stem + scheme.weight, scheme, entry, scales, tensor, extras, zeros=zeros)
            told = scheme.family in ("torchao", TRANSFORMER_ENGINE)
            said_of = attributes(checkpoint.metadata_of(entry), found.name) if told else {}
            said_of = checked(said_of) if scheme.family == TRANSFORMER_ENGINE else said_of
            if scheme.name in ("float-quantized", "int-quantized", "pack-quantized"):
                said_of = configured.block_of(stem)
            found = _resolved(found, ChainMap(said_of, config))  # type: ignore[arg-type]  # it is only read
            return found if found.problem is not None else replace(found, problem=_denied(found))
    return None


def _denied(weight: Weight) -> tuple[str, str] | None:
    """Return what a tensor beside a weight says against it, as rule and evidence; None if none does."""
    lengths = weight.extra(WEIGHT_SHAPE) if WEIGHT_SHAPE in weight.scheme.extras else None
    shape = [*weight.value_shape]
    if lengths is not None and (said := lengths.read().reshape(-1).tolist()) != shape:
        return "shape", f"{lengths.name} says {said}, and {weight.codes.name} has {shape} codes"
    zeros = None if weight.scheme.zeros else weight.extra(ZERO_POINT)
    if zeros is not None and (zeros.read() != 0).any():
        name = weight.scheme.name
        return "zero-point", f"{zeros.name} has others than 0, which values of {name} are not shifted by"
    return None


def _candidates(name: str, entry: Entry) -> Iterator[Scheme]:
    for scheme in SCHEMES:
        known = scheme.family != ONNX.family  # whose nodes say what belongs together, and no names do
        if known and name.endswith(scheme.codes) and entry.tag in scheme.code_tags:
            yield scheme


def _six_bits(checkpoint: Checkpoint) -> Callable[[str, Entry], object]:
    """Return a function that gives the format of a module's codes of six bits, by Quark's name.

    Quark's configuration says it, of layers or of all, or else what lowprec wrote into the file of the codes.
    Nothing says it where a pattern is not understood.
    """
    configured = Configured(checkpoint.config, len(checkpoint.entries))

    @functools.cache
    def made(path: Path) -> str:
        said = said_by_lowprec(checkpoint.headers.get(path, checkpoint.metadata))
        return str(said.get("format", "")).replace("mxfp6_", "fp6_")

    def format_of(module: str, codes: Entry) -> object:
        try:
            said = configured.quark_weight(module)
        except UnknownError:
            return None
        return said["dtype"] if "dtype" in said else made(codes.path)

    return format_of


def _of_comfyui(stem: str, entries: Mapping[str, Entry]) -> dict[str, Any]:
    """Return the format that ComfyUI's JSON beside a weight says."""
    entry = entries.get(stem + COMFY_QUANT)
    if entry is None or entry.tag != "U8" or entry.nbytes > _LONGEST_MARK:
        return {}
    try:
        return {COMFY_QUANT: parse_json(entry.read().tobytes(), entry.name).get("format")}
    except CheckpointError:
        return {}


def _is_marked(scheme: Scheme, config: Mapping[str, Any]) -> bool:
    return all(config.get(key) == value for key, value in scheme.marks.items())


def _resolved(weight: Weight, config: Mapping[str, Any]) -> Weight:
    """Return the weight with the shape of its codes, and what shares a scale, or the problem with that."""
    scheme = weight.scheme
    if scheme.state:
        return bitsandbytes.resolved(weight)
    said = scheme.block is not None and config.get("is_swizzled_scales") is True
    over = 6.0 * 256 if config.get("nvfp4_e4m3_max") == 256 else OVER
    weight = replace(
        weight,
        shape=scheme.packing.shape(weight.codes.shape, scheme.element),
        swizzled=scheme.swizzled or said,
        over=over if scheme.family == TRANSFORMER_ENGINE and scheme.tensor else 1.0,
    )
    problem = _parts_problem(weight, config)
    if problem is not None:
        return replace(weight, problem=problem)
    if scheme.family == "gguf":
        return replace(weight, sizes=(*[1] * (len(weight.shape) - 1), scheme.block[1]))  # type: ignore[index]
    scales = needed(weight.scales)
    if scheme.by_scale and scales.tag != "F32":
        weight = replace(weight, rounded=scales.tag)
    if isinstance(scheme.packing, Words):
        return scheme.packing.resolved(weight, config)
    sizes = sizes_of(weight, config)
    if sizes is None:
        return replace(weight, problem=("shape", misfit(weight, config)))
    zeros, tag, grid = weight.zeros, weight.codes.tag, scales.shape
    if zeros is not None and (zeros.tag, zeros.shape) != (tag, grid):
        has = f"{zeros.name} is {zeros.tag} of shape {list(zeros.shape)}"
        return replace(weight, problem=("shape", f"{has}, and must be {tag} of shape {list(grid)}"))
    return replace(weight, sizes=sizes)


def _parts_problem(weight: Weight, config: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return which part is missing or of a wrong type, as rule and evidence; None if all are there."""
    scheme, codes, scales, tensor = weight.scheme, weight.codes, weight.scales, weight.tensor
    if scheme.packing == GROUPS and (len(codes.shape) < 2 or codes.shape[-1] != 16):
        return "shape", f"codes of shape {list(codes.shape)} are no groups of 16 bytes"
    if scheme.family == "gguf":
        return None
    if scales is None:
        return "missing-scale", f"{codes.name} has no {scheme.scales.lstrip('.')} beside it"
    if scales.tag not in scheme.scale_tags:
        tags = " or ".join(scheme.scale_tags)
        return "scale-type", f"{scales.name} is {scales.tag}, and scales of {scheme.name} are {tags}"
    if tensor is not None and tensor.tag not in FLOATS:
        return "scale-type", f"{tensor.name} is {tensor.tag}, and a tensor's scale is a float"
    said_parts = config.get("_tensor_data_names", ())  # of torchao, where the tensor's scale may be left out
    if scheme.tensor and tensor is None and (scheme.family != "torchao" or "per_tensor_scale" in said_parts):
        return "missing-tensor-scale", f"{codes.name} has no {scheme.tensor.lstrip('.')} beside it"
    other = scheme.unless.replace("_data", "_scale_inv")
    if other and weight.extra(other):
        what = f"{weight.name} has {other.lstrip('.')} and no {scheme.unless.lstrip('.')} beside it"
        return "missing-codes", what
    needs_zeros = scheme.zeros not in ("", ZERO_POINT) or config.get("symmetric") is False
    if scheme.zeros and weight.zeros is None and needs_zeros:
        return "missing-zero-point", f"{codes.name} has no {scheme.zeros.lstrip('.')} beside it"
    return None
