"""Sweeps that are too long for the test suite, and short enough for before a release.

    python -m tests.sweep wide             compare kernels with the oracle, print what was found
    python -m tests.sweep wide --check     and compare the digests with tests/sweep_digests.json
    python -m tests.sweep wide --write     and write them there

and in the same way `blocks`, `arith`, `functions` and `p3109`. All float32 inputs of casts are
`lowprec conform --exhaustive`.

**wide**: for binary16, bfloat16 and tf32, each tie between two neighbouring magnitudes (between the largest
and the next of the continued grid too) and the float64 on either side of it, of both signs, in the eight
modes, without saturation. Each of these inputs goes through `oracle.convert.project`; the kernel must agree.

The digest is the SHA-256 of the oracle's codes as little-endian uint32, ordered by mode (as in
`spec.rounding.MODES`), sign (+ first), magnitude, then below, at and above the tie.

**blocks**: 10**6 blocks of each of OCP's six formats, made of midpoints of the element's format and
their binary32 neighbours, at every power of two. The oracle makes the scale of each amax; elements
are looked up in its steps, for a value over a power of two is a float64. The digest is that of the
kernel's scales and elements of each 10,000 blocks, one after the other, once they agree.

**arith**: operations. All pairs of the formats of `arith_sweep.SMALL` in all modes under all policies,
all triples of e2m1fn; 10**6 triples of the others, and 10**6 pairs of binary16 and bfloat16, to
nearest even and 10**4 in each other mode: the oracle projects each exact result once. NumPy's own
operations on 10**7 patterns of binary16 and binary32. The digest is that of the codes, as little-endian
uint32, of each task of `arith_sweep.tasks` after the other.

**functions**: every function of every code of all formats of at most 8 bits, of binary16 and of bfloat16, and
of all pairs of six formats, into the format itself, in every mode. MPFR agrees on all operands in
binary16 and bfloat16 of the functions that it has, in the five modes that it has. Printed too: how many
values need more than 100 bits. The digests are those of `function_sweep.run`.

**files**: 10**5 damaged files of checkpoints, indexes, configurations, journals, definitions, captures. Each
must be read or refused in one line, and no case may take 400 MiB or 20 s of the processor. What is written is
how many of each kind are read, which depends on the version of the gguf package too.

**p3109**: operations of the P3109 draft on all operands; its digests are in tables/p3109, see `p3109_sweep`.
"""

import argparse
import functools
import hashlib
import itertools
import json
import multiprocessing
import pathlib
import struct
import sys
import time
from typing import Any

import numpy as np

import lowprec as lp
from lowprec.oracle import block as oracle_block
from lowprec.oracle.convert import decode, project
from lowprec.oracle.exact import from_float, to_float
from lowprec.spec import catalog
from lowprec.spec.functions import FUNCTIONS
from lowprec.spec.projection import Projection
from lowprec.spec.rounding import MODES
from tests import arith_sweep, file_sweep, function_sweep, p3109_sweep
from tests.support import stepped, value_and_tie, value_of

WIDE = ("binary16", "bfloat16", "tf32")
BLOCKS = ("mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp4", "mxint8")
BATCHES, BATCH = 100, 10_000
DIGESTS = pathlib.Path(__file__).with_name("sweep_digests.json")


def inputs(name: str, negative: bool) -> list[float]:
    """Below, at and above each tie, ascending in magnitude."""
    fmt = catalog.format(name)
    sign = 1 << 63 if negative else 0
    found = []
    values = (value_of(magnitude, fmt) for magnitude in range(fmt.max_magnitude + 2))
    for low, high in itertools.pairwise(values):
        (bits,) = struct.unpack("<Q", struct.pack("<d", to_float((low + high) / 2)))
        found += [struct.unpack("<d", struct.pack("<Q", (bits + step) | sign))[0] for step in (-1, 0, 1)]
    return found


def part(task: tuple[str, int, bool]) -> tuple[bytes, list[str]]:
    """The oracle's codes of one format, mode and sign, and what the kernel has otherwise."""
    name, index, negative = task
    fmt, projection = catalog.format(name), Projection(rounding=MODES[index])
    values = inputs(name, negative)
    want = np.array([project(from_float(value), fmt, projection) for value in values], "<u4")
    got = lp.encode(np.array(values), fmt, projection=projection).astype("<u4")
    wrong = np.flatnonzero(got != want)
    return want.tobytes(), [
        f"{name}, {projection}: {values[i].hex()} gives {int(got[i]):#x}, not {int(want[i]):#x}"
        for i in wrong
    ]


