"""Filter policies of the scope MessageBody: AWS's documented examples, and what was recorded of it."""

from __future__ import annotations

import json

import pytest

from cns.filters.evaluation import matches
from cns.filters.message_values import body_values
from cns.filters.model import Scope
from cns.filters.parser import compile_stored, read_filter

Json = dict[str, object]

ORDER: Json = {
    "customer_interests": ["soccer", "rugby", "hockey"],
    "store": {"name": "example_corp"},
    "event": "order_placed",
    "price_usd": 210.75,
}
KEY: Json = {
    "object": {"key": [{"prefix": "auto-"}, "hardcodedvalue"], "nested_key": [{"exists": False}]},
    "test": [{"exists": False}],
}
CREATED: Json = {  # from the blog post that introduced payload-based filtering
    "Records": {"s3": {"object": {"key": [{"prefix": "auto-"}]}}, "eventName": [{"prefix": "ObjectCreated:"}]}
}
ALARM: Json = {
    "$or": [{"metricName": ["CPUUtilization", "ReadLatency"]}, {"namespace": ["AWS/EC2", "AWS/ES"]}],
    "detail": {
        "scope": ["Service"],
        "$or": [{"source": ["aws.cloudwatch"]}, {"type": ["CloudWatch Alarm State Change"]}],
    },
}
ALARMED = {"scope": "Service", "type": "CloudWatch Alarm State Change"}
WATCHED = {"scope": "Service", "source": "aws.cloudwatch"}


def record(name: str, key: object) -> Json:
    return {"eventSource": "aws:s3", "eventName": name, "s3": {"object": key}}


def put(key: str) -> Json:
    return record("ObjectCreated:Put", {"key": key, "size": 17})


REMOVED = record("ObjectRemoved:Delete", {"key": "auto-1.xml", "size": 17})

