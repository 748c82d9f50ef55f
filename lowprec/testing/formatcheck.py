"""Checking a format: every law, on the verbs and the oracle, or on someone's own implementation.

Floor 5.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from lowprec.spec import catalog
from lowprec.spec.format import Format
from lowprec.spec.projection import Projection
from lowprec.testing.law import LAWS, Law, Report, Verdict, message
from lowprec.testing.operationcheck import of_arrays, of_flagged, of_oracle, verdicts_of
from lowprec.testing.subjects import Arrays, Flagged, Implementation, Oracle, Subject

__all__ = ["check_format", "report_of"]

_OPERATIONS = ("add", "subtract", "multiply", "divide", "sqrt", "fma")


def check_format(fmt: Format | str | Any, *, samples: int = 256, seed: int = 0) -> Report:
    """Try every law on a format, or on an implementation of one, and refuse it where one does not hold.

    Of a `Format` the verbs on arrays and the oracle are tried: all codes up to 16 bits, and every value,
    tie and threshold with its neighbours. What is expected follows from the parameters alone.

    >>> import lowprec as lp
    >>> mine = lp.Format(name="mine", exponent_bits=2, trailing_bits=2, bias=1, nans=1)
    >>> check_format(mine)  # doctest: +ELLIPSIS
    <Report of mine: ... checks, ... cases, all hold>

    An implementation of your own is any object with `decode`, from an array of unsigned codes to their
    values, and optionally with `encode`, from float64 values to codes. It says how many bits its codes have
    (`width`) and may say its `sign` ("magnitude", "unsigned" or "twos_complement"), the `rounding` of its
    `encode` (nearest_even by default) and its `name`; or the `format` that it is meant to be, a `Format` or a
    name, whose parameters it is then held against.

    >>> class Broken:
    ...     name, width = "broken", 4
    ...     def decode(self, codes):
    ...         return [[0, 1, 3, 2, 4, 5, 6, 7, 0, -1, -3, -2, -4, -5, -6, -7][code] for code in codes]
    >>> check_format(Broken())
    Traceback (most recent call last):
    AssertionError: broken breaks the law 'increasing' (broken)
      law     A larger magnitude stands for a larger value.
      domain  finite codes with a clear sign bit; those next to each other
      smallest counterexample
        code  0x2  0 010  3.0 = 0x1.8000000000000p+1
        next  0x3  0 011  2.0 = 0x1.0000000000000p+1
        want  more than 3.0 = 0x1.8000000000000p+1
      one other law broken too: signs (broken)

    Parameters
    ----------
    fmt : Format, str, or an object with `decode`
    samples : int
        Random numbers beside the cases.
    seed : int
        Of these.

    Returns
    -------
    report : Report
        What was tried.

    Raises
    ------
    AssertionError
        A law that does not hold: its name and statement, the smallest counterexample, its code, bits and value.
    ValueError
        No format; or an implementation that does not say its width, or that answers in another shape.
    """
    report = report_of(fmt, samples=samples, seed=seed)
    if report.broken:
        raise AssertionError(message(report))
    return report


def report_of(fmt: Format | str | Any, *, samples: int = 256, seed: int = 0) -> Report:
    """What `check_format` finds, without an error where a law does not hold."""
    if samples < 0 or seed < 0:
        raise ValueError(f"samples and seed must not be negative, not {samples} and {seed}")
    if isinstance(fmt, Format | str) or not callable(getattr(fmt, "decode", None)):
        if not isinstance(fmt, str) and not isinstance(fmt, Format) and not hasattr(fmt, "dtype"):
            if not isinstance(fmt, type):
                raise TypeError(
                    f"check_format takes a Format, a name, or an object with decode(codes) and width, not {fmt!r}"
                )
        known = catalog.format(fmt)
        verdicts = [
            verdict
            for subject in (Arrays(known, samples, seed), Flagged(known), Oracle(known))
            for verdict in _tried(subject)
        ]
        return Report(known.name, tuple([*verdicts, *_arithmetic(known, seed)]))
    own = Implementation(fmt, samples, seed)
    return Report(own.name, tuple(_tried(own)))


def laws() -> dict[str, Law]:
    """Every law by name."""
    import lowprec.testing.laws  # noqa: F401 - enters them

    return LAWS


def _tried(subject: Subject) -> Iterator[Verdict]:
    """The laws of formats that say anything about an implementation; those of encoding only where codes make sense."""
    broken = False
    for law in laws().values():
        if law.topic != "format" or not law.applies(subject):
            continue
        # Neighbours mean nothing where the values of someone's own are not in order.
        if broken and subject.fmt is None and law.name in ("nearest", "directed bounds", "to odd", "monotone"):
            continue
        with np.errstate(all="ignore"):
            outcome = law.check(subject)
        broken = broken or outcome.found is not None
        yield Verdict(law, subject.path, outcome.tried, outcome.found)


def _arithmetic(fmt: Format, seed: int) -> Iterator[Verdict]:
    """The laws of arithmetic on operations in one format, one verdict a law and path."""
    for make, samples in ((of_arrays, 64), (of_flagged, 64), (of_oracle, 32)):
        merged: dict[str, Verdict] = {}
        for operation in _OPERATIONS:
            count = {"sqrt": 1, "fma": 3}.get(operation, 2)
            for rounding in ("nearest_even", "toward_negative")[: 2 if make is of_arrays else 1]:
                how = Projection(rounding=rounding)  # type: ignore[arg-type]
                for verdict in verdicts_of(make(operation, (fmt,) * count, fmt, how, samples, seed)):
                    known = merged.get(verdict.law.name)
                    tried = verdict.tried + (known.tried if known else 0)
                    found = known.found if known and known.found else _with(verdict, operation, rounding)
                    merged[verdict.law.name] = Verdict(verdict.law, verdict.path, tried, found)
        yield from merged.values()


def _with(verdict: Verdict, operation: str, rounding: str) -> Any:
    """A counterexample that says of which operation it is."""
    if verdict.found is None:
        return None
    return type(verdict.found)((("operation", f"{operation}, {rounding}"), *verdict.found.rows))
