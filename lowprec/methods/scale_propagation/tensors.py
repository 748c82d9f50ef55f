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
        `copy_` alone, and only as a whole. `torch.save` keeps them; ``torch.load`` reads them once
        a program has called `differentiable` or `to_tensor`.

    Raises ImportError: without torch.
    """
    return _tensors()(as_scaled(x, 1.0)).requires_grad_(requires_grad)


KINDS[ScaledArray] = to_tensor


# -- operations of torch, and the NumPy code that has rules for them ----------------------------------


def _sizes(x: Any, sizes: Any, **_: Any) -> Any:
    """Broadcast; -1 is the length that an axis has."""
    own = (1,) * (len(sizes) - x.ndim) + x.shape
    return np.broadcast_to(x, tuple(n if size == -1 else size for n, size in zip(own, sizes, strict=True)))


def _along(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a reduction with torch's arguments; no axes are all."""

    def reduced(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
        return function(x, axis=tuple(dim or ()) or None, keepdims=keepdim)

    return reduced


def _log_softmax(x: Any, dim: int, half: bool) -> Any:
    below = x - np.max(x, axis=dim, keepdims=True)
    return below - np.log(np.sum(np.exp(below), axis=dim, keepdims=True))


def _taken(x: Any, dim: int, where: Any) -> Any:
    """Return x at an index or a slice along one axis."""
    return x[(*[slice(None)] * (dim % x.ndim), where)]


def _put(g: Any, sizes: Any, dim: int, where: Any) -> Any:
    """Return the gradient of `_taken`: zeros of these sizes with g where it was taken."""
    given = as_scaled(g, 1.0)
    data = np.zeros(tuple(sizes), given.data.dtype)
    _taken(data, dim, where)[...] = given.data
    return with_data(given, data)


def _split(x: Any, sizes: Any, dim: int = 0) -> list[Any]:
    """Return pieces of x along an axis, of one size (the last may be smaller) or of several."""
    ends = [*range(sizes, x.shape[dim], sizes), x.shape[dim]] if isinstance(sizes, int) else np.cumsum(sizes)
    return [_taken(x, dim, slice(*each)) for each in itertools.pairwise([0, *map(int, ends)])]


_RULES: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("detach", "alias", "clone", "new_empty_strided"), lambda x, *_: x),
    **dict.fromkeys(("view", "_unsafe_view"), np.reshape),
    **dict.fromkeys(("t", "permute"), np.transpose),
    **dict.fromkeys(("mul.Tensor", "mul.Scalar"), np.multiply),
    **dict.fromkeys(("div.Tensor", "div.Scalar"), np.divide),
    **dict.fromkeys(("mm", "bmm"), np.matmul),
    **dict.fromkeys(("gt.Scalar", "gt.Tensor"), np.greater),
    **dict.fromkeys(("lt.Scalar", "lt.Tensor"), np.less),
    **dict.fromkeys(("eq.Scalar", "eq.Tensor"), np.equal),
    "ones_like": np.ones_like,
    "zeros_like": np.zeros_like,
    "transpose.int": np.swapaxes,
    "expand": _sizes,
    "unsqueeze": np.expand_dims,
    "squeeze.dim": np.squeeze,
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
    "add.Tensor": np.add,
    "sub.Tensor": np.subtract,
    "rsub.Scalar": lambda x, y: y - x,
    "reciprocal": np.reciprocal,
    "pow.Tensor_Scalar": np.power,
    "sqrt": np.sqrt,
    "abs": np.abs,
    "addmm": lambda bias, x, w: x @ w + bias,
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
    "_local_scalar_dense": float,
    "_log_softmax": _log_softmax,
    "_log_softmax_backward_data": lambda g, y, dim, _: g - np.exp(y) * np.sum(g, axis=dim, keepdims=True),
    "_softmax": lambda *given: np.exp(_log_softmax(*given)),
    "_softmax_backward_data": lambda g, y, dim, _: y * (g - np.sum(g * y, axis=dim, keepdims=True)),
    "embedding": lambda w, places, *_: embedding(places, w)[0],
    "embedding_dense_backward": lambda g, places, rows, *_: scatter_add(g, places, rows),
}

#: Operations whose results torch takes for parts of their operand, which `copy_` would have to change.
_PARTS = (
    *("view", "t", "permute", "transpose.int", "expand", "unsqueeze", "squeeze.dim"),
    *("select.int", "slice.Tensor", "split.Tensor", "split_with_sizes", "unbind.int"),
)

#: What torch says of the memory of results.
_MEMORY = ("dtype", "layout", "device", "pin_memory", "memory_format")


@functools.cache
def _tensors() -> Any:
    torch = torch_module()

    class ScaledTensor(torch.Tensor):  # type: ignore[misc, name-defined]
        """A tensor of a ScaledArray."""

        array: ScaledArray

        @staticmethod
        def __new__(cls, array: ScaledArray) -> Any:
            made = torch.Tensor._make_wrapper_subclass(cls, array.shape, dtype=torch.float32)
            made.array = array
            return made

        def __repr__(self) -> str:
            return f"tensor of {self.array!r}"

        @classmethod
        def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), keywords: Any = None) -> Any:
            name = str(function).removeprefix("aten.").removesuffix(".default")
            own = name == "copy_" and args[0].shape == args[1].shape and hasattr(args[1], "array")
            if own and not hasattr(args[0], "part"):
                args[0].array = args[1].array
                return args[0]
            if name not in _RULES:
                raise TypeError(
                    f"torch's {name} has no rule for ScaledArrays: use operations that do, a function of "
                    f"ScaledArrays that returns (y, its gradient's function) by sp.differentiable, or plain "
                    f"tensors, which sp.differentiable(sp.on_forward(sp.stop_scaling)) makes"
                )
            given = {key: each for key, each in (keywords or {}).items() if key not in _MEMORY}
            made = _RULES[name](*map(_array, args), **given)
            several = isinstance(made, list)
            tensors = [_result(each, name in _PARTS) for each in (made if several else [made])]
            return tensors if several else tensors[0]

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


def _result(made: Any, part: bool) -> Any:
    """Return what a rule gave as a tensor; mark one that is part of another tensor for torch."""
    if not isinstance(made, ScaledArray):
        return torch_module().as_tensor(made) if isinstance(made, np.ndarray | np.generic) else made
    tensor = to_tensor(made)
    if part:
        tensor.part = True
    return tensor


def _array(given: Any) -> Any:
    """Return the array of a tensor, plain ones too; of a list those of its tensors."""
    if isinstance(given, list) and any(map(is_tensor, given)):
        return [*map(_array, given)]
    plain = is_tensor(given) and not hasattr(given, "array")
    return as_array(given) if plain else getattr(given, "array", given)
