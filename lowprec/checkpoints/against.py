"""Rules of lint that hold a quantised weight against its source: they try what brings values nearer."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.blocks.packing import swizzle, unswizzle
from lowprec.arrays.convert import decode, encode
from lowprec.checkpoints.decoding import (
    PART,
    axes_of,
    block_format_of,
    codes_of,
    offset_values,
    ranges,
    rows_together,
    scale_values,
    stored_scales,
    tensor_scale,
    values_of,
    zero_values,
)
from lowprec.checkpoints.schemes.sharing import by_block, for_elements, needed
from lowprec.checkpoints.structure import Finding
from lowprec.checkpoints.weights import Weight
from lowprec.kernels.modes import usual_arithmetic

__all__ = ["against_source"]

#: How many times smaller the error must be with scales moved.
_NEARER = 1.25
_SMALLEST_NORMAL = np.finfo(np.float32).smallest_normal


@usual_arithmetic()
def against_source(weight: Weight, source: Weight) -> list[Finding]:
    """Return what brings the values nearer to those that they were made of."""
    if source.problem is not None or source.value_shape != weight.value_shape:
        shapes = f"{list(weight.value_shape)}, and the source's {list(source.value_shape)}"
        remedy = "name the source of this checkpoint"
        return [Finding("source-shape", weight.name, f"its shape is {shapes}", remedy)]
    # Scales in tiles belong together: the whole weight where it is small, else rows as they are.
    small = math.prod(weight.shape) <= PART
    rows = (0, None) if small or weight.is_turned or source.is_turned else _largest_rows(weight, source)
    wanted = values_of(source, *rows, np.float64)
    if weight.scheme.transposed:
        wanted = wanted.swapaxes(-1, -2)
    if wrong := int(np.count_nonzero(~np.isfinite(wanted))):
        evidence, remedy = f"{wrong:,} values of the source are NaN or infinite", "name a source without"
        return [Finding("source-nan", weight.name, evidence, remedy)]
    as_is = _distance(_values(weight, rows), wanted)
    found = _of_places(weight, wanted, rows, as_is)
    if found or as_is < 0.1 or as_is < 1.5 * _least_distance(weight, wanted):
        return found
    tried = {
        "swapped-nibbles": "the elements of a pair lie in the wrong halves of the byte: swap the halves",
        "scale-inverted": "store the reciprocal of the scale",
        "scale-swizzled": "scales are swizzled; store them row by row",
        "scale-swizzled twice": "scales are swizzled twice; store them row by row",
        "scale-not-swizzled": "scales lie row by row: swizzle them, or let the header say so",
        "fp8-without-scale": "codes are the values themselves: the scale was not applied when quantising",
    }
    for rule, remedy in tried.items():
        values = _values(weight, rows, rule) if small or "swizzled" not in rule else None
        if values is not None and 4 * (then := _distance(values, wanted)) < as_is:
            evidence = f"the error is {as_is:.3g} of the weight, and {then:.3g} after the remedy"
            return [Finding(rule.split(" ")[0], weight.name, evidence, remedy)]
    evidence = f"the error is {as_is:.3g} of the weight's mean square"
    remedy = "this is another weight, or was damaged; quantise again"
    return [Finding("far-from-source", weight.name, evidence, remedy)]


def _of_places(
    weight: Weight, wanted: npt.NDArray[np.float64], rows: tuple[int, int | None], as_is: float
) -> list[Finding]:
    """Return whether scales lie beside the blocks that they are of, all by the same distance.

    Codes are the nearest for the scales that they were made by, so that no other place of these makes the
    error smaller where they lie right.
    """
    units = np.abs(scale_values(weight, *rows).astype(np.float64))
    highest = by_block(np.maximum, np.abs(wanted), weight.sizes)
    if units.shape != highest.shape or units.ndim < 2 or weight.groups is not None or not as_is:
        return []
    found = [places for axis in (0, 1) if any(places := _shift(highest, units, axis))]
    errors = [_distance(_values(weight, rows, places=places), wanted) for places in found]
    then = min(errors, default=as_is)
    if _NEARER * then >= as_is or then >= 0.1 and then >= 1.5 * _least_distance(weight, wanted):
        return []  # of another weight any scales are wrong
    by, over = found[errors.index(then)]
    moved = f"{by or over:+} {'row' if by else 'column'}{'s' * (abs(by or over) > 1)}"
    evidence = f"the error is {as_is:.3g} of the weight, and {then:.3g} with scales moved by {moved}"
    remedy = "scales lie beside other blocks than their own, as from another part: export again"
    return [Finding("scale-misplaced", needed(weight.scales).name, evidence, remedy)]


def _shift(highest: npt.NDArray[np.float64], units: npt.NDArray[np.float64], axis: int) -> tuple[int, int]:
    """Return by how much scales must be rolled to vary as the largest magnitudes do: rows, and columns."""
    of, scales = (part.reshape(-1, part.shape[-1]) for part in (highest, units))
    if of.shape[axis] < 2:
        return 0, 0
    with np.errstate(all="ignore"):
        logs = [np.log2(part) for part in (of, scales)]
    known = np.isfinite(logs[0]) & np.isfinite(logs[1])
    if not known.any():
        return 0, 0
    logs = [np.where(known, part - part.mean(where=known), 0) for part in logs]
    spectra = [np.fft.fft(part, axis=axis) for part in logs]
    alike = np.fft.ifft(spectra[0] * spectra[1].conj(), axis=axis).real.sum(axis=1 - axis)
    best, length = int(np.argmax(alike)), of.shape[axis]
    if alike[best] <= alike[0]:
        return 0, 0
    best = best if 2 * best <= length else best - length
    return (best, 0) if axis == 0 else (0, best)


def _largest_rows(weight: Weight, source: Weight) -> tuple[int, int | None]:
    """Return the rows that tell most of a large weight's error: a range whose values are the largest."""
    parts, sizes = list(ranges(weight, unit=rows_together(source))), []
    for rows in parts:
        with np.errstate(over="ignore"):
            sizes.append(float(np.sum(np.square(values_of(source, *rows, np.float64)))))
        if not math.isfinite(sizes[-1]):
            break
    return parts[int(np.argmax(sizes))]


