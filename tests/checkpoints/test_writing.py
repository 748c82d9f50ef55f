"""Files appear whole or not at all, and a run that was killed goes on."""

from __future__ import annotations

import json

import numpy as np
import pytest

from lowprec.checkpoints import quantizing, writing
from lowprec.checkpoints.container import CheckpointError
from lowprec.checkpoints.folder import open_checkpoint
from lowprec.checkpoints.quantizing import quantize_checkpoint, target
from lowprec.checkpoints.writing import Task, write_checkpoint
from tests.checkpoints.files import source
from tests.programs import need_package

OTHERS = {f"m.{name}.weight": np.full((32, 32), 1 + place, np.float32) for place, name in enumerate("abcd")}


class _Killed(BaseException):
    """Nothing catches this, as nothing catches a signal."""


@pytest.mark.parametrize("folder", [False, True])
@pytest.mark.parametrize("writes", [0, 1, 4, 9, 10, 11])
def test_a_run_that_is_killed_leaves_nothing_and_goes_on(tmp_path, monkeypatch, folder, writes):
    """After any number of writes; the result is that of one run, byte for byte."""
    made = source(tmp_path / "s.safetensors", (64, 32), **OTHERS)
    name, how = ("out" if folder else "out.safetensors"), target("quark", "mxfp4")
    (tmp_path / "once").mkdir()
    quantize_checkpoint(made, tmp_path / "once" / name, how)
    original, count = writing.Writer.write, 0

    def killed(self, *arguments):
        nonlocal count
        count += 1
        if count > writes:
            raise _Killed
        original(self, *arguments)

    monkeypatch.setattr(writing.Writer, "write", killed)
    out = tmp_path / name
    try:
        quantize_checkpoint(made, out, how)
    except _Killed:
        assert not out.exists()
    monkeypatch.setattr(writing.Writer, "write", original)
    if not out.exists():
        reports, _ = quantize_checkpoint(made, out, how)
        assert sorted(reports) == ["m.a.weight", "m.b.weight", "m.c.weight", "m.d.weight", "m.q.weight"]
    whole, again = (path / "s.safetensors" if folder else path for path in (tmp_path / "once" / name, out))
    assert whole.read_bytes() == again.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["once", name, "s.safetensors"])
    assert not folder or sorted(path.name for path in out.iterdir()) == ["config.json", "s.safetensors"]


def test_weights_that_are_done_are_not_done_again(tmp_path, monkeypatch):
    made = source(tmp_path / "s.safetensors", (64, 32), **OTHERS)
    tried = []
    original = quantizing.largest

    def stops(weight):
        tried.append(weight.name)
        if len(tried) == 3:
            raise _Killed
        return original(weight)

    monkeypatch.setattr(quantizing, "largest", stops)
    with pytest.raises(_Killed):
        quantize_checkpoint(made, tmp_path / "out.safetensors", target("quark", "mxfp4"))
    quantize_checkpoint(made, tmp_path / "out.safetensors", target("quark", "mxfp4"))
    assert len(tried) == 6
    assert tried[2] == tried[3]


def test_other_work_does_not_go_on_where_this_stopped(tmp_path, monkeypatch):
    made = source(tmp_path / "s.safetensors", (64, 32), **OTHERS)

    def stops(weight):
        raise _Killed

    original = quantizing.largest
    monkeypatch.setattr(quantizing, "largest", stops)
    with pytest.raises(_Killed):
        quantize_checkpoint(made, tmp_path / "out.safetensors", target("quark", "mxfp4"))
    monkeypatch.setattr(quantizing, "largest", original)
    quantize_checkpoint(made, tmp_path / "out.safetensors", target("modelopt", "nvfp4"))
    assert "m.a.weight_scale_2" in open_checkpoint(tmp_path / "out.safetensors").entries


def test_a_journal_whose_last_line_was_cut_keeps_the_lines_before(tmp_path):
    room = tmp_path / ".out.partial"
    room.mkdir()
    (room / ".lowprec-journal").write_text('{"digest": "x"}\n{"done": "a", "report": null}\n{"done": "b')
    assert writing._begun(room, "x") == {"a": None}
    assert writing._begun(room, "y") == {}


