"""The fuzzers by name, and mistakes that are known and not yet mended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

import numpy as np

from lowprec.spec import catalog
from lowprec.spec.accumulation import Accumulation, Window
from lowprec.spec.block import BlockFormat
from lowprec.spec.format import Format
from lowprec.spec.projection import Projection
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


def _rule(failure: Failure) -> Projection:
    rule = failure.call.keywords.get("projection")
    return rule if isinstance(rule, Projection) else Projection()


def _formats(failure: Failure) -> Iterator[Format]:
    import lowprec as lp

    for given in failure.call.given:
        if isinstance(given, Accumulation):
            for place in (given.output, given.product, given.total, given.accumulator):
                if isinstance(place, tuple):
                    yield place[0]
            yield from given.operands or ()
        elif not isinstance(given, BlockFormat):
            try:
                yield lp.format(given)
            except (ValueError, TypeError):
                pass
    yield from _rule(failure).via


def _item_5(failure: Failure) -> bool:
    return any(
        fmt.infinity and not fmt.negative_zero and fmt.exponent_bits == 8 and fmt.nans == (1 << fmt.trailing_bits) - 1
        for fmt in _formats(failure)
    )


def _item_7(failure: Failure) -> bool:
    return any(word in str(failure.got) for word in ("TypingError", "NotImplementedError", "writes to out", "Unsupported"))


def _item_8(failure: Failure) -> bool:
    return failure.call.verb in ("lp.dot", "lp.matmul") and "addend" in failure.call.keywords


def _item_9(failure: Failure) -> bool:
    return bool(_rule(failure).via) and (_rule(failure).nan_payload != "drop" or _rule(failure).nan_code is not None)


def _item_10(failure: Failure) -> bool:
    return _rule(failure).nan_code is not None and any(not fmt.has_signed_nan for fmt in _formats(failure))


def _item_12(failure: Failure) -> bool:
    how = failure.call.given[0] if failure.call.given else None
    window = how.accumulator if isinstance(how, Accumulation) else None
    return (
        "total_order" in failure.call.verb
        or (failure.call.keywords.get("dtype") == np.float64 and failure.what == "is not refused")
        or (isinstance(window, Window) and window.step > 1 << 19)
    )


def _item_16(failure: Failure) -> bool:
    return any(word in str(failure.got) for word in ("RuntimeWarning", "FloatingPointError"))


def _f1_2_7(failure: Failure) -> bool:
    """The oracle of blocks refuses NaN where scales are stochastic; binary32 does not have the divisor."""
    fmt = failure.call.given[0] if failure.call.given else None
    if not isinstance(fmt, BlockFormat):
        return False
    if fmt.scales.rounding.bits > 0 and failure.what == "is not refused":
        return True
    return fmt.arithmetic != "exact" and not 2.0**-120 < fmt.element.max_finite < 2.0**126


def _f3_4_5_6(failure: Failure) -> bool:
    how = failure.call.given[0] if failure.call.given else None
    if not isinstance(how, Accumulation):
        return False
    scaled = isinstance(how.accumulator, Window) and how.accumulator.scales != "none"
    return bool(how.machine) or scaled or (failure.what == "is refused" and str(how.order) == "exact")


#: What tells failures that are reported elsewhere, so that others are found behind them. Empty in what is merged.
KNOWN: tuple[Callable[[Failure], bool], ...] = (
    _item_5, _item_7, _item_8, _item_9, _item_10, _item_12, _item_16, _f1_2_7, _f3_4_5_6,
)  # fmt: skip
