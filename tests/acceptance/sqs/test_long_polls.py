"""Long polls on connections of their own: what wakes one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from lab.harness.service import Service
from lab.harness.waiting import wait_until
from tests.acceptance.polls import Poll

spec = pytest.mark.spec


@contextmanager
def polling(service: Service, queue: str, n: int = 1) -> Iterator[list[Poll]]:
    """So many polls, which wait."""
    before = service.polls_waiting()
    polls = [Poll(service, queue) for _ in range(n)]
    for poll in polls:
        poll.begin()
    wait_until(
        lambda: service.polls_waiting() >= before + n,
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
