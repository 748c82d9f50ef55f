"""The kernels are Python first: without the compiler they give the oracle's answers too."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from lowprec.spec.arith import OPERANDS

pytestmark = pytest.mark.apart

ROOT = pathlib.Path(__file__).parents[2]

REDUCED = """
import math
import numpy as np
import lowprec as lp
from lowprec.kernels.scalar import convert as kernels
from lowprec.oracle import convert as oracle
from lowprec.oracle.exact import to_float
from lowprec.spec import catalog
from tests.support import (
    MODE_PROJECTIONS, assert_same_bits, assert_same_codes, both_signs, border_points, overflow_points,
    projected,
)

assert not hasattr(kernels.convert_to_codebook, "py_func"), "compiled"
FORMATS = [lp.format(name) for name in (
    "e4m3fn", "e5m2fnuz", "e2m1fn", "e8m0fnu", "ue5m3", "int8f6", "uint4", "binary5p1se", "binary16",
    "bfloat16", "binary32",
)]
compared = 0
for fmt in FORMATS:
    lasts = range(max(fmt.max_magnitude - 3, 0), fmt.max_magnitude + 2)
    normal = 1 << fmt.trailing_bits
    magnitudes = {0, 1, 2, 3, normal - 1, normal, normal + 1, *lasts}
    magnitudes = sorted(m for m in magnitudes if m <= fmt.max_magnitude + 1)
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
    last_codes = np.arange(1 << fmt.width)[-32:] if fmt.width <= 16 else []
    codes = np.unique(np.concatenate([np.arange(32), last_codes]))
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
    exact = [__import__("fractions").Fraction(int(value)) for value in values]
    want = [oracle.project(value, catalog.BFLOAT16) for value in exact]
    assert_same_codes(got, want, catalog.BFLOAT16, values)
    compared += values.size
print(compared)
"""


BLOCKS = """
import dataclasses
from fractions import Fraction
import numpy as np
import lowprec as lp
from lowprec.kernels.general import blocks as kernels
from lowprec.oracle import block as oracle
from lowprec.oracle.exact import from_float, to_float

assert not hasattr(kernels.magnitudes(True), "py_func"), "compiled"
rng = np.random.default_rng(0)
values = np.ldexp(rng.integers(-64, 65, (3, 70)).astype(np.float32), rng.integers(-9, 9, (3, 70), np.int32))
values[0, :32] = 0
values[1, 3], values[2, 40] = np.inf, 2.0**-140
values[2, 64:] = [2.0**-149, 0, -0.0, 2.0**-126, 2.0**-130, 0]
compared = 0
for name, axis in (
    ("mxfp8_e4m3", 1), ("mxfp4", 0), ("mxint8", 1), ("nvfp4", 1), ("nvfp4", 0), ("fp8_block_1x128", 1)
):
    for dtype in (np.float32, np.float64):
        fmt = lp.block_formats[name]
        # A Python int would wrap where np.uint64 does; NumPy only warns of it.
        with np.errstate(over="ignore"):
            blocks = lp.encode(values.astype(dtype), fmt, axis=axis)
            decoded = [lp.decode(blocks, dtype=kind) for kind in (np.float32, np.float64)]
        tensor = oracle.ONE
        if blocks.tensor_scale is not None:
            largest = Fraction(float(np.abs(values[np.isfinite(values)]).max()))
            tensor = oracle.tensor_scale([largest], fmt)
            assert tensor.value == float(blocks.tensor_scale)
        rows = [np.moveaxis(array, axis, -1) for array in (values, blocks.codes, blocks.scales, *decoded)]
        for row, codes, scales, singles, doubles in zip(*rows, strict=True):
            for block, scale in enumerate(scales.tolist()):
                part = slice(block * fmt.sizes[0], (block + 1) * fmt.sizes[0])
                exact = [from_float(float(value)) for value in row[part]]
                want = oracle.encode(exact, fmt, tensor)
                got = scale, codes[part].tolist()
                assert got == want, (name, axis, dtype, block, got, want)
                truth = np.array([to_float(value) for value in oracle.decode(*want, fmt, tensor.value)])
                assert np.array_equal(doubles[part], truth, equal_nan=True), (name, axis, block)
                with np.errstate(over="ignore"):
                    truth_in_float32 = truth.astype(np.float32)
                assert np.array_equal(singles[part], truth_in_float32, equal_nan=True), (name, axis, block)
                compared += truth.size
print(compared)
"""


OPERATIONS = """
import random
import numpy as np
import lowprec as lp
from lowprec.arrays.operations import codes_of
from lowprec.arrays.checks import code_dtype
from lowprec.kernels.scalar import arith as kernels
from lowprec.oracle import arith as oracle
from lowprec.spec import catalog
from lowprec.spec.arith import OPERANDS
from lowprec.spec.projection import Projection
from tests.operations import chosen, operand

