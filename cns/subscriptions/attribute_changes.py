"""Changes of a subscription's stored attributes, repeated while others change the same record."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from cns.errors import concurrent_access, no_such_subscription
from cns.limits import UPDATE_TRIES_MAX
from cns.stores.contract import SubscriptionStore
from cns.subscriptions.attributes import merge
from cns.subscriptions.subscription import Subscription

Change = Callable[[Subscription], Mapping[str, str]]
"""The attributes to set, from the record as it is; '' removes one."""


async def change_attributes(store: SubscriptionStore, arn: str, change: Change) -> Subscription:
    """Set attributes of the subscription with this ARN. Returns the record after it; nothing is written if it stays the
    same. Raises RequestError if there is no such subscription."""
    for _ in range(UPDATE_TRIES_MAX):
        found = await store.get([arn])
        if not found:
            raise no_such_subscription()
        before = found[0]
        attributes = merge(before.attributes, change(before))
        if attributes == before.attributes:
            return before
        after = replace(before, attributes=attributes, version=before.version + 1)
        if await store.replace(after, before.version, None):
            return after
    raise concurrent_access()
