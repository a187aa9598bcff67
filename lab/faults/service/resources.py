"""The resources of a round: queues, topics, confirmed subscriptions; made once, and copied for each round."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import boto3
import msgspec

from lab.faults.accounting.failing_endpoints import DOOMED, FAILING, POLICIES, SUBSCRIPTIONS, FailingEndpoints
from lab.faults.service.wire import Wire
from lab.harness.processes import HOST
from lab.harness.signing import Credentials
from lab.harness.waiting import wait_until

WIDE_SUBSCRIPTIONS = 102
"""More than a hundred: a producer must fan out."""
VISIBILITY_S = 30
REDRIVE_VISIBILITY_S = 1
REDRIVE_RECEIVES_MAX = 2
JUMP_S = VISIBILITY_S + 1
"""The time by which the clock is moved, so that every lease runs out."""
PART_POLICY = '{"part": ["yes"]}'
FIFO = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
RAW = {"RawMessageDelivery": "true"}


class RoundResources(msgspec.Struct, frozen=True, kw_only=True):
    """The HTTP endpoints of `news` and `wide` are the receiver's; `news` has a queue, too, which gets envelopes.
    `ordered` is a FIFO topic with FIFO queues only."""

    data: Path  # of the embedded form
    port: int
    journal: Path  # the receiver's
    credentials: Credentials
    standard: str  # queue URLs
    fifo: str
    redrive: str  # FIFO, with a redrive policy to `dead_letter_queue`
    dead_letter_queue: str
    news_queue: str
    news: str  # topic ARNs
    wide: str
    ordered: str
    in_order: str  # queue URLs of the subscriptions of `ordered`: raw
    in_envelopes: str
    in_part: str  # with a filter policy
    subscribers: dict[str, int]  # HTTP subscriptions by topic
    failing_endpoints: FailingEndpoints | None = None  # only in the embedded form

    @property
    def ordered_queues(self) -> tuple[str, ...]:
        return (self.in_order, self.in_envelopes, self.in_part)

    @property
    def fifo_queues(self) -> tuple[str, ...]:
        return (self.fifo, self.redrive, self.dead_letter_queue, *self.ordered_queues)

    @property
    def envelope_queues(self) -> tuple[str, ...]:
        """Queues whose messages are notifications in envelopes."""
        undelivered = (self.failing_endpoints.undelivered,) if self.failing_endpoints else ()
        return (self.news_queue, self.in_envelopes, *undelivered)

    def wire(self) -> Wire:
        return Wire(self.port, self.credentials)


class ResourceMaker:
    """Makes the resources of one account. `receiver` is the URL of a fault receiver, with its journal."""

    def __init__(self, port: int, credentials: Credentials, receiver: str, journal: Path) -> None:
        session = boto3.session.Session(credentials.key_id, credentials.secret, region_name=credentials.region)
        url = f"http://{HOST}:{port}"
        self._sqs: Any = session.client("sqs", endpoint_url=url)
        self._sns: Any = session.client("sns", endpoint_url=url)
        self._port = port
        self._credentials = credentials
        self._receiver = receiver
        self._journal = journal

    def make(self, data: Path = Path()) -> RoundResources:
        """Make queues, topics and subscriptions; return when these are confirmed."""
        news, wide = self._topic("news"), self._topic("wide")
        dead_letter_queue = self._queue("dead-letters.fifo", **FIFO)
        redrive = {"deadLetterTargetArn": self._arn(dead_letter_queue), "maxReceiveCount": REDRIVE_RECEIVES_MAX}
        ordered = self._topic("ordered.fifo", FifoTopic="true", ContentBasedDeduplication="true")
        made = RoundResources(
            data=data,
            port=self._port,
            journal=self._journal,
            credentials=self._credentials,
            standard=self._queue("standard"),
            fifo=self._queue("groups.fifo", **FIFO),
            redrive=self._queue("redrive.fifo", **FIFO, RedrivePolicy=_json(redrive)),
            dead_letter_queue=dead_letter_queue,
            news_queue=self._queue("news"),
            news=news,
            wide=wide,
            ordered=ordered,
            in_order=self._queue("in-order.fifo", FifoQueue="true"),
            in_envelopes=self._queue("in-envelopes.fifo", FifoQueue="true"),
            in_part=self._queue("in-part.fifo", FifoQueue="true"),
            subscribers={news: 2, wide: WIDE_SUBSCRIPTIONS},
        )
        self._subscribe(ordered, "sqs", self._open_to_topics(made.in_order), **RAW)
        self._subscribe(ordered, "sqs", self._open_to_topics(made.in_envelopes))
        self._subscribe(ordered, "sqs", self._open_to_topics(made.in_part), **RAW, FilterPolicy=PART_POLICY)
        self._subscribe(news, "sqs", self._open_to_topics(made.news_queue))
        self._subscribe(news, "http", self._endpoint("news-raw"), **RAW)
        self._subscribe(news, "http", self._endpoint("news-signed"))
        for number in range(WIDE_SUBSCRIPTIONS):
            self._subscribe(wide, "http", self._endpoint(f"wide-{number}"), **RAW)
        self._wait_confirmed(news, 3)
        self._wait_confirmed(wide, WIDE_SUBSCRIPTIONS)
        return made

    def add_failing_endpoints(self, resources: RoundResources) -> RoundResources:
        topic, undelivered = self._topic("failing-endpoints"), self._queue("undelivered")
        attributes = {name: {"DeliveryPolicy": _json(policy)} for name, policy in POLICIES.items()}
        attributes[DOOMED]["RedrivePolicy"] = _json({"deadLetterTargetArn": self._open_to_topics(undelivered)})
        arns = {
            name: self._subscribe(topic, "http", self._endpoint(name), **attributes.get(name, {}))
            for name in SUBSCRIPTIONS
        }
        self._wait_confirmed(topic, len(SUBSCRIPTIONS))
        failing = FailingEndpoints(
            topic=topic,
            failing=arns[FAILING],
            doomed=arns[DOOMED],
            undelivered=undelivered,
            receiver=self._receiver,
        )
        subscribers = resources.subscribers | {topic: len(SUBSCRIPTIONS)}
        return msgspec.structs.replace(resources, failing_endpoints=failing, subscribers=subscribers)

    def _endpoint(self, name: str) -> str:
        return f"{self._receiver}/endpoint/{name}"

    def _queue(self, name: str, **attributes: str) -> str:
        attributes["VisibilityTimeout"] = str(VISIBILITY_S)
        return str(self._sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"])

    def _arn(self, url: str) -> str:
        answer = self._sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
        return str(answer["Attributes"]["QueueArn"])

    def _open_to_topics(self, url: str) -> str:
        """Let every topic send to the queue. Returns the queue's ARN."""
        arn = self._arn(url)
        allowed = {"Effect": "Allow", "Principal": {"Service": "sns.amazonaws.com"}, "Action": "sqs:SendMessage"}
        policy = _json({"Statement": [{**allowed, "Resource": arn}]})
        self._sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})
        return arn

    def _topic(self, name: str, **attributes: str) -> str:
        return str(self._sns.create_topic(Name=name, Attributes=attributes)["TopicArn"])

    def _subscribe(self, topic: str, protocol: str, endpoint: str, **attributes: str) -> str:
        """Returns the subscription's ARN."""
        answer = self._sns.subscribe(
            TopicArn=topic, Protocol=protocol, Endpoint=endpoint, Attributes=attributes, ReturnSubscriptionArn=True
        )
        return str(answer["SubscriptionArn"])

    def _wait_confirmed(self, topic: str, n: int) -> None:
        def confirmed() -> bool:
            attributes = self._sns.get_topic_attributes(TopicArn=topic)["Attributes"]
            return int(attributes["SubscriptionsConfirmed"]) == n

        wait_until(confirmed, lambda: f"the subscriptions of {topic} are not confirmed")


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
