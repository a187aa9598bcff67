"""examples/terraform/main.tf: it parses, and its values, applied by the provider's calls, deliver as it says."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import hcl2

from tests.acceptance.terraform.attributes import QUEUE_POLICY
from tests.acceptance.terraform.queues import Queue, QueueAttribute
from tests.acceptance.terraform.resource import Config, apply, destroy
from tests.acceptance.terraform.topics import Subscription, Topic
from tests.acceptance.topics import arn_of, receive_one

EXAMPLE = Path(__file__).parents[3] / "examples" / "terraform" / "main.tf"
API_NAMES = {
    "message_retention_seconds": "MessageRetentionPeriod",
    "visibility_timeout_seconds": "VisibilityTimeout",
    "receive_wait_time_seconds": "ReceiveMessageWaitTimeSeconds",
    "redrive_policy": "RedrivePolicy",
    "policy": "Policy",
    "filter_policy": "FilterPolicy",
    "raw_message_delivery": "RawMessageDelivery",
}
"""Arguments of resources, and the attributes that the provider makes of them."""
NO_ATTRIBUTES = {"name", "topic_arn", "protocol", "endpoint", "queue_url", "for_each", "depends_on"}
_ENCODED = re.compile(r"\$\{jsonencode\((.*)\)\}")
_KEY = re.compile(r'"?([\w:]+)"? = ')

Arguments = Mapping[str, Any]


def resources() -> dict[str, Arguments]:
    """The arguments of each resource of the file, by its address."""
    with EXAMPLE.open() as file:
        content = hcl2.load(file)
    return {
        f"{kind}.{name}".replace('"', ""): {key: value for key, value in arguments.items() if not key.startswith("__")}
        for block in content["resource"]
        for kind, named in block.items()
        for name, arguments in named.items()
    }


def configured(arguments: Arguments, known: Mapping[str, str]) -> Config:
    """The attributes of a resource. `known` has the values of references."""
    assert set(arguments) <= API_NAMES.keys() | NO_ATTRIBUTES, "an argument that this test does not apply"
    return Config(
        values={API_NAMES[name]: _text(value, known) for name, value in arguments.items() if name in API_NAMES}
    )


def _text(value: Any, known: Mapping[str, str]) -> str:
    encoded = _ENCODED.fullmatch(value) if isinstance(value, str) else None
    if encoded is None:
        return json.dumps(value)
    text = _KEY.sub(r'"\1": ', encoded[1])
    for reference, meant in known.items():
        text = text.replace(reference, json.dumps(meant))
    return json.dumps(json.loads(text))


def test_the_example_applies_and_delivers(sqs: Any, sns: Any, new_name: Callable[[], str]) -> None:
    found, prefix = resources(), new_name()
    dead, orders, topic = (
        found[name] for name in ("aws_sqs_queue.dead", "aws_sqs_queue.orders", "aws_sns_topic.orders")
    )
    policies, subscription = found["aws_sqs_queue_policy.orders"], found["aws_sns_topic_subscription.orders"]
    assert len(found) == 5
    known: dict[str, str] = {}
    dead_queue, queue = (Queue(sqs, name=f"{prefix}-{each['name'].strip(chr(34))}") for each in (dead, orders))
    dead_url = apply(dead_queue, configured(dead, known))
    known["aws_sqs_queue.dead.arn"] = arn_of(sqs, dead_url)
    url = apply(queue, configured(orders, known))
    known["aws_sqs_queue.orders.arn"] = arn_of(sqs, url)
    arn = apply(Topic(sns, name=prefix), configured(topic, known))
    known["aws_sns_topic.orders.arn"] = arn
    for each in (url, dead_url):
        with_policy = configured(policies, {**known, "each.value.arn": arn_of(sqs, each)})
        apply(QueueAttribute(sqs, url=each, schema=QUEUE_POLICY), with_policy)
    delivery = Subscription(sns, topic_arn=arn, endpoint=known["aws_sqs_queue.orders.arn"])
    key = apply(delivery, configured(subscription, known))
    for total in ("99", "150"):
        attributes = {"total": {"DataType": "Number", "StringValue": total}}
        sns.publish(TopicArn=arn, Message=f"order of {total}", MessageAttributes=attributes)
    assert receive_one(sqs, url)["Body"] == "order of 150"
    destroy(delivery, key)
    destroy(Topic(sns, name=prefix), arn)
    destroy(queue, url)
    destroy(dead_queue, dead_url)
