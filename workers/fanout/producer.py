"""The producer: fans a publish job out into endpoint jobs of up to a hundred subscriptions, a thousand at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from cns.delivery import jobs
from cns.delivery.jobs import EndpointJob, PublishJob
from cns.publishing.matching import Matching, Page
from cns.queue_port.contract import Held, Put, QueuePort
from cns.stores.contract import NotificationStore
from cns_common.process.kill_points import PUBLISH_FANNED_OUT, PUBLISH_SETTLED, PUBLISH_TAKEN, kill_point
from workers.consumers.quarantine import Quarantine
from workers.fanout.drops import Drops

LEASE_MS = 30_000
JOBS_A_STEP = 10
WAIT_S = 20.0
NOBODY = Page((), "")


class Producer:
    """One step handles up to ten publish jobs, a page of each."""

    def __init__(
        self,
        port: QueuePort,
        matching: Matching,
        notifications: NotificationStore,
        quarantine: Quarantine,
        drops: Drops,
        notification_life_ms: int,
    ) -> None:
        self._port = port
        self._matching = matching
        self._notifications = notifications
        self._quarantine = quarantine
        self._drops = drops
        self._notification_life_ms = notification_life_ms

    async def step(self) -> None:
        failures: list[Exception] = []
        for held in await self._port.receive(jobs.PUBLISH_JOBS, JOBS_A_STEP, LEASE_MS, WAIT_S):
            (failure,) = await asyncio.gather(self._run(held), return_exceptions=True)  # in a task of its own
            if isinstance(failure, Exception):
                failures.append(failure)
        if failures:  # of one, which is no reason to let the leases of the others run out
            raise failures[0]

    async def _run(self, held: Held) -> None:
        kill_point(PUBLISH_TAKEN)
        job = jobs.decode(held.body)
        assert isinstance(job, PublishJob)  # nothing else is put there
        if not await self._quarantine.takes(jobs.PUBLISH_JOBS, held, job.topic):
            await self._fan_out(held, job)

    async def _fan_out(self, held: Held, job: PublishJob) -> None:
        notification = job.inline or await self._notifications.get(job.notification_id)
        if notification is None:
            self._drops.unfanned(job, "notification_lost")
            await self._port.settle(jobs.PUBLISH_JOBS, [held.handle])
            return
        page = await self._matching.page(job.topic, notification, job.cursor, jobs.PAGE_SUBSCRIPTIONS)
        if page == NOBODY and not job.cursor:  # more than a hundred when the job was put: the topic was deleted
            self._drops.unfanned(job, "subscription_gone")
        chunks = [page.arns[start : start + jobs.TARGETS_MAX] for start in range(0, len(page.arns), jobs.TARGETS_MAX)]
        alone = job.inline is not None and len(chunks) + bool(page.cursor) <= 1
        if not alone and job.inline is not None:
            # the first page of a notification that was small enough to travel in its job: from here on several need it
            life_ms = notification.timestamp_ms + self._notification_life_ms
            await self._notifications.put(notification, len(chunks) + bool(page.cursor), life_ms)
        elif not alone:
            await self._notifications.refer(job.notification_id, len(chunks) + bool(page.cursor))
        puts = self._puts(job, chunks, page.cursor, inline=alone)
        kill_point(PUBLISH_FANNED_OUT)
        self._matching.tell(notification, page)
        (still_held,) = await self._port.settle(jobs.PUBLISH_JOBS, [held.handle], puts)
        kill_point(PUBLISH_SETTLED)
        if job.inline is None and still_held:  # else another has the job, and its reference
            await self._notifications.refer(job.notification_id, -1)

    def _puts(self, job: PublishJob, chunks: Sequence[tuple[str, ...]], cursor: str, *, inline: bool) -> list[Put]:
        carried = job.inline if inline else None
        puts = [
            Put(
                jobs.ENDPOINT_JOBS,
                f"{job.notification_id}/{job.cursor}/{number}",
                jobs.encode(EndpointJob(job.notification_id, job.topic, chunk, carried)),
                job.topic,
            )
            for number, chunk in enumerate(chunks)
        ]
        if cursor:
            following = PublishJob(job.notification_id, job.topic, carried, cursor)
            puts.append(
                Put(
                    jobs.PUBLISH_JOBS,
                    f"{job.notification_id}/{cursor}",
                    jobs.encode(following),
                    job.topic.split(":")[4],
                )
            )
        return puts
