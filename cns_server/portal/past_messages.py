"""Finds a past message of a subscription where it still is: the topic's archive, or the dead-letter queue."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from cns.archives.model import SKEW_MS_MAX
from cns.delivery.envelope import verify_body
from cns.limits import FIFO_SUFFIX
from cns.notification import Notification
from cns.stores.contract import ArchiveStore, TopicStore
from cns_common.arn import parse_arn
from cns_common.errors import CnsError
from cqs.queues.model import decode_body
from cqs.queues.view import QueueView
from cqs.service import QueueService

ARCHIVED_READ_MAX = 1_000
"""Messages of the archive that were published at about the same time."""
LETTERS_READ_MAX = 2_000
LETTERS_LISTED_FROM = 500
"""Messages of a dead-letter queue that a page reads."""
PAGE_MESSAGES = 100
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Wanted(NamedTuple):
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


class _Attribute(msgspec.Struct, frozen=True, rename="pascal"):
    type: str
    value: str


class _Envelope(msgspec.Struct, frozen=True, rename="pascal"):
    """A notification's body, as `cns.delivery.envelope` renders it."""

    type: Literal["Notification"]
    message_id: str
    topic_arn: str
    message: str
    timestamp: Annotated[datetime, msgspec.Meta(tz=True)]
    subject: str | None = None
    sequence_number: str = ""
    signature: str = ""
    signature_version: str = "1"
    signing_cert_url: str = msgspec.field(name="SigningCertURL", default="")
    unsubscribe_url: str = msgspec.field(name="UnsubscribeURL", default="")
    message_attributes: dict[str, _Attribute] = {}

    def is_of(self, subscription: str) -> bool:
        """Whether it was to be delivered to this subscription: a dead-letter queue may be that of several."""
        topic_arn = subscription.rpartition(":")[0]
        return self.topic_arn == topic_arn and self.unsubscribe_url.endswith(f"SubscriptionArn={subscription}")

    def notification(self) -> Notification:
        return Notification(
            id=self.message_id,
            topic_arn=self.topic_arn,
            timestamp_ms=(self.timestamp - _EPOCH) // timedelta(milliseconds=1),
            texts={"default": self.message},
            subject=self.subject,
            attributes={name: (one.type, one.value) for name, one in self.message_attributes.items()},
            signature_version=self.signature_version,
            sequence_number=self.sequence_number,
        )


class PastMessages:
    def __init__(
        self,
        topics: TopicStore,
        archives: ArchiveStore,
        queues: QueueService,
        certificate: Callable[[str], bytes | None],
    ) -> None:
        """`certificate` finds a certificate of this service's signing keys, by the name in `SigningCertURL`."""
        self._topics = topics
        self._archives = archives
        self._queues = queues
        self._certificate = certificate

    async def find(self, wanted: Wanted) -> Notification | None:
        """The message; None if it is kept nowhere."""
        archived = await self._archived(wanted)
        if archived is not None or not wanted.queue:
            return archived
        return await self._dead_letter(wanted)

    async def _archived(self, wanted: Wanted) -> Notification | None:
        topic = await self._topics.get(wanted.topic_arn)
        if topic is None or topic.archive is None or not wanted.published_ms:
            return None
        since_ms, until_ms = wanted.published_ms - SKEW_MS_MAX, wanted.published_ms + SKEW_MS_MAX
        after, read = "", 0
        while read < ARCHIVED_READ_MAX:
            page = await self._archives.page(topic.archive.id, since_ms, until_ms, after, PAGE_MESSAGES)
            for message in page:
                if message.notification.id == wanted.message_id:
                    return message.notification
            if len(page) < PAGE_MESSAGES:
                break
            after, read = page[-1].key, read + len(page)
        return None

    async def dead_letters(self, subscription: str, queue: str) -> list[DeadLetter]:
        """The subscription's messages among the first ones of its dead-letter queue. Raw ones have no id, and are not
        listed."""
        found: dict[str, DeadLetter] = {}
        async for body, envelope in self._letters(queue, LETTERS_LISTED_FROM):
            if envelope.is_of(subscription) and self._is_genuine(body, envelope):
                letter = DeadLetter(envelope.message_id, envelope.notification().timestamp_ms)
                found.setdefault(letter.message_id, letter)
        return list(found.values())

    async def _dead_letter(self, wanted: Wanted) -> Notification | None:
        async for body, envelope in self._letters(wanted.queue, LETTERS_READ_MAX):
            is_it = envelope.message_id == wanted.message_id and envelope.is_of(wanted.subscription)
            if is_it and self._is_genuine(body, envelope):
                return envelope.notification()
        return None

    async def _letters(self, queue: str, n: int) -> AsyncIterator[tuple[dict[str, Any], _Envelope]]:
        """The notifications among the first messages of a queue, which are not leased."""
        view = await self._view(queue)
        cursor, read = "", 0
        while view is not None and read < n:
            page = await view.engine.peek(view.ref, cursor, PAGE_MESSAGES, self._queues.clock.now_ms())
            for message in page.messages:
                try:
                    body = _decode(decode_body(message.body).text.encode())
                    yield body, msgspec.convert(body, _Envelope)
                except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):  # another text
                    continue
            cursor, read = page.cursor, read + len(page.messages)
            if not cursor:
                break

    def _is_genuine(self, body: dict[str, Any], envelope: _Envelope) -> bool:
        """Whether this service signed the body.

        Others may send to the dead-letter queue, and what is delivered again is signed again: nobody may get a
        signature for a text that was never published. Notifications of FIFO topics have none.
        """
        if envelope.topic_arn.endswith(FIFO_SUFFIX):
            return True
        certificate = self._certificate(envelope.signing_cert_url.rpartition("/")[2])
        return certificate is not None and verify_body(body, certificate)

    async def _view(self, queue: str) -> QueueView | None:
        arn = parse_arn(queue)
        if arn is None:
            return None
        try:
            return await self._queues.cache.find((arn.account, arn.region, arn.resource))
        except CnsError:  # the queue's engine is not one of this process
            return None