def test_a_folder_that_was_renamed_and_keeps_its_journal_is_whole(tmp_path, monkeypatch):
    """Killed between the last two steps: the same command ends well, another is refused."""
    made = source(tmp_path / "s.safetensors", (64, 32), **OTHERS)

    def stops(old, new):
        rename(old, new)
        raise _Killed

    rename = writing.os.rename
    monkeypatch.setattr(writing.os, "rename", stops)
    with pytest.raises(_Killed):
        quantize_checkpoint(made, tmp_path / "out", target("quark", "mxfp4"))
    monkeypatch.setattr(writing.os, "rename", rename)
    with pytest.raises(CheckpointError, match="is there already"):
        quantize_checkpoint(made, tmp_path / "out", target("quark", "e4m3fn"))
    reports, _ = quantize_checkpoint(made, tmp_path / "out", target("quark", "mxfp4"))
    assert len(reports) == 5
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["config.json", "s.safetensors"]


def test_lines_after_a_cut_one_count(tmp_path):
    room = tmp_path / ".out.partial"
    room.mkdir()
    lines = '{"digest": "x"}\n{"done": "a", "report": null}\n{"done": "b\n{"done": "c", "report": null}\n'
    (room / ".lowprec-journal").write_text(lines)
    assert list(writing._begun(room, "x")) == ["a", "c"]


def test_a_folder_of_somebody_else_is_left_alone(tmp_path):
    made = source(tmp_path / "s.safetensors")
    room = tmp_path / ".out.safetensors.partial"
    room.mkdir()
    (room / "precious").write_text("kept")
    with pytest.raises(CheckpointError, match="is in the way, and not of an earlier run; move it elsewhere"):
        quantize_checkpoint(made, tmp_path / "out.safetensors", target("quark", "mxfp4"))
    assert (room / "precious").read_text() == "kept"


def test_metadata_says_how_it_was_made(tmp_path):
    made = source(tmp_path / "s.safetensors")
    quantize_checkpoint(made, tmp_path / "out.safetensors", target("quark", "mxfp4", rule="rceil"))
    said = json.loads(open_checkpoint(tmp_path / "out.safetensors").metadata["lowprec"])
    assert said["made"] == "quantize"
    assert said["scheme"] == "quark mxfp4"
    assert said["rule"] == "rceil"


def test_a_folder_that_is_there_is_refused(tmp_path):
    made = source(tmp_path / "s.safetensors")
    (tmp_path / "out").mkdir()
    with pytest.raises(CheckpointError, match="is there already; name a new folder"):
        quantize_checkpoint(made, tmp_path / "out", target("quark", "mxfp4"))
    with pytest.raises(CheckpointError, match="there is no folder"):
        quantize_checkpoint(made, tmp_path / "none" / "x.safetensors", target("quark", "mxfp4"))


@pytest.mark.parametrize("name", ["out.gguf", "out.onnx", "out.pt", "out.safetensors"])
def test_what_a_format_cannot_hold_leaves_nothing_behind(tmp_path, name):
    """Types, or bits that are no whole bytes: a later run has nothing to go on with."""
    if name in ("out.gguf", "out.onnx"):
        need_package(name[4:])
    tag, shape = {".safetensors": ("F4", (3,)), ".pt": ("I4", (2,))}.get(name[3:], ("C64", (2,)))
    task = Task("x", "x", (("x", tag, shape),), 2, lambda write: None)
    with pytest.raises(CheckpointError, match="tensor 'x'"):
        write_checkpoint(tmp_path / name, [task], {}, "digest")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["out.pth", "out.bin"])
def test_other_endings_of_torch_are_refused(tmp_path, name):
    """Not taken for folders."""
    made = source(tmp_path / "s.safetensors", (64, 32))
    with pytest.raises(
        CheckpointError, match=rf"files are not written; name a \.pt file instead of '{name}'"
    ):
        quantize_checkpoint(made, tmp_path / name, target("quark", "mxfp4"))
