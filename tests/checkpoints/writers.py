"""Files of integers as the software of their layouts writes them, and the values that it reads there."""

import importlib.util
import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from lowprec.checkpoints.folder import open_checkpoint
from tests.programs import need_library, need_package

#: What compressed-tensors' compressors of integers get: bits, strategy, group size, whether symmetric.
INTEGERS = {
    "w8a8 of channels": ("Int", 8, "channel", None, True),
    "w8a8 of tensors": ("Int", 8, "tensor", None, True),
    "w8a8 with zero points": ("Int", 8, "channel", None, False),
    "w4a16": ("Packed", 4, "group", 32, True),
    "w4a16 with zero points": ("Packed", 4, "group", 32, False),
    "w4a16 of channels": ("Packed", 4, "channel", None, False),
    "w8a16": ("Packed", 8, "group", 64, False),
    "w3a16": ("Packed", 3, "group", 32, False),
}
#: Where the high bytes of binary16 numbers are in GGUF's blocks: with fewer bits they are no NaN.
BLOCKS = {
    "MXFP4": (), "NVFP4": (), "IQ4_NL": (1,), "Q8_0": (1,),
    "Q4_0": (1,), "Q4_1": (1, 3), "Q5_0": (1,), "Q5_1": (1, 3),
    "Q2_K": (81, 83), "Q3_K": (109,), "Q4_K": (1, 3), "Q5_K": (1, 3), "Q6_K": (209,),
}  # fmt: skip


def folder(path, tensors, config):
    """Write a folder with a weight, and return its checkpoint."""
    path.mkdir(exist_ok=True)
    save_file(tensors, path / "model.safetensors")
    (path / "config.json").write_text(json.dumps({"quantization_config": config}))
    return open_checkpoint(path)


def torch_folder(path, tensors, config):
    """Write a folder with a weight of torch's tensors, and return its checkpoint."""
    from safetensors.torch import save_file

    path.mkdir(exist_ok=True)
    parts = {f"m.q.{name}": part.contiguous() for name, part in tensors.items()}
    save_file(parts, path / "model.safetensors")
    (path / "config.json").write_text(json.dumps({"quantization_config": config}))
    return open_checkpoint(path)


def weights(shape=(64, 128)):
    """Return a matrix whose rows differ in size."""
    rng = np.random.default_rng(0)
    return (rng.standard_normal(shape) * 2.0 ** rng.integers(-9, -3, (shape[0], 1))).astype(np.float32)


def of_gguf(path, kind, signed=True):
    """Write blocks of any bytes that hold no NaN; unless `signed` they have small positive scales."""
    gguf = pytest.importorskip("gguf")
    which = gguf.GGMLQuantizationType[kind]
    size = gguf.GGML_QUANT_SIZES[which][1]
    data = np.random.default_rng(0).integers(0, 256, (6, 8, size), dtype=np.uint8)
    if kind == "MXFP4":
        data[..., 0] = data[..., 0] % 200 + 20 if signed else 100 + data[..., 0] % 4
    elif kind == "NVFP4":
        data[..., :4] = data[..., :4] & 0x7F if signed else data[..., :4] & 0x3F | 1
        data[0, 0, :2] = (0, 0x7F) if signed else 1
    for place in BLOCKS[kind]:
        data[..., place] = data[..., place] & 0xBB if signed else data[..., place] & 3 | 0x18
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tensor("x.weight", data.reshape(6, -1), raw_dtype=which)
    writer.add_tensor("f.weight", np.arange(12, dtype=np.float32).reshape(3, 4))
    for step in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
        step()
    writer.close()
    return open_checkpoint(path), gguf.quants.dequantize(data.reshape(6, -1), which)


