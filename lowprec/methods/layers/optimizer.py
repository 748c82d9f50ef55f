"""AdamW by any strategy of Collage, or Adam and SGD with scales, on arrays and torch tensors, in place.

Floor 4. Source: [COLLAGE], [SCALIFY].
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

import numpy as np

from lowprec.arrays.checks import as_array, is_tensor
from lowprec.methods.expansion import AdamW, Expansion
from lowprec.methods.expansion.adamw import State
from lowprec.methods.layers.parameters import (
    differing,
    fields,
    kept_part,
    refuse_shared,
    restored_part,
    wide,
    with_scale,
    write,
)
from lowprec.methods.scale_propagation import SGD, Adam
from lowprec.methods.scale_propagation.optimizers import OptimizerState
from lowprec.spec import catalog

_OPTIONS = frozenset(field.name for field in dataclasses.fields(AdamW)) - {"rng"}
#: Options that states depend on, so that states of others are not loaded.
_FIXED = ("strategy", "format")
#: Options that optimizers with scales have too.
_OF_SCALED = ("learning_rate", "betas", "eps", "weight_decay")
#: Names of torch's optimizers for options of AdamW, and back.
_TORCH = {"learning_rate": "lr"}
_FROM_TORCH = {"lr": "learning_rate"}


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

    With an optimizer of `lowprec.methods.scale_propagation` as the strategy, weights and states are arrays
    with scales in its formats; parameters are float32 or wider, or tensors of its `to_tensor`.

    >>> from lowprec.methods import scale_propagation as sp
    >>> w = np.float32([1.0, -2.0])
    >>> optimizer = Optimizer([w], strategy=sp.Adam(), learning_rate=0.25)
    >>> optimizer.step([np.float32([1e-6, -3e-6])])
    >>> w, optimizer.states[0].second.data
    (array([ 0.7524414, -1.7509766], dtype=float32), array([0.2815, 2.533 ], dtype=float16))

    Of torch parameters it is a `torch.optim.Optimizer` too, whose groups have the learning rate as "lr": it
    works with `torch.optim.lr_scheduler` and is saved by `torch.save(optimizer.state_dict(), ...)`.

    Parameters
    ----------
    parameters : iterable of array or torch.Tensor, or of mapping
        What `torch.optim.AdamW` takes: parameters, or groups of them, each a mapping with "params" and
        options of its own; names of `named_parameters` are dropped. They are rounded to the format of the
        strategy at once. Where a program changes one itself, as by a model's ``load_state_dict`` or a mask,
        the next step begins from its value there, with the moments as they were.
    rng : int
        The key of the first parameter's random integers, where a strategy draws any; each other one has the
        key after that of the one before it.
    options
        For all groups that have none of their own, as of `lowprec.methods.expansion.AdamW`: strategy ("fp32"
        by default), format, learning_rate, betas, eps, eps_place, weight_decay, scalars, stochastic_bits; of
        torch parameters "lr" is the learning rate too. With an `Adam` or `SGD` of `scale_propagation` as the
        strategy learning_rate, betas, eps and weight_decay take the place of its own.

    Attributes
    ----------
    groups : list of dict
        "params" and the options of each group, which may be changed between steps, as learning rates are; but
        for the strategy and the format. Of torch parameters they are `param_groups` too.
    states : list of State or OptimizerState
        Of each parameter, in their order.

    Raises
    ------
    ValueError
        No parameters, one that is there twice or in another's memory, an unknown option, and what AdamW
        refuses. Parameters whose type does not hold what the strategy computes with, such as bfloat16 tensors
        with "fp32". Then nothing has changed.
    TypeError
        Parameters that cannot be written: lists, read-only arrays, arrays of JAX. Nothing has changed then
        either.
    """

    def __new__(cls, parameters: Iterable[Any] = (), **options: Any) -> Self:
        """Return an optimizer, of torch parameters one that torch takes for its own."""
        given = list(parameters)
        groups = given if given and all(isinstance(each, Mapping) for each in given) else [{"params": given}]
        groups = [dict(group) | {"params": [*map(_unnamed, group["params"])]} for group in groups]
        if cls is Optimizer and any(is_tensor(each) for group in groups for each in group["params"]):
            cls = _torch_class()
        made = object.__new__(cls)
        made._given = groups
        return made

    known = _OPTIONS  #: names of options
    _names: Mapping[str, str] = {}  #: names of options in groups, where they are not AdamW's
    _given: list[dict[str, Any]]

    def __init__(self, parameters: Iterable[Any], *, rng: int = 0, **options: Any) -> None:
        _check(options)
        self._rng = rng
        for group in self._given:
            _check({name: value for name, value in group.items() if name != "params"})
        self.groups: list[dict[str, Any]] = [_begun(options | group) for group in self._given]
        self._parameters = [each for group in self.groups for each in group["params"]]
        if not self._parameters:
            raise ValueError("an optimizer needs parameters, and was given none")
        if len({id(each) for each in self._parameters}) < len(self._parameters):
            raise ValueError("a parameter is in the optimizer twice; each belongs into one group, once")
        self.states: list[State | OptimizerState] = []
        self._begin()

    def _begin(self) -> None:
        """Begin the states of parameters that have none yet, and round these."""
        _check_rng(self._rng, len(self._parameters))
        begun, states = len(self.states), list[State | OptimizerState]()
        optimizers, parameters = self._optimizers()[begun:], self._parameters[begun:]
        for optimizer, parameter in zip(optimizers, parameters, strict=True):
            states.append(_start(optimizer, parameter))
        refuse_shared(self._parameters)
        for parameter, state in zip(parameters, states, strict=True):
            write(parameter, state.weights)
        self.states += states

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
            _followed(optimizer, parameter, state)
            if gradient is None
            else optimizer.step(_followed(optimizer, parameter, state), _operand(optimizer, gradient))
            for optimizer, parameter, state, gradient in zip(
                self._optimizers(), self._parameters, self.states, found, strict=True
            )
        ]
        for parameter, state in zip(self._parameters, self.states, strict=True):
            write(parameter, state.weights)

    def zero_grad(self) -> None:
        """Drop the gradients of torch parameters."""
        for each in self._parameters:
            if is_tensor(each):
                each.grad = None

    def state_dict(self) -> dict[str, Any]:
        """Return the states and all options as torch's optimizers do: arrays (or tensors), numbers, names.

        >>> import numpy as np
        >>> w = np.float32([200.0])
        >>> optimizer = Optimizer([w], strategy="light")
        >>> optimizer.step([np.ones(1)])
        >>> kept, other = optimizer.state_dict(), Optimizer([np.zeros(1, np.float32)], strategy="light")
        >>> other.load_state_dict(kept)
        >>> other.states[0].steps, other.states[0].weights
        (1, array([200.], dtype=float32))
        """
        states, groups, first = {}, [], 0
        for place, (state, parameter) in enumerate(zip(self.states, self._parameters, strict=True)):
            states[place] = {name: kept_part(value, parameter) for name, value in fields(state)}
        for group in self.groups:
            places = list(range(first, first := first + len(group["params"])))
            whole = _optimizer(self._options(group))
            named = {"strategy": _name(group["strategy"]), "format": str(group.get("format", AdamW().format))}
            found = {name: getattr(whole, name) for name in sorted(_OPTIONS) if hasattr(whole, name)}
            options = _renamed(found, self._names)
            groups.append(options | group | named | {"params": places})
        return {"state": states, "param_groups": groups, "rng": self._rng}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from the states and options of `state_dict`; parameters become what they were.

        Raises
        ------
        ValueError
            States of other groups, shapes, strategies or formats, and what is no `state_dict`. Then nothing
            has changed.
        """
        if lacking := [name for name in ("param_groups", "state", "rng") if name not in state_dict]:
            raise ValueError(
                f"states lack {', '.join(lacking)}; give what state_dict() of such an optimizer returned, "
                "which torch's own have not"
            )
        groups, states = list(state_dict["param_groups"]), state_dict["state"]
        own = self.state_dict()["param_groups"]
        sizes = [[len(group["params"]) for group in each] for each in (groups, own)]
        if sizes[0] != sizes[1]:
            raise ValueError(f"states are of groups of {sizes[0]} parameters, and this has {sizes[1]}")
        for place, (group, here) in enumerate(zip(groups, own, strict=True)):
            for name in _FIXED:
                if group.get(name) != here[name]:
                    raise ValueError(
                        f"states of group {place} are of {name} {group.get(name)!r}, and the group is of "
                        f"{here[name]!r}"
                    )
        _check_rng(state_dict["rng"], len(self._parameters))
        loaded = []
        for place, state in enumerate(self.states):
            given = states.get(place, {})
            if lacking := [name for name, _ in fields(state) if name not in given]:
                raise ValueError(f"states of parameter {place} lack {', '.join(lacking)}")
            made = {name: restored_part(value, given[name]) for name, value in fields(state)}
            for name, value in fields(state):
                pairs = (getattr(each, "parts", (each,)) for each in (made[name], value))
                found, held = ([getattr(part, "shape", None) for part in parts] for parts in pairs)
                if found != held:
                    raise ValueError(
                        f"states of parameter {place} have {name} of shape {found}, and it has {held}; give "
                        "states of an optimizer of parameters of the same shapes"
                    )
            if not isinstance(made["steps"], int) or made["steps"] < 0:
                raise ValueError(
                    f"states of parameter {place} have steps={made['steps']!r}, which must be an integer, 0 "
                    "or more; give what state_dict() returned"
                )
            loaded.append(type(state)(**made))
        for group, kept in zip(self.groups, groups, strict=True):
            own = _renamed(_renamed(kept, _FROM_TORCH), self._names)
            group.update({name: value for name, value in own.items() if name not in ("params", *_FIXED)})
        self.states, self._rng = loaded, state_dict["rng"]
        for parameter, state in zip(self._parameters, self.states, strict=True):
            write(parameter, state.weights)

    def _options(self, group: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options of a group by their names in AdamW."""
        return {name: value for name, value in group.items() if name != "params"}

    def _optimizers(self) -> list[Any]:
        """Return the optimizer of each parameter, by the options of its group."""
        options = [self._options(group) for group in self.groups for _ in group["params"]]
        steps = itertools.chain((state.steps + 1 for state in self.states), itertools.repeat(0))
        return [
            _optimizer(each, self._rng + place, step)
            for place, (each, step) in enumerate(zip(options, steps, strict=False))
        ]


