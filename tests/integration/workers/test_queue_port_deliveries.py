"""The queue port's contract for tenants' queues, over both of its drivers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from cns.delivery.jobs import PUBLISH_JOBS
from cns.queue_port.contract import NewJob, QueueMessage, QueuePort, Refusal
from tests.integration.workers.queue_ports import TOPIC, Cqs, serving

pytestmark = pytest.mark.asyncio(loop_scope="module")

DRIVERS = ("inline", "http")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cqs(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cqs]:
    async with serving(tmp_path_factory.mktemp("cqs") / "data") as cqs:
        yield cqs


@pytest_asyncio.fixture(params=DRIVERS, loop_scope="module")
async def port(request: pytest.FixtureRequest, cqs: Cqs) -> AsyncIterator[QueuePort]:
    async with cqs.port(request.param) as opened:
        yield opened


@pytest.mark.spec("sender.sns")
async def test_a_notification_reaches_a_queue(port: QueuePort, cqs: Cqs) -> None:
    arn = await cqs.queue()
    attributes: dict[str, dict[str, str | bytes]] = {
        "text": {"DataType": "String", "StringValue": "ä"},
        "bytes": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
    }
    message = QueueMessage("{}", attributes, group="tenant", dedup="left out", trace_header="Root=1-2")
    (sent,) = await port.deliver(arn, [message], TOPIC)
    (received,) = await cqs.received(arn)
    assert (received["MessageId"], received["Body"]) == (sent, "{}")
    assert received["MessageAttributes"]["text"]["StringValue"] == "ä"
    assert received["MessageAttributes"]["bytes"]["BinaryValue"] == "AP8="
    assert received["Attributes"]["AWSTraceHeader"] == "Root=1-2"
    assert received["Attributes"]["MessageGroupId"] == "tenant"
    assert received["Attributes"]["SenderId"] == "AROACNSDELIVERYWORKER:AWS-CLOUDCAST"


async def test_a_fifo_queue_gets_group_and_deduplication_id(port: QueuePort, cqs: Cqs) -> None:
    arn = await cqs.queue(FifoQueue="true")
    message = QueueMessage("body", group="g", dedup="d")
    assert await port.deliver(arn, [message], TOPIC) == await port.deliver(arn, [message], TOPIC)
    (received,) = await cqs.received(arn)
    assert received["Attributes"]["MessageGroupId"] == "g"
    assert received["Attributes"]["MessageDeduplicationId"] == "d"


@pytest.mark.parametrize(
    ("queue", "message", "topic", "code"),
    [
        ("open", QueueMessage("m"), f"{TOPIC}2", "AccessDenied"),
        ("closed", QueueMessage("m"), TOPIC, "AccessDenied"),
        ("none", QueueMessage("m"), TOPIC, "QueueDoesNotExist"),
        ("open.fifo", QueueMessage("m"), TOPIC, "MissingParameter"),
        ("open", QueueMessage(""), TOPIC, "MissingParameter"),
        ("open", QueueMessage("m", group=" "), TOPIC, "InvalidParameterValue"),
        ("open", QueueMessage("m", {"a": {"DataType": "None"}}), TOPIC, "InvalidParameterValue"),
        ("open", QueueMessage("m" * 1_048_577), TOPIC, "InvalidParameterValue"),
        ("open", QueueMessage("m"), "no ARN", "InvalidParameterValue"),
    ],
)
async def test_what_a_queue_refuses(
    port: QueuePort, cqs: Cqs, queue: str, message: QueueMessage, topic: str, code: str
) -> None:
    arns = {
        "open": await cqs.queue(),
        "closed": await cqs.queue(open_to_topic=False),
        "none": f"arn:aws:sqs:us-east-1:{cqs.tenant.account}:none",
        "open.fifo": await cqs.queue(FifoQueue="true"),
    }
    (answer,) = await port.deliver(arns[queue], [message], topic)
    assert isinstance(answer, Refusal)
    assert (answer.code, answer.permanent) == (code, True)


SENDING = {"Effect": "Allow", "Principal": "*", "Action": "sqs:SendMessage", "Resource": "*"}
MISSPELT = {**SENDING, "Action": ["sqs:SendMesage", "sqs:Sned*", "SQS:receive*"]}
NOT_ALLOWED = f"queue policy does not allow topic {TOPIC}"


@pytest.mark.parametrize(
    ("statements", "said"),
    [
        ([], f"the queue has no policy that allows topic {TOPIC}"),
        ([{**SENDING, "Principal": {"AWS": "111111111111"}}], NOT_ALLOWED),
        ([SENDING, {**SENDING, "Effect": "Deny"}], f"queue policy denies topic {TOPIC}"),
        ([MISSPELT], f"{NOT_ALLOWED}; it names actions that SQS does not know: sqs:SendMesage, sqs:Sned*"),
    ],
)
async def test_why_a_policy_keeps_a_topic_out(
    port: QueuePort, cqs: Cqs, statements: list[dict[str, object]], said: str
) -> None:
    policy = {"Policy": json.dumps({"Version": "2012-10-17", "Statement": statements})} if statements else {}
    arn = await cqs.queue(open_to_topic=False, **policy)
    (answer,) = await port.deliver(arn, [QueueMessage("m")], TOPIC)
    assert answer == Refusal("AccessDenied", said, permanent=True)


@pytest.mark.parametrize(
    "arn", ["nonsense", "arn:aws:sns:us-east-1:111111111111:t", "arn:aws:sqs:internal:cns:publish-jobs"]
)
async def test_what_is_no_queue_of_a_customers(port: QueuePort, arn: str) -> None:
    (answer,) = await port.deliver(arn, [QueueMessage("m")], TOPIC)
    assert isinstance(answer, Refusal)
    assert (answer.code, answer.permanent) == ("QueueDoesNotExist", True)
    assert await port.depth(PUBLISH_JOBS) == 0


async def test_a_refusal_holds_up_no_other(port: QueuePort, cqs: Cqs) -> None:
    arn = await cqs.queue()
    answers = await asyncio.gather(
        *[port.deliver(arn, [QueueMessage(str(number))], TOPIC if number % 2 else "no ARN") for number in range(40)]
    )
    assert [isinstance(answer, Refusal) for (answer,) in answers] == [True, False] * 20
    assert len({answer for (answer,) in answers[1::2]}) == 20


async def test_messages_that_are_delivered_together_keep_their_order(port: QueuePort, cqs: Cqs) -> None:
    arn = await cqs.queue()
    bodies = [str(number) for number in range(10)]
    others = [port.deliver(await cqs.queue(), [QueueMessage("other")] * 3, TOPIC) for _ in range(3)]
    answers, *_ = await asyncio.gather(port.deliver(arn, [QueueMessage(body) for body in bodies], TOPIC), *others)
    received = await cqs.received(arn)
    assert [message["Body"] for message in received] == bodies
    assert [message["MessageId"] for message in received] == answers


async def test_each_message_that_is_delivered_together_has_its_own_answer(port: QueuePort, cqs: Cqs) -> None:
    arn = await cqs.queue()
    first, refused, last = await port.deliver(
        arn, [QueueMessage("first"), QueueMessage(""), QueueMessage("last")], TOPIC
    )
    assert isinstance(refused, Refusal)
    assert refused.code == "MissingParameter"
    assert [message["MessageId"] for message in await cqs.received(arn)] == [first, last]


async def test_all_is_open_without_authentication(tmp_path: Path) -> None:
    async with serving(tmp_path / "open", auth="off") as cqs:
        arn = await cqs.queue(open_to_topic=False)
        for driver in DRIVERS:
            async with cqs.port(driver) as port:
                (sent,) = await port.deliver(arn, [QueueMessage("m")], TOPIC)
                assert isinstance(sent, str)
                await port.enqueue([NewJob(PUBLISH_JOBS, driver, b"job", "111111111111")])
                assert await port.depth(PUBLISH_JOBS) == 1
                (held,) = await port.receive(PUBLISH_JOBS, 1, 30_000, 0)
                assert await port.settle(PUBLISH_JOBS, [held.handle]) == [True]


async def test_messages_with_large_attributes_share_no_request_that_is_too_large(port: QueuePort, cqs: Cqs) -> None:
    arn = await cqs.queue()
    message = QueueMessage("m", {"a": {"DataType": "Binary", "BinaryValue": b"\xff" * 200_000}})
    answers = await asyncio.gather(*[port.deliver(arn, [message], TOPIC) for _ in range(40)])
    assert len({answer for (answer,) in answers if isinstance(answer, str)}) == 40
