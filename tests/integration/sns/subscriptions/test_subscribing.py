"""Subscribe through the API: confirmation, existing subscriptions, and errors."""

from __future__ import annotations

import asyncio
import re

import pytest

from cns.delivery import jobs
from cns.limits import PENDING_MS
from tests.integration.sns.cns_support import (
    ACCOUNT,
    BASE_URL,
    OTHER,
    REGION,
    Rig,
    call,
    invalid,
    queue_arn,
)

URL = "https://example.com/hook"


@pytest.mark.spec("subscribing.asked", "subscribing.returned", "subscribing.in-lists", "subscribing.token-form")
async def test_an_http_endpoint_must_confirm(rig: Rig, topic: str) -> None:
    result = await rig("Subscribe", TopicArn=topic, Protocol="https", Endpoint=URL)
    assert result["SubscriptionArn"] == "pending confirmation"
    (put,) = rig.queue.new_jobs
    assert (put.queue, put.group, put.delay_ms) == (jobs.ENDPOINT_JOBS, topic, 0)
    job = rig.confirmation()
    assert (job.kind, job.topic) == ("SubscriptionConfirmation", topic)
    assert (job.base_url, job.message_id) == (BASE_URL, put.id)
    assert re.fullmatch(r"2336412f37[0-9a-f]{246}", job.token)
    assert abs(job.timestamp_ms - rig.clock.now_ms()) < 60_000
    assert await rig.listed(topic) == ["PendingConfirmation"]
    described = await rig.attributes(job.subscription)
    assert (described["PendingConfirmation"], described["ConfirmationWasAuthenticated"]) == ("true", "false")


@pytest.mark.spec("subscribing.repeat-pending", "subscribing.returned-arn")
async def test_subscribing_again_while_pending(rig: Rig, topic: str) -> None:
    """The ARN stays, a new message has a new token, and the old token stays valid."""
    arn, first = await rig.pending(topic)
    again, second = await rig.pending(topic)
    assert again == arn and first != second
    for token in (first, second):
        assert await rig.confirm(topic, token) == arn


@pytest.mark.parametrize(
    ("protocol", "endpoint"), [("sqs", queue_arn(OTHER)), ("lambda", f"arn:aws:lambda:{REGION}:{OTHER}:function:f")]
)
@pytest.mark.spec("subscribing.repeat-of-another")
async def test_an_endpoint_of_another_account_is_asked_at_each_subscribe(
    rig: Rig, topic: str, protocol: str, endpoint: str
) -> None:
    await rig.open_to_all(topic, "sns:Subscribe")
    members = {"TopicArn": topic, "Protocol": protocol, "Endpoint": endpoint, "ReturnSubscriptionArn": True}
    arn = (await rig.by(call(OTHER), "Subscribe", **members))["SubscriptionArn"]
    assert rig.queue.take() == []
    assert await rig("Subscribe", **members) == {"SubscriptionArn": arn}
    asked = rig.confirmation()
    assert asked.kind == "SubscriptionConfirmation"
    await rig.confirm(topic, asked.token)
    rig.clock.advance(PENDING_MS + 1)
    await rig.subscriptions.sweep(rig.clock.now_ms(), 100)
    assert await rig.listed(topic) == [arn], "it stays confirmed"


@pytest.mark.spec("subscribing.repeat-of-owner")
async def test_the_owner_of_a_queue_is_not_asked(rig: Rig, topic: str) -> None:
    await rig.open_to_all(topic, "sns:Subscribe")
    members = {"TopicArn": topic, "Protocol": "sqs", "Endpoint": queue_arn(OTHER), "ReturnSubscriptionArn": True}
    arn = (await rig.by(call(OTHER), "Subscribe", **members))["SubscriptionArn"]
    await rig("Unsubscribe", SubscriptionArn=arn)
    token = rig.confirmation().token
    assert (await rig.by(call(OTHER), "Subscribe", **members)) == {"SubscriptionArn": arn}
    assert (rig.queue.take(), await rig.listed(topic)) == ([], ["Deleted"])
    await rig.confirm(topic, token)
    assert await rig.listed(topic) == [arn]


@pytest.mark.spec("subscribing.idempotent", "subscribing.idempotent-attributes")
async def test_subscribing_again_finds_the_same(rig: Rig, topic: str) -> None:
    arn = await rig.queue_subscription(topic, RawMessageDelivery="true")
    assert await rig.queue_subscription(topic) == arn
    assert await rig.queue_subscription(topic, RawMessageDelivery="TRUE") == arn
    assert await rig.refused_subscribe(topic, queue_arn(ACCOUNT), RawMessageDelivery="false") == invalid(
        "Attributes Reason: Subscription already exists with different attributes"
    )
    assert rig.queue.take() == []


NOT_THE_OWNER = ("AuthorizationError", "Not authorized to access this subscription")


@pytest.mark.spec("subscribing.cross-account-queue", "subscribing.owner-attributes", "consent.confirm-signed")
async def test_another_account_s_queue_must_confirm(rig: Rig, topic: str) -> None:
    arn = await rig.subscribe(topic, "sqs", queue_arn(OTHER))
    token = rig.confirmation().token
    assert (await rig.attributes(arn))["PendingConfirmation"] == "true"
    await rig.by(call(OTHER), "ConfirmSubscription", TopicArn=topic, Token=token)
    described = await rig.attributes(arn)
    assert (described["PendingConfirmation"], described["ConfirmationWasAuthenticated"]) == ("false", "false")
    assert await rig.refusal("GetSubscriptionAttributes", call(OTHER), SubscriptionArn=arn) == NOT_THE_OWNER
    assert await rig.refused_set(arn, "RawMessageDelivery", "true", call(OTHER)) == NOT_THE_OWNER


@pytest.mark.spec("consent.confirm-signed")
async def test_the_owner_s_signature_alone_protects_nothing(rig: Rig, topic: str) -> None:
    arn, token = await rig.pending(topic)
    await rig("ConfirmSubscription", TopicArn=topic, Token=token, AuthenticateOnUnsubscribe="false")
    assert (await rig.attributes(arn))["ConfirmationWasAuthenticated"] == "false"


@pytest.mark.spec("subscribing.owner-attributes")
async def test_the_subscriber_owns_a_subscription_to_another_s_topic(rig: Rig, topic: str) -> None:
    await rig.open_to_all(topic, "sns:Subscribe")
    members = {"TopicArn": topic, "Protocol": "sqs", "Endpoint": queue_arn(OTHER)}
    arn = (await rig.by(call(OTHER), "Subscribe", **members))["SubscriptionArn"]
    assert (await rig.attributes(arn, OTHER))["Owner"] == OTHER
    assert await rig.subscribe(topic, "sqs", queue_arn(OTHER)) == arn
    assert (await rig.attributes(arn, OTHER))["Owner"] == OTHER
    assert (await rig.refusal("GetSubscriptionAttributes", SubscriptionArn=arn))[0] == "AuthorizationError"
    assert [m["SubscriptionArn"] for m in (await rig.by(call(OTHER), "ListSubscriptions"))["Subscriptions"]] == [arn]
    assert (await rig("ListSubscriptions"))["Subscriptions"] == []


@pytest.mark.spec("subscribing.idempotent")
async def test_subscribing_at_once_makes_one_subscription(rig: Rig, topic: str) -> None:
    arns = await asyncio.gather(*[rig.subscribe(topic, "https", URL) for _ in range(5)])
    assert len(set(arns)) == 1
    jobs_put = rig.queue.take()
    assert len(jobs_put) == 5
    assert await rig.listed(topic) == ["PendingConfirmation"]
