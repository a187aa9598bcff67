"""Subscription attributes: accepted values and their stored form, and refusals with their texts."""

from __future__ import annotations

import json

import msgspec
import pytest

from cns.subscriptions.attributes import check_change, check_new, describe, differs
from cns.subscriptions.subscription import Subscription, SubscriptionState
from cns_common.errors import RequestError
from tests.unit.sns.refusals import complaint_of

DEAD_LETTERS = "arn:aws:sqs:eu-west-1:111111111111:dead"
REDRIVE = f'{{"deadLetterTargetArn":"{DEAD_LETTERS}"}}'
REPLAY = {"PointType": "Timestamp", "StartingPoint": "2026-01-01T00:00:00.000Z"}
RETRIES = {"minDelayTarget": 1, "maxDelayTarget": 1, "numRetries": 1}


def subscription(protocol: str = "https", **attributes: str) -> Subscription:
    return Subscription(
        id="6ab180b4-f6c7-4ab5-8747-757d1d466e12",
        topic_arn="arn:aws:sns:eu-west-1:222222222222:t",
        topic_id="1",
        owner="111111111111",
        principal="arn:aws:iam::111111111111:root",
        protocol=protocol,
        endpoint="https://user:secret@example.com/",
        state=SubscriptionState.CONFIRMED,
        created_ms=0,
        attributes=attributes,
    )


def to_queue(topic: str, queue: str) -> Subscription:
    one = subscription("sqs")
    return msgspec.structs.replace(one, topic_arn=one.topic_arn + topic, endpoint=f"arn:aws:sqs:eu-west-1:1:q{queue}")


@pytest.mark.parametrize(
    ("name", "text", "stored"),
    [
        ("RawMessageDelivery", "true", "true"),
        ("RawMessageDelivery", "False", "false"),
        ("RedrivePolicy", REDRIVE, REDRIVE),
        ("RedrivePolicy", f'{{ "deadLetterTargetArn" : "{DEAD_LETTERS}" }}', REDRIVE),
        ("RedrivePolicy", f'{{"deadLetterTargetArn":"{DEAD_LETTERS}.fifo"}}', REDRIVE.replace(":dead", ":dead.fifo")),
        ("RedrivePolicy", "", ""),
        ("DeliveryPolicy", "", ""),
        ("FilterPolicy", "", ""),
        ("FilterPolicy", "{}", ""),
        ("FilterPolicy", '{ "a": ["b"] }', '{"a":["b"]}'),
        ("FilterPolicyScope", "MessageBody", "MessageBody"),
        ("ReplayPolicy", "", ""),
        ("ReplayPolicy", json.dumps(REPLAY), json.dumps(REPLAY)),
    ],
)
def test_attributes_taken(name: str, text: str, stored: str) -> None:
    assert check_change(subscription(), name, text) == {name: stored}
    assert check_new(subscription(), {name: text}) == {name: stored}


def no_name(character: str, code: int, column: int = 2) -> str:
    """As recorded from AWS, whose parser is Jackson."""
    return (
        f"Unexpected character ('{character}' (code {code})): was expecting double-quote to start field name\n at "
        f"[Source: REDACTED (`StreamReadFeature.INCLUDE_SOURCE_IN_LOCATION` disabled); line: 1, column: {column}]"
    )


