"""Masks, names and bits of operands that NumPy would take another way."""

import functools
import re
from array import array
from collections import UserList, deque

import ml_dtypes
import numpy as np
import pytest

import lowprec as lp
from lowprec.methods import (
    expansion,
    fp8,
    hif4,
    layers,
    mx,
    nvfp4,
    scale_propagation as sp,
    unit_scaling as us,
)
from tests.support import refusal_test

INTEGER = 2**62 + 2**38 + 1  # in binary32 0x5E800001; by way of binary64 it is a tie, 0x5E800000


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("values", [np.ma.masked_array([1.0, 2.0], [True, False]), np.ma.masked])
def test_masks_in_lists_of_lists_are_refused(values, depth):
    for _ in range(depth):
        values = [values]
    with pytest.raises(TypeError, match="a masked array would lose its mask"):
        lp.encode(values, "bfloat16")


def test_tensors_with_a_pending_sign_count_with_it():
    torch = pytest.importorskip("torch")
    lazy = torch.tensor([1 + 2j, 3 - 4j]).conj().imag
    assert lp.quantize(lazy, "bfloat16").tolist() == [-2.0, 4.0]
    assert lp.quantize(torch._neg_view(torch.ones(2, dtype=torch.bfloat16)), "bfloat16").tolist() == [-1, -1]


def test_tensors_without_dense_memory_are_refused_by_name():
    torch = pytest.importorskip("torch")
    sparse = torch.tensor([1.0, 0.0], dtype=torch.bfloat16).to_sparse()
    for tensor in (sparse, torch.empty(2, device="meta"), [torch.ones((), requires_grad=True)]):
        with pytest.raises(TypeError, match=r"cannot make an array of (Tensor|list)"):
            lp.encode(tensor, "bfloat16")


def test_categories_of_integers_with_gaps_are_rounded_once():
    pd = pytest.importorskip("pandas")
    series = pd.Series(pd.Categorical([INTEGER, None, 3]))
    assert lp.encode(series, "binary32").tolist()[0] == 0x5E800001
    assert np.isnan(lp.quantize(series, "binary32")[1])


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("kind", [np.int64, np.uint64])
def test_scales_and_bias_that_are_integers_are_rounded_once(kind, lazy):
    dask = pytest.importorskip("dask.array")
    one, none = (dask.ones if lazy else np.ones)((1, 1)), np.zeros((1, 1))
    for options in (
        {"scales": (kind(INTEGER), None)}, {"scales": (None, np.array([INTEGER], kind))},
        {"output_scale": kind(INTEGER)},
    ):  # fmt: skip
        assert (
            int(np.asarray(lp.dot(one, np.ones((1, 1)), "exact", **options)).view(np.uint32)[0]) == 0x5E800001
        )
    assert int(np.asarray(lp.dot(one, none, "exact", bias=kind(INTEGER))).view(np.uint32)[0]) == 0x5E800001


@pytest.mark.parametrize(
    "values",
    [
        [2**53 + 1, 0.5], (2**64 - 1, -1), deque([0.5, 2**53 + 1]), UserList([2**53 + 1, 0.5]),
        [[0.5], np.array([2**53 + 1])],
        [np.int8(127), ml_dtypes.float8_e4m3fn(1)], [np.uint8(3), ml_dtypes.float8_e8m0fnu(1)],
    ],
)  # fmt: skip
def test_lists_that_numpy_would_round_are_refused(values):
    with pytest.raises(TypeError, match=r"NumPy's common type of its elements, \w+, does not hold \d+$"):
        lp.encode(values, "binary32")


def test_lists_of_several_types_that_one_type_holds_are_taken():
    for values in ([2**62, 0.5, 2**53 + 2], [1e300, np.inf, np.nan, True], [np.float16(2), np.int8(-3)]):
        assert lp.encode(values, "binary32").tolist() == [int(lp.encode(x, "binary32")) for x in values]
    assert lp.quantize([ml_dtypes.bfloat16(2), ml_dtypes.bfloat16("nan")], "e5m2")[0] == 2
    assert lp.encode([], "e4m3fn").size == 0


class Elements:
    """Sequence that has a length and elements, and no more."""

    def __init__(self, elements):
        self.elements = elements

    def __len__(self):
        return len(self.elements)

    def __getitem__(self, place):
        return self.elements[place]


