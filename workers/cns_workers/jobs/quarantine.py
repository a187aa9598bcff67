"""Quarantine: jobs that were leased too often without progress are set aside for a person to look at.

A lease also runs out because a store is away, which is not the job's fault, and a worker without a store can write
nothing down. So the last lease that a job gets is a trial. It is recorded before the job begins, in the store that the
job needs. When the trial ends, the record is deleted, unless the job's own run crashed. So a worker that gets the job
again and finds the record knows that the job killed its process, hung, or crashed.
"""

from __future__ import annotations

import asyncio

import msgspec
import structlog

from cns.delivery import jobs
from cns.delivery.quarantined_job import QuarantinedJob, quarantine_id
from cns.queue_port.contract import LeasedJob, NewJob, QueuePort
from cns_backend.stores.contract import LeaseStore
from cns_common.clock import Clock
from cns_common.errors import CnsError
from cns_common.ids import hex_id
from cns_common.process.kill_points import JOB_LAST_ATTEMPT, kill_point
from cns_workers.stats import Stats

LEASES_MAX = 5
"""A job whose lease ran out this often without progress is quarantined."""
TASK = "trial"
TRIAL_MS = 86_400_000
"""After this time a record is no longer valid, and the job gets another trial."""
RETRY_S = 0.5

log = structlog.get_logger(__name__)


class Quarantine:
    def __init__(self, port: QueuePort, leases: LeaseStore, clock: Clock, stats: Stats) -> None:
        self._port = port
        self._leases = leases
        self._clock = clock
        self._stats = stats
        self._deletions: set[asyncio.Task[None]] = set()

    async def intercept(self, queue: str, leased: LeasedJob, topic: str, *, expected: int = 0) -> bool:
        """Quarantine the job if it was leased too often. Returns True if it was: the caller no longer has the job.

        Must be called in a task of the job's own: the trial ends as the task does. `expected` of the job's leases ended
        without a failure of the job.
        """
        leases = leased.deliveries - expected
        if leases < LEASES_MAX or await self._begin_trial(queue, leased):
            return False
        await self.add(queue, leased, topic, f"its lease ran out {leases - 1} times")
        return True

    async def add(self, queue: str, leased: LeasedJob, topic: str, why: str) -> None:
        """Move the job into quarantine. References to a stored notification move with it."""
        item = QuarantinedJob(queue, leased.id, leased.group or topic, topic, self._clock.now_ms(), why, leased.body)
        new_job = NewJob(jobs.QUARANTINE, quarantine_id(item), msgspec.msgpack.encode(item), topic)
        await self._port.settle(queue, [leased.handle], [new_job])
        self._stats.count_quarantined_job(queue)
        log.error("job.quarantined", queue=queue, job=leased.id, topic=topic, why=why)

    async def _begin_trial(self, queue: str, leased: LeasedJob) -> bool:
        """Returns False when the record of an earlier trial is still there."""
        part, holder = f"{queue}/{leased.id}", hex_id()
        if not await self._leases.take(TASK, part, holder, TRIAL_MS, self._clock.now_ms()):
            return False
        run = asyncio.current_task()
        assert run is not None, "a job is run in a task"
        run.add_done_callback(lambda ended: self._end_trial(ended, part, holder))
        kill_point(JOB_LAST_ATTEMPT)
        return True

    def _end_trial(self, run: asyncio.Task[object], part: str, holder: str) -> None:
        error = None if run.cancelled() else run.exception()
        if error is None or isinstance(error, CnsError):
            deletion = asyncio.create_task(self._delete_record(part, holder))
            self._deletions.add(deletion)
            deletion.add_done_callback(self._deletions.discard)

    async def _delete_record(self, part: str, holder: str) -> None:
        """Retry until it succeeds: the store may be away. The job's lease, which may have run out, is not needed."""
        while True:
            try:
                # learn first whether the record was stored: the answer of `_begin_trial` may have been lost
                await self._leases.take(TASK, part, holder, 0, self._clock.now_ms())
                await self._leases.give_back(TASK, part, holder)
            except CnsError as error:
                log.info("quarantine_trial.removal_failed", job=part, error=str(error))
                await asyncio.sleep(RETRY_S)
            else:
                return
