"""Files that the package writes: the only module that opens any for writing.

`write` and `replacing` write a file that a user names, whole or not at all. `private` and `own` keep
unfinished files under names that another run finds. `scratch` makes a folder for temporary files.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import stat
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

__all__ = [
    "filling",
    "is_foreign",
    "keep",
    "own",
    "private",
    "probe",
    "publish",
    "replacing",
    "scratch",
    "target",
    "write",
]

_BINARY, _NO_TERMINAL = getattr(os, "O_BINARY", 0), getattr(os, "O_NOCTTY", 0)
#: Opened through no link, and without waiting for the other end of a pipe.
_ITSELF = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | _NO_TERMINAL | _BINARY
_STREAMS = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/(\d+)")
_MOST_LINKS = 40


def write(path: Path, content: bytes) -> None:
    """Write a file whole or not at all.

    A regular file is written beside its place, under a name that nobody can guess, and renamed. It keeps
    its mode and, where this user may set it, its owner; a new file has the mode that the umask leaves.
    Symbolic links are followed. Pipes and devices, /dev/stdout among them, are written through.

    Raises
    ------
    OSError
        It cannot be written. A regular file is then as it was, and nothing is left beside it.
    """
    place, descriptor = _followed(path)
    if descriptor is not None:
        opened: Any = os.fdopen(os.dup(descriptor), "wb")
    elif _is_special(place):
        opened = os.fdopen(os.open(place, os.O_WRONLY | _NO_TERMINAL | _BINARY), "wb")
    else:
        opened = replacing(place)
    with opened as file, filling(file, path):
        file.write(content)


def keep(path: Path, content: bytes) -> None:
    """Write a file that this user alone may change, instead of what has its name: no link is followed.

    Those may read it who may read its folder.
    """
    with _beside(path, 0o600 | os.stat(path.parent).st_mode & 0o044) as file:
        file.write(content)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a new file to read and write, which takes the place of `path` when the body ends well.

    Links are followed, and mode and owner kept, as by `write`.

    Raises
    ------
    OSError
        It cannot be written, or `path` is a pipe, device or folder, which has no places to write at.
    """
    place, old = target(path)
    with _beside(place, 0o666 if old is None else 0o600) as file:
        if old is not None:
            _keep_rights(file.fileno(), old)
        yield file


@contextlib.contextmanager
def filling(file: BinaryIO, path: Path) -> Iterator[None]:
    """Name `path` in an OSError of the body, and drop what was not written: closing would fail again."""
    try:
        yield
        if not file.closed:
            file.flush()
    except OSError as error:
        file.raw.close()  # type: ignore[attr-defined]  # of a buffered file
        error.filename = error.filename or str(path)
        raise


def target(path: Path) -> tuple[Path, os.stat_result | None]:
    """Return where a file is written, behind its links, and the regular file that is there, or None.

    Raises
    ------
    OSError
        It is a pipe, device, socket or folder, may not be written, or is another user's link.
    """
    place, descriptor = _followed(path)
    if descriptor is not None or _is_special(place):
        why = "it is a pipe, device or folder, and this file is written at many places; name a regular file"
        raise OSError(errno.ESPIPE, why, str(path))
    try:
        old = os.stat(place)
    except FileNotFoundError:
        return place, None
    if not os.access(place, os.W_OK):
        raise _denied("permission denied", place)
    return place, old


def publish(made: Path, path: Path) -> None:
    """Let a file that is whole take the place of another, whose mode and owner it gets."""
    place, old = target(path)
    if old is not None:
        with own(made) as file:
            _keep_rights(file.fileno(), old)
    os.replace(made, place)


def own(path: Path) -> BinaryIO:
    """Open a file of this program's under a name that others may know, to read and write.

    One that is not there is made, and one that is there is not emptied.

    Raises
    ------
    OSError
        It is a link, has a second name, is another user's, or no regular file: somebody else put it there.
    """

    def opened(name: str, _: int) -> int:
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT | _ITSELF, 0o666)
        found = os.fstat(descriptor)
        if stat.S_ISREG(found.st_mode) and found.st_nlink <= 1 and not is_foreign(found, path):
            return descriptor
        os.close(descriptor)
        raise _denied("it is another user's, has a second name or is no regular file; remove it", path)

    try:
        return open(path.absolute(), "r+b", opener=opened)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):
            raise _denied("it is a link, which is not followed; remove it", path) from None
        raise


