"""The fuzzers by name, and mistakes that are known and not yet mended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from lowprec.spec.accumulation import Accumulation, Window
from lowprec.spec.block import BlockFormat
from lowprec.spec.format import Format
from tests.fuzz import arithmetic, blocks, conversions, dots, order, refusals
from tests.fuzz.runner import Failure, Topic

TOPICS: Mapping[str, Topic] = MappingProxyType(
    {
        "conversions": conversions.TOPIC,
        "arithmetic": arithmetic.TOPIC,
        "order": order.TOPIC,
        "dots": dots.TOPIC,
        "blocks": blocks.TOPIC,
        "refusals": refusals.TOPIC,
    }
)


def _item_12(failure: Failure) -> bool:
    how = failure.call.given[0] if failure.call.given else None
    window = how.accumulator if isinstance(how, Accumulation) else None
    return (
        "total_order" in failure.call.verb
        or (failure.call.keywords.get("dtype") == np.float64 and failure.what == "is not refused")
        or (isinstance(window, Window) and window.step > 1 << 19)
    )


def _block(failure: Failure) -> bool:
    """F1, F2, F7, F9: the oracle refuses NaN where scales are stochastic; binary32 does not have the divisor; payloads."""
    fmt = failure.call.given[0] if failure.call.given else None
    if not isinstance(fmt, BlockFormat):
        return False
    if fmt.scales.rounding.bits > 0 and failure.what == "is not refused":
        return True
    if fmt.elements.nan_payload != "drop" and fmt.elements.nan_code is not None:
        return True
    return fmt.arithmetic != "exact" and not 2.0**-120 < fmt.element.max_finite < 2.0**126


def _dot(failure: Failure) -> bool:
    """F4, F5, F6: machines with other outputs, scales in windows."""
    how = failure.call.given[0] if failure.call.given else None
    if not isinstance(how, Accumulation):
        return False
    scaled = isinstance(how.accumulator, Window) and how.accumulator.scales != "none"
    return bool(how.machine) or scaled


def _all_subnormal(failure: Failure) -> bool:
    """F10: flushed results of formats without normal numbers."""
    rule = failure.call.keywords.get("projection")
    return "flush" in str(getattr(rule, "subnormals", "")) and any(
        isinstance(fmt, Format) and fmt.min_normal is None for fmt in failure.call.given
    )


#: What tells failures that are reported elsewhere, so that others are found behind them. Empty in what is merged.
KNOWN: tuple[Callable[[Failure], bool], ...] = (_item_12, _block, _dot, _all_subnormal)
