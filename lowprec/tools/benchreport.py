"""What a benchmark found: rows of times, the ratios that they make, and the two as JSON and as tables.

Floor 5.
"""

from __future__ import annotations

import json
import os
import platform
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table

from lowprec import __version__
from lowprec.spec.block import BlockFormat
from lowprec.spec.format import Format
from lowprec.tools.timing import NOISE_LIMIT, Timed, fastest, ratio, spread, verdict

__all__ = ["Job", "Report", "Row", "Target", "load", "machine"]


#: What other topics have instead of "stream".
_YARDSTICKS = {"import": "python", "matmul": "np.matmul"}


@dataclass(frozen=True)
class Job:
    """A row to be measured."""

    topic: str
    variant: str
    fmt: Format | BlockFormat
    size: int  #: elements, or rows of a square matrix
    kind: str  #: of the data
    threads: int

    def __str__(self) -> str:
        if self.topic == "import":
            return f"{self.topic}: {self.variant}"
        shared = f"{self.threads} threads" if self.threads > 1 else ""
        return " ".join(filter(None, (self.topic, self.variant, self.fmt.name, self.kind, f"n={self.size}", shared)))

    @property
    def what(self) -> str:
        """The topic whose work it is: for several threads it is another's."""
        return self.variant if self.topic == "threads" else self.topic

    def as_json(self) -> dict[str, Any]:
        """As plain data, in a fixed order."""
        return {
            "topic": self.topic,
            "variant": self.variant,
            "format": self.fmt.name,
            "size": self.size,
            "data": self.kind,
            "threads": self.threads,
        }


@dataclass(frozen=True)
class Target:
    """How many times as fast as something lowprec should be, in rows of a topic.

    Parameters
    ----------
    topic : str
    against : str
        The name of a contender.
    floor : float
    formats, sizes, variants : tuple, optional
        Only there; by default everywhere.
    kind : str
        Of the data.
    out : bool
        In given memory, or in new memory.
    threads : int
    aim : float, optional
        What is aimed at, above the floor.
    """

    topic: str
    against: str
    floor: float
    formats: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    kind: str = "normal"
    out: bool = True
    variants: tuple[str, ...] = ()
    threads: int = 1
    aim: float | None = None

    def concerns(self, job: Job) -> bool:
        """Whether it is for this row."""
        return (
            (self.topic, self.kind, self.threads) == (job.topic, job.kind, job.threads)
            and (not self.formats or job.fmt.name in self.formats)
            and (not self.sizes or job.size in self.sizes)
            and (not self.variants or job.variant in self.variants)
        )


