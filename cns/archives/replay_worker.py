"""Run a replay page by page: claim a page of the archive, read it, enqueue its jobs like the fan-out, store progress.

If the worker stops, another one continues from the stored progress and reads the last page again. On a FIFO topic the
queue drops the repeated jobs within its deduplication interval of five minutes. `cns.archives.replay` says how the
replay and the fan-out divide the messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from cns.archives.model import SKEW_MS_MAX, ArchivedMessage
from cns.archives.policy import beginning_ms
from cns.archives.replay import END_OF_ARCHIVE, Replay, ReplayStatus
from cns.archives.replay_jobs import enqueue_in_chunks, matched_event, replay_job, replay_queue, wanted_by
from cns.queue_port.contract import QueuePort
from cns.stores.contract import ArchiveStore, ReplayStore, SubscriptionStore, TopicStore
from cns.subscriptions.subscription import Subscription, SubscriptionState
from cns.topics.topic import Topic
from cns_common.clock import Clock
from cns_common.events.schema import EventSink

PAGE_MESSAGES = 100
QUEUE_DEPTH_MAX = 10_000
"""A replay pauses while its queue has this many jobs: archived messages can wait."""
START_DELAY_MS = 1_000
"""The wait before a replay starts, in which every fan-out that did not see its record has ended."""
ORPHAN_AGE_MS = 60_000
"""A replay is stored before its subscription. One of this age without a subscription is removed: the Subscribe call
failed, or the subscription was deleted."""
CLOCK_AHEAD_MS_MAX = 86_400_000
"""No message has a publish time further in the future."""


class ReplaySnapshot(NamedTuple):
    """The records that a step works with."""

    replay: Replay
    subscription: Subscription
    topic: Topic
    now_ms: int


class ReplayWorker:
    def __init__(
        self,
        replays: ReplayStore,
        archives: ArchiveStore,
        topics: TopicStore,
        subscriptions: SubscriptionStore,
        port: QueuePort,
        clock: Clock,
        events: EventSink,
    ) -> None:
        self._replays = replays
        self._archives = archives
        self._topics = topics
        self._subscriptions = subscriptions
        self._port = port
        self._clock = clock
        self._events = events

    async def step(self, replay: Replay) -> bool:
        """Do the next page. Return whether to call again at once: False when the replay has ended or has to wait."""
        snapshot = await self._read_snapshot(replay)
        if snapshot is None:
            return False
        fifo, has_claim = snapshot.topic.fifo, snapshot.replay.sent != snapshot.replay.claimed
        if fifo and has_claim:
            return await self._send(snapshot)  # however many jobs wait: the fan-out waits for this page
        if await self._port.depth(replay_queue(snapshot.topic.arn)) >= QUEUE_DEPTH_MAX:
            return False
        return await (self._claim(snapshot) if fifo else self._send(snapshot))

    async def _read_snapshot(self, replay: Replay) -> ReplaySnapshot | None:
        """None when there is nothing to do now, or ever. Remove or fail a replay without a subscription or archive."""
        now_ms = self._clock.now_ms()
        current = await self._replays.get(replay.subscription_arn)
        if current is None or current.id != replay.id or not current.active:
            return None
        found = await self._subscriptions.get([replay.subscription_arn])
        if not found:
            if now_ms - current.set_ms > ORPHAN_AGE_MS:
                await self._replays.remove(replay.subscription_arn)
            return None
        if found[0].state is not SubscriptionState.CONFIRMED or now_ms - current.set_ms < START_DELAY_MS:
            return None
        topic = await self._topics.get(replay.topic_arn)
        if topic is None or topic.archive is None or topic.archive.id != replay.archive_id:
            await self._save(replace(current, status="Failed"))
            return None
        return ReplaySnapshot(current, found[0], topic, now_ms)

    async def _claim(self, snapshot: ReplaySnapshot) -> bool:
        """Claim the next page. With the last page, claim END_OF_ARCHIVE."""
        replay = snapshot.replay
        page = await self._page(snapshot)
        claimed = page[-1].key if page else replay.sent
        if len(page) < PAGE_MESSAGES and snapshot.now_ms >= replay.end_ms:
            claimed = END_OF_ARCHIVE
        if claimed == replay.sent:
            return False  # more messages may be published before `end_ms`
        return await self._save(replace(replay, claimed=claimed, status="In progress"))

    async def _send(self, snapshot: ReplaySnapshot) -> bool:
        replay = snapshot.replay
        until = replay.claimed if snapshot.topic.fifo else END_OF_ARCHIVE
        page = [each for each in await self._page(snapshot) if each.key <= until]
        await self._put(snapshot, page)
        sent = page[-1].key if len(page) == PAGE_MESSAGES else until
        at_ms = max([replay.sent_at_ms, *[each.at_ms for each in page]])
        status: ReplayStatus = "Completed" if sent == END_OF_ARCHIVE else "In progress"
        return await self._save(replace(replay, sent=sent, sent_at_ms=at_ms, status=status)) and sent != END_OF_ARCHIVE

    async def _page(self, snapshot: ReplaySnapshot) -> list[ArchivedMessage]:
        replay, now_ms = snapshot.replay, snapshot.now_ms
        began_ms = beginning_ms(snapshot.topic, now_ms) or 0
        until_ms = replay.end_ms or now_ms + CLOCK_AHEAD_MS_MAX
        if not snapshot.topic.fifo:  # later messages were delivered live
            until_ms = min(until_ms, max(replay.set_ms, snapshot.subscription.confirmed_ms))
        from_ms = max(replay.start_ms, began_ms, replay.sent_at_ms - SKEW_MS_MAX)
        return await self._archives.page(replay.archive_id, from_ms, until_ms, replay.sent, PAGE_MESSAGES)

    async def _put(self, snapshot: ReplaySnapshot, page: Sequence[ArchivedMessage]) -> None:
        wanted = wanted_by(snapshot.subscription, [each.notification for each in page])
        for each in wanted:
            self._events.emit(matched_event(each, 1, snapshot.replay.id, snapshot.now_ms))
        new_jobs = [replay_job(snapshot.subscription.arn, each, snapshot.replay.id) for each in wanted]
        await enqueue_in_chunks(self._port, new_jobs)

    async def _save(self, replay: Replay) -> bool:
        """Store the progress. False when the replay was replaced or removed in the meantime."""
        return await self._replays.replace(replace(replay, version=replay.version + 1), replay.version)
