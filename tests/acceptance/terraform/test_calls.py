"""Terraform's calls for topics and subscriptions: create, plan without a difference, update, delete."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from lab.harness.endpoints import Endpoint
from lab.harness.service import Service
from lab.harness.waiting import wait_until
from tests.acceptance.terraform.attributes import QUEUE_POLICY
from tests.acceptance.terraform.configuring import config, policy, tagged
from tests.acceptance.terraform.mobile import PlatformApplication, SmsPreferences
from tests.acceptance.terraform.queues import Queue, QueueAttribute
from tests.acceptance.terraform.resource import Config, apply, destroy
from tests.acceptance.terraform.topics import Subscription, Topic, TopicPolicy
from tests.acceptance.topics import arn_of, receive_one

NAMED = Callable[[], str]
CONFIRMED_S = 60.0
ROLE = "arn:aws:iam::123456789012:role/feedback"
RETRY = {"minDelayTarget": 5, "maxDelayTarget": 20, "numRetries": 5}
ALL_OF_RETRY = RETRY | {
    "numNoDelayRetries": 1,
    "numMinDelayRetries": 2,
    "numMaxDelayRetries": 0,
    "backoffFunction": "arithmetic",
}


@pytest.fixture
def made(sns: Any) -> Iterator[Callable[[Topic, Config], str]]:
    """Creates topics that others hang on, and deletes them at the end."""
    made: list[tuple[Topic, str]] = []

    def make(topic: Topic, wanted: Config) -> str:
        made.append((topic, topic.create(wanted)))
        return made[-1][1]

    yield make
    for topic, arn in made:
        destroy(topic, arn)


# -- topics -----------------------------------------------------------------------------------------------------------


def feedback(rate: int) -> dict[str, str]:
    """Subscriptions to endpoints of each protocol."""
    kinds = ("Application", "Firehose", "HTTP", "Lambda", "SQS")
    roles = {f"{kind}{outcome}FeedbackRoleArn": ROLE for kind in kinds for outcome in ("Success", "Failure")}
    return roles | {f"{kind}SuccessFeedbackSampleRate": str(rate) for kind in kinds}


def delivery(**http: object) -> str:
    return json.dumps(
        {"http": {"defaultHealthyRetryPolicy": ALL_OF_RETRY, "disableSubscriptionOverrides": False} | http}
    )


TOPICS = {
    "plain": (config(), config(DisplayName="news"), config()),
    "tagged": (tagged(a="1", b="2"), tagged(b="3", c=""), config()),
    "feedback": (config(**feedback(100)), config(**feedback(7)), config()),
    "delivery": (
        config(DeliveryPolicy=delivery()),
        config(DeliveryPolicy=delivery(defaultThrottlePolicy={"maxReceivesPerSecond": 1})),
        config(DeliveryPolicy=delivery(defaultRequestPolicy={"headerContentType": "application/json"})),
        config(),
    ),
    "what is computed": (
        config(SignatureVersion="2", TracingConfig="Active"),
        config(SignatureVersion="1", TracingConfig="PassThrough"),
        config(),
    ),
    "encrypted": (config(KmsMasterKeyId="alias/aws/sns"), config()),
}
FIFO_TOPICS = {
    "plain": (config(FifoTopic="true"), config(FifoTopic="true", ContentBasedDeduplication="true")),
    "throughput": (
        config(FifoTopic="true", FifoThroughputScope="Topic"),
        config(FifoTopic="true", FifoThroughputScope="MessageGroup"),
    ),
    "archive": (
        config(FifoTopic="true", ArchivePolicy='{"MessageRetentionPeriod": 365}'),
        config(FifoTopic="true", ArchivePolicy='{"MessageRetentionPeriod": "30"}'),
        config(FifoTopic="true", ArchivePolicy="{}"),
    ),
}


@pytest.mark.parametrize("configs", TOPICS.values(), ids=TOPICS)
def test_a_topic(sns: Any, new_name: NAMED, configs: tuple[Config, ...]) -> None:
    topic = Topic(sns, name=new_name())
    destroy(topic, apply(topic, *configs))


@pytest.mark.parametrize("configs", FIFO_TOPICS.values(), ids=FIFO_TOPICS)
def test_a_fifo_topic(sns: Any, new_name: NAMED, configs: tuple[Config, ...]) -> None:
    topic = Topic(sns, name=f"{new_name()}.fifo")
    arn = apply(topic, *configs)
    destroy(topic, arn)
    topic.delete(arn)  # somebody else deletes the topic


def test_a_topic_with_a_policy(sns: Any, new_name: NAMED) -> None:
    topic = Topic(sns, name=new_name())
    arn = apply(topic, config())
    for_s3 = policy("SNS:Publish", arn, {"Service": "s3.amazonaws.com"}, ArnLike={"aws:SourceArn": "arn:aws:s3:::b&c"})
    configured = config(Policy=for_s3)
    topic.update(arn, config(), configured)
    assert topic.plan(arn, configured) == {}
    destroy(topic, arn)


def test_the_policy_of_a_topic(sns: Any, made: Any, new_name: NAMED) -> None:
    topic = Topic(sns, name=new_name())
    arn = made(topic, config())
    account = arn.split(":")[4]
    before = config(Policy=policy("sns:Publish", arn, {"AWS": account}, StringEquals={"aws:SourceAccount": account}))
    after = config(Policy=policy("SNS:Subscribe", arn, {"AWS": [f"arn:aws:iam::{account}:root", "*"]}))
    default = _default_policy(arn, account)
    of_topic = TopicPolicy(sns, name=topic.name, arn=arn, default=default)
    of_topic.delete(apply(of_topic, before, after))
    assert of_topic.plan(arn, config(Policy=default)) == {}


def _default_policy(arn: str, account: str) -> str:
    """With one action more than AWS's own."""
    actions = "GetTopicAttributes SetTopicAttributes AddPermission RemovePermission DeleteTopic Subscribe"
    actions += " ListSubscriptionsByTopic Publish Receive"
    allow = {
        "Sid": "__default_statement_ID",
        "Effect": "Allow",
        "Principal": {"AWS": "*"},
        "Action": [f"SNS:{action}" for action in actions.split()],
        "Resource": arn,
        "Condition": {"StringEquals": {"AWS:SourceOwner": account}},
    }
    return json.dumps({"Version": "2008-10-17", "Id": "__default_policy_ID", "Statement": [allow]}, indent=2)


