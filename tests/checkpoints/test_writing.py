"""Files appear whole or not at all, and a run that was killed goes on."""

import errno
import functools
import io
import json
import os
import re
import shutil
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import lowprec
from lowprec import files
from lowprec.checkpoints import container, quantizing, writing
from lowprec.checkpoints.converting import convert_checkpoint, dequantize_checkpoint
from lowprec.checkpoints.correcting import statistics_in
from lowprec.checkpoints.folder import INDEX, open_checkpoint
from lowprec.checkpoints.linting import lint
from lowprec.checkpoints.quantizing import quantize_checkpoint, target
from lowprec.checkpoints.writing import Task, write_checkpoint
from tests.checkpoints.files import refusal, source
from tests.programs import need_package

posix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="links, pipes and modes are POSIX's")
#: Family and format of sources, which change while they are read.
_CHANGING = {
    "s.safetensors": ("", ""),
    "s.gguf": ("gguf", "mxfp4"),
    "s.pt": ("transformer-engine", "mxfp8_e4m3"),
    "s.onnx": ("onnx", "e4m3fn"),
}
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

    def stops(weight, how):
        tried.append(weight.name)
        if len(tried) == 3:
            raise _Killed
        return original(weight, how)

    monkeypatch.setattr(quantizing, "largest", stops)
    with pytest.raises(_Killed):
        quantize_checkpoint(made, tmp_path / "out.safetensors", target("quark", "mxfp4"))
    quantize_checkpoint(made, tmp_path / "out.safetensors", target("quark", "mxfp4"))
    assert len(tried) == 6
    assert tried[2] == tried[3]


def test_other_work_does_not_go_on_where_this_stopped(tmp_path, monkeypatch):
    made = source(tmp_path / "s.safetensors", (64, 32), **OTHERS)

    def stops(weight, how):
        raise _Killed

    original = quantizing.largest
    monkeypatch.setattr(quantizing, "largest", stops)
    with pytest.raises(_Killed):
        quantize_checkpoint(made, tmp_path / "out.safetensors", target("quark", "mxfp4"))
    monkeypatch.setattr(quantizing, "largest", original)
    quantize_checkpoint(made, tmp_path / "out.safetensors", target("modelopt", "nvfp4"))
    assert "m.a.weight_scale_2" in open_checkpoint(tmp_path / "out.safetensors").entries


def _begun(room, digest):
    journal, done = writing._begun(room, digest)
    journal.close()
    return list(done)


def test_a_journal_whose_last_line_was_cut_keeps_the_lines_before(tmp_path):
    room = tmp_path / ".out.partial"
    room.mkdir()
    (room / ".lowprec-journal").write_text('{"digest": "x"}\n{"done": "a", "report": null}\n{"done": "b')
    assert _begun(room, "x") == ["a"]
    assert _begun(room, "y") == []


def test_lines_after_a_cut_one_count(tmp_path):
    room = tmp_path / ".out.partial"
    room.mkdir()
    lines = '{"digest": "x"}\n{"done": "a", "report": null}\n{"done": "b\n{"done": "c", "report": null}\n'
    (room / ".lowprec-journal").write_text(lines)
    assert _begun(room, "x") == ["a", "c"]


@pytest.mark.parametrize("renamed", [False, True])
def test_a_folder_that_was_renamed_is_whole_and_the_same_command_ends_well(tmp_path, monkeypatch, renamed):
    """Killed just after the last step; what is left beside it hinders no other run."""
    made = source(tmp_path / "s.safetensors", (64, 32), **OTHERS)

    def stops(old, new):
        replace(old, new)
        if new == tmp_path / "out":
            raise _Killed

    replace = files.os.replace
    monkeypatch.setattr(files.os, "replace", stops)
    with pytest.raises(_Killed):
        quantize_checkpoint(made, tmp_path / "out", target("quark", "mxfp4"))
    monkeypatch.setattr(files.os, "replace", replace)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["config.json", "s.safetensors"]
    with refusal("is there already"):
        quantize_checkpoint(made, tmp_path / "out", target("quark", "mxfp6_e2m3"))
    (tmp_path / "out").rename(tmp_path / "first")
    shutil.copytree(tmp_path / "first", tmp_path / "out")
    with refusal("is there already"):  # it may be of somebody else
        quantize_checkpoint(made, tmp_path / "out", target("quark", "mxfp4"))
    shutil.rmtree(tmp_path / "out")
    if renamed:
        (tmp_path / "first").rename(tmp_path / "out")
    reports, _ = quantize_checkpoint(made, tmp_path / "out", target("quark", "mxfp4"))
    expected, _ = quantize_checkpoint(made, tmp_path / "again", target("quark", "mxfp4"))
    assert reports == expected
    first, again = (tmp_path / name / "s.safetensors" for name in ("again", "out"))
    assert first.read_bytes() == again.read_bytes()
    names = {"s.safetensors", "out", "again"} | (set() if renamed else {"first"})
    assert {path.name for path in tmp_path.iterdir()} == names


