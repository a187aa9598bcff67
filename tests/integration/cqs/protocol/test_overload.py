"""Errors that are not the caller's fault: SDKs retry these and no others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from cns_common.errors import OutcomeUnknown, StoreFull, StoreUnavailable
from tests.integration.cqs.door import OWNER, REGION, Door
from tests.integration.cqs.sqs_wire import CORAL

spec = pytest.mark.spec
UNAVAILABLE = "The service is unavailable. Please try again."
FULL = "The service has no space left to store messages. Please try again later."
UNKNOWN = "The service did not learn in time whether the request took effect. Please try again."


@pytest.fixture
def failing(door: Door, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Exception]]:
    """Let the engine raise these errors at its next sends. The list has those not raised yet."""
    send = door.sqs.engine.send

    def arm(*errors: Exception) -> list[Exception]:
        left = [*errors]

        async def failing_send(*arguments: Any) -> Any:
            if left:
                raise left.pop(0)
            return await send(*arguments)

        monkeypatch.setattr(door.sqs.engine, "send", failing_send)
        return left

    return arm


@pytest.mark.parametrize(
    ("error", "status", "code", "shape", "text", "retry_after_ms"),
    [
        pytest.param(
            StoreUnavailable("away"),
            503,
            "ServiceUnavailable",
            "ServiceUnavailableException",
            UNAVAILABLE,
            "500",
            marks=spec("overload.unavailable"),
        ),
        pytest.param(
            StoreFull("/data"),
            503,
            "ServiceUnavailable",
            "ServiceUnavailableException",
            FULL,
            "5000",
            marks=spec("overload.unavailable"),
        ),
        pytest.param(
            OutcomeUnknown("lost"),
            503,
            "ServiceUnavailable",
            "ServiceUnavailableException",
            UNKNOWN,
            "500",
            marks=spec("overload.unknown"),
        ),
    ],
    ids=["unavailable", "full", "unknown"],
)
async def test_failures_of_the_store(
    door: Door,
    failing: Callable[..., list[Exception]],
    error: Exception,
    status: int,
    code: str,
    shape: str,
    text: str,
    retry_after_ms: str | None,
) -> None:
    await door.queue("q")
    failing(error, error)
    in_json = await door.json("SendMessage", QueueUrl="q", MessageBody="x")
    assert in_json.fault == (status, f"{code};Receiver", f"{CORAL}{shape}", text)
    in_query = await door.query("SendMessage", {"QueueUrl": "q", "MessageBody": "x"})
    assert in_query.query_fault == (status, code, "Receiver", text)
    assert {reply.headers.get("x-amz-retry-after") for reply in (in_json, in_query)} == {retry_after_ms}


@spec("overload.stopping")
async def test_a_process_that_stops_takes_no_calls(door: Door) -> None:
    await door.queue("q")
    door.front.stop()
    in_json = await door.json("SendMessage", QueueUrl="q", MessageBody="x")
    told = (503, "ServiceUnavailable;Receiver", f"{CORAL}ServiceUnavailableException", UNAVAILABLE)
    assert in_json.fault == told
    in_query = await door.query("SendMessage", {"QueueUrl": "q", "MessageBody": "x"})
    assert in_query.query_fault == (503, "ServiceUnavailable", "Receiver", UNAVAILABLE)


@pytest.fixture
def client(door: Door) -> Iterator[Any]:
    with closing(
        boto3.client(
            "sqs",
            endpoint_url=door.url,
            region_name=REGION,
            aws_access_key_id=OWNER.key_id,
            aws_secret_access_key=OWNER.secret,
            config=Config(retries={"mode": "standard"}),
        )
    ) as client:
        yield client


@spec("overload.sdk-retries")
@pytest.mark.parametrize("error", [StoreUnavailable("away"), OutcomeUnknown("lost")], ids=["unavailable", "unknown"])
async def test_an_sdk_tries_again(
    door: Door, client: Any, failing: Callable[..., list[Exception]], error: Exception
) -> None:
    url = await door.queue("q")
    left = failing(error)
    sent = await asyncio.to_thread(client.send_message, QueueUrl=url, MessageBody="x")
    assert (left, sent["ResponseMetadata"]["RetryAttempts"]) == ([], 1)


@spec("overload.sdk-retries")
async def test_an_sdk_does_not_repeat_its_callers_fault(door: Door, client: Any) -> None:
    with pytest.raises(ClientError) as caught:
        await asyncio.to_thread(client.send_message, QueueUrl=door.url + "/000000000000/absent", MessageBody="x")
    assert caught.value.response["ResponseMetadata"]["RetryAttempts"] == 0


@pytest.mark.parametrize("error", [StoreUnavailable("away"), OutcomeUnknown("lost")], ids=["unavailable", "unknown"])
async def test_a_long_poll_ends_empty_when_the_store_goes(
    door: Door, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """A receive that begins with such a failure does not: its caller would poll again at once."""
    await door.queue("q")
    receive, receives = door.sqs.engine.receive, 0

    async def failing_receive(*arguments: Any) -> Any:
        nonlocal receives
        receives += 1
        if receives > 1:
            raise error
        return await receive(*arguments)

    monkeypatch.setattr(door.sqs.engine, "receive", failing_receive)
    polled = await door.json("ReceiveMessage", QueueUrl="q", WaitTimeSeconds=20)
    assert (polled.status, polled.json(), receives) == (200, {}, 2)
    assert (await door.json("ReceiveMessage", QueueUrl="q", WaitTimeSeconds=20)).status == 503
