"""Each queue engine of the cluster form by boto3: the same calls on queues of each, and messages that go from a queue
of one engine to a queue of another."""

from __future__ import annotations

import itertools
import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from cns_backend.engines import CLUSTER_ENGINES
from lab.harness.clustered import Clustered
from lab.harness.waiting import wait_until
from tests.acceptance.cluster.test_cluster import at
from tests.acceptance.polls import Poll
from tests.acceptance.sqs.moves import Moves
from tests.acceptance.topics import Topic, arn_of, queue_for

KINDS = {name: kind() for name, kind in CLUSTER_ENGINES.items()}
DEFAULT = next(iter(CLUSTER_ENGINES))
"""The engine of a queue that names none."""
WITH_FIFO = [name for name, kind in KINDS.items() if kind.capabilities.fifo]
DEAD_LETTERS = 7
COUNT = "ApproximateNumberOfMessages"
WAIT_S = 5
"""Seconds that a long poll waits for messages that are there. It ends at the first."""

Create = Callable[..., str]
every_engine = pytest.mark.parametrize("engine", list(KINDS))


@pytest.fixture
def create(sqs: Any, new_name: Callable[[], str]) -> Create:
    """Makes a queue of an engine and returns its URL."""

    def create(engine: str, **attributes: str) -> str:
        name = new_name() + (".fifo" if "FifoQueue" in attributes else "")
        return str(sqs.create_queue(QueueName=name, Attributes={"Engine": engine, **attributes})["QueueUrl"])

    return create


def receive(sqs: Any, queue: str, n: int, **more: Any) -> list[dict[str, Any]]:
    """Receive `n` messages, in as many calls as it takes. More calls than messages are a failure."""
    found: list[dict[str, Any]] = []
    for _ in range(n):
        asked = {"MaxNumberOfMessages": min(n - len(found), 10), "WaitTimeSeconds": WAIT_S, **more}
        found += sqs.receive_message(QueueUrl=queue, **asked).get("Messages", [])
        if len(found) >= n:
            break
    assert len(found) == n, found
    return found


def delete(sqs: Any, queue: str, messages: list[dict[str, Any]]) -> None:
    entries = [{"Id": str(n), "ReceiptHandle": one["ReceiptHandle"]} for n, one in enumerate(messages)]
    answer = sqs.delete_message_batch(QueueUrl=queue, Entries=entries)
    assert len(answer["Successful"]) == len(entries)


def is_empty(sqs: Any, queue: str) -> bool:
    return "Messages" not in sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)


def send(sqs: Any, queue: str, *texts: str) -> None:
    entries = [{"Id": str(n), "MessageBody": text} for n, text in enumerate(texts)]
    assert "Failed" not in sqs.send_message_batch(QueueUrl=queue, Entries=entries)


def sorted_bodies(messages: list[dict[str, Any]]) -> list[str]:
    return sorted(message["Body"] for message in messages)


# -- one queue --------------------------------------------------------------------------------------------------------


@pytest.mark.slice
@every_engine
def test_messages_go_round(sqs: Any, topic: Topic, engine: str) -> None:
    """Sent and published, received, hidden and shown, received again, deleted."""
    queue = queue_for(sqs, topic.arn, Engine=engine)
    shown = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["Engine"])["Attributes"]
    assert shown == {"Engine": engine}
    send(sqs, queue, "a", "b")
    first = receive(sqs, queue, 2, VisibilityTimeout=600)
    assert sorted_bodies(first) == ["a", "b"]
    assert is_empty(sqs, queue)
    for message in first:
        sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0)
    again = receive(sqs, queue, 2, AttributeNames=["ApproximateReceiveCount"])
    assert {one["MessageId"] for one in again} == {one["MessageId"] for one in first}
    assert {one["Attributes"]["ApproximateReceiveCount"] for one in again} == {"2"}
    delete(sqs, queue, again)
    topic.subscribe("sqs", arn_of(sqs, queue), RawMessageDelivery="true")
    topic.publish("published")
    (arrived,) = receive(sqs, queue, 1, WaitTimeSeconds=20)
    assert arrived["Body"] == "published"
    delete(sqs, queue, [arrived])
    assert is_empty(sqs, queue)


