"""`lowprec doctor`: what it says is true, what is broken fails, and what is slow has a remedy."""

import contextlib
import importlib.metadata
import json
import os
import subprocess
import sys
import types

import numba
import numpy as np
import pytest

import lowprec as lp
from lowprec.arrays import convert
from lowprec.cli import examining, warming
from lowprec.kernels import cache, compiling
from lowprec.kernels.jit import MODES
from lowprec.kernels.modes import exchange
from tests.command import lowprec
from tests.support import python

compiled = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
registered = pytest.mark.skipif(MODES is None, reason="the modes of this processor are not known")


@pytest.fixture(scope="module", autouse=True)
def warm():
    """The calls that are probed."""
    for call in warming.calls([lp.formats["e4m3fn"], lp.block_formats["mxfp4"]]):
        call.run()


def doctor(*arguments):
    result = lowprec("doctor", "--json", *arguments)
    return result.exit_code, json.loads(result.stdout)


def found(report, level):
    return [finding["what"] for finding in report["findings"] if finding["level"] == level]


@pytest.mark.apart
def test_a_whole_installation_is_not_broken():
    """And what is shown is what is there."""
    code, report = doctor()
    assert (code, found(report, "broken")) == (0, [])
    assert report["schema"] == "lowprec.doctor/1"
    assert report["versions"]["numpy"] == np.__version__
    assert report["versions"]["lowprec"] == lp.__version__
    assert report["threads"]["used"] == lp.get_threads()


def test_the_text_fits_100_columns_and_ends_with_the_verdict():
    """Names of folders apart, which are not broken."""
    result = lowprec("doctor")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert all(len(line) <= 100 for line in lines if os.sep not in line)
    assert lines[-1] == "nothing is broken"
    assert [line.split()[0] for line in lines[:1]] == ["versions"]


def test_frameworks_are_not_imported_and_the_way_to_install_each_is_told(monkeypatch):
    """Of those that are missing, also because of what they need."""
    monkeypatch.setattr(examining, "_installed", lambda name: None if name == "torch" else "1.0")
    version = importlib.metadata.version
    missing = importlib.metadata.PackageNotFoundError

    def without_torch(name):
        if name in ("torch", "qtorch"):
            raise missing(name)
        return version(name) if name in ("numpy", "lowprec") else "1.0"

    monkeypatch.setattr(importlib.metadata, "version", without_torch)
    frameworks = {each["package"]: each for each in doctor()[1]["frameworks"]}
    assert frameworks["torchao"]["version"] is None
    assert frameworks["torchao"]["missing"] == ["torch"]
    assert frameworks["torch"]["install"] == 'pip install "lowprec[torch]"'
    assert frameworks["numpy"]["version"] == np.__version__
    assert frameworks["gfloat"]["names"][:2] == ["gfloat", "gfloat_ties_away"]
    text = lowprec("doctor").stdout
    lines = [line.split() for line in text.splitlines()]
    assert ["torchao", "lacks", "torch", "pip", "install", "torch", "torchao==0.18.0"] in lines


def test_it_is_fast_and_imports_no_framework():
    script = (
        "import sys\nfrom lowprec.cli.main import main\n"
        "try: main(['doctor'])\nexcept SystemExit as stop: assert not stop.code, stop.code\n"
        "print(sorted({'torch', 'jax', 'onnx', 'tensorflow', 'matplotlib', 'dask'} & {*sys.modules}))"
    )
    assert python("-c", script).endswith("\n[]\n")


