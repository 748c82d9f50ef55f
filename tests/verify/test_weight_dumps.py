"""Quantised weights of checkpoints as dumps: values by their own scales, and codes judged with them."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import pickle

import jsonschema
import numpy as np
import pytest
from click.testing import CliRunner

import lowprec as lp
from lowprec.checkpoints.decoding import ranges, values_of
from lowprec.checkpoints.folder import open_checkpoint
from lowprec.checkpoints.quantizing import FAMILIES
from lowprec.checkpoints.weights import weights_of
from lowprec.cli.main import main
from lowprec.verify.dumps import weights
from lowprec.verify.dumps.files import DumpError, open_dump
from tests.checkpoints.files import changed, quantized

PAIRS = [(family, to) for family, known in FAMILIES.items() if family != "plain" for to in known]
SCHEMA = pathlib.Path(__file__).parents[2] / "tables" / "schema" / "compare.schema.json"


def _both(tmp_path, family, to, **options):
    found, made = quantized(
        tmp_path, family, to, (2, 64, 96) if family == "gpt-oss" else (256, 192), **options
    )
    return open_dump(f"{made.path}:m.q.weight"), open_dump(f"{found.path}:m.q.weight"), found


def _values(checkpoint):
    return values_of(next(weight for weight in weights_of(checkpoint) if weight.is_quantized))


@pytest.mark.parametrize(("family", "to"), PAIRS)
def test_a_weight_is_read_by_its_own_scales_and_judged_in_its_own_format(tmp_path, family, to):
    source, weight, found = _both(tmp_path, family, to)
    expected = _values(found)
    assert weight.dtype == np.float32
    assert np.array_equal(np.asarray(weight), expected)
    report = lp.compare(source, weight)
    assert report.agrees
    assert report.compared == expected.size
    assert "codes and scales of a weight of" in report.as_text()


@pytest.mark.parametrize(
    ("family", "to"), [("gpt-oss", "mxfp4"), ("deepseek", "e4m3fn"), ("modelopt", "nvfp4")]
)
def test_pieces_and_places_are_those_of_the_whole(tmp_path, monkeypatch, family, to):
    """Also where ranges of rows are short, and after it was sent to another process."""
    monkeypatch.setattr(weights.decoding, "ranges", lambda weight, part=64: ranges(weight, 64))
    _, dump, found = _both(tmp_path, family, to)
    flat = _values(found).reshape(-1)
    for start, stop in ((0, 5), (90, 7000), (flat.size - 3, flat.size + 9), (8, 8)):
        assert np.array_equal(dump.read(start, stop), flat[start:stop])
    index = np.random.default_rng(0).integers(0, flat.size, 300)
    assert np.array_equal(pickle.loads(pickle.dumps(dump)).take(index), flat[index])
    for part, size in (("codes", flat.size), ("scales", None)):
        other = open_dump(f"{dump.name}:{part}")
        whole = np.asarray(other).reshape(-1)
        assert size in (None, whole.size)
        assert np.array_equal(other.take(np.arange(whole.size)[::-7]), whole[::-7])


@pytest.mark.apart
def test_a_code_that_is_wrong_is_found_where_it_lies(tmp_path):
    source, _, found = _both(tmp_path, "modelopt", "nvfp4")

    def flip(tensors):
        codes = tensors["m.q.weight"][1].copy()
        codes[3, 1] ^= 0x10  # element 3 of row 3
        tensors["m.q.weight"] = "U8", codes

    changed(found, tmp_path / "bad.safetensors", flip)
    report = lp.compare(source, open_dump(f"{tmp_path}/bad.safetensors:m.q.weight"), "nvfp4")
    assert (report.mismatches, report.details[0].data["at"]) == (1, [3, 3])


@pytest.mark.apart
def test_another_format_than_the_weights_is_a_question_about_values(tmp_path):
    """Values of MXFP4 are values of MXFP8 too, but not what MXFP8 makes of the source."""
    source, weight, _ = _both(tmp_path, "quark", "mxfp4")
    report = lp.compare(source, weight, "mxfp8_e4m3")
    assert report.read == (weight.read_as,)
    assert "values of a weight of quark mxfp4, in blocks of 32" in report.read[0]
    assert report.mismatches > 1000
    assert lp.compare(weight, weight, "bfloat16").agrees


def test_error_reports_take_weights(tmp_path):
    _, weight, found = _both(tmp_path, "compressed-tensors", "nvfp4")
    assert lp.error_report(weight, "e4m3fn").as_dict() == lp.error_report(_values(found), "e4m3fn").as_dict()


def test_parts_have_their_own_names(tmp_path):
    """A part whose name is not the weight's is the tensor as it is."""
    _, _, found = _both(tmp_path, "compressed-tensors", "nvfp4")
    entry = found.entries["m.q.weight_packed"]
    assert np.array_equal(np.asarray(open_dump(f"{found.path}:m.q.weight_packed")), entry.read())
    assert open_dump(f"{found.path}:m.norm.weight").read_as == ""
    with pytest.raises(DumpError, match=r"no tensor 'm\.q\.wait'; name one behind a colon: 'm\.q\.weight', "):
        open_dump(f"{found.path}:m.q.wait")


