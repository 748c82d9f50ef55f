"""The scale of named tensors and of their gradients, and of all of a torch model (`report`).

Floor 4.
"""

from __future__ import annotations

import contextlib
import contextvars
import copy
import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from lowprec.arrays.checks import as_array, is_tensor
from lowprec.arrays.doubles import reals
from lowprec.methods._torch import MEMORIES, WATCH, torch_module, values_of
from lowprec.methods.unit_scaling.vjp import Array, Vjp

Backward = TypeVar("Backward", bound=Callable[..., Any])


@dataclass(frozen=True)
class TensorStatistics:
    """The scale of a tensor.

    Parameters
    ----------
    mean_abs, abs_mean : float
        Mean of the magnitudes; magnitude of the mean.
    std : float
        Standard deviation.
    max_abs, min_abs : float
        The largest and the smallest magnitude.
    count : int
        Values.
    """

    mean_abs: float
    abs_mean: float
    std: float
    max_abs: float
    min_abs: float
    count: int

    @classmethod
    def of(cls, values: npt.ArrayLike) -> TensorStatistics:
        """Measure an array, in float64; nan of no values.

        >>> TensorStatistics.of([3.0, -1.0])
        TensorStatistics(mean_abs=2.0, abs_mean=1.0, std=2.0, max_abs=3.0, min_abs=1.0, count=2)

        Parameters
        ----------
        values : array_like of float, shape (...)
        """
        given = reals(values, "values").astype(np.float64)
        if not given.size:
            return cls(*(math.nan,) * 5, 0)
        sizes = np.abs(given)
        return cls(
            mean_abs=float(sizes.mean()),
            abs_mean=abs(float(given.mean())),
            std=float(given.std()),
            max_abs=float(sizes.max()),
            min_abs=float(sizes.min()),
            count=given.size,
        )


@dataclass(frozen=True)
class TensorScales:
    """The scale of a tensor in both passes; str() is "(-> std forward, <- std backward)".

    Parameters
    ----------
    forward, backward : TensorStatistics, optional
        None where it was not recorded.
    """

    forward: TensorStatistics | None = None
    backward: TensorStatistics | None = None

    def __str__(self) -> str:
        forward, backward = (
            "n/a" if each is None else f"{each.std:.3g}" for each in (self.forward, self.backward)
        )
        return f"(-> {forward}, <- {backward})"


