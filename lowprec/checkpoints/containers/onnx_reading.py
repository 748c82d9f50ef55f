"""ONNX models, by the `onnx` package: initializers, and the weights that DequantizeLinear makes of them.

Types 1 to 28 but strings and complex numbers, in raw_data, in the fields of numbers, or in external files.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.checkpoints.container import TYPES, CheckpointError, Entry, HeldEntry, counts, stamp
from lowprec.checkpoints.schemes.schemes import FLOATS

__all__ = ["TYPE_TAGS", "Decoded", "Graph", "Model", "initializers", "inlined", "open_onnx"]

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
#: The field of each type, where it is not int32_data.
_FIELD_OF = {
    "F32": "float_data", "F64": "double_data", "I64": "int64_data", "U32": "uint64_data",
    "U64": "uint64_data",
}  # fmt: skip
#: Domains of the operators that are known here.
_DOMAINS = ("", "ai.onnx", "com.microsoft")
_FLOAT = 1  #: the number of FLOAT
#: What exporters add to a weight's name for what DequantizeLinear makes.
_MADE = ("_DequantizeLinear_Output", "_dequantized")


class Decoded(NamedTuple):
    """A DequantizeLinear node on initializers: their names, and its attributes."""

    name: str  #: of the result
    codes: str
    scales: str
    zeros: str
    tensor: str  #: the scale of the scales, where these are the result of such a node
    axis: int
    size: int
    tag: str  #: type of the result, by its name here or else its number


@dataclass(frozen=True)
class Graph:
    """Facts about an ONNX model's initializers.

    Parameters
    ----------
    decoded : mapping of str to Decoded
        By the name of the weight: that of the result, without what exporters add.
    summed : mapping of str to int
        Of initializers that matrix products take, the axis that they sum over: -1, or -2.
    undecoded : mapping of str to str
        Why some DequantizeLinear inputs are not decoded, by name.
    used : mapping of str to set of str
        Operators that take an initializer, or what others only cast, transpose or reshape of it. Those that
        multiply with it are in `PRODUCTS`; where one takes it as another input, it is "Conv's input 2".
    """

    decoded: Mapping[str, Decoded] = field(default_factory=dict)
    summed: Mapping[str, int] = field(default_factory=dict)
    undecoded: Mapping[str, str] = field(default_factory=dict)
    used: Mapping[str, set[str]] = field(default_factory=dict)


#: Operators that multiply with weights, and which of their inputs are weights.
PRODUCTS: Mapping[str, tuple[int, ...]] = {
    **{name: (0, 1) for name in ("MatMul", "Gemm", "FusedMatMul")},
    **{name: (1,) for name in ("Conv", "ConvTranspose", "FusedConv", "FusedGemm")},
    **{name: (1, 2) for name in ("LSTM", "GRU", "RNN")},
}
#: In place of operators of domains that nothing is known of.
UNKNOWN = "an operator of its own domain"
#: Operators that leave values as they are, in another order or type.
_SAME = ("Cast", "Identity", "Reshape", "Transpose")


def _loaded(path: Path) -> tuple[Any, tuple[int, ...]]:
    """Return the model of a file, without external data, and the file's stamp from before it was read."""
    try:
        import onnx
    except ImportError:
        raise CheckpointError("ONNX models need the onnx package: pip install 'lowprec[onnx]'") from None
    try:
        mark = stamp(path.stat())
        model = onnx.load_model(str(path), format="protobuf", load_external_data=False)
    except Exception as error:  # protobuf's own, of versions that differ
        raise CheckpointError(f"cannot read {str(path)!r} as an ONNX model: {error}") from None
    if any(isinstance(text, bytes) for text in _texts(model)):  # protobuf's way to say so
        raise CheckpointError(f"{str(path)!r} has names that are no UTF-8: it is damaged")
    if not model.graph.node and not model.graph.initializer:
        raise CheckpointError(f"{str(path)!r} is no ONNX model: it has neither nodes nor initializers")
    return model, mark


def _texts(model: Any) -> Iterator[Any]:
    """Yield the names and texts of a model."""
    for node in model.graph.node:
        yield from (node.op_type, *node.input, *node.output, *(item.name for item in node.attribute))
    for _, tensor in initializers(model.graph):
        for item in tensor.external_data:
            yield from (item.key, item.value)
    yield from (node.name for node in model.graph.node)
    yield from (tensor.name for tensor in (*model.graph.initializer, *model.graph.input, *model.graph.output))
    for item in (*model.metadata_props, *model.opset_import):
        yield from (item.domain,) if hasattr(item, "domain") else (item.key, item.value)


