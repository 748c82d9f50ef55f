"""Tensors beside a weight that have names of its parts: they are refused, and never become parts of it."""

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from lowprec.checkpoints.containers.torch_writing import TorchWriter
from lowprec.checkpoints.converting import convert_checkpoint, dequantize_checkpoint
from lowprec.checkpoints.folder import open_checkpoint
from lowprec.checkpoints.linting import lint
from lowprec.checkpoints.patterns import matching
from lowprec.checkpoints.quantizing import EXCLUDED, quantize_checkpoint, target
from lowprec.checkpoints.verifying import verify_checkpoint
from lowprec.checkpoints.weights import weights_of
from tests.checkpoints.files import refusal
from tests.programs import need_package

FP8 = ml_dtypes.float8_e4m3fn
WEIGHT = np.random.default_rng(0).standard_normal((32, 32)).astype(np.float32)


def beside(folder, **others):
    """Write a weight and tensors beside it, and return the checkpoint."""
    save_file({"m.weight": WEIGHT} | others, folder / "source.safetensors")
    return open_checkpoint(folder / "source.safetensors")


def model(path, arrays, nodes=(), outputs=()):
    """Write an ONNX model, and return the checkpoint."""
    need_package("onnx")
    import onnx
    from onnx import helper, numpy_helper

    tensors = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in outputs]
    graph = helper.make_graph([helper.make_node(*node) for node in nodes], "g", [], ends, tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)]), path)
    return open_checkpoint(path)


# -- ONNX ---------------------------------------------------------------------------------------------


@pytest.mark.apart
@pytest.mark.parametrize(
    ("end", "to"), [("_scale_2", "mxfp4"), ("_scale_2", "int8"), ("_scale_dequantized", "nvfp4")]
)
def test_a_tensor_does_not_become_a_factor_of_a_weight_in_onnx(tmp_path, end, to):
    """0.1257 became 0.0625, or 3.5: a node took the tensor for the scale of scales, or for their result."""
    need_package("onnx")
    others, out = {f"m.weight{end}": np.full(32, 7, np.float32)}, tmp_path / "x.onnx"
    words = rf"tensor 'm\.weight{end}' has a name that weight 'm\.weight' takes .* --exclude 'm\.weight'"
    with refusal(words):
        quantize_checkpoint(beside(tmp_path, **others), out, target("onnx", to))
    assert [path.name for path in tmp_path.iterdir()] == ["source.safetensors"]


@pytest.mark.apart
def test_a_tensor_of_a_model_does_not_become_a_factor_of_its_weight(tmp_path):
    arrays = {"w": WEIGHT, "w_scale_2": np.float32(0.25)}
    made = model(tmp_path / "s.onnx", arrays, [("Mul", ["w", "w_scale_2"], ["y"])], ["y"])
    with refusal("tensor 'w_scale_2' has a name that weight 'w' takes"):
        quantize_checkpoint(made, tmp_path / "x.onnx", target("onnx", "mxfp4"), include=["w"])


@pytest.mark.apart
def test_a_scale_that_other_nodes_read_is_not_replaced(tmp_path):
    """These nodes were given the new scale."""
    codes = np.arange(-8, 8, dtype=np.int8).reshape(4, 4)
    nodes = [("DequantizeLinear", ["c", "w_scale"], ["w"]), ("Neg", ["w_scale"], ["y"])]
    arrays = {"c": codes, "w_scale": np.float32(0.5)}
    made = model(tmp_path / "s.onnx", arrays, nodes, ["w", "y"])
    with refusal(r"'w_scale' of .* is read by other nodes too, and weight 'w'"):
        convert_checkpoint(made, tmp_path / "x.onnx", target("onnx", "int8"))


@pytest.mark.apart
def test_an_initializer_and_a_result_of_one_name_are_refused(tmp_path):
    """The model had two tensors of the name, and the weight was lost."""
    need_package("onnx")
    how = target("compressed-tensors", "mxfp4")
    quantize_checkpoint(beside(tmp_path), tmp_path / "q.safetensors", how)
    packed = {
        name: entry.read().view(np.uint8)
        for name, entry in open_checkpoint(tmp_path / "q.safetensors").entries.items()
    }
    made = beside(tmp_path, **{"m.weight": WEIGHT[0]}, **packed)
    assert [weight.name for weight in weights_of(made)] == ["m.weight", "m.weight"]
    with refusal(r"tensor 'm\.weight' has a name that weight 'm\.weight' takes"):
        convert_checkpoint(made, tmp_path / "x.onnx", target("onnx", "mxfp4"))


