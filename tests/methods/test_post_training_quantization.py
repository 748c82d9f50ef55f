"""The example of post-training quantisation: its quick run, and that its page shows what it prints."""

from __future__ import annotations

import pathlib
import runpy

import pytest
from click.testing import CliRunner

pytestmark = pytest.mark.apart

DOCS = pathlib.Path(__file__).parents[2] / "docs"


def read(text):
    """Names of formats, factors, and for each format its pairs of accuracy and decibels."""
    first, _, heads, *lines = text.strip().splitlines()
    rows = {name: list(map(float, numbers)) for name, *numbers in map(str.split, lines)}
    pairs = {
        name: list(zip(row[::2], row[1::2], strict=True)) for name, row in rows.items() if name != "float"
    }
    return first, heads.split(), rows["float"], pairs


@pytest.fixture(scope="module")
def shown():
    """The table of the page."""
    block = (DOCS / "fp8-recipe.md").read_text().partition("--plot ptq.png\n")[2]
    return block.partition("```")[0]


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """The table of a quick run, and the figure's file."""
    figure = tmp_path_factory.mktemp("plot") / "ptq.png"
    main = runpy.run_path(str(DOCS / "examples" / "post_training_quantization.py"))["main"]
    result = CliRunner().invoke(main, ["--quick", "--plot", str(figure)], catch_exceptions=False)
    assert result.exit_code == 0
    assert figure.read_bytes().startswith(b"\x89PNG")
    return result.stdout


def test_rows_and_columns_are_those_that_the_page_shows(printed, shown):
    ours, theirs = read(printed), read(shown)
    assert ours[:2] == theirs[:2]
    assert list(ours[3]) == list(theirs[3])


@pytest.mark.parametrize("source", ["printed", "shown"])
def test_int8_collapses_where_fp8_and_mxfp8_hold(source, request):
    """Bounds, as BLAS differs between processors and trains another network."""
    _, _, accuracies, rows = read(request.getfixturevalue(source))
    assert len(set(accuracies)) == 1
    assert accuracies[0] > 85
    for name in ("e4m3fn", "e5m2", "mxfp8_e4m3", "mxfp8_e5m2"):
        assert all(abs(accuracy - accuracies[0]) < 7 for accuracy, _ in rows[name])
        assert all(abs(decibels - rows[name][0][1]) < 2 for _, decibels in rows[name])
    assert all(27 < decibels < 33 for _, decibels in rows["e4m3fn"])
    assert rows["int8"][0][1] > 38
    assert rows["int8"][-1][1] < 3
    assert rows["int8"][-1][0] < 30
    assert rows["mxint8"][0][1] > 38
    assert rows["mxint8"][-1][1] < 10
    assert rows["mxfp6_e3m2"][2][1] > rows["mxfp6_e2m3"][2][1] + 5
