"""sweep_formats: errors are those of the verbs, the front is one, and bad calls are refused."""

import dataclasses
import json
import math
import re

import numpy as np
import pytest

import lowprec as lp
from lowprec.arrays.measures.format_sweep import elements_of
from lowprec.spec.families import finite
from tests.examples import example_script, printed

VALUES = np.random.default_rng(3).standard_t(4, size=(40, 96)).astype(np.float32)


@pytest.fixture(scope="module")
def found():
    return lp.sweep_formats(VALUES, 4, sizes=[16, 32], scales=["e8m0fnu", "ue4m3"], rules=["floor", "rceil"])


def sqnr(made, values=VALUES):
    exact = values.astype(np.float64)
    return 10 * math.log10(np.sum(exact**2) / np.sum((made - exact) ** 2))


@pytest.mark.apart
def test_blocks_have_the_error_of_their_report(found):
    rows = [row for row in found.rows if row.scaling == "blocks"]
    assert len(rows) == 72
    for row in rows[::24]:
        report = lp.error_report(VALUES, row.format, axis=-1)
        assert row.sqnr == pytest.approx(report.sqnr, rel=1e-12)
        of_tensor = 32 / VALUES.size if row.format.tensor_scale != "none" else 0
        assert row.bits == row.format.bits_per_value + of_tensor


def test_biases_have_the_error_of_quantize_as_it_is(found):
    rows = [row for row in found.rows if row.scaling == "bias"]
    assert {row.format.exponent_bits for row in rows} == {1, 2, 3}
    assert len(rows) == 9
    for row in rows:
        made = lp.quantize(VALUES.astype(np.float64), row.format, saturation="finite", backend="scalar")
        assert row.sqnr == pytest.approx(sqnr(made), rel=1e-12)
        assert row.bits == 4
    largest = np.abs(VALUES).max()
    for exponent_bits in (1, 2, 3):
        limits = sorted(row.format.max_finite for row in rows if row.format.exponent_bits == exponent_bits)
        assert limits[1] < largest <= limits[2]


@pytest.mark.apart
def test_scales_of_tensors_are_those_of_scale_for_or_better(found):
    for row in found.rows:
        if row.scaling == "tensor":
            scale = lp.scale_for(VALUES, row.format, "mse")
            made = (
                lp.quantize(
                    VALUES.astype(np.float64) / scale, row.format, saturation="finite", backend="scalar"
                )
                * scale
            )
            assert row.sqnr >= sqnr(made) - 1e-9
            assert row.bits == 4 + 32 / VALUES.size
    posits = [row for row in found.rows if row.scaling == "tensor" and "posit" in row.format.name]
    assert len(posits) == 3
    assert all(row.sqnr > 5 for row in posits)  # the scale that reaches their largest value leaves none


def test_the_front_is_what_nothing_beats(found):
    assert [row.bits for row in found.rows] == sorted(row.bits for row in found.rows)
    for row in found.rows:
        beaten = any(other.bits <= row.bits and other.sqnr > row.sqnr for other in found.rows)
        cheaper = any(other.bits < row.bits and other.sqnr >= row.sqnr for other in found.rows)
        alike = [each for each in found.rows if (each.bits, each.sqnr) == (row.bits, row.sqnr)]
        assert any(each in found.pareto for each in alike) == (not beaten and not cheaper)
    assert all(row.sqnr < after.sqnr for row, after in zip(found.pareto, found.pareto[1:], strict=False))
    assert found.pareto[-1] == found.best()
    assert found.best(4).bits == 4


def test_elements_are_all_splits_and_what_is_known():
    assert [fmt.name for fmt in elements_of(2)] == ["e1m0", "int2"]
    for width in range(2, 9):
        splits = {finite("", bits, width - 1 - bits) for bits in range(1, width)}
        assert splits <= set(elements_of(width))
        assert all(fmt.width == width for fmt in elements_of(width))
    assert {"e4m3fn", "e5m2", "hif8", "takum8", "posit8"} <= {fmt.name for fmt in elements_of(8)}


