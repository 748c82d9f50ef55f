"""Files of `torch.save`: tensors of a state dict, and Transformer Engine's quantised ones.

The pickle inside is read as what it says (`pickles`): nothing of the file is run, and torch is not needed.
"""

from __future__ import annotations

import json
import math
import re
import struct
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lowprec.checkpoints.container import (
    TAGS,
    CheckpointError,
    Entry,
    counts,
    parse_json,
    quoted,
    stamp,
)
from lowprec.checkpoints.containers.pickles import Call, Global, Stored, read_pickle

__all__ = ["DTYPES", "ELEMENTS", "MADE", "RECORD", "SAID", "STORAGES", "checked", "open_torch"]

#: Types of tensors by the names of torch's storages, and by its own names of those without one.
STORAGES: Mapping[str, str] = {
    "FloatStorage": "F32", "HalfStorage": "F16", "BFloat16Storage": "BF16", "DoubleStorage": "F64",
    "ByteStorage": "U8", "CharStorage": "I8", "ShortStorage": "I16", "IntStorage": "I32",
    "LongStorage": "I64", "BoolStorage": "BOOL", "ComplexFloatStorage": "C64",
}  # fmt: skip
DTYPES: Mapping[str, str] = {
    "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ", "float8_e8m0fnu": "F8_E8M0", "uint16": "U16", "uint32": "U32",
    "uint64": "U64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "float64": "F64", "uint8": "U8",
    "int8": "I8", "int16": "I16", "int32": "I32", "int64": "I64", "bool": "BOOL", "complex64": "C64",
}  # fmt: skip
#: Where Transformer Engine's functions that make tensors are.
_ENGINE = "transformer_engine.pytorch.tensor"
#: Arguments of these, by the modules that they are in.
_COPIES = ("rowwise_data", "rowwise_scale_inv", "columnwise_data", "columnwise_scale_inv")
MADE: Mapping[str, tuple[str, ...]] = {
    "mxfp8": (*_COPIES, "fp8_dtype", "dtype", "shape", "quantizer", "with_gemm_swizzled_scales"),
    "nvfp4": (
        "shape", *_COPIES, "amax_rowwise", "amax_columnwise", "fp4_dtype", "dtype", "quantizer",
        "with_gemm_swizzled_scales", "row_scaled_nvfp4", "nvfp4_use_4over6", "nvfp4_e4m3_max",
    ),
    "float8": ("data", "fp8_dtype", "scale_inv", "dtype", "shape", "transpose"),
}  # fmt: skip
#: How many of them the first version had.
_FEWEST = {"mxfp8": 6, "nvfp4": 10, "float8": 4}
#: Those that are no tensors.
SAID = ("fp8_dtype", "fp4_dtype", "dtype", "shape", "quantizer", *MADE["nvfp4"][-4:])
#: Its numbers of types of elements; of versions before 2.4, whose numbers were lower by one. Where a file may
#: be of both, 7 is E4M3: that is what weights are in all recipes of the package.
ELEMENTS = {7: "F8_E4M3", 8: "F8_E5M2"}
_NUMBERS = {"kFloat8E4M3": 7, "kFloat8E5M2": 8, "kFloat4E2M1": 10}
_OLDER = {number - 1: tag for number, tag in ELEMENTS.items()}
#: Functions that make plain tensors, and classes that add nothing to one.
_PLAIN = tuple(Global("torch._utils", f"_rebuild_tensor_v{version}") for version in (2, 3))
#: Functions and classes that make tensors without values.
_EMPTY = (
    Global("torch._utils", "_rebuild_meta_tensor_no_storage"),
    Global("torch.nn.parameter", "UninitializedParameter"),
    Global("torch.nn.parameter", "UninitializedBuffer"),
)
_CLASSES = (Global("torch", "Tensor"), Global("torch.nn.parameter", "Parameter"))
_GETATTR = (Global("builtins", "getattr"), Global("__builtin__", "getattr"))
_DICTS = (Global("collections", "OrderedDict"), Global("collections", "defaultdict"))
#: Whole names of functions and classes that `torch.load` calls for tensors by default, and that those of
#: Transformer Engine need.
_EXPECTED = re.compile(
    r"torch\._utils\._rebuild_\w+|torch\._tensor\._rebuild_from_type_v2|torch\.nn\.parameter\.\w+"
    r"|torch\.(Size|Tensor|device|\w+Storage)|torch\.serialization\._get_layout"
    r"|torch\.storage\.(Typed|Untyped)Storage|collections\.(OrderedDict|defaultdict|Counter)"
    r"|_codecs\.encode|_io\.BytesIO|(builtins|__builtin__)\.(set|bytearray|complex|slice)"
    r"|((builtins|__builtin__)\.getattr of )?transformer_engine(\.\w+)*|transformer_engine_torch(\.\w+)*"
)
#: Names that are listed of what a pickle calls besides.
_LISTED = 5
#: A record of the archive for metadata, which torch does not look at.
RECORD = "lowprec.json"
#: What no pickle, no name, and no number of values has reason to exceed.
_LONGEST, _LONGEST_NAME, _MOST = 32_000_000, 4_096, 4_000_000
#: How files that torch wrote before 1.6 begin.
_OLD = bytes.fromhex("80028a0a6cfc9c46f9206aa850192e")
#: Values for each byte of a pickle, at most: one may be in several places, and takes a byte in each.
_REPEATED = 4


