"""The example of docs/collage.md, reduced: the rows that the page shows, and what they are to say."""

from __future__ import annotations

import pathlib
import sys

import pytest
from click.testing import CliRunner

from tests.support import example_script

pytestmark = pytest.mark.apart

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "examples" / "collage_training.py"


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    """What the quick version prints; it writes a figure too."""
    example = example_script("collage_training")
    figure = tmp_path_factory.mktemp("collage") / "figure.png"
    run = CliRunner().invoke(example.main, ["--quick", "--plot", str(figure)], catch_exceptions=False)
    del sys.modules[example.__name__]
    assert run.exit_code == 0
    assert figure.read_bytes().startswith(b"\x89PNG")
    return run.output.splitlines()


def rows(lines):
    """Numbers by task, name and beta2, each by its column."""
    found, task, columns = {}, "", []
    for line in lines:
        if "beta2" in line:
            task, columns = line[:22].strip(), line[22:].replace("first part", "first").split()
        elif line:
            beta2, *numbers = line[22:].replace("%", "").split()
            found[task, line[:22].strip(), beta2] = dict(zip(columns[1:], map(float, numbers), strict=True))
    return found


def test_its_rows_and_columns_are_those_that_the_page_shows(lines):
    page = (ROOT / "docs" / "collage.md").read_text()
    shown = page.split("```\n")[[part.startswith("quadratics") for part in page.split("```\n")].index(True)]
    got, want = rows(lines), rows(shown.splitlines())
    assert [line for line in lines if "beta2" in line] == [
        line for line in shown.splitlines() if "beta2" in line
    ]
    assert list(got) == list(want)
    assert len(got) == 32
    assert [row["bytes"] for row in got.values()] == [row["bytes"] for row in want.values()]
    assert f"$ python {EXAMPLE.relative_to(ROOT)} --plot figure.png\n" in page


@pytest.mark.parametrize("task", ["quadratics", "digits"])
@pytest.mark.parametrize("beta2", ["0.95", "0.999"])
def test_bfloat16_alone_loses_and_parts_restore(lines, task, beta2):
    found = rows(lines)
    full, low = found[task, "fp32", beta2], found[task, "bfloat16 low", beta2]
    assert low["EDQ"] < 0.5
    assert low["lost"] > 0.6
    assert low["loss"] > full["loss"] * 1.05
    for name in ("bfloat16 light", "bfloat16 plus"):
        assert 0.99 <= found[task, name, beta2]["EDQ"] <= 1.01
        assert found[task, name, beta2]["loss"] == pytest.approx(full["loss"], rel=0.02)


@pytest.mark.parametrize("task", ["quadratics", "digits"])
def test_fp8_needs_three_parts(lines, task):
    found = rows(lines)
    edq = {name: row["EDQ"] for (where, name, _), row in found.items() if where == task}
    assert edq["e4m3fn 1+1+1"] < 0.1
    assert edq["e4m3fn 2+1+1"] < 0.8
    assert edq["e4m3fn 3+1+1"] > 0.95
    assert edq["e4m3fn 3+2+2"] > 0.95
    if task == "quadratics":
        assert edq["e5m2 3+1+1"] < 0.9
        assert edq["e5m2 4+2+2"] > 0.95
        assert found[task, "e4m3fn 3+1+1, scale 1", "0.95"]["zero"] > 0.3