def of_compressed_tensors(path, case, kind="bfloat16"):
    """Write a weight by compressed-tensors' own scales and compressors."""
    need_package("compressed_tensors")
    torch = pytest.importorskip("torch")
    compressors = pytest.importorskip("compressed_tensors.compressors")
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    from compressed_tensors.quantization.utils.helpers import calculate_qparams

    name, bits, strategy, size, symmetric = INTEGERS[case]
    said = dict(num_bits=bits, strategy=strategy, group_size=size, type="int", symmetric=symmetric)
    scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**said))
    x = torch.from_numpy(weights((48, 192))).to(getattr(torch, kind))
    runs = x.reshape(1, -1) if strategy == "tensor" else x.reshape(48, -1, size or 192)
    scale, zero = calculate_qparams(runs.amin(-1), runs.amax(-1), scheme.weights)
    state = {"weight": x, "weight_scale": scale, "weight_zero_point": zero}
    compressor = getattr(compressors, f"{name}QuantizationCompressor")
    state = compressor.compress(state, scheme)
    groups = {"group_0": scheme.model_dump(mode="json")}
    config = {"quant_method": "compressed-tensors", "config_groups": groups}
    theirs = compressor.decompress(state, scheme)["weight"]
    assert theirs.dtype == x.dtype
    return torch_folder(path, state, config), theirs.float().numpy()


def _linear(bits, least):
    """Return a layer of torch, and scales and zero points of groups of 32."""
    import torch

    linear = torch.nn.Linear(128, 64, bias=False)
    linear.weight.data = torch.from_numpy(weights())
    runs = linear.weight.data.reshape(64, 4, 32)
    low, high = runs.amin(-1).clamp(max=0), runs.amax(-1).clamp(min=0)
    scale = (high - low) / (2**bits - 1)
    return linear, scale, torch.round(-low / scale).clamp(least)


def of_auto_round(path, bits, version, in_order=False):
    """Write a layer in GPTQ's layout, of version 1 or 2, by auto-round; values are of its forward pass.

    With `in_order` its columns are in groups at random, as after quantising them in an order of their own.
    """
    need_package("auto_round")
    torch = pytest.importorskip("torch")
    packed = pytest.importorskip(f"auto_round_extension.torch.qlinear_torch{'_zp' if version == 1 else ''}")
    linear, scale, zero = _linear(bits, 1)
    layer = packed.QuantLinear(bits, 32, 128, 64, False, g_idx=True)
    layer.device = "cpu"
    layer.pack(linear, scale, zero, device="cpu")
    config = {"quant_method": "auto-round", "bits": bits, "group_size": 32, "sym": False}
    config |= {"packing_format": "auto_round:auto_gptq" if version == 1 else "auto_round"}
    if in_order:
        layer.g_idx = layer.g_idx[torch.from_numpy(np.random.default_rng(0).permutation(128))]
        config["desc_act"] = True
    theirs = layer(torch.eye(128, dtype=torch.float16)).T
    assert theirs.dtype == torch.float16
    return torch_folder(path, layer.state_dict(), config), theirs.float().numpy()


def of_auto_round_awq(path):
    """Write a layer in AWQ's layout by auto-round."""
    need_package("auto_round")
    packed = pytest.importorskip("auto_round.export.export_to_awq.utils")
    linear, scale, zero = _linear(4, 0)
    parts = dict(scales=scale.t().contiguous(), zeros=zero.t().contiguous())
    layer = packed.WQLinear_GEMM.from_linear(linear, 4, 32, device="cpu", **parts)
    theirs = packed.dequantize_gemm(layer.qweight, layer.qzeros, layer.scales, 4, 32).T
    config = {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True}
    return torch_folder(path, layer.state_dict(), config), theirs.float().numpy()


def autoawq():
    """Return autoawq's module of packing; the package itself needs the libraries of a GPU."""
    path = need_library("autoawq", "packing_utils.py")
    place = importlib.util.spec_from_file_location("packing_utils", path)
    found = importlib.util.module_from_spec(place)
    place.loader.exec_module(found)
    return found
