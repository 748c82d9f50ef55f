"""The results of a run: rows of times, the ratios that they make, and the two as JSON and as tables."""

from __future__ import annotations

import json
import os
import platform
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table

from benchmarks.timing import NOISE_LIMIT, Timed, fastest, spread
from benchmarks.topics import TARGETS, TOPICS, Job, Target
from lowprec import __version__

__all__ = ["Report", "Row", "load", "machine", "processor"]

#: What other topics have instead of "stream".
_YARDSTICKS = {"import": "python", "matmul": "np.matmul"}


@dataclass(frozen=True)
class Row:
    """What was measured in one row, and what it says."""

    job: Job
    timed: tuple[Timed, ...]
    targets: tuple[Target, ...] = TARGETS

    @property
    def noise(self) -> float:
        """The spread of the yardstick, which does the same in every round."""
        return spread(next(one for one in self.timed if one.role == "yardstick").seconds)

    def ours(self, out: bool) -> Timed | None:
        """Return lowprec's times, into memory of the caller (`out`) or into new memory."""
        return fastest(self.timed, out=out, role="ours")

    def best_peer(self, out: bool) -> Timed | None:
        """Return the fastest peer."""
        return fastest(self.timed, out=out, role="peer")

    def to(self, rival: Timed | None, out: bool) -> float | None:
        """Return how many times as fast as a rival lowprec is, by their medians, if there are both."""
        ours = self.ours(out)
        return None if ours is None or rival is None else rival.median / ours.median

    def to_stream(self, out: bool) -> float | None:
        """Return what part of the yardstick's speed lowprec has."""
        yardstick = _YARDSTICKS.get(self.job.topic, "stream")
        return self.to(fastest(self.timed, out=out, role="yardstick", name=yardstick), out)

    @property
    def gflops(self) -> float | None:
        """Additions and multiplications in a nanosecond, of products of matrices."""
        ours = self.ours(False)
        return (
            None if self.job.topic != "matmul" or ours is None else 2 * self.job.size**3 / ours.median / 1e9
        )

    def judged(self) -> list[tuple[Target, float, str]]:
        """Return each target whose rival took part, its ratio, and "ok", "short" or "too noisy"."""
        reached = [
            (target, self.to(fastest(self.timed, out=target.out, name=target.against), target.out))
            for target in self.targets
            if target.concerns(self.job)
        ]
        noisy = "too noisy" if self.noise > NOISE_LIMIT else None
        return [
            (target, ratio, noisy or ("ok" if ratio >= target.floor else "short"))
            for target, ratio in reached
            if ratio is not None
        ]

    def as_json(self) -> dict[str, Any]:
        """Return plain data, in a fixed order."""
        headline = {}
        for name, out in (("out", True), ("alloc", False)):
            ours, peer = self.ours(out), self.best_peer(out)
            headline[name] = {
                "median_s": ours and ours.median,
                "best_peer": peer and peer.name,
                "to_best_peer": self.to(peer, out),
                "to_stream": self.to_stream(out),
            }
        targets = [
            {
                "against": target.against,
                "memory": "out" if target.out else "alloc",
                "floor": target.floor,
                "aim": target.aim,
                "ratio": ratio,
                "verdict": verdict,
            }
            for target, ratio, verdict in self.judged()
        ]
        return {
            **self.job.as_json(),
            **({} if self.gflops is None else {"gflops": self.gflops}),
            "noise": self.noise,
            "too_noisy": self.noise > NOISE_LIMIT,
            **headline,
            "targets": targets,
            "contenders": [one.as_json() for one in self.timed],
        }


@dataclass(frozen=True)
class Report:
    """All rows of a run, and where and beside whom it was made."""

    rows: tuple[Row, ...]
    budget: float
    machine: Mapping[str, Any]
    versions: Mapping[str, str]
    missing: Mapping[str, str]  #: peers that were not found, and why
    notes: Sequence[str] = ()

    def as_json(self) -> str:
        """Return everything: schema lowprec.bench/1, keys in a fixed order."""
        return json.dumps(
            {
                "schema": "lowprec.bench/1",
                "lowprec": __version__,
                "machine": dict(self.machine),
                "versions": dict(self.versions),
                "not_found": dict(self.missing),
                "notes": list(self.notes),
                "budget_s": self.budget,
                "noise_limit": NOISE_LIMIT,
                "rows": [row.as_json() for row in self.rows],
            },
            indent=1,
        )

    def table(self) -> RenderableType:
        """Return a table for each topic, and below them what one must know to read them."""
        parts: list[RenderableType] = []
        for topic in dict.fromkeys(row.job.topic for row in self.rows):
            parts += [*_table(topic, [row for row in self.rows if row.job.topic == topic]), ""]
        lines = [
            "Ratios say how many times as fast as another lowprec is, in given memory (out=) and in new "
            "memory (new).",
            "peer*: on these data it gives other results. noise: the spread of the yardstick; above "
            f"{NOISE_LIMIT:.0%} a row says nothing.",
        ]
        if any(row.job.topic == "matmul" for row in self.rows):
            lines.append(
                "np.matmul: in float32, in whatever order. Others make a part of the product, and their rate "
                "counts. A floor is followed by its aim."
            )
        if self.missing:
            absent = (
                name if why == "not installed" else f"{name} ({why})" for name, why in self.missing.items()
            )
            lines.append("not found: " + ", ".join(absent))
        before, after = (
            " ".join(f"{one:.2f}" for one in self.machine[f"load_{when}"] or ())
            for when in ("before", "after")
        )
        lines += [
            *self.notes,
            f"{self.machine['cpu']}, {self.machine['cores']} cores; load before {before}, after {after}",
            ", ".join(
                f"{name} {version}"
                for name, version in {"Python": self.machine["python"], **self.versions}.items()
            ),
        ]
        return Group(*parts, *(escape(part) for line in lines for part in textwrap.wrap(line, 118)))


