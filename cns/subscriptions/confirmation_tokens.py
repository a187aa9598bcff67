"""Create confirmation tokens, and put the jobs that send them to the endpoints."""

from __future__ import annotations

import os
import re
from typing import Literal

from msgspec.structs import replace

from cns.delivery import jobs
from cns.delivery.jobs import ConfirmationJob
from cns.errors import concurrent_access
from cns.limits import PENDING_MS, UPDATE_TRIES_MAX
from cns.queue_port.contract import NewJob, QueuePort
from cns.stores.contract import SubscriptionStore
from cns.subscriptions.subscription import ConfirmationToken, Subscription
from cns_common.clock import Clock
from cns_common.ids import uuid_text

TOKEN_PREFIX = "2336412f37"  # noqa: S105  # no secret: every token of AWS begins with it
TOKEN_CHARS = 256

_WELL_FORMED = re.compile(r"(?:[0-9a-f]{2})+")

Kind = Literal["SubscriptionConfirmation", "UnsubscribeConfirmation"]


def is_well_formed(token: str) -> bool:
    return _WELL_FORMED.fullmatch(token) is not None


class Confirmations:
    def __init__(self, queue: QueuePort, clock: Clock) -> None:
        self._queue = queue
        self._clock = clock

    def new_token(self, subscription: Subscription) -> ConfirmationToken:
        random_hex = os.urandom((TOKEN_CHARS - len(TOKEN_PREFIX)) // 2).hex()
        return ConfirmationToken(TOKEN_PREFIX + random_hex, subscription.arn, self._clock.now_ms() + PENDING_MS)

    async def issue(self, store: SubscriptionStore, arn: str) -> ConfirmationToken | None:
        """Store a further token for a subscription in any state. None if there is no such subscription."""
        for _ in range(UPDATE_TRIES_MAX):
            found = await store.get([arn])
            if not found:
                return None
            current = found[0]
            token = self.new_token(current)
            expires_ms = token.expires_ms if current.expires_ms else 0
            renewed = replace(current, expires_ms=expires_ms, version=current.version + 1)
            if await store.replace(renewed, current.version, token):
                return token
        raise concurrent_access()

    async def send(self, kind: Kind, subscription: Subscription, token: ConfirmationToken, base_url: str) -> None:
        """Put the job that sends the token, which must be stored: the answer may come at once."""
        job = ConfirmationJob(
            kind,
            uuid_text(),
            subscription.arn,
            subscription.topic_arn,
            token.text,
            self._clock.now_ms(),
            base_url,
        )
        await self._queue.enqueue(
            [NewJob(jobs.ENDPOINT_JOBS, job.message_id, jobs.encode(job), group=subscription.topic_arn)]
        )
