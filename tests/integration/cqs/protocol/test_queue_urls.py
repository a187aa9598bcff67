"""Operations read the queue URLs of other products, and never take a foreign account's for the caller's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cns_common.aws.protocol.shapes import read_signatures
from tests.integration.cqs.door import NO_QUEUE, NO_QUEUE_QUERY, Door
from tests.integration.cqs.sqs import ACCOUNT, OTHER_ACCOUNT

spec = pytest.mark.spec

Members = dict[str, Any]
MEMBERS: dict[str, Callable[[str], Members]] = {
    "AddPermission": lambda handle: {"Label": "a", "AWSAccountIds": [OTHER_ACCOUNT], "Actions": ["SendMessage"]},
    "ChangeMessageVisibility": lambda handle: {"ReceiptHandle": handle, "VisibilityTimeout": 9},
    "ChangeMessageVisibilityBatch": lambda handle: {
        "Entries": [{"Id": "a", "ReceiptHandle": handle, "VisibilityTimeout": 9}]
    },
    "DeleteMessage": lambda handle: {"ReceiptHandle": handle},
    "DeleteMessageBatch": lambda handle: {"Entries": [{"Id": "a", "ReceiptHandle": handle}]},
    "DeleteQueue": lambda handle: {},
    "GetQueueAttributes": lambda handle: {"AttributeNames": ["All"]},
    "ListDeadLetterSourceQueues": lambda handle: {},
    "ListQueueTags": lambda handle: {},
    "PurgeQueue": lambda handle: {},
    "ReceiveMessage": lambda handle: {},
    "RemovePermission": lambda handle: {"Label": "before"},
    "SendMessage": lambda handle: {"MessageBody": "x"},
    "SendMessageBatch": lambda handle: {"Entries": [{"Id": "a", "MessageBody": "x"}]},
    "SetQueueAttributes": lambda handle: {"Attributes": {"DelaySeconds": "5"}},
    "TagQueue": lambda handle: {"Tags": {"a": "b"}},
    "UntagQueue": lambda handle: {"TagKeys": ["a"]},
}
OWN = (
    "q",
    "http://other:9324/queue/q",
    "http://other/q",
    "http://other:99/a/b/q",
    f"http://other/{ACCOUNT}/q",
    "/queue/q",
)
FOREIGN = (
    f"http://other/{OTHER_ACCOUNT}/q",
    f"http://other/queue/{OTHER_ACCOUNT}/q",
    f"http://other/queue/us-east-1/{OTHER_ACCOUNT}/q",
    f"http://other/{OTHER_ACCOUNT}/queue/q",
    f"/{OTHER_ACCOUNT}/q",
    f"http://other/{OTHER_ACCOUNT[:-1]}/q",
    f"http://other/{OTHER_ACCOUNT[:-1]}%31/q",
)


async def _queue_with_a_message(door: Door) -> str:
    """A new queue `q` with one message in flight. Returns its receipt handle."""
    url = await door.queue()
    await door.json("AddPermission", QueueUrl=url, **MEMBERS["AddPermission"]("") | {"Label": "before"})
    await door.json("SendMessage", QueueUrl=url, MessageBody="held")
    handle: str = (await door.json("ReceiveMessage", QueueUrl=url)).json()["Messages"][0]["ReceiptHandle"]
    return handle


def test_every_operation_with_a_queue_url_is_here() -> None:
    with_url = {each.name for each in read_signatures("sqs") if "QueueUrl" in {one.name for one in each.input.members}}
    assert with_url == set(MEMBERS)


@spec("address.other-products")
@pytest.mark.parametrize("url", OWN)
@pytest.mark.parametrize("action", MEMBERS)
async def test_a_url_without_an_account_names_the_callers_queue(door: Door, action: str, url: str) -> None:
    handle = await _queue_with_a_message(door)
    reply = await door.json(action, QueueUrl=url, **MEMBERS[action](handle))
    assert (reply.status, b'"Failed"' in reply.body) == (200, False)


@spec("address.foreign-account")
@pytest.mark.parametrize("action", MEMBERS)
async def test_a_foreign_accounts_url_is_never_the_callers_queue(door: Door, action: str) -> None:
    handle = await _queue_with_a_message(door)
    for url in FOREIGN:
        assert (await door.json(action, QueueUrl=url, **MEMBERS[action](handle))).fault == NO_QUEUE, url
    assert await door.sqs.counts(f"{door.url}/{ACCOUNT}/q") == (0, 1, 0)


@spec("address.other-products")
async def test_a_query_call_at_another_products_path(door: Door) -> None:
    await door.queue()
    await door.query("SendMessage", {"MessageBody": "x"}, path="/queue/q")
    received = await door.query("ReceiveMessage", path="/queue/q", method="GET")
    assert received.texts("ReceiveMessageResult/Message/Body") == ["x"]
    absent = await door.query("ReceiveMessage", path=f"/queue/{OTHER_ACCOUNT}")
    assert absent.query_fault == NO_QUEUE_QUERY
