"""Settles jobs of one internal queue, and the references that they hold to stored notifications.

Three steps, in this order: a crash between them leaves a reference too many, never one too few.

1. Add the references of the jobs that follow.
2. Settle: enqueue the jobs that follow and delete or renew the job, in one commit where the engine can.
3. Release the reference of each deleted job, unless its lease had run out: then another worker has the job, and the
   reference with it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cns.queue_port.contract import NewJob, Renewal
from cns_workers.jobs.context import JobContext


class JobOutcome(msgspec.Struct, frozen=True):
    """The end of one leased job, or with a `renewal` its continuation. `new_jobs` follow from it."""

    handle: str
    notification_id: str = ""  # that it and `new_jobs` refer to; '' where they carry what is sent
    new_jobs: Sequence[NewJob] = ()
    renewal: Renewal | None = None


class JobSettlement:
    def __init__(self, queue: str, context: JobContext) -> None:
        self._queue = queue
        self._context = context

    def renewal(self, handle: str, visible_in_ms: int, body: bytes | None = None) -> Renewal:
        """Keep a job of this queue leased, or give it back with `visible_in_ms` 0; a `body` replaces its own."""
        return Renewal(self._queue, handle, visible_in_ms, body)

    async def settle(self, outcomes: Sequence[JobOutcome], renewals: Sequence[Renewal] = ()) -> None:
        """Settle jobs together. `renewals` are for further jobs of the queue."""
        for before_settle in self._context.observers.before_settle:
            before_settle(self._queue)
        handles: list[str] = []
        done: list[JobOutcome] = []
        new_jobs: list[NewJob] = []
        all_renewals = [*renewals]
        for outcome in outcomes:
            if outcome.notification_id and outcome.new_jobs:
                await self._context.references.add(outcome.notification_id, len(outcome.new_jobs))
            new_jobs += outcome.new_jobs
            if outcome.renewal is None:
                done.append(outcome)
                handles.append(outcome.handle)
            else:
                all_renewals.append(outcome.renewal)
        for after_references in self._context.observers.after_references:
            after_references(self._queue)
        still_leased = await self._context.port.settle(self._queue, handles, new_jobs, all_renewals)
        for after_settle in self._context.observers.after_settle:
            after_settle(self._queue, bool(done))
        for outcome, is_leased in zip(done, still_leased, strict=True):
            if not is_leased:  # the lease had run out, so the job's work may be done twice
                self.count_lost_lease()
            elif outcome.notification_id:
                await self._context.references.release(outcome.notification_id)

    def count_lost_lease(self) -> None:
        self._context.stats.count_lost_lease(self._queue)
