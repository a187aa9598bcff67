"""Append published messages to their topic's archive, and find the replays that affect a newly published message."""

from __future__ import annotations

from collections.abc import Sequence

from cns.archives.model import ArchivedMessage, archive_key, archived_at_ms
from cns.archives.policy import retention_ms
from cns.archives.replay import Replay
from cns.notification import Notification
from cns.stores.contract import ArchiveStore, ReplayStore
from cns.topics.cache import TopicCache, TopicView


class Archiver:
    def __init__(self, topics: TopicCache, archives: ArchiveStore, replays: ReplayStore) -> None:
        self._topics = topics
        self._archives = archives
        self._replays = replays

    async def append(self, view: TopicView, notifications: Sequence[Notification], accepted_ms: int = 0) -> None:
        """Archive messages that were accepted together, if their topic has an archive. `accepted_ms` is needed for FIFO
        topics.

        Call it before the put of their jobs, in the same loop turn: the archive is then written in the same commit or
        in an earlier one.
        """
        topic = view.topic
        if topic.archive is not None and notifications:
            life_ms = retention_ms(topic)
            await self._archives.append(
                topic.archive.id,
                [
                    ArchivedMessage(at_ms, archive_key(each), at_ms + life_ms, each)
                    for each in notifications
                    for at_ms in [archived_at_ms(each, accepted_ms)]
                ],
            )

    async def append_of_fifo(self, topic_arn: str, notification: Notification, accepted_ms: int) -> str:
        """Archive a FIFO topic's message, which got its sequence number at `accepted_ms`. Return the id of the topic's
        archive, '' if it has none."""
        view = await self._topics.find(topic_arn)
        if view is None or view.topic.archive is None:
            return ""
        await self.append(view, [notification], accepted_ms)
        return view.topic.archive.id

    async def find_replays(self, topic_arn: str, archive_id: str) -> dict[str, Replay]:
        """Read the topic's replays, by subscription ARN, from the store. Call it after the message is archived and its
        subscriptions are read: `cns.archives.replay` says why.

        Replays of an earlier archive of the topic are left out: they have ended.
        """
        if not archive_id:
            return {}
        replays = await self._replays.of_topic(topic_arn)
        return {replay.subscription_arn: replay for replay in replays if replay.archive_id == archive_id}