class _UnreadError(CheckpointError):
    """A tensor that is not read, in a file that may be whole."""


@dataclass
class _File:
    path: Path
    stamp: tuple[int, ...]
    records: dict[str, tuple[int, int]]  #: first byte and length by name
    entries: dict[str, Entry]
    metadata: dict[str, str]
    unread: dict[str, str]  #: why, by name
    most: int = _MOST  #: values that may be looked at
    seen: int = 0

    def count(self) -> None:
        """Count a value that is looked at: a pickle may have the same one in many places."""
        self.seen += 1
        if self.seen > self.most:
            raise CheckpointError(f"{str(self.path)!r} has more than {self.most:,} values")


def open_torch(
    path: Path,
) -> tuple[dict[str, Entry], dict[str, str], dict[str, str], tuple[tuple[str, str], ...]]:
    """Return the tensors of a file by their names, what it says of them, why others are not read, and notes.

    Names of nested dicts, and numbers in lists, are joined by dots. A tensor of Transformer Engine becomes
    those that it is made of, `NAME._rowwise_data` and so on, as its attributes are called. Values without
    tensors in them are left out.

    Raises
    ------
    CheckpointError
        A file that is no archive of torch.save, that is cut or damaged, of another byte order, or a tensor
        that ends behind its storage.
    """
    mark = stamp(path.stat())
    file = _File(path, mark, _records(path), {}, {}, {})
    if _text(file, "byteorder", b"little") != b"little":
        raise CheckpointError(f"{str(path)!r} was saved on a big-endian machine; save it on another")
    called: set[str] = set()
    data = _text(file, "data.pkl")
    file.most = min(_MOST, _REPEATED * len(data))
    whole = read_pickle(data, f"the pickle of {str(path)!r}", called)
    for name, value in _named(file, "", whole, 0):
        try:
            _add(file, name, value)
        except _UnreadError as error:
            file.unread[name] = str(error)
    said: dict[str, Any] = {}
    if RECORD in file.records:
        said = parse_json(_text(file, RECORD), f"{RECORD} of {str(path)!r}")
    texts = {key: text for key, text in said.items() if isinstance(text, str)}
    strange = sorted(name for name in called if not _EXPECTED.fullmatch(name))
    notes = (("pickle-calls", f"{path.name} {_calls(strange)}"),) if strange else ()
    return file.entries, texts | file.metadata, file.unread, notes


