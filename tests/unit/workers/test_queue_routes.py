"""Sends to one queue arrive in the order in which they began: `cns_workers.delivery.queue_routes`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

import pytest

from cns.queue_port.contract import DELIVER_ENTRIES_MAX, MessageAttributes, QueueMessage, QueuePort, Refusal
from cns_common.errors import OutcomeUnknown, StoreUnavailable
from cns_workers.delivery.queue_routes import DELIVER_BYTES_MAX, SendRoutes

TOPIC = "arn:aws:sns:us-east-1:111111111111:t"
QUEUE = "arn:aws:sqs:us-east-1:111111111111:q"


class Port:
    """Records the requests, and answers each when `let` is set."""

    def __init__(self) -> None:
        self.requests: list[list[str]] = []
        self.let = asyncio.Event()
        self.let.set()
        self.failure: Exception | None = None
        self.lost_answers = 0

    async def deliver(self, queue_arn: str, messages: Sequence[QueueMessage], topic_arn: str) -> list[str | Refusal]:
        self.requests.append([message.body for message in messages])
        await self.let.wait()
        if self.failure is not None:
            raise self.failure
        answers: list[str | Refusal] = [f"id-{message.body}" for message in messages]
        return answers[: len(answers) - self.lost_answers]

    @property
    def bodies(self) -> list[str]:
        return [body for request in self.requests for body in request]


class RouteFixture:
    def __init__(self) -> None:
        self.port = Port()
        self.routes = SendRoutes(cast(QueuePort, self.port))

    def begin(self, body: str, made: asyncio.Event | None = None, queue: str = QUEUE) -> asyncio.Task[str | Refusal]:
        return asyncio.create_task(self.send(QueueMessage(body), made, queue))

    async def send(self, message: QueueMessage, made: asyncio.Event | None = None, queue: str = QUEUE) -> str | Refusal:
        with self.routes.reserve(queue, TOPIC) as slot:
            if made is not None:
                await made.wait()
            return await slot.send(message)


async def turns(n: int = 5) -> None:
    for _ in range(n):
        await asyncio.sleep(0)


async def test_bodies_that_are_made_in_another_order_are_sent_in_theirs() -> None:
    fixture = RouteFixture()
    made = [asyncio.Event() for _ in range(10)]
    sends = [fixture.begin(str(number), event) for number, event in enumerate(made)]
    for number in (3, 9, 1, 0, 2, 8, 7, 4, 6, 5):
        made[number].set()
        await turns()
    assert await asyncio.gather(*sends) == [f"id-{number}" for number in range(10)]
    assert fixture.port.bodies == [str(number) for number in range(10)]
    assert len(fixture.routes) == 0


async def test_a_queue_has_one_request_at_a_time() -> None:
    fixture = RouteFixture()
    fixture.port.let.clear()
    sends = [fixture.begin(str(number)) for number in range(4)]
    await turns()
    assert fixture.port.requests == [["0"]]
    fixture.port.let.set()
    await asyncio.gather(*sends)
    assert fixture.port.requests == [["0"], ["1", "2", "3"]]


async def test_queues_do_not_wait_for_one_another() -> None:
    fixture = RouteFixture()
    slow = fixture.begin("slow", asyncio.Event())
    assert await fixture.begin("other", queue=f"{QUEUE}2") == "id-other"
    slow.cancel()
    await asyncio.wait([slow])
    assert len(fixture.routes) == 0


async def test_a_send_that_ends_without_a_message_holds_up_none() -> None:
    fixture = RouteFixture()
    first, second = fixture.begin("first", asyncio.Event()), fixture.begin("second")
    await turns()
    assert fixture.port.requests == []
    first.cancel()
    assert await second == "id-second"
    assert len(fixture.routes) == 0


@pytest.mark.parametrize("cancelled", [0, 1])
async def test_a_cancelled_send_leaves_the_others_their_answers(cancelled: int) -> None:
    fixture = RouteFixture()
    fixture.port.let.clear()
    sends = [fixture.begin(str(number)) for number in range(3)]
    await turns()
    sends[cancelled].cancel()
    await turns()
    fixture.port.let.set()
    answers = await asyncio.gather(*sends, return_exceptions=True)
    assert [answer for answer in answers if isinstance(answer, str)] == [
        f"id-{number}" for number in range(3) if number != cancelled
    ]
    assert len(fixture.routes) == 0


async def test_a_request_that_fails_fails_all_that_are_in_it_and_no_others() -> None:
    fixture = RouteFixture()
    fixture.port.let.clear()
    sends = [fixture.begin(str(number)) for number in range(3)]
    await turns()
    fixture.port.failure = StoreUnavailable("away")
    fixture.port.let.set()
    failed = await asyncio.gather(*sends, return_exceptions=True)
    assert [type(each) for each in failed] == [StoreUnavailable] * 3
    fixture.port.failure = None
    assert await fixture.begin("3") == "id-3"
    assert len(fixture.routes) == 0


async def test_answers_that_do_not_match_the_messages_fail_them_and_free_the_route() -> None:
    fixture = RouteFixture()
    fixture.port.let.clear()
    fixture.port.lost_answers = 1
    sends = [fixture.begin(str(number)) for number in range(3)]
    await turns()
    fixture.port.let.set()
    failed = await asyncio.gather(*sends, return_exceptions=True)
    assert [type(each) for each in failed] == [OutcomeUnknown] * 3
    assert len(fixture.routes) == 0


async def test_a_request_is_bounded() -> None:
    fixture = RouteFixture()
    large = "b" * DELIVER_BYTES_MAX
    fixture.port.let.clear()
    attributes: MessageAttributes = {"a": {"DataType": "Binary", "BinaryValue": large.encode()}}
    messages = [QueueMessage(body) for body in ["0", *("s" * (DELIVER_ENTRIES_MAX + 1)), "t", large, large]]
    messages += [QueueMessage("attributes", attributes)] * 2
    sends = [asyncio.create_task(fixture.send(message)) for message in messages]
    await turns()
    fixture.port.let.set()
    await asyncio.gather(*sends)
    assert [len(request) for request in fixture.port.requests] == [1, DELIVER_ENTRIES_MAX, 2, 1, 1, 1, 1]
