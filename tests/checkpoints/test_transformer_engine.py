"""Transformer Engine's weights by the layout's definition, in files of torch.save that are read and written.

The package needs CUDA, so its functions that make tensors are stood in for, with its names and arguments.
"""

import copyreg
import enum
import io
import json
import re
import sys
import types
import zipfile

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from lowprec.checkpoints.containers.safetensors_writing import SafetensorsWriter
from lowprec.checkpoints.containers.torch_writing import TorchWriter
from lowprec.checkpoints.converting import convert_checkpoint, dequantize_checkpoint
from lowprec.checkpoints.decoding import as_blocks, ranges, values_of
from lowprec.checkpoints.folder import open_checkpoint
from lowprec.checkpoints.linting import lint
from lowprec.checkpoints.quantizing import quantize_checkpoint, target
from lowprec.checkpoints.transformer_engine import encoded
from lowprec.checkpoints.verifying import verify_checkpoint
from lowprec.checkpoints.weights import weights_of
from lowprec.spec.catalog import NVFP4
from lowprec.verify.compare.compare import compare
from lowprec.verify.dumps.files import open_dump
from tests.checkpoints.files import changed, quantized, refusal, source
from tests.programs import need_framework

pytestmark = pytest.mark.apart

FORMATS = ["mxfp8_e4m3", "nvfp4"]
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)
SHAPE = (208, 192)


def _weight(found):
    (weight,) = [item for item in weights_of(found) if item.is_quantized]
    return weight


def _mxfp8(x):
    """Codes and scales of each row's blocks of 32: amax / 448 rounded up to a power of two, saturating."""
    runs = x.reshape(len(x), -1, 32)
    wanted = np.abs(runs).max(-1) * np.float32(1 / np.float32(448))
    bits = wanted.view(np.uint32)
    scales = ((bits >> 23) + ((bits & 0x7FFFFF) != 0)).astype(np.uint8)
    codes = np.clip(runs * np.ldexp(np.float32(1), 127 - scales.astype(int))[..., None], -448, 448)
    return codes.astype(ml_dtypes.float8_e4m3fn).reshape(x.shape), scales


