"""Attributes of topics through botocore: returned, accepted, refused and removed values."""

from __future__ import annotations

import json

import pytest

from tests.integration.sns.cns_support import ACCOUNT, queue_arn
from tests.integration.sns.sns_door import SnsDoor, invalid
from tests.marks import case

spec = pytest.mark.spec
DEFAULT_DELIVERY = (
    '{"http":{"defaultHealthyRetryPolicy":{"minDelayTarget":20,"maxDelayTarget":20,"numRetries":3,'
    '"numMaxDelayRetries":0,"numNoDelayRetries":0,"numMinDelayRetries":0,"backoffFunction":"linear"},'
    '"disableSubscriptionOverrides":false,'
    '"defaultRequestPolicy":{"headerContentType":"text/plain; charset=UTF-8"}}}'
)
MISSPELT = '{"Statement":{"Effect":"allow","Principal":"*","Action":"sns:Publish","Resource":"*"}}'
ROLE = f"arn:aws:iam::{ACCOUNT}:role/logs"


@spec("sns.order-topic", "sns-topic-attr.display-name-default", "sns-topic-attr.delivery-policy-absent")
@spec("sns-topic-attr.signature-absent", "sns-topic-attr.tracing-absent", "sns-topic-attr.size-absent")
@spec("sns-topic-attr.feedback-rate-absent", "sns-topic-attr.owner", "sns-policy-http.topic-default")
@spec("sns-policy.default")
async def test_attributes_of_a_new_topic(sns: SnsDoor, topic: str) -> None:
    policy = (
        '{"Version":"2008-10-17","Id":"__default_policy_ID","Statement":[{"Sid":"__default_statement_ID",'
        '"Effect":"Allow","Principal":{"AWS":"*"},"Action":["SNS:GetTopicAttributes","SNS:SetTopicAttributes",'
        '"SNS:AddPermission","SNS:RemovePermission","SNS:DeleteTopic","SNS:Subscribe",'
        f'"SNS:ListSubscriptionsByTopic","SNS:Publish"],"Resource":"{topic}",'
        f'"Condition":{{"StringEquals":{{"AWS:SourceOwner":"{ACCOUNT}"}}}}}}]}}'
    )
    reply = await sns.reply("GetTopicAttributes", TopicArn=topic)
    path = "GetTopicAttributesResult/Attributes/entry/"
    assert list(zip(reply.texts(f"{path}key"), reply.texts(f"{path}value"), strict=True)) == [
        ("Policy", policy),
        ("Owner", ACCOUNT),
        ("SubscriptionsPending", "0"),
        ("TopicArn", topic),
        ("EffectiveDeliveryPolicy", DEFAULT_DELIVERY),
        ("SubscriptionsConfirmed", "0"),
        ("DisplayName", ""),
        ("SubscriptionsDeleted", "0"),
    ]


@spec("sns.order-topic")
async def test_the_order_of_attributes(sns: SnsDoor) -> None:
    given = {"SignatureVersion": "2", "KmsMasterKeyId": "k", "TracingConfig": "Active", "DeliveryPolicy": "{}"}
    reply = await sns.reply("GetTopicAttributes", TopicArn=await sns.topic(**given))
    assert reply.texts("GetTopicAttributesResult/Attributes/entry/key") == [
        *("Policy", "SignatureVersion", "Owner", "SubscriptionsPending", "KmsMasterKeyId", "TopicArn", "TracingConfig"),
        *("EffectiveDeliveryPolicy", "SubscriptionsConfirmed", "DisplayName", "DeliveryPolicy", "SubscriptionsDeleted"),
    ]
    fifo = await sns.topic("t.fifo", FifoTopic="true", ArchivePolicy='{"MessageRetentionPeriod":1}')
    assert list(await sns.attributes(fifo)) == [
        "Policy",
        "Owner",
        "SubscriptionsPending",
        "TopicArn",
        "EffectiveDeliveryPolicy",
        "SubscriptionsConfirmed",
        "FifoTopic",
        "BeginningArchiveTime",
        "DisplayName",
        "ContentBasedDeduplication",
        "SubscriptionsDeleted",
        "ArchivePolicy",
    ]


@spec("sns-topic-attr.counts")
async def test_subscriptions_are_counted(sns: SnsDoor, topic: str) -> None:
    await sns.rig.queue_subscription(topic)
    await sns.rig.pending(topic, "https://example.com/1")
    removed, _ = await sns.rig.confirmed(topic, "https://example.com/2")
    await sns.send("GET", "/", query=f"Action=Unsubscribe&SubscriptionArn={removed}")
    shown = await sns.attributes(topic)
    counts = {name: shown[f"Subscriptions{name}"] for name in ("Confirmed", "Pending", "Deleted")}
    assert counts == {"Confirmed": "1", "Pending": "1", "Deleted": "1"}


@spec("sns-topic-attr.display-name", "sns-topic-attr.feedback-roles", "sns-topic-attr.feedback-rate")
async def test_accepted_values(sns: SnsDoor, topic: str) -> None:
    protocols = ("HTTP", "SQS", "Lambda", "Firehose", "Application")
    roles = {f"{each}{end}FeedbackRoleArn": ROLE for each in protocols for end in ("Success", "Failure")}
    given = {"DisplayName": "d" * 100, "HTTPSuccessFeedbackSampleRate": "100", **roles}
    for name, text in given.items():
        await sns.set(topic, name, text)
    for arn in (topic, await sns.topic("created", **given)):
        assert given.items() <= (await sns.attributes(arn)).items()


