"""What a job asks to be sent: to whom, what, and by which lane it goes where there is no room."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from hashlib import blake2b

from cns.delivery import jobs
from cns.delivery.jobs import ConfirmationJob, DirectJob, EndpointJob, Redelivery, TargetJob, group_of
from cns.delivery.target import Target, direct_target
from cns.notification import Notification
from cns.queue_port.contract import NewJob
from workers.consumers.job_events import JobFacts
from workers.consumers.outcome_handler import Again, Concluding, Tools
from workers.delivery.deliverer import Deliverer
from workers.delivery.traffic.admission import Traffic
from workers.delivery.traffic.sends import Aside, Attempt, Begin

_LANE_BYTES = 16


class JobSends:
    """`failures` is how often its targets failed before."""

    def __init__(
        self,
        job: TargetJob,
        failures: int,
        first_attempt_ms: int,
        tools: Tools,
        deliverer: Deliverer,
        traffic: Traffic,
        facts: JobFacts,
    ) -> None:
        self.notification: Notification | None = None
        self._job = job
        self._failures = failures
        self._first_attempt_ms = first_attempt_ms
        self._tools = tools
        self._deliverer = deliverer
        self._traffic = traffic
        self._facts = facts

    @property
    def stored_id(self) -> str:
        """Of the stored notification that the job counts as a reference to, or ''."""
        job = self._job
        return job.notification_id if isinstance(job, EndpointJob) and job.inline is None else ""

    async def targets(self) -> list[Target]:
        """Whom to send to. What is gone is counted."""
        job = self._job
        if isinstance(job, ConfirmationJob):
            found = await self._tools.targets.find([job.subscription])
            if not found:
                self._facts.dropped(job.subscription, "subscription_gone")
            return found
        self.notification = job.inline or await self._tools.notifications.get(job.notification_id)
        if self.notification is not None:
            self._facts.known(self.notification)
        if isinstance(job, DirectJob):
            return [direct_target(job)]
        targets = [target for target in await self._tools.targets.find(job.subscriptions) if target.confirmed]
        for gone in set(job.subscriptions).difference([target.arn for target in targets]):
            self._facts.dropped(gone, "subscription_gone")
        if self.notification is not None:
            return targets
        for target in targets:
            self._facts.dropped(target.arn, "notification_lost")
        return []

    def traffic_key(self, target: Target) -> str:
        return self._deliverer.traffic_key(target)

    def start(self, target: Target) -> Attempt:
        """One attempt, when its endpoint has room for it."""
        if target.receives_per_second is not None:  # whoever holds its lane keeps the pace
            return self._traffic.put_aside(Aside.THROTTLED)
        return self.start_from_lane(target)

    def start_from_lane(self, target: Target) -> Attempt:
        key = self._deliverer.traffic_key(target)
        begin = self._begin(target)
        return self._traffic.start(key, self._facts.message_id, begin) if key else begin()

    def again(self, target: Target, again: Again) -> NewJob:
        """The redelivery of a target that failed."""
        put_id = f"{self._facts.message_id}/{target.arn}/{again.failures}" + ("/ended" if again.ended else "")
        body = self._alone(target, again.failures, again.ended)
        return NewJob(jobs.REDELIVERY, put_id, body, group_of(self._job), again.delay_ms)

    def aside(self, target: Target) -> NewJob:
        """Into its lane, without an attempt."""
        put_id = f"{self._facts.message_id}/{target.arn}/{self._failures}/aside"
        return NewJob(jobs.LANES, put_id, self._alone(target, self._failures), self._lane(target))

    def rest(self, arns: Iterable[str]) -> bytes | None:
        """What the job says when only these targets remain; None: what it said."""
        job = self._job
        if not isinstance(job, EndpointJob):
            return None
        rest = EndpointJob(job.notification_id, job.topic, tuple(arns), job.inline)
        return jobs.encode(Redelivery(rest, self._failures, self._first_attempt_ms) if self._failures else rest)

    def _lane(self, target: Target) -> str:
        """A throttled subscription has one of its own; the others share that of their endpoint."""
        name = self._deliverer.traffic_key(target) if target.receives_per_second is None else target.arn
        return blake2b(name.encode(), digest_size=_LANE_BYTES).hexdigest()

    def _alone(self, target: Target, failures: int, ended: str = "") -> bytes:
        job = self._job
        if isinstance(job, EndpointJob):
            job = EndpointJob(job.notification_id, job.topic, (target.arn,), job.inline)
        return jobs.encode(Redelivery(job, failures, self._first_attempt_ms, ended=ended))

    def _begin(self, target: Target) -> Begin:
        job, notification = self._job, self.notification
        if isinstance(job, ConfirmationJob):
            return partial(self._deliverer.start_confirmation, target, job)
        assert notification is not None
        return partial(self._deliverer.start, target, notification)


def taken_up(
    job: TargetJob, failures: int, first_attempt_ms: int, tools: Tools, deliverer: Deliverer, traffic: Traffic
) -> tuple[JobSends, Concluding]:
    """What a job that a worker holds asks to be sent, and what follows from what comes of it."""
    facts = JobFacts(tools.stats, tools.events, tools.clock, job, failures, tools.delivery_log)
    sends = JobSends(job, failures, first_attempt_ms, tools, deliverer, traffic, facts)
    return sends, Concluding(tools, deliverer, facts, failures, first_attempt_ms)
