"""Delivery status logging: which attempts are logged, and in which log group."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from functools import lru_cache
from hashlib import md5
from typing import NamedTuple

from cns.delivery.observers.contract import AttemptObserver, ObservedJob
from cns.delivery.status_logging import Feedback, application_feedback, sms_feedback
from cns.delivery.target import Target
from cns.endpoints.outcome import Delivered, Outcome
from cns.protocols.table import find_protocol
from cns.stores.mobile_contract import PlatformStore, SmsStore
from cns_backend.backend import Backend
from cns_backend.delivery_logs.record import FAILURE_GROUP, LoggedAttempt, group_of_arn, group_of_phones, record_line
from cns_backend.delivery_logs.writer import DeliveryLogWriter, LogLimits
from cns_common.arn import parse_arn
from cns_common.bounded_cache import BoundedCache
from cns_common.clock import Clock
from cns_common.configuration.settings import Settings
from cns_common.errors import OutcomeUnknown, StoreUnavailable
from cns_common.metrics.model import Sample
from cns_common.task_cancellation import in_daemon

OWNERS_REMEMBERED = 10_000
OWNER_LIFE_MS = 5_000
"""The time for which the attributes of an application or an account are cached."""
WAITING_MAX = 1_000
"""Attempts that wait for the attributes of one owner."""
TEXTS_REMEMBERED = 16
"""Most protocols and subscriptions get the same text."""


class DeliveryLog(AttemptObserver):
    """A delivery log. This class logs nothing: it serves `CNS_DELIVERY_LOG_DAYS=0`."""

    def samples(self) -> list[Sample]:
        return []

    async def close(self) -> None: ...


class LazyDeliveryLog(DeliveryLog):
    """Opens the log at the first attempt that its topic, application or account wants logged."""

    def __init__(self, open_log: Callable[[], DeliveryLog]) -> None:
        self._open = open_log
        self._log: DeliveryLog | None = None

    def answered(self, job: ObservedJob, target: Target, outcome: Outcome, at_ms: int) -> None:
        if target.feedback is not None:
            self._log = self._log or self._open()
            self._log.answered(job, target, outcome, at_ms)

    def samples(self) -> list[Sample]:
        return [] if self._log is None else self._log.samples()

    async def close(self) -> None:
        if self._log is not None:
            await self._log.close()


class Owner(NamedTuple):
    """A platform application, or an account with its SMS attributes. Either has feedback attributes, as a topic has."""

    application: str  # ARN, or ''
    account: str
    region: str


class FeedbackLog(DeliveryLog):
    """Writes the attempts that topics, applications and accounts want logged. Attempts wait while the attributes of an
    application or an account are read."""

    def __init__(
        self,
        writer: DeliveryLogWriter,
        sms: SmsStore,
        platforms: PlatformStore,
        clock: Clock,
        *,
        client_errors_succeed: bool,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._writer = writer
        self._sms = sms
        self._platforms = platforms
        self._clock = clock
        self._client_errors_succeed = client_errors_succeed
        self._draw = draw
        self._owners: BoundedCache[Owner, tuple[int, Feedback]] = BoundedCache(OWNERS_REMEMBERED)
        self._waiting: dict[Owner, list[LoggedAttempt]] = {}
        self._asking: set[asyncio.Task[None]] = set()

    def answered(self, job: ObservedJob, target: Target, outcome: Outcome, at_ms: int) -> None:
        if target.feedback is None:
            return
        text = job.notification.text_for(target.protocol) if job.notification is not None and job.topic else None
        self.log_attempt(
            LoggedAttempt(
                target=target,
                outcome=outcome,
                message_id=job.message_id,
                topic=job.topic,
                published_ms=job.published_ms,
                at_ms=at_ms,
                number=job.failures + 1,
                message_md5="" if text is None else _md5(text),
            )
        )

    def log_attempt(self, attempt: LoggedAttempt) -> None:
        target = attempt.target
        if attempt.topic and target.feedback is not None:
            self._write(attempt, target.feedback, group_of_arn(attempt.topic))
        owner = _owner(attempt)
        if owner is None:
            return
        known = self._owners.get(owner)
        if known is not None and self._clock.now_ms() < known[0]:
            self._write(attempt, known[1], _group(owner, attempt))
        else:
            self._ask(owner, attempt)

    def samples(self) -> list[Sample]:
        return self._writer.samples()

    async def close(self) -> None:
        """Write all buffered records."""
        await asyncio.gather(*self._asking)
        await in_daemon(self._writer.close)

    def _ask(self, owner: Owner, attempt: LoggedAttempt) -> None:
        waiting = self._waiting.get(owner)
        if waiting is None:
            self._waiting[owner] = [attempt]
            task = asyncio.ensure_future(self._answer(owner))
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)
        elif len(waiting) < WAITING_MAX:
            waiting.append(attempt)
        else:
            self._writer.count_unknown(1)

    async def _answer(self, owner: Owner) -> None:
        try:
            feedback = await self._read(owner)
        except (StoreUnavailable, OutcomeUnknown):
            self._writer.count_unknown(len(self._waiting.pop(owner)))
            return
        self._owners.put(owner, (self._clock.now_ms() + OWNER_LIFE_MS, feedback))
        for attempt in self._waiting.pop(owner):
            self._write(attempt, feedback, _group(owner, attempt))

    async def _read(self, owner: Owner) -> Feedback:
        if not owner.application:
            return sms_feedback(await self._sms.attributes(owner.account, owner.region))
        application = await self._platforms.get(owner.application)
        return application_feedback(application.attributes if application else {})

    def _write(self, attempt: LoggedAttempt, feedback: Feedback, group: str) -> None:
        success = self._succeeded(attempt)
        if feedback.wants(self._draw(), success=success):
            self._writer.append(group if success else group + FAILURE_GROUP, record_line(attempt, success=success))

    def _succeeded(self, attempt: LoggedAttempt) -> bool:
        outcome = attempt.outcome
        if isinstance(outcome, Delivered):
            return True
        return self._client_errors_succeed and outcome.is_client_error


@lru_cache(TEXTS_REMEMBERED)
def _md5(text: str) -> str:
    return md5(text.encode(), usedforsecurity=False).hexdigest()


def _owner(attempt: LoggedAttempt) -> Owner | None:
    target = attempt.target
    if not find_protocol(target.protocol).own_feedback:
        return None
    application = parse_arn(target.endpoint.rpartition("/")[0].replace(":endpoint/", ":app/", 1))
    if application is None:  # the endpoint is no ARN, so it belongs to no application
        return Owner("", target.account, target.region)
    return Owner(str(application), application.account, application.region)


def _group(owner: Owner, attempt: LoggedAttempt) -> str:
    """An application has one group. SMS of a topic belong to the topic's group."""
    if owner.application:
        return group_of_arn(owner.application)
    return group_of_arn(attempt.topic) if attempt.topic else group_of_phones(owner.account, owner.region)


def delivery_log(settings: Settings, backend: Backend) -> DeliveryLog:
    """Build the delivery log of a process."""
    if not settings.delivery_log_days:
        return DeliveryLog()
    limits = LogLimits(days=settings.delivery_log_days, bytes_max=settings.delivery_log_bytes_max)
    writer = DeliveryLogWriter(settings.delivery_logs_path, backend.clock, limits)
    client_errors_succeed = settings.permanent_4xx == "aws"
    return FeedbackLog(
        writer, backend.sms, backend.platforms, backend.clock, client_errors_succeed=client_errors_succeed
    )
