"""Settings of one module in a configuration: the kind of its weight, by targets and by names to ignore.

Mixed schemes are told apart here: groups of compressed-tensors with their targets, layers of ModelOpt,
and patterns of Quark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lowprec.checkpoints.container import quoted
from lowprec.checkpoints.patterns import Names, Patterns, UnknownError

if TYPE_CHECKING:
    from lowprec.checkpoints.weights import Weight

__all__ = ["LINEAR_ONLY", "STRATEGIES", "Configured", "Said", "is_convolution", "kind_of", "unknown_method"]

#: What may share a scale, in the words of compressed-tensors.
STRATEGIES = ("tensor", "channel", "group", "block", "token", "tensor_group", "attn_head")

_IGNORE_KEYS = ("ignore", "exclude_modules", "modules_to_not_convert", "exclude")
#: What GPTQ, AWQ and AutoRound call themselves; keys by which these set single layers otherwise.
_OF_COLUMNS = ("gptq", "awq", "auto-round", "auto-round/gptq", "intel/auto-round")
_OF_LAYERS = ("dynamic", "extra_config")
#: Names that software has for itself in `quant_method`, and whose files are read.
_METHODS = {
    *_OF_COLUMNS,
    *("bitsandbytes", "compressed-tensors", "fbgemm_fp8", "fp8", "modelopt", "mxfp4", "quark", "torchao"),
}
#: Layouts of compressed-tensors, and algorithms of ModelOpt, that are read.
_FORMATS = {
    *("int-quantized", "float-quantized", "naive-quantized", "mixed-precision", "dense", "mxfp8-quantized"),
    *(f"{kind}pack-quantized" for kind in ("", "nvfp4-", "mxfp4-", "mxfp6-")),
}
_ALGORITHMS = {
    *("NVFP4", "NVFP4_AWQ", "NVFP4_SVDQUANT", "W4A16_NVFP4", "W4A8_NVFP4_FP8", "MXFP4", "W4A8_MXFP4_FP8"),
    *("FP8", "FP8_PB_WO", "FP8_PER_CHANNEL_PER_TOKEN", "MXFP8", "W8A8_SQ_PER_CHANNEL", "MIXED_PRECISION"),
}
_OF_MODELOPT = {"NVFP4": "nvfp4", "FP8": "fp8", "MXFP8": "mxfp8", "MXFP4": "mxfp4"}
#: Values of `quant_method` whose software quantises linear layers, and no convolutions.
LINEAR_ONLY = ("compressed-tensors", "modelopt", "quark", "bitsandbytes", "fp8")
#: Length from which on the last axis of three is the inputs of experts, and no kernel of a convolution.
_SHORT = 32


@dataclass(frozen=True)
class Said:
    """Settings of a module.

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


