"""Finds the events of one message, and reports missing segments."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from cns_common.durations import HOUR_MS
from cns_common.events import search as segment_search
from cns_common.events.files import OPEN, SEALED, encoder, fact_line, folder_at, origin_of, segment_name
from cns_common.events.schema import (
    DeliveryAttempted,
    Event,
    NotificationDropped,
    PublishAccepted,
    QueueCounted,
    SegmentOpened,
    SegmentSealed,
)
from cns_common.events.search import EARLY_MS, EventGap, search_back_to_publish, search_segments

AT_MS = 1_763_700_000_000
OURS, THEIRS = "0b6ad2b4-0000-4000-8000-000000000001", "0b6ad2b4-0000-4000-8000-000000000002"


def event(message_id: str, at_ms: int = AT_MS, cause: str = "c") -> NotificationDropped:
    return NotificationDropped(
        at_ms=at_ms,
        message_id=message_id,
        message_type="Notification",
        topic="t",
        subscription="",
        attempt=0,
        cause=cause,
    )


def line(boot: str, sequence: int, told: Event) -> bytes:
    return origin_of(boot) + b"%d," % sequence + encoder.encode(told)[1:] + b"\n"


def write(
    directory: Path, boot: str, first: int, events: Sequence[Event], *, at_ms: int = AT_MS, **sealed: int
) -> Path:
    """A segment; without a seal time it is still open."""
    path = directory / folder_at(at_ms) / (segment_name("worker", boot, first) + (SEALED if sealed else OPEN))
    path.parent.mkdir(parents=True, exist_ok=True)
    opened = SegmentOpened(at_ms=at_ms, process="worker", first_sequence=first)
    lines = [fact_line(boot, opened), *[line(boot, first + n, told) for n, told in enumerate(events)]]
    if sealed:
        last = {"last_sequence": first + len(events) - 1, "events": len(events), "torn_bytes": 0, **sealed}
        fact = SegmentSealed(
            at_ms=at_ms, process="worker", first_sequence=first, recovered=False, stopped=False, **last
        )
        lines.append(fact_line(boot, fact))
    path.write_bytes(b"".join(lines))
    return path


def test_events_about_no_notification_are_passed_over(tmp_path: Path) -> None:
    queue = f"arn:aws:sqs:us-east-1:111111111111:{OURS}"  # a queue may have any name
    counted = QueueCounted(at_ms=AT_MS, since_ms=AT_MS, queue=queue, sent=1, received=0, deleted=0)
    write(tmp_path, "b", 1, [counted, event(OURS)])
    found = search_segments([tmp_path], OURS)
    assert ([told.sequence for told in found.events], found.unread) == ([2], 0)


def test_nothing_is_found_of_an_empty_id(tmp_path: Path) -> None:
    write(tmp_path, "b", 1, [event(OURS)])
    assert search_segments([tmp_path], "").events == ()


def test_of_all_processes_in_the_order_of_time(tmp_path: Path) -> None:
    write(tmp_path / "a", "b1", 1, [event(THEIRS), event(OURS, AT_MS + 2)], torn_bytes=0)
    write(tmp_path / "a", "b2", 1, [event(OURS, AT_MS + 1), event(THEIRS, AT_MS + 3)])
    write(tmp_path / "b", "b3", 1, [event(OURS, AT_MS)])
    found = search_segments([tmp_path / "a", tmp_path / "b", tmp_path / "none"], OURS)
    assert [(told.boot, told.sequence, told.event.at_ms - AT_MS) for told in found.events] == [
        ("b3", 1, 0),
        ("b2", 1, 1),
        ("b1", 2, 2),
    ]
    assert (found.gaps, found.unread, found.segments) == ((), 0, 3)
    assert found.searched_bytes == sum(path.stat().st_size for path in tmp_path.glob("*/*/*/*"))


def test_a_line_across_two_reads_and_one_that_is_not_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, "b", 1, [event(THEIRS), event(OURS), event(THEIRS), event(OURS)])
    path.write_bytes(path.read_bytes() + line("b", 5, event(OURS))[:-1])
    for block_bytes in (1, 7, 100, 200, 333, 10_000):
        monkeypatch.setattr(segment_search, "BLOCK_BYTES", block_bytes)
        assert [told.sequence for told in search_segments([tmp_path], OURS).events] == [2, 4]


def test_only_the_message_itself(tmp_path: Path) -> None:
    """The id in another member belongs to another message's event."""
    write(tmp_path, "b", 1, [event(THEIRS, cause=OURS), event(OURS)])
    assert [told.sequence for told in search_segments([tmp_path], OURS).events] == [2]


