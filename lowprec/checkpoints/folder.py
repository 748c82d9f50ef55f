"""Checkpoints: one file or a folder of several, with the configuration beside them."""

from __future__ import annotations

import itertools
import os
import re
from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lowprec.checkpoints.container import CheckpointError, Entry, absent, open_file, parse_json
from lowprec.checkpoints.containers.onnx_reading import Graph, open_onnx
from lowprec.checkpoints.containers.saved import joined
from lowprec.checkpoints.containers.torch_reading import open_torch
from lowprec.checkpoints.patterns import exactly, matching

__all__ = ["INDEX", "INDICES", "SHARD", "Checkpoint", "is_readable", "open_checkpoint"]

#: Endings of files of torch.save.
_OF_TORCH = (".pt", ".pth", ".bin")
#: The index that folders are read by, and the ending of all that say which file has a tensor.
INDEX, INDICES = "model.safetensors.index.json", ".index.json"
#: Name of a file that is one of several: the start, its own number and how many there are.
SHARD = re.compile(r"(.+)-([0-9]+)-of-([0-9]+)\.safetensors", re.DOTALL)
#: Missing files that are named; the others are counted, as names may tell of any number.
_MOST_NAMED = 1_000
#: What no index or configuration has reason to exceed, in bytes.
_LONGEST_JSON = 100_000_000


@dataclass(frozen=True)
class Checkpoint:
    """All tensors of a checkpoint.

    Parameters
    ----------
    path : Path
        What was named: a file or a folder.
    entries : mapping of str to Entry
        Entries of GGUF files have `read`, `rows`, `shape`, `tag` and `nbytes` alike.
    metadata : mapping of str to str
        Of the headers; of several files together.
    headers : mapping of Path to mapping of str to str
        Metadata of each file, which may contradict each other.
    config : mapping
        The quantisation part of config.json or hf_quant_config.json; empty without one.
    files : tuple of Path
        Relative to the folder, if there is one.
    graph : Graph
        Of ONNX models: what their nodes make of the tensors.
    notes : tuple of (str, str)
        What is odd about the files, as rule and evidence, for `lint`.
    unread : mapping of str to str
        Of files of torch and ONNX models: tensors that are not read, and why.
    missing : mapping of str to str
        Tensors that an index names, or files that the names of others tell of, and that are not there.
    part : str
        "-00001-of-00003" of the first of three GGUF files, which hold a model together.
    """

    path: Path
    entries: Mapping[str, Entry]
    metadata: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    files: tuple[Path, ...] = ()
    notes: tuple[tuple[str, str], ...] = ()
    graph: Graph = field(default_factory=Graph)
    unread: Mapping[str, str] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    part: str = ""
    headers: Mapping[Path, Mapping[str, str]] = field(default_factory=dict)

    def metadata_of(self, entry: Entry) -> Mapping[str, str]:
        """Return the metadata of the file that a tensor lies in, and behind it those of all files."""
        return ChainMap(self.headers.get(entry.path, {}), self.metadata)  # type: ignore[arg-type]  # only read

    def has_file(self, out: Path) -> bool:
        """Return whether a path leads to one of the files that are read."""
        folder = self.path if self.path.is_dir() else self.path.parent
        return out.exists() and any(out.samefile(folder / file) for file in self.files)

    def check_output(self, out: Path, exclude: Sequence[str]) -> None:
        """Refuse an output that would lack tensors, or take the place of one of several files that are read.

        Patterns allow tensors that are missing or not read.
        """
        is_named = out.exists() and out.samefile(self.path)  # which may be replaced
        if self.has_file(out) and not is_named:
            raise CheckpointError(
                f"{str(out)!r} is one of {len(self.files):,} files that are read, and would take its place; "
                f"name another output"
            )
        if self.path.is_dir() and out.suffix == ".safetensors" and out.parent.exists():
            if not out.is_dir() and self.path.samefile(out.parent):
                raise CheckpointError(
                    f"{str(out)!r} lies in the folder that is read, and would be read with it from then on; "
                    f"name a file in another folder"
                )
        if self.part and not out.stem.endswith(self.part):
            raise CheckpointError(
                f"{str(self.path)!r} is one of several files of a model ({self.part.strip('-')}): merge them "
                f"by `llama-gguf-split --merge`, or give the output of each such a name too, here "
                f"{out.stem + self.part + out.suffix!r}"
            )
        if self.path.suffix == out.suffix == ".onnx":  # which keeps all that the source has
            return
        unread = {**self.unread, **self.missing}
        lost = [name for name in unread if matching(name, exclude) is None]
        if lost:
            more = f", and {len(lost) - 1:,} others" if lost[1:] else ""
            raise CheckpointError(
                f"another file would lack what is not read: {unread[lost[0]]}{more}; lint lists them, "
                f"and --exclude {exactly(lost[0])!r} leaves it out"
            )

    def entry(self, name: str) -> Entry:
        """Return a tensor; an unknown name is refused with those that are close."""
        if name in self.entries:
            return self.entries[name]
        from lowprec.spec.naming import close_names

        near = close_names(name, self.entries) or list(self.entries)[:5]
        raise CheckpointError(
            f"{str(self.path)!r} has no tensor {name!r}; it has {', '.join(map(repr, near))}"
        )


