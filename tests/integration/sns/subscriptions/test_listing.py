"""Subscriptions in lists and attributes, through the API."""

from __future__ import annotations

import json

import pytest

from tests.integration.sns.cns_support import ACCOUNT, Rig, invalid, queue_arn
from tests.marks import case

UUID = "6ab180b4-f6c7-4ab5-8747-757d1d466e12"
NO_SUBSCRIPTION = ("NotFound", "Subscription does not exist")


@pytest.mark.spec("subscription-attr.redrive-removed", "subscription-attr.read-only")
async def test_attributes_are_set_one_by_one(rig: Rig, topic: str) -> None:
    arn = await rig.queue_subscription(topic)
    redrive = json.dumps({"deadLetterTargetArn": queue_arn(ACCOUNT, "dead")}, separators=(",", ":"))
    changes = {"RawMessageDelivery": "true", "RedrivePolicy": redrive}
    for name, text in changes.items():
        await rig.set(arn, name, text)
    assert changes.items() <= (await rig.attributes(arn)).items()
    await rig.set(arn, "RedrivePolicy", "")
    assert "RedrivePolicy" not in await rig.attributes(arn)
    assert await rig.refused_set(arn, "fake", "x") == invalid("AttributeName")
    assert await rig.refused_set(f"{topic}:{UUID}", "fake") == NO_SUBSCRIPTION


RETRIES = '{"healthyRetryPolicy":{"minDelayTarget":1,"maxDelayTarget":20,"numRetries":101}}'
NOT_FOR_QUEUES = "DeliveryPolicy: can only be set for HTTP and HTTPS subscriptions"
TOO_MANY = "DeliveryPolicy: healthyRetryPolicy.numRetries must be less than or equal to 100"
NO_TEXT = (
    "FilterPolicy: suffix match pattern must be a string\n"
    ' at [Source: (String)"{"key":[{"suffix":100}]}"; line: 1, column: 22]'
)


@pytest.mark.parametrize(
    ("protocol", "name", "text", "complaint"),
    [
        case("sns-policy-http.prefix", "https", "DeliveryPolicy", RETRIES, TOO_MANY),
        case("sns-policy-http.other-protocols", "sqs", "DeliveryPolicy", RETRIES, NOT_FOR_QUEUES),
        case(
            "replay.form",
            "sqs",
            "ReplayPolicy",
            '{"PointType":"Timestamp"}',
            "ReplayPolicy: JSON is missing required fields",
        ),
        case("filter-text.location", "sqs", "FilterPolicy", '{ "key": [ {"suffix": 100} ] }', NO_TEXT),
    ],
)
async def test_values_refused(rig: Rig, topic: str, protocol: str, name: str, text: str, complaint: str) -> None:
    endpoint = queue_arn(ACCOUNT) if protocol == "sqs" else "https://example.com/"
    arn = await rig.subscribe(topic, protocol, endpoint)
    assert await rig.refused_set(arn, name, text) == invalid(complaint)
    members = {"TopicArn": topic, "Protocol": protocol, "Endpoint": endpoint + "2", "Attributes": {name: text}}
    assert await rig.refusal("Subscribe", **members) == invalid(f"Attributes Reason: {complaint}")


@pytest.mark.spec("subscribing.credentials-masked")
async def test_passwords_are_masked(rig: Rig, topic: str) -> None:
    arn, _ = await rig.pending(topic, "https://user:secret@example.com/")
    shown = "https://user:****@example.com/"
    assert (await rig.attributes(arn))["Endpoint"] == shown
    for page in (await rig("ListSubscriptions"), await rig("ListSubscriptionsByTopic", TopicArn=topic)):
        assert [member["Endpoint"] for member in page["Subscriptions"]] == [shown]
    (stored,) = await rig.subscriptions.get([arn])
    assert stored.endpoint == "https://user:secret@example.com/"


@pytest.mark.spec("subscription-attr.raw")
async def test_raw_delivery_is_off_unless_it_is_set(rig: Rig) -> None:
    arn = await rig.queue_subscription(await rig.topic())
    assert (await rig.attributes(arn))["RawMessageDelivery"] == "false"
    await rig.set(arn, "RawMessageDelivery", "TRUE")
    assert (await rig.attributes(arn))["RawMessageDelivery"] == "true"
