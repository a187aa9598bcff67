"""States in sentences what could not be found out about a message."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from cns_backend.explain.queue_search import QueueSearch
from cns_common.events.search import EventGap, SearchResult

GAPS_SHOWN_MAX = 3


class EventDirectories(NamedTuple):
    """The directories of events. `shared`: processes on other machines write to directories of their own."""

    directories: tuple[Path, ...]
    written: bool
    shared: bool
    tables: Path  # made from the events by the pipeline


def unknown_facts(
    source: EventDirectories,
    found: SearchResult,
    queues: QueueSearch,
    *,
    accepted: bool,
    topic_gone: bool,
    complete: bool,
) -> Iterator[str]:
    """Name what is missing in events, in queues, and among the subscriptions, unless all were read (`complete`)."""
    if not source.written:
        yield "Events are off (CNS_EVENTS=off): nothing is recorded, only jobs in the queues are known."
    if source.shared:
        yield (
            f"Only events of processes that write to {source.directories[0]} were read: for those of other machines,"
            " name copies of their directories with --events."
        )
    if not accepted:
        yield from _removed(source, [gap for gap in found.gaps if gap.removed])
    yield from _gaps([gap for gap in found.gaps if not gap.removed])
    if found.unread:
        yield f"{found.unread} lines about the message were not read: their schema has another version."
    if found.left_out:
        yield (
            f"The message went to more subscriptions than are shown: {found.left_out} more events were not read. Ask"
            " for a subscription by its ARN."
        )
    if queues.unreadable:
        yield f"{queues.unreadable} of its jobs cannot be read: `cns quarantine list` shows them in quarantine."
    for queue in queues.unfinished:
        yield f"The queue {queue} is too long to be searched: jobs near its end were not searched."
    if topic_gone:
        yield "The topic no longer exists, so its subscriptions are not known."
    if not complete:
        yield "The topic has more subscriptions than were read: of the others, only their events are known."


def _removed(source: EventDirectories, removed: Sequence[EventGap]) -> Iterator[str]:
    if not removed:
        return
    text = "Older events were removed by the retention"
    if source.tables.is_dir():
        yield f"{text}; {source.tables} has those that the pipeline had ingested."
    else:
        yield f"{text}: what they recorded is not known."


def _gaps(gaps: Sequence[EventGap]) -> Iterator[str]:
    for gap in gaps[:GAPS_SHOWN_MAX]:
        numbers = f"from number {gap.first_sequence}"
        if gap.last_sequence is not None:
            numbers += f" to {gap.last_sequence}"
        name = f"{gap.process} {gap.boot} {numbers}"
        yield f"Events of {name} are missing, some or all: what they recorded is not known."
    if len(gaps) > GAPS_SHOWN_MAX:
        yield f"{len(gaps) - GAPS_SHOWN_MAX} more gaps like these."
