"""What the software whose files these are reads of ours, and we of theirs: identical values."""

import ml_dtypes
import numpy as np
import pytest

from lowprec.arrays.convert import decode
from lowprec.checkpoints.configs import quantization_config
from lowprec.checkpoints.converting import dequantize_checkpoint
from lowprec.checkpoints.decoding import codes_of, ranges, values_of
from lowprec.checkpoints.folder import open_checkpoint
from lowprec.checkpoints.linting import lint
from lowprec.checkpoints.quantizing import quantize_checkpoint, target
from lowprec.checkpoints.verifying import verify_checkpoint
from lowprec.checkpoints.weights import weights_of
from tests.checkpoints import writers
from tests.checkpoints.files import quantized, source
from tests.checkpoints.test_integers import columns

pytestmark = [pytest.mark.apart, pytest.mark.filterwarnings("ignore")]


@pytest.mark.parametrize("kind", writers.BLOCKS)
def test_gguf_reads_the_same_values(tmp_path, kind):
    """Of blocks of any bytes that hold no NaN, with the same signs of zeros."""
    checkpoint, theirs = writers.of_gguf(tmp_path / "x.gguf", kind)
    found = {weight.name: weight for weight in weights_of(checkpoint)}
    ours = values_of(found["x.weight"])
    assert ours.shape == theirs.shape
    assert np.array_equal(ours, theirs)
    assert np.array_equal(np.signbit(ours), np.signbit(theirs))
    assert np.array_equal(values_of(found["f.weight"]), np.arange(12).reshape(3, 4))
    assert np.array_equal(values_of(found["x.weight"], 2, 5), ours[2:5])


def _torch(entry):
    import torch

    array = entry.read()
    kinds = {
        "F8_E4M3": torch.float8_e4m3fn,
        "F8_E8M0": torch.float8_e8m0fnu,
        "F32": torch.float32,
        "U8": torch.uint8,
        "I8": torch.int8,
        "I32": torch.int32,
        "I64": torch.int64,
    }
    return (
        torch.from_numpy(np.atleast_1d(array).view(np.uint8).copy())
        .view(kinds[entry.tag])
        .reshape(array.shape)
    )


#: Its compressors by `--to`, and what its schemes say.
_COMPRESSORS = {
    "nvfp4": ("NVFP4PackedCompressor", {"num_bits": 4, "strategy": "tensor_group", "group_size": 16}),
    "mxfp4": ("MXFP4PackedCompressor", {"num_bits": 4, "strategy": "group", "group_size": 32}),
    "mxfp6_e2m3": ("MXFP6PackedCompressor", {"num_bits": 6, "strategy": "group", "group_size": 32}),
    "mxfp8_e4m3": ("MXFP8QuantizationCompressor", {"num_bits": 8, "strategy": "group", "group_size": 32}),
    "e4m3fn": ("FloatQuantizationCompressor", {"num_bits": 8, "strategy": "tensor"}),
    "e4m3fn channel": ("FloatQuantizationCompressor", {"num_bits": 8, "strategy": "channel"}),
    "int8": ("IntQuantizationCompressor", {"num_bits": 8, "strategy": "tensor", "type": "int"}),
    "int8 channel": ("IntQuantizationCompressor", {"num_bits": 8, "strategy": "channel", "type": "int"}),
    "int4": (
        "PackedQuantizationCompressor",
        {"num_bits": 4, "strategy": "group", "group_size": 128, "type": "int"},
    ),
    "int4 channel": ("PackedQuantizationCompressor", {"num_bits": 4, "strategy": "channel", "type": "int"}),
}


#: Types of scales in its presets of formats in blocks.
_SCALES = dict.fromkeys(("mxfp4", "mxfp6_e2m3", "mxfp8_e4m3"), "uint8") | {"nvfp4": "float8_e4m3fn"}


def _in_float32(state, scheme):
    """Dequantise NVFP4 by the package's functions in float32: its decompressor computes in bfloat16."""
    from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
    from compressed_tensors.quantization.lifecycle.forward import dequantize

    rows, packed = state["weight_packed"].shape
    elements = unpack_fp4_from_uint8(state["weight_packed"], rows, 2 * packed).float()
    scale, number = state["weight_scale"].float(), state["weight_global_scale"]
    return dequantize(
        x_q=elements, scale=scale, args=scheme.weights, global_scale=number, dtype=elements.dtype
    ).numpy()


