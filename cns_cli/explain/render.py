"""The text of `cns explain`: one line per event, with its time since the publish."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cns.delivery.envelope import timestamp_text
from cns_backend.explain.labels import (
    TEXT_IN,
    acceptance_text,
    attempt_text,
    count_text,
    fan_out_text,
    location_text,
    one_line,
    outcome_text,
    span_text,
    why_text,
)
from cns_backend.explain.model import UNDELIVERED, DeliveryHistory, DeliveryStatus, Explanation

HISTORIES_SHOWN_MAX = 20
"""With more subscriptions, only those that did not get the message are shown, up to this number."""
ATTEMPTS_SHOWN = 3
"""The number of attempts that are shown from the start, and from the end, of a history."""
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
    return "\n".join(one_line(line) for line in lines)


def _head(explanation: Explanation) -> Iterator[str]:
    if not explanation.known:
        yield f"Nothing is known of a message {explanation.message_id}."
        return
    message_type = "" if explanation.message_type == "Notification" else f" {explanation.message_type}"
    yield f"message    {explanation.message_id}{message_type}"
    if explanation.topic:
        yield f"topic      {explanation.topic}"
    if explanation.published_ms:
        ago = span_text(explanation.asked_ms - explanation.published_ms)
        published = timestamp_text(explanation.published_ms)
        yield f"published  {published}, {ago} ago; the message {TEXT_IN[explanation.text_in]}"


def _topic_lines(explanation: Explanation) -> Iterator[str]:
    accepted = explanation.accepted
    if accepted is not None:
        yield _at(accepted.at_ms, explanation) + f"accepted, {accepted.size_bytes} bytes, {acceptance_text(accepted)}"
    if explanation.filtered is not None:
        yield f"{'':10} rejected by the filters of {count_text(explanation.filtered, 'subscription')}"
    for location in explanation.fan_outs:
        yield f"{'':10} {fan_out_text(location)}"
    for drop in explanation.drops:
        yield _at(drop.at_ms, explanation) + outcome_text(drop)
    if explanation.why is not None:
        yield f"{'':10} {why_text(explanation.why)}"


def _totals(explanation: Explanation) -> Iterator[str]:
    if explanation.totals:
        totals = ", ".join(f"{n} {status}" for status, n in explanation.totals.items())
        yield f"{count_text(len(explanation.histories), 'subscription')}: {totals}"
    elif explanation.topic:
        yield "no known subscription was to get it"


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
    if history.why is not None:
        yield f"  {'why':10} {why_text(history.why)}"
    first, last = history.attempts[:ATTEMPTS_SHOWN], history.attempts[ATTEMPTS_SHOWN:]
    for attempt in first:
        yield "  " + _at(attempt.at_ms, explanation) + attempt_text(attempt)
    if len(last) > ATTEMPTS_SHOWN:
        yield f"  {'':10} … {count_text(len(last) - ATTEMPTS_SHOWN, 'more attempt')} …"
    for attempt in last[-ATTEMPTS_SHOWN:]:
        yield "  " + _at(attempt.at_ms, explanation) + attempt_text(attempt)
    for outcome in history.outcomes:
        yield "  " + _at(outcome.at_ms, explanation) + outcome_text(outcome)
    if history.status not in (DeliveryStatus.DELIVERED, DeliveryStatus.DEAD_LETTERED, DeliveryStatus.DROPPED):
        for location in history.locations:
            yield f"  {'':10} {location_text(location, explanation)}"
    if history.reason:
        yield f"  {'':10} {history.reason}"


def _searched(explanation: Explanation) -> str:
    searched = explanation.searched
    mb, seconds = searched.bytes / MB, searched.took_ms / 1000
    speed = f", {mb / seconds:.0f} MB/s" if seconds and mb > 1 else ""
    waiting, files = count_text(searched.jobs, "waiting message"), count_text(searched.segments, "file")
    return f"Looked through {waiting} and {files} of events ({mb:.1f} MB in {searched.took_ms} ms{speed})."


def _at(at_ms: int, explanation: Explanation) -> str:
    since_ms = at_ms - explanation.began_ms
    return f"{'+' + span_text(since_ms):10} " if since_ms >= 0 else f"{'-' + span_text(-since_ms):10} "
