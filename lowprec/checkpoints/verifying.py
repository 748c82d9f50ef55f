"""A quantised checkpoint held against its source: which rule made it, and what it cost."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.arrays.arith import divide
from lowprec.arrays.convert import decode, encode
from lowprec.arrays.measures.statistics import scale_for
from lowprec.checkpoints import transformer_engine
from lowprec.checkpoints.bitsandbytes_writing import nested_differ
from lowprec.checkpoints.container import CheckpointError, naming
from lowprec.checkpoints.decoding import (
    WIDE,
    axes_of,
    block_format_of,
    codes_of,
    engine_format,
    given_values,
    offset_values,
    ranges,
    rows_together,
    scale_codes,
    scale_values,
    tensor_scale,
    values_of,
    zero_values,
)
from lowprec.checkpoints.errors import Errors
from lowprec.checkpoints.folder import Checkpoint
from lowprec.checkpoints.scaling import usable_blocks
from lowprec.checkpoints.schemes.bitsandbytes import is_nested
from lowprec.checkpoints.schemes.sharing import by_block, for_elements
from lowprec.checkpoints.targets import usable
from lowprec.checkpoints.weights import OVER, Weight, sources_of, weights_of
from lowprec.checkpoints.writing import Watch
from lowprec.kernels.modes import usual_arithmetic
from lowprec.spec.block import RULES, BlockFormat
from lowprec.spec.codebook import Codebook
from lowprec.spec.families import fixed

__all__ = ["Verdict", "verify_checkpoint"]

#: Integers that quotients are rounded to before zero points are added.
_WHOLE = fixed("int24", 24)

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Verdict:
    """Result of `verify` for one weight.

    Parameters
    ----------
    name, scheme : str
    rule : str
        The scale rule that makes these very scales and codes; empty if none of those tried does. Of scales of
        tensors and channels "max", the smallest with which nothing is clipped, as `lowprec.scale_for` has
        it, or "divide", the largest magnitude over the largest element.
    nearest : str
        The rule that comes nearest, and how many scales and codes differ from its.
    codes_differ : int
        Codes that are not the nearest for the scales of the file.
    report : dict
        SQNR and its kin, as `quantize` reports them.
    """

    name: str
    scheme: str
    rule: str
    nearest: str
    codes_differ: int
    report: dict[str, Any]

    @property
    def holds(self) -> bool:
        """True if a known rule gives scales and codes, or each code is nearest, and no value is lost."""
        return (bool(self.rule) or self.codes_differ == 0) and not self.report["lost"]


def verify_checkpoint(checkpoint: Checkpoint, source: Checkpoint, watch: Watch = None) -> tuple[Verdict, ...]:
    """Return of each quantised weight how it follows from the weight of its name in the source.

    Raises CheckpointError: one has another shape there, or two weights of the source have its name.
    """
    weights = weights_of(checkpoint)
    sources = sources_of(weights, source)
    pairs = [
        (weight, sources[weight.name])
        for weight in weights
        if weight.name in sources
        and (weight.is_quantized or weight.codes.tag != sources[weight.name].codes.tag)
        and weight.element not in WIDE
    ]
    found = []
    for place, (weight, other) in enumerate(pairs):
        if watch is not None:
            watch(place, len(pairs), weight.name)
        if weight.value_shape != other.value_shape:
            raise CheckpointError(
                f"{weight.name!r} has shape {list(weight.value_shape)}, and "
                f"{list(other.value_shape)} in the source"
            )
        with naming(weight.name):
            found.append(_verdict(weight, other))
    return tuple(found)


@usual_arithmetic()
def _verdict(weight: Weight, source: Weight) -> Verdict:
    errors, differ = Errors(), 0
    highest: list[Array] = []
    tensor = tensor_scale(weight)
    # Of tensor scales for each row, and of another bound than 448, codes are held against the scales alone.
    known = (tensor is None or tensor.size == 1) and weight.over in (1, OVER)
    candidates = _candidates(weight) if known else {}
    wrong = {name: [0, 0] for name in candidates}
    single: list[Array] = []
    if tensor is not None and weight.scheme.divides:
        tensor = np.asarray(np.float32(1) / tensor, np.float32)
    tiles = [fmt.sizes[0] for fmt in candidates.values() if len(fmt.sizes) > 1]
    turned = (weight.is_turned or source.is_turned) and 0 not in weight.shape
    parts = ranges(weight, unit=math.lcm(rows_together(source), *tiles))
    for start, stop in [(0, weight.shape[0])] if turned else parts:  # rows of one may be columns of the other
        wanted = given_values(source, weight.scheme, *(() if turned else (start, stop)))
        found = values_of(weight, start, stop)
        if weight.scheme.transposed:
            wanted, found = (np.ascontiguousarray(part.swapaxes(-1, -2)) for part in (wanted, found))
        if weight.format.nan_code is None and (nans := int(np.count_nonzero(np.isnan(wanted)))):
            raise CheckpointError(
                f"weight {weight.name!r} has {nans:,} NaNs in the source, and {weight.format.name!r} has no "
                f"code for them; name a source without"
            )
        errors.add(wanted, found, weight.sizes if weight.scheme.block else ())
        codes = codes_of(weight, start, stop)
        if not weight.is_quantized:
            differ += int(np.count_nonzero(encode(wanted, weight.format, saturation="finite") != codes))
            continue
        if candidates and is_nested(weight.scheme):
            ((name, fmt),) = candidates.items()
            made = encode(wanted, fmt)
            wrong[name][1] += _unlike(weight, made.codes, codes)
            single.append(decode(made.scales, fmt.scale).reshape(-1))
            continue
        scales = scale_codes(weight, start, stop)
        number: Any = None if tensor is None or tensor.size != 1 else np.float32(tensor)
        if weight.over != 1 and candidates:
            differ += _of_copies(weight, wanted, number, scales, codes, candidates, wrong)
        elif candidates:
            axes = axes_of(weight, next(iter(candidates.values())))
            for name, fmt in candidates.items():
                given = number if fmt.tensor_scale != "none" else None
                made = encode(wanted, fmt, axis=axes, tensor_scale=given)
                if (more := usable_blocks(made)) is not None and np.array_equal(more, scales):
                    made = encode(wanted, fmt, axis=axes, tensor_scale=given, scales=more)
                wrong[name][0] += int(np.count_nonzero(made.scales != scales))
                wrong[name][1] += _unlike(weight, made.codes, codes)
            fmt = next(iter(candidates.values()))
            given = number if fmt.tensor_scale != "none" else None
            with np.errstate(all="ignore"):
                nearest = encode(wanted, fmt, axis=axes, tensor_scale=given, scales=scales).codes
            differ += _unlike(weight, nearest, codes)
        else:
            units = scale_values(weight, start, stop).astype(np.float64)
            if tensor is not None:  # exact: of 28 bits at most
                units = units * (tensor if tensor.size == 1 else tensor[start:stop]) / weight.over
            wide = for_elements(units, codes.shape, weight.sizes)
            highest.append(by_block(np.maximum, np.abs(wanted), weight.sizes))
            if (offsets := offset_values(weight, start, stop)) is not None:
                wanted = wanted - for_elements(offsets.astype(np.float64), codes.shape, weight.sizes)
            lost = wide == 0  # where any code means the same
            nearest = _nearest(weight, wanted, np.where(lost, 1, wide), start, stop)
            differ += int(np.count_nonzero((nearest != codes) & ~lost))
    if single:
        ((name, counts),) = wrong.items()
        counts[0], differ = nested_differ(weight, np.concatenate(single)), counts[1]
    if highest and weight.zeros is None and tensor is None and not differ:
        wrong = {name: [0, 0] for name in _rules_of(weight, highest)}
    exact = next((name for name, counts in wrong.items() if not any(counts)), "")
    best = min(wrong, key=lambda name: sum(wrong[name])) if wrong else ""
    words = (
        f"{best}: {wrong[best][0]:,} scales and {wrong[best][1]:,} codes differ" if best and not exact else ""
    )
    return Verdict(weight.name, weight.scheme.name, exact, words, differ, errors.report())


def _rules_of(weight: Weight, highest: list[Array]) -> list[str]:
    """Return which rules of single scales give those of a weight; of zeros any scale will do."""
    one = not weight.shape or weight.sizes[0] >= weight.shape[0]
    high = np.max(highest, axis=0) if one else np.concatenate(highest)
    stored, fmt = scale_values(weight).reshape(-1), weight.format
    high = high.reshape(-1)
    over = divide(high, fmt.max_finite, "binary32")
    known = {
        "max": (usable(scale_for(high.reshape(-1, 1), fmt, "max", axis=0).reshape(-1)),),
        "divide": (over, np.where(over == 0, over, usable(over))),  # as others store it, and as lowprec does
    }
    return [
        name
        for name, tried in known.items()
        if any(((scales == stored) | (high == 0)).all() for scales in tried)
    ]


def _of_copies(
    weight: Weight,
    wanted: Array,
    amax: Any,
    scales: Array,
    codes: Array,
    candidates: dict[str, BlockFormat],
    wrong: dict[str, list[int]],
) -> int:
    """Count what differs from Transformer Engine's NVFP4, and return how many codes are not the nearest."""
    for name, fmt in candidates.items():
        made = transformer_engine.encoded(wanted, fmt, amax)
        side = fmt.sizes[0] if len(fmt.sizes) > 1 else 1
        wrong[name][0] += int(np.count_nonzero(np.repeat(made.scales, side, axis=0) != scales))
        wrong[name][1] += _unlike(weight, made.codes, codes)
    first = next(iter(candidates.values()))
    return _unlike(weight, transformer_engine.encoded(wanted, first, amax, scales).codes, codes)


