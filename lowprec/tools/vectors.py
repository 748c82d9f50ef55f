"""Test vectors: operands that matter, each with the code that it must give.

A suite is an operation, the formats of its operands and of its result, a projection and a seed.
The same suite has the same bytes everywhere: operands come from `cases` and `operands`, results from
the verbs, which the oracle has checked.

Floor 5.
"""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec import __version__
from lowprec.arrays.checks import code_dtype, codes_operand
from lowprec.arrays.convert import cast, encode
from lowprec.arrays.operations import codes_of
from lowprec.spec import catalog
from lowprec.spec.arith import OPERANDS
from lowprec.spec.format import Carrier, Format
from lowprec.spec.projection import DEFAULT, Projection
from lowprec.tools import cases
from lowprec.tools.operands import operands as operands_that_matter
from lowprec.tools.tabulate import hex_digits, provenance

__all__ = ["OPERATIONS", "Operation", "Suite", "check_operands", "is_nan", "operand_format", "operand_names", "suite"]

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Operation:
    """What a program under test computes: `operands` codes in, one code out."""

    name: str
    operands: int
    choose: Callable[[tuple[Format, ...], int, int], list[Array]]
    compute: Callable[[list[Array], tuple[Format, ...], Projection], Array]
    gives_nan: Callable[[list[Array], tuple[Format, ...], Projection], Array]


def operand_format(name: str) -> Format:
    """A format or carrier by name: operands may be binary64 or 64-bit integers, results may not."""
    return catalog.carrier(name) or catalog.format(name)


def _choose(formats: tuple[Format, ...], samples: int, seed: int) -> list[Array]:
    source, target = formats
    if source.width <= 16:
        return [np.arange(1 << source.width, dtype=code_dtype(source))]
    if isinstance(source, Carrier) or source == catalog.BINARY32:
        chosen = _codes(cases.inputs(target, _dtype(source)))
        return [np.concatenate([chosen, _codes(cases.sample(_dtype(source), samples, seed))])]
    # Any other wide format: the codes on either side of what matters in float64, and its own borders.
    points = cases.inputs(target, "float64")
    points = points[~np.isnan(points)]
    sides = [encode(points, source, rounding=mode) for mode in ("toward_zero", "away_from_zero")]
    borders = cases.magnitudes(source).astype(code_dtype(source))
    random = np.random.default_rng(seed).integers(0, 1 << source.width, samples, dtype=code_dtype(source))
    signed = borders | borders.dtype.type(source.sign_code)
    return [np.concatenate([np.unique(np.concatenate([*sides, borders, signed])), random])]


def _convert(operands: list[Array], formats: tuple[Format, ...], projection: Projection) -> Array:
    source, target = formats
    if isinstance(source, Carrier):
        return np.asarray(encode(operands[0].view(_dtype(source)), target, projection=projection))
    return np.asarray(cast(operands[0], source, target, projection=projection))


def _nan_operands(operands: list[Array], formats: tuple[Format, ...], projection: Projection) -> Array:
    return is_nan(operands[0], formats[0])


def _operate(name: str, operands: list[Array], formats: tuple[Format, ...], projection: Projection) -> Array:
    *sources, target = formats
    given = [codes_operand(codes, source) for codes, source in zip(operands, sources, strict=True)]
    # Asked for flags, the general kernel answers: it reads codes alone, and never takes them for values.
    flags = np.zeros(operands[0].shape, np.uint8)
    return np.asarray(codes_of(name, given, target, projection, code_dtype(target), flags=flags))


def _nan_results(name: str, operands: list[Array], formats: tuple[Format, ...], projection: Projection) -> Array:
    """Which results are NaN before the last rounding: binary32 has a NaN and gives it for nothing else."""
    widest = Projection(subnormals=projection.subnormals, via=projection.via)
    codes = _operate(name, operands, (*formats[:-1], catalog.BINARY32), widest)
    return is_nan(codes, catalog.BINARY32)


