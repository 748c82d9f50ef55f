"""Captures: scripts ask what they say, files hold what was answered, damaged files are refused.

A simulated GPU stands for those of NVIDIA; torch on this processor is asked in the environment of all
frameworks.
"""

from __future__ import annotations

import ast
import ctypes
import dataclasses
import errno
import io
import json
import os
import pathlib
import queue
import re
import shlex
import signal
import subprocess
import sys
import tracemalloc
import zipfile

import numpy as np
import pytest
from click.testing import CliRunner

import lowprec as lp
from lowprec.cli.main import main
from lowprec.verify.capture import asking, script
from lowprec.verify.capture.calls import CAPTURES, chosen, written
from lowprec.verify.capture.reading import CapturedQuestion
from tests.programs import need_framework, need_library
from tests.verify import simulated_gpu
from tests.verify.simulated_gpu import CORES, Device

pytestmark = pytest.mark.apart

ROOT = pathlib.Path(__file__).parents[2]
PTX = [name for name in CAPTURES if name.startswith(("cvt_", "mma_"))]
CVT, RS, MMA = "cvt_rn_satfinite_e4m3x2_f32", "cvt_rs_satfinite_e4m3x4_f32", "mma_m16n8k16_binary16_binary32"
FEW = [CVT, RS, MMA]


def lowprec(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def captured(folder, monkeypatch, names=FEW, device=None):
    text = written(chosen(names), 64, 0, "test")
    return simulated_gpu.run(text, folder, device or Device((8, 9)), monkeypatch)


def members(path):
    with zipfile.ZipFile(path) as held:
        return {name: held.read(name) for name in held.namelist()}


def changed(path, manifest=lambda said: said, **arrays):
    """A capture with a manifest and arrays changed; hashes stay as they were."""
    held = members(path)
    said = manifest(json.loads(held[script.MANIFEST]))
    held[script.MANIFEST] = json.dumps(said).encode()
    for name, change in arrays.items():
        array = change(np.load(io.BytesIO(held[f"{name}.npy"])))
        del held[f"{name}.npy"]
        if array is not None:
            held[f"{name}.npy"] = script.npy(array)
    path.write_bytes(script.archive(held))
    return path


# -- what scripts ask -------------------------------------------------------------------------------


@pytest.mark.parametrize("capability", CORES, ids=lambda pair: f"sm_{pair[0]}{pair[1]}")
def test_what_a_gpu_answers_is_what_is_expected_of_it(tmp_path, monkeypatch, capability):
    """Operands, registers, random words, the file and the expectations belong together, on each machine."""
    path = captured(tmp_path, monkeypatch, PTX, Device(capability))
    capture = lp.read_capture(path)
    assert capture.machine["architecture"] == f"sm_{capability[0]}{capability[1]}"
    judged = 0
    for name, question in capture.questions.items():
        least = CAPTURES[name].settings["capability"]
        assert bool(question.skipped) == (list(capability) < least), name
        if question.skipped:
            assert question.skipped == f"it needs compute capability {least[0]}.{least[1]}"
        elif question.expects is not None:
            report = question.compare()
            assert report.agrees, (name, str(report))
            judged += 1
    assert judged == {(8, 0): 5, (8, 9): 13, (9, 0): 12, (10, 0): 26, (12, 0): 26}[capability]


def test_bugs_of_a_gpu_are_named(tmp_path, monkeypatch):
    """A window one bit short, halves of a register the other way round, another random half-word."""

    def short(how):
        window = dataclasses.replace(how.accumulator, fraction_bits=how.accumulator.fraction_bits - 1)
        return dataclasses.replace(how, accumulator=window)

    bugs = {
        "mma_m16n8k32_e4m3fn_binary32": (Device((8, 9), how=short), "F = 12 instead of 13"),
        "mma_m16n8k16_binary16_binary32": (Device((8, 0), how=short), "F = 23 instead of 24"),
        "cvt_rn_satfinite_e4m3x2_f32": (Device((8, 9), packs=lambda codes: codes[:, ::-1]), ""),
        "cvt_rs_satfinite_e4m3x4_f32": (Device((10, 0), packs=lambda codes: codes[:, ::-1]), ""),
    }
    for name, (device, cause) in bugs.items():
        report = lp.read_capture(captured(tmp_path, monkeypatch, [name], device))[name].compare()
        assert report.mismatches >= 12, name
        assert not cause or report.cause.words.startswith(cause)


def test_a_layout_that_is_wrong_is_found_by_the_script_itself(tmp_path, monkeypatch):
    """Each row is in a twice: what mixes up rows gives two answers."""
    monkeypatch.setattr(simulated_gpu, "c_place", lambda thread, i: (thread >> 2, i + 4 * (thread % 2)))
    name = "mma_m16n8k16_binary16_binary32"
    question = lp.read_capture(captured(tmp_path, monkeypatch, [name]))[name]
    assert question.skipped == "rows 0 to 7 and 8 to 15 of the matrices, which are alike, gave other results"


@pytest.mark.parametrize("wide", [8, 16, 32])
@pytest.mark.parametrize("matrix", ["a", "b", "c"])
def test_fragments_are_where_ptx_says(matrix, wide):
    """Each element of a matrix is in one place of one thread's registers, the one that [PTX] mma gives it."""
    length = 256 // wide
    shape = {"a": (16, length), "b": (length, 8), "c": (16, 8)}[matrix]
    rows, columns = script.places(matrix, wide)
    for thread in range(32):
        for i in range(rows.shape[1]):
            place = {"a": simulated_gpu.a_place, "b": simulated_gpu.b_place}.get(matrix)
            said = simulated_gpu.c_place(thread, i) if place is None else place(thread, i, wide)
            assert (rows[thread, i], np.broadcast_to(columns, rows.shape)[thread, i]) == said
    codes = np.random.default_rng(0).integers(0, 1 << wide, (3, *shape)).astype(f"u{wide // 8}")
    words = script.fragments(codes, matrix)
    assert words.dtype == np.uint32
    assert words.size * 4 == codes.nbytes
    held = np.zeros_like(codes)
    held[:, rows, columns] = words.view(codes.dtype).reshape(3, *rows.shape)
    assert np.array_equal(held, codes)
    if matrix == "c" and wide > 8:
        assert np.array_equal(script.gathered(words, codes.dtype), codes)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "cvt_rn_satfinite_e4m3x2_f32",
            'asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(d) : '
            '"f"(x[2 * i + 0]), "f"(x[2 * i + 1]));',
        ),
        (
            "cvt_rn_satfinite_e2m1x2_f32",
            'asm("{ .reg .b8 t; cvt.rn.satfinite.e2m1x2.f32 t, %1, %2; cvt.u32.u8 %0, t; }" : "=r"(d) : '
            '"f"(x[2 * i + 0]), "f"(x[2 * i + 1]));',
        ),
        (
            "cvt_rs_satfinite_e4m3x4_f32",
            'asm("cvt.rs.satfinite.e4m3x4.f32 %0, {%1, %2, %3, %4}, %5;" : "=r"(d) : "f"(x[4 * i + 0]), '
            '"f"(x[4 * i + 1]), "f"(x[4 * i + 2]), "f"(x[4 * i + 3]), "r"(random[i]));',
        ),
        ("cvt_rna_tf32_f32", 'asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(d) : "f"(x[1 * i + 0]));'),
    ],
)
def test_conversions_are_asked_for_in_the_words_of_ptx(name, text):
    """Operands in order, results in a register of the size that the instruction has."""
    how = CAPTURES[name].settings
    kernel = script.cvt_kernel(how["instruction"], how["inputs"], how["register"], "cvt.rs" in text)
    assert text in kernel
    assert kernel.count("{") == kernel.count("}")