@pytest.mark.apart
def test_two_results_of_one_name_are_refused(tmp_path):
    need_package("onnx")
    made = beside(tmp_path, **{"m.weight_scale_dequantized": WEIGHT})
    with refusal(r"would be called 'm\.weight_scale_dequantized'"):
        quantize_checkpoint(made, tmp_path / "x.onnx", target("onnx", "nvfp4"), include=["*"])


@pytest.mark.apart
def test_a_tensor_without_a_name_is_not_written_to_onnx(tmp_path):
    need_package("onnx")
    made = beside(tmp_path, **{"": np.array(3, np.int8)})
    with refusal("holds no tensor of the empty name; rename it"):
        quantize_checkpoint(made, tmp_path / "x.onnx", target("onnx", "int8"))


@pytest.mark.apart
def test_an_initializer_without_a_name_is_no_part_of_a_weight(tmp_path):
    """It was the zero point and the scale of scales of every weight."""
    codes = np.arange(-8, 8, dtype=np.int8).reshape(4, 4)
    arrays = {"c": codes, "s": np.float32(0.5), "": np.array(3, np.int8)}
    made = model(tmp_path / "s.onnx", arrays, [("DequantizeLinear", ["c", "s"], ["w"])], ["w"])
    assert (list(made.entries), list(made.unread)) == (["c", "s"], [""])
    with refusal(r"lack what is not read: an initializer that has no name"):
        dequantize_checkpoint(made, tmp_path / "x.safetensors")
    dequantize_checkpoint(made, tmp_path / "x.safetensors", exclude=[""])
    found = open_checkpoint(tmp_path / "x.safetensors").entries["w"].read()
    assert np.array_equal(found, codes * np.float32(0.5))


@pytest.mark.apart
@pytest.mark.parametrize("end", ["_dequantized", "_DequantizeLinear_Output"])
def test_a_weight_of_lowprec_keeps_an_exporter_s_ending(tmp_path, end):
    """It was read as `w`, which nothing was called, and `verify` found no source for it."""
    need_package("onnx")
    made = beside(tmp_path, **{f"w{end}": WEIGHT})
    quantize_checkpoint(made, tmp_path / "x.onnx", target("onnx", "int8"), include=["*"])
    found = open_checkpoint(tmp_path / "x.onnx")
    assert {weight.name for weight in weights_of(found)} == {"m.weight", f"w{end}"}
    assert all(verdict.holds for verdict in verify_checkpoint(found, made))
    dequantize_checkpoint(found, tmp_path / "x.safetensors")
    assert {*open_checkpoint(tmp_path / "x.safetensors").entries} == {"m.weight", f"w{end}"}


# -- other containers ---------------------------------------------------------------------------------


def test_a_tensor_with_the_name_of_the_metadata_is_refused(tmp_path):
    """It took the place of the metadata in the header, and the file could not be read."""
    with TorchWriter((tmp_path / "s.pt").open("w+b"), [("__metadata__", "F32", (32, 32))], {}) as writer:
        writer.write("__metadata__", WEIGHT)
    words = "tensor '__metadata__' has the name of the metadata in safetensors files; rename it"
    for out in (tmp_path / "x.safetensors", tmp_path / "x"):
        with refusal(words):
            dequantize_checkpoint(open_checkpoint(tmp_path / "s.pt"), out)
    assert [path.name for path in tmp_path.iterdir()] == ["s.pt"]


@pytest.mark.parametrize(
    ("to", "end"),
    [
        ("mxfp8_e4m3", "shape"),
        ("mxfp8_e4m3", "dtype"),
        ("mxfp8_e4m3", "fp8_dtype"),
        ("nvfp4", "quantizer"),
        ("nvfp4", "fp4_dtype"),
        ("nvfp4", "with_gemm_swizzled_scales"),
        ("nvfp4", "row_scaled_nvfp4"),
        ("nvfp4", "nvfp4_e4m3_max"),
    ],
)
def test_a_tensor_with_the_name_of_an_attribute_is_refused(tmp_path, to, end):
    """It became an argument of the call that makes the weight, and was lost."""
    made, out = beside(tmp_path, **{f"m.weight._{end}": WEIGHT[0]}), tmp_path / "x.pt"
    words = rf"tensor 'm\.weight\._{end}' has the name of an attribute .* --exclude 'm\.weight'"
    with refusal(words):
        quantize_checkpoint(made, out, target("transformer-engine", to))
    assert [path.name for path in tmp_path.iterdir()] == ["source.safetensors"]