class Model(NamedTuple):
    """Contents of a file."""

    entries: dict[str, Entry]
    graph: Graph
    metadata: dict[str, str]
    unread: dict[str, str]  #: tensors that are not read, or nodes that hold some, and why
    proto: Any  #: the ModelProto


def open_onnx(path: Path) -> Model:
    """Return the initializers of a model's graph by their names, and what its nodes make of them.

    Constant nodes count as initializers; graphs inside of nodes are not looked at.

    Raises
    ------
    CheckpointError
        A file that is no model, or the `onnx` package is missing; a tensor whose shape and data contradict
        each other, or whose data are in another type's field; external data outside of the model's folder or
        beyond the end of their file.
    """
    model, mark = _loaded(path)
    entries: dict[str, Entry] = {}
    unread: dict[str, str] = {}
    for name, tensor in initializers(model.graph):
        if not name:  # which inputs that are left out have too
            unread[name] = "an initializer that has no name, so that no node takes it"
            continue
        if name in entries or name in unread:
            raise CheckpointError(f"{str(path)!r} has two initializers {name!r}")
        entry = _entry(path, name, tensor, mark)
        if entry is not None:
            entries[name] = entry
        else:
            unread[name] = f"{name} is of a type that is not read, such as strings"
    metadata = {item.key: item.value for item in model.metadata_props}
    for node in model.graph.node:
        name = node.output[0] if node.output else node.op_type
        inner = [graph for item in node.attribute for graph in (item.g, *item.graphs)]
        if count := sum(1 for graph in inner for _ in _all_tensors(graph)):
            named = node.name or name
            unread[named] = f"{named} has graphs inside with {count} tensors"
        if any(item.HasField("sparse_tensor") for item in node.attribute):
            unread[name] = f"{name} is a sparse tensor"
    for tensor in model.graph.sparse_initializer:
        unread[tensor.values.name] = f"{tensor.values.name} is a sparse tensor"
    for function in model.functions:
        if count := sum(1 for _ in _all_tensors(function)):
            unread[function.name] = f"{function.name} is a function with {count} tensors"
    return Model(entries, _graph(model.graph, entries), metadata, unread, model)


def initializers(graph: Any) -> Iterator[tuple[str, Any]]:
    """Yield the initializers of a graph, and what its Constant nodes make, each with its name."""
    for tensor in graph.initializer:
        yield tensor.name, tensor
    for node in graph.node:
        for attribute in node.attribute if _is(node, "Constant") and node.output else ():
            if (tensor := _constant(attribute)) is not None:
                yield node.output[0], tensor


def _constant(attribute: Any) -> Any:
    """Return the tensor that an attribute of a Constant node is; None of strings and sparse ones."""
    from onnx import TensorProto

    match attribute.name:
        case "value":
            return attribute.t
        case "value_float":
            return TensorProto(data_type=TensorProto.FLOAT, float_data=[attribute.f])
        case "value_floats":
            size = len(attribute.floats)
            return TensorProto(data_type=TensorProto.FLOAT, dims=[size], float_data=attribute.floats)
        case "value_int":
            return TensorProto(data_type=TensorProto.INT64, int64_data=[attribute.i])
        case "value_ints":
            size = len(attribute.ints)
            return TensorProto(data_type=TensorProto.INT64, dims=[size], int64_data=attribute.ints)
    return None


def _all_tensors(message: Any) -> Iterator[Any]:
    """Yield the tensors at any depth of a message of protobuf."""
    for field_, value in message.ListFields():
        for part in () if field_.message_type is None else value if hasattr(value, "add") else (value,):
            if field_.message_type.name == "TensorProto":
                yield part
            else:
                yield from _all_tensors(part)


def inlined(path: Path, model: Any, most: int) -> None:
    """Read the external data that the tensors of a model still have into the model itself.

    Raises CheckpointError: they are not there, of a type that is not read, or more than `most` bytes in all.
    """
    import onnx

    left = most
    for tensor in _all_tensors(model):
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        entry = _entry(path, tensor.name, tensor)
        if entry is None or entry.nbytes > left:
            raise CheckpointError(
                f"{str(path)!r} has external data of tensor {tensor.name!r} that cannot be taken into the "
                f"file: they are of a type that is not read, or more than {most:,} bytes with the others"
            )
        left -= entry.nbytes
        tensor.raw_data = b"".join(part.tobytes() for part in entry.parts())
        tensor.ClearField("external_data")
        tensor.ClearField("data_location")


