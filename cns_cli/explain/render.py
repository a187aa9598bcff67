"""The text of `cns explain`: one line per event, with its time since the publish."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cns.delivery.envelope import timestamp_text
from cns.delivery.jobs import LANES, QUARANTINE
from cns_backend.explain.model import (
    UNDELIVERED,
    DeliveryHistory,
    DeliveryStatus,
    Explanation,
    FinalOutcome,
    JobLocation,
)
from cns_common.events.schema import DeliveryAttempted, PublishAccepted

HISTORIES_SHOWN_MAX = 20
"""If there are more, only subscriptions without the message are shown, at most so many."""
ATTEMPTS_SHOWN = 3
"""So many of a subscription's first attempts are shown, and as many of its last."""
TEXT_IN = {
    "job": "is in its job",
    "store": "is in the store",
    "archive": "is in the topic's archive",
    "": "is not stored any more",
}
MB = 1_000_000


def render(explanation: Explanation) -> str:
    lines = [*_head(explanation), ""]
    if explanation.known:
        lines += [*_topic_lines(explanation), *_totals(explanation)]
        for history in _shown(explanation):
            lines += ["", *_history_lines(history, explanation)]
        hidden = _hidden(explanation)
        if hidden:
            lines += ["", hidden]
        lines.append("")
    lines += [*explanation.unknown, _searched(explanation)]
    return "\n".join(_line(line) for line in lines)


def _head(explanation: Explanation) -> Iterator[str]:
    if not explanation.known:
        yield f"Nothing is known of a message {explanation.message_id}."
        return
    message_type = "" if explanation.message_type == "Notification" else f" {explanation.message_type}"
    yield f"message    {explanation.message_id}{message_type}"
    if explanation.topic:
        yield f"topic      {explanation.topic}"
    if explanation.published_ms:
        ago = _span(explanation.asked_ms - explanation.published_ms)
        published = timestamp_text(explanation.published_ms)
        yield f"published  {published}, {ago} ago; the message {TEXT_IN[explanation.text_in]}"


def _topic_lines(explanation: Explanation) -> Iterator[str]:
    accepted = explanation.accepted
    if accepted is not None:
        yield _at(accepted.at_ms, explanation) + f"accepted, {accepted.size_bytes} bytes, {_acceptance(accepted)}"
    if explanation.filtered is not None:
        yield f"{'':10} kept by filters from {_count(explanation.filtered, 'subscription')}"
    for location in explanation.fan_outs:
        yield f"{'':10} {_fan_out(location)}"
    for drop in explanation.drops:
        yield _at(drop.at_ms, explanation) + f"dropped: {drop.cause}"


def _acceptance(accepted: PublishAccepted) -> str:
    if accepted.jobs:
        return "for delivery"
    if not accepted.topic:
        return "for no delivery: the phone number has opted out, or is not verified"
    return "for no delivery: no subscription should get it"


def _totals(explanation: Explanation) -> Iterator[str]:
    if explanation.totals:
        totals = ", ".join(f"{n} {status}" for status, n in explanation.totals.items())
        yield f"{_count(len(explanation.histories), 'subscription')}: {totals}"
    elif explanation.topic:
        yield "no subscription is known that should get it"


def _shown(explanation: Explanation) -> Sequence[DeliveryHistory]:
    order = [*UNDELIVERED, *DeliveryStatus]
    histories = sorted(explanation.histories, key=lambda history: order.index(history.status))
    if len(histories) > HISTORIES_SHOWN_MAX:
        histories = [history for history in histories if history.status in UNDELIVERED][:HISTORIES_SHOWN_MAX]
    return histories


def _hidden(explanation: Explanation) -> str:
    hidden = len(explanation.histories) - len(_shown(explanation))
    return f"{hidden} more: `--subscription ARN` shows one of them, `--json` all." if hidden else ""


