"""Topics and subscriptions over REST."""

from __future__ import annotations

import json
from collections.abc import Callable

import httpx

from cns.client import Client
from tests.acceptance.rest.refusals import refusal_of


def test_a_topic_delivers_to_a_queue(
    rest: Client, http: httpx.Client, account: str, queue_name: str, new_name: Callable[[], str]
) -> None:
    topic = rest.create_topic(new_name())
    queue = rest.show_queue(queue_name)
    statement = {"Effect": "Allow", "Principal": "*", "Action": "sqs:SendMessage", "Resource": queue.arn}
    rest.change_queue(queue_name, {"Policy": json.dumps({"Statement": [statement]})})
    subscription = rest.subscribe(topic.name, "sqs", queue.arn)
    assert [one.arn for one in rest.list_topic_subscriptions(topic.name).subscriptions] == [subscription.arn]
    path = f"/accounts/{account}/topics/{topic.name}/subscriptions/{subscription.arn.rpartition(':')[2]}"
    changed = http.patch(path, json={"attributes": {"RawMessageDelivery": "true"}})
    assert changed.json()["attributes"]["RawMessageDelivery"] == "true"
    published = rest.publish_message(topic.name, "news", subject="s")
    assert published.message_id
    message = rest.next_message(queue_name, wait_seconds=20)
    assert message is not None
    assert message.body == "news"
    assert http.delete(path).status_code == 204
    assert http.get(path).status_code == 404
    rest.delete_topic(topic.name)
    assert refusal_of(rest.publish_message, topic.name, "lost") == (404, "NotFound")


def test_numbers_and_booleans_stand_for_their_text(
    http: httpx.Client, account: str, new_name: Callable[[], str]
) -> None:
    """The AWS protocols have attributes as texts only; JSON has types."""
    queue, topic = f"/accounts/{account}/queues/{new_name()}", f"/accounts/{account}/topics/{new_name()}"
    name = queue.rpartition("/")[2]
    attributes = {"VisibilityTimeout": 60, "SqsManagedSseEnabled": False}
    made = http.post(f"/accounts/{account}/queues", json={"name": name, "attributes": attributes})
    assert made.status_code == 201, made.text
    changed = http.patch(queue, json={"attributes": {"DelaySeconds": 5}}).json()["attributes"]
    found = {key: changed[key] for key in ("VisibilityTimeout", "DelaySeconds", "SqsManagedSseEnabled")}
    assert found == {"VisibilityTimeout": "60", "DelaySeconds": "5", "SqsManagedSseEnabled": "false"}
    http.post(f"/accounts/{account}/topics", json={"name": topic.rpartition("/")[2]})
    subscribed = {"protocol": "sqs", "endpoint": changed["QueueArn"], "attributes": {"RawMessageDelivery": True}}
    arn = http.post(f"{topic}/subscriptions", json=subscribed).json()["arn"]
    one = f"{topic}/subscriptions/{arn.rpartition(':')[2]}"
    assert http.get(one).json()["attributes"]["RawMessageDelivery"] == "true"
    sent = {"body": "m", "attributes": {"n": {"dataType": "Number", "stringValue": 7}}}
    assert http.post(f"{queue}/messages", json=sent).status_code == 201
    for wrong in (None, ["60"], "x", 1.5, -1):
        refused = http.patch(queue, json={"attributes": {"VisibilityTimeout": wrong}})
        assert refused.status_code == 400, refused.text


def test_topics_are_listed_and_changed(
    rest: Client, http: httpx.Client, account: str, new_name: Callable[[], str]
) -> None:
    topic = rest.create_topic(new_name())
    after, found = "", False
    while not found:
        page = rest.list_topics(after)
        found = topic.arn in page.topics
        assert found or page.next
        after = page.next or ""
    path = f"/accounts/{account}/topics/{topic.name}"
    assert http.patch(path, json={"attributes": {"DisplayName": "News"}}).json()["attributes"]["DisplayName"] == "News"
    refused = http.patch(path, json={"attributes": {"Colour": "red"}})
    assert (refused.status_code, refused.json()["code"]) == (400, "InvalidParameter")
    assert http.post(f"{path}/confirmations", json={"token": "x"}).status_code == 400
    assert topic.arn not in str(http.get(f"/accounts/{account}/subscriptions").json())
