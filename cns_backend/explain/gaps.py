"""Names the facts about a message that could not be found out, as sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from cns_backend.explain.queue_search import QueueSearch
from cns_common.events.search import EventGap, SearchResult

GAPS_SHOWN_MAX = 3


class EventDirectories(NamedTuple):
    """The directories of events. `shared`: processes on other machines write to others."""

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
    """Name what is missing in events, queues, and the subscriptions, which were not all read unless `complete`."""
    if not source.written:
        yield "Events are off (CNS_EVENTS=off): what happened is not recorded, only jobs in the queues are known."
    if source.shared:
        yield (
            f"Events are those of the processes that write to {source.directories[0]}: to read those of other"
            " machines, name copies of their directories with --events."
        )
    if not accepted:
        yield from _removed(source, [gap for gap in found.gaps if gap.removed])
    yield from _gaps([gap for gap in found.gaps if not gap.removed])
    if found.unread:
        yield f"{found.unread} lines name the message and are of another version of the schema: they were not read."
    if found.left_out:
        yield (
            f"The message went to more subscriptions than are told of: {found.left_out} more events were not read. Ask"
            " for a subscription by its ARN."
        )
    if queues.unreadable:
        yield f"{queues.unreadable} of its jobs cannot be read: `cns quarantine list` shows them, once in quarantine."
    for queue in queues.unfinished:
        yield f"The queue {queue} is too long to be searched: jobs at its end were not seen."
    if topic_gone:
        yield "The topic does not exist any more, so its subscriptions are not known."
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
        yield f"Events of {name} are missing in part or whole: what they recorded is not known."
    if len(gaps) > GAPS_SHOWN_MAX:
        yield f"{len(gaps) - GAPS_SHOWN_MAX} more gaps like these."
