"""A topic's current subscriptions, and whether their current filters accept a message."""

from __future__ import annotations

from typing import NamedTuple

from cns.filters.evaluation import matches
from cns.filters.message_values import MessageValues, attribute_values, body_values
from cns.filters.model import Scope
from cns.filters.parser import compile_stored
from cns.filters.reasons import reason
from cns.notification import Notification
from cns.stores.contract import SubscriptionStore
from cns.subscriptions.subscription import IndexState, Subscription

PAGE_SUBSCRIPTIONS = 500
SUBSCRIPTIONS_MAX = 200_000
"""The limit of subscriptions read of one topic. Of the others, only their events are known."""

NOT_AN_OBJECT = "its policy looks at the body, which is not a JSON object"


class TopicSubscriptions(NamedTuple):
    by_arn: dict[str, Subscription]
    complete: bool


async def read_subscriptions(
    store: SubscriptionStore, topic_arn: str, only: str, n_max: int = SUBSCRIPTIONS_MAX
) -> TopicSubscriptions:
    """Read the subscriptions of a topic, about `n_max` of them, or the one with the ARN `only`."""
    if only:
        return TopicSubscriptions({one.arn: one for one in await store.get([only])}, complete=True)
    found: dict[str, Subscription] = {}
    after = ""
    while len(found) < n_max:
        page = await store.page_of_topic(topic_arn, after, PAGE_SUBSCRIPTIONS)
        found |= {one.arn: one for one in page}
        if len(page) < PAGE_SUBSCRIPTIONS:
            return TopicSubscriptions(found, complete=True)
        after = page[-1].id
    return TopicSubscriptions(found, complete=False)


class CurrentFilterResult(NamedTuple):
    """`passes` is None if the filter cannot be evaluated, because an attribute of the message is malformed."""

    passes: bool | None
    reason: str = ""


PASSES = CurrentFilterResult(passes=True)
NOT_EVALUABLE = CurrentFilterResult(passes=None)


class MessageFilter:
    """Evaluates the filters of many subscriptions on one message."""

    def __init__(self, notification: Notification) -> None:
        self._notification = notification
        self._attributes = attribute_values(notification.attributes)
        self._bodies: dict[str, MessageValues | None] = {}

    def evaluate(self, subscription: Subscription) -> CurrentFilterResult:
        if subscription.index_state is not IndexState.FILTERED:
            return PASSES
        scope = Scope(subscription.filter_scope)
        values = self._attributes if scope is Scope.ATTRIBUTES else self._body(subscription.protocol)
        if values is None:
            return (
                NOT_EVALUABLE if scope is Scope.ATTRIBUTES else CurrentFilterResult(passes=False, reason=NOT_AN_OBJECT)
            )
        policy = compile_stored(subscription.filter_policy, scope)
        return PASSES if matches(policy, values) else CurrentFilterResult(passes=False, reason=reason(policy, values))

    def _body(self, protocol: str) -> MessageValues | None:
        text = self._notification.text_for(protocol)
        if text not in self._bodies:
            self._bodies[text] = body_values(text)
        return self._bodies[text]
