"""Why a message did not arrive: each of eight causes is found in at most three clicks from the first page."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from lab.harness.endpoints import Endpoint
from lab.harness.service import Service
from lab.harness.waiting import wait_until
from tests.acceptance.pages.person import Clicks, Person
from tests.acceptance.topics import Topic, arn_of, queue_for

CLICKS_MAX = 3
WAITS_LONG = json.dumps({"healthyRetryPolicy": {"minDelayTarget": 900, "maxDelayTarget": 900, "numRetries": 3}})
GIVES_UP = json.dumps({"healthyRetryPolicy": {"minDelayTarget": 1, "maxDelayTarget": 1, "numRetries": 0}})
ONE_A_SECOND = json.dumps({"throttlePolicy": {"maxReceivesPerSecond": 1}})
MANY = 100  # the last of them waits for more than a minute


@dataclass(frozen=True)
class Scene:
    service: Service
    sqs: Any
    topic: Topic
    endpoint: Endpoint


def no_policy(scene: Scene) -> str:
    scene.topic.subscribe("sqs", arn_of(scene.sqs, queue_for(scene.sqs)))
    return scene.topic.publish("m")


def no_queue(scene: Scene) -> str:
    queue = queue_for(scene.sqs, scene.topic.arn)
    scene.topic.subscribe("sqs", arn_of(scene.sqs, queue))
    scene.sqs.delete_queue(QueueUrl=queue)
    return scene.topic.publish("m")


def filtered(scene: Scene) -> str:
    arn = arn_of(scene.sqs, queue_for(scene.sqs, scene.topic.arn))
    scene.topic.subscribe("sqs", arn, FilterPolicy='{"kind":["paid"]}')
    return scene.topic.publish("m", MessageAttributes={"kind": {"DataType": "String", "StringValue": "new"}})


def unconfirmed(scene: Scene) -> str:
    scene.endpoint.confirm("never")
    scene.topic.request_subscription("http", scene.endpoint.url)
    return scene.topic.publish("m")


def down(scene: Scene) -> str:
    scene.topic.subscribe("http", scene.endpoint.url, DeliveryPolicy=WAITS_LONG)
    scene.endpoint.behave(refuse=True)
    return scene.topic.publish("m")


def throttled(scene: Scene) -> str:
    scene.topic.subscribe("http", scene.endpoint.url, DeliveryPolicy=ONE_A_SECOND)
    return [scene.topic.publish(str(n)) for n in range(MANY)][-1]


def paused(scene: Scene) -> str:
    arn = scene.topic.subscribe("http", scene.endpoint.url)
    sns = scene.topic.sns
    sns.set_subscription_attributes(SubscriptionArn=arn, AttributeName="DeliveryPaused", AttributeValue="true")
    return scene.topic.publish("m")


def muted(scene: Scene) -> str:
    number = f"+1555{uuid.uuid4().int % 10**7:07}"
    account = scene.topic.arn.split(":")[4]
    scene.service.cns("sms", "opt-out", number, "--account", account)
    return str(scene.topic.sns.publish(PhoneNumber=number, Message="m")["MessageId"])


def spent(scene: Scene) -> str:
    scene.topic.subscribe("http", scene.endpoint.url, DeliveryPolicy=GIVES_UP)
    scene.endpoint.behave(status=500)
    return scene.topic.publish("m")


CAUSES: dict[Callable[[Scene], str], str] = {
    no_policy: "No policy: the queue does not allow the topic to send.",
    no_queue: "No such queue.",
    filtered: "Key <code>kind</code> of its policy was not met; it asks now for one of [",
    unconfirmed: "Unconfirmed: the endpoint had not confirmed the subscription.",
    down: "The endpoint is down: no connection.",
    throttled: "Throttled: 1 a second, ",
    paused: "Paused: the subscription holds its messages.",
    muted: "Muted: the phone number has opted out.",
    spent: "All attempts are spent: the endpoint answered with an error.",
}


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.__name__)
def test_the_cause_is_found_in_three_clicks(
    cause: Callable[[Scene], str], person: Person, service: Service, sqs: Any, topic: Topic, endpoint: Endpoint
) -> None:
    message = f"/ui/messages/{cause(Scene(service, sqs, topic, endpoint))}"
    clicks = Clicks(person)
    clicks.click("/ui/messages")
    wait_until(lambda: clicks.has(message), clicks.page)  # events are written within a second
    clicks.click(message)
    wait_until(lambda: CAUSES[cause] in clicks.page(), clicks.page)
    assert clicks.count <= CLICKS_MAX


def test_the_search_box_of_every_page_finds_a_message(person: Person, topic: Topic) -> None:
    published = topic.publish("m")
    for page in ("/ui/queues", "/ui/topics", "/ui/deliveries", "/ui/service"):
        assert 'action="/ui/search"' in person.http.get(page).text
    found: list[str] = []

    def shown() -> bool:
        found[:] = [person.http.get("/ui/search", params={"q": f" {published.upper()} "}).text]
        return published in found[0] and "No subscription was to get it." in found[0]

    wait_until(shown, lambda: found[0])
    assert person.http.get("/ui/search", params={"q": "some-queue"}).url.query == b"prefix=some-queue"
    assert person.http.get("/ui/search", params={"q": "<b>"}).status_code == 400


def test_a_topic_and_a_subscription_lead_to_their_messages(
    person: Person, topic: Topic, endpoint: Endpoint, sqs: Any
) -> None:
    subscription = topic.subscribe("http", endpoint.url)
    message = f"/ui/messages/{topic.publish('m')}"
    name, identifier = topic.arn.rpartition(":")[2], subscription.rpartition(":")[2]
    clicks = Clicks(person, f"/ui/topics/{name}")
    wait_until(lambda: clicks.has(message), clicks.page)
    clicks.click(f"/ui/topics/{name}/subscriptions/{identifier}")
    wait_until(lambda: clicks.has(message), clicks.page)
    clicks.click(message)
    wait_until(lambda: "attempt 1 (first): accepted 200" in clicks.page(), clicks.page)
    topic.request_subscription("email", "reader@example.com")
    alone = Clicks(person, f"{message}?subscription={subscription}").page()
    assert "accepted 200" in alone and "reader@example.com" not in alone
    elsewhere = subscription.replace(name, "another-topic")
    for wrong, status in ((elsewhere, 404), ("moon", 400), ("arn:" * 200, 400)):
        assert person.http.get(message, params={"subscription": wrong}).status_code == status


def test_failures_are_shown_by_cause(person: Person, topic: Topic, endpoint: Endpoint) -> None:
    message = f"/ui/messages/{down(Scene(None, None, topic, endpoint))}"  # type: ignore[arg-type]  # it uses neither
    for by in ("topic", "endpoint", "subscription"):
        clicks = Clicks(person, f"/ui/deliveries?by={by}")
        wait_until(partial(clicks.has, message), clicks.page)
        assert "The endpoint is down: no connection" in clicks.page()
    assert person.http.get("/ui/deliveries", params={"by": "moon"}).status_code == 400
