"""Operands of all kinds, and results of the kind of their operands.

A torch tensor is read by its bits, without its gradient; its result lies on the same device. Frames of pandas
keep their index, and each of their elements counts in its own type. Arrays of Dask and xarray are `lazy`'s.

Floor 3.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from lowprec.arrays import lazy
from lowprec.arrays.checks import Array, as_array, broadcast_shape, is_tensor
from lowprec.arrays.frames import common_type, is_arrow, is_frame, typed_parts
from lowprec.arrays.outputs import outputs
from lowprec.arrays.random import words_for
from lowprec.graphs import leave_graphs
from lowprec.kernels.modes import usual_modes
from lowprec.spec.format import Format
from lowprec.spec.projection import DEFAULT, Projection

__all__ = [
    "apply",
    "brings_dtype",
    "check_beside",
    "check_labels",
    "check_products",
    "is_outside",
    "keeps_kind",
    "like",
    "tensor_of",
]


def is_outside(values: object) -> bool:
    """Return whether values are no array in memory: lazy or named, a tensor or a frame."""
    if type(values) is np.ndarray or values is None:
        return False
    return is_tensor(values) or is_frame(values) or lazy.is_lazy(values)


def brings_dtype(values: object) -> bool:
    """Return whether values had a type before they became an array: no list, and no Python number."""
    brings = hasattr(values, "dtype") or hasattr(values, "__dlpack__")
    return brings or is_frame(values) or is_arrow(values)


def tensor_of(array: Array, device: Any = "cpu") -> Any:
    """Return an array as a torch tensor that shares its memory; ml_dtypes' types become torch's."""
    torch: Any = sys.modules["torch"]
    name = array.dtype.name
    if array.dtype.isbuiltin == 2:  # of ml_dtypes
        if not hasattr(torch, name):
            raise TypeError(
                f"torch has no type {name}, so results of a tensor cannot have it; give "
                f"dtype='uint{8 * array.itemsize}' for the same codes as integers, or .numpy() of the tensor"
            )
        bits = array.view(np.uint8 if array.itemsize == 1 else np.int16)
        return torch.from_numpy(bits).view(getattr(torch, name)).to(device)
    return torch.from_numpy(array.astype(array.dtype.newbyteorder("="), copy=False)).to(device)


def like(made: Any, *given: Any, out: object = None) -> Any:
    """Return results in the kind of the first operand that is a tensor or a frame; `out` stays what it is."""
    if out is not None or lazy.is_lazy(made):
        return made
    for each in given:
        if is_tensor(each):
            return tensor_of(np.asarray(made), each.device)
    frames = [each for each in given if is_frame(each)]
    frame = next((each for each in frames if each.shape == np.shape(made)), None)
    if frame is None:
        return made
    if frame.ndim == 1:
        same = all(other.name == frame.name for other in frames)
        return type(frame)(made, index=frame.index, name=frame.name if same else None)
    return type(frame)(made, index=frame.index, columns=frame.columns)


# -- names of frames ---------------------------------------------------------------------------------


def check_labels(*operands: Any, **joined: Any) -> None:
    """Refuse frames of other rows or columns, or in another order, as nothing is aligned here.

    Operands have all axes alike; what is `joined` to the first one has its names where it has its length.
    """
    frames = [each for each in operands if is_frame(each)]
    for other in frames[1:]:
        if frames[0].ndim != other.ndim or not all(map(_equal, frames[0].axes, other.axes)):
            raise ValueError(
                "operands are frames with different rows or columns, which are not aligned here; give "
                "first.align(second), or .to_numpy() of one"
            )
    for name, other in joined.items() if frames else ():
        _check_joined(name, other, frames[0].axes)


def _check_joined(name: str, other: Any, axes: list[Any]) -> None:
    """Refuse a frame that has other names along one of these axes, None where that has no names."""
    pairs = zip(reversed(axes), reversed(other.axes if is_frame(other) else []), strict=False)
    if any(mine is not None and len(mine) == len(own) and not _equal(mine, own) for mine, own in pairs):
        raise ValueError(
            f"{name} has other rows or columns than the frame that it goes with, which are not aligned "
            f"here; reindex one of them, or give its .to_numpy()"
        )


def check_beside(operands: tuple[Any, ...], random: Any, out: Any) -> None:
    """Refuse a frame beside operands whose kind or shape the results have, which lose its names."""
    frame = None if out is not None else next(filter(is_frame, operands), None)
    if frame is None or any(map(lazy.is_named, operands)):  # which `lazy` refuses
        return
    other = next((each for each in operands if is_tensor(each) or lazy.is_dask(each)), None)
    what = "an array of a larger shape"
    other = random if other is None and lazy.is_dask(random) else other
    if other is not None:
        what = f"{type(other).__name__} of {type(other).__module__.partition('.')[0]}"
    elif not any(_is_larger(np.shape(each), frame.shape) for each in operands):
        return
    raise TypeError(
        f"results of {type(frame).__name__} beside {what} have no place for the names of a frame; give its "
        ".to_numpy()"
    )


def _is_larger(shape: tuple[int, ...], than: tuple[int, ...]) -> bool:
    """Return whether a shape that broadcasts with another makes that one larger."""
    pairs = zip(reversed(shape), reversed(than), strict=False)
    return len(shape) > len(than) or any(own == 1 != length for length, own in pairs)


def check_products(x: Any, y: Any, along: int, scales: Any, joined: dict[str, Any]) -> None:
    """Refuse frames in a product whose names differ along K, or along the same rows or columns."""
    if is_frame(x) and is_frame(y) and not _equal(x.axes[-1], y.axes[along]):
        raise ValueError(
            "factors are frames with different names along K, which are not aligned here; give "
            ".reindex(...) of one, or .to_numpy() of both"
        )
    rows, columns = _without_k(x, -1), _without_k(y, along)
    if along == -1:
        _check_joined("y", y, [*rows, None])
        rows, columns = rows if any(each is not None for each in rows) else columns, []
    for name, each in joined.items():
        _check_joined(name, each, [*rows, *columns])
    for name, side, scale, k in zip("xy", (x, y), scales or (None, None), (-1, along), strict=True):
        if is_frame(side) and is_frame(scale):
            axes = side.axes if scale.ndim == side.ndim else _without_k(side, k)
            _check_joined(f"scale of {name}", scale, axes)


def _without_k(factor: Any, k: int) -> list[Any]:
    """Return the names of a factor's other axis, None if it has none; of a single row nothing."""
    ndim = np.ndim(factor)
    return [factor.axes[k - 1] if is_frame(factor) else None] if ndim > 1 else []


