"""Plots draw their data, into axes that are given or new ones."""

import functools

import numpy as np
import pytest

import lowprec as lp

pytest.importorskip("matplotlib")
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

VALUES = np.random.default_rng(5).normal(size=(40, 80)).astype(np.float32)


# Functions, as kernels are compiled where they are called: not while tests are collected.
@functools.cache
def codes():
    return lp.encode(VALUES, "e4m3fn")


@functools.cache
def sweep():
    return lp.sweep_formats(VALUES, elements=["e2m1fn", "mxfp4"], sizes=[])


PLOTS = {
    "number_line": lambda ax: lp.plot.number_line("e2m1fn", "e4m3fn", ties=True, log=True, ax=ax),
    "staircase": lambda ax: lp.plot.staircase("e2m1fn", -7, 7, ax=ax),
    "sqnr_by_scale": lambda ax: lp.plot.sqnr_by_scale(VALUES, "e2m1fn", ax=ax),
    "error_by_binade": lambda ax: lp.plot.error_by_binade(VALUES, lp.quantize(VALUES, "e4m3fn"), ax=ax),
    "error_by_bits": lambda ax: lp.plot.error_by_bits(sweep(), ax=ax),
    "block_errors": lambda ax: lp.plot.block_errors(VALUES, "nvfp4_2d", ax=ax),
    "accumulation_error": lambda ax: lp.plot.accumulation_error(VALUES, VALUES, ["fp32_fma", "exact"], ax=ax),
    "code_usage": lambda ax: lp.plot.code_usage(codes(), "e4m3fn", ax=ax),
    "ulp_histogram": lambda ax: lp.plot.ulp_histogram([0x38, 0x7F], [0x39, 0x00], "e4m3fn", ax=ax),
    "code_confusion": lambda ax: lp.plot.code_confusion(codes(), codes(), "e4m3fn", ax=ax),
}


def test_every_plot_is_here():
    assert set(lp.plot.__all__) - {"Plot", "data"} == set(PLOTS)


@pytest.mark.parametrize("name", PLOTS)
def test_plots_draw_into_the_axes(name):
    drawn = PLOTS[name](None)
    FigureCanvasAgg(drawn.ax.figure).draw()
    assert drawn.artists
    ax = Figure().subplots()
    again = PLOTS[name](ax)
    assert again.ax is ax
    assert all(artist.get_figure() is ax.figure for artist in again.artists if hasattr(artist, "get_figure"))


def test_lines_have_the_data():
    drawn = PLOTS["staircase"](None)
    for line, row in zip(drawn.artists, drawn.data.results, strict=True):
        assert (line.get_xdata() == drawn.data.inputs).all()
        assert (line.get_ydata() == row).all()
    values, ties = PLOTS["number_line"](None).artists[:2]
    assert values.get_xdata().tolist() == [0.5, 1, 1.5, 2, 3, 4, 6]
    assert ties.get_xdata().tolist() == [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5]


def test_bars_and_images_have_the_data():
    drawn = PLOTS["code_usage"](None)
    assert [bar.get_height() for bar in drawn.artists[0]] == drawn.data.counts.tolist()
    drawn = PLOTS["ulp_histogram"](None)
    assert [bar.get_height() for bar in drawn.artists[0]] == [1]
    assert drawn.ax.get_title() == "1 where one is NaN"
    drawn = PLOTS["code_confusion"](None)
    assert (drawn.artists[0].get_array() == np.log1p(drawn.data.counts)).all()


def test_borders_of_blocks_are_drawn():
    """40 by 80 values in squares of 16 have 2 borders between rows and 4 between columns."""
    image, *borders = PLOTS["block_errors"](None).artists
    assert image.get_array().shape == VALUES.shape
    assert sorted(border.get_xdata()[0] for border in borders[:4]) == [15.5, 31.5, 47.5, 63.5]
    assert [border.get_ydata()[0] for border in borders[4:]] == [15.5, 31.5]


def test_sums_without_an_error_have_no_point():
    drawn = PLOTS["accumulation_error"](None)
    for line, errors in zip(drawn.artists, drawn.data.rms, strict=True):
        shown = line.get_ydata()
        assert (np.isnan(shown) == (errors == 0)).all()
        assert (shown[errors > 0] == errors[errors > 0]).all()


def test_a_sweep_has_its_candidates_and_their_front():
    drawn = PLOTS["error_by_bits"](None)
    assert [line.get_label() for line in drawn.artists] == ["bias", "tensor", "blocks", "Pareto front"]
    assert drawn.artists[-1].get_ydata().tolist() == [row.sqnr for row in sweep().pareto]
