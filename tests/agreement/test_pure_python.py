"""The kernels are Python first: without the compiler they give the oracle's answers too."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]

REDUCED = """
import math
import numpy as np
import lowprec as lp
from lowprec.kernels import convert as kernels
from lowprec.oracle import convert as oracle
from lowprec.oracle.exact import to_float
from lowprec.spec import catalog
from tests.support import (
    MODE_PROJECTIONS, assert_same_bits, assert_same_codes, both_signs, border_points, overflow_points, projected,
)

assert not hasattr(kernels.convert, "py_func"), "compiled"
FORMATS = [lp.format(name) for name in (
    "e4m3fn", "e5m2fnuz", "e2m1fn", "e8m0fnu", "ue5m3", "int8f6", "uint4", "binary5p1se", "binary16",
    "bfloat16", "binary32",
)]
compared = 0
for fmt in FORMATS:
    lasts = range(max(fmt.max_magnitude - 3, 0), fmt.max_magnitude + 2)
    normal = 1 << fmt.trailing_bits
    magnitudes = sorted({m for m in (0, 1, 2, 3, normal - 1, normal, normal + 1, *lasts) if m <= fmt.max_magnitude + 1})
    others = [0.0, -0.0, 2.0**-300, -(2.0**-300)]
    values = np.concatenate([border_points(fmt, magnitudes), overflow_points(fmt), others])
    if fmt.has_nan:
        values = np.concatenate([values, [math.nan, -math.nan]])
    for projection in MODE_PROJECTIONS:
        # A Python int would wrap where np.uint64 does; NumPy only warns of it.
        with np.errstate(over="ignore"):
            got = lp.encode(values, fmt, projection=projection)
            again = lp.quantize(values, fmt, projection=projection)
        want = projected(values, fmt, projection)
        assert_same_codes(got, want, fmt, values, projection)
        decoded = np.array([to_float(oracle.decode(code, fmt)) for code in want])
        assert_same_bits(again, decoded, values, str(fmt))
        compared += 2 * len(want)
    codes = np.unique(np.concatenate([np.arange(32), np.arange(1 << fmt.width)[-32:] if fmt.width <= 16 else []]))
    codes = codes[codes < 1 << fmt.width].astype(np.int64)
    with np.errstate(over="ignore"):
        got = lp.decode(codes, fmt, dtype="float64")
        narrowed = lp.cast(codes, fmt, "e5m2")
    want = np.array([to_float(oracle.decode(int(code), fmt)) for code in codes])
    assert_same_bits(got, want, codes, str(fmt))
    want = [oracle.cast(int(code), fmt, catalog.E5M2) for code in codes]
    assert_same_codes(narrowed, want, catalog.E5M2, codes)
    compared += 2 * codes.size
for dtype in (np.int64, np.uint64, np.int8):
    limits = np.iinfo(dtype)
    values = np.array([limits.min, limits.min + 1, 0, 1, 17, 100, limits.max - 1, limits.max], dtype)
    with np.errstate(over="ignore"):
        got = lp.encode(values, "bfloat16")
    want = [oracle.project(__import__("fractions").Fraction(int(value)), catalog.BFLOAT16) for value in values]
    assert_same_codes(got, want, catalog.BFLOAT16, values)
    compared += values.size
print(compared)
"""


def test_without_the_compiler_every_verb_agrees_with_the_oracle():
    """A reduced run: specials, both ends of the range with ties and neighbours, of eleven formats in eight modes.

    It shows that no answer rests on what compiled integers do and Python's would not.
    """
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", REDUCED],
        cwd=ROOT,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) > 10_000
