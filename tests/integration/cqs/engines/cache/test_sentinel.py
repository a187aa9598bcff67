"""A Redis that Sentinels watch: after its fail-over all processes use the new primary, and nobody is given what another
one holds. A node of a Redis Cluster is refused."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import redis

from cns_common.cassandra.connection import CassandraAddress as Cluster
from cns_common.durations import HOUR_MS
from cns_common.errors import EXIT_SETTINGS_WRONG, StartError
from cqs.engines.contract import Outcome
from lab.harness.own_redis import OwnRedis
from lab.harness.ports import free_port
from lab.harness.waiting import wait_until
from tests.conformance.support import bodies, numbered
from tests.integration.cqs.engines.cache.test_cache_trust import another_redis, drain_both
from tests.integration.cqs.engines.cache.test_redis_outage import processes, receive_soon, repeats_counted, until_up

NAME = "queues"
DOWN_MS = 1_500

pytestmark = pytest.mark.extended


@contextmanager
def sentinel(directory: Path, primary: OwnRedis) -> Iterator[int]:
    """One Sentinel, which decides alone. Returns its port."""
    port = free_port()
    settings = directory / f"sentinel-{port}.conf"
    settings.write_text(
        f"port {port}\nbind 127.0.0.1\ndir {directory}\n"
        f"sentinel monitor {NAME} 127.0.0.1 {primary.port} 1\n"
        f"sentinel down-after-milliseconds {NAME} {DOWN_MS}\nsentinel failover-timeout {NAME} 10000\n"
    )
    program = shutil.which("redis-server")
    assert program
    process = subprocess.Popen([program, str(settings), "--sentinel"], stdout=subprocess.DEVNULL)
    try:
        yield port
    finally:
        process.kill()
        process.wait()


def _knows_replica(port: int) -> bool:
    try:
        with redis.Redis(port=port, decode_responses=True) as client:
            return bool(client.execute_command("SENTINEL REPLICAS", NAME))
    except redis.ConnectionError:
        return False


def _primary_port(port: int) -> int:
    with redis.Redis(port=port, decode_responses=True) as client:
        return int(client.execute_command("SENTINEL GET-MASTER-ADDR-BY-NAME", NAME)[1])


async def test_a_fail_over_by_sentinel(cassandra_address: Cluster, own_redis: OwnRedis, tmp_path: Path) -> None:
    with ExitStack() as stack:
        replica = stack.enter_context(another_redis(tmp_path))
        client = stack.enter_context(redis.Redis(port=replica.port))
        client.replicaof("127.0.0.1", str(own_redis.port))
        wait_until(lambda: client.info("replication")["master_link_status"] == "up")
        port = stack.enter_context(sentinel(tmp_path, own_redis))
        wait_until(lambda: _knows_replica(port))
        url = f"redis+sentinel://127.0.0.1:1,127.0.0.1:{port}/{NAME}"  # the first Sentinel is down
        async with processes(cassandra_address, url, url) as ((one, _), (two, _)):
            await until_up(one, two)
            await one.send(*numbered(30))
            held = [*await receive_soon(one, 10, HOUR_MS), *await receive_soon(two, 10, HOUR_MS)]
            own_redis.kill()
            held += await drain_both(one, two, want=10)
            wait_until(lambda: _primary_port(port) == replica.port)
            await until_up(one, two)
            assert client.dbsize() > 0
            assert not [*await one.take(), *await two.take()]
            assert sorted(bodies(held)) == numbered(30)
            assert await one.delete(*held) == [Outcome.DONE] * 30
            assert repeats_counted(one, two) == 0


async def test_a_redis_cluster_is_refused(cassandra_address: Cluster, tmp_path: Path) -> None:
    files = str(tmp_path / "nodes.conf")
    with another_redis(tmp_path, "--cluster-enabled", "yes", "--cluster-config-file", files) as node:
        with pytest.raises(StartError, match="is a node of a Redis Cluster") as refused:
            async with processes(cassandra_address, node.url):
                pass
        assert refused.value.exit_code == EXIT_SETTINGS_WRONG
