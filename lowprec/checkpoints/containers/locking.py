"""Lock for one writer of a file at a time; the lock goes with the process that holds it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from lowprec import files
from lowprec.checkpoints.container import CheckpointError
from lowprec.checkpoints.containers.writer import filling

__all__ = ["alone", "in_turn"]


@contextlib.contextmanager
def in_turn(lock: Path) -> Iterator[None]:
    """Hold a lock file while the body runs, after whoever has it now; none where there can be none."""
    with contextlib.ExitStack() as held:
        with contextlib.suppress(CheckpointError):
            held.enter_context(alone(lock, wait=True))
        yield


@contextlib.contextmanager
def alone(lock: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold a lock file while the body runs; nobody else gets in, but whoever waits until it is free.

    The lock is the system's (`flock`), so that one whose holder was killed is free. Where the system has
    none, as Windows, nothing is locked.

    Raises CheckpointError: another process holds it, the file cannot be made, or it holds more than a number.
    """
    try:
        import fcntl
    except ImportError:  # pragma: no cover
        yield
        return
    while True:
        try:
            held = files.own(lock)
        except OSError as error:
            raise CheckpointError(f"cannot make the lock file {str(lock)!r}: {error.strerror}") from None
        try:
            fcntl.flock(held, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except OSError:
            by = held.read(20).decode("ascii", "replace").strip()
            held.close()
            raise CheckpointError(
                f"another process{f' ({by})' if by else ''} writes there and holds {str(lock)!r}; wait for "
                f"it, or name another output"
            ) from None
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(held.fileno()), os.stat(lock)):
                break
        held.close()  # the one that had it before has just removed it
    if held.read(21).strip(b"0123456789"):  # of a process that was killed
        held.close()
        raise CheckpointError(
            f"{str(lock)!r} is in the way, and no lock file of an earlier run; move it elsewhere, or name "
            f"another output"
        )
    try:
        with filling(held):
            held.seek(0)
            held.truncate()
            held.write(str(os.getpid()).encode())
        yield
    finally:
        lock.unlink(missing_ok=True)  # while it is held: nobody else's can be under this name
        held.close()
