"""Quotas of filter policies through the API: their number and their size."""

from __future__ import annotations

from pathlib import Path

import pytest

from cns.limits import Quotas
from cns_common.clock import Clock
from tests.integration.sns.cns_support import ACCOUNT, OTHER, Rig, call, invalid, open_rig, queue_arn

spec = pytest.mark.spec
RED = '{"colour":["red"]}'
FULL = ("FilterPolicyLimitExceeded", "Subscription filter policy limit exceeded")


async def put(rig: Rig, arn: str, name: str, text: str) -> None:
    await rig("SetSubscriptionAttributes", SubscriptionArn=arn, AttributeName=name, AttributeValue=text)


@spec("filter-limit.topic", "filter-limit.account")
async def test_quotas_of_filter_policies(tmp_path: Path) -> None:
    async with open_rig(tmp_path, Clock(), Quotas(topic_filter_policies=2, filter_policies=3)) as rig:
        topic = await rig.topic()
        members = {"TopicArn": topic, "Protocol": "sqs", "Attributes": {"FilterPolicy": RED}}
        one, _ = [await rig.queue_subscription(topic, name, FilterPolicy=RED) for name in "ab"]
        assert await rig.refusal("Subscribe", **members, Endpoint=queue_arn(ACCOUNT, "c")) == FULL
        assert await rig.queue_subscription(topic, "a", FilterPolicy=RED) == one  # the subscription exists already
        plain = await rig.queue_subscription(topic, "c")
        change = {"SubscriptionArn": plain, "AttributeName": "FilterPolicy", "AttributeValue": RED}
        assert await rig.refusal("SetSubscriptionAttributes", **change) == FULL
        await put(rig, one, "FilterPolicy", '{"colour":["blue"]}')  # as many filters as before
        await put(rig, one, "FilterPolicy", "")
        await rig("SetSubscriptionAttributes", **change)

        another = await rig.topic("u")
        await rig.open_to_all(another, "sns:Subscribe")
        await rig.queue_subscription(another, FilterPolicy=RED)
        members |= {"TopicArn": another, "Endpoint": queue_arn(ACCOUNT, "d")}
        assert await rig.refusal("Subscribe", **members) == FULL
        members |= {"Endpoint": queue_arn(OTHER, "d")}
        await rig.by(call(OTHER), "Subscribe", **members)  # a subscription of another account


@spec("filter-limit.keys", "filter-limit.complexity")
async def test_quotas_of_what_a_policy_holds(tmp_path: Path) -> None:
    async with open_rig(tmp_path, Clock(), Quotas(filter_policy_keys=1, filter_policy_complexity=2)) as rig:
        topic = await rig.topic()
        members = {"TopicArn": topic, "Protocol": "sqs", "Endpoint": queue_arn(ACCOUNT)}
        arn = await rig.queue_subscription(topic, "r", FilterPolicy='{"a":[1,2]}')
        for policy, text in (
            ('{"a":[1],"b":[1]}', "FilterPolicy: Filter policy can not have more than 1 keys"),
            ('{"a":[1,2,3]}', "FilterPolicy: Filter policy is too complex"),
        ):
            refusal = await rig.refusal("Subscribe", **members, Attributes={"FilterPolicy": policy})
            assert refusal == invalid(f"Attributes Reason: {text}")
            change = {"SubscriptionArn": arn, "AttributeName": "FilterPolicy", "AttributeValue": policy}
            assert await rig.refusal("SetSubscriptionAttributes", **change) == invalid(text)
