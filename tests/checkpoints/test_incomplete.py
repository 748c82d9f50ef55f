"""Weights that lack a part: of every scheme each part is taken away in turn, and the loss is named."""

import numpy as np
import pytest

from lowprec.checkpoints.container import CheckpointError
from lowprec.checkpoints.containers.saving import save
from lowprec.checkpoints.converting import dequantize_checkpoint
from lowprec.checkpoints.decoding import values_of
from lowprec.checkpoints.folder import open_checkpoint
from lowprec.checkpoints.linting import lint
from lowprec.checkpoints.quantizing import FAMILIES, quantize_checkpoint, target
from lowprec.checkpoints.schemes.schemes import SCHEMES
from lowprec.checkpoints.weights import weights_of
from tests.checkpoints.files import ENDINGS, SMALL, changed, refusal, source
from tests.programs import need_package

#: Schemes of files in which names do not say what belongs together.
OTHERS = ("gguf", "onnx")
#: What is written to see each scheme: family, format, options, and what becomes of the tensors.
WRITTEN = [
    (family, to, options, None)
    for family, formats in FAMILIES.items()
    if family not in (*OTHERS, "plain")
    for to in formats
    for options in ([{}, {"nested": True}] if family == "bitsandbytes" else [SMALL.get((family, to), {})])
]


def _original(tensors):
    """Names of gpt-oss as OpenAI has them; their weights are not transposed."""
    for name in [name for name in tensors if name.endswith(("_blocks", "_scales"))]:
        tensors[f"{name[:-7]}.{name[-6:]}"] = tensors.pop(name)


def _columns(tensors):
    """Weights of Transformer Engine with the copy along columns alone."""
    for name in [name for name in tensors if "rowwise" in name]:
        del tensors[name]


def _single(tensors):
    """Weights of Transformer Engine with one scale."""
    for name in ("m.a.weight", "m.b.weight"):
        tensors[f"{name}._data"] = tensors.pop(name)
        tensors[f"{name}._scale_inv"] = tensors.pop(f"{name}_scale")


WRITTEN += [
    ("gpt-oss", "mxfp4", {}, _original),
    ("transformer-engine", "mxfp8_e4m3", {}, _columns),
    ("transformer-engine", "nvfp4", {}, _columns),
    ("modelopt", "e4m3fn", {}, _single),
]
#: Marks without which a file is a right one of another scheme.
MARKS = {("comfyui nvfp4", ".comfy_quant"), ("comfyui mxfp8", ".comfy_quant")}
#: Told by a configuration alone: their tensors are those of "float-quantized".
CONFIGURED = {"modelopt fp8", "quark fp8"}


def _file(path, family, to, options, change):
    rng, shape = np.random.default_rng(1), (2, 64, 96) if family == "gpt-oss" else (64, 128)
    weights = {f"m.{name}.weight": rng.standard_normal(shape).astype(np.float32) for name in "ab"}
    made = source(path / "s.safetensors", shape, **weights)
    out = path / f"whole{ENDINGS.get(family, '.safetensors')}"
    quantize_checkpoint(made, out, target(family, to, **options), exclude=["m.q.*"])
    found = open_checkpoint(out)
    metadata = {} if change is _single else found.metadata
    return changed(found, path / "x.safetensors", change or (lambda tensors: None), metadata)


def _refusal(checkpoint, out):
    """Return why a checkpoint is not decoded; empty where it is."""
    try:
        dequantize_checkpoint(checkpoint, out)
    except CheckpointError as error:
        return str(error)
    return ""


def _values(checkpoint):
    return {weight.name: values_of(weight) for weight in weights_of(checkpoint)}


@pytest.mark.parametrize(
    ("family", "to", "options", "change"), WRITTEN, ids=lambda each: getattr(each, "__name__", str(each))
)
def test_a_weight_that_lacks_a_part_is_named_and_not_written(tmp_path, family, to, options, change):
    """Or its values are the same without: then the part did not count."""
    whole = _file(tmp_path, family, to, options, change)
    (weight,) = [item for item in weights_of(whole) if item.name.startswith("m.a.")]
    right, out, refused = _values(whole), tmp_path / "out.safetensors", []
    for part in weight.parts:
        end = next((end for scheme, end in MARKS if scheme == weight.scheme.name), None)
        if end and part.name.endswith(end):
            continue
        less = changed(whole, tmp_path / "less.safetensors", lambda t, p=part: t.pop(p.name), whole.metadata)
        why = _refusal(less, out)
        if why:
            assert "'m.a." in why
            assert "cannot be decoded" in why
            assert not list(tmp_path.glob("*out*"))
            assert {finding.tensor[:4] for finding in lint(less) if finding.severity == "error"} == {"m.a."}
            refused.append(part)
            assert "m.b.weight" in dequantize_checkpoint(less, out, exclude=["m.a.*"])
        else:
            got = _values(open_checkpoint(out))
            assert all(np.array_equal(got[name], values) for name, values in right.items())
        out.unlink()
    assert {weight.codes, weight.scales, weight.tensor} - {None} <= set(refused)


