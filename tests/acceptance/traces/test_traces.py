"""Traces from the publisher to the webhook, collected by OTLP from the real processes."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cns_pytest.http import fetch
from lab.harness.endpoints import Endpoint
from lab.harness.running import Up, running
from lab.harness.waiting import wait_until
from tests.acceptance.topics import Topic
from tests.acceptance.traces.collector import CollectedSpan, Collector, collecting


@dataclass(frozen=True)
class TracedService:
    service: Up
    collector: Collector

    def client(self, name: str, headers: dict[str, str]) -> Any:
        """A client that sends these headers."""
        client = self.service.client(name)
        client.meta.events.register("before-send", lambda request, **_: request.headers.update(headers))
        return client

    def wait(self, trace: str, count: int) -> list[CollectedSpan]:
        wait_until(lambda: len(self.collector.spans(trace)) >= count, lambda: str(self.collector.spans(trace)))
        found = self.collector.spans(trace)
        assert len(found) == count, found
        return found


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TracedService]:
    with collecting() as (collector, url):
        settings = {"CNS_OTEL_ENDPOINT": url, "CNS_OTEL_SAMPLE_RATIO": "0", "CNS_OTEL_SERVICE_NAME": "shop"}
        environment = {**settings, "OTEL_BSP_SCHEDULE_DELAY": "200"}
        with running(tmp_path_factory.mktemp("traced") / "data", environment=environment) as service:
            yield TracedService(service, collector)


def new_trace() -> tuple[str, str, str]:
    trace, span = secrets.token_hex(16), secrets.token_hex(8)
    return trace, span, f"00-{trace}-{span}-01"


def by_name(spans: list[CollectedSpan]) -> dict[str, CollectedSpan]:
    return {span.name: span for span in spans}


def test_a_trace_leads_from_the_publisher_to_the_webhook(traced: TracedService, endpoint: Endpoint) -> None:
    trace, parent, header = new_trace()
    sns = traced.service.client("sns")
    topic = Topic(sns, sns.create_topic(Name=f"t-{trace}")["TopicArn"])
    topic.subscribe("http", endpoint.url)

    message_id = traced.client("sns", {"traceparent": header}).publish(TopicArn=topic.arn, Message="m")["MessageId"]
    endpoint.wait(accepted=1)
    (arrived,) = endpoint.notifications()

    spans = by_name(traced.wait(trace, 4))
    chain = ["Publish", "deliver job", "delivery attempt", "POST"]
    assert [spans[name].parent for name in chain] == [parent, *[spans[name].id for name in chain[:-1]]]
    assert arrived["headers"]["traceparent"] == f"00-{trace}-{spans['POST'].id}-01"
    assert spans["POST"].attributes["http.response.status_code"] == 200
    assert spans["delivery attempt"].attributes["messaging.message.id"] == message_id
    assert {span.service for span in spans.values()} == {"shop"}
    assert traced.collector.paths == {"/v1/traces"}


def test_a_failed_attempt_and_the_next_one(traced: TracedService, endpoint: Endpoint) -> None:
    trace, _, header = new_trace()
    sns = traced.service.client("sns")
    topic = Topic(sns, sns.create_topic(Name=f"t-{trace}")["TopicArn"])
    policy = (
        '{"healthyRetryPolicy": {"numRetries": 1, "numNoDelayRetries": 1, "minDelayTarget": 1, "maxDelayTarget": 1}}'
    )
    topic.subscribe("http", endpoint.url, DeliveryPolicy=policy)
    endpoint.behave(status=500, times=1)

    traced.client("sns", {"traceparent": header}).publish(TopicArn=topic.arn, Message="m")
    endpoint.wait(accepted=1)

    posts = [span for span in traced.wait(trace, 7) if span.name == "POST"]
    assert [(span.failed, span.attributes["http.response.status_code"]) for span in posts] == [
        (True, 500),
        (False, 200),
    ]
    assert len({one["headers"]["traceparent"] for one in endpoint.notifications()}) == 2


def test_a_queue_message_is_as_aws_has_it(traced: TracedService, new_name: Any) -> None:
    trace, _, header = new_trace()
    sqs = traced.client("sqs", {"traceparent": header})
    url = sqs.create_queue(QueueName=new_name())["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="m")
    (message,) = sqs.receive_message(QueueUrl=url, AttributeNames=["All"], WaitTimeSeconds=20)["Messages"]
    assert "AWSTraceHeader" not in message["Attributes"]
    (span,) = traced.wait(trace, 1)
    assert (span.name, span.attributes["rpc.service"]) == ("SendMessage", "SQS")


def test_a_call_that_is_not_sampled_leaves_no_span_and_its_context_goes_on(
    traced: TracedService, endpoint: Endpoint
) -> None:
    trace, span, _ = new_trace()
    marker, _, marker_header = new_trace()
    sns = traced.service.client("sns")
    topic = Topic(sns, sns.create_topic(Name=f"t-{trace}")["TopicArn"])
    topic.subscribe("http", endpoint.url)
    context = f"00-{trace}-{span}-00"
    unsampled = traced.client("sns", {"traceparent": context}).publish(TopicArn=topic.arn, Message="m")
    without = sns.publish(TopicArn=topic.arn, Message="without")
    traced.client("sns", {"traceparent": marker_header}).publish(TopicArn=topic.arn, Message="marker")
    endpoint.wait(accepted=3)
    traced.wait(marker, 4)  # exported later than the span that must not exist
    assert traced.collector.spans(trace) == []
    contexts = {one["message_id"]: one["headers"].get("traceparent") for one in endpoint.notifications()}
    assert (contexts[unsampled["MessageId"]], contexts[without["MessageId"]]) == (context, None)


def test_without_a_collector_nothing_is_sent(service: Up, endpoint: Endpoint, topic: Topic) -> None:
    """Traces are off by default: no header is sent, and the SDK is not loaded."""
    topic.subscribe("http", endpoint.url)
    client = service.client("sns")
    _, _, header = new_trace()
    client.meta.events.register("before-send", lambda request, **_: request.headers.update({"traceparent": header}))
    client.publish(TopicArn=topic.arn, Message="m")
    endpoint.wait(accepted=1)
    (arrived,) = endpoint.notifications()
    assert "traceparent" not in arrived["headers"]


@pytest.mark.extended
def test_queues_name_the_trace_if_asked_to(tmp_path: Path, new_name: Any) -> None:
    trace, _, header = new_trace()
    with collecting() as (collector, url):
        settings = {"CNS_OTEL_ENDPOINT": url, "CNS_OTEL_QUEUE_HEADER": "on"}
        with running(tmp_path / "data", environment=settings) as service:
            sqs = TracedService(service, collector).client("sqs", {"traceparent": header})
            queue = sqs.create_queue(QueueName=new_name())["QueueUrl"]
            sqs.send_message(QueueUrl=queue, MessageBody="m")
            (message,) = sqs.receive_message(QueueUrl=queue, AttributeNames=["All"], WaitTimeSeconds=20)["Messages"]
            assert fetch(f"{service.url}/live")[0] == 200
        (span,) = [each for each in collector.spans(trace) if each.name == "SendMessage"]  # exported at its stop
    assert message["Attributes"]["AWSTraceHeader"] == f"Root=1-{trace[:8]}-{trace[8:]};Parent={span.id};Sampled=1"
