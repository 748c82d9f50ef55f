"""Programs and frameworks that tests need: skipped if missing, unless LOWPREC_REQUIRE names their kind."""

import importlib
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import numpy as np
import pytest

import lowprec as lp
from lowprec.spec.catalog import BINARY32
from lowprec.spec.format import Format
from lowprec.spec.projection import Saturation
from lowprec.spec.rounding import MODES
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
_LARGE = ("openvino", "paddle", "tensorflow", "tvm", "iree", "triton")


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


#: Prints the value of every code, then the code of each mode, policy and operand that it reads.
_DRIVER = """
#include <stdio.h>
#include "format.h"
int main(void)
{{
    unsigned rounding, saturation;
    unsigned long long x;
    for (x = 0; x < {count}; x++)
        printf("%llx\\n", (unsigned long long){name}_decode(({code})x));
    while (scanf("%u %u %llx", &rounding, &saturation, &x) == 3) {{
        {code} code = {name}_{function}(
            ({word})x, (lowprec_rounding)rounding, (lowprec_saturation)saturation);
        printf("%x\\n", (unsigned)code);
    }}
    return 0;
}}
"""


def assert_c_header_is_right(fmt: Format, header: bytes, function: str, values: Any, folder: Path) -> None:
    """Compile a C header, every warning an error; hold all codes, and operands in all modes, against ours."""
    gcc = need("gcc")
    (folder / "format.h").write_bytes(header)
    bits = values.view(f"u{values.dtype.itemsize}").tolist()
    source, program = folder / f"{function}.c", folder / function
    name = "lowprec_" + fmt.name.replace(" ", "_")
    types = {"code": f"uint{fmt.code_bits}_t", "word": f"uint{8 * values.dtype.itemsize}_t"}
    source.write_text(_DRIVER.format(name=name, count=1 << fmt.width, function=function, **types))
    succeed(gcc, "-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-pedantic", source, "-o", program)
    lines, want = [], []
    for number, mode in enumerate(MODES):
        for policy, saturation in enumerate(Saturation):
            lines += [f"{number} {policy} {each:x}" for each in bits]
            want.append(lp.encode(values, fmt, rounding=mode, saturation=saturation))
    out = succeed(program, input="\n".join(lines).encode()).split()
    got = np.array([int(text, 16) for text in out], np.uint64)
    kind = np.float32 if BINARY32.contains(fmt) else np.float64
    decoded = lp.decode(np.arange(1 << fmt.width), fmt, dtype=kind)
    assert (got[: 1 << fmt.width] == decoded.view(f"u{decoded.dtype.itemsize}")).all()
    assert (got[1 << fmt.width :] == np.concatenate(want)).all()
