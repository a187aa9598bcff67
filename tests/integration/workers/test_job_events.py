"""The events of a job: attempts that are to be logged, and latencies of deliveries."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest

from cns.delivery.jobs import ConfirmationJob, EndpointJob, TargetJob
from cns.delivery.observers.contract import Observers
from cns.delivery.observers.events import AttemptEvents
from cns.endpoints.outcome import Cause, Delivered, Failed
from cns.notification import Notification
from cns.queue_port.contract import LeasedJob
from cns_backend.delivery_logs.logger import FeedbackLog
from cns_backend.delivery_logs.record import LoggedAttempt
from cns_common.clock import Clock
from cns_workers.consumers.delivery_context import DeliveryContext
from cns_workers.consumers.job_attempts import JobAttempts
from cns_workers.delivery.channels import Channels
from cns_workers.jobs.receiver import ReceivedJob
from cns_workers.stats import Stats
from tests.integration.workers.delivery_log_fixture import OK, ROLE, DeliveryLogFixture
from tests.recorded_events import RecordedEvents


class RecordedAttempts(FeedbackLog):
    """Records what the log would write."""

    def __init__(self) -> None:
        self.told: list[LoggedAttempt] = []

    def log_attempt(self, attempt: LoggedAttempt) -> None:
        self.told.append(attempt)


def facts_of(
    job: TargetJob,
    log: FeedbackLog,
    failures: int = 0,
    stats: Stats | None = None,
    events: RecordedEvents | None = None,
) -> JobAttempts:
    observers = Observers(stats or Stats(), AttemptEvents(events or RecordedEvents()), log)
    context = cast(DeliveryContext, SimpleNamespace(clock=Clock(), observers=observers))
    return JobAttempts(ReceivedJob(LeasedJob("j", "", b"", 1), job, failures, 0), context, cast(Channels, None))


def read(facts: JobAttempts, notification: Notification) -> None:
    """As the job does when it is loaded."""
    facts.observed.notification = notification
    facts.observed.published_ms = notification.timestamp_ms


async def test_what_a_job_says_of_an_attempt(logs: DeliveryLogFixture) -> None:
    log = RecordedAttempts()
    topic, target = await logs.subscribed("http", "http://127.0.0.1/a", HTTPSuccessFeedbackRoleArn=ROLE)
    texts = {"default": "hello", "sqs": "other"}
    notification = Notification(id="m", topic_arn=topic, timestamp_ms=7, texts=texts)
    facts = facts_of(EndpointJob("m", topic, (target.arn,), notification), log, failures=2)
    read(facts, notification)
    facts.report_attempt(target, OK)
    facts.report_attempt(replace(target, protocol="sqs"), OK)
    facts.report_attempt(replace(target, feedback=None), OK)
    first, second = log.told
    assert (first.message_id, first.topic, first.published_ms, first.number) == ("m", topic, 7, 3)
    assert first.message_md5 == "5d41402abc4b2a76b9719d911017c592"
    assert second.message_md5 == "795f3202b17cb6bc3d4b771d8c6c9eaf"


async def test_a_post_that_was_repeated_is_two_attempts(logs: DeliveryLogFixture) -> None:
    """The endpoint may have got both: the events, the metrics and the delivery log have as many attempts as posts."""
    log, stats, recorded = RecordedAttempts(), Stats(), RecordedEvents()
    topic, target = await logs.subscribed("http", "http://127.0.0.1/a", HTTPSuccessFeedbackRoleArn=ROLE)
    facts = facts_of(EndpointJob("m", topic, (target.arn,)), log, stats=stats, events=recorded)
    facts.report_attempt(target, msgspec.structs.replace(OK, repeats=Failed(Cause.CONNECTION, "closed", 3)))
    lines = [msgspec.to_builtins(event) for event in recorded.events]
    assert [(line["event"], line["attempt"], line["outcome"], line["cause"]) for line in lines] == [
        ("delivery.attempted", 1, "failed", "connection"),
        ("delivery.attempted", 1, "delivered", ""),
    ]
    assert [type(told.outcome) for told in log.told] == [Failed, Delivered]


@pytest.mark.spec("sns-log.confirmations")
async def test_what_a_job_says_of_a_confirmation(logs: DeliveryLogFixture) -> None:
    log, stats = RecordedAttempts(), Stats()
    topic, target = await logs.subscribed("http", "http://127.0.0.1/a", HTTPSuccessFeedbackRoleArn=ROLE)
    job = ConfirmationJob("SubscriptionConfirmation", "c", target.arn, topic, "t", 3, "http://localhost")
    facts = facts_of(job, log, stats=stats)
    facts.report_attempt(target, OK)
    facts.report_delivery(target)
    (told,) = log.told
    assert (told.message_id, told.message_md5, told.published_ms) == ("c", "", 3)
    assert stats.delivery_times.samples() == []  # nothing was published


@pytest.mark.parametrize(("replayed", "observed"), [(False, 1), (True, 0)])
async def test_a_delivery_is_measured_unless_it_is_a_replay(
    logs: DeliveryLogFixture, replayed: bool, observed: int
) -> None:
    stats, recorded = Stats(), RecordedEvents()
    topic, target = await logs.subscribed("http", "http://127.0.0.1/a")
    notification = Notification(id="m", topic_arn=topic, timestamp_ms=7, texts={"default": "m"}, replayed=replayed)
    facts = facts_of(EndpointJob("m", topic, (target.arn,), notification), logs.log, stats=stats, events=recorded)
    facts.report_drop(target.arn, "subscription_gone")  # dropped before its notification was read
    read(facts, notification)
    facts.report_attempt(target, OK)
    facts.report_delivery(target)
    counts = [sample.value for sample in stats.delivery_times.samples() if sample.name == "cns_delivery_seconds_count"]
    assert sum(counts) == observed
    facts.report_dead_letter(target, "spent:status")
    facts.report_drop(target.arn, "spent:status")
    lines = [msgspec.to_builtins(event) for event in recorded.events]
    assert [line.get("replayed", False) for line in lines] == [replayed] * 5