@pytest.mark.spec("filter.scope-values")
@pytest.mark.spec(
    "subscription-attr.raw",
    "subscription-attr.redrive-arn",
    "subscription-attr.redrive-json",
    "subscription-attr.read-only",
    "subscription-attr.prefix",
    "replay.read-only",
)
@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("fake", "x", "AttributeName"),
        ("Owner", "1", "AttributeName"),
        ("PendingConfirmation", "false", "AttributeName"),
        ("EffectiveDeliveryPolicy", "{}", "AttributeName"),
        ("RawMessageDelivery", "wrongvalue", "RawMessageDelivery: Invalid value [wrongvalue]. Must be true or false."),
        ("RawMessageDelivery", "", "RawMessageDelivery: Invalid value []. Must be true or false."),
        ("RedrivePolicy", "{invalidjson}", f"RedrivePolicy: failed to parse JSON. {no_name('i', 105)}"),
        (
            "RedrivePolicy",
            '{"deadLetterTargetArn":7,}',
            f"RedrivePolicy: failed to parse JSON. {no_name('}', 125, 26)}",
        ),
        ("RedrivePolicy", '"\ud800"', "RedrivePolicy: failed to parse JSON. A lone surrogate is not text"),
        (
            "RedrivePolicy",
            "[" * 5000 + "]" * 5000,
            "RedrivePolicy: failed to parse JSON. Document nesting depth (1001) exceeds the maximum allowed (1000, "
            "from `StreamReadConstraints.getMaxNestingDepth()`)",
        ),
        ("RedrivePolicy", "[]", "RedrivePolicy: Missing deadLetterTargetArn attribute"),
        ("RedrivePolicy", "{}", "RedrivePolicy: Missing deadLetterTargetArn attribute"),
        (
            "RedrivePolicy",
            '{"deadLetterTargetArn":"fake","maxReceiveCount":5}',
            "RedrivePolicy: invalid JSON. Attribute maxReceiveCount is unknown.",
        ),
        ("RedrivePolicy", '{"deadLetterTargetArn":7}', "RedrivePolicy: deadLetterTargetArn is an invalid arn"),
        ("RedrivePolicy", '{"deadLetterTargetArn":"fake"}', "RedrivePolicy: deadLetterTargetArn is an invalid arn"),
        (
            "RedrivePolicy",
            REDRIVE.replace("111111111111", "222222222222"),
            "RedrivePolicy: deadLetterTargetArn is an invalid arn",
        ),
        (
            "RedrivePolicy",
            REDRIVE.replace("eu-", "us-"),
            "RedrivePolicy: deadLetterTargetArn must be in the same region as the subscription",
        ),
        ("RedrivePolicy", REDRIVE.replace("sqs", "sns"), "RedrivePolicy: deadLetterTargetArn must be a SQS queue"),
        ("DeliveryPolicy", "x", "DeliveryPolicy: failed to parse JSON."),
        (
            "FilterPolicy",
            '{"a":{"b":["c"]}}',
            "Filter policy scope MessageAttributes does not support nested filter policy",
        ),
        (
            "FilterPolicyScope",
            "Body",
            "FilterPolicyScope: Invalid value [Body]. Please use either MessageBody or MessageAttributes",
        ),
        ("ReplayPolicy", "x", "ReplayPolicy: Unable to parse JSON"),
        ("ReplayStatus", "Completed", "AttributeName"),
    ],
)
def test_attributes_refused(name: str, text: str, complaint: str) -> None:
    assert complaint_of(check_change, subscription(), name, text) == complaint
    assert complaint_of(check_new, subscription(), {name: text}) == f"Attributes Reason: {complaint}"


@pytest.mark.parametrize("protocol", ["http", "https", "sqs", "firehose", "redis"])
def test_protocols_that_can_do_without_an_envelope(protocol: str) -> None:
    assert check_change(subscription(protocol), "RawMessageDelivery", "true") == {"RawMessageDelivery": "true"}


@pytest.mark.spec("subscription-attr.raw-protocols")
@pytest.mark.parametrize("protocol", ["lambda", "email", "email-json", "sms", "application"])
def test_protocols_that_cannot(protocol: str) -> None:
    complaint = f"Delivery protocol [{protocol}] does not support raw message delivery."
    assert complaint_of(check_change, subscription(protocol), "RawMessageDelivery", "True") == complaint
    assert (
        complaint_of(check_new, subscription(protocol), {"RawMessageDelivery": "true"})
        == f"Attributes Reason: {complaint}"
    )
    assert check_change(subscription(protocol), "RawMessageDelivery", "false") == {"RawMessageDelivery": "false"}


