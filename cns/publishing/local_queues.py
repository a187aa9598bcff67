"""Delivers a publish to subscribed queues of this store in the commit of the publish (ADR 0036).

No worker takes part. What the commit does not deliver goes by jobs, which later publishes do not overtake.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from cns.delivery.envelope_cache import EnvelopeCache
from cns.delivery.jobs import EndpointJob
from cns.delivery.observers.contract import Answer, Deferral, ObservedJob, Observers
from cns.delivery.queue_message import message_for, raw_message, size_error
from cns.delivery.remote_queues import RemoteQueueResolver
from cns.delivery.target import Target, TargetCache
from cns.endpoints.outcome import Delivered
from cns.limits import FIFO_SUFFIX
from cns.notification import Notification
from cns.protocols.contract import Transport
from cns.protocols.table import find_protocol
from cns.queue_port.contract import CommitDelivery, NewJob, QueueDelivery, QueueMessage, size_of
from cns_common.clock import Clock
from cns_common.text_size import utf8_bytes

MESSAGES_MAX = 100
BYTES_MAX = 1024 * 1024
"""The messages that one call's commit delivers, and their size: other callers wait for that commit."""


class PlannedDelivery(msgspec.Struct, eq=False):
    target: Target
    delivery: QueueDelivery
    body_bytes: int
    message_id: str = ""
    """In the queue, once it is delivered."""


class QueuePlan:
    """The own queues among a notification's targets: `now` has those of the commit, `later` the ARNs of those that get
    a job each, `together` of those that share a job."""

    __slots__ = ("_notification", "_observed", "dwell_ms", "later", "now", "together")

    def __init__(self, notification: Notification) -> None:
        self._notification = notification
        self._observed: ObservedJob | None = None
        self.now: list[PlannedDelivery] = []
        self.later: list[str] = []
        self.together: list[str] = []
        self.dwell_ms = 0

    @property
    def observed(self) -> ObservedJob:
        """The facts for observers, made at their first use: most plans outside the embedded form are empty."""
        if self._observed is None:
            notification = self._notification
            self._observed = ObservedJob(EndpointJob(notification.id, notification.topic_arn, (), notification), 0)
            self._observed.notification = notification
            self._observed.published_ms = notification.timestamp_ms
        return self._observed

    def arns(self) -> set[str]:
        return {planned.target.arn for planned in self.now}.union(self.later, self.together)


