"""A call to an API process of the cluster form has one deadline, whatever it waits for and however often; one
that comes while the store is away waits for it within bounds.

The deadline is checked by the sweep of the connections, which these tests do themselves, at times of their choice.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from cns_common.aws.auth.accounts import KeyRing
from cns_common.aws.auth.authentication import Authenticator
from cns_common.aws.call import Call, Params, Result
from cns_common.aws.front_door import FrontDoor, Service
from cns_common.aws.held_calls import HeldCalls
from cns_common.aws.http_request import REQUEST_BYTES
from cns_common.aws.protocol.models import load_service
from cns_common.cassandra import session as session_module
from cns_common.cassandra.connection import CassandraAddress
from cns_common.clock import Clock
from cns_common.errors import CnsError
from cns_server.api import CLUSTER_CALL_S
from cns_server.http.connection_table import SWEEP_S, ConnectionLimits, ConnectionTable
from lab.harness.keyspace import emptied
from lab.harness.tcp_proxy import TcpProxy
from tests.integration.cqs.door import listen_on_free_port
from tests.integration.errors.api_calls import URL
from tests.integration.errors.api_forms import ACCOUNT, HOST, cluster_api

PUBLISHED_S = 10.0
"""The limit that docs/operations/one-machine.md states."""
LATER_S = 60.0
HOURS_S = 36_000.0
BODY_BYTES_MAX = 12_000
HELD_MAX = 3
"""Calls that may be held in these tests."""

Work = Callable[[Call], Awaitable[None]]


class OneOperationServer:
    """One operation behind the HTTP server: SendMessage does what `work` says."""

    def __init__(self) -> None:
        self.table = ConnectionTable(ConnectionLimits())
        self.began = asyncio.Event()
        self.work: Work = _forever
        self.port = 0
        self.away: asyncio.Future[None] | None = None
        self.held = HeldCalls(lambda: self.away, limit_s=HOURS_S, bytes_max=HELD_MAX * REQUEST_BYTES + 1_000)

    def leave(self) -> None:
        """The store is away."""
        self.away = asyncio.get_running_loop().create_future()

    def come_back(self) -> None:
        assert self.away is not None
        self.away.set_result(None)
        self.away = None

    async def until_held(self, number: int) -> None:
        """Wait until so many calls are held."""
        while len(self.held) != number:
            await asyncio.sleep(0)

    async def operation(self, call: Call, _: Params) -> Result:
        self.began.set()
        await self.work(call)
        return {"MessageId": "m", "MD5OfMessageBody": "5"}

    def sweep(self, after_s: float) -> None:
        """The sweep at so many seconds from now."""
        self.table.sweep(asyncio.get_running_loop().time() + after_s)


@pytest.fixture
async def served() -> AsyncIterator[OneOperationServer]:
    served = OneOperationServer()
    model = load_service("sqs")
    front = FrontDoor(
        {"sqs": Service(model=model, operations={"SendMessage": served.operation})},
        Authenticator(KeyRing([]), Clock(), enforced=False, region="us-east-1", account_id=ACCOUNT),
        public_url="",
        body_bytes_max=BODY_BYTES_MAX,
        held=served.held,
    )
    async with listen_on_free_port(front, served.table, CLUSTER_CALL_S) as port:
        served.port = port
        yield served


async def _forever(_: Call) -> None:
    await asyncio.get_running_loop().create_future()


async def _send(port: int, protocol: str = "json", size: int = 1) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of the answer to SendMessage."""
    if protocol == "json":
        fields = "X-Amz-Target: AmazonSQS.SendMessage\r\nContent-Type: application/x-amz-json-1.0\r\n"
        body = json.dumps({"QueueUrl": URL, "MessageBody": "m" * size})
    else:
        fields = "Content-Type: application/x-www-form-urlencoded\r\n"
        body = f"Action=SendMessage&Version=2012-11-05&QueueUrl={URL}&MessageBody=m"
    head = f"POST / HTTP/1.1\r\nHost: {HOST.decode()}\r\n{fields}Content-Length: {len(body)}\r\n\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(f"{head}{body}".encode())
        status, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        return int(status.split()[1]), headers, await reader.readexactly(int(headers["content-length"]))
    finally:
        writer.close()


@pytest.mark.parametrize("protocol", ["json", "query"])
async def test_a_call_that_hangs_is_refused_in_time(served: OneOperationServer, protocol: str) -> None:
    sending = asyncio.create_task(_send(served.port, protocol))
    await served.began.wait()
    served.sweep(PUBLISHED_S - SWEEP_S - 0.5)
    status, headers, body = await sending
    assert (status, headers["x-cns-outcome"]) == (503, "unknown")
    assert b"ServiceUnavailable" in body


async def test_a_call_within_its_time_is_left_alone(served: OneOperationServer) -> None:
    enough = asyncio.Event()

    async def waits(_: Call) -> None:
        await enough.wait()

    served.work = waits
    sending = asyncio.create_task(_send(served.port))
    await served.began.wait()
    served.sweep(CLUSTER_CALL_S - 1)
    enough.set()
    assert (await sending)[0] == 200
    served.sweep(LATER_S)  # the call was answered


