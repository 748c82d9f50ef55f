"""What plots show is what the verbs give: compared code by code, and with sums in fractions."""

from fractions import Fraction

import numpy as np
import pytest

import lowprec as lp
from lowprec.plot import data
from lowprec.spec.codebooks import ENTRIES
from lowprec.spec.rounding import MODES
from tests.support import python, refusal_test

VALUES = np.random.default_rng(5).normal(size=(6, 80)).astype(np.float32)


def test_neither_the_package_nor_the_data_need_matplotlib():
    program = (
        "import sys; sys.modules['matplotlib'] = None; import lowprec as lp\n"
        "print(len(lp.plot.data.number_line('e4m3fn').lines[0].values))\n"
        "try: lp.plot.number_line('e4m3fn')\nexcept ImportError as error: print(error)"
    )
    assert python("-c", program).splitlines() == ["253", "plots need matplotlib: pip install 'lowprec[plot]'"]


@pytest.mark.parametrize("name", ["e4m3fn", "e5m2", "e4m3fnuz", "e8m0fnu", "int8", "posit8", "nf4"])
def test_a_number_line_has_every_finite_value_once_in_order(name):
    line = data.number_line(name).lines[0]
    fmt = lp.formats[name] if name in lp.formats else lp.codebooks[name]
    every = np.asarray(lp.decode(np.arange(1 << fmt.width), fmt, dtype=np.float64))
    assert set(line.values) == set(every[np.isfinite(every)])
    assert (np.diff(line.values) > 0).all()
    assert (np.asarray(lp.decode(line.codes, fmt, dtype=np.float64)) == line.values).all()
    assert not (np.signbit(line.values) & (line.values == 0)).any()


@pytest.mark.parametrize("name", ["e4m3fn", "e2m1fn", "int8", "posit8", "nf4", "e8m0fnu"])
def test_ties_are_where_modes_to_nearest_change(name):
    """The numbers just beside a tie go to the values beside it."""
    line = data.number_line(name).lines[0]
    assert len(line.ties) == len(line.values) - 1
    # Of posits nothing but zero becomes zero: there the tie is the value itself.
    inner = (line.ties != line.values[:-1]) & (line.ties != line.values[1:])
    assert np.count_nonzero(~inner) == 2 * (name == "posit8")
    below, above = np.nextafter(line.ties, -np.inf), np.nextafter(line.ties, np.inf)
    assert (np.asarray(lp.quantize(below, name), np.float64) == line.values[:-1])[inner].all()
    assert (np.asarray(lp.quantize(above, name), np.float64) == line.values[1:])[inner].all()


def test_limits_of_a_number_line():
    assert data.number_line("e2m1fn", low=1, high=3).lines[0].values.tolist() == [1, 1.5, 2, 3]
    assert data.number_line("e2m1fn", low=7).lines[0].ties.size == 0
    assert data.number_line("nf4", low=7).lines[0].ties.size == 0


@pytest.mark.parametrize("name", ["e4m3fn", "nf4"])
def test_a_staircase_is_what_each_mode_gives(name):
    found = data.staircase(name, -3, 3, modes=MODES, points=97)
    assert found.modes == tuple(mode.name for mode in MODES)
    for mode, row in zip(MODES, found.results, strict=True):
        codes = lp.encode(found.inputs, name, rounding=mode, saturation="finite", backend="oracle")
        assert (row == np.asarray(lp.decode(codes, name, dtype=np.float64))).all()


@pytest.mark.apart
def test_sqnr_by_scale_is_that_of_the_report():
    found = data.sqnr_by_scale(VALUES, "e4m3fn")
    assert found.scales.size == 33
    assert found.best in found.scales.tolist()
    for scale, sqnr in zip(found.scales[::8], found.sqnr[::8], strict=True):
        assert lp.error_report(VALUES, "e4m3fn", scale=scale, saturation="finite").sqnr == sqnr


@pytest.mark.apart
@pytest.mark.parametrize(
    "name", ["posit8", "takum8", "takum_linear8", "hif8", "nf4", "e2m1fn", "int8", "binary16"]
)
@pytest.mark.parametrize("size", [1.0, 2.0**-140, 2.0**120])
def test_scales_by_default_reach_past_the_best_one(name, size):
    """The best scale that `scale_for` finds is among them, and both ends are worse."""
    values = VALUES * np.float32(size)
    found = data.sqnr_by_scale(values, name)
    best = lp.scale_for(values, name, "mse")
    assert best in found.scales
    assert found.sqnr.max() >= lp.error_report(values, name, scale=best, saturation="finite").sqnr
    assert (np.diff(found.scales) > 0).all()
    if size == 1:
        assert found.scales.size == 33
        assert 0 < found.sqnr.argmax() < 32
        assert found.sqnr.max() > found.sqnr[[0, -1]].max()


