"""The latest events of an account: those of others are left out, and no more is read than was asked for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cns_common.clock import Clock
from cns_common.events import reverse_reader
from cns_common.events.recent_events import RECENT_BYTES_MAX, recent_events
from cns_common.events.schema import Event, PublishAccepted, QueueCounted
from cns_common.events.segment import SegmentLimits
from cns_common.events.writer import SegmentWriter

ACCOUNT, OTHER, REGION = "111111111111", "222222222222", "us-east-1"
LIMITS = SegmentLimits(segment_bytes_max=1 << 20, segment_age_s=3600, retention_s=3600, bytes_max=1 << 30)


def accepted(at_ms: int, account: str = ACCOUNT, topic: str = "", size_bytes: int = 1) -> PublishAccepted:
    return PublishAccepted(
        at_ms=at_ms,
        message_id=f"m-{at_ms}",
        topic=topic,
        account=account,
        size_bytes=size_bytes,
        has_subject=False,
        jobs=1,
    )


def topic(account: str = ACCOUNT, region: str = REGION) -> str:
    return f"arn:aws:sns:{region}:{account}:t"


def write(directory: Path, process: str, *events: Event) -> None:
    writer = SegmentWriter(directory, process, Clock(), LIMITS)
    for event in events:
        writer.emit(event)
    writer.close()


def times(directory: Path, bytes_max: int = RECENT_BYTES_MAX) -> list[int]:
    return [event.at_ms for event in recent_events([directory], ACCOUNT, REGION, bytes_max).events]


def test_events_of_all_processes_come_by_time(tmp_path: Path) -> None:
    write(tmp_path, "api", accepted(3, topic=topic()), accepted(1, topic=topic()))
    write(tmp_path, "worker", accepted(2, topic=topic()))
    assert times(tmp_path) == [1, 2, 3]
    assert recent_events([tmp_path], ACCOUNT, REGION).since_ms == 0


def test_only_ones_own_in_the_region(tmp_path: Path) -> None:
    count = QueueCounted(at_ms=5, since_ms=0, queue=f"arn:aws:sqs:{REGION}:{ACCOUNT}:q", sent=1, received=0, deleted=0)
    write(
        tmp_path,
        "api",
        accepted(1, topic=topic()),
        accepted(2, OTHER, topic(OTHER)),
        accepted(3, topic=topic(region="eu-west-1")),
        accepted(4),  # to a phone number
        count,
        accepted(6, OTHER, f"{topic(OTHER)}{ACCOUNT}"),  # a name that looks like an account
        accepted(7, OTHER),
    )
    assert times(tmp_path) == [1, 4, 5]


def test_the_end_of_a_segment_is_read_when_the_whole_is_too_long(tmp_path: Path) -> None:
    write(tmp_path, "api", *[accepted(n, topic=topic()) for n in range(1, 101)])
    found = recent_events([tmp_path], ACCOUNT, REGION, 4_000)
    assert 5 <= len(found.events) < 30
    assert [event.at_ms for event in found.events] == list(range(101 - len(found.events), 101))
    assert found.since_ms == found.events[0].at_ms


def test_a_torn_or_foreign_line_is_no_event(tmp_path: Path) -> None:
    write(tmp_path, "api", accepted(1, topic=topic()))
    (segment,) = tmp_path.glob("*/*/*.jsonl")
    segment.write_bytes(
        segment.read_bytes() + b'{"event":"moon.landed","account":"111111111111"}\n{"event":"publish.acc'
    )
    assert times(tmp_path) == [1]
    assert times(tmp_path / "nowhere") == []


def test_a_folder_that_is_removed_meanwhile_has_no_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "api", accepted(1, topic=topic()))
    listed = reverse_reader._matching

    def with_a_removed_one(directory: Path, name: re.Pattern[str]) -> list[Path]:
        found = listed(directory, name)
        return [*found, directory / "24"] if directory.parent == tmp_path else found

    monkeypatch.setattr(reverse_reader, "_matching", with_a_removed_one)
    assert times(tmp_path) == [1]
