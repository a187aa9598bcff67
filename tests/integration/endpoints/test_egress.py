"""The egress proxy: what it is asked for, the bounds that hold through it, and failures that are its own."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cns.endpoints.address_guard import AddressGuard
from cns.endpoints.connect import NameResolver
from cns.endpoints.egress import Connector
from cns.endpoints.http import EndpointRequest, HttpSender
from cns.endpoints.outcome import Cause, Delivered, Failed, Outcome
from cns.endpoints.reachability import is_unreachable
from cns.endpoints.redis_channel import RedisSender
from cns.endpoints.redis_request import RedisRequest
from cns_common.configuration.proxy_url import EgressProxy, read_proxy_url
from cns_common.tls import client_context
from lab.harness.connect_proxy import ConnectProxy, Misbehaviour, serving
from lab.harness.ports import free_port
from lab.harness.tinyproxy import Tinyproxy
from tests.integration.endpoints.http_endpoints import (
    BODY,
    HEADERS,
    LOOPBACK,
    OK,
    TIMEOUT_S,
    answer_with,
    serve_endpoint,
)
from tests.integration.endpoints.test_http_tls import issue, server_context

SHORT_TIMEOUT_S = 0.3
NO_ADDRESS = AddressGuard([])
BY_NAME = AddressGuard([], by_name=True)


@pytest.fixture
async def proxy() -> AsyncIterator[ConnectProxy]:
    async with serving(ConnectProxy()) as found:
        yield found


async def post(
    proxy: ConnectProxy | EgressProxy,
    *urls: str,
    guard: AddressGuard = LOOPBACK,
    timeout_s: float = TIMEOUT_S,
    verify: ssl.SSLContext | None = None,
) -> list[Outcome]:
    """Post to each URL in turn with one sender."""
    used = read_proxy_url(proxy.url()) if isinstance(proxy, ConnectProxy) else proxy
    context = client_context(None) if verify is None else verify
    sender = HttpSender(guard, timeout_s=timeout_s, wall_s=lambda: 0.0, verify=context, proxy=used)
    try:
        return [await sender.send(EndpointRequest(url, HEADERS, BODY)) for url in urls]
    finally:
        await sender.close()


async def test_the_proxy_is_asked_for_the_checked_address(proxy: ConnectProxy) -> None:
    async with serve_endpoint(answer_with(OK, OK)) as endpoint:
        url = endpoint.url.replace("127.0.0.1", "localhost")
        outcomes = await post(proxy, f"{url}/a", f"{url}/b")
    assert [isinstance(one, Delivered) for one in outcomes] == [True, True], outcomes
    assert proxy.asked[-1] == endpoint.url.removeprefix("http://"), "an address, not the name"
    assert [one.headers["Host"] for one in endpoint.requests] == [url.removeprefix("http://")] * 2
    assert proxy.tunnels == endpoint.connections == 1, "a tunnel is kept for the next post"


async def test_tls_is_the_endpoints_own(proxy: ConnectProxy, tmp_path: Path) -> None:
    authority, asked = issue("an authority"), []
    (tmp_path / "authority.pem").write_bytes(authority.pem)
    context = server_context(issue("endpoint", by=authority, hosts=("localhost",)), tmp_path)
    context.sni_callback = lambda _socket, name, _context: asked.append(name)
    async with serve_endpoint(answer_with(OK), tls=context) as endpoint:
        url = endpoint.url.replace("127.0.0.1", "localhost")
        (taken,) = await post(proxy, url, verify=client_context(tmp_path / "authority.pem"))
        (distrusted,) = await post(proxy, url)
    assert isinstance(taken, Delivered), taken
    assert asked == ["localhost", "localhost"]
    assert isinstance(distrusted, Failed) and distrusted.cause is Cause.TLS


async def test_the_guard_judges_before_the_proxy_is_asked(proxy: ConnectProxy) -> None:
    outcomes = await post(proxy, "http://localhost:9/", "http://127.1:9/", "http://[::1]:9/", guard=NO_ADDRESS)
    assert [isinstance(one, Failed) and one.cause for one in outcomes] == [Cause.REFUSED_ADDRESS] * 3
    assert proxy.asked == []


async def test_by_name_the_proxy_resolves_names_but_addresses_are_checked(proxy: ConnectProxy) -> None:
    proxy.names = {"hooks.test": "127.0.0.1"}
    async with serve_endpoint(answer_with(OK)) as endpoint:
        url = endpoint.url.replace("127.0.0.1", "hooks.test")
        taken, refused = await post(proxy, url, "http://127.0.0.1:9/", guard=BY_NAME)
    assert isinstance(taken, Delivered), taken
    assert proxy.asked == [url.removeprefix("http://")]
    assert isinstance(refused, Failed) and refused.cause is Cause.REFUSED_ADDRESS
    assert await BY_NAME.refusal("http://localhost/") is None
    assert "private" in (await BY_NAME.refusal("http://127.0.0.1/") or "")


@pytest.mark.parametrize("host", ["127.1", "0x7f.1", "0X7F000001", "0177.0.0.0x1", "2130706433", "[::ffff:127.0.0.1]"])
async def test_by_name_no_form_of_an_address_is_a_name(proxy: ConnectProxy, host: str) -> None:
    (refused,) = await post(proxy, f"http://{host}:9/", guard=BY_NAME)
    assert isinstance(refused, Failed) and refused.cause is Cause.REFUSED_ADDRESS, refused
    assert proxy.asked == []
    assert "private" in (await BY_NAME.refusal(f"http://{host}/") or "")


async def test_an_endpoint_that_uses_up_the_time_does_not_make_the_proxy_away(
    proxy: ConnectProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one does that closes an idle connection, or whose name server answers, just before the deadline."""

    async def find(_: NameResolver, host: str, port: int) -> list[object]:
        return [(2, 1, 6, "", (host, port))]

    monkeypatch.setattr(NameResolver, "find", find)
    connector, loop = Connector(LOOPBACK, read_proxy_url(proxy.url())), asyncio.get_running_loop()
    async with serve_endpoint(answer_with(OK)) as endpoint:
        port = int(endpoint.url.rpartition(":")[2])
        with pytest.raises(TimeoutError):
            await connector.connect("127.0.0.1", port, loop.time())
        (await connector.connect("127.0.0.1", port, loop.time() + TIMEOUT_S)).close()


