"""Checkpoints written weight by weight: beside their place, resumable, renamed when they are whole."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt

from lowprec.checkpoints.container import TAGS, TYPES, CheckpointError, Entry, naming, parse_json
from lowprec.checkpoints.folder import INDEX, Checkpoint
from lowprec.checkpoints.gguf import GgufBlocks
from lowprec.checkpoints.gguf_writing import GgufWriter
from lowprec.checkpoints.locking import alone
from lowprec.checkpoints.onnx_writing import OnnxWriter
from lowprec.checkpoints.safetensors_writing import SafetensorsWriter
from lowprec.checkpoints.torch_writing import TorchWriter
from lowprec.checkpoints.writer import Writer

__all__ = ["SINGLE", "Spread", "Task", "copy_of", "fingerprint", "source_of", "write_checkpoint"]

Array = npt.NDArray[Any]
#: Writes rows of a tensor: its name, the rows, and the first of them.
Write = Callable[[str, Array, int], None]
#: Is told how many elements are done, of how many, and what is under way.
Watch = Callable[[int, int | None, str], None] | None


#: As `itertools.starmap`, but somewhere else.
Spread = Callable[[Callable[..., Any], Iterable[tuple[Any, ...]]], Iterable[Any]]

_JOURNAL = ".lowprec-journal"
_COPIED = 1 << 24
_SINGLE = "model"

#: Endings of outputs that are one file; others are folders.
SINGLE = (".safetensors", ".gguf", ".onnx", ".pt")


@dataclass(frozen=True)
class Task:
    """One weight to write.

    Parameters
    ----------
    name : str
    file : str
        The file of a folder that it goes to.
    plan : tuple of (str, str, tuple of int)
        Name, type and shape of each tensor that is written.
    size : int
        Elements, for the progress bar.
    work : callable
        Writes the tensors by the function that it is given, and returns what shall be reported, for JSON.
    """

    name: str
    file: str
    plan: tuple[tuple[str, str, tuple[int, ...]], ...]
    size: int
    work: Callable[[Write], dict[str, Any] | None]

    @property
    def is_split(self) -> bool:
        """Whether the weight becomes parts, none of which has its name."""
        return all(name != self.name for name, _, _ in self.plan)


def copy_of(entry: Entry, out: Path) -> Task:
    """Return the task to copy a tensor as it is to an output."""
    if entry.tag not in TAGS and out.suffix not in SINGLE[1:]:
        of = "GGUF" if isinstance(entry, GgufBlocks) else "ONNX"
        raise CheckpointError(
            f"tensor {entry.name!r} is {entry.tag} of {of}, which safetensors files do not hold"
        )

    def work(write: Write) -> None:
        width = max(entry.nbytes // max(entry.rows, 1), 1)
        whole = entry.tag in TYPES and TYPES[entry.tag][1] < 8
        each = entry.rows if whole else max(_COPIED // width, 1)
        for start in range(0, entry.rows, max(each, 1)):
            write(entry.name, entry.read(start, start + each), start)

    size = math.prod(entry.shape)
    return Task(entry.name, entry.path.name, ((entry.name, entry.tag, entry.shape),), size, work)


def source_of(checkpoint: Checkpoint, out: Path) -> Path | None:
    """Return the file whose header or nodes an output of its kind keeps, if the checkpoint is one."""
    return checkpoint.path if checkpoint.path.suffix == out.suffix != ".safetensors" else None


def fingerprint(checkpoint: Checkpoint, how: Mapping[str, Any]) -> str:
    """Return a digest of what is read and how it is converted: a run goes on only where it is the same."""
    folder = checkpoint.path if checkpoint.path.is_dir() else checkpoint.path.parent
    stats = [
        (str(file), (folder / file).stat().st_size, (folder / file).stat().st_mtime_ns)
        for file in checkpoint.files
    ]
    said = json.dumps([stats, dict(checkpoint.config), dict(how)], sort_keys=True, default=str)
    return hashlib.sha256(said.encode()).hexdigest()


def write_checkpoint(
    out: Path,
    tasks: Sequence[Task],
    metadata: Mapping[str, str],
    digest: str,
    *,
    others: Mapping[str, bytes] | None = None,
    watch: Watch = None,
    source: Path | None = None,
    spread: Spread | None = None,
) -> dict[str, dict[str, Any]]:
    """Write a checkpoint, and return what its tasks report, by name.

    Everything is written to a hidden folder beside `out`, with a journal of the weights that are done. When
    the process is killed, `out` is as it was; the next call with the same digest goes on from there.

    Parameters
    ----------
    out : Path
        A .safetensors, .gguf, .onnx or .pt file, which is replaced, or a folder that is not there yet.
    tasks : sequence of Task
    metadata : mapping of str to str
        Of the headers.
    digest : str
        Of everything that the result depends on.
    others : mapping of str to bytes, optional
        Files to write beside, into a folder.
    watch : callable, optional
    source : Path, optional
        Of GGUF outputs: the GGUF file whose keys and values are kept; of ONNX: the model whose nodes are.
    spread : callable, optional
        Carries out a function for each of some tuples of arguments elsewhere, and yields the results in their
        order: tasks are handed out, and write into the files themselves.

    Raises
    ------
    CheckpointError
        A folder that is there, two tensors of one name, or another process that writes to `out`.
    """
    single = out.suffix in SINGLE
    if out.suffix in (".pth", ".bin"):
        raise CheckpointError(f"{out.suffix} files are not written; name a .pt file instead of {out.name!r}")
    if not single and out.exists():
        finished = _noted(out / _JOURNAL, digest)
        if finished is None:
            raise CheckpointError(f"{str(out)!r} is there already; name a new folder, or a .safetensors file")
        (out / _JOURNAL).unlink()  # killed between its last two steps
        return {name: report for name, report in finished.items() if report is not None}
    if out.is_dir():
        raise CheckpointError(f"{str(out)!r} is a folder; name a .safetensors file")
    if not out.parent.is_dir():
        raise CheckpointError(f"there is no folder {str(out.parent)!r} to write {out.name!r} to")
    files: dict[str, list[tuple[str, str, tuple[int, ...]]]] = {}
    names: set[str] = set()
    for task in tasks:
        for name, tag, shape in task.plan:
            if name in names:
                raise CheckpointError(f"two tensors would be called {name!r}")
            names.add(name)
            files.setdefault(_SINGLE + out.suffix if single else _named(task.file), []).append(
                (name, tag, shape)
            )
    if not files:
        raise CheckpointError("there is no tensor to write")
    with alone(out.with_name(f".{out.name}.lock")):
        if not single and out.exists():  # made while the lock was not held
            raise CheckpointError(f"{str(out)!r} is there already; name a new folder, or a .safetensors file")
        done = _write(out, tasks, files, metadata, digest, others, watch, source, spread)
    return {name: report for name, report in done.items() if report is not None}


def _write(
    out: Path,
    tasks: Sequence[Task],
    files: Mapping[str, Sequence[tuple[str, str, tuple[int, ...]]]],
    metadata: Mapping[str, str],
    digest: str,
    others: Mapping[str, bytes] | None,
    watch: Watch,
    source: Path | None,
    spread: Spread | None,
) -> dict[str, Any]:
    """Write everything to the hidden folder, rename, and return the reports of all tasks."""
    single = out.suffix in SINGLE
    whole = _SINGLE + out.suffix
    room = out.with_name(f".{out.name}.partial")
    done = _begun(room, digest)
    split = [task.name for task in tasks if task.is_split]
    with ExitStack() as stack:
        writers: dict[str, Writer] = {}
        try:
            for file, plan in files.items():
                writers[file] = _writer(room / file, plan, metadata, bool(done), source, split)
                stack.push(writers[file])
        except CheckpointError:
            stack.close()
            if not done:  # refused, and nothing lost
                shutil.rmtree(room)
            raise
        if not all(writer.kept for writer in writers.values()):
            done = {}
        journal = stack.enter_context((room / _JOURNAL).open("a" if done else "w"))
        if done:
            journal.write("\n")  # after a last line that may have been cut
        else:
            _note(journal, {"digest": digest})
        _carry_out(tasks, writers, journal, done, watch, whole if single else "", spread)
    if single:
        os.replace(room / whole, out)
        shutil.rmtree(room)
    else:
        for name, content in (others or {}).items():
            (room / name).write_bytes(content)
        _index(room, files)
        os.rename(room, out)
        (out / _JOURNAL).unlink()
    return done


def _carry_out(
    tasks: Sequence[Task],
    writers: Mapping[str, Writer],
    journal: Any,
    done: dict[str, Any],
    watch: Watch,
    whole: str,
    spread: Spread | None,
) -> None:
    left = [(task, writers[whole or _named(task.file)]) for task in tasks if task.name not in done]
    total = sum(task.size for task in tasks)
    ready = total - sum(task.size for task, _ in left)
    for writer in writers.values():
        writer.sync()  # before others open it
    names = [*(task.name for task, _ in left[1:]), "written"]
    if watch is not None and left:
        watch(ready, total, left[0][0].name)
    results = (spread or itertools.starmap)(_perform, left)
    for (task, _), following, report in zip(left, names, results, strict=False):
        done[task.name] = report
        _note(journal, {"done": task.name, "report": report})
        ready += task.size
        if watch is not None:
            watch(ready, total, following)


def _perform(task: Task, writer: Writer) -> dict[str, Any] | None:
    """Do a task; what it has written is on the disk then."""
    with naming(task.name):
        report = task.work(writer.write)
    writer.sync()
    return report


def _named(file: str) -> str:
    return file if file.endswith(".safetensors") else f"{_SINGLE}.safetensors"


def _writer(
    path: Path,
    plan: Sequence[tuple[str, str, tuple[int, ...]]],
    metadata: Mapping[str, str],
    again: bool,
    source: Path | None,
    split: Sequence[str],
) -> Writer:
    if path.suffix == ".gguf":
        return GgufWriter(path, plan, metadata, again, source)
    if path.suffix == ".onnx":
        return OnnxWriter(path, plan, metadata, again, source, split)
    if path.suffix == ".pt":
        return TorchWriter(path, plan, metadata, again)
    return SafetensorsWriter(path, plan, metadata, again)


def _begun(room: Path, digest: str) -> dict[str, Any]:
    """Return what an earlier run has done, of the same work; of other work nothing is kept."""
    journal = room / _JOURNAL
    if room.exists() and not journal.exists() and any(room.iterdir()):
        raise CheckpointError(f"{str(room)!r} is in the way, and not of an earlier run; move it elsewhere")
    kept = _noted(journal, digest)
    if kept is None:
        shutil.rmtree(room, ignore_errors=True)
    done = kept or {}
    room.mkdir(exist_ok=True)
    if not done:  # before anything else: a folder without a journal is nobody's to remove
        journal.write_text(json.dumps({"digest": digest}) + "\n")
    return done


def _noted(journal: Path, digest: str) -> dict[str, Any] | None:
    """Return the reports of a journal; None if it is of other work, or not there."""
    first, *lines = (journal.read_bytes().splitlines() if journal.exists() else []) or [b""]
    if first != json.dumps({"digest": digest}).encode():
        return None
    done = {}
    for line in lines:
        try:
            entry = parse_json(line, "a line")
        except CheckpointError:  # cut: this weight is written again
            continue
        name, report = entry.get("done"), entry.get("report", False)
        if isinstance(name, str) and (report is None or isinstance(report, dict)):
            done[name] = report
    return done


def _note(journal: Any, entry: Mapping[str, Any]) -> None:
    journal.write(json.dumps(entry) + "\n")
    journal.flush()
    os.fsync(journal.fileno())


def _index(room: Path, files: Mapping[str, Iterable[tuple[str, str, tuple[int, ...]]]]) -> None:
    if len(files) == 1:
        return
    weights = {name: file for file, plan in files.items() for name, _, _ in plan}
    size = sum((room / file).stat().st_size for file in files)
    whole = {"metadata": {"total_size": size}, "weight_map": dict(sorted(weights.items()))}
    (room / INDEX).write_text(json.dumps(whole, indent=1))