# -- subscriptions ----------------------------------------------------------------------------------------------------

COLOURS = '{"colour": ["red", {"prefix": "dark-"}], "price": [{"numeric": [">=", 0.50, "<", 1e2]}]}'
SUBSCRIPTIONS = {
    "plain": (config(), config(RawMessageDelivery="true"), config()),
    "filtered": (config(FilterPolicy=COLOURS), config(FilterPolicy='{"colour": [{"exists": false}]}'), config()),
    "filtered by the body": (
        config(FilterPolicy='{"a": {"b": ["c"]}}', FilterPolicyScope="MessageBody"),
        config(FilterPolicy='{"a": ["c"]}', FilterPolicyScope="MessageAttributes"),
        config(FilterPolicy='{"a": {"b": [{"anything-but": ["c"]}]}}', FilterPolicyScope="MessageBody"),
    ),
}


@pytest.mark.parametrize("configs", SUBSCRIPTIONS.values(), ids=SUBSCRIPTIONS)
def test_a_subscription(
    sqs: Any, sns: Any, made: Any, queue: str, new_name: NAMED, configs: tuple[Config, ...]
) -> None:
    arn = made(Topic(sns, name=new_name()), config())
    subscription = Subscription(sns, topic_arn=arn, endpoint=arn_of(sqs, queue))
    destroy(subscription, apply(subscription, *configs))
    sqs.delete_queue(QueueUrl=queue)


def test_a_subscription_with_dead_letters(sqs: Any, sns: Any, made: Any, queue: str, new_name: NAMED) -> None:
    arn = made(Topic(sns, name=new_name()), config())
    subscription = Subscription(sns, topic_arn=arn, endpoint=arn_of(sqs, queue))
    redrive = json.dumps({"deadLetterTargetArn": f"{arn_of(sqs, queue)}-dead"})
    destroy(subscription, apply(subscription, config(), config(RedrivePolicy=redrive), config()))
    destroy(subscription, apply(subscription, config(RedrivePolicy=redrive, RawMessageDelivery="true")))
    sqs.delete_queue(QueueUrl=queue)


def test_a_subscription_that_replays(sqs: Any, sns: Any, made: Any, fifo: str, new_name: NAMED) -> None:
    topic = Topic(sns, name=f"{new_name()}.fifo")
    archived = config(FifoTopic="true", ArchivePolicy='{"MessageRetentionPeriod": 1}')
    arn = made(topic, archived)
    subscription = Subscription(sns, topic_arn=arn, endpoint=arn_of(sqs, fifo))
    begin = sns.get_topic_attributes(TopicArn=arn)["Attributes"]["BeginningArchiveTime"]
    replay = config(ReplayPolicy=json.dumps({"PointType": "Timestamp", "StartingPoint": begin}))
    destroy(subscription, apply(subscription, replay, config()))
    topic.update(arn, archived, config(FifoTopic="true", ArchivePolicy="{}"))
    sqs.delete_queue(QueueUrl=fifo)


def test_a_web_endpoint_that_confirms_itself(sns: Any, made: Any, endpoint: Endpoint, new_name: NAMED) -> None:
    arn = made(Topic(sns, name=new_name()), config())
    subscription = Subscription(sns, topic_arn=arn, protocol="http", endpoint=endpoint.url)
    terms = config(DeliveryPolicy=json.dumps({"healthyRetryPolicy": RETRY}))
    more = json.dumps({"healthyRetryPolicy": ALL_OF_RETRY, "throttlePolicy": {"maxReceivesPerSecond": 10}})
    key = apply(subscription, terms, config(DeliveryPolicy=more), config())
    wait_until(lambda: _pending(subscription, key) == "false", CONFIRMED_S)
    destroy(subscription, key)