def test_errors_by_binade_against_fractions():
    results = np.asarray(lp.quantize(VALUES, "e2m1fn", saturation="finite"))
    given = np.append(VALUES.ravel(), np.float32([0, np.inf, np.nan]))
    found = data.error_by_binade(given, np.append(results.ravel(), np.float32([0, 6, 0])))
    assert found.left_out == 3
    assert found.counts.sum() == VALUES.size
    for binade, largest in zip(found.binades, found.largest, strict=True):
        inside = [
            abs(Fraction(float(got)) - Fraction(float(x))) / abs(Fraction(float(x)))
            for x, got in zip(VALUES.ravel(), results.ravel(), strict=True)
            if 2.0 ** int(binade) <= abs(x) < 2.0 ** (int(binade) + 1)
        ]
        assert float(max(inside)) == pytest.approx(largest, rel=1e-15)


@pytest.mark.apart
@pytest.mark.parametrize(
    ("name", "axis", "size"), [("mxfp4", -1, (1, 32)), ("mxfp4", 0, (32, 1)), ("nvfp4_2d", None, (16, 16))]
)
def test_block_errors_are_results_less_values(name, axis, size):
    found = data.block_errors(VALUES, name, axis)
    blocks = lp.encode(VALUES, name, axis=axis)
    assert (found.errors == blocks.values(np.float64) - VALUES).all()
    assert found.size == size
    assert found.sqnr.shape == blocks.scales.shape


def test_block_errors_leave_out_what_is_not_finite():
    errors = data.block_errors(np.float32([1, np.inf]), "nvfp4").errors
    assert errors.shape == (1, 2)
    assert np.isnan(errors[0, 1])


def test_numbers_whose_errors_would_be_lost_are_refused():
    with pytest.raises(ValueError, match="does not hold 1 of the values, such as 4611686018427387905"):
        data.error_by_binade(np.array([2**62 + 1]), np.array([2**62]))
    with pytest.raises(ValueError, match="x holds numbers that binary32 does not have"):
        data.accumulation_error([[1 + 2.0**-40]], [[1.0]], ["exact"])


def test_accumulation_errors_are_those_of_dot():
    x, y = (np.asarray(lp.quantize(VALUES, "e4m3fn")), np.asarray(lp.quantize(VALUES[::-1], "e4m3fn")))
    names = ["exact", "hopper_wgmma_e4m3fn_binary32"]
    found = data.accumulation_error(x, y, names)
    assert found.lengths.tolist() == [1, 2, 4, 8, 16, 32, 64, 80]
    assert found.rms[0].max() < 2.0**-24 < found.rms[1, -1]
    squares = []
    for row in range(len(x)):
        terms = [Fraction(float(a)) * Fraction(float(b)) for a, b in zip(x[row], y[row], strict=True)]
        error = Fraction(float(lp.dot(x[row], y[row], names[1]))) - sum(terms)
        squares.append(float(error / sum(map(abs, terms))) ** 2)
    assert np.sqrt(np.mean(squares)) == pytest.approx(found.rms[1, -1], rel=1e-12)


@pytest.mark.parametrize("name", ["e4m3fn", "e4m3fnuz", "int8", "e8m0fnu", "posit8"])
def test_code_usage_counts_each_code_and_orders_by_value(name):
    codes = np.random.default_rng(1).integers(0, 256, 3000).astype(np.uint8)
    found = data.code_usage(codes, name)
    assert sorted(found.codes) == list(range(256))
    assert (found.counts == [np.count_nonzero(codes == code) for code in found.codes]).all()
    finite = found.values[~np.isnan(found.values)]
    assert (np.diff(finite) >= 0).all()
    assert not np.isnan(found.values[: finite.size]).any()


def test_code_usage_of_blocks_is_that_of_their_elements():
    blocks = lp.encode(VALUES, "mxfp4")
    assert (data.code_usage(blocks).counts == data.code_usage(blocks.codes, "e2m1fn").counts).all()


@pytest.mark.parametrize("name", ["e4m3fn", "e4m3fnuz", "e5m2", "int8", "e8m0fnu", "posit8", "e2m1fn"])
def test_distances_count_steps_to_the_next_value(name):
    """Of all pairs of codes: by places in the sorted list of different values."""
    fmt = lp.format(name)
    codes = np.arange(1 << fmt.width)
    values = [float(value) for value in lp.decode(codes, fmt, dtype=np.float64)]
    ladder = {
        value: place for place, value in enumerate(sorted({value for value in values if value == value}))
    }
    want, got = np.repeat(codes, codes.size), np.tile(codes, codes.size)
    wanted, odd = {}, 0
    for first in values:
        for second in values:
            if (first != first) != (second != second):
                odd += 1
            else:
                distance = 0 if first != first else ladder[second] - ladder[first]
                wanted[distance] = wanted.get(distance, 0) + 1
    found = data.ulp_histogram(want, got, fmt)
    assert dict(zip(found.distances.tolist(), found.counts.tolist(), strict=True)) == wanted
    assert found.no_distance == odd


