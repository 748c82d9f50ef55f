"""Accumulations drawn at random, as units to identify."""

from __future__ import annotations

import dataclasses
from typing import get_args

import numpy as np

import lowprec as lp
from lowprec.spec import catalog, families
from lowprec.spec.accumulation import MACHINES, Accumulation, Cut, Window
from lowprec.spec.order import EXACT, PAIRWISE, SEQUENTIAL, chunked
from lowprec.spec.projection import Projection
from lowprec.spec.rounding import MODES

#: Formats of operands, of outputs, and of what sums are kept in.
OPERANDS = (
    "e4m3fn",
    "e5m2",
    "e4m3fnuz",
    "e5m2fnuz",
    "binary16",
    "bfloat16",
    "tf32",
    "e3m2fn",
    "e2m1fn",
    "int8",
)
OUTPUTS = ("binary32", "binary16", "bfloat16")
INNER = ("binary32", "binary16", "bfloat16", "tf32")


def drawn(seed):
    """Return a random accumulation, its operands' formats and the length of its dot products."""
    rng = np.random.default_rng([24, seed])
    while True:
        try:
            return _drawn(rng)
        except (ValueError, TypeError):  # parameters that contradict each other
            continue


def _drawn(rng):
    def choose(*options):
        return options[int(rng.integers(len(options)))]

    def projection(fmt, **fields):
        mode = choose(*MODES) if rng.random() < 0.6 else choose(MODES[0], MODES[3])
        if rng.random() < 0.2:
            fields["saturation"] = choose("finite", "propagate")
        if rng.random() < 0.2:
            fields["subnormals"] = "flush_results"
        return fmt, Projection(rounding=mode, **fields)

    def inner():
        if rng.random() < 0.5:
            return projection(lp.format(choose(*INNER)))
        return projection(families.ieee("inner", int(rng.integers(5, 9)), int(rng.integers(4, 24))))

    first = choose(*OPERANDS)
    second = first if rng.random() < 0.7 else choose(*OPERANDS)
    operands = (lp.format(first), lp.format(second))
    output = projection(lp.format(choose(*OUTPUTS)))
    if rng.random() < 0.3:
        code = output[0].sign_code - 1
        output = (output[0], dataclasses.replace(output[1], nan_code=code, nan_sign=choose("keep", "drop")))
    length = choose(16, 24, 32, 48, 64)
    addend = choose("first", "first", "last")
    kind = rng.random()
    flushed = Projection(
        subnormals="flush_results", nan="error" if all(f.has_nan for f in operands) else "max"
    )
    rounding = flushed if rng.random() < 0.15 else None
    common = dict(operands=operands, operand_rounding=rounding, output=output)
    if kind < 0.45:
        order = choose(
            SEQUENTIAL, PAIRWISE, chunked(int(rng.integers(2, length // 2))),
            chunked(int(rng.integers(2, length // 2)), "pairwise"),
        )  # fmt: skip
        product = choose(None, None, inner())
        into = (catalog.BINARY64, Projection()) if rng.random() < 0.1 else inner()
        total = inner() if order.name == "chunked" and rng.random() < 0.5 else None
        how = Accumulation(
            product=product, order=order, accumulator=into, total=total, addend=addend, **common
        )
    elif kind < 0.9:
        step = int(rng.integers(1, length + 1)) if rng.random() < 0.5 else choose(1, 2, 4, 8, 16, 32)
        groups = choose("consecutive", "consecutive", "alternate_pairs")
        both = step * (2 if groups == "alternate_pairs" else 1)
        order, total = SEQUENTIAL, None
        if rng.random() < 0.3 and both * 2 <= length:
            order, total = chunked(both * int(rng.integers(1, length // both))), inner()
        window = Window(
            step=step,
            fraction_bits=choose(None, *map(int, rng.integers(3, 40, 6))),
            result=inner(),
            lowest_exponent=choose(-4096, -4096, int(rng.integers(-140, -10))),
            cut=choose(*get_args(Cut)),
            groups=groups,
            negative_zero=choose(False, True),
        )
        how = Accumulation(accumulator=window, order=order, total=total, addend=addend, **common)
    elif kind < 0.95:
        how = Accumulation(order=EXACT, **common)
    else:
        how = Accumulation(machine=choose(*MACHINES), **common)
    return how, operands, length
