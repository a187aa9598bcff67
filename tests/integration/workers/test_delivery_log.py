"""Attempts that are logged, and their destinations: topics, applications and accounts in the stores."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest

from cns.delivery.jobs import EndpointJob
from cns.delivery.target import TargetCache
from cns.endpoints.outcome import Cause, Failed, Outcome
from cns_backend.backend import Backend
from cns_common.configuration.settings import Settings
from cns_common.errors import StoreUnavailable
from cns_workers.delivery.logs.logger import OWNER_LIFE_MS, WAITING_MAX, delivery_log
from cns_workers.observers.contract import ObservedJob
from tests.integration.sns.cns_support import Rig
from tests.integration.sns.mobile.sns_mobile import APPLICATION, endpoint, open_mobile
from tests.integration.workers.delivery_log_fixture import (
    APP_GROUP,
    BAD,
    NUMBER,
    OK,
    PHONES,
    ROLE,
    DeliveryLogFixture,
    group_of,
    set_application,
)


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with open_mobile(tmp_path) as rig:
        yield rig


# -- topics -----------------------------------------------------------------------------------------------------------


async def test_targets_of_which_nobody_can_want_a_log_are_marked_once(rig: Rig, tmp_path: Path) -> None:
    fixture = DeliveryLogFixture(rig, tmp_path)
    roles = {"HTTPSuccessFeedbackRoleArn": ROLE}
    _, silent = await fixture.subscribed("http", "http://127.0.0.1/a")
    _, mail = await fixture.subscribed("email", "a@example.com", **roles)
    _, wanted = await fixture.subscribed("http", "http://127.0.0.1/b", **roles)
    _, phone = await fixture.subscribed("sms", NUMBER)
    assert (silent.feedback, mail.feedback) == (None, None)
    assert wanted.feedback is not None
    assert phone.feedback is not None  # the account may have asked for feedback
    await fixture.log.close()


async def test_a_topics_change_is_seen_by_what_is_remembered(rig: Rig, tmp_path: Path) -> None:
    fixture, targets = DeliveryLogFixture(rig, tmp_path), TargetCache(rig.topics, rig.subscriptions)
    topic, target = await fixture.subscribed("http", "http://127.0.0.1/a")
    assert (await targets.find([target.arn]))[0].feedback is None
    await rig("SetTopicAttributes", TopicArn=topic, AttributeName="HTTPFailureFeedbackRoleArn", AttributeValue=ROLE)
    (changed,) = await targets.find([target.arn])
    assert changed.feedback is not None
    await fixture.log.close()


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
    fixture = DeliveryLogFixture(rig, tmp_path, client_errors_succeed=aws)
    roles = {"HTTPSuccessFeedbackRoleArn": ROLE, "HTTPFailureFeedbackRoleArn": ROLE}
    topic, target = await fixture.subscribed("http", "http://127.0.0.1/a", **roles)
    fixture.attempt(target, outcome, topic)
    (record,) = await fixture.logged(group_of(topic) + ("" if success else "/Failure"))
    assert record["status"] == ("SUCCESS" if success else "FAILURE")


@pytest.mark.spec("sns-log.rate")
@pytest.mark.parametrize(("draw", "records"), [(0.29, 1), (0.3, 0)])
async def test_successes_are_drawn(rig: Rig, tmp_path: Path, draw: float, records: int) -> None:
    fixture = DeliveryLogFixture(rig, tmp_path, draw=draw)
    rate = {"HTTPSuccessFeedbackRoleArn": ROLE, "HTTPSuccessFeedbackSampleRate": "30"}
    topic, target = await fixture.subscribed("http", "http://127.0.0.1/a", **rate)
    fixture.attempt(target, OK, topic)
    assert len(await fixture.logged(group_of(topic))) == records


# -- phones and applications -------------------------------------------------------------------------------------------


@pytest.mark.spec("sns-log.direct")
async def test_sms_of_an_account_that_wants_them_logged(rig: Rig, tmp_path: Path) -> None:
    """A delivery for a topic is in the log of the topic's deliveries."""
    fixture = DeliveryLogFixture(rig, tmp_path)
    await rig("SetSMSAttributes", attributes={"DeliveryStatusIAMRole": ROLE})
    topic, subscribed = await fixture.subscribed("sms", NUMBER)
    fixture.attempt(await fixture.phone())
    fixture.attempt(await fixture.phone(), BAD)
    fixture.attempt(subscribed, OK, topic)
    await fixture.log.close()
    assert len(await fixture.logged(PHONES)) == len(await fixture.logged(f"{PHONES}/Failure")) == 1
    assert len(await fixture.logged(group_of(topic))) == 1


