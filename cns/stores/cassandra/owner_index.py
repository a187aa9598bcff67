"""An index of an account's subscriptions in a region, sorted by id, with one partition per first digit of the id."""

from __future__ import annotations

import asyncio

from cns.stores.cassandra import schema
from cns.subscriptions.subscription import Subscription
from cns_common.cassandra.session import Cassandra

DIGITS = "0123456789abcdef"


class OwnerIndex:
    def __init__(self, cassandra: Cassandra) -> None:
        self._cassandra = cassandra

    async def enter(self, subscription: Subscription) -> None:
        await self._cassandra.run(schema.ENTER_OWNER, *_row(subscription.owner, subscription.region, subscription.id))

    async def remove(self, owner: str, region: str, subscription_id: str) -> None:
        await self._cassandra.run(schema.LEAVE_OWNER, *_row(owner, region, subscription_id))

    async def ids(self, owner: str, region: str, after: str, n: int) -> list[str]:
        digits = [digit for digit in DIGITS if digit >= after[:1]]  # `after` may be any text
        pages = await asyncio.gather(
            *[self._cassandra.run(schema.IDS_OF_OWNER, owner, region, digit, after, n) for digit in digits]
        )
        return [subscription_id for page in pages for (subscription_id,) in page][:n]


def _row(owner: str, region: str, subscription_id: str) -> tuple[str, str, str, str]:
    return owner, region, subscription_id[:1], subscription_id