def test_objects_with_length_and_elements_are_lists():
    """Refuse in them, at any depth, what is refused in a list, as NumPy reads them as such."""
    masked = np.ma.masked_array([1.0, 2.0], [True, False])
    for given in (Elements([INTEGER, 1.0]), [Elements([INTEGER, 1.0])]):
        with pytest.raises(TypeError, match=r"does not hold 4611686293305294849$"):
            lp.encode(given, "binary32")
    for given in (Elements([masked, masked]), (Elements([masked]),)):
        with pytest.raises(TypeError, match="a masked array would lose its mask"):
            lp.encode(given, "bfloat16")
    assert lp.quantize(Elements([Elements([1, 2.5])]), "e4m3fn").tolist() == [[1.0, 2.5]]
    blocks = lp.encode(np.ones(32), "mxfp4")
    assert np.concatenate(Elements([blocks, blocks]), dtype=np.dtype(np.float32)).shape == (64,)


def test_sequences_of_one_type_are_taken_as_they_are():
    for values in (range(3), array("q", range(3)), memoryview(bytes(range(3))), UserList(range(3))):
        assert lp.quantize(values, "e4m3fn").tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(TypeError, match="a masked array would lose its mask"):
        lp.encode(UserList([np.ma.array([1.0, 2.0], mask=[0, 1])]), "e4m3fn")


def test_lists_do_not_make_signaling_nans_quiet():
    signaling = np.array([0x7FA00000], np.uint32).view(np.float32)
    flags = np.zeros(1, np.uint8)
    lp.encode([signaling[0]], "e5m2", flags=flags)
    assert flags == lp.Flag.INVALID
    with pytest.raises(TypeError, match="a signaling NaN would become quiet"):
        lp.encode([signaling[0], 1.0], "e5m2")


def test_codes_in_another_order_of_bytes_or_as_categories_are_no_values():
    pd = pytest.importorskip("pandas")
    codes = np.array([0x3F80], np.uint16)
    for given in (codes, codes.astype(">u2"), pd.Series(pd.Categorical(codes))):
        with pytest.raises(TypeError, match="the type of codes of 'bfloat16'"):
            lp.sqrt(given, "bfloat16")


def test_arrays_of_pandas_with_gaps_are_not_rounded_unsaid():
    pd = pytest.importorskip("pandas")
    array = pd.array([INTEGER, None], dtype="Int64")
    for values in (array, pd.Index(array)):
        with pytest.raises(TypeError, match=r"rounds integers from 2\*\*53"):
            lp.encode(values, "binary32")
    pairs = pd.MultiIndex.from_tuples([(1, 2)])
    for given in (pairs, [pairs]):
        with pytest.raises(TypeError, match="real numbers"):
            lp.encode(given, "binary32")
    assert lp.quantize(pd.array([3, None], dtype="Int64"), "binary32")[0] == 3.0


def test_missing_codes_of_frames_are_refused_as_such():
    pd = pytest.importorskip("pandas")
    column = pd.Series([1, None], dtype="UInt8")
    for codes in (column, pd.DataFrame({"a": column})):
        for given in ({}, {"out": np.zeros(codes.shape, np.float32)}):
            with pytest.raises(TypeError, match=r"not float64.*missing elements of a frame"):
                lp.decode(codes, "e4m3fn", **given)
    assert lp.decode(column.fillna(0), "e4m3fn")[1] == 0


def test_frames_beside_named_arrays_are_refused():
    pd, xr = pytest.importorskip("pandas"), pytest.importorskip("xarray")
    named = xr.DataArray(np.ones((2, 2)), dims=("p", "q"))
    for frame in (pd.DataFrame(np.eye(2)), pd.Series([1.0, 2.0])):
        for pair in ((named, frame), (frame, named)):
            with pytest.raises(TypeError, match="a frame of pandas and an xarray object"):
                lp.add(*pair, "binary32")


def _other_arrays():
    torch, da = pytest.importorskip("torch"), pytest.importorskip("dask.array")
    return {
        "Tensor of torch": torch.ones(2),
        "Array of dask": da.ones(2),
        "an array of a larger shape": np.ones((2, 2)),
    }


