"""Finds a past message of a subscription where it still is: the topic's archive, or the dead-letter queue."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from cns.archives.model import SKEW_MS_MAX
from cns.delivery.envelope import verify_body
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
PAGE_MESSAGES = 100
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Wanted(NamedTuple):
    """A message that a subscription did not get. `published_ms` is about its publish time; `queue` is the ARN of the
    dead-letter queue that has it, if any."""

    topic_arn: str
    message_id: str
    published_ms: int
    queue: str


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
    message_attributes: dict[str, _Attribute] = {}

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
        if topic is None or topic.archive is None:
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

    async def _dead_letter(self, wanted: Wanted) -> Notification | None:
        """Look at the messages of the queue, without leasing them. A raw one has no id, so it is not found."""
        view = await self._view(wanted.queue)
        cursor, read = "", 0
        while view is not None and read < LETTERS_READ_MAX:
            page = await view.engine.peek(view.ref, cursor, PAGE_MESSAGES, self._queues.clock.now_ms())
            for message in page.messages:
                found = self._read(decode_body(message.body).text)
                if found is not None and (found.id, found.topic_arn) == (wanted.message_id, wanted.topic_arn):
                    return found
            cursor, read = page.cursor, read + len(page.messages)
            if not cursor:
                break
        return None

    def _read(self, text: str) -> Notification | None:
        """The notification of a body that this service signed; None for another text.

        Others may send to the dead-letter queue, and what is delivered again is signed again: nobody may get a
        signature for a text that was never published. Notifications of FIFO topics have none.
        """
        try:
            body = _decode(text.encode())
            envelope = msgspec.convert(body, _Envelope)
        except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
            return None
        notification = envelope.notification()
        if notification.fifo:
            return notification
        certificate = self._certificate(envelope.signing_cert_url.rpartition("/")[2])
        return notification if certificate is not None and verify_body(body, certificate) else None

    async def _view(self, queue: str) -> QueueView | None:
        arn = parse_arn(queue)
        if arn is None:
            return None
        try:
            return await self._queues.cache.find((arn.account, arn.region, arn.resource))
        except CnsError:  # the queue's engine is not one of this process
            return None
