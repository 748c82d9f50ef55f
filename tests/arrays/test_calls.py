"""The memo of earlier calls: a second call is answered, or refused, as the first was."""

import itertools
import pickle

import ml_dtypes
import numpy as np
import pytest

import lowprec as lp
from lowprec.spec import catalog
from tests.support import assert_same_bits

X = np.array([0.3, -1.5, 448.0, 1e9, 0.0, -0.0], np.float32)


@pytest.mark.parametrize("verb", ["encode", "quantize"])
@pytest.mark.parametrize("wrong", [{"axis": -1}, {"rule": "floor"}, {"tensor_scale": 1.0}], ids=str)
def test_a_call_that_is_refused_writes_nothing_after_one_that_is_answered(verb, wrong):
    """Keywords of blocks have no meaning for single values, and are looked at before the memo is."""
    function, dtype = getattr(lp, verb), np.uint8 if verb == "encode" else np.float32
    out = np.zeros(X.shape, dtype)
    for _ in range(2):
        function(X, "e4m3fn", out=out)
    before = out.copy()
    for _ in range(2):
        with pytest.raises(ValueError, match="is for block formats, and 'e4m3fn' is none"):
            function(X[::-1].copy(), "e4m3fn", out=out, **wrong)
        assert_same_bits(out, before, X, "out")


TYPED = [name for name in catalog.FORMATS if catalog.ml_dtypes_name(catalog.format(name))]


@pytest.mark.parametrize("name", [*TYPED, "binary16", "binary32", "int8", "uint8"])
def test_typed_arrays_are_decoded_and_cast_alike_each_time(name):
    """The first call looks at the type; the later ones must read the same bits."""
    kind = lp.dtype(name)
    typed = np.array([0, 1, 1, 0]).astype(kind) if kind.kind in "iu" else np.ones(4).astype(kind)
    codes = typed.view(f"u{kind.itemsize}")
    want, target = lp.decode(codes.copy(), name, dtype="float64"), "binary32"
    casts = lp.cast(codes.copy(), name, target)
    values = lp.encode(typed.astype(np.float64), "e5m2")
    for _ in range(3):
        assert_same_bits(lp.decode(typed, name, dtype="float64"), want, codes, name)
        assert lp.decode(typed, name).tolist() == want.tolist()
        assert lp.cast(typed, name, target).tolist() == casts.tolist()
        assert lp.encode(typed, "e5m2").tolist() == values.tolist()
        assert lp.add(typed, typed, "binary32").tolist() == (2 * want).tolist()
    assert lp.decode(codes, name, dtype="float64").tolist() == want.tolist()


def test_calls_that_differ_in_one_argument_do_not_answer_each_other():
    """Each pair of calls in turn, twice: what the second gives does not depend on the first."""
    calls = {
        "codes": lambda: lp.encode(X, "e4m3fn"),
        "float64": lambda: lp.encode(X.astype(np.float64), "e4m3fn"),
        "bits": lambda: lp.cast(X.view(np.uint32), "binary32", "e4m3fn"),
        "saturated": lambda: lp.encode(X, "e4m3fn", saturation="finite"),
        "projection": lambda: lp.encode(X, "e4m3fn", projection=lp.Projection(saturation="finite")),
        "profile": lambda: lp.encode(X, "e4m3fn", profile="ocp_sat"),
        "other format": lambda: lp.encode(X, "e5m2"),
        "values": lambda: lp.quantize(X, "e4m3fn"),
        "bfloat16": lambda: lp.quantize(X, "e4m3fn", out=np.empty(X.shape, ml_dtypes.bfloat16)),
        "drawn": lambda: lp.encode(X, "e4m3fn", rounding="stochastic(8)", rng=7),
        "drawn otherwise": lambda: lp.encode(X, "e4m3fn", rounding="stochastic(8)", rng=8),
        "flags": lambda: lp.encode(X, "e4m3fn", flags=np.empty(X.shape, np.uint8)),
        "twice": lambda: lp.add(X, X, "e4m3fn"),
        "squared": lambda: lp.multiply(X, X, "e4m3fn"),
    }
    alone = {name: np.array(call()) for name, call in calls.items()}
    for first, second in itertools.product(calls, repeat=2):
        calls[first]()
        found = np.array(calls[second]())
        assert found.dtype == alone[second].dtype
        assert found.tobytes() == alone[second].tobytes(), f"{second} after {first}"


