"""Files of `torch.save`: tensors of a state dict, and Transformer Engine's quantised ones.

The pickle inside is read as what it says (`pickles`): nothing of the file is run, and torch is not needed.
"""

from __future__ import annotations

import json
import math
import struct
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lowprec.checkpoints.container import TAGS, CheckpointError, Entry, counts
from lowprec.checkpoints.pickles import Call, Global, Stored, read_pickle

__all__ = ["DTYPES", "MADE", "RECORD", "STORAGES", "open_torch"]

#: Types of tensors by the names of torch's storages, and by its own names of those without one.
STORAGES: Mapping[str, str] = {
    "FloatStorage": "F32", "HalfStorage": "F16", "BFloat16Storage": "BF16", "DoubleStorage": "F64",
    "ByteStorage": "U8", "CharStorage": "I8", "ShortStorage": "I16", "IntStorage": "I32",
    "LongStorage": "I64", "BoolStorage": "BOOL",
}  # fmt: skip
DTYPES: Mapping[str, str] = {
    "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ", "float8_e8m0fnu": "F8_E8M0", "uint16": "U16", "uint32": "U32",
    "uint64": "U64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "float64": "F64", "uint8": "U8",
    "int8": "I8", "int16": "I16", "int32": "I32", "int64": "I64", "bool": "BOOL",
}  # fmt: skip
_COPIES = ("rowwise_data", "rowwise_scale_inv", "columnwise_data", "columnwise_scale_inv")
_OF_NVFP4 = ("row_scaled_nvfp4", "nvfp4_use_4over6", "nvfp4_e4m3_max")
#: Arguments of Transformer Engine's functions that make tensors, by the modules that they are in.
MADE: Mapping[str, tuple[str, ...]] = {
    "mxfp8": (*_COPIES, "fp8_dtype", "dtype", "shape", "quantizer", "with_gemm_swizzled_scales"),
    "nvfp4": (
        "shape", *_COPIES, "amax_rowwise", "amax_columnwise", "fp4_dtype", "dtype", "quantizer",
        "with_gemm_swizzled_scales", *_OF_NVFP4,
    ),
    "float8": ("data", "fp8_dtype", "scale_inv", "dtype", "shape"),
}  # fmt: skip
#: Its numbers of types of elements.
_ELEMENTS = {7: "F8_E4M3", 8: "F8_E5M2"}
#: A record of the archive for metadata, which torch does not look at.
RECORD = "lowprec.json"
#: What no pickle, and no number of tensors, has reason to exceed.
_LONGEST, _MOST = 32_000_000, 1_000_000


@dataclass
class _File:
    path: Path
    records: dict[str, tuple[int, int]]  #: first byte and length by name
    entries: dict[str, Entry]
    metadata: dict[str, str]
    notes: list[tuple[str, str]]
    seen: int = 0


def open_torch(path: Path) -> tuple[dict[str, Entry], dict[str, str], tuple[tuple[str, str], ...]]:
    """Return the tensors of a file by their names, what it says of them, and what is not read.

    Names of nested dicts are joined by dots. A tensor of Transformer Engine becomes those that it is made of,
    `NAME._rowwise_data` and so on, as its attributes are called.

    Raises
    ------
    CheckpointError
        A file that is no archive of torch.save, that is cut or damaged, of another byte order, or a tensor
        that is not contiguous or ends behind its storage.
    """
    file = _File(path, _records(path), {}, {}, [])
    if _text(file, "byteorder", b"little") != b"little":
        raise CheckpointError(f"{str(path)!r} was saved on a big-endian machine; save it on another")
    whole = read_pickle(_text(file, "data.pkl"), f"the pickle of {str(path)!r}")
    for name, value in _named(file, "", whole, 0):
        _add(file, name, value)
    if RECORD in file.records:
        from lowprec.checkpoints.container import parse_json

        said = parse_json(_text(file, RECORD), f"{RECORD} of {str(path)!r}")
        file.metadata |= {key: text for key, text in said.items() if isinstance(text, str)}
    return file.entries, file.metadata, tuple(file.notes)


