"""The model of a disk: synced writes are certain, and contents that were never written never appear."""

from __future__ import annotations

from random import Random

import pytest

from lab.faults.power.disk import SECTOR_BYTES, Disk
from lab.faults.power.recording_vfs import DirectorySync, EntryChange, Log, Record, Sync, Truncate, Write

OLD = b"o" * SECTOR_BYTES * 3
NEW = b"n" * SECTOR_BYTES * 3
TRIES = 300


def _disk(*records: Record, base: dict[str, bytes] | None = None) -> Disk:
    """File 0 is the base's first, or the first that is linked."""
    log = Log(base)
    log.records += records
    disk = Disk(log)
    disk.advance(len(records))
    return disk


@pytest.mark.parametrize(
    ("records", "left"),
    [
        ([], {"a": OLD}),
        ([Write(0, 0, NEW)], {"a": OLD}),
        ([Write(0, 0, NEW), Sync(0, 1)], {"a": NEW}),
        ([Write(0, 0, NEW), Sync(0, 0)], {"a": OLD}),  # the sync had begun before
        ([Write(0, len(OLD), b"x"), Sync(0, 1)], {"a": OLD + b"x"}),
        ([Write(0, len(OLD) + 2, b"x"), Sync(0, 1)], {"a": OLD + b"\0\0x"}),
        ([Truncate(0, 1), Sync(0, 1)], {"a": b"o"}),
        ([Truncate(0, 1)], {"a": OLD}),
        ([EntryChange("a", None)], {"a": OLD}),
        ([EntryChange("a", None), DirectorySync(1)], {}),
        ([EntryChange("b", 1), Write(1, 0, b"x"), Sync(1, 2)], {"a": OLD}),
        ([EntryChange("b", 1), Write(1, 0, b"x"), Sync(1, 2), DirectorySync(2)], {"a": OLD, "b": b"x"}),
        ([EntryChange("b", 1), Write(1, 0, b"x"), DirectorySync(1)], {"a": OLD, "b": b""}),
    ],
)
def test_what_was_synced_is_left(records: list[Record], left: dict[str, bytes]) -> None:
    assert _disk(*records, base={"a": OLD}).synced() == left


def test_a_torn_file_holds_whole_sectors_of_what_was_written() -> None:
    disk = _disk(Write(0, 0, NEW), Write(0, SECTOR_BYTES, b"m" * SECTOR_BYTES), base={"a": OLD})
    seen = set()
    for seed in range(TRIES):
        content = disk.torn(Random(seed))["a"]
        sectors = [content[start : start + SECTOR_BYTES] for start in range(0, len(content), SECTOR_BYTES)]
        assert all(len(set(sector)) == 1 for sector in sectors)
        seen.add(bytes(sector[0] for sector in sectors))
    assert seen == {bytes((a, b, c)) for a in b"on" for b in b"onm" for c in b"on"}


def test_a_torn_file_has_one_of_its_sizes_and_no_bytes_from_nowhere() -> None:
    disk = _disk(Write(0, len(OLD), b"n" * 700), Truncate(0, 100), base={"a": OLD})
    seen = {len(disk.torn(Random(seed))["a"]) for seed in range(TRIES)}
    assert seen == {len(OLD), len(OLD) + 700, 100}
    assert all(set(disk.torn(Random(seed))["a"]) <= set(b"on\0") for seed in range(TRIES))


def test_what_was_synced_is_never_torn() -> None:
    disk = _disk(Write(0, 0, NEW), Sync(0, 1), Write(0, 0, b"x" * SECTOR_BYTES), base={"a": OLD})
    for seed in range(TRIES):
        assert disk.torn(Random(seed))["a"][SECTOR_BYTES:] == NEW[SECTOR_BYTES:]


def test_an_entry_that_was_not_synced_may_be_missing_or_there() -> None:
    disk = _disk(EntryChange("b", 1), Write(1, 0, b"x"), Sync(1, 2), base={"a": OLD})
    assert {tuple(sorted(disk.torn(Random(seed)))) for seed in range(TRIES)} == {("a",), ("a", "b")}
