"""Laws of operations: the exact result is rounded once, and what follows from that.

Results are computed here in fractions, and a square root is judged by squares; neither the oracle nor a
kernel is asked, but by the law that compares with the oracle.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from lowprec.spec.format import Sign
from lowprec.testing.grid import Array, values_of
from lowprec.testing.law import Outcome, law as any_law
from lowprec.testing.operation import OperationSubject
from lowprec.testing.projecting import is_plain, projected

#: A law about operations.
law = functools.partial(any_law, topic="operation")

_REAL = ("add", "subtract", "multiply", "divide", "sqrt", "fma", "minimum", "maximum")
_COMMUTE = ("add", "multiply", "minimum", "maximum", "minimum_number", "maximum_number", "fma")
_NEUTRAL = ("add", "subtract", "multiply", "divide")


def _compared(subject: OperationSubject, operands: list[Array], got: Array, want: Array) -> Outcome:
    """Compare codes with those that are wanted; the first case that differs is told."""
    said = (("got", subject.shown, got), ("want", subject.shown, want))
    columns = (*subject.columns(operands), *said, ("projection", str(subject.projection)))
    return Outcome.of(got != want, *columns)


def _exact(name: str, values: list[Fraction]) -> Fraction | None:
    """Return the real result of finite operands; None if there is none, or it is 0, signed by other rules."""
    x, y, z = (*values, Fraction(0), Fraction(0))[:3]
    if name == "divide":
        result = x / y if y else None
    elif name == "sqrt":
        result = _root(x) if x > 0 else None
    elif name == "fma":
        result = x * y + z
    elif name in ("minimum", "maximum"):
        result = min(x, y) if name == "minimum" else max(x, y)
    else:
        result = {"add": x + y, "subtract": x - y, "multiply": x * y}[name]
    return result or None


def _root(x: Fraction) -> Fraction:
    """Return the square root, or a fraction so near that no format has a number or a tie between them.

    It is cut to multiples of 2**-1300, and where that changes it, half a step is added: values and ties of a
    format, whose last places are 2**-1075 or above, are multiples of the step, and none lies within one.
    """
    scaled = x * (1 << 2600)
    root = math.isqrt(int(scaled))
    return Fraction(root, 1 << 1300) if root * root == scaled else Fraction(2 * root + 1, 1 << 1301)


@law(
    "real result",
    f"{', '.join(_REAL)}; finite operands, results other than 0, a projection of rounding and saturation "
    "alone",
    lambda s: s.name in _REAL and is_plain(s.projection),
)
def real_result(subject: OperationSubject) -> Outcome:
    """The code is that of the exact real result, rounded and saturated once."""
    numbers, places = [], []
    for place, row in enumerate(zip(*(values.tolist() for values in subject.values), strict=True)):
        if all(math.isfinite(value) for value in row):
            result = _exact(subject.name, [Fraction(value) for value in row])
            if result is not None:
                numbers.append(result)
                places.append(place)
    operands = [codes[places] for codes in subject.operands]
    return _compared(
        subject, operands, subject.results[places], projected(numbers, subject.target, subject.projection)
    )


@law("oracle", "every case; not the oracle itself", lambda s: not s.oracle)
def agrees_with_the_oracle(subject: OperationSubject) -> Outcome:
    """The code is the oracle's, for infinities, NaNs and zeros too; where that is a NaN, it is one."""
    want = subject.oracle_results
    alike = subject.is_nan(want) & subject.is_nan(subject.results)
    return _compared(subject, subject.operands, np.where(alike, want, subject.results), want)


@law(
    "commutativity",
    f"{', '.join(_COMMUTE)}; the first two operands of one format",
    lambda s: s.name in _COMMUTE and s.formats[0] == s.formats[1],
)
def commutativity(subject: OperationSubject) -> Outcome:
    """The first two operands may change places: the code is the same, or both are NaNs."""
    x, y, *rest = subject.operands
    turned = subject.call(y, x, *rest)
    alike = subject.is_nan(turned) & subject.is_nan(subject.results)
    return _compared(subject, [y, x, *rest], np.where(alike, subject.results, turned), subject.results)


@law(
    "identities",
    f"{', '.join(_NEUTRAL)}; all of one format, a projection of rounding and saturation alone",
    lambda s: s.name in _NEUTRAL and s.uniform and is_plain(s.projection) and _neutral(s) is not None,
)
def identities(subject: OperationSubject) -> Outcome:
    """A finite number other than 0 is not changed by x + (-0), x - 0, x * 1 and x / 1."""
    codes = np.unique(subject.operands[0])
    values = values_of(codes, subject.target)
    codes = codes[np.isfinite(values) & (values != 0)]
    if subject.projection.symmetric and subject.target.sign is Sign.TWOS_COMPLEMENT:
        codes = codes[codes != 1 << (subject.target.width - 1)]
    neutral = np.full(codes.size, _neutral(subject))
    return _compared(subject, [codes, neutral], subject.call(codes, neutral), codes)


def _neutral(subject: OperationSubject) -> int | None:
    """Return the code of the second operand that changes nothing, if there is one."""
    if subject.name in ("multiply", "divide"):
        return subject.one
    if subject.name == "subtract" or subject.negative_zero is None:
        return subject.zero
    return subject.negative_zero


@law(
    "fma identities",
    "fma of finite x and y; all of one format that has 0 and 1, and by what knows multiply and add too",
    lambda s: s.name == "fma" and s.siblings and s.uniform and s.zero is not None and s.one is not None,
)
def fma_identities(subject: OperationSubject) -> Iterator[Outcome]:
    """fma(x, y, 0) is x * y but for the sign of zero, and fma(x, 1, y) is x + y."""
    finite = np.isfinite(subject.values[0]) & np.isfinite(subject.values[1])
    x, y = subject.operands[0][finite], subject.operands[1][finite]
    one, zero = np.full(x.size, subject.one), np.full(x.size, subject.zero)
    for name, operands in (("multiply", [x, y, zero]), ("add", [x, one, y])):
        got, want = subject.call(*operands), subject.call(x, y, name=name)
        left, right = values_of(got, subject.target), values_of(want, subject.target)
        alike = ((left == 0) & (right == 0)) | (np.isnan(left) & np.isnan(right))
        yield _compared(subject, operands, np.where(alike, want, got), want)


@law(
    "sum of opposites",
    "subtract of finite numbers of one format; results with a zero",
    lambda s: s.name == "subtract" and s.formats[0] == s.formats[1] and s.zero is not None,
)
def opposites(subject: OperationSubject) -> Outcome:
    """A number less itself is +0, or -0 where rounding goes toward_negative and there is one."""
    codes = np.unique(subject.operands[0])
    codes = codes[np.isfinite(values_of(codes, subject.formats[0]))]
    down = subject.projection.rounding.name == "toward_negative" and subject.negative_zero is not None
    want = np.full(codes.size, subject.negative_zero if down else subject.zero)
    return _compared(subject, [codes, codes], subject.call(codes, codes), want)
