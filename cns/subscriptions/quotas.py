"""The quotas of subscriptions and of filter policies, per topic and per account."""

from __future__ import annotations

from cns.filters.limits import FilterLimits
from cns.limits import FIFO_SUFFIX, Quotas
from cns.stores.contract import SubscriptionStore
from cns.subscriptions.subscription import Subscription, SubscriptionState
from cns_common.errors import RequestError


def filter_limits(quotas: Quotas) -> FilterLimits:
    """The limits of one policy."""
    return FilterLimits(keys=quotas.filter_policy_keys, complexity=quotas.filter_policy_complexity)


async def check_new_subscription(store: SubscriptionStore, quotas: Quotas, subscription: Subscription) -> None:
    """Raise if a quota is reached, unless the topic already has a subscription with this protocol and endpoint."""
    error = await _quota_error(store, quotas, subscription)
    if error is not None and await store.find_same_endpoint(subscription) is None:
        raise error


async def check_changed_filter(
    store: SubscriptionStore, quotas: Quotas, before: Subscription, after: Subscription
) -> None:
    """Raise if the change adds a filter policy and a quota of policies is reached."""
    if not before.filter_policy and not await _has_room_for_filter(store, quotas, after):
        raise _filter_policy_limit_exceeded()


async def _quota_error(store: SubscriptionStore, quotas: Quotas, subscription: Subscription) -> RequestError | None:
    counts = await store.counts(subscription.topic_arn)
    fifo = subscription.topic_arn.endswith(FIFO_SUFFIX)
    quota = quotas.fifo_topic_subscriptions if fifo else quotas.topic_subscriptions
    full = counts.pending + counts.confirmed + counts.removed >= quota
    if subscription.state is SubscriptionState.PENDING and not full:
        full = await store.count_pending(subscription.owner) >= quotas.pending_subscriptions
    if full:
        return RequestError("SubscriptionLimitExceeded", "Subscription limit exceeded")
    return None if await _has_room_for_filter(store, quotas, subscription) else _filter_policy_limit_exceeded()


async def _has_room_for_filter(store: SubscriptionStore, quotas: Quotas, subscription: Subscription) -> bool:
    if not subscription.filter_policy:
        return True
    counts = await store.counts(subscription.topic_arn)
    if counts.filter_policies >= quotas.topic_filter_policies:
        return False
    return await store.count_filter_policies(subscription.owner) < quotas.filter_policies


def _filter_policy_limit_exceeded() -> RequestError:
    return RequestError("FilterPolicyLimitExceeded", "Subscription filter policy limit exceeded")
