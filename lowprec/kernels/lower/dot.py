"""Lower accumulations to the integers that `scalar.dot` reads.

Floor 2b. Imports spec and NumPy.
"""

from __future__ import annotations

import enum
import functools
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lowprec.kernels.lower.codebook import in_values
from lowprec.kernels.lower.kinds import Cut
from lowprec.kernels.lower.scalar import Grid, Params, Side, Source, lower_source, lower_target
from lowprec.kernels.lower.words import DOUBLE
from lowprec.kernels.request import Dot
from lowprec.spec.accumulation import Accumulation, Rounded, Window, begins_in
from lowprec.spec.codebook import Codebook
from lowprec.spec.format import Carrier, Format
from lowprec.spec.order import EXACT, PAIRWISE, TREES, Order
from lowprec.spec.projection import DEFAULT, Projection

__all__ = [
    "ADD_TERM",
    "BEGIN",
    "DOWNWARD",
    "ROUND",
    "SOURCE",
    "START",
    "How",
    "Scales",
    "Stages",
    "additions",
    "bits_of_terms",
    "integer",
    "kept_as",
    "kind_of",
    "lower_how",
    "lower_stages",
]

#: Where in a stage's words the source begins, and whether exact zero sums are -0.
SOURCE = len(Grid._fields) + 2 * len(Side._fields)
DOWNWARD = SOURCE + len(Source._fields)

#: Where a target has NaNs: its own ones, of both signs, and those of operands.
_NANS = [
    len(Grid._fields) + side * len(Side._fields) + Side._fields.index(name)
    for name in ("nan", "carried")
    for side in (0, 1)
]


class Scales(enum.IntEnum):
    """Factors that the scales of operands join in a window."""

    NONE = 0
    PRODUCTS = 1
    GROUPS = 2


class _How(NamedTuple):
    """An accumulation as integers: what stands where in their array."""

    PAIRWISE: int  #: 1, or 2 within chunks only
    CHUNK: int  #: 0 where there are none
    ADDEND_LAST: int
    ROUNDS_PRODUCTS: int
    WINDOW: int  #: products in a step, or 0
    FRACTION_BITS: int  #: -1 keeps all
    LOWEST: int
    CUT: int  #: a `Cut`
    ALTERNATE: int
    SCALES: int  #: of a window: see `Scales`
    GROUP: int
    POINT: int  #: bits behind the points of both factors of a product
    SCALE_POINT: int  #: and of both scales
    NEGATIVE_ZERO: int
    BLOCK: int  #: elements that share a scale, or 0
    LAST: int  #: the exponent of the last bit of the smallest product of elements
    BASE: int  #: of exact sums
    WORDS: int
    TENSOR: int  #: what the sum is multiplied by, an integer times a power of two
    TENSOR_EXPONENT: int
    TOP: int  #: sums of 2**TOP and more are infinite in a window's result


#: The places: a tuple, as not every numba takes members of an enum as an index.
How = _How(*range(len(_How._fields)))


class _Stages(NamedTuple):
    """Stages of products, the addend, sums, the sums of chunks and results: rows of an array."""

    PRODUCT: int
    BEGIN: int
    SUM: int
    TOTAL: int
    OUTPUT: int


#: Likewise.
Stages = _Stages(*range(len(_Stages._fields)))


def _adds(count: int, mixed: bool = False) -> int:
    """Return the step of `additions` that adds so many numbers, some of which may be sums and some terms."""
    return -(2 * count + 3 + mixed)


#: Steps of `additions` besides terms: push +0, or the addend; round a number; add a term to a sum.
START, BEGIN = -1, -2
ROUND, ADD_TERM = _adds(1), _adds(2, True)


#: Products of a step of machines that add rounded ones in pairs, and of those that align them.
IN_PAIRS = {"cdna2": 4, "cdna2_pairs": 2}
_ALIGNED = {"cdna3": 8, "cdna3_fp8": 16}
#: Sums and products of the first become zeros instead of subnormal numbers.
_FLUSHED = Projection(subnormals="flush_results")
#: Bits behind the point of the largest product which the others are cut to.
_PRODUCT_BITS = 24


def kept_as(fmt: Format) -> Format:
    """Return the format whose codes stand for numbers between two operations: binary64 for codebooks."""
    return DOUBLE if isinstance(fmt, Codebook) else fmt


def kind_of(accumulation: Accumulation) -> str:
    """Return the key of `dot.KINDS`."""
    return "exact" if accumulation.order == EXACT else "sums"