def test_channels_have_their_scales(tmp_path):
    source, weight, _ = _both(tmp_path, "compressed-tensors", "e4m3fn", channel=True)
    assert lp.compare(source, weight, "e4m3fn").agrees
    assert not lp.compare(source, open_dump(f"{weight.name}:codes"), "e4m3fn").agrees  # read unscaled


def test_saved_blocks_are_weights(tmp_path):
    x = np.random.default_rng(0).standard_normal((8, 64)).astype(np.float32)
    blocks = lp.encode(x, "mxfp4", rule="rceil")
    lp.save(tmp_path / "b.safetensors", {"w": blocks})
    weight = open_dump(f"{tmp_path}/b.safetensors:w")
    assert np.array_equal(np.asarray(weight), blocks.values())
    assert lp.compare(x, weight, "mxfp4", rule="rceil").agrees
    assert not lp.compare(x, weight, "mxfp4").agrees


@pytest.mark.parametrize(
    ("name", "axis", "changes"),
    [
        ("mxint8", 0, {}),
        ("bfp8", 0, {}),
        ("fp8_block_1x128", 0, {}),
        ("fp8_block_128x128", (0, 1), {}),
        ("mxfp4", 2, {"rule": "rceil"}),
        ("mxfp4", 1, {"size": 16}),
        ("nvfp4", 2, {"size": 32}),
    ],
)
def test_saved_blocks_are_judged_in_the_format_and_along_the_axes_of_the_file(tmp_path, name, axis, changes):
    x = np.random.default_rng(0).standard_normal((40, 130, 6)).astype(np.float32)
    fmt = dataclasses.replace(lp.block_formats[name], name="mine", **changes)
    lp.save(tmp_path / "b.safetensors", {"w": lp.encode(x, fmt, axis=axis)})
    for to in (None, fmt):
        report = lp.compare(x, f"{tmp_path}/b.safetensors:w", to)
        assert report.agrees
        assert report.facts["axes"] == list(np.atleast_1d(axis))
        assert f"{fmt.rule} scales" in report.question


