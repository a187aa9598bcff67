"""The sources of the pages beside the REST API: the backend, the events on this machine, the data directory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakValueDictionary

from cns.authorization import Access
from cns_backend.backend import Backend
from cns_backend.explain.gaps import EventDirectories
from cns_common.configuration.settings import Settings
from cns_common.events.recent_events import RecentEvents, recent_events
from cns_server.health import ServiceHealth
from cns_server.pages.sessions import Session
from cqs.service import QueueService

SEARCHES_MAX = 2
"""Searches of the events at once, of an account one: each is a thread that reads files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSources:
    settings: Settings
    backend: Backend
    queues: QueueService
    access: Access
    health: Callable[[], Awaitable[ServiceHealth]]


class EventReader:
    """Reads events for pages, a few at once. The searches of one account do not hold up those of all others."""

    def __init__(self, settings: Settings) -> None:
        self._room = asyncio.Semaphore(SEARCHES_MAX)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.source = EventDirectories(
            directories=(settings.events_path,),
            written=settings.events == "on",
            shared=settings.store == "cassandra",
            tables=settings.data / "pipeline" / "events",
        )

    @asynccontextmanager
    async def room(self, account: str) -> AsyncIterator[None]:
        turn = self._turns.setdefault(account, asyncio.Lock())
        async with turn, self._room:
            yield

    async def recent(self, session: Session) -> RecentEvents:
        """The latest events of the person's account and region, as far as they are read."""
        directories: tuple[Path, ...] = self.source.directories
        async with self.room(session.account):
            return await asyncio.to_thread(recent_events, directories, session.account, session.region)