def _start(optimizer: Any, parameter: Any) -> State | OptimizerState:
    """Return the state of a parameter before the first step; refuse one that cannot be stepped."""
    scaled = isinstance(optimizer, Adam | SGD)
    if hasattr(parameter, "array"):
        if not scaled:
            raise TypeError(
                f"a parameter with a scale needs an optimizer with scales, not strategy="
                f"{optimizer.keeps.name!r}; use strategy=scale_propagation.Adam() or SGD()"
            )
        return optimizer.start(parameter.array)  # type: ignore[no-any-return]
    values = as_array(parameter)
    if not is_tensor(parameter) and not (isinstance(parameter, np.ndarray) and parameter.flags.writeable):
        raise TypeError(
            f"a parameter must be a NumPy array or a torch tensor that can be written, not a "
            f"{'read-only array' if isinstance(parameter, np.ndarray) else type(parameter).__name__}"
        )
    held = None
    if values.dtype.kind in "fV":
        held = catalog.BINARY64 if values.dtype == np.float64 else catalog.format(values.dtype)
    needed = catalog.BINARY32 if scaled else catalog.format(optimizer.weights)
    if held is None or not held.contains(needed):
        low = not scaled and held is not None and needed == catalog.format(optimizer.format)
        way = f"give format={held.name!r}, or use" if low and held is not None else "use"
        raise ValueError(
            f"a parameter of type {values.dtype} does not hold weights of {needed.name!r}, with which "
            f"strategy={_name(optimizer if scaled else optimizer.keeps.name)!r} computes; {way} another "
            f"strategy or type"
        )
    return optimizer.start(  # type: ignore[no-any-return]
        with_scale(values) if scaled else values.astype(np.float64)
    )


