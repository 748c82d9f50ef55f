"""Every binary32 operand of a cast, held against the oracle.

A deterministic projection is a step function of its operand. The oracle says where its steps are; what all
2**32 bit patterns must give is filled in between them, and every code is compared. The patterns are cut
into ranges of one size. What is found in a range depends on the cast alone, so it matters to no digest who
works on a range, when, or how often; `processes` hands them out.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec import __version__
from lowprec.arrays.checks import code_dtype
from lowprec.arrays.convert import encode
from lowprec.oracle.convert import project
from lowprec.oracle.exact import Special
from lowprec.spec import catalog
from lowprec.spec.format import Format
from lowprec.spec.number_text import read_count
from lowprec.spec.projection import DEFAULT, NanPolicy, Projection, Saturation
from lowprec.spec.rounding import Rounding
from lowprec.verify.codes.display import hex_code
from lowprec.verify.codes.values import on_grid, words_of
from lowprec.verify.difference import Difference
from lowprec.verify.frameworks import FRAMEWORKS
from lowprec.verify.reference.binary32_steps import binary32_steps

__all__ = ["CHUNK", "FORMATS", "OURS", "RANGES", "SIZE", "SOURCES", "same_code", "Found", "Swept", "Steps"]
__all__ += ["Sweep", "check_digests", "plan", "report", "shard", "steps_of", "sweep_range", "version_of"]
__all__ += ["write_digests"]

Array = npt.NDArray[Any]

#: The subject that is no framework: the library's own kernels.
OURS = "lowprec"

#: Bit patterns of a range. Digests depend on it.
SIZE = 1 << 24

#: Ranges of a sweep.
RANGES = (1 << 32) // SIZE

#: Patterns that are converted at once: what is read and written stays in a processor's own cache, and
#: a second thread is not worth waking.
CHUNK = 1 << 18

#: Formats that are swept unless others are named.
FORMATS = tuple(fmt for fmt in catalog.FORMATS.values() if fmt.width <= 16)


def _sources() -> str:
    """Return a digest of the package's source files, and of the versions of what they are run with."""
    package = Path(__file__).parents[2]
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(
            path.relative_to(package).as_posix().encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest()
        )
    made_by = [importlib.metadata.version(name) for name in ("numpy", "numba", "llvmlite", "ml_dtypes")]
    digest.update(repr((*made_by, platform.python_version())).encode())
    return digest.hexdigest()


#: Of the code as it is imported: files that are edited later are not what this process runs.
SOURCES = _sources()


@dataclass(frozen=True)
class Sweep:
    """A cast from binary32 and how its results are to be."""

    subject: str  #: a framework's name, or `OURS`
    version: str
    fmt: Format
    projection: Projection

    def __str__(self) -> str:
        return f"{self.subject} to {self.fmt.name}, {self.projection}"

    @functools.cached_property
    def _spelled(self) -> dict[str, str]:
        """Texts that no other format and projection have; those of long codebooks take time."""
        return {"format": repr(self.fmt), "projection": repr(self.projection)}

    def identity(self) -> dict[str, Any]:
        """Return all that a range's result depends on, as plain data."""
        return {
            "subject": self.subject,
            "version": self.version,
            **self._spelled,
            "size": SIZE,
            "lowprec": __version__,
            "sources": SOURCES,
        }


def version_of(subject: str) -> str:
    """Return the version of a framework, or our own; empty where it is not installed."""
    return __version__ if subject == OURS else FRAMEWORKS[subject].version or ""


def shard(text: str) -> range:
    """Return the ranges of shard I of N, given as "I/N".

    >>> shard("2/64")
    range(1, 256, 64)
    """
    number, count = map(read_count, text.partition("/")[::2])
    if number is None or count is None or not 1 <= number <= count <= RANGES:
        raise ValueError(
            f"{text[:60]!r} is no shard; give I/N, such as 1/4 to 4/4, with at most {RANGES} shards"
        )
    return range(number - 1, RANGES, count)


#: What stands for a value that is none of the format.
_NO_CODE = (1 << 32) - 1


