"""Defects that users report, each rebuilt and named; and silence on files that are right."""

import json

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

import lowprec as lp
from lowprec.arrays.blocks.packing import swizzle, unswizzle
from lowprec.checkpoints.decoding import values_of
from lowprec.checkpoints.folder import open_checkpoint
from lowprec.checkpoints.linting import lint
from lowprec.checkpoints.quantizing import FAMILIES, quantize_checkpoint, target
from lowprec.checkpoints.schemes.schemes import NESTED_ABSMAX
from lowprec.checkpoints.verifying import verify_checkpoint
from lowprec.checkpoints.weights import weights_of
from tests.checkpoints.files import ENDINGS, changed, quantized, source
from tests.programs import need_package

PAIRS = [(family, to) for family, formats in FAMILIES.items() for to in formats]


def _rules(checkpoint, against=None):
    return [finding.rule for finding in lint(checkpoint, against)]


@pytest.mark.parametrize(("family", "to"), PAIRS)
def test_a_file_that_is_right_has_no_findings(tmp_path, family, to):
    found, made = quantized(tmp_path, family, to, (2, 64, 96) if family == "gpt-oss" else (256, 256))
    assert lint(found) == lint(found, made) == ()


@pytest.mark.parametrize(("family", "to"), PAIRS)
def test_a_file_of_tiny_weights_has_no_findings(tmp_path, family, to):
    """Scales in float32 that would be subnormal are 2**-126, and verify knows by which rule."""
    if family in ("gguf", "onnx"):
        need_package(family)
    rows = 2.0 ** np.linspace(-140, -120, 128)[:, None]
    weight = np.random.default_rng(3).standard_normal((128, 128)) * rows
    weight = weight.reshape(2, 64, 128) if family == "gpt-oss" else weight
    save_file({"m.q.weight": weight.astype(np.float32)}, tmp_path / "s.safetensors")
    made, out = (
        open_checkpoint(tmp_path / "s.safetensors"),
        tmp_path / f"q{ENDINGS.get(family, '.safetensors')}",
    )
    reports, _ = quantize_checkpoint(made, out, target(family, to))
    assert lint(open_checkpoint(out)) == ()
    (verdict,) = verify_checkpoint(open_checkpoint(out), made)
    assert verdict.codes_differ == 0
    in_float32 = (family, to) in (("deepseek", "e4m3fn"), ("compressed-tensors", "int4"), ("onnx", "int4"))
    if in_float32 or family == "bitsandbytes":
        assert verdict.rule
        assert "a scale would be below 2**-126" in reports["m.q.weight"]["note"]


@pytest.mark.parametrize("kind", ["e3m2", "e2m3"])
def test_codes_of_six_bits_are_told_by_the_configuration(tmp_path, kind):
    """The metadata of what lowprec wrote say it too; without either, the finding says what is missing."""
    (tmp_path / "model").mkdir()
    source(tmp_path / "model" / "model.safetensors", (64, 128))
    (tmp_path / "model" / "config.json").write_text("{}")
    made = open_checkpoint(tmp_path / "model")
    quantize_checkpoint(made, tmp_path / "out", target("quark", f"mxfp6_{kind}"))
    (file,) = (tmp_path / "out").glob("*.safetensors")
    stripped = changed(open_checkpoint(file), tmp_path / "x.safetensors", lambda tensors: None)
    stripped.path.replace(file)
    found = open_checkpoint(tmp_path / "out")
    assert found.metadata == {}
    assert [item.scheme.name for item in weights_of(found) if item.is_quantized] == [f"quark mxfp6_{kind}"]
    assert lint(found, made) == ()
    (tmp_path / "out" / "config.json").unlink()
    (finding,) = lint(open_checkpoint(tmp_path / "out"))
    assert "the configuration must say fp6_e2m3 or fp6_e3m2" in finding.evidence


@pytest.mark.parametrize(
    "family", ["compressed-tensors", "modelopt", "deepseek", "quark", "deepseek-v4", "bitsandbytes"]
)
def test_a_folder_that_is_right_has_no_findings(tmp_path, family):
    """With the configuration that is written beside it."""
    (tmp_path / "model").mkdir()
    source(tmp_path / "model" / "model.safetensors", (256, 256))
    (tmp_path / "model" / "config.json").write_text('{"model_type": "test"}')
    made = open_checkpoint(tmp_path / "model")
    quantize_checkpoint(made, tmp_path / "out", target(family, next(iter(FAMILIES[family]))))
    found = open_checkpoint(tmp_path / "out")
    assert json.loads((tmp_path / "out" / "config.json").read_text())["model_type"] == "test"
    assert found.config["quant_method"]
    assert lint(found, made) == ()


#: Schemes with a configuration, and a format that a convolution's shape fits.
_OF_LINEAR = [(family, "e4m3fn") for family in ("compressed-tensors", "modelopt", "quark")]
_OF_LINEAR += [("compressed-tensors", "int8"), ("bitsandbytes", "nf4"), ("deepseek-v4", "mxfp4")]


