"""`Engine=cassieq` over the API of a service that has Cassandra and no Redis: queues, dead letters and topics."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio

from cns_common.cassandra.connection import CassandraAddress
from lab.harness.keyspace import emptied
from tests.integration.errors.api_forms import ACCOUNT, REGION, FormOfApi, cluster_api

DEAD_ARN = f"arn:aws:sqs:{REGION}:{ACCOUNT}:dead"


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Connections to a Redis that anybody opens."""
    opened: list[str] = []
    connect = redis.asyncio.Connection.connect

    async def noted(connection: redis.asyncio.Connection) -> None:
        opened.append(repr(connection))
        await connect(connection)  # type: ignore[no-untyped-call]  # redis-py does not annotate it

    monkeypatch.setattr(redis.asyncio.Connection, "connect", noted)
    yield opened


async def _call(api: FormOfApi, action: str, **members: Any) -> Any:
    answer = await api("sqs", "json", action, **members)
    assert answer.status == 200, (action, answer)
    return json.loads(answer.body) if answer.body else {}


async def _create(api: FormOfApi, name: str, **attributes: str) -> str:
    url: str = (await _call(api, "CreateQueue", QueueName=name, Attributes={"Engine": "cassieq", **attributes}))[
        "QueueUrl"
    ]
    return url


async def _receive(api: FormOfApi, url: str, **members: Any) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = (
        await _call(api, "ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=10, **members)
    ).get("Messages", [])
    return messages


async def test_cassandra_is_all_it_needs(
    tmp_path: Path, cassandra_address: CassandraAddress, connections: list[str]
) -> None:
    async with emptied(cassandra_address), cluster_api(tmp_path, cassandra_address) as api:
        dead = await _create(api, "dead")
        policy = json.dumps({"deadLetterTargetArn": DEAD_ARN, "maxReceiveCount": 1})
        url = await _create(api, "q", RedrivePolicy=policy)
        entries = [{"Id": str(n), "MessageBody": f"m{n}"} for n in range(10)]
        assert len((await _call(api, "SendMessageBatch", QueueUrl=url, Entries=entries))["Successful"]) == 10
        messages = await _receive(api, url, VisibilityTimeout=600)
        assert [message["Body"] for message in messages] == [f"m{n}" for n in range(10)]
        assert not await _receive(api, url)
        for message in messages[:5]:
            await _call(api, "DeleteMessage", QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        for message in messages[5:]:
            hide = {"ReceiptHandle": message["ReceiptHandle"], "VisibilityTimeout": 0}
            await _call(api, "ChangeMessageVisibility", QueueUrl=url, **hide)
        assert not await _receive(api, url), "they were received as often as the policy allows"
        assert [message["Body"] for message in await _receive(api, dead)] == [f"m{n}" for n in range(5, 10)]

        target = await _create(api, "subscribed")
        shown = await _call(api, "GetQueueAttributes", QueueUrl=target, AttributeNames=["All"])
        assert shown["Attributes"]["Engine"] == "cassieq"
        await _call(api, "SendMessage", QueueUrl=target, MessageBody="to be purged")
        await _call(api, "PurgeQueue", QueueUrl=target)
        assert not await _receive(api, target)
        await _call(api, "DeleteQueue", QueueUrl=target)
        assert connections == []
