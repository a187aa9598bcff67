"""Writes that the store accepts while its disk fills up and is emptied."""

from __future__ import annotations

import errno
from pathlib import Path

import apsw
import pytest

from cns_common.sqlite.disk_space import RESERVE_BYTES, ROOM_BYTES, DiskSpace, is_full

NONE = 0
PLENTY = 10 * RESERVE_BYTES


class Disk:
    """`free_bytes` of it are free beside the reserve, and `unused_bytes` within the store."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.free_bytes = PLENTY
        self.unused_bytes = 0
        self.space = DiskSpace(directory, lambda _: self.free_bytes)
        self.reserve = directory / "reserve"

    def look(self) -> bool:
        """Whether writes that grow the store are accepted."""
        self.space.check(lambda: self.unused_bytes)
        return not self.space.refusing


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    disk = Disk(tmp_path)
    disk.space.keep_reserve(RESERVE_BYTES)
    return disk


def test_the_reserve_takes_room_of_the_disk_and_costs_no_look(disk: Disk) -> None:
    assert disk.reserve.stat().st_blocks * 512 >= RESERVE_BYTES
    assert disk.reserve.stat().st_mode & 0o777 == 0o600
    assert (disk.space.needs_check, disk.space.reason) == (False, "")


def test_a_refused_write_gives_the_reserve_up_and_is_news_once(disk: Disk) -> None:
    disk.free_bytes = NONE
    assert [disk.space.mark_full(), disk.space.mark_full()] == [True, False]
    assert disk.reserve.stat().st_size == 0
    assert disk.space.reason.startswith("the disk is full")
    disk.free_bytes = RESERVE_BYTES
    assert not disk.look(), "that is what the reserve had"


def test_room_makes_the_reserve_again_and_a_write_ends_the_reason(disk: Disk) -> None:
    disk.space.mark_full()
    disk.free_bytes = RESERVE_BYTES + ROOM_BYTES
    assert disk.look()
    assert disk.reserve.stat().st_size == RESERVE_BYTES
    assert disk.space.reason, "nothing was written so far"
    disk.space.mark_written()
    assert (disk.space.reason, disk.space.needs_check) == ("", False)


def test_what_is_written_from_the_reserve_does_not_end_the_reason(disk: Disk) -> None:
    disk.space.mark_full()
    disk.space.mark_written()
    assert disk.space.reason


def test_room_within_the_store_is_used_by_halves(disk: Disk) -> None:
    disk.free_bytes = NONE
    disk.space.mark_full()
    accepted = []
    for disk.unused_bytes in (
        RESERVE_BYTES - 1,
        RESERVE_BYTES,
        RESERVE_BYTES // 2,
        RESERVE_BYTES // 2 - 1,
        RESERVE_BYTES - 1,
    ):
        accepted.append(disk.look())
        disk.space.mark_written()
    assert accepted == [False, True, True, False, False]
    assert disk.space.reason


def test_an_earlier_process_that_gave_it_up_is_remembered(disk: Disk) -> None:
    disk.space.mark_full()
    disk.free_bytes = RESERVE_BYTES
    again = DiskSpace(disk.directory, lambda _: disk.free_bytes)
    again.keep_reserve(RESERVE_BYTES)
    assert again.refusing
    assert again.reason


def test_a_disk_that_never_had_room_for_a_reserve_is_used_all_the_same(tmp_path: Path) -> None:
    space = DiskSpace(tmp_path, lambda _: RESERVE_BYTES)
    space.keep_reserve(RESERVE_BYTES)
    space.check(lambda: 0)
    assert (space.refusing, space.reason, (tmp_path / "reserve").exists()) == (False, "", False)


def test_no_reserve_is_wanted(disk: Disk) -> None:
    disk.space.keep_reserve(0)
    assert not disk.reserve.exists()
    disk.free_bytes = NONE
    disk.space.mark_full()
    assert not disk.look()
    disk.free_bytes = ROOM_BYTES
    assert disk.look()


@pytest.mark.parametrize(
    ("error", "full"),
    [
        (OSError(errno.ENOSPC, "no space"), True),
        (OSError(errno.EDQUOT, "quota"), True),
        (OSError(errno.EACCES, "denied"), False),
        (apsw.FullError("full"), True),
        (apsw.IOError("fsync"), False),
    ],
)
def test_what_is_a_lack_of_space(error: Exception, full: bool) -> None:
    assert is_full(error) == full
