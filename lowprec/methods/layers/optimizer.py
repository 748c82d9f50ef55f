"""AdamW by any strategy of Collage, on arrays and torch tensors that change in place, in groups.

Floor 4. Source: [COLLAGE].
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from lowprec.arrays.checks import as_array, is_tensor
from lowprec.methods.expansion import AdamW
from lowprec.methods.expansion.adamw import State
from lowprec.spec import catalog

_OPTIONS = frozenset(field.name for field in dataclasses.fields(AdamW)) - {"rng"}


class Optimizer:
    """AdamW for arrays and torch parameters: a step changes them in place.

    >>> import numpy as np
    >>> w, b = np.float32([200.0]), np.float32([0.0])
    >>> groups = [{"params": [w], "weight_decay": 0.1}, {"params": [b], "learning_rate": 0.01}]
    >>> optimizer = Optimizer(groups, strategy="light")
    >>> for _ in range(100):
    ...     optimizer.step([np.ones(1), np.ones(1)])
    >>> w, b, optimizer.states[0].parameter.values()
    (array([198.], dtype=float32), array([-0.99609375], dtype=float32), array([197.88867188]))

    Parameters
    ----------
    parameters : iterable of array or torch.Tensor, or of mapping
        What `torch.optim.AdamW` takes: parameters, or groups of them, each a mapping with "params" and
        options of its own. They are rounded to the format of the strategy at once.
    rng : int
        The key of the first parameter's random integers, where a strategy draws any; each has its own.
    options
        For all groups that have none of their own, as of `lowprec.methods.expansion.AdamW`: strategy ("fp32"
        by default), format, learning_rate, betas, eps, eps_place, weight_decay, scalars, stochastic_bits.

    Attributes
    ----------
    groups : list of dict
        "params" and the options of each group, which may be changed between steps, as learning rates are; but
        for the strategy and the format.
    states : list of State
        Of each parameter, in their order.

    Raises
    ------
    ValueError
        No parameters, one that is there twice, an unknown option, and what AdamW refuses. Parameters whose
        type does not hold what the strategy computes with, such as bfloat16 tensors with "fp32". Then nothing
        has changed.
    """

    def __init__(self, parameters: Iterable[Any], *, rng: int = 0, **options: Any) -> None:
        _check(options)
        given = list(parameters)
        groups = given if given and all(isinstance(each, Mapping) for each in given) else [{"params": given}]
        self.groups: list[dict[str, Any]] = []
        self._rng = rng
        for group in groups:
            own = {name: value for name, value in group.items() if name != "params"}
            _check(own)
            self.groups.append({"params": list(group["params"]), "strategy": "fp32"} | options | own)
        self._parameters = [each for group in self.groups for each in group["params"]]
        if not self._parameters:
            raise ValueError("an optimizer needs parameters, and was given none")
        if len({id(each) for each in self._parameters}) < len(self._parameters):
            raise ValueError("a parameter is in the optimizer twice; each belongs into one group, once")
        self.states: list[State] = []
        for optimizer, parameter in zip(self._optimizers(), self._parameters, strict=True):
            values = as_array(parameter)
            held = catalog.format(values.dtype) if values.dtype.kind in "fV" else None
            if held is None or not held.contains(catalog.format(optimizer.weights)):
                raise ValueError(
                    f"a parameter of type {values.dtype} does not hold weights of "
                    f"{optimizer.weights.name!r}, with which strategy={optimizer.keeps.name!r} computes; use "
                    f"another strategy or type"
                )
            self.states.append(optimizer.start(values.astype(np.float64)))
        for parameter, state in zip(self._parameters, self.states, strict=True):
            _write(parameter, state.weights)

    def step(self, gradients: Iterable[Any] | None = None) -> None:
        """Take a step.

        Parameters
        ----------
        gradients : iterable of array or torch.Tensor, optional
            Of all parameters in the order of groups; None for one that stays as it is. By default the
            ``.grad`` of torch parameters.

        Raises ValueError: another number of gradients than of parameters, or one of another shape; no
        gradients for arrays, which have no ``.grad``. Then nothing has changed.
        """
        if gradients is None:
            if not all(is_tensor(each) for each in self._parameters):
                raise ValueError(
                    "arrays have no .grad: give step their gradients, in the order of parameters"
                )
            gradients = [each.grad for each in self._parameters]
        found = list(gradients)
        if len(found) != len(self._parameters):
            raise ValueError(f"{len(found)} gradients are not those of {len(self._parameters)} parameters")
        self.states = [
            state if gradient is None else optimizer.step(state, _wide(gradient))
            for optimizer, state, gradient in zip(self._optimizers(), self.states, found, strict=True)
        ]
        for parameter, state in zip(self._parameters, self.states, strict=True):
            _write(parameter, state.weights)

    def zero_grad(self) -> None:
        """Drop the gradients of torch parameters."""
        for each in self._parameters:
            if is_tensor(each):
                each.grad = None

    def _optimizers(self) -> list[AdamW]:
        """Return the optimizer of each parameter, by the options of its group."""
        found: list[AdamW] = []
        for group in self.groups:
            options = {name: value for name, value in group.items() if name != "params"}
            found += [
                AdamW(**options, rng=self._rng + len(found) + place) for place in range(len(group["params"]))
            ]
        return found


def _check(options: Mapping[str, Any]) -> None:
    if unknown := sorted(set(options) - _OPTIONS):
        raise ValueError(f"{unknown[0]!r} is no option of AdamW; it has {', '.join(sorted(_OPTIONS))}")


def _wide(gradient: Any) -> Any:
    """Return a gradient as an array; of few bits in float32, exactly."""
    array = as_array(gradient)
    return array.astype(np.float32) if array.dtype.itemsize < 4 else array


def _write(parameter: Any, values: Any) -> None:
    """Put values into an array or a tensor, whose type holds them."""
    if is_tensor(parameter):
        import torch

        parameter.detach().copy_(torch.from_numpy(np.ascontiguousarray(values)))
    else:
        parameter[...] = values
