"""How many filter policies a topic and an account may have, and how large one may be."""

from __future__ import annotations

from cns.filters.limits import FilterLimits
from cns.limits import Quotas
from cns.stores.contract import SubscriptionStore
from cns.subscriptions.subscription import Subscription
from cns_common.errors import RequestError


def filter_limits(quotas: Quotas) -> FilterLimits:
    """Of one policy."""
    return FilterLimits(keys=quotas.filter_policy_keys, complexity=quotas.filter_policy_complexity)


def limit_exceeded() -> RequestError:
    return RequestError("FilterPolicyLimitExceeded", "Subscription filter policy limit exceeded")


async def is_room_for(
    store: SubscriptionStore, quotas: Quotas, before: Subscription | None, after: Subscription
) -> bool:
    """Whether the subscription may be changed so; None: whether it may be made."""
    if not after.filter_policy or (before is not None and before.filter_policy):
        return True
    counts = await store.counts(after.topic_arn)
    if counts.filter_policies >= quotas.topic_filter_policies:
        return False
    return await store.count_filter_policies(after.owner) < quotas.filter_policies
