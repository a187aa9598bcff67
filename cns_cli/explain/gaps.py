"""What could not be found out about a message, in sentences: what nobody knows is said, and never made up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from cns_cli.explain.queue_search import Looked
from cns_common.events.search import Gap, SearchResult

GAPS_SHOWN_MAX = 3


class Events(NamedTuple):
    """Where they are written, if they are. `shared`: processes on other machines write theirs elsewhere."""

    directories: tuple[Path, ...]
    written: bool
    shared: bool
    tables: Path  # which the pipeline has made of them


def unknowns(
    events: Events, found: SearchResult, looked: Looked, *, accepted: bool, topic_gone: bool, audience_whole: bool
) -> Iterator[str]:
    if not events.written:
        yield "Events are off (CNS_EVENTS=off): what happened is not told, only what waits in the queues is known."
    if events.shared:
        yield (
            f"Events are those of the processes that write to {events.directories[0]}: what the others told is read"
            " from copies of their directories, given as --events."
        )
    if not accepted:
        yield from _before(events, [gap for gap in found.gaps if gap.removed])
    yield from _gaps([gap for gap in found.gaps if not gap.removed])
    if found.unread:
        yield f"{found.unread} lines name the message and are of another version of the schema: they were not read."
    if looked.unreadable:
        yield f"{looked.unreadable} of its jobs cannot be read: `cns quarantine list` has them, once set aside."
    for queue in looked.unfinished:
        yield f"The queue {queue} is too long to be looked through: what is far behind in it was not seen."
    if topic_gone:
        yield "The topic is not there any more, nor what its subscriptions were."
    if not audience_whole:
        yield "The topic has more subscriptions than were read: of those behind, only what was told is known."


def _before(events: Events, removed: Sequence[Gap]) -> Iterator[str]:
    if not removed:
        return
    said = "Older events were removed when their time or their room was over"
    if events.tables.is_dir():
        yield f"{said}; {events.tables} has those that the pipeline had read by then."
    else:
        yield f"{said}: what they told is not known."


def _gaps(gaps: Sequence[Gap]) -> Iterator[str]:
    for gap in gaps[:GAPS_SHOWN_MAX]:
        numbers = f"from number {gap.first_sequence}"
        if gap.last_sequence is not None:
            numbers += f" to {gap.last_sequence}"
        yield f"Events of {gap.process} {gap.boot} {numbers} are missing in part or whole: what they told is not known."
    if len(gaps) > GAPS_SHOWN_MAX:
        yield f"{len(gaps) - GAPS_SHOWN_MAX} more gaps like these."
