"""Operations at length, for `tests.sweep`: every pair of small formats, a million of others.

Each task compares both kernels with the oracle, or with NumPy, and gives the oracle's codes.
"""

from collections.abc import Iterator

import numpy as np

import lowprec as lp
from lowprec.arrays.checks import code_dtype
from lowprec.arrays.operations import codes_of
from lowprec.spec import catalog
from lowprec.spec.arith import OPERANDS
from lowprec.spec.projection import Saturation
from lowprec.spec.rounding import MODES
from tests.operations import Expected, all_tuples, chosen, operand, policy

SMALL = ("e4m3fn", "e5m2", "e4m3fnuz", "e3m2fn", "e2m3fn", "e2m1fn")
WIDE = ("binary16", "bfloat16")
NUMPY = ("binary16", "binary32")
BATCH, NUMPY_BATCH = 100_000, 1_000_000

Task = tuple[str, str, str, int]  #: kind, operation, format, batch


def tasks() -> Iterator[Task]:
    """All, an operation after the other."""
    for operation, count in OPERANDS.items():
        if operation == "scaleb":
            continue
        for name in SMALL if count < 3 else SMALL[-1:]:
            yield "all", operation, name, 0
        if operation in ("add", "subtract", "multiply", "divide", "fma"):
            for name in SMALL[:-1] if operation == "fma" else WIDE:
                yield from (("many", operation, name, batch) for batch in range(10))
                yield "modes", operation, name, 10
        if operation == "sqrt":
            yield from (("all", operation, name, 0) for name in WIDE)
        if operation in ("add", "subtract", "multiply", "divide", "sqrt"):
            yield from (("numpy", operation, name, batch) for name in NUMPY for batch in range(10))


def work(task: Task) -> tuple[str, bytes, int]:
    """The operation, the codes, and how many of them differ."""
    kind, operation, name, batch = task
    fmt = catalog.format(name)
    if kind == "numpy":
        return operation, *_as_numpy(operation, fmt, batch)
    if kind == "all":
        columns = all_tuples(fmt, OPERANDS[operation])
        projections = [policy(fmt, rounding=mode, saturation=each) for mode in MODES for each in Saturation]
    else:
        columns = chosen(operation, fmt, BATCH if kind == "many" else 10_000, batch)
        projections = [policy(fmt, rounding=mode) for mode in (MODES[:1] if kind == "many" else MODES[1:])]
    expected = Expected(operation, columns, [fmt] * len(columns))
    operands, codes, wrong = [operand(column, fmt) for column in columns], b"", 0
    for projection in projections:
        want = expected.codes(fmt, projection)
        flags = np.zeros(want.size, np.uint8)
        for signals in ({}, {"flags": flags}):
            got = codes_of(operation, operands, fmt, projection, code_dtype(fmt), **signals)
            wrong += int((got != want).sum())
        codes += want.astype("<u4").tobytes()
    return operation, codes, wrong


def _as_numpy(operation: str, fmt: lp.Format, batch: int) -> tuple[bytes, int]:
    """A million bit patterns, half of them close to each other; the sign of a NaN does not count."""
    dtype = lp.dtype(fmt)
    rng = np.random.default_rng([batch, fmt.width])
    x, y = (rng.integers(0, 1 << fmt.width, NUMPY_BATCH).astype(code_dtype(fmt)) for _ in range(2))
    y[::2] = x[::2] ^ fmt.sign_code ^ rng.integers(0, 64, x[::2].size).astype(x.dtype)
    operands = (x.view(dtype),) if operation == "sqrt" else (x.view(dtype), y.view(dtype))
    with np.errstate(all="ignore"):
        want = getattr(np, operation)(*operands)
    got = getattr(lp, operation)(*operands, fmt, dtype=dtype)
    nan = np.isnan(want)
    differ = (np.isnan(got) != nan) | (~nan & (got.view(x.dtype) != want.view(x.dtype)))
    return np.where(nan, fmt.nan_code, want.view(x.dtype)).astype("<u4").tobytes(), int(differ.sum())