def test_series_beside_arrays_of_another_kind_are_refused():
    """Refuse results that would be without the index; with `out=` they are that array."""
    pd = pytest.importorskip("pandas")
    series, short, out = pd.Series([1.0, 2.0], index=["p", "q"]), pd.Series([1.0], index=["p"]), np.zeros(2)
    others = _other_arrays()
    for what, other in [*others.items(), ("an array of a larger shape", np.ones((1, 2)))]:
        for operands in ((series, other), (other, series)):
            with pytest.raises(
                TypeError, match=rf"^results of Series beside {what} have no place for the names"
            ):
                lp.add(*operands, "e4m3fn")
    with pytest.raises(TypeError, match="larger shape"):
        lp.add(short, np.ones(2), "e4m3fn")
    with pytest.raises(TypeError, match="larger shape"):
        lp.hypot(series, np.ones((2, 2)), "e4m3fn", progress=lambda done, total: None)
    with pytest.raises(TypeError, match="Series beside Array of dask"):
        lp.encode(
            series, "e4m3fn", rounding="stochastic(8)", random=others["Array of dask"].astype(np.uint32)
        )
    assert lp.add(series, others["Tensor of torch"], "e4m3fn", out=out) is out
    assert lp.add(series, np.ones(1), "e4m3fn").index.tolist() == ["p", "q"]


def test_series_of_two_names_give_one_without_a_name():
    pd = pytest.importorskip("pandas")
    first, second = pd.Series([1.0], name="a"), pd.Series([2.0], name="b")
    assert lp.add(first, second, "binary32").name is None
    assert lp.add(first, first, "binary32").name == "a"


def test_products_do_not_take_the_names_of_other_axes():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame([[1.0, 2.0], [3.0, 4.0]], index=["a", "b"], columns=["c", "d"])
    swap = np.eye(2)[::-1]
    for made, values in (
        (lp.matmul(frame, swap, "exact"), [[2.0, 1.0], [4.0, 3.0]]),
        (lp.matmul(swap, frame, "exact"), [[3.0, 4.0], [1.0, 2.0]]),
        (lp.dot(pd.Series([1.0, 2.0]), np.eye(2), "exact"), [1.0, 2.0]),
    ):
        assert type(made) is np.ndarray
        assert made.tolist() == values


def test_products_of_frames_need_equal_names_along_k():
    pd = pytest.importorskip("pandas")
    row = pd.DataFrame([[1.0, 2.0]], columns=["c", "d"])
    column = pd.DataFrame([[1.0], [10.0]], index=["c", "d"])
    assert lp.matmul(row, column, "exact").tolist() == [[21.0]]
    assert lp.dot(row, column[0], "exact").tolist() == [21.0]
    for verb, other in ((lp.matmul, column), (lp.dot, column[0]), (lp.matmul, column[0])):
        with pytest.raises(ValueError, match="different names along K"):
            verb(row, other[::-1], "exact")


@pytest.mark.parametrize("name", ["mxfp4", "mxfp6_e2m3", "mxfp8_e4m3"])
@pytest.mark.parametrize("kind", [">u4", "<u4", ">u2", "<u2", "<i8"])
def test_blocks_of_wider_integers_have_the_same_bytes(name, kind):
    blocks = lp.encode(np.linspace(-3, 3, 128).reshape(2, 64), name)
    wide = lp.BlockArray(blocks.codes.astype(kind), blocks.scales.astype(kind), name)
    assert (wide.codes.dtype, wide.scales.dtype, wide.nbytes) == (np.uint8, np.uint8, blocks.nbytes)
    assert wide.packed().tobytes() == blocks.packed().tobytes()
    assert wide.swizzled().tobytes() == blocks.swizzled().tobytes()


# -- names of frames ----------------------------------------------------------------------------------

STOCHASTIC = {"rounding": lp.stochastic(8)}
OTHER_ROWS = r"^operands are frames with different rows or columns"


def _pair():
    """Two Series with the same names in two orders."""
    pd = pytest.importorskip("pandas")
    return pd.Series([1.0, 2.0, 3.0], index=list("abc")), pd.Series([10.0, 20.0, 30.0], index=list("cba"))


