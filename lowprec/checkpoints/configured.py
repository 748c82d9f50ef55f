"""What a configuration says of one module: the kind of its weight, by targets and by names to ignore.

Mixed schemes are told apart here: groups of compressed-tensors with their targets, layers of ModelOpt,
and patterns of Quark.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lowprec.checkpoints.weights import Weight

__all__ = ["Said", "kind_of", "said_of"]

_IGNORE_KEYS = ("ignore", "exclude_modules", "modules_to_not_convert", "exclude")
_OF_MODELOPT = {"NVFP4": "nvfp4", "FP8": "fp8", "MXFP8": "mxfp8", "MXFP4": "mxfp4"}


@dataclass(frozen=True)
class Said:
    """What is said of a module.

    Parameters
    ----------
    ignored : bool
        Whether a list of names to ignore has it.
    targeted : bool, optional
        Whether something says that it is quantised; None where nothing says which modules are.
    kind : str
        Such as "nvfp4" or "fp8"; empty where that is left open.
    setting : mapping
        Of compressed-tensors: `weights` of its group.
    """

    ignored: bool
    targeted: bool | None = None
    kind: str = ""
    setting: Mapping[str, Any] = field(default_factory=dict)


def said_of(config: Mapping[str, Any], module: str) -> Said:
    """Return what a configuration says of a module."""
    ignored = any(_matches(pattern, module) for pattern in _ignored(config))
    groups, layers = config.get("config_groups"), config.get("quantized_layers")
    if isinstance(groups, dict):
        setting = _setting(groups, module)
        return Said(ignored, setting is not None, _of_setting(setting or {}), setting or {})
    if isinstance(layers, dict) and str(config.get("quant_algo")) == "MIXED_PRECISION":
        layer = layers.get(module)
        kind = _OF_MODELOPT.get(str(layer.get("quant_algo")), "") if isinstance(layer, dict) else ""
        return Said(ignored, isinstance(layer, dict), kind)
    if config.get("quant_method") == "modelopt":
        return Said(ignored, None, _OF_MODELOPT.get(str(config.get("quant_algo")), ""))
    if config.get("quant_method") == "quark":
        return Said(ignored, None, _of_quark(config, module))
    return Said(ignored)


def kind_of(weight: Weight) -> str:
    """Return the kind of a quantised weight, by its formats and blocks."""
    if weight.element == "e2m1fn":
        return "nvfp4" if weight.scale == "ue4m3" else "mxfp4"
    if weight.element in ("e2m3fn", "e3m2fn"):
        return "mxfp6"
    return "mxfp8" if weight.scale == "e8m0fnu" and weight.sizes[-1:] == (32,) else "fp8"


def _ignored(config: Mapping[str, Any]) -> Iterator[str]:
    for key in _IGNORE_KEYS:
        names = config.get(key)
        yield from (name for name in names if isinstance(name, str)) if isinstance(names, list) else ()


def _setting(groups: Mapping[str, Any], module: str) -> Mapping[str, Any] | None:
    """Return `weights` of the group that targets a module: by its name, or else by its class."""
    by_class: Mapping[str, Any] | None = None
    for group in groups.values():
        targets, setting = (
            (group.get("targets"), group.get("weights")) if isinstance(group, dict) else ([], {})
        )
        setting = setting if isinstance(setting, dict) else {}
        for name in targets if isinstance(targets, list) else ():
            if isinstance(name, str) and _matches(name, module):
                return setting
            if isinstance(name, str) and name.isidentifier() and name[0].isupper() and by_class is None:
                by_class = setting
    return by_class


def _of_setting(setting: Mapping[str, Any]) -> str:
    bits, strategy = setting.get("num_bits"), setting.get("strategy")
    if setting.get("type") != "float":
        return ""
    if bits == 4:
        return "nvfp4" if strategy == "tensor_group" else "mxfp4"
    if bits == 6:
        return "mxfp6"
    return "" if bits != 8 else "mxfp8" if strategy == "group" else "fp8"


def _of_quark(config: Mapping[str, Any], module: str) -> str:
    layers, whole = config.get("layer_quant_config"), config.get("global_quant_config")
    for pattern, own in layers.items() if isinstance(layers, dict) else ():
        if fnmatch.fnmatchcase(module, pattern):
            whole = own
            break
    said = whole.get("weight") if isinstance(whole, dict) else None
    if not isinstance(said, dict):
        return ""
    name = str(said.get("dtype"))
    if name == "fp4":
        return "mxfp4"
    if name.startswith("fp6"):
        return "mxfp6"
    return ("mxfp8" if said.get("qscheme") == "per_group" else "fp8") if name.startswith("fp8") else ""


def _matches(pattern: str, module: str) -> bool:
    if pattern.startswith("re:"):
        try:
            return re.match(pattern[3:], module) is not None
        except re.error:
            return False
    return pattern == module or fnmatch.fnmatchcase(module, pattern)
