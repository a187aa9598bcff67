"""HTTP deliveries: the request byte by byte, and the outcome of each answer."""

from __future__ import annotations

import asyncio
import time
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from cns.delivery.envelope import MessageType, http_headers
from cns.delivery.failure_causes import End
from cns.delivery.retry_policy import RetryPolicy
from cns.endpoints.address_guard import AddressGuard
from cns.endpoints.http import HttpRequest, HttpSender
from cns.endpoints.outcome import Cause, Delivered, Failed, Outcome
from cns_common.configuration.settings import Settings
from cns_common.tls import client_context
from cns_workers.consumers.retry_decision import DELIVERED, Verdict, judge
from tests.marks import case

spec = pytest.mark.spec
TOPIC = "arn:aws:sns:eu-west-1:111111111111:t"
SUBSCRIPTION = f"{TOPIC}:2bcfbf39-05c3-41de-beaa-fcfcc21c8f55"
HEADERS = http_headers(MessageType.NOTIFICATION, "m-1", TOPIC, SUBSCRIPTION, "text/plain; charset=UTF-8", raw=False)
BODY = b'{\n  "Type" : "Notification"\n}'
SHORT_TIMEOUT_S, TIMEOUT_S = 0.2, 10.0


class Endpoint:
    """Gives one of its answers to each request, then no more, and records the requests."""

    def __init__(self, *answers: str) -> None:
        self._answers = [*answers]
        self.requests: list[tuple[list[str], bytes]] = []
        self.port = 0

    @property
    def heads(self) -> list[dict[str, str]]:
        """The headers of each request."""
        split = ([line.partition(": ") for line in lines[1:]] for lines, _ in self.requests)
        return [{name: value for name, _, value in lines} for lines in split]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
            length = next(int(line.split()[1]) for line in lines if line.lower().startswith("content-length"))
            self.requests.append((lines, await reader.readexactly(length)))
            if not self._answers:
                return
            writer.write(self._answers.pop(0).encode())


def answer(status: str, *headers: str) -> str:
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, "Content-Length: 0", "", ""])


@asynccontextmanager
async def serve_answers(*answers: str) -> AsyncIterator[Endpoint]:
    endpoint = Endpoint(*answers)
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        try:
            await endpoint.serve(reader, writer)
        except asyncio.IncompleteReadError:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    endpoint.port = server.sockets[0].getsockname()[1]
    try:
        yield endpoint
    finally:
        server.close()
        for writer in writers:
            writer.close()
        await server.wait_closed()


async def post(url: str, timeout_s: float = TIMEOUT_S) -> Outcome:
    sender = HttpSender(
        AddressGuard(["127.0.0.0/8"]), timeout_s=timeout_s, wall_s=lambda: 0.0, verify=client_context(None)
    )
    try:
        return await sender.send(HttpRequest(url, HEADERS, BODY))
    finally:
        await sender.close()


def verdict(outcome: Outcome, *, client_errors_succeed: bool = False) -> Verdict:
    """The decision after a first attempt under the default policy."""
    return judge(
        outcome, RetryPolicy(), failures=1, elapsed_s=0.1, jitter=0.0, client_errors_succeed=client_errors_succeed
    )


@pytest.mark.parametrize("code", [200, 201, 202, 204, 206, 226, 299])
@spec("sns-answer.2xx")
async def test_every_2xx_is_a_success(code: int) -> None:
    """An earlier service accepted only 200, and suspended endpoints that answered 204."""
    async with serve_answers(answer(f"{code} X")) as endpoint:
        outcome = await post(f"http://127.0.0.1:{endpoint.port}/")
    assert isinstance(outcome, Delivered) and (outcome.status, verdict(outcome)) == (code, DELIVERED)
    assert len(endpoint.requests) == 1


