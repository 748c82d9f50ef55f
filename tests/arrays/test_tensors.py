"""Tensors of torch and JAX come in with their own bits; torch tensors and pandas' frames come out again."""

import importlib
import pathlib
import re
import subprocess
import sys
import types
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import lowprec as lp
from lowprec import graphs
from lowprec.arrays.checks import as_array
from lowprec.testing import check_cast
from tests.programs import need_framework

VALUES = np.array([[1.0625, -0.3, 448.0], [464.0, 1e-3, -500.0]], np.float32)

TYPES = ["float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"]


def _torch():
    need_framework("torch")
    return importlib.import_module("torch")


def _same(tensor, array):
    """Whether a tensor has the elements of an array, bit for bit, and its shape and type."""
    array = np.asarray(array)
    assert str(tensor.dtype).removeprefix("torch.") == array.dtype.name
    assert tuple(tensor.shape) == array.shape
    assert not tensor.requires_grad
    if array.dtype.isbuiltin == 2:  # of ml_dtypes
        tensor = tensor.contiguous().view(getattr(_torch(), "uint8" if array.itemsize == 1 else "int16"))
    return np.ascontiguousarray(tensor.numpy()).tobytes() == np.ascontiguousarray(array).tobytes()


@pytest.mark.parametrize("name", TYPES)
def test_torch_tensors_are_their_values(name):
    """Of every type, also transposed, and with a gradient to lose."""
    torch = _torch()
    tensor = torch.from_numpy(VALUES).to(getattr(torch, name))
    values = tensor.to(torch.float64).numpy()
    assert _same(lp.encode(tensor, "e4m3fn"), lp.encode(values, "e4m3fn"))
    assert _same(lp.encode(tensor.T, "e4m3fn"), lp.encode(values.T, "e4m3fn"))
    if tensor.itemsize > 1:
        grown = tensor.clone().requires_grad_()
        assert _same(lp.encode(grown, "e5m2"), lp.encode(values, "e5m2"))


@pytest.mark.parametrize("name", ["e2m1fn", "e3m2fn", "e4m3b11fnuz", "e3m4", "e5m2", "e4m3fn", "bfloat16"])
def test_results_in_the_type_of_codes_need_one_of_torch(name):
    torch, kind = _torch(), lp.dtype(name)
    tensor = torch.tensor([1.0, 2.5])
    want = lp.add(tensor.numpy(), 0.5, name, dtype=kind)
    if hasattr(torch, kind.name):
        assert _same(lp.add(tensor, 0.5, name, dtype=kind), want)
        return
    with pytest.raises(TypeError, match=f"^torch has no type {kind.name}, .*; give dtype='uint8'"):
        lp.add(tensor, 0.5, name, dtype=kind)
    assert lp.add(tensor, 0.5, name, dtype="uint8").tolist() == want.view(np.uint8).tolist()


class _Exported:
    """An array of another library that has DLPack and nothing else."""

    def __init__(self, array):
        self.__dlpack__, self.__dlpack_device__ = array.__dlpack__, array.__dlpack_device__


class _OfGpu(_Exported):
    def __dlpack__(self, **options):
        raise BufferError("memory of a GPU")

    def __init__(self, array):
        self.__dlpack_device__ = lambda: (2, 0)


def test_arrays_that_have_dlpack_alone_are_their_values():
    given, codes = _Exported(VALUES.astype(np.float64).T), lp.encode(VALUES, "e4m3fn")
    assert lp.encode(given, "e4m3fn").tolist() == codes.T.tolist()
    assert lp.quantize(given, "e4m3fn").dtype == np.float64
    same = lp.decode(_Exported(codes), "e4m3fn") == lp.decode(codes, "e4m3fn")
    assert same.tolist() == [[True] * 3, [True, True, False]]
    assert (
        lp.matmul(_Exported(VALUES), given, "exact").tolist() == lp.matmul(VALUES, VALUES.T, "exact").tolist()
    )
    blocks = lp.encode(VALUES, "mxfp4")
    assert lp.encode(_Exported(VALUES), "mxfp4") == blocks
    assert lp.BlockArray(_Exported(blocks.codes), _Exported(blocks.scales), "mxfp4") == blocks
    with pytest.raises(TypeError, match="cannot make an array of _OfGpu: memory of a GPU"):
        lp.encode(_OfGpu(VALUES), "e4m3fn")


NUMPY = {
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
}