@pytest.mark.parametrize("to", _COMPRESSORS)
def test_compressed_tensors_reads_the_same_values(tmp_path, to):
    """Its decompressors, on the tensors that we wrote."""
    compressors = pytest.importorskip("compressed_tensors.compressors")
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme

    name, arguments = _COMPRESSORS[to]
    channel, shape = to.endswith("channel"), (256, 256 if to == "int4" else 192)
    options = {"group": None} if to == "int4" else {"channel": channel}
    found, _ = quantized(tmp_path, "compressed-tensors", to.split()[0], shape, **options)
    scheme = QuantizationScheme(
        targets=["Linear"], weights=QuantizationArgs(**{"type": "float", "symmetric": True} | arguments)
    )
    state = {
        key.removeprefix("m.q."): _torch(entry)
        for key, entry in found.entries.items()
        if key.startswith("m.q.")
    }
    if to == "nvfp4":
        theirs = _in_float32(state, scheme)
    else:
        theirs = getattr(compressors, name).decompress(state, scheme)["weight"].float().numpy()
    (weight,) = [item for item in weights_of(found) if item.is_quantized]
    assert np.array_equal(values_of(weight), theirs)


@pytest.mark.parametrize("to", _COMPRESSORS)
def test_what_compressed_tensors_wrote_is_read_to_its_values(tmp_path, to):
    """By its own scales and compressors; nothing of it is a finding."""
    torch = pytest.importorskip("torch")
    compressors = pytest.importorskip("compressed_tensors.compressors")
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    from compressed_tensors.quantization.utils.helpers import calculate_qparams, generate_gparam
    from safetensors.torch import save_file

    name, arguments = _COMPRESSORS[to]
    if "group_size" in arguments and to != "int4":
        arguments = arguments | {"scale_dtype": torch.float8_e4m3fn if to == "nvfp4" else torch.uint8}
    scheme = QuantizationScheme(
        targets=["Linear"], weights=QuantizationArgs(**{"type": "float", "symmetric": True} | arguments)
    )
    made = source(tmp_path / "s.safetensors", (256, 256 if to == "int4" else 192))
    x = torch.from_numpy(made.entries["m.q.weight"].read().copy())
    whole, one = (x.amin().reshape(1), x.amax().reshape(1)), arguments["strategy"] == "tensor"
    runs = x.reshape(len(x), -1, arguments.get("group_size", x.shape[1]))
    over = generate_gparam(*whole) if to == "nvfp4" else None
    low, high = whole if one else (runs.amin(-1), runs.amax(-1))
    scale, _ = calculate_qparams(low, high, scheme.weights, global_scale=over)
    state = {"weight": x, "weight_scale": scale} | ({} if over is None else {"weight_global_scale": over})
    compressor = getattr(compressors, name)
    state = compressor.compress(state, scheme)
    save_file({f"m.q.{part}": tensor for part, tensor in state.items()}, tmp_path / "theirs.safetensors")
    checkpoint = open_checkpoint(tmp_path / "theirs.safetensors")
    (weight,) = weights_of(checkpoint)
    theirs = _in_float32(state, scheme) if to == "nvfp4" else None
    if theirs is None:
        theirs = compressor.decompress(state, scheme)["weight"].float().numpy()
    assert np.array_equal(values_of(weight), theirs)
    assert lint(checkpoint) == lint(checkpoint, made) == ()