def _entry(path: Path, name: str, tensor: Any, mark: tuple[int, ...] = ()) -> Entry | None:
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
    own = "raw_data" if tensor.HasField("raw_data") else _FIELD_OF.get(tag, "int32_data")
    if other := [
        field_ for field_ in (*_FIELDS, "string_data") if len(getattr(tensor, field_)) and field_ != own
    ]:
        raise CheckpointError(f"{where} has data in {other[0]}, and those of {tag} are in {own}")
    if own == "raw_data":
        held = np.frombuffer(tensor.raw_data, np.uint8)
    else:
        held = _from_numbers(np.array(getattr(tensor, own), _FIELDS[own]), own, tag)
    if held.size != nbytes:
        raise CheckpointError(
            f"{where} has {held.size:,} bytes of data, and {tag} of shape {list(shape)} takes {nbytes:,}"
        )
    return HeldEntry(name, tag, shape, path, 0, nbytes, held, stamp=mark)


def _from_numbers(data: Array, field_: str, tag: str) -> npt.NDArray[np.uint8]:
    """Return the bytes of elements that lie in a field of numbers, as raw_data would have them."""
    dtype, bits = TYPES[tag]
    if bits == 6:  # one code in a word, where raw_data have no gaps
        from lowprec.arrays.blocks.packing import pack
        from lowprec.spec import catalog

        packed: npt.NDArray[np.uint8] = pack(data.astype(np.uint8) & np.uint8(63), catalog.format(dtype))
        return packed[: -(-data.size * 6 // 8)]
    # Words of 32 and 64 bits hold narrower numbers; of 4 and 2 bits those that share a byte.
    width = max(bits // 8, 1)
    return np.ascontiguousarray(data.view(np.uint8).reshape(data.size, data.itemsize)[:, :width]).reshape(-1)


def _external(path: Path, where: str, tensor: Any, entry: Entry) -> Entry:
    said = {item.key: item.value for item in tensor.external_data}
    place = said.get("location", "")
    file = path.parent / place
    if not place or Path(place).is_absolute() or ".." in Path(place).parts or "\\" in place:
        raise CheckpointError(
            f"{where} names the file {place!r}; only files below the model's folder are read"
        )
    try:
        within, is_there = file.resolve().is_relative_to(path.parent.resolve()), file.is_file()
    except (OSError, ValueError, RuntimeError) as error:  # names too long, with zeros, links to themselves
        short = place if len(place) <= 80 else f"{place[:77]}..."
        why = getattr(error, "strerror", None) or error
        raise CheckpointError(f"{where} names the file {short!r}, which cannot be read: {why}") from None
    if not within:
        raise CheckpointError(f"{where} names the file {place!r}, a link that leaves the model's folder")
    if not is_there:
        why = "no regular file" if file.exists() else "missing: download it too"
        raise CheckpointError(f"{where} lies in the file {place!r}, which is {why}")
    try:
        start, length = int(said.get("offset", 0)), int(said.get("length", entry.nbytes))
    except ValueError:
        raise CheckpointError(f"{where} says {said!r} of its place, which are no numbers") from None
    if length != entry.nbytes or not 0 <= start <= file.stat().st_size - length:
        raise CheckpointError(
            f"{where} is said to lie at {start:,}, {length:,} bytes long, in {place!r} of "
            f"{file.stat().st_size:,} bytes; {entry.tag} of shape {list(entry.shape)} takes {entry.nbytes:,}"
        )
    return replace(entry, path=file, start=start, stamp=stamp(file.stat()))


def _is(node: Any, kind: str) -> bool:
    """Return whether a node is an operator of ONNX of that name."""
    return node.op_type == kind and node.domain in _DOMAINS


def _graph(graph: Any, entries: Mapping[str, Entry]) -> Graph:
    made = {output: node for node in graph.node for output in node.output}
    scales_of = functools.cache(lambda name: _scales(name, made, entries))  # many nodes may share one
    decoded: dict[str, Decoded] = {}
    undecoded: dict[str, str] = {}
    inner: set[str] = set()  # results that are scales themselves
    names: dict[str, str] = {}  # of weights by their result's, for the products that take them
    taken = {*entries, *made, *(item.name for item in graph.input)}
    for node in graph.node:
        if not _is(node, "DequantizeLinear") or len(node.input) < 2 or not node.output:
            continue
        result, codes, zeros = node.output[0], node.input[0], node.input[2] if len(node.input) > 2 else ""
        inner.update(node.input[1:])
        if codes not in entries:
            continue  # of activations
        found = scales_of(node.input[1])
        if found is None or (zeros and zeros not in entries):
            what, by = ("zero points", zeros) if found else ("scale", node.input[1])
            by = made[by].op_type if by in made else "an input"
            undecoded[codes] = f"{codes} becomes {result} by a {what} of {by}, which is not followed"
            continue
        scales, tensor, tag = found
        of = {item.name: item.i for item in node.attribute}
        name = result
        for end in _MADE:
            short = result.removesuffix(end)
            own = codes.startswith(result)  # which are called by the result, as lowprec's are
            if result.endswith(end) and not own and short not in taken and short not in decoded:
                name = short
        names[result] = name
        tag = _type(of["output_dtype"]) if of.get("output_dtype") else tag
        axis, size = of.get("axis", 1), of.get("block_size", 0)
        decoded[name] = Decoded(result, codes, scales, zeros, tensor, axis, size, tag)
    decoded = {name: item for name, item in decoded.items() if item.name not in inner}
    summed: dict[str, int] = {}
    used: dict[str, set[str]] = {}
    #: What a result is of, and whether its last two axes are exchanged; None where axes are others.
    same: dict[str, tuple[str, bool | None]] = {result: (name, False) for result, name in names.items()}
    for node in graph.node:
        kind = node.op_type if node.domain in _DOMAINS else UNKNOWN
        for place, given in enumerate(node.input):
            name, turned = same.get(given, (given, False))
            if name not in entries and name not in decoded:
                continue
            shape = entries[decoded[name].codes if name in decoded else name].shape
            if place == 0 and kind in _SAME:
                same[node.output[0]] = name, _turned(node, turned, len(shape))
                continue
            weighs = place in PRODUCTS.get(kind, (place,))
            used.setdefault(name, set()).add(kind if weighs else f"{kind}'s input {place}")
            along = _summed(node, place, len(shape))
            if along is not None and turned is not None:
                summed[name] = -3 - along if turned else along
    return Graph(decoded, summed, undecoded, used)


def _turned(node: Any, turned: bool | None, axes: int) -> bool | None:
    """Return whether an operator that keeps values leaves the last two axes exchanged."""
    if node.op_type in ("Cast", "Identity") or turned is None:
        return turned
    order: list[int] = next(
        (list(item.ints) for item in node.attribute if item.name == "perm"), [*range(axes)][::-1]
    )
    if node.op_type == "Reshape" or axes < 2 or set(order[-2:]) != {axes - 2, axes - 1}:
        return None
    exchanges = order[-1] == axes - 2
    return turned != exchanges


def _summed(node: Any, place: int, axes: int) -> int | None:
    """Return the axis that an operator sums over of this input: -1 or -2; None where it is no product."""
    flags = {item.name: item.i for item in node.attribute}
    if any(_is(node, kind) for kind in ("MatMul", "Gemm", "FusedMatMul")) and place < 2:
        flipped = flags.get("transB" if place else "transA", 0)
        return -1 if bool(place) == bool(flipped) else -2
    # A kernel has outputs, inputs and places.
    return -2 if _is(node, "Conv") and place == 1 and axes == 3 else None


def _scales(name: str, made: Mapping[str, Any], entries: Mapping[str, Entry]) -> tuple[str, str, str] | None:
    """Return the initializers that a scale comes from, its own and the scale of that, and its type.

    None if it comes from something else than an initializer as it is, one that a Cast makes FLOAT of exactly,
    or few bits with a scale of their own.
    """
    if name in entries:
        return name, "", entries[name].tag
    node = made.get(name)
    stored = entries.get(node.input[0]) if node is not None and node.input else None
    if node is None or stored is None or stored.tag not in FLOATS or stored.tag == "F64":
        return None
    of = {item.name: item.i for item in node.attribute}
    if _is(node, "Cast") and of.get("to") == _FLOAT:
        return stored.name, "", "F32"
    if _is(node, "DequantizeLinear") and of.get("output_dtype", _FLOAT) in (0, _FLOAT):
        over = entries.get(node.input[1]) if len(node.input) > 1 and not any(node.input[2:]) else None
        if over is not None and over.tag == "F32" and over.shape in ((), (1,)) and stored.bits <= 8:
            return stored.name, over.name, "F32"
    return None


def _type(number: int) -> str:
    """Return the name that a type has here, or its number."""
    import onnx

    kinds = onnx.TensorProto.DataType
    return TYPE_TAGS.get(kinds.Name(number), str(number)) if number in kinds.values() else str(number)
