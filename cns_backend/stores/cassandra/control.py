"""Reports, the test clock and the check of the master key, in Cassandra."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable

import msgspec
from msgspec.structs import replace

from cns.stores.cassandra.mobile_schema import APPLICATION_REGIONS
from cns.stores.cassandra.schema import OWNER_REGIONS, TOPIC_REGIONS
from cns_backend.stores.contract import (
    PROBE_ASK_LIFE_S,
    REPORT_LIFE_S,
    ProbeRequest,
    ProcessReport,
    ServiceControl,
    ServiceReports,
    ServiceState,
)
from cns_common.cassandra.lwt import resolve_lost_write
from cns_common.cassandra.session import Cassandra, Row, Statement
from cns_common.clock import Clock
from cns_common.errors import OutcomeUnknown, StoreUnavailable
from cns_common.metrics.catalogue import CASSANDRA_STATEMENTS
from cns_common.sealing import Seal
from cqs.stores.cassandra.schema import REGIONS

TABLES = (
    # rows live for seconds, so their tombstones can go soon
    "CREATE TABLE IF NOT EXISTS process_reports(shard int, process text, report blob, PRIMARY KEY(shard, process))"
    f" WITH default_time_to_live = {int(REPORT_LIFE_S)} AND gc_grace_seconds = 60",
    "CREATE TABLE IF NOT EXISTS cluster_state(name text PRIMARY KEY, value blob)",
)
PROCESSES_MAX = 1_000
ADVANCE_TRIES_MAX = 20
CLOCK_NAME = "clock_offset_ms"
KEY_NAME = "master_key"
PROBE_NAME = "probe"

_REPORT = Statement("INSERT INTO process_reports(shard, process, report) VALUES (0, ?, ?)")
_RETIRE = Statement("DELETE FROM process_reports WHERE shard = 0 AND process = ?")
_REPORTS = Statement(f"SELECT report FROM process_reports WHERE shard = 0 LIMIT {PROCESSES_MAX}")
_GET = Statement("SELECT value FROM cluster_state WHERE name = ?")
_ASK_PROBE = Statement(f"INSERT INTO cluster_state(name, value) VALUES (?, ?) USING TTL {int(PROBE_ASK_LIFE_S)}")
_FIRST = Statement("INSERT INTO cluster_state(name, value) VALUES (?, ?) IF NOT EXISTS", idempotent=False)
_NEXT = Statement("UPDATE cluster_state SET value = ? WHERE name = ? IF value = ?", idempotent=False)

_encode = msgspec.msgpack.encode
_decode_probe = msgspec.msgpack.Decoder(ProbeRequest).decode
_decode_report = msgspec.msgpack.Decoder(ProcessReport).decode


class CassandraReports(ServiceReports):
    def __init__(self, cassandra: Cassandra) -> None:
        self._cassandra = cassandra

    async def state(self) -> ServiceState:
        samples = (CASSANDRA_STATEMENTS.sample(self._cassandra.statements),)
        try:
            rows = await self._cassandra.run(_REPORTS)
        except (StoreUnavailable, OutcomeUnknown) as error:
            return ServiceState(str(error), (), samples)
        return ServiceState("", tuple(_decode_report(report) for (report,) in rows), samples)


class CassandraControl(CassandraReports, ServiceControl):
    def __init__(self, cassandra: Cassandra, clock: Clock, announce_clock: Callable[[int], Awaitable[None]]) -> None:
        super().__init__(cassandra)
        self._clock = clock
        self._announce_clock = announce_clock
        self.machine = f"{socket.gethostname()}/"

    async def clock_offset_ms(self) -> int:
        for (value,) in await self._cassandra.run(_GET, CLOCK_NAME):
            return _read_offset_ms(value)
        return 0

    async def clock_ms(self) -> int:
        return self._clock.now_ms()

    async def advance_clock(self, by_ms: int) -> int:
        for _ in range(ADVANCE_TRIES_MAX):
            rows = await self._cassandra.run(_GET, CLOCK_NAME)
            offset_ms = (_read_offset_ms(rows[0][0]) if rows else 0) + by_ms
            if await self._set_offset(rows, offset_ms):
                self._clock.follow(offset_ms)
                await self._announce_clock(offset_ms)
                return offset_ms
        raise StoreUnavailable("too many processes advance the clock at once")

    async def _set_offset(self, rows: list[Row], offset_ms: int) -> bool:
        """Set the offset if `rows` is still stored. The write is not idempotent: after a lost answer, read it."""
        value = _encode(offset_ms)

        async def attempt() -> bool:
            if not rows:
                return await self._cassandra.run_conditional(_FIRST, CLOCK_NAME, value)
            return await self._cassandra.run_conditional(_NEXT, value, CLOCK_NAME, rows[0][0])

        async def ours() -> bool:
            return await self._cassandra.run(_GET, CLOCK_NAME) == [(value,)]

        return await resolve_lost_write(attempt, ours)

    async def owners(self) -> list[str]:
        scans = (REGIONS, TOPIC_REGIONS, OWNER_REGIONS, APPLICATION_REGIONS)
        return sorted(set().union(*[await scan.accounts(self._cassandra) for scan in scans]))

    async def report(self, report: ProcessReport) -> None:
        named = replace(report, process=self.machine + report.process)
        await self._cassandra.run(_REPORT, named.process, _encode(named))

    async def ask_probe(self, account: str, endpoint: str) -> None:
        request = ProbeRequest(account, endpoint, self._clock.now_ms())
        await self._cassandra.run(_ASK_PROBE, PROBE_NAME, _encode(request))

    async def asked_probes(self) -> list[ProbeRequest]:
        return [_decode_probe(value) for (value,) in await self._cassandra.run(_GET, PROBE_NAME)]

    async def retire(self, process: str) -> None:
        await self._cassandra.run(_RETIRE, self.machine + process)


async def check_master_key(cassandra: Cassandra, seal: Seal, *, may_be_first: bool = True) -> None:
    """Raise unless `seal` has the master key of the first process that used the keyspace: see `Seal.open`."""
    if may_be_first:
        await cassandra.run_conditional(_FIRST, KEY_NAME, seal.close(KEY_NAME, KEY_NAME.encode()))
    for (sealed,) in await cassandra.run(_GET, KEY_NAME):
        seal.open(KEY_NAME, sealed)


def _read_offset_ms(value: bytes) -> int:
    return msgspec.msgpack.decode(value, type=int)
