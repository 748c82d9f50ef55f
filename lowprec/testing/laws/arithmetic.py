"""Laws of operations: the exact result is rounded once, and what follows from that.

Results are computed here in fractions, and a square root is judged by squares; neither the oracle nor a
kernel is asked, but by the law that compares with the oracle.

Floor 5.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from lowprec.testing.law import Counterexample, Outcome, law
from lowprec.testing.operationcheck import Operation

__all__: list[str] = []

Array = npt.NDArray[Any]

_REAL = ("add", "subtract", "multiply", "divide", "sqrt", "fma", "minimum", "maximum")
_COMMUTES = ("add", "multiply", "minimum", "maximum", "minimum_number", "maximum_number")


def _told(subject: Operation, place: int, got: int, want: str) -> Counterexample:
    rows = tuple(
        (name, subject.shown_operand(index, int(codes[place])))
        for index, (name, codes) in enumerate(zip("xyz", subject.operands, strict=False))
    )
    return Counterexample((*rows, ("got", subject.shown(got)), ("want", want)))


def _first(subject: Operation, got: Array, want: Array, where: Array | None = None) -> Outcome:
    """The first case whose code differs."""
    wrong = got != want if where is None else (got != want) & where
    tried = int(got.size if where is None else where.sum())
    if not wrong.any():
        return Outcome(tried)
    place = int(np.argmax(wrong))
    return Outcome(tried, _told(subject, place, int(got[place]), subject.shown(int(want[place]))))


def _exact(name: str, values: list[Fraction]) -> Fraction | None:
    """The real result of finite operands; None where there is none, or a zero whose sign is another matter."""
    x, y, z = (*values, Fraction(0), Fraction(0))[:3]
    if name == "divide":
        result = x / y if y else None
    elif name == "sqrt":
        result = _root(x) if x > 0 else None
    else:
        results = {
            "add": x + y,
            "subtract": x - y,
            "multiply": x * y,
            "fma": x * y + z,
            "minimum": min(x, y),
            "maximum": max(x, y),
        }
        result = results[name]
    return result or None


def _root(x: Fraction) -> Fraction:
    """The square root, or a fraction so near that no format has a number or a tie between them.

    It lies half a step of 2**-1300 above the root's digits there; whatever has fewer digits is not passed.
    """
    scaled = x * (1 << 2600)
    root = math.isqrt(int(scaled))
    return Fraction(root, 1 << 1300) if root * root == scaled else Fraction(2 * root + 1, 1 << 1301)


@law("real result", "operation", f"finite operands; {', '.join(_REAL)}", lambda s: s.operation in _REAL)
def real_result(subject: Operation) -> Outcome:
    """The code is that of the exact real result, rounded and saturated once."""
    numbers, places = [], []
    for place, row in enumerate(zip(*(values.tolist() for values in subject.values), strict=True)):
        if all(math.isfinite(value) for value in row):
            result = _exact(subject.operation, [Fraction(value) for value in row])
            if result is not None:
                numbers.append(result)
                places.append(place)
    want = subject.projected(numbers)
    got = subject.results[places]
    if (got == want).all():
        return Outcome(len(places))
    first = int(np.argmax(got != want))
    found = _told(subject, places[first], int(got[first]), subject.shown(int(want[first])))
    return Outcome(len(places), found)


@law(
    "oracle", "operation", "every case; not the oracle itself", lambda s: s.path not in ("oracle", "arrays with flags")
)
def agrees_with_the_oracle(subject: Operation) -> Outcome:
    """The code is the oracle's, for infinities, NaNs and zeros too; of NaNs only that it is one."""
    want = subject.oracle_results
    nan = np.isnan(subject.decoded(want))
    got = np.where(nan & np.isnan(subject.decoded(subject.results)), want, subject.results)
    return _first(subject, got, want)


@law("commutativity", "operation", f"{', '.join(_COMMUTES)}, fma's factors", lambda s: s.commutes)
def commutativity(subject: Operation) -> Outcome:
    """Operands that change places give the same code; NaN gives NaN."""
    x, y, *rest = subject.operands
    turned = subject.call([y, x, *rest])
    both = np.isnan(subject.decoded(turned)) & np.isnan(subject.decoded(subject.results))
    return _first(subject, np.where(both, subject.results, turned), subject.results)


@law(
    "identities",
    "operation",
    "add, subtract, multiply, divide; into the format of the first operand",
    lambda s: s.neutral,
)
def identities(subject: Operation) -> Outcome:
    """A number other than 0 is not changed by x + (-0), x - 0, x * 1 and x / 1."""
    codes = np.unique(subject.operands[0])
    values = subject.decoded(codes)
    codes = codes[~np.isnan(values) & (values != 0)]
    if np.isinf(values).any() and subject.projection.saturation.value == "finite":
        codes = codes[np.isfinite(subject.decoded(codes))]
    neutral = np.full(codes.size, subject.neutral_code)
    got = subject.call([codes, neutral])
    wrong = got != codes
    if not wrong.any():
        return Outcome(codes.size)
    place = int(np.argmax(wrong))
    rows = (
        ("x", subject.shown_operand(0, int(codes[place]))),
        ("y", subject.shown_operand(1, subject.neutral_code)),
        ("got", subject.shown(int(got[place]))),
    )
    return Outcome(codes.size, Counterexample((*rows, ("want", "x"))))


@law("fma identities", "operation", "fma of finite operands into the format of all", lambda s: s.fma_like)
def fma_identities(subject: Operation) -> Outcome:
    """fma(x, y, 0) is x * y but for the sign of zero, and fma(x, 1, y) is x + y."""
    x, y, _ = subject.operands
    one, zero = np.full(x.size, subject.one), np.zeros(x.size, np.int64)
    product, total = subject.sibling("multiply", [x, y]), subject.sibling("add", [x, y])
    finite = np.isfinite(subject.decoded(x)) & np.isfinite(subject.decoded(y))
    for got, want in ((subject.call([x, y, zero]), product), (subject.call([x, one, y]), total)):
        left, right = subject.decoded(got), subject.decoded(want)
        same = (got == want) | ((left == right) & (left == 0)) | (np.isnan(left) & np.isnan(right))
        wrong = finite & ~same
        if wrong.any():
            place = int(np.argmax(wrong))
            rows = (("x", subject.shown_operand(0, int(x[place]))), ("y", subject.shown_operand(1, int(y[place]))))
            more = (("got", subject.shown(int(got[place]))), ("want", subject.shown(int(want[place]))))
            return Outcome(x.size, Counterexample((*rows, *more)))
    return Outcome(2 * x.size)


@law(
    "sum of opposites",
    "operation",
    "subtract of finite numbers, signed results with a zero",
    lambda s: s.operation == "subtract" and s.signed_zero and len(set(s.formats)) == 1,
)
def opposites(subject: Operation) -> Outcome:
    """A number less itself is +0, and -0 where rounding goes toward negative numbers."""
    codes = np.unique(subject.operands[0])
    codes = codes[np.isfinite(subject.decode_operand(0, codes))]
    got = subject.call([codes, codes])
    minus = subject.projection.rounding.name == "toward_negative" and subject.target.has_negative_zero
    want = np.full(codes.size, subject.target.sign_code if minus else 0)
    wrong = got != want
    if not wrong.any():
        return Outcome(codes.size)
    place = int(np.argmax(wrong))
    rows = (("x", subject.shown_operand(0, int(codes[place]))), ("got", subject.shown(int(got[place]))))
    return Outcome(codes.size, Counterexample((*rows, ("want", subject.shown(int(want[place]))))))
