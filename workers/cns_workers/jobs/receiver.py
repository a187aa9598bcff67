"""Receives and decodes jobs of the internal queues. Jobs that cannot be decoded are withheld, and later quarantined.

A newer version may have written such a job, so other workers get the chance to read it first. If a loop got it, the job
would fail the loop's step again and again, and with it the other jobs of the same receive.
"""

from __future__ import annotations

import msgspec
import structlog

from cns.delivery import jobs
from cns.delivery.jobs import Job, PublishJob, Redelivery, TargetJob
from cns.queue_port.contract import LeasedJob, QueuePort
from cns_common.clock import Clock
from cns_workers.jobs.quarantine import LEASES_MAX, Quarantine

log = structlog.get_logger(__name__)


ReceivedPublishJob = tuple[LeasedJob, PublishJob]


class ReceivedJob(msgspec.Struct, frozen=True):
    """A leased job that says whom to send to, with what is known from earlier attempts."""

    leased: LeasedJob
    job: TargetJob
    failures: int
    first_attempt_ms: int  # now, if there was none yet
    returns: int = 0  # FIFO: its leases that ended without an attempt or a failure
    ended: str = ""  # why no attempt is left: only its dead-letter queue is tried
    is_new: bool = False  # as its producer made it: nothing was tried or deferred
    crashed: bool = False  # see `Redelivery`
    egress_ms: int = 0  # see `Redelivery`
    since_ms: int = 0  # of its first attempt, if that is stored, else when it was enqueued


class JobReceiver:
    def __init__(self, port: QueuePort, quarantine: Quarantine, clock: Clock, *, in_order: bool = False) -> None:
        """With `in_order`, the jobs of its group that are behind a withheld one are withheld with it."""
        self._port = port
        self._quarantine = quarantine
        self._clock = clock
        self._in_order = in_order

    async def publish_jobs(self, queue: str, n: int, lease_ms: int, wait_s: float) -> list[ReceivedPublishJob]:
        """Receive up to `n` jobs for a producer; waits up to `wait_s` for the first."""
        received: list[ReceivedPublishJob] = []
        withheld: set[str] = set()
        for leased in await self._port.receive(queue, n, lease_ms, wait_s):
            job = None if leased.group in withheld else _decode(leased.body)
            if isinstance(job, PublishJob):
                received.append((leased, job))
            else:
                await self._withhold(queue, leased, withheld)
        return received

    async def target_jobs(self, queue: str, n: int, lease_ms: int, wait_s: float) -> list[ReceivedJob]:
        """Receive up to `n` jobs for a consumer; waits up to `wait_s` for the first."""
        received: list[ReceivedJob] = []
        withheld: set[str] = set()
        for leased in await self._port.receive(queue, n, lease_ms, wait_s):
            job = None if leased.group in withheld else _decode(leased.body)
            if isinstance(job, Redelivery):
                received.append(
                    ReceivedJob(
                        leased,
                        job.job,
                        job.failures,
                        job.first_attempt_ms,
                        job.returns,
                        job.ended,
                        crashed=job.crashed,
                        egress_ms=job.egress_ms,
                        since_ms=job.first_attempt_ms,
                    )
                )
            elif isinstance(job, TargetJob):
                is_new = leased.deliveries == 1
                received.append(
                    ReceivedJob(leased, job, 0, self._clock.now_ms(), is_new=is_new, since_ms=leased.sent_ms)
                )
            else:
                await self._withhold(queue, leased, withheld)
        return received

    async def _withhold(self, queue: str, leased: LeasedJob, withheld: set[str]) -> None:
        """Leave the job leased: it comes again when its lease runs out. Notes its group in `withheld`."""
        if leased.group in withheld:
            return
        if leased.deliveries > LEASES_MAX:
            await self._quarantine.add(queue, leased, "", "it cannot be read")
            return
        log.warning("job.decode_failed", queue=queue, job=leased.id, deliveries=leased.deliveries)
        if self._in_order:
            withheld.add(leased.group)


def _decode(body: bytes) -> Job | None:
    try:
        return jobs.decode(body)
    except msgspec.MsgspecError:
        return None
