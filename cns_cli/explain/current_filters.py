"""A topic's subscriptions as they are now, and whether their filters, as they are now, let a message through."""

from __future__ import annotations

from typing import NamedTuple

from cns.filters.evaluation import matches
from cns.filters.message_values import MessageValues, attribute_values, body_values
from cns.filters.model import Scope
from cns.filters.parser import compiled
from cns.filters.reasons import reason
from cns.notification import Notification
from cns.stores.contract import SubscriptionStore
from cns.subscriptions.subscription import IndexState, Subscription

PAGE_SUBSCRIPTIONS = 500
SUBSCRIPTIONS_MAX = 200_000
"""Of one topic; those behind them are known only by what was told of them."""

NOT_AN_OBJECT = "its policy looks at the body, which is no JSON object"


class Audience(NamedTuple):
    subscriptions: dict[str, Subscription]  # by ARN
    whole: bool


async def read_audience(store: SubscriptionStore, topic_arn: str, only: str) -> Audience:
    """All of them, or one."""
    if only:
        return Audience({one.arn: one for one in await store.get([only])}, whole=True)
    found: dict[str, Subscription] = {}
    after = ""
    while len(found) < SUBSCRIPTIONS_MAX:
        page = await store.page_of_topic(topic_arn, after, PAGE_SUBSCRIPTIONS)
        found |= {one.arn: one for one in page}
        if len(page) < PAGE_SUBSCRIPTIONS:
            return Audience(found, whole=True)
        after = page[-1].id
    return Audience(found, whole=False)


class Verdict(NamedTuple):
    """`passes` is None where the filter cannot be asked: an attribute of the message is malformed."""

    passes: bool | None
    reason: str = ""


PASSES = Verdict(passes=True)
UNANSWERABLE = Verdict(passes=None)


class Filtering:
    """One message, and what the filters of many subscriptions find in it."""

    def __init__(self, notification: Notification) -> None:
        self._notification = notification
        self._attributes = attribute_values(notification.attributes)
        self._bodies: dict[str, MessageValues | None] = {}

    def verdict(self, subscription: Subscription) -> Verdict:
        if subscription.index_state is not IndexState.FILTERED:
            return PASSES
        scope = Scope(subscription.filter_scope)
        values = self._attributes if scope is Scope.ATTRIBUTES else self._body(subscription.protocol)
        if values is None:
            return UNANSWERABLE if scope is Scope.ATTRIBUTES else Verdict(passes=False, reason=NOT_AN_OBJECT)
        policy = compiled(subscription.filter_policy, scope)
        return PASSES if matches(policy, values) else Verdict(passes=False, reason=reason(policy, values))

    def _body(self, protocol: str) -> MessageValues | None:
        text = self._notification.text_for(protocol)
        if text not in self._bodies:
            self._bodies[text] = body_values(text)
        return self._bodies[text]
