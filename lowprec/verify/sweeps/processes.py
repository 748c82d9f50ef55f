"""Ranges of sweeps, handed out to processes: to those of this machine, or to a Dask cluster's.

A range may be done twice, by anyone, in any order: a worker that dies costs its work and nothing else.
What is done is kept on disk, so a run that was stopped goes on where it was.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Protocol

from lowprec.verify.sweeps.exhaustive import (
    RANGES,
    SOURCES,
    Found,
    Steps,
    Sweep,
    Swept,
    steps_of,
    sweep_range,
)
from lowprec.verify.sweeps.keeping import Keeper, SweepError

__all__ = ["Cluster", "Here", "Processes", "Workers", "run", "team"]

#: Times that workers may die without anything having been done in between.
_DEATHS = 4

#: Seconds between two writes of a sweep's state: what may have to be done again.
_PAUSE = 2.0

# -- who works --------------------------------------------------------------------------------------


class Workers(Protocol):
    """Whoever does ranges and steps."""

    #: What a task ends with whose worker has died.
    died: tuple[type[BaseException], ...]

    @property
    def ahead(self) -> int:
        """Number of tasks to hand out at a time."""

    def submit(self, function: Callable[..., Any], *given: Any) -> Future[Any]:
        """Hand out a task."""

    def wait(self, pending: Iterable[Future[Any]]) -> set[Future[Any]]:
        """Wait until some of these have ended."""

    def renew(self) -> None:
        """Replace workers that have died."""

    def close(self) -> None:
        """Stop at once."""


class Here:
    """No worker but the command itself, one task after the other."""

    died: tuple[type[BaseException], ...] = ()
    ahead = 1

    def submit(self, function: Callable[..., Any], *given: Any) -> Future[Any]:
        """Do a task."""
        future: Future[Any] = Future()
        try:
            future.set_result(function(*given))
        except Exception as error:
            future.set_exception(error)
        return future

    def wait(self, pending: Iterable[Future[Any]]) -> set[Future[Any]]:
        """Return all of them have ended."""
        return set(pending)

    def renew(self) -> None:
        """Do nothing."""

    close = renew


class Processes:
    """So many processes of this machine, which need no package and no port.

    The standard library's pool breaks as a whole when one of its processes dies; a new one takes
    its place.
    """

    died: tuple[type[BaseException], ...] = (BrokenProcessPool,)

    def __init__(self, count: int) -> None:
        self.ahead = 3 * count
        self._count = count
        self._before = set(multiprocessing.active_children())
        self.renew()

    def submit(self, function: Callable[..., Any], *given: Any) -> Future[Any]:
        """Hand out a task."""
        try:
            return self._pool.submit(function, *given)
        except BrokenProcessPool as error:
            future: Future[Any] = Future()
            future.set_exception(error)
            return future

    def wait(self, pending: Iterable[Future[Any]]) -> set[Future[Any]]:
        """Return some; all of them where a process has died."""
        pending = set(pending)
        done, _ = wait(pending, return_when=FIRST_COMPLETED)
        if any(isinstance(future.exception(), BrokenProcessPool) for future in done):
            done, _ = wait(pending)
        return done

    def renew(self) -> None:
        """Start a new pool."""
        # A forked child would have the threads' locks of this process, and not the threads.
        spawn = multiprocessing.get_context("spawn")
        self._pool: Executor = ProcessPoolExecutor(self._count, mp_context=spawn, initializer=_begin)
        with _ctrl_c_held():
            self.submit(os.getpid)  # starts the processes

    def close(self) -> None:
        """Stop at once: nobody waits for what is under way."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        for _ in range(100):  # one that was being started is seen a moment after the others
            mine = set(multiprocessing.active_children()) - self._before
            for child in mine:
                child.kill()
            if not mine:
                break
            time.sleep(0.05)


