"""The list of dead-letter queues, with the queues and subscriptions whose messages go there."""

from __future__ import annotations

from fastapi import FastAPI, Request, Response

from cns_server.pages.context import PageContext
from cns_server.rest.deliveries.dead_letters import DeadLetterRoutes


class DeadLetterPages:
    def __init__(self, context: PageContext, dead_letters: DeadLetterRoutes) -> None:
        self._context = context
        self._dead_letters = dead_letters

    def add_to(self, app: FastAPI) -> None:
        app.add_api_route("/dead-letters", self.list_queues, methods=["GET"])

    async def list_queues(self, request: Request, after: str = "") -> Response:
        session, rest = await self._context.call(request)
        page = await self._dead_letters.list_dead_letter_queues(rest, session.account, after)
        values = {"rows": page.dead_letter_queues, "after": after, "next": page.next}
        return self._context.page(request, "dead_letters.html", session, **values)
