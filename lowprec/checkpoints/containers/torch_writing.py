"""Files of `torch.save` written in parts: an archive whose pickle comes first, tensors at their places.

Tensors `NAME._rowwise_data` and so on become one of Transformer Engine, as its `__reduce_ex__` has it; its
quantizer is left out, which `state_dict`s are loaded without.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy.typing as npt

from lowprec.checkpoints.container import TAGS, CheckpointError, Entry, parse_json
from lowprec.checkpoints.containers.pickles import Call, Global, Stored, write_pickle
from lowprec.checkpoints.containers.torch_reading import DTYPES, ELEMENTS, MADE, RECORD, SAID, STORAGES
from lowprec.checkpoints.containers.writer import Laid, Planned, Writer, filling
from lowprec.checkpoints.patterns import exactly

__all__ = ["TorchWriter"]

Array = npt.NDArray[Any]

_ALIGN, _LARGE, _MANY = 64, 0xFFFF_FFFF, 0xFFFF
_EMPTY = Call(Global("collections", "OrderedDict"), ())
#: Where functions that make tensors are, and the number of FP4 there.
_MODULE, _FP4 = "transformer_engine.pytorch.tensor", 10
#: How metadata of Transformer Engine's tensors begin.
_TOLD = '{"_type": "transformer-engine '


class TorchWriter(Writer):
    """A file of torch.save; see `Writer`.

    Raises
    ------
    CheckpointError
        A type that torch lacks, or a tensor with the name of an attribute of another one.
    """

    def _laid(self, path: Path, plan: Sequence[Planned], metadata: Mapping[str, str]) -> Laid:
        parts = {name: (tag, shape) for name, tag, shape in plan}
        kept = {key: text for key, text in metadata.items() if not text.startswith(_TOLD)}
        texts = {
            "data.pkl": write_pickle(_state(parts, metadata)),
            "byteorder": b"little",
            RECORD: json.dumps(kept).encode(),
            "version": b"3\n",
        }
        records: list[tuple[str, int, bytes]] = [(name, len(text), text) for name, text in texts.items()]
        sizes = [math.prod(shape) * TAGS[tag][1] // 8 for tag, shape in parts.values()]
        records += [(f"data/{place}", size, b"") for place, size in enumerate(sizes)]
        self._places: list[tuple[int, int, int]] = []  # of checksums: two places, and where the data begin
        self._sizes = [size for _, size, _ in records]
        pieces, end = self._archived(records)
        entries = [
            Entry(name, tag, shape, path, self._places[len(texts) + place][2], sizes[place])
            for place, (name, (tag, shape)) in enumerate(parts.items())
        ]
        return entries, pieces, end

    def _archived(self, records: list[tuple[str, int, bytes]]) -> tuple[list[tuple[int, bytes]], int]:
        """Return all bytes but those of tensors, each with its place, and how many there are in all."""
        pieces: list[tuple[int, bytes]] = []
        central: list[bytes] = []
        end = 0
        locals_: list[int] = []
        for name, size, text in records:
            wide = struct.pack("<HHQQ", 1, 16, size, size) if size >= _LARGE else b""
            named = f"model/{name}".encode()
            room = -(end + 30 + len(named) + len(wide) + 4) % _ALIGN
            extra = wide + struct.pack("<HH", 0x4246, room) + bytes(room)
            short, sum_ = min(size, _LARGE), zlib.crc32(text)
            fixed = struct.pack("<HHHHHIII", 45, 0, 0, 0, 33, sum_, short, short)
            head = b"PK\3\4" + fixed + struct.pack("<HH", len(named), len(extra)) + named + extra
            pieces += [(end, head + text)]
            locals_.append(end)
            wides = ([size, size] if size >= _LARGE else []) + ([end] if end >= _LARGE else [])
            more = struct.pack(f"<HH{len(wides)}Q", 1, 8 * len(wides), *wides) if wides else b""
            tail = struct.pack("<HHHHHII", len(named), len(more), 0, 0, 0, 0, min(end, _LARGE))
            central.append(b"PK\1\2" + struct.pack("<H", 45) + fixed + tail + named + more)
            end += len(head) + size
        start = end
        for place, (item, (_, size, _)) in enumerate(zip(central, records, strict=True)):
            first = (locals_[place + 1] if place + 1 < len(records) else start) - size
            self._places.append((locals_[place] + 14, end + 16, first))
            pieces.append((end, item))
            end += len(item)
        size, count = end - start, len(records)
        if start >= _LARGE or count >= _MANY:
            wide_end = struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, count, count, size, start)
            pieces.append((end, b"PK\6\6" + wide_end + b"PK\6\7" + struct.pack("<IQI", 0, end, 1)))
            end += len(pieces[-1][1])
        short_count = min(count, _MANY)
        last = struct.pack("<HHHHIIH", 0, 0, short_count, short_count, size, min(start, _LARGE), 0)
        pieces.append((end, b"PK\5\6" + last))
        return pieces, end + len(pieces[-1][1])

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            with filling(self._file):
                self._summed()
        super().__exit__(kind, error, trace)

    def _summed(self) -> None:
        """Write the checksums of tensors, which archives have."""
        for (first, second, start), size in zip(self._places, self._sizes, strict=True):
            self._file.seek(start)
            found, left = 0, size
            while left:
                part = self._file.read(min(left, 1 << 24))
                found, left = zlib.crc32(part, found), left - len(part)
            for place in (first, second):
                self._file.seek(place)
                self._file.write(struct.pack("<I", found))
        self.sync()


# -- the pickle ---------------------------------------------------------------------------------------


def _state(parts: Mapping[str, tuple[str, tuple[int, ...]]], metadata: Mapping[str, str]) -> Call:
    """Return a state dict: a tensor of each name, or of those that make up one of Transformer Engine."""
    told = {
        stem: parse_json(text.encode(), stem) for stem, text in metadata.items() if text.startswith(_TOLD)
    }
    made: dict[str, Any] = {}
    groups: dict[str, dict[str, Call]] = {}
    for place, (name, (tag, shape)) in enumerate(parts.items()):
        stem, _, part = name.rpartition("._")
        if stem in told and part in SAID:
            raise CheckpointError(
                f"tensor {name!r} has the name of an attribute of Transformer Engine's {stem!r}; rename it, "
                f"or leave the weight out with --exclude {exactly(stem)!r}"
            )
        if stem in told and part in MADE[_kind(told[stem])]:
            is_bytes = tag[:3] == "F8_" and part.endswith(("data", "scale_inv"))
            groups.setdefault(stem, {})[part] = _tensor(name, "U8" if is_bytes else tag, shape, place)
            made[stem] = None
        else:
            made[name] = _tensor(name, tag, shape, place)
    for stem, group in groups.items():
        if stem in parts:
            raise CheckpointError(f"two tensors would be called {stem!r}")
        made[stem] = _quantised(stem, group, parts, told[stem])
    return Call(_EMPTY.function, (), list(made.items()))


def _tensor(name: str, tag: str, shape: tuple[int, ...], place: int) -> Call:
    count, strides = math.prod(shape), tuple(math.prod(shape[at + 1 :]) for at in range(len(shape)))
    storage = next((key for key, known in STORAGES.items() if known == tag), "")
    if storage:
        key = Stored(("storage", Global("torch", storage), str(place), "cpu", count))
        return Call(Global("torch._utils", "_rebuild_tensor_v2"), (key, 0, shape, strides, False, _EMPTY))
    dtype = next((key for key, known in DTYPES.items() if known == tag), "")
    if not dtype:
        raise CheckpointError(f"tensor {name!r} is {tag}, which torch has no type for; dequantise it first")
    size = count * TAGS[tag][1] // 8
    key = Stored(("storage", Global("torch.storage", "UntypedStorage"), str(place), "cpu", size))
    given = (key, 0, shape, strides, False, _EMPTY, Global("torch", dtype))
    return Call(Global("torch._utils", "_rebuild_tensor_v3"), given)


def _kind(said: Mapping[str, Any]) -> str:
    return str(said["_type"]).rpartition(" ")[2]


def _quantised(
    stem: str,
    group: Mapping[str, Call],
    parts: Mapping[str, tuple[str, tuple[int, ...]]],
    said: Mapping[str, Any],
) -> Call:
    """Return the call that makes a tensor of Transformer Engine."""
    kind, of = _kind(said), said["_data"]
    data = "data" if kind == "float8" else "rowwise_data" if "rowwise_data" in group else "columnwise_data"
    tag, shape = parts[f"{stem}._{data}"]
    if kind == "nvfp4" and shape:
        shape = (*shape[:-1], 2 * shape[-1])
        shape = (*shape[1:], shape[0]) if data == "columnwise_data" else shape
    dtype = next(key for key, known in DTYPES.items() if known == of["dtype"])
    number = _FP4 if kind == "nvfp4" else next(key for key, known in ELEMENTS.items() if known == tag)
    element = Call(Global("transformer_engine.pytorch.constants", "DType"), (number,))
    known = {
        "fp8_dtype": element,
        "fp4_dtype": element,
        "dtype": Global("torch", dtype),
        "shape": Call(Global("torch", "Size"), (shape,)),
        "with_gemm_swizzled_scales": of["is_swizzled_scales"],
        "row_scaled_nvfp4": of.get("row_scaled_nvfp4", False),
        "nvfp4_use_4over6": of.get("nvfp4_use_4over6", False),
        "nvfp4_e4m3_max": of.get("nvfp4_e4m3_max", 448),
    }
    function = Global(f"{_MODULE}.{kind}_tensor", f"_make_{kind}_tensor_in_reduce_ex")
    given = tuple(group.get(name, known.get(name)) for name in MADE[kind])
    return Call(function, given[:-1] if given[-1] is None else given)  # not all versions take the last one
