"""Arrow's arrays and tables: integers beside missing ones are not rounded unsaid."""

import re

import numpy as np
import pyarrow as pa
import pytest

import lowprec as lp
from lowprec.arrays.checks import as_array

#: Which float64 does not hold, and which rounds twice on the way to binary32.
INTEGER = 2**60 + 2**36 + 1
ROUNDS = (
    "numbers of int64 and float64 would become an array of float64, which rounds integers from 2**53 on; "
    "fill missing ones, which are NaN, and give columns of a frame one by one"
)


def _rounding():
    gaps = pa.array([INTEGER, None])
    return {
        "array": gaps,
        "chunks": pa.chunked_array([[INTEGER], [None, 3]]),
        "dictionary": gaps.dictionary_encode(),
        "values of a dictionary": pa.DictionaryArray.from_arrays(pa.array([0, 1]), gaps),
        "runs": pa.RunEndEncodedArray.from_arrays(pa.array([2, 3]), gaps),
        "table": pa.table({"a": gaps}),
        "columns": pa.table({"a": [INTEGER, 3], "b": [1.5, 2.5]}),
        "batch": pa.RecordBatch.from_pydict({"a": [INTEGER, 3], "b": [1.5, 2.5]}),
        "list": [gaps],
        "lists": [[np.zeros(2), gaps]],
    }


@pytest.mark.parametrize("name", _rounding())
def test_integers_that_float64_would_round_are_refused(name, tmp_path):
    values = _rounding()[name]
    for call in (
        lambda: lp.encode(values, "binary32"),
        lambda: lp.error_report(values, "binary32"),
        lambda: lp.add(values, 1.0, "binary32"),
        lambda: lp.save(tmp_path / "a.safetensors", {"a": values}),
    ):
        with pytest.raises(TypeError, match=f"^{re.escape(ROUNDS)}$"):
            call()


def test_whole_integers_of_arrow_are_rounded_once():
    for values in (pa.array([INTEGER, 3]), pa.chunked_array([[INTEGER], [3]]), pa.table({"a": [INTEGER, 3]})):
        assert lp.encode(values, "binary32").reshape(-1).tolist() == [0x5D800001, 0x40400000]
    assert lp.encode([pa.array([INTEGER, 3])], "binary32").tolist() == [[0x5D800001, 0x40400000]]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("kind", ["chunks", "table", "batch"])
def test_values_of_chunks_and_tables_keep_their_type(kind, dtype):
    """Keep float64 as arrays of Arrow do: block formats divide it by float64."""
    x = np.random.default_rng(0).standard_normal((32, 2)).astype(dtype)
    if kind == "chunks":
        x, given = x[:, 0], pa.chunked_array([pa.array(x[:16, 0]), pa.array(x[16:, 0])])
    else:
        columns = {"a": x[:, 0].copy(), "b": x[:, 1].copy()}
        given = pa.table(columns) if kind == "table" else pa.RecordBatch.from_pydict(columns)
    for found, wanted in (
        (lp.quantize(given, "e4m3fn"), lp.quantize(x, "e4m3fn")),
        (lp.quantize(given, "nvfp4", axis=0), lp.quantize(x, "nvfp4", axis=0)),
        (lp.add(given, given, "binary16"), lp.add(x, x, "binary16")),
    ):
        assert found.dtype == wanted.dtype
        assert np.array_equal(found, wanted)


@pytest.mark.parametrize(
    ("values", "dtype", "wanted"),
    [
        (pa.array([3, None]), "f8", [3.0, "nan"]),
        (pa.array([None, None], pa.int64()), "f8", ["nan", "nan"]),
        (pa.array([True, None]), "f8", [1.0, "nan"]),
        (pa.array([True, False]), "?", [True, False]),
        (pa.array([1.5, None], pa.float16()), "f2", [1.5, "nan"]),
        (pa.array([1.5, None], pa.float32()), "f4", [1.5, "nan"]),
        (pa.array([7, None], pa.uint8()).dictionary_encode(), "f8", [7.0, "nan"]),
        (pa.table({"a": [1, None], "b": [2.5, 3.5]}), "f8", [[1.0, 2.5], ["nan", 3.5]]),
        (pa.table({"a": [1, 2], "b": [4, 5]}), "i8", [[1, 4], [2, 5]]),
        (pa.table({}), "f8", []),
        ([pa.array([3, None])], "f8", [[3.0, "nan"]]),
    ],
)
def test_missing_elements_are_nans(values, dtype, wanted):
    found = as_array(values)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, np.array(wanted, dtype).reshape(found.shape))


def test_what_is_no_number_is_refused():
    message = (
        "values must be real numbers of at most 64 bits, not object: give floats or integers of at most "
        "64 bits; lowprec.oracle.convert.project takes any Fraction"
    )
    for values in (pa.array(["a", None]), pa.nulls(2), pa.array([[1, 2], [3, None]]), pa.table({"a": ["x"]})):
        with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
            lp.encode(values, "e4m3fn")


@pytest.mark.parametrize("dtype", ["bool[pyarrow]", "boolean"])
def test_missing_booleans_of_pandas_are_nans(dtype, tmp_path):
    pd = pytest.importorskip("pandas")
    column = pd.Series([True, None, False], dtype=dtype)
    assert lp.encode(column, "e4m3fn").tolist() == [56, 127, 0]
    frame = pd.DataFrame({"a": column, "b": [1.0, 2.0, 3.0]})
    assert lp.encode(frame, "e4m3fn").to_numpy().tolist() == [[56, 56], [127, 64], [0, 68]]
    lp.save(tmp_path / "a.safetensors", {"a": column})
    np.testing.assert_array_equal(lp.load(tmp_path / "a.safetensors")["a"], [1.0, np.nan, 0.0])


def test_arrays_in_lists_are_those_that_they_are_alone():
    missing = pa.chunked_array(
        [pa.array([1.5]).dictionary_encode(), pa.array([5.5, None]).dictionary_encode()]
    )
    alone = np.asarray(lp.quantize(missing, "binary32"))
    assert alone.tolist()[:2] == [1.5, 5.5]
    assert np.isnan(alone[2])
    for listed in ([missing], [[missing]], [pa.table({"a": missing})]):
        np.testing.assert_array_equal(np.ravel(lp.quantize(listed, "binary32")), alone)
    flags = pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0, 2], pa.int8()))
    for given in (flags, pa.chunked_array([flags]), pa.table({"a": flags})):
        assert np.ravel(lp.quantize(given, "binary32")).tolist() == [1, 0, 1]


def test_categories_in_lists_are_refused_where_they_would_be_rounded():
    pd, large = pytest.importorskip("pandas"), 2**60 + 2**36 + 1
    assert lp.quantize([pd.Categorical([large])], "binary32")[0, 0] == 2**60 + 2**37
    for given in (pd.Categorical([large, None]), [pd.Categorical([large, None])]):
        with pytest.raises(TypeError, match=r"rounds integers from 2\*\*53 on"):
            lp.quantize(given, "binary32")
