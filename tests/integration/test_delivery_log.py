"""Which attempts are logged and where: topics, and the applications and accounts that are asked at the stores."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from cns.endpoints.outcome import Cause, Delivered, Failed, Outcome
from cns.jobs import ConfirmationJob, EndpointJob, TargetJob
from cns.model import Notification
from cns.target import Target, Targets, direct_target
from common.clock import Clock
from common.errors import StoreUnavailable
from common.settings import Settings
from tests.integration.cns_support import ACCOUNT, REGION, Rig
from tests.integration.sns_mobile import APPLICATION, direct_job, endpoint, open_mobile
from tests.recorded_events import RecordedEvents
from workers.delivery_log import OWNER_LIFE_MS, WAITING_MAX, DeliveryLog, FeedbackLog
from workers.delivery_log_files import LogFiles, LogLimits
from workers.delivery_log_reading import LogReader
from workers.delivery_log_record import Attempted
from workers.host import Parts
from workers.job_facts import JobFacts
from workers.services import delivery_log
from workers.stats import Stats

ROLE = "arn:aws:iam::123456789012:role/logs"
NUMBER = "+15551234567"
OK = Delivered(200, 1)
BAD = Failed(Cause.STATUS, "HTTP 400", 1, 400, permanent=True)
PHONES = f"sns/{REGION}/{ACCOUNT}/DirectPublishToPhoneNumber"
APP_GROUP = f"sns/{REGION}/{ACCOUNT}/app/APNS/app"


class Site:
    """A log over the rig's stores."""

    def __init__(self, rig: Rig, directory: Path, *, client_errors_succeed: bool = False, draw: float = 0.5) -> None:
        self.rig = rig
        self.directory = directory / "logs"
        self.files = LogFiles(self.directory, rig.clock, LogLimits(days=7, bytes_max=1 << 30))
        self.log = FeedbackLog(
            self.files,
            rig.sms,
            rig.platforms,
            rig.clock,
            client_errors_succeed=client_errors_succeed,
            draw=lambda: draw,
        )

    async def logged(self, *groups: str) -> list[dict[str, Any]]:
        """All that was, once the log is closed."""
        await self.log.close()
        return [json.loads(entry.line) for entry in LogReader(self.directory, groups).read()]

    def lost(self) -> dict[str, float]:
        return {sample.labels[0][1]: sample.value for sample in self.files.samples() if "lost" in sample.name}

    def attempt(self, target: Target, outcome: Outcome = OK, topic: str = "") -> None:
        self.log.attempted(_attempted(target, outcome, topic))

    async def phone(self) -> Target:
        await self.rig("Publish", PhoneNumber=NUMBER, Message="m")
        return direct_target(direct_job(self.rig))

    async def device(self) -> Target:
        await self.rig("Publish", TargetArn=await endpoint(self.rig), Message="m")
        return direct_target(direct_job(self.rig))

    async def subscribed(self, protocol: str, to: str, **topic_attributes: str) -> tuple[str, Target]:
        topic = await self.rig.topic()
        for name, text in topic_attributes.items():
            await self.rig("SetTopicAttributes", TopicArn=topic, AttributeName=name, AttributeValue=text)
        arn = await self.rig.subscribe(topic, protocol, to)
        (target,) = await Targets(self.rig.topics, self.rig.subscriptions).find([arn])
        return topic, target


def _attempted(target: Target, outcome: Outcome = OK, topic: str = "") -> Attempted:
    return Attempted(target=target, outcome=outcome, message_id="m", topic=topic, published_ms=0, at_ms=5, attempt=1)


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with open_mobile(tmp_path) as rig:
        yield rig


def group_of(topic: str) -> str:
    return topic.removeprefix("arn:aws:").replace(":", "/")


async def set_application(rig: Rig, **attributes: str) -> None:
    await rig("SetPlatformApplicationAttributes", PlatformApplicationArn=APPLICATION, Attributes=attributes)


# -- topics -----------------------------------------------------------------------------------------------------------


async def test_targets_of_which_nobody_can_want_a_log_are_marked_once(rig: Rig, tmp_path: Path) -> None:
    site = Site(rig, tmp_path)
    roles = {"HTTPSuccessFeedbackRoleArn": ROLE}
    _, silent = await site.subscribed("http", "http://127.0.0.1/a")
    _, mail = await site.subscribed("email", "a@example.com", **roles)
    _, wanted = await site.subscribed("http", "http://127.0.0.1/b", **roles)
    _, phone = await site.subscribed("sms", NUMBER)
    assert (silent.feedback, mail.feedback) == (None, None)
    assert wanted.feedback is not None
    assert phone.feedback is not None  # its account may want one
    await site.log.close()


