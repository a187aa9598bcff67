"""Refused filter policies: the errors of Subscribe and SetSubscriptionAttributes, and their texts."""

from __future__ import annotations

import json

import pytest

from tests.integration.sns.cns_support import ACCOUNT, queue_arn
from tests.integration.sns.sns_door import Refusal, SnsDoor, refused

spec = pytest.mark.spec
BODIES = {"FilterPolicyScope": "MessageBody"}


def of_key(condition: str) -> str:
    return f'{{"key":[{condition}]}}'


def values(n: int) -> list[str]:
    return [f"value{number}" for number in range(n)]


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


TEXTS: list[tuple[str, str, str]] = [  # policy, the beginning of the text, rule
    ('{"key":"x"}', '"key" must be an object or an array', "filter-text.object-or-array"),
    ('{"key":{"prefix":"x"}}', '"prefix" must be an object or an array', "filter-text.object-or-array"),
    ("[]", "Filter is not an object", "filter.form"),
    ('{"key":[]}', "Empty arrays are not allowed", "filter-text.empty-array"),
    (of_key('["x"]'), "Match value must be String, number, true, false, or null", "filter-text.value"),
    (of_key('{"like":"x"}'), "Unrecognized match type like", "filter-text.unknown-type"),
    (of_key('{"prefix":"a","suffix":"b"}'), "Only one key allowed in match expression", "filter-text.one-key"),
    (of_key('{"prefix":5}'), "prefix match pattern must be a string", "filter-text.prefix-string"),
    (of_key('{"suffix":["x"]}'), "suffix match pattern must be a string", "filter-text.prefix-string"),
    (of_key('{"exists":"no"}'), "exists match pattern must be either true or false.", "filter-text.exists"),
    (
        of_key('{"anything-but":{"exists":true}}'),
        "Unsupported anything-but pattern: exists",
        "filter-text.anything-but",
    ),
    (of_key('{"numeric":[">","5"]}'), "Value of > must be numeric", "filter-text.numeric-value"),
    (of_key('{"numeric":[">",20,30]}'), "Bad value in numeric range: 30", "filter-text.range-value"),
    (of_key('{"numeric":[">=",1,">",2]}'), "Bad numeric range operator: >", "filter-text.range-operator"),
    (of_key('{"numeric":["~",1]}'), "Unrecognized numeric range operator: ~", "filter-text.numeric-operator"),
    (of_key('{"numeric":[">",3,"<",1]}'), "Bottom must be less than top", "filter-text.bottom"),
    (of_key('{"numeric":["<",10,">",1]}'), "Too many elements in numeric expression", "filter-text.elements"),
    (of_key('{"numeric":["<",10,">",1]}'), "Too many elements in numeric expression", "filter-op.range"),
    (
        of_key('{"numeric":[">",20,"<",30,"<",50]}'),
        "Too many terms in numeric range expression",
        "filter-text.terms",
    ),
    (of_key('{"numeric":[1,"<="]}'), "Invalid member in numeric match: 1", "filter-text.member"),
    (
        of_key('{"anything-but":{"cidr":"test"}}'),
        'Unsupported anything-but pattern: cidr\n at [Source: (String)"{"key":[{"anything-but":{"cidr":'
        '"test"}}]}"; line: 1, column: 34]',
        "filter-op.anything-but-pattern",
    ),
    (of_key('{"cidr":"10.0.0.0"}'), "Malformed CIDR, one '/' required", "filter-text.cidr-slash"),
    (of_key('{"cidr":"10.0.0.0/x"}'), "Malformed CIDR, mask bits must be an integer", "filter-text.cidr-bits"),
    (of_key('{"cidr":"10.0/8"}'), "Nonstandard IP address: 10.0", "filter-text.cidr-address"),
    ("{", "failed to parse JSON. Unexpected end-of-input: expected close marker for Object ", "filter-text.json"),
    (
        "{invalidjson}",
        "failed to parse JSON. Unexpected character ('i' (code 105)): was expecting double-quote to start field name\n"
        " at [Source: REDACTED (`StreamReadFeature.INCLUDE_SOURCE_IN_LOCATION` disabled); line: 1, column: 2]",
        "filter-text.json",
    ),
    (of_key('{"wildcard":"a**"}'), "Consecutive wildcard characters at pos 2", "filter-op.wildcard-runs"),
    (
        of_key('{"wildcard":"*a*b*c*"}'),
        "wildcard match pattern can not have more than 3 wildcards",
        "filter-op.wildcard-most",
    ),
    ('{"$or":[{"a":["x"]}]}', "There must have at least 2 Objects in $or relationship.", "filter-op.or-two"),
    ('{"$or":["a","b"]}', "Only JSON object is allowed in array of $or relationship.", "filter-op.or-two"),
    (
        of_key('{"numeric":["=",1000000000.1]}'),
        "Value must be between -1.0E9 and 1.0E9, inclusive",
        "filter-limit.numbers",
    ),
]


