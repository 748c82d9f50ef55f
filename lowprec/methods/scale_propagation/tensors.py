"""ScaledArrays as torch tensors: torch's autograd computes by the rules, gradients with scales included.

torch is imported when a tensor is made.

Floor 4.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from lowprec.arrays.checks import as_array, is_tensor
from lowprec.arrays.doubles import reals
from lowprec.arrays.kinds import tensor_of
from lowprec.methods._torch import KINDS, LOADERS, torch_module
from lowprec.methods.scale_propagation.gathers import embedding, scatter_add
from lowprec.methods.scale_propagation.scaled_array import ScaledArray, as_scaled, with_data
from lowprec.spec import catalog


def to_tensor(x: Any, *, requires_grad: bool = False) -> Any:
    """Return a ScaledArray as a torch tensor that carries its scale through torch code and its gradients.

        w = sp.to_tensor(sp.as_scaled(np.ones((8, 2), np.float32), 1.0), requires_grad=True)
        x = sp.to_tensor(sp.as_scaled(np.ones((4, 8), np.float32), 2.0**-40))
        (x @ w).relu().sum().backward()
        w.grad.array                     # a ScaledArray

    Parameters
    ----------
    x : ScaledArray or array of float
        A plain array gets a scale of 1.
    requires_grad : bool

    Returns
    -------
    tensor : torch.Tensor
        Its `array` is x, a ScaledArray. Torch takes it for a float32 tensor on the CPU; formats and scales
        are those of the arrays. Operations that have no rule raise a TypeError. Tensors change in place by
        `copy_` from another of their shape, only as a whole, and `detach()`, `data` and views with them; all
        else that would change one in place raises a RuntimeError. `torch.save` keeps them; ``torch.load``
        reads them once a program has called `differentiable` or `to_tensor`.

    Raises ImportError: without torch.
    """
    return _tensors()(_Memory(as_scaled(x, 1.0))).requires_grad_(requires_grad)


KINDS[ScaledArray] = to_tensor


# -- operations of torch, and the NumPy code that has rules for them ----------------------------------


def _sizes(x: Any, sizes: Any, **_: Any) -> Any:
    """Broadcast; -1 is the length that an axis has."""
    own = (1,) * (len(sizes) - x.ndim) + x.shape
    return np.broadcast_to(x, tuple(n if size == -1 else size for n, size in zip(own, sizes, strict=True)))


def _along(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a reduction with torch's arguments; no axes are all."""

    def reduced(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
        return function(x, axis=(x.ndim and tuple(dim or ())) or None, keepdims=keepdim)

    return reduced


def _log_softmax(x: Any, dim: int, half: bool) -> Any:
    below = x - np.max(x, axis=dim, keepdims=True)
    return below - np.log(np.sum(np.exp(below), axis=dim, keepdims=True))


def _index(dim: int, ndim: int, where: Any) -> tuple[Any, ...]:
    """Return the index for an index or a slice along one axis."""
    return (*[slice(None)] * (dim % ndim), where)


def _taken(x: Any, dim: int, where: Any) -> Any:
    """Return x at an index or a slice along one axis."""
    return x[_index(dim, x.ndim, where)]


def _put(g: Any, sizes: Any, dim: int, where: Any) -> Any:
    """Return the gradient of `_taken`: zeros of these sizes with g where it was taken."""
    given = as_scaled(g, 1.0)
    data = np.zeros(tuple(sizes), given.data.dtype)
    data[_index(dim, data.ndim, where)] = given.data
    return with_data(given, data)


def _split(x: Any, sizes: Any, dim: int = 0) -> list[Any]:
    """Return pieces of x along an axis, of one size (the last may be smaller) or of several."""
    length, one = x.shape[dim], isinstance(sizes, int)
    ends = [*range(sizes, length, sizes), length] if one else [*map(int, np.cumsum(sizes))]
    if not one and (ends[-1:] != [length] or min(sizes) < 0):
        raise ValueError(
            f"pieces of {sizes} do not make up an axis of {length}: give sizes that add up to it"
        )
    return [_taken(x, dim, slice(*each)) for each in itertools.pairwise([0, *ends])]


def _times(x: Any, factor: Any) -> Any:
    """Multiply by an alpha or beta of torch, 1 by default."""
    return x if factor == 1 else x * factor


def _embedding_backward(g: Any, places: Any, rows: int, padding: int, _: bool) -> Any:
    """Return the gradient of a table, none for the row of padding (-1: no such row)."""
    return scatter_add(np.where((places == padding)[..., None], 0.0, g), places, rows)


_RULES: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("detach", "alias", "clone", "new_empty_strided"), lambda x, *_: x),
    **dict.fromkeys(("view", "_unsafe_view"), np.reshape),
    **dict.fromkeys(("t", "permute"), np.transpose),
    **dict.fromkeys(("mul.Tensor", "mul.Scalar"), np.multiply),
    **dict.fromkeys(("div.Tensor", "div.Scalar"), np.divide),
    **dict.fromkeys(("mm", "bmm"), np.matmul),
    **dict.fromkeys(("gt.Scalar", "gt.Tensor"), np.greater),
    **dict.fromkeys(("lt.Scalar", "lt.Tensor"), np.less),
    **dict.fromkeys(("ge.Scalar", "ge.Tensor"), np.greater_equal),
    **dict.fromkeys(("le.Scalar", "le.Tensor"), np.less_equal),
    **dict.fromkeys(("eq.Scalar", "eq.Tensor"), np.equal),
    **dict.fromkeys(("ne.Scalar", "ne.Tensor"), np.not_equal),
    "ones_like": np.ones_like,
    "zeros_like": np.zeros_like,
    "transpose.int": np.swapaxes,
    "expand": _sizes,
    "unsqueeze": np.expand_dims,
    "squeeze.dim": lambda x, dim: np.squeeze(x, dim) if x.shape[dim : dim + 1 or None] == (1,) else x,
    "select.int": _taken,
    "select_backward": _put,
    "slice.Tensor": lambda x, dim=0, *ends: _taken(x, dim, slice(*ends)),
    "slice_backward": lambda g, sizes, dim, *ends: _put(g, sizes, dim, slice(*ends)),
    "split.Tensor": _split,
    "split_with_sizes": _split,
    "unbind.int": lambda x, dim=0: [_taken(x, dim, place) for place in range(x.shape[dim])],
    "cat": lambda parts, dim=0: np.concatenate(parts, axis=dim),
    "stack": lambda parts, dim=0: np.stack(parts, axis=dim),
    "masked_fill.Scalar": lambda x, mask, value: np.where(mask, value, x),
    "neg": np.negative,
    "sgn": np.sign,
    "add.Tensor": lambda x, y, alpha=1: x + _times(y, alpha),
    "sub.Tensor": lambda x, y, alpha=1: x - _times(y, alpha),
    "rsub.Scalar": lambda x, y, alpha=1: y - _times(x, alpha),
    "reciprocal": np.reciprocal,
    "pow.Tensor_Scalar": np.power,
    "sqrt": np.sqrt,
    "abs": np.abs,
    "addmm": lambda bias, x, w, beta=1, alpha=1: _times(x @ w, alpha) + _times(bias, beta),
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "tanh_backward": lambda g, y: g * (1 - y * y),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "sigmoid_backward": lambda g, y: g * (y * (1 - y)),
    "sum": np.sum,
    "mean": np.mean,
    "sum.dim_IntList": _along(np.sum),
    "mean.dim": _along(np.mean),
    "amax": _along(np.max),
    "argmax": lambda x, dim=None, keepdim=False: np.argmax(x, axis=dim, keepdims=keepdim),
    "where.self": np.where,
    "relu": lambda x: np.maximum(x, 0),
    "threshold_backward": lambda g, y, end: np.where(y > end, g, 0),
    "_local_scalar_dense": lambda x: float(np.reshape(x, ())),
    "_log_softmax": _log_softmax,
    "_log_softmax_backward_data": lambda g, y, dim, _: g - np.exp(y) * np.sum(g, axis=dim, keepdims=True),
    "_softmax": lambda *given: np.exp(_log_softmax(*given)),
    "_softmax_backward_data": lambda g, y, dim, _: y * (g - np.sum(g * y, axis=dim, keepdims=True)),
    "embedding": lambda w, places, *_: embedding(places, w)[0],
    "embedding_dense_backward": _embedding_backward,
}