def test_a_weight_that_is_refused_leaves_no_hidden_folder_unless_others_are_done(tmp_path):
    wrong = np.full((4, 32), np.nan, np.float32)
    for name, left in (("m.a", False), ("m.z", True)):
        made = source(tmp_path / f"{name}.safetensors", (64, 32), **{f"{name}.weight": wrong})
        for out in (tmp_path / f"{name}-q.safetensors", tmp_path / f"{name}-q"):
            with refusal("NaN or infinite"):
                quantize_checkpoint(made, out, target("quark", "mxfp4"))
            assert out.with_name(f".{out.name}.partial").exists() == left
            assert not out.with_name(f".{out.name}.lock").exists()


# -- an earlier run of something else -----------------------------------------------------------------


def _stopped(monkeypatch, run, after):
    """Let `run` be killed when it writes for the `after`-th time."""
    original, count = writing.Writer.write, 0

    def killed(self, *arguments):
        nonlocal count
        count += 1
        if count > after:
            raise _Killed
        original(self, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(writing.Writer, "write", killed)
        with pytest.raises(_Killed):
            run()


def _alike(tmp_path, name, **weights):
    """Write a source whose size and time tell nothing."""
    (tmp_path / name).mkdir(exist_ok=True)
    made = source(tmp_path / name / "s.safetensors", (64, 32), **weights)
    os.utime(made.path, (1, 1))
    return open_checkpoint(made.path)


def _converted(made, out):
    return convert_checkpoint(made, out, target("modelopt", "nvfp4"))


def _statistics(made, out):
    inputs = made.path.with_name("inputs.safetensors")
    numbers = np.random.default_rng(int(made.entries["m.a.weight"].read()[0, 0] > 0)).standard_normal(
        (64, 32)
    )
    save_file({name: numbers.astype(np.float32) for name in OTHERS}, inputs)
    whole = open_checkpoint(made.path.parents[1] / "weights.safetensors")
    return quantize_checkpoint(whole, out, target("quark", "mxfp4"), statistics=statistics_in(inputs, "gptq"))


@pytest.mark.parametrize("name", ["out", "out.safetensors"])
@pytest.mark.parametrize(
    ("prepare", "run"),
    [
        (None, lambda made, out: quantize_checkpoint(made, out, target("quark", "mxfp4"))),
        ("quark", _converted),
        ("quark", lambda made, out: dequantize_checkpoint(made, out)),
        (None, _statistics),
    ],
    ids=["quantize", "convert", "dequantize", "statistics"],
)
def test_a_run_goes_on_from_no_other_source(tmp_path, monkeypatch, caplog, prepare, run, name):
    """Files of the same names, sizes and times: 20 of 80 tensors were another model's."""
    noise = np.random.default_rng(2)
    others = {key: noise.standard_normal((32, 32)).astype(np.float32) for key in OTHERS}
    source(tmp_path / "weights.safetensors", (64, 32), **others)
    made = [_alike(tmp_path, "a", **others), _alike(tmp_path, "b", **{k: -v for k, v in others.items()})]
    if prepare:
        for each, folder in enumerate("cd"):
            (tmp_path / folder).mkdir()
            path = tmp_path / folder / "s.safetensors"
            quantize_checkpoint(made[each], path, target(prepare, "mxfp4"))
            os.utime(path, (1, 1))
            made[each] = open_checkpoint(path)
    (tmp_path / "once").mkdir()
    run(made[1], tmp_path / "once" / name)
    _stopped(monkeypatch, lambda: run(made[0], tmp_path / name), 4)
    run(made[1], tmp_path / name)
    once, again = (tmp_path / "once" / name, tmp_path / name)
    once, again = (
        path / next(iter(path.glob("*.safetensors"))) if name == "out" else path for path in (once, again)
    )
    assert once.read_bytes() == again.read_bytes()
    (said,) = (record.getMessage() for record in caplog.records)
    assert f"the earlier run in {str(tmp_path / f'.{name}.partial')!r} read other data for" in said


@pytest.mark.parametrize("how", ["replaced", "written", "written of one time"])
@pytest.mark.parametrize("name", ["s.safetensors", "s.gguf", "s.pt", "s.onnx"])
def test_a_source_that_changes_while_it_is_read_is_refused(tmp_path, monkeypatch, name, how):
    """A checkpoint that is downloaded again, say: weights of both were in one file, without a word."""
    family, to = _CHANGING[name]
    if family in ("gguf", "onnx"):
        need_package(family)
    path, out = tmp_path / name, tmp_path / "out.safetensors"
    for each, sign in enumerate((1, -1)):
        made = source(tmp_path / f"{each}.safetensors", (64, 32), **{k: sign * v for k, v in OTHERS.items()})
        part = tmp_path / f"{each}{path.suffix}"
        if family:
            quantize_checkpoint(made, part, target(family, to))
        os.utime(part, (1, 1) if how == "written of one time" else (each + 1, each + 1))
    if name == "s.onnx":
        import onnx

        model = onnx.load(tmp_path / "0.onnx")
        onnx.save(model, path, save_as_external_data=True, location="data", size_threshold=0)
        path = tmp_path / "data"
        (tmp_path / "1.onnx").write_bytes(bytes(path.stat().st_size))
    else:
        (tmp_path / f"0{path.suffix}").rename(path)
    made, other = open_checkpoint(tmp_path / name), tmp_path / f"1{Path(name).suffix}"
    original = writing._perform

    def changes(task, writer):
        done = original(task, writer)
        if other.exists():
            time.sleep(0.05)  # longer than the clock of files takes from one time to the next
            if how != "replaced":
                path.write_bytes(other.read_bytes())
                os.utime(path, (1, 1))
                other.unlink()
            else:
                other.rename(path)
        return done

    monkeypatch.setattr(writing, "_perform", changes)
    why = f"{str(path)!r} was changed or replaced while it was read; start again when it is whole"
    with refusal(re.escape(why)):
        dequantize_checkpoint(made, out)
    assert not out.exists()
    monkeypatch.setattr(writing, "_perform", original)
    if name != "s.onnx":
        dequantize_checkpoint(open_checkpoint(path), out)
        found = open_checkpoint(out).entries["m.a.weight"].read()
        assert (found < 0).all()


def test_a_source_that_was_moved_is_still_the_source(tmp_path, monkeypatch):
    """Its content counts, and neither its folder nor its time."""
    how, tried, original = target("quark", "mxfp4"), [], quantizing.largest
    _stopped(
        monkeypatch,
        lambda: quantize_checkpoint(_alike(tmp_path, "a", **OTHERS), tmp_path / "out.safetensors", how),
        5,
    )
    (tmp_path / "a").rename(tmp_path / "b")
    os.utime(tmp_path / "b" / "s.safetensors", (7, 7))
    monkeypatch.setattr(
        quantizing, "largest", lambda *given: (tried.append(given[0].name), original(*given))[1]
    )
    quantize_checkpoint(open_checkpoint(tmp_path / "b"), tmp_path / "out.safetensors", how)
    assert 0 < len(tried) < 5


@pytest.mark.parametrize("change", ["version", "options"])
def test_other_versions_and_options_start_anew_with_a_word(tmp_path, monkeypatch, caplog, change):
    """Those of dequantize lacked the version."""
    path = tmp_path / "q.safetensors"
    quantize_checkpoint(_alike(tmp_path, "a", **OTHERS), path, target("quark", "mxfp4"))
    made, out = open_checkpoint(path), tmp_path / "out.safetensors"
    _stopped(monkeypatch, lambda: dequantize_checkpoint(made, out), 3)
    journal = tmp_path / ".out.safetensors.partial" / ".lowprec-journal"
    assert len(journal.read_text().splitlines()) == 3
    if change == "version":
        monkeypatch.setattr(lowprec, "__version__", "0.0")
    _stopped(
        monkeypatch, lambda: dequantize_checkpoint(made, out, "F32" if change == "version" else "F16"), 0
    )
    assert len(journal.read_text().splitlines()) == 1
    (said,) = (record.getMessage() for record in caplog.records)
    assert said == (
        f"the earlier run in {str(journal.parent)!r} was of other tensors or options, or by another version "
        f"of lowprec, so this one starts anew"
    )


def test_files_that_were_changed_since_are_written_anew(tmp_path, monkeypatch, caplog):
    made, out, how = _alike(tmp_path, "a", **OTHERS), tmp_path / "out.safetensors", target("quark", "mxfp4")
    quantize_checkpoint(made, tmp_path / "once.safetensors", how)
    _stopped(monkeypatch, lambda: quantize_checkpoint(made, out, how), 5)
    (tmp_path / ".out.safetensors.partial" / "model.safetensors").write_bytes(b"cut")
    quantize_checkpoint(made, out, how)
    assert out.read_bytes() == (tmp_path / "once.safetensors").read_bytes()
    assert "left files that were changed since, so this one starts anew" in caplog.text


# -- what others may have put there -------------------------------------------------------------------


@posix
@pytest.mark.parametrize("kind", ["link", "second name", "pipe", "another user's"])
def test_a_planted_lock_is_not_followed(tmp_path, kind):
    """Its target was emptied, and a number written there."""
    made, lock, target_ = (
        source(tmp_path / "s.safetensors"),
        tmp_path / ".out.safetensors.lock",
        tmp_path / "precious",
    )
    target_.write_text("precious")
    if kind == "link":
        lock.symlink_to(target_)
    elif kind == "second name":
        lock.hardlink_to(target_)
    elif kind == "pipe":
        os.mkfifo(lock)
    elif os.geteuid() == 0:
        lock.write_text("precious")
        os.chown(lock, 54321, -1)
    else:
        pytest.skip("needs root, for two users")
    with refusal(r"cannot make the lock file .*\.lock': it is .*; remove it"):
        quantize_checkpoint(made, tmp_path / "out.safetensors", target("quark", "mxfp4"))
    assert target_.read_text() == "precious"
    assert kind == "pipe" or lock.read_text() == "precious"


@posix
def test_a_file_of_other_content_is_no_lock(tmp_path):
    """It was emptied and removed."""
    made, lock = source(tmp_path / "s.safetensors"), tmp_path / ".out.safetensors.lock"
    for text in ("notes of mine", "4711\n", "1" * 20 + "x"):
        lock.write_text(text)
        with refusal(r"\.lock' is in the way, and no lock file of an earlier run"):
            quantize_checkpoint(made, tmp_path / "out.safetensors", target("quark", "mxfp4"))
        assert lock.read_text() == text


def _planted(room, made):
    """Put a folder there whose journal says that all is done."""
    quantize_checkpoint(made, room.parent / "whole.safetensors", target("quark", "mxfp4"))
    with pytest.MonkeyPatch.context() as patched:
        _stopped(
            patched,
            lambda: quantize_checkpoint(made, room.parent / "out.safetensors", target("quark", "mxfp4")),
            5,
        )
    assert room.is_dir()


@posix
@pytest.mark.parametrize("how", ["link", "mode", "owner"])
def test_a_hidden_folder_that_others_may_have_put_there_is_refused(tmp_path, how):
    """A journal there that says "done" would be believed, and the model beside it published."""
    made, room = source(tmp_path / "s.safetensors", (64, 32), **OTHERS), tmp_path / ".out.safetensors.partial"
    _planted(room, made)
    if how == "link":
        room.rename(tmp_path / "elsewhere")
        room.symlink_to("elsewhere")
    elif how == "mode":
        room.chmod(0o770)
    elif os.geteuid() == 0:
        os.chown(room, 54321, -1)
    else:
        pytest.skip("needs root, for two users")
    before = {path.name: path.read_bytes() for path in room.iterdir()}
    why = {
        "link": "it is a link or no folder",
        "mode": r"others may write it \(mode 0770\)",
        "owner": "it is a folder of user 54321",
    }[how]
    with refusal(rf"cannot write .*partial': {why}, so what it holds .*; remove it"):
        quantize_checkpoint(made, tmp_path / "out.safetensors", target("quark", "mxfp4"))
    assert before == {path.name: path.read_bytes() for path in room.iterdir()}
    assert not (tmp_path / "out.safetensors").exists()


@posix
def test_an_unfinished_run_is_for_its_user_alone(tmp_path, monkeypatch):
    """And what it publishes has the mode that the umask leaves."""
    made, before = source(tmp_path / "s.safetensors", (64, 32), **OTHERS), os.umask(0o002)
    try:
        for name in ("out", "out.safetensors"):
            run = functools.partial(quantize_checkpoint, made, tmp_path / name, target("quark", "mxfp4"))
            _stopped(monkeypatch, run, 5)
            assert (tmp_path / f".{name}.partial").stat().st_mode & 0o777 == 0o700
            run()
    finally:
        os.umask(before)
    modes = {
        path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "out", *(tmp_path / "out").iterdir())
    }
    assert modes == {"out": 0o775, "s.safetensors": 0o664, "config.json": 0o664}
    assert (tmp_path / "out.safetensors").stat().st_mode & 0o777 == 0o664


