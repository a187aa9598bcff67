"""AWS JSON and AWS Query as bytes on a connection: what is a call, and which queue it names."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.integration.cqs.door import FORM, JSON, NO_QUEUE, NO_QUEUE_QUERY, SQS_VERSION, Door
from tests.integration.cqs.sqs import ACCOUNT

spec = pytest.mark.spec
UNKNOWN = (400, "InvalidAction;Sender", "com.amazon.coral.service#UnknownOperationException", "")
SERIALIZATION = (400, "MalformedInput;Sender", "com.amazon.coral.service#SerializationException")


def no_such_action(action: str) -> tuple[int, str, str, str]:
    return 400, "InvalidAction", "Sender", f"The action {action} is not valid for this endpoint."


# -- AWS JSON ---------------------------------------------------------------------------------------------------------


@spec("protocol.json-request", "protocol.json-success", "protocol.request-id")
async def test_a_json_call(door: Door) -> None:
    reply = await door.target("AmazonSQS.CreateQueue", b'{"QueueName":"q"}')
    assert (reply.status, reply.headers["content-type"]) == (200, JSON)
    assert reply.json() == {"QueueUrl": f"{door.url}/{ACCOUNT}/q"}
    assert str(uuid.UUID(reply.headers["x-amzn-requestid"])) == reply.headers["x-amzn-requestid"]


@spec("protocol.json-on-queue-path")
async def test_a_json_call_at_a_queues_path(door: Door) -> None:
    url = await door.queue("q")
    sent = await door.json("SendMessage", path=f"/{ACCOUNT}/q", QueueUrl=url, MessageBody="x")
    assert (sent.status, sent.headers["content-type"]) == (200, JSON)
    assert (await door.json("CreateQueue", path=f"/{ACCOUNT}/q", QueueName="r")).status == 200


@pytest.mark.parametrize(
    "content_type",
    [
        pytest.param("text/plain", marks=spec("protocol.choice-target")),
        pytest.param(FORM, marks=spec("protocol.choice-target")),
        pytest.param(f"{JSON}; charset=utf-8", marks=spec("protocol.choice-charset")),
    ],
)
async def test_the_target_makes_it_json(door: Door, content_type: str) -> None:
    fields = {"content-type": content_type, "x-amz-target": "AmazonSQS.CreateQueue"}
    reply = await door.signed("POST", "/", fields, b'{"QueueName":"q"}')
    assert reply.json() == {"QueueUrl": f"{door.url}/{ACCOUNT}/q"}


@spec("protocol.unknown-target")
@pytest.mark.parametrize("target", ["AmazonSQS.Nonsense", "AmazonSNS.Publish", "SendMessage", "AmazonSQS.Settle", ""])
async def test_unknown_targets(door: Door, target: str) -> None:
    assert (await door.target(target, b"{}")).fault == UNKNOWN


@spec("protocol.body-not-json", "protocol.body-no-object")
@pytest.mark.parametrize(("body", "message"), [(b"", None), (b"[]", "Start of list found where not expected")])
async def test_bodies_that_are_no_object(door: Door, body: bytes, message: str | None) -> None:
    reply = await door.target("AmazonSQS.CreateQueue", body)
    assert reply.fault[:3] == SERIALIZATION
    assert reply.json().get("message") == message


# -- AWS Query --------------------------------------------------------------------------------------------------------


@spec("protocol.query-success", "protocol.query-frame", "protocol.request-id")
@pytest.mark.parametrize(
    "method",
    [pytest.param("POST", marks=spec("protocol.query-form")), pytest.param("GET", marks=spec("protocol.query-get"))],
)
async def test_a_query_call(door: Door, method: str) -> None:
    reply = await door.query("CreateQueue", {"QueueName": "q"}, method=method)
    assert (reply.status, reply.headers["content-type"]) == (200, "text/xml")
    request_id = reply.headers["x-amzn-requestid"]
    assert reply.body.decode() == (
        '<?xml version="1.0"?><CreateQueueResponse xmlns="http://queue.amazonaws.com/doc/2012-11-05/">'
        f"<CreateQueueResult><QueueUrl>{door.url}/{ACCOUNT}/q</QueueUrl></CreateQueueResult>"
        f"<ResponseMetadata><RequestId>{uuid.UUID(request_id)}</RequestId></ResponseMetadata></CreateQueueResponse>"
    )


@spec("protocol.choice-charset")
async def test_a_form_with_a_charset(door: Door) -> None:
    body = f"Action=CreateQueue&Version={SQS_VERSION}&QueueName=q".encode()
    assert (await door.signed("POST", "/", {"content-type": f"{FORM}; charset=utf-8"}, body)).status == 200


@spec("protocol.query-queue-path", "address.path", "protocol.query-no-output")
@pytest.mark.parametrize("method", ["POST", "GET"])
async def test_a_query_call_at_a_queues_path(door: Door, method: str) -> None:
    await door.queue("q")
    path = f"/{ACCOUNT}/q"
    await door.query("SendMessage", {"MessageBody": "x"}, path=path, method=method)
    received = await door.query("ReceiveMessage", path=path, method=method)
    assert received.texts("ReceiveMessageResult/Message/Body") == ["x"]
    (handle,) = received.texts("ReceiveMessageResult/Message/ReceiptHandle")
    deleted = await door.query("DeleteMessage", {"ReceiptHandle": handle}, path=path, method=method)
    assert [element.tag for element in deleted.xml()] == ["ResponseMetadata"]


@spec("protocol.unknown-action")
@pytest.mark.parametrize("action", ["Nonsense", "createqueue", "Publish", "Settle"])
async def test_unknown_actions(door: Door, action: str) -> None:
    assert (await door.query(action)).query_fault == no_such_action(action)


@spec("protocol.missing-action")
async def test_no_action(door: Door) -> None:
    text = "The action is not valid for this endpoint."
    assert (await door.query("")).query_fault == (400, "InvalidAction", "Sender", text)


@spec("protocol.account-action-on-queue-path")
@pytest.mark.parametrize("action", ["ListQueues", "CreateQueue"])
async def test_actions_of_the_account_at_a_queues_path(door: Door, action: str) -> None:
    await door.queue("q")
    reply = await door.query(action, {"QueueName": "r"}, path=f"/{ACCOUNT}/q")
    assert reply.query_fault == no_such_action(action)


@spec("protocol.get-queue-url-on-queue-path")
async def test_get_queue_url_at_another_queues_path(door: Door) -> None:
    url = await door.queue("q")
    await door.queue("r")
    reply = await door.query("GetQueueUrl", {"QueueName": "q"}, path=f"/{ACCOUNT}/r")
    assert reply.texts("GetQueueUrlResult/QueueUrl") == [url]


@spec("protocol.no-action-on-queue-path")
async def test_a_queues_path_without_action(door: Door) -> None:
    await door.queue("q")
    reply = await door.send("GET", f"/{ACCOUNT}/q")
    assert (reply.status, reply.body) == (404, b"<UnknownOperationException/>")


# -- which queue ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "path"),
    [
        pytest.param("{door}/{account}/q", "/{account}/r", marks=spec("address.url-before-path")),
        pytest.param("https://queues.example.org:99/{account}/q", "/", marks=spec("address.host-ignored")),
        pytest.param("https://sqs.us-east-1.amazonaws.com/{account}/q", "/", marks=spec("address.host-ignored")),
        pytest.param("q", "/", marks=spec("address.bare-name")),
    ],
)
async def test_the_queue_a_call_means(door: Door, url: str, path: str) -> None:
    for name in ("q", "r"):
        await door.queue(name)
    named, at = (text.format(door=door.url, account=ACCOUNT) for text in (url, path))
    assert (await door.json("SendMessage", path=at, QueueUrl=named, MessageBody="json")).status == 200
    assert (await door.query("SendMessage", {"QueueUrl": named, "MessageBody": "query"}, path=at)).status == 200
    received = await door.json("ReceiveMessage", QueueUrl=f"{door.url}/{ACCOUNT}/q", MaxNumberOfMessages=10)
    assert {message["Body"] for message in received.json()["Messages"]} == {"json", "query"}


@pytest.mark.parametrize(
    "members",
    [
        pytest.param({"MessageBody": "x"}, marks=spec("address.missing-url")),
        pytest.param({"QueueUrl": "", "MessageBody": "x"}, marks=spec("address.empty-url")),
        pytest.param({}, marks=spec("address.missing-url", "address.first-of-all-checks")),
        pytest.param({"DelaySeconds": 5_000}, marks=spec("address.first-of-all-checks")),
    ],
)
async def test_no_queue_is_meant(door: Door, members: dict[str, Any]) -> None:
    assert (await door.json("SendMessage", **members)).fault == NO_QUEUE
    assert (await door.query("SendMessage", members)).query_fault == NO_QUEUE_QUERY


@spec("error.no-such-queue-json", "error.no-such-queue-query")
async def test_a_queue_that_is_not_there(door: Door) -> None:
    url = f"{door.url}/{ACCOUNT}/absent"
    assert (await door.json("ReceiveMessage", QueueUrl=url)).fault == NO_QUEUE
    assert (await door.query("ReceiveMessage", {"QueueUrl": url})).query_fault == NO_QUEUE_QUERY


@spec("address.other-region")
@pytest.mark.parametrize("host", ["https://sqs.eu-west-1.amazonaws.com", "http://localhost:4566/queue/eu-west-1"])
async def test_a_url_of_another_region(door: Door, host: str) -> None:
    await door.queue("q")
    url = f"{host}/{ACCOUNT}/q"
    text = f"The address {url} is not valid for this endpoint."
    reply = await door.json("ReceiveMessage", QueueUrl=url)
    assert reply.fault == (404, "InvalidAddress;Sender", "com.amazonaws.sqs#InvalidAddress", text)
    reply = await door.query("ReceiveMessage", {"QueueUrl": url})
    assert reply.query_fault == (404, "InvalidAddress", "Sender", text)