def _nearest(weight: Weight, wanted: Array, wide: Array, start: int, stop: int) -> Array:
    """Return the codes that are nearest for scales; of integers with zero points, those are added."""
    found: Array
    if weight.zeros is None:
        found = encode(divide(wanted, wide, weight.format, saturation="finite"), weight.format)
        return found
    whole = divide(wanted, wide, _WHOLE, saturation="finite", dtype=np.float64)
    zeros = zero_values(weight, start, stop, np.float64)
    whole += for_elements(zeros, whole.shape, weight.sizes)
    found = encode(whole, weight.format, saturation="finite")
    return found


def _unlike(weight: Weight, codes: Array, others: Array) -> int:
    """Return how many codes differ; of bitsandbytes, whose FP4 has two zeros at random, values."""
    if weight.scheme.state:
        codes, others = (decode(part, weight.format) for part in (codes, others))
    return int(np.count_nonzero(codes != others))


def _candidates(weight: Weight) -> dict[str, BlockFormat]:
    """Return block formats that may have made a weight, by the names of their rules."""
    fmt = block_format_of(weight, made=True)
    if fmt is None:
        return {}
    if weight.over != 1:
        return {"divide": fmt, "divide 16x16": engine_format("nvfp4_2d")}
    if fmt.arithmetic == "reciprocal":  # of bitsandbytes, which has no other
        return {fmt.rule.name: fmt}
    rules = [rule for rule in RULES if rule.name != "project"]
    if weight.scale == "e8m0fnu":
        rules = [rule for rule in rules if rule.powers != "none"]
    elif weight.scale in ("ue4m3", "binary16"):
        rules = [rule for rule in rules if rule.name == "divide"]
    own = {} if weight.saved is None else {fmt.rule.name: fmt}
    if own and (isinstance(fmt.element, Codebook) or isinstance(fmt.scale, Codebook)):  # not for every rule
        return own
    others = {rule.name: dataclasses.replace(fmt, rule=rule) for rule in rules}
    return own | others | own  # its own rule first, and as it is there