@pytest.mark.parametrize(("family", "to"), _OF_LINEAR)
def test_a_convolution_stays_where_the_schemes_software_has_linear_layers_only(tmp_path, family, to):
    """Its codes would be loaded as values; `include` takes it, and report and lint say so."""
    (tmp_path / "model").mkdir()
    shapes = {"m.down.weight": (64, 64, 2, 64), "m.conv.weight": (64, 64, 64), "m.short.weight": (64, 8, 16)}
    shapes |= {"m.experts.weight": (2, 64, 64)}
    more = {name: np.random.default_rng(1).standard_normal(shape) for name, shape in shapes.items()}
    more = {name: weight.astype(np.float32) for name, weight in more.items()}
    source(tmp_path / "model" / "model.safetensors", (256, 256), **more)
    made = open_checkpoint(tmp_path / "model")
    how = target(family, to)
    reports, kept = quantize_checkpoint(made, tmp_path / "out", how)
    assert reports.keys() == {"m.q.weight", "m.experts.weight"}
    assert not any("note" in report for report in reports.values())
    why = f"{family} has no quantised convolutions; --include takes it"
    assert kept["m.down.weight"] == kept["m.conv.weight"] == why
    assert lint(open_checkpoint(tmp_path / "out"), made) == ()
    reports, _ = quantize_checkpoint(made, tmp_path / "all", how, include=["m.down*", "m.q*"])
    assert "no quantised convolutions" in reports["m.down.weight"]["note"]
    assert "note" not in reports["m.q.weight"]
    (finding,) = lint(open_checkpoint(tmp_path / "all"), made)
    assert (finding.rule, finding.tensor) == ("ignored-but-quantized", "m.down.weight")


@pytest.mark.parametrize("family", ["torchao", "comfyui", "plain", "onnx"])
def test_a_convolution_is_quantised_where_nothing_says_linear_layers(tmp_path, family):
    if family == "onnx":
        need_package("onnx")
    weight = np.random.default_rng(1).standard_normal((64, 32, 3, 3)).astype(np.float32)
    made = source(tmp_path / "s.safetensors", **{"m.down.weight": weight})
    out = tmp_path / f"q{ENDINGS.get(family, '.safetensors')}"
    reports, _ = quantize_checkpoint(made, out, target(family, "e4m3fn"))
    assert "note" not in reports["m.down.weight"]


def _at(tensors, name, values, place=(0, 0)):
    tag, array = tensors[name]
    array = array.copy()
    array[place] = values
    tensors[name] = tag, array


def _set(tensors, name, array, tag=None):
    tensors[name] = tag or tensors[name][0], array


def _inverted(tensors, name):
    _set(tensors, name, 1 / tensors[name][1])


def _swap(tensors, name):
    data = tensors[name][1].view(np.uint8)
    _set(tensors, name, (data << 4 | data >> 4).astype(np.uint8))


def _half(tensors, name):
    _set(tensors, name, np.ascontiguousarray(tensors[name][1][:, ::2]))


def _swizzled(times):
    def change(tensors):
        tag, array = tensors["m.q.weight_scale"]
        codes = array.view(np.uint8)
        for _ in range(times):
            codes = swizzle(codes).reshape(codes.shape)
        tensors["m.q.weight_scale"] = tag, codes.view(array.dtype)

    return change


def _rows(tensors):
    tag, array = tensors[SCALE]
    tensors[SCALE] = tag, unswizzle(array.view(np.uint8), array.shape).view(array.dtype)


def _state(tensors, text):
    (name,) = (name for name in tensors if ".quant_state." in name)
    _set(tensors, name, np.frombuffer(text.encode(), np.uint8))


def _late(tensors):
    """Elements divided by amax / 6 itself, and the scale rounded afterwards: every block reaches 6."""
    data = tensors["m.q.weight"][1].copy()
    data.reshape(-1, 16)[:, 0] = 0x70 | data.reshape(-1, 16)[:, 0] & 15
    _set(tensors, "m.q.weight", data)