@pytest.mark.parametrize(
    "view",
    [
        lambda out: out.view(np.uint8),
        lambda out: out.view(np.uint8)[:].view(),
        lambda out: np.frombuffer(out, np.uint8),
        lambda out: np.asarray(memoryview(out).cast("B")),
        lambda out: np.lib.stride_tricks.as_strided(out.view(np.uint8), (4 * out.size,), (1,)),
    ],
    ids=["view", "view of a view", "buffer", "memoryview", "strides"],
)
def test_codes_in_the_bytes_of_out_are_read_before_they_are_written(view):
    """Whichever way they are seen: from the second call on, few questions tell that memory is shared."""
    for first in (0, 1, 500):
        out = np.zeros(1000, np.float32)
        codes = view(out)[first : first + 1000]
        lp.decode(codes, "e4m3fn", out=np.empty_like(out))
        codes[:] = np.arange(1000) % 126
        want = lp.decode(codes.copy(), "e4m3fn")
        assert lp.decode(codes, "e4m3fn", out=out) is out
        assert_same_bits(out, want, np.arange(1000), f"from byte {first} on")


@pytest.mark.parametrize("place", [0, 1, 2])
def test_operands_that_are_out_or_of_other_sizes_are_told_each_time(place):
    """An operand may be `out`, lie in its bytes, have one element, another stride, or another size."""
    given = [np.arange(1, 41, dtype=np.float32) + i for i in range(3)]
    want = lp.fma(*given, "bfloat16")
    for _ in range(3):
        operands = [array.copy() for array in given]
        assert lp.fma(*operands, "bfloat16", out=operands[place]) is operands[place]
        assert_same_bits(operands[place], want, given[0], "an operand is out")
        out = np.zeros(41, np.float32)[1:]
        shifted = [array.copy() for array in given]
        shifted[place] = out.base[:-1]
        shifted[place][:] = given[place]
        assert lp.fma(*shifted, "bfloat16", out=out) is out
        assert_same_bits(out, want, given[0], "an operand lies one element before out")
        strided = [array.copy() for array in given]
        strided[place] = np.repeat(given[place], 2)[::2]
        assert_same_bits(lp.fma(*strided, "bfloat16"), want, given[0], "an operand has a stride")
        single = [array.copy() for array in given]
        single[place] = given[place][:1]
        spread = [np.broadcast_to(array, 40).copy() for array in single]
        assert_same_bits(lp.fma(*single, "bfloat16"), lp.fma(*spread, "bfloat16"), given[0], "of one element")
        single[place] = given[place][:2]
        with pytest.raises(ValueError, match="takes operands that broadcast together"):
            lp.fma(*single, "bfloat16")


#: Arrays of types that are equal to NumPy's float32, and other objects.
KINDS = {
    "pickled": lambda array: pickle.loads(pickle.dumps(array)),
    "swapped twice": lambda array: (
        array.byteswap().view(">f4").byteswap().view(np.dtype(">f4").newbyteorder())
    ),
    "with metadata": lambda array: array.view(np.dtype(np.float32, metadata={"unit": "m"})),
}


@pytest.mark.parametrize("kind", KINDS)
def test_types_that_equal_float32_are_float32(kind):
    """What is refused is told all the same."""
    good = np.linspace(1, 2, 40, dtype=np.float32)
    bad = good.copy()
    bad[7] = np.nan
    usual, other = KINDS[kind](good), KINDS[kind](bad)
    assert usual.dtype == np.float32
    assert usual.dtype is not np.dtype(np.float32)
    calls = (
        lambda x: lp.add(x, x, "e2m1fn"),
        lambda x: lp.sqrt(x, "int8"),
        lambda x: lp.encode(x, "e2m1fn"),
    )
    for call in calls:
        for _ in range(3):
            want = call(good)
            assert_same_bits(call(usual), want, good, kind)
            for array in (bad, other):
                with pytest.raises(ValueError, match=r"at index \(7,\)|cannot encode NaN"):
                    call(array)


@pytest.mark.parametrize("step", range(0, 64, 2))
def test_many_results_in_binary16_at_every_address(step):
    """NumPy's own cast, and one NaN: the first elements are written apart, up to an aligned address."""
    size = (1 << 17) + 37
    values = np.random.default_rng(step).standard_normal(size).astype(np.float32)
    nans = [0, 1, 15, 16, 31, 32, size - 33, size - 1]
    want = values.astype(np.float16).view(np.uint16)
    values.view(np.uint32)[nans] = np.resize([0x7F800001, 0xFFC12345], len(nans)).astype(np.uint32)
    want[nans] = np.resize([0x7E00, 0xFE00], len(nans))
    memory = np.full(size + 96, 0xABCD, np.uint16)
    first = (-memory.ctypes.data % 64 + step) // 2
    out = memory[first:][:size]
    for _ in range(2):
        assert lp.encode(values, "binary16", out=out) is out
        assert_same_bits(out, want, values, f"{step} bytes past a multiple of 64")
        assert (np.append(memory[:first], memory[first + size :]) == 0xABCD).all()
        out[:] = 0