def test_products_are_asked_for_in_the_words_of_ptx():
    """Results, a, b and c: of binary32 four registers each, of binary16 two."""
    kernel = script.mma_kernel(CAPTURES["mma_m16n8k16_binary16_binary32"].settings["instruction"], False)
    registers = "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
    assert f"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {registers}" in kernel
    assert '"=f"(d0), "=f"(d1), "=f"(d2), "=f"(d3) : "r"(a[0])' in kernel
    kernel = script.mma_kernel("mma.sync", True)
    assert "mma.sync {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%8, %9};" in kernel
    assert '"r"(b[0]), "r"(b[1]), "r"(c[0]), "r"(c[1]));' in kernel


#: Architectures, and those among them that round stochastically.
ARCHITECTURES = ("80", "86", "89", "90a", "100a", "103a", "120a", "121a")
STOCHASTIC = ("100a", "103a")


@pytest.mark.parametrize("name", PTX)
def test_kernels_are_compiled_for_every_architecture_that_has_the_instruction(name):
    """NVRTC makes machine code without a device; what is not there is refused in words."""
    nvrtc = ctypes.CDLL(need_library("nvidia-cuda-nvrtc", "libnvrtc.so"))
    how = CAPTURES[name].settings
    if name.startswith("mma"):
        source = script.mma_kernel(how["instruction"], CAPTURES[name].target == "binary16")
    else:
        random = "cvt.rs" in how["instruction"]
        source = script.cvt_kernel(how["instruction"], how["inputs"], how["register"], random)
    for architecture in ARCHITECTURES:
        number = int(architecture.rstrip("a"))
        if [number // 10, number % 10] < how["capability"]:
            continue
        program, size = ctypes.c_void_p(), ctypes.c_size_t()
        given = (ctypes.byref(program), source.encode(), b"capture.cu", 0, None, None)
        assert nvrtc.nvrtcCreateProgram(*given) == 0
        options = (ctypes.c_char_p * 1)(f"--gpu-architecture=sm_{architecture}".encode())
        failed = nvrtc.nvrtcCompileProgram(program, 1, options)
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
        if "cvt_rs" in name and architecture not in STOCHASTIC:
            assert f"Feature '.rs' not supported on .target 'sm_{architecture}'" in log.value.decode()
        else:
            assert not failed, log.value.decode()
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


# -- the script -------------------------------------------------------------------------------------


def test_a_script_needs_nothing_but_numpy_and_torch():
    """It is read as it is run elsewhere: its imports, its size, and that it is the same each time."""
    text = written(chosen([]), 1024, 0, "lowprec capture")
    assert len(text) < 2_000_000
    assert written(chosen(FEW), 64, 0, "") == written(chosen(FEW), 64, 0, "")
    assert written(chosen(FEW), 64, 0, "") != written(chosen(FEW), 64, 1, "")
    imported = set()
    for node in ast.walk(ast.parse(text, feature_version=(3, 9))):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module.split(".")[0])
    assert imported - set(sys.stdlib_module_names) == {"numpy", "torch"}
    assert max(map(len, text.splitlines())) <= 125


def test_every_question_is_drawn_and_can_be_read(tmp_path, monkeypatch):
    """Those of torch too, which the simulated GPU lacks: the file says that, and is read."""
    capture = lp.read_capture(captured(tmp_path, monkeypatch, []))
    assert list(capture.questions) == list(CAPTURES)
    assert (
        "has no attribute" in capture["cast_binary32_e4m3fn"].skipped
        or "has no" in capture["cast_binary32_e4m3fn"].skipped
    )