@every_engine
def test_a_visibility_timeout_ends(service: Clustered, sqs: Any, create: Create, engine: str) -> None:
    queue = create(engine, VisibilityTimeout="40")
    send(sqs, queue, *"abc")
    receive(sqs, queue, 3)
    service.advance(39)
    assert is_empty(sqs, queue)
    service.advance(2)
    again = receive(sqs, queue, 3, AttributeNames=["ApproximateReceiveCount"])
    assert {one["Attributes"]["ApproximateReceiveCount"] for one in again} == {"2"}


@every_engine
def test_what_a_killed_process_hid_stays_hidden(service: Clustered, create: Create, engine: str) -> None:
    """Processes keep no timers: messages that a killed process received stay hidden until their time."""
    queue = create(engine, VisibilityTimeout="3600")
    other, there = service.at(1).client("sqs"), at(service, 1, queue)
    send(other, there, *"abc")
    held = receive(service.at(0).client("sqs"), at(service, 0, queue), 3)
    victim = service.cluster.apis[0]
    try:
        victim.kill()
        assert is_empty(other, there)
    finally:
        service.cluster.start_again(service.cluster.apis[0])
    clients = [(service.at(n).client("sqs"), at(service, n, queue)) for n in (0, 1)]
    service.advance(3_000)
    assert all(is_empty(client, url) for client, url in clients)
    service.advance(601)
    again = receive(other, there, 3)
    assert {one["MessageId"] for one in again} == {one["MessageId"] for one in held}


@every_engine
def test_delayed_messages(service: Clustered, sqs: Any, create: Create, engine: str) -> None:
    queue = create(engine, DelaySeconds="100")
    sqs.send_message(QueueUrl=queue, MessageBody="queue's delay")
    sqs.send_message(QueueUrl=queue, MessageBody="its own", DelaySeconds=900)
    sqs.send_message(QueueUrl=queue, MessageBody="at once", DelaySeconds=0)
    for seconds, due in ((0, "at once"), (101, "queue's delay"), (800, "its own")):
        service.advance(seconds)
        (message,) = receive(sqs, queue, 1)
        assert message["Body"] == due
        delete(sqs, queue, [message])
        assert is_empty(sqs, queue)


@every_engine
def test_a_purged_queue_goes_on(service: Clustered, create: Create, engine: str) -> None:
    """After a purge by one process, others may know of it a few seconds later, as in SQS."""
    queue, sqs = at(service, 0, create(engine)), service.at(0).client("sqs")
    send(sqs, queue, *"abcde")
    (held,) = receive(sqs, queue, 1)
    sqs.purge_queue(QueueUrl=queue)
    assert is_empty(sqs, queue)
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=held["ReceiptHandle"])
    send(sqs, queue, "after")
    assert [one["Body"] for one in receive(sqs, queue, 1)] == ["after"]


@every_engine
def test_a_queue_of_the_same_name_is_a_new_one(
    service: Clustered, sqs: Any, new_name: Callable[[], str], engine: str
) -> None:
    name, attributes = new_name(), {"Engine": engine}
    queue = sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
    send(sqs, queue, "before")
    sqs.delete_queue(QueueUrl=queue)
    with pytest.raises(ClientError, match="does not exist"):
        sqs.send_message(QueueUrl=queue, MessageBody="to nobody")
    service.advance(61)
    assert sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"] == queue
    assert is_empty(sqs, queue)
    send(sqs, queue, "after")
    assert [one["Body"] for one in receive(sqs, queue, 1)] == ["after"]


@pytest.mark.slice
@every_engine
def test_a_poll_at_one_process_is_woken_by_a_send_at_the_other(service: Clustered, create: Create, engine: str) -> None:
    queue = create(engine)
    for n in range(3):
        there, here = n % 2, 1 - n % 2
        poll = Poll(service.at(there), at(service, there, queue))
        poll.start()
        service.at(here).client("sqs").send_message(QueueUrl=at(service, here, queue), MessageBody=str(n))
        assert poll.bodies() == [str(n)]


@every_engine
def test_messages_of_both_processes_are_received_once_at_both(service: Clustered, create: Create, engine: str) -> None:
    queue = create(engine)
    clients = [(service.at(n).client("sqs"), at(service, n, queue)) for n in (0, 1)]
    for client, url in clients:
        send(client, url, *[f"{url} {n}" for n in range(10)])
    found = [message for client, url in clients for message in receive(client, url, 10)]
    assert len({message["Body"] for message in found}) == 20
    for client, url in clients:
        delete(client, url, found[:10])
        found = found[10:]
    assert all(is_empty(client, url) for client, url in clients)


