"""Arrays that results and flags are written to: what cannot take them is refused. Floor 3."""

from __future__ import annotations

from typing import Any

import numpy as np

from lowprec.arrays.checks import Array, is_tensor

__all__ = ["output", "outputs", "refuse_other_order"]


def output(
    out: object, wanted: np.dtype[Any], shape: tuple[int, ...], what: str, *, name: str = "out"
) -> Array | None:
    """Return the memory to write to as a plain array, or None; refuse what cannot take the results."""
    if out is None:
        return None
    if not isinstance(out, np.ndarray):
        viewable = is_tensor(out) and out.itemsize == wanted.itemsize and wanted.isbuiltin != 2  # type: ignore[attr-defined]
        hint = f"; give {name}.view(torch.{wanted}).numpy()" if viewable else ""
        raise TypeError(f"{name} must be a NumPy array of {wanted}, not {type(out).__name__}{hint}")
    if isinstance(out, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array, whose mask results do not have; give {name}.data")
    if out.dtype.kind != "T" and out.dtype.newbyteorder("=") == wanted:
        refuse_other_order(out, name, f"{wanted} for {what}")
    if out.dtype != wanted:
        viewable = out.dtype.itemsize == wanted.itemsize and out.dtype.isnative and not out.dtype.hasobject
        hint = f"; give {name}.view({wanted.name!r})" if viewable else ""
        raise TypeError(f"{name} must be an array of {wanted} for {what}, not of {out.dtype}{hint}")
    if out.shape != shape:
        raise ValueError(
            f"{name} has shape {out.shape}, but the result has shape {shape}; they must be equal"
        )
    if not out.flags.writeable:
        raise ValueError(f"{name} is read-only; give an array that can be written")
    if out.size and not out.flags.forc and _repeats(out):
        raise ValueError(
            f"{name} repeats elements in memory, as a view that was broadcast or windows that slide; give "
            f"{name}.copy()"
        )
    return out if type(out) is np.ndarray else out.view(np.ndarray)


def _repeats(out: Array) -> bool:
    """Return whether two elements share a byte."""
    axes = sorted((abs(step), n) for n, step in zip(out.shape, out.strides, strict=True) if n > 1)
    room, nested = out.itemsize, True
    for step, n in axes:
        if not step:
            return True
        nested, room = nested and step >= room, room + step * (n - 1)
    if nested:
        return False
    places = np.zeros(1, np.int64)
    for step, n in axes:
        places = np.add.outer(places, step * np.arange(n)).reshape(-1)
    return bool((np.diff(np.sort(places)) < out.itemsize).any())


def refuse_other_order(out: object, name: str = "out", wanted: str = "") -> None:
    """Refuse an array to write to whose bytes are in the other order than the machine's."""
    if isinstance(out, np.ndarray) and not out.dtype.isnative:
        said = f"must be an array of {wanted}, not" if wanted else "is"
        way = (
            "" if out.dtype.kind == "V" else f", of which .astype({out.dtype.str!r}) makes one in that order"
        )
        raise TypeError(
            f"{name} {said} of {out.dtype}, whose bytes are in the other order than this machine's; give a "
            f"native array{way}"
        )


def outputs(
    out: object, flags: object, wanted: np.dtype[Any], shape: tuple[int, ...], what: str
) -> tuple[Array | None, Array | None]:
    """Return the memory to write results and flags to, as `output`; refuse one memory for both."""
    place = output(out, wanted, shape, what)
    signals = output(flags, np.dtype(np.uint8), shape, "what is signaled", name="flags")
    most: Any = 10_000  # steps of a search that fields of one array do not need
    if place is not None and signals is not None and np.may_share_memory(place, signals, most):
        raise ValueError("out and flags share memory; give each an array of its own")
    return place, signals