@pytest.mark.parametrize("name", [name for name in CAPTURES if not name.startswith(("cast", "cvt"))])
def test_every_expectation_is_one_that_compare_takes(name):
    """Accumulations and library calls by name, output formats, budgets: of each machine."""
    asked = CAPTURES[name]
    formats = tuple(map(lp.format, (*asked.sources, asked.target)))
    operands = asked.draw(16, 0)
    output = np.zeros(len(operands["x"]), f"u{formats[-1].width // 8}")
    for expects in asked.expects:
        question = CapturedQuestion(name, "file", "dot", formats, operands, output, expects)
        report = question.compare(why=False, limit=0)
        assert report.compared == output.size
        assert not report.ranking
    assert asked.expects or name == "scaled_mm_e4m3fnuz"


def test_damaged_operands_are_not_asked(tmp_path, monkeypatch):
    """A digest in ARRAYS is wrong."""
    text = written(chosen([MMA]), 64, 0, "test")
    first = next(line for line in text.splitlines() if line.startswith("ARRAYS"))
    digest = first.split("'")[3]
    with pytest.raises(
        SystemExit, match=r"the operands 'mma_m16n8k16_binary16_binary32_x' have another SHA-256"
    ):
        simulated_gpu.run(text.replace(digest, "0" * 64), tmp_path, Device((8, 9)), monkeypatch)


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    """An old file stays where a new one cannot be written, and nothing is left beside it."""
    out = tmp_path / "old.npz"
    out.write_bytes(b"old")

    def full(members):
        raise OSError("no space left")

    monkeypatch.setattr(script, "archive", full)
    with pytest.raises(OSError, match="no space left"):
        script.save(str(out), {}, {"x": np.zeros(3)})
    assert [path.name for path in tmp_path.iterdir()] == ["old.npz"]
    assert out.read_bytes() == b"old"


@pytest.mark.parametrize(
    "out", ["", "x.txt", "none/x.npz", "file/x.npz", "read-only/x.npz", "n" * 300 + ".npz"]
)
def test_where_no_file_can_be_made_nothing_is_asked(tmp_path, monkeypatch, out):
    """All questions were asked, and the answers lost."""
    (tmp_path / "file").touch()
    (tmp_path / "read-only").mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: not path.endswith("read-only"))  # root may all
    monkeypatch.setattr(sys, "argv", ["capture.py", "--out", out and str(tmp_path / out)])
    ending = "cannot be written: `lowprec compare` knows captures by the ending .npz"
    with pytest.raises(SystemExit, match="cannot be written" if out.endswith(".npz") else ending):
        asking.main()


def test_a_file_with_the_longest_name_is_written(tmp_path):
    """The name of the file beside it was longer still, and all answers were lost."""
    out = tmp_path / ("n" * 251 + ".npz")
    script.check_place(str(out))
    script.save(str(out), {}, {"x": np.zeros(3)})
    assert [*tmp_path.iterdir()] == [out]


def test_a_planted_temporary_name_of_a_capture_is_not_followed(tmp_path):
    """It was the file's and the process's number: the target was overwritten, and the result was the link."""
    (tmp_path / "precious").write_text("precious")
    (tmp_path / f"out.npz.{os.getpid()}.part").symlink_to("precious")
    script.save(str(tmp_path / "out.npz"), {}, {"x": np.zeros(3)})
    assert (tmp_path / "precious").read_text() == "precious"
    assert not (tmp_path / "out.npz").is_symlink()


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_a_capture_replaces_regular_files_alone_and_keeps_their_mode(tmp_path, monkeypatch, kind):
    """What is no regular file is refused before anything is asked."""
    old, out = tmp_path / "old.npz", tmp_path / "out.npz"
    old.write_text("old")
    old.chmod(0o600)
    script.save(str(old), {}, {"x": np.zeros(3)})
    assert old.stat().st_mode & 0o777 == 0o600
    assert old.stat().st_size > 100
    {"link": lambda: out.symlink_to(old), "pipe": lambda: os.mkfifo(out), "folder": out.mkdir}[kind]()
    words = re.escape(f"{str(out)!r} is a link or no regular file, and is not replaced; name another --out")
    before = old.read_bytes()
    monkeypatch.setattr(sys, "argv", ["capture.py", "--out", str(out)])
    for write in (lambda: script.save(str(out), {}, {}), asking.main):
        with pytest.raises(SystemExit, match=words):
            write()
    assert (old.read_bytes(), out.is_file()) == (before, kind == "link")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old.npz", "out.npz"]


def test_the_command_lists_writes_and_refuses(tmp_path):
    """--list, --only with patterns, -o."""
    listed = lowprec(
        "capture", "--list", "--only", "matmul_b*16", "--only", "mma_m16n8k8_tf32_binary32"
    ).output
    rows = [line.split() for line in listed.splitlines()]
    assert [row[0] for row in rows] == [
        "question",
        "matmul_binary16",
        "matmul_bfloat16",
        "mma_m16n8k8_tf32_binary32",
    ]
    assert rows[1][-1] == "CPUs"
    assert listed.splitlines()[3].rstrip().endswith("  compiled, not yet run on a device")
    wrong = lowprec("capture", "--only", "matmul_binary61")
    assert wrong.exit_code == 2
    assert "nothing to capture is called 'matmul_binary61'; did you mean matmul_binary16" in wrong.output
    done = lowprec("capture", "--only", "cast_e5m2_*", "--count", 16, "-o", tmp_path / "script.py")
    assert done.exit_code == 0
    text = (tmp_path / "script.py").read_text()
    assert text.startswith(
        f"# Written by lowprec {lp.__version__}: lowprec capture --only cast_e5m2_* --seed 0 --count 16\n"
    )
    assert "'cast_e5m2_binary32'" in text
    assert "cast_e4m3fn_binary32" not in text


# -- runs that go wrong -----------------------------------------------------------------------------

