"""An event sink that keeps the events."""

from __future__ import annotations

from cns_common.events.schema import Event


class RecordedEvents:
    """See `cns_common.events.schema.EventSink`."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        self.events.append(event)
