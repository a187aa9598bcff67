"""The acts of an endpoint's owner on its subscription: pause and resume deliveries, and rotate the webhook secret."""

from __future__ import annotations

from collections.abc import Mapping

from cns.delivery.webhook_secrets import secret_state
from cns.protocols.table import find_protocol
from cns.stores.contract import SubscriptionStore
from cns.subscriptions.attribute_changes import change_attributes
from cns.subscriptions.attributes import with_resumption
from cns.subscriptions.subscription import PAUSED, Subscription
from cns_common.clock import Clock
from cns_common.errors import RequestError


class OwnerActs:
    def __init__(self, store: SubscriptionStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def pause(self, subscription: Subscription) -> None:
        """Hold the subscription's messages until it is resumed."""
        await change_attributes(self._store, subscription.arn, lambda _: {PAUSED: "true"})

    async def resume(self, subscription: Subscription) -> None:
        def resumed(before: Subscription) -> Mapping[str, str]:
            return with_resumption(before, {PAUSED: ""}, self._clock.now_ms())

        await change_attributes(self._store, subscription.arn, resumed)

    async def rotate_secret(self, subscription: Subscription, number: int) -> Subscription:
        """Make the first secret, or the one that follows `number`: repeated, it changes nothing more. Returns the
        record after it. Raises RequestError for a protocol without headers."""
        if not find_protocol(subscription.protocol).web:
            raise RequestError("InvalidParameter", "Only HTTP and HTTPS endpoints have a webhook secret.")

        def rotated(before: Subscription) -> Mapping[str, str]:
            state = secret_state(before)
            return state.rotated(self._clock.now_ms()).attribute if state.number == number else {}

        return await change_attributes(self._store, subscription.arn, rotated)