def test_saved_codes_and_scales_are_judged_and_not_their_product(tmp_path):
    """Judge codes, as half of them at twice the scale have the same values."""
    x = np.ones((4, 32), np.float32)
    right = lp.encode(x, "mxint8")
    wrong = lp.BlockArray(right.codes // 2, right.scales + 1, "mxint8")
    lp.save(tmp_path / "b.safetensors", {"w": wrong})
    assert np.array_equal(wrong.values(), x)
    assert lp.compare(x, f"{tmp_path}/b.safetensors:w", "mxint8").mismatches == 128


@pytest.mark.parametrize("to", [None, "mxfp4"])
def test_a_tensor_scale_counts_in_formats_without_one(tmp_path, to):
    x = np.random.default_rng(0).standard_normal((8, 64)).astype(np.float32)
    made = lp.encode(x, "mxfp4")
    mine = dataclasses.replace(lp.block_formats["nvfp4"], name="mine", scale="e8m0fnu", size=32)
    lp.save(tmp_path / "b.safetensors", {"w": lp.BlockArray(made.codes, made.scales, mine, tensor_scale=8.0)})
    assert lp.compare(x, f"{tmp_path}/b.safetensors:w", to).mismatches > 400


@pytest.mark.parametrize("number", [0, -1.0, float("inf")])
def test_a_tensor_scale_must_be_one_that_encode_takes(tmp_path, number):
    """Refuse one also where the file has one of its own, and where the format has none."""
    x = np.random.default_rng(0).standard_normal((8, 64)).astype(np.float32)
    lp.save(tmp_path / "b.safetensors", {"w": lp.encode(x, "nvfp4")})
    with pytest.raises(ValueError, match="must be one positive number that float32 holds"):
        lp.compare(x, f"{tmp_path}/b.safetensors:w", tensor_scale=number)
    made = lp.encode(x, "mxfp4")
    with pytest.raises(ValueError, match="is for formats that have one, and 'mxfp4' has none"):
        lp.compare(x, made.codes, "mxfp4", scales=made.scales, tensor_scale=number)


def test_a_weight_whose_scales_are_missing_is_refused(tmp_path):
    _, _, found = _both(tmp_path, "compressed-tensors", "mxfp4")
    changed(found, tmp_path / "b.safetensors", lambda tensors: tensors.pop("m.q.weight_scale"))
    with pytest.raises(
        DumpError, match=r"'m\.q\.weight' cannot be decoded: .* has no weight_scale beside it"
    ):
        open_dump(f"{tmp_path}/b.safetensors:m.q.weight")


def test_folders_of_shards_are_read_too(tmp_path):
    _, _, found = _both(tmp_path, "quark", "mxfp4")
    folder = tmp_path / "model"
    folder.mkdir()
    found.path.rename(folder / "model.safetensors")
    assert np.array_equal(np.asarray(open_dump(f"{folder}:m.q.weight")), _values(open_checkpoint(folder)))


@pytest.mark.parametrize("kind", ["MXFP4", "Q8_0", "IQ4_NL", "NVFP4"])
def test_tensors_of_gguf_are_read(tmp_path, kind):
    gguf = pytest.importorskip("gguf")
    x = np.random.default_rng(0).standard_normal((4, 128)).astype(np.float32)
    of = gguf.GGMLQuantizationType[kind]
    each = {"MXFP4": (17, 32), "NVFP4": (36, 64), "Q8_0": (34, 32), "IQ4_NL": (18, 32)}[kind]
    data = (np.arange(4 * 128 // each[1] * each[0]) % 50 + 60).astype(np.uint8).reshape(4, -1)
    writer = gguf.GGUFWriter(tmp_path / "x.gguf", "llama")
    writer.add_tensor("x.weight", data, raw_dtype=of)
    writer.add_tensor("f.weight", x)
    for step in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
        step()
    writer.close()
    dump = open_dump(f"{tmp_path}/x.gguf:x.weight")
    assert np.array_equal(np.asarray(dump), gguf.quants.dequantize(data, of))
    assert f"gguf {kind}" in dump.read_as
    assert np.array_equal(np.asarray(open_dump(f"{tmp_path}/x.gguf:f.weight")), x)


def test_the_command_says_how_a_weight_was_read(tmp_path):
    source, weight, _ = _both(tmp_path, "modelopt", "nvfp4")
    result = CliRunner().invoke(main, ["compare", source.name, weight.name, "--to", "nvfp4"])
    first, *others = result.output.splitlines()
    assert first == f"{weight.name}: codes and scales of a weight of modelopt nvfp4, in blocks of 16"
    assert others == ["49,152 results agree"]
    assert result.exit_code == 0
    result = CliRunner().invoke(main, ["compare", source.name, weight.name, "--to", "nvfp4", "--json"])
    said = json.loads(result.output)
    jsonschema.validate(said, json.loads(SCHEMA.read_text()))
    assert said["read"] == [first]
