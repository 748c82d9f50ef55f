"""Timing side by side: contenders take turns, and only the ratios of their medians are believed.

Nothing here knows what is timed. Times of one machine mean little and change with its load; what
hits all contenders of a row alike, because they ran in turn, cancels in a ratio.

Floor 5.
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

__all__ = ["NOISE_LIMIT", "Contender", "Timed", "fastest", "interleave", "ratio", "spread", "verdict"]

#: Above this spread of the yardstick a row says nothing: the machine was busy with something else.
NOISE_LIMIT = 0.15

#: Seconds that a sample should take: short calls are repeated within it.
_SAMPLE = 2e-3

#: Most rounds that are worth it; a median gains little from more.
_MOST = 41


@dataclass(frozen=True)
class Contender:
    """One way to do the work of a row.

    Parameters
    ----------
    name : str
        Who does it, or how: "lowprec", "own nearest_even", "torch", "stream".
    role : str
        "ours", "own" (lowprec doing something else, to compare with), "peer" or "yardstick".
    out : bool
        Whether it writes to memory that it was given, rather than to new memory.
    call : function
    read : function, optional
        What the call returned, as codes or values to compare.
    threads : int
        How many it may use.
    share : float
        What part of the row's work a call does. Times are of the whole work, in proportion.
    """

    name: str
    role: str
    out: bool
    call: Callable[[], Any]
    read: Callable[[Any], Any] | None = None
    threads: int = 1
    share: float = 1.0


@dataclass(frozen=True)
class Timed:
    """What was measured of a contender: seconds for the row's work, one number for each round."""

    name: str
    role: str
    out: bool
    threads: int
    calls: int  #: in each sample, of which the seconds are the mean
    seconds: tuple[float, ...]
    differ: int | None = None  #: results that are not lowprec's; None where they were not compared
    share: float = 1.0  #: the part of the work that was done and timed

    @property
    def median(self) -> float:
        """The median over the rounds."""
        return statistics.median(self.seconds)

    def as_json(self) -> dict[str, Any]:
        """As plain data, in a fixed order."""
        return {
            "name": self.name,
            "role": self.role,
            "out": self.out,
            "threads": self.threads,
            "differ": self.differ,
            "calls": self.calls,
            "share": self.share,
            "median_s": self.median,
            "spread": spread(self.seconds),
            "seconds": list(self.seconds),
        }


def interleave(
    contenders: Sequence[Contender],
    budget: float,
    *,
    differ: Sequence[int | None] = (),
    least: int = 5,
    switch: Callable[[int], None] = lambda threads: None,
    clock: Callable[[], float] = time.perf_counter,
) -> list[Timed]:
    """Time contenders in turn: A B C, A B C, and so on, each with its own share of the budget.

    One that is so slow that its share is spent early sits out some rounds, evenly spread, but never
    takes part in fewer than `least`. Garbage is not collected meanwhile.

    Parameters
    ----------
    contenders : sequence of Contender
        Each has run before: what is only done once, such as compiling, is done.
    budget : float
        Seconds for all of them together, about; the least rounds may take longer.
    differ : sequence of int or None, optional
        What to write down in `Timed.differ`.
    least : int
        Rounds that every contender takes part in.
    switch : function
        Told the number of threads of the contender to come, wherever it changes.
    clock : function
        Gives seconds.

    Returns
    -------
    timed : list of Timed, in the order of the contenders
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
        Timed(
            contender.name,
            contender.role,
            contender.out,
            contender.threads,
            calls[place],
            tuple(seconds / contender.share for seconds in samples[place]),
            given,
            contender.share,
        )
        for place, (contender, given) in enumerate(zip(contenders, differ or [None] * len(contenders), strict=True))
    ]


def spread(seconds: Sequence[float]) -> float:
    """The distance between the quartiles, as a share of the median.

    >>> spread([1.0, 1.0, 1.0, 1.0, 9.0]), spread([1.0, 2.0, 3.0])
    (0.0, 0.5)
    """
    if len(seconds) < 2:
        return 0.0
    low, middle, high = statistics.quantiles(seconds, n=4, method="inclusive")
    return (high - low) / middle


def ratio(subject: Timed, rival: Timed) -> float:
    """How many times as fast as a rival the subject is, by their medians.

    >>> ours, theirs = (Timed(name, "peer", True, 1, 1, (time,)) for name, time in (("a", 2.0), ("b", 5.0)))
    >>> ratio(ours, theirs)
    2.5
    """
    return rival.median / subject.median


def fastest(timed: Iterable[Timed], *, out: bool, name: str | None = None, role: str | None = None) -> Timed | None:
    """The fastest rival there is for a result in given memory (`out`), or in new memory.

    Like is compared with like, but for given memory a peer may do whatever it can: some only allocate.
    """
    rivals = [
        one
        for one in timed
        if (name is None or one.name == name)
        and (role is None or one.role == role)
        and (one.out == out or (out and one.role == "peer"))
    ]
    return min(rivals, key=lambda one: one.median, default=None)


def verdict(reached: float, floor: float, noise: float) -> str:
    """What a ratio says of its target: "ok" or "short", and "too noisy" above `NOISE_LIMIT`.

    >>> verdict(0.72, 0.7, 0.05), verdict(0.68, 0.7, 0.05), verdict(0.72, 0.7, 0.2)
    ('ok', 'short', 'too noisy')
    """
    if noise > NOISE_LIMIT:
        return "too noisy"
    return "ok" if reached >= floor else "short"
