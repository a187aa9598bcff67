"""Publishes to one endpoint, and their arrivals."""

from __future__ import annotations

from typing import Any

from lab.harness.endpoints import Endpoint
from lab.harness.waiting import wait_until
from tests.acceptance.topics import Topic

BATCH = 10


def publish_many(topic: Topic, n: int) -> list[str]:
    """Publish so many messages. Returns their ids."""
    ids: list[str] = []
    for start in range(0, n, BATCH):
        entries = [{"Id": str(number), "Message": str(number)} for number in range(start, min(start + BATCH, n))]
        answer = topic.sns.publish_batch(TopicArn=topic.arn, PublishBatchRequestEntries=entries)
        ids += [entry["MessageId"] for entry in answer["Successful"]]
    assert len(ids) == n
    return ids


def all_arrived(endpoint: Endpoint, ids: list[str]) -> dict[str, Any]:
    """Wait until the endpoint accepted all of these messages. Returns its summary."""
    endpoint.wait(distinct_messages=len(ids))
    wait_until(lambda: accepted(endpoint) == set(ids), lambda: f"{set(ids) - accepted(endpoint)} did not come")
    return endpoint.look(n=0)


def accepted(endpoint: Endpoint) -> set[str]:
    return {record["message_id"] for record in endpoint.notifications() if record["status"] == 200}