def _pending(subscription: Subscription, key: str) -> str:
    found = subscription.read(key)
    assert found is not None
    return found.values["PendingConfirmation"]


def test_a_web_endpoint_that_does_not(sns: Any, made: Any, endpoint: Endpoint, new_name: NAMED) -> None:
    """A pending subscription is removed from the state, and expires by itself."""
    arn = made(Topic(sns, name=new_name()), config())
    endpoint.confirm("never")
    subscription = Subscription(sns, topic_arn=arn, protocol="http", endpoint=endpoint.url)
    key = apply(subscription, config())
    assert _pending(subscription, key) == "true"
    subscription.delete(key)
    assert subscription.read(key) is not None


# -- phones -----------------------------------------------------------------------------------------------------------


def test_a_platform_application(sns: Any, made: Any, new_name: NAMED) -> None:
    topics = [made(Topic(sns, name=new_name()), config()) for _ in range(2)]
    application = PlatformApplication(sns, name=new_name(), platform="GCM")
    events = ("EventEndpointCreated", "EventEndpointDeleted", "EventEndpointUpdated", "EventDeliveryFailure")
    roles = {"SuccessFeedbackRoleArn": ROLE, "FailureFeedbackRoleArn": ROLE}
    plain = config(PlatformCredential="key")
    first, second = (
        config(
            PlatformCredential=f"key {n}", SuccessFeedbackSampleRate=rate, **dict.fromkeys(events, topics[n]), **roles
        )
        for n, rate in enumerate(("100", "99"))
    )
    destroy(application, apply(application, plain, first, second, plain))


def test_a_platform_application_of_apple(sns: Any, new_name: NAMED) -> None:
    application = PlatformApplication(sns, name=new_name(), platform="APNS_SANDBOX")
    by_certificate = config(PlatformCredential="key", PlatformPrincipal="certificate")
    destroy(application, apply(application, by_certificate, config(PlatformCredential="k", PlatformPrincipal="c")))
    apple = {"ApplePlatformTeamID": "TEAM123456", "ApplePlatformBundleID": "org.example.app"}
    by_token = config(PlatformCredential="signing key", PlatformPrincipal="key key", **apple)
    renewed = replace(by_token, values={**by_token.values, "PlatformCredential": "another"})
    destroy(application, apply(application, by_token, renewed))


def test_sms_preferences(service: Service, stranger: dict[str, str]) -> None:
    preferences = SmsPreferences(service.client("sns", **stranger))
    full = config(
        MonthlySpendLimit="1",
        DefaultSMSType="Transactional",
        DefaultSenderID="Sender",
        DeliveryStatusIAMRole=ROLE,
        DeliveryStatusSuccessSamplingRate="75",
        UsageReportS3Bucket="some-bucket",
    )
    key = apply(preferences, config(DefaultSMSType="Promotional"), full)
    preferences.delete(key)
    assert preferences.plan(key, config()) == {}


# -- together ---------------------------------------------------------------------------------------------------------


def test_a_stack(sqs: Any, sns: Any, new_name: NAMED) -> None:
    """In the order of their references; destroyed backwards."""
    topic, queue = Topic(sns, name=new_name()), Queue(sqs, name=new_name())
    topic_arn, url = apply(topic, tagged(team="blue")), apply(queue, tagged(team="blue"))
    queue_arn = arn_of(sqs, url)
    of_queue = QueueAttribute(sqs, QUEUE_POLICY, url=url)
    allow = policy(
        "sqs:SendMessage", queue_arn, {"Service": "sns.amazonaws.com"}, ArnEquals={"aws:SourceArn": topic_arn}
    )
    apply(of_queue, config(Policy=allow))
    subscription = Subscription(sns, topic_arn=topic_arn, endpoint=queue_arn)
    key = apply(subscription, config(RawMessageDelivery="true"))
    sns.publish(TopicArn=topic_arn, Message="it works")
    assert receive_one(sqs, url)["Body"] == "it works"
    destroy(subscription, key)
    destroy(of_queue, url)
    destroy(queue, url)
    destroy(topic, topic_arn)


def test_data_sources(sqs: Any, sns: Any, made: Any, queue: str, new_name: NAMED) -> None:
    """They find things by name: a topic in the pages of all, a queue by asking."""
    name = new_name()
    arn = made(Topic(sns, name=name), config())
    pages = sns.get_paginator("list_topics").paginate()
    named = [each["TopicArn"] for page in pages for each in page["Topics"] if each["TopicArn"].endswith(f":{name}")]
    assert named == [arn]
    assert sqs.get_queue_url(QueueName=queue.rsplit("/", 1)[1])["QueueUrl"] == queue
    sqs.delete_queue(QueueUrl=queue)