def _small_llama(tmp_path, to):
    """Write a small Llama, its weights quantised, and return what writes them."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("compressed_tensors")
    sizes = dict(hidden_size=128, intermediate_size=256, num_hidden_layers=1, vocab_size=64)
    settings = transformers.LlamaConfig(num_attention_heads=4, num_key_value_heads=4, **sizes)
    torch.manual_seed(0)
    transformers.LlamaForCausalLM(settings).to(torch.float32).save_pretrained(tmp_path / "model")
    how = target("compressed-tensors", to.split()[0], channel=to.endswith("channel"))
    quantize_checkpoint(open_checkpoint(tmp_path / "model"), tmp_path / "out", how)
    return how


@pytest.mark.parametrize("to", _COMPRESSORS)
def test_transformers_loads_a_model_by_the_configuration_that_is_written(tmp_path, to):
    """A small Llama, loaded by its name: values are ours; of NVFP4 in bfloat16, as that loader computes."""
    _small_llama(tmp_path, to)
    import torch
    import transformers

    asked = transformers.CompressedTensorsConfig(run_compressed=False)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path / "out", quantization_config=asked, dtype=torch.float32
    )
    theirs = {name: tensor.detach().numpy() for name, tensor in loaded.named_parameters()}
    weights = [item for item in weights_of(open_checkpoint(tmp_path / "out")) if item.is_quantized]
    assert len(weights) == 7
    for weight in weights:
        ours = values_of(weight)
        ours = ours.astype(ml_dtypes.bfloat16).astype(np.float32) if to == "nvfp4" else ours
        assert np.array_equal(ours, theirs[weight.name]), weight.name


@pytest.mark.parametrize("to", _COMPRESSORS)
def test_transformers_runs_a_model_as_it_is_loaded_by_default(tmp_path, to):
    """Its outputs are those of the values that `dequantize` writes; int8 rounds activations too."""
    _small_llama(tmp_path, to)
    import torch
    import transformers

    dtype = torch.bfloat16 if to in _SCALES else torch.float32  # its loader makes bfloat16 of blocks
    dequantize_checkpoint(open_checkpoint(tmp_path / "out"), tmp_path / "values", "F32")
    loaded, values = (
        transformers.AutoModelForCausalLM.from_pretrained(tmp_path / name, dtype=dtype)
        for name in ("out", "values")
    )
    inputs = torch.arange(32).reshape(2, 16)
    with torch.no_grad():
        theirs, ours = loaded(inputs).logits.float(), values(inputs).logits.float()
    if to.startswith("int8"):
        assert float((theirs - ours).square().sum() / ours.square().sum()) < 1e-3
        loaded, values = (dict(model.named_parameters()) for model in (loaded, values))
        theirs, ours = (torch.cat([each[name].flatten() for name in values]) for each in (loaded, values))
    assert torch.equal(theirs, ours)


@pytest.mark.parametrize("to", _COMPRESSORS)
def test_the_configuration_is_what_compressed_tensors_says_of_such_a_model(tmp_path, to):
    """Of a layer that it compresses itself by the same settings, read back from both."""
    pytest.importorskip("compressed_tensors.compressors")
    import torch
    from compressed_tensors.compressors import ModelCompressor
    from compressed_tensors.quantization import (
        QuantizationConfig,
        QuantizationStatus,
        apply_quantization_config,
    )

    how = target("compressed-tensors", to.split()[0], channel=to.endswith("channel"))
    ours = quantization_config(how, ())
    unsaid = QuantizationConfig(**ours)
    (group,) = unsaid.config_groups.values()
    group.format = None
    group.weights.scale_dtype = getattr(torch, _SCALES[to]) if to in _SCALES else None
    unsaid.quantization_status = QuantizationStatus.INITIALIZED
    model = torch.nn.Sequential(torch.nn.Linear(128, 128), torch.nn.Conv2d(32, 32, 2))
    apply_quantization_config(model, unsaid)
    compressor = ModelCompressor.from_pretrained_model(model)
    compressor.compress_model(model)
    said = compressor.quantization_config
    assert ours["format"] == how.scheme.name
    if to.startswith("e4m3fn"):  # it calls the same layout so where activations are not quantised
        said.format = said.config_groups["group_0"].format = "float-quantized"
    assert QuantizationConfig(**ours).model_dump(mode="json") == said.model_dump(mode="json")


@pytest.mark.parametrize("to", ["mxfp8_e4m3", "mxfp4", "nvfp4"])
def test_torchao_reads_the_same_values(tmp_path, to):
    """Its tensors, made of the parts that we wrote."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("torchao")
    from torchao.prototype.mx_formats.mx_tensor import to_dtype
    from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor

    found, _ = quantized(tmp_path, "torchao", to)
    data, scale = (_torch(found.entries[f"m.q._weight_{part}"]) for part in ("qdata", "scale"))
    if to == "nvfp4":
        number = _torch(found.entries["m.q._weight_per_tensor_scale"])
        made = NVFP4Tensor(data, scale, 16, torch.float32, number)
        theirs = made.dequantize(torch.float32)
    else:
        element = torch.float4_e2m1fn_x2 if to == "mxfp4" else torch.float8_e4m3fn
        theirs = to_dtype(data, scale.view(torch.float8_e8m0fnu), element, 32, torch.float32)
    (weight,) = [item for item in weights_of(found) if item.is_quantized]
    assert np.array_equal(values_of(weight), theirs.numpy())