def open_checkpoint(path: Path | str) -> Checkpoint:
    """Return the tensors of a .safetensors, .gguf, .onnx or .pt file, of an index, or of a folder.

    Raises
    ------
    CheckpointError
        Nothing there, files that are no checkpoint, or an index that names a file outside of its folder.
    """
    path = Path(path)
    if os.path.isdir(path):
        index = path / INDEX
        if is_readable(index):
            return _indexed(path, index)
        files = sorted(file for file in path.glob("*.safetensors") if not file.name.startswith("."))
        if not files:
            raise CheckpointError(f"{str(path)!r} has no .safetensors file and no {INDEX}")
        return _without_index(path, files)
    if not os.path.isfile(path):
        raise CheckpointError(absent(path, "file or folder"))
    if path.suffix == ".gguf":
        from lowprec.checkpoints.containers.gguf import open_gguf

        header = open_gguf(path)
        return Checkpoint(path, header.entries, files=(Path(path.name),), part=header.part)
    if path.suffix == ".onnx":
        entries, graph, metadata, unread, _ = open_onnx(path)
        return Checkpoint(path, entries, metadata, {}, _files_of(path, entries), (), graph, unread)
    if path.suffix in _OF_TORCH:
        entries, metadata, unread, notes = open_torch(path)
        return Checkpoint(path, entries, metadata, files=(Path(path.name),), notes=notes, unread=unread)
    if path.name.endswith(INDICES):
        return _indexed(path, path)
    try:
        return _joined(path, [path], _config(path.parent), ())
    except CheckpointError as error:
        if path.suffix in ("", ".safetensors"):
            raise
        read = ", ".join((".safetensors", ".gguf", ".onnx", *_OF_TORCH))
        what = f"{str(path)!r} ends in {path.suffix!r}, and files that are read end in {read}"
        raise CheckpointError(f"{what}; it is no safetensors file either") from error


def _files_of(path: Path, entries: Mapping[str, Entry]) -> tuple[Path, ...]:
    """Return the files that tensors lie in, relative to the folder of the one that was named."""
    files = {path, *(entry.path for entry in entries.values())}
    return tuple(sorted(file.relative_to(path.parent) for file in files))


def _indexed(named: Path, index: Path) -> Checkpoint:
    folder = index.parent
    weights = _json(index).get("weight_map")
    if not isinstance(weights, dict) or not all(isinstance(name, str) for name in weights.values()):
        raise CheckpointError(f"{str(index)!r} has no weight_map of names to files")
    if not weights:
        raise CheckpointError(
            f"{str(index)!r} has a weight_map that names no tensor; remove the index, and all .safetensors "
            f"files of the folder are read"
        )
    for name in sorted(set(weights.values())):
        if not re.fullmatch(r"[^/\\:]+\.safetensors", name) or name.startswith("."):
            raise CheckpointError(
                f"{str(index)!r} names the file {name!r}; by an index only .safetensors files in the folder "
                f"itself are read: name others one by one"
            )
    listed = sorted(set(weights.values()))
    files = [folder / name for name in listed if os.path.exists(folder / name)]
    there = {file.name for file in files}
    notes = [
        ("missing-file", f"{name} is in the index and not in the folder")
        for name in listed
        if name not in there
    ]
    found = _joined(named, files, _config(folder), ())
    missing = {
        tensor: f"{tensor} is in the index and not in {name}"
        for tensor, name in weights.items()
        if tensor not in found.entries
    }
    for tensor, name in weights.items():
        entry = found.entries.get(tensor)
        if entry is None and name in there:
            notes.append(("missing-tensor", missing[tensor]))
        elif entry is not None and entry.path.name != name:
            notes.append(("index-disagrees", f"{tensor} is in {entry.path.name}, and the index says {name}"))
    notes += [
        ("not-indexed", f"{name} is in a file and not in the index")
        for name in found.entries
        if name not in weights
    ]
    series = {(shard[1], shard[3]) for name in listed if (shard := SHARD.fullmatch(name))}
    for file in sorted({*folder.glob("*.safetensors")} - {folder / name for name in listed}):
        shard = SHARD.fullmatch(file.name)
        if shard and (shard[1], shard[3]) in series and open_file(file).entries:
            missing[file.name] = f"{file.name} is in the folder and not in the index"
            notes.append(("not-indexed", missing[file.name]))
    return replace(found, notes=(*found.notes, *notes), missing=missing)