@functools.lru_cache(maxsize=256)
def lower_stages(accumulation: Accumulation, addend: Format) -> Params:
    """Return the stages of products, the addend, sums, sums of chunks and results."""
    accumulator = accumulation.accumulator
    sums = accumulator.result if isinstance(accumulator, Window) else accumulator or accumulation.output
    if accumulation.machine:  # it rounds to nearest; the output's rules are for what it makes
        sums = accumulation.output[0], _FLUSHED if accumulation.machine in IN_PAIRS else DEFAULT
    # An exact sum takes the addend as it is, and others one in binary64: there is nothing to round.
    fixed = accumulation.order == EXACT or isinstance(addend, Carrier)
    begin = (addend, DEFAULT if fixed else begins_in(accumulation)[1])
    product, total = accumulation.product or sums, accumulation.total or sums
    stages = [_stage(place) for place in (product, begin, sums, total)] + [_result(accumulation.output)]
    if accumulation.machine:  # its NaNs have no sign
        stages[-1][_NANS] = stages[-1][_NANS[0]]
    most = max(stage.size for stage in stages)
    return _frozen(np.array([np.pad(stage, (0, most - stage.size)) for stage in stages], np.uint64))


def _stage(place: Rounded) -> Params:
    fmt, how = place
    target, downward = lower_target(fmt, how), np.array([how.rounding.downward], np.uint64)
    if not isinstance(fmt, Codebook):
        return np.concatenate([target, lower_source(fmt), downward])
    words = in_values(fmt, target)
    words[SOURCE : DOWNWARD + 1] = [*lower_source(DOUBLE), *downward]
    return words


def _result(place: Rounded) -> Params:
    """Return the stage of the last sum: nothing reads its codes, so those of a codebook remain."""
    fmt, how = place
    if not isinstance(fmt, Codebook):
        return _stage(place)
    words = lower_target(fmt, how).copy()
    words[DOWNWARD] = how.rounding.downward
    return words


def _frozen(array: npt.NDArray[Any]) -> Any:
    array.flags.writeable = False
    return array


@functools.lru_cache(maxsize=256)
def lower_how(
    accumulation: Accumulation,
    x: Format,
    y: Format,
    addend: Format,
    scales: tuple[Format, Format] | None = None,
    block: int = 0,
    tensor: tuple[int, int] = (1, 0),
) -> Params:
    """Return the parameters of a kernel's run on codes of two formats, whose scales have two more."""
    accumulator, order = accumulation.accumulator, accumulation.order
    window = accumulator if isinstance(accumulator, Window) else None
    in_chunks = order.name == "chunked"
    pairs, step = IN_PAIRS.get(accumulation.machine, 0), _ALIGNED.get(accumulation.machine, 0)
    if accumulation.machine == "cdna3" and x.trailing_bits == 10 and x.exponent_bits == 8:
        step = 4
    inner = pairs or (in_chunks and order.inner == "pairwise")
    bits = window.fraction_bits if window else _PRODUCT_BITS if step else None
    groups = window.groups if window else ""
    if window is not None and window.scales == "groups" and scales is not None:
        _check_groups(window, x, y, scales)
    added = [addend] if window is None else [addend, window.result[0]]
    if order.name in TREES and isinstance(accumulator, tuple):
        added.append(kept_as(accumulator[0]))
    base, words = _room(x, y, scales, added)
    fields = {
        How.PAIRWISE: 1 if order == PAIRWISE else 2 if inner else 0,
        How.CHUNK: order.size if in_chunks else pairs,
        How.ADDEND_LAST: accumulation.addend == "last",
        How.ROUNDS_PRODUCTS: accumulation.product is not None or pairs > 0,
        How.WINDOW: window.step if window else step,
        How.FRACTION_BITS: -1 if bits is None else bits,
        How.LOWEST: window.lowest_exponent if window else 0,
        How.CUT: Cut[window.cut.upper()] if window else Cut.TOWARD_ZERO,
        How.ALTERNATE: accumulation.machine == "cdna3_fp8" or groups == "alternate_pairs",
        How.SCALES: Scales[window.scales.upper()] if window else Scales.NONE,
        How.GROUP: window.group if window else 1,
        How.POINT: x.trailing_bits + y.trailing_bits,
        How.SCALE_POINT: sum(fmt.trailing_bits for fmt in scales or ()),
        How.NEGATIVE_ZERO: step > 0 or (window is not None and window.negative_zero),
        How.BLOCK: block,
        How.LAST: _last_bit(x) + _last_bit(y),
        How.BASE: base,
        How.WORDS: words,
        How.TENSOR: tensor[0],
        How.TENSOR_EXPONENT: tensor[1],
        How.TOP: window.result[0].emax + 1 if window else accumulation.output[0].emax + 1 if step else 0,
    }
    return _frozen(np.array([int(fields[place]) for place in How], np.int64))


