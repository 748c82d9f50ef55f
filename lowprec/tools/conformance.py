"""Conformance: the casts of frameworks held against the golden reference, code by code.

Every difference is put into one kind, each a hypothesis about what the framework did that is
tested on the very input. Divergences that are known and explained are a reviewed file,
tables/divergences.toml; anything beyond it fails the run.

Floor 5.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Group, RenderableType
from rich.table import Table

from lowprec import __version__
from lowprec.arrays.convert import encode
from lowprec.spec import catalog
from lowprec.spec.format import Format, Sign
from lowprec.tools import cases
from lowprec.tools.frameworks import Framework

__all__ = ["KINDS", "Divergence", "Finding", "Row", "compare_casts", "known_divergences", "report", "run", "table"]

Array = npt.NDArray[Any]

#: The kinds of difference, in the order in which they are tried, and what each means.
KINDS = {
    "NaN": "the operand is NaN: another code, or another sign",
    "zero": "the operand is a zero: another sign, or what stands for zero in a format without it",
    "negative": "the operand is negative and the format unsigned",
    "double rounding": "the framework gives what it gives for the operand rounded to binary32 first, "
    "and that rounding reaches or crosses a tie",
    "tie": "the operand lies half-way between two values: the framework took the other one",
    "subnormal operand": "the operand is a subnormal of its own type or of binary32",
    "overflow": "the operand lies beyond the largest finite value, or is infinite",
    "subnormal result": "the operand lies among the format's subnormals",
    "direction": "the operand lies between two values: the framework took the one farther away",
    "other": "none of these",
}


@dataclass(frozen=True)
class Finding:
    """The differences of one kind in one row, with the smallest input that shows it."""

    kind: str
    count: int
    operand: str  #: bits in hexadecimal
    value: str
    got: str
    want: str
    known: str | None = None  #: why, from the reviewed file

    def as_json(self) -> dict[str, Any]:
        """As plain data, in a fixed order."""
        return {
            "kind": self.kind,
            "count": self.count,
            "smallest": {"operand": self.operand, "value": self.value, "got": self.got, "want": self.want},
            "known": self.known,
        }


@dataclass(frozen=True)
class Row:
    """One framework, source type and target format."""

    framework: str
    version: str
    source: str
    target: str
    tried: int
    findings: tuple[Finding, ...] = ()

    @property
    def mismatches(self) -> int:
        """Inputs whose code differs."""
        return sum(finding.count for finding in self.findings)

    @property
    def unexplained(self) -> int:
        """Inputs whose code differs in a way that the reviewed file does not list."""
        return sum(finding.count for finding in self.findings if finding.known is None)

    def as_json(self) -> dict[str, Any]:
        """As plain data, in a fixed order."""
        return {
            "framework": self.framework,
            "version": self.version,
            "source": self.source,
            "target": self.target,
            "tried": self.tried,
            "mismatches": self.mismatches,
            "unexplained": self.unexplained,
            "findings": [finding.as_json() for finding in self.findings],
        }


@dataclass(frozen=True)
class Divergence:
    """A known difference: where it is seen, of what kind, why, and the smallest input that shows it."""

    framework: str
    versions: tuple[str, ...]  #: prefixes, such as "0.6"
    sources: tuple[str, ...]
    targets: tuple[str, ...]
    kind: str
    why: str
    smallest: dict[str, str] = field(hash=False)

    def covers(self, row: Row, kind: str) -> bool:
        """Whether a finding of this kind in this row is this divergence."""
        return (
            row.framework == self.framework
            and kind == self.kind
            and row.source in self.sources
            and row.target in self.targets
            and any(f"{row.version}.".startswith(f"{prefix}.") for prefix in self.versions)
        )


def known_divergences(path: Path | None = None) -> tuple[Divergence, ...]:
    """The reviewed file of divergences, read and checked.

    Raises
    ------
    ValueError
        An entry that lacks a field or has one too many, or names an unknown kind.
    """
    if path is None:
        packed = resources.files("lowprec") / "tables" / "divergences.toml"
        beside = Path(__file__).parents[2] / "tables" / "divergences.toml"
        text = packed.read_text() if packed.is_file() else beside.read_text()
    else:
        text = path.read_text()
    entries = []
    for number, entry in enumerate(tomllib.loads(text).get("divergence", []), 1):
        wanted = set(Divergence.__dataclass_fields__)
        if set(entry) != wanted or set(entry["smallest"]) != {"source", "target", "operand", "got", "want"}:
            wrong = sorted(set(entry) ^ wanted) or sorted(entry["smallest"])
            raise ValueError(f"divergence {number} has missing or unknown fields: {', '.join(wrong)}")
        if entry["kind"] not in KINDS or entry["kind"] == "other":
            raise ValueError(f"divergence {number} has kind {entry['kind']!r}, which explains nothing")
        lists: dict[str, Any] = {name: tuple(entry[name]) for name in ("versions", "sources", "targets")}
        entries.append(Divergence(**{**entry, **lists}))
    return tuple(entries)


def run(
    frameworks: Iterable[Framework],
    *,
    sources: Iterable[str] | None = None,
    targets: Iterable[Format] | None = None,
    values: Array | None = None,
    samples: int = 1 << 20,
    seed: int = 0,
    known: Iterable[Divergence] = (),
    watch: Callable[[int, int, str], None] | None = None,
) -> Iterator[Row]:
    """Compare every cast of the frameworks with the reference, one row after the other.

    Parameters
    ----------
    frameworks : iterable of Framework
    sources, targets : optional
        Only these; by default all that a framework has.
    values : array, optional
        Own data, instead of the cases: its type is the only source then.
    samples, seed : int
        Random float32 and float64 bit patterns beside the cases.
    known : iterable of Divergence
    watch : function, optional
        Called with the rows done, the rows in all, and the row under way.
    """
    wanted = None if targets is None else set(targets)
    chosen = None if sources is None else set(sources)
    if values is not None:
        name = values.dtype.name
        chosen = {name} if chosen is None else chosen & {name}
    jobs = [
        (framework, source, target)
        for framework in frameworks
        for target in framework.targets()
        if wanted is None or target in wanted
        for source in framework.sources
        if (chosen is None or source in chosen) and catalog.carrier(source) != target
    ]
    known = tuple(known)
    for done, (framework, source, target) in enumerate(jobs):
        if watch is not None:
            watch(done, len(jobs), f"{framework.name} {source} to {target}")
        data = values if values is not None else _operands(target, source, samples, seed)
        yield compare_casts(framework, source, target, data, known)


def _operands(target: Format, source: str, samples: int, seed: int) -> Array:
    chosen = cases.inputs(target, source)
    if source in ("float32", "float64"):
        return np.concatenate([chosen, cases.sample(source, samples, seed)])
    return chosen


def compare_casts(
    framework: Framework, source: str, target: Format, values: Array, known: Iterable[Divergence] = ()
) -> Row:
    """Compare one cast of a framework with the reference, on given values of the source type."""
    values = np.asarray(values).reshape(-1)
    if target.nan_code is None and values.dtype.kind not in "iu":
        values = values[~np.isnan(_numbers(values))]  # the reference refuses them
    want = encode(values, target)
    got = framework.cast(values, target)
    row = Row(framework.name, framework.version or "", source, target.name, values.size)
    different = np.flatnonzero(got != want)
    kinds = _kinds(framework, values[different], got[different], want[different], target)
    findings = []
    for number, kind in enumerate(KINDS):
        here = different[kinds == number]
        if here.size:
            smallest = here[np.argmin(np.abs(_numbers(values[here])))]
            why = next((entry.why for entry in known if entry.covers(row, kind)), None)
            findings.append(_finding(kind, here.size, values[smallest], got[smallest], want[smallest], target, why))
    return Row(row.framework, row.version, source, target.name, values.size, tuple(findings))


def _kinds(framework: Framework, values: Array, got: Array, want: Array, target: Format) -> Array:
    """The kind of each difference, as indices into `KINDS`."""
    numbers = _numbers(values)  # of large integers only the size matters here
    nan = np.isnan(numbers)
    some = np.where(nan, np.zeros(1, values.dtype), values)
    tests = {
        "NaN": nan,
        "zero": numbers == 0,
        "negative": (numbers < 0) & (target.sign is Sign.UNSIGNED),
        "double rounding": _rounded_twice(framework, some, got, want, target),
        "subnormal operand": (np.abs(numbers) < 2.0**-126) | (np.abs(numbers) < _min_normal(values.dtype)),
        "tie": _is_tie(some, target),
        "overflow": np.abs(numbers) > target.max_finite,
        "subnormal result": np.abs(numbers) < (target.min_normal or 0),
        "direction": _is_neighbour(some, got, target),
        "other": np.ones(values.size, bool),
    }
    first: Array = np.argmax([tests[kind] for kind in KINDS], axis=0)
    return first


def _rounded_twice(framework: Framework, values: Array, got: Array, want: Array, target: Format) -> Array:
    """Where a framework gives what it gives for the operand rounded to binary32 first, and that does harm."""
    if "float32" not in framework.sources:
        return np.zeros(values.size, bool)
    narrow = encode(values, "binary32").view(np.float32)
    down, up = (encode(values, "binary32", rounding=mode) for mode in ("toward_zero", "away_from_zero"))
    harmed = (encode(narrow, target) != want) | _is_tie(narrow, target)
    return np.asarray((down != up) & harmed & (framework.cast(narrow, target) == got))


def _is_tie(values: Array, target: Format) -> Array:
    """Only at a tie do the nearest modes differ."""
    away, toward = (encode(values, target, rounding=mode) for mode in ("nearest_away", "nearest_zero"))
    return np.asarray(away != toward)


def _is_neighbour(values: Array, got: Array, target: Format) -> Array:
    """Where a code is one of the two that the operand lies between."""
    near = (encode(values, target, rounding=mode) for mode in ("toward_zero", "away_from_zero"))
    return np.asarray(np.any([got == codes for codes in near], axis=0))


def _numbers(values: Array) -> npt.NDArray[np.float64]:
    with np.errstate(invalid="ignore"):
        return values.astype(np.float64)


def _min_normal(dtype: np.dtype[Any]) -> float:
    """The smallest normal of a float type, 0 for integers."""
    carrier = catalog.carrier(dtype)
    return (carrier and carrier.min_normal) or 0.0


def _finding(kind: str, count: int, value: Any, got: Any, want: Any, target: Format, known: str | None) -> Finding:
    if value.dtype.kind in "iu":
        operand = shown = str(int(value))
    else:
        operand = f"{int(value.view(f'u{value.dtype.itemsize}')):#0{2 + 2 * value.dtype.itemsize}x}"
        shown = operand if np.isnan(_numbers(value)) else float(value).hex()
    digits = 2 - (-target.width // 4)
    return Finding(kind, int(count), operand, shown, f"{int(got):#0{digits}x}", f"{int(want):#0{digits}x}", known)


def report(rows: Iterable[Row]) -> str:
    """The rows as JSON: schema lowprec.conform/1, keys in a fixed order."""
    found = [row.as_json() for row in rows]
    return json.dumps(
        {
            "schema": "lowprec.conform/1",
            "lowprec": __version__,
            "tried": sum(row["tried"] for row in found),
            "mismatches": sum(row["mismatches"] for row in found),
            "unexplained": sum(row["unexplained"] for row in found),
            "rows": found,
        },
        indent=1,
    )


def table(rows: Iterable[Row]) -> RenderableType:
    """The rows as a table to read, with a line that sums them up."""
    rows = list(rows)
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("framework", "source", "target"):
        grid.add_column(name, no_wrap=True)
    for name in ("tried", "differ"):
        grid.add_column(name, justify="right", no_wrap=True)
    grid.add_column("of what kind (* known): count, smallest operand, got, want", overflow="fold")
    for row in rows:
        found = [
            f"{finding.kind}{'*' if finding.known else ''} {finding.count:,}: "
            f"{finding.value} [{finding.got}, want {finding.want}]".replace("[", r"\[")
            for finding in row.findings
        ]
        style = "red" if row.unexplained else None
        grid.add_row(
            f"{row.framework} {row.version}",
            row.source,
            row.target,
            f"{row.tried:,}",
            f"{row.mismatches:,}" if row.mismatches else "-",
            "\n".join(found),
            style=style,
        )
    reasons = dict.fromkeys(finding.known for row in rows for finding in row.findings if finding.known)
    tried, differ = sum(row.tried for row in rows), sum(row.mismatches for row in rows)
    beyond = sum(row.unexplained for row in rows)
    summary = (
        f"{len(rows)} casts, {tried:,} inputs: {differ:,} differ from the reference, "
        f"{beyond:,} of them beyond the known divergences"
    )
    return Group(grid, "", *(f"* {reason}" for reason in reasons), "", summary)
