"""Benchmarks: conversions, operations and products beside the best installed peer and a yardstick.

A row is one conversion of one array, one operation, or one product of matrices. All that take part in it
run in turn, in one process and on the same data, after lowprec's results have been found right. What
comes of it is ratios of medians, never times; what they should reach is in `TARGETS`. docs/bench.md says
how to read them.

Floor 5.
"""

from __future__ import annotations

import itertools
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lowprec.arrays.threads import get_threads, set_threads
from lowprec.spec import catalog
from lowprec.spec.block import BlockFormat
from lowprec.spec.format import Format
from lowprec.spec.rounding import MODES
from lowprec.tools import blas, dotcontests, peers, startup
from lowprec.tools.arithcontests import VARIANTS, ArithContest, arith_contest, has_work
from lowprec.tools.benchreport import Job, Report, Row, Target, load, machine
from lowprec.tools.blockcontests import BlockContest, block_contest
from lowprec.tools.contests import KINDS, Contest, contest, has_data
from lowprec.tools.dotcontests import DotContest, dot_contest
from lowprec.tools.timing import Contender, interleave

__all__ = ["TARGETS", "TOPICS", "Topic", "plan", "run", "seconds"]

_KI, _MI = 1 << 10, 1 << 20


@dataclass(frozen=True)
class Topic:
    """Rows that answer one question, and what they are about unless something else is asked for."""

    about: str
    formats: tuple[str, ...] = ("e4m3fn", "bfloat16")
    sizes: tuple[int, ...] = (64 * _KI, 16 * _MI)
    kinds: tuple[str, ...] = ("normal",)
    variants: tuple[str, ...] = ("",)


#: Every topic, by name.
TOPICS = {
    "cast": Topic(
        "float32 to codes, nearest_even",
        ("e4m3fn", "e5m2", "e2m1fn", "e3m2fn", "e4m3fnuz", "bfloat16", "binary16"),
        kinds=("normal", "hard"),
    ),
    "decode": Topic("codes to float32", ("e4m3fn", "e5m2", "bfloat16", "binary16")),
    "quantize": Topic("float32 to values of the format in float32", ("e4m3fn", "e2m1fn", "bfloat16")),
    "modes": Topic("float32 to codes, the other rounding modes", variants=tuple(mode.name for mode in MODES[1:])),
    "stochastic": Topic("float32 to codes, stochastic(32)", variants=("rng", "random")),
    "f64": Topic("float64 to codes, nearest_even", ("e4m3fn", "bfloat16", "binary16")),
    "small": Topic("float32 to codes, nearest_even: what a call costs", ("e4m3fn",), (1, 10, 100, 1000)),
    "block": Topic(
        "float32 to blocks that share scales, and back",
        ("mxfp8_e4m3", "mxfp4", "nvfp4"),
        (16 * _MI,),
        variants=("encode", "axis 0", "decode"),
    ),
    "arith": Topic(
        "operations, nearest_even: of float32 to values of the format in float32, and of codes to codes",
        ("e4m3fn", "e5m2"),
        variants=VARIANTS,
    ),
    "matmul": Topic(
        "products of square matrices, in codes and in float32",
        ("e4m3fn",),
        (dotcontests.SMALL, 384, 768),
        variants=dotcontests.VARIANTS,
    ),
    "threads": Topic(
        "several threads beside one", ("e4m3fn",), (16 * _MI,), variants=("cast", "decode", "quantize", "stochastic")
    ),
    "import": Topic("processes, from start to end", ("e4m3fn",), (0,), variants=tuple(startup.VARIANTS)),
}

_FP8 = ("e4m3fn", "e5m2", "float8_e4m3", "e3m4", "e4m3fnuz", "e5m2fnuz", "e4m3b11fnuz")
_NARROW = (*_FP8, "e2m3fn", "e3m2fn", "e2m1fn")
_MX = ("mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp4")

