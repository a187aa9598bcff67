"""Endpoints with unusual answers: the status decides, and no delivery hangs or is lost."""

from __future__ import annotations

import asyncio
import gc

import pytest

from cns.endpoints.http import CHALLENGES_MAX, POSTED_AGAIN, EndpointRequest, HttpSender
from cns.endpoints.http_connection import BODY_BYTES_MAX
from cns.endpoints.outcome import Cause, Delivered, Failed
from tests.integration.endpoints.http_endpoints import (
    BODY,
    HEADERS,
    OK,
    TIMEOUT_S,
    Script,
    ServerConnection,
    answer_with,
    post,
    serve_endpoint,
)

SHORT_TIMEOUT_S = 0.3
LARGE = b"x" * 256 * 1024
PROCESSING = b"HTTP/1.1 102 Processing\r\n\r\n"


async def answer_before_the_body(connection: ServerConnection) -> None:
    await connection.head()
    await connection.answer(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    await connection.reader.read()


async def send_without_end(connection: ServerConnection) -> None:
    await connection.request()
    await connection.answer(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        await connection.answer(b"x" * 4096)


async def send_half_a_body(connection: ServerConnection) -> None:
    await connection.request()
    await connection.answer(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")


async def reset_within_the_body(connection: ServerConnection) -> None:
    await send_half_a_body(connection)
    connection.reset()


async def stay_processing(connection: ServerConnection) -> None:
    await connection.request()
    while True:
        await connection.answer(PROCESSING)
        await asyncio.sleep(SHORT_TIMEOUT_S / 10)  # the endpoint says that it is still working


async def flood_with_processing(connection: ServerConnection) -> None:
    await connection.request()
    while True:
        await connection.answer(PROCESSING * 100)
        await asyncio.sleep(0)  # let the client read each before the next is written


ANSWERS: dict[str, tuple[Script, int]] = {
    "100 first": (answer_with(b"HTTP/1.1 100 Continue\r\n\r\n" + OK), 200),
    "103 first": (answer_with(b"HTTP/1.1 103 Early Hints\r\nLink: </x>; rel=preload\r\n\r\n" + OK), 200),
    "HTTP/1.0": (answer_with(b"HTTP/1.0 202 Accepted\r\n\r\nbye"), 202),
    "gzip that is none": (
        answer_with(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc"),
        200,
    ),
    "chunked": (answer_with(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"), 200),
    "large headers": (answer_with(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 60_000 + b"\r\nContent-Length: 0\r\n\r\n"), 200),
    "cookies": (answer_with(b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n"), 200),
    "no reason": (answer_with(b"HTTP/1.1 204\r\n\r\n"), 204),
    "before the body": (answer_before_the_body, 503),
    "an endless body": (send_without_end, 200),
    "a body that does not come": (send_half_a_body, 200),
    "a body broken off": (reset_within_the_body, 200),
}


@pytest.mark.parametrize("name", ANSWERS)
async def test_the_status_decides(name: str) -> None:
    script, status = ANSWERS[name]
    async with serve_endpoint(script) as endpoint:
        (outcome,) = await post(f"{endpoint.url}/", body=LARGE if script is answer_before_the_body else BODY)
    assert outcome.status == status
    assert isinstance(outcome, Delivered) is (status < 300)


INVALID_ANSWERS: dict[str, tuple[bytes, Cause]] = {
    "switches protocols": (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        Cause.STATUS,
    ),
    "no HTTP": (b"SSH-2.0-OpenSSH_9.2\r\n", Cause.CONNECTION),
    "headers without end": (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000, Cause.CONNECTION),
    "half a status": (b"HTTP/1.1 20", Cause.TIMEOUT),
}


@pytest.mark.parametrize("name", INVALID_ANSWERS)
async def test_an_invalid_answer_is_retried(name: str) -> None:
    given, cause = INVALID_ANSWERS[name]
    async with serve_endpoint(answer_with(given)) as endpoint:
        timeout_s = SHORT_TIMEOUT_S if cause is Cause.TIMEOUT else TIMEOUT_S
        (outcome,) = await post(f"{endpoint.url}/", timeout_s=timeout_s)
    assert isinstance(outcome, Failed) and (outcome.cause, outcome.permanent) == (cause, False)


async def test_endless_interim_answers_time_out() -> None:
    async with serve_endpoint(stay_processing) as endpoint:
        (outcome,) = await post(f"{endpoint.url}/", timeout_s=SHORT_TIMEOUT_S)
    assert isinstance(outcome, Failed) and outcome.cause is Cause.TIMEOUT


async def test_a_flood_of_interim_answers_fails() -> None:
    async with serve_endpoint(flood_with_processing) as endpoint:
        (outcome,) = await post(f"{endpoint.url}/", timeout_s=60)
    assert isinstance(outcome, Failed) and outcome.cause is Cause.CONNECTION
    assert outcome.text == "the headers of the answer have no end"


# -- connections -------------------------------------------------------------------------------------------------------


async def test_a_connection_is_kept() -> None:
    long = b"x" * (BODY_BYTES_MAX - 1)
    pieces = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(long), long)
    async with serve_endpoint(answer_with(pieces, OK, OK)) as endpoint:
        await post(*[f"{endpoint.url}/"] * 3)
    assert (endpoint.connections, len(endpoint.requests)) == (1, 3)


@pytest.mark.parametrize(
    "given",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 4000000\r\n\r\n" + b"x" * 4_000_000,
    ],
)
async def test_a_connection_that_cannot_be_reused_is_closed(given: bytes) -> None:
    async with serve_endpoint(answer_with(given)) as endpoint:
        outcomes = await post(*[f"{endpoint.url}/"] * 2)
    assert [outcome.status for outcome in outcomes] == [200, 200]
    assert endpoint.connections == 2


@pytest.mark.parametrize("end", [ServerConnection.hang_up, ServerConnection.reset])
async def test_a_request_on_a_connection_that_closes_is_sent_again(end: object) -> None:
    """The endpoint closes the connection when it reads the second request. The request is sent again, and said so."""

    async def hang_up_on_second_request(connection: ServerConnection) -> None:
        await connection.request()
        await connection.answer(OK)
        await connection.request()
        end(connection)  # type: ignore[operator]

    async with serve_endpoint(hang_up_on_second_request, answer_with(OK)) as endpoint:
        outcomes = await post(*[f"{endpoint.url}/"] * 2)
    assert [type(outcome) for outcome in outcomes] == [Delivered, Delivered]
    once, twice = [outcome.repeats for outcome in outcomes]
    assert once is None
    assert twice is not None and (twice.cause, twice.text.endswith(POSTED_AGAIN)) == (Cause.CONNECTION, True)
    assert [received.connection for received in endpoint.requests] == [0, 0, 1]
    assert len({received.body for received in endpoint.requests}) == 1


@pytest.mark.parametrize("end", [ServerConnection.hang_up, ServerConnection.reset])
async def test_a_new_connection_that_closes_fails_the_attempt(end: object) -> None:
    async def hang_up_on_request(connection: ServerConnection) -> None:
        await connection.request()
        end(connection)  # type: ignore[operator]

    async with serve_endpoint(hang_up_on_request) as endpoint:
        (outcome,) = await post(f"{endpoint.url}/")
    assert isinstance(outcome, Failed) and (outcome.cause, outcome.permanent) == (Cause.CONNECTION, False)
    assert len(endpoint.requests) == 1


async def test_a_connection_closed_while_idle_is_not_used(http_sender: HttpSender) -> None:
    closed = asyncio.Event()

    async def hang_up_after_answer(connection: ServerConnection) -> None:
        await connection.request()
        await connection.answer(OK)
        connection.hang_up()
        closed.set()

    async with serve_endpoint(hang_up_after_answer, answer_with(OK)) as endpoint:
        request = EndpointRequest(f"{endpoint.url}/", HEADERS, BODY)
        await http_sender.send(request)
        await closed.wait()
        assert isinstance(await http_sender.send(request), Delivered)
    assert len(endpoint.requests) == 2


async def test_cookies_are_not_returned() -> None:
    cookie = b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n"
    async with serve_endpoint(answer_with(cookie, OK)) as endpoint:
        await post(*[f"{endpoint.url}/"] * 2)
    assert all("Cookie" not in received.headers for received in endpoint.requests)


# -- addresses ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("", "/"),
        ("?x=1", "/?x=1"),
        ("/a/../b//c", "/a/../b//c"),
        ("/%7ea%2F%zz/100%?q=[1];b=%2F&e=", "/%7ea%2F%zz/100%?q=[1];b=%2F&e="),
        ("/;a=b/~x'(*)!$,", "/;a=b/~x'(*)!$,"),
        ("/a#fragment", "/a"),
        ("/a+b?c+d=%20", "/a+b?c+d=%20"),
    ],
)
async def test_the_target_is_as_it_was_subscribed(path: str, target: str) -> None:
    async with serve_endpoint(answer_with(OK)) as endpoint:
        (outcome,) = await post(endpoint.url + path)
    assert isinstance(outcome, Delivered)
    assert endpoint.requests[0].line == f"POST {target} HTTP/1.1"


async def test_an_ipv6_address() -> None:
    async with serve_endpoint(answer_with(OK), host="::1") as endpoint:
        (outcome,) = await post(f"{endpoint.url}/")
    assert isinstance(outcome, Delivered)
    assert endpoint.requests[0].headers["Host"] == endpoint.url.removeprefix("http://")


async def test_a_scheme_in_capitals() -> None:
    async with serve_endpoint(answer_with(OK)) as endpoint:
        (outcome,) = await post(endpoint.url.replace("http", "HTTP") + "/")
    assert isinstance(outcome, Delivered)


async def test_a_punycode_name_is_looked_up_unchanged() -> None:
    (outcome,) = await post("http://xn--bcher-kva.invalid/")
    assert isinstance(outcome, Failed) and outcome.cause is Cause.DNS


@pytest.mark.parametrize("url", ["http://user:secret@127.0.0.1:99999/", "ftp://user:secret@127.0.0.1/", "http://"])
async def test_the_error_for_an_invalid_url_hides_its_password(url: str) -> None:
    (outcome,) = await post(url)
    assert isinstance(outcome, Failed) and (outcome.cause, outcome.permanent) == (Cause.INVALID_URL, True)
    assert "secret" not in outcome.text


# -- credentials -------------------------------------------------------------------------------------------------------


def unauthorized(challenge: bytes) -> bytes:
    return b"HTTP/1.1 401 Who?\r\nWWW-Authenticate: %b\r\nContent-Length: 0\r\n\r\n" % challenge


@pytest.mark.spec("sns-http.credentials")
@pytest.mark.parametrize(
    ("user", "shown"),
    [
        ("user:pass", "Basic dXNlcjpwYXNz"),
        ("u%40x:p%3Aw%2F", "Basic dUB4OnA6dy8="),  # u@x:p:w/
        (":pw", "Basic OnB3"),
        ("u", "Basic dTo="),
        ("u:", "Basic dTo="),
    ],
)
async def test_credentials_are_unescaped_and_wait_for_a_challenge(user: str, shown: str) -> None:
    async with serve_endpoint(answer_with(unauthorized(b'Basic realm="r"'), OK)) as endpoint:
        (outcome,) = await post(endpoint.url.replace("://", f"://{user}@") + "/")
    assert isinstance(outcome, Delivered)
    first, second = endpoint.requests
    assert ("Authorization" in first.headers, second.headers["Authorization"]) == (False, shown)
    assert first.body == second.body == BODY


@pytest.mark.spec("sns-http.credentials")
@pytest.mark.parametrize(
    ("answers", "status", "requests"),
    [
        ([b'Digest nonce="1"', b'Digest nonce="2", stale=true'], 200, 3),
        ([b'Digest nonce="1"', b'Digest nonce="2"'], 401, 2),  # the password is wrong: it is not sent again
        ([b'Digest nonce="n", stale=true'] * (CHALLENGES_MAX + 1), 401, 3),
        ([b"Negotiate"], 401, 1),
    ],
)
async def test_a_stale_nonce_is_answered_once_more(answers: list[bytes], status: int, requests: int) -> None:
    async with serve_endpoint(answer_with(*[unauthorized(answer) for answer in answers], OK)) as endpoint:
        (outcome,) = await post(endpoint.url.replace("://", "://u:p@") + "/")
    assert (outcome.status, len(endpoint.requests)) == (status, requests)


async def test_each_notification_begins_without_credentials() -> None:
    """Like AWS: the nonce of the last notification is not kept."""
    digest = b'Digest realm="r", nonce="%d", qop="auth", algorithm=MD5'
    rounds = [unauthorized(digest % 1), OK, unauthorized(digest % 2), OK]
    async with serve_endpoint(answer_with(*rounds)) as endpoint:
        await post(*[endpoint.url.replace("://", "://u:p@") + "/"] * 2)
    shown = [received.headers.get("Authorization", "none").partition(",")[0] for received in endpoint.requests]
    assert shown == ["none", 'Digest username="u"'] * 2


@pytest.mark.spec("sns-http.credentials", "sns-answer.3xx")
async def test_credentials_do_not_follow_a_redirect() -> None:
    async with serve_endpoint(answer_with(OK)) as elsewhere:
        moved = b"HTTP/1.1 307 Moved\r\nLocation: %b/\r\nContent-Length: 0\r\n\r\n" % elsewhere.url.encode()
        async with serve_endpoint(answer_with(unauthorized(b"Basic"), moved)) as endpoint:
            (outcome,) = await post(endpoint.url.replace("://", "://u:p@") + "/")
    assert (outcome.status, elsewhere.connections) == (307, 0)


async def test_failed_sends_leave_no_reference_cycles(http_sender: HttpSender, unused_tcp_port: int) -> None:
    """A garbage collection stops all sends of the process: with ninety objects per failure it took 0.1 s."""
    refused = EndpointRequest(f"http://127.0.0.1:{unused_tcp_port}/", HEADERS, BODY)
    await http_sender.send(refused)
    gc.collect()
    gc.disable()
    try:
        for _ in range(50):
            outcome = await http_sender.send(refused)
            assert isinstance(outcome, Failed)
            assert outcome.cause == Cause.CONNECTION
        assert gc.collect() < 50
    finally:
        gc.enable()