def _state(entries, prefix="m.q.weight"):
    """Return a weight's tensors for bitsandbytes."""
    import torch

    return {
        name.removeprefix(prefix).lstrip("."): torch.from_numpy(entry.read().copy())
        for name, entry in entries.items()
        if name.startswith(prefix)
    }


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("to", ["nf4", "fp4"])
def test_bitsandbytes_reads_the_same_values(tmp_path, to, nested):
    """Its own dequantisation of our tensors; of blocks of zeros too."""
    functional = pytest.importorskip("bitsandbytes.functional")
    found, _ = quantized(tmp_path, "bitsandbytes", to, (640, 128), nested=nested)
    parts = _state(found.entries)
    codes = parts.pop("")
    state = functional.QuantState.from_dict(parts, "cpu")
    theirs = functional.dequantize_4bit(codes, state).numpy()
    (weight,) = [item for item in weights_of(found) if item.is_quantized]
    assert np.array_equal(values_of(weight), theirs)
    assert np.array_equal(np.signbit(values_of(weight)), np.signbit(theirs))


@pytest.mark.parametrize("size", [64, 128])
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("to", ["nf4", "fp4"])
def test_what_bitsandbytes_wrote_is_read_and_made_by_its_rule(tmp_path, to, nested, size):
    """Bytes and scales are ours too, but for the sign of zeros in FP4.

    Of nested scales only elements are held: their midpoints are rounded to float32 on its way on CPUs.
    """
    functional = pytest.importorskip("bitsandbytes.functional")
    import torch
    from safetensors.torch import save_file

    made = source(tmp_path / "s.safetensors", (640, 128))
    weight = torch.from_numpy(made.entries["m.q.weight"].read().copy())
    codes, state = functional.quantize_4bit(weight, blocksize=size, compress_statistics=nested, quant_type=to)
    parts = {f"m.q.weight.{name}": part for name, part in state.as_dict(packed=True).items()}
    save_file({"m.q.weight": codes, **parts}, tmp_path / "theirs.safetensors")
    theirs = open_checkpoint(tmp_path / "theirs.safetensors")
    (found,) = [item for item in weights_of(theirs) if item.is_quantized]
    assert np.array_equal(values_of(found), functional.dequantize_4bit(codes, state).numpy())
    assert lint(theirs) == ()
    (verdict,) = verify_checkpoint(theirs, made)
    if size == 64 and not nested:
        ours, _ = quantized(tmp_path, "bitsandbytes", to, (640, 128))
        for name, entry in theirs.entries.items():
            if (to, name) != ("fp4", "m.q.weight"):
                assert entry.read().tobytes() == ours.entries[name].read().tobytes()
    assert verdict.codes_differ == 0
    assert verdict.holds
    assert nested or verdict.rule == "divide"


@pytest.mark.parametrize("to", ["mxfp4", "mxfp6_e3m2", "mxfp6_e2m3"])
def test_quark_unpacks_the_same_codes(tmp_path, to):
    """Its unpacking of 4-bit and 6-bit codes."""
    pack = pytest.importorskip("quark.torch.utils.pack")
    import torch

    found, _ = quantized(tmp_path, "quark", to)
    packed = torch.from_numpy(found.entries["m.q.weight"].read().copy())
    theirs = pack.create_pack_method(None, to.removeprefix("mx")).unpack(packed, reorder=False)
    (weight,) = [item for item in weights_of(found) if item.is_quantized]
    assert np.array_equal(decode(codes_of(weight), weight.element), theirs.float().numpy())