SCALE, CODES = "m.q.weight_scale", "m.q.weight"
#: Rule, the file that is damaged, and the damage. The comments name public reports.
DEFECTS = [
    # vLLM #43416, #51946: bytes of E8M0 copied as floats, 120 became 120.0
    ("scale-type", "quark", "mxfp4", lambda t: _set(t, SCALE, t[SCALE][1].astype(np.float32), "F32")),
    ("scale-bytes-as-floats", "comfyui", "e4m3fn", lambda t: _set(t, "m.q.scale_weight", np.float32(120))),
    # Modular #6600: the global scale is the other convention's
    ("scale-inverted", "compressed-tensors", "nvfp4",
     lambda t: _inverted(t, "m.q.weight_global_scale")),
    ("scale-inverted", "modelopt", "nvfp4", lambda t: _inverted(t, "m.q.weight_scale_2")),
    ("scale-inverted", "modelopt", "e4m3fn", lambda t: _inverted(t, SCALE)),
    ("scale-inverted", "deepseek", "e4m3fn", lambda t: _inverted(t, "m.q.weight_scale_inv")),
    # Modular #6600, sglang #23625: scales in tiles, or in tiles of tiles
    ("scale-swizzled", "modelopt", "nvfp4", _swizzled(1)),
    ("scale-swizzled", "modelopt", "nvfp4", _swizzled(2)),
    # Transformers #46763: elements and scale disagree
    ("scale-rounded-late", "quark", "mxfp4", _late),
    # ModelOpt #2038: scales of packed bytes
    ("shape", "modelopt", "nvfp4", lambda t: _half(t, SCALE)),
    ("shape", "quark", "mxfp4", lambda t: _set(t, SCALE, np.full((512, 8), 120, np.uint8))),
    # vLLM #54444: memory that was never written
    ("tensor-scale-invalid", "compressed-tensors", "nvfp4",
     lambda t: _set(t, "m.q.weight_global_scale", np.zeros(1, np.float32))),
    ("tensor-scale-invalid", "modelopt", "nvfp4", lambda t: _set(t, "m.q.weight_scale_2", np.float32(1e-41))),
    ("scale-nan", "quark", "mxfp4", lambda t: _at(t, SCALE, 0xFF)),
    ("scale-nan", "deepseek", "e4m3fn", lambda t: _at(t, "m.q.weight_scale_inv", np.nan)),
    ("scale-infinite", "deepseek", "e4m3fn", lambda t: _at(t, "m.q.weight_scale_inv", np.inf)),
    ("scale-zero", "modelopt", "nvfp4", lambda t: _at(t, SCALE, 0)),
    ("scale-negative", "modelopt", "nvfp4", lambda t: _at(t, SCALE, -1)),
    ("scale-subnormal", "deepseek", "e4m3fn", lambda t: _at(t, "m.q.weight_scale_inv", 1e-40)),
    ("code-nan", "modelopt", "e4m3fn", lambda t: _at(t, CODES, np.nan)),
    ("code-nan", "plain", "e4m3fn", lambda t: _at(t, CODES, np.nan)),
    ("missing-scale", "gpt-oss", "mxfp4", lambda t: t.pop("m.q.weight_scales")),
    ("missing-scale", "quark", "mxfp4", lambda t: t.pop(SCALE)),
    ("missing-tensor-scale", "compressed-tensors", "nvfp4", lambda t: t.pop("m.q.weight_global_scale")),
    ("scale-not-swizzled", "comfyui", "nvfp4", _rows),
    ("orphan-scale", "modelopt", "e4m3fn", lambda t: t.pop(CODES)),
    ("fp8-without-scale", "comfyui", "e4m3fn", lambda t: t.pop("m.q.scale_weight")),
    ("comfyui-unmarked", "comfyui", "e4m3fn", lambda t: t.pop("scaled_fp8")),
    ("comfyui-quant", "comfyui", "e4m3fn",
     lambda t: t.update({"m.q.comfy_quant": ("U8", np.frombuffer(b'{"format": "nvfp4"}', np.uint8))})),
    ("quant-state", "bitsandbytes", "nf4", lambda t: _state(t, '{"quant_type": "nf4", "blocksize": 7}')),
    ("quant-state", "bitsandbytes", "nf4", lambda t: _state(t, "[" * 40)),
    ("quant-state", "bitsandbytes", "nf4",
     lambda t: _state(t, '{"quant_type": "nf4", "blocksize": 64, "shape": [512, 512]}')),
    ("quant-state", "bitsandbytes", "nf4",
     lambda t: _set(t, "m.q.weight.absmax", np.ones(3, np.float32))),
    ("quant-map", "bitsandbytes", "fp4", lambda t: _at(t, "m.q.weight.quant_map", 0.3, 5)),
    ("missing-scale", "bitsandbytes", "fp4", lambda t: t.pop("m.q.weight.absmax")),
    ("orphan-scale", "bitsandbytes", "nf4", lambda t: t.pop(CODES)),
    ("scale-nan", "bitsandbytes", "nf4", lambda t: _at(t, "m.q.weight.absmax", np.nan, 9)),
    ("zero-point", "compressed-tensors", "e4m3fn",
     lambda t: _set(t, "m.q.weight_zero_point", np.int8([-1]), "I8")),
    ("zero-point", "compressed-tensors", "nvfp4",
     lambda t: _set(t, "m.q.weight_zero_point", np.array([[0, np.nan]], ml_dtypes.float8_e4m3fn), "F8_E4M3")),
    ("shape", "quark", "mxfp6_e3m2", lambda t: _half(t, SCALE)),
    ("missing-scale", "transformer-engine", "mxfp8_e4m3", lambda t: t.pop("m.q.weight._rowwise_scale_inv")),
    ("orphan-scale", "transformer-engine", "mxfp8_e4m3", lambda t: [t.pop(f"m.q.weight._{x}_data")
     for x in ("rowwise", "columnwise")]),
    ("missing-tensor-scale", "transformer-engine", "nvfp4", lambda t: t.pop("m.q.weight._amax_rowwise")),
    ("tensor-scale-invalid", "transformer-engine", "nvfp4",
     lambda t: _at(t, "m.q.weight._amax_rowwise", np.nan, 0)),
    ("shape", "transformer-engine", "nvfp4", lambda t: _half(t, "m.q.weight._rowwise_scale_inv")),
    ("scale-nan", "transformer-engine", "mxfp8_e4m3", lambda t: _set(t, "m.q.weight._rowwise_scale_inv",
     np.full((256, 16), 255, np.uint8).view(ml_dtypes.float8_e8m0fnu))),
    ("input-scale-invalid", "modelopt", "nvfp4", lambda t: t.update({"m.q.input_scale": ("F32",
    np.float32(0))})),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "family", "to", "change"), DEFECTS)
