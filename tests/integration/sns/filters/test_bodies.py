"""Filter policies on message bodies, through botocore: which messages are delivered."""

from __future__ import annotations

import pytest

from tests.integration.sns.sns_door import SnsDoor

spec = pytest.mark.spec


@spec("filter-body.no-attributes")
async def test_the_scope_selects_body_or_attributes(sns: SnsDoor) -> None:
    topic = await sns.topic()
    policy = {"FilterPolicy": '{"a":["x"]}'}
    of_attributes = await sns.rig.queue_subscription(topic, "q", **policy)
    of_bodies = await sns.rig.queue_subscription(topic, "r", **policy, FilterPolicyScope="MessageBody")
    attribute = {"a": {"DataType": "String", "StringValue": "x"}}
    await sns("Publish", TopicArn=topic, Message="m", MessageAttributes=attribute)
    assert sns.rig.endpoint_job().subscriptions == (of_attributes,)
    await sns("Publish", TopicArn=topic, Message='{"a":"x"}')
    assert sns.rig.endpoint_job().subscriptions == (of_bodies,)