assert not hasattr(kernels.operate, "py_func"), "compiled"
np.seterr(all="ignore")  # words wrap, and numbers overflow
compared = 0
for operation, count in OPERANDS.items():
    for name, target in (("binary16", "e4m3fn"), ("binary32", "binary32"), ("binary16", "bfloat16")):
        fmt, goal = catalog.format(name), catalog.format(target)
        columns = chosen(operation, fmt, 48, 2)
        formats = [fmt] * count
        if operation == "scaleb":
            formats[1] = catalog.INT8
            columns[1] = columns[1] % 256
        operands = [operand(column, each) for column, each in zip(columns, formats, strict=True)]
        for mode in ("nearest_even", "toward_negative"):
            projection = Projection(rounding=mode)
            rows = list(zip(*(column.tolist() for column in columns), strict=True))
            want = [oracle.operate(operation, row, formats, goal, projection) for row in rows]
            flags = np.zeros(len(rows), np.uint8)
            fast = codes_of(operation, operands, goal, projection, code_dtype(goal))
            got = codes_of(operation, operands, goal, projection, code_dtype(goal), flags=flags)
            for row, code, other, flag, (known, signals) in zip(rows, got, fast, flags, want, strict=True):
                assert (code, other, flag) == (known, known, signals), (operation, name, target, row, mode)
                compared += 1
x, y = np.resize(np.float32([1, -0.0, np.nan, np.inf, 3]), 300), np.resize(np.float32([0.0, 2, np.nan]), 300)
for operation in ("minimum", "maximum_number"):  # of so many numbers vectors choose
    few = getattr(lp, operation)(x[:15], y[:15], "e4m3fn", backend="oracle")
    assert getattr(lp, operation)(x, y, "e4m3fn").tobytes() == np.resize(few, 300).tobytes(), operation
print(compared)
"""


DOTS = """
import numpy as np
import lowprec as lp
from lowprec.arrays.checks import code_dtype
from lowprec.oracle.convert import decode
from lowprec.oracle.dot import dot as oracle
from lowprec.oracle.exact import from_float
from lowprec.spec import catalog
from lowprec.spec.accumulations import accumulation
from tests.agreement.test_dots import E6M25, groups_of_16, near_one, pairs_of_rows

np.seterr(all="ignore")  # words wrap, and numbers overflow
rng, compared = np.random.default_rng(4), 0
for name, fmt in (
    ("fp32_fma", "binary32"), ("fp32_sequential", "e5m2"), ("bf16_sequential", "e4m3fn"),
    ("fp16_sequential", "e4m3fn"),
    ("hopper_wgmma_e4m3fn_binary32", "e4m3fn"), ("volta_mma_binary16_binary16", "binary16"),
    ("blackwell_mma_e4m3fn_binary32", "e4m3fn"), (groups_of_16(E6M25), "e4m3fn"), ("exact", "bfloat16"),
    ("fp32_pairwise", "binary16"), ("cdna2_mfma_binary16_binary32", "binary16"),
    ("cdna3_mfma_e4m3fnuz_binary32", "e4m3fnuz"), ("cdna1_mfma_bfloat16_binary32", "bfloat16"),
):
    how, fmt = accumulation(name), catalog.format(fmt)
    x, y = pairs_of_rows((fmt, fmt), 3, 19, rng)
    for near in (False, True):
        if near:
            x, y = near_one(x, fmt, rng), near_one(y, fmt, rng)
        addend = rng.normal(size=(3, 3)).astype(np.float32)
        values = [lp.decode(codes, fmt, dtype="float64") for codes in (x, y)]
        got = lp.matmul(values[0], values[1].T, how, addend=addend, dtype=code_dtype(how.output[0]))
        exact = [[[decode(int(code), fmt) for code in row] for row in codes] for codes in (x, y)]
        for i in range(3):
            for j in range(3):
                want = oracle(exact[0][i], exact[1][j], how, from_float(float(addend[i, j])))
                assert int(got[i, j]) == want, (str(how), near, i, j, hex(int(got[i, j])), hex(want))
                compared += 1
print(compared)
"""


#: Memory that nothing was written to holds signaling NaNs, which no operation takes in silence.
UNWRITTEN = """
import numpy as np
def empty(shape, dtype=float, order="C", *, like=None):
    made = np.zeros(shape, dtype, order)
    if made.dtype.kind in "uif" and made.flags.c_contiguous:
        made.reshape(-1).view(np.uint8)[:] = np.resize(np.array([1, 0, 0x80, 0x7F], np.uint8), made.nbytes)
    return made
np.empty = empty
"""


def interpreted(script: str) -> int:
    """What a script prints last, run without the compiler and with warnings as errors."""
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", UNWRITTEN + script],
        cwd=ROOT,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return int(run.stdout)


def test_without_the_compiler_blocks_agree_with_the_oracle():
    """The kernels in lanes and the general one: ragged tails, zeros, infinities, the smallest numbers."""
    assert interpreted(BLOCKS) == 2520


def test_without_the_compiler_operations_agree_with_the_oracle():
    """Both kernels; specials, ties and cancellation, into formats near 1 and wide ones."""
    assert interpreted(OPERATIONS) == len(OPERANDS) * 3 * 2 * 48


def test_without_the_compiler_dot_products_agree_with_the_oracle():
    """Vectors and the general kernel, machines and windows; numbers of all sizes, and near 1."""
    assert interpreted(DOTS) == 13 * 2 * 9


def test_without_the_compiler_every_verb_agrees_with_the_oracle():
    """Reduced: specials, both ends of the range with ties and neighbours; eleven formats, eight modes.

    It shows that no answer rests on what compiled integers do and Python's would not.
    """
    assert interpreted(REDUCED) > 10_000