# -- torchao's own files ----------------------------------------------------------------------------


def _torchao_weights(x):
    """Weights as torchao makes them: with and without swizzled scales, of tensors, rows and experts."""
    import torch
    from torchao.prototype.mx_formats.mx_tensor import MXTensor
    from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor, per_tensor_amax_to_scale
    from torchao.quantization import Float8Tensor, PerRow, PerTensor

    over = per_tensor_amax_to_scale(x.abs().max())
    ragged = x[:200, :96].contiguous()
    experts = x.reshape(2, 128, 256)
    return {
        "m.a.weight": NVFP4Tensor.to_nvfp4(x, per_tensor_scale=over),
        "m.b.weight": NVFP4Tensor.to_nvfp4(x, per_tensor_scale=over, is_swizzled_scales=True),
        "m.c.weight": NVFP4Tensor.to_nvfp4(ragged, is_swizzled_scales=True),
        "m.d.weight": MXTensor.to_mx(x, torch.float8_e4m3fn),
        "m.e.weight": MXTensor.to_mx(x, torch.float8_e5m2, is_swizzled_scales=True),
        "m.f.weight": MXTensor.to_mx(ragged, torch.float4_e2m1fn_x2, is_swizzled_scales=True),
        "m.g.weight": MXTensor.to_mx(x, torch.float4_e2m1fn_x2, block_size=16),
        "m.h.weight": Float8Tensor.from_hp(x, granularity=PerRow()),
        "m.i.weight": Float8Tensor.from_hp(x, granularity=PerTensor()),
        "m.j.weight": NVFP4Tensor.to_nvfp4(experts, per_tensor_scale=over, is_swizzled_scales=True),
    }


def test_what_torchao_saved_is_read_to_its_values(tmp_path):
    """Its own `flatten_tensor_state_dict`, whole and in parts: swizzled scales, ragged tiles, experts."""
    torch = pytest.importorskip("torch")
    support = pytest.importorskip("torchao.prototype.safetensors.safetensors_support")
    from safetensors.torch import save_file

    made = source(tmp_path / "s.safetensors", (256, 256))
    theirs = _torchao_weights(torch.from_numpy(made.entries["m.q.weight"].read().copy()))
    tensors, metadata = support.flatten_tensor_state_dict(theirs)
    save_file(tensors, tmp_path / "theirs.safetensors", metadata)
    checkpoint = open_checkpoint(tmp_path / "theirs.safetensors")
    found = {weight.name: weight for weight in weights_of(checkpoint)}
    assert found.keys() == theirs.keys()
    assert {name for name, weight in found.items() if weight.swizzled} == {f"m.{x}.weight" for x in "bcefj"}
    for name, weight in found.items():
        expected = theirs[name].dequantize(torch.float32).numpy()
        assert np.array_equal(values_of(weight), expected), name
        parts = [values_of(weight, *rows) for rows in ranges(weight, 13 * 256)]
        assert np.array_equal(np.concatenate(parts), expected), name
    assert lint(checkpoint) == ()


@pytest.mark.parametrize("channel", [False, True])
@pytest.mark.parametrize("to", ["mxfp8_e4m3", "mxfp4", "nvfp4", "e4m3fn"])
def test_torchaos_loader_reads_what_is_written(tmp_path, to, channel):
    """Its `unflatten_tensor_state_dict` takes the file as it is, and makes tensors of the same values."""
    torch = pytest.importorskip("torch")
    support = pytest.importorskip("torchao.prototype.safetensors.safetensors_support")
    from safetensors import safe_open

    if channel and to != "e4m3fn":
        pytest.skip("blocks have their own scales")
    found, _ = quantized(
        tmp_path, "torchao", to, (2, 64, 96) if to == "mxfp4" else (256, 192), channel=channel
    )
    with safe_open(found.path, "pt") as file:
        tensors, metadata = {name: file.get_tensor(name) for name in file.keys()}, file.metadata()
    theirs, left = support.unflatten_tensor_state_dict(tensors, metadata)
    assert left == {}
    assert torch.equal(theirs["m.norm.weight"], torch.ones(8))
    (weight,) = [item for item in weights_of(found) if item.is_quantized]
    assert theirs["m.q.weight"].dtype == torch.float32
    assert np.array_equal(values_of(weight), theirs["m.q.weight"].dequantize(torch.float32).numpy())


