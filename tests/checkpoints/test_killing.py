"""quantize, killed by the system at many points, and two of them at once."""

import os
import random
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from lowprec.checkpoints.containers.locking import alone, in_turn
from lowprec.checkpoints.quantizing import quantize_checkpoint, target
from tests.checkpoints.files import refusal, source
from tests.programs import need_package

KILLS = 24
OTHERS = {
    f"m.{name}.weight": np.full((64, 64), 1 + place, np.float32) for place, name in enumerate("abcdefgh")
}

#: Says that kernels are loaded, waits for a line, and quantises slowly enough to be killed anywhere.
_CHILD = """
import sys, time
from lowprec.checkpoints.containers.writer import Writer
from lowprec.cli.main import main
write = Writer.write
def slowly(self, *arguments):
    time.sleep(0.004)
    write(self, *arguments)
    time.sleep(0.004)
Writer.write = slowly
print("ready", flush=True)
sys.stdin.readline()
main(sys.argv[1:])
"""


def _begin(*arguments):
    child = subprocess.Popen(
        [sys.executable, "-c", _CHILD, "checkpoint", "quantize", *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdout.readline() == b"ready\n"
    return child


@pytest.mark.apart
@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("out", "compressed-tensors"),
        ("out.safetensors", "compressed-tensors"),
        ("out.onnx", "onnx"),
        ("out.pt", "transformer-engine"),
    ],
)
def test_a_run_that_the_system_kills_leaves_nothing_and_a_rerun_has_the_same_bytes(tmp_path, name, family):
    """SIGKILL at random moments, again and again, until one run is through."""
    if family == "onnx":
        need_package("onnx")
    made = source(tmp_path / "s.safetensors", (64, 64), **OTHERS)
    how, asked = target(family, "nvfp4"), ["--to", "nvfp4", "--scheme", family]
    (tmp_path / "once").mkdir()
    quantize_checkpoint(made, tmp_path / "once" / name, how)
    moments, killed = random.Random(0), 0
    for _ in range(KILLS):
        child = _begin(made.path, "-o", tmp_path / name, *asked)
        child.stdin.write(b"\n")
        child.stdin.flush()
        time.sleep(moments.uniform(0.0, 0.25))
        child.send_signal(signal.SIGKILL)
        child.communicate()
        if (tmp_path / name).exists():
            break
        killed += 1
    assert killed >= 1
    if not (tmp_path / name).exists():
        child = _begin(made.path, "-o", tmp_path / name, *asked)
        _, error = child.communicate(b"\n", timeout=120)
        assert child.returncode == 0, error
    whole, again = (
        path / "s.safetensors" if name == "out" else path
        for path in (tmp_path / "once" / name, tmp_path / name)
    )
    assert whole.read_bytes() == again.read_bytes()
    left = {path.name for path in tmp_path.iterdir()} - {f".{name}.lock", f".{name}.partial"}
    assert left == {"once", name, "s.safetensors"}


@pytest.mark.apart
def test_two_runs_into_one_output_are_kept_apart(tmp_path):
    made = source(tmp_path / "s.safetensors", (64, 64), **OTHERS)
    children = [_begin(made.path, "-o", tmp_path / "out.safetensors", "--to", "nvfp4") for _ in range(2)]
    for child in children:
        child.stdin.write(b"\n")
        child.stdin.flush()
    ends = [(child.communicate()[1].decode(), child.returncode) for child in children]
    assert sorted(code for _, code in ends) == [0, 2]
    (said,) = (error for error, code in ends if code)
    assert "writes there and holds" in said
    assert ".out.safetensors.lock" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.safetensors", "s.safetensors"]


def test_a_lock_that_is_held_is_named_and_goes_when_it_is_free(tmp_path):
    lock = tmp_path / ".x.lock"
    with alone(lock):
        assert lock.read_text() == str(os.getpid())
        with refusal(rf"another process \({os.getpid()}\) writes there .*\.x\.lock"):
            with alone(lock):
                raise AssertionError("two hold it")
    assert not lock.exists()
    lock.write_text("4711")  # of a process that was killed
    with alone(lock):
        pass
    with refusal("cannot make the lock file"):
        with alone(tmp_path / "none" / "x.lock"):
            pass


def test_who_takes_turns_waits_for_the_lock_and_does_without_one_that_cannot_be(tmp_path):
    lock, done = tmp_path / ".x.lock", []

    def other():
        with in_turn(lock):
            done.append("other")

    waiting = threading.Thread(target=other)
    with alone(lock):
        waiting.start()
        waiting.join(0.3)
        done.append("first")
    waiting.join()
    with in_turn(tmp_path / "none" / "x.lock"):
        done.append("without")
    assert (done, list(tmp_path.iterdir())) == (["first", "other", "without"], [])


def test_a_lock_of_a_killed_process_holds_the_next_one_alone(tmp_path):
    """Also where that is killed too."""
    lock = tmp_path / ".x.lock"
    lock.write_bytes(b"123456789")
    for _ in range(2):
        with alone(lock):
            left = lock.read_bytes()
            assert left == str(os.getpid()).encode()
        lock.write_bytes(left)
