"""Stages of a sum: where numbers are kept between two operations, as codes.

Floor 2b. Imports numba through `jit`; never the oracle, which checks it.
"""

from __future__ import annotations

import numpy as np

from lowprec.kernels.jit import helper
from lowprec.kernels.lower.dot import DOWNWARD, SOURCE
from lowprec.kernels.lower.kinds import GENERATED, NAN
from lowprec.kernels.lower.scalar import Params
from lowprec.kernels.scalar.arith import added
from lowprec.kernels.scalar.convert import load_grid, load_source, project
from lowprec.kernels.scalar.numbers import Number, operand

__all__ = ["Stage", "number_of", "placed", "summed"]

Stage = Params  #: words of a target, those that read its codes, and DOWNWARD

_U = np.uint64
_0 = _U(0)


@helper
def placed(x: Number, random: np.uint64, stage: Stage) -> np.uint64:
    """Return the code of a number at a stage."""
    code, _ = project(x.kind, x.negative, x.high, x.low, x.exponent, random, load_grid(stage), stage)
    return code


@helper
def number_of(code: np.uint64, stage: Stage) -> Number:
    """Return the number that a code at a stage stands for."""
    x, _ = operand(code, load_source(stage[SOURCE:]))
    return x


@helper
def summed(x: Number, y: Number, random: np.uint64, stage: Stage) -> np.uint64:
    """Return the code of a sum; of two NaNs that of the first, unless an operation generated that NaN."""
    if x.kind >= NAN or y.kind >= NAN:
        first = x.kind >= NAN and (x.kind != GENERATED or y.kind < NAN)
        return placed(x if first else y, random, stage)
    made = added(x, y, stage[DOWNWARD] != _0)
    return placed(Number(made.kind, made.negative, made.high, made.low, made.exponent), random, stage)