@functools.lru_cache(maxsize=64)
def additions(order: Order, terms: int, rounded: bool, begins: bool) -> npt.NDArray[np.int64]:
    """Return the steps that sum terms as a tree does, on a stack; nothing of orders that are loops.

    The first number is the depth of the stack. The others: a term is pushed, `START` and `BEGIN` push
    the beginning of a sum, and -(2 * n + 3) adds the n numbers on top, -(2 * n + 4) where some are sums and
    some are terms. Of these the ones whose NaN comes first are pushed first: sums, where terms are `rounded`.
    `begins` says that an addend comes first.
    """
    if order.name not in TREES:
        return _frozen(np.empty(0, np.int64))
    steps: list[int] = []
    begin = True
    waiting: list[Any] = [order.nodes(terms)]
    if begins and "()" not in order.spelled(terms):
        waiting = [((), order.nodes(terms))]
    while waiting:
        part = waiting.pop()
        if isinstance(part, int):
            steps.append(part)
        elif part == ():
            steps.append(BEGIN if begin else START)
            begin = False
        else:
            leaves = [each for each in part if isinstance(each, int)]
            groups = [each for each in part if not isinstance(each, int)]
            members = [*groups, *leaves] if rounded else [*leaves, *groups]
            mixed = bool(leaves and groups)
            waiting += [_adds(len(members), mixed), *members[::-1]]
    depth = most = 0
    for step in steps:
        depth += 1 if step >= BEGIN else 1 - (-step - 3) // 2
        most = max(most, depth)
    return _frozen(np.array([most, *steps], np.int64))


def _check_groups(window: Window, x: Format, y: Format, scales: tuple[Format, Format]) -> None:
    """Refuse groups whose exact sums, and steps whose aligned sums, do not fit in words."""
    sums = sum(fmt.emax + 1 - _last_bit(fmt) for fmt in (x, y)) + (window.group - 1).bit_length()
    exact = sums + sum(fmt.precision for fmt in scales)
    assert window.fraction_bits is not None, "scales need fraction_bits"
    aligned = x.emax + y.emax + 2 + 2 + window.fraction_bits + (window.step - 1).bit_length() + 1
    if max(exact, aligned) > 63:
        raise ValueError(
            f"sums of {window.group} products of {x.name!r} and {y.name!r} times scales of "
            f"{scales[0].name!r} and {scales[1].name!r} have up to {exact} bits, and {aligned} once they are "
            "aligned; lowprec computes with 63. Use narrower formats, a smaller group or step, or fewer "
            "fraction_bits"
        )


def _room(x: Format, y: Format, scales: tuple[Format, Format] | None, added: list[Format]) -> tuple[int, int]:
    """Return the power of two that exact sums are counted in, and how many words of 64 bits hold any of them.

    `added` are the formats of what is added to products: the addend, and the running sum of a window.
    """
    factors = [x, y, *(scales or ())]
    lowest = min(sum(_last_bit(fmt) for fmt in factors), *map(_last_bit, added))
    all_terms = (factors[:2], factors, *([fmt] for fmt in added))
    highest = max(sum(fmt.emax + 1 for fmt in some) for some in all_terms)
    base = lowest - 128
    return base, (highest - base) // 64 + 3 + 1  # 63 bits for the length, and 64 for scales


def bits_of_terms(request: Dot) -> int:
    """Return how many bits exact sums of blocks have that are added to each other, 0 where none are.

    Blocks in pairs are: elsewhere one of two numbers has been rounded.
    """
    how, scales = request.accumulation, request.scales or ()
    pairs = how.order.name in ("pairwise", *TREES) or how.order.inner == "pairwise"
    if not request.block or not pairs or how.product is not None or isinstance(how.accumulator, Window):
        return 0
    factors = request.x, request.y
    products = sum(fmt.emax + 1 - _last_bit(fmt) for fmt in factors) + request.block.bit_length()
    return products + sum(fmt.precision for fmt in scales)


def _last_bit(fmt: Format) -> int:
    """Return the exponent of the last bit of the smallest values."""
    return fmt.emin - fmt.trailing_bits


def integer(number: Fraction) -> tuple[int, int]:
    """Return a positive dyadic number as an integer times a power of two; the integer is 1 for 1 only."""
    power = (number.numerator & -number.numerator).bit_length() - number.denominator.bit_length()
    integer = int(number / Fraction(2) ** power)
    return (2, power - 1) if integer == 1 and power else (integer, power)