@pytest.mark.parametrize(
    "bad",
    [
        b'{"version":2,"boot":"b","sequence":1,"event":"notification.dropped","message_id":"%s"}\n' % OURS.encode(),
        b'{"version":1,"boot":"b","sequence":1,"event":"notification.mislaid","message_id":"%s"}\n' % OURS.encode(),
        b"not JSON %s\n" % OURS.encode(),
    ],
)
def test_what_cannot_be_read_is_counted(tmp_path: Path, bad: bytes) -> None:
    path = write(tmp_path, "b", 1, [])
    path.write_bytes(path.read_bytes() + bad + line("b", 2, event(OURS)))
    found = search_segments([tmp_path], OURS)
    assert (found.unread, [told.sequence for told in found.events]) == (1, [2])


def test_files_that_are_no_segments_are_passed_over(tmp_path: Path) -> None:
    path = write(tmp_path, "b", 1, [event(OURS)])
    for name in ("notes.txt", "worker-b-x.jsonl", "a.jsonl", path.name.replace(OPEN, ".jsonl.new")):
        path.with_name(name).write_bytes(path.read_bytes())
    assert search_segments([tmp_path], OURS).segments == 1


def test_one_that_is_sealed_between_being_found_and_being_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, "b", 1, [event(OURS)])
    listed = Path.glob

    def sealed_after(directory: Path, pattern: str) -> list[Path]:
        paths = list(listed(directory, pattern))
        path.rename(path.with_name(path.name.replace(OPEN, SEALED)))
        return paths

    monkeypatch.setattr(Path, "glob", sealed_after)
    assert len(search_segments([tmp_path], OURS).events) == 1


def test_one_that_is_removed_between_being_found_and_being_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, "b", 1, [event(OURS)], torn_bytes=0)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", lambda *_: (_ for _ in ()).throw(FileNotFoundError(path)))
        assert search_segments([tmp_path], OURS).events == ()


def gap(first: int, last: int | None, *, removed: bool = False) -> EventGap:
    return EventGap(process="worker", boot="b", first_sequence=first, last_sequence=last, removed=removed)


@pytest.mark.parametrize(
    "segments, gaps",
    [
        ([(1, 3, {"torn_bytes": 0}), (4, 1, {})], []),
        ([(5, 1, {})], [gap(1, 4, removed=True)]),
        ([(1, 2, {"torn_bytes": 0}), (6, 1, {})], [gap(3, 5)]),
        ([(1, 2, {"torn_bytes": 0, "last_sequence": 4})], [gap(1, 4)]),
        ([(1, 2, {"torn_bytes": 17})], [gap(3, None)]),
        ([(1, 0, {})], []),
    ],
)
def test_numbers_that_are_not_there(
    tmp_path: Path, segments: list[tuple[int, int, dict[str, int]]], gaps: list[EventGap]
) -> None:
    for first, n, sealed in segments:
        write(tmp_path, "b", first, [event(THEIRS)] * n, **sealed)
    assert list(search_segments([tmp_path], OURS).gaps) == gaps