#: Operations whose results have the memory of their operand, for torch: all of it, or parts.
_WHOLE = ("detach", "alias")
_PARTS = (
    *("view", "t", "permute", "transpose.int", "expand", "unsqueeze", "squeeze.dim"),
    *("select.int", "slice.Tensor", "split.Tensor", "split_with_sizes", "unbind.int"),
)

#: Keywords that rules have, and what others may say: torch's defaults of memory and type.
_KEYWORDS = ("alpha", "beta")
_MEMORY = ("None", "False", "cpu", *(f"torch.{each}" for each in ("float32", "strided", "preserve_format")))
_MEMORY += ("torch.contiguous_format",)


class _Memory:
    """A ScaledArray that several tensors share, as torch's detach() and views share memory."""

    def __init__(self, array: ScaledArray, whole: Any = None, again: Any = None) -> None:
        self.array, self.whole, self.again = array, whole, again
        self.seen = whole and whole.read()

    def read(self) -> Any:
        """Return the array; that of a view is made again where the whole has changed."""
        if self.whole is not None and self.seen is not (now := self.whole.read()):
            self.seen, self.array = now, self.again(now)
        return self.array


@functools.cache
def _tensors() -> Any:
    torch = torch_module()

    class ScaledTensor(torch.Tensor):  # type: ignore[misc, name-defined]
        """A tensor of a ScaledArray."""

        memory: _Memory
        array = property(lambda self: self.memory.read())

        @staticmethod
        def __new__(cls, memory: _Memory) -> Any:
            made = torch.Tensor._make_wrapper_subclass(cls, memory.array.shape, dtype=torch.float32)
            made.memory = memory
            return made

        def _exchange(self, given: Any) -> None:
            if not isinstance(given, ScaledTensor) or given.shape != self.shape:
                raise _in_place("data")
            self.memory = given.memory

        data = property(torch.Tensor.detach, _exchange)

        def _without_memory(self, *_: Any, **__: Any) -> Any:
            raise TypeError(
                "a tensor of a ScaledArray has no memory that DLPack, apply_ or another process could read: "
                "give the plain tensor that sp.differentiable(sp.on_forward(sp.stop_scaling)) makes"
            )

        apply_ = share_memory_ = __dlpack__ = __dlpack_device__ = _without_memory

        def __repr__(self) -> str:
            return f"tensor of {self.array!r}"

        @classmethod
        def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), keywords: Any = None) -> Any:
            name = str(function).removeprefix("aten.").removesuffix(".default")
            if function._schema.is_mutable:
                own = name == "copy_" and all(isinstance(each, cls) for each in args[:2])
                if not own or args[0].shape != args[1].shape or args[0].memory.whole is not None:
                    raise _in_place(name)
                args[0].memory.array = args[1].array
                return args[0]
            if name not in _RULES:  # in inference_mode torch leaves operations made of others whole
                found = function.decompose(*args, **(keywords or {}))
                if found is not NotImplemented:
                    return found
            said = (keywords or {}).items()
            given = {key: each for key, each in said if key in _KEYWORDS or str(each) not in _MEMORY}
            if name == "embedding":
                given = {("scale_grad_by_freq", "sparse")[n]: True for n, each in enumerate(args[3:]) if each}
            if name not in _RULES or given.keys() - _KEYWORDS:
                what = "".join(f" with {key}={each}" for key, each in given.items())
                raise TypeError(
                    f"torch's {name}{what} has no rule for ScaledArrays: use operations that do, a function "
                    "of ScaledArrays that returns (y, its gradient's function) by sp.differentiable, or "
                    "plain tensors, which sp.differentiable(sp.on_forward(sp.stop_scaling)) makes"
                )
            if name in _WHOLE:
                return cls(args[0].memory)

            rest = [*map(_array, args[1:])]

            def made(x: Any) -> Any:
                return _RULES[name](x, *rest, **given)

            results = made(_array(args[0]))
            if name not in _PARTS:
                return _result(results)
            whole = args[0].memory
            if not isinstance(results, list):
                return cls(_Memory(results, whole, made))
            return [cls(_Memory(each, whole, lambda x, n=n: made(x)[n])) for n, each in enumerate(results)]

        def __reduce_ex__(self, protocol: Any) -> Any:
            x = self.array
            formats = [_named(each) for each in (x.format, x.scale_format)]
            data = tensor_of(np.array(x.data))
            kind = isinstance(self, torch.nn.Parameter)
            return rebuilt, (data, float(x.scale), *formats, self.requires_grad, kind)

    return ScaledTensor


