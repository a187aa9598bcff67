"""While Cassandra hangs or is away, every operation answers 503 or what needs no Cassandra, and none waits long.

A proxy before the shared Cassandra stops passing on; the limits of the session are the driver's, so nothing here looks
at a clock: an operation that waited for each of its statements would meet the test's own timeout.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import pytest
import redis

from cns_backend.stores.contract import ProcessReport
from cns_common.cassandra import connection as connection_module
from cns_common.cassandra import session as session_module
from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Cassandra, Statement
from cns_common.errors import OutcomeUnknown, StoreUnavailable
from cns_server import api as api_module
from cqs.engines.cluster import ClusterEngine
from lab.harness.keyspace import emptied
from lab.harness.servers import flush_prefix, redis_url
from lab.harness.service import OBSERVER
from lab.harness.tcp_proxy import TcpProxy
from lab.harness.waiting import PATIENCE_S
from tests.integration.errors.api_calls import URL, prepared_calls
from tests.integration.errors.api_forms import PROTOCOLS, FormOfApi, cluster_api

WORKER = ProcessReport("worker-1", "worker", (), ())
LIMIT_S = 1.0
"""The limit of a statement during an outage."""
CONNECT_S = 10.0
"""That of a connection: the driver does not notice that one is closed while it is made."""
PAGES = ("/ready", "/health", "/live", "/metrics")
READ = Statement("SELECT record FROM queues WHERE account = 'a' AND region = 'r' AND name = 'n'")
CONDITIONAL = Statement(
    "UPDATE queues SET version = 2 WHERE account = 'a' AND region = 'r' AND name = 'n' IF version = 1", idempotent=False
)


class Outage:
    """Cassandra behind a proxy, and an API process on it. Meanwhile statements have short limits, which are otherwise
    those of a guard."""

    def __init__(self, address: CassandraAddress, proxy: TcpProxy, monkeypatch: pytest.MonkeyPatch) -> None:
        self._address = address
        self._proxy = proxy
        self._monkeypatch = monkeypatch
        monkeypatch.setattr(connection_module, "CONNECT_TIMEOUT_S", CONNECT_S)
        self.place = replace(address, hosts=("127.0.0.1",), port=proxy.port)

    @asynccontextmanager
    async def api(self, directory: Path) -> AsyncIterator[FormOfApi]:
        async with emptied(self._address), cluster_api(directory, self.place) as api:
            yield api

    def begin(self, kind: str = "hung") -> None:
        self._limit(LIMIT_S)
        self._proxy.hold() if kind == "hung" else self._proxy.cut()

    def end(self, limit_s: float = LIMIT_S) -> None:
        """The limit stays short, as the driver may ask on a connection that is dead."""
        self._limit(limit_s)
        self._proxy.release()
        self._proxy.heal()

    def _limit(self, seconds: float) -> None:
        for limit in ("STATEMENT_S", "CONDITIONAL_S", "PREPARE_S"):
            self._monkeypatch.setattr(session_module, limit, seconds)


@pytest.fixture
def outage(cassandra_address: CassandraAddress, monkeypatch: pytest.MonkeyPatch) -> Iterator[Outage]:
    with TcpProxy(cassandra_address.port) as proxy:
        yield Outage(cassandra_address, proxy, monkeypatch)


@pytest.fixture(autouse=True)
def held_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call waits for Cassandra; these are made one after the other."""
    monkeypatch.setattr(api_module, "CLUSTER_CALL_S", 0.01)


@asynccontextmanager
async def _session(place: CassandraAddress) -> AsyncIterator[Cassandra]:
    cassandra = await Cassandra.open(place)
    try:
        yield cassandra
    finally:
        await cassandra.close()


async def _until_answered(cassandra: Cassandra) -> None:
    while True:
        try:
            await cassandra.run(READ)
            return
        except (StoreUnavailable, OutcomeUnknown):
            await asyncio.sleep(0.05)  # until the next attempt: the driver reconnects in a thread of its own


async def test_a_silent_cassandra_is_asked_once(outage: Outage) -> None:
    """Later statements are refused at once, until a probe is answered; a conditional one's outcome is unknown."""
    async with _session(outage.place) as cassandra:
        await cassandra.run(READ)
        await cassandra.run(CONDITIONAL)
        outage.begin()
        with pytest.raises(OutcomeUnknown):
            await cassandra.run(CONDITIONAL)
        sent = cassandra.statements
        for _ in range(100):
            with pytest.raises(StoreUnavailable):
                await cassandra.run(READ)
        assert cassandra.statements - sent < 10  # probes only
        outage.end()
        await _until_answered(cassandra)


async def test_a_statement_that_cannot_be_prepared(outage: Outage) -> None:
    async with _session(outage.place) as cassandra:
        outage.begin()
        with pytest.raises(StoreUnavailable):
            await cassandra.run(READ)
        outage.end()
        await _until_answered(cassandra)


