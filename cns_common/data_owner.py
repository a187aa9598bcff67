"""Lets root write into the data directory of another user. Links that this user put there do no harm to other files."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def is_another_users(data: Path) -> bool:
    """Whether this process is root's, and the directory is not."""
    return os.geteuid() == 0 and data.stat().st_uid != 0


@contextmanager
def working_as_owner(data: Path, name: str) -> Iterator[None]:
    """Root's process has the rights of the data directory's owner, no more, and works in its directory `name`, which is
    made if it is missing. Raises OSError, also if `name` is a symbolic link. All threads of the process are concerned.
    """
    with ExitStack() as stack:
        before_fd = _opened(stack, ".")
        stack.callback(os.fchdir, before_fd)
        data_fd = _opened(stack, data)
        stack.enter_context(_rights_of(os.fstat(data_fd)))
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=data_fd)
        fd = os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=data_fd)
        stack.callback(os.close, fd)
        os.fchdir(fd)
        yield


def give_to_owner(data: Path, names: Iterable[str]) -> None:
    """Give files that root made in the data directory to its owner. Raises OSError for what is no file or has another
    name too, as the file may be another's."""
    if not is_another_users(data):
        return
    with ExitStack() as stack:
        data_fd = _opened(stack, data)
        owner = os.fstat(data_fd)
        for name in names:
            with suppress(FileNotFoundError):
                _give(data_fd, name, owner)


def _give(data_fd: int, name: str, owner: os.stat_result) -> None:
    _check_plain(os.stat(name, dir_fd=data_fd, follow_symlinks=False), name)  # opening a device may have effects
    fd = os.open(name, _FILE, dir_fd=data_fd)
    try:
        _check_plain(os.fstat(fd), name)
        os.fchown(fd, owner.st_uid, owner.st_gid)
    finally:
        os.close(fd)


def _check_plain(facts: os.stat_result, name: str) -> None:
    if not stat.S_ISREG(facts.st_mode) or facts.st_nlink != 1:
        raise OSError(errno.EPERM, f"{name} is no file of its own: a link, a directory or a device")


def _opened(stack: ExitStack, path: str | Path) -> int:
    fd = os.open(path, _DIRECTORY)
    stack.callback(os.close, fd)
    return fd


@contextmanager
def _rights_of(owner: os.stat_result) -> Iterator[None]:
    groups, group = os.getgroups(), os.getegid()
    try:
        os.setgroups([])
        os.setegid(owner.st_gid)
        os.seteuid(owner.st_uid)
        yield
    finally:
        os.seteuid(0)
        os.setegid(group)
        os.setgroups(groups)
