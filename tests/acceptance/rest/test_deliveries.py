"""Deliveries over REST: what was attempted, why it failed, and whether a filter policy would let a message pass."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from cns.client import ApiError, Client, Credentials
from cns.client.deliveries import Delivery
from lab.harness.endpoints import Endpoint
from lab.harness.service import REGION, Service
from lab.harness.waiting import wait_until
from tests.acceptance.topics import Topic

ABSENT = "0b6ad2b4-0000-4000-8000-000000000001"
NO_OBJECT = "the policy looks at the body, which is not a JSON object"
ONE_TRY = '{"healthyRetryPolicy":{"numRetries":0,"minDelayTarget":1,"maxDelayTarget":1}}'


def test_of_topic_subscription_and_message(rest: Client, topic: Topic, endpoint: Endpoint) -> None:
    endpoint.behave(status=500)
    failing = topic.subscribe("http", endpoint.url, DeliveryPolicy=ONE_TRY)
    name = topic.arn.rpartition(":")[2]
    queue = rest.create_queue(f"{name}-q")
    policy = '{"Statement":[{"Effect":"Allow","Principal":"*","Action":"sqs:*","Resource":"*"}]}'
    rest.change_queue(queue.name, {"Policy": policy})
    well = topic.subscribe("sqs", queue.arn)
    message = topic.publish("one")
    other = topic.publish("two")

    def notifications(**about: Any) -> list[Delivery]:
        return [one for one in rest.deliveries(**about).deliveries if one.message_type == "Notification"]

    def written() -> bool:
        return len(notifications(topic=name)) == 8

    wait_until(written, lambda: f"{rest.deliveries(name)}")
    found = rest.deliveries(name)
    assert found.complete
    assert found.every_machine
    assert {one.message_id for one in notifications(topic=name)} == {message, other}
    assert [one.at for one in found.deliveries] == sorted([one.at for one in found.deliveries], reverse=True)
    of_failing = notifications(subscription=failing)
    assert {one.subscription_arn for one in of_failing} == {failing}
    assert sorted((one.event, one.outcome, one.cause) for one in of_failing) == [
        *[("attempted", "failed", "status")] * 2,
        *[("dropped", "failed", "spent:status")] * 2,
    ]
    assert {one.status for one in of_failing if one.event == "attempted"} == {500}
    assert {one.outcome for one in rest.deliveries(subscription=well).deliveries} == {"delivered"}
    assert rest.deliveries(subscription=well, only_failures=True).deliveries == []
    assert len(rest.deliveries(name, only_failures=True).deliveries) == 4
    of_message = rest.deliveries(name, message=message).deliveries
    assert {one.message_id for one in of_message} == {message}
    assert len(of_message) == 4
    causes = {(one.event, one.cause, one.count) for one in rest.failures(name).failures}
    assert causes == {("attempted", "status", 2), ("dropped", "spent:status", 2)}
    assert {one.last_status for one in rest.failures(subscription=failing).failures} == {500, None}
    assert rest.failures(subscription=well).failures == []


def test_only_who_may_read_the_topic(service: Service, rest: Client, topic: Topic, stranger: dict[str, str]) -> None:
    name = topic.arn.rpartition(":")[2]
    keys = Credentials(key_id=stranger["key"], secret=stranger["secret"])
    with Client(service.url, rest.account, keys, region=REGION) as other:
        for work in (lambda: other.deliveries(name), lambda: other.failures(name)):
            with pytest.raises(ApiError) as refusal:
                work()
            assert refusal.value.status == 403
        allow = {"Effect": "Allow", "Principal": "*", "Action": "sns:GetTopicAttributes", "Resource": topic.arn}
        topic.set("Policy", json.dumps({"Version": "2012-10-17", "Statement": [allow]}))
        assert service.client("sns", **stranger).get_topic_attributes(TopicArn=topic.arn)["Attributes"]
        for work in (lambda: other.deliveries(name), lambda: other.deliveries(name, message=ABSENT)):
            with pytest.raises(ApiError) as refusal:  # the deliveries name the topic's subscriptions
                work()
            assert refusal.value.status == 403
    with pytest.raises(ApiError) as refusal:
        rest.deliveries(f"no-{name}")
    assert refusal.value.status == 404


@pytest.mark.parametrize(
    ("policy", "message", "attributes", "scope", "expected"),
    [
        ({"colour": ["red"]}, "", {"colour": "red"}, "MessageAttributes", (True, None, None)),
        (
            {"colour": ["red"]},
            "",
            {"colour": "blue"},
            "MessageAttributes",
            (False, "colour", 'key `colour`: value "blue" matches none of ["red"]'),
        ),
        (
            {"n": [{"numeric": [">", 5]}]},
            '{"n": 3}',
            {},
            "MessageBody",
            (False, "n", "key `n`: value 3 matches none of [> 5]"),
        ),
        ({"a": {"b": ["c"]}}, '{"a": {"b": "c"}}', {}, "MessageBody", (True, None, None)),
        (
            {"a": ["b"]},
            "text",
            {},
            "MessageBody",
            (False, None, NO_OBJECT),
        ),
    ],
)
def test_filters(
    rest: Client,
    policy: dict[str, Any],
    message: str,
    attributes: dict[str, str],
    scope: str,
    expected: tuple[bool, str | None, str | None],
) -> None:
    members = {name: {"dataType": "String", "stringValue": text} for name, text in attributes.items()}
    found = rest.test_filter(policy, message=message, attributes=members, scope=scope)
    assert (found.matches, found.failed_key, found.reason) == expected


def test_bad_filters(rest: Client) -> None:
    for policy, text in (({"a": [{"prefx": "b"}]}, "FilterPolicy"), ({}, "FilterPolicy")):
        with pytest.raises(ApiError) as refusal:
            rest.test_filter(policy)
        assert refusal.value.status == 400
        assert text in refusal.value.detail


def test_a_subscription_by_the_client(rest: Client, topic: Topic, new_name: Callable[[], str]) -> None:
    queue = rest.create_queue(new_name())
    arn = rest.subscribe(topic.arn.rpartition(":")[2], "sqs", queue.arn).arn
    assert rest.subscription_attributes(arn).attributes["PendingConfirmation"] == "false"
    changed = rest.set_subscription_attributes(arn, {"FilterPolicy": '{"a":["b"]}'})
    assert changed.attributes["FilterPolicy"] == '{"a":["b"]}'
    rest.unsubscribe(arn)
    with pytest.raises(ApiError) as refusal:
        rest.subscription_attributes(arn)
    assert refusal.value.status == 404