def rebuilt(data: Any, scale: float, fmt: Any, scale_format: Any, grad: bool, parameter: bool) -> Any:
    """Return a tensor of a ScaledArray from what a pickle has of it."""
    array = ScaledArray(np.array(reals(data, "data")), scale, fmt, scale_format)
    if parameter:
        return torch_module().nn.Parameter(to_tensor(array), requires_grad=grad)
    return to_tensor(array, requires_grad=grad)


LOADERS.append(rebuilt)


def _named(fmt: Any) -> Any:
    """Return a format's name where that says which it is, as a file of plain data has it."""
    try:
        return fmt.name if catalog.format(fmt.name) == fmt else fmt
    except ValueError:
        return fmt


def _in_place(name: str) -> RuntimeError:
    """Return the refusal of a change: no TypeError, of which Python makes ``p = p - q`` for ``p -= q``."""
    return RuntimeError(
        f"torch's {name} cannot change a tensor in place here: a plain tensor has no place for a scale, and "
        "one with a scale takes new values only as a whole, by w.copy_(y) of another with its shape and a "
        "scale; write p = p - q for p -= q, and give a plain tensor what "
        "sp.differentiable(sp.on_forward(sp.stop_scaling))(y) returns"
    )


def _result(made: Any) -> Any:
    """Return what a rule gave as a tensor."""
    if isinstance(made, ScaledArray):
        return to_tensor(made)
    return torch_module().as_tensor(made) if isinstance(made, np.ndarray | np.generic) else made


def _array(given: Any) -> Any:
    """Return the array of a tensor, plain ones too; of a list those of its tensors."""
    if isinstance(given, list) and any(map(is_tensor, given)):
        return [*map(_array, given)]
    plain = is_tensor(given) and not hasattr(given, "array")
    return as_array(given) if plain else getattr(given, "array", given)