class LocalQueues:
    """`envelopes` makes the cache of envelopes at its first use: the signing key takes long to load."""

    def __init__(
        self,
        commit: CommitDelivery,
        targets: TargetCache,
        remote_queues: RemoteQueueResolver,
        envelopes: Callable[[], Awaitable[EnvelopeCache]],
        observers: Observers,
        clock: Clock,
    ) -> None:
        self._commit = commit
        self._targets = targets
        self._remote_queues = remote_queues
        self._envelopes = envelopes
        self._observers = observers
        self._clock = clock

    async def plan(self, notifications: Sequence[Notification], matched: Sequence[Sequence[str]]) -> list[QueuePlan]:
        """For each notification, given the ARNs of its matching subscriptions: what the commit can deliver."""
        queues = [
            [target for target in await self._targets.find(arns) if self._is_own_queue(target)] for arns in matched
        ]
        pairs = list(zip(notifications, queues, strict=True))
        enveloped = [(one, target) for one, targets in pairs if (target := _first_enveloped(targets)) is not None]
        envelopes = await self._envelopes() if enveloped else None
        if envelopes is not None:
            signing = [envelopes.sign_in_thread(target, one) for one, target in enveloped]
            await (signing[0] if len(signing) == 1 else asyncio.gather(*signing))
        left, left_bytes, beyond = MESSAGES_MAX, BYTES_MAX, set[str]()
        plans: list[QueuePlan] = []
        for notification, targets in pairs:
            plan = QueuePlan(notification)
            plans.append(plan)
            for target in targets:
                if target.paused or size_error(target, notification) is not None:
                    plan.later.append(target.arn)
                    continue
                if left and target.arn not in beyond:
                    message = _message(target, notification, envelopes)
                    body_bytes = utf8_bytes(message.body)
                    size_bytes = body_bytes + size_of("", message.attributes)
                    if size_bytes <= left_bytes:
                        left, left_bytes = left - 1, left_bytes - size_bytes
                        delivery = QueueDelivery(target.arn, target.endpoint, message)
                        plan.now.append(PlannedDelivery(target, delivery, body_bytes))
                        continue
                beyond.add(target.arn)  # no later message of the call goes before this one
                plan.together.append(target.arn)
        return plans

    async def write(self, new_jobs: Sequence[NewJob], plans: Sequence[QueuePlan], topic_arn: str) -> bool:
        """Enqueue the jobs and deliver what is planned for now, in one commit. False: nothing was done, and some of it
        is planned for later instead."""
        began_ms = self._clock.monotonic_ms()
        if self._observers.before_job:
            self._report_begin(plans)
        deliveries = [one.delivery for plan in plans for one in plan.now]
        try:
            answer = await self._commit.write(new_jobs, deliveries, topic_arn)
        except BaseException:
            self._report_end(plans, None)
            raise
        dwell_ms, ids = self._clock.monotonic_ms() - began_ms, iter(answer.message_ids)
        for plan in plans:
            plan.dwell_ms = dwell_ms
            for one in plan.now:
                one.message_id = next(ids) or ""
        if not answer.is_done:
            self._report_end(plans, Deferral.BUSY)
            _plan_anew(plans, is_topic_busy=answer.is_topic_busy)
        return answer.is_done

    def report(self, plan: QueuePlan) -> None:
        """Report what a commit delivered."""
        if not plan.now:
            return
        now_ms, job, observers = self._clock.now_ms(), plan.observed, self._observers
        for one in plan.now:
            target, answer = one.target, Answer(now_ms, one.body_bytes)
            outcome = Delivered(200, plan.dwell_ms, one.message_id, size_bytes=one.body_bytes)
            for answered in observers.answered:
                answered(job, target, outcome, now_ms)
            for after_attempt in observers.after_attempt:
                after_attempt(job, target, outcome)
            for delivered in observers.delivered:
                delivered(job, target, answer)

    def _report_begin(self, plans: Sequence[QueuePlan]) -> None:
        now_ms = self._clock.now_ms()
        for plan in plans:
            for before_job in self._observers.before_job:
                before_job(plan.observed, len(plan.now), now_ms)
            for hook in (*self._observers.before_attempt, *self._observers.before_send):
                for planned in plan.now:
                    hook(plan.observed, planned.target)

    def _report_end(self, plans: Sequence[QueuePlan], outcome: Deferral | None) -> None:
        for after_attempt in self._observers.after_attempt:
            for plan in plans:
                for one in plan.now:
                    after_attempt(plan.observed, one.target, outcome)

    def _is_own_queue(self, target: Target) -> bool:
        return (
            find_protocol(target.protocol).transport is Transport.QUEUE
            and not target.endpoint.endswith(FIFO_SUFFIX)
            and self._remote_queues.find(target.endpoint) is None
        )


def _plan_anew(plans: Sequence[QueuePlan], *, is_topic_busy: bool) -> None:
    """What a queue does not take now gets a job, and so does all that the call has for that queue after it. Where a
    job for several queues waits, the rest follows it in another."""
    refused: set[str] = set()
    for plan in plans:
        planned, plan.now = plan.now, []
        for one in planned:
            arn = one.target.arn
            if not one.message_id or arn in refused:
                refused.add(arn)
                plan.later.append(arn)
            elif is_topic_busy:
                plan.together.append(arn)
            else:
                plan.now.append(one)
        plan.later += [arn for arn in plan.together if arn in refused]
        plan.together = [arn for arn in plan.together if arn not in refused]


def _first_enveloped(targets: Sequence[Target]) -> Target | None:
    return next((target for target in targets if not (target.raw or target.paused)), None)


def _message(target: Target, notification: Notification, envelopes: EnvelopeCache | None) -> QueueMessage:
    if target.raw:
        return raw_message(target.endpoint, target, notification)
    assert envelopes is not None
    return message_for(target.endpoint, target, notification, envelopes)