def _table(topic: str, rows: Sequence[Row]) -> list[RenderableType]:
    """Return a title and a table. What is the same in all rows is said in the title."""
    labels = {"": [row.job.variant for row in rows]}
    if topic != "import":
        labels |= {
            "format": [row.job.fmt.name for row in rows],
            "data": [row.job.kind for row in rows],
            "n": [_size(row.job.size) for row in rows],
            "threads": [str(row.job.threads) for row in rows],
        }
    same = [
        f"{name} {words[0]}".strip() for name, words in labels.items() if len(set(words)) == 1 and words[0]
    ]
    labels = {name: words for name, words in labels.items() if len(set(words)) > 1}
    columns = [_columns(row, all(other.ours(True) for other in rows)) for row in rows]
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for title in (*labels, *columns[0]):
        right = title in ("n", "threads", "noise") or title.endswith(("time", "Gel/s", "Gflop/s"))
        if title != "target" or any(cells["target"] for cells in columns):
            grid.add_column(title, justify="right" if right else "left", no_wrap=True)
    for place, cells in enumerate(columns):
        texts = [words[place] for words in labels.values()] + list(cells.values())
        grid.add_row(*texts[: len(grid.columns)])
    return [f"[bold]{topic}[/bold]  {TOPICS[topic].about}{'; ' if same else ''}{', '.join(same)}", "", grid]


def _columns(row: Row, in_given: bool) -> dict[str, str]:
    """Return the cells of a row by their titles."""
    topic = row.job.topic
    ends = {"noise": f"{row.noise:.1%}", "target": "\n".join(_judgement(*one) for one in row.judged())}
    if topic == "matmul":
        others = [one for one in row.timed if one.role in ("peer", "own")]
        slow = (f"{_ratio(row.to(one, False))} {one.name}{'*' if one.differ else ''}" for one in others)
        return {
            "Gflop/s": _ratio(row.gflops),
            "np.matmul": _ratio(row.to_stream(False)),
            "others": "\n".join(slow),
        } | ends

    def peer(out: bool) -> str:
        best = row.best_peer(out)
        reached = row.to(best, out)
        mark = f" {best.name}{'*' if best.differ else ''}" if best is not None and reached is not None else ""
        return _ratio(reached) + mark

    ours = row.ours(topic != "import") or row.ours(False)
    assert ours is not None
    if topic == "import":
        return {
            "time": _time(ours.median),
            "best peer": peer(False),
            "bare python": _ratio(row.to_stream(False)),
        } | ends
    timed = topic == "small"
    speed = f"{'out=' + chr(10) if in_given else ''}{'time' if timed else 'Gel/s'}"
    return {
        speed: _time(ours.median) if timed else f"{row.job.size / ours.median / 1e9:.2f}",
        "out=\nbest peer": peer(True),
        "out=\nstream": _ratio(row.to_stream(True)),
        "new\nbest peer": peer(False),
        "new\nstream": _ratio(row.to_stream(False)),
    } | ends


def _judgement(target: Target, reached: float, verdict: str) -> str:
    style = {"ok": "green", "short": "red"}.get(verdict, "yellow")
    where = "" if target.out or target.topic == "matmul" else ", new"
    aim = "" if target.aim is None else f" ({target.aim:g})"
    return f"[{style}]{verdict}[/{style}] {_ratio(reached)} of {target.floor:g}{aim} {target.against}{where}"


def _ratio(value: float | None) -> str:
    """Write three digits.

    >>> _ratio(0.7249), _ratio(23.456), _ratio(123.4), _ratio(None)
    ('0.72', '23.5', '123', '-')
    """
    if value is None:
        return "-"
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"


def _time(seconds: float) -> str:
    """Write a time with a unit.

    >>> _time(2.34e-6), _time(0.0123), _time(3.4)
    ('2.3 us', '12.3 ms', '3.4 s')
    """
    scale, unit = (1e6, "us") if seconds < 1e-3 else (1e3, "ms") if seconds < 1 else (1.0, "s")
    return f"{seconds * scale:.1f} {unit}"


def _size(count: int) -> str:
    """Write a number of elements.

    >>> _size(65536), _size(1 << 24), _size(1000)
    ('64 Ki', '16 Mi', '1,000')
    """
    for power, unit in ((20, "Mi"), (10, "Ki")):
        if count and count % (1 << power) == 0:
            return f"{count >> power} {unit}"
    return f"{count:,}"


def load() -> tuple[float, float, float] | None:
    """Return the load average of the last 1, 5 and 15 minutes, where the system has one."""
    return os.getloadavg() if hasattr(os, "getloadavg") else None


def processor() -> str:
    """Return the name of the processor."""
    known = Path("/proc/cpuinfo")
    lines = known.read_text(errors="replace").splitlines() if known.is_file() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def machine(before: tuple[float, float, float] | None) -> dict[str, Any]:
    """Return what the benchmarks ran on, and its load before and now."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "cpu": processor(),
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "usable_cores": usable,
        "system": platform.system(),
        "python": platform.python_version(),
        "load_before": before,
        "load_after": load(),
    }
