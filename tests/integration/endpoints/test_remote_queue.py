"""What another service's queue is sent, and what each of its answers means."""

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
from tests.integration.endpoints.http_endpoints import Came, answering, sender, wire

ACCOUNT = "999999999999"
QUEUE = f"arn:aws:sqs:eu-west-1:{ACCOUNT}:orders"
SOON_S = 0.3
FIFO = QueueMessage(
    "body",
    {"b": {"DataType": "Binary", "BinaryValue": b"\x00\xff"}},
    group="g",
    dedup="d",
    trace_header="Root=1-5759e988-bd862e3fe1be46a994272793",
)


def places(url: str, arns: str = f"arn:aws:sqs:*:{ACCOUNT}:*") -> RemoteQueueResolver:
    return RemoteQueueResolver([RemoteQueues(arns=arns, url=url, key_id="AKIA", secret="secret")])


async def send(url: str, message: QueueMessage = FIFO, http: HttpSender | None = None) -> Outcome:
    posting = sender(SOON_S) if http is None else http
    queue = places(url).find(QUEUE)
    assert queue is not None
    try:
        return await RemoteQueueSender(posting, lambda: 1_700_000_000_000).send(RemoteQueueRequest(queue, message))
    finally:
        await posting.close()


def said(status: int, body: str, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", *headers, "", body]
    return "\r\n".join(lines).encode("latin-1")


async def sent(message: QueueMessage) -> Came:
    async with wire(answering(said(200, '{"MessageId": "m", "MD5OfMessageBody": "x"}'))) as service:
        outcome = await send(f"{service.url}/", message)
    assert isinstance(outcome, Delivered) and (outcome.provider_id, outcome.status) == ("m", 200)
    (came,) = service.requests
    assert came.headers["Host"] == service.url.removeprefix("http://")
    assert json.loads(came.body)["QueueUrl"] == f"{service.url}/{ACCOUNT}/orders"
    return came


async def test_a_send_message_of_aws_json() -> None:
    came = await sent(FIFO)
    assert came.line == "POST / HTTP/1.1"
    assert came.headers["X-Amz-Target"] == "AmazonSQS.SendMessage"
    assert came.headers["Content-Type"] == "application/x-amz-json-1.0"
    scope = "AWS4-HMAC-SHA256 Credential=AKIA/20231114/eu-west-1/sqs/aws4_request, SignedHeaders=content-type;host;"
    assert came.headers["authorization"].startswith(scope)
    assert "secret" not in str(came)
    members = json.loads(came.body)
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


async def test_what_a_message_has_not_is_not_sent() -> None:
    assert json.loads((await sent(QueueMessage("body"))).body).keys() == {"QueueUrl", "MessageBody"}


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
        # the operator's to put right: a wrong key, a wrong clock, something that is no queue service
        *((403, fault(code), False) for code in ("InvalidClientTokenId", "SignatureDoesNotMatch", "RequestExpired")),
        (404, "<html>not found</html>", False),
        (301, "", False),
        (503, '{"a": ' + "[" * 50_000, False),
        (503, '"\x80"', False),
        (400, json.dumps({"__type": "QueueDoesNotExist", "Message": "why", "message": None}), True),
        (502, "bad gateway", False),
    ],
)
async def test_which_refusals_are_final(status: int, body: str, permanent: bool) -> None:
    async with wire(answering(said(status, body, "Retry-After: 7"))) as service:
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
async def test_a_success_is_one_whatever_it_says(body: str) -> None:
    async with wire(answering(said(200, body))) as service:
        outcome = await send(service.url)
    assert isinstance(outcome, Delivered) and outcome.provider_id == ""


async def test_one_that_does_not_answer_is_tried_again() -> None:
    async with wire(answering(b"")) as service:
        outcome = await send(service.url)
    assert isinstance(outcome, Failed) and (outcome.cause, outcome.permanent) == (Cause.TIMEOUT, False)


async def test_a_network_that_is_not_allowed_yet_loses_nothing() -> None:
    strict = HttpSender(AddressGuard([]), timeout_s=SOON_S, wall_s=lambda: 0.0, verify=client_context(None))
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
    queue = places("https://sqs.eu-west-1.amazonaws.com/", arns).find(QUEUE)
    assert (queue is not None) is found
    if queue is not None:
        assert (queue.url, queue.region) == (f"https://sqs.eu-west-1.amazonaws.com/{ACCOUNT}/orders", "eu-west-1")


def test_the_first_that_matches_counts() -> None:
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
def test_a_mapping_that_cannot_be_read_is_said_at_the_start(
    monkeypatch: pytest.MonkeyPatch, text: str, complaint: str
) -> None:
    monkeypatch.setenv("CNS_REMOTE_QUEUES", text)
    with pytest.raises(StartError, match=complaint) as refused:
        load_settings()
    assert "s3cret" not in str(refused.value)
    assert "s3cret" not in repr(RemoteQueues(arns=QUEUE, url="http://x", key_id="a", secret="s3cret"))
