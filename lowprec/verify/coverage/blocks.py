"""Coverage of a block converter's vectors: scales and their borders, elements under them, other rules."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from lowprec.arrays.checks import code_dtype
from lowprec.arrays.convert import decode
from lowprec.spec.block import RULES, Arithmetic, BlockFormat, InfinityBlock, NanBlock, ZeroBlock
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Format
from lowprec.spec.projection import Saturation
from lowprec.spec.rounding import MODES, NEAREST_EVEN
from lowprec.verify.codes.values import as_doubles
from lowprec.verify.coverage.points import Plan
from lowprec.verify.inputs.block_cases import BlockCases, block_answers, source_values
from lowprec.verify.questions.blocks.block_causes import with_nan

__all__ = ["plan_of_blocks"]

Array = npt.NDArray[Any]


def plan_of_blocks(fmt: BlockFormat, source: Format, cases: BlockCases, codes: Array, scales: Array) -> Plan:
    """Return the verification plan of a block converter, with the blocks that hit each point."""
    for part in (fmt.element, fmt.scale):
        if isinstance(part, Codebook):
            raise ValueError(
                f"coverage is of formats with fields, and {part.name!r} is a codebook; leave coverage out"
            )
    plan = Plan(len(codes))
    with np.errstate(all="ignore"):
        values = source_values(cases.values, source).astype(np.float64)
        _lanes(plan, values)
        _scales(plan, fmt, source, cases, values, scales)
        _elements(plan, fmt, cases, values, codes, scales)
    _told(plan, fmt, source, cases, codes, scales)
    return plan


def _lanes(plan: Plan, values: Array) -> None:
    finite = np.where(np.isfinite(values), np.abs(values), 0.0)
    whole = np.isfinite(values).all(1)
    two = (
        np.partition(finite, -2, axis=1)[:, -2:]
        if finite.shape[1] > 1
        else np.column_stack([finite * 0, finite])
    )
    alone = whole & (two[:, 1] > two[:, 0])
    sets, count = finite.argmax(1), (finite > 0).sum(1)
    for lane in range(values.shape[1]):
        plan.add("lanes", "the largest magnitude, alone", alone & (sets == lane), lane)
    for lane in range(values.shape[1]):
        plan.add("lanes", "the only number that is not zero", whole & (count == 1) & (sets == lane), lane)
    kinds: tuple[tuple[str, Any], ...] = (("NaN", np.isnan), ("infinity", np.isinf))
    for words, some in kinds:
        if some(values).any():
            for lane in range(values.shape[1]):
                plan.add("lanes", words, some(values[:, lane]), lane)
    plan.add("lanes", "zeros alone", whole & (count == 0))
    plan.add("lanes", "negative zeros alone", whole & (count == 0) & np.signbit(values).all(1))


def _scales(
    plan: Plan, fmt: BlockFormat, source: Format, cases: BlockCases, values: Array, scales: Array
) -> None:
    finite = np.isfinite(values).all(1)
    magnitudes = cases.values & ~cases.values.dtype.type(source.sign_code)
    amax = np.where(finite, magnitudes.max(1), 0).astype(np.int64)
    plain = dataclasses.replace(fmt, elements=dataclasses.replace(fmt.elements, rounding=NEAREST_EVEN))

    def scale_of(codes: Array) -> Array:
        alone = np.zeros_like(cases.values)
        alone[:, 0] = np.clip(codes, 0, source.max_magnitude)
        return block_answers(plain, source, BlockCases(alone, cases.tensors))[1]

    some = finite & (amax > 0)
    here = scale_of(amax)
    plan.add("scale", "the first amax of its scale", some & (scale_of(amax - 1) != here))
    plan.add(
        "scale",
        "the last amax of its scale",
        some & (amax < source.max_magnitude) & (scale_of(amax + 1) != here),
    )
    plan.add("scale", "amax subnormal", some & (amax < 1 << source.trailing_bits))
    plan.add("scale", "amax the largest number", some & (amax == source.max_magnitude))
    plan.add("scale", "a power of two as amax", some & (amax & (1 << source.trailing_bits) - 1 == 0))
    plan.add("scale", "the smallest code", some & (scales == fmt.smallest_scale))
    if fmt.scale.max_finite * float(fmt.rule.divides_by(fmt.element)) <= source.max_finite:
        plan.add("scale", "the largest number", some & (scales == fmt.largest_scale))
    if fmt.scale.nan_code is not None:
        plan.add("scale", "NaN", scales == (fmt.scales.nan_code or fmt.scale.nan_code))


def _elements(
    plan: Plan, fmt: BlockFormat, cases: BlockCases, values: Array, codes: Array, scales: Array
) -> None:
    """Add where quotients lie between the values of the elements."""
    element = fmt.element
    tensor = 1.0 if cases.tensors is None else cases.tensors.astype(np.float64)[:, None]
    units = as_doubles(scales, fmt.scale)[:, None] * tensor
    grid = np.asarray(
        decode(np.arange(element.max_magnitude + 1).astype(code_dtype(element)), element, dtype="float64")
    )
    quotients = np.abs(values) / units
    valid = np.isfinite(values) & np.isfinite(units) & (units > 0)
    quotients = np.where(valid, quotients, 0.0)
    place = np.clip(np.searchsorted(grid, quotients, side="right") - 1, 0, len(grid) - 2)
    low, high = grid[place], grid[place + 1]
    middle = (low + high) / 2
    past = quotients > grid[-1]
    inside = valid & (values != 0) & ~past
    exact = (quotients == low) | (quotients == high)
    tie, near = inside & (quotients == middle), (high - low) / 64
    for words, hits in (
        ("exact", inside & exact),
        ("at a tie, above an even code", tie & (place % 2 == 0)),
        ("at a tie, above an odd code", tie & (place % 2 == 1)),
        ("below a tie", inside & ~exact & (quotients < middle)),
        ("above a tie", inside & ~exact & (quotients > middle)),
        ("1/64 of a gap below a tie", inside & (quotients < middle) & (quotients > middle - near)),
        ("1/64 of a gap above a tie", inside & (quotients > middle) & (quotients < middle + near)),
        ("beyond the largest", valid & past),
        ("below half of the smallest", inside & (quotients > 0) & (quotients < grid[1] / 2)),
        ("negative", inside & (values < 0)),
        ("zero", valid & (values == 0)),
    ):
        plan.add("elements", words, hits.any(1))
    for lane in range(values.shape[1]):
        plan.add("elements", "at a tie", tie[:, lane], lane)
    if element.width <= 4:
        for code in range(1 << element.width):
            plan.add("elements", f"code {code:x}", (codes == code).any(1))


def _told(
    plan: Plan, fmt: BlockFormat, source: Format, cases: BlockCases, codes: Array, scales: Array
) -> None:
    """Add the blocks to which a converter with one field changed answers otherwise."""
    for words, other in _others(fmt):
        given = dataclasses.replace(cases, random=None) if not other.elements.rounding.bits else cases
        made, held = block_answers(other, source, given)
        plan.add("tells", words, (made != codes).any(1) | (held != scales))


def _others(fmt: BlockFormat) -> Iterator[tuple[str, BlockFormat]]:
    def elements(**fields: Any) -> dict[str, Any]:
        return {"elements": dataclasses.replace(fmt.elements, **fields)}

    changes: dict[str, dict[str, Any]] = {f"rule {rule}": {"rule": rule} for rule in RULES}
    changes |= {f"elements rounded {mode}": elements(rounding=mode) for mode in MODES}
    if fmt.element.has_nan or fmt.element.infinity:
        policies = Saturation if fmt.infinity == "elements" else (Saturation.NONE, Saturation.FINITE)
        changes |= {f"elements' saturation {policy}": elements(saturation=policy) for policy in policies}
    if fmt.element.exponent_bits:
        changes["subnormal elements flushed"] = elements(subnormals="flush_results")
    for mode in MODES[:5] if fmt.rule.powers == "none" else ():
        changes[f"scales rounded {mode}"] = {"scales": dataclasses.replace(fmt.scales, rounding=mode)}
    types = {"zero": ZeroBlock, "nan": NanBlock, "infinity": InfinityBlock, "arithmetic": Arithmetic}
    for field, type_ in types.items():
        changes |= {f"{field}: {value}": {field: value} for value in get_args(type_)}
    changes["subnormal amax taken as zero"] = {"flush_subnormals": not fmt.flush_subnormals}
    for words, fields in changes.items():
        try:
            other = with_nan(dataclasses.replace(fmt, **fields))
        except ValueError:
            continue
        if other != fmt:
            yield words, other