@pytest.mark.parametrize(("shape", "size", "bits"), [((64, 16), 128, 5.0), ((4, 40), 32, 4.8)])
def test_blocks_that_are_short_cost_a_scale_too(shape, size, bits):
    """By hand: one scale of 16 bits for 16 values; and two for the 40 of a row."""
    values = VALUES.ravel()[: np.prod(shape)].reshape(shape)
    (row,) = lp.sweep_formats(values, elements=["int4"], sizes=[size], scales=["bfloat16"]).rows[-1:]
    assert row.bits == bits


def test_a_tensors_scale_above_blocks_costs_its_bits():
    """By hand: NF4 on 64 values with a binary32 scale of the tensor, with and without scales of blocks."""
    values = VALUES.ravel()[:64]
    tried = lp.sweep_formats(values, elements=["nf4", "nvfp4"], sizes=[64], scales=["ue4m3", "bfloat16"])
    bits = {str(row): row.bits for row in tried.rows}
    assert bits["nf4, one scale"] == 4.5
    assert bits["nf4 in blocks of 64, scales bfloat16 by divide"] == 4.25
    assert bits["nf4 in blocks of 64, scales ue4m3 by divide, and of the tensor"] == 4.625
    assert bits["nvfp4"] == 5
    halves = {"a": values[:32], "b": values[32:]}
    tried = lp.sweep_formats(halves, elements=["nvfp4", "mxfp4"])
    assert {str(row): row.bits for row in tried.rows} == {"nvfp4": 5.5, "mxfp4": 4.25}


def test_several_tensors_have_one_format_each():
    data = {"small": VALUES / 64, "large": VALUES}
    tried = lp.sweep_formats(data, elements=["mxfp4", "e2m1fn"], sizes=[], progress=None)
    assert len(tried.rows) == 5
    row = next(row for row in tried.rows if row.scaling == "blocks")
    assert row.by_tensor.keys() == data.keys()
    assert row.by_tensor["large"] == pytest.approx(lp.error_report(VALUES, "mxfp4").sqnr, rel=1e-12)
    assert str(row) == "mxfp4"
    (scaled,) = (row for row in tried.rows if row.scaling == "tensor")
    assert scaled.bits == 4 + 64 / (2 * VALUES.size)


def test_what_is_not_finite_takes_no_part():
    odd = VALUES.copy()
    odd[3, 5], odd[7, 9] = np.nan, -np.inf
    zeros = np.where(np.isfinite(odd), odd, 0)
    options = {"elements": ["e2m1fn", "iq4_nl"], "sizes": [32], "scales": ["e8m0fnu"]}
    first, second = (lp.sweep_formats(each, **options) for each in (odd, zeros))
    assert [row.sqnr for row in first.rows] == [row.sqnr for row in second.rows]
    assert first.size == second.size - 2


def test_integers_and_progress():
    told = []
    tried = lp.sweep_formats(
        np.arange(-50, 50).reshape(4, 25),
        elements=["int8"],
        sizes=[5],
        progress=lambda *done: told.append(done),
    )
    assert tried.best().sqnr == math.inf
    assert told[0] == (0, 6)
    assert told[-1] == (6, 6)


def test_the_lowest_integer_has_the_largest_magnitude():
    """Give -128 its magnitude, which int8 itself has no number for."""
    tried = lp.sweep_formats(np.int8([[-128, 3, 5]]), elements=["e4m3fn"], sizes=[])
    assert [row.format.max_finite >= 128 for row in tried.rows if row.scaling == "bias"].count(True) == 1


@pytest.mark.parametrize(
    ("largest", "biases"),
    [
        (6.0, {1, 2, 3}),
        (np.nextafter(6.0, 0), {1, 2, 3}),
        (np.nextafter(6.0, 7), {0, 1, 2}),
        (12.0, {0, 1, 2}),
        (6 * 2.0**-20, {21, 22, 23}),
    ],
)
def test_the_first_bias_is_the_largest_that_clips_nothing(largest, biases):
    """Take e2m1fn, whose largest value is 6 with bias 1."""
    tried = lp.sweep_formats([largest, 0.1 * largest], elements=["e2m1fn"], sizes=[])
    assert {row.format.bias for row in tried.rows if row.scaling == "bias"} == biases


