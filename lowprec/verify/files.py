"""Files that a user names, written whole or not at all; what is no regular file is written through.

Every command writes its files with `write`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
from pathlib import Path

__all__ = ["write"]

_BINARY, _NO_TERMINAL = getattr(os, "O_BINARY", 0), getattr(os, "O_NOCTTY", 0)
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
        _write_through(os.dup(descriptor), content)
        return
    try:
        old = os.stat(place)
    except FileNotFoundError:
        old = None
    if old is not None and not stat.S_ISREG(old.st_mode):
        _write_through(os.open(place, os.O_WRONLY | _NO_TERMINAL | _BINARY), content)
        return
    if old is not None and not os.access(place, os.W_OK):
        raise _denied("permission denied", place)
    _replace(place, content, old)


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
        _refuse_planted(path)
        path = path.parent / os.readlink(path)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))


def _refuse_planted(link: Path) -> None:
    """Refuse another user's link in a folder such as /tmp, as Linux does where links are followed for it."""
    if not hasattr(os, "geteuid"):
        return
    folder, owner = os.stat(link.parent), os.lstat(link).st_uid
    shared = folder.st_mode & stat.S_ISVTX and folder.st_mode & stat.S_IWOTH
    if shared and owner not in (os.geteuid(), folder.st_uid):
        raise _denied("it is another user's link, in a folder that all may write", link)


def _denied(why: str, path: Path) -> PermissionError:
    return PermissionError(errno.EACCES, why, str(path))


def _write_through(descriptor: int, content: bytes) -> None:
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def _replace(place: Path, content: bytes, old: os.stat_result | None) -> None:
    beside = place.with_name(f".lowprec-{secrets.token_hex(16)}")
    mode = 0o666 if old is None else 0o600
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            if old is not None and hasattr(os, "fchown"):
                _keep(descriptor, old)
        os.replace(beside, place)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise


def _keep(descriptor: int, old: os.stat_result) -> None:
    """Set owner, group and mode as they were; a group that cannot be kept leaves no rights to another one."""
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
