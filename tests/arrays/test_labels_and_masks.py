"""Masks, names and bits of operands that NumPy would take another way."""

from __future__ import annotations

import numpy as np
import pytest

import lowprec as lp

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


def test_arrays_of_pandas_with_gaps_are_not_rounded_unsaid():
    pd = pytest.importorskip("pandas")
    array = pd.array([INTEGER, None], dtype="Int64")
    for values in (array, pd.Index(array)):
        with pytest.raises(TypeError, match=r"rounds integers from 2\*\*53"):
            lp.encode(values, "binary32")
    with pytest.raises(TypeError, match="real numbers"):
        lp.encode(pd.MultiIndex.from_tuples([(1, 2)]), "binary32")
    assert lp.quantize(pd.array([3, None], dtype="Int64"), "binary32")[0] == 3.0


def test_frames_beside_named_arrays_are_refused():
    pd, xr = pytest.importorskip("pandas"), pytest.importorskip("xarray")
    named = xr.DataArray(np.ones((2, 2)), dims=("p", "q"))
    for frame in (pd.DataFrame(np.eye(2)), pd.Series([1.0, 2.0])):
        for pair in ((named, frame), (frame, named)):
            with pytest.raises(TypeError, match="a frame of pandas and an xarray object"):
                lp.add(*pair, "binary32")


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


def test_blocks_indexed_by_an_array_are_refused_by_name():
    with pytest.raises(TypeError, match="indexed by integers and slices"):
        lp.encode(np.ones((2, 32)), "mxfp4")[np.array([True, False])]
