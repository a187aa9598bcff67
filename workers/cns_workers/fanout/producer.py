"""The producer of standard topics: fans a publish job out into endpoint jobs, one page of subscriptions at a time.

A publish job stays one message in its queue until its last page: a settlement sends the page's jobs and writes the next
cursor into it. On engines where these are two steps, a crash between them repeats this page only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from cns.delivery import jobs
from cns.delivery.failure_causes import FinalCause
from cns.delivery.jobs import EndpointJob, PublishJob
from cns.notification import Notification
from cns.publishing.matching import MatchPage
from cns.queue_port.contract import LeasedJob, NewJob
from cns_common.process.kill_points import PUBLISH_RECEIVED, kill_point
from cns_workers.fanout.context import FanoutContext
from cns_workers.jobs.receiver import JobReceiver
from cns_workers.jobs.settlement import JobOutcome, JobSettlement

QUEUE = jobs.PUBLISH_JOBS
LEASE_MS = 30_000
JOBS_A_STEP = 10
WAIT_S = 20.0
EMPTY_PAGE = MatchPage((), "")


class Producer:
    def __init__(self, context: FanoutContext) -> None:
        self._context = context
        self._receiver = JobReceiver(context.port, context.quarantine, context.clock)
        self._settlement = JobSettlement(QUEUE, context)

    async def step(self) -> None:
        """Handle one page of each of up to ten publish jobs.

        The first failure is raised after all of them were tried, so that one job's failure costs no other its lease.
        Where the store is slow, jobs are left over whose lease has ended: another producer may have them.
        """
        failures: list[Exception] = []
        received = await self._receiver.publish_jobs(QUEUE, JOBS_A_STEP, LEASE_MS, WAIT_S)
        leased_until_ms = self._context.clock.now_ms() + LEASE_MS
        for leased, job in received:
            if self._context.clock.now_ms() >= leased_until_ms:
                self._context.stats.count_lost_lease(QUEUE)
                continue
            # a task for each job: the quarantine watches how it ends
            (failure,) = await asyncio.gather(self._run(leased, job), return_exceptions=True)
            if isinstance(failure, Exception):
                failures.append(failure)
        if failures:
            raise failures[0]

    async def _run(self, leased: LeasedJob, job: PublishJob) -> None:
        kill_point(PUBLISH_RECEIVED)
        if not await self._context.quarantine.intercept(QUEUE, leased, job.topic, expected=job.waits):
            await self._fan_out(leased, job)

    async def _fan_out(self, leased: LeasedJob, job: PublishJob) -> None:
        context, began_ms = self._context, self._context.clock.monotonic_ms()
        notification = job.inline or await context.notifications.get(job.notification_id)
        if notification is None:
            context.drop(job, FinalCause.NOTIFICATION_LOST)
            await self._settlement.settle([JobOutcome(leased.handle)])
            return
        if await context.is_of_earlier_topic(job):
            context.drop(job, FinalCause.SUBSCRIPTION_GONE)
            await self._settlement.settle([JobOutcome(leased.handle, job.stored_id)])
            return
        if not job.cursor:
            context.count_wait(QUEUE, notification)
        with context.span(QUEUE, notification):
            await self._fan_out_page(leased, job, notification)
        context.count_fanout(QUEUE, began_ms)

    async def _fan_out_page(self, leased: LeasedJob, job: PublishJob, notification: Notification) -> None:
        context = self._context
        page = await context.matcher.page(job.topic, notification, job.cursor, jobs.PAGE_SUBSCRIPTIONS)
        if page == EMPTY_PAGE and not job.cursor:  # there were over a hundred at the publish: the topic was deleted
            context.drop(job, FinalCause.SUBSCRIPTION_GONE)
        chunks = [page.arns[start : start + jobs.TARGETS_MAX] for start in range(0, len(page.arns), jobs.TARGETS_MAX)]
        n_jobs = len(chunks) + bool(page.cursor)
        inline = job.inline if n_jobs <= 1 else None
        if job.inline is not None and inline is None:  # it travelled in its only job; now several jobs need it
            await context.references.store(notification, n_jobs)
        context.matcher.report_matched(notification, len(page.arns), job.cursor)
        context.matcher.report_filtered(notification, page)
        next_page = None
        if page.cursor:
            rest = replace(job, inline=inline, cursor=page.cursor, waits=leased.deliveries)
            next_page = self._settlement.renewal(leased.handle, 0, jobs.encode(rest))
        new_jobs = _endpoint_jobs(job, chunks, inline)
        await self._settlement.settle([JobOutcome(leased.handle, job.stored_id, new_jobs, next_page)])


def _endpoint_jobs(job: PublishJob, chunks: Sequence[tuple[str, ...]], inline: Notification | None) -> list[NewJob]:
    return [
        NewJob(
            jobs.ENDPOINT_JOBS,
            f"{job.notification_id}/{job.cursor}/{number}",
            jobs.encode(EndpointJob(job.notification_id, job.topic, chunk, inline)),
            job.topic,
        )
        for number, chunk in enumerate(chunks)
    ]
