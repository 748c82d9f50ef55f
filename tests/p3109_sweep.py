"""Digests of the P3109 draft's operations, exhaustively: `python -m tests.sweep p3109`.

For each of the 120 formats of at most 8 bits, with operands and results in it: all codes of operations of
one operand, all pairs of those of two; where a result is projected, in the six rounding modes and the three
saturation modes. A digest is the first 16 digits of the SHA-256 of the results as bytes: by rounding mode,
then saturation mode, in the order of `parameters`, then the first operand, then the second.

`tables/p3109/digests.csv` has a line for each format and a column for each operation.
"""

import csv
import hashlib
import itertools
import multiprocessing
import pathlib
import sys
import time

import numpy as np

from lowprec.p3109.operations import OPERATIONS
from lowprec.p3109.parameters import ROUNDINGS, SATURATIONS, Specified, name_of
from lowprec.p3109.projecting import projected
from lowprec.p3109.queries import COMPARISONS, NEIGHBOURS, PREDICATES
from lowprec.p3109.values import VALUES, decoded
from lowprec.spec import catalog

FILE = pathlib.Path(__file__).parents[1] / "tables" / "p3109" / "digests.csv"
NUMERIC = [name for name in VALUES if len(OPERATIONS[name].operands) < 3]
COLUMNS = [*NUMERIC, *COMPARISONS, *PREDICATES, *NEIGHBOURS]
FORMATS = [name_of(fmt) for fmt in catalog.P3109_UP_TO_8]
SPECIFICATIONS = [Specified(*pair) for pair in itertools.product(ROUNDINGS, SATURATIONS)]


def digest(name: str, fmt_name: str) -> str:
    """Return the digest of an operation's results in a format; it is done once, then projected 18 times."""
    operation, fmt = OPERATIONS[name], catalog.format(fmt_name)
    codes = np.arange(1 << fmt.width, dtype=np.uint8)
    operands = [codes] if len(operation.operands) == 1 else [*np.meshgrid(codes, codes, indexing="ij")]
    made = hashlib.sha256()
    if name in VALUES:
        numbers = VALUES[name](*(decoded(each, fmt) for each in operands))
        for how in SPECIFICATIONS:
            made.update(np.asarray(projected(numbers, fmt, how), np.uint8).tobytes())
    else:
        result = operation[(fmt_name,) * len(operation.parameters)](*operands)
        made.update(np.asarray(result, np.uint8).tobytes())
    return made.hexdigest()[:16]


def row(fmt_name: str) -> tuple[str, list[str]]:
    """Return the digests of a format, by column."""
    return fmt_name, [digest(name, fmt_name) for name in COLUMNS]


def read() -> dict[tuple[str, str], str]:
    """Return the digests of the file, by format and operation."""
    with FILE.open() as lines:
        head, *rows = csv.reader(lines)
    return {(line[0], name): each for line in rows for name, each in zip(head[1:], line[1:], strict=True)}


def main(processes: int, write: bool, check: bool) -> int:
    """Make all digests, and write or check them; exit status 0 where all agrees."""
    started, found = time.monotonic(), {}
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for name, digests in pool.imap(row, FORMATS[::-1]):
            found[name] = digests
            print(f"{name}: {len(digests)} digests, {time.monotonic() - started:.0f} s", flush=True)
    if write:
        FILE.parent.mkdir(exist_ok=True)
        lines = [["format", *COLUMNS], *([name, *found[name]] for name in FORMATS)]
        FILE.write_text("".join(",".join(line) + "\n" for line in lines))
    failed = False
    if check:
        committed = read()
        for fmt, name in itertools.product(FORMATS, COLUMNS):
            if committed.get((fmt, name)) != found[fmt][COLUMNS.index(name)]:
                print(f"{name} of {fmt}: the digest is not that of {FILE.name}")
                failed = True
        failed |= len(committed) != len(FORMATS) * len(COLUMNS)
    return int(failed)


if __name__ == "__main__":
    sys.exit("run python -m tests.sweep p3109")
