"""Queues with `Audit=on` while their processes are killed, and on a full disk."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from lab.harness.running import Up, own_disk, running
from lab.harness.waiting import wait_until
from tests.acceptance.audits import audit_lines

SENDERS = 4
PER_KILL = 150
"""Messages that are acknowledged between two kills."""
MIB = 1024 * 1024
DISK_MIB = 32
ROOM_MIB = 3
"""Less than audit events need, and enough for the store."""
Events = dict[str, list[dict[str, Any]]]


class Traffic:
    """Senders and receivers in threads, and what the service acknowledged to them."""

    def __init__(self, service: Up, queue: str) -> None:
        self._service = service
        self._queue = queue
        self._lock = threading.Lock()
        self._sending, self._receiving = True, True
        self.sent: dict[str, str] = {}
        self.received: dict[str, str] = {}
        """Bodies by message id."""
        self._pool = ThreadPoolExecutor(SENDERS + 2)
        self._senders = [self._pool.submit(self._send, number) for number in range(SENDERS)]
        self._receivers = [self._pool.submit(self._receive) for _ in range(2)]

    def __enter__(self) -> Traffic:
        return self

    def __exit__(self, *_: object) -> None:
        self._sending = self._receiving = False
        self._pool.shutdown()

    def end(self, is_empty: Callable[[], bool]) -> None:
        """End the sends; then receive until the queue is empty."""
        self._sending = False
        for thread in self._senders:
            thread.result()
        wait_until(is_empty)
        self._receiving = False
        for thread in self._receivers:
            thread.result()

    def wait_for_more(self) -> None:
        """Wait until `PER_KILL` more messages are acknowledged."""
        enough = len(self.sent) + PER_KILL
        wait_until(lambda: len(self.sent) >= enough)

    def _send(self, number: int) -> None:
        sqs = self._service.client("sqs")
        n = 0
        while self._sending:
            body, n = f"{number}-{n}", n + 1
            try:
                message_id = sqs.send_message(QueueUrl=self._queue, MessageBody=body)["MessageId"]
            except (ClientError, BotoCoreError):
                continue
            with self._lock:
                self.sent[message_id] = body

    def _receive(self) -> None:
        sqs = self._service.client("sqs")
        while self._receiving:
            try:
                messages = sqs.receive_message(QueueUrl=self._queue, MaxNumberOfMessages=10).get("Messages", [])
                with self._lock:
                    self.received.update({message["MessageId"]: message["Body"] for message in messages})
                for message in messages:
                    sqs.delete_message(QueueUrl=self._queue, ReceiptHandle=message["ReceiptHandle"])
            except (ClientError, BotoCoreError):
                continue


def audit_events(data: Path) -> Events:
    """The audit events by message id."""
    found: Events = {}
    for event in audit_lines([data]):
        found.setdefault(event.get("message_id", ""), []).append(event)
    return found


def of_kind(events: Events, kind: str) -> dict[str, dict[str, Any]]:
    """The last event of this kind of each message."""
    return {one: event for one, some in events.items() for event in some if event["event"] == kind}


def checksum(body: str) -> str:
    return f"{zlib.crc32(body.encode()):08x}"


def has_restarted(service: Up, name: str, before: int) -> bool:
    with suppress(OSError):
        return service.is_ready() and service.pids()[name] not in (0, before)
    return False


def killed_under_load(service: Up, names: list[str]) -> None:
    """Kill one process after the other amid the traffic; then compare the events with what clients saw."""
    sqs = service.client("sqs", tries=10)
    queue = sqs.create_queue(QueueName="q", Attributes={"Audit": "on", "VisibilityTimeout": "2"})["QueueUrl"]
    wanted = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]

    def is_empty() -> bool:
        counts = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=wanted)["Attributes"]
        return set(counts.values()) == {"0"}

    with Traffic(service, queue) as traffic:
        for name in names:
            traffic.wait_for_more()
            before = service.pids()[name]
            os.kill(before, signal.SIGKILL)
            wait_until(partial(has_restarted, service, name, before), service.said)
        traffic.wait_for_more()
        traffic.end(is_empty)
    assert service.stop() == 0
    events = audit_events(service.data)
    sent, received = of_kind(events, "message.sent"), of_kind(events, "message.received")
    assert traffic.sent.keys() <= sent.keys()
    assert traffic.received.keys() <= received.keys()
    assert sent.keys() <= received.keys()  # no message looks lost
    assert not (received.keys() - sent.keys()) & traffic.sent.keys()  # only sends without an answer are unknown
    assert {one: sent[one]["checksum"] for one in traffic.sent} == {
        one: checksum(body) for one, body in traffic.sent.items()
    }
    assert {one: received[one]["checksum"] for one in traffic.received} == {
        one: checksum(body) for one, body in traffic.received.items()
    }


@pytest.mark.extended
def test_killed_under_load(tmp_path: Path) -> None:
    with running(tmp_path / "data", "--auth=off") as service:
        killed_under_load(service, ["api"])


@pytest.mark.extended
def test_two_api_processes_and_the_store_killed_under_load(tmp_path: Path) -> None:
    with running(tmp_path / "data", "--auth=off", "--api", "2") as service:
        names = [name for name in service.pids() if name != "worker"]
        assert len(names) == 3
        killed_under_load(service, names * 3)


@pytest.fixture
def cramped(tmp_path: Path) -> Iterator[Up]:
    """A service whose data are on a small disk of their own."""
    with running(tmp_path / "data", "--auth=off", runner=own_disk(tmp_path / "data", DISK_MIB)) as started:
        yield started


@pytest.mark.extended
def test_a_full_disk_refuses_calls_on_audited_queues(cramped: Up) -> None:
    sqs = cramped.client("sqs")
    audited = sqs.create_queue(QueueName="audited", Attributes={"Audit": "on"})["QueueUrl"]
    plain = sqs.create_queue(QueueName="plain")["QueueUrl"]
    for url in (audited, plain):
        sqs.send_message(QueueUrl=url, MessageBody="x")
    filler = cramped.inside(cramped.data / "filler")
    filler.write_bytes(bytes((DISK_MIB - ROOM_MIB) * MIB - used(cramped)))
    wait_until(lambda: refuses(sqs, audited))
    assert any("Audit=on" in reason for reason in cramped.health()["reasons"])
    sqs.send_message(QueueUrl=plain, MessageBody="x")
    assert sqs.receive_message(QueueUrl=plain)["Messages"]
    filler.unlink()
    wait_until(lambda: not refuses(sqs, audited))
    assert not any("Audit=on" in reason for reason in cramped.health()["reasons"])


def used(service: Up) -> int:
    """Bytes in use on its disk."""
    return shutil.disk_usage(service.inside(service.data)).used


def refuses(sqs: Any, url: str) -> bool:
    """Whether a receive is answered with 503."""
    try:
        sqs.receive_message(QueueUrl=url, VisibilityTimeout=0)
    except ClientError as error:
        status: int = error.response["ResponseMetadata"]["HTTPStatusCode"]
        assert status == 503, error.response
        return True
    return False