def test_a_defect_is_named(tmp_path, rule, family, to, change):
    """One defect, one finding: with the tensor, what was seen and what to do."""
    found, _ = quantized(tmp_path, family, to, (2, 64, 96) if family == "gpt-oss" else (256, 512))
    findings = lint(changed(found, tmp_path / "defect.safetensors", change))
    assert {finding.rule for finding in findings} == {rule}
    for finding in findings:
        assert "q" in finding.tensor
        assert finding.evidence
        assert finding.remedy


#: Bytes of scales that are no positive numbers, by type and by rule; U8 are bytes of E8M0.
WRONG = {
    "F32": {"nan": np.nan, "infinite": np.inf, "zero": 0.0, "negative": -1.0},
    "F8_E4M3": {"nan": 0x7F, "zero": 0x00, "negative": 0xB8},
    "F8_E8M0": {"nan": 0xFF},
    "U8": {"nan": 0xFF},
}


def _planted(path, family, to, options):
    """Yield checkpoints with one wrong scale each, with the rule that names it, and the source."""
    found, made = quantized(path, family, to, (2, 64, 96) if family == "gpt-oss" else (256, 256), **options)
    (weight,) = [item for item in weights_of(found) if item.is_quantized]
    nested = [part for part in weight.extras if part.name.endswith(NESTED_ABSMAX)]
    for part in (weight.scales, weight.tensor, *nested):
        for kind, value in WRONG[part.tag].items() if part is not None else ():
            if nested and part is weight.scales:
                continue  # codes of a table, all of which are numbers

            def plant(tensors, name=part.name, value=value):
                tag, array = tensors[name]
                array = array.copy()
                array.reshape(-1).view(np.float32 if tag == "F32" else np.uint8)[0] = value
                tensors[name] = tag, array

            rule = "tensor-scale-invalid" if part is weight.tensor else f"scale-{kind}"
            yield rule, changed(found, path / "wrong.safetensors", plant, found.metadata), made


@pytest.mark.parametrize(
    ("family", "to", "options"),
    [(*pair, {}) for pair in PAIRS if pair[0] not in ("plain", "gguf", "onnx")]
    + [("bitsandbytes", to, {"nested": True}) for to in ("nf4", "fp4")],
)
def test_scales_that_are_no_positive_numbers_are_named_as_what_they_are(tmp_path, family, to, options):
    """With the source and without: no other rule explains them."""
    count = 0
    for rule, wrong, made in _planted(tmp_path, family, to, options):
        assert (_rules(wrong), _rules(wrong, made)) == ([rule], [rule])
        count += 1
    assert count


@pytest.mark.parametrize(
    ("to", "scale", "rules"),
    [
        ("mxfp4", b"\xff", ["scale-nan"]),
        ("q8_0", b"\x00\x7e", ["scale-nan"]),
        ("q8_0", b"\x00\x7c", ["scale-infinite"]),
        ("q8_0", b"\x00\x00", ["scale-zero"]),
        ("q8_0", b"\x00\xbc", ["scale-negative"]),
        ("iq4_nl", b"\x00\x7e", ["scale-nan"]),
        # llama.cpp takes the sign of the largest value; the source tells that this one is another
        ("iq4_nl", b"\x00\xbc", []),
    ],
)
def test_scales_inside_of_blocks_are_named_as_what_they_are(tmp_path, to, scale, rules):
    found, made = quantized(tmp_path, "gguf", to)
    (weight,) = [item for item in weights_of(found) if item.is_quantized]
    data = bytearray(found.path.read_bytes())
    data[weight.codes.start : weight.codes.start + len(scale)] = scale
    found.path.write_bytes(data)
    assert _rules(open_checkpoint(found.path)) == rules
    assert _rules(open_checkpoint(found.path), made) == (rules or ["far-from-source"])


