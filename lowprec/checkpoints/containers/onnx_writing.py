"""ONNX models written in parts: nodes and header by the `onnx` package, initializers at their places.

A weight NAME becomes initializers NAME_quantized, NAME_scale and NAME_scale_2, and DequantizeLinear nodes
whose result is NAME, so that the nodes of an ONNX source need no change. Without such a source all weights
are the model's outputs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt

from lowprec.checkpoints.container import TYPES, CheckpointError, Entry
from lowprec.checkpoints.containers.onnx_reading import TYPE_TAGS, Decoded, initializers, inlined, open_onnx
from lowprec.checkpoints.containers.writer import Laid, Planned, Writer
from lowprec.checkpoints.patterns import exactly

__all__ = ["OnnxWriter"]

Array = npt.NDArray[Any]
Plan = dict[str, tuple[str, tuple[int, ...]]]

_CODES, _SCALE, _OVER = "_quantized", "_scale", "_scale_2"
#: Added to a weight's name for the result of a node that multiplies scales by the tensor's scale.
_SCALES = "_scale_dequantized"
#: Versions of the operators: the first whose DequantizeLinear takes a type, blocks, or an output's type, and
#: that of models without a source.
_SINCE = {"I8": 13, "F8_E4M3": 19, "F8_E5M2": 19, "I4": 21, "F4": 23, "F8_E8M0": 24}
_BLOCKS, _RESULT, _NEWEST = 21, 23, 25
#: Types of what DequantizeLinear makes.
_RESULTS = ("F32", "F16", "BF16")
#: Bytes that protobuf takes at most.
_LARGEST = (1 << 31) - 1


class OnnxWriter(Writer):
    """An ONNX model; see `Writer`.

    Raises
    ------
    CheckpointError
        More than 2 GiB; a tensor without a name, or with the name of a weight's part or result; names that
        other nodes of the source have, operators too old for the types, or values of another type than its
        nodes expect.
    """

    def _laid(self, path: Path, plan: Sequence[Planned], metadata: Mapping[str, str]) -> Laid:
        parts, quantized = {name: (tag, shape) for name, tag, shape in plan}, self._split
        _check_names(parts, quantized)
        model = _new(parts, quantized) if self._source is None else _changed(parts, quantized, self._source)
        _described(model, metadata)
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
        return entries, pieces, end


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
    """Return all bytes of an initializer except its data, which follow."""
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


def _check_names(parts: Plan, quantized: Mapping[str, Collection[str]]) -> None:
    """Refuse tensors without a name, and those with a name that a weight's initializers or nodes take."""
    if "" in parts:
        raise CheckpointError("an ONNX model holds no tensor of the empty name; rename it")
    for name, made in quantized.items():
        for other in (name, *(name + end for end in (_CODES, _SCALE, _OVER, _SCALES))):
            if other in parts and other not in made:
                raise CheckpointError(
                    f"tensor {other!r} has a name that weight {name!r} takes in an ONNX model; rename the "
                    f"tensor, or leave the weight out with --exclude {exactly(name)!r}"
                )


def _check_unique(names: Iterable[str]) -> None:
    """Refuse a name that two initializers, results or inputs of a model would have."""
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise CheckpointError(f"two tensors of the model would be called {twice[0]!r}: rename one")


def _results(graph: Any) -> list[str]:
    """Return the names of all that the nodes of a graph compute."""
    return [name for node in graph.node for name in node.output if name]


def _new(parts: Plan, quantized: Mapping[str, Collection[str]]) -> Any:
    """Return a model with all weights as outputs, and no initializers."""
    helper = _onnx().helper
    model = helper.make_model(
        helper.make_graph([], "weights", [], []), opset_imports=[helper.make_opsetid("", _NEWEST)]
    )
    inside = {name + end for name in quantized for end in (_CODES, _SCALE, _OVER)}
    shapes = {name: ("F32", parts[name + _CODES][1]) for name in quantized}
    shapes |= {name: part for name, part in parts.items() if name not in inside}
    for name, (tag, shape) in shapes.items():
        model.graph.output.append(helper.make_tensor_value_info(name, _kind(name, tag), shape))
    for name in quantized:
        model.graph.node.extend(_nodes(name, parts, "F32", name))
    _check_unique([*parts, *_results(model.graph)])
    return model