def test_frames_of_other_names_are_refused_whatever_stands_beside_them():
    """Results that are no frames had no check: written to `out`, lazy, or tensors."""
    dask = pytest.importorskip("dask.array")
    torch = pytest.importorskip("torch")
    first, second = _pair()
    room = np.zeros(3, np.float32)
    calls = [
        lambda: lp.add(first, second, "binary32", out=room),
        lambda: lp.pow(first, second, "binary32", out=room, progress=lambda done, total: None),
        lambda: lp.fma(dask.ones(3, chunks=1), first, second, "binary32"),
        lambda: lp.fma(torch.ones(3), first, second, "binary32"),
        lambda: lp.add(first, second, "e4m3fn", random=dask.zeros(3, dtype=np.uint32), **STOCHASTIC),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=OTHER_ROWS):
            call()
    assert not room.any()


def test_what_joins_a_frame_needs_its_names():
    pd = pytest.importorskip("pandas")
    values, joined = _pair()
    words, eye = joined.astype("uint32"), pd.DataFrame(np.eye(3), index=values.index)
    blocks = pd.DataFrame(np.ones((3, 32)), index=values.index)
    codes = pd.DataFrame(np.ones((3, 32), np.uint8), index=values.index)
    ones = pd.DataFrame(np.full((3, 1), 127, np.uint8), index=joined.index)
    calls = {
        "random": [
            lambda: lp.encode(values, "e4m3fn", random=words, **STOCHASTIC),
            lambda: lp.add(values, 1.0, "e4m3fn", random=words, **STOCHASTIC),
            lambda: lp.encode(values, "mxfp8_e4m3", random=words, **STOCHASTIC),
            lambda: lp.quantize(values, "mxfp8_e4m3", random=words, **STOCHASTIC),
            lambda: lp.error_report(values, "e4m3fn", random=words, **STOCHASTIC),
        ],
        "scale": [lambda: lp.error_report(values, "int8", scale=joined)],
        "scales": [
            lambda: lp.encode(blocks, "mxfp4", scales=ones),
            lambda: lp.BlockArray(codes, ones, "mxfp4"),
        ],
        "addend": [lambda: lp.dot(eye, np.ones(3), "exact", addend=joined)],
        "bias": [lambda: lp.matmul(np.eye(3), eye.T, "exact", bias=joined)],
        "output_scale": [lambda: lp.matmul(eye, np.eye(3), "exact", output_scale=joined.to_frame())],
        "scale of x": [lambda: lp.dot(eye, np.ones(3), "exact", scales=(joined, None))],
        "scale of y": [lambda: lp.matmul(np.eye(3), eye.T, "exact", scales=(None, joined))],
        "outputs": [lambda: lp.compare(values, lp.encode(joined, "e4m3fn"), "e4m3fn")],
    }
    for name, each in calls.items():
        for call in each:
            with pytest.raises(ValueError, match=f"^{name} has other rows or columns than the frame"):
                call()


def test_what_joins_a_frame_with_its_names_counts_by_place():
    pd = pytest.importorskip("pandas")
    values, joined = _pair()
    joined = joined.reindex(values.index)
    frame = pd.DataFrame([[1.0, 2.0, 3.0]] * 2, columns=values.index)
    assert lp.error_report(values, "int8", scale=joined) == lp.error_report(
        [1, 2, 3], "int8", scale=[30, 20, 10]
    )
    assert lp.error_report(frame, "int8", scale=joined).mse == lp.error_report(
        frame.to_numpy(), "int8", scale=joined.to_numpy()
    ).mse  # fmt: skip
    words = joined.astype("uint32")
    got = lp.encode(values, "e4m3fn", random=words, **STOCHASTIC)
    assert got.tolist() == lp.encode([1, 2, 3], "e4m3fn", random=[30, 20, 10], **STOCHASTIC).tolist()
    assert lp.dot(frame, [1, 1, 1], "exact", addend=pd.Series([1.0, 2.0])).tolist() == [7, 8]
    assert lp.dot(frame, [1, 1, 1], "exact", scales=(pd.Series([1.0, 2.0]), None)).tolist() == [6, 12]


