"""A message's life for people to read: a line an event, with its time since the publish."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cns.delivery.envelope import timestamp_text
from cns.delivery.jobs import LANES, QUARANTINE
from cns_cli.explain.model import UNDELIVERED, End, Fate, Life, Place, Story
from cns_common.events.schema import DeliveryAttempted, PublishAccepted

LIVES_SHOWN_MAX = 20
"""Of more subscriptions, those are shown that have not got the message, and of these so many."""
ATTEMPTS_SHOWN = 3
"""Of a subscription's attempts: the first ones, and as many of the last."""
TEXT_IN = {
    "job": "is in its job",
    "store": "is in the store",
    "archive": "is in the topic's archive",
    "": "is not stored any more",
}
MB = 1_000_000


def render(story: Story) -> str:
    lines = [*_head(story), ""]
    if story.known:
        lines += [*_topic_wide(story), *_totals(story)]
        for life in _shown(story):
            lines += ["", *_life(life, story)]
        hidden = _hidden(story)
        if hidden:
            lines += ["", hidden]
        lines.append("")
    lines += [*story.unknown, _searched(story)]
    return "\n".join(_line(line) for line in lines)


def _head(story: Story) -> Iterator[str]:
    if not story.known:
        yield f"Nothing is known of a message {story.message_id}."
        return
    yield f"message    {story.message_id}" + ("" if story.message_type == "Notification" else f" {story.message_type}")
    if story.topic:
        yield f"topic      {story.topic}"
    if story.published_ms:
        ago = _span(story.asked_ms - story.published_ms)
        yield f"published  {timestamp_text(story.published_ms)}, {ago} ago; the message {TEXT_IN[story.text_in]}"


def _topic_wide(story: Story) -> Iterator[str]:
    """What is of no one subscription."""
    accepted = story.accepted
    if accepted is not None:
        yield _at(accepted.at_ms, story) + f"accepted, {accepted.size_bytes} bytes, {_for_whom(accepted)}"
    if story.filtered is not None:
        yield f"{'':10} kept by filters from {_many(story.filtered, 'subscription')}"
    for place in story.fan_outs:
        yield f"{'':10} {_fan_out(place)}"
    for drop in story.drops:
        yield _at(drop.at_ms, story) + f"dropped: {drop.cause}"


def _for_whom(accepted: PublishAccepted) -> str:
    if accepted.jobs:
        return "for delivery"
    if not accepted.topic:
        return "for nobody: the phone number has opted out, or is not verified"
    return "for nobody: no subscription was to get it"


def _totals(story: Story) -> Iterator[str]:
    if story.totals:
        totals = ", ".join(f"{n} {fate}" for fate, n in story.totals.items())
        yield f"{_many(len(story.lives), 'subscription')}: {totals}"
    elif story.topic:
        yield "no subscription is known to have been meant"


def _shown(story: Story) -> Sequence[Life]:
    order = [*UNDELIVERED, *Fate]
    lives = sorted(story.lives, key=lambda life: order.index(life.fate))
    if len(lives) > LIVES_SHOWN_MAX:
        lives = [life for life in lives if life.fate in UNDELIVERED][:LIVES_SHOWN_MAX]
    return lives


def _hidden(story: Story) -> str:
    hidden = len(story.lives) - len(_shown(story))
    return f"{hidden} more: `--subscription ARN` shows one of them, `--json` all." if hidden else ""


def _life(life: Life, story: Story) -> Iterator[str]:
    yield " ".join(filter(None, [f"{life.fate.value.upper()}:", life.protocol, life.endpoint]))
    if life.subscription:
        yield f"  {life.subscription}"
    first, last = life.attempts[:ATTEMPTS_SHOWN], life.attempts[ATTEMPTS_SHOWN:]
    for attempt in first:
        yield "  " + _at(attempt.at_ms, story) + _attempt(attempt)
    if len(last) > ATTEMPTS_SHOWN:
        yield f"  {'':10} … {_many(len(last) - ATTEMPTS_SHOWN, 'more attempt')} …"
    for attempt in last[-ATTEMPTS_SHOWN:]:
        yield "  " + _at(attempt.at_ms, story) + _attempt(attempt)
    for end in life.ends:
        yield "  " + _at(end.at_ms, story) + _end(end)
    if life.fate not in (Fate.DELIVERED, Fate.DEAD_LETTERED, Fate.DROPPED):
        for place in life.places:
            yield f"  {'':10} {_place(place, story)}"
    if life.reason:
        yield f"  {'':10} {life.reason}"


def _attempt(attempt: DeliveryAttempted) -> str:
    status = f" {attempt.status}" if attempt.status else ""
    answer = f"{attempt.cause}{status}" if attempt.cause else f"taken{status}"
    said = attempt.reason.removeprefix(f"HTTP {attempt.status}").strip(" :")
    reason = f": {said}" if said else ""
    return f"attempt {attempt.attempt} ({attempt.phase}): {answer} after {attempt.duration_ms} ms{reason}"


def _end(end: End) -> str:
    match end.fate:
        case Fate.DELIVERED:
            return f"delivered, {_span(end.since_publish_ms)} after it was published"
        case Fate.DEAD_LETTERED:
            return f"to the dead-letter queue {end.queue}: {end.cause}"
        case _:
            return f"dropped: {end.cause}" + (f": {end.reason}" if end.reason else "")


def _place(place: Place, story: Story) -> str:
    if place.queue == QUARANTINE:
        return "set aside in quarantine"
    when = f"{timestamp_text(place.due_ms)}, in {_span(place.due_ms - story.asked_ms)}"
    if place.under_way:
        return f"attempt {place.failures + 1} is under way; its lease is good until {when}"
    now = place.due_ms <= story.asked_ms
    if place.behind:
        return f"attempt {place.failures + 1} waits behind {_many(place.behind, 'message')} in {place.queue}"
    if place.queue == LANES:
        at = "" if now else f", at the latest {when}"
        return f"attempt {place.failures + 1} waits for room at its endpoint{at}"
    return f"attempt {place.failures + 1} " + ("is due now" if now else f"is due at {when}") + f" ({place.queue})"


def _fan_out(place: Place) -> str:
    state = "under way" if place.under_way else "waiting"
    behind = f" behind {_many(place.behind, 'message')}" if place.behind else ""
    begun = f", come to {place.cursor}" if place.cursor else ""
    return f"fan-out {state}{behind} in {place.queue}{begun}"


def _searched(story: Story) -> str:
    done = story.searched
    speed = f", {done.bytes / MB / (done.took_ms / 1000):.0f} MB/s" if done.took_ms and done.bytes > MB else ""
    return (
        f"Looked through {_many(done.jobs, 'job')} in the queues and {_many(done.segments, 'segment')} of events"
        f" ({done.bytes / MB:.1f} MB in {done.took_ms} ms{speed})."
    )


def _at(at_ms: int, story: Story) -> str:
    since_ms = at_ms - story.began_ms
    return f"{'+' + _span(since_ms):10} " if since_ms >= 0 else f"{'-' + _span(-since_ms):10} "


def _span(span_ms: int) -> str:
    if span_ms < 100_000:
        return f"{span_ms / 1000:.3f} s" if span_ms < 10_000 else f"{span_ms / 1000:.1f} s"
    minutes, seconds = divmod(span_ms // 1000, 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def _many(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _line(text: str) -> str:
    """Without what could steer a terminal."""
    return "".join(character if character.isprintable() else " " for character in text).rstrip()
