"""Measure rows: all that take part in one run in turn, after lowprec's results have been found right.

What comes of it is ratios of medians, never times.
"""

from __future__ import annotations

import itertools
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track

from benchmarks import peers, startup
from benchmarks.blocks import block_contest
from benchmarks.comparisons import comparison_contest
from benchmarks.contest import Contest
from benchmarks.conversions import conversion
from benchmarks.data import KINDS, has_data
from benchmarks.operations import has_operation, operation_contest
from benchmarks.products import has_product, product_contest
from benchmarks.report import Report, Row, load, machine
from benchmarks.timing import Contender, interleave
from benchmarks.topics import LARGEST, TOPICS, Job
from lowprec.arrays.threads import get_threads, set_threads
from lowprec.kernels.compiling import at_once
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat
from lowprec.spec.format import Format

__all__ = ["plan", "run"]


def plan(
    topics: Sequence[str] = (),
    *,
    formats: Sequence[Format | BlockFormat] = (),
    sizes: Sequence[int] = (),
    kinds: Sequence[str] = (),
    threads: int = 1,
) -> list[Job]:
    """Return the rows of topics, by default of all, with a topic's defaults for what is left out.

    Block formats are for `block`, all others for the other topics. Data that a format has none of, such
    as NaNs, make no row, and for `arith`, `compare` and `matmul` neither do codes that have no dtype. Of
    processes nothing can be asked for, and of sizes only small ones are for `small` and, as rows of
    matrices, `matmul`.

    >>> [str(job) for job in plan(["decode"], formats=[catalog.E5M2], sizes=[8, 9])]
    ['decode e5m2 normal n=8', 'decode e5m2 normal n=9']

    Raises
    ------
    ValueError
        An unknown topic or kind of data, or nothing to do.
    """
    for asked, known, what in ((topics, TOPICS, "topic"), (kinds, KINDS, "kind of data")):
        for name in asked:
            if name not in known:
                raise ValueError(f"unknown {what} {name!r}; use one of {', '.join(known)}")
    jobs = []
    for name in dict.fromkeys(topics or TOPICS):
        topic, counts = TOPICS[name], [threads]
        blocks = name == "block"
        coerce: Callable[[str], Format | BlockFormat] = catalog.block_format if blocks else catalog.format
        usual = [coerce(fmt) for fmt in topic.formats]
        if name == "import":
            rows = itertools.product(topic.variants, usual, topic.sizes, topic.kinds, [1])
        else:
            wanted = [fmt for fmt in formats if isinstance(fmt, BlockFormat) == blocks]
            if formats and not wanted:
                continue
            if name == "threads" and threads == 1:
                counts = sorted({min(2, get_threads()), get_threads()} - {1})
            most = {"small": max(topic.sizes), "matmul": LARGEST}.get(name)
            fitting = [size for size in sizes if most is None or size <= most] or topic.sizes
            rows = itertools.product(topic.variants, wanted or usual, fitting, kinds or topic.kinds, counts)
        jobs += [Job(name, *row) for row in rows if _has_row(name, *row[:2], row[3])]
    if not jobs:
        raise ValueError(
            "there is nothing to time: the formats have no such data, or there is one processor only"
        )
    return jobs


def _has_row(topic: str, variant: str, fmt: Format | BlockFormat, kind: str) -> bool:
    if topic == "matmul":
        return has_product(fmt, variant, kind)
    codes = f"{variant} codes" if topic == "compare" else variant
    return has_data(fmt, kind) and (topic not in ("arith", "compare") or has_operation(fmt, codes))


@at_once()
def run(jobs: Sequence[Job], *, budget: float = 1.0) -> Report:
    """Measure rows, one after the other, with a progress bar on a terminal.

    `budget` is the seconds for each row, about: all take part in some rounds at least.

    Raises
    ------
    WrongResult
        lowprec gives a wrong result. Nothing more is timed.
    """
    before, threads, first = load(), get_threads(), jobs[0].threads
    found, missing = peers.find(first)
    notes: dict[str, None] = {}
    rows = []
    console = Console(stderr=True)
    with warnings.catch_warnings(), np.errstate(all="ignore"), peers.blas().limit(limits=first):
        warnings.simplefilter("ignore")
        try:
            for job in track(
                jobs, "benchmarks", console=console, transient=True, disable=not console.is_terminal
            ):
                if job.topic == "import":
                    rows.append(_processes(job, list(found), budget))
                    continue
                able = [peer for peer in found.values() if peer.name != "jax" or job.threads == first]
                if len(able) < len(found):
                    notes[
                        "jax started with another number of threads: it takes no part where that differs"
                    ] = None
                rows.append(_row(job, able, budget, notes))
        finally:
            set_threads(threads)
    if any(job.topic == "matmul" for job in jobs) and not peers.blas().lib_controllers:
        notes[
            "np.matmul has as many threads as its library likes, which could not be told how many to use"
        ] = None
    versions = {peer.name: peer.version or "" for peer in found.values()}
    return Report(tuple(rows), budget, machine(before), versions, missing, tuple(notes))


_CONTESTS: dict[str, Callable[[Job], Contest]] = {
    "block": block_contest,
    "arith": operation_contest,
    "matmul": product_contest,
    "compare": comparison_contest,
}


def _row(job: Job, able: Sequence[peers.Peer], budget: float, notes: dict[str, None]) -> Row:
    def refused(contender: Contender, error: Exception) -> None:
        notes[f"{contender.name} takes no part in {job}: {peers.said(error)}"] = None

    contest = _CONTESTS.get(job.topic, conversion)(job)
    kept, differ = contest.checked(list(contest.contenders(able)), refused)
    return Row(job, tuple(interleave(kept, budget, differ=differ, switch=peers.switch)))


def _processes(job: Job, names: Sequence[str], budget: float) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        contenders = list(startup.contenders(job.variant, names, Path(folder)))
        return Row(job, tuple(interleave(contenders, budget, least=startup.VARIANTS[job.variant])))