@pytest.mark.parametrize("number", [3.0, np.float32(3), np.array(3.0), np.array(True)])
def test_a_number_is_a_tensor_of_one_value(number):
    one = lp.sweep_formats(number, 3, sizes=[2])
    assert (one.size, one.rows) == (1, lp.sweep_formats([number], 3, sizes=[2]).rows)


@pytest.mark.filterwarnings("ignore:method='mse' needs all values")
def test_empty_tensors_add_nothing_to_errors():
    array = pytest.importorskip("dask.array")
    options = {"elements": ["e2m1fn", "mxfp4"], "sizes": []}
    empty = np.zeros((0, 3), np.float32)
    held = lp.sweep_formats({"a": VALUES_3, "b": empty}, **options)
    lazy = lp.sweep_formats({"a": array.from_array(VALUES_3), "b": array.from_array(empty)}, **options)
    assert [row.sqnr for row in held.rows] == [row.sqnr for row in lazy.rows]
    assert all(row.sqnr > 0 for row in lazy.rows)
    assert all(math.isnan(row.by_tensor["b"]) for row in (*held.rows, *lazy.rows))


def test_data_that_no_scale_reaches_is_refused_as_such():
    """Near the largest float64 number; the biases that it would need are beyond it, and none is tried."""
    with pytest.raises(
        ValueError, match=r"values up to 1e\+308 need a scale for '\w+' that float32 does not"
    ):
        lp.sweep_formats([1e308, 2e307], width=4, sizes=(2,))


#: Makes an array in memory, and a lazy one.
ARRAYS = [np.asarray, lambda values: pytest.importorskip("dask.array").from_array(np.asarray(values))]


@pytest.mark.parametrize("scale", [1e-200, 1e200])
@pytest.mark.parametrize("array", ARRAYS)
def test_values_whose_squares_leave_float64_are_refused(scale, array):
    """Refuse to rank where squares of all errors are 0, or those of all values infinite."""
    values = array(np.random.default_rng(0).standard_normal((4, 64)) * scale)
    with pytest.raises(ValueError, match=r"squares of these values, .* np.ldexp\(values, -?66[0-9]\)"):
        lp.sweep_formats(values, elements=["mxfp4", "mxfp8_e4m3"])


@pytest.mark.parametrize("array", ARRAYS)
def test_errors_whose_squares_are_zero_count_as_nan(array):
    """Add nothing of such a tensor beside another; an exact candidate has inf, and only that one."""
    near = np.random.default_rng(0).standard_normal((4, 64))
    tensors, how = {"near": array(near)}, {"elements": ["e2m1fn", "e3m0fn"], "sizes": [], "scales": []}
    found = lp.sweep_formats(tensors | {"tiny": array(near * 1e-200)}, **how)
    alone = {row.format.name: row.sqnr for row in lp.sweep_formats(tensors, **how).rows}
    assert all(np.isnan(row.by_tensor["tiny"]) for row in found.rows)
    assert all(row.sqnr == alone[row.format.name] for row in found.rows if row.scaling == "bias")
    low = dataclasses.replace(lp.format("e2m1fn"), name="low", bias=1060)
    exact = lp.sweep_formats(array([2.0**-1060]), elements=["e3m0fn", low], sizes=[], scales=[])
    assert exact.best().sqnr == exact.pareto[0].sqnr == np.inf


def test_results_are_hashed(found):
    assert len({found, dataclasses.replace(found), *found.rows}) == 1 + len(found.rows)


def test_data_for_others(found):
    read = json.loads(json.dumps(found.as_dict()))
    assert len(read["candidates"]) == len(found.rows)
    assert read["candidates"][0].keys() == {"format", "scaling", "bits", "sqnr", "by_tensor"}
    assert repr(found) == f"<FormatSweep of {len(found.rows)} candidates on 3,840 values>"


