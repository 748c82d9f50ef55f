"""Encode and measure an array of several times the memory of the workers, and check every bit of it.

The array takes `--times` as much memory as the workers of a local cluster have together. They find its scale
for int8, report the errors, and encode it in NVFP4 with stochastic rounding. Their chunks cut blocks and
parts, which are repaired. Then this process does the same with NumPy, some rows at a time, and compares: the
scales, SHA-256 of all codes and scales, and counts of the report.

    python docs/examples/larger_than_memory.py --memory 400MB --workers 2 --times 4
"""

from __future__ import annotations

import hashlib
import resource
import time
import warnings
from typing import Any

import click
import dask
import dask.array as da
import numpy as np
import numpy.typing as npt
from dask.utils import format_bytes, parse_bytes
from distributed import Client, LocalCluster

import lowprec as lp

Array = npt.NDArray[Any]

#: Columns of the array, rows that have a digest of their own, rows and columns of a chunk.
COLUMNS, ROWS, CHUNK = 4096, 256, (1000, 1500)
KEY, MODE = 7, lp.stochastic(8)


def values(first: int, last: int, rows: int, left: int = 0, right: int = COLUMNS) -> Array:
    """Return a part of the array: numbers over 16 binades, each a function of its place alone."""
    shape, origin = (last - first, right - left), (first, left)
    words = lp.random_bits(shape, KEY, 32, origin=origin, within=(rows, COLUMNS), stream=9)
    return np.ldexp(words.view(np.int32).astype(np.float32), (words % 16).astype(np.int32) - 40)


def chunk_of_values(block_info: Any = None) -> Array:
    """Return the values of a chunk."""
    (first, last), (left, right) = block_info[None]["array-location"]
    return values(first, last, block_info[None]["shape"][0], left, right)


def digest(codes: Array, scales: Array) -> Array:
    """Return SHA-256 of some rows of blocks, as an array of one row."""
    made = hashlib.sha256(np.ascontiguousarray(codes).tobytes() + np.ascontiguousarray(scales).tobytes())
    return np.frombuffer(made.digest(), np.uint8)[None]


def by_workers(rows: int) -> tuple[list[Any], str]:
    """Return the scale of int8, the scale of the tensor and the report; and the digest of the blocks."""
    cuts = [tuple(min(step, size - at) for at in range(0, size, step))
            for size, step in zip((rows, COLUMNS), CHUNK, strict=True)]  # fmt: skip
    meta = np.empty((0, 0), np.float32)
    array = da.map_blocks(chunk_of_values, chunks=tuple(cuts), dtype=meta.dtype, meta=meta)
    # What needs all values first is computed first, so that no worker keeps them for a second use.
    scale, tensor = dask.compute(lp.scale_for(array, "int8"), lp.encode(array, "nvfp4").tensor_scale)
    report = lp.error_report(array, "int8", scale=scale, saturation="finite").compute()
    blocks = lp.encode(array, "nvfp4", tensor_scale=float(tensor), rounding=MODE, rng=KEY)
    parts = [part.rechunk((ROWS, -1)) for part in (blocks.codes, blocks.scales)]
    groups = da.blockwise(digest, "ij", parts[0], "ij", parts[1], "ij", dtype=np.uint8, align_arrays=False,
                          adjust_chunks={"i": 1, "j": 32})  # fmt: skip
    return [float(scale), float(tensor), report], hashlib.sha256(groups.compute()).hexdigest()


def piece_by_piece(rows: int, scale: float) -> tuple[list[Any], str]:
    """Return the same by NumPy: both scales, two counts of the report, and the digest."""
    largest, counts, digests = np.float32(0), np.zeros(2, np.int64), []
    starts = range(0, rows, ROWS)
    for first in starts:
        part = values(first, min(first + ROWS, rows), rows)
        largest = max(largest, np.abs(part).max())
        report = lp.error_report(part, "int8", scale=np.float32(scale), saturation="finite")
        counts += report.size, round(report.flushed * np.count_nonzero(part))
    tensor = lp.encode(largest[None], "nvfp4").tensor_scale
    for first in starts:
        part = values(first, min(first + ROWS, rows), rows)
        random = lp.random_bits(part.shape, KEY, 8, origin=(first, 0), within=(rows, COLUMNS))
        blocks = lp.encode(part, "nvfp4", tensor_scale=tensor, rounding=MODE, random=random)
        digests.append(digest(blocks.codes, blocks.scales))
    whole = hashlib.sha256(np.concatenate(digests)).hexdigest()
    return [float(lp.scale_for(largest[None], "int8")), float(tensor), *counts.tolist()], whole


@click.command()
@click.option("--memory", default="400MB", show_default=True, help="Memory limit of each worker.")
@click.option("--workers", default=2, show_default=True, help="Processes of the cluster.")
@click.option("--times", default=4.0, show_default=True, help="Size of the array, by the workers' memory.")
def main(memory: str, workers: int, times: float) -> None:
    """Run both, and compare."""
    warnings.simplefilter("ignore", da.PerformanceWarning)
    limit = parse_bytes(memory)
    rows = int(times * workers * limit / 4 / COLUMNS)
    options: Any = {"dashboard_address": ":0", "memory_limit": limit, "silence_logs": 50}
    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, **options) as cluster,
        Client(cluster) as client,
    ):
        click.echo(
            f"{rows:,} x {COLUMNS:,} float32, {format_bytes(4 * rows * COLUMNS)}; {workers} workers of "
            f"{format_bytes(limit)}"
        )
        start = time.perf_counter()
        (scale, tensor, report), theirs = by_workers(rows)
        seconds = time.perf_counter() - start
        peak = max(client.run(lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024).values())
    click.echo(f"workers: {seconds:.0f} s, at most {format_bytes(peak)} each")
    start = time.perf_counter()
    (scale_here, tensor_here, size, flushed), ours = piece_by_piece(rows, scale)
    click.echo(f"NumPy piece by piece: {time.perf_counter() - start:.0f} s")
    same = (scale, tensor, report.size, theirs) == (scale_here, tensor_here, size, ours)
    nonzero = round((1 - report.zeros) * report.size)
    same = same and round(report.flushed * nonzero) == flushed
    click.echo(str(report))
    click.echo(f"SHA-256 of codes and scales: {theirs}")
    click.echo("the same" if same else f"NOT the same: {ours}")
    raise SystemExit(not same)


if __name__ == "__main__":
    main()
