"""save and load: the same arrays and blocks, files that others read, and what is refused."""

from __future__ import annotations

import json

import ml_dtypes
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import lowprec as lp
from lowprec.checkpoints.container import CheckpointError, open_file
from lowprec.checkpoints.converting import dequantize_checkpoint
from lowprec.checkpoints.decoding import values_of
from lowprec.checkpoints.folder import open_checkpoint
from lowprec.checkpoints.linting import lint
from lowprec.checkpoints.weights import weights_of
from lowprec.spec import catalog
from tests.checkpoints.files import changed

VALUES = np.random.default_rng(0).standard_normal((32, 64)).astype(np.float32)


def assert_same(found: lp.BlockArray, saved: lp.BlockArray) -> None:
    assert (found.format, found.axes, found.tensor_scale) == (saved.format, saved.axes, saved.tensor_scale)
    for part in ("codes", "scales"):
        assert getattr(found, part).dtype == getattr(saved, part).dtype
        np.testing.assert_array_equal(getattr(found, part), getattr(saved, part))


@pytest.mark.parametrize("name", catalog.BLOCK_FORMATS)
def test_blocks_of_every_format_come_back(tmp_path, name):
    fmt = lp.block_formats[name]
    for axis in (-2, -1) if len(fmt.sizes) == 1 else (None,):
        saved = lp.encode(VALUES, name, axis=axis)
        lp.save(tmp_path / "x.safetensors", saved)
        assert_same(lp.load(tmp_path / "x.safetensors"), saved)


def test_formats_of_ones_own_come_back(tmp_path):
    """With elements that no catalog has, and more than one array in the file."""
    element = lp.Format(name="mine", exponent_bits=2, trailing_bits=4, bias=1)
    mine = lp.BlockFormat(name="blocks of mine", element=element, scale="e8m0fnu", size=8, rule="rceil")
    nf4 = lp.BlockFormat(name="nf4 in 32", element="nf4", scale="binary16", size=32, rule="divide")
    saved = {"a": lp.encode(VALUES, mine), "b": lp.encode(VALUES, nf4), "c": VALUES}
    lp.save(tmp_path / "x.safetensors", saved)
    found = lp.load(tmp_path / "x.safetensors")
    assert list(found) == ["a", "b", "c"]
    assert_same(found["a"], saved["a"])
    assert_same(found["b"], saved["b"])
    np.testing.assert_array_equal(found["c"], VALUES)


@pytest.mark.parametrize(
    "dtype",
    ["bool", "int8", "uint16", "int64", "float16", "float64", "complex64", ">f4",
     *("bfloat16", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e8m0fnu", "float6_e3m2fn", "float4_e2m1fn")],
)  # fmt: skip
@pytest.mark.parametrize("shape", [(4, 6), (8,), (0, 3), ()])
def test_arrays_of_every_type_come_back(tmp_path, dtype, shape):
    kind = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)
    saved = np.random.default_rng(1).integers(0, 2, shape).astype(np.float32).astype(kind)
    if shape == () and dtype.startswith(("float6_", "float4_")):
        with pytest.raises(CheckpointError, match="bits, which are no whole bytes"):
            lp.save(tmp_path / "x.safetensors", saved)
        return
    lp.save(tmp_path / "x.safetensors", saved)
    found = lp.load(tmp_path / "x.safetensors")
    assert (found.dtype, found.shape) == (kind.newbyteorder("="), shape)
    assert found.tobytes() == saved.astype(found.dtype).tobytes()


def test_other_software_reads_the_parts(tmp_path):
    blocks = lp.encode(VALUES, "mxfp8_e4m3")
    lp.save(tmp_path / "x.safetensors", {"w": blocks, "b": VALUES[0]})
    with safe_open(tmp_path / "x.safetensors", "numpy") as file:
        assert set(file.keys()) == {"w", "w.scales", "b"}
        assert file.get_slice("w").get_dtype() == "F8_E4M3"
        assert file.get_slice("w.scales").get_dtype() == "F8_E8M0"
    plain = {"w": lp.encode(VALUES, "nvfp4").codes, "b": VALUES}
    lp.save(tmp_path / "y.safetensors", plain)
    for name, array in load_file(tmp_path / "y.safetensors").items():
        np.testing.assert_array_equal(array, plain[name])


def test_files_of_others_are_arrays(tmp_path):
    save_file({"w": VALUES, "b": VALUES[0]}, tmp_path / "x.safetensors")
    found = lp.load(tmp_path / "x.safetensors")
    assert set(found) == {"w", "b"}
    np.testing.assert_array_equal(found["w"], VALUES)


def test_what_cannot_be_written_leaves_the_file_that_is_there(tmp_path):
    place = tmp_path / "x.safetensors"
    lp.save(place, VALUES)
    before = place.read_bytes()
    blocks = lp.encode(VALUES, "mxfp4")
    for arrays, words in (
        ({"a": np.array(["text"])}, "array 'a' cannot be saved: safetensors has no name for <U4"),
        ({"a": np.zeros(3, np.complex128)}, "no name for complex128"),
        ({"a": blocks, "a.scales": VALUES}, "'a.scales' is a part of BlockArray 'a' already; rename one"),
        ({"a.scales": VALUES, "a": blocks}, "'a.scales' is a part of BlockArray 'a' already; rename one"),
        ({"__metadata__": VALUES}, "'__metadata__' is no name for a tensor"),
        ({"a": np.zeros(3, ml_dtypes.float4_e2m1fn)}, "takes 12 bits, which are no whole bytes"),
    ):
        with pytest.raises(CheckpointError, match=words):
            lp.save(place, arrays)
    assert place.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["x.safetensors"]
    with pytest.raises(CheckpointError, match=r"must end with \.safetensors"):
        lp.save(tmp_path / "x.npz", VALUES)
    with pytest.raises(CheckpointError, match="there is no folder"):
        lp.save(tmp_path / "none" / "x.safetensors", VALUES)
    da = pytest.importorskip("dask.array")
    for lazy in (da.ones(4), lp.encode(da.ones((4, 64)), "mxfp4")):
        with pytest.raises(CheckpointError, match=r"is of Dask.*compute\(\) returns"):
            lp.save(place, lazy)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda said: said["blocks"]["w"].pop("format"), "has no format that can be read"),
        (lambda said: said["blocks"]["w"].update(format="kind = 'format'"), "has no format that can be read"),
        (lambda said: said["blocks"]["w"].update(axes="x"), "has no format that can be read"),
        (lambda said: said["blocks"]["w"].update(axes=[float("inf")]), "has no format that can be read"),
        (
            lambda said: said["blocks"]["w"].update(format="a" + ".a" * 20_000 + " = 1"),
            "is nested too deeply",
        ),
        (lambda said: said["blocks"]["w"].update(format="a = " + "[" * 3000), "is nested too deeply"),
        (lambda said: said["blocks"]["w"].update(axes=[0]), "does not hold together"),
        (lambda said: said.update(blocks={"v": said["blocks"]["w"]}), "lacks 'v'"),
        (lambda said: said.update(blocks=7), "no BlockArrays"),
    ],
)
def test_files_that_were_changed_are_refused(tmp_path, change, words):
    lp.save(tmp_path / "x.safetensors", {"w": lp.encode(VALUES, "mxfp4")})
    header = open_file(tmp_path / "x.safetensors")
    said = json.loads(header.metadata["lowprec"])
    change(said)
    tensors = {name: entry.read().view(np.uint8) for name, entry in header.entries.items()}
    save_file(tensors, tmp_path / "y.safetensors", {"lowprec": json.dumps(said)})
    with pytest.raises(CheckpointError, match=words):
        lp.load(tmp_path / "y.safetensors")


