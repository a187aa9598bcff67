"""What a drained cluster leaves: no message in any queue's rows, and no complaint in its processes' logs."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from datetime import datetime

import msgspec

from common.cassandra import Cassandra, Place
from tests.cluster import Cluster
from tests.faults.ledger import NS_PER_S
from tests.faults.remains import COMPLAINTS, TEXT_SHOWN

LOOK_S = 0.25
ROWS = "SELECT queue, id FROM cqs_messages"
FAILURES = ("job.failed", "loop.failed")
BROKER = "celery.said"
"""What Celery says of a broker that is away is no complaint of ours."""


async def rows_at_rest(place: Place, within_s: float) -> list[str]:
    """What is left of messages in the rows, tenants' and internal queues'; best nothing."""
    cassandra = await Cassandra.open(place)
    try:
        until_s = time.monotonic() + within_s
        while (left := await _left(cassandra)) and time.monotonic() < until_s:
            await asyncio.sleep(LOOK_S)
    finally:
        await cassandra.close()
    return [f"left: {n} rows of {queue}" for queue, n in left.items()]


async def _left(cassandra: Cassandra) -> Counter[str]:
    rows = await cassandra.run_schema(ROWS)
    return Counter(queue for queue, message_id in rows if message_id is not None)


class Logs:
    """What a cluster's processes say from now on."""

    def __init__(self, cluster: Cluster) -> None:
        self._from = {process.said_path: len(process.said()) for process in cluster.processes}

    def complaints(self) -> list[str]:
        return [
            f"complaint: {line[:TEXT_SHOWN]}"
            for line in self._lines()
            if any(word in line for word in COMPLAINTS) and _event(line) != BROKER
        ]

    def failures_ns(self) -> list[int]:
        """When workers said that the store had failed them."""
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
    """Of a line that is an event; of any other, none."""
    if not line.startswith("{"):
        return {}
    found = msgspec.json.decode(line)
    return {name: value for name, value in found.items() if isinstance(value, str)}
