"""`cns doctor` in the cluster form, against real servers: what is well, and each mistake with its mend."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cns_cli.doctor.cluster import check_cassandra, check_redis
from cns_cli.doctor.findings import CheckResult
from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Cassandra
from cns_common.configuration.settings import Settings
from lab.harness.keyspace import keyspace
from lab.harness.own_redis import OwnRedis
from lab.harness.ports import free_port
from lab.harness.waiting import wait_until
from tests.integration.cqs.engines.cache.test_sentinel import NAME, sentinel

pytestmark = pytest.mark.extended
KEY = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="


@pytest.fixture(scope="module")
def place() -> Iterator[CassandraAddress]:
    with keyspace() as address:
        yield address


def settings_of(place: CassandraAddress, **more: Any) -> Settings:
    known: dict[str, Any] = {
        "store": "cassandra",
        "master_key": KEY,
        "cassandra": f"{place.hosts[0]}:{place.port}",
        "cassandra_keyspace": place.keyspace,
        "cassandra_replication": 1,
    }
    return Settings(**{**known, **more})


def levels(found: list[CheckResult]) -> list[tuple[str, str]]:
    return [(one.check, one.level) for one in found]


def accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return False
    return True


WELL = [("cassandra", "ok"), ("schema", "ok"), ("cassandra clock", "ok")]


async def test_a_cluster_that_is_well(place: CassandraAddress) -> None:
    assert levels(await check_cassandra(settings_of(place))) == WELL


async def test_a_node_that_is_away_is_a_warning_while_another_answers(place: CassandraAddress) -> None:
    away = f"127.0.0.2:{place.port},{place.hosts[0]}:{place.port}"
    found = await check_cassandra(settings_of(place, cassandra=away))
    assert levels(found)[0] == ("cassandra", "warning")
    assert levels(found)[1:] == WELL
    gone = await check_cassandra(settings_of(place, cassandra=f"127.0.0.1:{free_port()}"))
    assert levels(gone) == [("cassandra", "problem")]
    assert "cannot be reached: Connection refused" in gone[0].text


async def test_tables_that_are_missing(place: CassandraAddress) -> None:
    absent = await check_cassandra(settings_of(place, cassandra_keyspace="no_such_keyspace"))
    assert [one.level for one in absent] == ["ok", "problem"]
    assert "cns schema apply" in absent[1].mend
    cassandra = await Cassandra.open(place)
    await cassandra.run_schema("ALTER TABLE accounts WITH gc_grace_seconds = 17")
    differs = await check_cassandra(settings_of(place))
    await cassandra.run_schema("ALTER TABLE accounts WITH gc_grace_seconds = 864000")
    await cassandra.close()
    assert levels(differs) == [("cassandra", "ok"), ("schema", "problem")]
    assert "gc_grace_seconds" in differs[1].text


async def test_redis(place: CassandraAddress, own_redis: OwnRedis, tmp_path: Path) -> None:
    settings = settings_of(place, redis=own_redis.url)
    assert levels(await check_redis(settings)) == [("redis", "ok")]
    assert levels(await check_redis(settings_of(place, redis=""))) == [("redis", "warning")]
    own_redis.kill()
    (away,) = await check_redis(settings)
    assert (away.level, "does not answer" in away.text) == ("warning", True)
    evicting = OwnRedis(tmp_path, options=("--maxmemory-policy", "allkeys-lru", "--requirepass", "secret"))
    evicting.start()
    host = f"127.0.0.1:{evicting.port}/0"
    refused, wrong = await check_redis(settings_of(place, redis=f"a=redis://{host} b=redis://:secret@{host}"))
    evicting.kill()
    assert (refused.level, "refuses the password" in refused.text) == ("problem", True)
    assert (wrong.level, "maxmemory-policy allkeys-lru" in wrong.text) == ("problem", True)
    assert "secret" not in wrong.text + refused.text


async def test_redis_that_sentinels_name(place: CassandraAddress, own_redis: OwnRedis, tmp_path: Path) -> None:
    with sentinel(tmp_path, own_redis) as port:
        settings = settings_of(place, redis=f"redis+sentinel://127.0.0.1:{port}/{NAME}")
        wait_until(lambda: accepts(port))
        assert levels(await check_redis(settings)) == [("redis", "ok")]
        unknown = settings_of(place, redis=f"redis+sentinel://127.0.0.1:{port}/other")
        assert levels(await check_redis(unknown)) == [("redis", "warning")]
