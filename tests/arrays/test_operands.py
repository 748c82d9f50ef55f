"""Every verb takes every kind of array, in every argument that is an array, or says why not.

Each answer is held against that for plain NumPy arrays of the same data. A verb or an argument that the table
lacks makes a test fail.
"""

import functools
import inspect

import dask.array as da
import ml_dtypes
import numpy as np
import pytest
import xarray as xr

import lowprec as lp
from lowprec.arrays.operations import Options
from lowprec.spec.arith import OPERANDS
from lowprec.spec.functions import FUNCTIONS

pytestmark = pytest.mark.filterwarnings("ignore::dask.array.PerformanceWarning")

# -- the table --------------------------------------------------------------------------------------

RNG = np.random.default_rng(11)
VALUES = (RNG.standard_normal((4, 6)) * 4).astype(np.float32)
OTHERS = np.abs(RNG.standard_normal((4, 6))).astype(np.float32) + 1
CODES = RNG.integers(0, 127, (4, 6)).astype(np.uint8)
WORDS = RNG.integers(0, 256, (4, 6)).astype(np.uint32)
SCALE = np.float32([[1], [2], [0.5], [3]])
JOINS = (RNG.standard_normal((4, 4)) * 2).astype(np.float32)

A_B, A, NONE = ("a", "b"), ("a", "one"), ()


def array(data, dims=A_B):
    """An argument, with the names of its dimensions."""
    return np.asarray(data), dims


def room(dtype, shape=(4, 6), dims=A_B):
    """An argument to write to."""
    return np.zeros(shape, dtype), dims


FLAGS, RANDOM = {"flags": room(np.uint8)}, {"random": array(WORDS)}
STOCHASTIC = {"rounding": lp.stochastic(8)}


def _operation(name, count):
    """An operation, once to nearest with all that is written to, and once at random."""
    operands = dict(zip("xyz"[:count], map(array, (np.abs(VALUES) / 8, OTHERS / 8, VALUES)), strict=False))
    if name.startswith("atan2"):
        operands = dict(zip("yx", operands.values(), strict=True))
    if name == "scaleb":
        operands = {"x": array(VALUES), "n": array(np.arange(24).reshape(4, 6) - 12)}
    return [
        (operands | FLAGS | {"out": room(np.float32)}, {"fmt": "e4m3fn"}),
        (operands | RANDOM, {"fmt": "e4m3fn", **STOCHASTIC}),
    ]


PAIR = {"x_codes": array(CODES), "y_codes": array(CODES[::-1])}
X, Y = (each.astype(ml_dtypes.float8_e4m3fn).astype(np.float32) for each in (VALUES, OTHERS))
AFTER = {
    "scales": ((SCALE, A), (SCALE, A)), "bias": array(JOINS[0], A[:1]), "output_scale": array(2.0, NONE),
}  # fmt: skip
NVFP4 = lp.encode(VALUES, "nvfp4", backend="oracle")  # compiles nothing
BLOCKS = {"fmt": "nvfp4"}
TENSOR = {"tensor_scale": array(np.float32(0.0625), NONE)}

