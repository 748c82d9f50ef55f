"""Timing side by side: contenders alternate, and only the ratios of their medians are believed.

Times of one machine mean little and change with its load; what slows all contenders of a row alike,
because they ran in turn, cancels in a ratio. docs/decisions/0016-benchmarks-beside-the-package.md says
why no library does this.
"""

from __future__ import annotations

import gc
import itertools
import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["NOISE_LIMIT", "Contender", "Timed", "fastest", "interleave", "spread"]

#: Above this spread of the yardstick a row says nothing: the machine was busy with something else.
NOISE_LIMIT = 0.15

#: Seconds that a sample should take: short calls are repeated within it.
_SAMPLE = 2e-3

#: Most rounds that are worth it; a median gains little from more.
_MOST = 41


@dataclass(frozen=True)
class Contender:
    """One way to do the work of a row."""

    name: str  #: "lowprec", "own nearest_even", "torch", "stream"
    role: str  #: "ours", "own" (lowprec doing something else, to compare with), "peer" or "yardstick"
    out: bool  #: whether it writes to memory of the caller rather than to new memory
    call: Callable[[], Any]
    read: Callable[[Any], Any] | None = None  #: turns the result of `call` into codes or values to compare
    threads: int = 1
    share: float = 1.0  #: part of the row's work that a call does


@dataclass(frozen=True)
class Timed(Contender):
    """A contender with its times: seconds for the row's work, one number for each round."""

    calls: int = 1  #: in each sample, of which the seconds are the mean
    seconds: tuple[float, ...] = ()
    differ: int | None = None  #: results that are not lowprec's; None where they were not compared

    @property
    def median(self) -> float:
        """The median over the rounds."""
        return statistics.median(self.seconds)

    def as_json(self) -> dict[str, Any]:
        """Return plain data, in a fixed order."""
        names = ("name", "role", "out", "threads", "differ", "calls", "share")
        times = {"median_s": self.median, "spread": spread(self.seconds), "seconds": list(self.seconds)}
        return {name: getattr(self, name) for name in names} | times


def interleave(
    contenders: Sequence[Contender],
    budget: float,
    *,
    differ: Sequence[int | None] = (),
    least: int = 5,
    switch: Callable[[int], None] = lambda threads: None,
    clock: Callable[[], float] = time.perf_counter,
) -> list[Timed]:
    """Time contenders in turn: A B C, A B C, and so on, each with an equal share of the budget.

    One that is so slow that its share is spent early sits out some rounds, evenly spread, but never
    takes part in fewer than `least`. Garbage is not collected meanwhile.

    Parameters
    ----------
    contenders : sequence of Contender
        Each has run before, so that nothing is compiled on the clock.
    budget : float
        Seconds for all of them together, about; the least rounds may take longer.
    differ : sequence of int or None, optional
        The value of `Timed.differ` for each.
    least : int
        Rounds that every contender takes part in.
    switch : function
        Called with the number of threads of the next contender, wherever it changes.
    clock : function
        Returns seconds.
    """
    samples: list[list[float]] = [[] for _ in contenders]
    calls, rounds = [1] * len(contenders), [0] * len(contenders)
    threads = None

    def sample(place: int) -> float:
        nonlocal threads
        contender = contenders[place]
        if contender.threads != threads:
            threads = contender.threads
            switch(threads)
            contender.call()  # wakes the threads
        call, repeats = contender.call, itertools.repeat(None, calls[place])
        start = clock()
        for _ in repeats:
            call()
        return (clock() - start) / calls[place]

    collecting = gc.isenabled()
    gc.disable()
    try:
        for place in range(len(contenders)):
            once = sample(place)
            if once < _SAMPLE:  # or would, had it not been interrupted
                once = max(1e-9, min(once, sample(place), sample(place)))
            calls[place] = math.ceil(_SAMPLE / once)
            share = budget / len(contenders)
            rounds[place] = max(least, min(_MOST, int(share / (once * calls[place]))))
        for turn in range(most := max(rounds)):
            for place, times in enumerate(samples):
                if (turn + 1) * rounds[place] // most > turn * rounds[place] // most:
                    times.append(sample(place))
    finally:
        if collecting:
            gc.enable()
    return [
        Timed(**vars(one), calls=repeated, seconds=tuple(time / one.share for time in times), differ=number)
        for one, repeated, times, number in zip(
            contenders, calls, samples, differ or [None] * len(contenders), strict=True
        )
    ]


def spread(seconds: Sequence[float]) -> float:
    """Return the distance between the quartiles, as a share of the median.

    >>> spread([1.0, 1.0, 1.0, 1.0, 9.0]), spread([1.0, 2.0, 3.0])
    (0.0, 0.5)
    """
    if len(seconds) < 2:
        return 0.0
    low, middle, high = statistics.quantiles(seconds, n=4, method="inclusive")
    return (high - low) / middle


def fastest(
    timed: Iterable[Timed], *, out: bool, name: str | None = None, role: str | None = None
) -> Timed | None:
    """Return the fastest contender of a name and a role, into the caller's memory (`out`) or into new memory.

    Like is compared with like, but for memory of the caller a peer may do whatever it can: some only
    allocate.
    """
    rivals = [
        one
        for one in timed
        if name in (None, one.name)
        and role in (None, one.role)
        and (one.out == out or (out and one.role == "peer"))
    ]
    return min(rivals, key=lambda one: one.median, default=None)