@dataclass(frozen=True)
class Row:
    """What was measured in one row, and what it says."""

    job: Job
    timed: tuple[Timed, ...]
    targets: tuple[Target, ...] = ()

    @property
    def noise(self) -> float:
        """The spread of the yardstick: it does the same in every round. See `_YARDSTICKS`."""
        return spread(next(one for one in self.timed if one.role == "yardstick").seconds)

    def ours(self, out: bool) -> Timed | None:
        """What lowprec takes, in given memory (`out`) or in new memory."""
        return fastest(self.timed, out=out, role="ours")

    def best_peer(self, out: bool) -> Timed | None:
        """The fastest peer."""
        return fastest(self.timed, out=out, role="peer")

    def to(self, rival: Timed | None, out: bool) -> float | None:
        """How many times as fast as a rival lowprec is, if there are both."""
        ours = self.ours(out)
        return None if ours is None or rival is None else ratio(ours, rival)

    def to_stream(self, out: bool) -> float | None:
        """What part of the yardstick's speed lowprec has."""
        return self.to(fastest(self.timed, out=out, role="yardstick", name=self._yardstick), out)

    @property
    def _yardstick(self) -> str:
        return _YARDSTICKS.get(self.job.topic, "stream")

    @property
    def gflops(self) -> float | None:
        """Of products of matrices, the additions and multiplications in a nanosecond."""
        ours = self.ours(False)
        return None if self.job.topic != "matmul" or ours is None else 2 * self.job.size**3 / ours.median / 1e9

    def judged(self) -> list[tuple[Target, float, str]]:
        """The targets that concern this row, if what they are against took part, with the ratio and its verdict."""
        reached = [
            (target, self.to(fastest(self.timed, out=target.out, name=target.against), target.out))
            for target in self.targets
            if target.concerns(self.job)
        ]
        return [(target, got, verdict(got, target.floor, self.noise)) for target, got in reached if got is not None]

    def as_json(self) -> dict[str, Any]:
        """As plain data, in a fixed order."""
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
                "ratio": reached,
                "verdict": said,
            }
            for target, reached, said in self.judged()
        ]
        speed = {} if self.gflops is None else {"gflops": self.gflops}
        return {
            **self.job.as_json(),
            **speed,
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
    about: Mapping[str, str]  #: what each topic is
    budget: float
    machine: Mapping[str, Any]
    versions: Mapping[str, str]
    missing: Mapping[str, str]  #: peers that were not found, and why
    notes: Sequence[str] = field(default=())

    def as_json(self) -> str:
        """Everything: schema lowprec.bench/1, keys in a fixed order."""
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
        """A table for each topic, and below them what one must know to read them."""
        parts: list[RenderableType] = []
        for topic in dict.fromkeys(row.job.topic for row in self.rows):
            parts += [*_topic(topic, self.about[topic], [row for row in self.rows if row.job.topic == topic]), ""]
        lines = [
            "How many times as fast as another lowprec is, in given memory (out=) and in new memory (new).",
            "peer*: on these data it gives other results. noise: the spread of the yardstick; above "
            f"{NOISE_LIMIT:.0%} a row says nothing.",
        ]
        if any(row.job.topic == "matmul" for row in self.rows):
            lines.append(
                "np.matmul: in float32, in whatever order. Others make a part of the product, and their rate counts. A "
                "floor is followed by its aim."
            )
        if self.missing:
            absent = "not installed"
            lines.append(
                "not found: " + ", ".join(n if why == absent else f"{n} ({why})" for n, why in self.missing.items())
            )
        before, after = (
            " ".join(f"{one:.2f}" for one in self.machine[f"load_{when}"] or ()) for when in ("before", "after")
        )
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        lines += [
            *self.notes,
            f"{self.machine['cpu']}, {self.machine['cores']} cores; load before {before}, after {after}",
            f"Python {self.machine['python']}, {versions}",
        ]
        return Group(*parts, *(escape(part) for line in lines for part in textwrap.wrap(line, 118)))


def _topic(name: str, about: str, rows: Sequence[Row]) -> list[RenderableType]:
    """A title and a table. What is the same in all rows is said in the title."""
    processes, products = name == "import", name == "matmul"
    labels = {"": [row.job.variant for row in rows]}
    if not processes:
        labels |= {
            "format": [row.job.fmt.name for row in rows],
            "data": [row.job.kind for row in rows],
            "n": [_size(row.job.size) for row in rows],
            "threads": [str(row.job.threads) for row in rows],
        }
    same = [f"{title} {values[0]}".strip() for title, values in labels.items() if len(set(values)) == 1 and values[0]]
    labels = {title: values for title, values in labels.items() if len(set(values)) > 1}

    timed = processes or name == "small"
    speed = "time" if timed else "Gel/s"
    if products:
        titles = ["Gflop/s", "np.matmul", "others", "noise"]
    elif processes:
        titles = [speed, "best peer", "bare python", "noise"]
    else:
        titles = [
            f"out=\n{speed}" if all(row.ours(True) for row in rows) else speed,
            "out=\nbest peer",
            "out=\nstream",
            "new\nbest peer",
            "new\nstream",
            "noise",
        ]
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for title in (*labels, *titles):
        right = title in ("n", "threads", "noise") or title.endswith((speed, "Gflop/s"))
        grid.add_column(title, justify="right" if right else "left", no_wrap=True)
    if any(row.judged() for row in rows):
        grid.add_column("target", no_wrap=True)
    for place, row in enumerate(rows):
        cells = [values[place] for values in labels.values()]
        if products:
            cells += [_ratio(row.gflops), _ratio(row.to_stream(False)), _others(row)]
        ours = None if processes else row.ours(True)
        if not products and (ours := ours or row.ours(False)) is not None:
            cells.append(_time(ours.median) if timed else f"{row.job.size / ours.median / 1e9:.2f}")
        for out in () if products else (False,) if processes else (True, False):
            peer = row.best_peer(out)
            reached = row.to(peer, out)
            mark = f" {peer.name}{'*' if peer.differ else ''}" if peer and reached is not None else ""
            cells += [_ratio(reached) + mark, _ratio(row.to_stream(out))]
        cells += [f"{row.noise:.1%}", "\n".join(_judgement(*one) for one in row.judged())]
        grid.add_row(*cells[: len(grid.columns)])
    return [f"[bold]{name}[/bold]  {about}{'; ' if same else ''}{', '.join(same)}", "", grid]


def _judgement(target: Target, reached: float, said: str) -> str:
    style = {"ok": "green", "short": "red"}.get(said, "yellow")
    where = "" if target.out or target.topic == "matmul" else ", new"
    aim = "" if target.aim is None else f" ({target.aim:g})"
    return f"[{style}]{said}[/{style}] {_ratio(reached)} of {target.floor:g}{aim} {target.against}{where}"


def _others(row: Row) -> str:
    """How many times as fast as each of those that make a part of a product lowprec is."""
    others = [one for one in row.timed if one.role in ("peer", "own")]
    return "\n".join(f"{_ratio(row.to(one, False))} {one.name}{'*' if one.differ else ''}" for one in others)


def _ratio(value: float | None) -> str:
    """Three digits.

    >>> _ratio(0.7249), _ratio(23.456), _ratio(123.4), _ratio(None)
    ('0.72', '23.5', '123', '-')
    """
    if value is None:
        return "-"
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"


def _time(seconds: float) -> str:
    """With a unit.

    >>> _time(2.34e-6), _time(0.0123), _time(3.4)
    ('2.3 us', '12.3 ms', '3.4 s')
    """
    scale, unit = (1e6, "us") if seconds < 1e-3 else (1e3, "ms") if seconds < 1 else (1.0, "s")
    return f"{seconds * scale:.1f} {unit}"


def _size(count: int) -> str:
    """A number of elements.

    >>> _size(65536), _size(1 << 24), _size(1000)
    ('64 Ki', '16 Mi', '1,000')
    """
    for power, unit in ((20, "Mi"), (10, "Ki")):
        if count and count % (1 << power) == 0:
            return f"{count >> power} {unit}"
    return f"{count:,}"


def load() -> tuple[float, float, float] | None:
    """The load average of the last 1, 5 and 15 minutes, where the system has one."""
    return os.getloadavg() if hasattr(os, "getloadavg") else None


def machine(before: tuple[float, float, float] | None) -> dict[str, Any]:
    """What it ran on, and how busy that was before and is now."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "cpu": _processor(Path("/proc/cpuinfo")),
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "usable_cores": usable,
        "system": platform.system(),
        "python": platform.python_version(),
        "load_before": before,
        "load_after": load(),
    }


def _processor(known: Path) -> str:
    lines: Iterable[str] = known.read_text(errors="replace").splitlines() if known.is_file() else ()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())