#: The ratios that the project sets itself; "own ..." is lowprec doing something else.
TARGETS = (
    Target("cast", "ml_dtypes", 20, _NARROW, (64 * _KI,)),
    Target("cast", "ml_dtypes", 15, _NARROW, (16 * _MI,)),
    Target("cast", "stream", 0.70, sizes=(16 * _MI,)),
    Target("cast", "torch", 1.6, ("e4m3fn",), (64 * _KI, 16 * _MI)),
    Target("cast", "torch", 1.1, ("e5m2",), (64 * _KI, 16 * _MI)),
    Target("cast", "torch", 0.95, ("bfloat16",), (64 * _KI, 16 * _MI)),
    Target("cast", "torch", 0.9, ("binary16",), (64 * _KI, 16 * _MI)),
    Target("cast", "torch", 1.2, ("e4m3fn",), (64 * _KI, 16 * _MI), out=False),
    Target("cast", "own normal", 0.9, sizes=(64 * _KI, 16 * _MI), kind="hard"),
    Target("decode", "stream", 0.9, _FP8, (16 * _MI,)),
    Target("quantize", "np.copyto", 0.9, sizes=(16 * _MI,)),
    Target("modes", "own nearest_even", 0.65, sizes=(64 * _KI, 16 * _MI)),
    Target("stochastic", "own nearest_even", 0.30, sizes=(64 * _KI, 16 * _MI), variants=("rng",)),
    Target("f64", "ml_dtypes", 9, _NARROW, (64 * _KI, 16 * _MI)),
    Target("small", "ml_dtypes", 0.25, sizes=(1, 10, 100), out=False),  # at most four times as long
    Target("block", "torchao", 5, ("mxfp8_e4m3",), (16 * _MI,), out=False, variants=("encode",)),
    Target("block", "torchao", 20, ("mxfp4",), (16 * _MI,), out=False, variants=("encode",)),
    Target("block", "own plain cast", 0.45, _MX, (16 * _MI,), out=False, variants=("encode",)),
    Target("block", "own last axis", 0.85, _MX, (16 * _MI,), out=False, variants=("axis 0",)),
    Target("block", "stream", 0.6, _MX, (16 * _MI,), variants=("decode",)),
    Target("arith", "own quantize", 0.5, _FP8, (64 * _KI, 16 * _MI)),
    Target("arith", "ml_dtypes", 10, _FP8, (64 * _KI, 16 * _MI)),
    Target("arith", "VeriFloat", 10, _FP8, (64 * _KI, 16 * _MI), out=False, variants=("add codes", "multiply codes")),
    Target("arith", "VeriFloat", 100, _FP8, (64 * _KI,), out=False, variants=("sqrt codes", "fma codes")),
    *(
        Target("matmul", "np.matmul", floor, _FP8, (384, 768), out=False, variants=(name, f"{name} codes"), aim=aim)
        for name, floor, aim in (
            ("fp32_fma", 0.2, 0.7),
            ("fp32_sequential", 0.2, 0.7),
            ("bf16_sequential", 0.1, 0.3),
        )
    ),
    Target("matmul", "VeriFloat", 20, _FP8, out=False, variants=("fp32_fma codes", "fp32_sequential codes")),
    Target("matmul", "VeriFloat", 50, _FP8, (dotcontests.SMALL,), out=False, variants=("groups_of_16 codes",)),
    Target("matmul", "mmasim", 1000, _FP8, (384, 768), out=False, variants=("hopper_wgmma codes",)),
    Target("threads", "own 1 thread", 1.5, sizes=(16 * _MI,), threads=2),
)


def plan(
    topics: Sequence[str] = (),
    *,
    formats: Sequence[Format | BlockFormat] = (),
    sizes: Sequence[int] = (),
    kinds: Sequence[str] = (),
    threads: int = 1,
) -> list[Job]:
    """The rows of topics, of all topics if none is named; what is not asked for is as a topic has it.

    Block formats are for `block`, all others for the other topics. Data that a format has none of, such
    as NaNs, make no row, and for `arith` and `matmul` neither do codes that have no dtype. Of processes
    nothing can be asked for, and of sizes only small ones are for `small` and, as rows of matrices, `matmul`.

    >>> [str(job) for job in plan(["decode"], formats=[catalog.E5M2], sizes=[8, 9])]
    ['decode e5m2 normal n=8', 'decode e5m2 normal n=9']

    Raises
    ------
    ValueError
        An unknown topic or kind of data, or nothing to do.
    """
    for given, known, what in ((topics, TOPICS, "topic"), (kinds, KINDS, "kind of data")):
        for name in given:
            if name not in known:
                raise ValueError(f"unknown {what} {name!r}; use one of {', '.join(known)}")
    jobs = []
    for name in dict.fromkeys(topics or TOPICS):
        topic, counts = TOPICS[name], [threads]
        blocks = name == "block"
        coerce: Callable[[str], Format | BlockFormat] = catalog.block_format if blocks else catalog.format
        known_formats = [coerce(fmt) for fmt in topic.formats]
        wanted = [fmt for fmt in formats if isinstance(fmt, BlockFormat) == blocks]
        if formats and not wanted and name != "import":
            continue
        if name == "import":
            rows = itertools.product(topic.variants, known_formats, topic.sizes, topic.kinds, [1])
        else:
            if name == "threads" and threads == 1:
                counts = sorted({min(2, get_threads()), get_threads()} - {1})
            most = {"small": max(topic.sizes), "matmul": dotcontests.LARGEST}.get(name)
            fitting = [size for size in sizes if most is None or size <= most] or topic.sizes
            rows = itertools.product(topic.variants, wanted or known_formats, fitting, kinds or topic.kinds, counts)
        jobs += [Job(name, *row) for row in rows if _has_row(name, *row[:2], row[3])]
    if not jobs:
        raise ValueError("there is nothing to time: the formats have no such data, or there is one processor only")
    return jobs