def test_dot_products_of_frames_need_equal_rows():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame([[1.0, 2.0], [3.0, 4.0]], index=["a", "b"])
    assert lp.dot(frame, frame, "exact").tolist() == [5, 25]
    with pytest.raises(ValueError, match=r"^y has other rows or columns than the frame"):
        lp.dot(frame, frame[::-1], "exact")


def test_lists_of_arrays_with_names_are_refused():
    pd, xr = pytest.importorskip("pandas"), pytest.importorskip("xarray")
    named = xr.DataArray(np.eye(2), dims=("p", "q"))
    first, second = _pair()
    for values in ([first, second], [[first]], (named, named.T), [pd.DataFrame(np.eye(2))]):
        with pytest.raises(
            TypeError, match=r"goes by its names, and a list takes it by its place: give \.to_numpy"
        ):
            lp.encode(values, "e4m3fn")
    assert lp.encode([named.max(), named.min()], "e4m3fn").tolist() == [0x38, 0]


def test_functions_without_names_in_their_results_refuse_arrays_with_names():
    xr = pytest.importorskip("xarray")
    named = xr.DataArray([[1.0, 2.0], [3.0, 4.0]], dims=("p", "q"))
    codes = lp.encode(named, "e4m3fn")
    for call in (
        lambda: lp.compare(named, codes.T, "e4m3fn"),
        lambda: lp.compare(named.to_numpy(), codes, "e4m3fn"),
        lambda: lp.methods.nvfp4.hadamard(named, 4),
    ):
        with pytest.raises(TypeError, match=r"DataArray goes by the names of its dimensions"):
            call()


METHODS = {
    "fp8.encode": lambda x: fp8.encode(x, axis=0),
    "fp8.encode scale": lambda x: fp8.encode(np.ones((2, 2)), scale=x),
    "fp8.ScaledCodes": lambda x: fp8.ScaledCodes(x, np.float32(1), "e4m3fn"),
    "fp8.Scaling": lambda x: fp8.Recipe(scaling="delayed").start().encode("x", x),
    "fp8.sqnr": lambda x: fp8.sqnr(x, np.ones((2, 2))),
    "fp8.sqnr results": lambda x: fp8.sqnr(np.ones((2, 2)), x),
    "fp8.bias_sweep": lambda x: fp8.bias_sweep([x], biases=(7,)),
    "fp8.calibrate": lambda x: fp8.calibrate(x, axis=0),
    "nvfp4.encode": nvfp4.encode,
    "mx.Vector.sum": lambda x: mx.Vector("bfloat16").sum(x, 0),
    "mx.Vector.tanh": lambda x: mx.Vector("bfloat16").tanh(x),
    "expansion.split": lambda x: expansion.split(x, 2, "bfloat16"),
    "expansion.Expansion": lambda x: expansion.Expansion((x,), "binary32"),
    "sp.relu": sp.relu,
    "sp.gelu": sp.gelu,
    "sp.layer_norm": sp.layer_norm,
    "sp.pow2_round": sp.pow2_round,
    "sp.pow2_decompose": sp.pow2_decompose,
    "sp.best_pow2_scale": lambda x: sp.best_pow2_scale(x, "e4m3fn"),
    "sp.stop_scaling": sp.stop_scaling,
    "sp.get_data_scale": sp.get_data_scale,
    "sp.Adam": lambda x: sp.Adam().start(x),
    "us.format_report": lambda x: us.format_report(x, "e4m3fn"),
    "us.TensorStatistics": us.TensorStatistics.of,
    "us.quantized": lambda x: us.quantized(us.gelu, operands=1)(x),
}


@pytest.mark.parametrize("method", METHODS)
def test_methods_lose_neither_masks_nor_names(method):
    xr = pytest.importorskip("xarray")
    square = np.ones((2, 2), np.uint8 if method == "fp8.ScaledCodes" else np.float32)
    METHODS[method](square)
    with pytest.raises(TypeError, match="a masked array would lose its mask"):
        METHODS[method](np.ma.masked_array(square, np.eye(2)))
    with pytest.raises(TypeError, match=r"DataArray goes by the names of its dimensions"):
        METHODS[method](xr.DataArray(square, dims=("p", "q")))


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.int32, np.int64])
def test_most_negative_integers_are_the_largest_magnitudes(kind):
    least = np.iinfo(kind).min
    values = np.array([least, 1, 2, 3] * 8, kind)
    blocks = lp.encode(values, "nvfp4")
    assert lp.compare(values, blocks.codes, "nvfp4", scales=blocks.scales).agrees
    scaling, floats = (fp8.Recipe(scaling="delayed").start() for _ in "ab")
    scaling.encode("x", values)
    floats.encode("x", values.astype(np.float64))
    assert scaling.scales == floats.scales


