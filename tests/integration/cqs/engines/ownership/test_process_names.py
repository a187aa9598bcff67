"""The name of a process is kept from others for as long as it lives, and a message's life after."""

from __future__ import annotations

import pytest

from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Cassandra, Statement
from cqs.engines import cluster
from cqs.engines.cluster.ownership import schema
from cqs.engines.cluster.schema import TTL_S as MESSAGE_TTL_S
from tests.integration.cqs.engines.ownership.support import Process, opened

DAY_S = 86_400
SECOND_NS = 1_000_000_000
HOUR_NS = 3_600 * SECOND_NS
LEFT_S = 600

_LIFE = Statement("SELECT TTL(departed) FROM cqs_processes WHERE one = 2 AND node = ?")
_SHORTEN = Statement("INSERT INTO cqs_processes (one, node, departed) VALUES (2, ?, false) USING TTL ?")


async def _life_s(cassandra: Cassandra, process: Process) -> int:
    ((life_s,),) = await cassandra.run(_LIFE, process.rows.node)
    return int(life_s)


async def _shorten(cassandra: Cassandra, process: Process) -> None:
    """The name is as late in its life."""
    process.clocks.run(60 * SECOND_NS)  # the write is later than the one of the name, which Cassandra dated
    await cassandra.run(_SHORTEN, process.rows.node, LEFT_S)
    assert await _life_s(cassandra, process) <= LEFT_S


async def _life_after(cassandra: Cassandra, process: Process, hours: int) -> int:
    """The life of the name, in seconds, after so many hours of the process."""
    process.clocks.run(hours * HOUR_NS)
    await process.renew()
    return await _life_s(cassandra, process)


async def test_a_name_is_renewed_once_a_day(cassandra_address: CassandraAddress) -> None:
    async with opened(cassandra_address, "", 1) as (cassandra, (process,)):
        assert await _life_s(cassandra, process) > MESSAGE_TTL_S + DAY_S
        await _shorten(cassandra, process)
        assert await _life_after(cassandra, process, 23) <= LEFT_S
        assert await _life_after(cassandra, process, 2) > MESSAGE_TTL_S + DAY_S
        await _shorten(cassandra, process)
        assert await _life_after(cassandra, process, 23) <= LEFT_S


async def test_a_suspended_machine_renews_it_when_it_runs_again(cassandra_address: CassandraAddress) -> None:
    async with opened(cassandra_address, "", 1) as (cassandra, (process,)):
        await _shorten(cassandra, process)
        process.clocks.step(25 * HOUR_NS)
        await process.renew()
        assert await _life_s(cassandra, process) > LEFT_S


async def test_a_process_that_started_without_cassandra_gets_its_name(
    cassandra_address: CassandraAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def made_up(_: Cassandra) -> str:
        return "0badcafe"

    monkeypatch.setattr(cluster, "new_process_name", made_up)
    async with opened(cassandra_address, "", 1) as (cassandra, (process,)):
        assert process.rows.node == "0badcafe"
        assert not await cassandra.run_conditional(schema.NAME, "0badcafe")
