"""Test vectors as files: columns of codes, in every kind of file."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lowprec.arrays.checks import Array
from lowprec.spec.naming import plain


@dataclass(frozen=True)
class Column:
    """Codes of one name: one for each case, or as many as there are lanes.

    Parameters
    ----------
    name : str
    codes : array of unsigned integers, shape (n,) or (n, lanes)
    bits : int
        Of one code.
    result : bool
        Whether a unit under test gives it, and is not given it.
    """

    name: str
    codes: Array
    bits: int
    result: bool = False

    @property
    def lanes(self) -> int:
        """Codes of a case."""
        return 1 if self.codes.ndim == 1 else self.codes.shape[1]

    @property
    def names(self) -> list[str]:
        """The name, or one for each lane: x0, x1 and so on."""
        return [self.name] if self.codes.ndim == 1 else [f"{self.name}{lane}" for lane in range(self.lanes)]

    def words(self) -> list[list[str]]:
        """Return the codes of each case in hexadecimal."""
        digits = -(-self.bits // 4)
        rows = self.codes.reshape(len(self.codes), self.lanes).tolist()
        return [[f"{code:0{digits}x}" for code in row] for row in rows]

    def packed(self) -> list[str]:
        """Return the codes of each case as one hexadecimal number: lane 0 in the lowest bits, no gaps."""
        digits = -(-self.bits * self.lanes // 4)
        rows = self.codes.reshape(len(self.codes), self.lanes).tolist()
        numbers = (sum(code << self.bits * lane for lane, code in enumerate(row)) for row in rows)
        return [f"{number:0{digits}x}" for number in numbers]

    def packed_bytes(self) -> Array:
        """Return the bytes of `packed`, the lowest first."""
        size = -(-self.bits * self.lanes // 8)
        data = b"".join(int(word, 16).to_bytes(size, "little") for word in self.packed())
        return np.frombuffer(data, np.uint8).reshape(len(self.codes), size)


@dataclass(frozen=True)
class VectorFile:
    """Columns, the lines of a header, and what the header of JSON lines says."""

    columns: tuple[Column, ...]
    header: Sequence[str]
    facts: dict[str, Any]

    def render(self, kind: str, *, packed: bool = False) -> bytes:
        """Return the file: "text", "csv", "jsonl", "mem" or "npy".

        Parameters
        ----------
        kind : str
        packed : bool
            The lanes of a column as one number, lane 0 in the lowest bits; "mem" always has them so.
        """
        makers: dict[str, Callable[[bool], str | bytes]] = {
            "text": self._text,
            "csv": self._csv,
            "jsonl": self._jsonl,
            "mem": self._mem,
            "npy": self._npy,
        }
        made = makers[kind](packed)
        return made if isinstance(made, bytes) else made.encode()

    def operand_lines(self, *, packed: bool = False) -> str:
        """Return the operands alone, a case a line: what a program under test reads."""
        return "".join(f"{' '.join(line)}\n" for line in self._lines(packed, results=False))

    def _lines(self, packed: bool, *, results: bool = True) -> Iterator[list[str]]:
        chosen = [column for column in self.columns if results or not column.result]
        parts = [[[word] for word in column.packed()] if packed else column.words() for column in chosen]
        for line in zip(*parts, strict=True):
            yield [word for words in line for word in words]

    def _names(self, packed: bool) -> list[str]:
        return [name for column in self.columns for name in ([column.name] if packed else column.names)]

    def _head(self, mark: str, packed: bool) -> str:
        """Return the header as comments; it says how lanes are packed, where they are."""
        more = (
            ["lanes are packed: lane 0 in the lowest bits"]
            if packed and any(c.lanes > 1 for c in self.columns)
            else []
        )
        return "".join(f"{mark} {plain(line)}\n" for line in [*self.header, *more])

    def _text(self, packed: bool) -> str:
        head = self._head("#", packed)
        return head + "".join(f"{' '.join(line)}\n" for line in self._lines(packed))

    def _csv(self, packed: bool) -> str:
        head = self._head("#", packed) + f"{','.join(self._names(packed))}\n"
        return head + "".join(f"{','.join(line)}\n" for line in self._lines(packed))

    def _jsonl(self, packed: bool) -> str:
        lines = [json.dumps(self.facts)]
        parts: list[list[Any]] = [
            column.packed() if packed or column.codes.ndim == 1 else column.words() for column in self.columns
        ]
        names = [column.name for column in self.columns]
        lines += [json.dumps(dict(zip(names, case, strict=True))) for case in zip(*parts, strict=True)]
        return "\n".join(lines) + "\n"

    def _mem(self, packed: bool) -> str:
        head = self._head("//", True)
        return head + "".join(f"{''.join(line)}\n" for line in self._lines(True))

    def _npy(self, packed: bool) -> bytes:
        columns = {
            column.name: column.packed_bytes() if packed and column.codes.ndim > 1 else column.codes
            for column in self.columns
        }
        count = len(next(iter(columns.values())))
        types: list[tuple[str, Any, tuple[int, ...]]] = [
            (name, codes.dtype.newbyteorder("<"), codes.shape[1:]) for name, codes in columns.items()
        ]
        table = np.empty(
            count,
            dtype=np.dtype([(name, kind, tail) if tail else (name, kind) for name, kind, tail in types]),
        )
        for name, codes in columns.items():
            table[name] = codes
        buffer = io.BytesIO()
        np.save(buffer, table)
        return buffer.getvalue()
