"""A topic with an archive and a subscription, in a data directory without a service."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path

from cns.archives.model import Archive, ArchivedMessage
from cns.stores.embedded import EmbeddedArchiveStore, EmbeddedSubscriptionStore, EmbeddedTopicStore
from cns.subscriptions.subscription import Subscription, SubscriptionState
from cns.topics.topic import Topic
from cns_common.clock import Clock
from cns_common.durations import DAY_MS
from cns_common.sqlite.database import Database

ACCOUNT = "000000000000"
REGION = "us-east-1"


def archived_topic(name: str, now_ms: int, *, began_days_ago: int, kept_days: int) -> Topic:
    return Topic(
        id=f"id-{name}",
        account=ACCOUNT,
        region=REGION,
        name=name,
        created_ms=now_ms,
        attributes={"ArchivePolicy": f'{{"MessageRetentionPeriod":{kept_days}}}'},
        archive=Archive(f"archive-{name}", now_ms - began_days_ago * DAY_MS),
    )


def queue_subscription(topic: Topic) -> Subscription:
    """A confirmed one, of a queue that is not there."""
    return Subscription(
        id="00000000-0000-4000-8000-000000000000",
        topic_arn=topic.arn,
        topic_id=topic.id,
        owner=topic.account,
        principal=f"arn:aws:iam::{topic.account}:root",
        protocol="sqs",
        endpoint=f"arn:aws:sqs:{topic.region}:{topic.account}:q",
        state=SubscriptionState.CONFIRMED,
        created_ms=topic.created_ms,
    )


async def fill_archive(data: Path, topic: Topic, pages: Iterable[Sequence[ArchivedMessage]]) -> Subscription:
    """Make the topic, its subscription and its messages. Returns the subscription."""
    assert topic.archive is not None
    database = Database(data, Clock())
    archives = EmbeddedArchiveStore(database)
    database.start(asyncio.get_running_loop())
    subscription = queue_subscription(topic)
    await EmbeddedTopicStore(database).create(topic)
    await EmbeddedSubscriptionStore(database).create(subscription, None)
    for page in pages:
        await archives.append(topic.archive.id, page)
    await database.close()
    return subscription
