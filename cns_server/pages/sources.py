"""Where the pages read from, beside the REST API: the backend, the events on this machine, the data directory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from cns_backend.backend import Backend
from cns_backend.explain.gaps import EventSource
from cns_common.configuration.settings import Settings
from cns_common.events.recent import RecentEvents, recent_events
from cns_server.health import Health
from cns_server.pages.sessions import Session
from cqs.service import QueueService

SEARCHES_MAX = 2
"""Searches of the events at once: each is a thread that reads files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSources:
    settings: Settings
    backend: Backend
    queues: QueueService
    health: Callable[[], Awaitable[Health]]


class EventReader:
    """Reads events for pages, a few at once."""

    def __init__(self, settings: Settings) -> None:
        self._room = asyncio.Semaphore(SEARCHES_MAX)
        self.source = EventSource(
            directories=(settings.events_path,),
            written=settings.events == "on",
            shared=settings.store == "cassandra",
            tables=settings.data / "pipeline" / "events",
        )

    @property
    def room(self) -> asyncio.Semaphore:
        return self._room

    async def recent(self, session: Session) -> RecentEvents:
        """The latest events of the person's account and region, as far as they are read."""
        directories: tuple[Path, ...] = self.source.directories
        async with self._room:
            return await asyncio.to_thread(recent_events, directories, session.account, session.region)
