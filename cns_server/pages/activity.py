"""The page of administrative acts, for operators."""

from __future__ import annotations

from fastapi import FastAPI, Request, Response

from cns_common.activity.search import ActFilter
from cns_server.pages.context import PageContext
from cns_server.rest.activity import ActRoutes

SHOWN = 200
FILTER_CHARS_MAX = 500


class ActPages:
    def __init__(self, context: PageContext, acts: ActRoutes) -> None:
        self._context = context
        self._acts = acts

    def add_to(self, app: FastAPI) -> None:
        app.add_api_route("/acts", self.show, methods=["GET"])

    async def show(
        self, request: Request, action: str = "", account: str = "", target: str = "", failed: str = ""
    ) -> Response:
        """The newest acts, of those that match the fields."""
        session, rest = await self._context.call(request)
        action, account, target = (text.strip()[:FILTER_CHARS_MAX] for text in (action, account, target))
        wanted = ActFilter(action=action, account=account, target=target, only_failures=bool(failed))
        found = await self._acts.find(rest, wanted, SHOWN)
        return self._context.page(
            request, "acts.html", session, rows=found.events, complete=found.complete, wanted=wanted
        )
