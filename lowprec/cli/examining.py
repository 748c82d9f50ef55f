"""Examinations of `lowprec doctor`: versions, processor, modes, threads, compiled kernels and frameworks.

Frameworks are known by the metadata of their distributions; none is imported.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import os
import platform
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from lowprec import __version__, files
from lowprec.arrays import convert, threads
from lowprec.cli import warming
from lowprec.kernels import cache
from lowprec.kernels.jit import MODES
from lowprec.kernels.modes import exchange
from lowprec.kernels.vector.ir.lanes import LANES
from lowprec.spec import catalog
from lowprec.verify.frameworks import FRAMEWORKS

SCHEMA = "lowprec.doctor/1"

#: Distributions that are always needed, in the order in which they are shown.
_CORE = ("numpy", "numba", "llvmlite", "ml_dtypes", "click", "rich")

#: Optional distributions, the extra that installs each, and what it is for.
_OPTIONAL = {
    "junitparser": ("report", "JUnit reports (--junit)"),
    "matplotlib": ("report", "plots and HTML pages (--html)"),
    "python-flint": ("functions", "exp, log, sin and other functions"),
    "dask": ("dask", "lazy arrays and clusters (--scheduler)"),
    "gguf": ("checkpoints", "GGUF files"),
    "onnx": ("onnx", "ONNX models"),
    "hypothesis": ("test", "lowprec.testing.strategies"),
    "cocotb": ("cocotb", "scoreboards in simulations"),
}

#: Bits of the register of modes, x86-64's MXCSR and aarch64's FPCR: what flushes, and where rounding is.
_FLUSHING = {
    "x86_64": {"results": 0x8000, "operands": 0x40},
    "aarch64": {"operands and results": 1 << 24, "binary16": 1 << 19},
}
_ROUNDING = {"x86_64": 13, "aarch64": 22}
#: Rounding modes by the two bits of MXCSR; FPCR has toward positive and toward negative the other way round.
_MODES = ("nearest_even", "toward_negative", "toward_positive", "toward_zero")

#: What is probed to say whether the cache is warm.
_PROBED = ("e4m3fn", "mxfp4")

#: Vector extensions, the best first: the feature of LLVM, its name, and the bits of its registers.
_VECTORS = (
    ("avx512vl", "AVX-512", 512),
    ("avx2", "AVX2", 256),
    ("sse2", "SSE2", 128),
    ("sve", "SVE", 128),
    ("neon", "NEON", 128),
)


#: Takes what is found: its level ("broken", "slow" or "note"), what it is, and what to do about it.
Tell: TypeAlias = Callable[[str, str, str], None]


class _Cold(Exception):
    """A kernel is not on disk."""


def examine(modules: Iterable[str] = ()) -> dict[str, Any]:
    """Return what there is to know of this installation, as plain data in a fixed order.

    Parameters
    ----------
    modules : iterable of str
        Modules to import first, which may change the modes of the process; each is told.

    Returns
    -------
    dict
        Schema lowprec.doctor/1. Each of "findings", the worst first, has a level ("broken", "slow" or
        "note"), what it is, and what to do about it.
    """
    findings: list[dict[str, str]] = []

    def tell(level: str, what: str, do: str) -> None:
        findings.append({"level": level, "what": what, "do": do})

    imported = [_imported(name, tell) for name in modules]
    report = {
        "schema": SCHEMA,
        "versions": _versions(tell),
        "machine": _machine(tell),
        "modes": _modes(tell),
        "imported": imported,
        "threads": _threads(tell),
        "cache": _cache(tell),
        "frameworks": _frameworks(),
        "optional": _optional(),
    }
    findings.sort(key=lambda found: ("broken", "slow", "note").index(found["level"]))
    return {**report, "findings": findings}


def _installed(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _versions(tell: Tell) -> dict[str, str | None]:
    versions = {name: _installed(name) for name in _CORE}
    for name, (lowest, below) in _allowed().items():
        version = versions.get(name)
        if version is None:
            continue
        if _numbers(version) < _numbers(lowest) or (below and _numbers(version) >= _numbers(below)):
            wanted = ",".join([f">={lowest}"] * bool(lowest) + [f"<{below}"] * bool(below))
            what = f"{name} {version} is not what lowprec is tested with"
            tell("broken", what, f'pip install "{name}{wanted}"')
    return {"lowprec": __version__, "python": platform.python_version(), **versions}


def _allowed() -> dict[str, tuple[str, str]]:
    """Return the lowest version of each required distribution, and the one above; "" for none."""
    try:
        required = importlib.metadata.requires("lowprec") or []
    except importlib.metadata.PackageNotFoundError:
        return {}
    found = {}
    for line in required:
        if ";" in line:  # of an extra
            continue
        (name,) = re.findall(r"^[\w-]+", line)
        lowest, below = (re.findall(rf"{sign}([\d.]+)", line) for sign in (">=", "<(?!=)"))
        found[name.replace("-", "_")] = ("".join(lowest[:1]), "".join(below[:1]))
    return found


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", re.split(r"[^\d.]", version)[0])]


def _machine(tell: Tell) -> dict[str, Any]:
    compiler: Any = exchange
    made = {"processor": _processor(), "system": platform.platform(), "lanes": LANES}
    if not hasattr(compiler, "targetctx"):
        what = "kernels are not compiled, as NUMBA_DISABLE_JIT is set: they run as Python"
        tell("slow", what, "unset NUMBA_DISABLE_JIT")
        return {**made, "kernels_for": None, "vectors": None, "vector_bits": None}
    _, cpu, features = compiler.targetctx.codegen().magic_tuple()
    enabled = {feature[1:] for feature in features.split(",") if feature.startswith("+")}
    if platform.machine().lower() in ("x86_64", "amd64"):
        enabled.add("sse2")  # which every such processor has
    name, bits = next(((name, bits) for flag, name, bits in _VECTORS if flag in enabled), (None, None))
    if os.environ.get("NUMBA_CPU_NAME"):
        what = f"kernels are compiled for {cpu!r}, as NUMBA_CPU_NAME is set, not for the processor at hand"
        tell("slow", what, "unset NUMBA_CPU_NAME, unless kernels are shared between machines")
    return {**made, "kernels_for": cpu, "vectors": name, "vector_bits": bits}


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _register() -> int | None:
    """Return the register of this thread's modes; None where that is not known."""
    if MODES is None:
        return None
    word = exchange(np.uint64(MODES))
    exchange(word)
    return int(word)


