"""The contract of CNS's stores.

Arguments and results can be encoded by msgspec, because a store may be in another process
(`cns_common.rpc.protocol_proxy`). Every write is durable when it returns. The duration of a call does not depend on how
much is stored, except where it says so.
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
from cns_common.store_keys import Key, KeyOrEmpty

SIGNING_KEY_SEALED_AS = "signing-key"
"""The name under which both drivers seal the signing key."""


class SigningIdentity(msgspec.Struct, frozen=True):
    """A signing key and its certificate, both PEM."""

    key_pem: bytes
    certificate_pem: bytes


class TopicStore(Protocol):
    """Topics, found by ARN."""

    changed: list[Callable[[str], None]]
    """Callbacks, called with the ARN of a topic that any process created, replaced or deleted."""

    async def create(self, topic: Topic) -> Topic:
        """Store the topic, or find the one that has this ARN already. Return the one that is stored now."""
        ...

    async def get(self, arn: Key) -> Topic | None: ...

    async def replace(self, topic: Topic, expected_version: int) -> bool:
        """False, without a change, if the record has another version or incarnation, or does not exist."""
        ...

    async def delete(self, arn: Key) -> bool:
        """Delete the topic only: its subscriptions are deleted by `SubscriptionStore.sweep`."""
        ...

    async def list_arns(self, account: Key, region: Key, after: KeyOrEmpty, n: int) -> list[str]:
        """Up to `n` ARNs after the given one, sorted."""
        ...

    async def regions(self, account: Key) -> list[str]:
        """The regions in which the account has topics, sorted. May scan the store: for rare acts only."""
        ...

    async def count(self, account: Key) -> TopicCounts: ...


class SubscriptionStore(Protocol):
    """Subscriptions, found by ARN, by topic, by owner, or by topic and endpoint.

    Pages are sorted by id, and begin after the given id ('' for the first page).
    """

    changed: list[Callable[[str], None]]
    """Callbacks, called with the ARN of a subscription that any process created, replaced or removed."""

    async def create(self, subscription: Subscription, token: ConfirmationToken | None) -> Subscription | None:
        """Store a subscription and its token, or find the one that the topic has for this protocol and endpoint.

        Return the one that is stored now. None if that incarnation of the topic does not exist.
        """
        ...

    async def get(self, arns: Sequence[Key]) -> list[Subscription]:
        """Return the given subscriptions that exist. Subscriptions of a deleted topic exist until they are swept."""
        ...

    async def replace(self, subscription: Subscription, expected_version: int, token: ConfirmationToken | None) -> bool:
        """Replace the record, and store a token for it.

        False, without a change, if the record has another version or does not exist.
        """
        ...

    async def remove(self, arn: Key) -> bool:
        """Remove a subscription. Its tokens stay until they expire, to show that it existed."""
        ...

    async def find_same_endpoint(self, subscription: Subscription) -> Subscription | None:
        """The subscription that the same incarnation of the topic has for the same protocol and endpoint."""
        ...

    async def find_token(self, text: Key) -> ConfirmationToken | None: ...

    async def audience(self, topic_arn: Key, after: KeyOrEmpty, n: int, since: KeyOrEmpty) -> Audience:
        """A page of the subscriptions without a filter, and the filter changes after log position `since` ('': none).

        Subscriptions move between the audience's ids and the filtered ones. A caller that reads the records of all
        `changes`, and asks again until there are none, misses no subscription. One that just got a filter may still be
        among the ids.
        """
        ...

    async def page_of_filtered(self, topic_arn: Key, after: KeyOrEmpty, n: int) -> list[Subscription]:
        """A page of the confirmed subscriptions with a filter."""
        ...

    async def page_of_topic(self, topic_arn: Key, after: KeyOrEmpty, n: int) -> list[Subscription]: ...

    async def page_of_owner(self, account: Key, region: Key, after: KeyOrEmpty, n: int) -> list[Subscription]: ...

    async def regions(self, account: Key) -> list[str]:
        """The regions in which the account owns subscriptions, sorted. May scan the store: for rare acts only."""
        ...

    async def counts(self, topic_arn: Key) -> SubscriptionCounts: ...

    async def count_pending(self, account: Key) -> int:
        """Pending subscriptions of an owner, in all topics."""
        ...

    async def count_filter_policies(self, account: Key) -> int:
        """Subscriptions of an owner with a filter policy, in all topics."""
        ...

    async def sweep(self, now_ms: int, budget: int) -> int:
        """Delete up to `budget` records: expired tokens and subscriptions, and subscriptions of deleted topics.

        Return how many were deleted: fewer than the budget if no more are due.
        """
        ...


class NotificationStore(Protocol):
    """Notifications, each stored once while jobs refer to it.

    After a crash the count of references may be too high, never too low. `sweep` deletes what is left at `expires_ms`.
    """

    async def put(self, notification: Notification, references: int, expires_ms: int) -> None:
        """Call it before the jobs are sent, in the same loop turn: it is in the same commit or in an earlier one."""
        ...

    async def get(self, notification_id: Key) -> Notification | None: ...

    async def add_references(self, notification_id: Key, change: int) -> None:
        """Change the count of references. At 0 the notification is removed."""
        ...

    async def sweep(self, now_ms: int, budget: int) -> int: ...


class OutboxStore(Protocol):
    """See `cns.delivery.outbox`."""

    async def put(self, item: OutboxItem) -> None:
        """Store an item, unless its id is stored already."""
        ...

    async def get(self, item_id: Key) -> OutboxItem | None: ...

    async def newest(self, account: KeyOrEmpty, protocol: KeyOrEmpty, before: KeyOrEmpty, n: int) -> list[OutboxItem]:
        """Up to `n` items older than the id `before` ('' for the newest), newest first.

        '' stands for every account, and for every protocol.
        """
        ...

    async def remove(self, item_ids: Sequence[Key]) -> None: ...

    async def sweep(self, now_ms: int, budget: int) -> int:
        """Delete up to `budget` items that are older than `OUTBOX_MS`. Return how many were deleted."""
        ...


class ArchiveStore(Protocol):
    """The archived messages of topics. An archive needs no creation, and its id is used once."""

    async def append(self, archive_id: Key, messages: Sequence[ArchivedMessage]) -> None:
        """Store messages, except those whose keys are stored already.

        Call it before the jobs are sent, in the same loop turn: it is in the same commit or in an earlier one.
        """
        ...

    async def page(
        self, archive_id: Key, from_ms: int, until_ms: int, after: KeyOrEmpty, n: int
    ) -> list[ArchivedMessage]:
        """Up to `n` messages published in [from_ms, until_ms) with keys above `after`, sorted by key.

        That is the order of publish times, except for differences up to `SKEW_MS_MAX`.
        """
        ...

    async def drop(self, archive_id: Key) -> None:
        """Drop an archive. Its messages are deleted by `sweep`."""
        ...

    async def sweep(self, now_ms: int, budget: int) -> int:
        """Delete up to `budget` messages that expired or whose archive was dropped. Return how many were deleted."""
        ...


class ReplayStore(Protocol):
    """The current or the last replay of each subscription."""

    async def put(self, replay: Replay) -> None:
        """Store a replay in place of any earlier one of the subscription."""
        ...

    async def get(self, subscription_arn: Key) -> Replay | None: ...

    async def replace(self, replay: Replay, expected_version: int) -> bool:
        """False, without a change, if the subscription has another replay, another version of it, or none."""
        ...

    async def remove(self, subscription_arn: Key) -> None: ...

    async def of_topic(self, topic_arn: Key) -> list[Replay]:
        """The current records, never cached ones: they decide whether the fan-out or a replay sends a message."""
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
