"""The fuzzers by name, and mistakes that are known and not yet mended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from tests.fuzz import (
    arithmetic,
    blocks,
    comparisons,
    conversions,
    dots,
    epilogues,
    files,
    frames,
    labels,
    order,
    refusals,
)
from tests.fuzz.runner import Failure, Topic

TOPICS: Mapping[str, Topic] = MappingProxyType(
    {
        "conversions": conversions.TOPIC, "arithmetic": arithmetic.TOPIC, "order": order.TOPIC,
        "dots": dots.TOPIC, "epilogues": epilogues.TOPIC, "blocks": blocks.TOPIC,
        "refusals": refusals.TOPIC, "comparisons": comparisons.TOPIC, "files": files.TOPIC,
        "frames": frames.TOPIC, "labels": labels.TOPIC,
    }
)  # fmt: skip


#: What tells failures that are reported elsewhere, so that others are found behind them. Empty in what is
#: merged.
KNOWN: tuple[Callable[[Failure], bool], ...] = ()