def test_each_scheme_loses_its_parts_in_a_test(tmp_path):
    seen = set()
    for place, (family, *rest) in enumerate(WRITTEN):
        (tmp_path / str(place)).mkdir()
        found = weights_of(_file(tmp_path / str(place), family, *rest))
        seen |= {weight.scheme.name for weight in found if weight.is_quantized}
    integers = {scheme.name for scheme in SCHEMES if scheme.zeros}  # which are in test_integers
    assert {each.name for each in SCHEMES if each.family not in OTHERS} - seen - integers == CONFIGURED


@pytest.mark.parametrize("fmt", ["nvfp4", "mxfp8_e4m3"])
def test_blocks_that_lost_a_part_are_not_decoded(tmp_path, fmt):
    import lowprec as lp

    save(tmp_path / "x.safetensors", {"w": lp.encode(np.ones((2, 64), np.float32), fmt), "b": np.ones(2)})
    whole = open_checkpoint(tmp_path / "x.safetensors")
    for part in [name for name in whole.entries if name.startswith("w")]:
        less = changed(whole, tmp_path / "less.safetensors", lambda t, p=part: t.pop(p), whole.metadata)
        with refusal(r"weight 'w.* cannot be decoded"):
            dequantize_checkpoint(less, tmp_path / "out.safetensors")
        assert not (tmp_path / "out.safetensors").exists()


@pytest.mark.parametrize("part", [0, 1])
def test_an_onnx_weight_without_its_scale_is_not_written_as_codes(tmp_path, part):
    """Its node takes what is no initializer then; in a model the node stays, and the codes with it."""
    need_package("onnx")
    import onnx

    made = source(tmp_path / "s.safetensors", (64, 64))
    quantize_checkpoint(made, tmp_path / "x.onnx", target("onnx", "nvfp4"))
    model = onnx.load(tmp_path / "x.onnx")
    (weight,) = [item for item in weights_of(open_checkpoint(tmp_path / "x.onnx")) if item.is_quantized]
    lost = (weight.scales, weight.tensor)[part].name
    kept = [item for item in model.graph.initializer if item.name != lost]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    onnx.save(model, tmp_path / "less.onnx")
    with refusal("cannot be decoded"):
        dequantize_checkpoint(open_checkpoint(tmp_path / "less.onnx"), tmp_path / "out.safetensors")
    assert not (tmp_path / "out.safetensors").exists()


def test_codes_of_schemes_that_are_not_known_are_not_weights(tmp_path):
    """Packed integers of GPTQ, AWQ and compressed-tensors, and LLM.int8 of bitsandbytes."""
    from safetensors.numpy import save_file

    rows, scales = np.ones((8, 64), np.int32), np.ones((2, 64), np.float16)
    for names in (
        {"m.a.qweight": rows, "m.a.scales": scales, "m.a.qzeros": rows},
        {"m.a.weight_packed": rows, "m.a.weight_scale": scales},
        {"m.a.weight": rows.astype(np.int8), "m.a.SCB": np.ones(8, np.float32)},
    ):
        save_file({**names, "m.b.weight": np.ones((2, 2), np.float32)}, tmp_path / "x.safetensors")
        with refusal(r"'m.a.*cannot be decoded.*copy them as they are stored"):
            dequantize_checkpoint(open_checkpoint(tmp_path / "x.safetensors"), tmp_path / "out.safetensors")


def test_a_scale_beside_a_weight_in_floats_is_copied(tmp_path):
    from safetensors.numpy import save_file

    tensors = {"m.a.weight": np.ones((4, 4), np.float32), "m.a.weight_scale": np.ones(1, np.float32)}
    save_file(tensors, tmp_path / "x.safetensors")
    assert (
        dequantize_checkpoint(open_checkpoint(tmp_path / "x.safetensors"), tmp_path / "o.safetensors") == ()
    )
    assert open_checkpoint(tmp_path / "o.safetensors").entries.keys() == tensors.keys()


@pytest.mark.parametrize("name", ["config.json", "hf_quant_config.json", "model.safetensors.index.json"])
def test_links_that_lead_nowhere_are_no_missing_files(tmp_path, name):
    """As of a download that was not finished: what the file says of the tensors is not known."""
    source(tmp_path / "model.safetensors", (32, 64))
    (tmp_path / name).symlink_to(tmp_path / "blobs" / "0123")
    with refusal(rf"{name}' is a link that leads nowhere, or no regular file"):
        open_checkpoint(tmp_path)


def test_an_output_lacks_no_file_whose_link_leads_nowhere(tmp_path):
    (tmp_path / "s").mkdir()
    source(tmp_path / "s" / "model.safetensors", (32, 64))
    (tmp_path / "s" / "tokenizer.json").symlink_to("blobs")
    with refusal(r"tokenizer\.json' is a link that leads nowhere"):
        quantize_checkpoint(open_checkpoint(tmp_path / "s"), tmp_path / "o", target("quark", "mxfp4"))
    assert not (tmp_path / "o").exists()
