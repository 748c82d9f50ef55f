"""Fuzz: `python -m tests.fuzz --seconds N [--seed S] [--topic T ...] [--case N]`.

Formats, projections, block formats and accumulations of any parameters, operands near what decides, every
verb and operation, each asked in several ways: kernels against the oracle, until the time is over. A case is
a function of the seed, the topic and its number, so that what fails can be asked again.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import os
import sys
import time

from tests.fuzz.runner import Count, fuzz
from tests.fuzz.topics import KNOWN, TOPICS


def main(arguments: list[str] | None = None) -> int:
    """Run the topics in turn; 1 where anything differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.partition("\n\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="for all topics together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--topic", action="append", choices=[*TOPICS], help="by default all")
    parser.add_argument("--case", type=int, help="this one alone")
    parser.add_argument("--failures", type=int, default=1, help="after which a topic ends")
    options = parser.parse_args(arguments)
    names = options.topic or [*TOPICS]
    counts: dict[str, list[Count]] = {name: [] for name in names}
    began, turn = time.monotonic(), min(30.0, options.seconds / len(names))
    ended: set[str] = set()
    with contextlib.suppress(KeyboardInterrupt):  # what was done until then is counted
        while len(ended) < len(names) and (left := options.seconds - (time.monotonic() - began)) > 0:
            for name in names:
                if name in ended or left <= 0:
                    continue
                first = options.case or sum(count.cases for count in counts[name])
                most = None if options.case is None else 1
                failed = sum(len(count.failures) for count in counts[name])
                count = fuzz(
                    name, TOPICS[name], options.seed, min(turn, left), known=KNOWN, first=first, most=most,
                    stop_at=options.failures - failed, told=lambda text: print(text, flush=True),
                )  # fmt: skip
                counts[name].append(count)
                left = options.seconds - (time.monotonic() - began)
                if most is not None or failed + len(count.failures) >= options.failures:
                    ended.add(name)
    for name, each in counts.items():
        cases, calls, elements = (
            sum(getattr(c, key) for c in each) for key in ("cases", "calls", "elements")
        )
        failures, seconds = sum(len(c.failures) for c in each), sum(c.seconds for c in each)
        print(
            f"{name}: {cases:,} cases, {calls:,} calls, {elements:,} elements, {failures} failures, "
            f"{seconds:.0f} s"
        )
    return int(any(count.failures for each in counts.values() for count in each))


if __name__ == "__main__":
    faulthandler.enable()
    os.environ["LOWPREC_RAISE"] = "hypotheses"
    sys.exit(main())
