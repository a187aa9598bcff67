"""Filter policies on message attributes, operator by operator, through botocore: which messages are delivered."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cns_common.events.schema import NotificationDropped
from tests.integration.sns.sns_door import SnsDoor
from tests.marks import case

spec = pytest.mark.spec
Attribute = dict[str, Any]
Attributes = dict[str, Attribute]


def string(text: str, data_type: str = "String") -> Attribute:
    return {"DataType": data_type, "StringValue": text}


BYTES: Attribute = {"DataType": "Binary", "BinaryValue": b"x"}


async def is_delivered(sns: SnsDoor, topic: str, attributes: Attributes) -> bool:
    """Whether the topic's only subscription gets a message with these attributes."""
    await sns("Publish", TopicArn=topic, Message="m", MessageAttributes=attributes)
    return bool(sns.rig.queue.take())


async def topic_with_filter(sns: SnsDoor, policy: object, **attributes: str) -> str:
    """Create a topic with one subscription that has this filter policy."""
    topic = await sns.topic()
    await sns.rig.queue_subscription(topic, FilterPolicy=json.dumps(policy), **attributes)
    return topic


A = "a"
X, Y = string("x"), string("y")
SEVERAL = [
    case("filter.keys-and", {A: ["x"], "b": ["y"]}, [{A: X, "b": Y}], [{A: X}, {A: X, "b": X}]),
    case("filter.keys-and", {A: ["x"]}, [{A: X, "b": Y}], [{"b": X}]),
    case("filter-attribute.absent", {A: [{"anything-but": "x"}]}, [{A: Y}], [{}, {"b": Y}]),
    case("filter-attribute.absent", {A: [{"exists": True}]}, [{A: Y}], [{}, {"b": Y}]),
    case("filter-attribute.absent", {A: ["x", None]}, [{A: X}], [{}, {"b": X}]),
    case(("filter-attribute.absent", "filter-op.exists"), {A: [{"exists": False}]}, [{"b": Y}], [{A: Y}]),
    case("filter-attribute.none-at-all", {A: [{"exists": False}]}, [{"b": BYTES}], [{}]),
    case("filter-op.or", {"$or": [{A: ["x"]}, {"b": ["y"]}]}, [{A: X}, {"b": Y}, {A: X, "b": Y}], [{A: Y, "b": X}, {}]),
    case(
        "filter-op.or-siblings",
        {"c": ["x"], "$or": [{A: ["x"]}, {"b": ["y"]}]},
        [{"c": X, A: X}, {"c": X, "b": Y}],
        [{A: X}, {"c": X}, {"c": Y, A: X}],
    ),
]


@pytest.mark.parametrize(("policy", "met", "unmet"), SEVERAL)
async def test_several_keys(sns: SnsDoor, policy: object, met: list[Attributes], unmet: list[Attributes]) -> None:
    topic = await topic_with_filter(sns, policy)
    assert [await is_delivered(sns, topic, attributes) for attributes in met] == [True] * len(met)
    assert [await is_delivered(sns, topic, attributes) for attributes in unmet] == [False] * len(unmet)


@spec("filter-attribute.malformed")
@pytest.mark.parametrize("malformed", [("String.Array", "not-json"), ("Number", ".5")])
async def test_malformed_attributes_fail_filtered_deliveries_alone(sns: SnsDoor, malformed: tuple[str, str]) -> None:
    data_type, text = malformed
    topic = await topic_with_filter(sns, {A: ["x"]})
    plain = await sns.rig.queue_subscription(topic, "plain")
    body = await sns.rig.queue_subscription(topic, "body", FilterPolicy='{"k":["v"]}', FilterPolicyScope="MessageBody")
    await sns(
        "Publish", TopicArn=topic, Message='{"k":"v"}', MessageAttributes={A: X, "elsewhere": string(text, data_type)}
    )
    assert set(sns.rig.endpoint_job().subscriptions) == {plain, body}
    (dropped,) = [event for event in sns.rig.events.events if isinstance(event, NotificationDropped)]
    assert (dropped.cause, dropped.topic, dropped.subscription) == ("invalid_attributes", topic, "")
    samples = {sample.name: sample for sample in sns.rig.service.matcher.counts.samples()}
    assert samples["cns_notifications_dropped_total"].value == 1
    assert samples["cns_notifications_dropped_total"].labels == (("cause", "invalid_attributes"),)