async def test_sms_of_an_account_that_wants_none_logged(rig: Rig, tmp_path: Path) -> None:
    fixture = DeliveryLogFixture(rig, tmp_path)
    fixture.attempt(await fixture.phone())
    assert await fixture.logged(PHONES) == []
    assert not fixture.directory.exists()


@pytest.mark.spec("sns-log.direct")
async def test_an_application_and_a_topic_want_their_own(rig: Rig, tmp_path: Path) -> None:
    fixture = DeliveryLogFixture(rig, tmp_path)
    await set_application(rig, SuccessFeedbackRoleArn=ROLE)
    roles = {"ApplicationSuccessFeedbackRoleArn": ROLE}
    topic, subscribed = await fixture.subscribed("application", await endpoint(rig), **roles)
    fixture.attempt(subscribed, OK, topic)
    fixture.attempt(await fixture.device())
    fixture.attempt(await fixture.device(), BAD)  # the application has no role for failures
    await fixture.log.close()
    assert len(await fixture.logged(APP_GROUP)) == 2
    assert len(await fixture.logged(group_of(topic))) == 1
    assert await fixture.logged(f"{APP_GROUP}/Failure") == []


async def test_owners_are_asked_again_after_a_while(rig: Rig, tmp_path: Path) -> None:
    fixture = DeliveryLogFixture(rig, tmp_path)
    device = await fixture.device()
    fixture.attempt(device)
    await asyncio.gather(*fixture.log._asking)
    await set_application(rig, SuccessFeedbackRoleArn=ROLE)
    fixture.attempt(device)
    rig.clock.advance(OWNER_LIFE_MS)
    fixture.attempt(device)
    assert len(await fixture.logged(APP_GROUP)) == 1


async def test_an_application_that_is_gone(rig: Rig, tmp_path: Path) -> None:
    fixture = DeliveryLogFixture(rig, tmp_path)
    await set_application(rig, SuccessFeedbackRoleArn=ROLE)
    device = await fixture.device()
    await rig("DeletePlatformApplication", PlatformApplicationArn=APPLICATION)
    fixture.attempt(device)
    assert await fixture.logged(APP_GROUP) == []


async def test_while_the_store_is_away_records_are_counted_as_lost(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And those that wait for an answer are bounded."""
    fixture = DeliveryLogFixture(rig, tmp_path)

    async def away(*_: object) -> dict[str, str]:
        raise StoreUnavailable("away")

    monkeypatch.setattr(rig.sms, "attributes", away)
    phone = await fixture.phone()
    for _ in range(WAITING_MAX + 2):
        fixture.attempt(phone)
    assert fixture.lost()["store_unavailable"] == 2
    assert await fixture.logged(PHONES) == []
    assert fixture.lost()["store_unavailable"] == WAITING_MAX + 2


async def test_a_service_that_keeps_no_logs(rig: Rig, tmp_path: Path) -> None:
    settings = Settings(data=tmp_path / "data", delivery_log_days=0)
    log = delivery_log(settings, cast(Backend, rig))  # the stores are not used
    fixture = DeliveryLogFixture(rig, tmp_path)
    job = ObservedJob(EndpointJob("m", "", ()), 0)
    log.answered(job, await fixture.phone(), OK, 5)
    assert log.samples() == []
    await log.close()
    await fixture.log.close()
    assert not settings.delivery_logs_path.exists()