def _flushed(word: int) -> list[str]:
    """Return what a register's bits say is flushed."""
    return [what for what, bit in _FLUSHING[_architecture()].items() if word & bit]


def _architecture() -> str:
    return "x86_64" if MODES else "aarch64"


def _modes(tell: Tell) -> dict[str, Any]:
    word = _register()
    if word is None:
        tell("note", "the processor's floating-point modes cannot be read here", "")
        return {"register": None, "flushed": None, "rounding": None}
    flushed = _flushed(word)
    bits = word >> _ROUNDING[_architecture()] & 3
    rounding = _MODES[bits if MODES or bits in (0, 3) else 3 - bits]
    if flushed or rounding != "nearest_even":
        does = [f"flushes subnormals ({' and '.join(flushed)})"] if flushed else []
        does += [f"rounds {rounding}"] if rounding != "nearest_even" else []
        what = f"this process {' and '.join(does)}: NumPy's results change, lowprec's do not"
        tell("note", what, "find the library that sets it: lowprec doctor --import MODULE")
    return {"register": hex(word), "flushed": flushed, "rounding": rounding}


def _imported(name: str, tell: Tell) -> dict[str, Any]:
    """Import a module, and return its version and whether the modes changed with it."""
    before = _register()
    try:
        module = importlib.import_module(name)
    except Exception as error:  # whatever a broken installation raises
        why = (str(error).strip().splitlines() or [type(error).__name__])[0]
        absent = isinstance(error, ModuleNotFoundError) and error.name == name
        tell("broken", f"{name} cannot be imported: {why}", "install it" if absent else "install it again")
        return {"module": name, "version": None, "error": why, "flushes": None}
    after = _register()
    flushes = None if before is None or after is None else sorted({*_flushed(after)} - {*_flushed(before)})
    if flushes:
        what = f"importing {name} makes the process flush subnormals ({' and '.join(flushes)})"
        tell("note", what, "it was linked with -ffast-math or sets the mode itself: tell its authors")
    version = getattr(module, "__version__", None)
    return {
        "module": name,
        "version": None if version is None else str(version),
        "error": None,
        "flushes": flushes,
    }


def _threads(tell: Tell) -> dict[str, Any]:
    asked = os.environ.get("LOWPREC_NUM_THREADS") or None
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _quota()
    try:
        used = threads.get_threads()
    except ValueError as error:
        tell("broken", str(error), "export LOWPREC_NUM_THREADS=1")
        used = 0
    if quota is not None and used > max(1, quota):
        what = f"{used} threads share {quota:g} processors, to which a control group limits this process"
        tell("slow", what, f"export LOWPREC_NUM_THREADS={max(1, int(quota))}")
    elif 0 < used < min(processors, quota or processors) and asked:
        what = f"large arrays use {used} of {processors} processors, as LOWPREC_NUM_THREADS says"
        tell("slow", what, "unset LOWPREC_NUM_THREADS, unless the others are busy")
    return {"used": used, "processors": processors, "quota": quota, "LOWPREC_NUM_THREADS": asked}


def _quota(path: Path = Path("/sys/fs/cgroup/cpu.max")) -> float | None:
    """Return the processors that a control group allows; None where there is no limit."""
    try:
        most, period = path.read_text().split()
        return None if most == "max" else int(most) / int(period)
    except (OSError, ValueError):
        return None


