"""Work that is spread over the workers of a cluster, whose results come in the order of the tasks."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future
from typing import Any

from lowprec.verify.questions.question import Each, Question
from lowprec.verify.sweeps.exhaustive import SOURCES, same_code
from lowprec.verify.sweeps.keeping import SweepError
from lowprec.verify.sweeps.processes import Cluster, Workers

__all__ = ["cluster", "each_on", "in_order"]

#: Pieces that a worker is given at a time.
_TOGETHER = 16


@contextlib.contextmanager
def cluster(address: str) -> Iterator[Workers]:
    """Use the workers of a Dask scheduler; what is not done at the end is taken back."""
    workers = Cluster(address)
    try:
        yield workers
    finally:
        workers.close()


def each_on(workers: Workers, question: Question) -> Each:
    """Return what goes through a question on workers, who read its files themselves."""

    def each(function: Callable[..., Any], *given: Any) -> Iterator[Any]:
        bounds = question.bounds()
        parts = iter(lambda: list(itertools.islice(bounds, _TOGETHER)), [])
        tasks = ((function, question, part, given) for part in parts)
        return itertools.chain.from_iterable(in_order(workers, _on_pieces, tasks))

    return each


def _on_pieces(
    function: Callable[..., Any],
    question: Question,
    bounds: list[tuple[int, ...]],
    given: tuple[Any, ...],
) -> list[Any]:
    return [function(question, question.piece(*each), *given) for each in bounds]


def in_order(
    workers: Workers, function: Callable[..., Any], tasks: Iterable[tuple[Any, ...]]
) -> Iterator[Any]:
    """Yield the results of a function for tasks, some of which are under way at a time.

    A worker must run the sources that this process runs.

    Raises
    ------
    SweepError
        A task failed, or killed the workers that did it.
    """
    left, pending = iter(tasks), dict[Future[Any], int]()
    done: dict[int, Any] = {}
    given = count = 0
    while True:
        while len(pending) + len(done) < workers.ahead and (task := next(left, None)) is not None:
            pending[workers.submit(_checked, SOURCES, function, task)] = given
            given += 1
        if not pending and not done:
            return
        for future in workers.wait(pending) if count not in done else ():
            number = pending.pop(future)
            try:
                done[number] = future.result()
            except FileNotFoundError as error:
                raise SweepError(
                    f"a worker does not see {error.filename!r}: all of them must read the files that the "
                    f"command reads, by the same names"
                ) from None
            except workers.died:
                raise SweepError("workers died of a task again and again; give them more memory") from None
            except CancelledError:
                raise SweepError("the scheduler gave up its tasks; run the same again") from None
            except Exception as error:
                raise SweepError(f"{type(error).__name__}: {error}") from error
        if count in done:
            yield done.pop(count)
            count += 1


def _checked(sources: str, function: Callable[..., Any], task: tuple[Any, ...]) -> Any:
    same_code(sources)
    return function(*task)