@pytest.mark.parametrize("kind", [np.int64, np.uint64])
def test_methods_refuse_integers_that_they_would_round(kind):
    wide = np.array([2**53 + 1], kind)
    for call in (
        lambda: expansion.Expansion((wide,), "binary32"),
        lambda: sp.ScaledArray(wide, 1.0),
        lambda: fp8.encode([1.0], scale=wide),
        lambda: fp8.encode([1.0], scale=wide[0]),
        lambda: hif4.encode(np.array([np.iinfo(kind).max])),
    ):
        with pytest.raises(ValueError, match=r"does not have|is no float32 number"):
            call()
    assert expansion.Expansion((wide - 1,), "binary32").parts[0] == 2**53
    assert sp.ScaledArray(wide - 1, 1.0).data == 2**53
    assert fp8.encode([1.0], scale=wide - 1).scale == 2**53
    assert hif4.quantize(wide - 1) > 0


def test_scales_of_methods_need_the_names_of_the_frame():
    pd = pytest.importorskip("pandas")
    frame, scale = pd.DataFrame(np.eye(2), columns=["a", "b"]), pd.Series([1.0, 2.0], ["b", "a"])
    with pytest.raises(ValueError, match=r"^scale has other rows or columns"):
        fp8.encode(frame, scale=scale)
    assert fp8.encode(frame, scale=scale[::-1]).scale.tolist() == [2.0, 1.0]


def test_integers_of_two_types_in_a_frame_are_codes():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"u": np.array([0x38], np.uint64), "i": np.array([0x40], np.int64)})
    assert lp.decode(frame, "e4m3fn").to_numpy().tolist() == [[1.0, 2.0]]
    assert lp.less(frame, np.uint8(0x39), "e4m3fn").to_numpy().tolist() == [[True, False]]


def test_products_that_are_compared_need_equal_names():
    pd = pytest.importorskip("pandas")
    x, y = np.float32([[1, 2], [3, 4]]), np.float32([[5, 6], [7, 8]])
    rows, columns = pd.DataFrame(x, list("ab"), list("kl")), pd.DataFrame(y, list("kl"), list("cd"))
    want, turned = lp.matmul(x, y, "exact"), pd.DataFrame(y, list("lk"), list("cd"))
    compare = functools.partial(lp.compare, operation="matmul", accumulation="exact")
    assert compare((rows, columns), pd.DataFrame(want, list("ab"), list("cd"))).agrees
    assert lp.compare((rows, x), lp.dot(x, x, "exact"), operation="dot", accumulation="exact").agrees
    series = pd.Series([1.0, 2.0], list("ba"))
    for call in (
        lambda: compare((rows, turned), want),
        lambda: lp.compare((rows, turned.T), want[0], operation="dot", accumulation="exact"),
        lambda: compare((rows, columns), pd.DataFrame(want, list("ba"), list("cd"))),
        lambda: compare((rows, columns), want, addend=pd.DataFrame(want, list("ba"), list("cd"))),
        lambda: compare((rows, columns), want, scale=(series, None)),
        lambda: compare((rows, columns), want, scale=series[::-1]),
    ):
        with pytest.raises(ValueError, match=r"different names along K|other rows or columns"):
            call()


# -- names of xarray ----------------------------------------------------------------------------------


def test_blocks_of_other_coordinates_are_refused():
    xr = pytest.importorskip("xarray")
    codes = xr.DataArray(
        np.ones((2, 32), np.uint8), dims=("m", "k"), coords={"m": [0, 1], "k": np.arange(32)}
    )
    scales = xr.DataArray(np.array([[127], [128]], np.uint8), dims=("m", "k"), coords={"m": [0, 1]})
    assert lp.BlockArray(codes, scales, "mxfp4").values()[:, 0].values.tolist() == [0.5, 1.0]
    with pytest.raises(ValueError, match="align"):
        lp.BlockArray(codes, scales.assign_coords(m=[1, 0]), "mxfp4")


