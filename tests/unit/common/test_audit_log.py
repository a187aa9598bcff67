"""The log of audited queues: what is durable when a write returns, and what happens while the disk refuses."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from cns_common.clock import Clock
from cns_common.errors import OutcomeUnknown, StoreFull, StoreUnavailable
from cns_common.events import audit_log
from cns_common.events.audit_events import MessageDeleted
from cns_common.events.audit_log import AuditWriter
from cns_common.events.files import seal_orphans
from cns_common.events.segment import SegmentLimits
from cns_common.metrics.catalogue import AUDIT_EVENTS_WRITTEN, AUDIT_REFUSED
from cns_common.metrics.model import Metric
from cns_server.http.coroutine_driver import CoroutineDriver
from lab.harness.waiting import wait_until
from tests.unit.common.test_segments import LIMITS, file_size_limit, files, lines_of


def event(number: int, text: str = "") -> MessageDeleted:
    return MessageDeleted(at_ms=number, queue="q", message_id=str(number), group=text)


@contextmanager
def writing(directory: Path, clock: Clock | None = None, limits: SegmentLimits = LIMITS) -> Iterator[AuditWriter]:
    writer = AuditWriter(directory, "test", clock or Clock(), limits)
    try:
        yield writer
    finally:
        writer.close()


def value(writer: AuditWriter, metric: Metric) -> float:
    return next(sample.value for sample in writer.samples() if sample.name == metric.name)


def numbers(directory: Path, suffix: str = ".jsonl") -> list[int]:
    """The sequence numbers of all segments, in the order of the files."""
    lines = [line for path in files(directory, suffix) for line in lines_of(path)]
    return [line["sequence"] for line in lines if line["sequence"]]


class SlowSync:
    """An fsync that blocks until it is released."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.entered, self.go_on, self.calls = threading.Event(), threading.Event(), 0
        sync = os.fdatasync

        def slow(fd: int) -> None:
            self.calls += 1
            self.entered.set()
            self.go_on.wait()
            sync(fd)

        monkeypatch.setattr(os, "fdatasync", slow)


async def test_an_event_is_synced_before_write_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = SlowSync(monkeypatch)
    with writing(tmp_path) as writer:
        first = asyncio.create_task(writer.write([event(1), event(2)]))
        await asyncio.to_thread(slow.entered.wait)
        later = [asyncio.create_task(writer.write([event(number)])) for number in range(3, 50)]
        done, _ = await asyncio.wait({first, *later}, timeout=0)
        assert not done
        slow.go_on.set()
        await asyncio.gather(first, *later)
        assert slow.calls == 2  # the writes that waited meanwhile share one sync
        assert numbers(tmp_path, ".open") == list(range(1, 50))
        assert value(writer, AUDIT_EVENTS_WRITTEN) == 49
        assert {type(sample.value) for sample in writer.samples()} <= {int, float}  # reports take only these types
    (path,) = files(tmp_path)
    lines = lines_of(path)
    assert path.name.startswith("test-audit-")
    assert (lines[0]["process"], lines[-1]["stopped"]) == ("test-audit", True)
    assert [line["message_id"] for line in lines[1:-1]] == [str(number) for number in range(1, 50)]


async def test_a_call_that_is_no_task_may_wait(tmp_path: Path) -> None:
    """As API calls are: `asyncio.timeout` would raise there."""
    loop = asyncio.get_running_loop()
    written: asyncio.Future[None] = loop.create_future()

    async def write() -> None:
        try:
            await writer.write([event(1)])
        except Exception as error:  # noqa: BLE001  # the test's own assertion is below
            written.set_exception(error)
        else:
            written.set_result(None)

    with writing(tmp_path) as writer:
        loop.call_soon(CoroutineDriver, write(), loop)
        await written
    assert numbers(tmp_path) == [1]


async def test_without_events_there_is_neither_thread_nor_file(tmp_path: Path) -> None:
    before = threading.active_count()
    with writing(tmp_path / "events") as writer:
        writer.check()
        assert threading.active_count() == before
    assert list(tmp_path.iterdir()) == []


async def test_a_caller_that_goes_away_disturbs_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = SlowSync(monkeypatch)
    with writing(tmp_path) as writer:
        gone, stays = [asyncio.create_task(writer.write([event(number)])) for number in (1, 2)]
        await asyncio.to_thread(slow.entered.wait)
        gone.cancel()
        slow.go_on.set()
        await stays
    assert numbers(tmp_path) == [1, 2]


async def test_segments_end_by_age_and_removed_ones_are_old(tmp_path: Path) -> None:
    clock = Clock()
    with writing(tmp_path, clock) as writer:
        await writer.write([event(1)])
        clock.advance(60_000)
        await asyncio.to_thread(wait_until, lambda: files(tmp_path))
        await writer.write([event(2)])
    assert [lines_of(path)[-1]["last_sequence"] for path in files(tmp_path)] == [1, 2]
    small = SegmentLimits(segment_bytes_max=1 << 24, segment_age_s=60, retention_s=86_400, bytes_max=1)
    with writing(tmp_path, limits=small) as writer:
        await writer.write([event(3)])  # the limit on the size of all events removes no audit events
    assert len(files(tmp_path)) == 3
    clock.advance(2 * 86_400_000)
    with writing(tmp_path, clock, small) as writer:
        await writer.write([event(4)])
        await asyncio.to_thread(wait_until, lambda: len(files(tmp_path)) == 0)


# -- a disk that refuses ----------------------------------------------------------------------------------------------