@spec(
    "sns-http.post",
    "sns-http.type",
    "sns-http.message-id",
    "sns-http.topic-arn",
    "sns-http.subscription-arn",
    "sns-http.content-type",
    "sns-http.user-agent",
    "sns-http.accept-encoding",
    "sns-http.nothing-else",
    "sns-answer.2xx",
)
async def test_the_whole_request() -> None:
    async with serve_answers(answer("204 No Content")) as endpoint:
        outcome = await post(f"http://127.0.0.1:{endpoint.port}/hook?a=b%20c")
        ((head, body),) = endpoint.requests
    assert isinstance(outcome, Delivered) and verdict(outcome) == DELIVERED
    assert outcome.size_bytes == len(body)
    assert head[0] == "POST /hook?a=b%20c HTTP/1.1"
    (fields,) = endpoint.heads
    assert fields == {
        "Host": f"127.0.0.1:{endpoint.port}",
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
    assert body == BODY


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
    async with serve_answers(answer(status, "Location: /elsewhere"), answer("200 OK")) as endpoint:
        outcome = await post(f"http://127.0.0.1:{endpoint.port}/")
    assert isinstance(outcome, Failed) and (outcome.cause, outcome.status) == (Cause.STATUS, int(status.split()[0]))
    assert len(endpoint.requests) == 1, "redirects are not followed"
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
    head = f"HTTP/1.1 404 Not Found\r\nContent-Length: {len(body.encode())}\r\n\r\n"
    async with serve_answers(head + body) as endpoint:
        outcome = await post(f"http://127.0.0.1:{endpoint.port}/")
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
        async with serve_answers(answer("503 X", f"Retry-After: {text}")) as endpoint:
            outcome = await post(f"http://127.0.0.1:{endpoint.port}/")
    finally:
        monkeypatch.undo()
        time.tzset()
    assert isinstance(outcome, Failed) and outcome.retry_after_s == seconds
    retry = verdict(outcome).retry
    assert retry is not None and retry.delay_s == pytest.approx(min(max(20, seconds), 3_600), abs=0.2)


async def test_retry_after_of_a_permanent_refusal_is_ignored() -> None:
    async with serve_answers(answer("404 X", "Retry-After: 120")) as endpoint:
        outcome = await post(f"http://127.0.0.1:{endpoint.port}/")
    assert isinstance(outcome, Failed) and outcome.retry_after_s == 0


@spec("sns-answer.timeout")
async def test_a_silent_endpoint() -> None:
    assert Settings().delivery_timeout_s == 15
    async with serve_answers() as endpoint:
        outcome = await post(f"http://127.0.0.1:{endpoint.port}/", SHORT_TIMEOUT_S)
    assert isinstance(outcome, Failed) and outcome.cause is Cause.TIMEOUT
    assert verdict(outcome).retry is not None


@spec("sns-answer.dns")
async def test_a_name_that_does_not_resolve() -> None:
    outcome = await post("http://no-such-host.invalid/")
    assert isinstance(outcome, Failed) and outcome.cause is Cause.DNS
    assert verdict(outcome).retry is not None


@spec("sns-answer.tls")
async def test_an_endpoint_that_speaks_no_tls() -> None:
    async def send_smtp_greeting(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example.com ESMTP\r\n")
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(send_smtp_greeting, "127.0.0.1", 0) as server:
        outcome = await post(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
    assert isinstance(outcome, Failed) and outcome.cause is Cause.TLS
    assert verdict(outcome).retry is not None


@spec("sns-answer.connection")
async def test_an_endpoint_that_is_not_there() -> None:
    async with serve_answers() as endpoint:
        pass
    outcome = await post(f"http://127.0.0.1:{endpoint.port}/")
    assert isinstance(outcome, Failed) and outcome.cause is Cause.CONNECTION
    assert verdict(outcome).retry is not None


@spec("sns-http.credentials")
@pytest.mark.parametrize(
    ("challenge", "beginning"),
    [
        ('Basic realm="r"', "Basic " + b64encode(b"user:pass").decode()),
        ('Digest realm="r", nonce="n", qop="auth", algorithm=MD5', 'Digest username="user", '),
    ],
)
async def test_credentials_are_sent_after_a_challenge(challenge: str, beginning: str) -> None:
    unauthorized = answer("401 Unauthorized", f"WWW-Authenticate: {challenge}")
    async with serve_answers(unauthorized, answer("200 OK")) as endpoint:
        outcome = await post(f"http://user:pass@127.0.0.1:{endpoint.port}/")
    assert isinstance(outcome, Delivered)
    first, last = endpoint.heads
    assert "Authorization" not in first
    assert last["Authorization"].startswith(beginning)


async def test_credentials_are_not_sent_without_a_challenge() -> None:
    async with serve_answers(answer("200 OK")) as endpoint:
        await post(f"http://user:pass@127.0.0.1:{endpoint.port}/")
    (head,) = endpoint.heads
    assert "Authorization" not in head
