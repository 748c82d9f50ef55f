"""`Optimizer` of torch parameters, which torch takes for one of its own.

Floor 4. Imports torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from lowprec.methods.expansion import AdamW
from lowprec.methods.layers.optimizer import Optimizer

#: What torch's optimizers call an option of AdamW.
_TORCH = {"learning_rate": "lr"}


class TorchOptimizer(Optimizer, torch.optim.Optimizer):
    """AdamW by any strategy of Collage as a `torch.optim.Optimizer`, which `Optimizer` makes of tensors."""

    def __init__(self, parameters: Iterable[Any], *, rng: int = 0, **options: Any) -> None:
        self._given = [_renamed(group, {"lr": "learning_rate"}) for group in self._given]
        Optimizer.__init__(self, (), rng=rng, **_renamed(options, {"lr": "learning_rate"}))
        plain = AdamW()
        defaults = {name: getattr(plain, name) for name in ("learning_rate", "betas", "eps", "weight_decay")}
        groups = [_renamed(group, _TORCH) for group in self.groups]
        torch.optim.Optimizer.__init__(self, groups, _renamed(defaults, _TORCH))
        self.groups = self.param_groups

    def step(self, closure: Callable[[], Any] | Iterable[Any] | None = None) -> Any:
        """Take a step by the gradients of the parameters, or by those that are given.

        Parameters
        ----------
        closure : function or iterable of torch.Tensor, optional
            What computes the loss and its gradients anew, as torch's optimizers take it; or gradients.
        """
        loss = None
        if callable(closure):
            with torch.enable_grad():
                loss = closure()
            closure = None
        Optimizer.step(self, closure)
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients, or make them zero."""
        torch.optim.Optimizer.zero_grad(self, set_to_none)

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """Add a group of parameters, whose options are by default those of `torch.optim.AdamW` and "fp32"."""
        torch.optim.Optimizer.add_param_group(self, {"strategy": "fp32"} | _renamed(param_group, _TORCH))
        if self.groups is self.param_groups:  # not while the optimizer is made
            self._parameters += self.groups[-1]["params"]
            self._begin()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "step"}  # a scheduler's

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def _options(self, group: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options of a group by their names in AdamW, without those that schedulers keep there."""
        named = _renamed(group, {"lr": "learning_rate"})
        return {name: value for name, value in named.items() if name in self.known}


def _renamed(options: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in options.items()}