def _calls(names: list[str]) -> str:
    """Return in words what loading a pickle would call."""
    more = f" and {len(names) - _LISTED:,} others" if names[_LISTED:] else ""
    return f"calls {', '.join(map(quoted, names[:_LISTED]))}{more} when it is loaded; here nothing was called"


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
                name = item.filename.partition("/")[2]
                if name in found:
                    raise CheckpointError(f"{str(path)!r} has the record {name!r} twice")
                found[name] = start, item.file_size
    except CheckpointError:
        raise
    except Exception as error:  # of files that are cut or hostile zipfile raises anything
        with path.open("rb") as file:
            old = file.read(len(_OLD)) == _OLD
        why = (
            "it is in the format before torch 1.6; load it with torch and save it again"
            if old
            else str(error)
        )
        raise CheckpointError(f"{str(path)!r} is no archive of torch.save: {why}") from None
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


def _named(file: _File, name: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
    """Yield what calls make by their names, in nested dicts and lists."""
    if depth > 16:
        raise CheckpointError(f"{str(file.path)!r} has dicts or lists nested too deeply")
    if len(name) > _LONGEST_NAME:
        raise CheckpointError(f"{str(file.path)!r} has a name of {len(name):,} characters")
    if isinstance(value, dict):
        items: Iterable[tuple[Any, Any]] = value.items()
    elif isinstance(value, list | tuple) and not isinstance(value, Global | Stored):
        items = enumerate(value)
    elif isinstance(value, Call) and value.function in _DICTS:
        items = value.items
        if _holds(file, value.arguments, value.state):
            file.unread[f"{name}." * bool(name) + "?"] = (
                f"{name or 'the file'} has tensors among the arguments or attributes of its dict; save a dict"
            )
    else:
        yield name, value
        return
    for key, item in items:
        file.count()
        if isinstance(item, dict | list | tuple | Call | Stored):
            over = f"{name}." if name else ""
            if isinstance(key, str | int):
                yield from _named(file, f"{over}{key}", item, depth + 1)
            elif _holds(file, item):
                file.unread[f"{over}?"] = f"{name or 'the file'} has a tensor under a key that is no name"


def _holds(file: _File, *values: Any) -> bool:
    """Return whether there is a tensor's storage, or an array of NumPy, somewhere in values."""
    left, known = list(values), set[int]()
    while left:
        value = left.pop()
        if isinstance(value, Stored) or value == Global("numpy", "ndarray"):
            return True
        if isinstance(value, dict | list | tuple | Call) and id(value) not in known:
            file.count()
            known.add(id(value))
            if isinstance(value, Call):
                left += [value.function, value.arguments, value.items, value.state]
            else:
                left += value.values() if isinstance(value, dict) else value
    return False


def _add(file: _File, name: str, call: Any) -> None:
    """Add the tensor, or tensors, that a call makes."""
    where = f"tensor {name!r} of {str(file.path)!r}"
    made, attributes = _unwrapped(call, where)
    function = made.function if isinstance(made, Call) else None
    if isinstance(function, Call) and function.function in _GETATTR:  # an older file: a class's method
        owner, method = _arguments(function, 2, where)[:2]
        is_named = isinstance(owner, Global) and isinstance(method, str)
        function = Global(owner.module, method) if is_named else None
    by = ".".join(function) if isinstance(function, Global) else "no function of a module"
    known = (kind for kind in MADE if by.startswith(f"{_ENGINE}.{kind}_tensor."))
    kind = next(known, "") if by.endswith("_in_reduce_ex") else ""
    if _holds(file, attributes, made.state if function in _PLAIN else None):
        raise _UnreadError(f"{where} has attributes that are tensors too; save these by names of their own")
    if function in _PLAIN:
        _put(file, _tensor(file, name, made))
    elif kind and _FEWEST[kind] <= len(_arguments(made, 0, where)) <= len(MADE[kind]):
        _made(file, name, kind, dict(zip(MADE[kind], made.arguments, strict=False)))
    elif function in _EMPTY:
        raise _UnreadError(
            f"{where} has no values: it is on the meta device or uninitialized; load them first"
        )
    elif _holds(file, made):
        raise _UnreadError(f"{where} is made by {by}, which is not read; save plain tensors, in a state_dict")


def _arguments(call: Call, least: int, where: str) -> tuple[Any, ...]:
    """Return a call's arguments, which must be so many at least."""
    if not isinstance(call.arguments, tuple) or len(call.arguments) < least:
        raise CheckpointError(f"{where} is not made as torch.save writes it")
    return call.arguments


def _unwrapped(call: Any, where: str) -> tuple[Any, list[Any]]:
    """Return the call that makes a tensor, of a parameter or one with attributes, and these attributes."""
    attributes = []
    for _ in range(2):  # a parameter of a tensor with attributes
        function = call.function if isinstance(call, Call) else None
        if function == Global("torch._utils", "_rebuild_parameter"):
            call = _arguments(call, 1, where)[0]
        elif function == Global("torch._utils", "_rebuild_parameter_with_state"):
            call, *_, state = _arguments(call, 4, where)
            attributes.append(state)
        elif function == Global("torch._tensor", "_rebuild_from_type_v2"):
            inner, kind, arguments, state = _arguments(call, 4, where)[:4]
            if kind not in _CLASSES:
                break
            call = Call(inner, arguments)
            attributes.append(state)
    return call, attributes


def _made(file: _File, name: str, kind: str, given: dict[str, Any]) -> None:
    """Add the tensors of one of Transformer Engine's, and what else it is made of."""
    tags = {"data": "U8"}
    if kind != "float8":
        tags["scale_inv"] = "F8_E4M3" if kind == "nvfp4" else "F8_E8M0"
    if kind != "nvfp4":
        numbers = _OLDER if "shape" not in given else {**_OLDER, **ELEMENTS}
        tag = numbers.get(_number(given["fp8_dtype"]) or 0)
        if tag is None:
            raise _UnreadError(f"tensor {name!r} of {str(file.path)!r} has elements of an unknown type")
        tags["data"] = tag
    if kind == "float8" and given["data"] is None:
        raise _UnreadError(f"tensor {name!r} of {str(file.path)!r} is a transposed copy alone")
    said = {**given, "is_swizzled_scales": given.get("with_gemm_swizzled_scales")}
    dtype, quantizer = given["dtype"], given.get("quantizer")
    said["dtype"] = DTYPES.get(dtype.name) if isinstance(dtype, Global) else None
    state = quantizer.state if isinstance(quantizer, Call) else None
    said["with_2d_quantization"] = isinstance(state, dict) and state.get("with_2d_quantization")
    found = []
    for part, value in given.items():
        if value is not None and part not in SAID:
            entry = _tensor(file, f"{name}._{part}", value)
            tag = next((tag for end, tag in tags.items() if part.endswith(end)), entry.tag)
            if TAGS[tag][1] == TAGS[entry.tag][1]:
                entry = replace(entry, tag=tag)
            found.append(entry)
    for entry in found:
        _put(file, entry)
    file.metadata[name] = json.dumps({"_type": f"transformer-engine {kind}", "_data": checked(said)})


def _number(value: Any) -> int | None:
    """Return an enum's number: what its class is called with, pybind11's state, or that of its name."""
    given = value.arguments if isinstance(value, Call) else None
    if given and value.function in _GETATTR and isinstance(given[-1], str):  # as Python 3.11.2 pickles them
        return _NUMBERS.get(given[-1])
    found = given[0] if isinstance(given, tuple) and given else getattr(value, "state", None)
    return found if type(found) is int else None


def checked(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is said of a tensor of Transformer Engine, without what it cannot say.

    >>> checked({"dtype": "BF16", "nvfp4_use_4over6": True, "nvfp4_e4m3_max": 10**400})
    {'dtype': 'BF16', 'is_swizzled_scales': False, 'nvfp4_use_4over6': True}
    """
    tag, most = said.get("dtype"), said.get("nvfp4_e4m3_max")
    found: dict[str, Any] = {"dtype": tag if tag in ("F32", "F16", "BF16") else "F32"}
    found["is_swizzled_scales"] = said.get("is_swizzled_scales") is True
    flags = ("row_scaled_nvfp4", "nvfp4_use_4over6", "with_2d_quantization")
    found |= {key: True for key in flags if said.get(key) is True}
    is_bound = "nvfp4_use_4over6" in found and type(most) is int and most in (256, 448)
    return found | ({"nvfp4_e4m3_max": most} if is_bound else {})


def _put(file: _File, entry: Entry) -> None:
    if entry.name in file.entries:
        raise CheckpointError(f"{str(file.path)!r} has two tensors {entry.name!r}; save it with one renamed")
    file.entries[entry.name] = entry


def _tensor(file: _File, name: str, call: Any) -> Entry:
    """Return where a tensor lies."""
    where = f"tensor {name!r} of {str(file.path)!r}"
    call, _ = _unwrapped(call, where)
    if not isinstance(call, Call) or call.function not in _PLAIN:
        raise CheckpointError(f"{where} is not made as torch.save writes it")
    arguments = _arguments(call, 4, where)
    key = arguments[0].key if isinstance(arguments[0], Stored) else None
    if not isinstance(key, tuple) or len(key) < 5 or not isinstance(key[1], Global):
        raise CheckpointError(f"{where} lies in no storage that torch.save writes")
    tag, said = STORAGES.get(key[1].name), arguments[6:]
    if call.function == _PLAIN[1] and said:
        tag = DTYPES.get(said[0].name) if isinstance(said[0], Global) else None
        said = said[1:]
    given = arguments[2].arguments if isinstance(arguments[2], Call) else (arguments[2],)
    shape, strides = (
        _counts(given, f"the shape of {where}"),
        _counts(arguments[3:], f"the strides of {where}"),
    )
    (offset,) = _counts(((arguments[1],),), f"the offset of {where}")
    record = file.records.get(f"data/{key[2]}") if isinstance(key[2], str) else None
    if record is None:
        raise CheckpointError(f"{where}: its data are missing")
    if tag is None:
        raise _UnreadError(f"{where} is of a type that is not read; save another one")
    stored = _counts(((key[4],),), f"the storage of {where}")[0]
    stored *= TAGS[STORAGES[key[1].name]][1] // 8 if key[1].name in STORAGES else 1
    if stored != record[1]:
        raise CheckpointError(f"{where}: its storage has {stored:,} bytes, but its data {record[1]:,}")
    if said and said[0]:
        raise _UnreadError(f"{where} is a negative or conjugate view; save resolve_neg().resolve_conj()")
    wanted = [math.prod(shape[place + 1 :]) for place in range(len(shape))]
    if math.prod(shape) and any(
        length > 1 and stride != right for length, stride, right in zip(shape, strides, wanted, strict=False)
    ):
        raise _UnreadError(f"{where} is not contiguous; save what its contiguous() returns")
    width = TAGS[tag][1] // 8
    nbytes = math.prod(shape) * width
    offset = offset if nbytes else 0  # torch keeps offsets of empty parts, wherever they lie
    if len(strides) != len(shape) or offset * width + nbytes > record[1]:
        raise CheckpointError(f"{where}: {tag} of shape {list(shape)} ends behind its {record[1]:,} bytes")
    return Entry(name, tag, shape, file.path, record[0] + offset * width, nbytes, stamp=file.stamp)


def _counts(given: Any, what: str) -> tuple[int, ...]:
    """Return the first of some values, which must be counts; texts of hostile ones would be endless."""
    numbers = given[0] if isinstance(given, tuple) and given else None
    if not isinstance(numbers, tuple) or not all(
        type(each) is int and each.bit_length() < 64 for each in numbers
    ):
        raise CheckpointError(f"{what} is not made of numbers below 2**63")
    return counts(numbers, what)