VERBS = {
    "encode": lambda x, **how: lp.encode(x, "e4m3fn", **how),
    "encode to 16 bits": lambda x, **how: lp.encode(x, "bfloat16", **how),
    "encode to 32 bits": lambda x, **how: lp.encode(x, "tf32", **how),
    "quantize": lambda x, **how: lp.quantize(x, "e4m3fn", **how),
    "quantize in blocks": lambda x: lp.quantize(x, "mxfp4", axis=0),
    "add": lambda x, **how: lp.add(x, 1.0, "e4m3fn", **how),
    "add to": lambda x, **how: lp.add(1.0, x, "e4m3fn", **how),
    "sqrt of codes": lambda x: lp.fma(x, x, x, "e5m2", dtype=np.uint8),
    "exp": lambda x: lp.exp(x, "e5m2"),
    "exp with progress": lambda x: lp.exp(x, "e5m2", progress=lambda *_: None),
    "nextafter": lambda x: lp.nextafter(x, 1.0, "e4m3fn"),
    "ulp": lambda x: lp.ulp(x, "e4m3fn"),
    "matmul": lambda x: lp.matmul(x, np.ones((3, 2), np.float32), "fp32_fma"),
    "matmul by name": lambda x: lp.matmul(np.ones((1, 2), np.float32), y=x, accumulation="fp32_fma"),
    "dot": lambda x: lp.dot(x, x, "fp32_fma", bias=np.float32(1)),
    "scale_for": lambda x: lp.scale_for(x, "int8", axis=0),
}


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("verb", VERBS)
def test_torch_tensors_give_torch_tensors(verb, name):
    """Every verb that takes values: the bits, the shape and the type that NumPy's array has."""
    torch = _torch()
    tensor = torch.from_numpy(VALUES).to(getattr(torch, name))
    bits = tensor.view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.itemsize])
    array = bits.numpy().view(NUMPY.get(name, name))
    assert _same(VERBS[verb](tensor), VERBS[verb](array))


CODES = np.array([[0x00, 0x80, 0x38], [0x7F, 0xFE, 0x01]], np.uint8)

OF_CODES = {
    "decode": lambda x: lp.decode(x, "e4m3fn"),
    "decode to bfloat16": lambda x: lp.decode(x, "e4m3fn", dtype=ml_dtypes.bfloat16),
    "cast": lambda x: lp.cast(x, "e4m3fn", "e5m2"),
    "classify": lambda x: lp.classify(x, "e4m3fn"),
    "equal": lambda x: lp.equal(x, 0, "e4m3fn"),
    "not_equal": lambda x: lp.not_equal(x, CODES.T.copy().T, "e4m3fn"),
    "less": lambda x: lp.less(0x38, x, "e4m3fn"),
    "total_order": lambda x: lp.total_order(x, x, "e4m3fn"),
}


@pytest.mark.parametrize("verb", OF_CODES)
def test_codes_in_tensors_give_tensors(verb):
    """As uint8, and as torch's own type of the format; single codes too."""
    torch = _torch()
    wanted = OF_CODES[verb](CODES)
    assert _same(OF_CODES[verb](torch.from_numpy(CODES)), wanted)
    assert _same(OF_CODES[verb](torch.from_numpy(CODES).view(torch.float8_e4m3fn)), wanted)
    assert lp.decode(torch.tensor(126, dtype=torch.uint8), "e4m3fn") == torch.tensor(448.0)


def test_what_is_given_to_write_to_comes_back():
    """`out=` is the result, whatever came in; blocks are blocks."""
    torch = _torch()
    tensor, out = torch.from_numpy(VALUES), np.empty(VALUES.shape, np.uint8)
    assert lp.encode(tensor, "e4m3fn", out=out) is out
    assert (out == lp.encode(VALUES, "e4m3fn")).all()
    assert isinstance(lp.encode(tensor, "mxfp4"), lp.BlockArray)
    assert (lp.encode(tensor, "mxfp4").codes == lp.encode(VALUES, "mxfp4").codes).all()


