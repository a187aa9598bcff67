"""The view of the page of one message, made from an explanation of `cns_backend.explain`, without I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from cns.delivery.failure_causes import Why
from cns_backend.explain.labels import (
    TEXT_IN,
    acceptance_text,
    attempt_text,
    count_text,
    fan_out_text,
    location_text,
    outcome_text,
    span_text,
)
from cns_backend.explain.model import UNDELIVERED, DeliveryHistory, DeliveryStatus, Explanation

HISTORIES_SHOWN_MAX = 100
STEPS_SHOWN_MAX = 40
"""The last steps of one subscription are shown; earlier ones are left out."""
Tone = Literal["good", "bad", "wait", "none"]
_TONES: Mapping[DeliveryStatus, Tone] = {
    DeliveryStatus.DELIVERED: "good",
    DeliveryStatus.DEAD_LETTERED: "bad",
    DeliveryStatus.DROPPED: "bad",
    DeliveryStatus.QUARANTINED: "bad",
    DeliveryStatus.WAITING: "wait",
    DeliveryStatus.UNDER_WAY: "wait",
}
_ENDED = (DeliveryStatus.DELIVERED, DeliveryStatus.DEAD_LETTERED, DeliveryStatus.DROPPED)


class Step(NamedTuple):
    """A point of a timeline. `at_ms` is 0 for what has no time, such as what is still to come."""

    after: str
    at_ms: int
    text: str
    tone: Tone


class HistoryView(NamedTuple):
    subscription: str  # ARN
    id: str
    topic: str  # name
    protocol: str
    endpoint: str
    status: str
    tone: Tone
    why: Why | None
    reason: str
    steps: tuple[Step, ...]
    steps_left_out: int


class MessageView(NamedTuple):
    topic: str  # name; '' for a publish to a phone number
    published_ms: int
    stored: str
    why: Why | None  # for the whole message, where no subscription has a reason of its own
    steps: tuple[Step, ...]
    histories: tuple[HistoryView, ...]
    left_out: int
    totals: tuple[tuple[str, int], ...]


def view_of(explanation: Explanation) -> MessageView:
    order = [*UNDELIVERED, *DeliveryStatus]
    histories = sorted(explanation.histories, key=lambda history: order.index(history.status))
    return MessageView(
        topic=topic_name(explanation.topic),
        published_ms=explanation.published_ms,
        stored=TEXT_IN[explanation.text_in],
        why=explanation.why,
        steps=tuple(_topic_steps(explanation)),
        histories=tuple(_history(one, explanation) for one in histories[:HISTORIES_SHOWN_MAX]),
        left_out=max(len(histories) - HISTORIES_SHOWN_MAX, 0),
        totals=tuple((status.value, n) for status, n in explanation.totals.items()),
    )


def topic_name(arn: str) -> str:
    return arn.rpartition(":")[2]


def _topic_steps(explanation: Explanation) -> Iterator[Step]:
    accepted = explanation.accepted
    if accepted is not None:
        text = f"accepted, {accepted.size_bytes} bytes, {acceptance_text(accepted)}"
        yield _step(accepted.at_ms, text, "good" if accepted.has_recipients else "none", explanation)
    if explanation.filtered:
        kept_from = count_text(explanation.filtered, "subscription")
        yield Step("in all", 0, f"filter policies kept it from {kept_from}", "none")
    for location in explanation.fan_outs:
        yield Step("next", 0, fan_out_text(location), "wait")
    for drop in explanation.drops:
        yield _step(drop.at_ms, outcome_text(drop), "bad", explanation)


def _history(history: DeliveryHistory, explanation: Explanation) -> HistoryView:
    steps = list(_steps(history, explanation))
    return HistoryView(
        subscription=history.subscription,
        id=history.subscription.rpartition(":")[2],
        topic=topic_name(explanation.topic),
        protocol=history.protocol,
        endpoint=history.endpoint,
        status=history.status.value,
        tone=_TONES.get(history.status, "none"),
        why=history.why,
        reason=history.reason,
        steps=tuple(steps[-STEPS_SHOWN_MAX:]),
        steps_left_out=max(len(steps) - STEPS_SHOWN_MAX, 0),
    )


def _steps(history: DeliveryHistory, explanation: Explanation) -> Iterator[Step]:
    for attempt in history.attempts:
        tone: Tone = "bad" if attempt.cause else "good"
        yield _step(attempt.at_ms, attempt_text(attempt), tone, explanation)
    for outcome in history.outcomes:
        yield _step(outcome.at_ms, outcome_text(outcome), _TONES.get(outcome.status, "none"), explanation)
    if history.status not in _ENDED:
        for location in history.locations:
            yield Step("next", 0, location_text(location, explanation), "wait")


def _step(at_ms: int, text: str, tone: Tone, explanation: Explanation) -> Step:
    after_ms = at_ms - explanation.began_ms
    sign = "+" if after_ms >= 0 else "-"
    return Step(f"{sign}{span_text(abs(after_ms))}", at_ms, text, tone)