@contextlib.contextmanager
def _ctrl_c_held() -> Iterator[None]:
    """Hold Ctrl-C back from processes that are started here; this process gets it afterwards."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin() -> None:
    """Set a worker up: one thread, no Ctrl-C, and an end when the command ends."""
    os.environ["OMP_NUM_THREADS"] = "1"  # read by frameworks when they are imported
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_follow, args=(parent,), daemon=True).start()


def _follow(parent: Any) -> None:
    parent.join()
    os._exit(1)


class Cluster:
    """The workers of a Dask scheduler, however many there are at a time.

    Parameters
    ----------
    address : str
        Such as tcp://host:8786.

    Raises
    ------
    SweepError
        dask.distributed is not installed, or nobody answers there.
    """

    def __init__(self, address: str) -> None:
        try:
            from distributed import Client, KilledWorker
        except ImportError:
            raise SweepError('--scheduler needs dask.distributed; pip install "lowprec[dask]"') from None
        _check_address(address)
        try:
            self._client = Client(address, timeout=10, set_as_default=False)
        except (OSError, ValueError) as error:
            raise SweepError(f"no Dask scheduler answers at {address!r}: {error}") from None
        self.died: tuple[type[BaseException], ...] = (KilledWorker,)
        self._executor: Executor = self._client.get_executor(pure=False)
        self._looked, self._ahead = 0.0, 8

    @property
    def ahead(self) -> int:
        """By the threads that there are now."""
        if time.monotonic() - self._looked > 5:
            with contextlib.suppress(OSError):  # tasks say so when the scheduler is gone
                self._ahead = max(8, 3 * sum(self._client.nthreads().values()))
            self._looked = time.monotonic()
        return self._ahead

    def submit(self, function: Callable[..., Any], *given: Any) -> Future[Any]:
        """Hand out a task."""
        return self._executor.submit(function, *given)

    def wait(self, pending: Iterable[Future[Any]]) -> set[Future[Any]]:
        """Return some."""
        return wait(set(pending), return_when=FIRST_COMPLETED).done

    def renew(self) -> None:
        """Do nothing: the cluster replaces its workers."""

    def close(self) -> None:
        """Take back what is not done."""
        self._executor.shutdown(wait=False)
        self._client.close()


def _check_address(address: str) -> None:
    """Refuse what is no address, and one where nobody answers, which a client would wait for.

    Raises SweepError.
    """
    scheme, _, place = address.rpartition("://")
    host, _, port = place.rpartition(":")
    if scheme not in ("", "tcp", "tls", "ws", "wss") or not host or not port.isdecimal():
        raise SweepError(f"{address!r} is no address of a Dask scheduler, such as tcp://127.0.0.1:8786")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except (OSError, OverflowError, UnicodeError) as error:
        raise SweepError(f"no Dask scheduler answers at {address!r}: {error}") from None


def team(scheduler: str | None, count: int) -> Workers:
    """Return the workers of a scheduler, or so many processes of this machine."""
    if scheduler is not None:
        return Cluster(scheduler)
    return Here() if count == 1 else Processes(count)


# -- the run ----------------------------------------------------------------------------------------


class _Job:
    """A sweep under way."""

    def __init__(self, sweep: Sweep, keeper: Keeper, ranges: Sequence[int]) -> None:
        self.sweep, self.keeper, self.ranges = sweep, keeper, ranges
        self.all = keeper.ranges(sweep)
        self.missing = [index for index in ranges if index not in self.all]
        self.kept = len(ranges) - len(self.missing)
        self.steps: Steps | None = None
        self.saved, self.unsaved = time.monotonic(), 0

    def take(self, found: Found) -> None:
        """Take a range that is done."""
        self.all[found.index] = found
        self.unsaved += 1
        if self.unsaved == len(self.missing) or time.monotonic() - self.saved > _PAUSE:
            self.save()

    def save(self) -> None:
        """Keep what is done."""
        if self.unsaved:
            self.keeper.keep_ranges(self.sweep, self.all.values(), self.ranges)
            self.saved, self.unsaved = time.monotonic(), 0


def run(
    sweeps: Sequence[Sweep],
    workers: Workers,
    keeper: Keeper,
    *,
    ranges: Sequence[int] = range(RANGES),
    watch: Callable[[int, int, str], None] | None = None,
) -> list[Swept]:
    """Do what is not done of these sweeps, and report on all of them.

    Whatever ends this, what is done by then is kept, and the workers are closed.

    Parameters
    ----------
    sweeps : sequence of Sweep
    workers : Workers
    keeper : Keeper
    ranges : sequence of int
        Only these.
    watch : function, optional
        Called with the ranges done, the ranges in all, and the sweep under way.

    Raises
    ------
    SweepError
        A cast failed, or workers die whatever they do.
    """
    jobs = [_Job(sweep, keeper, ranges) for sweep in sweeps]
    total, done, deaths = len(jobs) * len(ranges), sum(job.kept for job in jobs), 0
    waiting = deque(job for job in jobs if job.missing)
    tasks: deque[tuple[_Job, int | None]] = deque()  # a range of a sweep, or None for its steps
    pending: dict[Future[Any], tuple[_Job, int | None]] = {}
    if watch is not None:
        watch(done, total, "")
    try:
        while waiting or tasks or pending:
            while (tasks or waiting) and len(pending) < workers.ahead:
                if not tasks:
                    _begin_job(waiting.popleft(), tasks)
                job, index = tasks.popleft()
                pending[_submit(workers, job, index)] = (job, index)
            died, progress = False, False
            for future in workers.wait(pending):
                job, index = pending.pop(future)
                try:
                    result = future.result()
                except workers.died:
                    died = True
                    tasks.appendleft((job, index))
                    continue
                except CancelledError:
                    raise SweepError("the scheduler gave up its tasks; run the same again to go on") from None
                except Exception as error:
                    raise SweepError(f"{job.sweep}: {type(error).__name__}: {error}") from error
                progress = True
                if index is None:
                    job.steps = result
                    keeper.keep_steps(job.sweep, result)
                    tasks.extend((job, missing) for missing in job.missing)
                else:
                    job.take(result)
                    done += 1
            deaths = deaths + died if not progress else 0
            if deaths >= _DEATHS:
                raise SweepError(f"workers died {deaths} times in a row, last at {tasks[0][0].sweep}")
            if died:
                workers.renew()
            if watch is not None:
                job, index = next(iter(pending.values()), (jobs[-1], 0))
                watch(done, total, f"{job.sweep}{': its steps' if index is None else ''}")
    finally:
        with contextlib.ExitStack() as last:
            last.callback(workers.close)
            for job in jobs:
                last.callback(job.save)
    return [Swept(job.sweep, tuple(job.all[index] for index in ranges), job.kept) for job in jobs]


def _begin_job(job: _Job, tasks: deque[tuple[_Job, int | None]]) -> None:
    job.steps = job.keeper.steps(job.sweep)
    if job.steps is None:
        tasks.append((job, None))
    else:
        tasks.extend((job, index) for index in job.missing)


def _submit(workers: Workers, job: _Job, index: int | None) -> Future[Any]:
    if index is None:
        return workers.submit(steps_of, job.sweep, SOURCES)
    assert job.steps is not None
    return workers.submit(sweep_range, job.sweep, index, job.steps.within(index), SOURCES)
