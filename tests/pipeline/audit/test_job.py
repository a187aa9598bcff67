"""`cns pipeline verify` over a table: periods, words and exit codes."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from cns_common.durations import DAY_MS, HOUR_MS
from cns_common.events.audit_events import AuditEvent, MessageReceived, MessageSent
from cns_common.events.schema import Event
from cns_pipeline.audit.document import Audit
from tests.pipeline.audit.random_logs import counted
from tests.pipeline.ingest.segments import AT_MS, write_segment
from tests.pipeline.jobs import job

QUEUE = "arn:aws:sqs:us-east-1:111111111111:orders"
NOON_MS = AT_MS + DAY_MS + 12 * HOUR_MS


def sent(message_id: str, at_ms: int) -> MessageSent:
    return MessageSent(at_ms=at_ms, queue=QUEUE, message_id=message_id, size_bytes=1, checksum="00000001")


def received(message_id: str, at_ms: int) -> MessageReceived:
    return MessageReceived(at_ms=at_ms, queue=QUEUE, message_id=message_id, receive_count=1, checksum="00000001")


LOG: list[Event | AuditEvent] = [
    sent("on-the-first-day", AT_MS),
    received("on-the-first-day", AT_MS + 1),
    sent("over-midnight", AT_MS + DAY_MS - 1),
    received("over-midnight", AT_MS + DAY_MS + 1),
    sent("never-seen-again", NOON_MS),
    counted(QUEUE, NOON_MS + 120_000),
    sent("waits", NOON_MS + HOUR_MS),
]


@pytest.mark.extended
def test_days_and_exit_codes(tmp_path: Path) -> None:
    write_segment(tmp_path / "events", "b", 1, LOG)
    ingested = job("cns", "pipeline", "ingest", "--data", tmp_path)
    assert ingested.returncode == 0, ingested.stderr
    first = job("cns", "pipeline", "verify", "--data", tmp_path, "--day", "2024-10-04", "--queue", "orders")
    assert (first.returncode, first.stderr) == (0, ""), first.stdout
    (queue,) = document(tmp_path).queues
    assert (queue.counts.sent, queue.counts.received, queue.counts.unsent, queue.order.compared) == (2, 2, 0, 2)
    second = job("cns", "pipeline", "verify", "--data", tmp_path, "--day", "2024-10-05")
    assert second.returncode == 1
    assert "error: orders: 1 of 2 messages (50.0000%) were lost" in second.stdout
    assert "never-seen-again" in second.stdout
    (queue,) = document(tmp_path).queues
    assert (queue.counts.sent, queue.counts.waiting, queue.counts.missing) == (2, 1, 1)
    assert (tmp_path / "pipeline" / "audit" / "lost.csv").read_text().splitlines() == [
        "queue,message_id,group,sent_ms,cause",
        f'{QUEUE},never-seen-again,"",{NOON_MS},missing',
    ]
    other = job("cns", "pipeline", "verify", "--data", tmp_path, "--queue", "other")
    assert (other.returncode, document(tmp_path).queues) == (0, ())


def document(data: Path) -> Audit:
    return msgspec.json.decode((data / "pipeline" / "audit" / "audit.json").read_bytes(), type=Audit)