def _equal(first: Any, second: Any) -> bool:
    return bool(first.equals(second))


# -- elementwise -------------------------------------------------------------------------------------


def apply(
    verb: Callable[..., Any],
    *operands: Any,
    fmt: Format | None = None,
    rule: Projection = DEFAULT,
    random: Any = None,
    rng: Any = None,
    flags: Any = None,
    out: Any = None,
) -> Any:
    """Apply an elementwise verb of arrays to operands of any kind; return results of that kind.

    `verb` takes as many arrays, and of the keywords those that are present. Arrays of Dask and xarray,
    also as `random`, give lazy or named results. `fmt` and `rule` say how random integers are shared.
    """
    check_labels(*operands, random=random)
    check_beside(operands, random, out)
    given = {"random": random, "rng": rng, "flags": flags, "out": out}
    if any(map(lazy.is_lazy, (*operands, random))):
        return lazy.apply(verb, *operands, fmt=fmt, rule=rule, **given)
    parts = [_parts(each) for each in operands]
    if all(len(each) == 1 for each in parts):
        made = verb(*(each[0][0] for each in parts), **lazy.present(**given))
    else:
        try:
            made = _by_type(verb, parts, fmt, rule, **given)
        except TypeError as error:
            columns = (array for each in parts for array, _ in each)
            if not any(array.dtype == np.float64 and np.isnan(array).any() for array in columns):
                raise
            gaps = "missing elements of a frame are NaN of float64, fill them first"
            raise TypeError(f"{error}; {gaps}") from None
    return like(made, *operands, out=out)


def _parts(values: Any) -> list[tuple[Array, Array]]:
    """Return values by their types: arrays of their shape, each with the mask of its own elements."""
    if is_frame(values):
        return list(typed_parts(values).values())
    return [(as_array(values), np.ones((), np.bool_))]


