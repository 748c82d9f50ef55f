"""Cliffs: every verb, operation, block format and accumulation beside the plain encode, or beside np.matmul.

`python -m benchmarks.cliffs`, in a checkout. A cell is a call on one combination of operation, type,
format, mode, data and layout. The listed cells vary a few of these at a time, from what is usual; `--drawn
N --seed S` draws N from the whole product instead. Each cell is timed in turn with its yardstick on as many
elements, and is a ratio: 0.05 is a twentieth of the yardstick's speed. Times are the processor's time of
this one thread: other work on the machine counts only by what it takes of the caches.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import click
import ml_dtypes
import numpy as np
import numpy.typing as npt
from rich.table import Table
from threadpoolctl import ThreadpoolController

import lowprec as lp
from benchmarks.cells import Cell
from benchmarks.data import values
from benchmarks.drawn import drawn
from benchmarks.report import processor
from benchmarks.timing import Contender, interleave
from lowprec.export import cards
from lowprec.files import write
from lowprec.spec.arith import OPERANDS, SIGN_ONLY, operands_of
from lowprec.spec.projection import Projection
from lowprec.spec.rounding import MODES

__all__ = ["cells", "main", "measure"]

Array = npt.NDArray[Any]
Named = tuple[str, Callable[[], object]]
Options = dict[str, dict[str, Any]]

FORMATS = ("e4m3fn", "e5m2", "bfloat16", "binary16", "binary32", "e2m1fn", "int8")
BLOCKS = ("mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e3m2", "mxfp4_e2m1", "mxint8", "nvfp4")
RULES = ("floor", "ceil", "even", "nearest")
#: Accumulations of plain loops, and one window of each sink.
ACCUMULATIONS = (
    *(
        "fp32_sequential",
        "fp32_fma",
        "fp32_pairwise",
        "fp64_sequential",
        "bf16_sequential",
        "fp16_sequential",
    ),
    *("exact", "hopper_wgmma_e4m3fn_binary32", "riscv_bulk16_e4m3fn_binary32"),
)

#: Ratios that the report counts cells below.
_BORDERS = (1.0, 0.2, 0.05, 0.025, 0.01, 0.005)


def cells(size: int, rows: int) -> Iterator[Cell]:
    """Yield cells of so many elements, and of square matrices of so many rows."""
    for name, call in _elements(size):
        yield Cell("elements", name, size, call)
    for name, call in _dots(rows):
        yield Cell("dots", name, rows**3, call)


def _operands(size: int) -> dict[str, Array]:
    """Operands by what is unusual of them."""
    x = values("normal", lp.format("bfloat16"), size)
    special = x.copy()
    special[::17], special[::19] = np.nan, np.inf
    scaled = x * np.float32(30)
    found = {"float32": x, "NaN and infinity": special, "strided": np.repeat(x, 2)[::2]}
    found |= {"big-endian": x.astype(">f4"), "subnormal": x * np.float32(2.0**-130)}
    found |= {name: x.astype(name) for name in ("float64", "float16")}
    found["bfloat16"] = x.astype(ml_dtypes.bfloat16)
    found |= {name: scaled.astype(name) for name in ("int8", "int16", "int32", "int64")}
    return found


def _rule(name: str, **fields: Any) -> Projection:
    """A projection that refuses nothing."""
    return Projection(nan="error" if lp.format(name).has_nan else "max", **fields)


def _elements(size: int) -> Iterator[Named]:
    given, flags = _operands(size), np.empty(size, np.uint8)
    x = given["float32"]
    modes: Options = {str(mode): {"rounding": mode} for mode in MODES}
    for bits in (8, 32):
        modes[f"stochastic({bits})"] = {"rounding": f"stochastic({bits})", "rng": 1}
    for name in FORMATS:
        rule = _rule(name)
        for kind, array in given.items():
            yield f"encode {kind} to {name}", partial(lp.encode, array, name, projection=rule)
            yield f"quantize {kind} to {name}", partial(lp.quantize, array, name, projection=rule)
        for mode, options in modes.items():
            for kind in ("float32", "float64"):
                yield f"encode {kind} to {name}, {mode}", partial(lp.encode, given[kind], name, **options)
        codes = lp.encode(x, name, projection=rule)
        yield f"encode to {name}, flags", partial(lp.encode, x, name, projection=rule, flags=flags)
        for kind in ("float32", "float64"):
            yield f"decode {name} to {kind}", partial(lp.decode, codes, name, dtype=kind)
        yield f"cast {name} to e4m3fn", partial(lp.cast, codes, name, "e4m3fn")
        yield f"cast {name} to e4m3fn, flags", partial(lp.cast, codes, name, "e4m3fn", flags=flags)
        held = codes.view(lp.dtype(name))
        for compare, given_to in ((lp.less, codes), (lp.total_order, codes), (lp.nextafter, held)):
            yield f"{compare.__name__} {name}", partial(compare, given_to, given_to[::-1], name)
        for describe, given_to in ((lp.classify, codes), (lp.ulp, held)):
            yield f"{describe.__name__} {name}", partial(describe, given_to, name)
        whole = given["int32"]
        yield f"nextafter int32 to {name}", partial(lp.nextafter, whole, whole[::-1], name)
        yield f"ulp int32 to {name}", partial(lp.ulp, whole, name)
    for operation in OPERANDS:
        yield from _operation(operation, given, modes, flags)
    yield from _in_blocks(given, modes)
    for method in ("max", "mse"):
        yield f"scale_for {method}", partial(lp.scale_for, x, "e4m3fn", method=method)
    for name in ("e4m3fn", "mxfp8_e4m3"):
        yield f"error_report {name}", partial(lp.error_report, x, name)


def _operation(operation: str, given: dict[str, Array], modes: Options, flags: Array) -> Iterator[Named]:
    """An operation into four formats: of two types, in two modes, with flags, and on special values."""
    call, count = getattr(lp, operation), operands_of(operation)
    few = ("toward_zero", "stochastic(8)") if operation not in SIGN_ONLY else ()
    for name in ("e4m3fn", "bfloat16", "binary16", "binary32"):
        for kind in ("float32", "float64", "NaN and infinity"):
            operands = [np.abs(given[kind]), *(np.roll(given[kind], place + 1) for place in range(2))][:count]
            if operation == "scaleb":
                operands[1] = given["int8"].astype(np.int64)
            yield f"{operation} of {kind} to {name}", partial(call, *operands, name)
            if kind == "float32":
                yield f"{operation} to {name}, flags", partial(call, *operands, name, flags=flags)
                for mode in few:
                    yield f"{operation} to {name}, {mode}", partial(call, *operands, name, **modes[mode])


def _in_blocks(given: dict[str, Array], modes: Options) -> Iterator[Named]:
    """Block formats: by type, rule, axis and mode; and decoded."""
    for name in BLOCKS:
        for kind in ("float32", "float64", "bfloat16", "int32", "NaN and infinity", "subnormal"):
            yield f"encode {kind} to {name}", partial(lp.encode, given[kind].reshape(-1, 256), name)
        matrix = given["float32"].reshape(-1, 256)
        for rule in RULES:
            yield f"encode to {name}, rule {rule}", partial(lp.encode, matrix, name, rule=rule)
        yield f"encode to {name}, axis 0", partial(lp.encode, matrix, name, axis=0)
        drawn = modes["stochastic(8)"]
        yield f"encode to {name}, stochastic(8)", partial(lp.encode, matrix, name, **drawn)
        blocks = lp.encode(matrix, name)
        for kind in ("float32", "float64"):
            yield f"decode {name} to {kind}", partial(blocks.values, np.dtype(kind))


def _dots(rows: int) -> Iterator[Named]:
    x = values("normal", lp.format("bfloat16"), rows * rows).reshape(rows, rows)
    y = np.ascontiguousarray(x[::-1])
    one = x.copy()
    one[rows // 2, rows // 3] = np.nan
    kinds: dict[str, tuple[Any, Any]] = {
        "float32": (x, y),
        "float64": (x.astype(np.float64), y.astype(np.float64)),
        "one NaN": (one, y),
    }
    for name in ("bfloat16", "e4m3fn"):
        kinds[name] = lp.quantize(x, name, saturation="finite"), lp.quantize(y, name, saturation="finite")
    for name in BLOCKS:
        kinds[name] = lp.encode(x, name, axis=1), lp.encode(y, name, axis=0)
    for accumulation in ACCUMULATIONS:
        for kind, (left, right) in kinds.items():
            if kind == "e4m3fn" or "e4m3fn" not in accumulation:
                yield f"{accumulation} of {kind}", partial(lp.matmul, left, right, accumulation)


def measure(chosen: Iterator[Cell], budget: float) -> dict[str, dict[str, Any]]:
    """Return of each cell its group, its speed in millions a second and the ratio to its yardstick's."""
    found = {}
    for cell in chosen:
        plain = _yardstick(cell.group, cell.work)
        cell.call()
        contenders = [
            Contender(name, role, False, call)
            for name, role, call in ((cell.name, "ours", cell.call), (cell.group, "yardstick", plain))
        ]
        ours, yardstick = interleave(contenders, budget, least=3, clock=time.thread_time)
        speed, ratio = cell.work / ours.median / 1e6, yardstick.median / ours.median
        found[cell.name] = {"group": cell.group, "speed": speed, "ratio": ratio}
    return found


