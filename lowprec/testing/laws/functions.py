"""Laws of functions, exp and its kin: the real value is rounded once, or a unit stays within its budget.

What is right is said by enclosures of the values (python-flint), which neither law computes for itself.
"""

from __future__ import annotations

import functools

import numpy as np

from lowprec.testing.grid import Array
from lowprec.testing.law import Outcome, law as any_law
from lowprec.testing.operation import OperationSubject
from lowprec.verify.codes.values import distances

#: A law about functions.
law = functools.partial(any_law, topic="function")


def _told(subject: OperationSubject, wrong: Array, want: Array, *rows: tuple[str, str]) -> Outcome:
    """Return the outcome of results of which some are wrong; the first is told."""
    said = (("got", subject.shown, subject.results), ("want", subject.shown, want), *rows)
    columns = (*subject.columns(subject.operands), *said, ("projection", str(subject.projection)))
    return Outcome.of(wrong, *columns)


def _kinds(subject: OperationSubject, codes: Array) -> Array:
    """Return 0 for finite results, 1 and -1 for infinities, 2 for NaNs."""
    values = subject.values_of(codes)
    return np.select([np.isnan(values), np.isposinf(values), np.isneginf(values)], [2, 1, -1], 0)


@law("function value", "results that are finite, or should be; budgets in codes")
def function_value(subject: OperationSubject) -> Outcome:
    """The code is that of the real value, rounded and saturated once; or lies within the budget."""
    want, got = subject.function_results, subject.results
    finite = (_kinds(subject, want) == 0) & (_kinds(subject, got) == 0)
    if not subject.budget:
        return _told(subject, finite & (got != want), want)
    far = np.where(finite, distances(got, want, subject.target), 0)
    most = int(np.abs(far).max(initial=0))
    rows = ("budget", f"{subject.budget} codes"), ("largest distance", f"{most} codes")
    return _told(subject, np.abs(far) > subject.budget, want, *rows)


@law("function specials", "every case; no budget widens it")
def function_specials(subject: OperationSubject) -> Outcome:
    """Results are NaN, or infinite with a sign, where the function's rounded value is, and nowhere else."""
    want = subject.function_results
    return _told(subject, _kinds(subject, subject.results) != _kinds(subject, want), want)
