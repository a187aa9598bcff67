"""Connections to HTTP endpoints: which are kept, which are not, and where they may lead."""

from __future__ import annotations

import asyncio
import socket
import ssl
from pathlib import Path

import pytest

from cns.endpoints import connect, http_pool
from cns.endpoints.address_guard import AddressGuard
from cns.endpoints.http import HttpRequest, HttpSender
from cns.endpoints.outcome import Cause, Delivered, Failed
from cns_common.tls import client_context
from tests.integration.endpoints.http_endpoints import BODY, HEADERS, OK, Talk, answering, post, sender, wire
from tests.integration.endpoints.test_http_tls import issue, server

LARGE = b"x" * 256 * 1024
GONE_S = 5.0


@pytest.mark.parametrize(
    "more",
    [
        pytest.param(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n", id="an answer nobody asked for"),
        pytest.param(b"noise", id="what is no answer"),
    ],
)
@pytest.mark.parametrize("together", [True, False])
async def test_who_says_more_than_was_asked_is_connected_to_anew(more: bytes, together: bool) -> None:
    """Else it would be taken for the answer to the next request."""
    said = asyncio.Event()

    async def talkative(talk: Talk) -> None:
        await talk.request()
        if together:
            await talk.answer(OK + more)
        else:
            await talk.answer(OK)
            await asyncio.sleep(0.05)  # the client has read the answer by then
            await talk.answer(more)
        said.set()
        await talk.request()

    posting = sender()
    async with wire(talkative, answering(OK)) as endpoint:
        request = HttpRequest(f"{endpoint.url}/", HEADERS, BODY)
        assert isinstance(await posting.send(request), Delivered)
        await said.wait()
        await asyncio.sleep(0.05)
        assert isinstance(await posting.send(request), Delivered)
    await posting.close()
    assert [came.connection for came in endpoint.requests] == [0, 1]


async def test_lines_may_end_as_old_servers_end_them() -> None:
    async with wire(answering(b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok", OK)) as endpoint:
        outcomes = await post(*[f"{endpoint.url}/"] * 2)
    assert [type(outcome) for outcome in outcomes] == [Delivered, Delivered]
    assert endpoint.connections == 1


@pytest.mark.parametrize("value", ["a\r\nX-Evil: b", "a\nb", "a\rb", "a\0b"])
async def test_a_header_is_one_line(value: str) -> None:
    posting = sender()
    async with wire(answering(OK)) as endpoint:
        outcome = await posting.send(HttpRequest(f"{endpoint.url}/", {"Content-Type": value}, BODY))
    await posting.close()
    assert isinstance(outcome, Failed)
    assert endpoint.requests == []


@pytest.mark.parametrize("secure", [True, False])
async def test_large_bodies_arrive_whole(secure: bool, tmp_path: Path) -> None:
    authority = issue("an authority")
    (tmp_path / "bundle.pem").write_bytes(authority.pem)
    tls: ssl.SSLContext | None = None
    if secure:
        tls = server(issue("endpoint", by=authority, hosts=("127.0.0.1",)), tmp_path)
    async with wire(answering(OK, OK), tls=tls) as endpoint:
        outcomes = await post(
            *[f"{endpoint.url}/"] * 2, body=LARGE, verify=client_context(tmp_path / "bundle.pem" if secure else None)
        )
    assert [type(outcome) for outcome in outcomes] == [Delivered, Delivered]
    assert [came.body for came in endpoint.requests] == [LARGE, LARGE]
    assert endpoint.connections == 1


async def test_a_handshake_that_does_not_end_costs_the_attempt_and_the_connection() -> None:
    gone = asyncio.Event()

    async def mute(talk: Talk) -> None:
        await talk.reader.read()
        gone.set()

    async with wire(mute) as endpoint:
        (outcome,) = await post(endpoint.url.replace("http:", "https:") + "/", timeout_s=0.3)
        async with asyncio.timeout(GONE_S):
            await gone.wait()
    assert isinstance(outcome, Failed) and outcome.cause is Cause.TIMEOUT


async def test_those_nobody_needs_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_pool, "SWEEP_INTERVAL_S", 0.05)
    monkeypatch.setattr(http_pool, "KEEP_ALIVE_S", 0.1)
    gone = asyncio.Event()

    async def until_its_end(talk: Talk) -> None:
        await talk.request()
        await talk.answer(OK)
        await talk.reader.read()
        gone.set()

    posting = sender()
    async with wire(until_its_end) as endpoint:
        await posting.send(HttpRequest(f"{endpoint.url}/", HEADERS, BODY))
        async with asyncio.timeout(GONE_S):
            await gone.wait()
    await posting.close()


async def test_so_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those kept the one that was idle for longest goes."""
    monkeypatch.setattr(http_pool, "IDLE_CONNECTIONS_MAX", 1)
    posting = sender()
    async with wire(answering(OK, OK)) as one, wire(answering(OK, OK)) as other:
        for endpoint in (one, other, other, one):
            await posting.send(HttpRequest(f"{endpoint.url}/", HEADERS, BODY))
    await posting.close()
    assert (one.connections, other.connections) == (2, 1)


# -- names -------------------------------------------------------------------------------------------------------------

Info = tuple[int, int, int, str, tuple[str, int]]


class Names:
    """A name server's answers, in place of the machine's own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: list[str] | OSError) -> None:
        self._answers = [*answers]
        self.asked = 0
        monkeypatch.setattr(socket, "getaddrinfo", self._answer)

    def _answer(self, host: str, port: int, *_: int, **__: int) -> list[Info]:
        assert host == "a.test"
        answer = self._answers[min(self.asked, len(self._answers) - 1)]
        self.asked += 1
        if isinstance(answer, OSError):
            raise answer
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in answer]


