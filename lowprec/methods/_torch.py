"""Operations with a backward pass of their own, in torch's autograd.

torch is imported when `differentiable` is called.

Floor 4. Methods import no method; this is none, and only they import it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import numpy as np

from lowprec.arrays.checks import as_array, dtype, is_tensor
from lowprec.arrays.convert import encode
from lowprec.arrays.kinds import tensor_of
from lowprec.spec import catalog

Operation = Callable[..., tuple[Any, Callable[..., Any]]]

#: Receives the name and the result of each operation that a model applies; set while a model is reported.
WATCH: ContextVar[Callable[[str, Any], None] | None] = ContextVar("watch", default=None)

#: Functions that return what a model's layers remember besides its state_dict, each with one to put it back.
MEMORIES: list[tuple[Callable[[Any], Any], Callable[[Any, Any], None]]] = []

#: Functions to tensors from arrays that are not NumPy's, by the arrays' type; they take plain arrays too.
KINDS: dict[type, Callable[[Any], Any]] = {}

#: Functions that torch.load may call, to make tensors of a method's own.
LOADERS: list[Any] = []

#: Functions that torch.compile leaves as they are; filled once torch is imported.
_OUTSIDE: dict[Callable[..., Any], Callable[..., Any]] = {}


def differentiable(operation: Operation) -> Callable[..., Any]:
    """Return an operation of torch tensors with a history, from one that gives its output and its gradients.

        linear = us.differentiable(us.linear)
        x, w = torch.randn(64, 256), torch.randn(256, 256, requires_grad=True)
        linear(x, w).square().mean().backward()

    Parameters
    ----------
    operation : callable
        Gives (y, pull): y an array or several, and the function from their gradients to those of the
        operands. Operations of `unit_scaling` and those of `scale_propagation` that have a gradient are such,
        also within `functools.partial`.

    Returns
    -------
    function : callable
        With the same parameters. Operands are tensors of floats, arrays of floats, and lists of these; all
        others are settings. It gives y alone, a tensor in the type that the operation computes; gradients
        have the types of the operands. All is computed on the CPU, with the bits of the operation.

    Within `torch.compile` it stands between two graphs. There are no second derivatives.

    Raises ImportError: without torch. ValueError, when gradients are computed: another number of them than of
    operands.
    """
    return functools.partial(outside_graphs(_applied), operation)


def torch_module() -> Any:
    """Import torch and let it load what methods save, or say how to install it."""
    try:
        import torch
    except ImportError as error:
        raise ImportError('gradients of torch need torch: pip install "lowprec[torch]"') from error
    torch.serialization.add_safe_globals(LOADERS)
    return torch


def outside_graphs(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function for torch.compile to call as it is, between graphs.

    Pickles find it by the function's name without the underscore, as its module's `__getattr__` gives it.
    """
    if function not in _OUTSIDE:
        found = torch_module().compiler.disable(function)
        found.__qualname__ = found.__name__ = function.__name__.removeprefix("_")
        _OUTSIDE[function] = found
    return _OUTSIDE[function]


def __getattr__(name: str) -> Any:
    if name == "applied":
        return outside_graphs(_applied)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _applied(operation: Operation, /, *args: Any, **settings: Any) -> Any:
    from torch.utils import _pytree as trees

    bound = inspect.signature(operation).bind(*args, **settings)
    leaves, tree = trees.tree_flatten((bound.args, bound.kwargs))
    places = [place for place, leaf in enumerate(leaves) if _is_operand(leaf)]

    def call(values: list[Any]) -> tuple[Any, Callable[..., Any]]:
        given = dict(enumerate(leaves)) | dict(zip(places, values, strict=True))
        positional, keywords = trees.tree_unflatten(list(given.values()), tree)
        return operation(*positional, **keywords)

    inner = operation
    while isinstance(inner, functools.partial):
        inner = inner.func
    name = getattr(inner, "__name__", "operation").lstrip("_")
    made = _function().apply(name, call, *(_tensor(leaves[place], "cpu") for place in places))
    if (watch := WATCH.get()) is not None:
        watch(name, made)
    return made


