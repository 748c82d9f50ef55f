"""Checkpoints written weight by weight: beside their place, resumable, renamed when they are whole."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import logging
import math
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy.typing as npt

import lowprec
from lowprec import files
from lowprec.checkpoints.container import TAGS, TYPES, CheckpointError, Entry, naming, parse_json
from lowprec.checkpoints.containers.gguf import GgufBlocks
from lowprec.checkpoints.containers.gguf_writing import GgufWriter
from lowprec.checkpoints.containers.locking import alone
from lowprec.checkpoints.containers.onnx_writing import OnnxWriter
from lowprec.checkpoints.containers.safetensors_writing import SafetensorsWriter
from lowprec.checkpoints.containers.torch_writing import TorchWriter
from lowprec.checkpoints.containers.writer import Planned, Writer, filling, writable
from lowprec.checkpoints.folder import INDEX, SHARD, Checkpoint
from lowprec.checkpoints.schemes.schemes import INPUT_SCALES, ONNX, is_mark
from lowprec.checkpoints.weights import Weight
from lowprec.spec.naming import plain

__all__ = ["SINGLE", "Spread", "Task", "source_of", "with_copies", "write_checkpoint"]

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

#: Writers by the endings of outputs that are one file; others are folders.
_WRITERS: Mapping[str, type[Writer]] = {
    ".safetensors": SafetensorsWriter, ".gguf": GgufWriter, ".onnx": OnnxWriter, ".pt": TorchWriter
}  # fmt: skip
SINGLE = tuple(_WRITERS)


@dataclass(frozen=True)
class Task:
    """A weight to write.

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
    reads : tuple of Entry
        Tensors whose bytes the result depends on. A task without any, a copy, is done again after a kill.
    said : str
        Anything else of the source that the result depends on, as text.
    held : mapping of str to bytes
        Contents of tensors that say how others are read; they are known before anything is written.
    """

    name: str
    file: str
    plan: tuple[Planned, ...]
    size: int
    work: Callable[[Write], dict[str, Any] | None]
    reads: tuple[Entry, ...] = ()
    said: str = ""
    held: Mapping[str, bytes] = field(default_factory=dict)

    def content(self) -> str:
        """Return a digest of all bytes of the source that the result depends on."""
        found = hashlib.sha256(self.said.encode())
        for entry in self.reads:
            for part in entry.parts():
                found.update(part.data)
        return found.hexdigest()

    @property
    def key(self) -> str:
        """The name of its first tensor, which no other task writes; two weights may have one name."""
        return self.plan[0][0]

    @property
    def is_split(self) -> bool:
        """True if the weight becomes parts, none of which has its name."""
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
        whole = entry.bits < 8 or entry.tag not in TYPES and len(entry.shape) < 2
        each = entry.rows if whole else max(_COPIED // width, 1)
        for start in range(0, entry.rows if entry.nbytes else 0, max(each, 1)):
            write(entry.name, entry.read(start, start + each), start)

    size = math.prod(entry.shape)
    return Task(entry.name, entry.path.name, ((entry.name, entry.tag, entry.shape),), size, work)


def with_copies(weights: Sequence[tuple[Weight, Task | None]], out: Path) -> list[Task]:
    """Return the tasks of weights in their order; without one, the parts of a weight are copied as they are.

    ComfyUI's mark of scaled weights is left out where no weight that stays is scaled so. Scales of inputs of
    layers whose weights are written anew are left out, and a warning names them.

    Raises CheckpointError: a type, or a weight that nodes of ONNX decode, which the output does not hold.
    """
    kept = [weight for weight, task in weights if task is None]
    if out.suffix != ".onnx" and (lost := [each.name for each in kept if each.scheme.family == ONNX.family]):
        raise CheckpointError(
            f"weight {lost[0]!r} would stay as it is, and nodes of its ONNX model say what its codes are, "
            f"which {out.name!r} does not hold; dequantise the model first, or write a .onnx file"
        )
    is_scaled = any(weight.scheme.scales == ".scale_weight" for weight in kept)
    copied: set[str] = set()
    tasks: list[Task] = []
    for weight, task in weights:
        if is_mark(weight.codes) and not is_scaled:
            continue
        parts = weight.parts if task is None else ()
        tasks += [] if task is None else [task]
        tasks += [copy_of(part, out) for part in parts if part.name not in copied]
        copied |= {part.name for part in parts}  # which several weights may share
    inputs = [part.name for weight, task in weights if task for part in weight.extras]
    if inputs := [name for name in inputs if name.endswith(INPUT_SCALES) and name not in copied]:
        few = ", ".join(map(plain, inputs[:3])) + (f" and {len(inputs) - 3:,} others" if inputs[3:] else "")
        what = "scales of layers' inputs are left out, as the weights beside them are written anew"
        logging.getLogger("lowprec").warning("%s: %s", what, few)
    return tasks


def source_of(checkpoint: Checkpoint, out: Path) -> Path | None:
    """Return the file whose header or nodes an output of its kind keeps, if the checkpoint is one."""
    return checkpoint.path if checkpoint.path.suffix == out.suffix != ".safetensors" else None


def write_checkpoint(
    out: Path,
    tasks: Sequence[Task],
    metadata: Mapping[str, str],
    how: str,
    *,
    others: Mapping[str, bytes] | None = None,
    watch: Watch = None,
    source: Path | None = None,
    spread: Spread | None = None,
) -> dict[str, dict[str, Any]]:
    """Write a checkpoint, and return what its tasks report, by name.

    Everything is written to a hidden folder beside `out`, with a journal of the weights that are done. When
    the process is killed, `out` is as it was; the next call goes on from there. It keeps weights that were
    written by the same version, options and names from the same bytes, wherever these lie now.

    Parameters
    ----------
    out : Path
        A .safetensors, .gguf, .onnx or .pt file, which is replaced, or a folder that is not there yet.
    tasks : sequence of Task
    metadata : mapping of str to str
        Of the headers.
    how : str
        What the results depend on besides the metadata and the tasks.
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
        A folder that is there, two tensors of one name, another process that writes to `out`, a pipe or
        device, or a hidden folder that somebody else may have put there.
    """
    single = out.suffix in SINGLE
    if out.suffix in (".pth", ".bin"):
        raise CheckpointError(f"{out.suffix} files are not written; name a .pt file instead of {out.name!r}")
    if single and out.is_dir():
        raise CheckpointError(f"{str(out)!r} is a folder; name a .safetensors file")
    if not out.parent.is_dir():
        raise CheckpointError(f"there is no folder {str(out.parent)!r} to write {out.name!r} to")
    with writable(out):
        place = out if not single and out.is_dir() else files.target(out)[0]
    plans: dict[str, list[Planned]] = {}
    names: set[str] = set()
    for task in tasks:
        for name, tag, shape in task.plan:
            if name in names:
                raise CheckpointError(
                    f"two tensors would be called {name!r}, of weight {task.name!r} and of another; rename "
                    f"one, or leave one out with --exclude"
                )
            names.add(name)
            plans.setdefault(_SINGLE + out.suffix if single else _named(task.file), []).append(
                (name, tag, shape)
            )
    if not plans:
        raise CheckpointError("there is no tensor to write")
    with alone(place.with_name(f".{place.name}.lock")):
        done = _write(place, single, tasks, plans, metadata, how, others, watch, source, spread)
    return {task.name: report for task in tasks if (report := done[task.key]) is not None}


def _finished(place: Path, room: Path, digest: str, tasks: Sequence[Task]) -> dict[str, Any]:
    """Return the reports of a run of the same work that was killed after it had renamed its folder.

    Raises CheckpointError: the folder that is there is another one.
    """
    done, made, named = {}, False, [task.key for task in tasks if task.reads]
    with contextlib.suppress(OSError):
        if room.is_dir() and files.private(room):
            room.rmdir() if not any(room.iterdir()) else None
            with files.own(room / _JOURNAL) as journal:
                first, *lines = journal.read().splitlines() or [b""]
            made = json.dumps({"folder": place.stat().st_ino}).encode() in lines
            done = _still(tasks, _noted(lines), room) if made and first == _first(digest) else {}
    if not made or done.keys() != {*named}:
        raise CheckpointError(f"{str(place)!r} is there already; name a new folder, or a .safetensors file")
    shutil.rmtree(room)
    return {task.key: done[task.key]["report"] if task.key in done else None for task in tasks}


def _write(
    place: Path,
    single: bool,
    tasks: Sequence[Task],
    plans: Mapping[str, Sequence[Planned]],
    metadata: Mapping[str, str],
    how: str,
    others: Mapping[str, bytes] | None,
    watch: Watch,
    source: Path | None,
    spread: Spread | None,
) -> dict[str, Any]:
    """Write everything to the hidden folder, rename, and return the reports of all tasks by their keys."""
    room = place.with_name(f".{place.name}.partial")
    home = room if single else room / _SINGLE
    said = [lowprec.__version__, how, dict(metadata), [(task.name, task.file, task.plan) for task in tasks]]
    digest = hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()
    if not single and place.exists():
        return _finished(place, room, digest, tasks)
    split = {task.name: [name for name, _, _ in task.plan] for task in tasks if task.is_split}
    with ExitStack() as stack:
        with writable(room):
            journal, done = _begun(room, digest)
            stack.enter_context(journal)
            home.mkdir(exist_ok=True)
            for left in () if single else home.iterdir():
                if left.name not in plans:  # written beside the tensors by a run that was killed
                    left.unlink()
            if not single:
                _note(journal, {"folder": home.stat().st_ino})
        done = _still(tasks, done, room)
        writers: dict[str, Writer] = {}
        try:
            try:
                for name, plan in plans.items():
                    with writable(home / name):
                        file = stack.enter_context(files.own(home / name))
                    kind = _WRITERS[Path(name).suffix]
                    writers[name] = kind(file, plan, metadata, bool(done), source, split)
                    stack.push(writers[name])
            finally:
                if done and not all(writer.kept for writer in writers.values()):
                    _tell(room, "left files that were changed since, so this one starts anew")
                    done = {}
                for entry in done.values():
                    _note(journal, entry)
            reports = {name: entry["report"] for name, entry in done.items()}
            _carry_out(tasks, writers, journal, reports, watch, spread)
        except Exception:
            stack.close()
            if not _noted((room / _JOURNAL).read_bytes().splitlines()):  # refused, and nothing lost
                shutil.rmtree(room)
            raise
    # One file whose name says that there are others needs an index too: it says that it is all.
    indexed = len(plans) > 1 or not single and SHARD.fullmatch(next(iter(plans)))
    beside = dict(others or {}) | ({INDEX: _index(plans)} if indexed else {})
    for name, content in beside.items():
        with writable(home / name):
            files.write(home / name, content)
    with writable(place):
        files.publish(home / next(iter(plans)) if single else home, place)
    shutil.rmtree(room)
    return reports


def _carry_out(
    tasks: Sequence[Task],
    writers: Mapping[str, Writer],
    journal: BinaryIO,
    done: dict[str, Any],
    watch: Watch,
    spread: Spread | None,
) -> None:
    """Do the tasks that are not done, note each in the journal, and add its report to `done`."""
    only = next(iter(writers.values())) if len(writers) == 1 else None
    left = [(task, only or writers[_named(task.file)]) for task in tasks if task.key not in done]
    total = sum(task.size for task in tasks)
    ready = total - sum(task.size for task, _ in left)
    for writer in writers.values():
        writer.sync()  # before others open it
    names = [*(task.name for task, _ in left[1:]), "written"]
    if watch is not None and left:
        watch(ready, total, left[0][0].name)
    results = (spread or itertools.starmap)(_perform, left)
    for (task, _), following, (content, report) in zip(left, names, results, strict=False):
        done[task.key] = report
        if content:
            _note(journal, {"done": task.key, "source": content, "report": report})
        ready += task.size
        if watch is not None:
            watch(ready, total, following)


def _perform(task: Task, writer: Writer) -> tuple[str, dict[str, Any] | None]:
    """Do a task; what it has written is on the disk then. Return its content and its report."""
    with naming(task.name):
        content = task.content() if task.reads else ""  # before it is read, lest it changes in between
        report = task.work(writer.write)
    writer.sync()
    return content, report


def _named(file: str) -> str:
    return file if file.endswith(".safetensors") else f"{_SINGLE}.safetensors"


def _begun(room: Path, digest: str) -> tuple[BinaryIO, dict[str, dict[str, Any]]]:
    """Return the journal, open and without lines, and those that an earlier run of the same work left in it.

    Of other work nothing is kept, and that is said.
    """
    path = room / _JOURNAL
    if files.private(room) and not path.exists() and any(room.iterdir()):
        raise CheckpointError(f"{str(room)!r} is in the way, and not of an earlier run; move it elsewhere")
    journal = files.own(path)
    first, *lines = journal.read().splitlines() or [b""]
    done = {}
    if first == _first(digest):
        done = _noted(lines)
    elif first:
        _tell(
            room, "was of other tensors or options, or by another version of lowprec, so this one starts anew"
        )
    journal.seek(0)
    journal.truncate()  # before any file changes
    _note(journal, {"digest": digest})
    os.fsync(journal.fileno())
    for left in room.iterdir() if not done else ():
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left)
        elif left != path:
            left.unlink()
    return journal, done


def _first(digest: str) -> bytes:
    """Return the first line of a journal."""
    return json.dumps({"digest": digest}).encode()


def _noted(lines: Iterable[bytes]) -> dict[str, dict[str, Any]]:
    """Return the lines of weights that are done, by their keys."""
    done = {}
    for line in lines:
        try:
            entry = parse_json(line, "a line")
        except CheckpointError:  # cut: this weight is written again
            continue
        name, report = entry.get("done"), entry.get("report", False)
        if isinstance(name, str) and (report is None or isinstance(report, dict)):
            done[name] = entry
    return done


def _still(
    tasks: Iterable[Task], done: Mapping[str, dict[str, Any]], room: Path
) -> dict[str, dict[str, Any]]:
    """Return the lines of weights whose source is the same, byte for byte; say how many others there are."""
    kept = {
        task.key: done[task.key]
        for task in tasks
        if task.key in done and task.reads and done[task.key].get("source") == task.content()
    }
    if len(kept) < len(done):
        _tell(
            room,
            f"read other data for {len(done) - len(kept):,} of {len(done):,} weights, which are done again",
        )
    return kept


def _tell(room: Path, what: str) -> None:
    logging.getLogger("lowprec").warning("the earlier run in %r %s", str(room), what)


def _note(journal: BinaryIO, entry: Mapping[str, Any]) -> None:
    """Add a line, which a killed run keeps; a line that a power failure takes costs a weight done again."""
    with filling(journal):
        journal.write(json.dumps(entry).encode() + b"\n")
        journal.flush()


def _index(plans: Mapping[str, Iterable[Planned]]) -> bytes:
    """Return an index; `total_size` is the bytes of the tensors, without headers, as others count it."""
    weights = {name: file for file, plan in plans.items() for name, _, _ in plan}
    size = sum(math.prod(shape) * TYPES[tag][1] // 8 for plan in plans.values() for _, tag, shape in plan)
    whole = {"metadata": {"total_size": size}, "weight_map": dict(sorted(weights.items()))}
    return json.dumps(whole, indent=1).encode()
