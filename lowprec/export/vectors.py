"""Test vectors: operands that matter, each with the code that it must give.

A suite is an operation, the formats of its operands and of its result, a projection and a seed.
The same suite has the same bytes everywhere: operands come from `cases` and `operands`, results from
the verbs, which the oracle has checked.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from lowprec import __version__
from lowprec.arrays.checks import Array
from lowprec.export.tabulate import provenance
from lowprec.export.vector_files import Column, VectorFile
from lowprec.spec import catalog
from lowprec.spec.format import Format
from lowprec.spec.projection import DEFAULT, Projection
from lowprec.spec.rounding import TOWARD_ZERO
from lowprec.verify.coverage.elements import plan_of_elements
from lowprec.verify.coverage.points import Plan
from lowprec.verify.inputs.operands import random_width, random_words
from lowprec.verify.reference.operations import OPERATIONS, Operation, check_operands, operand_names

#: Cases that a worker is given at a time.
_PART = 1 << 18


@dataclass(frozen=True)
class Suite:
    """Operands, as codes, and the result of each; expected flags and random integers where asked for."""

    operation: Operation
    formats: tuple[Format, ...]  #: of the operands, then of the result
    projection: Projection
    operands: tuple[Array, ...]
    results: Array
    left_out: int = 0  #: cases whose result is a NaN that the result's format has no code for
    command: str = ""
    flags: Array | None = None
    random: Array | None = None

    def file(self) -> VectorFile:
        """Return the columns and the header."""
        names = operand_names(self.operation.operands)
        columns = [
            Column(name, codes, fmt.width)
            for name, codes, fmt in zip(names, self.operands, self.formats, strict=False)
        ]
        if self.random is not None:
            columns.append(Column("random", self.random, random_width(self.projection.rounding)))
        columns.append(Column("result", self.results, self.formats[-1].width, result=True))
        if self.flags is not None:
            columns.append(Column("flags", self.flags, 5, result=True))
        header = {
            "schema": "lowprec.vectors/1",
            "lowprec": __version__,
            "command": self.command,
            "operation": self.operation.name,
            "formats": [fmt.name for fmt in self.formats],
            "rounding": str(self.projection.rounding),
            "saturation": str(self.projection.saturation),
            "cases": len(self.results),
        }
        return VectorFile(tuple(columns), self._header(), header)

    def render(self, kind: str, *, packed: bool = False) -> bytes:
        """Return the suite as a file."""
        return self.file().render(kind, packed=packed)

    def operand_lines(self, *, packed: bool = False) -> str:
        """Return the operands alone, a case a line: what a program under test reads."""
        return self.file().operand_lines(packed=packed)

    def plan(self) -> Plan:
        """Return the points of the verification plan, with the cases that hit each."""
        return plan_of_elements(
            self.operation,
            self.operands,
            self.formats,
            self.projection,
            self.results,
            self.flags,
            self.random,
        )

    def _header(self) -> list[str]:
        names = [fmt.name for fmt in self.formats]
        more = f"{'random ' * (self.random is not None)}result{' flags' * (self.flags is not None)}"
        lines = [
            provenance(self.command),
            f"{self.operation.name} {' '.join(names[:-1])} to {names[-1]}, {self.projection}; codes in "
            "hexadecimal",
            f"{len(self.results)} cases: {'operand ' * self.operation.operands}{more}",
        ]
        if self.flags is not None:
            lines.append("flags: 1 inexact, 2 underflow, 4 overflow, 8 division by zero, 10 invalid")
        if self.left_out:
            what = "NaN operands" if self.operation.name == "convert" else "cases with a NaN result"
            lines.append(f"{self.left_out} {what} are left out: {names[-1]} has no NaN")
        return lines


def suite(
    operation: str,
    formats: tuple[Format, ...],
    projection: Projection = DEFAULT,
    *,
    samples: int = 1024,
    seed: int = 0,
    flags: bool = False,
    command: str = "",
    scheduler: str | None = None,
) -> Suite:
    """Return the vectors of an operation.

    Operands of at most 16 bits together are all tried; of wider ones those that `cases.inputs` chooses
    for conversions and `operands.operands` for the others, then `samples` random ones.

    Parameters
    ----------
    operation : str
        A key of `OPERATIONS`.
    formats : tuple of Format
        Of each operand, then of the result.
    projection : Projection
        Of a stochastic mode the random integers are a column too: of each case 0, the largest, or those on
        either side of where the result changes.
    samples, seed : int
    flags : bool
        Whether the flags that each case raises are a column.
    command : str
        For the header.
    scheduler : str, optional
        Address of a Dask scheduler whose workers compute the results; the suite is the same.

    Raises
    ------
    ValueError
        A result format that is none; operands that the operation does not take.

    >>> from lowprec.spec.catalog import E2M1FN, E5M2
    >>> suite("convert", (E2M1FN, E5M2)).results[:4]
    array([ 0, 56, 60, 62], dtype=uint8)
    """
    chosen = OPERATIONS[operation]
    catalog.format(formats[-1])
    check_operands(operation, formats)
    operands = chosen.choose(formats, samples, seed)
    if projection.rounding.bits:
        every = operands[0].size
        held, random, results, raised = _drawn(chosen, list(operands), formats, projection, seed)
        left_out = every - held[0].size if held[0].ndim == 1 else 0
        shown = raised if flags else None
        return Suite(chosen, formats, projection, tuple(held), results, left_out, command, shown, random)
    if scheduler is None:
        results, raised, keep = _results(chosen, list(operands), formats, projection)
    else:
        from lowprec.verify.sweeps.cluster import (  # it reads the sources, for workers to compare
            cluster,
            in_order,
        )

        parts = (
            (chosen, [codes[start : start + _PART] for codes in operands], formats, projection)
            for start in range(0, operands[0].size, _PART)
        )
        with cluster(scheduler) as workers:
            found = list(in_order(workers, _results, parts))
        results, raised, keep = (np.concatenate(each) for each in zip(*found, strict=True))
    kept, left_out = tuple(codes[keep] for codes in operands), int(keep.size - keep.sum())
    return Suite(chosen, formats, projection, kept, results, left_out, command, raised if flags else None)


def _results(
    chosen: Operation, operands: list[Array], formats: tuple[Format, ...], projection: Projection
) -> tuple[Array, Array, Array]:
    """Return the results and flags of those cases that have one, and which these are."""
    keep = np.ones(operands[0].size, bool)
    if formats[-1].nan_code is None and projection.nan == "error":
        keep = ~chosen.gives_nan(operands, formats, projection)
    kept, flags = [codes[keep] for codes in operands], np.zeros(int(keep.sum()), np.uint8)
    return chosen.compute(kept, formats, projection, flags), flags, keep


def _drawn(
    chosen: Operation, operands: list[Array], formats: tuple[Format, ...], how: Projection, seed: int
) -> tuple[list[Array], Array, Array, Array]:
    """Return operands, random integers, results and flags of a stochastic mode."""
    if formats[-1].nan_code is None and how.nan == "error":
        keep = ~chosen.gives_nan(operands, formats, dataclasses.replace(how, rounding=TOWARD_ZERO))
        operands = [codes[keep] for codes in operands]
    operands, random = random_words(chosen.compute, operands, formats, how, seed)
    flags = np.zeros(operands[0].shape, np.uint8)
    return operands, random, chosen.compute(operands, formats, how, flags, random), flags