@spec("filter-text.prefix")
@pytest.mark.parametrize(
    ("policy", "text"), [pytest.param(policy, text, marks=spec(rule)) for policy, text, rule in TEXTS]
)
async def test_texts(sns: SnsDoor, policy: str, text: str) -> None:
    assert [refusal.startswith(text) for refusal in await refusals_of(sns, policy)] == [True, True]


@spec("filter-text.location")
async def test_the_place_follows_the_text(sns: SnsDoor) -> None:
    place = ' at [Source: (String)"{"key":[{"suffix":100}]}"; line: 1, column: 22]'
    for refusal in await refusals_of(sns, '{ "key": [ {"suffix": 100} ] }'):
        assert refusal == f"suffix match pattern must be a string\n{place}"


KEYS = "Filter policy can not have more than 5 keys"
COMPLEX = "Filter policy is too complex"
FIVE = {f"key{number}": ["x"] for number in range(5)}
THREE_BY_OR = {"$or": [{"a": ["x"]}, {"a": ["y"]}, {"a": ["z"]}]}
LIMITS = [  # the last accepted, the first refused, and its error text
    pytest.param(FIVE, {**FIVE, "key5": ["x"]}, KEYS, marks=spec("filter-limit.keys")),
    pytest.param({"a": FIVE}, {"a": FIVE, "b": {"c": ["x"]}}, KEYS, marks=spec("filter-limit.keys")),
    pytest.param(
        {**THREE_BY_OR, "b": ["x"], "c": ["x"]},
        {**THREE_BY_OR, "b": ["x"], "c": ["x"], "d": ["x"]},
        KEYS,
        marks=spec("filter-limit.keys-or"),
    ),
    pytest.param({"a": values(150)}, {"a": values(151)}, COMPLEX, marks=spec("filter-limit.complexity")),
    pytest.param({"a": {"b": values(75)}}, {"a": {"b": values(76)}}, COMPLEX, marks=spec("filter-limit.complexity")),
    pytest.param(
        {"a": values(15), "b": values(10)},
        {"a": values(15), "b": values(11)},
        COMPLEX,
        marks=spec("filter-limit.complexity"),
    ),
    pytest.param(
        {"s": values(4), "$or": [{"a": values(5)}, {"b": values(4), "$or": [{"c": values(4)}, {"d": values(4)}]}]},
        {"s": values(4), "$or": [{"a": values(6)}, {"b": values(4), "$or": [{"c": values(4)}, {"d": values(4)}]}]},
        COMPLEX,
        marks=spec("filter-limit.complexity-or"),
    ),
    pytest.param(
        {"a": {"b": values(2), "$or": [{"c": values(1)}, {"d": values(3)}]}, "$or": [{"e": values(3)}, {"f": ["x"]}]},
        {
            "a": {"b": values(2), "$or": [{"c": values(1)}, {"d": values(3)}]},
            "$or": [{"e": values(3)}, {"f": values(2)}],
        },
        COMPLEX,
        marks=spec("filter-limit.complexity-or"),
    ),
    pytest.param(
        {"a": [{"wildcard": f"{number}*"} for number in range(100)]},
        {"a": [{"wildcard": f"{number}*"} for number in range(101)]},
        COMPLEX,
        marks=spec("filter-limit.wildcards"),
    ),
    pytest.param(
        {"a": [{"wildcard": f"*{number}*"} for number in range(33)]},
        {"a": [{"wildcard": f"*{number}*"} for number in range(34)]},
        COMPLEX,
        marks=spec("filter-limit.wildcards"),
    ),
    pytest.param(
        {"a": ["x" * (262_144 - 10)]},
        {"a": ["x" * (262_144 - 9)]},
        "Filter policy can not be larger than 262144 bytes",
        marks=spec("filter-limit.size"),
    ),
    pytest.param(
        {"a": [{"numeric": [">=", -(10**9), "<=", 10**9]}]},
        {"a": [{"numeric": ["<", -(10**9) - 1]}]},
        "Value must be between -1.0E9 and 1.0E9, inclusive",
        marks=spec("filter-limit.numbers"),
    ),
]


@pytest.mark.parametrize(("most", "more", "text"), LIMITS)
async def test_limits(sns: SnsDoor, most: object, more: object, text: str) -> None:
    assert [refusal.startswith(text) for refusal in await refusals_of(sns, compact(more))] == [True, True]
    arn = await sns.rig.queue_subscription(await sns.topic(), "most", **BODIES, FilterPolicy=compact(most))
    assert (await sns.rig.attributes(arn))["FilterPolicy"] == compact(most)


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


def compact(policy: object) -> str:
    return json.dumps(policy, separators=(",", ":"))