# -- plain numbers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("to", ["e4m3fn", "e5m2"])
@pytest.mark.parametrize("beside_it", ["m.weight_scale", "m.scale_weight", "m.weight_scale_inv"])
def test_plain_fp8_beside_a_scale_is_not_read_as_scaled(tmp_path, beside_it, to):
    """0.126 became 0.00125, and E5M2 beside a scale of DeepSeek's was not read again."""
    made, out = beside(tmp_path, **{beside_it: np.full((1, 1), 0.01, np.float32)}), tmp_path / "x.safetensors"
    words = rf"'m\.weight' would be read as .* with '{beside_it}' beside it; .* --exclude 'm\.weight'"
    if (beside_it, to) == ("m.weight_scale_inv", "e5m2"):  # which DeepSeek's codes are not
        words = (
            rf"'m\.weight' would not be read .* without a scale, .*; rename '{beside_it}', or leave it out"
        )
    with refusal(words):
        quantize_checkpoint(made, out, target("plain", to))
    assert [path.name for path in tmp_path.iterdir()] == ["source.safetensors"]


@pytest.mark.apart
def test_plain_fp8_of_a_model_is_not_scaled_by_names(tmp_path):
    """In ONNX nodes say what is quantised; in the copy the names did."""
    arrays = {"m.weight": WEIGHT.astype(ml_dtypes.float8_e4m3fn), "m.weight_scale": np.float32(0.01)}
    made, out = model(tmp_path / "s.onnx", arrays), tmp_path / "x.safetensors"
    words = r"'m\.weight' would be read as float-quantized .* with 'm\.weight_scale' beside it; rename one of"
    with refusal(words):
        dequantize_checkpoint(made, out, exclude=["m.weight"])
    dequantize_checkpoint(made, out)
    found = open_checkpoint(out).entries["m.weight"]
    assert np.array_equal(found.read(), arrays["m.weight"].astype(np.float32))


def test_a_weight_of_fp8_that_is_dequantised_leaves_its_scale(tmp_path):
    made = beside(tmp_path)
    quantize_checkpoint(made, tmp_path / "q.safetensors", target("modelopt", "e4m3fn"))
    convert_checkpoint(open_checkpoint(tmp_path / "q.safetensors"), tmp_path / "x", target("plain", "e4m3fn"))
    assert [weight.name for weight in weights_of(open_checkpoint(tmp_path / "x"))] == ["m.weight"]


# -- quantised weights --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "to", "beside_it", "array", "words"),
    [
        ("quark", "mxfp4", "m.weight_zero_point", np.float32(1), "others than 0.*; rename '{}'"),
        ("modelopt", "nvfp4", "m.weight_zero_point", np.int8(1), "others than 0.*; rename '{}'"),
        ("bitsandbytes", "nf4", "m.weight_scale", FP8(1), "no weight_scale_2 beside it; rename '{}'"),
        ("deepseek", "e4m3fn", "m.weight_scale", np.ones((16, 2), np.uint8), "'{}' would be a part"),
        ("plain", "e4m3fn", "m.input_scale", np.float32(1), "without a scale.*; rename '{}'"),
    ],
)  # fmt: skip
def test_a_weight_that_other_parts_would_be_read_for_is_refused(
    tmp_path, family, to, beside_it, array, words
):
    """Its values could not be read, and nothing said so."""
    others = {"m.weight": WEIGHT.reshape(16, 64), beside_it: np.asarray(array)}
    made, out, words = beside(tmp_path, **others), tmp_path / "x.safetensors", words.format(beside_it)
    with refusal(rf"'m\.weight' would not be read in 'x.safetensors' .*{words}"):
        quantize_checkpoint(made, out, target(family, to))
    assert [path.name for path in tmp_path.iterdir()] == ["source.safetensors"]


@pytest.mark.parametrize(("family", "to"), [("compressed-tensors", "e4m3fn"), ("modelopt", "nvfp4")])
def test_a_tensor_does_not_become_codes_of_a_weight(tmp_path, family, to):
    """Both were read as m.weight."""
    made, out = beside(tmp_path, **{"m.weight_packed": np.array(1, np.uint8)}), tmp_path / "x.safetensors"
    words = r"tensor 'm\.weight_packed' would be read as .* with 'm\.weight_scale'.* beside it; rename one"
    with refusal(words):
        quantize_checkpoint(made, out, target(family, to))
    assert [path.name for path in tmp_path.iterdir()] == ["source.safetensors"]


