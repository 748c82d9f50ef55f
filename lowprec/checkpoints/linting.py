"""Rules that find broken checkpoints: each names the tensor, the evidence and the remedy.

The defects are those that users of real checkpoints report: docs/checkpoints.md has the list. Headers are
judged by `structure`, data here.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import numpy.typing as npt

from lowprec.arrays.blocks.packing import swizzle, unswizzle
from lowprec.arrays.convert import decode
from lowprec.checkpoints.against import against_source
from lowprec.checkpoints.container import naming
from lowprec.checkpoints.decoding import (
    WIDE,
    codes_of,
    offset_values,
    ranges,
    scale_values,
    stored_scales,
    tensor_scale,
    values_of,
)
from lowprec.checkpoints.folder import Checkpoint
from lowprec.checkpoints.schemes import bitsandbytes
from lowprec.checkpoints.schemes.schemes import FLOATS, NESTED_ABSMAX
from lowprec.checkpoints.schemes.sharing import by_block
from lowprec.checkpoints.structure import Finding, structure
from lowprec.checkpoints.weights import Weight, sources_of, weights_of
from lowprec.checkpoints.writing import Watch
from lowprec.kernels.modes import usual_arithmetic
from lowprec.spec import catalog

__all__ = ["Finding", "lint"]

Array = npt.NDArray[np.generic]

#: Weights are smaller than this; with a scale inverted they seem larger.
_LARGEST_WEIGHT = 1e4
#: Blocks from which on shares of them mean something.
_ENOUGH = 64
#: Scales that are E8M0 bytes lie around 127, the code of 1.
_BYTES_FROM, _BYTES_TO = 64, 160
_UNCOMPUTED = "it was never computed; export again, or compute it from the source's largest weight"
_SIGN = "a scale has no sign; it was damaged, or written as another type"
_NESTED_SIGN = (
    "the block is small beside others whose scales share one, and its values change their sign; "
    "quantise the weight without --nested"
)
_SMALLEST_NORMAL = np.finfo(np.float32).smallest_normal


def lint(
    checkpoint: Checkpoint, source: Checkpoint | None = None, watch: Watch = None
) -> tuple[Finding, ...]:
    """Return all that is wrong, or looks wrong, with a checkpoint.

    Parameters
    ----------
    checkpoint : Checkpoint
    source : Checkpoint, optional
        What it was made of: then the order of nibbles, swizzled and inverted scales are found by trying them.
    watch : callable, optional

    Returns
    -------
    findings : tuple of Finding
        In the order of the weights.
    """
    weights = weights_of(checkpoint)
    found = list(structure(checkpoint, weights))
    quantized = [weight for weight in weights if weight.is_quantized]
    sources = {} if source is None else sources_of(quantized, source)
    for place, weight in enumerate(weights):
        if watch is not None:
            watch(place, len(weights), weight.name)
        if weight.problem is not None or weight.element in WIDE:
            continue
        with naming(weight.name):
            found += _findings(weight, checkpoint, sources.get(weight.name))
    return tuple(found)


def _findings(weight: Weight, checkpoint: Checkpoint, source: Weight | None) -> list[Finding]:
    """Return what the data of a weight show, alone and against its source."""
    if not weight.is_quantized:
        return _of_plain(weight)
    found = _of_weight(weight, checkpoint)
    # With scales or codes that are no numbers, no remedy that is tried says anything.
    if source is None or any(
        finding.severity == "error" and finding.rule != "scale-inverted" for finding in found
    ):
        return found
    return [
        *(finding for finding in found if finding.rule != "scale-inverted"),
        *against_source(weight, source),
    ]


@usual_arithmetic()
def _of_weight(weight: Weight, checkpoint: Checkpoint) -> list[Finding]:
    found = [*_of_tensor_scale(weight), *_of_inputs(weight), *_of_nested(weight)]
    if any(finding.severity == "error" for finding in found):
        return found
    totals = dict.fromkeys(
        ("nan", "infinite", "zero", "negative", "subnormal", "codes", "scales", "not_power", "offsets"), 0
    )
    lost = top = 0.0
    whole = True
    # Of formats without zero the smallest magnitude stands for it, under a scale of 0.
    fmt = weight.format
    least = float(np.nanmin(np.abs(decode(np.arange(1 << fmt.width), fmt)))) if fmt.width <= 8 else 0.0
    for start, stop in ranges(weight):
        codes = codes_of(weight, start, stop)
        if (largest := int(codes.max(initial=0))) >> fmt.width:
            evidence = f"the codes are up to {largest}, and those of {fmt.name} up to {(1 << fmt.width) - 1}"
            remedy = "the unused bits of each code are 0; save it again"
            return [*found, Finding("code-out-of-range", weight.codes.name, evidence, remedy)]
        units, high = scale_values(weight, start, stop), _high(weight, codes)
        totals["nan"] += int(np.count_nonzero(np.isnan(units)))
        totals["infinite"] += int(np.count_nonzero(np.isinf(units)))
        if not weight.scheme.vanishing:
            totals["zero"] += int(np.count_nonzero((units == 0) & (high > least)))
        if not weight.scheme.signed:
            totals["negative"] += int(np.count_nonzero(np.signbit(units) & np.isfinite(units)))
        if (offsets := offset_values(weight, start, stop)) is not None:
            totals["offsets"] += int(np.count_nonzero(~np.isfinite(offsets)))
        small = (np.abs(units) < _SMALLEST_NORMAL) & (units != 0)
        totals["subnormal"] += int(np.count_nonzero(small)) if weight.scale in ("binary32", "bfloat16") else 0
        totals["codes"] += int(np.count_nonzero(np.isnan(high)))
        totals["not_power"] += int(np.count_nonzero(np.abs(np.frexp(units[np.isfinite(units)])[0]) != 0.5))
        totals["scales"] += units.size
        bytes_like = (units == np.floor(units)) & (units >= _BYTES_FROM) & (units <= _BYTES_TO)
        whole = whole and bool(bytes_like.all())
        lost = max(lost, float(np.nanmax(np.abs(units) * high, initial=0)))
        top = max(top, float(np.nanmax(np.abs(units), initial=0)))
    if weight.over != 1 and weight.tensor is not None and lost and not weight.tensor.read().all():
        evidence = "the largest magnitude is 0, and there are codes of other numbers"
        return [*found, Finding("tensor-scale-invalid", weight.tensor.name, evidence, _UNCOMPUTED)]
    where = weight.scales.name if weight.scales is not None else weight.codes.name
    of, nested = f"of {totals['scales']:,} scales", bitsandbytes.is_nested(weight.scheme)
    if whole and weight.scale not in ("e8m0fnu", "ue4m3") and top > 1:
        evidence = f"all {totals['scales']:,} scales are whole numbers from {_BYTES_FROM} to {_BYTES_TO}"
        remedy = "these are E8M0 bytes: the scale is 2**(x - 127)"
        return [*found, Finding("scale-bytes-as-floats", where, evidence, remedy)]
    for key, rule, remedy in (
        ("nan", "scale-nan", "every value of the block is NaN; export again from weights without NaN"),
        ("infinite", "scale-infinite", "scales overflowed; export again with float32 scales"),
        ("negative", "scale-negative", _NESTED_SIGN if nested else _SIGN),
        ("zero", "scale-zero", "elements of these blocks are lost; a scale underflowed or was never written"),
    ):
        if totals[key]:
            severity: Literal["error", "warning"] = "warning" if remedy == _NESTED_SIGN else "error"
            found.append(Finding(rule, where, f"{totals[key]:,} {of} {_verb(key)}", remedy, severity))
    if totals["offsets"]:
        evidence = f"{totals['offsets']:,} of {totals['scales']:,} offsets of blocks are NaN or infinite"
        remedy = "every value of the block is NaN or infinite; export again"
        found.append(Finding("offset-invalid", where, evidence, remedy))
    if totals["subnormal"]:
        evidence = f"{totals['subnormal']:,} {of} are subnormal float32 numbers"
        remedy = "devices that flush subnormals read 0; scale the weight, or keep it unquantised"
        found.append(Finding("scale-subnormal", where, evidence, remedy, "warning"))
    if totals["codes"]:
        evidence = f"{totals['codes']:,} blocks hold NaN codes"
        remedy = "the cast overflowed; quantise with saturation, or with a larger scale"
        found.append(Finding("code-nan", weight.codes.name, evidence, remedy))
    is_ue8m0 = str(checkpoint.config.get("scale_fmt", "")).lower() == "ue8m0"
    if is_ue8m0 and totals["not_power"] and weight.scale == "binary32":
        evidence = f"scale_fmt is ue8m0, and {totals['not_power']:,} {of} are no powers of two"
        remedy = "round scales up to powers of two before quantising, or drop scale_fmt"
        found.append(Finding("scale-not-a-power-of-two", where, evidence, remedy))
    found += [] if found else _of_size(weight, lost)
    if not found:
        found += [*_of_codes(weight), *_of_order(weight)]
    return found


def _verb(key: str) -> str:
    return {"nan": "are NaN", "infinite": "are infinite", "negative": "are negative", "zero": "are 0"}[key]


def _high(weight: Weight, codes: Array) -> npt.NDArray[np.float32]:
    """Return the largest magnitude of the elements of each block; NaN where one is NaN."""
    magnitudes = np.abs(np.asarray(decode(codes, weight.format), np.float32))
    return by_block(np.maximum, magnitudes, weight.sizes)


def _of_size(weight: Weight, lost: float) -> list[Finding]:
    tensor = tensor_scale(weight)
    number = 1.0 if tensor is None else float(np.max(tensor)) / weight.over
    amax = lost / number if weight.scheme.divides else lost * number
    if amax <= _LARGEST_WEIGHT:
        return []
    entry = weight.tensor or weight.scales or weight.codes
    what = "divisor" if weight.scheme.divides else "multiplier"
    of = "tensor's scale" if weight.tensor is not None else "largest scale"
    evidence = f"read as a {what}, the {of} makes the largest weight {amax:.3g}"
    remedy = "store its reciprocal: the other convention was written; --against tells if weights are so large"
    return [Finding("scale-inverted", entry.name, evidence, remedy, "warning")]


def _of_tensor_scale(weight: Weight) -> list[Finding]:
    if weight.tensor is None:
        return []
    numbers = weight.tensor.read().astype(np.float64).reshape(-1)
    low = 0.0 if weight.over == 1 else -1.0  # a largest magnitude may be 0
    bad = [float(number) for number in numbers if not (math.isfinite(number) and number > low) or number < 0]
    if bad:
        evidence = f"the tensor's scale is {bad[0]:g}"
        return [Finding("tensor-scale-invalid", weight.tensor.name, evidence, _UNCOMPUTED)]
    if ((numbers < float(_SMALLEST_NORMAL)) & (numbers > 0)).any():
        evidence = f"the tensor's scale is {numbers.min():g}, a subnormal float32 number"
        remedy = "memory that was never written looks so"
        return [Finding("tensor-scale-invalid", weight.tensor.name, evidence, remedy)]
    return []


def _of_inputs(weight: Weight) -> list[Finding]:
    found = []
    for entry in weight.extras:
        if "scale" in entry.name.rsplit(".", 1)[-1] and entry.tag in ("F32", "BF16", "F16"):
            numbers = entry.read().astype(np.float64).reshape(-1)
            wrong = numbers[~(np.isfinite(numbers) & (numbers > 0))]
            if wrong.size:
                evidence = f"a scale of activations is {wrong[0]:g}"
                remedy = "calibrate again: this layer saw no data"
                found.append(Finding("input-scale-invalid", entry.name, evidence, remedy))
    return found


def _of_nested(weight: Weight) -> list[Finding]:
    """Return which scales of scales are no positive numbers; 0 is one where all scales are their mean."""
    if not bitsandbytes.is_nested(weight.scheme):
        return []
    entry = bitsandbytes.part(weight, NESTED_ABSMAX)
    numbers, state = entry.read().reshape(-1), bitsandbytes.state_of(weight)
    codes = stored_scales(weight).reshape(-1) != bitsandbytes.zero_code()
    used = np.logical_or.reduceat(codes, np.arange(0, codes.size, state.nested)) if codes.size else codes
    remedy = "scales that share it are wrong; export again"
    for rule, wrong, verb in (
        ("scale-nan", np.isnan(numbers), "nan"),
        ("scale-infinite", np.isinf(numbers), "infinite"),
        ("scale-negative", numbers < 0, "negative"),
        ("scale-zero", (numbers == 0) & used, "zero"),
    ):
        if wrong.any():
            evidence = f"{np.count_nonzero(wrong):,} of {numbers.size:,} scales of scales {_verb(verb)}"
            return [Finding(rule, entry.name, evidence, remedy)]
    if not math.isfinite(state.offset):
        return [Finding("scale-nan", weight.name, f"the mean of scales is {state.offset}", remedy)]
    return []


def _of_codes(weight: Weight) -> list[Finding]:
    """Return what the largest code of each block says: scales put it at the top of the elements' range."""
    fmt = weight.format
    if weight.scheme.block is None or weight.scheme.block == (128, 128) or len(weight.shape) < 2:
        return []
    if weight.scale == "binary16":  # of GGUF, from sums and not from the largest value
        return []
    size, reach = weight.scheme.block[1], 1 << (math.frexp(fmt.max_finite)[1] - 1)
    along, across, most, count, columns = 0, 0, 0, 0, 0
    for start, stop in ranges(weight):
        codes = codes_of(weight, start, stop)
        high = _high(weight, codes)
        count += int(np.count_nonzero(high))
        along += int(np.count_nonzero(high >= reach))
        most += int(np.count_nonzero(high == np.float32(fmt.max_finite)))
        if codes.ndim == 2 and codes.shape[0] >= size:
            whole = codes[: codes.shape[0] // size * size]
            magnitudes = np.abs(np.asarray(decode(whole, weight.format), np.float32))
            down = magnitudes.reshape(-1, size, whole.shape[1]).max(axis=1)
            columns += int(np.count_nonzero(down))
            across += int(np.count_nonzero(down >= reach))
    if count < _ENOUGH:
        return []
    if columns >= 4 * _ENOUGH and along < count - 1 and across == columns:
        evidence = f"{along / count:.1%} of blocks of {size} reach {reach}, and all {columns:,} down columns"
        remedy = "scales were computed along the other axis; transpose the weight or quantise along columns"
        return [Finding("scale-axis", weight.codes.name, evidence, remedy, "warning")]
    if fmt == catalog.E2M1FN and weight.scale == "e8m0fnu" and 50 * most >= 49 * count and _vary(weight):
        evidence = f"{most / count:.0%} of blocks reach {fmt.max_finite:g}, and scales are powers of two"
        remedy = "elements were divided by a scale that was rounded afterwards; quantise again"
        return [Finding("scale-rounded-late", weight.codes.name, evidence, remedy)]
    return []


def _vary(weight: Weight) -> bool:
    """Return whether a twentieth of the scales differ from the usual one; of uniform weights they do not."""
    _, counts = np.unique(stored_scales(weight), return_counts=True)
    return bool(20 * counts.max() < 19 * counts.sum())


def _of_order(weight: Weight) -> list[Finding]:
    """Return whether scales look swizzled: only when they are unswizzled, those of a row are alike.

    Of those that are said to be swizzled, whether they look as if they were not.
    """
    grid = weight.grid
    if weight.scales is None or len(grid) != 2 or grid[0] % 128 or grid[1] % 4 or min(grid) < 8:
        return []
    with np.errstate(all="ignore"):
        logs = np.log2(np.abs(scale_values(weight)).astype(np.float64))
    if not np.isfinite(logs).all():
        return []
    if (logs == np.repeat(logs[::16], 16, axis=0)).all():  # of 16x16 elements, 16 times: as they should lie
        return []
    # Scales of a column are alike too, all the way down or in heads, and unswizzled they would lie in rows.
    parts = logs.reshape(-1, 128, grid[1])
    logs = (parts - parts.mean(axis=1, keepdims=True)).reshape(grid)
    words: tuple[str, ...] = ("as they lie",)
    if weight.swizzled:
        others = [swizzle(logs).reshape(grid)]
    else:
        once = unswizzle(logs.reshape(-1), grid)
        words, others = ("unswizzled once", "unswizzled twice"), [once, unswizzle(once.reshape(-1), grid)]
    ratios = [_row_ratio(table) for table in others]
    best, is_now = int(np.argmax(ratios)), _row_ratio(logs)
    by_chance = 1 + 6 * math.sqrt(2 / grid[0])
    if ratios[best] < max(by_chance, 1.25 * is_now) or _roughness(others[best]) > _roughness(logs):
        return []
    evidence = f"means of rows vary {is_now:.3g} times as by chance, and {ratios[best]:.3g} {words[best]}"
    rule, remedy = "scale-swizzled", "scales are swizzled; store them row by row, and swizzle when loading"
    if weight.swizzled:
        rule = "scale-not-swizzled"
        remedy = "scales lie row by row, and are said to be swizzled: swizzle them, or say that they are not"
    return [Finding(rule, weight.scales.name, evidence, remedy, "warning")]


def _row_ratio(table: npt.NDArray[np.float64]) -> float:
    """Return how many times as much means of rows vary as those of shuffled elements do."""
    within = float(table.var(axis=1, ddof=1).mean())
    among = table.shape[1] * float(table.mean(axis=1).var(ddof=1))
    return among / within if within else math.inf if among else 1.0


def _roughness(table: npt.NDArray[np.float64]) -> float:
    """Return how much neighbours differ: down columns, and along rows four apart, as far as tiles reach."""
    across = float(np.mean((table[:, 4:] - table[:, :-4]) ** 2))
    return across + float(np.mean((table[1:] - table[:-1]) ** 2))


def _of_plain(weight: Weight) -> list[Finding]:
    """Return what is wrong with floats that have no scales."""
    if not weight.codes.tag.startswith("F8_") or weight.codes.tag == "F8_E8M0" or len(weight.shape) < 2:
        return []
    fmt, high, wrong = catalog.format(FLOATS[weight.codes.tag]), 0.0, 0
    for start, stop in ranges(weight):
        values = values_of(weight, start, stop)
        wrong += int(np.count_nonzero(~np.isfinite(values)))
        high = max(high, float(np.max(np.abs(values), initial=0, where=np.isfinite(values))))
    if wrong:
        remedy = "the cast overflowed; quantise with saturation, or with a scale"
        return [Finding("code-nan", weight.name, f"{wrong:,} codes are NaN or infinite", remedy)]
    if high == fmt.max_finite:
        evidence = f"the largest weight is exactly {high:g}, the largest value of {fmt.name}, "
        remedy = "its scale is missing, or the cast clipped it"
        return [
            Finding("fp8-without-scale", weight.name, f"{evidence}and there is no scale", remedy, "warning")
        ]
    return []