def test_only_segments_of_its_time_are_looked_through(tmp_path: Path) -> None:
    """A segment opened in the hour before may have later events."""
    for hour in range(4):
        write(tmp_path, f"b{hour}", 10, [event(OURS, AT_MS + hour * HOUR_MS)], at_ms=AT_MS + hour * HOUR_MS)
    found = search_segments([tmp_path], OURS, AT_MS + 3 * HOUR_MS)
    assert [told.boot for told in found.events] == ["b2", "b3"]
    assert found.gaps == ()  # lines that were not selected are no gaps


def test_of_many_subscriptions_the_first_are_read(tmp_path: Path) -> None:
    def attempt(subscription: str, cause: str) -> DeliveryAttempted:
        return DeliveryAttempted(
            at_ms=AT_MS,
            message_id=OURS,
            message_type="Notification",
            topic="t",
            subscription=subscription,
            protocol="http",
            attempt=1,
            phase="first",
            outcome="failed" if cause else "delivered",
            cause=cause,
            status=0,
            duration_ms=1,
            endpoint="e",
            reason="",
        )

    told = [attempt(f"well-{n}", "") for n in range(9)] + [attempt(f"bad-{n}", "c") for n in range(9)]
    write(tmp_path, "b", 1, [*told, attempt("bad-0", ""), event(OURS)])
    found = search_segments([tmp_path], OURS, subscription="well-8", subscriptions_max=2)
    assert [getattr(one.event, "subscription", "") for one in found.events] == [
        *("well-0", "well-1", "well-8", "bad-0", "bad-1"),
        *("bad-0", ""),  # all later lines of a subscription, and lines about no subscription
    ]
    assert found.left_out == 13
    assert search_segments([tmp_path], OURS).left_out == 0


# -- back to the publish -----------------------------------------------------------------------------------------------


def accepted(message_id: str, at_ms: int, *, replayed: bool = False) -> PublishAccepted:
    return PublishAccepted(
        at_ms=at_ms,
        message_id=message_id,
        topic="t",
        account="a",
        size_bytes=1,
        has_subject=False,
        jobs=1,
        replayed=replayed,
    )


def written(directory: Path, boot: str, first: int, events: Sequence[Event], folder_ms: int = AT_MS) -> None:
    """A segment that was written last when its last event happened."""
    path = write(directory, boot, first, events, at_ms=folder_ms)
    ended_s = events[-1].at_ms / 1000
    os.utime(path, (ended_s, ended_s))


def test_a_page_reads_back_to_the_publish(tmp_path: Path) -> None:
    """Through the hour before it, whose segments may have been written into its hour, and no further."""
    published_ms = AT_MS + 60_000
    written(tmp_path, "a", 1, [event(OURS, AT_MS - 5 * HOUR_MS)], AT_MS - 5 * HOUR_MS)
    written(tmp_path, "b", 1, [event(THEIRS, published_ms), event(OURS, published_ms + 1)], AT_MS - HOUR_MS)
    for n in range(5):  # the newest of them shows that the others are older, too
        written(tmp_path, "c", 1 + n, [event(OURS, published_ms - EARLY_MS - 10 + n)])
    written(tmp_path, "d", 1, [event(OURS, published_ms - 2)])
    written(tmp_path, "e", 1, [event(THEIRS, AT_MS), accepted(OURS, published_ms), event(THEIRS, published_ms + 9)])
    written(tmp_path, "f", 1, [accepted(OURS, published_ms + 2_000, replayed=True)])
    written(tmp_path, "f", 2, [event(OURS, published_ms + 2 * HOUR_MS)], AT_MS + 2 * HOUR_MS)

    found = search_back_to_publish([tmp_path], OURS)
    assert [(one.boot, one.sequence) for one in found.events] == [
        *(("c", 5), ("d", 1), ("e", 2), ("b", 2), ("f", 1), ("f", 2)),
    ]
    assert (found.segments, found.gaps) == (6, ())
    assert search_segments([tmp_path], OURS).segments == 11
    assert search_back_to_publish([tmp_path], THEIRS).segments == 11, "its publish is not there"