def _is_operand(given: Any) -> bool:
    if is_tensor(given):
        return bool(given.is_floating_point())
    kind = getattr(given, "dtype", None) if hasattr(given, "__array_function__") else None
    return kind is not None and kind.kind in "fV" and catalog.carrier(kind) is not None


def _given(value: Any) -> Any:
    """Return the array that a tensor with a scale stands for; all else as it is."""
    return getattr(value, "array", value)


def values_of(tensor: Any) -> Any:
    """Return the values of a tensor as an array, those of one with a scale in float64."""
    given = _given(tensor)
    return given.to_array() if type(given) in KINDS else as_array(given)


def _tensor(made: Any, device: Any) -> Any:
    """Convert a result to a tensor."""
    if type(made) in KINDS:
        return KINDS[type(made)](made)
    return made if is_tensor(made) else tensor_of(np.array(made), device)


def _gradient(made: Any, operand: Any) -> Any:
    """Return a gradient as a tensor of the operand's kind."""
    if type(_given(operand)) in KINDS:
        return KINDS[type(_given(operand))](made)
    plain = values_of(made)
    fmt = operand.dtype  # to which torch would round float64 by float32
    kind = np.dtype(np.float64) if fmt.itemsize == 8 else dtype(fmt)
    rounded = plain if plain.dtype.itemsize <= kind.itemsize else np.asarray(encode(plain, fmt)).view(kind)
    return _tensor(rounded, operand.device).to(operand.device, fmt)


@functools.cache
def _function() -> Any:
    torch = torch_module()

    class Once(torch.autograd.Function):  # type: ignore[misc, name-defined]
        """A gradient, which depends on the operand in a way that nothing differentiates."""

        @staticmethod
        def forward(ctx: Any, name: str, made: Any, operand: Any) -> Any:
            ctx.name = name
            return made

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            raise RuntimeError(
                f"{ctx.name} has first derivatives only: its gradient is a rule in NumPy, which torch cannot "
                "differentiate again; leave out create_graph=True, or detach this gradient"
            )

    class Pair(torch.autograd.Function):  # type: ignore[misc, name-defined]
        """An operation, forward, and its own gradients, backward."""

        @staticmethod
        def forward(ctx: Any, name: str, call: Any, *operands: Any) -> Any:
            ctx.save_for_backward(*operands)  # autograd refuses what has changed since
            made, ctx.pull = call([_given(each) for each in operands])
            ctx.name, device = name, operands[0].device if operands else "cpu"
            several = isinstance(made, tuple)
            return tuple(_tensor(each, device) for each in made) if several else _tensor(made, device)

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            again = torch.is_grad_enabled()  # with create_graph=True
            with torch.no_grad():
                found = Pair.rules(ctx, *gradients)
            if again:
                pairs = zip(found, ctx.saved_tensors, strict=True)
                found = [None if each is None else Once.apply(ctx.name, each, x) for each, x in pairs]
            return None, None, *found

        @staticmethod
        def rules(ctx: Any, *gradients: Any) -> list[Any]:
            """Return the gradients of the operands, by the operation's own rules."""
            operands, made = ctx.saved_tensors, ctx.pull(*map(_given, gradients))
            made = [each for each in (made if isinstance(made, tuple) else (made,)) if each is not None]
            if len(made) != len(operands):
                raise ValueError(
                    f"{ctx.name} gives {len(made)} gradients, and {len(operands)} of its operands are "
                    f"tensors or arrays of floats; give every operand that has a gradient as one, zeros "
                    "for a bias that is not there"
                )
            found = zip(made, operands, ctx.needs_input_grad[2:], strict=True)
            return [_gradient(each, x) if needed else None for each, x, needed in found]

    return Pair
