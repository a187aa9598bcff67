"""Subscribe through the API, protocol by protocol: requirements of endpoint, topic and attributes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.sns.cns_support import ACCOUNT, OTHER, REGION, Rig, call, invalid, queue_arn
from tests.marks import case

FUNCTION = f"arn:aws:lambda:{REGION}:{{}}:function:f"
STREAM = f"arn:aws:firehose:{REGION}:{{}}:deliverystream/s"
ROLE = "arn:aws:iam::{}:role/sns"
FIFO = {"FifoTopic": "true"}
NO_ROLE = invalid("Delivery protocol firehose can only be subscribed with subscription role arn")
OF_ANOTHER = ("AuthorizationError", "Cross-account pass role is not allowed.")
PRIVATE = ("AuthorizationError", "10.0.0.1 is private")


def role(account: str = ACCOUNT) -> dict[str, str]:
    return {"SubscriptionRoleArn": ROLE.format(account)}


@pytest.mark.parametrize(
    ("params", "refusal"),
    [
        case(
            "subscribing.endpoint-sms",
            {"Protocol": "sms", "Endpoint": "call me"},
            ("InvalidParameter", "Invalid SMS endpoint: call me"),
        ),
        (
            {"Protocol": "http", "Endpoint": "http://10.0.0.1/", "Attributes": {"RawMessageDelivery": "x"}},
            invalid("Attributes Reason: RawMessageDelivery: Invalid value [x]. Must be true or false."),
        ),
        case("subscribing.private-address", {"Protocol": "http", "Endpoint": "http://10.0.0.1/"}, PRIVATE),
        case("subscribing.private-address", {"Protocol": "redis", "Endpoint": "redis://10.0.0.1/c"}, PRIVATE),
        case("subscribing.firehose-role", {"Protocol": "firehose", "Endpoint": STREAM.format(ACCOUNT)}, NO_ROLE),
        case(
            "subscribing.firehose-owner",
            {"Protocol": "firehose", "Endpoint": STREAM.format(OTHER), "Attributes": role()},
            (
                "AuthorizationError",
                f"The account {ACCOUNT} is not the owner of the endpoint {STREAM.format(OTHER)}",
            ),
        ),
        case(
            "subscribing.firehose-owner",
            {"Protocol": "firehose", "Endpoint": STREAM.format(OTHER), "Attributes": role(OTHER)},
            OF_ANOTHER,
        ),
    ],
)
async def test_refusals(rig: Rig, topic: str, params: dict[str, Any], refusal: tuple[str, str]) -> None:
    assert await rig.refusal("Subscribe", TopicArn=topic, **params) == refusal
    assert await rig.listed(topic) == []


@pytest.mark.spec("subscribing.firehose-role")
async def test_the_role_of_a_stream_can_be_changed_but_not_removed(rig: Rig, topic: str) -> None:
    arn = await rig.subscribe(topic, "firehose", STREAM.format(ACCOUNT), **role())
    await rig.set(arn, "SubscriptionRoleArn", ROLE.format(ACCOUNT) + "-2")
    assert (await rig.attributes(arn))["SubscriptionRoleArn"] == ROLE.format(ACCOUNT) + "-2"
    assert await rig.refused_set(arn, "SubscriptionRoleArn", "") == NO_ROLE
    assert await rig.refused_set(arn, "SubscriptionRoleArn", ROLE.format(OTHER)) == OF_ANOTHER


@pytest.mark.spec("subscribing.order")
@pytest.mark.parametrize(
    ("params", "refusal"),
    [
        ({"TopicArn": "x", "Protocol": "fax"}, invalid("TopicArn Reason: An ARN must have at least 6 elements, not 1")),
        ({"TopicArn": f"arn:aws:sns:xx-east-1:{ACCOUNT}:t", "Protocol": "fax"}, invalid("TopicArn")),
        (
            {"TopicArn": f"arn:aws:sns:{REGION}:{ACCOUNT}:absent", "Protocol": "fax"},
            ("NotFound", "Topic does not exist"),
        ),
        ({"Protocol": "fax"}, invalid("Endpoint Reason: no value for required parameter")),
        ({"Protocol": "fax", "Endpoint": "e"}, invalid("Amazon SNS does not support this protocol string: fax")),
        ({"Protocol": "lambda", "Endpoint": "e"}, invalid("Lambda endpoint ARN")),
        (
            {"Protocol": "lambda", "Endpoint": FUNCTION.format(ACCOUNT), "Attributes": {"fake": "1"}},
            invalid("Invalid protocol type: lambda"),
        ),
        (
            {"Protocol": "sqs", "Endpoint": queue_arn(ACCOUNT), "Attributes": {"fake": "1"}},
            invalid("Attributes Reason: AttributeName"),
        ),
        (
            {"Protocol": "sqs", "Endpoint": queue_arn(ACCOUNT), "Attributes": {"RawMessageDelivery": "true"}},
            invalid("Attributes Reason: Subscription already exists with different attributes"),
        ),
    ],
)
async def test_checks_are_in_the_order_of_aws(rig: Rig, params: dict[str, Any], refusal: tuple[str, str]) -> None:
    """Each case also has all faults that are checked later."""
    topic = await rig.topic("t.fifo", **FIFO)
    await rig.queue_subscription(topic)
    assert await rig.refusal("Subscribe", **{"TopicArn": topic, **params}) == refusal


@pytest.mark.spec("subscribing.fifo-topic")
async def test_fifo_topics_deliver_to_queues_alone(rig: Rig) -> None:
    topic = await rig.topic("t.fifo", **FIFO)
    for name in ("q.fifo", "q"):
        assert (await rig.queue_subscription(topic, name)).startswith(topic)
    for protocol, endpoint in (
        ("lambda", FUNCTION.format(ACCOUNT)),
        ("sms", "+15551234567"),
        ("https", "https://example.com/"),
        ("email", "me@example.com"),
        ("redis", "redis://localhost/c"),
    ):
        params = {"TopicArn": topic, "Protocol": protocol, "Endpoint": endpoint}
        assert await rig.refusal("Subscribe", **params) == invalid(f"Invalid protocol type: {protocol}")


async def test_without_auth_a_stream_may_have_any_account(rig: Rig, topic: str) -> None:
    """Without authentication, tests use any account."""
    caller = call(ACCOUNT, enforced=False)
    members = {"TopicArn": topic, "Protocol": "firehose", "Endpoint": STREAM.format(OTHER), "Attributes": role(OTHER)}
    assert (await rig.by(caller, "Subscribe", **members))["SubscriptionArn"] == "pending confirmation"


async def test_phone_numbers_that_are_the_same_are_one_subscription(rig: Rig, topic: str) -> None:
    arn = await rig.subscribe(topic, "sms", "+1-555-123-4567")
    assert await rig.subscribe(topic, "sms", "+15551234567") == arn
    assert (await rig.attributes(arn))["Endpoint"] == "+15551234567"


@pytest.mark.spec("subscribing.credentials-masked")
async def test_passwords_of_redis_are_masked_too(rig: Rig) -> None:
    arn = await rig.subscribe(await rig.topic(), "redis", "redis://user:secret@localhost/c")
    assert (await rig.attributes(arn))["Endpoint"] == "redis://user:****@localhost/c"


@pytest.mark.spec("subscribing.unreachable")
async def test_a_subscription_that_exists_needs_no_listener(rig: Rig, topic: str) -> None:
    arn, _ = await rig.confirmed(topic, "http://example.com/hook")
    rig.unreachable = "example.com"
    assert await rig.subscribe(topic, "http", "http://example.com/hook") == arn
    asked = {"TopicArn": topic, "Protocol": "http", "Endpoint": "http://example.com/other"}
    assert await rig.refusal("Subscribe", **asked) == invalid("Unreachable Endpoint")
