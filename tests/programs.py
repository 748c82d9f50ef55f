"""Programs and frameworks that tests need: skipped if missing, unless LOWPREC_REQUIRE names their kind."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
from types import ModuleType
from typing import NoReturn

import pytest

from lowprec.verify.frameworks import FRAMEWORKS

INSTALL = {
    "gcc": "apt-get install gcc",
    "iverilog": "apt-get install iverilog",
    "ghdl": "apt-get install ghdl-mcode",
    "verilator": "apt-get install verilator g++ make",
    "cocotb": "pip install cocotb",
    "chromium": "apt-get install chromium",
    "playwright": "pip install playwright",
}


def need(tool: str) -> str:
    """The path of a program (a module's name for cocotb), or the test ends here."""
    if tool == "cocotb":
        found = "cocotb" if importlib.util.find_spec("cocotb_tools") else None
    else:
        found = shutil.which(tool)
    if found is None:
        _missing("programs", tool, INSTALL[tool])
    return found


def need_browser_library() -> ModuleType:
    """The library that drives a browser, or the test ends here."""
    if importlib.util.find_spec("playwright") is None:
        _missing("programs", "playwright", INSTALL["playwright"])
    return importlib.import_module("playwright.sync_api")


#: Too large for every run: never required.
_LARGE = ("tensorflow", "tvm", "iree", "triton")


def need_framework(name: str) -> str:
    """The installed version of a framework, or the test ends here."""
    framework = FRAMEWORKS[name]
    if framework.version is None and name in _LARGE:
        pytest.skip(f"not run: {name} is not installed ({framework.install})")
    if framework.version is None:
        _missing("frameworks", name, framework.install)
    return framework.version or ""


def need_package(name: str, version: str = "") -> None:
    """A package that blocks are compared with is installed, in the known version, or the test ends here."""
    if importlib.util.find_spec(name) is None:
        _missing("frameworks", name, f"pip install {name}")
    if not importlib.metadata.version(name).startswith(version):
        _missing("frameworks", f"{name} {version}", f"pip install {name}=={version}")


def need_library(distribution: str, start: str) -> str:
    """The path of a shared library that a package brings, or the test ends here."""
    try:
        files = importlib.metadata.files(distribution) or []
    except importlib.metadata.PackageNotFoundError:
        _missing("frameworks", distribution, f"pip install {distribution}")
    return next(str(file.locate()) for file in files if file.name.startswith(start))


def _missing(kind: str, what: str, install: str) -> NoReturn:
    reason = f"not run: {what} is not installed ({install})"
    if kind in os.environ.get("LOWPREC_REQUIRE", "").split(","):
        pytest.fail(reason)
    pytest.skip(reason, allow_module_level=True)


def run(*command: object, **options) -> subprocess.CompletedProcess:
    """Run a program to its end and keep what it says."""
    return subprocess.run(
        [str(word) for word in command], capture_output=True, check=False, timeout=300, **options
    )


def succeed(*command: object, **options) -> bytes:
    """Run a program that must succeed; what it printed."""
    done = run(*command, **options)
    assert done.returncode == 0, (done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout
