"""Deliveries to queues: the message that a queue gets, and the fate of a message that a queue cannot get."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cns.delivery.jobs import INLINE_BYTES_MAX
from lab.harness.clustered import CLUSTER
from lab.harness.endpoints import Endpoint
from lab.harness.running import running
from lab.harness.service import Service
from lab.harness.waiting import wait_until
from tests.acceptance.topics import Topic, arn_of, queue_for, receive_all, receive_one

BATCHES = 20
TRACE = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"


def attributes(count: int) -> dict[str, Any]:
    return {f"a{number}": {"DataType": "String", "StringValue": "v"} for number in range(count)}


@pytest.mark.spec("sns-group.to-queues", "sns-group.not-in-envelope")
@pytest.mark.parametrize("raw", ["false", "true"])
def test_the_group_goes_with_the_message(sqs: Any, topic: Topic, raw: str) -> None:
    queue = queue_for(sqs, topic.arn)
    topic.subscribe("sqs", arn_of(sqs, queue), RawMessageDelivery=raw)
    topic.publish("m", MessageGroupId="tenant-1")
    message = receive_one(sqs, queue)
    assert message["Attributes"]["MessageGroupId"] == "tenant-1"
    assert "tenant-1" not in message["Body"]


@pytest.mark.spec("sns-group.dead-letter", "sns-answer.queue-missing", "sns-dead-letter.no-error-attributes")
def test_a_queue_that_is_not_there(sqs: Any, topic: Topic) -> None:
    dead, gone = queue_for(sqs, topic.arn), queue_for(sqs, topic.arn)
    subscription = topic.subscribe("sqs", arn_of(sqs, gone), **topic.dead_letters_to(arn_of(sqs, dead)))
    sqs.delete_queue(QueueUrl=gone)
    published = topic.publish("m", MessageGroupId="tenant-1")
    letter = receive_one(sqs, dead)
    envelope = json.loads(letter["Body"])
    assert (envelope["MessageId"], subscription in envelope["UnsubscribeURL"]) == (published, True)
    assert letter["Attributes"]["MessageGroupId"] == "tenant-1"
    assert "MessageAttributes" not in letter


@pytest.mark.spec("sns-raw.trace")
@pytest.mark.parametrize("raw", ["false", "true"])
def test_the_trace_goes_on(service: Service, sqs: Any, topic: Topic, raw: str) -> None:
    queue = queue_for(sqs, topic.arn)
    topic.subscribe("sqs", arn_of(sqs, queue), RawMessageDelivery=raw)
    traced = service.client("sns")
    trace = {"X-Amzn-Trace-Id": TRACE}
    traced.meta.events.register("before-call.sns.Publish", lambda params, **_: params["headers"].update(trace))
    traced.publish(TopicArn=topic.arn, Message="m")
    assert receive_one(sqs, queue)["Attributes"]["AWSTraceHeader"] == TRACE


@pytest.mark.spec("sns-raw.too-many", "sns-attr.count")
def test_ten_attributes_are_the_most_of_a_raw_message(service: Service, sqs: Any, topic: Topic) -> None:
    queue, enveloped = queue_for(sqs, topic.arn), queue_for(sqs, topic.arn)
    subscription = topic.subscribe("sqs", arn_of(sqs, queue), RawMessageDelivery="true")
    topic.subscribe("sqs", arn_of(sqs, enveloped))
    topic.publish("many", MessageAttributes=attributes(11))
    topic.publish("few", MessageAttributes=attributes(10))
    assert receive_one(sqs, queue)["Body"] == "few"
    bodies = [json.loads(message["Body"]) for message in receive_all(sqs, enveloped, 2)]
    assert {body["Message"]: len(body["MessageAttributes"]) for body in bodies} == {"many": 11, "few": 10}
    wait_until(lambda: service.events("notification.dropped", subscription=subscription, cause="permanent:queue"))


@pytest.mark.spec("sns-attr.number-raw", "sns-attr.number-spelling", "sns-attr.binary")
def test_spelling_is_for_envelopes(sqs: Any, topic: Topic) -> None:
    raw, enveloped = queue_for(sqs, topic.arn), queue_for(sqs, topic.arn)
    topic.subscribe("sqs", arn_of(sqs, raw), RawMessageDelivery="true")
    topic.subscribe("sqs", arn_of(sqs, enveloped))
    number = {"DataType": "Number", "StringValue": "0012.50"}
    topic.publish("m", MessageAttributes={"n": number, "b": {"DataType": "Binary", "BinaryValue": b"\x00\xff"}})
    assert receive_one(sqs, raw)["MessageAttributes"]["n"]["StringValue"] == "12.5"
    assert json.loads(receive_one(sqs, enveloped)["Body"])["MessageAttributes"] == {
        "n": {"Type": "Number", "Value": "0012.50"},
        "b": {"Type": "Binary", "Value": "AP8="},
    }


@pytest.mark.spec("sns-http.confirmation-retried", "sns-http.confirmation-not-raw", "sns-dead-letter.confirmations")
def test_confirmations_are_tried_again_and_are_no_dead_letters(
    service: Service, sqs: Any, topic: Topic, endpoint: Endpoint
) -> None:
    """Under the default policy: three retries, twenty seconds apart."""
    dead = queue_for(sqs, topic.arn)
    endpoint.confirm("never")
    endpoint.behave(status=503, on="all")
    terms = {"RawMessageDelivery": "true", **topic.dead_letters_to(arn_of(sqs, dead))}
    topic.request_subscription("http", endpoint.url, **terms)

    def attempts() -> list[dict[str, Any]]:
        records: list[dict[str, Any]] = endpoint.look()["messages"]
        return [record for record in records if record["type"] == "SubscriptionConfirmation"]

    def step() -> bool:
        service.advance(5)
        return len(attempts()) >= 4

    wait_until(step, lambda: f"{len(attempts())} attempts came")
    service.advance(60)
    came = attempts()
    assert len({record["body"] for record in came}) == 1
    assert json.loads(came[0]["body"])["Type"] == "SubscriptionConfirmation"
    assert "x-amz-sns-rawdelivery" not in came[0]["headers"]
    assert receive_all(sqs, dead) == []


@pytest.mark.spec("sns-fifo.before-filters")
def test_a_duplicate_is_one_before_filters_are_asked(sns: Any, sqs: Any, new_name: Callable[[], str]) -> None:
    arn = sns.create_topic(Name=f"{new_name()}.fifo", Attributes={"FifoTopic": "true"})["TopicArn"]
    fifo, queue = Topic(sns, arn), queue_for(sqs, arn)
    policy = json.dumps({"wanted": ["yes"]})
    fifo.subscribe("sqs", arn_of(sqs, queue), RawMessageDelivery="true", FilterPolicy=policy)

    def publish(text: str, wanted: str, dedup: str) -> str:
        attribute = {"wanted": {"DataType": "String", "StringValue": wanted}}
        ids = {"MessageGroupId": "g", "MessageDeduplicationId": dedup}
        return fifo.publish(text, MessageAttributes=attribute, **ids)

    first = publish("filtered out", "no", "d")
    assert publish("a duplicate of it", "yes", "d") == first
    publish("another", "yes", "e")
    assert receive_one(sqs, queue)["Body"] == "another"


@pytest.mark.spec("sns-order.batch")
@pytest.mark.parametrize("raw", ["false", "true"])
def test_a_batch_reaches_each_queue_in_the_order_of_its_entries(sqs: Any, topic: Topic, raw: str) -> None:
    check_order_of_batches(sqs, topic, raw)


@pytest.mark.extended
def test_a_batch_keeps_its_order_over_the_http_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CNS_QUEUE_PORT", "http")
    with running(tmp_path / "data") as service:
        sns = service.client("sns")
        for raw in ("false", "true"):
            topic = Topic(sns, str(sns.create_topic(Name=f"t-{raw}")["TopicArn"]))
            check_order_of_batches(service.client("sqs"), topic, raw)


def check_order_of_batches(sqs: Any, topic: Topic, raw: str) -> None:
    queues = [queue_for(sqs, topic.arn) for _ in range(2)]
    for queue in queues:
        topic.subscribe("sqs", arn_of(sqs, queue), RawMessageDelivery=raw)
    expected = [f"{batch}/{number}" for batch in range(BATCHES) for number in range(10)]
    for batch in range(BATCHES):
        # the first body is stored apart, and is read while the others are in memory
        texts = [f"{batch}/{number}{' ' * (INLINE_BYTES_MAX if number == 0 else 0)}" for number in range(10)]
        entries = [{"Id": str(number), "Message": text} for number, text in enumerate(texts)]
        topic.sns.publish_batch(TopicArn=topic.arn, PublishBatchRequestEntries=entries)
    for queue in queues:
        bodies = [message["Body"] for message in receive_all(sqs, queue, len(expected))]
        texts = [(body if raw == "true" else json.loads(body)["Message"]).strip() for body in bodies]
        if not CLUSTER:  # in a cluster each batch is another worker's
            assert texts == expected
        by_batch = sorted(texts, key=lambda text: int(text.partition("/")[0]))
        assert by_batch == expected