def plan(
    subjects: Iterable[str],
    formats: Sequence[Format] | None = None,
    roundings: Sequence[Rounding | str] = (),
    saturations: Sequence[Saturation | str] = (),
    nan: NanPolicy = "max",
) -> list[Sweep]:
    """Return the sweeps that are asked for, of the formats that each subject has.

    >>> [str(sweep) for sweep in plan(["lowprec"], [catalog.E4M3FN, catalog.E2M1FN])]
    ['lowprec to e4m3fn, nearest_even, saturation none', 'lowprec to e2m1fn, nearest_even, saturation none,
    nan max']

    Parameters
    ----------
    subjects : iterable of str
        Frameworks by name, or `OURS`.
    formats : sequence of Format, optional
        Of at most 16 bits; by default `FORMATS`.
    roundings, saturations : sequence
        Every mode is taken with every policy. Where none is named, what a framework is asked for, as
        in other runs of `lowprec conform`; of the kernels nearest_even and none.
    nan : {"max", "zero", "negative_zero"}
        What NaN must become in formats without NaN.

    Raises
    ------
    ValueError
        A wider format, a stochastic mode, or a projection that a format does not take.
    """
    chosen = FORMATS if formats is None else formats
    sweeps = []
    for subject in subjects:
        usual = DEFAULT if subject == OURS else FRAMEWORKS[subject].projection
        policies = saturations or (usual.saturation,)
        asked = [(rounding, policy) for rounding in roundings or (usual.rounding,) for policy in policies]
        has = None if subject == OURS else set(FRAMEWORKS[subject].targets())
        if subject != OURS and "float32" not in FRAMEWORKS[subject].sources:
            continue
        for fmt in chosen:
            if fmt.width > 16:
                raise ValueError(
                    f"{fmt.name!r} has {fmt.width} bits, and steps for every code; exhaustive sweeps go to "
                    f"formats of at most 16 bits"
                )
            if has is not None and fmt not in has:
                continue
            for rounding, saturation in asked:
                how = Projection(
                    rounding=rounding,
                    saturation=saturation,
                    nan="error" if fmt.has_nan else nan,
                )
                if how.rounding.bits:
                    raise ValueError(
                        f"rounding {str(how.rounding)!r} needs a random integer for each operand, so no step "
                        f"function says what it must give; use a deterministic mode"
                    )
                project(Special.NAN, fmt, how)  # refuses a projection that the format does not take
                sweeps.append(Sweep(subject, version_of(subject), fmt, how))
    return sweeps


@dataclass(frozen=True)
class Steps:
    """A projection of all bit patterns of binary32: where each step begins, ascending from 0, and codes."""

    firsts: Array  #: int64
    codes: Array

    def within(self, index: int) -> Steps:
        """Return the steps within a range, counted from its first pattern."""
        first = index * SIZE
        low = int(np.searchsorted(self.firsts, first, "right")) - 1
        high = int(np.searchsorted(self.firsts, first + SIZE, "left"))
        return Steps(np.maximum(self.firsts[low:high] - first, 0), self.codes[low:high])


def steps_of(sweep: Sweep, sources: str | None = None) -> Steps:
    """Return what the oracle says of a sweep; NaNs have a step for each sign."""
    same_code(sources)
    firsts: list[int] = []
    codes: list[int] = []
    signs = zip((0, 1 << 31), (Special.NAN, Special.NEGATIVE_NAN), strict=True)
    for (sign, nan), (begins, given) in zip(signs, binary32_steps(sweep.fmt, sweep.projection), strict=True):
        firsts += [sign | first for first in begins]
        codes += given
        firsts.append(sign | 0x7F800001)
        codes.append(project(nan, sweep.fmt, sweep.projection))
    return Steps(np.array(firsts, np.int64), np.array(codes, code_dtype(sweep.fmt)))


@dataclass(frozen=True)
class Found:
    """Result of a range."""

    index: int
    differences: int
    smallest: tuple[int, int, int] | None  #: bit pattern, code got, code wanted
    sha256: str  #: of the codes, little-endian
    seconds: float  #: that it took


