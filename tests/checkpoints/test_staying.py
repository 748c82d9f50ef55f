"""Quantised weights that another checkpoint takes as they are have the values there that they had."""

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

import lowprec as lp
from lowprec.arrays.blocks.packing import swizzle
from lowprec.checkpoints.containers.safetensors_writing import SafetensorsWriter
from lowprec.checkpoints.converting import convert_checkpoint, dequantize_checkpoint
from lowprec.checkpoints.decoding import values_of
from lowprec.checkpoints.folder import open_checkpoint
from lowprec.checkpoints.linting import lint
from lowprec.checkpoints.quantizing import quantize_checkpoint, target
from lowprec.checkpoints.verifying import verify_checkpoint
from lowprec.checkpoints.weights import weights_of
from lowprec.verify.dumps import open_dump
from tests.checkpoints.files import refusal
from tests.programs import need_package

WORKS = {
    "dequantize": lambda source, out: dequantize_checkpoint(source, out, exclude=["stays*"]),
    "convert": lambda source, out: convert_checkpoint(
        source, out, target("compressed-tensors", "mxfp8_e4m3"), exclude=["stays*"]
    ),
    "to plain": lambda source, out: convert_checkpoint(
        source, out, target("plain", "bfloat16"), exclude=["stays*"]
    ),
    "quantize": lambda source, out: quantize_checkpoint(
        source, out, target("torchao", "nvfp4"), exclude=["stays*"]
    ),
}


def weights():
    """Return two weights whose rows differ in size."""
    rng = np.random.default_rng(0)
    rows = 2.0 ** rng.integers(-9, -3, (128, 1))
    return {name: (rng.standard_normal((128, 128)) * rows).astype(np.float32) for name in NAMES}


NAMES = ("goes.weight", "stays.weight")


def plain(folder):
    """Write them as they are, and return the checkpoint."""
    save_file(weights(), folder / "plain.safetensors")
    return open_checkpoint(folder / "plain.safetensors")


def saved(fmt):
    """Return what writes a file of lowprec's own."""

    def write(path):
        lp.save(path, {name: lp.encode(values, fmt) for name, values in weights().items()})

    return write


def swizzled(path):
    """Write a file of torchao whose scales lie in tiles, as its metadata say."""
    save_file(weights(), path.with_name("plain.safetensors"))
    quantize_checkpoint(
        open_checkpoint(path.with_name("plain.safetensors")), path, target("torchao", "nvfp4")
    )
    made = open_checkpoint(path)
    tensors = {name: (entry.tag, entry.read()) for name, entry in made.entries.items()}
    for name, (tag, data) in tensors.items():
        if name.endswith("._weight_scale"):
            tiles = swizzle(data.view(np.uint8)).view(data.dtype)
            tensors[name] = tag, tiles.reshape(data.shape)
    said = {key: text.replace('d_scales": false', 'd_scales": true') for key, text in made.metadata.items()}
    plan = [(name, tag, data.shape) for name, (tag, data) in tensors.items()]
    with SafetensorsWriter(path.open("r+b"), plan, said) as writer:
        for name, (_, data) in tensors.items():
            writer.write(name, data)


SOURCES = {"mxfp4": saved("mxfp4"), "mxint8": saved("mxint8"), "nvfp4": saved("nvfp4"), "tiles": swizzled}


def values(path):
    """Return the values of the weight that stays."""
    (found,) = (weight for weight in weights_of(open_checkpoint(path)) if weight.name == "stays.weight")
    return values_of(found)


@pytest.mark.parametrize("folder", [False, True], ids=["file", "folder"])
@pytest.mark.parametrize("work", WORKS)
@pytest.mark.parametrize("kind", SOURCES)
def test_what_the_metadata_say_of_a_weight_goes_along(tmp_path, kind, work, folder):
    """Blocks of lowprec were read without scales, and scales in tiles row by row."""
    source, out = tmp_path / "source.safetensors", tmp_path / ("out" if folder else "out.safetensors")
    SOURCES[kind](source)
    WORKS[work](open_checkpoint(source), out)
    assert values(out).tobytes() == values(source).tobytes()


@pytest.mark.parametrize("folder", [False, True], ids=["file", "folder"])
@pytest.mark.parametrize("work", WORKS)
def test_a_weight_that_nothing_would_describe_is_refused(tmp_path, work, folder):
    """Six bits of Quark were read as those of another format, or not at all."""
    save_file(weights(), tmp_path / "plain.safetensors")
    source, out = tmp_path / "source.safetensors", tmp_path / ("out" if folder else "out.safetensors")
    quantize_checkpoint(
        open_checkpoint(tmp_path / "plain.safetensors"), source, target("quark", "mxfp6_e3m2")
    )
    with refusal(r"'stays\.weight' would stay as it is, in quark mxfp6_e3m2, and"):
        WORKS[work](open_checkpoint(source), out)
    assert not out.exists()


@pytest.mark.apart
@pytest.mark.parametrize(
    ("family", "to"), [("torchao", "mxfp4"), ("modelopt", "e4m3fn"), ("deepseek", "e4m3fn")]
)
def test_a_weight_that_no_node_decodes_is_refused(tmp_path, family, to):
    """Its parts were copied into an ONNX model, whose nodes alone say what is quantised."""
    need_package("onnx")
    source, out = tmp_path / "source.safetensors", tmp_path / "out.onnx"
    quantize_checkpoint(plain(tmp_path), source, target(family, to))
    for run in (
        lambda: WORKS["dequantize"](open_checkpoint(source), out),
        lambda: convert_checkpoint(open_checkpoint(source), out, target("onnx", "mxfp4"), exclude=["stays*"]),
    ):
        with refusal(r"'stays\.weight' would stay .* nothing would say so in 'out"):
            run()
    SOURCES["mxfp4"](source)  # of which the metadata say it there too
    WORKS["dequantize"](open_checkpoint(source), out)
    assert values(out).tobytes() == values(source).tobytes()


