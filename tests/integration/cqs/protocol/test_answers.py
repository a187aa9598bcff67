"""Responses and errors as bytes on a connection, in AWS JSON and in AWS Query."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.integration.cqs.door import JSON, NO_QUEUE, NO_QUEUE_QUERY, Door

spec = pytest.mark.spec


@spec("protocol.json-no-output")
async def test_operations_without_output(door: Door) -> None:
    await door.queue("q")
    calls: list[tuple[str, dict[str, Any]]] = [
        ("TagQueue", {"Tags": {"a": "b"}}),
        ("PurgeQueue", {}),
        ("DeleteQueue", {}),
    ]
    for action, members in calls:
        reply = await door.json(action, QueueUrl="q", **members)
        assert (reply.status, reply.headers["content-type"], reply.body) == (200, JSON, b"")


@spec("protocol.empty-json")
@pytest.mark.parametrize(
    "action", ["ListQueueTags", "ReceiveMessage", "ListQueues", "GetQueueAttributes", "ListDeadLetterSourceQueues"]
)
async def test_answers_with_nothing_in_them(door: Door, action: str) -> None:
    await door.queue("q")
    reply = await door.json(action, QueueUrl="q", QueueNamePrefix="other")
    assert (reply.status, reply.body) == (200, b"{}")


@spec("protocol.empty-receive-query")
async def test_an_empty_receive_in_query(door: Door) -> None:
    await door.queue("q")
    assert b"<ReceiveMessageResult/><ResponseMetadata>" in (await door.query("ReceiveMessage", {"QueueUrl": "q"})).body


@spec("protocol.empty-batch-half")
@pytest.mark.parametrize(("body", "half"), [("fine", "Successful"), ("\x00", "Failed")])
async def test_the_empty_half_of_a_batch(door: Door, body: str, half: str) -> None:
    await door.queue("q")
    reply = await door.json("SendMessageBatch", QueueUrl="q", Entries=[{"Id": "a", "MessageBody": body}])
    assert (reply.status, [*reply.json()]) == (200, [half])


AS_JSON = [
    pytest.param({"accept": "application/json"}, {}, marks=spec("protocol.accept-json")),
    pytest.param({}, {"ContentType": "JSON"}, marks=spec("protocol.content-type-json")),
]


@spec("protocol.accept-json-messages")
@pytest.mark.parametrize(("headers", "asked"), AS_JSON)
async def test_query_for_a_client_that_accepts_json(door: Door, headers: dict[str, str], asked: dict[str, str]) -> None:
    url = await door.queue("q")
    listed = await door.query("ListQueues", asked, headers=headers)
    assert (listed.status, listed.headers["content-type"]) == (200, "application/json")
    request_id = {"RequestId": listed.headers["x-amzn-requestid"]}
    result = {"NextToken": None, "queueUrls": [url]}
    assert listed.json() == {"ListQueuesResponse": {"ListQueuesResult": result, "ResponseMetadata": request_id}}
    await door.json("SendMessage", QueueUrl="q", MessageBody="x")
    received = (await door.query("ReceiveMessage", {"QueueUrl": "q", **asked}, method="GET", headers=headers)).json()
    assert [m["Body"] for m in received["ReceiveMessageResponse"]["ReceiveMessageResult"]["messages"]] == ["x"]
    refused = await door.query("Nonsense", asked, headers=headers)
    assert refused.json()["Error"]["Code"] == "InvalidAction"


@spec("protocol.xml-escapes")
async def test_text_survives_xml(door: Door) -> None:
    await door.queue("q")
    text = "a<b>&c ]]> &#xD; \r\n\t\r grüße 🎉"
    sent = await door.json("SendMessage", QueueUrl="q", MessageBody=text)
    received = await door.query("ReceiveMessage", {"QueueUrl": "q"})
    assert b"<Body>a&lt;b&gt;&amp;c ]]&gt; &amp;#xD; &#xD;\n\t&#xD; gr" in received.body
    assert received.texts("ReceiveMessageResult/Message/Body") == [text]
    assert received.texts("ReceiveMessageResult/Message/MD5OfBody") == [sent.json()["MD5OfMessageBody"]]


@spec("protocol.queue-times", "protocol.message-times")
async def test_times_are_texts_of_seconds_and_of_milliseconds(door: Door) -> None:
    await door.queue("q")
    now_ms = door.sqs.clock.now_ms()  # the clock stands still
    attributes = await door.attributes("q", "CreatedTimestamp", "LastModifiedTimestamp")
    assert set(attributes.values()) == {str(now_ms // 1000)}
    await door.json("SendMessage", QueueUrl="q", MessageBody="x")
    received = await door.json("ReceiveMessage", QueueUrl="q", AttributeNames=["All"])
    (message,) = received.json()["Messages"]
    for name in ("SentTimestamp", "ApproximateFirstReceiveTimestamp"):
        assert message["Attributes"][name] == str(now_ms)


@spec("error.in-json", "error.query-error-header", "error.query-mode")
@pytest.mark.parametrize("mode", [{}, {"x-amzn-query-mode": "true"}], ids=["plain", "query mode"])
async def test_an_error_in_json(door: Door, mode: dict[str, str]) -> None:
    body = json.dumps({"QueueUrl": "absent"}).encode()
    fields = {"content-type": JSON, "x-amz-target": "AmazonSQS.ReceiveMessage"}
    reply = await door.signed("POST", "/", fields | mode, body)
    assert reply.json() == {"__type": NO_QUEUE[2], "message": NO_QUEUE[3]}
    assert (reply.fault, reply.headers["content-type"]) == (NO_QUEUE, JSON)


@spec("error.in-xml")
async def test_an_error_in_query(door: Door) -> None:
    reply = await door.query("ReceiveMessage", {"QueueUrl": "absent"})
    assert (reply.status, reply.headers["content-type"]) == (400, "text/xml")
    _, code, side, text = NO_QUEUE_QUERY
    assert reply.body.decode() == (
        '<?xml version="1.0"?><ErrorResponse xmlns="http://queue.amazonaws.com/doc/2012-11-05/">'
        f"<Error><Type>{side}</Type><Code>{code}</Code><Message>{text}</Message><Detail/></Error>"
        f"<RequestId>{reply.headers['x-amzn-requestid']}</RequestId></ErrorResponse>"
    )
