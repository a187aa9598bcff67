"""What CNS's stores promise: topics, subscriptions, and the notifications that jobs refer to.

Arguments and results are what msgspec can encode, because a store may be in another process
(`cns_common.rpc.protocol_proxy`). Every write is durable when it returns, and every call takes about the same time
however much is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from cns.archives.model import ArchivedMessage
from cns.archives.replay import Replay
from cns.delivery.outbox import OutboxItem
from cns.notification import Notification
from cns.publishing.filter_changes import Audience
from cns.subscriptions.subscription import ConfirmationToken, Subscription, SubscriptionCounts
from cns.topics.topic import Topic, TopicCounts

SIGNING_KEY_SEALED_AS = "signing-key"
"""The name under which both drivers seal the signing key."""


class SigningIdentity(msgspec.Struct, frozen=True):
    """A signing key and its certificate, both PEM."""

    key_pem: bytes
    certificate_pem: bytes


class TopicStore(Protocol):
    """Topics, found by ARN."""

    changed: list[Callable[[str], None]]
    """Called with the ARN of a topic that was created, replaced or deleted, by whomever: forget what you know of it."""

    async def create(self, topic: Topic) -> Topic:
        """The topic that has this ARN from now on: the given one, or one that was there before."""
        ...

    async def get(self, arn: str) -> Topic | None: ...

    async def replace(self, topic: Topic, expected_version: int) -> bool:
        """False, and nothing is done, when the record is of another version or incarnation, or gone."""
        ...

    async def delete(self, arn: str) -> bool:
        """At once, whatever the number of subscriptions: those are left to `SubscriptionStore.sweep`."""
        ...

    async def list_arns(self, account: str, region: str, after: str, n: int) -> list[str]:
        """Up to `n` ARNs in their order, after the given one."""
        ...

    async def count(self, account: str) -> TopicCounts: ...


class SubscriptionStore(Protocol):
    """Subscriptions, found by ARN, topic, owner, or by topic and endpoint. Pages are in the order of their ids, and
    begin after the id given ('' for the first)."""

    changed: list[Callable[[str], None]]
    """Called with the ARN of a subscription that was created, replaced or removed, by whomever."""

    async def create(self, subscription: Subscription, token: ConfirmationToken | None) -> Subscription | None:
        """The one that the topic has for this protocol and endpoint from now on: the given one, with its token, or one
        that was there before. None when that incarnation of the topic is gone."""
        ...

    async def get(self, arns: Sequence[str]) -> list[Subscription]:
        """Those of the given that exist. The ones of a deleted topic do until they are swept."""
        ...

    async def replace(self, subscription: Subscription, expected_version: int, token: ConfirmationToken | None) -> bool:
        """Put the record, and a token for it, in place. False, and nothing is done, when the record there is of
        another version or gone."""
        ...

    async def remove(self, arn: str) -> bool:
        """Its tokens stay until they expire: they say that it was there."""
        ...

    async def find_alike(self, subscription: Subscription) -> Subscription | None:
        """The one that its incarnation of the topic has for its protocol and endpoint."""
        ...

    async def find_token(self, text: str) -> ConfirmationToken | None: ...

    async def audience(self, topic_arn: str, after: str, n: int, since: str) -> Audience:
        """What publishing asks. `since`: the log's place up to which the caller knows the filters, '' for none.

        Subscriptions move between the audience's ids and the filtered ones. Who reads the records of all `changes`
        and asks again, until there are none, has missed nobody; one whose filter is new may be among the ids still.
        """
        ...

    async def page_of_filtered(self, topic_arn: str, after: str, n: int) -> list[Subscription]:
        """Of those that are confirmed and have a filter."""
        ...

    async def page_of_topic(self, topic_arn: str, after: str, n: int) -> list[Subscription]: ...

    async def page_of_owner(self, account: str, region: str, after: str, n: int) -> list[Subscription]: ...

    async def counts(self, topic_arn: str) -> SubscriptionCounts: ...

    async def count_pending(self, account: str) -> int:
        """Of one owner, in all topics."""
        ...

    async def count_filter_policies(self, account: str) -> int:
        """Likewise."""
        ...

    async def sweep(self, now_ms: int, budget: int) -> int:
        """Forget up to `budget` records: expired tokens and subscriptions, subscriptions of deleted topics. Returns
        how many there were (fewer than the budget: nothing waits)."""
        ...


class NotificationStore(Protocol):
    """Each notification once, while jobs refer to it. References may be counted too high after a crash, never too
    low; what is left over is swept when `expires_ms` has come."""

    async def put(self, notification: Notification, references: int, expires_ms: int) -> None:
        """Called before the jobs' send in the same loop turn, it shares their commit or precedes it."""
        ...

    async def get(self, notification_id: str) -> Notification | None: ...

    async def refer(self, notification_id: str, change: int) -> None:
        """Count `change` more (or fewer) references; without any, the notification is removed."""
        ...

    async def sweep(self, now_ms: int, budget: int) -> int: ...


class OutboxStore(Protocol):
    """See `cns.delivery.outbox`."""

    async def put(self, item: OutboxItem) -> None:
        """The same id again changes nothing."""
        ...

    async def get(self, item_id: str) -> OutboxItem | None: ...

    async def newest(self, account: str, protocol: str, before: str, n: int) -> list[OutboxItem]:
        """Up to `n` items older than the id `before` ('' for the newest), newest first. Account '' is every one, and so
        is protocol ''."""
        ...

    async def remove(self, item_ids: Sequence[str]) -> None: ...

    async def sweep(self, now_ms: int, budget: int) -> int:
        """Forget what was kept for `OUTBOX_MS`, and how many that were."""
        ...


class ArchiveStore(Protocol):
    """The messages that topics keep. An archive is there as soon as something is in it, and its id is used once."""

    async def append(self, archive_id: str, messages: Sequence[ArchivedMessage]) -> None:
        """A key that is there already changes nothing. Called before the jobs' send in the same loop turn, it shares
        their commit or precedes it."""
        ...

    async def page(self, archive_id: str, from_ms: int, until_ms: int, after: str, n: int) -> list[ArchivedMessage]:
        """Up to `n` of those published in [from_ms, until_ms) whose keys are behind `after`, in the order of the keys.
        That is the order of time but for `SKEW_MS`."""
        ...

    async def drop(self, archive_id: str) -> None:
        """At once, however much is in it: its rows are left to `sweep`."""
        ...

    async def sweep(self, now_ms: int, budget: int) -> int:
        """Forget up to `budget` messages, those that were kept for long enough and those of dropped archives. Returns
        how many there were."""
        ...


class ReplayStore(Protocol):
    """The replay that a subscription has, or had last."""

    async def put(self, replay: Replay) -> None:
        """In place of whatever replay the subscription had."""
        ...

    async def get(self, subscription_arn: str) -> Replay | None: ...

    async def replace(self, replay: Replay, expected_version: int) -> bool:
        """False, and nothing is done, when the subscription's is another one, of another version, or gone."""
        ...

    async def remove(self, subscription_arn: str) -> None: ...

    async def of_topic(self, topic_arn: str) -> list[Replay]:
        """As they are now, whoever changed them: what is answered here says who sends a message."""
        ...

    async def active(self) -> list[Replay]: ...


class SigningKeyStore(Protocol):
    """The key that signs notifications."""

    async def identity(self, now_ms: int) -> SigningIdentity:
        """Return the key to sign with. Create it, durably, if there is none."""
        ...

    async def certificates(self) -> list[bytes]:
        """Return all certificates ever used, newest first: receivers may verify old notifications."""
        ...