async def test_a_topics_change_is_seen_by_what_is_remembered(rig: Rig, tmp_path: Path) -> None:
    site, targets = Site(rig, tmp_path), Targets(rig.topics, rig.subscriptions)
    topic, target = await site.subscribed("http", "http://127.0.0.1/a")
    assert (await targets.find([target.arn]))[0].feedback is None
    await rig("SetTopicAttributes", TopicArn=topic, AttributeName="HTTPFailureFeedbackRoleArn", AttributeValue=ROLE)
    (changed,) = await targets.find([target.arn])
    assert changed.feedback is not None
    await site.log.close()


@pytest.mark.parametrize(
    ("aws", "outcome", "success"),
    [
        (False, OK, True),
        (False, BAD, False),
        (True, BAD, True),
        (True, Failed(Cause.STATUS, "HTTP 500", 1, 500), False),
        (True, Failed(Cause.QUEUE, "no", 1, permanent=True), False),
    ],
)
async def test_successes_and_failures_have_a_group_each(
    rig: Rig, tmp_path: Path, aws: bool, outcome: Outcome, success: bool
) -> None:
    site = Site(rig, tmp_path, client_errors_succeed=aws)
    roles = {"HTTPSuccessFeedbackRoleArn": ROLE, "HTTPFailureFeedbackRoleArn": ROLE}
    topic, target = await site.subscribed("http", "http://127.0.0.1/a", **roles)
    site.attempt(target, outcome, topic)
    (record,) = await site.logged(group_of(topic) + ("" if success else "/Failure"))
    assert record["status"] == ("SUCCESS" if success else "FAILURE")


@pytest.mark.spec("sns-log.rate")
@pytest.mark.parametrize(("draw", "records"), [(0.29, 1), (0.3, 0)])
async def test_successes_are_drawn(rig: Rig, tmp_path: Path, draw: float, records: int) -> None:
    site = Site(rig, tmp_path, draw=draw)
    rate = {"HTTPSuccessFeedbackRoleArn": ROLE, "HTTPSuccessFeedbackSampleRate": "30"}
    topic, target = await site.subscribed("http", "http://127.0.0.1/a", **rate)
    site.attempt(target, OK, topic)
    assert len(await site.logged(group_of(topic))) == records


# -- phones and applications -------------------------------------------------------------------------------------------


@pytest.mark.spec("sns-log.direct")
async def test_sms_of_an_account_that_wants_them_logged(rig: Rig, tmp_path: Path) -> None:
    """What goes out by way of a topic is among the topic's deliveries."""
    site = Site(rig, tmp_path)
    await rig("SetSMSAttributes", attributes={"DeliveryStatusIAMRole": ROLE})
    topic, subscribed = await site.subscribed("sms", NUMBER)
    site.attempt(await site.phone())
    site.attempt(await site.phone(), BAD)
    site.attempt(subscribed, OK, topic)
    await site.log.close()
    assert len(await site.logged(PHONES)) == len(await site.logged(f"{PHONES}/Failure")) == 1
    assert len(await site.logged(group_of(topic))) == 1


async def test_sms_of_an_account_that_wants_none_logged(rig: Rig, tmp_path: Path) -> None:
    site = Site(rig, tmp_path)
    site.attempt(await site.phone())
    assert await site.logged(PHONES) == []
    assert not site.directory.exists()


@pytest.mark.spec("sns-log.direct")
async def test_an_application_and_a_topic_want_their_own(rig: Rig, tmp_path: Path) -> None:
    site = Site(rig, tmp_path)
    await set_application(rig, SuccessFeedbackRoleArn=ROLE)
    roles = {"ApplicationSuccessFeedbackRoleArn": ROLE}
    topic, subscribed = await site.subscribed("application", await endpoint(rig), **roles)
    site.attempt(subscribed, OK, topic)
    site.attempt(await site.device())
    site.attempt(await site.device(), BAD)  # it has no role for failures
    await site.log.close()
    assert len(await site.logged(APP_GROUP)) == 2
    assert len(await site.logged(group_of(topic))) == 1
    assert await site.logged(f"{APP_GROUP}/Failure") == []


async def test_owners_are_asked_again_after_a_while(rig: Rig, tmp_path: Path) -> None:
    site = Site(rig, tmp_path)
    device = await site.device()
    site.attempt(device)
    await asyncio.gather(*site.log._asking)
    await set_application(rig, SuccessFeedbackRoleArn=ROLE)
    site.attempt(device)
    rig.clock.advance(OWNER_LIFE_MS)
    site.attempt(device)
    assert len(await site.logged(APP_GROUP)) == 1