def _records(path: Path) -> dict[str, tuple[int, int]]:
    size = path.stat().st_size
    found: dict[str, tuple[int, int]] = {}
    try:
        with zipfile.ZipFile(path) as archive, path.open("rb") as file:
            for item in archive.infolist():
                file.seek(item.header_offset)
                head = file.read(30)
                start = item.header_offset + 30 + sum(struct.unpack("<HH", head[26:30]))
                if item.compress_type != zipfile.ZIP_STORED or start + item.file_size > size:
                    raise CheckpointError(
                        f"record {item.filename!r} of {str(path)!r} is compressed or ends behind the file"
                    )
                found[item.filename.partition("/")[2]] = start, item.file_size
    except CheckpointError:
        raise
    except Exception as error:  # of files that are cut or hostile zipfile raises anything
        raise CheckpointError(
            f"{str(path)!r} is no archive of torch.save: {error}; save files of torch before 1.6 again"
        ) from None
    if "data.pkl" not in found:
        raise CheckpointError(f"{str(path)!r} is no archive of torch.save: it has no data.pkl")
    return found


def _text(file: _File, name: str, otherwise: bytes = b"") -> bytes:
    if name not in file.records:
        return otherwise
    start, size = file.records[name]
    if size > _LONGEST:
        raise CheckpointError(
            f"{name} of {str(file.path)!r} has {size:,} bytes; at most {_LONGEST:,} are read"
        )
    with file.path.open("rb") as stream:
        stream.seek(start)
        return stream.read(size)


def _named(file: _File, name: str, value: Any, depth: int) -> Iterator[tuple[str, Call]]:
    """Yield what calls make by their names, in nested dicts."""
    file.seen += 1
    if file.seen > _MOST or depth > 16:
        raise CheckpointError(
            f"{str(file.path)!r} has more than {_MOST:,} values, or dicts nested too deeply"
        )
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, Call) and value.function == Global("collections", "OrderedDict"):
        items = value.items
    elif isinstance(value, Call):
        yield name, value
    for key, item in items:
        if isinstance(key, str):
            yield from _named(file, f"{name}.{key}" if name else key, item, depth + 1)


def _add(file: _File, name: str, call: Call) -> None:
    """Add the tensor, or tensors, that a call makes."""
    function, arguments = call.function, call.arguments
    if isinstance(function, Call) and function.function in (
        Global("builtins", "getattr"), Global("__builtin__", "getattr"),
    ):  # fmt: skip
        function = function.arguments[0]  # an older file: a class's method
    if not isinstance(function, Global) or not isinstance(arguments, tuple):
        return
    if function == Global("torch._utils", "_rebuild_parameter") and arguments:
        if isinstance(arguments[0], Call):
            _add(file, name, arguments[0])
    elif function.name in ("_rebuild_tensor_v2", "_rebuild_tensor_v3"):
        _put(file, _tensor(file, name, call))
    elif function.module.startswith("transformer_engine.pytorch.tensor."):
        kind = function.module.rpartition(".")[2].removesuffix("_tensor")
        if kind in MADE and len(arguments) >= len(MADE[kind]) - len(_OF_NVFP4):
            _made(file, name, kind, dict(zip(MADE[kind], arguments, strict=False)))
        else:
            file.notes.append(("not-read", f"{name} is made by {function.module}.{function.name}"))