def _least_distance(weight: Weight, wanted: npt.NDArray[np.float64]) -> float:
    """Return the error that the weight's own block format makes; 0 where it has none."""
    fmt = block_format_of(weight, made=True)
    return 0.0 if fmt is None else _distance(encode(wanted, fmt, axis=axes_of(weight, fmt)).values(), wanted)


def _values(
    weight: Weight, rows: tuple[int, int | None], changed: str = "", places: tuple[int, int] | None = None
) -> npt.NDArray[np.float64] | None:
    """Return the values of some rows, with a remedy tried; None where it is none for such a weight.

    Scales are rolled by `places`, along rows and columns.
    """
    codes, units = codes_of(weight, *rows), scale_values(weight, *rows).astype(np.float64)
    tensor = tensor_scale(weight, *rows)
    factor: Any = np.float64(1)
    if tensor is not None:
        factor = 1 / tensor.astype(np.float64) if weight.scheme.divides else tensor / weight.over
    if changed == "swapped-nibbles":
        if not weight.scheme.packing.is_paired:
            return None
        codes = codes.reshape(*codes.shape[:-1], -1, 2)[..., ::-1].reshape(codes.shape)
    elif changed == "scale-inverted" and tensor is not None:
        factor = 1 / factor
    elif changed == "scale-inverted":
        units = 1 / units
    elif changed.startswith("scale-swizzled"):
        stored = stored_scales(weight)
        if stored.ndim != 2 or stored.shape[0] % 128 or stored.shape[1] % 4:
            return None
        for _ in range(2 if changed.endswith("twice") else 1):
            units = unswizzle(units.reshape(-1), units.shape)
    elif changed == "scale-not-swizzled":
        if not weight.swizzled or units.ndim != 2 or units.shape[0] % 128 or units.shape[1] % 4:
            return None
        units = swizzle(units).reshape(units.shape)
    elif changed == "fp8-without-scale":
        units = np.ones_like(units)
    if places is not None:
        units = np.roll(units.reshape(-1, units.shape[-1]), places, (0, 1)).reshape(units.shape)
    elements = np.asarray(decode(codes, weight.format, dtype=np.float64))
    if weight.zeros is not None:
        zeros = zero_values(weight, *rows, np.float64)
        elements -= for_elements(zeros, elements.shape, weight.sizes)
    with np.errstate(all="ignore"):
        elements *= for_elements(units, elements.shape, weight.sizes) * factor
    if (offsets := offset_values(weight, *rows)) is not None:
        elements += for_elements(offsets.astype(np.float64), elements.shape, weight.sizes)
    return elements


def _distance(values: npt.NDArray[np.float64] | None, wanted: npt.NDArray[np.float64]) -> float:
    assert values is not None
    with np.errstate(all="ignore"):
        found = float(np.sum((values - wanted) ** 2) / max(float(np.sum(wanted**2)), float(_SMALLEST_NORMAL)))
    return found if math.isfinite(found) else math.inf
