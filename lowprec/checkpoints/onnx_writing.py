"""ONNX models written in parts: nodes and header by the `onnx` package, initializers at their places.

A weight NAME becomes initializers NAME_quantized, NAME_scale and NAME_scale_2, and DequantizeLinear nodes
whose result is NAME, so that the nodes of an ONNX source need no change. Without such a source the results
are the model's outputs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy.typing as npt

from lowprec.checkpoints.container import TYPES, CheckpointError, Entry
from lowprec.checkpoints.onnx_reading import TYPE_TAGS, Decoded, load_onnx, open_onnx
from lowprec.checkpoints.writer import Writer

__all__ = ["OnnxWriter"]

Array = npt.NDArray[Any]
Plan = dict[str, tuple[str, tuple[int, ...]]]

_CODES, _SCALE, _OVER = "_quantized", "_scale", "_scale_2"
#: Version of the operators from which on DequantizeLinear takes a type, and that of models without a source.
_SINCE = {"I8": 13, "F8_E4M3": 19, "F8_E5M2": 19, "I4": 21, "F4": 23, "F8_E8M0": 24}
_BLOCKS, _RESULT, _NEWEST = 21, 23, 25
#: Bytes that protobuf takes at most.
_LARGEST = (1 << 31) - 1


class OnnxWriter(Writer):
    """An ONNX model; see `Writer`.

    Parameters
    ----------
    path : Path
    plan : iterable of (str, str, tuple of int)
        Name, type and shape of each initializer.
    metadata : mapping of str to str
    again : bool
    source : Path, optional
        An ONNX model whose nodes are kept.

    Raises
    ------
    CheckpointError
        More than 2 GB, or a source whose operators are too old for the types.
    """

    def __init__(
        self,
        path: Path,
        plan: Iterable[tuple[str, str, tuple[int, ...]]],
        metadata: Mapping[str, str],
        again: bool = False,
        source: Path | None = None,
    ) -> None:
        parts = {name: (tag, shape) for name, tag, shape in plan}
        model = _model(parts, metadata, source)
        graph = model.graph.SerializeToString()
        model.ClearField("graph")
        heads = {name: _head(name, tag, shape) for name, (tag, shape) in parts.items()}
        inside = len(graph) + sum(len(heads[name]) + _nbytes(*part) for name, part in parts.items())
        start = model.SerializeToString() + _field(7, inside) + graph
        pieces, entries, end = [(0, start)], [], len(start)
        for name, (tag, shape) in parts.items():
            pieces.append((end, heads[name]))
            end += len(heads[name])
            entries.append(Entry(name, tag, shape, path, end, _nbytes(tag, shape)))
            end += entries[-1].nbytes
        if end > _LARGEST:
            raise CheckpointError(
                f"the model would have {end:,} bytes, and an ONNX file has at most {_LARGEST:,}; leave "
                f"weights out, take fewer bits, or write a .safetensors file"
            )
        super().__init__(path, entries, pieces, end, again)


# -- bytes --------------------------------------------------------------------------------------------


def _nbytes(tag: str, shape: tuple[int, ...]) -> int:
    return -(-math.prod(shape) * TYPES[tag][1] // 8)


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def _field(number: int, size: int) -> bytes:
    """Return what comes before `size` bytes of a field of protobuf."""
    return _varint(number << 3 | 2) + _varint(size)


def _head(name: str, tag: str, shape: tuple[int, ...]) -> bytes:
    """Return all bytes of an initializer but its data, which follow."""
    tensor = _onnx().TensorProto(name=name, data_type=_kind(name, tag), dims=list(shape)).SerializeToString()
    raw = _field(9, _nbytes(tag, shape))
    return _field(5, len(tensor) + len(raw) + _nbytes(tag, shape)) + bytes(tensor) + raw


def _kind(name: str, tag: str) -> int:
    for kind, known in TYPE_TAGS.items():
        if known == tag:
            return int(_onnx().TensorProto.DataType.Value(kind))
    raise CheckpointError(f"tensor {name!r} is {tag}, which ONNX has no type for; dequantise it first")


def _onnx() -> Any:
    try:
        import onnx
    except ImportError:
        raise CheckpointError(
            "writing ONNX models needs the onnx package: pip install 'lowprec[onnx]'"
        ) from None
    return onnx


# -- nodes --------------------------------------------------------------------------------------------


def _model(parts: Plan, metadata: Mapping[str, str], source: Path | None) -> Any:
    """Return the model without initializers."""
    helper = _onnx().helper
    decoded: Mapping[str, Decoded] = {}
    types: dict[str, str] = {}
    if source is None:
        model = helper.make_model(
            helper.make_graph([], "weights", [], []), opset_imports=[helper.make_opsetid("", _NEWEST)]
        )
    else:
        model = load_onnx(source)
        entries, said, _, _ = open_onnx(source)
        decoded = said.decoded
        types = {name: entry.tag for name, entry in entries.items()}
        _emptied(model.graph, entries)
        kept = {item.name for item in decoded.values() if _is_kept(item, parts, entries)}
        decoded = {name: item for name, item in decoded.items() if item.name not in kept}
    stems = [name.removesuffix(_CODES) for name in parts if _is_new(name, parts)]
    new = [name for name in stems if not _is_read(model.graph, name + _CODES, decoded)]
    gone = [item for name, item in decoded.items() if name in new or name in parts]
    _without(model.graph, gone)
    for item in gone:
        _renamed(model.graph, item.name, next(name for name, other in decoded.items() if other is item))
    types |= {name: item.tag for name, item in decoded.items()}  # of results, which other nodes expect
    nodes: list[Any] = []
    since = 0
    for name in new:
        made = types[name] if types.get(name) in ("F16", "BF16") else "F32"
        nodes += _nodes(name, parts, made)
        since = max(since, _needed(name, parts, made))
        if source is None:
            _, shape = parts[name + _CODES]
            model.graph.output.append(helper.make_tensor_value_info(name, _kind(name, made), shape))
    _checked(model, since, source)
    others = list(model.graph.node)
    model.graph.ClearField("node")
    model.graph.node.extend([*nodes, *others])
    inputs = [item for item in model.graph.input if item.name not in new]
    model.graph.ClearField("input")
    model.graph.input.extend(inputs)
    props = {item.key: item.value for item in model.metadata_props} | dict(metadata)
    props.pop("format", None)
    helper.set_model_props(model, props)
    return model


def _is_new(name: str, parts: Plan) -> bool:
    """Return whether codes lie there that a node must decode, by names and types of them and their scale."""
    scale, _ = parts.get(name.removesuffix(_CODES) + _SCALE, ("", ()))
    return name.endswith(_CODES) and parts[name][0] in _SINCE and scale in ("F32", "F8_E4M3", "F8_E8M0")


def _emptied(graph: Any, entries: Mapping[str, Entry]) -> None:
    """Take out all initializers that are written anew, and Constant nodes that are initializers then."""
    left = [tensor for tensor in graph.initializer if tensor.name not in entries]
    nodes = [node for node in graph.node if node.op_type != "Constant" or node.output[0] not in entries]
    graph.ClearField("initializer")
    graph.ClearField("node")
    graph.initializer.extend(left)
    graph.node.extend(nodes)


def _is_kept(item: Decoded, parts: Plan, entries: Mapping[str, Entry]) -> bool:
    """Return whether all that a node reads is written as it was."""
    names = [name for name in (item.codes, item.scales, item.zeros, item.tensor) if name]
    return all(parts.get(name) == (entries[name].tag, entries[name].shape) for name in names)


def _is_read(graph: Any, codes: str, decoded: Mapping[str, Decoded]) -> bool:
    """Return whether a node that stays as it was reads these codes."""
    changed = {item.name for item in decoded.values()}
    nodes = (node for node in graph.node if node.op_type == "DequantizeLinear")
    return any(node.input[0] == codes and node.output[0] not in changed for node in nodes)


def _without(graph: Any, gone: Iterable[Decoded]) -> None:
    """Take out nodes, and those that made their scales and that nobody else reads."""
    names = {item.name for item in gone}
    dropped = [node for node in graph.node if node.output and node.output[0] in names]
    nodes = [node for node in graph.node if not (node.output and node.output[0] in names)]
    scales = {node.input[1] for node in dropped}
    read = {name for node in nodes for name in node.input} | {item.name for item in graph.output}
    nodes = [node for node in nodes if not (node.output and node.output[0] in scales - read)]
    graph.ClearField("node")
    graph.node.extend(nodes)


def _renamed(graph: Any, name: str, other: str) -> None:
    """Let all nodes, those of inner graphs too, read another name."""
    for node in graph.node if name != other else ():
        for place, given in enumerate(node.input):
            if given == name:
                node.input[place] = other
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                _renamed(inner, name, other)


def _nodes(name: str, parts: Plan, made: str) -> Iterator[Any]:
    """Yield the nodes that make a weight: its own, and before it that of scales that have one."""
    helper, (_, shape), (_, grid) = _onnx().helper, parts[name + _CODES], parts[name + _SCALE]
    scales, of = name + _SCALE, {}
    if name + _OVER in parts:
        scales = f"{name}{_SCALE}_dequantized"
        yield helper.make_node("DequantizeLinear", [name + _SCALE, name + _OVER], [scales])
    if grid:
        axis = next(
            axis for axis, (length, count) in enumerate(zip(shape, grid, strict=True)) if length != count
        )
        of = {"axis": axis, "block_size": shape[axis] // grid[axis]}
    if made != "F32" or parts[name + _SCALE][0] == "F8_E8M0":
        of["output_dtype"] = _kind(name, made)
    yield helper.make_node("DequantizeLinear", [name + _CODES, scales], [name], **of)


def _needed(name: str, parts: Plan, made: str) -> int:
    (tag, _), (scale, grid) = parts[name + _CODES], parts[name + _SCALE]
    return max(_SINCE[tag], _SINCE.get(scale, 0), _BLOCKS if grid else 0, _RESULT if made != "F32" else 0)


def _checked(model: Any, since: int, source: Path | None) -> None:
    """Hold the version of the operators against what is needed, and raise that of the format."""
    helper = _onnx().helper
    versions = [item.version for item in model.opset_import if item.domain in ("", "ai.onnx")]
    if source is not None and (not versions or versions[0] < since):
        has = versions[0] if versions else "no"
        raise CheckpointError(
            f"{str(source)!r} has operators of version {has}, and DequantizeLinear takes these types from "
            f"{since} on: convert it with onnx.version_converter first"
        )
    model.ir_version = max(model.ir_version, helper.find_min_ir_version_for(list(model.opset_import)))
