"""Terraform's calls for queues: create, plan without a difference, update, delete."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from lab.harness.service import Service
from tests.acceptance.terraform.attributes import QUEUE_POLICY, QUEUE_REDRIVE_ALLOW_POLICY, QUEUE_REDRIVE_POLICY
from tests.acceptance.terraform.configuring import config, policy, tagged
from tests.acceptance.terraform.queues import Queue, QueueAttribute
from tests.acceptance.terraform.resource import Config, apply, destroy
from tests.acceptance.terraform.schema import Schema
from tests.acceptance.topics import arn_of

NAMED = Callable[[], str]
DELETED_RECENTLY_S = 60

QUEUES = {
    "plain": (config(), config(VisibilityTimeout="45"), config()),
    "tagged": (tagged(a="1", b="2"), tagged(b="3", c=""), config()),
    "all that is simple": (
        config(
            DelaySeconds="90",
            MaximumMessageSize="2048",
            MessageRetentionPeriod="86400",
            ReceiveMessageWaitTimeSeconds="10",
            VisibilityTimeout="0",
        ),
        config(MaximumMessageSize="1048576", MessageRetentionPeriod="1209600"),
    ),
    "encrypted by SQS, or not": (config(SqsManagedSseEnabled="true"), config(SqsManagedSseEnabled="false")),
    "not encrypted": (config(SqsManagedSseEnabled="false"),),
    "encrypted with a key": (
        config(KmsMasterKeyId="alias/aws/sqs", KmsDataKeyReusePeriodSeconds="600"),
        config(KmsMasterKeyId="alias/aws/sqs", KmsDataKeyReusePeriodSeconds="300"),
        config(),
    ),
    "with a policy": (
        config(Policy=policy("sqs:SendMessage", "*", {"AWS": "123456789012"})),
        config(Policy=policy("sqs:*", "*", "*", ArnLike={"aws:SourceArn": "arn:aws:sns:*:*:<a>&<b>"})),
    ),
    "what may redrive to it": (
        config(RedriveAllowPolicy='{"redrivePermission": "denyAll"}'),
        config(RedriveAllowPolicy='{"redrivePermission": "allowAll"}'),
    ),
}
FIFO_QUEUES = {
    "plain": (config(FifoQueue="true"), config(FifoQueue="true", ContentBasedDeduplication="true")),
    "high throughput": (
        config(FifoQueue="true", DeduplicationScope="messageGroup", FifoThroughputLimit="perMessageGroupId"),
        config(FifoQueue="true", DeduplicationScope="queue", FifoThroughputLimit="perQueue"),
    ),
}


@pytest.mark.parametrize("configs", QUEUES.values(), ids=QUEUES)
def test_a_queue(sqs: Any, new_name: NAMED, configs: tuple[Config, ...]) -> None:
    queue = Queue(sqs, name=new_name())
    destroy(queue, apply(queue, *configs))


@pytest.mark.parametrize("configs", FIFO_QUEUES.values(), ids=FIFO_QUEUES)
def test_a_fifo_queue(sqs: Any, new_name: NAMED, configs: tuple[Config, ...]) -> None:
    queue = Queue(sqs, name=f"{new_name()}.fifo")
    destroy(queue, apply(queue, *configs))


def test_a_queue_that_is_replaced(service: Service, sqs: Any, new_name: NAMED) -> None:
    queue = Queue(sqs, name=new_name())
    destroy(queue, apply(queue, config()))
    with pytest.raises(sqs.exceptions.QueueDeletedRecently) as caught:
        queue.create(config())
    assert caught.value.response["Error"]["Code"] == "AWS.SimpleQueueService.QueueDeletedRecently"  # Terraform retries
    service.advance(DELETED_RECENTLY_S + 1)
    destroy(queue, apply(queue, config()))


def test_policies_of_queues(sqs: Any, new_name: NAMED) -> None:
    queue, dead = Queue(sqs, name=new_name()), Queue(sqs, name=new_name())
    url, dead_url = apply(queue, config()), apply(dead, config())
    arn, dead_arn = arn_of(sqs, url), arn_of(sqs, dead_url)

    def redrive(receives: int) -> Config:
        return config(RedrivePolicy=json.dumps({"deadLetterTargetArn": dead_arn, "maxReceiveCount": receives}))

    def allow(*arns: str) -> Config:
        by_queue = {"redrivePermission": "byQueue", "sourceQueueArns": arns}
        return config(RedriveAllowPolicy=json.dumps(by_queue))

    root = f"arn:aws:iam::{arn.split(':')[4]}:root"
    cases: list[tuple[str, Schema, Config, Config]] = [
        (url, QUEUE_REDRIVE_POLICY, redrive(4), redrive(5)),
        (dead_url, QUEUE_REDRIVE_ALLOW_POLICY, allow(arn), allow(arn, f"{arn}-2")),
        (
            url,
            QUEUE_POLICY,
            config(Policy=policy("sqs:SendMessage", arn, {"AWS": root})),
            config(
                Policy=policy("SQS:ReceiveMessage", arn, {"AWS": [root, "*"]}, Bool={"aws:SecureTransport": "true"})
            ),
        ),
    ]
    for of, schema, before, after in cases:
        attribute = QueueAttribute(sqs, schema, url=of)
        destroy(attribute, apply(attribute, before, after))
    assert queue.plan(url, config()) == {}
    destroy(queue, url)
    destroy(dead, dead_url)