def _made(file: _File, name: str, kind: str, given: dict[str, Any]) -> None:
    """Add the tensors of one of Transformer Engine's, and what else it is made of."""
    element = given.get("fp8_dtype")
    number = element.arguments if isinstance(element, Call) else None
    tags = {"data": "U8", "scale_inv": "F8_E8M0"}
    if isinstance(number, tuple) and number and type(number[0]) is int:
        tags["data"] = _ELEMENTS.get(number[0], "U8")
    if kind != "mxfp8":
        tags = {"data": "U8", "scale_inv": "F8_E4M3"} if kind == "nvfp4" else {"data": tags["data"]}
    said: dict[str, Any] = {"is_swizzled_scales": bool(given.get("with_gemm_swizzled_scales"))}
    dtype = given.get("dtype")
    said["dtype"] = DTYPES.get(dtype.name, "F32") if isinstance(dtype, Global) else "F32"
    said |= {key: given[key] for key in _OF_NVFP4 if given.get(key) in (True, False, 256, 448)}
    quantizer = given.get("quantizer")
    state = quantizer.state if isinstance(quantizer, Call) else None
    if isinstance(state, dict) and state.get("with_2d_quantization") is True:
        said["with_2d_quantization"] = True
    for part, value in given.items():
        if isinstance(value, Call) and part not in ("fp8_dtype", "fp4_dtype", "shape", "quantizer"):
            entry = _tensor(file, f"{name}._{part}", value)
            tag = next((tag for end, tag in tags.items() if part.endswith(end)), entry.tag)
            if TAGS[tag][1] == TAGS[entry.tag][1]:
                entry = Entry(entry.name, tag, entry.shape, entry.path, entry.start, entry.nbytes)
            _put(file, entry)
    file.metadata[name] = json.dumps({"_type": f"transformer-engine {kind}", "_data": said})


def _put(file: _File, entry: Entry) -> None:
    if entry.name in file.entries:
        raise CheckpointError(f"{str(file.path)!r} has two tensors {entry.name!r}")
    file.entries[entry.name] = entry


def _tensor(file: _File, name: str, call: Call) -> Entry:
    """Return where a tensor lies."""
    where = f"tensor {name!r} of {str(file.path)!r}"
    if isinstance(call.function, Global) and call.function.name == "_rebuild_parameter":
        call = call.arguments[0]
    arguments = call.arguments
    if not isinstance(arguments, tuple) or len(arguments) < 4 or not isinstance(arguments[0], Stored):
        raise CheckpointError(f"{where} is not made as torch.save writes it")
    key = arguments[0].key
    if not isinstance(key, tuple) or len(key) < 5 or not isinstance(key[1], Global):
        raise CheckpointError(f"{where} lies in no storage that torch.save writes")
    tag = STORAGES.get(key[1].name)
    if call.function.name == "_rebuild_tensor_v3" and len(arguments) > 6:
        dtype = arguments[6]
        tag = DTYPES.get(dtype.name) if isinstance(dtype, Global) else None
    given = arguments[2].arguments if isinstance(arguments[2], Call) else (arguments[2],)
    shape, strides = (
        _counts(given, f"the shape of {where}"),
        _counts(arguments[3:], f"the strides of {where}"),
    )
    (offset,) = _counts(((arguments[1],),), f"the offset of {where}")
    record = file.records.get(f"data/{key[2]}") if isinstance(key[2], str) else None
    if tag is None or record is None:
        raise CheckpointError(f"{where} is of a type that is not read, or its data are missing")
    wanted = [math.prod(shape[place + 1 :]) for place in range(len(shape))]
    if math.prod(shape) and any(
        length > 1 and stride != right for length, stride, right in zip(shape, strides, wanted, strict=False)
    ):
        raise CheckpointError(f"{where} is not contiguous; save what its contiguous() returns")
    width = TAGS[tag][1] // 8
    nbytes = math.prod(shape) * width
    if len(strides) != len(shape) or offset * width + nbytes > record[1]:
        raise CheckpointError(f"{where}: {tag} of shape {list(shape)} ends behind its {record[1]:,} bytes")
    return Entry(name, tag, shape, file.path, record[0] + offset * width, nbytes)


def _counts(given: Any, what: str) -> tuple[int, ...]:
    """Return the first of some values, which must be counts; texts of hostile ones would be endless."""
    numbers = given[0] if isinstance(given, tuple) and given else None
    if not isinstance(numbers, tuple) or not all(
        type(each) is int and each.bit_length() < 64 for each in numbers
    ):
        raise CheckpointError(f"{what} is not made of numbers below 2**63")
    return counts(numbers, what)