@pytest.mark.apart
@pytest.mark.filterwarnings("ignore:method='mse' needs all values")
def test_dask_arrays_have_the_same_rows():
    array = pytest.importorskip("dask.array")
    options = {"elements": ["e2m1fn", "int4"], "sizes": [32], "scales": ["e8m0fnu", "bfloat16"]}
    whole = lp.sweep_formats({"a": VALUES, "b": VALUES * 9}, **options)
    lazy = lp.sweep_formats(
        {"a": array.from_array(VALUES, chunks=(7, 96)), "b": array.from_array(VALUES * 9)}, **options
    )
    assert [str(row) for row in lazy.rows] == [str(row) for row in whole.rows]
    for one, other in zip(lazy.rows, whole.rows, strict=True):
        assert one.sqnr == pytest.approx(other.sqnr, rel=1e-12)
        assert one.bits == other.bits


@pytest.mark.apart
def test_the_example_prints_the_front(tmp_path):
    """Its formats vary with the network, and so with the machine."""
    made = printed(example_script("finding_formats"), "--quick", "--plot", tmp_path / "p.png")
    assert "nf4, one scale" in made
    assert re.search(r"^ +4\.5016 +\d\d\.\d\d  nvfp4$", made, re.M)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: lp.sweep_formats(VALUES, 9), ValueError, "width must be 2 to 8 bits, not 9"),
        (lambda: lp.sweep_formats(VALUES, [4.5]), ValueError, "width must be 2 to 8 bits, not 4.5"),
        (lambda: lp.sweep_formats(VALUES), ValueError, "needs a width, such as 4, or elements"),
        (lambda: lp.sweep_formats(np.zeros(4), 4), ValueError, "needs a finite value other than zero"),
        (lambda: lp.sweep_formats([np.nan, np.inf], 4), ValueError, "needs a finite value other than zero"),
        (lambda: lp.sweep_formats({}, 4), ValueError, "needs a finite value other than zero"),
        (lambda: lp.sweep_formats(VALUES, elements=["e9m9"]), ValueError, "unknown format 'e9m9'"),
        (lambda: lp.sweep_formats(VALUES, 4, rules=["best"]), ValueError, "unknown scale rule 'best'"),
        (lambda: lp.sweep_formats(["a"], 4), TypeError, "values must be real numbers"),
        (lambda: lp.sweep_formats(VALUES, 4, sizes=32), TypeError, "sizes takes several: give [32]"),
        (
            lambda: lp.sweep_formats(VALUES, 4, rules="floor"),
            TypeError,
            "rules takes several: give ['floor']",
        ),
        (lambda: lp.sweep_formats(VALUES, elements="nf4"), TypeError, "elements takes several: give ['nf4']"),
        (
            lambda: lp.sweep_formats(VALUES, 4, scales=lp.formats["ue4m3"]),
            TypeError,
            "scales takes several: give ['ue4m3']",
        ),
        (
            lambda: lp.sweep_formats(VALUES, elements=["nf4"]).best(3),
            ValueError,
            "no candidate has at most 3",
        ),
    ],
)
def test_bad_calls_are_refused(call, error, message):
    with pytest.raises(error, match=re.escape(message)):
        call()


@pytest.mark.parametrize("width", [np.int64(3), np.array(3), 3])
def test_widths_are_any_integers(width):
    assert lp.sweep_formats(VALUES_3, width, sizes=[]).rows == lp.sweep_formats(VALUES_3, [3], sizes=[]).rows


def test_names_that_are_spelled_alike_are_refused():
    with pytest.raises(ValueError, match="two tensors are named '1'"):
        lp.sweep_formats({1: VALUES_3, "1": VALUES_3}, 3)


VALUES_3 = np.float32([1.0, -2.5, 0.25])


def test_tiles_are_tried_beside_blocks():
    x = np.random.default_rng(3).standard_normal((32, 64)).astype(np.float32)
    rows = lp.sweep_formats(x, elements=["nvfp4_2d", "mxfp4"]).rows
    assert {row.format.name for row in rows} == {"nvfp4_2d", "mxfp4"}
    for row in rows:
        assert row.sqnr == pytest.approx(lp.error_report(x, row.format).sqnr, rel=1e-12)