class ScaleTracker:
    """Records the scales of named tensors; str() is a table, print(tracker.annotated()) a line for each.

    >>> from lowprec.methods import unit_scaling as us
    >>> tracker = ScaleTracker()
    >>> rng = np.random.default_rng(0)
    >>> x = tracker.forward("x", rng.standard_normal((64, 256)))
    >>> w = tracker.forward("w", rng.standard_normal((256, 1024)))
    >>> y, vjp = tracker.follow("y", us.linear(x, w))
    >>> dx, dw = vjp(rng.standard_normal(y.shape))
    >>> tracker.backward("x", dx).shape, tracker.backward("w", dw).shape
    ((64, 256), (256, 1024))
    >>> print(tracker.annotated())
    x  (-> 0.996, <- 1.42)
    w  (-> 1, <- 0.998)
    y  (-> 0.706, <- 1)
    >>> round(tracker["y"].forward.std, 3)
    0.706

    Names keep the order of their first record; a new record of a name replaces the old one.
    """

    def __init__(self) -> None:
        self._tensors: dict[str, TensorScales] = {}

    def forward(self, name: str, values: npt.ArrayLike) -> Array:
        """Record a tensor, and give it back.

        Parameters
        ----------
        name : str
        values : array_like of float, shape (...)
        """
        return self._record(name, "forward", values)

    def backward(self, name: str, grad: npt.ArrayLike) -> Array:
        """Record the gradient of a tensor, and give it back.

        Parameters
        ----------
        name : str
        grad : array_like of float, shape (...)
        """
        return self._record(name, "backward", grad)

    def follow(self, name: str, result: tuple[Array, Backward]) -> tuple[Array, Backward]:
        """Record what an operation gives, and, when its vjp is called, the gradient that comes to it.

        Parameters
        ----------
        name : str
            Of the output.
        result : pair
            (y, vjp) of an operation, or of `residual_apply`.

        Returns
        -------
        y, vjp
            The same.
        """
        y, vjp = result
        self.forward(name, y)
        if isinstance(vjp, Vjp):
            pull = vjp.pull
            return y, dataclasses.replace(vjp, pull=lambda grad: pull(self.backward(name, grad)))

        def followed(grad: npt.ArrayLike = 1.0) -> Any:
            return vjp(self.backward(name, grad))

        return y, cast(Backward, followed)

    def pruned(self, rtol: float = 1 / 65536) -> ScaleTracker:
        """Leave out tensors whose scale is that of the one before, as after a reshape.

        Parameters
        ----------
        rtol : float
            By how much the means of magnitudes may differ, in both passes, relative to the larger.

        Returns
        -------
        tracker : ScaleTracker
        """
        kept = ScaleTracker()
        last: TensorScales | None = None
        for name, scales in self._tensors.items():
            if last is None or not _alike(last, scales, rtol):
                kept._tensors[name] = scales
            last = scales
        return kept

    def outside(self, low: float = 0.5, high: float = 2.0) -> ScaleTracker:
        """Keep the tensors of which a standard deviation does not lie within bounds.

        Parameters
        ----------
        low, high : float
        """
        kept = ScaleTracker()
        for name, scales in self._tensors.items():
            found = [each.std for each in (scales.forward, scales.backward) if each is not None]
            if not all(low <= std <= high for std in found):
                kept._tensors[name] = scales
        return kept

    def annotated(self) -> str:
        """Return a line for each tensor: its name and (-> std forward, <- std backward)."""
        longest = max((len(name) for name in self._tensors), default=0)
        return "\n".join(f"{name:{longest}}  {scales}" for name, scales in self._tensors.items())

    def __getitem__(self, name: str) -> TensorScales:
        if name not in self._tensors:
            raise KeyError(f"no tensor {name!r} was recorded; there are {', '.join(self._tensors) or 'none'}")
        return self._tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __str__(self) -> str:
        titles = [field.name for field in dataclasses.fields(TensorStatistics)]
        rows = [["tensor", "pass", *titles]]
        for name, scales in self._tensors.items():
            for sign, found in (("->", scales.forward), ("<-", scales.backward)):
                if found is not None:
                    *floats, count = dataclasses.astuple(found)
                    rows.append([name, sign, *(f"{each:.3g}" for each in floats), f"{count:,}"])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = []
        for name, sign, *cells in rows:
            numbers = (f"{cell:>{width}}" for cell, width in zip(cells, widths[2:], strict=True))
            lines.append("  ".join([f"{name:{widths[0]}}", f"{sign:{widths[1]}}", *numbers]))
        return "\n".join(lines)

    def _free(self, name: str) -> str:
        """Return a name that no tensor has yet: with a number behind it from the second on."""
        names = (f"{name} {number}" if number > 1 else name for number in itertools.count(1))
        return next(each for each in names if each not in self._tensors)

    def _record(self, name: str, side: str, values: npt.ArrayLike) -> Array:
        found = as_array(values)
        before = self._tensors.get(name, TensorScales())
        self._tensors[name] = dataclasses.replace(before, **{side: TensorStatistics.of(found)})
        return found


