"""Event sinks that keep the events."""

from __future__ import annotations

from collections.abc import Sequence

from cns_common.errors import OutcomeUnknown, StoreUnavailable
from cns_common.events.audit_events import AuditEvent
from cns_common.events.schema import Event
from cns_common.metrics.model import Sample


class RecordedEvents:
    """See `cns_common.events.schema.EventSink`."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        self.events.append(event)


class RecordedAudit:
    """See `cns_common.events.audit_log.AuditLog`."""

    def __init__(self) -> None:
        self.events: list[AuditEvent] = []
        self.refuses = False
        """Whether `check` raises."""
        self.fails = False
        """Whether `write` raises, as if the disk had begun to refuse after `check`."""

    def check(self) -> None:
        if self.refuses:
            raise StoreUnavailable("refused")

    async def write(self, events: Sequence[AuditEvent]) -> None:
        if self.fails:
            raise OutcomeUnknown("not written")
        self.events += events

    def samples(self) -> list[Sample]:
        return []

    def close(self) -> None:
        """Nothing is open."""