#: A torch that hangs, dies, raises and prints where it is asked for some types.
BROKEN_TORCH = """
import os, sys, time, types
import numpy as np
__version__ = "1.13.1"
version = types.SimpleNamespace(cuda=None)
cuda = types.SimpleNamespace(is_available=lambda: False)
int8, int16, int32 = "i1", "i2", "i4"
float32, float16, bfloat16 = "f4", "f2", "f2"

def __getattr__(name):
    if name == "float8_e4m3fn":
        raise RuntimeError("out of\\nluck")
    if name == "float8_e5m2":
        time.sleep(60)
    if name == "float8_e4m3fnuz":
        os.abort()
    print("noise where answers are expected", flush=True)
    raise AttributeError(name)

class Tensor:
    def __init__(self, array):
        self.array = array
    def view(self, kind):
        return Tensor(self.array.view(kind))
    def to(self, where):
        return self if where == "cpu" else Tensor(self.array.astype(where))
    def element_size(self):
        return self.array.itemsize
    def contiguous(self):
        return self
    def cpu(self):
        return self
    def numpy(self):
        return self.array

from_numpy = Tensor
"""

CASTS = ["cast_binary32_*", "cast_e4m3fnuz_binary32"]


@pytest.fixture
def broken(tmp_path):
    """A script, and how to start it with a torch that is broken."""
    (tmp_path / "torch.py").write_text(BROKEN_TORCH)
    (tmp_path / "capture.py").write_text(written(chosen(CASTS), 16, 0, "test"))

    def start(*words):
        # Where tests run in the background, Ctrl-C is ignored, and what they start inherits that.
        heard = "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
        run = f"{heard}; runpy.run_path('capture.py', run_name='__main__')"
        command = [sys.executable, "-c", run, "--device", "cpu", *words]
        environment = os.environ | {"PYTHONPATH": str(tmp_path)}
        return subprocess.Popen(
            command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    return start


def test_a_question_that_hangs_dies_or_raises_costs_its_own_answer(tmp_path, broken):
    """The file says why; questions after it are asked in a new process."""
    run = broken("--limit", "10")
    output, _ = run.communicate(timeout=100)
    assert run.returncode == 0, output
    capture = lp.read_capture(tmp_path / "capture.npz")
    assert {name: question.skipped for name, question in capture.questions.items()} == {
        "cast_binary32_binary16": "",
        "cast_binary32_bfloat16": "",
        "cast_binary32_e4m3fn": "RuntimeError: out of luck",
        "cast_binary32_e5m2": "there was no answer within 10 s",
        "cast_binary32_e4m3fnuz": f"the process died: signal {signal.SIGABRT.value}",
        "cast_binary32_e5m2fnuz": "torch 1.13.1 has no float8_e5m2fnuz",
        "cast_binary32_e8m0fnu": "torch 1.13.1 has no float8_e8m0fnu",
        "cast_e4m3fnuz_binary32": f"the process died: signal {signal.SIGABRT.value}",
    }
    assert capture.machine["torch"] == "1.13.1"
    assert "wrote capture.npz: 2 of 8 questions answered" in output


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_keeps_what_was_answered(tmp_path, broken, number):
    """By Ctrl-C, or by a scheduler; the question that hung and those after it are told so."""
    run = broken()
    while not run.stdout.readline().startswith("skipped  cast_binary32_e4m3fn"):
        assert run.poll() is None
    run.send_signal(number)
    output, _ = run.communicate(timeout=100)
    assert run.returncode == 130
    assert "wrote capture.npz: 2 of 8 questions answered, then interrupted" in output
    skipped = [question.skipped for question in lp.read_capture(tmp_path / "capture.npz").questions.values()]
    assert skipped[3:] == ["the run was interrupted before it was answered"] * 5
    assert [path for path in tmp_path.iterdir() if path.suffix == ".part"] == []


def test_a_run_that_is_interrupted_while_it_writes_keeps_what_was_answered(tmp_path, monkeypatch):
    """The last file was dropped."""
    saved, save = [], script.save

    def interrupted(*arguments):
        saved.append(1)
        if len(saved) == 1:
            raise KeyboardInterrupt
        save(*arguments)

    monkeypatch.setattr(asking, "save", interrupted)
    assert asking.capture(str(tmp_path / "c.npz"), {}, set(), {}, lambda number: (None, "x")) == 130
    assert len(saved) == 2
    assert lp.read_capture(tmp_path / "c.npz").questions == {}


def test_a_full_disk_is_told_and_tried_again(tmp_path, monkeypatch, capsys):
    """The run ended with a traceback, and the answers were lost."""
    failing = [True, True, False]

    def save(*arguments):
        if failing.pop(0):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(asking, "save", save)
    monkeypatch.setattr(asking, "QUESTIONS", [{"name": name, "expects": []} for name in "ab"])
    monkeypatch.setattr(asking, "EVERY", -1.0)
    assert asking.capture("c.npz", {}, set(), {}, lambda number: (None, "x")) == 1
    told = "cannot write 'c.npz' now: No space left on device; it is tried again\n"
    assert capsys.readouterr().out.count(told) == 2
    failing[:] = [True] * 3
    with pytest.raises(SystemExit, match=r"cannot write 'c\.npz': No space left on device; name another"):
        asking.capture("c.npz", {}, set(), {}, lambda number: (None, "x"))


@pytest.mark.parametrize("name", ["pipe.npz", "\u2192.npz"])
def test_answers_are_kept_where_lines_cannot_be_printed(tmp_path, monkeypatch, name):
    """As to a pipe that nobody reads, or in a terminal that lacks a character."""

    class Unread(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    stream = Unread() if name == "pipe.npz" else io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(asking, "QUESTIONS", [{"name": "a", "expects": []}])
    assert asking.capture(str(tmp_path / name), {}, set(), {}, lambda number: (None, "why \u2192")) == 1
    assert (tmp_path / name).exists()


@pytest.mark.parametrize("limit", ["inf", "nan", "-5", "0", "1e300"])
def test_a_limit_that_no_wait_can_have_is_refused(monkeypatch, capsys, limit):
    monkeypatch.setattr(sys, "argv", ["capture.py", "--limit", limit])
    with pytest.raises(SystemExit):
        asking.main()
    assert f"invalid seconds value: {limit!r}" in capsys.readouterr().err


def test_what_was_answered_is_in_the_file_before_the_end(tmp_path, broken):
    """Even of a run that is killed."""
    script = tmp_path / "capture.py"
    script.write_text(script.read_text().replace("\nEVERY = 5.0\n", "\nEVERY = 0.0\n"))
    run = broken()
    while not run.stdout.readline().startswith("skipped  cast_binary32_e4m3fn"):
        assert run.poll() is None
    file = tmp_path / "capture.npz"
    while not lp.read_capture(file)["cast_binary32_e4m3fn"].skipped.startswith("Runtime"):
        assert run.poll() is None
    run.kill()
    run.wait(timeout=100)
    run.stdout.close()  # its second process may still hold the other end
    run.stderr.close()
    capture = lp.read_capture(tmp_path / "capture.npz")
    assert [not question.skipped for question in capture.questions.values()] == [True] * 2 + [False] * 6
    assert capture["cast_e4m3fnuz_binary32"].skipped == "it was not asked yet"


@pytest.mark.parametrize("part", [b'[{"why"', b'[{"why": ""}, 200]\n', b'[{"why": ""}, 200]\n\x93NUMPY'])
def test_a_process_that_dies_within_an_answer_costs_that_answer(part):
    """The first process ended with a traceback of np.load, and took part of an answer for all of it."""
    child = asking.Child("cpu", 10)
    command = f"import os; os.write(1, {part!r}); os.abort()"
    with subprocess.Popen([sys.executable, "-c", command], stdout=subprocess.PIPE) as process:
        child.process, child.heard = process, queue.Queue()
        child.listen(process.stdout, child.heard)
        with pytest.raises(script.Missing, match=f"the process died: signal {signal.SIGABRT.value}"):
            child.hear(10)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_stopped_while_torch_starts_says_so_in_a_line(tmp_path, broken, number):
    """It printed a traceback."""
    starts = "import pathlib, time; pathlib.Path('started').touch(); time.sleep(60)"
    (tmp_path / "torch.py").write_text(starts)
    run = broken()
    while not (tmp_path / "started").exists():
        assert run.poll() is None
    run.send_signal(number)
    _, said = run.communicate(timeout=100)
    assert (run.returncode, said) == (130, "interrupted while torch started: nothing was asked or written\n")
    assert not (tmp_path / "capture.npz").exists()


def test_a_torch_that_cannot_be_imported_is_told_so(tmp_path, broken):
    """With its own words."""
    (tmp_path / "torch.py").write_text("raise ImportError('libcudart.so.11 is missing')")
    run = broken()
    _, said = run.communicate(timeout=100)
    assert run.returncode == 1
    assert "this needs torch: pip install torch (libcudart.so.11 is missing)" in said
    assert "torch does not start here, see above: the process died: exit code 1" in said
    assert not (tmp_path / "capture.npz").exists()


# -- the file ---------------------------------------------------------------------------------------


def test_compare_tells_each_question(tmp_path, monkeypatch):
    """A row for each, exit code 0; one in full; a changed result is found, exit code 1."""
    path = captured(tmp_path, monkeypatch)
    told = lowprec("compare", path)
    assert told.exit_code == 0, told.output
    assert "Simulated GPU, sm_89, torch 2.13.0, 13.0" in told.output
    assert "mma_m16n8k16_binary16_binary32  ada_mma_binary16_binary32" in told.output
    assert "skipped (1), it needs compute capability 10.0: cvt_rs_satfinite_e4m3x4_f32" in told.output
    assert "2 questions answered, 1 skipped; of 2 with an expectation none differ" in told.output
    one = lowprec("compare", f"{path}:{MMA}")
    assert (one.exit_code, one.output) == (0, "64 results agree\n")

    name = f"{MMA}_output"
    codes = np.load(path)[name]
    codes[5] ^= 1
    changed(
        path,
        lambda said: said | {"arrays": said["arrays"] | {name: script.digest(codes)}},
        **{name: lambda old: codes},
    )
    told = lowprec("compare", path)
    assert told.exit_code == 1
    assert "of 2 with an expectation 1 differs" in told.output
    one = lowprec("compare", f"{path}:{MMA}")
    assert one.exit_code == 1
    assert one.output.startswith("1 of 64 results differ (1.56%): 1 sums\n")
    assert "\n\nindex 5 (5,):\n" in one.output
    said = json.loads(lowprec("compare", path, "--json").output)
    assert said["schema"] == "lowprec.compare_capture/1"
    assert [each["report"] and each["report"]["mismatches"] for each in said["questions"]] == [0, None, 1]


def test_options_replace_what_is_expected(tmp_path, monkeypatch):
    """Another accumulation, another rounding, a budget."""
    path = captured(tmp_path, monkeypatch)
    other = lowprec("compare", f"{path}:{MMA}", "--accumulation", "fp32_fma", "--no-why")
    assert other.exit_code == 1
    cut = lowprec("compare", f"{path}:{CVT}", "--rounding", "toward_zero", "--saturation", "finite")
    assert cut.exit_code == 1
    assert "explained by what profile 'cuda_satfinite' does: 3,898 of 3,898 mismatches, 100%\n" in cut.output
    assert "the same: what profile 'ptx_cvt' does; " in cut.output
    other = lowprec(
        "compare", f"{path}:{CVT}", "--rounding", "toward_zero", "--saturation", "finite", "--nan", "any"
    )
    assert "explained by ties to even (nearest_even instead of toward_zero): " in other.output


def test_any_nan_will_do_where_the_capture_says_so():
    """Vectors of torch make ffff of NaNs; without --nan the capture says that any will do."""
    question = f"{ROOT / 'docs' / 'examples' / 'capture.npz'}:cast_binary32_bfloat16"
    assert lowprec("compare", question).output == "1,952 results agree\n"
    exact = lp.read_capture(question.split(":")[0])["cast_binary32_bfloat16"].compare(any_nan=False)
    assert exact.mismatches > 0
    assert {got for _, got in exact.tally.classes} == {"NaN"}


def skipped_for(path, reason):
    """A capture whose questions are all skipped for this reason."""

    def edit(said):
        for question in said["questions"]:
            question.pop("output", None)
            question["skipped"] = reason
        return said

    return changed(path, edit)


@pytest.mark.parametrize("reason", ["", " ", None])
def test_a_question_that_is_skipped_without_a_reason_is_told_so(tmp_path, monkeypatch, reason):
    """It ended with a traceback, KeyError: 'x', or gave the reason None."""
    path = skipped_for(captured(tmp_path, monkeypatch), reason)
    told = lowprec("compare", path)
    assert told.exit_code == 3, told.output
    assert "skipped (3), no reason is given: " in told.output
    one = lowprec("compare", f"{path}:{MMA}")
    assert f"{MMA} was skipped on that machine: no reason is given; there is no answer" in one.output


def test_a_capture_without_questions_says_so(tmp_path, monkeypatch):
    """It said "it has " and nothing behind it."""
    path = changed(captured(tmp_path, monkeypatch), lambda said: said | {"questions": []})
    assert "the capture has no question 'a'; it has no questions" in lowprec("compare", f"{path}:a").output
    assert "name a question as " in (told := lowprec("compare", f"{path}:").output)
    assert "it has no questions" in told


@pytest.mark.parametrize(
    ("number", "fields", "why"),
    [
        (2, {"expects": {"accumulation": "fp8_future"}}, "unknown accumulation 'fp8_future'"),
        (0, {"expects": {"profile": "future"}}, "unknown profile 'future'"),
        (0, {"expects": {"projection": {"rounding": "nearest_maybe"}}}, "'nearest_maybe'"),
        (0, {"to": "e9m9"}, "unknown format 'e9m9'"),
        (2, {"expects": {"accumulation": "fp32_fma", "output": "e9m9"}}, "unknown format 'e9m9'"),
        (0, {"expects": {"results": "e9m9"}}, "unknown format 'e9m9'"),
    ],
)
def test_a_name_that_is_not_known_leaves_the_other_questions_judged(
    tmp_path, monkeypatch, number, fields, why
):
    """A capture of a newer lowprec was refused as a whole, without the question or a way out."""

    def edit(said):
        said["questions"][number].update(fields)
        return said

    path = changed(captured(tmp_path, monkeypatch), edit)
    name = (CVT, RS, MMA)[number]
    told = lowprec("compare", path)
    assert told.exit_code == 2
    words = " ".join(told.output.split())
    assert f"not judged: {path}:{name} " in words
    assert why in words
    assert "2 questions answered, 1 skipped, 1 not judged; of 2 with an expectation none differ" in words
    said = json.loads(lowprec("compare", path, "--json").output)["questions"]
    assert [each["name"] for each in said if each["not_judged"]] == [name]
    assert sum(each["report"] is not None for each in said) == 1
    one = lowprec("compare", f"{path}:{name}")
    assert one.exit_code == 2
    assert "what this lowprec does not know: " in one.output
    lowprec("compare", path, "--junit", tmp_path / "report.xml")
    assert 'failures="1"' in (tmp_path / "report.xml").read_text()
    if "accumulation" in why:
        other = lowprec("compare", f"{path}:{name}", "--accumulation", "ada_mma_binary16_binary32")
        assert (other.exit_code, other.output) == (0, "64 results agree\n")


@pytest.mark.parametrize("words", [[], ["--ulps", "0"]])
def test_another_accumulation_replaces_the_budget_that_was_expected(words):
    """It was refused for ulps='auto', which nobody gave."""
    question = f"{ROOT / 'docs' / 'examples' / 'capture.npz'}:matmul_binary32"
    told = lowprec("compare", question, "--accumulation", "exact", "--no-why", *words)
    assert told.exit_code == 1, told.output
    assert " of 64 results differ " in told.output


def test_no_budget_holds_results_against_one_order_of_summation():
    """--ulps 0 replaces the budget of any order that a capture expects."""
    question = f"{ROOT / 'docs' / 'examples' / 'capture.npz'}:matmul_binary32"
    assert lowprec("compare", question, "--ulps", "0").output == "64 results agree\n"


def test_nothing_expected_is_nothing_compared(tmp_path, monkeypatch):
    """Accumulations are ranked; exit code 3."""
    names = ["mma_m16n8k32_e4m3fn_binary32"]
    path = captured(tmp_path, monkeypatch, names, Device((9, 0)))
    told = lowprec("compare", path)
    assert told.exit_code == 3
    assert "nothing was expected; nearest: ada_mma_e4m3fn_binary32, 100.0%" in told.output.replace(
        "hopper_wg", "ada_"
    )


def test_identify_takes_a_capture(tmp_path, monkeypatch):
    """Formats, K and the addend are the capture's."""
    name = "mma_m16n8k32_e4m3fn_binary32"
    path = captured(tmp_path, monkeypatch, [name])
    done = lowprec("identify", "--rows", f"{path}:{name}")
    assert done.exit_code == 0, done.output
    assert "ada_mma_e4m3fn_binary32" in done.output
    said = lowprec("identify", "--rows", f"{path}:{name}", "--k", 32)
    assert said.exit_code == 2
    assert f"--k is said by the capture '{path}:{name}'; leave it out" in said.output
    wrong = lowprec("identify", "--rows", f"{captured(tmp_path, monkeypatch)}:{CVT}")
    assert "cvt_rn_satfinite_e4m3x2_f32 is a conversion, not a dot product" in wrong.output


def test_files_that_are_no_whole_captures_are_refused(tmp_path, monkeypatch):
    """What is wrong, and the way out, in one message, exit code 2."""
    path = captured(tmp_path, monkeypatch)
    whole = path.read_bytes()
    again = "; copy it again, or run the script again\n"

    def refused(message, change=lambda: None):
        path.write_bytes(whole)
        change()
        done = lowprec("compare", path)
        assert done.exit_code == 2, done.output
        assert f"Error: cannot read '{path}': {message}" in done.output
        with pytest.raises(ValueError, match="cannot read"):
            lp.read_capture(path)

    def edited(**fields):
        return lambda: changed(path, lambda said: said | fields)

    def asked(**fields):
        def edit(said):
            said["questions"][2].update(fields)
            return said

        return lambda: changed(path, edit)

    refused(
        f"it is no whole .npz file (File is not a zip file){again}", lambda: path.write_bytes(whole[:-100])
    )
    refused(f"it is no whole .npz file (File is not a zip file){again}", lambda: path.write_bytes(b""))
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 1
    refused("", lambda: path.write_bytes(damaged))
    refused(
        "it has no capture.json, so no script of `lowprec capture` wrote it\n",
        lambda: np.savez(path, x=np.zeros(3)),
    )
    refused(
        f"its schema is 'lowprec.capture/2', and lowprec {lp.__version__} reads 'lowprec.capture/1'; read it "
        "with the lowprec that wrote its script\n",
        edited(schema="lowprec.capture/2"),
    )
    refused(f"capture.json has no arrays, or not as a dict{again}", edited(arrays=[]))
    output = f"{MMA}_output"
    digest = script.digest(np.load(path)[output])
    found = script.digest(np.load(path)[output] ^ 1)
    refused(
        f"the array '{output}' has the SHA-256 {found[:12]}..., but capture.json says {digest[:12]}...: it "
        f"was damaged or changed{again}",
        lambda: changed(path, **{output: lambda codes: codes ^ 1}),
    )
    refused(
        f"question '{MMA}' of capture.json has the output '{output}', which the file lacks{again}",
        lambda: changed(path, **{output: lambda codes: None}),
    )
    refused(
        f"question '{MMA}' of capture.json has no 'to'{again}",
        lambda: changed(
            path,
            lambda said: (
                said | {"questions": [{"name": MMA, "operation": "dot", "expects": None, "from": []}]}
            ),
        ),
    )
    for name in ([], None):
        why = f"a format must be a Format, a name or a dtype, not {name!r}"
        refused(f"question '{MMA}' of capture.json has {why}{again}", asked(to=name))
    refused(
        f"question '{MMA}' of capture.json has the output of uint32 and shape (64,), which do not fit{again}",
        asked(to="binary16"),
    )
    for value in ({"magic": 1}, {"projection": "x"}, {"profile": 3}):
        ((field, held),) = value.items()
        shown = f"'{held}'" if isinstance(held, str) else held
        why = f"an expectation '{field}' that is not read here: {shown}"
        refused(f"question '{MMA}' of capture.json has {why}{again}", asked(expects=value))
    for field, value in (("profile", "torch"), ("projection", {})):
        why = f"an expectation '{field}', which a dot is not held against"
        refused(f"question '{MMA}' of capture.json has {why}{again}", asked(expects={field: value}))
    sums = {"operation": "convert", "from": ["binary32"], "expects": {"accumulation": "fp32_fma"}}
    why = "an expectation 'accumulation', which a convert is not held against"
    refused(f"question '{MMA}' of capture.json has {why}{again}", asked(**sums))
    for value in ([], 0, "e4m3fn"):
        why = f"an expectation that is no object, but {value!r}"
        refused(f"question '{MMA}' of capture.json has {why}{again}", asked(expects=value))
    why = "an expectation 'output' without the 'accumulation' before it"
    refused(f"question '{MMA}' of capture.json has {why}{again}", asked(expects={"output": "binary16"}))
    for value, why in (
        ({"foo": 1}, "Projection.__init__() got an unexpected keyword argument 'foo'"),
        ({"rounding": ["a"]}, "rounding must be a Rounding or a name, not ['a']"),
        ({"saturation": None}, "saturation must be a Saturation or a name, not None"),
    ):
        shown = f"question '{MMA}' of capture.json has {why}{again}"
        refused(shown, asked(expects={"projection": value}))
    flat = f"question '{MMA}' of capture.json has an x of 1 dimensions, not 2{again}"
    refused(flat, asked(operands={"x": f"{MMA}_addend", "y": f"{MMA}_y"}))
    once = f"capture.json has the question '{CVT}' twice{again}"
    refused(once, lambda: changed(path, lambda said: said | {"questions": said["questions"][:1] * 2}))
    refused("question '\\x1b[31m' of capture.json has a name that is no word", asked(name="\x1b[31m"))
    missing = lowprec("compare", tmp_path / "none.npz")
    assert missing.exit_code == 2
    assert f"there is no file {str(tmp_path / 'none.npz')!r}" in missing.output


def npz(path, manifest, **arrays):
    """A file of the right schema, or of a manifest that is text, with arrays that are bytes already."""
    if isinstance(manifest, dict):
        manifest = {
            "schema": script.SCHEMA,
            "machine": {},
            "script": {},
            "questions": [],
            "arrays": {},
        } | manifest
        manifest = json.dumps(manifest)
    held = {
        script.MANIFEST: manifest.encode(),
        **{f"{name}.npy": content for name, content in arrays.items()},
    }
    path.write_bytes(script.archive(held))


HEADER = b"\x93NUMPY\1\0\x80\0{'descr': '<f4', 'fortran_order': False, 'shape': (%d,)}"
HOSTILE = {
    "many zeros": ({}, dict.fromkeys("abcd", bytes(1 << 25)), "at most 6"),
    "a long manifest": ("[" + " " * (1 << 23), {}, "of them in capture.json; at most"),
    "a deep manifest": ("[" * 100_000, {}, "capture.json is nested too deeply"),
    "a name twice": ('{"schema": 1, "schema": 2}', {}, "capture.json has the name 'schema' twice"),
    "a large shape": (
        {}, {"a": (HEADER % (1 << 40)).ljust(138)}, "'a.npy' has 0 bytes of data, and its header says 4,398,"
    ),
    "signs": ({}, {"a": b"\x93NUMPY\1\0\x20\x23" + b"-" * 8992}, ""),
    "a long header": ({}, {"a": b"\x93NUMPY\2\0\0\0\x20\0" + b"(" * (1 << 21)}, "have at most 10,000"),
    "objects": ({}, {"a": HEADER.replace(b"<f4", b"|O ") % 0}, ""),
}  # fmt: skip


@pytest.mark.parametrize(("manifest", "arrays", "message"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_captures_are_refused_before_they_take_memory(tmp_path, manifest, arrays, message):
    """A file of 3 MB took 3.7 GB."""
    npz(tmp_path / "x.npz", manifest, **arrays)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"cannot read .*x\.npz'") as found:
            lp.read_capture(tmp_path / "x.npz")
        assert message in str(found.value)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_members_packed_otherwise_than_scripts_do_are_refused(tmp_path):
    """By bzip2 or LZMA, which zipfile unpacks whole, whatever their sizes."""
    with zipfile.ZipFile(place := tmp_path / "x.npz", "w", zipfile.ZIP_BZIP2) as held:
        held.writestr(script.MANIFEST, " " * 1000)
    why = "'capture.json' is packed by method 12, and scripts of `lowprec capture` pack by 0 or 8"
    with pytest.raises(ValueError, match=re.escape(why)):
        lp.read_capture(place)


@pytest.mark.parametrize("member", [script.MANIFEST, "a.npy"])
def test_a_member_is_not_unpacked_beyond_its_size(tmp_path, member):
    """One of 64 MB, whose sizes in the file are set to 100,138 bytes."""
    place = tmp_path / "x.npz"
    large = " " * (1 << 26) if member == script.MANIFEST else {}
    npz(place, large, a=(HEADER % 25_000).ljust(138) + (b"" if large else bytes(1 << 26)))
    data = bytearray(place.read_bytes())
    for mark, name, size in ((b"PK\3\4", 30, 22), (b"PK\1\2", 46, 24)):
        start = data.index(mark)
        while data[start + name : start + name + len(member)] != member.encode():
            start = data.index(mark, start + 1)
        data[start + size : start + size + 4] = (100_138).to_bytes(4, "little")
    place.write_bytes(data)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=rf"no whole \.npz file \(Bad CRC-32 for file '{member}'\)"):
            lp.read_capture(place)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((":nothing",), "the capture has no question 'nothing'; it has cvt_rn_satfinite_e4m3x2_f32, "),
        ((":cvt_rs_satfinite_e4m3x4_f32",), "was skipped on that machine: it needs compute capability 10.0"),
        ((":",), "name a question as "),
        (("", "--accumulation", "exact"), "--accumulation is for one question of a capture, FILE.npz:"),
        (("", "--scale", "2"), "--scale is for other files, and a capture says what it holds; leave it out"),
        (("", "--html", "x.html"), "--html and --baseline are about one question"),
        (("", "--scheduler", "tcp://a:1"), "--scheduler is for files of arrays"),
    ],
)
def test_questions_and_options_that_cannot_be(tmp_path, monkeypatch, words, message):
    """One message, exit code 2."""
    path = captured(tmp_path, monkeypatch)
    done = lowprec("compare", f"{path}{words[0]}", *words[1:])
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())