#: Verbs, each with calls: arguments that are arrays, and others.
CALLS = {
    "encode": [
        ({"values": array(VALUES), **FLAGS, "out": room(np.uint8)}, {"fmt": "e4m3fn"}),
        ({"values": array(VALUES), **RANDOM}, {"fmt": "e4m3fn", **STOCHASTIC}),
        ({"values": array(VALUES), **RANDOM, **TENSOR}, {**BLOCKS, **STOCHASTIC}),
        ({"values": array(VALUES), "scales": array(NVFP4.scales, A), **TENSOR}, BLOCKS),
    ],
    "decode": [
        ({"codes": array(CODES), **FLAGS, "out": room(np.float32)}, {"fmt": "e4m3fn"}),
    ],
    "quantize": [
        ({"values": array(VALUES), **FLAGS, "out": room(np.float32)}, {"fmt": "e4m3fn"}),
        ({"values": array(VALUES), **RANDOM}, {"fmt": "e4m3fn", **STOCHASTIC}),
        ({"values": array(VALUES), **RANDOM, **TENSOR}, {**BLOCKS, **STOCHASTIC}),
    ],
    "cast": [
        ({"codes": array(CODES), **FLAGS, "out": room(np.uint8)}, {"source": "e4m3fn", "target": "e5m2"}),
        ({"codes": array(CODES), **RANDOM}, {"source": "e4m3fn", "target": "e5m2", **STOCHASTIC}),
    ],
    **{name: _operation(name, count) for name, count in OPERANDS.items()},
    **{name: _operation(name, rule.operands) for name, rule in FUNCTIONS.items()},
    **{
        name: [(PAIR | FLAGS, {"fmt": "e4m3fn"})]
        for name in ("equal", "greater", "greater_equal", "less", "less_equal", "not_equal", "unordered")
    },
    "total_order": [(PAIR, {"fmt": "e4m3fn"})],
    "classify": [({"codes": array(CODES)}, {"fmt": "e4m3fn"}), ({"codes": array(CODES)}, {"fmt": "posit8"})],
    "nextafter": [
        ({"x": array(VALUES), "y": array(OTHERS)}, {"fmt": fmt}) for fmt in ("e4m3fn", "posit8")
    ],
    "ulp": [({"x": array(VALUES)}, {"fmt": fmt}) for fmt in ("e4m3fn", "posit8")],
    "dot": [
        ({"x": array(X), "y": array(Y), "addend": array(SCALE[:, 0], A[:1]),
          "out": room(np.float32, 4, A[:1])}, {"accumulation": "fp32_fma"}),
        ({"x": array(X), "y": array(Y), "addend": array(SCALE[:, 0], A[:1]), **AFTER},
         {"accumulation": "fp32_fma"}),
    ],
    "matmul": [
        ({"x": array(X), "y": array(Y.T, ("b", "c")), "addend": array(JOINS, ("a", "c")),
          "out": room(np.float32, (4, 4), ("a", "c"))}, {"accumulation": "fp32_fma"}),
        ({"x": array(X), "y": array(Y.T, ("b", "c")), "addend": array(JOINS, ("a", "c")),
          "scales": ((SCALE, A), (SCALE.T, ("one", "c"))), "bias": array(JOINS, ("a", "c")),
          "output_scale": array(JOINS, ("a", "c"))}, {"accumulation": "fp32_fma"}),
    ],
    "scale_for": [
        ({"values": array(VALUES)}, {"fmt": "e4m3fn", "method": method, "axis": axis})
        for method in ("max", "percentile", "mse") for axis in (None, 0, 1)
    ],
    "error_report": [
        ({"values": array(VALUES), "scale": array(SCALE, A), **RANDOM}, {"fmt": "e4m3fn", **STOCHASTIC}),
        ({"values": array(VALUES), **RANDOM, **TENSOR}, {**BLOCKS, **STOCHASTIC}),
    ],
    "sweep_formats": [({"data": array(VALUES)}, {"elements": ["e2m1fn", "mxfp4"], "sizes": [2]})],
    "BlockArray": [
        ({"codes": array(NVFP4.codes), "scales": array(NVFP4.scales, A_B), **TENSOR}, {"format": "nvfp4"}),
    ],
    "BlockArray.unpack": [
        ({"packed": array(NVFP4.packed()), "scales": array(NVFP4.scales), **TENSOR}, {"format": "nvfp4"}),
    ],
    "BlockArray.unswizzle": [({"swizzled": array(NVFP4.swizzled(), ("a",))}, {"shape": (4, 1)})],
}  # fmt: skip

#: Arguments whose axes have places, not names alone.
PLACED = {("scale_for", "values"), ("sweep_formats", "data"), ("BlockArray", "codes")}

#: What takes no arrays that the arrays' floor reads, and why.
ELSEWHERE = {
    "dtype": "a format", "format": "a name", "get_threads": "nothing", "set_threads": "a number",
    "load": "a path", "load_toml": "a path", "read_capture": "a path", "to_toml": "a format",
    "random_bits": "a shape", "stochastic": "a number", "identify": "a function",
    "compare": "dumps, which are read piece by piece", "save": "stored as they are",
    "equal_quantizers": "functions, or dumps",
}  # fmt: skip

