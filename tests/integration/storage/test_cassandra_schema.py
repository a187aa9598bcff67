"""Keyspace and tables of the cluster form: creating them again changes nothing, and differences are reported."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from cns_backend import schema
from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.schema import CassandraTable, keyspace_text, read_table
from cns_common.cassandra.session import Cassandra, Row
from cns_common.errors import StoreUnavailable
from lab.harness import servers
from lab.harness.keyspace import emptied, keyspace

SCHEMA_0_1_0 = Path(__file__).with_name("schema_0_1_0.cql")
OPTIONS = {"default_time_to_live": "0", "gc_grace_seconds": "864000", "compaction": ""}


@pytest.mark.parametrize(
    ("text", "table"),
    [
        (
            "CREATE TABLE IF NOT EXISTS a(b text PRIMARY KEY, c counter)",
            CassandraTable(name="a", columns={"b": "text partition key 0", "c": "counter regular"}, options=OPTIONS),
        ),
        (
            "CREATE TABLE IF NOT EXISTS a (b text, c map<text, int>, d int, e int, f blob, PRIMARY KEY ((b, d), e, f))"
            " WITH CLUSTERING ORDER BY (e DESC, f ASC) AND default_time_to_live = 5"
            " AND compaction = {'class': 'TimeWindowCompactionStrategy', 'compaction_window_size': 6}",
            CassandraTable(
                name="a",
                columns={
                    "b": "text partition key 0",
                    "c": "map<text, int> regular",
                    "d": "int partition key 1",
                    "e": "int clustering key 0 desc",
                    "f": "blob clustering key 1 asc",
                },
                options={**OPTIONS, "default_time_to_live": "5", "compaction": "TimeWindowCompactionStrategy"},
            ),
        ),
    ],
)
def test_tables_of_a_schema_text(text: str, table: CassandraTable) -> None:
    assert read_table(text) == table


def test_every_table_is_declared_once() -> None:
    names = [read_table(text).name for text in schema.TABLES]
    assert len(set(names)) == len(names) > 20


@pytest.mark.extended
async def test_each_difference_is_a_line(cassandra_address: CassandraAddress) -> None:
    with keyspace() as place:
        assert await schema.check(place, 1) == []
        cassandra = await Cassandra.open(place)
        for change in (
            "ALTER TABLE queues DROP target_arn",
            "ALTER TABLE queues ADD stray int",
            "ALTER TABLE queue_deletions WITH default_time_to_live = 1",
            "DROP TABLE leases",
        ):
            await cassandra.run_schema(change)
        await cassandra.close()
        assert await schema.check(place, 2) == [
            f"keyspace {place.keyspace} has 1 replicas in datacenter1, not 2",
            "column queues.stray is int regular, not wanted",
            "column queues.target_arn is missing, not text regular",
            "table queue_deletions: default_time_to_live is 1, not 172800",
            "table leases is missing",
        ]
        await schema.apply(place, 1)
        assert await schema.check(place, 1) == ["column queues.stray is int regular, not wanted"]
    missing = replace(cassandra_address, keyspace="absent")
    assert await schema.check(missing, 1) == ["keyspace absent is missing"]


@asynccontextmanager
async def _keyspace_of_0_1_0() -> AsyncIterator[tuple[CassandraAddress, Cassandra]]:
    """`schema_0_1_0.cql` is what `cns schema show` of cns 0.1.0 printed. Options of its tables differ, too."""
    host, port = servers.cassandra_address()
    place = CassandraAddress(hosts=(host,), port=port, keyspace=servers.fresh_keyspace())
    bare = await Cassandra.open(place, keyspace=False)
    try:
        await bare.run_schema(keyspace_text(place, 1))
        await bare.run_schema(f"USE {place.keyspace}")
        for text in SCHEMA_0_1_0.read_text().split(";\n")[:-1]:
            await bare.run_schema(text)
        await bare.run_schema("INSERT INTO accounts (shard, account, created_ms) VALUES (0, '123456789012', 1)")
        yield place, bare
    finally:
        await bare.run_schema(f"DROP KEYSPACE {place.keyspace}")
        await bare.close()


@pytest.mark.extended
async def test_a_keyspace_of_0_1_0_is_as_declared_after_apply() -> None:
    async with _keyspace_of_0_1_0() as (place, bare):
        assert "table cqs_garbage: gc_grace_seconds is 864000, not 14400" in await schema.check(place, 1)
        await schema.apply(place, 1)
        assert await schema.check(place, 1) == []
        assert await schema.missing(bare, place.keyspace) == []
        assert len(await bare.run_schema("SELECT * FROM accounts")) == 1


@pytest.mark.extended
async def test_apply_goes_on_after_it_was_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first run is stopped before its first statement, each later one ten statements later than the one before."""
    run_schema, left = Cassandra.run_schema, [0]

    async def run_or_stop(self: Cassandra, cql: str) -> list[Row]:
        left[0] -= 1
        if left[0] < 0:
            raise StoreUnavailable("stopped")
        return await run_schema(self, cql)

    async with _keyspace_of_0_1_0() as (place, bare):
        stopped = 0
        with monkeypatch.context() as patched:
            patched.setattr(Cassandra, "run_schema", run_or_stop)
            while True:
                left[0] = 10 * stopped
                try:
                    await schema.apply(place, 1)
                except StoreUnavailable:
                    stopped += 1
                else:
                    break
        assert stopped > 5
        assert await schema.check(place, 1) == []
        assert len(await bare.run_schema("SELECT * FROM accounts")) == 1


LATE = """
import sys
from cassandra import OperationTimedOut
from cns_common.cassandra.session import Cassandra

answer, answers = Cassandra._try, iter(range(int(sys.argv.pop(1))))

async def late(self, *statement):
    if next(answers, None) is None:
        raise OperationTimedOut
    return await answer(self, *statement)

Cassandra._try = late
from lab.harness.waiting import PATIENCE_S
from cns_cli.main import main

main()
"""


@pytest.mark.parametrize(
    ("words", "answered"),
    [("api", 0), ("api", 9), ("worker", 0), ("worker", 9), ("schema check", 1), ("schema apply", 1)],
)
async def test_a_start_while_cassandra_is_slow_is_one_line(
    cassandra_address: CassandraAddress, tmp_path: Path, words: str, answered: int
) -> None:
    """Cassandra answers the first statements in time, and no other."""
    place = cassandra_address
    async with emptied(place):
        pass  # of another master key
    environment = {
        **os.environ,
        "CNS_STORE": "cassandra",
        "CNS_CASSANDRA": f"{place.hosts[0]}:{place.port}",
        "CNS_CASSANDRA_KEYSPACE": place.keyspace,
        "CNS_CASSANDRA_REPLICATION": "1",
        "CNS_DATA": str(tmp_path),
        "CNS_PORT": "0",
        "CNS_LOG_LEVEL": "error",
    }
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", LATE, str(answered), *words.split()],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    last = done.stderr.splitlines()[-1]
    assert (done.returncode, last.startswith("cns: "), "Traceback" in done.stderr) == (78, True, False), done.stderr