def _has_row(topic: str, variant: str, fmt: Format | BlockFormat, kind: str) -> bool:
    if topic == "matmul":
        return dotcontests.has_work(fmt, variant, kind)
    return has_data(fmt, kind) and (topic != "arith" or has_work(fmt, variant))


def seconds(jobs: Sequence[Job], budget: float) -> float:
    """About how long rows take, where the kernels are compiled already: enough to know whether to wait."""
    return 10 + sum(_seconds(job, budget) for job in jobs)


def _seconds(job: Job, budget: float) -> float:
    if job.topic == "import":
        return startup.VARIANTS[job.variant]
    return 0.5 + budget + (2 + job.size**3 / 1e8 if job.topic == "matmul" else job.size / 3e6)


def run(jobs: Sequence[Job], *, budget: float = 1.0, watch: Callable[[int, int, str], None] | None = None) -> Report:
    """Measure rows, one after the other.

    Parameters
    ----------
    jobs : sequence of Job
        As `plan` makes them.
    budget : float
        Seconds for each row, about: all take part in some rounds at least.
    watch : function, optional
        Called with the rows done, the rows in all, and the row under way.

    Raises
    ------
    WrongResult
        lowprec gives a wrong result. Nothing more is timed.
    """
    before, threads = load(), get_threads()
    found, missing = peers.find(jobs[0].threads)
    notes: dict[str, None] = {}
    rows = []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            for done, job in enumerate(jobs):
                if watch is not None:
                    watch(done, len(jobs), str(job))
                if job.topic == "import":
                    rows.append(_processes(job, list(found), budget))
                    continue
                able = [peer for peer in found.values() if peer.name != "jax" or job.threads == jobs[0].threads]
                if len(able) < len(found):
                    notes["jax started with another number of threads: it takes no part where that differs"] = None
                rows.append(_row(job, able, budget, notes))
            if any(job.topic == "matmul" for job in jobs) and not blas.switch(jobs[0].threads):
                notes[
                    "np.matmul has as many threads as its library likes: OPENBLAS_NUM_THREADS, MKL_NUM_THREADS or "
                    "VECLIB_MAXIMUM_THREADS says how many"
                ] = None
        finally:
            set_threads(threads)
            blas.restore()
    return Report(
        rows=tuple(rows),
        about={name: topic.about for name, topic in TOPICS.items()},
        budget=budget,
        machine=machine(before),
        versions={peer.name: peer.version or "" for peer in found.values()},
        missing=missing,
        notes=tuple(notes),
    )


def _row(job: Job, able: Sequence[peers.Peer], budget: float, notes: dict[str, None]) -> Row:
    def refused(contender: Contender, error: Exception) -> None:
        notes[f"{contender.name} takes no part in {job}: {peers.said(error)}"] = None

    makers: dict[str, Callable[[Job], Contest | BlockContest | ArithContest | DotContest]]
    makers = {"block": block_contest, "arith": arith_contest, "matmul": dot_contest}
    work = makers.get(job.topic, contest)(job)
    kept, differ = work.checked(list(work.contenders(able)), refused)
    timed = interleave(kept, budget, differ=differ, switch=peers.switch)
    return Row(job, tuple(timed), TARGETS)


def _processes(job: Job, names: Sequence[str], budget: float) -> Row:
    with tempfile.TemporaryDirectory() as folder:
        contenders = list(startup.contenders(job.variant, names, Path(folder)))
        return Row(job, tuple(interleave(contenders, budget, least=startup.LEAST[job.variant])), TARGETS)