def _without_index(path: Path, files: list[Path]) -> Checkpoint:
    """Return the tensors of files whose names may say how many they are, as a-00001-of-00002.safetensors."""
    there = {file.name for file in files}
    series = sorted({(found[1], found[3]) for name in there if (found := SHARD.fullmatch(name))})
    absent = (
        (name, f"{name} is not in the folder, and other files of {count} are")
        for start, count in series
        for place in range(1, int(count) + 1)
        if (name := f"{start}-{place:0{len(count)}}-of-{count}.safetensors") not in there
    )
    missing = dict(itertools.islice(absent, _MOST_NAMED))
    if next(absent, None) is not None:
        told = sum(int(count) for _, count in series) - sum(map(_is_numbered, there))
        last = next(reversed(missing))
        missing[last] += f"; {told - _MOST_NAMED:,} other files are missing too"
    notes = tuple(("missing-file", why) for why in missing.values())
    return replace(_joined(path, files, _config(path), notes), missing=missing)


def _is_numbered(name: str) -> bool:
    """Return whether a file's name has a number from 1 on to that of all, with as many digits."""
    found = SHARD.fullmatch(name)
    if found is None:
        return False
    place, count = int(found[2]), int(found[3])
    return 1 <= place <= count and f"{place:0{len(found[3])}}" == found[2]


def _joined(
    path: Path, files: list[Path], config: dict[str, Any], notes: tuple[tuple[str, str], ...]
) -> Checkpoint:
    entries: dict[str, Entry] = {}
    headers: dict[Path, Mapping[str, str]] = {}
    for file in files:
        header = open_file(file)
        for name, entry in header.entries.items():
            if name in entries:
                raise CheckpointError(
                    f"tensor {name!r} is in {entries[name].path.name!r} and in {file.name!r}"
                )
            entries[name] = entry
        headers[file] = header.metadata
        if header.gaps:
            notes = (*notes, ("gaps", f"{header.gaps:,} bytes of {file.name} belong to no tensor"))
    metadata, names = joined([*headers.values()], repr(str(path))), tuple(Path(file.name) for file in files)
    return Checkpoint(path, entries, metadata, config, names, notes, headers=headers)


def is_readable(path: Path) -> bool:
    """Return whether a file beside the tensors is there.

    Raises CheckpointError: a link that leads nowhere, as of a download that was not finished, or a pipe.
    """
    if path.is_file():
        return True
    if os.path.lexists(path) and not path.is_dir():
        raise CheckpointError(
            f"{str(path)!r} is a link that leads nowhere, or no regular file, and what it says is not known; "
            f"finish the download, or remove it"
        )
    return False


def _config(folder: Path) -> dict[str, Any]:
    """Return what the files beside the tensors say about their quantisation."""
    config = folder / "config.json"
    if is_readable(config):
        whole = _json(config)
        for key in ("quantization_config", "compression_config"):
            if isinstance(whole.get(key), dict):
                kept = {name: whole[name] for name in ("expert_dtype", "model_type") if name in whole}
                return {**kept, **whole[key]}
    modelopt = folder / "hf_quant_config.json"
    if is_readable(modelopt):
        whole = _json(modelopt)
        inner = whole.get("quantization")
        return {"quant_method": "modelopt", **inner} if isinstance(inner, dict) else {}
    return {}


def _json(path: Path) -> dict[str, Any]:
    if path.stat().st_size > _LONGEST_JSON:
        raise CheckpointError(
            f"{str(path)!r} has {path.stat().st_size:,} bytes; at most {_LONGEST_JSON:,} are read"
        )
    return parse_json(path.read_bytes(), f"{str(path)!r}")