def _followed(optimizer: Any, parameter: Any, state: Any) -> Any:
    """Return a state that begins again, moments aside, where a program has changed the parameter itself."""
    moved = differing(parameter, state.weights)
    if moved is None:
        return state
    begun = _start(optimizer, parameter)
    if isinstance(begun, OptimizerState):
        return dataclasses.replace(state, weights=begun.weights)
    pairs = zip(begun.parameter.parts, state.parameter.parts, strict=True)
    parts = tuple(np.where(moved, new, old) for new, old in pairs)
    weights = np.where(moved, begun.weights, state.weights)
    return dataclasses.replace(state, parameter=Expansion(parts, state.parameter.format), weights=weights)


def _begun(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return a group's options, those of an optimizer with scales among them."""
    strategy = options.get("strategy", "fp32")
    if isinstance(strategy, type):
        name = strategy.__name__
        raise TypeError(f"strategy={name} is a class; give an object of it, strategy={name}()")
    if isinstance(strategy, AdamW):
        raise TypeError(
            f"strategy=AdamW(strategy={strategy.keeps.name!r}, ...) is an optimizer of one array: give "
            f"strategy={strategy.keeps.name!r} and its other options to Optimizer"
        )
    if not isinstance(strategy, Adam | SGD):
        return {"strategy": strategy, **options}
    if strategy.rng is not None:
        raise ValueError(
            "strategy has an rng of its own, which several parameters would share; give Optimizer rng="
        )
    return {name: getattr(strategy, name) for name in _OF_SCALED if hasattr(strategy, name)} | dict(options)


def _optimizer(options: Mapping[str, Any], rng: int = 0, step: int = 0) -> Any:
    """Return the optimizer of a parameter with this key, for a step; step 0 begins its state."""
    strategy = options["strategy"]
    if not isinstance(strategy, Adam | SGD):
        return AdamW(**options, rng=rng)
    own = {name: options[name] for name in _OF_SCALED if name in options and hasattr(strategy, name)}
    return dataclasses.replace(strategy, **own, rng=np.random.default_rng((rng, step)))


def _unnamed(given: Any) -> Any:
    """Return a parameter, without the name that `named_parameters` gives with it."""
    return given[1] if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], str) else given


