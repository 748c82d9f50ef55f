"""Processes from start to end: an import, the first call, and two commands.

The yardstick is an interpreter that does nothing. The kernels of the first calls are kept in a folder
of their own: filled before the warm ones, empty for the cold ones.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from benchmarks.timing import Contender
from lowprec.export.vectors import suite
from lowprec.spec import catalog

__all__ = ["VARIANTS", "contenders"]

#: What processes do, and in how many rounds at least; the longest is run twice, once to warm up.
VARIANTS = {"import": 3, "first encode, warm": 3, "first encode, cold": 3, "compare 1 MB": 3, "conform": 1}

_FIRST = {
    "lowprec": 'import numpy, lowprec; lowprec.encode(numpy.ones(1000, "f4"), "e4m3fn")',
    "ml_dtypes": 'import numpy, ml_dtypes; numpy.ones(1000, "f4").astype("float8_e4m3fn")',
    "torch": "import torch; torch.ones(1000).to(torch.float8_e4m3fn)",
    "jax": 'import jax; jax.numpy.ones(1000).astype("float8_e4m3fn").block_until_ready()',
}


def contenders(variant: str, peers: Iterable[str], folder: Path) -> Iterator[Contender]:
    """Yield the processes of a variant; those peers take part that can be compared.

    `folder` is empty, and is written to.
    """

    def process(name: str, role: str, *arguments: str, cache: Callable[[], Path] | None = None) -> Contender:
        def call() -> None:
            kept = {} if cache is None else {"LOWPREC_CACHE_DIR": str(cache())}
            ran = subprocess.run(
                [sys.executable, *arguments], env=os.environ | kept, capture_output=True, check=False
            )
            if ran.returncode not in ((0, 1) if variant == "conform" else (0,)):  # 1: a framework differs
                raise RuntimeError(
                    f"{name}, {variant}: exit code {ran.returncode}: {ran.stderr.decode()[-500:]}"
                )

        return Contender(name, role, False, call)

    yield process("python", "yardstick", "-c", "pass")
    names = [name for name in ("numpy", "ml_dtypes", "torch", "jax") if name in peers]
    if variant == "import":
        yield process("lowprec", "ours", "-c", "import lowprec")
        for name in names:
            yield process(name, "peer", "-c", f"import {name}")
    elif variant.startswith("first"):
        number = itertools.count()
        cold = variant.endswith("cold")
        place = (lambda: folder / str(next(number))) if cold else (lambda: folder)
        yield process("lowprec", "ours", "-c", _FIRST["lowprec"], cache=place)
        for name in names:
            if name in _FIRST:
                yield process(name, "peer", "-c", _FIRST[name])
    elif variant == "conform":
        yield process("lowprec", "ours", "-m", "lowprec", "conform")
    else:
        file = folder / "answers.txt"
        file.write_bytes(_answers(1_000_000))
        command = ["-m", "lowprec", "compare", str(file), "convert", "binary32", "e4m3fn"]
        yield process("lowprec", "ours", *command)


def _answers(size: int) -> bytes:
    """Return at most `size` bytes of right answers, in whole lines, without a header that says how many."""
    text = suite("convert", (catalog.BINARY32, catalog.E4M3FN), samples=size // 12).render("text")
    text = b"".join(line for line in text.splitlines(keepends=True) if not line.startswith(b"#"))
    return text[: text.rindex(b"\n", 0, size) + 1]
