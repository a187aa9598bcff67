"""The filter policy tester: it says whether a message matches, and which key does not; bad input gets its reason."""

from __future__ import annotations

import html

import pytest

from tests.acceptance.pages.person import Person
from tests.acceptance.topics import Topic

POLICY = '{"kind": ["new"], "size": [{"numeric": [">", 5]}]}'


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"policy": POLICY, "attributes": '{"kind": "new", "size": 7}'}, "Matches."),
        (
            {"policy": POLICY, "attributes": '{"kind": "new", "size": 3}'},
            "key <code>size</code>: value 3 matches none of [> 5]",
        ),
        ({"policy": POLICY, "attributes": '{"kind": ["old", "new"]}'}, "key <code>size</code>: it is not there"),
        ({"policy": POLICY, "attributes": '{"kind": {"DataType": "String", "StringValue": "x"}}'}, 'value "x" matches'),
        ({"policy": '{"a": {"b": ["c"]}}', "scope": "MessageBody", "body": '{"a": {"b": "c"}}'}, "Matches."),
        ({"policy": '{"a": ["c"]}', "scope": "MessageBody", "body": "plain"}, "The body is no JSON object"),
        ({"policy": '{"a": {"b": ["c"]}}'}, "does not support nested filter policy"),
        ({"policy": "{"}, "FilterPolicy: "),
        ({"policy": POLICY, "attributes": "[1]"}, "The attributes must be JSON like"),
        ({"policy": POLICY, "attributes": '{"a": null}'}, "The attributes must be JSON like"),
        ({"policy": POLICY, "attributes": "[" * 5_000}, "The attributes must be JSON like"),
    ],
)
def test_a_policy_is_tried(person: Person, topic: Topic, fields: dict[str, str], shown: str) -> None:
    answer = person.post(f"/ui/topics/{topic.arn.rpartition(':')[2]}/trial", **fields)
    assert answer.status_code == 200
    assert shown in html.unescape(answer.text)


def test_the_trial_of_a_subscription_begins_with_its_policy(person: Person, topic: Topic) -> None:
    arn = topic.sns.subscribe(
        TopicArn=topic.arn,
        Protocol="email",
        Endpoint="reader@example.com",
        Attributes={"FilterPolicy": '{"kind":["new"]}'},
        ReturnSubscriptionArn=True,
    )["SubscriptionArn"]
    name, identifier = arn.split(":")[-2:]
    path = f"/ui/topics/{name}/subscriptions/{identifier}"
    page = html.unescape(person.http.get(path).text)
    assert '"kind": [\n' in page and "not confirmed" in page
    answer = html.unescape(person.post(f"{path}/trial", policy='{"kind":["new"]}', attributes='{"kind": "x"}').text)
    assert "Does not match." in answer and "not met" in answer
    assert "Saved." in person.post(f"{path}/attributes", attribute="FilterPolicy", value='{"kind":["old"]}').text
    assert person.post(f"{path}/attributes", attribute="FilterPolicy", value="{").status_code == 400
