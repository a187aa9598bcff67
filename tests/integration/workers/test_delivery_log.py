"""Attempts that are logged, and their destinations: topics, applications and accounts in the stores."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import pytest

from cns.delivery.jobs import EndpointJob
from cns.delivery.observers.contract import ObservedJob
from cns.delivery.target import TargetCache
from cns.endpoints.outcome import Cause, Failed, Outcome
from cns_backend.backend import Backend
from cns_backend.delivery_logs.logger import OWNER_LIFE_MS, WAITING_MAX, delivery_log
from cns_common.configuration.settings import Settings
from cns_common.errors import StoreUnavailable
from tests.integration.sns.cns_support import Rig
from tests.integration.sns.mobile.sns_mobile import APPLICATION, endpoint
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

# -- topics -----------------------------------------------------------------------------------------------------------


async def test_targets_of_which_nobody_can_want_a_log_are_marked_once(logs: DeliveryLogFixture) -> None:
    roles = {"HTTPSuccessFeedbackRoleArn": ROLE}
    _, silent = await logs.subscribed("http", "http://127.0.0.1/a")
    _, mail = await logs.subscribed("email", "a@example.com", **roles)
    _, wanted = await logs.subscribed("http", "http://127.0.0.1/b", **roles)
    _, phone = await logs.subscribed("sms", NUMBER)
    assert (silent.feedback, mail.feedback) == (None, None)
    assert wanted.feedback is not None
    assert phone.feedback is not None  # the account may have asked for feedback


async def test_a_topics_change_is_seen_by_what_is_remembered(rig: Rig, logs: DeliveryLogFixture) -> None:
    targets = TargetCache(rig.topics, rig.subscriptions)
    topic, target = await logs.subscribed("http", "http://127.0.0.1/a")
    assert (await targets.find([target.arn]))[0].feedback is None
    await rig.set(topic, "HTTPFailureFeedbackRoleArn", ROLE)
    (changed,) = await targets.find([target.arn])
    assert changed.feedback is not None


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
    logs: DeliveryLogFixture, aws: bool, outcome: Outcome, success: bool
) -> None:
    logs.log._client_errors_succeed = aws
    roles = {"HTTPSuccessFeedbackRoleArn": ROLE, "HTTPFailureFeedbackRoleArn": ROLE}
    topic, target = await logs.subscribed("http", "http://127.0.0.1/a", **roles)
    logs.attempt(target, outcome, topic)
    (record,) = await logs.logged(group_of(topic) + ("" if success else "/Failure"))
    assert record["status"] == ("SUCCESS" if success else "FAILURE")


@pytest.mark.spec("sns-log.rate")
@pytest.mark.parametrize(("draw", "records"), [(0.29, 1), (0.3, 0)])
async def test_successes_are_drawn(logs: DeliveryLogFixture, draw: float, records: int) -> None:
    logs.log._draw = lambda: draw
    rate = {"HTTPSuccessFeedbackRoleArn": ROLE, "HTTPSuccessFeedbackSampleRate": "30"}
    topic, target = await logs.subscribed("http", "http://127.0.0.1/a", **rate)
    logs.attempt(target, OK, topic)
    assert len(await logs.logged(group_of(topic))) == records


# -- phones and applications -------------------------------------------------------------------------------------------


@pytest.mark.spec("sns-log.direct")
async def test_sms_of_an_account_that_wants_them_logged(rig: Rig, logs: DeliveryLogFixture) -> None:
    """A delivery for a topic is in the log of the topic's deliveries."""
    await rig("SetSMSAttributes", attributes={"DeliveryStatusIAMRole": ROLE})
    topic, subscribed = await logs.subscribed("sms", NUMBER)
    logs.attempt(await logs.phone())
    logs.attempt(await logs.phone(), BAD)
    logs.attempt(subscribed, OK, topic)
    assert len(await logs.logged(PHONES)) == len(await logs.logged(f"{PHONES}/Failure")) == 1
    assert len(await logs.logged(group_of(topic))) == 1


async def test_sms_of_an_account_that_wants_none_logged(logs: DeliveryLogFixture) -> None:
    logs.attempt(await logs.phone())
    assert await logs.logged(PHONES) == []
    assert not logs.directory.exists()


@pytest.mark.spec("sns-log.direct")
async def test_an_application_and_a_topic_want_their_own(rig: Rig, logs: DeliveryLogFixture) -> None:
    await set_application(rig, SuccessFeedbackRoleArn=ROLE)
    roles = {"ApplicationSuccessFeedbackRoleArn": ROLE}
    topic, subscribed = await logs.subscribed("application", await endpoint(rig), **roles)
    logs.attempt(subscribed, OK, topic)
    logs.attempt(await logs.device())
    logs.attempt(await logs.device(), BAD)  # the application has no role for failures
    assert len(await logs.logged(APP_GROUP)) == 2
    assert len(await logs.logged(group_of(topic))) == 1
    assert await logs.logged(f"{APP_GROUP}/Failure") == []


async def test_owners_are_asked_again_after_a_while(rig: Rig, logs: DeliveryLogFixture) -> None:
    device = await logs.device()
    logs.attempt(device)
    await asyncio.gather(*logs.log._asking)
    await set_application(rig, SuccessFeedbackRoleArn=ROLE)
    logs.attempt(device)
    rig.clock.advance(OWNER_LIFE_MS)
    logs.attempt(device)
    assert len(await logs.logged(APP_GROUP)) == 1


async def test_an_application_that_is_gone(rig: Rig, logs: DeliveryLogFixture) -> None:
    await set_application(rig, SuccessFeedbackRoleArn=ROLE)
    device = await logs.device()
    await rig("DeletePlatformApplication", PlatformApplicationArn=APPLICATION)
    logs.attempt(device)
    assert await logs.logged(APP_GROUP) == []


async def test_while_the_store_is_away_records_are_counted_as_lost(
    rig: Rig, logs: DeliveryLogFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And those that wait for an answer are bounded."""

    async def away(*_: object) -> dict[str, str]:
        raise StoreUnavailable("away")

    monkeypatch.setattr(rig.sms, "attributes", away)
    phone = await logs.phone()
    for _ in range(WAITING_MAX + 2):
        logs.attempt(phone)
    assert logs.lost()["store_unavailable"] == 2
    assert await logs.logged(PHONES) == []
    assert logs.lost()["store_unavailable"] == WAITING_MAX + 2


async def test_a_service_that_keeps_no_logs(rig: Rig, logs: DeliveryLogFixture, tmp_path: Path) -> None:
    settings = Settings(data=tmp_path / "data", delivery_log_days=0)
    log = delivery_log(settings, cast(Backend, rig))  # the stores are not used
    job = ObservedJob(EndpointJob("m", "", ()), 0)
    log.answered(job, await logs.phone(), OK, 5)
    assert log.samples() == []
    await log.close()
    assert not settings.delivery_logs_path.exists()
