"""What calls cost, on the pages that describe them: made of a run of `benchmarks.cliffs`, never by hand.

`python -m benchmarks.cliffs --json benchmarks/cliffs.json`, then `python -m benchmarks.costs --write`.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import click

from benchmarks.cliffs import BLOCKS, FORMATS
from lowprec.files import write
from lowprec.spec.arith import OPERANDS
from lowprec.spec.rounding import MODES

__all__ = ["PAGES", "main", "section", "written"]

Cells = dict[str, dict[str, Any]]

ROOT = Path(__file__).parents[1]

#: Pages, and what they say a call is.
PAGES = {
    "arrays.md": "conversions",
    "arithmetic.md": "operations",
    "blocks.md": "blocks",
    "dot-products.md": "dot products",
}

_BEGIN, _END = "<!-- costs: written by `python -m benchmarks.costs --write` -->", "<!-- end of costs -->"
_ANY = "|".join((*FORMATS, *BLOCKS))
_CALL = re.compile(
    r"(?P<verb>\w+)( (of )?(?P<kind>(?!to )[\w -]+?)(?= to ))?"
    rf"( (to )?(?P<fmt>{_ANY}))?( (to )?(?P<onward>\w+))?(, (?P<how>.+))?"
)
_MODE = re.compile(rf", ({'|'.join(str(mode) for mode in MODES)})$$")
_DRAWN = re.compile(r"\(\d+\)$")
_OTHERS = ("less", "total_order", "nextafter", "classify", "ulp")


def kind(name: str, group: str) -> str:
    """Return what a cell is about: the values of `PAGES`."""
    if group == "dots":
        return "dot products"
    first = name.split()[0]
    if any(fmt in name for fmt in BLOCKS):
        return "blocks"
    return "operations" if first in OPERANDS or first in _OTHERS else "conversions"


def place(name: str, of: str) -> tuple[str, str]:
    """Return the row and the column of a cell."""
    if of == "dot products":
        accumulation, operands = name.split(" of ", 1)
        return f"`{accumulation}`", "blocks" if operands in BLOCKS else operands
    found = _CALL.fullmatch(_DRAWN.sub("", _MODE.sub(", other modes", name)))
    assert found is not None, f"a cell that no page has a place for: {name}"
    verb, kind, fmt, onward, how = (found[part] or "" for part in ("verb", "kind", "fmt", "onward", "how"))
    how = f", {how}" if how else ""
    if verb == "decode":
        kind, fmt = "", kind
    if of == "blocks":
        column = "NVFP4" if fmt == "nvfp4" else "MX"
        return f"{verb} {kind}".strip() + (f" to {onward}" if onward else "") + how, column
    if of == "operations":
        return verb, how.removeprefix(", ") or kind or "codes"
    if verb in ("encode", "quantize"):
        return (kind or "float32") + how, verb
    return f"{verb} to {onward}" if verb == "decode" else f"{verb} {onward}".strip() + how, "others"


def section(report: dict[str, Any], of: str) -> str:
    """Return the table of a page, in Markdown."""
    cells: Cells = report["cells"]
    speeds: dict[tuple[str, str], float] = {}
    for name, cell in cells.items():
        if kind(name, cell["group"]) == of:
            at = place(name, of)
            speeds[at] = min(cell["speed"], speeds.get(at, cell["speed"]))
    rows, columns = (list(dict.fromkeys(at[axis] for at in speeds)) for axis in (0, 1))
    unit = "products" if of == "dot products" else "elements"
    size = f"matrices of {report['rows']} rows" if of == "dot products" else f"{report['size']:,} elements"
    lines = [
        f"Millions of {unit} a second, one thread, {size}, of the slowest format that was timed",
        f"({report['processor']}). `python -m benchmarks.cliffs` measures your machine.",
        "",
        f"| | {' | '.join(column or '' for column in columns)} |",
        f"|---|{'---:|' * len(columns)}",
    ]
    for row in rows:
        shown = (speeds.get((row, column)) for column in columns)
        lines.append(f"| {row} | {' | '.join('' if it is None else f'{it:,.0f}' for it in shown)} |")
    return "\n".join([_BEGIN, *lines, _END])


def written(page: str, made: str) -> str:
    """Return a page with another table of costs."""
    before, _, rest = page.partition(_BEGIN)
    _, found, after = rest.partition(_END)
    if not found:
        raise ValueError(
            f"the page has no table of costs: put the lines {_BEGIN!r} and {_END!r} where it goes"
        )
    return before + made + after


@click.command()
@click.option("--json", "path", default=str(ROOT / "benchmarks" / "cliffs.json"), metavar="FILE")
@click.option("--write", "writes", is_flag=True, help="Write the tables; else say which pages lack them.")
def main(path: str, writes: bool) -> None:
    """Write what calls cost to the pages of docs/, from a report of benchmarks.cliffs."""
    report = json.loads(Path(path).read_text(encoding="utf-8"))
    for name, of in PAGES.items():
        page = ROOT / "docs" / name
        text = page.read_text(encoding="utf-8")
        made = written(text, section(report, of))
        if made != text:
            if not writes:
                raise click.ClickException(f"docs/{name} is not as written from {path}; use --write")
            write(page, made.encode())
            click.echo(f"docs/{name}")


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.costs")