@cache
def _yardstick(group: str, work: int) -> Callable[[], object]:
    """Return the plain encode of as many elements, or np.matmul of matrices of as many rows."""
    if group == "elements":
        return partial(lp.encode, values("normal", lp.format("e4m3fn"), work), "e4m3fn")
    square = np.ones((round(work ** (1 / 3)),) * 2, np.float32)
    return partial(np.matmul, square, square)


@click.command()
@click.option("--size", default=1 << 20, show_default=True, metavar="N", help="Time arrays of N elements.")
@click.option("--rows", default=256, show_default=True, metavar="N", help="Time matrices of N rows.")
@click.option("--budget", default=0.1, show_default=True, metavar="SECONDS", help="Spend this on each cell.")
@click.option("--drawn", "count", metavar="N", type=int, help="Time N cells drawn at random instead.")
@click.option("--seed", default=0, show_default=True, metavar="S", help="Draw cells by this seed.")
@click.option("--only", default="", metavar="WORDS", help="Time cells whose name holds these words.")
@click.option("--slowest", default=50, show_default=True, metavar="N", help="Show the N slowest cells.")
@click.option("--json", "path", metavar="FILE", help="Write all cells to a file.")
@click.option(
    "--against",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Show the cells that changed most since such a file.",
)
def main(
    size: int,
    rows: int,
    budget: float,
    count: int | None,
    seed: int,
    only: str,
    slowest: int,
    path: str | None,
    against: str | None,
) -> None:
    """Time everything beside the plain encode or np.matmul, one thread, and show what is slowest."""
    lp.set_threads(1)
    listed = cells(size, rows) if count is None else drawn(count, seed)
    with ThreadpoolController().limit(limits=1):
        found = measure((cell for cell in listed if only in cell.name), budget)
    if path is not None:
        kept = {
            name: {**cell, **{key: float(f"{cell[key]:.4g}") for key in ("speed", "ratio")}}
            for name, cell in found.items()
        }
        how = {"size": size, "rows": rows} if count is None else {"drawn": count, "seed": seed}
        report = {"schema": "lowprec.cliffs/1", **how, "processor": processor()}
        write(Path(path), (json.dumps({**report, "cells": kept}, indent=1) + "\n").encode())
    for group in ("elements", "dots"):
        some = {name: cell for name, cell in found.items() if cell["group"] == group}
        if some:
            cards.show(_table(group, some, slowest))
            counts = ", ".join(f"{sum(c['ratio'] < b for c in some.values())} below {b:g}" for b in _BORDERS)
            click.echo(f"{group}: {len(some)} cells, {counts}")
    if against is not None:
        with open(against, encoding="utf-8") as file:
            before = json.load(file)["cells"]
        cards.show(_changes(before, found, slowest))


def _table(group: str, found: dict[str, dict[str, Any]], slowest: int) -> Table:
    table = Table(title=f"the slowest of {group}")
    for column in ("cell", "M/s", "ratio"):
        table.add_column(column, justify="left" if column == "cell" else "right")
    for name, cell in sorted(found.items(), key=lambda item: float(item[1]["ratio"]))[:slowest]:
        table.add_row(name, f"{cell['speed']:,.1f}", f"{cell['ratio']:.4f}")
    return table


def _changes(before: dict[str, Any], now: dict[str, Any], most: int) -> Table:
    table = Table(title="what changed most")
    for column in ("cell", "before", "now", "times"):
        table.add_column(column, justify="left" if column == "cell" else "right")
    both = [(now[name]["ratio"] / before[name]["ratio"], name) for name in now if name in before]
    for times, name in sorted(both, key=lambda pair: -abs(np.log(pair[0])))[:most]:
        table.add_row(name, f"{before[name]['ratio']:.4f}", f"{now[name]['ratio']:.4f}", f"{times:,.1f}")
    return table


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.cliffs")
