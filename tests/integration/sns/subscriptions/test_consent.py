"""ConfirmSubscription and Unsubscribe through the API, with and without a signature, and restoring by a token."""

from __future__ import annotations

import pytest

from cns.limits import PENDING_MS
from cns_common.aws.call import Call
from tests.integration.sns.cns_support import (
    ACCOUNT,
    AUTHORIZED_ONLY,
    BASE_URL,
    OTHER,
    REGION,
    Rig,
    call,
    invalid,
    queue_arn,
    unsigned,
    unsigned_without_auth,
)

UUID = "6ab180b4-f6c7-4ab5-8747-757d1d466e12"
NO_TOPIC = ("NotFound", "Topic does not exist")
NO_SUBSCRIPTION = ("NotFound", "Subscription does not exist")
IDS_MUST_MATCH = (
    "AuthorizationError",
    "To disallow anonymous unsubscription, subscriber and confirmer IDs must match",
)


@pytest.mark.spec("consent.confirm-unsigned", "consent.confirm-repeat")
async def test_confirming_is_repeatable(rig: Rig, topic: str) -> None:
    arn, token = await rig.pending(topic)
    for caller in (unsigned(), unsigned(), call(ACCOUNT)):
        result = await rig.by(caller, "ConfirmSubscription", TopicArn=topic, Token=token)
        assert result == {"SubscriptionArn": arn}
    assert await rig.listed(topic) == [arn]
    assert (await rig.attributes(arn))["ConfirmationWasAuthenticated"] == "false"


async def test_the_time_of_confirmation_is_stored(rig: Rig, topic: str) -> None:
    """`cns explain` compares the time with that of the publish."""
    arn, token = await rig.pending(topic)
    (pending,) = await rig.subscriptions.get([arn])
    rig.clock.advance(5_000)
    confirmed_ms = []
    for _ in range(2):
        await rig.confirm(topic, token)
        (found,) = await rig.subscriptions.get([arn])
        confirmed_ms.append(found.confirmed_ms)
        rig.clock.advance(5_000)
    assert pending.confirmed_ms == 0 and confirmed_ms[0] - pending.created_ms >= 5_000
    assert confirmed_ms[1] == confirmed_ms[0], "a second confirmation changes nothing"


@pytest.mark.spec("consent.token-decides")
async def test_a_token_is_valid_with_any_topic_of_the_region(rig: Rig, topic: str) -> None:
    arn, token = await rig.pending(topic)
    absent = f"arn:aws:sns:{REGION}:{OTHER}:absent"
    assert (await rig("ConfirmSubscription", TopicArn=absent, Token=token))["SubscriptionArn"] == arn


@pytest.mark.spec("consent.topic-region")
async def test_a_token_is_refused_with_a_topic_of_another_region(rig: Rig, topic: str) -> None:
    arn, token = await rig.pending(topic)
    elsewhere = topic.replace(REGION, "us-west-2")
    for caller in (unsigned(), call(ACCOUNT)):
        code, text = await rig.refusal("ConfirmSubscription", caller, TopicArn=elsewhere, Token=token)
        assert (code, text) == invalid("Topic")
    assert await rig.listed(topic) == ["PendingConfirmation"]
    assert await rig.confirm(topic, token) == arn


@pytest.mark.spec("consent.token-malformed", "consent.token-unknown", "consent.topic")
@pytest.mark.parametrize(
    ("params", "refusal"),
    [
        (
            {},
            (
                "ValidationError",
                "1 validation error detected: Value null at 'token' failed to satisfy constraint: "
                "Member must not be null",
            ),
        ),
        ({"Token": "00"}, invalid("TopicArn Reason: no value for required parameter")),
        ({"Token": "00", "TopicArn": "x"}, invalid("Topic")),
        ({"Token": "00", "TopicArn": f"arn:aws:sns:us-east-1:{ACCOUNT}:t"}, invalid("Topic")),
        (
            {"Token": "randomtoken", "TopicArn": f"arn:aws:sns:{REGION}:{ACCOUNT}:t"},
            ("InvalidParameter", "Invalid token"),
        ),
        ({"Token": "", "TopicArn": f"arn:aws:sns:{REGION}:{ACCOUNT}:t"}, ("InvalidParameter", "Invalid token")),
        ({"Token": "51b2ff", "TopicArn": f"arn:aws:sns:{REGION}:{ACCOUNT}:t"}, invalid("Token")),
    ],
)
async def test_confirmations_refused(rig: Rig, params: dict[str, str], refusal: tuple[str, str]) -> None:
    assert await rig.refusal("ConfirmSubscription", **params) == refusal