async def test_an_application_that_is_gone(rig: Rig, tmp_path: Path) -> None:
    site = Site(rig, tmp_path)
    await set_application(rig, SuccessFeedbackRoleArn=ROLE)
    device = await site.device()
    await rig("DeletePlatformApplication", PlatformApplicationArn=APPLICATION)
    site.attempt(device)
    assert await site.logged(APP_GROUP) == []


async def test_while_the_store_is_away_records_are_counted_as_lost(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And those that wait for an answer are bounded."""
    site = Site(rig, tmp_path)

    async def away(*_: object) -> dict[str, str]:
        raise StoreUnavailable("away")

    monkeypatch.setattr(rig.sms, "attributes", away)
    phone = await site.phone()
    for _ in range(WAITING_MAX + 2):
        site.attempt(phone)
    assert site.lost()["store_away"] == 2
    assert await site.logged(PHONES) == []
    assert site.lost()["store_away"] == WAITING_MAX + 2


async def test_a_service_that_keeps_no_logs(rig: Rig, tmp_path: Path) -> None:
    settings = Settings(data=tmp_path / "data", delivery_log_days=0)
    log = delivery_log(settings, cast(Parts, rig))  # whose stores are not asked
    site = Site(rig, tmp_path)
    log.attempted(_attempted(await site.phone()))
    assert log.samples() == []
    await log.close()
    await site.log.close()
    assert not settings.delivery_logs_path.exists()


# -- what is told of a job ---------------------------------------------------------------------------------------------


class RecordedAttempts:
    """See `DeliveryLog`."""

    def __init__(self) -> None:
        self.told: list[Attempted] = []

    def attempted(self, attempted: Attempted) -> None:
        self.told.append(attempted)


def facts_of(job: TargetJob, log: DeliveryLog, failures: int = 0, stats: Stats | None = None) -> JobFacts:
    return JobFacts(stats or Stats(), RecordedEvents(), Clock(), job, failures, log)


async def test_what_a_job_says_of_an_attempt(rig: Rig, tmp_path: Path) -> None:
    site, log = Site(rig, tmp_path), RecordedAttempts()
    topic, target = await site.subscribed("http", "http://127.0.0.1/a", HTTPSuccessFeedbackRoleArn=ROLE)
    texts = {"default": "hello", "sqs": "other"}
    notification = Notification(id="m", topic_arn=topic, timestamp_ms=7, texts=texts)
    facts = facts_of(EndpointJob("m", topic, (target.arn,), notification), log, failures=2)
    facts.known(notification)
    facts.attempted(target, OK)
    facts.attempted(replace(target, protocol="sqs"), OK)
    facts.attempted(replace(target, feedback=None), OK)
    first, second = log.told
    assert (first.message_id, first.topic, first.published_ms, first.attempt) == ("m", topic, 7, 3)
    assert first.message_md5 == "5d41402abc4b2a76b9719d911017c592"
    assert second.message_md5 == "795f3202b17cb6bc3d4b771d8c6c9eaf"
    await site.log.close()


@pytest.mark.spec("sns-log.confirmations")
async def test_what_a_job_says_of_a_confirmation(rig: Rig, tmp_path: Path) -> None:
    site, log, stats = Site(rig, tmp_path), RecordedAttempts(), Stats()
    topic, target = await site.subscribed("http", "http://127.0.0.1/a", HTTPSuccessFeedbackRoleArn=ROLE)
    job = ConfirmationJob("SubscriptionConfirmation", "c", target.arn, topic, "t", 3, "http://localhost")
    facts = facts_of(job, log, stats=stats)
    facts.attempted(target, OK)
    facts.delivered(target)
    (told,) = log.told
    assert (told.message_id, told.message_md5, told.published_ms) == ("c", "", 3)
    assert stats.latency.samples(0) == []  # nothing was published
    await site.log.close()


@pytest.mark.parametrize(("replayed", "observed"), [(False, 1), (True, 0)])
async def test_a_delivery_is_measured_unless_it_is_a_replay(
    rig: Rig, tmp_path: Path, replayed: bool, observed: int
) -> None:
    site, stats = Site(rig, tmp_path), Stats()
    topic, target = await site.subscribed("http", "http://127.0.0.1/a")
    notification = Notification(id="m", topic_arn=topic, timestamp_ms=7, texts={"default": "m"}, replayed=replayed)
    facts = facts_of(EndpointJob("m", topic, (target.arn,), notification), site.log, stats=stats)
    facts.known(notification)
    facts.attempted(target, OK)
    facts.delivered(target)
    counts = [sample.value for sample in stats.latency.samples(0) if sample.name == "delivery_seconds_count"]
    assert sum(counts) == observed
    await site.log.close()