def test_a_weight_that_the_new_configuration_describes_stays(tmp_path):
    save_file(weights(), tmp_path / "plain.safetensors")
    source, out = tmp_path / "source.safetensors", tmp_path / "out"
    how = target("quark", "mxfp6_e3m2")
    quantize_checkpoint(open_checkpoint(tmp_path / "plain.safetensors"), source, how)
    convert_checkpoint(open_checkpoint(source), out, how, exclude=["stays*"])
    assert values(out).tobytes() == values(source).tobytes()


def test_a_block_that_a_configuration_gives_is_lost_with_it(tmp_path):
    """Tiles of another size than DeepSeek's own are said in config.json alone."""
    (tmp_path / "model").mkdir()
    fp8 = {name: lp.encode(data, "e4m3fn").view("u1") for name, data in weights().items()}
    parts = {name: ("F8_E4M3", data) for name, data in fp8.items()}
    parts |= {f"{name}_scale_inv": ("F32", np.full((2, 2), 0.5, np.float32)) for name in NAMES}
    plan = [(name, tag, data.shape) for name, (tag, data) in parts.items()]
    with SafetensorsWriter((tmp_path / "model/model.safetensors").open("w+b"), plan, {}) as writer:
        for name, (_, data) in parts.items():
            writer.write(name, data)
    said = {"quantization_config": {"quant_method": "fp8", "weight_block_size": [64, 64]}}
    (tmp_path / "model/config.json").write_text(json.dumps(said))
    with refusal(r"'stays\.weight' would stay as it is, in deepseek fp8, and"):
        WORKS["dequantize"](open_checkpoint(tmp_path / "model"), tmp_path / "out")


def test_two_weights_of_one_name_are_not_taken_for_each_other(tmp_path):
    """The last one of the file was."""
    named = {"m.weight": weights()["goes.weight"]}
    save_file(named, tmp_path / "plain.safetensors")
    quantize_checkpoint(
        open_checkpoint(tmp_path / "plain.safetensors"), tmp_path / "q.safetensors", target("quark", "mxfp4")
    )
    packed = open_checkpoint(tmp_path / "q.safetensors").entries
    both = {"m.weight_packed": packed["m.weight"].read(), "m.weight_scale": packed["m.weight_scale"].read()}
    save_file(
        {**named, **{name: data.view(np.uint8) for name, data in both.items()}}, tmp_path / "two.safetensors"
    )
    two, one = (open_checkpoint(tmp_path / f"{name}.safetensors") for name in ("two", "q"))
    assert [weight.name for weight in weights_of(two)] == ["m.weight", "m.weight"]
    words = r"has two weights 'm\.weight', of tensors '.*' and '.*'; remove or rename one"
    for run in (
        lambda: verify_checkpoint(one, two),
        lambda: lint(one, two),
        lambda: open_dump(f"{tmp_path}/two.safetensors:m.weight"),
        lambda: open_dump(f"{tmp_path}/two.safetensors:m.weight:codes"),
    ):
        with pytest.raises(ValueError, match=words):
            run()
    assert open_dump(f"{tmp_path}/two.safetensors:m.weight_scale").shape == (128, 4)
    lint(two)


@pytest.mark.parametrize("work", ["dequantize", "convert", "to plain", "quantize"])
def test_a_folder_has_no_weights_that_its_configuration_does_not_tell_of(tmp_path, work):
    """Refuse it, as software that goes by the configuration would read codes; of one file names tell."""
    (tmp_path / "s").mkdir()
    plain(tmp_path / "s")
    (tmp_path / "s" / "config.json").write_text("{}")
    quantize_checkpoint(open_checkpoint(tmp_path / "s"), tmp_path / "q", target("quark", "e4m3fn"))
    found = open_checkpoint(tmp_path / "q")
    with refusal(
        "weight 'stays.weight' would stay as it is, in quark fp8, and config.json of 'o' would say .*: "
        "software that goes by it would read codes as values; convert it too, dequantise it first, or write "
        "one file, such as 'o.safetensors'"
    ):
        WORKS[work](found, tmp_path / "o")
    assert not (tmp_path / "o").exists()
    WORKS[work](found, tmp_path / "o.safetensors")
    before, after = (
        {weight.name: weight for weight in weights_of(each)}["stays.weight"]
        for each in (found, open_checkpoint(tmp_path / "o.safetensors"))
    )
    assert after.is_quantized
    assert np.array_equal(values_of(after), values_of(before))


def test_weights_of_the_same_scheme_are_not_said_to_be_unquantised(tmp_path):
    (tmp_path / "s").mkdir()
    plain(tmp_path / "s")
    (tmp_path / "s" / "config.json").write_text("{}")
    how = target("quark", "e4m3fn")
    quantize_checkpoint(open_checkpoint(tmp_path / "s"), tmp_path / "q", how, include=["stays*"])
    quantize_checkpoint(open_checkpoint(tmp_path / "q"), tmp_path / "o", how, include=["goes*"])
    config = json.loads((tmp_path / "o" / "config.json").read_text())["quantization_config"]
    assert config["exclude"] == []
    assert lint(open_checkpoint(tmp_path / "o")) == ()
