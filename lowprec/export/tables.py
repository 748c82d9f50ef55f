"""Tables of a format, as files that other tools read: decode tables and encode thresholds.

What a table says comes from the oracle. Formats of at most 16 bits; those for hardware languages
at most 8, where a table is what a designer wants.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lowprec import __version__
from lowprec.export import cards, hdl, markdown
from lowprec.export.c.c_header import c_header, codebook_header
from lowprec.export.tabulate import provenance, rows, thresholds, value_words
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format
from lowprec.spec.projection import DEFAULT, Projection
from lowprec.verify.codes.display import decimal, hex_code, hex_digits, hex_float
from lowprec.verify.reference.binary32_steps import binary32_steps


@dataclass(frozen=True)
class Table:
    """A table to export: a format, the projection for encode thresholds, and the command that requests it."""

    fmt: Format
    projection: Projection = DEFAULT
    thresholds: bool = False
    command: str = ""

    def render(self, kind: str) -> bytes:
        """Return the file's bytes.

        Raises
        ------
        ValueError
            A format too wide for this kind of file.
        """
        limit = 8 if kind in ("sv", "vhdl") else 16
        if self.fmt.width > limit:
            raise ValueError(
                f"{self.fmt.name!r} has {self.fmt.width}-bit codes; tables as {kind} are for at most {limit} "
                f"bits{', as csv, json, md, npy, mem or c for 16' if limit == 8 else ''}"
            )
        if kind in ("c", "sv", "vhdl"):
            return _source(self, kind).encode()
        makers: dict[str, Callable[[Table], str | bytes]] = {
            "csv": _csv, "json": _json, "md": _markdown, "npy": _npy, "mem": _mem
        }  # fmt: skip
        made = makers[kind](self)
        return made if isinstance(made, bytes) else made.encode()


def _source(table: Table, kind: str) -> str:
    """Return a table as a source in C, SystemVerilog or VHDL."""
    fmt, said = table.fmt, provenance(table.command)
    if kind == "c":
        return codebook_header(fmt, said) if isinstance(fmt, Codebook) else c_header(fmt, said)
    return (hdl.systemverilog if kind == "sv" else hdl.vhdl)(fmt, table.projection, said)


def _columns(table: Table) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """Return the titles and the rows of a table to read: codes, magnitudes and values as text."""
    fmt = table.fmt
    if table.thresholds:
        steps = thresholds(fmt, table.projection)
        shown = [(sign, hex_float(size), hex_code(code, fmt), decimal(size)) for sign, size, code in steps]
        return ("sign", "magnitude", "code", "decimal"), shown
    codes = [(hex_code(code, fmt), kind, hex_float(value), decimal(value)) for code, kind, value in rows(fmt)]
    return ("code", "class", "value", "decimal"), codes


def _csv(table: Table) -> str:
    lines = [f"# {provenance(table.command)}"]
    if table.thresholds:
        lines.append(
            f"# {table.projection}; an operand of this sign has the code of the last magnitude not above it"
        )
    titles, shown = _columns(table)
    return "\n".join([*lines, *map(",".join, (titles, *shown))]) + "\n"


def _json(table: Table) -> str:
    document: dict[str, Any] = {
        "schema": "lowprec.table/1",
        "lowprec": __version__,
        "command": table.command,
        "format": cards.describe(table.fmt),
    }
    if table.thresholds:
        document["projection"] = {
            "rounding": str(table.projection.rounding),
            "saturation": str(table.projection.saturation),
        }
        document["thresholds"] = [
            {"sign": sign, "magnitude": hex_float(magnitude), "code": code}
            for sign, magnitude, code in thresholds(table.fmt, table.projection)
        ]
    else:
        document["codes"] = [
            {"code": code, "class": kind, "value": hex_float(value), "decimal": decimal(value)}
            for code, kind, value in rows(table.fmt)
        ]
    return json.dumps(document, indent=1) + "\n"


def _markdown(table: Table) -> str:
    titles, shown = _columns(table)
    what = "the value of every code"
    if table.thresholds:
        what, titles = (
            f"encode thresholds, {table.projection}",
            ("sign", "first magnitude", "decimal", "code"),
        )
        shown = [(sign, size, number, code) for sign, size, code, number in shown]
    lines = [f"<!-- {provenance(table.command)} -->", "", f"# {table.fmt.name}: {what}", ""]
    return "\n".join([*lines, *markdown.head(*titles), *(markdown.row(*each) for each in shown)]) + "\n"


def _npy(table: Table) -> bytes:
    import numpy as np

    array: Any
    if table.thresholds:
        fields = [("negative", "?"), ("magnitude", "<f8"), ("code", f"<u{table.fmt.code_bits // 8}")]
        steps = thresholds(table.fmt, table.projection)
        array = np.array([(sign == "-", size, code) for sign, size, code in steps], np.dtype(fields))
    else:
        array = np.array([value for _, _, value in rows(table.fmt)], "<f8")
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def _mem(table: Table) -> str:
    lines = [f"// {provenance(table.command)}"]
    if table.thresholds:
        code_digits = hex_digits(table.fmt)
        lines.append(
            f"// {table.projection}; a word is the first binary32 magnitude (8 digits), then its code"
        )
        for sign, (magnitudes, codes) in zip("+-", binary32_steps(table.fmt, table.projection), strict=True):
            lines.append(f"// operands of sign {sign}: {len(codes)} words")
            lines += [f"{m:08x}{code:0{code_digits}x}" for m, code in zip(magnitudes, codes, strict=True)]
    else:
        name, words = value_words(table.fmt)
        lines.append(f"// the value of code 0, 1, 2, ... as {name}")
        digits = 8 if name == "binary32" else 16
        lines += [f"{word:0{digits}x}" for word in words]
    return "\n".join(lines) + "\n"
