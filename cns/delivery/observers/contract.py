"""The contract of observers of attempts, and the observers of one process as a list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Concatenate, NamedTuple, ParamSpec

from cns.delivery.envelope import MessageType
from cns.delivery.jobs import ConfirmationJob, DirectJob, TargetJob
from cns.delivery.target import Target
from cns.endpoints.outcome import Outcome
from cns.notification import Notification

Arguments = ParamSpec("Arguments")


class Deferral(StrEnum):
    """Why a send was not started. It is neither a failure nor an attempt: the target goes into its lane."""

    OPEN = "breaker_open"
    BUSY = "endpoint_busy"
    THROTTLED = "throttled"
    PAUSED = "paused"


class Answer(NamedTuple):
    """The end of an attempt."""

    at_ms: int
    size_bytes: int  # that were sent


class ObservedJob:
    """What observers see of a job. `failures` counts earlier failures of its targets. A confirmation was published at
    its own timestamp."""

    def __init__(self, job: TargetJob, failures: int) -> None:
        self.topic, self.account = ("", job.account) if isinstance(job, DirectJob) else (job.topic, "")
        self.failures = failures
        self.notification: Notification | None = None
        self.answers: dict[str, Answer] = {}  # by subscription ARN
        self.trace_contexts: dict[str, str] = {}  # by subscription ARN: what a traced send carries
        if isinstance(job, ConfirmationJob):
            self.message_id = job.message_id
            self.message_type: str = MessageType(job.kind).value
            self.published_ms = job.timestamp_ms
            self.replayed = False
        else:
            self.message_id = job.notification_id
            self.message_type = MessageType.NOTIFICATION.value
            self.published_ms = 0  # until the notification is read
            self.replayed = job.inline is not None and job.inline.replayed  # replays send it inline


class AttemptObserver:
    """Sees what becomes of jobs and their attempts, and decides nothing. Its hooks never wait and never fail."""

    def before_job(self, job: ObservedJob, targets: int, now_ms: int) -> None:
        """The job's notification and its targets, so many, were read."""

    def before_attempt(self, job: ObservedJob, target: Target) -> None:
        """The attempt asks for room at its endpoint."""

    def before_send(self, job: ObservedJob, target: Target) -> None:
        """The attempt has room; its request follows."""

    def answered(self, job: ObservedJob, target: Target, outcome: Outcome, at_ms: int) -> None:
        """An attempt has ended. What follows from it is seen up to a second later."""

    def after_attempt(self, job: ObservedJob, target: Target, outcome: Outcome | Deferral | None) -> None:
        """The attempt was answered or deferred; None: it was cancelled or crashed."""

    def delivered(self, job: ObservedJob, target: Target, answer: Answer) -> None: ...

    def dead_lettered(self, job: ObservedJob, target: Target, cause: str, at_ms: int) -> None: ...

    def dropped(
        self, job: ObservedJob, subscription: str, target: Target | None, cause: str, reason: str, at_ms: int
    ) -> None:
        """There is no further attempt, or none at all: the subscription, for which `target` is None, or the
        notification is gone."""

    def before_settle(self, queue: str) -> None:
        """Jobs of the queue are about to be settled."""

    def after_references(self, queue: str) -> None:
        """The references of the jobs that follow are added; the jobs are not settled."""

    def after_settle(self, queue: str, is_done: bool) -> None:
        """Jobs are settled, of which one or more are done with; their references are not released."""


class Observers:
    """Calls observers in the order of the list. A hook that an observer does not have costs nothing."""

    def __init__(self, *observers: AttemptObserver) -> None:
        self.before_job = _hooks(observers, AttemptObserver.before_job)
        self.before_attempt = _hooks(observers, AttemptObserver.before_attempt)
        self.before_send = _hooks(observers, AttemptObserver.before_send)
        self.answered = _hooks(observers, AttemptObserver.answered)
        self.after_attempt = _hooks(observers, AttemptObserver.after_attempt)
        self.delivered = _hooks(observers, AttemptObserver.delivered)
        self.dead_lettered = _hooks(observers, AttemptObserver.dead_lettered)
        self.dropped = _hooks(observers, AttemptObserver.dropped)
        self.before_settle = _hooks(observers, AttemptObserver.before_settle)
        self.after_references = _hooks(observers, AttemptObserver.after_references)
        self.after_settle = _hooks(observers, AttemptObserver.after_settle)


def _hooks(
    observers: Sequence[AttemptObserver], hook: Callable[Concatenate[AttemptObserver, Arguments], None]
) -> tuple[Callable[Arguments, None], ...]:
    """The hook of each observer that has it."""
    name = hook.__name__
    return tuple(getattr(each, name) for each in observers if getattr(type(each), name) is not hook)


NO_OBSERVERS = Observers()