@pytest.mark.parametrize("to", ["nvfp4", "mxfp8_e4m3"])
def test_comfyui_and_lowprec_read_each_other(tmp_path, to):
    """The layouts of its kernel library, on the tensors that it makes, and on ours."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("comfy_kitchen")
    from comfy_kitchen.tensor import TensorCoreMXFP8Layout, TensorCoreNVFP4Layout
    from safetensors.torch import save_file

    layout = TensorCoreNVFP4Layout if to == "nvfp4" else TensorCoreMXFP8Layout
    found, made = quantized(tmp_path, "comfyui", to, (224, 192))
    x = torch.from_numpy(made.entries["m.q.weight"].read().copy())
    codes, how = layout.quantize(x)
    mark = torch.from_numpy(found.entries["m.q.comfy_quant"].read().copy())
    parts = {"": codes, "_scale": how.block_scale if to == "nvfp4" else how.scale}
    parts |= {"_scale_2": how.scale} if to == "nvfp4" else {}
    tensors = {f"m.q.weight{end}": part for end, part in parts.items()} | {"m.q.comfy_quant": mark}
    save_file(tensors, tmp_path / "theirs.safetensors")
    theirs = open_checkpoint(tmp_path / "theirs.safetensors")
    (weight,) = weights_of(theirs)
    assert weight.scheme.name == f"comfyui {to.split('_')[0]}"
    assert np.array_equal(values_of(weight), layout.dequantize(codes, how).numpy())
    assert lint(theirs, made) == ()
    (ours,) = [item for item in weights_of(found) if item.is_quantized]
    codes, scales = (_torch(found.entries[f"m.q.weight{end}"]) for end in ("", "_scale"))
    number = {"scale": scales}
    if to == "nvfp4":
        number = {"scale": torch.from_numpy(found.entries["m.q.weight_scale_2"].read().reshape(()))}
        number["block_scale"] = scales
    how = layout.Params(orig_dtype=torch.float32, orig_shape=(224, 192), **number)
    assert np.array_equal(values_of(ours), layout.dequantize(codes, how).numpy())


# -- integers ---------------------------------------------------------------------------------------


def _agree(checkpoint, theirs):
    """Hold the one weight of a checkpoint against its writer's values; nothing of it is a finding."""
    (weight,) = weights_of(checkpoint)
    assert np.array_equal(values_of(weight), theirs)
    assert lint(checkpoint) == ()


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("case", writers.INTEGERS)
def test_integers_of_compressed_tensors_are_read_to_its_values(tmp_path, case, kind):
    """In the type of its scales, as it computes them."""
    _agree(*writers.of_compressed_tensors(tmp_path / "m", case, kind))


@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("bits", [2, 3, 4, 5, 8])
def test_what_auto_round_packs_for_gptq_is_read_to_its_values(tmp_path, bits, version, in_order):
    """Version 1, whose zero points are one less, and version 2; columns in groups of their own too."""
    _agree(*writers.of_auto_round(tmp_path / "m", bits, version, in_order))


def test_what_auto_round_packs_for_awq_is_read_to_its_values(tmp_path):
    _agree(*writers.of_auto_round_awq(tmp_path / "m"))


def test_autoawq_dequantises_to_the_same_values(tmp_path):
    """Its own unpacking, of any words."""
    torch = pytest.importorskip("torch")
    theirs = writers.autoawq()
    tensors, config, values = columns("awq", 4, size=64, shape=(48, 256))
    parts = [torch.from_numpy(tensors[f"m.q.{name}"]) for name in ("qweight", "qzeros", "scales")]
    found = theirs.dequantize_gemm(*parts, 4, 64).T
    assert found.dtype == torch.float16
    assert np.array_equal(values, found.numpy())
    _agree(writers.folder(tmp_path / "m", tensors, config), found.float().numpy())
