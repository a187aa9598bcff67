"""The newest events about something: the order, the bound of what is read, and what a crash leaves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from cns_common.durations import HOUR_MS
from cns_common.events import recent_events
from cns_common.events.files import OPEN, SEALED, encoder, folder_at, origin_of, segment_name
from cns_common.events.recent_events import ALL, FAILURES, DeliveryEvent, field, newest_events
from cns_common.events.reverse_reader import BLOCK_BYTES
from cns_common.events.schema import DeliveryAttempted, DeliveryDelivered

START_MS = 1_700_000_000_000
TOPIC = "arn:aws:sns:eu-central-1:111122223333:orders"


def attempted(at_ms: int, topic: str = TOPIC, *, failed: bool = False) -> DeliveryAttempted:
    return DeliveryAttempted(
        at_ms=at_ms,
        message_id="m",
        message_type="Notification",
        topic=topic,
        subscription=f"{topic}:s",
        protocol="http",
        attempt=1,
        phase="first",
        outcome="failed" if failed else "delivered",
        cause="status" if failed else "",
        status=500 if failed else 200,
        duration_ms=3,
    )


def delivered(at_ms: int) -> DeliveryDelivered:
    return DeliveryDelivered(
        at_ms=at_ms,
        message_id="m",
        message_type="Notification",
        topic=TOPIC,
        subscription=f"{TOPIC}:s",
        protocol="http",
        attempt=1,
        since_publish_ms=1,
    )


def write(
    directory: Path, boot: str, events: Sequence[DeliveryEvent], *, suffix: str = SEALED, torn: bytes = b""
) -> Path:
    folder = directory / folder_at(events[0].at_ms)
    folder.mkdir(parents=True, exist_ok=True)
    lines = [origin_of(boot) + b"%d," % (n + 1) + encoder.encode(event)[1:] for n, event in enumerate(events)]
    path = folder / f"{segment_name('worker-1', boot, 1)}{suffix}"
    path.write_bytes(b"".join([line + b"\n" for line in lines]) + torn)
    return path


def times(found: recent_events.NewestEvents) -> list[int]:
    return [event.at_ms for event in found.events]


def everything(_: DeliveryEvent) -> bool:
    return True


def test_the_newest_of_all_segments_first(tmp_path: Path) -> None:
    write(tmp_path, "a", [attempted(START_MS + n) for n in range(0, 100, 2)])
    write(tmp_path, "b", [attempted(START_MS + n) for n in range(1, 100, 2)], suffix=OPEN, torn=b'{"version":1,')
    write(tmp_path, "c", [attempted(START_MS - HOUR_MS, f"{TOPIC}-2"), attempted(START_MS - HOUR_MS + 1)])
    found = newest_events([tmp_path], field("topic", TOPIC), ALL, everything, 10)
    assert times(found) == [START_MS + n for n in range(99, 89, -1)]
    assert not found.complete
    found = newest_events([tmp_path], field("topic", TOPIC), ALL, everything, 200)
    assert times(found) == [*[START_MS + n for n in range(99, -1, -1)], START_MS - HOUR_MS + 1]
    assert (found.complete, found.segments) == (True, 3)


def test_failures_only(tmp_path: Path) -> None:
    write(tmp_path, "a", [attempted(START_MS + n, failed=n % 3 == 0) for n in range(9)] + [delivered(START_MS + 9)])
    found = newest_events([tmp_path], field("subscription", f"{TOPIC}:s"), FAILURES, everything, 10)
    assert times(found) == [START_MS + 6, START_MS + 3, START_MS]
    assert len(newest_events([tmp_path], field("topic", TOPIC), ALL, everything, 20).events) == 10


def test_segments_of_many_blocks(tmp_path: Path) -> None:
    events: list[DeliveryEvent] = [attempted(START_MS + n) for n in range(9_000)]
    path = write(tmp_path, "a", events)
    assert path.stat().st_size > 2 * BLOCK_BYTES
    found = newest_events([tmp_path], field("topic", TOPIC), ALL, everything, 10_000)
    assert times(found) == [START_MS + n for n in range(8_999, -1, -1)]


def test_no_more_is_read_than_allowed(tmp_path: Path) -> None:
    for hour in range(40):
        write(tmp_path, f"b{hour}", [attempted(START_MS - hour * HOUR_MS, f"{TOPIC}-2") for _ in range(10)])
    size = sum(path.stat().st_size for path in tmp_path.rglob(f"*{SEALED}"))
    found = newest_events([tmp_path], field("topic", TOPIC), ALL, everything, 10, size // 2)
    assert (found.events, found.complete) == ((), False)
    assert size // 4 < found.read_bytes <= size // 2


BROKEN = [
    b"{",
    b'{"event":"delivery.attempted","topic":"%s"}' % TOPIC.encode(),
    b'{"event":"delivery.attempted","topic":"%s","why":"\xff"}' % TOPIC.encode(),
    b'{"event":"delivery.attempted","topic":"%s","x":%s%s}' % (TOPIC.encode(), b"[" * 9_999, b"]" * 9_999),
    b"\n\n",
]


@pytest.mark.parametrize("line", BROKEN)
def test_broken_lines_are_skipped(tmp_path: Path, line: bytes) -> None:
    path = write(tmp_path, "a", [attempted(START_MS)])
    path.write_bytes(line + b"\n" + path.read_bytes() + line + b"\n")
    assert times(newest_events([tmp_path], field("topic", TOPIC), ALL, everything, 10)) == [START_MS]


def test_nothing_was_written(tmp_path: Path) -> None:
    found = newest_events([tmp_path / "none"], field("topic", TOPIC), ALL, everything, 10)
    assert (found.events, found.complete, found.read_bytes) == ((), True, 0)