def test_the_page_shows_what_is_printed(monkeypatch):
    """The commands of docs/capture.md on the capture that is in docs/examples."""
    monkeypatch.setenv("COLUMNS", "110")
    monkeypatch.chdir(ROOT)
    page = (ROOT / "docs" / "capture.md").read_text()
    blocks = re.findall(
        r"^\$ lowprec ([^\n]* docs/examples/capture.npz[^\n]*)\n(.*?)^```$", page, re.M | re.S
    )
    assert len(blocks) == 3
    for command, shown in blocks:
        printed = [line.rstrip() for line in lowprec(*shlex.split(command)).output.splitlines()]
        lines = shown.splitlines()
        told = lines.index("...") if "..." in lines else len(printed)
        assert printed[:told] == lines[:told]


# -- torch on this processor ------------------------------------------------------------------------


def test_torch_on_this_processor_is_what_its_profile_says(tmp_path):
    """The script, run as a stranger runs it."""
    need_framework("torch")
    path, out = tmp_path / "capture.py", tmp_path / "capture.npz"
    path.write_text(written(chosen([]), 1024, 0, "test"))
    command = [sys.executable, "-W", "error", path, "--out", out, "--device", "cpu"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    capture = lp.read_capture(out)
    answered = {name for name, question in capture.questions.items() if not question.skipped}
    # On processors with matrix units torch leaves this product to a library that refuses it.
    refused = {"scaled_mm_e4m3fnuz"} - answered
    assert answered | refused == {name for name, question in CAPTURES.items() if question.run_on == "CPUs"}
    assert all("RuntimeError" in capture.questions[name].skipped for name in refused)
    for name in sorted(answered):
        question = capture[name]
        if question.expects is not None:
            assert question.compare().agrees, name
    ranked = capture["scaled_mm_e4m3fn"].compare(why=False).ranking
    assert ranked[0].share > 0.5
