"""Subscriptions and their tokens in Cassandra.

A new one is written in this order: its record; the claim of its endpoint, which decides who is first; the indices. So a
claim whose record is missing belonged to a subscription that was removed, and may be taken over; and a crash leaves, at
worst, a claimed record without indices, which the next Subscribe (this one was not answered) finds and completes. A
change of place enters the index before the record changes and leaves the old place after it: publishing may see a
subscription too many, which its delivery then passes over, and never one too few. A change of a filter is first of all
entered in the topic's log (`cns.stores.cassandra.filter_log`), which says which records are to be read.

Why no publish misses a subscription, whichever reads of its own the steps of a change fall between. It reads the
topic's row, and then the ids without filters. (1) One gets a filter: a publish that read the log's number before finds
it among the ids, where it stays for `LINGER_S`; one that read it after holds its filter, which goes before the ids. (2)
One loses its filter: it is among the ids before its record says so, and those who read the record then read the ids
anew. (3) The record is older than the log said: it is read again at every publish until it is not; a writer that died
between the two has changed nothing. (4) A process that begins to hold a topic's filters reads the log's place, then
all entries of the ring and of the index, in this order: a change that is not in the index yet is in the ring. Only a
writer that is overtaken by a whole ring of entries and then dies before it can write its own again is missed by who
began in between: its call was not answered.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from cns.publishing.filter_changes import Audience, FilterChange
from cns.stores.cassandra import schema
from cns.stores.cassandra.counts import Counters
from cns.stores.cassandra.expiry import ExpiryIndex
from cns.stores.cassandra.filter_log import FilterLog, log_position
from cns.stores.cassandra.owner_index import OwnerIndex
from cns.stores.cassandra.records import IndexedSubscription, SubscriptionRecords
from cns.stores.cassandra.sweep import SubscriptionSweep
from cns.stores.cassandra.topic_index import BUCKET_ROWS, TopicIndex, level_for
from cns.subscriptions.subscription import (
    ConfirmationToken,
    IndexState,
    Subscription,
    SubscriptionCounts,
    filters_alike,
    id_of,
)
from cns_common.cassandra.change_listeners import ChangeNotifier
from cns_common.cassandra.session import Cassandra
from cns_common.cassandra.verified_pages import verified_page
from cns_common.errors import OutcomeUnknown

TRIES_MAX = 10


class CassandraSubscriptionStore(ChangeNotifier[str]):
    """See `cns.stores.contract.SubscriptionStore`."""

    def __init__(self, cassandra: Cassandra, *, bucket_rows: int = BUCKET_ROWS) -> None:
        super().__init__()
        self._cassandra = cassandra
        self._bucket_rows = bucket_rows
        self._records = SubscriptionRecords(cassandra)
        self._counts = Counters(cassandra)
        self._of_topic = TopicIndex(cassandra)
        self._of_owner = OwnerIndex(cassandra)
        self._expiry = ExpiryIndex(cassandra)
        self._log = FilterLog(cassandra)
        self._sweep = SubscriptionSweep(
            cassandra, self._records, self._of_topic, self._expiry, self._counts, self._sweep_away
        )

    # -- writing ------------------------------------------------------------------------------------------------------

    async def create(self, subscription: Subscription, token: ConfirmationToken | None) -> Subscription | None:
        created = await self._create(subscription, token)
        await self._notify(subscription.arn)
        return created

    async def _create(self, subscription: Subscription, token: ConfirmationToken | None) -> Subscription | None:
        level = await self._level_for_new(subscription)
        if level is None:
            return None
        indexed = IndexedSubscription(subscription, level)
        await self._records.insert(indexed)
        holder = await self._records.claim(subscription)
        if holder is not None:
            await asyncio.gather(self._records.take_back(subscription), self._enter(holder))
            return holder.subscription
        await asyncio.gather(self._enter(indexed), self._put_token(token))
        await self._counts.count_subscription(None, subscription)
        if await self._level(subscription) is None:  # deleted meanwhile, and the sweep may have passed here before us
            await self._remove(indexed)
            return None
        return subscription

    async def _level_for_new(self, subscription: Subscription) -> int | None:
        """The level to enter it at; None when that incarnation of its topic is gone."""
        level = await self._level(subscription)
        counts = await self._counts.of_topic(subscription.topic_id)
        wanted = level_for(counts.pending + counts.confirmed + counts.removed, self._bucket_rows)
        for _ in range(TRIES_MAX):
            if level is None or level >= wanted:
                break
            with contextlib.suppress(OutcomeUnknown):  # what came of it is read
                step = (level + 1, subscription.topic_arn, subscription.topic_id, level)
                await self._cassandra.applied(schema.RAISE_LEVEL, *step)
            level = await self._level(subscription)
        return level

    async def _level(self, subscription: Subscription) -> int | None:
        """The one its topic has reached: where readers look."""
        rows = await self._cassandra.run(schema.PLACE_OF_TOPIC, subscription.topic_arn)
        return rows[0][1] if rows and rows[0][0] == subscription.topic_id else None

    async def _enter(self, indexed: IndexedSubscription) -> None:
        subscription = indexed.subscription
        await asyncio.gather(
            self._of_topic.enter(subscription, indexed.level),
            self._of_owner.enter(subscription),
            self._expiry.enter(subscription),
            self._log_change(None, subscription),
        )

    async def replace(self, subscription: Subscription, expected_version: int, token: ConfirmationToken | None) -> bool:
        replaced = await self._replace(subscription, expected_version)
        if replaced:
            await self._put_token(token)
        await self._notify(subscription.arn)
        return replaced

    async def _replace(self, subscription: Subscription, expected_version: int) -> bool:
        found = await self._records.find(subscription.id)
        if found is None or found.subscription.version != expected_version:
            return False
        before, level = found.subscription, found.level
        logged = await self._log_change(before, subscription)
        if before.index_state is not subscription.index_state:
            await self._of_topic.enter(subscription, level)
        if before.expires_ms != subscription.expires_ms:
            await self._expiry.enter(subscription)
        if not await self._records.replace(subscription, expected_version):
            return False
        if logged:
            await self._log.keep(_topic(subscription), _change(subscription), logged)
        if before.index_state is not subscription.index_state:
            await self._of_topic.leave_others(subscription, level, before.index_state)
        await self._counts.count_subscription(before, subscription)
        return True

    async def _log_change(self, before: Subscription | None, after: Subscription) -> int:
        """The number of the log's entry; 0 when publishing need not know."""
        return 0 if filters_alike(before, after) else await self._log.append(_topic(after), _change(after))

    async def remove(self, arn: str) -> bool:
        removed = await self._remove_whatever_version(arn)
        await self._notify(arn)
        return removed

    async def _remove_whatever_version(self, arn: str) -> bool:
        for _ in range(TRIES_MAX):
            found = await self._records.find(id_of(arn))
            if found is None or found.subscription.arn != arn:
                return False
            if await self._remove(found):
                return True
        return False

    async def _remove(self, indexed: IndexedSubscription) -> bool:
        """False when it was changed meanwhile. A crash after the record went leaves entries that point to nothing:
        lists remove them, deliveries pass them over, the endpoint's claim is taken over."""
        subscription = indexed.subscription
        if subscription.index_state is IndexState.FILTERED:
            await self._log.append(_topic(subscription), FilterChange(subscription.id, subscription.version + 1))
        if not await self._records.remove(subscription):
            return False
        await asyncio.gather(
            self._of_topic.remove(subscription.topic_id, indexed.level, subscription.id),
            self._of_owner.remove(subscription.owner, subscription.region, subscription.id),
            self._records.release(subscription),
        )
        await self._counts.count_subscription(subscription, None)
        return True

    async def sweep(self, now_ms: int, budget: int) -> int:
        done = await self._sweep.expired(now_ms, budget)
        return done + await self._sweep.dropped_topics(budget - done)

    async def _sweep_away(self, indexed: IndexedSubscription) -> bool:
        removed = await self._remove(indexed)
        await self._notify(indexed.subscription.arn)
        return removed

    async def _put_token(self, token: ConfirmationToken | None) -> None:
        if token is not None:
            row = (token.text, token.subscription_arn, token.expires_ms)
            await self._cassandra.run(schema.INSERT_TOKEN, *row)

    # -- reading ------------------------------------------------------------------------------------------------------

    async def get(self, arns: Sequence[str]) -> list[Subscription]:
        ids = [id_of(arn) for arn in arns]
        found = await self._records.find_all(ids)
        return [found[one] for one, arn in zip(ids, arns, strict=True) if one in found and found[one].arn == arn]

    async def find_alike(self, subscription: Subscription) -> Subscription | None:
        holder = await self._records.holder(subscription)
        return None if holder is None else holder.subscription

    async def find_token(self, text: str) -> ConfirmationToken | None:
        rows = await self._cassandra.run(schema.FIND_TOKEN, text)
        return ConfirmationToken(*rows[0]) if rows else None

    async def audience(self, topic_arn: str, after: str, n: int, since: str) -> Audience:
        """Two reads for a small topic: which incarnation there is, at which level, is never remembered."""
        for topic_id, level, number in await self._cassandra.run(schema.AUDIENCE_OF_TOPIC, topic_arn):
            ids = await self._of_topic.ids(topic_id, level, IndexState.CONFIRMED, after, n)
            if not number:
                return Audience(ids)
            if log_position(topic_id, number) == since:
                return Audience(ids, since)
            standing = await self._log.read(topic_arn, since)
            if standing is not None:
                return Audience(ids, standing.place, standing.changes, standing.anew)
        return Audience([])

    async def page_of_filtered(self, topic_arn: str, after: str, n: int) -> list[Subscription]:
        for topic_id, level in await self._cassandra.run(schema.PLACE_OF_TOPIC, topic_arn):
            return await self._page_of_states(topic_id, level, [IndexState.FILTERED], after, n)
        return []

    async def page_of_topic(self, topic_arn: str, after: str, n: int) -> list[Subscription]:
        for topic_id, level in await self._cassandra.run(schema.PLACE_OF_TOPIC, topic_arn):
            return await self._page_of_states(topic_id, level, list(IndexState), after, n)
        return []

    async def _page_of_states(
        self, topic_id: str, level: int, states: Sequence[IndexState], after: str, n: int
    ) -> list[Subscription]:
        async def read(after: str, n: int) -> list[str]:
            pages = await asyncio.gather(*[self._of_topic.ids(topic_id, level, state, after, n) for state in states])
            return sorted({one for page in pages for one in page})[:n]

        async def check(ids: Sequence[str]) -> list[Subscription]:
            found = await self._records.find_all(ids)
            await asyncio.gather(*[self._of_topic.remove(topic_id, level, one) for one in ids if one not in found])
            return [found[one] for one in ids if one in found]

        return await verified_page(read, check, str, after, n)

    async def page_of_owner(self, account: str, region: str, after: str, n: int) -> list[Subscription]:
        async def read(after: str, n: int) -> list[str]:
            return await self._of_owner.ids(account, region, after, n)

        async def check(ids: Sequence[str]) -> list[Subscription]:
            found = await self._records.find_all(ids)
            await asyncio.gather(*[self._of_owner.remove(account, region, one) for one in ids if one not in found])
            return [found[one] for one in ids if one in found]

        return await verified_page(read, check, str, after, n)

    async def counts(self, topic_arn: str) -> SubscriptionCounts:
        for topic_id, _ in await self._cassandra.run(schema.PLACE_OF_TOPIC, topic_arn):
            return await self._counts.of_topic(topic_id)
        return SubscriptionCounts()

    async def count_pending(self, account: str) -> int:
        return (await self._counts.of_account(account)).pending

    async def count_filter_policies(self, account: str) -> int:
        return (await self._counts.of_account(account)).filter_policies


def _topic(subscription: Subscription) -> tuple[str, str]:
    return subscription.topic_arn, subscription.topic_id


def _change(subscription: Subscription) -> FilterChange:
    return FilterChange(subscription.id, subscription.version)