@pytest.mark.parametrize("kind", ["hung", "gone"])
@pytest.mark.extended
async def test_no_operation_fails_but_as_unavailable(tmp_path: Path, outage: Outage, kind: str) -> None:
    """The statements are prepared: each operation is called once before the outage."""
    async with outage.api(tmp_path) as api:
        calls = await prepared_calls(api)
        for service, protocol in PROTOCOLS:
            for action, members in calls[service].items():
                assert (await api(service, protocol, action, **members)).status < 500, (action, members)
        outage.begin(kind)
        for service, protocol in PROTOCOLS:
            for action, members in calls[service].items():
                answer = await api(service, protocol, action, **members)
                assert answer.status != 500, (kind, service, protocol, action, answer)
        for service, protocol in PROTOCOLS:
            assert await _written(api, service, protocol) == (503, "ServiceUnavailable")


@pytest.mark.extended
async def test_no_operation_fails_without_redis(tmp_path: Path, cassandra_address: CassandraAddress) -> None:
    port = urlsplit(redis_url()).port or 6379
    with TcpProxy(port) as proxy:
        async with emptied(cassandra_address), cluster_api(tmp_path, cassandra_address, proxy.redis_url) as api:
            calls = await prepared_calls(api)
            proxy.hold()
            for service, protocol in PROTOCOLS:
                for action, members in calls[service].items():
                    answer = await api(service, protocol, action, **members)
                    assert answer.status != 500, (service, protocol, action, answer)
    with redis.Redis.from_url(redis_url()) as client:
        flush_prefix(client, f"cqs:{cassandra_address.keyspace}")


@pytest.mark.parametrize("kind", ["hung", pytest.param("gone", marks=pytest.mark.extended)])
async def test_pages_while_cassandra_is_away(tmp_path: Path, outage: Outage, kind: str) -> None:
    """`/ready` and `/health` say so, and that it is over; the process itself is alive and shows its metrics."""
    async with outage.api(tmp_path) as api:

        async def shown() -> dict[str, int]:
            return {path: (await api.http.get(path, headers=OBSERVER)).status_code for path in PAGES}

        await api.backend.control.report(WORKER)
        assert await shown() == dict.fromkeys(PAGES, 200)
        outage.begin(kind)
        assert await shown() == {"/ready": 503, "/health": 503, "/live": 200, "/metrics": 200}
        health = (await api.http.get("/health", headers=OBSERVER)).json()
        assert (health["status"], health["ready"]) == ("red", False)
        assert any("Cassandra" in reason for reason in health["reasons"]), health["reasons"]
        outage.end()
        while await shown() != dict.fromkeys(PAGES, 200):
            await asyncio.sleep(0.05)  # until the next attempt: the driver reconnects in a thread of its own
            with suppress(StoreUnavailable, OutcomeUnknown):
                await api.backend.control.report(WORKER)  # as a worker does each second


async def test_writes_while_cassandra_hangs(tmp_path: Path, outage: Outage) -> None:
    """A send, a publish and a delete that Cassandra does not answer are 503 in both protocols."""
    async with outage.api(tmp_path) as api:
        calls = await prepared_calls(api)
        outage.begin()
        for service, protocol in PROTOCOLS:
            assert await _written(api, service, protocol) == (503, "ServiceUnavailable")
        for protocol in ("json", "query"):
            answer = await api("sqs", protocol, "DeleteMessage", **calls["sqs"]["DeleteMessage"])
            assert answer[:2] == (503, "ServiceUnavailable")


@pytest.mark.parametrize(("kind", "is_long"), [("hung", False), ("gone", False), ("hung", True), ("gone", True)])
async def test_calls_wait_for_cassandra(
    tmp_path: Path, outage: Outage, monkeypatch: pytest.MonkeyPatch, kind: str, *, is_long: bool
) -> None:
    """After a long outage also until the process is one of the living ones again."""
    monkeypatch.setattr(api_module, "CLUSTER_CALL_S", PATIENCE_S)
    async with outage.api(tmp_path) as api:
        await prepared_calls(api)
        outage.begin(kind)
        while api.backend.absence() is None:
            with suppress(StoreUnavailable, OutcomeUnknown):
                await api.backend.control.report(WORKER)
        if is_long:
            processes = cast("ClusterEngine", api.backend.engines["cqs"]).work.processes
            processes._has_returned = False
            processes._membership.lease.end()
        calls = [asyncio.create_task(_written(api, *form)) for form in PROTOCOLS]
        while len(api.front.held or ()) < len(calls):
            await asyncio.sleep(0)
        outage.end(PATIENCE_S)
        assert await asyncio.gather(*calls) == [(200, "")] * len(calls)


async def _written(api: FormOfApi, service: str, protocol: str) -> tuple[int, str]:
    """Status and code of an operation that cannot succeed without Cassandra."""
    if service == "sqs":
        return (await api("sqs", protocol, "SendMessage", QueueUrl=URL, MessageBody="m"))[:2]
    return (await api("sns", protocol, "CreateTopic", Name="new"))[:2]
