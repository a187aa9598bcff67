"""The attributes and the lists of subscriptions, as their owners see them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from cns.archives.replay_api import SubscriptionReplays
from cns.archives.replay_policy import REPLAY_POLICY
from cns.authorization import Access
from cns.errors import concurrent_access, no_such_topic
from cns.limits import PAGE_SIZE, UPDATE_TRIES_MAX, Quotas
from cns.paging import page_of, read_token
from cns.stores.contract import SubscriptionStore
from cns.subscriptions.attributes import check_change, check_firehose_role, describe, merge, with_resumption
from cns.subscriptions.quotas import check_changed_filter, filter_limits
from cns.subscriptions.subscription import Subscription
from cns.topics.cache import TopicCache
from cns_common.aws.call import Call
from cns_common.clock import Clock

SubscriptionPage = tuple[Sequence[Subscription], str | None]
"""A page, and the token of the next page."""


class Subscriptions:
    def __init__(
        self,
        store: SubscriptionStore,
        topics: TopicCache,
        access: Access,
        replays: SubscriptionReplays,
        quotas: Quotas,
        clock: Clock,
    ) -> None:
        self._store = store
        self._topics = topics
        self._access = access
        self._replays = replays
        self._quotas = quotas
        self._clock = clock

    async def describe(self, call: Call, arn: str) -> dict[str, str]:
        subscription = await self._access.own_subscription(call, arn)
        topic = await self._topics.find(subscription.topic_arn)
        described = describe(subscription, topic.topic.attributes.get("DeliveryPolicy") if topic else None)
        return described | await self._replays.describe(subscription)

    async def set_attribute(self, call: Call, arn: str, name: str, text: str) -> None:
        if name == REPLAY_POLICY:
            await self._set_replay(call, arn, text)
            return
        for _ in range(UPDATE_TRIES_MAX):
            before = await self._access.own_subscription(call, arn)
            changes = check_change(before, name, text, filter_limits(self._quotas))
            attributes = merge(before.attributes, with_resumption(before, changes, self._clock.now_ms()))
            after = replace(before, attributes=attributes, version=before.version + 1)
            check_firehose_role(call, after)
            await check_changed_filter(self._store, self._quotas, before, after)
            call.changed = attributes != before.attributes
            if await self._store.replace(after, before.version, None):
                return
        raise concurrent_access()

    async def _set_replay(self, call: Call, arn: str, text: str) -> None:
        """The replay is not stored in the subscription's record, which would then change with its progress."""
        subscription = await self._access.own_subscription(call, arn)
        topic = await self._topics.find(subscription.topic_arn)
        if topic is None:
            raise no_such_topic()
        await self._replays.start(subscription, topic.topic, text, "")

    async def page_of_owner(self, call: Call, token: str | None) -> SubscriptionPage:
        account = call.caller.account
        return _page(await self._store.page_of_owner(account, call.region, read_token(token), PAGE_SIZE + 1))

    async def page_of_topic(self, call: Call, topic_arn: str, token: str | None) -> SubscriptionPage:
        await self._access.topic(call, topic_arn, "ListSubscriptionsByTopic")
        return _page(await self._store.page_of_topic(topic_arn, read_token(token), PAGE_SIZE + 1))


def _page(found: Sequence[Subscription]) -> SubscriptionPage:
    return page_of(found, lambda subscription: subscription.id)
