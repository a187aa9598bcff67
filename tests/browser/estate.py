"""The data of the pages in the browser: queues, dead letters, a topic with an endpoint that is down, a report."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cns.client import Client, Credentials
from cns_pipeline.reports.findings.find import find
from cns_pipeline.reports.page.page import draw_page
from lab.harness.ports import free_port
from lab.harness.running import Up
from lab.harness.waiting import wait_until
from tests.acceptance.topics import Topic, arn_of, queue_for
from tests.pipeline.health.sample_health import SAMPLE_HEALTH
from tests.pipeline.reports.sample_report import SAMPLE

REGION = "us-east-1"
FAILURES = 25
REPORT = "2026-11-22"
GIVES_UP = json.dumps({"healthyRetryPolicy": {"minDelayTarget": 1, "maxDelayTarget": 1, "numRetries": 0}})
KIND = {"kind": {"DataType": "String", "StringValue": "new"}}


@dataclass(frozen=True, kw_only=True)
class Estate:
    queue: str
    dead: str
    topic: str
    subscription: str
    message: str
    link: str
    """Opens the portal of the subscription whose endpoint is down."""

    def account_pages(self) -> dict[str, str]:
        """Paths by a short name: every page of an account."""
        topic = f"/ui/topics/{self.topic}"
        return {
            "queues": "/ui/queues",
            "queue": f"/ui/queues/{self.queue}",
            "dead-letter-queue": f"/ui/queues/{self.dead}",
            "topics": "/ui/topics",
            "topic": topic,
            "subscription": f"{topic}/subscriptions/{self.subscription}",
            "messages": "/ui/messages",
            "message": f"/ui/messages/{self.message}",
            "deliveries": "/ui/deliveries?by=subscription",
            "dead-letters": "/ui/dead-letters",
            "endpoints": "/ui/endpoints",
            "service": "/ui/service",
            "failure": "/ui/queues/none",
        }

    def operator_pages(self) -> dict[str, str]:
        paths = {
            "accounts": "/ui/accounts",
            "acts": "/ui/acts",
            "reports": "/ui/reports",
            "report": f"/ui/reports/{REPORT}",
        }
        return {**paths, "operator-service": "/ui/service", "operator-endpoints": "/ui/endpoints"}


def furnish(service: Up) -> Estate:
    """Make something for every page, and wait until it shows."""
    sqs, sns = (service.client(name, region_name=REGION) for name in ("sqs", "sns"))
    topic = Topic(sns, sns.create_topic(Name="orders-placed-in-the-shop")["TopicArn"])
    dead = queue_for(sqs, topic.arn, "orders-dead-letters")
    queue = queue_for(sqs, topic.arn, "orders")
    redrive = json.dumps({"deadLetterTargetArn": arn_of(sqs, dead), "maxReceiveCount": 3})
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"RedrivePolicy": redrive})
    for n in range(5):
        sqs.send_message(QueueUrl=queue, MessageBody=json.dumps({"order": n, "total": 12.5}), MessageAttributes=KIND)
    topic.subscribe("sqs", arn_of(sqs, queue))
    topic.request_subscription("email", "reader@example.com")
    sns.subscribe(
        TopicArn=topic.arn,
        Protocol="sqs",
        Endpoint=arn_of(sqs, queue_for(sqs, topic.arn, "paid-orders")),
        Attributes={"FilterPolicy": '{"kind":["paid"]}'},
    )
    subscription = _subscribe_endpoint_that_is_down(service, topic, arn_of(sqs, dead))
    messages = [topic.publish("order 0")]  # without attributes its letter is kept whole, so it can be sent again
    messages += [topic.publish(f"order {n}", MessageAttributes=KIND) for n in range(1, FAILURES)]
    _write_report(service.data)
    wait_until(lambda: _count(sqs, dead) >= FAILURES - 5)  # behind an open breaker the others wait
    return Estate(
        queue="orders",
        dead="orders-dead-letters",
        topic=topic.arn.rpartition(":")[2],
        subscription=subscription.rpartition(":")[2],
        message=messages[0],
        link=_portal_link(service, subscription),
    )


def _portal_link(service: Up, subscription: str) -> str:
    keys = service.environment
    credentials = Credentials(key_id=keys["AWS_ACCESS_KEY_ID"], secret=keys["AWS_SECRET_ACCESS_KEY"])
    with Client(service.url, subscription.split(":")[4], credentials, region=REGION) as client:
        return client.create_portal_link(subscription).url


def _subscribe_endpoint_that_is_down(service: Up, topic: Topic, dead: str) -> str:
    """Subscribed while it answered, at a port where nothing listens any more."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/hooks/orders"
    attributes = {"DeliveryPolicy": GIVES_UP, **topic.dead_letters_to(dead)}
    with socket.create_server(("127.0.0.1", port)) as listener:
        asked: Any = topic.sns.subscribe(
            TopicArn=topic.arn, Protocol="http", Endpoint=url, Attributes=attributes, ReturnSubscriptionArn=True
        )
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as file:
            token = _confirmation(file)
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
    topic.sns.confirm_subscription(TopicArn=topic.arn, Token=token)
    return str(asked["SubscriptionArn"])


def _confirmation(file: Any) -> str:
    """The token in the request that an endpoint gets."""
    length = 0
    while (line := file.readline().strip()) != b"":
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    return str(json.loads(file.read(length))["Token"])


def _write_report(data: Path) -> None:
    directory = data / "pipeline" / "reports" / REPORT
    directory.mkdir(parents=True)
    page = draw_page(SAMPLE, find(SAMPLE, SAMPLE_HEALTH), SAMPLE_HEALTH)
    (directory / "report.html").write_text(page, encoding="utf-8")


def _count(sqs: Any, queue: str) -> int:
    name = "ApproximateNumberOfMessages"
    return int(sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=[name])["Attributes"][name])
