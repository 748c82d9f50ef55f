"""Test vectors: operands that matter, each with the code that it must give.

A suite is an operation, the formats of its operands and of its result, a projection and a seed.
The same suite has the same bytes everywhere: operands come from `cases` and `operands`, results from
the verbs, which the oracle has checked.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec import __version__
from lowprec.export.tabulate import provenance
from lowprec.spec import catalog
from lowprec.spec.format import Format
from lowprec.spec.projection import DEFAULT, Projection
from lowprec.verify.operations import OPERATIONS, Operation, check_operands, operand_names
from lowprec.verify.shown import hex_digits

__all__ = ["Suite", "suite"]

Array = npt.NDArray[Any]

#: Cases that a worker is given at a time.
_PART = 1 << 18


@dataclass(frozen=True)
class Suite:
    """Operands, as codes, and the result of each."""

    operation: Operation
    formats: tuple[Format, ...]  #: of the operands, then of the result
    projection: Projection
    operands: tuple[Array, ...]
    results: Array
    left_out: int = 0  #: cases whose result is a NaN that the result's format has no code for
    command: str = ""

    def render(self, kind: str) -> bytes:
        """Return the suite as a file."""
        makers: dict[str, Callable[[], str | bytes]] = {
            "text": self._text,
            "csv": self._csv,
            "jsonl": self._jsonl,
            "mem": self._mem,
            "npy": self._npy,
        }
        made = makers[kind]()
        return made if isinstance(made, bytes) else made.encode()

    def operand_lines(self) -> str:
        """Return the operands alone, a case a line: what a program under test reads."""
        return "".join(f"{' '.join(line[:-1])}\n" for line in self._lines())

    def _lines(self) -> Iterator[list[str]]:
        columns = [
            _hex_column(codes, fmt)
            for codes, fmt in zip((*self.operands, self.results), self.formats, strict=True)
        ]
        for line in zip(*columns, strict=True):
            yield list(line)

    def _header(self) -> list[str]:
        names = [fmt.name for fmt in self.formats]
        lines = [
            provenance(self.command),
            f"{self.operation.name} {' '.join(names[:-1])} to {names[-1]}, {self.projection}; codes in "
            "hexadecimal",
            f"{self.results.size} cases: {'operand ' * self.operation.operands}result",
        ]
        if self.left_out:
            what = "NaN operands" if self.operation.name == "convert" else "cases with a NaN result"
            lines.append(f"{self.left_out} {what} are left out: {names[-1]} has no NaN")
        return lines

    def _text(self) -> str:
        head = "".join(f"# {line}\n" for line in self._header())
        return head + "".join(f"{' '.join(line)}\n" for line in self._lines())

    def _csv(self) -> str:
        head = "".join(f"# {line}\n" for line in self._header())
        names = ",".join([*operand_names(self.operation.operands), "result"])
        return f"{head}{names}\n" + "".join(f"{','.join(line)}\n" for line in self._lines())

    def _jsonl(self) -> str:
        header = {
            "schema": "lowprec.vectors/1",
            "lowprec": __version__,
            "command": self.command,
            "operation": self.operation.name,
            "formats": [fmt.name for fmt in self.formats],
            "rounding": str(self.projection.rounding),
            "saturation": str(self.projection.saturation),
            "cases": int(self.results.size),
        }
        names = [*operand_names(self.operation.operands), "result"]
        lines = [
            json.dumps(header),
            *(json.dumps(dict(zip(names, line, strict=True))) for line in self._lines()),
        ]
        return "\n".join(lines) + "\n"

    def _mem(self) -> str:
        head = "".join(f"// {line}\n" for line in self._header())
        return head + "".join(f"{''.join(line)}\n" for line in self._lines())

    def _npy(self) -> bytes:
        names = [*operand_names(self.operation.operands), "result"]
        columns = (*self.operands, self.results)
        table = np.empty(
            self.results.size,
            dtype=[
                (name, column.dtype.newbyteorder("<")) for name, column in zip(names, columns, strict=True)
            ],
        )
        for name, column in zip(names, columns, strict=True):
            table[name] = column
        buffer = io.BytesIO()
        np.save(buffer, table)
        return buffer.getvalue()


def suite(
    operation: str,
    formats: tuple[Format, ...],
    projection: Projection = DEFAULT,
    *,
    samples: int = 1024,
    seed: int = 0,
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
    samples, seed : int
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
    if scheduler is None:
        results, keep = _results(chosen, list(operands), formats, projection)
    else:
        from lowprec.verify.spread import cluster, in_order  # it reads the sources, for workers to compare

        parts = (
            (chosen, [codes[start : start + _PART] for codes in operands], formats, projection)
            for start in range(0, operands[0].size, _PART)
        )
        with cluster(scheduler) as workers:
            found = list(in_order(workers, _results, parts))
        results, keep = (np.concatenate(each) for each in zip(*found, strict=True))
    kept = tuple(codes[keep] for codes in operands)
    return Suite(chosen, formats, projection, kept, results, int(keep.size - keep.sum()), command)


def _results(
    chosen: Operation, operands: list[Array], formats: tuple[Format, ...], projection: Projection
) -> tuple[Array, Array]:
    """Return the results of those cases that have one, and which these are."""
    keep = np.ones(operands[0].size, bool)
    if formats[-1].nan_code is None and projection.nan == "error":
        keep = ~chosen.gives_nan(operands, formats, projection)
    return chosen.compute([codes[keep] for codes in operands], formats, projection), keep


def _hex_column(codes: Array, fmt: Format) -> list[str]:
    digits = hex_digits(fmt)
    return [f"{code:0{digits}x}" for code in codes.tolist()]
