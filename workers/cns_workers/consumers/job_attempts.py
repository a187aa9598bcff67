"""One received job: its targets, their attempts, and the jobs that follow from it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from msgspec.structs import replace

from cns.delivery import jobs
from cns.delivery.failure_causes import FinalCause
from cns.delivery.jobs import ConfirmationJob, DirectJob, EndpointJob, Redelivery, group_of, lane_name
from cns.delivery.observers.contract import Answer, Deferral, ObservedJob
from cns.delivery.retry_policy import lifetime_s
from cns.delivery.target import Target, direct_target
from cns.endpoints.outcome import Outcome
from cns.queue_port.contract import NewJob
from cns_workers.consumers.delivery_context import DeliveryContext
from cns_workers.delivery.channel import Attempt
from cns_workers.delivery.channels import Channels, confirmation_of
from cns_workers.delivery.traffic.admission import AdmissionController
from cns_workers.delivery.traffic.sends import AdmittedAttempt
from cns_workers.jobs.receiver import ReceivedJob

HELD_MS_MAX = 14 * 86_400_000
"""How long a message is held for a paused subscription, from when its first attempt was due. Then it goes to the
dead-letter queue. Stored notifications and jobs are kept longer."""


@dataclass(frozen=True, slots=True)
class NextAttempt:
    """The attempt that follows a failure."""

    failures: int
    """Failed attempts before it."""
    delay_ms: int
    first_ms: int
    """When the first attempt was, or was due."""
    ended: str = ""
    """Why no attempt is left; '' if one is. Then only the dead-letter queue, which could not be reached, is tried."""
    egress_ms: int = 0
    """See `Redelivery`."""


class JobAttempts:
    def __init__(self, received: ReceivedJob, context: DeliveryContext, channels: Channels) -> None:
        self.received = received
        self.observed = ObservedJob(received.job, received.failures)
        self._received_ms = context.clock.now_ms()
        self._context = context
        self._channels = channels

    @property
    def stored_id(self) -> str:
        """The id of the stored notification that the job refers to; '' where the job carries what is sent."""
        job = self.received.job
        return job.notification_id if isinstance(job, EndpointJob) and job.inline is None else ""

    def age_ms(self) -> int:
        """The time since the job was received."""
        return self._context.clock.now_ms() - self._received_ms

    async def load(self) -> list[Target]:
        """Read the notification and the targets. Targets that are gone are counted as drops."""
        targets = await self._load()
        for before_job in self._context.observers.before_job:
            before_job(self.observed, len(targets), self._context.clock.now_ms())
        return targets

    async def _load(self) -> list[Target]:
        job = self.received.job
        if isinstance(job, ConfirmationJob):
            found = await self._context.targets.find([job.subscription])
            if not found:
                self.report_drop(job.subscription, FinalCause.SUBSCRIPTION_GONE)
            return found
        await self._load_notification(job)
        if isinstance(job, DirectJob):
            return [direct_target(job)]
        targets = [target for target in await self._context.targets.find(job.subscriptions) if target.confirmed]
        if len(targets) < len(job.subscriptions):
            for gone in set(job.subscriptions).difference([target.arn for target in targets]):
                self.report_drop(gone, FinalCause.SUBSCRIPTION_GONE)
        if self.observed.notification is not None:
            return targets
        for target in targets:
            self.report_drop(target.arn, FinalCause.NOTIFICATION_LOST, target=target)
        return []

    async def _load_notification(self, job: EndpointJob | DirectJob) -> None:
        notification = job.inline or await self._context.notifications.get(job.notification_id)
        if notification is None:
            return
        if isinstance(job, EndpointJob) and job.sequence_number:
            notification = replace(notification, sequence_number=job.sequence_number)
        if self.received.is_new and isinstance(job, EndpointJob):
            waited_ms = self._context.clock.now_ms() - notification.timestamp_ms
            self._context.stats.job_waits.observe(waited_ms / 1000, jobs.ENDPOINT_JOBS)
        self.observed.notification = notification
        self.observed.published_ms = notification.timestamp_ms

    # -- pauses -------------------------------------------------------------------------------------------------------

    def is_held(self, target: Target) -> bool:
        """Whether the subscription is paused, so that the job waits. Confirmations are sent nevertheless."""
        return target.paused and not isinstance(self.received.job, ConfirmationJob)

    def is_held_too_long(self, now_ms: int) -> bool:
        return is_held_too_long(self.received, now_ms)

    def was_held(self, target: Target) -> bool:
        """Whether the subscription was resumed since the job's first attempt, or since that was due."""
        return self.received.first_attempt_ms < target.resumed_ms

    def first_attempt_ms(self, target: Target) -> int:
        """When the retry policy's time began: at the first attempt, or after a pause at the present one."""
        return self._received_ms if self.was_held(target) else self.received.first_attempt_ms

    def is_late(self, target: Target, now_ms: int) -> bool:
        """Whether the job has waited too long for room at its endpoint."""
        if self.was_held(target):
            return self.is_held_too_long(now_ms)
        return now_ms > self.received.first_attempt_ms + lifetime_s(target.retry) * 1000

    def deadline_cause(self, target: Target, admission: AdmissionController) -> str:
        """Why a late job was not sent, as far as the present state shows."""
        if admission.is_open(self.traffic_key(target)):
            return FinalCause.DEADLINE_OPEN
        return FinalCause.DEADLINE_WAITING if target.receives_per_second is None else FinalCause.DEADLINE_THROTTLED

    # -- attempts -----------------------------------------------------------------------------------------------------

    def traffic_key(self, target: Target) -> str:
        return self._channels.by_protocol[target.protocol].traffic_key(target)

    def start(self, target: Target, admission: AdmissionController) -> AdmittedAttempt:
        """Start an attempt once the endpoint has room for it, or defer it."""
        for before_attempt in self._context.observers.before_attempt:
            before_attempt(self.observed, target)
        key = self._channels.by_protocol[target.protocol].traffic_key(target)
        if not key:
            return self.start_now(target)
        return admission.start(key, self.observed.message_id, partial(self.start_now, target), target.group)

    def start_now(self, target: Target) -> Attempt:
        """Start an attempt, whatever the state of its endpoint."""
        channel, job = self._channels.by_protocol[target.protocol], self.received.job
        if isinstance(job, ConfirmationJob):
            return channel.confirm(target, confirmation_of(job, target), job.base_url)
        notification = self.observed.notification
        assert notification is not None
        for before_send in self._context.observers.before_send:
            before_send(self.observed, target)
        context = self.observed.trace_contexts.get(target.arn)
        if context is not None:
            notification = replace(notification, trace_context=context)
        return channel.deliver(target, notification)

    def report(self, target: Target, attempt: AdmittedAttempt) -> None:
        """Report an attempt that has ended, was deferred, was cancelled or crashed."""
        outcome: Outcome | Deferral | None = None
        if not attempt.cancelled() and attempt.exception() is None:
            outcome = attempt.result()
            if not isinstance(outcome, Deferral):
                self.report_attempt(target, outcome)
        for after_attempt in self._context.observers.after_attempt:
            after_attempt(self.observed, target, outcome)

    def report_attempt(self, target: Target, outcome: Outcome) -> None:
        """Report an attempt that was answered or failed; before it, the attempt that it repeated."""
        if outcome.repeats is not None:
            self.report_attempt(target, outcome.repeats)
        now_ms = self._context.clock.now_ms()
        self.observed.answers[target.arn] = Answer(now_ms, outcome.size_bytes)
        for answered in self._context.observers.answered:
            answered(self.observed, target, outcome, now_ms)

    def report_delivery(self, target: Target) -> None:
        answer = self.observed.answers[target.arn]
        for delivered in self._context.observers.delivered:
            delivered(self.observed, target, answer)

    def report_dead_letter(self, target: Target, cause: str) -> None:
        now_ms = self._context.clock.now_ms()
        for dead_lettered in self._context.observers.dead_lettered:
            dead_lettered(self.observed, target, cause, now_ms)

    def report_drop(self, subscription: str, cause: str, reason: str = "", target: Target | None = None) -> None:
        now_ms = self._context.clock.now_ms()
        for dropped in self._context.observers.dropped:
            dropped(self.observed, subscription, target, cause, reason, now_ms)

    # -- jobs that follow ---------------------------------------------------------------------------------------------

    def redelivery(self, target: Target, following: NextAttempt) -> NewJob:
        job_id = f"{self.observed.message_id}/{target.arn}/{following.failures}" + ("/ended" if following.ended else "")
        body = self._single_target(target, following.failures, following.first_ms, following.ended, following.egress_ms)
        return NewJob(jobs.REDELIVERY, job_id, body, self._group(target), following.delay_ms)

    def after_crash(self, target: Target | None = None) -> NewJob:
        """The job that retries a target after a crash, whatever the state of its endpoint: if it crashes again, its
        lease runs out, until it is quarantined. `target` is None if the job's only one could not be read."""
        job, received = self.received.job, self.received
        job_id, group = received.leased.id, group_of(job)
        if target is not None and isinstance(job, EndpointJob):
            job_id, group = f"{job_id}/{target.arn}", self._group(target)
            job = EndpointJob(job.notification_id, job.topic, (target.arn,), job.inline)
        elif isinstance(job, EndpointJob):
            (group,) = job.subscriptions  # it may be a queue's
        body = jobs.encode(Redelivery(job, received.failures, received.first_attempt_ms, crashed=True))
        return NewJob(jobs.REDELIVERY, f"{job_id}/crashed", body, group)

    def deferral(self, target: Target) -> NewJob:
        """The job for the target's lane. A throttled or paused subscription has its own lane, others share their
        endpoint's. The id tells these apart: a job may go from the endpoint's lane into a paused subscription's."""
        failures = self.received.failures
        held = self.is_held(target)
        job_id = f"{self.observed.message_id}/{target.arn}/{failures}/{'held' if held else 'aside'}"
        lane_of = target.arn if held or target.receives_per_second is not None else self.traffic_key(target)
        return NewJob(
            jobs.LANES,
            job_id,
            self._single_target(target, failures, self.received.first_attempt_ms, egress_ms=self.received.egress_ms),
            lane_name(lane_of),
        )

    def _group(self, target: Target) -> str:
        """The group of a job for this target only. A queue of this service has a group of its own, so that a publish
        sees whether it would overtake the job."""
        is_own_queue = isinstance(self.received.job, EndpointJob) and not self.traffic_key(target)
        return target.arn if is_own_queue else group_of(self.received.job)

    def remaining_body(self, arns: Iterable[str]) -> bytes | None:
        """The job's body when only these targets remain; None when it stays as it is."""
        job, received = self.received.job, self.received
        if not isinstance(job, EndpointJob):
            return None
        rest = EndpointJob(job.notification_id, job.topic, tuple(arns), job.inline)
        if not received.failures:
            return jobs.encode(rest)
        return jobs.encode(Redelivery(rest, received.failures, received.first_attempt_ms))

    def _single_target(
        self, target: Target, failures: int, first_ms: int, ended: str = "", egress_ms: int = 0
    ) -> bytes:
        job = self.received.job
        if isinstance(job, EndpointJob):
            job = EndpointJob(job.notification_id, job.topic, (target.arn,), job.inline)
        return jobs.encode(Redelivery(job, failures, first_ms, ended=ended, egress_ms=egress_ms))


def is_held_too_long(received: ReceivedJob, now_ms: int) -> bool:
    return now_ms > min(received.since_ms, received.leased.sent_ms) + HELD_MS_MAX