#: Arguments that are no arrays, of any verb.
OTHER = {
    "fmt", "source", "target", "format", "accumulation", "epilogue", "rounding", "saturation", "projection",
    "profile", "rule", "rng", "dtype", "backend", "progress", "axis", "axes", "size", "shape", "method",
    "percentile", "power_of_two", "width", "elements", "sizes", "rules",
}  # fmt: skip
FORMATS = {("sweep_formats", "scales")}

WRITTEN = ("out", "flags")


def _verb(name):
    found = lp
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _arguments(verb):
    """The names of a verb's arguments, of its options too."""
    found = inspect.signature(verb).parameters
    options = any(each.kind is each.VAR_KEYWORD for each in found.values())
    return {name for name, each in found.items() if each.kind is not each.VAR_KEYWORD} | (
        set(Options.__annotations__) if options else set()
    )


def test_every_verb_is_in_the_table():
    """And every method of BlockArray that makes one."""
    public = {
        name for name in dir(lp) if callable(getattr(lp, name)) and not inspect.isclass(getattr(lp, name))
    }
    made = {
        f"BlockArray.{name}" for name, each in vars(lp.BlockArray).items()
        if isinstance(each, (classmethod, staticmethod)) and not name.startswith("_")
    }  # fmt: skip
    assert public | made | {"BlockArray"} == set(CALLS) | set(ELSEWHERE)


@pytest.mark.parametrize("name", CALLS)
def test_every_argument_is_in_the_table(name):
    """As an array in some call, or as something else."""
    known = OTHER | {each for arrays, _ in CALLS[name] for each in arrays}
    assert {each for each in _arguments(_verb(name)) if (name, each) not in FORMATS} <= known


# -- kinds ------------------------------------------------------------------------------------------


def _masked(data, dims):
    return np.ma.masked_array(data, np.arange(data.size).reshape(data.shape) == 0)


def _frame(data, dims):
    pd = pytest.importorskip("pandas")
    return pd.DataFrame(data.copy()) if data.ndim == 2 else pd.Series(data.copy()) if data.ndim else data[()]


def _named(data, dims):
    """Without axes that are there for NumPy's broadcasting alone."""
    if "one" in dims:
        data, dims = data.squeeze(dims.index("one")), tuple(dim for dim in dims if dim != "one")
    return xr.DataArray(data, dims=dims)


def _transposed(data, dims):
    return _named(data, dims).transpose()


def _empty_chunks(data, dims):
    return da.from_array(data, chunks=tuple((0, 1, 0, n - 1) if n > 1 else (0, n) for n in data.shape))


def _readonly(data, dims):
    made = data.copy()
    made.flags.writeable = False
    return made


KINDS = {
    "masked": _masked,
    "matrix": lambda data, dims: data.view(np.matrix) if data.ndim == 2 else data,
    "subclass": lambda data, dims: data.view(np.recarray) if data.ndim else data,
    "frame": _frame,
    "xarray": _transposed,
    "dask": lambda data, dims: da.from_array(
        data, chunks=tuple((1, n - 1) if n > 1 else (n,) for n in data.shape)
    ),
    "dask with empty chunks": _empty_chunks,
    "dask in xarray": lambda data, dims: _transposed(da.from_array(data, chunks=3), dims),
    "other byte order": lambda data, dims: data.astype(data.dtype.newbyteorder()),
    "read-only": _readonly,
    "no elements": lambda data, dims: data,
    "dask without elements": lambda data, dims: da.from_array(data, chunks=-1),
}


def _refusal(verb, name, kind, arrays):
    """What is said of an argument of a kind that a verb does not take, or None."""
    lazy = kind.startswith(("dask", "xarray"))
    written = name in WRITTEN
    if "without" in kind or "no elements" in kind:
        if verb == "sweep_formats":
            return "needs a finite value other than zero"
        if verb == "BlockArray.unswizzle" and not lazy:
            return r"take 512 places in tiles of 128x4, not 0$"
    if kind == "masked":
        return "masked array"
    if written and (lazy or kind == "frame"):
        return f"{name} must be a NumPy array of"
    if written and kind == "read-only":
        return f"{name} is read-only"
    if written and kind == "other byte order" and arrays[name][0].itemsize > 1:
        return "(not|of) >"
    if lazy and (
        name in ("packed", "swizzled") or (verb == "encode" and name == "scales" and "xarray" not in kind)
    ):
        return f"{name} must be an array in memory without names, not a"
    if lazy and verb == "encode" and "scales" in arrays:
        return "scales= is for NumPy arrays"
    if "xarray" in kind and (verb, name) == ("BlockArray.unpack", "scales"):
        return "scales has dimensions .* have no names"
    if "xarray" in kind and verb in ("dot", "matmul") and name in "xy":
        return "K is dimension"
    return None