def _history_lines(history: DeliveryHistory, explanation: Explanation) -> Iterator[str]:
    yield " ".join(filter(None, [f"{history.status.value.upper()}:", history.protocol, history.endpoint]))
    if history.subscription:
        yield f"  {history.subscription}"
    first, last = history.attempts[:ATTEMPTS_SHOWN], history.attempts[ATTEMPTS_SHOWN:]
    for attempt in first:
        yield "  " + _at(attempt.at_ms, explanation) + _attempt(attempt)
    if len(last) > ATTEMPTS_SHOWN:
        yield f"  {'':10} … {_count(len(last) - ATTEMPTS_SHOWN, 'more attempt')} …"
    for attempt in last[-ATTEMPTS_SHOWN:]:
        yield "  " + _at(attempt.at_ms, explanation) + _attempt(attempt)
    for outcome in history.outcomes:
        yield "  " + _at(outcome.at_ms, explanation) + _outcome(outcome)
    if history.status not in (DeliveryStatus.DELIVERED, DeliveryStatus.DEAD_LETTERED, DeliveryStatus.DROPPED):
        for location in history.locations:
            yield f"  {'':10} {_location(location, explanation)}"
    if history.reason:
        yield f"  {'':10} {history.reason}"


def _attempt(attempt: DeliveryAttempted) -> str:
    status = f" {attempt.status}" if attempt.status else ""
    answer = f"{attempt.cause}{status}" if attempt.cause else f"taken{status}"
    answer_text = attempt.reason.removeprefix(f"HTTP {attempt.status}").strip(" :")
    reason = f": {answer_text}" if answer_text else ""
    return f"attempt {attempt.attempt} ({attempt.phase}): {answer} after {attempt.duration_ms} ms{reason}"


def _outcome(outcome: FinalOutcome) -> str:
    match outcome.status:
        case DeliveryStatus.DELIVERED:
            return f"delivered, {_span(outcome.since_publish_ms)} after it was published"
        case DeliveryStatus.DEAD_LETTERED:
            return f"to the dead-letter queue {outcome.queue}: {outcome.cause}"
        case _:
            return f"dropped: {outcome.cause}" + (f": {outcome.reason}" if outcome.reason else "")


def _location(location: JobLocation, explanation: Explanation) -> str:
    if location.queue == QUARANTINE:
        return "in quarantine"
    when = f"{timestamp_text(location.due_ms)}, in {_span(location.due_ms - explanation.asked_ms)}"
    if location.under_way:
        return f"attempt {location.failures + 1} is under way; its lease is good until {when}"
    now = location.due_ms <= explanation.asked_ms
    if location.behind:
        return f"attempt {location.failures + 1} waits behind {_count(location.behind, 'message')} in {location.queue}"
    if location.queue == LANES:
        at = "" if now else f", at the latest {when}"
        return f"attempt {location.failures + 1} waits for room at its endpoint{at}"
    return f"attempt {location.failures + 1} " + ("is due now" if now else f"is due at {when}") + f" ({location.queue})"


def _fan_out(location: JobLocation) -> str:
    state = "under way" if location.under_way else "waiting"
    behind = f" behind {_count(location.behind, 'message')}" if location.behind else ""
    cursor = f", at {location.cursor}" if location.cursor else ""
    return f"fan-out {state}{behind} in {location.queue}{cursor}"


def _searched(explanation: Explanation) -> str:
    searched = explanation.searched
    mb, seconds = searched.bytes / MB, searched.took_ms / 1000
    speed = f", {mb / seconds:.0f} MB/s" if seconds and mb > 1 else ""
    jobs, segments = _count(searched.jobs, "job"), _count(searched.segments, "segment")
    return (
        f"Looked through {jobs} in the queues and {segments} of events ({mb:.1f} MB in {searched.took_ms} ms{speed})."
    )


def _at(at_ms: int, explanation: Explanation) -> str:
    since_ms = at_ms - explanation.began_ms
    return f"{'+' + _span(since_ms):10} " if since_ms >= 0 else f"{'-' + _span(-since_ms):10} "


def _span(span_ms: int) -> str:
    if span_ms < 100_000:
        return f"{span_ms / 1000:.3f} s" if span_ms < 10_000 else f"{span_ms / 1000:.1f} s"
    minutes, seconds = divmod(span_ms // 1000, 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _line(text: str) -> str:
    """Replace control characters, which could steer a terminal, by spaces."""
    return "".join(character if character.isprintable() else " " for character in text).rstrip()
