"""The cost of a workload in the backends: Cassandra statements, Redis commands, and the CPU of both.

The backends count, not the service: retries and statements of the service's background loops are included.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Self

import msgspec
import redis
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import DCAwareRoundRobinPolicy

from cns_common.cassandra.connection import PROTOCOL_VERSION, CassandraAddress
from lab.harness.server import Server
from lab.harness.usage import cpu_s, listeners, resident_bytes, sockets, written_bytes
from lab.measure.figures import US_PER_S, Figures, cores

CLIENTS = "SELECT port, request_count FROM system_views.clients"
"""Requests of each connection of the queried node."""
SCRIPT_CALLS = ("evalsha", "eval")
"""The engine calls Redis only with these commands; its scripts run the others."""
IGNORED_COMMANDS = ("info", "hello", "ping", "psubscribe", "client|setinfo")
"""Commands of connection setup and of this measurement."""


class Costs(Figures, frozen=True, kw_only=True):
    """Statements, calls, commands and CPU per unit of the workload."""

    statements: float
    redis_calls: float
    redis_commands: float
    cassandra_us: float
    redis_us: float


class CounterSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All counters at one moment."""

    statements: dict[tuple[str, int], int]  # by (node, client port of the connection)
    commands: dict[str, int]
    cassandra_s: float
    redis_s: float


class Backends:
    """Cassandra, all its nodes on this machine, and a Redis."""

    def __init__(self, place: CassandraAddress, redis_url: str) -> None:
        profile = ExecutionProfile(load_balancing_policy=DCAwareRoundRobinPolicy(place.data_centre))
        self._cluster = Cluster(
            place.hosts,
            port=place.port,
            protocol_version=PROTOCOL_VERSION,
            execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        )
        self._session = self._cluster.connect()
        self._redis: redis.Redis = redis.Redis.from_url(redis_url)
        self._nodes = {host: listeners(place.port, host.address)[0] for host in self._cluster.metadata.all_hosts()}
        self._last = self._snapshot()

    def close(self) -> None:
        self._cluster.shutdown()
        self._redis.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def resident_bytes(self) -> tuple[int, int]:
        """Memory of Cassandra and of Redis."""
        redis_pid = self._redis.info("server")["process_id"]
        return sum(map(resident_bytes, self._nodes.values())), resident_bytes(redis_pid)

    def written_bytes(self) -> int:
        """Bytes of pages that Cassandra dirtied, its commit log included."""
        return sum(map(written_bytes, self._nodes.values()))

    async def begin(self) -> None:
        """Start counting for the next call of `costs`."""
        self._last = await asyncio.to_thread(self._snapshot)

    async def costs(self, server: Server, *workloads: Figures) -> list[Costs]:
        """Costs since the last call or `begin`. Nothing else may use the backends meanwhile."""
        before = self._last
        await self.begin()
        ports = {port for pid in server.processes() for port in sockets(pid).local}
        return [costs_between(before, self._last, figures, ports) for figures in workloads]

    def _snapshot(self) -> CounterSnapshot:
        statements = {
            (node.address, port): requests
            for node in self._nodes
            for port, requests in self._session.execute(CLIENTS, host=node)
        }
        used: Mapping[str, Any] = self._redis.info("cpu")
        commands: Mapping[str, Any] = self._redis.info("commandstats")
        return CounterSnapshot(
            statements=statements,
            commands={name.removeprefix("cmdstat_"): stats["calls"] for name, stats in commands.items()},
            cassandra_s=sum(map(cpu_s, self._nodes.values())),
            redis_s=used["used_cpu_user"] + used["used_cpu_sys"],
        )


def costs_between(before: CounterSnapshot, after: CounterSnapshot, figures: Figures, ports: set[int]) -> Costs:
    """The difference per unit of the workload. Counts statements of connections from `ports` only."""
    units = max(figures.units, 1)
    statements = sum(n - before.statements.get(at, 0) for at, n in after.statements.items() if at[1] in ports)
    commands = {
        name: n - before.commands.get(name, 0) for name, n in after.commands.items() if name not in IGNORED_COMMANDS
    }
    calls = sum(commands.pop(name, 0) for name in SCRIPT_CALLS)
    cassandra_s, redis_s = after.cassandra_s - before.cassandra_s, after.redis_s - before.redis_s
    others_share = figures.others_share - (cassandra_s + redis_s) / figures.seconds / cores()
    return Costs(
        **{**msgspec.structs.asdict(figures), "others_share": round(max(others_share, 0.0), 3)},
        statements=round(statements / units, 2),
        redis_calls=round(calls / units, 2),
        redis_commands=round(sum(commands.values()) / units, 2),
        cassandra_us=round(cassandra_s / units * US_PER_S, 1),
        redis_us=round(redis_s / units * US_PER_S, 1),
    )