def _nvfp4(x):
    """Codes and scales of 16x16, as the package's reference in Python computes them, in float32."""
    one, amax = np.float32(1), np.abs(x).max()
    encode = np.float32(2688) / amax
    most = np.abs(x.reshape(len(x) // 16, 16, -1, 16)).max((1, 3))
    scales = np.clip(most * (encode * (one / np.float32(6))), -448, 448).astype(ml_dtypes.float8_e4m3fn)
    inverse = one / (scales.astype(np.float32) * (one / encode))
    codes = np.clip(x * np.kron(inverse, np.ones((16, 16), np.float32)), -6, 6)
    return codes.astype(ml_dtypes.float4_e2m1fn).view(np.uint8), scales, amax


def _padded(scales, rows, columns):
    return np.pad(scales, ((0, -len(scales) % rows), (0, -scales.shape[1] % columns)))


def _pairs(codes):
    return codes[:, ::2] | codes[:, 1::2] << 4


def test_mxfp8_is_what_the_layout_defines(tmp_path):
    """Byte for byte: two copies that are rounded separately, scales padded to 128x4 and 4x128."""
    found, made = quantized(tmp_path, "transformer-engine", "mxfp8_e4m3", SHAPE := (224, 192))
    x = made.entries["m.q.weight"].read()
    get = {name.rpartition(".")[2]: entry.read() for name, entry in found.entries.items() if "m.q" in name}
    (along, scales), (down, others) = _mxfp8(x), _mxfp8(np.ascontiguousarray(x.T))
    for name, expected in (
        ("_rowwise_data", along), ("_rowwise_scale_inv", _padded(scales, 128, 4)),
        ("_columnwise_data", down.T), ("_columnwise_scale_inv", _padded(others.T, 4, 128)),
    ):  # fmt: skip
        assert get[name].shape == expected.shape, name
        assert np.array_equal(get[name].view(np.uint8), np.ascontiguousarray(expected).view(np.uint8)), name
    weight = _weight(found)
    assert (weight.value_shape, weight.scheme.name) == (SHAPE, "transformer-engine mxfp8")
    units = np.repeat(np.ldexp(np.float64(1), scales.astype(int) - 127), 32, axis=1)
    assert np.array_equal(values_of(weight), along.astype(np.float64) * units)
    assert np.array_equal(as_blocks(weight).values(), values_of(weight))


def test_nvfp4_is_what_the_layout_defines(tmp_path):
    """Byte for byte: scales of 16x16 lie 16 times, the other copy is transposed, amax is what is stored."""
    found, made = quantized(tmp_path, "transformer-engine", "nvfp4", SHAPE)
    x = made.entries["m.q.weight"].read()
    get = {name.rpartition(".")[2]: entry.read() for name, entry in found.entries.items() if "m.q" in name}
    codes, scales, amax = _nvfp4(x)
    for name, expected in (
        ("_rowwise_data", _pairs(codes)),
        ("_rowwise_scale_inv", _padded(np.repeat(scales, 16, axis=0), 128, 4)),
        ("_columnwise_data", _pairs(codes.T)),
        ("_columnwise_scale_inv", _padded(np.repeat(scales.T, 16, axis=0), 128, 4)),
        ("_amax_rowwise", amax.reshape(1)), ("_amax_columnwise", amax.reshape(1)),
    ):  # fmt: skip
        assert get[name].shape == expected.shape, name
        assert np.array_equal(get[name].view(np.uint8), np.ascontiguousarray(expected).view(np.uint8)), name
    weight = _weight(found)
    # As its kernel decodes: scale times amax, times the inverse of 6 * 448, in float32.
    units = scales.astype(np.float32) * amax * (np.float32(1) / np.float32(2688))
    assert np.array_equal(values_of(weight), E2M1[codes] * np.kron(units, np.ones((16, 16), np.float32)))
    with refusal(r"has the scale .* / 2688, which is no float32; use its values"):
        as_blocks(weight)


def test_values_beyond_the_amax_of_a_file_are_as_large_as_it():
    """Encode rows alike however many go together, of a source that the file was not made of too."""
    values, amax = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32), np.float32(2)
    whole = encoded(values, NVFP4, amax)
    some = [encoded(values[start : start + 16], NVFP4, amax) for start in range(0, 64, 16)]
    assert np.abs(values).max() > amax
    assert np.array_equal(whole.codes, np.concatenate([part.codes for part in some]))
    assert np.array_equal(whole.scales, np.concatenate([part.scales for part in some]))


@pytest.mark.parametrize("to", FORMATS)
def test_both_copies_are_read(tmp_path, to):
    """The copy along columns is read where the other is missing, in ranges of rows too."""
    found, made = quantized(tmp_path, "transformer-engine", to, (224, 192))
    weight = _weight(found)
    assert lint(found) == lint(found, made) == ()
    (verdict,) = verify_checkpoint(found, made)
    assert verdict.rule == {"nvfp4": "divide 16x16", "mxfp8_e4m3": "rceil"}[to]
    assert verdict.codes_differ == 0
    assert compare(made.path.as_posix() + ":m.q.weight", found.path.as_posix() + ":m.q.weight").agrees
    kept = {name: entry for name, entry in found.entries.items() if "rowwise" not in name}
    (other,) = [item for item in weights_of(_only(found, kept)) if item.is_quantized]
    assert other.scheme.name.endswith("columnwise")
    assert other.value_shape == (224, 192)
    values = values_of(other)
    assert np.array_equal(values, values_of(weight)) == (to == "nvfp4")
    if to == "mxfp8_e4m3":
        codes, scales = _mxfp8(np.ascontiguousarray(made.entries["m.q.weight"].read().T))
        units = np.repeat(np.ldexp(np.float64(1), scales.astype(int) - 127), 32, axis=1)
        assert np.array_equal(values, (codes.astype(np.float64) * units).T)
    for item in (weight, other):
        parts = [values_of(item, *rows) for rows in ranges(item, 32 * 192)]
        assert len(parts) == (1 if item.scheme.transposed else 7)
        assert np.array_equal(np.concatenate(parts), values_of(item))


@pytest.mark.parametrize("shape", [(1040, 2048), (2048, 1040)])
def test_a_large_copy_of_columns_is_a_source_and_has_one(tmp_path, shape):
    """Of more than 2^21 elements rows of one were held against columns of the other."""
    found, made = quantized(tmp_path, "transformer-engine", "nvfp4", shape)

    def drop(tensors):
        for name in list(tensors):
            if "rowwise" in name:
                del tensors[name]

    alone, out = (
        changed(found, tmp_path / "alone.safetensors", drop, found.metadata),
        tmp_path / "q.safetensors",
    )
    convert_checkpoint(alone, out, target("deepseek", "e4m3fn"))
    for weights, before in ((open_checkpoint(out), alone), (alone, made)):
        assert [verdict.holds for verdict in verify_checkpoint(weights, before)] == [True]
        assert lint(weights, before) == ()


@pytest.mark.parametrize("to", FORMATS)
def test_a_copy_along_columns_is_a_weight_like_others(tmp_path, to):
    """Verified, linted, decoded, quantised anew and compared, in a file that has no other."""
    found, made = quantized(tmp_path, "transformer-engine", to, (224, 192))

    def drop(tensors):
        for name in list(tensors):
            if "rowwise" in name:
                del tensors[name]

    alone = changed(found, tmp_path / "alone.safetensors", drop, found.metadata)
    values = values_of(_weight(alone))
    (verdict,) = verify_checkpoint(alone, made)
    assert verdict.codes_differ == 0
    assert verdict.rule == {"nvfp4": "divide 16x16", "mxfp8_e4m3": "rceil"}[to]
    assert lint(alone) == lint(alone, made) == ()
    dequantize_checkpoint(alone, tmp_path / "d.safetensors")
    assert np.array_equal(open_checkpoint(tmp_path / "d.safetensors").entries["m.q.weight"].read(), values)
    quantize_checkpoint(
        alone, tmp_path / "q.safetensors", target("modelopt", "e4m3fn"), include=["m.q.weight"]
    )
    quantize_checkpoint(
        open_checkpoint(tmp_path / "d.safetensors"), tmp_path / "e.safetensors", target("modelopt", "e4m3fn")
    )
    both = [open_checkpoint(tmp_path / f"{name}.safetensors").entries["m.q.weight"].read() for name in "qe"]
    assert np.array_equal(*(part.view(np.uint8) for part in both))
    dump = open_dump(f"{alone.path}:m.q.weight")
    assert np.array_equal(np.asarray(dump), values)
    places = np.array([0, 5000, 224 * 192 - 1])
    assert np.array_equal(dump.take(places), values.reshape(-1)[places])


def test_scales_of_rows_and_of_another_bound_are_read(tmp_path):
    """One amax for each row; the largest scale 256: values are as its kernel computes them."""
    rng = np.random.default_rng(5)
    codes, scales = rng.integers(0, 256, (32, 32), dtype=np.uint8), rng.uniform(1, 256, (128, 4))
    scales, amax = scales.astype(ml_dtypes.float8_e4m3fn), rng.uniform(1, 9, 32).astype(np.float32)
    for said, over, most in (
        ({"row_scaled_nvfp4": True}, amax, 448),
        ({"nvfp4_use_4over6": True, "nvfp4_e4m3_max": 256}, amax[:1], 256),
    ):
        told = json.dumps(
            {
                "_type": "transformer-engine nvfp4",
                "_data": {"dtype": "F32", "is_swizzled_scales": False, **said},
            }
        )
        plan = {"w._rowwise_data": ("U8", codes), "w._rowwise_scale_inv": ("F8_E4M3", scales),
                "w._amax_rowwise": ("F32", over)}  # fmt: skip
        with TorchWriter(
            (tmp_path / "x.pt").open("w+b"),
            [(name, tag, array.shape) for name, (tag, array) in plan.items()],
            {"w": told},
        ) as writer:
            for name, (_, array) in plan.items():
                writer.write(name, array.view(np.uint8) if array.dtype.itemsize == 1 else array)
        (weight,) = weights_of(open_checkpoint(tmp_path / "x.pt"))
        elements = E2M1[np.stack([codes & 15, codes >> 4], axis=-1).reshape(32, 64)]
        units = scales[:32].astype(np.float32) * over[:, None] * (np.float32(1) / np.float32(6 * most))
        assert np.array_equal(values_of(weight), elements * np.repeat(units, 16, axis=1))
        parts = [values_of(weight, start, start + 8) for start in range(0, 32, 8)]
        assert np.array_equal(np.concatenate(parts), values_of(weight))
        made = tmp_path / "s.safetensors"
        save_file({"w": values_of(weight)}, made)
        (verdict,) = verify_checkpoint(open_checkpoint(tmp_path / "x.pt"), open_checkpoint(made))
        assert verdict.codes_differ == 0
        assert verdict.rule == ""


@pytest.mark.parametrize(
    "said",
    [
        {"_type": "transformer-engine mxfp8"},
        {"_type": "transformer-engine zzz", "_data": {}},
        {"_type": "transformer-engine nvfp4", "_data": {"dtype": "X", "is_swizzled_scales": 1}},
        {"_type": "transformer-engine nvfp4", "_data": {"dtype": [1], "nvfp4_use_4over6": True,
                                                        "nvfp4_e4m3_max": 10**400}},
        {"_type": "transformer-engine nvfp4", "_data": {"nvfp4_e4m3_max": 256}},
        None,
    ],
)  # fmt: skip
def test_what_metadata_say_is_not_believed(tmp_path, said):
    """The kind is that of the tensors; of the rest nothing counts but what the package could say."""
    rng, made = np.random.default_rng(1), tmp_path / "s.safetensors"
    tensors = {
        "w._rowwise_data": ("U8", rng.integers(0, 256, (32, 32), dtype=np.uint8)),
        "w._rowwise_scale_inv": ("F8_E4M3", np.ones((128, 4), ml_dtypes.float8_e4m3fn)),
        "w._amax_rowwise": ("F32", np.float32([2688])), "w._more": ("F32", np.float32([1, 2])),
        "m.weight": ("F32", np.ones((32, 32), np.float32)),
    }  # fmt: skip
    plan = [(name, tag, array.shape) for name, (tag, array) in tensors.items()]
    with SafetensorsWriter(made.open("w+b"), plan, {} if said is None else {"w": json.dumps(said)}) as writer:
        for name, (_, array) in tensors.items():
            writer.write(name, array)
    how = target("transformer-engine", "mxfp8_e4m3")
    quantize_checkpoint(open_checkpoint(made), tmp_path / "t.pt", how, include=["m.weight"])
    expected = E2M1[np.stack([(codes := tensors["w._rowwise_data"][1]) & 15, codes >> 4], axis=-1)]
    for path, scheme in ((made, "plain"), (tmp_path / "t.pt", "transformer-engine mxfp8")):
        weights = {weight.name: weight for weight in weights_of(open_checkpoint(path))}
        assert {name: weight.scheme.name for name, weight in weights.items()} == {
            "m.weight": scheme, "w": "transformer-engine nvfp4", "w._more": "plain",
        }  # fmt: skip
        assert np.array_equal(values_of(weights["w"]), expected.reshape(32, 64))
        assert np.array_equal(values_of(weights["w._more"]), [1, 2])


def _only(found, entries):
    return type(found)(found.path, entries, found.metadata, found.config, found.files)


def test_what_cannot_be_decoded_is_kept_as_it_is(tmp_path):
    """Swizzled scales without a tensor's scale, parts of odd shapes and types."""
    said = json.dumps({"_type": "transformer-engine nvfp4", "_data": {"is_swizzled_scales": True}})
    tensors = {
        "w._rowwise_data": ("U8", np.ones((32, 16), np.uint8)),
        "w._rowwise_scale_inv": ("F8_E4M3", np.ones((128, 4), ml_dtypes.float8_e4m3fn)),
        "v._rowwise_data": ("U8", np.array(1, np.uint8)), "v._rowwise_scale_inv": ("F32", np.float32([1])),
        "v._amax_rowwise": ("F8_E5M2", np.ones(1, ml_dtypes.float8_e5m2)),
    }  # fmt: skip
    plan = [(name, tag, array.shape) for name, (tag, array) in tensors.items()]
    with SafetensorsWriter((tmp_path / "s.safetensors").open("w+b"), plan, {"w": said, "v": said}) as writer:
        for name, (_, array) in tensors.items():
            writer.write(name, array)
    made = open_checkpoint(tmp_path / "s.safetensors")
    dequantize_checkpoint(made, tmp_path / "t.pt", exclude=["*"])
    found = open_checkpoint(tmp_path / "t.pt")
    for name, entry in made.entries.items():
        assert (found.entries[name].tag, found.entries[name].shape) == (entry.tag, entry.shape)
        assert found.entries[name].read().tobytes() == entry.read().tobytes()
    for before, after in zip(weights_of(made), weights_of(found), strict=True):
        assert before.swizzled
        assert after.swizzled
        assert (before.name, before.problem) == (after.name, after.problem)
        assert before.problem is not None
    both = changed(
        made, tmp_path / "b.safetensors", lambda tensors: tensors.update(w=("F32", np.ones(1, "f4")))
    )
    with refusal("two tensors would be called 'w'"):
        dequantize_checkpoint(both, tmp_path / "t.pt", exclude=["*"])


@pytest.mark.parametrize("to", FORMATS)
def test_what_is_kept_and_what_is_decoded(tmp_path, to):
    """A .pt file that holds weights of both kinds, and one of their values."""
    more = {"m.k.weight": np.random.default_rng(3).standard_normal((64, 64)).astype(np.float32)}
    made = source(tmp_path / "s.safetensors", (224, 192), **more)
    how = target("transformer-engine", to)
    quantize_checkpoint(made, tmp_path / "a.pt", how, exclude=["*.k.*"])
    first = open_checkpoint(tmp_path / "a.pt")
    quantize_checkpoint(first, tmp_path / "b.pt", how, include=["m.k.weight"])
    both = {weight.name: weight for weight in weights_of(open_checkpoint(tmp_path / "b.pt"))}
    assert both["m.q.weight"].scheme == both["m.k.weight"].scheme == _weight(first).scheme
    assert np.array_equal(values_of(both["m.q.weight"]), values_of(_weight(first)))
    names = dequantize_checkpoint(open_checkpoint(tmp_path / "b.pt"), tmp_path / "d.pt")
    assert sorted(names) == ["m.k.weight", "m.q.weight"]
    values = open_checkpoint(tmp_path / "d.pt").entries
    assert np.array_equal(values["m.q.weight"].read(), values_of(both["m.q.weight"]))
    assert zipfile.ZipFile(tmp_path / "b.pt").testzip() is None
    family, other = {"nvfp4": ("modelopt", "nvfp4"), "mxfp8_e4m3": ("torchao", "mxfp8_e4m3")}[to]
    reports, _ = convert_checkpoint(first, tmp_path / "c.safetensors", target(family, other))
    report = reports["m.q.weight"]
    assert to == "nvfp4" or report["exact_blocks"] == report["blocks"]
    there = _weight(open_checkpoint(tmp_path / "c.safetensors"))
    assert np.array_equal(there.codes.read().view(np.uint8), _weight(first).codes.read().view(np.uint8))


def test_sizes_that_it_does_not_quantise_stay_as_they_are(tmp_path):
    made = source(tmp_path / "s.safetensors", (64, 32), **{"m.k.weight": np.ones((33, 32), np.float32)})
    _, kept = quantize_checkpoint(made, tmp_path / "a.pt", target("transformer-engine", "mxfp8_e4m3"))
    assert kept["m.k.weight"] == "two axes in multiples of 32 needed"
    with refusal("has the scales of its own software only"):
        target("transformer-engine", "nvfp4", rule="floor")


# -- torch's own reading and writing ----------------------------------------------------------------


_COPIES = ["rowwise_data", "rowwise_scale_inv", "columnwise_data", "columnwise_scale_inv"]
_MXFP8 = [*_COPIES, "fp8_dtype", "dtype"]
_NVFP4 = ["shape", *_COPIES, "amax_rowwise", "amax_columnwise", "fp4_dtype", "dtype", "quantizer"]
_SWIZZLED, _MORE = "with_gemm_swizzled_scales", ["row_scaled_nvfp4", "nvfp4_use_4over6", "nvfp4_e4m3_max"]
#: Arguments by what is made and the first version that gives them: read off the package's `__reduce_ex__`.
ORDER = {
    ("mxfp8", "2.0"): _MXFP8,
    ("mxfp8", "2.3"): [*_MXFP8, "shape"],
    ("mxfp8", "2.4"): [*_MXFP8, "shape"],
    ("mxfp8", "2.6"): [*_MXFP8, "shape", "quantizer"],
    ("mxfp8", "2.12"): [*_MXFP8, "shape", "quantizer", _SWIZZLED],
    ("mxfp8", "2.18"): [*_MXFP8, "shape", "quantizer", _SWIZZLED],
    ("nvfp4", "2.8"): _NVFP4,
    ("nvfp4", "2.12"): [*_NVFP4, _SWIZZLED],
    ("nvfp4", "2.16"): [*_NVFP4, _SWIZZLED],
    ("nvfp4", "2.18"): [*_NVFP4, _SWIZZLED, *_MORE],
    ("float8", "2.18"): ["data", "fp8_dtype", "scale_inv", "dtype", "shape"],
}
#: Versions whose method of a class makes tensors; later ones have a function.
METHODS = ("2.0", "2.3", "2.4", "2.6", "2.8", "2.12")


class DType(enum.IntEnum):
    """As `transformer_engine.pytorch.constants.DType`."""

    kFloat8E4M3 = 7
    kFloat8E5M2 = 8
    kFloat4E2M1 = 10


class OldDType:
    """As the enum of pybind11 that it was before 2.17, whose number is its state."""

    __qualname__ = "DType"

    def __init__(self, number):
        self.number = number

    def __reduce_ex__(self, protocol):
        return copyreg.__newobj__, (OldDType,), self.number


class Quantizer:
    """What tensors hold besides."""


@pytest.fixture
def engine(monkeypatch):
    """Modules of the package, whose functions return their arguments by name."""
    need_framework("torch")
    modules = {}

    def module(name):
        modules[name] = types.ModuleType(name)
        monkeypatch.setitem(sys.modules, name, modules[name])
        return modules[name]

    for name in ("transformer_engine", "transformer_engine.pytorch", "transformer_engine.pytorch.tensor"):
        module(name)
    for kind, place in (
        (DType, "transformer_engine.pytorch.constants"),
        (OldDType, "transformer_engine_torch"),
    ):
        module(place).DType = kind
        monkeypatch.setattr(kind, "__module__", place)
    for kind in ("mxfp8", "nvfp4", "float8"):

        def make(*given, names=tuple(ORDER[kind, "2.18"])):
            return dict(zip(names, given, strict=True))

        class Tensor:
            @classmethod
            def _make_in_reduce_ex(cls, *given):
                raise NotImplementedError

        place = module(f"transformer_engine.pytorch.tensor.{kind}_tensor")
        make.__module__, make.__qualname__ = place.__name__, f"_make_{kind}_tensor_in_reduce_ex"
        Tensor.__module__, Tensor.__qualname__ = place.__name__, "Tensor"
        setattr(place, make.__qualname__, make)
        place.Tensor = Tensor
    return modules


def _functions(engine, kind):
    place = engine[f"transformer_engine.pytorch.tensor.{kind}_tensor"]
    return [item for name, item in vars(place).items() if name.startswith("_make_")]


@pytest.mark.parametrize("to", FORMATS)
def test_torch_loads_what_is_written(tmp_path, engine, to):
    """With the names and arguments that the package's `__reduce_ex__` has."""
    import torch

    found, _ = quantized(tmp_path, "transformer-engine", to, (224, 192))
    functions = _functions(engine, "mxfp8" if to == "mxfp8_e4m3" else "nvfp4")
    with torch.serialization.safe_globals([DType, *functions]):  # what the package allows
        loaded = torch.load(found.path)
    assert torch.equal(loaded["m.norm.weight"], torch.ones(8))
    given = loaded["m.q.weight"]
    assert given["shape"] == torch.Size((224, 192))
    assert (given["dtype"], given["quantizer"]) == (torch.float32, None)
    assert given["with_gemm_swizzled_scales"] is False
    assert given.get("fp8_dtype", given.get("fp4_dtype")) == (7 if to == "mxfp8_e4m3" else 10)
    assert given.get("nvfp4_e4m3_max", 448) == 448
    for name, value in given.items():
        entry = found.entries.get(f"m.q.weight._{name}")
        if entry is not None:
            kind = torch.float32 if "amax" in name else torch.uint8
            assert value.dtype == kind
            assert np.array_equal(
                value.numpy().reshape(-1).view(np.uint8), entry.read().reshape(-1).view(np.uint8)
            )


@pytest.mark.parametrize(
    ("kind", "version", "swizzled"),
    [
        (*key, swizzled)
        for key, names in ORDER.items()
        for swizzled in [False, True][: 1 + (_SWIZZLED in names)]
        if key[0] != "float8"
    ],
)
def test_what_torch_saved_is_read(tmp_path, engine, kind, version, swizzled):
    """State dicts inside of dicts, parameters, a quantizer with its state, methods of classes of before."""
    import torch

    from lowprec.arrays.blocks.packing import swizzle

    names = ORDER[kind, version]
    found, _ = quantized(
        tmp_path, "transformer-engine", f"{kind}_e4m3" if kind == "mxfp8" else kind, (224, 192)
    )
    parts = {
        name.rpartition("._")[2]: torch.from_numpy(
            entry.read().view(np.uint8 if entry.tag != "F32" else "f4")
        )
        for name, entry in found.entries.items()
        if "m.q" in name
    }
    if kind == "nvfp4":
        parts["amax_columnwise"] = 2 * parts["amax_rowwise"]
    if swizzled:
        scales = parts["rowwise_scale_inv"].numpy()
        parts["rowwise_scale_inv"] = torch.from_numpy(swizzle(scales).reshape(scales.shape))
    quantizer = Quantizer()
    quantizer.with_2d_quantization, quantizer.rht = True, torch.ones(2, 2)
    older = {"2.0": 6, "2.3": 6}.get(version, 7)
    fp8, fp4 = (DType(7), DType(10)) if version == "2.18" else (OldDType(older), OldDType(10))
    known = {"fp8_dtype": fp8, "fp4_dtype": fp4, "dtype": torch.bfloat16,
             "shape": torch.Size((224, 192)), "quantizer": quantizer, "with_gemm_swizzled_scales": swizzled,
             "row_scaled_nvfp4": False, "nvfp4_use_4over6": False, "nvfp4_e4m3_max": 448} | parts  # fmt: skip
    place = engine[f"transformer_engine.pytorch.tensor.{kind}_tensor"]
    function = getattr(place, f"_make_{kind}_tensor_in_reduce_ex")
    if version in METHODS:  # `getattr(class, "_make_in_reduce_ex")`, as bound methods of classes are pickled
        function = place.Tensor._make_in_reduce_ex

    class Saved:
        def __reduce_ex__(self, protocol):
            return function, tuple(known[name] for name in names)

    plain = torch.nn.Parameter(torch.arange(6, dtype=torch.bfloat16).reshape(2, 3))
    eight = torch.ones(4).to(torch.float8_e5m2)
    extra = torch.zeros(3, dtype=torch.uint8)
    state = {"q.weight": Saved(), "b": plain, "fp8": eight, "q._extra_state": extra, "step": 3}
    state["buffer"] = io.BytesIO(b"x")
    torch.save({"model": state, "epoch": 1}, tmp_path / "theirs.pt")
    theirs = open_checkpoint(tmp_path / "theirs.pt")
    assert theirs.unread == {}
    weights = {weight.name: weight for weight in weights_of(theirs)}
    assert set(weights) == {"model.q.weight", "model.b", "model.fp8", "model.q._extra_state"}
    assert weights["model.q.weight"].problem is None
    assert np.array_equal(values_of(weights["model.q.weight"]), values_of(_weight(found)))
    assert np.array_equal(values_of(weights["model.b"]), np.arange(6).reshape(2, 3))
    assert theirs.entries["model.fp8"].read().dtype == ml_dtypes.float8_e5m2
    said = json.loads(theirs.metadata["model.q.weight"])["_data"]
    assert said.get("with_2d_quantization", False) == ("quantizer" in names)
    assert said["dtype"] == "BF16"
    for finding in lint(theirs):  # of what stands here for the package's own classes
        assert re.fullmatch(r"theirs\.pt calls ('tests\.[\w.]+'(, )?)+ when .*", finding.evidence)


@pytest.mark.parametrize("by", ["number", "name"])
def test_scaled_fp8_is_read_and_others_are_named(by, tmp_path, engine, monkeypatch):
    """Members of enums are pickled by number or by name, as Python's version has it."""
    import torch

    number = {"number": lambda each, _: (type(each), (each.value,))}
    name = {"name": lambda each, _: (getattr, (type(each), each.name))}
    monkeypatch.setattr(DType, "__reduce_ex__", (number | name)[by])

    place = engine["transformer_engine.pytorch.tensor.float8_tensor"]
    data = torch.full((4, 8), 2.0).to(torch.float8_e4m3fn).view(torch.uint8)
    given = [data, DType.kFloat8E4M3, torch.tensor([0.25]), torch.float32, torch.Size((4, 8))]

    class Saved:
        def __init__(self, function, *given):
            self.function, self.given = function, given

        def __reduce_ex__(self, protocol):
            return self.function, self.given

    other = types.FunctionType(Saved.__init__.__code__, {}, "_make_hybrid")
    other.__module__, other.__qualname__ = "transformer_engine.pytorch.tensor.hybrid_tensor", "_make_hybrid"
    module = types.ModuleType(other.__module__)
    module._make_hybrid = other
    sys.modules[other.__module__] = module
    try:
        make = place._make_float8_tensor_in_reduce_ex
        state = {"w": Saved(make, *given), "x": Saved(other, *given), "m.weight": torch.ones(32, 32)}
        state |= {"v": Saved(make, *given, None), "t": Saved(make, None, *given[1:], data.T.contiguous())}
        torch.save(state, tmp_path / "x.pt")
    finally:
        del sys.modules[other.__module__]
    found = open_checkpoint(tmp_path / "x.pt")
    weights = {weight.name: weight for weight in weights_of(found)}
    assert set(weights) == {"w", "v", "m.weight"}
    for name in ("w", "v"):
        assert weights[name].scheme.name == "transformer-engine float8"
        assert np.array_equal(values_of(weights[name]), np.full((4, 8), 0.5))
    assert [(finding.rule, finding.tensor) for finding in lint(found)] == [
        ("not-read", "x"),
        ("not-read", "t"),
    ]
    assert "is a transposed copy alone" in found.unread["t"]
    how = target("transformer-engine", "mxfp8_e4m3")
    quantize_checkpoint(found, tmp_path / "y.pt", how, include=["m.weight"], exclude=["x", "t"])
    make = place._make_float8_tensor_in_reduce_ex
    with torch.serialization.safe_globals([DType, make, *_functions(engine, "mxfp8")]):
        loaded = torch.load(tmp_path / "y.pt")
    for name in ("w", "v"):
        assert torch.equal(loaded[name]["data"], data)
        assert (loaded[name]["fp8_dtype"], loaded[name]["scale_inv"]) == (7, torch.tensor([0.25]))


@pytest.mark.parametrize("seed", range(6))
def test_scales_of_squares_do_not_look_swizzled(tmp_path, seed):
    """Scales of 16x16 elements lie 16 times, so the rows' means are those of few numbers."""
    rng = np.random.default_rng(seed)
    weights = {f"m.{n}.weight": rng.standard_normal((n, n)).astype(np.float32) for n in (128, 256)}
    save_file(weights, tmp_path / "s.safetensors")
    made = open_checkpoint(tmp_path / "s.safetensors")
    quantize_checkpoint(made, tmp_path / "q.pt", target("transformer-engine", "nvfp4"))
    assert lint(open_checkpoint(tmp_path / "q.pt")) == ()
