"""Quotas of topics and subscriptions, through botocore."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import asdict

from cns.limits import Quotas
from cns_backend.services import quotas as quotas_of
from cns_common.clock import Clock
from cns_common.configuration.settings import Settings
from tests.integration.sns.cns_support import ACCOUNT, REGION, open_rig, queue_arn
from tests.integration.sns.sns_door import STRANGER, Refusal, SnsDoor, open_sns_door
from tests.marks import case

spec = pytest.mark.spec
NO_MORE_TOPICS = Refusal(403, "TopicLimitExceeded", "Topic limit exceeded")
NO_MORE = Refusal(403, "SubscriptionLimitExceeded", "Subscription limit exceeded")
FIFO = {"FifoTopic": "true"}


@asynccontextmanager
async def open_with_quotas(directory: Path, quotas: Quotas) -> AsyncIterator[SnsDoor]:
    async with open_rig(directory, Clock(), quotas) as rig, open_sns_door(rig) as sns:
        yield sns


@pytest.mark.parametrize(
    ("name", "value"),
    [
        case("quota.topics", "topics", 100_000),
        case("quota.fifo-topics", "fifo_topics", 1_000),
        case("quota.subscriptions", "topic_subscriptions", 12_500_000),
        case("quota.fifo-subscriptions", "fifo_topic_subscriptions", 100),
        case("quota.pending", "pending_subscriptions", 5_000),
        case("filter-limit.topic", "topic_filter_policies", 200),
        case("filter-limit.account", "filter_policies", 10_000),
        case("filter-limit.keys", "filter_policy_keys", 5),
        case("filter-limit.complexity", "filter_policy_complexity", 150),
    ],
)
def test_the_defaults_are_those_of_aws(name: str, value: int) -> None:
    assert asdict(quotas_of(Settings()))[name] == asdict(Quotas())[name] == value


@spec("quota.topics", "quota.fifo-topics", "quota.same-again", "quota.deleted")
@spec("sns-topic.quota", "sns-error.TopicLimitExceeded")
async def test_topics(tmp_path: Path) -> None:
    """Each account has its own quota, and standard and FIFO topics are counted separately."""
    async with open_with_quotas(tmp_path, Quotas(topics=2, fifo_topics=1)) as sns:
        for name, attributes in (("a", {}), ("b", {}), ("c.fifo", FIFO)):
            arn = await sns.topic(name, **attributes)
            assert await sns.topic(name, **attributes) == arn
        for name, attributes in (("d", {}), ("d.fifo", FIFO)):
            await sns.refuses(NO_MORE_TOPICS, "CreateTopic", Name=name, Attributes=attributes)
            await sns("CreateTopic", STRANGER, Name=name, Attributes=attributes)
        for name, attributes in (("a", {}), ("c.fifo", FIFO)):
            await sns("DeleteTopic", TopicArn=await sns.topic(name, **attributes))
        await sns.topic("d")
        await sns.topic("d.fifo", **FIFO)


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        case("quota.subscriptions", "t", {}),
        case("quota.fifo-subscriptions", "t.fifo", FIFO),
    ],
)
@spec("quota.same-again", "quota.deleted", "sns-error.SubscriptionLimitExceeded")
async def test_subscriptions(tmp_path: Path, name: str, attributes: dict[str, str]) -> None:
    most = Quotas(**{"fifo_topic_subscriptions" if attributes else "topic_subscriptions": 2})
    async with open_with_quotas(tmp_path, most) as sns:
        topic = await sns.topic(name, **attributes)
        arns = [await sns.rig.queue_subscription(topic, queue) for queue in "ab"]
        more = {"TopicArn": topic, "Protocol": "sqs", "Endpoint": queue_arn(ACCOUNT, "c")}
        await sns.refuses(NO_MORE, "Subscribe", **more)
        assert await sns.rig.queue_subscription(topic, "a") == arns[0]
        await sns("Unsubscribe", SubscriptionArn=arns[0])
        await sns("Subscribe", **more)


@spec("quota.pending", "quota.same-again")
async def test_pending_subscriptions(tmp_path: Path) -> None:
    """The quota is that of all the account's topics."""
    async with open_with_quotas(tmp_path, Quotas(pending_subscriptions=2)) as sns:
        topics = [await sns.topic(name) for name in "ab"]
        tokens = [(await sns.rig.pending(topic))[1] for topic in topics]
        more = {"TopicArn": topics[0], "Protocol": "email", "Endpoint": "me@example.com"}
        await sns.refuses(NO_MORE, "Subscribe", **more)
        await sns.rig.pending(topics[0])
        await sns.rig.queue_subscription(topics[0])  # a queue's subscription needs no confirmation
        await sns("ConfirmSubscription", TopicArn=topics[0], Token=tokens[0])
        await sns("Subscribe", **more)


@spec("quota.firehose")
async def test_streams_count_as_subscriptions(sns: SnsDoor, topic: str) -> None:
    role = {"SubscriptionRoleArn": f"arn:aws:iam::{ACCOUNT}:role/sns"}
    for number in range(6):
        stream = f"arn:aws:firehose:{REGION}:{ACCOUNT}:deliverystream/s{number}"
        await sns("Subscribe", TopicArn=topic, Protocol="firehose", Endpoint=stream, Attributes=role)
