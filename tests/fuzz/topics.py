"""The fuzzers by name, and mistakes that are known and not yet mended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from tests.fuzz import arithmetic, blocks, conversions, dots, order, refusals
from lowprec.spec.block import BlockFormat
from tests.fuzz.runner import Failure, Topic

TOPICS: Mapping[str, Topic] = MappingProxyType({"conversions": conversions.TOPIC, "arithmetic": arithmetic.TOPIC, "order": order.TOPIC, "refusals": refusals.TOPIC,
        "dots": dots.TOPIC, "blocks": blocks.TOPIC})


def _oracle_lacks_random(failure: Failure) -> bool:
    """F1: the oracle of blocks refuses NaN where scales are stochastic."""
    fmt = failure.call.given[0] if failure.call.given else None
    return isinstance(fmt, BlockFormat) and fmt.scales.rounding.bits > 0 and failure.what == "is not refused"


#: What tells failures that are reported elsewhere, so that others are found behind them. Empty in what is merged.
KNOWN: tuple[Callable[[Failure], bool], ...] = (_oracle_lacks_random,)