class Configured:
    """A configuration, and what it says of modules.

    Parameters
    ----------
    config : mapping
    count : int
        Of the modules that there are; see `Patterns`.

    Attributes
    ----------
    unread : dict of str to str
        Why patterns of the configuration are not understood.
    """

    def __init__(self, config: Mapping[str, Any], count: int) -> None:
        self._config, self._patterns = config, Patterns(count)
        self.unread = self._patterns.unread
        self._ignored = [Names(config.get(key), self._patterns) for key in _IGNORE_KEYS]
        groups = config.get("config_groups")
        for key in _IGNORE_KEYS:
            if not isinstance(config.get(key) or [], list):
                self.unread[key] = "it is no list of names"
        if not isinstance(groups or {}, dict):
            self.unread["config_groups"] = "it is no table of groups"
        self._groups = None if not isinstance(groups, dict) else [*map(self._group, groups.values())]

    def said_of(self, module: str) -> Said | None:
        """Return what is said of a module; None where that takes a pattern which is not understood."""
        try:
            return self._said_of(module)
        except UnknownError as error:
            if not self.unread:
                self.unread["config_groups"] = str(error)
            return None

    def block_of(self, module: str) -> dict[str, Any]:
        """Return what a group of compressed-tensors says of blocks and bits.

        Lengths of blocks are `weight_block_size`; of integers it is `bits`, `group_size` and `symmetric`.
        """
        said = None if self._groups is None else self.said_of(module)
        setting = {} if said is None else said.setting
        block = setting.get("block_structure")
        if isinstance(block, str):  # "128x128", as earlier versions wrote it
            block = [int(size) for size in block.split("x") if size.isdecimal() and len(size) < 10]
        if setting.get("strategy") == "group":
            block = [1, setting.get("group_size")]
        found = {"bits": setting.get("num_bits"), "symmetric": setting.get("symmetric")}
        found["group_size"] = setting.get("group_size")
        return found | ({"weight_block_size": block} if setting.get("strategy") in ("block", "group") else {})

    def _said_of(self, module: str) -> Said:
        config = self._config
        ignored = any(module in names for names in self._ignored)
        layers = config.get("quantized_layers")
        if self._groups is not None:
            setting = self._setting(module)
            return Said(ignored, setting is not None, _of_setting(setting or {}), setting or {})
        if isinstance(layers, dict) and config.get("quant_algo") == "MIXED_PRECISION":
            layer = layers.get(module)
            kind = _of_modelopt(layer) if isinstance(layer, dict) else ""
            return Said(ignored, isinstance(layer, dict), kind)
        if config.get("quant_method") == "modelopt":
            return Said(ignored, None, _of_modelopt(config))
        if config.get("quant_method") == "quark":
            return Said(ignored, None, self._of_quark(module))
        if config.get("quant_method") in _OF_COLUMNS and not any(map(config.get, _OF_LAYERS)):
            bits = config.get("bits", config.get("w_bit"))
            return Said(ignored, None, f"int{bits}" if type(bits) is int else "", config)
        return Said(ignored)

    def _group(self, group: Any) -> tuple[Names, bool, Mapping[str, Any]]:
        """Return a group's targets, whether classes are among them, and its `weights`."""
        targets = group.get("targets") if isinstance(group, dict) else None
        setting = group.get("weights") if isinstance(group, dict) else None
        classes = any(
            isinstance(name, str) and name.isidentifier() and name[0].isupper()
            for name in (targets if isinstance(targets, list) else ())
        )
        return Names(targets, self._patterns), classes, setting if isinstance(setting, dict) else {}

    def _setting(self, module: str) -> Mapping[str, Any] | None:
        """Return `weights` of the group that targets a module: by its name, or else by its class."""
        by_class: Mapping[str, Any] | None = None
        for targets, classes, setting in self._groups or ():
            self._patterns.spend(1)
            if module in targets:
                return setting
            if classes and by_class is None:
                by_class = setting
        return by_class

    def quark_weight(self, module: str) -> Mapping[str, Any]:
        """Return Quark's settings of a module's weight: of the first pattern that matches, or of all modules.

        Raises UnknownError: that takes a pattern which is not understood.
        """
        layers, whole = self._config.get("layer_quant_config"), self._config.get("global_quant_config")
        for pattern, own in layers.items() if isinstance(layers, dict) else ():
            if self._patterns.matches(pattern, module):
                whole = own
                break
        said = whole.get("weight") if isinstance(whole, dict) else None
        return said if isinstance(said, dict) else {}

    def _of_quark(self, module: str) -> str:
        said = self.quark_weight(module)
        name = said.get("dtype")
        if not isinstance(name, str):
            return ""
        if name == "fp4":
            return "mxfp4"
        if name.startswith("fp6"):
            return "mxfp6"
        return ("mxfp8" if said.get("qscheme") == "per_group" else "fp8") if name.startswith("fp8") else ""


def is_convolution(name: str, shape: tuple[int, ...]) -> bool:
    """Return whether a weight is that of a convolution, by its axes, the last one's length, and its name.

    >>> is_convolution("down.0.weight", (64, 64, 3, 3)), is_convolution("experts.down_proj", (8, 64, 64))
    (True, False)
    """
    return len(shape) > 3 or len(shape) == 3 and (shape[-1] < _SHORT or "conv" in name.lower())


def unknown_method(config: Mapping[str, Any]) -> str:
    """Return what a configuration says of a method that lowprec does not know; empty if it knows it.

    >>> unknown_method({"quant_method": "xyz"})
    "quant_method 'xyz' is not one that lowprec knows"
    """
    method, known = config.get("quant_method"), {"quant_method": _METHODS}
    if method == "modelopt":
        known["quant_algo"] = _ALGORITHMS
    if method == "compressed-tensors":
        known["format"] = _FORMATS
    for key, names in known.items():
        if (said := config.get(key)) is not None and not (isinstance(said, str) and said in names):
            return f"{key} {quoted(said)} is not one that lowprec knows"
    return ""


def kind_of(weight: Weight) -> str:
    """Return the kind of a quantised weight, by its formats and blocks."""
    if weight.element == "e2m1fn":
        return "nvfp4" if weight.scale == "ue4m3" else "mxfp4"
    if weight.element in ("e2m3fn", "e3m2fn"):
        return "mxfp6"
    if weight.element.lstrip("u").startswith("int"):
        return weight.element.lstrip("u")
    return "mxfp8" if weight.scale == "e8m0fnu" and weight.sizes[-1:] == (32,) else "fp8"


def _of_modelopt(said: Mapping[str, Any]) -> str:
    algorithm = said.get("quant_algo")
    return _OF_MODELOPT.get(algorithm, "") if isinstance(algorithm, str) else ""


def _of_setting(setting: Mapping[str, Any]) -> str:
    bits, strategy = setting.get("num_bits"), setting.get("strategy")
    if setting.get("type") != "float":
        return f"int{bits}" if setting.get("type") == "int" and type(bits) is int else ""
    if bits == 4:
        return "nvfp4" if strategy == "tensor_group" else "mxfp4"
    if bits == 6:
        return "mxfp6"
    return "" if bits != 8 else "mxfp8" if strategy == "group" else "fp8"