@compiled
@pytest.mark.apart
def test_a_cold_cache_is_slow_and_left_alone(tmp_path):
    """Nothing but the reading of the modes is compiled; after `lowprec warm` nothing is cold."""
    environment = {**os.environ, "LOWPREC_CACHE_DIR": str(tmp_path / "kernels")}

    def run(*arguments):
        command = [sys.executable, "-m", "lowprec", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    report = json.loads(run("doctor", "--json"))
    assert report["cache"]["state"] == "usable"
    assert not any(report["cache"]["warm"].values())
    assert "lowprec warm e4m3fn mxfp4" in [finding["do"] for finding in report["findings"]]
    assert len([*(tmp_path / "kernels").iterdir()]) <= 2
    run("warm", "e4m3fn", "--verb", "decode")
    report = json.loads(run("doctor", "--json"))
    assert [words for words, warm in report["cache"]["warm"].items() if warm] == ["decode e4m3fn"]


@compiled
def test_kernels_are_compiled_as_usual_afterwards():
    """The probe refuses to compile only while it runs."""
    load = cache.DiskCache.load_overload
    before = len(compiling.COMPILED)
    assert doctor()[0] == 0
    assert cache.DiskCache.load_overload is load
    assert len(compiling.COMPILED) == before


@compiled
def test_a_wrong_answer_is_broken(monkeypatch):
    """One code of 512."""
    encode = lp.encode

    def wrong(values, fmt, **options):
        codes = encode(values, fmt, **options)
        if fmt == "e4m3fn" and options.get("backend") != "oracle":
            codes[7] ^= 1
        return codes

    monkeypatch.setattr(convert, "encode", wrong)
    code, report = doctor()
    assert code == 1
    assert any("1 of 512 conversions to e4m3fn are wrong" in what for what in found(report, "broken"))
    result = lowprec("doctor")
    assert result.stdout.splitlines()[-1] == "1 broken"


@registered
def test_what_the_process_flushes_is_told():
    """By the bits of its own register."""
    flush = 0x8040 if MODES else 1 << 24
    before = exchange(np.uint64(MODES | flush))
    try:
        code, report = doctor()
    finally:
        exchange(before)
    assert code == 0
    assert (
        report["modes"]["flushed"] == [*examining._FLUSHING[examining._architecture()]][: 2 if MODES else 1]
    )
    assert any("flushes subnormals" in what for what in found(report, "note"))
    assert "subnormals are kept" in lowprec("doctor").stdout


@registered
@pytest.mark.parametrize(
    ("bits", "name"),
    [(0, "nearest_even"), (1, "toward_negative"), (2, "toward_positive"), (3, "toward_zero")],
)
def test_the_rounding_of_the_process_is_told(bits, name):
    """What NumPy does in it, too."""
    place = examining._ROUNDING[examining._architecture()]
    word = bits if MODES or bits in (0, 3) else 3 - bits
    before = exchange(np.uint64(MODES | word << place))
    try:
        report = examining.examine()
        third = np.float32(1) / np.float32(3)
    finally:
        exchange(before)
    assert report["modes"]["rounding"] == name
    assert bool(any("rounds" in what for what in found(report, "note"))) is (bits != 0)
    assert third == lp.divide(np.float32(1), np.float32(3), "binary32", rounding=name)


@registered
def test_a_module_that_flushes_is_found(monkeypatch):
    """As libraries linked with -ffast-math do."""
    flush = 0x8040 if MODES else 1 << 24
    before = []

    def imported(name):
        if name == "gone":
            raise ImportError("no such\nmodule")
        if name == "fast":
            before.append(exchange(np.uint64(MODES | flush)))
        return types.SimpleNamespace(__version__="1.0")

    monkeypatch.setattr(examining.importlib, "import_module", imported)
    try:
        code, report = doctor("--import", "slow", "--import", "fast", "--import", "gone")
    finally:
        with contextlib.suppress(IndexError):
            exchange(before[0])
    assert code == 1
    slow, fast, gone = report["imported"]
    assert slow == {"module": "slow", "version": "1.0", "error": None, "flushes": []}
    assert fast["flushes"]
    assert gone["error"] == "no such"
    assert found(report, "broken") == ["gone cannot be imported: no such"]
    assert any(what.startswith("importing fast makes the process flush") for what in found(report, "note"))


@pytest.mark.parametrize(
    ("folder", "code", "state", "words"),
    [
        ("", 0, "off", "LOWPREC_CACHE_DIR is empty"),
        ("{}/file/kernels", 1, "unusable", "/file' is no folder"),
    ],
)
def test_a_cache_that_is_not_used_is_told(folder, code, state, words, tmp_path, monkeypatch):
    """Off is slow; a folder that was asked for and cannot be had is broken."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LOWPREC_CACHE_DIR", folder.format(tmp_path))
    exit_code, report = doctor()
    assert (exit_code, report["cache"]["state"]) == (code, state)
    assert any(words in what for what in found(report, "broken" if code else "slow"))
    assert "not kept" in lowprec("doctor").stdout or code


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="folders have no owners")
def test_a_folder_that_others_may_write_is_broken(tmp_path, monkeypatch):
    """What is loaded from it would be executed."""
    folder = tmp_path / "kernels"
    folder.mkdir()
    folder.chmod(0o777)
    monkeypatch.setenv("LOWPREC_CACHE_DIR", str(folder))
    code, report = doctor()
    assert code == 1
    assert "others than you and root may change" in found(report, "broken")[0]
    assert [*folder.iterdir()] == []


def test_a_version_that_is_not_allowed_is_broken(monkeypatch):
    """Above or below what is required; what an extra wants does not count."""
    monkeypatch.setattr(
        importlib.metadata,
        "requires",
        lambda name: ["numpy>=99.1", "numba<0.1,>=0.0", "click", "rich>=13", 'ml-dtypes>=99; extra == "x"'],
    )
    code, report = doctor()
    assert code == 1
    assert [finding["do"] for finding in report["findings"] if finding["level"] == "broken"] == [
        'pip install "numpy>=99.1"',
        'pip install "numba>=0.0,<0.1"',
    ]


@pytest.mark.parametrize(
    ("text", "quota"), [("max 100000\n", None), ("150000 100000\n", 1.5), ("", None), ("a b", None)]
)
def test_the_quota_of_a_control_group_is_read(text, quota, tmp_path):
    """Version 2 of control groups."""
    (tmp_path / "cpu.max").write_text(text)
    assert examining._quota(tmp_path / "cpu.max") == quota
    assert examining._quota(tmp_path / "none") is None


def test_threads_beyond_the_quota_are_slow(monkeypatch):
    """As in containers that see all processors of the machine."""
    monkeypatch.setattr(examining, "_quota", lambda: 1.5)
    monkeypatch.setattr(examining.threads, "get_threads", lambda: 64)
    report = doctor()[1]
    assert any(what.startswith("64 threads share 1.5 processors") for what in found(report, "slow"))
    assert any(finding["do"] == "export LOWPREC_NUM_THREADS=1" for finding in report["findings"])


def test_threads_that_are_no_number_are_broken(monkeypatch):
    """A call would fail with the same words."""
    monkeypatch.setattr(examining.threads, "_threads", None)
    monkeypatch.setenv("LOWPREC_NUM_THREADS", "many")
    code, report = doctor()
    monkeypatch.undo()
    assert code == 1
    assert "LOWPREC_NUM_THREADS='many' is no number of threads" in found(report, "broken")[0]


def test_another_processor_to_compile_for_is_told(monkeypatch):
    """Kernels for every processor are slower."""
    monkeypatch.setenv("NUMBA_CPU_NAME", "generic")
    assert any("NUMBA_CPU_NAME is set" in what for what in found(doctor()[1], "slow"))


def test_a_folder_that_cannot_be_written_is_broken(tmp_path, monkeypatch):
    """Whatever its mode says, as on disks that are full or read only."""

    def full(dir):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(examining.files.tempfile, "TemporaryFile", full)
    monkeypatch.setenv("LOWPREC_CACHE_DIR", str(tmp_path / "kernels"))
    code, report = doctor()
    assert code == 1
    assert found(report, "broken")[0].endswith("No space left on device")


def test_a_module_that_is_not_there_is_to_be_installed():
    """Not again."""
    report = doctor("--import", "no_such_module")[1]
    assert report["findings"][0]["do"] == "install it"
