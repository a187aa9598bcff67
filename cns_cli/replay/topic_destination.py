"""Replays into a topic that does not have the messages: publishes them again with their ids, times and attributes."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from cns.archives.replay_jobs import as_replay
from cns.delivery import jobs
from cns.notification import Notification
from cns.publishing.accept import PublishAcceptor
from cns.publishing.message_attributes import publish_bytes
from cns.publishing.requests import SizedNotification
from cns.queue_port.contract import QueuePort
from cns.topics.cache import TopicView
from cns_cli.replay.backlog import Backlog
from cns_cli.replay.model import ReplayDestination
from cns_cli.replay.pace import Sleep


class TopicDestination(ReplayDestination):
    """A topic. It archives the messages if it has an archive; a FIFO topic gives them new sequence numbers."""

    def __init__(
        self, dispatcher: PublishAcceptor, port: QueuePort, view: TopicView, replay_id: str, sleep: Sleep
    ) -> None:
        self._dispatcher = dispatcher
        self._view = view
        self._replay_id = replay_id
        queues = (
            (jobs.FIFO_PUBLISH_JOBS, jobs.FIFO_ENDPOINT_JOBS) if view.fifo else (jobs.PUBLISH_JOBS, jobs.ENDPOINT_JOBS)
        )
        self._backlogs = [Backlog(port, queue, sleep) for queue in queues]

    async def send(self, notifications: Sequence[Notification]) -> int:
        for backlog in self._backlogs:
            await backlog.wait()
        await self._dispatcher.accept(self._view, [self._sized(each) for each in notifications])
        return len(notifications)

    def _sized(self, notification: Notification) -> SizedNotification:
        adapted = replace(
            as_replay(notification, self._view.arn, self._replay_id),
            sequence_number="",
            signature_version=self._view.signature_version,
        )
        return SizedNotification(adapted, stored_bytes(adapted))


def stored_bytes(notification: Notification) -> int:
    """The size of all texts and attributes: at most twice the size of the publish."""
    return publish_bytes("".join(notification.texts.values()), notification.attributes)