def _by_type(
    verb: Callable[..., Any], operands: list[list[tuple[Array, Array]]], fmt: Format | None, rule: Projection,
    random: Any, rng: Any, flags: Any, out: Any,
) -> Any:  # fmt: skip
    """Return a verb's results of operands with elements of several types: of each type by itself."""
    shape, group = (
        broadcast_shape("an operation", *(each[0][0] for each in operands)),
        lazy.group_of(rule, fmt),
    )
    kinds = [[array.dtype for array, _ in each] for each in operands]
    empty = [np.empty(0, each[0] if _whole(each) else common_type(each)) for each in kinds]
    dtype = out.dtype if isinstance(out, np.ndarray) else lazy.trial(verb, empty, rule, random, rng)
    place, signals = outputs(out, flags, dtype, shape, "the results")
    made, raised = np.empty(shape, dtype), np.zeros(shape, np.uint8)
    words, lane = None, np.broadcast_to(np.arange(shape[-1]) % group, shape)
    if rule.rounding.bits:
        words = words_for(rule.rounding, group, shape, random, rng).repeat(group, axis=-1)[..., : shape[-1]]
    for some in itertools.product(*operands):
        where = np.logical_and.reduce([np.broadcast_to(known, shape) for _, known in some])
        if not where.any():
            continue
        # A word goes with as many elements as share it: of copies each has the bits of another lane.
        arrays = [np.broadcast_to(array, shape)[where].repeat(group) for array, _ in some]
        own = np.arange(arrays[0].size // group) * group + lane[where]
        options = lazy.present(random=None if words is None else words[where])
        options |= {} if signals is None else {"flags": np.zeros(arrays[0].shape, np.uint8)}
        options |= {} if place is None else {"out": np.empty(arrays[0].shape, dtype)}
        try:
            made[where] = verb(*arrays, **options)[own]
        except (TypeError, ValueError) as error:
            error.add_note(
                f"places are those among the elements of {' and '.join(str(a.dtype) for a in arrays)}"
            )
            raise
        if signals is not None:
            raised[where] = options["flags"][own]
    if signals is not None:
        signals[...] = raised
    if place is None:
        return made
    place[...] = made
    return out


def _whole(kinds: list[np.dtype[Any]]) -> bool:
    """Return whether all are integers, which codes are too where no type holds both."""
    return all(kind.kind in "iu" for kind in kinds)


def keeps_kind(
    count: int, elementwise: bool = False, along: int | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a function whose results have the kind of its first `count` operands; see `apply`.

    A function that is not elementwise takes lazy arrays itself. Products have their second factor's axis K
    at `along`, the first one's is the last; names of frames must be equal there, and results have none.
    """

    def decorate(verb: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(verb)
        names = [*signature.parameters][:count]

        @functools.wraps(verb)
        def kept(*values: Any, **options: Any) -> Any:
            if len(values) >= count and all([type(each) is np.ndarray for each in values[:count]]):
                return verb(*values, **options)
            leave_graphs()
            return others(*values, **options)

        @usual_modes()
        def others(*values: Any, **options: Any) -> Any:
            given = [*values[:count], *(options[name] for name in names if name in options)]
            if not any(map(is_outside, given)):
                return verb(*values, **options)
            lazy.check(*given)
            if elementwise:
                bound = signature.bind(*values, **options).arguments
                operands, flags = [bound.pop(name) for name in names], bound.pop("flags", None)
                return apply(functools.partial(kept, **bound), *operands, flags=flags)
            plain = [_in_memory(each) for each in values]
            named = {key: each if key == "out" else _in_memory(each) for key, each in options.items()}
            if along is not None:
                joined = {name: options.get(name) for name in ("addend", "bias", "output_scale")}
                check_products(given[0], given[1], along, options.get("scales"), joined)
                given = [each for each in given if not is_frame(each)]
            made = verb(*plain, **named)
            return like(made, *given, out=options.get("out"))

        return kept

    return decorate


def _in_memory(values: Any) -> Any:
    return as_array(values) if is_tensor(values) or is_frame(values) else values
