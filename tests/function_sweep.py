"""All functions of all codes: digests, MPFR's opinion, and how many bits some values needed.

`python -m tests.sweep functions` runs it.
"""

import hashlib
from typing import Any, NamedTuple

import numpy as np

import lowprec as lp
from lowprec.kernels.functions.tables import columns_of
from lowprec.kernels.lower.kinds import FINITE
from lowprec.spec import catalog
from lowprec.spec.functions import FUNCTIONS
from lowprec.spec.projection import Projection
from lowprec.spec.rounding import MODES
from lowprec.verify.reference.operations import OPERATIONS
from tests.mpfr import PEERS, differences

#: Formats of single operands, and of pairs: all codes of each are tried, into the format itself.
SINGLE = (*(fmt for fmt in catalog.FORMATS.values() if fmt.width <= 8), catalog.BINARY16, catalog.BFLOAT16)
PAIRS = tuple(catalog.format(name) for name in ("e4m3fn", "e5m2", "e4m3fnuz", "int8f6", "e3m2fn", "e2m1fn"))

#: Formats whose results MPFR gives too, where it has the function.
HELD = ("binary16", "bfloat16")

#: Bits that decide nearly every rounding.
FEW = 100


class Task(NamedTuple):
    """A function into a format, of operands in it."""

    function: str
    fmt: lp.Format

    @property
    def name(self) -> str:
        """As digests are listed."""
        return f"{self.function} {self.fmt.name}"


def tasks() -> list[Task]:
    """Every function in every format."""
    return [
        Task(name, fmt)
        for name, rule in FUNCTIONS.items()
        for fmt in (SINGLE if rule.operands == 1 else PAIRS)
    ]


def run(task: Task) -> tuple[str, dict[str, Any], int, list[str]]:
    """The task's name; inputs in all modes and the digest; values that needed many bits; MPFR's objections.

    The digest is the SHA-256 of codes as little-endian uint16, ordered by mode (as in `spec.rounding.MODES`)
    and operands (the last one fastest). NaNs into formats without one are the largest value.
    """
    codes = np.arange(1 << task.fmt.width).astype(np.uint16 if task.fmt.width > 8 else np.uint8)
    count = FUNCTIONS[task.function].operands
    operands = [each.reshape(-1) for each in np.meshgrid(*[codes] * count, indexing="ij")]
    digest, nan = hashlib.sha256(), "error" if task.fmt.has_nan else "max"
    for mode in MODES:
        how = Projection(rounding=mode, nan=nan)
        made = OPERATIONS[task.function].compute(operands, (task.fmt,) * (count + 1), how)
        digest.update(np.asarray(made).astype("<u2").tobytes())
    found = {"inputs": operands[0].size * len(MODES), "sha256": digest.hexdigest()}
    wrong = []
    if task.function in PEERS and task.fmt.name in HELD:
        wrong = differences(task.function, task.fmt.name, codes)
    return task.name, found, hard(task, operands), wrong


def hard(task: Task, operands: list[np.ndarray]) -> int:
    """How many values' rounding to nearest, or directed, is not decided by their first 100 bits.

    The bits behind the tie are all zeros or all ones there, and the value is no number of so few bits.
    """
    numbers = [np.asarray(lp.decode(codes, task.fmt, dtype=np.float64)) for codes in operands]
    values = columns_of(task.function, numbers)
    behind = 64 - (task.fmt.precision + 1)
    high, low = np.uint64((1 << behind) - 1), np.uint64((1 << FEW - 64) - 1 << 128 - FEW)
    zeros = (values.highs & high == 0) & (values.lows & low == 0)
    ones = (values.highs & high == high) & (values.lows & low == low)
    return int(np.sum((values.kinds == FINITE) & (values.lows & np.uint64(1) == 1) & (zeros | ones)))
