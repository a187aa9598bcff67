"""Refused filter policies: the errors of Subscribe and SetSubscriptionAttributes, and their texts."""

from __future__ import annotations

import pytest

from tests.integration.sns.cns_support import ACCOUNT, queue_arn
from tests.integration.sns.sns_door import Refusal, SnsDoor, refused

spec = pytest.mark.spec
BODIES = {"FilterPolicyScope": "MessageBody"}


async def refusals_of(sns: SnsDoor, policy: str) -> list[str]:
    """The error texts of both calls, each without its own prefix."""
    topic = await sns.topic()
    members = {"TopicArn": topic, "Protocol": "sqs", "Endpoint": queue_arn(ACCOUNT)}
    arn = (await sns("Subscribe", **members, Attributes=BODIES))["SubscriptionArn"]
    change = {"SubscriptionArn": arn, "AttributeName": "FilterPolicy", "AttributeValue": policy}
    other = {**members, "Endpoint": queue_arn(ACCOUNT, "other"), "Attributes": {"FilterPolicy": policy, **BODIES}}
    refusals = [
        refused(await sns.reply("SetSubscriptionAttributes", **change)),
        refused(await sns.reply("Subscribe", **other)),
    ]
    assert [(each.status, each.code) for each in refusals] == [(400, "InvalidParameter")] * 2
    beginnings = ("Invalid parameter: FilterPolicy: ", "Invalid parameter: Attributes Reason: FilterPolicy: ")
    for refusal, beginning in zip(refusals, beginnings, strict=True):
        assert refusal.text.startswith(beginning)
    return [refusal.text.removeprefix(beginning) for refusal, beginning in zip(refusals, beginnings, strict=True)]


@spec("filter-text.location")
async def test_the_place_follows_the_text(sns: SnsDoor) -> None:
    place = ' at [Source: (String)"{"key":[{"suffix":100}]}"; line: 1, column: 22]'
    for refusal in await refusals_of(sns, '{ "key": [ {"suffix": 100} ] }'):
        assert refusal == f"suffix match pattern must be a string\n{place}"


@spec("filter-limit.topic", "sns-error.FilterPolicyLimitExceeded")
async def test_a_topic_has_200_policies(sns: SnsDoor) -> None:
    topic = await sns.topic()
    for number in range(200):
        await sns.rig.queue_subscription(topic, f"q{number}", FilterPolicy='{"a":["x"]}')
    one_more = {"TopicArn": topic, "Protocol": "sqs", "Endpoint": queue_arn(ACCOUNT, "more")}
    full = Refusal(403, "FilterPolicyLimitExceeded", "Subscription filter policy limit exceeded")
    await sns.refuses(full, "Subscribe", **one_more, Attributes={"FilterPolicy": '{"a":["x"]}'})
    arn = (await sns("Subscribe", **one_more))["SubscriptionArn"]
    change = {"SubscriptionArn": arn, "AttributeName": "FilterPolicy", "AttributeValue": '{"a":["x"]}'}
    await sns.refuses(full, "SetSubscriptionAttributes", **change)
