"""Filter policies on message bodies, through botocore: which messages are delivered."""

from __future__ import annotations

import json

import pytest

from tests.integration.sns.sns_door import SnsDoor

spec = pytest.mark.spec
ANYTHING = [{"exists": True}]
NOTHING = [{"exists": False}]
RECORDS = {"Records": {"name": ["put"], "key": [{"prefix": "a"}]}}

CASES = [  # policy, matching bodies, other bodies
    pytest.param(
        {"a": ["x"]},
        ['{"a":"x"}', ' {"b":1, "a": "x"}'],
        ["x", '"x"', '["x"]', '[{"a":"x"}]', "5", "null", '{"a":"x"', "{'a':'x'}"],
        marks=spec("filter-body.object"),
    ),
    pytest.param({"a": NOTHING}, ["{}"], ["text", "[]", "null", "7"], marks=spec("filter-body.object")),
    pytest.param(
        {"a": {"b": {"c": ["x"]}}, "d": [1]},
        ['{"a":{"b":{"c":"x"}},"d":1}'],
        ['{"a":{"c":"x"},"d":1}', '{"c":"x","d":1}', '{"a":{"b":{"c":"x"}}}'],
        marks=spec("filter-body.nested", "filter.keys-and"),
    ),
    pytest.param(
        {"a.b": ["x"]},
        ['{"a":{"b":"x"}}', '{"a.b":"x"}'],
        ['{"a":{"b":"y"}}', '{"b":"x"}', '{"a":"x"}'],
        marks=spec("filter-body.dotted"),
    ),
    pytest.param({"a": {"b": ["x"]}}, ['{"a.b":"x"}'], ['{"a.b":"y"}'], marks=spec("filter-body.dotted")),
    pytest.param(
        {"a": ["x", 1, True]},
        ['{"a":["y","x"]}', '{"a":[0,1.0]}', '{"a":[[true]]}'],
        ['{"a":["y"]}', '{"a":[]}', '{"a":["1","true"]}'],
        marks=spec("filter-body.array"),
    ),
    pytest.param(
        RECORDS,
        [
            '{"Records":[{"name":"put","key":"a1"}]}',
            '{"Records":[{"name":"cut","key":"b"},{"name":"put","key":"a1"}]}',
            '{"Records":{"name":"put","key":"a1"}}',
        ],
        ['{"Records":[{"name":"put","key":"b"},{"name":"cut","key":"a1"}]}', '{"Records":[]}'],
        marks=spec("filter-body.array-of-objects"),
    ),
    pytest.param(
        {"a": ANYTHING},
        ['{"a":null}', '{"a":""}', '{"a":0}', '{"a":["x"]}'],
        ['{"b":1}', '{"a":[]}', '{"a":{}}', '{"a":{"b":1}}'],
        marks=spec("filter-body.exists"),
    ),
    pytest.param(
        {"a": {"b": NOTHING}},
        ["{}", '{"a":{"c":1}}', '{"a":1}'],
        ['{"a":{"b":1}}', '{"a":{"b":null}}'],
        marks=spec("filter-body.exists-not"),
    ),
    pytest.param({"a": [None]}, ['{"a":null}'], ["{}", '{"a":"null"}', '{"a":""}'], marks=spec("filter-body.null")),
    pytest.param(
        {"a": [{"numeric": [">=", 1, "<", 2]}]},
        ['{"a":1}', '{"a":1.99999}'],
        ['{"a":2}', '{"a":"1"}', '{"a":true}'],
        marks=spec("filter-op.range", "filter-body.numbers"),
    ),
    pytest.param(
        {"k": ["x"], "$or": [{"a": {"b": ["x"]}}, {"c": [{"suffix": "z"}]}]},
        ['{"k":"x","a":{"b":"x"}}', '{"k":"x","c":"xyz"}'],
        ['{"a":{"b":"x"}}', '{"k":"x"}', '{"k":"x","a":"x","c":"zy"}'],
        marks=spec("filter-op.or-siblings"),
    ),
]


@pytest.mark.parametrize(("policy", "met", "unmet"), CASES)
async def test_bodies(sns: SnsDoor, policy: object, met: list[str], unmet: list[str]) -> None:
    topic = await sns.topic()
    await sns.rig.queue_subscription(topic, FilterPolicy=json.dumps(policy), FilterPolicyScope="MessageBody")

    async def is_delivered(body: str) -> bool:
        await sns("Publish", TopicArn=topic, Message=body)
        return bool(sns.rig.queue.take())

    assert [await is_delivered(body) for body in met] == [True] * len(met)
    assert [await is_delivered(body) for body in unmet] == [False] * len(unmet)


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
