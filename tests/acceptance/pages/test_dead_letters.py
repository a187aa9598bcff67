"""Dead letters on the pages: whose they are, what they say, why they are there, back with them, and no further."""

from __future__ import annotations

import html
from collections.abc import Callable
from typing import Any

from lab.harness.endpoints import Endpoint
from lab.harness.waiting import wait_until
from tests.acceptance.pages.person import Clicks, Person
from tests.acceptance.pages.test_why_not_arrived import GIVES_UP
from tests.acceptance.topics import Topic, arn_of, queue_for

LETTERS = 20


def test_dead_letters_of_a_queue(person: Person, sqs: Any, new_name: Callable[[], str]) -> None:
    dead, work = new_name(), new_name()
    assert "Created." in person.post("/ui/queues", name=dead).text
    created = person.post(
        "/ui/queues", name=work, dead_letters=dead, receives="1", visibility="0", more="DelaySeconds=0"
    )
    assert "Created." in created.text
    url = sqs.get_queue_url(QueueName=work)["QueueUrl"]
    kind = {"kind": {"DataType": "String", "StringValue": "<new>"}}
    for n in range(LETTERS):
        sqs.send_message(QueueUrl=url, MessageBody=f"letter {n}", MessageAttributes=kind)

    def moved() -> bool:
        sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)
        return f"letter {LETTERS - 1}" in html.unescape(person.http.get(f"/ui/queues/{dead}").text)

    wait_until(moved)
    clicks = Clicks(person)
    clicks.click("/ui/dead-letters")
    clicks.turn_to(f"/ui/queues/{work}")
    clicks.click(f"/ui/queues/{dead}")
    shown = clicks.page()
    assert "<code><new></code> String" in shown
    assert f"from <code>{arn_of(sqs, url)}</code>" in shown

    assert "The redrive has begun." in person.post(f"/ui/queues/{dead}/redrive", rate="1").text
    running = Clicks(person, f"/ui/queues/{dead}").page()
    assert f"of {LETTERS} moved" in running
    handle = running.partition('name="handle" value="')[2].partition('"')[0]
    assert "is being cancelled" in person.post(f"/ui/queues/{dead}/redrive/cancel", handle=handle).text
    wait_until(lambda: "Cancelled:" in Clicks(person, f"/ui/queues/{dead}").page())


def test_dead_letters_of_a_subscription_say_why(person: Person, sqs: Any, topic: Topic, endpoint: Endpoint) -> None:
    queue = queue_for(sqs, topic.arn)
    name = queue.rpartition("/")[2]
    letters = topic.dead_letters_to(arn_of(sqs, queue))
    subscription = topic.subscribe("http", endpoint.url, DeliveryPolicy=GIVES_UP, **letters)
    endpoint.behave(status=500)
    message = f"/ui/messages/{topic.publish('m')}"
    page = Clicks(person, f"/ui/queues/{name}")
    wait_until(lambda: "All attempts are spent: the endpoint answered with an error." in page.page(), page.page)
    page.click(message)
    why = "all attempts are spent: the endpoint answered with an error"
    assert f"to the dead-letter queue {arn_of(sqs, queue)}: {why}" in page.page()
    listed = Clicks(person, "/ui/dead-letters")
    topic_name, identifier = subscription.split(":")[-2:]
    listed.turn_to(f"/ui/topics/{topic_name}/subscriptions/{identifier}")
    assert listed.has(f"/ui/queues/{name}")


def test_a_queue_is_created_with_what_was_asked(person: Person, sqs: Any, new_name: Callable[[], str]) -> None:
    name = new_name()
    person.post("/ui/queues", name=name, visibility="7", delay="3", retention="90", more="MaximumMessageSize=2048\n\n")
    url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    wanted = {"VisibilityTimeout": "7", "DelaySeconds": "3", "MessageRetentionPeriod": "90"}
    assert wanted.items() <= found.items() and found["MaximumMessageSize"] == "2048"
    assert person.post("/ui/queues", name=new_name(), more="nonsense").status_code == 400
