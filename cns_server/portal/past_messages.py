"""Finds a past message of a subscription where it still is: the topic's archive, or the dead-letter queue."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import NamedTuple

from cns.archives.model import SKEW_MS_MAX
from cns.notification import Notification
from cns.stores.contract import ArchiveStore, TopicStore
from cns_common.arn import parse_arn
from cns_common.errors import CnsError
from cns_server.portal.dead_letters import FindCertificate, LetterEnvelope, letters_of
from cqs.queues.view import QueueView
from cqs.service import QueueService

ARCHIVED_READ_MAX = 1_000
"""Messages of the archive that were published at about the same time."""
LETTERS_READ_MAX = 2_000
LETTERS_LISTED_FROM = 500
"""Messages of a dead-letter queue that a page reads."""
LISTED_BYTES_MAX = 4 * 1024 * 1024
READ_BYTES_MAX = 32 * 1024 * 1024
PEEKED_MESSAGES = 25
"""Messages of a queue that are in memory at once."""
LETTERS_FRESH_MS = 3_000
PAGE_MESSAGES = 100


class WantedMessage(NamedTuple):
    """A message that a subscription did not get. `published_ms` is about its publish time, 0 if that is unknown.
    `queue` is the ARN of the dead-letter queue that has it, if any."""

    subscription: str  # ARN
    message_id: str
    published_ms: int
    queue: str

    @property
    def topic_arn(self) -> str:
        return self.subscription.rpartition(":")[0]


class DeadLetter(NamedTuple):
    message_id: str
    published_ms: int


class ListedLetters(NamedTuple):
    """The letters that a page read of a dead-letter queue. Pages opened until `until_ms` use them again."""

    until_ms: int
    letters: list[DeadLetter]
    all_read: bool
    """Whether the queue has no messages beyond those that were read."""


class PastMessages:
    """Callers limit how many searches run at once: each may read megabytes."""

    def __init__(
        self,
        topics: TopicStore,
        archives: ArchiveStore,
        queues: QueueService,
        certificate: FindCertificate,
    ) -> None:
        self._topics = topics
        self._archives = archives
        self._queues = queues
        self._certificate = certificate
        self._listed: dict[tuple[str, str], ListedLetters] = {}

    async def find(self, wanted: WantedMessage) -> Notification | None:
        """The message; None if it is kept nowhere."""
        archived = await self._archived(wanted.topic_arn, wanted.message_id, wanted.published_ms)
        if archived is not None or not wanted.queue:
            return archived
        letter = await self._dead_letter(wanted)
        if letter is None:
            return None
        # the archive is asked again: a letter knows the time better than the events, and less of the message
        archived = await self._archived(wanted.topic_arn, wanted.message_id, letter.timestamp_ms)
        return archived or (letter.notification() if letter.is_signed_whole else None)

    async def _archived(self, topic_arn: str, message_id: str, published_ms: int) -> Notification | None:
        """The archive's message that was published at about this time."""
        topic = await self._topics.get(topic_arn)
        if topic is None or topic.archive is None or not published_ms:
            return None
        since_ms, until_ms = max(published_ms - SKEW_MS_MAX, 0), published_ms + SKEW_MS_MAX
        after, read = "", 0
        while read < ARCHIVED_READ_MAX:
            page = await self._archives.page(topic.archive.id, since_ms, until_ms, after, PAGE_MESSAGES)
            for message in page:
                if message.notification.id == message_id:
                    return message.notification
            if len(page) < PAGE_MESSAGES:
                break
            after, read = page[-1].key, read + len(page)
        return None

    async def dead_letters(self, subscription: str, queue: str) -> ListedLetters:
        """The subscription's messages among the first ones of its dead-letter queue, as far as they can be retried, and
        as they were at most LETTERS_FRESH_MS ago. Raw ones have no id, and are not listed."""
        now_ms = self._queues.clock.now_ms()
        self._listed = {key: kept for key, kept in self._listed.items() if now_ms < kept.until_ms}
        kept = self._listed.get((subscription, queue))
        if kept is None:
            kept = self._listed[subscription, queue] = await self._list(subscription, queue, now_ms + LETTERS_FRESH_MS)
        return kept

    async def _list(self, subscription: str, queue: str, until_ms: int) -> ListedLetters:
        topic = await self._topics.get(subscription.rpartition(":")[0])
        may_be_archived = topic is not None and topic.archive is not None
        found: dict[str, DeadLetter] = {}
        all_read = True
        async for letters, more in self._letters(subscription, queue, LETTERS_LISTED_FROM, LISTED_BYTES_MAX):
            all_read = not more
            for envelope in letters:
                if envelope.is_signed_whole or may_be_archived:
                    letter = DeadLetter(envelope.message_id, envelope.timestamp_ms)
                    found.setdefault(letter.message_id, letter)
        return ListedLetters(until_ms, list(found.values()), all_read)

    async def _dead_letter(self, wanted: WantedMessage) -> LetterEnvelope | None:
        async for letters, _ in self._letters(wanted.subscription, wanted.queue, LETTERS_READ_MAX, READ_BYTES_MAX):
            for envelope in letters:
                if envelope.message_id == wanted.message_id:
                    return envelope
        return None

    async def _letters(
        self, subscription: str, queue: str, n: int, bytes_max: int
    ) -> AsyncGenerator[tuple[list[LetterEnvelope], bool], None]:
        """The letters of a subscription among the first messages of a queue, which are not leased, and whether it has
        more. It reads until there are `n` messages or `bytes_max` bytes."""
        view = await self._view(queue)
        cursor, read, size_bytes = "", 0, 0
        while view is not None and read < n and size_bytes < bytes_max:
            page = await view.engine.peek(view.ref, cursor, PEEKED_MESSAGES, self._queues.clock.now_ms())
            bodies = [message.body for message in page.messages]
            letters = await asyncio.to_thread(letters_of, bodies, subscription, self._certificate)
            yield letters, bool(page.cursor)
            cursor, read, size_bytes = page.cursor, read + len(bodies), size_bytes + sum(map(len, bodies))
            if not cursor:
                break

    async def _view(self, queue: str) -> QueueView | None:
        arn = parse_arn(queue)
        if arn is None:
            return None
        try:
            return await self._queues.cache.find((arn.account, arn.region, arn.resource))
        except CnsError:  # the queue's engine is not one of this process
            return None
