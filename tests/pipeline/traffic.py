"""Traffic of every kind on a running service: what is delivered, filtered, retried, replayed, dropped, dead-lettered,
and unsubscribed amid its retries; through small, large and FIFO topics, to HTTP endpoints, queues and a phone."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress

from botocore.exceptions import ClientError

from lab.harness.endpoints import Endpoint
from lab.harness.service import Service
from lab.harness.waiting import wait_until
from tests.acceptance.sns.test_replay import MONTH, becomes, beginning, replay, window
from tests.acceptance.topics import Topic
from tests.pipeline.ledger import Ledger, SubscriptionCounts, attribute_bytes, text_bytes
from tests.pipeline.queue_traffic import QueueTraffic

SINGLY, IN_A_BATCH, PAID = 7, 3, 3
MESSAGES = SINGLY + IN_A_BATCH
RETRIES = 2
LEFT = 2
"""Messages whose second attempt the end of their subscription prevents."""
MANY = 101
"""Subscriptions of a topic that is fanned out by a producer: one more than an endpoint job has."""
ORDERED, REPLAYED = 4, 3
LATER_S = 3_000.0
AT_ONCE = {"minDelayTarget": 1, "maxDelayTarget": 1, "numRetries": RETRIES, "numNoDelayRetries": RETRIES}
IN_HALF_AN_HOUR = {"minDelayTarget": 1_800, "maxDelayTarget": 1_800, "numRetries": 1}


def make_traffic(service: Service, receiver: str) -> Ledger:
    """Returns when everything has come to its end. The service needs a test clock."""
    return Traffic(service, receiver).run()


class Traffic:
    def __init__(self, service: Service, receiver: str) -> None:
        self.ledger = Ledger()
        self._service = service
        self._receiver = receiver
        self._sns = self.ledger.count_calls(service.client("sns"))
        self._queues = QueueTraffic(self.ledger.count_calls(service.client("sqs")), self.ledger)
        self._bodies: list[tuple[SubscriptionCounts, Callable[[], int]]] = []

    def run(self) -> Ledger:
        self._leave_a_topic()
        self._busy_topic()
        self._quiet_and_refused()
        self._unanswerable_filter()
        self._large_topic()
        self._ordered_topic()
        self._kept_topic()
        self._text_message()
        self._wait_until_done()
        for delivered, measure in self._bodies:
            delivered.size_bytes = measure()
        self._queues.use()
        moved = sum([use.moved_in + use.moved_out for use in self.ledger.queues.values()])
        wait_until(lambda: self._moved() == moved)  # a worker reports its metrics once a second
        self.ledger.depths = {arn: self._queues.depth(arn) for arn in self.ledger.queues}
        return self.ledger

    # -- topics -------------------------------------------------------------------------------------------------------

    def _busy_topic(self) -> None:
        topic = self._topic("busy")
        endpoints = {name: Endpoint(self._receiver) for name in ("good", "flaky", "dead", "refusing")}
        endpoints["flaky"].behave(status=500, times=RETRIES)
        endpoints["dead"].behave(status=500)
        endpoints["refusing"].behave(status=404)
        dead_letters = self._queues.create(topic.arn)
        redrive = topic.dead_letters_to(dead_letters)
        good = self._http(topic, endpoints["good"], AT_ONCE)
        flaky = self._http(topic, endpoints["flaky"], AT_ONCE)
        dead = self._http(topic, endpoints["dead"], AT_ONCE, **redrive)
        refusing = self._http(topic, endpoints["refusing"], AT_ONCE)
        everything = self._subscribed_queue(topic)
        paid = self._subscribed_queue(topic, FilterPolicy='{"kind":["paid"]}')

        self._publish(topic, "first")
        endpoints["flaky"].wait(received=RETRIES + 1)  # all its failures are the first message's
        for number in range(1, SINGLY):
            self._publish(topic, f"né {number}", kind="paid" if number <= PAID else "free")
        entries = [{"Id": str(number), "Message": str(number)} for number in range(IN_A_BATCH)]
        self._sns.publish_batch(TopicArn=topic.arn, PublishBatchRequestEntries=[*entries, {"Id": "no", "Message": ""}])
        published = self.ledger.published(topic.arn)
        published.accepted += IN_A_BATCH
        published.accepted_bytes += IN_A_BATCH
        published.filtered = MESSAGES - PAID

        for each, delivered in ((good, MESSAGES), (flaky, MESSAGES), (everything, MESSAGES), (paid, PAID)):
            self._all_delivered(each, delivered)
        self._fail(flaky, "first", "immediate")
        flaky.attempts += RETRIES
        self.ledger.ended_after[("delivered", 1)] -= 1
        self.ledger.ended_after[("delivered", 1 + RETRIES)] += 1
        dead.matched = dead.dead_lettered = refusing.matched = refusing.dropped = MESSAGES
        for _ in range(MESSAGES):
            self._fail(dead, "first", "immediate", "immediate")
        self._fail(refusing, *["first"] * MESSAGES, status=404)
        dead.attempts, refusing.attempts = dead.attempts_failed, refusing.attempts_failed
        self.ledger.ended_after[("dead_lettered", 1 + RETRIES)] += MESSAGES
        self.ledger.ended_after[("dropped", 1)] += MESSAGES
        self.ledger.drops["permanent:status"] += MESSAGES
        self.ledger.dead_letters[("spent:status", dead_letters)] += MESSAGES
        self.ledger.queue(dead_letters).sent += MESSAGES

    def _leave_a_topic(self) -> None:
        """The first attempt fails, and the subscription ends before the second."""
        topic = self._topic("left")
        endpoint = Endpoint(self._receiver)
        endpoint.behave(status=503)
        leaving = self._http(topic, endpoint, IN_HALF_AN_HOUR)
        for number in range(LEFT):
            self._publish(topic, str(number))
        wait_until(lambda: self._service.metric("cns_retries_scheduled_total") == LEFT)
        self._sns.unsubscribe(SubscriptionArn=leaving.subscription)
        self._service.advance(LATER_S)
        leaving.matched = leaving.dropped = LEFT
        self._fail(leaving, *["first"] * LEFT, status=503)
        leaving.attempts = LEFT
        self.ledger.ended_after[("dropped", 1)] += LEFT
        self.ledger.drops["subscription_gone"] += LEFT

    def _quiet_and_refused(self) -> None:
        topic = self._topic("quiet")
        self._publish(topic, "nobody listens")
        with suppress(ClientError):
            topic.publish("")

    def _unanswerable_filter(self) -> None:
        topic = self._topic("odd")
        plain = self._subscribed_queue(topic)
        self._subscribed_queue(topic, FilterPolicy='{"list":["a"]}')
        broken = {"list": {"DataType": "String.Array", "StringValue": "[1"}}
        topic.publish("odd", MessageAttributes=broken)
        published = self.ledger.published(topic.arn)
        published.accepted, published.accepted_bytes = 1, len("odd") + attribute_bytes(broken)
        published.unanswerable = 1
        self.ledger.drops["invalid_attributes"] += 1
        self._all_delivered(plain, 1)

    def _large_topic(self) -> None:
        topic = self._topic("large")
        texts = ("to each", "to all")
        for _ in range(MANY):
            subscribed = self._subscribed_queue(topic, RawMessageDelivery="true")
            self._all_delivered(subscribed, len(texts))
            subscribed.size_bytes = text_bytes(texts)
        for text in texts:
            self._publish(topic, text)

    def _ordered_topic(self) -> None:
        """Its second queue gets the earlier messages by a replay, and then those that follow."""
        attributes = {"FifoTopic": "true", "ArchivePolicy": MONTH}
        topic = self._topic("ordered.fifo", **attributes)
        early = self._subscribed_queue(topic, fifo=True)
        for number in range(ORDERED):
            self._publish(topic, str(number), MessageGroupId=f"g{number % 2}", MessageDeduplicationId=str(number))
        topic.publish("again", MessageGroupId="g0", MessageDeduplicationId="0")  # a duplicate is not accepted
        wait_until(lambda: self._queues.visible(early.endpoint) == ORDERED)
        policy = window(beginning(topic))
        late = self._subscribed_queue(topic, fifo=True, ReplayPolicy=policy)
        becomes(topic, late.subscription, "Completed")
        self._publish(topic, "last", MessageGroupId="g0", MessageDeduplicationId="last")
        self._all_delivered(early, ORDERED + 1)
        self._all_delivered(late, 1)
        late.replayed = ORDERED
        self.ledger.queue(late.endpoint).sent += ORDERED

    def _kept_topic(self) -> None:
        """A subscription of a standard topic gets everything a second time."""
        topic = self._topic("kept", ArchivePolicy=MONTH)
        subscribed = self._subscribed_queue(topic)
        for number in range(REPLAYED):
            self._publish(topic, str(number))
        wait_until(lambda: self._queues.visible(subscribed.endpoint) == REPLAYED)
        replay(topic, subscribed.subscription, window(beginning(topic)))
        becomes(topic, subscribed.subscription, "Completed")
        self._all_delivered(subscribed, REPLAYED)
        subscribed.replayed = REPLAYED
        self.ledger.queue(subscribed.endpoint).sent += REPLAYED

    def _text_message(self) -> None:
        text = "to a phone"
        self._sns.publish(PhoneNumber="+15550100", Message=text)
        published = self.ledger.published("")
        published.accepted, published.accepted_bytes = 1, len(text)
        sent = SubscriptionCounts(topic="", subscription="", protocol="sms", endpoint="", size_bytes=len(text))
        self.ledger.deliveries.append(sent)
        self._all_delivered(sent, 1)

    # -- the account --------------------------------------------------------------------------------------------------

    def _topic(self, name: str, **attributes: str) -> Topic:
        arn = str(self._sns.create_topic(Name=name, Attributes=attributes)["TopicArn"])
        self.ledger.account = arn.split(":")[4]
        self.ledger.published(arn)
        return Topic(self._sns, arn)

    def _subscribed_queue(self, topic: Topic, *, fifo: bool = False, **attributes: str) -> SubscriptionCounts:
        queue = self._queues.create(topic.arn, fifo=fifo)
        arn = topic.subscribe("sqs", queue, **attributes)
        subscribed = SubscriptionCounts(topic=topic.arn, subscription=arn, protocol="sqs", endpoint=queue)
        self.ledger.deliveries.append(subscribed)
        if "RawMessageDelivery" not in attributes:
            self._bodies.append((subscribed, lambda: self._queues.take_all(queue)))
        return subscribed

    def _http(self, topic: Topic, endpoint: Endpoint, retries: dict[str, int], **attributes: str) -> SubscriptionCounts:
        terms = {"DeliveryPolicy": json.dumps({"healthyRetryPolicy": retries})}
        arn = topic.subscribe("http", endpoint.url, **terms, **attributes)
        host = self._receiver.removeprefix("http://")
        subscribed = SubscriptionCounts(topic=topic.arn, subscription=arn, protocol="http", endpoint=host)
        self.ledger.deliveries.append(subscribed)
        self.ledger.confirmations += 1
        self._bodies.append((subscribed, lambda: _accepted_bytes(endpoint)))
        return subscribed

    def _publish(self, topic: Topic, text: str, kind: str = "", **more: str) -> None:
        attributes = {"kind": {"DataType": "String", "StringValue": kind}} if kind else {}
        topic.publish(text, MessageAttributes=attributes, **more)
        published = self.ledger.published(topic.arn)
        published.accepted += 1
        published.accepted_bytes += len(text.encode()) + attribute_bytes(attributes)

    def _all_delivered(self, subscribed: SubscriptionCounts, n: int) -> None:
        """`n` messages were matched and delivered by their first attempts."""
        subscribed.matched = subscribed.attempts = subscribed.delivered = n
        self.ledger.ended_after[("delivered", 1)] += n
        if subscribed.protocol == "sqs":
            self.ledger.queue(subscribed.endpoint).sent += n

    def _fail(self, subscribed: SubscriptionCounts, *phases: str, status: int = 500) -> None:
        subscribed.attempts_failed += len(phases)
        self.ledger.failures.update([("status", status, phase) for phase in phases])

    # -- the end ------------------------------------------------------------------------------------------------------

    def _moved(self) -> float:
        return sum([self._service.metric("cns_queue_messages_total", action=f"moved_{way}") for way in ("in", "out")])

    def _wait_until_done(self) -> None:
        ledger = self.ledger
        expected = {
            "cns_deliveries_total": ledger.total("delivered", "replayed") + ledger.confirmations,
            "cns_notifications_dead_lettered_total": ledger.total("dead_lettered"),
            "cns_notifications_dropped_total": sum(ledger.drops.values()),
        }

        def counted() -> dict[str, float]:
            samples = self._service.samples()
            return {name: sum(n for (found, _), n in samples.items() if found == name) for name in expected}

        wait_until(lambda: counted() == expected, lambda: f"{counted()} of {expected}")


def _accepted_bytes(endpoint: Endpoint) -> int:
    return sum([int(record["body_bytes"]) for record in endpoint.notifications() if record["status"] == 200])
