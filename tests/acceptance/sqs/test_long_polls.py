"""Long polls on connections of their own: each cause that wakes one, and what ends it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from lab.harness.service import Service
from lab.harness.waiting import wait_until
from tests.acceptance.polls import Poll

spec = pytest.mark.spec

WAITERS = 10


@contextmanager
def polling(service: Service, queue: str, n: int = 1) -> Iterator[list[Poll]]:
    """So many polls, which wait."""
    before = service.polls_waiting()
    polls = [Poll(service, queue) for _ in range(n)]
    for poll in polls:
        poll.begin()
    wait_until(
        lambda: service.polls_waiting() >= before + n,
        10,
        lambda: f"{service.polls_waiting()} wait, {before} did before",
    )
    yield polls


def arn(sqs: Any, queue: str) -> str:
    attributes = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]
    return str(attributes["QueueArn"])


def receive(sqs: Any, queue: str, **more: Any) -> dict[str, Any]:
    """The only message that there is."""
    (message,) = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, **more)["Messages"]
    received: dict[str, Any] = message
    return received


@pytest.fixture
def dead(sqs: Any, queue: str, new_name: Callable[[], str]) -> str:
    """The dead-letter queue of `queue`, after one receive."""
    url = str(sqs.create_queue(QueueName=new_name())["QueueUrl"])
    policy = f'{{"deadLetterTargetArn":"{arn(sqs, url)}","maxReceiveCount":1}}'
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"RedrivePolicy": policy})
    return url


@spec("poll.woken-by-send")
def test_woken_by_a_send(service: Service, sqs: Any, queue: str) -> None:
    with polling(service, queue) as (poll,):
        sqs.send_message(QueueUrl=queue, MessageBody="wake")
        assert poll.bodies() == ["wake"]


@spec("poll.woken-by-delay")
def test_woken_by_the_end_of_a_delay(service: Service, sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="later", DelaySeconds=15)
    with polling(service, queue) as (poll,):
        service.advance(16)
        assert poll.bodies() == ["later"]


@spec("poll.woken-by-timeout")
def test_woken_by_the_end_of_a_visibility_timeout(service: Service, sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="again")
    receive(sqs, queue, VisibilityTimeout=15)
    with polling(service, queue) as (poll,):
        service.advance(16)
        assert poll.bodies() == ["again"]


@spec("poll.woken-by-change")
def test_woken_by_a_change_of_visibility(service: Service, sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="given back")
    handle = receive(sqs, queue)["ReceiptHandle"]
    with polling(service, queue) as (poll,):
        sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=handle, VisibilityTimeout=0)
        assert poll.bodies() == ["given back"]


@spec("poll.woken-by-unlock")
def test_woken_by_a_group_that_unlocks(service: Service, sqs: Any, fifo: str) -> None:
    sqs.send_message(QueueUrl=fifo, MessageBody="first", MessageGroupId="g")
    handle = receive(sqs, fifo)["ReceiptHandle"]
    sqs.send_message(QueueUrl=fifo, MessageBody="second", MessageGroupId="g")
    with polling(service, fifo) as (poll,):
        sqs.delete_message(QueueUrl=fifo, ReceiptHandle=handle)
        assert poll.bodies() == ["second"]


@spec("poll.woken-by-dead-letter")
def test_woken_by_a_dead_letter(service: Service, sqs: Any, queue: str, dead: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="poison")
    receive(sqs, queue, VisibilityTimeout=0)
    with polling(service, dead) as (poll,):
        assert "Messages" not in sqs.receive_message(QueueUrl=queue)
        assert poll.bodies() == ["poison"]


@spec("poll.woken-by-move-task")
def test_woken_by_what_a_move_task_brings_back(service: Service, sqs: Any, queue: str, dead: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="poison")
    receive(sqs, queue, VisibilityTimeout=0)
    assert "Messages" not in sqs.receive_message(QueueUrl=queue)
    with polling(service, queue) as (poll,):
        sqs.start_message_move_task(SourceArn=arn(sqs, dead))
        assert poll.bodies() == ["poison"]


@spec("poll.woken-after-purge")
def test_woken_after_a_purge(service: Service, sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="purged")
    receive(sqs, queue)
    with polling(service, queue) as (poll,):
        sqs.purge_queue(QueueUrl=queue)
        sqs.send_message(QueueUrl=queue, MessageBody="after")
        assert poll.bodies() == ["after"]


@spec("poll.one-woken")
def test_one_of_many_is_woken(service: Service, sqs: Any, queue: str) -> None:
    with polling(service, queue, WAITERS) as polls:
        sqs.send_message(QueueUrl=queue, MessageBody="for one")
        wait_until(lambda: not all(poll.is_alive() for poll in polls), 10, lambda: "nobody got it")
        assert sum(poll.is_alive() for poll in polls) == WAITERS - 1
        service.advance(21)
        assert sorted(poll.bodies() for poll in polls) == [[]] * (WAITERS - 1) + [["for one"]]


@spec("poll.ends")
def test_the_end_of_its_wait_ends_it(service: Service, queue: str) -> None:
    with polling(service, queue) as (poll,):
        service.advance(21)
        assert poll.bodies() == []


@spec("poll.queue-deleted", "poll.namesake")
def test_the_end_of_its_queue_ends_it(service: Service, sqs: Any, new_name: Callable[[], str]) -> None:
    name = new_name()
    queue = sqs.create_queue(QueueName=name)["QueueUrl"]
    with polling(service, queue, 3) as polls:
        sqs.delete_queue(QueueUrl=queue)
        assert [poll.bodies() for poll in polls] == [[]] * 3
    service.advance(61)
    assert sqs.create_queue(QueueName=name)["QueueUrl"] == queue
    sqs.send_message(QueueUrl=queue, MessageBody="of the namesake")
    assert receive(sqs, queue)["Body"] == "of the namesake"
