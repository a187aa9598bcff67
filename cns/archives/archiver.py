"""What publishing and fan-out do about archives: keep the message, and ask who sends it to those that replay."""

from __future__ import annotations

from collections.abc import Sequence

from cns.archives.model import Archived, key_of
from cns.archives.policy import retention_ms
from cns.archives.replay import Replay
from cns.notification import Notification
from cns.stores.contract import ArchiveStore, ReplayStore
from cns.topics.cache import TopicCache, TopicView


class Archiving:
    def __init__(self, topics: TopicCache, archives: ArchiveStore, replays: ReplayStore) -> None:
        self._topics = topics
        self._archives = archives
        self._replays = replays

    async def note(self, view: TopicView, notifications: Sequence[Notification]) -> None:
        """Messages accepted together, if their topic archives. Called before the put of their jobs in the same loop
        turn, it shares their commit or precedes it."""
        topic = view.topic
        if topic.archive is not None and notifications:
            life_ms = retention_ms(topic)
            await self._archives.append(
                topic.archive.id,
                [
                    Archived(each.timestamp_ms, key_of(each), each.timestamp_ms + life_ms, each)
                    for each in notifications
                ],
            )

    async def keep(self, topic_arn: str, notification: Notification) -> dict[str, Replay]:
        """For the fan-out of a FIFO topic's message, which has its number. Once it is kept, it is asked who replays:
        by subscription ARN, as it is in the store now. A replay of another archive than the topic has now is over."""
        view = await self._topics.find(topic_arn)
        archive = None if view is None else view.topic.archive
        if view is None or archive is None:
            return {}
        await self.note(view, [notification])
        return {
            replay.subscription_arn: replay
            for replay in await self._replays.of_topic(topic_arn)
            if replay.archive_id == archive.id
        }
