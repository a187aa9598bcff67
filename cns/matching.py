"""Which of a topic's subscriptions get a notification: the one question that publishing and the producer ask.

Today every confirmed one does. Filters, and an index of them, will stand behind the same question.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cns.model import Notification
from cns.stores.contract import SubscriptionStore


class Page(msgspec.Struct, frozen=True):
    """Of the subscriptions read, those that match; pass the cursor on for the next page, '' is the end."""

    arns: tuple[str, ...]
    cursor: str


class Matching:
    def __init__(self, subscriptions: SubscriptionStore) -> None:
        self._subscriptions = subscriptions

    async def page(self, topic_arn: str, notification: Notification, cursor: str, n: int) -> Page:
        """Matches among the `n` subscriptions after the cursor; it reads one row more, to know whether that is all."""
        (page,) = await self.pages(topic_arn, [notification], cursor, n)
        return page

    async def pages(self, topic_arn: str, notifications: Sequence[Notification], cursor: str, n: int) -> list[Page]:
        """The same page of subscriptions for each of several notifications, read once."""
        ids = await self._subscriptions.confirmed_ids(topic_arn, cursor, n + 1)
        following = ids[n - 1] if len(ids) > n else ""
        prefix = topic_arn + ":"
        page = Page(tuple([prefix + subscription_id for subscription_id in ids[:n]]), following)
        return [page] * len(notifications)