def test_distances_without_a_zero():
    """The values next to zero are neighbours where there is none."""
    fmt = lp.Format(name="nozero", exponent_bits=2, trailing_bits=1, bias=1, subnormals=False)
    assert data.ulp_histogram([0b1000], [0], fmt).distances.tolist() == [1]


def test_confusion_counts_pairs():
    old = np.random.default_rng(2).integers(0, 256, 2000)
    new = np.random.default_rng(3).integers(0, 16, 2000)
    found = data.code_confusion(old, new, "e4m3fn", "e2m1fn")
    assert found.counts.shape == (256, 16)
    assert found.counts.sum() == 2000
    for code in range(0, 256, 17):
        for other in range(16):
            assert found.counts[code, other] == np.count_nonzero((old == code) & (new == other))


@pytest.mark.parametrize("name", [name for name, entry in ENTRIES.items() if entry.width <= 8])
def test_codebooks_have_a_tie_between_any_two_values(name):
    line = data.number_line(name, low=-2, high=2).lines[0]
    assert len(line.ties) == len(line.values) - 1
    assert ((line.ties >= line.values[:-1]) & (line.ties <= line.values[1:])).all()


def test_codes_in_the_type_of_their_format_count_as_codes():
    codes = lp.encode([1.0, 2.0, 4.0, -1.0], "e4m3fn")
    typed = codes.view(lp.dtype("e4m3fn"))
    assert np.array_equal(data.code_usage(typed, "e4m3fn").counts, data.code_usage(codes, "e4m3fn").counts)
    assert data.ulp_histogram(typed, (codes + 1).view(typed.dtype), "e4m3fn").distances.tolist() == [-1, 1]
    assert np.argwhere(data.code_confusion(typed, codes, "e4m3fn").counts)[:, 0].tolist() == sorted(codes)
    found = data.code_usage(np.int8([-1, 3]), "int8")
    assert found.values[found.counts > 0].tolist() == [-1.0, 3.0]


def test_data_refuse_masks_names_and_frames_that_do_not_match():
    """What NumPy would take by its places, without what says where it belongs."""
    pd, xr = pytest.importorskip("pandas"), pytest.importorskip("xarray")
    codes, values = np.ones((2, 2), np.uint8), np.ones((2, 2), np.float32)
    calls = [
        (codes, lambda given: data.code_usage(given, "e2m1fn")),
        (codes, lambda given: data.ulp_histogram(codes, given, "e2m1fn")),
        (codes, lambda given: data.code_confusion(given, codes, "e2m1fn")),
        (values, lambda given: data.block_errors(given, "mxfp4")),
        (values, lambda given: data.accumulation_error(values, given, ["fp32_fma"])),
    ]
    for plain, call in calls:
        call(plain)
        with pytest.raises(TypeError, match="a masked array would lose its mask"):
            call(np.ma.masked_array(plain, [[0, 1], [0, 0]]))
        with pytest.raises(TypeError, match="DataArray goes by the names of its dimensions"):
            call(xr.DataArray(plain, dims=("row", "column")))
    first, second = pd.Series([1, 2], [0, 1]), pd.Series([1, 2], [1, 0])
    for pair in (
        lambda: data.ulp_histogram(first, second, "int8"),
        lambda: data.error_by_binade(first, second),
    ):
        with pytest.raises(ValueError, match="operands are frames with different rows or columns"):
            pair()


test_what_cannot_be_is_refused = refusal_test(
    globals(),
    """
data.number_line()
    ValueError: number_line needs a format, such as 'e4m3fn'
data.number_line("binary32")
    ValueError: number_line shows formats of at most 16 bits, and 'binary32' has 32
data.staircase("e4m3fn", 2, 1)
    ValueError: staircase needs finite limits, low below high, not 2 and 1
data.staircase("e4m3fn", 0, 1, points=1)
    ValueError: points=1 of a staircase is too few; use 2 or more
data.staircase("e4m3fn", 0, 1, modes=["stochastic(8)"])
    ValueError: a staircase has no random integers for 'stochastic(8, A)'; use modes without them
data.error_by_binade([1.0], [1.0, 2.0])
    ValueError: values have shape (1,), and results (2,); they must be equal
data.block_errors(np.ones((2, 2, 2)), "mxfp4")
    ValueError: block_errors draws 1 or 2 axes, not 3; give a slice of the array
data.accumulation_error([1.0], [1.0], ["exact"])
    ValueError: x and y must have one shape (rows, K), not (1,) and (1,)
data.accumulation_error([[1.0]], [[1.0]], ["exact"], lengths=[2])
    ValueError: lengths must lie between 1 and K=1; 2 does not
data.code_usage([1])
    ValueError: code_usage needs the format of the codes, such as 'e4m3fn'
data.code_usage([16], "e2m1fn")
    ValueError: ...16...
data.ulp_histogram([1], [1, 2], "e2m1fn")
    ValueError: expected codes have shape (1,), and actual ones (2,); they must be equal
data.code_confusion([1], [1], "binary16")
    ValueError: code_confusion shows formats of at most 8 bits, and 'binary16' has 16
""",
)