def test_variables_of_xarray_go_where_arrays_with_coordinates_go():
    xr = pytest.importorskip("xarray")
    data = np.arange(64.0).reshape(2, 32)
    named = xr.Variable(("m", "k"), data)
    scales = lp.scale_for(named, "int8", axis=0)
    assert scales.dims == ("m",)
    assert scales.values.tolist() == lp.scale_for(data, "int8", axis=0)[:, 0].tolist()
    blocks = lp.encode(named, "mxfp4")
    assert blocks.scales.dims == ("m", "k")
    assert blocks.scales.values.tolist() == lp.encode(data, "mxfp4").scales.tolist()
    product = lp.matmul(named, xr.Variable(("k", "n"), data.T), "exact")
    assert product.dims == ("m", "n")
    assert product.values.tolist() == lp.matmul(data, data.T, "exact").tolist()


def test_dimensions_of_length_one_are_not_spread_over_an_array():
    xr = pytest.importorskip("xarray")
    named = xr.DataArray([[1.0]], dims=("p", "q"))
    message = (
        r"^an array of shape \(2, 3\) is longer than dimensions of length 1 of .*, {'p': 1, 'q': 1}: make it"
    )
    for pair in ((named, np.ones((2, 3))), (np.ones((2, 3)), named)):
        with pytest.raises(ValueError, match=message):
            lp.add(*pair, "e4m3fn")
    assert lp.add(named, np.ones((1, 1)), "e4m3fn").dims == ("p", "q")
    assert lp.add(named[0], xr.DataArray(np.ones((2, 3)), dims=("p", "q"))[:, :1], "e4m3fn").shape == (1, 2)


FRAME_CALLS = {
    "mx.matmul": lambda x, right, w, row: mx.matmul(x, right),
    "fp8.matmul": lambda x, right, w, row: fp8.matmul(x, right),
    "us.matmul": lambda x, right, w, row: us.matmul(x, right)[0],
    "us.linear": lambda x, right, w, row: us.linear(x, right)[0],
    "mx.linear": lambda x, right, w, row: mx.linear(x, w)[0],
    "fp8.linear": lambda x, right, w, row: fp8.linear(x, w)[0],
    "nvfp4.linear": lambda x, right, w, row: nvfp4.linear(x, w, rng=0)[0],
    "layers.linear": lambda x, right, w, row: layers.linear(x, w)[0],
    "mx.diffuse": lambda x, right, w, row: mx.diffuse(w, x, "mxfp4"),
    "mx.diffuse x_after": lambda x, right, w, row: mx.diffuse(np.eye(4), x, "mxfp4", x_after=w),
    "layer_norm": lambda x, right, w, row: mx.Vector().layer_norm(x, row),
    "sigmoid_gradient": lambda x, right, w, row: mx.Vector().sigmoid_gradient(x, w),
    "tanh_gradient": lambda x, right, w, row: mx.Vector().tanh_gradient(x, w),
    "fp8.sqnr": lambda x, right, w, row: fp8.sqnr(x, w),
    "us.snr": lambda x, right, w, row: us.snr(x, w),
    "us.add": lambda x, right, w, row: us.add(x, w)[0],
    "us.multiply": lambda x, right, w, row: us.multiply(x, w)[0],
    "us.weighted_sum": lambda x, right, w, row: us.weighted_sum([x, w], [1.0, 1.0])[0],
    "us.mse": lambda x, right, w, row: us.mse(x, w)[0],
    "us.glu": lambda x, right, w, row: us.glu(x, w)[0],
    "us.layer_norm": lambda x, right, w, row: us.layer_norm(x, row)[0],
    "effective_update": lambda x, right, w, row: expansion.effective_update(x, w),
    "lost_fraction": lambda x, right, w, row: expansion.lost_fraction(x, w, x),
}


@pytest.mark.parametrize("name", FRAME_CALLS)
def test_methods_refuse_frames_that_are_not_aligned(name):
    """By the names along K of a product, else of rows and columns; frames that are aligned are taken."""
    pd = pytest.importorskip("pandas")
    values, names = np.arange(16.0).reshape(4, 4), list("abcd")
    x = pd.DataFrame(values, columns=names)

    def call(order):
        right, row = pd.DataFrame(np.eye(4), index=order), pd.Series(np.ones(4), index=order)
        return FRAME_CALLS[name](x, right, pd.DataFrame(np.eye(4), columns=order), row)

    call(names)
    with pytest.raises(ValueError, match="not aligned here"):
        call(names[::-1])