@pytest.mark.parametrize("name", ["mxfp4", "mxfp6_e2m3", "nvfp4", "nvfp4_2d", "bnb_nf4", "fp8_block_1x128"])
def test_checkpoint_commands_know_saved_blocks(tmp_path, name):
    """As one weight, whose values are the BlockArray's; nothing is wrong with it."""
    blocks = lp.encode(VALUES, name)
    lp.save(tmp_path / "x.safetensors", {"layer.weight": blocks, "b": VALUES[0]})
    found = open_checkpoint(tmp_path / "x.safetensors")
    (weight,) = (each for each in weights_of(found) if each.is_quantized)
    assert (weight.name, weight.element, weight.scale) == ("layer.weight", blocks.format.element.name,
                                                           blocks.format.scale.name)  # fmt: skip
    np.testing.assert_array_equal(values_of(weight), blocks.values())
    assert lint(found) == ()
    assert dequantize_checkpoint(found, tmp_path / "y.safetensors") == ("layer.weight",)
    plain = lp.load(tmp_path / "y.safetensors")
    assert set(plain) == {"layer.weight", "b"}
    np.testing.assert_array_equal(plain["layer.weight"], blocks.values())


def test_checkpoint_commands_say_what_is_wrong_with_saved_blocks(tmp_path):
    mine = lp.BlockFormat(
        name="mine", element=lp.Format(name="own", exponent_bits=2, trailing_bits=4, bias=1), scale="e8m0fnu",
        size=8,
    )  # fmt: skip
    lp.save(tmp_path / "x.safetensors", {"w": lp.encode(VALUES, mine)})
    (finding,) = lint(open_checkpoint(tmp_path / "x.safetensors"))
    assert (finding.rule, finding.remedy) == ("private-format", "lowprec.load reads it")
    lp.save(tmp_path / "x.safetensors", {"w": lp.encode(VALUES, "mxfp4")})
    lost = changed(
        open_checkpoint(tmp_path / "x.safetensors"), tmp_path / "y.safetensors", lambda t: t.pop("w.scales"),
        open_file(tmp_path / "x.safetensors").metadata,
    )  # fmt: skip
    (finding,) = lint(lost)
    assert (finding.rule, finding.evidence) == (
        "shape", "scales of w must have shape [32, 2], and the file has none"
    )  # fmt: skip
    with pytest.raises(CheckpointError, match="weight 'w' cannot be decoded"):
        dequantize_checkpoint(lost, tmp_path / "z.safetensors")
