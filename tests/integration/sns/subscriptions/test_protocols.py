"""Subscribe through the API, protocol by protocol: confirmation, and unsubscribing."""

from __future__ import annotations

import re

import pytest

from tests.integration.sns.cns_support import (
    ACCOUNT,
    AUTHORIZED_ONLY,
    OTHER,
    REGION,
    Rig,
    invalid,
    queue_arn,
    unsigned,
    unsigned_without_auth,
)
from tests.marks import case

FUNCTION = f"arn:aws:lambda:{REGION}:{{}}:function:f"
STREAM = f"arn:aws:firehose:{REGION}:{{}}:deliverystream/s"
ROLE = "arn:aws:iam::{}:role/sns"


async def phone(rig: Rig) -> str:
    given = {"PlatformCredential": "key"}
    made = await rig("CreatePlatformApplication", Name="app", Platform="GCM", Attributes=given)
    application = made["PlatformApplicationArn"]
    endpoint = await rig("CreatePlatformEndpoint", PlatformApplicationArn=application, Token="token")
    return str(endpoint["EndpointArn"])


def role(account: str = ACCOUNT) -> dict[str, str]:
    return {"SubscriptionRoleArn": ROLE.format(account)}


@pytest.mark.spec("subscribing.auto-confirmed", "subscribing.arn", "subscribing.returned", "subscribing.protocols")
@pytest.mark.spec("consent.unsubscribe-protected")
@pytest.mark.parametrize(
    ("protocol", "endpoint", "attributes"),
    [
        ("sqs", queue_arn(ACCOUNT), {}),
        case("subscribing.protocol-unknown", "cqs", queue_arn(ACCOUNT), {}),
        ("lambda", FUNCTION.format(ACCOUNT), {}),
        ("firehose", STREAM.format(ACCOUNT), role()),
        ("sms", "+15551234567", {}),
        ("redis", "redis://localhost:6379/events", {}),
    ],
)
async def test_endpoints_of_the_account_need_no_confirmation(
    rig: Rig, topic: str, protocol: str, endpoint: str, attributes: dict[str, str]
) -> None:
    """Nor have they a link that removes them: that takes a signature."""
    params = {"TopicArn": topic, "Protocol": protocol, "Endpoint": endpoint, "Attributes": attributes}
    arn = (await rig("Subscribe", **params))["SubscriptionArn"]
    assert re.fullmatch(re.escape(topic) + r":[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", arn)
    assert rig.queue.take() == []
    described = await rig.attributes(arn)
    assert (described["PendingConfirmation"], described["ConfirmationWasAuthenticated"]) == ("false", "true")
    assert (described["Protocol"], described["Endpoint"]) == (protocol.replace("cqs", "sqs"), endpoint)
    assert described["SubscriptionPrincipal"] == f"arn:aws:iam::{ACCOUNT}:root"
    assert await rig.listed(topic) == [arn]
    for caller in (unsigned(), unsigned_without_auth()):
        assert await rig.refusal("Unsubscribe", caller, SubscriptionArn=arn) == AUTHORIZED_ONLY
    await rig("Unsubscribe", SubscriptionArn=arn)
    assert await rig.listed(topic) == []


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


@pytest.mark.spec("subscribing.asked", "subscribing.protocols", "consent.unsubscribe-unsigned")
@pytest.mark.parametrize(
    ("protocol", "endpoint", "has_link"),
    [
        ("http", "http://example.com/", True),
        ("https", "https://example.com/", True),
        ("email", "me@example.com", True),
        ("email-json", "me@example.com", True),
        ("lambda", FUNCTION.format(OTHER), False),
    ],
)
async def test_other_endpoints_must_confirm(rig: Rig, topic: str, protocol: str, endpoint: str, has_link: bool) -> None:
    result = await rig("Subscribe", TopicArn=topic, Protocol=protocol, Endpoint=endpoint)
    assert result["SubscriptionArn"] == "pending confirmation"
    job = rig.confirmation()
    assert job.kind == "SubscriptionConfirmation"
    assert [await rig.confirm(topic, job.token)] == await rig.listed(topic) == [job.subscription]
    if has_link:
        await rig.by(unsigned(), "Unsubscribe", SubscriptionArn=job.subscription)
        assert rig.confirmation().kind == "UnsubscribeConfirmation"
        assert await rig.listed(topic) == ["Deleted"]