@pytest.mark.parametrize(
    ("family", "to"), [("modelopt", "nvfp4"), ("deepseek", "e4m3fn"), ("quark", "mxfp4")]
)
def test_large_weights_are_right_where_the_source_has_them(tmp_path, family, to):
    """Alone they look as with an inverted scale; a source that is no number is named itself."""
    large = np.full((256, 256), 1e30, np.float32)
    made = source(tmp_path / "s.safetensors", **{"m.q.weight": large})
    quantize_checkpoint(made, tmp_path / "x.safetensors", target(family, to))
    found = open_checkpoint(tmp_path / "x.safetensors")
    assert (_rules(found), _rules(found, made)) == (["scale-inverted"], [])
    (finding,) = lint(found)
    assert finding.severity == "warning"
    assert "--against tells if weights are so large" in finding.remedy
    large[0, 0] = np.nan
    assert _rules(found, source(tmp_path / "s.safetensors", **{"m.q.weight": large})) == ["source-nan"]


def test_nested_scales_below_zero_are_the_schemes_own(tmp_path):
    """Of a small block beside large ones: a warning, with a remedy of the scheme."""
    uneven = np.full((64, 256), 1e-6, np.float32)
    uneven[0, :64] = 1
    made = source(tmp_path / "s.safetensors", **{"m.q.weight": uneven})
    how = target("bitsandbytes", "nf4", nested=True)
    quantize_checkpoint(made, tmp_path / "x.safetensors", how)
    (finding,) = lint(open_checkpoint(tmp_path / "x.safetensors"))
    assert (finding.rule, finding.severity) == ("scale-negative", "warning")
    assert "quantise the weight without --nested" in finding.remedy


def test_evidence_says_what_shapes_look_like(tmp_path):
    found, _ = quantized(tmp_path, "modelopt", "nvfp4", (256, 128))
    half = changed(found, tmp_path / "a.safetensors", lambda t: _half(t, SCALE))
    (finding,) = lint(half)
    assert "computed from packed bytes" in finding.evidence
    flat = changed(found, tmp_path / "b.safetensors", lambda t: _set(t, SCALE, t[SCALE][1].reshape(-1)))
    (finding,) = lint(flat)
    assert "swizzled scales are" in finding.evidence
    other = changed(found, tmp_path / "c.safetensors", lambda t: _set(t, SCALE, t[SCALE][1].reshape(128, 16)))
    (finding,) = lint(other)
    assert "of the other axis" in finding.evidence


def _said_swizzled(found):
    """The header's metadata, in which the weight's scales lie in tiles."""
    said = json.loads(found.metadata["m.q.weight"])
    said["_data"]["is_swizzled_scales"] = True
    return {**found.metadata, "m.q.weight": json.dumps(said)}


@pytest.mark.parametrize("to", ["nvfp4", "mxfp4"])
def test_scales_that_are_not_swizzled_where_the_header_says_so(tmp_path, to):
    """Torchao's `is_swizzled_scales`: scales that are, and scales that lie row by row."""
    found, made = quantized(tmp_path, "torchao", to, (256, 512))
    scales = "m.q._weight_scale"

    def tiles(tensors):
        tag, array = tensors[scales]
        codes = swizzle(array.view(np.uint8))
        tensors[scales] = tag, codes.reshape(2 * 32, -1).view(array.dtype)

    right = changed(found, tmp_path / "right.safetensors", tiles, _said_swizzled(found))
    assert lint(right) == lint(right, made) == ()
    (ours,), (theirs,) = ([w for w in weights_of(x) if w.is_quantized] for x in (found, right))
    assert np.array_equal(values_of(ours), values_of(theirs))
    for name, change, metadata in (
        ("rows", lambda tensors: None, _said_swizzled(found)),
        ("shape", tiles, found.metadata),
    ):
        wrong = changed(found, tmp_path / f"{name}.safetensors", change, metadata)
        rule = {"rows": "scale-not-swizzled", "shape": "shape"}[name]
        assert _rules(wrong) == [rule]
        assert rule in _rules(wrong, made)
    assert "padded to tiles of 128x4" in lint(wrong)[0].evidence


