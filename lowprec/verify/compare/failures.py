"""Errors of hypotheses: one that fails is left out, and noted."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

__all__ = ["Failures", "trying"]

#: Errors of hypotheses, by the words of the hypothesis.
Failures = dict[str, str]

#: Environment variable that, if not empty, raises the errors of hypotheses, as the tests do.
_RAISE = "LOWPREC_RAISE"


@contextlib.contextmanager
def trying(words: str, failures: Failures, refusals: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Note an error of a hypothesis; drop errors that are refusals."""
    try:
        yield
    except refusals:
        pass
    except Exception as error:
        if os.environ.get(_RAISE):
            raise
        failures.setdefault(words, f"{type(error).__name__}: {error}")
