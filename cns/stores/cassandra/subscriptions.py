"""Subscriptions and their tokens in Cassandra.

A new subscription is written in this order: its record; the claim of its endpoint, by which one of several callers
wins; the indices. So a claim without a record belonged to a removed subscription, and can be taken over. A crash leaves
at worst a record with a claim but without index entries: its call was not answered, and the next Subscribe finds and
completes it.

A change of index state enters the new state before the record changes, and removes the old one afterwards: a publish
may see a subscription too many, which delivery skips, but never one too few. A change of a filter is first written to
the topic's log (`cns.stores.cassandra.filter_log`), which names the records that readers must read again.

No publish misses a subscription, whichever steps of a change happen between its reads. A publish reads the topic's row,
then the ids without filters.

1. A subscription gets a filter. A publish that read the log's number before finds it among the ids, where it stays for
   `LINGER_S`. A publish that read the number afterwards has its filter, which takes precedence over the ids.
2. A subscription loses its filter. It is among the ids before its record changes, and a publish that reads the record
   then reads the ids again.
3. The record is older than the log says. It is read again at every publish until it is not. If the writer died before
   it changed the record, nothing has changed.
4. A process starts to hold a topic's filters. It reads the log's position, then all entries of the ring and of the
   index, in this order: a change that is not in the index yet is in the ring. One case remains: a writer is overtaken
   by a whole ring of entries, and dies before it writes its own entry again. A process that started in between misses
   the change, whose call was not answered.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from functools import partial

from cns.publishing.filter_changes import Audience, FilterChange
from cns.stores.cassandra import schema
from cns.stores.cassandra.counts import TopicCounters
from cns.stores.cassandra.expiry import ExpiryIndex
from cns.stores.cassandra.filter_log import FilterLog, log_position
from cns.stores.cassandra.owner_index import OwnerIndex
from cns.stores.cassandra.records import IndexedSubscription, SubscriptionRecords
from cns.stores.cassandra.sweep import SubscriptionSweep
from cns.stores.cassandra.topic_index import BUCKET_ROWS, TopicIndex, level_for
from cns.stores.contract import SubscriptionStore
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
from cns_common.cassandra.verified_pages import page_of_ids
from cns_common.errors import OutcomeUnknown
from cns_common.store_keys import refuse_bad_keys

ATTEMPTS_MAX = 10


@refuse_bad_keys(SubscriptionStore)
class CassandraSubscriptionStore(ChangeNotifier[str], SubscriptionStore):
    def __init__(self, cassandra: Cassandra, *, bucket_rows: int = BUCKET_ROWS) -> None:
        super().__init__()
        self._cassandra = cassandra
        self._bucket_rows = bucket_rows
        self._records = SubscriptionRecords(cassandra)
        self._counts = TopicCounters(cassandra)
        self._topic_index = TopicIndex(cassandra)
        self._owner_index = OwnerIndex(cassandra)
        self._expiry = ExpiryIndex(cassandra)
        self._log = FilterLog(cassandra)
        self._sweep = SubscriptionSweep(
            cassandra, self._records, self._topic_index, self._expiry, self._counts, self._remove_swept
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
            await asyncio.gather(self._records.undo_insert(subscription), self._enter(holder))
            return holder.subscription
        await asyncio.gather(self._enter(indexed), self._put_token(token))
        await self._counts.count_subscription(None, subscription)
        if await self._level(subscription) is None:  # the topic was deleted, and its sweep may have passed already
            await self._remove(indexed)
            return None
        return subscription

    async def _level_for_new(self, subscription: Subscription) -> int | None:
        """The level at which to enter a subscription; None if its incarnation of the topic does not exist."""
        level = await self._level(subscription)
        counts = await self._counts.topic_counts(subscription.topic_id)
        wanted = level_for(counts.pending + counts.confirmed + counts.removed, self._bucket_rows)
        for _ in range(ATTEMPTS_MAX):
            if level is None or level >= wanted:
                break
            with contextlib.suppress(OutcomeUnknown):  # the outcome is read next
                step = (level + 1, subscription.topic_arn, subscription.topic_id, level)
                await self._cassandra.run_conditional(schema.RAISE_LEVEL, *step)
            level = await self._level(subscription)
        return level

    async def _level(self, subscription: Subscription) -> int | None:
        """The level that the topic has reached."""
        rows = await self._cassandra.run(schema.LEVEL_OF_TOPIC, subscription.topic_arn)
        return rows[0][1] if rows and rows[0][0] == subscription.topic_id else None

    async def _enter(self, indexed: IndexedSubscription) -> None:
        subscription = indexed.subscription
        await asyncio.gather(
            self._topic_index.enter(subscription, indexed.level),
            self._owner_index.enter(subscription),
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
            await self._topic_index.enter(subscription, level)
        if before.expires_ms != subscription.expires_ms:
            await self._expiry.enter(subscription)
        if not await self._records.replace(subscription, expected_version):
            return False
        if logged:
            await self._log.rewrite_if_old(_topic(subscription), _change(subscription), logged)
        if before.index_state is not subscription.index_state:
            await self._topic_index.remove_other_states(subscription, level, before.index_state)
        await self._counts.count_subscription(before, subscription)
        return True

    async def _log_change(self, before: Subscription | None, after: Subscription) -> int:
        """Write a change of filters to the log. Return the number of its entry; 0 if filtering is not affected."""
        return 0 if filters_alike(before, after) else await self._log.append(_topic(after), _change(after))

    async def remove(self, arn: str) -> bool:
        removed = await self._remove_any_version(arn)
        await self._notify(arn)
        return removed

    async def _remove_any_version(self, arn: str) -> bool:
        for _ in range(ATTEMPTS_MAX):
            found = await self._records.find(id_of(arn))
            if found is None or found.subscription.arn != arn:
                return False
            if await self._remove(found):
                return True
        return False

    async def _remove(self, indexed: IndexedSubscription) -> bool:
        """False if it was changed in the meantime.

        A crash after the record is deleted leaves index entries without one: lists remove them, deliveries skip them,
        and the claim of the endpoint is taken over.
        """
        subscription = indexed.subscription
        if subscription.index_state is IndexState.FILTERED:
            await self._log.append(_topic(subscription), FilterChange(subscription.id, subscription.version + 1))
        if not await self._records.remove(subscription):
            return False
        await asyncio.gather(
            self._topic_index.remove(subscription.topic_id, indexed.level, subscription.id),
            self._owner_index.remove(subscription.owner, subscription.region, subscription.id),
            self._records.release(subscription),
        )
        await self._counts.count_subscription(subscription, None)
        return True

    async def sweep(self, now_ms: int, budget: int) -> int:
        done = await self._sweep.sweep_expired(now_ms, budget)
        return done + await self._sweep.sweep_dropped_topics(budget - done)

    async def _remove_swept(self, indexed: IndexedSubscription) -> bool:
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

    async def find_same_endpoint(self, subscription: Subscription) -> Subscription | None:
        holder = await self._records.holder(subscription)
        return None if holder is None else holder.subscription

    async def find_token(self, text: str) -> ConfirmationToken | None:
        rows = await self._cassandra.run(schema.FIND_TOKEN, text)
        return ConfirmationToken(*rows[0]) if rows else None

    async def audience(self, topic_arn: str, after: str, n: int, since: str) -> Audience:
        """Two reads for a small topic: its incarnation and level are never cached."""
        for topic_id, level, number in await self._cassandra.run(schema.AUDIENCE_OF_TOPIC, topic_arn):
            ids = await self._topic_index.ids(topic_id, level, IndexState.CONFIRMED, after, n)
            if not number:
                return Audience(ids)
            if log_position(topic_id, number) == since:
                return Audience(ids, since)
            unread = await self._log.read(topic_arn, since)
            if unread is not None:
                return Audience(ids, unread.position, unread.changes, unread.reload_all)
        return Audience([])

    async def page_of_filtered(self, topic_arn: str, after: str, n: int) -> list[Subscription]:
        for topic_id, level in await self._cassandra.run(schema.LEVEL_OF_TOPIC, topic_arn):
            return await self._page_of_states(topic_id, level, [IndexState.FILTERED], after, n)
        return []

    async def page_of_topic(self, topic_arn: str, after: str, n: int) -> list[Subscription]:
        for topic_id, level in await self._cassandra.run(schema.LEVEL_OF_TOPIC, topic_arn):
            return await self._page_of_states(topic_id, level, list(IndexState), after, n)
        return []

    async def _page_of_states(
        self, topic_id: str, level: int, states: Sequence[IndexState], after: str, n: int
    ) -> list[Subscription]:
        async def read(after: str, n: int) -> list[str]:
            pages = await asyncio.gather(*[self._topic_index.ids(topic_id, level, state, after, n) for state in states])
            return sorted({one for page in pages for one in page})[:n]

        remove = partial(self._topic_index.remove, topic_id, level)
        return await page_of_ids(read, self._records.find_all, remove, after, n)

    async def page_of_owner(self, account: str, region: str, after: str, n: int) -> list[Subscription]:
        read = partial(self._owner_index.ids, account, region)
        remove = partial(self._owner_index.remove, account, region)
        return await page_of_ids(read, self._records.find_all, remove, after, n)

    async def regions(self, account: str) -> list[str]:
        return await schema.OWNER_REGIONS.regions(self._cassandra, account)

    async def counts(self, topic_arn: str) -> SubscriptionCounts:
        for topic_id, _ in await self._cassandra.run(schema.LEVEL_OF_TOPIC, topic_arn):
            return await self._counts.topic_counts(topic_id)
        return SubscriptionCounts()

    async def count_pending(self, account: str) -> int:
        return (await self._counts.account_counts(account)).pending

    async def count_filter_policies(self, account: str) -> int:
        return (await self._counts.account_counts(account)).filter_policies


def _topic(subscription: Subscription) -> tuple[str, str]:
    return subscription.topic_arn, subscription.topic_id


def _change(subscription: Subscription) -> FilterChange:
    return FilterChange(subscription.id, subscription.version)