def _name(strategy: Any) -> str:
    """Return the name of a strategy; of an optimizer with scales its class and its formats."""
    if not isinstance(strategy, Adam | SGD):
        return str(strategy)
    formats = [getattr(strategy, each, None) for each in ("weights", "first", "second")]
    return f"{type(strategy).__name__} of {', '.join(str(each.name) for each in formats if each)}"


def _operand(optimizer: Any, gradient: Any) -> Any:
    """Return a gradient as the optimizer takes it."""
    return wide(gradient) if isinstance(optimizer, AdamW) else with_scale(gradient)


def _check(options: Mapping[str, Any]) -> None:
    if unknown := sorted(set(options) - _OPTIONS):
        raise ValueError(f"{unknown[0]!r} is no option of AdamW; it has {', '.join(sorted(_OPTIONS))}")


def _check_rng(rng: Any, count: int) -> None:
    """Refuse a first key that leaves none for some of the parameters."""
    if isinstance(rng, bool) or not isinstance(rng, (int, np.integer)):
        raise TypeError(f"rng={rng!r} of an optimizer must be an integer, the first parameter's key")
    if not 0 <= rng <= 2**64 - count:
        raise ValueError(
            f"rng={rng} is out of range for {count} parameters, each of which has the key after that of the "
            f"one before it; use 0 to 2**64 - {count}"
        )


def _new() -> Any:
    """Return an optimizer of torch parameters without any attribute, for pickles."""
    return object.__new__(_torch_class())


@functools.cache
def _torch_class() -> Any:
    """Return the class of optimizers of torch parameters."""
    import torch

    class TorchOptimizer(Optimizer, torch.optim.Optimizer):
        """AdamW by any strategy of Collage, as a `torch.optim.Optimizer`."""

        _names = _TORCH

        def __init__(self, parameters: Iterable[Any], *, rng: int = 0, **options: Any) -> None:
            self._given = [_renamed(group, _FROM_TORCH) for group in self._given]
            Optimizer.__init__(self, (), rng=rng, **_renamed(options, _FROM_TORCH))
            plain = AdamW()
            defaults = {
                name: getattr(plain, name) for name in ("learning_rate", "betas", "eps", "weight_decay")
            }
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
            """Add a group of parameters, by default of strategy "fp32"."""
            begun = _renamed(_begun(_renamed(param_group, _FROM_TORCH)), _TORCH)
            torch.optim.Optimizer.add_param_group(self, begun)
            if self.groups is self.param_groups:  # not while the optimizer is made
                known = self._parameters
                try:
                    self._parameters = known + self.groups[-1]["params"]
                    self._begin()
                except BaseException:
                    self._parameters = known
                    self.groups.pop()
                    raise

        def __reduce__(self) -> Any:
            return _new, (), self.__getstate__()

        def __getstate__(self) -> dict[str, Any]:
            return {name: value for name, value in self.__dict__.items() if name != "step"}  # a scheduler's

        def __setstate__(self, state: dict[str, Any]) -> None:
            self.__dict__.update(state)

        def _options(self, group: Mapping[str, Any]) -> dict[str, Any]:
            """Return the options of a group without those that schedulers keep there."""
            named = _renamed(group, _FROM_TORCH)
            return {name: value for name, value in named.items() if name in self.known}

    return TorchOptimizer


def _renamed(options: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in options.items()}