# -- memory -------------------------------------------------------------------------------------------


def test_results_and_flags_in_one_place_are_refused_everywhere():
    pd = pytest.importorskip("pandas")
    frame, room = pd.DataFrame({"i": [1], "f": [0.5]}), np.zeros((1, 2), np.uint8)
    for call in (
        lambda: lp.encode(frame, "e4m3fn", out=room, flags=room),
        lambda: lp.encode(frame.to_numpy(), "e4m3fn", out=room, flags=room),
        lambda: lp.exp(np.ones((1, 2)), "e4m3fn", out=room, flags=room, progress=lambda done, total: None),
    ):
        with pytest.raises(ValueError, match=r"^out and flags share memory"):
            call()
    assert not room.any()


def test_results_and_flags_may_lie_between_each_other():
    """Write to fields of one array, which share no byte."""
    room = np.zeros(3, [("code", np.uint8), ("flags", np.uint8)])
    values = np.float32([1.0, 1.03, 500.0])
    for given in (values, values.astype(np.float64)[::-1][::-1]):
        room[...] = 0
        lp.encode(given, "e4m3fn", out=room["code"], flags=room["flags"])
        assert room.tolist() == [(56, 0), (56, 1), (127, 5)]


test_what_cannot_be_is_refused = refusal_test(
    globals(),
    """
lp.encode(np.ones((2, 32)), "mxfp4")[np.array([True, False])]
    TypeError: ...indexed by integers and slices...
lp.add(pytest.importorskip("xarray").DataArray([1.0, 2.0], dims="x"), np.ones((3, 2)), "e4m3fn")
    ValueError: an array of shape (3, 2) has more axes than ('x',), the dimensions of the xarray objects
    beside it: make it a DataArray
lp.add(np.ones((3, 2)), pytest.importorskip("xarray").Variable("x", [1, 2]), "e4m3fn")
    ValueError: an array of shape (3, 2) has more axes than ('x',), the dimensions of the xarray objects
    beside it: make it a DataArray
lp.add(pytest.importorskip("xarray").DataArray(1.0), np.ones(2), "e4m3fn")
    ValueError: ...shape (2,) has more axes than (), the dimensions...
lp.encode(pytest.importorskip("dask").delayed(np.ones)(3), "e4m3fn")
    TypeError: Delayed of dask is no array; use .map for the arrays of a Dataset, and dask.array for delayed
    values
""",
)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["Series", "Index", "DataFrame"])
def test_columns_of_dask_are_refused_with_the_way_out(name):
    frames, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    frame = frames.from_pandas(pd.DataFrame({"a": [1.5, 2.0]}), npartitions=1)
    values = {"Series": frame["a"], "Index": frame.index, "DataFrame": frame}[name]
    said = f"{name} of dask is no array; give .to_dask_array(lengths=True)"
    for call in (
        lambda: lp.encode(values, "e4m3fn"),
        lambda: lp.encode(values, "mxfp4"),
        lambda: lp.add(1.0, values, "e4m3fn"),
        lambda: lp.scale_for(values, "e4m3fn"),
        lambda: lp.error_report(values, "e4m3fn"),
        lambda: lp.dot(values, values, "fp32_fma"),
        lambda: lp.sweep_formats(values, 4),
        lambda: lp.BlockArray(values, [127], "mxfp4"),
        lambda: lp.encode(np.ones(2), "e4m3fn", random=values, **STOCHASTIC),
    ):
        with pytest.raises(TypeError, match=f"^{re.escape(said)}$"):
            call()
    with pytest.raises(
        TypeError, match=r"^Scalar of dask is no array; use \.map for the arrays of a Dataset"
    ):
        lp.encode(frame["a"].sum(), "e4m3fn")
    if name != "Index":
        given = values.to_dask_array(lengths=True)
        assert lp.encode(given, "e4m3fn").compute().reshape(-1).tolist() == [60, 64]