def _changed(parts: Plan, quantized: Mapping[str, Collection[str]], source: Path) -> Any:
    """Return the source's model with nodes for quantised weights, and the initializers still in use."""
    entries, said, _, _, model = open_onnx(source)
    graph = model.graph
    before = {*entries, *_results(graph)}
    types = {name: entry.tag for name, entry in entries.items()}
    types |= {name: item.tag for name, item in said.decoded.items()}  # the types that other nodes expect
    tensors = dict(initializers(graph))
    gone = {name: item for name, item in said.decoded.items() if name in quantized or name in parts}
    _replace(graph.initializer, [tensor for tensor in graph.initializer if tensor.name not in entries])
    _without(graph, gone.values(), entries)
    made_anew = {part: name for name, made in quantized.items() for part in made}
    if read := sorted(_read(graph) & entries.keys() & made_anew.keys()):
        raise CheckpointError(
            f"tensor {read[0]!r} of {str(source)!r} is read by other nodes too, and weight "
            f"{made_anew[read[0]]!r} would replace it; rename it, or leave the weight out with --exclude"
        )
    nodes: list[Any] = []
    since = 0
    for name in quantized:
        made = types[name]
        if made not in _RESULTS:
            raise CheckpointError(
                f"weight {name!r} of {str(source)!r} is {made}, and DequantizeLinear makes F32, F16 or BF16, "
                f"which other nodes do not expect; leave it out with --exclude"
            )
        nodes += _nodes(name, parts, made, gone[name].name if name in gone else name)
        since = max(since, _needed(name, parts, made))
    versions = [item.version for item in model.opset_import if item.domain in ("", "ai.onnx")]
    if not versions or versions[0] < since:
        has = versions[0] if versions else "no"
        raise CheckpointError(
            f"{str(source)!r} has operators of version {has}, and DequantizeLinear takes these types "
            f"and blocks from {since} on: convert it with onnx.version_converter first"
        )
    _replace(graph.node, [*nodes, *graph.node])
    for name, (tag, _) in parts.items():
        if name not in made_anew and (wanted := types.get(name, tag)) != tag:
            exclude = "leave it out with --exclude, or write a .safetensors file"
            raise CheckpointError(
                f"weight {name!r} would be {tag}, and other nodes of {str(source)!r} expect {wanted}; "
                f"{f'use --dtype {wanted}' if wanted in _RESULTS else exclude}"
            )
    for name, item in gone.items():
        if name in parts:
            _renamed(graph, item.name, name)
    _replace(graph.input, [item for item in graph.input if item.name in parts or item.name not in entries])
    made_by_nodes = _results(graph)
    new = {*parts, *made_by_nodes} - before
    inner = {*_inner_names(graph)} & new
    _check_unique(
        [*parts, *made_by_nodes, *inner, *(item.name for item in graph.input if item.name not in entries)]
    )
    for name in sorted(_read(graph) & entries.keys() - parts.keys() - {*made_by_nodes}):
        tensors[name].name = name  # a part of a weight that other nodes read too
        graph.initializer.append(tensors[name])
    inlined(source, model, _LARGEST)
    return model


def _described(model: Any, metadata: Mapping[str, str]) -> None:
    """Add metadata, and raise the version of the format to that of the operators."""
    helper = _onnx().helper
    made = {key: text for key, text in metadata.items() if key != "format"}  # an entry of safetensors
    kept = {item.key: item.value for item in model.metadata_props if item.key != "lowprec"}
    helper.set_model_props(model, kept | made)
    # Domains of others have no versions that the onnx package knows.
    model.ir_version = max(model.ir_version, helper.find_min_ir_version_for([*model.opset_import], True))


def _replace(field: Any, items: Iterable[Any]) -> None:
    """Let a repeated field of protobuf hold these."""
    kept = list(items)
    del field[:]
    field.extend(kept)


def _read(graph: Any) -> set[str]:
    """Return the names that nodes read, those of inner graphs too, and of outputs."""
    found = {item.name for item in graph.output}
    for node in graph.node:
        found.update(node.input)
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                found |= _read(inner)
    return found


def _inner_names(graph: Any) -> Iterator[str]:
    """Yield names of inner graphs' initializers, inputs and results, which shadow outer ones."""
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from (item.name for item in (*inner.initializer, *inner.input))
                yield from (item.values.name for item in inner.sparse_initializer)
                yield from _results(inner)
                yield from _inner_names(inner)


def _without(graph: Any, gone: Iterable[Decoded], constants: Collection[str]) -> None:
    """Remove the nodes of decoded weights, those that computed only their scales, and Constant nodes."""
    names = {item.name for item in gone} | {*constants}
    scales = {node.input[1] for node in graph.node if names & {*node.output} and len(node.input) > 1}
    _replace(graph.node, [node for node in graph.node if not names & {*node.output}])
    unread = scales - _read(graph)
    _replace(graph.node, [node for node in graph.node if not unread & {*node.output}])


def _renamed(graph: Any, name: str, other: str) -> None:
    """Let all nodes, inner ones too, read `other` for `name`; an output keeps its name by an Identity."""
    for node in graph.node if name != other else ():
        for place, given in enumerate(node.input):
            if given == name:
                node.input[place] = other
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                _renamed(inner, name, other)
    if name != other and name in [item.name for item in graph.output]:
        graph.node.append(_onnx().helper.make_node("Identity", [other], [name]))


def _nodes(name: str, parts: Plan, made: str, result: str) -> Iterator[Any]:
    """Yield a weight's DequantizeLinear, after that of its scales if these have a tensor scale."""
    helper, (_, shape), (_, grid) = _onnx().helper, parts[name + _CODES], parts[name + _SCALE]
    scales, of = name + _SCALE, {}
    if name + _OVER in parts:
        scales = name + _SCALES
        yield helper.make_node("DequantizeLinear", [name + _SCALE, name + _OVER], [scales])
    if grid:
        axis = next(
            axis for axis, (length, count) in enumerate(zip(shape, grid, strict=True)) if length != count
        )
        of = {"axis": axis, "block_size": shape[axis] // grid[axis]}
    if made != "F32" or parts[name + _SCALE][0] == "F8_E8M0":
        of["output_dtype"] = _kind(name, made)
    yield helper.make_node("DequantizeLinear", [name + _CODES, scales], [result], **of)


def _needed(name: str, parts: Plan, made: str) -> int:
    (tag, _), (scale, grid) = parts[name + _CODES], parts[name + _SCALE]
    return max(_SINCE[tag], _SINCE.get(scale, 0), _BLOCKS if grid else 0, _RESULT if made != "F32" else 0)
