"""Filter policies on message attributes, operator by operator, through botocore: which messages are delivered."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cns_common.events.schema import NotificationDropped
from tests.integration.sns.sns_door import SnsDoor

spec = pytest.mark.spec
Attribute = dict[str, Any]
Attributes = dict[str, Attribute]


def string(text: str, data_type: str = "String") -> Attribute:
    return {"DataType": data_type, "StringValue": text}


def number(text: str) -> Attribute:
    return string(text, "Number")


def array(text: str) -> Attribute:
    return string(text, "String.Array")


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
OPERATORS = [
    # Equality.
    pytest.param(
        ["15", 15],
        [string("15"), number("15"), number("15.0"), number("1.5e1")],
        [string("15.0"), number("15.1")],
        marks=spec("filter.values-or", "filter-op.exact", "filter-op.decimal"),
    ),
    pytest.param(["15"], [string("15")], [number("15")], marks=spec("filter-op.by-type")),
    pytest.param([15], [number("15")], [string("15")], marks=spec("filter-op.by-type")),
    pytest.param(
        [0.1, 12345678901234567890],
        [number("1E-1"), number("0.100009"), number("12345678901234567890")],
        [number("0.10001"), number("12345678901234567891")],
        marks=spec("filter-op.decimal", "filter-limit.decimals"),
    ),
    pytest.param(
        [True, None],
        [array("[true]"), array("[null]")],
        [string("true"), string("null"), array("[false]")],
        marks=spec("filter-op.literals", "filter-op.by-type"),
    ),
    pytest.param(
        ["x", 5, True],
        [array('"x"'), array("5"), array("5.0"), array("true")],
        [array('"5"'), array("null"), array('"y"')],
        marks=spec("filter-attribute.array-scalar"),
    ),
    # Strings.
    pytest.param(
        [{"prefix": "bas"}], [string("baseball")], [string("a bas"), number("1")], marks=spec("filter-op.prefix")
    ),
    pytest.param(
        [{"suffix": "ball"}], [string("baseball")], [string("ballet"), number("1")], marks=spec("filter-op.suffix")
    ),
    pytest.param(
        [{"prefix": {"equals-ignore-case": "BAS"}}, {"suffix": {"equals-ignore-case": "Ll"}}],
        [string("bAseline"), string("footbaLL")],
        [string("football-base")],
        marks=spec("filter-op.ignore-case-nested"),
    ),
    pytest.param(
        [{"equals-ignore-case": "Tennis"}],
        [string("tENNIS")],
        [string("tennis!")],
        marks=spec("filter-op.ignore-case"),
    ),
    pytest.param(
        [{"wildcard": "*a*b"}],
        [string("ab"), string("xaxb")],
        [string("abx"), string("ba"), number("1")],
        marks=spec("filter-op.wildcard"),
    ),
    pytest.param(
        [{"wildcard": "a\\*b\\\\*"}],
        [string("a*b\\"), string("a*b\\c")],
        [string("axb\\"), string("a*bc")],
        marks=spec("filter-op.wildcard-escape"),
    ),
    # Anything but.
    pytest.param(
        [{"anything-but": "x"}], [string("y"), number("5")], [string("x")], marks=spec("filter-op.anything-but")
    ),
    pytest.param(
        [{"anything-but": 5}],
        [number("6"), string("5")],
        [number("5.0")],
        marks=spec("filter-op.anything-but"),
    ),
    pytest.param(
        [{"anything-but": ["x", "y"]}],
        [string("z")],
        [string("x"), string("y")],
        marks=spec("filter-op.anything-but-list"),
    ),
    pytest.param(
        [{"anything-but": [1, 2]}],
        [number("3")],
        [number("1"), number("2.0")],
        marks=spec("filter-op.anything-but-list"),
    ),
    pytest.param(
        [{"anything-but": {"prefix": "order-"}}],
        [string("data-entry")],
        [string("order-1")],
        marks=spec("filter-op.anything-but-prefix"),
    ),
    pytest.param(
        [{"anything-but": {"prefix": ["order-", "data-"]}}],
        [string("x")],
        [string("data-entry"), string("order-1")],
        marks=spec("filter-op.anything-but-prefix"),
    ),
    pytest.param(
        [{"anything-but": {"suffix": ["ball", "by"]}}],
        [string("tennis"), number("1")],
        [string("baseball"), string("rugby")],
        marks=spec("filter-op.anything-but-suffix"),
    ),
    pytest.param(
        [{"anything-but": {"wildcard": ["*ball*", "r*y"]}}],
        [string("tennis")],
        [string("baseballs"), string("rugby")],
        marks=spec("filter-op.anything-but-wildcard"),
    ),
    # Numbers.
    pytest.param(
        [{"numeric": ["=", 301.5]}],
        [number("301.5"), number("3.015e2"), number("301.500009")],
        [number("301.50001"), string("301.5")],
        marks=spec("filter-op.numeric", "filter-limit.decimals"),
    ),
    pytest.param([{"numeric": ["<", 0]}], [number("-1")], [number("0")], marks=spec("filter-op.numeric")),
    pytest.param([{"numeric": ["<=", 0]}], [number("0")], [number("1")], marks=spec("filter-op.numeric")),
    pytest.param([{"numeric": [">", 0]}], [number("1")], [number("0")], marks=spec("filter-op.numeric")),
    pytest.param([{"numeric": [">=", 0]}], [number("0")], [number("-1")], marks=spec("filter-op.numeric")),
    pytest.param(
        [{"numeric": [">=", 0, "<", 10]}],
        [number("0"), number("9.99999")],
        [number("-0.00001"), number("10")],
        marks=spec("filter-op.range"),
    ),
    pytest.param(
        [{"numeric": [">", 0, "<=", 10]}],
        [number("0.00001"), number("10")],
        [number("0"), number("10.00001")],
        marks=spec("filter-op.range"),
    ),
    # Addresses.
    pytest.param(
        [{"cidr": "10.0.0.0/24"}],
        [string("10.0.0.0"), string("10.0.0.255")],
        [string("10.0.1.0"), string("10.0.0"), number("10")],
        marks=spec("filter-op.cidr"),
    ),
    pytest.param(
        [{"cidr": "2001:db8::/32"}],
        [string("2001:DB8:1::5")],
        [string("2001:db9::5"), string("10.0.0.1")],
        marks=spec("filter-op.cidr"),
    ),
    # Existence.
    pytest.param([{"exists": True}], [string("x"), number("0"), array("[null]")], [], marks=spec("filter-op.exists")),
    # Arrays.
    pytest.param(
        ["rugby", {"prefix": "base"}],
        [array('["soccer","rugby"]'), array('["baseball"]')],
        [array('["soccer"]'), array("[]"), string('["rugby"]')],
        marks=spec("filter-attribute.array"),
    ),
    pytest.param(
        [{"anything-but": ["bad"]}],
        [array('["bad","good"]')],
        [array('["bad"]'), array("[]")],
        marks=spec("filter-attribute.array", "filter-attribute.array-anything-but"),
    ),
    pytest.param([{"anything-but": ["prod"]}], [number("5")], [string("prod")], marks=spec("filter-attribute.number")),
    pytest.param([{"numeric": [">", 4]}], [number("5")], [string("5")], marks=spec("filter-attribute.number")),
    pytest.param(
        ["x", "eA==", {"exists": True}, {"anything-but": "y"}], [], [BYTES], marks=spec("filter-attribute.binary")
    ),
    pytest.param([{"exists": False}], [BYTES], [string("x")], marks=spec("filter-attribute.binary")),
]


@pytest.mark.parametrize(("conditions", "met", "unmet"), OPERATORS)
async def test_conditions(sns: SnsDoor, conditions: object, met: list[Attribute], unmet: list[Attribute]) -> None:
    topic = await topic_with_filter(sns, {A: conditions})
    assert [await is_delivered(sns, topic, {A: attribute}) for attribute in met] == [True] * len(met)
    assert [await is_delivered(sns, topic, {A: attribute}) for attribute in unmet] == [False] * len(unmet)


X, Y = string("x"), string("y")
SEVERAL = [
    pytest.param({A: ["x"], "b": ["y"]}, [{A: X, "b": Y}], [{A: X}, {A: X, "b": X}], marks=spec("filter.keys-and")),
    pytest.param({A: ["x"]}, [{A: X, "b": Y}], [{"b": X}], marks=spec("filter.keys-and")),
    pytest.param({A: [{"anything-but": "x"}]}, [{A: Y}], [{}, {"b": Y}], marks=spec("filter-attribute.absent")),
    pytest.param({A: [{"exists": True}]}, [{A: Y}], [{}, {"b": Y}], marks=spec("filter-attribute.absent")),
    pytest.param({A: ["x", None]}, [{A: X}], [{}, {"b": X}], marks=spec("filter-attribute.absent")),
    pytest.param(
        {A: [{"exists": False}]}, [{"b": Y}], [{A: Y}], marks=spec("filter-attribute.absent", "filter-op.exists")
    ),
    pytest.param({A: [{"exists": False}]}, [{"b": BYTES}], [{}], marks=spec("filter-attribute.none-at-all")),
    pytest.param(
        {"$or": [{A: ["x"]}, {"b": ["y"]}]},
        [{A: X}, {"b": Y}, {A: X, "b": Y}],
        [{A: Y, "b": X}, {}],
        marks=spec("filter-op.or"),
    ),
    pytest.param(
        {"c": ["x"], "$or": [{A: ["x"]}, {"b": ["y"]}]},
        [{"c": X, A: X}, {"c": X, "b": Y}],
        [{A: X}, {"c": X}, {"c": Y, A: X}],
        marks=spec("filter-op.or-siblings"),
    ),
]


@pytest.mark.parametrize(("policy", "met", "unmet"), SEVERAL)
async def test_several_keys(sns: SnsDoor, policy: object, met: list[Attributes], unmet: list[Attributes]) -> None:
    topic = await topic_with_filter(sns, policy)
    assert [await is_delivered(sns, topic, attributes) for attributes in met] == [True] * len(met)
    assert [await is_delivered(sns, topic, attributes) for attributes in unmet] == [False] * len(unmet)


@spec("filter.none")
async def test_without_a_policy_everything_comes(sns: SnsDoor) -> None:
    topic = await sns.topic()
    await sns.rig.queue_subscription(topic)
    assert await is_delivered(sns, topic, {})
    assert await is_delivered(sns, topic, {A: X})


@spec("filter-attribute.malformed")
@pytest.mark.parametrize("malformed", [array("not-json"), array('["x"'), array('{"x":1}'), number(".5")])
async def test_malformed_attributes_fail_filtered_deliveries_alone(sns: SnsDoor, malformed: Attribute) -> None:
    topic = await topic_with_filter(sns, {A: ["x"]})
    plain = await sns.rig.queue_subscription(topic, "plain")
    body = await sns.rig.queue_subscription(topic, "body", FilterPolicy='{"k":["v"]}', FilterPolicyScope="MessageBody")
    await sns("Publish", TopicArn=topic, Message='{"k":"v"}', MessageAttributes={A: X, "elsewhere": malformed})
    assert set(sns.rig.endpoint_job().subscriptions) == {plain, body}
    (dropped,) = [event for event in sns.rig.events.events if isinstance(event, NotificationDropped)]
    assert dropped.cause == "invalid_attributes"