async def test_other_addresses_of_a_name_are_tried(proxy: ConnectProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve_endpoint(answer_with(OK)) as endpoint:
        port = int(endpoint.url.rpartition(":")[2])
        found = [(2, 1, 6, "", (address, port)) for address in ("127.0.0.9", "127.0.0.1")]

        async def find(_: NameResolver, host: str, _port: int) -> list[object]:
            return [*found] if host == "two.test" else [(2, 1, 6, "", ("127.0.0.1", proxy.port))]

        monkeypatch.setattr(NameResolver, "find", find)
        proxy.unreached = {f"127.0.0.9:{port}"}
        (outcome,) = await post(proxy, f"http://two.test:{port}/")
    assert isinstance(outcome, Delivered), outcome
    assert proxy.asked == [f"127.0.0.9:{port}", f"127.0.0.1:{port}"]


@pytest.mark.parametrize(
    ("given", "cause"), [("user:p%40ss", None), ("user:wrong", Cause.EGRESS_PROXY), ("", Cause.EGRESS_PROXY)]
)
async def test_credentials(proxy: ConnectProxy, given: str, cause: Cause | None) -> None:
    proxy.credentials = "user:p@ss"
    async with serve_endpoint(answer_with(OK)) as endpoint:
        (outcome,) = await post(read_proxy_url(proxy.url(given)), endpoint.url)
    assert (outcome.cause if isinstance(outcome, Failed) else None) == cause
    if isinstance(outcome, Failed):
        assert outcome.text == "the egress proxy answered 407" and not outcome.permanent


async def _megabyte_of_head(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 1_000_000)
    await reader.read()


async def _stall(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 2")
    await reader.read()


async def _close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 Conn")


async def _no_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")


def _answering(status: str) -> Misbehaviour:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 6\r\n\r\nno way".encode())

    return answer


@pytest.mark.parametrize(
    ("misbehave", "text", "cause"),
    [
        (_megabyte_of_head, "the answer of the egress proxy has no end", Cause.EGRESS_ROUTE),
        (_stall, "the egress proxy did not answer in time", Cause.EGRESS_ROUTE),
        (_close, "the egress proxy closed the connection", Cause.EGRESS_ROUTE),
        (_no_http, "the egress proxy's answer is no HTTP", Cause.EGRESS_ROUTE),
        (_answering("403 Forbidden"), "the egress proxy answered 403", Cause.EGRESS_ROUTE),
        (_answering("502 Bad Gateway"), "the egress proxy answered 502", Cause.EGRESS_ROUTE),
        (_answering("302 Found"), "the egress proxy answered 302", Cause.EGRESS_ROUTE),
        (_answering("407 Who"), "the egress proxy answered 407", Cause.EGRESS_PROXY),
    ],
)
async def test_failures_of_the_proxy_are_told_from_the_endpoints(
    proxy: ConnectProxy, misbehave: Misbehaviour, text: str, cause: Cause
) -> None:
    proxy.misbehave = misbehave
    async with serve_endpoint(answer_with(OK)) as endpoint:
        timeout_s = SHORT_TIMEOUT_S if misbehave is _stall else TIMEOUT_S
        (outcome,) = await post(proxy, endpoint.url, timeout_s=timeout_s)
    assert endpoint.connections == 0
    assert isinstance(outcome, Failed) and (outcome.cause, outcome.text, outcome.permanent) == (cause, text, False)
    assert outcome.status == 0, "no answer of the endpoint"


async def test_a_proxy_that_is_away_is_not_asked_by_every_message() -> None:
    away = EgressProxy(host="127.0.0.1", port=free_port())
    sender = HttpSender(LOOPBACK, timeout_s=TIMEOUT_S, wall_s=lambda: 0.0, verify=client_context(None), proxy=away)
    first = await sender.send(EndpointRequest("http://127.0.0.1:9/", HEADERS, BODY))
    async with serving(ConnectProxy(port=away.port)) as proxy:
        second = await sender.send(EndpointRequest("http://127.0.0.1:9/", HEADERS, BODY))
    assert isinstance(first, Failed) and first.cause is Cause.EGRESS_PROXY
    assert first.text == "no connection to the egress proxy: Connection refused", "owners of endpoints read it"
    assert isinstance(second, Failed) and second.text == first.text and proxy.asked == []


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n", Cause.STATUS),
        (b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n", Cause.STATUS),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000, Cause.CONNECTION),
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\nContent-Length: 0\r\n\r\n", Cause.STATUS),
        (b"HTTP/1.1 20", Cause.TIMEOUT),
    ],
)
async def test_behind_the_tunnel_all_is_the_endpoints(proxy: ConnectProxy, answer: bytes, cause: Cause) -> None:
    async with serve_endpoint(answer_with(answer)) as endpoint:
        timeout_s = SHORT_TIMEOUT_S if cause is Cause.TIMEOUT else TIMEOUT_S
        (outcome,) = await post(proxy, endpoint.url, timeout_s=timeout_s)
    assert isinstance(outcome, Failed) and outcome.cause is cause, outcome
    assert len(proxy.asked) == 1


async def test_an_endpoint_that_speaks_first_is_at_fault_itself(proxy: ConnectProxy) -> None:
    proxy.misbehave = _answering("200 OK")
    (outcome,) = await post(proxy, "http://127.0.0.1:9/")
    assert isinstance(outcome, Failed) and outcome.cause is Cause.CONNECTION and "before a request" in outcome.text


async def test_other_connections_for_users_take_the_tunnel_too(proxy: ConnectProxy) -> None:
    used = read_proxy_url(proxy.url())
    closed = free_port()
    assert not await is_unreachable(LOOPBACK, f"http://127.0.0.1:{closed}/", proxy=used), "the proxy proves nothing"
    proxy.misbehave = _answering("407 Who")
    sender = RedisSender(LOOPBACK, timeout_s=TIMEOUT_S, verify=client_context(None), proxy=used)
    outcome = await sender.send(RedisRequest("redis://127.0.0.1:9/c", b"x"))
    assert isinstance(outcome, Failed) and outcome.cause is Cause.EGRESS_PROXY
    assert proxy.asked == [f"127.0.0.1:{closed}", "127.0.0.1:9"]


async def test_tinyproxy(tmp_path: Path) -> None:
    tinyproxy = Tinyproxy(tmp_path)
    await asyncio.to_thread(tinyproxy.start)
    try:
        async with serve_endpoint(answer_with(OK)) as endpoint:
            gone = f"http://127.0.0.1:{free_port()}/"
            taken, unreached = await post(read_proxy_url(tinyproxy.proxy_url()), endpoint.url, gone)
            (unknown,) = await post(read_proxy_url(tinyproxy.proxy_url("cns:wrong")), endpoint.url)
    finally:
        tinyproxy.stop()
    assert isinstance(taken, Delivered), taken
    assert isinstance(unreached, Failed)
    assert (unreached.cause, unreached.text) == (Cause.EGRESS_ROUTE, "the egress proxy answered 500")
    assert isinstance(unknown, Failed) and unknown.cause is Cause.EGRESS_PROXY, unknown
