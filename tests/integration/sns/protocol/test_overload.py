"""Errors that are not the caller's fault: SDKs retry these and no others."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from cns_common.errors import OutcomeUnknown, StoreFull, StoreUnavailable
from tests.integration.sns.cns_support import REGION
from tests.integration.sns.sns_door import OWNER, SnsDoor
from tests.marks import case

spec = pytest.mark.spec
UNAVAILABLE = "The service is unavailable. Please try again."
FULL = "The service has no space left to store messages. Please try again later."
UNKNOWN = "The service did not learn in time whether the request took effect. Please try again."


def fail(sns: SnsDoor, monkeypatch: pytest.MonkeyPatch, *errors: Exception) -> list[Exception]:
    """Let the queue raise these errors at its next enqueues. The list has those not raised yet."""
    put, left = sns.rig.queue.enqueue, [*errors]

    async def failing_put(*arguments: Any) -> None:
        if left:
            raise left.pop(0)
        await put(*arguments)

    monkeypatch.setattr(sns.rig.queue, "enqueue", failing_put)
    return left


@pytest.mark.parametrize(
    ("error", "status", "code", "text", "retry_after_ms"),
    [
        case("sns.unavailable", StoreUnavailable("away"), 503, "ServiceUnavailable", UNAVAILABLE, "500"),
        case("sns.unavailable", StoreFull("/data"), 503, "ServiceUnavailable", FULL, "5000"),
        case("sns.unknown-outcome", OutcomeUnknown("lost"), 503, "ServiceUnavailable", UNKNOWN, "500"),
    ],
    ids=["unavailable", "full", "unknown"],
)
@spec("sns.type-receiver", "sns.no-detail")
async def test_failures_of_the_store(
    sns: SnsDoor,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    status: int,
    code: str,
    text: str,
    retry_after_ms: str | None,
) -> None:
    await sns.rig.queue_subscription(topic)
    fail(sns, monkeypatch, error)
    reply = await sns.reply("Publish", TopicArn=topic, Message="m")
    assert reply.query_fault == (status, code, "Receiver", text)
    assert reply.headers.get("x-amz-retry-after") == retry_after_ms
    assert b"<Detail" not in reply.body


@spec("sns.stopping")
async def test_a_process_that_stops_takes_no_calls(sns: SnsDoor) -> None:
    sns.front.stop()
    reply = await sns.reply("ListTopics")
    assert reply.query_fault == (503, "ServiceUnavailable", "Receiver", UNAVAILABLE)


@pytest.fixture
def client(sns: SnsDoor) -> Iterator[Any]:
    with closing(
        boto3.client(
            "sns",
            endpoint_url=sns.url,
            region_name=REGION,
            aws_access_key_id=OWNER.key_id,
            aws_secret_access_key=OWNER.secret,
            config=Config(retries={"mode": "standard"}),
        )
    ) as client:
        yield client


@spec("sns.sdk-retries")
@pytest.mark.parametrize("error", [StoreUnavailable("away"), OutcomeUnknown("lost")], ids=["unavailable", "unknown"])
async def test_an_sdk_tries_again(
    sns: SnsDoor, topic: str, monkeypatch: pytest.MonkeyPatch, client: Any, error: Exception
) -> None:
    await sns.rig.queue_subscription(topic)
    left = fail(sns, monkeypatch, error)
    published = await asyncio.to_thread(client.publish, TopicArn=topic, Message="m")
    assert (left, published["ResponseMetadata"]["RetryAttempts"]) == ([], 1)


@spec("sns.sdk-retries", "sns.wire-name-attribute")
async def test_an_sdk_does_not_repeat_its_callers_fault(sns: SnsDoor, client: Any) -> None:
    attributes = {"a": {"DataType": "Bad", "StringValue": "v"}}
    with pytest.raises(ClientError) as caught:
        await asyncio.to_thread(client.publish, TopicArn=await sns.topic(), Message="m", MessageAttributes=attributes)
    assert isinstance(caught.value, client.exceptions.InvalidParameterValueException)
    assert caught.value.response["Error"]["Code"] == "ParameterValueInvalid"
    assert caught.value.response["ResponseMetadata"]["RetryAttempts"] == 0