CASES: list[tuple[Json, object, bool]] = [
    (
        {
            "store": {"name": ["example_corp"]},
            "event": [{"anything-but": "order_cancelled"}],
            "customer_interests": ["rugby", "football"],
            "price_usd": [{"numeric": [">=", 100]}],
        },
        ORDER,
        True,
    ),
    ({"store": {"name": ["other"]}}, ORDER, False),
    ({"store": ["example_corp"]}, ORDER, False),
    # A body must be an object.
    ({"a": [{"exists": False}]}, "Regular string message", False),
    ({"a": [{"exists": False}]}, ["a"], False),
    ({"a": [{"exists": False}]}, 5, False),
    ({"a": [{"exists": False}]}, None, False),
    ({"a": [{"exists": False}]}, {}, True),
    # Values are equal by type.
    ({"a": [5]}, {"a": 5.0}, True),
    ({"a": [5]}, {"a": "5"}, False),
    ({"a": ["5"]}, {"a": 5}, False),
    ({"a": [True]}, {"a": True}, True),
    ({"a": [True]}, {"a": "true"}, False),
    ({"a": [1]}, {"a": True}, False),
    ({"a": [False]}, {"a": 0}, False),
    ({"a": [None]}, {"a": None}, True),
    ({"a": [None]}, {}, False),
    ({"a": [None]}, {"a": "null"}, False),
    ({"a": [""]}, {"a": ""}, True),
    ({"a": [{"anything-but": ["x"]}]}, {"a": None}, True),
    ({"a": [{"anything-but": ["x"]}]}, {}, False),
    ({"a": [{"numeric": ["=", 1]}]}, {"a": True}, False),
    ({"a": [{"numeric": [">=", 1, "<", 2]}]}, {"a": 1.99999}, True),
    ({"a": [{"numeric": [">=", 1, "<", 2]}]}, {"a": "1"}, False),
    # Keys mirror the body; dots stand for nesting, wherever they are.
    (KEY, {"object": {"key": "auto-test"}}, True),
    (KEY, {"object": {"key": "hardcodedvalue"}}, True),
    (KEY, {"object": {"key": "test-auto"}}, False),
    (KEY, {"object": {"key": "auto-test"}, "test": "just-exists"}, False),
    (KEY, {"object": {"key": "auto-test", "nested_key": "just-exists"}}, False),
    (KEY, {"object": {"test": "auto-test"}}, False),
    (KEY, {"test": "auto-test"}, False),
    ({"object.nested": ["v"]}, {"object": {"nested": "v"}}, True),
    ({"object.nested": ["v"]}, {"object.nested": "v"}, True),
    ({"object.nested": ["v"]}, {"object": {"nested": "w"}}, False),
    ({"object": {"nested": ["v"]}}, {"object.nested": "v"}, True),
    ({"object.nested.test": ["v"]}, {"object": {"nested": {"test": "v"}}}, True),
    ({"object.nested.test": ["v"]}, {"object.nested.test": "v"}, True),
    ({"object.nested.test": ["v"]}, {"object.nested": {"test": "v"}}, True),
    ({"object.nested.test": ["v"]}, {"object": {"nested.test": "v"}}, True),
    ({"a": {"": ["v"]}}, {"a.": "v"}, True),
    ({"": {"": ["v"]}}, {"": {"": "v"}}, True),
    ({"": {"": ["v"]}}, {"": "v"}, False),
    # exists looks at what is not an object, an empty array or missing.
    ({"a": [{"exists": True}]}, {"a": 1}, True),
    ({"a": [{"exists": True}]}, {"a": None}, True),
    ({"a": [{"exists": True}]}, {"a": ""}, True),
    ({"a": [{"exists": True}]}, {"a": ["x"]}, True),
    ({"a": [{"exists": True}]}, {"a": []}, False),
    ({"a": [{"exists": True}]}, {"a": {}}, False),
    ({"a": [{"exists": True}]}, {"a": {"b": 1}}, False),
    ({"a": [{"exists": True}]}, {"a": [{"b": 1}]}, False),
    ({"a": [{"exists": True}]}, {}, False),
    ({"a": [{"exists": False}]}, {"b": 1}, True),
    ({"a": [{"exists": False}]}, {"a": []}, True),
    ({"a": [{"exists": False}]}, {"a": {"b": 1}}, True),
    ({"a": [{"exists": False}]}, {"a": None}, False),
    ({"a": {"b": [{"exists": False}]}}, {}, True),
    ({"a": {"b": [{"exists": False}]}}, {"a": 1}, True),
    ({"a": {"b": [{"exists": False}]}}, {"a": {"c": 1}}, True),
    ({"a": {"b": [{"exists": False}]}}, {"a": {"b": 1}}, False),
    # Of an array any element.
    ({"headers": {"route-to": ["queue1"]}}, {"headers": {"route-to": ["queue1", "queue2"]}}, True),
    ({"headers": {"route-to": ["queue2"]}}, {"headers": {"route-to": ["queue1", "queue2"]}}, True),
    ({"headers": {"route-to": ["queue1"]}}, {"headers": {"route-to": ["queue3"]}}, False),
    ({"headers": {"route-to": ["queue1"]}}, {"headers": {"route-to": []}}, False),
    ({"a": ["x"]}, {"a": [[["y"], ["x"]]]}, True),
    ({"a": [{"anything-but": ["bad"]}]}, {"a": ["bad", "good"]}, True),
    ({"a": [{"anything-but": ["bad"]}]}, {"a": ["bad"]}, False),
    # Conditions on an array of objects hold inside one of them.
    (CREATED, {"Records": [put("auto-insurance-2314.xml")]}, True),
    (CREATED, {"Records": [put("home-insurance-2314.xml")]}, False),
    (CREATED, {"Records": [REMOVED]}, False),
    (CREATED, {"Records": [put("home-1.xml"), REMOVED]}, False),  # one object has the name, the other the key
    (CREATED, {"Records": [REMOVED, put("home-1.xml"), put("auto-1.xml")]}, True),
    (CREATED, {"Records": [record("ObjectCreated:Put", [[{"key": "auto-1.xml"}]]), REMOVED]}, True),
    (CREATED, {"Records": [record("ObjectRemoved:x", [[{"key": "auto-1.xml"}]]), put("home-1.xml")]}, False),
    (CREATED, {"Records": put("auto-1.xml")}, True),
    ({"a": {"x": [1], "y": [2]}}, {"a": [{"x": 1, "y": 3}, {"x": 2, "y": 2}]}, False),
    ({"a": {"x": [1], "y": [2]}}, {"a": [{"x": 1, "y": 3}, {"x": 1, "y": 2}]}, True),
    ({"a": {"x": [1]}, "b": {"y": [2]}}, {"a": [{"x": 1}], "b": [{"y": 1}, {"y": 2}]}, True),
    ({"a": {"x": [1], "y": [2]}}, {"a": [[{"x": 1}, {"y": 2}]]}, False),
    ({"a": {"x": [1], "y": [2]}}, {"a": [[{"x": 1}], [{"y": 2}]]}, False),
    ({"a": {"x": [1], "y": [2]}}, {"a": [[{"x": 1, "y": 2}], [{"y": 3}]]}, True),
    ({"a": {"x": [1], "b": {"y": [2], "z": [3]}}}, {"a": [{"x": 1, "b": [{"y": 2}, {"z": 3}]}]}, False),
    ({"a": {"x": [1], "b": {"y": [2], "z": [3]}}}, {"a": [{"x": 1, "b": [{"y": 2, "z": 3}]}]}, True),
    (
        {"a": {"x": [1], "b": {"y": [2], "z": [3]}}},
        {"a": [{"x": 1, "b": [{"y": 2}]}, {"x": 2, "b": [{"y": 2, "z": 3}]}]},
        False,
    ),
    ({"a.x": [1], "a.y": [2]}, {"a": [{"x": 1}, {"y": 2}]}, False),
    ({"a.x": [1], "a.y": [2]}, {"a": [{"x": 1}], "a.y": 2}, True),  # no element has the second key
    ({"a": {"x": [1], "y": [{"exists": False}]}}, {"a": [{"x": 1}, {"x": 2, "y": 5}]}, True),
    ({"a": {"x": [1], "y": [{"exists": False}]}}, {"a": [{"x": 1, "y": 5}, {"x": 2}]}, False),
    ({"a": {"y": [{"exists": False}]}}, {"a": [{"x": 1}, {"x": 2, "y": 5}]}, False),
    ({"a": {"y": [{"exists": False}]}}, {"a": [{"x": 1}, {"x": 2}]}, True),
    ({"a": {"x": [{"exists": False}], "y": [{"exists": False}]}}, {"a": [{"x": 1}, {"z": 1}]}, False),
    ({"a": {"x": [{"exists": False}], "y": [{"exists": False}]}}, {"a": [{"w": 1}, {"z": 1}]}, True),
    ({"a": {"x": [1], "y": [{"exists": False}, 7]}}, {"a": [{"x": 1, "y": 5}, {"x": 1, "y": 7}]}, True),
    ({"a": {"x": [1], "y": [{"exists": False}, 7]}}, {"a": [{"x": 1, "y": 5}, {"x": 2, "y": 7}]}, False),
    ({"a": {"$or": [{"x": [1], "y": [2]}, {"z": [3]}]}}, {"a": [{"x": 1}, {"y": 2}]}, False),
    ({"a": {"$or": [{"x": [1], "y": [2]}, {"z": [3]}]}}, {"a": [{"x": 1}, {"y": 2}, {"z": 3}]}, True),
    ({"a": {"x": [1], "$or": [{"y": [2]}, {"z": [3]}]}}, {"a": [{"x": 1, "z": 3}, {"y": 2}]}, True),
    ({"a": {"x": [1], "$or": [{"y": [2]}, {"z": [3]}]}}, {"a": [{"x": 1}, {"y": 2, "z": 3}]}, False),
    # $or
    (ALARM, {"metricName": "CPUUtilization", "detail": WATCHED}, True),
    (ALARM, {"metricName": "ReadLatency", "detail": WATCHED}, True),
    (ALARM, {"namespace": "AWS/EC2", "detail": WATCHED}, True),
    (ALARM, {"namespace": "AWS/ES", "detail": WATCHED}, True),
    (ALARM, {"metricName": "CPUUtilization", "detail": ALARMED}, True),
    (ALARM, {"metricName": "AWS/EC2", "detail": ALARMED}, False),
    (ALARM, {"namespace": "CPUUtilization", "detail": ALARMED}, False),
    (ALARM, {"metricName": "CPUUtilization", "detail": ALARMED | {"scope": "aws.cloudwatch"}}, False),
    (ALARM, {"metricName": "CPUUtilization", "detail": ALARMED | {"type": "CPUUtilization"}}, False),
    (ALARM, {"metricName": "CPUUtilization", "detail": {"scope": "Service"}}, False),
    (ALARM, {"metricName": "CPUUtilization", "detail": {"type": "CloudWatch Alarm State Change"}}, False),
    (ALARM, {"metricName": "CPUUtilization", "scope": "Service"}, False),
]


@pytest.mark.spec(
    "filter-body.array",
    "filter-body.array-of-objects",
    "filter-body.dotted",
    "filter-body.exists",
    "filter-body.exists-not",
    "filter-body.nested",
    "filter-body.null",
    "filter-body.numbers",
    "filter-body.object",
    "filter-op.or-siblings",
    "filter-op.range",
    "filter.keys-and",
)
@pytest.mark.parametrize(("policy", "body", "expected"), CASES)
def test_policy_of_bodies(policy: Json, body: object, expected: bool) -> None:
    stored, read = read_filter(json.dumps(policy), Scope.BODY)
    values = body_values(json.dumps(body))
    assert (values is not None and matches(read, values)) is expected
    assert compile_stored(stored, Scope.BODY) == read


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "{",
        '{"a":1',
        '{"a":1}x',
        "{'a':1}",
        '{"a":NaN}',
        '{"a":[Infinity]}',
        '{"a":01}',
        '{"a":.5}',
        "[" * 5000,
    ],
)
def test_body_that_is_no_json_is_never_matched(text: str) -> None:
    assert body_values(text) is None
