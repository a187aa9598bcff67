"""A test's own account of traffic: what the events and the reports of it must count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(kw_only=True)
class TopicCounts:
    """Counts of the messages accepted for one topic; '' is the topic of direct publishes. `unanswerable` are drops that
    name no subscription, as its filter could not be evaluated."""

    accepted: int = 0
    accepted_bytes: int = 0
    filtered: int = 0
    unanswerable: int = 0


@dataclass(kw_only=True)
class SubscriptionCounts:
    """Counts of one subscription's notifications by outcome. Replays are in the fields that say so, and in
    `size_bytes`, the sum of all delivered bodies."""

    topic: str
    subscription: str  # ARN; '' for a direct publish
    protocol: str
    endpoint: str  # as events name it
    matched: int = 0
    attempts: int = 0
    attempts_failed: int = 0
    delivered: int = 0
    dead_lettered: int = 0
    dropped: int = 0
    replayed: int = 0  # each was matched by a replay and delivered by its first attempt
    size_bytes: int = 0


@dataclass(kw_only=True)
class Requests:
    requests: int = 0
    errors: int = 0
    request_bytes: int = 0
    response_bytes: int = 0


@dataclass(kw_only=True)
class QueueUse:
    sent: int = 0
    received: int = 0
    deleted: int = 0
    moved_in: int = 0
    moved_out: int = 0

    @property
    def depth(self) -> int:
        return self.sent + self.moved_in - self.deleted - self.moved_out


@dataclass(kw_only=True)
class Ledger:
    account: str = ""
    topics: dict[str, TopicCounts] = field(default_factory=dict)  # by ARN
    deliveries: list[SubscriptionCounts] = field(default_factory=list)
    failures: Counter[tuple[str, int, str]] = field(default_factory=Counter)  # cause, status, phase
    ended_after: Counter[tuple[str, int]] = field(default_factory=Counter)  # the end of a live delivery, attempts
    drops: Counter[str] = field(default_factory=Counter)  # cause
    dead_letters: Counter[tuple[str, str]] = field(default_factory=Counter)  # cause, ARN of the queue
    requests: dict[tuple[str, str], Requests] = field(default_factory=dict)  # of the account: service, operation
    confirmations: int = 0  # requests without an account: the receiver follows the links of confirmations
    queues: dict[str, QueueUse] = field(default_factory=dict)  # by ARN
    depths: dict[str, tuple[int, int, int]] = field(default_factory=dict)  # at the end: visible, in flight, delayed

    def published(self, topic: str) -> TopicCounts:
        return self.topics.setdefault(topic, TopicCounts())

    def queue(self, arn: str) -> QueueUse:
        return self.queues.setdefault(arn, QueueUse())

    def matched(self, topic: str) -> int:
        return sum([each.matched for each in self.deliveries if each.topic == topic])

    def total(self, *names: str) -> int:
        """The sum of these fields of all deliveries."""
        return sum([getattr(each, name) for each in self.deliveries for name in names])

    # -- calls --------------------------------------------------------------------------------------------------------

    def count_calls(self, client: Any) -> Any:
        """Count the requests and answers of a client of boto3. Returns the client."""
        client.meta.events.register("before-send", self._sent)
        client.meta.events.register("response-received", self._answered)
        return client

    def _sent(self, request: Any, event_name: str, **_: object) -> None:
        self._requests(event_name).request_bytes += len(request.body or b"")

    def _answered(self, response_dict: Mapping[str, Any], event_name: str, **_: object) -> None:
        count = self._requests(event_name)
        count.requests += 1
        count.errors += response_dict["status_code"] >= 400
        count.response_bytes += len(response_dict["body"])

    def _requests(self, event_name: str) -> Requests:
        _, service, operation = event_name.split(".")
        return self.requests.setdefault((service, operation), Requests())


def attribute_bytes(attributes: Mapping[str, Mapping[str, str]]) -> int:
    """The size of message attributes as the limit counts it."""
    return sum([len(name) + text_bytes(attribute.values()) for name, attribute in attributes.items()])


def text_bytes(texts: Iterable[str]) -> int:
    return sum([len(text.encode()) for text in texts])