async def test_a_full_disk_delays_and_refuses_and_loses_nothing(tmp_path: Path) -> None:
    with writing(tmp_path) as writer:
        await writer.write([event(1)])
        with file_size_limit(files(tmp_path, ".open")[0].stat().st_size + 100):
            waits = asyncio.create_task(writer.write([event(2, "x" * 200)]))
            await asyncio.to_thread(wait_until, lambda: value(writer, AUDIT_REFUSED) == 1.0)
            with pytest.raises(StoreUnavailable, match="File too large"):
                writer.check()
            assert not waits.done()
        await waits
        writer.check()
        await writer.write([event(3)])
    assert (numbers(tmp_path), len(files(tmp_path))) == ([1, 2, 3], 1)


async def test_room_on_the_disk_is_left_for_deletes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gib, free = 1 << 30, [0]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(total=gib, free=free[0]))
    with writing(tmp_path / "events") as writer:
        for free[0] in (0, audit_log.ROOM_BYTES - 1):
            with pytest.raises(StoreFull):
                writer.check()
        assert value(writer, AUDIT_REFUSED) == 1.0
        free[0] = audit_log.ROOM_BYTES
        assert value(writer, AUDIT_REFUSED) == 0.0, "without another call"
        writer.check()
        await writer.write([event(1)])
        free[0] = 0
        await asyncio.to_thread(wait_until, lambda: value(writer, AUDIT_REFUSED) == 1.0)
        with pytest.raises(StoreFull):
            writer.check()
        free[0] = gib
        await asyncio.to_thread(wait_until, lambda: value(writer, AUDIT_REFUSED) == 0.0)
        writer.check()


async def test_after_a_failed_fsync_the_events_are_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linux may drop what it could not sync, and the next fsync of the file succeeds."""
    sync, failures = os.fdatasync, list[OSError]()

    def failing(fd: int) -> None:
        if failures:
            raise failures.pop()
        sync(fd)

    monkeypatch.setattr(os, "fdatasync", failing)
    with writing(tmp_path) as writer:
        await writer.write([event(1)])
        failures.append(OSError(5, "Input/output error"))
        await writer.write([event(2)])
        await writer.write([event(3)])
    assert numbers(tmp_path) == [2, 3]
    assert numbers(tmp_path, ".open") == [1, 2]  # sealed later, like the segment of a dead writer


async def test_the_segment_after_a_failed_first_fsync_replaces_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process seals the first one, which has the same numbers, before the second one ends."""
    sync, failures = os.fdatasync, [OSError(5, "Input/output error")]

    def failing(fd: int) -> None:
        if failures:
            raise failures.pop()
        seal_orphans(tmp_path, 0)
        sync(fd)

    monkeypatch.setattr(os, "fdatasync", failing)
    with writing(tmp_path) as writer:
        await writer.write([event(1)])
        await writer.write([event(2)])
    sealed = sorted([len(path.read_text().splitlines()) for path in tmp_path.rglob("*.jsonl")])
    assert sealed == [3, 4]  # the first and last lines of each, and event 1; events 1 and 2


async def test_a_disk_that_hangs_ends_the_call_but_not_the_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_log, "WAITING_BYTES_MAX", 100)
    slow = SlowSync(monkeypatch)
    with writing(tmp_path) as writer:
        with pytest.raises(OutcomeUnknown):
            await writer.write([event(1)], within_s=0.0)
        await asyncio.to_thread(slow.entered.wait)
        with pytest.raises(OutcomeUnknown):
            await writer.write([event(2, "x" * 200)], within_s=0.0)
        with pytest.raises(StoreUnavailable, match="too many"):
            writer.check()
        slow.go_on.set()
        await asyncio.to_thread(wait_until, lambda: value(writer, AUDIT_EVENTS_WRITTEN) == 2)
        writer.check()
    with pytest.raises(OutcomeUnknown):
        await writer.write([event(3)])
    assert numbers(tmp_path) == [1, 2]


async def test_after_a_bug_calls_are_refused_until_a_step_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = [RuntimeError("bug")]

    def faulty(directory: Path, now_ms: int) -> int:
        if faults:
            raise faults.pop()
        return seal_orphans(directory, now_ms)

    monkeypatch.setattr(audit_log, "seal_orphans", faulty)
    with writing(tmp_path) as writer:
        await writer.write([event(1)])
        await asyncio.to_thread(wait_until, lambda: not faults and value(writer, AUDIT_REFUSED) == 0.0)
        writer.check()
        await writer.write([event(2)])
    assert numbers(tmp_path) == [1, 2]


# -- crashes ----------------------------------------------------------------------------------------------------------

WRITE_FOR_EVER = """
import asyncio, sys
from pathlib import Path
from cns_common.clock import Clock
from cns_common.events.audit_log import AuditWriter
from cns_common.events.files import seal_orphans
from tests.unit.common.test_audit_log import LIMITS, event

async def write(writer, first):
    for number in range(first, 10**9, 8):
        await writer.write([event(number)])
        print(number, flush=True)

async def main():
    writer = AuditWriter(Path(sys.argv[1]), "victim", Clock(), LIMITS)
    await asyncio.gather(*[write(writer, first) for first in range(8)])

asyncio.run(main())
"""


def test_a_killed_process_has_written_all_that_it_acknowledged(tmp_path: Path) -> None:
    victim = subprocess.Popen(
        [sys.executable, "-c", WRITE_FOR_EVER, str(tmp_path)],
        cwd=Path(__file__).parents[3],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert victim.stdout is not None
    acknowledged = [int(victim.stdout.readline()) for _ in range(200)]
    victim.send_signal(signal.SIGKILL)
    rest, _ = victim.communicate()
    acknowledged += [int(line) for line in rest.splitlines(keepends=True) if line.endswith("\n")]
    (path,) = files(tmp_path, ".open")
    whole = [line for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
    written = {json.loads(line).get("message_id") for line in whole}
    assert {str(number) for number in acknowledged} <= written
