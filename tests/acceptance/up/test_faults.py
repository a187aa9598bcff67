"""`cns up` when its processes are killed, and when its disk is full."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from cns_common.ids import hex_id
from lab.harness.endpoints import Endpoint
from lab.harness.processes import ANNOUNCEMENT
from lab.harness.running import Up, own_disk, running
from lab.harness.service import error_of
from lab.harness.waiting import wait_until
from tests.acceptance.sqs.moves import moves
from tests.acceptance.topics import Topic

CRASHES = 5
LEASE_S = 31
DISK_MIB = 32
LARGE_DISK_MIB = 160
MIB = 1024 * 1024
MESSAGES = 250
"""Messages of 100,000 characters: together more than the write-ahead log holds before a checkpoint."""


@pytest.fixture
def lone(tmp_path: Path) -> Iterator[Up]:
    """A service to be broken."""
    with running(tmp_path / "data", "--test-clock") as started:
        yield started


def kill(service: Up, name: str) -> int:
    """kill -9; returns the process id it had."""
    pid = service.pids()[name]
    os.kill(pid, signal.SIGKILL)
    return pid


def send_until_refused(sqs: Any, queue: str, tries: int) -> list[str]:
    """The ids of what was accepted before an error came."""
    ids: list[str] = []
    for n in range(tries):
        try:
            ids.append(sqs.send_message(QueueUrl=queue, MessageBody=f"{n} {'x' * 100_000}")["MessageId"])
        except (ClientError, BotoCoreError):
            break
    return ids


def receive_ids(sqs: Any, queue: str, n: int) -> list[str]:
    """Receive and delete so many."""
    ids: list[str] = []
    while len(ids) < n:
        messages = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=5).get("Messages", [])
        assert messages, f"only {len(ids)} of {n} came"
        for message in messages:
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
            ids.append(message["MessageId"])
    return ids


def test_a_killed_worker_comes_back(lone: Up, endpoint: Endpoint) -> None:
    sns = lone.client("sns")
    topic = Topic(sns, sns.create_topic(Name="t")["TopicArn"])
    topic.subscribe("http", endpoint.url)
    assert lone.health()["status"] == "green"
    before = kill(lone, "worker")
    topic.publish("meanwhile")
    endpoint.wait(received=1)
    wait_until(lambda: lone.pids()["worker"] not in (0, before))
    wait_until(lambda: lone.health()["status"] == "yellow", lambda: str(lone.health()))
    assert any("worker was restarted" in reason for reason in lone.health()["reasons"])
    topic.publish("afterwards")
    endpoint.wait(received=2)


@pytest.mark.extended
def test_a_delivery_under_way_when_its_worker_dies_is_made_again(lone: Up, endpoint: Endpoint) -> None:
    sns = lone.client("sns")
    topic = Topic(sns, sns.create_topic(Name="t")["TopicArn"])
    topic.subscribe("http", endpoint.url)
    endpoint.behave(hang=True, times=1)
    topic.publish("x")
    endpoint.wait(received=1)
    kill(lone, "worker")
    lone.advance(LEASE_S)
    endpoint.wait(received=2, accepted=1, retries=1)


def test_a_killed_store_loses_nothing(lone: Up, endpoint: Endpoint) -> None:
    sqs, sns = lone.client("sqs", tries=10), lone.client("sns", tries=10)
    queue = sqs.create_queue(QueueName="q")["QueueUrl"]
    topic = Topic(sns, sns.create_topic(Name="t")["TopicArn"])
    topic.subscribe("http", endpoint.url)
    sent = [sqs.send_message(QueueUrl=queue, MessageBody=str(n))["MessageId"] for n in range(20)]
    before = kill(lone, "api")
    wait_until(lambda: lone.is_ready() and lone.pids()["api"] != before, lone.said)
    assert sorted(receive_ids(sqs, queue, 20)) == sorted(sent)
    topic.publish("the worker has found the store again")
    endpoint.wait(received=1)
    assert lone.health()["status"] == "yellow"


def _has_new_worker(lone: Up, last_pid: int) -> bool:
    return lone.pids()["worker"] not in (0, last_pid)


@pytest.mark.extended
def test_a_crash_loop_turns_health_red(lone: Up) -> None:
    pid = 0
    for _ in range(CRASHES):
        wait_until(partial(_has_new_worker, lone, pid))
        pid = kill(lone, "worker")
    wait_until(lambda: lone.get("/health")[0] == 503, lambda: str(lone.health()))
    assert lone.health()["status"] == "red"
    assert "worker dies again and again" in lone.health()["reasons"]
    sqs = lone.client("sqs")
    assert sqs.create_queue(QueueName="q")["QueueUrl"], "the API goes on"


@pytest.mark.extended
def test_a_full_disk_refuses_sends_and_harms_nothing(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data, runner=own_disk(data, DISK_MIB)) as service:
        sqs = service.client("sqs")
        queue = sqs.create_queue(QueueName="q")["QueueUrl"]
        kept = [sqs.send_message(QueueUrl=queue, MessageBody=f"small {n}")["MessageId"] for n in range(5)]
        filler = service.inside(data / "filler")
        _fill(filler)
        kept += send_until_refused(sqs, queue, 200)
        with pytest.raises(ClientError) as caught:
            sqs.send_message(QueueUrl=queue, MessageBody="x" * 100_000)
        assert caught.value.response["Error"]["Code"] == "ServiceUnavailable"
        assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503
        held = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=1, VisibilityTimeout=0)["Messages"]
        assert held[0]["MessageId"] in kept
        assert service.get("/health")[0] in (200, 503)
        filler.unlink()
        wait_until(lambda: send_until_refused(sqs, queue, 1) != [], service.said)
        assert service.health()["status"] == "green"
        received = receive_ids(sqs, queue, len(kept))
        assert set(kept) <= set(received)


@contextmanager
def on_a_full_disk(data: Path, *, reserve: bool) -> Iterator[Full]:
    """A service whose disk another program fills, with messages of 100,000 characters in a queue."""
    environment = {"CNS_RESERVE_BYTES": str(16 * MIB if reserve else 0)}
    with running(data, runner=own_disk(data, LARGE_DISK_MIB), environment=environment) as service:
        sqs = service.client("sqs", tries=5)
        queue = sqs.create_queue(QueueName="q")["QueueUrl"]
        other_queue = sqs.create_queue(QueueName="other")["QueueUrl"]
        sns = service.client("sns")
        topic = sns.create_topic(Name="t")["TopicArn"]
        queue_arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=queue_arn)
        sent = send_until_refused(sqs, queue, MESSAGES)
        assert len(sent) == MESSAGES
        filler = service.inside(data / "filler")
        _fill(filler)
        sent += send_until_refused(service.client("sqs"), queue, LARGE_DISK_MIB * 10)
        yield Full(service, sqs, queue, other_queue, sent, filler)


class Full(NamedTuple):
    service: Up
    sqs: Any
    queue: str
    other_queue: str
    sent: list[str]
    filler: Path

    def reasons(self) -> str:
        return "; ".join(self.service.health()["reasons"])

    def assert_red(self) -> None:
        assert self.service.health()["status"] == "red", self.reasons()
        assert "the disk is full" in self.reasons()

    def assert_refuses_sends(self) -> None:
        assert error_of(self.service.client("sqs").send_message, QueueUrl=self.queue, MessageBody="x" * 100_000) == (
            "ServiceUnavailable",
            503,
        )

    def kill_api(self) -> None:
        """It comes back on the full disk, where the supervisor may be unable to write down its process id."""
        starts = self.service.said().count(ANNOUNCEMENT)
        kill(self.service, "api")
        wait_until(lambda: self.service.said().count(ANNOUNCEMENT) > starts, self.service.said)
        wait_until(self.service.is_ready, self.service.said)


@pytest.mark.extended
def test_a_full_disk_turns_health_red_and_takes_deletes_and_purges(tmp_path: Path) -> None:
    with on_a_full_disk(tmp_path / "data", reserve=True) as full:
        full.assert_red()
        received = receive_ids(full.sqs, full.queue, 100)
        assert set(received) <= set(full.sent)
        full.assert_red()
        full.kill_api()
        full.assert_red()
        full.assert_refuses_sends()
        received += receive_ids(full.sqs, full.queue, 100)
        assert len(set(received)) == 200, "what was deleted stays deleted"
        sns = full.service.client("sns")
        for arn in [each["SubscriptionArn"] for each in sns.list_subscriptions()["Subscriptions"]]:
            sns.unsubscribe(SubscriptionArn=arn)
        for arn in [each["TopicArn"] for each in sns.list_topics()["Topics"]]:
            sns.delete_topic(TopicArn=arn)
        full.sqs.delete_queue(QueueUrl=full.other_queue)
        full.sqs.purge_queue(QueueUrl=full.queue)
        shown = full.sqs.get_queue_attributes(QueueUrl=full.queue, AttributeNames=["ApproximateNumberOfMessages"])
        assert shown["Attributes"]["ApproximateNumberOfMessages"] == "0"
        # once the worker has removed the purged rows, the store's file has free pages, which are room as well
        wait_until(lambda: send_until_refused(full.service.client("sqs"), full.queue, 1), full.reasons)
        wait_until(lambda: full.service.health()["status"] != "red", full.reasons)
        assert len(receive_ids(full.sqs, full.queue, 1)) == 1


@pytest.mark.extended
def test_a_disk_that_has_room_again_turns_health_green_and_has_a_reserve(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with on_a_full_disk(data, reserve=True) as full:
        full.assert_red()
        full.filler.unlink()
        wait_until(lambda: full.service.health()["status"] == "green", full.reasons)
        assert full.service.inside(data / "reserve").stat().st_blocks * 512 >= 16 * MIB
        assert len(send_until_refused(full.sqs, full.queue, 1)) == 1


@pytest.mark.extended
def test_a_full_disk_without_reserve_is_read_from(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with on_a_full_disk(data, reserve=False) as full:
        _fill(full.service.inside(data / "filler2"))
        full.kill_api()
        full.assert_refuses_sends()
        full.assert_red()
        assert full.sqs.list_queues()["QueueUrls"] == [full.other_queue, full.queue]
        names = ["ApproximateNumberOfMessages"]
        shown = full.sqs.get_queue_attributes(QueueUrl=full.queue, AttributeNames=names)["Attributes"]
        assert shown == {"ApproximateNumberOfMessages": str(len(full.sent))}
        assert len(full.service.client("sns").list_topics()["Topics"]) == 1
        for name in ("filler", "filler2"):
            full.service.inside(data / name).unlink()
        wait_until(lambda: send_until_refused(full.service.client("sqs"), full.queue, 1), full.reasons)
        wait_until(lambda: full.service.health()["status"] != "red", full.reasons)


def _fill(path: Path) -> None:
    """Write until nothing more goes."""
    with path.open("wb", buffering=0) as out:
        for size in (MIB, 4096):
            with suppress(OSError):
                while out.write(b"\0" * size):
                    pass


@pytest.mark.spec("moves.resumed")
@pytest.mark.extended
def test_a_move_task_outlives_its_worker(lone: Up) -> None:
    of = moves(lone.client("sqs", tries=5), hex_id)
    of.die(60)
    of.start(MaxNumberOfMessagesPerSecond=20)
    wait_until(lambda: of.moved() >= 10)
    kill(lone, "worker")
    lone.advance(16)  # the killed worker's lease of the task ends…
    wait_until(lambda: of.moved() >= 50, lambda: str(of.newest()))
    lone.advance(31)  # …and then its lease of the batch
    task = of.end()
    assert (task["Status"], task["ApproximateNumberOfMessagesMoved"]) == ("COMPLETED", 60)
    assert of.bodies(of.source) == sorted([str(n) for n in range(60)], key=int)


SMALL_DISK_MIB = 48
LARGE_MESSAGE_CHARS = 200_000
SENDERS = 6


@pytest.mark.extended
def test_a_small_disk_that_sends_filled_is_emptied_by_receivers(tmp_path: Path) -> None:
    """The log of a full disk can still be copied back into the store, also after a restart."""
    with running(tmp_path / "data", runner=own_disk(tmp_path / "data", SMALL_DISK_MIB)) as service:
        sqs = service.client("sqs", tries=5)
        queue = sqs.create_queue(QueueName="q")["QueueUrl"]
        with ThreadPoolExecutor(SENDERS) as pool:
            clients = [service.client("sqs") for _ in range(SENDERS)]
            sent = [each for ids in pool.map(lambda client: _send_large(client, queue), clients) for each in ids]
        assert "the disk is full" in "; ".join(service.health()["reasons"])
        received = receive_ids(sqs, queue, 20)
        starts = service.said().count(ANNOUNCEMENT)
        kill(service, "api")
        wait_until(lambda: service.said().count(ANNOUNCEMENT) > starts and service.is_ready(), service.said)
        received += receive_ids(sqs, queue, len(sent) - len(received))
        assert set(received) == set(sent)
        wait_until(lambda: send_until_refused(sqs, queue, 1) != [], service.said)


def _send_large(sqs: Any, queue: str) -> list[str]:
    """The ids of the messages that were accepted before the first refusal."""
    sent = []
    for _ in range(SMALL_DISK_MIB * 2**20 // LARGE_MESSAGE_CHARS):
        try:
            sent.append(sqs.send_message(QueueUrl=queue, MessageBody="x" * LARGE_MESSAGE_CHARS)["MessageId"])
        except ClientError:
            break
    return sent