@pytest.mark.spec("subscribing.token-lifetime")
async def test_a_token_is_valid_for_48_hours(rig: Rig, topic: str) -> None:
    arn, token = await rig.pending(topic)
    rig.clock.advance(PENDING_MS - 60_000)
    _, later = await rig.pending(topic)
    rig.clock.advance(60_001)
    assert await rig.refusal("ConfirmSubscription", TopicArn=topic, Token=token) == invalid("Token")
    await rig.subscriptions.sweep(rig.clock.now_ms(), 100)
    assert (await rig("ConfirmSubscription", TopicArn=topic, Token=later))["SubscriptionArn"] == arn


@pytest.mark.spec("subscribing.pending-lifetime")
async def test_what_is_pending_or_was_removed_by_its_link_expires_after_48_hours(rig: Rig, topic: str) -> None:
    arn, _ = await rig.pending(topic)
    confirmed, _ = await rig.confirmed(topic, "https://example.com/confirmed")
    removed, _ = await rig.confirmed(topic, "https://example.com/removed")
    await rig.by(unsigned(), "Unsubscribe", SubscriptionArn=removed)
    rig.queue.take()
    rig.clock.advance(PENDING_MS + 1)
    await rig.subscriptions.sweep(rig.clock.now_ms(), 100)
    assert await rig.listed(topic) == [confirmed]
    again, _ = await rig.pending(topic)
    assert again != arn


@pytest.mark.spec("consent.token-removed")
async def test_a_token_of_a_deleted_subscription(rig: Rig, topic: str) -> None:
    arn, token = await rig.confirmed(topic)
    await rig("Unsubscribe", SubscriptionArn=arn)
    assert await rig.refusal("ConfirmSubscription", TopicArn=topic, Token=token) == NO_SUBSCRIPTION
    _, token = await rig.pending(topic)
    await rig("DeleteTopic", TopicArn=topic)
    assert await rig.refusal("ConfirmSubscription", TopicArn=topic, Token=token) == NO_TOPIC
    await rig.topic()
    assert await rig.refusal("ConfirmSubscription", TopicArn=topic, Token=token) == NO_TOPIC


@pytest.mark.spec("consent.protect-unsigned")
@pytest.mark.parametrize(
    "caller", [unsigned(), unsigned_without_auth(), call(OTHER)], ids=["unsigned", "no auth", "other"]
)
async def test_only_the_subscriber_can_protect_a_subscription(rig: Rig, topic: str, caller: Call) -> None:
    arn, token = await rig.pending(topic)
    members = {"TopicArn": topic, "Token": token, "AuthenticateOnUnsubscribe": "true"}
    assert await rig.refusal("ConfirmSubscription", caller, **members) == IDS_MUST_MATCH
    assert (await rig.attributes(arn))["PendingConfirmation"] == "true"


@pytest.mark.spec("consent.protected-again", "consent.unsubscribe-protected", "consent.unsubscribe-owner")
async def test_a_protected_subscription(rig: Rig, topic: str) -> None:
    arn, token = await rig.confirmed(topic)
    members = {"TopicArn": topic, "Token": token, "AuthenticateOnUnsubscribe": "True"}
    assert (await rig("ConfirmSubscription", **members))["SubscriptionArn"] == arn
    assert (await rig.attributes(arn))["ConfirmationWasAuthenticated"] == "true"
    assert await rig.refusal("ConfirmSubscription", **members) == (
        "AuthorizationError",
        "Subscription already confirmed",
    )
    await rig.confirm(topic, token)
    assert (await rig.attributes(arn))["ConfirmationWasAuthenticated"] == "true"
    assert await rig.refusal("Unsubscribe", unsigned(), SubscriptionArn=arn) == AUTHORIZED_ONLY
    assert await rig.refusal("Unsubscribe", call(OTHER), SubscriptionArn=arn) == AUTHORIZED_ONLY
    assert await rig.listed(topic) == [arn]
    await rig("Unsubscribe", SubscriptionArn=arn)
    assert await rig.listed(topic) == []


# -- Unsubscribe ------------------------------------------------------------------------------------------------------


@pytest.mark.spec("consent.unsubscribe-malformed")
@pytest.mark.parametrize(
    ("arn", "refusal"),
    [
        (None, invalid("SubscriptionArn Reason: no value for required parameter")),
        ("pending confirmation", invalid("SubscriptionArn Reason: An ARN must have at least 6 elements, not 1")),
        (f"arn:aws:sns:{REGION}:{ACCOUNT}:t", invalid("SubscriptionId")),
        (f"arn:aws:sns:us-east-1:{ACCOUNT}:t:{UUID}", invalid("SubscriptionArn")),
    ],
)
async def test_arns_refused(rig: Rig, arn: str | None, refusal: tuple[str, str]) -> None:
    params = {} if arn is None else {"SubscriptionArn": arn}
    for action in ("Unsubscribe", "GetSubscriptionAttributes", "SetSubscriptionAttributes"):
        assert await rig.refusal(action, **params, AttributeName="RawMessageDelivery") == refusal