def wide(processes: int) -> tuple[dict[str, dict[str, object]], int]:
    """Number of inputs and digest for each format, and the number of differences in all."""
    found: dict[str, dict[str, object]] = {}
    all_differences = 0
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for name in WIDE:
            started = time.monotonic()
            digest, count, differences = hashlib.sha256(), 0, []
            tasks = [(name, index, negative) for index in range(len(MODES)) for negative in (False, True)]
            for codes, wrong in pool.imap(part, tasks):
                digest.update(codes)
                count += len(codes) // 4
                differences += wrong
            found[name] = {"inputs": count, "sha256": digest.hexdigest()}
            all_differences += len(differences)
            print(
                f"{name}: {count:,} inputs, {len(differences):,} differences, sha256 {digest.hexdigest()}, "
                f"{time.monotonic() - started:.0f} s",
                flush=True,
            )
            for line in differences[:20]:
                print(f"    {line}")
    return found, all_differences


@functools.cache
def midpoints(element: lp.Format) -> tuple[np.ndarray, int]:
    """Values and the ties above them, ascending, below the top binade's end; and where that begins."""
    points = [
        point for magnitude in range(element.max_magnitude + 2) for point in value_and_tie(magnitude, element)
    ]
    points = np.array([point for point in points if point < 2.0 ** (element.emax + 1)])
    return points, int(np.searchsorted(points, 2.0**element.emax))


def midpoint_blocks(fmt: lp.BlockFormat, batch: int, count: int = BATCH) -> np.ndarray:
    """Blocks of binary32, in rows: each times a power of two, so that amax lies anywhere from 2**-149 on."""
    points, top = midpoints(fmt.element)
    shape = (count, *fmt.sizes)
    choice, change, place = (
        lp.random_bits(shape, batch, 32, stream=stream).astype(np.int64) for stream in range(3)
    )
    index = choice % points.size
    peak = (np.arange(count), place[:, 0] % fmt.sizes[0])
    index[peak] = top + choice[peak] % (points.size - top)
    exponents = place[:, 1] % 277 - 149 - fmt.element.emax
    values = np.ldexp(points[index], exponents[:, None]).astype(np.float32)
    bits = values.view(np.int32) + (change % 3 - 1).astype(np.int32)
    bits = np.clip(bits, 0, 0x7F7FFFFF).astype(np.int32)
    return (bits | (change >> 31 << 31).astype(np.uint32).view(np.int32)).view(np.float32)


def block_codes(values: np.ndarray, fmt: lp.BlockFormat) -> tuple[np.ndarray, np.ndarray]:
    """Scales, powers of two, of blocks in rows, by the oracle from each amax alone; elements by its steps."""
    amaxes, inverse = np.unique(np.abs(values).max(axis=1), return_inverse=True)
    scales = np.array([oracle_block.encode([from_float(float(amax))], fmt)[0] for amax in amaxes])[inverse]
    divisors = np.array([to_float(decode(code, fmt.scale)) for code in range(fmt.scale.max_magnitude + 1)])
    quotients = values.astype(np.float64) / divisors[scales][:, None]
    return scales, stepped(quotients, fmt.element, fmt.elements)


def batch_of_blocks(task: tuple[str, int]) -> tuple[bytes, int]:
    """The kernel's codes of a batch, and how many blocks of it differ."""
    name, batch = task
    fmt = catalog.block_format(name)
    values = midpoint_blocks(fmt, batch)
    scales, codes = block_codes(values, fmt)
    got = lp.encode(values, fmt)
    differ = (got.scales[:, 0] != scales) | (got.codes != codes).any(axis=1)
    return got.scales.tobytes() + got.codes.tobytes(), int(np.count_nonzero(differ))


def blocks(processes: int) -> tuple[dict[str, dict[str, object]], int]:
    """Return digests as `wide` does, of blocks."""
    found: dict[str, dict[str, object]] = {}
    all_differences = 0
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for name in BLOCKS:
            started = time.monotonic()
            digest, differences = hashlib.sha256(), 0
            for codes, differ in pool.imap(batch_of_blocks, [(name, batch) for batch in range(BATCHES)]):
                digest.update(codes)
                differences += differ
            found[name] = {"inputs": BATCHES * BATCH, "sha256": digest.hexdigest()}
            all_differences += differences
            print(
                f"{name}: {BATCHES * BATCH:,} blocks, {differences:,} differences, sha256 "
                f"{digest.hexdigest()}, {time.monotonic() - started:.0f} s",
                flush=True,
            )
    return found, all_differences