def test_plain_fp8_among_weights_that_are_scaled_now_is_refused(tmp_path):
    """It was not read again; a configuration that leaves it alone says what it is."""
    made = beside(tmp_path, **{"n.weight": WEIGHT.astype(FP8)})
    words = r"'n\.weight' would not be read .* without a scale, .*; quantise or dequantise it too$"
    how = target("modelopt", "e4m3fn")
    with refusal(words):
        quantize_checkpoint(made, tmp_path / "x.safetensors", how, exclude=["n.*"])
    quantize_checkpoint(made, tmp_path / "x", how, exclude=["n.*"])
    assert not any(weight.problem for weight in weights_of(open_checkpoint(tmp_path / "x")))


def test_a_shape_beside_packed_codes_is_that_of_the_codes(tmp_path):
    """Codes of a padded row were values, whatever the shape beside them said."""
    how, out = target("compressed-tensors", "nvfp4"), tmp_path / "x.safetensors"
    made = beside(tmp_path, **{"m.weight_shape": np.array([32, 30])})
    with refusal(r"m\.weight_shape says \[32, 30\], and .* has \[32, 32\] codes"):
        quantize_checkpoint(made, out, how)
    quantize_checkpoint(beside(tmp_path, **{"m.weight_shape": np.array([32, 32])}), out, how)
    assert [weight.problem for weight in weights_of(open_checkpoint(out))] == [None]


@pytest.mark.parametrize("work", ["dequantize", "convert"])
def test_scales_of_inputs_that_are_left_out_are_named(tmp_path, caplog, work):
    """They were gone, and nothing said so."""
    made = beside(tmp_path, **{"m.input_scale": np.array(2, np.float32)})
    quantize_checkpoint(made, tmp_path / "q.safetensors", target("modelopt", "nvfp4"))
    found, out = open_checkpoint(tmp_path / "q.safetensors"), tmp_path / "x.safetensors"
    assert not caplog.text
    if work == "convert":
        convert_checkpoint(found, out, target("quark", "mxfp4"))
    else:
        dequantize_checkpoint(found, out)
    assert "scales of layers' inputs are left out" in caplog.text
    assert "m.input_scale" in caplog.text
    assert "m.input_scale" not in open_checkpoint(out).entries


@pytest.mark.parametrize(
    ("family", "to"), [("modelopt", "nvfp4"), ("compressed-tensors", "mxfp4"), ("torchao", "e4m3fn")]
)
def test_a_weight_that_is_read_by_another_name_is_noted_and_verified(tmp_path, family, to):
    """Nothing said that down_proj is down_proj.weight there, and `verify` and `lint` passed it over."""
    made, out = beside(tmp_path, down_proj=2 * WEIGHT), tmp_path / "x.safetensors"
    reports, _ = quantize_checkpoint(made, out, target(family, to))
    assert "note" not in reports["m.weight"]
    assert reports["down_proj"]["note"] == "it is read as down_proj.weight, by the names of its parts"
    found = open_checkpoint(out)
    verdicts = {verdict.name: verdict.holds for verdict in verify_checkpoint(found, made)}
    assert verdicts == {"m.weight": True, "down_proj.weight": True}
    other = beside(tmp_path, down_proj=WEIGHT)
    assert [finding.tensor for finding in lint(found, other)] == ["down_proj.weight"]


def test_a_weight_is_not_read_by_the_name_of_another(tmp_path):
    """The file had two weights called a.weight."""
    made, out = beside(tmp_path, a=WEIGHT, **{"a.weight": WEIGHT[0]}), tmp_path / "x.safetensors"
    words = r"'a' would not be read .*: 'a\.weight' would be a part of it or have its name; rename"
    with refusal(words):
        quantize_checkpoint(made, out, target("compressed-tensors", "mxfp4"), include=["a"])


@pytest.mark.parametrize(
    ("name", "stays"),
    [
        ("model.embed_tokens.weight", True), ("transformer.wte.weight", True), ("wpe.weight", True),
        ("shared.weight", True), ("model.layers.0.mlp.shared_experts.up_proj.weight", False),
        ("token_embd.weight", True), ("position_embd.weight", True), ("token_types.weight", True),
        ("blk.0.ffn_gate_inp.weight", True), ("blk.0.ffn_gate.weight", False),
        ("model.layers.0.mlp.gate.weight", True), ("model.layers.0.mlp.gate_proj.weight", False),
    ],
)  # fmt: skip
def test_embeddings_and_routers_stay_by_any_of_their_names(name, stays):
    assert (matching(name, EXCLUDED) is not None) == stays