def sweep_range(sweep: Sweep, index: int, steps: Steps, sources: str | None = None) -> Found:
    """Compare all codes of one range with the steps within it.

    Parameters
    ----------
    sweep : Sweep
    index : int
        From 0 to RANGES - 1.
    steps : Steps
        Those within the range.
    sources : str, optional
        Digest of the code that is to be run.

    Raises
    ------
    RuntimeError
        This process runs other code, or another version of the framework.
    """
    same_code(sources)
    if version_of(sweep.subject) != sweep.version:
        raise RuntimeError(
            f"{platform.node()} has {sweep.subject} {version_of(sweep.subject) or '(not installed)'}, not "
            f"{sweep.version}; workers need what the command has"
        )
    started = time.perf_counter()
    cast = _cast(sweep)
    numbers = np.arange(CHUNK, dtype=np.uint32)
    patterns, want = np.empty_like(numbers), np.empty(CHUNK, code_dtype(sweep.fmt))
    digest, differences, smallest = hashlib.sha256(), 0, None
    filled: Any = None
    ends = np.append(steps.firsts, SIZE)
    for begin in range(0, SIZE, CHUNK):
        np.add(numbers, np.uint32(index * SIZE + begin), out=patterns)
        got = cast(patterns.view(np.float32))
        low = int(np.searchsorted(steps.firsts, begin, "right")) - 1
        high = int(np.searchsorted(steps.firsts, begin + CHUNK, "left"))
        if high - low > 1:
            want[:] = np.repeat(
                steps.codes[low:high], np.diff(np.clip(ends[low : high + 1], begin, begin + CHUNK))
            )
            filled = None
        elif filled != steps.codes[low]:
            filled = steps.codes[low]
            want.fill(filled)
        right = want.astype(np.uint32) if got.dtype == np.uint32 else want  # codes of values, or none
        if got.dtype != right.dtype or got.shape != right.shape:
            raise RuntimeError(
                f"{sweep} gave {got.dtype} of shape {got.shape}, not {want.dtype} of {want.shape}"
            )
        if not (got.view(np.uint64) == right.view(np.uint64)).all():
            wrong = np.flatnonzero(got != right)
            differences += wrong.size
            if smallest is None:
                first = wrong[0]
                smallest = (index * SIZE + begin + int(first), int(got[first]), int(want[first]))
        digest.update(got.astype(got.dtype.newbyteorder("<"), copy=False).data)
    return Found(index, differences, smallest, digest.hexdigest(), time.perf_counter() - started)


def same_code(sources: str | None) -> None:
    """Refuse to work for a command of other sources."""
    if sources is not None and sources != SOURCES:
        raise RuntimeError(
            f"{platform.node()} runs other sources of lowprec, or other versions of Python, NumPy, numba or "
            f"ml_dtypes, than the command; install the same everywhere"
        )


def _cast(sweep: Sweep) -> Callable[[Array], Array]:
    """Return the cast under test, of float32 to codes in an array that the next call may use again."""
    if sweep.subject == OURS:
        codes = np.empty(CHUNK, code_dtype(sweep.fmt))
        return functools.partial(encode, fmt=sweep.fmt, projection=sweep.projection, out=codes)
    framework = FRAMEWORKS[sweep.subject]
    return lambda values: _codes(framework.cast(values, sweep.fmt), values, sweep)


def _codes(made: Array, values: Array, sweep: Sweep) -> Array:
    """Return codes; of values their codes, 32 ones where the format lacks them. Any NaN matches any."""
    if made.dtype.kind in "iu":
        return np.ascontiguousarray(made)
    codes = on_grid(words_of(np.ascontiguousarray(made)), made.dtype, sweep.fmt)
    nan = np.isnan(made) & np.isnan(values)
    codes[nan] = encode(values[nan], sweep.fmt, projection=sweep.projection)
    return np.where(codes < 0, _NO_CODE, codes).astype(np.uint32)


