"""Confirmation messages: a token that says whose agreement it stands for, and the job that takes it to the endpoint."""

from __future__ import annotations

import os
import re
from typing import Literal

from cns import jobs
from cns.jobs import ConfirmationJob
from cns.limits import PENDING_MS
from cns.queue_port import Put, QueuePort
from cns.subscription import Subscription, Token
from common.clock import Clock
from common.ids import uuid_text

TOKEN_PREFIX = "2336412f37"  # noqa: S105  # how those of AWS begin
TOKEN_CHARS = 256

_WELL_FORMED = re.compile(r"(?:[0-9a-f]{2})+")

Kind = Literal["SubscriptionConfirmation", "UnsubscribeConfirmation"]


def is_well_formed(token: str) -> bool:
    return _WELL_FORMED.fullmatch(token) is not None


class Confirmations:
    def __init__(self, queue: QueuePort, clock: Clock) -> None:
        self._queue = queue
        self._clock = clock

    def new_token(self, subscription: Subscription) -> Token:
        random_hex = os.urandom((TOKEN_CHARS - len(TOKEN_PREFIX)) // 2).hex()
        return Token(TOKEN_PREFIX + random_hex, subscription.arn, self._clock.now_ms() + PENDING_MS)

    async def send(self, kind: Kind, subscription: Subscription, token: Token, base_url: str) -> None:
        """Have the endpoint told. The token is stored before: the answer may come at once."""
        job = ConfirmationJob(
            kind,
            uuid_text(),
            subscription.arn,
            subscription.topic_arn,
            token.text,
            self._clock.now_ms(),
            base_url,
        )
        await self._queue.put([Put(jobs.ENDPOINT_JOBS, job.message_id, jobs.encode(job), group=subscription.topic_arn)])
