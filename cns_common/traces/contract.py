"""Spans as the service's parts see them, without OpenTelemetry, which is imported only where traces are on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol

Kind = Literal["server", "client", "producer", "consumer", "internal"]
Value = str | int | float | bool
Attributes = Mapping[str, Value]


class Span(Protocol):
    """A span that was begun. `context` is the traceparent for what it calls."""

    __slots__ = ()

    context: str

    def end(self, error: str = "", attributes: Attributes | None = None) -> None:
        """End it; `error` says in a word what failed."""
        ...


class Spans(Protocol):
    """Begins spans. `parent` is a traceparent; '' begins a trace."""

    def is_wanted(self, parent: str) -> bool:
        """Whether to record what the caller with this context asks for."""
        ...

    def start(self, name: str, kind: Kind, parent: str, attributes: Attributes) -> Span: ...

    def close(self) -> None:
        """Export what is left. It waits for the collector: call it in a thread."""
        ...
