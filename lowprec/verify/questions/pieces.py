"""Work on all pieces of a question, in this process or elsewhere; results come in the order of pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from lowprec.verify.questions.question import Question

__all__ = ["Each", "each_here"]


class Each(Protocol):
    """Calls a function with the question, each of its pieces and what else is given; yields the results."""

    def __call__(self, function: Callable[..., Any], *given: Any) -> Iterator[Any]:
        """Yield the results in the order of pieces."""


def each_here(question: Question) -> Each:
    """Return what goes through a question in this process."""
    return lambda function, *given: (function(question, batch, *given) for batch in question.batches())
