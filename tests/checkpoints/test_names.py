"""Tensors beside a weight that have names of its parts: they are refused, and never become parts of it."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from lowprec.checkpoints.container import CheckpointError
from lowprec.checkpoints.converting import convert_checkpoint, dequantize_checkpoint
from lowprec.checkpoints.folder import open_checkpoint
from lowprec.checkpoints.quantizing import quantize_checkpoint, target
from lowprec.checkpoints.torch_writing import TorchWriter
from lowprec.checkpoints.weights import weights_of
from tests.programs import need_package

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
    others, out = {f"m.weight{end}": np.full((32, 2), 7, np.float32)}, tmp_path / "x.onnx"
    words = rf"tensor 'm\.weight{end}' has a name that weight 'm\.weight' takes .* --exclude 'm\.weight'"
    with pytest.raises(CheckpointError, match=words):
        quantize_checkpoint(beside(tmp_path, **others), out, target("onnx", to))
    assert [path.name for path in tmp_path.iterdir()] == ["source.safetensors"]


@pytest.mark.apart
def test_a_tensor_of_a_model_does_not_become_a_factor_of_its_weight(tmp_path):
    arrays = {"w": WEIGHT, "w_scale_2": np.float32(0.25)}
    made = model(tmp_path / "s.onnx", arrays, [("Mul", ["w", "w_scale_2"], ["y"])], ["y"])
    with pytest.raises(CheckpointError, match="tensor 'w_scale_2' has a name that weight 'w' takes"):
        quantize_checkpoint(made, tmp_path / "x.onnx", target("onnx", "mxfp4"), include=["w"])


@pytest.mark.apart
def test_a_scale_that_other_nodes_read_is_not_replaced(tmp_path):
    """These nodes were given the new scale."""
    codes = np.arange(-8, 8, dtype=np.int8).reshape(4, 4)
    nodes = [("DequantizeLinear", ["c", "w_scale"], ["w"]), ("Neg", ["w_scale"], ["y"])]
    arrays = {"c": codes, "w_scale": np.float32(0.5)}
    made = model(tmp_path / "s.onnx", arrays, nodes, ["w", "y"])
    with pytest.raises(CheckpointError, match=r"'w_scale' of .* is read by other nodes too, and weight 'w'"):
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
    with pytest.raises(CheckpointError, match=r"tensor 'm\.weight' has a name that weight 'm\.weight' takes"):
        convert_checkpoint(made, tmp_path / "x.onnx", target("onnx", "mxfp4"))


@pytest.mark.apart
def test_two_results_of_one_name_are_refused(tmp_path):
    need_package("onnx")
    made = beside(tmp_path, **{"m.weight_scale_dequantized": WEIGHT})
    with pytest.raises(CheckpointError, match=r"would be called 'm\.weight_scale_dequantized'"):
        quantize_checkpoint(made, tmp_path / "x.onnx", target("onnx", "nvfp4"), include=["*"])


@pytest.mark.apart
def test_a_tensor_without_a_name_is_not_written_to_onnx(tmp_path):
    need_package("onnx")
    made = beside(tmp_path, **{"": np.array(3, np.int8)})
    with pytest.raises(CheckpointError, match="holds no tensor of the empty name; rename it"):
        quantize_checkpoint(made, tmp_path / "x.onnx", target("onnx", "int8"))


@pytest.mark.apart
def test_an_initializer_without_a_name_is_no_part_of_a_weight(tmp_path):
    """It was the zero point and the scale of scales of every weight."""
    codes = np.arange(-8, 8, dtype=np.int8).reshape(4, 4)
    arrays = {"c": codes, "s": np.float32(0.5), "": np.array(3, np.int8)}
    made = model(tmp_path / "s.onnx", arrays, [("DequantizeLinear", ["c", "s"], ["w"])], ["w"])
    assert (list(made.entries), list(made.unread)) == (["c", "s"], [""])
    with pytest.raises(CheckpointError, match=r"lack what is not read: an initializer that has no name"):
        dequantize_checkpoint(made, tmp_path / "x.safetensors")
    dequantize_checkpoint(made, tmp_path / "x.safetensors", exclude=[""])
    found = open_checkpoint(tmp_path / "x.safetensors").entries["w"].read()
    assert np.array_equal(found, codes * np.float32(0.5))


# -- other containers ---------------------------------------------------------------------------------


def test_a_tensor_with_the_name_of_the_metadata_is_refused(tmp_path):
    """It took the place of the metadata in the header, and the file could not be read."""
    with TorchWriter((tmp_path / "s.pt").open("w+b"), [("__metadata__", "F32", (32, 32))], {}) as writer:
        writer.write("__metadata__", WEIGHT)
    words = "tensor '__metadata__' has the name of the metadata in safetensors files; rename it"
    for out in (tmp_path / "x.safetensors", tmp_path / "x"):
        with pytest.raises(CheckpointError, match=words):
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
    with pytest.raises(CheckpointError, match=words):
        quantize_checkpoint(made, out, target("transformer-engine", to))
    assert [path.name for path in tmp_path.iterdir()] == ["source.safetensors"]


# -- plain numbers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("to", ["e4m3fn", "e5m2"])
@pytest.mark.parametrize("beside_it", ["m.weight_scale", "m.scale_weight", "m.weight_scale_inv"])
def test_plain_fp8_beside_a_scale_is_not_read_as_scaled(tmp_path, beside_it, to):
    """0.126 became 0.00125."""
    is_read = (beside_it, to) != ("m.weight_scale_inv", "e5m2")  # which DeepSeek's codes are not
    made, out = beside(tmp_path, **{beside_it: np.full((1, 1), 0.01, np.float32)}), tmp_path / "x.safetensors"
    if is_read:
        words = rf"'m\.weight' would be read as .* with '{beside_it}' beside it; .* --exclude 'm\.weight'"
        with pytest.raises(CheckpointError, match=words):
            quantize_checkpoint(made, out, target("plain", to))
        assert [path.name for path in tmp_path.iterdir()] == ["source.safetensors"]
    else:
        quantize_checkpoint(made, out, target("plain", to))
        assert {weight.scheme.name for weight in weights_of(open_checkpoint(out))} == {"plain"}


@pytest.mark.apart
def test_plain_fp8_of_a_model_is_not_scaled_by_names(tmp_path):
    """In ONNX nodes say what is quantised; in the copy the names did."""
    arrays = {"m.weight": WEIGHT.astype(ml_dtypes.float8_e4m3fn), "m.weight_scale": np.float32(0.01)}
    made, out = model(tmp_path / "s.onnx", arrays), tmp_path / "x.safetensors"
    words = r"'m\.weight' would be read as float-quantized .* with 'm\.weight_scale' beside it; rename one of"
    with pytest.raises(CheckpointError, match=words):
        dequantize_checkpoint(made, out, exclude=["m.weight"])
    dequantize_checkpoint(made, out)
    found = open_checkpoint(out).entries["m.weight"]
    assert np.array_equal(found.read(), arrays["m.weight"].astype(np.float32))


def test_a_weight_of_fp8_that_is_dequantised_leaves_its_scale(tmp_path):
    made = beside(tmp_path)
    quantize_checkpoint(made, tmp_path / "q.safetensors", target("modelopt", "e4m3fn"))
    convert_checkpoint(open_checkpoint(tmp_path / "q.safetensors"), tmp_path / "x", target("plain", "e4m3fn"))
    assert [weight.name for weight in weights_of(open_checkpoint(tmp_path / "x"))] == ["m.weight"]