RETRIES = '{"http":{"defaultHealthyRetryPolicy":{"minDelayTarget":1,"maxDelayTarget":20,"numRetries":101}}}'
SIGNATURE = "SignatureVersion: Invalid value. Must be 1 or 2."
PERIOD = "ArchivePolicy: MessageRetentionPeriod value is invalid"
TOO_MANY = "DeliveryPolicy: http.defaultHealthyRetryPolicy.numRetries must be less than or equal to 100"


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        case("sns-topic-attr.signature-version", "SignatureVersion", "3", SIGNATURE),
        case("sns-topic-attr.read-only", "Owner", "x", "AttributeName"),
        case("archive.refused", "ArchivePolicy", '{"MessageRetentionPeriod":366}', PERIOD),
        case("sns-policy-http.prefix", "DeliveryPolicy", RETRIES, TOO_MANY),
        case("sns-policy.bad-statement", "Policy", MISSPELT, "Policy Error: Effect must be Allow or Deny"),
    ],
)
async def test_values_refused(sns: SnsDoor, name: str, text: str, complaint: str) -> None:
    await sns.refuses_set(invalid(complaint), await sns.topic(), name, text)
    if complaint == "AttributeName":
        complaint = f"Unknown attribute {name}"
    await sns.refuses(invalid(f"Attributes Reason: {complaint}"), "CreateTopic", Name="new", Attributes={name: text})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        case(("sns-topic-attr.delivery-policy-removed", "sns-policy-http.removed"), "DeliveryPolicy", "{}"),
        case("sns-topic-attr.kms-removed", "KmsMasterKeyId", "k"),
    ],
)
async def test_an_empty_text_removes_an_attribute(sns: SnsDoor, name: str, text: str) -> None:
    topic = await sns.topic(**{name: text})
    assert (await sns.attributes(topic))[name] == text
    await sns.set(topic, name, "")
    assert name not in await sns.attributes(topic)
    await sns.set(topic, name, text)
    await sns("SetTopicAttributes", TopicArn=topic, AttributeName=name)
    assert name not in await sns.attributes(topic)


@spec("sns-topic-attr.delivery-policy-as-given")
async def test_a_delivery_policy_is_shown_as_given(sns: SnsDoor) -> None:
    given = {"minDelayTarget": 5, "maxDelayTarget": 6, "numRetries": 1}
    topic = await sns.topic(DeliveryPolicy=json.dumps({"http": {"defaultHealthyRetryPolicy": given}}))
    attributes = await sns.attributes(topic)
    whole = {**given, "numMaxDelayRetries": 0, "numNoDelayRetries": 0, "numMinDelayRetries": 0}
    assert json.loads(attributes["DeliveryPolicy"]) == {
        "http": {"defaultHealthyRetryPolicy": given, "disableSubscriptionOverrides": False}
    }
    assert json.loads(attributes["EffectiveDeliveryPolicy"]) == {
        "http": {
            "defaultHealthyRetryPolicy": {**whole, "backoffFunction": "linear"},
            "disableSubscriptionOverrides": False,
            "defaultRequestPolicy": {"headerContentType": "text/plain; charset=UTF-8"},
        }
    }
    await sns.set(topic, "DeliveryPolicy", '{"http":{"defaultHealthyRetryPolicy":null}}')
    shown = (await sns.attributes(topic))["DeliveryPolicy"]
    assert shown == '{"http":{"disableSubscriptionOverrides":false}}'


@spec("sns-topic-attr.kms-publish")
async def test_a_kms_key_is_not_checked(sns: SnsDoor) -> None:
    topic = await sns.topic(KmsMasterKeyId="alias/absent")
    assert (await sns("Publish", TopicArn=topic, Message="m"))["MessageId"]


# -- large messages ---------------------------------------------------------------------------------------------------

LARGE = "262145"
TOO_LARGE = invalid(
    "MaximumMessageSize: a topic with a value above 262144 must have 100 or fewer subscriptions, each of protocol sqs, "
    "lambda or firehose"
)


@spec("sns-topic-attr.size-subscriptions", "sns-topic-attr.size-subscribe")
async def test_large_messages_are_for_a_hundred_subscriptions(sns: SnsDoor, topic: str) -> None:
    subscriptions = [await sns.rig.queue_subscription(topic, f"q{number}") for number in range(101)]
    await sns.refuses_set(TOO_LARGE, topic, "MaximumMessageSize", LARGE)
    await sns.set(topic, "MaximumMessageSize", "262144")
    await sns("Unsubscribe", SubscriptionArn=subscriptions.pop())
    await sns.set(topic, "MaximumMessageSize", LARGE)
    members = {"TopicArn": topic, "Protocol": "sqs"}
    await sns.refuses(TOO_LARGE, "Subscribe", **members, Endpoint=queue_arn(ACCOUNT, "another"))
    assert (await sns("Subscribe", **members, Endpoint=queue_arn(ACCOUNT, "q0")))["SubscriptionArn"] in subscriptions


@spec("sns-topic-attr.size-protocols", "sns-topic-attr.size-subscribe")
async def test_large_messages_need_protocols_that_accept_them(sns: SnsDoor, topic: str) -> None:
    arn, _ = await sns.rig.confirmed(topic)
    await sns.refuses_set(TOO_LARGE, topic, "MaximumMessageSize", LARGE)
    await sns("Unsubscribe", SubscriptionArn=arn)
    await sns.set(topic, "MaximumMessageSize", LARGE)
    await sns.refuses(TOO_LARGE, "Subscribe", TopicArn=topic, Protocol="https", Endpoint="https://example.com/hook")
    await sns("Subscribe", TopicArn=topic, Protocol="sqs", Endpoint=queue_arn(ACCOUNT))
