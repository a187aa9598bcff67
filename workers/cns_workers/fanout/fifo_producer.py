"""The producer of FIFO topics: fans publish jobs out in their order, into one endpoint job for each subscription.

The group of an endpoint job is its subscription with the message group, so a subscription that does not answer delays
only itself. The endpoint jobs have deduplication ids made of message and subscription, so that a step that is repeated
after a crash enqueues nothing twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from cns.archives.archiver import Archiver
from cns.archives.replay import LiveDelivery, Replay
from cns.delivery import jobs
from cns.delivery.failure_causes import FinalCause
from cns.delivery.jobs import INLINE_BYTES_MAX, EndpointJob, PublishJob
from cns.notification import Notification
from cns.publishing.matching import MatchPage
from cns.queue_port.contract import LeasedJob, NewJob, Renewal
from cns_workers.fanout.context import FanoutContext
from cns_workers.jobs.receiver import JobReceiver, ReceivedPublishJob
from cns_workers.jobs.settlement import JobOutcome, JobSettlement

QUEUE = jobs.FIFO_PUBLISH_JOBS
LEASE_MS = 30_000
JOBS_A_STEP = 10
WAIT_S = 20.0
PAGE_SUBSCRIPTIONS = 100
JOBS_A_SETTLEMENT = 400
REPLAY_WAIT_MS = 200
"""A group waits this long for a replay to send the page that it reads."""


class FifoProducer:
    def __init__(self, context: FanoutContext, archiver: Archiver) -> None:
        self._context = context
        self._archiver = archiver
        self._receiver = JobReceiver(context.port, context.quarantine, context.clock, in_order=True)
        self._settlement = JobSettlement(QUEUE, context)

    async def step(self) -> None:
        """Handle up to ten publish jobs, those of a group in their order. A group that fails comes back when its leases
        run out; the others go on."""
        groups: dict[str, list[ReceivedPublishJob]] = {}
        for leased, job in await self._receiver.publish_jobs(QUEUE, JOBS_A_STEP, LEASE_MS, WAIT_S):
            groups.setdefault(leased.group, []).append((leased, job))
        results = await asyncio.gather(*[self._run(group) for group in groups.values()], return_exceptions=True)
        await self._settle([outcome for result in results if isinstance(result, list) for outcome in result])
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _run(self, group: Sequence[ReceivedPublishJob]) -> list[JobOutcome]:
        """Fan out the jobs of one group. Returns what is still to be settled."""
        unsettled: list[JobOutcome] = []
        waiting: list[Renewal] = []
        try:
            for leased, job in group:
                if await self._context.quarantine.intercept(QUEUE, leased, job.topic, expected=job.waits):
                    continue
                fanned_out = None if waiting else await self._fan_out(leased, job)
                if fanned_out is None:
                    waiting.append(self._later(leased, job))
                    continue
                outcome, has_replays = fanned_out
                unsettled.append(outcome)
                if has_replays or sum(len(each.new_jobs) for each in unsettled) >= JOBS_A_SETTLEMENT:
                    await self._settle(unsettled)
                    unsettled = []
        except Exception:  # a job that crashes, or that cannot be read now, does not hold up those before it
            await self._settle(unsettled)
            raise
        if waiting:
            await self._settle(unsettled)
            unsettled = []
            await self._settlement.settle([], waiting)
        return unsettled

    async def _fan_out(self, leased: LeasedJob, job: PublishJob) -> tuple[JobOutcome, bool] | None:
        """Returns the job's outcome, and whether the topic has replays: then it must be settled before the next job is
        looked at. None when the job, and with it its group, has to wait for a replay."""
        context = self._context
        found = job.inline or await context.notifications.get(job.notification_id)
        if found is None:
            context.drop(job, FinalCause.NOTIFICATION_LOST)
            return JobOutcome(leased.handle), False
        if await context.is_of_earlier_topic(job):
            context.drop(job, FinalCause.SUBSCRIPTION_GONE)
            return JobOutcome(leased.handle, job.stored_id), False
        if not job.waits:
            context.count_wait(QUEUE, found)
        with context.span(QUEUE, found):
            return await self._fan_out_found(leased, job, found)

    async def _fan_out_found(
        self, leased: LeasedJob, job: PublishJob, found: Notification
    ) -> tuple[JobOutcome, bool] | None:
        context = self._context
        notification = replace(found, sequence_number=leased.sequence_number)
        archive_id = await self._archiver.append_of_fifo(job.topic, notification, leased.sent_ms)
        arns, last_page = await self._matching_subscriptions(job, notification)
        replays = await self._archiver.find_replays(job.topic, archive_id)
        live = {arn: replays[arn].live_delivery(notification, leased.sent_ms) for arn in arns if arn in replays}
        if LiveDelivery.LATER in live.values():
            return None
        arns = [arn for arn in arns if live.get(arn, LiveDelivery.NOW) is LiveDelivery.NOW]
        context.matcher.report_matched(notification, len(arns))
        context.matcher.report_filtered(notification, last_page)
        fits = job.inline is not None and len(leased.body) * len(arns) <= INLINE_BYTES_MAX  # all copies together
        if job.inline is not None and not fits:
            await context.references.store(notification, len(arns))
        inline = notification if fits else None
        new_jobs = [_endpoint_job(leased, notification, arn, inline, replays.get(arn)) for arn in arns]
        return JobOutcome(leased.handle, job.stored_id, new_jobs), bool(replays)

    async def _matching_subscriptions(self, job: PublishJob, notification: Notification) -> tuple[list[str], MatchPage]:
        """Returns all subscriptions that match, and the last page of them."""
        arns: list[str] = []
        cursor = ""
        while True:
            page = await self._context.matcher.page(job.topic, notification, cursor, PAGE_SUBSCRIPTIONS)
            arns += page.arns
            cursor = page.cursor
            if not cursor:
                return arns, page

    async def _settle(self, outcomes: Sequence[JobOutcome]) -> None:
        """Settle in the given order, with about JOBS_A_SETTLEMENT jobs at a time."""
        batch: list[JobOutcome] = []
        for outcome in outcomes:
            batch.append(outcome)
            if sum(len(each.new_jobs) for each in batch) >= JOBS_A_SETTLEMENT:
                await self._settlement.settle(batch)
                batch = []
        if batch:
            await self._settlement.settle(batch)

    def _later(self, leased: LeasedJob, job: PublishJob) -> Renewal:
        """Hide the job, which holds back the jobs of its group that follow it."""
        return self._settlement.renewal(leased.handle, REPLAY_WAIT_MS, jobs.encode(replace(job, waits=job.waits + 1)))


def _endpoint_job(
    leased: LeasedJob, notification: Notification, arn: str, inline: Notification | None, replay: Replay | None
) -> NewJob:
    job = EndpointJob(notification.id, notification.topic_arn, (arn,), inline, leased.sequence_number)
    dedup = replay.dedup_id(notification.id) if replay else f"{notification.id}/{arn}"
    group = f"{arn} {notification.message_group_id}"
    return NewJob(jobs.FIFO_ENDPOINT_JOBS, dedup, jobs.encode(job), group, dedup=dedup)