@dataclass(frozen=True)
class Swept:
    """Results of one sweep, or of some of its ranges."""

    sweep: Sweep
    found: tuple[Found, ...]  #: in the order of the ranges
    kept: int = 0  #: ranges that an earlier run did

    @property
    def inputs(self) -> int:
        """Bit patterns that were compared."""
        return len(self.found) * SIZE

    @property
    def differences(self) -> int:
        """Patterns whose code differs."""
        return sum(found.differences for found in self.found)

    @property
    def smallest(self) -> Difference | None:
        """The first pattern that differs."""
        first = next((found.smallest for found in self.found if found.smallest), None)
        if first is None:
            return None
        operand, got, want = first
        value = np.array(operand, np.uint32).view(np.float32)
        shown = ("-nan" if operand >> 31 else "nan") if np.isnan(value) else float(value).hex()
        codes = (("got", hex_code(got, self.sweep.fmt)), ("want", hex_code(want, self.sweep.fmt)))
        return Difference((("operand", f"{operand:#010x}"), ("value", shown), *codes))

    @property
    def sha256(self) -> str:
        """SHA-256 of the ranges' digests, one after the other."""
        return hashlib.sha256(b"".join(bytes.fromhex(found.sha256) for found in self.found)).hexdigest()

    @property
    def seconds(self) -> float:
        """Seconds of work on all ranges, whoever did the work and when."""
        return sum(found.seconds for found in self.found)

    def as_json(self) -> dict[str, Any]:
        """Return plain data, in a fixed order."""
        how = self.sweep.projection
        return {
            "subject": self.sweep.subject,
            "version": self.sweep.version,
            "format": self.sweep.fmt.name,
            "rounding": str(how.rounding),
            "saturation": str(how.saturation),
            "nan": None if self.sweep.fmt.has_nan else how.nan,
            "inputs": self.inputs,
            "differences": self.differences,
            "smallest": self.smallest and dict(self.smallest.rows),
            "sha256": self.sha256,
            "seconds": round(self.seconds, 3),
            "ranges": len(self.found),
            "ranges_kept": self.kept,
        }


def report(rows: Iterable[Swept]) -> str:
    """Return the rows as JSON: schema lowprec.exhaustive/1, keys in a fixed order."""
    found = [row.as_json() for row in rows]
    document = {
        "schema": "lowprec.exhaustive/1",
        "lowprec": __version__,
        "inputs": sum(row["inputs"] for row in found),
        "differences": sum(row["differences"] for row in found),
        "rows": found,
    }
    return json.dumps(document, indent=1)


# -- committed digests ------------------------------------------------------------------------------


def entry(row: Swept) -> tuple[str, dict[str, Any]]:
    """Return what tables/digests.json keeps of a sweep of our own kernels: its name there, and its fields."""
    fmt, how = row.sweep.fmt, row.sweep.projection
    name, options = (
        f"{how.rounding}/{how.saturation}",
        f"--rounding {how.rounding} --saturation {how.saturation}",
    )
    if not fmt.has_nan:
        name, options = f"{name}/nan_{how.nan}", f"{options} --nan {how.nan}"
    return name, {
        "inputs": row.inputs,
        "ranges": len(row.found),
        "projection": str(how),
        "command": f"lowprec conform --exhaustive --target {fmt.name} {options}",
        "sha256": row.sha256,
    }


def write_digests(rows: Iterable[Swept], text: str) -> str:
    """Return digests.json with the digests of these rows in it."""
    document = json.loads(text)
    sweeps = document.setdefault("sweeps", {})
    for row in rows:
        name, fields = entry(row)
        sweeps.setdefault(row.sweep.fmt.name, {})[name] = fields
    document["sweeps"] = {fmt: dict(sorted(sweeps[fmt].items())) for fmt in sorted(sweeps)}
    return json.dumps(document, indent=1) + "\n"


def check_digests(rows: Iterable[Swept], text: str) -> Iterator[str]:
    """Yield what digests.json has otherwise than these rows, a line each."""
    committed = json.loads(text).get("sweeps", {})
    for row in rows:
        name, fields = entry(row)
        have = committed.get(row.sweep.fmt.name, {}).get(name)
        if have is None:
            yield f"{row.sweep.fmt.name} {name} is not in digests.json; its digest is {fields['sha256']}"
        elif have != fields:
            wrong = ", ".join(
                f"{key} {have.get(key)!r} must be {fields.get(key)!r}"
                for key in dict.fromkeys([*fields, *have])
                if have.get(key) != fields.get(key)
            )
            yield f"{row.sweep.fmt.name} {name} in digests.json: {wrong}"
