"""The producer of FIFO topics: fans publish jobs out in their order, into one endpoint job for each subscription.

An endpoint job's group is its subscription and the message's group, so a subscription that does not answer holds up
nothing but itself. A step that is repeated after a crash puts nothing twice: a job is known by its message and target.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from cns.archives.archiver import Archiver
from cns.archives.replay import LiveDelivery, Replay
from cns.delivery import jobs
from cns.delivery.jobs import INLINE_BYTES_MAX, EndpointJob, PublishJob
from cns.notification import Notification
from cns.publishing.matching import Matching, Page
from cns.queue_port.contract import Held, Put, QueuePort, Renewal
from cns.stores.contract import NotificationStore
from cns_common.process.kill_points import FIFO_FANNED_OUT, FIFO_PUBLISHED, kill_point
from workers.consumers.quarantine import Quarantine
from workers.fanout.drops import Drops

LEASE_MS = 30_000
JOBS_A_STEP = 10
WAIT_S = 20.0
PAGE_SUBSCRIPTIONS = 100
PUTS_A_SETTLEMENT = 400
WAIT_MS = 200
"""For a replay to have sent the page that it reads."""


class FannedOut(msgspec.Struct, frozen=True):
    """One publish job, and what it became."""

    held: Held
    stored_id: str  # of the stored notification that it counted as a reference to, or ''
    puts: Sequence[Put]
    at_once: bool = False  # where there are replays, a message is put before the next one is looked at


class FifoProducer:
    def __init__(
        self,
        port: QueuePort,
        matching: Matching,
        notifications: NotificationStore,
        quarantine: Quarantine,
        drops: Drops,
        notification_life_ms: int,
        archiver: Archiver,
    ) -> None:
        self._port = port
        self._matching = matching
        self._notifications = notifications
        self._quarantine = quarantine
        self._drops = drops
        self._notification_life_ms = notification_life_ms
        self._archiver = archiver

    async def step(self) -> None:
        """Up to ten publish jobs, each group's in their order. A group that fails comes again when its leases run out,
        and holds up no other."""
        groups: dict[str, list[Held]] = {}
        for held in await self._port.receive(jobs.FIFO_PUBLISH_JOBS, JOBS_A_STEP, LEASE_MS, WAIT_S):
            groups.setdefault(held.group, []).append(held)
        runs = await asyncio.gather(*[self._run(group) for group in groups.values()], return_exceptions=True)
        await self._settle([each for run in runs if not isinstance(run, BaseException) for each in run])
        for run in runs:
            if isinstance(run, BaseException):
                raise run

    async def _run(self, group: Sequence[Held]) -> list[FannedOut]:
        """Of one group: what is still to be settled."""
        ready: list[FannedOut] = []
        waiting: list[Renewal] = []
        for held in group:
            job = jobs.decode(held.body)
            if not isinstance(job, PublishJob) or await self._quarantine.takes(
                jobs.FIFO_PUBLISH_JOBS, held, job.topic, expected=job.waits
            ):
                continue
            fanned_out = None if waiting else await self._fan_out(held, job)
            if fanned_out is None:
                waiting.append(_renewal(held, job))
                continue
            ready.append(fanned_out)
            if fanned_out.at_once or sum(len(each.puts) for each in ready) >= PUTS_A_SETTLEMENT:
                await self._settle(ready)
                ready = []
        if waiting:
            await self._settle(ready)
            ready = []
            await self._port.settle(jobs.FIFO_PUBLISH_JOBS, renewals=waiting)
        return ready

    async def _fan_out(self, held: Held, job: PublishJob) -> FannedOut | None:
        """None: it has to wait, and all of its group with it."""
        stored_id = "" if job.inline is not None else job.notification_id
        found = job.inline or await self._notifications.get(job.notification_id)
        if found is None:
            self._drops.unfanned(job, "notification_lost")
            return FannedOut(held, "", ())
        notification = replace(found, sequence_number=held.sequence_number)
        replays = await self._archiver.append_and_find_replays(job.topic, notification)
        arns, last = await self._targets(job, notification)
        live = {arn: replays[arn].live_delivery(notification) for arn in arns if arn in replays}
        if LiveDelivery.LATER in live.values():
            return None
        self._matching.tell(notification, last)
        arns = [arn for arn in arns if live.get(arn, LiveDelivery.NOW) is LiveDelivery.NOW]
        inline = await self._keep(job, notification, len(held.body), len(arns))
        puts = [_put(held, notification, arn, inline, replays.get(arn)) for arn in arns]
        return FannedOut(held, stored_id, puts, bool(replays))

    async def _targets(self, job: PublishJob, notification: Notification) -> tuple[list[str], Page]:
        """All that match, and the last page of them."""
        arns: list[str] = []
        cursor = ""
        while True:
            page = await self._matching.page(job.topic, notification, cursor, PAGE_SUBSCRIPTIONS)
            arns += page.arns
            cursor = page.cursor
            if not cursor:
                return arns, page

    async def _keep(
        self, job: PublishJob, notification: Notification, job_bytes: int, targets: int
    ) -> Notification | None:
        """What travels in each job: the notification, unless all its copies together are too large for that."""
        if job.inline is not None and job_bytes * targets <= INLINE_BYTES_MAX:
            return notification
        if job.inline is not None and targets:
            life_ms = notification.timestamp_ms + self._notification_life_ms
            await self._notifications.put(notification, targets, life_ms)
        elif targets:
            await self._notifications.refer(job.notification_id, targets)
        return None

    async def _settle(self, ready: Sequence[FannedOut]) -> None:
        """At most so much at once, in the order given."""
        some: list[FannedOut] = []
        for each in ready:
            some.append(each)
            if sum(len(one.puts) for one in some) >= PUTS_A_SETTLEMENT:
                await self._settle_together(some)
                some = []
        if some:
            await self._settle_together(some)

    async def _settle_together(self, ready: Sequence[FannedOut]) -> None:
        kill_point(FIFO_FANNED_OUT)
        still_held = await self._port.settle(
            jobs.FIFO_PUBLISH_JOBS,
            [each.held.handle for each in ready],
            [put for each in ready for put in each.puts],
        )
        kill_point(FIFO_PUBLISHED)
        for each, held in zip(ready, still_held, strict=True):
            if each.stored_id and held:  # else another has the job, and its reference
                await self._notifications.refer(each.stored_id, -1)


def _put(held: Held, notification: Notification, arn: str, inline: Notification | None, replay: Replay | None) -> Put:
    job = EndpointJob(notification.id, notification.topic_arn, (arn,), inline, held.sequence_number)
    place = replay.dedup_id(notification.id) if replay else f"{notification.id}/{arn}"
    group = f"{arn} {notification.message_group_id}"
    return Put(jobs.FIFO_ENDPOINT_JOBS, place, jobs.encode(job), group, dedup=place)


def _renewal(held: Held, job: PublishJob) -> Renewal:
    """What comes behind one of its group that is hidden is not received, however visible."""
    body = jobs.encode(replace(job, waits=job.waits + 1))
    return Renewal(jobs.FIFO_PUBLISH_JOBS, held.handle, WAIT_MS, body)