@pytest.mark.spec("subscription-attr.redrive-fifo")
@pytest.mark.parametrize(
    ("topic", "queue", "dead", "complaint"),
    [
        ("", "", "", ""),
        ("", "", ".fifo", ""),
        (".fifo", "", "", ""),
        (".fifo", ".fifo", ".fifo", ""),
        (".fifo", ".fifo", "", "must use a FIFO queue as DLQ for a FIFO Subscription to a FIFO Topic."),
        (".fifo", "", ".fifo", "must use a Standard queue as DLQ for a Standard Subscription to a FIFO Topic."),
    ],
)
def test_dead_letters_of_fifo_topics_go_to_a_queue_of_the_endpoint_s_kind(
    topic: str, queue: str, dead: str, complaint: str
) -> None:
    policy = REDRIVE.replace(":dead", f":dead{dead}")
    if not complaint:
        assert check_change(to_queue(topic, queue), "RedrivePolicy", policy) == {"RedrivePolicy": policy}
        return
    assert complaint_of(check_change, to_queue(topic, queue), "RedrivePolicy", policy) == f"RedrivePolicy: {complaint}"


@pytest.mark.spec("subscription-attr.role")
def test_a_role_is_one_s_arn() -> None:
    role = "arn:aws:iam::111111111111:role/service/sns"
    assert check_change(subscription("firehose"), "SubscriptionRoleArn", role) == {"SubscriptionRoleArn": role}
    assert describe(subscription("firehose", SubscriptionRoleArn=role), None)["SubscriptionRoleArn"] == role
    assert complaint_of(check_new, subscription("firehose"), {"SubscriptionRoleArn": "sns"}) == (
        "Attributes Reason: SubscriptionRoleArn: sns is not a valid role to be assumed by SNS"
    )


@pytest.mark.spec("subscription-attr.delivery-policy")
def test_queues_have_no_delivery_policy() -> None:
    assert (
        complaint_of(check_change, subscription("sqs"), "DeliveryPolicy", "{}")
        == "DeliveryPolicy: can only be set for HTTP and HTTPS subscriptions"
    )


def test_the_content_type_is_judged_by_raw_delivery_in_whatever_order_they_are_sent() -> None:
    policy = json.dumps({"healthyRetryPolicy": RETRIES, "requestPolicy": {"headerContentType": "text/html"}})
    stored = check_new(subscription(), {"DeliveryPolicy": policy, "RawMessageDelivery": "true"})
    assert "text/html" in stored["DeliveryPolicy"]
    with pytest.raises(RequestError):
        check_new(subscription(), {"DeliveryPolicy": policy})
    check_change(subscription(RawMessageDelivery="true"), "DeliveryPolicy", policy)
    with pytest.raises(RequestError):
        check_change(subscription(), "DeliveryPolicy", policy)


@pytest.mark.parametrize(
    ("own", "wanted", "different"),
    [
        ({}, {}, False),
        ({}, {"RawMessageDelivery": "false"}, False),
        ({}, {"RawMessageDelivery": "true"}, True),
        ({"RawMessageDelivery": "true"}, {}, False),
        ({"RedrivePolicy": REDRIVE}, {"RedrivePolicy": ""}, True),
        ({}, {"RedrivePolicy": ""}, False),
    ],
)
def test_only_what_is_sent_is_compared(own: dict[str, str], wanted: dict[str, str], different: bool) -> None:
    assert differs(subscription(**own), wanted) is different


def test_what_a_queue_subscription_shows() -> None:
    described = describe(subscription("sqs", RawMessageDelivery="true", RedrivePolicy=REDRIVE), None)
    assert "EffectiveDeliveryPolicy" not in described
    assert (described["RawMessageDelivery"], described["RedrivePolicy"]) == ("true", REDRIVE)
