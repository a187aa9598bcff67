"""The cost of a workload in the backends: Cassandra statements, Redis commands, and the CPU of both."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import msgspec
import redis

from cns_common.cassandra.connection import CassandraAddress
from lab.harness import usage
from lab.measure.figures import US_PER_S, Figures, cores
from lab.measure.statement_count import Statements, statements_in

SCRIPT_CALLS = ("evalsha", "eval")
"""The engine calls Redis only with these commands; its scripts run the others."""
IGNORED_COMMANDS = ("info", "hello", "ping", "psubscribe", "client|setinfo")
"""Commands of connection setup and of this measurement."""


class Costs(Figures, frozen=True, kw_only=True):
    """Statements, calls, commands and CPU per unit of the workload; those of background loops are included."""

    statements: float
    redis_calls: float
    redis_commands: float
    cassandra_us: float
    redis_us: float


class CounterSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All counters at one moment."""

    statements: Statements
    commands: dict[str, int]
    cassandra_s: float
    redis_s: float


class Backends:
    """Cassandra, all its nodes on this machine, and a Redis. The service counts its statements into a directory."""

    def __init__(self, place: CassandraAddress, redis_url: str, statements_out: Path) -> None:
        self._redis: redis.Redis = redis.Redis.from_url(redis_url)
        self._nodes = [pid for host in place.hosts for pid in usage.listeners(place.port, host)]
        self._statements_out = statements_out
        self._last = self._snapshot()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._redis.close()

    def resident_bytes(self) -> tuple[int, int]:
        """Memory of Cassandra and of Redis."""
        redis_pid = self._redis.info("server")["process_id"]
        return sum(map(usage.resident_bytes, self._nodes)), usage.resident_bytes(redis_pid)

    def written_bytes(self) -> int:
        """Bytes of pages that Cassandra dirtied, its commit log included."""
        return sum(map(usage.written_bytes, self._nodes))

    async def begin(self) -> None:
        """Start counting for the next call of `costs`."""
        self._last = await asyncio.to_thread(self._snapshot)

    async def costs(self, *workloads: Figures) -> list[Costs]:
        """Costs since the last call or `begin`. Nothing else may use the backends meanwhile."""
        before = self._last
        await self.begin()
        return [costs_between(before, self._last, figures) for figures in workloads]

    def _snapshot(self) -> CounterSnapshot:
        used: Mapping[str, Any] = self._redis.info("cpu")
        commands: Mapping[str, Any] = self._redis.info("commandstats")
        return CounterSnapshot(
            statements=statements_in(self._statements_out),
            commands={name.removeprefix("cmdstat_"): stats["calls"] for name, stats in commands.items()},
            cassandra_s=sum(map(usage.cpu_s, self._nodes)),
            redis_s=used["used_cpu_user"] + used["used_cpu_sys"],
        )


def costs_between(before: CounterSnapshot, after: CounterSnapshot, figures: Figures) -> Costs:
    """The difference per unit of the workload."""
    units = max(figures.units, 1)
    commands = {
        name: n - before.commands.get(name, 0) for name, n in after.commands.items() if name not in IGNORED_COMMANDS
    }
    calls = sum(commands.pop(name, 0) for name in SCRIPT_CALLS)
    cassandra_s, redis_s = after.cassandra_s - before.cassandra_s, after.redis_s - before.redis_s
    others_share = figures.others_share - (cassandra_s + redis_s) / figures.seconds / cores()
    return Costs(
        **{**msgspec.structs.asdict(figures), "others_share": round(max(others_share, 0.0), 3)},
        statements=round(after.statements.since(before.statements).total / units, 2),
        redis_calls=round(calls / units, 2),
        redis_commands=round(sum(commands.values()) / units, 2),
        cassandra_us=round(cassandra_s / units * US_PER_S, 1),
        redis_us=round(redis_s / units * US_PER_S, 1),
    )