def arith(processes: int) -> tuple[dict[str, dict[str, object]], int]:
    """Return digests as `wide` does, of each operation."""
    digests: dict[str, tuple[list[int], Any]] = {}
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for operation, codes, differ in pool.imap(arith_sweep.work, arith_sweep.tasks()):
            counts, digest = digests.setdefault(operation, ([0, 0], hashlib.sha256()))
            digest.update(codes)
            counts[0] += len(codes) // 4
            counts[1] += differ
            print(f"{operation}: {counts[0]:,} results so far, {counts[1]:,} differences", flush=True)
    for operation, (counts, digest) in digests.items():
        print(f"{operation}: {counts[0]:,} results, {counts[1]:,} differences, sha256 {digest.hexdigest()}")
    found: dict[str, dict[str, object]] = {
        operation: {"inputs": counts[0], "sha256": digest.hexdigest()}
        for operation, (counts, digest) in digests.items()
    }
    return found, sum(counts[1] for counts, _ in digests.values())


def functions(processes: int) -> tuple[dict[str, dict[str, object]], int]:
    """Number of inputs and digest for each function and format, and the number of differences in all."""
    found: dict[str, dict[str, object]] = {}
    began, differences, many, values = time.monotonic(), 0, dict.fromkeys(FUNCTIONS, 0), 0
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for name, digest, hard, wrong in pool.imap(function_sweep.run, function_sweep.tasks()):
            found[name] = digest
            many[name.split()[0]] += hard
            values += digest["inputs"] // len(MODES)
            differences += len(wrong)
            for line in wrong:
                print(f"    {line}", flush=True)
    needed = ", ".join(f"{name} {count:,}" for name, count in many.items() if count)
    print(f"more than {function_sweep.FEW} bits decide {sum(many.values()):,} of {values:,} values: {needed}")
    inputs = sum(digest["inputs"] for digest in found.values())
    print(f"{inputs:,} results, {differences} differences from MPFR, {time.monotonic() - began:.0f} s")
    return found, differences


def files(processes: int) -> tuple[dict[str, dict[str, object]], int]:
    """Number of cases of each kind, how many of them are read, and the number of crashes in all."""
    found: dict[str, dict[str, object]] = {
        kind: {"inputs": 0, "read": 0, "refused": 0} for kind in file_sweep.KINDS
    }
    began, crashes = time.monotonic(), 0
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for task, counts, wrong in pool.imap(file_sweep.run, file_sweep.tasks()):
            of: Any = found[task.kind]
            of["inputs"] += file_sweep.PART
            for name, count in counts.items():
                of[name] += count
            crashes += len(wrong)
            for line in wrong:
                print(f"    {line}", flush=True)
    for kind, of in found.items():
        print(f"{kind}: {of['inputs']:,} files, {of['read']:,} read, {of['refused']:,} refused")
    print(f"{crashes} crashes, {time.monotonic() - began:.0f} s")
    return found, crashes


def main() -> int:
    """Exit status 0 where all agrees, 1 where something differs."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.sweep", description="What is too long for the test suite."
    )
    parser.add_argument("what", choices=["wide", "blocks", "arith", "functions", "p3109", "files"])
    parser.add_argument("--processes", type=int, default=2)
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--write", action="store_true", help=f"write the digests to {DIGESTS.name}")
    action.add_argument("--check", action="store_true", help=f"compare the digests with {DIGESTS.name}")
    arguments = parser.parse_args()
    if arguments.what == "p3109":
        return p3109_sweep.main(arguments.processes, arguments.write, arguments.check)
    sweeps = {"wide": wide, "blocks": blocks, "arith": arith, "functions": functions, "files": files}
    found, differences = sweeps[arguments.what](arguments.processes)
    failed = differences > 0
    if arguments.write and not failed:
        committed = {**json.loads(DIGESTS.read_text()), arguments.what: found}
        DIGESTS.write_text(json.dumps(committed, indent=2) + "\n")
    if arguments.check:
        for name, committed in json.loads(DIGESTS.read_text())[arguments.what].items():
            if found[name] != committed:
                print(f"{name}: the digest is not that of {DIGESTS.name}")
                failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
