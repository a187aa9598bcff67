"""Describes the history of a message: one sentence for each attempt, outcome and job."""

from __future__ import annotations

from cns.delivery.envelope import timestamp_text
from cns.delivery.failure_causes import Why, why_failed
from cns.delivery.jobs import LANES, QUARANTINE
from cns_backend.explain.model import DeliveryStatus, Explanation, FinalOutcome, JobLocation
from cns_common.events.schema import DeliveryAttempted, PublishAccepted

TEXT_IN = {
    "job": "is kept with its delivery",
    "store": "is in the store",
    "archive": "is in the topic's archive",
    "": "is no longer stored",
}
"""The places where the message itself is stored."""


def acceptance_text(accepted: PublishAccepted) -> str:
    if accepted.has_recipients:
        return "for delivery"
    if not accepted.topic:
        return "for no delivery"
    return "for no delivery: no subscription should get it"


def attempt_text(attempt: DeliveryAttempted) -> str:
    status = f" {attempt.status}" if attempt.status else ""
    answer = f"failed ({attempt.cause}{status})" if attempt.cause else f"accepted{status}"
    answer_text = attempt.reason.removeprefix(f"HTTP {attempt.status}").strip(" :")
    reason = f": {answer_text}" if answer_text else ""
    return f"attempt {attempt.attempt} ({attempt.phase}): {answer} after {attempt.duration_ms} ms{reason}"


def outcome_text(outcome: FinalOutcome) -> str:
    match outcome.status:
        case DeliveryStatus.DELIVERED:
            return f"delivered, {span_text(outcome.since_publish_ms)} after it was published"
        case DeliveryStatus.DEAD_LETTERED:
            return f"to the dead-letter queue {outcome.queue}: {_cause_text(outcome)}"
        case _:
            return f"dropped: {_cause_text(outcome)}" + (f": {outcome.reason}" if outcome.reason else "")


def _cause_text(outcome: FinalOutcome) -> str:
    """The cause in words, and its code in events and metrics."""
    return f"{why_failed(outcome.cause, outcome.reason).title} ({outcome.cause})"


def why_text(why: Why) -> str:
    return f"{why.title}. {why.advice}".rstrip()


def location_text(location: JobLocation, explanation: Explanation) -> str:
    if location.queue == QUARANTINE:
        return "in quarantine"
    number = location.failures + 1
    when = f"{timestamp_text(location.due_ms)}, in {span_text(location.due_ms - explanation.asked_ms)}"
    if location.under_way:
        return f"attempt {number} is under way; its lease is good until {when}"
    now = location.due_ms <= explanation.asked_ms
    if location.behind:
        line = "for its endpoint" if location.queue == LANES else "of its message group"
        return f"attempt {number} waits behind {count_text(location.behind, 'message')} {line}"
    if location.queue == LANES:
        at = "" if now else f", at the latest {when}"
        return f"attempt {number} waits for room at its endpoint{at}"
    return f"attempt {number} " + ("is due now" if now else f"is due at {when}")


def fan_out_text(location: JobLocation) -> str:
    state = "is under way" if location.under_way else "waits"
    behind = f" behind {count_text(location.behind, 'message')}" if location.behind else ""
    cursor = f", after subscription {location.cursor}" if location.cursor else ""
    return f"its distribution to the subscriptions {state}{behind}{cursor}"


def span_text(span_ms: int) -> str:
    if span_ms < 100_000:
        return f"{span_ms / 1000:.3f} s" if span_ms < 10_000 else f"{span_ms / 1000:.1f} s"
    minutes, seconds = divmod(span_ms // 1000, 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def count_text(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def one_line(text: str) -> str:
    """Replace control characters, which could steer a terminal, by spaces."""
    return "".join(character if character.isprintable() else " " for character in text).rstrip()
