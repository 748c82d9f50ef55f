"""Contents of config.json of a quantised checkpoint, and the files that go next to its tensors."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from lowprec.checkpoints.container import CheckpointError, parse_json
from lowprec.checkpoints.folder import INDICES, Checkpoint, is_readable
from lowprec.checkpoints.schemes.bitsandbytes import is_nested

if TYPE_CHECKING:
    from lowprec.checkpoints.targets import Target

__all__ = ["beside", "quantization_config"]

#: Files beside tensors that are small and describe the model: copied.
_DESCRIBING = (".json", ".txt", ".model", ".jinja", ".md", ".py")
_LARGEST = 64 << 20
#: Names of types of scales in compressed-tensors; scales in a wide type have none.
_SCALE_TYPES = {"U8": "torch.uint8", "F8_E4M3": "torch.float8_e4m3fn"}


def quantization_config(how: Target, kept: Iterable[str]) -> dict[str, Any] | None:
    """Return the `quantization_config` that the readers of a scheme look for; None where they need none.

    `kept` are the names of weights that stay unquantised.
    """
    scheme, family = how.scheme, how.scheme.family
    modules = sorted(name.removesuffix(".weight") for name in kept if name.endswith(".weight"))
    if family == "compressed-tensors":
        integers = how.element.name in ("int8", "int4")
        # The package has int-quantized for W8A8 alone: activations in INT8, computed for each token.
        of_tokens = {"num_bits": 8, "type": "int", "symmetric": True, "dynamic": True, "strategy": "token"}
        weights: dict[str, Any] = {
            "num_bits": how.element.width,
            "type": "int" if integers else "float",
            "symmetric": True,
            "dynamic": False,
            "strategy": "channel" if how.channel else "tensor",
        }
        if scheme.block is not None:
            weights["strategy"] = "tensor_group" if scheme.divides else "group"
            weights["group_size"] = scheme.block[1]
            # The package knows MXFP8 from other FP8 by the type of its scales.
            if (named := _SCALE_TYPES.get(scheme.scale_tags[0])) is not None:
                weights["scale_dtype"] = named
        group: dict[str, Any] = {
            "targets": ["Linear"],
            "weights": weights,
            "input_activations": of_tokens if scheme.name == "int-quantized" else None,
            "output_activations": None,
            "format": scheme.name,
        }
        return {
            "quant_method": "compressed-tensors",
            "format": scheme.name,
            "quantization_status": "compressed",
            "config_groups": {"group_0": group},
            "ignore": modules,
        }
    if family == "modelopt":
        return {
            "quant_method": "modelopt",
            "quant_algo": "NVFP4" if scheme.tensor else "FP8",
            "ignore": modules,
            **({"group_size": 16} if scheme.tensor else {}),
        }
    if family in ("deepseek", "deepseek-v4"):
        powers = how.blocks is not None and how.blocks.rule.powers != "none"
        config: dict[str, Any] = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic"}
        config |= {"weight_block_size": [128, 128], **({"scale_fmt": "ue8m0"} if powers else {})}
        return config | ({"expert_dtype": "fp4"} if scheme.name.endswith("fp4") else {})
    if family == "gpt-oss":
        return {"quant_method": "mxfp4", "modules_to_not_convert": modules}
    if family == "quark":
        return _quark(how, modules)
    if family == "bitsandbytes":
        said = {"quant_method": "bitsandbytes", "load_in_4bit": True, "load_in_8bit": False}
        said |= {"bnb_4bit_quant_type": scheme.state.rpartition("__")[2], "llm_int8_skip_modules": modules}
        return said | {
            "bnb_4bit_use_double_quant": is_nested(scheme),
            "bnb_4bit_quant_storage": "uint8",
            "bnb_4bit_compute_dtype": "float32",
        }
    return None


def _quark(how: Target, modules: list[str]) -> dict[str, Any]:
    """Return what Quark's readers look for: the type of weights, and what they share scales by."""
    weight: dict[str, Any] = {"dtype": "fp8_e4m3", "qscheme": "per_tensor", "is_dynamic": False}
    if how.blocks is not None:
        kind = how.blocks.name.removeprefix("mxfp")
        weight |= {"dtype": "fp4" if kind == "4" else f"fp{kind}", "qscheme": "per_group"}
        weight |= {"group_size": how.blocks.sizes[0], "ch_axis": -1, "scale_format": "e8m0"}
    everywhere = {"weight": weight, "input_tensors": None, "output_tensors": None, "bias": None}
    return {
        "quant_method": "quark",
        "exclude": modules,
        "global_quant_config": everywhere,
        "layer_quant_config": {},
        "layer_type_quant_config": {},
        "export": {"kv_cache_group": [], "pack_method": "order", "weight_format": "real_quantized"},
    }


def beside(checkpoint: Checkpoint, said: Mapping[str, Any] | None = None) -> dict[str, bytes]:
    """Return the other files of a folder, with `said` as the quantisation part of config.json."""
    path = checkpoint.path
    folder = path if path.is_dir() else path.parent
    found: dict[str, bytes] = {}
    one = () if path.suffix != ".safetensors" else (folder / "config.json",)  # whose part on schemes is read
    if files := sorted(folder.iterdir()) if path.is_dir() or path.name.endswith(INDICES) else one:
        for file in files:
            if file.suffix in _DESCRIBING and not file.name.startswith(".") and is_readable(file):
                is_told = file.name.endswith(INDICES) or file.name == "hf_quant_config.json"
                if not is_told and file.stat().st_size <= _LARGEST:
                    found[file.name] = file.read_bytes()
    config: dict[str, Any] = {}
    if "config.json" in found:
        try:
            config = parse_json(found["config.json"], "config.json")
        except CheckpointError as error:
            raise CheckpointError(f"{str(folder)!r}: {error}") from None
    for key in ("quantization_config", "compression_config"):
        config.pop(key, None)
    if said is not None:
        config["quantization_config"] = said
    if config or "config.json" in found:  # which may have said nothing else
        found["config.json"] = (json.dumps(config, indent=2) + "\n").encode()
    return found
