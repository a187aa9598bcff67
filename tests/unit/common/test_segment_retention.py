"""Removal of segments, and the figures of segments that the pipeline has not ingested."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import structlog

from cns_common.durations import HOUR_MS
from cns_common.events.retention import BYTES_MAX_MIN, INGESTED, SegmentRetention, default_bytes_max

DAY_S = 86_400
SEGMENT_BYTES = 10


def sealed_at(directory: Path, hour: int, suffix: str = ".jsonl") -> Path:
    """A segment that was opened and written at an hour of the first day of 1970."""
    path = directory / "1970-01-01" / f"{hour:02d}" / f"p-{hour}{suffix}"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x" * SEGMENT_BYTES)
    os.utime(path, (hour * 3_600, hour * 3_600))
    return path


def ingested(directory: Path, *paths: Path) -> None:
    new = directory / "ingested.new"
    new.write_text("".join(f"{path.name}\n" for path in paths))
    new.rename(directory / INGESTED)


def known(retention: SegmentRetention) -> dict[str, float]:
    return {sample.name.removeprefix("cns_event_segments_"): sample.value for sample in retention.samples()}


@pytest.mark.parametrize(
    ("keep_from_hour", "bytes_max", "removed", "left", "left_if_3_was_ingested"),
    [
        (0, 100, (0, 0), [0, 1, 2, 3], [0, 1, 2, 3]),
        (2, 100, (2, 0), [2, 3], [2, 3]),
        (9, 100, (4, 0), [], []),
        (0, 39, (0, 1), [1, 2, 3], [0, 1, 2]),
        (0, 20, (0, 2), [2, 3], [1, 2]),
        (1, 10, (1, 2), [3], [2]),
    ],
)
def test_old_segments_go_and_then_ingested_ones_and_the_oldest(
    tmp_path: Path,
    keep_from_hour: int,
    bytes_max: int,
    removed: tuple[int, int],
    left: list[int],
    left_if_3_was_ingested: list[int],
) -> None:
    for directory, expected in ((tmp_path / "unread", left), (tmp_path / "ingested", left_if_3_was_ingested)):
        paths = [sealed_at(directory, hour) for hour in range(4)]
        if directory.name == "ingested":
            ingested(directory, paths[3])
        retention = SegmentRetention(directory, 1, bytes_max)
        assert retention.remove_old(keep_from_hour * HOUR_MS + 1_000, 0) == removed
        assert [hour for hour, path in enumerate(paths) if path.exists()] == expected


def test_an_open_segment_is_never_removed(tmp_path: Path) -> None:
    path = sealed_at(tmp_path, 0, ".jsonl.open")
    assert SegmentRetention(tmp_path, 1, 1).remove_old(2**45, 2**45) == (0, 0)
    assert path.exists()


def test_nothing_is_said_of_unread_segments_where_no_pipeline_runs(tmp_path: Path) -> None:
    sealed_at(tmp_path, 0)
    retention = SegmentRetention(tmp_path, DAY_S, 1)
    with structlog.testing.capture_logs() as logged:
        assert retention.remove_old(HOUR_MS, HOUR_MS) == (0, 1)
    assert (known(retention), logged) == ({"removed_unread_total": 0}, [])


def test_how_near_unread_segments_are_to_their_removal(tmp_path: Path) -> None:
    paths = [sealed_at(tmp_path, hour) for hour in range(4)]
    ingested(tmp_path, paths[0])
    by_size = SegmentRetention(tmp_path, DAY_S, 5 * SEGMENT_BYTES)
    by_size.remove_old(0, 3 * HOUR_MS)
    growing_left_s = 2 * SEGMENT_BYTES * 900 / SEGMENT_BYTES  # room for two, one written in the last 15 minutes
    assert known(by_size) == {
        "unread": 3,
        "unread_bytes": 30,
        "unread_share": 0.6,
        "unread_left_seconds": growing_left_s,
        "removed_unread_total": 0,
    }
    by_age = SegmentRetention(tmp_path, 4 * 3_600, 100 * SEGMENT_BYTES)
    by_age.remove_old(0, 4 * HOUR_MS)
    assert (known(by_age)["unread_share"], known(by_age)["unread_left_seconds"]) == (0.75, 3_600)

    ingested(tmp_path, *paths)
    by_age.remove_old(0, 4 * HOUR_MS)
    assert (known(by_age)["unread"], known(by_age)["unread_share"]) == (0, 0)


def test_unread_segments_that_are_removed_are_counted_and_logged(tmp_path: Path) -> None:
    paths = [sealed_at(tmp_path, hour) for hour in range(4)]
    ingested(tmp_path, paths[2])
    retention = SegmentRetention(tmp_path, DAY_S, SEGMENT_BYTES)
    with structlog.testing.capture_logs() as logged:
        assert retention.remove_old(0, 3 * HOUR_MS) == (0, 3)
        retention.remove_old(0, 3 * HOUR_MS)
    assert known(retention)["removed_unread_total"] == 2
    (entry,) = logged
    assert entry == {
        "event": "event_segment.removed_unread",
        "log_level": "warning",
        "segments": 2,
        "bytes": 20,
        "last": "p-1.jsonl",
    }


def test_without_a_setting_the_limit_is_a_share_of_the_disk(tmp_path: Path) -> None:
    facts = os.statvfs(tmp_path)
    expected = max(facts.f_blocks * facts.f_frsize // 10, BYTES_MAX_MIN)
    assert default_bytes_max(tmp_path / "not" / "there") == expected
