"""HTTP deliveries: the request byte by byte, and the outcome of each answer."""

from __future__ import annotations

import time

import pytest

from cns.delivery.failure_causes import End
from cns.delivery.retry_policy import RetryPolicy
from cns.endpoints.outcome import Cause, Delivered, Failed, Outcome
from cns_common.configuration.settings import Settings
from cns_workers.consumers.retry_decision import DELIVERED, Verdict, judge
from lab.harness.ports import free_port
from tests.integration.endpoints.http_endpoints import (
    BODY,
    OK,
    SUBSCRIPTION,
    TIMEOUT_S,
    TOPIC,
    ReceivedRequest,
    ServerConnection,
    answer_with,
    post,
    serve_endpoint,
)
from tests.marks import case

spec = pytest.mark.spec
SHORT_TIMEOUT_S = 0.2


def answer(status: str, *headers: str, body: bytes = b"") -> bytes:
    head = "\r\n".join([f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "", ""])
    return head.encode() + body


async def answered(*answers: bytes, timeout_s: float = TIMEOUT_S) -> tuple[Outcome, list[ReceivedRequest]]:
    """The outcome of a post to an endpoint that gives one of its answers to each request, and its requests."""
    async with serve_endpoint(answer_with(*answers)) as endpoint:
        (outcome,) = await post(f"{endpoint.url}/", timeout_s=timeout_s)
    return outcome, endpoint.requests


def verdict(outcome: Outcome, *, client_errors_succeed: bool = False) -> Verdict:
    """The decision after a first attempt under the default policy."""
    return judge(
        outcome, RetryPolicy(), failures=1, elapsed_s=0.1, jitter=0.0, client_errors_succeed=client_errors_succeed
    )


@pytest.mark.parametrize("code", [200, 201, 202, 204, 206, 226, 299])
@spec("sns-answer.2xx")
async def test_every_2xx_is_a_success(code: int) -> None:
    """An earlier service accepted only 200, and suspended endpoints that answered 204."""
    outcome, requests = await answered(answer(f"{code} X"))
    assert isinstance(outcome, Delivered) and (outcome.status, verdict(outcome)) == (code, DELIVERED)
    assert len(requests) == 1


@spec("sns-http.post", "sns-http.type", "sns-http.message-id", "sns-http.topic-arn", "sns-http.subscription-arn")
@spec("sns-http.content-type", "sns-http.user-agent", "sns-http.accept-encoding", "sns-http.nothing-else")
@spec("sns-answer.2xx")
async def test_the_whole_request() -> None:
    async with serve_endpoint(answer_with(answer("204 No Content"))) as endpoint:
        (outcome,) = await post(f"{endpoint.url}/hook?a=b%20c")
    (request,) = endpoint.requests
    assert isinstance(outcome, Delivered) and verdict(outcome) == DELIVERED
    assert outcome.size_bytes == len(request.body)
    assert request.line == "POST /hook?a=b%20c HTTP/1.1"
    assert request.headers == {
        "Host": endpoint.url.removeprefix("http://"),
        "x-amz-sns-message-type": "Notification",
        "x-amz-sns-message-id": "m-1",
        "x-amz-sns-topic-arn": TOPIC,
        "x-amz-sns-subscription-arn": SUBSCRIPTION,
        "Content-Type": "text/plain; charset=UTF-8",
        "User-Agent": "Amazon Simple Notification Service Agent",
        "Accept-Encoding": "gzip,deflate",
        "Connection": "Keep-Alive",
        "Content-Length": str(len(BODY)),
    }
    assert request.body == BODY