def private(folder: Path) -> bool:
    """Make a folder for this user alone, or accept the one that is there; return whether there was one.

    Raises
    ------
    OSError
        It is a link, no folder, another user's, or others may write it: somebody else put it there.
    """
    try:
        folder.mkdir(0o700)
    except FileExistsError:
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode):
            why = "it is a link or no folder"
        elif hasattr(os, "geteuid") and found.st_uid != os.geteuid():
            why = f"it is a folder of user {found.st_uid}"
        elif hasattr(os, "geteuid") and found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            why = f"others may write it (mode {stat.S_IMODE(found.st_mode):04o})"
        else:
            return True
        raise _denied(f"{why}, so what it holds need not be of an earlier run; remove it", folder) from None
    return False


def scratch(owner: object) -> Path:
    """Make a folder for temporary files of this user, which goes when `owner` does."""
    folder = tempfile.mkdtemp(prefix="lowprec-")
    weakref.finalize(owner, shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def probe(folder: Path) -> None:
    """Raise OSError if no file can be made in a folder; nothing is left there."""
    with tempfile.TemporaryFile(dir=folder):
        pass


def _followed(path: Path) -> tuple[Path, int | None]:
    """Follow a path's links, except /proc's; also return this process's descriptor that it names, if any."""
    for _ in range(_MOST_LINKS):
        name = os.path.abspath(path)
        if name in _STREAMS:
            return path, _STREAMS[name]
        if found := _DESCRIPTOR.fullmatch(name):
            return path, int(found[1])
        if name.startswith("/proc/") or not path.is_symlink():
            return path, None
        if (folder := os.stat(path.parent)).st_mode & stat.S_ISVTX and folder.st_mode & stat.S_IWOTH:
            if is_foreign(os.lstat(path), path):  # as Linux refuses where links are followed for it
                raise _denied("it is another user's link, in a folder that all may write", path)
        path = path.parent / os.readlink(path)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))


def _is_special(place: Path) -> bool:
    """Return whether something is there that is no regular file."""
    try:
        return not stat.S_ISREG(os.stat(place).st_mode)
    except FileNotFoundError:
        return False


def is_foreign(found: os.stat_result, path: Path) -> bool:
    """Return whether a file is neither this user's nor of who owns its folder."""
    if not hasattr(os, "geteuid"):
        return False
    return found.st_uid not in (os.geteuid(), os.stat(path.parent).st_uid)


def _denied(why: str, path: Path) -> PermissionError:
    return PermissionError(errno.EACCES, why, str(path))


@contextlib.contextmanager
def _beside(place: Path, mode: int) -> Iterator[BinaryIO]:
    """Open a new file beside a place, and rename it when the body ends well; else it is removed."""
    beside = place.absolute().with_name(f".lowprec-{os.urandom(16).hex()}")
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | _ITSELF
    with open(place, "r+b", opener=lambda *_: os.open(beside, flags, mode)) as file:  # errors name `place`
        try:
            with filling(file, place):
                yield file
                if not file.closed:
                    file.flush()
                    os.fsync(file.fileno())
                    file.close()
            os.replace(beside, place)
        except BaseException:
            with contextlib.suppress(OSError):
                beside.unlink()
            raise


def _keep_rights(descriptor: int, old: os.stat_result) -> None:
    """Set owner, group and mode as they were; a group that cannot be kept leaves no rights to another one."""
    if not hasattr(os, "fchown"):
        return
    mode = old.st_mode & 0o777
    now = os.fstat(descriptor)
    if (now.st_uid, now.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.fchown(descriptor, old.st_uid, old.st_gid)
        except PermissionError:
            try:
                os.fchown(descriptor, -1, old.st_gid)
            except PermissionError:
                mode &= ~0o070
    os.fchmod(descriptor, mode)
