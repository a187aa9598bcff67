"""The queue port as a worker's loops have it: a job that cannot be read is kept from them, and set aside in the end.

One may have been written by a newer version, so others are given the chance to read it. Handed to a loop, it would end
the step over and over again, and with it what other jobs came in one receive.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import structlog

from cns.delivery import jobs
from cns.queue_port.contract import EnqueuedJob, LeasedJob, NewJob, QueueMessage, QueuePort, Refusal, Renewal
from workers.consumers.quarantine import LEASES_MAX, Quarantine

_PUBLISHES = (jobs.PUBLISH_JOBS, jobs.FIFO_PUBLISH_JOBS)

log = structlog.get_logger(__name__)


class SiftedPort:
    """See `cns.queue_port.contract.QueuePort`."""

    def __init__(self, port: QueuePort, quarantine: Quarantine) -> None:
        self._port = port
        self._quarantine = quarantine

    async def receive(self, queue: str, n: int, lease_ms: int, wait_s: float) -> list[LeasedJob]:
        return [
            held
            for held in await self._port.receive(queue, n, lease_ms, wait_s)
            if _is_readable(queue, held) or await self._keep(queue, held)
        ]

    async def _keep(self, queue: str, held: LeasedJob) -> bool:
        """False: it is not handed out, and comes again when its lease has run out."""
        if held.deliveries > LEASES_MAX:
            await self._quarantine.set_aside(queue, held, "", "it cannot be read")
        else:
            log.warning("job.decode_failed", queue=queue, job=held.id, deliveries=held.deliveries)
        return False

    # -- as they are --------------------------------------------------------------------------------------------------

    async def enqueue(self, new_jobs: Sequence[NewJob]) -> None:
        await self._port.enqueue(new_jobs)

    async def enqueue_in_order(self, new_jobs: Sequence[NewJob]) -> list[EnqueuedJob]:
        return await self._port.enqueue_in_order(new_jobs)

    async def settle(
        self, queue: str, deletes: Sequence[str] = (), new_jobs: Sequence[NewJob] = (), renewals: Sequence[Renewal] = ()
    ) -> list[bool]:
        return await self._port.settle(queue, deletes, new_jobs, renewals)

    async def deliver(self, queue_arn: str, messages: Sequence[QueueMessage], topic_arn: str) -> list[str | Refusal]:
        return await self._port.deliver(queue_arn, messages, topic_arn)

    async def depth(self, queue: str) -> int:
        return await self._port.depth(queue)

    def stop_waiting(self) -> None:
        self._port.stop_waiting()

    async def close(self) -> None:
        await self._port.close()


def _is_readable(queue: str, held: LeasedJob) -> bool:
    try:
        job = jobs.decode(held.body)
    except msgspec.MsgspecError:
        return False
    return isinstance(job, jobs.PublishJob) == (queue in _PUBLISHES)