@pytest.mark.parametrize(
    ("status", "again"),
    [
        *(case("sns-answer.5xx", f"{code} X", True) for code in (500, 502, 503, 599)),
        case("sns-answer.429", "429 X", True),
        *(case("sns-answer.4xx", f"{code} X", False) for code in (400, 401, 403, 404, 410, 499)),
        *(case("sns-answer.3xx", f"{code} X", False) for code in (301, 302, 304, 308)),
    ],
)
async def test_answers_that_are_no_success(status: str, again: bool) -> None:
    outcome, requests = await answered(answer(status, "Location: /elsewhere"), OK)
    assert isinstance(outcome, Failed) and (outcome.cause, outcome.status) == (Cause.STATUS, int(status.split()[0]))
    assert len(requests) == 1, "redirects are not followed"
    judged = verdict(outcome)
    assert (judged.retry is not None, judged.end) == ((True, None) if again else (False, End.PERMANENT))
    assert (verdict(outcome, client_errors_succeed=True) == DELIVERED) is not again


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('{"error": "no such order"}', 'HTTP 404 Not Found: {"error": "no such order"}'),
        ("", "HTTP 404 Not Found"),
        ("x" + "ä" * 5_000, "HTTP 404 Not Found: x" + "ä" * 99 + "\ufffd"),
    ],
)
async def test_the_text_of_a_refusal_is_kept(body: str, said: str) -> None:
    """The delivery log has the answer's text beside the status, like that of AWS."""
    outcome, _ = await answered(answer("404 Not Found", body=body.encode()))
    assert isinstance(outcome, Failed)
    assert (outcome.text, outcome.response) == (said, "Not Found")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("120", 120),
        (" 7 ", 7),
        ("0", 0),
        ("-5", 0),
        ("1.5", 0),
        ("soon", 0),
        ("", 0),
        ("Thu, 01 Jan 1970 00:02:00 GMT", 120),  # the sender's clock is at 0
        ("Thu, 01 Jan 1970 02:02:00 +0200", 120),
        ("Thu, 01 Jan 1970 00:02:00", 120),  # without a zone it is GMT, whatever the zone of this machine
        ("Thursday, 01-Jan-70 00:02:00 GMT", 120),
        ("Thu Jan  1 00:02:00 1970", 120),
        ("Wed, 31 Dec 1969 23:00:00 GMT", 0),  # in the past
        ("Thu, 01 Jan 99999 00:00:00 GMT", 0),
        (f"Thu, 01 Jan {'9' * 20} 00:00:00 GMT", 0),
        (f"Thu, 01 Jan 1970 {'9' * 20}:00:00 GMT", 0),
        (f"Thu, 01 Jan 1970 00:00:00 +{'9' * 20}", 0),
        ("9" * 400, float("inf")),  # `due_retry` has a maximum
    ],
)
async def test_retry_after(text: str, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        outcome, _ = await answered(answer("503 X", f"Retry-After: {text}"))
    finally:
        monkeypatch.undo()
        time.tzset()
    assert isinstance(outcome, Failed) and outcome.retry_after_s == seconds
    retry = verdict(outcome).retry
    assert retry is not None and retry.delay_s == pytest.approx(min(max(20, seconds), 3_600), abs=0.2)


async def test_retry_after_of_a_permanent_refusal_is_ignored() -> None:
    outcome, _ = await answered(answer("404 X", "Retry-After: 120"))
    assert isinstance(outcome, Failed) and outcome.retry_after_s == 0


@spec("sns-answer.timeout")
async def test_a_silent_endpoint() -> None:
    assert Settings().delivery_timeout_s == 15
    outcome, _ = await answered(timeout_s=SHORT_TIMEOUT_S)
    assert isinstance(outcome, Failed) and outcome.cause is Cause.TIMEOUT
    assert verdict(outcome).retry is not None


@spec("sns-answer.dns")
async def test_a_name_that_does_not_resolve() -> None:
    (outcome,) = await post("http://no-such-host.invalid/")
    assert isinstance(outcome, Failed) and outcome.cause is Cause.DNS
    assert verdict(outcome).retry is not None


@spec("sns-answer.tls")
async def test_an_endpoint_that_speaks_no_tls() -> None:
    async def send_smtp_greeting(connection: ServerConnection) -> None:
        await connection.answer(b"220 mail.example.com ESMTP\r\n")
        connection.hang_up()

    async with serve_endpoint(send_smtp_greeting) as endpoint:
        (outcome,) = await post(endpoint.url.replace("http:", "https:") + "/")
    assert isinstance(outcome, Failed) and outcome.cause is Cause.TLS
    assert verdict(outcome).retry is not None


@spec("sns-answer.connection")
async def test_an_endpoint_that_is_not_there() -> None:
    port = free_port()
    (outcome,) = await post(f"http://127.0.0.1:{port}/")
    assert isinstance(outcome, Failed) and outcome.cause is Cause.CONNECTION
    assert outcome.text == f"Connection refused: 127.0.0.1 port {port}"
    assert verdict(outcome).retry is not None
