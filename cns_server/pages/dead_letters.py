"""The list of dead-letter queues, with the queues and subscriptions whose messages go there."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from fastapi import FastAPI, Request, Response

from cns_common.arn import parse_arn
from cns_common.errors import CnsError
from cns_server.pages.context import PageContext
from cns_server.pages.sessions import Session
from cns_server.pages.sources import EventReader, PageSources
from cns_server.pages.views import activity
from cns_server.rest.calls import RestCall
from cns_server.rest.models import Statistics
from cns_server.rest.problems import Problem
from cns_server.rest.queues import QueueRoutes

SCANNED = 500
"""Queues whose redrive policies one page reads."""


@dataclass(slots=True)
class DeadLetterRow:
    name: str
    queues: list[str] = field(default_factory=list)
    subscriptions: list[tuple[str, str]] = field(default_factory=list)  # topic, id
    counts: Statistics | None = None


class DeadLetterPages:
    def __init__(self, context: PageContext, queues: QueueRoutes, sources: PageSources, reader: EventReader) -> None:
        self._context = context
        self._queues = queues
        self._cache = sources.queues.cache
        self._reader = reader

    def add_to(self, app: FastAPI) -> None:
        app.add_api_route("/dead-letters", self.list_queues, methods=["GET"])

    async def list_queues(self, request: Request, after: str = "") -> Response:
        session, rest = self._context.call(request)
        page = await self._queues.list_queues(rest, session.account, "", after, SCANNED)
        rows: dict[str, DeadLetterRow] = {}
        for name in page.queues:
            view = await self._cache.find((session.account, session.region, name))
            if view is not None and view.dead_letter_key is not None:
                target = view.dead_letter_key[2]
                rows.setdefault(target, DeadLetterRow(target)).queues.append(name)
        recent = await self._reader.recent(session)
        if not after:
            self._add_subscriptions(rows, session, activity.dead_letter_sources(recent.events))
        await asyncio.gather(*[self._count(rest, session, row) for row in rows.values()])
        shown = [rows[name] for name in sorted(rows)]
        return self._context.page(
            request, "dead_letters.html", session, rows=shown, after=after, next=page.next, since_ms=recent.since_ms
        )

    def _add_subscriptions(
        self, rows: dict[str, DeadLetterRow], session: Session, sources: dict[str, set[str]]
    ) -> None:
        for queue, subscriptions in sources.items():
            arn = parse_arn(queue)
            if arn is not None and (arn.account, arn.region) == (session.account, session.region):
                row = rows.setdefault(arn.resource, DeadLetterRow(arn.resource))
                row.subscriptions += [(one.split(":")[-2], one.split(":")[-1]) for one in sorted(subscriptions)]

    async def _count(self, rest: RestCall, session: Session, row: DeadLetterRow) -> None:
        """No counts for a queue that does not exist, or whose policy denies it."""
        try:
            row.counts = await self._queues.queue_statistics(rest, session.account, row.name)
        except (CnsError, Problem):
            row.counts = None