@posix
def test_a_checkpoint_that_is_replaced_keeps_its_mode_and_its_links(tmp_path):
    made, out = source(tmp_path / "s.safetensors"), tmp_path / "folder" / "q.safetensors"
    out.parent.mkdir()
    out.write_text("old")
    out.chmod(0o600)
    (tmp_path / "link.safetensors").symlink_to("folder/q.safetensors")
    quantize_checkpoint(made, tmp_path / "link.safetensors", target("quark", "mxfp4"))
    assert (tmp_path / "link.safetensors").is_symlink()
    assert out.stat().st_mode & 0o777 == 0o600
    assert open_checkpoint(out).entries
    assert [path.name for path in out.parent.iterdir()] == ["q.safetensors"]


@pytest.mark.parametrize("room", [100, 3000, 20_000])
def test_a_full_disk_is_an_error_with_the_file_and_a_second_run_goes_on(tmp_path, monkeypatch, room):
    """The message was "File too large", of no file."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # it would be cut, and stay
    resource = pytest.importorskip("resource", reason="limits of files are POSIX's")
    made, out = source(tmp_path / "s.safetensors", (64, 32), **OTHERS), tmp_path / "out.safetensors"
    out.write_bytes(b"old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
        why = f"cannot write {str(tmp_path)!r}"[:-1] + ".*: File too large"
        with refusal(why):
            dequantize_checkpoint(made, out) if room > 3000 else quantize_checkpoint(
                made, out, target("quark", "mxfp4")
            )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert out.read_bytes() == b"old"
    quantize_checkpoint(made, out, target("quark", "mxfp4"))
    assert "m.a.weight" in open_checkpoint(out).entries


class _Full(io.FileIO):
    def write(self, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@posix
@pytest.mark.parametrize("full", ["lock", "journal", "model"])
@pytest.mark.parametrize(
    ("name", "family", "to"),
    [("out.safetensors", "quark", "mxfp4"), ("out.onnx", "onnx", "int8"), ("out.gguf", "gguf", "mxfp4"),
     ("out.pt", "transformer-engine", "mxfp8_e4m3")],
)  # fmt: skip
def test_a_full_disk_is_named_whatever_is_written(tmp_path, monkeypatch, name, family, to, full):
    """Closing what was not written failed once more, with an error that named no file."""
    if family in ("gguf", "onnx"):
        need_package(family)
    made, original = source(tmp_path / "s.safetensors", (64, 32), **OTHERS), files.own

    def own(path):
        file = original(path)
        if full not in path.name:
            return file
        raw = _Full(os.dup(file.fileno()), "r+")
        raw.name = str(path)
        file.close()
        return io.BufferedRandom(raw)

    monkeypatch.setattr(files, "own", own)
    with refusal(f"cannot write '[^']*{full}[^']*': No space left on device"):
        quantize_checkpoint(made, tmp_path / name, target(family, to))
    monkeypatch.setattr(files, "own", original)
    assert not (tmp_path / name).exists()
    quantize_checkpoint(made, tmp_path / name, target(family, to))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "s.safetensors"])


@posix
@pytest.mark.parametrize("name", ["out.safetensors", "out"])
def test_a_pipe_is_refused_before_anything_is_done(tmp_path, name):
    """It was replaced."""
    made = source(tmp_path / "s.safetensors")
    os.mkfifo(tmp_path / name)
    words = "it is a pipe, device or folder, and .* at many places; name a regular file|is there already"
    with refusal(words):
        quantize_checkpoint(made, tmp_path / name, target("quark", "mxfp4"))
    assert (tmp_path / name).is_fifo()
    assert sorted(path.name for path in tmp_path.iterdir()) == [name, "s.safetensors"]


def test_a_folder_of_somebody_else_is_left_alone(tmp_path):
    made = source(tmp_path / "s.safetensors")
    room = tmp_path / ".out.safetensors.partial"
    room.mkdir()
    (room / "precious").write_text("kept")
    with refusal("is in the way, and not of an earlier run; move it elsewhere"):
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
    with refusal("is there already; name a new folder"):
        quantize_checkpoint(made, tmp_path / "out", target("quark", "mxfp4"))
    with refusal("there is no folder"):
        quantize_checkpoint(made, tmp_path / "none" / "x.safetensors", target("quark", "mxfp4"))


@pytest.mark.parametrize("name", ["out.gguf", "out.onnx", "out.pt", "out.safetensors"])
def test_what_a_format_cannot_hold_leaves_nothing_behind(tmp_path, name):
    """Types, or bits that are no whole bytes: a later run has nothing to go on with."""
    if name in ("out.gguf", "out.onnx"):
        need_package(name[4:])
    tag, shape = {".safetensors": ("F4", (3,)), ".pt": ("I4", (2,))}.get(name[3:], ("C64", (2,)))
    task = Task("x", "x", (("x", tag, shape),), 2, lambda write: None)
    with refusal("tensor 'x'"):
        write_checkpoint(tmp_path / name, [task], {}, "digest")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["out.pth", "out.bin"])
def test_other_endings_of_torch_are_refused(tmp_path, name):
    """Not taken for folders."""
    made = source(tmp_path / "s.safetensors", (64, 32))
    with refusal(rf"files are not written; name a \.pt file instead of '{name}'"):
        quantize_checkpoint(made, tmp_path / name, target("quark", "mxfp4"))


def test_two_weights_of_one_name_are_both_written_when_a_run_goes_on(tmp_path, monkeypatch):
    """The second one was held to be done: it became zeros, and the report of the first was lost."""
    (tmp_path / "s").mkdir()
    quantize_checkpoint(
        source(tmp_path / "a.safetensors", (64, 32)), tmp_path / "b.safetensors", target("quark", "mxfp4")
    )
    parts = open_checkpoint(tmp_path / "b.safetensors").entries
    tensors = {name: parts[f"m.q.{name}"].read().view(np.uint8) for name in ("weight", "weight_scale")}
    save_file(
        {"x.weight_packed": tensors["weight"], "x.weight_scale": tensors["weight_scale"]},
        tmp_path / "s" / "a.safetensors",
    )
    save_file({"x.weight": np.arange(1, 8, dtype=np.float32)}, tmp_path / "s" / "b.safetensors")
    made, out, how = (
        open_checkpoint(tmp_path / "s"),
        tmp_path / "out.safetensors",
        target("compressed-tensors", "mxfp4"),
    )
    _stopped(monkeypatch, lambda: quantize_checkpoint(made, out, how), 2)
    assert '"done"' in (tmp_path / ".out.safetensors.partial" / ".lowprec-journal").read_text()
    reports, _ = quantize_checkpoint(made, out, how)
    assert lowprec.load(out)["x.weight"].tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert reports["x.weight"]["size"] == 64 * 32


def test_a_header_that_changes_while_it_is_read_is_refused(tmp_path, monkeypatch):
    """The time was looked at after the header was read, so other bytes were taken by it."""
    made = source(tmp_path / "s.safetensors", (64, 32), **OTHERS)
    data, original = bytearray(made.path.read_bytes()), container.parse_json

    def changes(text, what):
        time.sleep(0.05)
        data[-4:] = b"\0\0\0\1"
        made.path.write_bytes(data)
        return original(text, what)

    monkeypatch.setattr(container, "parse_json", changes)
    found = open_checkpoint(made.path)
    with refusal("was changed or replaced while it was read; start again"):
        found.entries["m.a.weight"].read()


def test_the_nodes_and_the_weights_of_a_model_are_of_one_file(tmp_path):
    """A model that took the name of the one that was opened gave its nodes to the weights of that one."""
    need_package("onnx")
    import onnx

    made = source(tmp_path / "s.safetensors", (64, 32), **OTHERS)
    quantize_checkpoint(made, tmp_path / "s.onnx", target("onnx", "int8"))
    found, out = open_checkpoint(tmp_path / "s.onnx"), tmp_path / "out.onnx"
    model = onnx.load(tmp_path / "s.onnx")
    model.graph.name = "another"
    time.sleep(0.05)
    onnx.save(model, tmp_path / "s.onnx")
    with refusal("was changed or replaced while it was read; start again"):
        convert_checkpoint(found, out, target("onnx", "e4m3fn"))
    assert not out.exists()
    convert_checkpoint(open_checkpoint(tmp_path / "s.onnx"), out, target("onnx", "e4m3fn"))
    assert onnx.load(out).graph.name == "another"


def test_a_run_that_is_killed_at_its_end_leaves_no_file_in_the_folder(tmp_path, monkeypatch):
    """Half of a config.json, under a name of its own, or a page that the source lacks by now."""
    folder, out, how = tmp_path / "s", tmp_path / "out", target("quark", "mxfp4")
    folder.mkdir()
    source(folder / "s.safetensors", (64, 32), **OTHERS)
    (folder / "README.md").write_text("old")
    original = files.write

    def killed(path, content):
        if path.name == "config.json":
            (path.parent / ".lowprec-0").write_bytes(content[:3])
            raise _Killed
        original(path, content)

    with monkeypatch.context() as patched:
        patched.setattr(files, "write", killed)
        (folder / "config.json").write_text('{"a": 1}')
        with pytest.raises(_Killed):
            quantize_checkpoint(open_checkpoint(folder), out, how)
    (folder / "README.md").unlink()
    quantize_checkpoint(open_checkpoint(folder), out, how)
    assert sorted(path.name for path in out.iterdir()) == ["config.json", "s.safetensors"]


def shards(folder):
    """Write a folder of two shards with an index and a configuration."""
    folder.mkdir()
    made = {"model.safetensors": "a.weight", "other.safetensors": "b.weight"}
    for file, name in made.items():
        save_file({name: np.ones((32, 32), np.float32)}, folder / file)
    (folder / INDEX).write_text(json.dumps({"weight_map": {name: file for file, name in made.items()}}))
    (folder / "config.json").write_text('{"hidden_size": 32}')
    return folder


def test_a_file_that_is_quantised_into_a_folder_brings_its_configuration(tmp_path):
    """The config.json beside the output said how it is quantised, and not of which model it is."""
    (folder := tmp_path / "source").mkdir()
    save_file({"a.weight": np.ones((32, 32), np.float32)}, folder / "model.safetensors")
    (folder / "config.json").write_text('{"hidden_size": 32, "quantization_config": {"old": 1}}')
    (folder / "tokenizer.json").write_text("{}")
    made = open_checkpoint(folder / "model.safetensors")
    quantize_checkpoint(made, tmp_path / "out", target("compressed-tensors", "mxfp4"))
    dequantize_checkpoint(open_checkpoint(tmp_path / "out"), tmp_path / "back")
    for out, said in (("out", ["hidden_size", "quantization_config"]), ("back", ["hidden_size"])):
        assert sorted(path.name for path in (tmp_path / out).iterdir()) == [
            "config.json",
            "model.safetensors",
        ]
        config = json.loads((tmp_path / out / "config.json").read_text())
        assert (sorted(config), config["hidden_size"]) == (said, 32)
        assert "old" not in config.get("quantization_config", {})


@pytest.mark.parametrize("made", ["values", "plain"])
def test_a_configuration_of_quantisation_alone_does_not_stay(tmp_path, made):
    """It was copied beside values, and plain FP8 could not be read as it lacked scales."""
    found = source(tmp_path / "s.safetensors", (64, 32))
    quantize_checkpoint(found, tmp_path / "q", target("compressed-tensors", "mxfp8_e4m3"))
    config = tmp_path / "q" / "config.json"
    assert [*json.loads(config.read_text())] == ["quantization_config"]
    if made == "values":
        dequantize_checkpoint(open_checkpoint(tmp_path / "q"), tmp_path / "out")
    else:
        quantize_checkpoint(open_checkpoint(tmp_path / "q"), tmp_path / "out", target("plain", "e4m3fn"))
    assert json.loads((tmp_path / "out" / "config.json").read_text()) == {}
    assert lint(open_checkpoint(tmp_path / "out")) == ()


def test_an_output_takes_the_place_of_no_file_of_several(tmp_path):
    """The shard was lost, and its folder of no use."""
    folder = shards(tmp_path / "source")
    made, place = open_checkpoint(folder), folder / "model.safetensors"
    (tmp_path / "link.safetensors").symlink_to(place)
    before = place.read_bytes()
    for out in (place, tmp_path / "link.safetensors"):
        with refusal("is one of 2 files that are read, and would take its place"):
            quantize_checkpoint(made, out, target("compressed-tensors", "mxfp4"))
        with refusal("is one of 2 files"):
            dequantize_checkpoint(made, out)
    assert place.read_bytes() == before
    (tmp_path / "linked").symlink_to(folder)
    for out in (folder / "new.safetensors", tmp_path / "linked" / "new.safetensors"):
        message = re.escape(
            f"{str(out)!r} lies in the folder that is read, and would be read with it from then on"
        )
        with refusal(message):
            quantize_checkpoint(made, out, target("compressed-tensors", "mxfp4"))
        with refusal(message):
            dequantize_checkpoint(made, out)
    assert not (folder / "new.safetensors").exists()
    quantize_checkpoint(open_checkpoint(place), place, target("compressed-tensors", "mxfp4"))  # alone it may
    assert place.read_bytes() != before


def test_an_index_counts_the_bytes_of_tensors_without_headers(tmp_path):
    """As the index of other software does."""
    quantize_checkpoint(
        open_checkpoint(shards(tmp_path / "in")), tmp_path / "out", target("compressed-tensors", "mxfp4")
    )
    said = json.loads((tmp_path / "out" / INDEX).read_text())["metadata"]["total_size"]
    files = [load_file(path).values() for path in (tmp_path / "out").glob("*.safetensors")]
    assert said == sum(array.nbytes for tensors in files for array in tensors) == 2 * (512 + 32)


def test_shards_without_an_index_say_how_many_they_are(tmp_path):
    for place in (1, 3):
        save_file(
            {f"{place}.weight": np.ones((2, 2), np.float32)}, tmp_path / f"a-{place:05}-of-00003.safetensors"
        )
    found = open_checkpoint(tmp_path)
    (finding,) = lint(found)
    assert (finding.rule, finding.tensor) == ("missing-file", "a-00002-of-00003.safetensors")
    with refusal(r"would lack what is not read: a-00002-of-00003\.safetensors is"):
        dequantize_checkpoint(found, tmp_path / "out")
    dequantize_checkpoint(found, tmp_path / "out", exclude=["a-00002-*"])
    for name in "abc":
        file = tmp_path / f"{name}-1-of-999999999999.safetensors"
        file.write_bytes((2).to_bytes(8, "little") + b"{}")
    missing = open_checkpoint(tmp_path).missing
    assert len(missing) == 1000
    # One of the three first ones, and all of three series whose numbers have twelve digits.
    count = 1 + 3 * 999_999_999_999 - 1000
    assert list(missing.values())[-1].endswith(f"; {count:,} other files are missing too")
    with refusal("would lack what is not read"):
        dequantize_checkpoint(open_checkpoint(tmp_path), tmp_path / "never")
    assert open_checkpoint(tmp_path / "a-00001-of-00003.safetensors").missing == {}  # named by itself


def test_a_shard_that_the_index_leaves_out_is_not_lost_without_a_word(tmp_path):
    """Files of other names may lie beside the model's, and a shard may have no tensors."""
    names = [f"a-{place}-of-3.safetensors" for place in (1, 2, 3)] + ["consolidated.safetensors"]
    for name in names:
        save_file({} if name == names[2] else {name: np.ones((64, 64), np.float32)}, tmp_path / name)
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": {names[0]: names[0]}}))
    found = open_checkpoint(tmp_path)
    assert [(finding.rule, finding.tensor) for finding in lint(found)] == [("not-indexed", names[1])]
    with refusal(rf"would lack what is not read: {names[1]} is in the folder and"):
        quantize_checkpoint(found, tmp_path / "out", target("quark", "mxfp4"))
    quantize_checkpoint(found, tmp_path / "out", target("quark", "mxfp4"), exclude=[names[1]])