@pytest.mark.spec("consent.unsubscribe-absent")
async def test_unsubscribing_an_absent_subscription_succeeds(rig: Rig) -> None:
    for caller in (unsigned(), call(ACCOUNT)):
        assert await rig.by(caller, "Unsubscribe", SubscriptionArn=f"arn:aws:sns:{REGION}:{ACCOUNT}:t:{UUID}") == {}


@pytest.mark.spec("consent.unsubscribe-pending")
@pytest.mark.parametrize("caller", [unsigned(), call(ACCOUNT)], ids=["unsigned", "owner"])
async def test_a_pending_subscription_cannot_be_removed(rig: Rig, topic: str, caller: Call) -> None:
    arn, _ = await rig.pending(topic)
    assert (await rig.refusal("Unsubscribe", caller, SubscriptionArn=arn))[0] == "InvalidParameter"
    assert await rig.listed(topic) == ["PendingConfirmation"]


@pytest.mark.spec("consent.unsubscribe-owner")
async def test_the_owner_removes_silently(rig: Rig, topic: str) -> None:
    arn, _ = await rig.confirmed(topic)
    await rig("Unsubscribe", SubscriptionArn=arn)
    await rig("Unsubscribe", SubscriptionArn=arn)
    assert rig.queue.take() == []
    assert await rig.listed(topic) == []
    assert await rig.refusal("GetSubscriptionAttributes", SubscriptionArn=arn) == NO_SUBSCRIPTION
    assert (await rig.pending(topic))[0] != arn


@pytest.mark.spec("consent.unsubscribe-unsigned", "consent.restored", "subscribing.in-lists")
@pytest.mark.parametrize("caller", [unsigned(), unsigned_without_auth()], ids=["unsigned", "no auth"])
async def test_the_link_removes_and_its_confirmation_restores(rig: Rig, topic: str, caller: Call) -> None:
    arn, _ = await rig.confirmed(topic, RawMessageDelivery="true")
    assert caller.region not in arn, "an unsigned call names no region"
    await rig.by(caller, "Unsubscribe", SubscriptionArn=arn)
    job = rig.confirmation()
    assert (job.kind, job.subscription) == ("UnsubscribeConfirmation", arn)
    assert (job.topic, job.base_url) == (topic, BASE_URL)
    assert await rig.listed(topic) == ["Deleted"]
    described = (await rig("GetTopicAttributes", TopicArn=topic))["Attributes"]
    assert (described["SubscriptionsConfirmed"], described["SubscriptionsDeleted"]) == ("0", "1")
    await rig("Publish", TopicArn=topic, Message="m")
    await rig.by(caller, "Unsubscribe", SubscriptionArn=arn)
    assert rig.queue.take() == []
    assert (await rig.attributes(arn))["PendingConfirmation"] == "false"

    assert [await rig.confirm(topic, job.token)] == await rig.listed(topic) == [arn]
    assert (await rig.attributes(arn))["RawMessageDelivery"] == "true"


async def test_an_endpoint_removed_by_link_can_subscribe_again(rig: Rig, topic: str) -> None:
    arn, _ = await rig.confirmed(topic)
    await rig.by(unsigned(), "Unsubscribe", SubscriptionArn=arn)
    rig.queue.take()
    again, token = await rig.pending(topic)
    assert again == arn
    assert await rig.listed(topic) == ["Deleted"]
    await rig.confirm(topic, token)
    assert await rig.listed(topic) == [arn]


@pytest.mark.spec("consent.unsubscribe-protected")
async def test_a_link_does_not_remove_another_account_s_queue(rig: Rig, topic: str) -> None:
    other = await rig.subscribe(topic, "sqs", queue_arn(OTHER))
    await rig.confirm(topic, rig.confirmation().token)
    assert await rig.refusal("Unsubscribe", unsigned(), SubscriptionArn=other) == AUTHORIZED_ONLY
    await rig.by(call(OTHER), "Unsubscribe", SubscriptionArn=other)
    assert rig.confirmation().kind == "UnsubscribeConfirmation"


async def test_the_topic_owner_removes_a_subscription_of_another(rig: Rig, topic: str) -> None:
    await rig.open_to_all(topic, "sns:Subscribe")
    members = {"TopicArn": topic, "Protocol": "sqs", "Endpoint": queue_arn(OTHER)}
    arn = (await rig.by(call(OTHER), "Subscribe", **members))["SubscriptionArn"]
    assert await rig.refusal("Unsubscribe", call("333333333333"), SubscriptionArn=arn) == AUTHORIZED_ONLY
    await rig("Unsubscribe", SubscriptionArn=arn)
    token = rig.confirmation().token
    assert await rig.listed(topic) == ["Deleted"]
    assert (await rig.attributes(arn, OTHER))["ConfirmationWasAuthenticated"] == "true"
    await rig.confirm(topic, token)
    assert await rig.listed(topic) == [arn]
