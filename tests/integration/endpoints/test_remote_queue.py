"""Deliveries to a queue of another service: the request, and the outcome of each answer."""

from __future__ import annotations

import json

import pytest

from cns.delivery.remote_queues import RemoteQueueResolver
from cns.endpoints.address_guard import AddressGuard
from cns.endpoints.http import HttpSender
from cns.endpoints.outcome import Cause, Delivered, Failed, Outcome
from cns.endpoints.sqs import RemoteQueueRequest, RemoteQueueSender
from cns.queue_port.contract import QueueMessage
from cns_common.configuration.settings import load_settings
from cns_common.configuration.value_types import RemoteQueues
from cns_common.errors import StartError
from cns_common.tls import client_context
from tests.integration.endpoints.http_endpoints import TIMEOUT_S, ReceivedRequest, answer_with, sender, serve_endpoint

ACCOUNT = "999999999999"
QUEUE = f"arn:aws:sqs:eu-west-1:{ACCOUNT}:orders"
SHORT_TIMEOUT_S = 0.3
FIFO = QueueMessage(
    "body",
    {"b": {"DataType": "Binary", "BinaryValue": b"\x00\xff"}},
    group="g",
    dedup="d",
    trace_header="Root=1-5759e988-bd862e3fe1be46a994272793",
)


def resolver_for(url: str, arns: str = f"arn:aws:sqs:*:{ACCOUNT}:*") -> RemoteQueueResolver:
    return RemoteQueueResolver([RemoteQueues(arns=arns, url=url, key_id="AKIA", secret="secret")])


async def send(url: str, message: QueueMessage = FIFO, http: HttpSender | None = None) -> Outcome:
    http_sender = sender() if http is None else http
    queue = resolver_for(url).find(QUEUE)
    assert queue is not None
    try:
        return await RemoteQueueSender(http_sender, lambda: 1_700_000_000_000).send(RemoteQueueRequest(queue, message))
    finally:
        await http_sender.close()


def response(status: int, body: str, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", *headers, "", body]
    return "\r\n".join(lines).encode("latin-1")


async def send_and_read(message: QueueMessage) -> ReceivedRequest:
    async with serve_endpoint(answer_with(response(200, '{"MessageId": "m", "MD5OfMessageBody": "x"}'))) as service:
        outcome = await send(f"{service.url}/", message)
    assert isinstance(outcome, Delivered) and (outcome.provider_id, outcome.status) == ("m", 200)
    assert outcome.size_bytes == len(message.body.encode())
    (received,) = service.requests
    assert received.headers["Host"] == service.url.removeprefix("http://")
    assert json.loads(received.body)["QueueUrl"] == f"{service.url}/{ACCOUNT}/orders"
    return received


async def test_a_send_message_of_aws_json() -> None:
    received = await send_and_read(FIFO)
    assert received.line == "POST / HTTP/1.1"
    assert received.headers["X-Amz-Target"] == "AmazonSQS.SendMessage"
    assert received.headers["Content-Type"] == "application/x-amz-json-1.0"
    scope = "AWS4-HMAC-SHA256 Credential=AKIA/20231114/eu-west-1/sqs/aws4_request, SignedHeaders=content-type;host;"
    assert received.headers["authorization"].startswith(scope)
    assert "secret" not in str(received)
    members = json.loads(received.body)
    del members["QueueUrl"]
    assert members == {
        "MessageBody": "body",
        "MessageAttributes": {"b": {"DataType": "Binary", "BinaryValue": "AP8="}},
        "MessageGroupId": "g",
        "MessageDeduplicationId": "d",
        "MessageSystemAttributes": {
            "AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-5759e988-bd862e3fe1be46a994272793"}
        },
    }


async def test_absent_members_are_not_sent() -> None:
    assert json.loads((await send_and_read(QueueMessage("body"))).body).keys() == {"QueueUrl", "MessageBody"}


def fault(code: str) -> str:
    return json.dumps({"__type": f"com.amazonaws.sqs#{code}", "message": "why"})