FP8 = ["float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "float8_e4m3fnuz", "float8_e5m2fnuz"]


def _place(array):
    """Return the address of an array's first element."""
    return array.__array_interface__["data"][0]


@pytest.mark.parametrize("name", [*FP8, "bfloat16", "float16", "float32", "float64", "uint8"])
def test_tensors_are_read_where_they_lie(name):
    """Compare addresses with the table of docs/arrays.md, transposed and strided too."""
    torch = _torch()
    size = getattr(torch, name).itemsize
    tensor = torch.arange(24 * size, dtype=torch.uint8).view(getattr(torch, name)).view(4, 6)
    for each in (tensor, tensor.T, tensor[::2, 1::2]):
        array = as_array(each)
        assert (_place(array), array.shape) == (each.data_ptr(), tuple(each.shape))
        assert array.strides == tuple(step * size for step in each.stride())
        assert array.tolist() == each.contiguous().tolist()


@pytest.mark.parametrize("name", FP8)
def test_codes_in_tensors_are_written_where_they_lie(name):
    """Follow the way out of the message, for a transposed tensor too; results share memory with theirs."""
    torch = _torch()
    wanted = lp.encode(abs(VALUES), name)
    for out in (torch.zeros(2, 3, dtype=torch.uint8), torch.zeros(3, 2, dtype=torch.uint8).T):
        codes = out.view(getattr(torch, name))
        with pytest.raises(TypeError) as told:
            lp.encode(abs(VALUES), name, out=codes)
        way = "out.view(torch.uint8).numpy()"
        assert str(told.value) == f"out must be a NumPy array of uint8, not Tensor; give {way}"
        lp.encode(abs(VALUES), name, out=eval(way, {"out": codes, "torch": torch}))
        assert codes.view(torch.uint8).tolist() == wanted.tolist()
    back = torch.from_numpy(wanted).view(getattr(torch, name))
    assert back.data_ptr() == _place(wanted)
    with pytest.raises(RuntimeError, match="Unsupported dtype"):  # so bytes are what is exchanged
        np.from_dlpack(back)
    with pytest.raises(BufferError, match="DLPack only supports"):
        torch.from_dlpack(wanted.view(name))
    with pytest.raises(TypeError, match=r"not Tensor; give out.view\(torch.float32\).numpy\(\)$"):
        lp.decode(wanted, name, out=torch.zeros(2, 3))
    with pytest.raises(TypeError, match=r"^out must be a NumPy array of bfloat16, not Tensor$"):
        lp.decode(wanted, name, dtype="bfloat16", out=torch.zeros(2, 3, dtype=torch.bfloat16))


def test_packed_tensors_are_refused_with_what_unpacks_them():
    """Refuse float4_e2m1fn_x2; the way out copies, and loses nothing."""
    torch = _torch()
    blocks = lp.encode(np.linspace(-3, 3, 64, dtype=np.float32), "mxfp4")
    tensor = torch.from_dlpack(blocks)
    message = (
        "cannot make an array of Tensor: float4_e2m1fn_x2 has two codes an element; give "
        "BlockArray.unpack its .view(torch.uint8)"
    )
    with pytest.raises(TypeError, match=re.escape(message)):
        lp.decode(tensor, "e2m1fn")
    assert lp.BlockArray.unpack(tensor.view(torch.uint8), blocks.scales, "mxfp4") == blocks


def test_jax_arrays_are_read_where_they_lie():
    """Compare addresses for all types of 8 and 16 bits; JAX's arrays cannot be written."""
    need_framework("jax")
    jnp = importlib.import_module("jax.numpy")
    for name in [*FP8, "float8_e4m3", "float8_e3m4", "float8_e4m3b11fnuz", "bfloat16", "float32"]:
        array = jnp.asarray(abs(VALUES)).astype(name)
        assert _place(as_array(array)) == array.unsafe_buffer_pointer(), name


def test_tensors_are_checked_and_compared():
    """`check_cast` takes answers of every type of torch's, and gives tensors where it is asked to."""
    torch = _torch()
    few = {"samples": 0, "any_nan": True}
    assert check_cast(lambda x: torch.from_numpy(x.copy()).to(torch.float8_e5m2), "e5m2", **few).tried > 1000
    check_cast(lambda x: x.to(torch.bfloat16).requires_grad_(), "bfloat16", source=torch.float32, **few)
    check_cast(lambda x: x.to(torch.float16), "binary16", source=torch.bfloat16, **few)
    with pytest.raises(AssertionError, match="breaks the law"):
        check_cast(lambda x: x.to(torch.bfloat16).to(torch.float8_e5m2), "e5m2", source=torch.float32, **few)
    x = torch.linspace(-4, 4, 64)
    assert lp.compare(x.requires_grad_(), x.detach().to(torch.float8_e5m2), "e5m2").mismatches == 0
    assert lp.compare(x.to(torch.bfloat16), lp.quantize(x.to(torch.bfloat16), "e5m2"), "e5m2").mismatches == 0
    assert lp.compare(x, lp.encode(x, "e5m2", rounding="toward_zero"), "e5m2").mismatches > 0


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float8_e5m2"])
def test_jax_arrays_are_their_values(name):
    """JAX gives ml_dtypes arrays itself."""
    need_framework("jax")
    jnp = importlib.import_module("jax.numpy")
    array = jnp.asarray(VALUES).astype(name)
    plain = np.asarray(array, np.float64)
    assert (lp.encode(array, "e4m3fn") == lp.encode(plain, "e4m3fn")).all()
    assert lp.add(array, 1.5, "e4m3fn").tobytes() == lp.add(np.asarray(array), 1.5, "e4m3fn").tobytes()
    assert lp.dot(array, array, "exact").tobytes() == lp.dot(plain, plain, "exact").tobytes()


DLPACK = {
    "mxfp8_e4m3": "float8_e4m3fn",
    "mxfp8_e5m2": "float8_e5m2",
    "mxfp4": "float4_e2m1fn_x2",
    "nvfp4": "float4_e2m1fn_x2",
    "mxfp6_e2m3": "uint8",
    "mxint8": "uint8",
}


@pytest.mark.parametrize("version", [None, (1, 0)])
@pytest.mark.parametrize("fmt", DLPACK)
def test_blocks_go_to_torch_under_their_own_type(fmt, version):
    """By DLPack, of the packed codes; of formats that it has no type for, as bytes."""
    torch = _torch()
    blocks = lp.encode(np.linspace(-3, 3, 128, dtype=np.float32).reshape(2, 64), fmt)
    options = {} if version is None else {"max_version": version}
    tensor = torch.utils.dlpack.from_dlpack(blocks.__dlpack__(**options))
    assert str(tensor.dtype) == f"torch.{DLPACK[fmt]}"
    assert (tensor.view(torch.uint8).numpy() == blocks.packed()).all()
    assert torch.from_dlpack(blocks).dtype == tensor.dtype
    if fmt == "mxfp8_e4m3":
        assert (lp.decode(tensor, "e4m3fn").numpy() == lp.decode(blocks.codes, "e4m3fn")).all()


@pytest.mark.parametrize(
    "name", ["e3m4", "float8_e4m3", "e4m3b11fnuz", "e4m3fnuz", "e5m2fnuz", "e8m0fnu", "bfloat16"]
)
def test_other_types_of_dlpack_are_those_of_jax(name):
    """JAX has all of its types of 8 bits."""
    need_framework("jax")
    jax = importlib.import_module("jax")
    codes = np.arange(6, dtype=np.uint8 if name != "bfloat16" else np.uint16)
    fmt = lp.BlockFormat(name="own", element=name, scale="binary32", size=8)
    blocks = lp.BlockArray(codes, np.zeros(1, np.uint32), fmt)
    assert np.asarray(jax.dlpack.from_dlpack(blocks)).dtype == lp.dtype(name)


# -- frames -----------------------------------------------------------------------------------------


def test_frames_keep_their_names():
    """Of a Series and of a DataFrame: rows, columns and types; a product of matrices is an array."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1.1, 2.2], "b": [3.3, 500.0]}, index=["p", "q"])
    codes = lp.encode(frame, "e4m3fn")
    assert list(codes.index) == ["p", "q"]
    assert list(codes.columns) == ["a", "b"]
    assert codes.dtypes.tolist() == [np.uint8, np.uint8]
    assert (codes.to_numpy() == lp.encode(frame.to_numpy(), "e4m3fn")).all()
    series = lp.quantize(frame["a"], "e4m3fn")
    assert (series.name, list(series.index), series.dtype) == ("a", ["p", "q"], np.float64)
    assert lp.quantize(frame, "mxfp4").dtypes.tolist() == [np.float64, np.float64]
    assert lp.less(codes, 0x40, "e4m3fn").loc["p", "a"]
    assert lp.add(frame, frame, "e4m3fn").equals(lp.multiply(frame, 2.0, "e4m3fn"))
    assert type(lp.matmul(frame, np.ones((2, 1)), "fp32_fma")) is np.ndarray
    with pytest.raises(ValueError, match=r"^operands are frames with different rows or columns"):
        lp.add(frame, frame.iloc[::-1], "e4m3fn")


def _nearest_single(number):
    """An integer rounded to 24 significant bits, ties to even, by fractions."""
    unit = 1 << max(0, abs(number).bit_length() - 24)
    return round(Fraction(number, unit)) * unit


INTEGERS = [2**62 + 2**38 + 1, 2**53 + 1, -(2**60) - 2**36 - 1, 3]


@pytest.mark.parametrize("dtype", ["int64", "uint64", "Int64", "UInt64"])
def test_integers_in_frames_are_rounded_once(dtype):
    """Beside floats, beside integers of the other sign and beside missing ones."""
    pd = pytest.importorskip("pandas")
    given = [abs(each) for each in INTEGERS] if dtype.lower().startswith("u") else INTEGERS
    want = [float(_nearest_single(each)) for each in given]
    column = pd.Series(given, dtype=dtype)
    frames = [
        pd.DataFrame({"i": column, "f": np.float32([1, 2, 3, 4])}),
        pd.DataFrame({"f": [0.1] * 4, "i": column, "j": np.int8([1, 2, 3, 4])}),
        pd.DataFrame({"i": column, "n": pd.array([1, None, 3, 4], dtype="Int64")}),
    ]
    for frame in frames:
        assert lp.quantize(frame, "binary32")["i"].tolist() == want
        assert lp.decode(lp.encode(frame, "binary32"), "binary32")["i"].tolist() == want
        assert lp.add(frame, 0, "binary32")["i"].tolist() == want
        assert lp.add(np.zeros(frame.shape), frame, "binary32")["i"].tolist() == want
        assert lp.negative(frame, "binary32")["i"].tolist() == [-each for each in want]
        assert lp.quantize(frame, "binary32").dtypes.nunique() == 1
    if dtype[0] in "IU":
        column[1] = pd.NA
        for values in (column, pd.DataFrame({"i": column})):
            found = np.ravel(lp.quantize(values, "binary32"))
            assert np.isnan(found[1])
            assert found[[0, 2, 3]].tolist() == [want[0], *want[2:]]


def test_mixed_frames_have_the_bits_of_arrays():
    """Where an array holds them all: codes, results at random, what is signaled and what is written."""
    pd = pytest.importorskip("pandas")
    whole = np.array([[1.0, 3.5, 500, -7], [2.0, 0.1, 17, 9], [5.0, 1e-9, 1, -0.3]])
    frame = pd.DataFrame(whole, columns=list("abcd")).astype({"a": "int64", "c": "int16"})
    lanes = lp.stochastic(16, variant="ptx_rs")
    words = np.arange(3, dtype=np.uint32)[:, None] << 28
    for how in (
        {},
        {"rounding": lp.stochastic(8), "rng": 5},
        {"rounding": lanes, "rng": 5},
        {"rounding": lanes, "random": words},
    ):
        want, raised = lp.encode(whole, "e5m2", **how), np.zeros((3, 4), np.uint8)
        lp.encode(whole, "e5m2", flags=raised, **how)
        flags, out = np.full((3, 4), 255, np.uint8), np.zeros((3, 4), np.uint8)
        assert (lp.encode(frame, "e5m2", **how).to_numpy() == want).all()
        assert lp.encode(frame, "e5m2", flags=flags, out=out, **how) is out
        assert (out == want).all()
        assert (flags == raised).all()
        sums = lp.add(frame, frame, "e5m2", **how)
        assert sums.to_numpy().tobytes() == lp.add(whole, whole, "e5m2", **how).tobytes()
    other = lp.add(frame, np.float32([1, 2, 3, 4]), "e5m2")
    assert other.to_numpy().tobytes() == lp.add(whole, np.float32([1, 2, 3, 4]), "e5m2").tobytes()
    few = frame[["a", "c"]].clip(0, 126)
    assert lp.less(few, 3, "e4m3fn").to_numpy().tolist() == lp.less(few.to_numpy(), 3, "e4m3fn").tolist()
    assert lp.ulp(frame, "e5m2").to_numpy().tolist() == lp.ulp(whole, "e5m2").tolist()
    assert (lp.encode(frame, "mxfp4").codes == lp.encode(whole, "mxfp4").codes).all()


def test_frames_that_no_array_holds_are_refused():
    """By what needs all elements in one type; and a Series beside a frame, which pandas aligns otherwise."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"i": [2**53 + 1, 1], "f": [0.5, 1.5]})
    message = (
        "numbers of int64 and float64 would become an array of float64, which rounds integers from 2**53 on; "
        "fill missing ones, which are NaN, and give columns of a frame one by one"
    )
    for call in (
        lambda: lp.encode(frame, "mxfp4"),
        lambda: lp.matmul(frame, np.ones((2, 1)), "fp32_fma"),
        lambda: lp.scale_for(frame, "e4m3fn"),
    ):
        with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
            call()
    with pytest.raises(ValueError, match=r"^operands are frames with different rows or columns"):
        lp.add(frame, frame["f"], "e4m3fn")
    with pytest.raises(ValueError, match="cannot encode NaN values") as told:
        lp.encode(pd.DataFrame({"i": [1, 2], "f": [1.5, np.nan]}), "e2m1fn")
    assert told.value.__notes__ == ["places are those among the elements of float64"]
    with pytest.raises(TypeError, match="values must be real numbers"):
        lp.encode(pd.DataFrame({"i": [1, 2], "s": ["x", "y"]}), "e4m3fn")
    with pytest.raises(TypeError, match="values must be real numbers"):
        lp.encode(pd.DataFrame({"i": [1, 2], "t": pd.to_datetime(["2020-01-01", "2020-01-02"])}), "e4m3fn")


@pytest.mark.parametrize(
    ("dtype", "hint"), [("float64", ""), ("float32", "; give out.view(torch.float32).numpy()")]
)
def test_views_of_tensors_are_advised_only_where_they_can_be_taken(dtype, hint):
    torch = _torch()
    message = f"out must be a NumPy array of float32, not Tensor{hint}"
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        lp.decode([1], "e4m3fn", out=torch.zeros(1, dtype=getattr(torch, dtype)))


def test_a_list_of_tensors_that_numpy_does_not_take_is_refused_with_the_way_out():
    with pytest.raises(TypeError, match=r"cannot make an array of list: .*; give torch\.stack"):
        lp.encode([_torch().tensor(1.0, dtype=_torch().bfloat16)], "e4m3fn")


@pytest.mark.parametrize("fmt", ["mxfp8_e4m3", "mxfp4", "nvfp4", "mxint8"])
@pytest.mark.parametrize("make", ["tensor", "as_tensor", "from_dlpack"])
def test_tensors_of_blocks_are_packed_codes_without_scales(make, fmt):
    torch = _torch()
    blocks = lp.encode(np.random.default_rng(0).standard_normal((4, 32)).astype(np.float32), fmt)
    codes = getattr(torch, make)(blocks)
    assert np.array_equal(codes.view(torch.uint8).numpy().reshape(4, -1), blocks.packed())
    assert np.array_equal(torch.tensor(np.asarray(blocks)).numpy(), blocks.values())


@pytest.mark.apart
@pytest.mark.parametrize(
    ("imports", "call"),
    [
        ("import torch, lowprec as lp", 'lp.quantize(x, "e4m3fn")'),
        ("import lowprec as lp, torch", 'lp.quantize(x, "mxfp4")'),
        ("import torch, lowprec as lp", 'torch.from_numpy(lp.quantize(x.numpy(), "e4m3fn"))'),
    ],
)
def test_the_first_call_of_a_process_may_stand_in_a_compiled_function(imports, call):
    """The verb runs as it is between two graphs, and works afterwards as it did before."""
    _torch()
    script = f"""{imports}
import warnings
warnings.simplefilter("ignore")
x = torch.linspace(-4, 4, 1024).reshape(32, 32)
def function(x):
    return ({call}) * 2 + x
made = torch.compile(function, backend="eager")(x)
assert torch.equal(made, function(x)), made
"""
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, timeout=300)


def test_a_compiler_without_the_functions_that_are_told_changes_nothing(monkeypatch):
    """They are internal to torch, and another version may lack them."""
    monkeypatch.setattr(graphs, "_told", [])
    for name in ("trace_rules", "eval_frame"):
        monkeypatch.setitem(sys.modules, f"torch._dynamo.{name}", types.ModuleType(name))
    for told in ([], [True]):
        monkeypatch.setattr(graphs, "_told", told)
        assert lp.add([1.0], [2.0], "bfloat16").tolist() == [3.0]


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_the_page_on_arrays_shows_what_training_code_gives(framework, capsys):
    """Fenced code that needs a framework, and what it prints."""
    need_framework(framework)
    page = (pathlib.Path(__file__).parents[2] / "docs" / "arrays.md").read_text()
    (code,) = (
        each for each in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if f"import {framework}" in each
    )
    exec(compile(code, "arrays.md", "exec"), {})
    assert capsys.readouterr().out.splitlines() == [re.search(r"\)  # (.*)$", code.rstrip())[1]]
