"""Jobs that were begun too often and never finished: set aside to be looked at, instead of harming for ever."""

from __future__ import annotations

import structlog

from cns import jobs
from cns.queue_port import Held, Put, QueuePort
from workers.stats import Stats

LEASES_MAX = 5
"""A job whose lease ran out so many times without progress is set aside."""

log = structlog.get_logger(__name__)


class Quarantine:
    def __init__(self, port: QueuePort, stats: Stats) -> None:
        self._port = port
        self._stats = stats

    async def takes(self, queue: str, held: Held, topic: str, *, expected: int = 0) -> bool:
        """Whether the job was set aside, and is no longer the caller's. `expected` of its leases ended well."""
        if held.deliveries - expected <= LEASES_MAX:
            return False
        put = Put(jobs.QUARANTINE, held.id, held.body, topic)
        await self._port.settle(queue, [held.handle], [put])
        self._stats.quarantined(queue)
        log.error("job.quarantined", queue=queue, job=held.id, topic=topic)
        return True
