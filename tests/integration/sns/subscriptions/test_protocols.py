"""Subscribe through the API, protocol by protocol: confirmation, and unsubscribing."""

from __future__ import annotations

import pytest

from tests.integration.sns.cns_support import ACCOUNT, OTHER, REGION, Rig, invalid, queue_arn, unsigned

FUNCTION = f"arn:aws:lambda:{REGION}:{{}}:function:f"
STREAM = f"arn:aws:firehose:{REGION}:{{}}:deliverystream/s"
ROLE = "arn:aws:iam::{}:role/sns"
FIFO = {"FifoTopic": "true"}


async def phone(rig: Rig) -> str:
    given = {"PlatformCredential": "key"}
    made = await rig("CreatePlatformApplication", Name="app", Platform="GCM", Attributes=given)
    application = made["PlatformApplicationArn"]
    endpoint = await rig("CreatePlatformEndpoint", PlatformApplicationArn=application, Token="token")
    return str(endpoint["EndpointArn"])


def role(account: str = ACCOUNT) -> dict[str, str]:
    return {"SubscriptionRoleArn": ROLE.format(account)}


@pytest.mark.spec("subscribing.auto-confirmed", "subscribing.protocols")
@pytest.mark.parametrize(
    ("protocol", "endpoint", "attributes"),
    [
        ("sqs", queue_arn(ACCOUNT), {}),
        ("lambda", FUNCTION.format(ACCOUNT), {}),
        ("firehose", STREAM.format(ACCOUNT), role()),
        ("sms", "+15551234567", {}),
        ("redis", "redis://localhost:6379/events", {}),
    ],
)
async def test_endpoints_of_the_account_need_no_confirmation(
    rig: Rig, protocol: str, endpoint: str, attributes: dict[str, str]
) -> None:
    topic = await rig.topic()
    params = {"TopicArn": topic, "Protocol": protocol, "Endpoint": endpoint, "Attributes": attributes}
    arn = (await rig("Subscribe", **params))["SubscriptionArn"]
    assert arn.startswith(f"{topic}:")
    assert rig.queue.take() == []
    described = await rig.attributes(arn)
    assert (described["PendingConfirmation"], described["ConfirmationWasAuthenticated"]) == ("false", "true")
    assert (described["Protocol"], described["Endpoint"]) == (protocol, endpoint)
    assert await rig.listed(topic) == [arn]


@pytest.mark.spec("subscribing.auto-confirmed", "subscribing.application-exists")
async def test_a_mobile_endpoint_must_exist(rig: Rig) -> None:
    topic, endpoint = await rig.topic(), await phone(rig)
    arn = await rig.subscribe(topic, "application", endpoint)
    assert (await rig.attributes(arn))["PendingConfirmation"] == "false"
    await rig("DeleteEndpoint", EndpointArn=endpoint)
    other = await rig.topic("another")
    assert await rig.refusal("Subscribe", TopicArn=other, Protocol="application", Endpoint=endpoint) == invalid(
        f"Endpoint Reason: Endpoint does not exist for endpoint arn{endpoint}"
    )


@pytest.mark.spec("subscribing.asked", "subscribing.protocols")
@pytest.mark.parametrize(
    ("protocol", "endpoint"),
    [
        ("http", "http://example.com/"),
        ("https", "https://example.com/"),
        ("email", "me@example.com"),
        ("email-json", "me@example.com"),
        ("lambda", FUNCTION.format(OTHER)),
    ],
)
async def test_other_endpoints_must_confirm(rig: Rig, protocol: str, endpoint: str) -> None:
    topic = await rig.topic()
    result = await rig("Subscribe", TopicArn=topic, Protocol=protocol, Endpoint=endpoint)
    assert result["SubscriptionArn"] == "pending confirmation"
    job = rig.confirmation()
    assert job.kind == "SubscriptionConfirmation"
    await rig.by(unsigned(), "ConfirmSubscription", TopicArn=topic, Token=job.token)
    assert await rig.listed(topic) == [job.subscription]


@pytest.mark.spec("consent.unsubscribe-unsigned")
@pytest.mark.parametrize("protocol", ["email", "email-json"])
async def test_the_link_in_a_mail_needs_no_signature(rig: Rig, protocol: str) -> None:
    topic = await rig.topic()
    arn = await rig.subscribe(topic, protocol, "me@example.com")
    await rig.by(unsigned(), "ConfirmSubscription", TopicArn=topic, Token=rig.confirmation().token)
    await rig.by(unsigned(), "Unsubscribe", SubscriptionArn=arn)
    assert rig.confirmation().kind == "UnsubscribeConfirmation"
    assert await rig.listed(topic) == ["Deleted"]


@pytest.mark.spec("consent.unsubscribe-protected")
@pytest.mark.parametrize(
    ("protocol", "endpoint"), [("sms", "+15551234567"), ("lambda", FUNCTION.format(ACCOUNT)), ("redis", "redis://h/c")]
)
async def test_endpoints_without_links_are_removed_by_signature(rig: Rig, protocol: str, endpoint: str) -> None:
    topic = await rig.topic()
    arn = await rig.subscribe(topic, protocol, endpoint)
    code, text = await rig.refusal("Unsubscribe", unsigned(), SubscriptionArn=arn)
    assert (code, text) == (
        "AuthorizationError",
        "This subscription may only be deleted by an authorized user.",
    )
    await rig("Unsubscribe", SubscriptionArn=arn)
    assert await rig.listed(topic) == []