def test_one_file_that_is_left_of_several_is_read_again(tmp_path):
    """The second one has no tensors and is not written: an index says that the first is all there is."""
    (tmp_path / "source").mkdir()
    parts = {"m.weight": np.ones((64, 64), np.float32)}, {}
    for place, part in enumerate(parts, 1):
        save_file(part, tmp_path / "source" / f"model-{place:05}-of-00002.safetensors")
    made = open_checkpoint(tmp_path / "source")
    quantize_checkpoint(made, tmp_path / "q", target("quark", "mxfp4"))
    assert open_checkpoint(tmp_path / "q").missing == {}
    dequantize_checkpoint(open_checkpoint(tmp_path / "q"), tmp_path / "d")
    found = open_checkpoint(tmp_path / "d")
    assert list(found.entries) == ["m.weight"]
    assert lint(found) == ()


@pytest.mark.parametrize("how", ["quantize", "dequantize", "convert"])
def test_a_folder_that_lacks_a_shard_becomes_no_other_one(tmp_path, how):
    """The other one had no index, so nothing said that half of the model was missing."""
    folder = shards(tmp_path / "source")
    if how != "quantize":
        quantize_checkpoint(open_checkpoint(folder), tmp_path / "made", target("torchao", "mxfp4"))
        folder = tmp_path / "made"
    (folder / "other.safetensors").unlink()
    run = {
        "quantize": lambda **said: quantize_checkpoint(found, out, target("quark", "mxfp4"), **said),
        "convert": lambda **said: convert_checkpoint(found, out, target("quark", "mxfp4"), **said),
        "dequantize": lambda **said: dequantize_checkpoint(found, out, **said),
    }[how]
    found, out = open_checkpoint(folder), tmp_path / "out"
    with refusal(r"would lack what is not read: b\..* is in the index and not in"):
        run()
    assert not out.exists()
    run(exclude=["b.*"])
    assert any(name.startswith("a.weight") for name in open_checkpoint(out).entries)


def test_an_index_stands_for_its_folder(tmp_path):
    """config.json was lost where the index was named, and an index of another name was copied as it was."""
    folder = shards(tmp_path / "source")
    (folder / "other.safetensors.index.json").write_text('{"weight_map": {"z": "z.safetensors"}}')
    for place, path in enumerate((folder, folder / INDEX)):
        out = tmp_path / f"out{place}"
        quantize_checkpoint(open_checkpoint(path), out, target("quark", "mxfp4"))
        assert sorted(file.name for file in out.iterdir()) == [
            "config.json", "model.safetensors", INDEX, "other.safetensors"
        ]  # fmt: skip
        assert json.loads((out / "config.json").read_text())["hidden_size"] == 32
