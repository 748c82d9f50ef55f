"""What pages say that calls cost is what the committed report says."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks import cliffs, costs


def test_pages_are_as_written():
    """Of the report that is committed."""
    result = CliRunner().invoke(costs.main, [])
    assert result.exit_code == 0, result.output


def test_every_cell_has_a_place():
    """On one page, in a row and a column of its own kind."""
    found = {}
    for cell in cliffs.cells(256, 4):
        of = costs.kind(cell.name, cell.group)
        found.setdefault(of, set()).add(costs.place(cell.name, of))
    assert set(found) == set(costs.PAGES.values())
    assert ("add", "stochastic") in found["operations"]
    assert ("less", "codes") in found["operations"]
    assert ("float32, other modes", "encode") in found["conversions"]
    assert ("encode, rule even", "NVFP4") in found["blocks"]
    assert ("`exact`", "blocks") in found["dot products"]


def test_the_slowest_counts(tmp_path):
    """Of the formats in one row."""
    cells = {f"add to {name}, flags": {"group": "elements", "speed": speed} for name, speed in
             (("e4m3fn", 70.0), ("binary32", 20.4), ("bfloat16", 90.0))}  # fmt: skip
    report = {"size": 1024, "rows": 8, "processor": "a processor", "cells": cells}
    made = costs.section(report, "operations")
    assert "| add | 20 |" in made
    assert "1,024 elements" in made
    page = "before\n" + costs.section({**report, "cells": {}}, "operations") + "\nafter\n"
    assert costs.written(page, made) == f"before\n{made}\nafter\n"
    with pytest.raises(ValueError, match="the page has no table of costs: put the lines"):
        costs.written("no table", made)
    path = tmp_path / "report.json"
    path.write_text(json.dumps(report))
    result = CliRunner().invoke(costs.main, ["--json", str(path)])
    assert result.exit_code == 1
    assert f"is not as written from {path}; use --write" in result.output


def test_the_page_counts_slow_cells_as_the_report_has_them():
    """Below each limit and the least, by group."""
    root = Path(cliffs.__file__).parents[1]
    page = (root / "docs" / "bench.md").read_text()
    cells = json.loads((root / "benchmarks" / "cliffs.json").read_text())["cells"].values()
    for name, group in (("elements", "elements"), ("dot products", "dots")):
        ratios = [cell["ratio"] for cell in cells if cell["group"] == group]
        below = [sum(ratio < limit for ratio in ratios) for limit in (1 / 20, 1 / 100)]
        row = " | ".join(map(str, [name, len(ratios), *below, f"{min(ratios):.4f}"]))
        assert f"| {row} |" in page