def at_name(url: str) -> HttpRequest:
    return HttpRequest(url.replace("127.0.0.1", "a.test") + "/", HEADERS, BODY)


async def test_a_name_is_looked_up_once_for_many(monkeypatch: pytest.MonkeyPatch) -> None:
    names = Names(monkeypatch, ["127.0.0.1"])
    posting = sender()
    async with wire(answering(OK)) as endpoint:
        outcomes = await asyncio.gather(*[posting.send(at_name(endpoint.url)) for _ in range(5)])
    await posting.close()
    assert {type(outcome) for outcome in outcomes} == {Delivered}
    assert (names.asked, endpoint.connections) == (1, 5)
    assert endpoint.requests[0].headers["Host"] == endpoint.url.removeprefix("http://").replace("127.0.0.1", "a.test")


async def test_an_answer_about_a_name_is_soon_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "DNS_CACHE_S", 0.5)
    names = Names(monkeypatch, ["127.0.0.1"])
    posting = sender()
    async with wire(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")) as endpoint:
        for pause_s in (0.0, 0.0, 1.0):
            await asyncio.sleep(pause_s)
            await posting.send(at_name(endpoint.url))
    await posting.close()
    assert names.asked == 2


async def test_a_look_up_that_failed_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    Names(monkeypatch, socket.gaierror(socket.EAI_AGAIN, "try again"), ["127.0.0.1"])
    posting = sender()
    async with wire(answering(OK)) as endpoint:
        first, second = [await posting.send(at_name(endpoint.url)) for _ in range(2)]
    await posting.close()
    assert isinstance(first, Failed) and first.cause is Cause.DNS
    assert isinstance(second, Delivered)


async def test_of_a_name_s_addresses_only_those_allowed_are_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    Names(monkeypatch, ["10.0.0.1", "127.0.0.1"])
    posting = sender()
    async with wire(answering(OK)) as endpoint:
        outcome = await posting.send(at_name(endpoint.url))
    await posting.close()
    assert isinstance(outcome, Delivered)


async def test_a_name_of_private_addresses_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it was when it was subscribed."""
    Names(monkeypatch, ["127.0.0.1", "10.0.0.1"])
    posting = HttpSender(AddressGuard([]), timeout_s=GONE_S, wall_s=lambda: 0.0, verify=client_context(None))
    async with wire(answering(OK)) as endpoint:
        outcome = await posting.send(at_name(endpoint.url))
    await posting.close()
    assert isinstance(outcome, Failed) and (outcome.cause, outcome.permanent) == (Cause.REFUSED_ADDRESS, True)
    assert endpoint.connections == 0


async def test_the_next_address_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    Names(monkeypatch, ["127.0.0.2", "127.0.0.1"])
    posting = sender()
    async with wire(answering(OK)) as endpoint:  # of 127.0.0.1 only
        outcome = await posting.send(at_name(endpoint.url))
    await posting.close()
    assert isinstance(outcome, Delivered)