# -- what a queue may be ----------------------------------------------------------------------------------------------


@every_engine
def test_counts_at_rest(sqs: Any, create: Create, engine: str) -> None:
    """Exact where the engine says so; of the others only that an empty queue is seen to be empty in the end."""
    queue = create(engine)
    names = [COUNT, f"{COUNT}NotVisible", f"{COUNT}Delayed"]

    def counts() -> tuple[int, ...]:
        shown = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=names)["Attributes"]
        return tuple(int(shown[name]) for name in names)

    send(sqs, queue, *"abcdef")
    sqs.send_message(QueueUrl=queue, MessageBody="later", DelaySeconds=900)
    held = receive(sqs, queue, 2, VisibilityTimeout=600)
    if KINDS[engine].capabilities.exact_counts:
        assert counts() == (4, 2, 1)
    delete(sqs, queue, held)
    delete(sqs, queue, receive(sqs, queue, 4))
    wait_until(lambda: counts()[:2] == (0, 0), lambda: str(counts()))


@pytest.mark.parametrize("engine", [name for name in KINDS if KINDS[name].tables])
def test_options(sqs: Any, create: Create, engine: str) -> None:
    """One call shows the messages that another call takes: the same queue."""
    queue = create(engine)
    shown = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
    plain = sqs.create_queue(QueueName=f"n-{uuid.uuid4().hex}")["QueueUrl"]
    as_in_sqs = sqs.get_queue_attributes(QueueUrl=plain, AttributeNames=["All"])["Attributes"]
    options = {name: text for name, text in shown.items() if name not in as_in_sqs}
    assert options.pop("Engine") == engine
    again = sqs.create_queue(QueueName=queue.rsplit("/", 1)[1], Attributes=options)
    assert again["QueueUrl"] == queue
    if options:
        sqs.set_queue_attributes(QueueUrl=queue, Attributes=options)
    if options and engine != DEFAULT:
        with pytest.raises(ClientError, match="Unknown Attribute"):
            sqs.set_queue_attributes(QueueUrl=plain, Attributes=options)


# -- from a queue of one engine to a queue of another -----------------------------------------------------------------


def _moves(sqs: Any, create: Create, source: str, dead: str) -> Moves:
    dead_queue = create(dead)
    arn = arn_of(sqs, dead_queue)
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    return Moves(sqs=sqs, source=create(source, RedrivePolicy=policy), dead=dead_queue, dead_arn=arn)


def _die(sqs: Any, of: Moves, service: Clustered) -> list[dict[str, Any]]:
    """Spend `n` messages and receive them from the dead-letter queue. Returns them, hidden for ten minutes."""
    send(sqs, of.source, *[str(n) for n in range(DEAD_LETTERS)])
    receive(sqs, of.source, DEAD_LETTERS, VisibilityTimeout=5)
    service.advance(6)
    for _ in range(DEAD_LETTERS):
        assert is_empty(sqs, of.source)
    return receive(
        sqs,
        of.dead,
        DEAD_LETTERS,
        VisibilityTimeout=600,
        AttributeNames=["ApproximateReceiveCount", "DeadLetterQueueSourceArn"],
    )


@pytest.mark.parametrize(("source", "target"), list(itertools.product(KINDS, KINDS)))
def test_dead_letters_and_their_return(service: Clustered, sqs: Any, create: Create, source: str, target: str) -> None:
    of = _moves(sqs, create, source, target)
    dead = _die(sqs, of, service)
    assert sorted_bodies(dead) == [str(n) for n in range(DEAD_LETTERS)]
    assert {one["Attributes"]["ApproximateReceiveCount"] for one in dead} == {"2"}
    assert {one["Attributes"]["DeadLetterQueueSourceArn"] for one in dead} == {arn_of(sqs, of.source)}
    for message in dead:
        sqs.change_message_visibility(QueueUrl=of.dead, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0)
    of.start()
    task = of.end()
    assert (task["Status"], task["ApproximateNumberOfMessagesMoved"]) == ("COMPLETED", DEAD_LETTERS)
    back = receive(sqs, of.source, DEAD_LETTERS, AttributeNames=["ApproximateReceiveCount"])
    assert sorted_bodies(back) == [str(n) for n in range(DEAD_LETTERS)]
    assert {one["Attributes"]["ApproximateReceiveCount"] for one in back} == {"1"}
    assert is_empty(sqs, of.dead)
    delete(sqs, of.source, back)
