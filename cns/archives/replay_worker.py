"""The work of a replay, a page of the archive at a time: claimed, read, put where the fan-out puts, recorded.

Whatever ends the worker, another goes on from what is recorded: it reads the page again, and the queue of a FIFO topic
knows within five minutes what it has of it. `cns.archives.replay` says how this and the fan-out keep out of
each other's way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from cns.archives.model import SKEW_MS, Archived
from cns.archives.policy import beginning_ms
from cns.archives.replay import ALL, Replay, ReplayStatus
from cns.delivery import jobs
from cns.delivery.jobs import EndpointJob
from cns.filters.topic_filters import HeldFilters
from cns.queue_port.contract import Put, QueuePort
from cns.stores.contract import ArchiveStore, ReplayStore, SubscriptionStore, TopicStore
from cns.subscriptions.subscription import IndexState, Subscription, SubscriptionState
from cns.topics.topic import Topic
from cns_common.clock import Clock

PAGE_MESSAGES = 100
PUT_BYTES_MAX = 4 * 1024 * 1024
DEPTH_MAX = 10_000
"""A replay rests while so many jobs wait: what is in the archive is safe there."""
SETTLING_MS = 1_000
"""How long a replay waits before it begins: a fan-out that has not seen it yet is to be over by then."""
ORPHAN_MS = 60_000
"""A replay is stored before its subscription; so much later one without was never answered, or has lost it."""
AHEAD_MS = 86_400_000
"""No message says that it was published later than now by so much."""


class Scene(NamedTuple):
    """What a step needs to know, as it is now."""

    replay: Replay
    subscription: Subscription
    topic: Topic
    now_ms: int


class Replaying:
    def __init__(
        self,
        replays: ReplayStore,
        archives: ArchiveStore,
        topics: TopicStore,
        subscriptions: SubscriptionStore,
        port: QueuePort,
        clock: Clock,
    ) -> None:
        self._replays = replays
        self._archives = archives
        self._topics = topics
        self._subscriptions = subscriptions
        self._port = port
        self._clock = clock

    async def step(self, replay: Replay) -> bool:
        """Whether there is more to do at once: False when the replay is over, or has to wait."""
        scene = await self._look(replay)
        if scene is None or await self._port.depth(_queue(scene.topic)) >= DEPTH_MAX:
            return False
        if not scene.topic.fifo:
            return await self._send(scene)
        return await (self._claim(scene) if scene.replay.sent == scene.replay.claimed else self._send(scene))

    async def _look(self, replay: Replay) -> Scene | None:
        """None while, or because, there is nothing to do."""
        now_ms = self._clock.now_ms()
        current = await self._replays.get(replay.subscription_arn)
        if current is None or current.id != replay.id or not current.active:
            return None
        found = await self._subscriptions.get([replay.subscription_arn])
        if not found:
            if now_ms - current.set_ms > ORPHAN_MS:
                await self._replays.remove(replay.subscription_arn)
            return None
        if found[0].state is not SubscriptionState.CONFIRMED or now_ms - current.set_ms < SETTLING_MS:
            return None
        topic = await self._topics.get(replay.topic_arn)
        if topic is None or topic.archive is None or topic.archive.id != replay.archive_id:
            await self._record(replace(current, status="Failed"))
            return None
        return Scene(current, found[0], topic, now_ms)

    async def _claim(self, scene: Scene) -> bool:
        """The next page or, with the last of them, all there will be."""
        replay = scene.replay
        page = await self._page(scene)
        claimed = page[-1].key if page else replay.sent
        if len(page) < PAGE_MESSAGES and scene.now_ms >= replay.end_ms:
            claimed = ALL
        if claimed == replay.sent:
            return False  # its end is still to come
        return await self._record(replace(replay, claimed=claimed, status="In progress"))

    async def _send(self, scene: Scene) -> bool:
        replay = scene.replay
        until = replay.claimed if scene.topic.fifo else ALL
        page = [each for each in await self._page(scene) if each.key <= until]
        await self._put(scene, page)
        sent = page[-1].key if len(page) == PAGE_MESSAGES else until
        at_ms = max([replay.sent_at_ms, *[each.at_ms for each in page]])
        status: ReplayStatus = "Completed" if sent == ALL else "In progress"
        return await self._record(replace(replay, sent=sent, sent_at_ms=at_ms, status=status)) and sent != ALL

    async def _page(self, scene: Scene) -> list[Archived]:
        replay, now_ms = scene.replay, scene.now_ms
        began_ms = beginning_ms(scene.topic, now_ms) or 0
        until_ms = replay.end_ms or now_ms + AHEAD_MS
        if not scene.topic.fifo:  # what came later was delivered when it came
            until_ms = min(until_ms, replay.set_ms)
        from_ms = max(replay.start_ms, began_ms, replay.sent_at_ms - SKEW_MS)
        return await self._archives.page(replay.archive_id, from_ms, until_ms, replay.sent, PAGE_MESSAGES)

    async def _put(self, scene: Scene, page: Sequence[Archived]) -> None:
        filters = HeldFilters()
        if scene.subscription.index_state is IndexState.FILTERED:
            filters.put(scene.subscription)
        wanted = [each for each in page if not len(filters) or filters.find(each.notification).matches.page()]
        for some in _chunks([_put(scene, each) for each in wanted]):
            await self._port.put(some)

    async def _record(self, replay: Replay) -> bool:
        """False when it was replaced or taken back meanwhile."""
        return await self._replays.replace(replace(replay, version=replay.version + 1), replay.version)


def _queue(topic: Topic) -> str:
    return jobs.FIFO_ENDPOINT_JOBS if topic.fifo else jobs.ENDPOINT_JOBS


def _put(scene: Scene, archived: Archived) -> Put:
    """As the fan-out's, but for the mark. The job carries the notification itself: there is only this one."""
    arn, notification = scene.subscription.arn, replace(archived.notification, replayed=True)
    job = EndpointJob(notification.id, scene.topic.arn, (arn,), notification, notification.sequence_number)
    dedup = scene.replay.dedup(notification.id)
    group = f"{arn} {notification.message_group_id}" if scene.topic.fifo else scene.topic.arn
    return Put(_queue(scene.topic), dedup, jobs.encode(job), group, dedup=dedup if scene.topic.fifo else "")


def _chunks(puts: Sequence[Put]) -> Iterator[list[Put]]:
    """In their order, each of a size that may be sent at once."""
    some: list[Put] = []
    for put in puts:
        if some and sum(len(each.body) for each in some) + len(put.body) > PUT_BYTES_MAX:
            yield some
            some = []
        some.append(put)
    if some:
        yield some