def _operation(name: str, count: int) -> Operation:
    choose = functools.partial(operands_that_matter, name)
    return Operation(name, count, choose, functools.partial(_operate, name), functools.partial(_nan_results, name))


#: What there are vectors of, by name.
OPERATIONS = {
    "convert": Operation("convert", 1, _choose, _convert, _nan_operands),
    **{name: _operation(name, count) for name, count in OPERANDS.items()},
}


def check_operands(operation: str, formats: tuple[Format, ...]) -> None:
    """Refuse operands that an operation does not take: `scaleb` has an integer as its second.

    >>> from lowprec.spec.catalog import BINARY16, INT8
    >>> check_operands("scaleb", (BINARY16, INT8, BINARY16))
    """
    if operation == "scaleb" and (formats[1].exponent_bits or formats[1].scaled(0)[1]):
        raise ValueError(
            f"scaleb takes an integer as its second operand, the power of two, not {formats[1].name!r}; "
            f"use a format such as 'int8' or 'int32'"
        )


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
        """The suite as a file."""
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
        """Operands alone, a case a line: what a program under test reads."""
        return "".join(f"{' '.join(line[:-1])}\n" for line in self._lines())

    def _lines(self) -> Iterator[list[str]]:
        columns = [
            _hex_column(codes, fmt) for codes, fmt in zip((*self.operands, self.results), self.formats, strict=True)
        ]
        for line in zip(*columns, strict=True):
            yield list(line)

    def _header(self) -> list[str]:
        names = [fmt.name for fmt in self.formats]
        lines = [
            provenance(self.command),
            f"{self.operation.name} {' '.join(names[:-1])} to {names[-1]}, {self.projection}; codes in hexadecimal",
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
        lines = [json.dumps(header), *(json.dumps(dict(zip(names, line, strict=True))) for line in self._lines())]
        return "\n".join(lines) + "\n"

    def _mem(self) -> str:
        head = "".join(f"// {line}\n" for line in self._header())
        return head + "".join(f"{''.join(line)}\n" for line in self._lines())

    def _npy(self) -> bytes:
        names = [*operand_names(self.operation.operands), "result"]
        columns = (*self.operands, self.results)
        table = np.empty(
            self.results.size,
            dtype=[(name, column.dtype.newbyteorder("<")) for name, column in zip(names, columns, strict=True)],
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
) -> Suite:
    """The vectors of an operation.

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
    keep = np.ones(operands[0].size, bool)
    if formats[-1].nan_code is None and projection.nan == "error":
        keep = ~chosen.gives_nan(operands, formats, projection)
    kept = [codes[keep] for codes in operands]
    results = chosen.compute(kept, formats, projection)
    left_out = int(keep.size - keep.sum())
    return Suite(chosen, formats, projection, tuple(kept), results, left_out, command)


def is_nan(codes: Array, fmt: Format) -> Array:
    """Which codes of a format are NaNs."""
    wide = codes.astype(np.uint64)
    magnitude = wide & np.uint64(~fmt.sign_code & (1 << fmt.width) - 1)
    above = np.uint64(min(fmt.max_magnitude + fmt.infinity, (1 << 64) - 1))
    nan = (magnitude > above) & (fmt.nans > 0)
    return np.asarray(nan if fmt.negative_zero else nan | (wide == np.uint64(fmt.sign_code)))


def operand_names(count: int) -> list[str]:
    """What the columns of operands are called.

    >>> operand_names(2)
    ['operand1', 'operand2']
    """
    return ["operand"] if count == 1 else [f"operand{number}" for number in range(1, count + 1)]


def _dtype(fmt: Format) -> np.dtype[Any]:
    """The NumPy type of a source wider than 16 bits."""
    names = {"binary32": "float32", "binary64": "float64"}
    return np.dtype(names.get(fmt.name, fmt.name))


def _codes(values: Array) -> Array:
    return values.view(f"u{values.dtype.itemsize}")


def _hex_column(codes: Array, fmt: Format) -> list[str]:
    digits = hex_digits(fmt)
    return [f"{code:0{digits}x}" for code in codes.tolist()]
