"""The state of a drained cluster: no message in any queue's rows or log, and no error in its processes' logs."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from datetime import datetime

import msgspec

from cns_common.cassandra.connection import CassandraAddress
from cns_common.cassandra.session import Cassandra
from cns_common.clock import Clock
from cqs.engines.cassandra.clock_skew import ClockSkew
from cqs.engines.cluster.fifo.commands import Command, FifoSend
from cqs.engines.cluster.fifo.log import CommandLog
from cqs.engines.cluster.fifo.log_time import LogTime
from cqs.engines.cluster.fifo.snapshots import Snapshots
from lab.faults.accounting.ledger import NS_PER_S, Ledger
from lab.faults.service.leftovers import COMPLAINTS, TEXT_SHOWN
from lab.harness.cluster import Cluster

POLL_INTERVAL_S = 0.25
ROWS = "SELECT queue, id FROM cqs_messages"
FIFO_QUEUES = "SELECT DISTINCT queue, segment FROM cqs_fifo_log"
FAILURES = ("job.failed", "loop.failed")
BROKER = "celery.message_logged"
"""Celery's own messages about an unreachable broker are expected."""


class Leftovers:
    """Messages left in Cassandra, read by an observer that changes nothing: rows, and the folded logs of FIFO queues.

    A FIFO queue's rows are bodies that its log refers to. A crash before a send's append, or after a delete's append,
    leaves an unreferenced body: its TTL removes it, and it is counted apart.
    """

    def __init__(self, cassandra: Cassandra, ledger: Ledger) -> None:
        self._cassandra = cassandra
        self._ledger = ledger
        clock = Clock()
        self._time = LogTime(clock, ClockSkew(cassandra, clock))
        self._images = Snapshots(cassandra, self._time)
        self._logs: dict[str, CommandLog] = {}
        self._bodies_before = 0

    @classmethod
    async def open(cls, place: CassandraAddress, ledger: Ledger) -> Leftovers:
        """Start observing: rows that exist now belong to earlier rounds."""
        leftovers = cls(await Cassandra.open(place), ledger)
        await leftovers._follow()
        leftovers._bodies_before = sum((await leftovers._bodies()).values())
        ledger.moves.clear()
        return leftovers

    async def close(self) -> None:
        await self._cassandra.close()

    async def left(self) -> Counter[str]:
        """The number of messages in each queue that has any."""
        await self._follow()
        rows = await self._rows()
        kept = Counter({queue: len(log.state.order.messages) for queue, log in self._logs.items()})
        return +(Counter({queue: n for queue, n in rows.items() if queue not in self._logs}) + kept)

    async def messages(self, within_s: float) -> list[str]:
        """A fault for each queue, tenants' or internal, that still has messages after `within_s`."""
        until_s = time.monotonic() + within_s
        while (left := await self.left()) and time.monotonic() < until_s:
            await asyncio.sleep(POLL_INTERVAL_S)
        return [f"left: {n} of {queue}" for queue, n in left.items()]

    async def bodies(self) -> int:
        """The number of unreferenced bodies of this round; call it when no message is left."""
        return sum((await self._bodies()).values()) - self._bodies_before

    async def _bodies(self) -> Counter[str]:
        rows = await self._rows()
        return Counter({queue: n for queue, n in rows.items() if queue in self._logs})

    async def _rows(self) -> Counter[str]:
        rows = await self._cassandra.run_schema(ROWS)
        return Counter(queue for queue, message_id in rows if message_id is not None)

    async def _follow(self) -> None:
        for queue, _ in await self._cassandra.run_schema(FIFO_QUEUES):
            if queue not in self._logs:
                self._logs[queue] = CommandLog(self._cassandra, self._images, self._time, queue, self._note)
        for log in self._logs.values():
            await log.catch_up()

    def _note(self, _: CommandLog, commands: Sequence[Command], by_us: bool) -> None:
        """Record moves to a dead-letter queue: sends of messages that already have deliveries."""
        assert not by_us
        for command in commands:
            if isinstance(command, FifoSend):
                at_ns = self._ledger.wall_ns(command.now_ms)
                for message in command.messages:
                    if message.deliveries:
                        self._ledger.moves.setdefault(message.id, []).append(at_ns)


class Logs:
    """The log lines of a cluster's processes from now on."""

    def __init__(self, cluster: Cluster) -> None:
        self._from = {process.log: len(process.output()) for process in cluster.processes}

    def complaints(self) -> list[str]:
        return [
            f"complaint: {line[:TEXT_SHOWN]}"
            for line in self._lines()
            if any(word in line for word in COMPLAINTS) and _event(line) != BROKER
        ]

    def failures_ns(self) -> list[int]:
        """When workers logged a failure of the store."""
        return [
            int(datetime.fromisoformat(fields["timestamp"]).timestamp() * NS_PER_S)
            for fields in map(_fields, self._lines())
            if fields.get("event") in FAILURES
        ]

    def _lines(self) -> list[str]:
        return [line for path, start in self._from.items() for line in path.read_text()[start:].splitlines()]


def _event(line: str) -> str:
    return _fields(line).get("event", "")


def _fields(line: str) -> dict[str, str]:
    """The fields of a JSON log line; none for other lines."""
    if not line.startswith("{"):
        return {}
    found = msgspec.json.decode(line)
    return {name: value for name, value in found.items() if isinstance(value, str)}
