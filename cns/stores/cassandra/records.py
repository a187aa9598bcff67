"""The records of subscriptions in Cassandra, and the claims of their endpoints. The indices are derived from them."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import msgspec

from cns.stores.cassandra import schema
from cns.subscriptions.subscription import Subscription
from cns_common.cassandra.lwt import resolve_lost_write
from cns_common.cassandra.session import Cassandra, Statement
from cns_common.errors import OutcomeUnknown, StoreUnavailable

ATTEMPTS_MAX = 10
READ_AT_ONCE = 100
ENDPOINT_KEY_BYTES = 16

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Subscription).decode


@dataclass(frozen=True, slots=True)
class IndexedSubscription:
    """A subscription, and its level in the topic's index."""

    subscription: Subscription
    level: int


class SubscriptionRecords:
    def __init__(self, cassandra: Cassandra) -> None:
        self._cassandra = cassandra

    async def find(self, subscription_id: str) -> IndexedSubscription | None:
        rows = await self._cassandra.run(schema.GET_SUBSCRIPTION, subscription_id)
        return IndexedSubscription(_decode(rows[0][1]), rows[0][0]) if rows else None

    async def find_all(self, ids: Sequence[str]) -> dict[str, Subscription]:
        chunks = [list(ids[start : start + READ_AT_ONCE]) for start in range(0, len(ids), READ_AT_ONCE)]
        pages = await self._cassandra.run_each(schema.GET_SUBSCRIPTIONS, [(chunk,) for chunk in chunks])
        return {subscription_id: _decode(record) for page in pages for subscription_id, record in page}

    async def insert(self, indexed: IndexedSubscription) -> None:
        subscription = indexed.subscription
        row = (subscription.id, subscription.version, indexed.level, _encode(subscription))
        await self._cassandra.run(schema.INSERT_SUBSCRIPTION, *row)

    async def undo_insert(self, subscription: Subscription) -> None:
        """Delete a record that was inserted but got no claim, and so was never changed."""
        await self._cassandra.run(schema.UNDO_INSERT_SUBSCRIPTION, subscription.id)

    async def replace(self, subscription: Subscription, expected_version: int) -> bool:
        async def ours() -> bool:
            there = await self.find(subscription.id)
            return there is not None and there.subscription == subscription

        values = (subscription.version, _encode(subscription), subscription.id, expected_version)
        return await self._write_conditionally(schema.REPLACE_SUBSCRIPTION, values, ours)

    async def remove(self, subscription: Subscription) -> bool:
        """False if it was changed or removed in the meantime."""

        async def gone() -> bool:
            return await self.find(subscription.id) is None

        return await self._write_conditionally(
            schema.REMOVE_SUBSCRIPTION, (subscription.id, subscription.version), gone
        )

    async def holder(self, subscription: Subscription) -> IndexedSubscription | None:
        """The subscription that holds the endpoint."""
        for (holder_id,) in await self._cassandra.run(schema.HOLDER, *_claim_key(subscription)):
            return await self.find(holder_id)
        return None

    async def claim(self, subscription: Subscription) -> IndexedSubscription | None:
        """Claim the endpoint. Return None on success, else the subscription that holds it."""
        key = _claim_key(subscription)

        async def ours() -> bool:
            return await self._cassandra.run(schema.HOLDER, *key) == [(subscription.id,)]

        for _ in range(ATTEMPTS_MAX):
            if await self._write_conditionally(schema.CLAIM, (*key, subscription.id), ours):
                return None
            for (holder_id,) in await self._cassandra.run(schema.HOLDER, *key):
                holder = await self.find(holder_id)
                if holder is not None:
                    return holder
                if await self._write_conditionally(schema.TAKE_OVER, (subscription.id, *key, holder_id), ours):
                    return None
        raise StoreUnavailable(f"too many simultaneous subscriptions of one endpoint to {subscription.topic_arn}")

    async def release(self, subscription: Subscription) -> None:
        """Release the endpoint. If that fails, the claim can be taken over."""
        with contextlib.suppress(OutcomeUnknown):
            await self._cassandra.run_conditional(schema.RELEASE, *_claim_key(subscription), subscription.id)

    async def _write_conditionally(
        self, statement: Statement, values: Sequence[object], ours: Callable[[], Awaitable[bool]]
    ) -> bool:
        return await resolve_lost_write(lambda: self._cassandra.run_conditional(statement, *values), ours)


def _claim_key(subscription: Subscription) -> tuple[str, bytes]:
    """The key of the claim. Endpoints may be long, so it contains a hash."""
    text = f"{subscription.protocol} {subscription.endpoint}"
    return subscription.topic_id, blake2b(text.encode(), digest_size=ENDPOINT_KEY_BYTES).digest()