def _cache(tell: Tell) -> dict[str, Any]:
    chosen = os.environ.get("LOWPREC_CACHE_DIR")
    folder = cache.directory()
    state, why = usable(folder)
    files, size = _counted(folder) if folder is not None else (0, 0)
    if state == "off":
        do = "unset LOWPREC_CACHE_DIR" if chosen == "" else "set LOWPREC_CACHE_DIR to a folder of your own"
        tell("slow", f"compiled kernels are not kept: {why}", do)
    elif state == "unusable":
        what = f"compiled kernels cannot be kept in {str(folder)!r}: {why}"
        do = "set LOWPREC_CACHE_DIR to a folder that only you can change"
        tell("broken" if chosen else "slow", what, do)
    calls = _warm(tell) if hasattr(exchange, "targetctx") else {}
    cold = [words for words, warm in calls.items() if not warm]
    if cold and state == "usable":
        what = f"{len(cold)} of {len(calls)} common calls have no compiled kernel yet, and wait for it once"
        tell("slow", f"{what}: {', '.join(cold)}", f"lowprec warm {' '.join(_PROBED)}")
    return {
        "folder": None if folder is None else str(folder),
        "LOWPREC_CACHE_DIR": chosen,
        "state": state,
        "why": why,
        "files": files,
        "bytes": size,
        "warm": calls,
    }


def usable(folder: Path | None) -> tuple[str, str]:
    """Return "usable", "unusable" or "off", and why; nothing is left on disk that was not there."""
    if folder is None:
        empty = os.environ.get("LOWPREC_CACHE_DIR") == ""
        return "off", "LOWPREC_CACHE_DIR is empty" if empty else "no folder of the user is known"
    try:
        path = folder.absolute()
        above = next(each for each in (path, *path.parents) if each.exists())
        if not above.is_dir():
            return "unusable", f"{str(above)!r} is no folder"
        if cache.private(above) is None and (above == path or not _sticky(above)):
            return "unusable", f"others than you and root may change {str(above)!r} (chmod go-w)"
        files.probe(above)
        return "usable", ""
    except OSError as error:
        return "unusable", f"{error.strerror or error}"


def _sticky(folder: Path) -> bool:
    """Return whether all may write in a folder, but nobody rename what is another's, such as /tmp."""
    return bool(folder.stat().st_mode & 0o1000)


def _counted(folder: Path) -> tuple[int, int]:
    """Return the number of files of a folder, and their bytes."""
    sizes = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                sizes.append(entry.stat(follow_symlinks=False).st_size)
    return len(sizes), sum(sizes)


@contextlib.contextmanager
def _no_compiling() -> Iterator[None]:
    """Refuse to compile what is not on disk."""
    load = cache.DiskCache.load_overload

    def loaded(self: cache.DiskCache, signature: Any, target: Any) -> Any:
        found = load(self, signature, target)
        if found is None:
            raise _Cold
        return found

    cache.DiskCache.load_overload = loaded  # type: ignore[method-assign]
    try:
        yield
    finally:
        cache.DiskCache.load_overload = load  # type: ignore[method-assign]


def _warm(tell: Tell) -> dict[str, bool]:
    """Return which common calls have their kernels on disk or in this process, and test one of them."""
    probed: list[warming.Specification] = [
        catalog.FORMATS[_PROBED[0]],
        catalog.BLOCK_FORMATS[_PROBED[1]],
    ]
    found = {}
    with _no_compiling():
        for call in warming.calls(probed):
            try:
                call.run()
            except _Cold:
                found[call.words] = False
            else:
                found[call.words] = True
        if found["encode float32 to e4m3fn"]:
            _test(tell)
    return found


def _test(tell: Tell) -> None:
    """Hold the kernel of a conversion against the oracle, on a value for each code and between codes."""
    codes = np.arange(256, dtype=np.uint8)
    values = np.asarray(convert.decode(codes, "e4m3fn", backend="oracle")).astype(np.float32)
    operands = np.concatenate([values, values * np.float32(1.03125)])
    wrong = convert.encode(operands, "e4m3fn") != convert.encode(operands, "e4m3fn", backend="oracle")
    if np.any(wrong):
        what = f"{int(np.sum(wrong))} of {wrong.size} conversions to e4m3fn are wrong"
        do = "remove the folder of compiled kernels; if that does not help, report it"
        tell("broken", f"{what}: the compiled kernels are damaged, or the processor is", do)


def _frameworks() -> list[dict[str, Any]]:
    """Return the libraries that `conform` can check, a dict for each."""
    found: dict[str, dict[str, Any]] = {}
    for framework in FRAMEWORKS.values():
        entry = found.setdefault(
            framework.package,
            {
                "package": framework.package,
                "version": framework.version,
                "missing": [
                    name for name in (framework.package, *framework.needs) if _installed(name) is None
                ],
                "install": framework.install,
                "names": [],
            },
        )
        entry["names"].append(framework.name)
    return [*found.values()]


def _optional() -> list[dict[str, Any]]:
    return [
        {
            "package": name,
            "version": _installed(name),
            "for": what,
            "install": f'pip install "lowprec[{extra}]"',
        }
        for name, (extra, what) in _OPTIONAL.items()
    ]