async def test_a_long_poll_has_its_wait_besides(served: OneOperationServer) -> None:
    enough = asyncio.Event()

    async def polls(call: Call) -> None:
        assert call.extend is not None
        call.extend(20)
        await enough.wait()

    for after_s, status in ((CLUSTER_CALL_S + 19, 200), (CLUSTER_CALL_S + 20.1, 503)):
        enough.clear()
        served.began.clear()
        served.work = polls
        sending = asyncio.create_task(_send(served.port))
        await served.began.wait()
        served.sweep(after_s)
        enough.set()
        assert (await sending)[0] == status


async def test_a_call_may_clean_up_and_no_more(served: OneOperationServer) -> None:
    """It learns of the deadline as of a failing store. What goes on waiting ends at the next sweep."""
    given_back = asyncio.Event()
    told: list[str] = []

    async def gives_back(call: Call) -> None:
        try:
            await _forever(call)
        except CnsError:
            await given_back.wait()
            told.append("given back")
            with suppress(CnsError):
                await _forever(call)

    served.work = gives_back
    sending = asyncio.create_task(_send(served.port))
    await served.began.wait()
    served.sweep(PUBLISHED_S - 2 * SWEEP_S + 0.1)
    given_back.set()
    while not told:
        await asyncio.sleep(0)
    served.sweep(PUBLISHED_S - SWEEP_S + 0.1)
    assert (await sending)[0] == 503


# -- while the store is away ------------------------------------------------------------------------------------------


async def _answers(_: Call) -> None:
    pass


def _is_refused(answer: tuple[int, dict[str, str], bytes]) -> bool:
    """Nothing was done, and SDKs repeat the call as late as they can be told to."""
    status, headers, body = answer
    assert b"ServiceUnavailable" in body
    return (status, headers["x-amz-retry-after"]) == (503, "5000") and "x-cns-outcome" not in headers


async def test_calls_wait_until_the_store_is_back(served: OneOperationServer) -> None:
    served.work = _answers
    for _ in range(2):  # the places of the first time are free again
        served.leave()
        sending = [asyncio.create_task(_send(served.port, protocol)) for protocol in ("json", "query", "json")]
        await served.until_held(len(sending))
        assert not served.began.is_set()
        served.come_back()
        assert [(await one)[0] for one in sending] == [200] * len(sending)
        served.began.clear()


@pytest.mark.parametrize("protocol", ["json", "query"])
async def test_calls_beyond_the_bound_are_refused_at_once(served: OneOperationServer, protocol: str) -> None:
    served.work = _answers
    served.leave()
    sending = [asyncio.create_task(_send(served.port)) for _ in range(HELD_MAX)]
    await served.until_held(HELD_MAX)
    assert _is_refused(await _send(served.port, protocol))
    served.come_back()
    assert [(await one)[0] for one in sending] == [200] * HELD_MAX


async def test_a_large_call_takes_the_place_of_many(served: OneOperationServer) -> None:
    served.leave()
    large = asyncio.create_task(_send(served.port, size=BODY_BYTES_MAX - 1_000))
    await served.until_held(1)
    assert _is_refused(await _send(served.port))
    large.cancel()


async def test_a_call_is_refused_when_the_store_stays_away(served: OneOperationServer) -> None:
    served.held.limit_s = 0
    served.leave()
    assert _is_refused(await _send(served.port))


async def test_a_held_call_has_a_deadline(served: OneOperationServer) -> None:
    served.leave()
    sending = asyncio.create_task(_send(served.port))
    await served.until_held(1)
    served.sweep(CLUSTER_CALL_S + 0.1)
    assert _is_refused(await sending)


async def test_a_client_that_hangs_up_leaves_its_place(served: OneOperationServer) -> None:
    served.leave()
    sending = [asyncio.create_task(_send(served.port)) for _ in range(HELD_MAX)]
    await served.until_held(HELD_MAX)
    sending[0].cancel()
    await served.until_held(HELD_MAX - 1)
    for one in sending:
        one.cancel()
    await served.until_held(0)
    assert not served.began.is_set()


# -- on Cassandra -----------------------------------------------------------------------------------------------------


@pytest.fixture
def proxy(cassandra_address: CassandraAddress) -> Iterator[TcpProxy]:
    with TcpProxy(cassandra_address.port) as proxy:
        yield proxy


@pytest.mark.parametrize("protocol", ["json", "query"])
async def test_no_call_waits_for_a_cassandra_that_hangs(
    tmp_path: Path,
    cassandra_address: CassandraAddress,
    proxy: TcpProxy,
    protocol: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each statement would wait for hours: nothing but the deadline ends the call."""
    monkeypatch.setattr(session_module, "STATEMENT_S", HOURS_S)
    place = replace(cassandra_address, hosts=("127.0.0.1",), port=proxy.port)
    table, loop = ConnectionTable(ConnectionLimits()), asyncio.get_running_loop()
    async with (
        emptied(cassandra_address),
        cluster_api(tmp_path, place) as api,
        listen_on_free_port(api.front, table, CLUSTER_CALL_S) as port,
    ):
        await api("sqs", "json", "CreateQueue", QueueName="q")
        assert (await _send(port, protocol))[0] == 200
        proxy.hold()
        sending = asyncio.create_task(_send(port, protocol))
        while not sending.done():
            table.sweep(loop.time() + PUBLISHED_S - SWEEP_S)
            await asyncio.wait({sending}, timeout=0.05)
        assert (await sending)[0] == 503
        proxy.release()