@pytest.mark.parametrize(
    ("status", "body", "permanent"),
    [
        *((status, fault(code), True) for status, code in [(400, "QueueDoesNotExist"), (403, "AccessDenied")]),
        (403, fault("AccessDeniedException"), True),
        (400, fault("InvalidMessageContents"), True),
        (400, fault("InvalidParameterValue"), True),
        (400, fault("KmsDisabled"), True),
        *((400, fault(code), False) for code in ("RequestThrottled", "ThrottlingException", "KmsThrottled")),
        (429, fault("AccessDenied"), False),
        (500, fault("InternalError"), False),
        (503, fault("ServiceUnavailable"), False),
        # errors that an operator must fix: a wrong key, a wrong clock, a URL of no queue service
        *((403, fault(code), False) for code in ("InvalidClientTokenId", "SignatureDoesNotMatch", "RequestExpired")),
        (404, "<html>not found</html>", False),
        (301, "", False),
        (503, '{"a": ' + "[" * 50_000, False),
        (503, '"\x80"', False),
        (400, json.dumps({"__type": "QueueDoesNotExist", "Message": "why", "message": None}), True),
        (502, "bad gateway", False),
    ],
)
async def test_permanent_refusals(status: int, body: str, permanent: bool) -> None:
    async with serve_endpoint(answer_with(response(status, body, "Retry-After: 7"))) as service:
        outcome = await send(service.url)
    assert isinstance(outcome, Failed)
    cause = Cause.QUEUE if permanent else Cause.STATUS
    assert (outcome.cause, outcome.status, outcome.permanent) == (cause, status, permanent)
    assert outcome.retry_after_s == 7
    if outcome.code:
        assert outcome.text == f"{outcome.code}: why"


@pytest.mark.parametrize(
    "body", ["", "not JSON", '{"MessageId": 5}', "[]", '{"a": ' + "[" * 50_000, '{"MessageId": "\x80"}']
)
async def test_any_body_of_a_success_is_accepted(body: str) -> None:
    async with serve_endpoint(answer_with(response(200, body))) as service:
        outcome = await send(service.url)
    assert isinstance(outcome, Delivered) and outcome.provider_id == ""


async def test_a_silent_service_is_retried() -> None:
    async with serve_endpoint(answer_with(b"")) as service:
        outcome = await send(service.url, http=sender(SHORT_TIMEOUT_S))
    assert isinstance(outcome, Failed) and (outcome.cause, outcome.permanent) == (Cause.TIMEOUT, False)


async def test_a_refused_address_is_not_a_permanent_failure() -> None:
    strict = HttpSender(AddressGuard([]), timeout_s=TIMEOUT_S, wall_s=lambda: 0.0, verify=client_context(None))
    outcome = await send("http://127.0.0.1:1", http=strict)
    assert isinstance(outcome, Failed) and (outcome.cause, outcome.permanent) == (Cause.REFUSED_ADDRESS, False)


@pytest.mark.parametrize(
    ("arns", "found"),
    [
        (QUEUE, True),
        (f"arn:aws:sqs:eu-west-1:{ACCOUNT}:*", True),
        (f"arn:aws:sqs:*:{ACCOUNT}:ord*", True),
        ("arn:aws:sqs:*:*:*", True),
        (f"arn:aws:sqs:eu-west-1:{ACCOUNT}:order", False),
        (f"arn:aws:sqs:eu-west-2:{ACCOUNT}:*", False),
        ("arn:aws:sqs:*:111111111111:*", False),
    ],
)
def test_queues_are_found_by_their_arns(arns: str, found: bool) -> None:
    queue = resolver_for("https://sqs.eu-west-1.amazonaws.com/", arns).find(QUEUE)
    assert (queue is not None) is found
    if queue is not None:
        assert (queue.url, queue.region) == (f"https://sqs.eu-west-1.amazonaws.com/{ACCOUNT}/orders", "eu-west-1")


def test_the_first_match_is_used() -> None:
    both = [
        RemoteQueues(arns="arn:aws:sqs:*:*:ord*", url="http://first", key_id="a", secret="b"),
        RemoteQueues(arns="arn:aws:sqs:*:*:*", url="http://second", key_id="a", secret="b"),
    ]
    found = [RemoteQueueResolver(order).find(QUEUE) for order in (both, both[::-1])]
    assert [queue and queue.service.url for queue in found] == ["http://first", "http://second"]
    assert RemoteQueueResolver(()).find(QUEUE) is None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[", r"CNS_REMOTE_QUEUES=…: .*not JSON"),
        ("/no/such/file", r"CNS_REMOTE_QUEUES=…: .*No such file"),
        ('[{"arns": "orders"}]', r"CNS_REMOTE_QUEUES\[0\]\[arns\]=…: must be an ARN"),
        ('[{"url": "sqs.example.com"}]', r"CNS_REMOTE_QUEUES\[0\]\[url\]=…: must be a URL"),
        ('[{"secret": "s3cret"}]', r"CNS_REMOTE_QUEUES\[0\]\[key_id\]=…: must be given"),
        ('[{"endpoint": "s3cret"}]', r"CNS_REMOTE_QUEUES\[0\]\[endpoint\]=…: is not known here"),
    ],
)
def test_an_invalid_mapping_fails_the_start(monkeypatch: pytest.MonkeyPatch, text: str, complaint: str) -> None:
    monkeypatch.setenv("CNS_REMOTE_QUEUES", text)
    with pytest.raises(StartError, match=complaint) as refused:
        load_settings()
    assert "s3cret" not in str(refused.value)
    assert "s3cret" not in repr(RemoteQueues(arns=QUEUE, url="http://x", key_id="a", secret="s3cret"))
