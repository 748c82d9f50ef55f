"""Rounding that makes up for itself: GPTQ, with the inputs that a layer sees.

The error of each column is spread over the columns that come after it, so that the outputs on these inputs
change least. Everything is binary64; of the elements' format nothing is known here.

Source: [GPTQ] algorithm 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.measures.errors import decibels
from lowprec.checkpoints.container import CheckpointError, Entry
from lowprec.checkpoints.decoding import values_of
from lowprec.checkpoints.folder import Checkpoint, open_checkpoint
from lowprec.checkpoints.schemes.schemes import PLAIN
from lowprec.checkpoints.weights import Weight
from lowprec.kernels.modes import usual_arithmetic

__all__ = ["Inputs", "Outputs", "Round", "Statistics", "corrected", "statistics_in"]

Array = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]
#: Rounds columns, by scales if there are some already; returns the values again, the scales and the codes.
Round = Callable[[Array, Any], tuple[Array, Any, Array]]

#: The mean of the diagonal over this is added to it: 0.01 is another float64 in a directed rounding mode.
_DAMPING = 100
#: Rows of inputs that are read at a time.
_ROWS = 1 << 14


@dataclass(frozen=True)
class Inputs:
    """Statistics of a layer's inputs that matter for its weight.

    Parameters
    ----------
    hessian : array of float64, shape (k, k)
        The sum of the products of each two inputs over all samples.
    amax : float
        The largest magnitude of an input.
    samples : int
    """

    hessian: Doubles
    amax: float
    samples: int

    @usual_arithmetic()
    def factor(self) -> Doubles:
        """Return the upper triangular factor of the inverse, by which errors are spread.

        Raises CheckpointError: inputs that are not finite.
        """
        whole = self.hessian.copy()
        diagonal = np.einsum("ii->i", whole)
        diagonal[diagonal == 0] = 1.0  # an input that is always 0: its column is rounded and no more
        diagonal += diagonal.mean() / _DAMPING
        return np.asarray(np.linalg.cholesky(np.linalg.inv(whole)).T)

    def energy(self, difference: Array) -> float:
        """Return the sum of the squared outputs of a weight, shape (n, k), on these inputs."""
        wide = np.asarray(difference, np.float64)
        return max(float(np.einsum("ij,ij->", wide @ self.hessian, wide)), 0.0)


@dataclass(frozen=True)
class Statistics:
    """A file of inputs: of a layer `NAME.weight` those are `NAME.weight` or `NAME`, shape (..., k).

    Parameters
    ----------
    checkpoint : Checkpoint
    correct : bool
        Whether weights are corrected by them; else they are measured by them and no more.
    """

    checkpoint: Checkpoint
    correct: bool = False

    def entry(self, weight: Weight) -> Entry | None:
        """Return the inputs that the file has for a weight, if any."""
        entries = self.checkpoint.entries
        return entries.get(weight.name) or entries.get(weight.name.removesuffix(".weight"))

    def of(self, weight: Weight) -> Inputs | None:
        """Return what the file says of a weight; None where it has nothing.

        Raises CheckpointError: inputs of another length than the weight's rows, NaNs, infinities, or a weight
        that has not two axes.
        """
        entry = self.entry(weight)
        return None if entry is None else _inputs(entry, weight)


def statistics_in(path: Path, correct: str | None = None) -> Statistics:
    """Return the inputs in a safetensors file or folder; nothing but headers is read yet.

    Parameters
    ----------
    path : Path
    correct : {None, "gptq"}
    """
    if correct not in (None, "gptq"):
        raise CheckpointError(f"correct={correct!r} is no correction; there is 'gptq'")
    return Statistics(open_checkpoint(path), correct is not None)


class Outputs:
    """Squared outputs of a weight, and of its errors, summed over parts of it."""

    def __init__(self, inputs: Inputs) -> None:
        self._inputs, self._sums = inputs, np.zeros(3)

    @usual_arithmetic()
    def add(self, values: Array, results: Array, plain: Array) -> None:
        """Count rows; `plain` is what rounding alone makes of them."""
        wide = values.astype(np.float64)
        parts = (wide, results - wide, plain - wide)
        self._sums += [self._inputs.energy(part) for part in parts]

    def report(self) -> dict[str, Any]:
        """Return signal to noise of the outputs in decibels, and that of rounding alone; None if infinite."""
        signal, noise, plain = self._sums
        with np.errstate(all="ignore"):
            found = [float(decibels(signal, part, self._inputs.samples)) for part in (noise, plain)]
        of = [number if np.isfinite(number) else None for number in found]
        return {"samples": self._inputs.samples, "output_sqnr": of[0], "output_sqnr_of_rounding": of[1]}


@usual_arithmetic()
def _inputs(entry: Entry, weight: Weight) -> Inputs:
    shape = weight.value_shape
    if len(shape) != 2 or entry.shape[-1:] != shape[-1:] or len(entry.shape) < 2:
        raise CheckpointError(
            f"inputs {entry.name!r} have shape {list(entry.shape)}, and weight {weight.name!r} "
            f"{list(shape)}; give (samples, {shape[-1] if shape else 0}), for weights of two axes"
        )
    hessian, amax, samples = np.zeros((shape[1], shape[1])), 0.0, 0
    each = max(_ROWS // max(int(np.prod(entry.shape[1:-1], dtype=np.int64)), 1), 1)
    found = Weight(entry.name, PLAIN, entry, shape=entry.shape)
    for start in range(0, entry.rows, each):
        part = values_of(found, start, min(start + each, entry.rows), np.float64).reshape(-1, shape[1])
        if not np.isfinite(part).all():
            raise CheckpointError(f"inputs {entry.name!r} hold NaN or infinite values")
        hessian += part.T @ part
        amax, samples = max(amax, float(np.abs(part).max(initial=0))), samples + len(part)
    return Inputs(hessian, amax, samples)


@usual_arithmetic()
def corrected(values: Array, factor: Doubles, width: int, rounded: Round) -> tuple[Doubles, Array | None]:
    """Return what each column holds when it is rounded, and the scales that it is rounded by.

    Rounding the result by these scales gives the corrected weight. Scales of blocks are found when their
    first column is reached; rows do not depend on each other.

    >>> inputs = np.array([[1.0, 1.0], [1.0, 0.9]])
    >>> factor = Inputs(inputs.T @ inputs, 1.0, 2).factor()
    >>> def nearest(part, scales):
    ...     return np.rint(part), None, np.rint(part)
    >>> corrected(np.array([[0.4, 0.3]]), factor, 1, nearest)[0].round(2)
    array([[0.4 , 0.72]])

    Parameters
    ----------
    values : array of float, shape (n, k)
    factor : array of float64, shape (k, k)
        Of `Inputs.factor`.
    width : int
        Columns of a block.
    rounded : callable
        Of a block's columns: returns their rounded values, their scales, shape (n, ...), or None, and codes;
        given scales it takes these.

    Returns
    -------
    moments : array of float64, shape (n, k)
    scales : array or None
        Of all blocks, side by side.
    """
    left = np.array(values, np.float64)
    scales: list[Array] = []
    for first in range(0, left.shape[1], width):
        last = min(first + width, left.shape[1])
        errors = np.empty((left.shape[0], last - first))
        _, of_block, _ = rounded(left[:, first:last], None)
        for column in range(first, last):
            results, _, _ = rounded(left[:, first:last], of_block)
            errors[:, column - first] = (left[:, column] - results[:, column - first]) / factor[
                column, column
            ]
            left[:, column + 1 : last] -= np.outer(
                errors[:, column - first], factor[column, column + 1 : last]
            )
        left[:, last:] -= errors @ factor[first:last, last:]
        if of_block is not None:
            scales.append(of_block)
    return left, np.concatenate(scales, axis=1) if scales else None
