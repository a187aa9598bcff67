"""Endpoints that answer in ways no guide describes: what counts is the status, and nothing may hang or be lost."""

from __future__ import annotations

import asyncio
import gc

import pytest

from cns.endpoints.http import CHALLENGES_MAX, HttpRequest
from cns.endpoints.http_connection import BODY_BYTES_MAX
from cns.endpoints.outcome import Cause, Delivered, Failed, Outcome
from tests.integration.endpoints.http_endpoints import BODY, HEADERS, OK, Script, Talk, answering, post, sender, wire

SOON_S = 0.3
LARGE = b"x" * 256 * 1024
STILL_AT_IT = b"HTTP/1.1 102 Processing\r\n\r\n"


def status_of(outcome: Outcome) -> int:
    return outcome.status


async def early(talk: Talk) -> None:
    await talk.head()
    await talk.answer(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    await talk.reader.read()


async def endless(talk: Talk) -> None:
    await talk.request()
    await talk.answer(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        await talk.answer(b"x" * 4096)


async def never_its_body(talk: Talk) -> None:
    await talk.request()
    await talk.answer(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")


async def broken_off(talk: Talk) -> None:
    await never_its_body(talk)
    talk.reset()


async def continues_for_ever(talk: Talk) -> None:
    await talk.request()
    while True:
        await talk.answer(STILL_AT_IT)
        await asyncio.sleep(SOON_S / 10)  # an endpoint that says it works on it


async def continues_in_a_flood(talk: Talk) -> None:
    await talk.request()
    while True:
        await talk.answer(STILL_AT_IT * 100)
        await asyncio.sleep(0)  # each is read before the next is written


ANSWERED: dict[str, tuple[Script, int]] = {
    "100 first": (answering(b"HTTP/1.1 100 Continue\r\n\r\n" + OK), 200),
    "103 first": (answering(b"HTTP/1.1 103 Early Hints\r\nLink: </x>; rel=preload\r\n\r\n" + OK), 200),
    "HTTP/1.0": (answering(b"HTTP/1.0 202 Accepted\r\n\r\nbye"), 202),
    "gzip that is none": (
        answering(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc"),
        200,
    ),
    "chunked": (answering(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"), 200),
    "large headers": (answering(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 60_000 + b"\r\nContent-Length: 0\r\n\r\n"), 200),
    "cookies": (answering(b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n"), 200),
    "no reason": (answering(b"HTTP/1.1 204\r\n\r\n"), 204),
    "before the body": (early, 503),
    "an endless body": (endless, 200),
    "a body that does not come": (never_its_body, 200),
    "a body broken off": (broken_off, 200),
}


@pytest.mark.parametrize("name", ANSWERED)
async def test_the_status_decides(name: str) -> None:
    script, status = ANSWERED[name]
    async with wire(script) as endpoint:
        (outcome,) = await post(f"{endpoint.url}/", body=LARGE if script is early else BODY)
    assert status_of(outcome) == status
    assert isinstance(outcome, Delivered) is (status < 300)


NO_ANSWER: dict[str, tuple[bytes, Cause]] = {
    "switches protocols": (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        Cause.STATUS,
    ),
    "no HTTP": (b"SSH-2.0-OpenSSH_9.2\r\n", Cause.CONNECTION),
    "headers without end": (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000, Cause.CONNECTION),
    "half a status": (b"HTTP/1.1 20", Cause.TIMEOUT),
}


@pytest.mark.parametrize("name", NO_ANSWER)
async def test_what_is_no_answer_is_tried_again(name: str) -> None:
    given, cause = NO_ANSWER[name]
    async with wire(answering(given)) as endpoint:
        (outcome,) = await post(f"{endpoint.url}/", timeout_s=SOON_S)
    assert isinstance(outcome, Failed) and (outcome.cause, outcome.permanent) == (cause, False)


async def test_an_answer_that_is_always_about_to_come() -> None:
    async with wire(continues_for_ever) as endpoint:
        (outcome,) = await post(f"{endpoint.url}/", timeout_s=SOON_S)
    assert isinstance(outcome, Failed) and outcome.cause is Cause.TIMEOUT


async def test_a_flood_of_answers_about_to_come() -> None:
    async with wire(continues_in_a_flood) as endpoint:
        (outcome,) = await post(f"{endpoint.url}/", timeout_s=20)
    assert isinstance(outcome, Failed) and outcome.cause is Cause.CONNECTION
    assert outcome.text == "the headers of the answer have no end"


# -- connections -------------------------------------------------------------------------------------------------------


async def test_a_connection_is_kept() -> None:
    long = b"x" * (BODY_BYTES_MAX - 1)
    pieces = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(long), long)
    async with wire(answering(pieces, OK, OK)) as endpoint:
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
async def test_a_connection_that_is_of_no_more_use_is_not(given: bytes) -> None:
    async with wire(answering(given)) as endpoint:
        outcomes = await post(*[f"{endpoint.url}/"] * 2)
    assert [status_of(outcome) for outcome in outcomes] == [200, 200]
    assert endpoint.connections == 2


@pytest.mark.parametrize("end", [Talk.hang_up, Talk.reset])
async def test_one_closed_just_as_we_write_costs_no_attempt(end: object) -> None:
    """The endpoint reads the second request, and is gone: it had closed while the request was on its way."""

    async def closing(talk: Talk) -> None:
        await talk.request()
        await talk.answer(OK)
        await talk.request()
        end(talk)  # type: ignore[operator]

    async with wire(closing, answering(OK)) as endpoint:
        outcomes = await post(*[f"{endpoint.url}/"] * 2)
    assert [type(outcome) for outcome in outcomes] == [Delivered, Delivered]
    assert [came.connection for came in endpoint.requests] == [0, 0, 1]
    assert len({came.body for came in endpoint.requests}) == 1


@pytest.mark.parametrize("end", [Talk.hang_up, Talk.reset])
async def test_an_endpoint_that_hangs_up_on_a_fresh_one_fails_the_attempt(end: object) -> None:
    async def rude(talk: Talk) -> None:
        await talk.request()
        end(talk)  # type: ignore[operator]

    async with wire(rude) as endpoint:
        (outcome,) = await post(f"{endpoint.url}/")
    assert isinstance(outcome, Failed) and (outcome.cause, outcome.permanent) == (Cause.CONNECTION, False)
    assert len(endpoint.requests) == 1


async def test_one_that_hung_up_while_idle_is_not_used() -> None:
    closed = asyncio.Event()

    async def idle(talk: Talk) -> None:
        await talk.request()
        await talk.answer(OK)
        talk.hang_up()
        closed.set()

    posting = sender()
    async with wire(idle, answering(OK)) as endpoint:
        request = HttpRequest(f"{endpoint.url}/", HEADERS, BODY)
        await posting.send(request)
        await closed.wait()
        assert isinstance(await posting.send(request), Delivered)
    await posting.close()
    assert len(endpoint.requests) == 2


async def test_no_cookie_comes_back() -> None:
    cookie = b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n"
    async with wire(answering(cookie, OK)) as endpoint:
        await post(*[f"{endpoint.url}/"] * 2)
    assert all("Cookie" not in came.headers for came in endpoint.requests)


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
    async with wire(answering(OK)) as endpoint:
        (outcome,) = await post(endpoint.url + path)
    assert isinstance(outcome, Delivered)
    assert endpoint.requests[0].line == f"POST {target} HTTP/1.1"


async def test_an_address_of_ip_6() -> None:
    async with wire(answering(OK), host="::1") as endpoint:
        (outcome,) = await post(f"{endpoint.url}/")
    assert isinstance(outcome, Delivered)
    assert endpoint.requests[0].headers["Host"] == endpoint.url.removeprefix("http://")


async def test_a_scheme_in_capitals() -> None:
    async with wire(answering(OK)) as endpoint:
        (outcome,) = await post(endpoint.url.replace("http", "HTTP") + "/")
    assert isinstance(outcome, Delivered)


async def test_a_name_of_another_alphabet_is_looked_up_as_it_is_written() -> None:
    (outcome,) = await post("http://xn--bcher-kva.invalid/")
    assert isinstance(outcome, Failed) and outcome.cause is Cause.DNS


@pytest.mark.parametrize("url", ["http://user:secret@127.0.0.1:99999/", "ftp://user:secret@127.0.0.1/", "http://"])
async def test_what_is_no_url_is_said_without_its_password(url: str) -> None:
    (outcome,) = await post(url)
    assert isinstance(outcome, Failed) and (outcome.cause, outcome.permanent) == (Cause.INVALID_URL, True)
    assert "secret" not in outcome.text


# -- credentials -------------------------------------------------------------------------------------------------------


def asks(challenge: bytes) -> bytes:
    return b"HTTP/1.1 401 Who?\r\nWWW-Authenticate: %b\r\nContent-Length: 0\r\n\r\n" % challenge


@pytest.mark.spec("sns-http.credentials")
@pytest.mark.parametrize(
    ("user", "shown"),
    [
        ("u%40x:p%3Aw%2F", "Basic dUB4OnA6dy8="),  # u@x:p:w/
        (":pw", "Basic OnB3"),
        ("u", "Basic dTo="),
        ("u:", "Basic dTo="),
    ],
)
async def test_credentials_are_unescaped_and_wait_for_a_challenge(user: str, shown: str) -> None:
    async with wire(answering(asks(b'Basic realm="r"'), OK)) as endpoint:
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
        ([b'Digest nonce="1"', b'Digest nonce="2"'], 401, 2),  # the password is wrong: no use to say it again
        ([b'Digest nonce="n", stale=true'] * (CHALLENGES_MAX + 1), 401, 3),
        ([b"Negotiate"], 401, 1),
    ],
)
async def test_a_stale_nonce_is_answered_once_more(answers: list[bytes], status: int, requests: int) -> None:
    async with wire(answering(*[asks(answer) for answer in answers], OK)) as endpoint:
        (outcome,) = await post(endpoint.url.replace("://", "://u:p@") + "/")
    assert (status_of(outcome), len(endpoint.requests)) == (status, requests)


async def test_each_notification_begins_without_credentials() -> None:
    """As AWS's do: a nonce of the last one is not kept."""
    rounds = [asks(b'Digest nonce="1"'), OK, asks(b'Digest nonce="2"'), OK]
    async with wire(answering(*rounds)) as endpoint:
        await post(*[endpoint.url.replace("://", "://u:p@") + "/"] * 2)
    assert ["Authorization" in came.headers for came in endpoint.requests] == [False, True, False, True]


@pytest.mark.spec("sns-http.credentials", "sns-answer.3xx")
async def test_credentials_do_not_follow_a_redirect() -> None:
    async with wire(answering(OK)) as elsewhere:
        moved = b"HTTP/1.1 307 Moved\r\nLocation: %b/\r\nContent-Length: 0\r\n\r\n" % elsewhere.url.encode()
        async with wire(answering(asks(b"Basic"), moved)) as endpoint:
            (outcome,) = await post(endpoint.url.replace("://", "://u:p@") + "/")
    assert (status_of(outcome), elsewhere.connections) == (307, 0)


async def test_what_fails_leaves_no_garbage_that_only_a_collection_finds(unused_tcp_port: int) -> None:
    """A collection stops every send of the process: with ninety objects a failure they took a tenth of a second."""
    refused = HttpRequest(f"http://127.0.0.1:{unused_tcp_port}/", HEADERS, BODY)
    http = sender()
    await http.send(refused)
    gc.collect()
    gc.disable()
    try:
        for _ in range(50):
            outcome = await http.send(refused)
            assert isinstance(outcome, Failed)
            assert outcome.cause == Cause.CONNECTION
        assert gc.collect() < 50
    finally:
        gc.enable()
    await http.close()