def _structures(shape):
    """Exponents of scales as weights have them: alike in rows, columns or heads, or not at all."""
    rng = np.random.default_rng(0)
    noise = rng.normal(size=shape)
    heads = np.kron(rng.normal(size=(shape[0] // 32, shape[1] // 8)), np.ones((32, 8)))
    return {
        "none": 4 * noise,
        "rows": noise + rng.normal(size=(shape[0], 1)),
        "columns": noise + 4 * rng.normal(size=(1, shape[1])),
        "heads": noise + 4 * heads,
        "slope": noise + np.linspace(0, 9, shape[0])[:, None] + np.linspace(0, 9, shape[1]),
    }


@pytest.mark.parametrize("structure", _structures((256, 24)))
def test_only_scales_that_are_swizzled_seem_to_be(tmp_path, structure):
    """Those alike in rows are found as they vary in real weights; nothing else seems swizzled."""
    found, _ = quantized(tmp_path, "quark", "mxfp4", (256, 24 * 32))
    right = np.rint(_structures((256, 24))[structure] + 110).clip(90, 130).astype(np.uint8)
    for times in range(3):
        stored = right
        for _ in range(times):
            stored = swizzle(stored).reshape(right.shape)
        lying = changed(found, tmp_path / "x.safetensors", lambda t, s=stored: _set(t, SCALE, s))
        rules = _rules(lying)
        if times == 0 or structure == "none":
            assert rules == []
        elif structure == "rows":
            assert rules == ["scale-swizzled"]


def test_scales_of_the_other_axis_are_seen_by_their_blocks(tmp_path):
    """A square weight that was transposed after it had been quantised: all shapes fit."""
    found, _ = quantized(tmp_path, "quark", "mxfp4", (256, 256))

    def transpose(tensors):
        data = tensors[CODES][1]
        codes = np.stack([data & 15, data >> 4], axis=-1).reshape(256, 256).T
        _set(tensors, CODES, np.ascontiguousarray(codes[:, ::2] | codes[:, 1::2] << 4))

    assert _rules(changed(found, tmp_path / "x.safetensors", transpose)) == ["scale-axis"]


@pytest.mark.parametrize(
    ("rule", "family", "to", "change"),
    [
        # sglang #23625: nothing but the source shows it
        ("swapped-nibbles", "modelopt", "nvfp4", lambda t: _swap(t, CODES)),
        # comfy-kitchen has the first element in the high half
        ("swapped-nibbles", "comfyui", "nvfp4", lambda t: _swap(t, CODES)),
        ("swapped-nibbles", "gpt-oss", "mxfp4", lambda t: _swap(t, "m.q.weight_blocks")),
        ("far-from-source", "quark", "mxfp4", lambda t: _set(t, CODES, t[CODES][1][::-1].copy())),
    ],
)
def test_what_only_the_source_shows_is_named_against_it(tmp_path, rule, family, to, change):
    found, made = quantized(tmp_path, family, to, (2, 64, 96) if family == "gpt-oss" else (256, 256))
    broken = changed(found, tmp_path / "x.safetensors", change)
    assert _rules(broken) == []
    assert _rules(broken, made) == [rule]


def test_blocks_of_one_scale_may_all_reach_the_largest_value(tmp_path):
    """Pass weights that are uniform up to a power of two, which PyTorch's layers begin with."""
    values = np.random.default_rng(0).uniform(-1 / 16, 1 / 16, (256, 256)).astype(np.float32)
    save_file({"a.weight": values}, tmp_path / "s.safetensors")
    made = open_checkpoint(tmp_path / "s.safetensors")
    quantize_checkpoint(made, tmp_path / "x.safetensors", target("compressed-tensors", "mxfp4"))
    found = open_checkpoint(tmp_path / "x.safetensors")
    assert _rules(found) == _rules(found, made) == []


def test_large_experts_are_held_against_their_source(tmp_path):
    """Compare the largest rows alone, each with the tensor scale of its own."""
    values = np.random.default_rng(0).standard_normal((4, 1024, 1024)).astype(np.float32)
    save_file({"e.weight": values}, tmp_path / "s.safetensors")
    made = [lp.encode(part, "nvfp4") for part in values]
    scales = np.stack([part.scales for part in made]).view(ml_dtypes.float8_e4m3fn)
    parts = {"e.weight": np.stack([part.packed() for part in made]), "e.weight_scale": scales}
    of = open_checkpoint(tmp_path / "s.safetensors")
    over = np.float32([part.tensor_scale for part in made])
    for name, tensor, rules in (("right", over, []), ("wrong", 1 / over, ["scale-inverted"])):
        save_file(parts | {"e.weight_scale_2": tensor}, tmp_path / f"{name}.safetensors")
        assert _rules(open_checkpoint(tmp_path / f"{name}.safetensors"), of) == rules


def test_large_weights_are_held_against_the_largest_rows_of_their_source(tmp_path):
    """Pass small first rows, as of tokens that are hardly used: a scale of all makes them 0."""
    values = np.random.default_rng(0).standard_normal((4096, 1024)).astype(np.float32)
    values[:2048] *= 1e-3
    save_file({"a.weight": values}, tmp_path / "s.safetensors")
    made = open_checkpoint(tmp_path / "s.safetensors")
    quantize_checkpoint(made, tmp_path / "x.safetensors", target("compressed-tensors", "int8"))
    assert _rules(open_checkpoint(tmp_path / "x.safetensors"), made) == []


@pytest.mark.parametrize(("family", "to"), [("quark", "mxfp4"), ("torchao", "nvfp4"), ("comfyui", "nvfp4")])
def test_a_weight_without_rows_is_read_and_has_no_findings(tmp_path, family, to):
    found, _ = quantized(tmp_path, family, to, (256, 512))

    def emptied(tensors):
        for name, (tag, array) in tensors.items():
            if name.startswith("m.q.") and array.ndim == 2:
                tensors[name] = tag, array[:0]

    empty = changed(found, tmp_path / "empty.safetensors", emptied, found.metadata)
    (weight,) = [item for item in weights_of(empty) if item.is_quantized]
    assert values_of(weight).shape == (0, 512)
    assert lint(empty) == ()


@pytest.mark.parametrize("times", [1, 2])
def test_swizzled_scales_without_a_structure_are_told_by_the_source(tmp_path, times):
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((256, 24, 16)) * 2.0 ** rng.integers(-9, -3, (256, 24, 1))
    made = source(tmp_path / "s.safetensors", **{"m.q.weight": weight.reshape(256, 384).astype(np.float32)})
    quantize_checkpoint(made, tmp_path / "x.safetensors", target("modelopt", "nvfp4"))
    found = open_checkpoint(tmp_path / "x.safetensors")
    broken = changed(found, tmp_path / "broken.safetensors", _swizzled(times))
    assert _rules(broken) == []
    (finding,) = lint(broken, made)
    assert (finding.rule, finding.severity) == ("scale-swizzled", "error")
    assert ("twice" in finding.remedy) == (times == 2)


@pytest.mark.parametrize(
    ("rule", "family", "to", "options", "change"),
    [
        ("ignored-but-quantized", "compressed-tensors", "nvfp4", {}, lambda c: c["ignore"].append("m.q")),
        ("ignored-but-quantized", "compressed-tensors", "nvfp4", {}, lambda c: c["ignore"].append("re:.*q$")),
        ("format-disagrees", "compressed-tensors", "nvfp4", {},
         lambda c: c.update(format="mxfp4-pack-quantized")),
        ("scale-strategy", "compressed-tensors", "e4m3fn", {"channel": True},
         lambda c: c["config_groups"]["group_0"]["weights"].update(strategy="tensor")),
        ("scale-strategy", "compressed-tensors", "mxfp4", {},
         lambda c: c["config_groups"]["group_0"]["weights"].update(group_size=16)),
        ("scale-not-a-power-of-two", "deepseek", "e4m3fn", {}, lambda c: c.update(scale_fmt="ue8m0")),
        ("format-disagrees", "modelopt", "nvfp4", {}, lambda c: c.update(quant_algo="FP8")),
        ("format-disagrees", "quark", "mxfp4", {},
         lambda c: c["global_quant_config"]["weight"].update(dtype="fp8_e4m3")),
        ("quantized-but-plain", "compressed-tensors", "mxfp4", {}, lambda c: c["ignore"].remove("m.k")),
    ],
)  # fmt: skip
def test_a_configuration_that_says_otherwise_is_named(tmp_path, rule, family, to, options, change):
    (tmp_path / "model").mkdir()
    source(tmp_path / "model" / "m.safetensors", (256, 256), **{"m.k.weight": np.ones((4, 48), np.float32)})
    made = open_checkpoint(tmp_path / "model")
    quantize_checkpoint(made, tmp_path / "out", target(family, to, **options), exclude=["*.k.*"])
    assert _rules(open_checkpoint(tmp_path / "out")) == []
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    change(config["quantization_config"])
    (tmp_path / "out" / "config.json").write_text(json.dumps(config))
    assert _rules(open_checkpoint(tmp_path / "out")) == [rule]


def _mixed(path):
    """Return a folder with NVFP4 and FP8 of compressed-tensors, and its configuration by targets."""
    weights = {
        f"m.{name}.weight": np.full((32, 32), 1 + place, np.float32) for place, name in enumerate("ab")
    }
    made = source(path / "s.safetensors", (256, 256), **weights)
    quantize_checkpoint(
        made, path / "4.safetensors", target("compressed-tensors", "nvfp4"), exclude=["*.a.*"]
    )
    quantize_checkpoint(
        open_checkpoint(path / "4.safetensors"),
        path / "out.safetensors",
        target("compressed-tensors", "e4m3fn"),
        include=["m.a.weight"],
    )
    (path / "out").mkdir()
    (path / "out.safetensors").rename(path / "out" / "model.safetensors")
    float4 = {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}
    float8 = {"num_bits": 8, "type": "float", "strategy": "tensor"}
    return path / "out", {
        "quant_method": "compressed-tensors",
        "format": "mixed-precision",
        "config_groups": {
            "group_0": {"targets": ["Linear"], "weights": float4},
            "group_1": {"targets": ["re:.*[.]a$"], "weights": float8},
        },
        "ignore": [],
    }


@pytest.mark.parametrize(
    ("rule", "tensor", "change"),
    [
        (None, None, lambda c: None),
        # one layer's scheme is taken for another's: by the order of groups, a list or a pattern
        ("format-disagrees", "m.a.weight", lambda c: c["config_groups"].pop("group_1")),
        ("format-disagrees", "m.b.weight",
         lambda c: c["config_groups"]["group_1"].update(targets=["m.a", "m.b"])),
        ("format-disagrees", "m.a.weight",
         lambda c: c["config_groups"]["group_1"]["weights"].update(strategy="group", group_size=32)),
        ("ignored-but-quantized", "m.b.weight",
         lambda c: c["config_groups"]["group_0"].update(targets=["m.q"])),
        ("ignored-but-quantized", "m.a.weight", lambda c: c["ignore"].append("m.a")),
    ],
)  # fmt: skip
def test_mixed_schemes_are_held_against_targets_and_ignore_lists(tmp_path, rule, tensor, change):
    folder, config = _mixed(tmp_path)
    change(config)
    (folder / "config.json").write_text(json.dumps({"quantization_config": config}))
    found = [(finding.rule, finding.tensor) for finding in lint(open_checkpoint(folder))]
    assert found == ([] if rule is None else [(rule, tensor)])


@pytest.mark.parametrize(
    ("rule", "layers"),
    [
        (None, {"m.a": "NVFP4", "m.q": "FP8"}),
        ("format-disagrees", {"m.a": "FP8", "m.q": "FP8"}),
        ("ignored-but-quantized", {"m.q": "FP8"}),
    ],
)
def test_mixed_schemes_of_modelopt_are_held_against_its_layers(tmp_path, rule, layers):
    """`quantized_layers` of hf_quant_config.json names each layer and its algorithm."""
    made = source(tmp_path / "s.safetensors", (64, 64), **{"m.a.weight": np.ones((32, 32), np.float32)})
    quantize_checkpoint(made, tmp_path / "4.safetensors", target("modelopt", "nvfp4"), exclude=["*.q.*"])
    (tmp_path / "out").mkdir()
    out, fp8 = tmp_path / "out" / "model.safetensors", target("modelopt", "e4m3fn")
    quantize_checkpoint(open_checkpoint(tmp_path / "4.safetensors"), out, fp8, include=["m.q.weight"])
    named = {name: {"quant_algo": algorithm} for name, algorithm in layers.items()}
    said = {"quantization": {"quant_algo": "MIXED_PRECISION", "quantized_layers": named}}
    (tmp_path / "out" / "hf_quant_config.json").write_text(json.dumps(said))
    assert _rules(open_checkpoint(tmp_path / "out")) == ([] if rule is None else [rule])


def test_scales_of_joined_layers_that_differ_are_a_note(tmp_path):
    """Gate and up are one product in servers (vLLM #54974, #55073)."""
    layers = {
        f"m.{name}_proj.weight": np.full((16, 16), size, np.float32)
        for name, size in (("gate", 1), ("up", 2))
    }
    made = source(tmp_path / "s.safetensors", **layers)
    quantize_checkpoint(made, tmp_path / "x.safetensors", target("modelopt", "nvfp4"), exclude=["*up*"])
    one = open_checkpoint(tmp_path / "x.safetensors")
    assert lint(one) == ()
    quantize_checkpoint(one, tmp_path / "y.safetensors", target("modelopt", "nvfp4"), include=["*up*"])
    (finding,) = lint(open_checkpoint(tmp_path / "y.safetensors"))
    assert (finding.rule, finding.severity) == ("fused-scales-differ", "note")


def test_an_fp8_cast_that_clipped_is_a_warning(tmp_path):
    made = source(tmp_path / "s.safetensors", **{"m.k.weight": np.full((4, 32), 500, np.float32)})
    quantize_checkpoint(made, tmp_path / "x.safetensors", target("plain", "e4m3fn"))
    (finding,) = lint(open_checkpoint(tmp_path / "x.safetensors"))
    assert (finding.rule, finding.severity, finding.tensor) == ("fp8-without-scale", "warning", "m.k.weight")


@pytest.mark.parametrize(
    ("tensors", "rule", "evidence"),
    [
        ({"w.weight_packed": np.array(1, np.uint8)}, "shape", "[] codes in blocks of 1x16"),
        ({"w.weight_global_scale": np.ones(1, np.complex64)}, "scale-type", "a tensor's scale is a float"),
        ({"w.weight_global_scale": np.ones(1, np.int32)}, "scale-type", "is I32, and a tensor's scale"),
        (
            {"w_blocks": np.ones(16, np.uint8), "w_scales": np.ones(1, np.uint8)},
            "shape",
            "are no groups of 16",
        ),
    ],
)
def test_parts_that_no_weight_can_have_are_named(tmp_path, tensors, rule, evidence):
    """Codes without axes, scales that are no floats."""
    whole = {
        "w.weight_packed": np.ones((32, 16), np.uint8),
        "w.weight_scale": np.ones((32, 2), ml_dtypes.float8_e4m3fn),
    }
    whole |= {"w.weight_global_scale": np.ones(1, np.float32)}
    save_file(tensors if "w_blocks" in tensors else whole | tensors, tmp_path / "x.safetensors")
    (finding,) = lint(open_checkpoint(tmp_path / "x.safetensors"))
    assert finding.rule == rule
    assert evidence in finding.evidence


def test_gaps_between_tensors_are_named(tmp_path):
    import struct

    text = json.dumps({"x": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}).encode()
    (tmp_path / "x.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(8))
    assert _rules(open_checkpoint(tmp_path / "x.safetensors")) == ["gaps"]


def test_types_of_ml_dtypes_are_what_files_hold(tmp_path):
    found, _ = quantized(tmp_path, "modelopt", "nvfp4")
    assert found.entries[SCALE].read().dtype == ml_dtypes.float8_e4m3fn