def _plain(result, dims, shape=None):
    """Results as tuples of NumPy arrays, axes in the order of names."""
    if isinstance(result, lp.BlockArray):
        result = result.compute()
        return *_plain(result.codes, dims), *_plain(result.scales, dims), result.tensor_scale
    if isinstance(result, xr.DataArray):
        result = result.transpose(*(dim for dim in dims if dim in result.dims)).data
        if shape is not None:
            result = result.reshape(shape)
    if hasattr(result, "compute"):
        result = result.compute()
    if isinstance(result, (lp.ErrorReport, lp.FormatSweep)):
        return (str(result),)
    return (np.asarray(result),)


def _is_lazy(result):
    return result.is_lazy if isinstance(result, lp.BlockArray) else hasattr(result, "__dask_graph__")


def _each(argument, change):
    """An argument changed, or both of a pair."""
    data, dims = argument
    if isinstance(data, tuple):
        return tuple(change(*each) for each in argument)
    return change(data, dims)


def _cut(argument):
    """An argument without elements along "a"."""

    def cut(data, dims):
        return data[tuple(slice(0, 0) if dim == "a" else slice(None) for dim in dims)], dims

    return tuple(cut(*each) for each in argument) if isinstance(argument[0], tuple) else cut(*argument)


def _same(got, want):
    assert len(got) == len(want)
    for one, other in zip(got, want, strict=True):
        if isinstance(other, str) or other is None:
            assert one == other
            continue
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert one.tobytes() == other.tobytes()


@functools.cache
def _wanted(name, number, without, empty):
    """What plain arrays give, and what is written for them; without some arguments."""
    arrays, options = CALLS[name][number]
    given = {
        key: _each(_cut(each) if empty else each, lambda data, dims: data.copy())
        for key, each in arrays.items()
        if key not in without
    }
    return _verb(name)(**given, **options), given


@pytest.mark.apart
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CALLS)
def test_kinds_change_nothing(name, kind):
    """Each argument by itself of that kind, beside plain ones; xarray's beside others with names."""
    verb, change = _verb(name), KINDS[kind]
    lazy, named, empty = kind.startswith("dask"), "xarray" in kind, "without" in kind or "no elements" in kind
    for number, (arrays, options) in enumerate(CALLS[name]):
        for key in arrays:
            refused = _refusal(name, key, kind, arrays)
            drop = () if key in WRITTEN or not (lazy or named) else WRITTEN
            sample = {
                other: _cut(each) if empty else each for other, each in arrays.items() if other not in drop
            }
            data = {
                other: _each(each, _named)
                if named and other not in WRITTEN and key not in WRITTEN and "unpack" not in name
                else _each(each, lambda data, dims: data.copy())
                for other, each in sample.items()
            }
            data[key] = _each(sample[key], change)
            placed = (name, key) in PLACED or (key == "values" and options.get("fmt") == "nvfp4")
            if named and placed:
                data[key] = data[key].transpose(*A_B)
            if refused is not None:
                with pytest.raises((TypeError, ValueError), match=refused):
                    verb(**data, **options)
                continue
            want, written = _wanted(name, number, drop, empty)
            got = verb(**data, **options)
            if lazy and name != "sweep_formats" and not empty:
                assert _is_lazy(got), (key, type(got))
            _same(
                _plain(got, ("a", "b", "c"), np.shape(want) if name == "scale_for" else None),
                _plain(want, ()),
            )
            for other in WRITTEN:
                if other in written:
                    _same(_plain(data[other], ()), (written[other],))
            if "out" in data:
                assert got is data["out"]
