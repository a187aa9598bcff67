"""Quotas of filter policies through the API: their number and their size."""

from __future__ import annotations

from pathlib import Path

import pytest

from cns.limits import Quotas
from cns_common.clock import Clock
from tests.integration.sns.cns_support import ACCOUNT, OTHER, call, invalid, open_rig, queue_arn

spec = pytest.mark.spec
RED = '{"colour":["red"]}'
FULL = ("FilterPolicyLimitExceeded", "Subscription filter policy limit exceeded")


@spec("filter-limit.topic", "filter-limit.account", "sns-error.FilterPolicyLimitExceeded")
async def test_quotas_of_filter_policies(tmp_path: Path) -> None:
    async with open_rig(tmp_path, Clock(), Quotas(topic_filter_policies=2, filter_policies=3)) as rig:
        topic = await rig.topic()
        one, _ = [await rig.queue_subscription(topic, name, FilterPolicy=RED) for name in "ab"]
        assert await rig.refused_subscribe(topic, queue_arn(ACCOUNT, "c"), FilterPolicy=RED) == FULL
        assert await rig.queue_subscription(topic, "a", FilterPolicy=RED) == one  # the subscription exists already
        plain = await rig.queue_subscription(topic, "c")
        assert await rig.refused_set(plain, "FilterPolicy", RED) == FULL
        await rig.set(one, "FilterPolicy", '{"colour":["blue"]}')  # as many filters as before
        await rig.set(one, "FilterPolicy", "")
        await rig.set(plain, "FilterPolicy", RED)

        another = await rig.topic("u")
        await rig.open_to_all(another, "sns:Subscribe")
        await rig.queue_subscription(another, FilterPolicy=RED)
        assert await rig.refused_subscribe(another, queue_arn(ACCOUNT, "d"), FilterPolicy=RED) == FULL
        members = {"TopicArn": another, "Protocol": "sqs", "Endpoint": queue_arn(OTHER, "d")}
        await rig.by(call(OTHER), "Subscribe", **members, Attributes={"FilterPolicy": RED})  # of another account


@spec("filter-limit.keys", "filter-limit.complexity")
async def test_quotas_of_what_a_policy_holds(tmp_path: Path) -> None:
    async with open_rig(tmp_path, Clock(), Quotas(filter_policy_keys=1, filter_policy_complexity=2)) as rig:
        topic = await rig.topic()
        arn = await rig.queue_subscription(topic, "r", FilterPolicy='{"a":[1,2]}')
        for policy, text in (
            ('{"a":[1],"b":[1]}', "FilterPolicy: Filter policy can not have more than 1 keys"),
            ('{"a":[1,2,3]}', "FilterPolicy: Filter policy is too complex"),
        ):
            refusal = await rig.refused_subscribe(topic, queue_arn(ACCOUNT), FilterPolicy=policy)
            assert refusal == invalid(f"Attributes Reason: {text}")
            assert await rig.refused_set(arn, "FilterPolicy", policy) == invalid(text)