def report(model: Any, batch: Any) -> ScaleTracker:
    """Record the scales of all activations, gradients and weights of a torch model, for one batch.

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.w = torch.nn.Parameter(torch.randn(256, 256))

            def forward(self, x, target):
                return mse(linear(x, self.w), target)

        linear, mse = us.differentiable(us.linear), us.differentiable(us.mse)
        print(us.report(Model(), (torch.randn(64, 256), torch.randn(64, 256))).annotated())

    Parameters
    ----------
    model : torch.nn.Module
        Gives the loss of a batch, a single number.
    batch : tensor, or tuple, list or mapping of what the model takes
        As a `DataLoader` gives it; values of a mapping are keywords.

    Returns
    -------
    tracker : ScaleTracker
        What each operation of `differentiable` and each module gives, by the module's name and the
        operation's, in the order of the forward pass; then parameters, with their gradients. Single numbers
        are left out, and so are values of parameters that begin as one constant. The model's gradients and
        buffers, its modules' extra state, what recipes remember, and torch's generators stay as they were.

    Raises ImportError: without torch. ValueError: a model that gives no single number.
    """
    torch, tracker, seen = torch_module(), ScaleTracker(), list[Any]()
    names, path = {module: name for name, module in model.named_modules()}, [""]

    def record(name: str, values: Any) -> None:
        for each in values if isinstance(values, tuple) else (values,):
            new = is_tensor(each) and each.is_floating_point() and each.numel() > 1
            if not new or any(each is other for other in seen):
                continue
            seen.append(each)
            label = tracker._free(".".join(part for part in (path[-1], name) if part) or "output")
            tracker.forward(label, values_of(each))
            if each.requires_grad:
                each.register_hook(functools.partial(back, label))

    def back(label: str, grad: Any) -> None:
        tracker.backward(label, values_of(grad))

    def leave(module: Any, given: Any, made: Any) -> None:
        record("", made)
        path.pop()

    def enter(module: Any, given: Any) -> None:
        path.append(names.get(module, ""))

    context, hooks = contextvars.copy_context(), torch.nn.modules.module
    context.run(WATCH.set, record)
    with _unchanged(model):
        with hooks.register_module_forward_pre_hook(enter), hooks.register_module_forward_hook(leave):
            if isinstance(batch, Mapping):
                loss = context.run(model, **batch)
            else:
                loss = context.run(model, *(batch if isinstance(batch, tuple | list) else (batch,)))
        if not is_tensor(loss) or loss.numel() != 1:
            given = f"shape {tuple(loss.shape)}" if is_tensor(loss) else repr(loss)
            raise ValueError(f"the model gives {given}; let it return its loss, a single number")
        parameters = {name: each for name, each in model.named_parameters() if each.requires_grad}
        found = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
    for (name, values), grad in zip(parameters.items(), found, strict=True):
        label = tracker._free(name)
        if ((array := values_of(values)) != array[(0,) * array.ndim]).any():
            tracker.forward(label, array)
        if grad is not None:
            tracker.backward(label, values_of(grad))
    return tracker


@contextlib.contextmanager
def _unchanged(model: Any) -> Iterator[None]:
    """Leave buffers, what layers remember and the state of torch's generators as they were before."""
    torch = torch_module()
    buffers = [(each, each.clone()) for each in model.buffers()]
    own = [
        each for each in model.modules() if type(each).get_extra_state is not torch.nn.Module.get_extra_state
    ]
    extra = [(each, copy.deepcopy(each.get_extra_state())) for each in own]
    remembered = [(load, state(model)) for state, load in MEMORIES]
    used = {each.device for each in model.parameters() if each.device.type == "cuda"}
    with torch.random.fork_rng(devices=list(used)):
        try:
            yield
        finally:
            for load, state in remembered:
                load(model, state)
            for each, before in extra:
                each.set_extra_state(before)
            with torch.no_grad():
                for each, before in buffers:
                    each.copy_(before)


def _alike(left: TensorScales, right: TensorScales, rtol: float) -> bool:
    """Return whether both passes have the same mean magnitude, or neither has one."""
    for one, other in ((left.forward, right.forward), (left.backward, right.backward)):
        if one is None or other is None:
            if one is not other:
                return False
        elif not math.isclose(one.mean_abs, other.mean_abs, rel_tol=rtol):
            return False
    return True
