"""Delivery status logging: which attempts are written down, and in which log group (sns.md §10)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import NamedTuple, Protocol

from cns.delivery.status_logging import Feedback, application_feedback, sms_feedback
from cns.endpoints.outcome import Cause, Delivered
from cns.stores.mobile_contract import PlatformStore, SmsStore
from cns_backend.store_host import Parts
from cns_common.arn import parse_arn
from cns_common.bounded_cache import BoundedCache
from cns_common.clock import Clock
from cns_common.configuration.settings import Settings
from cns_common.errors import OutcomeUnknown, StoreUnavailable
from cns_common.metrics.model import Sample
from workers.delivery.logs.files import LogFiles, LogLimits
from workers.delivery.logs.record import FAILURE_GROUP, Attempted, group_of_arn, group_of_phones, record_line

OWNERS_REMEMBERED = 10_000
OWNER_LIFE_MS = 5_000
"""How long a change of an application's or an account's attributes may go unnoticed."""
WAITING_MAX = 1_000
"""Attempts that wait for what one owner wants."""


class DeliveryLog(Protocol):
    def attempted(self, attempted: Attempted) -> None:
        """Never waits and never fails. To be told of targets with `feedback` only."""
        ...


class KeptLog(DeliveryLog, Protocol):
    """The log as the composition root has it."""

    def samples(self) -> list[Sample]: ...

    async def close(self) -> None: ...


class NoDeliveryLog:
    """See `KeptLog`; of `CNS_DELIVERY_LOG_DAYS=0`."""

    def attempted(self, attempted: Attempted) -> None:
        """Nobody wants to know."""

    def samples(self) -> list[Sample]:
        return []

    async def close(self) -> None:
        """Nothing was opened."""


class Owner(NamedTuple):
    """Who has feedback attributes besides topics: an application, or an account for its SMS."""

    application: str  # ARN, or ''
    account: str
    region: str


class FeedbackLog:
    """Writes what topics, applications and accounts want written. Where these two are asked, records wait for it."""

    def __init__(
        self,
        files: LogFiles,
        sms: SmsStore,
        platforms: PlatformStore,
        clock: Clock,
        *,
        client_errors_succeed: bool,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._files = files
        self._sms = sms
        self._platforms = platforms
        self._clock = clock
        self._client_errors_succeed = client_errors_succeed
        self._draw = draw
        self._owners: BoundedCache[Owner, tuple[int, Feedback]] = BoundedCache(OWNERS_REMEMBERED)
        self._waiting: dict[Owner, list[Attempted]] = {}
        self._asking: set[asyncio.Task[None]] = set()

    def attempted(self, attempted: Attempted) -> None:
        target = attempted.target
        if attempted.topic and target.feedback is not None:
            self._write(attempted, target.feedback, group_of_arn(attempted.topic))
        owner = _owner(attempted)
        if owner is None:
            return
        known = self._owners.get(owner)
        if known is not None and self._clock.now_ms() < known[0]:
            self._write(attempted, known[1], _group(owner, attempted))
        else:
            self._ask(owner, attempted)

    def samples(self) -> list[Sample]:
        return self._files.samples()

    async def close(self) -> None:
        """Write what is left."""
        await asyncio.gather(*self._asking)
        await asyncio.to_thread(self._files.close)

    def _ask(self, owner: Owner, attempted: Attempted) -> None:
        waiting = self._waiting.get(owner)
        if waiting is None:
            self._waiting[owner] = [attempted]
            task = asyncio.ensure_future(self._answer(owner))
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)
        elif len(waiting) < WAITING_MAX:
            waiting.append(attempted)
        else:
            self._files.lost(1)

    async def _answer(self, owner: Owner) -> None:
        try:
            feedback = await self._read(owner)
        except (StoreUnavailable, OutcomeUnknown):
            self._files.lost(len(self._waiting.pop(owner)))
            return
        self._owners.put(owner, (self._clock.now_ms() + OWNER_LIFE_MS, feedback))
        for attempted in self._waiting.pop(owner):
            self._write(attempted, feedback, _group(owner, attempted))

    async def _read(self, owner: Owner) -> Feedback:
        if not owner.application:
            return sms_feedback(await self._sms.attributes(owner.account, owner.region))
        application = await self._platforms.get(owner.application)
        return application_feedback(application.attributes if application else {})

    def _write(self, attempted: Attempted, feedback: Feedback, group: str) -> None:
        success = self._succeeded(attempted)
        if feedback.wants(self._draw(), success=success):
            self._files.append(group if success else group + FAILURE_GROUP, record_line(attempted, success=success))

    def _succeeded(self, attempted: Attempted) -> bool:
        outcome = attempted.outcome
        if isinstance(outcome, Delivered):
            return True
        return self._client_errors_succeed and outcome.permanent and outcome.cause is Cause.STATUS


def _owner(attempted: Attempted) -> Owner | None:
    target = attempted.target
    if target.protocol == "sms":
        return Owner("", target.account, target.region)
    if target.protocol != "application":
        return None
    arn = parse_arn(target.endpoint.rpartition("/")[0].replace(":endpoint/", ":app/", 1))
    return Owner(str(arn), arn.account, arn.region) if arn else None


def _group(owner: Owner, attempted: Attempted) -> str:
    """SMS of a topic are among the topic's deliveries; an application has a group of its own for all of its."""
    if owner.application:
        return group_of_arn(owner.application)
    return group_of_arn(attempted.topic) if attempted.topic else group_of_phones(owner.account, owner.region)


def delivery_log(settings: Settings, parts: Parts) -> KeptLog:
    """Build the delivery log of a worker: a log without files where the settings keep no days."""
    if not settings.delivery_log_days:
        return NoDeliveryLog()
    limits = LogLimits(days=settings.delivery_log_days, bytes_max=settings.delivery_log_bytes_max)
    files = LogFiles(settings.delivery_logs_path, parts.clock, limits)
    client_errors_succeed = settings.permanent_4xx == "aws"
    return FeedbackLog(files, parts.sms, parts.platforms, parts.clock, client_errors_succeed=client_errors_succeed)
