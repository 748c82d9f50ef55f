"""Choose the vector kernel that serves an accumulation, if one does.

Floor 2b. Imports spec; NumPy where it lowers.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from lowprec.kernels.jit import has_half
from lowprec.kernels.lower.vector import Encoder, Words as Plan, lower_decoder, lower_encoder
from lowprec.kernels.lower.words import BRAIN, CUT_SINGLE, DOUBLE, HALF, SINGLE
from lowprec.kernels.request import Dot
from lowprec.kernels.vector.dot_terms import is_served
from lowprec.spec.accumulation import Accumulation, Rounded, Window
from lowprec.spec.format import Carrier
from lowprec.spec.order import EXACT, PAIRWISE, SEQUENTIAL
from lowprec.spec.projection import DEFAULT, Projection
from lowprec.spec.rounding import NEAREST_EVEN, TOWARD_ZERO

__all__ = ["Way", "way_of"]


class Way(NamedTuple):
    """Kernel that serves an accumulation, and the parameters that it needs."""

    kind: str  #: "exact", "running", "pairwise", "sequence" in binary64, "doubles", "terms", "windows"
    running: str = ""  #: the key of `dot.ACCUMULATORS`, of doubles that of `doubles.JOINS`, or none
    bits: int = 0  #: that products may have there
    stages: tuple[Plan, Plan] | None = None  #: of an accumulator of any format: to it, and back
    sink: str = ""
    chunk: int = 0
    lost: int = 0  #: bits of 53 that a step's own sum does not keep


def way_of(request: Dot) -> Way | None:
    """Return how vectors serve a request, or None where they do not."""
    how, x, y = request.accumulation, request.x, request.y
    if how.machine or how.has_codebooks:
        return None
    if DOUBLE in (x, y) and DOUBLE.contains(x) and DOUBLE.contains(y):
        return _doubles(request)
    if isinstance(x, Carrier) or isinstance(y, Carrier):
        return None
    if not (SINGLE.contains(x) and SINGLE.contains(y)) or how.output[1].rounding.bits:
        return None
    if request.block and isinstance(how.accumulator, tuple):
        return Way("terms") if is_served(how) and all(map(SINGLE.contains, request.scales or ())) else None
    if how.addend != "first":
        return None
    if how.order == EXACT:
        return Way("exact")
    if isinstance(how.accumulator, Window):
        way = _window(how, how.accumulator, x.precision + y.precision)
        return None if request.tensor != 1 or (request.block and how.scale is None) else way
    if how.accumulator is None or how.order not in (SEQUENTIAL, PAIRWISE):
        return None
    return _running(request, how.accumulator)


def _doubles(request: Dot) -> Way | None:
    """Return the kernel of sums whose factors are wider than binary32, or None."""
    how, into = request.accumulation, request.accumulation.accumulator
    if request.block or request.tensor != 1 or how.addend != "first" or how.output[1].rounding.bits:
        return None
    if how.order == EXACT:
        return Way("exact")
    if not isinstance(into, tuple) or not _is_plain(into) or how.order != SEQUENTIAL:
        return None
    if into[0] == DOUBLE and how.product is None:
        return Way("doubles", "doubles")
    if into[0] == SINGLE and how.product in (None, (SINGLE, DEFAULT)):
        return Way("doubles", "fused" if how.product is None else "rounded")
    return None


def _running(request: Dot, into: Rounded) -> Way | None:
    """Return the kernel that has loops over products, or None where there is none."""
    how, rounded = request.accumulation, request.accumulation.product is not None
    single = into[0] == SINGLE and _is_plain(into) and how.product in (None, (SINGLE, DEFAULT))
    if how.order == PAIRWISE:
        return Way("pairwise") if single and rounded else None
    if single:
        return Way("running", "multiply_and_add" if rounded else "fma", 48)
    if rounded:
        return None
    if into[0] == DOUBLE:
        return (
            Way("sequence") if _is_plain(into) and request.x.precision + request.y.precision <= 53 else None
        )
    name = "short" if into[0] == BRAIN else "half" if into[0] == HALF and has_half() else ""
    name, stages = name if _is_plain(into) else "", _stages(into)
    return Way("running", name, into[0].precision, stages) if name or stages else None


def _stages(place: Rounded) -> tuple[Plan, Plan] | None:
    """Return the stages of an accumulator of any format, or None where vectors cannot be exact."""
    fmt, rule = place
    to, back = lower_encoder(fmt, rule, True), lower_decoder(fmt)
    if to is None or back is None or rule.rounding.bits or to[Encoder._fields.index("refuses")]:
        return None
    return to, back


def _window(how: Accumulation, window: Window, bits: int) -> Way | None:
    fmt, rule = window.result
    sinks = {SINGLE: "single", CUT_SINGLE: "short", HALF: "half"}
    if fmt not in sinks and window.step == how.order.size:
        return _direct(how, window, bits)
    mode = NEAREST_EVEN if fmt == HALF else TOWARD_ZERO
    if (
        fmt not in sinks
        or rule.rounding != mode
        or not _is_plain((fmt, dataclasses.replace(rule, rounding=NEAREST_EVEN)))
    ):
        return None
    if not _fits(window, bits) or (fmt == HALF and not has_half()):
        return None
    # The addend comes in the output's format, whose exponents it has in the first step.
    added = HALF if fmt == HALF else SINGLE
    if how.total is None:
        return Way("windows", sink=sinks[fmt]) if how.output[0] == added else None
    if how.total[0] != added or not _is_plain(how.total) or how.order.size % window.step:
        return None
    return Way("windows", sink=sinks[fmt], chunk=how.order.size)


def _direct(how: Accumulation, window: Window, bits: int) -> Way | None:
    """Steps that are summed from zero into a format with many bits, and then in binary32."""
    fmt = window.result[0]
    wide = 26 <= fmt.precision <= 50 and fmt.exponent_bits > 0 and fmt.subnormals
    if not _fits(window, bits) or not _is_plain(window.result) or not wide or window.groups != "consecutive":
        return None
    if how.total is None or how.total[0] != SINGLE or not _is_plain(how.total):
        return None
    return Way("windows", sink="nearest", chunk=window.step, lost=53 - fmt.precision)


def _fits(window: Window, bits: int) -> bool:
    """Return whether vectors align so: sums of 16 products fit signed words, and are cut as numbers are.

    What terms are multiplied by, 2**(fraction_bits - e), is then a normal binary32 number.
    """
    if window.fraction_bits is None or window.fraction_bits > 25 or window.step > 32 or bits > 24:
        return False
    if window.lowest_exponent - window.fraction_bits > 126:
        return False
    return window.cut == "toward_zero" and window.scales != "groups" and not window.negative_zero


def _is_plain(place: Rounded) -> bool:
    """Return whether the processor rounds sums so. NaNs fall back to the scalar kernel."""
    rule = place[1]
    return rule == Projection(nan_code=rule.nan_code, nan_sign=rule.nan_sign, nan=rule.nan)
