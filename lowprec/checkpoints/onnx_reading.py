"""ONNX models, by the `onnx` package: initializers, and the weights that DequantizeLinear makes of them.

Types 1 to 28 but strings and complex numbers, in raw_data, in the fields of numbers, or in external files.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.checkpoints.container import TYPES, CheckpointError, Entry, HeldEntry, counts

__all__ = ["TYPE_TAGS", "Decoded", "Graph", "Model", "load_onnx", "open_onnx"]

Array = npt.NDArray[Any]

#: Names of types here by TensorProto's.
TYPE_TAGS: Mapping[str, str] = {
    "FLOAT": "F32", "UINT8": "U8", "INT8": "I8", "UINT16": "U16", "INT16": "I16", "INT32": "I32",
    "INT64": "I64", "BOOL": "BOOL", "FLOAT16": "F16", "DOUBLE": "F64", "UINT32": "U32", "UINT64": "U64",
    "BFLOAT16": "BF16", "FLOAT8E4M3FN": "F8_E4M3", "FLOAT8E4M3FNUZ": "F8_E4M3FNUZ", "FLOAT8E5M2": "F8_E5M2",
    "FLOAT8E5M2FNUZ": "F8_E5M2FNUZ", "UINT4": "U4", "INT4": "I4", "FLOAT4E2M1": "F4", "FLOAT8E8M0": "F8_E8M0",
    "UINT2": "U2", "INT2": "I2", "FLOAT6E2M3": "F6_E2M3", "FLOAT6E3M2": "F6_E3M2",
}  # fmt: skip
#: Fields of numbers, and the type of their words; of 32-bit ones the low bytes are meant.
_FIELDS: Mapping[str, np.dtype[Any]] = {
    "float_data": np.dtype("<f4"), "int32_data": np.dtype("<i4"), "int64_data": np.dtype("<i8"),
    "double_data": np.dtype("<f8"), "uint64_data": np.dtype("<u8"),
}  # fmt: skip
#: What exporters add to a weight's name for what DequantizeLinear makes.
_MADE = ("_DequantizeLinear_Output", "_dequantized")


class Decoded(NamedTuple):
    """What a DequantizeLinear node makes of initializers: their names, and its attributes."""

    name: str  #: of the result
    codes: str
    scales: str
    zeros: str
    tensor: str  #: the scale of the scales, where these are the result of such a node
    axis: int
    size: int
    tag: str  #: type of the result


@dataclass(frozen=True)
class Graph:
    """What an ONNX model says about its initializers.

    Parameters
    ----------
    decoded : mapping of str to Decoded
        By the name of the weight: that of the result, without what exporters add.
    summed : mapping of str to int
        Of initializers that matrix products take, the axis that they sum over: -1, or -2.
    """

    decoded: Mapping[str, Decoded] = field(default_factory=dict)
    summed: Mapping[str, int] = field(default_factory=dict)


def load_onnx(path: Path) -> Any:
    """Return the model of a file, without external data.

    Raises CheckpointError: a file that is none, or the `onnx` package is missing.
    """
    try:
        import onnx
    except ImportError:
        raise CheckpointError("ONNX models need the onnx package: pip install 'lowprec[onnx]'") from None
    try:
        model = onnx.load_model(str(path), format="protobuf", load_external_data=False)
    except Exception as error:  # protobuf's own, of versions that differ
        raise CheckpointError(f"cannot read {str(path)!r} as an ONNX model: {error}") from None
    if any(isinstance(text, bytes) for text in _texts(model)):  # protobuf's way to say so
        raise CheckpointError(f"{str(path)!r} has names that are no UTF-8: it is damaged")
    if not model.graph.node and not model.graph.initializer:
        raise CheckpointError(f"{str(path)!r} is no ONNX model: it has neither nodes nor initializers")
    return model


def _texts(model: Any) -> Iterator[Any]:
    """Yield the names and texts of a model."""
    for node in model.graph.node:
        yield from (node.op_type, *node.input, *node.output, *(item.name for item in node.attribute))
    for _, tensor in _tensors(model.graph):
        for item in tensor.external_data:
            yield from (item.key, item.value)
    yield from (node.name for node in model.graph.node)
    yield from (tensor.name for tensor in (*model.graph.initializer, *model.graph.input, *model.graph.output))
    for item in (*model.metadata_props, *model.opset_import):
        yield from (item.domain,) if hasattr(item, "domain") else (item.key, item.value)


class Model(NamedTuple):
    """What a file holds."""

    entries: dict[str, Entry]
    graph: Graph
    metadata: dict[str, str]
    notes: tuple[tuple[str, str], ...]  #: what is not read, for `lint`


def open_onnx(path: Path) -> Model:
    """Return the initializers of a model's graph by their names, and what its nodes make of them.

    Constant nodes count as initializers; graphs inside of nodes are not looked at.

    Raises
    ------
    CheckpointError
        A file that is no model; a tensor whose shape and data contradict each other; external data outside of
        the model's folder or beyond the end of their file.
    """
    model = load_onnx(path)
    entries: dict[str, Entry] = {}
    for name, tensor in _tensors(model.graph):
        if name in entries:
            raise CheckpointError(f"{str(path)!r} has two initializers {name!r}")
        entry = _entry(path, name, tensor)
        if entry is not None:
            entries[name] = entry
    metadata = {item.key: item.value for item in model.metadata_props}
    notes = []
    for node in model.graph.node:
        inner = [graph for item in node.attribute for graph in (item.g, *item.graphs)]
        if count := sum(1 for graph in inner for _ in _tensors(graph)):
            notes.append(("not-read", f"{node.name or node.op_type} has graphs inside with {count} tensors"))
    return Model(entries, _graph(model.graph, entries), metadata, tuple(notes))


def _tensors(graph: Any) -> Iterator[tuple[str, Any]]:
    for tensor in graph.initializer:
        yield tensor.name, tensor
    for node in graph.node:
        for attribute in node.attribute if node.op_type == "Constant" else ():
            if attribute.name == "value" and node.output:
                yield node.output[0], attribute.t


def _entry(path: Path, name: str, tensor: Any) -> Entry | None:
    """Return a tensor, or None of strings and complex numbers."""
    import onnx

    kinds, where = onnx.TensorProto.DataType, f"initializer {name!r} of {str(path)!r}"
    tag = TYPE_TAGS.get(kinds.Name(tensor.data_type)) if tensor.data_type in kinds.values() else None
    if tag is None:
        return None
    shape = counts(list(tensor.dims), f"the shape of {where}")
    count, bits = math.prod(shape), TYPES[tag][1]
    nbytes = -(-count * bits // 8)
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return _external(path, where, tensor, Entry(name, tag, shape, path, 0, nbytes))
    if tensor.HasField("raw_data"):
        held = np.frombuffer(tensor.raw_data, np.uint8)
    else:
        held = _from_numbers(tensor, tag)
    if held.size != nbytes:
        raise CheckpointError(
            f"{where} has {held.size:,} bytes of data, and {tag} of shape {list(shape)} takes {nbytes:,}"
        )
    return HeldEntry(name, tag, shape, path, 0, nbytes, held)


def _from_numbers(tensor: Any, tag: str) -> npt.NDArray[np.uint8]:
    """Return the bytes of elements that lie in a field of numbers, as raw_data would have them."""
    dtype, bits = TYPES[tag]
    for name, words in _FIELDS.items():
        numbers = getattr(tensor, name)
        if len(numbers):
            data: Array = np.array(numbers, words)
            break
    else:
        return np.empty(0, np.uint8)
    if name == "int32_data" and bits == 6:  # one code in a word, where raw_data have no gaps
        from lowprec.arrays.packing import pack
        from lowprec.spec import catalog

        packed: npt.NDArray[np.uint8] = pack(data.astype(np.uint8) & np.uint8(63), catalog.format(dtype))
        return packed[: -(-data.size * 6 // 8)]
    # Words of 32 and 64 bits hold narrower numbers; of 4 and 2 bits those that share a byte.
    width = max(bits // 8, 1)
    return np.ascontiguousarray(data.view(np.uint8).reshape(data.size, -1)[:, :width]).reshape(-1)


def _external(path: Path, where: str, tensor: Any, entry: Entry) -> Entry:
    said = {item.key: item.value for item in tensor.external_data}
    place = said.get("location", "")
    file = path.parent / place
    if not place or Path(place).is_absolute() or ".." in Path(place).parts or "\\" in place:
        raise CheckpointError(
            f"{where} names the file {place!r}; only files below the model's folder are read"
        )
    if not file.resolve().is_relative_to(path.parent.resolve()):
        raise CheckpointError(f"{where} names the file {place!r}, a link that leaves the model's folder")
    if not file.is_file():
        raise CheckpointError(f"{where} lies in the file {place!r}, which is missing: download it too")
    try:
        start, length = int(said.get("offset", 0)), int(said.get("length", entry.nbytes))
    except ValueError:
        raise CheckpointError(f"{where} says {said!r} of its place, which are no numbers") from None
    if length != entry.nbytes or not 0 <= start <= file.stat().st_size - length:
        raise CheckpointError(
            f"{where} is said to lie at {start:,}, {length:,} bytes long, in {place!r} of "
            f"{file.stat().st_size:,} bytes; {entry.tag} of shape {list(entry.shape)} takes {entry.nbytes:,}"
        )
    return Entry(entry.name, entry.tag, entry.shape, file, start, entry.nbytes)


def _graph(graph: Any, entries: Mapping[str, Entry]) -> Graph:
    made = {output: node for node in graph.node for output in node.output}
    decoded: dict[str, Decoded] = {}
    inner: set[str] = set()
    names: dict[str, str] = {}  # of weights by their result's, for the products that take them
    taken = {*entries, *made, *(item.name for item in graph.input)}
    for node in graph.node:
        if node.op_type != "DequantizeLinear" or len(node.input) < 2 or not node.output:
            continue
        scales, tensor = _scales(node.input[1], made, entries)
        codes, zeros = node.input[0], node.input[2] if len(node.input) > 2 else ""
        if codes not in entries or scales not in entries or (zeros and zeros not in entries):
            continue  # of activations
        of = {item.name: item.i for item in node.attribute}
        name = result = node.output[0]
        for end in _MADE:
            if result.endswith(end) and result.removesuffix(end) not in taken:
                name = result.removesuffix(end)
        names[result] = name
        tag = _result(of.get("output_dtype", 0), entries[scales].tag)
        axis, size = of.get("axis", 1), of.get("block_size", 0)
        decoded[name] = Decoded(result, codes, scales, zeros, tensor, axis, size, tag)
        if tensor:
            inner.add(node.input[1])
    decoded = {name: found for name, found in decoded.items() if found.name not in inner}
    summed: dict[str, int] = {}
    for node in graph.node:
        flags = {item.name: item.i for item in node.attribute}
        for place, given in enumerate(node.input[:2] if node.op_type in ("MatMul", "Gemm") else ()):
            name = names.get(given, given)
            if name in entries or name in decoded:
                flipped = node.op_type == "Gemm" and flags.get("transB" if place else "transA", 0)
                summed[name] = -1 if bool(place) == bool(flipped) else -2
    return Graph(decoded, summed)


def _scales(name: str, made: Mapping[str, Any], entries: Mapping[str, Entry]) -> tuple[str, str]:
    """Return the initializers that a scale comes from: its own, and the scale of that if it has one."""
    node = made.get(name)
    if name in entries or node is None or not node.input:
        return name, ""
    if node.op_type == "Cast" and node.input[0] in entries:  # of E8M0, where scales cannot be it
        (to,) = (item.i for item in node.attribute if item.name == "to")
        return (node.input[0], "") if to == 1 else (name, "")
    if node.op_type == "DequantizeLinear" and len(node.input) == 2:
        over = entries.get(node.input[1])
        if node.input[0] in entries and over is not None and math.prod(over.shape) == 1 and over.tag == "F32":
            return node.input[0], node.input[1]
    return name, ""


def _result(said: int, tag: str) -> str:
    """Return the type of a node's result, as said or else that of the scale."""
    import onnx

    if said in onnx.TensorProto.DataType.values() and said:
        return TYPE_TAGS.get(onnx.TensorProto.DataType.Name(said), "F32")
    return tag if tag in ("F16", "BF16") else "F32"
